//! The optimum: of L-BFGS and OWL-QN, by definition, beside scikit-learn's, and what FTRL comes to.

use serde_json::json;
use taiga_testing::Dice;
use taiga_testing::linear::{Table, formulas, objective, vector};

/// Proves that the optimum is scikit-learn's: the objectives of its `LogisticRegression` (1.9.1; `lbfgs`, `newton-cg` and `saga`
/// with tolerances from 1e-10) on the same rows, at C = 1 and C = 0.05, within 1e-6; and that an L1 optimum has as many coefficients.
#[test]
fn optima_are_those_of_scikit_learn() {
    for (classes, penalty, c, theirs, coefficients) in [
        (2, "l2", 1.0, 0.40222233295747173, 0),
        (2, "l1", 1.0, 0.42103274642245264, 26),
        (2, "l2", 0.05, 0.5813487557436227, 0),
        (2, "l1", 0.05, 0.6772151617057391, 3),
        (3, "l2", 1.0, 0.5886638278059539, 0),
        (3, "l1", 1.0, 0.6356118947426438, 46),
        (3, "l2", 0.05, 0.8387984778776849, 0),
        (3, "l1", 0.05, 0.9689319586734771, 2),
    ] {
        let table = formulas(classes);
        let strength = 1.0 / (c * 400.0);
        let model = table.fit(json!({ penalty: strength, "tolerance": 1e-7, "epochs": 2000 }));
        let (l1, l2) = if penalty == "l1" { (strength, 0.0) } else { (0.0, strength) };
        let ours = objective(&table, 60, &vector(&model, 60), l1, l2);
        assert!(
            (ours - theirs).abs() < 1e-6,
            "{classes} classes, {penalty}, C = {c}: {ours} after {} passes, theirs {theirs}",
            model.passes
        );
        assert!((model.objective - ours).abs() < 1e-6, "{} {ours}", model.objective);
        if penalty == "l1" {
            assert_eq!(model.coefficients().count(), coefficients, "{classes} classes, C = {c}");
        }
        assert!(model.converged, "{classes} classes, {penalty}, C = {c}");
        // The default penalty is C = 1.
        if penalty == "l2" && c == 1.0 {
            let default = table.fit(json!({}));
            assert!((default.objective - theirs).abs() < 1e-5, "{}", default.objective);
        }
    }
}

/// Proves that FTRL comes to within 1e-4 of the L1 optimum in the objective, with true zeros: no coefficient that the optimum
/// leaves out by a margin.
#[test]
fn ftrl_comes_to_the_optimum() {
    for (c, theirs) in [(1.0, 0.42103274642245264), (0.05, 0.6772151617057391)] {
        let (table, l1) = (formulas(2), 1.0 / (c * 400.0));
        let model = table.fit(json!({ "optimizer": "ftrl", "l1": l1, "epochs": 2000, "batch": 16, "learning_rate": 0.5 }));
        let ours = objective(&table, 60, &vector(&model, 60), l1, 0.0);
        assert!((ours - theirs).abs() < 1e-4, "C = {c}: {ours}, theirs {theirs}");
        let exact = table.fit(json!({ "l1": l1, "tolerance": 1e-7, "epochs": 2000 }));
        assert!(model.coefficients().count() <= exact.coefficients().count() + 3, "{} coefficients", model.coefficients().count());
    }
}

/// Rows of a few features with values, three dense columns, weights, and classes that depend on all.
fn random(rows: usize, classes: usize, seed: u64) -> Table {
    let mut dice = Dice::new(seed);
    let features = 40;
    let mut codes = vec![];
    let dense: Vec<Vec<f64>> = (0..3).map(|_| (0..rows).map(|_| dice.normal()).collect()).collect();
    let lists: Vec<Vec<(i64, f64)>> = (0..rows)
        .map(|i| {
            let row: Vec<(i64, f64)> =
                (0..dice.below(8)).map(|_| (dice.below(features) as i64, (dice.normal() * 8.0).round() / 8.0)).collect();
            let z = dense[0][i] - dense[1][i] + dice.normal() + row.iter().map(|(f, x)| (f % 7 - 3) as f64 * x / 3.0).sum::<f64>();
            codes.push(((z + 1.5) / 3.0 * classes as f64).floor().clamp(0.0, classes as f64 - 1.0) as u32);
            row
        })
        .collect();
    let mut table = Table::new(&lists, codes, classes);
    table.dense = dense;
    table.weight = Some((0..rows).map(|_| (dice.below(5) as f64) / 2.0).collect());
    table
}

/// Proves that at the fitted coefficients the objective, computed from its definition, is flat along every coefficient (up to
/// l1 where one is zero), by finite differences; with dense columns, weights, values, two classes and four.
#[test]
fn the_gradient_vanishes_at_the_optimum() {
    for (classes, l1, l2) in [(2, 0.0, 1e-3), (4, 0.0, 1e-3), (2, 5e-3, 0.0), (2, 5e-3, 1e-2), (4, 5e-3, 1e-3)] {
        let table = random(300, classes, 1);
        let model = table.fit(json!({ "l1": l1, "l2": l2, "tolerance": 1e-7, "epochs": 3000 }));
        let width = 40;
        let at = vector(&model, width);
        let penalised = (width + 3) * model.outputs();
        let value = |v: &[f64], l1: f64| objective(&table, width, v, l1, l2);
        assert!((value(&at, l1) - model.objective).abs() < 1e-6);
        for i in 0..at.len() {
            let moved = |by: f64| {
                let mut v = at.clone();
                v[i] += by;
                v
            };
            let h = 1e-4;
            let slope = (value(&moved(h), 0.0) - value(&moved(-h), 0.0)) / (2.0 * h);
            let pull = if i < penalised { l1 } else { 0.0 };
            let off = if at[i] == 0.0 { (slope.abs() - pull).max(0.0) } else { (slope + pull * at[i].signum()).abs() };
            assert!(off < 2e-6, "{classes} classes, l1 {l1}, l2 {l2}: coefficient {i} = {} has slope {slope}", at[i]);
        }
    }
}

/// Proves that a weight counts as so many rows, for L-BFGS: the optimum of weighted rows is that of repeated ones.
#[test]
fn weights_are_repeated_rows() {
    let table = random(200, 2, 3);
    let whole: Vec<usize> = table.weight.as_ref().unwrap().iter().map(|w| (2.0 * w) as usize).collect();
    let times = |i: usize| std::iter::repeat_n(i, whole[i]);
    let which: Vec<usize> = (0..table.rows()).flat_map(times).collect();
    let rows: Vec<Vec<(i64, f64)>> = which.iter().map(|i| table.row(*i)).collect();
    let mut repeated = Table::new(&rows, which.iter().map(|i| table.codes[*i]).collect(), 2);
    repeated.dense = table.dense.iter().map(|c| which.iter().map(|i| c[*i]).collect()).collect();
    let p = json!({ "l2": 0.01, "tolerance": 1e-8, "epochs": 1000 });
    let (a, b) = (vector(&table.fit(p.clone()), 40), vector(&repeated.fit(p), 40));
    for (a, b) in a.iter().zip(&b) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
}

/// Proves that separable classes, constant columns, features of very different sizes, rows without features and a feature number
/// far beyond all others give finite models that part the classes.
#[test]
fn hard_tables_are_fitted() {
    let rows: Vec<Vec<(i64, f64)>> = (0..100).map(|i| vec![(i % 2, 1.0), (5, 1e-12), (6, 1e12 * (i % 3) as f64)]).collect();
    let codes: Vec<u32> = (0..100).map(|i| i % 2).collect();
    let mut table = Table::new(&rows, codes.clone(), 2);
    table.dense = vec![vec![7.0; 100]];
    let split = |table: &Table, p: serde_json::Value| {
        let raw = table.raw(&table.fit(p));
        raw[0].iter().zip(&codes).all(|(s, c)| s.is_finite() && (*s > 0.0) == (*c == 1))
    };
    assert!(split(&table, json!({})));
    assert!(split(&table, json!({ "l2": 0.0, "epochs": 20 })));
    let rows: Vec<Vec<(i64, f64)>> = (0..100).map(|i| if i % 2 == 0 { vec![] } else { vec![(i64::MAX - 3, 1.0)] }).collect();
    let table = Table::new(&rows, codes.clone(), 2);
    for optimizer in ["lbfgs", "sgd", "adagrad", "ftrl"] {
        let epochs = if optimizer == "lbfgs" { 50 } else { 200 };
        assert!(split(&table, json!({ "optimizer": optimizer, "epochs": epochs })), "{optimizer}");
        let model = table.fit(json!({ "optimizer": optimizer }));
        assert_eq!(model.numbers, [i64::MAX as u64 - 3]);
    }
}
