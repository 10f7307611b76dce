//! Normalised discounted cumulated gain.

use super::kind::{ERROR, Metric};
use super::ranking::{RankedGroup, mean_of_groups};
use super::spec::Takes;

pub(super) const METRIC: Metric = Metric {
    larger_is_better: true,
    groups: true,
    takes: Takes::Places,
    value: |rows| mean_of_groups(rows, ndcg),
    undefined: "the rows have no groups, or a grade is negative, which other metrics take",
    ..ERROR
};

/// The largest exponent of a gain.
const LARGEST: f64 = 900.0;

/// The gain `2^grade - 1` of each of the first places, divided by `log2(place + 1)`, over what the best order has (Järvelin and
/// Kekäläinen, "Cumulated gain-based evaluation of IR techniques", 2002; gains as in Burges et al. 2005). 1 for a group in which no row
/// gains anything, as in LightGBM and XGBoost. Of negative grades there is no gain that is lost.
fn ndcg(group: &RankedGroup, places: usize) -> f64 {
    if group.targets().any(|grade| grade < 0.0) {
        return f64::NAN;
    }
    // All gains in units of a power of two, so that those of the largest grades, and their sums, are finite.
    let unit = group.targets().fold(0.0, |unit, grade| f64::max(unit, grade - LARGEST));
    let gain = |grade: f64| libm::exp2(grade - unit) - libm::exp2(-unit);
    let mut best: Vec<f64> = group.targets().map(gain).collect();
    best.sort_unstable_by(|a, b| b.total_cmp(a));
    let best: f64 = best.iter().take(places).enumerate().map(|(place, gain)| gain / libm::log2(place as f64 + 2.0)).sum();
    if best <= 0.0 {
        return 1.0;
    }
    let (mut place, mut found) = (0, 0.0);
    for tie in group.ties() {
        let mean = tie.iter().map(|row| gain(row.1)).sum::<f64>() / tie.len() as f64;
        let discounts: f64 = (place..places.min(place + tie.len())).map(|p| 1.0 / libm::log2(p as f64 + 2.0)).sum();
        found += mean * discounts;
        place += tie.len();
        if place >= places {
            break;
        }
    }
    found / best
}
