//! What fits mean: missing values, constraints, draws, stopping, baselines, weights, scales, limits.

mod common;

use common::{Dice, Table, Wanted, params, params_with, paths, predict, raw, rmse};
use serde_json::json;
use taiga_engine::boosting::loss;
use taiga_engine::boosting::metric::metric;
use taiga_engine::boosting::params::{LossKind, MetricKind};
use taiga_engine::boosting::{BoostingParams, Monitor, fit};
use taiga_engine::column::Column;
use taiga_engine::model::apply::Predictor;
use taiga_engine::model::{Labels, Model};
use taiga_engine::tree::Tree;

const POLICIES: [&str; 3] = ["symmetric", "depthwise", "leafwise"];

/// Normal features, some missing; the target rises with x0, falls with x1, and bends with x2, x3.
fn table(rows: usize, seed: u64) -> Table {
    let mut dice = Dice::new(seed);
    let columns: Vec<Vec<f64>> =
        (0..4).map(|_| (0..rows).map(|_| if dice.chance(0.05) { f64::NAN } else { dice.normal() }).collect()).collect();
    let x = |f: usize, i: usize| if columns[f][i].is_nan() { 0.5 } else { columns[f][i] };
    let y = (0..rows).map(|i| x(0, i) - x(1, i) + x(0, i) * x(2, i) + (3.0 * x(3, i)).sin() + 0.5 * dice.normal()).collect();
    Table::numbers(columns, y)
}

/// The same as two classes.
fn classes(rows: usize, seed: u64) -> Table {
    let t = table(rows, seed);
    let codes = t.y().iter().map(|y| (*y > 0.3) as u32).collect();
    Table::classes(t.columns, codes, Labels::Boolean)
}

/// Proves that a split learns the side of missing values, whether missing means high or low.
#[test]
fn missing_values_learn_their_side() {
    for policy in POLICIES {
        for missing_means in [10.0, -10.0] {
            let mut dice = Dice::new(1);
            let x: Vec<f64> = (0..500).map(|_| if dice.chance(0.3) { f64::NAN } else { dice.unit() }).collect();
            let y: Vec<f64> = x.iter().map(|x| if x.is_nan() { missing_means } else { (*x > 0.5) as u8 as f64 }).collect();
            let t = Table::numbers(vec![x], y.clone());
            let model = t.fit(&params(json!({ "trees": 60, "learning_rate": 0.3, "policy": policy, "l2": 0.0, "depth": 3 })));
            assert!(rmse(&raw(&model, &t)[0], &y) < 0.01, "{policy} {missing_means}");
        }
    }
}

/// Proves that a value missing in predict or in held-out rows alone goes left, as the smallest
/// value does, and that training's view of it (the history) is predict's; also with 255 borders,
/// where missing values take a bin from the others.
#[test]
fn values_missing_in_held_out_rows_alone_go_left() {
    for (distinct, bins) in [(50, 254), (256, 255)] {
        for policy in POLICIES {
            let mut dice = Dice::new(2);
            let x: Vec<f64> = (0..2000).map(|i| if i < 1500 { (i % distinct) as f64 } else { f64::NAN }).collect();
            let y: Vec<f64> = x.iter().map(|x| x.max(0.0).sqrt() + 0.1 * dice.normal()).collect();
            let mut t = Table::numbers(vec![x], y);
            t.held_out = Some((0..2000).map(|i| i >= 1500).collect());
            let model = t.fit(&params(json!({ "trees": 10, "policy": policy, "bins": bins, "n_threads": 1 })));
            let held_out = t.filter(|i| i >= 1500);
            let own = rmse(&raw(&model, &held_out)[0], &held_out.y());
            let noted = *model.history.as_ref().unwrap().values.last().unwrap();
            assert!((own - noted).abs() < 1e-5 * noted, "{policy} {distinct}: {own} {noted}");
            let at = |x: f64| raw(&model, &Table::numbers(vec![vec![x]], vec![0.0]))[0][0];
            assert_eq!(at(f64::NAN), at(f64::NEG_INFINITY), "{policy} {distinct}");
        }
    }
}

/// Proves that predictions rise (or fall) along a constrained feature, whatever the other features
/// are, for every policy, for leaves by Newton's step and for leaves refitted by quantiles, with
/// rows and features drawn.
#[test]
fn monotone_constraints_hold_everywhere() {
    for (case, loss) in ["rmse", "mae", "quantile", "logloss", "huber"].iter().enumerate() {
        for policy in POLICIES {
            for seed in 0..4 {
                let t = if *loss == "logloss" { classes(800, seed) } else { table(800, seed) };
                let mut p = json!({ "loss": loss, "policy": policy, "trees": 25, "learning_rate": 0.4, "seed": seed, "alpha": 0.8 });
                // x2 has no monotone effect in truth: the constraint binds.
                p["monotone"] = json!({ "x0": 1, "x1": -1, "x2": 1 });
                p["min_child_weight"] = json!(0.5);
                if (case + seed as usize).is_multiple_of(2) {
                    p["row_sample"] = json!("bernoulli");
                    p["feature_fraction_level"] = json!(0.7);
                }
                let model = t.fit(&params(p.clone()));
                let mut dice = Dice::new(100 + seed);
                for (feature, direction) in [(0, 1.0), (1, -1.0), (2, 1.0)] {
                    let grid: Vec<f64> = (0..81).map(|i| -4.0 + i as f64 / 10.0).collect();
                    for _ in 0..20 {
                        let row: Vec<f64> = (0..4).map(|_| if dice.chance(0.1) { f64::NAN } else { 1.5 * dice.normal() }).collect();
                        let mut columns: Vec<Vec<f64>> = row.iter().map(|x| vec![*x; grid.len()]).collect();
                        columns[feature] = grid.clone();
                        let scores = raw(&model, &Table::numbers(columns, vec![0.0; grid.len()]));
                        for (i, w) in scores[0].windows(2).enumerate() {
                            assert!((w[1] - w[0]) * direction >= -1e-9, "x{feature} from {} on: {w:?}, row {row:?}, {p}", grid[i]);
                        }
                    }
                }
            }
        }
    }
}

/// Proves that a path's features stand together in one group, and that a feature in no group
/// meets no other.
#[test]
fn interaction_constraints_hold_on_every_path() {
    let mut t = table(3000, 3);
    t.columns.push(t.columns[2].iter().map(|x| x * 1.5 + 0.1).collect());
    let groups: [&[u32]; 2] = [&[0, 1], &[1, 2]];
    for policy in POLICIES {
        let p = json!({ "policy": policy, "trees": 30, "interaction": [["x0", "x1"], ["x1", "x2"]], "feature_fraction": 0.8 });
        let model = t.fit(&params(p));
        let mut met = std::collections::BTreeSet::new();
        for path in model.trees.iter().flat_map(paths) {
            let set: std::collections::BTreeSet<u32> = path.into_iter().collect();
            let allowed = set.len() <= 1 || groups.iter().any(|g| set.iter().all(|f| g.contains(f)));
            assert!(allowed, "{policy}: {set:?}");
            met.insert(set.into_iter().collect::<Vec<_>>());
        }
        assert!(met.contains(&vec![0, 1]) && met.iter().any(|m| *m == [3] || *m == [4]), "{policy}: {met:?}");
    }
}

/// Proves that a tree uses no more features than its share, nor a level or node than theirs, and
/// that the draw changes from tree to tree.
#[test]
fn feature_fractions_limit_the_features_of_a_tree_and_of_a_level() {
    let mut dice = Dice::new(4);
    let columns: Vec<Vec<f64>> = (0..10).map(|_| (0..1500).map(|_| dice.normal()).collect()).collect();
    let y = (0..1500).map(|i| columns.iter().map(|c| c[i]).sum::<f64>() + dice.normal()).collect();
    let t = Table::numbers(columns, y);
    for policy in POLICIES {
        let model = t.fit(&params(json!({ "policy": policy, "trees": 40, "feature_fraction": 0.3 })));
        let mut ever = std::collections::BTreeSet::new();
        for tree in &model.trees {
            let used: std::collections::BTreeSet<u32> = tree.splits().map(|s| s.feature).collect();
            assert!(used.len() <= 3, "{policy}: {used:?}");
            ever.extend(used);
        }
        assert_eq!(ever.len(), 10, "{policy}");
        // Two of ten by level: every level of a tree has at most two features.
        let model = t.fit(&params(json!({ "policy": policy, "trees": 20, "feature_fraction_level": 0.2 })));
        let mut distinct = std::collections::BTreeSet::new();
        for tree in &model.trees {
            let mut by_level = vec![std::collections::BTreeSet::new(); 64];
            if let Tree::Symmetric { splits, .. } = tree {
                splits.iter().enumerate().for_each(|(level, s)| by_level[level].extend([s.feature]));
            } else {
                paths(tree).iter().for_each(|p| p.iter().enumerate().for_each(|(level, f)| by_level[level].extend([*f])));
            }
            assert!(by_level.iter().all(|s| s.len() <= 2), "{policy}: {by_level:?}");
            distinct.extend(by_level);
        }
        assert!(distinct.len() > 8, "{policy}: {distinct:?}");
    }
    // The smallest share still leaves one feature.
    let model = t.fit(&params(json!({ "policy": "depthwise", "trees": 20, "feature_fraction_node": 1e-9 })));
    assert!(model.trees.iter().all(|t| t.leaves().len() > 1));
}

/// Proves that early stopping keeps the best length and all that was measured, and that the trees
/// kept are those of a fit of that length.
#[test]
fn early_stopping_keeps_the_best_length() {
    for (loss, metric) in [("rmse", None), ("rmse", Some("mae")), ("logloss", Some("auc")), ("logloss", None)] {
        let mut t = if loss == "rmse" { table(600, 5) } else { classes(600, 5) };
        t.held_out = Some((0..600).map(|i| i % 3 == 0).collect());
        let base = json!({ "loss": loss, "learning_rate": 0.5, "metric": metric, "depth": 6, "l2": 0.0 });
        let p = params_with(base.clone(), json!({ "trees": 500, "early_stopping": 7 }));
        let model = t.fit(&p);
        let h = model.history.clone().unwrap();
        assert_eq!(model.rounds(), h.best as usize + 1);
        assert_eq!(h.values.len(), h.best as usize + 1 + 7, "{h:?}");
        let sign = if h.metric == MetricKind::Auc { -1.0 } else { 1.0 };
        let best = h.values.iter().map(|v| v * sign).fold(f64::INFINITY, f64::min);
        assert_eq!(h.values.iter().position(|v| v * sign == best), Some(h.best as usize));
        let exact = t.fit(&params_with(base, json!({ "trees": h.best + 1 })));
        assert_eq!(exact.trees, model.trees);
        assert_eq!(exact.history.as_ref().unwrap().values, h.values[..h.best as usize + 1]);
        assert_eq!(model.rows, 400);
    }
}

/// Proves that without early stopping all rounds stay, the curve with them, and that its best
/// round is noted.
#[test]
fn without_early_stopping_all_rounds_stay() {
    let mut t = table(300, 6);
    t.held_out = Some((0..300).map(|i| i % 2 == 0).collect());
    let model = t.fit(&params(json!({ "trees": 30, "learning_rate": 1.0 })));
    let h = model.history.as_ref().unwrap();
    assert_eq!((model.rounds(), h.values.len()), (30, 30));
    assert!(h.values.iter().all(|v| *v >= h.values[h.best as usize]));
}

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
        let (short, long) = (params_with(base.clone(), json!({ "trees": 15 })), params_with(base, json!({ "trees": 30 })));
        let first = t.fit(&short);
        let scores = raw(&first, &t);
        t.baseline = scores.clone();
        let second = t.fit(&short);
        assert_eq!(second.start, vec![0.0; scores.len()]);
        let more = raw(&second, &t);
        let together: Vec<Vec<f64>> = scores.iter().zip(&more).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a + b).collect()).collect();
        let p = BoostingParams::default();
        let kind = loss::loss(first.loss, &p, scores.len(), 1.0).unwrap();
        let y = t.y();
        let measure = |s: &[Vec<f64>]| metric(kind.metric(), &p, kind.link(), s, &y, None);
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
        let p = params(json!({ "trees": 1, "policy": policy, "depth": 4, "min_child_weight": 6 }));
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
    let p = params(json!({ "trees": 40, "bins": 20, "depth": 3 }));
    let measure = |m: &Model| metric(MetricKind::Logloss, &p, loss::Link::Sigmoid, &raw(m, &repeated), &repeated.y(), None);
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
        let p = params(json!({ "loss": loss, "trees": 10, "policy": policy, "depth": 4 }));
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
#[ignore = "fails: the unit of the target is taken over rows of weight zero too"]
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
    let base = json!({ "trees": 8, "seed": 5 });
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
            let p = params(json!({ "loss": "quantile", "alpha": alpha, "policy": policy, "trees": 60, "depth": 3, "min_data_in_leaf": 30,
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
    let start = |loss: &str, extra: serde_json::Value| t.fit(&params_with(json!({ "loss": loss, "trees": 1 }), extra)).start[0];
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
    let model = t.fit(&params(json!({ "trees": 1 })));
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
#[ignore = "fails: min_gain = 0 becomes 0 / 0 where the square of the unit is no f64"]
fn a_tiny_scale_of_a_target_changes_nothing_but_the_unit() {
    assert_scale_and_offset_change_nothing(&[-900, -540]);
    assert_learnt(1e-300);
}

fn assert_scale_and_offset_change_nothing(powers: &[i32]) {
    for loss in ["rmse", "mae", "huber", "quantile"] {
        for policy in POLICIES {
            let t = table(800, 14);
            let fit_scaled = |power: i32| {
                let mut scaled = t.clone();
                let unit = 2f64.powi(power);
                scaled.target = Wanted::Numbers(t.y().iter().map(|y| y * unit).collect());
                scaled.fit(&params(json!({ "loss": loss, "policy": policy, "trees": 8, "depth": 4, "huber_delta": unit })))
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
            let model = moved.fit(&params(json!({ "loss": loss, "policy": policy, "trees": 8, "depth": 4 })));
            let back: Vec<f64> = raw(&model, &t)[0].iter().map(|p| p - 1e9).collect();
            let (own, y) = (raw(&plain, &t), t.y());
            assert!((rmse(&back, &y) - rmse(&own[0], &y)).abs() < 0.01 * rmse(&own[0], &y), "{loss} {policy}");
        }
    }
}

/// Proves that targets of 1e300 and 1e-100 (no powers of two) are learnt as well as those of 1.
#[test]
fn huge_and_tiny_targets_are_learnt() {
    [1e300, 1e-100, 1.0].map(assert_learnt);
}

fn assert_learnt(unit: f64) {
    for loss in ["rmse", "mae", "huber"] {
        let t = table(1000, 15);
        let mut scaled = t.clone();
        scaled.target = Wanted::Numbers(t.y().iter().map(|y| y * unit).collect());
        let model = scaled.fit(&params(json!({ "loss": loss, "trees": 100, "huber_delta": unit })));
        let back: Vec<f64> = raw(&model, &t)[0].iter().map(|p| p / unit).collect();
        assert!(rmse(&back, &t.y()) < 0.5, "{loss} {unit:e}: {}", rmse(&back, &t.y()));
        assert!(model.trees.iter().flat_map(|t| t.splits()).all(|s| s.gain.is_finite()));
    }
}

/// Proves that each of the ten losses brings its own metric on held-out rows below the start's.
#[test]
fn every_loss_lowers_its_own_metric() {
    for loss in ["rmse", "logloss", "cross_entropy", "multiclass", "mae", "quantile", "huber", "poisson", "gamma", "tweedie"] {
        for policy in POLICIES {
            let mut t = table(2000, 16);
            let y = t.y();
            match loss {
                "logloss" => t.target = Wanted::Classes(y.iter().map(|y| (*y > 0.0) as u32).collect(), Labels::Boolean),
                "multiclass" => {
                    let codes = y.iter().map(|y| (*y > 0.0) as u32 + (*y > 1.0) as u32 + (*y > 2.0) as u32).collect();
                    t.target = Wanted::Classes(codes, Labels::Float(vec![0.5, 1.5, 2.5, 3.5]));
                }
                "cross_entropy" => t.target = Wanted::Numbers(y.iter().map(|y| 1.0 / (1.0 + (-y).exp())).collect()),
                "poisson" | "tweedie" => t.target = Wanted::Numbers(y.iter().map(|y| y.max(0.0).round()).collect()),
                "gamma" => t.target = Wanted::Numbers(y.iter().map(|y| (0.5 * y).exp()).collect()),
                _ => {}
            }
            t.held_out = Some((0..2000).map(|i| i % 4 == 1).collect());
            let p = params(json!({ "loss": loss, "policy": policy, "trees": 30, "alpha": 0.7 }));
            let model = t.fit(&p);
            let held_out = t.filter(|i| i % 4 == 1);
            let kind = loss::loss(model.loss, &p, model.outputs(), 1.0).unwrap();
            let start: Vec<Vec<f64>> = model.start.iter().map(|s| vec![*s; held_out.rows()]).collect();
            let before = metric(kind.metric(), &p, kind.link(), &start, &held_out.y(), None);
            let after = metric(kind.metric(), &p, kind.link(), &raw(&model, &held_out), &held_out.y(), None);
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

/// Proves that trees keep within `depth` and `leaves`, that a leaf's rows are at least
/// `min_data_in_leaf` (exactly) and its hessians at least `min_child_weight`, that gains are above
/// `min_gain`, and that the leaves' counts are the training rows.
#[test]
fn limits_of_trees_hold() {
    for loss in ["rmse", "logloss"] {
        for (policy, depth, leaves) in [
            ("symmetric", Some(1), None),
            ("symmetric", Some(5), None),
            ("depthwise", Some(3), None),
            ("depthwise", Some(9), None),
            ("leafwise", None, Some(2)),
            ("leafwise", None, Some(20)),
            ("leafwise", Some(3), Some(20)),
        ] {
            for (min_data, min_weight, min_gain) in [(0, 1.0, 0.0), (37, 0.0, 0.0), (0, 9.5, 0.0), (1, 0.0, 3.0)] {
                let mut t = if loss == "rmse" { table(700, 17) } else { classes(700, 17) };
                t.weight = (min_data == 37).then(|| (0..700).map(|i| 0.1 + (i % 9) as f64).collect());
                let model = t
                    .fit(&params(json!({ "policy": policy, "depth": depth, "leaves": leaves, "trees": 10, "min_data_in_leaf": min_data,
                    "min_child_weight": min_weight, "min_gain": min_gain })));
                for tree in &model.trees {
                    let deepest = paths(tree).iter().map(|p| p.len()).max().unwrap();
                    assert!(deepest <= depth.unwrap_or(63) as usize);
                    assert!(tree.leaves().len() <= leaves.unwrap_or(1 << depth.unwrap_or(6)) as usize);
                    assert_eq!(tree.leaves().iter().map(|l| l.count as u64).sum::<u64>(), 700);
                    assert!(tree.splits().all(|s| s.gain as f64 >= min_gain));
                    if policy != "symmetric" && tree.leaves().len() > 1 {
                        let smallest = tree.leaves().iter().map(|l| l.count).min().unwrap();
                        assert!(smallest >= min_data.max(1), "{loss} {policy}: {smallest} rows, at least {min_data}");
                        let lightest = tree.leaves().iter().map(|l| l.weight).fold(f32::INFINITY, f32::min);
                        assert!(lightest as f64 >= 0.999 * min_weight, "{loss} {policy}: {lightest} of {min_weight}");
                    }
                }
                assert!(model.trees.iter().any(|t| t.leaves().len() > 1));
            }
        }
    }
}

/// Proves that training and predict send every row to the same leaf: counting predicted leaves
/// gives the leaves' counts, from f64 and from f32 columns, with missing and infinite values.
#[test]
fn training_and_predict_agree_on_every_leaf() {
    for policy in POLICIES {
        for seed in 0..10 {
            let mut dice = Dice::new(18 + seed);
            let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1e-40, 3e38, -1.0];
            let columns: Vec<Vec<f32>> = (0..5)
                .map(|f| {
                    let mut one = || match f {
                        0 => values[dice.below(8) as usize],
                        1 => 1.0 + dice.below(300) as f64 * f32::EPSILON as f64,
                        _ => {
                            if dice.chance(0.1) {
                                f64::NAN
                            } else {
                                dice.normal()
                            }
                        }
                    };
                    (0..1500).map(|_| one() as f32).collect()
                })
                .collect();
            let y: Vec<f64> =
                (0..1500).map(|i| columns.iter().map(|c| c[i].clamp(-3.0, 3.0).max(-2.0) as f64).sum::<f64>() + dice.normal()).collect();
            let double: Vec<Vec<f64>> = columns.iter().map(|c| c.iter().map(|x| *x as f64).collect()).collect();
            let t = Table::numbers(double, y);
            let model = t.fit(&params(json!({ "policy": policy, "trees": 5, "bins": 255, "min_child_weight": 0.0 })));
            let predictor = Predictor::new(model.clone());
            let single: Vec<Column<'_>> = columns.iter().enumerate().map(|(i, c)| Column::from_f32(format!("x{i}"), c)).collect();
            for features in [t.features(), single] {
                let leaves = predictor.leaves(&predictor.bind(&features).unwrap());
                for (k, tree) in model.trees.iter().enumerate() {
                    let mut counts = vec![0; tree.leaves().len()];
                    leaves.chunks(5).for_each(|row| counts[row[k] as usize] += 1);
                    assert_eq!(counts, tree.leaves().iter().map(|l| l.count).collect::<Vec<_>>(), "{policy} {seed} tree {k}");
                }
            }
        }
    }
}

/// Proves that rows are drawn in the share asked for, anew for each tree and by seed.
#[test]
fn row_samples_have_their_size() {
    let t = table(20_000, 19);
    for (sample, fraction) in [("bernoulli", 0.3), ("goss", 0.2), ("mvs", 0.4)] {
        let p = json!({ "row_sample": sample, "row_fraction": fraction, "trees": 4, "policy": "depthwise" });
        let model = t.fit(&params(p.clone()));
        let drawn = |m: &Model| m.trees.iter().map(|t| t.leaves().iter().map(|l| l.count as u64).sum::<u64>()).collect::<Vec<_>>();
        let counts = drawn(&model);
        assert!(counts.iter().all(|c| (*c as f64 / 20_000.0 - fraction).abs() < 0.02), "{sample}: {counts:?}");
        assert!(counts.windows(2).any(|w| w[0] != w[1]), "{sample}: {counts:?}");
        assert_ne!(drawn(&t.fit(&params_with(p, json!({ "seed": 1 })))), counts);
        let error = rmse(&raw(&model, &t)[0], &t.y());
        let all = rmse(&raw(&t.fit(&params(json!({ "trees": 4, "policy": "depthwise" }))), &t)[0], &t.y());
        assert!(error < 1.02 * all, "{sample}: {error} {all}");
    }
}

/// Proves that a fit reports each round, with the metric, and stops when asked to.
#[test]
fn a_monitor_sees_rounds_and_can_stop_a_fit() {
    use std::sync::Mutex;
    struct Watch(Mutex<Vec<(u32, u32, Option<f64>)>>, u32);
    impl Monitor for Watch {
        fn round(&self, done: u32, total: u32, metric: Option<f64>) {
            self.0.lock().unwrap().push((done, total, metric));
        }
        fn interrupted(&self) -> bool {
            self.0.lock().unwrap().len() as u32 >= self.1
        }
    }
    let mut t = table(500, 20);
    t.held_out = Some((0..500).map(|i| i < 100).collect());
    let p = params(json!({ "trees": 6, "n_threads": 2 }));
    let watch = Watch(Mutex::new(vec![]), u32::MAX);
    let model = fit(&t.input(), &p, &watch).unwrap();
    let seen = watch.0.into_inner().unwrap();
    let wanted: Vec<_> = model.history.unwrap().values.iter().enumerate().map(|(i, v)| (i as u32 + 1, 6, Some(*v))).collect();
    assert_eq!(seen, wanted);
    for rounds in [0, 3] {
        let watch = Watch(Mutex::new(vec![]), rounds);
        assert_eq!(fit(&t.input(), &p, &watch).unwrap_err(), taiga_engine::Error::Interrupted);
        assert_eq!(watch.0.lock().unwrap().len() as u32, rounds);
    }
}

/// Proves that "auto" takes the loss that fits the target, and that the model says so.
#[test]
fn auto_takes_the_loss_of_the_target() {
    let p = params(json!({ "trees": 2 }));
    assert_eq!(table(100, 21).fit(&p).loss, LossKind::Rmse);
    assert_eq!(classes(100, 21).fit(&p).loss, LossKind::Logloss);
    let mut t = classes(100, 21);
    t.target = Wanted::Classes((0..100).map(|i| i % 3).collect(), Labels::Integer(vec![0, 1, 2]));
    let model = t.fit(&p);
    assert_eq!((model.loss, model.outputs(), model.trees.len()), (LossKind::Multiclass, 3, 6));
    assert!(model.validate().is_ok());
}
