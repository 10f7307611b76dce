//! Bad input of sparse logistic regression: each a clear error that names the thing, or the meaning that is documented.

use serde_json::json;
use std::sync::atomic::{AtomicU32, Ordering};
use taiga_engine::column::{Bits, Chunk, Column, Values};
use taiga_engine::dataset::{Monitor, Quiet, Target};
use taiga_engine::learners::linear::{
    Input, Items, LinearModel, LinearParams, ListChunk, ListColumn, Offsets, Predictor, SparseRows, Texts, fit,
};
use taiga_engine::{Error, Result};
use taiga_testing::linear::{Table, assert_error, labels, lists, params};

fn good() -> Table {
    let rows: Vec<Vec<(i64, f64)>> = (0..30).map(|i| vec![(i % 5, 1.0), (5 + i % 3, 0.5)]).collect();
    Table::new(&rows, (0..30).map(|i| (i % 5 > 2) as u32).collect(), 2)
}

fn fit_with(change: impl Fn(&mut Table), p: serde_json::Value) -> Result<LinearModel> {
    let mut table = good();
    change(&mut table);
    table.try_fit(p)
}

/// Proves that what is wrong in a row is refused with the column's name and the row, before anything is computed.
#[test]
fn rows_that_cannot_be_are_refused() {
    for optimizer in ["lbfgs", "ftrl"] {
        let p = || json!({ "optimizer": optimizer });
        assert_error(fit_with(|t| t.numbers[7] = -3, p()), &["`f`", "-3", "row 3", "negative"]);
        assert_error(fit_with(|t| t.numbers[8] = 9, json!({ "features": 9 })), &["`f`", "9", "row 4", "features=9"]);
        assert!(fit_with(|t| t.numbers[8] = 9, json!({ "features": 10 })).is_ok());
        for (x, words) in [(f64::NAN, ["NaN", "not finite"]), (f64::INFINITY, ["inf", "not finite"]), (1e300, ["1000", "f32"])] {
            let text = fit_with(|t| t.values.as_mut().unwrap()[5] = x, p()).unwrap_err().to_string();
            assert!(text.contains("`v`") && text.contains("row 2") && words.iter().all(|w| text.contains(w)), "{text}");
        }
    }
    let unsigned = [u64::MAX; 60];
    let table = good();
    let largest = SparseRows { features: lists("f", &table.offsets, Values::U64(&unsigned)), values: None };
    assert_error(fit(&Input { sparse: Some(largest), ..table.input() }, &LinearParams::default(), &Quiet), &["`f`", "too large"]);
    let values = table.values.clone().unwrap();
    let with = |offsets: &[i64]| {
        let sparse = SparseRows { values: Some(lists("v", offsets, Values::F64(&values))), ..table.sparse() };
        fit(&Input { sparse: Some(sparse), ..table.input() }, &LinearParams::default(), &Quiet)
    };
    let mut shorter = table.offsets.clone();
    shorter[4] -= 1;
    assert_error(with(&shorter), &["`v`", "1 values", "row 3", "`f`", "2 features"]);
    assert_error(with(&table.offsets[..30]), &["`v`", "29 rows", "`f`", "30"]);
    let mut broken = table.offsets.clone();
    broken[30] = 1_000;
    assert_error(with(&broken), &["`v`", "offsets"]);
    broken[30] = 60;
    broken[3] = 60;
    assert_error(with(&broken), &["`v`", "offsets"]);
    let floats = SparseRows { features: lists("f", &table.offsets, Values::F64(&values)), values: None };
    assert_error(fit(&Input { sparse: Some(floats), ..table.input() }, &LinearParams::default(), &Quiet), &["`f`", "integers"]);
}

/// Proves that tables that can't be fitted on are refused.
#[test]
fn tables_that_cannot_be_fitted_on_are_refused() {
    let p = || json!({});
    assert_error(fit_with(|t| t.codes = vec![1; 30], p()), &["`y`", "one class"]);
    assert_error(fit_with(|t| t.codes[3] = 2, p()), &["`y`", "class 2"]);
    assert_error(fit_with(|t| t.weight = Some(vec![0.0; 30]), p()), &["`w`", "zero"]);
    assert_error(fit_with(|t| t.weight = Some(vec![-1.0; 30]), p()), &["`w`", "-1"]);
    assert_error(fit_with(|t| t.weight = Some(vec![1.0; 29]), p()), &["`w`", "29", "30"]);
    assert_error(fit_with(|t| t.dense = vec![vec![f64::NAN; 30]], p()), &["`d0`", "NaN", "30 of 30"]);
    assert_error(fit_with(|t| t.dense = vec![vec![f64::INFINITY; 30]], p()), &["`d0`", "infinite"]);
    assert_error(fit_with(|t| t.dense = vec![vec![1.0; 7]], p()), &["`d0`", "7", "30"]);
    assert_error(fit_with(|t| t.held_out = Some(vec![true; 30]), p()), &["0 training rows"]);
    assert_error(fit_with(|t| t.held_out = Some(vec![false; 30]), p()), &["`eval`", "no row"]);
    assert_error(fit_with(|t| t.offsets.truncate(11), p()), &["`f`", "10 rows", "30"]);
    let empty = Table { offsets: vec![0], classes: 2, ..Default::default() };
    assert_error(empty.try_fit(p()), &["no rows"]);
    let table = good();
    let fit_input = |change: &dyn Fn(&mut Input<'_>)| {
        let mut input = table.input();
        change(&mut input);
        fit(&input, &LinearParams::default(), &Quiet)
    };
    assert_error(fit_input(&|i| i.sparse = None), &["no features"]);
    assert_error(fit_input(&|i| i.target = Target::Numbers(Column::from_f64("y", &[1.0; 30]))), &["`y`", "classes"]);
    let column = Column::from_f64("x", &[1.0; 30]);
    assert_error(fit_input(&|i| i.dense = vec![column.clone(), column.clone()]), &["`x`", "twice"]);
    // No entry at all is a table of rows that are alike.
    let rows = vec![vec![]; 30];
    let blank = Table::new(&rows, table.codes.clone(), 2);
    for optimizer in ["lbfgs", "sgd", "adagrad", "ftrl"] {
        let model = blank.fit(json!({ "optimizer": optimizer, "epochs": 50 }));
        assert!(model.numbers.is_empty());
        let share = table.codes.iter().sum::<u32>() as f64 / 30.0;
        assert!((model.intercepts[0] - (share / (1.0 - share)).ln()).abs() < 0.2, "{optimizer} {:?}", model.intercepts);
    }
}

/// Proves that parameters out of range, or that don't go together, are refused by name.
#[test]
fn parameters_are_checked() {
    for (p, words) in [
        (json!({ "optimizer": "adam" }), vec!["`optimizer`", "adam"]),
        (json!({ "epochs": 0 }), vec!["`epochs`"]),
        (json!({ "batch": 10 }), vec!["`batch`", "lbfgs"]),
        (json!({ "optimizer": "sgd", "batch": 0 }), vec!["`batch`"]),
        (json!({ "learning_rate": 0.1 }), vec!["`learning_rate`", "lbfgs"]),
        (json!({ "optimizer": "ftrl", "learning_rate": 0.0 }), vec!["`learning_rate`"]),
        (json!({ "optimizer": "ftrl", "tolerance": 0.1 }), vec!["`tolerance`", "lbfgs"]),
        (json!({ "l1": -1.0 }), vec!["`l1`"]),
        (json!({ "l2": -1.0 }), vec!["`l2`"]),
        (json!({ "features": 0 }), vec!["`features`"]),
        (json!({ "hash_bits": 31 }), vec!["`hash_bits`"]),
        (json!({ "metric": "rmse" }), vec!["`metric`", "rmse"]),
        (json!({ "class_weight": { "c0": -1.0 } }), vec!["`class_weight`", "c0"]),
        (json!({ "device": "tpu" }), vec!["`device`", "tpu"]),
        (json!({ "learning_rte": 1.0 }), vec!["learning_rte", "did you mean `learning_rate`"]),
    ] {
        assert_error(LinearParams::from_json(&p), &words);
    }
    assert_error(good().try_fit(json!({ "early_stopping": 3 })), &["`early_stopping`", "eval"]);
    assert_error(good().try_fit(json!({ "metric": "auc" })), &["`metric`", "eval"]);
    assert_error(good().try_fit(json!({ "hash_bits": 10 })), &["`hash_bits`", "`f`", "numbers"]);
    assert_error(good().try_fit(json!({ "class_weight": { "maybe": 1.0 } })), &["`class_weight`", "maybe"]);
    let held = |t: &mut Table| t.held_out = Some((0..30).map(|i| i < 10).collect());
    assert_error(fit_with(held, json!({ "metric": "multiclass" })), &["`metric`", "multiclass", "two classes"]);
    let balanced = good().fit(json!({ "class_weight": "balanced" }));
    assert!(balanced.intercepts[0] > good().fit(json!({})).intercepts[0]);
    let text = params(json!({ "optimizer": "ftrl", "n_threads": 3 })).to_json();
    assert!(text.get("n_threads").is_none() && text.get("optimizer") == Some(&json!("ftrl")));
}

/// Strings of a slice.
struct Slice<'a>(&'a [Option<&'a str>]);
impl Texts for Slice<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, i: usize) -> Option<&str> {
        self.0[i]
    }
}

/// Proves that a null list is an empty one, and null strings are not there.
#[test]
fn nulls_mean_nothing_there() {
    let (numbers, codes) = ([1i32, 2, 1, 3, 7, 7, 2, 3], [0u32, 1, 0, 1]);
    let valid = [0b1011u8];
    let column = |offsets, items| ListColumn {
        name: "f".into(),
        chunks: vec![ListChunk { offsets, validity: Some(Bits::new(&valid, 0, 4)), items }],
    };
    let input = |features| Input {
        sparse: Some(SparseRows { features, values: None }),
        dense: vec![],
        target: Target::Classes { codes: &codes, labels: labels(2) },
        target_name: "y".into(),
        weight: None,
        held_out: None,
    };
    let p = params(json!({ "l2": 0.1 }));
    let null = |items| fit(&input(column(Offsets::Fixed { width: 2, rows: 4 }, items)), &p, &Quiet).unwrap();
    let with_null = null(Items::Numbers(Chunk::new(Values::I32(&numbers), None)));
    assert_eq!(with_null.numbers, [1, 2, 3]);
    let plain = ListColumn { name: "f".into(), chunks: vec![] };
    let empty = [1i32, 2, 1, 3, 2, 3];
    let chunk =
        ListChunk { offsets: Offsets::I64(&[0, 2, 4, 4, 6]), validity: None, items: Items::Numbers(Chunk::new(Values::I32(&empty), None)) };
    let without = fit(&input(ListColumn { chunks: vec![chunk], ..plain }), &p, &Quiet).unwrap();
    assert_eq!(without.to_bytes(), with_null.to_bytes());

    let texts: [Option<&str>; 8] = [Some("a"), None, Some("b"), None, None, None, Some("a"), Some("b")];
    let texts = Slice(&texts);
    let model = null(Items::Texts(&texts));
    assert_eq!(model.numbers.len(), 2);
    assert_error(
        fit(&input(column(Offsets::Fixed { width: 2, rows: 4 }, Items::Texts(&texts))), &params(json!({ "features": 3 })), &Quiet),
        &["`features`", "strings", "hash_bits"],
    );
}

/// Proves what predict refuses, and that a feature the model does not know counts for nothing.
#[test]
fn what_predict_takes() {
    let mut table = good();
    table.dense = vec![(0..30).map(f64::from).collect()];
    let model = table.fit(json!({ "features": 10 }));
    let predictor = Predictor::new(model.clone());
    let columns = table.columns();
    let dense = predictor.bind(&columns).unwrap();
    assert_error(predictor.bind(&[]), &["`d0`", "missing"]);
    assert_error(predictor.raw(None, &dense), &["`f`", "needs"]);
    assert_error(predictor.raw(Some(&table.sparse()), &[]), &["dense"]);
    assert_error(predictor.raw(Some(&SparseRows { values: None, ..table.sparse() }), &dense), &["`v`"]);
    let score = |number: i64| {
        let (numbers, values, x) = ([number, 2], [1.0, 1.0], [0.5]);
        let column = Column::from_f64("d0", &x);
        let rows =
            SparseRows { features: lists("f", &[0, 2], Values::I64(&numbers)), values: Some(lists("v", &[0, 2], Values::F64(&values))) };
        predictor.raw(Some(&rows), &[&column])
    };
    assert_eq!(score(9).unwrap(), score(1_000_000_000_000).unwrap());
    assert_ne!(score(9).unwrap(), score(3).unwrap());
    assert_error(score(-1), &["`f`", "-1", "negative"]);
    // A score is the sum of its products.
    let raw = table.raw(&model);
    let weight = |n: i64| model.numbers.iter().position(|m| *m == n as u64).map_or(0.0, |i| model.weights[i] as f64);
    for (i, score) in raw[0].iter().enumerate() {
        let sum = model.intercepts[0] + model.dense_weights[0] * i as f64 + table.row(i).iter().map(|(f, x)| weight(*f) * x).sum::<f64>();
        assert!((score - sum).abs() < 1e-12);
    }
}

/// Proves that a fit ends when it is asked to, and tells of every pass.
#[test]
fn a_monitor_is_told_and_obeyed() {
    struct Counter(AtomicU32, u32);
    impl Monitor for Counter {
        fn round(&self, done: u32, total: u32, metric: Option<f64>) {
            assert_eq!(done, self.0.fetch_add(1, Ordering::Relaxed) + 1);
            assert!(total >= done && metric.is_none());
        }
        fn interrupted(&self) -> bool {
            self.0.load(Ordering::Relaxed) >= self.1
        }
    }
    for optimizer in ["lbfgs", "sgd", "adagrad", "ftrl"] {
        let p = params(json!({ "optimizer": optimizer, "epochs": 4, "l1": 1e-4 }));
        let counter = Counter(AtomicU32::new(0), 1_000);
        let model = fit(&good().input(), &p, &counter).unwrap();
        assert_eq!(model.passes, counter.0.into_inner());
        let counter = Counter(AtomicU32::new(0), 2);
        assert_eq!(fit(&good().input(), &p, &counter).unwrap_err(), Error::Interrupted);
    }
}

/// Proves that offsets which are not those of lists are told as that, before anything is reserved or read by them.
#[test]
fn offsets_of_no_lists_are_told() {
    let (numbers, codes) = ([1i64, 2], [0u32, 1]);
    for offsets in [[0, 1, i64::MAX], [0, i64::MAX, 2], [0, 2, 1], [-1, 0, 2], [i64::MIN, 0, 2], [i64::MAX, i64::MAX, i64::MAX]] {
        let input = Input {
            sparse: Some(SparseRows { features: lists("f", &offsets, Values::I64(&numbers)), values: None }),
            dense: vec![],
            target: Target::Classes { codes: &codes, labels: labels(2) },
            target_name: "y".into(),
            weight: None,
            held_out: None,
        };
        assert_error(fit(&input, &params(json!({})), &Quiet), &["column `f`", "its offsets are not those of lists"]);
    }
}
