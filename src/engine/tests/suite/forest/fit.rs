//! Forests: the same bytes whatever the threads and chunks, out-of-bag predictions and importances by their definition,
//! and bad input.

use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};
use taiga_engine::column::categories::{Categories, CategoryColumn, CategoryNames as Labeled};
use taiga_engine::column::{Chunk, Column, FeatureType, Values};
use taiga_engine::learners::forest::explain::Importance;
use taiga_engine::learners::forest::{Forest, ForestParams, Input, Monitor, Predictor, Quiet, Target, bootstrap, fit};
use taiga_engine::numerics::random::{Purpose, Random, below};
use taiga_engine::tree::Tree;
use taiga_engine::{Error, Result, memory};
use taiga_testing::forest::*;
use taiga_testing::model::naive_leaf;
use taiga_testing::{Dice, Table, Wanted};

fn with(base: &Value, name: &str, value: Value) -> ForestParams {
    let mut base = base.clone();
    base[name] = value;
    params(base)
}

fn large(rows: usize, classes: usize) -> Table {
    let mut dice = Dice::new(rows as u64);
    let columns: Vec<Vec<f64>> =
        (0..4).map(|f| (0..rows).map(|_| if f == 2 && dice.chance(0.1) { f64::NAN } else { dice.normal() }).collect()).collect();
    let z: Vec<f64> = (0..rows).map(|i| columns[0][i] * columns[1][i] + dice.normal()).collect();
    match classes {
        0 => Table::numbers(columns, z),
        k => Table::classes(columns, z.iter().map(|z| (z.abs() * k as f64) as u32 % k as u32).collect(), labels(k)),
    }
}

/// Proves that threads change no byte, of many trees and of a few large ones that all threads grow together.
#[test]
fn threads_change_no_byte() {
    for (case, splitter) in ["histogram", "exact", "random"].into_iter().enumerate() {
        for (classes, leaves) in [(2, Value::Null), (0, Value::Null), (3, json!(50))] {
            let table = large(150_000, classes);
            let mut base = json!({ "trees": 2, "splitter": splitter, "seed": case, "depth": 12, "leaves": leaves, "max_features": 2 });
            base["permutation_importance"] = json!(classes == 2 && case == 0);
            let one = grow(&table, &with(&base, "n_threads", json!(1))).to_bytes();
            for threads in [2, 3] {
                assert!(grow(&table, &with(&base, "n_threads", json!(threads))).to_bytes() == one, "{splitter} {classes} {threads}");
            }
        }
        let small = large(3_000, 2);
        let base = json!({ "trees": 20, "splitter": splitter, "seed": case, "permutation_importance": true });
        let one = grow(&small, &with(&base, "n_threads", json!(1))).to_bytes();
        assert!((2..4).all(|threads| grow(&small, &with(&base, "n_threads", json!(threads))).to_bytes() == one));
    }
}

/// Proves that chunks change no byte, nor does a column's type where its values are the same.
#[test]
fn chunks_and_types_change_no_byte() {
    let mut table = large(4_000, 2);
    table.columns.iter_mut().flatten().for_each(|x| *x = *x as f32 as f64);
    for splitter in ["histogram", "exact", "random"] {
        let p = params(json!({ "trees": 5, "splitter": splitter }));
        let one = grow(&table, &p).to_bytes();
        for cut in [1, 1_000, 3_999] {
            let mut i = input(&table);
            let chunk = |v| Chunk::new(Values::F64(v), None);
            i.features = (table.columns.iter().enumerate())
                .map(|(f, c)| Column::new(format!("x{f}"), FeatureType::Numeric, vec![chunk(&c[..cut]), chunk(&c[cut..])]))
                .collect();
            assert!(fit(&i, &p, &Quiet).unwrap().to_bytes() == one, "{splitter} {cut}");
        }
        let single: Vec<Vec<f32>> = table.columns.iter().map(|c| c.iter().map(|x| *x as f32).collect()).collect();
        let mut i = input(&table);
        i.features = single.iter().enumerate().map(|(f, c)| Column::from_f32(format!("x{f}"), c)).collect();
        assert!(fit(&i, &p, &Quiet).unwrap().to_bytes() == one, "{splitter} f32");
    }
}

/// The mean over the trees that a row was not drawn for of what its leaf holds, tree after tree.
fn out_of_bag(table: &Table, forest: &Forest, params: &ForestParams) -> Vec<Vec<f64>> {
    let predictor = Predictor::new(forest.clone());
    let columns = table.features();
    let leaves = predictor.leaves(&predictor.bind(&columns).unwrap());
    let (rows, trees, outputs) = (table.rows(), forest.trees.len(), forest.outputs());
    let mut sums = vec![vec![0.0; rows]; outputs];
    let mut seen = vec![0.0; rows];
    for (t, tree) in forest.trees.iter().enumerate() {
        let counts = bootstrap::counts(params.bootstrap, rows, params.seed, t as u32);
        for row in (0..rows).filter(|r| counts[*r] == 0) {
            let leaf = leaves[row * trees + t] as usize;
            seen[row] += 1.0;
            let all: u64 = tree.sums[leaf * outputs..(leaf + 1) * outputs].iter().sum();
            for (k, sums) in sums.iter_mut().enumerate() {
                sums[row] += tree.means.get(leaf).copied().unwrap_or_else(|| tree.sums[leaf * outputs + k] as f64 / all as f64);
            }
        }
    }
    sums.iter().map(|s| s.iter().zip(&seen).map(|(s, n)| s / n).collect()).collect()
}

/// Proves that out-of-bag predictions and scores are those of their definition, with values that training rows of a node
/// had none of, missing ones, and rows that every tree has drawn.
#[test]
fn out_of_bag_is_as_defined() {
    let mut dice = Dice::new(2);
    for case in 0..36u64 {
        let classes = [2, 0, 4][case as usize % 3];
        let table = awkward_table(&mut dice, 90, 4, classes, case % 4 == 0);
        let p = params(
            json!({ "trees": ([2, 25][case as usize % 2]), "splitter": (["histogram", "exact", "random"][case as usize / 3 % 3]), "seed": case }),
        );
        let forest = grow(&table, &p);
        // Rows of weight 0 are not there, nor is a class of them alone.
        let weighs: Vec<usize> = (0..90).filter(|i| table.weight.as_ref().is_none_or(|w| w[*i] > 0.0)).collect();
        let table = counted(&table);
        let classes = if classes > 0 { forest.outputs() } else { 0 };
        let mut oob = forest.oob.clone().unwrap();
        oob.predictions.iter_mut().for_each(|p| *p = weighs.iter().map(|i| p[*i]).collect());
        let expected = out_of_bag(&table, &forest, &p);
        for (a, b) in oob.predictions.iter().flatten().zip(expected.iter().flatten()) {
            assert!((a.is_nan() && b.is_nan()) || (a - b).abs() < 1e-9, "{a} {b}");
        }
        let known: Vec<usize> = (0..table.rows()).filter(|r| !expected[0][*r].is_nan()).collect();
        let (n, y) = (known.len() as f64, table.y());
        let mean = |f: &dyn Fn(usize) -> f64| known.iter().map(|r| f(*r)).sum::<f64>() / n;
        let score = if classes > 0 {
            let class = |r: usize| (1..classes).fold(0, |b, k| if oob.predictions[k][r] > oob.predictions[b][r] { k } else { b });
            let loss = mean(&|r| -oob.predictions[y[r] as usize][r].max(f64::EPSILON).ln());
            assert!((oob.log_loss.unwrap() - loss).abs() < 1e-12);
            mean(&|r| (class(r) as f64 == y[r]) as u8 as f64)
        } else {
            assert_eq!(oob.log_loss, None);
            let centre = mean(&|r| y[r]);
            1.0 - mean(&|r| (y[r] - expected[0][r]).powi(2)) / mean(&|r| (y[r] - centre).powi(2))
        };
        assert!((oob.score - score).abs() < 1e-9, "{} {score}", oob.score);
    }
}

/// Proves that permutation importance is the rise of each tree's error on the rows it was not drawn for, when a feature is
/// shuffled among them.
#[test]
fn permutation_importance_is_as_defined() {
    let mut dice = Dice::new(6);
    for case in 0..12u64 {
        let classes = [2, 0, 3][case as usize % 3];
        let table = awkward_table(&mut dice, 80, 3, classes, false);
        let splitter = ["histogram", "exact", "random"][case as usize / 3 % 3];
        let p = params(json!({ "trees": 6, "splitter": splitter, "seed": case, "permutation_importance": true }));
        let forest = grow(&table, &p);
        let (y, rows) = (table.y(), table.rows());
        let error = |t: usize, columns: &[Vec<f64>], out: &[usize]| {
            let predictor = Predictor::new(forest.clone());
            let columns: Vec<Column> = columns.iter().enumerate().map(|(f, c)| Column::from_f64(format!("x{f}"), c)).collect();
            let leaves = predictor.leaves(&predictor.bind(&columns).unwrap());
            let tree = &forest.trees[t];
            let one = |r: usize| {
                let leaf = leaves[r * forest.trees.len() + t] as usize;
                if classes == 0 {
                    return (y[r] - tree.means[leaf]).powi(2);
                }
                let s = &tree.sums[leaf * classes..(leaf + 1) * classes];
                ((1..classes).fold(0, |b, k| if s[k] > s[b] { k } else { b }) as f64 != y[r]) as u8 as f64
            };
            out.iter().map(|r| one(*r)).sum::<f64>() / out.len() as f64
        };
        let found = forest.importance(Importance::Permutation).unwrap();
        for f in 0..table.columns.len() {
            let rise = |t: usize| {
                let counts = bootstrap::counts(p.bootstrap, rows, p.seed, t as u32);
                let out: Vec<usize> = (0..rows).filter(|r| counts[*r] == 0).collect();
                let random = Random::new(p.seed, Purpose::ForestShuffle, t as u64).child(f as u64);
                let mut shuffled = out.clone();
                (1..out.len()).rev().for_each(|i| shuffled.swap(i, below(random.u64(i as u64), i as u32 + 1) as usize));
                let mut columns = table.columns.clone();
                out.iter().zip(&shuffled).for_each(|(to, from)| columns[f][*to] = table.columns[f][*from]);
                error(t, &columns, &out) - error(t, &table.columns, &out)
            };
            let expected = (0..6).map(rise).sum::<f64>() / 6.0;
            assert!((found[f] - expected).abs() < 1e-9, "feature {f}: {} {expected}", found[f]);
        }
    }
}

/// Proves what the other importances come to.
#[test]
fn importances_sum_up() {
    let table = large(2_000, 2);
    let forest = grow(&table, &params(json!({ "trees": 7, "depth": 6 })));
    let impurity = forest.importance(Importance::Impurity).unwrap();
    assert!((impurity.iter().sum::<f64>() - 1.0).abs() < 1e-9 && impurity.iter().all(|x| *x >= 0.0));
    let nodes = forest.node_table();
    let inner = nodes.iter().filter(|n| n.feature.is_some());
    assert_eq!(forest.importance(Importance::Split).unwrap().iter().sum::<f64>(), inner.clone().count() as f64);
    assert_eq!(forest.importance(Importance::Cover).unwrap().iter().sum::<f64>(), inner.map(|n| n.count as f64).sum::<f64>());
    assert!(nodes.iter().filter(|n| n.node == 0).all(|n| n.count == 2_000));
    assert!(forest.importance(Importance::Permutation).unwrap_err().to_string().contains("permutation_importance"));
    assert_eq!(forest.to_json()["trees"].as_array().unwrap().len(), 7);
}

/// Proves that predictions are the mean of the leaves that `leaves` names, of numbers and of categories, some unseen.
#[test]
fn predictions_are_means_of_leaves() {
    let mut dice = Dice::new(9);
    let rows = 600;
    let codes: Vec<u32> = (0..rows).map(|i| if i < 300 { i as u32 } else { dice.below(40) as u32 }).collect();
    let names = (0..300).map(|i| format!("c{i}")).collect();
    let column =
        CategoryColumn { name: "c".into(), codes: codes.clone(), categories: Categories { labels: Labeled::Text(names), null: Some(3) } };
    let x: Vec<f64> = (0..rows).map(|_| if dice.chance(0.1) { f64::NAN } else { dice.normal() }).collect();
    let y: Vec<u32> = (0..rows).map(|i| (i % 3 == 0 || dice.chance(codes[i] as f64 / 60.0)) as u32 + (x[i] > 0.0) as u32).collect();
    let input = Input {
        features: vec![Column::categorical(&column), Column::from_f64("x", &x)],
        target: Target::Classes { codes: &y, labels: labels(3) },
        target_name: "y".into(),
        weight: None,
    };
    let forest = fit(&input, &params(json!({ "trees": 9, "max_features": "all" })), &Quiet).unwrap();
    assert!(Forest::from_bytes(&forest.to_bytes()).unwrap().to_bytes() == forest.to_bytes());
    let kept = forest.features[0].categories.as_ref().unwrap();
    assert_eq!((kept.len(), kept.null), (254, Some(3)));
    let predictor = Predictor::new(forest.clone());
    let known = |c: &u32| predictor.lookup(0).unwrap().text(&format!("c{c}")).unwrap_or(if *c == 3 { 3 } else { u32::MAX });
    let looked_up: Vec<u32> = codes.iter().map(known).collect();
    let columns = [Column::codes("c", &looked_up), Column::from_f64("x", &x)];
    let bound = predictor.bind(&columns).unwrap();
    let (shares, leaves) = (predictor.predict(&bound), predictor.leaves(&bound));
    for row in 0..rows {
        for (k, shares) in shares.iter().enumerate() {
            let of = |t: usize| {
                let leaf = leaves[row * 9 + t] as usize * 3;
                let s = &forest.trees[t].sums[leaf..leaf + 3];
                s[k] as f64 / s.iter().sum::<u64>() as f64
            };
            assert!((shares[row] - (0..9).map(of).sum::<f64>() / 9.0).abs() < 1e-12);
        }
    }
    let right = predictor.class(&shares).iter().zip(&y).filter(|(a, b)| a == b).count();
    assert!(right > 500, "{right} of {rows}");
}

/// Proves that rows which walk side by side reach the leaf that each reaches alone, where features are read by codes and where there are too
/// many borders for these: on borders, among missing and infinite values, in trees of one leaf and in deep ones.
#[test]
fn leaves_are_those_of_each_row_alone() {
    let mut by_values = 0;
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let rows = 3 + dice.below(1500) as usize;
        let classes = [0, 2, 4][dice.below(3) as usize];
        let table = awkward_table(&mut dice, rows, 4, classes, false);
        let depth = [None, Some(1), Some(4)][dice.below(3) as usize];
        let forest = grow(&table, &params(json!({ "trees": 3, "splitter": "exact", "seed": seed, "depth": depth, "oob": false })));
        let many = forest.features.iter().map(|f| f.borders.len()).max() > Some(255);
        by_values += many as usize;
        let mut columns: Vec<Vec<f64>> = table.columns.iter().map(|c| c.iter().copied().take(300).collect()).collect();
        for (column, feature) in columns.iter_mut().zip(&forest.features) {
            let own = |dice: &mut Dice| match (dice.below(4), feature.borders.len() as u64) {
                (0, _) | (_, 0) => [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0][dice.below(4) as usize],
                (1, n) => feature.borders[dice.below(n) as usize].next_up(),
                (_, n) => feature.borders[dice.below(n) as usize],
            };
            column.extend((0..200).map(|_| own(&mut dice)));
        }
        let predictor = Predictor::new(forest.clone());
        let named: Vec<Column<'_>> = columns.iter().zip(&forest.features).map(|(c, f)| Column::from_f64(f.name.clone(), c)).collect();
        let leaves = predictor.leaves(&predictor.bind(&named).unwrap());
        for row in 0..columns[0].len() {
            let values: Vec<f64> = columns.iter().map(|c| c[row]).collect();
            for (t, tree) in forest.trees.iter().enumerate() {
                let alone = naive_leaf(&Tree::Branching { nodes: tree.nodes.clone(), leaves: vec![] }, &forest.features, &values);
                assert_eq!(leaves[row * 3 + t], alone, "seed {seed}, row {row}, tree {t}");
            }
        }
    }
    assert!((5..35).contains(&by_values), "{by_values} of 40 by values");
}

fn good(classes: usize) -> Table {
    let columns = vec![(0..20).map(f64::from).collect(), (0..20).map(|i| f64::from(i % 3)).collect()];
    match classes {
        0 => Table::numbers(columns, (0..20).map(f64::from).collect()),
        k => Table::classes(columns, (0..20).map(|i| i % k as u32).collect(), labels(k)),
    }
}

fn assert_error(result: Result<Forest>, words: &[&str]) {
    let text = result.err().unwrap_or_else(|| panic!("no error about {words:?}")).to_string();
    assert!(words.iter().all(|w| text.contains(w)), "{text:?} does not say {words:?}");
}

/// Proves that bad tables and parameters are refused by name, and that small and constant tables are fitted.
#[test]
fn bad_input_is_refused_by_name() {
    let default = ForestParams::default();
    let one_class = Table { target: Wanted::Classes(vec![1; 20], labels(2)), ..good(2) };
    assert_error(try_grow(&one_class, &default), &["`y`", "one class"]);
    assert_error(try_grow(&good(0).filter(|i| i == 0), &default), &["1 training row", "at least two"]);
    assert_error(try_grow(&good(0).filter(|_| false), &default), &["no rows"]);
    let with_nan = Table { target: Wanted::Numbers((0..20).map(|i| if i == 3 { f64::NAN } else { 1.0 }).collect()), ..good(0) };
    assert_error(try_grow(&with_nan, &default), &["`y`", "null or NaN", "1 of 20"]);
    for (weight, words) in [(-1.0, "-1"), (f64::NAN, "null or NaN"), (f64::INFINITY, "inf")] {
        let mut t = good(2);
        t.weight = Some((0..20).map(|i| if i == 7 { weight } else { 1.0 }).collect());
        assert_error(try_grow(&t, &default), &["`w`", words]);
    }
    let mut none = good(2);
    none.weight = Some(vec![0.0; 20]);
    assert_error(try_grow(&none, &default), &["`w`", "zero"]);
    let negative = Table { target: Wanted::Numbers((0..20).map(|i| i as f64 - 4.0).collect()), ..good(0) };
    assert_error(try_grow(&negative, &params(json!({ "criterion": "poisson" }))), &["`y`", "row 0", "poisson"]);
    assert_error(try_grow(&good(0), &params(json!({ "criterion": "gini" }))), &["criterion", "squared_error"]);
    assert_error(try_grow(&good(2), &params(json!({ "criterion": "poisson" }))), &["criterion", "gini"]);
    assert_error(try_grow(&good(0), &params(json!({ "class_weight": "balanced" }))), &["class_weight", "no classes"]);
    assert_error(try_grow(&good(2), &params(json!({ "class_weight": { "maybe": 2.0 } }))), &["class_weight", "`maybe`", "true"]);
    let huge = Table { target: Wanted::Numbers((0..20).map(|i| if i > 0 { 1.7e308 } else { -1.7e308 }).collect()), ..good(0) };
    assert_error(try_grow(&huge, &default), &["`y`", "range"]);
    let column = CategoryColumn {
        name: "job".into(),
        codes: (0..20).map(|i| i % 2).collect(),
        categories: Categories { labels: Labeled::Text(vec!["a".into(), "b".into()]), null: None },
    };
    let table = good(2);
    for splitter in ["exact", "random"] {
        let mut i = input(&table);
        i.features.push(Column::categorical(&column));
        assert_error(fit(&i, &params(json!({ "splitter": splitter })), &Quiet), &["`job`", splitter, "histogram"]);
    }
    for (wrong, words) in [
        (json!({ "treees": 3 }), "did you mean `trees`"),
        (json!({ "max_features": "cube" }), "\"sqrt\", \"log2\", \"all\""),
        (json!({ "max_features": 1.5 }), "(0, 1]"),
        (json!({ "max_features": 0 }), "at least 1"),
        (json!({ "bootstrap": 0.0 }), "(0, 1]"),
        (json!({ "bootstrap": false, "oob": true }), "out of bag"),
        (json!({ "bootstrap": false, "permutation_importance": true }), "out of bag"),
        (json!({ "trees": 0 }), "between 1"),
        (json!({ "bins": 257 }), "between 2 and 256"),
        (json!({ "bins": { "x0": 257 } }), "`bins`: 257 for `x0` is not between 2 and 256"),
        (json!({ "min_gain": -1.0 }), "zero or a positive"),
        (json!({ "depth": 0 }), "at least 1"),
        (json!({ "leaves": 1 }), "at least 2"),
        (json!({ "min_data_in_leaf": 0 }), "at least 1"),
        (json!({ "splitter": "best" }), "splitter"),
        (json!({ "device": "tpu" }), "tpu"),
    ] {
        let text = ForestParams::from_json(&wrong).expect_err(&wrong.to_string()).to_string();
        assert!(text.contains(words), "{wrong}: {text}");
    }
    // Tables that can't be divided are one leaf a tree.
    for splitter in ["histogram", "exact", "random"] {
        for value in [7.0, f64::NAN, f64::INFINITY] {
            let t = Table { columns: vec![vec![value; 20]; 3], ..good(2) };
            let forest = grow(&t, &params(json!({ "splitter": splitter, "trees": 3 })));
            assert!(forest.trees.iter().all(|t| t.leaves() == 1));
        }
        let constant = Table { target: Wanted::Numbers(vec![5.0; 20]), ..good(0) };
        let forest = grow(&constant, &params(json!({ "splitter": splitter, "trees": 30 })));
        assert!(forest.trees.iter().all(|t| t.means == [5.0]) && forest.oob.unwrap().score == 1.0);
        let two = good(0).filter(|i| i < 2);
        grow(&two, &params(json!({ "splitter": splitter, "trees": 30 })));
    }
}

/// Proves that rows of weight 0 count nowhere, even where a tree draws nothing else.
#[test]
fn rows_of_no_weight_count_nowhere() {
    let mut t = good(2);
    t.weight = Some((0..20).map(|i| (i < 2) as u8 as f64).collect());
    let forest = grow(&t, &params(json!({ "trees": 40 })));
    for tree in &forest.trees {
        assert!(tree.leaves() <= 2);
    }
    let column = &t.columns[0];
    let predictor = Predictor::new(forest);
    let columns = t.features();
    let shares = predictor.predict(&predictor.bind(&columns).unwrap());
    assert!(shares[0][0] > 0.5 && shares[1][1] > 0.5 && column[1] == 1.0);
}

struct StopAfter(AtomicU32, u32);
impl Monitor for StopAfter {
    fn interrupted(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) >= self.1
    }
}

/// Proves that a fit ends when it is asked to, wherever it is, and that progress is told tree by tree.
#[test]
fn fits_can_be_interrupted_and_watched() {
    let table = large(30_000, 2);
    for splitter in ["histogram", "exact", "random"] {
        for leaves in [Value::Null, json!(20)] {
            let p = params(json!({ "trees": 4, "splitter": splitter, "leaves": leaves, "n_threads": 2 }));
            for asked in [0, 1, 5, 9] {
                let stopped = fit(&input(&table), &p, &StopAfter(AtomicU32::new(0), asked));
                assert!(matches!(stopped, Err(Error::Interrupted)), "after {asked}");
            }
        }
    }
    struct Told(std::sync::Mutex<Vec<u32>>);
    impl Monitor for Told {
        fn round(&self, done: u32, total: u32, _: Option<f64>) {
            assert_eq!(total, 12);
            self.0.lock().unwrap().push(done);
        }
    }
    let told = Told(Default::default());
    fit(&input(&table), &params(json!({ "trees": 12, "depth": 3, "n_threads": 2 })), &told).unwrap();
    assert_eq!(told.0.into_inner().unwrap(), (1..=12).collect::<Vec<u32>>());
}

/// Proves that a forest that the machine has no memory for is an error with both figures, before any of it is taken: a table
/// of hundreds of gigabytes, whose columns all borrow the same values.
#[test]
fn what_cannot_fit_is_an_error_before_it_is_tried() {
    let (rows, features) = (8_000_000, 60_000);
    if memory::available().is_none_or(|bytes| bytes > 2 * (rows * features) as u64) {
        return;
    }
    let (values, codes) = (vec![1.0f32; rows], [0u32, 1].repeat(rows / 2));
    let input = Input {
        features: (0..features).map(|f| Column::from_f32(format!("x{f}"), &values)).collect(),
        target: Target::Classes { codes: &codes, labels: labels(2) },
        target_name: "y".into(),
        weight: None,
    };
    for (splitter, needs) in [("histogram", "needs at least 960."), ("exact", "needs at least 192"), ("random", "needs at least 192")] {
        let p = params(json!({ "splitter": splitter, "trees": 2, "n_threads": 2 }));
        let e = fit(&input, &p, &Quiet).expect_err("too much");
        assert!(matches!(e, Error::Memory(_)), "{e}");
        for part in ["8000000 rows", "60000 features", needs, "free", "lower `n_threads`"] {
            assert!(e.to_string().contains(part), "{part}: {e}");
        }
    }
}

/// Proves that features have as many bins as they are given, the others as many as ever; that the same number for each is that number for all; and
/// that forests of such features have bytes of their own, and others those that they had.
#[test]
fn features_may_have_bins_of_their_own() {
    let table = awkward_table(&mut Dice::new(9), 900, 3, 0, false);
    let fit = |bins: serde_json::Value| grow(&table, &params(json!({ "trees": 12, "bins": bins, "max_features": "all" })));
    let same = |n: u32| (0..4).map(|f| (format!("x{f}"), n)).collect::<std::collections::BTreeMap<_, _>>();
    let borders = |forest: &Forest| forest.features.iter().map(|f| f.borders.len()).collect::<Vec<_>>();
    let (plain, own) = (fit(json!(255)), fit(json!({ "x0": 2, "x3": 4 })));
    assert!(borders(&own)[0] <= 1 && borders(&own)[3] <= 3, "{:?}", borders(&own));
    assert_eq!(
        borders(&own)[1..3].iter().map(|n| *n > 3).collect::<Vec<_>>(),
        borders(&plain)[1..3].iter().map(|n| *n > 3).collect::<Vec<_>>()
    );
    assert_eq!(own.params.to_json()["bins"], json!({ "x0": 2, "x3": 4 }));
    assert!(fit(json!({})).to_bytes() == plain.to_bytes());
    assert_eq!(fit(json!(same(7))).trees, fit(json!(7)).trees);
    let version = |forest: &Forest| u32::from_le_bytes(forest.to_bytes()[8..12].try_into().expect("four bytes"));
    assert_eq!((version(&own), version(&fit(json!(7)))), (7, 1));
    assert!(Forest::from_bytes(&own.to_bytes()).expect("a forest").to_bytes() == own.to_bytes());
    assert_eq!(Forest::from_json(&own.to_json().to_string()).expect("a forest").params, own.params);
    let told = |bins: serde_json::Value| try_grow(&table, &params(json!({ "trees": 1, "bins": bins }))).expect_err("no such").to_string();
    assert!(told(json!({ "x9": 3 })).starts_with("parameter `bins`: there is no feature `x9`; did you mean `x"));
}
