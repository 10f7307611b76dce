//! A stable radix sort of 32-bit keys with 32-bit values, on all threads.
//!
//! An element is one u64, the key above the value, so that it moves as one store; a pass deals the
//! elements to a bucket for each value of a digit, and keeps their order inside it.

use super::buckets::{Buckets, Word};
use crate::pages;

/// Bits of the largest digit: as many open runs as the processor keeps pages for.
const DIGIT: u32 = 10;

/// Returns the element of a key and a value.
#[inline(always)]
pub fn pair(key: u32, value: u32) -> u64 {
    (key as u64) << 32 | value as u64
}

/// Sorts pairs by their keys, all of which are below `limit`; equal keys keep their order.
///
/// ```
/// use taiga_core::encoding::sort::{pair, sort_pairs};
/// let sorted = sort_pairs(vec![pair(2, 0), pair(1, 1), pair(2, 2), pair(0, 3)], 3);
/// assert_eq!(sorted.iter().map(|p| *p as u32).collect::<Vec<_>>(), [3, 1, 0, 2]);
/// ```
pub fn sort_pairs(mut pairs: Vec<u64>, limit: u64) -> Vec<u64> {
    let bits = u64::BITS - limit.saturating_sub(1).leading_zeros();
    let passes = bits.div_ceil(DIGIT);
    let mut other = if passes > 0 { pages::zeroed(pairs.len()) } else { vec![] };
    let mut done = 0;
    for pass in 0..passes {
        let width = (bits - done).div_ceil(passes - pass);
        scatter(&pairs, &mut other, 32 + done, width);
        std::mem::swap(&mut pairs, &mut other);
        done += width;
    }
    pairs
}

/// Moves `from` to `to` in order of the `width` bits from bit `shift` on.
fn scatter(from: &[u64], to: &mut [u64], shift: u32, width: u32) {
    let digit = |i: usize| (from[i] >> shift) as usize & ((1 << width) - 1);
    let to = u64::shared(to);
    Buckets::new(from.len(), 1 << width, digit).for_each(|i, place| u64::store(&to[place], from[i]));
}
