//! Statistics of categories inside the trees ("CTRs": Prokhorenkova et al., "CatBoost: unbiased
//! boosting with categorical features", 2018).
//!
//! A category becomes numbers: how often it occurs, and what the target was where it did. While a
//! model is fitted, a row's number comes from the rows before it in a permutation, so that no
//! row's target leaks into its own features; rows that are measured on, and rows to predict, use
//! the statistics of all training rows.
//!
//! ```text
//! value = (s + prior) / (n + 1)         n, s: over the category's rows that count
//!
//! labels 0 1 1 0, in this order, prior 0.05:   n = 0 1 2 3    s = 0 0 1 2
//!                                           -> 0.05, 0.025, 0.35, 0.5125
//! ```

use crate::memory::prefetch_near;
use crate::quantize::BorderMethod;
use crate::quantize::borders::borders;
use multiversion::multiversion;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// The kind of a statistic of categories; the names are CatBoost's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CtrKind {
    /// `(rows of a class above a border + prior) / (n + 1)`, one for each border between classes.
    Borders,
    /// `(rows of a class + prior) / (n + 1)`, one for each class.
    Buckets,
    /// `(sum of class / (classes - 1) + prior) / (n + 1)`.
    BinarizedTargetMeanValue,
    /// `(sum of the target, scaled to 0 … 1 + prior) / (n + 1)`; of classes the sum of `class / (classes - 1)`.
    FloatTargetMeanValue,
    /// `(n + prior) / (largest n + 1)`: the target does not count.
    Counter,
}

/// One statistic of a category.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ctr {
    pub kind: CtrKind,
    /// Of [`CtrKind::Borders`] the border (class `class` lies below it), of [`CtrKind::Buckets`]
    /// the class; else 0.
    pub class: u8,
    pub prior: f64,
}

/// Sums of the target are integers in this unit.
const FLOAT_UNIT: f64 = 1.0 / (1u64 << FLOAT_BITS) as f64;
const FLOAT_BITS: u32 = 30;

/// The target of statistics of categories: what each row adds to its category.
#[derive(Clone, Debug)]
pub struct CtrTarget {
    /// The class of each row: of a classifier its label's, of a regression the number of target
    /// borders below its target.
    pub classes: Vec<u8>,
    pub count: usize,
    /// The target scaled to 0 … 1 in units of 2^-30, where [`CtrKind::FloatTargetMeanValue`] is used.
    pub scaled: Vec<u32>,
}

/// Sums over the rows of a category that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefix {
    pub n: u32,
    pub s: u64,
}

impl CtrTarget {
    /// Makes the target of class indices. `scaled`: they are numbers from 0 to 1 as well.
    pub fn classes(codes: &[u32], count: usize, scaled: bool) -> CtrTarget {
        let last = count.max(2) as u64 - 1;
        let unit = |c: &u32| ((*c as u64 * (1 << FLOAT_BITS)) / last) as u32;
        // More classes than a byte counts share the last one.
        CtrTarget {
            classes: codes.iter().map(|c| (*c).min(255) as u8).collect(),
            count: count.min(256),
            scaled: if scaled { codes.iter().map(unit).collect() } else { vec![] },
        }
    }

    /// Makes the target of numbers, cut by `borders` (at most 255, ascending). `training`: the rows that count,
    /// whose range is scaled to 0 … 1 where that is asked for.
    pub fn numbers(target: &[f64], training: &[u32], borders: &[f64], scaled: bool) -> CtrTarget {
        let classes = target.iter().map(|y| borders.partition_point(|b| y > b) as u8).collect();
        let numbers = training.iter().map(|row| target[*row as usize]);
        let (low, high) = numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), y| (l.min(y), h.max(y)));
        // Halves, so that the range of the largest numbers does not overflow.
        let range = 0.5 * high - 0.5 * low;
        let unit = |y: &f64| {
            let share = if range > 0.0 { (0.5 * y - 0.5 * low) / range } else { 0.0 };
            (share.clamp(0.0, 1.0) / FLOAT_UNIT) as u32
        };
        CtrTarget { classes, count: borders.len() + 1, scaled: if scaled { target.iter().map(unit).collect() } else { vec![] } }
    }

    /// Returns what each row adds to the sum of `ctr`; all of it fits 32 bits.
    pub fn addends(&self, ctr: &Ctr) -> Vec<u32> {
        (0..self.classes.len()).into_par_iter().map(|row| self.addend(ctr, row) as u32).collect()
    }

    /// Returns what `row` adds to the sum of `ctr`.
    #[inline(always)]
    fn addend(&self, ctr: &Ctr, row: usize) -> u64 {
        match ctr.kind {
            CtrKind::Borders => (self.classes[row] > ctr.class) as u64,
            CtrKind::Buckets => (self.classes[row] == ctr.class) as u64,
            CtrKind::BinarizedTargetMeanValue => self.classes[row] as u64,
            CtrKind::FloatTargetMeanValue => self.scaled[row] as u64,
            CtrKind::Counter => 0,
        }
    }
}

impl Ctr {
    /// Returns whether two statistics differ in nothing but the prior, and so share their sums.
    pub fn same_sums(&self, other: &Ctr) -> bool {
        (self.kind, self.class) == (other.kind, other.class)
    }

    /// Returns what one unit of a sum is worth.
    pub fn unit(&self, classes: usize) -> f64 {
        match self.kind {
            CtrKind::BinarizedTargetMeanValue => 1.0 / (classes.max(2) - 1) as f64,
            CtrKind::FloatTargetMeanValue => FLOAT_UNIT,
            _ => 1.0,
        }
    }

    /// Returns the statistic as a fraction: numerator and denominator, which is positive.
    #[inline(always)]
    pub fn fraction(&self, sums: Prefix, unit: f64, most: u32) -> (f64, f64) {
        match self.kind {
            CtrKind::Counter => (sums.n as f64 + self.prior, most as f64 + 1.0),
            _ => (sums.s as f64 * unit + self.prior, sums.n as f64 + 1.0),
        }
    }

    /// Returns the sums of all categories over `rows`; `codes[row]` is below `cardinality`.
    pub fn totals(&self, codes: &[u32], cardinality: usize, rows: &[u32], target: &CtrTarget) -> Vec<Prefix> {
        let mut table = vec![Prefix::default(); cardinality];
        for row in rows {
            let row = *row as usize;
            let sums = &mut table[codes[row] as usize];
            sums.n += 1;
            sums.s += target.addend(self, row);
        }
        table
    }

    /// Computes for each row the sums over the rows of its category before it in `order`; for rows that are
    /// not in `order`, over all of them.
    pub fn prefixes(&self, codes: &[u32], cardinality: usize, order: &[u32], target: &CtrTarget) -> Vec<Prefix> {
        const AHEAD: usize = 16;
        let mut table = vec![Prefix::default(); cardinality];
        let mut out = vec![Prefix { n: u32::MAX, s: 0 }; codes.len()];
        for (i, row) in order.iter().enumerate() {
            if let Some(next) = order.get(i + AHEAD) {
                prefetch_near(&raw const codes[*next as usize] as *const u8);
                prefetch_near(&raw const out[*next as usize] as *const u8);
            }
            let row = *row as usize;
            let sums = &mut table[codes[row] as usize];
            out[row] = *sums;
            sums.n += 1;
            sums.s += target.addend(self, row);
        }
        if order.len() < codes.len() {
            for (sums, code) in out.iter_mut().zip(codes).filter(|(s, _)| s.n == u32::MAX) {
                *sums = table[*code as usize];
            }
        }
        out
    }
}

/// Borders of a statistic, from the rows of `sample`.
pub fn ctr_borders(ctr: &Ctr, sums: &[Prefix], sample: impl Iterator<Item = usize>, unit: f64, most: u32, count: usize) -> Vec<f64> {
    let value = |row: usize| {
        let (numerator, denominator) = ctr.fraction(sums[row], unit, most);
        numerator / denominator
    };
    let values: Vec<f64> = sample.map(value).collect();
    borders(&values, count, BorderMethod::MinMaxEntropy)
}

/// Rows whose fractions are computed at a time.
const BLOCK: usize = 256;

/// Returns the code of each row: the number of borders below its statistic.
pub fn ctr_codes(ctr: &Ctr, sums: &[Prefix], unit: f64, most: u32, borders: &[f64]) -> Vec<u8> {
    let mut out = vec![0; sums.len()];
    let (mut numerators, mut denominators) = ([0.0; BLOCK], [0.0; BLOCK]);
    for (sums, out) in sums.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        for (i, sums) in sums.iter().enumerate() {
            (numerators[i], denominators[i]) = ctr.fraction(*sums, unit, most);
        }
        count_below(&numerators[..sums.len()], &denominators[..sums.len()], borders, out);
    }
    out
}

/// Counts the borders below each fraction. Multiplied out, because divisions are slow; what
/// fits and what predicts both come here, so that they round alike.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn count_below(numerators: &[f64], denominators: &[f64], borders: &[f64], out: &mut [u8]) {
    for b in borders {
        for ((o, n), d) in out.iter_mut().zip(numerators).zip(denominators) {
            *o += (*n > *b * *d) as u8;
        }
    }
}

/// Numbers the tuples of codes of two columns by first appearance: the code of each row, and for
/// each new code its pair.
pub fn combine_pair(a: &[u32], b: &[u32], b_cardinality: usize) -> (Vec<u32>, Vec<u64>) {
    let key = |a: u32, b: u32| a as u64 * b_cardinality as u64 + b as u64;
    let mut codes = Vec::with_capacity(a.len());
    let mut keys = vec![];
    let room = (a.iter().max().map_or(0, |m| *m as u64) + 1).saturating_mul(b_cardinality as u64);
    if room <= (4 * a.len() as u64).max(1 << 16) {
        // A perfect hash: a place for every possible pair.
        let mut place = vec![u32::MAX; room as usize];
        for (a, b) in a.iter().zip(b) {
            let key = key(*a, *b);
            let code = &mut place[key as usize];
            if *code == u32::MAX {
                *code = keys.len() as u32;
                keys.push(key);
            }
            codes.push(*code);
        }
    } else {
        let mut place = std::collections::HashMap::with_capacity_and_hasher(a.len() / 2, Mixer);
        for (a, b) in a.iter().zip(b) {
            let key = key(*a, *b);
            let code = *place.entry(key).or_insert_with(|| {
                keys.push(key);
                keys.len() as u32 - 1
            });
            codes.push(code);
        }
    }
    (codes, keys)
}

/// A hash for keys that are numbers already.
#[derive(Clone, Copy, Default)]
pub struct Mixer;

impl std::hash::BuildHasher for Mixer {
    type Hasher = Mixed;
    fn build_hasher(&self) -> Mixed {
        Mixed(0)
    }
}

/// See [`Mixer`].
pub struct Mixed(u64);

impl std::hash::Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(*b as u64));
    }
    fn write_u64(&mut self, x: u64) {
        let z = (self.0 ^ x).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = z ^ (z >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::random::{Purpose, Random};

    /// DESIGN, section 4: labels 0, 1, 1, 0 of one category in that order, prior 0.05.
    #[test]
    fn the_ordered_check() {
        let ctr = Ctr { kind: CtrKind::Borders, class: 0, prior: 0.05 };
        let target = CtrTarget::classes(&[0, 1, 1, 0], 2, false);
        let sums = ctr.prefixes(&[0; 4], 1, &[0, 1, 2, 3], &target);
        let values: Vec<f64> = sums.iter().map(|s| ctr.fraction(*s, 1.0, 0)).map(|(n, d)| n / d).collect();
        for (value, expected) in values.iter().zip([0.05, 0.025, 0.35, 0.5125]) {
            assert!((value - expected).abs() < 1e-15, "{values:?}");
        }
    }

    /// Every kind against sums that anyone can read, and held-out rows against all of them.
    #[test]
    fn statistics_equal_naive_ones() {
        let random = Random::new(3, Purpose::RowSample, 0);
        let n = 500;
        let codes: Vec<u32> = (0..n).map(|i| (random.u64(i) % 17) as u32).collect();
        let y: Vec<f64> = (0..n).map(|i| random.unit(i + n) * 8.0 - 3.0).collect();
        let target = CtrTarget::numbers(&y, &(0..n as u32).collect::<Vec<_>>(), &[-1.0, 0.5, 2.0], true);
        let order: Vec<u32> = (0..n as u32).filter(|r| r % 5 != 0).rev().collect();
        let (low, high) = y.iter().fold((f64::MAX, f64::MIN), |(l, h), y| (l.min(*y), h.max(*y)));
        for kind in [CtrKind::Borders, CtrKind::Buckets, CtrKind::BinarizedTargetMeanValue, CtrKind::FloatTargetMeanValue, CtrKind::Counter]
        {
            for (class, prior) in [(0, 0.0), (1, 0.5), (2, 1.0)] {
                let ctr = Ctr { kind, class, prior };
                let sums = ctr.prefixes(&codes, 17, &order, &target);
                let totals = ctr.totals(&codes, 17, &order, &target);
                let most = totals.iter().map(|t| t.n).max().unwrap();
                for row in 0..n as u32 {
                    let place = order.iter().position(|r| *r == row);
                    let before = &order[..place.unwrap_or(order.len())];
                    let own: Vec<usize> = before.iter().map(|r| *r as usize).filter(|r| codes[*r] == codes[row as usize]).collect();
                    let class_of = |r: &usize| [-1.0, 0.5, 2.0].iter().filter(|b| y[*r] > **b).count();
                    let count = |test: &dyn Fn(usize) -> bool| own.iter().filter(|r| test(class_of(r))).count() as f64;
                    let s = match kind {
                        CtrKind::Borders => count(&|c| c > class as usize),
                        CtrKind::Buckets => count(&|c| c == class as usize),
                        CtrKind::BinarizedTargetMeanValue => own.iter().map(|r| class_of(r) as f64 / 3.0).sum(),
                        CtrKind::FloatTargetMeanValue => own.iter().map(|r| (y[*r] - low) / (high - low)).sum(),
                        CtrKind::Counter => own.len() as f64,
                    };
                    let expected = (s + prior) / if kind == CtrKind::Counter { most as f64 + 1.0 } else { own.len() as f64 + 1.0 };
                    let (numerator, denominator) = ctr.fraction(sums[row as usize], ctr.unit(target.count), most);
                    assert!((numerator / denominator - expected).abs() < 1e-7, "{ctr:?} {row}");
                }
            }
        }
    }

    #[test]
    fn codes_count_borders_below() {
        let ctr = Ctr { kind: CtrKind::Borders, class: 0, prior: 0.5 };
        let sums: Vec<Prefix> = (0..600u32).map(|i| Prefix { n: i, s: (i / 3) as u64 }).collect();
        let borders = ctr_borders(&ctr, &sums, 0..600, 1.0, 0, 15);
        let codes = ctr_codes(&ctr, &sums, 1.0, 0, &borders);
        for (s, code) in sums.iter().zip(codes) {
            let (n, d) = ctr.fraction(*s, 1.0, 0);
            assert_eq!(code as usize, borders.iter().filter(|b| n > **b * d).count());
        }
    }

    /// By place and by hash: the same numbers, those of first appearance.
    #[test]
    fn pairs_are_numbered_by_first_appearance() {
        let random = Random::new(9, Purpose::RowSample, 0);
        for cardinality in [3u64, 50_000] {
            let a: Vec<u32> = (0..2000).map(|i| (random.u64(i) % cardinality) as u32).collect();
            let b: Vec<u32> = (0..2000).map(|i| (random.u64(i + 5000) % 7) as u32).collect();
            let (codes, keys) = combine_pair(&a, &b, 7);
            let mut seen: Vec<(u32, u32)> = vec![];
            for i in 0..2000 {
                let expected = seen.iter().position(|p| *p == (a[i], b[i])).unwrap_or_else(|| {
                    seen.push((a[i], b[i]));
                    seen.len() - 1
                });
                assert_eq!(codes[i] as usize, expected);
            }
            assert!(keys.iter().zip(&seen).all(|(k, (a, b))| *k == *a as u64 * 7 + *b as u64));
        }
    }
}
