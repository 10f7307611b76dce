//! The same rows in the same order give the same model, byte for byte: whatever the threads, the
//! chunks, the columns' types and the memory layout.

use serde_json::json;
use taiga_engine::column::{Bits, Chunk, Column, FeatureType, Values};
use taiga_engine::dataset::{Input, Quiet, Target};
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::{BoostingParams, fit};
use taiga_testing::contract::{self, table};
use taiga_testing::random_fits::{self, RandomFit};
use taiga_testing::{Dice, Table, Wanted, params, params_with};

fn with_threads(p: &BoostingParams, n: u32) -> BoostingParams {
    BoostingParams { n_threads: Some(n), ..p.clone() }
}

fn assert_same(a: &Model, b: &Model, what: &str) {
    assert!(a == b, "{what}: the models differ");
    assert!(a.to_bytes() == b.to_bytes(), "{what}: the models' bytes differ");
}

/// Proves that neither threads nor a second run change a model: every policy, loss and way to
/// draw rows, with feature fractions, weights, constraints, held-out rows and early stopping dealt
/// out over the combinations. 40,000 × 6 values keep seven threads busy.
#[test]
fn threads_change_nothing_under_any_policy_loss_and_sample() {
    contract::combinations(40_000, |t, p, case| {
        let one = t.fit(&with_threads(&p, 1));
        let many = [2, 3, 4, 7][case as usize % 4];
        assert_same(&one, &t.fit(&with_threads(&p, many)), &format!("{many} threads, {p:?}"));
        assert!(one.trees.iter().any(|t| t.leaves().len() > 1), "{p:?}");
    });
}

/// Proves the same for 1, 2, 3, 4 and 7 threads on longer fits, and over the edges of the layout:
/// one border and 255, one block of features and several, several segments of rows a thread, which are folded in builds with assertions.
#[test]
fn threads_change_nothing_at_the_edges_of_the_layout() {
    for (rows, features, more) in [
        (40_000, 6, json!({ "rounds": 20 })),
        (40_000, 6, json!({ "rounds": 8, "bins": 2, "policy": "depthwise" })),
        (12_000, 29, json!({ "rounds": 4, "policy": "leafwise", "min_data_in_leaf": 9 })),
        (12_000, 61, json!({ "rounds": 4, "policy": "depthwise", "row_sample": "mvs" })),
        (12_000, 125, json!({ "rounds": 3 })),
        (40_000, 70, json!({ "rounds": 3, "policy": "leafwise" })),
        (300_000, 3, json!({ "rounds": 3, "policy": "depthwise", "l1": 0.5 })),
        (300_000, 3, json!({ "rounds": 2, "min_data_in_leaf": 50 })),
        (200_000, 3, json!({ "rounds": 2, "policy": "leafwise", "leaves": 9, "min_data_in_leaf": 50 })),
    ] {
        let t = table(rows, features, "rmse", 3);
        let p = params_with(json!({}), more);
        let one = t.fit(&with_threads(&p, 1));
        for n in [1, 2, 3, 4, 7] {
            assert_same(&one, &t.fit(&with_threads(&p, n)), &format!("{rows} x {features}, {n} threads"));
        }
    }
}

/// Proves that leaves divided together, ahead of their turn, give the trees of one at a time, which a draw of (all) features
/// by node asks for: on one thread and several, with few leaves and many, limited depth, rows drawn, held out and so few
/// that they are searched one by one.
#[test]
fn leaves_divided_ahead_of_their_turn_change_nothing() {
    for (rows, features, more) in [
        (40_000, 6, json!({ "leaves": 64 })),
        (40_000, 6, json!({ "leaves": 7, "depth": 4, "row_sample": "goss" })),
        (6_000, 20, json!({ "leaves": 200, "min_child_weight": 0.0, "loss": "mae" })),
        (3_000, 40, json!({ "leaves": 31, "depth": 5, "row_sample": "bernoulli", "row_fraction": 0.6 })),
        (400, 8, json!({ "leaves": 100 })),
    ] {
        for held_out in [false, true] {
            let mut t = table(rows, features, "rmse", 12);
            t.held_out = held_out.then(|| (0..rows).map(|i| i % 4 == 1).collect());
            let p = params_with(json!({ "rounds": 6, "policy": "leafwise" }), more.clone());
            for n in [1, 2, 3] {
                let ahead = t.fit(&with_threads(&p, n));
                let single = t.fit(&BoostingParams { feature_fraction_node: 1.0 - 1e-9, ..with_threads(&p, n) });
                assert!(ahead.trees == single.trees, "{rows} x {features}, {n} threads: {more}");
                assert!(ahead.trees.iter().any(|t| t.leaves().len() > 3));
            }
        }
    }
}

/// Proves the same with all 255 borders, where missing values take one away, and with continuous
/// values, whose borders come from a sample.
#[test]
fn threads_change_nothing_with_255_borders() {
    contract::many_borders(|t, p, missing| {
        let one = t.fit(&with_threads(p, 1));
        for n in [2, 5, 7] {
            assert_same(&one, &t.fit(&with_threads(p, n)), &format!("{n} threads, missing {missing}"));
        }
    });
}

/// Proves the same where statistics are wide: a target with an outlier, under constant hessians,
/// weights and counts; in one segment of a histogram and several.
#[test]
fn threads_change_nothing_with_wide_statistics() {
    for (rows, weighted, min_data) in
        [(40_000, false, 0), (40_000, true, 0), (40_000, false, 20), (40_000, true, 20), (160_000, false, 0), (160_000, true, 20)]
    {
        let mut t = table(rows, 6, "rmse", 5);
        let Wanted::Numbers(y) = &mut t.target else { unreachable!() };
        y[12_345] = 1e9;
        let mut dice = Dice::new(6);
        t.weight = weighted.then(|| (0..rows).map(|i| if i == 999 { 1e6 } else { dice.unit() }).collect());
        let p = params(
            json!({ "rounds": if rows > 100_000 { 2 } else { 6 }, "policy": "leafwise", "min_data_in_leaf": min_data, "learning_rate": 0.8 }),
        );
        let one = t.fit(&with_threads(&p, 1));
        for n in [2, 3, 7] {
            assert_same(&one, &t.fit(&with_threads(&p, n)), &format!("{n} threads"));
        }
    }
}

/// Proves that neither threads nor chunks change fits drawn at random, or the errors of those that can't be; `TAIGA_RANDOM_FITS` says
/// how many.
#[test]
fn threads_and_chunks_change_no_random_fit() {
    let cases = random_fits::cases(80);
    let mut fitted = 0;
    for case in 0..cases {
        let mut drawn = RandomFit::new(case);
        if case % 5 == 2 {
            drawn.params = drawn.with_dropouts(case);
        } else if case % 5 == 4 {
            drawn.params = drawn.in_order();
        }
        let (whole, lengths) = (drawn.input(Column::from_f64), [1, 7, 1000, 1023, 4099]);
        let one = drawn.fit(&whole, &with_threads(&drawn.params, 1));
        let many = [2, 3, 4, 7][case as usize % 4];
        let length = lengths[case as usize % 5].max(drawn.table.rows() / 3000);
        let in_chunks = drawn.input(|name, values| chunked(values, name, length));
        let other = drawn.fit(&in_chunks, &with_threads(&drawn.params, many));
        assert!(one == other, "case {case}, {many} threads, chunks of {length}: {:?} {:?}; {:?}", one.err(), other.err(), drawn.params);
        fitted += u64::from(one.is_ok());
    }
    println!("{fitted} of {cases} fits gave models");
    assert!(10 * fitted >= 7 * cases, "{fitted} of {cases} fits gave models");
}

/// Columns of one table in other clothes: `chunks(feature)` gives the chunk lengths.
fn chunked<'a>(values: &'a [f64], name: String, length: usize) -> Column<'a> {
    let chunks = values.chunks(length).map(|c| Chunk::new(Values::F64(c), None)).collect();
    Column::new(name, FeatureType::Numeric, chunks)
}

fn fit_columns(t: &Table, features: Vec<Column<'_>>, p: &BoostingParams) -> Model {
    fit(&Input { features, ..t.input() }, p, &Quiet).unwrap()
}

/// Proves that chunks change nothing, be they 1, 7 or 1,000, or cut otherwise in each column, in
/// target and weight too.
#[test]
fn chunks_change_nothing() {
    let mut t = table(20_000, 6, "rmse", 7);
    t.weight = Some((0..20_000).map(|i| 1.0 + (i % 7) as f64).collect());
    let p = params(json!({ "rounds": 5, "n_threads": 3, "depth": 5 }));
    let whole = t.fit(&p);
    let y = t.y();
    for lengths in [[20_000; 6], [2_858; 6], [20; 6], [1, 7, 1000, 1023, 1025, 19_999]] {
        let column = |f: usize| chunked(&t.columns[f], format!("x{f}"), lengths[f]);
        let mut input = t.input();
        input.features = (0..6).map(column).collect();
        input.target = Target::Numbers(chunked(&y, "y".into(), lengths[5]));
        input.weight = Some(chunked(t.weight.as_ref().unwrap(), "w".into(), lengths[2]));
        assert_same(&whole, &fit(&input, &p, &Quiet).unwrap(), &format!("{lengths:?}"));
    }
}

/// Proves that equal values give equal bytes whatever their type, and that nulls (behind bitmaps
/// that start at any bit) are the NaN of floats.
#[test]
fn types_nulls_and_offsets_change_nothing() {
    let t = table(20_000, 6, "logloss", 8);
    let p = params(json!({ "rounds": 5, "n_threads": 3, "policy": "depthwise" }));
    let whole = t.fit(&p);

    let single: Vec<Vec<f32>> = t.columns.iter().map(|c| c.iter().map(|x| *x as f32).collect()).collect();
    let columns = single.iter().enumerate().map(|(i, c)| Column::from_f32(format!("x{i}"), c)).collect();
    assert_same(&whole, &fit_columns(&t, columns, &p), "f32");

    // Integers, with rubbish under the nulls, sliced out of longer arrays at offset 3.
    let offset = 3usize;
    let padded = |f: usize| [f64::NAN; 3].into_iter().chain(t.columns[f].iter().copied());
    let validity: Vec<Vec<u8>> = (0..6)
        .map(|f| {
            let mut bytes = vec![0u8; (20_000 + offset).div_ceil(8)];
            padded(f).enumerate().filter(|(_, x)| !x.is_nan()).for_each(|(i, _)| bytes[i / 8] |= 1 << (i % 8));
            bytes
        })
        .collect();
    let rubbish = |x: f64, i: usize| if x.is_nan() { (i % 90) as f64 } else { x };
    macro_rules! integers {
        ($t:ty, $f:expr) => {
            padded($f).enumerate().map(|(i, x)| rubbish(x, i) as $t).collect::<Vec<$t>>()
        };
    }
    let (a, b, c, d) = (integers!(i8, 0), integers!(i16, 1), integers!(i32, 2), integers!(i64, 3));
    let e: Vec<i128> = padded(4).enumerate().map(|(i, x)| rubbish(x, i) as i128 * 1000).collect();
    let g = integers!(f32, 5);
    let arrays = [
        Values::I8(&a[3..]),
        Values::I16(&b[3..]),
        Values::I32(&c[3..]),
        Values::I64(&d[3..]),
        Values::Decimal(&e[3..], 3),
        Values::F32(&g[3..]),
    ];
    let columns = (0..6)
        .map(|f| {
            let chunk = Chunk::new(arrays[f], Some(Bits::new(&validity[f], offset, 20_000)));
            Column::new(format!("x{f}"), FeatureType::Numeric, vec![chunk])
        })
        .collect();
    assert_same(&whole, &fit_columns(&t, columns, &p), "integers with nulls");
}

/// Proves the same for Boolean features and targets of every numeric type.
#[test]
fn booleans_and_targets_of_any_type_change_nothing() {
    let mut t = table(20_000, 3, "rmse", 9);
    let rows = t.rows();
    t.columns[0].iter_mut().for_each(|x| *x = (*x > 3.0) as u8 as f64);
    let Wanted::Numbers(y) = &mut t.target else { unreachable!() };
    y.iter_mut().for_each(|y| *y = (*y * 20.0).round());
    let p = params(json!({ "rounds": 5, "n_threads": 2 }));
    let whole = t.fit(&p);
    let mut bits = vec![0u8; (rows + 13).div_ceil(8)];
    (0..rows).filter(|i| t.columns[0][*i] == 1.0).for_each(|i| bits[(i + 13) / 8] |= 1 << ((i + 13) % 8));
    let y: Vec<i32> = t.y().iter().map(|y| *y as i32).collect();
    let y32: Vec<f32> = t.y().iter().map(|y| *y as f32).collect();
    for target in [Values::I32(&y), Values::F32(&y32)] {
        let mut input = t.input();
        input.features[0] = Column::new("x0", FeatureType::Numeric, vec![Chunk::new(Values::Bool(Bits::new(&bits, 13, rows)), None)]);
        input.target = Target::Numbers(Column::new("y", FeatureType::Numeric, vec![Chunk::new(target, None)]));
        assert_same(&whole, &fit(&input, &p, &Quiet).unwrap(), "Boolean");
    }
}

/// Proves that f32 values that are no whole numbers give the bytes of the same values in f64, and
/// that a model fitted on one predicts the same from the other.
#[test]
fn f32_and_the_same_values_in_f64_give_equal_models() {
    let mut dice = Dice::new(10);
    let single: Vec<Vec<f32>> = (0..4).map(|_| (0..30_000).map(|_| dice.normal() as f32).collect()).collect();
    let double: Vec<Vec<f64>> = single.iter().map(|c| c.iter().map(|x| *x as f64).collect()).collect();
    let y = (0..30_000).map(|i| double[0][i] * double[1][i] + dice.normal()).collect();
    let t = Table::numbers(double, y);
    for method in ["quantile", "uniform", "greedy_logsum", "min_max_entropy"] {
        let p = params(json!({ "rounds": 5, "n_threads": 2, "border_method": method, "border_sample": 3000 }));
        let features = || single.iter().enumerate().map(|(i, c)| Column::from_f32(format!("x{i}"), c)).collect::<Vec<_>>();
        let model = fit_columns(&t, features(), &p);
        assert_same(&t.fit(&p), &model, method);
        let columns = features();
        let predictor = taiga_engine::learners::boosting::model::apply::Predictor::new(model.clone());
        assert_eq!(predictor.raw(&predictor.bind(&columns).unwrap()), taiga_testing::raw(&model, &t));
    }
}

/// Proves that the scores of training are those of predict: each round's metric in the history is
/// that of the kept trees' prediction, to f32.
#[test]
fn the_history_is_that_of_predictions() {
    for policy in ["symmetric", "depthwise", "leafwise"] {
        let mut t = table(20_000, 6, "rmse", 11);
        t.held_out = Some((0..20_000).map(|i| i % 5 == 0).collect());
        let p = params(json!({ "rounds": 12, "policy": policy, "n_threads": 2, "row_sample": "bernoulli", "row_fraction": 0.5 }));
        let model = t.fit(&p);
        let history = model.history.clone().unwrap();
        let held_out = t.filter(|i| i % 5 == 0);
        for rounds in 1..=12 {
            let short = Model { trees: model.trees[..rounds].to_vec(), ..model.clone() };
            let own = taiga_testing::rmse(&taiga_testing::raw(&short, &held_out)[0], &held_out.y());
            let noted = history.values[rounds - 1];
            assert!((own - noted).abs() < 1e-5 * noted, "{policy} {rounds}: {own} {noted}");
        }
    }
}

/// Proves that large tables, whose codes are not kept a second time by feature (beyond 80 MiB),
/// give the trees of tables just below that size: one more column, the copy of another, never wins
/// a tie, and takes the table over the limit. In one block of features, and in several; with levels
/// divided in one pass, rows listed after that (deep trees, leaf by leaf, quantiles of leaves), and
/// rows drawn.
#[test]
fn tables_beyond_the_memory_for_columns_give_the_same_trees() {
    let limit = 80 << 20;
    let cases = [
        (27, "depthwise", "none", "rmse", 3),
        (55, "symmetric", "bernoulli", "rmse", 3),
        (55, "symmetric", "none", "mae", 4),
        (55, "depthwise", "none", "rmse", 7),
        (55, "leafwise", "none", "rmse", 4),
    ];
    for (few, policy, sample, loss, depth) in cases {
        let rows = limit / (few + 1) + 5_000;
        assert!(rows * few < limit && rows * (few + 1) > limit);
        let mut dice = Dice::new(12);
        // Columns are windows of one vector, so that the test needs little memory.
        let noise: Vec<f32> = (0..rows + few).map(|_| dice.below(200) as f32).collect();
        let y: Vec<f32> = (0..rows).map(|i| noise[i] * noise[i + 3] / 4e3 + noise[i + 5] / 40.0).collect();
        let fit_with = |features: usize, threads: u32| {
            let column = |f: usize| Column::from_f32(format!("x{f}"), &noise[f % few..f % few + rows]);
            let input = Input {
                features: (0..features).map(column).collect(),
                target: Target::Numbers(Column::from_f32("y", &y)),
                target_name: "y".into(),
                weight: None,
                baseline: vec![],
                held_out: None,
                loss_columns: Default::default(),
                evaluation: Default::default(),
                order: None,
            };
            let p = json!({
                "rounds": 2, "depth": depth, "policy": policy, "loss": loss, "row_sample": sample, "n_threads": threads, "border_sample": 5000
            });
            fit(&input, &params(p), &Quiet).unwrap()
        };
        let (below, above) = (fit_with(few, 2), fit_with(few + 1, 2));
        assert!(below.trees == above.trees && below.start == above.start, "{few} features, {policy}, {loss}");
        if few < 28 {
            assert_same(&above, &fit_with(few + 1, 1), "1 and 2 threads");
        }
    }
}
