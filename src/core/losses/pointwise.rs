//! The loop over rows that all losses with one score share, as vector code.

use super::Rows;
use multiversion::multiversion;

/// A loss of one score, one row at a time.
pub(super) trait Pointwise {
    /// Gradient and hessian of a row of weight 1: finite for every score, the hessian positive.
    /// Free of branches, so that the loop over rows becomes vector code.
    fn at(&self, score: f32, target: f32) -> (f32, f32);

    /// [`super::Loss::derivatives`] by [`Pointwise::at`].
    fn derivatives(&self, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32])
    where
        Self: Sized,
    {
        let scores = rows.scores[0];
        match rows.weight {
            None => plain(self, scores, rows.target, gradient, hessian),
            Some(weight) => weighted(self, scores, rows.target, weight, gradient, hessian),
        }
    }
}

/// The smallest hessian of a row of weight 1, as in XGBoost: a leaf never divides by zero.
pub(super) const SMALLEST_HESSIAN: f32 = 1e-16;

/// `x` within the finite numbers.
#[inline(always)]
pub(super) fn finite(x: f32) -> f32 {
    clamp(x, -f32::MAX, f32::MAX)
}

/// `x` within `low..=high`. By comparisons, since `f32::min` leaves the sign of a zero open.
#[inline(always)]
pub(super) fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn plain<P: Pointwise>(loss: &P, scores: &[f32], target: &[f32], gradient: &mut [f32], hessian: &mut [f32]) {
    for (((s, t), g), h) in scores.iter().zip(target).zip(gradient).zip(hessian) {
        (*g, *h) = loss.at(*s, *t);
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn weighted<P: Pointwise>(loss: &P, scores: &[f32], target: &[f32], weight: &[f32], gradient: &mut [f32], hessian: &mut [f32]) {
    for ((((s, t), w), g), h) in scores.iter().zip(target).zip(weight).zip(gradient).zip(hessian) {
        let (a, b) = loss.at(*s, *t);
        (*g, *h) = (finite(a * *w), finite(b * *w));
    }
}

/// Multiplies the derivatives of rows of weight 1 by what rows weigh.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
pub(super) fn weigh(weight: &[f32], gradient: &mut [f32], hessian: &mut [f32]) {
    for ((w, g), h) in weight.iter().zip(gradient).zip(hessian) {
        (*g, *h) = (finite(*g * *w), finite(*h * *w));
    }
}
