//! Seeded permutations of rows: the rows in ascending order of a hash of (seed, purpose, stream,
//! row), equal hashes in order of the rows. A sort of keys that are functions of the row alone
//! comes out the same on any number of threads, and on a GPU.

use super::distinct::shares;
use super::sort::scatter;
use crate::numerics::random::Random;
use rayon::prelude::*;

/// Elements of a bucket that is sorted in one go, about.
const BUCKET: usize = 1 << 13;

/// The rows `0..rows` in a random order, the one that `random` stands for.
///
/// # Panics
/// When there are more rows than 32 bits can number.
///
/// ```
/// use taiga_engine::encoding::permutation::permutation;
/// use taiga_engine::numerics::random::{Purpose, Random};
/// let random = Random::new(7, Purpose::Permutation, 0);
/// let mut order = permutation(100, random);
/// assert_eq!(order, permutation(100, random));
/// order.sort();
/// assert!(order.iter().copied().eq(0..100));
/// ```
pub fn permutation(rows: usize, random: Random) -> Vec<u32> {
    assert!(rows < u32::MAX as usize, "{rows} rows");
    let share = shares(rows);
    let mut keys = vec![0u64; rows];
    keys.par_chunks_mut(share).enumerate().for_each(|(i, part)| {
        for (row, key) in (i * share..).zip(part) {
            *key = random.u64(row as u64) & !0xFFFF_FFFF | row as u64;
        }
    });
    if rows <= BUCKET {
        keys.sort_unstable();
        return keys.into_iter().map(|k| k as u32).collect();
    }
    // Hashes are uniform: digits from the top cut them into buckets of about the same size, and
    // an element's whole value, hash above row, orders a bucket.
    let width = (rows / BUCKET).ilog2().min(10) + 1;
    let mut sorted = vec![0u64; rows];
    let ends = scatter(&keys, &mut sorted, u64::BITS - width, width);
    drop(keys);
    let mut out = vec![0u32; rows];
    let (mut from, mut to, mut done) = (&mut sorted[..], &mut out[..], 0);
    let mut buckets = vec![];
    for end in ends {
        let (a, b) = (from.split_at_mut(end - done), to.split_at_mut(end - done));
        buckets.push((a.0, b.0));
        (from, to, done) = (a.1, b.1, end);
    }
    buckets.into_par_iter().for_each(|(bucket, out)| {
        bucket.sort_unstable();
        for (o, k) in out.iter_mut().zip(bucket) {
            *o = *k as u32;
        }
    });
    out
}
