//! The mean of the absolute errors as shares of the targets.

use super::kind::{ERROR, Metric};
use super::rows::term;

pub(super) const METRIC: Metric = Metric { value: |rows| rows.mean(&rows.predictions(), Share {}), ..ERROR };

term!(
    /// A target nearer to 0 than 1 counts as 1, as in LightGBM.
    Share {} |p, y| (p - y).abs() / (if y.abs() > 1.0 { y.abs() } else { 1.0 })
);
