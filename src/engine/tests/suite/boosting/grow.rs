//! The engine's trees against a grower that anyone can read (`common/naive.rs`).

use serde_json::json;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::learners::boosting::BoostingParams;
use taiga_engine::losses::LossKind;
use taiga_engine::quantize::BorderMethod;
use taiga_engine::quantize::borders::borders;
use taiga_engine::tree::Policy;
use taiga_testing::naive::{self, Data, Grown, Rules};
use taiga_testing::{Dice, Table, Wanted, params};

/// The borders of every column, by the engine's own rule (which has tests of its own).
fn all_borders(table: &Table, p: &BoostingParams) -> Vec<Vec<f64>> {
    let own = |(i, column): (usize, &Vec<f64>)| borders(column, p.bins.of(&format!("x{i}")) as usize - 1, p.border_method);
    table.columns.iter().enumerate().map(own).collect()
}

/// Columns with few distinct values: ties, missing values, duplicates, constants, infinities.
fn awkward_columns(dice: &mut Dice, rows: usize, features: usize) -> Vec<Vec<f64>> {
    let mut columns: Vec<Vec<f64>> = vec![];
    for f in 0..features {
        let kind = dice.below(8);
        let column = match kind {
            0 if f > 0 => columns[dice.below(f as u64) as usize].clone(),
            1 => vec![3.0; rows],
            2 => (0..rows).map(|_| if dice.chance(0.5) { f64::NAN } else { 1.0 }).collect(),
            3 => vec![f64::NAN; rows],
            4 => {
                let values = [f64::NEG_INFINITY, -1e300, 0.0, 1e-300, f64::INFINITY, f64::NAN];
                (0..rows).map(|_| values[dice.below(6) as usize]).collect()
            }
            _ => {
                let (distinct, missing) = (2 + dice.below(12), if dice.chance(0.5) { 0.2 } else { 0.0 });
                (0..rows).map(|_| if dice.chance(missing) { f64::NAN } else { dice.below(distinct) as f64 * 0.5 }).collect()
            }
        };
        columns.push(column);
    }
    // At least one that can split.
    columns.push((0..rows).map(|_| dice.below(5) as f64).collect());
    columns
}

/// Fits one tree and holds it equal to the naive one for squared error from a score of 0.
fn check_first_tree(table: &Table, p: &BoostingParams) {
    let model = table.fit(p);
    let start = model.start[0];
    let weight = |i: usize| table.weight.as_ref().map_or(1.0, |w| w[i]);
    let y = table.y();
    let gradient: Vec<f64> = (0..y.len()).map(|i| weight(i) * (start - y[i])).collect();
    let hessian: Vec<f64> = (0..y.len()).map(weight).collect();
    let found = all_borders(table, p);
    let data = Data { columns: &table.columns, borders: &found, gradient: &gradient, hessian: &hessian, pairs: &[] };
    let rules = Rules::of(p).with_weights(p, table.columns.len());
    let training = (0..y.len()).filter(|i| !table.held_out.as_ref().is_some_and(|h| h[*i])).collect();
    let grown = data.grow(training, &rules);
    naive::assert_equal(&model, &model.trees[0], &grown, &rules, p.learning_rate());
}

fn random_params(dice: &mut Dice, policy: &str, extra: serde_json::Value) -> BoostingParams {
    let pick = |dice: &mut Dice, values: &[f64]| values[dice.below(values.len() as u64) as usize];
    let mut value = json!({
        "loss": "rmse", "rounds": 1, "policy": policy, "n_threads": 1, "seed": dice.below(1 << 40),
        "learning_rate": pick(dice, &[0.1, 1.0]),
        "depth": 1 + dice.below(6),
        "l2": pick(dice, &[0.0, 1.0, 3.5]),
        "l1": pick(dice, &[0.0, 0.0, 0.0, 4.0]),
        "min_child_weight": pick(dice, &[0.0, 1.0, 5.0]),
        "min_data_in_leaf": pick(dice, &[0.0, 0.0, 3.0, 10.0]) as u32,
        "min_gain": pick(dice, &[0.0, 0.0, 20.0]),
    });
    if dice.chance(0.3) {
        value["extra_trees"] = json!(true);
    }
    if dice.chance(0.3) {
        value["path_smooth"] = json!(pick(dice, &[0.5, 4.0, 60.0]));
    }
    if dice.chance(0.3) {
        value["max_delta_step"] = json!(pick(dice, &[0.5, 3.0, 40.0]));
    }
    if policy == "leafwise" {
        value["leaves"] = json!(2 + dice.below(12));
        if dice.chance(0.5) {
            value["depth"] = json!(null);
        }
    }
    for (k, v) in extra.as_object().unwrap() {
        value[k] = v.clone();
    }
    params(value)
}

/// Proves that a tree is the one the definition gives, under every policy, with ties, missing
/// values, constant and duplicate columns, and every rule that limits a split. The statistics are
/// whole numbers, so the engine's rounding is exact: splits, gains and counts must be equal.
#[test]
fn the_first_tree_is_the_naive_one() {
    for seed in 0..150 {
        for policy in ["symmetric", "depthwise", "leafwise"] {
            let mut dice = Dice::new(seed);
            let rows = 2 + dice.below(if seed % 3 == 0 { 12 } else { 250 }) as usize;
            let features = 1 + dice.below(6) as usize;
            let columns = awkward_columns(&mut dice, rows, features);
            let distinct = |c: &Vec<f64>| !borders(c, 254, BoostingParams::default().border_method).is_empty();
            if !columns.iter().any(distinct) {
                continue;
            }
            let noise = [0, 3, 100, 900][dice.below(4) as usize];
            let signal =
                |i: usize| columns.iter().take(3).map(|c| if c[i].is_finite() && c[i].abs() < 1e6 { c[i] } else { 7.0 }).sum::<f64>();
            let y = (0..rows).map(|i| (4.0 * signal(i)).round() + dice.below(2 * noise + 1) as f64 - noise as f64).collect();
            let mut table = Table::numbers(columns.clone(), y);
            // A baseline takes the place of the start value, so that residuals stay whole.
            table.baseline = vec![vec![0.0; rows]];
            check_first_tree(&table, &random_params(&mut dice, policy, json!({})));
        }
    }
}

/// Proves the same where features have weights, by which splits and the order of leaves are chosen and nothing else is told: powers of two and
/// others, with weights of 0 among them, and of copies of a column; and where some have bins of their own.
#[test]
fn the_first_tree_under_weights_is_the_naive_one() {
    for seed in 0..120 {
        for policy in ["symmetric", "depthwise", "leafwise"] {
            let mut dice = Dice::new(5000 + seed);
            let rows = 2 + dice.below(if seed % 4 == 0 { 12 } else { 250 }) as usize;
            let features = 1 + dice.below(6) as usize;
            let columns = awkward_columns(&mut dice, rows, features);
            if borders(&columns[features], 254, BoostingParams::default().border_method).is_empty() {
                continue;
            }
            let mut weights = json!({ (format!("x{features}")): 0.5 });
            for f in 0..features {
                if dice.chance(0.7) {
                    weights[format!("x{f}")] = json!([0.0, 0.0625, 0.25, 0.3, 0.77, 2.0, 8.0][dice.below(7) as usize]);
                }
            }
            let y = (0..rows).map(|i| (4.0 * columns[features][i] + i as f64).round() + dice.below(100) as f64).collect();
            let mut table = Table::numbers(columns, y);
            table.baseline = vec![vec![0.0; rows]];
            let bins =
                if dice.chance(0.5) { json!({ "x0": 2 + dice.below(5), (format!("x{features}")): 2 + dice.below(3) }) } else { json!(255) };
            check_first_tree(&table, &random_params(&mut dice, policy, json!({ "feature_weights": weights, "bins": bins })));
        }
    }
}

/// Proves the same where the start value is not 0: 64 rows, so that the mean is a binary fraction.
#[test]
fn the_first_tree_is_the_naive_one_around_a_mean() {
    for seed in 0..60 {
        for policy in ["symmetric", "depthwise", "leafwise"] {
            let mut dice = Dice::new(1000 + seed);
            let columns = awkward_columns(&mut dice, 64, 4);
            let y = (0..64).map(|_| dice.below(16) as f64 + 1e6).collect();
            check_first_tree(&Table::numbers(columns, y), &random_params(&mut dice, policy, json!({})));
        }
    }
}

/// Proves that weights enter gradient and hessian, that `min_data_in_leaf` counts rows and not
/// weights, and that held-out rows have no part in a tree.
#[test]
fn the_first_tree_is_the_naive_one_with_weights_and_held_out_rows() {
    for seed in 0..100 {
        for policy in ["symmetric", "depthwise", "leafwise"] {
            let mut dice = Dice::new(2000 + seed);
            let rows = 20 + dice.below(200) as usize;
            let mut columns = awkward_columns(&mut dice, rows, 4);
            let y = (0..rows).map(|i| columns[4][i] * 8.0 + dice.below(40) as f64).collect();
            let held_out: Vec<bool> = (0..rows).map(|i| i > 3 && dice.chance(0.3)).collect();
            // Borders come from training rows: the held-out ones repeat their values.
            for c in &mut columns {
                let training: Vec<f64> = (0..rows).filter(|i| !held_out[*i]).map(|i| c[i]).collect();
                (0..rows).filter(|i| held_out[*i]).for_each(|i| c[i] = training[i % training.len()]);
            }
            let mut table = Table::numbers(columns, y);
            table.baseline = vec![vec![0.0; rows]];
            if seed % 4 != 3 {
                table.weight = Some((0..rows).map(|_| [0.25, 0.5, 1.0, 2.0, 4.0][dice.below(5) as usize]).collect());
            }
            if seed % 2 == 0 && held_out.contains(&true) {
                table.held_out = Some(held_out);
            }
            check_first_tree(&table, &random_params(&mut dice, policy, json!({})));
        }
    }
}

/// Proves that nothing changes at the edges of the layout: one border, 255 of them with and
/// without missing values, more than one block of features, and several segments of rows.
#[test]
fn the_first_tree_is_the_naive_one_at_the_edges_of_the_layout() {
    let mut dice = Dice::new(3000);
    for policy in ["symmetric", "depthwise", "leafwise"] {
        for (rows, features, distinct, borders, missing) in [
            (300, 3, 9, 1, 0.1),
            (700, 2, 256, 255, 0.0),
            (700, 2, 256, 255, 0.1),
            (700, 2, 255, 254, 0.1),
            (120, 29, 4, 254, 0.1),
            (120, 70, 3, 254, 0.0),
            (140_000, 2, 4, 254, 0.1),
        ] {
            let column = |dice: &mut Dice| -> Vec<f64> {
                let value = |i: usize, dice: &mut Dice| if i < distinct { i as f64 } else { dice.below(distinct as u64) as f64 };
                (0..rows).map(|i| if i >= distinct && dice.chance(missing) { f64::NAN } else { value(i, dice) }).collect()
            };
            let columns: Vec<Vec<f64>> = (0..features).map(|_| column(&mut dice)).collect();
            let last = columns[features - 1].clone();
            let y = (0..rows).map(|i| if last[i].is_nan() { 30.0 } else { last[i] } + dice.below(20) as f64).collect();
            let mut table = Table::numbers(columns, y);
            table.baseline = vec![vec![0.0; rows]];
            let mut p = random_params(&mut dice, policy, json!({ "bins": borders + 1, "depth": 3 }));
            p.border_sample = 1_000_000;
            if features > 20 || rows > 1000 {
                p.depth = Some(2);
            }
            if rows > 1000 {
                p.leaves = p.leaves.map(|_| 3);
                p.n_threads = Some(1);
                for min_data in [0, 7] {
                    check_first_tree(&table, &BoostingParams { min_data_in_leaf: min_data, ..p.clone() });
                }
            }
            check_first_tree(&table, &p);
        }
    }
}

/// Proves that sums stay exact where more than 65,536 rows of one thread have the largest gradient
/// and hessian in one bin, which 32 bits can't hold.
#[test]
fn the_first_tree_is_the_naive_one_with_large_statistics_in_one_bin() {
    let mut dice = Dice::new(3500);
    let rows = 140_000;
    let rare: Vec<f64> = (0..rows).map(|_| dice.chance(0.03) as u8 as f64).collect();
    let other: Vec<f64> = (0..rows).map(|_| dice.below(3) as f64).collect();
    let y = (0..rows).map(|i| 1023.0 - if rare[i] + other[i] == 3.0 { 9.0 * dice.below(20) as f64 } else { 0.0 }).collect();
    let mut table = Table::numbers(vec![rare, other], y);
    table.baseline = vec![vec![0.0; rows]];
    for (policy, weighted, min_data) in [("symmetric", true, 0), ("depthwise", false, 9), ("leafwise", true, 9)] {
        table.weight = weighted.then(|| vec![1.75; rows]);
        let p = json!({ "policy": policy, "rounds": 1, "depth": 2, "min_data_in_leaf": min_data, "n_threads": 1, "loss": "rmse" });
        check_first_tree(&table, &params(p));
    }
}

/// Proves that whole-numbered statistics are never moved by the rounding, also odd ones near the
/// top of their 15 bits: the gain of a split is exact whatever the seed.
#[test]
fn whole_statistics_are_exact_whatever_the_seed() {
    let x: Vec<f64> = (0..8).map(f64::from).collect();
    let y: Vec<f64> = [32766.0, -32765.0, 24691.0, -19999.0, 16387.0, -30001.0, 21847.0, 8193.0].to_vec();
    let mut table = Table::numbers(vec![x], y);
    table.baseline = vec![vec![0.0; 8]];
    for seed in 0..4000 {
        check_first_tree(&table, &params(json!({ "rounds": 1, "depth": 3, "policy": "depthwise", "seed": seed, "n_threads": 1 })));
    }
}

/// The naive booster's mean loss (up to a constant of the targets) after some rounds.
struct Booster {
    loss: LossKind,
    alpha: f64,
    delta: f64,
    power: f64,
}

impl Booster {
    fn value(&self, s: f64, y: f64) -> f64 {
        let r = (s - y).abs();
        match self.loss {
            LossKind::Rmse => r * r / 2.0,
            LossKind::Logloss | LossKind::CrossEntropy => s.max(0.0) + (-s.abs()).exp().ln_1p() - y * s,
            LossKind::Mae | LossKind::Mape => r,
            LossKind::Expectile => (if y > s { self.alpha } else { 1.0 - self.alpha }) * r * r,
            LossKind::LogCosh => r.cosh().ln(),
            LossKind::Focal => {
                let z = if y == 1.0 { s } else { -s };
                let p = 1.0 / (1.0 + (-z).exp());
                -(1.0 - p) * (1.0 - p) * p.ln()
            }
            LossKind::Quantile => {
                if y > s {
                    self.alpha * r
                } else {
                    (1.0 - self.alpha) * r
                }
            }
            LossKind::Huber => {
                if r <= self.delta {
                    r * r / 2.0
                } else {
                    self.delta * (r - self.delta / 2.0)
                }
            }
            LossKind::Poisson => s.exp() - y * s,
            LossKind::Gamma => s + y * (-s).exp(),
            LossKind::Tweedie => {
                ((2.0 - self.power) * s).exp() / (2.0 - self.power) - y * ((1.0 - self.power) * s).exp() / (1.0 - self.power)
            }
            other => unreachable!("{other:?} is no loss of one score of single rows"),
        }
    }

    fn mean(&self, scores: &[f64], y: &[f64]) -> f64 {
        scores.iter().zip(y).map(|(s, y)| self.value(*s, *y)).sum::<f64>() / y.len() as f64
    }

    /// Scores after `p.rounds` rounds from `start`.
    fn scores(&self, table: &Table, p: &BoostingParams, start: f64) -> Vec<f64> {
        let y = table.y();
        let found = all_borders(table, p);
        let rules = Rules::of(p);
        let mut scores = vec![start; y.len()];
        for _ in 0..p.rounds() {
            let d: Vec<(f64, f64)> =
                scores.iter().zip(&y).map(|(s, y)| naive::derivatives(self.loss, self.alpha, self.delta, self.power, *s, *y)).collect();
            let (gradient, hessian): (Vec<f64>, Vec<f64>) = d.into_iter().unzip();
            let data = Data { columns: &table.columns, borders: &found, gradient: &gradient, hessian: &hessian, pairs: &[] };
            let grown = data.grow((0..y.len()).collect(), &rules);
            let mut next = scores.clone();
            grown.leaves(&mut |rows, g, h| {
                let value = match self.loss {
                    LossKind::Mae => quantile(rows.iter().map(|r| y[*r] - scores[*r]).collect(), 0.5),
                    LossKind::Quantile => quantile(rows.iter().map(|r| y[*r] - scores[*r]).collect(), self.alpha),
                    _ => Grown::newton(g, h, &rules),
                };
                rows.iter().for_each(|r| next[*r] += p.learning_rate() * value);
            });
            scores = next;
        }
        scores
    }
}

/// The smallest value at which the share of rows up to it reaches `alpha`, halfway to the next
/// where it reaches it exactly; 0 for no rows.
fn quantile(mut values: Vec<f64>, alpha: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let Some(i) = (0..n).find(|i| (i + 1) as f64 >= alpha * n as f64) else { return 0.0 };
    if (i + 1) as f64 == alpha * n as f64 && i + 1 < n { 0.5 * (values[i] + values[i + 1]) } else { values[i] }
}

fn smooth_table(dice: &mut Dice, rows: usize, loss: LossKind) -> Table {
    let columns: Vec<Vec<f64>> =
        (0..4).map(|_| (0..rows).map(|_| if dice.chance(0.05) { f64::NAN } else { dice.normal() }).collect()).collect();
    let x = |f: usize, i: usize| if columns[f][i].is_nan() { 0.7 } else { columns[f][i] };
    let z: Vec<f64> = (0..rows).map(|i| x(0, i) - 0.7 * x(1, i) * x(2, i) + (2.0 * x(3, i)).sin()).collect();
    let p = |z: f64| 1.0 / (1.0 + (-z).exp());
    let y: Vec<f64> = z
        .iter()
        .map(|z| match loss {
            LossKind::Logloss | LossKind::Focal => dice.chance(p(*z)) as u8 as f64,
            LossKind::CrossEntropy => p(z + 0.5 * dice.normal()),
            LossKind::Poisson => (0..60).filter(|_| dice.chance((0.5 * z).exp() / 60.0)).count() as f64,
            LossKind::Gamma => (0.5 * z).exp() * -(1.0 - dice.unit()).ln() + 1e-3,
            LossKind::Tweedie => {
                if dice.chance(0.4) {
                    0.0
                } else {
                    (0.5 * z).exp() * -(1.0 - dice.unit()).ln()
                }
            }
            _ => z + 0.5 * dice.normal(),
        })
        .collect();
    match loss {
        LossKind::Logloss | LossKind::Focal => Table::classes(columns, y.iter().map(|y| *y as u32).collect(), Labels::Boolean),
        _ => Table::numbers(columns, y),
    }
}

/// Proves that twenty rounds lower each loss as far as the same rounds in f64 without rounding
/// anywhere. Mostly the trees are the same; where two splits nearly tie they may part, so what
/// counts is the typical and the mean difference, in shares of what the rounds gain.
#[test]
fn boosting_lowers_the_loss_as_far_as_in_f64() {
    use LossKind::*;
    for loss in [Rmse, Logloss, CrossEntropy, Focal, Mae, Quantile, Huber, Expectile, LogCosh, Poisson, Gamma, Tweedie] {
        for policy in [Policy::Symmetric, Policy::Depthwise, Policy::Leafwise] {
            let mut differences: Vec<f64> = (0..5).map(|seed| difference_from_f64(loss, policy, seed)).collect();
            let mean = differences.iter().sum::<f64>() / differences.len() as f64;
            differences.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
            assert!(mean.abs() < 0.02 && differences[2].abs() < 0.01, "{loss:?} {policy:?}: {differences:?}");
        }
    }
}

/// By how much the engine's training loss after twenty rounds is above that of f64, in shares of
/// what the rounds gain.
fn difference_from_f64(loss: LossKind, policy: Policy, seed: u64) -> f64 {
    let mut dice = Dice::new(4000 + seed);
    let table = smooth_table(&mut dice, 600, loss);
    let p = BoostingParams {
        // Few splits nearly tie on these borders, so that the trees stay comparable for longer.
        border_method: BorderMethod::Quantile,
        loss,
        policy,
        rounds: Some(20),
        learning_rate: Some(0.2),
        depth: Some(4),
        leaves: (policy == Policy::Leafwise).then_some(12),
        bins: 21.into(),
        alpha: 0.8.into(),
        huber_delta: Some(0.7),
        tweedie_power: 1.3,
        n_threads: Some(1),
        ..BoostingParams::default()
    };
    let model = table.fit(&p);
    let booster = Booster { loss, alpha: p.alpha.first(), delta: p.loss_params().huber_delta, power: p.tweedie_power };
    let y = table.y();
    let own = booster.mean(&taiga_testing::raw(&model, &table)[0], &y);
    let exact = booster.mean(&booster.scores(&table, &p, model.start[0]), &y);
    let start = booster.mean(&vec![model.start[0]; y.len()], &y);
    assert!(exact < start, "{loss:?} {policy:?}");
    (own - exact) / (start - exact)
}

/// Proves that one outlier of 10⁸ costs typical rows nothing: their error after the outlier has a
/// leaf of its own is that of f64.
#[test]
fn an_outlier_leaves_typical_rows_their_precision() {
    for policy in [Policy::Symmetric, Policy::Depthwise, Policy::Leafwise] {
        let mut dice = Dice::new(5000);
        let mut table = smooth_table(&mut dice, 3000, LossKind::Rmse);
        let Wanted::Numbers(y) = &mut table.target else { unreachable!() };
        y[1234] = 1e8;
        table.columns[0][1234] = 50.0;
        let p = BoostingParams {
            policy,
            rounds: Some(40),
            learning_rate: Some(0.7),
            depth: Some(4),
            leaves: (policy == Policy::Leafwise).then_some(12),
            l2: 0.0,
            bins: 13.into(),
            ..BoostingParams::default()
        };
        table.columns[0].iter_mut().enumerate().for_each(|(i, x)| *x = if i == 1234 { 50.0 } else { (2.0 * *x).round() / 2.0 });
        let model = table.fit(&p);
        let booster = Booster { loss: LossKind::Rmse, alpha: 0.5, delta: 1.0, power: 1.5 };
        let typical = |v: &[f64]| v.iter().enumerate().filter(|(i, _)| *i != 1234).map(|(_, x)| *x).collect::<Vec<f64>>();
        let y = typical(&table.y());
        let own = taiga_testing::rmse(&typical(&taiga_testing::raw(&model, &table)[0]), &y);
        let exact = taiga_testing::rmse(&typical(&booster.scores(&table, &p, model.start[0])), &y);
        assert!(exact < 0.7, "{policy:?}: {exact}");
        assert!((own - exact).abs() < 0.03 * exact, "{policy:?}: {own}, in f64 {exact}");
    }
}
