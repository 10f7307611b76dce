//! What a fit means: missing values, constraints, draws, early stopping, limits.

use serde_json::json;
use taiga_engine::column::Column;
use taiga_engine::dataset::Monitor;
use taiga_engine::learners::boosting::fit;
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::model::apply::Predictor;
use taiga_engine::metrics::MetricKind;
use taiga_engine::tree::Tree;
use taiga_testing::{Dice, POLICIES, Table, classes, params, params_with, paths, raw, rmse, table};

/// Proves that a split learns the side of missing values, whether missing means high or low.
#[test]
fn missing_values_learn_their_side() {
    for policy in POLICIES {
        for missing_means in [10.0, -10.0] {
            let mut dice = Dice::new(1);
            let x: Vec<f64> = (0..500).map(|_| if dice.chance(0.3) { f64::NAN } else { dice.unit() }).collect();
            let y: Vec<f64> = x.iter().map(|x| if x.is_nan() { missing_means } else { (*x > 0.5) as u8 as f64 }).collect();
            let t = Table::numbers(vec![x], y.clone());
            let model = t.fit(&params(json!({ "rounds": 60, "learning_rate": 0.3, "policy": policy, "l2": 0.0, "depth": 3 })));
            assert!(rmse(&raw(&model, &t)[0], &y) < 0.01, "{policy} {missing_means}");
        }
    }
}

/// Proves that a value missing in predict or in held-out rows alone goes left, as the smallest
/// value does, and that training's view of it (the history) is predict's; also with 255 borders,
/// where missing values take a bin from the others.
#[test]
fn values_missing_in_held_out_rows_alone_go_left() {
    for (distinct, bins) in [(50, 255), (256, 256)] {
        for policy in POLICIES {
            let mut dice = Dice::new(2);
            let x: Vec<f64> = (0..2000).map(|i| if i < 1500 { (i % distinct) as f64 } else { f64::NAN }).collect();
            let y: Vec<f64> = x.iter().map(|x| x.max(0.0).sqrt() + 0.1 * dice.normal()).collect();
            let mut t = Table::numbers(vec![x], y);
            t.held_out = Some((0..2000).map(|i| i >= 1500).collect());
            let model = t.fit(&params(json!({ "rounds": 10, "policy": policy, "bins": bins, "n_threads": 1 })));
            let held_out = t.filter(|i| i >= 1500);
            let own = rmse(&raw(&model, &held_out)[0], &held_out.y());
            let noted = *model.history.as_ref().unwrap().values.last().unwrap();
            assert!((own - noted).abs() < 1e-5 * noted, "{policy} {distinct}: {own} {noted}");
            let at = |x: f64| raw(&model, &Table::numbers(vec![vec![x]], vec![0.0]))[0][0];
            assert_eq!(at(f64::NAN), at(f64::NEG_INFINITY), "{policy} {distinct}");
        }
    }
}

/// Proves that features have as many bins as they are given, the others as many as ever; that the same number for each is that number for all; and
/// that of the model's bytes.
#[test]
fn features_may_have_bins_of_their_own() {
    for policy in POLICIES {
        let t = table(4000, 5);
        let fit = |bins: serde_json::Value| t.fit(&params(json!({ "policy": policy, "rounds": 40, "bins": bins })));
        let model = fit(json!({ "x0": 2, "x2": 9 }));
        let counts: Vec<usize> = model.features.iter().map(|f| f.borders.len()).collect();
        assert!(counts[0] == 1 && (4..=8).contains(&counts[2]) && counts[1] > 20, "{policy}: {counts:?}");
        assert_eq!(Model::from_bytes(&model.to_bytes()).unwrap(), model);
        assert_eq!(model.to_bytes()[8], 14, "the version");
        assert_eq!(model.params.to_json()["bins"], json!({ "x0": 2, "x2": 9 }));
        let all: serde_json::Map<_, _> = (0..t.columns.len()).map(|i| (format!("x{i}"), json!(17))).collect();
        assert!(fit(all.into()).trees == fit(json!(17)).trees, "{policy}");
        assert!(fit(json!({})).to_bytes() == fit(json!(255)).to_bytes(), "{policy}");
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
                let mut p = json!({ "loss": loss, "policy": policy, "rounds": 25, "learning_rate": 0.4, "seed": seed, "alpha": 0.8 });
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
        let p = json!({ "policy": policy, "rounds": 30, "interaction": [["x0", "x1"], ["x1", "x2"]], "feature_fraction": 0.8 });
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
        let model = t.fit(&params(json!({ "policy": policy, "rounds": 40, "feature_fraction": 0.3 })));
        let mut ever = std::collections::BTreeSet::new();
        for tree in &model.trees {
            let used: std::collections::BTreeSet<u32> = tree.splits().map(|s| s.feature).collect();
            assert!(used.len() <= 3, "{policy}: {used:?}");
            ever.extend(used);
        }
        assert_eq!(ever.len(), 10, "{policy}");
        // Two of ten by level: every level of a tree has at most two features.
        let model = t.fit(&params(json!({ "policy": policy, "rounds": 20, "feature_fraction_level": 0.2 })));
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
    let model = t.fit(&params(json!({ "policy": "depthwise", "rounds": 20, "feature_fraction_node": 1e-9 })));
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
        let p = params_with(base.clone(), json!({ "rounds": 500, "early_stopping": 7 }));
        let model = t.fit(&p);
        let h = model.history.clone().unwrap();
        assert_eq!(model.rounds(), h.best as usize + 1);
        assert_eq!(h.values.len(), h.best as usize + 1 + 7, "{h:?}");
        let sign = if h.metric.kind() == MetricKind::Auc { -1.0 } else { 1.0 };
        let best = h.values.iter().map(|v| v * sign).fold(f64::INFINITY, f64::min);
        assert_eq!(h.values.iter().position(|v| v * sign == best), Some(h.best as usize));
        let exact = t.fit(&params_with(base, json!({ "rounds": h.best + 1 })));
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
    let model = t.fit(&params(json!({ "rounds": 30, "learning_rate": 1.0 })));
    let h = model.history.as_ref().unwrap();
    assert_eq!((model.rounds(), h.values.len()), (30, 30));
    assert!(h.values.iter().all(|v| *v >= h.values[h.best as usize]));
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
            for (rows, min_data, min_weight, min_gain) in
                [(700, 0, 1.0, 0.0), (700, 37, 0.0, 0.0), (700, 0, 9.5, 0.0), (700, 1, 0.0, 3.0), (300, 20, 0.0, 0.0), (300, 0, 4.0, 0.0)]
            {
                let mut t = if loss == "rmse" { table(rows, 17) } else { classes(rows, 17) };
                t.weight = (min_data == 37).then(|| (0..rows).map(|i| 0.1 + (i % 9) as f64).collect());
                if min_weight == 4.0 {
                    // Rows whose hessians are rounded to none: a leaf of them alone has rows and is too small.
                    t.weight = Some((0..rows).map(|i| if i % 4 == 0 { 1e-7 } else { 1.0 }).collect());
                }
                let model = t
                    .fit(&params(json!({ "policy": policy, "depth": depth, "leaves": leaves, "rounds": 10, "min_data_in_leaf": min_data,
                    "min_child_weight": min_weight, "min_gain": min_gain })));
                for tree in &model.trees {
                    let deepest = paths(tree).iter().map(|p| p.len()).max().unwrap();
                    assert!(deepest <= depth.unwrap_or(63) as usize);
                    assert!(tree.leaves().len() <= leaves.unwrap_or(1 << depth.unwrap_or(6)) as usize);
                    assert_eq!(tree.leaves().iter().map(|l| l.count as usize).sum::<usize>(), rows);
                    assert!(tree.splits().all(|s| s.gain as f64 >= min_gain));
                    if tree.leaves().len() > 1 {
                        // A symmetric tree has leaves without rows, where a node's rows all go to one side.
                        let with_rows = || tree.leaves().iter().filter(|l| policy != "symmetric" || l.count > 0);
                        let smallest = with_rows().map(|l| l.count).min().unwrap();
                        assert!(smallest >= min_data.max(1), "{loss} {policy}: {smallest} rows, at least {min_data}");
                        let lightest = with_rows().map(|l| l.weight).fold(f32::INFINITY, f32::min);
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
            let model = t.fit(&params(json!({ "policy": policy, "rounds": 5, "bins": 256, "min_child_weight": 0.0 })));
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
        let p = json!({ "row_sample": sample, "row_fraction": fraction, "rounds": 4, "policy": "depthwise" });
        let model = t.fit(&params(p.clone()));
        let drawn = |m: &Model| m.trees.iter().map(|t| t.leaves().iter().map(|l| l.count as u64).sum::<u64>()).collect::<Vec<_>>();
        let counts = drawn(&model);
        assert!(counts.iter().all(|c| (*c as f64 / 20_000.0 - fraction).abs() < 0.02), "{sample}: {counts:?}");
        assert!(counts.windows(2).any(|w| w[0] != w[1]), "{sample}: {counts:?}");
        assert_ne!(drawn(&t.fit(&params_with(p, json!({ "seed": 1 })))), counts);
        let error = rmse(&raw(&model, &t)[0], &t.y());
        let all = rmse(&raw(&t.fit(&params(json!({ "rounds": 4, "policy": "depthwise" }))), &t)[0], &t.y());
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
    let p = params(json!({ "rounds": 6, "n_threads": 2 }));
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
