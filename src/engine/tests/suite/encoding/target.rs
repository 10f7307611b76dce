//! Target encoding is what a naive twin says, row by row, for every kind, on any number of threads.

use proptest::prelude::*;
use taiga_engine::column::categories::UncodedCategories;
use taiga_engine::column::{Bits, Chunk, Column, FeatureType, Values};
use taiga_engine::device::columns::with_columns;
use taiga_engine::encoding::permutation::{RandomFolds, permutation};
use taiga_engine::encoding::target::{
    Auto, EncodingInput, EncodingKind, EncodingPlan, EncodingTarget, Order, PriorWeight, TargetParams, UncodedInput, category_values,
    target_encode,
};
use taiga_engine::numerics::random::{Purpose, Random};
use taiga_testing::rows::TextRows;

fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

/// (Σ w·y + prior·weight) / (Σ w + weight) over `rows`, or scikit-learn's empirical Bayes.
fn naive_value(rows: &[usize], y: &[f64], w: &[f64], all: &[usize], params: &TargetParams) -> f64 {
    let sum = |rows: &[usize], f: &dyn Fn(usize) -> f64| rows.iter().map(|i| w[*i] * f(*i)).sum::<f64>();
    let mean = |rows: &[usize]| sum(rows, &|i| y[i]) / sum(rows, &|_| 1.0);
    let variance = |rows: &[usize]| {
        let m = mean(rows);
        sum(rows, &|i| (y[i] - m) * (y[i] - m)) / sum(rows, &|_| 1.0)
    };
    let prior = params.prior.unwrap_or_else(|| mean(all));
    let n = sum(rows, &|_| 1.0);
    match params.prior_weight {
        PriorWeight::Fixed(a) if n + a > 0.0 => (sum(rows, &|i| y[i]) + prior * a) / (n + a),
        PriorWeight::Named(Auto::Auto) if n > 0.0 => {
            let (between, within) = (variance(all) * n, variance(rows));
            if between + within <= 1e-14 * y.iter().fold(0.0, |m: f64, v| m.max(v * v)) {
                return prior;
            }
            let lambda = between / (between + within);
            lambda * mean(rows) + (1.0 - lambda) * prior
        }
        _ => prior,
    }
}

/// Which rows count for `row`, of those of its category; and over which the prior is the mean.
fn naive(codes: &[u32], y: &[f64], w: &[f64], plan: &EncodingPlan, params: &TargetParams) -> Vec<f64> {
    let n = codes.len();
    let all: Vec<usize> = (0..n).collect();
    let same = |row: usize, counts: &dyn Fn(usize) -> bool| (0..n).filter(|i| codes[*i] == codes[row] && counts(*i)).collect::<Vec<_>>();
    let folds = plan.folds(n).unwrap();
    let value = |row: usize| match (params.kind, plan) {
        (EncodingKind::Full, _) => naive_value(&same(row, &|_| true), y, w, &all, params),
        (EncodingKind::Loo, _) => naive_value(&same(row, &|i| i != row), y, w, &all, params),
        (EncodingKind::Kfold, _) => {
            let fold = &folds.as_ref().unwrap().0;
            let others: Vec<usize> = (0..n).filter(|i| fold[*i] != fold[row]).collect();
            naive_value(&same(row, &|i| fold[i] != fold[row]), y, w, &others, params)
        }
        (EncodingKind::Ordered, EncodingPlan::Ordered(orders)) => {
            let one = |order: &Order| {
                let order = match order {
                    Order::Rows => (0..n as u32).collect(),
                    Order::Random(random) => permutation(n, *random),
                    Order::Given(order) => order.clone(),
                };
                let place = |row: usize| order.iter().position(|r| *r as usize == row).unwrap();
                let here = place(row);
                naive_value(&same(row, &|i| place(i) < here), y, w, &all, params)
            };
            orders.iter().map(one).sum::<f64>() / orders.len() as f64
        }
        _ => unreachable!(),
    };
    (0..n).map(value).collect()
}

#[derive(Debug, Clone)]
struct Case {
    codes: Vec<u32>,
    categories: usize,
    y: Vec<f64>,
    weight: Option<Vec<f64>>,
    params: TargetParams,
}

fn cases() -> impl Strategy<Value = Case> {
    let kind = prop::sample::select(vec![EncodingKind::Ordered, EncodingKind::Kfold, EncodingKind::Loo, EncodingKind::Full]);
    let prior_weight = prop_oneof![Just(PriorWeight::Named(Auto::Auto)), (0u8..4).prop_map(|a| PriorWeight::Fixed(a as f64 / 2.0))];
    (2usize..40, 1u32..8, 0u8..4, any::<bool>(), kind, prior_weight, prop::option::of(-2.0f64..2.0), 1u32..4, any::<u64>()).prop_map(
        |(rows, categories, target, weighted, kind, prior_weight, prior, permutations, seed)| {
            let r = Random::new(seed, Purpose::RowSample, 0);
            let unit = |i: usize, k: u64| r.unit(i as u64 * 8 + k);
            let y = |i: usize| match target {
                0 => (unit(i, 0) > 0.6) as u8 as f64,
                1 => (unit(i, 0) * 9.0).floor() - 4.0,
                2 => unit(i, 0) * 1e6 - 3e5,
                _ => 1.0 / (0.001 + unit(i, 0)),
            };
            let folds = 2 + (seed % 3) as u32;
            let params = TargetParams { kind, prior, prior_weight, permutations, folds: folds.min(rows as u32), seed };
            Case {
                codes: (0..rows).map(|i| (unit(i, 1) * unit(i, 3) * categories as f64) as u32).collect(),
                categories: categories as usize,
                y: (0..rows).map(y).collect(),
                weight: weighted.then(|| (0..rows).map(|i| 0.5 + (unit(i, 2) * 4.0).floor()).collect()),
                params,
            }
        },
    )
}

fn input<'a>(case: &'a Case, target: EncodingTarget<'a>) -> EncodingInput<'a> {
    EncodingInput { codes: &case.codes, categories: case.categories, target, weight: case.weight.as_deref() }
}

fn close(a: &[f64], b: &[f64], scale: f64) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-9 * scale)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn values_are_those_of_the_naive_twin(case in cases()) {
        let rows = case.codes.len();
        let plan = EncodingPlan::random(rows, &case.params).unwrap();
        let got = target_encode(&input(&case, EncodingTarget::Numbers(&case.y)), &plan, &case.params).unwrap();
        let w = case.weight.clone().unwrap_or(vec![1.0; rows]);
        let want = naive(&case.codes, &case.y, &w, &plan, &case.params);
        let scale = case.y.iter().fold(1.0, |m: f64, v| m.max(v.abs()));
        prop_assert!(close(&got[0], &want, scale), "{:?}\n{:?}", got[0], want);

        // Classes are one against the rest, each as if it were alone.
        let classes: Vec<u32> = case.y.iter().map(|y| (y.to_bits() % 3) as u32).collect();
        let got = target_encode(&input(&case, EncodingTarget::Classes(&classes, 3)), &plan, &case.params).unwrap();
        for (class, got) in got.iter().enumerate() {
            let flags: Vec<u8> = classes.iter().map(|c| (*c as usize == class) as u8).collect();
            let alone = target_encode(&input(&case, EncodingTarget::Flags(&flags)), &plan, &case.params).unwrap();
            prop_assert_eq!(got, &alone[0]);
            let y: Vec<f64> = flags.iter().map(|f| *f as f64).collect();
            prop_assert!(close(got, &naive(&case.codes, &y, &w, &plan, &case.params), 1.0));
        }
    }

    #[test]
    fn category_values_are_those_of_full(case in cases()) {
        let params = TargetParams { kind: EncodingKind::Full, ..case.params.clone() };
        let input = input(&case, EncodingTarget::Numbers(&case.y));
        let (values, priors) = category_values(&input, &params).unwrap();
        let rows = target_encode(&input, &EncodingPlan::Plain, &params).unwrap();
        for (row, code) in case.codes.iter().enumerate() {
            prop_assert_eq!(values[*code as usize].to_bits(), rows[0][row].to_bits());
        }
        let seen = |code: u32| case.codes.contains(&code);
        prop_assert!((0..case.categories as u32).filter(|c| !seen(*c)).all(|c| values[c as usize] == priors[0]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// The folds of rows are consecutive parts of the order that their hashes stand for.
    #[test]
    fn random_folds_are_parts_of_the_random_order(
        rows in prop_oneof![Just(0usize), 1usize..40, 1000usize..5000, Just(300_001)], share in 0.0..1.0f64, few in 1usize..8, seed in 0u64..1000,
    ) {
        let random = Random::new(seed, Purpose::Folds, 0);
        for folds in [few.min(rows.max(1)), ((rows as f64 * share) as usize).max(1)] {
            let found = on_threads(1 + seed as usize % 4, || RandomFolds::new(rows, random, folds));
            let order = permutation(rows, random);
            let mut want = vec![0; rows];
            order.iter().enumerate().for_each(|(place, row)| want[*row as usize] = (place * folds / rows) as u32);
            prop_assert!(found.of_rows().unwrap() == want, "{rows} rows, {folds} folds");
            prop_assert_eq!(found.count(), folds);
        }
    }

    /// A column of integers is encoded as its codes are, whatever their type, chunks and nulls.
    #[test]
    fn integers_are_encoded_as_their_codes(case in cases(), cuts in prop::collection::vec(0.0..1.0f64, 0..3), null in 0u32..12, wide in any::<bool>()) {
        let rows = case.codes.len();
        let own = |code: u32| (code as i64 - 3) * if wide { 922_337_203_685_477 } else { 1 };
        let values: Vec<i64> = case.codes.iter().map(|code| own(*code)).collect();
        let valid: Vec<u8> = (0..rows.div_ceil(8)).map(|byte| {
            (0..8).filter(|bit| case.codes.get(byte * 8 + bit).is_some_and(|code| *code != null)).map(|bit| 1 << bit).sum()
        }).collect();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| (cut * rows as f64) as usize).chain([0, rows]).collect();
        ends.sort_unstable();
        let chunks = ends.windows(2).map(|w| {
            Chunk::new(Values::I64(&values[w[0]..w[1]]), Some(Bits::new(&valid, w[0], w[1] - w[0])))
        });
        let column = Column::new("x", FeatureType::Numeric, chunks.collect());
        let plan = EncodingPlan::random(rows, &case.params).unwrap();
        let target = EncodingTarget::Numbers(&case.y);
        let got = with_columns("cpu", |steps| steps.target_encode_uncoded(&UncodedInput { categories: UncodedCategories::Integers(column.clone()), target, weight: case.weight.as_deref() }, &plan, &case.params));
        let want = target_encode(&input(&case, target), &plan, &case.params).unwrap();
        prop_assert_eq!(got.unwrap(), want.clone());
        // Texts likewise; null is not the empty one.
        let texts: Vec<Option<String>> = case.codes.iter().map(|code| (*code != null).then(|| "\u{e4}".repeat(*code as usize))).collect();
        let texts = &TextRows(texts);
        let got = with_columns("cpu", |steps| {
            steps.target_encode_uncoded(&UncodedInput { categories: UncodedCategories::Texts(&texts), target, weight: case.weight.as_deref() }, &plan, &case.params)
        });
        prop_assert_eq!(got.unwrap(), want);
    }
}

/// A large table: by tables and over sorted rows, on any number of threads, the same bits.
#[test]
fn threads_and_ways_leave_no_trace() {
    let n = 150_000;
    let r = Random::new(3, Purpose::RowSample, 0);
    let y: Vec<f64> = (0..n).map(|i| (r.unit(i) - 0.3) * if r.u64(i).is_multiple_of(1000) { 1e9 } else { 1.0 }).collect();
    let flags: Vec<u8> = y.iter().map(|y| (*y > 0.0) as u8).collect();
    let weight: Vec<f64> = (0..n).map(|i| (r.u64(i + n) % 5) as f64 / 3.0).collect();
    for categories in [1usize, 10, 3_000, 140_000] {
        let codes: Vec<u32> = (0..n).map(|i| (r.unit(i + 2 * n).powi(2) * categories as f64) as u32).collect();
        for kind in [EncodingKind::Ordered, EncodingKind::Kfold, EncodingKind::Loo, EncodingKind::Full] {
            for (target, weight, auto) in [
                (EncodingTarget::Flags(&flags), None, false),
                (EncodingTarget::Numbers(&y), None, false),
                (EncodingTarget::Numbers(&y), Some(&weight[..]), true),
            ] {
                let prior_weight = if auto { PriorWeight::Named(Auto::Auto) } else { PriorWeight::Fixed(0.7) };
                // Few folds and many, for tables, for buckets and for sorted rows.
                let folds = if [10, 3_000].contains(&categories) { 20_000 } else { 7 };
                let params = TargetParams { kind, prior_weight, folds, ..Default::default() };
                let input = EncodingInput { codes: &codes, categories, target, weight };
                let values = |threads| {
                    on_threads(threads, || target_encode(&input, &EncodingPlan::random(n as usize, &params).unwrap(), &params).unwrap())
                };
                let one = values(1);
                if kind == EncodingKind::Ordered {
                    // A given order is the random one where it is that, and as they come is as they come.
                    let given = |order| on_threads(3, || target_encode(&input, &EncodingPlan::Ordered(vec![order]), &params).unwrap());
                    let order = permutation(n as usize, Random::new(0, Purpose::Permutation, 0));
                    assert!(given(Order::Given(order)) == one, "{categories} given");
                    assert!(given(Order::Given((0..n as u32).collect())) == given(Order::Rows), "{categories} rows");
                }
                for threads in [2, 5, 40] {
                    assert!(values(threads) == one, "{kind:?} {categories} {threads} threads");
                }
            }
        }
    }
}

/// CatBoost's own example: the label of each row against those before it.
#[test]
fn ordered_values_of_catboost() {
    let input = EncodingInput { codes: &[0; 4], categories: 1, target: EncodingTarget::Flags(&[0, 1, 1, 0]), weight: None };
    let params = TargetParams { prior: Some(0.05), ..Default::default() };
    let values = target_encode(&input, &EncodingPlan::Ordered(vec![Order::Rows]), &params).unwrap();
    for (value, want) in values[0].iter().zip([0.05, 0.025, 0.35, 0.5125]) {
        assert!((value - want).abs() < 1e-15);
    }
}

#[test]
fn random_folds_are_even_and_orders_differ() {
    let params = TargetParams { kind: EncodingKind::Kfold, folds: 7, ..Default::default() };
    let plan = EncodingPlan::random(100, &params).unwrap();
    let (folds, count) = plan.folds(100).unwrap().unwrap();
    assert_eq!(count, 7);
    for fold in 0..7 {
        assert!((14..=15).contains(&folds.iter().filter(|f| **f == fold).count()));
    }
    let params = TargetParams { permutations: 2, seed: 9, ..Default::default() };
    let EncodingPlan::Ordered(orders) = EncodingPlan::random(100, &params).unwrap() else { panic!() };
    let order = |o: &Order| match o {
        Order::Random(random) => permutation(100, *random),
        other => panic!("{other:?}"),
    };
    assert_ne!(order(&orders[0]), order(&orders[1]));
    assert_eq!(order(&orders[1]), permutation(100, Random::new(9, Purpose::Permutation, 1)));
}

#[test]
fn extremes_are_finite() {
    let y = [f64::MAX, f64::MAX, -f64::MAX, f64::MAX, 5e-324, 0.0];
    for prior_weight in [PriorWeight::Fixed(1.0), PriorWeight::Named(Auto::Auto)] {
        for kind in [EncodingKind::Ordered, EncodingKind::Loo, EncodingKind::Full] {
            for weight in [None, Some(&[1e300, 1e-300, 1.0, 5e-324, f64::MAX, 0.0][..])] {
                let params = TargetParams { kind, prior_weight, ..Default::default() };
                let input = EncodingInput { codes: &[0, 0, 1, 1, 2, 2], categories: 3, target: EncodingTarget::Numbers(&y), weight };
                let values = target_encode(&input, &EncodingPlan::random(6, &params).unwrap(), &params).unwrap();
                assert!(values[0].iter().all(|v| v.is_finite()), "{kind:?} {values:?}");
            }
        }
    }
    for tiny in [1e-300, 1e-310] {
        let input = EncodingInput { codes: &[0; 3], categories: 1, target: EncodingTarget::Numbers(&[tiny, tiny, tiny]), weight: None };
        let params = TargetParams { kind: EncodingKind::Full, ..Default::default() };
        let value = target_encode(&input, &EncodingPlan::Plain, &params).unwrap()[0][0];
        assert!((value / tiny - 1.0).abs() < 1e-12, "{value:e} for {tiny:e}");
    }
}

#[test]
fn bad_input_is_named() {
    let codes = [0u32, 0, 1];
    let input = |target, weight| EncodingInput { codes: &codes, categories: 2, target, weight };
    let message =
        |input: &EncodingInput<'_>, plan: &EncodingPlan, params: &TargetParams| target_encode(input, plan, params).unwrap_err().to_string();
    let params = TargetParams::default();
    let rows = EncodingPlan::Ordered(vec![Order::Rows]);
    assert!(message(&input(EncodingTarget::Flags(&[0]), None), &rows, &params).contains("the target has 1 rows"));
    assert!(message(&input(EncodingTarget::Numbers(&[0.0, f64::NAN, 1.0]), None), &rows, &params).contains("a target is NaN"));
    let flags = EncodingTarget::Flags(&[0, 1, 0]);
    assert!(message(&input(flags, Some(&[1.0, -1.0, 0.0])), &rows, &params).contains("a weight is -1"));
    assert!(message(&input(flags, Some(&[0.0; 3])), &rows, &params).contains("all weights are zero"));
    assert!(message(&input(flags, None), &EncodingPlan::Ordered(vec![Order::Given(vec![0])]), &params).contains("the order has 1 rows"));
    assert!(message(&input(flags, None), &EncodingPlan::Folds(vec![1, 1, 1], 2), &params).contains("outside fold 1"));
    assert!(message(&input(flags, None), &EncodingPlan::Folds(vec![1, 1], 2), &params).contains("the folds have 2 rows"));
    let folds = TargetParams { kind: EncodingKind::Kfold, ..Default::default() };
    assert!(EncodingPlan::random(3, &folds).unwrap_err().to_string().contains("parameter `folds`: 5 are more than the 3 rows"));
    assert_eq!(
        target_encode(&EncodingInput { codes: &[], categories: 0, target: EncodingTarget::Flags(&[]), weight: None }, &rows, &params)
            .unwrap(),
        [Vec::<f64>::new()]
    );
    for (json, part) in [
        (serde_json::json!({"kind": "leave_one_out"}), "parameter `kind`"),
        (serde_json::json!({"folds": 1}), "parameter `folds`: 1"),
        (serde_json::json!({"prior_weight": "none"}), "parameter `prior_weight`: \"none\" is not zero or a positive number, or \"auto\""),
        (serde_json::json!({"permutations": 0}), "parameter `permutations`: 0"),
        (serde_json::json!({"fold": 3}), "did you mean `folds`"),
    ] {
        let error = TargetParams::from_json(&json).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}
