//! The mean negative log likelihood of normal distributions.

use super::kind::{ERROR, Metric};
use super::rows::{Rows, term};
use crate::numerics::math::{exp64, ln64};
use crate::objective::Link;

pub(super) const METRIC: Metric = Metric { fits: |link| link == Link::MeanVariance, value: negative_log_likelihood, ..ERROR };

/// ln(2π) / 2.
const CONSTANT: f64 = 0.918_938_533_204_672_7;

fn negative_log_likelihood(rows: &Rows<'_>) -> f64 {
    let of_row = |(i, (mean, s)): (usize, (&f64, &f64))| {
        // Half the logarithm of the variance.
        let s = if rows.predicted { &(0.5 * ln64(*s)) } else { s };
        let r = (rows.target[i] - mean) * exp64(-s);
        0.5 * r * r + s
    };
    let losses: Vec<f64> = rows.scores[0].iter().zip(&rows.scores[1]).enumerate().map(of_row).collect();
    rows.mean(&losses, Itself {}) + CONSTANT
}

term!(Itself {} | loss, _target | loss);
