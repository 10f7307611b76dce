//! What tests share of fits that compare features by anything but their gains: by noise on scores, by weights.

use serde_json::{Value, json};
use std::time::Instant;
use taiga_engine::dataset::Quiet;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::learners::boosting::fit;
use taiga_testing::contract::table;
use taiga_testing::gpu::{gpu, say};
use taiga_testing::{Dice, POLICIES, Table, Wanted, params_with};

/// A table with columns that stand in it twice, which tie where neither noise nor different weights decide between them.
pub fn twice(rows: usize, features: usize, loss: &str, seed: u64) -> Table {
    let mut t = table(rows, features, loss, seed);
    let copies: Vec<Vec<f64>> = t.columns.iter().step_by(2).cloned().collect();
    t.columns.extend(copies);
    t
}

/// A table of which most columns are mostly zeros.
pub fn partly_sparse(seed: u64) -> Table {
    let mut t = table(6_000, 4, "rmse", 3);
    let mut dice = Dice::new(seed);
    // Some exclude each other, some do not.
    let mut sparse =
        |share: f64| -> Vec<f64> { (0..6_000).map(|_| if dice.chance(share) { 1.0 + dice.below(3) as f64 } else { 0.0 }).collect() };
    t.columns.extend((0..60).map(|_| sparse(0.012)));
    t.columns.extend((0..20).map(|k| (0..6_000).map(|i| (i % 20 == k) as u8 as f64).collect::<Vec<f64>>()));
    t
}

/// A table of four classes, and one of three targets of different size.
pub fn of_several_outputs(rows: usize, seed: u64) -> [Table; 2] {
    let t = twice(rows, 5, "rmse", seed);
    let y = t.y();
    let codes = y.iter().map(|y| (*y * 0.7 + 2.0).clamp(0.0, 3.0) as u32).collect();
    let classes = Table::classes(t.columns.clone(), codes, Labels::Integer((0..4).collect()));
    let targets = (0..3).map(|k| (0..rows).map(|i| y[i] + 10f64.powi(k) * y[(i * 7 + k as usize) % rows]).collect()).collect();
    let several = Table { target: Wanted::Several(targets), ..twice(rows, 5, "rmse", seed) };
    [classes, several]
}

/// Prints how long fits with each of some parameters take, on each device, where `TAIGA_TIMING` asks for it.
pub fn print_times(parameters: [Value; 3]) {
    gpu();
    if std::env::var_os("TAIGA_TIMING").is_none() {
        return;
    }
    let t = table(1_000_000, 28, "logloss", 1);
    for policy in POLICIES {
        for more in &parameters {
            for device in ["cuda", "cuda", "cpu"] {
                let p = params_with(json!({ "loss": "logloss", "rounds": 100, "policy": policy, "device": device }), more.clone());
                let begun = Instant::now();
                fit(&t.input(), &p, &Quiet).expect("a fit");
                say(&format!("{policy} {more} {device}: {:.3} s", begun.elapsed().as_secs_f64()));
            }
        }
    }
}
