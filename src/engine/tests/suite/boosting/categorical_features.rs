//! Categorical features in the trees: what the model says of itself is what it does, the fit is
//! reproducible, and no row's target leaks into its own features.

use serde_json::json;
use taiga_engine::Error;
use taiga_engine::column::Column;
use taiga_engine::column::categories::CategoryColumn;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::dataset::{Input, Quiet, Target};
use taiga_engine::encoding::ctr::CtrKind;
use taiga_engine::learners::boosting::model::apply::Predictor;
use taiga_engine::learners::boosting::model::{Derived, Model};
use taiga_engine::learners::boosting::{BoostingParams, FitOptions, fit, fit_with};
use taiga_engine::tree::model::Child;
use taiga_engine::tree::{Split, Tree};
use taiga_testing::continued::Kept;
use taiga_testing::{Dice, POLICIES};

/// A table with categorical columns `c0`, `c1`, … in front of numeric ones `x0`, `x1`, ….
struct Mixed {
    text: Vec<Vec<Option<String>>>,
    numbers: Vec<Vec<f64>>,
    y: Vec<f64>,
    classes: Option<usize>,
    held_out: Option<Vec<bool>>,
}

impl Mixed {
    /// Categories with effects of their own and of a pair; some rows are null.
    fn new(rows: usize, cardinalities: &[usize], seed: u64) -> Mixed {
        let mut dice = Dice::new(seed);
        let codes: Vec<Vec<usize>> = cardinalities
            .iter()
            .map(|k| (0..rows).map(|_| dice.below(*k as u64) as usize * dice.below(*k as u64) as usize / k).collect())
            .collect();
        let text: Vec<Vec<Option<String>>> =
            codes.iter().map(|c| c.iter().map(|k| (!dice.chance(0.03)).then(|| format!("k{k}"))).collect()).collect();
        let numbers: Vec<Vec<f64>> =
            (0..2).map(|_| (0..rows).map(|_| if dice.chance(0.05) { f64::NAN } else { dice.normal() }).collect()).collect();
        let effect = |k: usize| ((k * 2_654_435_761) % 1000) as f64 / 500.0 - 1.0;
        let y = (0..rows)
            .map(|i| {
                let pair = if codes.len() > 1 { effect(codes[0][i] * 31 + codes[1][i] + 7) } else { 0.0 };
                codes.iter().map(|c| effect(c[i])).sum::<f64>() + pair + 0.5 * numbers[0][i].max(-5.0) + 0.3 * dice.normal()
            })
            .collect();
        Mixed { text, numbers, y, classes: None, held_out: None }
    }

    fn classes(mut self, count: usize) -> Mixed {
        self.y = self.y.iter().map(|y| ((y + 1.5).max(0.0) as usize).min(count - 1) as f64).collect();
        self.classes = Some(count);
        self
    }

    fn rows(&self) -> usize {
        self.y.len()
    }

    fn columns(&self) -> Vec<CategoryColumn> {
        let column = |(i, c): (usize, &Vec<Option<String>>)| CategoryColumn::text(&format!("c{i}"), &[c.len()], |_, r| c[r].as_deref());
        self.text.iter().enumerate().map(column).map(Result::unwrap).collect()
    }

    fn try_fit(&self, value: serde_json::Value) -> taiga_engine::Result<Model> {
        self.fit_with(value, FitOptions::default())
    }

    fn fit_with(&self, value: serde_json::Value, options: FitOptions<'_>) -> taiga_engine::Result<Model> {
        let categories = self.columns();
        let mut features: Vec<Column<'_>> = categories.iter().map(Column::categorical).collect();
        features.extend(self.numbers.iter().enumerate().map(|(i, x)| Column::from_f64(format!("x{i}"), x)));
        let codes: Vec<u32> = self.y.iter().map(|y| *y as u32).collect();
        let labels = |n: usize| if n == 2 { Labels::Boolean } else { Labels::Integer((0..n as i64).collect()) };
        let input = Input {
            features,
            target: match self.classes {
                Some(n) => Target::Classes { codes: &codes, labels: labels(n) },
                None => Target::Numbers(Column::from_f64("y", &self.y)),
            },
            target_name: "y".into(),
            weight: None,
            baseline: vec![],
            held_out: self.held_out.as_deref(),
            loss_columns: Default::default(),
            evaluation: Default::default(),
            order: None,
        };
        fit_with(&input, &BoostingParams::from_json(&value)?, &options, &Quiet)
    }

    fn fit(&self, value: serde_json::Value) -> Model {
        self.try_fit(value.clone()).unwrap_or_else(|e| panic!("{e}; {value}"))
    }

    /// The model's codes of the columns' categories; those it has not seen have none.
    fn looked_up(&self, predictor: &Predictor) -> Vec<Vec<u32>> {
        let code = |i: usize, text: &Option<String>| {
            let lookup = predictor.lookup(i)?;
            text.as_ref().map_or(lookup.null(), |t| lookup.text(t))
        };
        self.text.iter().enumerate().map(|(i, c)| c.iter().map(|t| code(i, t).unwrap_or(u32::MAX)).collect()).collect()
    }

    fn raw(&self, model: &Model) -> Vec<Vec<f64>> {
        let predictor = Predictor::new(model.clone());
        let codes = self.looked_up(&predictor);
        let mut columns: Vec<Column<'_>> = codes.iter().enumerate().map(|(i, c)| Column::codes(format!("c{i}"), c)).collect();
        columns.extend(self.numbers.iter().enumerate().map(|(i, x)| Column::from_f64(format!("x{i}"), x)));
        predictor.raw(&predictor.bind(&columns).unwrap())
    }

    /// The raw scores as the model's text says they are made, row by row.
    fn naive_raw(&self, model: &Model) -> Vec<Vec<f64>> {
        let code = |column: usize, row: usize| -> Option<u64> {
            let c = model.features[column].categories.as_ref()?;
            (0..c.len() as u32)
                .find(|k| match &self.text[column][row] {
                    None => c.null == Some(*k),
                    Some(t) => c.null != Some(*k) && c.name(*k) == *t,
                })
                .map(u64::from)
        };
        // Numerator and denominator of a derived feature.
        let derived = |d: &Derived, row: usize| -> (f64, f64) {
            match d {
                Derived::OneOf { feature, categories } => {
                    let inside = code(*feature as usize, row).is_some_and(|c| categories.contains(&(c as u32)));
                    (inside as u8 as f64, 1.0)
                }
                Derived::Ctr { table, sums, ctr, unit, .. } => {
                    let t = &model.tables[*table as usize];
                    let key = t.features.iter().try_fold(0u64, |key, f| {
                        let cardinality = model.features[*f as usize].categories.as_ref()?.len() as u64;
                        Some(key * cardinality + code(*f as usize, row)?)
                    });
                    let entry =
                        if t.features.len() == 1 { key.map(|k| k as usize) } else { key.and_then(|k| t.keys.iter().position(|x| *x == k)) };
                    let n = entry.map_or(0, |e| t.n[e]) as f64;
                    if ctr.kind == CtrKind::Counter {
                        return (n + ctr.prior, *t.n.iter().max().unwrap() as f64 + 1.0);
                    }
                    (entry.map_or(0, |e| t.sums[*sums as usize][e]) as f64 * unit + ctr.prior, n + 1.0)
                }
                Derived::Hashed { .. } => panic!("a fit makes none"),
            }
        };
        let right = |s: &Split, row: usize| -> bool {
            let f = s.feature as usize;
            let border = model.borders(s.feature).get(s.border as usize).copied().unwrap_or(f64::INFINITY);
            match f.checked_sub(model.features.len()) {
                Some(d) => {
                    let (n, m) = derived(&model.derived[d], row);
                    n > border * m
                }
                None => {
                    let x = self.numbers[f - self.text.len()][row];
                    if x.is_nan() { !s.missing_left } else { x > border }
                }
            }
        };
        let mut out: Vec<Vec<f64>> = model.start.iter().map(|s| vec![*s; self.rows()]).collect();
        for row in 0..self.rows() {
            let mut sums = vec![0.0; out.len()];
            for (t, tree) in model.trees.iter().enumerate() {
                let leaf = match tree {
                    Tree::Symmetric { splits, .. } => splits.iter().fold(0, |i, s| 2 * i + right(s, row) as usize),
                    Tree::Branching { nodes, .. } => {
                        let mut at = if nodes.is_empty() { Child::Leaf(0) } else { Child::Node(0) };
                        loop {
                            match at {
                                Child::Leaf(leaf) => break leaf as usize,
                                Child::Node(n) => {
                                    let node = &nodes[n as usize];
                                    at = if right(&node.split, row) { node.right } else { node.left };
                                }
                            }
                        }
                    }
                };
                sums[t % out.len()] += tree.leaves()[leaf].value;
            }
            for (out, sum) in out.iter_mut().zip(sums) {
                out[row] += model.scale * sum;
            }
        }
        out
    }
}

fn close(a: &[Vec<f64>], b: &[Vec<f64>]) -> bool {
    a.iter().flatten().zip(b.iter().flatten()).all(|(a, b)| (a - b).abs() <= 1e-12 * (1.0 + a.abs()))
}

/// What there is to choose from.
fn settings() -> Vec<serde_json::Value> {
    let mut out = vec![];
    for policy in POLICIES {
        let base = json!({ "policy": policy, "rounds": 12, "seed": 5, "permutations": 2 });
        let mut with = |more: serde_json::Value| {
            let mut p = base.clone();
            more.as_object().unwrap().iter().for_each(|(k, v)| p[k] = v.clone());
            out.push(p);
        };
        with(json!({}));
        with(json!({ "max_combination": 1, "permutations": 1 }));
        with(json!({ "max_combination": 3, "rounds": 5 }));
        with(json!({ "cat_method": "one_hot" }));
        with(json!({ "one_hot_max_size": 10, "row_sample": "bernoulli", "row_fraction": 0.7 }));
        with(json!({ "ctr": ["buckets", "counter", "binarized_target_mean_value"], "ctr_borders": 40 }));
        with(json!({ "feature_fraction": 0.6, "feature_fraction_level": 0.7, "min_data_in_leaf": 5 }));
        with(json!({ "interaction": [["c0", "x0"], ["c1", "c2"], ["x1"]], "monotone": { "x0": 1 } }));
        if policy != "symmetric" {
            with(json!({ "cat_method": "partition" }));
            with(
                json!({ "cat_method": "partition", "row_sample": "mvs", "cat_smooth": 1.0, "max_cat_threshold": 3, "feature_fraction_node": 0.7 }),
            );
        }
    }
    out
}

/// The model's tables, derived features and trees, read as its JSON says, give what it predicts:
/// on the rows it was fitted on and on rows with categories it has not seen.
#[test]
fn predictions_are_what_the_model_says() {
    let table = Mixed::new(900, &[30, 6, 12, 2], 1);
    let other = Mixed::new(300, &[60, 9, 12, 3], 2);
    for p in settings() {
        let model = table.fit(p.clone());
        assert!(!model.derived.is_empty(), "{p}");
        for t in [&table, &other] {
            assert!(close(&t.raw(&model), &t.naive_raw(&model)), "{p}");
        }
        let again = Model::from_bytes(&model.to_bytes()).unwrap();
        assert!(again == model && table.raw(&again) == table.raw(&model), "{p}");
    }
}

/// Classes and more of them, and the target's own mean.
#[test]
fn every_statistic_of_every_target() {
    for kind in ["borders", "buckets", "binarized_target_mean_value", "float_target_mean_value", "counter"] {
        for classes in [None, Some(2), Some(4)] {
            let mut table = Mixed::new(600, &[20, 5], 3);
            if let Some(n) = classes {
                if kind == "float_target_mean_value" {
                    continue;
                }
                table = table.classes(n);
            }
            let loss = if classes == Some(4) { "multiclass" } else { "auto" };
            let model = table.fit(json!({ "ctr": [kind], "rounds": 8, "loss": loss, "target_borders": 3 }));
            assert!(model.derived.iter().any(|d| matches!(d, Derived::Ctr { .. })), "{kind} {classes:?}");
            assert!(close(&table.raw(&model), &table.naive_raw(&model)), "{kind} {classes:?}");
        }
    }
}

/// The metric that a fit measures on held-out rows is the one of its own predictions: their codes
/// are those of the final statistics, and none of their targets are in these.
#[test]
fn held_out_rows_are_coded_as_rows_to_predict() {
    for p in settings() {
        let mut table = Mixed::new(900, &[30, 6, 12, 2], 4);
        table.held_out = Some((0..900).map(|i| i % 3 == 1).collect());
        let model = table.fit(p.clone());
        let raw = table.raw(&model);
        let rows: Vec<usize> = (0..900).filter(|i| i % 3 == 1).collect();
        let rmse = (rows.iter().map(|i| (table.y[*i] - raw[0][*i]).powi(2)).sum::<f64>() / rows.len() as f64).sqrt();
        let told = *model.history.as_ref().unwrap().values.last().unwrap();
        assert!((rmse - told).abs() < 1e-5 * rmse, "{p}: {rmse} {told}");
        // Other targets of the held-out rows change nothing but the metric.
        let mut changed = Mixed::new(900, &[30, 6, 12, 2], 4);
        changed.held_out = table.held_out.clone();
        rows.iter().for_each(|i| changed.y[*i] = -7.0);
        let other = changed.fit(p.clone());
        assert!((&other.trees, &other.tables, &other.derived) == (&model.trees, &model.tables, &model.derived), "{p}");
    }
}

/// The same bytes with any number of threads, and whether combinations are kept or computed again.
#[test]
fn threads_do_not_change_a_model() {
    let table = Mixed::new(40_000, &[300, 20, 12, 2], 6);
    for policy in POLICIES {
        for method in ["ctr", "partition"] {
            if (policy, method) == ("symmetric", "partition") {
                continue;
            }
            let of =
                |threads: u32| table.fit(json!({ "policy": policy, "cat_method": method, "rounds": 6, "n_threads": threads })).to_bytes();
            let one = of(1);
            assert!(one == of(2) && one == of(3), "{policy} {method}");
        }
    }
}

/// Counters do not depend on a permutation: with any number of them all sets of scores are alike, and
/// trees replayed on another set than the one they grew on get the leaves they would have had there.
/// (Shallow trees: in small nodes combinations tie, and which comes first depends on when it was made.)
#[test]
fn trees_replayed_under_other_permutations_are_the_same_trees() {
    let losses: [(&str, serde_json::Value); 5] = [
        ("rmse", json!({})),
        ("mae", json!({})),
        ("quantile", json!({ "row_sample": "bernoulli", "row_fraction": 0.6 })),
        ("logloss", json!({ "row_sample": "goss", "row_fraction": 0.5 })),
        ("multiclass", json!({ "interaction": [["c0", "x0"], ["c1", "c2"], ["x1"]] })),
    ];
    let mut combined = 0;
    for rows in [400, 9_000] {
        for (loss, more) in &losses {
            let mut table = Mixed::new(rows, &[60, 9, 12], 11);
            table = match *loss {
                "logloss" => table.classes(2),
                "multiclass" => table.classes(3),
                _ => table,
            };
            table.held_out = Some((0..rows).map(|i| i % 7 == 3).collect());
            for policy in POLICIES {
                let of = |permutations: u32| {
                    let mut p = json!({
                        "policy": policy, "loss": loss, "rounds": 6, "seed": 3, "n_threads": 2, "ctr": ["counter"], "depth": 3,
                        "permutations": permutations, "max_combination": 3, "one_hot_max_size": 10
                    });
                    more.as_object().unwrap().iter().for_each(|(k, v)| p[k] = v.clone());
                    table.fit(p)
                };
                let (one, three) = (of(1), of(3));
                assert!(one.trees == three.trees && one.tables == three.tables && one.derived == three.derived, "{rows} {loss} {policy}");
                assert_eq!(one.history, three.history);
                combined += one.tables.iter().filter(|t| t.features.len() > 1).count();
            }
        }
    }
    assert!(combined > 5, "{combined} combinations");
}

/// A table so small that it is searched by sorted rows grows the trees that histograms grow: rows held
/// out, which change nothing else, take it over the limit. Leaf by leaf, combinations are opened while
/// other leaves wait.
#[test]
fn small_tables_grow_the_trees_of_histograms() {
    for seed in 0..12 {
        let (few, many) = (400, 700);
        let mut table = Mixed::new(many, &[9, 6, 5], seed);
        // So few values that every one of them has a bin, whichever rows there are.
        table.numbers.iter_mut().flatten().for_each(|x| *x = (*x * 4.0).round().clamp(-8.0, 8.0));
        for i in few..many {
            for x in &mut table.numbers {
                x[i] = x[i % few];
            }
        }
        table.held_out = Some((0..many).map(|i| i >= few).collect());
        let mut small = Mixed::new(0, &[9, 6, 5], seed);
        small.numbers = table.numbers.iter().map(|x| x[..few].to_vec()).collect();
        small.text = table.text.iter().map(|c| c[..few].to_vec()).collect();
        small.y = table.y[..few].to_vec();
        for policy in POLICIES {
            let p = json!({ "policy": policy, "loss": "rmse", "rounds": 1, "seed": seed, "permutations": 1, "max_combination": 3, "leaves": 14 });
            let p = if policy == "leafwise" {
                p
            } else {
                json!({ "policy": policy, "loss": "rmse", "rounds": 1, "seed": seed, "permutations": 1, "max_combination": 3 })
            };
            let splits = |m: &Model| m.trees.iter().flat_map(|t| t.splits().cloned().collect::<Vec<Split>>()).collect::<Vec<_>>();
            let (by_rows, by_histograms) = (small.fit(p.clone()), table.fit(p));
            assert!(splits(&by_rows) == splits(&by_histograms) && by_rows.derived == by_histograms.derived, "{seed} {policy}");
        }
    }
}

/// One question for each category is what dummy columns ask.
#[test]
fn one_hot_equals_dummy_columns() {
    let table = Mixed::new(500, &[7], 8);
    let column = &table.columns()[0];
    let dummies: Vec<Vec<f64>> =
        (0..column.categories.len() as u32).map(|k| column.codes.iter().map(|c| (*c == k) as u8 as f64).collect()).collect();
    for policy in POLICIES {
        let p = json!({ "policy": policy, "rounds": 5, "cat_method": "one_hot" });
        let ours = table.fit(p.clone());
        let mut features: Vec<Column<'_>> = table.numbers.iter().enumerate().map(|(i, x)| Column::from_f64(format!("x{i}"), x)).collect();
        features.extend(dummies.iter().enumerate().map(|(i, d)| Column::from_f64(format!("d{i}"), d)));
        let target = Target::Numbers(Column::from_f64("y", &table.y));
        let input = Input {
            features: features.clone(),
            target,
            target_name: "y".into(),
            weight: None,
            baseline: vec![],
            held_out: None,
            loss_columns: Default::default(),
            evaluation: Default::default(),
            order: None,
        };
        let theirs = fit(&input, &BoostingParams::from_json(&p).unwrap(), &Quiet).unwrap();
        let predictor = Predictor::new(theirs);
        assert!(close(&table.raw(&ours), &predictor.raw(&predictor.bind(&features).unwrap())), "{policy}");
    }
}

/// One division by a subset of categories: the best of all subsets that are a beginning or an end
/// of the sequence, found by trying them.
#[test]
fn a_partition_is_the_best_of_all() {
    for seed in 0..20 {
        let mut table = Mixed::new(300, &[9], 100 + seed);
        table.numbers.clear();
        let model = table.fit(json!({
            "policy": "depthwise", "depth": 1, "rounds": 1, "learning_rate": 1.0, "cat_method": "partition", "l2": 0.5, "cat_l2": 2.0, "cat_smooth": 3.0
        }));
        let mean = table.y.iter().sum::<f64>() / 300.0;
        let column = &table.columns()[0];
        let k = column.categories.len();
        let sums: Vec<(f64, f64)> = (0..k as u32)
            .map(|c| (0..300).filter(|i| column.codes[*i] == c).fold((0.0, 0.0), |s, i| (s.0 + mean - table.y[i], s.1 + 1.0)))
            .collect();
        let mut order: Vec<usize> = (0..k).collect();
        order.sort_by(|a, b| (sums[*a].0 / (sums[*a].1 + 3.0)).total_cmp(&(sums[*b].0 / (sums[*b].1 + 3.0))));
        let score = |set: &[usize]| {
            let (g, h) = set.iter().fold((0.0, 0.0), |s, c| (s.0 + sums[*c].0, s.1 + sums[*c].1));
            g * g / (h + 2.5)
        };
        let best = (1..k).map(|n| score(&order[..n]) + score(&order[n..])).fold(f64::MIN, f64::max);
        let Derived::OneOf { categories, .. } = &model.derived[0] else { panic!("{:?}", model.derived) };
        let (inside, outside): (Vec<usize>, Vec<usize>) = (0..k).partition(|c| categories.contains(&(*c as u32)));
        // Rounded statistics may prefer one of two that are as good.
        assert!(score(&inside) + score(&outside) > best * (1.0 - 1e-3), "{seed}");
    }
}

/// A target without any relation to 3,000 categories: nothing to learn from statistics that leave
/// a row's own target out, as the rows that were held out show.
#[test]
fn targets_do_not_leak() {
    let mut dice = Dice::new(12);
    let rows = 12_000;
    let text = vec![(0..rows).map(|_| Some(dice.below(3000).to_string())).collect()];
    let y: Vec<f64> = (0..rows).map(|_| dice.below(2) as f64).collect();
    let numbers = vec![(0..rows).map(|_| dice.normal()).collect()];
    let held_out = Some((0..rows).map(|i| i % 2 == 0).collect());
    let table = Mixed { text, numbers, y, classes: Some(2), held_out };
    let model = table.fit(json!({ "rounds": 20, "metric": "auc", "ctr": ["borders"] }));
    let auc = *model.history.as_ref().unwrap().values.last().unwrap();
    assert!((auc - 0.5).abs() < 0.02, "{auc}");
}

/// Combinations find what no single column shows.
#[test]
fn combinations_find_interactions() {
    let mut dice = Dice::new(9);
    let rows = 8000;
    let codes: Vec<Vec<usize>> = (0..3).map(|_| (0..rows).map(|_| dice.below(40) as usize).collect()).collect();
    let y = (0..rows).map(|i| ((codes[0][i] * 7 + codes[1][i] * 13) % 11) as f64 + 0.3 * dice.normal()).collect();
    let text = codes.iter().map(|c| c.iter().map(|k| Some(k.to_string())).collect()).collect();
    let held_out = Some((0..rows).map(|i| i % 4 == 0).collect());
    let table = Mixed { text, numbers: vec![], y, classes: None, held_out };
    let last =
        |combination: u32| *table.fit(json!({ "rounds": 60, "max_combination": combination })).history.unwrap().values.last().unwrap();
    let (without, with) = (last(1), last(2));
    assert!(with < 0.6 * without, "{with} {without}");
}

/// A model of the first format is read and predicts what it did.
#[test]
fn the_first_format_is_still_read() {
    let bytes = include_bytes!("../data/model_v1.bin");
    let model = Model::from_bytes(bytes).unwrap();
    let a: Vec<f64> = (0..64).map(|i| (i % 7) as f64).collect();
    let b: Vec<f64> = (0..64).map(|i| ((i * i) % 11) as f64 / 2.0).collect();
    let columns = [Column::from_f64("a", &a), Column::from_f64("b", &b)];
    let predictor = Predictor::new(model);
    let raw = predictor.raw(&predictor.bind(&columns).unwrap());
    for (value, expected) in raw[0].iter().zip([2.918308, 2.918308, 3.917708, 3.917708, 5.206122]) {
        assert!((value - expected).abs() < 1e-6, "{raw:?}");
    }
}

#[test]
fn errors_name_the_parameter_or_the_column() {
    let table = Mixed::new(300, &[30, 6], 1);
    for (p, parts) in [
        (json!({ "monotone": { "c0": 1 } }), vec!["`monotone`", "`c0` is categorical"]),
        (json!({ "cat_method": "partition" }), vec!["`cat_method`", "depthwise"]),
        (json!({ "cat_method": "hash" }), vec!["`cat_method`", "hash"]),
        (json!({ "ctr": [] }), vec!["`ctr`"]),
        (json!({ "ctr": ["counter", "counter"] }), vec!["`ctr`", "is named twice"]),
        (json!({ "ctr": ["mean"] }), vec!["`ctr`", "mean"]),
        (json!({ "ctr_priors": [-1.0] }), vec!["`ctr_priors`"]),
        (json!({ "ctr_borders": 256 }), vec!["`ctr_borders`", "256"]),
        (json!({ "permutations": 0 }), vec!["`permutations`"]),
        (json!({ "max_combination": 9 }), vec!["`max_combination`"]),
        (json!({ "ctr_table_limit": 10 }), vec!["not enough memory", "ctr_table_limit = 10", "max_combination"]),
        (json!({ "cat_smooth": -1.0 }), vec!["`cat_smooth`"]),
    ] {
        let text = table.try_fit(p.clone()).unwrap_err().to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{p}: {text}");
    }
    let model = table.fit(json!({ "rounds": 2 }));
    let predictor = Predictor::new(model);
    let own = table.columns();
    let other = Mixed::new(50, &[3, 2], 4);
    let strange = other.columns();
    let columns: Vec<Column<'_>> =
        strange.iter().map(Column::categorical).chain(["x0", "x1"].map(|n| Column::from_f64(n, &other.numbers[0]))).collect();
    assert!(predictor.bind(&columns).unwrap_err().to_string().contains("codes of its own"));
    let numbers: Vec<Column<'_>> = ["c0", "c1", "x0", "x1"].map(|n| Column::from_f64(n, &table.numbers[0])).to_vec();
    let text = predictor.bind(&numbers).unwrap_err().to_string();
    assert!(text.contains("`c0` is numeric, the model was fitted on categorical"), "{text}");
    drop(own);
}

/// Columns of one category, of nothing but nulls, and of a category for each row.
#[test]
fn odd_columns() {
    let mut table = Mixed::new(200, &[5, 3, 4], 1);
    table.text[0] = vec![None; 200];
    table.text[1] = vec![Some("same".into()); 200];
    table.text[2] = (0..200).map(|i| Some(format!("id {i}"))).collect();
    for p in settings().into_iter().filter(|p| p.get("interaction").is_none()) {
        let model = table.fit(p.clone());
        assert!(close(&table.raw(&model), &table.naive_raw(&model)), "{p}");
    }
    table.numbers.clear();
    table.text.truncate(2);
    // Nothing to split on: the mean.
    assert!(table.fit(json!({})).trees.iter().all(|t| t.leaves().len() == 1));
}

/// Proves that which combinations earlier trees have opened, and in which order, does not show in a tree: a fit that goes on, and so has opened none,
/// ends with the bytes of one that was never ended. Few rows and categories tie often, and each kind of draw counts features.
#[test]
fn what_earlier_trees_have_opened_does_not_show() {
    let table = Mixed::new(150, &[4, 4, 5, 6], 11);
    let draws = [
        json!({}),
        json!({"feature_fraction_node": 0.6}),
        json!({"feature_fraction_level": 0.6}),
        json!({"extra_trees": true}),
        json!({"random_strength": 0.5}),
        json!({"interaction": [["c0", "c1", "x0"], ["c1", "c2", "c3"]]}),
        json!({"max_combination": 3}),
    ];
    for policy in POLICIES {
        let allowed = |draws: &&serde_json::Value| policy != "symmetric" || draws.get("feature_fraction_node").is_none();
        for draws in draws.iter().filter(allowed) {
            let mut given = json!({"rounds": 12, "policy": policy, "learning_rate": 0.3, "min_child_weight": 0});
            draws.as_object().expect("an object").iter().for_each(|(name, value)| given[name] = value.clone());
            let whole = table.fit(given.clone()).to_bytes();
            for cut in [1, 2, 3, 5, 8] {
                let ended = Kept::new(cut, None, 1);
                let fitted = |kept: &Kept| table.fit_with(given.clone(), FitOptions { snapshots: Some(kept), ..FitOptions::default() });
                assert!(matches!(fitted(&ended), Err(Error::Interrupted)));
                let going_on = fitted(&Kept::new(cut, ended.bytes(), u32::MAX)).expect("a fit");
                assert!(going_on.to_bytes() == whole, "{policy} {draws}: other bytes after {cut} rounds");
            }
        }
    }
}
