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

/// The regularisation and the limits of one tree; the meaning of each is in
/// [`crate::learners::boosting::BoostingParams`], which carries them for the user.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeParams {
    pub policy: Policy,
    pub depth: u32,
    pub leaves: u32,
    pub l1: f64,
    pub l2: f64,
    pub min_child_weight: f64,
    pub min_data_in_leaf: u32,
    pub min_gain: f64,
    pub feature_fraction: f64,
    pub feature_fraction_level: f64,
    pub feature_fraction_node: f64,
    /// -1, 0 or 1 for each feature; empty where nothing is constrained.
    pub monotone: Vec<i8>,
    /// Groups of the table's columns that may meet on one path; empty where all may.
    pub interaction: Vec<Vec<u32>>,
    pub categories: CategoryRules,
    pub seed: u64,
}

impl TreeParams {
    /// See [`super::split::SplitRules::level_limits`].
    pub fn level_limits(&self) -> bool {
        self.policy == Policy::Symmetric && (self.min_data_in_leaf > 0 || self.min_child_weight > 0.0)
    }

    /// Whether exact row counts are needed besides the hessian sums.
    pub fn counts_rows(&self) -> bool {
        self.min_data_in_leaf > 0 || self.level_limits()
    }
}

/// `monotone` as users give it: a direction for each feature's name.
pub type Monotone = BTreeMap<String, i8>;
