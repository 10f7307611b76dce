//! Further steps of leaves: the sums of the derivatives that rows have where the leaves' values so far are in their scores.

use super::gradient_quantizer::GradientQuantizer;
use super::tree_steps::leaf_sums;
use super::{CpuTrees, write};
use taiga_core::error::Result;
use taiga_core::learners::boosting::steps::{LeafSteps, LeafSums, beyond};
use taiga_core::losses::Loss;
use taiga_core::tree::Tree;

impl LeafSteps for CpuTrees<'_> {
    fn sums_beyond(&mut self, loss: &dyn Loss, _: &Tree, first: usize, values: &[Vec<f32>]) -> Result<Vec<Vec<LeafSums>>> {
        self.pool.step(|t| write(&self.shards[t]).try_values(first, values));
        let sums = self.sums_at(loss, first, values);
        self.pool.step(|t| write(&self.shards[t]).take_values_back(first, values.len()));
        sums
    }
}

impl CpuTrees<'_> {
    /// Sums the derivatives at the scores that there are, in the leaves of each output from `first` on, which are as many as it has `values`.
    fn sums_at(&mut self, loss: &dyn Loss, first: usize, values: &[Vec<f32>]) -> Result<Vec<Vec<LeafSums>>> {
        self.derive_groups(loss, self.tree, first)?;
        let quantizer = |k: usize| self.gradient_quantizer(loss, first + k, false).map_err(beyond);
        let quantizers: Vec<GradientQuantizer> = (0..values.len()).map(quantizer).collect::<Result<_>>()?;
        let of_shard = |t: usize| {
            let mut shard = write(&self.shards[t]);
            let outputs = (first..).zip(&quantizers).zip(values);
            outputs
                .flat_map(|((output, quantizer), values)| shard.sums_of_leaves(loss, output, quantizer, values.len()))
                .collect::<Vec<_>>()
        };
        leaf_sums(&quantizers, &self.by_rows(self.pool.step(of_shard)), self.of)
    }
}
