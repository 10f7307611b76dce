//! The root of the mean squared error of logarithms.

use super::kind::{ERROR, Metric};
use super::rmse::root_mean_square;
use super::rows::Rows;
use rayon::prelude::*;

pub(super) const METRIC: Metric = Metric { value: rmsle, undefined: "a target or a prediction is -1 or less", ..ERROR };

/// The root of the mean of `(ln(1 + prediction) - ln(1 + target))²`.
fn rmsle(rows: &Rows<'_>) -> f64 {
    // Where there is no logarithm, none.
    let log = |x: &f64| if *x > -1.0 { libm::log1p(*x) } else { f64::NAN };
    let logs = |values: &[f64]| values.par_iter().with_min_len(1 << 14).map(log).collect::<Vec<f64>>();
    let target = logs(rows.target);
    root_mean_square(&Rows { target: &target, ..*rows }, &logs(&rows.predictions()))
}
