//! Mean average precision.

use super::kind::{ERROR, Metric};
use super::ranking::{RankedGroup, is_relevant, mean_of_groups};
use super::spec::Takes;

pub(super) const METRIC: Metric = Metric {
    larger_is_better: true,
    groups: true,
    takes: Takes::Places,
    value: |rows| mean_of_groups(rows, average_precision),
    undefined: "the rows have no groups",
    ..ERROR
};

/// The precision at the place of each relevant row (one with a target above 0) among the first places, added, over as many relevant rows
/// as could stand there. 1 for a group without any, as in LightGBM and XGBoost.
fn average_precision(group: &RankedGroup, places: usize) -> f64 {
    let relevant = group.targets().filter(|t| is_relevant(*t)).count();
    let most = relevant.min(places);
    if most == 0 {
        return 1.0;
    }
    let (mut place, mut before, mut total) = (0, 0.0, 0.0);
    for tie in group.ties() {
        let (rows, hits) = (tie.len() as f64, tie.iter().filter(|row| is_relevant(row.1)).count() as f64);
        for i in 0..tie.len().min(places.saturating_sub(place)) {
            // Of the rows of this score that stand before a relevant one, so many are relevant in the mean.
            let among = if tie.len() > 1 { i as f64 * (hits - 1.0) / (rows - 1.0) } else { 0.0 };
            total += hits / rows * (before + 1.0 + among) / (place + i + 1) as f64;
        }
        place += tie.len();
        before += hits;
    }
    total / most as f64
}
