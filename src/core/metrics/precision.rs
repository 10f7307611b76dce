//! Precision of the first places of groups.

use super::kind::{ERROR, Metric};
use super::ranking::{RankedGroup, is_relevant, mean_of_groups};
use super::spec::Takes;

pub(super) const METRIC: Metric = Metric {
    larger_is_better: true,
    groups: true,
    takes: Takes::Places,
    value: |rows| mean_of_groups(rows, precision),
    undefined: "the rows have no groups",
    ..ERROR
};

/// The share of relevant rows (those with a target above 0) of the first places; of places that a short group has no rows for, none is.
fn precision(group: &RankedGroup, places: usize) -> f64 {
    let (mut place, mut hits) = (0, 0.0);
    for tie in group.ties() {
        let counted = tie.len().min(places.saturating_sub(place));
        let relevant = tie.iter().filter(|row| is_relevant(row.1)).count();
        hits += relevant as f64 * counted as f64 / tie.len() as f64;
        place += tie.len();
    }
    hits / places.max(1) as f64
}
