//! Fits whose features come in batches make the bytes of fits to the whole table, whatever the batches and wherever they keep their rows.

use taiga_engine::column::{Chunk, Column, FeatureType, Values};
use taiga_engine::dataset::{BatchedTable, Input, Quiet};
use taiga_engine::learners::boosting::{BoostingParams, FitOptions, fit, fit_with};
use taiga_engine::spill::SpillFolder;
use taiga_engine::{Error, Result};
use taiga_testing::batches::{Parts, ends, in_batches};
use taiga_testing::continued::Kept;
use taiga_testing::random_fits::{RandomFit, cases};
use taiga_testing::{Dice, Table, contract, params, table};

/// Fits a table of which the features that `comes` says come in batches.
fn fit_in_batches(
    input: &Input<'_>,
    params: &BoostingParams,
    batches: (&dyn Fn(u32) -> bool, Vec<usize>),
    spill: Option<&SpillFolder>,
) -> Result<Vec<u8>> {
    in_batches(&input.features, input.target.rows(), batches, spill, |narrow, batches| {
        let options = FitOptions { batches: Some(batches), ..FitOptions::default() };
        fit_with(&input.with_features(narrow), params, &options, &Quiet).map(|model| model.to_bytes())
    })
}

/// Any loss, policy, sampler, constraint, weights (some of them 0), held-out rows, categories; all numeric features in batches or some,
/// what is kept of rows in memory or in files, on one thread and several: the bytes of a fit to the whole table, or its error.
#[test]
fn batches_change_no_byte() {
    let folder = SpillFolder::new(std::env::temp_dir()).expect("a folder");
    let (mut same, mut refused) = (0, 0);
    for seed in 0..cases(150) {
        let mut case = RandomFit::new(seed);
        if seed % 5 == 4 {
            case.params = case.in_order();
        }
        let input = case.input(Column::from_f64);
        let params = BoostingParams { device: "cpu".into(), n_threads: Some(1 + seed as u32 % 3), ..case.params.clone() };
        let whole = fit(&input, &params, &Quiet).map(|model| model.to_bytes());
        let mut dice = Dice::new(seed);
        for spill in [None, Some(&folder)] {
            let mixed = dice.chance(0.3);
            let comes = move |index: u32| !mixed || index.is_multiple_of(2);
            let made = fit_in_batches(&input, &params, (&comes, ends(input.target.rows(), &mut dice)), spill);
            match (made, &whole) {
                (Ok(made), Ok(whole)) => {
                    assert!(made == *whole, "seed {seed}, spill {}: other bytes under {params:?}", spill.is_some());
                    same += 1;
                }
                (made, whole) => {
                    assert_eq!(made.err(), whole.as_ref().err().cloned(), "seed {seed}");
                    refused += 1;
                }
            }
        }
    }
    assert!(same > 4 * refused, "{same} {refused}");
}

/// The same with leaves that are linear functions of the values, which are then kept; also of integers that f64 rounds, and where rounds are not told.
#[test]
fn batches_change_no_byte_of_linear_leaves() {
    let folder = SpillFolder::new(std::env::temp_dir()).expect("a folder");
    let (mut same, mut functions) = (0, 0);
    let mut compare = |input: &Input<'_>, params: &BoostingParams, dice: &mut Dice, what: &str| {
        let Ok(whole) = fit(input, params, &Quiet) else { return };
        functions += usize::from(!whole.linear.is_empty());
        for spill in [None, Some(&folder)] {
            let mixed = dice.chance(0.3);
            let comes = move |index: u32| !mixed || index.is_multiple_of(2);
            let made = fit_in_batches(input, params, (&comes, ends(input.target.rows(), dice)), spill).expect("a fit");
            assert!(made == whole.to_bytes(), "{what}, spill {}: other bytes under {params:?}", spill.is_some());
            same += 1;
        }
    };
    for seed in 0..cases(50) {
        let case = RandomFit::new(seed);
        let rounds = Some(4).filter(|_| seed % 10 != 3);
        let params = BoostingParams { rounds, n_threads: Some(1 + seed as u32 % 3), device: "cpu".into(), ..case.with_linear_leaves() };
        compare(&case.input(Column::from_f64), &params, &mut Dice::new(seed), &format!("seed {seed}"));
    }
    let t = table(3_000, 4);
    let whole: Vec<i64> = (0..3_000i64).map(|row| (1 << 60) + row * row * 7).collect();
    let narrow: Vec<f32> = t.columns[0].iter().map(|x| *x as f32).collect();
    let mut input = t.input();
    input.features[1] = Column::new("whole", FeatureType::Numeric, vec![Chunk::new(Values::I64(&whole), None)]);
    input.features[2] = Column::from_f32("narrow", &narrow);
    let params = params(serde_json::json!({ "rounds": 6, "leaf": "linear", "policy": "leafwise" }));
    compare(&input, &params, &mut Dice::new(1), "integers");
    println!("{same} equal models, {functions} fits with functions");
    assert!(same > 50 && functions > 15, "{same} {functions}");
}

/// Proves that tables of few rows, which one thread and several search by sorted rows, have the models of histograms, which several threads
/// sum where features come in batches; with noise on the scores of every second fit, and with weights of features
/// of every third.
#[test]
fn sorted_rows_and_histograms_give_the_same_small_models() {
    contract::small_tables(|t, mut p, case| {
        p.random_strength = (case % 4 < 2).then_some(0.4);
        p.feature_weights = (case % 3 == 1).then(|| [("x0".to_string(), 0.3), ("x1".to_string(), 1.9)].into());
        let input = t.input();
        let of_threads = |n: u32| BoostingParams { n_threads: Some(n), ..p.clone() };
        let by_histograms = fit_in_batches(&input, &of_threads(2), (&|_| true, vec![t.rows()]), None).unwrap();
        for n in [1, 2] {
            let sorted = fit(&input, &of_threads(n), &Quiet).unwrap().to_bytes();
            assert!(sorted == by_histograms, "case {case}, {n} threads: {p:?}");
        }
    });
}

/// Fits in batches list their rows only where they must: proves that the bytes are the same where whole levels do, though few rows of them are divided
/// further, and where a fit comes to need lists: for medians of leaves, for statistics that a word does not hold, for levels of many nodes.
#[test]
fn rows_listed_late_or_never_give_the_same_bytes() {
    let columns = table(5_000, 4).columns;
    let near: Vec<f64> = (0..5_000).map(|i| (1..4).map(|k| (columns[k][i] / k as f64).sin()).filter(|y| y.is_finite()).sum()).collect();
    let far: Vec<f64> = near.iter().enumerate().map(|(i, y)| if i % 1_000 == 7 { 1e7 * (1.0 + y) } else { *y }).collect();
    let cases = [
        (&near, serde_json::json!({ "policy": "depthwise", "depth": 6, "min_gain": 30.0 })),
        (&near, serde_json::json!({ "policy": "depthwise", "depth": 6, "min_child_weight": 700 })),
        (&near, serde_json::json!({ "policy": "depthwise", "depth": 8 })),
        (&near, serde_json::json!({ "policy": "symmetric", "depth": 6, "min_data_in_leaf": 20 })),
        (&near, serde_json::json!({ "loss": "mae", "depth": 4 })),
        (&far, serde_json::json!({ "policy": "depthwise", "depth": 5 })),
        (&far, serde_json::json!({ "policy": "symmetric", "depth": 3, "loss": "huber", "huber_delta": 1.0 })),
    ];
    for (target, mut value) in cases {
        value["rounds"] = 5.into();
        value["device"] = "cpu".into();
        let t = Table::numbers(columns.clone(), target.clone());
        let p = params(value);
        let whole = fit(&t.input(), &p, &Quiet).expect("a fit").to_bytes();
        for threads in [1, 2, 5] {
            let p = BoostingParams { n_threads: Some(threads), ..p.clone() };
            let made = fit_in_batches(&t.input(), &p, (&|_| true, vec![17, 3_000, 5_000]), None).expect("a fit");
            assert!(made == whole, "{threads} threads: other bytes under {p:?}");
        }
    }
}

/// A table of more rows than the sample of borders, with missing values that stand in no row of the sample, and 256 bins.
#[test]
fn a_sample_in_batches_has_the_rows_of_one_in_memory() {
    let mut t = table(30_000, 3);
    t.columns[1].iter_mut().step_by(4_999).for_each(|x| *x = f64::NAN);
    for bins in [8, 255, 256] {
        let p = BoostingParams { bins: bins.into(), border_sample: 500, ..params(serde_json::json!({"rounds": 5, "depth": 5})) };
        let whole = fit(&t.input(), &p, &Quiet).expect("a fit").to_bytes();
        for size in [777, 4_096, 29_999] {
            let ends = (1..=30_000usize.div_ceil(size)).map(|k| (k * size).min(30_000)).collect();
            assert!(fit_in_batches(&t.input(), &p, (&|_| true, ends), None).expect("a fit") == whole, "{bins} bins, batches of {size}");
        }
    }
}

fn error_of(t: &Table, options: &FitOptions<'_>, device: &str) -> Error {
    let p = BoostingParams { device: device.into(), ..params(serde_json::json!({"rounds": 2})) };
    fit_with(&t.input(), &p, options, &Quiet).expect_err("not yet")
}

/// What does not go with batches is said, by its name.
#[test]
fn what_is_not_fitted_in_batches_is_said() {
    let t = table(300, 1);
    let model = fit(&t.input(), &params(serde_json::json!({"rounds": 2})), &Quiet).expect("a fit");
    let parts = Parts { features: vec![], ends: vec![] };
    let batched = BatchedTable::new(&parts, vec![], 300, None);
    let options = FitOptions { batches: Some(batched.batches()), ..FitOptions::default() };
    let from_model = error_of(&t, &FitOptions { init_model: Some(&model), ..options }, "cpu").to_string();
    assert!(from_model.starts_with("parameter `init_model`: ") && from_model.ends_with("leave out `batches`"), "{from_model}");
    let kept = Kept::new(1, None, u32::MAX);
    let kept = error_of(&t, &FitOptions { snapshots: Some(&kept), ..options }, "cpu").to_string();
    assert!(kept.starts_with("parameter `snapshot`: ") && kept.ends_with("leave out `batches`"), "{kept}");
}
