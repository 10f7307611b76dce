//! The asymmetric squared error of an expectile.

use super::kind::{ERROR, Metric};
use super::rows::{Rows, term};
use super::spec::Takes;

pub(super) const METRIC: Metric = Metric { takes: Takes::Level, value: expectile, ..ERROR };

fn expectile(rows: &Rows<'_>) -> f64 {
    rows.mean(&rows.predictions(), Asymmetric { alpha: rows.number().unwrap_or(rows.params.alpha.first()) })
}

term!(Asymmetric { alpha } | p, y | (if y > p { alpha } else { 1.0 - alpha }) * ((y - p) * (y - p)));
