//! Absolute error.

use super::pointwise::Pointwise;
use super::{Formula, LeafRule, Location, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::numerics::reduce::weighted_quantile;
use crate::objective::Link;

pub(super) const ENTRY: LossEntry = LossEntry { target: LossTarget::Numbers, formula: "mae", groups: false, make: |_| Box::new(Mae) };

/// `|score - target|`: the gradient is the sign of `score - target` (0 where they are equal), the
/// hessian counts as 1, and each leaf's value is refitted as the median of its residuals, as in
/// LightGBM. The model estimates the median.
pub(super) struct Mae;

impl Pointwise for Mae {
    #[inline(always)]
    fn at(&self, score: f32, target: f32) -> (f32, f32) {
        let above = if score > target { 1.0 } else { 0.0 };
        (if score < target { -1.0 } else { above }, 1.0)
    }
}

impl Loss for Mae {
    fn derivatives(&self, _output: usize, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]) {
        Pointwise::derivatives(self, rows, gradient, hessian);
    }

    fn formula(&self, _output: usize) -> Formula {
        Formula::new(ENTRY.formula)
    }

    fn constant_hessian(&self) -> bool {
        true
    }

    fn location(&self) -> Location {
        Location::Scaled
    }

    /// The weighted median.
    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64> {
        vec![weighted_quantile(target, weight, 0.5)]
    }

    fn link(&self) -> Link {
        Link::Identity
    }

    fn leaf_rule(&self, _output: usize) -> LeafRule {
        LeafRule::Quantile(0.5)
    }

    fn metric(&self) -> MetricKind {
        MetricKind::Mae
    }
}
