//! Matthews' correlation coefficient.

use super::kind::{ERROR, Metric};
use super::rows::Rows;
use super::tally::Tally;
use crate::objective::Link;

pub(super) const METRIC: Metric = Metric {
    fits: |link| matches!(link, Link::Sigmoid | Link::Softmax | Link::SigmoidEach),
    of_classes: true,
    larger_is_better: true,
    value: mcc,
    ..ERROR
};

/// The correlation of the rows' classes and those that they are called (Gorodkin, "Comparing two K-category assignments by a K-category
/// correlation coefficient", 2004); 0 where either is the same for all rows, as in scikit-learn.
fn mcc(rows: &Rows<'_>) -> f64 {
    let Tally { hits, truths, calls, total } = Tally::new(rows);
    // Shares, so that squares of weights of any size stay finite.
    let share = |of: &[f64]| of.iter().map(|x| x / total).collect::<Vec<f64>>();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).fold(0.0, |sum, (a, b)| sum + a * b);
    let (hits, truths, calls) = (share(&hits), share(&truths), share(&calls));
    let spread = |of: &[f64]| 1.0 - dot(of, of);
    if truths.contains(&1.0) || calls.contains(&1.0) {
        return 0.0;
    }
    (hits.iter().sum::<f64>() - dot(&truths, &calls)) / (libm::sqrt(spread(&truths)) * libm::sqrt(spread(&calls)))
}
