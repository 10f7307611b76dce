//! What a fit, an encoding or a prediction says it will take is what it takes: with a tenth more than its measured peak it is
//! never refused, with half of that it always is, by an error with both figures. Each case runs in a process of its own, whose
//! peak is its own.
#![cfg(target_os = "linux")]

use serde_json::{Value, json};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use taiga_engine::column::Column;
use taiga_engine::column::categories::CategoryColumn;
use taiga_engine::dataset::Quiet;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::device::columns::with_columns;
use taiga_engine::device::predict::{PlacedForest, PlacedPredictor};
use taiga_engine::encoding::target::{EncodingInput, EncodingPlan, EncodingTarget, TargetParams};
use taiga_engine::learners::boosting::model::apply::Predictor;
use taiga_engine::learners::boosting::{BoostingParams, FitOptions};
use taiga_engine::learners::forest::ForestParams;
use taiga_engine::learners::linear::LinearParams;
use taiga_engine::learners::{boosting, forest, linear};
use taiga_engine::quantize::BorderMethod;
use taiga_engine::quantize::borders::BorderParams;
use taiga_engine::stats::{AxisParams, Histogram2dParams};
use taiga_engine::{Error, Result, memory, pages};
use taiga_testing::batches::in_batches;
use taiga_testing::{Dice, Table};

/// A field of this process's status in bytes: what is there now (`VmRSS`), or was at most since [`forget_peak`] (`VmHWM`).
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
}

/// What the work of one case takes, as its process prints it.
enum Outcome {
    /// Bytes at the peak, above what was there before.
    Done(u64),
    Refused(String),
}

/// Runs `work` under the limit that the parent gives, and says how it went.
fn measured<T>(work: impl FnOnce() -> Result<T>) {
    // SAFETY: the call has no memory of ours to do with; large vectors are then given back as soon as they are freed.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20) };
    let before = status("VmRSS");
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let more: Option<u64> = std::env::var("TAIGA_TEST_LIMIT").ok().map(|bytes| bytes.parse().unwrap());
    memory::limit(more.map(|more| before + more));
    match work() {
        Ok(done) => {
            let peak = status("VmHWM").max(status("VmRSS"));
            drop(done);
            println!("\nDONE {}", peak.saturating_sub(before));
        }
        Err(Error::Memory(text)) => println!("\nREFUSED {text}"),
        Err(other) => panic!("{other}"),
    }
}

fn run(case: &str, limit: Option<u64>) -> Outcome {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "in_a_process_of_its_own", "--nocapture", "--test-threads=1"]).env("TAIGA_TEST_CASE", case);
    if let Some(limit) = limit {
        command.env("TAIGA_TEST_LIMIT", limit.to_string());
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{case}: {text}\n{}", String::from_utf8_lossy(&output.stderr));
    for line in text.lines() {
        if let Some(bytes) = line.strip_prefix("DONE ") {
            return Outcome::Done(bytes.parse().unwrap());
        }
        if let Some(why) = line.strip_prefix("REFUSED ") {
            return Outcome::Refused(why.into());
        }
    }
    panic!("{case}: {text}")
}

const CASES: [(&str, fn()); 17] = [
    ("trees of numbers", trees_of_numbers),
    ("trees of classes", trees_of_classes),
    ("trees of categories", trees_of_categories),
    ("deep trees", deep_trees),
    ("trees in batches", || trees_in_batches(json!({ "policy": "depthwise" }))),
    ("symmetric trees in batches", || trees_in_batches(json!({ "min_child_weight": 40000 }))),
    ("lbfgs", || sparse(json!({ "optimizer": "lbfgs", "epochs": 14, "tolerance": 0.0, "n_threads": 2 }))),
    ("lbfgs with l1", || sparse(json!({ "optimizer": "lbfgs", "epochs": 14, "tolerance": 0.0, "l1": 1e-7, "n_threads": 1 }))),
    ("sgd", || sparse(json!({ "optimizer": "sgd", "epochs": 1, "n_threads": 1 }))),
    ("ftrl", || sparse(json!({ "optimizer": "ftrl", "epochs": 1, "n_threads": 1 }))),
    ("a forest", || forests(json!({ "splitter": "histogram" }))),
    ("an exact forest", || forests(json!({ "splitter": "exact" }))),
    ("predictions", predictions),
    ("an encoding", encoding),
    ("an encoder", encoder),
    ("a histogram", histogram),
    ("borders", borders),
];

/// The process of one case; a test of nothing where it is not asked for one.
#[test]
fn in_a_process_of_its_own() {
    if let Ok(case) = std::env::var("TAIGA_TEST_CASE") {
        match &case[..] {
            LAST_ADDRESSES => last_addresses(),
            _ => CASES.iter().find(|(name, _)| *name == case).unwrap().1(),
        }
    }
}

/// Proves for every case that what is asked for is between half and eleven tenths of what is taken, whatever the limit is for,
/// and that a refusal has both figures. Two cases at a time: no process sees another one's memory.
#[test]
fn what_is_asked_for_is_what_is_taken() {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((case, _)) = CASES.get(next.fetch_add(1, Ordering::Relaxed)) {
                    asks_for_what_it_takes(case);
                }
            });
        }
    });
}

fn asks_for_what_it_takes(case: &str) {
    let Outcome::Done(peak) = run(case, None) else { panic!("{case}: refused without a limit") };
    println!("{case}: {} at the peak", memory::size(peak));
    assert!(peak > 30 << 20, "{case}: {} tell nothing", memory::size(peak));
    if let Outcome::Refused(why) = run(case, Some(peak + peak / 10)) {
        panic!("{case}: {} are enough, and it says: {why}", memory::size(peak));
    }
    match run(case, Some(peak / 2)) {
        Outcome::Done(_) => panic!("{case}: takes {} and was let take half", memory::size(peak)),
        Outcome::Refused(why) => {
            assert!(why.contains("needs at least ") && why.contains(" free; "), "{case}: {why}");
        }
    }
}

fn dice(rows: usize, features: usize) -> Vec<Vec<f64>> {
    let mut dice = Dice::new(rows as u64);
    (0..features).map(|_| (0..rows).map(|_| dice.unit()).collect()).collect()
}

fn of_classes(rows: usize, features: usize, classes: usize) -> Table {
    let labels = Labels::Text((0..classes).map(|k| format!("c{k}")).collect());
    Table::classes(dice(rows, features), (0..rows).map(|i| (i % classes) as u32).collect(), labels)
}

fn trees(table: &Table, value: Value) {
    let params = BoostingParams::from_json(&value).unwrap();
    let input = table.input();
    measured(|| boosting::fit(&input, &params, &Quiet));
}

fn trees_of_numbers() {
    let columns = dice(1_000_000, 12);
    let target = columns[0].clone();
    trees(&Table::numbers(columns, target), json!({ "rounds": 1, "depth": 3, "n_threads": 2, "device": "cpu" }));
}

fn trees_of_classes() {
    trees(&of_classes(120_000, 3, 100), json!({ "rounds": 1, "depth": 1, "n_threads": 2, "device": "cpu", "border_sample": 1000 }));
}

fn trees_of_categories() {
    let rows = 400_000;
    let mut dice = Dice::new(5);
    let mut columns: Vec<CategoryColumn> = vec![];
    for f in 0..3 {
        let values: Vec<i64> = (0..rows).map(|_| dice.below(300) as i64).collect();
        columns.push(CategoryColumn::integers(&format!("c{f}"), &[rows], |_, row| Some(values[row])).unwrap());
    }
    let y: Vec<f64> = (0..rows).map(|_| dice.unit()).collect();
    let input = taiga_engine::dataset::Input {
        features: columns.iter().map(Column::categorical).collect(),
        target: taiga_engine::dataset::Target::Numbers(Column::from_f64("y", &y)),
        target_name: "y".into(),
        weight: None,
        baseline: vec![],
        held_out: None,
        loss_columns: Default::default(),
        evaluation: Default::default(),
        order: None,
    };
    let params = json!({ "rounds": 2, "depth": 2, "n_threads": 2, "device": "cpu", "max_combination": 2, "permutations": 4 });
    let params = BoostingParams::from_json(&params).unwrap();
    measured(|| boosting::fit(&input, &params, &Quiet));
}

fn deep_trees() {
    let columns = dice(30_000, 30);
    let target = columns[0].iter().zip(&columns[1]).map(|(a, b)| (30.0 * a).sin() + b).collect();
    let params = json!({ "rounds": 1, "depth": 11, "policy": "depthwise", "n_threads": 2, "device": "cpu", "min_child_weight": 0.0 });
    trees(&Table::numbers(columns, target), params);
}

/// Of so many rows that lists of them, which such trees do without, would be more than a tenth.
fn trees_in_batches(more: Value) {
    let (rows, features) = (2_000_000, 8);
    let columns = dice(rows, features);
    let table = Table::numbers(columns.clone(), columns[0].iter().zip(&columns[1]).map(|(a, b)| (7.0 * a).sin() + b).collect());
    let input = table.input();
    let mut params = json!({ "rounds": 2, "depth": 6, "n_threads": 2, "device": "cpu", "border_sample": 1000, "bins": 64 });
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    let params = BoostingParams::from_json(&params).unwrap();
    measured(|| {
        let ends = (1..=20).map(|k| k * rows / 20).collect();
        in_batches(&input.features, rows, (&|_| true, ends), None, |narrow, batches| {
            let options = FitOptions { batches: Some(batches), ..FitOptions::default() };
            boosting::fit_with(&input.with_features(narrow), &params, &options, &Quiet)
        })
    });
}

fn sparse(params: Value) {
    let (rows, width, classes) = (4_000, 80_000, 30);
    let mut dice = Dice::new(9);
    let rows: Vec<Vec<(i64, f64)>> = (0..rows).map(|_| (0..20).map(|_| (dice.below(width) as i64, 1.0)).collect()).collect();
    let codes = (0..rows.len()).map(|i| (i % classes) as u32).collect();
    let table = taiga_testing::linear::Table::new(&rows, codes, classes);
    let params = LinearParams::from_json(&params).unwrap();
    let input = table.input();
    measured(|| linear::fit(&input, &params, &Quiet));
}

fn forest_of(table: &Table, more: Value) -> Result<forest::Forest> {
    let mut params = json!({ "trees": 2, "depth": 3, "n_threads": 2, "device": "cpu" });
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    let boosted = table.input();
    let input = forest::Input { features: boosted.features, target: boosted.target, target_name: "y".into(), weight: None };
    forest::fit(&input, &ForestParams::from_json(&params).unwrap(), &forest::Quiet)
}

fn forests(more: Value) {
    let table = of_classes(300_000, 8, 20);
    measured(|| forest_of(&table, more));
}

/// Scores after each round, and then a forest's predictions, which are fewer.
fn predictions() {
    let table = of_classes(200_000, 3, 2);
    let params = json!({ "rounds": 60, "depth": 2, "device": "cpu", "border_sample": 1000 });
    let model = boosting::fit(&table.input(), &BoostingParams::from_json(&params).unwrap(), &Quiet).unwrap();
    let placed = PlacedPredictor::new("cpu", Predictor::new(model).into()).unwrap();
    let forest = forest_of(&table, json!({ "trees": 10, "oob": false })).unwrap();
    let forest = PlacedForest::new("cpu", forest::Predictor::new(forest).into()).unwrap();
    let columns = table.features();
    measured(|| {
        let leaves = forest.leaves(&forest.predictor().bind(&columns)?)?;
        let stages = placed.staged(&placed.predictor().bind(&columns)?)?;
        Ok((leaves, stages))
    });
}

fn encoding() {
    let (rows, classes) = (600_000, 10);
    let mut dice = Dice::new(3);
    let codes: Vec<u32> = (0..rows).map(|_| dice.below(500) as u32).collect();
    let target: Vec<u32> = (0..rows).map(|_| dice.below(classes) as u32).collect();
    let params = TargetParams::default();
    let input = EncodingInput { codes: &codes, categories: 500, target: EncodingTarget::Classes(&target, classes as usize), weight: None };
    measured(|| {
        let plan = EncodingPlan::random(rows, &params)?;
        with_columns("cpu", |backend| backend.target_encode(&input, &plan, &params))
    });
}

fn encoder() {
    let (rows, classes, categories) = (800_000, 12, 600_000);
    let codes: Vec<u32> = (0..rows).map(|row| (row % categories) as u32).collect();
    let target: Vec<u32> = (0..rows).map(|row| (row % classes) as u32).collect();
    let params = TargetParams::default();
    let input = EncodingInput { codes: &codes, categories, target: EncodingTarget::Classes(&target, classes), weight: None };
    measured(|| with_columns("cpu", |backend| backend.category_values(&input, &params)));
}

fn histogram() {
    let columns = dice(400_000, 2);
    let axis = || AxisParams { bins: Some(2000), range: Some((0.0, 1.0)), edges: None };
    let params = Histogram2dParams { x: axis(), y: axis(), density: false };
    let (x, y) = (Column::from_f64("x", &columns[0]), Column::from_f64("y", &columns[1]));
    measured(|| with_columns("cpu", |backend| backend.histogram2d(&x, &y, None, &params)));
}

fn borders() {
    let columns = dice(5_000_000, 1);
    let column = Column::from_f64("x", &columns[0]);
    let params = BorderParams { bins: 101, method: BorderMethod::Quantile, sample: usize::MAX, seed: 0 };
    measured(|| with_columns("cpu", |backend| backend.borders(&column, &params)));
}

/// Proves that a fit is not refused for trees that its parameters allow and its rows never grow: 200 equal columns have one
/// column's splits, however deep trees may be.
#[test]
fn trees_that_stay_small_are_not_refused_for_what_deep_ones_would_take() {
    let column = dice(70_000, 1).remove(0);
    let table = Table::numbers(vec![column.clone(); 200], column);
    let params = json!({ "policy": "depthwise", "depth": 16, "border_sample": 1000, "rounds": 1, "bins": 17 });
    assert_eq!(table.fit(&BoostingParams::from_json(&params).unwrap()).rounds(), 1);
}

const LAST_ADDRESSES: &str = "the last addresses";

/// Takes arrays under a limit of addresses until there are no more.
fn last_addresses() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the calls write and read the structure that they are given.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_AS, &mut limit), 0);
        limit.rlim_cur = limit.rlim_max.min(status("VmSize") + (300 << 20));
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &limit), 0);
    }
    let mut arrays: Vec<Vec<u64>> = vec![];
    let refused = loop {
        match [pages::try_zeroed("a test", 1 << 19), pages::try_with_capacity("a test", 1 << 19)] {
            [Ok(zeros), Ok(room)] => arrays.extend([zeros, room]),
            [Err(e), _] | [_, Err(e)] => break e,
        }
    };
    let left = limit.rlim_cur - status("VmSize");
    assert!(left > 28 << 20, "{} are left", memory::size(left));
    println!("\nREFUSED {refused}");
}

/// Proves that large arrays leave addresses for what is small, which ends the process where it can't be had, and that the refusal says so.
#[test]
fn the_last_addresses_are_not_for_arrays() {
    let Outcome::Refused(why) = run(LAST_ADDRESSES, None) else { panic!("nothing was refused") };
    assert!(why.contains("a test needs at least 37.7 MB in one piece, and the limit RLIMIT_AS"), "{why}");
}
