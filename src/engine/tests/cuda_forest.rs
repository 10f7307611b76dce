//! A forest grown on the GPU is the forest of the CPU, byte for byte; and what a GPU does not grow is refused in words.
//!
//! Without a GPU these tests say so and pass, unless `TAIGA_REQUIRE_CUDA` is set.

mod common;
mod cuda_support;
mod forest_support;

use common::{Dice, Table};
use cuda_support::gpu::{gpu, say};
use forest_support::*;
use serde_json::{Value, json};
use std::time::Instant;
use taiga_engine::forest::Forest;

/// A fit on a device.
fn on(device: &str, table: &Table, base: &Value) -> Forest {
    let mut base = base.clone();
    base["device"] = json!(device);
    grow(table, &params(base))
}

fn compare(table: &Table, base: &Value) {
    let (cpu, cuda) = (on("cpu", table, base), on("cuda", table, base));
    for (t, (a, b)) in cpu.trees.iter().zip(&cuda.trees).enumerate() {
        for (i, (a, b)) in a.nodes.iter().zip(&b.nodes).enumerate() {
            assert!(a == b, "{base}: tree {t}, node {i}: {a:?} on the CPU, {b:?} on the GPU");
        }
        assert!(a == b, "{base}: tree {t} differs, of {} and {} leaves", a.leaves(), b.leaves());
    }
    assert!(cpu.to_bytes() == cuda.to_bytes(), "{base}: the bytes differ");
}

/// Proves equal bytes on random tables with missing values, infinities, ties and constants, under every limit.
#[test]
fn any_table() {
    if gpu().is_none() {
        return;
    }
    let mut dice = Dice::new(21);
    for case in 0..60u64 {
        let (rows, features) = (2 + dice.below(if case % 3 == 0 { 3_000 } else { 200 }) as usize, 1 + dice.below(12) as usize);
        let table = awkward_table(&mut dice, rows, features, if case % 5 < 3 { 2 } else { 0 }, false);
        let mut base = json!({ "trees": 1 + dice.below(9), "seed": case });
        if dice.chance(0.5) {
            base["max_features"] = [json!("all"), json!(1), json!(0.5)][dice.below(3) as usize].clone();
        }
        if dice.chance(0.4) {
            base["depth"] = json!(1 + dice.below(6));
        }
        if dice.chance(0.3) {
            base["min_data_in_leaf"] = json!(2 + dice.below(9));
        }
        if dice.chance(0.3) {
            base["min_gain"] = json!(0.003);
        }
        if dice.chance(0.4) {
            base["bootstrap"] = [json!(false), json!(0.4)][dice.below(2) as usize].clone();
        }
        if dice.chance(0.3) {
            base["bins"] = [json!(1), json!(30), json!(255)][dice.below(3) as usize].clone();
        }
        compare(&table, &base);
    }
}

fn wide(rows: usize, features: usize, constant: bool, numbers: bool) -> Table {
    let mut dice = Dice::new(features as u64);
    let columns: Vec<Vec<f64>> = (0..features)
        .map(|f| {
            let missing = if f % 5 == 1 { 0.1 } else { 0.0 };
            (0..rows)
                .map(|_| {
                    if constant && f % 7 > 0 {
                        1.0
                    } else if dice.chance(missing) {
                        f64::NAN
                    } else {
                        dice.normal()
                    }
                })
                .collect()
        })
        .collect();
    let z: Vec<f64> = (0..rows).map(|i| columns[0][i] + dice.normal()).collect();
    if numbers {
        return Table::numbers(columns, z);
    }
    Table::classes(columns, z.iter().map(|z| (*z > 0.0) as u32).collect(), labels(2))
}

/// Proves equal bytes of nodes of every size, of one block of features and of several, of features that are mostly constant.
#[test]
fn large_nodes_and_many_features() {
    if gpu().is_none() {
        return;
    }
    for (rows, features, constant, drawn) in [
        (200_000, 6, false, json!("sqrt")),
        (200_000, 20, true, json!("sqrt")),
        (70_000, 12, false, json!("all")),
        (3_000, 100, false, json!("sqrt")),
        (3_000, 300, true, json!(3)),
        (40_000, 33, false, json!(9)),
    ] {
        for numbers in [false, true] {
            let table = wide(rows, features, constant, numbers);
            for depth in [3, 12, 40] {
                compare(&table, &json!({ "trees": 3, "depth": depth, "max_features": drawn, "oob": depth == 12 }));
            }
        }
    }
}

/// Proves that what only the CPU does is refused by name where the GPU was asked for, and that `"auto"` then takes the CPU.
#[test]
fn what_a_gpu_does_not_grow_is_refused() {
    if gpu().is_none() {
        return;
    }
    let table = wide(500, 4, false, false);
    for (name, value, words) in [
        ("splitter", json!("exact"), "histogram"),
        ("criterion", json!("entropy"), "gini"),
        ("leaves", json!(7), "leaves"),
        ("class_weight", json!("balanced"), "weights"),
    ] {
        let mut base = json!({ "trees": 2, "device": "cuda" });
        base[name] = value;
        let text = try_grow(&table, &params(base.clone())).unwrap_err().to_string();
        assert!(text.contains("`device`") && text.contains(words), "{text}");
        base["device"] = json!("auto");
        grow(&table, &params(base));
    }
}

/// Times the GPU on `TAIGA_FOREST_ROWS` rows (none: not run) of 28 features, 100 trees of depth 16, without predictions out
/// of bag.
#[test]
fn timing() {
    let rows: usize = std::env::var("TAIGA_FOREST_ROWS").ok().and_then(|r| r.parse().ok()).unwrap_or(0);
    if rows == 0 || gpu().is_none() {
        return;
    }
    for numbers in [false, true] {
        let table = wide(rows, 28, false, numbers);
        let base = json!({ "trees": 100, "depth": 16, "oob": false });
        for _ in 0..3 {
            let start = Instant::now();
            let forest = on("cuda", &table, &base);
            let leaves: usize = forest.trees.iter().map(|t| t.leaves()).sum();
            let seconds = start.elapsed().as_secs_f64();
            say(&format!("{rows} x 28, numbers: {numbers}, 100 trees of depth 16: {seconds:.3} s, {leaves} leaves"));
        }
    }
}
