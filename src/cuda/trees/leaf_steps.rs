//! Further steps of leaves: the sums of the derivatives that rows have where the leaves' values so far are in their scores. Twin of
//! `cpu/trees/leaf_steps.rs`.

use super::CudaTrees;
use taiga_core::error::Result;
use taiga_core::learners::boosting::steps::{LeafSteps, LeafSums, beyond};
use taiga_core::losses::Loss;
use taiga_core::tree::Tree;

impl LeafSteps for CudaTrees<'_> {
    fn sums_beyond(&mut self, loss: &dyn Loss, tree: &Tree, first: usize, values: &[Vec<f32>]) -> Result<Vec<Vec<LeafSums>>> {
        let rows = self.data.rows;
        let (moved, count) = (first * rows..(first + values.len()) * rows, values.len() * rows);
        self.untried.reserve(&self.queue, "scores", count)?;
        self.queue.copy(&self.data.scores.slice.slice(moved.clone()), &mut self.untried.slice.slice_mut(..count))?;
        for (output, values) in (first..).zip(values) {
            // By the numbers that the rows' leaves have in a tree that has grown whole.
            let by_place = self.grown.as_ref().map(|grown| grown.values(&self.leaves, values));
            self.data.set_values(&self.queue, output, by_place.as_deref().unwrap_or(values))?;
            self.data.add_values_of(&self.queue, &self.kernels, output)?;
        }
        let each = (first..first + values.len()).map(|output| {
            self.data.forget_derivatives();
            self.replay_tree(loss, tree, output).map_err(beyond)
        });
        let sums = each.collect::<Result<Vec<_>>>();
        self.data.forget_derivatives();
        self.queue.copy(&self.untried.slice.slice(..count), &mut self.data.scores.slice.slice_mut(moved))?;
        sums
    }
}
