//! `leaf_iterations`: several Newton steps of a leaf, against twins that anyone can read, and what holds of any such fit.

use serde_json::{Value, json};
use taiga_engine::column::Column;
use taiga_engine::dataset::Quiet;
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::{BoostingParams, FitOptions, fit, fit_with};
use taiga_engine::losses::{LossKind, LossParams, Rows, loss};
use taiga_engine::tree::Tree;
use taiga_testing::contract::{LOSSES, RANKING, table};
use taiga_testing::random_fits::{RandomFit, cases};
use taiga_testing::{Table, params, params_with, raw};

/// Losses whose leaves take Newton steps.
fn losses() -> impl Iterator<Item = &'static str> {
    LOSSES.into_iter().chain(RANKING).filter(|loss| !["mae", "quantile", "quantiles", "mape"].contains(loss))
}

/// The values of a model's leaves in units of scores, `[tree][leaf]`.
fn values(model: &Model) -> Vec<Vec<f64>> {
    model.trees.iter().map(|tree| tree.leaves().iter().map(|leaf| model.scale * leaf.value).collect()).collect()
}

/// Of each row its leaf in a symmetric tree of features without missing values.
fn leaves_of(model: &Model, tree: &Tree, t: &Table) -> Vec<usize> {
    let Tree::Symmetric { splits, .. } = tree else { panic!("a symmetric tree") };
    let right = |row: usize, feature: u32, border: u32| t.columns[feature as usize][row] > model.borders(feature)[border as usize];
    (0..t.rows()).map(|row| splits.iter().fold(0, |leaf, s| 2 * leaf + right(row, s.feature, s.border) as usize)).collect()
}

/// Proves that leaves have the values that Newton's steps come to by sums over the rows, one after the other, in f64: over several rounds, of losses
/// of one score and of several, which move one by one where each has its tree, and together where they share it.
#[test]
fn leaves_have_the_values_of_a_naive_twin() {
    for (name, kind, classes) in [
        ("logloss", LossKind::Logloss, 2),
        ("poisson", LossKind::Poisson, 0),
        ("cross_entropy", LossKind::CrossEntropy, 0),
        ("focal", LossKind::Focal, 2),
        ("multiclass", LossKind::Multiclass, 3),
        ("ova", LossKind::Ova, 3),
    ] {
        for (strategy, steps) in [("tree_each", 2), ("one_tree", 3), ("tree_each", 7)] {
            let mut t = table(500, 3, name, 4);
            t.columns.iter_mut().flatten().for_each(|x| *x = if x.is_nan() { 7.0 } else { *x });
            let p = params(json!({
                "loss": name, "multi_strategy": strategy, "rounds": 3, "depth": 2, "learning_rate": 0.3, "l2": 0.7, "leaf_iterations": steps
            }));
            let model = t.fit(&p);
            let of = loss(kind, &LossParams::default(), classes, 1.0).expect("a loss");
            let target: Vec<f32> = t.y().iter().map(|y| *y as f32).collect();
            let mut scores: Vec<Vec<f32>> = model.start.iter().map(|start| vec![*start as f32; t.rows()]).collect();
            let outputs = scores.len();
            let found = values(&model);
            for round in 0..3 {
                let trees = &model.trees[round * outputs..(round + 1) * outputs];
                let leaves: Vec<Vec<usize>> = trees.iter().map(|tree| leaves_of(&model, tree, &t)).collect();
                // Which outputs move together.
                let together: Vec<Vec<usize>> =
                    if strategy == "one_tree" { vec![(0..outputs).collect()] } else { (0..outputs).map(|k| vec![k]).collect() };
                let mut newton: Vec<Vec<f64>> = trees.iter().map(|tree| vec![0.0; tree.leaves().len()]).collect();
                for moved in together {
                    for _ in 0..steps {
                        let mut tried = scores.clone();
                        for k in &moved {
                            tried[*k].iter_mut().zip(&leaves[*k]).for_each(|(score, leaf)| *score += newton[*k][*leaf] as f32);
                        }
                        let tried: Vec<&[f32]> = tried.iter().map(Vec::as_slice).collect();
                        for k in &moved {
                            let (mut gradient, mut hessian) = (vec![0.0; t.rows()], vec![0.0; t.rows()]);
                            let rows = Rows { scores: &tried, target: &target, weight: None, columns: &[] };
                            of.derivatives(*k, rows, &mut gradient, &mut hessian);
                            let mut sums = vec![(0.0, 0.0); newton[*k].len()];
                            for ((g, h), leaf) in gradient.iter().zip(&hessian).zip(&leaves[*k]) {
                                sums[*leaf] = (sums[*leaf].0 + *g as f64, sums[*leaf].1 + *h as f64);
                            }
                            newton[*k].iter_mut().zip(sums).for_each(|(value, (g, h))| *value -= g / (h + 0.7));
                        }
                    }
                }
                for k in 0..outputs {
                    for (found, value) in found[round * outputs + k].iter().zip(&newton[k]) {
                        assert!((found - 0.3 * value).abs() < 2e-5 * (1.0 + value.abs()), "{name} {strategy} {round}: {found} {value}");
                    }
                    scores[k].iter_mut().zip(&leaves[k]).for_each(|(score, leaf)| *score += (0.3 * newton[k][*leaf]) as f32);
                }
            }
        }
    }
}

/// Proves that a second step is the first one of a fit whose scores have the values so far: of each loss, ranking and survival among them, with
/// weights, rows that are drawn, and held-out rows. There is one feature of two values, so that all trees have the same split.
#[test]
fn a_further_step_is_a_first_one_from_the_scores_so_far() {
    let mut compared = 0;
    for name in losses() {
        for (case, more) in [
            json!({}),
            json!({ "row_sample": "bernoulli", "row_fraction": 0.6 }),
            json!({ "row_sample": "bayesian", "l1": 0.3 }),
            json!({ "multi_strategy": "one_tree", "policy": "depthwise", "min_child_weight": 0 }),
        ]
        .into_iter()
        .enumerate()
        {
            let mut t = table(400, 1, name, 3);
            t.columns = vec![t.columns[0].iter().map(|x| (*x > 3.0) as u8 as f64).collect()];
            t.weight = (case == 2).then(|| (0..400).map(|i| 0.5 + (i % 7) as f64).collect());
            let together = more["multi_strategy"].is_string();
            let p = |steps: u32| {
                let mut base =
                    json!({ "loss": name, "rounds": 1, "depth": 1, "learning_rate": 1.0, "l2": 5.0, "seed": 9, "leaf_iterations": steps });
                if name == "huber" {
                    // Unless told it is one of residuals.
                    base["huber_delta"] = json!(0.7);
                }
                params_with(base, more.clone())
            };
            let outputs = t.fit(&p(1)).start.len();
            t.baseline = vec![vec![0.0; 400]; outputs];
            let (one, two) = (values(&t.fit(&p(1))), values(&t.fit(&p(2))));
            let low = t.columns[0].iter().map(|x| *x as usize);
            for k in 0..outputs {
                let mut from = t.clone();
                for (moved, baseline) in from.baseline.iter_mut().enumerate() {
                    if together || moved == k {
                        baseline.iter_mut().zip(low.clone()).for_each(|(score, leaf)| *score = one[moved][leaf]);
                    }
                }
                let step = &values(&from.fit(&p(1)))[k];
                assert_eq!((one[k].len(), two[k].len()), (2, 2), "{name} {more}");
                // What is left may not be worth a split.
                if step.len() == 1 {
                    continue;
                }
                compared += 1;
                for ((first, step), both) in one[k].iter().zip(step).zip(&two[k]) {
                    let close = 1e-4 * (1.0 + first.abs() + step.abs());
                    assert!((first + step - both).abs() < close, "{name} {more} {k}: {first} + {step} is not {both}");
                }
            }
        }
    }
    assert!(compared > 90, "{compared}");
}

/// Proves that threads change nothing of random fits with several steps: any loss, policy, sampler, weights, held-out rows with early
/// stopping, several outputs, categories under several permutations, dropouts.
#[test]
fn threads_change_no_random_fit_with_several_steps() {
    let (mut fitted, all) = (0, cases(60));
    for seed in 0..all {
        let case = RandomFit::new(seed);
        let input = case.input(Column::from_f64);
        let drawn = if seed % 4 == 1 { case.with_dropouts(seed) } else { case.params.clone() };
        let p = BoostingParams { leaf_iterations: Some(2 + (seed % 4) as u32), ..drawn };
        let on = |threads: u32| case.fit(&input, &BoostingParams { n_threads: Some(threads), ..p.clone() });
        let one = on(1);
        assert!(one == on([2, 3, 5][seed as usize % 3]), "seed {seed}: {p:?}");
        fitted += u64::from(one.is_ok());
        if let Ok(bytes) = one {
            let model = Model::from_bytes(&bytes).expect("a model");
            assert_eq!((model.to_bytes(), model.params.leaf_iterations), (bytes, p.leaf_iterations));
        }
    }
    assert!(10 * fitted >= 5 * all, "{fitted} of {all} fits gave models");
}

/// Proves that a fit with several steps that goes on from a model has the bytes of one fit.
#[test]
fn fits_with_several_steps_go_on() {
    let mut same = 0;
    for seed in 0..cases(60) {
        let mut case = RandomFit::new(seed);
        case.params.early_stopping = None;
        let input = case.input(Column::from_f64);
        let p = BoostingParams { rounds: Some(6), n_threads: Some(2), leaf_iterations: Some(3), ..case.params.clone() };
        let Ok(whole) = fit(&input, &p, &Quiet) else { continue };
        let some = |rounds: u32| BoostingParams { rounds: Some(rounds), ..p.clone() };
        let first = fit(&input, &some(2), &Quiet).expect("a fit of fewer rounds");
        match fit_with(&input, &some(4), &FitOptions { init_model: Some(&first), ..FitOptions::default() }, &Quiet) {
            Ok(model) => {
                assert!(model.to_bytes() == whole.to_bytes(), "seed {seed}: {p:?}");
                same += 1;
            }
            Err(error) => assert!(error.to_string().contains("cat_method=\"ctr\""), "seed {seed}: {error}"),
        }
    }
    assert!(same > 10, "{same}");
}

/// Proves that steps keep to `max_delta_step` and to monotone constraints, and that further ones change nothing where the first one was exact.
#[test]
fn steps_keep_to_limits() {
    let close =
        |a: &Model, b: &Model, t: &Table| raw(a, t)[0].iter().zip(&raw(b, t)[0]).all(|(a, b)| (a - b).abs() < 1e-4 * (1.0 + a.abs()));
    let t = table(800, 4, "rmse", 2);
    let p = |steps: u32, more: Value| params_with(json!({ "rounds": 5, "depth": 3, "leaf_iterations": steps }), more);
    assert!(close(&t.fit(&p(1, json!({ "l2": 0 }))), &t.fit(&p(6, json!({ "l2": 0 }))), &t));
    assert!(!close(&t.fit(&p(1, json!({ "l2": 50 }))), &t.fit(&p(6, json!({ "l2": 50 }))), &t));
    // Steps of a leaf that l2 holds back come to its mean.
    assert!(close(&t.fit(&p(1, json!({ "l2": 0, "rounds": 1 }))), &t.fit(&p(100, json!({ "l2": 1, "rounds": 1 }))), &t));
    let t = table(800, 4, "logloss", 2);
    let limited = t.fit(&p(9, json!({ "max_delta_step": 0.2, "learning_rate": 0.5 })));
    let largest = values(&limited).concat().into_iter().map(f64::abs).fold(0.0, f64::max);
    assert!(largest <= 0.1 + 1e-7 && largest > 0.099, "{largest}");
    for policy in ["symmetric", "depthwise"] {
        let model = t.fit(&p(5, json!({ "policy": policy, "monotone": { "x0": 1 }, "rounds": 10 })));
        let mut grid = t.clone();
        for value in -40..40 {
            grid.columns[0].fill(value as f64);
            let lower = raw(&model, &grid);
            grid.columns[0].fill((value + 1) as f64);
            assert!(lower[0].iter().zip(&raw(&model, &grid)[0]).all(|(low, high)| low <= high), "{policy} {value}");
        }
    }
}

/// Proves that several steps lower the loss of the training rows more than one, and that one is the fit as ever, byte for byte.
#[test]
fn more_steps_fit_more_closely() {
    let mut t = table(1000, 4, "logloss", 6);
    t.held_out = None;
    let p = |more: Value| params_with(json!({ "rounds": 3, "learning_rate": 1.0, "depth": 4, "l2": 3.0, "eval_train": true }), more);
    let last = |more: Value| *t.fit(&p(more)).history.expect("it is measured").values.last().expect("a round");
    assert!(last(json!({ "leaf_iterations": 8 })) < last(json!({})) - 1e-3);
    assert_eq!(t.fit(&p(json!({ "leaf_iterations": 1 }))).to_bytes(), t.fit(&p(json!({}))).to_bytes());
    // The format version is that of models without them, where there is one step.
    assert_eq!(t.fit(&p(json!({ "leaf_iterations": 2 }))).to_bytes()[8], 17);
    assert!(t.fit(&p(json!({ "leaf_iterations": 1 }))).to_bytes()[8] < 10);
}

/// Proves that what can't be is told, naming the parameter.
#[test]
fn what_takes_no_steps_is_told() {
    let told = |p: Value| BoostingParams::from_json(&p).unwrap_err().to_string();
    for steps in [0, 101] {
        assert!(told(json!({ "leaf_iterations": steps })).contains(&format!("`leaf_iterations`: {steps} is not between 1 and 100")));
    }
    for loss in ["mae", "quantile", "mape"] {
        assert!(told(json!({ "leaf_iterations": 2, "loss": loss })).starts_with(&format!("parameter `leaf_iterations`: loss=\"{loss}\"")));
    }
    // The first step of a leaf goes much too far, and the second one finds nothing finite there.
    let mut t = Table::numbers(vec![(0..40).map(f64::from).collect()], (0..40).map(|i| if i == 7 { 1e5 } else { 0.0 }).collect());
    t.baseline = vec![vec![0.0; 40]];
    let p = |steps: u32| {
        let own = json!({ "value": "exp(f) - y * f", "link": "log" });
        params(json!({ "loss": "custom", "custom_loss": own, "leaf_iterations": steps, "l2": 0, "rounds": 1 }))
    };
    assert!(t.try_fit(&p(1)).is_ok());
    let error = t.try_fit(&p(2)).unwrap_err();
    assert!(error.to_string().contains("`leaf_iterations` comes to") && error.rows_fault().is_some(), "{error}");
}
