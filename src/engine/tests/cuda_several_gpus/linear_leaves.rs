//! `leaf="linear"`: rows whose leaves are linear functions of their values, on several GPUs.

use crate::alone;
use taiga_core::learners::boosting as core;
use taiga_engine::column::Column;
use taiga_engine::dataset::Quiet;
use taiga_engine::learners::boosting::{BoostingParams, fit};
use taiga_testing::gpu::shards::shards;
use taiga_testing::gpu::{gpu, say};
use taiga_testing::random_fits::{RandomFit, cases};

/// Proves equal bytes where rows lie on several GPUs of one process.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn linear_leaves_on_several_gpus() {
    let _alone = alone();
    gpu();
    let (mut same, mut functions) = (0, 0);
    for seed in 0..cases(60) {
        let drawn = RandomFit::new(seed);
        let input = drawn.input(Column::from_f64);
        let on = |device: &str| BoostingParams { device: device.into(), rounds: Some(4), n_threads: Some(2), ..drawn.with_linear_leaves() };
        let Ok(whole) = fit(&input, &on("cpu"), &Quiet) else { continue };
        functions += usize::from(!whole.linear.is_empty());
        let whole = whole.to_bytes();
        for gpus in shards() {
            let made = core::fit(&input, &on("cuda"), &gpus, &Quiet).unwrap_or_else(|error| panic!("seed {seed} on {gpus:?}: {error}"));
            assert!(made.to_bytes() == whole, "seed {seed} on {gpus:?}: other bytes under {:?}", on("cuda"));
            same += 1;
        }
    }
    say(&format!("{same} models with linear leaves on several GPUs, {functions} fits with functions"));
    assert!(same > 100 || cases(60) < 60, "{same}");
}
