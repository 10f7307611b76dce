//! The cross entropy of probabilities.

use super::kind::{ERROR, Metric};
use super::rows::{Rows, log_share, term};
use crate::numerics::math::softplus_rest64;
use crate::objective::Link;

pub(super) const METRIC: Metric = Metric { fits: |link| link == Link::Sigmoid, value: cross_entropy, ..ERROR };

fn cross_entropy(rows: &Rows<'_>) -> f64 {
    if rows.predicted { rows.mean(rows.score(), OfShares {}) } else { rows.mean(rows.score(), CrossEntropy {}) }
}

term!(
    /// -y ln p - (1 - y) ln(1 - p), which is ln(1 + exp(s)) - y s.
    CrossEntropy {} |s, y| ((if s > 0.0 { s } else { 0.0 }) - y * s) + softplus_rest64(s)
);

term!(
    /// The same of the probability itself, as scikit-learn's `log_loss` has it.
    OfShares {} |p, y| -(y * log_share(if p < 1.0 - f64::EPSILON { p } else { 1.0 - f64::EPSILON }) + (1.0 - y) * log_share(1.0 - p))
);
