//! Likelihoods of an observation that is known to lie between two bounds, under the distributions of accelerated failure time models.
//!
//! Bounds are standardised: `z = (ln time - score) / scale`. An observation that was seen has two equal ones, one that was censored on the
//! right an upper bound of ∞, on the left a lower one of -∞. All is f64 of IEEE operations and [`math`] alone, so every
//! device computes the same bits; kernels/numerics/censored.cuh is the twin.

use crate::numerics::math::{self, exp64, ln64, sigmoid64, softplus64};
use serde::{Deserialize, Serialize};

/// The distribution of `(ln time - score) / scale`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Standard normal: times are log-normal.
    #[default]
    Normal,
    /// Standard logistic: times are log-logistic.
    Logistic,
    /// The smallest-extreme-value (Gumbel) distribution, `F(z) = 1 - exp(-exp(z))`: times are Weibull.
    Extreme,
}

impl Distribution {
    /// All of them; a kernel is told the index.
    pub const ALL: [Distribution; 3] = [Distribution::Normal, Distribution::Logistic, Distribution::Extreme];
}

/// What is beyond is as far as it: no density is left there.
const FAR: f64 = 1e6;

/// Bounds nearer than this are one.
const NARROW: f64 = 1e-3;

/// The largest logarithm of a cumulative hazard.
const LARGEST_LOG_HAZARD: f64 = 80.0;

/// √(2π) and its logarithm.
const ROOT_2_PI: f64 = 2.506_628_274_631_000_7;
const LN_ROOT_2_PI: f64 = 0.918_938_533_204_672_7;

/// `x` within `low..=high`; NaN stays.
#[inline(always)]
fn clamp(x: f64, low: f64, high: f64) -> f64 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// Computes the first and the second derivative of the negative logarithm of `F(upper) - F(lower)` (of the density where both are equal)
/// along a shift of both bounds to the left: with respect to the score they are these, divided by the scale and by its
/// square. The second is not negative but for rounding.
///
/// ```
/// use taiga_core::numerics::censored::{Distribution, derivatives};
/// // An observation that was seen: the residual's, as of squared error.
/// assert_eq!(derivatives(Distribution::Normal, 0.5, 0.5), (-0.5, 1.0));
/// // One of which nothing is known says nothing.
/// assert_eq!(derivatives(Distribution::Logistic, f64::NEG_INFINITY, f64::INFINITY), (0.0, 0.0));
/// ```
#[inline(always)]
pub fn derivatives(distribution: Distribution, lower: f64, upper: f64) -> (f64, f64) {
    match distribution {
        Distribution::Normal => normal(lower, upper),
        Distribution::Logistic => logistic(lower, upper),
        Distribution::Extreme => extreme(lower, upper),
    }
}

/// With `F` the logistic function, `(f(u) - f(l)) / (F(u) - F(l))` is `1 - F(u) - F(l)` for whatever bounds.
#[inline(always)]
fn logistic(lower: f64, upper: f64) -> (f64, f64) {
    let (below, beyond) = (sigmoid64(lower), sigmoid64(-upper));
    (beyond - below, below * sigmoid64(-lower) + beyond * sigmoid64(upper))
}

/// By the cumulative hazards `exp(z)` of both bounds and their difference `d`: `d / (exp(d) - 1) - exp(lower)`.
#[inline(always)]
fn extreme(lower: f64, upper: f64) -> (f64, f64) {
    let hazard = exp64(clamp(lower, -750.0, LARGEST_LOG_HAZARD));
    let more = exp64(clamp(upper, -750.0, LARGEST_LOG_HAZARD)) - hazard;
    // Beyond 700 nothing is left of it.
    let d = if upper > FAR { 700.0 } else { clamp(more, 0.0, 700.0) };
    // d / (exp(d) - 1), and that + d - 1; where d is small by their series in Bernoulli numbers.
    let s = d * d;
    let series = s * (1.0 / 12.0 + s * (-1.0 / 720.0 + s * (1.0 / 30240.0 + s * (-1.0 / 1_209_600.0 + s * (1.0 / 47_900_160.0)))));
    let e = exp64(-d);
    let ratio = d * e / (1.0 - e);
    let is_small = d < 1.0;
    let ratio = if is_small { 1.0 - 0.5 * d + series } else { ratio };
    let rest = if is_small { 0.5 * d + series } else { ratio + d - 1.0 };
    (ratio - hazard, hazard + ratio * rest)
}

/// By mean and variance of the normal distribution between the bounds: minus the mean, and 1 less the variance.
#[inline(always)]
fn normal(lower: f64, upper: f64) -> (f64, f64) {
    let (lower, upper) = (clamp(lower, -FAR, FAR), clamp(upper, -FAR, FAR));
    // Mirrored where the middle is below 0.
    let is_mirrored = lower + upper < 0.0;
    let (l, u) = if is_mirrored { (-upper, -lower) } else { (lower, upper) };
    let (mean, curvature) = if u - l < NARROW {
        (0.5 * (l + u), 1.0)
    } else if l >= 0.0 {
        // In units of the density at the lower bound, which may be too small for a float.
        let ratio = exp64(-0.5 * ((u - l) * (u + l)));
        let inside = mills(l) - ratio * mills(u);
        let mean = (1.0 - ratio) / inside;
        (mean, mean * mean - (l - u * ratio) / inside)
    } else {
        let (low, high) = (density(l), density(u));
        let inside = 1.0 - low * mills(-l) - high * mills(u);
        let mean = (low - high) / inside;
        (mean, mean * mean - (l * low - u * high) / inside)
    };
    (if is_mirrored { mean } else { -mean }, curvature)
}

/// The standard normal density.
#[inline(always)]
fn density(z: f64) -> f64 {
    exp64(-0.5 * (z * z)) / ROOT_2_PI
}

/// Computes Mills' ratio of a number that is not negative: the normal distribution's share beyond it, over its density there. A polynomial
/// in `(z - 4) / (z + 4)`, fitted to scipy's `erfcx` at Chebyshev's points; relative error below 1e-14.
///
/// ```
/// let half = taiga_core::numerics::censored::mills(0.0) / f64::sqrt(2.0 * std::f64::consts::PI);
/// assert!((half - 0.5).abs() < 1e-14);
/// ```
#[inline(always)]
pub fn mills(z: f64) -> f64 {
    const COEFFICIENTS: [f64; 21] = [
        1.713040866951902e-8,
        3.222751917909272e-8,
        -1.4287029159813716e-7,
        -3.6873243687703373e-7,
        5.908352423330579e-7,
        2.5263908747793027e-6,
        -1.5064135376439968e-6,
        -1.4809383070516329e-5,
        1.7593740328068227e-6,
        8.807875966683055e-5,
        -4.77100200175052e-6,
        -5.792639937993353e-4,
        3.342420736631104e-4,
        4.087854681239098e-3,
        -8.722294966542102e-3,
        -1.890045075773466e-2,
        1.5139176229353526e-1,
        -4.6754096300334574e-1,
        9.704095548680107e-1,
        -1.52377091081991,
        1.8932190633084862,
    ];
    let y = (z - 4.0) / (z + 4.0);
    COEFFICIENTS.iter().fold(0.0, |p, c| p * y + c) / (z + 4.0)
}

/// Computes the logarithm of `F(upper) - F(lower)`, or of the density where both are equal; -∞ where nothing is left of either.
///
/// ```
/// use taiga_core::numerics::censored::{Distribution, log_likelihood};
/// assert_eq!(log_likelihood(Distribution::Logistic, 0.0, f64::INFINITY), -std::f64::consts::LN_2);
/// assert!((log_likelihood(Distribution::Extreme, 1.0, f64::INFINITY) + std::f64::consts::E).abs() < 1e-15);
/// ```
pub fn log_likelihood(distribution: Distribution, lower: f64, upper: f64) -> f64 {
    if lower == upper {
        return match distribution {
            Distribution::Normal => -0.5 * lower * lower - LN_ROOT_2_PI,
            Distribution::Logistic => -softplus64(lower) - softplus64(-lower),
            Distribution::Extreme => lower - exp64(lower),
        };
    }
    // The logarithm of 1 - exp(-x).
    let log_rest = |x: f64| ln64(-libm::expm1(-x));
    match distribution {
        Distribution::Normal => normal_share(lower, upper),
        Distribution::Logistic => log_rest(upper - lower) - softplus64(-upper) - softplus64(lower),
        Distribution::Extreme => {
            let hazard = exp64(lower);
            let more = if lower == f64::NEG_INFINITY { exp64(upper) } else { hazard * libm::expm1(upper - lower) };
            log_rest(more) - hazard
        }
    }
}

/// The logarithm of the normal distribution's share between two bounds.
fn normal_share(lower: f64, upper: f64) -> f64 {
    let (lower, upper) = (clamp(lower, -FAR, FAR), clamp(upper, -FAR, FAR));
    let (l, u) = if lower + upper < 0.0 { (-upper, -lower) } else { (lower, upper) };
    let at = |z: f64| -0.5 * z * z - LN_ROOT_2_PI;
    if u - l < NARROW {
        return at(0.5 * (l + u)) + ln64(u - l);
    }
    if l >= 0.0 {
        return at(l) + ln64(mills(l) - exp64(-0.5 * ((u - l) * (u + l))) * mills(u));
    }
    ln64(1.0 - density(l) * mills(-l) - density(u) * mills(u))
}

/// Computes the share of a distribution beyond `z`: what survives.
///
/// ```
/// use taiga_core::numerics::censored::{Distribution, survival};
/// assert!(Distribution::ALL.iter().all(|d| survival(*d, -1e9) == 1.0 && survival(*d, 1e9) == 0.0));
/// assert!((survival(Distribution::Normal, 0.0) - 0.5).abs() < 1e-14);
/// ```
pub fn survival(distribution: Distribution, z: f64) -> f64 {
    match distribution {
        Distribution::Normal => {
            let z = clamp(z, -FAR, FAR);
            let beyond = density(z) * mills(z.abs());
            if z < 0.0 { 1.0 - beyond } else { beyond }
        }
        Distribution::Logistic => math::sigmoid64(-z),
        Distribution::Extreme => exp64(-exp64(z)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bounds of every kind of censoring.
    fn bounds() -> impl Strategy<Value = (f64, f64)> {
        let z = -6.0..6.0f64;
        prop_oneof![
            z.clone().prop_map(|z| (z, z)),
            z.clone().prop_map(|z| (z, f64::INFINITY)),
            z.clone().prop_map(|z| (f64::NEG_INFINITY, z)),
            (z, 0.01..4.0f64).prop_map(|(z, width)| (z, z + width)),
        ]
    }

    proptest! {
        /// Derivatives are those of the log likelihood, by differences.
        #[test]
        fn derivatives_are_those_of_the_likelihood((lower, upper) in bounds(), which in 0usize..3) {
            let distribution = Distribution::ALL[which];
            let step = 1e-4;
            let at = |shift: f64| -log_likelihood(distribution, lower - shift, upper - shift);
            let (first, second) = derivatives(distribution, lower, upper);
            let slope = (at(step) - at(-step)) / (2.0 * step);
            prop_assert!((first - slope).abs() < 1e-6 * (1.0 + slope.abs()), "{distribution:?} {lower} {upper}: {first} {slope}");
            let (ahead, behind) = (derivatives(distribution, lower - step, upper - step), derivatives(distribution, lower + step, upper + step));
            let curvature = (ahead.0 - behind.0) / (2.0 * step);
            prop_assert!((second - curvature).abs() < 2e-5 * (1.0 + second.abs()), "{distribution:?} {lower} {upper}: {second} {curvature}");
            prop_assert!(second >= -1e-9);
        }

        /// The share between two bounds is that beyond the lower less that beyond the upper one.
        #[test]
        fn likelihoods_are_shares((lower, upper) in bounds(), which in 0usize..3) {
            let distribution = Distribution::ALL[which];
            if lower < upper {
                let share = survival(distribution, lower) - survival(distribution, upper);
                let found = log_likelihood(distribution, lower, upper).exp();
                prop_assert!((share - found).abs() < 1e-12, "{distribution:?} {lower} {upper}: {share} {found}");
            }
        }

        /// Nothing is infinite or no number, however far the bounds are.
        #[test]
        fn derivatives_are_finite(lower in prop::num::f64::NORMAL, width in prop_oneof![Just(0.0), Just(f64::INFINITY), 0.0..1e9f64], which in 0usize..3) {
            let (first, second) = derivatives(Distribution::ALL[which], lower, lower + width);
            prop_assert!(first.is_finite() && second.is_finite(), "{lower} {width}: {first} {second}");
        }
    }
}
