//! The end of a tree: every row's leaf, and the sums of leaves.

use super::CudaBackend;
use super::memory::LEAVES_SHARED;
use super::tables::{BY_SET, DIVIDED, Leaves, Walk, ZERO_RIGHT};
use crate::backend::cuda::grid;
use crate::backend::{LeafSums, NodeId, TrainingData};
use crate::boosting::loss::Loss;
use crate::error::Result;
use crate::launch;
use crate::numerics::reduce::weighted_quantile;
use crate::tree::model::{Child, Split};
use crate::tree::Tree;

/// What stays on the host.
pub struct HostRows {
    pub target: Vec<f32>,
    pub weight: Option<Vec<f32>>,
    pub seed: u64,
    /// Of each node of the tree that grows.
    pub slots: Vec<usize>,
}

impl HostRows {
    pub fn new(data: TrainingData<'_>) -> HostRows {
        HostRows { target: data.target, weight: data.weight, seed: data.seed, slots: vec![0] }
    }
}

/// Rows that 32-bit sums of limbs can take.
const LIMB_ROWS: usize = 4096;

impl CudaBackend {
    /// A split as rows walk it.
    fn walk_split(&self, split: &Split, left: u32, right: u32) -> Walk {
        let by_set = self.features[split.feature as usize].categories;
        let (last, zero_right) = self.code_test(split.feature, split.border, split.missing_left);
        Walk {
            codes: self.group_of(split.feature).codes_of(split.feature as usize),
            last,
            set: split.border,
            left,
            right,
            leaf: 0,
            kind: DIVIDED | if zero_right { ZERO_RIGHT } else { 0 } | if by_set { BY_SET } else { 0 },
        }
    }

    /// A tree as rows walk it, from entry 0.
    fn walk_of(&self, tree: &Tree) -> Vec<Walk> {
        let leaf = |leaf: usize| Walk { leaf: leaf as u32, ..Walk::default() };
        match tree {
            Tree::Symmetric { splits, leaves } => {
                // A heap: the children of entry i are 2i + 1 and 2i + 2.
                let mut walk = Vec::with_capacity(2 * leaves.len());
                for split in splits {
                    for _ in 0..walk.len() + 1 {
                        let i = walk.len() as u32;
                        walk.push(self.walk_split(split, 2 * i + 1, 2 * i + 2));
                    }
                }
                walk.extend((0..leaves.len()).map(leaf));
                walk
            }
            Tree::Branching { nodes, leaves } => {
                let inner = nodes.len() as u32;
                let place = |child: Child| match child {
                    Child::Node(n) => n,
                    Child::Leaf(l) => inner + l,
                };
                let split = |n: &crate::tree::model::Node| self.walk_split(&n.split, place(n.left), place(n.right));
                nodes.iter().map(split).chain((0..leaves.len()).map(leaf)).collect()
            }
        }
    }

    /// Gives every row its leaf and sums the derivatives of those drawn.
    pub(super) fn sum_leaves(&mut self, loss: &dyn Loss, tree: &Tree, leaves: &[NodeId]) -> Result<Vec<LeafSums>> {
        self.leaves = leaves.to_vec();
        let walk = self.walk_of(tree);
        let sets: Vec<u32> = self.subsets.iter().flat_map(|s| super::divide::words(*s)).collect();
        let (queue, work) = (&self.queue, &mut self.work);
        work.walk.reserve(queue, "a tree", walk.len())?;
        work.walk.write(queue, &walk)?;
        if walk.iter().any(|w| w.kind & BY_SET != 0) {
            work.walk_sets.reserve(queue, "a tree", sets.len())?;
            work.walk_sets.write(queue, &sets)?;
        }
        let sums = self.queue_leaves(loss, walk.len(), leaves.len())?;
        let encoding = *self.encoding()?;
        let number = |i: usize| LeafSums {
            gradient: sums[3 * i] as f64 / encoding.leaf_gradient,
            hessian: sums[3 * i + 1] as f64 / encoding.leaf_hessian,
            count: sums[3 * i + 2] as u64,
        };
        Ok((0..leaves.len()).map(number).collect())
    }

    /// The sums of the leaves, three numbers each.
    fn queue_leaves(&mut self, loss: &dyn Loss, walk: usize, leaves: usize) -> Result<Vec<i64>> {
        let rows = self.data.rows;
        self.work.leaf_sums.reserve(&self.queue, "sums of leaves", 3 * leaves)?;
        self.queue.clear(&mut self.work.leaf_sums.slice.slice_mut(..3 * leaves))?;
        let walk_bytes = walk * size_of::<Walk>();
        let walks = if walk_bytes <= LEAVES_SHARED as usize / 4 { walk } else { 0 };
        let room = (LEAVES_SHARED as usize - walks * size_of::<Walk>()) / 4;
        // With as many rows, values have at most 62 bits less those of the number of rows.
        let limbs = if 62 - (usize::BITS - rows.leading_zeros()) <= 39 { 2 } else { 3 };
        let per_copy = leaves * (2 * limbs + 1);
        let copies = if per_copy > room { 0 } else { 1usize << (room / per_copy).ilog2().min(5) };
        let blocks = 2 * self.queue.gpu().multiprocessors() as usize;
        let piece = rows.div_ceil(blocks).next_multiple_of(512).clamp(512, LIMB_ROWS * copies.max(1));
        let table = self.data.table(loss, self.output, true);
        let leaves_table = Leaves {
            walk: self.work.walk.address,
            sets: self.work.walk_sets.address,
            leaf: self.data.leaf.address + 2 * (self.output * rows) as u64,
            sums: self.work.leaf_sums.address,
            walks: walks as u32,
            leaves: leaves as u32,
            copies: copies as u32,
            limbs: limbs as u32,
            piece: piece as u32,
            unused: 0,
        };
        let shared = walks * size_of::<Walk>() + 4 * per_copy * copies;
        let config = grid(rows.div_ceil(piece).min(blocks) as u32, 512, shared as u32);
        let encoding = self.data.encoding.address;
        // SAFETY: the arguments are those of `tree_leaves`: a tree over codes of all rows, a leaf for each
        // row, and room for the sums of all leaves.
        unsafe { launch!(self.queue, &self.kernels.leaves, config; &table, &leaves_table, &encoding) }?;
        self.work.leaf_sums.read(&self.queue, 3 * leaves)
    }

    /// The weighted quantile of the residuals of each leaf's rows that were drawn.
    pub(super) fn quantiles_of_leaves(&mut self, alpha: f64) -> Result<Vec<f64>> {
        let (rows, output) = (self.data.rows, self.output);
        let range = output * rows..(output + 1) * rows;
        let leaf = self.queue.read(&self.data.leaf.slice.slice(range.clone()))?;
        let scores = self.queue.read(&self.data.scores.slice.slice(range))?;
        let bag = self.data.bag.as_ref().map(|b| b.read(&self.queue, rows)).transpose()?;
        let weighted = bag.is_some() || self.host.weight.is_some();
        let mut values = vec![vec![]; self.leaves.len()];
        let mut weights = vec![vec![]; self.leaves.len()];
        for row in 0..rows {
            let drawn = bag.as_ref().map_or(1.0, |b| b[row]);
            if drawn != 0.0 {
                let leaf = leaf[row] as usize;
                values[leaf].push((self.host.target[row] - scores[row]) as f64);
                if weighted {
                    weights[leaf].push(self.host.weight.as_ref().map_or(1.0, |w| w[row]) * drawn);
                }
            }
        }
        let quantile = |(v, w): (&Vec<f64>, &Vec<f32>)| weighted_quantile(v, weighted.then_some(w), alpha);
        Ok(values.iter().zip(&weights).map(quantile).collect())
    }
}
