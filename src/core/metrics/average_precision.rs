//! Average precision, the area under the curve of precision and recall without interpolation.

use super::kind::{ERROR, Metric};
use super::one_against_rest::{OneAgainstRest, Sorted, over_classes};
use super::spec::Takes;
use crate::objective::Link;

pub(super) const METRIC: Metric = Metric {
    fits: |link| matches!(link, Link::Sigmoid | Link::Softmax | Link::SigmoidEach),
    of_classes: true,
    larger_is_better: true,
    takes: Takes::AverageOfClasses,
    value: |rows| over_classes(rows, average_precision),
    undefined: "no measured row is of the class",
    ..ERROR
};

/// The precision among the rows from each score on, weighed by what that score adds to recall (scikit-learn's
/// `average_precision_score`). Rows of equal scores count together.
fn average_precision(rows: &OneAgainstRest<'_>) -> f64 {
    match rows.sorted() {
        Sorted::Counted { ones, zeros } => {
            let (mut above, mut not_below, mut total) = (0usize, 0usize, 0.0);
            for tie in ones.chunk_by(|a, b| a == b).rev() {
                while not_below < zeros.len() && zeros[zeros.len() - 1 - not_below] >= tie[0] {
                    not_below += 1;
                }
                above += tie.len();
                total += tie.len() as f64 * (above as f64 / (above + not_below) as f64);
            }
            total / ones.len() as f64
        }
        Sorted::Weighed(ties) => {
            let (mut ones, mut zeros, mut total) = (0.0, 0.0, 0.0);
            for tie in ties.iter().rev() {
                ones += tie.ones;
                zeros += tie.zeros;
                total += if tie.ones > 0.0 { tie.ones * (ones / (ones + zeros)) } else { 0.0 };
            }
            total / ones
        }
    }
}
