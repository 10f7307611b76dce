//! Leaves that are refitted: quantiles of their rows' residuals, by sorts on the device.

use super::CudaTrees;
use super::buffers::Buffer;
use crate::runtime::sort::Pairs;
use crate::{grid, launch};
use cudarc::driver::{DeviceRepr, LaunchConfig};
use taiga_core::error::Result;
use taiga_core::numerics::reduce::{middle, weighted_quantile};

const WHAT: &str = "sorted residuals";

impl CudaTrees<'_> {
    /// The weighted quantile of an output's residuals of each leaf's rows that were drawn.
    pub(crate) fn quantiles_of_leaves(&mut self, output: usize, alpha: f64) -> Result<Vec<f64>> {
        let weighted = self.data.bag.is_some() || self.host.weight.is_some();
        // Keys and values twice, and what the sorts need.
        let bytes = if weighted { 48 } else { 32 } * self.data.rows as u64 + (16 << 20);
        // Other shards' residuals are gathered there too.
        if !self.of.is_whole() || !self.queue.has_room(bytes)? {
            return self.quantiles_on_host((output, alpha), weighted);
        }
        let by_number = self.leaves_by_number();
        let leaves = by_number.len() as u32;
        let found = if weighted { self.sort_weighted((output, alpha), leaves)? } else { self.sort_residuals((output, alpha), leaves)? };
        let mut values = vec![0.0; self.leaves.len()];
        for (own, leaf) in found.chunks_exact(3).zip(by_number).filter(|(own, _)| own[2] > 0.0) {
            values[leaf] = middle(own[0] as f64, own[1] as f64);
        }
        Ok(values)
    }

    /// The same on the host, where the device has no room for a sort, or not all rows.
    fn quantiles_on_host(&self, (output, alpha): (usize, f64), weighted: bool) -> Result<Vec<f64>> {
        let rows = self.data.rows;
        let target = &self.host.target[self.data.first_target(output)..];
        let range = output * rows..(output + 1) * rows;
        let leaf = self.queue.read(&self.data.leaf.slice.slice(range.clone()))?;
        let scores = self.queue.read(&self.data.scores.slice.slice(range))?;
        let bag = self.data.bag.as_ref().map(|b| b.read(&self.queue, rows)).transpose()?;
        let by_number = self.leaves_by_number();
        let mut values = vec![vec![]; self.leaves.len()];
        let mut weights = vec![vec![]; self.leaves.len()];
        for row in 0..rows {
            let drawn = bag.as_ref().map_or(1.0, |b| b[row]);
            if drawn != 0.0 {
                let leaf = by_number[leaf[row] as usize];
                values[leaf].push((target[row] - scores[row]) as f64);
                if weighted {
                    weights[leaf].push(self.host.weight.as_ref().map_or(1.0, |w| w[row]) * drawn);
                }
            }
        }
        let of_leaves = values.into_iter().zip(weights);
        if !self.of.is_whole() {
            return self.of.quantiles_of_all(of_leaves.collect(), alpha);
        }
        Ok(of_leaves.map(|(values, weights)| weighted_quantile(&values, weighted.then_some(&weights), alpha)).collect())
    }

    /// Rows of 256 threads a block.
    fn each_row(&self) -> LaunchConfig {
        grid((self.data.rows.div_ceil(256) as u32).min(self.queue.gpu().multiprocessors() * 8), 256, 0)
    }

    fn pairs<K: DeviceRepr>(&self) -> Result<Pairs<K>> {
        Ok((self.queue.alloc(WHAT, self.data.rows)?, self.queue.alloc(WHAT, self.data.rows)?))
    }

    /// Where the targets, scores and leaves of an output's rows are.
    fn residuals_of(&self, output: usize) -> (u64, u64, u64) {
        let at = (output * self.data.rows) as u64;
        (
            self.data.target.address + 4 * self.data.first_target(output) as u64,
            self.data.scores.address + 4 * at,
            self.data.leaf.address + 2 * at,
        )
    }

    /// Three numbers for each leaf, where all rows count alike: the residuals that its quantile lies between, and whether it
    /// has rows.
    fn sort_residuals(&self, (output, alpha): (usize, f64), leaves: u32) -> Result<Vec<f32>> {
        let (queue, config, rows) = (&self.queue, self.each_row(), self.data.rows as u64);
        let ((keys, numbers), mut sorted) = (self.pairs::<u64>()?, self.pairs::<u64>()?);
        let (target, scores, leaf) = self.residuals_of(output);
        // SAFETY: the arguments are those of `tree_residuals`: target, score, leaf, key and number of each row.
        unsafe { launch!(queue, &self.kernels.residuals, config; &target, &scores, &leaf, &rows, &keys, &numbers) }?;
        queue.sort_pairs(&keys, &numbers, &mut sorted, rows as u32, 0..key_bits(leaves))?;
        let mut found = queue.alloc::<f32>("quantiles", 3 * leaves as usize)?;
        let (count, config) = (rows as u32, grid(leaves.div_ceil(256), 256, 0));
        // SAFETY: the arguments are those of `tree_quantiles`: as many keys, and three numbers for each leaf.
        unsafe { launch!(queue, &self.kernels.quantiles, config; &sorted.0, &count, &leaves, &alpha, &mut found) }?;
        queue.read(&found)
    }

    /// The same by what rows weigh: a sort by weight, and a stable one by leaf and residual that takes the weights along.
    fn sort_weighted(&self, (output, alpha): (usize, f64), leaves: u32) -> Result<Vec<f32>> {
        let (queue, config, rows) = (&self.queue, self.each_row(), self.data.rows as u64);
        let address = |b: &Option<Buffer<f32>>| b.as_ref().map_or(0, |b| b.address);
        let (weight, bag) = (address(&self.data.weight), address(&self.data.bag));
        let (target, scores, leaf) = self.residuals_of(output);
        let ((bits, numbers), mut by_weight) = (self.pairs::<u32>()?, self.pairs::<u32>()?);
        // SAFETY: the arguments are those of `tree_weights`: a weight or none, bits and a number for each row.
        unsafe { launch!(queue, &self.kernels.weights, config; &weight, &bag, &rows, &bits, &numbers) }?;
        queue.sort_pairs(&bits, &numbers, &mut by_weight, rows as u32, 0..32)?;
        drop((bits, numbers));
        let keys = queue.alloc::<u64>(WHAT, rows as usize)?;
        // SAFETY: the arguments are those of `tree_weighted_residuals`: as above, and a key for each row.
        unsafe {
            launch!(queue, &self.kernels.weighted_residuals, config;
                &target, &scores, &leaf, &by_weight.0, &by_weight.1, &rows, &leaves, &keys)
        }?;
        let mut sorted = self.pairs::<u64>()?;
        queue.sort_pairs(&keys, &by_weight.0, &mut sorted, rows as u32, 0..key_bits(leaves))?;
        let mut found = queue.alloc::<f32>("quantiles", 3 * leaves as usize)?;
        let (count, config) = (rows as u32, grid(leaves.div_ceil(8), 256, 0));
        // SAFETY: the arguments are those of `tree_weighted_quantiles`: as many keys and weights, which are f32 by their bits, and
        // three numbers for each leaf.
        unsafe { launch!(queue, &self.kernels.weighted_quantiles, config; &sorted.0, &sorted.1, &count, &leaves, &alpha, &mut found) }?;
        queue.read(&found)
    }
}

/// Bits of a key, the number behind the last leaf included.
fn key_bits(leaves: u32) -> u32 {
    32 + u32::BITS - leaves.leading_zeros()
}
