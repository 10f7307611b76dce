//! Measures how far the derivatives of a tree lie apart, which noise on its scores is in units of. Twin of `squares` in `cpu/trees/shard.rs`.

use super::CudaTrees;
use super::gradient_quantizer::BATCH;
use crate::{grid, launch};
use taiga_core::error::Result;
use taiga_core::learners::boosting::steps::{SpreadSteps, mean_square};
use taiga_core::losses::Loss;

/// Batches that a block adds up.
const BATCHES: usize = 32;

impl SpreadSteps for CudaTrees<'_> {
    fn squared_gradients(&mut self, loss: &dyn Loss, output: usize) -> Result<f64> {
        let (table, batches) = (self.data.table(loss, output, true), self.data.rows.div_ceil(BATCH));
        let config = grid(batches.div_ceil(BATCHES) as u32, 256, 0);
        // SAFETY: the arguments are those of `tree_spread`: two sums for each batch.
        unsafe { launch!(self.queue, &self.kernels.spread, config; &table, &self.data.sums.address) }?;
        let mut sums = if batches > 0 { self.data.sums.read(&self.queue, 2 * batches)? } else { vec![] };
        if !self.of.is_whole() {
            sums = self.of.collective.gather(&sums)?;
        }
        Ok(mean_square(sums.chunks_exact(2).map(|pair| (pair[0], pair[1]))))
    }
}
