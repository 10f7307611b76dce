//! Sparse logistic regression: rows that are lists of a few of very many features.
//!
//! ```text
//! Arrow's lists, borrowed ─► rows of u32 feature numbers (borrowed where they are 32 bits wide) ─► checks
//!     ─► lbfgs: passes over all rows │ sgd, adagrad, ftrl: batches of rows ─► model bytes
//! ```
//!
//! [`fit`] lowers the objective of [`LinearParams`]; [`Predictor`] applies what it gives. Sums over rows are integers or go
//! over fixed blocks in their order, so a model has the same bytes whatever the device, the threads, the chunks and the integer type.

pub mod batches;
pub mod checks;
mod counted;
pub mod csr;
pub mod feature_scale;
mod fit;
pub mod held_out;
mod kept_rows;
pub mod lbfgs;
pub mod model;
pub mod needed;
pub mod params;
pub mod predict;
pub mod problem;
pub mod row;
pub mod rows;
pub mod rule;
pub mod schema;
pub mod shap;
pub mod snapshot;
pub mod steps;
pub mod vectors;
pub mod whole;

pub use fit::{FitOptions, constant, fit, fit_with};
pub use kept_rows::{KeptRows, RowBatches, VisitRows};
pub use model::LinearModel;
pub use params::{LinearParams, Optimizer};
pub use predict::Predictor;
pub use rows::{Items, ListChunk, ListColumn, Offsets, SparseRows, Texts, bucket};

use crate::column::Column;
use crate::dataset;
use crate::dataset::Target;
use crate::error::{Error, Result};

/// The table that a model is fitted on. All columns have the same length; there are sparse rows, or dense columns, or both.
#[derive(Clone)]
pub struct Input<'a> {
    pub sparse: Option<SparseRows<'a>>,
    /// Numeric columns beside the sparse rows, each a feature of its own, without nulls, NaN or infinite values.
    pub dense: Vec<Column<'a>>,
    /// [`Target::Classes`]: of two classes the second one is the one that a positive score speaks for.
    pub target: Target<'a>,
    pub target_name: String,
    /// Not negative, and not all zero. A row of weight 0 is as if it were not there.
    pub weight: Option<Column<'a>>,
    /// Rows to measure on and not to train on.
    pub held_out: Option<&'a [bool]>,
}

impl<'a> Input<'a> {
    /// The table without its sparse rows, as all learners check and prepare it.
    fn table(&self) -> dataset::Input<'a> {
        dataset::Input {
            features: self.dense.clone(),
            target: self.target.clone(),
            target_name: self.target_name.clone(),
            weight: self.weight.clone(),
            baseline: vec![],
            held_out: self.held_out,
            loss_columns: Default::default(),
            evaluation: Default::default(),
            order: None,
        }
    }
}

/// Checks that each value of a dense column is a number to multiply with.
///
/// # Errors
/// Naming the column.
pub fn check_dense(name: &str, values: &[f64]) -> Result<()> {
    let (missing, infinite) = values.iter().fold((0usize, 0usize), |(m, i), x| (m + x.is_nan() as usize, i + x.is_infinite() as usize));
    if missing + infinite == 0 {
        return Ok(());
    }
    let what = if missing > 0 { "null or NaN" } else { "infinite" };
    Err(Error::column(
        name,
        format!(
            "is {what} in {} of {} rows: a linear model needs a number in each; fill or filter them",
            if missing > 0 { missing } else { infinite },
            values.len()
        ),
    )
    .of_values())
}
