//! Gradient-boosted trees.

mod constant;
pub(crate) mod counted;
mod derived;
mod finish;
mod fit;
pub mod loss;
pub mod metric;
mod monotone;
mod needed;
pub mod params;
pub(crate) mod prepare;
pub mod schema;
mod ties;
pub(crate) mod units;
pub(crate) mod weights;

pub(crate) use constant::Training;
pub use constant::constant;
pub(crate) use finish::unasked;
pub use fit::fit;
pub use params::BoostingParams;

use crate::column::Column;
use crate::model::Labels;

/// What is to be predicted.
#[derive(Clone)]
pub enum Target<'a> {
    /// Numbers, for regression (or probabilities, for `cross_entropy`).
    Numbers(Column<'a>),
    /// The class of each row as an index into `labels`.
    Classes { codes: &'a [u32], labels: Labels },
}

impl Target<'_> {
    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Target::Numbers(column) => column.len(),
            Target::Classes { codes, .. } => codes.len(),
        }
    }
}

/// The table that a model is fitted on. All columns have the same length.
pub struct Input<'a> {
    pub features: Vec<Column<'a>>,
    pub target: Target<'a>,
    pub target_name: String,
    /// Not negative, and not all zero. A row of weight 0 is as if it were not there.
    pub weight: Option<Column<'a>>,
    /// Scores to start from, one column for each output.
    pub baseline: Vec<Column<'a>>,
    /// Rows to measure on and not to train on.
    pub held_out: Option<&'a [bool]>,
}

impl Input<'_> {
    /// The number of rows that are measured on and not trained on.
    pub(crate) fn held_out_rows(&self) -> usize {
        self.held_out.map_or(0, |h| h.iter().filter(|x| **x).count())
    }
}

/// Watches a fit from outside.
pub trait Monitor: Sync {
    /// Called after each round, with the metric of the held-out rows; again from the first one on where the fit begins again
    /// ([`Monitor::device`]).
    fn round(&self, done: u32, total: u32, metric: Option<f64>) {
        let _ = (done, total, metric);
    }

    /// Called before the first round: the device that was taken, and why where `"auto"` chose it. Called again where that
    /// was a GPU which then had not the memory, before the fit begins again on the CPU: with that, and what was missing.
    fn device(&self, chosen: &str) {
        let _ = chosen;
    }

    /// Asked several times a round; `true` ends the fit with [`crate::Error::Interrupted`].
    fn interrupted(&self) -> bool {
        false
    }
}

/// Watches nothing.
pub struct Quiet;
impl Monitor for Quiet {}
