//! The log loss of each class against all others, in the mean over the classes, as CatBoost has it.

use super::kind::{ERROR, Metric};
use super::rows::{Rows, term};
use crate::numerics::math::softplus_rest64;
use crate::objective::Link;

pub(super) const METRIC: Metric = Metric { fits: |link| link == Link::SigmoidEach, value: one_versus_all, ..ERROR };

fn one_versus_all(rows: &Rows<'_>) -> f64 {
    let each = (0..rows.scores.len()).map(|k| rows.mean(&rows.log_odds(k), OfClass { class: k as f64 }));
    each.fold(0.0, |total, loss| total + loss) / rows.scores.len() as f64
}

term!(
    /// The cross entropy of whether a row is of the class.
    OfClass { class } |s, y| ((if s > 0.0 { s } else { 0.0 }) - if y == class { s } else { 0.0 }) + softplus_rest64(s)
);
