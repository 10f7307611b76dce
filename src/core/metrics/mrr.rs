//! Mean reciprocal rank.

use super::kind::{ERROR, Metric};
use super::ranking::{RankedGroup, is_relevant, mean_of_groups};
use super::spec::Takes;

pub(super) const METRIC: Metric = Metric {
    larger_is_better: true,
    groups: true,
    takes: Takes::Places,
    value: |rows| mean_of_groups(rows, reciprocal_rank),
    undefined: "the rows have no groups",
    ..ERROR
};

/// 1 over the place (from 1) of the first relevant row (one with a target above 0); 0 where it is not among the first places.
fn reciprocal_rank(group: &RankedGroup, places: usize) -> f64 {
    let mut place = 0;
    for tie in group.ties() {
        let hits = tie.iter().filter(|row| is_relevant(row.1)).count();
        if hits > 0 {
            // The chance that no relevant row of this score has stood yet.
            let (mut none_yet, mut mean) = (1.0, 0.0);
            for i in 0..(tie.len() - hits + 1).min(places.saturating_sub(place)) {
                let next = hits as f64 / (tie.len() - i) as f64;
                mean += none_yet * next / (place + i + 1) as f64;
                none_yet *= 1.0 - next;
            }
            return mean;
        }
        place += tie.len();
    }
    0.0
}
