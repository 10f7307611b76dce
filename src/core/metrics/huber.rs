//! Huber's loss.

use super::kind::{ERROR, Metric};
use super::rows::term;

pub(super) const METRIC: Metric =
    Metric { value: |rows| rows.mean(&rows.predictions(), Huber { delta: rows.params.huber_delta }), ..ERROR };

term!(
    Huber { delta } | p,
    y | {
        let r = (p - y).abs();
        if r <= delta { 0.5 * r * r } else { delta * (r - 0.5 * delta) }
    }
);
