//! What targets, weights, baselines and losses mean to a fit.

use serde_json::json;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::learners::boosting::BoostingParams;
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::losses;
use taiga_engine::losses::LossKind;
use taiga_engine::metrics::{MetricKind, Rows, metric};
use taiga_testing::{Dice, POLICIES, Table, Wanted, classes, params, params_with, predict, raw, rmse, table};

/// Proves that a fit from another model's raw scores continues that model: the scores together
/// are those of one long fit.
#[test]
fn a_baseline_continues_a_model() {
    for (loss, policy) in [("rmse", "symmetric"), ("logloss", "depthwise"), ("mae", "leafwise"), ("multiclass", "depthwise")] {
        let mut t = if loss == "logloss" { classes(1500, 7) } else { table(1500, 7) };
        if loss == "multiclass" {
            let codes = t.y().iter().map(|y| if *y > 1.0 { 2 } else { (*y > -1.0) as u32 }).collect();
            t.target = Wanted::Classes(codes, Labels::Integer(vec![10, 20, 30]));
        }
        let base = json!({ "loss": loss, "policy": policy, "depth": 4, "seed": 3 });
        let (short, long) = (params_with(base.clone(), json!({ "rounds": 15 })), params_with(base, json!({ "rounds": 30 })));
        let first = t.fit(&short);
        let scores = raw(&first, &t);
        t.baseline = scores.clone();
        let second = t.fit(&short);
        assert_eq!(second.start, vec![0.0; scores.len()]);
        let more = raw(&second, &t);
        let together: Vec<Vec<f64>> = scores.iter().zip(&more).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a + b).collect()).collect();
        let p = BoostingParams::default();
        let kind = losses::loss(first.loss, &p.loss_params(), scores.len(), 1.0).unwrap();
        let y = t.y();
        let loss_params = p.loss_params();
        let measure = |s: &[Vec<f64>]| metric(&kind.metric().into(), &Rows::new(s, kind.link(), &y, &loss_params));
        t.baseline.clear();
        let whole = measure(&raw(&t.fit(&long), &t));
        let (before, after) = (measure(&scores), measure(&together));
        assert!(after < before, "{loss}: {before} {after}");
        assert!((after - whole).abs() < 0.1 * (before - whole), "{loss}: {before}, then {after}, at once {whole}");
    }
}

/// Proves that a whole weight is that many rows: the same splits and values.
#[test]
fn whole_weights_are_repeated_rows() {
    for policy in POLICIES {
        let mut dice = Dice::new(8);
        let mut t = table(400, 8);
        // Whole targets of 10 bits: exact statistics on both sides. Few values: the same borders.
        t.columns.iter_mut().flatten().for_each(|x| *x = (4.0 * *x).round());
        let y: Vec<f64> = t.y().iter().map(|y| (8.0 * y).round()).collect();
        t.target = Wanted::Numbers(y);
        t.baseline = vec![vec![0.0; 400]];
        let times: Vec<usize> = (0..400).map(|_| 1 << dice.below(3)).collect();
        let repeat = |v: &[f64]| -> Vec<f64> { v.iter().zip(&times).flat_map(|(x, n)| std::iter::repeat_n(*x, *n)).collect() };
        let mut repeated = Table::numbers(t.columns.iter().map(|c| repeat(c)).collect(), repeat(&t.y()));
        repeated.baseline = vec![vec![0.0; repeated.rows()]];
        t.weight = Some(times.iter().map(|n| *n as f64).collect());
        let p = params(json!({ "rounds": 1, "policy": policy, "depth": 4, "min_child_weight": 6 }));
        let (a, b) = (t.fit(&p), repeated.fit(&p));
        let splits = |m: &Model| m.trees[0].splits().copied().collect::<Vec<_>>();
        assert_eq!((splits(&a), &a.features), (splits(&b), &b.features), "{policy}");
        for (x, y) in raw(&a, &t)[0].iter().zip(&raw(&b, &t)[0]) {
            assert!((x - y).abs() <= 1e-5 * x.abs(), "{policy}: {x} {y}");
        }
    }
    // Over many rounds of a curved loss: the same loss.
    let mut t = classes(600, 9);
    let times: Vec<usize> = (0..600).map(|i| 1 + i % 3).collect();
    let rows = || (0..600).flat_map(|i| std::iter::repeat_n(i, times[i]));
    let Wanted::Classes(codes, labels) = &t.target else { unreachable!() };
    let codes = rows().map(|i| codes[i]).collect();
    let repeated = Table::classes(t.columns.iter().map(|c| rows().map(|i| c[i]).collect()).collect(), codes, labels.clone());
    t.weight = Some(times.iter().map(|n| *n as f64).collect());
    let p = params(json!({ "rounds": 40, "bins": 21, "depth": 3 }));
    let (y, loss_params) = (repeated.y(), p.loss_params());
    let measure = |m: &Model| metric(&MetricKind::Logloss.into(), &Rows::new(&raw(m, &repeated), losses::Link::Sigmoid, &y, &loss_params));
    let (a, b) = (measure(&t.fit(&p)), measure(&repeated.fit(&p)));
    assert!((a - b).abs() < 0.03 * b, "{a} {b}");
}

/// Rows of weight zero, at the end of the table and with values that others have too.
fn with_weightless_rows(t: &Table, target: f64) -> Table {
    let n = t.rows();
    let mut longer = t.clone();
    longer.columns.iter_mut().for_each(|c| c.extend_from_within(..50));
    let Wanted::Numbers(y) = &mut longer.target else { unreachable!() };
    y.extend([target; 50]);
    longer.weight = Some((0..n + 50).map(|i| if i < n { 1.0 } else { 0.0 }).collect());
    longer
}

/// Proves that rows of weight zero change no split and no value, whatever their target.
fn assert_weightless_rows_change_nothing(loss: &str, targets: &[f64]) {
    for policy in POLICIES {
        let mut t = table(1000, 10);
        // Few values: all of them keep borders, however many rows have them.
        t.columns.iter_mut().flatten().for_each(|x| *x = (4.0 * *x).round());
        t.weight = Some(vec![1.0; 1000]);
        if loss == "poisson" {
            t.target = Wanted::Numbers(t.y().iter().map(|y| y.exp()).collect());
        }
        let p = params(json!({ "loss": loss, "rounds": 10, "policy": policy, "depth": 4 }));
        let plain = raw(&t.fit(&p), &t);
        for target in targets {
            let longer = with_weightless_rows(&t, *target);
            let own = raw(&longer.fit(&p), &t);
            let off = rmse(&own[0], &plain[0]);
            assert!(off < 1e-4, "{loss} {policy}: off by {off} for a target of {target}");
        }
    }
}

#[test]
fn rows_of_weight_zero_change_nothing() {
    for loss in ["rmse", "mae", "huber", "poisson"] {
        assert_weightless_rows_change_nothing(loss, &[0.5, 2.0, 1e12, 1e29]);
    }
}

#[test]
fn rows_of_weight_zero_change_nothing_with_huge_targets() {
    for loss in ["rmse", "mae", "huber"] {
        assert_weightless_rows_change_nothing(loss, &[1e60, 1e300]);
    }
}

/// Proves that "balanced" class weights are the weights rows / (classes · rows of the class), and
/// that weights by label are a weight column.
#[test]
fn class_weights_are_row_weights() {
    let mut t = classes(900, 11);
    let Wanted::Classes(codes, _) = &mut t.target else { unreachable!() };
    codes.iter_mut().enumerate().for_each(|(i, c)| *c &= (i % 4 == 0) as u32);
    let codes = codes.clone();
    let ones = codes.iter().filter(|c| **c == 1).count() as f64;
    let base = json!({ "rounds": 8, "seed": 5 });
    let balanced = t.fit(&params_with(base.clone(), json!({ "class_weight": "balanced" })));
    let by_label = t.fit(&params_with(base.clone(), json!({ "class_weight": { "true": 3.0, "false": 0.5 } })));
    let weigh = |zero: f64, one: f64| Some(codes.iter().map(|c| if *c == 1 { one } else { zero }).collect::<Vec<f64>>());
    t.weight = weigh(900.0 / (2.0 * (900.0 - ones)), 900.0 / (2.0 * ones));
    let plain = t.fit(&params(base.clone()));
    assert_eq!((plain.trees, plain.start), (balanced.trees, balanced.start.clone()));
    assert!(balanced.start[0].abs() < 1e-6, "balanced classes start even: {:?}", balanced.start);
    t.weight = weigh(0.5, 3.0);
    let plain = t.fit(&params(base));
    assert_eq!((plain.trees, plain.start), (by_label.trees, by_label.start));
}

/// Proves that a quantile model covers its share of the rows.
#[test]
fn quantile_models_reach_their_coverage() {
    for policy in POLICIES {
        for alpha in [0.1, 0.5, 0.9] {
            let t = table(4000, 12);
            let p = params(json!({ "loss": "quantile", "alpha": alpha, "policy": policy, "rounds": 60, "depth": 3, "min_data_in_leaf": 30,
                "leaves": if policy == "leafwise" { Some(8) } else { None } }));
            let (model, y) = (t.fit(&p), t.y());
            let covered = raw(&model, &t)[0].iter().zip(&y).filter(|(p, y)| y <= p).count() as f64 / 4000.0;
            assert!((covered - alpha).abs() < 0.03, "{policy} {alpha}: {covered}");
        }
    }
}

/// Proves that the score before the first tree minimises the loss of the training rows, weights
/// counted and held-out rows left out.
#[test]
fn start_values_minimise_the_loss_of_training_rows() {
    let mut dice = Dice::new(13);
    let positive: Vec<f64> = (0..101).map(|_| dice.unit() + 0.1).collect();
    let x: Vec<f64> = (0..101).map(f64::from).collect();
    let mut t = Table::numbers(vec![x.clone()], positive.clone());
    t.weight = Some((0..101).map(|i| 1.0 + (i % 3) as f64).collect());
    t.held_out = Some((0..101).map(|i| i % 10 == 9).collect());
    let rows = || (0..101).filter(|i| i % 10 != 9).flat_map(|i| std::iter::repeat_n(i, 1 + i % 3));
    let mean = rows().map(|i| positive[i]).sum::<f64>() / rows().count() as f64;
    let mut sorted: Vec<f64> = rows().map(|i| positive[i]).collect();
    sorted.sort_by(f64::total_cmp);
    let start = |loss: &str, extra: serde_json::Value| t.fit(&params_with(json!({ "loss": loss, "rounds": 1 }), extra)).start[0];
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} {b}");
    close(start("rmse", json!({})), mean);
    close(start("poisson", json!({})), mean.ln());
    close(start("gamma", json!({})), mean.ln());
    close(start("tweedie", json!({})), mean.ln());
    let n = sorted.len();
    let median = start("mae", json!({}));
    assert!(median >= sorted[(n - 1) / 2] && median <= sorted[n / 2]);
    let upper = start("quantile", json!({ "alpha": 0.9 }));
    assert!(upper >= sorted[n * 9 / 10 - 1] && upper <= sorted[n * 9 / 10 + 1]);
    let huber = start("huber", json!({ "huber_delta": 0.1 }));
    close(rows().map(|i| (huber - positive[i]).clamp(-0.1, 0.1)).sum::<f64>(), 0.0);
    let codes: Vec<u32> = (0..101).map(|i| (i % 5).min(2) as u32).collect();
    t.target = Wanted::Classes(codes.clone(), Labels::Integer(vec![1, 2, 3]));
    let model = t.fit(&params(json!({ "rounds": 1 })));
    let total: f64 = model.start.iter().map(|s| s.exp()).sum();
    for k in 0..3 {
        let share = rows().filter(|i| codes[*i] == k).count() as f64 / rows().count() as f64;
        close(model.start[k as usize].exp() / total, share);
    }
}

/// Proves that errors of a value don't depend on its unit: a target scaled by a power of two gives
/// the same trees in a scaled unit, up to 10²⁷⁰; and an offset takes no precision away.
#[test]
fn scale_and_offset_of_a_target_change_nothing_but_the_unit() {
    assert_scale_and_offset_change_nothing(&[900, 20, -400]);
}

/// Proves the same down to 10⁻²⁷⁰.
#[test]
fn a_tiny_scale_of_a_target_changes_nothing_but_the_unit() {
    assert_scale_and_offset_change_nothing(&[-900, -540]);
    assert_learnt(1e-300);
}

/// Proves that Huber's loss turns absolute where told, and else at the distance from the median that nine of ten training rows are
/// within, by weight; that a model keeps that number; and that one of another loss keeps 1.
#[test]
fn the_delta_of_huber_is_that_of_the_targets_unless_told() {
    let mut t = table(1000, 3);
    t.held_out = Some((0..1000).map(|i| i % 5 == 0).collect());
    t.weight = Some((0..1000).map(|i| (i % 3) as f64).collect());
    let counted: Vec<(f64, u64)> = t.y().into_iter().enumerate().filter(|(i, _)| i % 5 != 0).map(|(i, y)| (y, (i % 3) as u64)).collect();
    // Each row as often as it weighs.
    let level = |values: Vec<(f64, u64)>, level: f64| {
        let mut all: Vec<f64> = values.into_iter().flat_map(|(y, w)| std::iter::repeat_n(y, w as usize)).collect();
        all.sort_by(f64::total_cmp);
        let goal = level * all.len() as f64;
        let at = goal.ceil() as usize - 1;
        if goal.fract() == 0.0 { (all[at] + all[at + 1]) / 2.0 } else { all[at] }
    };
    let middle = level(counted.clone(), 0.5);
    let delta = level(counted.into_iter().map(|(y, w)| ((y - middle).abs(), w)).collect(), 0.9);
    let own = t.fit(&params(json!({ "loss": "huber", "rounds": 4 })));
    assert_eq!(own.params.huber_delta, Some(delta));
    let told = t.fit(&params(json!({ "loss": "huber", "rounds": 4, "huber_delta": delta })));
    assert_eq!(own.to_bytes(), told.to_bytes());
    let other = t.fit(&params(json!({ "loss": "huber", "rounds": 4, "huber_delta": 0.5 * delta })));
    assert_eq!(other.params.huber_delta, Some(0.5 * delta));
    assert_ne!(raw(&other, &t), raw(&own, &t));
    assert_eq!(t.fit(&params(json!({ "loss": "rmse", "rounds": 1 }))).params.huber_delta, Some(1.0));
}

/// Proves that of targets of which most are one value the others decide, and that a constant has 1.
#[test]
fn the_delta_of_huber_is_never_zero() {
    let delta_of = |y: Vec<f64>| {
        let mut t = table(y.len(), 3);
        t.target = Wanted::Numbers(y);
        t.fit(&params(json!({ "loss": "huber", "rounds": 1 }))).params.huber_delta
    };
    assert_eq!(delta_of((0..100).map(|i| if i == 7 { 50.0 } else { 0.0 }).collect()), Some(50.0));
    assert_eq!(delta_of(vec![3.0; 100]), Some(1.0));
}

fn assert_scale_and_offset_change_nothing(powers: &[i32]) {
    for loss in ["rmse", "mae", "huber", "quantile"] {
        for policy in POLICIES {
            let t = table(800, 14);
            let fit_scaled = |power: i32| {
                let mut scaled = t.clone();
                let unit = 2f64.powi(power);
                scaled.target = Wanted::Numbers(t.y().iter().map(|y| y * unit).collect());
                scaled.fit(&params(json!({ "loss": loss, "policy": policy, "rounds": 8, "depth": 4 })))
            };
            let plain = fit_scaled(0);
            let answers =
                |m: &Model| m.trees.iter().flat_map(|t| t.splits().map(|s| (s.feature, s.border, s.missing_left))).collect::<Vec<_>>();
            let leaves = |m: &Model| m.trees.iter().flat_map(|t| t.leaves().to_vec()).collect::<Vec<_>>();
            for &power in powers {
                let scaled = fit_scaled(power);
                let unit = 2f64.powi(power);
                assert_eq!((scaled.scale, scaled.start[0]), (plain.scale * unit, plain.start[0] * unit), "{loss} {policy} {power}");
                assert_eq!((answers(&scaled), leaves(&scaled)), (answers(&plain), leaves(&plain)), "{loss} {policy} {power}");
            }
            let mut moved = t.clone();
            moved.target = Wanted::Numbers(t.y().iter().map(|y| y + 1e9).collect());
            let model = moved.fit(&params(json!({ "loss": loss, "policy": policy, "rounds": 8, "depth": 4 })));
            let back: Vec<f64> = raw(&model, &t)[0].iter().map(|p| p - 1e9).collect();
            let (own, y) = (raw(&plain, &t), t.y());
            assert!((rmse(&back, &y) - rmse(&own[0], &y)).abs() < 0.01 * rmse(&own[0], &y), "{loss} {policy}");
        }
    }
}

/// Proves that targets of 1e300 and 1e-100 (no powers of two) are learnt as well as those of 1.
#[test]
fn huge_and_tiny_targets_are_learnt() {
    [1e300, 1e-100, 1.0].into_iter().for_each(assert_learnt);
}

fn assert_learnt(unit: f64) {
    for loss in ["rmse", "mae", "huber"] {
        let t = table(1000, 15);
        let mut scaled = t.clone();
        scaled.target = Wanted::Numbers(t.y().iter().map(|y| y * unit).collect());
        let model = scaled.fit(&params(json!({ "loss": loss, "rounds": 100 })));
        let back: Vec<f64> = raw(&model, &t)[0].iter().map(|p| p / unit).collect();
        assert!(rmse(&back, &t.y()) < 0.5, "{loss} {unit:e}: {}", rmse(&back, &t.y()));
        assert!(model.trees.iter().flat_map(|t| t.splits()).all(|s| s.gain.is_finite()));
    }
}

/// Proves that each loss of a target alone brings its own metric on held-out rows below the start's.
#[test]
fn every_loss_lowers_its_own_metric() {
    use losses::LossKind::{self, Aft, Cox, Custom, Multilabel};
    // Of tables of other columns, and of several labels: tests of their own.
    let reads_more = |kind: LossKind| kind.reads_groups() || [Custom, Cox, Aft, Multilabel].contains(&kind);
    for loss in LossKind::ALL.iter().filter(|kind| !reads_more(**kind)).map(|kind| kind.name()) {
        for policy in POLICIES {
            let mut t = table(2000, 16);
            let y = t.y();
            match loss {
                "logloss" | "focal" => t.target = Wanted::Classes(y.iter().map(|y| (*y > 0.0) as u32).collect(), Labels::Boolean),
                "multiclass" | "ova" => {
                    let codes = y.iter().map(|y| (*y > 0.0) as u32 + (*y > 1.0) as u32 + (*y > 2.0) as u32).collect();
                    t.target = Wanted::Classes(codes, Labels::Float(vec![0.5, 1.5, 2.5, 3.5]));
                }
                "cross_entropy" => t.target = Wanted::Numbers(y.iter().map(|y| 1.0 / (1.0 + (-y).exp())).collect()),
                "poisson" | "tweedie" => t.target = Wanted::Numbers(y.iter().map(|y| y.max(0.0).round()).collect()),
                "gamma" => t.target = Wanted::Numbers(y.iter().map(|y| (0.5 * y).exp()).collect()),
                _ => {}
            }
            t.held_out = Some((0..2000).map(|i| i % 4 == 1).collect());
            let p = params(json!({ "loss": loss, "policy": policy, "rounds": 30, "alpha": 0.7 }));
            let model = t.fit(&p);
            let held_out = t.filter(|i| i % 4 == 1);
            let kind = losses::loss(model.loss, &model.params.loss_params(), model.outputs(), 1.0).unwrap();
            let start: Vec<Vec<f64>> = model.start.iter().map(|s| vec![*s; held_out.rows()]).collect();
            let (y, loss_params) = (held_out.y(), model.params.loss_params());
            let before = metric(&kind.metric().into(), &Rows::new(&start, kind.link(), &y, &loss_params));
            let after = metric(&kind.metric().into(), &Rows::new(&raw(&model, &held_out), kind.link(), &y, &loss_params));
            let history = model.history.as_ref().unwrap();
            assert!(after < 0.9 * before, "{loss} {policy}: {before} {after}");
            assert!((history.values[29] - after).abs() < 1e-4 * after.abs(), "{loss} {policy}: {} {after}", history.values[29]);
            if loss == "multiclass" {
                let p = predict(&model, &held_out);
                (0..held_out.rows()).for_each(|i| assert!((p.iter().map(|p| p[i]).sum::<f64>() - 1.0).abs() < 1e-12));
            }
        }
    }
}

/// Proves that "auto" takes the loss that fits the target, and that the model says so.
#[test]
fn auto_takes_the_loss_of_the_target() {
    let p = params(json!({ "rounds": 2 }));
    assert_eq!(table(100, 21).fit(&p).loss, LossKind::Rmse);
    assert_eq!(classes(100, 21).fit(&p).loss, LossKind::Logloss);
    let mut t = classes(100, 21);
    t.target = Wanted::Classes((0..100).map(|i| i % 3).collect(), Labels::Integer(vec![0, 1, 2]));
    let model = t.fit(&p);
    assert_eq!((model.loss, model.outputs(), model.trees.len()), (LossKind::Multiclass, 3, 6));
    assert!(model.validate().is_ok());
}
