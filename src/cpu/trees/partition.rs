//! Partitions row numbers by one feature's codes.

use taiga_core::memory::prefetch_near;

/// A test of codes. Right go those from `start` on, `span` more of them (counted around), and `odd`; or,
/// where `flip`, all others. Thresholds with missing values (code 0) on either side are of this
/// form, and so are the codes that a feature's threshold comes to in a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeTest {
    start: u8,
    span: u8,
    odd: u8,
    flip: bool,
}

impl CodeTest {
    /// Makes the test by which values up to code `last_left` go left, missing ones (code 0) where `missing_left` says.
    pub fn new(last_left: usize, missing_left: bool) -> CodeTest {
        match (last_left, missing_left) {
            (0..255, _) => {
                let start = last_left as u8 + 1;
                CodeTest { start, span: 255 - start, odd: if missing_left { start } else { 0 }, flip: false }
            }
            (_, true) => CodeTest { start: 0, span: 255, odd: 0, flip: true },
            (_, false) => CodeTest { start: 0, span: 0, odd: 0, flip: false },
        }
    }

    /// Returns the codes for which `right` holds.
    ///
    /// # Panics
    /// When neither those nor the others are a range and at most one code below it.
    pub fn of(right: impl Fn(u8) -> bool) -> CodeTest {
        let of = |flip: bool| {
            let inside = |code: &u8| right(*code) != flip;
            let last = (0..=255).rev().find(inside)?;
            let start = (0..last).rev().take_while(inside).last().unwrap_or(last);
            let mut below = (0..start).filter(inside);
            let odd = below.next().unwrap_or(start);
            below.next().is_none().then_some(CodeTest { start, span: last - start, odd, flip })
        };
        of(false).or_else(|| of(true)).unwrap_or_else(|| unreachable!("no test for these codes"))
    }

    /// Returns the first code, how many more, the odd one, and whether (1) all others go right instead.
    pub fn parts(self) -> [u8; 4] {
        [self.start, self.span, self.odd, self.flip as u8]
    }

    /// Returns whether a row with this code goes right.
    #[inline(always)]
    pub fn right(self, code: u8) -> bool {
        ((code.wrapping_sub(self.start) <= self.span) | (code == self.odd)) != self.flip
    }
}

/// How many rows ahead codes are prefetched.
const AHEAD: usize = 64;

/// The source of the rows of a division.
#[derive(Clone, Copy)]
pub enum Source {
    /// The row numbers in the list handed over.
    List,
    /// Rows `0 .. len` themselves.
    All,
}

/// The codes of one feature: that of row `r` is `bytes[r * stride]`.
#[derive(Clone, Copy)]
pub struct FeatureCodes<'a> {
    pub bytes: &'a [u8],
    pub stride: usize,
}

impl FeatureCodes<'_> {
    /// Returns the number of rows.
    fn rows(&self) -> usize {
        self.bytes.len().div_ceil(self.stride)
    }
}

/// Splits rows by a feature's codes: those that go left are written to `left` from its start, the
/// others to the start of `list`, where rows already read make room. Both stay in order. Reads
/// `list[from .. to]`; `done` counts what was written before and is moved on.
///
/// # Safety
/// The numbers in `list[from .. to]` are smaller than the codes' rows (under [`Source::List`]).
///
/// # Panics
/// When a slice is too short.
#[allow(clippy::too_many_arguments)]
pub unsafe fn partition_rows(
    codes: FeatureCodes<'_>,
    test: CodeTest,
    source: Source,
    list: &mut [u32],
    from: usize,
    to: usize,
    left: &mut [u32],
    done: &mut Done,
) {
    assert!(from <= to && to <= list.len() && list.len() <= left.len());
    assert!(done.left + done.right == from);
    debug_assert!(list[from..to].iter().all(|r| matches!(source, Source::All) || (*r as usize) < codes.rows()));
    let job = PartitionCall {
        codes: codes.bytes.as_ptr(),
        stride: codes.stride,
        test,
        list: list.as_mut_ptr(),
        len: list.len(),
        from,
        to,
        left: left.as_mut_ptr(),
    };
    // SAFETY: row numbers are smaller than the codes' rows (the caller's promise, or the assertion
    // here), so that every code read lies inside the slice; `done.left <= from` and `done.right <=
    // from` at every step, so that writes stay inside `left` and, in `list`, behind what was read.
    *done = unsafe {
        match source {
            Source::List => partition_with::<false>(job, *done),
            Source::All => {
                assert!(to <= codes.rows());
                partition_with::<true>(job, *done)
            }
        }
    };
}

/// The numbers of rows that have gone each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    pub left: usize,
    pub right: usize,
}

#[derive(Clone, Copy)]
struct PartitionCall {
    codes: *const u8,
    stride: usize,
    test: CodeTest,
    list: *mut u32,
    len: usize,
    from: usize,
    to: usize,
    left: *mut u32,
}

/// # Safety
/// See [`partition_rows`].
unsafe fn partition_with<const ALL: bool>(job: PartitionCall, done: Done) -> Done {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
        // SAFETY: the features were found.
        return unsafe { x86::partition_avx512::<ALL>(job, done) };
    }
    // SAFETY: the caller's promise.
    unsafe { partition_generic::<ALL>(job, done) }
}

/// # Safety
/// See [`partition_rows`].
#[inline(always)]
unsafe fn partition_generic<const ALL: bool>(job: PartitionCall, mut done: Done) -> Done {
    // SAFETY: by the caller's promise; both writes land at or before position `i`, which has been read.
    unsafe {
        for i in job.from..job.to {
            let row = if ALL { i as u32 } else { *job.list.add(i) };
            if !ALL && i + AHEAD < job.len {
                prefetch_near(job.codes.wrapping_add(*job.list.add(i + AHEAD) as usize * job.stride));
            }
            let right = job.test.right(*job.codes.add(row as usize * job.stride)) as usize;
            *job.left.add(done.left) = row;
            *job.list.add(done.right) = row;
            done.left += 1 - right;
            done.right += right;
        }
    }
    done
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use crate::trees::partition::{AHEAD, Done, PartitionCall, partition_generic, prefetch_near};
    use std::arch::x86_64::*;

    /// Partitions sixteen rows at a time: codes as single bytes, one vector compare, the row numbers
    /// compressed in registers.
    ///
    /// # Safety
    /// See [`super::partition_rows`]; the processor has AVX-512 F, BW and VL.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt")]
    pub unsafe fn partition_avx512<const ALL: bool>(mut job: PartitionCall, mut done: Done) -> Done {
        let (start, span) = (_mm_set1_epi8(job.test.start as i8), _mm_set1_epi8(job.test.span as i8));
        let odd = _mm_set1_epi8(job.test.odd as i8);
        let flip: u16 = if job.test.flip { u16::MAX } else { 0 };
        let lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
        let mut codes = [0u8; 16];
        // SAFETY: as in `partition_generic`. A store of sixteen numbers at `done.left` or
        // `done.right`, of which the first few count, ends at or before `i + 16 <= to`: inside
        // both slices, and in `list` only over numbers that have been read.
        unsafe {
            let mut i = job.from;
            while i + 16 <= job.to {
                let (rows, code) = if ALL {
                    let rows = _mm512_add_epi32(_mm512_set1_epi32(i as i32), lanes);
                    if job.stride == 1 {
                        (rows, _mm_loadu_si128(job.codes.add(i) as *const __m128i))
                    } else {
                        for (k, code) in codes.iter_mut().enumerate() {
                            *code = *job.codes.add((i + k) * job.stride);
                        }
                        (rows, _mm_loadu_si128(codes.as_ptr() as *const __m128i))
                    }
                } else {
                    if job.stride > 1 && i + 16 + AHEAD <= job.len {
                        for k in 0..16 {
                            prefetch_near(job.codes.wrapping_add(*job.list.add(i + AHEAD + k) as usize * job.stride));
                        }
                    }
                    for (k, code) in codes.iter_mut().enumerate() {
                        *code = *job.codes.add(*job.list.add(i + k) as usize * job.stride);
                    }
                    let rows = _mm512_loadu_si512(job.list.add(i) as *const __m512i);
                    (rows, _mm_loadu_si128(codes.as_ptr() as *const __m128i))
                };
                let right = (_mm_cmple_epu8_mask(_mm_sub_epi8(code, start), span) | _mm_cmpeq_epi8_mask(code, odd)) ^ flip;
                _mm512_storeu_si512(job.left.add(done.left) as *mut __m512i, _mm512_maskz_compress_epi32(!right, rows));
                _mm512_storeu_si512(job.list.add(done.right) as *mut __m512i, _mm512_maskz_compress_epi32(right, rows));
                let count = right.count_ones() as usize;
                done.right += count;
                done.left += 16 - count;
                i += 16;
            }
            job.from = i;
            partition_generic::<ALL>(job, done)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trees::codes::{CodeBlock, Layout};
    use taiga_core::numerics::random::{Purpose, Random};

    #[test]
    fn a_test_sends_values_and_missing_ones_to_their_sides() {
        for last_left in 0..=255usize {
            for code in 1..=255u8 {
                for missing_left in [false, true] {
                    if missing_left || last_left > 0 {
                        assert_eq!(CodeTest::new(last_left, missing_left).right(code), code as usize > last_left);
                    }
                }
            }
            assert!(!CodeTest::new(last_left, true).right(0));
            if last_left > 0 && last_left < 256 {
                assert!(CodeTest::new(last_left, false).right(0));
            }
        }
    }

    /// Every threshold on a feature's codes is a test of any order-keeping share of a column's codes.
    #[test]
    fn thresholds_are_tests_inside_a_bundle() {
        for test in (0..20).flat_map(|last| [CodeTest::new(last, true), CodeTest::new(last, last == 0)]).chain([CodeTest::new(255, true)]) {
            let again = CodeTest::of(|code| test.right(code));
            assert!((0..=255).all(|code| again.right(code) == test.right(code)));
            for default in 0..=20u8 {
                for low in 0..2u8 {
                    let codes: Vec<u8> = (low..=20).filter(|c| *c != default).collect();
                    let start = 7;
                    let of_code = |code: u8| codes.get((code as usize).wrapping_sub(start)).copied().unwrap_or(default);
                    let bundled = CodeTest::of(|code| test.right(of_code(code)));
                    assert!((0..=255).all(|code| bundled.right(code) == test.right(of_code(code))));
                }
            }
        }
    }

    /// In one go or in pieces, from a list or from all rows: the same as filtering twice.
    #[test]
    fn rows_part_as_by_filtering() {
        let random = Random::new(1, Purpose::RowSample, 0);
        let lengths: &[usize] = if cfg!(miri) { &[0, 1, 17] } else { &[0, 1, 15, 16, 17, 100, 5000] };
        for rows in lengths.iter().copied() {
            for features in [3, 20, 40] {
                let layout = Layout::new(features, true);
                let (b, at) = layout.place(features - 1);
                let mut block = CodeBlock::new(&layout.blocks[b], rows, None).unwrap();
                for (i, x) in block.bytes.as_mut_slice().iter_mut().enumerate() {
                    *x = random.u64(i as u64) as u8;
                }
                let codes = block.feature(at);
                let thresholds = [(100, true), (100, false), (255, false), (1, false), (0, true), (255, true)];
                let tests = thresholds.into_iter().map(|(last_left, missing_left)| CodeTest::new(last_left, missing_left));
                for test in
                    tests.chain([CodeTest::of(|c| (40..90).contains(&c) || c == 17), CodeTest::of(|c| c != 3 && !(9..200).contains(&c))])
                {
                    for source in [Source::List, Source::All] {
                        let step = if matches!(source, Source::All) { 1 } else { 2 };
                        let original: Vec<u32> = (0..rows as u32).step_by(step).collect();
                        let (r, l): (Vec<u32>, Vec<u32>) = original.iter().partition(|r| test.right(block.code(**r as usize, at)));
                        for piece in [7, 256, 10_000] {
                            let mut list = original.clone();
                            let mut left = vec![0; list.len()];
                            let mut done = Done::default();
                            for from in (0..original.len()).step_by(piece) {
                                let to = original.len().min(from + piece);
                                // SAFETY: the list holds the block's rows.
                                unsafe { partition_rows(codes, test, source, &mut list, from, to, &mut left, &mut done) };
                            }
                            assert_eq!((done.left, done.right), (l.len(), r.len()));
                            assert_eq!((&left[..done.left], &list[..done.right]), (&l[..], &r[..]));
                        }
                    }
                }
            }
        }
    }
}
