//! Random forests (Breiman, "Random forests", Machine Learning 45, 2001) and extremely randomised
//! trees (Geurts, Ernst and Wehenkel, Machine Learning 63, 2006).
//!
//! Each tree grows on rows drawn with replacement ([`bootstrap`]), and seeks the best split of a
//! node among a few features drawn for it. All that a tree depends on is integers: how often a row
//! was drawn, the counts of classes, sums of targets in fixed point; and its random choices are
//! keyed by (seed, tree, path to the node). So nothing depends on the order in which rows are
//! summed or nodes are grown, and threads, chunks and devices give the same bytes.
//!
//! ```text
//! columns ─ codes ─┐                         ┌─ draw features ─ sums by code ─ best split ─┐
//!                  ├─ rows of tree t ─ node ─┤                                             ├─ Forest
//! counts of tree t ┘   (row, count, class)   └─ divide the rows ─ children … or a leaf ────┘
//! ```

pub mod apply;
pub mod bootstrap;
pub mod codes;
pub mod envelope;
pub mod explain;
pub mod fit;
mod fitted;
mod from_json;
pub mod growing;
mod head;
pub mod impurity;
pub mod model;
mod oob;
pub mod params;
pub mod shap;
mod snapshot;
pub mod steps;
pub mod table;
mod together;
mod validate;
mod value_steps;

pub use apply::Predictor;
pub use fit::{FitOptions, constant, fit, fit_with};
pub use model::{Forest, OutOfBag, Tree};
pub use params::ForestParams;

use crate::column::Column;
use crate::dataset;
pub use crate::dataset::{Monitor, Quiet, Target};

/// The table that a forest is fitted on. All columns have the same length.
pub struct Input<'a> {
    pub features: Vec<Column<'a>>,
    pub target: Target<'a>,
    pub target_name: String,
    /// Not negative, and not all zero. A row of weight 0 is as if it were not there.
    pub weight: Option<Column<'a>>,
}

impl<'a> Input<'a> {
    /// Returns the same table as all learners check and prepare it.
    fn table(&self) -> dataset::Input<'a> {
        dataset::Input {
            features: self.features.clone(),
            target: self.target.clone(),
            target_name: self.target_name.clone(),
            weight: self.weight.clone(),
            baseline: vec![],
            held_out: None,
            loss_columns: Default::default(),
            evaluation: Default::default(),
            order: None,
        }
    }
}
