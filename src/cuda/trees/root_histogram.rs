//! Begins a tree: rounds the statistics and sums the root's histogram, where it can in one pass over the rows.

use super::CudaTrees;
use super::buffers::{ROOT_THREADS, root_fits, shared_bins};
use super::feature_groups::HistogramState;
use super::histogram::Plane;
use super::layouts::{HistogramJob, IN_ORDER, NodeRows, SplitSearch, TreeStart};
use super::rows::RowData;
use crate::runtime::Queue;
use crate::{follow, grid, launch};
use taiga_core::error::Result;
use taiga_core::losses::Loss;
use taiga_core::tree::split::Sums;

impl CudaTrees<'_> {
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
            group.set_state(0, HistogramState::HistogramJob);
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
        for g in self.open_groups() {
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
        let ((blocks, piece), slot) = (root_shape(&self.queue, self.data.rows), 0u32);
        let config = grid(blocks, ROOT_THREADS, shared_bins(self.groups[0].bins));
        let (quantizer, packed_gradients, arrived) =
            (self.data.log().address, self.data.packed_gradients.address, self.data.arrived.address);
        let wrong = if again { self.data.wrong.address } else { 0 };
        // SAFETY: the arguments are those of `tree_root`: codes and packed_gradients of all rows, a slot that is there, what `tree_start`
        // is given.
        unsafe {
            follow!(self.queue, &self.kernels.root, config;
                &table, &histograms, &quantizer, &tree, &packed_gradients, &slot, &piece, &wrong, begin, &arrived)
        }
    }

    /// The same before the tree's quantizer is known, which is found on the way: by that of the tree before it.
    pub(crate) fn guess_root(&mut self, loss: &dyn Loss, (tree, output): (u64, usize), unit: bool, begin: &TreeStart) -> Result<()> {
        let guess = self.data.guess(&self.queue, &self.kernels, loss, output, unit)?;
        let (table, histograms) = (self.data.table(loss, output, true), self.groups[0].table(0));
        let ((blocks, piece), slot) = (root_shape(&self.queue, self.data.rows), 0u32);
        let (config, packed_gradients) = (grid(blocks, ROOT_THREADS, shared_bins(self.groups[0].bins)), self.data.packed_gradients.address);
        // SAFETY: the arguments are those of `tree_root_guess`: as above, and those of `tree_find_quantizer`.
        unsafe {
            follow!(self.queue, &self.kernels.root_guess, config; &table, &histograms, &guess, &tree, &packed_gradients, &slot, &piece)
        }?;
        self.queue_quantizer_of_all(unit, true)?;
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
        // SAFETY: the argument is that of `tree_start`: a column's bins in a slot, room for the sums, and for the root's split input,
        // node and leaves where they are given.
        unsafe { launch!(self.queue, &self.kernels.start, grid(1, 256, 0); begin) }
    }
}

/// Blocks of a root's pass, and the rows of each.
pub fn root_shape(queue: &Queue, rows: usize) -> (u32, u32) {
    let blocks = 2 * queue.gpu().multiprocessors() as usize;
    let piece = rows.div_ceil(blocks).next_multiple_of(32).clamp(1024, 1 << 16);
    (rows.div_ceil(piece).max(1) as u32, piece as u32)
}
