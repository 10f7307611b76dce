//! Bad input: each a clear error that names the thing, and never a panic.

use proptest::prelude::*;
use serde_json::{Value, json};
use taiga_engine::column::{Bits, Chunk, Column, FeatureType, Values};
use taiga_engine::dataset::labels::Labels;
use taiga_engine::dataset::{Input, Quiet, Target};
use taiga_engine::device::with_device;
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::{BoostingParams, fit};
use taiga_engine::losses::LossKind;
use taiga_engine::{Error, Result, memory};
use taiga_testing::{Table, Wanted, params};

fn good() -> Table {
    Table::numbers(vec![(0..20).map(f64::from).collect(), (0..20).map(|i| f64::from(i % 3)).collect()], (0..20).map(f64::from).collect())
}

fn good_classes() -> Table {
    let t = good();
    Table::classes(t.columns, (0..20).map(|i| i / 10).collect(), Labels::Text(vec!["no".into(), "yes".into()]))
}

/// The error's text holds each of the words.
fn assert_error(result: Result<Model>, words: &[&str]) {
    let error = result.expect_err(&format!("no error about {words:?}"));
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{text:?} does not say {word:?}");
    }
}

fn fit_of(t: &Table, p: Value) -> Result<Model> {
    t.try_fit(&params(p))
}

/// Proves that a table that can't be fitted on is refused with the column's name and the rows.
#[test]
fn tables_that_cannot_be_fitted_on_are_refused() {
    let default = BoostingParams::default();
    let fit_input = |change: &dyn Fn(&mut Input<'_>)| {
        let t = good();
        let mut input = t.input();
        change(&mut input);
        fit(&input, &default, &Quiet)
    };
    assert_error(fit_input(&|i| i.features.clear()), &["no features"]);
    assert_error(fit_input(&|i| i.features.push(i.features[0].clone())), &["`x0`", "twice"]);
    assert_error(fit_input(&|i| i.features[1] = Column::from_f64("short", &[1.0; 7])), &["`short`", "7", "20", "`y`"]);
    assert_error(fit_input(&|i| i.weight = Some(Column::from_f64("w", &[1.0; 21]))), &["`w`", "21", "20"]);
    assert_error(fit_input(&|i| i.baseline = vec![Column::from_f64("b", &[1.0; 19])]), &["`b`", "19", "20"]);
    assert_error(fit_input(&|i| i.held_out = Some(&[true; 3])), &["`eval`", "3", "20"]);
    assert_error(fit_input(&|i| i.held_out = Some(&[true; 20])), &["0 training rows", "at least two"]);
    assert_error(fit_input(&|i| i.held_out = Some(&[false; 20])), &["`eval`", "no row"]);
    let empty = Table::numbers(vec![vec![], vec![]], vec![]);
    assert_error(empty.try_fit(&default), &["no rows"]);
    let one = Table::numbers(vec![vec![1.0], vec![2.0]], vec![1.0]);
    assert_error(one.try_fit(&default), &["1 training row:", "at least two"]);
}

/// Proves that targets outside a loss's domain are refused with the row, or the number of rows,
/// and what the loss needs.
#[test]
fn targets_outside_a_loss_are_refused() {
    let with = |row: usize, value: f64| {
        let mut t = good();
        t.target = Wanted::Numbers((0..20).map(|i| if i == row { value } else { 0.5 + (i % 2) as f64 * 0.25 }).collect());
        t
    };
    assert_error(fit_of(&with(3, f64::NAN), json!({})), &["`y`", "null or NaN", "1 of 20", "filter"]);
    assert_error(fit_of(&with(3, f64::INFINITY), json!({})), &["`y`", "inf", "1 rows"]);
    assert_error(fit_of(&with(3, f64::NEG_INFINITY), json!({ "loss": "mae" })), &["`y`", "-inf"]);
    for (loss, value, expected) in [
        ("poisson", -1.0, "poisson"),
        ("poisson", 1e31, "1e30"),
        ("tweedie", -0.5, "tweedie"),
        ("gamma", 0.0, "gamma"),
        ("gamma", -2.0, "gamma"),
        ("cross_entropy", 1.5, "cross_entropy"),
        ("cross_entropy", -0.1, "probabilities"),
    ] {
        assert_error(fit_of(&with(3, value), json!({ "loss": loss })), &["`y`", "row 3", expected]);
    }
    let mut t = good();
    t.target = Wanted::Numbers((0..20).map(|i| if i > 0 { f64::MAX } else { f64::MIN }).collect());
    for loss in ["rmse", "mae", "huber", "quantile"] {
        assert_error(fit_of(&t, json!({ "loss": loss })), &["`y`"]);
    }

    // A null behind a bitmap counts as missing too.
    let valid = [0b1111_1011u8, 255, 255];
    let t = good();
    let y = t.y();
    let mut input = t.input();
    input.target =
        Target::Numbers(Column::new("y", FeatureType::Numeric, vec![Chunk::new(Values::F64(&y), Some(Bits::new(&valid, 0, 20)))]));
    assert_error(fit(&input, &BoostingParams::default(), &Quiet), &["`y`", "1 of 20"]);
}

/// Proves that classes and losses that don't fit each other are refused.
#[test]
fn classes_and_losses_must_fit() {
    let mut t = good_classes();
    assert_error(fit_of(&t, json!({ "loss": "rmse" })), &["`loss`", "numeric target"]);
    assert_error(fit_of(&good(), json!({ "loss": "logloss" })), &["`loss`", "classes"]);
    assert_error(fit_of(&good(), json!({ "loss": "multiclass" })), &["`loss`", "classes"]);
    assert_error(fit_of(&good(), json!({ "class_weight": "balanced" })), &["`class_weight`", "no classes"]);
    assert_error(fit_of(&t, json!({ "class_weight": { "maybe": 2.0 } })), &["`class_weight`", "`maybe`", "no, yes"]);
    assert_error(fit_of(&t, json!({ "class_weight": { "no": 0.0, "yes": 0.0 } })), &["class_weight", "zero"]);
    t.target = Wanted::Classes(vec![0; 20], Labels::Boolean);
    assert_error(fit_of(&t, json!({})), &["`y`", "one class"]);
    t.target = Wanted::Classes((0..20).map(|i| i % 4).collect(), Labels::Boolean);
    assert_error(fit_of(&t, json!({})), &["`y`", "class 2"]);
    t.target = Wanted::Classes((0..20).map(|i| i % 3).collect(), Labels::Integer(vec![1, 2, 3]));
    assert_error(fit_of(&t, json!({ "loss": "logloss" })), &["`loss`", "two classes", "3", "multiclass"]);
    // One class in the training rows, the other in the held-out ones.
    t.target = Wanted::Classes((0..20).map(|i| i / 10).collect(), Labels::Boolean);
    t.held_out = Some((0..20).map(|i| i >= 10).collect());
    assert_error(fit_of(&t, json!({})), &["`y`", "one class", "training"]);
    t.target = Wanted::Classes(vec![0; 20], Labels::Integer(vec![]));
    t.held_out = None;
    assert_error(fit_of(&t, json!({})), &["`y`"]);
}

/// Proves that weights and baselines are checked.
#[test]
fn weights_and_baselines_are_checked() {
    let weighted = |f: &dyn Fn(usize) -> f64| {
        let mut t = good();
        t.weight = Some((0..20).map(f).collect());
        t.try_fit(&BoostingParams::default())
    };
    assert_error(weighted(&|i| if i == 4 { -1.0 } else { 1.0 }), &["`w`", "-1", "row 4", "not negative"]);
    assert_error(weighted(&|i| if i == 4 { f64::INFINITY } else { 1.0 }), &["`w`", "inf", "row 4"]);
    assert_error(weighted(&|i| if i == 4 { f64::NAN } else { 1.0 }), &["`w`", "null or NaN", "1 of 20"]);
    assert_error(weighted(&|_| 0.0), &["`w`", "zero"]);
    // Beyond the f32 that weights are kept in: what counts is how they compare.
    for size in [1e39, 1e-60, 1e300, 5e-324] {
        assert_eq!(weighted(&|_| size).unwrap().start, weighted(&|_| 1.0).unwrap().start, "{size:e}");
    }
    let mut t = good();
    t.held_out = Some((0..20).map(|i| i < 5).collect());
    t.weight = Some((0..20).map(|i| (i < 5) as u8 as f64).collect());
    assert_error(t.try_fit(&BoostingParams::default()), &["`w`", "training rows weigh zero"]);

    let mut t = good();
    t.baseline = vec![vec![0.0; 20]; 2];
    assert_error(t.try_fit(&BoostingParams::default()), &["`baseline`", "2 columns", "1 score"]);
    for bad in [f64::NAN, f64::INFINITY] {
        t.baseline = vec![(0..20).map(|i| if i == 7 { bad } else { 0.0 }).collect()];
        assert_error(t.try_fit(&BoostingParams::default()), &["`b0`", "baseline"]);
    }
}

/// Proves that every parameter out of its range is refused by name, with its value.
#[test]
fn parameters_out_of_range_are_refused() {
    let cases = [
        ("alpha", json!(0.0)),
        ("alpha", json!(1.0)),
        ("alpha", json!(-3)),
        ("huber_delta", json!(0.0)),
        ("huber_delta", json!(-1.0)),
        ("focal_gamma", json!(-0.1)),
        ("focal_gamma", json!(100.5)),
        ("focal_alpha", json!(0.0)),
        ("focal_alpha", json!(1.0)),
        ("tweedie_power", json!(1.0)),
        ("tweedie_power", json!(2.0)),
        ("rounds", json!(0)),
        ("rounds", json!(1_000_001)),
        ("rounds", json!(-1)),
        ("rounds", json!(2.5)),
        ("rounds", json!("many")),
        ("learning_rate", json!(0.0)),
        ("learning_rate", json!(-0.1)),
        ("depth", json!(0)),
        ("depth", json!(17)),
        ("bins", json!(1)),
        ("bins", json!(257)),
        ("bins", json!({ "x0": 1 })),
        ("bins", json!({ "x0": "many" })),
        ("border_sample", json!(1)),
        ("border_method", json!("equal")),
        ("l2", json!(-1.0)),
        ("l1", json!(-1.0)),
        ("min_child_weight", json!(-1.0)),
        ("min_data_in_leaf", json!(-1)),
        ("min_gain", json!(-0.5)),
        ("row_sample", json!("some")),
        ("feature_fraction", json!(0.0)),
        ("feature_fraction", json!(1.1)),
        ("feature_fraction_level", json!(0.0)),
        ("monotone", json!({ "x0": 2 })),
        ("monotone", json!({ "x0": "up" })),
        ("feature_weights", json!({ "x0": -0.5 })),
        ("feature_weights", json!({ "x0": "heavy" })),
        ("interaction", json!("x0")),
        ("class_weight", json!({ "a": -1.0 })),
        ("class_weight", json!("balance")),
        ("metric", json!("area")),
        ("early_stopping", json!(0)),
        ("n_threads", json!(0)),
        ("n_threads", json!(1025)),
        ("seed", json!(-1)),
        ("device", json!("tpu")),
        ("device", json!("cuda:x")),
        ("policy", json!("breadthwise")),
        ("loss", json!("mse")),
    ];
    for (name, value) in cases {
        let error = BoostingParams::from_json(&json!({ name: value.clone() })).expect_err(&format!("{name} = {value} was taken"));
        assert!(matches!(&error, Error::Parameter { name: n, .. } if n == name), "{error}");
        let text = error.to_string();
        let shown = value.as_str().map(String::from).unwrap_or_else(|| value.to_string());
        let shown = value.as_object().map_or(shown, |o| o.values().next().unwrap().as_str().map_or("".into(), String::from));
        assert!(text.contains(&shown), "{text:?} does not show {shown}");
    }
    for value in [f64::NAN, f64::INFINITY, -1.0] {
        let p = BoostingParams::default();
        for p in [
            BoostingParams { l2: value, ..p.clone() },
            BoostingParams { l1: value, ..p.clone() },
            BoostingParams { min_gain: value, ..p.clone() },
            BoostingParams { min_child_weight: Some(value), ..p.clone() },
            BoostingParams { feature_weights: Some([("x0".to_string(), value)].into()), ..p.clone() },
            BoostingParams { learning_rate: Some(value), ..p.clone() },
            BoostingParams { huber_delta: Some(value), ..p.clone() },
            BoostingParams { feature_fraction: value, ..p.clone() },
            BoostingParams { feature_fraction_level: value, ..p.clone() },
            BoostingParams { feature_fraction_node: value, policy: taiga_engine::tree::Policy::Depthwise, ..p.clone() },
            BoostingParams { alpha: taiga_engine::losses::Alpha::One(value), ..p.clone() },
        ] {
            assert!(matches!(good().try_fit(&p), Err(Error::Parameter { .. })), "{p:?}");
        }
    }
}

/// Proves that parameters that exclude each other, that name what is not there or that do not
/// exist are refused, the last with the nearest name.
#[test]
fn parameters_that_do_not_fit_are_refused() {
    let error = |p: Value| with_device(&p, BoostingParams::from_json(&p)).unwrap_err().to_string();
    assert_eq!(error(json!({ "learning_rte": 0.1 })), "there is no parameter `learning_rte`; did you mean `learning_rate`?");
    assert_eq!(error(json!({ "zzz": 1 })), "there is no parameter `zzz`");
    // Other libraries' names are known.
    assert_eq!(error(json!({ "max_depth": 3 })), "there is no parameter `max_depth`; did you mean `depth`?");
    assert_eq!(error(json!({ "n_estimators": 3 })), "there is no parameter `n_estimators`; did you mean `rounds`?");
    assert_eq!(error(json!({ "sample_weight": 3 })), "there is no parameter `sample_weight`; did you mean `weight`?");
    assert!(error(json!([1])).contains("object"));
    assert!(error(json!({ "leaves": 8 })).contains("`leaves`"));
    assert!(error(json!({ "policy": "leafwise", "leaves": 1 })).contains("`leaves`"));
    assert!(error(json!({ "policy": "leafwise", "leaves": 65_537 })).contains("`leaves`"));
    assert!(error(json!({ "policy": "leafwise", "depth": 64 })).contains("`depth`"));
    assert!(error(json!({ "row_fraction": 0.5 })).contains("`row_fraction`"));
    assert!(error(json!({ "row_fraction": 0.0, "row_sample": "mvs" })).contains("`row_fraction`"));
    assert!(error(json!({ "feature_fraction_node": 0.5 })).contains("`feature_fraction_node`"));
    let cuda = error(json!({ "device": "cuda:4000" }));
    assert!(cuda.contains("`device`") && cuda.contains("\"cuda:4000\"") && cuda.contains("\"cpu\""), "{cuda}");
    let t = good();
    assert_error(fit_of(&t, json!({ "monotone": { "x9": 1 } })), &["`monotone`", "`x9`", "did you mean"]);
    assert_error(fit_of(&t, json!({ "monotone": { "nothing_like_it": 0 } })), &["`monotone`", "`nothing_like_it`"]);
    assert_error(fit_of(&t, json!({ "interaction": [["x0", "x7"]] })), &["`interaction`", "`x7`"]);
    assert_error(fit_of(&t, json!({ "interaction": [[]] })), &["`interaction`", "group 0 is empty"]);
    assert_error(fit_of(&t, json!({ "interaction": [["x0"], []] })), &["`interaction`", "group 1 is empty"]);
    assert_error(fit_of(&t, json!({ "bins": { "x9": 32 } })), &["`bins`", "`x9`", "did you mean"]);
    assert!(error(json!({ "bins": { "x1": 300 } })).contains("`bins`: 300 for `x1` is not between 2 and 256"));
    assert_error(fit_of(&t, json!({ "feature_weights": { "x9": 2 } })), &["`feature_weights`", "`x9`", "did you mean"]);
    assert!(error(json!({ "feature_weights": { "x1": -1 } })).contains("`feature_weights`: -1 for `x1`"));
    let none: serde_json::Map<String, Value> = (0..t.columns.len()).map(|i| (format!("x{i}"), json!(0))).collect();
    assert_error(fit_of(&t, json!({ "feature_weights": none })), &["`feature_weights`", "all features", "`x0`"]);
    let ordered = Table { order: Some((0..t.rows() as u32).collect()), ..t.clone() };
    assert_error(fit_of(&ordered, json!({ "permutations": 2 })), &["`permutations`", "one order", "`order_by`"]);
    assert_error(fit_of(&ordered, json!({ "cat_method": "one_hot" })), &["`order_by`", "cat_method=\"ctr\"", "\"one_hot\""]);
    assert_error(fit_of(&Table { order: Some(vec![0; 3]), ..t.clone() }, json!({})), &["`order_by`", "3 rows"]);
    assert_error(fit_of(&t, json!({ "early_stopping": 3 })), &["`early_stopping`", "eval"]);
    assert_error(fit_of(&t, json!({ "metric": "mae" })), &["`metric`", "eval"]);
    let mut t = good();
    t.held_out = Some((0..20).map(|i| i % 2 == 0).collect());
    for (loss, metric) in [("rmse", "auc"), ("rmse", "poisson"), ("poisson", "logloss")] {
        let text = error(json!({ "loss": loss, "metric": metric }));
        assert!(text.contains("`metric`") && text.contains(&format!("{metric:?}")) && text.contains(&format!("loss={loss:?}")), "{text}");
    }
    // What follows from the target is found by the fit, which says how to make it classes.
    assert_error(fit_of(&t, json!({ "metric": "auc" })), &["`metric`", "\"auc\" is for classes", "loss=\"logloss\""]);
    assert_error(fit_of(&t, json!({ "metric": "poisson" })), &["`metric`", "\"poisson\"", "\"rmse\""]);
    assert_error(fit_of(&t, json!({ "class_weight": "balanced" })), &["`class_weight`", "loss=\"logloss\""]);
    // A constant feature may be constrained: it is there, though no split uses it.
    let mut t = good();
    t.columns.push(vec![1.0; 20]);
    let model = fit_of(&t, json!({ "monotone": { "x2": 1, "x0": -1 }, "interaction": [["x2", "x1"], ["x0"]], "rounds": 3 })).unwrap();
    assert_eq!(model.features.len(), 3);
}

/// Proves that a fit whose leaf values no f64 can hold is refused, and gives no model that can't be
/// read back.
#[test]
fn leaf_values_stay_finite_in_units_of_the_target() {
    let t = Table::numbers(vec![vec![0.0, 1.0]], vec![1e300, 0.0]);
    assert_error(fit_of(&t, json!({ "rounds": 4, "learning_rate": 1000.0, "l2": 0.0, "min_child_weight": 0.0 })), &["leaf", "finite"]);
    // A step smaller, and they are held.
    let model = fit_of(&t, json!({ "rounds": 4, "learning_rate": 1.0, "l2": 0.0, "min_child_weight": 0.0 })).unwrap();
    assert_eq!(Model::from_bytes(&model.to_bytes()).unwrap(), model);
}

/// Proves that held-out rows on which no metric can be measured are refused: they all weigh zero,
/// or AUC finds one class among them.
#[test]
fn held_out_rows_that_cannot_be_measured_on_are_refused() {
    let mut t = good();
    t.held_out = Some((0..20).map(|i| i < 5).collect());
    t.weight = Some((0..20).map(|i| (i >= 5) as u8 as f64).collect());
    assert_error(t.try_fit(&BoostingParams::default()), &["`w`", "held-out rows", "zero"]);
    let mut t = good_classes();
    t.held_out = Some((0..20).map(|i| i < 5).collect());
    assert_error(fit_of(&t, json!({ "metric": "auc" })), &["`metric`", "auc", "one class"]);
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => (-5i32..5).prop_map(f64::from),
        2 => Just(f64::NAN),
        3 => -1.0..1.0f64,
        1 => any::<u64>().prop_map(f64::from_bits),
        1 => prop::sample::select(vec![f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, 1e300, -1e300, 1e-300, 5e-324, 1e38, 1e39, -0.0]),
    ]
}

/// A finite target that one of the losses takes, or any number.
fn target_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => 0.0..1.0f64,
        4 => (0u32..5).prop_map(f64::from),
        3 => prop::sample::select(vec![0.0, 1.0, 1e-300, 1e29, 1e300, -1e300, 1e-45, 1.7e308]),
    ]
}

#[derive(Clone, Debug)]
struct Case {
    columns: Vec<Vec<f64>>,
    y: Vec<f64>,
    weight: Option<Vec<f64>>,
    baseline: Option<Vec<f64>>,
    held_out: Option<Vec<bool>>,
    classes: u32,
    params: Value,
}

fn any_case() -> impl Strategy<Value = Case> {
    (1usize..40, 1usize..4).prop_flat_map(|(rows, features)| {
        let column = prop_oneof![
            6 => prop::collection::vec(any_number(), rows),
            1 => any_number().prop_map(move |x| vec![x; rows]),
        ];
        let y = prop_oneof![
            4 => prop::collection::vec(target_number(), rows),
            1 => prop::collection::vec(any_number(), rows),
            1 => target_number().prop_map(move |x| vec![x; rows]),
        ];
        let weight = prop::option::weighted(
            0.3,
            prop::collection::vec(
                prop_oneof![6 => 0.0..3.0f64, 2 => Just(0.0), 1 => any_number(), 1 => Just(3e38), 1 => Just(1e-44)],
                rows,
            ),
        );
        let baseline = prop::option::weighted(0.2, prop::collection::vec(prop_oneof![9 => -2.0..2.0f64, 1 => any_number()], rows));
        let held_out = prop::option::weighted(0.3, prop::collection::vec(prop::bool::weighted(0.3), rows));
        (prop::collection::vec(column, features), y, weight, baseline, held_out, 0u32..5, any_params()).prop_map(
            |(columns, y, weight, baseline, held_out, classes, params)| Case { columns, y, weight, baseline, held_out, classes, params },
        )
    })
}

fn any_params() -> impl Strategy<Value = Value> {
    let pick = |values: &[Value]| prop::sample::select(values.to_vec());
    let losses = pick(
        &[json!("auto")]
            .into_iter()
            .chain(LossKind::ALL.iter().filter(|loss| **loss != LossKind::Custom).map(|loss| json!(loss.name())))
            .collect::<Vec<_>>(),
    );
    let policies = pick(&[json!("symmetric"), json!("depthwise"), json!("leafwise")]);
    let samples = pick(&[json!("none"), json!("bernoulli"), json!("goss"), json!("mvs"), json!("bayesian")]);
    let zero_or = pick(&[json!(0.0), json!(1.0), json!(1e-300), json!(1e300)]);
    let small = pick(&[json!(0), json!(1), json!(5)]);
    let rates = pick(&[json!(0.1), json!(1.0), json!(1e30), json!(1e-30)]);
    let bins = pick(&[json!(2), json!(3), json!(255), json!(256)]);
    let monotone = pick(&[json!({}), json!({ "x0": 1 }), json!({ "x0": -1 })]);
    let stops = pick(&[json!(null), json!(1)]);
    (losses, policies, samples, (zero_or.clone(), zero_or.clone(), zero_or), small, rates, bins, (monotone, stops)).prop_map(
        |(loss, policy, sample, (l2, min_child_weight, l1), min_data, rate, bins, (monotone, stop))| {
            json!({ "loss": loss, "policy": policy, "row_sample": sample, "l2": l2, "min_child_weight": min_child_weight, "l1": l1,
                "min_data_in_leaf": min_data, "learning_rate": rate, "bins": bins, "monotone": monotone, "early_stopping": stop, "rounds": 4,
                "huber_delta": if bins == 3 { 1e-300 } else { 1.0 } })
        },
    )
}

fn table_of(case: &Case) -> Table {
    let mut t = Table::numbers(case.columns.clone(), case.y.clone());
    if case.classes > 1 {
        let labels = Labels::Integer((0..case.classes as i64).collect());
        t = Table::classes(case.columns.clone(), case.y.iter().map(|y| y.abs() as u32 % case.classes).collect(), labels);
    }
    t.weight = case.weight.clone();
    t.baseline = case.baseline.iter().cloned().collect();
    t.held_out = case.held_out.clone();
    t
}

/// Proves that codes that the machine has no memory for are an error with both figures, before any of it is taken: hundreds of
/// gigabytes of them, from columns that all borrow the same values.
#[test]
fn what_cannot_fit_is_an_error_before_it_is_tried() {
    let (rows, features) = (8_000_000, 40_000);
    if memory::available().is_none_or(|bytes| bytes > rows as u64 * features as u64) {
        return;
    }
    let values: Vec<f32> = (0..rows).map(|i| i as f32).collect();
    let t = Table::numbers(vec![], (0..rows).map(|i| i as f64).collect());
    let columns = (0..features).map(|f| Column::from_f32(format!("x{f}"), &values));
    let input = Input { features: columns.collect(), ..t.input() };
    let p = BoostingParams { border_sample: 2, bundle: false, ..params(json!({ "rounds": 2 })) };
    let e = fit(&input, &p, &Quiet).expect_err("too much");
    assert!(matches!(e, Error::Memory(_)), "{e}");
    for part in ["8000000 rows", "40000 features", "needs at least 32", "free"] {
        assert!(e.to_string().contains(part), "{part}: {e}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Proves that no small table makes a fit panic, whatever it holds; that what is fitted is a
    /// valid model with finite leaves and finite predictions on its own rows, the same in a second
    /// run; and that errors have words.
    #[test]
    fn nothing_panics_and_models_are_valid(case in any_case()) {
        let t = table_of(&case);
        let p = params(case.params.clone());
        match t.try_fit(&p) {
            Err(error) => prop_assert!(error.to_string().len() > 10, "{}", error),
            Ok(model) => {
                prop_assert!(model.validate().is_ok(), "{:?}", model.validate());
                prop_assert!(model.start.iter().all(|s| s.is_finite()), "{:?}", model.start);
                prop_assert!(model.scale.is_finite() && model.scale > 0.0);
                for tree in &model.trees {
                    prop_assert!(tree.leaves().iter().all(|l| l.value.is_finite() && l.weight.is_finite() && l.weight >= 0.0), "{:?}", tree);
                    prop_assert!(tree.splits().all(|s| s.gain.is_finite() && s.gain >= 0.0), "{:?}", tree);
                }
                prop_assert!(taiga_testing::raw(&model, &t).iter().flatten().all(|x| !x.is_nan()));
                let bytes = model.to_bytes();
                prop_assert!(Model::from_bytes(&bytes).unwrap().to_bytes() == bytes);
                prop_assert!(t.try_fit(&p).unwrap().to_bytes() == bytes);
            }
        }
    }
}
