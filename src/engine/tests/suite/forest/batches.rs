//! Forests whose features come in batches have the bytes of forests of the whole table, whatever the batches.

use super::together::Drawn;
use taiga_engine::learners::forest::{ForestParams, Input, Quiet, fit, fit_in_batches};
use taiga_testing::Dice;
use taiga_testing::batches::{ends, in_batches};
use taiga_testing::random_fits::cases;

/// Proves over random fits (weights, some of them 0, categories, classes, predictions out of bag, permutations), all numeric features in
/// batches or some, that batches change no byte, and no error; that values which are ranked are an error of their own.
#[test]
fn batches_change_no_byte() {
    let (mut same, mut ranked) = (0, 0);
    for seed in 0..cases(80) {
        let drawn = Drawn::new(seed);
        let (input, dice) = (drawn.input(), &mut Dice::new(seed));
        let params = ForestParams { n_threads: Some(1 + seed as u32 % 3), ..drawn.params.clone() };
        let whole = fit(&input, &params, &Quiet).map(|forest| forest.to_bytes());
        let mixed = dice.chance(0.3);
        let comes = |index: u32| !mixed || index.is_multiple_of(2);
        let rows = input.target.rows();
        let made = in_batches(&input.features, rows, (&comes, ends(rows, dice)), None, |features, batches| {
            let (target, target_name, weight) = (input.target.clone(), input.target_name.clone(), input.weight.clone());
            fit_in_batches(&Input { features, target, target_name, weight }, &params, batches, &Quiet).map(|forest| forest.to_bytes())
        });
        match (made, whole) {
            (Ok(made), Ok(whole)) => {
                assert!(made == whole, "seed {seed}: other bytes under {params:?}");
                same += 1;
            }
            (Err(error), _) if error.to_string().starts_with("parameter `batches`: splitter=") => ranked += 1,
            (Err(made), Err(whole)) => assert_eq!(made, whole, "seed {seed}"),
            (made, whole) => panic!("seed {seed}: {:?} and {:?} under {params:?}", made.err(), whole.err()),
        }
    }
    assert!(same > 20 && ranked > 10, "{same}, {ranked}");
}
