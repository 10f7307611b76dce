//! Huber's loss.

use super::pointwise::{Pointwise, clamp};
use super::{Formula, Location, Loss, LossEntry, LossTarget, Rows, location};
use crate::metrics::MetricKind;
use crate::objective::Link;

pub(super) const ENTRY: LossEntry = LossEntry {
    target: LossTarget::Numbers,
    formula: "huber",
    groups: false,
    make: |s| Box::new(Huber::new(s.params.huber_delta / s.unit)),
};

/// Squared error up to `delta`, absolute error beyond (Huber 1964): `r² / 2` where
/// `|r| <= delta`, else `delta (|r| - delta / 2)`, with `r = score - target`. Gradient: `r` kept
/// within ±delta; the hessian counts as 1 everywhere, which bounds the true one from above, so
/// that a leaf's step never overshoots (as in LightGBM).
pub(super) struct Huber {
    delta: f64,
    delta32: f32,
}

impl Huber {
    /// `delta` in units of the targets.
    pub(super) fn new(delta: f64) -> Self {
        Huber { delta, delta32: delta.clamp(f32::MIN_POSITIVE as f64, f32::MAX as f64) as f32 }
    }
}

impl Pointwise for Huber {
    #[inline(always)]
    fn at(&self, score: f32, target: f32) -> (f32, f32) {
        (clamp(score - target, -self.delta32, self.delta32), 1.0)
    }
}

impl Loss for Huber {
    fn derivatives(&self, _output: usize, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]) {
        Pointwise::derivatives(self, rows, gradient, hessian);
    }

    fn formula(&self, _output: usize) -> Formula {
        Formula { a: self.delta32, ..Formula::new(ENTRY.formula) }
    }

    fn constant_hessian(&self) -> bool {
        true
    }

    fn location(&self) -> Location {
        Location::Scaled
    }

    /// The minimiser.
    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64> {
        vec![location::minimiser(target, weight, self.delta, |r| r.clamp(-1.0, 1.0), |r| if r.abs() < 1.0 { 1.0 } else { 0.0 })]
    }

    fn link(&self) -> Link {
        Link::Identity
    }

    fn metric(&self) -> MetricKind {
        MetricKind::Huber
    }
}
