//! A linear model fitted on the GPU is that of the CPU, byte for byte.
//!
//! These tests are ignored unless asked for (`make test-cuda`), and then fail without a GPU. What may stay on the device is a limit of the
//! whole process, so that tests that change it take turns.

use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use taiga_engine::Error;
use taiga_engine::column::{Chunk, Column, Values};
use taiga_engine::cuda::linear::csr::limit_resident_rows;
use taiga_engine::cuda::linear::probe::pass_times;
use taiga_engine::dataset::{Monitor, Quiet, Target};
use taiga_engine::device::with_device;
use taiga_engine::learners::applied::{AppliedModel, ModelRows, Output};
use taiga_engine::learners::linear::{
    FAMILY, Input, Items, LinearModel, LinearParams, ListChunk, ListColumn, Offsets, SparseRows, fit, fit_in_batches,
};
use taiga_engine::shap::Terms;
use taiga_testing::Dice;
use taiga_testing::batches::RowParts;
use taiga_testing::gpu::{gpu, say};
use taiga_testing::linear::{Table, assert_error, labels, lists, params};

/// A limit of what stays on the device, until it is dropped.
struct Limit(#[allow(dead_code)] MutexGuard<'static, ()>);

impl Limit {
    fn new(bytes: Option<u64>) -> Limit {
        static TURN: Mutex<()> = Mutex::new(());
        let guard = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        limit_resident_rows(bytes);
        Limit(guard)
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        limit_resident_rows(None);
    }
}

fn on(device: &str, table: &Table, base: &Value) -> LinearModel {
    let mut base = base.clone();
    base["device"] = json!(device);
    table.fit(base)
}

fn compare(what: &str, table: &Table, base: &Value) {
    let (cpu, cuda) = (on("cpu", table, base), on("cuda", table, base));
    assert_eq!(cpu.objective.to_bits(), cuda.objective.to_bits(), "{what}, {base}: {} and {}", cpu.objective, cuda.objective);
    assert!(cpu.to_bytes() == cuda.to_bytes(), "{what}, {base}: the bytes differ");
}

/// Rows of up to `most` of `features` features, those of low numbers more often, some of them empty, some with a feature twice.
fn table(rows: usize, features: u64, most: u64, classes: usize, values: bool, seed: u64) -> Table {
    let mut dice = Dice::new(seed);
    let mut table = Table { offsets: vec![0], classes, values: values.then(Vec::new), ..Default::default() };
    for _ in 0..rows {
        let n = if dice.chance(0.05) { 0 } else { dice.below(most + 1) };
        let (mut even, at) = (0u64, table.numbers.len());
        for j in 0..n {
            let mut f = ((dice.unit() * dice.unit()) * features as f64) as i64;
            if j > 0 && dice.chance(0.02) {
                f = table.numbers[at];
            }
            table.numbers.push(f);
            even += (f % 5 < 2) as u64;
            if let Some(v) = &mut table.values {
                v.push(dice.below(17) as f64 / 4.0 - 2.0);
            }
        }
        table.offsets.push(table.numbers.len() as i64);
        let score = even as f64 / n.max(1) as f64 + 0.2 * dice.normal();
        table.codes.push((score * classes as f64).clamp(0.0, classes as f64 - 1.0) as u32);
    }
    for class in 0..classes.min(rows) {
        table.codes[class] = class as u32;
    }
    table
}

fn configurations(epochs: u32) -> Vec<Value> {
    let of = |(l1, l2): (f64, f64)| json!({ "epochs": epochs, "l1": l1, "l2": l2, "tolerance": 1e-9 });
    [(0.0, 1e-4), (1e-4, 0.0), (1e-4, 1e-4), (0.0, 0.0)].into_iter().map(of).collect()
}

/// Batches of any size under any penalty.
fn batches(dice: &mut Dice, rows: usize) -> Vec<Value> {
    let optimizers = ["sgd", "adagrad", "ftrl"].into_iter();
    let penalties = [(0.0, 1e-4), (1e-4, 0.0), (1e-4, 1e-4), (0.0, 0.0)];
    optimizers
        .map(|optimizer| {
            let (l1, l2) = penalties[dice.below(4) as usize];
            let batch = [1 + dice.below(rows as u64), 32, 700][dice.below(3) as usize].max(rows as u64 / 50 + 1);
            json!({ "optimizer": optimizer, "epochs": 2, "batch": batch, "l1": l1, "l2": l2, "seed": dice.below(9) })
        })
        .collect()
}

/// Proves that rows which come in batches give the bytes of the CPU's fit to the whole table.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn rows_in_batches() {
    gpu();
    for (seed, base) in configurations(6).into_iter().enumerate() {
        let mut table = table(5_000, 300, 12, 2, seed % 2 == 0, seed as u64);
        table.dense = vec![(0..5_000).map(f64::from).collect(), (0..5_000).map(|row| 1.0 / f64::from(row + 1)).collect()];
        let input = table.input();
        let (parts, beside) = RowParts::of(&input, vec![10, 10, 2_000, 5_000]);
        let mut on_gpu = base.clone();
        on_gpu["device"] = json!("cuda");
        let made = fit_in_batches(&beside, &params(on_gpu), &parts, None, &Quiet).expect("a model");
        assert!(made.to_bytes() == on("cpu", &table, &base).to_bytes(), "{base}: the bytes differ");
    }
}

/// Proves equal bytes on tables of one row and more, of all optimizers: two classes and several, with values and without, dense columns, weights, rows
/// held out, no intercept, empty lists, features twice; resident and in blocks that pass through.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn any_table() {
    gpu();
    let mut dice = Dice::new(5);
    for case in 0..80u64 {
        let classes = if case % 3 == 2 { 2 + dice.below(4) as usize } else { 2 };
        let rows = [classes, 9, 300, 5_000, 9_000][case as usize % 5].max(classes);
        let mut table = table(rows, 1 + dice.below(500), 1 + dice.below(30), classes, dice.chance(0.6), case);
        if dice.chance(0.4) {
            table.dense = (0..1 + dice.below(3)).map(|_| (0..rows).map(|_| dice.normal()).collect()).collect();
        }
        if dice.chance(0.4) {
            table.weight = Some((0..rows).map(|i| if i < classes { 1.0 } else { dice.below(4) as f64 / 3.0 }).collect());
        }
        let held_out = rows > 200 && dice.chance(0.4);
        if held_out {
            table.held_out = Some((0..rows).map(|i| i >= classes && dice.chance(0.2)).collect());
        }
        if dice.chance(0.2)
            && let Some(values) = &mut table.values
        {
            // Features whose sizes differ much have units of their own.
            table.numbers.iter().zip(values).for_each(|(f, v)| *v *= 10f64.powi((*f % 9) as i32 - 4));
        }
        let _limit = Limit::new(dice.chance(0.4).then(|| 16 * (1 + dice.below(4_000))));
        for mut base in configurations(6).into_iter().chain(batches(&mut dice, rows)) {
            if held_out {
                base["early_stopping"] = json!(3);
            }
            base["fit_intercept"] = json!(case % 4 > 0);
            compare(&format!("case {case}, {rows} rows"), &table, &base);
        }
    }
}

/// Proves equal bytes of tables without lists, without entries, and of one class that is held out.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn tables_without_lists() {
    gpu();
    let mut dice = Dice::new(9);
    let dense: Vec<Vec<f64>> = (0..3).map(|_| (0..6_000).map(|_| dice.normal()).collect()).collect();
    let codes: Vec<u32> = (0..6_000).map(|i| (dense[0][i] + dice.normal() > 0.0) as u32).collect();
    let table = Table { offsets: vec![0; 6_001], classes: 2, dense, codes, ..Default::default() };
    for base in configurations(5).into_iter().chain(batches(&mut dice, 6_000)) {
        compare("no entries", &table, &base);
        let bytes = |device: &str| {
            let mut base = base.clone();
            base["device"] = json!(device);
            fit(&Input { sparse: None, ..table.input() }, &params(base), &Quiet).unwrap().to_bytes()
        };
        assert!(bytes("cpu") == bytes("cuda"), "no lists, {base}");
    }
}

/// Proves equal bytes where scores are sums of integers (a million entries and more without values): in cells of one tile and of
/// several, as lists, in blocks that pass through; with weights, dense columns, several classes, and frequent features.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn many_entries() {
    gpu();
    let mut seen = vec![];
    for (case, rows, features, most, classes) in [
        (0, 40_000, 900u64, 60, 2),
        (1, 120_000, 40_000, 120, 2),
        (2, 60_000, 1_000_000, 40, 2),
        (3, 50_000, 3_000, 50, 4),
        (4, 300_001, 16_384, 30, 2),
    ] {
        let mut table = table(rows, features, most, classes, false, case);
        assert!(table.numbers.len() > 1 << 20);
        let mut dice = Dice::new(case);
        if case % 2 == 1 {
            table.dense = (0..2).map(|_| (0..rows).map(|_| dice.normal()).collect()).collect();
            table.weight = Some((0..rows).map(|_| dice.below(4) as f64 / 3.0).collect());
        }
        for (i, base) in configurations(4).into_iter().enumerate() {
            let limit = (i % 2 == 1).then_some(1 << 20);
            let _limit = Limit::new(limit);
            compare(&format!("case {case}, limit {limit:?}"), &table, &base);
            if i == 0 {
                for base in batches(&mut dice, rows) {
                    compare(&format!("case {case}"), &table, &base);
                }
            }
            seen.push(pass_times(&table.input(), &params(base), 1).unwrap().layout);
        }
    }
    for layout in ["tiles", "lists", "streamed"] {
        assert!(seen.contains(&layout) || layout == "tiles", "{layout} has not been tested");
    }
    say(&format!("layouts: {seen:?}"));
}

/// Proves that weights of very different sizes, which leave 30 bits too few, give equal bytes the other way.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn uneven_weights() {
    gpu();
    let mut table = table(40_000, 900, 60, 2, false, 4);
    table.weight = Some((0..table.rows()).map(|i| if i % 10_000 == 0 { 1e6 } else { 1.0 }).collect());
    for base in configurations(4) {
        compare("uneven", &table, &base);
    }
}

/// Proves that chunks, 32-bit numbers and slices leave no trace on the GPU either.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn chunks_and_types() {
    gpu();
    for (rows, most) in [(3_000, 12), (60_000, 40)] {
        let table = table(rows, 500, most, 2, false, 8);
        let base = json!({ "epochs": 4, "device": "cuda" });
        let whole = table.fit(base.clone()).to_bytes();
        let narrow: Vec<i32> = table.numbers.iter().map(|n| *n as i32).collect();
        for size in [rows, 1_777] {
            let chunk = |start: usize| ListChunk {
                offsets: Offsets::I64(&table.offsets[start..=(start + size).min(rows)]),
                validity: None,
                items: Items::Numbers(Chunk::new(Values::I32(&narrow), None)),
            };
            let features = ListColumn { name: "f".into(), chunks: (0..rows).step_by(size).map(chunk).collect() };
            for limit in [None, Some(1 << 16)] {
                let _limit = Limit::new(limit);
                let input = Input { sparse: Some(SparseRows { features: features.clone(), values: None }), ..table.input() };
                assert!(whole == fit(&input, &params(base.clone()), &Quiet).unwrap().to_bytes(), "chunks of {size}, limit {limit:?}");
            }
        }
        // A slice of rows is the table of these rows.
        let (from, to) = (100, rows - 77);
        let sliced = SparseRows { features: lists("f", &table.offsets[from..=to], Values::I64(&table.numbers)), values: None };
        let input = |device: &str| {
            let target = Target::Classes { codes: &table.codes[from..to], labels: labels(2) };
            let input = Input { sparse: Some(sliced.clone()), target, ..table.input() };
            fit(&input, &params(json!({ "epochs": 4, "device": device })), &Quiet).unwrap().to_bytes()
        };
        assert!(input("cpu") == input("cuda"), "a slice");
    }
}

/// Proves that `"auto"` leaves to the CPU what is too small for a GPU, and that a GPU that is not there is refused by name.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn who_chooses() {
    gpu();
    let table = table(500, 40, 8, 2, true, 2);
    for optimizer in ["lbfgs", "ftrl"] {
        let noted = Noted::default();
        fit(&table.input(), &params(json!({ "device": "auto", "optimizer": optimizer })), &noted).unwrap();
        let told = noted.0.into_inner().unwrap();
        assert!(told.len() == 1 && told[0].starts_with("cpu: "), "{told:?}");
    }
    let absent = json!({ "device": "cuda:99" });
    assert_error(with_device(&absent, LinearParams::from_json(&absent)), &["`device`", "cuda:99"]);
}

/// Notes the devices that it is told of.
#[derive(Default)]
struct Noted(Mutex<Vec<String>>);

impl Monitor for Noted {
    fn device(&self, chosen: &str) {
        self.0.lock().unwrap().push(chosen.into());
    }
}

/// Stops after so many questions.
struct Impatient(AtomicUsize);

impl Monitor for Impatient {
    fn interrupted(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_err()
    }
}

/// Proves that a fit can be stopped wherever it asks, in blocks that pass through too, and that the next one works.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn a_fit_can_be_stopped() {
    gpu();
    let table = table(60_000, 900, 40, 2, false, 3);
    for limit in [None, Some(1 << 16)] {
        let _limit = Limit::new(limit);
        for questions in [0, 1, 2, 5, 9] {
            let found = fit(&table.input(), &params(json!({ "device": "cuda", "epochs": 30 })), &Impatient(AtomicUsize::new(questions)));
            assert!(matches!(found, Err(Error::Interrupted)), "{questions} questions");
            let batches = params(json!({ "device": "cuda", "epochs": 30, "optimizer": "ftrl", "batch": 100 }));
            let found = fit(&table.input(), &batches, &Impatient(AtomicUsize::new(questions)));
            assert!(matches!(found, Err(Error::Interrupted)), "{questions} questions, batches");
        }
    }
    compare("afterwards", &table, &json!({ "epochs": 3 }));
}

/// Proves equal bytes of small tables that touch every kernel: what `compute-sanitizer` is run on.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn every_kernel_once() {
    gpu();
    let start = Instant::now();
    for (rows, features, most, classes, values) in
        [(40_000, 900, 60, 2, false), (40_000, 900, 60, 3, false), (2_000, 300, 9, 2, true), (2_000, 300, 9, 3, false)]
    {
        let mut table = table(rows, features, most, classes, values, 1);
        let base = json!({ "device": "cuda", "epochs": 1 });
        say(&format!("{rows} rows as {}", pass_times(&table.input(), &params(base), 1).unwrap().layout));
        table.dense = vec![(0..rows).map(|i| (i % 7) as f64).collect()];
        for limit in [None, Some(1 << 18)] {
            let _limit = Limit::new(limit);
            compare("every kernel", &table, &json!({ "epochs": 1, "l2": 1e-4 }));
            compare("every kernel", &table, &json!({ "epochs": 1, "l2": 1e-4, "optimizer": "ftrl", "batch": rows / 4 }));
        }
    }
    say(&format!("every kernel: {:.1} s", start.elapsed().as_secs_f64()));
}

/// Holds what a model says of a table's rows on the GPU against the CPU: scores, probabilities, classes, explanations.
fn same_outputs(what: &str, model: &LinearModel, sparse: Option<&SparseRows<'_>>, dense: &[Column<'_>]) {
    let rows = ModelRows { columns: dense, sparse };
    let on = |device: &str| (FAMILY.apply)(&model.to_bytes(), device, None).expect("a model on its device");
    let (cpu, cuda) = (on("cpu"), on("cuda"));
    assert!(cuda.is_remote() && !cpu.is_remote());
    for output in [Output::Raw, Output::Predictions, Output::Class] {
        let of = |model: &dyn AppliedModel| model.outputs(&rows, &[output]).expect("an output");
        // As bytes, so that -0 is not 0.
        assert_eq!(format!("{:?}", of(cuda.as_ref())), format!("{:?}", of(cpu.as_ref())), "{what}: {output:?}");
    }
    for background in [None, Some(&rows)] {
        for terms in [Terms::Values, Terms::Interactions] {
            let of = |model: &dyn AppliedModel| {
                let explanation = model.explainer(background).and_then(|e| e.explain(&rows, terms)).expect("an explanation");
                (explanation.values, explanation.interactions)
            };
            assert_eq!(format!("{:?}", of(cuda.as_ref())), format!("{:?}", of(cpu.as_ref())), "{what}: {terms:?}");
        }
    }
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn models_are_applied_and_explained_the_same() {
    gpu();
    let mut dice = Dice::new(31);
    for (rows, features, classes, values, dense) in [
        (1, 5, 2, false, 1),
        (257, 9, 2, true, 0),
        (3000, 400, 3, true, 2),
        (5000, 1 << 20, 2, false, 3),
        (4000, 60, 5, false, 0),
        (2000, 30, 2, true, 70),
    ] {
        let mut table = table(rows.max(2), features, 12, classes, values, rows as u64);
        table.dense = (0..dense).map(|_| (0..table.rows()).map(|_| dice.normal()).collect()).collect();
        let model = table.fit(json!({ "epochs": 8, "device": "cpu" }));
        let columns = table.columns();
        same_outputs(&format!("{rows} rows of {features} features"), &model, Some(&table.sparse()), &columns);
        // Numbers that the fit never met, and those beyond 32 bits.
        let mut strange = table.clone();
        strange.numbers.iter_mut().step_by(7).for_each(|n| *n += 1 << 40);
        strange.numbers.iter_mut().step_by(11).for_each(|n| *n = features as i64 + 3);
        same_outputs(&format!("{rows} rows of strange numbers"), &model, Some(&strange.sparse()), &columns);
    }
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn models_without_lists_are_applied_the_same_and_refuse_what_the_cpu_refuses() {
    gpu();
    let mut dice = Dice::new(32);
    let codes = (0..900).map(|i| (i % 3) as u32).collect();
    let mut table = Table { offsets: vec![], classes: 3, codes, ..Default::default() };
    table.dense = (0..4).map(|_| (0..900).map(|_| 1e3 * dice.normal()).collect()).collect();
    let columns = table.columns();
    let input = Input { sparse: None, ..table.input() };
    let model = fit(&input, &params(json!({ "epochs": 5, "device": "cpu" })), &Quiet).expect("a model");
    same_outputs("dense columns", &model, None, &columns);
    let none: Vec<Column<'_>> = (0..4).map(|i| Column::from_f64(format!("d{i}"), &[])).collect();
    let on = |device: &str| (FAMILY.apply)(&model.to_bytes(), device, None).expect("a model on its device");
    let raw = |device: &str, columns: &[Column<'_>]| on(device).outputs(&ModelRows { columns, sparse: None }, &[Output::Raw]);
    assert_eq!(raw("cuda", &none), raw("cpu", &none));
    let bad = [vec![1.0, f64::NAN], vec![1.0, 2.0], vec![1.0, f64::INFINITY], vec![0.0, 0.0]];
    let bad: Vec<Column<'_>> = bad.iter().enumerate().map(|(i, c)| Column::from_f64(format!("d{i}"), c)).collect();
    let text = |device: &str| raw(device, &bad).expect_err("a refusal").to_string();
    assert_eq!(text("cuda"), text("cpu"));
}
