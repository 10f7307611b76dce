//! Weights, targets and draws of any size on the GPU: the models of the CPU, byte for byte.

use serde_json::json;
use taiga_engine::learners::forest::Forest;
use taiga_testing::contract::table;
use taiga_testing::devices::compare;
use taiga_testing::{Dice, Table, Wanted, params, params_with};

/// A table with weights of which some are 0, times a factor.
fn weighted(rows: usize, loss: &str, factor: f64, seed: u64) -> Table {
    let mut t = table(rows, 6, loss, seed);
    let mut dice = Dice::new(seed);
    t.weight = Some((0..rows).map(|_| if dice.chance(0.3) { 0.0 } else { factor * (0.1 + dice.unit()) }).collect());
    t
}

/// Proves equal bytes under every way to draw rows, for weights from 1e-300 to 1e300 and for targets whose derivatives' squares
/// leave f32.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn weights_and_targets_of_any_size() {
    for (case, sampler) in ["none", "bernoulli", "goss", "mvs"].into_iter().enumerate() {
        for factor in [1e-300, 1e-25, 1.0, 1e20, 1e300] {
            for (loss, policy) in [("rmse", "symmetric"), ("logloss", "depthwise"), ("mae", "leafwise")] {
                let data = if loss == "mae" { "rmse" } else { loss };
                let mut t = weighted(20_000, data, factor, case as u64);
                t.held_out = (case % 2 == 1).then(|| (0..20_000).map(|i| i % 5 == 2).collect());
                let p = params(json!({ "loss": loss, "policy": policy, "row_sample": sampler, "rounds": 5, "l2": 0 }));
                compare(&t, &p, &format!("{sampler}, {loss}, {policy}, weights of {factor:e}"));
            }
        }
        for factor in [1e-30, 1e-25, 1e20, 1e28] {
            for loss in ["poisson", "gamma", "tweedie"] {
                let mut t = table(20_000, 6, "rmse", 40 + case as u64);
                let Wanted::Numbers(y) = &mut t.target else { unreachable!() };
                y.iter_mut().for_each(|y| *y = factor * (y.abs() + 0.1).min(50.0));
                let base = json!({ "loss": loss, "row_sample": sampler, "rounds": 5, "min_child_weight": 0 });
                for more in [json!({ "l2": 0 }), json!({ "l2": 1e30, "policy": "depthwise" })] {
                    compare(&t, &params_with(base.clone(), more.clone()), &format!("{sampler}, {loss}, targets of {factor:e}: {more}"));
                }
            }
        }
    }
}

/// Proves equal bytes of forests for weights, class weights and targets far outside of f32, and for gains in units.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn forests_of_any_size() {
    let on = |device: &str, table: &Table, base: &serde_json::Value| -> Forest {
        let mut base = base.clone();
        base["device"] = json!(device);
        taiga_testing::forest::grow(table, &taiga_testing::forest::params(base))
    };
    for (case, splitter) in ["histogram", "exact", "random"].into_iter().enumerate() {
        for (weight, unit) in [(1e-30, 1.0), (1e30, 1e20), (1.0, 1e-25), (1e300, 1e30)] {
            for criterion in ["squared_error", "poisson", "gini", "entropy"] {
                let classes = ["gini", "entropy"].contains(&criterion);
                let mut t = weighted(5_000, if classes { "logloss" } else { "rmse" }, weight, 60 + case as u64);
                if let Wanted::Numbers(y) = &mut t.target {
                    y.iter_mut().for_each(|y| *y = y.abs() * unit);
                }
                let mut base = json!({ "criterion": criterion, "splitter": splitter, "trees": 4, "permutation_importance": true });
                if classes {
                    base["class_weight"] = json!("balanced");
                }
                let (cpu, cuda) = (on("cpu", &t, &base), on("cuda", &t, &base));
                assert!(cpu.to_bytes() == cuda.to_bytes(), "{base}: weights of {weight:e}, targets of {unit:e}");
            }
        }
    }
}

/// Proves equal bytes of losses of one's own under every policy, way to draw rows and kind of target, with held-out rows and weights.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn losses_of_ones_own() {
    let formulas = [
        ("0.5 * (y - f) ** 2", "identity"),
        ("when(y > f).then(2 * (y - f) ** 2).otherwise((y - f) ** 2)", "identity"),
        ("sqrt(1 + (y - f) ** 2) - 1", "identity"),
        ("log(1 + exp(f)) - y * f / 20", "logit"),
        ("(y - exp(f)) ** 2 + f ** 2", "log"),
    ];
    for (case, (value, link)) in formulas.into_iter().enumerate() {
        for sampler in ["none", "bernoulli", "goss", "mvs"] {
            for policy in ["symmetric", "depthwise", "leafwise"] {
                let mut t = table(20_000, 6, "rmse", case as u64);
                if case % 2 == 1 {
                    t = weighted(20_000, "rmse", 1.0, case as u64);
                    t.held_out = Some((0..20_000).map(|i| i % 5 == 2).collect());
                }
                let own = json!({ "value": value, "link": link });
                let p = json!({ "loss": "custom", "custom_loss": own, "policy": policy, "row_sample": sampler, "rounds": 6 });
                compare(&t, &params(p), &format!("{value}, {sampler}, {policy}"));
            }
        }
    }
}
