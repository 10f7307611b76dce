//! `leaf="linear"`: leaves that are linear functions of their rows' values, held against normal equations that are written out and solved by
//! elimination, and against themselves on other threads, chunks and cuts.

use proptest::prelude::*;
use serde_json::json;
use taiga_engine::Error;
use taiga_engine::column::{Chunk, Column, FeatureType, Values};
use taiga_engine::dataset::counted::Counted;
use taiga_engine::dataset::folds::{Division, Folds};
use taiga_engine::dataset::labels::Labels;
use taiga_engine::dataset::{Input, Quiet};
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::{BoostingParams, FitOptions, fit, fit_folds, fit_with};
use taiga_engine::tree::Tree;
use taiga_engine::tree::linear::LinearLeaf;
use taiga_testing::continued::Kept;
use taiga_testing::model::naive_leaf;
use taiga_testing::random_fits::{RandomFit, cases};
use taiga_testing::{Dice, POLICIES, Table, classes, params, params_with, raw, rmse, table};

/// The parameters of a drawn fit, with linear leaves and without what does not go with them.
fn linear(case: &RandomFit, rounds: u32, threads: u32) -> BoostingParams {
    BoostingParams { rounds: Some(rounds), n_threads: Some(threads), ..case.with_linear_leaves() }
}

/// A column in chunks of uneven lengths.
fn in_chunks<'a>(name: String, values: &'a [f64]) -> Column<'a> {
    let (first, rest) = values.split_at(values.len() / 3);
    let (second, third) = rest.split_at(rest.len() / 7);
    Column::new(name, FeatureType::Numeric, [first, second, third].map(|part| Chunk::new(Values::F64(part), None)).to_vec())
}

/// Proves that threads, chunks, cuts by a model and by snapshots do not show, and that bytes come back: of any loss, policy, sampler, weights,
/// held-out rows, positions, categories and several targets.
#[test]
fn the_same_rows_give_the_same_bytes() {
    let (mut fitted, mut functions, mut continued, mut ended) = (0, 0, 0, 0);
    for seed in 0..cases(150) {
        let case = RandomFit::new(seed);
        let input = case.input(Column::from_f64);
        let whole = match fit(&input, &linear(&case, 5, 2), &Quiet) {
            Ok(model) => model,
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("quantiles of residuals") || fit(&input, &case.params, &Quiet).is_err(), "seed {seed}: {text}");
                continue;
            }
        };
        let bytes = whole.to_bytes();
        (fitted, functions) = (fitted + 1, functions + usize::from(!whole.linear.is_empty()));
        assert_eq!(Model::from_bytes(&bytes).unwrap(), whole, "seed {seed}");
        for threads in [1, 3] {
            let again = fit(&case.input(in_chunks), &linear(&case, 5, threads), &Quiet).unwrap();
            assert!(again.to_bytes() == bytes, "seed {seed}, {threads} threads: {:?}", case.params);
        }
        let first = fit(&input, &linear(&case, 2, 1), &Quiet).unwrap();
        let rest = linear(&case, 5 - first.rounds() as u32, 2);
        match fit_with(&input, &rest, &FitOptions { init_model: Some(&first), ..FitOptions::default() }, &Quiet) {
            Ok(model) => {
                assert!(model.to_bytes() == bytes, "seed {seed}, from a model: {:?}", case.params);
                continued += 1;
            }
            Err(error) => assert!(error.to_string().contains("cat_method=\"ctr\""), "seed {seed}: {error}"),
        }
        let kept = Kept::new(2, None, 1);
        if let Err(error) = fit_with(&input, &linear(&case, 5, 2), &FitOptions { snapshots: Some(&kept), ..FitOptions::default() }, &Quiet)
        {
            assert!(matches!(error, Error::Interrupted), "seed {seed}: {error}");
            let kept = Kept::new(2, kept.bytes(), u32::MAX);
            let options = FitOptions { snapshots: Some(&kept), ..FitOptions::default() };
            let again = fit_with(&input, &linear(&case, 5, 1), &options, &Quiet).unwrap();
            assert!(again.to_bytes() == bytes, "seed {seed}, from a snapshot: {:?}", case.params);
            ended += 1;
        }
    }
    assert!(fitted > 60 && functions > 40 && continued > 30 && ended > 30, "{fitted} {functions} {continued} {ended}");
}

/// Returns the row's values.
fn row(t: &Table, i: usize) -> Vec<f64> {
    t.columns.iter().map(|column| column[i]).collect()
}

/// Solves a system of equations, the last number of each line being the right side, by elimination with the largest pivots.
fn solved(mut lines: Vec<Vec<f64>>) -> Vec<f64> {
    let n = lines.len();
    for i in 0..n {
        let best = (i..n).max_by(|a, b| lines[*a][i].abs().total_cmp(&lines[*b][i].abs())).unwrap();
        lines.swap(i, best);
        let pivot = lines[i].clone();
        for line in lines.iter_mut().enumerate().filter(|(k, _)| *k != i).map(|(_, line)| line) {
            let factor = line[i] / pivot[i];
            line.iter_mut().zip(&pivot).skip(i).for_each(|(x, p)| *x -= factor * p);
        }
    }
    (0..n).map(|i| lines[i][n] / lines[i][i]).collect()
}

/// Proves that a leaf's function is the least of its rows' quadratic form, by the definition; and that the first round has numbers, the same
/// trees as a fit without.
#[test]
fn leaves_are_the_least_squares_of_their_rows() {
    for (case, policy) in POLICIES.into_iter().cycle().enumerate().take(9) {
        let mut dice = Dice::new(case as u64);
        let mut t = table(600, case as u64);
        t.weight = (case % 2 == 1).then(|| (0..600).map(|_| 0.5 + dice.unit()).collect());
        let (l2, rate) = ([0.0, 0.7, 30.0][case / 3], 0.3);
        let base = json!({ "rounds": 2, "depth": 3, "policy": policy, "learning_rate": rate, "l2": 0 });
        let p = params_with(base.clone(), json!({ "leaf": "linear", "linear_l2": l2 }));
        let (model, plain) = (t.fit(&p), t.fit(&params(base)));
        assert_eq!(model.trees[0], plain.trees[0]);
        assert!(model.linear.iter().all(|leaf| leaf.tree == 1));
        let tree = &model.trees[1];
        let before = raw(&model.clone().into_head(1).unwrap(), &t).remove(0);
        let (y, weight) = (t.y(), t.weight.clone().unwrap_or(vec![1.0; 600]));
        assert!(!model.linear.is_empty());
        for leaf in &model.linear {
            let derivatives = |i: usize| (weight[i] * (before[i] - y[i]), weight[i]);
            is_least_of_its_rows(&model, tree, leaf, &t, (l2, rate), derivatives);
        }
    }
}

/// Holds a leaf's function against the normal equations of its rows, whose gradients and hessians are told.
fn is_least_of_its_rows(
    model: &Model,
    tree: &Tree,
    leaf: &LinearLeaf,
    t: &Table,
    (l2, rate): (f64, f64),
    derivatives: impl Fn(usize) -> (f64, f64),
) {
    let (kept, scale) = (depends_on(leaf), model.scale);
    let n = kept.len();
    let mut lines = vec![vec![0.0; n + 2]; n + 1];
    let mut rows = 0;
    for i in 0..t.rows() {
        let values = row(t, i);
        let has_all = leaf.terms.iter().all(|(feature, _)| values[*feature as usize].is_finite());
        if naive_leaf(tree, &model.features, &values) != leaf.leaf || !has_all {
            continue;
        }
        rows += 1;
        let x: Vec<f64> = kept.iter().map(|(feature, _)| values[*feature as usize]).chain([1.0]).collect();
        let (gradient, hessian) = derivatives(i);
        for a in 0..=n {
            for b in 0..=n {
                lines[a][b] += hessian * x[a] * x[b];
            }
            lines[a][n + 1] -= gradient * x[a];
        }
    }
    (0..n).for_each(|a| lines[a][a] += l2);
    assert!(rows > n);
    let wanted = solved(lines);
    for ((_, coefficient), wanted) in kept.iter().zip(&wanted) {
        assert!((coefficient * scale - rate * wanted).abs() < 2e-5 * (1.0 + wanted.abs()), "{coefficient} {wanted}");
    }
    assert!((leaf.constant * scale - rate * wanted[n]).abs() < 2e-5 * (1.0 + wanted[n].abs()), "{leaf:?} {wanted:?}");
}

/// Returns the columns that a leaf's value depends on: not those that are the same in all of its rows, or functions of those before them.
fn depends_on(leaf: &LinearLeaf) -> Vec<(u32, f64)> {
    leaf.terms.iter().copied().filter(|(_, coefficient)| *coefficient != 0.0).collect()
}

/// Proves that where hessians are not the weights alone each row of a leaf has an equal part of `l2` besides its own hessian, by the definition.
#[test]
fn rows_have_parts_of_l2_where_hessians_differ() {
    for (case, policy) in POLICIES.into_iter().cycle().enumerate().take(9) {
        let mut dice = Dice::new(case as u64);
        let mut t = classes(900, case as u64);
        t.weight = (case % 2 == 1).then(|| (0..900).map(|_| 0.5 + dice.unit()).collect());
        let (l2, linear_l2, rate) = ([0.0, 1.0, 25.0][case / 3], [0.0, 0.4][case % 2], 0.3);
        let p = json!({ "loss": "logloss", "rounds": 2, "depth": 3, "policy": policy, "learning_rate": rate, "min_data_in_leaf": 20 });
        let model = t.fit(&params_with(p, json!({ "leaf": "linear", "l2": l2, "linear_l2": linear_l2 })));
        let tree = &model.trees[1];
        let before = raw(&model.clone().into_head(1).unwrap(), &t).remove(0);
        let (y, weight) = (t.y(), t.weight.clone().unwrap_or(vec![1.0; 900]));
        assert!(!model.linear.is_empty());
        for leaf in &model.linear {
            let part = l2 / f64::from(tree.leaves()[leaf.leaf as usize].count);
            let derivatives = |i: usize| {
                let p = 1.0 / (1.0 + (-before[i]).exp());
                (weight[i] * (p - y[i]), weight[i] * p * (1.0 - p) + part)
            };
            is_least_of_its_rows(&model, tree, leaf, &t, (linear_l2, rate), derivatives);
        }
    }
}

/// Proves that leaves whose rows have next to no hessian don't throw scores beyond all bounds: of events that few hazards explain, and of a rare
/// class.
#[test]
fn leaves_of_small_hessians_make_no_large_steps() {
    let mut dice = Dice::new(5);
    let rows = 800;
    let columns: Vec<Vec<f64>> = (0..2).map(|_| (0..rows).map(|_| dice.normal()).collect()).collect();
    let z: Vec<f64> = (0..rows).map(|i| 2.0 * columns[0][i] + columns[0][i] * columns[1][i]).collect();
    let times: Vec<f64> = z.iter().map(|z| z.exp() * -(1.0 - dice.unit()).ln()).collect();
    let upper = times.iter().map(|time| if dice.chance(0.3) { f64::INFINITY } else { *time }).collect();
    let hazards = Table { upper: Some(upper), ..Table::numbers(columns.clone(), times) };
    let codes = z.iter().map(|z| u32::from(z + 2.0 * dice.normal() > 7.0)).collect();
    let rare = Table::classes(columns, codes, Labels::Boolean);
    for policy in POLICIES {
        for (loss, t, rate) in [("cox", &hazards, 0.1), ("cox", &hazards, 0.5), ("logloss", &rare, 0.5)] {
            let p = json!({ "loss": loss, "rounds": 80, "policy": policy, "leaf": "linear", "learning_rate": rate });
            let model = t.fit(&params(p));
            assert!(!model.linear.is_empty());
            let largest = raw(&model, t)[0].iter().fold(0.0f64, |largest, score| largest.max(score.abs()));
            assert!(largest < 50.0, "{loss}, {policy}, {rate}: {largest}");
        }
    }
}

/// Proves that rows without a column on the path get the leaf's number, also where the column is the same in all rows that have it, or a function of
/// the columns before it.
#[test]
fn rows_without_a_column_get_the_number() {
    let mut dice = Dice::new(1);
    let rows = 600;
    let three: Vec<f64> = (0..rows).map(|_| [1.0, 5.0, f64::NAN][dice.below(3) as usize]).collect();
    let x: Vec<f64> = (0..rows).map(|_| dice.normal()).collect();
    let copy: Vec<f64> = x.iter().map(|x| if dice.chance(0.3) { f64::NAN } else { *x }).collect();
    // Where a value is missing, lines fall.
    let rises = |i: usize, column: &[f64]| if column[i].is_nan() { -3.0 * x[i] } else { 3.0 * x[i] };
    let of_three = (0..rows).map(|i| rises(i, &three) + if three[i] == 5.0 { 20.0 } else { 0.0 }).collect();
    let of_copy = (0..rows).map(|i| rises(i, &copy)).collect();
    for (case, (columns, y)) in
        [(vec![three.clone(), x.clone()], of_three), (vec![x.clone(), copy.clone()], of_copy)].into_iter().enumerate()
    {
        let t = Table::numbers(columns, y);
        let mut told = 0;
        // Borders that are drawn bring a copy to paths.
        for (seed, policy) in (0..8).flat_map(|seed| POLICIES.map(|policy| (seed, policy))) {
            let drawn = json!({ "extra_trees": case == 1, "seed": seed });
            let p = json!({ "rounds": 2, "depth": 3, "policy": policy, "leaf": "linear", "learning_rate": 0.3 });
            let model = t.fit(&params_with(p, drawn));
            let [before, after] = [1, 2].map(|rounds| raw(&model.clone().into_head(rounds).unwrap(), &t).remove(0));
            for i in 0..rows {
                let values = row(&t, i);
                let leaf = naive_leaf(&model.trees[1], &model.features, &values);
                let Some(function) = model.linear.iter().find(|own| own.leaf == leaf) else { continue };
                assert!(function.terms.iter().any(|(_, coefficient)| *coefficient != 0.0));
                let lacks = function.terms.iter().filter(|(feature, _)| values[*feature as usize].is_nan());
                if lacks.clone().next().is_some() {
                    let plain = model.trees[1].leaves()[leaf as usize].value * model.scale;
                    assert!((after[i] - before[i] - plain).abs() < 1e-9, "{policy}: {} {plain}", after[i] - before[i]);
                }
                told += lacks.filter(|(_, coefficient)| *coefficient == 0.0).count();
            }
        }
        assert!(told > 0, "case {case}");
    }
}

/// Proves that functions keep their digits where the values of a leaf lie close together, far from 0, and where others of the column lie far from
/// them: by least squares of columns that are centred and of variance 1.
#[test]
fn values_that_lie_close_together_keep_their_digits() {
    let mut dice = Dice::new(21);
    let rows = 4_000;
    let seconds: Vec<f64> = (0..rows).map(|_| if dice.chance(0.05) { 0.0 } else { 1.7e9 + 3_600.0 * dice.unit() }).collect();
    let sizes: Vec<f64> = (0..rows).map(|_| (6.0 * dice.normal()).exp()).collect();
    let far: Vec<f64> = (0..rows).map(|i| if i == 7 { 1e12 } else { dice.normal() }).collect();
    let y: Vec<f64> =
        (0..rows).map(|i| (seconds[i] - 1.7e9).max(0.0) / 3_600.0 + sizes[i].ln() / 6.0 + far[i].min(9.0) + 0.3 * dice.normal()).collect();
    let columns = [seconds, sizes, far];
    let t = Table::numbers(columns.to_vec(), y.clone());
    let mut told = 0;
    for policy in POLICIES {
        let p = json!({ "rounds": 2, "depth": 4, "policy": policy, "leaf": "linear", "learning_rate": 1, "l2": 0, "min_data_in_leaf": 30 });
        let model = t.fit(&params(p));
        let before = raw(&model.clone().into_head(1).unwrap(), &t).remove(0);
        for leaf in &model.linear {
            let own: Vec<usize> = (0..rows).filter(|i| naive_leaf(&model.trees[1], &model.features, &row(&t, *i)) == leaf.leaf).collect();
            let mean = |of: &dyn Fn(usize) -> f64| own.iter().map(|i| of(*i)).sum::<f64>() / own.len() as f64;
            let of_term = |(feature, coefficient): &(u32, f64)| {
                let x = &columns[*feature as usize];
                let middle = mean(&|i| x[i] - x[own[0]]) + x[own[0]];
                (x, middle, mean(&|i| (x[i] - middle).powi(2)).sqrt(), *coefficient)
            };
            let terms: Vec<(&Vec<f64>, f64, f64, f64)> = depends_on(leaf).iter().map(of_term).collect();
            let rest = mean(&|i| y[i] - before[i]);
            let z = |i: usize, k: usize| (terms[k].0[i] - terms[k].1) / terms[k].2;
            let line = |a: usize| {
                let pairs = (0..terms.len()).map(|b| mean(&|i| z(i, a) * z(i, b)));
                pairs.chain([mean(&|i| z(i, a) * (y[i] - before[i] - rest))]).collect()
            };
            let wanted = solved((0..terms.len()).map(line).collect());
            for ((_, _, deviation, coefficient), wanted) in terms.iter().zip(&wanted) {
                assert!((coefficient * model.scale * deviation - wanted).abs() < 1e-5, "{policy}: {leaf:?}, {coefficient} {wanted}");
            }
            told += terms.len();
        }
    }
    assert!(told > 60, "{told}");
}

/// Proves that straight lines are learned more closely than by numbers, and go on beyond what was seen.
#[test]
fn lines_are_learned() {
    let mut dice = Dice::new(3);
    let columns: Vec<Vec<f64>> = (0..2).map(|_| (0..2000).map(|_| 100.0 * dice.unit()).collect()).collect();
    let y: Vec<f64> = (0..2000).map(|i| 3.0 * columns[0][i] - 7.0 * columns[1][i] + 11.0).collect();
    let t = Table::numbers(columns, y.clone());
    for policy in POLICIES {
        let p = params(json!({ "rounds": 30, "depth": 3, "policy": policy, "leaf": "linear", "learning_rate": 0.3 }));
        let model = t.fit(&p);
        let off = rmse(&raw(&model, &t)[0], &y);
        let plain = t.fit(&BoostingParams { leaf: None, ..p });
        let of_plain = rmse(&raw(&plain, &t)[0], &y);
        assert!(off < 0.5 * of_plain, "{policy}: {off} {of_plain}");
        let beyond = Table::numbers(vec![vec![130.0, 50.0], vec![50.0, -30.0]], vec![51.0, 371.0]);
        let far = |model: &Model| rmse(&raw(model, &beyond)[0], &beyond.y());
        assert!(far(&model) < far(&plain), "{policy}: {} {}", far(&model), far(&plain));
    }
}

/// Proves that what stands in a column, however large, small, constant, missing or infinite, makes a model with finite scores on every row, and
/// that powers of two on targets, weights and columns come out of it as they went in.
#[test]
fn values_of_any_size_make_finite_scores() {
    let mut dice = Dice::new(8);
    let rows = 400;
    let base: Vec<f64> = (0..rows).map(|_| dice.normal()).collect();
    let y: Vec<f64> = base.iter().map(|x| 2.0 * x + 0.1 * dice.normal()).collect();
    let strange: Vec<(&str, Vec<f64>)> = vec![
        ("huge", base.iter().map(|x| x * 1e300).collect()),
        ("tiny", base.iter().map(|x| x * 1e-300).collect()),
        ("subnormal", base.iter().map(|x| x * 1e-315).collect()),
        ("all sizes", base.iter().map(|x| x.signum() * (x.abs() * 300.0).exp2()).collect()),
        ("constant", vec![3.5; rows]),
        (
            "infinite",
            base.iter()
                .map(|x| {
                    if *x > 1.0 {
                        f64::INFINITY
                    } else if *x < -1.0 {
                        f64::NEG_INFINITY
                    } else {
                        *x
                    }
                })
                .collect(),
        ),
        ("missing", base.iter().map(|x| if *x > 0.0 { f64::NAN } else { *x }).collect()),
        ("far away", base.iter().map(|x| 1e12 + x).collect()),
        ("an outlier", base.iter().enumerate().map(|(i, x)| if i == 0 { 1e15 } else { *x }).collect()),
    ];
    for policy in POLICIES {
        for (name, column) in &strange {
            let t = Table::numbers(vec![column.clone(), base.clone(), base.clone()], y.clone());
            let p = params(json!({ "rounds": 6, "policy": policy, "leaf": "linear", "depth": 3 }));
            let model = t.fit(&p);
            assert!(raw(&model, &t)[0].iter().all(|score| score.is_finite()), "{name}");
            assert!(rmse(&raw(&model, &t)[0], &y) < 1.5, "{name}, {policy}");
            let far = Table::numbers(vec![vec![f64::MAX, f64::MIN, f64::INFINITY, f64::NAN]; 3], vec![0.0; 4]);
            assert!(raw(&model, &far)[0].iter().all(|score| score.is_finite()), "{name}");
        }
        let t = Table::numbers(vec![base.clone()], y.clone());
        let p = params(json!({ "rounds": 4, "policy": policy, "leaf": "linear", "l2": 0, "min_child_weight": 0 }));
        let model = t.fit(&p);
        for exponent in [-40, 3, 200] {
            let by = 2f64.powi(exponent);
            let of_columns = Table::numbers(vec![base.iter().map(|x| x * by).collect()], y.clone());
            assert_eq!(raw(&of_columns.fit(&p), &of_columns), raw(&model, &t), "columns, {exponent}");
            let of_targets = Table::numbers(vec![base.clone()], y.iter().map(|y| y * by).collect());
            let scores = raw(&of_targets.fit(&p), &of_targets).remove(0);
            assert_eq!(scores.iter().map(|score| score / by).collect::<Vec<_>>(), raw(&model, &t)[0], "targets, {exponent}");
            let weighted = Table { weight: Some(vec![by; rows]), ..t.clone() };
            assert_eq!(raw(&weighted.fit(&p), &t), raw(&model, &t), "weights, {exponent}");
        }
    }
    for rows in [1, 2, 3] {
        let t = Table::numbers(vec![base[..rows].to_vec()], y[..rows].to_vec());
        match t.try_fit(&params(json!({ "rounds": 3, "leaf": "linear", "min_child_weight": 0 }))) {
            Ok(model) => assert!(raw(&model, &t)[0].iter().all(|score| score.is_finite())),
            Err(error) => assert!(rows == 1, "{error}"),
        }
    }
}

/// Proves that of two columns of which one is a function of the other a leaf's value depends on one.
#[test]
fn columns_that_say_the_same_count_once() {
    let mut t = table(500, 4);
    t.columns.iter_mut().flatten().for_each(|x| *x = if x.is_nan() { 0.0 } else { *x });
    let p = params(json!({ "rounds": 5, "leaf": "linear", "depth": 4, "extra_trees": true }));
    let doubled: Vec<f64> = t.columns[0].iter().map(|x| 2.0 * x + 1.0).collect();
    t.columns.push(doubled);
    let model = t.fit(&p);
    assert!(!model.linear.is_empty());
    let both = |leaf: &LinearLeaf| [0, 4].iter().all(|f| depends_on(leaf).iter().any(|(feature, _)| feature == f));
    assert!(!model.linear.iter().any(both));
    assert!(model.linear.iter().flat_map(|leaf| &leaf.terms).all(|(_, coefficient)| coefficient.abs() < 1e3));
}

/// Proves that held-out rows are measured by the functions, so that the curve is that of the predictions after each round.
#[test]
fn curves_are_those_of_predictions() {
    let mut t = table(3000, 6);
    t.held_out = Some((0..3000).map(|i| i % 4 == 0).collect());
    for policy in POLICIES {
        let p = params(json!({ "rounds": 25, "policy": policy, "leaf": "linear", "early_stopping": 5, "learning_rate": 0.3 }));
        let model = t.fit(&p);
        let held_out = t.filter(|i| i % 4 == 0);
        let curve = model.history.clone().unwrap().values;
        for round in [1, model.rounds()] {
            let head = model.clone().into_head(round).unwrap();
            let own = rmse(&raw(&head, &held_out)[0], &held_out.y());
            assert!((own - curve[round - 1]).abs() < 1e-5 * own, "{policy}: {own} {}", curve[round - 1]);
        }
    }
}

/// Proves that the model of a fold, whose columns are codes, is that of a fit of its rows.
#[test]
fn folds_are_fits_of_their_rows() {
    let mut same = 0;
    for seed in 0..12 {
        let mut t = table(900, seed);
        // Few levels, so that borders lie between the same values in all folds.
        t.columns.iter_mut().flatten().for_each(|x| *x = (*x * 2.0).round());
        t.weight = (seed % 3 == 0).then(|| (0..900).map(|i| (i % 4) as f64).collect());
        let input = t.input();
        let folds = Folds::new(&input, &Division::Parts(3), seed).unwrap();
        let p = params(json!({ "rounds": 4, "leaf": "linear", "depth": 3, "policy": POLICIES[seed as usize % 3] }));
        for (fold, own) in fit_folds(&input, &p, &folds, &Quiet).unwrap().into_iter().enumerate() {
            let table = Counted::new(&input, folds.fold(fold as u32).training).unwrap();
            let alone = fit(&table.input(), &p, &Quiet).unwrap();
            if alone.features == own.model.features {
                assert_eq!(alone.trees, own.model.trees);
                assert_eq!(alone.linear, own.model.linear);
                same += 1;
            }
        }
    }
    assert!(same > 12, "{same}");
}

/// Proves that what does not go together is told, by the names of both.
#[test]
fn what_does_not_go_with_linear_leaves_is_told() {
    let t = table(200, 1);
    let told = |more: serde_json::Value| match BoostingParams::from_json(&more) {
        Ok(params) => t.try_fit(&params).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    for (more, other) in [
        (json!({ "boosting": "dart" }), "boosting=\"dart\""),
        (json!({ "monotone": { "x0": 1 } }), "monotone"),
        (json!({ "max_delta_step": 1 }), "max_delta_step"),
        (json!({ "path_smooth": 1 }), "path_smooth"),
        (json!({ "loss": "mae" }), "quantiles of residuals"),
        (json!({ "loss": "quantile", "alpha": [0.2, 0.8] }), "quantiles of residuals"),
        (json!({ "linear_l2": -1 }), "`linear_l2`: -1"),
    ] {
        let mut of = more;
        of["leaf"] = json!("linear");
        of["rounds"] = json!(2);
        let text = told(of);
        assert!(text.contains(other) && text.contains("`leaf`") | text.contains("`linear_l2`"), "{text}");
    }
    assert!(told(json!({ "linear_l2": 1 })).contains("counts only under leaf=\"linear\""));
    assert!(told(json!({ "linear_lambda": 1 })).contains("did you mean `linear_l2"));
    assert!(told(json!({ "linear_tree": true })).contains("leaf=\"linear\""));
    let first = t.fit(&params(json!({ "rounds": 2, "leaf": "linear" })));
    let dart = params(json!({ "rounds": 2, "boosting": "dart" }));
    let options = FitOptions { init_model: Some(&first), ..FitOptions::default() };
    let text = fit_with(&t.input(), &dart, &options, &Quiet).unwrap_err().to_string();
    assert!(text.contains("`init_model`") && text.contains("linear functions"), "{text}");
    // A model with numbers goes on with functions, and the other way round.
    for (one, other) in [("constant", "linear"), ("linear", "constant")] {
        let first = t.fit(&params(json!({ "rounds": 2, "leaf": one })));
        let options = FitOptions { init_model: Some(&first), ..FitOptions::default() };
        let model = fit_with(&t.input(), &params(json!({ "rounds": 2, "leaf": other })), &options, &Quiet).unwrap();
        assert_eq!(model.rounds(), 4);
        assert_eq!(raw(&model.clone().into_head(2).unwrap(), &t), raw(&first, &t));
        assert!(!model.linear.is_empty());
    }
    let plain = params(json!({ "rounds": 2, "leaf": "constant" }));
    assert_eq!(t.fit(&plain).to_bytes(), t.fit(&params(json!({ "rounds": 2 }))).to_bytes());
}

/// Proves that leaves deeper than a leaf may have columns have those that are asked about first.
#[test]
fn a_leaf_has_sixteen_columns_at_the_most() {
    let mut dice = Dice::new(2);
    let rows = 4000;
    let columns: Vec<Vec<f64>> = (0..40).map(|_| (0..rows).map(|_| dice.unit()).collect()).collect();
    let y = (0..rows).map(|i| columns.iter().enumerate().map(|(k, c)| c[i] * (1.0 + 0.01 * k as f64)).sum()).collect();
    let t = Table::numbers(columns, y);
    let model = t.fit(&params(json!({ "rounds": 2, "leaf": "linear", "policy": "leafwise", "leaves": 400, "feature_fraction_node": 0.2 })));
    let most = model.linear.iter().map(|leaf| leaf.terms.len()).max().unwrap();
    assert!((8..=16).contains(&most), "{most}");
    let Tree::Branching { .. } = &model.trees[1] else { panic!("leaves are symmetric") };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Tables of several pieces, whose sums are added on several threads.
    #[test]
    fn many_rows_in_any_number_of_threads(seed in 0u64..1000, rows in 30_000usize..120_000, policy in 0usize..3, weighted: bool) {
        let mut t = table(rows, seed);
        t.weight = weighted.then(|| (0..rows).map(|i| (i % 5) as f64 / 2.0).collect());
        let p = params(json!({ "rounds": 3, "policy": POLICIES[policy], "leaf": "linear", "n_threads": 1 }));
        let one = t.fit(&p).to_bytes();
        for threads in [2, 5] {
            let again = t.fit(&BoostingParams { n_threads: Some(threads), ..p.clone() }).to_bytes();
            prop_assert!(again == one);
        }
        let input = t.input();
        let features = t.columns.iter().enumerate().map(|(i, c)| in_chunks(format!("x{i}"), c)).collect();
        let chunked = fit(&Input { features, ..input }, &p, &Quiet).unwrap().to_bytes();
        prop_assert!(chunked == one);
    }
}
