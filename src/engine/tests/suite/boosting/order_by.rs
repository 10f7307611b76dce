//! `order_by`: ordered statistics of categories take rows in a given order.

use serde_json::json;
use taiga_engine::column::Column;
use taiga_engine::column::categories::CategoryColumn;
use taiga_engine::dataset::{Input, Quiet, Target};
use taiga_engine::encoding::permutation::permutation;
use taiga_engine::learners::boosting::model::{Derived, Model};
use taiga_engine::learners::boosting::params::CatMethod;
use taiga_engine::learners::boosting::{BoostingParams, fit};
use taiga_engine::numerics::random::{Purpose, Random};
use taiga_engine::tree::Tree;
use taiga_testing::random_fits::{RandomFit, cases};
use taiga_testing::{Dice, params};

/// Proves that rows in the order of the first permutation give the bytes of the fit that draws this permutation and no other: whatever is fitted,
/// with held-out rows, which have no place in it.
#[test]
fn the_order_of_a_permutation_gives_its_fit() {
    let mut ordered = 0;
    for seed in 0..cases(60) {
        let mut case = RandomFit::new(seed);
        (case.table.weight, case.table.order) = (None, None);
        case.params.permutations = 1;
        if seed % 3 == 2 {
            case.params = case.in_order();
        }
        let rows = case.table.rows();
        let training: Vec<usize> = (0..rows).filter(|row| !case.table.held_out.as_ref().is_some_and(|h| h[*row])).collect();
        let drawn = case.fit(&case.input(Column::from_f64), &case.params);
        let mut places = vec![0; rows];
        let order = permutation(training.len(), Random::new(case.params.seed, Purpose::Permutation, 0));
        order.iter().zip(0..).for_each(|(at, place)| places[training[*at as usize]] = place);
        case.table.order = Some(places);
        if case.params.cat_method != CatMethod::Ctr && !case.params.is_ordered() {
            assert!(case.fit(&case.input(Column::from_f64), &case.params).unwrap_err().contains("`order_by`"), "{seed}");
            continue;
        }
        let given = case.fit(&case.input(Column::from_f64), &case.params);
        assert!(given == drawn, "{seed} {:?}", case.params);
        ordered += given.is_ok() as u32;
    }
    assert!(ordered > 10, "{ordered} fits");
}

/// The largest target, of which the others are whole parts: so their shares of the range are exact.
const RANGE: f64 = 64.0;

/// A category and a time of each row, some of which share one, and a target between 0 and [`RANGE`] that drifts.
struct Times {
    names: Vec<String>,
    times: Vec<u32>,
    y: Vec<f64>,
}

impl Times {
    fn new(rows: usize, seed: u64) -> Times {
        let mut dice = Dice::new(seed);
        let names: Vec<u64> = (0..rows).map(|_| dice.below(12)).collect();
        let times: Vec<u32> = (0..rows).map(|_| dice.below(rows as u64 / 2) as u32).collect();
        let mut y: Vec<f64> = names.iter().zip(&times).map(|(name, time)| (name * 7 % 12 * 4 + u64::from(time % 5)) as f64).collect();
        (y[0], y[1]) = (0.0, RANGE);
        Times { names: names.iter().map(|name| format!("n{name}")).collect(), times, y }
    }

    /// The rows in another order.
    fn taken(&self, rows: &[usize]) -> Times {
        Times {
            names: rows.iter().map(|row| self.names[*row].clone()).collect(),
            times: rows.iter().map(|row| self.times[*row]).collect(),
            y: rows.iter().map(|row| self.y[*row]).collect(),
        }
    }

    fn fit(&self, params: &BoostingParams) -> Model {
        let text = CategoryColumn::text("c", &[self.names.len()], |_, row| Some(self.names[row].as_str())).unwrap();
        let input = Input {
            features: vec![Column::categorical(&text)],
            target: Target::Numbers(Column::from_f64("y", &self.y)),
            target_name: "y".into(),
            weight: None,
            baseline: vec![],
            held_out: None,
            loss_columns: Default::default(),
            evaluation: Default::default(),
            order: Some(self.times.as_slice().into()),
        };
        fit(&input, params, &Quiet).unwrap()
    }

    /// Of each row how many rows of its category stand before it, by time and then as they come, and the sum of their targets.
    fn before(&self) -> Vec<(f64, f64)> {
        let comes = |a: usize, b: usize| (self.times[a], a) < (self.times[b], b);
        let of_row = |row: usize| {
            let own = (0..self.y.len()).filter(|other| self.names[*other] == self.names[row] && comes(*other, row));
            own.fold((0.0, 0.0), |(n, s), other| (n + 1.0, s + self.y[other]))
        };
        (0..self.y.len()).map(of_row).collect()
    }
}

/// Proves that the leaves of a tree have the rows, and the mean targets, that statistics of the rows before each row send to them: one row after the
/// other, as anyone would count them.
#[test]
fn statistics_are_of_the_rows_before() {
    for seed in 0..20 {
        let table = Times::new(300, seed);
        let model = table.fit(&params(json!({
            "rounds": 1, "depth": 3, "learning_rate": 1.0, "l2": 0.0, "ctr": ["float_target_mean_value"], "ctr_priors": [0.5], "seed": seed
        })));
        let Tree::Symmetric { splits, leaves } = &model.trees[0] else { panic!("a symmetric tree") };
        let (mut rows, mut sums) = (vec![0u32; leaves.len()], vec![0.0; leaves.len()]);
        for ((n, s), y) in table.before().into_iter().zip(&table.y) {
            let right = |feature: u32, border: u32| match &model.derived[feature as usize - 1] {
                Derived::Ctr { borders, .. } => s / RANGE + 0.5 > borders[border as usize] * (n + 1.0),
                other => panic!("{other:?}"),
            };
            let leaf = splits.iter().fold(0, |leaf, split| 2 * leaf + right(split.feature, split.border) as usize);
            (rows[leaf], sums[leaf]) = (rows[leaf] + 1, sums[leaf] + y - model.start[0]);
        }
        assert!(rows.iter().filter(|n| **n > 0).count() > 2, "{rows:?}");
        for ((leaf, rows), sum) in leaves.iter().zip(rows).zip(sums) {
            assert_eq!(leaf.count, rows, "{seed}");
            let mean = if rows > 0 { sum / rows as f64 } else { 0.0 };
            assert!((model.scale * leaf.value - mean).abs() < 1e-4 * (1.0 + mean.abs()), "{seed}: {} {mean}", leaf.value);
        }
    }
}

/// Proves that a model is one of its rows and their times, in whatever order they come, where times differ.
#[test]
fn shuffled_rows_with_their_times_give_the_model() {
    for seed in 0..10 {
        let mut dice = Dice::new(seed);
        let rows = 400;
        let mut table = Times::new(rows, seed);
        let shuffled = |dice: &mut Dice| {
            let mut rows: Vec<usize> = (0..rows).collect();
            (1..rows.len()).for_each(|i| rows.swap(i, dice.below(i as u64 + 1) as usize));
            rows
        };
        table.times = shuffled(&mut dice).into_iter().map(|time| time as u32).collect();
        // The mean of all targets is exact in any order, and so are the sums of leaves.
        let p = params(json!({ "rounds": 1, "depth": 2, "ctr": ["float_target_mean_value"] }));
        let (model, other) = (table.fit(&p), table.taken(&shuffled(&mut dice)).fit(&p));
        let counts = |model: &Model| model.trees[0].leaves().iter().map(|leaf| leaf.count).collect::<Vec<_>>();
        let values = |model: &Model| model.trees[0].leaves().iter().map(|leaf| leaf.value).collect::<Vec<_>>();
        assert_eq!(counts(&model), counts(&other), "{seed}");
        assert!(values(&model).iter().zip(values(&other)).all(|(a, b)| (a - b).abs() < 1e-6), "{seed}");
    }
}

/// Proves that the order changes nothing where no statistics are made, and that there is one.
#[test]
fn there_is_one_order() {
    let mut table = Times::new(100, 1);
    table.names.iter_mut().for_each(|name| *name = if name.len() % 2 == 0 { "even".into() } else { "odd".into() });
    let few = json!({ "rounds": 3, "permutations": 1, "max_combination": 1 });
    let model = table.fit(&params(few.clone()));
    table.times.reverse();
    assert_eq!(table.fit(&params(few)).to_bytes(), model.to_bytes());
    assert_eq!(Times::new(100, 1).fit(&params(json!({ "rounds": 2 }))).params.permutations, 1);
}
