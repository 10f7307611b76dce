//! The pinball loss of a quantile, or the mean of those of several.

use super::kind::{ERROR, Metric};
use super::rows::{Rows, term};
use super::spec::Takes;
use crate::objective::Link;

pub(super) const METRIC: Metric =
    Metric { fits: |link| link.is_of_one_number() || link == Link::Ascending, takes: Takes::Level, value: pinball, ..ERROR };

fn pinball(rows: &Rows<'_>) -> f64 {
    let (levels, told) = (rows.params.alpha.levels(), rows.number());
    if rows.link != Link::Ascending {
        return rows.mean(&rows.predictions(), Pinball { alpha: told.unwrap_or(rows.params.alpha.first()) });
    }
    let mut predictions = rows.scores.to_vec();
    if !rows.predicted {
        rows.link.apply(&mut predictions);
    }
    let chosen = || predictions.iter().zip(levels).filter(|(_, alpha)| told.is_none_or(|told| told == **alpha));
    let each = chosen().map(|(predictions, alpha)| rows.mean(predictions, Pinball { alpha: *alpha }));
    each.fold(0.0, |total, loss| total + loss) / chosen().count() as f64
}

term!(Pinball { alpha } | p, y | if y > p { alpha * (y - p) } else { (1.0 - alpha) * (p - y) });
