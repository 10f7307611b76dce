//! `feature_weights`: splits that are compared by weighted gains. The models are the CPU's, byte for byte.

use crate::ranked::{of_several_outputs, partly_sparse, print_times, twice};
use serde_json::{Value, json};
use taiga_testing::devices::compare;
use taiga_testing::gpu::gpu;
use taiga_testing::{Dice, POLICIES, params, params_with};

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
        let t = partly_sparse(case);
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
            let [classes, several] = of_several_outputs(rows, case as u64);
            let weights = weights(classes.columns.len(), case as u64);
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
    print_times([json!({}), json!({ "feature_weights": { "x0": 0 } }), json!({ "feature_weights": { "x0": 0.5 } })]);
}
