//! Sorted distinct values and how many rows have each: what every border method starts from.
//!
//! Floats are sorted as unsigned integers of the same order. A sample whose values are all exact
//! in f32 (an f32 column, small integers, flags) is sorted as 32-bit keys, in half the time.

use crate::error::Result;
use crate::parallel::interrupt::{ROWS, poll};

/// A value that at least as many rows have as an average bin holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heavy {
    pub index: usize,
    /// The rows of smaller values, and its own.
    pub before: usize,
    pub rows: usize,
}

/// Returns how many of the values with so many `rows` each, the heaviest first, have at least those of an average bin, where the
/// average is over the bins and rows that heavier ones leave; and the rows that all of them leave of `total`.
pub fn heavy_count(rows: impl Iterator<Item = usize>, bins: usize, total: usize) -> (usize, usize) {
    let (mut count, mut rest) = (0, total);
    for rows in rows {
        if count == bins || rows * (bins - count) < rest {
            break;
        }
        rest -= rows;
        count += 1;
    }
    (count, rest)
}

/// Distinct values in ascending order and how many rows have each, wherever they are kept: what the border methods ask.
/// Never NaN, never -0.0.
pub trait SortedValues {
    /// Returns the number of distinct values.
    fn distinct(&self) -> usize;

    /// Returns the values at `indices`.
    fn values(&self, indices: &[usize]) -> Result<Vec<f64>>;

    /// Returns the number of rows with a value below value `i`; for `i == len()` of all rows but NaN.
    fn rows_before(&self, i: usize) -> Result<usize>;

    /// Returns the first `i` in `start..end` with `rows_before(i + 1) > rows`, or `end`.
    fn value_behind(&self, rows: usize, start: usize, end: usize) -> Result<usize>;

    /// Returns the values with at least the rows of an average of `bins` bins, where the average is over the bins and rows that
    /// heavier values leave; ascending. Fewer than `bins` of them, for more than `bins` values.
    fn heavy_values(&self, bins: usize) -> Result<Vec<Heavy>>;

    /// Prepares for calls of [`SortedValues::value_behind`] that are likely to be about these rows.
    fn expect(&self, _rows: &mut dyn Iterator<Item = usize>) -> Result<()> {
        Ok(())
    }
}

/// The distinct values of a sample, as keys.
pub(super) struct Distinct<K> {
    /// Ascending; never NaN, never -0.0.
    keys: Vec<K>,
    /// `rows_up_to[i]`: the number of rows with a value of at most `keys[i]`.
    rows_up_to: Vec<K>,
}

/// Returns whether all values are exact in f32, so that `Distinct<u32>` holds them.
pub fn is_narrow(sample: &[f64]) -> bool {
    sample.len() < u32::MAX as usize && sample.iter().all(|&x| x.is_nan() || f64::from(x as f32) == x)
}

/// Rows whose values are looked at for one that most rows have.
const PROBES: usize = 64;

/// Values that are compared at once.
const LANES: usize = 32;

/// Returns the value that at least three quarters of the rows have, and how many do (none where it is NaN); the values of the
/// other rows go to `rest`. `None`, and nothing of use in `rest`, where there is no such value, or the sample is small.
pub(super) fn heavy_value(sample: &[f64], rest: &mut Vec<f64>) -> Option<(f64, usize)> {
    if sample.len() < RADIX_MIN {
        return None;
    }
    let mut probes: Vec<f64> = (0..PROBES).map(|i| sample[i * (sample.len() / PROBES)] + 0.0).collect();
    probes.sort_unstable_by(f64::total_cmp);
    let run = probes.chunk_by(|a, b| a.total_cmp(b).is_eq()).max_by_key(|run| run.len()).filter(|run| run.len() > PROBES / 2)?;
    let heavy = run[0];
    let few = if heavy.is_nan() { others(sample, rest, |x| !x.is_nan()) } else { others(sample, rest, |x| x != heavy) };
    few.then_some((heavy, if heavy.is_nan() { 0 } else { sample.len() - rest.len() }))
}

/// Copies the values that are `other` to `rest`; stops, and says so, beyond a quarter of them.
#[inline(always)]
fn others(sample: &[f64], rest: &mut Vec<f64>, other: impl Fn(f64) -> bool) -> bool {
    for chunk in sample.chunks(LANES) {
        // Without a branch a value, so that vectors are compared.
        if chunk.iter().fold(false, |any, x| any | other(*x)) {
            rest.extend(chunk.iter().copied().filter(|x| other(*x)));
            if rest.len() > sample.len() / 4 {
                return false;
            }
        }
    }
    true
}

impl<K: FloatKey> Distinct<K> {
    /// Makes [`Distinct::new`] of `sample` and, besides, of a value that `heavy.1` rows have.
    pub fn with(sample: &[f64], heavy: Option<(f64, usize)>) -> Self {
        let mut distinct = Distinct::new(sample);
        if let Some((value, rows)) = heavy
            && rows > 0
        {
            let key = K::key(value);
            let at = distinct.keys.partition_point(|k| *k < key);
            let before = distinct.before(at);
            distinct.keys.insert(at, key);
            distinct.rows_up_to.insert(at, K::from_usize(before));
            distinct.rows_up_to[at..].iter_mut().for_each(|r| *r = K::from_usize(r.to_usize() + rows));
        }
        distinct
    }

    /// Sorts and counts `sample`; NaN is skipped, -0.0 and 0.0 are one value.
    pub fn new(sample: &[f64]) -> Self {
        let mut keys: Vec<K> = sample.iter().map(|&x| K::key(x)).collect();
        let mut rows_up_to = vec![K::default(); keys.len()];
        sort(&mut keys, &mut rows_up_to);
        // Every NaN has the largest key of all.
        let rows = keys.partition_point(|&k| k < K::NAN);
        // In place and without branches: a value is written over until the next one comes.
        let mut count = 0;
        for i in 0..rows {
            let key = keys[i];
            keys[count] = key;
            rows_up_to[count] = K::from_usize(i + 1);
            count += usize::from(i + 1 == rows || keys[i + 1] != key);
        }
        keys.truncate(count);
        rows_up_to.truncate(count);
        Distinct { keys, rows_up_to }
    }

    /// Returns the number of rows with a value below value `i`.
    fn before(&self, i: usize) -> usize {
        if i == 0 { 0 } else { self.rows_up_to[i - 1].to_usize() }
    }

    /// Returns the number of rows that have value `i`.
    fn rows(&self, i: usize) -> usize {
        self.before(i + 1) - self.before(i)
    }
}

impl<K: FloatKey> SortedValues for Distinct<K> {
    fn distinct(&self) -> usize {
        self.keys.len()
    }

    fn values(&self, indices: &[usize]) -> Result<Vec<f64>> {
        Ok(indices.iter().map(|i| self.keys[*i].value()).collect())
    }

    #[inline(always)]
    fn rows_before(&self, i: usize) -> Result<usize> {
        Ok(self.before(i))
    }

    #[inline(always)]
    fn value_behind(&self, rows: usize, start: usize, end: usize) -> Result<usize> {
        Ok(start + self.rows_up_to[start..end].partition_point(|r| r.to_usize() <= rows))
    }

    fn heavy_values(&self, bins: usize) -> Result<Vec<Heavy>> {
        let n = self.distinct();
        let total = self.before(n);
        if (0..n).all(|i| self.rows(i) * bins < total) {
            return Ok(vec![]);
        }
        let mut by_rows: Vec<usize> = (0..n).collect();
        let heaviest_first = |&i: &usize| (std::cmp::Reverse(self.rows(i)), i);
        by_rows.select_nth_unstable_by_key(bins, heaviest_first);
        by_rows.truncate(bins);
        by_rows.sort_unstable_by_key(heaviest_first);
        by_rows.truncate(heavy_count(by_rows.iter().map(|i| self.rows(*i)), bins, total).0);
        by_rows.sort_unstable();
        Ok(by_rows.into_iter().map(|index| Heavy { index, before: self.before(index), rows: self.rows(index) }).collect())
    }
}

/// An unsigned integer that orders as the float it stands for.
pub trait FloatKey: Copy + Ord + Default {
    const BITS: u32;
    /// Above the key of +∞.
    const NAN: Self;
    fn key(x: f64) -> Self;
    fn value(self) -> f64;
    fn digit(self, shift: u32) -> usize;
    fn from_usize(x: usize) -> Self;
    fn to_usize(self) -> usize;
}

macro_rules! key {
    ($key:ty, $float:ty) => {
        impl FloatKey for $key {
            const BITS: u32 = <$key>::BITS;
            const NAN: Self = <$key>::MAX;

            #[inline(always)]
            fn key(x: f64) -> Self {
                // Adding 0.0 turns -0.0 into 0.0 and changes nothing else.
                let bits = (x as $float + 0.0).to_bits();
                let sign = 1 << (<$key>::BITS - 1);
                let key = if bits & sign != 0 { !bits } else { bits | sign };
                if x.is_nan() { Self::NAN } else { key }
            }

            #[inline(always)]
            fn value(self) -> f64 {
                let sign = 1 << (<$key>::BITS - 1);
                let bits = if self & sign != 0 { self & !sign } else { !self };
                <$float>::from_bits(bits).into()
            }

            #[inline(always)]
            fn digit(self, shift: u32) -> usize {
                (self >> shift) as usize & (RADIX - 1)
            }

            #[inline(always)]
            fn from_usize(x: usize) -> Self {
                x as $key
            }

            #[inline(always)]
            fn to_usize(self) -> usize {
                self as usize
            }
        }
    };
}
key!(u32, f32);
key!(u64, f64);

const RADIX_BITS: u32 = 11;
const RADIX: usize = 1 << RADIX_BITS;
/// Below this many keys a comparison sort is faster than filling the digits' counters.
const RADIX_MIN: usize = 2_000;

/// Sorts ascending, with a second buffer as long: radix sort from the lowest digit up, skipping digits in which all keys agree.
fn sort<K: FloatKey>(keys: &mut Vec<K>, other: &mut Vec<K>) {
    if keys.len() < RADIX_MIN {
        return keys.sort_unstable();
    }
    let passes = K::BITS.div_ceil(RADIX_BITS) as usize;
    let mut counts = vec![[0usize; RADIX]; passes];
    for keys in keys.chunks(ROWS) {
        poll();
        for &k in keys {
            for (pass, counts) in counts.iter_mut().enumerate() {
                counts[k.digit(pass as u32 * RADIX_BITS)] += 1;
            }
        }
    }
    for (pass, counts) in counts.iter_mut().enumerate() {
        let shift = pass as u32 * RADIX_BITS;
        if counts[keys[0].digit(shift)] == keys.len() {
            continue;
        }
        let mut next = 0;
        for c in counts.iter_mut() {
            next += std::mem::replace(c, next);
        }
        for keys in keys.chunks(ROWS) {
            poll();
            for &k in keys {
                let at = &mut counts[k.digit(shift)];
                other[*at] = k;
                *at += 1;
            }
        }
        std::mem::swap(keys, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::random::{Purpose, Random};
    use proptest::prelude::*;

    /// Values that share digits in various ways, from a few bits of randomness each.
    fn sample(n: usize, seed: u64, kind: u8) -> Vec<f64> {
        let r = Random::new(seed, Purpose::BorderSample, 9);
        (0..n as u64)
            .map(|i| match kind {
                0 => f64::from_bits(r.u64(i)),
                1 => f64::from(f32::from_bits(r.u64(i) as u32)),
                2 => (r.u64(i) % 7) as f64 - 3.0,
                3 => (r.u64(i) % 1_000_003) as f64 * 1e-3,
                _ => [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 5e-324][(r.u64(i) % 6) as usize],
            })
            .collect()
    }

    proptest! {
        #[test]
        fn distinct_values_are_those_of_a_plain_sort(n in prop_oneof![0usize..50, 1_900usize..5_000], seed: u64, kind in 0u8..5) {
            let sample = sample(n, seed, kind);
            let mut plain: Vec<f64> = sample.iter().copied().filter(|x| !x.is_nan()).collect();
            plain.sort_by(|a, b| a.partial_cmp(b).unwrap());
            check(&Distinct::<u64>::new(&sample), &plain)?;
            // A value that most rows have, or NaN, counted apart.
            for heavy in [sample.first().copied().unwrap_or(0.0), f64::NAN, -0.0] {
                let mut more = sample.clone();
                more.extend(vec![heavy; 4 * n]);
                let mut plain: Vec<f64> = more.iter().copied().filter(|x| !x.is_nan()).collect();
                plain.sort_by(|a, b| a.partial_cmp(b).unwrap());
                let mut rest = vec![];
                let found = heavy_value(&more, &mut rest);
                prop_assert_eq!(found.is_some(), more.len() >= RADIX_MIN);
                if found.is_some() {
                    check(&Distinct::<u64>::with(&rest, found), &plain)?;
                }
            }
            if is_narrow(&sample) {
                check(&Distinct::<u32>::new(&sample), &plain)?;
            } else {
                prop_assert!(kind == 0 || kind >= 3);
            }
        }
    }

    fn check<K: FloatKey>(d: &Distinct<K>, plain: &[f64]) -> std::result::Result<(), TestCaseError> {
        prop_assert_eq!(d.before(d.distinct()), plain.len());
        let values = d.values(&(0..d.distinct()).collect::<Vec<_>>()).unwrap();
        prop_assert!(values.windows(2).all(|w| w[0] < w[1]));
        for (i, value) in values.into_iter().enumerate() {
            prop_assert!(d.rows(i) > 0);
            prop_assert!(plain[d.before(i)..d.before(i + 1)].iter().all(|&x| x == value));
            prop_assert!(value != 0.0 || value.is_sign_positive());
            prop_assert_eq!(d.value_behind(d.before(i), 0, d.distinct()).unwrap(), i);
        }
        Ok(())
    }
}
