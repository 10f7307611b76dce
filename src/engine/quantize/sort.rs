//! Sorted distinct values and how many rows have each: what every border method starts from.
//!
//! Floats are sorted as unsigned integers of the same order. A sample whose values are all exact
//! in f32 (an f32 column, small integers, flags) is sorted as 32-bit keys, in half the time.

/// The distinct values of a sample, as keys.
pub(super) struct Distinct<K> {
    /// Ascending; never NaN, never -0.0.
    keys: Vec<K>,
    /// `rows_up_to[i]`: the number of rows with a value of at most `keys[i]`.
    rows_up_to: Vec<K>,
}

/// Whether all values are exact in f32, so that `Distinct<u32>` holds them.
pub(super) fn is_narrow(sample: &[f64]) -> bool {
    sample.len() < u32::MAX as usize && sample.iter().all(|&x| x.is_nan() || f64::from(x as f32) == x)
}

impl<K: Key> Distinct<K> {
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

    /// The number of distinct values.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Value `i`, in ascending order.
    pub fn value(&self, i: usize) -> f64 {
        self.keys[i].value()
    }

    /// The number of rows with a value below value `i`; for `i == len()` of all rows but NaN.
    pub fn rows_before(&self, i: usize) -> usize {
        if i == 0 { 0 } else { self.rows_up_to[i - 1].to_usize() }
    }

    /// The number of rows that have value `i`.
    pub fn rows(&self, i: usize) -> usize {
        self.rows_before(i + 1) - self.rows_before(i)
    }

    /// The first `i` in `start..end` with `rows_before(i + 1) > rows`, or `end`.
    pub fn value_behind(&self, rows: usize, start: usize, end: usize) -> usize {
        start + self.rows_up_to[start..end].partition_point(|r| r.to_usize() <= rows)
    }
}

/// An unsigned integer that orders as the float it stands for.
pub(super) trait Key: Copy + Ord + Default {
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
        impl Key for $key {
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
fn sort<K: Key>(keys: &mut Vec<K>, other: &mut Vec<K>) {
    if keys.len() < RADIX_MIN {
        return keys.sort_unstable();
    }
    let passes = K::BITS.div_ceil(RADIX_BITS) as usize;
    let mut counts = vec![[0usize; RADIX]; passes];
    for &k in keys.iter() {
        for (pass, counts) in counts.iter_mut().enumerate() {
            counts[k.digit(pass as u32 * RADIX_BITS)] += 1;
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
        for &k in keys.iter() {
            let at = &mut counts[k.digit(shift)];
            other[*at] = k;
            *at += 1;
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
            if is_narrow(&sample) {
                check(&Distinct::<u32>::new(&sample), &plain)?;
            } else {
                prop_assert!(kind == 0 || kind >= 3);
            }
        }
    }

    fn check<K: Key>(d: &Distinct<K>, plain: &[f64]) -> Result<(), TestCaseError> {
        prop_assert_eq!(d.rows_before(d.len()), plain.len());
        prop_assert!((1..d.len()).all(|i| d.value(i - 1) < d.value(i)));
        for i in 0..d.len() {
            prop_assert!(d.rows(i) > 0);
            prop_assert!(plain[d.rows_before(i)..d.rows_before(i + 1)].iter().all(|&x| x == d.value(i)));
            prop_assert!(d.value(i) != 0.0 || d.value(i).is_sign_positive());
            prop_assert_eq!(d.value_behind(d.rows_before(i), 0, d.len()), i);
        }
        Ok(())
    }
}
