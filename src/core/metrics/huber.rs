//! Huber's loss.

use super::kind::{ERROR, Metric};
use super::rows::{Rows, term};
use super::spec::Takes;

pub(super) const METRIC: Metric = Metric { takes: Takes::Delta, value: huber, ..ERROR };

fn huber(rows: &Rows<'_>) -> f64 {
    rows.mean(&rows.predictions(), Huber { delta: rows.number().unwrap_or(rows.params.huber_delta) })
}

term!(
    Huber { delta } | p,
    y | {
        let r = (p - y).abs();
        if r <= delta { 0.5 * r * r } else { delta * (r - 0.5 * delta) }
    }
);
