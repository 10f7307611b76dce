//! Finds how the derivatives of a tree become integers, and rounds those of all rows. Twin of `cpu/trees/gradient_quantizer.rs`.

use super::buffers::{Buffer, Kernels};
use super::layouts::{GradientQuantizer, LossRows, NodeRows, RootGuess, ShardMagnitudes};
use super::loss_program::is_found_by_row;
use super::rows::RowData;
use crate::runtime::Queue;
use crate::{grid, launch};
use taiga_core::collective::RowShard;
use taiga_core::error::{Error, Result};
use taiga_core::losses::Loss;
use taiga_core::numerics::fixed::{factor, single};

/// Rows whose absolute derivatives are added in order.
pub const BATCH: usize = 1024;

/// Beyond this ratio of the largest to the mean absolute value statistics become wide.
const WIDE_RATIO: f64 = 1024.0;

/// 64-bit words of a quantizer.
pub const QUANTIZER_WORDS: usize = size_of::<GradientQuantizer>() / 8;

impl RowData<'_> {
    /// Finds the quantizer of a tree: the maxima and sums of the derivatives, with the last tree's
    /// values added to the scores first where they are not yet.
    pub fn find_quantizer(&mut self, queue: &Queue, kernels: &Kernels, loss: &dyn Loss, output: usize, unit: bool) -> Result<()> {
        let (table, added) = self.begin_quantizer(queue, kernels, loss, output)?;
        self.queue_quantizer(queue, kernels, &table, added, unit, self.log().address)
    }

    /// The same of a shard of the rows, without what other shards know: see [`RowData::magnitudes`].
    pub fn find_magnitudes(&mut self, queue: &Queue, kernels: &Kernels, loss: &dyn Loss, output: usize, unit: bool) -> Result<()> {
        let (table, added) = self.begin_quantizer(queue, kernels, loss, output)?;
        self.launch_quantizer(queue, kernels, &table, added, unit, self.log().address)
    }

    /// What the search for a quantizer reads of the rows, and the leaves and values that it adds to the scores.
    fn begin_quantizer(&mut self, queue: &Queue, kernels: &Kernels, loss: &dyn Loss, output: usize) -> Result<(LossRows, (u64, u64))> {
        let fused = self.waiting && self.outputs == 1 && !is_found_by_row(loss);
        if !fused {
            self.add_values(queue, kernels)?;
            self.derive_by_row(queue, kernels, loss, output)?;
        }
        (self.waiting, self.has_quantizer) = (false, true);
        let table = self.table(loss, output, true);
        Ok((table, if fused { (self.leaf.address, self.values[0].address) } else { (0, 0) }))
    }

    /// Queues the search for a quantizer, which goes to the address `out`; where there are other shards of rows, waits for what they know.
    /// `added`: leaves and values of the last tree, where these are to be added to the scores.
    pub fn queue_quantizer(
        &self,
        queue: &Queue,
        kernels: &Kernels,
        table: &LossRows,
        added: (u64, u64),
        unit: bool,
        out: u64,
    ) -> Result<()> {
        self.launch_quantizer(queue, kernels, table, added, unit, out)?;
        match &self.magnitudes {
            None => Ok(()),
            Some(own) => {
                let own = own.read(queue, 1)?[0];
                queue.write_at(&[self.complete_magnitudes(queue, kernels, table, &own, unit)?], out)
            }
        }
    }

    /// The quantizer of the rows of all shards. Twin of `make_quantizer` in the kernels.
    fn complete_magnitudes(
        &self,
        queue: &Queue,
        kernels: &Kernels,
        table: &LossRows,
        own: &ShardMagnitudes,
        unit: bool,
    ) -> Result<GradientQuantizer> {
        let RowShard { collective, all, .. } = self.of;
        let mut largest = [own.largest_gradient, own.largest_hessian];
        collective.max(&mut largest)?;
        if largest.iter().any(|bits| !f32::from_bits(*bits).is_finite()) {
            return Err(not_finite());
        }
        let add = |sums: Vec<f64>| sums.chunks_exact(2).fold((0.0, 0.0), |(g, h), own| (g + own[0], h + own[1]));
        let most = largest.map(|bits| f64::from(f32::from_bits(bits)) * all as f64);
        let mut sums = add(collective.gather(&[own.gradients, own.hessians])?);
        let close = |most: f64, sum: f64| (most - WIDE_RATIO * sum).abs() <= 1e-9 * most;
        // The order of the sums matters only where the comparison is this close.
        if close(most[0], sums.0) || close(most[1], sums.1) {
            // SAFETY: the arguments are those of `tree_ordered_sums`: two sums for each batch.
            unsafe { launch!(queue, &kernels.ordered_sums, grid(1, 256, 0); table, &self.sums.address) }?;
            sums = add(collective.gather(&self.sums.read(queue, 2 * self.rows.div_ceil(BATCH))?)?);
        }
        let dwarfs = |most: f64, sum: f64| most > WIDE_RATIO * sum && sum > 0.0;
        let wide = dwarfs(most[0], sums.0) || (!unit && dwarfs(most[1], sums.1));
        let bits = if wide { (31, 31) } else { (15, 16) };
        let gradient = single(factor(largest[0], bits.0));
        let hessian = if unit { 1.0 } else { single(factor(largest[1], bits.1)) };
        let leaf_bits = 62 - (usize::BITS - all.leading_zeros()) as i32;
        Ok(GradientQuantizer {
            gradient,
            hessian,
            gradient32: gradient as f32,
            hessian32: hessian as f32,
            leaf_gradient: factor(largest[0], leaf_bits),
            leaf_hessian: factor(largest[1], leaf_bits),
            unit_gradient: 1.0 / gradient,
            unit_hessian: 1.0 / hessian,
            largest_gradient: largest[0],
            largest_hessian: largest[1],
            wide: wide as u32,
            unit: unit as u32,
        })
    }

    /// Launches the search for the quantizer of these rows, which goes to the address `out`, or of a shard for its magnitudes.
    fn launch_quantizer(
        &self,
        queue: &Queue,
        kernels: &Kernels,
        table: &LossRows,
        (leaf, values): (u64, u64),
        unit: bool,
        out: u64,
    ) -> Result<()> {
        let out = self.magnitudes.as_ref().map_or(out, |own| own.address);
        let unit = unit as u32;
        let config = grid(quantizer_blocks(queue, self.rows), 256, 0);
        let (sums, largest, arrived) = (self.sums.address, self.largest.address, self.arrived.address);
        // SAFETY: the arguments are those of `tree_find_quantizer`: leaves by row, their values, two sums for each
        // batch and block, two maxima and a count of blocks that are zero, room for the quantizer.
        unsafe { launch!(queue, &kernels.find_quantizer, config; table, &leaf, &values, &sums, &largest, &unit, &arrived, &out) }
    }

    /// What a root's pass is told that runs before the tree's quantizer is known, by the log of the tree before it;
    /// it adds the last tree's values to the scores, where they are not yet.
    pub fn guess(&mut self, queue: &Queue, kernels: &Kernels, loss: &dyn Loss, output: usize, unit: bool) -> Result<RootGuess> {
        let fused = self.waiting && self.outputs == 1 && !is_found_by_row(loss);
        if !fused {
            self.add_values(queue, kernels)?;
            self.derive_by_row(queue, kernels, loss, output)?;
        }
        self.waiting = false;
        let (leaf, values) = if fused { (self.leaf.address, self.values[0].address) } else { (0, 0) };
        Ok(RootGuess {
            last: self.logs[1 - self.turn].address,
            leaf,
            values,
            sums: self.sums.address,
            largest: self.largest.address,
            arrived: self.arrived.address,
            out: self.magnitudes.as_ref().map_or(self.log().address, |own| own.address),
            wrong: self.wrong.address,
            unit: unit as u32,
            unused: 0,
        })
    }

    /// Rounds the derivatives of all rows; where rows were drawn, they become the root's list.
    #[allow(clippy::too_many_arguments)]
    pub fn round(
        &mut self,
        queue: &Queue,
        kernels: &Kernels,
        loss: &dyn Loss,
        (tree, output): (u64, usize),
        hessians: bool,
        list: u64,
        root: &Buffer<NodeRows>,
    ) -> Result<()> {
        let table = self.table(loss, output, true);
        self.queue_round(queue, kernels, &table, (tree, 0, self.log().address), hessians, list, root)
    }

    /// Queues the same for the `place`-th of the outputs that share the tree, by the quantizer at an address; without a list none is made.
    #[allow(clippy::too_many_arguments)]
    pub fn queue_round(
        &mut self,
        queue: &Queue,
        kernels: &Kernels,
        table: &LossRows,
        (tree, place, quantizer): (u64, usize, u64),
        hessians: bool,
        list: u64,
        root: &Buffer<NodeRows>,
    ) -> Result<()> {
        if hessians && self.hessians.is_none() {
            self.hessians = Some(Buffer::new(queue, "wide statistics", self.shared * self.rows)?);
        }
        let behind = 4 * (place * self.rows) as u64;
        let hessians = self.hessians.as_ref().filter(|_| hessians).map_or(0u64, |h| h.address + behind);
        let packed_gradients = self.packed_gradients.address + behind;
        let config = grid(self.blocks, 256, 0);
        // SAFETY: the arguments are those of `tree_round`: a packed gradient for each row, room for all rows in the
        // list, and the root's node.
        unsafe { launch!(queue, &kernels.round, config; table, &quantizer, &tree, &packed_gradients, &hessians, &list, &root.address) }
    }

    /// The quantizer of the tree, when the device has found it.
    pub fn read_quantizer(&self, queue: &Queue) -> Result<GradientQuantizer> {
        let words = self.log().read(queue, QUANTIZER_WORDS)?;
        Ok(quantizer_of(&words))
    }

    /// An error where derivatives are no longer finite.
    pub fn check_finite(quantizer: &GradientQuantizer) -> Result<()> {
        let finite = |bits: u32| f32::from_bits(bits).is_finite();
        if finite(quantizer.largest_gradient) && finite(quantizer.largest_hessian) {
            return Ok(());
        }
        Err(not_finite())
    }
}

fn not_finite() -> Error {
    Error::Data(taiga_core::learners::boosting::steps::NOT_FINITE.into()).of_values()
}

/// Blocks that find a quantizer.
pub fn quantizer_blocks(queue: &Queue, rows: usize) -> u32 {
    // A shard may have no rows.
    (rows.div_ceil(BATCH) as u32).clamp(1, queue.gpu().multiprocessors() * 5)
}

/// The quantizer at the beginning of a log.
pub fn quantizer_of(words: &[u64]) -> GradientQuantizer {
    assert!(words.len() >= QUANTIZER_WORDS);
    // SAFETY: as many words as a quantizer has, of plain numbers.
    unsafe { std::ptr::read_unaligned(words.as_ptr().cast()) }
}
