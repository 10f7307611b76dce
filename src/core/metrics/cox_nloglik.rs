//! The negative logarithm of Cox's partial likelihood.

use super::kind::{ERROR, Metric};
use super::lifetimes::{Lifetime, by_time};
use super::rows::Rows;
use crate::numerics::math::{exp64, ln64};
use crate::objective::Link;

pub(super) const METRIC: Metric = Metric {
    fits: |link| link == Link::Hazard,
    times: true,
    value: per_event,
    undefined: "no event happened to a measured row, some happened between two times, or nothing is said of them",
    ..ERROR
};

/// The negative log partial likelihood with Efron's ties, per event: over the sum of the weights of those that died. The measured rows are
/// at risk among themselves alone. Weights count in units of their mean, so that a factor on all of them is none on the metric.
fn per_event(rows: &Rows<'_>) -> f64 {
    let Some(strata) = by_time(rows) else { return f64::NAN };
    let of_strata = strata.iter().map(|stratum| log_likelihood(stratum));
    let (likelihood, events) = of_strata.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    // In units of their mean weights add its logarithm to that of each sum of those at risk.
    let mean = rows.weight.map_or(1.0, |_| rows.total_weight() / rows.target.len() as f64);
    -likelihood / events - ln64(mean)
}

/// The log partial likelihood of a stratum, the latest time first, and the weight of its events.
fn log_likelihood(stratum: &[Lifetime]) -> (f64, f64) {
    // The hazards of those at risk are kept in units of that of the highest score so far.
    let (mut top, mut at_risk) = (f64::NEG_INFINITY, 0.0);
    let (mut likelihood, mut events) = (0.0, 0.0);
    for tied in stratum.chunk_by(|a, b| a.lower == b.lower) {
        let higher = tied.iter().map(|row| row.score).fold(top, f64::max);
        at_risk *= if top == f64::NEG_INFINITY { 0.0 } else { exp64(top - higher) };
        top = higher;
        let hazard = |row: &Lifetime| row.weight * exp64(row.score - top);
        at_risk += tied.iter().map(hazard).sum::<f64>();
        let died = &tied[..tied.iter().take_while(|row| row.has_died()).count()];
        let (dying, weight) = (died.iter().map(hazard).sum::<f64>(), died.iter().map(|row| row.weight).sum::<f64>());
        let deaths = died.len() as f64;
        for (k, row) in died.iter().enumerate() {
            let left = at_risk - k as f64 / deaths * dying;
            likelihood += row.weight * (row.score - top) - weight / deaths * ln64(left);
        }
        events += weight;
    }
    (likelihood, events)
}
