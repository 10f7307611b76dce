//! Seeded permutations of rows: the rows in ascending order of 32 bits of a hash of (seed, purpose,
//! stream, row), equal hashes in order of the rows. A sort of keys that are functions of the row
//! alone comes out the same on any number of threads, and on a GPU.

use super::buckets::{Buckets, SortScratch, Word, bucket_bits};
use crate::numerics::random::Random;
use crate::pages;
use crate::parallel::interrupt;
use rayon::prelude::*;

/// Returns what a row is sorted by.
#[inline(always)]
pub(super) fn hash(random: Random, row: usize) -> u32 {
    (random.u64(row as u64) >> 32) as u32
}

/// Returns the rows `0..rows` in a random order, the one that `random` stands for.
///
/// # Panics
/// When there are more rows than 32 bits can number.
///
/// ```
/// use taiga_core::encoding::permutation::permutation;
/// use taiga_core::numerics::random::{Purpose, Random};
/// let random = Random::new(7, Purpose::Permutation, 0);
/// let mut order = permutation(100, random);
/// assert_eq!(order, permutation(100, random));
/// order.sort();
/// assert!(order.iter().copied().eq(0..100));
/// ```
pub fn permutation(rows: usize, random: Random) -> Vec<u32> {
    let dealt = HashBuckets::new(rows, random);
    let mut out = pages::zeroed(rows);
    let shared = u32::shared(&mut out);
    dealt.for_each(|rank, pair| u32::store(&shared[rank], dealt.pairs[pair] as u32));
    out
}

/// Returns the place of each row in [`permutation`]'s order.
///
/// ```
/// use taiga_core::encoding::permutation::{permutation, ranks};
/// use taiga_core::numerics::random::{Purpose, Random};
/// let random = Random::new(7, Purpose::Permutation, 0);
/// let (order, ranks) = (permutation(100, random), ranks(100, random));
/// assert!((0..100).all(|rank| ranks[order[rank] as usize] as usize == rank));
/// ```
pub fn ranks(rows: usize, random: Random) -> Vec<u32> {
    let dealt = HashBuckets::new(rows, random);
    let mut out = pages::zeroed(rows);
    let shared = u32::shared(&mut out);
    dealt.for_each(|rank, pair| u32::store(&shared[dealt.pairs[pair] as u32 as usize], rank as u32));
    out
}

/// Rows in buckets by the upper bits of their hashes.
struct HashBuckets {
    ends: Vec<usize>,
    bits: u32,
    /// Hash above row.
    pairs: Vec<u64>,
}

impl HashBuckets {
    fn new(rows: usize, random: Random) -> Self {
        assert!(rows < u32::MAX as usize, "{rows} rows");
        let bits = bucket_bits(rows);
        let buckets = Buckets::new(rows, 1 << bits, |row| (hash(random, row) as u64 >> (32 - bits)) as usize);
        let mut pairs = pages::zeroed(rows);
        let shared = u64::shared(&mut pairs);
        buckets.for_each(|row, place| u64::store(&shared[place], (hash(random, row) as u64) << 32 | row as u64));
        HashBuckets { ends: buckets.ends, bits, pairs }
    }

    /// Calls `visit(rank, place in the pairs)` for each row.
    fn for_each(&self, visit: impl Fn(usize, usize) + Sync) {
        (0..self.ends.len()).into_par_iter().for_each_init(SortScratch::default, |scratch, i| {
            interrupt::poll();
            let start = i.checked_sub(1).map_or(0, |before| self.ends[before]);
            let keys = self.pairs[start..self.ends[i]].iter().map(|pair| (pair >> 32) as u32);
            for (rank, pair) in scratch.order(keys, 32 - self.bits).iter().enumerate() {
                visit(start + rank, start + *pair as u32 as usize);
            }
        });
    }
}
