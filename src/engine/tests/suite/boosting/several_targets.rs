//! Several targets: one tree for all of them, or a tree each.

use serde_json::{Value, json};
use taiga_engine::dataset::{Input, Target};
use taiga_engine::learners::boosting::fit;
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::losses::LossKind;
use taiga_engine::tree::Tree;
use taiga_testing::{Dice, POLICIES, Table, Wanted, params, params_with, raw, rmse, table};

/// Features of few values, some missing, and whole targets, whose statistics are exact.
fn whole(rows: usize, targets: usize, seed: u64) -> Table {
    let mut dice = Dice::new(seed);
    let value = |dice: &mut Dice| if dice.chance(0.1) { f64::NAN } else { dice.below(6) as f64 };
    let columns: Vec<Vec<f64>> = (0..3).map(|_| (0..rows).map(|_| value(&mut dice)).collect()).collect();
    let x = |f: usize, i: usize| if columns[f][i].is_nan() { 2.5 } else { columns[f][i] };
    let target = |k: usize, dice: &mut Dice| -> Vec<f64> {
        (0..rows).map(|i| (20.0 * x(k % 3, i) - 15.0 * x((k + 1) % 3, i)).round() + dice.below(30) as f64).collect()
    };
    let targets = (0..targets).map(|k| target(k, &mut dice)).collect();
    Table::several(columns, targets)
}

/// A grower that anyone can read: for every candidate of every node a loop over the rows for each target.
struct Naive<'a> {
    table: &'a Table,
    targets: &'a [Vec<f64>],
    /// What each target counts.
    importance: Vec<f64>,
    l2: f64,
}

#[derive(Clone, Copy, Debug)]
struct Cut {
    feature: usize,
    border: f64,
    missing_left: bool,
}

impl Naive<'_> {
    fn goes_left(&self, row: usize, cut: &Cut) -> bool {
        let x = self.table.columns[cut.feature][row];
        if x.is_nan() { cut.missing_left } else { x <= cut.border }
    }

    /// The sum of the targets' scores of a leaf with these rows, whose gradients are the negative targets.
    fn score(&self, rows: &[usize]) -> f64 {
        let of_target = |(y, importance): (&Vec<f64>, &f64)| {
            let g: f64 = rows.iter().map(|r| y[*r]).sum();
            importance * g * g / (rows.len() as f64 + self.l2)
        };
        self.targets.iter().zip(&self.importance).map(of_target).sum()
    }

    fn parts(&self, rows: &[usize], cut: &Cut) -> (Vec<usize>, Vec<usize>) {
        rows.iter().partition(|r| self.goes_left(**r, cut))
    }

    fn cuts(&self, rows: &[usize]) -> Vec<Cut> {
        let mut cuts = vec![];
        for feature in 0..self.table.columns.len() {
            let missing = rows.iter().any(|r| self.table.columns[feature][*r].is_nan());
            for border in (0..5).map(|v| v as f64 + 0.5).chain([f64::INFINITY]) {
                if border.is_finite() {
                    cuts.push(Cut { feature, border, missing_left: true });
                }
                if missing {
                    cuts.push(Cut { feature, border, missing_left: false });
                }
            }
        }
        cuts
    }

    /// The best cut of some nodes together, and what it gains.
    fn best(&self, nodes: &[Vec<usize>]) -> Option<(f64, Cut)> {
        let mut best: Option<(f64, Cut)> = None;
        for cut in self.cuts(&nodes.concat()) {
            let gain = |rows: &Vec<usize>| {
                let (left, right) = self.parts(rows, &cut);
                if left.is_empty() || right.is_empty() { 0.0 } else { self.score(&left) + self.score(&right) - self.score(rows) }
            };
            let gain: f64 = nodes.iter().map(gain).sum();
            if gain > best.map_or(1e-9, |b| b.0 + 1e-9 * b.0) {
                best = Some((gain, cut));
            }
        }
        best
    }

    /// The rows of each leaf.
    fn grow(&self, policy: &str, depth: usize, leaves: usize) -> Vec<Vec<usize>> {
        let all: Vec<usize> = (0..self.table.rows()).collect();
        let mut nodes = vec![all];
        if policy == "leafwise" {
            while nodes.len() < leaves {
                let found = nodes.iter().enumerate().filter_map(|(i, n)| self.best(std::slice::from_ref(n)).map(|b| (i, b)));
                let Some((i, (_, cut))) = found.reduce(|a, b| if b.1.0 > a.1.0 { b } else { a }) else { break };
                let (left, right) = self.parts(&nodes.swap_remove(i), &cut);
                nodes.extend([left, right]);
            }
            return nodes;
        }
        for _ in 0..depth {
            let cuts: Vec<Option<Cut>> = match policy {
                "symmetric" => vec![self.best(&nodes).map(|b| b.1); nodes.len()],
                _ => nodes.iter().map(|n| self.best(std::slice::from_ref(n)).map(|b| b.1)).collect(),
            };
            let divided = nodes.iter().zip(cuts).flat_map(|(rows, cut)| match cut {
                Some(cut) => {
                    let (left, right) = self.parts(rows, &cut);
                    vec![left, right]
                }
                None => vec![rows.clone()],
            });
            nodes = divided.filter(|rows| !rows.is_empty()).collect();
        }
        nodes
    }
}

/// Proves that a shared tree is the one that an exhaustive search finds whose scores are sums over the targets, under each policy, and
/// that its leaves have each target's values.
#[test]
fn a_shared_tree_is_the_naive_one() {
    for seed in 0..6 {
        for policy in POLICIES {
            let targets = 2 + seed as usize % 4;
            let mut t = whole(300, targets, seed);
            t.baseline = vec![vec![0.0; 300]; targets];
            let p = params(json!({
                "rounds": 1, "learning_rate": 1.0, "policy": policy, "depth": 3, "l2": 2.0, "min_child_weight": 0.0, "n_threads": 2
            }));
            let p = if policy == "leafwise" { params_with(p.to_json(), json!({ "leaves": 6 })) } else { p };
            let model = t.fit(&p);
            let Wanted::Several(y) = &t.target else { unreachable!() };
            let importance = |y: &Vec<f64>| 300.0 / y.iter().map(|y| y * y).sum::<f64>();
            let naive = Naive { table: &t, targets: y, importance: y.iter().map(importance).collect(), l2: 2.0 };
            let mut expected = vec![vec![0.0; 300]; targets];
            for rows in naive.grow(policy, 3, 6) {
                for (k, y) in y.iter().enumerate() {
                    let value = rows.iter().map(|r| y[*r]).sum::<f64>() / (rows.len() as f64 + 2.0);
                    rows.iter().for_each(|r| expected[k][*r] = value);
                }
            }
            for (k, (own, expected)) in raw(&model, &t).iter().zip(&expected).enumerate() {
                let off = rmse(own, expected);
                assert!(off < 1e-4, "seed {seed}, {policy}, target {k}: off by {off}");
            }
        }
    }
}

/// The splits of a model's trees of one output.
fn shape(model: &Model, output: usize) -> Vec<Vec<(u32, u32, bool)>> {
    let trees = model.trees.iter().skip(output).step_by(model.outputs());
    trees.map(|t| t.splits().map(|s| (s.feature, s.border, s.missing_left)).collect()).collect()
}

fn settings() -> Vec<Value> {
    vec![
        json!({ "policy": "symmetric", "depth": 4 }),
        json!({ "policy": "depthwise", "depth": 5, "min_data_in_leaf": 7 }),
        json!({ "policy": "leafwise", "leaves": 13, "l1": 0.3 }),
        json!({ "policy": "symmetric", "depth": 3, "row_sample": "bernoulli", "row_fraction": 0.6, "min_data_in_leaf": 3 }),
        json!({ "policy": "depthwise", "depth": 3, "feature_fraction": 0.7, "feature_fraction_node": 0.7 }),
    ]
}

/// Proves that targets that are all equal get the trees of one: structure, values and predictions.
#[test]
fn equal_targets_have_the_trees_of_one() {
    for more in settings() {
        let one = table(1500, 3);
        for count in [2, 3, 4, 9] {
            let several = Table { target: Wanted::Several(vec![one.y(); count]), ..one.clone() };
            let p = params_with(json!({ "rounds": 12, "seed": 5 }), more.clone());
            let (a, b) = (one.fit(&p), several.fit(&p));
            for output in 0..count {
                assert_eq!(shape(&a, 0), shape(&b, output), "{more} {count}");
                assert_eq!(raw(&a, &one)[0], raw(&b, &several)[output], "{more} {count}");
            }
        }
    }
}

/// Proves that one target that comes as several is fitted as one.
#[test]
fn one_of_several_is_the_ordinary_fit() {
    for more in settings() {
        for loss in ["rmse", "mae", "quantile", "poisson"] {
            let mut one = table(900, 4);
            if loss == "poisson" {
                one.target = Wanted::Numbers(one.y().iter().map(|y| y.exp()).collect());
            }
            let several = Table { target: Wanted::Several(vec![one.y()]), ..one.clone() };
            let p = params_with(json!({ "rounds": 8, "loss": loss }), more.clone());
            let (a, b) = (one.fit(&p), several.fit(&p));
            assert_eq!((a.trees, a.start, a.scale, a.features), (b.trees, b.start, b.scale, b.features), "{loss} {more}");
        }
    }
}

/// Proves that a tree for each target gives the models that each target gets by itself, where nothing is drawn.
#[test]
fn a_tree_each_is_a_model_each() {
    for loss in ["rmse", "mae", "huber", "poisson", "tweedie", "expectile", "log_cosh"] {
        let t = table(700, 6);
        let shifts = [1.0, 1e-9, 1e7];
        let positive = ["poisson", "tweedie"].contains(&loss);
        let y = |k: usize| -> Vec<f64> {
            t.columns[k]
                .iter()
                .zip(t.y())
                .map(|(x, y)| (if positive { (0.3 * y).exp() } else { y } + if x.is_nan() { 0.0 } else { x.abs() }) * shifts[k])
                .collect()
        };
        let targets: Vec<Vec<f64>> = (0..3).map(y).collect();
        let p = params(json!({ "loss": loss, "rounds": 6, "depth": 4, "multi_strategy": "tree_each", "huber_delta": 1.5 }));
        let several = Table { target: Wanted::Several(targets.clone()), ..t.clone() };
        let model = several.fit(&p);
        let scores = raw(&model, &several);
        for (k, y) in targets.into_iter().enumerate() {
            let one = Table { target: Wanted::Numbers(y), ..t.clone() };
            // Without the draws of a tree's rounding, trees of the fit's number differ in the last digits alone.
            let own = raw(&one.fit(&p), &one).remove(0);
            let (spread, off) = (rmse(&own, &vec![own.iter().sum::<f64>() / own.len() as f64; own.len()]), rmse(&own, &scores[k]));
            assert!(off <= 0.05 * spread, "{loss} {k}: {off} of {spread}");
        }
    }
}

fn awkward(rows: usize, seed: u64) -> Table {
    let mut t = table(rows, seed);
    let mut dice = Dice::new(seed + 1);
    let flag = |y: &[f64], at: f64| -> Vec<f64> { y.iter().map(|y| (*y > at) as u8 as f64).collect() };
    let y = t.y();
    t.columns.push((0..rows).map(|_| dice.below(3) as f64).collect());
    t.target = Wanted::Several(vec![flag(&y, 0.0), flag(&y, 1.5), flag(&t.columns[2], 0.2)]);
    t
}

/// Proves that threads change no byte, whatever the policy, the sampler, the loss and the strategy.
#[test]
fn threads_change_no_byte() {
    for strategy in ["one_tree", "tree_each"] {
        for loss in ["multilabel", "rmse", "mae"] {
            for (i, more) in settings().into_iter().enumerate() {
                for sample in [json!({}), json!({ "row_sample": "goss" }), json!({ "row_sample": "mvs" })] {
                    let mut t = awkward(9000, 8 + i as u64);
                    if loss == "mae" {
                        t.weight = Some((0..9000).map(|i| 0.25 + (i % 7) as f64).collect());
                    }
                    t.held_out = (i % 2 == 0).then(|| (0..9000).map(|i| i % 5 == 0).collect());
                    let base = json!({ "rounds": 4, "loss": loss, "multi_strategy": strategy, "n_threads": 1 });
                    let p = params_with(params_with(base, sample.clone()).to_json(), more.clone());
                    let bytes: Vec<Vec<u8>> =
                        [1, 2, 3, 8].map(|n| t.fit(&params_with(p.to_json(), json!({ "n_threads": n }))).to_bytes()).into();
                    assert!(bytes.windows(2).all(|pair| pair[0] == pair[1]), "{strategy} {loss} {more} {sample}");
                }
            }
        }
    }
}

/// Proves that a target's unit changes no other target's predictions, and its own by that unit: each counts by its own spread.
#[test]
fn a_targets_unit_changes_nothing() {
    let t = whole(800, 3, 11);
    let Wanted::Several(y) = &t.target else { unreachable!() };
    for policy in POLICIES {
        let p = params(json!({ "rounds": 10, "policy": policy, "depth": 4 }));
        let scores = raw(&t.fit(&p), &t);
        for unit in [0.25, 1024.0, 1e-30, 1e30] {
            let mut scaled = y.clone();
            scaled[1].iter_mut().for_each(|y| *y *= unit);
            let own = raw(&Table { target: Wanted::Several(scaled), ..t.clone() }.fit(&p), &t);
            for (k, unit) in [(0, 1.0), (1, unit), (2, 1.0)] {
                let scaled: Vec<f64> = own[k].iter().map(|s| s / unit).collect();
                let off = rmse(&scaled, &scores[k]);
                assert!(off < 0.02 * rmse(&y[k], &vec![0.0; 800]), "{policy} {unit} {k}: {off}");
            }
        }
    }
}

/// Proves that outliers, whose statistics are wide, and constant targets are fitted as well.
#[test]
fn wide_and_constant_targets_are_fitted() {
    let t = table(6000, 12);
    let mut wide = t.y();
    wide[17] = 1e7;
    for policy in POLICIES {
        let p = params(json!({ "rounds": 20, "policy": policy, "depth": 5 }));
        let several = Table { target: Wanted::Several(vec![t.y(), vec![3.0; 6000], wide.clone()]), ..t.clone() };
        let model = several.fit(&p);
        let scores = raw(&model, &several);
        assert_eq!(scores[1], vec![3.0; 6000], "{policy}");
        let (off, spread) = (rmse(&scores[0], &t.y()), rmse(&t.y(), &vec![0.0; 6000]));
        assert!(off < 0.9 * spread, "{policy}: {off} of {spread}");
    }
}

/// Proves that one tree for the classes of one target works as well, and that the model says so.
#[test]
fn classes_share_a_tree_too() {
    let t = table(1500, 13);
    let codes = t.y().iter().map(|y| if *y > 1.0 { 2 } else { (*y > -1.0) as u32 }).collect();
    let labels = taiga_engine::dataset::labels::Labels::Integer(vec![10, 20, 30]);
    let t = Table::classes(t.columns, codes, labels);
    let p = params(json!({ "rounds": 20, "multi_strategy": "one_tree" }));
    let model = t.fit(&p);
    assert_eq!(model.loss, LossKind::Multiclass);
    assert_eq!(shape(&model, 0), shape(&model, 2));
    assert_eq!(Model::from_bytes(&model.to_bytes()).unwrap(), model);
    assert!(model.trees.iter().all(|t| matches!(t, Tree::Symmetric { .. })));
}

/// Proves that bytes and JSON bring a model of several targets back, and that its target's names are those of its fields.
#[test]
fn models_of_several_targets_come_back() {
    let t = awkward(800, 14);
    for loss in ["multilabel", "rmse"] {
        let model = t.fit(&params(json!({ "rounds": 5, "loss": loss })));
        assert_eq!(model.params.targets, Some(["y0", "y1", "y2"].map(String::from).to_vec()));
        assert_eq!(Model::from_bytes(&model.to_bytes()).unwrap(), model);
        let again = Model::from_json(&model.json_text().unwrap()).unwrap();
        assert_eq!(raw(&again, &t), raw(&model, &t));
        // A model that names more targets than it has outputs is none.
        let mut wrong = model.clone();
        wrong.params.targets = Some(vec!["y0".into()]);
        assert!(Model::from_bytes(&wrong.to_bytes()).is_err());
    }
}

/// Proves what is told where a table or parameters are wrong.
#[test]
fn what_is_wrong_is_told() {
    let t = whole(60, 2, 15);
    let fault = |t: &Table, p: Value| t.try_fit(&params(p)).unwrap_err().to_string();
    let names = |text: &str, words: &[&str]| words.iter().for_each(|w| assert!(text.contains(w), "{text}: {w}"));
    let mut missing = t.clone();
    let Wanted::Several(y) = &mut missing.target else { unreachable!() };
    y[1][3] = f64::NAN;
    names(&fault(&missing, json!({})), &["y1", "null or NaN in 1 of 60"]);
    names(&fault(&t, json!({ "loss": "multilabel" })), &["y0", "1 where a row has the label"]);
    names(&fault(&t, json!({ "loss": "lambdarank" })), &["loss", "is for one target", "\"rmse\""]);
    names(&fault(&t, json!({ "loss": "mape" })), &["is for one target"]);
    let quantiles = fault(&t, json!({ "loss": "quantile", "alpha": [0.1, 0.9] }));
    names(&quantiles, &["`alpha`", "one quantile each", "one number"]);
    let weighed = fault(&t, json!({ "class_weight": "balanced" }));
    names(&weighed, &["`class_weight`", "several targets", "`weight`"]);
    assert!(!weighed.contains("logloss"), "{weighed}");
    names(&fault(&t, json!({ "loss": "huber" })), &["huber_delta"]);
    names(&fault(&t, json!({ "monotone": { "x0": 1 } })), &["monotone", "tree_each"]);
    assert!(t.try_fit(&params(json!({ "monotone": { "x0": 1 }, "multi_strategy": "tree_each" }))).is_ok());
    let one = Table::numbers(t.columns.clone(), t.y()[..60].to_vec());
    names(&fault(&one, json!({ "loss": "multilabel" })), &["several labels a row"]);
    // Targets of unequal length.
    let (a, b) = (vec![0.0; 60], vec![0.0; 59]);
    let columns = vec![taiga_engine::column::Column::from_f64("a", &a), taiga_engine::column::Column::from_f64("b", &b)];
    let input = Input { target: Target::Several(columns), ..t.input() };
    let error = fit(&input, &params(json!({})), &taiga_engine::dataset::Quiet).unwrap_err().to_string();
    names(&error, &["b", "59 rows"]);
}
