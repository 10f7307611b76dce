//! The mean gamma deviance.

use super::kind::{ERROR, Metric};
use super::rows::term;
use crate::numerics::math::{exp64, ln64};
use crate::objective::Link;

pub(super) const METRIC: Metric = Metric {
    fits: |link| link == Link::Exp,
    value: |rows| if rows.predicted { rows.mean(rows.score(), OfMeans {}) } else { rows.mean(rows.score(), GammaDeviance {}) },
    ..ERROR
};

term!(GammaDeviance {} | s, y | 2.0 * (((s - ln64(y)) + y * exp64(-s)) - 1.0));

term!(OfMeans {} | mean, y | 2.0 * (ln64(mean / y) + y / mean - 1.0));
