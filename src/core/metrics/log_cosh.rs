//! The mean of the logarithms of the errors' hyperbolic cosines.

use super::kind::{ERROR, Metric};
use super::rows::term;
use crate::numerics::math::softplus_rest64;

pub(super) const METRIC: Metric = Metric { value: |rows| rows.mean(&rows.predictions(), LogCosh {}), ..ERROR };

term!(
    /// ln cosh r, which is |r| + ln(1 + exp(-2 |r|)) - ln 2, and r² / 2 where that would cancel.
    LogCosh {} |p, y| {
        let r = (p - y).abs();
        let square = r * r;
        if r < 0.01 { square * (0.5 - square / 12.0 + square * square / 45.0) } else { r + (softplus_rest64(2.0 * r) - core::f64::consts::LN_2) }
    }
);
