//! Finds the best splits of nodes, each by itself or of a level together, of a tree that several outputs share. Twin of
//! `cpu/trees/evaluate_shared.rs`.

use super::CudaTrees;
use super::evaluate_splits::level_nodes;
use super::layouts::{FeatureSplit, SharedOutputs, SplitInput, SplitSearch};
use crate::{grid, launch};
use cudarc::driver::LaunchConfig;
use taiga_core::error::Result;
use taiga_core::tree::split::{SplitRules, Sums};
use taiga_core::tree::steps::{Candidate, SearchNode};

/// Threads of a block that searches a feature of a node, one a code; and nodes of a level that a block adds up at a time.
const BINS: usize = 256;

/// A block for each of so many features in so many nodes.
fn blocks(features: u32, nodes: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (features, nodes, 1), block_dim: (BINS as u32, 1, 1), shared_mem_bytes: 0 }
}

impl CudaTrees<'_> {
    /// The outputs that share the tree, as a search in a group is told of them.
    fn outputs_table(&self, group: usize) -> SharedOutputs {
        let slot_size = self.groups[group].slot_size_of_output();
        self.shared.as_ref().map_or(SharedOutputs::default(), |shared| shared.table(slot_size))
    }

    /// The best split of each node by itself.
    pub(crate) fn search_shared_nodes(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Vec<Option<(Candidate, Sums)>>> {
        self.list_features(&rules.monotone)?;
        let open = self.list_items(nodes)?;
        let n = nodes.len();
        self.work.best.reserve(&self.queue, "splits", n * self.columns)?;
        if self.features.iter().any(|f| f.categories) {
            self.work.sets.reserve(&self.queue, "splits", 8 * n * self.columns)?;
        }
        for index in 0..open.len() {
            let (search, outputs) = (self.search_table(&open, index, n, 0, rules)?, self.outputs_table(open[index]));
            // The second dimension of a grid is of 16 bits.
            for from in (0..n).step_by(1 << 15) {
                let search = SplitSearch {
                    split_inputs: search.split_inputs + (from * size_of::<SplitInput>()) as u64,
                    best: search.best + (from * self.columns * size_of::<FeatureSplit>()) as u64,
                    sets: search.sets + (from * self.columns * 32) as u64,
                    ..search
                };
                let config = blocks(search.features_here, (n - from).min(1 << 15) as u32);
                // SAFETY: the arguments are those of `tree_shared_search`: as many nodes, slots that are there for each output, and
                // room for what is found by every column.
                unsafe { launch!(self.queue, &self.kernels.shared_search, config; &search, &outputs) }?;
            }
        }
        self.pick_shared(&open, n, false, rules)
    }

    /// The split of a level with the largest gain over its nodes.
    pub(crate) fn search_shared_level(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Option<(Candidate, Vec<Sums>)>> {
        self.list_features(&rules.monotone)?;
        let open = self.list_items(nodes)?;
        let n = nodes.len();
        self.work.best.reserve(&self.queue, "splits", self.columns)?;
        let at_once = level_nodes(self.columns, n).min(BINS);
        let level = self.work.level(&self.queue, self.columns, at_once, false)?;
        self.work.level_parents.reserve(&self.queue, "scores of splits", at_once)?;
        let (numbers, parents) = (self.numbers.address, self.work.level_parents.address);
        for from in (0..n).step_by(at_once) {
            let here = (n - from).min(at_once) as u32;
            for index in 0..open.len() {
                let (search, outputs) = (self.search_table(&open, index, n, from, rules)?, self.outputs_table(open[index]));
                let config = blocks(search.features_here, here);
                // SAFETY: the arguments are those of `tree_shared_level_scores`: as many nodes, and room for their scores.
                unsafe { launch!(self.queue, &self.kernels.shared_level_scores, config; &search, &outputs, &level, &parents) }?;
            }
            let search = self.search_table(&open, 0, n, from, rules)?;
            let (begins, ends) = ((from == 0) as u32, (from + here as usize == n) as u32);
            let config = grid(self.columns as u32, BINS as u32, 0);
            // SAFETY: the arguments are those of `tree_shared_level_sum`: scores of `here` nodes of every column, and what these score.
            unsafe {
                launch!(self.queue, &self.kernels.shared_level_sum, config; &search, &level, &numbers, &here, &begins, &ends, &parents)
            }?;
        }
        let found = self.pick_shared(&open, n, true, rules)?;
        let Some(Some((candidate, _))) = found.first() else { return Ok(None) };
        Ok(Some((*candidate, found.iter().map(|f| f.map_or(Sums::default(), |(_, left)| left)).collect())))
    }

    /// What was found for each of `n` nodes, with the sums of its left child. `of_level`: one split for all of them.
    fn pick_shared(&mut self, open: &[usize], n: usize, of_level: bool, rules: &SplitRules) -> Result<Vec<Option<(Candidate, Sums)>>> {
        self.work.found.reserve(&self.queue, "splits", n)?;
        let (numbers, of_level, found) = (self.numbers.address, of_level as u32, self.work.found.address);
        for index in 0..open.len() {
            let (search, outputs) = (self.search_table(open, index, n, 0, rules)?, self.outputs_table(open[index]));
            let config = grid(n as u32, 256, 0);
            // SAFETY: the arguments are those of `tree_shared_pick`: the best of every column, and `n` nodes.
            unsafe { launch!(self.queue, &self.kernels.shared_pick, config; &search, &outputs, &numbers, &of_level, &found) }?;
        }
        let found = self.work.found.read(&self.queue, n)?;
        Ok(found.iter().map(|f| self.candidate(f)).collect())
    }
}
