//! The mean of the absolute errors as shares of the targets.

use super::kind::{ERROR, Metric};
use super::rows::{Rows, term};
use super::spec::Takes;

pub(super) const METRIC: Metric = Metric { takes: Takes::Floor, value: mape, ..ERROR };

fn mape(rows: &Rows<'_>) -> f64 {
    rows.mean(&rows.predictions(), Share { floor: rows.number().unwrap_or(1.0) })
}

term!(
    /// A target nearer to 0 than `floor` counts as that: than 1 unless told, as in LightGBM.
    Share { floor } |p, y| (p - y).abs() / (if y.abs() > floor { y.abs() } else { floor })
);
