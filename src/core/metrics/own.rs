//! Metrics of the user's own: formulas of weighted means over rows.

use super::kind::{ERROR, Metric};
use super::rows::Rows;
use crate::numerics::reduce::{add_in_order, map_blocks};
use crate::symbolic::MetricFormulas;

/// What all of them are, but for their value.
pub(super) const METRIC: Metric =
    Metric { undefined: "the metric of your own is infinite or no number there, or a column that it reads is not given", ..ERROR };

/// Computes a metric of the rows' predictions; NaN where a column that it reads is not there, and where it is not finite.
pub(super) fn value(formulas: &MetricFormulas, rows: &Rows<'_>) -> f64 {
    let predictions = rows.predictions();
    let column = |name: &String| rows.named.iter().find(|(known, _)| known == name).map(|(_, values)| values.as_slice());
    let Some(columns) = formulas.columns().iter().map(column).collect::<Option<Vec<&[f64]>>>() else { return f64::NAN };
    let inputs: Vec<&[f64]> = [rows.target, &predictions].into_iter().chain(columns).collect();
    let blocks = map_blocks(rows.target.len(), |block| {
        let part: Vec<&[f64]> = inputs.iter().map(|input| &input[block.clone()]).collect();
        formulas.add_rows(&part, |row| rows.weight_of(block.start + row))
    });
    let total = rows.total_weight();
    let mean = |i: usize| add_in_order(blocks.iter().map(|sums| sums[i])) / total;
    let value = formulas.value_of(&(0..formulas.means()).map(mean).collect::<Vec<f64>>());
    if value.is_finite() { value } else { f64::NAN }
}
