//! A stable radix sort of 32-bit keys with 32-bit values, on all threads.
//!
//! An element is one u64, the key above the value, so that it moves as one store. A pass counts
//! the digits of each thread's share, lays the shares' runs of a digit one behind the other, and
//! scatters; shares keep their order inside a digit, so the pass is stable, and the result is the
//! same for any number of threads.

use super::distinct::shares;
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of the largest digit: as many open runs as the processor keeps pages for.
const DIGIT: u32 = 10;

/// The element of a key and a value.
#[inline(always)]
pub fn pair(key: u32, value: u32) -> u64 {
    (key as u64) << 32 | value as u64
}

/// A slice as atomics, for writes of several threads to places that only they know to be disjoint.
pub(super) fn shared(slice: &mut [u64]) -> &[AtomicU64] {
    // SAFETY: AtomicU64 has the size and the validity of u64, and its alignment here (checked at
    // compile time below); the exclusive borrow becomes the only way to the memory.
    unsafe { &*(std::ptr::from_mut(slice) as *const [AtomicU64]) }
}
const _: () = assert!(align_of::<AtomicU64>() == align_of::<u64>());

/// Sorts pairs by their keys, all of which are below `limit`; equal keys keep their order.
///
/// ```
/// use taiga_engine::encoding::sort::{pair, sort_pairs};
/// let sorted = sort_pairs(vec![pair(2, 0), pair(1, 1), pair(2, 2), pair(0, 3)], 3);
/// assert_eq!(sorted.iter().map(|p| *p as u32).collect::<Vec<_>>(), [3, 1, 0, 2]);
/// ```
pub fn sort_pairs(mut pairs: Vec<u64>, limit: u64) -> Vec<u64> {
    let bits = u64::BITS - limit.saturating_sub(1).leading_zeros();
    let passes = bits.div_ceil(DIGIT);
    let mut other = if passes > 0 { vec![0; pairs.len()] } else { vec![] };
    let mut done = 0;
    for pass in 0..passes {
        let width = (bits - done).div_ceil(passes - pass);
        scatter(&pairs, &mut other, 32 + done, width);
        std::mem::swap(&mut pairs, &mut other);
        done += width;
    }
    pairs
}

/// Moves `from` to `to` in order of the `width` bits from bit `shift` on; where each digit's run ends.
pub(super) fn scatter(from: &[u64], to: &mut [u64], shift: u32, width: u32) -> Vec<usize> {
    let digits = 1usize << width;
    let mask = digits - 1;
    let share = shares(from.len());
    let mut places: Vec<Vec<usize>> = from
        .par_chunks(share)
        .map(|part| {
            let mut counts = vec![0usize; digits];
            for x in part {
                counts[(x >> shift) as usize & mask] += 1;
            }
            counts
        })
        .collect();
    let mut next = 0;
    let mut ends = vec![0; digits];
    for (digit, end) in ends.iter_mut().enumerate() {
        for counts in &mut places {
            next += std::mem::replace(&mut counts[digit], next);
        }
        *end = next;
    }
    let to = shared(to);
    from.par_chunks(share).zip(places).for_each(|(part, mut place)| {
        for x in part {
            let at = &mut place[(x >> shift) as usize & mask];
            to[*at].store(*x, Ordering::Relaxed);
            *at += 1;
        }
    });
    ends
}
