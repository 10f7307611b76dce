//! The mean Poisson deviance.

use super::kind::{ERROR, Metric};
use super::rows::term;
use crate::numerics::math::{exp64, ln64};
use crate::objective::Link;

pub(super) const METRIC: Metric = Metric {
    fits: |link| link == Link::Exp,
    value: |rows| if rows.predicted { rows.mean(rows.score(), OfMeans {}) } else { rows.mean(rows.score(), PoissonDeviance {}) },
    ..ERROR
};

term!(
    PoissonDeviance {} | s,
    y | {
        let log_ratio = ln64(if y > 0.0 { y } else { 1.0 }) - s;
        2.0 * ((y * log_ratio - y) + exp64(s))
    }
);

term!(
    OfMeans {} | mean,
    y | {
        let ratio = if y > 0.0 { y * ln64(y / mean) } else { 0.0 };
        2.0 * ((ratio - y) + mean)
    }
);
