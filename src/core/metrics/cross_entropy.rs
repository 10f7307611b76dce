//! The cross entropy of probabilities.

use super::kind::{ERROR, Metric};
use super::rows::term;
use crate::numerics::math::softplus_rest64;
use crate::objective::Link;

pub(super) const METRIC: Metric =
    Metric { fits: |link| link == Link::Sigmoid, value: |rows| rows.mean(rows.score(), CrossEntropy {}), ..ERROR };

term!(
    /// -y ln p - (1 - y) ln(1 - p), which is ln(1 + exp(s)) - y s.
    CrossEntropy {} |s, y| ((if s > 0.0 { s } else { 0.0 }) - y * s) + softplus_rest64(s)
);
