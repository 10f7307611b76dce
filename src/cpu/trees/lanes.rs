//! Trees that several outputs share: each row has the statistics of all of them side by side, and so has each bin. Bins of one output that
//! count their rows have two lanes likewise ([`Lanes::of_planes`]), which [`super::histogram`] adds to.
//!
//! A code is looked up once a row, and the statistics of all outputs are added to what stands there, as vectors:
//!
//! ```text
//! row           lane 0         lane 1         …   lane K-1       (lane K)
//! statistics    output 0       output 1           output K-1     1, where rows are counted
//! bin           Σ              Σ                  Σ              rows
//!
//! where all hessians are 1
//! row           lane 0         lane 1         …   lane K/2
//! statistics    gradients of   gradients of       1
//!               outputs 1, 0   outputs 3, 2
//! ```
//!
//! The gradients of two outputs alone are one word a row, which stands behind the row's codes as that of a tree of one output does, and is added
//! by the same loops ([`Lanes::are_one_word`]).
//!
//! A lane is a packed statistic (a plane of one output, see [`super::gradient_quantizer`]), or the gradients of two outputs. When
//! partial histograms are merged, an output's lane becomes a histogram of its own; it is merged, subtracted and kept as that of any
//! other tree.

use super::codes::CodeBlock;
use super::gradient_quantizer::{GradientQuantizer, Plane};
use super::histogram::{BinWords, MAX_ROWS, NEAR, RowSelection, expand, expand_halves, prefetch_near};
use multiversion::multiversion;
use std::ops::Range;
use taiga_core::learners::boosting::several::HessianUnits;
use taiga_core::learners::boosting::steps::OutputRules;
use taiga_core::numerics::random::Random;
use taiga_core::tree::split::{Scales, Sums};

/// Bytes of the bins that the second-level cache keeps while rows are added.
const TILE_BYTES: usize = 1 << 19;

/// Codes of a row that are read at a time.
const CODES: usize = 4;

/// Where the bins of an output's plane are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// In a lane, packed as a plane is.
    Plane(usize),
    /// Of gradients in the upper or the lower half of one, and of hessians in another.
    Half { lane: usize, upper: bool, hessians: usize },
}

impl Lane {
    /// Returns a bin of the plane, of the words of all lanes of the bin.
    #[inline(always)]
    pub fn bin(self, words: &[u64]) -> u64 {
        match self {
            Lane::Plane(lane) => words[lane],
            Lane::Half { lane, upper, hessians } => {
                let lower = words[lane] as i32 as i64;
                let gradient = if upper { (words[lane] as i64).wrapping_sub(lower) >> 32 } else { lower };
                ((gradient as u64) << 32).wrapping_add(words[hessians])
            }
        }
    }
}

impl Lane {
    /// Copies the bins of the plane, of so many words each, to `out`, and returns them.
    #[inline(never)]
    pub fn gather<'o>(self, words: &[u64], width: usize, out: &'o mut [u64]) -> &'o [u64] {
        let out = &mut out[..words.len() / width];
        out.iter_mut().zip(words.chunks_exact(width)).for_each(|(out, words)| *out = self.bin(words));
        out
    }
}

/// The statistics that a row has side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    outputs: usize,
    /// Whether a lane has the gradients of two outputs: where all hessians are 1.
    halves: bool,
    /// Lanes of an output: 2 where gradients and hessians are wide.
    each: usize,
    /// Lanes of a row, those that are not used included: whole vectors.
    pub width: usize,
}

impl Lanes {
    /// Makes the lanes of as many outputs, each with these planes. `unit`: all hessians are 1.
    pub fn new(outputs: usize, planes: &[Plane], unit: bool) -> Lanes {
        let each = planes.iter().filter(|plane| !is_of_ones(**plane)).count();
        let halves = unit && *planes == [Plane::Both];
        let used = match halves {
            true => outputs.div_ceil(2) + 1,
            false => outputs * each + planes.iter().any(|plane| is_of_ones(*plane)) as usize,
        };
        let width = if used <= 2 { 2 } else { used.next_multiple_of(if used <= 32 { 4 } else { 8 }) };
        Lanes { outputs, halves, each, width }
    }

    /// Returns the lanes of the one output of a tree by planes, where [`super::histogram`] adds statistics and counts side by side.
    pub fn of_planes(planes: &[Plane]) -> Option<Lanes> {
        (*planes == [Plane::Both, Plane::Count]).then(|| Lanes::new(1, planes, false))
    }

    /// Returns whether a row's statistics are one word, and all else that it adds to a bin is 1: the gradients of two outputs.
    pub fn are_one_word(&self) -> bool {
        self.halves && self.outputs == 2
    }

    /// Returns what a row's word adds to a bin, of rows that have one.
    pub fn bin_words(&self) -> BinWords {
        if self.halves { BinWords::CountedHalves } else { BinWords::Counted }
    }

    /// Returns where an output's plane is found, of which it has `p` before it.
    pub fn of(&self, output: usize, p: usize, plane: Plane) -> Lane {
        match plane {
            _ if self.halves => Lane::Half { lane: output / 2, upper: output % 2 == 1, hessians: self.outputs.div_ceil(2) },
            Plane::UnitHessian | Plane::Count => Lane::Plane(self.outputs * self.each),
            _ => Lane::Plane(output * self.each + p),
        }
    }

    /// Returns how many codes of a row are added to their bins, so many for each, before the next row's: a multiple of [`CODES`].
    fn tile(&self, bins: usize) -> usize {
        (TILE_BYTES / (8 * bins * self.width) / CODES).max(1) * CODES
    }
}

/// Whether a plane is 1 in each row, for all outputs.
fn is_of_ones(plane: Plane) -> bool {
    matches!(plane, Plane::UnitHessian | Plane::Count)
}

/// A tree that several outputs share: how the derivatives of each become integers, and what it counts. Under ordered boosting the rows of a
/// body, and those of its tail, stand for two outputs side by side.
pub struct SharedTree {
    /// The first output.
    pub first: usize,
    /// Under ordered boosting how many bodies with their tails each output is told by; else 0.
    pub pairs: usize,
    pub quantizers: Vec<GradientQuantizer>,
    pub rules: Vec<OutputRules>,
    pub lanes: Lanes,
    /// Whether all outputs have the same hessians, those of rows that count 1, and the same `l2`.
    pub unit: bool,
    units: HessianUnits,
}

impl SharedTree {
    /// Makes the tree of the outputs from `first` on, whose quantizers have the same planes. `unit`: all hessians are 1.
    pub fn new(first: usize, quantizers: Vec<GradientQuantizer>, rules: &[OutputRules], unit: bool) -> SharedTree {
        let lanes = Lanes::new(quantizers.len(), &quantizers[0].planes, unit);
        let units: Vec<f64> = quantizers.iter().map(|q| q.scales().hessian).collect();
        let unit = unit && rules.iter().all(|r| r.params.l2 == rules[0].params.l2);
        SharedTree { first, pairs: 0, quantizers, rules: rules.to_vec(), lanes, unit, units: HessianUnits::new(&units) }
    }

    /// Makes the tree of the outputs from `first` on under ordered boosting: of each in turn, `pairs` times a body and its tail, whose
    /// quantizers have the same planes. `rules`: of each output.
    pub fn of_bodies(first: usize, pairs: usize, quantizers: Vec<GradientQuantizer>, rules: &[OutputRules]) -> SharedTree {
        let lanes = Lanes::new(quantizers.len(), &quantizers[0].planes, false);
        let rules: Vec<OutputRules> = rules.iter().flat_map(|rules| vec![*rules; 2 * pairs]).collect();
        let units: Vec<f64> = quantizers.iter().skip(1).step_by(2).map(|q| q.scales().hessian).collect();
        SharedTree { first, pairs, quantizers, rules, lanes, unit: false, units: HessianUnits::new(&units) }
    }

    /// Returns whether statistics have 16 bits, so that sums of them over any rows are less than 2⁵¹.
    pub fn is_narrow(&self) -> bool {
        self.quantizers[0].planes[0] == Plane::Both
    }

    /// Returns how many outputs there are, however many statistics stand for each.
    pub fn told(&self) -> usize {
        self.outputs() / (2 * self.pairs).max(1)
    }

    /// Returns the number of outputs.
    pub fn outputs(&self) -> usize {
        self.quantizers.len()
    }

    /// Returns what the sums of the outputs together are in units of.
    pub fn scales(&self) -> Scales {
        self.units.scales()
    }

    /// Returns the sums of the outputs together: the mean of their hessians. Under ordered boosting those of an output are its tails'.
    pub fn together(&self, each: impl IntoIterator<Item = Sums>) -> Sums {
        if self.pairs == 0 {
            return self.units.together(each);
        }
        let sums = self.units.together(each.into_iter().skip(1).step_by(2));
        Sums { hessian: sums.hessian.saturating_mul(self.pairs as i64), ..sums }
    }

    /// Writes the gradients of a batch of two outputs, whose hessians are 1, to a word each row: those of the second in its upper half.
    /// `scratch`: room for a plane.
    pub fn pack_pair(
        &self,
        derivatives: [(&[f32], &[f32]); 2],
        (random, first_row): (Random, usize),
        scratch: &mut Vec<u32>,
        words: &mut [u32],
    ) {
        scratch.resize(words.len(), 0);
        let [lower, upper] = derivatives;
        self.quantizers[0].pack(lower.0, lower.1, random, first_row, &mut [&mut scratch[..]]);
        self.quantizers[1].pack(upper.0, upper.1, random, first_row, &mut [words]);
        for (word, lower) in words.iter_mut().zip(&*scratch) {
            *word = (*word & 0xffff_0000) | (lower >> 16);
        }
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
            match self.lanes.of(output, p, *plane) {
                Lane::Plane(lane) if is_of_ones(*plane) => words[lane..].iter_mut().step_by(width).take(n).for_each(|word| *word = 1),
                Lane::Plane(lane) => words[lane..].iter_mut().step_by(width).zip(&scratch[p]).for_each(|(word, packed)| *word = *packed),
                Lane::Half { lane, upper, hessians } => {
                    let both = words[lane..].iter_mut().step_by(width).zip(&scratch[0]);
                    match upper {
                        // The lower half comes first, and clears the upper one.
                        false => both.for_each(|(word, packed)| *word = packed >> 16),
                        true => both.for_each(|(word, packed)| *word |= packed & 0xffff_0000),
                    }
                    words[hessians..].iter_mut().step_by(width).take(n).for_each(|word| *word = 1);
                }
            }
        }
    }
}

/// Returns a statistic as an addend of a bin.
#[inline(always)]
fn addend<const HALVES: bool>(word: u32) -> u64 {
    if HALVES { expand_halves(word) } else { expand(word) }
}

/// Returns the codes from `start` on.
///
/// # Safety
/// There are as many.
#[inline(always)]
unsafe fn codes_at(codes: &[u8], start: usize) -> [u8; CODES] {
    // SAFETY: the caller's promise; bytes need no alignment.
    unsafe { codes.as_ptr().add(start).cast::<[u8; CODES]>().read_unaligned() }
}

/// Adds the `L` packed statistics of one row, as addends, to the bins of each of its codes.
///
/// # Safety
/// Rows of `rows` are smaller than the block's rows, of which `words` has `L` each; `own` are bytes of the block's rows, as many as a multiple of
/// [`CODES`], of which `tile` is one; and `bins` has `block.bins * L` for each of its codes, all of which are smaller than `block.bins`.
#[inline(always)]
unsafe fn add_lanes_of<const L: usize, const HALVES: bool>(
    block: &CodeBlock,
    own: Range<usize>,
    rows: RowSelection<'_>,
    words: &[u32],
    tile: usize,
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
                    *addend = self::addend::<HALVES>(*word);
                }
                for k in tile.clone().step_by(CODES) {
                    let codes = codes_at(codes, row * block.stride + k);
                    for (j, code) in codes.into_iter().enumerate() {
                        let at = ((k + j) * block.bins + code as usize) * L;
                        for (bin, addend) in bins.get_unchecked_mut(at..at + L).iter_mut().zip(&addends) {
                            *bin = bin.wrapping_add(*addend);
                        }
                    }
                }
            }
        }
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn add_lanes_checked<'a>(block: &CodeBlock, own: Range<usize>, rows: RowSelection<'a>, words: &[u32], lanes: Lanes, bins: &mut [u64]) {
    let tile = lanes.tile(block.bins);
    // SAFETY: `add_lanes` has checked it.
    unsafe {
        match lanes.halves {
            true => add_lanes_by_width::<true>(block, own, rows, words, (lanes.width, tile), bins),
            false => add_lanes_by_width::<false>(block, own, rows, words, (lanes.width, tile), bins),
        }
    }
}

/// # Safety
/// As [`add_lanes_of`].
#[inline(always)]
unsafe fn add_lanes_by_width<const HALVES: bool>(
    block: &CodeBlock,
    own: Range<usize>,
    rows: RowSelection<'_>,
    words: &[u32],
    (width, tile): (usize, usize),
    bins: &mut [u64],
) {
    macro_rules! pick {
        ($($width:literal)*) => {
            match width {
                $($width => add_lanes_of::<$width, HALVES>(block, own, rows, words, tile, bins),)*
                _ => add_many_lanes::<HALVES>(block, own, rows, words, (width, tile), bins),
            }
        };
    }
    // SAFETY: the caller's promise.
    unsafe { pick!(2 4 8 12 16 20 24 28 32) }
}

/// As [`add_lanes_of`], for as many lanes as there are, eight at a time.
///
/// # Safety
/// As [`add_lanes_of`].
#[inline(always)]
unsafe fn add_many_lanes<const HALVES: bool>(
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
                    let at = (k * block.bins + code) * width;
                    for (bins, words) in bins.get_unchecked_mut(at..at + width).chunks_exact_mut(8).zip(own.chunks_exact(8)) {
                        for j in 0..8 {
                            bins[j] = bins[j].wrapping_add(addend::<HALVES>(words[j]));
                        }
                    }
                }
            }
        }
    }
}

/// Adds the statistics of `rows`, `words[row * width + lane]`, to the bins of their codes at bytes `own` of the block's rows:
/// `bins[(feature * block.bins + code) * width + lane]`, the features counted inside the block.
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
    assert!(own.end <= block.width && block.width <= block.stride && bins.len() >= block.width * block.bins * width);
    assert!(own.len().is_multiple_of(CODES) && lanes.tile(block.bins).is_multiple_of(CODES));
    assert!(words.len() >= total * width && (width <= 32 || width.is_multiple_of(8)));
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
    use crate::trees::codes::{BlockLayout, Layout};
    use taiga_core::learners::boosting::layout::{NARROW, STRIDE};
    use taiga_core::numerics::random::Purpose;

    /// Statistics side by side are added as those of each lane by itself, for every width and part of the features.
    #[test]
    fn lanes_equal_naive_sums() {
        let random = Random::new(2, Purpose::Rounding, 0);
        let rows = if cfg!(miri) { 20 } else { 700 };
        for (features, apart) in [(3, STRIDE), (12, NARROW), (28, NARROW), (40, STRIDE), (60, NARROW)] {
            for outputs in [1, 2, 3, 7, 8, 9, 20, 33, 50] {
                let halves = outputs % 3 == 2;
                let lanes = if halves {
                    Lanes::new(outputs, &[Plane::Both], true)
                } else {
                    Lanes::new(outputs, &[Plane::Both, Plane::Count], false)
                };
                let words: Vec<u32> = (0..rows * lanes.width).map(|i| random.u32(i as u32)).collect();
                for layout in Layout::new(features, true).blocks {
                    let layout = BlockLayout { bins: apart, ..layout };
                    let mut block = CodeBlock::new(&layout, rows, None).unwrap();
                    let code = |i: usize| (random.u64(i as u64) % apart.min(256) as u64) as u8;
                    (0..rows * layout.stride).for_each(|i| block.bytes.as_mut_slice()[i] = code(i));
                    let list: Vec<u32> = (0..rows as u32).filter(|r| r % 3 != 1).collect();
                    for own in [0..layout.width, layout.width / 8 * 4..layout.width] {
                        let mut bins = vec![0; layout.width * layout.bins * lanes.width];
                        let selected = RowSelection::List(&list, list.len());
                        // SAFETY: the list holds the block's rows.
                        unsafe { add_lanes(&block, own.clone(), selected, (&words, lanes), &mut bins) };
                        let mut naive = vec![0u64; bins.len()];
                        for row in &list {
                            for k in own.clone() {
                                let at = (k * layout.bins + block.code(*row as usize, k) as usize) * lanes.width;
                                for lane in 0..lanes.width {
                                    let bin = &mut naive[at + lane];
                                    let word = words[*row as usize * lanes.width + lane];
                                    *bin = bin.wrapping_add(if halves { addend::<true>(word) } else { addend::<false>(word) });
                                }
                            }
                        }
                        assert!(bins == naive, "{features} features, {outputs} outputs");
                    }
                }
            }
        }
    }

    /// The halves of a lane come back as they went in, whatever their signs, over as many rows as a bin takes.
    #[test]
    fn halves_are_told_apart() {
        let random = Random::new(3, Purpose::Rounding, 0);
        let lanes = Lanes::new(3, &[Plane::Both], true);
        for extreme in [false, true] {
            let (mut words, mut sums) = (vec![0u64; lanes.width], [0i64; 3]);
            for row in 0..if cfg!(miri) { 64 } else { MAX_ROWS as u64 } {
                let g: [i16; 3] = std::array::from_fn(|k| match extreme {
                    false => random.u64(4 * row + k as u64) as i16,
                    true => [i16::MIN, i16::MAX, i16::MIN][k],
                });
                let pair = |low: i16, high: i16| (low as u16 as u32) | (high as u16 as u32) << 16;
                for (word, packed) in words.iter_mut().zip([pair(g[0], g[1]), pair(g[2], 0), 1]) {
                    *word = word.wrapping_add(addend::<true>(packed));
                }
                sums.iter_mut().zip(g).for_each(|(sum, g)| *sum += g as i64);
            }
            for (output, sum) in sums.into_iter().enumerate() {
                let bin = lanes.of(output, 0, Plane::Both).bin(&words);
                assert_eq!(((bin as i64) >> 32, bin & 0xffff_ffff), (sum, words[2]), "{output} {extreme}");
            }
        }
    }
}
