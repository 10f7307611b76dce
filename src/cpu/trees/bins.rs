//! A feature's bins in one node, whatever their form, and their cumulative sums, which candidate splits are made of.

use super::codes::CodeColumns;
use super::gradient_quantizer::Plane;
use super::histogram::{expand, prefetch_near, unpack};
use taiga_core::learners::boosting::layout::Stored;
use taiga_core::tree::split::Sums;

/// Numbers of a line of the caches.
const LINE: usize = 8;

/// What the count is of rows whose statistics are at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    None,
    /// The hessians' sum ([`super::gradient_quantizer::GradientQuantizer::new`]).
    Hessians,
    /// The number of rows.
    Rows,
}

/// A feature's bins in one node.
#[derive(Clone, Copy)]
pub enum NodeBins<'a> {
    /// Sums of their own; no counts where rows are not counted.
    Wide { gradient: &'a [i64], hessian: &'a [i64], count: &'a [i64] },
    /// As the kernels add them ([`super::histogram`]), and beside them the rows, where these are counted by themselves.
    Packed { bins: &'a [u64], count: &'a [i64], counts: Counts },
    /// No bins, but the few rows themselves, with their packed statistics and the feature's codes.
    Rows { rows: &'a [u32], statistics: &'a [u32], codes: &'a [u8], counts: Counts },
    /// Sums of all codes but one, the default, whose sums are what the others leave of the total.
    Sparse(SparseBins<'a>),
}

/// A node's histogram, by its slot, or the few rows that make one superfluous.
#[derive(Clone, Copy)]
pub enum NodeHistogram<'a> {
    /// A slot, and the node's sums.
    Slot {
        slot: usize,
        total: Sums,
    },
    Rows {
        rows: &'a [u32],
        statistics: &'a [u32],
        columns: &'a CodeColumns,
    },
}

impl Counts {
    /// Returns the sum of some rows' packed statistics as sums.
    #[inline(always)]
    pub fn sums(self, packed: u64, rows: usize) -> Sums {
        let (gradient, hessian) = unpack(packed);
        let count = match self {
            Counts::None => 0,
            Counts::Hessians => hessian,
            Counts::Rows => rows as i64,
        };
        Sums { gradient, hessian, count }
    }
}

impl NodeBins<'_> {
    /// Returns the sums of one bin.
    #[inline(always)]
    pub fn at(&self, bin: usize) -> Sums {
        match self {
            NodeBins::Wide { gradient, hessian, count } => {
                Sums { gradient: gradient[bin], hessian: hessian[bin], count: if count.is_empty() { 0 } else { count[bin] } }
            }
            NodeBins::Packed { bins, count, counts } => counts.sums(bins[bin], if count.is_empty() { 0 } else { count[bin] as usize }),
            NodeBins::Rows { rows, statistics, codes, counts } => rows_total(rows, statistics, codes, *counts, bin..bin + 1),
            NodeBins::Sparse(sparse) => sparse.at(bin),
        }
    }

    /// Returns a bit for each of the bins `start .. end` (at most 64): whether it has any rows.
    #[inline(always)]
    fn occupied(&self, start: usize, end: usize) -> u64 {
        match self {
            NodeBins::Wide { gradient, hessian, count } => {
                let any = nonzero(&gradient[start..end]) | nonzero(&hessian[start..end]);
                if count.is_empty() { any } else { any | nonzero(&count[start..end]) }
            }
            NodeBins::Packed { bins, count, .. } => {
                let any = nonzero(&bins[start..end]);
                if count.is_empty() { any } else { any | nonzero(&count[start..end]) }
            }
            NodeBins::Rows { .. } | NodeBins::Sparse(_) => u64::MAX,
        }
    }

    /// Returns how many of the bins `start .. end` have any rows.
    #[inline(always)]
    fn count_occupied(&self, start: usize, end: usize) -> usize {
        match self {
            NodeBins::Wide { gradient, hessian, .. } => {
                gradient[start..end].iter().zip(&hessian[start..end]).map(|(g, h)| (g | h != 0) as usize).sum()
            }
            NodeBins::Packed { bins, .. } => bins[start..end].iter().map(|bin| (*bin != 0) as usize).sum(),
            NodeBins::Rows { .. } | NodeBins::Sparse(_) => end - start,
        }
    }

    /// Asks for packed bins that are read soon.
    #[inline(always)]
    pub fn prefetch(&self) {
        if let NodeBins::Packed { bins, .. } = self {
            bins.chunks(LINE).for_each(|line| prefetch_near(line.as_ptr().cast()));
        }
    }

    /// Returns the sums over a range of bins.
    #[inline(always)]
    pub fn total(&self, range: std::ops::Range<usize>) -> Sums {
        match self {
            NodeBins::Rows { rows, statistics, codes, counts } => rows_total(rows, statistics, codes, *counts, range),
            _ => range.fold(Sums::default(), |a, i| a + self.at(i)),
        }
    }
}

/// The words of a sparse feature in one node: packed bins, one for each plane, or, where they are
/// wide, an upper and a lower half.
#[derive(Clone, Copy)]
pub struct SparseBins<'a> {
    /// The words from the feature's first one in the first plane on.
    pub words: &'a [u64],
    /// Words from one plane (or half) to the next.
    pub stride: usize,
    pub planes: &'a [Plane],
    pub counted: bool,
    pub wide: bool,
    pub stored: Stored,
    /// The node's sums.
    pub total: Sums,
}

impl SparseBins<'_> {
    /// Returns the sums of a word.
    #[inline(always)]
    pub fn word(&self, word: usize) -> Sums {
        self.sums(|plane| self.words[plane * self.stride + word])
    }

    /// Returns the sums over all words.
    #[inline(always)]
    fn stored_sums(&self) -> Sums {
        let n = self.stored.words();
        self.sums(|plane| self.words[plane * self.stride..][..n].iter().fold(0, |a, word| word.wrapping_add(a)))
    }

    #[inline(always)]
    fn sums(&self, at: impl Fn(usize) -> u64) -> Sums {
        if let ([Plane::Both], false) = (self.planes, self.wide) {
            return (if self.counted { Counts::Hessians } else { Counts::None }).sums(at(0), 0);
        }
        let mut out = Sums::default();
        for (p, plane) in self.planes.iter().enumerate() {
            let (upper, lower) = if self.wide { (at(2 * p) as i64, at(2 * p + 1) as i64) } else { unpack(at(p)) };
            // Of a wide plane these are limbs.
            let whole = (upper << 16) + lower;
            match plane {
                Plane::Both => (out.gradient, out.hessian) = (upper, lower),
                Plane::Gradient => out.gradient = whole,
                Plane::Hessian | Plane::UnitHessian => out.hessian = whole,
                Plane::Count => out.count = whole,
            }
        }
        if self.counted && !self.planes.contains(&Plane::Count) {
            out.count = out.hessian;
        }
        out
    }

    /// Returns a bit for each of the words `start .. end` (at most 64): whether it has any rows.
    #[inline(always)]
    fn occupied(&self, start: usize, end: usize) -> u64 {
        let mut any = nonzero(&self.words[start..end]);
        for plane in 1..self.planes.len() * if self.wide { 2 } else { 1 } {
            any |= nonzero(&self.words[plane * self.stride..][start..end]);
        }
        any
    }

    /// Returns the sums of a bin.
    #[inline(always)]
    fn at(&self, bin: usize) -> Sums {
        if bin == self.stored.default {
            self.total - self.stored_sums()
        } else if bin < self.stored.low {
            Sums::default()
        } else {
            self.word(self.stored.word(bin))
        }
    }
}

/// Returns the sums over the rows with codes inside a range.
#[inline(always)]
fn rows_total(rows: &[u32], statistics: &[u32], codes: &[u8], counts: Counts, range: std::ops::Range<usize>) -> Sums {
    let inside = rows.iter().zip(statistics).filter(|(r, _)| range.contains(&(codes[**r as usize] as usize)));
    let (packed, n) = inside.fold((0u64, 0), |(sum, n), (_, s)| (expand(*s).wrapping_add(sum), n + 1));
    counts.sums(packed, n)
}

/// Returns a bit for each of up to 64 numbers: whether it is not zero.
#[inline(always)]
fn nonzero<T: Copy + Default + PartialEq>(numbers: &[T]) -> u64 {
    let mut bits = 0u64;
    let mut i = 0;
    while i + 8 <= numbers.len() {
        let mut byte = 0u8;
        for j in 0..8 {
            byte |= ((numbers[i + j] != T::default()) as u8) << j;
        }
        bits |= (byte as u64) << i;
        i += 8;
    }
    while i < numbers.len() {
        bits |= ((numbers[i] != T::default()) as u64) << i;
        i += 1;
    }
    bits
}

/// Computes the sums of `start` and the numbers up to each; packed numbers may pass through the sign bit.
#[inline(always)]
fn prefix_sums(numbers: &[i64], start: i64, out: &mut [i64]) {
    let mut sum = start;
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the feature was found.
        (done, sum) = unsafe { x86::prefix_sums_of_eight(numbers, start, out) };
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the feature was found.
        (done, sum) = unsafe { x86::prefix_sums_of_four(numbers, start, out) };
    }
    for (out, number) in out[done..].iter_mut().zip(&numbers[done..]) {
        sum = sum.wrapping_add(*number);
        *out = sum;
    }
}

/// Prefix sums, a vector at a time; the functions return how many, and the last sum. What comes before a vector is carried past the sums
/// inside it, so that one addition a vector has to wait for the last one.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// # Safety
    /// The processor has AVX-512 F.
    #[target_feature(enable = "avx512f")]
    pub unsafe fn prefix_sums_of_eight(numbers: &[i64], start: i64, out: &mut [i64]) -> (usize, i64) {
        let (zero, last) = (_mm512_setzero_si512(), _mm512_set1_epi64(7));
        let mut carry = _mm512_set1_epi64(start);
        let mut done = 0;
        for (numbers, out) in numbers.chunks_exact(8).zip(out.chunks_exact_mut(8)) {
            // SAFETY: both are eight numbers.
            let mut sums = unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) };
            sums = _mm512_add_epi64(sums, _mm512_alignr_epi64::<7>(sums, zero));
            sums = _mm512_add_epi64(sums, _mm512_alignr_epi64::<6>(sums, zero));
            sums = _mm512_add_epi64(sums, _mm512_alignr_epi64::<4>(sums, zero));
            // SAFETY: as above.
            unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), _mm512_add_epi64(sums, carry)) };
            carry = _mm512_add_epi64(carry, _mm512_permutexvar_epi64(last, sums));
            done += 8;
        }
        (done, _mm_cvtsi128_si64(_mm512_castsi512_si128(carry)))
    }

    /// # Safety
    /// The processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub unsafe fn prefix_sums_of_four(numbers: &[i64], start: i64, out: &mut [i64]) -> (usize, i64) {
        let zero = _mm256_setzero_si256();
        let mut carry = _mm256_set1_epi64x(start);
        let mut done = 0;
        for (numbers, out) in numbers.chunks_exact(4).zip(out.chunks_exact_mut(4)) {
            // SAFETY: both are four numbers.
            let mut sums = unsafe { _mm256_loadu_si256(numbers.as_ptr().cast()) };
            sums = _mm256_add_epi64(sums, _mm256_slli_si256::<8>(sums));
            // The second number to the upper two.
            let lower = _mm256_blend_epi32::<0b1111_0000>(zero, _mm256_permute4x64_epi64::<0b0101_0101>(sums));
            sums = _mm256_add_epi64(sums, lower);
            // SAFETY: as above.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm256_add_epi64(sums, carry)) };
            carry = _mm256_add_epi64(carry, _mm256_permute4x64_epi64::<0b1111_1111>(sums));
            done += 4;
        }
        (done, _mm_cvtsi128_si64(_mm256_castsi256_si128(carry)))
    }
}

/// Returns packed bins as signed numbers.
#[inline(always)]
fn as_numbers(bins: &[u64]) -> &[i64] {
    // SAFETY: as in `as_packed`.
    unsafe { std::slice::from_raw_parts(bins.as_ptr() as *const i64, bins.len()) }
}

/// Returns the same numbers as packed bins.
pub fn as_packed(numbers: &[i64]) -> &[u64] {
    // SAFETY: i64 and u64 have the same size and alignment, and every bit pattern is one of both.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr() as *const u64, numbers.len()) }
}

/// Vectors of this many numbers are computed as wholes.
pub const LANES: usize = 8;

/// The most bins a feature has, rounded up to whole vectors.
pub const MAX_BINS: usize = 264;

/// Sums from the first bin up to each bin that has any rows, or up to every one: behind an empty bin a
/// candidate only repeats the one before, and at a tie the lower border is taken anyway. The bin of
/// the first border always has an entry, which may put nothing but missing values to the left.
pub struct BorderSums {
    pub len: usize,
    pub bin: [u32; MAX_BINS],
    pub gradient: [i64; MAX_BINS],
    pub hessian: [i64; MAX_BINS],
    /// The sums of the missing values, which the first step includes.
    pub missing: Sums,
    /// Zeros, where rows are not counted.
    pub count: [i64; MAX_BINS],
    /// What the count is of rows.
    counts: Counts,
    /// Packed bins, all zero between uses.
    scratch: [u64; MAX_BINS],
    /// The rows of these.
    rows: [u32; MAX_BINS],
    /// Packed sums up to each bin.
    packed: [i64; MAX_BINS],
    /// Whether gradients and hessians are there packed alone.
    is_packed: bool,
}

impl BorderSums {
    /// Makes room for the sums of bins that count rows so.
    pub fn new(counts: Counts) -> BorderSums {
        BorderSums {
            counts,
            len: 0,
            missing: Sums::default(),
            bin: [0; MAX_BINS],
            gradient: [0; MAX_BINS],
            hessian: [0; MAX_BINS],
            count: [0; MAX_BINS],
            scratch: [0; MAX_BINS],
            rows: [0; MAX_BINS],
            packed: [0; MAX_BINS],
            is_packed: false,
        }
    }

    /// Returns whether rows are counted by their hessians.
    #[inline(always)]
    pub fn by_hessians(&self) -> bool {
        self.counts == Counts::Hessians
    }

    /// Returns the packed sums up to each bin, where gradients and hessians are there packed alone ([`BorderSums::unpack`]).
    #[inline(always)]
    pub fn packed(&self) -> Option<&[i64; MAX_BINS]> {
        self.is_packed.then_some(&self.packed)
    }

    /// Unpacks gradients and hessians that are there packed alone.
    #[inline(always)]
    pub fn unpack(&mut self) {
        if !std::mem::take(&mut self.is_packed) {
            return;
        }
        let len = self.len;
        let (packed, gradient, hessian) = (&self.packed[..len], &mut self.gradient[..len], &mut self.hessian[..len]);
        for i in 0..len {
            (gradient[i], hessian[i]) = unpack(packed[i] as u64);
        }
        if self.counts == Counts::Hessians {
            self.count[..len].copy_from_slice(hessian);
        }
    }

    /// Sums the bins of a feature, whose values start at bin `first`, up to each. Where at least one in `dense` bins is occupied, all
    /// of them have steps: whole vectors without a branch are faster than what they save, and the best candidate, the
    /// lowest of equal ones, is the same. Sums of packed bins may stay packed ([`BorderSums::unpack`]).
    #[inline(always)]
    pub fn fill(&mut self, bins: &NodeBins<'_>, first: usize, dense: usize) {
        self.len = 0;
        self.is_packed = false;
        match bins {
            NodeBins::Wide { gradient, .. } => self.fill_bins(bins, first, gradient.len(), dense),
            NodeBins::Packed { bins: packed, .. } => self.fill_bins(bins, first, packed.len(), dense),
            NodeBins::Rows { rows, statistics, codes, counts } => self.fill_rows(rows, statistics, codes, *counts, first),
            NodeBins::Sparse(sparse) => self.fill_sparse(sparse, first),
        }
    }

    #[inline(always)]
    fn fill_bins(&mut self, bins: &NodeBins<'_>, first: usize, n: usize, dense: usize) {
        self.missing = if first > 0 { bins.at(0) } else { Sums::default() };
        if bins.count_occupied(first, n) * dense >= n - first {
            return self.fill_all(bins, first, n);
        }
        let mut sum = self.missing;
        for start in (first..n).step_by(64) {
            let mut bits = bins.occupied(start, n.min(start + 64)) | (start == first) as u64;
            while bits != 0 {
                let i = start + bits.trailing_zeros() as usize;
                self.push(i, bins.at(i), &mut sum);
                bits &= bits - 1;
            }
        }
    }

    /// As [`BorderSums::fill`], of bins that have numbers, with a step of every one, whose bin is not noted. `gradients`: of the gradients
    /// alone; hessians and counts stay as they are, but for those of missing values.
    #[inline(always)]
    pub fn fill_every(&mut self, bins: &NodeBins<'_>, first: usize, gradients: bool) {
        let n = match bins {
            NodeBins::Wide { gradient, .. } => gradient.len(),
            NodeBins::Packed { bins, .. } => bins.len(),
            NodeBins::Rows { .. } | NodeBins::Sparse(_) => return self.fill(bins, first, 1),
        };
        self.missing = if first > 0 { bins.at(0) } else { Sums::default() };
        self.len = n - first;
        self.is_packed = false;
        self.sum_bins(bins, first, n, gradients);
        if gradients && std::mem::take(&mut self.is_packed) {
            let packed = &self.packed[..self.len];
            self.gradient.iter_mut().zip(packed).for_each(|(gradient, sum)| *gradient = unpack(*sum as u64).0);
        }
        self.unpack();
    }

    /// As [`BorderSums::fill_every`], of packed bins, whose sums stay packed. Returns them, the counts, summed where `counts` says so and there are
    /// any, and the sums of missing values; none of bins that are not packed.
    #[inline(always)]
    pub fn fill_packed(&mut self, bins: &NodeBins<'_>, first: usize, counts: bool) -> Option<(&[i64; MAX_BINS], &[i64; MAX_BINS], Sums)> {
        let NodeBins::Packed { bins: packed, .. } = bins else { return None };
        self.missing = if first > 0 { bins.at(0) } else { Sums::default() };
        self.len = packed.len() - first;
        self.sum_bins(bins, first, packed.len(), !counts);
        Some((&self.packed, &self.count, self.missing))
    }

    /// Makes a step of every bin.
    #[inline(always)]
    fn fill_all(&mut self, bins: &NodeBins<'_>, first: usize, n: usize) {
        let len = n - first;
        self.len = len;
        for (i, bin) in self.bin[..len].iter_mut().enumerate() {
            *bin = (first + i) as u32;
        }
        self.sum_bins(bins, first, n, false);
    }

    /// Sums the bins from `first` on, of `n` in all, up to each: the gradients alone, or all that they have.
    #[inline(always)]
    fn sum_bins(&mut self, bins: &NodeBins<'_>, first: usize, n: usize, gradients: bool) {
        let len = n - first;
        match bins {
            NodeBins::Wide { gradient, hessian, count } => {
                prefix_sums(&gradient[first..n], self.missing.gradient, &mut self.gradient[..len]);
                if gradients {
                    return;
                }
                prefix_sums(&hessian[first..n], self.missing.hessian, &mut self.hessian[..len]);
                if !count.is_empty() {
                    prefix_sums(&count[first..n], self.missing.count, &mut self.count[..len]);
                }
            }
            NodeBins::Packed { bins, count, .. } => {
                let start = if first > 0 { bins[0] } else { 0 };
                prefix_sums(as_numbers(&bins[first..n]), start as i64, &mut self.packed[..len]);
                if !count.is_empty() && !gradients {
                    prefix_sums(&count[first..n], self.missing.count, &mut self.count[..len]);
                }
                self.is_packed = true;
            }
            NodeBins::Rows { .. } | NodeBins::Sparse(_) => {}
        }
    }

    #[inline(always)]
    fn fill_rows(&mut self, rows: &[u32], statistics: &[u32], codes: &[u8], counts: Counts, first: usize) {
        // Bins that are only visited where they are occupied, and left empty again.
        let mut occupied = [0u64; MAX_BINS.div_ceil(64)];
        let n = rows.len();
        for (row, statistic) in rows.iter().zip(&statistics[..n]) {
            let code = codes[*row as usize] as usize;
            self.scratch[code] = self.scratch[code].wrapping_add(expand(*statistic));
            self.rows[code] += 1;
            occupied[code / 64] |= 1 << (code % 64);
        }
        let mut sum = Sums::default();
        if first > 0 && occupied[0] & 1 != 0 {
            sum = self.take_rows(0, counts);
            occupied[0] &= !1;
        }
        self.missing = sum;
        occupied[0] |= 1 << first;
        for (word, mut bits) in occupied.into_iter().enumerate() {
            while bits != 0 {
                let code = word * 64 + bits.trailing_zeros() as usize;
                let of_bin = self.take_rows(code, counts);
                self.push(code, of_bin, &mut sum);
                bits &= bits - 1;
            }
        }
    }

    /// Returns the sums of a bin's rows, and leaves it empty.
    #[inline(always)]
    fn take_rows(&mut self, code: usize, counts: Counts) -> Sums {
        counts.sums(std::mem::take(&mut self.scratch[code]), std::mem::take(&mut self.rows[code]) as usize)
    }

    #[inline(always)]
    fn fill_sparse(&mut self, bins: &SparseBins<'_>, first: usize) {
        let stored = bins.stored;
        let default = bins.total - bins.stored_sums();
        self.missing = match first {
            0 => Sums::default(),
            _ if stored.default == 0 => default,
            _ => bins.at(0),
        };
        let mut sum = self.missing;
        // The words of values below the default, and of those above.
        let start = (first > 0 && stored.low == 0) as usize;
        let middle = if stored.default >= first { stored.default - stored.low } else { start };
        self.push_words(bins, start, middle, stored.default > first, &mut sum);
        if stored.default >= first && (stored.default == first || default != Sums::default()) {
            self.push(stored.default, default, &mut sum);
        }
        self.push_words(bins, middle, stored.words(), stored.default < first, &mut sum);
    }

    /// Makes steps of the words `start .. end` that have any rows; for the first one even so where `forced`.
    #[inline(always)]
    fn push_words(&mut self, bins: &SparseBins<'_>, start: usize, end: usize, forced: bool, sum: &mut Sums) {
        let mut at = start;
        while at < end {
            let to = end.min(at + 64);
            let mut occupied = bins.occupied(at, to) | (forced && at == start) as u64;
            while occupied != 0 {
                let word = at + occupied.trailing_zeros() as usize;
                self.push(bins.stored.code(word), bins.word(word), sum);
                occupied &= occupied - 1;
            }
            at = to;
        }
    }

    #[inline(always)]
    fn push(&mut self, bin: usize, more: Sums, sum: &mut Sums) {
        *sum = *sum + more;
        self.bin[self.len] = bin as u32;
        self.gradient[self.len] = sum.gradient;
        self.hessian[self.len] = sum.hessian;
        self.count[self.len] = sum.count;
        self.len += 1;
    }

    pub fn at(&self, step: usize) -> Sums {
        if self.is_packed {
            return self.counts.sums(self.packed[step] as u64, self.count[step] as usize);
        }
        Sums { gradient: self.gradient[step], hessian: self.hessian[step], count: self.count[step] }
    }

    /// Returns the number of steps that lie before bin `end`.
    pub fn before(&self, end: usize) -> usize {
        self.len - (self.len > 0 && self.bin[self.len - 1] as usize >= end) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_sums_are_running_sums() {
        for n in [0usize, 1, 7, 8, 9, 63, 64, 254, 256] {
            let numbers: Vec<i64> = (0..n as i64).map(|i| ((i * 7919) % 1000 - 500) << (i % 40)).collect();
            let mut out = vec![0; n];
            prefix_sums(&numbers, -5, &mut out);
            let running = numbers.iter().scan(-5i64, |sum, x| {
                *sum = sum.wrapping_add(*x);
                Some(*sum)
            });
            assert_eq!(out, running.collect::<Vec<i64>>());
        }
    }
}
