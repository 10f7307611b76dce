//! Partitions a node's entries, lane by lane, in order.

use super::{LANES, MOST_ROWS, row};

/// A bit for each row: whether it goes right.
pub type Right = [u8; MOST_ROWS / 8];

/// Moves each lane's entries: those that go left to its start, the others behind them, from
/// position `left` on.
///
/// # Panics
/// When not `left` entries of each lane go left, or `to` is shorter than `from`.
pub fn partition_lanes(from: &[u64], right: &Right, left: usize, to: &mut [u64]) {
    assert!(from.len().is_multiple_of(LANES) && to.len() >= from.len());
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vbmi") {
        // SAFETY: the features were found.
        unsafe { x86::partition_lanes_avx512(from, right, left, to) };
        return;
    }
    partition_lanes_generic(from, right, left, to);
}

fn partition_lanes_generic(from: &[u64], right: &Right, left: usize, to: &mut [u64]) {
    for lane in 0..LANES {
        let (mut next_left, mut next_right) = (lane, left * LANES + lane);
        for entry in from[lane..].iter().step_by(LANES) {
            let row = row(*entry) % MOST_ROWS;
            let right = (right[row / 8] >> (row % 8) & 1) as usize;
            to[if right == 1 { next_right } else { next_left }] = *entry;
            next_left += (1 - right) * LANES;
            next_right += right * LANES;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use crate::trees::presorted::lists::partition::{LANES, Right};
    use std::arch::x86_64::*;

    /// Moves the entries of all lanes at once: the rows' bits come out of one register, each position is one scattered store.
    ///
    /// # Safety
    /// The processor has AVX-512 F and VBMI.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub unsafe fn partition_lanes_avx512(from: &[u64], right: &Right, left: usize, to: &mut [u64]) {
        let last = _mm512_set1_epi64(to.len() as i64 - 1);
        let lanes = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
        let (one, step) = (_mm512_set1_epi64(1), _mm512_set1_epi64(LANES as i64));
        let (bytes, bits) = (_mm512_set1_epi64(63), _mm512_set1_epi64(7));
        let mut next_left = lanes;
        let mut next_right = _mm512_add_epi64(lanes, _mm512_set1_epi64((left * LANES) as i64));
        // SAFETY: loads lie inside `right`'s 64 bytes and the whole vectors of `from`; no store
        // goes beyond `last`.
        unsafe {
            let table = _mm512_loadu_si512(right.as_ptr() as *const __m512i);
            for entries in from.chunks_exact(LANES) {
                let entries = _mm512_loadu_si512(entries.as_ptr() as *const __m512i);
                // Bits 24-19 of an entry number the row's byte, bits 18-16 its bit.
                let byte = _mm512_permutexvar_epi8(_mm512_and_si512(_mm512_srli_epi64::<19>(entries), bytes), table);
                let bit = _mm512_and_si512(_mm512_srli_epi64::<16>(entries), bits);
                let right = _mm512_test_epi64_mask(_mm512_srlv_epi64(byte, bit), one);
                let at = _mm512_mask_blend_epi64(right, next_left, next_right);
                _mm512_i64scatter_epi64::<8>(to.as_mut_ptr() as *mut i64, _mm512_min_epu64(at, last), entries);
                next_left = _mm512_mask_add_epi64(next_left, !right, next_left, step);
                next_right = _mm512_mask_add_epi64(next_right, right, next_right, step);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taiga_core::numerics::random::{Purpose, Random};

    /// Both ways, on nodes of one row to all rows, give what filtering each lane twice does.
    #[test]
    fn lanes_part_as_by_filtering() {
        let random = Random::new(1, Purpose::RowSample, 0);
        let most = if cfg!(miri) { 9 } else { MOST_ROWS };
        for rows in [1, 2, 7, 8, 9, 100, MOST_ROWS].into_iter().filter(|rows| *rows <= most) {
            for share in [0.0, 0.1, 0.5, 1.0] {
                let goes_right: Vec<bool> = (0..rows as u64).map(|r| random.unit(r) < share).collect();
                let mut right: Right = [0; MOST_ROWS / 8];
                for (row, _) in goes_right.iter().enumerate().filter(|(_, right)| **right) {
                    right[row / 8] |= 1 << (row % 8);
                }
                let lane = |lane: usize| random.choose(rows, rows).into_iter().map(move |r| (r + lane * 5) % rows);
                let mut from = vec![0; rows * LANES];
                let mut expected = from.clone();
                for k in 0..LANES {
                    let entries: Vec<u64> = lane(k).map(|r| (random.u64(r as u64) & !0x1ff_0000) | (r as u64) << 16).collect();
                    entries.iter().enumerate().for_each(|(p, e)| from[p * LANES + k] = *e);
                    let (r, l): (Vec<u64>, Vec<u64>) = entries.iter().partition(|e| goes_right[row(**e) % MOST_ROWS]);
                    l.into_iter().chain(r).enumerate().for_each(|(p, e)| expected[p * LANES + k] = e);
                }
                let left = goes_right.iter().filter(|right| !**right).count();
                let (mut one, mut other) = (vec![0; from.len()], vec![0; from.len()]);
                partition_lanes(&from, &right, left, &mut one);
                partition_lanes_generic(&from, &right, left, &mut other);
                assert!(one == expected && other == expected, "{rows} rows, {share}");
            }
        }
    }
}
