//! What a device does for a forest, and where it may grow.

use super::codes::{Code, View};
use super::growing::GrowingTree;
use super::impurity::{BinaryImpurity, ClassImpurity, Impurity, RegressionImpurity};
use super::params::{Criterion, ForestParams};
use crate::device::Place;
use crate::error::Result;
use crate::learners::forest::params::Splitter;
use crate::parallel::thread_pool::ThreadPool;
use std::ops::Range;

/// The table, targets and parameters that a device other than the CPU grows trees of a forest from.
pub struct ForestWork<'a, C> {
    pub pool: &'a ThreadPool,
    pub view: View<'a, C>,
    pub targets: Targets<'a>,
    /// Never [`Criterion::Auto`].
    pub criterion: Criterion,
    pub limits: Limits,
    pub params: &'a ForestParams,
    /// Which of the forest's trees are to grow here.
    pub trees: Range<usize>,
    /// In what units predictions out of bag are summed, where they are wanted.
    pub oob: Option<OutOfBagScale>,
    pub interrupted: &'a (dyn Fn() -> bool + Sync),
}

/// Targets, as `forest::kind` has them.
#[derive(Clone, Copy)]
pub enum Targets<'a> {
    Two(&'a BinaryImpurity<'a>),
    Classes(&'a ClassImpurity<'a>),
    Numbers(&'a RegressionImpurity),
}

/// A prediction is summed as `round((value - centre) * scale)`.
#[derive(Clone, Copy, Debug)]
pub struct OutOfBagScale {
    pub scale: f64,
    pub centre: f64,
}

/// Sums of predictions in fixed point, `[row][output]`, and of each row how many trees made them.
pub struct OutOfBagSums {
    pub sums: Vec<i64>,
    pub counts: Vec<u32>,
}

/// The trees that a device has grown, with their predictions out of bag.
pub struct GrownTrees {
    pub parts: Vec<GrowingTree>,
    /// Where they were wanted.
    pub sums: Option<OutOfBagSums>,
}

/// The limits of a tree.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub depth: u32,
    pub leaves: Option<u32>,
    pub min_data: u64,
    pub min_gain: f64,
    /// Features drawn at a node.
    pub drawn: usize,
}

/// The devices that a forest may grow on: whoever calls a fit says which one is taken.
pub trait ForestDevices: Sync {
    /// Chooses where the forest grows. `refused`: why a GPU can't grow this one; `values`: about how many are looked at, over all rows,
    /// drawn features, levels and trees; `threads`: what the CPU has.
    ///
    /// # Errors
    /// [`crate::Error::Parameter`] where a GPU is named that can't grow this forest, since an explicit choice never falls back.
    fn place(&self, refused: Option<&str>, values: f64, threads: usize) -> Result<Place>;

    /// Grows the work's trees at the place, where that is a GPU which has the memory; none where they are to grow by [`ForestDevices::grower`].
    ///
    /// # Errors
    /// [`crate::Error::Device`] and [`crate::Error::Interrupted`].
    fn grow<C: Code>(&self, place: &Place, work: &ForestWork<'_, C>) -> Result<Option<GrownTrees>>;

    /// Makes what grows one tree after the other on this process's threads.
    fn grower<'a, K: Impurity, C: Code>(&self, task: GrowerTask<'a, K, C>) -> impl GrowTree<K> + 'a;
}

/// The table, impurity and limits that trees are grown from on this process's threads.
pub struct GrowerTask<'a, K: Impurity, C: Code> {
    pub kind: &'a K,
    pub view: View<'a, C>,
    pub limits: Limits,
    /// Whether other threads may help with a tree.
    pub parallel: bool,
    pub interrupted: &'a (dyn Fn() -> bool + Sync),
}

/// Grows trees by all threads, each thread one of its own.
pub trait GrowTree<K: Impurity>: Sync {
    /// Grows the tree whose choices are keyed by `seed` and `tree`, on rows that count `counts` times each. `buffers`: memory to use again.
    ///
    /// # Errors
    /// [`crate::Error::Memory`] and [`crate::Error::Interrupted`].
    fn grow(&self, counts: &[u16], seed: u64, tree: u32, buffers: &mut (Vec<K::Entry>, Vec<K::Entry>)) -> Result<GrowingTree>;
}

impl Targets<'_> {
    /// Predictions of a row.
    pub fn outputs(&self) -> usize {
        match self {
            Targets::Two(_) => 2,
            Targets::Classes(c) => c.classes,
            Targets::Numbers(_) => 1,
        }
    }

    /// Weights of the rows, where there are any.
    pub fn weights(&self) -> Option<&[u32]> {
        match self {
            Targets::Two(_) => None,
            Targets::Classes(c) => c.weights.as_deref(),
            Targets::Numbers(n) => n.weights.as_deref(),
        }
    }
}

impl<C: Code> ForestWork<'_, C> {
    /// Returns the depth that trees may have: one of so many leaves is less deep than they are.
    pub fn depth(&self) -> u32 {
        self.limits.leaves.map_or(self.limits.depth, |leaves| self.limits.depth.min(leaves - 1))
    }

    /// Returns whether nodes are searched by bins in shared memory.
    pub fn by_bins(&self) -> bool {
        let plain = match self.targets {
            Targets::Two(_) => true,
            Targets::Classes(_) => false,
            Targets::Numbers(n) => n.weights.is_none(),
        };
        plain && self.view.splitter == Splitter::Histogram && !self.view.features.iter().any(|f| f.is_categorical())
    }
}
