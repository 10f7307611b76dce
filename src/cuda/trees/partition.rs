//! Sends the rows of nodes to their children, on the way summing the histograms of the smaller ones where that is one pass.

use super::CudaTrees;
use super::buffers::{PARTITION_THREADS, queueing, queueing_records};
use super::feature_groups::HistogramState;
use super::histogram::Plane;
use super::layouts::{HistogramJob, NodeRows, PartitionJob, RowRecords, SparseRows};
use crate::runtime::Queue;
use crate::{follow, grid, launch};
use taiga_core::error::{Error, Result};
use taiga_core::quantize::CodeSet;
use taiga_core::tree::steps::Division;

impl CudaTrees<'_> {
    /// What sends a row to the right by its code.
    pub(crate) fn code_test(&self, feature: u32, border: u32, missing_left: bool) -> (u32, bool) {
        let f = &self.features[feature as usize];
        (f.first() as u32 + border, f.missing_bin && !missing_left)
    }

    /// The codes that a split sends to the right in its feature's column, where they are no range: categories, and codes of a
    /// column that features share.
    pub(crate) fn right_set(&self, feature: u32, border: u32, missing_left: bool) -> Option<CodeSet> {
        if self.features[feature as usize].categories {
            return Some(self.subsets[border as usize]);
        }
        let group = self.group_of(feature);
        let (last, zero_right) = self.code_test(feature, border, missing_left);
        group.bundles.as_ref()?.right(feature as usize - group.first, last, zero_right)
    }

    /// Carries out the divisions whose children, or theirs, will be searched; the others need no rows.
    pub(crate) fn partition_nodes(&mut self, divisions: &[Division]) -> Result<()> {
        let Some(last) = divisions.iter().map(|d| d.left.max(d.right)).max() else { return Ok(()) };
        let planes = self.planes(self.quantizer()?);
        let open = self.open_groups();
        let first = divisions.iter().map(|d| d.left.min(d.right)).min().unwrap_or(last);
        let mut nodes = vec![NodeRows { parent: -1, ..NodeRows::default() }; (last - first + 1) as usize];
        let mut jobs = Vec::with_capacity(divisions.len());
        let new_slots = self.next_slot..self.next_slot + divisions.len();
        let mut sums: Vec<Vec<HistogramJob>> = vec![vec![]; self.groups.len()];
        for (d, slot) in divisions.iter().zip(new_slots.clone()) {
            let (smaller, larger) = if d.left_is_smaller { (d.left, d.right) } else { (d.right, d.left) };
            let parent_slot = self.slot_of(d.parent);
            self.set_slot(smaller, slot);
            self.set_slot(larger, parent_slot);
            for g in &open {
                let group = &mut self.groups[*g];
                sums[*g].push(HistogramJob { node: smaller, slot: slot as u32 });
                let rest = if group.state(d.parent) == HistogramState::HistogramJob {
                    HistogramState::Rest(slot as u32)
                } else {
                    // The group was opened after the parent was partitioned from its own.
                    group.reserve(&self.queue, parent_slot + 1, parent_slot)?;
                    group.zero(&self.queue, parent_slot..parent_slot + 1)?;
                    sums[*g].push(HistogramJob { node: larger, slot: parent_slot as u32 });
                    HistogramState::HistogramJob
                };
                group.set_state(smaller, HistogramState::HistogramJob);
                group.set_state(larger, rest);
            }
            let (last_left, zero_right) = self.code_test(d.split.feature, d.split.border, d.split.missing_left);
            let set = self.right_set(d.split.feature, d.split.border, d.split.missing_left);
            jobs.push(PartitionJob {
                codes: self.group_of(d.split.feature).codes_of(d.split.feature as usize),
                node: d.parent,
                last: last_left,
                zero_right: zero_right as u32,
                is_set: set.is_some() as u32,
                set: bit_set(set.unwrap_or_default()),
                right_is_smaller: !d.left_is_smaller as u32,
                slot: slot as u32,
                moves: 1,
                unused: 0,
            });
            for (child, right) in [(d.left, 0), (d.right, 1)] {
                nodes[(child - first) as usize] = NodeRows { parent: d.parent as i32, right, ..NodeRows::default() };
            }
        }
        self.next_slot = new_slots.end;
        for g in &open {
            self.groups[*g].reserve(&self.queue, new_slots.end, new_slots.start)?;
            self.groups[*g].zero(&self.queue, new_slots.clone())?;
        }
        self.write_nodes(first as usize, &nodes)?;
        let queue = &self.queue;
        let count = jobs.len() as u32;
        self.work.jobs.reserve(queue, "divisions", jobs.len())?;
        self.work.jobs.write(queue, &jobs)?;
        self.work.starts.reserve(queue, "nodes", jobs.len())?;
        let (nodes, list, starts, plan) =
            (self.work.nodes.address, self.work.jobs.address, self.work.starts.address, self.work.plan.address);
        // SAFETY: the arguments are those of `tree_plan_jobs`: nodes by number, `count` jobs.
        unsafe { launch!(queue, &self.kernels.plan_jobs, grid(1, 1024, 0); &nodes, &list, &count, &starts, &plan) }?;
        // Rows are summed on the way where one block of narrow statistics is all there is to sum.
        let all_rest = sums[open[0]].len() == divisions.len();
        let fused = all_rest && planes[0] == Plane::Both && self.shared.is_none() && self.sums_on_the_way();
        self.queue_partition(open[0], count, fused, true)?;
        for g in open {
            let summed = std::mem::take(&mut sums[g]);
            self.sum(g, &summed, fused)?;
        }
        Ok(())
    }

    /// Whether rows are summed while they are partitioned: where one block of features is open.
    pub(crate) fn sums_on_the_way(&self) -> bool {
        let mut open = self.groups.iter().filter(|g| g.open && g.features > 0);
        matches!((open.next(), open.next()), (Some(g), None) if g.is_one_block() && queueing(self.queue.gpu(), g.bins).is_some())
    }

    /// Partitions the rows of `count` jobs that are planned on the device; `fused`: sums them in `group`, and where nobody
    /// reads the children's rows, does not even list them.
    pub(crate) fn queue_partition(&self, group: usize, count: u32, fused: bool, read: bool) -> Result<()> {
        let (nodes, list, starts, plan) =
            (self.work.nodes.address, self.work.jobs.address, self.work.starts.address, self.work.plan.address);
        let (histograms, lists) = (self.groups[group].table(0), self.lists_table());
        if !fused {
            let config = grid(self.sum_blocks(), PARTITION_THREADS, 0);
            let (kernel, entries) = match self.groups.iter().find(|g| g.sparse.is_some()) {
                Some(group) => (&self.kernels.partition_any, group.entries()),
                None => (&self.kernels.partition, SparseRows::default()),
            };
            // SAFETY: the arguments are those of `tree_partition*`: the jobs' nodes stand in the lists, their codes
            // are those of all rows.
            return unsafe { launch!(self.queue, kernel, config; &lists, &entries, &nodes, &list, &starts, &count, &plan) };
        }
        let (threads, shared) = queueing(self.queue.gpu(), self.groups[group].bins).ok_or_else(|| no_room(&self.queue))?;
        let (config, read) = (grid(self.queue.gpu().multiprocessors(), threads, shared), read as u32);
        // SAFETY: as above, with slots that are there.
        unsafe {
            launch!(self.queue, &self.kernels.partition_sum, config; &histograms, &lists, &nodes, &list, &starts, &count, &plan, &read)
        }
    }

    /// Moves the rows of `count` jobs that are planned on the device, as records, and sums them in `group`; where nobody
    /// reads the children's rows, only sums. `root`: the one job is the root's.
    pub(crate) fn queue_partition_records(&self, group: usize, records: RowRecords, count: u32, root: bool, read: bool) -> Result<()> {
        let (nodes, list, starts, plan) =
            (self.work.nodes.address, self.work.jobs.address, self.work.starts.address, self.work.plan.address);
        let (histograms, read) = (self.groups[group].table(0), read as u32);
        let kernel = if root { &self.kernels.partition_root_records } else { &self.kernels.partition_records };
        let (threads, shared) = queueing_records(self.queue.gpu(), self.groups[group].bins).ok_or_else(|| no_room(&self.queue))?;
        let config = grid(self.queue.gpu().multiprocessors(), threads, shared);
        // SAFETY: the arguments are those of `tree_partition*_records`: records for all rows in both lists, jobs whose nodes stand
        // there (the root's in the table), slots that are there.
        unsafe { follow!(self.queue, kernel, config; &histograms, &records, &nodes, &list, &starts, &count, &plan, &read) }
    }

    /// Writes nodes from number `first` on.
    fn write_nodes(&mut self, first: usize, nodes: &[NodeRows]) -> Result<()> {
        let (have, need) = (self.work.nodes.slice.len(), first + nodes.len());
        if have < need {
            let mut larger = super::Buffer::new(&self.queue, "nodes", need.max(2 * have))?;
            // Numbers between are those of nodes whose rows nobody asks for.
            let known = first.min(have);
            let kept = self.work.nodes.slice.slice(..known);
            let copied = self.queue.stream().memcpy_dtod(&kept, &mut larger.slice.slice_mut(..known));
            copied.map_err(|e| crate::runtime::error::driver(self.queue.gpu(), "copying nodes", e))?;
            self.work.nodes = larger;
        }
        self.queue.write(nodes, &mut self.work.nodes.slice.slice_mut(first..need))
    }
}

/// What is asked before it comes to this.
fn no_room(queue: &Queue) -> Error {
    Error::device_memory(queue.gpu().number(), "a block of threads has no room for the bins of a feature")
}

/// A set of codes as kernels see it.
pub fn bit_set(set: CodeSet) -> [u32; 8] {
    std::array::from_fn(|i| (0..32).fold(0, |word, bit| word | (set.contains((32 * i + bit) as u8) as u32) << bit))
}
