//! Seeded permutations of rows: the rows in ascending order of 32 bits of a hash of (seed, purpose,
//! stream, row), equal hashes in order of the rows. A sort of keys that are functions of the row
//! alone comes out the same on any number of threads, and on a GPU.

use super::buckets::{Buckets, SortScratch, Word, bucket_bits};
use crate::column::distinct::over_shares;
use crate::error::Result;
use crate::numerics::random::Random;
use crate::pages;
use crate::parallel::interrupt::{self, pieces};
use rayon::prelude::*;
use std::ops::Range;

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

/// Rows dealt to folds of equal size, or nearly, by [`permutation`]'s order: the first fold has the first rows of that order, and so on.
///
/// The order is not made: the row that a fold begins with is found by counting hashes, and a row's fold by comparing its hash with
/// those of these rows.
///
/// ```
/// use taiga_core::encoding::permutation::{RandomFolds, permutation};
/// use taiga_core::numerics::random::{Purpose, Random};
/// let random = Random::new(7, Purpose::Folds, 0);
/// let (order, folds) = (permutation(100, random), RandomFolds::new(100, random, 4).of_rows().unwrap());
/// assert!((0..100).all(|place| folds[order[place] as usize] as usize == place / 25));
/// ```
#[derive(Clone, Debug)]
pub struct RandomFolds {
    rows: usize,
    random: Random,
    /// Of each fold but the first the hash of the row that it begins with, above its number; they ascend.
    pub begins: Vec<u64>,
    /// Of each bucket of hashes how many folds begin in those before it; and behind the last one all.
    pub before: Vec<u32>,
    /// Hashes are dealt to 2^bits buckets by their upper bits.
    pub bits: u32,
}

/// Hashes are spread evenly, so the row that a fold begins with is this many standard deviations from where it is expected at most; if it
/// is farther after all, a second pass finds it.
const SIGMAS: f64 = 8.0;
/// Hashes of a bucket, about.
const FOLD_BUCKET: usize = 1 << 4;
/// The most buckets that hashes are counted by, as their exponent.
const MOST_FOLD_BITS: u32 = 14;

impl RandomFolds {
    /// Finds where `folds` folds of `rows` rows begin, on all threads of the pool that it is called in.
    ///
    /// # Panics
    /// When there are more rows than 32 bits can number, or more folds than rows.
    pub fn new(rows: usize, random: Random, folds: usize) -> Self {
        RandomFolds::found(rows, random, folds, SIGMAS)
    }

    /// [`RandomFolds::new`], which looks for the beginnings of folds as many standard deviations around where they are expected.
    fn found(rows: usize, random: Random, folds: usize, sigmas: f64) -> Self {
        assert!(rows < u32::MAX as usize && folds <= rows.max(1), "{folds} folds of {rows} rows");
        let bits = (rows / FOLD_BUCKET).max(1).ilog2().min(MOST_FOLD_BITS);
        let buckets = 1usize << bits;
        let bucket = |hash: u32| (hash as u64 >> (32 - bits)) as usize;
        // The places in the order that folds begin at, and the buckets that these lie in, as far as one can tell beforehand.
        let places: Vec<usize> = (1..folds).map(|fold| (fold * rows).div_ceil(folds)).collect();
        let mut wanted = vec![false; buckets];
        for place in &places {
            let share = *place as f64 / rows as f64;
            let (middle, around) = (share * buckets as f64, sigmas * (share * (1.0 - share) / rows as f64).sqrt() * buckets as f64);
            let last = ((middle + around) as usize).min(buckets - 1);
            wanted[((middle - around).max(0.0) as usize).min(last)..=last].fill(true);
        }
        let (counts, mut pairs): (Vec<_>, Vec<_>) =
            over_shares(rows, |share| count_and_collect(share, random, bucket, &wanted)).into_iter().unzip();
        let mut ends = vec![0; buckets];
        counts.iter().for_each(|share| ends.iter_mut().zip(share).for_each(|(all, count)| *all += count));
        let mut next = 0;
        ends.iter_mut().for_each(|end| {
            next += *end;
            *end = next;
        });
        let bucket_of: Vec<usize> = places.iter().map(|place| ends.partition_point(|end| *end as usize <= *place)).collect();
        if bucket_of.iter().any(|bucket| !wanted[*bucket]) {
            wanted.fill(false);
            bucket_of.iter().for_each(|bucket| wanted[*bucket] = true);
            pairs = over_shares(rows, |share| count_and_collect(share, random, bucket, &wanted).1);
        }
        let mut before = vec![0; buckets + 1];
        bucket_of.iter().for_each(|bucket| before[bucket + 1] += 1);
        for i in 1..before.len() {
            before[i] += before[i - 1];
        }
        // All rows of the wanted buckets in their order.
        let mut pairs = pairs.concat();
        pairs.par_sort_unstable();
        // How many rows in front of a bucket are not among them.
        let start = |bucket: usize| bucket.checked_sub(1).map_or(0, |i| ends[i]);
        let mut left_out = vec![0; buckets];
        let mut so_far = 0;
        for (i, left_out) in left_out.iter_mut().enumerate() {
            *left_out = so_far;
            so_far += if wanted[i] { 0 } else { ends[i] - start(i) };
        }
        let begins = places.iter().zip(&bucket_of).map(|(place, bucket)| pairs[place - left_out[*bucket] as usize]).collect();
        RandomFolds { rows, random, begins, before, bits }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the random numbers that the order is of.
    pub fn random(&self) -> Random {
        self.random
    }

    /// Returns the number of folds.
    pub fn count(&self) -> usize {
        self.begins.len() + 1
    }

    /// Returns the fold of a row.
    #[inline(always)]
    fn of(&self, row: usize) -> u32 {
        let hash = hash(self.random, row) as u64;
        let bucket = (hash >> (32 - self.bits)) as usize;
        let (first, end) = (self.before[bucket], self.before[bucket + 1]);
        if first == end {
            return first;
        }
        let pair = hash << 32 | row as u64;
        first + self.begins[first as usize..end as usize].partition_point(|begin| *begin <= pair) as u32
    }

    /// Returns the fold of each row.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    pub fn of_rows(&self) -> Result<Vec<u32>> {
        pages::filled_by("the folds of rows", self.rows, FOLD_ROWS, |start, folds| {
            folds.iter_mut().zip(start..).for_each(|(fold, row)| *fold = self.of(row));
        })
    }
}

/// Rows that get their folds between two looks whether the work is still wanted.
const FOLD_ROWS: usize = 1 << 16;

/// Counts the hashes of rows by buckets, and collects those of wanted buckets, each above its row.
fn count_and_collect(share: Range<usize>, random: Random, bucket: impl Fn(u32) -> usize, wanted: &[bool]) -> (Vec<u32>, Vec<u64>) {
    let (mut counts, mut pairs) = (vec![0u32; wanted.len()], vec![]);
    for rows in pieces(share) {
        for row in rows {
            let hash = hash(random, row);
            let bucket = bucket(hash);
            counts[bucket] += 1;
            if wanted[bucket] {
                pairs.push((hash as u64) << 32 | row as u64);
            }
        }
    }
    (counts, pairs)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::random::Purpose;

    /// What was looked for in the wrong place is found by a second pass.
    #[test]
    fn folds_begin_where_they_do_wherever_one_looks_first() {
        for (rows, folds) in [(100, 7), (5000, 3), (5000, 4999), (100_000, 5)] {
            let random = Random::new(3, Purpose::Folds, 0);
            let (one, other) = (RandomFolds::new(rows, random, folds), RandomFolds::found(rows, random, folds, 0.0));
            assert_eq!((one.begins, one.before), (other.begins, other.before), "{folds} folds of {rows} rows");
        }
    }
}
