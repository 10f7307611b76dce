//! Tweedie regression.

use super::log_link;
use super::log_link::LARGEST_TARGET;
use super::pointwise::Pointwise;
use super::{Formula, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::objective::Link;

pub(super) const ENTRY: LossEntry =
    LossEntry { target: LossTarget::Numbers, formula: "tweedie", groups: false, make: |s| Box::new(Tweedie::new(s.params.tweedie_power)) };

/// `exp((2-ρ) score) / (2-ρ) - target · exp((1-ρ) score) / (1-ρ)`, half the unit deviance of a
/// Tweedie distribution of power ρ inside (1, 2): zeros and positive numbers, such as insurance
/// claims. Gradient `b - a`, hessian `(a + b) / 2` with `a = target · exp((1-ρ) score)` and
/// `b = exp((2-ρ) score)`, for reasons that `log_link` gives.
pub(super) struct Tweedie {
    /// 1 - ρ and 2 - ρ.
    power: (f32, f32),
}

impl Tweedie {
    pub(super) fn new(power: f64) -> Self {
        Tweedie { power: ((1.0 - power) as f32, (2.0 - power) as f32) }
    }
}

impl Pointwise for Tweedie {
    #[inline(always)]
    fn at(&self, score: f32, target: f32) -> (f32, f32) {
        let a = target * log_link::exp_finite(self.power.0 * score);
        log_link::from_parts(a, log_link::exp_finite(self.power.1 * score))
    }
}

impl Loss for Tweedie {
    fn derivatives(&self, _output: usize, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]) {
        Pointwise::derivatives(self, rows, gradient, hessian);
    }

    fn formula(&self, _output: usize) -> Formula {
        Formula { a: self.power.0, b: self.power.1, ..Formula::new(ENTRY.formula) }
    }

    fn scale_power(&self) -> Option<f64> {
        Some(self.power.1 as f64)
    }

    /// The logarithm of the weighted mean.
    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64> {
        log_link::start(target, weight)
    }

    fn link(&self) -> Link {
        Link::Exp
    }

    fn metric(&self) -> MetricKind {
        MetricKind::Tweedie
    }

    fn check_target(&self, target: f64) -> Result<(), &'static str> {
        if (0.0..=LARGEST_TARGET).contains(&target) { Ok(()) } else { Err("loss=\"tweedie\" needs zero or a positive number (up to 1e30)") }
    }
}
