//! What weights mean, whatever their size: a row of weight 0 is as if it were not there, and a factor common to all weights
//! changes nothing that is not in units of them.

use serde_json::{Value, json};
use taiga_engine::column::categories::CategoryColumn;
use taiga_engine::column::{Chunk, Column, Values};
use taiga_engine::dataset::Target;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::encoding::TargetEncoder;
use taiga_engine::encoding::target::{EncodingInput, EncodingPlan, EncodingTarget, TargetParams, target_encode};
use taiga_engine::learners::boosting::BoostingParams;
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::model::apply::Predictor;
use taiga_engine::learners::boosting::model::explain::Importance;
use taiga_engine::learners::forest::params::Splitter;
use taiga_engine::learners::forest::{Forest, ForestParams};
use taiga_engine::learners::linear::{Items, LinearModel, LinearParams, ListChunk, ListColumn, Offsets, SparseRows, Texts};
use taiga_engine::learners::{boosting, forest, linear};
use taiga_engine::tree::Tree;
use taiga_testing::{Dice, POLICIES};

/// Rows with two numeric columns, one of categories, weights of which a third are 0, and marks of held-out rows.
#[derive(Clone)]
struct Rows {
    x: [Vec<f64>; 2],
    text: Vec<String>,
    y: Vec<f64>,
    weight: Vec<f64>,
    held_out: Vec<bool>,
    /// How many classes `y` is cut into; 0: numbers.
    classes: u32,
}

impl Rows {
    fn new(rows: usize, classes: u32, seed: u64) -> Rows {
        let mut dice = Dice::new(seed);
        let x = [0, 1].map(|_| (0..rows).map(|_| if dice.chance(0.05) { f64::NAN } else { dice.normal() }).collect::<Vec<f64>>());
        let category: Vec<u64> = (0..rows).map(|_| dice.below(4) * dice.below(10)).collect();
        let value = |f: usize, i: usize| if x[f][i].is_nan() { 0.7 } else { x[f][i] };
        let y = (0..rows).map(|i| value(0, i) - value(1, i) * value(0, i) + (category[i] % 5) as f64 * 0.7 + 0.2 * dice.normal()).collect();
        let weight = (0..rows).map(|_| if dice.chance(0.35) { 0.0 } else { 0.1 + 3.0 * dice.unit() }).collect();
        let held_out = (0..rows).map(|_| dice.chance(0.25)).collect();
        Rows { x, text: category.iter().map(|c| format!("k{c}")).collect(), y, weight, held_out, classes }
    }

    fn len(&self) -> usize {
        self.y.len()
    }

    /// The rows that weigh something.
    fn counted(&self) -> Rows {
        let keep = |i: &usize| self.weight[*i] > 0.0;
        fn of<T: Clone>(values: &[T], keep: impl Fn(&usize) -> bool) -> Vec<T> {
            (0..values.len()).filter(keep).map(|i| values[i].clone()).collect()
        }
        Rows {
            x: [of(&self.x[0], keep), of(&self.x[1], keep)],
            text: of(&self.text, keep),
            y: of(&self.y, keep),
            weight: of(&self.weight, keep),
            held_out: of(&self.held_out, keep),
            classes: self.classes,
        }
    }

    /// The same rows, but for what those of weight 0 hold.
    fn scrambled(&self, seed: u64) -> Rows {
        let (mut out, mut dice) = (self.clone(), Dice::new(seed));
        for i in (0..self.len()).filter(|i| self.weight[*i] == 0.0) {
            out.x.iter_mut().for_each(|x| x[i] = 1e6 * dice.normal());
            out.text[i] = format!("other{}", dice.below(50));
            out.y[i] = 1e9 * dice.unit();
        }
        out
    }

    /// As many classes as are asked for, or the numbers from 0 up.
    fn codes(&self) -> Vec<u32> {
        self.y.iter().map(|y| (y.abs() * 2.0) as u32 % self.classes.max(1)).collect()
    }

    fn labels(&self) -> Labels {
        if self.classes == 2 { Labels::Boolean } else { Labels::Integer((0..self.classes as i64).collect()) }
    }

    fn category(&self) -> CategoryColumn {
        CategoryColumn::text("c", &[self.len()], |_, row| Some(self.text[row].as_str())).unwrap()
    }

    /// Calls `visit` with the table as boosted trees and forests take it; the numeric columns lie in two chunks.
    fn with<R>(&self, evaluates: bool, visit: impl FnOnce(&taiga_engine::dataset::Input<'_>) -> R) -> R {
        let (codes, category) = (self.codes(), self.category());
        let middle = self.len() / 3;
        let singles: Vec<f32> = self.x[1].iter().map(|x| *x as f32).collect();
        let chunk = |v| Chunk::new(v, None);
        let column = |name: &str, a, b| Column::new(name, taiga_engine::column::FeatureType::Numeric, vec![chunk(a), chunk(b)]);
        let input = taiga_engine::dataset::Input {
            features: vec![
                column("x0", Values::F64(&self.x[0][..middle]), Values::F64(&self.x[0][middle..])),
                Column::categorical(&category),
                column("x1", Values::F32(&singles[..middle]), Values::F32(&singles[middle..])),
            ],
            target: match self.classes {
                0 => Target::Numbers(Column::from_f64("y", &self.y)),
                _ => Target::Classes { codes: &codes, labels: self.labels() },
            },
            target_name: "y".into(),
            weight: Some(Column::from_f64("w", &self.weight)),
            baseline: vec![],
            held_out: evaluates.then_some(&self.held_out),
            loss_columns: Default::default(),
            evaluation: Default::default(),
            order: None,
        };
        visit(&input)
    }

    fn boost(&self, params: &Value, evaluates: bool) -> Model {
        let parsed = BoostingParams::from_json(params).unwrap();
        self.with(evaluates, |input| boosting::fit(input, &parsed, &taiga_engine::dataset::Quiet))
            .unwrap_or_else(|e| panic!("{e}: {params}"))
    }

    /// Only the splitter of histograms takes categories.
    fn grow(&self, params: &Value) -> Forest {
        let parsed = ForestParams::from_json(params).unwrap();
        let takes = |column: &&Column<'_>| parsed.splitter == Splitter::Histogram || column.categories().is_none();
        let fit = |input: &taiga_engine::dataset::Input<'_>| {
            let input = forest::Input {
                features: input.features.iter().filter(takes).cloned().collect(),
                target: input.target.clone(),
                target_name: input.target_name.clone(),
                weight: input.weight.clone(),
            };
            forest::fit(&input, &parsed, &taiga_engine::dataset::Quiet)
        };
        self.with(false, fit).unwrap_or_else(|e| panic!("{e}: {params}"))
    }

    fn raw(&self, model: &Model) -> Vec<f64> {
        let predictor = Predictor::new(model.clone());
        let code = |text: &String| predictor.lookup(1).and_then(|lookup| lookup.text(text)).unwrap_or(u32::MAX);
        let codes: Vec<u32> = self.text.iter().map(code).collect();
        let columns = [Column::from_f64("x0", &self.x[0]), Column::codes("c", &codes), Column::from_f64("x1", &self.x[1])];
        predictor.raw(&predictor.bind(&columns).unwrap()).concat()
    }
}

/// Proves that boosted trees of a table with rows of weight 0 are those of the table without them, byte for byte, and so that
/// nothing in such a row takes part: under every policy, every way to draw rows and to split categories, with held-out rows.
#[test]
fn boosted_trees_know_nothing_of_rows_of_weight_zero() {
    let cases = [
        json!({ "loss": "rmse" }),
        json!({ "loss": "rmse", "policy": "depthwise", "cat_method": "partition", "min_data_in_leaf": 20, "border_sample": 300 }),
        json!({ "loss": "mae", "policy": "leafwise", "cat_method": "one_hot", "row_sample": "bernoulli" }),
        json!({ "loss": "quantile", "alpha": 0.8, "policy": "depthwise", "row_sample": "goss" }),
        json!({ "loss": "huber", "row_sample": "mvs", "bins": 17 }),
        json!({ "loss": "auto", "policy": "depthwise", "class_weight": "balanced" }),
        json!({ "loss": "auto", "row_sample": "goss", "row_fraction": 0.5, "ctr": ["buckets", "counter"] }),
    ];
    for (case, params) in cases.iter().enumerate() {
        for evaluates in [false, true] {
            let classes = if params["loss"] == "auto" { 2 + case as u32 % 2 } else { 0 };
            let rows = Rows::new(900, classes, case as u64);
            let mut params = params.clone();
            (params["rounds"], params["depth"], params["seed"]) = (json!(6), json!(4), json!(3));
            let fitted = rows.boost(&params, evaluates);
            let trained = rows.held_out.iter().filter(|h| !(evaluates && **h)).count();
            assert_eq!(fitted.rows, trained as u64);
            let counted = rows.counted().boost(&params, evaluates);
            assert_eq!(Model { rows: fitted.rows, ..counted }.to_bytes(), fitted.to_bytes(), "{params}");
            assert_eq!(rows.scrambled(7).boost(&params, evaluates).to_bytes(), fitted.to_bytes(), "{params}");
        }
    }
}

/// Proves the same of forests, whose rows of weight 0 have no prediction out of bag either.
#[test]
fn forests_know_nothing_of_rows_of_weight_zero() {
    let cases = [
        json!({ "criterion": "squared_error", "permutation_importance": true }),
        json!({ "criterion": "squared_error", "splitter": "exact", "bootstrap": false }),
        json!({ "criterion": "poisson", "splitter": "random" }),
        json!({ "criterion": "gini", "permutation_importance": true, "class_weight": "balanced" }),
        json!({ "criterion": "entropy", "splitter": "exact", "leaves": 20 }),
    ];
    for (case, params) in cases.iter().enumerate() {
        let classes = if ["gini", "entropy"].iter().any(|c| params["criterion"] == *c) { 2 + case as u32 % 2 } else { 0 };
        let mut rows = Rows::new(500, classes, 20 + case as u64);
        rows.y.iter_mut().for_each(|y| *y = y.abs());
        let mut params = params.clone();
        (params["trees"], params["seed"]) = (json!(8), json!(3));
        let fitted = rows.grow(&params);
        assert_eq!(fitted.rows, rows.len() as u64);
        let mut counted = rows.counted().grow(&params);
        counted.rows = fitted.rows;
        if let (Some(own), Some(all)) = (&mut counted.oob, &fitted.oob) {
            for (own, all) in own.predictions.iter_mut().zip(&all.predictions) {
                let (weightless, weigh): (Vec<usize>, Vec<usize>) = (0..rows.len()).partition(|i| rows.weight[*i] == 0.0);
                assert!(weightless.iter().all(|i| all[*i].is_nan()));
                let of_rows: Vec<u64> = weigh.iter().map(|i| all[*i].to_bits()).collect();
                assert_eq!(of_rows, own.iter().map(|p| p.to_bits()).collect::<Vec<_>>());
                own.clone_from(all);
            }
        }
        assert_eq!(counted.to_bytes(), fitted.to_bytes(), "{params}");
        assert_eq!(rows.scrambled(7).grow(&params).to_bytes(), fitted.to_bytes(), "{params}");
        Forest::from_bytes(&fitted.to_bytes()).unwrap();
    }
}

/// Proves that a class whose rows all weigh nothing is not there, unless it is a class weight that says so.
#[test]
fn a_class_without_weight_is_no_class() {
    let mut rows = Rows::new(600, 3, 40);
    let codes = rows.codes();
    (0..600).filter(|i| codes[*i] == 1).for_each(|i| rows.weight[i] = 0.0);
    let model = rows.boost(&json!({ "rounds": 3 }), false);
    assert_eq!(model.labels, Some(Labels::Integer(vec![0, 2])));
    assert_eq!(rows.grow(&json!({ "trees": 3 })).labels, Some(Labels::Integer(vec![0, 2])));
    let rows = Rows::new(600, 3, 40);
    let model = rows.boost(&json!({ "rounds": 3, "class_weight": { "1": 0.0 } }), false);
    assert_eq!(model.labels, Some(Labels::Integer(vec![0, 1, 2])));
}

/// Strings as lists have them.
struct Words(Vec<Option<String>>);

impl Texts for Words {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, i: usize) -> Option<&str> {
        self.0[i].as_deref()
    }
}

/// A model of lists that follow from `rows`, of numbers with values or of strings.
fn regress(rows: &Rows, params: &Value, text: bool, evaluates: bool) -> LinearModel {
    let (mut offsets, mut numbers, mut values, mut words) = (vec![0i32], vec![], vec![], vec![]);
    for i in 0..rows.len() {
        // By what the row holds, not by its place.
        let x = (rows.x[0][i] * 1e3).abs() as i64;
        for j in 0..x % 4 {
            numbers.push((x * (j + 3)) % 40 + if rows.y[i] > 1e3 { 1 << 26 } else { 0 });
            values.push(1.0 + (x % 7) as f32 * j as f32);
            words.push((x % 13 != 5).then(|| format!("{} {}", rows.text[i], (x + j) % 6)));
        }
        offsets.push(numbers.len() as i32);
    }
    let words = Words(words);
    let items = if text { Items::Texts(&words) } else { Items::Numbers(Chunk::new(Values::I64(&numbers), None)) };
    let column = |name: &str, items| {
        let chunk = ListChunk { offsets: Offsets::I32(&offsets), validity: None, items };
        ListColumn { name: name.into(), chunks: vec![chunk] }
    };
    let dense: Vec<f64> = rows.x[1].iter().map(|x| if x.is_nan() { 0.0 } else { *x }).collect();
    let codes = rows.codes();
    let input = linear::Input {
        sparse: Some(SparseRows {
            features: column("f", items),
            values: (!text).then(|| column("v", Items::Numbers(Chunk::new(Values::F32(&values), None)))),
        }),
        dense: vec![Column::from_f64("d", &dense)],
        target: Target::Classes { codes: &codes, labels: rows.labels() },
        target_name: "y".into(),
        weight: Some(Column::from_f64("w", &rows.weight)),
        held_out: evaluates.then_some(&rows.held_out),
    };
    let parsed = LinearParams::from_json(params).unwrap();
    linear::fit(&input, &parsed, &taiga_engine::dataset::Quiet).unwrap_or_else(|e| panic!("{e}: {params}"))
}

/// Proves the same of sparse logistic regression by every optimizer, over numbers and over strings.
#[test]
fn linear_models_know_nothing_of_rows_of_weight_zero() {
    for (case, optimizer) in ["lbfgs", "sgd", "adagrad", "ftrl"].into_iter().enumerate() {
        for (text, evaluates) in [(false, false), (true, true)] {
            let rows = Rows::new(700, 2 + case as u32 % 2, 60 + case as u64);
            let params = json!({ "optimizer": optimizer, "epochs": 4, "seed": 2 });
            let fitted = regress(&rows, &params, text, evaluates);
            let counted = regress(&rows.counted(), &params, text, evaluates);
            assert_eq!(LinearModel { rows: fitted.rows, ..counted }.to_bytes(), fitted.to_bytes(), "{params} {text}");
            assert_eq!(regress(&rows.scrambled(7), &params, text, evaluates).to_bytes(), fitted.to_bytes(), "{params} {text}");
        }
    }
}

/// Proves that targets of rows of weight 0 change no encoded value, and that an encoder is that of the other rows.
#[test]
fn encodings_know_nothing_of_rows_of_weight_zero() {
    let rows = Rows::new(800, 3, 80);
    let (other, counted) = (rows.scrambled(9), rows.counted());
    let column = rows.category();
    for kind in ["ordered", "kfold", "loo", "full"] {
        for prior_weight in [json!(2.0), json!("auto")] {
            let params = TargetParams::from_json(&json!({ "kind": kind, "prior_weight": prior_weight })).unwrap();
            let plan = EncodingPlan::random(rows.len(), &params).unwrap();
            let bits = |values: Vec<Vec<f64>>| values.concat().into_iter().map(f64::to_bits).collect::<Vec<_>>();
            let encode = |target: EncodingTarget<'_>| {
                let input = EncodingInput { codes: &column.codes, categories: column.categories.len(), target, weight: Some(&rows.weight) };
                bits(target_encode(&input, &plan, &params).unwrap())
            };
            assert_eq!(encode(EncodingTarget::Numbers(&rows.y)), encode(EncodingTarget::Numbers(&other.y)), "{kind}");
            let classes = |r: &Rows| encode(EncodingTarget::Classes(&r.codes(), 3));
            assert_eq!(classes(&rows), classes(&other), "{kind}");
            let fit = |r: &Rows| {
                let encoder = TargetEncoder::fit(vec![r.category()], "y", EncodingTarget::Numbers(&r.y), None, Some(&r.weight), &params);
                encoder.unwrap().to_bytes()
            };
            assert_eq!(fit(&rows), fit(&counted), "{kind}");
            assert_eq!(fit(&rows), fit(&other), "{kind}");
        }
    }
}

/// The splits and leaves of trees without what is in units of weights.
fn shape(model: &Model) -> Vec<Tree> {
    let mut trees = model.trees.clone();
    for tree in &mut trees {
        tree.splits_mut().for_each(|s| s.gain = 0.0);
        tree.leaves_mut().iter_mut().for_each(|l| l.weight = 0.0);
    }
    trees
}

/// Every gain and weight over a unit; gains that are nothing beside others, which have fewer digits, as 0.
fn in_units_of_weights(model: &Model, unit: f64) -> Vec<f64> {
    let nodes = model.node_table();
    let least = 1e-9 * nodes.iter().filter_map(|n| n.gain).fold(0.0f64, f64::max);
    let gain = |gain: Option<f64>| gain.filter(|g| *g > least).map_or(0.0, |g| g / unit);
    nodes.iter().flat_map(|n| [gain(n.gain), n.weight / unit]).collect()
}

fn assert_close(a: &[f64], b: &[f64], tolerance: f64, what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() <= tolerance * b.abs(), "{what}: {a} for {b}");
    }
}

/// The powers of two beside 1e-30, 1e-10, 1e10 and 1e30.
const POWERS: [i32; 4] = [-100, -33, 33, 100];

/// Proves that a factor of all weights changes no tree: exactly for powers of two, under every loss, policy and way to draw
/// rows, with the parameters that have the unit of a weight at 0 or scaled along. What is reported in units of weights is
/// scaled.
#[test]
fn a_factor_of_weights_changes_no_tree() {
    let losses = [
        "rmse",
        "mae",
        "quantile",
        "huber",
        "expectile",
        "mape",
        "log_cosh",
        "poisson",
        "gamma",
        "tweedie",
        "cross_entropy",
        "logloss",
        "focal",
        "multiclass",
        "ova",
        "gaussian",
    ];
    let samplers = ["none", "bernoulli", "goss", "mvs", "bayesian"];
    for (i, loss) in losses.into_iter().enumerate() {
        for (j, sampler) in samplers.into_iter().enumerate() {
            let policy = POLICIES[(i + j) % 3];
            let classes = match loss {
                "logloss" | "focal" => 2,
                "multiclass" | "ova" => 3,
                _ => 0,
            };
            let mut rows = Rows::new(500, classes, (i * 4 + j) as u64);
            match loss {
                "poisson" | "gamma" | "tweedie" => rows.y.iter_mut().for_each(|y| *y = y.abs() + 0.1),
                "cross_entropy" => rows.y.iter_mut().for_each(|y| *y = 1.0 / (1.0 + (-*y).exp())),
                _ => {}
            }
            let evaluates = j % 2 == 0;
            // Minimal variance sampling weighs hessians by the number `l2`, whatever its unit.
            let regular = if sampler == "mvs" { 0.0 } else { (i % 2) as f64 };
            let fit = |factor: f64| {
                let mut scaled = rows.clone();
                scaled.weight.iter_mut().for_each(|w| *w *= factor);
                let unit = regular * factor;
                let method = if policy == "symmetric" { "ctr" } else { "partition" };
                let params = json!({ "loss": loss, "policy": policy, "row_sample": sampler, "rounds": 4, "depth": 4, "seed": 5, "l2": unit,
                    "l1": 0.1 * unit, "min_child_weight": 2.0 * unit, "min_gain": 0.01 * unit, "cat_method": method,
                    "cat_smooth": unit, "cat_l2": unit });
                scaled.boost(&params, evaluates)
            };
            let plain = fit(1.0);
            assert!(plain.trees.iter().any(|t| t.leaves().len() > 4), "{loss} {sampler}");
            for power in POWERS {
                let (factor, what) = (2f64.powi(power), format!("{loss} {sampler} {policy} 2^{power}"));
                let scaled = fit(factor);
                assert_eq!((shape(&scaled), &scaled.start, &scaled.history), (shape(&plain), &plain.start, &plain.history), "{what}");
                assert_close(&in_units_of_weights(&scaled, factor), &in_units_of_weights(&plain, 1.0), 1e-6, &what);
                let back = Model::from_bytes(&scaled.to_bytes()).unwrap();
                assert_eq!(back, scaled, "{what}");
            }
        }
    }
}

/// Proves that targets of any size are learnt under losses with a logarithmic link, and that their scale is the start's alone.
#[test]
fn tiny_targets_of_logarithmic_links_are_learnt() {
    for loss in ["poisson", "gamma", "tweedie"] {
        let mut rows = Rows::new(800, 0, 70).counted();
        rows.weight.fill(1.0);
        rows.y.iter_mut().for_each(|y| *y = y.abs() + 0.1);
        let params = json!({ "loss": loss, "rounds": 30, "depth": 4, "l2": 0.0, "min_child_weight": 0.0, "learning_rate": 0.3 });
        let means = |factor: f64| {
            let mut scaled = rows.clone();
            scaled.y.iter_mut().for_each(|y| *y *= factor);
            let model = scaled.boost(&params, true);
            let metric = model.history.as_ref().unwrap().values.last().copied().unwrap();
            (rows.raw(&model).iter().map(|s| s.exp() / factor).collect::<Vec<f64>>(), metric, model)
        };
        let (plain, metric, _) = means(1.0);
        let error = |means: &[f64]| means.iter().zip(&rows.y).map(|(m, y)| (m - y).abs()).sum::<f64>() / 800.0;
        let power = if loss == "poisson" {
            1.0
        } else if loss == "gamma" {
            0.0
        } else {
            0.5
        };
        for factor in [1e-30, 1e-20, 1e-10, 1e10, 1e29] {
            let (own, scaled, model) = means(factor);
            assert!((error(&own) / error(&plain) - 1.0).abs() < 0.1, "{loss} {factor:e}: {} {}", error(&own), error(&plain));
            assert!((scaled / factor.powf(power) / metric - 1.0).abs() < 0.2, "{loss} {factor:e}: {scaled} {metric}");
            assert!(model.importance(Importance::Gain).iter().all(|g| *g > 0.0 && g.is_finite()));
        }
    }
}

/// Proves that other factors change predictions by what rounding the weights does, and the shares of importance.
#[test]
fn any_factor_of_weights_changes_rounding_alone() {
    for (i, sampler) in ["none", "bernoulli", "goss", "mvs", "bayesian"].into_iter().enumerate() {
        let rows = Rows::new(2000, 0, 90 + i as u64);
        let params =
            json!({ "policy": POLICIES[i % 3], "row_sample": sampler, "rounds": 20, "depth": 4, "l2": 0.0, "min_child_weight": 0.0 });
        let plain = rows.boost(&params, false);
        let error = |model: &Model| {
            let raw = rows.raw(model);
            let own = (0..rows.len()).filter(|i| rows.weight[*i] > 0.0);
            let (sum, n) = own.fold((0.0, 0.0), |(s, n), i| (s + rows.weight[i] * (raw[i] - rows.y[i]).powi(2), n + rows.weight[i]));
            sum / n
        };
        let gains = plain.importance(Importance::Gain);
        for factor in [1e-30, 1e-10, 1e10, 1e30] {
            let mut scaled = rows.clone();
            scaled.weight.iter_mut().for_each(|w| *w *= factor);
            let model = scaled.boost(&params, false);
            let (own, wanted) = (error(&model), error(&plain));
            assert!((own / wanted - 1.0).abs() < 0.1, "{sampler} {factor:e}: {own} {wanted}");
            let scaled: Vec<f64> = model.importance(Importance::Gain).iter().map(|g| g / factor).collect();
            assert_close(&scaled, &gains, 0.1, sampler);
        }
    }
}

/// Proves that constant weights of any size draw as many rows as weights of 1 under "mvs" and "goss".
#[test]
fn constant_weights_of_any_size_draw_alike() {
    for sampler in ["mvs", "goss"] {
        let mut rows = Rows::new(3000, 0, 95);
        let mut fit = |weight: f64| {
            rows.weight.fill(weight);
            let params = json!({ "row_sample": sampler, "row_fraction": 0.3, "rounds": 5, "l2": 0.0 });
            let model = rows.boost(&params, false);
            let drawn: u32 = model.trees[0].leaves().iter().map(|l| l.count).sum();
            (drawn, model)
        };
        let (plain, model) = fit(1.0);
        assert!((plain as f64 / 3000.0 - 0.3).abs() < 0.04, "{sampler}: {plain}");
        for weight in [2f64.powi(-83), 2f64.powi(66), 2f64.powi(100)] {
            let (drawn, scaled) = fit(weight);
            assert_eq!((drawn, shape(&scaled)), (plain, shape(&model)), "{sampler} {weight:e}");
        }
        for weight in [1e-25, 1e20, 1e30] {
            let drawn = fit(weight).0;
            assert!((drawn as f64 / plain as f64 - 1.0).abs() < 0.1, "{sampler} {weight:e}: {drawn} {plain}");
        }
    }
}

/// Proves that forests and linear models don't know a factor of weights: exactly for powers of two.
#[test]
fn a_factor_of_weights_changes_no_forest_and_no_linear_model() {
    for (i, criterion) in ["squared_error", "poisson", "gini", "entropy"].into_iter().enumerate() {
        let mut rows = Rows::new(400, if i < 2 { 0 } else { i as u32 }, 100 + i as u64);
        rows.y.iter_mut().for_each(|y| *y = y.abs());
        let fit = |factor: f64| {
            let mut scaled = rows.clone();
            scaled.weight.iter_mut().for_each(|w| *w *= factor);
            scaled.grow(&json!({ "criterion": criterion, "trees": 5, "permutation_importance": true }))
        };
        let plain = fit(1.0);
        for power in POWERS {
            let scaled = fit(2f64.powi(power));
            assert_eq!(scaled.unit, plain.unit * 2f64.powi(power));
            assert_eq!(Forest { unit: plain.unit, ..scaled }.to_bytes(), plain.to_bytes(), "{criterion} {power}");
        }
    }
    for optimizer in ["lbfgs", "sgd", "adagrad", "ftrl"] {
        let rows = Rows::new(400, 3, 110);
        let fit = |factor: f64| {
            let mut scaled = rows.clone();
            scaled.weight.iter_mut().for_each(|w| *w *= factor);
            regress(&scaled, &json!({ "optimizer": optimizer, "epochs": 3, "l2": 0.01 }), false, true)
        };
        let plain = fit(1.0).to_bytes();
        for power in POWERS {
            assert_eq!(fit(2f64.powi(power)).to_bytes(), plain, "{optimizer} {power}");
        }
    }
}

/// Proves that class weights and products of weights beyond f32 weigh what they say: those of 1e39 and 1 as 1 and 1e-39.
#[test]
fn class_weights_of_any_size_compare() {
    let rows = Rows::new(800, 2, 120);
    let share_of_false = |weights: Value, row_weight: f64| {
        let mut rows = rows.clone();
        rows.weight.fill(row_weight);
        let forest = rows.grow(&json!({ "trees": 10, "depth": 3, "class_weight": weights }));
        let boosted = rows.boost(&json!({ "rounds": 5, "depth": 3, "class_weight": weights, "l2": 0.0 }), false);
        let start = 1.0 / (1.0 + boosted.start[0].exp());
        let own = forest
            .trees
            .iter()
            .flat_map(|t| t.sums.chunks_exact(2))
            .fold((0.0, 0.0), |(a, n), s| (a + s[0] as f64, n + (s[0] + s[1]) as f64));
        (own.0 / own.1, start)
    };
    let (forest, boosted) = share_of_false(json!({ "false": 1e39, "true": 1.0 }), 1.0);
    assert!(forest > 0.999 && boosted > 0.999, "{forest} {boosted}");
    let plain = share_of_false(json!({ "false": 10.0, "true": 1.0 }), 1.0);
    for row_weight in [3e38, 1e-40, 1e300] {
        let own = share_of_false(json!({ "false": 10.0, "true": 1.0 }), row_weight);
        assert!((own.0 - plain.0).abs() < 1e-6 && (own.1 - plain.1).abs() < 1e-6, "{own:?} {plain:?}");
    }
}

/// Proves that rows of a weight far below the largest keep their targets: a forest's leaf of them alone has their mean.
#[test]
fn rows_of_tiny_weights_keep_their_targets() {
    let n = 200;
    let x: Vec<f64> = (0..n).map(|i| (i % 2) as f64).collect();
    let y: Vec<f64> = x.iter().map(|x| 5.0 + 2.0 * x).collect();
    for tiny in [1e-5, 1e-8, 3e-10, 1e-12, 1e-39] {
        let weight: Vec<f64> = x.iter().map(|x| if *x == 1.0 { tiny } else { 1.0 }).collect();
        let input = forest::Input {
            features: vec![Column::from_f64("x", &x)],
            target: Target::Numbers(Column::from_f64("y", &y)),
            target_name: "y".into(),
            weight: Some(Column::from_f64("w", &weight)),
        };
        let params = ForestParams::from_json(&json!({ "trees": 3, "bootstrap": false })).unwrap();
        let forest = forest::fit(&input, &params, &taiga_engine::dataset::Quiet).unwrap();
        for tree in &forest.trees {
            assert_close(&tree.means, &[5.0, 7.0], 2e-3, &format!("{tiny:e}"));
        }
    }
}

/// Proves that importances follow the target's unit, in f64, far beyond what f32 holds.
#[test]
fn importances_follow_the_unit_of_the_target() {
    let rows = Rows::new(700, 0, 130);
    let scaled = |unit: f64| {
        let mut scaled = rows.clone();
        scaled.y.iter_mut().for_each(|y| *y *= unit);
        scaled
    };
    for policy in POLICIES {
        let fit = |unit: f64| {
            let params = json!({ "policy": policy, "rounds": 10, "depth": 4 });
            scaled(unit).boost(&params, false)
        };
        let plain = fit(1.0);
        let wanted = plain.importance(Importance::Gain);
        assert_eq!(Model::from_bytes(&plain.to_bytes()).unwrap().units, Default::default());
        for unit in [1e20, 1e-25, 1e30, 1e-30, 2f64.powi(60), 2f64.powi(-140)] {
            let model = Model::from_bytes(&fit(unit).to_bytes()).unwrap();
            let own: Vec<f64> = model.importance(Importance::Gain).iter().map(|g| g / unit / unit).collect();
            assert!(wanted.iter().all(|g| *g > 0.0));
            assert_close(&own, &wanted, if unit.log2().fract() == 0.0 { 1e-6 } else { 0.05 }, &format!("{policy} {unit:e}"));
        }
    }
    for criterion in ["squared_error", "poisson"] {
        let fit = |unit: f64| {
            let mut rows = scaled(unit);
            rows.y.iter_mut().for_each(|y| *y = y.abs());
            let forest = rows.grow(&json!({ "criterion": criterion, "trees": 5, "permutation_importance": true }));
            Forest::from_bytes(&forest.to_bytes()).unwrap()
        };
        let gains = |f: &Forest| f.node_table().iter().filter_map(|n| n.gain).collect::<Vec<f64>>();
        let plain = fit(1.0);
        assert_eq!(plain.gain_unit, 1.0);
        for power in [66, -83, 100, -100] {
            let unit = 2f64.powi(power);
            let forest = fit(unit);
            let of_gain = if criterion == "poisson" { unit } else { unit * unit };
            let shares = |f: &Forest| f.importance(taiga_engine::learners::forest::explain::Importance::Impurity).unwrap();
            assert_close(&shares(&forest), &shares(&plain), 1e-9, criterion);
            // Gains of a small part of the largest one have fewer digits.
            let least = 1e-6 * gains(&plain).iter().fold(0.0f64, |m, g| m.max(*g));
            let told = |f: &Forest, of: f64| gains(f).iter().map(|g| g / of).filter(|g| *g > least).collect::<Vec<f64>>();
            assert_close(&told(&forest, of_gain), &told(&plain, 1.0), 1e-6, &format!("{criterion} 2^{power}"));
            let own: Vec<f64> = forest.permutation.unwrap().iter().map(|p| p / unit / unit).collect();
            assert_close(&own, plain.permutation.as_ref().unwrap(), 1e-6, criterion);
        }
        for unit in [1e20, 1e-25] {
            let shares = fit(unit).importance(taiga_engine::learners::forest::explain::Importance::Impurity).unwrap();
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9 && shares.iter().all(|s| *s > 0.0), "{shares:?}");
        }
    }
}

/// Proves that borders are made for the rows that count: 2,000 of them among 100,000 of weight 0.
#[test]
fn borders_are_those_of_rows_that_count() {
    let mut dice = Dice::new(140);
    let n = 102_000;
    let counts: Vec<bool> = (0..n).map(|i| i % 51 == 0).collect();
    let x: Vec<f64> = counts.iter().map(|c| if *c { dice.unit() } else { 100.0 + dice.unit() }).collect();
    let y: Vec<f64> = x.iter().map(|x| (10.0 * x).sin()).collect();
    let weight: Vec<f64> = counts.iter().map(|c| *c as u8 as f64).collect();
    let input = taiga_engine::dataset::Input {
        features: vec![Column::from_f64("x", &x)],
        target: Target::Numbers(Column::from_f64("y", &y)),
        target_name: "y".into(),
        weight: Some(Column::from_f64("w", &weight)),
        baseline: vec![],
        held_out: None,
        loss_columns: Default::default(),
        evaluation: Default::default(),
        order: None,
    };
    let params = BoostingParams::from_json(&json!({ "rounds": 100, "border_sample": 20_000 })).unwrap();
    let model = boosting::fit(&input, &params, &taiga_engine::dataset::Quiet).unwrap();
    let predictor = Predictor::new(model);
    let raw = predictor.raw(&predictor.bind(&input.features).unwrap()).concat();
    let errors = (0..n).filter(|i| counts[*i]).map(|i| (raw[i] - y[i]).powi(2));
    let error = errors.sum::<f64>() / 2000.0;
    assert!(error < 1e-3, "{error}");
}
