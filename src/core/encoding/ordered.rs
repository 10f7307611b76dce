//! Each row's value from the rows of its category before it in an order, or in other folds.
//!
//! ```text
//! few categories    rows in order:  │ share 0 │ share 1 │ share 2 │   each sums its rows by category,
//!                   sums before:    │    0    │   +0    │   +0+1  │   then starts from those before it
//! many categories   bucket of categories 0, b, 2b, … │ 1, b+1, … │   a bucket has all rows of its own
//! ```
//!
//! An order that is not that of the rows would be a walk all over the memory; so rows are first dealt
//! to buckets ([`super::buckets`]), by the order's upper bits or by category, and sorted inside them.
//! Sums are integers, so all ways give the same bits.

use super::buckets::{Buckets, SortScratch, Word, bucket_bits};
use super::group::{Smoothing, tables_for};
use super::statistic::Statistic;
use crate::pages;
use crate::parallel::interrupt::{self, pieces};
use crate::parallel::numbered;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// A table of this many bytes is looked at in random order without many misses.
const TABLE: usize = 1 << 19;
/// … and of this many with fewer of them than dealing rows costs.
const TABLE_IN_ORDER: usize = 1 << 22;

/// What a row is sorted by: 32 bits, spread evenly; equal ones in the order of the rows.
type SortKey<'a> = &'a (dyn Fn(usize) -> u32 + Sync);

/// Adds to `out` each row's value from the rows before it, in the order of the keys
/// or, without, of the rows.
pub(super) fn add<S: Statistic>(
    statistic: &S,
    codes: &[u32],
    categories: usize,
    key: Option<SortKey<'_>>,
    smoothing: &Smoothing,
    out: &mut [f64],
) {
    let rows = codes.len();
    let bits = bucket_bits(rows);
    let table = categories.saturating_mul(size_of::<S::Sum>());
    match key {
        None if table <= TABLE_IN_ORDER => in_row_order(statistic, codes, categories, smoothing, out),
        Some(key) if table <= TABLE => {
            let buckets = Buckets::new(rows, 1 << bits, |row| (key(row) as u64 >> (32 - bits)) as usize);
            let scan =
                |dealt: &BucketRows<S::Over<'_>>, ranges: &[Range<usize>]| scan_in_order(dealt, ranges, categories, 32 - bits, smoothing);
            through(&buckets, statistic, codes, Some(key), scan, out);
        }
        _ => {
            let buckets = Buckets::new(rows, 1 << bits, |row| codes[row] as usize & ((1 << bits) - 1));
            let scan = |dealt: &BucketRows<S::Over<'_>>, ranges: &[Range<usize>]| {
                scan_by_category(dealt, ranges, categories, bits, key.is_some(), smoothing)
            };
            through(&buckets, statistic, codes, key, scan, out);
        }
    }
}

/// Writes to `out` each row's value from the rows of its category in other folds, `smoothing` having
/// an entry for each fold; false, and nothing done, where there are too many folds for that.
pub(super) fn by_fold<S: Statistic>(
    statistic: &S,
    codes: &[u32],
    categories: usize,
    folds: &[u32],
    smoothing: &[Smoothing],
    out: &mut [f64],
) -> bool {
    let rows = codes.len();
    let bits = bucket_bits(rows);
    let count = smoothing.len();
    let cells = ((categories >> bits) + 1).saturating_mul(count);
    if cells.saturating_mul(size_of::<S::Sum>()) > TABLE {
        return false;
    }
    let buckets = Buckets::new(rows, 1 << bits, |row| codes[row] as usize & ((1 << bits) - 1));
    let fold = |row: usize| folds[row];
    let scan = |dealt: &BucketRows<S::Over<'_>>, ranges: &[Range<usize>]| {
        numbered::for_each(ranges.len(), 1, &|i| {
            let places = &ranges[i];
            interrupt::poll();
            let mut table = vec![S::Sum::default(); cells];
            let mut all = vec![S::Sum::default(); cells / count];
            let cell = |place: usize| {
                let row = dealt.rows[place].load(Ordering::Relaxed);
                ((row as u32 >> bits) as usize, (row >> 32) as usize)
            };
            for place in places.clone() {
                let (category, fold) = cell(place);
                let sum = dealt.statistic.of(place);
                table[category * count + fold] += sum;
                all[category] += sum;
            }
            for place in places.clone() {
                let (category, fold) = cell(place);
                let mut others = all[category];
                others -= table[category * count + fold];
                let value = smoothing[fold].value(dealt.statistic.read(others));
                dealt.rows[place].store(value.to_bits(), Ordering::Relaxed);
            }
        });
    };
    through(&buckets, statistic, codes, Some(&fold), scan, out);
    true
}

/// Adds `value`; each row is one thread's.
#[inline(always)]
fn add_to(place: &AtomicU64, value: f64) {
    let before = f64::from_bits(place.load(Ordering::Relaxed));
    place.store((before + value).to_bits(), Ordering::Relaxed);
}

/// Adds up the sums of the shares of rows, `[share][category]`, so that each share gets those of all shares before it.
fn before<T: Copy + Default + Send + Sync + std::ops::AddAssign>(mut tables: Vec<Vec<T>>, categories: usize) -> Vec<Vec<T>> {
    for i in 1..tables.len() {
        let (earlier, later) = tables.split_at_mut(i);
        const PART: usize = 1 << 13;
        numbered::for_each_chunk(&mut later[0], PART, |k, sums| {
            sums.iter_mut().zip(&earlier[i - 1][k * PART..]).for_each(|(sum, before)| *sum += *before);
        });
    }
    tables.insert(0, vec![T::default(); categories]);
    tables
}

fn in_row_order<S: Statistic>(statistic: &S, codes: &[u32], categories: usize, smoothing: &Smoothing, out: &mut [f64]) {
    let rows = codes.len();
    let share = rows.div_ceil(tables_for::<S>(rows, categories)).max(1);
    let all_but_last = rows.div_ceil(share).saturating_sub(1);
    let sums = |i: usize| {
        let mut table = vec![S::Sum::default(); categories];
        for rows in pieces(i * share..(i + 1) * share) {
            rows.for_each(|row| table[codes[row] as usize] += statistic.of(row));
        }
        table
    };
    let tables = before(numbered::map(all_but_last, 1, sums), categories);
    let shares = out.chunks_mut(share).zip(tables).enumerate().collect();
    numbered::map_items(shares, |(i, (out, mut table)): (usize, (&mut [f64], Vec<S::Sum>))| {
        for rows in pieces(0..out.len()) {
            for (row, out) in (i * share + rows.start..).zip(&mut out[rows]) {
                let sum = &mut table[codes[row] as usize];
                *out += smoothing.value(statistic.read(*sum));
                *sum += statistic.of(row);
            }
        }
    });
}

/// Rows by their places in buckets.
struct BucketRows<'a, S> {
    statistic: S,
    /// Key above code; then, once a row is done, its value.
    rows: &'a [AtomicU64],
}

impl<S: Statistic> BucketRows<'_, S> {
    fn code(&self, place: usize) -> usize {
        self.rows[place].load(Ordering::Relaxed) as u32 as usize
    }

    fn keys(&self, places: Range<usize>) -> impl Iterator<Item = u32> + '_ {
        self.rows[places].iter().map(|row| (row.load(Ordering::Relaxed) >> 32) as u32)
    }

    /// The row at `place`, whose category has `sum` so far.
    #[inline(always)]
    fn visit(&self, place: usize, sum: &mut S::Sum, smoothing: &Smoothing) {
        self.rows[place].store(smoothing.value(self.statistic.read(*sum)).to_bits(), Ordering::Relaxed);
        *sum += self.statistic.of(place);
    }
}

/// Deals the rows, has the buckets `scan`ned, and fetches the values.
fn through<S: Statistic, B: Fn(usize) -> usize + Sync>(
    buckets: &Buckets<B>,
    statistic: &S,
    codes: &[u32],
    key: Option<SortKey<'_>>,
    scan: impl Fn(&BucketRows<'_, S::Over<'_>>, &[Range<usize>]),
    out: &mut [f64],
) {
    let rows = codes.len();
    let (flags, numbers) = statistic.columns();
    let mut dealt_rows = pages::zeroed(rows);
    let mut dealt_flags = vec![0u8; flags.map_or(0, <[u8]>::len)];
    let mut dealt_numbers: Vec<Vec<f64>> = numbers.iter().map(|n| pages::zeroed(n.len())).collect();
    {
        let to = u64::shared(&mut dealt_rows);
        let to_flags = u8::shared(&mut dealt_flags);
        let to_numbers: Vec<&[AtomicU64]> = dealt_numbers.iter_mut().map(|n| f64::shared(n)).collect();
        buckets.for_each(|row, place| {
            let key = key.map_or(0, |key| key(row));
            u64::store(&to[place], (key as u64) << 32 | codes[row] as u64);
            if let Some(flags) = flags {
                u8::store(&to_flags[place], flags[row]);
            }
            for (from, to) in numbers.iter().zip(&to_numbers) {
                f64::store(&to[place], from[row]);
            }
        });
    }
    let ranges: Vec<Range<usize>> = (0..buckets.ends.len()).map(|i| buckets.places(i)).collect();
    let dealt = BucketRows { statistic: statistic.over(&dealt_flags, &dealt_numbers), rows: u64::shared(&mut dealt_rows) };
    scan(&dealt, &ranges);
    let out = f64::shared(out);
    buckets.for_each(|row, place| add_to(&out[row], f64::from_bits(dealt.rows[place].load(Ordering::Relaxed))));
}

/// Buckets that follow each other in the order; in each, keys differ in the lowest `bits` bits.
fn scan_in_order<S: Statistic>(dealt: &BucketRows<'_, S>, buckets: &[Range<usize>], categories: usize, bits: u32, smoothing: &Smoothing) {
    let share = buckets.len().div_ceil(tables_for::<S>(dealt.rows.len(), categories)).max(1);
    let shares: Vec<&[Range<usize>]> = buckets.chunks(share).collect();
    let Some((_, but_last)) = shares.split_last() else { return };
    let sums = |i: usize| {
        let mut table = vec![S::Sum::default(); categories];
        for places in but_last[i].iter().cloned() {
            interrupt::poll();
            places.for_each(|place| table[dealt.code(place)] += dealt.statistic.of(place));
        }
        table
    };
    let tables = before(numbered::map(but_last.len(), 1, sums), categories);
    numbered::map_items(shares.into_iter().zip(tables).collect(), |(buckets, mut table)| {
        let mut scratch = SortScratch::default();
        for places in buckets {
            interrupt::poll();
            for pair in scratch.order(dealt.keys(places.clone()), bits) {
                let place = places.start + *pair as u32 as usize;
                dealt.visit(place, &mut table[dealt.code(place)], smoothing);
            }
        }
    });
}

/// Buckets that have all rows of their categories, which are those with the same lowest `bits` bits.
fn scan_by_category<S: Statistic>(
    dealt: &BucketRows<'_, S>,
    buckets: &[Range<usize>],
    categories: usize,
    bits: u32,
    sorted: bool,
    smoothing: &Smoothing,
) {
    let cells = (categories >> bits) + 1;
    numbered::for_each_with(buckets.len(), SortScratch::default, |scratch, i| {
        let places = &buckets[i];
        interrupt::poll();
        let mut table = vec![S::Sum::default(); cells];
        let mut visit = |place: usize| dealt.visit(place, &mut table[dealt.code(place) >> bits], smoothing);
        if sorted {
            scratch.order(dealt.keys(places.clone()), 32).iter().for_each(|pair| visit(places.start + *pair as u32 as usize));
        } else {
            places.clone().for_each(visit);
        }
    });
}
