//! The asymmetric squared error of an expectile.

use super::pointwise::{Pointwise, finite};
use super::{Formula, Location, Loss, LossEntry, LossTarget, Rows, location};
use crate::metrics::MetricKind;
use crate::objective::Link;

pub(super) const ENTRY: LossEntry = LossEntry {
    target: LossTarget::Numbers,
    formula: "expectile",
    groups: false,
    make: |s| Box::new(Expectile::new(s.params.alpha.first())),
};

/// `alpha · r²` below the target, `(1 - alpha) · r²` above it, with `r = score - target`: the gradient is `2 alpha r` below,
/// `2 (1 - alpha) r` above, the hessian its factor. At `alpha` 0.5 that is squared error. The model estimates the `alpha`-expectile:
/// what a mean becomes where errors to one side count more (Newey and Powell, "Asymmetric Least Squares Estimation and Testing",
/// 1987).
pub(super) struct Expectile {
    alpha: f64,
    below: f32,
    above: f32,
}

impl Expectile {
    pub(super) fn new(alpha: f64) -> Self {
        Expectile { alpha, below: (2.0 * alpha) as f32, above: (2.0 * (1.0 - alpha)) as f32 }
    }
}

impl Pointwise for Expectile {
    #[inline(always)]
    fn at(&self, score: f32, target: f32) -> (f32, f32) {
        let factor = if score < target { self.below } else { self.above };
        (finite(factor * finite(score - target)), factor)
    }
}

impl Loss for Expectile {
    fn derivatives(&self, _output: usize, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]) {
        Pointwise::derivatives(self, rows, gradient, hessian);
    }

    fn formula(&self, _output: usize) -> Formula {
        Formula { a: self.below, b: self.above, ..Formula::new(ENTRY.formula) }
    }

    fn location(&self) -> Location {
        Location::Scaled
    }

    /// The weighted expectile.
    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64> {
        let factor = |r: f64| if r < 0.0 { self.alpha } else { 1.0 - self.alpha };
        vec![location::minimiser(target, weight, 1.0, |r| factor(r) * r, factor)]
    }

    fn link(&self) -> Link {
        Link::Identity
    }

    fn metric(&self) -> MetricKind {
        MetricKind::Expectile
    }
}
