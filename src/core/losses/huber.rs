//! Huber's loss.

use super::pointwise::{Pointwise, clamp};
use super::{Formula, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::numerics::reduce::{sum, weighted_quantile};
use crate::objective::Link;

pub(super) const ENTRY: LossEntry =
    LossEntry { target: LossTarget::Numbers, formula: "huber", make: |s| Box::new(Huber::new(s.params.huber_delta / s.unit)) };

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

    fn formula(&self) -> Formula {
        Formula { a: self.delta32, ..Formula::new(ENTRY.formula) }
    }

    fn constant_hessian(&self) -> bool {
        true
    }

    fn location(&self) -> bool {
        true
    }

    /// The minimiser, by Newton's method from the weighted median on, kept inside a bracket that
    /// shrinks with each step: a few passes over the targets.
    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64> {
        let n = target.len();
        let mut at = weighted_quantile(target, weight, 0.5);
        let weight = |i: usize| weight.map_or(1.0, |w| w[i] as f64);
        let counted = (0..n).filter(|i| weight(*i) > 0.0).map(|i| target[i]);
        let (mut low, mut high) = counted.fold((at, at), |(a, b), y| (a.min(y), b.max(y)));
        for _ in 0..60 {
            // Derivatives of Σ weight · loss / delta², with residuals in units of delta.
            let residual = |i: usize| (at - target[i]) / self.delta;
            let slope = sum(n, |i| weight(i) * residual(i).clamp(-1.0, 1.0));
            let curvature = sum(n, |i| if residual(i).abs() < 1.0 { weight(i) } else { 0.0 });
            if slope == 0.0 {
                break;
            }
            if slope > 0.0 {
                high = at
            } else {
                low = at
            }
            let newton = at - self.delta * (slope / curvature);
            let next = if newton > low && newton < high { newton } else { low * 0.5 + high * 0.5 };
            let done = (next - at).abs() <= 1e-14 * at.abs();
            at = next;
            if done {
                break;
            }
        }
        vec![at]
    }

    fn link(&self) -> Link {
        Link::Identity
    }

    fn metric(&self) -> MetricKind {
        MetricKind::Huber
    }
}
