//! The table of a fit: its features, target, weights and held-out rows, and the checks that all learners share.
//!
//! - [`labels`]: class labels, their order and their type; [`class_weight`] and [`weights`]: what rows weigh.
//! - [`checks`]: whether a table can be fitted at all; [`target`]: the target as numbers, and what rows weigh.
//! - [`counted`]: a table without rows of weight 0; [`training`]: without held-out rows.
//! - [`evaluation`]: what is read to measure rows; [`coded`]: borders of its features; [`row_groups`]: the groups that rows form;
//!   [`folds`]: how they are divided to validate; [`positions`]: where they were shown; [`event_times`]: when events of rows happened, as far
//!   as is known.
//! - [`row_keys`]: the order of rows that have keys, whatever order they come in.
//! - [`batches`]: features that are read in batches, for tables larger than memory; `kept_columns`: what is kept of their values.
//! - [`bins`]: how many bins features have.
//! - [`own_rows`]: the rows that this process has, where those of a fit lie in several.
//! - [`snapshots`]: what snapshots of a fit share.
//! - [`monitor`]: what watches a fit from outside; `shared_params`: the parameters that several learners have.

pub mod batches;
pub mod bins;
pub mod checks;
pub mod class_weight;
pub mod coded;
pub mod counted;
pub mod evaluation;
pub mod event_times;
pub mod folds;
pub(crate) mod kept_columns;
pub mod labels;
pub mod monitor;
pub mod own_rows;
pub mod positions;
pub mod row_groups;
pub mod row_keys;
pub(crate) mod shared_params;
pub mod snapshots;
pub mod target;
pub mod training;
pub mod weights;

pub use batches::{BatchedTable, Batches, FeatureBatches};
pub use bins::Bins;
pub use class_weight::{ClassWeight, LabelWeight};
pub use evaluation::{EvalSets, Evaluation};
pub use event_times::EventTimes;
pub use labels::{Label, Labels};
pub use monitor::{Monitor, Quiet};
pub use own_rows::OwnRows;
pub use snapshots::Snapshots;

use crate::column::Column;
use positions::Positions;
use std::borrow::Cow;

/// What is to be predicted.
#[derive(Clone)]
pub enum Target<'a> {
    /// Numbers, for regression (or probabilities, for `cross_entropy`).
    Numbers(Column<'a>),
    /// The class of each row as an index into `labels`.
    Classes { codes: &'a [u32], labels: Labels },
    /// Several numbers a row, one column each: of a regression, or 1 where a row has a label and 0 where not.
    Several(Vec<Column<'a>>),
}

impl Target<'_> {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Target::Numbers(column) => column.len(),
            Target::Classes { codes, .. } => codes.len(),
            Target::Several(columns) => columns.first().map_or(0, Column::len),
        }
    }

    /// The labels of classes.
    pub fn labels(&self) -> Option<&Labels> {
        match self {
            Target::Numbers(_) | Target::Several(_) => None,
            Target::Classes { labels, .. } => Some(labels),
        }
    }

    /// The columns of several targets; none of one.
    pub fn several(&self) -> &[Column<'_>] {
        match self {
            Target::Several(columns) => columns,
            _ => &[],
        }
    }
}

/// The table that a model is fitted on. All columns have the same length.
#[derive(Clone)]
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
    /// What a loss reads beside the target.
    pub loss_columns: LossColumns<'a>,
    /// What is read of rows to measure them.
    pub evaluation: Evaluation<'a>,
    /// Of each row its place in an order of the rows, such as that of their times: ordered statistics of categories then take the rows before a
    /// row in this order, and not in random ones. Rows of one place stand in their own order.
    pub order: Option<Cow<'a, [u32]>>,
}

/// What a loss reads of each row beside its target.
#[derive(Clone, Default)]
pub struct LossColumns<'a> {
    /// The group of each row; rows of a group need not stand side by side.
    pub groups: Option<Cow<'a, [u32]>>,
    /// The position at which each row was shown.
    pub positions: Option<Positions<'a>>,
    /// Numbers, in the order that the loss names them in.
    pub numbers: Vec<Column<'a>>,
    /// What is known of the times of rows' events.
    pub times: EventTimes<'a>,
}

impl Input<'_> {
    /// Returns the same table with other features.
    pub fn with_features<'s>(&'s self, features: Vec<Column<'s>>) -> Input<'s> {
        Input { features, ..self.clone() }
    }

    /// The number of rows that are measured on and not trained on.
    pub fn held_out_rows(&self) -> usize {
        self.held_out.map_or(0, |h| h.iter().filter(|x| **x).count())
    }
}
