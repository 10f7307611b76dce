//! Reductions over rows in fixed blocks.
//!
//! A float sum depends on its order. Here the order is laid down once: rows inside a block of
//! [`BLOCK`] from first to last, then the blocks from first to last. Block sums are independent
//! of each other, so they may be computed by any thread ([`block_sum`]) and are then added in
//! block order ([`add_in_order`]); the bits are those of [`sum`].

use crate::parallel::numbered;
use rayon::prelude::*;
use std::ops::Range;

/// The rows of a block: block borders never depend on chunks or threads.
pub const BLOCK: usize = 4096;

/// Rows from which on blocks are added by several threads.
const PARALLEL: usize = 1 << 18;

/// Returns the blocks of `n` rows, in order.
pub fn blocks(n: usize) -> impl ExactSizeIterator<Item = Range<usize>> + Clone {
    (0..n.div_ceil(BLOCK)).map(move |b| b * BLOCK..n.min((b + 1) * BLOCK))
}

/// Computes Σ `value(row)` over the rows of one block, in row order.
#[inline(always)]
pub fn block_sum(rows: Range<usize>, value: impl Fn(usize) -> f64) -> f64 {
    rows.fold(0.0, |total, row| total + value(row))
}

/// Returns the total of block sums that are given in block order.
pub fn add_in_order(block_sums: impl IntoIterator<Item = f64>) -> f64 {
    block_sums.into_iter().fold(0.0, |total, block| total + block)
}

/// Computes Σ `value(row)` over `0..n` in f64: inside a block in row order, then the blocks in their order.
///
/// ```
/// assert_eq!(taiga_core::numerics::reduce::sum(10_000, |row| row as f64), 49_995_000.0);
/// ```
pub fn sum(n: usize, value: impl Fn(usize) -> f64 + Sync) -> f64 {
    sum_blocks(n, |rows| block_sum(rows, &value))
}

/// Computes the total of what `of_block(rows)` gives for each block of `0..n`, in block order; on several threads where rows are many.
///
/// ```
/// assert_eq!(taiga_core::numerics::reduce::sum_blocks(10_000, |rows| rows.len() as f64), 10_000.0);
/// ```
pub fn sum_blocks(n: usize, of_block: impl Fn(Range<usize>) -> f64 + Sync) -> f64 {
    if n < PARALLEL { add_in_order(blocks(n).map(of_block)) } else { add_in_order(map_blocks(n, of_block)) }
}

/// Returns what `of_block(rows)` gives for each block of `0..n`, in block order; on several threads where rows are many.
pub fn map_blocks<T: Send>(n: usize, of_block: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
    if n < PARALLEL {
        return blocks(n).map(of_block).collect();
    }
    let of_number = |b: usize| of_block(b * BLOCK..n.min((b + 1) * BLOCK));
    numbered::map(n.div_ceil(BLOCK), 4, of_number)
}

/// Adds numbers in fixed point, so that no order of them leaves a trace: in units of a part in 2^88 of a power of two near the largest
/// of them, of which there may be 2^37.
///
/// ```
/// use taiga_core::numerics::reduce::FixedSum;
/// let fixed = FixedSum::new(0.25);
/// assert_eq!(fixed.value(fixed.term(0.25) + fixed.term(-0.125)), 0.125);
/// ```
#[derive(Clone, Copy)]
pub struct FixedSum {
    /// A power of two that makes the largest about 1.
    scale: f64,
}

/// What a number of about 1 is a multiple of.
const FIXED_UNIT: f64 = 1.0 / (1u128 << 88) as f64;

impl FixedSum {
    /// Makes one for numbers whose sizes are at most about `largest`.
    pub fn new(largest: f64) -> FixedSum {
        let exponent = if largest > 0.0 && largest.is_finite() { libm::ilogb(largest) } else { 0 };
        FixedSum { scale: libm::ldexp(1.0, -exponent.clamp(-1000, 1000)) }
    }

    /// Makes one for weights, each 1 where there are none.
    pub fn of_weights(weight: Option<&[f64]>) -> FixedSum {
        FixedSum::new(weight.map_or(1.0, |w| w.par_iter().with_min_len(PARALLEL).copied().reduce(|| 0.0, f64::max)))
    }

    /// Returns a number as a sum takes it.
    #[inline(always)]
    pub fn term(self, x: f64) -> i128 {
        (x * self.scale * (1.0 / FIXED_UNIT)) as i128
    }

    /// Returns what a sum of these is.
    pub fn value(self, sum: i128) -> f64 {
        sum as f64 * FIXED_UNIT / self.scale
    }
}

/// Returns the sum of the weights of `n` rows; `n` where there are no weights.
pub fn total_weight<W: Copy + Into<f64> + Sync>(n: usize, weight: Option<&[W]>) -> f64 {
    weight.map_or(n as f64, |w| sum(n, |i| w[i].into()))
}

/// Computes Σ weight · value / Σ weight, finite for finite values however large; 0 where there is no
/// weight at all.
///
/// ```
/// use taiga_core::numerics::reduce::weighted_mean;
/// assert_eq!(weighted_mean(&[1.0, 4.0], Some(&[2f32, 1.0])), 2.0);
/// assert_eq!(weighted_mean::<f32>(&[1.5e308, 1.5e308], None), 1.5e308);
/// ```
pub fn weighted_mean<W: Copy + Into<f64> + Sync>(values: &[f64], weight: Option<&[W]>) -> f64 {
    let n = values.len();
    let total = total_weight(n, weight);
    if total <= 0.0 {
        return 0.0;
    }
    let scaled = |unit: f64| match weight {
        Some(w) => sum(n, |i| w[i].into() * (values[i] * unit)) / total / unit,
        None => sum(n, |i| values[i] * unit) / total / unit,
    };
    let plain = scaled(1.0);
    // 2^-192: n times the largest weight times the largest value stays finite.
    if plain.is_finite() { plain } else { scaled(f64::from_bits((1023 - 192) << 52)) }
}

/// Returns the weighted quantile at `level` inside (0, 1): a value `v` that minimises Σ weight · pinball(value - v). That is the
/// smallest value at which the weights of the values up to it reach `level` of the total; where they reach it exactly, the middle
/// between that value and the next. Values must not be NaN; rows of weight 0 don't count; 0 where no row counts.
///
/// ```
/// use taiga_core::numerics::reduce::weighted_quantile;
/// assert_eq!(weighted_quantile(&[3.0, 1.0, 2.0], None, 0.5), 2.0);
/// assert_eq!(weighted_quantile(&[4.0, 1.0, 2.0, 3.0], None, 0.5), 2.5);
/// assert_eq!(weighted_quantile(&[3.0, 1.0, 2.0], Some(&[5.0, 1.0, 1.0]), 0.5), 3.0);
/// ```
pub fn weighted_quantile(values: &[f64], weight: Option<&[f32]>, level: f64) -> f64 {
    match weight {
        None => quantile(values.to_vec(), level),
        Some(w) => {
            let mut pairs: Vec<(f64, f32)> = values.iter().copied().zip(w.iter().copied()).filter(|p| p.1 > 0.0).collect();
            // By weight too, so that the order of the rows leaves no trace.
            pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            sorted_quantile(&pairs, level)
        }
    }
}

fn sorted_quantile(pairs: &[(f64, f32)], level: f64) -> f64 {
    let goal = level * pairs.iter().fold(0.0, |total, p| total + p.1 as f64);
    let mut reached = 0.0;
    for (i, p) in pairs.iter().enumerate() {
        reached += p.1 as f64;
        if reached >= goal {
            let next = if reached == goal { pairs.get(i + 1).unwrap_or(p) } else { p };
            return middle(p.0, next.0);
        }
    }
    pairs.last().map_or(0.0, |p| p.0)
}

/// Without weights no sort is needed, only a selection.
fn quantile(mut values: Vec<f64>, level: f64) -> f64 {
    let n = values.len();
    if n == 0 {
        return 0.0;
    }
    let goal = level * n as f64;
    let rank = (libm::ceil(goal) as usize).clamp(1, n);
    let (_, &mut value, above) = values.select_nth_unstable_by(rank - 1, f64::total_cmp);
    let next = if rank as f64 == goal { above.iter().copied().min_by(f64::total_cmp) } else { None };
    middle(value, next.unwrap_or(value))
}

/// Halfway, without overflow; `a` itself where both are equal.
pub fn middle(a: f64, b: f64) -> f64 {
    if a == b { a } else { a * 0.5 + b * 0.5 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::random::{Purpose, Random};
    use proptest::prelude::*;

    #[test]
    fn blocks_may_be_summed_anywhere() {
        let r = Random::new(1, Purpose::Rounding, 0);
        for n in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 17] {
            let value = |i: usize| r.unit(i as u64) * 1e10 - 1e9;
            // Backwards stands for "by other threads, in another order".
            let mut sums: Vec<f64> = blocks(n).collect::<Vec<_>>().into_iter().rev().map(|b| block_sum(b, value)).collect();
            sums.reverse();
            assert_eq!(add_in_order(sums).to_bits(), sum(n, value).to_bits());
            assert_eq!(blocks(n).map(|b| b.len()).sum::<usize>(), n);
            let naive: f64 = (0..n).map(value).sum();
            assert!((sum(n, value) - naive).abs() <= 1e-12 * (1.0 + naive.abs()));
        }
        assert_eq!(sum(0, |_| 1.0).to_bits(), 0.0f64.to_bits());
    }

    #[test]
    fn means_of_extremes_are_finite() {
        assert_eq!(weighted_mean::<f32>(&[], None), 0.0);
        assert_eq!(weighted_mean(&[3.0], Some(&[0f32])), 0.0);
        assert!((weighted_mean(&[1e300; 5000], Some(&[3e38f32; 5000])) / 1e300 - 1.0).abs() < 1e-12);
        assert!((weighted_mean::<f32>(&[1e-300; 7], None) / 1e-300 - 1.0).abs() < 1e-15);
        assert_eq!(weighted_mean::<f32>(&[f64::MAX, -f64::MAX], None), 0.0);
    }

    #[test]
    fn quantiles_of_edges() {
        assert_eq!(weighted_quantile(&[], None, 0.5), 0.0);
        assert_eq!(weighted_quantile(&[1.0], Some(&[0.0]), 0.5), 0.0);
        assert_eq!(weighted_quantile(&[7.0; 9], None, 0.3), 7.0);
        assert!((weighted_quantile(&[-1e308, 1.6e308, 1.7e308, 1.7e308], None, 0.5) / 1.65e308 - 1.0).abs() < 1e-15);
        assert_eq!(weighted_quantile(&[5.0, 1.0], Some(&[0.0, 1.0]), 0.9), 1.0);
    }

    proptest! {
        #[test]
        fn a_quantile_minimises_the_pinball_loss(rows in prop::collection::vec((-20i32..20, 0u8..4), 1..40), level in 0.02f64..0.98) {
            let values: Vec<f64> = rows.iter().map(|r| r.0 as f64).collect();
            let weight: Vec<f32> = rows.iter().map(|r| r.1 as f32).collect();
            let loss = |v: f64, w: &dyn Fn(usize) -> f64| (0..values.len())
                .map(|i| w(i) * if values[i] > v { level * (values[i] - v) } else { (1.0 - level) * (v - values[i]) }).sum::<f64>();
            let weighted = |i: usize| weight[i] as f64;
            let a = weighted_quantile(&values, Some(&weight), level);
            let b = weighted_quantile(&values, None, level);
            for v in &values {
                prop_assert!(loss(a, &weighted) <= loss(*v, &weighted) + 1e-9);
                prop_assert!(loss(b, &|_| 1.0) <= loss(*v, &|_| 1.0) + 1e-9);
            }
            prop_assert_eq!(weighted_quantile(&values, Some(&vec![1.0; values.len()]), level), b);
        }
    }
}
