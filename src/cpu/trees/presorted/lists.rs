//! The sorted rows of each node: a node is searched by walking its rows once, eight features side by side.
//!
//! ```text
//! block 0      lane 0   lane 1   …   lane 7       an entry:
//! position 0   entry    entry        entry          bits 63-32  the row's packed statistic
//! position 1   entry    entry        entry          bits 31-16  the row
//! …                                                 bit  15     whether the value is missing
//!                                                   bits 14-0   the first border behind the value
//! ```
//!
//! A node has the same positions in every lane: those of its rows in the shard's own lists. Partitioning
//! its rows keeps their order, so nothing is sorted but once, before the first tree.

mod evaluate_splits;
mod partition;

use self::evaluate_splits::BlockScores;
use super::starts;
use crate::trees::codes::CodeColumns;
use crate::trees::evaluate_splits::FoundSplit;
use crate::trees::shard::NodeRows;
use std::ops::Range;
use taiga_core::quantize::CodedFeature;
use taiga_core::tree::split::{SplitRules, Sums};
use taiga_core::tree::steps::{Candidate, NodeId, SearchNode};

/// Tables of up to so many rows are searched like this: beyond, histograms are faster. As many bits are a vector.
pub const MOST_ROWS: usize = 512;

/// Of up to so many where the levels of symmetric trees are searched, unless all features stand side by side.
pub const MOST_ROWS_OF_LEVELS: usize = 128;

/// Tables of up to so many values are, whatever their trees.
pub const FEW_VALUES: usize = 1 << 20;

/// What each value takes.
pub const VALUE_BYTES: u64 = 20;

/// Features side by side.
pub const LANES: usize = 8;

const MISSING: u64 = 1 << 15;

#[inline(always)]
fn gradient(entry: u64) -> i32 {
    (entry as i64 >> 48) as i32
}

#[inline(always)]
fn hessian(entry: u64) -> i32 {
    (entry >> 32) as i32 & 0xffff
}

#[inline(always)]
fn row(entry: u64) -> usize {
    (entry >> 16) as usize & 0xffff
}

#[inline(always)]
fn border(entry: u64) -> usize {
    (entry & (MISSING - 1)) as usize
}

/// The rows of a table, sorted by the codes of each feature of a group.
pub struct SortedLists {
    rows: usize,
    /// The number of the first feature, and how many there are.
    first: usize,
    features: usize,
    /// Whether rows are counted, by hessians that are 1, or that tell whether there are any.
    counted: bool,
    /// `[block][position][lane]`: all rows, without statistics.
    all: Vec<u32>,
    /// Whether a block has any missing value.
    missing: Vec<bool>,
    /// `[block][position][lane]`: the rows of the tree's nodes, in one list or the other as the
    /// shard's are.
    lists: [Vec<u64>; 2],
    /// The nodes of the tree whose entries are in the lists.
    known: Vec<bool>,
    work: BlockScores,
}

impl SortedLists {
    /// Sorts the rows of a table of at most [`MOST_ROWS`] by the codes of each feature of a group that is in `own`; the group's are numbered
    /// from `first_feature` on.
    pub fn new(
        features: &[CodedFeature],
        own: Range<usize>,
        first_feature: usize,
        columns: &CodeColumns,
        rows: usize,
        counted: bool,
    ) -> SortedLists {
        let (features, first_feature) = (&features[own.clone()], first_feature + own.start);
        let blocks = features.len().div_ceil(LANES);
        let size = blocks * rows * LANES;
        // The lanes that are left over have one bin, where nothing can be split.
        let mut all: Vec<u32> = (0..size).map(|i| ((i / LANES % rows) as u32) << 16).collect();
        let mut missing = vec![false; blocks];
        for (f, feature) in features.iter().enumerate() {
            let (codes, first, block) = (columns.feature(own.start + f), feature.first(), f / LANES);
            let mut next = starts(codes);
            for (row, code) in codes.iter().enumerate() {
                let code = *code as usize;
                let position = next[code] as usize;
                next[code] += 1;
                let value = if code < first { MISSING as usize } else { code - first };
                missing[block] |= code < first;
                all[(block * rows + position) * LANES + f % LANES] = (row << 16 | value) as u32;
            }
        }
        SortedLists {
            rows,
            first: first_feature,
            features: features.len(),
            counted,
            all,
            missing,
            lists: [vec![0; size], vec![0; size]],
            known: vec![],
            work: BlockScores::new(rows),
        }
    }

    /// Forgets the nodes of the last tree.
    pub fn reset(&mut self) {
        self.known.clear();
    }

    /// Returns whether a node's entries are there; they are not where it was left aside when the group was opened.
    pub fn knows(&self, node: NodeId) -> bool {
        self.known.get(node as usize) == Some(&true)
    }

    /// Notes that a node's entries are there.
    pub fn note(&mut self, node: NodeId) {
        self.known.resize(self.known.len().max(node as usize + 1), false);
        self.known[node as usize] = true;
    }

    /// Fills in a node's entries: all rows, or those in `drawn`, with each row's packed statistic.
    pub fn open(&mut self, node: NodeRows, drawn: Option<&[u32]>, statistics: &[u32]) {
        let entry = |tag: u32| (statistics[(tag >> 16) as usize] as u64) << 32 | tag as u64;
        let list = &mut self.lists[node.list as usize];
        let Some(drawn) = drawn else {
            for (e, tag) in list.iter_mut().zip(&self.all) {
                *e = entry(*tag);
            }
            return;
        };
        let mut inside = [false; MOST_ROWS];
        for row in drawn {
            inside[*row as usize] = true;
        }
        let block = self.rows * LANES;
        for (list, all) in list.chunks_exact_mut(block).zip(self.all.chunks_exact(block)) {
            for lane in 0..LANES {
                let tags = all[lane..].iter().step_by(LANES).filter(|tag| inside[(**tag >> 16) as usize]);
                for (e, tag) in list[node.start * LANES + lane..].iter_mut().step_by(LANES).zip(tags) {
                    *e = entry(*tag);
                }
            }
        }
    }

    /// Returns a block's entries of a node.
    fn entries(&self, node: NodeRows, block: usize) -> &[u64] {
        let start = (block * self.rows + node.start) * LANES;
        &self.lists[node.list as usize][start..start + node.len * LANES]
    }

    fn sums(&self, gradient: i32, hessian: i32) -> Sums {
        Sums { gradient: gradient as i64, hessian: hessian as i64, count: if self.counted { hessian as i64 } else { 0 } }
    }

    /// Returns the sums left of a candidate in a node.
    pub fn left_sums(&self, node: NodeRows, candidate: &Candidate) -> Sums {
        let f = candidate.feature as usize - self.first;
        let lane = self.entries(node, f / LANES)[f % LANES..].iter().step_by(LANES);
        let left = lane.take_while(|e| border(**e) <= candidate.border as usize).filter(|e| candidate.missing_left || *e & MISSING == 0);
        let (g, h) = left.fold((0, 0), |a, e| (a.0 + gradient(*e), a.1 + hessian(*e)));
        self.sums(g, h)
    }

    /// Partitions a node's entries as the shard has partitioned its rows: the first `left` of `rows` go left.
    pub fn partition(&mut self, node: NodeRows, rows: &[u32], left: usize) {
        let mut right = [0; MOST_ROWS / 8];
        for row in &rows[left..] {
            right[*row as usize / 8] |= 1 << (row % 8);
        }
        let (low, high) = self.lists.split_at_mut(1);
        let (from, to) = if node.list == 0 { (&low[0], &mut high[0]) } else { (&high[0], &mut low[0]) };
        for block in 0..self.missing.len() {
            let start = (block * self.rows + node.start) * LANES;
            let range = start..start + node.len * LANES;
            partition::partition_lanes(&from[range.clone()], &right, left, &mut to[range]);
        }
    }

    /// Finds the best split of each node. `places[n]` are the rows of node number `n`.
    pub fn find_splits(&mut self, nodes: &[SearchNode], places: &[NodeRows], rules: &SplitRules) -> Vec<Option<FoundSplit>> {
        let mut work = std::mem::take(&mut self.work);
        let found = evaluate_splits::find_splits(self, nodes, places, rules, &mut work);
        self.work = work;
        found
    }

    /// Finds the split with the largest gain summed over the nodes.
    pub fn find_level_split(
        &mut self,
        nodes: &[SearchNode],
        places: &[NodeRows],
        features: &[CodedFeature],
        rules: &SplitRules,
    ) -> Option<Candidate> {
        // The slice has the features of all groups.
        let features = &features[self.first..self.first + self.features];
        let mut work = std::mem::take(&mut self.work);
        let found = evaluate_splits::find_level_split(self, nodes, places, features, rules, &mut work);
        self.work = work;
        found
    }
}
