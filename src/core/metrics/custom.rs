//! The mean value of a loss of the user's own.

use super::kind::{ERROR, Metric};
use super::rows::Rows;
use crate::numerics::reduce::sum_blocks;

pub(super) const METRIC: Metric = Metric {
    value: mean_loss,
    undefined: "the loss of your own is infinite or no number there, or it reads columns beside the target: name another metric",
    ..ERROR
};

/// Computes the weighted mean of the loss at raw scores; NaN without a loss, and for one that reads columns.
fn mean_loss(rows: &Rows<'_>) -> f64 {
    let Some(formulas) = &rows.params.custom else { return f64::NAN };
    if rows.predicted || rows.link != formulas.link().into() || !formulas.columns().is_empty() {
        return f64::NAN;
    }
    let n = rows.target.len();
    let total = sum_blocks(n, |block| {
        let [values, ..] = formulas.evaluate(&[&rows.target[block.clone()], &rows.score()[block.clone()]]);
        match rows.weight {
            None => values.iter().fold(0.0, |total, value| total + value),
            Some(weight) => values.iter().zip(&weight[block]).fold(0.0, |total, (value, weight)| total + value * weight),
        }
    });
    total / rows.total_weight()
}
