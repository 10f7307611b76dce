//! Losses by group against naive twins in f64, and at their edges.

use super::by_group::{Group, GroupWork};
use super::{LossKind, LossParams, loss};
use crate::numerics::random::{Purpose, Random};
use proptest::prelude::*;

const RANKING: [LossKind; 4] = [LossKind::Lambdarank, LossKind::Pairwise, LossKind::Xendcg, LossKind::Yetirank];

/// The derivatives of one group.
fn derivatives(kind: LossKind, params: &LossParams, scores: &[f32], target: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let loss = loss(kind, params, 0, 1.0).unwrap();
    let by_group = loss.by_group().unwrap();
    let rows: Vec<u32> = (0..scores.len() as u32).collect();
    let random = Random::new(1, Purpose::RankingLoss, 2);
    let group = Group { scores, target, rows: &rows, number: by_group.number(target), random };
    let (mut g, mut h) = (vec![f32::NAN; scores.len()], vec![f32::NAN; scores.len()]);
    by_group.derivatives(&group, &mut GroupWork::default(), &mut g, &mut h);
    (g, h)
}

/// Rows in the order of their scores, equal ones as they come.
fn ranked(scores: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    order
}

/// LightGBM's `GetGradientsForOneQuery`, pair by pair in f64.
fn naive_lambdarank(params: &LossParams, of_ndcg: bool, scores: &[f32], target: &[f32]) -> (Vec<f64>, Vec<f64>) {
    let n = scores.len();
    let truncation = params.rank_truncation.unwrap_or(if of_ndcg { 30 } else { 1000 }) as usize;
    let gain = |y: f32| (2f64).powf(y as f64) - 1.0;
    let discount = |place: usize| 1.0 / (place as f64 + 2.0).log2();
    let mut best: Vec<f64> = target.iter().map(|y| gain(*y)).collect();
    best.sort_by(|a, b| b.total_cmp(a));
    let best: f64 = best.iter().take(truncation).enumerate().map(|(i, g)| g * discount(i)).sum();
    let order = ranked(scores);
    let (mut g, mut h, mut total) = (vec![0.0; n], vec![0.0; n], 0.0);
    for i in 0..n.min(truncation) {
        for j in i + 1..n {
            let (a, b) = (order[i], order[j]);
            if target[a] == target[b] {
                continue;
            }
            let (high, low) = if target[a] > target[b] { (a, b) } else { (b, a) };
            let apart = scores[high] as f64 - scores[low] as f64;
            let mut change = 1.0;
            if of_ndcg {
                change = (gain(target[high]) - gain(target[low])) * (discount(i) - discount(j)).abs() / best;
                if params.rank_normalize && scores[order[0]] != scores[order[n - 1]] {
                    change /= 0.01 + apart.abs();
                }
            }
            let p = 1.0 / (1.0 + apart.exp());
            g[high] -= change * p;
            g[low] += change * p;
            h[high] += change * p * (1.0 - p);
            h[low] += change * p * (1.0 - p);
            total += 2.0 * change * p;
        }
    }
    if params.rank_normalize && total > 0.0 {
        let factor = (1.0 + total).log2() / total;
        g.iter_mut().chain(&mut h).for_each(|x| *x *= factor);
    }
    (g, h)
}

/// The cross entropy's gradient as Bruch 2021 writes it, with the draws of row `i`.
fn naive_xendcg(scores: &[f32], target: &[f32]) -> (Vec<f64>, Vec<f64>) {
    let random = Random::new(1, Purpose::RankingLoss, 2);
    let top = scores.iter().fold(f64::NEG_INFINITY, |t, s| t.max(*s as f64));
    let e: Vec<f64> = scores.iter().map(|s| (*s as f64 - top).exp()).collect();
    let total: f64 = e.iter().sum();
    let p: Vec<f64> = e.iter().map(|e| e / total).collect();
    let wanted: Vec<f64> =
        target.iter().enumerate().map(|(i, y)| (2f64).powf(*y as f64) - (random.u32(i as u32) >> 8) as f64 / (1u32 << 24) as f64).collect();
    let all: f64 = wanted.iter().sum();
    let first: Vec<f64> = (0..p.len()).map(|i| p[i] - wanted[i] / all).collect();
    let a: Vec<f64> = (0..p.len()).map(|i| first[i] / (1.0 - p[i])).collect();
    let second: Vec<f64> = (0..p.len()).map(|i| p[i] * (a.iter().sum::<f64>() - a[i])).collect();
    let b: Vec<f64> = (0..p.len()).map(|i| second[i] / (1.0 - p[i])).collect();
    let third: Vec<f64> = (0..p.len()).map(|i| p[i] * (b.iter().sum::<f64>() - b[i])).collect();
    ((0..p.len()).map(|i| first[i] + second[i] + third[i]).collect(), p.iter().map(|p| p * (1.0 - p)).collect())
}

/// CatBoost's classic YetiRank, order by order in f64.
fn naive_yetirank(params: &LossParams, scores: &[f32], target: &[f32]) -> (Vec<f64>, Vec<f64>) {
    let n = scores.len();
    let (mut g, mut h) = (vec![0.0; n], vec![0.0; n]);
    for draw in 0..params.rank_orders {
        let random = Random::new(1, Purpose::RankingLoss, 2).child(draw as u64);
        let noisy: Vec<f32> = (0..n)
            .map(|i| {
                let u = ((random.u32(i as u32) >> 8) as f32 / (1u32 << 24) as f32).clamp(1e-6, 0.999_999);
                scores[i] + crate::numerics::math::ln(u / (1.0 - u))
            })
            .collect();
        let order = ranked(&noisy);
        for place in 1..n {
            let (a, b) = (order[place - 1], order[place]);
            let weight = params.rank_decay.powi(place as i32 - 1) * (target[a] as f64 - target[b] as f64).abs() / params.rank_orders as f64;
            let (high, low) = if target[a] > target[b] { (a, b) } else { (b, a) };
            let p = 1.0 / (1.0 + (scores[high] as f64 - scores[low] as f64).exp());
            g[high] -= weight * p;
            g[low] += weight * p;
            h[high] += weight * p * (1.0 - p);
            h[low] += weight * p * (1.0 - p);
        }
    }
    (g, h)
}

fn naive(kind: LossKind, params: &LossParams, scores: &[f32], target: &[f32]) -> (Vec<f64>, Vec<f64>) {
    match kind {
        LossKind::Lambdarank => naive_lambdarank(params, true, scores, target),
        LossKind::Pairwise => naive_lambdarank(params, false, scores, target),
        LossKind::Xendcg => naive_xendcg(scores, target),
        _ => naive_yetirank(params, scores, target),
    }
}

/// Scores, of which some are equal, and grades.
fn groups() -> impl Strategy<Value = (Vec<f32>, Vec<f32>)> {
    let score = prop_oneof![-4.0f32..4.0, (-3i32..3).prop_map(|x| x as f32)];
    (2usize..70).prop_flat_map(move |n| (prop::collection::vec(score.clone(), n), prop::collection::vec((0u8..5).prop_map(f32::from), n)))
}

proptest! {
    #[test]
    fn derivatives_are_those_of_the_naive_twins((scores, target) in groups(), truncation in 1u32..80, normalize: bool, told: bool) {
        let params = LossParams { rank_truncation: told.then_some(truncation), rank_normalize: normalize, ..LossParams::default() };
        for kind in RANKING {
            let (g, h) = derivatives(kind, &params, &scores, &target);
            let (naive_g, naive_h) = naive(kind, &params, &scores, &target);
            let scale = |of: &[f64]| of.iter().fold(1e-6, |top: f64, x| top.max(x.abs()));
            let (scale_g, scale_h) = (scale(&naive_g), scale(&naive_h));
            for i in 0..scores.len() {
                prop_assert!((g[i] as f64 - naive_g[i]).abs() < 2e-4 * scale_g, "{kind:?} {i}: {} {}", g[i], naive_g[i]);
                prop_assert!((h[i] as f64 - naive_h[i]).abs() < 2e-4 * scale_h, "{kind:?} {i}: {} {}", h[i], naive_h[i]);
            }
        }
    }

    #[test]
    fn pairs_push_as_much_up_as_down((scores, target) in groups()) {
        for kind in [LossKind::Lambdarank, LossKind::Pairwise, LossKind::Yetirank] {
            let (g, _) = derivatives(kind, &LossParams::default(), &scores, &target);
            let (sum, size) = g.iter().fold((0.0, 0.0), |t, g| (t.0 + *g as f64, t.1 + g.abs() as f64));
            prop_assert!(sum.abs() <= 1e-5 * size, "{kind:?}: {sum} of {size}");
        }
    }
}

/// The derivatives of `pairwise` are those of the sum over pairs of `ln(1 + exp(-(better - worse)))`, by finite differences.
#[test]
fn pairwise_has_the_slope_of_its_loss() {
    let params = LossParams { rank_normalize: false, ..LossParams::default() };
    let (scores, target) = ([0.3f32, -1.2, 2.0, 0.1, 0.35], [1.0f32, 0.0, 2.5, -3.0, 1.0]);
    let value = |scores: &[f64]| -> f64 {
        let pairs = (0..5).flat_map(|a| (0..5).map(move |b| (a, b))).filter(|(a, b)| target[*a] > target[*b]);
        pairs.map(|(a, b)| (1.0 + (scores[b] - scores[a]).exp()).ln()).sum()
    };
    let (g, h) = derivatives(LossKind::Pairwise, &params, &scores, &target);
    for i in 0..5 {
        let at = |d: f64| {
            let mut scores = scores.map(f64::from);
            scores[i] += d;
            value(&scores)
        };
        assert!((g[i] as f64 - (at(1e-5) - at(-1e-5)) / 2e-5).abs() < 1e-6);
        assert!((h[i] as f64 - (at(1e-4) - 2.0 * at(0.0) + at(-1e-4)) / 1e-8).abs() < 1e-5);
    }
}

/// Groups of one row, of equal targets, and scores beyond what exponentials hold: finite, and no push where there is none.
#[test]
fn derivatives_are_finite_at_the_edges() {
    let huge = [f32::MAX, -f32::MAX, 0.0, 1e30];
    for kind in RANKING {
        let of = |scores: &[f32], target: &[f32]| {
            let (g, h) = derivatives(kind, &LossParams::default(), scores, target);
            assert!(g.iter().all(|g| g.is_finite()) && h.iter().all(|h| h.is_finite() && *h > 0.0), "{kind:?} {scores:?}: {g:?} {h:?}");
            g
        };
        assert_eq!(of(&[3.0], &[2.0]), [0.0], "{kind:?}");
        if kind != LossKind::Xendcg {
            assert_eq!(of(&[3.0, 1.0, 3.0], &[1.0; 3]), [0.0; 3], "{kind:?}");
        }
        of(&huge, &[0.0, 1.0, 2.0, 0.0]);
        of(&[0.0; 40], &[0.0; 40]);
        of(&[1.0, 2.0], &[30.0, 0.0]);
    }
}

#[test]
fn grades_are_whole_numbers_to_30() {
    let check = |kind, y| loss(kind, &LossParams::default(), 0, 1.0).unwrap().check_target(y);
    for kind in [LossKind::Lambdarank, LossKind::Xendcg] {
        assert!(check(kind, 0.0).is_ok() && check(kind, 30.0).is_ok());
        assert!([-1.0, 0.5, 31.0].iter().all(|y| check(kind, *y).is_err()));
    }
    assert!(check(LossKind::Pairwise, -2.5).is_ok() && check(LossKind::Yetirank, -2.5).is_ok());
}

/// Run by hand: `cargo test --release -p taiga-core --lib -- --ignored group_times --nocapture`.
#[test]
#[ignore = "prints times; asserts nothing"]
fn group_times() {
    let random = Random::new(5, Purpose::RankingLoss, 0);
    for size in [10usize, 120, 2000] {
        let groups = 240_000 / size;
        let scores: Vec<f32> = (0..groups * size).map(|i| random.unit(i as u64) as f32).collect();
        let target: Vec<f32> = (0..scores.len()).map(|i| (8.0 * random.child(1).unit(i as u64) - 4.0).max(0.0).floor() as f32).collect();
        let rows: Vec<u32> = (0..scores.len() as u32).collect();
        let (mut g, mut h) = (vec![0.0; scores.len()], vec![0.0; scores.len()]);
        for kind in RANKING {
            let loss = loss(kind, &LossParams::default(), 0, 1.0).unwrap();
            let (by_group, mut work) = (loss.by_group().unwrap(), GroupWork::default());
            if kind == LossKind::Pairwise && size > 200 {
                continue;
            }
            let mut best = f64::INFINITY;
            for _ in 0..5 {
                let started = std::time::Instant::now();
                for own in (0..scores.len()).step_by(size).map(|a| a..(a + size).min(scores.len())) {
                    let target = &target[own.clone()];
                    let group = Group { scores: &scores[own.clone()], target, rows: &rows[own.clone()], number: 1.0, random };
                    by_group.derivatives(&group, &mut work, &mut g[own.clone()], &mut h[own]);
                }
                best = best.min(started.elapsed().as_secs_f64());
            }
            println!("{:>12} groups of {size}: {:.1} ns a row", kind.name(), best * 1e9 / scores.len() as f64);
        }
    }
}
