//! The logarithm of the hyperbolic cosine.

use super::pointwise::{Pointwise, SMALLEST_HESSIAN, clamp, finite};
use super::{Formula, Location, Loss, LossEntry, LossTarget, Rows, location};
use crate::metrics::MetricKind;
use crate::numerics::math;
use crate::objective::Link;

pub(super) const ENTRY: LossEntry =
    LossEntry { target: LossTarget::Numbers, formula: "log_cosh", groups: false, make: |s| Box::new(LogCosh::new(s.unit)) };

/// `ln cosh r` with `r = score - target`: `r² / 2` for small residuals, `|r| - ln 2` for those far beyond 1, in the target's unit.
/// The gradient is `tanh r`. The hessian is `tanh r / r`, the curvature of the parabola that touches the loss at `r` and `-r` and
/// lies above it everywhere else (`ln cosh` is a concave function of `r²`; de Leeuw and Lange, "Sharp quadratic majorization in
/// one dimension", 2009), so that no leaf's step overshoots. By the second derivative `1 / cosh² r`, which vanishes exponentially,
/// steps of rows that are far away would have no bound.
pub(super) struct LogCosh {
    /// What scores are in units of, and one divided by it.
    unit: f32,
    inverse: f32,
}

impl LogCosh {
    pub(super) fn new(unit: f64) -> Self {
        // Powers of two that have a reciprocal among the normal numbers.
        let unit = unit.clamp(f32::MIN_POSITIVE as f64, 1.0 / f32::MIN_POSITIVE as f64) as f32;
        LogCosh { unit, inverse: 1.0 / unit }
    }
}

/// `tanh r / r`, at least 10⁻¹⁶: below 0.625 by [`math::tanh_near`], above by `exp`.
#[inline(always)]
fn tanh_ratio(r: f32) -> f32 {
    let size = r.abs();
    let square = clamp(r * r, 0.0, 1.0);
    let near = math::tanh_near(square);
    let e = math::exp(-2.0 * size);
    let far = (1.0 - e) / (1.0 + e) / clamp(size, 0.5, f32::MAX);
    let ratio = if size < 0.625 { near } else { far };
    if ratio < SMALLEST_HESSIAN { SMALLEST_HESSIAN } else { ratio }
}

impl Pointwise for LogCosh {
    #[inline(always)]
    fn at(&self, score: f32, target: f32) -> (f32, f32) {
        let r = finite(finite(score - target) * self.unit);
        let ratio = tanh_ratio(r);
        let tanh = clamp(r * ratio, -1.0, 1.0);
        (finite(tanh * self.inverse), ratio)
    }
}

impl Loss for LogCosh {
    fn derivatives(&self, _output: usize, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]) {
        Pointwise::derivatives(self, rows, gradient, hessian);
    }

    fn formula(&self, _output: usize) -> Formula {
        Formula { a: self.unit, b: self.inverse, ..Formula::new(ENTRY.formula) }
    }

    fn location(&self) -> Location {
        Location::Scaled
    }

    /// The minimiser. (Targets are as they are, in no unit.)
    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64> {
        let curvature = |r: f64| 1.0 / libm::pow(libm::cosh(r), 2.0);
        vec![location::minimiser(target, weight, 1.0, libm::tanh, curvature)]
    }

    fn link(&self) -> Link {
        Link::Identity
    }

    fn metric(&self) -> MetricKind {
        MetricKind::LogCosh
    }
}
