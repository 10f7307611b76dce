//! The share of the rows whose class is predicted.

use super::kind::{ERROR, Metric};
use super::rows::{Rows, term};
use crate::numerics::reduce::{sum, total_weight};
use crate::objective::Link;

pub(super) const METRIC: Metric = Metric {
    fits: |link| matches!(link, Link::Sigmoid | Link::Softmax | Link::SigmoidEach),
    of_classes: true,
    larger_is_better: true,
    value: |rows| if rows.link == Link::Sigmoid { rows.mean(rows.score(), SameSide {}) } else { of_several(rows) },
    ..ERROR
};

term!(
    /// 1 where score and target call the same class.
    SameSide {} |s, y| if (s > 0.0) == (y > 0.5) { 1.0 } else { 0.0 }
);

/// Computes the share of the rows whose class has the largest score; of equal scores the first class counts.
fn of_several(rows: &Rows<'_>) -> f64 {
    let scores = rows.scores;
    let right = |i: usize| {
        let best = (1..scores.len()).fold(0, |best, k| if scores[k][i] > scores[best][i] { k } else { best });
        if best as f64 == rows.target[i] { rows.weight.map_or(1.0, |w| w[i] as f64) } else { 0.0 }
    };
    let n = rows.target.len();
    sum(n, right) / total_weight(n, rows.weight)
}
