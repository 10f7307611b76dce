//! Rows sent to children, and histograms summed from rows.

use super::buffers::{PARTITION_THREADS, ROOT_THREADS, queueing, queueing_records, root_fits, shared_bins};
use super::feature_groups::State;
use super::layouts::{
    GradientQuantizer, HistogramJob, IN_ORDER, NodeRows, PartitionJob, RowLists, RowRecords, SparseRows, SplitSearch, TreeStart,
};
use super::rows::root_shape;
use super::{CudaTrees, RowData};
use crate::runtime::Queue;
use crate::{Kernel, follow, grid, launch};
use cudarc::driver::LaunchConfig;
use taiga_core::error::{Error, Result};
use taiga_core::losses::Loss;
use taiga_core::quantize::CodeSet;
use taiga_core::tree::split::Sums;
use taiga_core::tree::steps::{Division, NodeId};

/// What a plane of statistics holds, and where its words are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plane {
    /// Gradient and hessian, 16 bits each.
    Both,
    /// Two limbs of a component; `false`: the first plane's words.
    Limbs { component: u32, hessians: bool },
    /// 1 for every row.
    Ones { component: u32 },
}

impl CudaTrees {
    /// The planes of the tree that grows, as in `cpu/trees/gradient_quantizer.rs`.
    pub(crate) fn planes(&self, quantizer: &GradientQuantizer) -> Vec<Plane> {
        let (wide, unit) = (quantizer.wide != 0, quantizer.unit != 0);
        let mut planes = match (wide, unit) {
            (false, _) => vec![Plane::Both],
            (true, true) => vec![Plane::Limbs { component: 0, hessians: false }, Plane::Ones { component: 1 }],
            (true, false) => vec![Plane::Limbs { component: 0, hessians: false }, Plane::Limbs { component: 1, hessians: true }],
        };
        if self.count_rows && !unit {
            planes.push(Plane::Ones { component: 2 });
        }
        planes
    }

    /// How many blocks sum at a time.
    pub(crate) fn sum_blocks(&self) -> u32 {
        2 * self.queue.gpu().multiprocessors()
    }

    fn lists_table(&self) -> RowLists {
        RowLists { lists: [self.lists[0].address, self.lists[1].address], packed_gradients: self.data.packed_gradients.address }
    }

    /// Rounds the statistics of a tree and sums the root's histogram; gives the root's sums.
    pub(crate) fn begin_root(&mut self, loss: &dyn Loss) -> Result<Sums> {
        let queue = &self.queue;
        let drawn = self.data.bag.is_some();
        let list = if drawn { 0 } else { IN_ORDER };
        let len = if drawn { 0 } else { self.data.rows as u32 };
        self.work.nodes.write(queue, &[NodeRows { len, list, parent: -1, ..NodeRows::default() }])?;
        self.next_slot = 1;
        for group in self.groups.iter_mut().filter(|g| g.open) {
            group.keep(queue, true)?;
            group.zero(queue, 0..1)?;
            group.set_state(0, State::HistogramJob);
        }
        // Statistics are rarely wide: the root's pass is queued before that is known.
        let fused = !drawn && root_fits(queue.gpu(), self.groups[0].bins);
        if fused {
            self.sum_root(loss, (self.tree, self.output), false, &TreeStart::default())?;
        }
        let quantizer = self.data.read_quantizer(&self.queue)?;
        RowData::check_finite(&quantizer)?;
        let planes = self.planes(&quantizer);
        self.quantizer = Some(quantizer);
        if !fused || quantizer.wide != 0 {
            let hessians = planes.contains(&Plane::Limbs { component: 1, hessians: true });
            let output = self.output;
            self.data.round(&self.queue, &self.kernels, loss, (self.tree, output), hessians, self.lists[0].address, &self.work.nodes)?;
        }
        let open: Vec<usize> = (0..self.groups.len()).filter(|g| self.groups[*g].open).collect();
        for g in open {
            let otherwise = self.groups[g].keep(&self.queue, quantizer.wide == 0)?;
            if otherwise || (fused && quantizer.wide != 0 && g == 0) {
                self.groups[g].zero(&self.queue, 0..1)?;
            }
            let done = fused && quantizer.wide == 0 && g == 0;
            self.sum(g, &[HistogramJob { node: 0, slot: 0 }], done)?;
        }
        self.root_total()
    }

    /// The first block of group 0 in the root, with the rounding: for narrow statistics of all rows.
    /// `again`: only where a guess was wrong. Behind it the tree begins, where `begin` says how.
    pub(crate) fn sum_root(&self, loss: &dyn Loss, (tree, output): (u64, usize), again: bool, begin: &TreeStart) -> Result<()> {
        let (table, histograms) = (self.data.table(loss, output, true), self.groups[0].table(0));
        let ((blocks, piece), seed, slot) = (root_shape(&self.queue, self.data.rows), self.host.seed, 0u32);
        let config = grid(blocks, ROOT_THREADS, shared_bins(self.groups[0].bins));
        let (quantizer, packed_gradients, arrived) =
            (self.data.log().address, self.data.packed_gradients.address, self.data.arrived.address);
        let wrong = if again { self.data.wrong.address } else { 0 };
        // SAFETY: the arguments are those of `tree_root`: codes and packed_gradients of all rows, a slot that is there, what `tree_start`
        // is given.
        unsafe {
            follow!(self.queue, &self.kernels.root, config;
                &table, &histograms, &quantizer, &seed, &tree, &packed_gradients, &slot, &piece, &wrong, begin, &arrived)
        }
    }

    /// The same ahead of the tree's quantizer, which is found on the way: by that of the tree before it.
    pub(crate) fn guess_root(&mut self, loss: &dyn Loss, (tree, output): (u64, usize), unit: bool, begin: &TreeStart) -> Result<()> {
        let guess = self.data.guess(&self.queue, &self.kernels, unit)?;
        let (table, histograms) = (self.data.table(loss, output, true), self.groups[0].table(0));
        let ((blocks, piece), seed, slot) = (root_shape(&self.queue, self.data.rows), self.host.seed, 0u32);
        let (config, packed_gradients) = (grid(blocks, ROOT_THREADS, shared_bins(self.groups[0].bins)), self.data.packed_gradients.address);
        // SAFETY: the arguments are those of `tree_root_guess`: as above, and those of `tree_find_quantizer`.
        unsafe {
            follow!(self.queue, &self.kernels.root_guess, config; &table, &histograms, &guess, &seed, &tree, &packed_gradients, &slot, &piece)
        }?;
        self.sum_root(loss, (tree, output), true, begin)
    }

    /// The sums over the root's rows, from the bins of the first feature.
    fn root_total(&mut self) -> Result<Sums> {
        let quantizer = self.quantizer()?;
        let counted = self.counted(quantizer);
        let Some(group) = self.groups.iter().find(|g| g.open && g.features > 0) else { return Ok(Sums::default()) };
        let search = SplitSearch { histograms: group.table(0), counted, ..SplitSearch::default() };
        let (bins, total) = (group.first_bins as u32, self.work.total.address);
        self.queue_start(&TreeStart { search, bins, total, ..TreeStart::default() })?;
        Ok(self.work.total.read(&self.queue, 1)?[0].into())
    }

    /// Begins a tree whose root is summed.
    pub(crate) fn queue_start(&self, begin: &TreeStart) -> Result<()> {
        // SAFETY: the argument is that of `tree_start`: a column's bins in a slot, room for the sums, and for the root's item,
        // node and leaves where they are given.
        unsafe { launch!(self.queue, &self.kernels.start, grid(1, 256, 0); begin) }
    }

    /// How rows are counted in this tree, as kernels say it.
    pub(crate) fn counted(&self, quantizer: &GradientQuantizer) -> u32 {
        match (self.count_rows, quantizer.unit != 0) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => 2,
        }
    }

    /// Sums whole nodes in slots of a group, which are zero; `first_done`: the first plane of the first
    /// block is already there.
    fn sum(&mut self, group: usize, summed: &[HistogramJob], first_done: bool) -> Result<()> {
        let planes = self.planes(self.quantizer()?);
        if summed.is_empty() {
            return Ok(());
        }
        self.work.summed.reserve(&self.queue, "nodes", summed.len())?;
        self.work.summed.write(&self.queue, summed)?;
        self.work.starts.reserve(&self.queue, "nodes", summed.len())?;
        self.queue_sum(group, summed.len(), &planes, first_done)
    }

    /// The same for `count` nodes that are listed on the device.
    pub(crate) fn queue_sum(&self, group: usize, count: usize, planes: &[Plane], first_done: bool) -> Result<()> {
        let (g, blocks) = (&self.groups[group], self.groups[group].blocks() as u32);
        if blocks == 0 || (first_done && planes.len() == 1 && g.is_one_block()) {
            return Ok(());
        }
        let (queue, count) = (&self.queue, count as u32);
        let (nodes, list, starts, plan) =
            (self.work.nodes.address, self.work.summed.address, self.work.starts.address, self.work.plan.address);
        // SAFETY: the arguments are those of `tree_plan_sums`: nodes by number, `count` of them in the list.
        unsafe { launch!(queue, &self.kernels.plan_sums, grid(1, 1024, 0); &nodes, &list, &count, &starts, &plan) }?;
        let lists = self.lists_table();
        for (p, plane) in planes.iter().enumerate() {
            let k = &self.kernels;
            let (near, far, by_lists): (&Kernel, &Kernel, &Kernel) = match plane {
                Plane::Both if g.is_packed() => (&k.sum_both, &k.sum_far_both, &k.sum_sparse_packed),
                Plane::Both => (&k.sum_both, &k.sum_far_both, &k.sum_sparse_both),
                Plane::Limbs { .. } => (&k.sum_limbs, &k.sum_far_limbs, &k.sum_sparse_limbs),
                Plane::Ones { .. } => (&k.sum_ones, &k.sum_far_ones, &k.sum_sparse_ones),
            };
            let (component, packed_gradients) = match plane {
                Plane::Both => (0, 0),
                Plane::Limbs { component, hessians: true } => (*component, self.data.hessians.as_ref().map_or(0, |h| h.address)),
                Plane::Limbs { component, .. } | Plane::Ones { component } => (*component, 0),
            };
            let histograms = g.table(component);
            let multiprocessors = queue.gpu().multiprocessors();
            if let Some(sparse) = &g.sparse {
                let (sparse_sums, config) = sparse.sparse_sums(queue.gpu(), if *plane == Plane::Both && !g.is_packed() { 2 } else { 1 });
                // SAFETY: the arguments are those of `tree_sum_listed_*`: as below, and the entries of all rows.
                unsafe {
                    launch!(queue, by_lists, config; &histograms, &sparse_sums, &lists, &packed_gradients, &nodes, &list, &starts, &count, &plan)
                }?;
            }
            let skip = (first_done && p == 0) as u32;
            if skip == blocks {
                continue;
            }
            let (kernel, threads, shared, at_once) = match queueing(queue.gpu(), g.bins) {
                Some((threads, shared)) => (near, threads, shared, multiprocessors),
                None => (far, 256, 0, 4 * multiprocessors),
            };
            let shares = (at_once / (blocks - skip)).max(1);
            let config = LaunchConfig { grid_dim: (shares, blocks - skip, 1), block_dim: (threads, 1, 1), shared_mem_bytes: shared };
            // SAFETY: the arguments are those of `tree_sum_*`: the nodes' rows are rows of the table, the
            // slots are there.
            unsafe {
                launch!(queue, kernel, config; &histograms, &lists, &packed_gradients, &nodes, &list, &starts, &count, &plan, &skip)
            }?;
        }
        Ok(())
    }

    /// Sums nodes in a group that was opened after their rows were parted.
    pub(crate) fn sum_in_group(&mut self, group: usize, nodes: &[NodeId]) -> Result<()> {
        let mut summed = Vec::with_capacity(nodes.len());
        for node in nodes {
            let slot = self.slot_of(*node);
            self.groups[group].reserve(&self.queue, slot + 1, slot)?;
            self.groups[group].zero(&self.queue, slot..slot + 1)?;
            self.groups[group].set_state(*node, State::HistogramJob);
            summed.push(HistogramJob { node: *node, slot: slot as u32 });
        }
        self.sum(group, &summed, false)
    }

    /// The slot that a node has in all groups.
    pub(crate) fn slot_of(&self, node: NodeId) -> usize {
        self.host.slots.get(node as usize).copied().unwrap_or(0)
    }

    fn set_slot(&mut self, node: NodeId, slot: usize) {
        let slots = &mut self.host.slots;
        if slots.len() <= node as usize {
            slots.resize(node as usize + 1, 0);
        }
        slots[node as usize] = slot;
    }

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
        let open: Vec<usize> = (0..self.groups.len()).filter(|g| self.groups[*g].open).collect();
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
                let rest = if group.state(d.parent) == State::HistogramJob {
                    State::Rest(slot as u32)
                } else {
                    // The group was opened after the parent was divided from its own.
                    group.reserve(&self.queue, parent_slot + 1, parent_slot)?;
                    group.zero(&self.queue, parent_slot..parent_slot + 1)?;
                    sums[*g].push(HistogramJob { node: larger, slot: parent_slot as u32 });
                    State::HistogramJob
                };
                group.set_state(smaller, State::HistogramJob);
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
        let fused = all_rest && planes[0] == Plane::Both && self.sums_on_the_way();
        self.queue_partition(open[0], count, fused, true)?;
        for g in open {
            let summed = std::mem::take(&mut sums[g]);
            self.sum(g, &summed, fused)?;
        }
        Ok(())
    }

    /// Whether rows are summed while they are parted: where one block of features is open.
    pub(crate) fn sums_on_the_way(&self) -> bool {
        let mut open = self.groups.iter().filter(|g| g.open && g.features > 0);
        matches!((open.next(), open.next()), (Some(g), None) if g.is_one_block() && queueing(self.queue.gpu(), g.bins).is_some())
    }

    /// Parts the rows of `count` jobs that are planned on the device; `fused`: sums them in `group`, and where nobody
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
        // SAFETY: the arguments are those of `tree_move*`: records for all rows in both lists, jobs whose nodes stand
        // there (the root's in the table), slots that are there.
        unsafe { follow!(self.queue, kernel, config; &histograms, &records, &nodes, &list, &starts, &count, &plan, &read) }
    }

    /// Writes nodes from number `first` on.
    fn write_nodes(&mut self, first: usize, nodes: &[NodeRows]) -> Result<()> {
        let (have, need) = (self.work.nodes.slice.len(), first + nodes.len());
        if have < need {
            let mut larger = super::Buffer::new(&self.queue, "nodes", need.max(2 * have))?;
            let kept = self.work.nodes.slice.slice(..first);
            let copied = self.queue.stream().memcpy_dtod(&kept, &mut larger.slice.slice_mut(..first));
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
