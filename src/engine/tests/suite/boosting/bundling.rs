//! Sparse features, stored by their exceptions or bundled, give the same model, byte for byte, as
//! a column of codes for each.

use serde_json::json;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::learners::boosting::BoostingParams;
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::quantize::borders::borders;
use taiga_testing::naive::{self, Data, Rules};
use taiga_testing::{Dice, POLICIES, Table, Wanted, params};

/// Columns that are mostly one value, of every kind: flags that exclude each other (few and many,
/// neighbours or not), independent flags, counts, numbers on both sides of the default, mostly
/// missing ones, mostly full ones with some missing, and a few dense columns between them.
fn sparse_columns(dice: &mut Dice, rows: usize, blocks: usize, share: f64) -> Vec<Vec<f64>> {
    let mut columns: Vec<Vec<f64>> = vec![];
    for block in 0..blocks {
        let levels = 2 + dice.below(12) as usize;
        let drawn: Vec<usize> = (0..rows).map(|_| dice.below(levels as u64) as usize).collect();
        let values = 1 + dice.below(3);
        for level in 0..levels {
            columns.push((0..rows).map(|i| if drawn[i] == level { 1.0 + dice.below(values) as f64 } else { 0.0 }).collect());
        }
        let mut sparse = |default: f64, value: &mut dyn FnMut(&mut Dice) -> f64| -> Vec<f64> {
            (0..rows).map(|_| if dice.chance(share) { value(dice) } else { default }).collect()
        };
        columns.push(sparse(0.0, &mut |_| 1.0));
        columns.push(sparse(1.0, &mut |_| 0.0));
        columns.push(sparse(0.0, &mut |d| d.below(9) as f64 - 4.0));
        columns.push(sparse(0.0, &mut |d| d.below(400) as f64 - 399.0));
        columns.push(sparse(f64::NAN, &mut |d| d.below(3) as f64));
        columns.push(sparse(f64::NAN, &mut |_| 7.0));
        columns.push(sparse(2.0, &mut |d| if d.chance(0.5) { f64::NAN } else { d.below(2) as f64 }));
        columns.push(sparse(9.0, &mut |d| if d.chance(0.3) { f64::NAN } else { 0.0 }));
        columns.push(sparse(0.0, &mut |_| f64::NAN));
        if block % 2 == 0 {
            columns.push((0..rows).map(|_| if dice.chance(0.1) { f64::NAN } else { dice.below(30) as f64 }).collect());
            columns.push(vec![3.0; rows]);
        }
    }
    columns
}

/// A signal over all columns with whole numbers, so that statistics are exact, and some noise.
fn signal(columns: &[Vec<f64>], dice: &mut Dice) -> Vec<f64> {
    let weights: Vec<f64> = columns.iter().map(|_| dice.below(9) as f64 - 4.0).collect();
    let of = |x: f64| if x.is_nan() { 1.5 } else { x.clamp(-5.0, 5.0) };
    let rows = columns[0].len();
    (0..rows).map(|i| (2.0 * columns.iter().zip(&weights).map(|(c, w)| w * of(c[i])).sum::<f64>()).round() + dice.below(9) as f64).collect()
}

fn table(rows: usize, blocks: usize, share: f64, seed: u64) -> Table {
    let mut dice = Dice::new(seed);
    let columns = sparse_columns(&mut dice, rows, blocks, share);
    let y = signal(&columns, &mut dice);
    Table::numbers(columns, y)
}

fn without(p: &BoostingParams) -> BoostingParams {
    BoostingParams { bundle: false, n_threads: Some(1), ..p.clone() }
}

fn with(p: &BoostingParams, n: u32) -> BoostingParams {
    BoostingParams { bundle: true, n_threads: Some(n), ..p.clone() }
}

fn assert_same(a: &Model, b: &Model, what: &str) {
    assert!(a == b, "{what}: the models differ");
    assert!(a.to_bytes() == b.to_bytes(), "{what}: the models' bytes differ");
}

/// Proves that bundling changes nothing under any policy, loss and way to draw rows, with feature
/// fractions, counts, weights, constraints, held-out rows and threads dealt out over the
/// combinations.
#[test]
fn bundling_changes_nothing_under_any_policy_loss_and_sample() {
    let mut case = 0;
    for loss in ["rmse", "logloss", "mae", "poisson", "multiclass"] {
        let mut plain = table(6_000, 3, 0.04, 1);
        let y = plain.y();
        let mut dice = Dice::new(2);
        match loss {
            "logloss" => plain = Table::classes(plain.columns, y.iter().map(|y| (*y > 0.0) as u32).collect(), Labels::Boolean),
            "multiclass" => {
                let labels = Labels::Text(vec!["a".into(), "b".into(), "c".into()]);
                plain = Table::classes(plain.columns, y.iter().map(|y| (*y > -9.0) as u32 + (*y > 9.0) as u32).collect(), labels);
            }
            "poisson" => plain.target = Wanted::Numbers(y.iter().map(|y| (y / 40.0).clamp(-3.0, 3.0).exp()).collect()),
            _ => {}
        }
        let rows = plain.rows();
        let weight: Vec<f64> = (0..rows).map(|_| 0.1 + dice.unit()).collect();
        let held_out: Vec<bool> = (0..rows).map(|_| dice.chance(0.2)).collect();
        for policy in POLICIES {
            for sample in ["none", "bernoulli", "goss", "mvs", "bayesian"] {
                case += 1;
                let mut p =
                    json!({ "loss": loss, "policy": policy, "row_sample": sample, "rounds": 3, "seed": case, "learning_rate": 0.3 });
                if case % 2 == 0 {
                    p["feature_fraction"] = json!(0.7);
                    p["feature_fraction_node"] = json!(if policy == "symmetric" { 1.0 } else { 0.6 });
                }
                if case % 3 == 0 {
                    p["min_data_in_leaf"] = json!(20);
                    p["monotone"] = json!({ "x0": 1, "x3": -1 });
                }
                if case % 5 == 0 {
                    p["l1"] = json!(1.5);
                }
                if case % 11 == 0 {
                    p["interaction"] = json!([["x0", "x1", "x15"], ["x2", "x3", "x4"]]);
                }
                plain.held_out = (case % 7 < 3).then(|| held_out.clone());
                plain.weight = (case % 5 < 2).then(|| weight.clone());
                let p = params(p);
                let off = plain.fit(&without(&p));
                for n in [1, [2, 3, 4, 7][case as usize % 4]] {
                    assert_same(&off, &plain.fit(&with(&p, n)), &format!("{n} threads, {p:?}"));
                }
                assert!(off.trees.iter().any(|t| t.leaves().len() > 1), "{p:?}");
            }
        }
    }
}

/// Proves the same for other sizes and shares of exceptions: few columns, where bundling does not
/// pay, more rows than a packed histogram holds, more than 256 codes a group of flags, features
/// without a dense one beside them.
#[test]
fn bundling_changes_nothing_whatever_the_shape() {
    for (rows, blocks, share, more) in [
        (1_024, 1, 0.05, json!({ "rounds": 10 })),
        (1_100, 4, 0.25, json!({ "rounds": 5, "policy": "leafwise" })),
        (3_000, 30, 0.01, json!({ "rounds": 3, "policy": "depthwise", "min_data_in_leaf": 3 })),
        (140_000, 2, 0.02, json!({ "rounds": 3, "policy": "depthwise", "depth": 5 })),
        (140_000, 2, 0.3, json!({ "rounds": 2, "policy": "symmetric" })),
        (5_000, 3, 0.05, json!({ "rounds": 3, "bins": 2 })),
        (5_000, 3, 0.05, json!({ "rounds": 3, "bins": 256, "border_sample": 1_000 })),
    ] {
        let mut t = table(rows, blocks, share, 3);
        let mut p = json!({ "loss": "rmse" });
        more.as_object().unwrap().iter().for_each(|(k, v)| p[k] = v.clone());
        let p = params(p);
        for dense in [true, false] {
            let off = t.fit(&without(&p));
            for n in [1, 2, 5] {
                assert_same(&off, &t.fit(&with(&p, n)), &format!("{rows} rows, {blocks} blocks, {share}, {n} threads, dense {dense}"));
            }
            let mostly = |c: &Vec<f64>| {
                let mut values: Vec<u64> = c.iter().map(|x| x.to_bits()).collect();
                values.sort_unstable();
                values.chunk_by(|a, b| a == b).any(|run| run.len() * 4 > 3 * rows)
            };
            t.columns.retain(mostly);
        }
    }
}

/// Proves the same where statistics are wide: a target with an outlier, with constant hessians,
/// weights and counts.
#[test]
fn bundling_changes_nothing_with_wide_statistics() {
    for (weighted, min_data) in [(false, 0), (true, 0), (false, 20), (true, 20)] {
        let mut t = table(6_000, 3, 0.04, 5);
        let Wanted::Numbers(y) = &mut t.target else { unreachable!() };
        y[1_234] = 1e9;
        let mut dice = Dice::new(6);
        t.weight = weighted.then(|| (0..6_000).map(|i| if i == 999 { 1e6 } else { dice.unit() }).collect());
        for policy in POLICIES {
            let p = params(json!({ "rounds": 4, "policy": policy, "min_data_in_leaf": min_data, "learning_rate": 0.8, "loss": "rmse" }));
            let off = t.fit(&without(&p));
            for n in [1, 3] {
                assert_same(&off, &t.fit(&with(&p, n)), &format!("{n} threads, {p:?}"));
            }
        }
    }
}

/// Proves the same where features have more rows off their defaults than a packed histogram holds:
/// the flags of categories of four levels, and listed ones besides.
#[test]
fn bundling_changes_nothing_with_many_exceptions() {
    let mut dice = Dice::new(11);
    let rows = 300_000;
    let levels: Vec<Vec<u64>> = (0..5).map(|_| (0..rows).map(|_| dice.below(4)).collect()).collect();
    let mut columns: Vec<Vec<f64>> =
        (0..20).map(|f| levels[f / 4].iter().map(|level| (*level == f as u64 % 4) as u8 as f64).collect()).collect();
    for listed in [0, 30] {
        columns.extend((0..listed).map(|_| (0..rows).map(|_| if dice.chance(0.06) { dice.below(4) as f64 } else { 0.0 }).collect()));
        let y = (0..rows).map(|i| (levels[0][i] * levels[1][i]) as f64 + columns[columns.len() - 1][i] + dice.unit()).collect();
        let t = Table::numbers(columns.clone(), y);
        for (policy, more) in
            [("symmetric", json!({})), ("depthwise", json!({ "min_data_in_leaf": 100 })), ("leafwise", json!({ "bins": 2 }))]
        {
            let mut p = json!({ "loss": if policy == "leafwise" { "poisson" } else { "rmse" }, "rounds": 2, "policy": policy });
            more.as_object().unwrap().iter().for_each(|(k, v)| p[k] = v.clone());
            let p = params(p);
            let off = t.fit(&without(&p));
            assert_same(&off, &t.fit(&with(&p, 2)), &format!("{policy}, {listed}"));
        }
    }
}

/// Proves that categories of 300 levels, one column each, dealt in any order, change nothing.
#[test]
fn flags_of_large_categories_change_nothing() {
    let mut dice = Dice::new(8);
    let rows = 20_000;
    let groups: Vec<Vec<u64>> = (0..2).map(|_| (0..rows).map(|_| (300.0 * dice.unit().powi(2)) as u64).collect()).collect();
    let mut columns: Vec<Vec<f64>> =
        (0..600).map(|f| groups[f % 2].iter().map(|level| (*level as usize == f / 2) as u8 as f64).collect()).collect();
    columns.insert(5, (0..rows).map(|_| dice.normal()).collect());
    let y = (0..rows).map(|i| ((groups[0][i] % 7) * (groups[1][i] % 5)) as f64 + columns[5][i]).collect();
    let t = Table::numbers(columns, y);
    for policy in POLICIES {
        let p = params(json!({ "rounds": 4, "policy": policy, "loss": "rmse" }));
        let off = t.fit(&without(&p));
        for n in [1, 2] {
            assert_same(&off, &t.fit(&with(&p, n)), &format!("{n} threads, {policy}"));
        }
    }
}

/// Proves that the first tree of a sparse table is the one that the definition gives, without any
/// histograms.
#[test]
fn the_first_tree_of_a_sparse_table_is_the_naive_one() {
    for seed in 0..4 {
        for policy in POLICIES {
            let mut t = table(1_024 + 60 * seed as usize, 3, 0.05, 40 + seed);
            t.baseline = vec![vec![0.0; t.rows()]];
            let p = params(
                json!({ "loss": "rmse", "rounds": 1, "policy": policy, "depth": 4, "leaves": if policy == "leafwise" { json!(9) } else { json!(null) },
                "min_data_in_leaf": 5 * (seed % 2), "n_threads": 1 + seed }),
            );
            let model = t.fit(&p);
            let gradient: Vec<f64> = t.y().iter().map(|y| -y).collect();
            let found: Vec<Vec<f64>> = t.columns.iter().map(|c| borders(c, p.bins.common() as usize - 1, p.border_method)).collect();
            let data = Data { columns: &t.columns, borders: &found, gradient: &gradient, hessian: &vec![1.0; t.rows()], pairs: &[] };
            let rules = Rules::of(&p);
            naive::assert_equal(&model, &model.trees[0], &data.grow((0..t.rows()).collect(), &rules), &rules, p.learning_rate());
        }
    }
}
