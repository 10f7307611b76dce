//! What shapes a tree.

use super::split::CategoryRules;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a tree grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// One split for a whole level (oblivious trees, as in CatBoost).
    #[default]
    Symmetric,
    /// Every node of a level by its own split (as in XGBoost).
    Depthwise,
    /// The leaf with the largest gain first (as in LightGBM).
    Leafwise,
}

/// What makes a split good and allowed, the same in every node of every tree; the meaning of each is in
/// [`crate::learners::boosting::BoostingParams`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SplitParams {
    pub l1: f64,
    pub l2: f64,
    pub min_child_weight: f64,
    /// 0: rows are not counted.
    pub min_data_in_leaf: i64,
    /// A split counts when its gain is larger.
    pub min_gain: f64,
    /// The largest absolute value of a leaf; infinite where there is no limit.
    pub max_delta_step: f64,
    /// How many rows a leaf needs for its value to be as much its own as its parent's; 0: it is its own.
    pub path_smooth: f64,
    pub categories: CategoryRules,
}

impl SplitParams {
    /// Returns whether leaves may have other values than those that lower the loss most, monotone constraints aside.
    pub fn moves_values(&self) -> bool {
        self.max_delta_step < f64::INFINITY || self.path_smooth > 0.0
    }

    /// Returns them for splits that know nothing of what moves the values of leaves.
    pub fn without_values(self) -> SplitParams {
        SplitParams { max_delta_step: f64::INFINITY, path_smooth: 0.0, ..self }
    }

    /// Returns them beside gradients and hessians in these units: a gradient has the unit of the gradients and of the weights, a
    /// hessian that of the weights, a value the one over the other, a gain the square of the one over the other.
    pub fn in_units(self, gradient_unit: f64, weight_unit: f64) -> SplitParams {
        let SplitParams { l1, l2, min_child_weight, min_data_in_leaf, min_gain, max_delta_step, path_smooth, categories } = self;
        let CategoryRules { smooth, l2: more, most } = categories;
        SplitParams {
            l1: l1 / gradient_unit / weight_unit,
            l2: l2 / weight_unit,
            min_child_weight: min_child_weight / weight_unit,
            min_data_in_leaf,
            min_gain: min_gain / gradient_unit / gradient_unit / weight_unit,
            max_delta_step: max_delta_step / gradient_unit,
            path_smooth,
            categories: CategoryRules { smooth: smooth / weight_unit, l2: more / weight_unit, most },
        }
    }
}

/// The regularisation and the limits of one tree; the meaning of each is in
/// [`crate::learners::boosting::BoostingParams`], which carries them for the user.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeParams {
    pub policy: Policy,
    pub depth: u32,
    pub leaves: u32,
    pub split: SplitParams,
    pub feature_fraction: f64,
    pub feature_fraction_level: f64,
    pub feature_fraction_node: f64,
    /// Whether a node may be divided at one border alone of each feature, drawn at random.
    pub extra_trees: bool,
    /// -1, 0 or 1 for each feature; empty where nothing is constrained.
    pub monotone: Vec<i8>,
    /// Groups of the table's columns that may meet on one path; empty where all may.
    pub interaction: Vec<Vec<u32>>,
    /// What the gain of a split on each of the table's columns is multiplied by before splits are compared, at most 1; empty where nothing is.
    pub weights: Vec<f64>,
    pub seed: u64,
}

impl TreeParams {
    /// Returns what the gain of a split on a feature made of these columns of the table counts: as that of the column that counts least.
    pub fn weight(&self, columns: &[u32]) -> f64 {
        columns.iter().filter_map(|column| self.weights.get(*column as usize)).copied().fold(1.0, f64::min)
    }

    /// Returns [`super::split::SplitRules::level_limits`] of these parameters.
    pub fn level_limits(&self) -> bool {
        self.policy == Policy::Symmetric && (self.split.min_data_in_leaf > 0 || self.split.min_child_weight > 0.0)
    }

    /// Returns what splits ask of a node's rows besides their sums.
    pub fn row_counts(&self) -> RowCounts {
        if self.split.min_data_in_leaf > 0 || self.split.path_smooth > 0.0 {
            RowCounts::Exact
        } else if self.level_limits() {
            RowCounts::Presence
        } else {
            RowCounts::None
        }
    }
}

/// What the search for splits asks of a node's rows besides the sums of their derivatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowCounts {
    None,
    /// Whether there are any. Where every row has a positive hessian, the hessians' sum tells.
    Presence,
    /// How many there are.
    Exact,
}

impl RowCounts {
    /// Returns whether rows are counted.
    pub fn any(self) -> bool {
        self != RowCounts::None
    }
}

/// `monotone` as users give it: a direction for each feature's name.
pub type Monotone = BTreeMap<String, i8>;

/// `feature_weights` as users give them: a weight for each feature's name.
pub type FeatureWeights = BTreeMap<String, f64>;
