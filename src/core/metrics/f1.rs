//! The harmonic mean of precision and recall.

use super::kind::{ERROR, Metric};
use super::rows::Rows;
use super::spec::{At, Average, Takes};
use super::tally::{Tally, average};
use crate::objective::Link;

pub(super) const METRIC: Metric = Metric {
    fits: |link| matches!(link, Link::Sigmoid | Link::Softmax | Link::SigmoidEach),
    of_classes: true,
    larger_is_better: true,
    takes: Takes::Average,
    value: f1,
    ..ERROR
};

/// `2 hits / (rows of the class + rows called it)` of the second of two classes; of several, or where an average is told, the mean over
/// those that occur or are called, as scikit-learn's `f1_score` has it. 0 for a class that does neither.
fn f1(rows: &Rows<'_>) -> f64 {
    let tally = Tally::new(rows);
    let of_class = |k: usize| {
        let both = tally.truths[k] + tally.calls[k];
        if both > 0.0 { 2.0 * tally.hits[k] / both } else { 0.0 }
    };
    match rows.at {
        None if rows.link == Link::Sigmoid => of_class(1),
        Some(At::Average(Average::Micro)) => tally.hits.iter().sum::<f64>() / tally.total,
        at => {
            let occurs = |k: &usize| tally.truths[*k] + tally.calls[*k] > 0.0;
            average(at, (0..tally.classes()).filter(occurs).map(|k| (of_class(k), tally.truths[k])))
        }
    }
}
