//! The log loss of two classes.

use super::cross_entropy::CrossEntropy;
use super::pointwise::Pointwise;
use super::{Formula, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::objective::Link;

pub(super) const ENTRY: LossEntry =
    LossEntry { target: LossTarget::TwoClasses, formula: "cross_entropy", groups: false, make: |_| Box::new(Logloss) };

/// `-ln p` of the row's class, with `p = 1 / (1 + exp(-score))` the probability of class 1: the
/// cross entropy of targets 0 and 1.
pub(super) struct Logloss;

impl Loss for Logloss {
    fn derivatives(&self, _output: usize, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]) {
        Pointwise::derivatives(&CrossEntropy, rows, gradient, hessian);
    }

    fn formula(&self, _output: usize) -> Formula {
        Formula::new(ENTRY.formula)
    }

    /// The log-odds of class 1; those of a probability of 10⁻¹⁵ where a class is absent.
    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64> {
        CrossEntropy.start(target, weight)
    }

    fn link(&self) -> Link {
        Link::Sigmoid
    }

    fn metric(&self) -> MetricKind {
        MetricKind::Logloss
    }

    fn check_target(&self, target: f64) -> Result<(), &'static str> {
        if target == 0.0 || target == 1.0 { Ok(()) } else { Err("loss=\"logloss\" needs two classes, 0 and 1") }
    }
}
