//! Pinball loss, of one quantile or of several.

use super::pointwise::Pointwise;
use super::{Formula, LeafRule, Location, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::numerics::reduce::weighted_quantile;
use crate::objective::Link;

pub(super) const ENTRY: LossEntry = LossEntry {
    target: LossTarget::Numbers,
    formula: "quantile",
    groups: false,
    make: |s| Box::new(Quantiles::new(s.params.alpha.levels())),
};

/// One quantile: `alpha · (target - score)` below the target, `(1 - alpha) · (score - target)` above it: the
/// gradient is `-alpha` below, `1 - alpha` above, 0 where they are equal; the hessian counts as 1,
/// and each leaf's value is refitted as the `alpha`-quantile of its residuals, as in LightGBM. The
/// score estimates that quantile (Koenker and Bassett 1978).
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

/// A score for each of one or more quantiles, ascending. Of several the predictions are the scores in ascending order
/// ([`Link::Ascending`]), so that they never cross.
pub(super) struct Quantiles(Vec<Quantile>);

impl Quantiles {
    pub(super) fn new(levels: &[f64]) -> Self {
        Quantiles(levels.iter().map(|alpha| Quantile::new(*alpha)).collect())
    }
}

impl Loss for Quantiles {
    fn outputs(&self) -> usize {
        self.0.len()
    }

    fn derivatives(&self, output: usize, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]) {
        self.0[output].derivatives(rows.of(output), gradient, hessian);
    }

    fn formula(&self, output: usize) -> Formula {
        let Quantile { below, above, .. } = self.0[output];
        Formula { a: below, b: above, ..Formula::new(ENTRY.formula) }
    }

    fn constant_hessian(&self) -> bool {
        true
    }

    fn location(&self) -> Location {
        Location::Scaled
    }

    /// The weighted quantiles.
    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64> {
        self.0.iter().map(|q| weighted_quantile(target, weight, q.alpha)).collect()
    }

    fn link(&self) -> Link {
        if self.0.len() == 1 { Link::Identity } else { Link::Ascending }
    }

    fn leaf_rule(&self, output: usize) -> LeafRule {
        LeafRule::Quantile(self.0[output].alpha)
    }

    fn metric(&self) -> MetricKind {
        MetricKind::Quantile
    }
}
