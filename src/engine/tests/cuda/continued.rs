//! Fits that begin on one device and go on on the other.

use taiga_testing::continued::{Continued, go_on_from_a_model, go_on_from_snapshots};
use taiga_testing::gpu::{gpu, say};
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
