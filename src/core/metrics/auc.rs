//! The area under the ROC curve.

use super::kind::{ERROR, Metric};
use super::one_against_rest::{OneAgainstRest, Sorted, over_classes};
use super::spec::Takes;
use crate::objective::Link;

pub(super) const METRIC: Metric = Metric {
    fits: |link| matches!(link, Link::Sigmoid | Link::Softmax | Link::SigmoidEach),
    of_classes: true,
    larger_is_better: true,
    takes: Takes::AverageOfClasses,
    value: |rows| over_classes(rows, auc),
    undefined: "the measured rows are of one class",
    ..ERROR
};

/// The area under the ROC curve: the share of pairs of a row of the class and one of the others in which the first has the larger
/// score, equal scores counting half.
fn auc(rows: &OneAgainstRest<'_>) -> f64 {
    match rows.sorted() {
        Sorted::Counted { ones, zeros } => auc_of_counts(&ones, &zeros),
        Sorted::Weighed(ties) => {
            let (mut area, mut ones, mut zeros) = (0.0, 0.0, 0.0);
            for tie in ties {
                area += tie.ones * (zeros + 0.5 * tie.zeros);
                ones += tie.ones;
                zeros += tie.zeros;
            }
            area / (ones * zeros)
        }
    }
}

/// Merges the sorted keys of the two classes. Exact.
fn auc_of_counts(ones: &[u64], zeros: &[u64]) -> f64 {
    let (mut below, mut not_above, mut twice) = (0, 0, 0u128);
    for key in ones {
        while below < zeros.len() && zeros[below] < *key {
            below += 1;
        }
        while not_above < zeros.len() && zeros[not_above] <= *key {
            not_above += 1;
        }
        twice += (below + not_above) as u128;
    }
    twice as f64 / (2.0 * zeros.len() as f64 * ones.len() as f64)
}
