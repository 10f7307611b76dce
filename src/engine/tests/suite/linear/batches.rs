//! Batches: each rule beside a textbook version that anyone can read.

use serde_json::json;
use taiga_testing::Dice;
use taiga_testing::linear::{Table, vector};

const WIDTH: usize = 12;

/// Batches of one: the order of rows that the engine takes, found by which row each step was: a table of one row an epoch.
fn table(rows: usize, seed: u64) -> Table {
    let mut dice = Dice::new(seed);
    let lists: Vec<Vec<(i64, f64)>> = (0..rows)
        .map(|_| {
            let mut row: Vec<(i64, f64)> = (0..1 + dice.below(4)).map(|_| (dice.below(WIDTH as u64) as i64, dice.normal())).collect();
            row.sort_by_key(|e| e.0);
            row.dedup_by_key(|e| e.0);
            row
        })
        .collect();
    let codes = (0..rows).map(|_| dice.below(2) as u32).collect();
    let mut table = Table::new(&lists, codes, 2);
    table.dense = vec![(0..rows).map(|_| dice.normal()).collect()];
    table
}

/// What a rule remembers, dense.
#[derive(Clone)]
struct State {
    c: Vec<f64>,
    n: Vec<f64>,
    z: Vec<f64>,
}

/// A textbook epoch after epoch of whole-table batches: every coefficient, every step, penalties included.
fn textbook(table: &Table, optimizer: &str, epochs: usize, rate: f64, l1: f64, l2: f64) -> Vec<f64> {
    let len = WIDTH + 2;
    let mut s = State { c: vec![0.0; len], n: vec![0.0; len], z: vec![0.0; len] };
    let rows = table.rows() as f64;
    let beta = 1.0;
    for epoch in 0..epochs {
        let t = (epoch as f64) * rows;
        let x = |i: usize| {
            let mut x = vec![0.0; len];
            table.row(i).iter().for_each(|(f, v)| x[*f as usize] += v);
            x[WIDTH] = table.dense[0][i];
            x[WIDTH + 1] = 1.0;
            x
        };
        if optimizer == "ftrl" {
            s.c = leader(&s, t, rate, beta, l1, l2);
        }
        let mut g = vec![0.0; len];
        for i in 0..table.rows() {
            let x = x(i);
            let score: f64 = x.iter().zip(&s.c).map(|(x, c)| x * c).sum();
            let r = 1.0 / (1.0 + (-score).exp()) - table.codes[i] as f64;
            g.iter_mut().zip(&x).for_each(|(g, x)| *g += r * x);
        }
        for (j, g) in g.into_iter().enumerate() {
            let (l1, l2) = if j == WIDTH + 1 { (0.0, 0.0) } else { (l1, l2) };
            let prox = |c: f64, rate: f64| c.signum() * (c.abs() - rows * rate * l1).max(0.0) / (1.0 + rows * rate * l2);
            match optimizer {
                "sgd" => {
                    let rate = rate / (1.0 + epoch as f64).sqrt();
                    s.c[j] = prox(s.c[j] - rate * g, rate);
                }
                "adagrad" => {
                    s.n[j] += g * g;
                    let rate = if s.n[j] > 0.0 { rate / s.n[j].sqrt() } else { 0.0 };
                    s.c[j] = prox(s.c[j] - rate * g, rate);
                }
                _ => {
                    let n = s.n[j] + g * g;
                    s.z[j] += g - (n.sqrt() - s.n[j].sqrt()) / rate * s.c[j];
                    s.n[j] = n;
                }
            }
        }
    }
    if optimizer == "ftrl" {
        s.c = leader(&s, epochs as f64 * rows, rate, beta, l1, l2);
    }
    s.c
}

fn leader(s: &State, t: f64, rate: f64, beta: f64, l1: f64, l2: f64) -> Vec<f64> {
    let one = |j: usize| {
        let (l1, l2) = if j == WIDTH + 1 { (0.0, 0.0) } else { (t * l1, t * l2) };
        if s.z[j].abs() <= l1 { 0.0 } else { -(s.z[j] - s.z[j].signum() * l1) / ((beta + s.n[j].sqrt()) / rate + l2) }
    };
    (0..WIDTH + 2).map(one).collect()
}

/// Proves that a batch of all rows does what the textbook does, for every rule, with and without penalties.
#[test]
fn rules_are_the_textbook_s() {
    for optimizer in ["sgd", "adagrad", "ftrl"] {
        for (l1, l2) in [(0.0, 0.0), (0.004, 0.0), (0.0, 0.01), (0.003, 0.02)] {
            let table = table(64, 5);
            let rate = if optimizer == "sgd" { 0.02 } else { 0.3 };
            let p = json!({ "optimizer": optimizer, "epochs": 12, "batch": 64, "learning_rate": rate, "l1": l1, "l2": l2 });
            let ours = vector(&table.fit(p), WIDTH);
            let theirs = textbook(&table, optimizer, 12, rate, l1, l2);
            for (j, (a, b)) in ours.iter().zip(&theirs).enumerate() {
                assert!((a - b).abs() < 2e-5 * (1.0 + b.abs()), "{optimizer} l1 {l1} l2 {l2}: coefficient {j} is {a}, the textbook's {b}");
                assert_eq!(*a == 0.0, *b == 0.0, "{optimizer} l1 {l1} l2 {l2}: coefficient {j} is {a}, the textbook's {b}");
            }
        }
    }
}

/// Proves that penalties made up later are those of every step: a feature that only the first of many batches has ends where steps
/// of shrinking alone lead (l2, which shrinks at once as it does step by step up to rounding and second order).
#[test]
fn what_was_missed_is_made_up() {
    for (optimizer, rate) in [("sgd", 0.1), ("adagrad", 0.2)] {
        // One row with feature 1 among 400; its place in the shuffled order does not matter for l1.
        let rows: Vec<Vec<(i64, f64)>> = (0..400).map(|i| if i == 0 { vec![(1, 1.0)] } else { vec![(0, 1.0)] }).collect();
        let table = Table::new(&rows, (0..400).map(|i| (i % 2 == 0) as u32).collect(), 2);
        let with = |l1: f64, seed: u64| {
            let p = json!({ "optimizer": optimizer, "epochs": 1, "batch": 1, "learning_rate": rate, "l1": l1, "l2": 0.0, "seed": seed, "fit_intercept": false });
            vector(&table.fit(p), 2)[1]
        };
        for seed in 0..5 {
            let free = with(0.0, seed);
            // A step of half the gradient (score 0, class 1), then l1 at each row behind it.
            let eta = if optimizer == "sgd" { rate } else { rate / 0.5 };
            assert!((free - eta * 0.5).abs() < 1e-6, "{optimizer}: {free}");
            let faded = with(1e-5, seed);
            assert!(faded < free && faded >= free - 400.0 * 1e-5 * eta - 1e-6, "{optimizer} {faded} of {free}");
            assert_eq!(with(1.0, seed), 0.0);
        }
    }
}

/// Proves that a feature twice in a row counts as the sum of its values, for every optimizer (of L-BFGS, whose way there depends on
/// the sum of squares, the optimum).
#[test]
fn duplicates_are_summed() {
    let plain = table(80, 9);
    let split: Vec<Vec<(i64, f64)>> =
        (0..80).map(|i| plain.row(i).iter().flat_map(|(f, _)| [(*f, 0.5), (*f, 1.5), (*f, -1.0)]).collect()).collect();
    let summed: Vec<Vec<(i64, f64)>> = (0..80).map(|i| plain.row(i).iter().map(|(f, _)| (*f, 1.0)).collect()).collect();
    let (split, summed) = (Table::new(&split, plain.codes.clone(), 2), Table::new(&summed, plain.codes.clone(), 2));
    for optimizer in ["lbfgs", "sgd", "adagrad", "ftrl"] {
        let mut p = json!({ "optimizer": optimizer, "epochs": 3 });
        if optimizer == "lbfgs" {
            p = json!({ "tolerance": 1e-8, "epochs": 1000 });
        }
        let (a, b) = (vector(&split.fit(p.clone()), WIDTH), vector(&summed.fit(p), WIDTH));
        a.iter().zip(&b).for_each(|(a, b)| assert!((a - b).abs() < 1e-5, "{optimizer}: {a} {b}"));
    }
}

/// Proves that early stopping keeps the coefficients of the best pass: the model of so many epochs, for every optimizer.
#[test]
fn early_stopping_keeps_the_best() {
    for optimizer in ["lbfgs", "sgd", "adagrad", "ftrl"] {
        for metric in ["logloss", "auc", "accuracy"] {
            let mut table = table(300, 2);
            table.held_out = Some((0..300).map(|i| i % 3 == 0).collect());
            let p = |epochs: u32, stop: bool| {
                let mut p = json!({ "optimizer": optimizer, "epochs": epochs, "metric": metric, "l2": 1e-6 });
                if stop {
                    p["early_stopping"] = json!(3);
                }
                p
            };
            let stopped = table.fit(p(40, true));
            let history = stopped.history.as_ref().unwrap();
            assert_eq!(stopped.passes, history.best + 1);
            assert!(history.values.len() as u32 <= history.best + 4);
            let until = table.fit(p(stopped.passes, false));
            assert_eq!(vector(&until, WIDTH), vector(&stopped, WIDTH), "{optimizer} {metric}");
            assert_eq!(until.history.unwrap().values, history.values[..stopped.passes as usize]);
        }
    }
}
