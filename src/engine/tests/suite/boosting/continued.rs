//! Fits that go on from a model or a snapshot give the bytes of one fit of all rounds, whatever is fitted, and on however many threads.

use taiga_engine::Error;
use taiga_engine::dataset::Quiet;
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::{BoostingParams, FitOptions, fit_with};
use taiga_testing::continued::{Continued, Kept, OF_OTHERS, go_on_from_a_model, go_on_from_snapshots};
use taiga_testing::random_fits::cases;
use taiga_testing::tampering::damage_is_told;
use taiga_testing::{Table, params, table};

/// Any loss, policy, sampler, constraint, weights, held-out rows with early stopping, positions, categories.
#[test]
fn a_model_and_more_rounds_are_the_bytes_of_all_rounds() {
    let became: Vec<Continued> = (0..cases(120)).map(|seed| go_on_from_a_model(seed, ["cpu", "cpu"])).collect();
    let count = |of: Continued| became.iter().filter(|b| **b == of).count();
    assert!(count(Continued::Same) > 2 * count(Continued::Refused), "{became:?}");
}

/// The same of snapshots, which carry what ordered statistics of categories need as well; the fit is ended once or twice.
#[test]
fn a_fit_that_is_ended_goes_on_to_the_same_bytes() {
    let ended: usize = (0..cases(120)).map(|seed| go_on_from_snapshots(seed, ["cpu"; 3])).sum();
    assert!(ended > 50, "{ended}");
}

fn fitted(t: &Table, params: &BoostingParams, options: FitOptions<'_>) -> taiga_engine::Result<Model> {
    fit_with(&t.input(), params, &options, &Quiet)
}

/// A model of other rows keeps its own borders, and the new trees choose from those and the rows'.
#[test]
fn with_other_rows_both_borders_are_kept() {
    let (a, mut b) = (table(300, 1), table(300, 2));
    b.columns.iter_mut().flatten().for_each(|x| *x = *x * 1.7 + 0.3);
    for bins in [2, 4, 255, 256] {
        let p = BoostingParams { bins: bins.into(), ..params(serde_json::json!({"rounds": 30, "depth": 4})) };
        let first = fitted(&a, &p, FitOptions::default()).expect("a fit");
        let both = fitted(&b, &p, FitOptions { init_model: Some(&first), ..FitOptions::default() }).expect("a fit");
        assert_eq!((both.rounds(), both.params.rounds, &both.start), (60, Some(60), &first.start));
        assert_eq!(Model::from_bytes(&both.to_bytes()).expect("valid bytes"), both);
        for (own, all) in first.features.iter().zip(&both.features) {
            assert!(own.borders.iter().all(|x| all.borders.contains(x)));
            assert!(all.borders.len() <= 255);
        }
        // Its first trees predict what the given model does.
        let head = both.clone().into_head(30).expect("a head");
        assert_eq!(taiga_testing::raw(&head, &b), taiga_testing::raw(&first, &b));
    }
}

#[test]
fn what_does_not_go_together_is_told() {
    let t = table(200, 3);
    let p = params(serde_json::json!({"rounds": 3}));
    let first = fitted(&t, &p, FitOptions::default()).expect("a fit");
    let told = |t: &Table, more: serde_json::Value| {
        fitted(t, &params(more), FitOptions { init_model: Some(&first), ..FitOptions::default() }).expect_err("differs").to_string()
    };
    assert_eq!(
        told(&t, serde_json::json!({"loss": "mae"})),
        "parameter `init_model`: it was fitted with loss=\"rmse\", and this fit has \"mae\""
    );
    let mut fewer = t.clone();
    fewer.columns.pop();
    let n = t.columns.len();
    assert_eq!(told(&fewer, serde_json::json!({})), format!("parameter `init_model`: it has {n} features, and this fit has {}", n - 1));
    assert!(told(&t, serde_json::json!({"rounds": 1_000_000})).contains("are over 1,000,000"));
}

#[test]
fn a_snapshot_of_another_fit_is_refused() {
    let t = table(200, 3);
    let p = params(serde_json::json!({"rounds": 6}));
    let ended = Kept::new(2, None, 1);
    let interrupted = fitted(&t, &p, FitOptions { snapshots: Some(&ended), ..FitOptions::default() });
    assert!(matches!(interrupted, Err(Error::Interrupted)));
    let told = |t: &Table, p: &BoostingParams, bytes: Vec<u8>| {
        let snapshots = Kept::new(2, Some(bytes), u32::MAX);
        fitted(t, p, FitOptions { snapshots: Some(&snapshots), ..FitOptions::default() }).expect_err("differs").to_string()
    };
    let bytes = ended.bytes().expect("saved");
    let mut others = t.clone();
    others.columns[0][7] += 1e-9;
    assert_eq!(told(&others, &p, bytes.clone()), OF_OTHERS);
    assert_eq!(told(&t, &BoostingParams { learning_rate: Some(0.2), ..p.clone() }, bytes.clone()), OF_OTHERS);
    assert!(told(&t, &BoostingParams { rounds: Some(1), ..p.clone() }, bytes.clone()).contains("it has 2 rounds, and this fit has 1"));
    // Of another length and device it goes on.
    let snapshots = Kept::new(2, Some(bytes.clone()), u32::MAX);
    let longer = BoostingParams { rounds: Some(9), device: "cpu".into(), ..p.clone() };
    let model = fitted(&t, &longer, FitOptions { snapshots: Some(&snapshots), ..FitOptions::default() }).expect("a fit");
    assert_eq!(model.to_bytes(), fitted(&t, &longer, FitOptions::default()).expect("a fit").to_bytes());
    damage_is_told(&bytes, 37, |damaged| told(&t, &p, damaged.to_vec()));
}
