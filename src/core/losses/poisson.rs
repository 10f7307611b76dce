//! Poisson regression.

use super::log_link;
use super::log_link::LARGEST_TARGET;
use super::pointwise::Pointwise;
use super::{Formula, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::objective::Link;

pub(super) const ENTRY: LossEntry =
    LossEntry { target: LossTarget::Numbers, formula: "poisson", groups: false, make: |_| Box::new(Poisson) };

/// `exp(score) - target · score`, the negative log-likelihood of counts (or of any target that is
/// not negative) with mean exp(score). Gradient `exp(score) - target`; hessian
/// `(exp(score) + target) / 2`, for reasons that `log_link` gives.
pub(super) struct Poisson;

impl Pointwise for Poisson {
    #[inline(always)]
    fn at(&self, score: f32, target: f32) -> (f32, f32) {
        log_link::from_parts(target, log_link::exp_finite(score))
    }
}

impl Loss for Poisson {
    fn derivatives(&self, _output: usize, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]) {
        Pointwise::derivatives(self, rows, gradient, hessian);
    }

    fn formula(&self, _output: usize) -> Formula {
        Formula::new(ENTRY.formula)
    }

    fn scale_power(&self) -> Option<f64> {
        Some(1.0)
    }

    /// The logarithm of the weighted mean.
    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64> {
        log_link::start(target, weight)
    }

    fn link(&self) -> Link {
        Link::Exp
    }

    fn metric(&self) -> MetricKind {
        MetricKind::Poisson
    }

    fn check_target(&self, target: f64) -> Result<(), &'static str> {
        if (0.0..=LARGEST_TARGET).contains(&target) { Ok(()) } else { Err("loss=\"poisson\" needs zero or a positive number (up to 1e30)") }
    }
}
