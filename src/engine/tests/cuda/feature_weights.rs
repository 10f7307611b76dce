//! `feature_weights`: splits that are compared by weighted gains. The models are the CPU's, byte for byte.

use serde_json::{Value, json};
use std::time::Instant;
use taiga_engine::dataset::Quiet;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::learners::boosting::fit;
use taiga_testing::contract::table;
use taiga_testing::devices::compare;
use taiga_testing::gpu::{gpu, say};
use taiga_testing::{Dice, POLICIES, Table, Wanted, params, params_with};

/// A table with columns that stand in it twice, which tie where they have the same weight.
fn twice(rows: usize, features: usize, loss: &str, seed: u64) -> Table {
    let mut t = table(rows, features, loss, seed);
    let copies: Vec<Vec<f64>> = t.columns.iter().step_by(2).cloned().collect();
    t.columns.extend(copies);
    t
}

/// Draws weights of most columns: none of two of them the same, or few different ones.
fn weights(columns: usize, seed: u64) -> Value {
    let mut dice = Dice::new(seed);
    let mut weights = json!({});
    for i in 0..columns {
        if dice.chance(0.8) {
            let few = [0.0, 0.01, 0.5, 1.0, 1.3][dice.below(5) as usize];
            weights[format!("x{i}")] = json!(if seed.is_multiple_of(2) { few } else { (6.0 * dice.unit() - 3.0).exp() });
        }
    }
    weights["x0"] = json!(0.6);
    weights
}

/// Proves equal bytes under every policy with what else chooses splits: noise, shares of features, borders drawn at random, limits, constraints,
/// rows that are drawn.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn weights_of_features_are_the_cpus() {
    gpu();
    for (case, more) in [
        json!({}),
        json!({ "random_strength": 0.6 }),
        json!({ "extra_trees": true, "bins": 20, "feature_fraction": 0.6 }),
        json!({ "random_strength": 3.0, "feature_fraction": 0.7, "feature_fraction_level": 0.6 }),
        json!({ "bins": 4, "min_gain": 0.5 }),
        json!({ "bins": 33, "min_data_in_leaf": 20 }),
        json!({ "monotone": { "x0": 1 }, "path_smooth": 5.0 }),
        json!({ "row_sample": "mvs", "interaction": [["x0", "x1"], ["x2", "x3", "x4"]] }),
        json!({ "depth": 9, "min_child_weight": 0.0, "l2": 0.0 }),
    ]
    .into_iter()
    .enumerate()
    {
        for (rows, loss) in [(2, "rmse"), (300, "rmse"), (20_000, "logloss"), (1025, "mae")] {
            for policy in POLICIES {
                let t = twice(rows, 6, loss, case as u64);
                let weights = weights(t.columns.len(), case as u64);
                let base = json!({ "loss": loss, "policy": policy, "rounds": 4, "seed": case, "feature_weights": weights });
                compare(&t, &params_with(base.clone(), more.clone()), &format!("{rows} rows, {base}, {more}"));
            }
        }
    }
}

/// Proves equal bytes for few features and many, of few nodes and many, so that every way to search is taken: a block a feature, some lanes, a
/// warp; shared columns and lists of sparse features.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn weights_however_features_are_searched() {
    gpu();
    for (case, (rows, features, more)) in [
        (8_000, 70, json!({ "depth": 5 })),
        (8_000, 70, json!({ "bins": 4, "depth": 5 })),
        (8_000, 70, json!({ "bins": 32, "depth": 5 })),
        (3_000, 400, json!({ "depth": 7 })),
        (260_000, 5, json!({ "depth": 6, "random_strength": 1.0 })),
    ]
    .into_iter()
    .enumerate()
    {
        for policy in POLICIES {
            let t = twice(rows, features, "logloss", 7);
            let weights = weights(t.columns.len(), case as u64);
            let base = json!({ "loss": "logloss", "rounds": 2, "policy": policy, "feature_weights": weights });
            compare(&t, &params_with(base, more.clone()), &format!("{rows} x {features}, {policy}, {more}"));
        }
    }
    for (case, policy) in (0..3).flat_map(|case| POLICIES.map(|policy| (case, policy))) {
        let mut t = table(6_000, 4, "rmse", 3);
        let mut dice = Dice::new(case);
        // Some exclude each other, some do not.
        let mut sparse =
            |share: f64| -> Vec<f64> { (0..6_000).map(|_| if dice.chance(share) { 1.0 + dice.below(3) as f64 } else { 0.0 }).collect() };
        t.columns.extend((0..60).map(|_| sparse(0.012)));
        t.columns.extend((0..20).map(|k| (0..6_000).map(|i| (i % 20 == k) as u8 as f64).collect::<Vec<f64>>()));
        let weights = weights(t.columns.len(), case);
        let p = params(json!({ "rounds": 3, "policy": policy, "feature_weights": weights, "extra_trees": case == 2 }));
        compare(&t, &p, &format!("sparse {case}, {policy}"));
    }
}

/// Proves equal bytes of several outputs, which have a tree each or share one, of scores and of targets.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn weights_with_several_outputs() {
    gpu();
    for (case, more) in
        [json!({}), json!({ "extra_trees": true, "random_strength": 0.5 }), json!({ "min_data_in_leaf": 12, "row_sample": "mvs" })]
            .into_iter()
            .enumerate()
    {
        for (rows, policy) in [700, 12_000].into_iter().flat_map(|rows| POLICIES.map(|policy| (rows, policy))) {
            let t = twice(rows, 5, "rmse", case as u64);
            let y = t.y();
            let codes = y.iter().map(|y| (*y * 0.7 + 2.0).clamp(0.0, 3.0) as u32).collect();
            let classes = Table::classes(t.columns.clone(), codes, Labels::Integer((0..4).collect()));
            let targets = (0..3).map(|k| (0..rows).map(|i| y[i] + 10f64.powi(k) * y[(i * 7 + k as usize) % rows]).collect()).collect();
            let several = Table { target: Wanted::Several(targets), ..twice(rows, 5, "rmse", case as u64) };
            let weights = weights(t.columns.len(), case as u64);
            for strategy in ["one_tree", "tree_each"] {
                let base = json!({ "policy": policy, "rounds": 3, "multi_strategy": strategy, "feature_weights": weights });
                let p = params_with(base, more.clone());
                compare(&classes, &p, &format!("classes, {strategy}, {rows} rows, {policy}, {more}"));
                compare(&several, &p, &format!("targets, {strategy}, {rows} rows, {policy}, {more}"));
            }
        }
    }
}

/// Prints how long fits with weights of features take beside plain ones, on each device, where `TAIGA_TIMING` asks for it.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn timing_of_feature_weights() {
    gpu();
    if std::env::var_os("TAIGA_TIMING").is_none() {
        return;
    }
    let t = table(1_000_000, 28, "logloss", 1);
    for policy in POLICIES {
        for more in [json!({}), json!({ "feature_weights": { "x0": 0 } }), json!({ "feature_weights": { "x0": 0.5 } })] {
            for device in ["cuda", "cuda", "cpu"] {
                let p = params_with(json!({ "loss": "logloss", "rounds": 100, "policy": policy, "device": device }), more.clone());
                let begun = Instant::now();
                fit(&t.input(), &p, &Quiet).expect("a fit");
                say(&format!("{policy} {more} {device}: {:.3} s", begun.elapsed().as_secs_f64()));
            }
        }
    }
}
