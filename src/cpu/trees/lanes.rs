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

use super::codes::CodeBlock;
use super::gradient_quantizer::{GradientQuantizer, Plane};
use super::histogram::{MAX_ROWS, NEAR, RowSelection, STRIDE, expand, prefetch_near};
use multiversion::multiversion;
use std::ops::Range;
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
    pub fn new(outputs: usize, planes: &[Plane]) -> Lanes {
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
    fn tile(&self) -> usize {
        (TILE_BYTES / (8 * STRIDE * self.width)).max(1)
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

/// Adds the `L` packed statistics of one row, as addends, to the bins of each of its codes.
///
/// # Safety
/// Rows of `rows` are smaller than the block's rows, of which `words` has `L` each; `own` are bytes of the block's rows, and `bins` has
/// `STRIDE * L` for each of its codes.
#[inline(always)]
unsafe fn add_lanes_of<const L: usize>(block: &CodeBlock, own: Range<usize>, rows: RowSelection<'_>, words: &[u32], tile: usize, bins: &mut [u64]) {
    let (list, first, len): (&[u32], usize, usize) = match rows {
        RowSelection::Range(first, len) => (&[], first, len),
        RowSelection::List(list, len) => (list, 0, len),
    };
    let codes = block.bytes.as_slice();
    for start in own.clone().step_by(tile) {
        let tile = start..own.end.min(start + tile);
        for i in 0..len {
            // SAFETY: the caller's promise; prefetches may point anywhere.
            unsafe {
                let row = if list.is_empty() { first + i } else { *list.get_unchecked(i) as usize };
                if !list.is_empty() {
                    let soon = *list.get_unchecked(if i + NEAR < len { i + NEAR } else { i }) as usize;
                    prefetch_near(codes.as_ptr().wrapping_add(soon * block.stride + start));
                    prefetch_near(words.as_ptr().wrapping_add(soon * L).cast());
                }
                let own = words.get_unchecked(row * L..row * L + L);
                let mut addends = [0u64; L];
                for (addend, word) in addends.iter_mut().zip(own) {
                    *addend = expand(*word);
                }
                for k in tile.clone() {
                    let code = *codes.get_unchecked(row * block.stride + k) as usize;
                    let at = (k * STRIDE + code) * L;
                    for (bin, addend) in bins.get_unchecked_mut(at..at + L).iter_mut().zip(&addends) {
                        *bin = bin.wrapping_add(*addend);
                    }
                }
            }
        }
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn add_lanes_checked<'a>(block: &CodeBlock, own: Range<usize>, rows: RowSelection<'a>, words: &[u32], lanes: Lanes, bins: &mut [u64]) {
    let tile = lanes.tile();
    // SAFETY: `add_lanes` has checked it.
    unsafe {
        match lanes.width {
            2 => add_lanes_of::<2>(block, own, rows, words, tile, bins),
            4 => add_lanes_of::<4>(block, own, rows, words, tile, bins),
            8 => add_lanes_of::<8>(block, own, rows, words, tile, bins),
            16 => add_lanes_of::<16>(block, own, rows, words, tile, bins),
            24 => add_lanes_of::<24>(block, own, rows, words, tile, bins),
            32 => add_lanes_of::<32>(block, own, rows, words, tile, bins),
            width => add_many_lanes(block, own, rows, words, (width, tile), bins),
        }
    }
}

/// As [`add_lanes_of`], for as many lanes as there are, eight at a time.
///
/// # Safety
/// As [`add_lanes_of`].
#[inline(always)]
unsafe fn add_many_lanes(
    block: &CodeBlock,
    own: Range<usize>,
    rows: RowSelection<'_>,
    words: &[u32],
    (width, tile): (usize, usize),
    bins: &mut [u64],
) {
    let (list, first, len): (&[u32], usize, usize) = match rows {
        RowSelection::Range(first, len) => (&[], first, len),
        RowSelection::List(list, len) => (list, 0, len),
    };
    let codes = block.bytes.as_slice();
    for start in own.clone().step_by(tile) {
        let tile = start..own.end.min(start + tile);
        for i in 0..len {
            // SAFETY: the caller's promise.
            unsafe {
                let row = if list.is_empty() { first + i } else { *list.get_unchecked(i) as usize };
                let own = words.get_unchecked(row * width..row * width + width);
                for k in tile.clone() {
                    let code = *codes.get_unchecked(row * block.stride + k) as usize;
                    let at = (k * STRIDE + code) * width;
                    for (bins, words) in bins.get_unchecked_mut(at..at + width).chunks_exact_mut(8).zip(own.chunks_exact(8)) {
                        for j in 0..8 {
                            bins[j] = bins[j].wrapping_add(expand(words[j]));
                        }
                    }
                }
            }
        }
    }
}

/// Adds the statistics of `rows`, `words[row * width + lane]`, to the bins of their codes at bytes `own` of the block's rows:
/// `bins[(feature * STRIDE + code) * width + lane]`, the features counted inside the block.
///
/// # Safety
/// The first `len` row numbers of a list are smaller than the block's rows.
///
/// # Panics
/// When a slice is too short for the job.
pub unsafe fn add_lanes(block: &CodeBlock, own: Range<usize>, rows: RowSelection<'_>, (words, lanes): (&[u32], Lanes), bins: &mut [u64]) {
    if own.is_empty() || block.features.is_empty() {
        return;
    }
    let (total, width) = (block.rows(), lanes.width);
    assert!(own.end <= block.width && block.width <= block.stride && bins.len() >= block.width * STRIDE * width);
    assert!(words.len() >= total * width && (width <= 8 || width.is_multiple_of(8)));
    match rows {
        RowSelection::Range(first, len) => assert!(first + len <= total && len <= MAX_ROWS),
        RowSelection::List(list, len) => {
            assert!(list.len() >= len && len <= MAX_ROWS);
            debug_assert!(list[..len].iter().all(|r| (*r as usize) < total));
        }
    }
    add_lanes_checked(block, own, rows, words, lanes, bins);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trees::codes::Layout;
    use taiga_core::numerics::random::Purpose;

    /// Statistics side by side are added as those of each lane by itself, for every width and part of the features.
    #[test]
    fn lanes_equal_naive_sums() {
        let random = Random::new(2, Purpose::Rounding, 0);
        let rows = if cfg!(miri) { 20 } else { 700 };
        for features in [3, 12, 28, 40] {
            for outputs in [1, 2, 3, 7, 8, 9, 20, 33, 50] {
                let lanes = Lanes::new(outputs, &[Plane::Both, Plane::Count]);
                let words: Vec<u32> = (0..rows * lanes.width).map(|i| random.u32(i as u32)).collect();
                for layout in &Layout::new(features, true).blocks {
                    let mut block = CodeBlock::new(layout, rows).unwrap();
                    (0..rows * layout.stride).for_each(|i| block.bytes.as_mut_slice()[i] = random.u64(i as u64) as u8);
                    let list: Vec<u32> = (0..rows as u32).filter(|r| r % 3 != 1).collect();
                    for own in [0..layout.width, layout.width / 8 * 4..layout.width] {
                        let mut bins = vec![0; layout.width * STRIDE * lanes.width];
                        let selected = RowSelection::List(&list, list.len());
                        // SAFETY: the list holds the block's rows.
                        unsafe { add_lanes(&block, own.clone(), selected, (&words, lanes), &mut bins) };
                        let mut naive = vec![0u64; bins.len()];
                        for row in &list {
                            for k in own.clone() {
                                let at = (k * STRIDE + block.code(*row as usize, k) as usize) * lanes.width;
                                for lane in 0..lanes.width {
                                    let bin = &mut naive[at + lane];
                                    *bin = bin.wrapping_add(expand(words[*row as usize * lanes.width + lane]));
                                }
                            }
                        }
                        assert!(bins == naive, "{features} features, {outputs} outputs");
                    }
                }
            }
        }
    }
}
