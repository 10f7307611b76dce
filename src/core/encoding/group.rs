//! Sums over the rows of each category: in tables with a cell for each category (and fold) where
//! these are small beside the rows, else over rows sorted by category.
//!
//! Sums are integers ([`super::statistic`]), so the two give the same bits.

use super::buckets::Word;
use super::sort::{pair, sort_pairs};
use super::statistic::{Moments, Statistic};
use crate::column::distinct::shares;
use crate::parallel::interrupt::pieces;
use crate::parallel::numbered;
use rayon::prelude::*;

/// Memory of the tables of all threads together, in bytes a row; more and fewer threads get one.
const TABLE_BYTES: usize = 16;
/// Tables up to this size are always fine.
const SMALL: usize = 1 << 20;

/// The prior of encoded values, and how much it weighs.
#[derive(Clone, Copy, Debug)]
pub struct Smoothing {
    /// The prior's weight in units of the statistic; `None`: by empirical Bayes.
    pub weight: Option<f64>,
    /// In units of the statistic, and so are the others.
    pub prior: f64,
    /// The target's variance.
    pub variance: f64,
    /// What the squares are distances from.
    pub centre: f64,
    /// What a target of 1 is in units, and a weight of 1.
    pub scale: f64,
    pub weight_scale: f64,
}

impl Smoothing {
    /// Returns the encoded value from sums over a category's rows.
    #[inline(always)]
    pub fn value(&self, m: Moments) -> f64 {
        let value = match self.weight {
            // Not by the formula, so that what was never seen has the prior to the last bit.
            _ if m.weight <= 0.0 => self.prior,
            Some(weight) => (m.target + self.prior * weight) / (m.weight + weight),
            None => self.empirical_bayes(m),
        };
        // A zero is +0.0, whatever it was made from.
        value / self.scale + 0.0
    }

    /// Computes the value by scikit-learn's `smooth="auto"` (Micci-Barreca 2001): the category's mean counts by how
    /// little its rows differ beside how much all rows do.
    fn empirical_bayes(&self, m: Moments) -> f64 {
        let mean = m.target / m.weight;
        let within = variance(m, self.centre);
        let between = self.variance * m.weight / self.weight_scale;
        if between + within == 0.0 {
            return self.prior;
        }
        let lambda = between / (between + within);
        lambda * mean + (1.0 - lambda) * self.prior
    }
}

/// Returns the variance of rows with these sums, in which squares are distances from `centre`; 0 where it is what rounding makes
/// of equal targets.
pub(super) fn variance(m: Moments, centre: f64) -> f64 {
    const NOISE: f64 = 1.0 / (1u64 << 46) as f64;
    let offset = m.target / m.weight - centre;
    let square = m.squares / m.weight;
    let variance = square - offset * offset;
    if variance > square * NOISE { variance } else { 0.0 }
}

/// Returns how many shares of the rows may have a table of `cells` each.
pub(super) fn tables_for<S: Statistic>(rows: usize, cells: usize) -> usize {
    let budget = (rows * TABLE_BYTES).max(SMALL * rayon::current_num_threads());
    (budget / cells.saturating_mul(size_of::<S::Sum>()).max(1)).clamp(1, rows.div_ceil(shares(rows)).max(1))
}

/// Returns whether a table of `cells` is small enough to be looked at in any order.
pub(super) fn is_small<S: Statistic>(_: &S, cells: usize) -> bool {
    cells.saturating_mul(size_of::<S::Sum>()) <= 4 * SMALL
}

/// Sums the statistic over the rows of each cell.
pub(super) fn totals<S: Statistic>(statistic: &S, rows: usize, cells: usize, cell: impl Fn(usize) -> usize + Sync) -> Vec<S::Sum> {
    let share = rows.div_ceil(tables_for::<S>(rows, cells)).max(1);
    let table = |i: usize| {
        let mut table = vec![S::Sum::default(); cells];
        for rows in pieces(i * share..rows.min((i + 1) * share)) {
            rows.for_each(|row| table[cell(row)] += statistic.of(row));
        }
        table
    };
    let mut tables: Vec<Vec<S::Sum>> = numbered::map(rows.div_ceil(share), 1, table);
    let Some(mut first) = tables.pop() else { return vec![S::Sum::default(); cells] };
    if !tables.is_empty() {
        const PART: usize = 1 << 12;
        numbered::for_each_chunk(&mut first, PART, |i, part| {
            for table in &tables {
                for (sum, other) in part.iter_mut().zip(&table[i * PART..]) {
                    *sum += *other;
                }
            }
        });
    }
    first
}

/// Returns (category, row) pairs sorted by category, then by row.
pub(super) fn sorted_rows(codes: &[u32], categories: usize) -> Vec<u64> {
    let pairs = (0..codes.len()).into_par_iter().map(|row| pair(codes[row], row as u32)).collect();
    sort_pairs(pairs, categories as u64)
}

/// Calls `visit` with the rows of each category, on all threads.
fn for_categories(sorted: &[u64], visit: impl Fn(&[u64]) + Sync) {
    let parts = 4 * rayon::current_num_threads();
    // Cut where a category ends.
    let cut = |i: usize| {
        let at = i * sorted.len() / parts;
        let Some(code) = at.checked_sub(1).map(|before| sorted[before] >> 32) else { return 0 };
        at + sorted[at..].partition_point(|p| p >> 32 == code)
    };
    numbered::for_each(parts, 1, &|i| sorted[cut(i)..cut(i + 1)].chunk_by(|a, b| a >> 32 == b >> 32).for_each(&visit));
}

/// Adds to `out` each row's value from the rows of its category in other folds, over sorted rows; `smoothing` has
/// an entry for each fold.
pub(super) fn folds_sorted<S: Statistic>(statistic: &S, sorted: &[u64], folds: &[u32], smoothing: &[Smoothing], out: &mut [f64]) {
    let out = f64::shared(out);
    for_categories(sorted, |rows| {
        let row = |p: &u64| *p as u32 as usize;
        let mut all = S::Sum::default();
        // Few rows against many folds, or the other way round: a list in order of the folds.
        let mut by_fold: Vec<(u32, S::Sum)> = rows.iter().map(|p| (folds[row(p)], statistic.of(row(p)))).collect();
        by_fold.sort_unstable_by_key(|x| x.0);
        by_fold.dedup_by(|next, sum| {
            let same = next.0 == sum.0;
            if same {
                sum.1 += next.1;
            }
            same
        });
        for (_, sum) in &by_fold {
            all += *sum;
        }
        for row in rows.iter().map(row) {
            let at = by_fold.binary_search_by_key(&folds[row], |x| x.0).unwrap_or_default();
            let mut others = all;
            others -= by_fold[at].1;
            f64::store(&out[row], smoothing[folds[row] as usize].value(statistic.read(others)));
        }
    });
}
