//! Metrics against numbers that scikit-learn 1.9 computed, and at the edges.

use super::MetricKind::*;
use super::*;
use crate::numerics::random::{Purpose, Random};
use crate::numerics::reduce::BLOCK;
use crate::objective::{Alpha, FocalParams, Link, LossParams};

const SCORE: [f64; 5] = [0.2, -0.4, 1.0, 0.5, 1.2];
const NUMBER: [f64; 5] = [1.5, 0.5, 3.0, 2.0, 7.0];
const ZERO_IN: [f64; 5] = [1.5, 0.0, 3.0, 2.0, 7.0];
const TWO: [f64; 5] = [1.0, 0.0, 1.0, 0.0, 1.0];
const WEIGHT: [f32; 5] = [1.0, 2.0, 0.5, 3.0, 1.0];

const LINKS: [Link; 9] = [
    Link::Identity,
    Link::Sigmoid,
    Link::Exp,
    Link::Softmax,
    Link::SigmoidEach,
    Link::Ascending,
    Link::MeanVariance,
    Link::Hazard,
    Link::Time,
];

fn params() -> LossParams {
    LossParams {
        alpha: Alpha::One(0.3),
        huber_delta: 1.0,
        tweedie_power: 1.3,
        focal: FocalParams { gamma: 1.7, alpha: Some(0.3) },
        ..LossParams::default()
    }
}

fn single(kind: MetricKind, link: Link, score: &[f64], target: &[f64], weight: Option<&[f32]>) -> f64 {
    of_scores(kind, &params(), link, &[score.to_vec()], target, weight)
}

fn of_scores(kind: MetricKind, params: &LossParams, link: Link, scores: &[Vec<f64>], target: &[f64], weight: Option<&[f32]>) -> f64 {
    let weight: Option<Vec<f64>> = weight.map(|w| w.iter().map(|w| f64::from(*w)).collect());
    metric(&kind.into(), &Rows { weight: weight.as_deref(), ..Rows::new(scores, link, target, params) })
}

#[test]
fn values_are_those_of_scikit_learn() {
    let tied = [0.2, 0.2, 1.0, 0.5, 0.5];
    let tenth: Vec<f64> = NUMBER.iter().map(|y| y / 10.0).collect();
    type Case<'a> = (MetricKind, Link, &'a [f64], &'a [f64], f64, f64);
    let cases: [Case<'_>; 15] = [
        (Rmse, Link::Identity, &SCORE, &NUMBER, 2.911700534052223, 2.4684678108764824),
        (Mae, Link::Identity, &SCORE, &NUMBER, 2.3, 1.92),
        (R2, Link::Identity, &SCORE, &NUMBER, -0.6754940711462454, -0.5378575434660686),
        (Quantile, Link::Identity, &SCORE, &NUMBER, 0.69, 0.576),
        (Huber, Link::Identity, &SCORE, &NUMBER, 1.801, 1.4213333333333333),
        (Rmse, Link::Exp, &SCORE, &NUMBER, 1.6643873754271987, 1.3705009557441712),
        (Logloss, Link::Sigmoid, &SCORE, &TWO, 0.532355052163581, 0.6621751517091946),
        (CrossEntropy, Link::Sigmoid, &SCORE, &tenth, 0.762355052163581, 0.7448418183758613),
        (Auc, Link::Sigmoid, &tied, &TWO, 0.6666666666666666, 0.56),
        (Accuracy, Link::Sigmoid, &SCORE, &TWO, 0.8, 0.6),
        (Poisson, Link::Exp, &SCORE, &NUMBER, 0.6575876673940868, 0.46151667750646247),
        (Poisson, Link::Exp, &SCORE, &ZERO_IN, 0.9162171035060759, 0.8063559256557812),
        (Gamma, Link::Exp, &SCORE, &NUMBER, 0.17963202357241173, 0.14012129296510514),
        (Tweedie, Link::Exp, &SCORE, &NUMBER, 0.4359947085956926, 0.31239354374841327),
        (Tweedie, Link::Exp, &SCORE, &ZERO_IN, 0.8568486297760292, 0.8735321053221952),
    ];
    for (kind, link, score, target, plain, weighted) in cases {
        let a = single(kind, link, score, target, None);
        let b = single(kind, link, score, target, Some(&WEIGHT));
        assert!((a - plain).abs() < 1e-13 && (b - weighted).abs() < 1e-13, "{kind:?} {link:?}: {a} {b}");
    }
}

/// Metrics that scikit-learn has not, by their definitions in NumPy 2:
/// `p = [.2, -.4, 1, .5, 1.2]`, `y = [1.5, .5, 3, 2, 7]`, `w = [1, 2, .5, 3, 1]`.
#[test]
fn values_are_those_of_numpy() {
    let cases = [
        (Expectile, Link::Identity, &NUMBER, 2.5434, 1.828),
        (LogCosh, Link::Identity, &NUMBER, 1.6651265690462593, 1.2978456324728114),
        (Mape, Link::Identity, &NUMBER, 0.8023809523809524, 0.8104761904761905),
        (Focal, Link::Sigmoid, &TWO, 0.08869387848587043, 0.14981575949252543),
    ];
    for (kind, link, target, plain, weighted) in cases {
        let (a, b) = (single(kind, link, &SCORE, target, None), single(kind, link, &SCORE, target, Some(&WEIGHT)));
        assert!((a - plain).abs() < 1e-13 && (b - weighted).abs() < 1e-13, "{kind:?}: {a} {b}");
    }
    assert!((single(LogCosh, Link::Identity, &[1e-3], &[0.0], None) - 4.999999166666889e-7).abs() < 1e-20);
    assert_eq!(single(LogCosh, Link::Identity, &[1e5], &[0.0], None), 1e5 - core::f64::consts::LN_2);
    // A target of 0 divides by 1.
    assert_eq!(single(Mape, Link::Identity, &[0.5], &[0.0], None), 0.5);
}

/// Metrics of several scores against NumPy, scikit-learn (`mean_pinball_loss`, `log_loss`) and SciPy (`norm.logpdf`).
#[test]
fn metrics_of_several_scores() {
    let scores = [SCORE.to_vec(), SCORE.iter().map(|s| 1.0 - s).collect(), vec![0.1, 0.2, 0.3, 0.4, 0.5]];
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-13, "{a} {b}");
    let levels = LossParams { alpha: Alpha::Several(vec![0.1, 0.5, 0.9]), ..params() };
    close(of_scores(Quantile, &levels, Link::Ascending, &scores, &NUMBER, None), 1.11);
    close(of_scores(Quantile, &levels, Link::Ascending, &scores, &NUMBER, Some(&WEIGHT)), 0.8788888888888889);
    let class = [0.0, 1.0, 2.0, 2.0, 1.0];
    close(of_scores(Ova, &params(), Link::SigmoidEach, &scores, &class, None), 0.8201759587539685);
    close(of_scores(Ova, &params(), Link::SigmoidEach, &scores, &class, Some(&WEIGHT)), 0.776718546589178);
    close(of_scores(Gaussian, &params(), Link::MeanVariance, &scores[..2], &NUMBER, None), 6.95925581694722);
    close(of_scores(Gaussian, &params(), Link::MeanVariance, &scores[..2], &NUMBER, Some(&WEIGHT)), 5.246130964766233);
    // Errors are those of the mean.
    let rmse = of_scores(Rmse, &params(), Link::MeanVariance, &scores[..2], &NUMBER, None);
    assert_eq!(rmse, single(Rmse, Link::Identity, &SCORE, &NUMBER, None));
}

#[test]
fn several_classes_as_in_scikit_learn() {
    let scores = [SCORE.to_vec(), SCORE.iter().map(|s| -s).collect(), vec![0.0; 5]];
    let class = [0.0, 1.0, 2.0, 2.0, 1.0];
    let of = |kind, weight| of_scores(kind, &params(), Link::Softmax, &scores, &class, weight);
    assert!((of(Multiclass, None) - 1.3963412083297364).abs() < 1e-14);
    assert!((of(Multiclass, Some(&WEIGHT[..])) - 1.2519590552584607).abs() < 1e-14);
    assert!((of(Accuracy, None) - 0.4).abs() < 1e-15 && (of(Accuracy, Some(&WEIGHT[..])) - 0.4).abs() < 1e-15);
    // A tie goes to the lower class.
    assert_eq!(of_scores(Accuracy, &params(), Link::Softmax, &[vec![1.0], vec![1.0]], &[0.0], None), 1.0);
    // Scores whose exponentials overflow.
    let huge = [vec![1e4], vec![-1e4], vec![9e3]];
    assert_eq!(of_scores(Multiclass, &params(), Link::Softmax, &huge, &[2.0], None), 1000.0);
}

#[test]
fn auc_is_the_share_of_pairs_in_any_order_of_rows() {
    let r = Random::new(5, Purpose::Rounding, 0);
    let n = 400u64;
    // Few distinct scores, so that ties are many; -0 and 0 among them.
    let score: Vec<f64> = (0..n).map(|i| ((r.unit(i) * 20.0) as i64 - 10) as f64 * if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
    let class: Vec<f64> = (0..n).map(|i| (r.unit(i + n) < 0.3) as u8 as f64).collect();
    let weight: Vec<f32> = (0..n).map(|i| r.unit(i + 2 * n) as f32).collect();
    let naive = |w: &dyn Fn(usize) -> f64| {
        let (mut won, mut all) = (0.0, 0.0);
        for i in (0..n as usize).filter(|i| class[*i] == 1.0) {
            for j in (0..n as usize).filter(|j| class[*j] == 0.0) {
                all += w(i) * w(j);
                won += w(i)
                    * w(j)
                    * if score[i] > score[j] {
                        1.0
                    } else if score[i] == score[j] {
                        0.5
                    } else {
                        0.0
                    };
            }
        }
        won / all
    };
    let plain = single(Auc, Link::Sigmoid, &score, &class, None);
    let weighted = single(Auc, Link::Sigmoid, &score, &class, Some(&weight));
    assert!((plain - naive(&|_| 1.0)).abs() < 1e-14);
    assert!((weighted - naive(&|i| weight[i] as f64)).abs() < 1e-12);
    assert_eq!(single(Auc, Link::Sigmoid, &score, &class, Some(&vec![1.0; n as usize])), plain);
    let back = |v: &[f64]| v.iter().rev().copied().collect::<Vec<_>>();
    let turned: Vec<f32> = weight.iter().rev().copied().collect();
    assert_eq!(single(Auc, Link::Sigmoid, &back(&score), &back(&class), None).to_bits(), plain.to_bits());
    assert_eq!(single(Auc, Link::Sigmoid, &back(&score), &back(&class), Some(&turned)).to_bits(), weighted.to_bits());
    // Half a row of each class.
    assert_eq!(single(Auc, Link::Sigmoid, &[0.0, 1.0], &[0.5, 0.5], None), 0.5);
    assert_eq!(single(Auc, Link::Sigmoid, &[0.0, 1.0], &[0.25, 0.75], None), 0.75);
}

#[test]
fn nothing_to_measure_is_nan() {
    for kind in MetricKind::ALL.iter().copied() {
        for link in LINKS {
            let scores = [vec![0.5, 0.1], vec![0.1, 0.4]];
            let value = of_scores(kind, &params(), link, &scores, &[1.0, 0.0], None);
            assert!(kind.fits(link) || value.is_nan(), "{kind:?} {link:?}: {value}");
            assert!(of_scores(kind, &params(), link, &scores, &[], None).is_nan());
            if kind != R2 {
                assert!(of_scores(kind, &params(), link, &scores, &[1.0, 0.0], Some(&[0.0, 0.0])).is_nan(), "{kind:?} {link:?}");
            }
        }
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
    }
    assert!(single(Auc, Link::Sigmoid, &[0.1, 0.2], &[1.0, 1.0], None).is_nan());
    assert!(single(Auc, Link::Sigmoid, &[0.1, 0.2], &[1.0, 1.0], Some(&[1.0, 1.0])).is_nan());
}

#[test]
fn extremes() {
    assert!((single(Rmse, Link::Identity, &[1e300, 0.0], &[0.0, 0.0], None) / 1e300 - 0.5f64.sqrt()).abs() < 1e-15);
    assert!((single(Rmse, Link::Identity, &[1e-300, 0.0], &[0.0, 0.0], None) / 1e-300 - 0.5f64.sqrt()).abs() < 1e-15);
    assert!((single(R2, Link::Identity, &[1e300, 0.0], &[1e300, -1e300], None) - 0.5).abs() < 1e-14);
    assert_eq!(single(Rmse, Link::Identity, &[3.0], &[3.0], None), 0.0);
    assert_eq!(single(R2, Link::Identity, &[3.0, 3.0], &[3.0, 3.0], None), 1.0);
    assert_eq!(single(R2, Link::Identity, &[3.0, 4.0], &[3.0, 3.0], None), 0.0);
    assert_eq!(single(Logloss, Link::Sigmoid, &[-1000.0, 1000.0], &[1.0, 1.0], None), 500.0);
    assert_eq!(single(Gamma, Link::Exp, &[0.0], &[0.0], None), f64::INFINITY);
}

#[test]
fn many_rows_are_the_naive_mean() {
    let r = Random::new(6, Purpose::Rounding, 0);
    let n = 3 * BLOCK + 100;
    let score: Vec<f64> = (0..n).map(|i| r.unit(i as u64) * 8.0 - 4.0).collect();
    let class: Vec<f64> = (0..n).map(|i| (r.unit((i + n) as u64) < 0.5) as u8 as f64).collect();
    let weight: Vec<f32> = (0..n).map(|i| (i % 3) as f32).collect();
    let naive = |i: usize| {
        let p = 1.0 / (1.0 + libm::exp(-score[i]));
        -libm::log(if class[i] == 1.0 { p } else { 1.0 - p })
    };
    let total: f64 = (0..n).map(|i| i % 3).sum::<usize>() as f64;
    let weighted = (0..n).map(|i| (i % 3) as f64 * naive(i)).sum::<f64>() / total;
    assert!((single(Logloss, Link::Sigmoid, &score, &class, Some(&weight)) - weighted).abs() < 1e-13);
    let two = [score.iter().map(|_| 0.0).collect(), score.clone()];
    assert!((of_scores(Multiclass, &params(), Link::Softmax, &two, &class, Some(&weight)) - weighted).abs() < 1e-13);
}

/// `cargo test --release -p taiga-engine metric_times -- --ignored --nocapture` prints times.
#[test]
#[ignore = "prints times; asserts nothing"]
fn metric_times() {
    let r = Random::new(7, Purpose::Rounding, 0);
    let n = 200_000;
    let score: Vec<f64> = (0..n).map(|i| r.unit(i) * 8.0 - 4.0).collect();
    let class: Vec<f64> = (0..n).map(|i| (r.unit(i + n) < 0.5) as u8 as f64).collect();
    let weight: Vec<f32> = (0..n).map(|i| r.unit(i) as f32).collect();
    for kind in MetricKind::ALL.iter().copied() {
        for link in LINKS {
            for w in [None, Some(&weight[..])] {
                if kind.fits(link) {
                    let scores = vec![score.clone(); if link.is_of_one_number() { 1 } else { 2 }];
                    let best = (0..5).map(|_| {
                        let start = std::time::Instant::now();
                        std::hint::black_box(of_scores(kind, &params(), link, &scores, &class, w));
                        start.elapsed().as_secs_f64() * 1e3
                    });
                    println!("{kind:?} {link:?} weights {}: {:.2} ms for 200k rows", w.is_some(), best.fold(1e9, f64::min));
                }
            }
        }
    }
}
