//! A fitted model: what it holds ([`Model`]), its bytes ([`envelope`]) and what they must keep to
//! ([`validate`]), how it is applied ([`apply`], by a compiled `plan` that starts with a `search`
//! for the code of each value), and how it explains itself ([`explain`], [`json`]).

pub mod apply;
pub mod envelope;
pub mod explain;
pub mod json;
mod plan;
mod search;
pub mod validate;

use crate::boosting::params::{BoostingParams, LossKind, MetricKind};
use crate::column::FeatureType;
use crate::tree::Tree;
use serde::{Deserialize, Serialize};

/// A feature as the model knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Feature {
    /// The column's name.
    pub name: String,
    /// The type that a column must have to serve.
    pub dtype: FeatureType,
    /// Ascending and finite (or -∞), at most 255: a split sends `x > border` right.
    pub borders: Vec<f64>,
}

/// Class labels in the order of the outputs, in their own type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Labels {
    Boolean,
    Integer(Vec<i64>),
    Float(Vec<f64>),
    Text(Vec<String>),
}

impl Labels {
    /// The number of classes.
    pub fn len(&self) -> usize {
        match self {
            Labels::Boolean => 2,
            Labels::Integer(v) => v.len(),
            Labels::Float(v) => v.len(),
            Labels::Text(v) => v.len(),
        }
    }

    /// Whether there are no classes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The labels written out, as they name the fields of a struct of probabilities.
    pub fn names(&self) -> Vec<String> {
        match self {
            Labels::Boolean => vec!["false".into(), "true".into()],
            Labels::Integer(v) => v.iter().map(|x| x.to_string()).collect(),
            Labels::Float(v) => v.iter().map(|x| x.to_string()).collect(),
            Labels::Text(v) => v.clone(),
        }
    }
}

/// The metric of the held-out rows after each round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct History {
    pub metric: MetricKind,
    /// One value a round that was fitted, also of those that were cut off again.
    pub values: Vec<f64>,
    /// The round (from 0) with the best value; with early stopping, the last one that was kept.
    pub best: u32,
}

/// A fitted ensemble of trees.
///
/// The raw score of output `k` is `start[k] + scale * Σ leaf values` over the trees `k`,
/// `k + outputs`, `k + 2 outputs`, …, added in f64 in that order.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// What it was fitted with (`n_threads` and `device` at their defaults).
    pub params: BoostingParams,
    /// The loss that `params.loss` came to; never `Auto`.
    pub loss: LossKind,
    /// The target column's name.
    pub target: String,
    /// The features, in the order of fitting.
    pub features: Vec<Feature>,
    /// The labels of a classifier.
    pub labels: Option<Labels>,
    /// The score before the first tree, one for each output.
    pub start: Vec<f64>,
    /// A positive power of two that leaf values are in units of.
    pub scale: f64,
    /// Round after round, the outputs' trees in order.
    pub trees: Vec<Tree>,
    /// The number of training rows.
    pub rows: u64,
    /// The curve of the metric, where rows were held out.
    pub history: Option<History>,
}

impl Model {
    /// The number of scores a row: the number of classes under `multiclass`, else 1.
    pub fn outputs(&self) -> usize {
        self.start.len()
    }

    /// The number of boosting rounds kept.
    pub fn rounds(&self) -> usize {
        self.trees.len() / self.outputs().max(1)
    }
}
