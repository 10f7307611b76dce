//! The inner loops that sum statistics by code.
//!
//! A bin is one u64: the gradients' sum (signed) in its upper half, the hessians' (unsigned) in
//! its lower, so that one addition serves both. 16-bit statistics keep both halves exact over
//! [`MAX_ROWS`] rows. A feature's bins are [`STRIDE`] apart (or [`NARROW`]): with 256, equal codes of neighbouring
//! features would fall 2 KiB apart and alias in the cache's store buffer.

use super::codes::{CodeBlock, STATISTICS};
use super::gradient_quantizer::BATCH;
use std::ops::Range;
pub use taiga_core::learners::boosting::layout::{MAX_ROWS, NARROW, STRIDE};
pub use taiga_core::memory::prefetch_near;

/// How many rows ahead codes are prefetched from memory, and from the second-level cache.
const FAR: usize = 96;
pub(super) const NEAR: usize = 8;

/// Returns a packed statistic (signed 16 bits above unsigned 16) as an addend of a bin.
#[inline(always)]
pub fn expand(packed: u32) -> u64 {
    ((((packed as i32) >> 16) as i64 as u64) << 32).wrapping_add((packed & 0xffff) as u64)
}

/// Returns two packed gradients as an addend of a bin: the upper one in its upper half, the lower one, signed too, in all of it.
#[inline(always)]
pub fn expand_halves(packed: u32) -> u64 {
    ((((packed as i32) >> 16) as i64 as u64) << 32).wrapping_add(packed as i16 as i64 as u64)
}

/// Returns a bin's two sums.
#[inline(always)]
pub fn unpack(bin: u64) -> (i64, i64) {
    // The lower half is never negative, so it borrows nothing from the upper.
    ((bin as i64) >> 32, (bin & 0xffff_ffff) as i64)
}

#[inline(always)]
fn prefetch_far(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing; any address is allowed.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(p as *const i8)
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// What a row adds to its bins: one word to each, or two side by side.
trait Addend: Copy {
    /// The words of a bin.
    const WIDTH: usize;

    /// Makes it of a packed statistic.
    fn of(packed: u32) -> Self;

    /// Adds it to a bin.
    ///
    /// # Safety
    /// `bin` is readable and writable for `WIDTH` words.
    unsafe fn add_to(self, bin: *mut u64);
}

/// A statistic.
#[derive(Clone, Copy)]
struct Single(u64);

impl Addend for Single {
    const WIDTH: usize = 1;

    #[inline(always)]
    fn of(packed: u32) -> Self {
        Single(expand(packed))
    }

    #[inline(always)]
    unsafe fn add_to(self, bin: *mut u64) {
        // SAFETY: the caller's promise.
        unsafe { *bin = (*bin).wrapping_add(self.0) }
    }
}

/// A statistic, or the gradients of two outputs in `HALVES` of a word, and 1 for the row.
#[derive(Clone, Copy)]
struct Counted<const HALVES: bool> {
    #[cfg(target_arch = "x86_64")]
    words: std::arch::x86_64::__m128i,
    #[cfg(not(target_arch = "x86_64"))]
    words: [u64; 2],
}

impl<const HALVES: bool> Addend for Counted<HALVES> {
    const WIDTH: usize = 2;

    #[inline(always)]
    fn of(packed: u32) -> Self {
        let word = if HALVES { expand_halves(packed) } else { expand(packed) };
        #[cfg(target_arch = "x86_64")]
        // SAFETY: SSE2 is a part of x86-64.
        let words = unsafe { std::arch::x86_64::_mm_set_epi64x(1, word as i64) };
        #[cfg(not(target_arch = "x86_64"))]
        let words = [word, 1];
        Counted { words }
    }

    #[inline(always)]
    unsafe fn add_to(self, bin: *mut u64) {
        // SAFETY: the caller's promise; neither the load nor the store asks for alignment.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            use std::arch::x86_64::{_mm_add_epi64, _mm_loadu_si128, _mm_storeu_si128};
            _mm_storeu_si128(bin.cast(), _mm_add_epi64(_mm_loadu_si128(bin.cast()), self.words));
        }
        // SAFETY: the caller's promise.
        #[cfg(not(target_arch = "x86_64"))]
        unsafe {
            for (i, word) in self.words.into_iter().enumerate() {
                *bin.add(i) = (*bin.add(i)).wrapping_add(word);
            }
        }
    }
}

/// Adds `addend` to the bins of one row's `G` codes.
///
/// # Safety
/// `row` is readable for `G` bytes, which are smaller than `S`, and `bins` writable for `G * S` bins; `G` is a multiple of 4.
#[inline(always)]
unsafe fn add_row<const G: usize, const S: usize, A: Addend>(row: *const u8, addend: A, bins: *mut u64) {
    let mut k = 0;
    while k < G {
        let m = if G - k < 8 { G - k } else { 8 };
        // SAFETY: by the caller's promise.
        unsafe {
            let word =
                if m == 8 { (row.add(k) as *const u64).read_unaligned() } else { (row.add(k) as *const u32).read_unaligned() as u64 };
            let mut j = 0;
            while j < m {
                addend.add_to(bins.add(((k + j) * S + ((word >> (8 * j)) & 255) as usize) * A::WIDTH));
                j += 1;
            }
        }
        k += 8;
    }
}

/// The pointers and lengths of what a kernel reads and writes.
#[derive(Clone, Copy)]
pub struct KernelCall {
    /// The first code of the first row, of those that are added.
    codes: *const u8,
    stride: usize,
    /// How far behind that the row's statistics are, where it carries them.
    embedded: usize,
    /// Row numbers, or null for rows `first .. first + len`.
    rows: *const u32,
    first: usize,
    len: usize,
    /// How many row numbers may be read, from `rows` on.
    readable: usize,
    /// Packed statistics in the order of the rows, or null where they ride in the codes' rows.
    statistics: *const u32,
    bins: *mut u64,
}

impl KernelCall {
    /// Checks the arguments of [`add`], and makes the kernel's call of them.
    ///
    /// # Panics
    /// When a slice is too short.
    fn new(block: &CodeBlock, own: Range<usize>, rows: RowSelection<'_>, statistics: Option<&[u32]>, bins: Bins<'_>) -> KernelCall {
        let (list, first, len): (&[u32], usize, usize) = match rows {
            RowSelection::Range(first, len) => (&[], first, len),
            RowSelection::List(list, len) => (list, 0, len),
        };
        let total = block.rows();
        assert!(bins.words.len() >= block.width * block.bins * bins.width() && len <= MAX_ROWS);
        assert!(own.start <= own.end && own.end <= block.width && own.len().is_multiple_of(4));
        assert!(block.width <= block.stride && block.stride <= 32);
        assert!(block.bins == NARROW || block.bins == STRIDE);
        assert!(statistics.is_some() || block.width + STATISTICS <= block.stride);
        assert!(statistics.is_none_or(|s| s.len() >= len));
        match rows {
            RowSelection::Range(..) => assert!(first + len <= total),
            RowSelection::List(..) => {
                assert!(list.len() >= len);
                debug_assert!(list[..len].iter().all(|r| (*r as usize) < total));
            }
        }
        let words = own.start * block.bins * bins.width();
        KernelCall {
            codes: block.bytes.as_slice().as_ptr().wrapping_add(own.start),
            stride: block.stride,
            embedded: block.stride.wrapping_sub(STATISTICS + own.start),
            rows: if list.is_empty() { std::ptr::null() } else { list.as_ptr() },
            first,
            len,
            readable: list.len(),
            statistics: statistics.map_or(std::ptr::null(), |s| s.as_ptr()),
            bins: bins.words[words..].as_mut_ptr(),
        }
    }
}

/// What a row's word adds to a bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinWords {
    /// A packed statistic to its one word.
    Single,
    /// A packed statistic to its first word, and 1 to its second.
    Counted,
    /// The gradients of two outputs, as [`expand_halves`] has them, to its first word, and 1 to its second.
    CountedHalves,
}

/// The bins that rows are added to.
pub struct Bins<'b> {
    /// `[feature][code]`, features as many codes apart as the block says.
    pub words: &'b mut [u64],
    pub of: BinWords,
}

impl Bins<'_> {
    fn width(&self) -> usize {
        match self.of {
            BinWords::Single => Single::WIDTH,
            BinWords::Counted | BinWords::CountedHalves => Counted::<false>::WIDTH,
        }
    }
}

/// # Safety
/// See [`add`]: it makes the [`KernelCall`] and has checked it.
#[inline(always)]
unsafe fn add_generic<const G: usize, const S: usize, A: Addend>(job: KernelCall) {
    let KernelCall { codes, stride, embedded, rows, first, len, readable, statistics, bins } = job;
    // SAFETY: every row number is smaller than the block's rows and every pointer covers what the
    // job says (checked by `add`); prefetches may point anywhere.
    unsafe {
        match (rows.is_null(), statistics.is_null()) {
            (true, false) => {
                // These rows have just been written to; those of the next call are asked from memory meanwhile.
                let next = len.min(BATCH) * stride;
                for i in 0..len {
                    let row = codes.add((first + i) * stride);
                    prefetch_far(row.wrapping_add(next));
                    add_row::<G, S, A>(row, A::of(*statistics.add(i)), bins);
                }
            }
            (true, true) => {
                for i in 0..len {
                    let row = codes.add((first + i) * stride);
                    prefetch_near(row.wrapping_add(1024));
                    add_row::<G, S, A>(row, A::of((row.add(embedded) as *const u32).read_unaligned()), bins);
                }
            }
            (false, true) => {
                let ahead = readable.saturating_sub(FAR).min(len);
                for i in 0..ahead {
                    prefetch_far(codes.wrapping_add(*rows.add(i + FAR) as usize * stride));
                    prefetch_near(codes.wrapping_add(*rows.add(i + NEAR) as usize * stride));
                    let row = codes.add(*rows.add(i) as usize * stride);
                    add_row::<G, S, A>(row, A::of((row.add(embedded) as *const u32).read_unaligned()), bins);
                }
                for i in ahead..len {
                    let row = codes.add(*rows.add(i) as usize * stride);
                    add_row::<G, S, A>(row, A::of((row.add(embedded) as *const u32).read_unaligned()), bins);
                }
            }
            (false, false) => {
                let ahead = readable.saturating_sub(FAR).min(len);
                for i in 0..ahead {
                    prefetch_far(codes.wrapping_add(*rows.add(i + FAR) as usize * stride));
                    prefetch_near(codes.wrapping_add(*rows.add(i + NEAR) as usize * stride));
                    add_row::<G, S, A>(codes.add(*rows.add(i) as usize * stride), A::of(*statistics.add(i)), bins);
                }
                for i in ahead..len {
                    add_row::<G, S, A>(codes.add(*rows.add(i) as usize * stride), A::of(*statistics.add(i)), bins);
                }
            }
        }
    }
}

/// # Safety
/// As [`add_generic`], and the processor has AVX2, BMI1 and BMI2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
unsafe fn add_bmi<const G: usize, const S: usize, A: Addend>(job: KernelCall) {
    // SAFETY: the caller's promise.
    unsafe { add_generic::<G, S, A>(job) }
}

/// The kernel for `width` codes a row, so many bins a feature and an addend: of a function for any processor and one for those with AVX2,
/// BMI1 and BMI2.
macro_rules! kernel {
    ($width:expr, $bins:expr, $addend:ty, $generic:ident, $bmi:ident) => {{
        macro_rules! pick {
            ($f:ident) => {
                if $bins == NARROW { pick!($f, NARROW) } else { pick!($f, STRIDE) }
            };
            ($f:ident, $s:ident) => {
                match $width {
                    4 => $f::<4, $s, $addend>,
                    8 => $f::<8, $s, $addend>,
                    12 => $f::<12, $s, $addend>,
                    16 => $f::<16, $s, $addend>,
                    20 => $f::<20, $s, $addend>,
                    24 => $f::<24, $s, $addend>,
                    28 => $f::<28, $s, $addend>,
                    _ => $f::<32, $s, $addend>,
                }
            };
        }
        #[cfg(target_arch = "x86_64")]
        let kernel = match is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2") {
            true => pick!($bmi),
            false => pick!($generic),
        };
        #[cfg(not(target_arch = "x86_64"))]
        let kernel = pick!($generic);
        kernel
    }};
}

/// The rows of a kernel's call.
#[derive(Clone, Copy)]
pub enum RowSelection<'a> {
    /// Rows `first .. first + len`.
    Range(usize, usize),
    /// The first `len` of these row numbers; those behind them are only prefetched.
    List(&'a [u32], usize),
}

/// Adds the statistics of `rows` to the bins of their codes at bytes `own` of the block's rows
/// ([`CodeBlock::codes_of`]), the features counted inside the block. The statistics come in the order of the rows, or, without them, from
/// the rows of the (first) block itself.
///
/// # Safety
/// The first `len` row numbers of a list are smaller than the block's rows.
///
/// # Panics
/// When a slice is too short for the job.
pub unsafe fn add(block: &CodeBlock, own: Range<usize>, rows: RowSelection<'_>, statistics: Option<&[u32]>, bins: Bins<'_>) {
    let (width, of) = (own.len(), bins.of);
    if width == 0 || block.features.is_empty() {
        return;
    }
    let job = KernelCall::new(block, own, rows, statistics, bins);
    if job.len == 0 {
        return;
    }
    // SAFETY: the assertions of `KernelCall::new` and the caller's promise are the kernel's conditions: rows lie
    // inside the block, codes are smaller than `block.bins` (STRIDE is more than a byte, and the codes of narrow groups are checked
    // where they are set), bins cover width * block.bins, statistics cover len.
    unsafe {
        let kernel: unsafe fn(KernelCall) = match of {
            BinWords::Single => kernel!(width, block.bins, Single, add_generic, add_bmi),
            BinWords::Counted => kernel!(width, block.bins, Counted<false>, add_generic, add_bmi),
            BinWords::CountedHalves => kernel!(width, block.bins, Counted<true>, add_generic, add_bmi),
        };
        kernel(job)
    }
}

/// # Safety
/// See [`add_near`], which has checked the job; its rows are a list.
#[inline(always)]
unsafe fn add_near_generic<const G: usize, const S: usize, A: Addend>((job, mut ahead): (KernelCall, Ahead)) {
    let KernelCall { codes, stride, embedded, rows, len, statistics, bins, .. } = job;
    // SAFETY: as in `add_generic`; row numbers are read up to the last one of the list.
    unsafe {
        for i in 0..len {
            if ahead.next < ahead.end {
                prefetch_far(ahead.next);
                prefetch_far(ahead.next.wrapping_add(64));
                ahead.next = ahead.next.wrapping_add(128);
            }
            let soon = *rows.add(if i + NEAR < len { i + NEAR } else { i });
            prefetch_near(codes.wrapping_add(soon as usize * stride));
            let row = codes.add(*rows.add(i) as usize * stride);
            let packed = if statistics.is_null() { (row.add(embedded) as *const u32).read_unaligned() } else { *statistics.add(i) };
            add_row::<G, S, A>(row, A::of(packed), bins);
        }
    }
}

/// # Safety
/// As [`add_near_generic`], and the processor has AVX2, BMI1 and BMI2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
unsafe fn add_near_bmi<const G: usize, const S: usize, A: Addend>(job: (KernelCall, Ahead)) {
    // SAFETY: the caller's promise.
    unsafe { add_near_generic::<G, S, A>(job) }
}

/// Bytes that are prefetched while rows are added.
#[derive(Clone, Copy)]
pub struct Ahead {
    pub next: *const u8,
    pub end: *const u8,
}

/// As [`add`], for rows whose codes are in the second-level cache: meanwhile that is filled with the bytes `ahead`, 128 of them
/// for each row. Returns what is left of these.
///
/// # Safety
/// As [`add`].
///
/// # Panics
/// As [`add`].
pub unsafe fn add_near(block: &CodeBlock, rows: &[u32], statistics: Option<&[u32]>, bins: Bins<'_>, ahead: Ahead) -> Ahead {
    if block.features.is_empty() {
        return ahead;
    }
    let of = bins.of;
    let job = KernelCall::new(block, 0..block.width, RowSelection::List(rows, rows.len()), statistics, bins);
    // SAFETY: the assertions of `KernelCall::new` and the caller's promise are the kernel's conditions.
    unsafe {
        let kernel: unsafe fn((KernelCall, Ahead)) = match of {
            BinWords::Single => kernel!(block.width, block.bins, Single, add_near_generic, add_near_bmi),
            BinWords::Counted => kernel!(block.width, block.bins, Counted<false>, add_near_generic, add_near_bmi),
            BinWords::CountedHalves => kernel!(block.width, block.bins, Counted<true>, add_near_generic, add_near_bmi),
        };
        kernel((job, ahead));
    }
    Ahead { next: ahead.next.wrapping_add(128 * rows.len()), ..ahead }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trees::codes::Layout;
    use taiga_core::numerics::random::{Purpose, Random};

    /// Every kernel against sums that anyone can read.
    #[test]
    fn kernels_equal_naive_sums() {
        let random = Random::new(1, Purpose::Rounding, 0);
        let (widths, lengths): (&[usize], &[usize]) =
            if cfg!(miri) { (&[1, 7, 29], &[1, 20]) } else { (&[1, 3, 4, 7, 12, 13, 20, 25, 28, 29, 60, 70], &[1, 5, 200, 3000]) };
        for (features, apart) in widths.iter().flat_map(|features| [(*features, STRIDE), (*features, NARROW)]) {
            for rows in lengths.iter().copied() {
                let mut layout = Layout::new(features, true);
                layout.blocks.iter_mut().for_each(|block| block.bins = apart);
                let codes = apart.min(256);
                let stats: Vec<u32> = (0..rows).map(|i| random.u32(i as u32)).collect();
                for (b, l) in layout.blocks.iter().enumerate() {
                    let mut block = CodeBlock::new(l, rows, None).unwrap();
                    for (r, packed) in stats.iter().enumerate() {
                        for f in 0..l.features.len() {
                            block.bytes.as_mut_slice()[r * l.stride + f] = (random.u64((r * 100 + f) as u64) % codes as u64) as u8;
                        }
                        if b == 0 {
                            let at = r * l.stride + l.stride - STATISTICS;
                            block.bytes.as_mut_slice()[at..at + 4].copy_from_slice(&packed.to_le_bytes());
                        }
                    }
                    let list: Vec<u32> = (0..rows as u32).filter(|r| r % 3 != 1).collect();
                    let listed: Vec<u32> = list.iter().map(|r| stats[*r as usize]).collect();
                    let naive = |rows: &[u32]| {
                        let mut sums = vec![(0i64, 0i64); l.features.len() * codes];
                        for r in rows {
                            for f in 0..l.features.len() {
                                let s = &mut sums[f * codes + block.code(*r as usize, f) as usize];
                                s.0 += (stats[*r as usize] as i32 >> 16) as i64;
                                s.1 += (stats[*r as usize] & 0xffff) as i64;
                            }
                        }
                        sums
                    };
                    let run = |rows: RowSelection, s: Option<&[u32]>| {
                        let mut bins = vec![0u64; l.width * apart];
                        // SAFETY: the lists hold the block's rows.
                        unsafe { add(&block, 0..l.width, rows, s, Bins { words: &mut bins, of: BinWords::Single }) };
                        let mut sums = vec![];
                        for f in 0..l.features.len() {
                            sums.extend(bins[f * apart..f * apart + codes].iter().map(|x| unpack(*x)));
                        }
                        // Bins that count their rows beside it have the same sums, in parts of the features too.
                        let [mut counted, mut halves] = [(); 2].map(|()| vec![0u64; 2 * l.width * apart]);
                        for own in [0..l.width / 8 * 4, l.width / 8 * 4..l.width] {
                            for (words, of) in [(&mut counted, BinWords::Counted), (&mut halves, BinWords::CountedHalves)] {
                                // SAFETY: the lists hold the block's rows.
                                unsafe { add(&block, own.clone(), rows, s, Bins { words, of }) };
                            }
                        }
                        assert!(counted.chunks_exact(2).zip(&bins).all(|(pair, bin)| pair[0] == *bin));
                        let mut naive = vec![0u64; 2 * l.width * apart];
                        let listed = match rows {
                            RowSelection::Range(first, n) => (first as u32..(first + n) as u32).collect(),
                            RowSelection::List(list, n) => list[..n].to_vec(),
                        };
                        for r in &listed {
                            for f in 0..l.width {
                                let at = 2 * (f * apart + block.code(*r as usize, f) as usize);
                                let (upper, lower) = (stats[*r as usize] as i32 >> 16, stats[*r as usize] as i16);
                                naive[at] = naive[at].wrapping_add(((upper as i64) << 32).wrapping_add(lower as i64) as u64);
                                naive[at + 1] += 1;
                            }
                        }
                        assert!(halves == naive);
                        let n = match rows {
                            RowSelection::Range(_, n) | RowSelection::List(_, n) => n as u64,
                        };
                        for f in 0..l.features.len() {
                            let own = &counted[2 * f * apart..2 * (f * apart + codes)];
                            assert_eq!(own.iter().skip(1).step_by(2).sum::<u64>(), n);
                        }
                        if let RowSelection::List(list, n) = rows {
                            let mut near = [1, 2, 2].map(|width| vec![0u64; width * l.width * apart]);
                            let ahead = Ahead { next: std::ptr::null(), end: std::ptr::null() };
                            for (words, of) in near.iter_mut().zip([BinWords::Single, BinWords::Counted, BinWords::CountedHalves]) {
                                // SAFETY: the lists hold the block's rows.
                                unsafe { add_near(&block, &list[..n], s, Bins { words, of }, ahead) };
                            }
                            assert!(near == [bins.clone(), counted, halves]);
                        }
                        sums
                    };
                    let all: Vec<u32> = (0..rows as u32).collect();
                    assert_eq!(run(RowSelection::Range(0, rows), Some(&stats)), naive(&all));
                    assert_eq!(run(RowSelection::List(&list, list.len()), Some(&listed)), naive(&list));
                    let half = list.len() / 2;
                    assert_eq!(run(RowSelection::List(&list, half), Some(&listed)), naive(&list[..half]));
                    if b == 0 {
                        assert_eq!(run(RowSelection::Range(0, rows), None), naive(&all));
                        assert_eq!(run(RowSelection::List(&list, list.len()), None), naive(&list));
                    }
                }
            }
        }
    }

    /// The largest statistics in the largest number of rows stay inside their halves.
    #[test]
    fn the_extremes_do_not_overflow() {
        let layout = Layout::new(1, true);
        for packed in [0x8001_ffffu32, 0x7fff_ffff, 0x7fff_0000, 0x8001_0000] {
            let mut block = CodeBlock::new(&layout.blocks[0], MAX_ROWS, None).unwrap();
            let stats = vec![packed; MAX_ROWS];
            let mut bins = vec![0u64; 4 * STRIDE];
            block.bytes.as_mut_slice().fill(0);
            // SAFETY: a range is checked.
            unsafe { add(&block, 0..4, RowSelection::Range(0, MAX_ROWS), Some(&stats), Bins { words: &mut bins, of: BinWords::Single }) };
            let expected = ((packed as i32 >> 16) as i64 * MAX_ROWS as i64, (packed & 0xffff) as i64 * MAX_ROWS as i64);
            assert_eq!(unpack(bins[0]), expected);
        }
    }
}
