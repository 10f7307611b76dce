//! `feature_weights`: what the gains of features count when splits are compared.

use serde_json::{Value, json};
use taiga_engine::column::Column;
use taiga_engine::column::categories::CategoryColumn;
use taiga_engine::dataset::{Input, Quiet};
use taiga_engine::learners::boosting::fit;
use taiga_engine::learners::boosting::model::{Derived, Model};
use taiga_engine::learners::boosting::params::BoostingParams;
use taiga_testing::{Dice, POLICIES, Table, params, params_with, table};

/// Columns `x0` and so on, sparse ones among them, and two of categories, `c0` and `c1`, whose pairs have an effect of their own.
struct Mixed {
    table: Table,
    categories: Vec<CategoryColumn>,
}

impl Mixed {
    fn new(rows: usize, seed: u64) -> Mixed {
        let mut dice = Dice::new(seed);
        let mut t = table(rows, seed);
        t.columns.extend((0..6).map(|k| (0..rows).map(|i| (i % 12 == k) as u8 as f64).collect::<Vec<f64>>()));
        let codes: Vec<Vec<u64>> = (0..2).map(|_| (0..rows).map(|_| dice.below(9)).collect()).collect();
        let effect = |k: u64| (k * 2_654_435_761 % 1000) as f64 / 400.0;
        let y = t.y().iter().enumerate().map(|(i, y)| y + effect(codes[0][i]) + effect(codes[0][i] * 31 + codes[1][i])).collect();
        let named = |(i, codes): (usize, &Vec<u64>)| {
            let text: Vec<String> = codes.iter().map(|k| format!("k{k}")).collect();
            CategoryColumn::text(&format!("c{i}"), &[rows], |_, r| Some(text[r].as_str())).unwrap()
        };
        let categories = codes.iter().enumerate().map(named).collect();
        Mixed { table: Table::numbers(t.columns, y), categories }
    }

    fn fit(&self, p: &BoostingParams) -> Model {
        let input = self.table.input();
        let features = input.features.into_iter().chain(self.categories.iter().map(Column::categorical)).collect();
        fit(&Input { features, ..input }, p, &Quiet).unwrap()
    }
}

/// Returns what fits are made with besides: under every policy, noise, drawn borders and features, and every way to split categories.
fn ways() -> Vec<Value> {
    let mut ways = vec![];
    for policy in POLICIES {
        for more in [
            json!({}),
            json!({ "random_strength": 0.7 }),
            json!({ "extra_trees": true, "feature_fraction": 0.7 }),
            json!({ "cat_method": "one_hot", "bundle": false }),
            json!({ "cat_method": if policy == "symmetric" { "one_hot" } else { "partition" } }),
            json!({ "max_combination": 1, "loss": "mae" }),
        ] {
            let mut way = json!({ "policy": policy, "rounds": 5, "seed": 3 });
            way.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            ways.push(way);
        }
    }
    ways
}

/// Returns the names of the table's columns that splits of a model are on, those of statistics included.
fn used(model: &Model) -> Vec<String> {
    let mut names = vec![];
    for split in model.trees.iter().flat_map(|tree| tree.splits()) {
        let feature = split.feature as usize;
        let columns = match feature.checked_sub(model.features.len()).map(|derived| &model.derived[derived]) {
            None => vec![feature as u32],
            Some(Derived::OneOf { feature, .. }) => vec![*feature],
            Some(Derived::Ctr { table, .. } | Derived::Hashed { table, .. }) => model.tables[*table as usize].features.clone(),
        };
        names.extend(columns.into_iter().map(|column| model.features[column as usize].name.clone()));
    }
    names
}

/// Returns the model's bytes but for what it says of weights.
fn without_weights(model: Model) -> Vec<u8> {
    let params = BoostingParams { feature_weights: None, ..model.params.clone() };
    Model { params, ..model }.to_bytes()
}

/// Proves that weights that are all the same are none, whatever they are; also for statistics of several columns.
#[test]
fn equal_weights_are_none() {
    let t = Mixed::new(1500, 1);
    let names: Vec<String> = (0..t.table.columns.len()).map(|i| format!("x{i}")).chain(["c0".into(), "c1".into()]).collect();
    for way in ways() {
        let plain = t.fit(&params(way.clone())).to_bytes();
        for weight in [1.0, 0.3, 7.0, 1e300, 1e-300] {
            let weights: Value = names.iter().map(|name| (name.clone(), json!(weight))).collect::<serde_json::Map<_, _>>().into();
            let model = t.fit(&params_with(way.clone(), json!({ "feature_weights": weights })));
            assert_eq!(model.to_bytes()[8], 14, "the version");
            assert!(Model::from_bytes(&model.to_bytes()).unwrap() == model, "{weight}: {way}");
            assert!(without_weights(model) == plain, "{weight}: {way}");
        }
        let empty = t.fit(&params_with(way.clone(), json!({ "feature_weights": {} })));
        assert!(empty.to_bytes() == plain, "{way}");
    }
}

/// Proves that nothing is split on a feature of weight 0: numbers, sparse ones, categories, and their statistics with others; that the rest is as
/// if the column were not there; and that weights decide at all.
#[test]
fn features_of_weight_0_split_nothing() {
    let t = Mixed::new(1500, 2);
    for way in ways() {
        let plain = used(&t.fit(&params(way.clone())));
        for (zero, weights) in [
            ("x0", json!({ "x0": 0 })),
            ("x4", json!({ "x4": 0, "x1": 0.2 })),
            ("c0", json!({ "c0": 0 })),
            ("c1", json!({ "c1": 0, "c0": 30, "x0": 0.001 })),
        ] {
            let model = t.fit(&params_with(way.clone(), json!({ "feature_weights": weights })));
            let names = used(&model);
            assert!(!names.is_empty() && !names.iter().any(|name| name == zero), "{zero}: {way}");
        }
        assert!(["x0", "c0"].iter().all(|name| plain.iter().any(|used| used == name)), "{plain:?}: {way}");
    }
    for (case, policy) in POLICIES.into_iter().enumerate() {
        for more in [json!({}), json!({ "random_strength": 1.0 }), json!({ "feature_fraction_level": 0.6, "extra_trees": true })] {
            let all = table(1200, case as u64);
            let last = all.columns.len() - 1;
            let fewer = Table { columns: all.columns[..last].to_vec(), ..table(1200, case as u64) };
            let p = |weights: Value| params_with(json!({ "policy": policy, "rounds": 5, "feature_weights": weights }), more.clone());
            let mut weights = json!({ "x0": 0.4 });
            let without = fewer.fit(&p(weights.clone()));
            weights[format!("x{last}")] = json!(0.0);
            assert!(all.fit(&p(weights)).trees == without.trees, "{policy}, {more}");
        }
    }
}

/// Proves that gains are told, and held against `min_gain`, as they are without weights.
#[test]
fn gains_are_told_without_weights() {
    for policy in POLICIES {
        let mut dice = Dice::new(4);
        let x: Vec<Vec<f64>> = (0..2).map(|_| (0..400).map(|_| dice.below(2) as f64).collect()).collect();
        let y = (0..400).map(|i| 3.0 * x[0][i] + 2.0 * x[1][i]).collect();
        let t = Table::numbers(x.clone(), y);
        let stump = |weights: Value, least: f64| {
            let tree = json!({ "policy": policy, "rounds": 1, "depth": 1, "min_gain": least, "feature_weights": weights });
            t.fit(&params(tree)).trees[0].splits().map(|split| (split.feature, split.gain)).collect::<Vec<_>>()
        };
        let (first, second) = (stump(json!({}), 0.0), stump(json!({ "x0": 0 }), 0.0));
        assert!(first[0].0 == 0 && second[0].0 == 1 && first[0].1 > second[0].1, "{policy}: {first:?} {second:?}");
        assert_eq!(stump(json!({ "x1": 100.0 }), 0.0), second, "{policy}");
        assert_eq!(stump(json!({ "x0": 0.001 }), 0.0), second, "{policy}");
        // Of those that gain enough the one whose weighted gain is the largest.
        let between = 0.5 * (first[0].1 + second[0].1) as f64;
        assert_eq!(stump(json!({ "x1": 100.0 }), between), first, "{policy}");
    }
}

/// Proves that what is made of several columns counts as the one of them that counts least.
#[test]
fn combinations_count_as_the_least_of_their_columns() {
    let t = Mixed::new(3000, 5);
    let pairs = |weights: Value| {
        let model = t.fit(&params(json!({ "rounds": 12, "learning_rate": 0.5, "seed": 1, "feature_weights": weights })));
        let of_two = model.tables.iter().filter(|table| table.features.len() > 1).count();
        (of_two, used(&model).iter().filter(|name| *name == "c1").count())
    };
    let (plain, light) = (pairs(json!({})), pairs(json!({ "c1": 1e-6 })));
    assert!(plain.0 > 0 && light.1 < plain.1, "{plain:?} {light:?}");
    assert_eq!(pairs(json!({ "c1": 0 })), (0, 0));
}
