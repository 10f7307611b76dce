//! Forests whose fit is ended go on with the trees that are done, to the bytes of a fit that was never ended.

use super::together::{Drawn, of_own};
use serde_json::json;
use taiga_engine::collective::local;
use taiga_engine::dataset::Quiet;
use taiga_engine::learners::forest::FitOptions;
use taiga_engine::learners::forest::{Forest, ForestParams, Input, fit, fit_with};
use taiga_engine::{Error, Result};
use taiga_testing::Dice;
use taiga_testing::continued::{EndedTogether, Kept, OF_OTHERS};
use taiga_testing::forest::{awkward_table, input, params};
use taiga_testing::random_fits::cases;
use taiga_testing::tampering::{damage_is_told, tamper};
use taiga_testing::together::at_all_ends;

fn fit_kept(input: &Input<'_>, params: &ForestParams, kept: &Kept) -> Result<Forest> {
    fit_with(input, params, &FitOptions { snapshots: Some(kept), ..FitOptions::default() }, &Quiet)
}

/// Proves over random forests that one that is ended after any number of trees, and once more, goes on to the same bytes, whatever the threads and
/// however often trees are kept: predictions out of bag and permutation importances among them.
#[test]
fn a_forest_that_is_ended_goes_on_to_the_same_bytes() {
    let mut ended = 0;
    for seed in 0..cases(30) {
        let drawn = Drawn::new(seed);
        let Ok(whole) = fit(&drawn.input(), &drawn.params, &Quiet).map(|forest| forest.to_bytes()) else { continue };
        for every in [1, 4] {
            let mut saved = None;
            for time in 0..3 {
                let kept = Kept::new(every + time, saved, if time < 2 { 1 + (seed % 3) as u32 } else { u32::MAX });
                let given = ForestParams { n_threads: Some(1 + time), ..drawn.params.clone() };
                match fit_kept(&drawn.input(), &given, &kept) {
                    Ok(forest) => assert!(forest.to_bytes() == whole, "seed {seed}, every {every}, time {time}: {:?}", drawn.params),
                    Err(error) => {
                        assert!(matches!(error, Error::Interrupted), "seed {seed}: {error}");
                        ended += 1;
                    }
                }
                saved = kept.bytes();
            }
        }
    }
    println!("{ended} fits ended");
    assert!(ended > 40, "{ended}");
}

/// Proves the same of forests that several processes grow, and another number of them goes on with.
#[test]
fn a_forest_that_is_ended_goes_on_in_another_number_of_processes() {
    let mut tried = EndedTogether::default();
    for seed in 0..cases(25) {
        let drawn = Drawn::new(seed);
        let all = drawn.input();
        let Ok(whole) = fit(&all, &drawn.params, &Quiet).map(|forest| forest.to_bytes()) else { continue };
        tried.try_on((all.target.rows(), seed), (2, 1), &whole, |ends, kept| {
            at_all_ends(local(kept.len()), ends, |own| {
                let options = FitOptions { own: Some(own), snapshots: Some(&kept[own.collective.rank()]), ..FitOptions::default() };
                let given = ForestParams { n_threads: Some(1 + (own.collective.rank() > 0) as u32), ..drawn.params.clone() };
                fit_with(&of_own(&all, &own.range()), &given, &options, &Quiet).map(|forest| forest.to_bytes())
            })
        });
    }
    tried.tell();
}

/// Proves that what was kept of other rows or parameters, or is damaged, is an error, and that more trees than were asked for first go on.
#[test]
fn a_snapshot_of_another_forest_is_refused() {
    let table = awkward_table(&mut Dice::new(3), 200, 4, 2, true);
    let given = params(json!({ "trees": 6 }));
    let ended = Kept::new(2, None, 1);
    assert_eq!(fit_kept(&input(&table), &given, &ended).err(), Some(Error::Interrupted));
    let bytes = ended.bytes().expect("saved");
    let told = |table: &taiga_testing::Table, given: &ForestParams, bytes: &[u8]| {
        fit_kept(&input(table), given, &Kept::new(2, Some(bytes.to_vec()), u32::MAX)).expect_err("differs").to_string()
    };
    let (mut others, mut heavier) = (table.clone(), table.clone());
    let row = (0..200).find(|row| table.columns[4][*row] == 0.0).expect("a row");
    others.columns[4][row] = 4.0;
    heavier.weight.as_mut().expect("weights")[0] += 1.0;
    assert_eq!(told(&others, &given, &bytes), OF_OTHERS);
    assert_eq!(told(&heavier, &given, &bytes), OF_OTHERS);
    assert_eq!(told(&table, &ForestParams { seed: 1, ..given.clone() }, &bytes), OF_OTHERS);
    assert_eq!(told(&table, &ForestParams { depth: Some(3), ..given.clone() }, &bytes), OF_OTHERS);
    let fewer = told(&table, &ForestParams { trees: 1, ..given.clone() }, &bytes);
    assert!(fewer.contains("it has 2 trees, and this fit has 1"), "{fewer}");
    let longer = ForestParams { trees: 9, ..given.clone() };
    let goes_on = fit_kept(&input(&table), &longer, &Kept::new(4, Some(bytes.clone()), u32::MAX)).expect("a forest");
    assert!(goes_on.to_bytes() == fit(&input(&table), &longer, &Quiet).expect("a forest").to_bytes());
    let of_boosted_trees = [b"TAIGA\0GS", &bytes[8..]].concat();
    assert!(told(&table, &given, &of_boosted_trees).contains("not a snapshot of a fit of a forest"));
    damage_is_told(&bytes, 37, |damaged| told(&table, &given, damaged));
}

/// Proves that bytes with a checksum that fits, whatever else is in them, are an error or trees that can be walked and measured.
#[test]
fn hostile_snapshots_end_no_process() {
    for (seed, (classes, more)) in
        [(0, json!({})), (3, json!({ "splitter": "exact" })), (2, json!({ "permutation_importance": true }))].into_iter().enumerate()
    {
        let table = awkward_table(&mut Dice::new(seed as u64), 40, 3, classes, false);
        let mut given = json!({ "trees": 3, "n_threads": 1 });
        given.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        let given = params(given);
        let kept = Kept::new(2, None, u32::MAX);
        fit_kept(&input(&table), &given, &kept).expect("a forest");
        let bytes = kept.bytes().expect("saved");
        let go_on = |bytes: Vec<u8>| fit_kept(&input(&table), &given, &Kept::new(2, Some(bytes), u32::MAX));
        let (refused, read) = tamper(&bytes, "the model is not valid", go_on);
        println!("{refused} refused, {read} read");
        assert!(refused > read, "{refused}, {read}");
    }
}
