//! The pinball loss of a quantile.

use super::kind::{ERROR, Metric};
use super::rows::term;

pub(super) const METRIC: Metric = Metric { value: |rows| rows.mean(&rows.predictions(), Pinball { alpha: rows.params.alpha }), ..ERROR };

term!(Pinball { alpha } | p, y | if y > p { alpha * (y - p) } else { (1.0 - alpha) * (p - y) });
