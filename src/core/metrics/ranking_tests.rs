//! Metrics of ordered groups against their definitions, over all orders of rows with equal scores.

use super::{At, MetricKind, MetricSpec, Rows, metric};
use crate::dataset::row_groups::RowGroups;
use crate::objective::{Link, LossParams};
use proptest::prelude::*;

const RANKING: [MetricKind; 4] = [MetricKind::Ndcg, MetricKind::Map, MetricKind::Mrr, MetricKind::Precision];

/// The metric of rows in one group or several.
fn measured(kind: MetricKind, scores: &[f64], target: &[f64], weight: Option<&[f32]>, groups: &[u32], places: Option<u32>) -> f64 {
    let (groups, scores, params) = (RowGroups::new(groups), [scores.to_vec()], LossParams::default());
    let weight: Option<Vec<f64>> = weight.map(|w| w.iter().map(|w| f64::from(*w)).collect());
    let rows = Rows { weight: weight.as_deref(), groups: Some(&groups), ..Rows::new(&scores, Link::Identity, target, &params) };
    let spec = MetricSpec::with(kind, places.map(|k| At::Number(k.into()))).expect("a metric of the first places");
    metric(&spec, &rows)
}

/// The metric of targets in one order.
fn of_order(kind: MetricKind, order: &[f64], all: &[f64], places: usize) -> f64 {
    let hit = |y: &f64| (*y > 0.0) as usize as f64;
    let first = &order[..places.min(order.len())];
    let relevant = all.iter().map(hit).sum::<f64>();
    match kind {
        MetricKind::Ndcg => {
            let dcg = |list: &[f64]| -> f64 {
                list.iter().take(places).enumerate().map(|(i, y)| ((2f64).powf(*y) - 1.0) / (i as f64 + 2.0).log2()).sum()
            };
            let mut best = all.to_vec();
            best.sort_by(|a, b| b.total_cmp(a));
            if dcg(&best) > 0.0 { dcg(order) / dcg(&best) } else { 1.0 }
        }
        MetricKind::Map => {
            let at = |i: usize| order[..=i].iter().map(hit).sum::<f64>() / (i + 1) as f64;
            let total: f64 = (0..first.len()).filter(|i| order[*i] > 0.0).map(at).sum();
            if relevant > 0.0 { total / relevant.min(places as f64) } else { 1.0 }
        }
        MetricKind::Mrr => first.iter().position(|y| *y > 0.0).map_or(0.0, |i| 1.0 / (i + 1) as f64),
        _ => first.iter().map(hit).sum::<f64>() / places as f64,
    }
}

/// All orders of `rows` by score, those of equal scores in every order; their targets.
fn orders(mut rows: Vec<(f64, f64)>) -> Vec<Vec<f64>> {
    if rows.is_empty() {
        return vec![vec![]];
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let ties = rows.iter().filter(|r| r.0 == rows[0].0).count();
    let mut all = vec![];
    for first in 0..ties {
        let mut rest = rows.clone();
        let (_, target) = rest.remove(first);
        for mut order in orders(rest) {
            order.insert(0, target);
            all.push(order);
        }
    }
    all
}

proptest! {
    #[test]
    fn values_are_means_over_all_orders_of_equal_scores(
        rows in prop::collection::vec(((0i32..3).prop_map(f64::from), (0i32..3).prop_map(f64::from)), 1..7),
        places in prop::option::of(1u32..8),
    ) {
        let (scores, target): (Vec<f64>, Vec<f64>) = rows.iter().copied().unzip();
        let orders = orders(rows.clone());
        for kind in RANKING {
            let k = places.map_or(rows.len(), |k| k as usize);
            let mean = orders.iter().map(|order| of_order(kind, order, &target, k)).sum::<f64>() / orders.len() as f64;
            let value = measured(kind, &scores, &target, None, &vec![0; rows.len()], places);
            prop_assert!((value - mean).abs() < 1e-12, "{kind:?}: {value} {mean}");
        }
    }

    #[test]
    fn neither_the_order_of_rows_nor_a_factor_on_weights_leaves_a_trace(
        rows in prop::collection::vec(((-9i32..9).prop_map(f64::from), (0i32..4).prop_map(f64::from), 0u32..3, 1u8..5), 1..40),
    ) {
        let of = |rows: &[(f64, f64, u32, u8)], factor: f32, kind| {
            let scores: Vec<f64> = rows.iter().map(|r| r.0).collect();
            let target: Vec<f64> = rows.iter().map(|r| r.1).collect();
            let groups: Vec<u32> = rows.iter().map(|r| r.2).collect();
            let weight: Vec<f32> = rows.iter().map(|r| r.3 as f32 * factor).collect();
            measured(kind, &scores, &target, Some(&weight), &groups, Some(5))
        };
        let reversed: Vec<_> = rows.iter().rev().copied().collect();
        for kind in RANKING {
            let value = of(&rows, 1.0, kind);
            prop_assert!((value - of(&reversed, 1.0, kind)).abs() < 1e-13);
            prop_assert_eq!(value, of(&rows, 0.5, kind));
        }
    }
}

/// Proves that grades whose gains are beyond f64, or whose sums are, have the value that their ratios make.
#[test]
fn gains_of_any_grade_are_finite() {
    let of = |scores: &[f64], grades: &[f64]| measured(MetricKind::Ndcg, scores, grades, None, &vec![0; grades.len()], None);
    let (scores, discount) = ([0.1, 0.2, 0.3], |place: f64| 1.0 / (place + 1.0).log2());
    assert!((of(&scores, &[2_000.0, 1.0, 0.0]) - discount(3.0)).abs() < 1e-12);
    assert!((of(&scores, &[1_023.0; 3]) - 1.0).abs() < 1e-12);
    for more in [0.0, 897.0, 1_000.0, 100_000.0] {
        // The last one gains half as much as the first, a quarter of the second.
        let value = of(&scores, &[more + 64.0, more + 65.0, more + 63.0]);
        let wanted =
            (discount(1.0) + 4.0 * discount(2.0) + 2.0 * discount(3.0)) / (4.0 * discount(1.0) + 2.0 * discount(2.0) + discount(3.0));
        assert!((value - wanted).abs() < 1e-12, "{more}: {value} {wanted}");
    }
}

/// What scikit-learn 1.9's `ndcg_score` gives for gains `2^grade - 1`, and XGBoost's and LightGBM's 1 for a group without grades.
#[test]
fn known_values() {
    let (scores, grades) = ([0.1, 0.2, 0.3, 4.0, 70.0, 0.2], [3.0, 0.0, 1.0, 2.0, 0.0, 1.0]);
    let one = [0; 6];
    assert!((measured(MetricKind::Ndcg, &scores, &grades, None, &one, None) - NDCG).abs() < 1e-12);
    assert!((measured(MetricKind::Ndcg, &scores, &grades, None, &one, Some(3)) - NDCG_3).abs() < 1e-12);
    for (kind, nothing) in [(MetricKind::Ndcg, 1.0), (MetricKind::Map, 1.0), (MetricKind::Mrr, 0.0), (MetricKind::Precision, 0.0)] {
        assert_eq!(measured(kind, &scores, &[0.0; 6], None, &one, None), nothing, "{kind:?}");
    }
    // The mean of two groups, weighed by the mean weights of their rows.
    let value = measured(MetricKind::Mrr, &[2.0, 1.0, 2.0, 1.0], &[1.0, 0.0, 0.0, 1.0], Some(&[1.0, 3.0, 6.0, 6.0]), &[0, 0, 1, 1], None);
    assert_eq!(value, (2.0 * 1.0 + 6.0 * 0.5) / 8.0);
}

const NDCG: f64 = 0.5390158983398295;
const NDCG_3: f64 = 0.25474746577380225;
