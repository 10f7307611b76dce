//! Squared error.

use super::pointwise::{Pointwise, finite};
use super::{Formula, Location, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::numerics::reduce::weighted_mean;
use crate::objective::Link;

pub(super) const ENTRY: LossEntry = LossEntry { target: LossTarget::Numbers, formula: "rmse", groups: false, make: |_| Box::new(Rmse) };

/// `(score - target)² / 2`: gradient `score - target`, hessian 1. The model estimates the mean.
pub(super) struct Rmse;

impl Pointwise for Rmse {
    #[inline(always)]
    fn at(&self, score: f32, target: f32) -> (f32, f32) {
        (finite(score - target), 1.0)
    }
}

impl Loss for Rmse {
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

    /// The weighted mean.
    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64> {
        vec![weighted_mean(target, weight)]
    }

    fn link(&self) -> Link {
        Link::Identity
    }

    fn metric(&self) -> MetricKind {
        MetricKind::Rmse
    }
}
