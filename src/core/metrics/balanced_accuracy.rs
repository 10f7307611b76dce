//! The mean over classes of the share of their rows whose class is predicted.

use super::kind::{ERROR, Metric};
use super::rows::Rows;
use super::tally::{Tally, average};
use crate::objective::Link;

pub(super) const METRIC: Metric = Metric {
    fits: |link| matches!(link, Link::Sigmoid | Link::Softmax | Link::SigmoidEach),
    of_classes: true,
    larger_is_better: true,
    value: balanced_accuracy,
    ..ERROR
};

/// The mean of the recalls of the classes that have rows (Brodersen et al., "The balanced accuracy and its posterior distribution", 2010).
fn balanced_accuracy(rows: &Rows<'_>) -> f64 {
    let tally = Tally::new(rows);
    let occurs = |k: &usize| tally.truths[*k] > 0.0;
    average(None, (0..tally.classes()).filter(occurs).map(|k| (tally.hits[k] / tally.truths[k], 1.0)))
}
