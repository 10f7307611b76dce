//! The pinball loss of a quantile, or the mean of those of several.

use super::kind::{ERROR, Metric};
use super::rows::{Rows, term};
use crate::objective::Link;

pub(super) const METRIC: Metric = Metric { fits: |link| link.is_of_one_number() || link == Link::Ascending, value: pinball, ..ERROR };

fn pinball(rows: &Rows<'_>) -> f64 {
    let levels = rows.params.alpha.levels();
    if rows.link != Link::Ascending {
        return rows.mean(&rows.predictions(), Pinball { alpha: rows.params.alpha.first() });
    }
    let mut predictions = rows.scores.to_vec();
    rows.link.apply(&mut predictions);
    let each = predictions.iter().zip(levels).map(|(predictions, alpha)| rows.mean(predictions, Pinball { alpha: *alpha }));
    each.fold(0.0, |total, loss| total + loss) / levels.len() as f64
}

term!(Pinball { alpha } | p, y | if y > p { alpha * (y - p) } else { (1.0 - alpha) * (p - y) });
