//! Tables and parameters of the contract: models are the same for any number of threads
//! (`reproducibility.rs`) and on a GPU (`cuda_trees.rs`).

use super::{Dice, Table, params, params_with};
use serde_json::json;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::learners::boosting::BoostingParams;

/// All losses, `quantile` twice: of several quantiles it is `quantiles` here.
pub const LOSSES: [&str; 23] = [
    "rmse",
    "logloss",
    "cross_entropy",
    "multiclass",
    "mae",
    "quantile",
    "huber",
    "poisson",
    "gamma",
    "tweedie",
    "expectile",
    "mape",
    "log_cosh",
    "focal",
    "ova",
    "gaussian",
    "quantiles",
    "lambdarank",
    "pairwise",
    "xendcg",
    "yetirank",
    "cox",
    "aft",
];

/// The losses that read groups of rows.
pub const RANKING: [&str; 4] = ["lambdarank", "pairwise", "xendcg", "yetirank"];

/// Groups whose rows do not stand side by side: many of about 40 rows, a large one, and some of one row.
fn groups(rows: usize, dice: &mut Dice) -> Vec<u32> {
    let number = |i: usize, dice: &mut Dice| match i % 50 {
        0 => 1_000_000 + i as u32,
        1 => 7,
        _ => dice.below(rows as u64 / 40 + 1) as u32,
    };
    (0..rows).map(|i| number(i, dice)).collect()
}

/// Whole numbers from -40 to 40 as features, some missing, and a target that any loss takes.
pub fn table(rows: usize, features: usize, loss: &str, seed: u64) -> Table {
    let mut dice = Dice::new(seed);
    let columns: Vec<Vec<f64>> = (0..features)
        .map(|f| {
            let missing = if f % 3 == 1 { 0.1 } else { 0.0 };
            (0..rows).map(|_| if dice.chance(missing) { f64::NAN } else { dice.below(81) as f64 - 40.0 }).collect()
        })
        .collect();
    let x = |f: usize, i: usize| if columns[f % features][i].is_nan() { 20.0 } else { columns[f % features][i] };
    let z: Vec<f64> = (0..rows).map(|i| x(0, i) / 20.0 + x(1, i) * x(2, i) / 800.0 + dice.normal()).collect();
    match loss {
        "logloss" | "focal" => Table::classes(columns, z.iter().map(|z| (*z > 0.0) as u32).collect(), Labels::Boolean),
        "multiclass" | "ova" => {
            let class = |z: &f64| if *z > 0.7 { 2 } else { (*z > -0.7) as u32 };
            Table::classes(columns, z.iter().map(class).collect(), Labels::Text(vec!["a".into(), "b".into(), "c".into()]))
        }
        "cross_entropy" => Table::numbers(columns, z.iter().map(|z| 1.0 / (1.0 + (-z).exp())).collect()),
        _ if RANKING.contains(&loss) => {
            let grade = |z: &f64| if loss == "pairwise" { z.abs() } else { (z + 1.0).floor().clamp(0.0, 4.0) };
            Table { groups: Some(groups(rows, &mut dice)), ..Table::numbers(columns, z.iter().map(grade).collect()) }
        }
        "cox" | "aft" => {
            // Days until then, some of which are several rows'.
            let times: Vec<f64> = z.iter().map(|z| (20.0 * (0.5 * z).exp()).ceil()).collect();
            let upper = times.iter().map(|time| match dice.below(10) {
                0..4 => f64::INFINITY,
                4 if loss == "aft" => time + 5.0,
                _ => *time,
            });
            Table { upper: Some(upper.collect()), ..Table::numbers(columns, times) }
        }
        "poisson" | "gamma" | "tweedie" => Table::numbers(columns, z.iter().map(|z| (0.5 * z).exp()).collect()),
        _ => Table::numbers(columns, z),
    }
}

/// Calls `visit` with every policy, loss and way to draw rows, with feature fractions, weights,
/// constraints, held-out rows and early stopping dealt out over the combinations; `rows` rows of six
/// features, and the number of the case.
pub fn combinations(rows: usize, mut visit: impl FnMut(&Table, BoostingParams, u64)) {
    let mut case = 0;
    for loss in LOSSES {
        let mut plain = table(rows, 6, loss, 1);
        let mut dice = Dice::new(2);
        let weight: Vec<f64> = (0..plain.rows()).map(|_| 0.1 + dice.unit()).collect();
        let mut held_out: Vec<bool> = (0..plain.rows()).map(|_| dice.chance(0.2)).collect();
        if let Some(groups) = &plain.groups {
            held_out = groups.iter().map(|group| group % 5 == 0).collect();
        }
        for policy in ["symmetric", "depthwise", "leafwise"] {
            for sample in ["none", "bernoulli", "goss", "mvs", "bayesian"] {
                case += 1;
                let mut p =
                    json!({ "loss": loss, "policy": policy, "row_sample": sample, "rounds": 3, "seed": case, "learning_rate": 0.3 });
                p["depth"] = json!(4);
                if loss == "quantiles" {
                    (p["loss"], p["alpha"]) = (json!("quantile"), json!([0.1, 0.5, 0.9]));
                }
                if case % 2 == 0 {
                    p["feature_fraction"] = json!(0.7);
                    p["feature_fraction_level"] = json!(0.8);
                    p["feature_fraction_node"] = json!(if policy == "symmetric" { 1.0 } else { 0.6 });
                }
                if case % 3 == 0 {
                    p["min_data_in_leaf"] = json!(50);
                    p["monotone"] = json!({ "x0": 1 });
                }
                if case % 7 < 3 {
                    p["early_stopping"] = json!(2);
                    p["rounds"] = json!(5);
                }
                if case % 5 == 3 {
                    p["max_delta_step"] = json!(0.2);
                }
                if case % 4 == 3 {
                    p["extra_trees"] = json!(true);
                }
                if case % 5 == 1 {
                    p["path_smooth"] = json!(20);
                }
                if case % 11 == 0 {
                    p["interaction"] = json!([["x0", "x1"], ["x2", "x3", "x4"]]);
                }
                plain.held_out = (case % 7 < 3).then(|| held_out.clone());
                let of_row = |i: usize| (i % 10) as u32;
                plain.positions = (plain.groups.is_some() && case % 2 == 1).then(|| (0..rows).map(of_row).collect());
                plain.weight = (case % 5 < 2).then(|| weight.clone());
                visit(&plain, params(p), case);
            }
        }
    }
}

/// Calls `visit` with tables so small that they are searched by sorted rows, and the number of the case: one thread has lists of those of 500
/// rows, and walks through the others; two threads walk through features of their own.
pub fn small_tables(mut visit: impl FnMut(&Table, BoostingParams, u64)) {
    let mut case = 0;
    for loss in ["rmse", "logloss", "multiclass", "quantile"] {
        for policy in ["symmetric", "depthwise", "leafwise"] {
            for more in [
                json!({}),
                json!({ "min_child_weight": 0, "l2": 0.1, "bins": 21, "row_sample": "bernoulli" }),
                json!({ "l1": 0.3, "min_data_in_leaf": 7, "row_sample": "mvs", "min_gain": 0.01 }),
                json!({ "monotone": { "x0": 1, "x1": -1 }, "feature_fraction_level": 0.5, "min_child_weight": 0.2 }),
                json!({ "interaction": [["x0", "x1"], ["x1", "x2", "x130"]], "feature_fraction": 0.8, "bins": 2 }),
                json!({ "max_delta_step": 0.1, "min_data_in_leaf": 3 }),
                json!({ "path_smooth": 4.5, "monotone": { "x0": 1 } }),
                json!({ "extra_trees": true, "min_data_in_leaf": 2, "feature_fraction": 0.7 }),
            ] {
                case += 1;
                let rows = 500 + 200 * (case as usize % 2);
                let mut t = table(rows, 140, loss, case);
                let mut dice = Dice::new(case);
                t.weight = (case % 3 == 0).then(|| (0..rows).map(|_| dice.below(4) as f64).collect());
                t.held_out = (case % 4 == 0).then(|| (0..rows).map(|_| dice.chance(0.2)).collect());
                let base = json!({ "loss": loss, "policy": policy, "rounds": 2, "depth": 5, "seed": case, "learning_rate": 0.4 });
                visit(&t, params_with(base, more), case);
            }
        }
    }
}

/// Calls `visit` with continuous values in 255 borders, and the share of missing ones.
pub fn many_borders(mut visit: impl FnMut(&Table, &BoostingParams, f64)) {
    for missing in [0.0, 0.05] {
        let mut dice = Dice::new(4);
        let rows = 120_000;
        let columns: Vec<Vec<f64>> =
            (0..3).map(|_| (0..rows).map(|_| if dice.chance(missing) { f64::NAN } else { dice.unit() }).collect()).collect();
        let y = (0..rows).map(|i| (9.0 * columns[0][i]).sin().max(-0.9) + columns[1][i].max(-3.0)).collect();
        let t = Table::numbers(columns, y);
        let p = params(json!({ "bins": 256, "rounds": 5, "border_sample": 50_000, "policy": "depthwise" }));
        visit(&t, &p, missing);
    }
}
