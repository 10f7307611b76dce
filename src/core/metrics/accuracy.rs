//! The share of the rows whose class is predicted.

use super::kind::{ERROR, Metric};
use super::rows::{Rows, term};
use crate::numerics::reduce::sum;
use crate::objective::Link;

pub(super) const METRIC: Metric = Metric {
    fits: |link| matches!(link, Link::Sigmoid | Link::Softmax | Link::SigmoidEach),
    of_classes: true,
    larger_is_better: true,
    value: accuracy,
    ..ERROR
};

fn accuracy(rows: &Rows<'_>) -> f64 {
    match (rows.calls, rows.link) {
        (Some(calls), _) => of_calls(rows, |row| calls[row] as usize),
        (None, Link::Sigmoid) => rows.mean(rows.score(), SameSide { middle: if rows.predicted { 0.5 } else { 0.0 } }),
        _ => of_calls(rows, |row| top_class(rows.scores, row)),
    }
}

term!(
    /// 1 where score and target call the same class.
    SameSide { middle } |s, y| if (s > middle) == (y > 0.5) { 1.0 } else { 0.0 }
);

/// Computes the share of the rows whose class is the one that is called.
fn of_calls(rows: &Rows<'_>, called: impl Fn(usize) -> usize + Sync) -> f64 {
    let right = |row: usize| if called(row) as f64 == rows.target[row] { rows.weight_of(row) } else { 0.0 };
    sum(rows.target.len(), right) / rows.total_weight()
}

/// Returns the class with the largest score; of equal scores the first class.
pub(super) fn top_class(scores: &[Vec<f64>], row: usize) -> usize {
    (1..scores.len()).fold(0, |best, k| if scores[k][row] > scores[best][row] { k } else { best })
}
