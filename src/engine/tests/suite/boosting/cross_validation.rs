//! Folds are fitted as their rows alone are: on one coding of the columns, side by side, in any number of threads.

use taiga_engine::column::Column;
use taiga_engine::dataset::counted::Counted;
use taiga_engine::dataset::folds::{Division, Folds, NO_FOLD};
use taiga_engine::dataset::{EvalSets, Input, Quiet};
use taiga_engine::learners::boosting::cross_validation::{FoldModel, coded};
use taiga_engine::learners::boosting::{BoostingParams, fit, fit_coded_folds, fit_folds};
use taiga_testing::Dice;
use taiga_testing::batches::{ends, in_batches};
use taiga_testing::random_fits::{RandomFit, cases};

/// Returns values as few levels, so that all levels are in all folds and borders lie between the same values.
fn levels(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|x| !x.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    let level = |x: &f64| if x.is_nan() { *x } else { (sorted.partition_point(|other| other < x) * 6 / sorted.len()) as f64 };
    values.iter().map(level).collect()
}

/// Proves that the model of a fold has the bytes of a fit to its rows, where both have the same borders: of any loss, policy, sampler,
/// weights and categories, however many folds and threads; under early stopping, of a fit that holds the fold out.
#[test]
fn a_fold_is_a_fit_of_its_rows() {
    let (mut same, mut failed, mut stopped) = (0, 0, 0);
    for seed in 0..cases(120) {
        let mut case = RandomFit::new(seed);
        if seed % 5 == 4 {
            case.params = case.in_order();
        }
        if case.table.columns[0].len() < 200 {
            // Not all levels would be in all folds.
            continue;
        }
        let columns: Vec<Vec<f64>> = case.table.columns.iter().map(|column| levels(column)).collect();
        let own = case.input(|name, _| {
            let at: usize = name[1..].parse().expect("a number");
            Column::from_f64(name, &columns[at])
        });
        let mut input = Input { held_out: None, ..own };
        input.evaluation.sets = None::<EvalSets<'_>>;
        let rows = input.target.rows();
        let given: Vec<u32> = (0..rows as u32).map(|row| if row % 7 == 0 { NO_FOLD } else { row % 3 }).collect();
        let times: Vec<u32> = (0..rows as u32).map(|row| row / 2).collect();
        let division = match seed % 3 {
            0 => Division::Parts(2 + (seed % 4) as u32),
            1 => Division::Given(3, &given),
            _ => Division::Times(3, &times),
        };
        let Ok(folds) = Folds::new(&input, &division, seed) else { continue };
        let stops = case.params.early_stopping.is_some();
        let of = |threads| BoostingParams { rounds: Some(6), n_threads: Some(threads), ..case.params.clone() };
        let fitted = fit_folds(&input, &of(1 + (seed % 3) as u32), &folds, &Quiet);
        let alone = |fold: u32| {
            let rows = folds.fold(fold);
            let held_out: Vec<bool> = folds.of_row.iter().map(|of| *of == fold).collect();
            let mut all = rows.training;
            if stops {
                all.extend(rows.tested);
                all.sort_unstable();
            }
            let table = Counted::new(&Input { held_out: stops.then_some(held_out.as_slice()), ..input.clone() }, all).expect("a table");
            let (metric, eval_train) = if stops { (case.params.metric.clone(), case.params.eval_train) } else { (None, None) };
            fit(&table.input(), &BoostingParams { metric, eval_train, ..of(1) }, &Quiet)
        };
        match fitted {
            Err(error) => {
                let alone = (0..folds.count).find_map(|fold| alone(fold).err());
                assert!(alone.is_some(), "seed {seed}: {error}");
                failed += 1;
            }
            Ok(models) => {
                for (fold, own) in models.iter().enumerate() {
                    let alone = alone(fold as u32).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                    let borders =
                        |features: &[_]| features.iter().map(|f: &taiga_engine::model::Feature| f.borders.clone()).collect::<Vec<_>>();
                    if borders(&alone.features) != borders(&own.model.features) {
                        continue;
                    }
                    let model = taiga_engine::learners::boosting::model::Model { params: alone.params.clone(), ..own.model.clone() };
                    assert!(model.to_bytes() == alone.to_bytes(), "seed {seed}, fold {fold}: {:?}", case.params);
                    same += 1;
                    stopped += usize::from(stops);
                }
            }
        }
    }
    assert!(
        same > cases(120) as usize / 2 && stopped > 0 && failed < cases(120) as usize / 2,
        "{same} same, {failed} failed, {stopped} stopped"
    );
}

/// Proves over random fits that folds of a table whose numeric columns come in batches, all or some, have the models of the table in memory, and
/// that the codes which the table then has are those too.
#[test]
fn folds_of_batches_are_those_of_the_table() {
    let (mut same, mut refused) = (0, 0);
    for seed in 0..cases(60) {
        let case = RandomFit::new(seed);
        let own = case.input(Column::from_f64);
        let mut input = Input { held_out: None, ..own };
        input.evaluation.sets = None::<EvalSets<'_>>;
        let Ok(folds) = Folds::new(&input, &Division::Parts(2 + (seed % 3) as u32), seed) else { continue };
        let params =
            BoostingParams { rounds: Some(4), n_threads: Some(1 + (seed % 3) as u32), device: "cpu".into(), ..case.params.clone() };
        let bytes =
            |models: Vec<FoldModel>| models.into_iter().map(|fold| (fold.model.to_bytes(), fold.training, fold.tested)).collect::<Vec<_>>();
        let whole = fit_folds(&input, &params, &folds, &Quiet).map(bytes);
        let mut dice = Dice::new(seed);
        let mixed = dice.chance(0.3);
        let comes = move |index: u32| !mixed || index.is_multiple_of(2);
        let ends = ends(input.target.rows(), &mut dice);
        let made = in_batches(&input.features, input.target.rows(), (&comes, ends), None, |narrow, batches| {
            let narrow = input.with_features(narrow);
            let table = coded(&narrow, &params, Some(batches), &Quiet)?;
            let all = coded(&input, &params, None, &Quiet)?;
            assert!((0..input.features.len()).all(|column| table.codes(column) == all.codes(column)), "seed {seed}: other codes");
            fit_coded_folds(&table, &params, &folds, &Quiet).map(bytes)
        });
        match (made, whole) {
            (Ok(made), Ok(whole)) => {
                assert!(made == whole, "seed {seed}: other bytes under {params:?}");
                same += 1;
            }
            (made, whole) => {
                assert_eq!(made.err(), whole.err(), "seed {seed}");
                refused += 1;
            }
        }
    }
    println!("{same} validations alike, {refused} refused");
    assert!(same > 2 * refused && same > 20, "{same} {refused}");
}
