//! `boosting="dart"`: against a twin that anyone can read, and what holds of fits that leave trees out for a while.

use serde_json::json;
use taiga_engine::Error;
use taiga_engine::column::Column;
use taiga_engine::dataset::Quiet;
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::{BoostingParams, FitOptions, fit, fit_with};
use taiga_engine::numerics::random::{Purpose, Random};
use taiga_engine::quantize::borders::borders;
use taiga_testing::continued::Kept;
use taiga_testing::naive::{self, Data, Grown, Rules};
use taiga_testing::random_fits::{RandomFit, cases};
use taiga_testing::{Dice, POLICIES, Table, classes, params, params_with, raw, table};

/// The dropouts of a fit as its definition has them: trees drawn by their weights or alike, no limit on their number.
struct Twin {
    uniform: bool,
    rate: f64,
    skip: f64,
    learning_rate: f64,
    seed: u64,
    /// What each tree counts.
    factors: Vec<f64>,
}

impl Twin {
    /// Returns the trees that the next one grows without.
    fn dropped(&self) -> Vec<usize> {
        let random = Random::new(self.seed, Purpose::Dropouts, self.factors.len() as u64);
        let mean = self.factors.iter().sum::<f64>() / self.factors.len().max(1) as f64;
        let chance = |tree: usize| if self.uniform { self.rate } else { self.rate * self.factors[tree] / mean };
        let skipped = random.unit(0) < self.skip;
        (0..self.factors.len()).filter(|tree| !skipped && random.unit(1 + *tree as u64) < chance(*tree)).collect()
    }

    /// Notes what trees count after one that has grown without some.
    fn normalize(&mut self, dropped: &[usize], how: &str) {
        let (k, rate) = (dropped.len() as f64, self.learning_rate);
        let (new, old) = match how {
            _ if dropped.is_empty() => (1.0, 1.0),
            "paper" => (1.0 / (k + 1.0), k / (k + 1.0)),
            "tree" => (1.0 / (k + rate), k / (k + rate)),
            _ => (1.0 / (1.0 + rate), 1.0 / (1.0 + rate)),
        };
        dropped.iter().for_each(|tree| self.factors[*tree] *= old);
        self.factors.push(new);
    }
}

/// Adds what a tree gives each row of those that it was grown on.
fn add(grown: &Grown, rules: &Rules, factor: f64, scores: &mut [f64]) {
    grown.leaves(&mut |rows, g, h| rows.iter().for_each(|row| scores[*row] += factor * Grown::newton(g, h, rules)));
}

/// Proves that trees are dropped, grown on what the others leave, and scaled as the definition says: splits and counts of each tree are those of
/// the twin, and its values to f32.
#[test]
fn trees_are_those_of_a_naive_twin() {
    for (seed, policy) in (0..12).flat_map(|seed| POLICIES.map(|policy| (seed, policy))) {
        let mut dice = Dice::new(seed);
        // Whole numbers far from each other, so that rounding changes no split.
        let columns: Vec<Vec<f64>> = (0..3).map(|_| (0..40).map(|_| dice.below(6) as f64).collect()).collect();
        let y: Vec<f64> = (0..40).map(|i| columns[0][i] * 37.0 + columns[1][i] * columns[2][i] * 11.0 + dice.below(50) as f64).collect();
        let mut t = Table::numbers(columns, y.clone());
        t.baseline = vec![vec![0.0; 40]];
        let (normalize, uniform) = (["paper", "tree", "forest"][seed as usize % 3], seed % 2 == 0);
        let p = params(json!({
            "loss": "rmse", "rounds": 8, "policy": policy, "depth": 2, "learning_rate": 0.5, "seed": seed, "boosting": "dart", "drop_rate": 0.4,
            "skip_drop": 0.2, "max_drop": 1000, "uniform_drop": uniform, "normalize": normalize, "n_threads": 1, "min_gain": 1.0,
        }));
        let p = if policy == "leafwise" { BoostingParams { leaves: Some(4), ..p } } else { p };
        let model = t.fit(&p);
        let found: Vec<Vec<f64>> = t.columns.iter().map(|c| borders(c, p.bins.common() as usize - 1, p.border_method)).collect();
        let rules = Rules::of(&p);
        let mut twin = Twin { uniform, rate: 0.4, skip: 0.2, learning_rate: 0.5, seed, factors: vec![] };
        let (mut all, mut any): (Vec<Grown>, bool) = (vec![], false);
        for _ in 0..8 {
            let dropped = twin.dropped();
            any |= !dropped.is_empty();
            let mut scores = vec![0.0; 40];
            for (k, grown) in all.iter().enumerate().filter(|(k, _)| !dropped.contains(k)) {
                add(grown, &rules, 0.5 * twin.factors[k], &mut scores);
            }
            let gradient: Vec<f64> = scores.iter().zip(&y).map(|(s, y)| s - y).collect();
            let data = Data { columns: &t.columns, borders: &found, gradient: &gradient, hessian: &[1.0; 40], pairs: &[] };
            all.push(data.grow((0..40).collect(), &rules));
            twin.normalize(&dropped, normalize);
        }
        assert!(any);
        // Gradients are rounded, so near ties may fall otherwise: predictions are near, and the first trees equal but for what they count.
        let mut naive = vec![0.0; 40];
        all.iter().zip(&twin.factors).for_each(|(grown, factor)| add(grown, &rules, 0.5 * factor, &mut naive));
        let own = &raw(&model, &t)[0];
        assert!(own.iter().zip(&naive).all(|(a, b)| (a - b).abs() < 1e-3 * (1.0 + b.abs())), "{seed} {policy}: {own:?} {naive:?}");
        naive::assert_equal(&model, &model.trees[0], &all[0], &rules, 0.5 * twin.factors[0]);
    }
}

/// Proves that a fit which drops no tree is the fit without dropouts, and that one which does is another.
#[test]
fn without_dropped_trees_it_is_the_plain_fit() {
    for policy in POLICIES {
        let t = table(700, 4);
        let p = json!({ "rounds": 12, "policy": policy });
        let plain = t.fit(&params(p.clone()));
        for none in [json!({ "drop_rate": 0.0 }), json!({ "skip_drop": 1.0 })] {
            let dart = t.fit(&params_with(with_dart(&p), none));
            assert!(dart.trees == plain.trees && dart.start == plain.start);
        }
        let named = t.fit(&params_with(p.clone(), json!({ "boosting": "gbdt" })));
        assert_eq!(named.to_bytes(), plain.to_bytes());
        assert!(t.fit(&params(with_dart(&p))).trees != plain.trees);
    }
}

fn with_dart(p: &serde_json::Value) -> serde_json::Value {
    let mut p = p.clone();
    p.as_object_mut().unwrap().extend(json!({ "boosting": "dart", "skip_drop": 0.2, "drop_rate": 0.3 }).as_object().unwrap().clone());
    p
}

/// Proves that threads change nothing of random fits with dropouts: any loss, policy, sampler, weights, held-out rows with early stopping,
/// several outputs, categories.
#[test]
fn threads_change_no_random_fit_with_dropouts() {
    let (mut fitted, all) = (0, cases(60));
    for seed in 0..all {
        let case = RandomFit::new(seed);
        let input = case.input(Column::from_f64);
        let p = case.with_dropouts(seed);
        let on = |threads: u32| case.fit(&input, &BoostingParams { n_threads: Some(threads), ..p.clone() });
        let one = on(1);
        assert!(one == on([2, 3, 5][seed as usize % 3]), "seed {seed}: {p:?}");
        fitted += u64::from(one.is_ok());
        if let Ok(bytes) = one {
            let model = Model::from_bytes(&bytes).expect("a model");
            assert_eq!(model.to_bytes(), bytes);
        }
    }
    assert!(10 * fitted >= 6 * all, "{fitted} of {all} fits gave models");
}

/// Proves that a model and more rounds are the bytes of all rounds where nothing is measured, and so is a fit that goes on from snapshots.
#[test]
fn fits_with_dropouts_go_on() {
    let (mut same, mut ended) = (0, 0);
    for seed in 0..cases(60) {
        let mut case = RandomFit::new(seed);
        (case.table.held_out, case.table.positions, case.params.early_stopping) = (None, None, None);
        let input = case.input(Column::from_f64);
        let p = BoostingParams { n_threads: Some(2), ..case.with_dropouts(seed) };
        let Ok(whole) = fit(&input, &p, &Quiet) else { continue };
        let some = |rounds: u32| BoostingParams { rounds: Some(rounds), ..p.clone() };
        let before = 1 + (seed % 6) as u32;
        let first = fit(&input, &some(before), &Quiet).expect("a fit of fewer rounds");
        let first = Model::from_bytes(&first.to_bytes()).expect("a model");
        match fit_with(&input, &some(7 - before), &FitOptions { init_model: Some(&first), ..FitOptions::default() }, &Quiet) {
            Ok(model) => {
                assert!(model.to_bytes() == whole.to_bytes(), "seed {seed}: {p:?}");
                same += 1;
            }
            Err(error) => assert!(error.to_string().contains("cat_method=\"ctr\""), "seed {seed}: {error}"),
        }
        let snapshots = Kept::new(1 + (seed % 3) as u32, None, 1);
        match fit_with(&input, &p, &FitOptions { snapshots: Some(&snapshots), ..FitOptions::default() }, &Quiet) {
            Err(Error::Interrupted) => {
                let snapshots = Kept::new(2, snapshots.bytes(), u32::MAX);
                let options = FitOptions { snapshots: Some(&snapshots), ..FitOptions::default() };
                let model = fit_with(&input, &BoostingParams { n_threads: Some(1), ..p.clone() }, &options, &Quiet).expect("a fit");
                assert!(model.to_bytes() == whole.to_bytes(), "seed {seed}: {p:?}");
                ended += 1;
            }
            Err(error) => assert!(error.to_string().contains("cat_method="), "seed {seed}: {error}"),
            Ok(_) => {}
        }
    }
    assert!(same > 20 && ended > 20, "{same} {ended}");
}

/// Proves that early stopping gives the trees the values of the best round: the model predicts the held-out rows as well as the history says.
#[test]
fn the_best_round_is_kept_as_it_was() {
    for seed in 0..6 {
        let mut t = table(600, seed);
        t.held_out = Some((0..600).map(|i| i % 3 == 0).collect());
        let p = json!({ "rounds": 60, "learning_rate": 0.4, "early_stopping": 8, "boosting": "dart", "drop_rate": 0.5, "skip_drop": 0.1, "seed": seed });
        let model = t.fit(&params(p));
        let history = model.history.as_ref().expect("it is measured");
        assert_eq!(model.rounds(), history.best as usize + 1);
        let held_out = t.filter(|i| i % 3 == 0);
        let own = taiga_testing::rmse(&raw(&model, &held_out)[0], &held_out.y());
        let noted = history.values[history.best as usize];
        assert!((own - noted).abs() < 1e-5 * noted, "{seed}: {own} {noted}");
    }
}

/// Proves that what can't be is told, naming the parameter.
#[test]
fn what_does_not_go_with_dropouts_is_told() {
    let mut t = classes(300, 1);
    let told = |t: &Table, more: serde_json::Value| {
        t.try_fit(&params_with(json!({ "rounds": 3, "boosting": "dart" }), more)).unwrap_err().to_string()
    };
    t.held_out = Some((0..300).map(|i| i % 4 == 0).collect());
    let p = params(json!({ "rounds": 5, "boosting": "dart", "early_stopping": 2 }));
    let snapshots = Kept::new(1, None, 1);
    let error = fit_with(&t.input(), &p, &FitOptions { snapshots: Some(&snapshots), ..FitOptions::default() }, &Quiet).unwrap_err();
    assert!(error.to_string().starts_with("parameter `snapshot`: "), "{error}");
    let error = told(&t, json!({ "learning_rate": 1e9, "l2": 0.0 }));
    assert!(error.contains("boosting=\"dart\"") || error.contains("finite"), "{error}");
    for (more, part) in [
        (json!({ "drop_rate": 1.5 }), "`drop_rate`: 1.5 is not between 0 and 1"),
        (json!({ "skip_drop": -0.1 }), "`skip_drop`: -0.1 is not between 0 and 1"),
        (json!({ "max_drop": 0 }), "`max_drop`: 0 is not at least 1"),
        (json!({ "normalize": "trees" }), "did you mean \"tree\""),
    ] {
        let mut all = json!({ "boosting": "dart" });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let error = BoostingParams::from_json(&all).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    for more in [json!({ "drop_rate": 0.5 }), json!({ "max_drop": 3 }), json!({ "one_drop": true }), json!({ "normalize": "tree" })] {
        let error = BoostingParams::from_json(&more).unwrap_err().to_string();
        assert!(error.contains("counts only under boosting=\"dart\""), "{error}");
    }
}
