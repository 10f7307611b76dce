//! What a device does for boosted trees, as a trait that every device implements under one contract: the same
//! rows in the same order give the same integers, whatever the device, its threads or its blocks.
//!
//! A verb is a step of the algorithm, not an array operation, so that a device keeps its data
//! where it is and answers with a few numbers a level.

use super::ctrs::{CategoryCodes, CtrData, CtrFeature, CtrSample};
use super::linear_leaves::{Equations, LeafMeasures, TreeColumns, Units};
use super::ordered::Pieces;
use super::row_sampler::RowSampling;
use crate::collective::RowShard;
use crate::column::Column;
use crate::dataset::row_groups::RowGroups;
use crate::dataset::{Batches, Monitor};
use crate::error::{Error, Result, RowsFault};
use crate::losses::Loss;
use crate::losses::position_bias::PositionBias;
use crate::losses::risk_sets::RiskSets;
use crate::parallel::thread_pool::ThreadPool;
use crate::quantize::{CodeSet, CodeSource, CodedFeature};
use crate::tree::Tree;
use crate::tree::grow::WholeTree;
use crate::tree::linear::LinearLeaf;
use crate::tree::params::{Policy, RowCounts, SplitParams, TreeParams};
use crate::tree::split::{Scales, Sums};
use crate::tree::steps::{Candidate, GrowSteps, NodeId};
use std::sync::Arc;

/// The index of a group of features: group 0 are those that a fit starts with.
pub type GroupId = usize;

/// The table and parameters that a device is given once for a whole fit.
pub struct TrainingData<'a> {
    /// Every feature that can split from the start on.
    pub features: &'a [CodedFeature],
    /// What the codes of each of `features` come from.
    pub sources: &'a [CodeSource<'a>],
    /// The target in the units of the scores (class indices for classifiers).
    pub target: Vec<f32>,
    /// Where each output has a target of its own ([`Loss::has_targets`]), those of the outputs behind the first.
    pub more_targets: Vec<Vec<f32>>,
    /// Row weights.
    pub weight: Option<Vec<f32>>,
    /// What the loss reads of a row beside its target, `[column][row]`.
    pub columns: Vec<Vec<f32>>,
    /// The groups of the table's rows, where the loss reads them: those at least that have any of these rows.
    pub groups: Option<RowGroups>,
    /// The positions at which the table's rows were shown, where a loss by group is to know them.
    pub positions: Option<Arc<PositionBias>>,
    /// The table's rows by time, where the loss is Cox's.
    pub risk_sets: Option<Arc<RiskSets>>,
    /// Scores to start from, `[output][row]`. Several sets of them stand one behind the other, each of
    /// as many outputs as the loss has: rows may have other codes in one than in the other, which
    /// [`TreeSteps::replay`] follows.
    pub scores: Vec<Vec<f32>>,
    /// Rows that are measured on and not trained on.
    pub held_out: Option<&'a [bool]>,
    /// Whether the scores of all rows are measured, and not those of held-out rows alone.
    pub measures_all: bool,
    /// How rows are drawn for each tree.
    pub row_sampling: RowSampling,
    /// What splits ask of a node's rows besides their sums.
    pub row_counts: RowCounts,
    /// How trees grow, and how many levels they have at the most.
    pub policy: Policy,
    pub depth: u32,
    /// Whether sparse features may be stored sparsely and bundled; changes no result.
    pub bundle: bool,
    pub seed: u64,
    /// What becomes of every tree, where all of it is sure, no rows are held out and there is one set of scores. A device may then go on
    /// to the next tree by itself.
    pub announced: Option<Announced>,
    /// How many outputs share each tree ([`TreeRequest::shared`]): all, or 1 where each has its own.
    pub shared: usize,
    /// Whether leaves take further steps ([`TreeSteps::leaf_steps`]).
    pub steps_on: bool,
    /// The columns of the table, for these rows, where leaves are functions of their values ([`LinearSteps`]); those of categories are never read.
    pub values: Option<&'a [Column<'a>]>,
    /// The pieces of permutations that the sets of scores behind the first are those of ([`TreeSteps::ordered`]); of none but under ordered
    /// boosting.
    pub pieces: Pieces,
    /// The rows that these are of all.
    pub shard: RowShard<'a>,
    /// What of the codes comes in batches, for devices that take it so: this process's threads.
    pub batches: Option<&'a BatchedCodes<'a>>,
}

/// The features whose codes are made of batches of rows, and never stand as columns.
pub struct BatchedCodes<'a> {
    pub batches: Batches<'a>,
    /// Features, ascending, and which of the batches' columns each is coded from. Their [`TrainingData::sources`] are empty.
    pub places: Vec<(usize, usize)>,
}

/// The sums of a leaf's rows from the unrounded derivatives.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LeafSums {
    pub gradient: f64,
    pub hessian: f64,
    pub count: u64,
}

/// The error's text where derivatives overflow.
pub const NOT_FINITE: &str =
    "the gradients are no longer finite: lower `learning_rate`, raise `l2`, or bring target and weights into a smaller range";

/// The error's text where that is of further steps of leaves.
const NOT_FINITE_BEYOND: &str = "at the values that `leaf_iterations` comes to the gradients are no longer finite: set `max_delta_step`, raise \
     `l2`, or ask for fewer steps";

/// Returns the error of a further step of leaves for that of derivatives which are not finite.
pub fn beyond(error: Error) -> Error {
    match error.rows_fault() {
        Some(RowsFault::Values) => Error::Data(NOT_FINITE_BEYOND.into()).of_values(),
        _ => error,
    }
}

/// What a fit will do with every tree of it, where that is sure from the start.
#[derive(Clone, Copy, Debug)]
pub struct Announced {
    /// A leaf's value is that of [`SplitRules::leaf_value`](crate::tree::split::SplitRules::leaf_value) without bounds, times
    /// this, rounded to f32.
    pub learning_rate: f64,
    /// Behind the number of the last tree; trees are grown for one output after the other, round after round.
    pub trees: u64,
}

/// What an output counts in the splits of a tree that it shares with others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutputRules {
    /// `l1` and `l2`, in units of the output's own derivatives.
    pub params: SplitParams,
    /// What the output's score is multiplied by before it is added to the others': that of a split that predicts the first gradients of all
    /// training rows is then 1 for a row of weight 1, whatever the output is in units of.
    pub importance: f64,
}

/// A tree to begin.
#[derive(Clone, Copy)]
pub struct TreeRequest<'a> {
    pub loss: &'a dyn Loss,
    /// Numbers the trees of the fit and keys the random choices.
    pub tree: u64,
    /// The output that the tree is of, or the first of those that share it.
    pub output: usize,
    /// Of a tree that several outputs share, these outputs from `output` on. Then the score of a split is the sum of theirs, the hessian of
    /// [`Sums`] the mean of theirs, and a gradient there is none.
    pub shared: Option<&'a [OutputRules]>,
    /// Under ordered boosting ([`OrderedSteps`]) what each output that has the tree counts. Then the score of a split is by how much the
    /// values that the last [`PAIRS`](super::ordered::PAIRS) bodies give the children lower the loss of their tails, and the sums of a node
    /// are those of the rows of these tails.
    pub bodies: Option<&'a [OutputRules]>,
    /// The groups that are open beside group 0: their features may split.
    pub groups: &'a [GroupId],
    /// The policy and the limits, where nothing else decides what the tree becomes ([`crate::tree::grow::is_plain`]).
    pub plan: Option<&'a TreeParams>,
}

/// A tree that has begun.
pub enum Begun {
    /// The root is summed, and the grower asks on.
    Root {
        sums: Sums,
        /// What all sums of this tree are in units of.
        scales: Scales,
    },
    /// The device has grown all of it by itself, which it may where there is a plan.
    Whole(WholeTree),
}

/// Makes statistics of categories on a device.
pub trait CtrSteps {
    /// Sums `columns` (one, or a combination) at the rows of the sample: of counters over all training rows, of the
    /// other statistics over those before the row in permutation `order`. `counters`: those too.
    ///
    /// # Errors
    /// Those of the device.
    fn sample(&mut self, data: &CtrData<'_>, columns: &[CategoryCodes<'_>], order: usize, counters: bool) -> Result<CtrSample>;

    /// Adds a group ([`GroupSteps::add_group`]) of statistics under permutation `order`, one for each of `features`, those of the same
    /// columns side by side.
    ///
    /// # Errors
    /// Those of the device.
    fn add(&mut self, data: &CtrData<'_>, features: &[CodedFeature], ctrs: &[CtrFeature<'_>], order: usize) -> Result<GroupId>;
}

/// Measures on a device how far the derivatives of the tree that has begun lie apart.
pub trait SpreadSteps {
    /// Returns the sum of the squared gradients of an output over the rows drawn, weights included, in the sum of their hessians.
    ///
    /// # Errors
    /// Those of the device.
    fn squared_gradients(&mut self, loss: &dyn Loss, output: usize) -> Result<f64>;
}

/// Sums derivatives on a device as they would be if the leaves of the last trees had values already, for further steps of these.
pub trait LeafSteps {
    /// Returns each leaf's sums over the rows drawn, `[output][leaf]`, for the outputs from `first` on, whose last tree is `tree`, ended or
    /// replayed: of their derivatives at scores to which `values`, likewise, are added. The scores stay what they are.
    ///
    /// # Errors
    /// Those of the device; [`Error::Data`](crate::Error::Data) where derivatives are not finite there.
    fn sums_beyond(&mut self, loss: &dyn Loss, tree: &Tree, first: usize, values: &[Vec<f32>]) -> Result<Vec<Vec<LeafSums>>>;
}

/// Returns the sum of squared gradients in that of hessians, from those of each block of rows ([`RowShard::BLOCK`]), which are added in
/// their order.
pub fn mean_square(blocks: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (gradients, hessians) = blocks.fold((0.0, 0.0), |sum, block| (sum.0 + block.0, sum.1 + block.1));
    if hessians > 0.0 { gradients / hessians } else { 0.0 }
}

/// The rows of a device, in their order, as a tree has parted them.
#[derive(Clone, Debug, Default)]
pub struct LeafRows {
    /// The leaf of each, of those too that were not drawn.
    pub leaf: Vec<u16>,
    /// The derivatives that the tree was fitted to, weights included: zeros for a row that was not drawn.
    pub gradient: Vec<f32>,
    pub hessian: Vec<f32>,
}

/// Tells a tree's rows one by one on a device, and takes values of their own: for leaves that are
/// [functions](super::linear_leaves) of their rows.
pub trait RowSteps {
    /// Returns all rows as the tree just ended, or replayed, has parted them, with the derivatives of an output that has it.
    ///
    /// # Errors
    /// Those of the device.
    fn leaf_rows(&mut self, loss: &dyn Loss, output: usize) -> Result<LeafRows>;

    /// Remembers what the rows' scores get from that tree for an output, in place of the leaves' values ([`TreeSteps::set_leaf_values`], which
    /// comes before).
    ///
    /// # Errors
    /// Those of the device.
    fn set_row_values(&mut self, output: usize, values: &[f32]) -> Result<()>;
}

/// Makes the leaves of a tree [functions](super::linear_leaves) of their rows' values on a device that has these
/// ([`TrainingData::values`]): three steps behind the values that leaves have otherwise ([`TreeSteps::set_leaf_values`]).
pub trait LinearSteps {
    /// Measures the device's rows as the tree just ended, or replayed, has parted them, by the derivatives of an output that has it.
    ///
    /// # Errors
    /// Those of the device.
    fn measure(&mut self, loss: &dyn Loss, output: usize, columns: &TreeColumns) -> Result<LeafMeasures>;

    /// Returns the sums of the device's rows that were measured last, the columns' origins being those of all rows.
    ///
    /// # Errors
    /// Those of the device.
    fn equations(&mut self, columns: &TreeColumns, units: &Units) -> Result<Equations>;

    /// Remembers what these rows' scores get from the tree for the output: the values of their leaves' functions, which count columns as the table
    /// does, where these are there and finite, else those of the leaves.
    ///
    /// # Errors
    /// Those of the device.
    fn set_functions(&mut self, output: usize, columns: &TreeColumns, functions: &[Option<LinearLeaf>]) -> Result<()>;
}

/// Values the leaves of trees by parts of the rows, on a device, for [`ordered`](super::ordered) boosting. Each set of scores but the first
/// is that of a permutation, and has bodies. What is said of a body is said of its rows that were drawn.
pub trait OrderedSteps {
    /// Returns each leaf's sums over the rows of each body, `[output][body][leaf]`, for the outputs from `first` on, whose last tree has
    /// ended or been replayed: of their derivatives at the body's scores, to which `values`, likewise, are added. The scores stay what they
    /// are.
    ///
    /// # Errors
    /// Those of the device; [`Error::Data`](crate::Error::Data) where derivatives are not finite there.
    fn sums_of_bodies(&mut self, loss: &dyn Loss, first: usize, values: &[Vec<Vec<f32>>]) -> Result<Vec<Vec<Vec<LeafSums>>>>;

    /// Returns for each body and each of the `leaves` leaves of an output's last tree, `[body][leaf]`, the weighted quantile `alpha` of
    /// `target - score` over the body's rows at its scores; 0 for a leaf without rows.
    ///
    /// # Errors
    /// Those of the device.
    fn quantiles_of_bodies(&mut self, output: usize, leaves: usize, alpha: f64) -> Result<Vec<Vec<f64>>>;

    /// Remembers the values that the leaves of an output's last tree have by each body, `[body][leaf]`; [`TreeSteps::update_scores`] adds
    /// them to the scores that the body has of its rows and of its tail.
    ///
    /// # Errors
    /// Those of the device.
    fn set_body_values(&mut self, output: usize, values: Vec<Vec<f32>>) -> Result<()>;
}

/// A tree that there is before a fit's first: the leaf of each of the device's rows, and the leaves' values.
pub struct GivenTree {
    pub leaves: Vec<u16>,
    pub values: Vec<f32>,
}

/// Leaves trees out of the scores while others grow, and gives them less weight, on a device: for [`dropout`](super::dropout). Each tree belongs to a
/// round, and in it to an output of a set of scores.
pub trait DropoutSteps {
    /// Begins to keep trees, with those of the `given` rounds, `[round][output]`, whose values are in no score yet: from now on scores are those of the
    /// start and [`in_steps`](super::dropout::in_steps) sums of leaf values.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    fn keep_trees(&mut self, given: Vec<Vec<GivenTree>>) -> Result<()>;

    /// Takes the trees of such rounds out of the scores.
    ///
    /// # Errors
    /// Those of the device.
    fn drop_out(&mut self, rounds: &[u32]) -> Result<()>;

    /// Ends a round in place of [`TreeSteps::update_scores`]: keeps its trees and adds their values to the scores, and with them those of the rounds that
    /// were taken out, [`rescaled`](super::dropout::rescaled) by `factor`.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory); [`Error::Data`](crate::Error::Data) where leaves are too large to be summed.
    fn put_back(&mut self, rounds: &[u32], factor: f64) -> Result<()>;
}

/// Adds groups of features, behind those that a fit starts with, on a device.
pub trait GroupSteps {
    /// Adds a group of features with their codes (a `Vec` of all rows for each), numbered behind
    /// those there are. It takes part in no tree that does not name or open it.
    ///
    /// # Errors
    /// Those of the device.
    fn add_group(&mut self, features: &[CodedFeature], codes: &[Vec<u8>]) -> Result<GroupId>;

    /// Frees what a group takes. It never takes part in a tree again.
    fn drop_group(&mut self, group: GroupId);

    /// Opens one more group in the tree that grows: sums its histograms in `nodes`, which are the
    /// ones to be searched next.
    fn open_group(&mut self, group: GroupId, nodes: &[NodeId]) -> Result<()>;
}

/// A device's share of the work of fitting trees to gradients.
pub trait TreeSteps: GrowSteps {
    /// Returns what adds groups of features while the fit goes on.
    fn groups(&mut self) -> &mut dyn GroupSteps;

    /// Returns what makes statistics of categories on the device, where it does; else their codes come through
    /// [`GroupSteps::add_group`].
    fn ctrs(&mut self) -> Option<&mut dyn CtrSteps> {
        None
    }

    /// Returns what measures derivatives, on a device that does.
    fn spread(&mut self) -> Option<&mut dyn SpreadSteps> {
        None
    }

    /// Returns what leaves trees out for a while, on a device that does.
    fn dropouts(&mut self) -> Option<&mut dyn DropoutSteps> {
        None
    }

    /// Returns what leaves take further steps by, on a device that has it, where there is to be one ([`TrainingData::steps_on`]).
    fn leaf_steps(&mut self) -> Option<&mut dyn LeafSteps> {
        None
    }

    /// Returns what values leaves by parts of the rows, on a device that does.
    fn ordered(&mut self) -> Option<&mut dyn OrderedSteps> {
        None
    }

    /// Returns what tells rows one by one, on a device that does.
    fn row_values(&mut self) -> Option<&mut dyn RowSteps> {
        None
    }

    /// Returns what makes leaves functions of rows, on a device that has their values; else this process does, by [`TreeSteps::row_values`].
    fn linear_leaves(&mut self) -> Option<&mut dyn LinearSteps> {
        None
    }

    /// Starts a tree: derivatives at the current scores, the rows drawn, their rounded statistics, and the root's histogram.
    ///
    /// # Errors
    /// Those of the device; [`Error::Data`](crate::Error::Data) where derivatives are no longer finite.
    fn begin_tree(&mut self, request: &TreeRequest<'_>) -> Result<Begun>;

    /// Ends the growing: `leaves[i]` is the node that became leaf `i` of `tree` (whose splits count features as
    /// [`TrainingData::features`] does). Every row gets its leaf, rows that were not drawn included. Returns each leaf's sums
    /// over the rows drawn, `[output][leaf]` of the outputs that have the tree.
    fn end_tree(&mut self, loss: &dyn Loss, tree: &Tree, leaves: &[NodeId]) -> Result<Vec<Vec<LeafSums>>>;

    /// Sends every row through `tree` (whose splits count features as [`TrainingData::features`] does, of whatever groups) as the
    /// last tree of `output`, which belongs to another set of scores than the tree that has grown. Returns each leaf's sums over
    /// the rows drawn of that output's derivatives. What follows ([`TreeSteps::leaf_quantiles`], [`TreeSteps::set_leaf_values`])
    /// is about this tree.
    fn replay(&mut self, loss: &dyn Loss, tree: &Tree, output: usize) -> Result<Vec<LeafSums>>;

    /// Returns for each leaf of the tree just ended the weighted quantile `alpha` of `target - score` of an output over
    /// the rows drawn; 0 for a leaf without rows.
    fn leaf_quantiles(&mut self, output: usize, alpha: f64) -> Result<Vec<f64>>;

    /// Remembers the values that the leaves of the tree just ended have for an output; [`TreeSteps::update_scores`] adds them.
    fn set_leaf_values(&mut self, output: usize, values: &[f32]) -> Result<()>;

    /// Returns the subsets of categories that nodes were divided by since the fit began.
    fn category_sets(&self) -> &[CodeSet];

    /// Ends a round: adds the leaf values of its trees to the scores, one tree for each output.
    fn update_scores(&mut self) -> Result<()>;

    /// Returns the factors of positions after the last tree's step, where there are positions.
    ///
    /// # Errors
    /// Those of the device.
    fn position_factors(&self) -> Result<Option<Vec<f64>>>;

    /// Returns the scores of the measured rows in row order, `[output][row]`: of the held-out rows, or of all
    /// ([`TrainingData::measures_all`]).
    fn measured_scores(&self) -> Result<Vec<Vec<f32>>>;

    /// Returns the scores of all rows in row order, `[output][row]`, those of each set one behind the other, as [`TrainingData::scores`]
    /// has them: a fit that begins with these goes on from here. Where other processes have rows, of all rows in the first, none in others.
    ///
    /// # Errors
    /// Those of the device.
    fn all_scores(&mut self) -> Result<Vec<Vec<f32>>>;
}

/// The size of a fit: the histograms that may be needed at once, and the trees.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// How many nodes' histograms may be needed at once.
    pub most_nodes: usize,
    /// Trees, over all outputs.
    pub trees: usize,
}

/// The devices that boosted trees may be fitted on: whoever calls a fit says which one is taken.
pub trait TreeDevices: Sync {
    /// Returns whether the work is sure to be this process's threads'.
    fn stays_here(&self) -> bool;

    /// Brings the data to the device that is chosen, and runs `body` with what works on it there. The monitor is told which one it is.
    ///
    /// # Errors
    /// What the device and `body` report.
    fn with_steps(
        &self,
        pool: &ThreadPool,
        data: TrainingData<'_>,
        extent: Extent,
        monitor: &dyn Monitor,
        body: &mut dyn FnMut(&mut dyn TreeSteps) -> Result<()>,
    ) -> Result<()>;
}

/// A table of few rows whose trees a device grows by itself, beside those of many such tables.
pub struct SmallTable<'a> {
    pub features: &'a [CodedFeature],
    /// `[feature][row]`
    pub codes: Vec<u8>,
    /// The target in the units of the scores.
    pub target: &'a [f32],
    pub weight: Option<&'a [f32]>,
    /// The rows' scores before the first tree.
    pub scores: &'a [f32],
    pub loss: &'a dyn Loss,
    /// The limits of splits, in the units of the derivatives.
    pub split: SplitParams,
}

/// What is the same for all of many small tables: their trees are grown by such parameters, one for each round.
pub struct SmallTrees<'a> {
    pub params: &'a TreeParams,
    pub learning_rate: f64,
    pub rounds: u32,
}

/// The trees of small tables, those of a table one behind the other.
#[derive(Default)]
pub struct GrownTables {
    pub trees: Vec<SmallTree>,
    /// The splits of all trees, each with its place in the tree's heap ([`WholeTree`]); where a level has one split for all its nodes, that of its
    /// first place.
    pub splits: Vec<(NodeId, Candidate)>,
    /// The leaves of all trees that have rows, each with its place in the heap.
    pub leaves: Vec<(NodeId, LeafSums)>,
}

/// One of them.
pub struct SmallTree {
    /// What its sums are in units of; none where derivatives were no longer finite, and it has not grown.
    pub scales: Option<Scales>,
    pub splits: std::ops::Range<usize>,
    pub leaves: std::ops::Range<usize>,
}

/// A device that grows all trees of many small tables at once.
pub trait SmallTableSteps {
    /// Returns whether it does so for tables of so many rows and features, under such parameters.
    fn takes(&self, rows: usize, features: usize, params: &TreeParams) -> bool;

    /// Grows all trees of each table: those that [`TreeSteps`] and [`crate::tree::grow`] come to for one after the other.
    ///
    /// # Errors
    /// Those of the device.
    fn grow(&self, tables: &[SmallTable<'_>], trees: &SmallTrees<'_>) -> Result<GrownTables>;
}
