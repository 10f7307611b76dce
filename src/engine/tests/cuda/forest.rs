//! A forest grown on the GPU is the forest of the CPU, byte for byte; and what a GPU does not grow is refused in words.
//!
//! These tests are ignored unless asked for (`make test-cuda`), and then fail without a GPU.

use crate::shap::forest_explains;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;
use taiga_engine::column::Column;
use taiga_engine::column::categories::{Categories, CategoryColumn, CategoryNames as Labeled};
use taiga_engine::device::predict::PlacedForest;
use taiga_engine::learners::forest::{Forest, Input, Predictor, Quiet, Target, fit};
use taiga_testing::forest::*;
use taiga_testing::gpu::{gpu, say};
use taiga_testing::{Dice, Table};

/// A fit on a device.
pub(crate) fn on(device: &str, table: &Table, base: &Value) -> Forest {
    let mut base = base.clone();
    base["device"] = json!(device);
    grow(table, &params(base))
}

fn compare(table: &Table, base: &Value) {
    let cpu = on("cpu", table, base);
    same(&cpu, &on("cuda", table, base), base);
    predicts_the_same(cpu, &table.features(), base);
}

/// Proves that a forest's predictions and leaves have the same bits on both.
fn predicts_the_same(forest: Forest, columns: &[Column<'_>], base: &Value) {
    let predictor = Arc::new(Predictor::new(forest));
    let placed = PlacedForest::new("cuda", predictor.clone()).expect("a forest on the GPU");
    let bound = predictor.bind(columns).expect("columns");
    let bits = |p: Vec<Vec<f64>>| p.into_iter().flatten().map(f64::to_bits).collect::<Vec<u64>>();
    assert!(bits(placed.predict(&bound).expect("predictions")) == bits(predictor.predict(&bound)), "{base}: predictions differ");
    assert!(placed.leaves(&bound).expect("leaves") == predictor.leaves(&bound), "{base}: leaves differ");
}

fn same(cpu: &Forest, cuda: &Forest, base: &Value) {
    for (t, (a, b)) in cpu.trees.iter().zip(&cuda.trees).enumerate() {
        for (i, (a, b)) in a.nodes.iter().zip(&b.nodes).enumerate() {
            assert!(a == b, "{base}: tree {t}, node {i}: {a:?} on the CPU, {b:?} on the GPU");
        }
        assert!(a == b, "{base}: tree {t} differs, of {} and {} leaves", a.leaves(), b.leaves());
    }
    match (&cpu.oob, &cuda.oob) {
        (Some(a), Some(b)) => {
            let same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits();
            let wrong = a.predictions.iter().flatten().zip(b.predictions.iter().flatten()).position(|p| !same(p));
            assert!(wrong.is_none(), "{base}: predictions out of bag differ, the first at {wrong:?}");
        }
        (a, b) => assert!(a.is_none() && b.is_none()),
    }
    assert!(cpu.to_bytes() == cuda.to_bytes(), "{base}: the bytes differ");
}

/// A criterion, splitter and limits by chance, for a table of so many classes (0: numbers).
fn by_chance(dice: &mut Dice, classes: u32, seed: u64) -> Value {
    let mut base = json!({ "trees": 1 + dice.below(9), "seed": seed });
    let criteria = if classes > 0 { ["gini", "entropy"] } else { ["squared_error", "poisson"] };
    base["criterion"] = json!(criteria[dice.below(2) as usize]);
    base["splitter"] = json!(["histogram", "exact", "random"][dice.below(3) as usize]);
    if dice.chance(0.5) {
        base["max_features"] = [json!("all"), json!(1), json!(0.5)][dice.below(3) as usize].clone();
    }
    if dice.chance(0.4) {
        base["depth"] = json!(1 + dice.below(6));
    }
    if dice.chance(0.3) {
        base["leaves"] = json!(2 + dice.below(20));
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
        base["bins"] = [json!(2), json!(31), json!(256)][dice.below(3) as usize].clone();
    }
    if classes > 0 && dice.chance(0.3) {
        base["class_weight"] = json!("balanced");
    }
    base
}

/// Proves equal bytes on random tables with missing values, infinities, ties, constants and weights, under every criterion,
/// splitter and limit.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn any_table() {
    gpu();
    let mut dice = Dice::new(21);
    for case in 0..300u64 {
        let rows = 2 + dice.below([200, 200, 3_000, 9_000][case as usize % 4]) as usize;
        let features = 1 + dice.below(12) as usize;
        let classes = [0, 2, 3, 7, 0, 2, 40, 255][dice.below(8) as usize];
        let weights = dice.chance(0.4);
        let table = awkward_table(&mut dice, rows, features, classes as usize, weights);
        compare(&table, &by_chance(&mut dice, classes, case));
    }
}

/// Proves equal bytes where every kernel runs once, of each kind of target, splitter and criterion; small, for
/// compute-sanitizer.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn every_kernel_once() {
    gpu();
    let mut dice = Dice::new(3);
    for classes in [2, 0, 3] {
        for weights in [false, true] {
            for splitter in ["histogram", "exact", "random"] {
                let table = awkward_table(&mut dice, 3_600, 3, classes, weights);
                for criterion in if classes > 0 { ["gini", "entropy"] } else { ["squared_error", "poisson"] } {
                    compare(&table, &json!({ "trees": 1, "depth": 4, "splitter": splitter, "criterion": criterion, "max_features": 1 }));
                }
            }
        }
    }
    let table = wide(40_000, 3, false, false);
    compare(&table, &json!({ "trees": 1, "depth": 3 }));
    categories(&mut dice, 4_000, 3);
}

/// Compares forests of a table with columns of many and of few categories and one of numbers.
fn categories(dice: &mut Dice, rows: usize, classes: usize) {
    let columns: Vec<CategoryColumn> = [400u64, 3, 30]
        .iter()
        .map(|kinds| {
            let codes = (0..rows).map(|_| dice.below(*kinds).min(dice.below(*kinds)) as u32).collect();
            let labels = Labeled::Integer((0..*kinds as i128).collect());
            CategoryColumn { name: format!("c{kinds}"), codes, categories: Categories { labels, null: None } }
        })
        .collect();
    let x: Vec<f64> = (0..rows).map(|_| if dice.chance(0.1) { f64::NAN } else { dice.normal() }).collect();
    let z: Vec<f64> =
        (0..rows).map(|i| (columns[0].codes[i] % 7 + columns[2].codes[i] % 5) as f64 + x[i].max(0.0) + dice.normal()).collect();
    let codes: Vec<u32> = z.iter().map(|z| z.abs() as u32 % classes.max(1) as u32).collect();
    let weight: Vec<f64> = (0..rows).map(|_| dice.below(3) as f64).collect();
    for (weights, limit) in [(false, json!({ "depth": 6 })), (true, json!({ "leaves": 30 }))] {
        let grow_on = |device: &str| {
            let mut base = limit.clone();
            (base["device"], base["trees"], base["max_features"]) = (json!(device), json!(4), json!(2));
            let mut features: Vec<Column<'_>> = columns.iter().map(Column::categorical).collect();
            features.insert(1, Column::from_f64("x", &x));
            let target = if classes > 0 {
                Target::Classes { codes: &codes, labels: labels(classes) }
            } else {
                Target::Numbers(Column::from_f64("y", &z))
            };
            let weight = weights.then(|| Column::from_f64("w", &weight));
            let input = Input { features, target, target_name: "y".into(), weight };
            fit(&input, &params(base), &Quiet).unwrap_or_else(|e| panic!("{e}"))
        };
        let what = json!({ "categories": rows, "classes": classes, "weights": weights });
        let forest = grow_on("cpu");
        same(&forest, &grow_on("cuda"), &what);
        let predictor = Predictor::new(forest.clone());
        let known = |f: usize| {
            let find = |c: &u32| predictor.lookup(f).and_then(|l| l.integer(*c as i128)).unwrap_or(u32::MAX);
            columns[f.saturating_sub(1)].codes.iter().map(find).collect::<Vec<u32>>()
        };
        let codes = [known(0), known(2), known(3)];
        let mut looked_up: Vec<Column<'_>> = columns.iter().zip(&codes).map(|(c, codes)| Column::codes(c.name.clone(), codes)).collect();
        looked_up.push(Column::from_f64("x", &x));
        let columns = predictor.bind(&looked_up).expect("columns");
        forest_explains(&what.to_string(), &predictor, &columns, &columns);
        predicts_the_same(forest, &looked_up, &what);
    }
}

/// Proves equal bytes of divisions of categories, seen and unseen in a node, of few rows and of many.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn categorical_columns() {
    gpu();
    let mut dice = Dice::new(8);
    for rows in [30, 700, 20_000] {
        for classes in [0, 2, 3, 9] {
            categories(&mut dice, rows, classes);
        }
    }
}

/// Proves equal bytes of the smallest tables, of constant targets, and of trees that draw no row that weighs anything.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn edges() {
    gpu();
    for splitter in ["histogram", "exact", "random"] {
        let base = json!({ "trees": 30, "splitter": splitter });
        let one = try_grow(&Table::numbers(vec![vec![1.0]], vec![2.0]), &params(json!({ "device": "cuda" }))).err();
        assert!(one.is_some_and(|e| e.to_string().contains("at least two")));
        compare(&Table::numbers(vec![vec![f64::NAN, 1.0]], vec![2.0, 1.0]), &base);
        compare(&Table::numbers(vec![vec![1.0, 2.0]], vec![2.0, 3.0]), &base);
        compare(&Table::numbers(vec![(0..6_000).map(f64::from).collect()], vec![7.5; 6_000]), &base);
        compare(&Table::numbers(vec![vec![f64::NAN; 5_000], vec![3.0; 5_000]], (0..5_000).map(f64::from).collect()), &base);
        // More rows weigh something than a tree draws.
        let y: Vec<f64> = (0..3_000).map(|i| f64::from(i % 11)).collect();
        let mut few = Table::numbers(vec![(0..3_000).map(|i| f64::from(i % 97)).collect()], y);
        few.weight = Some((0..3_000).map(|i| f64::from(i % 20 == 0)).collect());
        compare(&few, &json!({ "trees": 30, "splitter": splitter, "bootstrap": 0.01 }));
        for classes in [2, 4] {
            let codes: Vec<u32> = (0..50).map(|i| i % classes).collect();
            let mut table = Table::classes(vec![(0..50).map(f64::from).collect(), vec![1.0; 50]], codes, labels(classes as usize));
            table.weight = Some((0..50).map(|i| if i < 4 { 1e-3 * (i + 1) as f64 } else { 0.0 }).collect());
            compare(&table, &json!({ "trees": 30, "splitter": splitter, "bootstrap": 0.1 }));
            table.weight = Some((0..50).map(|i| 10f64.powi(i % 30 - 15)).collect());
            compare(&table, &base);
        }
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
#[ignore = "needs a GPU: make test-cuda"]
fn large_nodes_and_many_features() {
    gpu();
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
            for (splitter, depth) in [("histogram", 3), ("histogram", 12), ("histogram", 40), ("exact", 40), ("random", 40)] {
                let base = json!({ "trees": 3, "depth": depth, "max_features": drawn, "oob": depth == 12, "splitter": splitter });
                compare(&table, &base);
            }
        }
    }
}

/// Proves equal bytes of several classes on tables of nodes of every size.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn many_rows_of_several_classes() {
    gpu();
    let mut dice = Dice::new(4);
    for (classes, weights) in [(3, false), (10, true), (100, false)] {
        let table = awkward_table(&mut dice, 60_000, 8, classes, weights);
        for splitter in ["histogram", "exact", "random"] {
            for criterion in ["gini", "entropy"] {
                compare(&table, &json!({ "trees": 3, "splitter": splitter, "criterion": criterion }));
            }
        }
    }
}

/// Proves that what only the CPU does is refused by name where the GPU was asked for, and that `"auto"` then takes the CPU.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn what_a_gpu_does_not_grow_is_refused() {
    gpu();
    let many = Table::classes(vec![(0..600).map(f64::from).collect()], (0..600).map(|i| i % 300).collect(), labels(300));
    for (table, words) in [(many, "255 classes"), (wide(40, 4_100, false, false), "4,096 features")] {
        let mut base = json!({ "trees": 2, "device": "cuda" });
        let text = try_grow(&table, &params(base.clone())).unwrap_err().to_string();
        assert!(text.contains("`device`") && text.contains(words), "{text}");
        base["device"] = json!("auto");
        grow(&table, &params(base));
    }
}

/// The table that `benchmarks/gpu_forest.py` wrote: columns, target, and how many rows are to be learned from.
fn read_table(path: &str) -> (Vec<Vec<f32>>, Vec<u32>, usize) {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let values: Vec<f32> = bytes.as_chunks().0.iter().map(|b| f32::from_ne_bytes(*b)).collect();
    let [rows, held_out, features] = [values[0] as usize, values[1] as usize, values[2] as usize];
    let columns: Vec<Vec<f32>> = values[3..].chunks(rows + held_out).map(<[f32]>::to_vec).collect();
    let target = columns[features].iter().map(|y| *y as u32).collect();
    (columns[..features].to_vec(), target, rows)
}

/// The area under the ROC curve: the chance that a row of the second class is scored higher than one of the first.
fn auc(scores: &[f64], target: &[u32]) -> f64 {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_unstable_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    let (mut below, mut pairs) = (0.0, 0.0);
    for group in order.chunk_by(|a, b| scores[*a] == scores[*b]) {
        let ones = group.iter().filter(|i| target[**i] == 1).count() as f64;
        let zeros = group.len() as f64 - ones;
        pairs += ones * (below + zeros / 2.0);
        below += zeros;
    }
    pairs / (below * (scores.len() as f64 - below))
}

/// Times the GPU on the table of `TAIGA_FOREST_FILE`: 100 trees of depth 16 by each of
/// `TAIGA_FOREST_SPLITTERS`; with the area under the curve of the rows held out. `TAIGA_FOREST_CLASSES`: of so many classes,
/// by two of the columns.
#[test]
#[ignore = "needs a GPU and a file; prints times, asserts nothing"]
fn timing() {
    let path = std::env::var("TAIGA_FOREST_FILE").expect("TAIGA_FOREST_FILE names the table");
    gpu();
    let (columns, mut target, rows) = read_table(&path);
    let classes: u32 = std::env::var("TAIGA_FOREST_CLASSES").ok().and_then(|c| c.parse().ok()).unwrap_or(2);
    if classes > 2 {
        let class = |i: usize| ((columns[0][i] + columns[5][i] + 2.0) * 0.25 * classes as f32) as u32;
        target.iter_mut().enumerate().for_each(|(i, y)| *y = class(i).min(classes - 1));
    }
    let splitters = std::env::var("TAIGA_FOREST_SPLITTERS").unwrap_or("histogram".into());
    let part = |from: usize, to: usize| -> Vec<Column<'_>> {
        columns.iter().enumerate().map(|(f, c)| Column::from_f32(format!("x{f}"), &c[from..to])).collect()
    };
    for splitter in splitters.split(',') {
        for oob in [false, false, true] {
            let base = json!({ "trees": 100, "depth": 16, "oob": oob, "splitter": splitter, "device": "cuda" });
            let target_of = Target::Classes { codes: &target[..rows], labels: labels(classes as usize) };
            let input = Input { features: part(0, rows), target: target_of, target_name: "y".into(), weight: None };
            let start = Instant::now();
            let forest = fit(&input, &params(base), &Quiet).unwrap_or_else(|e| panic!("{e}"));
            let seconds = start.elapsed().as_secs_f64();
            let leaves: usize = forest.trees.iter().map(|t| t.leaves()).sum();
            let score = forest.oob.as_ref().map_or(f64::NAN, |o| o.score);
            let what = format!("{rows} x {}, {splitter}, 100 trees of depth 16, oob {oob} ({score:.5})", columns.len());
            say(&format!("{classes} classes, {what}: {seconds:.3} s, {leaves} leaves"));
            if oob && classes == 2 {
                let predictor = Predictor::new(forest);
                let held_out = part(rows, target.len());
                let scores = predictor.predict(&predictor.bind(&held_out).unwrap());
                say(&format!("area under the curve of {} rows held out: {:.5}", target.len() - rows, auc(&scores[1], &target[rows..])));
            }
        }
    }
}
