//! `boosting="dart"`: trees that leave the scores for a while. The models are the CPU's, byte for byte.

use serde_json::json;
use taiga_engine::column::Column;
use taiga_engine::dataset::Quiet;
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::{BoostingParams, FitOptions, fit, fit_with};
use taiga_testing::continued::Kept;
use taiga_testing::contract::{self, table};
use taiga_testing::devices::compare;
use taiga_testing::gpu::{gpu, say};
use taiga_testing::random_fits::{RandomFit, cases};
use taiga_testing::{POLICIES, params, params_with};

/// Proves equal bytes under every policy, loss and way to draw rows, with held-out rows and early stopping, weights, several outputs.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn dropouts_under_any_policy_loss_and_sample() {
    gpu();
    contract::combinations(6_000, |t, p, case| {
        if t.positions.is_some() {
            return;
        }
        let drop_rate = [0.2, 0.5, 1.0][case as usize % 3];
        let p = BoostingParams {
            boosting: params(json!({ "boosting": "dart" })).boosting,
            rounds: Some(8),
            drop_rate: Some(drop_rate),
            skip_drop: Some(0.2),
            ..p
        };
        compare(t, &p, &format!("case {case}: {p:?}"));
    });
}

/// Proves equal bytes however trees are dropped and scaled, for rows from two on; of trees of more than 256 leaves, whose numbers take two bytes,
/// that grow whole on the device and that do not; with noise on scores.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn dropouts_of_any_kind() {
    gpu();
    for (case, more) in [
        json!({}),
        json!({ "normalize": "tree", "uniform_drop": true }),
        json!({ "normalize": "forest", "one_drop": true, "max_drop": 3 }),
        json!({ "drop_rate": 1.0, "skip_drop": 0.0, "random_strength": 1.0 }),
        json!({ "depth": 9, "min_child_weight": 0.0 }),
        json!({ "depth": 10, "min_child_weight": 0.0, "bins": 20, "min_data_in_leaf": 2 }),
        json!({ "loss": "mae", "skip_drop": 0.1, "extra_trees": true }),
    ]
    .into_iter()
    .enumerate()
    {
        for (rows, policy) in [2, 1025, 30_000].into_iter().flat_map(|rows| POLICIES.map(|policy| (rows, policy))) {
            let t = table(rows, 6, "rmse", case as u64);
            let leaves = if policy == "leafwise" && case == 4 { json!({ "leaves": 700, "depth": 20 }) } else { json!({}) };
            let base = json!({ "policy": policy, "rounds": 12, "seed": case, "boosting": "dart", "drop_rate": 0.4, "skip_drop": 0.3 });
            let p = params_with(params_with(base, more.clone()).to_json(), leaves);
            compare(&t, &p, &format!("{rows} rows, {policy}, {more}"));
        }
    }
}

/// Proves equal bytes of random fits with dropouts that begin on one device and go on on the other, from a model and from a snapshot.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn dropouts_go_on_on_either_device() {
    gpu();
    let (mut same, mut ended) = (0, 0);
    for seed in 0..cases(100) {
        let mut case = RandomFit::new(seed);
        (case.table.held_out, case.table.positions, case.params.early_stopping) = (None, None, None);
        let input = case.input(Column::from_f64);
        let on = |device: &str, rounds: u32| BoostingParams { device: device.into(), rounds: Some(rounds), ..case.with_dropouts(seed) };
        let Ok(whole) = fit(&input, &on("cpu", 7), &Quiet) else { continue };
        let (first_on, then_on) = [("cpu", "cuda"), ("cuda", "cpu"), ("cuda", "cuda")][seed as usize % 3];
        let before = 1 + (seed % 6) as u32;
        let first = fit(&input, &on(first_on, before), &Quiet).expect("a fit of fewer rounds");
        let first = Model::from_bytes(&first.to_bytes()).expect("a model");
        let options = FitOptions { init_model: Some(&first), ..FitOptions::default() };
        match fit_with(&input, &on(then_on, 7 - before), &options, &Quiet) {
            Ok(model) => {
                assert!(model.to_bytes() == whole.to_bytes(), "seed {seed}: {:?}", on(then_on, 7));
                same += 1;
            }
            Err(error) => assert!(error.to_string().contains("cat_method=\"ctr\""), "seed {seed}: {error}"),
        }
        let snapshots = Kept::new(1 + (seed % 3) as u32, None, 1);
        let saves = FitOptions { snapshots: Some(&snapshots), ..FitOptions::default() };
        if fit_with(&input, &on(first_on, 7), &saves, &Quiet).is_err() {
            let Some(bytes) = snapshots.bytes() else { continue };
            let snapshots = Kept::new(2, Some(bytes), u32::MAX);
            let options = FitOptions { snapshots: Some(&snapshots), ..FitOptions::default() };
            let model = fit_with(&input, &on(then_on, 7), &options, &Quiet).expect("a fit");
            assert!(model.to_bytes() == whole.to_bytes(), "seed {seed}: {:?}", on(then_on, 7));
            ended += 1;
        }
    }
    say(&format!("{same} models with dropouts went on, {ended} snapshots"));
    assert!(same > 20 && ended > 20 || cases(100) < 100, "{same} {ended}");
}

/// Proves that leaves too large to be taken back are the CPU's error.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn leaves_too_large_are_told() {
    gpu();
    let t = table(300, 3, "rmse", 1);
    let on = |device: &str| {
        let p = params(json!({ "rounds": 9, "boosting": "dart", "learning_rate": 3e7, "l2": 0.0, "skip_drop": 0.0, "device": device }));
        fit(&t.input(), &p, &Quiet).expect_err("an error").to_string()
    };
    assert_eq!(on("cuda"), on("cpu"));
    assert!(on("cuda").contains("boosting=\"dart\""), "{}", on("cuda"));
}
