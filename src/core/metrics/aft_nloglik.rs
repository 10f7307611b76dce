//! The mean negative log likelihood of accelerated failure time models.

use super::kind::{ERROR, Metric};
use super::rows::{Rows, term};
use crate::numerics::censored::log_likelihood;
use crate::numerics::math::ln64;
use crate::objective::Link;

pub(super) const METRIC: Metric = Metric {
    fits: |link| link == Link::Time,
    times: true,
    value: mean_loss,
    undefined: "nothing is said of the events of the measured rows",
    ..ERROR
};

/// The weighted mean of `-ln(F(upper) - F(lower))`, and of the negative logarithm of the time's density where the event was seen
/// (`aft-nloglik` in XGBoost, which leaves no likelihood below 1e-12).
fn mean_loss(rows: &Rows<'_>) -> f64 {
    let [lower, upper] = rows.columns else { return f64::NAN };
    let aft = rows.params.aft;
    let of_row = |(row, score): (usize, &f64)| {
        let (l, u) = (ln64(lower[row]), ln64(upper[row]));
        let loss = -log_likelihood(aft.distribution, (l - score) / aft.scale, (u - score) / aft.scale);
        if l == u { loss + ln64(aft.scale) + l } else { loss }
    };
    let losses: Vec<f64> = rows.score().iter().enumerate().map(of_row).collect();
    rows.mean(&losses, Itself {})
}

term!(Itself {} | loss, _target | loss);
