//! Several metrics, several sets of held-out rows and the training rows' metrics, against fits and scores of each alone.

use serde_json::json;
use taiga_engine::dataset::{EvalSets, Evaluation, Input, Quiet};
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::{BoostingParams, fit};
use taiga_engine::losses::Link;
use taiga_engine::metrics::{MetricSpec, Rows, metric};
use taiga_engine::model::fitted::FittedModel;
use taiga_testing::{Dice, Table, classes, raw, table};

fn params(value: serde_json::Value) -> BoostingParams {
    BoostingParams::from_json(&value).unwrap_or_else(|e| panic!("{e}"))
}

/// Of every four rows one is held out.
fn held_out(mut t: Table) -> Table {
    t.held_out = Some((0..t.rows()).map(|i| i % 4 == 1).collect());
    t
}

/// Held-out rows in the sets "north" and "south".
fn input(t: &Table) -> Input<'_> {
    let of_row = (0..t.rows() as u32).map(|i| (i / 4) % 2).collect();
    let sets = Some(EvalSets { names: vec!["north".into(), "south".into()], of_row });
    Input { evaluation: Evaluation { sets, columns: vec![] }, ..t.input() }
}

/// A metric of a model's first rounds on rows.
fn score(model: &Model, rounds: usize, text: &str, link: Link, t: &Table) -> f64 {
    let head = model.clone().into_head(rounds).expect("the first rounds");
    let spec: MetricSpec = text.parse().expect("a metric");
    let (scores, y, params) = (raw(&head, t), t.y(), model.params.loss_params());
    let weight = t.weight.clone();
    metric(&spec, &Rows { weight: weight.as_deref(), ..Rows::new(&scores, link, &y, &params) })
}

fn close(a: f64, b: f64, what: &str) {
    assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{what}: {a} {b}");
}

/// Proves that each of several metrics has the curve that it has alone, and that none changes the trees.
#[test]
fn several_metrics_are_each_alone() {
    let t = held_out(classes(900, 3));
    let several = t.fit(&params(json!({ "rounds": 12, "metric": ["auc", "logloss", "f1", "ece@5"] })));
    let history = several.history.as_ref().expect("a history");
    let curves: Vec<_> = history.curves().map(|(set, metric, values)| (set, metric.to_string(), values.to_vec())).collect();
    assert_eq!(curves.iter().map(|c| c.1.as_str()).collect::<Vec<_>>(), ["auc", "logloss", "f1", "ece@5"]);
    for (set, name, values) in curves {
        let alone = t.fit(&params(json!({ "rounds": 12, "metric": name })));
        assert_eq!((set, &values), (None, &alone.history.as_ref().expect("a history").values), "{name}");
        assert_eq!(alone.trees, several.trees, "{name}");
    }
}

/// Proves that the first metric of the first set decides when a fit ends.
#[test]
fn the_first_metric_decides() {
    let t = held_out(classes(700, 4));
    for (several, first) in [(json!(["logloss", "auc"]), "logloss"), (json!(["auc", "logloss"]), "auc")] {
        let fitted = |metric| t.fit(&params(json!({ "rounds": 200, "learning_rate": 0.5, "early_stopping": 5, "metric": metric })));
        let (both, alone) = (fitted(several), fitted(json!(first)));
        assert!(both.rounds() < 195);
        assert_eq!(both.trees, alone.trees);
        assert_eq!(both.history.expect("a history").best, alone.history.expect("a history").best);
    }
}

/// Proves that the curves of sets and of the training rows are the scores of the model's first rounds on these rows, whether or not rows
/// have weights and a loss moves its targets, and that the trees are those of a fit without names.
#[test]
fn curves_of_sets_are_scores_of_the_first_rounds() {
    for (loss, text, link) in [("rmse", "rmse", Link::Identity), ("logloss", "auc", Link::Sigmoid), ("logloss", "logloss", Link::Sigmoid)] {
        for weighed in [false, true] {
            let mut t = held_out(if loss == "rmse" { table(800, 5) } else { classes(800, 5) });
            let mut dice = Dice::new(9);
            t.weight = weighed.then(|| (0..t.rows()).map(|_| 0.5 + dice.unit()).collect());
            let p = params(
                json!({ "rounds": 6, "loss": loss, "metric": [text, if loss == "rmse" { "mae" } else { "accuracy" }], "eval_train": true }),
            );
            let model = fit(&input(&t), &p, &Quiet).expect("a model");
            let plain = t.fit(&params(json!({ "rounds": 6, "loss": loss })));
            assert_eq!(model.trees, plain.trees);
            let history = model.history.as_ref().expect("a history");
            let sets: Vec<_> = history.curves().map(|(set, ..)| set.unwrap_or_default().to_string()).collect();
            assert_eq!(sets, ["north", "north", "south", "south", "train", "train"]);
            for (set, metric, values) in history.curves() {
                let rows = t.filter(|i| match set {
                    Some("train") => i % 4 != 1,
                    Some("north") => i % 4 == 1 && (i / 4) % 2 == 0,
                    _ => i % 4 == 1 && (i / 4) % 2 == 1,
                });
                for rounds in [1, 6] {
                    let own = score(&model, rounds, &metric.to_string(), link, &rows);
                    close(values[rounds - 1], own, &format!("{loss} {metric} {set:?} {rounds}"));
                }
            }
        }
    }
}

/// Proves that training rows are measured without held-out ones, on any number of threads alike.
#[test]
fn training_rows_alone_are_measured() {
    let t = table(3000, 6);
    let of = |threads: u32| t.fit(&params(json!({ "rounds": 5, "metric": ["rmse", "mae"], "eval_train": true, "n_threads": threads })));
    let model = of(1);
    assert_eq!(model.to_bytes(), of(4).to_bytes());
    let history = model.history.as_ref().expect("a history");
    assert_eq!((history.set.as_deref(), history.values.len()), (Some("train"), 5));
    close(history.values[4], score(&model, 5, "rmse", Link::Identity, &t), "rmse");
    let error =
        BoostingParams::check_call(&json!({ "early_stopping": 3, "eval_train": true, "metric": "mae" }), false).expect_err("no rows");
    assert!(error.to_string().contains("early_stopping") && !error.to_string().contains("`metric`"), "{error}");
}

/// Proves that models with several curves come back from their bytes and their JSON, in a version of their own, and that one metric
/// of one set is written as ever.
#[test]
fn models_keep_their_curves() {
    let t = held_out(classes(400, 7));
    let plain = t.fit(&params(json!({ "rounds": 3, "metric": "auc" })));
    let off = t.fit(&params(json!({ "rounds": 3, "metric": "auc", "eval_train": false })));
    assert_eq!(plain.to_bytes(), off.to_bytes());
    let version = |model: &Model| model.to_json()["version"].as_u64().expect("a version");
    assert!(version(&plain) < 8);
    let custom = json!({ "name": "far", "means": ["abs(y - p) > 0.5", "y"], "value": "m0 / (1 + m1)", "larger_is_better": true });
    for metric in [json!("ece@5"), json!(["auc"]), json!(["auc", custom]), json!(custom)] {
        let model = fit(&input(&t), &params(json!({ "rounds": 3, "metric": metric })), &Quiet).expect("a model");
        assert_eq!(version(&model), 8, "{metric}");
        let again = Model::from_bytes(&model.to_bytes()).expect("the model");
        assert_eq!((again.to_bytes(), &again.history), (model.to_bytes(), &model.history));
        let again = Model::from_json(&model.json_text().expect("a text")).expect("the model");
        assert_eq!(again.to_bytes(), model.to_bytes());
        let head = FittedModel::head(&model, 2).expect("the first rounds").facts().history.expect("a history").clone();
        assert!(head.curves().all(|(_, _, values)| values.len() == 2));
    }
}

/// Proves that what does not go together is told.
#[test]
fn faults_are_named() {
    let t = held_out(classes(200, 8));
    let p = params(json!({ "rounds": 2 }));
    let error = |input: &Input<'_>, p: &BoostingParams| fit(input, p, &Quiet).expect_err("a fault").to_string();
    let mut none = input(&t);
    let sets = none.evaluation.sets.as_mut().expect("sets");
    sets.names.push("west".into());
    assert!(error(&none, &p).contains("no row of the set \"west\" counts"), "{}", error(&none, &p));
    let mut train = input(&t);
    train.evaluation.sets.as_mut().expect("sets").names[0] = "train".into();
    let text = error(&train, &params(json!({ "rounds": 2, "eval_train": true })));
    assert!(text.contains("`eval`") && text.contains("\"train\""), "{text}");
    // Held-out rows 1, 5, 9, … are of north and south in turn; rows of a group are of one set.
    let mut grouped = t.clone();
    grouped.groups = Some((0..200).map(|i| if i % 4 == 1 { 100 + i / 40 } else { i / 40 }).collect());
    let text = error(&input(&grouped), &params(json!({ "rounds": 2, "metric": "auc" })));
    assert!(text.contains("`eval`") && text.contains("between sets"), "{text}");
    let own = json!({ "name": "own", "means": ["abs(y - p) * `away`"], "value": "m0" });
    let text = error(&t.input(), &params(json!({ "rounds": 2, "metric": own })));
    assert!(text.contains("`away`") && text.contains("a metric of your own reads it"), "{text}");
    for (metric, part) in [
        (json!(["auc", "acuracy"]), "did you mean [\"auc\", \"accuracy\"]?"),
        (json!("acuracy"), "did you mean \"accuracy\"?"),
        (json!(["auc", "auc"]), "named twice"),
        (json!([]), "a list of 0 metrics"),
        (json!("ndcg@0"), "a number of places from 1 on"),
        (json!({ "name": "auc", "means": ["y - p"], "value": "m0" }), "another metric's name"),
        (json!({ "name": "own", "means": ["y"], "value": "m0" }), "does not depend on the prediction"),
        (json!({ "name": "own", "means": ["y - p"], "value": "m0 * y" }), "outside of mean()"),
        (json!({ "name": "own", "means": ["y - `f`"], "value": "m0" }), "does not depend on the prediction"),
        (json!("NDCG:top=5"), "did you mean \"ndcg@5\"?"),
    ] {
        let text = BoostingParams::from_json(&json!({ "metric": metric })).expect_err("a fault").to_string();
        assert!(text.contains("`metric`") && text.contains(part), "{metric}: {text}");
    }
}
