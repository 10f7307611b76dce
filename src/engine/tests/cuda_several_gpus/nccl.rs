//! Histograms of GPUs that don't read each other's memory, added by NCCL: the bytes are those of the CPU.

use super::alone;
use serde_json::json;
use std::time::Instant;
use taiga_core::learners::boosting as core;
use taiga_core::learners::boosting::continued::FitOptions;
use taiga_engine::collective::local;
use taiga_engine::column::Column;
use taiga_engine::cuda::runtime::nccl;
use taiga_engine::dataset::Quiet;
use taiga_engine::device::device_info;
use taiga_engine::learners::boosting::BoostingParams;
use taiga_testing::contract::table;
use taiga_testing::gpu::shards::{Exchange, Shards};
use taiga_testing::gpu::{gpu, say};
use taiga_testing::random_fits::{RandomFit, cases};
use taiga_testing::together::{at_all_ends, deal, own_columns};
use taiga_testing::{Dice, POLICIES, Table, params_with};

/// Returns whether there are two GPUs and the library, without which these tests have nothing to run.
fn is_there() -> bool {
    gpu();
    let there = device_info().devices.len() > 1 && nccl::is_there();
    if !there {
        say("NCCL is not tested: it needs two GPUs, and libnccl.so.2");
    }
    there
}

/// Proves equal bytes of random fits on the GPUs of two processes, one each.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn gpus_of_two_processes() {
    if !is_there() {
        return;
    }
    let _alone = alone();
    let (before, mut same) = (nccl::sums(), 0);
    for seed in 0..cases(60) {
        let drawn = RandomFit::new(seed);
        let input = drawn.input(Column::from_f64);
        let whole = drawn.fit(&input, &BoostingParams { device: "cpu".into(), ..drawn.params.clone() });
        let ends = deal(input.target.rows(), 2, &mut Dice::new(seed));
        let made = at_all_ends(local(2), &ends, |own| {
            let gpus = Shards { gpus: vec![Some(own.collective.rank() as u32)], exchange: Exchange::Nccl };
            let input = input.with_features(own_columns(&input.features, &own.range()));
            let params = BoostingParams { device: "cuda".into(), ..drawn.params.clone() };
            core::fit_with(&input, &params, &FitOptions { own: Some(own), ..FitOptions::default() }, &gpus, &Quiet)
        });
        for made in made {
            match (made, &whole) {
                (Ok(made), Ok(whole)) => {
                    assert!(made.to_bytes() == *whole, "seed {seed}, {ends:?}: other bytes under {:?}", drawn.params);
                    same += 1;
                }
                (Err(error), Err(whole)) => {
                    assert!(error.to_string().contains("collective") || error.to_string() == *whole, "seed {seed}: {error}")
                }
                (made, _) => panic!("seed {seed}, {ends:?}: {:?}", made.err()),
            }
        }
    }
    let sums = nccl::sums() - before;
    say(&format!("{same} models of two processes' GPUs, {sums} sums by NCCL"));
    assert!(same > 0 && sums > 0);
}

/// Prints the time of a tree of two GPUs, whose histograms are added by loads from each other's memory, by NCCL and over the host, beside that of one GPU
/// with half of the rows: the difference is what the exchange takes.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn timing_of_exchanges() {
    if !is_there() {
        return;
    }
    let _alone = alone();
    for (rows, features) in [(1_000_000, 28), (11_000_000, 28), (1_000_000, 500)] {
        let (all, half) = (table(rows, features, "rmse", 1), table(rows / 2, features, "rmse", 1));
        for policy in POLICIES {
            let a_tree = |t: &Table, gpus: u32, exchange: Exchange| {
                let gpus = Shards { gpus: (0..gpus).map(Some).collect(), exchange };
                let seconds = |rounds: u32| {
                    let params = params_with(json!({}), json!({ "policy": policy, "rounds": rounds }));
                    let start = Instant::now();
                    core::fit(&t.input(), &params, &gpus, &Quiet).map_or(f64::NAN, |_| start.elapsed().as_secs_f64())
                };
                (seconds(120) - seconds(20)) * 10.0
            };
            let times = [Exchange::Any, Exchange::Nccl, Exchange::Host].map(|exchange| a_tree(&all, 2, exchange));
            let [by_loads, by_nccl, by_host] = times;
            let alone = a_tree(&half, 1, Exchange::Any);
            say(&format!(
                "{rows} x {features}, {policy}, ms a tree: loads {by_loads:.2}, NCCL {by_nccl:.2}, the host {by_host:.2}; one GPU with half of the rows {alone:.2}"
            ));
        }
    }
}
