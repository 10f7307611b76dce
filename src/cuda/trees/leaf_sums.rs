//! Ends a tree: every row's leaf, and the sums of leaves.

use super::CudaTrees;
use super::buffers::leaves_shared;
use super::feature_groups::FeatureGroup;
use super::layouts::{BY_SET, GradientQuantizer, LeafSumParams, LeafValues, SparseRows, TreeWalk, leaf, split_test};
use super::partition::bit_set;
use super::rows::RowData;
use crate::{follow, grid};
use taiga_core::error::Result;
use taiga_core::learners::boosting::steps::{LeafSums, TrainingData};
use taiga_core::losses::Loss;
use taiga_core::tree::Tree;
use taiga_core::tree::model::{Child, Split};
use taiga_core::tree::steps::NodeId;

/// What stays on the host.
pub struct HostRows {
    /// Of several targets one behind the other.
    pub target: Vec<f32>,
    pub weight: Option<Vec<f32>>,
    /// The slot of each node of the tree that grows.
    pub slots: Vec<usize>,
}

impl HostRows {
    pub fn new(data: TrainingData<'_>) -> HostRows {
        let target = [vec![data.target], data.more_targets].concat().concat();
        HostRows { target, weight: data.weight, slots: vec![0] }
    }
}

/// A leaf's sums as numbers.
pub fn leaf_sums(quantizer: &GradientQuantizer, gradient: i64, hessian: i64, count: i64) -> LeafSums {
    LeafSums { gradient: gradient as f64 / quantizer.leaf_gradient, hessian: hessian as f64 / quantizer.leaf_hessian, count: count as u64 }
}

/// Threads of the blocks that sum leaves.
const LEAF_THREADS: u32 = 512;

/// Words of 16 bytes that a thread clears, where blocks come for that alone.
const CLEARED_EACH: usize = 4;

/// Rows that 32-bit sums of limbs can take.
const LIMB_ROWS: usize = 4096;

impl CudaTrees<'_> {
    /// A tree as rows walk it: split tests, their children where it is no heap, and the sets of all of them where some ask by one.
    fn walk_of(&self, tree: &Tree) -> (Vec<u64>, Vec<[u32; 2]>, Vec<u32>) {
        let ask = |split: &Split| {
            let codes = self.group_of(split.feature).codes_of(split.feature as usize);
            let (last, zero_right) = self.code_test(split.feature, split.border, split.missing_left);
            match self.right_set(split.feature, split.border, split.missing_left) {
                Some(set) => (split_test(codes, 0, false) | BY_SET, bit_set(set)),
                None => (split_test(codes, last, zero_right), [0; 8]),
            }
        };
        let (asked, children): (Vec<(u64, [u32; 8])>, _) = match tree {
            Tree::Symmetric { splits, .. } => {
                (splits.iter().enumerate().flat_map(|(level, s)| std::iter::repeat_n(ask(s), 1 << level)).collect(), vec![])
            }
            Tree::Branching { nodes, leaves } => {
                let inner = nodes.len() as u32;
                let place = |child: Child| match child {
                    Child::Node(n) => n,
                    Child::Leaf(l) => inner + l,
                };
                let asked = nodes.iter().map(|n| ask(&n.split)).chain((0..leaves.len()).map(|l| (leaf(l), [0; 8]))).collect();
                // Leaves have none, but are read along.
                let none = std::iter::repeat_n([0, 0], leaves.len());
                let children = nodes.iter().map(|n| [place(n.left), place(n.right)]).chain(none).collect();
                (asked, children)
            }
        };
        let by_set = asked.iter().any(|(split_test, _)| split_test & BY_SET != 0);
        let sets = if by_set { asked.iter().flat_map(|(_, set)| *set).collect() } else { vec![] };
        (asked.into_iter().map(|(split_test, _)| split_test).collect(), children, sets)
    }

    /// Gives every row its leaf and sums the derivatives of those drawn, of each output that has the tree.
    pub(crate) fn sum_leaves(&mut self, loss: &dyn Loss, tree: &Tree, leaves: &[NodeId]) -> Result<Vec<Vec<LeafSums>>> {
        self.leaves = leaves.to_vec();
        let of_outputs = match &self.shared {
            Some(shared) => shared.quantizers(),
            None => vec![(*self.quantizer()?, self.data.log().address)],
        };
        self.walk_rows(loss, tree, &of_outputs)
    }

    /// Sends all rows through a tree that grew on another set of scores, as the last one of `output`.
    pub(crate) fn replay_tree(&mut self, loss: &dyn Loss, tree: &Tree, output: usize) -> Result<Vec<LeafSums>> {
        (self.output, self.grown) = (output, None);
        self.leaves = (0..tree.leaves().len() as NodeId).collect();
        self.derive_dependent(loss, self.tree, output)?;
        self.data.find_quantizer(&self.queue, &self.kernels, loss, output, false)?;
        let quantizer = self.data.read_quantizer(&self.queue)?;
        RowData::check_finite(&quantizer)?;
        let mut sums = self.walk_rows(loss, tree, &[(quantizer, self.data.log().address)])?;
        Ok(sums.pop().unwrap_or_default())
    }

    /// The sums of a tree's leaves, which all rows get as they walk it, of one output after the other, each with its quantizer and where that is
    /// on the device.
    fn walk_rows(&mut self, loss: &dyn Loss, tree: &Tree, outputs: &[(GradientQuantizer, u64)]) -> Result<Vec<Vec<LeafSums>>> {
        let leaves = tree.leaves().len();
        let (split_tests, children, sets) = self.walk_of(tree);
        let by_set = !sets.is_empty();
        let (queue, work) = (&self.queue, &mut self.work);
        work.split_tests.reserve(queue, "a tree", split_tests.len())?;
        work.split_tests.write(queue, &split_tests)?;
        if by_set {
            work.walk_sets.reserve(queue, "a tree", sets.len())?;
            work.walk_sets.write(queue, &sets)?;
        }
        let mut walk = TreeWalk {
            split_tests: work.split_tests.address,
            sets: work.walk_sets.address,
            entries: split_tests.len() as u32,
            ..TreeWalk::default()
        };
        walk.sparse = self.groups.iter().find(|g| g.sparse.is_some()).map_or(SparseRows::default(), FeatureGroup::entries);
        match tree {
            Tree::Symmetric { splits, .. } => walk.depth = splits.len() as u32,
            Tree::Branching { .. } => {
                work.children.reserve(queue, "a tree", children.len())?;
                work.children.write(queue, &children)?;
                walk.children = work.children.address;
            }
        }
        let numbers = 3 * leaves * outputs.len();
        self.work.leaf_sums.reserve(&self.queue, "sums of leaves", numbers)?;
        self.queue.clear(&mut self.work.leaf_sums.slice.slice_mut(..numbers))?;
        // Where all split tests are of one block of features, its codes are read at once.
        let mut groups = tree.splits().map(|s| self.group_of(s.feature));
        let one = groups.next().filter(|g| !by_set && g.is_one_block() && groups.all(|other| other.first == g.first));
        for (k, (_, quantizer)) in outputs.iter().enumerate() {
            let sums = self.work.leaf_sums.address + 8 * (3 * leaves * k) as u64;
            self.queue_leaves((loss, self.output + k, *quantizer), walk, leaves, sums, one, (0, 0), &LeafValues::default())?;
        }
        let mut sums = self.work.leaf_sums.read(&self.queue, numbers)?;
        self.of.collective.sum(&mut sums)?;
        let of_output = |(own, (quantizer, _)): (&[i64], &(GradientQuantizer, u64))| {
            own.chunks_exact(3).map(|s| leaf_sums(quantizer, s[0], s[1], s[2])).collect()
        };
        Ok(sums.chunks_exact(3 * leaves).zip(outputs).map(of_output).collect())
    }

    /// Queues the sums of the leaves, three numbers each, which are zero before, by the quantizer at an address; `one`: the group whose
    /// one block of features all split tests are of. On the way so many words of 16 bytes are `cleared` from an address on, and
    /// behind it the leaves get values, where `values` says how.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn queue_leaves(
        &self,
        (loss, output, quantizer): (&dyn Loss, usize, u64),
        walk: TreeWalk,
        leaves: usize,
        sums: u64,
        one: Option<&FeatureGroup>,
        (cleared, clears): (u64, u64),
        values: &LeafValues,
    ) -> Result<()> {
        let rows = self.data.rows;
        let most = leaves_shared(self.queue.gpu()) as usize;
        // A heap of split tests of one block of features has short ones, and room for the threads' codes.
        let (heap, entries) = (walk.children == 0, walk.entries as usize);
        let one = one.filter(|_| heap && 8 * entries <= most / 4);
        let bytes = match (one, heap) {
            (Some(_), _) => 8 * entries + 32 * LEAF_THREADS as usize,
            (None, heap) => entries * if heap { 8 } else { 16 },
        };
        let near = one.is_some() || bytes <= most / 4;
        let bytes = if near { bytes } else { 0 };
        let room = (most - bytes) / 4;
        // With as many rows in all, values have at most 62 bits less those of the number of rows.
        let limbs = if 62 - (usize::BITS - self.of.all.leading_zeros()) <= 39 { 2 } else { 3 };
        let per_copy = leaves * (2 * limbs + 1);
        let copies = if per_copy > room { 0 } else { 1usize << (room / per_copy).ilog2().min(5) };
        let blocks = 2 * self.queue.gpu().multiprocessors() as usize;
        let threads = LEAF_THREADS as usize;
        let piece = rows.div_ceil(blocks).next_multiple_of(threads).clamp(threads, LIMB_ROWS * copies.max(1));
        let table = self.data.table(loss, output, true);
        let leaves_table = LeafSumParams {
            walk,
            leaf: self.data.leaf.address + 2 * (output * rows) as u64,
            sums,
            near: near as u32,
            leaves: leaves as u32,
            copies: copies as u32,
            limbs: limbs as u32,
            piece: piece as u32,
            unused: 0,
            codes: one.map_or(0, |g| g.codes_of(g.first)),
            cleared,
            clears,
        };
        // With few rows, blocks that only clear.
        let clearing = (clears as usize).div_ceil(CLEARED_EACH * threads).min(blocks / 2);
        let blocks = rows.div_ceil(piece).min(blocks).max(clearing) as u32;
        let config = grid(blocks, LEAF_THREADS, (bytes + 4 * per_copy * copies) as u32);
        let kernel = if one.is_some() { &self.kernels.leaves_heap } else { &self.kernels.leaves };
        // SAFETY: the arguments are those of `tree_leaves*`: a tree over codes of all rows, a leaf for each
        // row, and room for the sums of all leaves.
        unsafe { follow!(self.queue, kernel, config; &table, &leaves_table, &quantizer, values) }
    }
}
