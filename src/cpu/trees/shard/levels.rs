//! Whole levels in one pass over all rows in order.
//!
//! A table larger than the caches is read from memory in lines of two rows. Going through it node
//! by node, by lists of rows, reads nearly every line once for each of its two rows, and waits for
//! each; in order of the rows every line is read once, and before it is needed. So as long as a
//! level's divisions concern most rows and few histograms, each row notes the node that it is in,
//! and one pass tests each row as its node says and adds it to the histogram of the child it
//! goes to, where that is the smaller one. This is done in windows of rows that the second-level cache
//! holds: once all rows of a window have been partitioned, those of each histogram are added together, so that
//! its bins stay in the nearest cache, while the codes of the next window come in:
//!
//! ```text
//! row    node      test           child    histogram
//!   0      3   x5 > border 17?      7         0
//!   1      4   x2 > border 90?     10         –      (the larger child: by subtraction)
//! ```
//!
//! Deeper trees, and steps that want a node's rows, have them listed again ([`Shard::list_rows`]). Fits in batches, which are to take little memory,
//! go through whole levels even where their divisions concern few rows, and make no lists until they must ([`expects_whole_levels`]).

use super::{NodeRows, Partial, Shard, TreeContext, code_test};
use crate::trees::feature_groups::group_of;
pub(crate) use crate::trees::histogram::{Ahead, Bins, MAX_ROWS, add_near};
use crate::trees::level_partition::{Assigned, LevelPartition, MOST, NONE, SplitTest};
use taiga_core::learners::boosting::layout::{Home, StoragePlan};
use taiga_core::learners::boosting::steps::TrainingData;
use taiga_core::tree::params::Policy;
use taiga_core::tree::steps::{Division, NodeId};

/// Bytes of codes in a window, of which two are in the second-level cache at a time, and its rows.
const WINDOW_BYTES: usize = 1 << 18;
const LEAST_ROWS: usize = 1 << 10;
const MOST_ROWS: usize = 1 << 13;

/// The most histograms that a pass adds to: each has too few rows of a window then.
const MOST_SLOTS: usize = 32;

/// Shards of fewer rows than this fit the caches well enough.
const LEVEL_ROWS: usize = 1 << 18;

/// Returns whether a fit's rows are to be listed only where its trees turn out to be of another kind than most: it comes in batches, and each level
/// of its trees can be divided in a pass over all rows.
pub fn expects_whole_levels(data: &TrainingData<'_>, plan: &StoragePlan, presorted: bool) -> bool {
    let by_level = data.policy != Policy::Leafwise && data.depth <= MOST.ilog2() + 1;
    let dense = plan.sparse.is_empty() && !data.features.iter().any(|feature| feature.categories);
    let draws = !data.row_sampling.keeps_all() || data.held_out.is_some();
    let one_word = data.shared == 1 && data.pieces.bodies == 0;
    data.batches.is_some() && by_level && dense && one_word && !presorted && !draws
}

impl Shard {
    /// Returns whether `divisions` are carried out in one pass over all rows.
    pub fn partitions_level(&self, divisions: &[Division], tree: &TreeContext<'_>) -> bool {
        let in_order = self.by_node || (divisions.len() == 1 && self.nodes[divisions[0].parent as usize].all);
        let group = &tree.groups[0];
        let parents = || divisions.iter().map(|d| d.parent as usize);
        let near = |(least, most): (usize, usize)| most - least < MOST;
        let dense = |d: &Division| !tree.features[d.split.feature as usize].categories && d.right < u16::MAX as u32;
        let pays = || {
            let most = 2 * parents().map(|p| self.nodes[p].len).sum::<usize>() >= self.rows;
            most && self.rows >= LEVEL_ROWS && self.groups[0].columns.is_none()
        };
        in_order
            && tree.open().eq([0])
            && group.plan.sparse.is_empty()
            && tree.has_one_word()
            && (!self.has_lists() || pays())
            && parents().min().zip(parents().max()).is_some_and(near)
            && divisions.iter().filter(|d| d.histograms).count() <= MOST_SLOTS
            && divisions.iter().all(|d| dense(d) && !(d.histograms && group.sums_both(d)))
    }

    /// Carries out a level's divisions in one pass over all rows; returns whether each has a histogram.
    pub(super) fn partition_level(&mut self, divisions: &[Division], tree: &TreeContext<'_>) -> Vec<bool> {
        let mut node_of = std::mem::take(&mut self.leaf[tree.output]);
        if !std::mem::replace(&mut self.by_node, true) {
            node_of.fill(divisions[0].parent as u16);
        }
        let mut summed: Vec<(&Division, Partial)> = vec![];
        for d in divisions.iter().filter(|d| d.histograms) {
            summed.push((d, self.new_partial(0, tree)));
        }
        let added = self.partition_rows(divisions, &mut node_of, &mut summed, tree);
        let last = divisions.iter().map(|d| d.right).max().unwrap_or(0) as usize;
        self.nodes.resize(self.nodes.len().max(last + 1), NodeRows::default());
        // Nodes that are not searched again are counted when it is asked for.
        for ((d, _), smaller) in summed.iter().zip(added) {
            let larger = self.nodes[d.parent as usize].len - smaller;
            let lens = if d.left_is_smaller { [smaller, larger] } else { [larger, smaller] };
            for (node, len) in [d.left, d.right].into_iter().zip(lens) {
                self.nodes[node as usize].len = len;
            }
        }
        for d in divisions {
            self.nodes[d.parent as usize] = NodeRows::default();
        }
        self.groups[0].partials.extend(summed.into_iter().map(|s| s.1));
        self.leaf[tree.output] = node_of;
        divisions.iter().map(|d| d.histograms).collect()
    }

    /// Makes the partition of the divisions' nodes.
    fn level_partition(&self, divisions: &[Division], tree: &TreeContext<'_>) -> LevelPartition {
        let plan = &tree.groups[0].plan;
        let mut slots = 0;
        let mut lengths = vec![];
        let test_of = |d: &Division| {
            let feature = d.split.feature as usize;
            let Home::Column(column) = plan.homes[group_of(tree.groups, feature).1] else {
                unreachable!("no feature is sparse where levels are partitioned in one pass")
            };
            let codes = self.groups[0].column(&plan.layout, column);
            lengths.push(codes.bytes.len());
            let mut slot = [NONE; 2];
            if d.histograms {
                slot[!d.left_is_smaller as usize] = slots;
                slots += 1;
            }
            let test = code_test(&tree.features[feature], d.split.border, d.split.missing_left);
            (
                d.parent as u16,
                SplitTest { codes: codes.bytes.as_ptr(), stride: codes.stride, test, child: [d.left as u16, d.right as u16], slot },
            )
        };
        let tests: Vec<(u16, SplitTest)> = divisions.iter().map(test_of).collect();
        LevelPartition::new(&tests, self.rows, &lengths)
    }

    /// Sends every row to a child of its node `node_of[row]` and sums the partial histograms; returns how many rows each of
    /// `summed` has.
    fn partition_rows(
        &self,
        divisions: &[Division],
        node_of: &mut [u16],
        summed: &mut [(&Division, Partial)],
        tree: &TreeContext<'_>,
    ) -> Vec<usize> {
        assert!(node_of.len() == self.rows);
        let level = self.level_partition(divisions, tree);
        let (group, plan) = (&self.groups[0], &tree.groups[0].plan);
        let (of, width) = (tree.bin_words(), tree.lanes().map_or(1, |lanes| lanes.width));
        summed.iter_mut().for_each(|(_, partial)| group.begin_segment(partial, plan, tree));
        let row_bytes: usize = group.blocks.iter().map(|b| b.stride).sum();
        let window = (WINDOW_BYTES / row_bytes).clamp(LEAST_ROWS, MOST_ROWS);
        let embedded = group.blocks.len() == 1;
        let mut added = vec![0; summed.len()];
        // Rows in the last segment of each.
        let mut filled = vec![0; summed.len()];
        let (mut rows, mut slots) = (vec![0u32; window + 16], vec![0u32; window + 16]);
        // The rows of each histogram, and their statistics.
        let (mut lists, mut statistics) = (vec![0u32; summed.len() * window], vec![]);
        for start in (0..self.rows).step_by(window) {
            let nodes = &mut node_of[start..self.rows.min(start + window)];
            let end = start + nodes.len();
            // SAFETY: these are rows of the shard, whose codes stay where they are.
            let n = unsafe { level.partition(start, nodes, &mut Assigned { rows: &mut rows, slots: &mut slots }) };
            let mut lengths = [0; MOST_SLOTS];
            for (row, slot) in rows[..n].iter().zip(&slots[..n]) {
                let slot = *slot as usize;
                lists[slot * window + lengths[slot]] = *row;
                lengths[slot] += 1;
            }
            let mut ahead: Vec<Ahead> = group.blocks.iter().map(|b| b.ahead(end..self.rows.min(end + window))).collect();
            for (k, (_, partial)) in summed.iter_mut().enumerate() {
                let list = &lists[k * window..k * window + lengths[k]];
                if filled[k] + list.len() > MAX_ROWS {
                    group.begin_segment(partial, plan, tree);
                    filled[k] = 0;
                }
                filled[k] += list.len();
                added[k] += list.len();
                if !embedded {
                    statistics.clear();
                    statistics.extend(list.iter().map(|row| self.statistic(*row)));
                }
                let bins = group.last_segment(partial, width);
                let mut at = 0;
                for (block, ahead) in group.blocks.iter().zip(&mut ahead) {
                    let end = at + block.width * block.bins * width;
                    let bins = Bins { words: &mut bins[at..end], of };
                    let of_rows = (!embedded).then_some(&statistics[..]);
                    // SAFETY: the rows are this shard's.
                    *ahead = unsafe { add_near(block, list, of_rows, bins, *ahead) };
                    at = end;
                }
            }
        }
        added
    }

    /// Counts the rows that note each number below `numbers`.
    pub(super) fn count_noted(&self, output: usize, numbers: usize) -> Vec<usize> {
        // Several counters for each, so that a row's does not wait for the last one's.
        let mut counts = vec![[0u32; 4]; numbers];
        for (i, number) in self.leaf[output].iter().enumerate() {
            counts[*number as usize][i % 4] += 1;
        }
        counts.into_iter().map(|c| c.iter().sum::<u32>() as usize).collect()
    }

    /// Lists the rows of every node again, where they note their nodes. `nodes`: which node each
    /// number noted stands for; empty where it is the node's own.
    pub fn list_rows(&mut self, output: usize, nodes: &[NodeId]) {
        if !std::mem::take(&mut self.by_node) {
            return;
        }
        let numbers = if nodes.is_empty() { self.nodes.len() } else { nodes.len() };
        let mut places = self.count_noted(output, numbers);
        let mut next = 0;
        for (number, place) in places.iter_mut().enumerate() {
            let node = nodes.get(number).map_or(number, |n| *n as usize);
            self.nodes[node] = NodeRows { list: 0, start: next, len: *place, spare: next, all: false };
            next += std::mem::replace(place, next);
        }
        let list = &mut self.lists[0];
        for (row, number) in self.leaf[output].iter().enumerate() {
            let place = &mut places[*number as usize];
            list[*place] = row as u32;
            *place += 1;
        }
    }
}

const _: () = assert!(MOST_ROWS <= MAX_ROWS && MOST_SLOTS < NONE as usize);
