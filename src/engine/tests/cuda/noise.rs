//! `random_strength`: splits that are compared with noise on their scores. The models are the CPU's, byte for byte.

use crate::ranked::{of_several_outputs, partly_sparse, print_times, twice};
use serde_json::json;
use taiga_engine::dataset::Quiet;
use taiga_engine::learners::boosting::fit;
use taiga_testing::contract::table;
use taiga_testing::devices::{both, compare};
use taiga_testing::gpu::gpu;
use taiga_testing::{Dice, POLICIES, params, params_with};

/// Fits with noise of several strengths: hardly any, some, and so much that features are chosen by nothing else.
const STRENGTHS: [f64; 4] = [1e-9, 0.4, 3.0, 1e9];

/// Proves equal bytes under every policy with what else chooses splits: shares of features, borders drawn at random, limits, constraints, rows that
/// are drawn, weights; and that there is noise at all.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn noise_on_scores_is_the_cpus() {
    gpu();
    for (case, more) in [
        json!({}),
        json!({ "extra_trees": true }),
        json!({ "extra_trees": true, "bins": 20, "feature_fraction": 0.6 }),
        json!({ "feature_fraction": 0.7, "feature_fraction_level": 0.6 }),
        json!({ "bins": 2 }),
        json!({ "bins": 4, "min_gain": 0.5 }),
        json!({ "bins": 33, "min_data_in_leaf": 20 }),
        json!({ "monotone": { "x0": 1 }, "path_smooth": 5.0 }),
        json!({ "row_sample": "goss", "l1": 0.3 }),
        json!({ "row_sample": "mvs", "interaction": [["x0", "x1"], ["x2", "x3", "x4"]] }),
        json!({ "row_sample": "bayesian", "max_delta_step": 0.3, "l2": 0.0 }),
        json!({ "depth": 9, "min_child_weight": 0.0 }),
    ]
    .into_iter()
    .enumerate()
    {
        for (rows, loss) in [(2, "rmse"), (300, "rmse"), (20_000, "rmse"), (20_000, "logloss"), (1025, "mae")] {
            for policy in POLICIES {
                let mut t = twice(rows, 6, loss, case as u64);
                t.weight = (case % 3 == 1).then(|| (0..rows).map(|i| 0.5 + (i % 5) as f64).collect());
                let strength = STRENGTHS[case % 4];
                let base = json!({ "loss": loss, "policy": policy, "rounds": 4, "seed": case, "random_strength": strength });
                compare(&t, &params_with(base.clone(), more.clone()), &format!("{rows} rows, {base}, {more}"));
            }
        }
    }
    let t = table(2_000, 4, "rmse", 1);
    let on = |device: &str, strength: f64| {
        let p = params(json!({ "random_strength": strength, "rounds": 3, "device": device }));
        fit(&t.input(), &p, &Quiet).expect("a fit")
    };
    assert!(on("auto", 5.0).to_bytes() == on("cpu", 5.0).to_bytes());
    assert!(on("cuda", 5.0).trees != on("cuda", 0.0).trees);
}

/// Proves equal bytes for few features and many, of few nodes and many, so that every way to search is taken: a block a feature, some lanes, a
/// warp; shared columns and lists of sparse features.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn noise_however_features_are_searched() {
    gpu();
    for (case, (rows, features, more)) in [
        (8_000, 1, json!({})),
        (8_000, 70, json!({ "depth": 5 })),
        (8_000, 70, json!({ "bins": 4, "depth": 5 })),
        (8_000, 70, json!({ "bins": 32, "depth": 5 })),
        (3_000, 400, json!({ "depth": 7 })),
        (3_000, 400, json!({ "bins": 16, "depth": 7 })),
        (260_000, 5, json!({ "depth": 6 })),
    ]
    .into_iter()
    .enumerate()
    {
        for policy in POLICIES {
            let t = twice(rows, features, "logloss", 7);
            let base = json!({ "loss": "logloss", "rounds": 2, "policy": policy, "random_strength": STRENGTHS[case % 4] });
            compare(&t, &params_with(base, more.clone()), &format!("{rows} x {features}, {policy}, {more}"));
        }
    }
    for (case, policy) in (0..4).flat_map(|case| POLICIES.map(|policy| (case, policy))) {
        let t = partly_sparse(case);
        let p = params(json!({ "rounds": 3, "policy": policy, "random_strength": STRENGTHS[case as usize], "extra_trees": case == 2 }));
        compare(&t, &p, &format!("sparse {case}, {policy}"));
    }
}

/// Proves equal bytes of several outputs, which have a tree each or share one, of scores and of targets.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn noise_with_several_outputs() {
    gpu();
    for (case, more) in [
        json!({}),
        json!({ "extra_trees": true }),
        json!({ "feature_fraction_level": 0.6, "row_sample": "goss" }),
        json!({ "min_data_in_leaf": 12, "row_sample": "mvs" }),
        json!({ "bins": 20, "l2": 0.0, "min_child_weight": 0.0 }),
    ]
    .into_iter()
    .enumerate()
    {
        for (rows, policy) in [700, 12_000].into_iter().flat_map(|rows| POLICIES.map(|policy| (rows, policy))) {
            let [classes, several] = of_several_outputs(rows, case as u64);
            for strategy in ["one_tree", "tree_each"] {
                let base = json!({ "policy": policy, "rounds": 3, "seed": case, "multi_strategy": strategy, "random_strength": STRENGTHS[case % 4] });
                let p = params_with(base, more.clone());
                compare(&classes, &p, &format!("classes, {strategy}, {rows} rows, {policy}, {more}"));
                compare(&several, &p, &format!("targets, {strategy}, {rows} rows, {policy}, {more}"));
            }
        }
    }
}

/// Proves equal bytes where the derivatives of rows lie so far apart that their sums are no longer exact: noise is in units of these.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn noise_in_units_of_far_apart_derivatives() {
    gpu();
    for rows in [1, 31, 1023, 1024, 1025, 33_000, 70_001] {
        for (case, policy) in POLICIES.into_iter().enumerate() {
            let mut t = table(rows.max(2), 4, "rmse", rows as u64);
            let mut dice = Dice::new(rows as u64);
            t.weight = Some((0..t.rows()).map(|_| (dice.unit() * 50.0 - 25.0).exp2()).collect());
            let sample = ["none", "bernoulli", "mvs"][case];
            let p = params(json!({ "rounds": 4, "policy": policy, "random_strength": 0.8, "row_sample": sample }));
            let (cpu, cuda) = both(&t.input(), &p);
            assert!(cpu.to_bytes() == cuda.to_bytes(), "{rows} rows, {policy}");
        }
    }
}

/// Prints how long fits with noise and with dropouts take beside plain ones, on each device, where `TAIGA_TIMING` asks for it.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn timing_of_noise_and_dropouts() {
    print_times([json!({}), json!({ "random_strength": 1.0 }), json!({ "boosting": "dart" })]);
}
