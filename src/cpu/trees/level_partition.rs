//! Partitions the rows of a level's nodes in order of the rows: each row's node decides which code is tested, which child the row
//! goes to, and which histogram it is added to.

use super::partition::CodeTest;

/// The most nodes that are partitioned at a time: as many as two vector registers hold.
pub const MOST: usize = 32;

/// The slot of a child without a histogram.
pub const NONE: u8 = u8::MAX;

/// The test of the rows in one node, and the left and the right child with their histograms.
#[derive(Clone, Copy)]
pub struct SplitTest {
    /// The code of row `r` is `codes[r * stride]`.
    pub codes: *const u8,
    pub stride: usize,
    pub test: CodeTest,
    pub child: [u16; 2],
    /// [`NONE`], or the number of a histogram.
    pub slot: [u8; 2],
}

/// The tests of nodes `first ..`, [`MOST`] of them; a node without one keeps its rows.
pub struct LevelPartition {
    first: u16,
    tests: [SplitTest; MOST],
    /// Whether all test the same code.
    same: bool,
}

/// The rows that go to a histogram, and to which; the first of them count.
pub struct Assigned<'a> {
    pub rows: &'a mut [u32],
    pub slots: &'a mut [u32],
}

impl LevelPartition {
    /// Makes the partition of nodes by their tests, of which there is at least one.
    ///
    /// # Panics
    /// When the nodes are further apart than [`MOST`], or a feature has fewer codes than `rows`
    /// (`lengths`: the bytes behind each `codes`).
    pub fn new(tests: &[(u16, SplitTest)], rows: usize, lengths: &[usize]) -> LevelPartition {
        let first = tests.iter().map(|q| q.0).min().unwrap_or(0);
        let any = tests[0].1;
        for ((_, q), len) in tests.iter().zip(lengths) {
            assert!(rows == 0 || (rows - 1) * q.stride < *len);
        }
        assert!(tests.len() == lengths.len());
        let keep = |i: usize| SplitTest { test: CodeTest::new(255, true), child: [first + i as u16; 2], slot: [NONE; 2], ..any };
        let mut all: [SplitTest; MOST] = std::array::from_fn(keep);
        for (node, q) in tests {
            all[(node - first) as usize] = *q;
        }
        LevelPartition { first, tests: all, same: tests.iter().all(|(_, q)| q.codes == any.codes) }
    }

    /// Sends rows `start .. start + nodes.len()` to the children of their nodes, which take the nodes' places in `nodes`.
    /// Returns how many rows go to histograms; these are written to `assigned`, in order.
    ///
    /// # Safety
    /// Those are rows of the features, and the pointers still stand.
    ///
    /// # Panics
    /// When `assigned` has less room than 16 more than there are rows.
    pub unsafe fn partition(&self, start: usize, nodes: &mut [u16], assigned: &mut Assigned<'_>) -> usize {
        assert!(assigned.rows.len() >= nodes.len() + 16 && assigned.slots.len() >= nodes.len() + 16);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
            // SAFETY: the features were found, and the caller's promise.
            return unsafe {
                if self.same {
                    x86::partition::<true>(self, start, nodes, assigned)
                } else {
                    x86::partition::<false>(self, start, nodes, assigned)
                }
            };
        }
        // SAFETY: the caller's promise.
        unsafe { self.partition_one_by_one(start, nodes, assigned, 0) }
    }

    /// Partitions row by row; `n` rows have been assigned before.
    ///
    /// # Safety
    /// As [`LevelPartition::partition`].
    #[inline(always)]
    unsafe fn partition_one_by_one(&self, start: usize, nodes: &mut [u16], assigned: &mut Assigned<'_>, mut n: usize) -> usize {
        for (row, node) in (start..).zip(nodes) {
            let Some(q) = self.tests.get(node.wrapping_sub(self.first) as usize) else { continue };
            // SAFETY: the row is one of the feature's (the caller's promise).
            let right = q.test.right(unsafe { *q.codes.add(row * q.stride) }) as usize;
            *node = q.child[right];
            (assigned.rows[n], assigned.slots[n]) = (row as u32, q.slot[right] as u32);
            n += (q.slot[right] != NONE) as usize;
        }
        n
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use crate::trees::histogram::prefetch_near;
    use crate::trees::level_partition::{Assigned, LevelPartition, MOST, NONE, SplitTest};
    use std::arch::x86_64::*;

    /// How many bytes ahead codes are prefetched.
    const AHEAD: usize = 4096;

    /// A number for each node, in two registers.
    #[derive(Clone, Copy)]
    struct NodeRegisters(__m512i, __m512i);

    impl NodeRegisters {
        #[target_feature(enable = "avx512f")]
        fn new(level: &LevelPartition, number: impl Fn(&SplitTest) -> u32) -> NodeRegisters {
            let numbers: [u32; MOST] = std::array::from_fn(|i| number(&level.tests[i]));
            // SAFETY: two registers' worth of numbers.
            unsafe { NodeRegisters(_mm512_loadu_si512(numbers.as_ptr().cast()), _mm512_loadu_si512(numbers.as_ptr().add(16).cast())) }
        }

        #[inline]
        #[target_feature(enable = "avx512f")]
        fn of(self, nodes: __m512i) -> __m512i {
            _mm512_permutex2var_epi32(self.0, nodes, self.1)
        }
    }

    /// Partitions sixteen rows at a time. `SAME`: all nodes test the same code.
    ///
    /// # Safety
    /// As [`LevelPartition::partition`]; the processor has AVX-512 F, BW and VL.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt")]
    pub unsafe fn partition<const SAME: bool>(
        level: &LevelPartition,
        start: usize,
        nodes: &mut [u16],
        assigned: &mut Assigned<'_>,
    ) -> usize {
        let pair = |p: [u8; 2]| p[0] as u32 | (p[1] as u32) << 16;
        let tested = NodeRegisters::new(level, |q| u32::from_le_bytes(q.test.parts()));
        let children = NodeRegisters::new(level, |q| q.child[0] as u32 | (q.child[1] as u32) << 16);
        let slots = NodeRegisters::new(level, |q| pair(q.slot));
        let first = _mm512_set1_epi32(level.first as i32);
        let lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
        let (byte, half) = (_mm512_set1_epi32(0xff), _mm512_set1_epi32(0xffff));
        let any = level.tests[0];
        let mut codes = [0u8; 16];
        let mut numbers = [0u32; 16];
        let (mut n, mut i) = (0, 0);
        // SAFETY: row numbers and nodes by the caller's promise; `assigned` has room for sixteen
        // more than all rows (checked by `LevelPartition::partition`); node numbers are taken below MOST.
        unsafe {
            while i + 16 <= nodes.len() {
                let own = _mm512_cvtepu16_epi32(_mm256_loadu_si256(nodes.as_ptr().add(i).cast()));
                let number = _mm512_sub_epi32(own, first);
                let inside = _mm512_cmplt_epu32_mask(number, _mm512_set1_epi32(MOST as i32));
                let row = start + i;
                if SAME {
                    let at = any.codes.add(row * any.stride);
                    for (k, code) in codes.iter_mut().enumerate() {
                        *code = *at.add(k * any.stride);
                    }
                    for line in (0..16 * any.stride).step_by(64) {
                        prefetch_near(at.wrapping_add(AHEAD + line));
                    }
                } else {
                    _mm512_storeu_si512(numbers.as_mut_ptr().cast(), _mm512_and_si512(number, _mm512_set1_epi32(MOST as i32 - 1)));
                    for (k, code) in codes.iter_mut().enumerate() {
                        let q = level.tests.get_unchecked(numbers[k] as usize);
                        let at = q.codes.add((row + k) * q.stride);
                        *code = *at;
                        if k.is_multiple_of(2) {
                            prefetch_near(at.wrapping_add(AHEAD));
                        }
                    }
                }
                let code = _mm512_cvtepu8_epi32(_mm_loadu_si128(codes.as_ptr().cast()));
                let test = tested.of(number);
                let distance = _mm512_and_si512(_mm512_sub_epi32(code, test), byte);
                let span = _mm512_and_si512(_mm512_srli_epi32::<8>(test), byte);
                let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(test), byte);
                let flip = _mm512_test_epi32_mask(test, _mm512_set1_epi32(1 << 24));
                let right = (_mm512_cmple_epu32_mask(distance, span) | _mm512_cmpeq_epi32_mask(code, odd)) ^ flip;
                let side = |both: __m512i| _mm512_and_si512(_mm512_mask_srli_epi32::<16>(both, right, both), half);
                let child = _mm512_mask_mov_epi32(own, inside, side(children.of(number)));
                _mm256_storeu_si256(nodes.as_mut_ptr().add(i).cast(), _mm512_cvtepi32_epi16(child));
                let slot = side(slots.of(number));
                let summed = inside & _mm512_cmpneq_epi32_mask(slot, _mm512_set1_epi32(NONE as i32));
                let rows = _mm512_add_epi32(_mm512_set1_epi32(row as i32), lanes);
                _mm512_storeu_si512(assigned.rows.as_mut_ptr().add(n).cast(), _mm512_maskz_compress_epi32(summed, rows));
                _mm512_storeu_si512(assigned.slots.as_mut_ptr().add(n).cast(), _mm512_maskz_compress_epi32(summed, slot));
                n += summed.count_ones() as usize;
                i += 16;
            }
            level.partition_one_by_one(start + i, &mut nodes[i..], assigned, n)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taiga_core::numerics::random::{Purpose, Random};

    /// As each row by itself, for one feature and for several, nodes with tests and without.
    #[test]
    fn rows_go_where_their_nodes_tests_send_them() {
        let random = Random::new(1, Purpose::RowSample, 0);
        let (rows, stride) = (if cfg!(miri) { 400usize } else { 1_000 }, 32);
        let codes: Vec<u8> = (0..rows * stride).map(|i| random.u64(i as u64) as u8).collect();
        for features in [1, 5] {
            for asked in [1usize, 3, 31] {
                let test_of = |k: usize| {
                    let at = 3 + k % features;
                    let test = [
                        CodeTest::new(100 + k, k.is_multiple_of(2)),
                        CodeTest::of(|c| (40..90).contains(&c) || c == 17),
                        CodeTest::of(|c| c != 3),
                    ];
                    SplitTest {
                        codes: codes[at..].as_ptr(),
                        stride,
                        test: test[k % 3],
                        child: [100 + 2 * k as u16, 101 + 2 * k as u16],
                        slot: [[k as u8, NONE], [NONE, k as u8], [NONE, NONE]][k % 3],
                    }
                };
                // Every other node; nodes before, between and behind them keep their rows.
                let all: Vec<(u16, SplitTest)> = (0..asked.min(16)).map(|k| (10 + 2 * k as u16, test_of(k))).collect();
                let lengths: Vec<usize> = (0..all.len()).map(|k| codes.len() - 3 - k % features).collect();
                let level = LevelPartition::new(&all, rows, &lengths);
                let before: Vec<u16> = (0..rows).map(|i| (random.u64((i + (1 << 20)) as u64) % 60) as u16).collect();
                for (start, len) in [(0, rows), (5, 16), (7, 1), (16, 0), (40, 333)] {
                    let mut nodes = before[start..start + len].to_vec();
                    let (mut to_rows, mut to_slots) = (vec![0; len + 16], vec![0; len + 16]);
                    let mut assigned = Assigned { rows: &mut to_rows, slots: &mut to_slots };
                    // SAFETY: the rows have codes.
                    let n = unsafe { level.partition(start, &mut nodes, &mut assigned) };
                    let mut expected = vec![];
                    for (i, node) in nodes.iter().enumerate() {
                        let row = start + i;
                        let Some((_, q)) = all.iter().find(|q| q.0 == before[row]) else {
                            assert_eq!(*node, before[row]);
                            continue;
                        };
                        let at = q.codes as usize - codes.as_ptr() as usize;
                        let right = q.test.right(codes[row * stride + at]) as usize;
                        assert_eq!(*node, q.child[right]);
                        if q.slot[right] != NONE {
                            expected.push((row as u32, q.slot[right] as u32));
                        }
                    }
                    let got: Vec<(u32, u32)> = to_rows.iter().copied().zip(to_slots.iter().copied()).take(n).collect();
                    assert_eq!(got, expected);
                }
            }
        }
    }
}
