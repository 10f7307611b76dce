//! What becomes of fits whose GPU runs out of memory.

use super::{boosting, forest, linear};
use crate::device::fallback::or_on_cpu;
use crate::device::gpu;
use serde_json::json;
use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};
use taiga_core::column::Column;
use taiga_core::column::categories::CategoryColumn;
use taiga_core::dataset::Monitor;
use taiga_core::dataset::folds::{Division, Folds};
use taiga_core::dataset::labels::Labels;
use taiga_core::error::{DeviceFault, Error, Result};
use taiga_core::learners::boosting::BoostingParams;
use taiga_core::learners::forest::ForestParams;
use taiga_core::learners::linear::LinearParams;

/// What a monitor is told.
#[derive(Default)]
struct Notes {
    devices: Mutex<Vec<String>>,
    rounds: Mutex<Vec<u32>>,
}

impl Notes {
    fn devices(&self) -> Vec<String> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Proves that the GPU was told first and then, where it ran out of memory, the CPU with the figures that were missing.
    fn check_fell_back(&self) {
        let devices = self.devices();
        assert_eq!(devices.len(), 2, "{devices:?}");
        assert!(!devices[0].contains("again"), "{devices:?}");
        let why = "cpu: again from the start: GPU cuda:0: not enough memory: a test needs 2.0 GB, and it has 1.0 GB free of 8.0 GB";
        assert_eq!(devices[1], why);
    }
}

impl Monitor for Notes {
    fn round(&self, done: u32, _: u32, _: Option<f64>) {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner).push(done);
    }

    fn device(&self, chosen: &str) {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner).push(chosen.into());
    }
}

fn refused(fault: DeviceFault) -> Error {
    Error::Device { number: 3, fault, message: "of a test".into() }
}

/// Proves which errors the CPU takes over, and on which `device`: those of memory and of a GPU that can't be used, under `"auto"` alone.
/// What failed for another reason is an error everywhere.
#[test]
fn only_auto_falls_back_and_only_for_memory_or_a_gpu_that_is_gone() {
    let run = |device: &str, error: Error| {
        let (told, asked) = (RefCell::new(vec![]), RefCell::new(vec![]));
        let work = |device: &str| {
            asked.borrow_mut().push(device.to_string());
            if device == "cpu" { Ok(7) } else { Err(error.clone()) }
        };
        let done = or_on_cpu(device, &|why| told.borrow_mut().push(why.to_string()), work);
        (done, told.into_inner(), asked.into_inner())
    };
    for fault in [DeviceFault::Memory, DeviceFault::Unavailable] {
        let (done, told, asked) = run("auto", refused(fault));
        assert_eq!((done, asked), (Ok(7), vec!["auto".to_string(), "cpu".to_string()]));
        assert_eq!(told, ["cpu: again from the start: GPU cuda:3: of a test"]);
        for device in ["cuda", "cuda:3"] {
            assert_eq!(run(device, refused(fault)), (Err(refused(fault)), vec![], vec![device.to_string()]));
        }
    }
    let host = Error::Memory("of the host".into());
    for error in [refused(DeviceFault::Failed), host, Error::Interrupted, Error::parameter("trees", "0")] {
        for device in ["auto", "cuda"] {
            assert_eq!(run(device, error.clone()), (Err(error.clone()), vec![], vec![device.to_string()]));
        }
    }
}

/// Proves that the error of the CPU is the one that is given, where that can't do the work either.
#[test]
fn what_the_cpu_can_not_do_is_its_error() {
    let work = |device: &str| -> Result<()> { Err(if device == "cpu" { Error::Interrupted } else { refused(DeviceFault::Memory) }) };
    assert_eq!(or_on_cpu("auto", &|_| (), work), Err(Error::Interrupted));
}

fn numbers(stream: u64, n: usize) -> Vec<f64> {
    (0..n as u64).map(|i| ((i + 1).wrapping_mul(2 * stream + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f64 / 1e6).collect()
}

/// Fewer, and fewer of the steps, where Miri interprets every instruction.
const ROWS: usize = if cfg!(miri) { 40 } else { 400 };
const STRIDE: u32 = if cfg!(miri) { 17 } else { 1 };

fn boosted(params: serde_json::Value, device: &str, monitor: &dyn Monitor) -> Result<Vec<u8>> {
    let columns: Vec<Vec<f64>> = (0..2).map(|f| numbers(f, ROWS)).collect();
    let category = |f: u64, kinds: u32| -> Vec<u32> { numbers(f, ROWS).iter().map(|x| (*x * 1e6) as u32 % kinds).collect() };
    let (few, many) = (category(5, 9), category(6, 40));
    let text = |name: &str, codes: &[u32]| {
        let names: Vec<String> = codes.iter().map(|c| format!("c{c}")).collect();
        CategoryColumn::text(name, &[ROWS], |_, row| Some(names[row].as_str())).expect("a column")
    };
    let (few_text, many_text) = (text("few", &few), text("many", &many));
    let y: Vec<f64> = (0..ROWS).map(|i| columns[0][i] + (few[i] * many[i] % 5) as f64).collect();
    let held_out: Vec<bool> = (0..ROWS).map(|i| i % 4 == 0).collect();
    let input = taiga_core::dataset::Input {
        features: vec![
            Column::from_f64("a", &columns[0]),
            Column::from_f64("b", &columns[1]),
            Column::categorical(&few_text),
            Column::categorical(&many_text),
        ],
        target: taiga_core::dataset::Target::Numbers(Column::from_f64("y", &y)),
        target_name: "y".into(),
        weight: None,
        baseline: vec![],
        held_out: params["early_stopping"].is_number().then_some(&held_out[..]),
        loss_columns: Default::default(),
        evaluation: Default::default(),
        order: None,
    };
    let params: BoostingParams = serde_json::from_value(params).expect("parameters");
    let params = BoostingParams { device: device.into(), n_threads: Some(1), ..params };
    boosting::fit(&input, &params, monitor).map(|model| model.to_bytes())
}

/// Proves that boosted trees begin again wherever a GPU runs out of memory (at every step of growing, of adding statistics of categories
/// and of their combinations in the middle of a fit, of noise, of scores, of trees that leave them, of leaves and of their quantiles), with the bytes of
/// the CPU.
#[test]
fn boosted_trees_begin_again_from_any_step() {
    for params in [
        json!({ "rounds": 3, "depth": 3, "max_combination": 2, "permutations": 3 }),
        json!({ "rounds": 3, "policy": "leafwise", "leaves": 5, "cat_method": "partition", "early_stopping": 2 }),
        json!({ "rounds": 4, "policy": "depthwise", "depth": 3, "loss": "mae", "cat_method": "one_hot" }),
        json!({ "rounds": 3, "depth": 2, "loss": "log_cosh", "leaf_iterations": 3, "permutations": 2, "max_combination": 1 }),
        json!({ "rounds": 4, "depth": 2, "cat_method": "one_hot", "random_strength": 1.0, "boosting": "dart", "drop_rate": 0.9, "skip_drop": 0.0 }),
    ] {
        let expected = boosted(params.clone(), "cpu", &Notes::default()).expect("a fit");
        let rounds = params["rounds"].as_u64().expect("trees") as u32;
        let mut steps = 0;
        loop {
            let notes = Notes::default();
            let (bytes, ran_out) = gpu::with(steps, || boosted(params.clone(), "auto", &notes));
            assert!(bytes.expect("a fit") == expected, "{params} after {steps} steps");
            // Rounds are told again, from the first one on.
            let told = notes.rounds.lock().expect("rounds").clone();
            let begun = told.iter().rposition(|round| *round == 1).expect("a first round");
            assert!(told[begun..].iter().copied().eq(1..=rounds), "{told:?}");
            if !ran_out {
                assert_eq!((notes.devices().len(), begun), (1, 0));
                break;
            }
            notes.check_fell_back();
            steps += STRIDE;
        }
        assert!(steps > 20, "{params}: {steps} steps");
    }
}

/// Fits to tables of several sizes, one of which can't be fitted, together on `device` or each alone on the CPU.
fn many(params: &serde_json::Value, device: Option<&str>, monitor: &dyn Monitor) -> Vec<std::result::Result<Vec<u8>, String>> {
    let columns: Vec<Vec<f64>> = (0..3).map(|f| numbers(f, ROWS)).collect();
    let target: Vec<f64> = (0..ROWS).map(|i| columns[0][i] + columns[1][i] * columns[2][i]).collect();
    let broken = [f64::INFINITY; 12];
    let weight: Vec<f64> = (0..ROWS).map(|i| (i % 3) as f64).collect();
    let input = |(rows, weighted): (usize, bool)| taiga_core::dataset::Input {
        features: columns.iter().zip(["a", "b", "c"]).map(|(c, name)| Column::from_f64(name, &c[..rows])).collect(),
        target: taiga_core::dataset::Target::Numbers(Column::from_f64("y", if rows == 12 { &broken } else { &target[..rows] })),
        target_name: "y".into(),
        weight: weighted.then(|| Column::from_f64("w", &weight[..rows])),
        baseline: vec![],
        held_out: None,
        loss_columns: Default::default(),
        evaluation: Default::default(),
        order: None,
    };
    let inputs = [(30, false), (ROWS, false), (12, false), (31, false), (40, true), (5, false)].map(input);
    let params: BoostingParams = serde_json::from_value(params.clone()).expect("parameters");
    let params = BoostingParams { device: device.unwrap_or("cpu").into(), n_threads: Some(1), ..params };
    let fitted = match device {
        None => inputs.iter().map(|input| boosting::fit(input, &params, monitor)).collect(),
        Some(_) => {
            let tables = boosting::ManyTables { count: inputs.len(), rows: ROWS, features: 3, threads: 1 };
            let fits = boosting::ManyFits::new(&params, tables, monitor).expect("fits");
            fits.fit(&inputs, 1, monitor).expect("models")
        }
    };
    fitted.into_iter().map(|model| model.map(|model| model.to_bytes()).map_err(|e| e.to_string())).collect()
}

/// Proves that fits to many tables at once have the bytes, and the errors, of each alone: by what grows their trees together, by what is fitted
/// as ever since its tables or its parameters do not suit that, and where the GPU runs out of memory.
#[test]
fn many_tables_are_fitted_as_each_alone() {
    for params in [
        json!({ "rounds": 4, "depth": 3 }),
        json!({ "rounds": 4, "depth": 5, "policy": "depthwise", "min_child_weight": 0, "learning_rate": 0.7 }),
        json!({ "rounds": 3, "policy": "depthwise", "min_data_in_leaf": 4, "l1": 0.1, "loss": "log_cosh" }),
        json!({ "rounds": 3, "policy": "leafwise", "leaves": 5 }),
        json!({ "rounds": 3, "loss": "mae" }),
        json!({ "rounds": 3, "row_sample": "bernoulli", "row_fraction": 0.5 }),
        json!({ "rounds": 3, "monotone": { "a": 1 } }),
        json!({ "rounds": 3, "feature_weights": { "a": 0.5 } }),
        json!({ "rounds": 3, "feature_weights": { "a": 0 } }),
        json!({}),
    ] {
        let alone = many(&params, None, &Notes::default());
        assert_eq!(alone.iter().filter(|fitted| fitted.is_err()).count(), 1, "{params}");
        assert_eq!(many(&params, Some("cpu"), &Notes::default()), alone, "{params}");
        for steps in [0, 1, 3, 100_000] {
            let (together, _) = gpu::with(steps, || many(&params, Some("auto"), &Notes::default()));
            assert!(together == alone, "{params}, {steps} steps");
        }
    }
}

/// Proves that the models of all folds of a small table have the bytes of the CPU's, and those of a search its values: one launch for each parameters
/// grows all their trees, where these suit that, and the others' grow as ever.
#[test]
fn folds_are_fitted_together() {
    let rows = if cfg!(miri) { 40 } else { 120 };
    let columns: Vec<Vec<f64>> = (0..3).map(|f| numbers(f, rows)).collect();
    let target: Vec<f64> = (0..rows).map(|i| columns[0][i] + columns[1][i] * columns[2][i]).collect();
    let weight: Vec<f64> = (0..rows).map(|i| (i % 7) as f64).collect();
    let input = |weighted: bool| taiga_core::dataset::Input {
        features: columns.iter().zip(["a", "b", "c"]).map(|(c, name)| Column::from_f64(name, c)).collect(),
        target: taiga_core::dataset::Target::Numbers(Column::from_f64("y", &target)),
        target_name: "y".into(),
        weight: weighted.then(|| Column::from_f64("w", &weight)),
        baseline: vec![],
        held_out: None,
        loss_columns: Default::default(),
        evaluation: Default::default(),
        order: None,
    };
    let params_on = |params: &serde_json::Value, device: &str| {
        let params: BoostingParams = serde_json::from_value(params.clone()).expect("parameters");
        BoostingParams { device: device.into(), n_threads: Some(1), ..params }
    };
    let together = [
        json!({ "rounds": 4, "depth": 3 }),
        json!({ "rounds": 3, "depth": 4, "policy": "depthwise", "bins": 9 }),
        json!({ "rounds": 2, "depth": 2, "loss": "log_cosh", "learning_rate": 0.5 }),
    ];
    for weighted in [false, true] {
        let input = input(weighted);
        let folds = Folds::new(&input, &Division::Parts(4), 5).expect("folds");
        // Each launch is a step, and each of its tables; of fits alone every step of every tree is.
        let launch = 1 + folds.count;
        let models = |params: &serde_json::Value, device: &str| {
            let fitted = boosting::fit_folds(&input, &params_on(params, device), &folds, &Notes::default()).expect("models");
            fitted.into_iter().map(|fold| (fold.training, fold.tested, fold.model.to_bytes())).collect::<Vec<_>>()
        };
        for params in &together {
            assert!(gpu::with(launch, || models(params, "cuda")).0 == models(params, "cpu"), "{params}");
        }
        for params in [json!({ "rounds": 3, "policy": "leafwise", "leaves": 5 }), json!({ "rounds": 6, "early_stopping": 2 })] {
            assert!(gpu::with(u32::MAX, || models(&params, "cuda")).0 == models(&params, "cpu"), "{params}");
        }
        let searched = |device: &str| {
            let trials: Vec<BoostingParams> = together.iter().map(|params| params_on(params, device)).collect();
            let worth = |model: &boosting::model::Model| model.trees.iter().flat_map(|tree| tree.leaves()).map(|leaf| leaf.value).sum();
            boosting::search(
                (&input, None),
                &trials,
                &folds,
                None,
                &Notes::default(),
                |_| Ok(()),
                |_, _, fold| Ok((worth(&fold.model), false)),
            )
            .expect("trials")
        };
        assert_eq!(gpu::with(together.len() as u32 * launch, || searched("cuda")).0, searched("cpu"));
    }
}

/// Proves that small tables with categories whose ordered statistics come in one order alone are not grown without these statistics.
#[test]
fn many_tables_have_statistics_of_their_categories() {
    let (y, rows) = (numbers(3, 60), 60);
    let names: Vec<String> = numbers(4, rows).iter().zip(&y).map(|(x, y)| format!("{}", (8.0 * y + x) as i64)).collect();
    let text = CategoryColumn::text("c", &[rows], |_, row| Some(names[row].as_str())).expect("a column");
    let input = |order: Option<Vec<u32>>| taiga_core::dataset::Input {
        features: vec![Column::categorical(&text)],
        target: taiga_core::dataset::Target::Numbers(Column::from_f64("y", &y)),
        target_name: "y".into(),
        weight: None,
        baseline: vec![],
        held_out: None,
        loss_columns: Default::default(),
        evaluation: Default::default(),
        order: order.map(Into::into),
    };
    let inputs = [input(None), input(Some((0..rows as u32).rev().collect()))];
    let params = json!({ "rounds": 3, "permutations": 1, "max_combination": 1, "device": "auto", "n_threads": 1 });
    let params: BoostingParams = serde_json::from_value(params).expect("parameters");
    let bytes = |model: Result<boosting::model::Model>| model.expect("a model").to_bytes();
    let alone: Vec<Vec<u8>> = inputs.iter().map(|input| bytes(boosting::fit(input, &params, &Notes::default()))).collect();
    let (together, _) = gpu::with(100_000, || {
        let tables = boosting::ManyTables { count: 2, rows, features: 1, threads: 1 };
        let fits = boosting::ManyFits::new(&params, tables, &Notes::default()).expect("fits");
        fits.fit(&inputs, 1, &Notes::default()).expect("models").into_iter().map(bytes).collect::<Vec<_>>()
    });
    assert!(together == alone && alone[0] != alone[1]);
}

/// Proves the same of sparse logistic regressions: each pass of L-BFGS, the history of the held-out rows included; and batches.
#[test]
fn linear_models_begin_again_from_any_pass() {
    let (dense, y) = (numbers(1, ROWS), numbers(2, ROWS));
    let codes: Vec<u32> = (0..ROWS).map(|i| (dense[i] + y[i] > 16.0) as u32).collect();
    let held_out: Vec<bool> = (0..ROWS).map(|i| i % 5 == 0).collect();
    let fit = |optimizer: &str, device: &str, monitor: &dyn Monitor| {
        let input = linear::Input {
            sparse: None,
            dense: vec![Column::from_f64("x", &dense)],
            target: taiga_core::dataset::Target::Classes { codes: &codes, labels: Labels::Boolean },
            target_name: "y".into(),
            weight: None,
            held_out: Some(&held_out),
        };
        let params: LinearParams = serde_json::from_value(json!({ "optimizer": optimizer, "epochs": 6 })).expect("parameters");
        let params = LinearParams { device: device.into(), n_threads: Some(1), early_stopping: Some(3), ..params };
        linear::fit(&input, &params, monitor).map(|model| model.to_bytes())
    };
    let expected = fit("lbfgs", "cpu", &Notes::default()).expect("a fit");
    let mut steps = 0;
    loop {
        let notes = Notes::default();
        let (bytes, ran_out) = gpu::with(steps, || fit("lbfgs", "auto", &notes));
        assert!(bytes.expect("a fit") == expected, "after {steps} steps");
        if !ran_out {
            break;
        }
        notes.check_fell_back();
        steps += STRIDE;
    }
    assert!(steps > 10, "{steps} steps");
    for optimizer in ["sgd", "adagrad", "ftrl"] {
        let notes = Notes::default();
        let expected = fit(optimizer, "cpu", &Notes::default()).expect("a fit");
        assert!(gpu::with(0, || fit(optimizer, "auto", &notes)).0.expect("a fit") == expected);
        notes.check_fell_back();
    }
}

/// Proves the same of forests, with predictions out of bag and permutation importance.
#[test]
fn forests_begin_again() {
    let (x, y) = (numbers(1, ROWS), numbers(2, ROWS));
    for splitter in ["histogram", "exact", "random"] {
        let fit = |device: &str, monitor: &dyn Monitor| {
            let input = forest::Input {
                features: vec![Column::from_f64("x", &x)],
                target: taiga_core::dataset::Target::Numbers(Column::from_f64("y", &y)),
                target_name: "y".into(),
                weight: None,
            };
            let params = json!({ "trees": 4, "splitter": splitter, "permutation_importance": true });
            let params: ForestParams = serde_json::from_value(params).expect("parameters");
            let params = ForestParams { device: device.into(), n_threads: Some(1), ..params };
            forest::fit(&input, &params, monitor).map(|forest| forest.to_bytes())
        };
        let notes = Notes::default();
        let (bytes, _) = gpu::with(0, || fit("auto", &notes));
        assert!(bytes.expect("a forest") == fit("cpu", &Notes::default()).expect("a forest"));
        notes.check_fell_back();
        assert_eq!(*notes.rounds.lock().expect("rounds"), [1, 2, 3, 4]);
    }
}
