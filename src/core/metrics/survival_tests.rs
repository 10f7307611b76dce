//! The metrics of times against their definitions, row against row.

use super::{MetricKind, Rows, metric};
use crate::dataset::row_groups::RowGroups;
use crate::numerics::censored::{Distribution, log_likelihood, survival};
use crate::objective::{AftParams, Link, LossParams};
use proptest::prelude::*;

/// Rows of a time, whether the event happened, a score, a weight and a stratum.
type Row = (u32, bool, i32, u32, u32);

fn rows() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec((0u32..12, any::<bool>(), -6i32..6, 1u32..4, 0u32..2), 1..60)
}

/// The metric of rows whose targets are the least times of their events.
fn of_times(kind: MetricKind, params: &LossParams, link: Link, score: &[f64], columns: &[Vec<f64>]) -> f64 {
    metric(&kind.into(), &Rows { columns, ..Rows::new(&[score.to_vec()], link, &columns[0], params) })
}

struct Table {
    lower: Vec<f64>,
    columns: [Vec<f64>; 2],
    score: Vec<f64>,
    weight: Vec<f64>,
    strata: Vec<u32>,
}

impl Table {
    fn new(rows: &[Row]) -> Table {
        let lower: Vec<f64> = rows.iter().map(|r| r.0 as f64).collect();
        let upper = rows.iter().map(|r| if r.1 { r.0 as f64 } else { f64::INFINITY }).collect();
        Table {
            columns: [lower.clone(), upper],
            lower,
            score: rows.iter().map(|r| r.2 as f64 / 3.0).collect(),
            weight: rows.iter().map(|r| r.3 as f64).collect(),
            strata: rows.iter().map(|r| r.4).collect(),
        }
    }

    fn metric(&self, kind: MetricKind, link: Link, weighted: bool, strata: bool) -> f64 {
        let groups = RowGroups::new(&self.strata);
        let (weight, groups) = (weighted.then_some(&self.weight[..]), strata.then_some(&groups));
        let (scores, params) = ([self.score.clone()], LossParams::default());
        metric(&kind.into(), &Rows { weight, groups, columns: &self.columns, ..Rows::new(&scores, link, &self.lower, &params) })
    }

    fn weight(&self, row: usize, weighted: bool) -> f64 {
        if weighted { self.weight[row] } else { 1.0 }
    }

    fn died(&self, row: usize) -> bool {
        self.columns[1][row].is_finite()
    }
}

fn same(a: f64, b: f64) -> bool {
    a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-12 * (1.0 + b.abs())
}

proptest! {
    #[test]
    fn concordance_counts_pairs(rows in rows(), weighted: bool, strata: bool, hazard: bool) {
        let t = Table::new(&rows);
        let (mut right, mut all) = (0.0, 0.0);
        for i in 0..rows.len() {
            for j in 0..rows.len() {
                let is_first = t.lower[i] < t.lower[j] || t.lower[i] == t.lower[j] && !t.died(j);
                if t.died(i) && is_first && (!strata || t.strata[i] == t.strata[j]) {
                    let weight = t.weight(i, weighted) * t.weight(j, weighted);
                    let ahead = if hazard { t.score[i] - t.score[j] } else { t.score[j] - t.score[i] };
                    all += weight;
                    right += weight * if ahead > 0.0 { 1.0 } else if ahead == 0.0 { 0.5 } else { 0.0 };
                }
            }
        }
        let link = if hazard { Link::Hazard } else { Link::Time };
        let found = t.metric(MetricKind::Concordance, link, weighted, strata);
        prop_assert!(same(found, right / all), "{found} {}", right / all);
    }

    /// Of times between bounds a pair counts where one's largest time is not above the other's least, unless both were seen at that time.
    #[test]
    fn concordance_of_bounds_counts_pairs_that_are_sure(rows in prop::collection::vec((0u32..12, 0u32..5, -6i32..6), 1..50)) {
        let lower: Vec<f64> = rows.iter().map(|r| r.0 as f64).collect();
        let upper: Vec<f64> = rows.iter().map(|r| if r.1 == 4 { f64::INFINITY } else { (r.0 + r.1) as f64 }).collect();
        let score: Vec<f64> = rows.iter().map(|r| r.2 as f64).collect();
        let (mut right, mut all) = (0.0, 0.0);
        for i in 0..rows.len() {
            for j in 0..rows.len() {
                let both_seen = lower[i] == upper[i] && lower[j] == upper[j];
                if upper[i] < lower[j] || upper[i] == lower[j] && !both_seen {
                    all += 1.0;
                    right += if score[i] < score[j] { 1.0 } else if score[i] == score[j] { 0.5 } else { 0.0 };
                }
            }
        }
        let found = of_times(MetricKind::Concordance, &LossParams::default(), Link::Time, &score, &[lower.clone(), upper]);
        prop_assert!(same(found, right / all), "{found} {}", right / all);
    }

    #[test]
    fn cox_nloglik_is_its_definition(rows in rows(), weighted: bool, strata: bool) {
        let t = Table::new(&rows);
        let (mut likelihood, mut events) = (0.0, 0.0);
        let hazard = |j: usize| t.weight(j, weighted) * t.score[j].exp();
        for i in 0..rows.len() {
            let together = |j: usize| !strata || t.strata[i] == t.strata[j];
            let tied: Vec<usize> = (0..rows.len()).filter(|j| together(*j) && t.died(*j) && t.lower[*j] == t.lower[i]).collect();
            if !t.died(i) || tied[0] != i {
                continue;
            }
            let weight: f64 = tied.iter().map(|j| t.weight(*j, weighted)).sum();
            let at_risk: f64 = (0..rows.len()).filter(|j| together(*j) && t.lower[*j] >= t.lower[i]).map(hazard).sum();
            let dying: f64 = tied.iter().map(|j| hazard(*j)).sum();
            events += weight;
            for (k, j) in tied.iter().enumerate() {
                let share = k as f64 / tied.len() as f64;
                likelihood += t.weight(*j, weighted) * t.score[*j] - weight / tied.len() as f64 * (at_risk - share * dying).ln();
            }
        }
        let found = t.metric(MetricKind::CoxNloglik, Link::Hazard, weighted, strata);
        let mean = (0..rows.len()).map(|j| t.weight(j, weighted)).sum::<f64>() / rows.len() as f64;
        let expected = -likelihood / events - mean.ln();
        prop_assert!(same(found, expected), "{found} {expected}");
    }

    /// scikit-survival's definition, with the measured rows as both tables.
    #[test]
    fn brier_is_its_definition(rows in rows(), weighted: bool) {
        let mut t = Table::new(&rows);
        t.lower.iter_mut().for_each(|x| *x += 1.0);
        t.columns = [t.lower.clone(), t.columns[1].iter().map(|x| x + 1.0).collect()];
        let n = rows.len();
        let w = |i: usize| t.weight(i, weighted);
        let remain = |time: f64| {
            let mut distinct: Vec<f64> = t.lower.iter().copied().filter(|x| *x <= time).collect();
            distinct.sort_by(f64::total_cmp);
            distinct.dedup();
            distinct.iter().fold(1.0, |share, at| {
                let died: f64 = (0..n).filter(|i| t.lower[*i] == *at && t.died(*i)).map(w).sum();
                let censored: f64 = (0..n).filter(|i| t.lower[*i] == *at && !t.died(*i)).map(w).sum();
                let at_risk: f64 = (0..n).filter(|i| t.lower[*i] >= *at).map(w).sum::<f64>() - died;
                if censored > 0.0 { share * (1.0 - censored / at_risk) } else { share }
            })
        };
        let last = t.lower.iter().copied().fold(0.0, f64::max);
        let mut times: Vec<f64> = (0..n).filter(|i| t.died(*i) && t.lower[*i] < last).map(|i| t.lower[i]).collect();
        times.sort_by(f64::total_cmp);
        times.dedup();
        let at = |time: f64| {
            let terms = (0..n).map(|i| {
                let s = survival(Distribution::Normal, time.ln() - t.score[i]);
                let (is_case, is_control) = (t.lower[i] <= time && t.died(i), t.lower[i] > time);
                let inverse = |g: f64| if g > 1e-14 { 1.0 / g } else { 0.0 };
                w(i) * (if is_case { s * s * inverse(remain(t.lower[i])) } else if is_control { (1.0 - s) * (1.0 - s) * inverse(remain(time)) } else { 0.0 })
            });
            terms.sum::<f64>() / (0..n).map(w).sum::<f64>()
        };
        let expected = match times.len() {
            0 => f64::NAN,
            1 => at(times[0]),
            k => times.windows(2).map(|p| (p[1] - p[0]) * (at(p[0]) + at(p[1])) / 2.0).sum::<f64>() / (times[k - 1] - times[0]),
        };
        let found = t.metric(MetricKind::Brier, Link::Time, weighted, false);
        prop_assert!(same(found, expected) || (found - expected).abs() < 1e-9, "{found} {expected}");
    }

    /// The order of the rows leaves no trace in any of them.
    #[test]
    fn rows_may_stand_in_any_order(rows in rows(), weighted: bool) {
        let mut turned = rows.clone();
        turned.reverse();
        let (a, b) = (Table::new(&rows), Table::new(&turned));
        for (kind, link) in [(MetricKind::Concordance, Link::Hazard), (MetricKind::CoxNloglik, Link::Hazard), (MetricKind::Brier, Link::Hazard)] {
            let (x, y) = (a.metric(kind, link, weighted, false), b.metric(kind, link, weighted, false));
            prop_assert!(x == y || same(x, y), "{kind:?}: {x} {y}");
        }
    }
}

#[test]
fn aft_nloglik_is_of_densities_and_shares() {
    let inf = f64::INFINITY;
    let columns = [vec![2.0, 2.0, 0.0, 1.0], vec![2.0, inf, 2.0, 3.0]];
    let score = [0.3, -0.2, 1.0, 0.5];
    for distribution in Distribution::ALL {
        let params = LossParams { aft: AftParams { distribution, scale: 0.8 }, ..LossParams::default() };
        let z = |t: f64, i: usize| (t.ln() - score[i]) / 0.8;
        let s = |t: f64, i: usize| survival(distribution, z(t, i));
        let density = log_likelihood(distribution, z(2.0, 0), z(2.0, 0)).exp() / (0.8 * 2.0);
        let terms = [density, s(2.0, 1), 1.0 - s(2.0, 2), s(1.0, 3) - s(3.0, 3)];
        let expected = -terms.iter().map(|p| p.ln()).sum::<f64>() / 4.0;
        let found = of_times(MetricKind::AftNloglik, &params, Link::Time, &score, &columns);
        assert!((found - expected).abs() < 1e-12, "{distribution:?}: {found} {expected}");
    }
}

/// An event between bounds comes before one that was seen at the upper one, and two that were seen at one time have no order.
#[test]
fn concordance_of_bounds_that_meet() {
    let of = |lower: [f64; 2], upper: [f64; 2], score: [f64; 2]| {
        let columns = [lower.to_vec(), upper.to_vec()];
        of_times(MetricKind::Concordance, &LossParams::default(), Link::Time, &score, &columns)
    };
    assert_eq!(of([2.0, 5.0], [5.0, 5.0], [0.0, 1.0]), 1.0);
    assert_eq!(of([2.0, 5.0], [5.0, 5.0], [1.0, 0.0]), 0.0);
    assert_eq!(of([2.0, 5.0], [5.0, 8.0], [0.0, 1.0]), 1.0);
    assert!(of([5.0, 5.0], [5.0, 5.0], [0.0, 1.0]).is_nan() && of([2.0, 4.0], [5.0, 4.0], [0.0, 1.0]).is_nan());
}

/// Hazards far apart neither overflow nor vanish.
#[test]
fn cox_nloglik_of_far_scores_is_finite() {
    let columns = [vec![1.0, 2.0, 3.0], vec![1.0, 2.0, 3.0]];
    let of = |score: Vec<f64>| of_times(MetricKind::CoxNloglik, &LossParams::default(), Link::Hazard, &score, &columns);
    assert_eq!(of(vec![2000.0, 1000.0, 0.0]), 0.0);
    assert_eq!(of(vec![0.0, 1000.0, 2000.0]), (2000.0 + 1000.0) / 3.0);
}

#[test]
fn what_is_not_known_has_no_value() {
    let params = LossParams::default();
    let of = |kind, columns: &[Vec<f64>]| {
        metric(&MetricKind::into(kind), &Rows { columns, ..Rows::new(&[vec![0.0, 1.0]], Link::Hazard, &[1.0, 2.0], &params) })
    };
    let censored = [vec![1.0, 2.0], vec![f64::INFINITY; 2]];
    let between = [vec![1.0, 2.0], vec![1.5, 2.0]];
    for kind in [MetricKind::Concordance, MetricKind::CoxNloglik, MetricKind::Brier] {
        assert!(of(kind, &[]).is_nan() && of(kind, &censored).is_nan(), "{kind:?}");
    }
    assert!(of(MetricKind::CoxNloglik, &between).is_nan() && of(MetricKind::Brier, &between).is_nan());
    assert_eq!(of(MetricKind::Concordance, &between), 0.0);
}
