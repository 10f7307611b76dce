//! Rows dealt to buckets and fetched back, in streams.
//!
//! A pass in random order over more memory than the caches hold costs a miss for every row. Here
//! rows go to some hundred buckets that fit a core's cache, each written from front to back; what
//! is in random order then stays inside a bucket; and results come back as the rows went, because
//! the same pass over the rows finds the same places.
//!
//! ```text
//! rows     │ share of thread 0 │ share of thread 1 │
//! bucket 0 │ rows of share 0, in order │ rows of share 1 │     the same for any number of shares
//! bucket 1 │ …
//! ```

use crate::column::distinct::{over_shares, shares};
use crate::parallel::interrupt::pieces;
use crate::parallel::numbered;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Rows of a bucket, about.
const BUCKET: usize = 1 << 13;
/// Bits of the most buckets: as many open streams as the processor keeps pages for.
const MOST: u32 = 10;

/// A value that several threads write to places that only they know to be disjoint.
pub(super) trait Word: Copy + Default + Send + Sync {
    type Atomic: Sync;
    /// Returns the slice as atomics.
    fn shared(slice: &mut [Self]) -> &[Self::Atomic];
    fn store(place: &Self::Atomic, value: Self);
}

macro_rules! words {
    ($($t:ty, $atomic:ty, $to:expr;)*) => {$(
        impl Word for $t {
            type Atomic = $atomic;
            fn shared(slice: &mut [Self]) -> &[$atomic] {
                const { assert!(size_of::<$atomic>() == size_of::<$t>() && align_of::<$atomic>() == align_of::<$t>()) };
                // SAFETY: the atomic has the size and alignment of the value (checked above), both
                // take any bits, and the exclusive borrow becomes the only way to the memory.
                unsafe { &*(std::ptr::from_mut(slice) as *const [$atomic]) }
            }
            #[inline(always)]
            fn store(place: &$atomic, value: Self) {
                place.store($to(value), Ordering::Relaxed);
            }
        }
    )*};
}
words!(u8, AtomicU8, |x| x; u32, AtomicU32, |x| x; u64, AtomicU64, |x| x; f64, AtomicU64, f64::to_bits;);

/// Returns how many buckets are good for that many rows: a power of two, as its exponent.
pub(super) fn bucket_bits(rows: usize) -> u32 {
    if rows <= BUCKET { 0 } else { ((rows / BUCKET).ilog2() + 1).min(MOST) }
}

/// The places of rows that are dealt to buckets: bucket after bucket, inside a bucket in the rows' order.
pub(super) struct Buckets<B> {
    rows: usize,
    bucket: B,
    share: usize,
    /// `[share][bucket]`: the place of the share's first row in the bucket.
    places: Vec<Vec<u32>>,
    /// Where each bucket ends.
    pub ends: Vec<usize>,
}

impl<B: Fn(usize) -> usize + Sync> Buckets<B> {
    /// Deals rows to `count` buckets, row `r` to `bucket(r)`, which is always the same.
    pub fn new(rows: usize, count: usize, bucket: B) -> Self {
        let share = shares(rows);
        let mut places = over_shares(rows, |share| {
            let mut counts = vec![0u32; count];
            pieces(share).for_each(|rows| rows.for_each(|row| counts[bucket(row)] += 1));
            counts
        });
        let mut next = 0;
        let mut ends = vec![0; count];
        for (bucket, end) in ends.iter_mut().enumerate() {
            for counts in &mut places {
                next += std::mem::replace(&mut counts[bucket], next);
            }
            *end = next as usize;
        }
        Buckets { rows, bucket, share, places, ends }
    }

    /// Calls `visit(row, place)` for each row, on all threads.
    pub fn for_each(&self, visit: impl Fn(usize, usize) + Sync) {
        numbered::for_each(self.places.len(), 1, &|i| {
            let mut places = self.places[i].clone();
            for rows in pieces(i * self.share..self.rows.min((i + 1) * self.share)) {
                for row in rows {
                    let place = &mut places[(self.bucket)(row)];
                    visit(row, *place as usize);
                    *place += 1;
                }
            }
        });
    }

    /// Returns the places of bucket `i`.
    pub fn places(&self, i: usize) -> std::ops::Range<usize> {
        i.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[i]
    }
}

/// Space for sorting a bucket.
#[derive(Default)]
pub(super) struct SortScratch {
    pairs: Vec<u64>,
    other: Vec<u64>,
}

impl SortScratch {
    /// Returns the places of keys (0, 1, …) in ascending order of the keys, of which the lowest `bits` bits differ, equal keys in
    /// order of their places; in the lower half of each entry.
    pub fn order(&mut self, keys: impl Iterator<Item = u32>, bits: u32) -> &[u64] {
        const DIGIT: u32 = 11;
        self.pairs.clear();
        self.pairs.extend(keys.enumerate().map(|(i, key)| (key as u64) << 32 | i as u64));
        let n = self.pairs.len();
        if n < 1 << DIGIT {
            self.pairs.sort_unstable();
            return &self.pairs;
        }
        self.other.resize(n, 0);
        let passes = bits.div_ceil(DIGIT);
        for pass in 0..passes {
            let mut places = [0u32; 1 << DIGIT];
            let digit = |pair: u64| (pair >> (32 + pass * DIGIT)) as usize & ((1 << DIGIT) - 1);
            for pair in &self.pairs {
                places[digit(*pair)] += 1;
            }
            let mut next = 0;
            for place in &mut places {
                next += std::mem::replace(place, next);
            }
            for pair in &self.pairs {
                let place = &mut places[digit(*pair)];
                self.other[*place as usize] = *pair;
                *place += 1;
            }
            std::mem::swap(&mut self.pairs, &mut self.other);
        }
        &self.pairs
    }
}
