//! Ordered boosting: what leaves come to by the bodies of a permutation.

use super::gradient_quantizer::{GradientQuantizer, Magnitudes};
use super::lanes::SharedTree;
use super::shard::Tried;
use super::tree_steps::leaf_sums;
use super::{CpuTrees, read, write};
use taiga_core::error::Result;
use taiga_core::learners::boosting::ordered::PAIRS;
use taiga_core::learners::boosting::steps::{LeafSums, OrderedSteps, OutputRules};
use taiga_core::losses::Loss;
use taiga_core::numerics::reduce::weighted_quantile;
use taiga_core::parallel::numbered;
use taiga_core::tree::params::RowCounts;

impl OrderedSteps for CpuTrees<'_> {
    fn sums_of_bodies(&mut self, loss: &dyn Loss, first: usize, values: &[Vec<Vec<f32>>]) -> Result<Vec<Vec<Vec<LeafSums>>>> {
        let (permutation, first) = (first / loss.outputs() - 1, first % loss.outputs());
        let tried = Tried { first, values };
        let outputs = first..first + values.len();
        let quantizers: Vec<GradientQuantizer> =
            outputs.clone().map(|output| self.body_quantizer(loss, (permutation, output), &tried)).collect::<Result<_>>()?;
        let of_shard = |t: usize| {
            let shard = read(&self.shards[t]);
            let each = outputs.clone().zip(&quantizers);
            each.flat_map(|(output, quantizer)| shard.body_sums(loss, (permutation, output), &tried, quantizer)).collect::<Vec<_>>()
        };
        let bodies = values.first().map_or(0, Vec::len);
        let of_bodies: Vec<GradientQuantizer> = quantizers.iter().flat_map(|quantizer| vec![quantizer.clone(); bodies]).collect();
        let sums = leaf_sums(&of_bodies, &self.by_rows(self.pool.step(of_shard)), self.of)?;
        Ok(sums.chunks(bodies.max(1)).map(<[_]>::to_vec).collect())
    }

    fn quantiles_of_bodies(&mut self, output: usize, leaves: usize, alpha: f64) -> Result<Vec<Vec<f64>>> {
        let mut lists = vec![<(Vec<f64>, Vec<f32>)>::default(); leaves * read(&self.shards[0]).bodies()];
        self.row_shards().iter().for_each(|shard| read(shard).body_residuals(output, leaves, &mut lists));
        let quantile =
            |(values, weights): &(Vec<f64>, Vec<f32>)| weighted_quantile(values, (!weights.is_empty()).then_some(weights), alpha);
        let values = match self.of.is_whole() {
            true => numbered::map(lists.len(), 1, |list| quantile(&lists[list])),
            false => self.of.quantiles_of_all(lists, alpha)?,
        };
        Ok(values.chunks(leaves).map(<[f64]>::to_vec).collect())
    }

    fn set_body_values(&mut self, output: usize, values: Vec<Vec<f32>>) -> Result<()> {
        for shard in &self.shards {
            write(shard).set_body_values(output, &values);
        }
        Ok(())
    }
}

impl CpuTrees<'_> {
    /// Begins a tree that is told by bodies and their tails, of the outputs from `first` on that have these `rules`; returns the quantizer
    /// of the first.
    pub(super) fn begin_bodies(&mut self, loss: &dyn Loss, first: usize, rules: &[OutputRules]) -> Result<GradientQuantizer> {
        let pairs = read(&self.shards[0]).bodies().min(PAIRS);
        let of_lane = |k: usize| {
            let (output, lane) = (first + k / (2 * pairs), (k % (2 * pairs), pairs));
            let of_shard = |t: usize| write(&self.shards[t]).lane_magnitudes(loss, output, lane);
            self.completed(Magnitudes::merge(self.by_rows(self.pool.step(of_shard))))
        };
        let each = (0..2 * pairs * rules.len()).map(of_lane).collect::<Result<Vec<_>>>()?;
        let quantizers = GradientQuantizer::alike(&each, self.of.all, false, self.row_counts.any());
        let quantizer = quantizers[0].clone();
        self.shared = Some(SharedTree::of_bodies(first, pairs, quantizers, rules));
        Ok(quantizer)
    }

    /// Returns how an output's derivatives become integers, in units of the largest of all bodies.
    fn body_quantizer(&self, loss: &dyn Loss, place: (usize, usize), tried: &Tried<'_>) -> Result<GradientQuantizer> {
        let of_shard = |t: usize| read(&self.shards[t]).body_magnitudes(loss, place, tried);
        let magnitudes = self.completed(Magnitudes::merge(self.by_rows(self.pool.step(of_shard))))?;
        Ok(GradientQuantizer::new(&magnitudes, self.of.all, false, RowCounts::None))
    }
}
