//! Pinball loss.

use super::pointwise::Pointwise;
use super::{Formula, LeafRule, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::numerics::reduce::weighted_quantile;
use crate::objective::Link;

pub(super) const ENTRY: LossEntry =
    LossEntry { target: LossTarget::Numbers, formula: "quantile", make: |s| Box::new(Quantile::new(s.params.alpha)) };

/// `alpha · (target - score)` below the target, `(1 - alpha) · (score - target)` above it: the
/// gradient is `-alpha` below, `1 - alpha` above, 0 where they are equal; the hessian counts as 1,
/// and each leaf's value is refitted as the `alpha`-quantile of its residuals, as in LightGBM. The
/// model estimates that quantile (Koenker and Bassett 1978).
pub(super) struct Quantile {
    alpha: f64,
    below: f32,
    above: f32,
}

impl Quantile {
    pub(super) fn new(alpha: f64) -> Self {
        Quantile { alpha, below: -alpha as f32, above: (1.0 - alpha) as f32 }
    }
}

impl Pointwise for Quantile {
    #[inline(always)]
    fn at(&self, score: f32, target: f32) -> (f32, f32) {
        let above = if score > target { self.above } else { 0.0 };
        (if score < target { self.below } else { above }, 1.0)
    }
}

impl Loss for Quantile {
    fn derivatives(&self, _output: usize, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]) {
        Pointwise::derivatives(self, rows, gradient, hessian);
    }

    fn formula(&self) -> Formula {
        Formula { a: self.below, b: self.above, ..Formula::new(ENTRY.formula) }
    }

    fn constant_hessian(&self) -> bool {
        true
    }

    fn location(&self) -> bool {
        true
    }

    /// The weighted quantile.
    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64> {
        vec![weighted_quantile(target, weight, self.alpha)]
    }

    fn link(&self) -> Link {
        Link::Identity
    }

    fn leaf_rule(&self) -> LeafRule {
        LeafRule::Quantile(self.alpha)
    }

    fn metric(&self) -> MetricKind {
        MetricKind::Quantile
    }
}
