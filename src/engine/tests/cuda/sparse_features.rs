//! A fit on the GPU of a table that is mostly one value a column gives the model of a fit on the CPU, byte for byte, whether its
//! features share columns, are lists, or neither; and so do tables of many features.
//!
//! These tests are ignored unless asked for (`make test-cuda`), and then fail without a GPU.

use serde_json::json;
use taiga_engine::learners::boosting::BoostingParams;
use taiga_testing::devices::compare;
use taiga_testing::gpu::gpu;
use taiga_testing::{Dice, Table, params, params_with};

/// Proves equal bytes for features that exclude one another, which share columns of codes: flags of categories, counts, values that
/// are mostly missing or have missing values among the others, beside dense features and sparse ones that exclude none.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn exclusive_features() {
    gpu();
    for (case, (levels, more)) in [
        (40, json!({ "policy": "symmetric" })),
        (40, json!({ "policy": "depthwise", "min_data_in_leaf": 7 })),
        (25, json!({ "policy": "leafwise", "leaves": 30 })),
        (70, json!({ "policy": "symmetric", "min_data_in_leaf": 20, "row_sample": "bernoulli", "row_fraction": 0.6 })),
        (70, json!({ "policy": "depthwise", "feature_fraction": 0.6, "depth": 9 })),
        (300, json!({ "policy": "leafwise", "row_sample": "goss", "leaves": 50 })),
        (40, json!({ "policy": "depthwise", "depth": 8, "min_child_weight": 0 })),
        (70, json!({ "policy": "symmetric", "depth": 8 })),
        (20, json!({ "policy": "depthwise", "loss": "huber", "depth": 3 })),
        (12, json!({ "policy": "symmetric", "loss": "mae" })),
    ]
    .into_iter()
    .enumerate()
    {
        for kind in 0..4 {
            let rows = 20_000;
            let mut dice = Dice::new((7 + 10 * case + kind) as u64);
            let usual = [0.0, f64::NAN, 2.0, 0.0][kind];
            let mut columns: Vec<Vec<f64>> = vec![vec![usual; rows]; 2 * levels];
            let mut y = vec![0.0; rows];
            for row in 0..rows {
                for category in 0..2 {
                    let level = dice.below(levels as u64) as usize;
                    let value =
                        [1.0, 1.0 + dice.below(3) as f64, dice.below(5) as f64, if dice.chance(0.3) { f64::NAN } else { 1.0 }][kind];
                    columns[category * levels + level][row] = value;
                    y[row] += ((level * 37 + category) % 11) as f64 / 5.0 + if value > 1.0 { 0.3 * value } else { 0.0 };
                }
            }
            if kind % 2 == 0 {
                let dense = if case % 2 == 0 { 3 } else { 40 };
                columns.extend((0..dense).map(|_| (0..rows).map(|_| dice.unit()).collect::<Vec<f64>>()));
                columns.insert(5, (0..rows).map(|_| if dice.chance(0.98) { 0.0 } else { dice.normal() }).collect());
            }
            y.iter_mut().enumerate().for_each(|(i, y)| *y += 0.2 * dice.normal() + if kind == 2 { columns[5][i] } else { 0.0 });
            if case == 1 {
                y[77] = 1e8;
            }
            let t = Table::numbers(columns, y);
            let p = params_with(json!({ "rounds": 4, "learning_rate": 0.5 }), more.clone());
            compare(&t, &p, &format!("{levels} levels, kind {kind}: {more}"));
            let model = t.fit(&BoostingParams { bundle: false, ..p.clone() });
            assert!(model.to_bytes() == t.fit(&p).to_bytes(), "without bundles: {levels} levels, kind {kind}: {more}");
        }
    }
}

/// What a sparse feature is made of: its usual value, and one of the others.
fn usual(kind: usize) -> f64 {
    [0.0, 0.0, f64::NAN, 0.0, 2.0][kind]
}

fn other(kind: usize, dice: &mut Dice) -> f64 {
    match kind {
        0 => 1.0,
        1 => dice.normal(),
        2 => dice.below(5) as f64,
        3 => {
            if dice.chance(0.3) {
                f64::NAN
            } else {
                dice.below(40) as f64 - 20.0
            }
        }
        _ => dice.below(5) as f64,
    }
}

/// A table of sparse features of one kind, or of all (`kind` 5), `share` of their values off the usual one, and some dense ones.
fn sparse(rows: usize, features: usize, kind: usize, share: f64, dense: usize, dice: &mut Dice) -> Table {
    let mut columns: Vec<Vec<f64>> = (0..features)
        .map(|f| {
            let kind = if kind == 5 { f % 5 } else { kind };
            (0..rows).map(|_| if dice.chance(share) { other(kind, dice) } else { usual(kind) }).collect()
        })
        .collect();
    columns.extend((0..dense).map(|_| (0..rows).map(|_| dice.unit()).collect::<Vec<f64>>()));
    let value = |c: &[f64], i: usize| if c[i].is_nan() { 0.7 } else { c[i] };
    let y = (0..rows).map(|i| columns.iter().map(|c| value(c, i)).sum::<f64>() + dice.normal()).collect();
    Table::numbers(columns, y)
}

/// Proves equal bytes for sparse features that exclude no others, which are lists: flags, numbers, values that are mostly missing
/// or have missing values among the others, usual values among the others; alone and beside dense features; with rows drawn,
/// counted, of very different derivatives.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn listed_features() {
    gpu();
    for (case, more) in [
        json!({ "policy": "symmetric" }),
        json!({ "policy": "depthwise", "min_data_in_leaf": 7 }),
        json!({ "policy": "leafwise", "leaves": 30 }),
        json!({ "policy": "symmetric", "depth": 8, "min_data_in_leaf": 20, "row_sample": "bernoulli", "row_fraction": 0.6 }),
        json!({ "policy": "depthwise", "feature_fraction": 0.6, "depth": 9, "loss": "mae" }),
        json!({ "policy": "leafwise", "row_sample": "goss", "leaves": 50, "min_child_weight": 0 }),
    ]
    .into_iter()
    .enumerate()
    {
        for kind in 0..6 {
            let mut dice = Dice::new((70 + 10 * case + kind) as u64);
            let dense = [0, 3, 40][(case + kind) % 3];
            let mut t = sparse([8_000, 16_384][case % 2], 110, kind, 0.015, dense, &mut dice);
            let p = params_with(json!({ "rounds": 4, "learning_rate": 0.5 }), more.clone());
            if case == 1 {
                let taiga_testing::Wanted::Numbers(y) = &mut t.target else { unreachable!() };
                y[77] = 1e8;
            }
            t.held_out = (case == 0 && kind == 5).then(|| (0..t.columns[0].len()).map(|i| i % 7 == 3).collect());
            compare(&t, &p, &format!("kind {kind}, {dense} dense features: {more}"));
            let model = t.fit(&BoostingParams { bundle: false, ..p.clone() });
            assert!(model.to_bytes() == t.fit(&p).to_bytes(), "without lists: kind {kind}: {more}");
        }
    }
}

/// Proves equal bytes where the rows that are looked at first mislead: a feature with nothing among them that is dense elsewhere,
/// features with no other value at all, and all of a feature's other values in a few rows next to one another.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn misleading_features() {
    gpu();
    let rows = 40_000;
    for policy in ["symmetric", "depthwise", "leafwise"] {
        let mut dice = Dice::new(5);
        let mut t = sparse(rows, 90, 5, 0.02, 1, &mut dice);
        for f in 0..20 {
            let column = &mut t.columns[4 * f];
            column.fill(0.0);
            // Runs of 256 rows are looked at: the first, the last, and two between.
            let (from, to) = [(300, 13_000), (400, 401), (300, 300), (0, rows)][f % 4];
            column[from..to].iter_mut().for_each(|x| *x = dice.below(7) as f64);
        }
        compare(&t, &params(json!({ "rounds": 4, "policy": policy })), policy);
    }
}

/// Proves equal bytes for few rows, where nothing is listed, and as many as it takes.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn few_rows_of_sparse_features() {
    gpu();
    for rows in [2, 40, 1023, 1024, 1025] {
        let mut dice = Dice::new(rows as u64);
        let t = sparse(rows, 70, 5, 0.02, 0, &mut dice);
        for policy in ["symmetric", "depthwise", "leafwise"] {
            compare(&t, &params(json!({ "rounds": 3, "policy": policy })), &format!("{rows} rows, {policy}"));
        }
    }
}

/// Proves equal bytes for tables of many dense features, of a few codes, of some and of 255, with and without missing values, where
/// a feature is searched by a few lanes.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn many_features() {
    gpu();
    for (case, more) in [
        json!({ "policy": "symmetric" }),
        json!({ "policy": "depthwise", "depth": 8 }),
        json!({ "policy": "leafwise", "leaves": 60, "min_data_in_leaf": 5 }),
        json!({ "policy": "depthwise", "min_data_in_leaf": 3, "feature_fraction": 0.7 }),
        json!({ "policy": "symmetric", "depth": 8, "min_child_weight": 0, "l1": 0.5 }),
    ]
    .into_iter()
    .enumerate()
    {
        for (codes, missing) in [(2, 0.0), (3, 0.2), (20, 0.1), (90, 0.0), (100_000, 0.3), (100_000, 0.0)] {
            let mut dice = Dice::new(case as u64);
            let (rows, features) = (6_000, 330);
            let value = |dice: &mut Dice| if dice.chance(missing) { f64::NAN } else { dice.below(codes) as f64 / codes as f64 };
            let columns: Vec<Vec<f64>> = (0..features).map(|_| (0..rows).map(|_| value(&mut dice)).collect()).collect();
            let of = |c: &[f64], i: usize| if c[i].is_nan() { 0.4 } else { c[i] };
            let y = (0..rows).map(|i| columns.iter().take(9).map(|c| of(c, i)).sum::<f64>() + 0.3 * dice.normal()).collect();
            let t = Table::numbers(columns, y);
            let p = params_with(json!({ "rounds": 3, "learning_rate": 0.5, "bundle": false }), more.clone());
            compare(&t, &p, &format!("{codes} values, {missing} missing: {more}"));
        }
    }
}

/// Runs every kernel of lists and of searches by lanes on few rows, for compute-sanitizer.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn every_kernel_once() {
    gpu();
    let mut dice = Dice::new(9);
    for (kind, policy) in [(1, "symmetric"), (5, "depthwise"), (1, "leafwise")] {
        let t = sparse(2000, 60, kind, 0.02, 1, &mut dice);
        compare(&t, &params(json!({ "rounds": 2, "depth": 3, "policy": policy })), policy);
    }
    let levels: Vec<u64> = (0..2000).map(|_| dice.below(50)).collect();
    let flags: Vec<Vec<f64>> = (0..50).map(|level| levels.iter().map(|own| (*own == level) as u64 as f64).collect()).collect();
    let exclusive = Table::numbers(flags, levels.iter().map(|level| (level * 37 % 11) as f64 + dice.normal()).collect());
    for policy in ["symmetric", "depthwise", "leafwise"] {
        compare(&exclusive, &params(json!({ "rounds": 3, "depth": 3, "policy": policy })), &format!("shared columns, {policy}"));
    }
    let mut t = sparse(2000, 60, 5, 0.02, 1, &mut dice);
    let taiga_testing::Wanted::Numbers(y) = &mut t.target else { unreachable!() };
    y[77] = 1e9;
    t.weight = Some((0..2000).map(|i| 1.0 + (i % 3) as f64).collect());
    compare(&t, &params(json!({ "rounds": 2, "depth": 3, "policy": "depthwise", "min_data_in_leaf": 3 })), "wide");
    for codes in [2, 20, 1000] {
        let columns: Vec<Vec<f64>> = (0..300).map(|_| (0..1500).map(|_| dice.below(codes) as f64).collect()).collect();
        let y = (0..1500).map(|i| columns[0][i] + columns[7][i] + dice.normal()).collect();
        let t = Table::numbers(columns, y);
        for policy in ["symmetric", "depthwise", "leafwise"] {
            let p = params(json!({ "rounds": 1, "depth": 4, "policy": policy, "bundle": false }));
            compare(&t, &p, &format!("{codes} codes, {policy}"));
        }
    }
}
