//! Gamma regression.

use super::log_link;
use super::log_link::LARGEST_TARGET;
use super::pointwise::Pointwise;
use super::{Formula, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::objective::Link;

pub(super) const ENTRY: LossEntry = LossEntry { target: LossTarget::Numbers, formula: "gamma", groups: false, make: |_| Box::new(Gamma) };

/// `score + target · exp(-score)`, the negative log-likelihood of a gamma distribution with mean
/// exp(score). Gradient `1 - target · exp(-score)`; hessian `(1 + target · exp(-score)) / 2`, for
/// reasons that `log_link` gives.
pub(super) struct Gamma;

impl Pointwise for Gamma {
    #[inline(always)]
    fn at(&self, score: f32, target: f32) -> (f32, f32) {
        log_link::from_parts(target * log_link::exp_finite(-score), 1.0)
    }
}

impl Loss for Gamma {
    fn derivatives(&self, _output: usize, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]) {
        Pointwise::derivatives(self, rows, gradient, hessian);
    }

    fn formula(&self, _output: usize) -> Formula {
        Formula::new(ENTRY.formula)
    }

    /// The logarithm of the weighted mean.
    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64> {
        log_link::start(target, weight)
    }

    fn link(&self) -> Link {
        Link::Exp
    }

    fn metric(&self) -> MetricKind {
        MetricKind::Gamma
    }

    fn check_target(&self, target: f64) -> Result<(), &'static str> {
        if target > 0.0 && target <= LARGEST_TARGET { Ok(()) } else { Err("loss=\"gamma\" needs a positive number (up to 1e30)") }
    }
}
