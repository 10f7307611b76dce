//! Harrell's concordance.

use super::kind::{ERROR, Metric};
use super::lifetimes::{Lifetime, strata};
use super::rows::Rows;
use crate::objective::Link;

pub(super) const METRIC: Metric = Metric {
    fits: |link| link == Link::Hazard || link.is_of_one_number(),
    larger_is_better: true,
    times: true,
    value: concordance,
    undefined: "of no two measured rows is said whose event came first",
    ..ERROR
};

/// Weights by rank, whose sums up to a rank are a few additions (Fenwick, "A new data structure for cumulative frequency tables", 1994).
struct Ranks(Vec<f64>);

impl Ranks {
    fn add(&mut self, rank: usize, weight: f64) {
        let mut at = rank + 1;
        while at <= self.0.len() {
            self.0[at - 1] += weight;
            at += at & at.wrapping_neg();
        }
    }

    /// The weights of the ranks below.
    fn below(&self, rank: usize) -> f64 {
        let (mut at, mut sum) = (rank, 0.0);
        while at > 0 {
            sum += self.0[at - 1];
            at &= at - 1;
        }
        sum
    }
}

/// The share of pairs of rows, of which is known whose event came first, that the predictions have in the same order; equal predictions
/// count half (Harrell et al., "Evaluating the yield of medical tests", 1982). An event comes before one whose time is not earlier for sure,
/// the least of the one not being below the largest of the other, unless both were seen, at the same time. A pair counts the product of its weights; under strata pairs are of one stratum.
fn concordance(rows: &Rows<'_>) -> f64 {
    let earlier = if rows.link == Link::Hazard { -1.0 } else { 1.0 };
    let of_strata = strata(rows).into_iter().map(|stratum| pairs(stratum, earlier));
    let (correct, all) = of_strata.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    correct / all
}

/// The weights of a stratum's pairs in the right order, and of all that have one. In O(n log n): the latest events first, each held against
/// those known to be later.
fn pairs(rows: Vec<Lifetime>, sign: f64) -> (f64, f64) {
    let mut predicted: Vec<f64> = rows.iter().map(|row| sign * row.score + 0.0).collect();
    predicted.sort_unstable_by(f64::total_cmp);
    predicted.dedup();
    let rank = |row: &Lifetime| predicted.partition_point(|x| *x < sign * row.score);
    let mut all: Vec<(usize, Lifetime)> = rows.into_iter().map(|row| (rank(&row), row)).collect();
    let tied = |a: &(usize, Lifetime), b: &(usize, Lifetime)| a.0.cmp(&b.0).then(a.1.weight.total_cmp(&b.1.weight));
    all.sort_unstable_by(|a, b| b.1.lower.total_cmp(&a.1.lower).then(b.1.upper.total_cmp(&a.1.upper)).then(tied(a, b)));
    let mut events: Vec<(usize, Lifetime)> = all.iter().filter(|(_, row)| row.upper.is_finite()).copied().collect();
    // Of those with the same largest time the ones seen then come first: they alone are not held against each other.
    let seen = |a: &Lifetime, b: &Lifetime| b.has_died().cmp(&a.has_died());
    events.sort_unstable_by(|a, b| b.1.upper.total_cmp(&a.1.upper).then(seen(&a.1, &b.1)).then(tied(a, b)));
    let (mut ranks, mut later) = (Ranks(vec![0.0; predicted.len()]), all.iter().peekable());
    let (mut known, mut correct, mut total) = (0.0, 0.0, 0.0);
    for (rank, event) in &events {
        let is_later =
            |row: &Lifetime| row.lower > event.upper || row.lower == event.upper && (row.upper > event.upper || !event.has_died());
        while let Some((rank, row)) = later.next_if(|(_, row)| is_later(row)) {
            ranks.add(*rank, row.weight);
            known += row.weight;
        }
        let (below, not_above) = (ranks.below(*rank), ranks.below(*rank + 1));
        correct += event.weight * ((known - not_above) + 0.5 * (not_above - below));
        total += event.weight * known;
    }
    (correct, total)
}
