//! Predictions of the GPU have the CPU's bits: random models of every shape, and fitted ones with categories.

use crate::shap::same_explanations;
use serde_json::json;
use taiga_engine::column::Column;
use taiga_engine::column::categories::CategoryColumn;
use taiga_engine::cuda::DeviceColumn;
use taiga_engine::cuda::predict::DevicePredictor;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::dataset::{Input, Quiet, Target};
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::model::apply::Predictor;
use taiga_engine::learners::boosting::{BoostingParams, fit};
use taiga_engine::shap::Terms;
use taiga_testing::gpu::{gpu, say};
use taiga_testing::hashed::{columns_of, hashed_model, hashed_rows, views};
use taiga_testing::model::{Dice, Kind, branching, model, values, with_linear_leaves};

fn bits(scores: &[Vec<f64>]) -> Vec<Vec<u64>> {
    scores.iter().map(|s| s.iter().map(|x| x.to_bits()).collect()).collect()
}

fn same(what: &str, predictor: &Predictor, columns: &[&Column<'_>]) {
    let gpu = gpu();
    let on_device = DevicePredictor::new(gpu.queue.gpu(), predictor).expect("a model on the GPU");
    let found = on_device.raw(&gpu.queue, columns).expect("predictions");
    assert_eq!(bits(&found), bits(&predictor.raw(columns)), "{what}");
    assert_eq!(on_device.leaves(&gpu.queue, columns).expect("leaves"), predictor.leaves(columns), "{what}: leaves");
    let stages = on_device.staged(&gpu.queue, columns).expect("predictions after every round");
    assert_eq!(bits(&stages), bits(&predictor.staged(columns)), "{what}: after every round");
    if predictor.model().derived.is_empty() && predictor.model().linear.is_empty() && columns.first().is_some_and(|c| !c.is_empty()) {
        let columns: Vec<DeviceColumn> = columns.iter().map(|c| DeviceColumn::numeric(&gpu.queue, c).expect("room")).collect();
        let resident = gpu.download(&on_device.raw_on_device(&gpu.queue, &columns).expect("predictions"));
        assert_eq!(resident.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), bits(&found).concat(), "{what}: columns on the GPU");
    }
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn random_models_predict_the_same() {
    gpu();
    let dice = &mut Dice(17);
    let mut done = 0;
    for case in 0..120 {
        let kind = Kind {
            seed: dice.bits(),
            features: 1 + dice.below(6),
            trees: 0,
            outputs: 1 + dice.below(3),
            depth: dice.below(11),
            symmetric: [0, 50, 100][dice.below(3)],
            borders: [1, 3, 40, 254, 255][dice.below(5)],
        };
        let kind = Kind { trees: kind.outputs * dice.below(8), ..kind };
        let mut model = model(kind);
        if case % 10 == 0 {
            // More leaves than a byte numbers.
            let tree = branching(dice, &model.features, 700);
            model.trees.extend((0..model.start.len()).map(|_| tree.clone()));
        }
        let rows = [1, 3, 255, 256, 1000, 70_003][dice.below(6)];
        let data: Vec<Vec<f64>> = model.features.iter().map(|f| values(dice, f, rows)).collect();
        let narrow: Vec<Vec<f32>> = data.iter().map(|c| c.iter().map(|x| *x as f32).collect()).collect();
        if case % 3 == 0 {
            model = with_linear_leaves(model, dice.bits());
        }
        let predictor = Predictor::new(model);
        let wide: Vec<_> = data.iter().enumerate().map(|(i, v)| Column::from_f64(format!("f{i}"), v)).collect();
        let narrow: Vec<_> = narrow.iter().enumerate().map(|(i, v)| Column::from_f32(format!("f{i}"), v)).collect();
        for columns in [&wide, &narrow] {
            same(&format!("{kind:?}, {rows} rows"), &predictor, &columns.iter().collect::<Vec<_>>());
            done += 1;
        }
    }
    say(&format!("predictions: {done} models and tables, all equal"));
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn no_rows_have_no_predictions() {
    gpu();
    let kind = Kind { seed: 3, features: 2, trees: 4, outputs: 2, depth: 3, symmetric: 50, borders: 40 };
    let predictor = Predictor::new(model(kind));
    let columns = [Column::from_f64("f0", &[]), Column::from_f64("f1", &[])];
    same("no rows", &predictor, &columns.iter().collect::<Vec<_>>());
}

/// Categories with effects of their own and of a pair; some rows are null.
fn table(rows: usize, dice: &mut Dice, cardinalities: &[usize]) -> (Vec<Vec<Option<String>>>, Vec<f64>, Vec<f64>) {
    let codes: Vec<Vec<usize>> = cardinalities.iter().map(|k| (0..rows).map(|_| dice.below(*k) * dice.below(*k) / k).collect()).collect();
    let text = codes.iter().map(|c| c.iter().map(|k| (dice.below(30) > 0).then(|| format!("k{k}"))).collect()).collect();
    let x: Vec<f64> = (0..rows).map(|_| if dice.below(20) == 0 { f64::NAN } else { dice.unit() }).collect();
    let effect = |k: usize| ((k * 2_654_435_761) % 1000) as f64 / 500.0 - 1.0;
    let y = (0..rows).map(|i| codes.iter().map(|c| effect(c[i])).sum::<f64>() + effect(codes[0][i] * 31 + codes[1][i]) + x[i].max(0.0));
    let y = y.collect();
    (text, x, y)
}

fn fitted(text: &[Vec<Option<String>>], x: &[f64], y: &[f64], params: serde_json::Value) -> Model {
    let column = |(i, c): (usize, &Vec<Option<String>>)| CategoryColumn::text(&format!("c{i}"), &[c.len()], |_, r| c[r].as_deref());
    let categories: Vec<CategoryColumn> = text.iter().enumerate().map(column).map(Result::unwrap).collect();
    let mut features: Vec<Column<'_>> = categories.iter().map(Column::categorical).collect();
    features.push(Column::from_f64("x", x));
    let codes: Vec<u32> = y.iter().map(|y| ((y + 2.0).max(0.0) as u32).min(2)).collect();
    let target = match params["loss"].as_str() {
        Some("multiclass") => Target::Classes { codes: &codes, labels: Labels::Integer(vec![0, 1, 2]) },
        _ => Target::Numbers(Column::from_f64("y", y)),
    };
    let input = Input {
        features,
        target,
        target_name: "y".into(),
        weight: None,
        baseline: vec![],
        held_out: None,
        loss_columns: Default::default(),
        evaluation: Default::default(),
        order: None,
    };
    fit(&input, &BoostingParams::from_json(&params).unwrap(), &Quiet).unwrap()
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn models_with_categories_predict_the_same() {
    gpu();
    let dice = &mut Dice(5);
    let (text, x, y) = table(900, dice, &[30, 6, 12]);
    let (other, other_x, _) = table(5000, dice, &[60, 9, 12]);
    for params in [
        json!({ "rounds": 12 }),
        json!({ "rounds": 6, "max_combination": 3 }),
        json!({ "rounds": 12, "policy": "depthwise", "cat_method": "one_hot" }),
        json!({ "rounds": 12, "policy": "leafwise", "cat_method": "partition" }),
        json!({ "rounds": 8, "ctr": ["buckets", "counter", "binarized_target_mean_value"], "ctr_borders": 40 }),
        json!({ "rounds": 6, "loss": "multiclass", "policy": "depthwise" }),
    ] {
        let predictor = Predictor::new(fitted(&text, &x, &y, params.clone()));
        for (text, x) in [(&text, &x), (&other, &other_x)] {
            let code = |i: usize, text: &Option<String>| {
                let lookup = predictor.lookup(i)?;
                text.as_ref().map_or(lookup.null(), |t| lookup.text(t))
            };
            let codes: Vec<Vec<u32>> =
                text.iter().enumerate().map(|(i, c)| c.iter().map(|t| code(i, t).unwrap_or(u32::MAX)).collect()).collect();
            let mut columns: Vec<Column<'_>> = codes.iter().enumerate().map(|(i, c)| Column::codes(format!("c{i}"), c)).collect();
            columns.push(Column::from_f64("x", x));
            let columns = predictor.bind(&columns).unwrap();
            same(&params.to_string(), &predictor, &columns);
            for terms in [Terms::Values, Terms::Interactions] {
                same_explanations(&format!("{params}, {terms:?}"), &predictor, &columns, terms, None);
            }
        }
    }
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn models_that_find_numbers_by_hashes_predict_the_same() {
    gpu();
    for seed in 0..40 {
        let predictor = Predictor::new(hashed_model(seed));
        let rows = hashed_rows(predictor.model(), [1, 3, 255, 256, 1000, 70_003][seed as usize % 6], seed);
        let table = columns_of(&rows);
        let columns = views(&table);
        let columns = predictor.bind(&columns).unwrap();
        same(&format!("seed {seed}"), &predictor, &columns);
        same_explanations(&format!("seed {seed}"), &predictor, &columns[..], Terms::Values, None);
    }
}
