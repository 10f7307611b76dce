//! The mean Tweedie deviance.

use super::kind::{ERROR, Metric};
use super::rows::term;
use crate::numerics::math::{exp64, ln64};
use crate::objective::Link;

pub(super) const METRIC: Metric = Metric {
    fits: |link| link == Link::Exp,
    value: |rows| rows.mean(rows.score(), TweedieDeviance { power: rows.params.tweedie_power }),
    ..ERROR
};

term!(
    TweedieDeviance { power } | s,
    y | {
        let (one, two) = (1.0 - power, 2.0 - power);
        2.0 * ((exp64(two * ln64(y)) / (one * two) - y * exp64(one * s) / one) + exp64(two * s) / two)
    }
);
