//! A fit on the GPU gives the model of a fit on the CPU, byte for byte: every policy, loss, way to
//! draw rows, constraint and categorical method, from one row to millions.
//!
//! These tests are ignored unless asked for (`make test-cuda`), and then fail without a GPU.

use serde_json::json;
use taiga_engine::column::categories::CategoryColumn;
use taiga_engine::column::{Bits, Chunk, Column, FeatureType, Values};
use taiga_engine::dataset::labels::Labels;
use taiga_engine::dataset::{Input, Quiet, Target};
use taiga_engine::learners::boosting::{BoostingParams, fit};
use taiga_testing::contract::{self, table};
use taiga_testing::devices::{assert_same, both, compare};
use taiga_testing::gpu::{gpu, say};
use taiga_testing::random_fits::{self, RandomFit};
use taiga_testing::{Dice, Table, Wanted, params, params_with};

/// Proves equal bytes under every policy for the plainest fits.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn plain_fits() {
    gpu();
    for loss in ["rmse", "logloss"] {
        for policy in ["symmetric", "depthwise", "leafwise"] {
            for rows in [2, 10, 1000, 40_000] {
                if rows < 10 && loss == "logloss" {
                    continue;
                }
                let t = table(rows, 6, loss, 1);
                let p = params(json!({ "loss": loss, "policy": policy, "rounds": 5 }));
                compare(&t, &p, &format!("{loss}, {policy}, {rows} rows"));
            }
        }
    }
}

/// Proves equal bytes where a fit finds its rounds on a hidden part, and where the trees without it are the model's.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn rounds_that_are_found() {
    gpu();
    for (rows, loss, step) in [(60, "rmse", 0.3), (3000, "logloss", 0.3), (20_000, "multiclass", 0.5), (260_000, "rmse", 1.0)] {
        let t = table(rows, 6, loss, 1);
        let p = params(json!({ "loss": loss, "learning_rate": step, "depth": 3 }));
        compare(&t, &p, &format!("{loss}, {rows} rows"));
    }
}

/// Proves equal bytes under every policy, loss and way to draw rows, with feature fractions,
/// weights, constraints, held-out rows and early stopping dealt out over the combinations.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn any_policy_loss_and_sample() {
    gpu();
    contract::combinations(20_000, |t, p, case| compare(t, &p, &format!("case {case}: {p:?}")));
}

/// Proves equal bytes of what holds trees back from noise: weights of the Bayesian bootstrap, limited and smoothed leaves, borders drawn at random.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn means_against_noise() {
    gpu();
    for (case, more) in [
        json!({ "row_sample": "bayesian" }),
        json!({ "row_sample": "bayesian", "bagging_temperature": 0.4, "min_data_in_leaf": 3 }),
        json!({ "max_delta_step": 0.2 }),
        json!({ "max_delta_step": 0.2, "monotone": { "x0": 1 }, "l1": 0.5 }),
        json!({ "path_smooth": 30 }),
        json!({ "path_smooth": 3.5, "max_delta_step": 0.4, "min_data_in_leaf": 4, "monotone": { "x1": -1 } }),
        json!({ "path_smooth": 12, "row_sample": "goss" }),
        json!({ "extra_trees": true }),
        json!({ "extra_trees": true, "min_data_in_leaf": 5, "feature_fraction": 0.6 }),
        json!({ "extra_trees": true, "bins": 20 }),
        json!({ "extra_trees": true, "bins": 2 }),
        json!({ "extra_trees": true, "path_smooth": 8, "row_sample": "bayesian", "max_delta_step": 1 }),
    ]
    .into_iter()
    .enumerate()
    {
        for (rows, loss) in [(300, "rmse"), (20_000, "rmse"), (20_000, "logloss"), (5_000, "multiclass")] {
            for policy in ["symmetric", "depthwise", "leafwise"] {
                let t = table(rows, 6, loss, case as u64);
                let base = json!({ "loss": loss, "policy": policy, "rounds": 4, "seed": case });
                compare(&t, &params_with(base.clone(), more.clone()), &format!("{rows} rows, {base}, {more}"));
            }
        }
    }
}

/// Proves equal bytes where leaves are refitted by weighted quantiles: whole and fractional weights, weights of zero, many
/// equal residuals, drawn and held-out rows, leaves with a row or none that counts.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn weighted_quantiles() {
    gpu();
    for (case, (rows, policy, more)) in [
        (40_000, "symmetric", json!({ "loss": "mae" })),
        (40_000, "depthwise", json!({ "loss": "quantile", "alpha": 0.9 })),
        (20_000, "leafwise", json!({ "loss": "mae", "row_sample": "goss" })),
        (20_000, "symmetric", json!({ "loss": "quantile", "alpha": 0.05, "row_sample": "mvs", "row_fraction": 0.4 })),
        (20_000, "depthwise", json!({ "loss": "mae", "row_sample": "bernoulli", "row_fraction": 0.3 })),
        (20_000, "symmetric", json!({ "loss": "mae", "row_sample": "bayesian" })),
        (20_000, "leafwise", json!({ "loss": "mae", "max_delta_step": 0.2 })),
        (300, "depthwise", json!({ "loss": "mae", "min_child_weight": 0 })),
        (33, "leafwise", json!({ "loss": "quantile", "alpha": 0.5, "min_child_weight": 0 })),
    ]
    .into_iter()
    .enumerate()
    {
        for kind in 0..4 {
            let mut t = table(rows, 5, "rmse", (10 * case + kind) as u64);
            let mut dice = Dice::new((100 + 10 * case + kind) as u64);
            let Wanted::Numbers(y) = &mut t.target else { unreachable!() };
            if kind % 2 == 1 {
                y.iter_mut().for_each(|y| *y = y.round());
            }
            t.weight = match kind {
                0 => Some((0..rows).map(|_| dice.unit()).collect()),
                1 => Some((0..rows).map(|_| dice.below(4) as f64).collect()),
                2 => Some((0..rows).map(|_| (dice.unit() * 40.0 - 20.0).exp2()).collect()),
                _ => None,
            };
            t.held_out = (kind == 3 || case == 1).then(|| (0..rows).map(|i| i % 7 == 3).collect());
            let p = params_with(json!({ "rounds": 6, "policy": policy, "learning_rate": 0.4 }), more.clone());
            compare(&t, &p, &format!("{rows} rows, {policy}, weights {kind}: {more}"));
        }
    }
}

/// Proves equal bytes at the edges of the layout: one border and 255, one block of features and
/// several, many pieces of rows, deep trees.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn edges_of_the_layout() {
    gpu();
    for (rows, features, more) in [
        (40_000, 6, json!({ "rounds": 20 })),
        (40_000, 6, json!({ "rounds": 8, "bins": 2, "policy": "depthwise" })),
        (12_000, 29, json!({ "rounds": 4, "policy": "leafwise", "min_data_in_leaf": 9 })),
        (12_000, 32, json!({ "rounds": 4, "policy": "symmetric", "min_child_weight": 3 })),
        (12_000, 33, json!({ "rounds": 4, "policy": "depthwise", "depth": 9 })),
        (12_000, 61, json!({ "rounds": 4, "policy": "depthwise", "row_sample": "mvs" })),
        (12_000, 125, json!({ "rounds": 3 })),
        (5_000, 10, json!({ "rounds": 2, "depth": 12 })),
        (5_000, 10, json!({ "rounds": 2, "depth": 16, "policy": "depthwise", "min_child_weight": 0 })),
        (30_000, 10, json!({ "rounds": 3, "leaves": 700, "depth": 20, "policy": "leafwise", "min_child_weight": 0 })),
        (300_000, 3, json!({ "rounds": 3, "policy": "depthwise", "l1": 0.5 })),
    ] {
        let t = table(rows, features, "rmse", 3);
        compare(&t, &params_with(json!({}), more.clone()), &format!("{rows} x {features}: {more}"));
    }
    contract::many_borders(|t, p, missing| compare(t, p, &format!("255 borders, missing {missing}")));
}

/// Proves equal bytes where the limits of leaves bind a split for a whole level: rows and hessians, counted by hessians that
/// are 1 and apart, few nodes and many, trees that grow ahead of the host and that don't.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn limits_of_a_level() {
    gpu();
    for (case, (rows, features, loss, more)) in [
        (20_000, 6, "rmse", json!({ "min_data_in_leaf": 40 })),
        (20_000, 6, "logloss", json!({ "min_data_in_leaf": 40, "depth": 9 })),
        (20_000, 6, "logloss", json!({ "min_child_weight": 5 })),
        (20_000, 70, "rmse", json!({ "min_child_weight": 60, "l1": 0.5 })),
        (20_000, 40, "poisson", json!({ "min_child_weight": 10, "min_data_in_leaf": 100, "depth": 8 })),
        (5_000, 6, "rmse", json!({ "min_data_in_leaf": 20, "bins": 4 })),
        (5_000, 6, "rmse", json!({ "min_data_in_leaf": 20, "bins": 21, "monotone": { "x0": 1 } })),
        (5_000, 6, "mae", json!({ "min_data_in_leaf": 20, "row_sample": "bernoulli" })),
        (5_000, 6, "multiclass", json!({ "min_child_weight": 4, "row_sample": "mvs", "feature_fraction_level": 0.5 })),
        (400, 6, "rmse", json!({ "min_data_in_leaf": 10 })),
        (400, 6, "rmse", json!({ "min_child_weight": 10 })),
        (30, 6, "rmse", json!({ "min_data_in_leaf": 16 })),
    ]
    .into_iter()
    .enumerate()
    {
        let mut t = table(rows, features, loss, case as u64);
        t.weight = (case % 5 == 3).then(|| (0..rows).map(|i| 0.5 + (i % 4) as f64).collect());
        let p = params_with(json!({ "loss": loss, "policy": "symmetric", "rounds": 6 }), more.clone());
        compare(&t, &p, &format!("{rows} rows of {features}, {loss}: {more}"));
    }
}

/// Proves equal bytes for small tables, which the CPU searches without histograms.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn small_tables() {
    gpu();
    contract::small_tables(|t, p, case| compare(t, &p, &format!("case {case}: {p:?}")));
    for rows in [2, 3, 5, 17, 33] {
        for policy in ["symmetric", "depthwise", "leafwise"] {
            let t = table(rows, 4, "rmse", rows as u64);
            compare(
                &t,
                &params(json!({ "rounds": 4, "policy": policy, "min_child_weight": 0, "l2": 0.0 })),
                &format!("{rows} rows, {policy}"),
            );
        }
    }
}

/// Proves equal bytes where statistics are wide: a target with an outlier, under constant hessians,
/// weights and counts.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn wide_statistics() {
    gpu();
    for policy in ["symmetric", "depthwise", "leafwise"] {
        for (weighted, min_data) in [(false, 0), (true, 0), (false, 20), (true, 20)] {
            let mut t = table(40_000, 6, "rmse", 5);
            let Wanted::Numbers(y) = &mut t.target else { unreachable!() };
            y[12_345] = 1e9;
            let mut dice = Dice::new(6);
            t.weight = weighted.then(|| (0..40_000).map(|i| if i == 999 { 1e6 } else { dice.unit() }).collect());
            let p = params(json!({ "rounds": 6, "policy": policy, "min_data_in_leaf": min_data, "learning_rate": 0.8 }));
            compare(&t, &p, &format!("{policy}, weighted {weighted}, {min_data}"));
        }
    }
}

/// Proves equal bytes where the largest gradient is exactly as many times the mean as makes statistics wide, and
/// beside that: there the order of sums would count, and a tree that grew ahead of the host may be void.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn at_the_edge_of_wide_statistics() {
    gpu();
    for (rows, ones) in [(1024, 1), (1025, 1), (1023, 1), (4096, 4), (4097, 4), (8192, 9), (40_960, 40), (40_961, 40)] {
        for policy in ["symmetric", "depthwise", "leafwise"] {
            let mut t = table(rows, 5, "rmse", rows as u64);
            let Wanted::Numbers(y) = &mut t.target else { unreachable!() };
            y.iter_mut().enumerate().for_each(|(i, y)| *y = (i % (rows / ones) == 17 && i / (rows / ones) < ones) as u8 as f64);
            t.columns[0].iter_mut().enumerate().for_each(|(i, x)| *x = (i * 7 % 1013) as f64);
            let zeros = vec![0.0; rows];
            let input = Input { baseline: vec![Column::from_f64("b", &zeros)], ..t.input() };
            let p = params(json!({ "rounds": 7, "policy": policy, "learning_rate": 0.9, "min_child_weight": 0 }));
            assert_same(&both(&input, &p), &format!("{rows} rows, {ones} of them, {policy}"));
        }
    }
}

/// Proves equal bytes for columns of categories under every method: statistics under several
/// permutations, combinations found while trees grow, one-hot questions, subsets; without noise on scores and with it, and with
/// weights of features.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn categories() {
    gpu();
    let mut case = 0;
    for (cardinalities, classes) in [(vec![7, 40], 0), (vec![3, 300, 12], 2), (vec![30, 30, 5], 3)] {
        for more in [
            json!({}),
            json!({ "policy": "depthwise", "max_combination": 3, "permutations": 1 }),
            json!({ "policy": "leafwise", "max_combination": 2, "permutations": 3 }),
            json!({ "policy": "symmetric", "loss": "mae", "permutations": 2, "row_sample": "bernoulli", "row_fraction": 0.6 }),
            json!({ "policy": "depthwise", "permutations": 4, "max_combination": 1 }),
            json!({ "policy": "depthwise", "cat_method": "partition", "min_data_in_leaf": 5 }),
            json!({ "policy": "leafwise", "cat_method": "partition", "row_sample": "mvs" }),
            json!({ "one_hot_max_size": 50, "max_combination": 1 }),
        ] {
            case += 1;
            // More rows than the sample has, and fewer than a warp.
            let rows = [6000, 30, 45_000, 500, 21_000][case as usize % 5];
            let mut dice = Dice::new(case);
            let text: Vec<Vec<Option<String>>> = cardinalities
                .iter()
                .map(|k| (0..rows).map(|_| (!dice.chance(0.03)).then(|| format!("k{}", dice.below(*k) * dice.below(*k) / k))).collect())
                .collect();
            let columns: Vec<CategoryColumn> = text
                .iter()
                .enumerate()
                .map(|(i, c)| CategoryColumn::text(&format!("c{i}"), &[rows], |_, r| c[r].as_deref()).unwrap())
                .collect();
            let number: Vec<f64> = (0..rows).map(|_| dice.normal()).collect();
            let effect = |t: &Option<String>| {
                t.as_ref().map_or(0.5, |t| (t.len() * 7 + t.as_bytes()[t.len() - 1] as usize * 13) as f64 % 10.0 / 5.0 - 1.0)
            };
            let y: Vec<f64> =
                (0..rows).map(|i| text.iter().map(|c| effect(&c[i])).sum::<f64>() + 0.5 * number[i] + 0.3 * dice.normal()).collect();
            let codes: Vec<u32> = y.iter().map(|y| ((y + 1.5).max(0.0) as u32).min(classes.max(1) - 1)).collect();
            let mut features: Vec<Column<'_>> = columns.iter().map(Column::categorical).collect();
            features.push(Column::from_f64("x", &number));
            let held_out: Vec<bool> = (0..rows).map(|_| dice.chance(0.2)).collect();
            let weight: Vec<f64> = (0..rows).map(|i| 0.5 + (i % 5) as f64).collect();
            let labels = if classes == 2 { Labels::Boolean } else { Labels::Integer((0..classes as i64).collect()) };
            let input = Input {
                features,
                target: if classes > 0 { Target::Classes { codes: &codes, labels } } else { Target::Numbers(Column::from_f64("y", &y)) },
                target_name: "y".into(),
                weight: (case % 3 == 0).then(|| Column::from_f64("w", &weight)),
                baseline: vec![],
                held_out: (case % 2 == 0).then_some(&held_out[..]),
                loss_columns: Default::default(),
                evaluation: Default::default(),
                order: None,
            };
            if classes > 0 && more.get("loss").is_some() {
                continue;
            }
            let name = input.features[case as usize % input.features.len()].name().to_string();
            let weight = [0.0, 0.3, 4.0][case as usize % 3];
            for ranks in [
                json!({}),
                json!({ "random_strength": 0.5 + (case % 3) as f64, "extra_trees": case % 4 == 1 }),
                json!({ "feature_weights": { name: weight }, "random_strength": (case % 2) as f64 }),
            ] {
                let p = params_with(json!({ "rounds": 6, "depth": 5, "seed": case, "learning_rate": 0.3 }), more.clone());
                let p = params_with(p.to_json(), ranks.clone());
                assert_same(&both(&input, &p), &format!("{cardinalities:?}, {classes} classes: {more}, {ranks}"));
            }
        }
    }
}

/// A few small fits that touch every kernel: what `compute-sanitizer` is run on.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn every_kernel_once() {
    gpu();
    for (loss, features, more) in [
        ("logloss", 6, json!({ "policy": "depthwise" })),
        ("rmse", 6, json!({ "policy": "symmetric", "min_data_in_leaf": 5 })),
        ("multiclass", 40, json!({ "policy": "leafwise", "row_sample": "goss" })),
        ("quantile", 6, json!({ "policy": "symmetric", "feature_fraction": 0.7, "row_sample": "bernoulli", "row_fraction": 0.5 })),
        ("quantile", 6, json!({ "policy": "symmetric", "alpha": [0.1, 0.5, 0.9] })),
        ("mape", 6, json!({ "policy": "leafwise" })),
        ("expectile", 6, json!({ "policy": "symmetric", "alpha": 0.9 })),
        ("log_cosh", 6, json!({ "policy": "depthwise" })),
        ("focal", 6, json!({ "policy": "symmetric", "focal_alpha": 0.25 })),
        ("ova", 6, json!({ "policy": "leafwise" })),
        ("gaussian", 6, json!({ "policy": "symmetric" })),
        ("lambdarank", 6, json!({ "policy": "depthwise" })),
        ("pairwise", 6, json!({ "policy": "symmetric", "rank_truncation": 9 })),
        ("xendcg", 6, json!({ "policy": "symmetric" })),
        ("yetirank", 6, json!({ "policy": "leafwise" })),
    ] {
        let mut t = table(3000, features, loss, 21);
        t.positions = (loss == "lambdarank").then(|| (0..3000).map(|i| i % 9).collect());
        t.held_out = (features == 40).then(|| (0..3000).map(|i| i % 5 == 0).collect());
        compare(&t, &params_with(json!({ "loss": loss, "rounds": 2, "depth": 4 }), more.clone()), &format!("{loss}: {more}"));
    }
    let mut t = table(3000, 4, "rmse", 22);
    let Wanted::Numbers(y) = &mut t.target else { unreachable!() };
    y[1234] = 1e9;
    t.weight = Some((0..3000).map(|i| 1.0 + (i % 3) as f64).collect());
    compare(&t, &params(json!({ "rounds": 2, "depth": 3, "policy": "depthwise", "min_data_in_leaf": 3 })), "wide");
    let mut t = table(3000, 4, "rmse", 23);
    t.weight = Some((0..3000).map(|i| 0.1 + (i % 7) as f64).collect());
    compare(&t, &params(json!({ "rounds": 4, "depth": 3, "loss": "mae" })), "weighted quantiles");
    let mut dice = Dice::new(24);
    let levels: Vec<[usize; 2]> = (0..3000).map(|_| [dice.below(20) as usize, dice.below(20) as usize]).collect();
    let flag = |f: usize| levels.iter().map(|l| (l[f / 20] == f % 20) as u8 as f64).collect();
    let t = Table::numbers((0..40).map(flag).collect(), levels.iter().map(|l| (l[0] * 7 % 11 + l[1]) as f64).collect());
    for policy in ["symmetric", "depthwise"] {
        compare(&t, &params(json!({ "rounds": 4, "depth": 3, "policy": policy })), "flags");
    }
}

/// Proves equal bytes of losses by group: groups of one row to all rows, rows that stand side by side and not, weights, equal scores,
/// gains from tiny to the largest, positions, statistics of categories under several permutations, and trees that are queued ahead.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn groups_of_rows() {
    gpu();
    for (case, loss) in contract::RANKING.into_iter().cycle().take(24).enumerate() {
        let rows = [3000, 20_000, 500, 6000, 70_000, 40][case / 4];
        let mut t = table(rows, 6, loss, 50 + case as u64);
        let mut dice = Dice::new(case as u64);
        t.groups = match case / 4 {
            0 => Some(vec![3; rows]),
            1 => Some((0..rows).map(|i| (i / 120) as u32).collect()),
            2 => Some((0..rows).map(|i| i as u32).collect()),
            3 => Some((0..rows).map(|i| (i / (1 + i % 700)) as u32).collect()),
            _ => t.groups,
        };
        t.weight = (case % 3 == 0).then(|| (0..rows).map(|_| (dice.unit() * 20.0 - 10.0).exp2()).collect());
        if case % 5 == 0 {
            let Wanted::Numbers(y) = &mut t.target else { unreachable!() };
            y.iter_mut().for_each(|y| *y = if dice.chance(0.1) { 30.0 } else { 0.0 });
        }
        // Some with fewer rows in a position than a block of sums has, some with many more.
        t.positions = [None, Some(3), Some(97)][case % 3].map(|n| (0..rows).map(|i| (i * 7 % n) as u32).collect());
        let policy = ["symmetric", "depthwise", "leafwise"][case / 2 % 3];
        let more = [json!({}), json!({ "rank_truncation": 5, "rank_decay": 0.5 }), json!({ "rank_normalize": false, "rank_orders": 3 })];
        let p = json!({ "loss": loss, "policy": policy, "rounds": 8, "depth": 5, "min_child_weight": 0, "l2": 0.1, "seed": case });
        compare(&t, &params_with(p, more[case / 4 % 3].clone()), &format!("{loss}, {rows} rows, case {case}"));
    }
    let rows = 9000;
    for loss in contract::RANKING {
        let mut dice = Dice::new(77);
        let text: Vec<String> = (0..rows).map(|_| format!("k{}", dice.below(60))).collect();
        let column = CategoryColumn::text("c", &[rows], |_, r| Some(text[r].as_str())).unwrap();
        let mut t = table(rows, 3, loss, 78);
        t.positions = Some((0..rows).map(|i| (i % 11) as u32).collect());
        let mut features = t.features();
        features.push(Column::categorical(&column));
        let p = params(json!({ "loss": loss, "rounds": 6, "depth": 4, "permutations": 3 }));
        assert_same(&both(&Input { features, ..t.input() }, &p), &format!("{loss} with categories"));
    }
}

/// Proves equal curves of the training rows and of several metrics, with held-out rows and without, of one output and of several, on
/// trees that grow whole on the device.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn measured_training_rows() {
    gpu();
    for (case, (loss, metrics)) in [("rmse", json!(["rmse", "mae"])), ("multiclass", json!(["multiclass", "f1"]))].into_iter().enumerate() {
        for held_out in [false, true] {
            for policy in ["symmetric", "depthwise", "leafwise"] {
                let mut t = table(3_000, 6, loss, case as u64);
                t.held_out = held_out.then(|| (0..3_000).map(|i| i % 5 == 2).collect());
                let p = json!({ "loss": loss, "metric": metrics, "eval_train": true, "rounds": 6, "policy": policy });
                compare(&t, &params(p), &format!("{loss}, held out {held_out}, {policy}"));
            }
        }
    }
}

/// Proves equal bytes, and equal errors, of fits drawn at random; `TAIGA_RANDOM_FITS` says how many.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn random_fits() {
    gpu();
    let (cases, mut fitted) = (random_fits::cases(150), 0);
    for case in 0..cases {
        let mut drawn = RandomFit::new(case);
        if case % 4 == 3 {
            drawn.params = drawn.with_dropouts(case);
        }
        let input = drawn.input(Column::from_f64);
        let on = |device: &str| drawn.fit(&input, &BoostingParams { device: device.into(), ..drawn.params.clone() });
        let (cpu, cuda) = (on("cpu"), on("cuda"));
        assert!(cpu == cuda, "case {case}: {:?} {:?}; {:?}", cpu.err(), cuda.err(), drawn.params);
        fitted += u64::from(cpu.is_ok());
    }
    say(&format!("{fitted} of {cases} random fits gave models"));
}

/// Proves equal bytes of losses of times: one stratum and many, ties across blocks, weights, held-out rows, draws, baselines far apart, all
/// distributions and kinds of censoring, statistics of categories under several permutations, and trees that are queued ahead.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn times_of_events() {
    gpu();
    for case in 0..36 {
        let loss = ["cox", "cox", "aft"][case % 3];
        let rows = [3000, 20_000, 500, 70_000, 40, 300_000][case / 6];
        let mut t = table(rows, 6, loss, 90 + case as u64);
        let mut dice = Dice::new(case as u64);
        t.weight = (case % 4 == 0).then(|| (0..rows).map(|_| (dice.unit() * 20.0 - 10.0).exp2()).collect());
        t.held_out = (case % 5 == 1).then(|| (0..rows).map(|_| dice.chance(0.2)).collect());
        t.groups = match case % 7 {
            1 => Some((0..rows).map(|i| (i / 3) as u32).collect()),
            2 => Some((0..rows).map(|i| (i % 2) as u32).collect()),
            4 => Some((0..rows).map(|i| (i / (1 + i % 700)) as u32).collect()),
            _ => None,
        };
        if case % 8 == 3 {
            // One time for all, or a time for each row.
            let Wanted::Numbers(y) = &mut t.target else { unreachable!() };
            y.iter_mut().for_each(|y| *y = if case % 16 == 3 { 5.0 } else { dice.unit() + 0.001 });
            t.upper = Some(y.iter().map(|y| if dice.chance(0.3) { f64::INFINITY } else { *y }).collect());
        }
        if case % 9 == 4 {
            t.baseline = vec![(0..rows).map(|_| 200.0 * dice.unit()).collect()];
        }
        let policy = ["symmetric", "depthwise", "leafwise"][case % 3];
        let sample = ["none", "goss", "mvs", "bernoulli"][case / 3 % 4];
        let mut p =
            json!({ "loss": loss, "policy": policy, "rounds": 8, "min_child_weight": 0, "l2": 0.1, "seed": case, "row_sample": sample });
        if policy != "leafwise" {
            p["depth"] = json!(5);
        }
        if loss == "aft" {
            (p["aft_distribution"], p["aft_scale"]) =
                (json!(["normal", "logistic", "extreme"][case / 3 % 3]), json!(0.3 + 0.2 * (case % 4) as f64));
        }
        compare(&t, &params(p), &format!("{loss}, {rows} rows, case {case}"));
    }
    let rows = 9000;
    for loss in ["cox", "aft"] {
        let mut dice = Dice::new(77);
        let text: Vec<String> = (0..rows).map(|_| format!("k{}", dice.below(60))).collect();
        let column = CategoryColumn::text("c", &[rows], |_, r| Some(text[r].as_str())).unwrap();
        let t = table(rows, 3, loss, 78);
        let mut features = t.features();
        features.push(Column::categorical(&column));
        let p = params(json!({ "loss": loss, "rounds": 6, "depth": 4, "permutations": 3 }));
        assert_same(&both(&Input { features, ..t.input() }, &p), &format!("{loss} with categories"));
    }
}

/// Prints the time of a fit of a million rows on a GPU.
#[test]
#[ignore = "prints times; asserts nothing"]
fn times_of_survival_fits() {
    gpu();
    for (loss, rows) in [("rmse", 1_000_000), ("cox", 1_000_000), ("aft", 1_000_000), ("rmse", 10_000_000), ("cox", 10_000_000)] {
        let mut t = table(rows, 28, loss, 1);
        if loss == "cox" {
            let mut dice = Dice::new(1);
            let Wanted::Numbers(y) = &mut t.target else { unreachable!() };
            y.iter_mut().for_each(|y| *y += dice.unit());
            t.upper = Some(y.iter().map(|y| if dice.chance(0.3) { f64::INFINITY } else { *y }).collect());
        }
        for device in ["cuda", "cuda", "cpu"] {
            let p = params(json!({ "loss": loss, "rounds": 100, "device": device, "policy": "depthwise" }));
            let start = std::time::Instant::now();
            t.fit(&p);
            println!("{loss} {rows} rows {device}: {:.3} s", start.elapsed().as_secs_f64());
        }
    }
}

/// Proves that fits that share the GPU at the same time give the bytes that each gives alone.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn several_fits_at_once() {
    gpu();
    let t = table(30_000, 8, "logloss", 31);
    let all: Vec<BoostingParams> = ["symmetric", "depthwise", "leafwise"]
        .into_iter()
        .flat_map(|policy| (0..3).map(move |seed| params(json!({ "loss": "logloss", "policy": policy, "rounds": 12, "seed": seed }))))
        .collect();
    let expected: Vec<Vec<u8>> = all.iter().map(|p| t.fit(p).to_bytes()).collect();
    std::thread::scope(|scope| {
        for (p, expected) in all.iter().zip(&expected) {
            let t = &t;
            scope.spawn(move || {
                for _ in 0..3 {
                    let p = BoostingParams { device: "cuda".into(), ..p.clone() };
                    let model = fit(&t.input(), &p, &Quiet).unwrap_or_else(|e| panic!("{e}; {p:?}"));
                    assert!(model.to_bytes() == *expected, "{p:?}");
                }
            });
        }
    });
}

/// Proves equal bytes from the types of columns that the CPU reads: f32, integers behind bitmaps.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn types_of_columns() {
    gpu();
    let t = table(20_000, 6, "logloss", 8);
    let single: Vec<Vec<f32>> = t.columns.iter().map(|c| c.iter().map(|x| *x as f32).collect()).collect();
    let whole: Vec<i32> = t.columns[1].iter().map(|x| if x.is_nan() { 7 } else { *x as i32 }).collect();
    let mut valid = vec![0u8; 20_003usize.div_ceil(8)];
    t.columns[1].iter().enumerate().filter(|(_, x)| !x.is_nan()).for_each(|(i, _)| valid[(i + 3) / 8] |= 1 << ((i + 3) % 8));
    let mut features: Vec<Column<'_>> = single.iter().enumerate().map(|(i, c)| Column::from_f32(format!("x{i}"), c)).collect();
    features[1] = Column::new("x1", FeatureType::Numeric, vec![Chunk::new(Values::I32(&whole), Some(Bits::new(&valid, 3, 20_000)))]);
    let p = params(json!({ "rounds": 5, "policy": "depthwise" }));
    let models = both(&Input { features, ..t.input() }, &p);
    assert_same(&models, "f32 and integers");
    assert!(models.0 == t.fit(&p));
}

/// Proves equal bytes for millions of rows. `TAIGA_CUDA_ROWS` says how many; 2,000,000 unless told.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn many_rows() {
    gpu();
    let rows: usize = std::env::var("TAIGA_CUDA_ROWS").ok().and_then(|r| r.parse().ok()).unwrap_or(2_000_000);
    let mut dice = Dice::new(12);
    let features = 28;
    // Columns are windows of one vector, so that the test needs little memory.
    let noise: Vec<f32> = (0..rows + 4 * features).map(|_| dice.unit() as f32).collect();
    let codes: Vec<u32> = (0..rows).map(|i| (noise[i] * noise[i + 12] + 0.3 * noise[i + 40] * dice.unit() as f32 > 0.35) as u32).collect();
    let input = Input {
        features: (0..features).map(|f| Column::from_f32(format!("x{f}"), &noise[4 * f..4 * f + rows])).collect(),
        target: Target::Classes { codes: &codes, labels: Labels::Boolean },
        target_name: "y".into(),
        weight: None,
        baseline: vec![],
        held_out: None,
        loss_columns: Default::default(),
        evaluation: Default::default(),
        order: None,
    };
    for policy in ["symmetric", "depthwise", "leafwise"] {
        let p = params(json!({ "rounds": 3, "policy": policy }));
        assert_same(&both(&input, &p), &format!("{rows} rows, {policy}"));
        say(&format!("{rows} rows, {policy}: equal bytes"));
    }
}
