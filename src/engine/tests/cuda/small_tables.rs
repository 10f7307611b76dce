//! Fits to many tables of few rows, whose trees grow in one launch: each model is that of the CPU's fit to the table alone, byte for byte.

use serde_json::json;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use taiga_engine::column::Column;
use taiga_engine::dataset::folds::{Division, Folds};
use taiga_engine::dataset::{Input, Quiet};
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::{BoostingParams, ManyFits, ManyTables, fit, fit_folds, search};
use taiga_testing::contract::table;
use taiga_testing::devices::assert_same;
use taiga_testing::gpu::gpu;
use taiga_testing::random_fits::{self, RandomFit};
use taiga_testing::{Dice, Table, params, params_with};

fn on(device: &str, p: &BoostingParams) -> BoostingParams {
    BoostingParams { device: device.into(), ..p.clone() }
}

/// Fits to all tables by one call on the GPU.
fn together(inputs: &[Input<'_>], p: &BoostingParams) -> Vec<Result<Model, String>> {
    let p = on("cuda", p);
    let tables = ManyTables { count: inputs.len(), rows: 100, features: 6, threads: 1 };
    let fits = ManyFits::new(&p, tables, &Quiet).unwrap();
    fits.fit(inputs, 1, &Quiet).unwrap().into_iter().map(|fitted| fitted.map_err(|e| e.to_string())).collect()
}

/// Panics where a model differs from that of the CPU's fit to its table alone.
fn compare_all(tables: &[Table], p: &BoostingParams, what: &str) {
    let inputs: Vec<Input<'_>> = tables.iter().map(Table::input).collect();
    for (i, (input, cuda)) in inputs.iter().zip(together(&inputs, p)).enumerate() {
        let what = format!("{what}: table {i} of {} rows", input.target.rows());
        let cpu = fit(input, &on("cpu", p), &Quiet).map_err(|e| e.to_string());
        match (cpu, cuda) {
            (Ok(cpu), Ok(cuda)) => assert_same(&(cpu, cuda), &what),
            (cpu, cuda) => assert_eq!(cpu.err(), cuda.err(), "{what}"),
        }
    }
}

/// Proves equal bytes for the plainest tables.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn plain_small_tables() {
    gpu();
    for policy in ["symmetric", "depthwise"] {
        for rows in [2, 3, 10, 32, 33, 100, 700, 1500, 2048] {
            let tables: Vec<Table> = (0..3).map(|seed| table(rows, 6, "rmse", seed)).collect();
            let p = params(json!({ "loss": "rmse", "policy": policy, "rounds": 5, "depth": 4 }));
            compare_all(&tables, &p, &format!("{policy}, {rows} rows"));
        }
    }
}

/// Proves equal bytes of tables of many sizes in one call, under every loss, the policies by level and many limits; those among them that the kernel
/// does not take included.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn many_small_tables() {
    gpu();
    let mut case = 0;
    for loss in [
        "rmse",
        "logloss",
        "cross_entropy",
        "huber",
        "poisson",
        "gamma",
        "tweedie",
        "expectile",
        "log_cosh",
        "focal",
        "mape",
        "mae",
        "multiclass",
    ] {
        for policy in ["symmetric", "depthwise"] {
            for more in [
                json!({}),
                json!({ "min_child_weight": 0, "l2": 0.1, "bins": 21, "depth": 8 }),
                json!({ "l1": 0.3, "min_data_in_leaf": 7, "min_gain": 0.01, "depth": 1 }),
                json!({ "min_child_weight": 0.2, "depth": 3, "bins": 2 }),
                json!({ "min_child_weight": 0, "min_data_in_leaf": 3, "l2": 0, "learning_rate": 1.0 }),
                json!({ "row_sample": "bernoulli" }),
            ] {
                case += 1;
                let mut dice = Dice::new(case);
                let mut one = |i: u64| {
                    let rows = [1, 2, 7, 31, 64, 90, 130, 260, 400][dice.below(9) as usize] + dice.below(9) as usize;
                    let mut t = table(rows, 3 + dice.below(12) as usize, loss, 100 * case + i);
                    t.weight = (case % 3 == 0).then(|| (0..rows).map(|_| 0.1 + 3.0 * dice.unit()).collect());
                    if i % 7 == 3 {
                        t.weight = Some((0..rows).map(|_| dice.below(4) as f64).collect());
                    }
                    if i % 9 == 4 {
                        t.held_out = Some((0..rows).map(|_| dice.chance(0.2)).collect());
                    }
                    t
                };
                let tables: Vec<Table> = (0..20).map(&mut one).collect();
                let base = json!({ "loss": loss, "policy": policy, "rounds": 4, "depth": 5, "seed": case, "learning_rate": 0.4 });
                let p = params_with(base, more.clone());
                compare_all(&tables, &p, &format!("{loss}, {policy}, {more}"));
            }
        }
    }
}

/// Proves equal bytes where statistics are wide: a few targets dwarf the others.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn outliers_in_small_tables() {
    gpu();
    for (case, policy) in ["symmetric", "depthwise"].into_iter().enumerate() {
        for weighted in [false, true] {
            let one = |seed: u64| {
                let mut t = table(1200, 5, "rmse", seed);
                let mut dice = Dice::new(seed);
                if let taiga_testing::Wanted::Numbers(y) = &mut t.target {
                    y[17] = 1e6;
                    y[900] = -3e7;
                }
                t.weight = weighted.then(|| (0..1200).map(|i| if i % 300 == 5 { 1e5 } else { 0.1 + dice.unit() }).collect());
                t
            };
            let tables: Vec<Table> = (0..6).map(one).collect();
            let p = params(json!({ "loss": "rmse", "policy": policy, "rounds": 6, "depth": 6, "seed": case }));
            compare_all(&tables, &p, &format!("{policy}, weights: {weighted}"));
        }
    }
}

/// Proves equal bytes of fits drawn at random, whatever they ask for.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn random_fits_among_small_tables() {
    gpu();
    for seed in 0..random_fits::cases(150) {
        let drawn = RandomFit::new(seed);
        if drawn.table.rows() > 3000 {
            continue;
        }
        let input = drawn.input(|name, values| Column::from_f64(name, values));
        let cpu = drawn.fit(&input, &on("cpu", &drawn.params));
        let p = on("cuda", &drawn.params);
        let cuda = ManyFits::new(&p, ManyTables { count: 1, rows: 100, features: 6, threads: 1 }, &Quiet).map_err(|e| e.to_string());
        let cuda = cuda.and_then(|fits| fits.fit(std::slice::from_ref(&input), 1, &Quiet).map_err(|e| e.to_string()));
        let cuda = cuda.and_then(|mut fitted| fitted.remove(0).map(|model| model.to_bytes()).map_err(|e| e.to_string()));
        match (&cpu, &cuda) {
            (Ok(cpu), Ok(cuda)) => assert!(cpu == cuda, "seed {seed}: {:?}", drawn.params),
            (Err(_), Err(_)) => (),
            (Ok(_), Err(error)) | (Err(error), Ok(_)) => panic!("seed {seed}: {error} on one of both"),
        }
    }
}

/// Proves equal bytes of the models of all folds of small tables, whose trees grow in one launch, and equal values of a search among such; of
/// folds under early stopping too, which are fitted one after the other.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn folds_of_small_tables() {
    gpu();
    for (case, rows) in [30, 120, 700, 2400].into_iter().enumerate() {
        let mut t = table(rows, 7, "logloss", case as u64);
        t.weight = (case % 2 == 1).then(|| (0..rows).map(|row| (row % 4) as f64).collect());
        let input = t.input();
        let folds = Folds::new(&input, &Division::Parts(4), 1).unwrap();
        let trials: Vec<BoostingParams> = [
            json!({ "policy": "symmetric", "depth": 4 }),
            json!({ "policy": "depthwise", "depth": 6, "bins": 30 }),
            json!({ "policy": "depthwise", "depth": 2, "l2": 0.1, "learning_rate": 0.7 }),
        ]
        .into_iter()
        .map(|more| params_with(json!({ "loss": "logloss", "rounds": 6 }), more))
        .collect();
        let models = |p: &BoostingParams| fit_folds(&input, p, &folds, &Quiet).unwrap();
        for p in trials.iter().flat_map(|p| [p.clone(), BoostingParams { early_stopping: Some(2), ..p.clone() }]) {
            for (fold, (cpu, cuda)) in models(&on("cpu", &p)).into_iter().zip(models(&on("cuda", &p))).enumerate() {
                assert!(cpu.tested == cuda.tested && cpu.training == cuda.training);
                assert_same(&(cpu.model, cuda.model), &format!("{rows} rows, fold {fold}, {p:?}"));
            }
        }
        let searched = |device: &str| {
            let trials: Vec<BoostingParams> = trials.iter().map(|p| on(device, p)).collect();
            let worth = |model: &Model| model.trees.iter().flat_map(|tree| tree.leaves()).map(|leaf| leaf.value).sum();
            search((&input, None), &trials, &folds, None, &Quiet, |_| Ok(()), |_, _, fold| Ok((worth(&fold.model), false))).unwrap()
        };
        assert_eq!(searched("cpu"), searched("cuda"), "{rows} rows");
    }
}

/// Prints how long the folds of a small table take on each device, all at a time and one after the other, where `TAIGA_TIMING` asks for it.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn timing_of_folds() {
    gpu();
    if std::env::var_os("TAIGA_TIMING").is_none() {
        return;
    }
    for rows in [250, 1000, 2500] {
        let t = table(rows, 8, "rmse", 1);
        let input = t.input();
        for (policy, count) in [("symmetric", 5), ("depthwise", 5), ("depthwise", 20)] {
            let folds = Folds::new(&input, &Division::Parts(count), 1).unwrap();
            let p = params(json!({ "loss": "rmse", "policy": policy, "rounds": 100, "depth": 4 }));
            let alone = || (0..count).for_each(|_| drop(fit(&input, &on("cuda", &p), &Quiet).unwrap()));
            let together = |device: &str| drop(fit_folds(&input, &on(device, &p), &folds, &Quiet).unwrap());
            let least = |work: &dyn Fn()| {
                let once = |_| {
                    let start = Instant::now();
                    work();
                    start.elapsed().as_secs_f64() * 1e3
                };
                (0..5).map(once).fold(f64::INFINITY, f64::min)
            };
            let (cpu, cuda, alone) = (least(&|| together("cpu")), least(&|| together("cuda")), least(&alone));
            println!("{rows} rows, {count} folds, {policy}: cpu {cpu:.1} ms, cuda {cuda:.1} ms, as many fits to all rows {alone:.1} ms");
        }
    }
}

/// Prints how long 10,000 and 100,000 tables take on each device, where `TAIGA_TIMING` asks for it.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn timing_of_small_tables() {
    gpu();
    if std::env::var_os("TAIGA_TIMING").is_none() {
        return;
    }
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let some: Vec<Table> = (0..1000)
        .map(|seed| {
            let mut dice = Dice::new(seed);
            let columns: Vec<Vec<f64>> = (0..8).map(|_| (0..100).map(|_| dice.normal()).collect()).collect();
            let y = (0..100).map(|i| columns[0][i] * columns[1][i] + columns[2][i] + 0.5 * dice.normal()).collect();
            Table::numbers(columns, y)
        })
        .collect();
    for policy in ["symmetric", "depthwise"] {
        let p = params(json!({ "loss": "rmse", "policy": policy, "rounds": 20, "depth": 4, "n_threads": 1 }));
        for count in [10_000, 100_000] {
            for device in ["cpu", "cuda"] {
                let p = on(device, &p);
                let fits = ManyFits::new(&p, ManyTables { count, rows: 100, features: 8, threads }, &Quiet).unwrap();
                // The kernels are loaded once a process.
                fits.fit(&[some[0].input()], 1, &Quiet).unwrap();
                let (next, bytes, waited) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(0.0));
                let start = Instant::now();
                std::thread::scope(|scope| {
                    for _ in 0..threads {
                        scope.spawn(|| {
                            loop {
                                let first = next.fetch_add(fits.at_once(), Ordering::Relaxed);
                                let own: Vec<Input<'_>> =
                                    (first..count.min(first + fits.at_once())).map(|i| some[i % 1000].input()).collect();
                                if own.is_empty() {
                                    return;
                                }
                                let own_start = Instant::now();
                                let models = fits.fit(&own, 1, &Quiet).unwrap();
                                *waited.lock().unwrap() += own_start.elapsed().as_secs_f64();
                                let sizes: usize = models.iter().map(|model| model.as_ref().unwrap().to_bytes().len()).sum();
                                bytes.fetch_add(sizes, Ordering::Relaxed);
                            }
                        });
                    }
                });
                let seconds = start.elapsed().as_secs_f64();
                println!(
                    "{policy}, {count} tables, {device}: {:.1} ms, {:.1} us of a thread each, {} bytes, {threads} threads",
                    seconds * 1e3,
                    *waited.lock().unwrap() * 1e6 / count as f64,
                    bytes.into_inner()
                );
            }
        }
    }
}
