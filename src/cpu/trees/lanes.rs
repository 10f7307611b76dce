//! Trees that several outputs share: each row has the statistics of all of them side by side, and so has each bin.
//!
//! A code is looked up once a row, and the statistics of all outputs are added to what stands there, as vectors:
//!
//! ```text
//! row           lane 0      lane 1      …   lane K-1       (lane K)
//! statistics    output 0    output 1        output K-1     1, where rows are counted
//! bin           Σ           Σ               Σ              rows
//! ```
//!
//! A lane is a packed statistic (a plane of one output, see [`super::gradient_quantizer`]). When partial histograms are merged, an
//! output's lane becomes a histogram of its own; it is merged, subtracted and kept as that of any other tree.

use super::gradient_quantizer::{GradientQuantizer, Plane};
use taiga_core::learners::boosting::steps::OutputRules;
use taiga_core::numerics::random::Random;
use taiga_core::tree::split::{Scales, Sums};

/// Bytes of the bins that the second-level cache keeps while rows are added.
const TILE_BYTES: usize = 1 << 19;

/// The statistics that a row has side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    outputs: usize,
    /// Lanes of an output: 2 where gradients and hessians are wide.
    each: usize,
    /// Lanes of a row, those that are not used included: whole vectors.
    pub width: usize,
}

impl Lanes {
    /// Makes the lanes of as many outputs, each with these planes.
    fn new(outputs: usize, planes: &[Plane]) -> Lanes {
        let each = planes.iter().filter(|plane| !is_of_ones(**plane)).count();
        let used = outputs * each + planes.iter().any(|plane| is_of_ones(*plane)) as usize;
        let width = if used <= 8 { used.next_power_of_two().max(2) } else { used.next_multiple_of(8) };
        Lanes { outputs, each, width }
    }

    /// Returns the lane of an output's plane, of which it has `p` before it.
    pub fn of(&self, output: usize, p: usize, plane: Plane) -> usize {
        if is_of_ones(plane) { self.outputs * self.each } else { output * self.each + p }
    }

    /// Returns how many codes of a row are added to their bins at a time.
    pub fn tile(&self, stride: usize) -> usize {
        (TILE_BYTES / (8 * stride * self.width)).max(1)
    }
}

/// Whether a plane is 1 in each row, for all outputs.
fn is_of_ones(plane: Plane) -> bool {
    matches!(plane, Plane::UnitHessian | Plane::Count)
}

/// A tree that several outputs share: how the derivatives of each become integers, and what it counts.
pub struct SharedTree {
    /// The first output.
    pub first: usize,
    pub quantizers: Vec<GradientQuantizer>,
    pub rules: Vec<OutputRules>,
    pub lanes: Lanes,
    /// What the hessians of each output are in units of next to the smallest unit: a power of two.
    shifts: Vec<u32>,
    /// What one unit of [`SharedTree::together`] is worth.
    scales: Scales,
}

/// The largest power of two that units of hessians are told apart by.
const MOST_SHIFT: u32 = 30;

impl SharedTree {
    /// Makes the tree of the outputs from `first` on, whose quantizers have the same planes.
    pub fn new(first: usize, quantizers: Vec<GradientQuantizer>, rules: &[OutputRules]) -> SharedTree {
        let lanes = Lanes::new(quantizers.len(), &quantizers[0].planes);
        let exponent = |q: &GradientQuantizer| libm::ilogb(q.scales().hessian);
        let least = quantizers.iter().map(exponent).min().unwrap_or(0);
        let most = quantizers.iter().map(exponent).max().unwrap_or(0);
        // Of units that are further apart, the smaller ones' hessians don't count next to the others'.
        let unit = least.max(most - MOST_SHIFT as i32);
        let shifts = quantizers.iter().map(|q| (exponent(q) - unit).max(0) as u32).collect();
        let scales = Scales { gradient: 1.0, hessian: libm::ldexp(1.0, unit) };
        SharedTree { first, quantizers, rules: rules.to_vec(), lanes, shifts, scales }
    }

    /// Returns the number of outputs.
    pub fn outputs(&self) -> usize {
        self.quantizers.len()
    }

    /// Returns what the sums of the outputs together are in units of.
    pub fn scales(&self) -> Scales {
        self.scales
    }

    /// Returns the sums of the outputs together: the mean of their hessians.
    pub fn together(&self, each: impl IntoIterator<Item = Sums>) -> Sums {
        let (mut hessian, mut count) = (0i128, 0);
        for (sums, shift) in each.into_iter().zip(&self.shifts) {
            hessian += (sums.hessian as i128) << shift;
            count = sums.count;
        }
        let mean = hessian / self.outputs().max(1) as i128;
        Sums { gradient: 0, hessian: mean.min(i64::MAX as i128 / 4) as i64, count }
    }

    /// Writes a batch's statistics of one output to its lanes of `words`, and 1 to that of ones. `scratch`: room for two planes.
    pub fn pack(
        &self,
        output: usize,
        (gradient, hessian): (&[f32], &[f32]),
        (random, first_row): (Random, usize),
        scratch: &mut [Vec<u32>; 2],
        words: &mut [u32],
    ) {
        let (quantizer, n, width) = (&self.quantizers[output], gradient.len(), self.lanes.width);
        let [a, b] = scratch;
        a.resize(n, 0);
        b.resize(n, 0);
        quantizer.pack(gradient, hessian, random, first_row, &mut [&mut a[..n], &mut b[..n]]);
        for (p, plane) in quantizer.planes.iter().enumerate() {
            let lane = words[self.lanes.of(output, p, *plane)..].iter_mut().step_by(width);
            match is_of_ones(*plane) {
                true => lane.take(n).for_each(|word| *word = 1),
                false => lane.zip(&scratch[p]).for_each(|(word, packed)| *word = *packed),
            }
        }
    }
}
