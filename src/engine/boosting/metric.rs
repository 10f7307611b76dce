//! What is measured on held-out rows.
use super::loss::Link;
use super::params::{BoostingParams, MetricKind};

impl MetricKind {
    /// Whether a larger value is a better one.
    pub fn larger_is_better(self) -> bool {
        matches!(self, MetricKind::Auc | MetricKind::Accuracy | MetricKind::R2)
    }

    /// The name that users give it.
    pub fn name(self) -> &'static str {
        unimplemented!()
    }

    /// Whether it can be measured on predictions of this link.
    pub fn fits(self, link: Link) -> bool {
        let _ = link;
        unimplemented!()
    }
}

/// The metric of raw scores (`scores[output][row]`) against targets (class index or number), with
/// weights where rows have them. Sums are f64 over fixed blocks.
pub fn metric(kind: MetricKind, params: &BoostingParams, link: Link, scores: &[Vec<f64>], target: &[f64], weight: Option<&[f32]>) -> f64 {
    let _ = (kind, params, link, scores, target, weight);
    unimplemented!()
}
