//! Every loss against its function in f64: derivatives by central differences, the start value as
//! the minimum, the same bits from vector and scalar code, finite results at the extremes.

use super::pointwise::Pointwise;
use super::*;
use crate::numerics::random::{Purpose, Random};
use crate::objective::FocalParams;

/// The losses whose derivatives at a row depend on its scores and its target alone.
fn kinds() -> impl Iterator<Item = LossKind> {
    let others = [LossKind::Custom, LossKind::Cox, LossKind::Aft];
    LossKind::ALL.iter().copied().filter(move |kind| !kind.reads_groups() && !others.contains(kind))
}
const CLASSES: usize = 4;
const FOCAL: FocalParams = FocalParams { gamma: 1.7, alpha: Some(0.3) };

fn params() -> LossParams {
    LossParams { alpha: Alpha::One(0.3), huber_delta: 1.5, tweedie_power: 1.3, focal: FOCAL, ..LossParams::default() }
}

fn make(kind: LossKind) -> Box<dyn Loss> {
    loss(kind, &params(), CLASSES, 1.0).unwrap()
}

/// The loss of one row in f64.
fn value(kind: LossKind, s: &[f64], y: f64) -> f64 {
    let (softplus, r, p) = (|x: f64| libm::log1p(libm::exp(-x.abs())) + x.max(0.0), s[0] - y, 1.3);
    match kind {
        LossKind::Rmse => r * r / 2.0,
        LossKind::Logloss | LossKind::CrossEntropy | LossKind::Multilabel => y * softplus(-s[0]) + (1.0 - y) * softplus(s[0]),
        LossKind::Multiclass => libm::log(s.iter().map(|x| libm::exp(*x)).sum::<f64>()) - s[y as usize],
        // The rows' weights have what mape divides by.
        LossKind::Ova => s.iter().enumerate().map(|(k, s)| softplus(*s) - if y == k as f64 { *s } else { 0.0 }).sum(),
        LossKind::Gaussian => s[1] + 0.5 * libm::pow(r * libm::exp(-s[1]), 2.0),
        LossKind::Mae | LossKind::Mape => r.abs(),
        LossKind::Quantile => {
            if r < 0.0 {
                -0.3 * r
            } else {
                0.7 * r
            }
        }
        LossKind::Expectile => (if r < 0.0 { 0.3 } else { 0.7 }) * r * r,
        LossKind::LogCosh => libm::log(libm::cosh(r)),
        LossKind::Focal => {
            let z = if y == 1.0 { s[0] } else { -s[0] };
            (if y == 1.0 { 0.3 } else { 0.7 }) * libm::exp(-1.7 * softplus(z)) * softplus(-z)
        }
        LossKind::Huber => {
            if r.abs() <= 1.5 {
                r * r / 2.0
            } else {
                1.5 * (r.abs() - 0.75)
            }
        }
        LossKind::Poisson => libm::exp(s[0]) - y * s[0],
        LossKind::Gamma => s[0] + y * libm::exp(-s[0]),
        LossKind::Tweedie => libm::exp((2.0 - p) * s[0]) / (2.0 - p) - y * libm::exp((1.0 - p) * s[0]) / (1.0 - p),
        _ => unreachable!("{kind:?} is no loss of single rows"),
    }
}

/// A valid target from a random number in [0, 1).
fn target(kind: LossKind, u: f64) -> f64 {
    match kind {
        LossKind::Logloss | LossKind::Focal | LossKind::Multilabel => (u < 0.4) as u8 as f64,
        LossKind::CrossEntropy => u,
        LossKind::Multiclass | LossKind::Ova => (u * CLASSES as f64).floor(),
        LossKind::Poisson => (u * u * 8.0).floor(),
        LossKind::Gamma => 0.01 + 5.0 * u * u,
        LossKind::Tweedie => {
            if u < 0.5 {
                0.0
            } else {
                10.0 * (u - 0.5)
            }
        }
        _ => 10.0 * u - 3.0,
    }
}

struct Table {
    scores: Vec<Vec<f32>>,
    target: Vec<f32>,
    weight: Vec<f32>,
}

fn table(kind: LossKind, n: usize) -> Table {
    let r = Random::new(kind as u64, Purpose::Rounding, 0);
    let outputs = make(kind).outputs();
    Table {
        scores: (0..outputs).map(|k| (0..n).map(|i| (r.unit((i * outputs + k) as u64) * 8.0 - 4.0) as f32).collect()).collect(),
        target: (0..n).map(|i| target(kind, r.unit((i + (1 << 32)) as u64)) as f32).collect(),
        weight: (0..n).map(|i| if i % 7 == 0 { 0.0 } else { (r.unit((i + (1 << 33)) as u64) * 3.0) as f32 }).collect(),
    }
}

fn derivatives(loss: &dyn Loss, t: &Table, output: usize, weighted: bool) -> (Vec<f32>, Vec<f32>) {
    let scores: Vec<&[f32]> = t.scores.iter().map(|s| &s[..]).collect();
    let n = t.target.len();
    let (mut g, mut h) = (vec![f32::NAN; n], vec![f32::NAN; n]);
    let rows = Rows { scores: &scores, target: &t.target, weight: weighted.then_some(&t.weight[..]), columns: &[] };
    loss.derivatives(output, rows, &mut g, &mut h);
    (g, h)
}

/// Proves that derivatives computed for all scores at once have the bits of those of each score alone.
#[test]
fn derivatives_of_all_scores_are_those_of_each() {
    for classes in [2, 3, 10, 70] {
        let loss = loss(LossKind::Multiclass, &params(), classes, 1.0).unwrap();
        for n in [0, 1, 255, 256, 1000] {
            let r = Random::new(n as u64, Purpose::Rounding, 0);
            let scores: Vec<Vec<f32>> =
                (0..classes).map(|k| (0..n).map(|i| (r.unit((i * classes + k) as u64) * 300.0 - 150.0) as f32).collect()).collect();
            let target: Vec<f32> = (0..n).map(|i| (i % classes) as f32).collect();
            let weight: Vec<f32> = (0..n).map(|i| (i % 5) as f32).collect();
            for weight in [None, Some(&weight[..])] {
                let scores: Vec<&[f32]> = scores.iter().map(Vec::as_slice).collect();
                let rows = Rows { scores: &scores, target: &target, weight, columns: &[] };
                let mut all = vec![(vec![f32::NAN; n], vec![f32::NAN; n]); classes];
                assert!(loss.derivatives_of_all(rows, &mut all));
                for (k, of_all) in all.iter().enumerate() {
                    let mut alone = (vec![f32::NAN; n], vec![f32::NAN; n]);
                    loss.derivatives(k, rows, &mut alone.0, &mut alone.1);
                    assert_eq!(of_all, &alone, "{classes} classes, {n} rows, class {k}");
                }
            }
        }
    }
}

#[test]
fn derivatives_are_the_differences_of_the_loss() {
    for kind in kinds() {
        let (loss, t) = (make(kind), table(kind, 3000));
        for output in 0..loss.outputs() {
            let (g, h) = derivatives(&*loss, &t, output, false);
            for i in 0..t.target.len() {
                let y = t.target[i] as f64;
                let s: Vec<f64> = t.scores.iter().map(|s| s[i] as f64).collect();
                let at = |d: f64| {
                    let mut s = s.clone();
                    s[output] += d;
                    value(kind, &s, y)
                };
                let r = (s[0] - y).abs();
                let kink = matches!(kind, LossKind::Mae | LossKind::Mape | LossKind::Quantile | LossKind::Expectile) && r < 1.1e-3;
                if kink || (kind == LossKind::Huber && (r - 1.5).abs() < 1e-3) {
                    continue;
                }
                let first = (at(1e-5) - at(-1e-5)) / 2e-5;
                // The mean of a Gaussian has the natural gradient.
                let natural = kind == LossKind::Gaussian && output == 0;
                let first = if natural { first * libm::exp(2.0 * s[1]) } else { first };
                let scale = (1.0 + at(0.0).abs()) * if natural { 1.0 + libm::exp(2.0 * s[1]) } else { 1.0 };
                assert!((g[i] as f64 - first).abs() < 1e-6 * scale, "{kind:?} {s:?} {y}: {} {first}", g[i]);
                let second = (at(1e-3) - 2.0 * at(0.0) + at(-1e-3)) / 1e-6;
                let (mean, e) = (libm::exp(s[0]), |p: f64| libm::exp(p * s[0]));
                let expected = match kind {
                    LossKind::Mae | LossKind::Mape | LossKind::Quantile | LossKind::Huber => 1.0,
                    // Bounds of the second derivative, on purpose: see their files.
                    LossKind::Gaussian if output == 0 => 1.0,
                    LossKind::Gaussian => 1.0 + libm::pow((s[0] - y) * libm::exp(-s[1]), 2.0),
                    LossKind::LogCosh => libm::tanh(r) / r,
                    LossKind::Focal => second.max(first.abs() / (1.0 + libm::exp(if y == 1.0 { -s[0] } else { s[0] }))),
                    LossKind::Multiclass => second * CLASSES as f64 / (CLASSES as f64 - 1.0),
                    // Not the second derivative, on purpose: see `log_link`.
                    LossKind::Poisson => (mean + y) / 2.0,
                    LossKind::Gamma => (1.0 + y / mean) / 2.0,
                    LossKind::Tweedie => (e(0.7) + y * e(-0.3)) / 2.0,
                    _ => second,
                };
                assert!((h[i] as f64 - expected).abs() < 3e-6 * scale.max(expected), "{kind:?} {s:?} {y}: {} {expected}", h[i]);
            }
        }
        let all_one = (0..loss.outputs()).all(|k| derivatives(&*loss, &t, k, false).1.iter().all(|h| *h == 1.0));
        assert_eq!(loss.constant_hessian(), all_one, "{kind:?}");
    }
}

#[test]
fn several_quantiles_are_each_as_alone() {
    let levels = [0.05, 0.3, 0.9];
    let several = loss(LossKind::Quantile, &LossParams { alpha: Alpha::Several(levels.to_vec()), ..params() }, 0, 1.0).unwrap();
    let mut t = table(LossKind::Quantile, 2000);
    let base = t.scores[0].clone();
    t.scores = (0..3).map(|k| base.iter().map(|s| s + k as f32).collect()).collect();
    let y: Vec<f64> = t.target.iter().map(|y| *y as f64).collect();
    assert_eq!((several.outputs(), several.link()), (3, Link::Ascending));
    for (k, alpha) in levels.into_iter().enumerate() {
        let one = loss(LossKind::Quantile, &LossParams { alpha: Alpha::One(alpha), ..params() }, 0, 1.0).unwrap();
        let own = Table { scores: vec![t.scores[k].clone()], target: t.target.clone(), weight: t.weight.clone() };
        assert_eq!(derivatives(&*several, &t, k, true), derivatives(&*one, &own, 0, true));
        assert_eq!((several.leaf_rule(k), several.formula(k)), (one.leaf_rule(0), one.formula(0)));
        assert_eq!(several.start(&y, Some(&t.weight))[k], one.start(&y, Some(&t.weight))[0]);
        assert_eq!(one.link(), Link::Identity);
    }
}

#[test]
fn focal_without_a_focus_is_the_log_loss() {
    let plain = super::focal::Focal::new(FocalParams { gamma: 0.0, alpha: None });
    for i in -400..400 {
        let s = i as f32 * 0.1;
        for y in [0.0, 1.0] {
            let ((g, h), (a, b)) = (plain.at(s, y), super::cross_entropy::CrossEntropy.at(s, y));
            assert!((g / a - 1.0).abs() < 1e-6 && (h / b - 1.0).abs() < 1e-6, "{s} {y}: {g} {a} {h} {b}");
        }
    }
    assert!((plain.start(&[1.0, 0.0, 0.0], None)[0] + libm::log(2.0)).abs() < 1e-14);
}

/// A step to the foot of the parabola that the hessian makes never ends beyond the minimum of one row, and the parabola is above
/// the loss everywhere.
#[test]
fn the_parabola_of_log_cosh_is_above_it() {
    let loss = super::log_cosh::LogCosh::new(1.0);
    let value = |r: f64| r.abs() + libm::log1p(libm::exp(-2.0 * r.abs())) - core::f64::consts::LN_2;
    for i in 1..400 {
        let at = i as f64 * 0.05;
        let (g, h) = loss.at(at as f32, 0.0);
        assert!(g as f64 / h as f64 <= at * (1.0 + 1e-6));
        for j in -200..=200 {
            let r = j as f64 * 0.1;
            let above = value(at) + g as f64 * (r - at) + 0.5 * h as f64 * (r - at) * (r - at);
            assert!(above >= value(r) - 1e-5 * (1.0 + above), "{at} {r}: {above} {}", value(r));
        }
    }
}

#[test]
fn tweedie_halfway_has_the_true_second_derivative() {
    let loss = super::tweedie::Tweedie::new(1.5);
    for (s, y) in [(0.3, 2.0), (-2.0, 0.0), (3.0, 7.5)] {
        let second = 0.5 * y * libm::exp(-0.5 * s) + 0.5 * libm::exp(0.5 * s);
        assert!((loss.at(s as f32, y as f32).1 as f64 / second - 1.0).abs() < 1e-6);
    }
}

/// A step by the sums of a log-link loss ends between the start and the minimum.
#[test]
fn steps_of_log_link_losses_never_overshoot() {
    for kind in [LossKind::Poisson, LossKind::Gamma, LossKind::Tweedie] {
        let loss = make(kind);
        for ratio in [1e-6, 1e-2, 0.5, 0.99, 1.01, 2.0, 1e2, 1e6] {
            let t = Table { scores: vec![vec![0.7]], target: vec![(ratio * libm::exp(0.7)) as f32], weight: vec![] };
            let (g, h) = derivatives(&*loss, &t, 0, false);
            let share = -(g[0] as f64) / h[0] as f64 / libm::log(ratio);
            assert!(share > 0.0 && share <= 1.0001, "{kind:?} {ratio}: {share}");
            if (0.4..3.0).contains(&ratio) {
                assert!(share > 0.96, "{kind:?} {ratio}: {share}");
            }
        }
    }
}

/// The naive twin: each row alone, in baseline scalar code.
#[inline(never)]
fn scalar(kind: LossKind, t: &Table, output: usize, i: usize) -> (f32, f32) {
    fn one(p: &dyn Fn(f32, f32) -> (f32, f32), t: &Table, i: usize) -> (f32, f32) {
        p(std::hint::black_box(t.scores[0][i]), std::hint::black_box(t.target[i]))
    }
    match kind {
        LossKind::Rmse => one(&|s, y| super::rmse::Rmse.at(s, y), t, i),
        LossKind::Logloss | LossKind::CrossEntropy | LossKind::Multilabel => one(&|s, y| super::cross_entropy::CrossEntropy.at(s, y), t, i),
        LossKind::Mae | LossKind::Mape => one(&|s, y| super::mae::Mae.at(s, y), t, i),
        LossKind::Quantile => one(&|s, y| super::quantile::Quantile::new(0.3).at(s, y), t, i),
        LossKind::Huber => one(&|s, y| super::huber::Huber::new(1.5).at(s, y), t, i),
        LossKind::Expectile => one(&|s, y| super::expectile::Expectile::new(0.3).at(s, y), t, i),
        LossKind::LogCosh => one(&|s, y| super::log_cosh::LogCosh::new(1.0).at(s, y), t, i),
        LossKind::Focal => one(&|s, y| super::focal::Focal::new(FOCAL).at(s, y), t, i),
        LossKind::Poisson => one(&|s, y| super::poisson::Poisson.at(s, y), t, i),
        LossKind::Gamma => one(&|s, y| super::gamma::Gamma.at(s, y), t, i),
        LossKind::Tweedie => one(&|s, y| super::tweedie::Tweedie::new(1.3).at(s, y), t, i),
        LossKind::Multiclass => {
            let scores: Vec<f32> = t.scores.iter().map(|s| std::hint::black_box(s[i])).collect();
            super::multiclass::scalar(CLASSES, output, &scores, t.target[i])
        }
        LossKind::Ova => super::ova::OfClass(output as f32).at(std::hint::black_box(t.scores[output][i]), t.target[i]),
        LossKind::Gaussian => super::gaussian::scalar(output, &[t.scores[0][i], t.scores[1][i]].map(std::hint::black_box), t.target[i]),
        _ => unreachable!("{kind:?} is no loss of single rows"),
    }
}

#[test]
fn vector_code_gives_the_bits_of_scalar_code() {
    for kind in kinds() {
        let loss = make(kind);
        let mut t = table(kind, 20_011);
        // Random bit patterns among the scores, so that every path is taken.
        let r = Random::new(9, Purpose::Rounding, kind as u64);
        for (k, scores) in t.scores.iter_mut().enumerate() {
            for (i, s) in scores.iter_mut().enumerate().skip(10_000) {
                let x = f32::from_bits(r.u32((i * 8 + k) as u32));
                *s = if x.is_finite() { x } else { 0.0 };
            }
        }
        for output in 0..loss.outputs() {
            for weighted in [false, true] {
                let (g, h) = derivatives(&*loss, &t, output, weighted);
                for i in 0..t.target.len() {
                    let (a, b) = scalar(kind, &t, output, i);
                    let finite = |x: f32| x.clamp(-f32::MAX, f32::MAX);
                    let (a, b) = if weighted { (finite(a * t.weight[i]), finite(b * t.weight[i])) } else { (a, b) };
                    assert_eq!((g[i].to_bits(), h[i].to_bits()), (a.to_bits(), b.to_bits()), "{kind:?} row {i} score {}", t.scores[0][i]);
                }
            }
        }
    }
}

/// The middle version, which the dispatcher does not pick where AVX-512 is found.
#[cfg(target_arch = "x86_64")]
#[test]
fn avx2_code_gives_the_bits_of_what_the_dispatcher_picks() {
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn avx2<P: Pointwise>(loss: &P, t: &Table, g: &mut [f32], h: &mut [f32]) {
        for (((s, y), g), h) in t.scores[0].iter().zip(&t.target).zip(g).zip(h) {
            (*g, *h) = loss.at(*s, *y);
        }
    }
    fn check<P: Pointwise>(kind: LossKind, loss: &P) {
        let t = table(kind, 5000);
        let (mut g, mut h) = (vec![0.0; 5000], vec![0.0; 5000]);
        // SAFETY: the caller found AVX2, and with it BMI1 and BMI2.
        unsafe { avx2(loss, &t, &mut g, &mut h) };
        let expected = derivatives(&*make(kind), &t, 0, false);
        assert!(g.iter().zip(&expected.0).all(|(a, b)| a.to_bits() == b.to_bits()), "{kind:?}");
        assert!(h.iter().zip(&expected.1).all(|(a, b)| a.to_bits() == b.to_bits()), "{kind:?}");
    }
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2") {
        check(LossKind::Rmse, &super::rmse::Rmse);
        check(LossKind::CrossEntropy, &super::cross_entropy::CrossEntropy);
        check(LossKind::Quantile, &super::quantile::Quantile::new(0.3));
        check(LossKind::Huber, &super::huber::Huber::new(1.5));
        check(LossKind::Expectile, &super::expectile::Expectile::new(0.3));
        check(LossKind::LogCosh, &super::log_cosh::LogCosh::new(1.0));
        check(LossKind::Focal, &super::focal::Focal::new(FOCAL));
        check(LossKind::Poisson, &super::poisson::Poisson);
        check(LossKind::Gamma, &super::gamma::Gamma);
        check(LossKind::Tweedie, &super::tweedie::Tweedie::new(1.3));
    }
}

#[test]
fn batches_of_any_length_give_the_same_bits() {
    for kind in kinds() {
        let (loss, t) = (make(kind), table(kind, 1000));
        let whole = derivatives(&*loss, &t, 0, true);
        for length in [1, 3, 17, 256, 999] {
            for a in (0..1000).step_by(length) {
                let b = 1000.min(a + length);
                let part = Table {
                    scores: t.scores.iter().map(|s| s[a..b].to_vec()).collect(),
                    target: t.target[a..b].to_vec(),
                    weight: t.weight[a..b].to_vec(),
                };
                assert_eq!(derivatives(&*loss, &part, 0, true), (whole.0[a..b].to_vec(), whole.1[a..b].to_vec()), "{kind:?}");
            }
        }
    }
    let empty = Table { scores: vec![vec![]; CLASSES], target: vec![], weight: vec![] };
    kinds().for_each(|k| assert_eq!(derivatives(&*make(k), &empty, 0, false), (vec![], vec![])));
}

#[test]
fn derivatives_are_finite_for_every_score_target_and_weight() {
    let edges = [0.0, -0.0, 1.0, -1.0, 1e-30, -1e-30, 50.0, -50.0, 100.0, -100.0, 1e4, -1e4, f32::MAX, f32::MIN, f32::MIN_POSITIVE];
    for kind in kinds() {
        let loss = make(kind);
        let targets = [0.0, 1.0, 0.5, 3.0, 1e-30, 1e30, -1e30, f32::MAX, f32::MIN];
        for y in targets.into_iter().filter(|y| loss.check_target(*y as f64).is_ok()) {
            for w in [0.0, 1e-30, 1.0, f32::MAX] {
                for (i, s) in edges.iter().enumerate() {
                    let scores = (0..loss.outputs()).map(|k| vec![if k == 0 { *s } else { edges[(i + 3 * k) % edges.len()] }]).collect();
                    let t = Table { scores, target: vec![y], weight: vec![w] };
                    for output in 0..loss.outputs() {
                        let (g, h) = derivatives(&*loss, &t, output, true);
                        assert!(g[0].is_finite() && h[0].is_finite() && h[0] >= 0.0, "{kind:?} {s} {y} {w}: {g:?} {h:?}");
                        let (_, h) = derivatives(&*loss, &t, output, false);
                        assert!(h[0] > 0.0, "{kind:?} {s} {y}: {h:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_start_is_the_minimum() {
    for kind in kinds() {
        let loss = make(kind);
        for n in [1, 2, 37, 10_000] {
            let t = table(kind, n);
            let y: Vec<f64> = t.target.iter().map(|y| *y as f64).collect();
            for weight in [None, Some(&t.weight[..])] {
                let total = |s: &[f64]| (0..n).map(|i| weight.map_or(1.0, |w| w[i] as f64) * value(kind, s, y[i])).sum::<f64>();
                let start = loss.start(&y, weight);
                assert_eq!(start.len(), loss.outputs());
                assert!(start.iter().all(|s| s.is_finite()));
                // Of one target the likelihood has no bound, and the start is where the deviation is kept from 0.
                if kind == LossKind::Gaussian && start[1] < -60.0 {
                    continue;
                }
                let least = total(&start);
                for k in 0..start.len() {
                    for d in [-0.3, -1e-3, 1e-3, 0.3] {
                        let mut other = start.clone();
                        other[k] += d;
                        assert!(total(&other) >= least - 1e-9 * (1.0 + least.abs()), "{kind:?} n {n} {start:?} moved by {d}");
                    }
                }
            }
        }
    }
}

#[test]
fn starts_are_finite_where_a_class_or_all_weight_is_absent() {
    let lo = |kind, y: &[f64], w: Option<&[f32]>| make(kind).start(y, w);
    assert!((lo(LossKind::Logloss, &[1.0, 1.0], None)[0] - 34.54).abs() < 0.2);
    assert!((lo(LossKind::Logloss, &[0.0], None)[0] + 34.54).abs() < 0.2);
    assert_eq!(lo(LossKind::Logloss, &[0.0, 1.0], None), [0.0]);
    assert_eq!(lo(LossKind::Multiclass, &[1.0], None).len(), CLASSES);
    for kind in kinds() {
        for y in [&[][..], &[1.0], &[1.0; 5]] {
            let zero = vec![0.0f32; y.len()];
            assert!(lo(kind, y, None).iter().all(|s| s.is_finite()), "{kind:?} {y:?}");
            assert!(lo(kind, y, Some(&zero)).iter().all(|s| s.is_finite()), "{kind:?} {y:?}");
        }
    }
    for kind in [LossKind::Poisson, LossKind::Tweedie] {
        assert!(lo(kind, &[0.0, 0.0], None)[0].is_finite());
    }
    for kind in [LossKind::Rmse, LossKind::Mae, LossKind::Quantile, LossKind::Huber, LossKind::Mape, LossKind::Expectile] {
        for y in [1e300, -1e300, 1e-300, f64::MAX] {
            assert!((lo(kind, &[y; 9], None)[0] / y - 1.0).abs() < 1e-12, "{kind:?} {y}");
            assert!(lo(kind, &[y, 0.0, 1.0, -y], Some(&[1.0, 2.0, 3e38, 0.1]))[0].is_finite(), "{kind:?} {y}");
        }
    }
}

#[test]
fn a_location_loss_keeps_its_derivatives_in_other_units() {
    for kind in kinds() {
        let (one, t) = (make(kind), table(kind, 500));
        if one.location() != Location::Scaled {
            continue;
        }
        let unit = 0.125f32;
        let other = loss(kind, &params(), CLASSES, unit as f64).unwrap();
        let scaled = |v: &[f32]| v.iter().map(|x| x / unit).collect::<Vec<_>>();
        let small = Table { scores: vec![scaled(&t.scores[0])], target: scaled(&t.target), weight: t.weight.clone() };
        let (a, b) = (derivatives(&*one, &t, 0, true), derivatives(&*other, &small, 0, true));
        let factor = if matches!(kind, LossKind::Mae | LossKind::Mape | LossKind::Quantile) { 1.0 } else { unit };
        assert_eq!(a.0, b.0.iter().map(|g| g * factor).collect::<Vec<_>>(), "{kind:?}");
        assert_eq!(a.1, b.1, "{kind:?}");
    }
}

#[test]
fn targets_outside_the_domain_are_refused() {
    let refused = [
        (LossKind::Logloss, vec![0.5, -1.0, 2.0]),
        (LossKind::Focal, vec![0.5, -1.0, 2.0]),
        (LossKind::CrossEntropy, vec![-0.1, 1.1, 1.5]),
        (LossKind::Multilabel, vec![0.5, -1.0, 2.0]),
        (LossKind::Multiclass, vec![-1.0, 0.5, CLASSES as f64]),
        (LossKind::Ova, vec![-1.0, 0.5, CLASSES as f64]),
        (LossKind::Gaussian, vec![-1.1e30, 1e31]),
        (LossKind::Poisson, vec![-1.0, 1e31]),
        (LossKind::Gamma, vec![0.0, -1.0, 1e31]),
        (LossKind::Tweedie, vec![-1e-9, 1e31]),
    ];
    for (kind, targets) in refused {
        for y in targets {
            let message = make(kind).check_target(y).unwrap_err();
            assert!(message.contains("needs"), "{message}");
        }
    }
    for kind in kinds() {
        (0..100).for_each(|i| assert!(make(kind).check_target(target(kind, i as f64 / 100.0)).is_ok()));
    }
    assert!(loss(LossKind::Auto, &params(), 2, 1.0).is_err());
}

/// `cargo test --release -p taiga-engine derivative_times -- --ignored --nocapture` prints times.
#[test]
#[ignore = "prints times; asserts nothing"]
fn derivative_times() {
    for kind in kinds() {
        let (loss, t) = (make(kind), table(kind, 1 << 20));
        let (mut g, mut h) = ([0.0; 2048], [0.0; 2048]);
        for weighted in [false, true] {
            let mut best = f64::INFINITY;
            for _ in 0..5 {
                let start = std::time::Instant::now();
                for a in (0..t.target.len()).step_by(2048) {
                    let scores: Vec<&[f32]> = t.scores.iter().map(|s| &s[a..a + 2048]).collect();
                    let rows = Rows {
                        scores: &scores,
                        target: &t.target[a..a + 2048],
                        weight: weighted.then_some(&t.weight[a..a + 2048]),
                        columns: &[],
                    };
                    loss.derivatives(0, rows, &mut g, &mut h);
                    std::hint::black_box((&g, &h));
                }
                best = best.min(start.elapsed().as_secs_f64() * 1e3);
            }
            println!("{kind:?} weights {weighted}: {best:.3} ms for 2^20 rows");
        }
    }
}
