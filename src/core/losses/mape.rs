//! Absolute error as a share of the target.

use super::mae::Mae;
use super::pointwise::Pointwise;
use super::{Formula, LeafRule, Location, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::objective::Link;

pub(super) const ENTRY: LossEntry = LossEntry { target: LossTarget::Numbers, formula: "mae", groups: false, make: |_| Box::new(Mape) };

/// `|score - target| / max(1, |target|)`, as LightGBM has it: the absolute error of rows that weigh so much less, which
/// [`Loss::row_factor`] tells; so leaves are refitted as weighted medians of their residuals. The model estimates the median of
/// the target under these weights, which is below the median.
pub(super) struct Mape;

impl Loss for Mape {
    fn derivatives(&self, _output: usize, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]) {
        Pointwise::derivatives(&Mae, rows, gradient, hessian);
    }

    fn formula(&self, _output: usize) -> Formula {
        Formula::new(ENTRY.formula)
    }

    fn row_factor(&self) -> Option<fn(f64) -> f64> {
        Some(|target| 1.0 / target.abs().max(1.0))
    }

    fn constant_hessian(&self) -> bool {
        true
    }

    fn location(&self) -> Location {
        Location::Scaled
    }

    /// The median by these weights.
    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64> {
        Mae.start(target, weight)
    }

    fn link(&self) -> Link {
        Link::Identity
    }

    fn leaf_rule(&self, _output: usize) -> LeafRule {
        LeafRule::Quantile(0.5)
    }

    fn metric(&self) -> MetricKind {
        MetricKind::Mape
    }
}
