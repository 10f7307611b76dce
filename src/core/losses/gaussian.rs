//! The negative log likelihood of a normal distribution, whose mean and variance are both predicted.

use super::log_link::{LARGEST_SCORE, LARGEST_TARGET, exp_finite, from_parts};
use super::pointwise::{finite, weigh};
use super::{Formula, Location, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::numerics::reduce::{sum, total_weight, weighted_mean};
use crate::objective::Link;
use multiversion::multiversion;

pub(super) const ENTRY: LossEntry =
    LossEntry { target: LossTarget::Numbers, formula: "gaussian", groups: false, make: |_| Box::new(Gaussian) };

/// `s + r² / 2` with the scores `m`, the mean, and `s`, the logarithm of the standard deviation, and `r = (target - m) exp(-s)`.
///
/// The mean takes the natural gradient, the gradient divided by its Fisher information `exp(-2 s)`: `m - target` with hessian 1, those of squared
/// error, whatever the variance is thought to be (Duan et al., "NGBoost: Natural Gradient Boosting for Probabilistic Prediction",
/// 2020; CatBoost's `RMSEWithUncertainty`). So the mean is what `rmse` would predict, and regularisation has the same meaning.
/// `s` takes the gradient `1 - r²` and the hessian `1 + r²`, twice the mean of `r²` and of 1, for the reason that `log_link` gives: of a leaf
/// whose squares `r²` have the mean `R` the best step is `ln(R) / 2`, and this one, `(R - 1) / (R + 1)`, is right to third order and never
/// goes beyond it. (The Fisher information is 2.)
pub(super) struct Gaussian;

/// Gradient and hessian of the logarithm of the standard deviation.
#[inline(always)]
fn of_deviation(mean: f32, s: f32, target: f32) -> (f32, f32) {
    let r = finite(finite(target - mean) * exp_finite(-s));
    let (gradient, half) = from_parts(finite(r * r), 1.0);
    (gradient, finite(2.0 * half))
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn means(mean: &[f32], target: &[f32], gradient: &mut [f32], hessian: &mut [f32]) {
    for (((m, y), g), h) in mean.iter().zip(target).zip(gradient).zip(hessian) {
        (*g, *h) = (finite(*m - *y), 1.0);
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn deviations(mean: &[f32], s: &[f32], target: &[f32], gradient: &mut [f32], hessian: &mut [f32]) {
    for ((((m, s), y), g), h) in mean.iter().zip(s).zip(target).zip(gradient).zip(hessian) {
        (*g, *h) = of_deviation(*m, *s, *y);
    }
}

impl Loss for Gaussian {
    fn outputs(&self) -> usize {
        2
    }

    fn derivatives(&self, output: usize, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]) {
        match output {
            0 => means(rows.scores[0], rows.target, gradient, hessian),
            _ => deviations(rows.scores[0], rows.scores[1], rows.target, gradient, hessian),
        }
        if let Some(weight) = rows.weight {
            weigh(weight, gradient, hessian);
        }
    }

    fn formula(&self, _output: usize) -> Formula {
        Formula { classes: 2, ..Formula::new(ENTRY.formula) }
    }

    /// Of the mean alone: the unit of the targets is not that of `s`.
    fn location(&self) -> Location {
        Location::OfFirst
    }

    /// The weighted mean, and the logarithm of the standard deviation around it.
    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64> {
        let mean = weighted_mean(target, weight);
        let square = |i: usize| weight.map_or(1.0, |w| w[i] as f64) * (target[i] - mean) * (target[i] - mean);
        let total = total_weight(target.len(), weight);
        let variance = if total > 0.0 { sum(target.len(), square) / total } else { 1.0 };
        vec![mean, (0.5 * libm::log(variance)).clamp(-LARGEST_SCORE, LARGEST_SCORE)]
    }

    fn link(&self) -> Link {
        Link::MeanVariance
    }

    fn metric(&self) -> MetricKind {
        MetricKind::Gaussian
    }

    fn check_target(&self, target: f64) -> Result<(), &'static str> {
        if target.abs() <= LARGEST_TARGET { Ok(()) } else { Err("loss=\"gaussian\" needs a number from -1e30 to 1e30") }
    }
}

/// The derivatives of one row by scalar code, for the tests.
#[cfg(test)]
pub(super) fn scalar(output: usize, scores: &[f32], target: f32) -> (f32, f32) {
    if output == 0 { (finite(scores[0] - target), 1.0) } else { of_deviation(scores[0], scores[1], target) }
}
