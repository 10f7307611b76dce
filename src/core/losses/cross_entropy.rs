//! Cross entropy with probabilities as targets.

use super::pointwise::{Pointwise, SMALLEST_HESSIAN};
use super::{Formula, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::numerics::math;
use crate::numerics::reduce::weighted_mean;
use crate::objective::Link;

pub(super) const ENTRY: LossEntry =
    LossEntry { target: LossTarget::Numbers, formula: "cross_entropy", groups: false, make: |_| Box::new(CrossEntropy) };

/// `-y ln p - (1 - y) ln(1 - p)` with `p = 1 / (1 + exp(-score))`: gradient `p - y`, hessian
/// `p (1 - p)`, not below 10⁻¹⁶.
pub(super) struct CrossEntropy;

/// The smallest share of a class that a start value admits (as in LightGBM).
pub(super) const SMALLEST_SHARE: f64 = 1e-15;

impl CrossEntropy {
    /// The log odds of a probability that is kept 10⁻¹⁵ away from 0 and 1.
    pub(super) fn log_odds(probability: f64) -> f64 {
        let p = probability.clamp(SMALLEST_SHARE, 1.0 - SMALLEST_SHARE);
        libm::log(p / (1.0 - p))
    }
}

impl Pointwise for CrossEntropy {
    #[inline(always)]
    fn at(&self, score: f32, target: f32) -> (f32, f32) {
        let (low, high) = math::sigmoid_pair(score);
        let (p, q) = if score < 0.0 { (low, high) } else { (high, low) };
        let hessian = low * high;
        // p - y without cancellation: near p = y = 1 the gradient keeps its digits.
        ((1.0 - target) * p - target * q, if hessian < SMALLEST_HESSIAN { SMALLEST_HESSIAN } else { hessian })
    }
}

impl Loss for CrossEntropy {
    fn derivatives(&self, _output: usize, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]) {
        Pointwise::derivatives(self, rows, gradient, hessian);
    }

    fn formula(&self, _output: usize) -> Formula {
        Formula::new(ENTRY.formula)
    }

    /// The log odds of the mean target.
    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64> {
        vec![CrossEntropy::log_odds(weighted_mean(target, weight))]
    }

    fn link(&self) -> Link {
        Link::Sigmoid
    }

    fn metric(&self) -> MetricKind {
        MetricKind::CrossEntropy
    }

    fn check_target(&self, target: f64) -> Result<(), &'static str> {
        if (0.0..=1.0).contains(&target) { Ok(()) } else { Err("loss=\"cross_entropy\" needs probabilities, from 0 to 1") }
    }
}
