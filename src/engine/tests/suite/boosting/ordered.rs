//! `boosting="ordered"`: against a twin that anyone can read, and what holds of fits whose trees grow to gradients that rows had no part
//! in.

use serde_json::{Value, json};
use std::sync::Mutex;
use taiga_core::learners::boosting;
use taiga_engine::Result;
use taiga_engine::column::Column;
use taiga_engine::cpu::trees::CpuTrees;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::dataset::{Monitor, Quiet};
use taiga_engine::encoding::permutation::permutation;
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::steps::{Extent, TrainingData, TreeDevices, TreeSteps};
use taiga_engine::learners::boosting::{BoostingParams, FitOptions, fit_with};
use taiga_engine::losses::LossKind;
use taiga_engine::numerics::random::{Purpose, Random};
use taiga_engine::parallel::thread_pool::ThreadPool;
use taiga_engine::quantize::borders::borders;
use taiga_testing::continued::Kept;
use taiga_testing::naive::{self, Data, Grown, Pair, Rules, derivatives};
use taiga_testing::random_fits::{RandomFit, cases};
use taiga_testing::{Dice, POLICIES, Table, params, params_with, raw, table};

/// What a fit keeps of one permutation, as the definition has it: the rows in its order, and for each body all rows' scores, of which those
/// of the body and of its tail count.
struct Permuted {
    order: Vec<usize>,
    bodies: Vec<(usize, Vec<f64>)>,
}

impl Permuted {
    fn new(order: Vec<usize>) -> Permuted {
        let doubled = (0..).map(|power| 1 << power).take_while(|rows| *rows < order.len());
        let bodies = doubled.map(|rows| (rows, vec![0.0; order.len()])).collect();
        Permuted { order, bodies }
    }

    /// What splits are scored by: the derivatives of the rows of the last four bodies, and of as many behind each, or of those that there
    /// are, at the body's scores.
    fn pairs(&self, derivative: &dyn Fn(usize, f64) -> (f64, f64)) -> Vec<Pair> {
        let last = self.bodies.len().saturating_sub(4);
        let of_body = |(rows, scores): &(usize, Vec<f64>)| {
            let of_rows = |own: &[usize]| {
                let mut all = vec![(0.0, 0.0); self.order.len()];
                own.iter().for_each(|row| all[*row] = derivative(*row, scores[*row]));
                all
            };
            Pair { body: of_rows(&self.order[..*rows]), tail: of_rows(&self.order[*rows..self.order.len().min(2 * rows)]) }
        };
        self.bodies[last..].iter().map(of_body).collect()
    }
}

/// Adds the value of each leaf of a tree to the scores of all its rows, from the derivatives there of the rows in `body`.
fn add(grown: &Grown, rules: &Rules, rate: f64, body: &[usize], derivative: &dyn Fn(usize, f64) -> (f64, f64), scores: &mut [f64]) {
    grown.leaves(&mut |rows, _, _| {
        let of_body = rows.iter().filter(|row| body.contains(row)).map(|row| derivative(*row, scores[*row]));
        let (g, h) = of_body.fold((0.0, 0.0), |sum, row| (sum.0 + row.0, sum.1 + row.1));
        let value = Grown::newton(g, h, rules).clamp(-rules.max_delta_step, rules.max_delta_step);
        rows.iter().for_each(|row| scores[*row] += rate * value);
    });
}

/// Proves that trees grow to the gradients that the definition says, and have the values that all rows give them at the model's own scores:
/// for each policy, squared errors and probabilities, weights, several permutations, one, and the order of a column.
#[test]
fn trees_are_those_of_a_naive_twin() {
    const ROWS: usize = 45;
    for (seed, policy) in (0..15).flat_map(|seed| POLICIES.map(|policy| (seed, policy))) {
        let mut dice = Dice::new(seed);
        let columns: Vec<Vec<f64>> = (0..3).map(|_| (0..ROWS).map(|_| dice.below(6) as f64).collect()).collect();
        let is_class = seed % 3 == 1;
        let z: Vec<f64> = (0..ROWS).map(|i| columns[0][i] * 37.0 + columns[1][i] * columns[2][i] * 11.0 + dice.below(50) as f64).collect();
        let y: Vec<f64> = if is_class { z.iter().map(|z| f64::from(*z > 220.0)).collect() } else { z };
        let mut t = match is_class {
            true => Table::classes(columns, y.iter().map(|y| *y as u32).collect(), Labels::Integer(vec![0, 1])),
            false => Table::numbers(columns, y.clone()),
        };
        t.baseline = vec![vec![0.0; ROWS]];
        let weight: Vec<f64> = (0..ROWS).map(|_| if seed % 2 == 0 { 1.0 } else { 0.5 + dice.below(3) as f64 }).collect();
        t.weight = (seed % 2 == 1).then(|| weight.clone());
        let places: Vec<u32> = (0..ROWS).map(|_| dice.below(30) as u32).collect();
        t.order = (seed % 5 == 4).then(|| places.clone());
        let permutations = 1 + seed % 4;
        let p = json!({
            "loss": if is_class { "logloss" } else { "rmse" }, "rounds": 8, "policy": policy, "depth": 2, "learning_rate": 0.5, "l2": 2.0,
            "boosting": "ordered", "permutations": if t.order.is_some() { 3 } else { permutations }, "min_child_weight": 0.1, "seed": seed,
            "n_threads": 1,
        });
        let p = if seed % 4 == 2 { params_with(p, json!({ "max_delta_step": 9.0 })) } else { params(p) };
        let p = if policy == "leafwise" { BoostingParams { leaves: Some(4), ..p } } else { p };
        let model = t.fit(&p);
        let found: Vec<Vec<f64>> = t.columns.iter().map(|c| borders(c, p.bins.common() as usize - 1, p.border_method)).collect();
        let rules = Rules::of(&p);
        // The permutations behind the first; the only one, where there is no other.
        let numbers: Vec<u64> = if t.order.is_some() || permutations == 1 { vec![0] } else { (1..permutations).collect() };
        let order = |number: &u64| -> Vec<usize> {
            let mut rows: Vec<usize> = (0..ROWS).collect();
            match t.order {
                Some(_) => rows.sort_by_key(|row| (places[*row], *row)),
                None => {
                    rows = permutation(ROWS, Random::new(seed, Purpose::Permutation, *number)).iter().map(|row| *row as usize).collect()
                }
            }
            rows
        };
        let mut permuted: Vec<Permuted> = numbers.iter().map(|number| Permuted::new(order(number))).collect();
        let (mut own, all): (Vec<f64>, Vec<usize>) = (vec![0.0; ROWS], (0..ROWS).collect());
        let kind = if is_class { LossKind::Logloss } else { LossKind::Rmse };
        let derivative = |row: usize, score: f64| -> (f64, f64) {
            let (g, h) = derivatives(kind, 0.5, 1.0, 1.5, score, y[row]);
            (weight[row] * g, weight[row] * h)
        };
        let mut first = None;
        for round in 0..8 {
            let drawn = Random::new(seed, Purpose::TreePermutation, round).u64(0) as usize % permuted.len();
            let pairs = permuted[drawn].pairs(&derivative);
            let (gradient, hessian): (Vec<f64>, Vec<f64>) = (0..ROWS).map(|row| derivative(row, own[row])).unzip();
            let data = Data { columns: &t.columns, borders: &found, gradient: &gradient, hessian: &hessian, pairs: &pairs };
            let grown = data.grow(all.clone(), &rules);
            for Permuted { order, bodies } in &mut permuted {
                bodies.iter_mut().for_each(|(rows, scores)| add(&grown, &rules, 0.5, &order[..*rows], &derivative, scores));
            }
            add(&grown, &rules, 0.5, &all, &derivative, &mut own);
            first.get_or_insert(grown);
        }
        // Gradients are rounded, so near ties may fall otherwise: predictions are near, and the first trees equal.
        let found = &raw(&model, &t)[0];
        assert!(found.iter().zip(&own).all(|(a, b)| (a - b).abs() < 2e-3 * (1.0 + b.abs())), "{seed} {policy}: {found:?} {own:?}");
        naive::assert_equal(&model, &model.trees[0], first.as_ref().unwrap(), &rules, 0.5);
    }
}

/// The CPU, which tells all scores when a fit has ended.
#[derive(Default)]
struct Watched(Mutex<Vec<Vec<f32>>>);

impl TreeDevices for Watched {
    fn stays_here(&self) -> bool {
        true
    }

    fn with_steps(
        &self,
        pool: &ThreadPool,
        data: TrainingData<'_>,
        _: Extent,
        _: &dyn Monitor,
        body: &mut dyn FnMut(&mut dyn TreeSteps) -> Result<()>,
    ) -> Result<()> {
        let mut steps = CpuTrees::new(pool, data, &|| false)?;
        body(&mut steps)?;
        *self.0.lock().expect("a lock") = steps.all_scores()?;
        Ok(())
    }
}

/// Proves that a row's target has no part in the score that its gradient is taken at, whatever it becomes, as long as trees ask the same,
/// and that it has in those of rows behind it and in the model's own: by means of gradients and by medians of residuals.
#[test]
fn no_target_has_a_part_in_its_own_gradient() {
    let rows = 700;
    let mut dice = Dice::new(3);
    let x: Vec<f64> = (0..rows).map(|_| dice.below(2) as f64).collect();
    let mut y: Vec<f64> = x.iter().map(|x| 20.0 * x - 10.0 + dice.unit()).collect();
    // The largest target, which sums are in units of, is another row's.
    (y[0], y[1]) = (20.0, -20.0);
    let order = permutation(rows, Random::new(5, Purpose::Permutation, 1));
    for loss in ["rmse", "mae"] {
        let p = params(json!({ "loss": loss, "rounds": 6, "depth": 1, "boosting": "ordered", "permutations": 2, "seed": 5 }));
        let fit = |y: &[f64]| {
            let watched = Watched::default();
            let t = Table { baseline: vec![vec![0.0; rows]], ..Table::numbers(vec![x.clone()], y.to_vec()) };
            let model = boosting::fit(&t.input(), &p, &watched, &Quiet).expect("a fit");
            assert!(model.trees.iter().all(|tree| tree.splits().count() == 1 && tree.leaves().len() == 2));
            watched.0.into_inner().expect("a lock")
        };
        let before = fit(&y);
        assert_eq!(before.len(), 2);
        for place in [14, 20, 60, 300, 650] {
            let row = order[place] as usize;
            let mut other = y.clone();
            other[row] -= 3.0;
            let after = fit(&other);
            let changed: Vec<bool> = (0..rows).map(|place| before[1][order[place] as usize] != after[1][order[place] as usize]).collect();
            // A fiftieth of the rows, and then twice as many each time.
            let end = [14, 28, 56, 112, 224, 448, rows].into_iter().find(|end| place < *end).expect("a piece");
            assert!(!changed[..end].contains(&true), "{loss} {place}: {changed:?}");
            let alike = |later: usize| loss == "rmse" && x[order[later] as usize] == x[row];
            assert!((end..rows).all(|later| changed[later] || !alike(later)), "{loss} {place}: {changed:?}");
            assert!(loss == "mae" || before[0][row] != after[0][row]);
        }
    }
}

/// Proves that threads change nothing of random fits: any loss that has such fits, policy, sampler, weights, held-out rows with early
/// stopping, several outputs, categories, orders; and that models are read again, of format version 18.
#[test]
fn threads_change_no_random_fit_in_order() {
    let (mut fitted, all) = (0, cases(80));
    for seed in 0..all {
        let case = RandomFit::new(seed);
        let input = case.input(Column::from_f64);
        let p = case.in_order();
        let on = |threads: u32| case.fit(&input, &BoostingParams { n_threads: Some(threads), ..p.clone() });
        let one = on(1);
        assert!(one == on([2, 3, 5][seed as usize % 3]), "seed {seed}: {p:?}");
        match one {
            Ok(bytes) => {
                let model = Model::from_bytes(&bytes).expect("a model");
                assert_eq!((model.params.boosting, bytes[8] == 18), (p.boosting, p.is_ordered()));
                assert!(model.to_bytes() == bytes);
                fitted += 1;
            }
            Err(error) => assert!(!error.contains("device"), "{error}"),
        }
    }
    assert!(10 * fitted >= 5 * all, "{fitted} of {all} fits gave models");
}

/// Proves that weights all times a power of two change no tree, that two rows, and equal rows, are fitted, and that a value of `boosting`
/// by its name in CatBoost is this one.
#[test]
fn edges_are_those_of_any_fit() {
    let mut t = table(600, 3);
    let p = params(json!({ "rounds": 10, "boosting": "ordered", "l2": 0.0 }));
    t.weight = Some((0..600).map(|i| 1.0 + (i % 3) as f64).collect());
    let plain = t.fit(&p);
    t.weight = Some((0..600).map(|i| 8.0 * (1.0 + (i % 3) as f64)).collect());
    let values = |model: &Model| -> Vec<f64> { model.trees.iter().flat_map(|tree| tree.leaves()).map(|leaf| leaf.value).collect() };
    assert_eq!(values(&plain), values(&t.fit(&p)));
    t.weight = None;
    assert!(t.fit(&p).trees != t.fit(&params_with(json!({ "rounds": 10, "l2": 0.0 }), json!({}))).trees);
    for rows in [2, 3, 5] {
        let few = Table::numbers(vec![(0..rows).map(f64::from).collect()], (0..rows).map(|y| f64::from(y) + 1.0).collect());
        assert_eq!(few.fit(&p).rounds(), 10);
    }
    let equal = Table::numbers(vec![vec![1.0; 50]], vec![3.0; 50]);
    assert!(raw(&equal.fit(&p), &equal)[0].iter().all(|y| (y - 3.0).abs() < 1e-6));
    let theirs = BoostingParams::from_json(&json!({ "boosting_type": "Ordered" })).unwrap_err().to_string();
    assert!(theirs.contains("boosting=\"ordered\""), "{theirs}");
}

/// Proves that a column's order takes the place of permutations, also where categories have no statistics.
#[test]
fn a_given_order_is_the_only_one() {
    let mut t = table(400, 4);
    let p = params(json!({ "rounds": 6, "boosting": "ordered" }));
    let drawn = t.fit(&p);
    t.order = Some((0..400).rev().collect());
    let backwards = t.fit(&p);
    t.order = Some((0..400).collect());
    let forwards = t.fit(&p);
    assert!(drawn.trees != backwards.trees && backwards.trees != forwards.trees);
    assert_eq!((drawn.params.permutations, forwards.params.permutations), (3, 1));
    let one_hot = params_with(json!({ "rounds": 6, "cat_method": "one_hot" }), json!({ "boosting": "ordered" }));
    assert_eq!(t.fit(&one_hot).trees, forwards.trees);
}

/// Proves that what can't be is told, naming both parameters.
#[test]
fn what_does_not_go_with_it_is_told() {
    let refused = |more: Value| BoostingParams::from_json(&with_ordered(more)).unwrap_err().to_string();
    for loss in ["lambdarank", "pairwise", "xendcg", "yetirank", "cox"] {
        let error = refused(json!({ "loss": loss }));
        assert!(error.contains("`boosting`: \"ordered\"") && error.contains(&format!("loss=\"{loss}\"")), "{error}");
    }
    let error = refused(json!({ "monotone": { "x0": 1 } }));
    assert!(error.contains("`boosting`: \"ordered\"") && error.contains("`monotone`"), "{error}");
    assert!(refused(json!({ "leaf": "linear" })).contains("boosting=\"ordered\""));
    assert!(refused(json!({ "drop_rate": 0.5 })).contains("counts only under boosting=\"dart\""));
    let t = table(300, 1);
    let p = params(with_ordered(json!({ "rounds": 4 })));
    let model = t.fit(&params(json!({ "rounds": 4 })));
    let told = |options: FitOptions<'_>| fit_with(&t.input(), &p, &options, &Quiet).unwrap_err().to_string();
    let error = told(FitOptions { init_model: Some(&model), ..FitOptions::default() });
    assert!(error.starts_with("parameter `init_model`: boosting=\"ordered\""), "{error}");
    let snapshots = Kept::new(1, None, 1);
    let error = told(FitOptions { snapshots: Some(&snapshots), ..FitOptions::default() });
    assert!(error.starts_with("parameter `snapshot`: boosting=\"ordered\""), "{error}");
}

fn with_ordered(mut p: Value) -> Value {
    p["boosting"] = json!("ordered");
    p
}
