//! Fits of sparse logistic regression that are ended go on from the exact state of their search, to the bytes of one that was never ended.

use serde_json::json;
use taiga_engine::collective::local;
use taiga_engine::dataset::Quiet;
use taiga_engine::learners::linear::{FitOptions, Input, LinearModel, LinearParams, fit, fit_with};
use taiga_engine::{Error, Result};
use taiga_testing::Dice;
use taiga_testing::continued::{EndedTogether, Kept, OF_OTHERS};
use taiga_testing::linear::{Table, drawn, formulas, of_own, params};
use taiga_testing::random_fits::cases;
use taiga_testing::tampering::{damage_is_told, tamper};
use taiga_testing::together::at_all_ends;

fn fit_kept(input: &Input<'_>, params: &LinearParams, kept: &Kept) -> Result<LinearModel> {
    fit_with(input, params, &FitOptions { snapshots: Some(kept), ..FitOptions::default() }, &Quiet)
}

/// Draws a table and a fit of at least four passes by any optimizer.
fn longer(seed: u64) -> (Table, LinearParams) {
    let (table, mut given) = drawn(seed);
    let dice = &mut Dice::new(seed ^ 0x5a9);
    given["epochs"] = json!(4 + dice.below(4));
    given["optimizer"] = json!(["lbfgs", "lbfgs", "sgd", "adagrad", "ftrl"][dice.below(5) as usize]);
    match given["optimizer"].as_str() {
        Some("lbfgs") => given["tolerance"] = json!(1e-9),
        _ => given["batch"] = json!([7, 64, 1_000][dice.below(3) as usize]),
    }
    if dice.chance(0.4) {
        given["l2"] = json!([0.0, 1e-4][dice.below(2) as usize]);
    }
    (table, params(given))
}

/// Proves over random fits by every optimizer that one that is ended after any pass, and once more, goes on to the same bytes, whatever the
/// threads: held-out rows, early stopping, penalties and several classes among them.
#[test]
fn a_fit_that_is_ended_goes_on_to_the_same_bytes() {
    let (mut ended, mut optimizers) = (0, std::collections::BTreeSet::new());
    for seed in 0..cases(60) {
        let (table, given) = longer(seed);
        let Ok(whole) = fit(&table.input(), &given, &Quiet).map(|model| model.to_bytes()) else { continue };
        for every in [1, 2] {
            let mut saved = None;
            for time in 0..3 {
                let kept = Kept::new(every, saved, if time < 2 { 1 + (seed % 2) as u32 } else { u32::MAX });
                let given = LinearParams { n_threads: Some(1 + time), ..given.clone() };
                match fit_kept(&table.input(), &given, &kept) {
                    Ok(model) => assert!(model.to_bytes() == whole, "seed {seed}, every {every}, time {time}: {given:?}"),
                    Err(error) => {
                        assert!(matches!(error, Error::Interrupted), "seed {seed}: {error}");
                        optimizers.insert(format!("{:?}", given.optimizer));
                        ended += 1;
                    }
                }
                saved = kept.bytes();
            }
        }
    }
    println!("{ended} fits ended, by {optimizers:?}");
    assert!(ended > 60 && optimizers.len() == 4, "{ended}, {optimizers:?}");
}

/// Proves the same of fits that several processes make, and another number of them goes on with.
#[test]
fn a_fit_that_is_ended_goes_on_in_another_number_of_processes() {
    let mut tried = EndedTogether::default();
    for seed in 0..cases(30) {
        let (table, given) = longer(seed);
        let given = LinearParams { optimizer: Default::default(), batch: None, tolerance: Some(1e-9), ..given };
        let Ok(whole) = fit(&table.input(), &given, &Quiet).map(|model| model.to_bytes()) else { continue };
        tried.try_on((table.rows(), seed), (1, 1), &whole, |ends, kept| {
            at_all_ends(local(kept.len()), ends, |own| {
                let options = FitOptions { own: Some(own), snapshots: Some(&kept[own.collective.rank()]) };
                let given = LinearParams { n_threads: Some(1 + (own.collective.rank() > 0) as u32), ..given.clone() };
                fit_with(&of_own(&table, &own.range()), &given, &options, &Quiet).map(|model| model.to_bytes())
            })
        });
    }
    tried.tell();
}

/// Proves that what was kept of other rows or parameters, or is damaged, is an error, and that more passes than were asked for first go on.
#[test]
fn a_snapshot_of_another_fit_is_refused() {
    for optimizer in ["lbfgs", "sgd", "ftrl"] {
        let table = formulas(2);
        let given = params(json!({ "optimizer": optimizer, "epochs": 4 }));
        let kept = Kept::new(2, None, 1);
        assert_eq!(fit_kept(&table.input(), &given, &kept).err(), Some(Error::Interrupted));
        let bytes = kept.bytes().expect("saved");
        let told = |table: &Table, given: &LinearParams, bytes: &[u8]| {
            fit_kept(&table.input(), given, &Kept::new(2, Some(bytes.to_vec()), u32::MAX)).expect_err("differs").to_string()
        };
        let change = |change: &dyn Fn(&mut Table)| {
            let mut others = table.clone();
            change(&mut others);
            others
        };
        for others in [
            change(&|t| t.values.as_mut().expect("values")[7] += 0.25),
            change(&|t| t.numbers.swap(0, 1)),
            change(&|t| t.codes.swap(0, 1)),
            change(&|t| t.dense = vec![vec![1.0; 400]]),
            change(&|t| t.weight = Some((0..400).map(|row| 1.0 + f64::from(row % 2)).collect())),
        ] {
            assert_eq!(told(&others, &given, &bytes), OF_OTHERS, "{optimizer}");
        }
        assert_eq!(told(&table, &LinearParams { l1: 0.1, ..given.clone() }, &bytes), OF_OTHERS);
        let fewer = told(&table, &LinearParams { epochs: Some(1), ..given.clone() }, &bytes);
        assert!(fewer.contains("it has 2 passes, and this fit has 1"), "{fewer}");
        for epochs in [2, 7] {
            let other = LinearParams { epochs: Some(epochs), ..given.clone() };
            let goes_on = fit_kept(&table.input(), &other, &Kept::new(4, Some(bytes.clone()), u32::MAX)).expect("a model");
            assert!(goes_on.to_bytes() == fit(&table.input(), &other, &Quiet).expect("a model").to_bytes(), "{optimizer}, {epochs}");
        }
        damage_is_told(&bytes, 137, |damaged| told(&table, &given, damaged));
    }
}

/// Proves that bytes with a checksum that fits, whatever else is in them, are an error or a state that the search goes on from.
#[test]
fn hostile_snapshots_end_no_process() {
    let rows: Vec<Vec<(i64, f64)>> = (0..30).map(|i| vec![(i % 5, 1.0 + i as f64), (i % 3 + 4, -0.5)]).collect();
    let mut table = Table::new(&rows, (0..30).map(|i| u32::from(i % 7 > 2)).collect(), 2);
    table.held_out = Some((0..30).map(|i| i % 6 == 5).collect());
    for given in [
        json!({ "optimizer": "lbfgs", "epochs": 4, "early_stopping": 3, "tolerance": 0.0 }),
        json!({ "optimizer": "lbfgs", "epochs": 4, "l1": 0.01 }),
        json!({ "optimizer": "adagrad", "epochs": 4, "batch": 8 }),
        json!({ "optimizer": "ftrl", "epochs": 4, "batch": 8, "l1": 0.01 }),
    ] {
        let given = LinearParams { n_threads: Some(1), ..params(given) };
        let kept = Kept::new(2, None, 1);
        assert_eq!(fit_kept(&table.input(), &given, &kept).err(), Some(Error::Interrupted));
        let bytes = kept.bytes().expect("saved");
        let go_on = |bytes: Vec<u8>| fit_kept(&table.input(), &given, &Kept::new(2, Some(bytes), u32::MAX));
        // What the search itself refuses is a number that is no longer finite.
        let (refused, read) = tamper(&bytes, "no longer finite", go_on);
        println!("{given:?}: {refused} refused, {read} read");
        assert!(refused > 50 && read > 0, "{refused}, {read}");
    }
}
