//! Sums the histograms of nodes from their rows, a plane of statistics at a time.

use super::CudaTrees;
use super::buffers::queueing;
use super::feature_groups::HistogramState;
use super::layouts::{GradientQuantizer, HistogramJob, RowLists};
use crate::{Kernel, grid, launch};
use cudarc::driver::LaunchConfig;
use taiga_core::error::Result;
use taiga_core::tree::steps::NodeId;

/// What a plane of statistics holds, and where its packed gradients are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plane {
    /// Gradient and hessian, 16 bits each.
    Both,
    /// Two limbs of a component; `false`: the first plane's packed gradients.
    Limbs { component: u32, hessians: bool },
    /// 1 for every row.
    Ones { component: u32 },
}

impl Plane {
    /// The first component of a bin that it adds to.
    fn component(self) -> u32 {
        match self {
            Plane::Both => 0,
            Plane::Limbs { component, .. } | Plane::Ones { component } => component,
        }
    }
}

impl CudaTrees<'_> {
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

    pub(crate) fn lists_table(&self) -> RowLists {
        RowLists { lists: [self.lists[0].address, self.lists[1].address], packed_gradients: self.data.packed_gradients.address }
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
    pub(crate) fn sum(&mut self, group: usize, summed: &[HistogramJob], first_done: bool) -> Result<()> {
        let planes = self.planes(self.quantizer()?);
        if summed.is_empty() {
            return Ok(());
        }
        self.work.summed.reserve(&self.queue, "nodes", summed.len())?;
        self.work.summed.write(&self.queue, summed)?;
        self.work.starts.reserve(&self.queue, "nodes", summed.len())?;
        self.queue_sum(group, summed.len(), &planes, first_done)?;
        self.complete_histograms(group, summed)
    }

    /// The same for `count` nodes that are sparse on the device.
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
        (0..g.outputs()).try_for_each(|output| self.queue_sum_of((group, output), count, planes, first_done))
    }

    /// The same for the histograms of one output, of nodes that are planned.
    fn queue_sum_of(&self, (group, output): (usize, usize), count: u32, planes: &[Plane], first_done: bool) -> Result<()> {
        let (g, blocks) = (&self.groups[group], self.groups[group].blocks() as u32);
        let (queue, lists) = (&self.queue, self.lists_table());
        let (nodes, list, starts, plan) =
            (self.work.nodes.address, self.work.summed.address, self.work.starts.address, self.work.plan.address);
        let behind = 4 * (output * self.data.rows) as u64;
        for (p, plane) in planes.iter().enumerate() {
            let k = &self.kernels;
            let (near, far, by_lists): (&Kernel, &Kernel, &Kernel) = match plane {
                Plane::Both if g.is_packed() => (&k.sum_both, &k.sum_far_both, &k.sum_sparse_packed),
                Plane::Both => (&k.sum_both, &k.sum_far_both, &k.sum_sparse_both),
                Plane::Limbs { .. } => (&k.sum_limbs, &k.sum_far_limbs, &k.sum_sparse_limbs),
                Plane::Ones { .. } => (&k.sum_ones, &k.sum_far_ones, &k.sum_sparse_ones),
            };
            // Rows are counted once for all outputs.
            if output > 0 && *plane == (Plane::Ones { component: 2 }) {
                continue;
            }
            let packed_gradients = match plane {
                Plane::Ones { .. } => 0,
                Plane::Limbs { hessians: true, .. } => self.data.hessians.as_ref().map_or(0, |h| h.address + behind),
                // Those of the first output stand in the lists.
                _ if output == 0 => 0,
                _ => self.data.packed_gradients.address + behind,
            };
            let histograms = g.table_of(output, plane.component());
            let multiprocessors = queue.gpu().multiprocessors();
            if let Some(sparse) = &g.sparse {
                let (sparse_sums, config) = sparse.sparse_sums(queue.gpu(), if *plane == Plane::Both && !g.is_packed() { 2 } else { 1 });
                // SAFETY: the arguments are those of `tree_sum_sparse_*`: as below, and the entries of all rows.
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

    /// Sums nodes in a group that was opened after their rows were partitioned.
    pub(crate) fn sum_in_group(&mut self, group: usize, nodes: &[NodeId]) -> Result<()> {
        let mut summed = Vec::with_capacity(nodes.len());
        for node in nodes {
            let slot = self.slot_of(*node);
            self.groups[group].reserve(&self.queue, slot + 1, slot)?;
            self.groups[group].zero(&self.queue, slot..slot + 1)?;
            self.groups[group].set_state(*node, HistogramState::HistogramJob);
            summed.push(HistogramJob { node: *node, slot: slot as u32 });
        }
        self.sum(group, &summed, false)
    }

    /// The slot that a node has in all groups.
    pub(crate) fn slot_of(&self, node: NodeId) -> usize {
        self.host.slots.get(node as usize).copied().unwrap_or(0)
    }

    pub(crate) fn set_slot(&mut self, node: NodeId, slot: usize) {
        let slots = &mut self.host.slots;
        if slots.len() <= node as usize {
            slots.resize(node as usize + 1, 0);
        }
        slots[node as usize] = slot;
    }
}
