//! Rows that are too few or too alike: which errors say so, what a constant is fitted to, and that tables at the edge of
//! what there is to learn are fitted all the same.

use serde_json::json;
use taiga_engine::column::Column;
use taiga_engine::column::categories::CategoryColumn;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::dataset::{Input, Quiet, Target};
use taiga_engine::error::RowsFault;
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::model::apply::Predictor;
use taiga_engine::learners::boosting::{BoostingParams, constant, fit};
use taiga_engine::learners::forest::{Forest, ForestParams};
use taiga_engine::learners::linear::{LinearModel, LinearParams};
use taiga_engine::learners::{forest, linear};
use taiga_engine::{Error, Result};
use taiga_testing::{POLICIES, Table, Wanted, params, predict, raw};

fn text(labels: &[&str]) -> Labels {
    Labels::Text(labels.iter().map(|l| l.to_string()).collect())
}

fn fault<T>(result: Result<T>) -> Option<RowsFault> {
    result.err().expect("an error").rows_fault()
}

/// The same model again from its bytes.
fn reread(model: &Model) -> Model {
    model.validate().unwrap();
    let again = Model::from_bytes(&model.to_bytes()).unwrap();
    assert_eq!(&again, model);
    again
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * (1.0 + b.abs())
}

fn twenty() -> Vec<f64> {
    (0..20).map(f64::from).collect()
}

/// Proves that errors tell rows that are too few or too alike from values that can't be, and both from what is wrong with
/// the call.
#[test]
fn errors_say_what_the_rows_are_at_fault_for() {
    use RowsFault::{Degenerate, Values};
    let default = BoostingParams::default();
    let good = || Table::numbers(vec![twenty()], twenty());
    let classes = |codes: Vec<u32>| Table::classes(vec![twenty()], codes, text(&["a", "b"]));
    let with = |change: &dyn Fn(&mut Table), t: Table, p: serde_json::Value| {
        let mut t = t;
        change(&mut t);
        fault(t.try_fit(&params(p)))
    };
    let none = json!({});
    assert_eq!(fault(good().filter(|_| false).try_fit(&default)), Some(Degenerate));
    assert_eq!(fault(good().filter(|i| i == 3).try_fit(&default)), Some(Degenerate));
    assert_eq!(fault(classes(vec![1; 20]).try_fit(&default)), Some(Degenerate));
    assert_eq!(with(&|t| t.weight = Some(vec![0.0; 20]), good(), none.clone()), Some(Degenerate));
    assert_eq!(with(&|t| t.held_out = Some(vec![true; 20]), good(), none.clone()), Some(Degenerate));
    assert_eq!(with(&|t| t.held_out = Some(vec![false; 20]), good(), none.clone()), Some(Degenerate));
    let halves: Vec<bool> = (0..20).map(|i| i >= 10).collect();
    let mixed: Vec<u32> = (0..20).map(|i| if i < 10 { i % 2 } else { 1 }).collect();
    assert_eq!(with(&|t| t.held_out = Some(halves.clone()), classes(mixed), json!({"metric": "auc"})), Some(Degenerate));
    assert_eq!(with(&|t| t.weight = Some(vec![-1.0; 20]), good(), none.clone()), Some(Values));
    assert_eq!(with(&|t| t.weight = Some(vec![f64::NAN; 20]), good(), none.clone()), Some(Values));
    assert_eq!(with(&|t| t.baseline = vec![vec![f64::NAN; 20]], good(), none.clone()), Some(Values));
    assert_eq!(with(&|t| t.target = Wanted::Numbers(vec![f64::NAN; 20]), good(), none.clone()), Some(Values));
    assert_eq!(with(&|t| t.target = Wanted::Numbers(vec![-1.0; 20]), good(), json!({"loss": "poisson"})), Some(Values));
    assert_eq!(with(&|t| t.columns.push(vec![1.0; 3]), good(), none.clone()), None);
    assert_eq!(with(&|_| (), good(), json!({"loss": "logloss"})), None);
    assert_eq!(with(&|_| (), good(), json!({"early_stopping": 3})), None);
    assert_eq!(with(&|_| (), good(), json!({"monotone": {"z": 1}})), None);

    let grown = |t: &Table, p| fault(taiga_testing::forest::try_grow(t, &taiga_testing::forest::params(p)));
    assert_eq!(grown(&good().filter(|i| i == 3), none.clone()), Some(Degenerate));
    assert_eq!(grown(&classes(vec![0; 20]), none.clone()), Some(Degenerate));
    assert_eq!(grown(&Table::numbers(vec![twenty()], vec![-1.0; 20]), json!({"criterion": "poisson"})), Some(Values));
    assert_eq!(grown(&good(), json!({"criterion": "gini"})), None);

    let rows: Vec<Vec<(i64, f64)>> = (0..20).map(|i| vec![(i % 3, 1.0)]).collect();
    let sparse = |codes: Vec<u32>| taiga_testing::linear::Table::new(&rows, codes, 2);
    let alternating: Vec<u32> = (0..20).map(|i| i % 2).collect();
    assert_eq!(fault(sparse(vec![1; 20]).try_fit(none.clone())), Some(Degenerate));
    let mut table = sparse(alternating.clone());
    table.dense = vec![vec![f64::INFINITY; 20]];
    assert_eq!(fault(table.try_fit(none.clone())), Some(Values));
    assert_eq!(fault(sparse(alternating).try_fit(json!({"features": 2}))), Some(Values));
}

/// Proves that a row fault reads as the error that it is of.
#[test]
fn a_row_fault_reads_as_its_error() {
    let error = Error::column("y", "is odd");
    assert_eq!(error.clone().degenerate().to_string(), error.to_string());
    assert_eq!(error.clone().of_values().to_string(), error.to_string());
    assert_eq!(error.rows_fault(), None);
}

/// Proves that a constant predicts what each loss makes of the training rows, weights counted and held-out rows not.
#[test]
fn a_constant_predicts_the_training_rows() {
    let mut t = Table::numbers(vec![vec![1.0; 4]], vec![1.0, 2.0, 6.0, 1e6]);
    t.held_out = Some(vec![false, false, false, true]);
    t.weight = Some(vec![1.0, 1.0, 2.0, 1.0]);
    for (loss, expected) in [("rmse", 3.75), ("mae", 2.0), ("poisson", 3.75), ("gamma", 3.75), ("tweedie", 3.75)] {
        let model = reread(&constant(&t.input(), &params(json!({ "loss": loss }))).unwrap());
        let predicted = predict(&model, &t);
        // The quantile of rows that weigh 1, 1 and 2 at one half lies from 2 to 6.
        let inside = if loss == "mae" { (2.0..=6.0).contains(&predicted[0][0]) } else { close(predicted[0][0], expected) };
        assert!(inside, "{loss}: {predicted:?}");
        assert_eq!((model.rows, model.trees.len(), predicted[0].len()), (3, 0, 4));
    }
    let one = Table::numbers(vec![vec![f64::NAN]], vec![-7.25]);
    let model = reread(&constant(&one.input(), &BoostingParams::default()).unwrap());
    assert_eq!(raw(&model, &one), [[-7.25]]);
    let predictor = Predictor::new(model);
    let columns = one.features();
    let bound = predictor.bind(&columns).unwrap();
    assert_eq!(predictor.leaves(&bound), [0u32; 0]);
    assert_eq!(predictor.staged(&bound), [[0.0; 0]]);
    assert_eq!(predictor.model().node_table(), []);
    assert_eq!(predictor.model().importance(taiga_engine::learners::boosting::model::explain::Importance::Gain), [0.0]);
    let _ = predictor.model().to_json();
}

/// Proves that a constant of classes predicts their shares, and of a single label that label.
#[test]
fn a_constant_of_classes_predicts_their_shares() {
    let codes = vec![0, 1, 1, 1];
    let table = |labels: Labels, codes: Vec<u32>| Table::classes(vec![vec![0.0; codes.len()]], codes, labels);
    let model = |t: &Table, p: serde_json::Value| reread(&constant(&t.input(), &params(p)).unwrap());
    let t = table(Labels::Boolean, codes.clone());
    assert!(close(predict(&model(&t, json!({})), &t)[0][0], 0.75));
    assert!((predict(&model(&t, json!({"class_weight": "balanced"})), &t)[0][0] - 0.5).abs() < 1e-7);
    for (code, p) in [(0, 1e-15), (1, 1.0 - 1e-15)] {
        let t = table(Labels::Boolean, vec![code; 3]);
        let model = model(&t, json!({}));
        assert!((predict(&model, &t)[0][0] - p).abs() < 1e-15);
        assert_eq!(Predictor::new(model.clone()).class(&raw(&model, &t)), [code; 3]);
    }
    for p in [json!({}), json!({"loss": "multiclass"}), json!({"loss": "logloss"}), json!({"class_weight": {"only": 2.0, "other": 1.0}})] {
        let t = table(text(&["only"]), vec![0, 0]);
        let model = model(&t, p);
        assert_eq!((model.outputs(), model.loss), (1, taiga_engine::losses::LossKind::Logloss));
        assert!((predict(&model, &t)[0][1] - 1.0).abs() < 1e-14);
        assert_eq!(Predictor::new(model.clone()).class(&raw(&model, &t)), [0, 0]);
    }
    let t = table(text(&["a", "b", "c"]), vec![2, 2, 0, 2]);
    let predicted = predict(&model(&t, json!({})), &t);
    assert!(close(predicted[0][0], 0.25) && predicted[1][0] < 1e-14 && close(predicted[2][0], 0.75), "{predicted:?}");
}

/// Proves that a constant checks all else that a fit checks.
#[test]
fn a_constant_is_refused_for_what_is_wrong_with_the_call() {
    let t = Table::numbers(vec![vec![1.0]], vec![1.0]);
    let refused = |t: &Table, p: serde_json::Value| constant(&t.input(), &params(p)).unwrap_err();
    assert!(refused(&t, json!({"loss": "logloss"})).to_string().contains("`loss`"));
    assert!(refused(&t, json!({"monotone": {"z": 1}})).to_string().contains("`monotone`"));
    assert!(refused(&t, json!({"early_stopping": 2})).to_string().contains("`early_stopping`"));
    assert!(refused(&t, json!({"class_weight": "balanced"})).to_string().contains("`class_weight`"));
    let empty = t.filter(|_| false);
    assert_eq!(refused(&empty, json!({})).rows_fault(), Some(RowsFault::Degenerate));
    let weightless = Table { weight: Some(vec![0.0]), ..t.clone() };
    assert_eq!(refused(&weightless, json!({})).rows_fault(), Some(RowsFault::Degenerate));
    let out = Table { held_out: Some(vec![true]), ..t.clone() };
    assert_eq!(refused(&out, json!({})).rows_fault(), Some(RowsFault::Degenerate));
    let nan = Table { target: Wanted::Numbers(vec![f64::NAN]), ..t.clone() };
    assert_eq!(refused(&nan, json!({})).rows_fault(), Some(RowsFault::Values));
    let odd = Table::classes(vec![vec![1.0]], vec![3], Labels::Boolean);
    assert_eq!(refused(&odd, json!({})).rows_fault(), None);
}

/// Proves the same of forests: one leaf with all rows, of one label too.
#[test]
fn a_constant_forest_is_one_leaf() {
    let grown = |t: &Table, p: serde_json::Value| {
        let forest = forest::constant(&taiga_testing::forest::input(t), &taiga_testing::forest::params(p)).unwrap();
        forest.validate().unwrap();
        assert_eq!(Forest::from_bytes(&forest.to_bytes()).unwrap(), forest);
        let predictor = forest::Predictor::new(forest);
        let columns = t.features();
        let shares = predictor.predict(&predictor.bind(&columns).unwrap());
        let class = predictor.class(&shares);
        (shares, class)
    };
    let mut t = Table::numbers(vec![vec![1.0; 3]], vec![1.0, 2.0, 6.0]);
    assert_eq!(grown(&t, json!({})).0, [[3.0; 3]]);
    t.weight = Some(vec![1.0, 0.0, 3.0]);
    assert!(close(grown(&t, json!({"permutation_importance": true})).0[0][0], 4.75));
    let t = Table::classes(vec![vec![1.0; 4]], vec![0, 1, 1, 1], Labels::Boolean);
    assert_eq!(grown(&t, json!({})).0, [[0.25; 4], [0.75; 4]]);
    let one = Table::classes(vec![vec![1.0; 2]], vec![0, 0], text(&["only"]));
    assert_eq!(grown(&one, json!({"class_weight": {"other": 3.0}})), (vec![vec![1.0; 2]], vec![0, 0]));
    let input = Table::numbers(vec![vec![]], vec![]);
    let error = forest::constant(&taiga_testing::forest::input(&input), &ForestParams::default()).unwrap_err();
    assert_eq!(error.rows_fault(), Some(RowsFault::Degenerate));
}

/// Proves the same of sparse logistic regressions: intercepts alone.
#[test]
fn a_constant_linear_model_is_its_intercepts() {
    let rows: Vec<Vec<(i64, f64)>> = (0..4).map(|i| vec![(i, 1.0)]).collect();
    let predicted = |codes: Vec<u32>, classes: usize, p: serde_json::Value| {
        let table = taiga_testing::linear::Table::new(&rows, codes, classes);
        let model = linear::constant(&table.input(), &LinearParams::from_json(&p).unwrap()).unwrap();
        model.validate().unwrap();
        assert_eq!(LinearModel::from_bytes(&model.to_bytes()).unwrap().to_bytes(), model.to_bytes());
        assert_eq!(model.coefficients().count(), 0);
        let _ = model.to_json();
        let predictor = linear::Predictor::new(model);
        let sparse = table.sparse();
        let mut raw = predictor.raw(Some(&sparse), &[]).unwrap();
        let class = predictor.class(&raw);
        predictor.link(&mut raw);
        (raw.iter().map(|r| r[0]).collect::<Vec<f64>>(), class[0])
    };
    let (p, class) = predicted(vec![0, 1, 1, 1], 2, json!({"fit_intercept": false}));
    assert!(close(p[0], 0.75) && class == 1);
    assert!(predicted(vec![0; 4], 2, json!({})).0[0] < 1e-14);
    let (p, class) = predicted(vec![0; 4], 1, json!({}));
    assert!((p[0] - 1.0).abs() < 1e-14 && class == 0);
    let (p, class) = predicted(vec![2, 2, 0, 2], 3, json!({}));
    assert!(close(p[0], 0.25) && close(p[2], 0.75) && class == 2, "{p:?}");
}

/// Proves that features without two values are fitted: trees of one leaf, which predict the mean, under every policy, with
/// categories, draws, held-out rows and baselines.
#[test]
fn constant_features_are_fitted() {
    let y: Vec<f64> = (0..50).map(|i| f64::from(i % 7)).collect();
    let mean = y.iter().sum::<f64>() / 50.0;
    for columns in [vec![vec![4.0; 50]], vec![vec![f64::NAN; 50]], vec![vec![4.0; 50], vec![f64::NAN; 50]], vec![vec![f64::INFINITY; 50]]] {
        let t = Table::numbers(columns, y.clone());
        for policy in POLICIES {
            for p in [
                json!({"l2": 0.0, "min_child_weight": 0.0}),
                json!({"feature_fraction": 0.5, "feature_fraction_level": 0.5}),
                json!({"bundle": false, "min_data_in_leaf": 5}),
                json!({"n_threads": 2}),
                json!({"interaction": [["x0"]], "monotone": {"x0": 1}}),
            ] {
                let p = taiga_testing::params_with(json!({"policy": policy, "rounds": 5}), p);
                let model = reread(&t.fit(&p));
                assert!(model.trees.iter().all(|t| t.leaves().len() == 1 && t.splits().count() == 0));
                assert!(predict(&model, &t)[0].iter().all(|x| (x - mean).abs() < 1e-5), "{p:?}");
            }
        }
        for sample in ["bernoulli", "goss", "mvs", "bayesian"] {
            t.fit(&params(json!({"row_sample": sample, "rounds": 5})));
        }
        let quantile = t.fit(&params(json!({"loss": "quantile", "alpha": 0.9})));
        assert!(predict(&quantile, &t)[0].iter().all(|x| *x == 6.0));
    }
    let mut t = Table::numbers(vec![vec![4.0; 50]], y.clone());
    t.baseline = vec![vec![1.0; 50]];
    let offset = t.fit(&params(json!({"rounds": 300, "l2": 0.0})));
    assert!((raw(&offset, &t)[0][0] + 1.0 - mean).abs() < 1e-3);
    t.baseline.clear();
    t.held_out = Some((0..50).map(|i| i % 5 == 0).collect());
    let stopped = t.fit(&params(json!({"early_stopping": 3})));
    assert!(stopped.history.is_some_and(|h| h.values.iter().all(|v| v.is_finite())));
    let classes = Table::classes(vec![vec![1.0; 9]], (0..9).map(|i| i % 3).collect(), text(&["a", "b", "c"]));
    assert!(predict(&classes.fit(&BoostingParams::default()), &classes).iter().flatten().all(|p| (p - 1.0 / 3.0).abs() < 1e-5));
    taiga_testing::forest::grow(&classes, &ForestParams::default());
}

/// Columns of text, and what a fit on them comes to.
fn fit_text(columns: &[Vec<Option<&str>>], target: Target<'_>, p: serde_json::Value) -> Result<Model> {
    let columns: Vec<CategoryColumn> =
        columns.iter().enumerate().map(|(i, c)| CategoryColumn::text(&format!("c{i}"), &[c.len()], |_, r| c[r]).unwrap()).collect();
    let input = Input {
        features: columns.iter().map(Column::categorical).collect(),
        target,
        target_name: "y".into(),
        weight: None,
        baseline: vec![],
        held_out: None,
        loss_columns: Default::default(),
        evaluation: Default::default(),
        order: None,
    };
    fit(&input, &params(p), &Quiet)
}

/// Proves that tables of text alone are fitted where every statistic of a category has one value, as in small groups.
#[test]
fn text_whose_statistics_are_constant_is_fitted() {
    let ids: Vec<Option<&str>> = vec![Some("a"), Some("b"), Some("c")];
    let same = vec![Some("a"); 3];
    let nulls = vec![None; 3];
    let empty = vec![Some(""), None, Some("")];
    let y = [0.0, 1.0, 2.0];
    let codes = [0, 1, 0];
    for columns in
        [vec![ids.clone()], vec![same.clone()], vec![nulls.clone()], vec![ids.clone(), ids.clone()], vec![empty, ids, same, nulls]]
    {
        for policy in POLICIES {
            for method in ["ctr", "one_hot", "partition"] {
                if (policy, method) == ("symmetric", "partition") {
                    continue;
                }
                for ctr in [json!(null), json!(["counter"]), json!(["borders"]), json!(["float_target_mean_value"])] {
                    let p = json!({"policy": policy, "cat_method": method, "ctr": ctr, "rounds": 4, "feature_fraction": 0.4, "one_hot_max_size": 1});
                    for classes in [false, true] {
                        let target = match classes {
                            true => Target::Classes { codes: &codes, labels: Labels::Boolean },
                            false => Target::Numbers(Column::from_f64("y", &y)),
                        };
                        reread(&fit_text(&columns, target, p.clone()).unwrap_or_else(|e| panic!("{e}: {p}")));
                    }
                }
            }
        }
    }
}

/// Proves that of classes the mean target is that of their numbers, scaled to 0 and 1: for two classes the same splits as
/// by the share of the second.
#[test]
fn float_target_mean_value_takes_classes() {
    let names: Vec<String> = (0..600).map(|i| format!("k{}", (i * i) % 37)).collect();
    let column: Vec<Option<&str>> = names.iter().map(|n| Some(n.as_str())).collect();
    let codes: Vec<u32> = (0..600).map(|i| ((i * i) % 37 > 17) as u32).collect();
    let fitted = |kind: &str, labels: Labels, codes: &[u32]| {
        let p = json!({"ctr": [kind], "rounds": 5, "permutations": 1});
        fit_text(std::slice::from_ref(&column), Target::Classes { codes, labels }, p).unwrap()
    };
    let (float, shares) = (fitted("float_target_mean_value", Labels::Boolean, &codes), fitted("borders", Labels::Boolean, &codes));
    let leaves = |m: &Model| m.trees.iter().flat_map(|t| t.leaves().to_vec()).collect::<Vec<_>>();
    assert!(float.trees.iter().any(|t| t.splits().count() > 0));
    assert_eq!(leaves(&float), leaves(&shares));
    let three: Vec<u32> = (0..600).map(|i| ((i * i) % 37 / 13) as u32).collect();
    let (float, binarized) = (
        fitted("float_target_mean_value", text(&["a", "b", "c"]), &three),
        fitted("binarized_target_mean_value", text(&["a", "b", "c"]), &three),
    );
    assert_eq!(leaves(&float), leaves(&binarized));
}

/// Proves that values that no coefficient can be found for are refused by column and row, in dense columns and in lists;
/// they were fitted by 0, or by the wrong coefficient, as converged.
#[test]
fn values_too_large_to_square_are_refused() {
    let codes: Vec<u32> = (0..20).map(|i| (i % 4) / 2).collect();
    let table = |dense: f64, value: f64| {
        let rows: Vec<Vec<(i64, f64)>> = (0..20).map(|i| vec![(i % 3, if i == 4 { value } else { 1.0 })]).collect();
        let mut t = taiga_testing::linear::Table::new(&rows, codes.clone(), 2);
        t.dense = vec![(0..20).map(|i| f64::from(i % 4) * dense).collect()];
        t
    };
    let p = || json!({"l2": 0.01});
    assert!(table(1e17, 1e17).try_fit(p()).is_ok());
    for (t, says) in
        [(table(1e100, 1.0), "column `d0`: the value 1e100 in row 1 is"), (table(1.0, -1e19), "column `v`: the value -1e19 in row 4 is")]
    {
        let error = t.try_fit(p()).unwrap_err();
        assert!(error.to_string().starts_with(says), "{error}");
        assert_eq!(error.rows_fault(), Some(RowsFault::Values));
    }
    let tiny = table(1e-100, 1.0);
    assert!(tiny.try_fit(json!({})).is_ok());
    assert!(tiny.try_fit(json!({"l2": 0.0})).unwrap_err().to_string().contains("`d0`: its largest value is 3e-100"));
}

/// Proves that tables of hardly any rows, of odd values, are fitted or refused with an error, under every learner.
#[test]
fn tiny_tables_never_panic() {
    let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e308, -1e308, -0.0, 0.0, 1e-320, 1.0];
    let mut fitted = 0;
    for n in 0..4usize {
        for shift in 0..values.len() {
            let column = |by: usize| (0..n).map(|i| values[(i * by + shift) % values.len()]).collect::<Vec<f64>>();
            let y = |scale: f64| (0..n).map(|i| i as f64 * scale).collect::<Vec<f64>>();
            let codes = |k: u32| (0..n as u32).map(|i| (i + shift as u32) % k).collect::<Vec<u32>>();
            let tables = [
                Table::numbers(vec![column(1), column(0)], y(1.0)),
                Table::numbers(vec![column(0)], y(1e308)),
                Table::numbers(vec![column(2)], y(0.0)),
                Table::classes(vec![column(1)], codes(2), Labels::Boolean),
                Table::classes(vec![column(1)], codes(3), text(&["a", "b", "c"])),
                Table::classes(vec![column(1)], codes(1), text(&["a"])),
            ];
            for t in &tables {
                for policy in POLICIES {
                    for sample in
                        [json!({}), json!({"row_sample": "mvs"}), json!({"row_sample": "goss"}), json!({"row_sample": "bernoulli"})]
                    {
                        fitted += t.try_fit(&taiga_testing::params_with(json!({"policy": policy, "rounds": 3}), sample)).is_ok() as usize;
                    }
                }
                for splitter in ["histogram", "exact", "random"] {
                    let p = taiga_testing::forest::params(json!({"splitter": splitter, "trees": 3, "permutation_importance": true}));
                    fitted += taiga_testing::forest::try_grow(t, &p).is_ok() as usize;
                }
                let weighted = Table { weight: Some((0..n).map(|i| i as f64 * 1e-300).collect()), ..t.clone() };
                fitted += weighted.try_fit(&BoostingParams::default()).is_ok() as usize;
                if n > 0 {
                    let _ = constant(&t.input(), &BoostingParams::default());
                    let _ = forest::constant(&taiga_testing::forest::input(t), &ForestParams::default());
                }
            }
        }
    }
    assert!(fitted > 500, "{fitted}");
}
