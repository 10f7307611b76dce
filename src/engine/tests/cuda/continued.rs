//! Fits that begin on one device and go on on the other.

use serde_json::json;
use taiga_engine::Error;
use taiga_engine::dataset::Quiet;
use taiga_engine::learners::{forest, linear};
use taiga_testing::Dice;
use taiga_testing::continued::{Continued, Kept, go_on_from_a_model, go_on_from_snapshots};
use taiga_testing::forest::{awkward_table, input as forest_input, params as forest_params};
use taiga_testing::gpu::{gpu, say};
use taiga_testing::linear::{drawn, params as linear_params};
use taiga_testing::random_fits::cases;

/// Proves that a model of either device goes on on the other, to the bytes of one fit.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn models_go_on_on_either_device() {
    gpu();
    let mut same = 0;
    for seed in 0..cases(150) {
        for devices in [["cuda", "cuda"], ["cpu", "cuda"], ["cuda", "cpu"]] {
            same += u64::from(go_on_from_a_model(seed, devices) == Continued::Same);
        }
    }
    say(&format!("{same} models went on"));
}

/// Proves that a snapshot of either device goes on on the other.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn snapshots_go_on_on_either_device() {
    gpu();
    let mut ended = 0;
    for seed in 0..cases(150) {
        ended += go_on_from_snapshots(seed, if seed % 2 == 0 { ["cuda", "cpu", "cuda"] } else { ["cuda", "cuda", "cpu"] });
    }
    say(&format!("{ended} fits were ended and went on"));
}

/// Ends `fit`, which is told of a device and of what keeps its state, after a snapshot on each of two devices, and panics where what goes on from
/// there is not `whole`. Returns how often it was ended.
fn ends_and_goes_on(what: &str, whole: &[u8], every: u32, fit: impl Fn(&str, &Kept) -> taiga_engine::Result<Vec<u8>>) -> usize {
    let (mut saved, mut ended) = (None, 0);
    for (time, device) in ["cuda", "cpu", "cuda", "cuda"].into_iter().enumerate() {
        let kept = Kept::new(every, saved, if time < 3 { 1 } else { u32::MAX });
        match fit(device, &kept) {
            Ok(bytes) => assert!(bytes == whole, "{what}, time {time}: other bytes"),
            Err(error) => {
                assert!(matches!(error, Error::Interrupted), "{what}: {error}");
                ended += 1;
            }
        }
        saved = kept.bytes();
    }
    ended
}

/// Proves that a forest's trees of either device are gone on with on the other, predictions out of bag and permutation importances among them.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn forests_go_on_on_either_device() {
    gpu();
    let mut ended = 0;
    for seed in 0..cases(60) {
        let dice = &mut Dice::new(seed);
        let (classes, rows) = ([0, 2, 3][seed as usize % 3], 20 + dice.below(3_000) as usize);
        let splitter = ["histogram", "exact", "random"][dice.below(3) as usize];
        let given = json!({ "trees": 9, "seed": seed, "splitter": splitter, "permutation_importance": dice.chance(0.3) });
        let table = awkward_table(dice, rows, 4, classes, seed % 2 == 1);
        let of = |device: &str| forest::ForestParams { device: device.into(), ..forest_params(given.clone()) };
        let Ok(whole) = forest::fit(&forest_input(&table), &of("cpu"), &Quiet) else { continue };
        ended += ends_and_goes_on(&format!("seed {seed}, {given}"), &whole.to_bytes(), 1 + (seed % 3) as u32, |device, kept| {
            let options = forest::FitOptions { snapshots: Some(kept), ..Default::default() };
            forest::fit_with(&forest_input(&table), &of(device), &options, &Quiet).map(|forest| forest.to_bytes())
        });
    }
    say(&format!("{ended} fits of forests were ended and went on"));
    assert!(ended > 20);
}

/// Proves the same of sparse logistic regression by every optimizer.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn sparse_fits_go_on_on_either_device() {
    gpu();
    let mut ended = 0;
    for seed in 0..cases(60) {
        let (table, mut given) = drawn(seed);
        given["epochs"] = json!(5);
        given["optimizer"] = json!(["lbfgs", "sgd", "adagrad", "ftrl"][seed as usize % 4]);
        if seed % 4 == 0 {
            given["tolerance"] = json!(1e-9);
        }
        let of = |device: &str| linear::LinearParams { device: device.into(), ..linear_params(given.clone()) };
        let Ok(whole) = linear::fit(&table.input(), &of("cpu"), &Quiet) else { continue };
        ended += ends_and_goes_on(&format!("seed {seed}, {given}"), &whole.to_bytes(), 1, |device, kept| {
            let options = linear::FitOptions { snapshots: Some(kept), ..Default::default() };
            linear::fit_with(&table.input(), &of(device), &options, &Quiet).map(|model| model.to_bytes())
        });
    }
    say(&format!("{ended} fits of sparse logistic regression were ended and went on"));
    assert!(ended > 20);
}
