//! The mean absolute error.

use super::kind::{ERROR, Metric};
use super::rows::term;

pub(super) const METRIC: Metric = Metric { value: |rows| rows.mean(&rows.predictions(), Absolute {}), ..ERROR };

term!(Absolute {} | p, y | (p - y).abs());
