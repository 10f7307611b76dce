//! The mean Tweedie deviance.

use super::kind::{ERROR, Metric};
use super::rows::{Rows, term};
use super::spec::Takes;
use crate::numerics::math::{exp64, ln64};
use crate::objective::Link;

pub(super) const METRIC: Metric = Metric { fits: |link| link == Link::Exp, takes: Takes::Power, value: tweedie, ..ERROR };

fn tweedie(rows: &Rows<'_>) -> f64 {
    let power = rows.number().unwrap_or(rows.params.tweedie_power);
    if rows.predicted { rows.mean(rows.score(), OfMeans { power }) } else { rows.mean(rows.score(), TweedieDeviance { power }) }
}

term!(
    TweedieDeviance { power } | s,
    y | {
        let (one, two) = (1.0 - power, 2.0 - power);
        2.0 * ((exp64(two * ln64(y)) / (one * two) - y * exp64(one * s) / one) + exp64(two * s) / two)
    }
);

term!(
    OfMeans { power } | mean,
    y | {
        let (one, two) = (1.0 - power, 2.0 - power);
        let own = if y > 0.0 { exp64(two * ln64(y)) } else { 0.0 };
        2.0 * ((own / (one * two) - y * exp64(one * ln64(mean)) / one) + exp64(two * ln64(mean)) / two)
    }
);
