//! Trees that leave the scores for a while: each row's leaf in every tree is kept on the device, a byte where a tree has no more than 256
//! leaves; their values stay on the host. Twin of `cpu/trees/dropouts.rs`.

use super::CudaTrees;
use super::buffers::{Buffer, Kernels};
use super::layouts::KeptTree;
use super::rows::RowData;
use crate::runtime::Queue;
use crate::{grid, launch};
use std::ops::Range;
use taiga_core::error::Result;
use taiga_core::learners::boosting::dropout::{check_sums, in_steps, largest_leaf, rescaled};
use taiga_core::learners::boosting::steps::{DropoutSteps, GivenTree};

/// The most bytes of leaves for which there is room before they come.
const MOST_AHEAD: usize = 256 << 20;

/// Leaves begin at multiples of so many bytes.
const ALIGNMENT: usize = 256;

/// What was kept of the trees of a fit.
pub struct KeptTrees {
    /// The scores before any tree, `[score][row]`.
    start: Buffer<f32>,
    /// Of each row the sum of its leaves' values, in [`in_steps`], likewise.
    sums: Buffer<f64>,
    /// `[round][score]`
    rounds: Vec<Vec<KeptValues>>,
    /// The values of the round that has not ended yet, `[score][leaf]`.
    grown: Vec<Vec<f32>>,
    leaves: LeafRoom,
    /// The trees that come or go, and the values of their leaves.
    trees: Buffer<KeptTree>,
    values: Buffer<f64>,
}

/// A tree as it is added to a score.
struct KeptValues {
    /// Where the leaf of each row is.
    leaves: u64,
    wide: bool,
    /// By the number that the rows of a leaf have.
    values: Vec<f32>,
}

/// Whether leaves of such a tree take two bytes.
fn is_wide(values: &[f32]) -> bool {
    values.len() > 1 << 8
}

/// Room for the leaves of trees, which grows by as much as there is.
#[derive(Default)]
struct LeafRoom {
    parts: Vec<Buffer<u8>>,
    /// Bytes of the last part that are taken.
    taken: usize,
}

impl LeafRoom {
    /// Takes so many bytes, and returns where they are.
    fn take(&mut self, queue: &Queue, bytes: usize) -> Result<u64> {
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        if self.parts.last().is_none_or(|part| part.slice.len() - self.taken < bytes) {
            let there = self.parts.iter().map(|part| part.slice.len()).sum::<usize>();
            let new = bytes.max(there.min(MOST_AHEAD));
            queue.check_memory("the leaves that trees send rows to, which boosting=\"dart\" keeps", new as u64)?;
            self.parts.push(Buffer::new(queue, "leaves of trees", new)?);
            self.taken = 0;
        }
        let first = self.parts.last().map_or(0, |part| part.address);
        self.taken += bytes;
        Ok(first + (self.taken - bytes) as u64)
    }
}

impl KeptTrees {
    /// Begins to keep trees beside the scores that there are.
    fn new(queue: &Queue, data: &RowData<'_>) -> Result<KeptTrees> {
        let numbers = data.outputs * data.rows;
        let what = "scores that trees are taken out of";
        queue.check_memory(what, 12 * numbers as u64)?;
        let mut start = Buffer::new(queue, what, numbers)?;
        queue.copy(&data.scores.slice, &mut start.slice)?;
        Ok(KeptTrees {
            start,
            sums: Buffer::zeros(queue, what, numbers)?,
            rounds: vec![],
            grown: vec![vec![]; data.outputs],
            leaves: LeafRoom::default(),
            trees: Buffer::new(queue, "trees", 1)?,
            values: Buffer::new(queue, "leaf values", 1)?,
        })
    }

    /// Notes the values of the leaves of an output's last tree, by the number that their rows have.
    pub fn note_values(&mut self, output: usize, values: Vec<f32>) {
        self.grown[output] = values;
    }

    /// Keeps a tree that there was before the fit, of which these are the leaves of all rows.
    fn keep_given(&mut self, queue: &Queue, leaves: &[u16], values: &[f32]) -> Result<KeptValues> {
        let wide = is_wide(values);
        let at = self.leaves.take(queue, leaves.len() * if wide { 2 } else { 1 })?;
        if wide {
            queue.write_at(leaves, at)?;
        } else {
            queue.write_at(&leaves.iter().map(|leaf| *leaf as u8).collect::<Vec<u8>>(), at)?;
        }
        Ok(KeptValues { leaves: at, wide, values: values.to_vec() })
    }

    /// Keeps the trees of a round that ends, which all rows have their leaves in.
    fn keep_grown(&mut self, queue: &Queue, kernels: &Kernels, data: &RowData<'_>) -> Result<()> {
        let mut round = Vec::with_capacity(data.outputs);
        let rows = data.rows as u64;
        for output in 0..data.outputs {
            let values = std::mem::take(&mut self.grown[output]);
            let wide = is_wide(&values);
            let at = self.leaves.take(queue, data.rows * if wide { 2 } else { 1 })?;
            let (leaf, two_bytes) = (data.leaf.address + 2 * (output * data.rows) as u64, wide as u32);
            // SAFETY: the arguments are those of `tree_keep`: a leaf for each row, and room for as many.
            unsafe { launch!(queue, &kernels.keep, grid(data.blocks, 256, 0); &leaf, &at, &two_bytes, &rows) }?;
            round.push(KeptValues { leaves: at, wide, values });
        }
        self.rounds.push(round);
        Ok(())
    }

    /// Adds the trees of some rounds, times `sign`, to the sums, and writes the scores.
    fn add(&mut self, queue: &Queue, kernels: &Kernels, data: &RowData<'_>, rounds: &[u32], sign: f64) -> Result<()> {
        let (mut trees, mut values) = (Vec::with_capacity(data.outputs * rounds.len()), vec![]);
        for output in 0..data.outputs {
            for round in rounds {
                let tree = &self.rounds[*round as usize][output];
                trees.push(KeptTree { leaves: tree.leaves, wide: tree.wide as u32, first: values.len() as u32 });
                values.extend(tree.values.iter().map(|value| sign * in_steps(*value)));
            }
        }
        self.trees.reserve(queue, "trees", trees.len())?;
        self.trees.write(queue, &trees)?;
        self.values.reserve(queue, "leaf values", values.len())?;
        self.values.write(queue, &values)?;
        let (count, rows) = (rounds.len() as u32, data.rows as u64);
        for output in 0..data.outputs {
            let (tree, row) = ((output * rounds.len()) as u64, (output * data.rows) as u64);
            let trees = self.trees.address + size_of::<KeptTree>() as u64 * tree;
            let (start, sums, scores) = (self.start.address + 4 * row, self.sums.address + 8 * row, data.scores.address + 4 * row);
            let config = grid(data.blocks, 256, 0);
            // SAFETY: the arguments are those of `tree_add_kept`: trees that are kept with a value for each leaf, three numbers for each row.
            unsafe { launch!(queue, &kernels.add_kept, config; &trees, &count, &self.values.address, &start, &sums, &scores, &rows) }?;
        }
        Ok(())
    }

    /// Checks that the sums of leaves' values are exact.
    fn check(&self) -> Result<()> {
        let of_score = |k: usize| self.rounds.iter().map(|round| largest_leaf(&round[k].values)).sum::<f64>();
        check_sums((0..self.grown.len()).map(of_score).fold(0.0, f64::max))
    }
}

impl CudaTrees<'_> {
    /// Begins to keep trees, with those given, in which these are the rows of this GPU.
    pub(crate) fn keep_trees_of(&mut self, given: &[Vec<GivenTree>], rows: Range<usize>) -> Result<()> {
        let (queue, kernels, data) = (&self.queue, &self.kernels, &self.data);
        let mut kept = KeptTrees::new(queue, data)?;
        for round in given {
            let of_tree = |tree: &GivenTree| kept.keep_given(queue, &tree.leaves[rows.clone()], &tree.values);
            let round = round.iter().map(of_tree).collect::<Result<_>>()?;
            kept.rounds.push(round);
        }
        let all: Vec<u32> = (0..given.len() as u32).collect();
        kept.add(queue, kernels, data, &all, 1.0)?;
        kept.check()?;
        self.kept = Some(kept);
        Ok(())
    }
}

impl DropoutSteps for CudaTrees<'_> {
    fn keep_trees(&mut self, given: Vec<Vec<GivenTree>>) -> Result<()> {
        self.keep_trees_of(&given, 0..self.data.rows)
    }

    fn drop_out(&mut self, rounds: &[u32]) -> Result<()> {
        match &mut self.kept {
            Some(kept) if !rounds.is_empty() => kept.add(&self.queue, &self.kernels, &self.data, rounds, -1.0),
            _ => Ok(()),
        }
    }

    fn put_back(&mut self, rounds: &[u32], factor: f64) -> Result<()> {
        let (queue, kernels, data) = (&self.queue, &self.kernels, &self.data);
        let Some(kept) = &mut self.kept else { return Ok(()) };
        for round in rounds {
            let values = kept.rounds[*round as usize].iter_mut().flat_map(|tree| &mut tree.values);
            values.for_each(|value| *value = rescaled(*value, factor));
        }
        kept.keep_grown(queue, kernels, data)?;
        let last = kept.rounds.len() as u32 - 1;
        kept.add(queue, kernels, data, &[rounds, &[last]].concat(), 1.0)?;
        kept.check()
    }
}
