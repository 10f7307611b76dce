//! Fits whose rows lie in several processes, here threads that stand for them, each with GPUs of its own: the bytes of one fit on the CPU.

use serde_json::json;
use std::time::Duration;
use taiga_core::learners::boosting as core;
use taiga_core::learners::forest as core_forest;
use taiga_core::learners::linear as core_linear;
use taiga_engine::collective::local;
use taiga_engine::column::Column;
use taiga_engine::dataset::{OwnRows, Quiet};
use taiga_engine::learners::boosting::{BoostingParams, FitOptions, fit_with};
use taiga_engine::learners::{forest, linear};
use taiga_testing::continued::{Kept, longer};
use taiga_testing::contract::table;
use taiga_testing::forest::{awkward_table, input as forest_input, params as forest_params};
use taiga_testing::gpu::shards::{Exchange, PassShares, Shards, TreeShares};
use taiga_testing::gpu::{gpu, say};
use taiga_testing::linear::{drawn as drawn_linear, of_own, params as linear_params};
use taiga_testing::random_fits::{RandomFit, cases};
use taiga_testing::together::{at_all_ends, deal, equal_models, over_tcp, own_columns};
use taiga_testing::{Dice, params_with};

/// GPUs of a process, as many as another: the first one several times.
fn gpus(count: usize) -> Shards {
    Shards { gpus: vec![Some(0); count], exchange: Exchange::Host }
}

/// Fits as one of the processes, on so many GPUs.
fn fit_own(
    drawn: &RandomFit,
    params: &BoostingParams,
    options: FitOptions<'_>,
    own: OwnRows<'_>,
    count: usize,
) -> taiga_engine::Result<Vec<u8>> {
    let input = drawn.input(Column::from_f64);
    let input = input.with_features(own_columns(&input.features, &own.range()));
    let params = BoostingParams { n_threads: Some(1 + own.collective.rank() as u32 % 2), device: "cuda".into(), ..params.clone() };
    core::fit_with(&input, &params, &FitOptions { own: Some(own), ..options }, &gpus(count), &Quiet).map(|model| model.to_bytes())
}

/// Proves over random fits that the GPUs of 1, 2, 3 and 5 processes, one each or several, come to the CPU's bytes, or to its error, however rows
/// are dealt: some processes have none.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn rows_of_a_fit_may_lie_on_the_gpus_of_several_processes() {
    gpu();
    let (mut same, mut differ) = ([0; 6], vec![]);
    for seed in 0..cases(40) {
        let drawn = RandomFit::new(seed);
        let whole = drawn.fit(&drawn.input(Column::from_f64), &BoostingParams { device: "cpu".into(), ..drawn.params.clone() });
        for world in [1, 2, 3, 5] {
            let ends = deal(drawn.input(Column::from_f64).target.rows(), world, &mut Dice::new(seed * 7 + world as u64));
            let count = |rank: usize| if seed % 3 == 0 { 1 } else { 1 + (rank + seed as usize) % 3 };
            let made = at_all_ends(local(world), &ends, |own| {
                fit_own(&drawn, &drawn.params, FitOptions::default(), own, count(own.collective.rank()))
            });
            for (rank, made) in made.into_iter().enumerate() {
                match (made, &whole) {
                    (Ok(made), Ok(whole)) if made == *whole => same[world] += 1,
                    (Ok(_), Ok(_)) => differ.push(format!("seed {seed}, rank {rank} of {ends:?}: other bytes under {:?}", drawn.params)),
                    (Err(error), whole) => {
                        let error = error.to_string();
                        let known = whole.as_ref().is_err_and(|whole| error == *whole || error.contains("collective"));
                        assert!(known, "seed {seed}, rank {rank} of {ends:?}: {error}; {:?}", drawn.params);
                    }
                    (Ok(_), Err(whole)) => panic!("seed {seed}, rank {rank} of {ends:?}: a model, and alone {whole}"),
                }
            }
        }
    }
    say(&format!("equal fits by the number of processes: {same:?}"));
    assert!(differ.is_empty(), "{} of them, the first {}", differ.len(), differ[0]);
    assert!(same[5] > 0);
}

/// Proves that a fit that GPUs of several processes have begun goes on in another number of them, and on a CPU, to the same bytes.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn a_fit_that_is_ended_goes_on_elsewhere() {
    gpu();
    let (mut ended, mut same) = (0, 0);
    for seed in 0..cases(12) {
        let drawn = RandomFit::new(seed);
        let params = longer(&drawn);
        let Ok(whole) = drawn.fit(&drawn.input(Column::from_f64), &BoostingParams { device: "cpu".into(), ..params.clone() }) else {
            continue;
        };
        let (dice, mut saved) = (&mut Dice::new(seed), None);
        for time in 0..3 {
            let world = [1, 2, 3][dice.below(3) as usize];
            let ends = deal(drawn.input(Column::from_f64).target.rows(), world, dice);
            let kept: Vec<Kept> = (0..world)
                .map(|rank| Kept::new(1, saved.take_if(|_| rank == 0), if rank == 0 && time < 2 { 2 } else { u32::MAX }))
                .collect();
            let made = at_all_ends(local(world), &ends, |own| {
                let rank = own.collective.rank();
                fit_own(&drawn, &params, FitOptions { snapshots: Some(&kept[rank]), ..FitOptions::default() }, own, 1 + rank % 2)
            });
            for made in made {
                match made {
                    Ok(made) => {
                        assert!(made == whole, "seed {seed}, time {time}, {ends:?}: other bytes under {params:?}");
                        same += usize::from(time > 0);
                    }
                    Err(taiga_engine::Error::Interrupted) => ended += 1,
                    Err(error) => {
                        let error = error.to_string();
                        assert!(time < 2 && error.contains("collective"), "seed {seed}: {error}");
                    }
                }
            }
            saved = kept[0].bytes();
        }
    }
    say(&format!("{ended} fits ended, {same} models of those that went on"));
    assert!(ended > 3 && same > 3, "{ended}, {same}");
}

/// Proves the same over the network, by the device's name, with more rows than one block of each kernel takes; and that processes on GPUs
/// and on CPUs are told that they don't make the same fit.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn gpus_may_lie_behind_a_network() {
    gpu();
    let address = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").to_string();
    let fits = |rows: usize, world: usize, params: &BoostingParams, device: &(dyn Fn(usize) -> &'static str + Sync)| {
        let t = table(rows, 6, "logloss", 3);
        let ends: Vec<usize> = (1..=world).map(|k| rows * k * k / (world * world)).collect();
        at_all_ends(over_tcp(world, &address, Duration::from_secs(20)), &ends, |own| {
            let input = t.input();
            let input = input.with_features(own_columns(&input.features, &own.range()));
            let params = BoostingParams { device: device(own.collective.rank()).into(), ..params.clone() };
            fit_with(&input, &params, &FitOptions { own: Some(own), ..FitOptions::default() }, &Quiet).map(|model| model.to_bytes())
        })
    };
    for (rows, policy) in [(300_000, "symmetric"), (300_000, "leafwise"), (40_000, "depthwise")] {
        let params = params_with(json!({}), json!({ "policy": policy, "rounds": 8 }));
        let whole = fits(rows, 1, &params, &|_| "cpu").remove(0).expect("a fit");
        for world in [2, 3] {
            for made in fits(rows, world, &params, &|_| "cuda:0") {
                assert!(made.expect("a fit") == whole, "{rows} rows, {policy}, {world} processes");
            }
        }
    }
    for made in fits(3_000, 2, &params_with(json!({}), json!({ "rounds": 2 })), &|rank| if rank == 0 { "cpu" } else { "cuda" }) {
        let error = made.expect_err("two kinds of devices").to_string();
        assert!(error.contains("`device` is \"cuda\""), "{error}");
    }
}

/// Proves that forests whose trees grow on the GPUs of several processes have the CPU's bytes, with predictions out of bag and importances.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn trees_of_a_forest_may_grow_on_the_gpus_of_several_processes() {
    gpu();
    for (seed, (classes, rows, given)) in [
        (2, 5_000, json!({ "trees": 7 })),
        (0, 20_003, json!({ "trees": 12, "depth": 9 })),
        (4, 3_000, json!({ "trees": 2, "permutation_importance": true })),
        (2, 900, json!({ "trees": 5, "splitter": "exact", "bootstrap": false })),
        (3, 2_000, json!({ "trees": 9, "splitter": "random" })),
    ]
    .into_iter()
    .enumerate()
    {
        let t = awkward_table(&mut Dice::new(seed as u64), rows, 5, classes, seed % 2 == 1);
        let params = forest_params(given);
        let input = forest_input(&t);
        let on_cpu = core_forest::ForestParams { device: "cpu".into(), ..params.clone() };
        let whole = forest::fit(&input, &on_cpu, &Quiet).expect("a forest").to_bytes();
        for world in [2, 3, 5] {
            let ends = deal(rows, world, &mut Dice::new(seed as u64 * 5 + world as u64));
            let made = at_all_ends(local(world), &ends, |own| {
                let input = core_forest::Input { features: own_columns(&input.features, &own.range()), ..forest_input(&t) };
                let rank = own.collective.rank() as u32;
                let params = core_forest::ForestParams { n_threads: Some(1 + rank % 2), device: "cuda".into(), ..params.clone() };
                let devices = TreeShares::new(&vec![Some(0); 1 + rank as usize % 2]);
                core_forest::fit_with(&input, &params, &core_forest::FitOptions { own: Some(own), ..Default::default() }, &devices, &Quiet)
                    .map(|forest| forest.to_bytes())
            });
            for made in made {
                assert!(made.unwrap_or_else(|e| panic!("{e}")) == whole, "{rows} rows in {ends:?}: other bytes under {params:?}");
            }
        }
    }
}

/// Proves over random fits that sparse logistic regression whose rows lie on GPUs, several of one process and those of several processes, has the
/// CPU's bytes, or says what one process says.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn rows_of_a_linear_fit_may_lie_on_several_gpus() {
    gpu();
    let mut same = [0; 4];
    for seed in 0..cases(30) {
        let (table, given) = drawn_linear(seed);
        let params = core_linear::LinearParams { device: "cpu".into(), ..linear_params(given) };
        let whole = linear::fit(&table.input(), &params, &Quiet).map(|model| model.to_bytes());
        let params = core_linear::LinearParams { device: "cuda".into(), ..params };
        for world in [1, 2, 3] {
            let ends = deal(table.rows(), world, &mut Dice::new(seed * 7 + world as u64));
            let made = at_all_ends(local(world), &ends, |own| {
                let rank = own.collective.rank();
                let params = core_linear::LinearParams { n_threads: Some(1 + rank as u32 % 2), ..params.clone() };
                let devices = PassShares(vec![Some(0); 1 + (rank + seed as usize) % 3]);
                let options = core_linear::FitOptions { own: Some(own), ..Default::default() };
                core_linear::fit_with(&of_own(&table, &own.range()), &params, &options, &devices, &Quiet).map(|model| model.to_bytes())
            });
            same[world] += equal_models(made, &whole, &format!("seed {seed}, {ends:?}, {params:?}"));
        }
    }
    say(&format!("equal fits by the number of processes: {same:?}"));
    assert!(same[3] > 0);
}
