//! The asymmetric squared error of an expectile.

use super::kind::{ERROR, Metric};
use super::rows::term;

pub(super) const METRIC: Metric =
    Metric { value: |rows| rows.mean(&rows.predictions(), Asymmetric { alpha: rows.params.alpha.first() }), ..ERROR };

term!(Asymmetric { alpha } | p, y | (if y > p { alpha } else { 1.0 - alpha }) * ((y - p) * (y - p)));
