//! A fitted forest: what it holds.

use super::params::{Criterion, ForestParams};
use crate::dataset::labels::Labels;
use crate::model::Feature;
pub use crate::model::OutOfBag;
use crate::provenance::Provenance;
use crate::quantize::CodeSet;
use crate::tree::model::{Child, Node};
use serde::{Deserialize, Serialize};

/// One tree of a forest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tree {
    /// Inner nodes in preorder: the root is node 0, and a node's left child that is a node is the
    /// next one. No nodes: one leaf.
    ///
    /// `split.border` is an index into the feature's borders (as many as there are: +∞, so that only
    /// missing values may go right), or, of a categorical feature, into [`Forest::sets`].
    /// `split.gain` is by how much the split lowers the impurity of all rows of the tree, in units of [`Forest::gain_unit`].
    pub nodes: Vec<Node>,
    /// Of each leaf, from left to right, the number of rows drawn that ended there; a row drawn twice
    /// counts twice.
    pub counts: Vec<u32>,
    /// Of each leaf the weight of its rows in units of [`Forest::unit`]: for classes one sum for each
    /// class, `[leaf * classes + class]`, for numbers one.
    pub sums: Vec<u64>,
    /// Of each leaf the mean target of its rows; empty for classes.
    pub means: Vec<f64>,
}

impl Tree {
    /// The number of leaves.
    pub fn leaves(&self) -> usize {
        self.counts.len()
    }

    /// The children of a node that are nodes come behind it; this is where it begins.
    pub fn root(&self) -> Child {
        if self.nodes.is_empty() { Child::Leaf(0) } else { Child::Node(0) }
    }

    /// Writes what a leaf gives to its rows: the shares of the classes (`out` has as many places), or
    /// the mean.
    pub fn value(&self, leaf: usize, out: &mut [f64]) {
        if let Some(mean) = self.means.get(leaf) {
            out[0] = *mean;
            return;
        }
        let sums = &self.sums[leaf * out.len()..][..out.len()];
        let total: u64 = sums.iter().sum();
        out.iter_mut().zip(sums).for_each(|(o, s)| *o = *s as f64 / total as f64);
    }

    /// The weight of a leaf's rows, in units of [`Forest::unit`]; `outputs` as [`Forest::outputs`].
    pub fn weight(&self, leaf: usize, outputs: usize) -> u64 {
        self.sums[leaf * outputs..][..outputs].iter().sum()
    }
}

/// A fitted random forest.
///
/// It predicts the mean over the trees of what the row's leaf holds: the shares of the classes among
/// the leaf's rows, or their mean target.
#[derive(Clone, Debug, PartialEq)]
pub struct Forest {
    /// What it was fitted with (`n_threads` and `device` at their defaults).
    pub params: ForestParams,
    /// The criterion that `params.criterion` came to; never `Auto`.
    pub criterion: Criterion,
    /// The target column's name.
    pub target: String,
    /// The features, in the order of fitting, with the borders that splits use (under
    /// `splitter="exact"` and `"random"` as many as there are splits). The categories of a categorical
    /// feature are the (at most 254) most frequent ones; the others, and unseen ones, are one.
    pub features: Vec<Feature>,
    /// The labels of a classifier.
    pub labels: Option<Labels>,
    /// The subsets of categories that splits ask about: bit 0 stands for the rest, bit `1 + c` for
    /// category `c` of the feature. Rows of the subset go right.
    pub sets: Vec<CodeSet>,
    pub trees: Vec<Tree>,
    /// The number of training rows, those of weight 0 among them.
    pub rows: u64,
    /// What one unit of the trees' weights is worth; 1 where rows have no weights.
    pub unit: f64,
    /// A positive power of two that the splits' gains are in units of; 1 unless f32 has no room for them as they are.
    pub gain_unit: f64,
    /// Out-of-bag predictions, where they were asked for.
    pub oob: Option<OutOfBag>,
    /// Of each feature the mean loss of accuracy (for numbers: the mean rise of the squared error) of
    /// a tree on its out-of-bag rows when the feature is shuffled among them, where it was asked for.
    pub permutation: Option<Vec<f64>>,
    /// Where its classes and columns come from.
    pub provenance: Provenance,
}

impl Forest {
    /// The number of values predicted for a row: the number of classes, or 1.
    pub fn outputs(&self) -> usize {
        self.labels.as_ref().map_or(1, Labels::len)
    }
}
