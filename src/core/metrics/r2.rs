//! The share of the targets' variance that is predicted.

use super::kind::{ERROR, Metric};
use super::rmse::root_mean_square;
use super::rows::Rows;
use crate::numerics::reduce::weighted_mean;

pub(super) const METRIC: Metric =
    Metric { larger_is_better: true, value: r2, undefined: "of fewer than two rows that count there is no variance", ..ERROR };

fn r2(rows: &Rows<'_>) -> f64 {
    if (0..rows.target.len()).filter(|row| rows.weight_of(*row) > 0.0).nth(1).is_none() {
        return f64::NAN;
    }
    let mean = vec![weighted_mean(rows.target, rows.weight); rows.target.len()];
    let spread = root_mean_square(rows, &mean);
    let error = root_mean_square(rows, &rows.predictions());
    if spread == 0.0 {
        return if error == 0.0 { 1.0 } else { 0.0 };
    }
    1.0 - (error / spread) * (error / spread)
}
