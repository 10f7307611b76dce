//! `leaf="linear"`: leaves that are linear functions of their rows' values. The models are the CPU's, byte for byte.

use crate::ranked::print_times;
use serde_json::json;
use taiga_core::learners::boosting as core;
use taiga_engine::collective::local;
use taiga_engine::column::{Chunk, Column, FeatureType, Values};
use taiga_engine::dataset::Quiet;
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::{BoostingParams, FitOptions, fit, fit_with};
use taiga_testing::contract::table;
use taiga_testing::devices::{assert_same, both, compare};
use taiga_testing::gpu::shards::{Exchange, Shards};
use taiga_testing::gpu::{gpu, say};
use taiga_testing::random_fits::{RandomFit, cases};
use taiga_testing::together::{at_all_ends, deal, own_columns};
use taiga_testing::{Dice, POLICIES, Table, params, params_with};

/// Proves equal bytes, and equal errors, of fits drawn at random, of any loss, policy, sampler, weights, categories and several outputs; also where
/// they go on from a model that either device has begun.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn random_fits_with_linear_leaves() {
    gpu();
    let (mut fitted, mut functions, mut continued) = (0, 0, 0);
    for seed in 0..cases(150) {
        let case = RandomFit::new(seed);
        let input = case.input(Column::from_f64);
        let on = |device: &str, rounds: u32| BoostingParams { device: device.into(), rounds: Some(rounds), ..case.with_linear_leaves() };
        let models = ["cpu", "cuda"].map(|device| fit(&input, &on(device, 5), &Quiet).map_err(|error| error.to_string()));
        let bytes = models.each_ref().map(|model| model.as_ref().map(Model::to_bytes));
        assert!(bytes[0] == bytes[1], "seed {seed}: {:?} {:?}; {:?}", bytes[0].as_ref().err(), bytes[1].as_ref().err(), on("cuda", 5));
        let Ok(whole) = &models[0] else { continue };
        fitted += 1;
        functions += usize::from(!whole.linear.is_empty());
        let (first_on, then_on) = [("cpu", "cuda"), ("cuda", "cpu"), ("cuda", "cuda")][seed as usize % 3];
        let first = fit(&input, &on(first_on, 2), &Quiet).expect("a fit of fewer rounds");
        let options = FitOptions { init_model: Some(&first), ..FitOptions::default() };
        match fit_with(&input, &on(then_on, 5 - first.rounds() as u32), &options, &Quiet) {
            Ok(model) => {
                assert!(model.to_bytes() == whole.to_bytes(), "seed {seed}, from a model: {:?}", on(then_on, 5));
                continued += 1;
            }
            Err(error) => assert!(error.to_string().contains("cat_method=\"ctr\""), "seed {seed}: {error}"),
        }
    }
    say(&format!("{fitted} fits with linear leaves, {functions} of them with functions, {continued} from a model"));
    assert!(functions > 40 || cases(150) < 150, "{functions}");
}

/// Proves equal bytes for rows from two on, deep trees and many leaves, whose sums have no room in shared memory, columns of many types, with values
/// missing, infinite, huge, tiny and far from 0, and draws of rows.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn linear_leaves_at_the_edges() {
    gpu();
    for (case, more) in [
        json!({}),
        json!({ "linear_l2": 3.0, "row_sample": "goss" }),
        json!({ "depth": 1 }),
        json!({ "depth": 10, "min_child_weight": 0.0 }),
        json!({ "depth": 12, "min_child_weight": 0.0, "row_sample": "mvs" }),
        json!({ "loss": "log_cosh", "row_sample": "bayesian" }),
        json!({ "bins": 4, "row_sample": "bernoulli" }),
    ]
    .into_iter()
    .enumerate()
    {
        for (rows, policy) in [2, 700, 1024, 1025, 40_000].into_iter().flat_map(|rows| POLICIES.map(|policy| (rows, policy))) {
            let mut t = table(rows, 20, "rmse", case as u64);
            let mut dice = Dice::new(rows as u64);
            for (k, scale) in [1e300, 1e-300, 1e-315, 1.0].into_iter().enumerate() {
                t.columns[k].iter_mut().for_each(|x| *x *= scale);
            }
            t.columns[4].iter_mut().for_each(|x| *x += 1e12);
            t.columns[5].iter_mut().for_each(|x| *x = if dice.chance(0.1) { f64::INFINITY } else { *x });
            t.weight = (case % 2 == 1).then(|| (0..rows).map(|_| 0.5 + dice.unit()).collect());
            let mut base = json!({ "policy": policy, "rounds": 4, "seed": case, "leaf": "linear", "l2": 0.1 });
            if policy == "leafwise" {
                base["leaves"] = json!([31, 31, 31, 1024, 3000, 31, 31][case]);
            }
            compare(&t, &params_with(base, more.clone()), &format!("{rows} rows, {policy}, {more}"));
        }
    }
    let t = table(5_000, 5, "rmse", 9);
    let whole: Vec<i64> = (0..5_000i64).map(|row| (1 << 60) + row * row * 7).collect();
    let narrow: Vec<f32> = t.columns[2].iter().map(|x| *x as f32).collect();
    let mut input = t.input();
    input.features[1] = Column::new("whole", FeatureType::Numeric, vec![Chunk::new(Values::I64(&whole), None)]);
    input.features[2] = Column::new(
        "narrow",
        FeatureType::Numeric,
        vec![Chunk::new(Values::F32(&narrow[..77]), None), Chunk::new(Values::F32(&narrow[77..]), None)],
    );
    for policy in POLICIES {
        assert_same(&both(&input, &params(json!({ "rounds": 6, "leaf": "linear", "policy": policy }))), policy);
    }
}

/// Proves equal bytes of large tables, whose blocks many warps share, with held-out rows and early stopping, and of several outputs.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn linear_leaves_of_large_tables() {
    gpu();
    for (case, (loss, rows)) in
        [("rmse", 1_200_003), ("logloss", 400_000), ("multiclass", 150_000), ("rmse", 300_000)].into_iter().enumerate()
    {
        for policy in POLICIES {
            let mut t: Table = table(rows, 8, loss, case as u64);
            t.held_out = (case != 1).then(|| (0..rows).map(|row| row % 5 == 2).collect());
            let stopping = if case == 1 { json!({}) } else { json!({ "early_stopping": 3 }) };
            let p = params_with(json!({ "loss": loss, "leaf": "linear", "rounds": 6, "policy": policy, "depth": 6 }), stopping);
            compare(&t, &p, &format!("{loss}, {rows} rows, {policy}"));
        }
    }
}

/// Proves equal bytes where rows lie on the GPUs of several processes, one each or two. (Those of one process: `cuda_several_gpus`.)
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn linear_leaves_on_the_gpus_of_several_processes() {
    gpu();
    let (mut same, mut functions) = (0, 0);
    for seed in 0..cases(60) {
        let drawn = RandomFit::new(seed);
        let input = drawn.input(Column::from_f64);
        let on = |device: &str| BoostingParams { device: device.into(), rounds: Some(4), n_threads: Some(2), ..drawn.with_linear_leaves() };
        let Ok(whole) = fit(&input, &on("cpu"), &Quiet) else { continue };
        functions += usize::from(!whole.linear.is_empty());
        let whole = whole.to_bytes();
        for world in [2, 3] {
            let ends = deal(input.target.rows(), world, &mut Dice::new(seed * 3 + world as u64));
            for made in at_all_ends(local(world), &ends, |own| {
                let gpus = Shards { gpus: vec![Some(0); 1 + (seed as usize + own.collective.rank()) % 2], exchange: Exchange::Host };
                let input = input.with_features(own_columns(&input.features, &own.range()));
                core::fit_with(&input, &on("cuda"), &FitOptions { own: Some(own), ..FitOptions::default() }, &gpus, &Quiet)
            }) {
                let made = made.unwrap_or_else(|error| panic!("seed {seed}, {ends:?}: {error}"));
                assert!(made.to_bytes() == whole, "seed {seed}, {ends:?}: other bytes under {:?}", on("cuda"));
                same += 1;
            }
        }
    }
    say(&format!("{same} models with linear leaves on the GPUs of several processes, {functions} fits with functions"));
    assert!(same > 100 || cases(60) < 60, "{same}");
}

/// Prints how long fits with linear leaves take beside plain ones, on each device, where `TAIGA_TIMING` asks for it.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn timing_of_linear_leaves() {
    print_times([json!({}), json!({ "leaf": "linear" }), json!({ "leaf": "linear", "row_sample": "goss" })]);
}
