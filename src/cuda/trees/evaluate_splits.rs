//! Finds the best splits of nodes, each by itself or of a level together. Twin of `cpu/trees/evaluate_splits.rs`.

use super::buffers::Kernels;
use super::feature_groups::{FeatureGroup, HistogramState};
use super::layouts::{MISSING_LEFT, NO_SIDE, NodeSplit, Rules, SEARCHED, SUBSET, SplitInput, SplitSearch};
use super::{CudaTrees, partition};
use crate::runtime::Gpu;
use crate::{Kernel, grid, launch};
use cudarc::driver::LaunchConfig;
use std::sync::Arc;
use taiga_core::error::Result;
use taiga_core::quantize::CodeSet;
use taiga_core::tree::split::{SplitRules, Sums};
use taiga_core::tree::steps::{Candidate, SearchNode};

/// Scores of a level that are kept at a time: 64 MiB.
const LEVEL_SCORES: usize = 8 << 20;

/// How many of a level's `nodes` nodes are scored at a time.
pub fn level_nodes(columns: usize, nodes: usize) -> usize {
    (LEVEL_SCORES / (columns * 512).max(1)).clamp(1, nodes.max(1)).min(1 << 15)
}

/// How a feature of a node is searched: by a block, or by some lanes. [`Kernels`] names the kernels in this order.
#[derive(Clone, Copy)]
pub enum Searcher {
    Block,
    Lanes4,
    Lanes32,
    /// Several codes each.
    Lanes256,
}

impl Searcher {
    /// Chooses how a group's features are searched in so many nodes.
    pub fn of(group: &FeatureGroup, nodes: u32, gpu: &Gpu) -> Searcher {
        // What is searched at a time by blocks.
        let at_once = 8 * gpu.multiprocessors() as usize;
        match group.most_codes {
            _ if group.categories => Searcher::Block,
            0..=4 => Searcher::Lanes4,
            5..=32 => Searcher::Lanes32,
            _ if group.features * nodes as usize > at_once => Searcher::Lanes256,
            _ => Searcher::Block,
        }
    }

    /// The launch for so many features in so many nodes.
    pub fn config(self, features: u32, nodes: u32) -> LaunchConfig {
        let (each, threads) = match self {
            Searcher::Block => (1, 256),
            Searcher::Lanes4 => (64, 256),
            Searcher::Lanes32 => (8, 256),
            Searcher::Lanes256 => (4, 128),
        };
        LaunchConfig { grid_dim: (features.div_ceil(each), nodes, 1), block_dim: (threads, 1, 1), shared_mem_bytes: 0 }
    }
}

impl Kernels {
    pub fn search_by(&self, searcher: Searcher) -> &Kernel {
        [&self.search, &self.search_4, &self.search_32, &self.search_256][searcher as usize]
    }

    pub fn level_scores_by(&self, searcher: Searcher) -> &Kernel {
        [&self.level_scores, &self.level_scores_4, &self.level_scores_32, &self.level_scores_256][searcher as usize]
    }

    pub fn search_grow_by(&self, searcher: Searcher) -> &Kernel {
        [&self.search_grow, &self.search_grow_4, &self.search_grow_32, &self.search_grow_256][searcher as usize]
    }
}

/// The threads that look for the best of so many columns.
fn pick_threads(columns: usize) -> u32 {
    if columns > 64 { 256 } else { 32 }
}

impl CudaTrees<'_> {
    /// Uploads what is to be searched in group after group: the nodes of each open group follow one
    /// another, since a node's histogram is in another state in each. Gives the group's numbers.
    pub(crate) fn list_items(&mut self, nodes: &[SearchNode]) -> Result<Vec<usize>> {
        let open: Vec<usize> = self.open_groups().into_iter().filter(|g| self.groups[*g].features > 0).collect();
        let words = self.features.len().div_ceil(32);
        let mut allowed: Vec<u32> = vec![];
        let mut last: Option<(&Vec<u32>, u32)> = None;
        let mut places = Vec::with_capacity(nodes.len());
        for node in nodes {
            places.push(match (&node.features, last) {
                (None, _) => u32::MAX,
                (Some(list), Some((same, place))) if list == same => place,
                (Some(list), _) => {
                    let place = allowed.len();
                    allowed.resize(place + words, 0);
                    list.iter().for_each(|f| allowed[place + *f as usize / 32] |= 1 << (f % 32));
                    last = Some((list, place as u32));
                    place as u32
                }
            });
        }
        // Drawn borders, four a word, of all nodes of a level the same.
        let mut last: Option<(&Arc<[u8]>, u32)> = None;
        let mut drawn = Vec::with_capacity(nodes.len());
        for node in nodes {
            drawn.push(match (&node.borders, last) {
                (None, _) => 0,
                (Some(borders), Some((same, place))) if Arc::ptr_eq(borders, same) => place,
                (Some(borders), _) => {
                    let place = allowed.len() as u32;
                    allowed.extend((0..self.features.len().div_ceil(4)).map(|word| {
                        let of_feature = |f: usize| (borders.get(4 * word + f).copied().unwrap_or(0) as u32) << (8 * f);
                        (0..4).map(of_feature).sum::<u32>()
                    }));
                    last = Some((borders, place));
                    place
                }
            });
        }
        let noisy = self.list_noise(nodes, &open)?;
        self.list_weights(nodes, &open)?;
        let mut split_inputs = Vec::with_capacity(nodes.len() * open.len());
        for g in &open {
            for (((node, place), drawn), noise) in nodes.iter().zip(&places).zip(&drawn).zip(&noisy) {
                let state = self.groups[*g].state(node.id);
                split_inputs.push(SplitInput {
                    sums: node.sums.into(),
                    low: node.inherited.bounds.0,
                    high: node.inherited.bounds.1,
                    slot: self.slot_of(node.id) as u32,
                    minus: if let HistogramState::Rest(slot) = state { slot as i32 } else { -1 },
                    features: *place,
                    state: SEARCHED,
                    value: node.inherited.value,
                    drawn: *drawn,
                    noise: *noise,
                });
                self.groups[*g].set_state(node.id, HistogramState::HistogramJob);
            }
        }
        let work = &mut self.work;
        work.split_inputs.reserve(&self.queue, "nodes", split_inputs.len())?;
        work.split_inputs.write(&self.queue, &split_inputs)?;
        work.draws = nodes.iter().any(|node| node.borders.is_some());
        work.allowed.reserve(&self.queue, "features", allowed.len())?;
        work.allowed.write(&self.queue, &allowed)?;
        Ok(open)
    }

    /// Uploads the noise on the scores of the open groups' features, all nodes of a level the same. Returns the row that each node's is in.
    fn list_noise(&mut self, nodes: &[SearchNode], open: &[usize]) -> Result<Vec<u32>> {
        self.work.is_noisy = nodes.iter().any(|node| node.noise.is_some());
        if !self.work.is_noisy {
            return Ok(vec![0; nodes.len()]);
        }
        let (mut noise, mut last): (Vec<f64>, Option<&Arc<[f64]>>) = (vec![], None);
        let (mut rows, mut count) = (Vec::with_capacity(nodes.len()), 0);
        for own in nodes.iter().filter_map(|node| node.noise.as_ref()) {
            if !last.is_some_and(|last| Arc::ptr_eq(own, last)) {
                let features = open.iter().flat_map(|g| self.groups[*g].first..self.groups[*g].first + self.groups[*g].features);
                noise.extend(features.map(|f| own.get(f).copied().unwrap_or(0.0)));
                (last, count) = (Some(own), count + 1);
            }
            rows.push(count - 1);
        }
        debug_assert_eq!((rows.len(), noise.len()), (nodes.len(), count as usize * self.columns));
        self.work.noise.reserve(&self.queue, "noise on scores", noise.len())?;
        self.work.noise.write(&self.queue, &noise)?;
        Ok(rows)
    }

    /// Uploads the weights of the open groups' features, which are the same in all nodes.
    fn list_weights(&mut self, nodes: &[SearchNode], open: &[usize]) -> Result<()> {
        let weights = nodes.first().and_then(|node| node.weights.as_ref());
        self.work.is_weighted = weights.is_some();
        let Some(own) = weights else { return Ok(()) };
        let features = open.iter().flat_map(|g| self.groups[*g].first..self.groups[*g].first + self.groups[*g].features);
        let weights: Vec<f64> = features.map(|f| own.get(f).copied().unwrap_or(1.0)).collect();
        debug_assert_eq!(weights.len(), self.columns);
        self.work.weights.reserve(&self.queue, "weights of features", weights.len())?;
        self.work.weights.write(&self.queue, &weights)
    }

    /// A search of `nodes` nodes in the `index`-th open group, of those from `from` on.
    pub(crate) fn search_table(&self, open: &[usize], index: usize, nodes: usize, from: usize, rules: &SplitRules) -> Result<SplitSearch> {
        let group = &self.groups[open[index]];
        let before: usize = open[..index].iter().map(|g| self.groups[*g].features).sum();
        Ok(SplitSearch {
            histograms: group.table(0),
            features: self.feature_table.address,
            first_feature: group.first as u32,
            first_column: before as u32,
            columns: self.columns as u32,
            counted: self.counted(self.quantizer()?),
            features_here: group.features as u32,
            draws: self.work.draws as u32,
            split_inputs: self.work.split_inputs.address + ((index * nodes + from) * size_of::<SplitInput>()) as u64,
            allowed: self.work.allowed.address,
            quantizer: self.data.log().address,
            best: self.work.best.address,
            sets: self.work.sets.address,
            noise: if self.work.is_noisy { self.work.noise.address } else { 0 },
            weights: if self.work.is_weighted { self.work.weights.address } else { 0 },
            rules: Rules::new(rules),
        })
    }

    /// The best split of each node by itself.
    pub(crate) fn search_nodes(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Vec<Option<(Candidate, Sums)>>> {
        self.list_features(&rules.monotone)?;
        let open = self.list_items(nodes)?;
        let n = nodes.len();
        self.work.best.reserve(&self.queue, "splits", n * self.columns)?;
        if self.features.iter().any(|f| f.categories) {
            self.work.sets.reserve(&self.queue, "splits", 8 * n * self.columns)?;
        }
        self.work.found.reserve(&self.queue, "splits", n)?;
        for index in 0..open.len() {
            let search = self.search_table(&open, index, n, 0, rules)?;
            // The second dimension of a grid is of 16 bits.
            for from in (0..n).step_by(1 << 15) {
                let here = (n - from).min(1 << 15);
                let search = SplitSearch {
                    split_inputs: search.split_inputs + (from * size_of::<SplitInput>()) as u64,
                    best: search.best + (from * self.columns * size_of::<super::layouts::FeatureSplit>()) as u64,
                    sets: search.sets + (from * self.columns * 32) as u64,
                    ..search
                };
                let searcher = Searcher::of(&self.groups[open[index]], here as u32, self.queue.gpu());
                let kernel = self.kernels.search_by(searcher);
                // SAFETY: the arguments are those of `tree_search*`: as many nodes, slots that are there, and
                // room for what is found by every column.
                unsafe { launch!(self.queue, kernel, searcher.config(search.features_here, here as u32); &search) }?;
            }
        }
        let (best, sets, numbers, columns, found) =
            (self.work.best.address, self.work.sets.address, self.numbers.address, self.columns as u32, self.work.found.address);
        // SAFETY: the arguments are those of `tree_pick`: what was found for each node by each column.
        unsafe {
            launch!(self.queue, &self.kernels.pick, grid(n as u32, pick_threads(self.columns), 0); &best, &sets, &numbers, &columns, &found)
        }?;
        let found = self.work.found.read(&self.queue, n)?;
        Ok(found.iter().map(|f| self.candidate(f)).collect())
    }

    /// A found split as the grower takes it.
    pub(crate) fn candidate(&mut self, found: &NodeSplit) -> Option<(Candidate, Sums)> {
        if found.side == NO_SIDE {
            return None;
        }
        let mut candidate = Candidate {
            feature: found.feature,
            border: found.border,
            missing_left: found.side == MISSING_LEFT,
            gain: found.gain,
            // With noise or weights it was another one, by which the device has chosen: nobody compares this one.
            rank: found.gain,
        };
        if found.side == SUBSET {
            let mut set = CodeSet::default();
            (0..=255u8).filter(|c| found.set[*c as usize / 32] >> (c % 32) & 1 == 1).for_each(|c| set.insert(c));
            debug_assert_eq!(partition::bit_set(set), found.set);
            candidate.border = self.subsets.len() as u32;
            candidate.missing_left = true;
            self.subsets.push(set);
        }
        Some((candidate, found.left.into()))
    }

    /// The split of a level with the largest gain over its nodes.
    pub(crate) fn search_level(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Option<(Candidate, Vec<Sums>)>> {
        self.list_features(&rules.monotone)?;
        let open = self.list_items(nodes)?;
        let n = nodes.len();
        self.work.best.reserve(&self.queue, "splits", self.columns)?;
        self.work.found.reserve(&self.queue, "splits", n)?;
        let at_once = level_nodes(self.columns, n);
        let level = self.work.level(&self.queue, self.columns, at_once, false)?;
        let numbers = self.numbers.address;
        for from in (0..n).step_by(at_once) {
            let here = (n - from).min(at_once) as u32;
            for index in 0..open.len() {
                let search = self.search_table(&open, index, n, from, rules)?;
                let searcher = Searcher::of(&self.groups[open[index]], here, self.queue.gpu());
                let kernel = self.kernels.level_scores_by(searcher);
                // SAFETY: the arguments are those of `tree_level_scores*`: as many nodes, and room for their scores.
                unsafe { launch!(self.queue, kernel, searcher.config(search.features_here, here); &search, &level) }?;
            }
            let search = self.search_table(&open, 0, n, from, rules)?;
            let (begins, ends) = ((from == 0) as u32, (from + here as usize == n) as u32);
            let config = grid(self.columns as u32, 256, 0);
            // SAFETY: the arguments are those of `tree_level_sum`: scores of `here` nodes of every column.
            unsafe { launch!(self.queue, &self.kernels.level_sum, config; &search, &level, &numbers, &here, &begins, &ends) }?;
        }
        for index in 0..open.len() {
            let search = self.search_table(&open, index, n, 0, rules)?;
            let found = self.work.found.address;
            // SAFETY: the arguments are those of `tree_level_pick`: the best of every column, and `n` nodes.
            unsafe {
                launch!(self.queue, &self.kernels.level_pick, grid(n as u32, pick_threads(self.columns), 0); &search, &numbers, &found)
            }?;
        }
        let found = self.work.found.read(&self.queue, n)?;
        let best = found.first().and_then(|f| self.candidate(f));
        Ok(best.map(|(candidate, _)| (candidate, found.iter().map(|f| f.left.into()).collect())))
    }
}
