//! The log loss of each of several labels.

use super::cross_entropy::CrossEntropy;
use super::pointwise::Pointwise;
use super::{Formula, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::objective::Link;

pub(super) const ENTRY: LossEntry =
    LossEntry { target: LossTarget::Labels, formula: "cross_entropy", groups: false, make: |_| Box::new(Multilabel) };

/// The log loss of one label, which a row has (1) or has not (0); a row may have several, or none. Each label has a
/// probability `1 / (1 + exp(-score))` of its own (binary relevance: Tsoumakas and Katakis, "Multi-label classification", 2007), as under
/// CatBoost's `MultiLogloss`.
pub(super) struct Multilabel;

impl Loss for Multilabel {
    fn derivatives(&self, _output: usize, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]) {
        Pointwise::derivatives(&CrossEntropy, rows, gradient, hessian);
    }

    fn formula(&self, _output: usize) -> Formula {
        Formula::new(ENTRY.formula)
    }

    /// The log-odds of the label; those of a probability of 10⁻¹⁵ where no row, or every row, has it.
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
        if target == 0.0 || target == 1.0 { Ok(()) } else { Err("loss=\"multilabel\" needs 1 where a row has the label and 0 where not") }
    }
}
