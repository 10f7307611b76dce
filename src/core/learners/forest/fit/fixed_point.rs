//! Weights and targets of a forest as integers, whose sums are the same in any order.

use crate::dataset::target::TargetData;
use crate::learners::forest::impurity::RegressionImpurity;
use crate::learners::forest::table;
use crate::numerics::fixed::{factor, round64};
use crate::numerics::reduce::weighted_mean;

/// Bits that a number may have so that `draws` of them stay below 2^62.
fn bits(draws: usize, most: i32) -> i32 {
    let rows = usize::BITS - draws.next_power_of_two().leading_zeros() - 1;
    (62 - rows as i32).min(most)
}

/// Weights as integers, none of them 0 that is not 0; and what a unit is worth.
pub(super) fn fixed_weights(weight: &[f32], draws: usize) -> (Option<Vec<u32>>, f64) {
    let largest = weight.iter().fold(0.0f32, |m, w| m.max(*w));
    let factor = factor(largest.to_bits(), bits(draws, 31));
    let fixed = |w: &f32| if *w > 0.0 { round64(*w as f64 * factor).max(1) as u32 } else { 0 };
    (Some(weight.iter().map(fixed).collect()), 1.0 / factor)
}

/// A weight of fewer units than this is rounded by more than a part in 500: targets are multiplied by what it was rounded to.
const FEW_UNITS: u32 = 1 << 8;

/// The unit that gains are told in: 1 where f32 has room for the square of the largest distance from the centre (`poisson`:
/// for the distance), else an even power of two of about that size.
fn gain_unit(largest: f64, poisson: bool) -> f64 {
    let exponent = if largest > 0.0 { libm::ilogb(largest) } else { 0 };
    let unit = match poisson {
        true if (-100..=120).contains(&exponent) => 0,
        true => exponent.clamp(-1000, 1000),
        false if (-50..=63).contains(&exponent) => 0,
        false => 2 * exponent.clamp(-500, 500),
    };
    libm::ldexp(1.0, unit)
}

/// Targets in fixed point; none where they have no finite range.
pub(super) fn numbers(data: &TargetData, weights: Option<Vec<u32>>, unit: f64, draws: usize, poisson: bool) -> Option<RegressionImpurity> {
    let (target, weight) = (&data.values[..], data.weights.as_deref());
    let centre = if poisson { 0.0 } else { weighted_mean(target, weight) };
    let weigh = |i: usize| match (&weights, weight) {
        (Some(units), Some(_)) if units[i] < FEW_UNITS => units[i] as f64 * unit,
        (_, weight) => weight.map_or(1.0, |w| w[i] as f64),
    };
    let value = |i: usize| (target[i] - centre) * weigh(i);
    let largest = (0..target.len()).fold(0.0f64, |m, i| m.max(value(i).abs()));
    if !largest.is_finite() {
        return None;
    }
    let exponent = if largest > 0.0 { libm::ilogb(largest) + 1 } else { 0 };
    let scale = libm::ldexp(1.0, (bits(draws, 50) - exponent).clamp(-1000, 1000));
    let mut levels = vec![0u32; target.len()];
    table::ranks(target, &mut levels);
    let values = (0..target.len()).map(|i| round64(value(i) * scale)).collect();
    let distance = target.iter().fold(0.0f64, |m, y| m.max((y - centre).abs()));
    // A value is worth 1 / scale and a weight `unit`.
    let (unit, gain_unit) = (1.0 / (scale * unit), gain_unit(distance, poisson));
    Some(RegressionImpurity { values, levels, weights, unit, gain_unit, centre, poisson })
}
