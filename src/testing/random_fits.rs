//! Fits drawn at random: any loss, policy and way to draw rows, any constraint and limit, with weights, held-out rows, baselines, groups,
//! positions, categories and the order that their statistics take rows in, several targets and scores in one tree or a tree each, noise on
//! scores, and losses of one's own. Whatever else is different, the same rows have to give the same model.

use crate::contract::{LOSSES, RANKING, table};
use crate::{Dice, Table, Wanted, params};
use serde_json::{Value, json};
use taiga_engine::column::Column;
use taiga_engine::column::categories::CategoryColumn;
use taiga_engine::dataset::{Input, LossColumns, Quiet};
use taiga_engine::learners::boosting::params::{Boosting, LeafKind};
use taiga_engine::learners::boosting::{BoostingParams, fit};
use taiga_engine::tree::params::Monotone;

/// The variable of the environment that says how many fits are drawn.
const CASES: &str = "TAIGA_RANDOM_FITS";

/// Formulas of losses of one's own, with their links; the last reads a column.
const FORMULAS: [(&str, &str); 6] = [
    ("0.5 * (y - f) ** 2", "identity"),
    ("when(y > f).then(2 * (y - f) ** 2).otherwise((y - f) ** 2)", "identity"),
    ("sqrt(1 + (y - f) ** 2) - 1", "identity"),
    ("log(1 + exp(f)) - min(max(y, 0), 1) * f", "logit"),
    ("(y - exp(f)) ** 2 + f ** 2", "log"),
    ("`size` * (y - f) ** 2", "identity"),
];

/// The losses that several targets may have.
const SEVERAL: [&str; 10] = ["rmse", "mae", "quantile", "huber", "expectile", "log_cosh", "poisson", "gamma", "tweedie", "cross_entropy"];

/// A table and how it is fitted.
pub struct RandomFit {
    pub table: Table,
    categories: Vec<CategoryColumn>,
    /// What a loss of one's own reads.
    size: Option<Vec<f64>>,
    pub params: BoostingParams,
}

/// Returns how many fits are to be drawn: what `TAIGA_RANDOM_FITS` says, else `unless_told`.
pub fn cases(unless_told: u64) -> u64 {
    std::env::var(CASES).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(unless_told)
}

impl RandomFit {
    /// Draws a fit; equal seeds draw equal ones.
    pub fn new(seed: u64) -> RandomFit {
        let dice = &mut Dice::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x7a16_a000);
        let rows = [2, 5, 40, 300, 1000, 3000, 9000, 20_000, 40_000][dice.below(9) as usize] + dice.below(17) as usize;
        let features = if rows < 5000 { 1 + dice.below(45) } else { 1 + dice.below(8) } as usize;
        let loss = *one_of(dice, &[&LOSSES[..], &["custom", "custom", "lambdarank"]].concat());
        let mut drawn = json!({
            "loss": loss, "seed": seed, "rounds": 1 + dice.below(5), "learning_rate": one_of(dice, &[0.05, 0.3, 0.9]),
            "policy": one_of(dice, &["symmetric", "depthwise", "leafwise"]), "l2": one_of(dice, &[0.0, 1.0, 30.0]),
            "row_sample": one_of(dice, &["none", "none", "bernoulli", "goss", "mvs", "bayesian"]),
        });
        let mut t = table(rows, features, if loss == "custom" { "rmse" } else { loss }, seed);
        columns(&mut t, loss, dice);
        let categories: Vec<CategoryColumn> = (0..[0, 0, 1, 2][dice.below(4) as usize]).map(|i| category(i, rows, dice)).collect();
        loss_params(&mut drawn, loss, dice);
        limits(&mut drawn, &t, dice);
        if !categories.is_empty() {
            category_params(&mut drawn, dice);
        }
        several(&mut drawn, &mut t, loss, dice);
        let reads_size = drawn["custom_loss"]["value"].as_str().is_some_and(|formula| formula.contains("size"));
        let size = reads_size.then(|| (0..rows).map(|_| 0.5 + dice.unit()).collect());
        if dice.chance(0.3) {
            drawn["random_strength"] = json!(one_of(dice, &[0.0, 0.3, 1.0, 6.0]));
        }
        if dice.chance(0.3) {
            drawn["feature_weights"] = weights(features, &categories, dice);
        }
        if dice.chance(0.2) {
            let mut bins = json!({ "x0": one_of(dice, &[2, 3, 20, 255, 256]) });
            for f in (1..features).step_by(2) {
                bins[format!("x{f}")] = json!(one_of(dice, &[2, 7, 64, 254, 255, 256]));
            }
            drawn["bins"] = bins;
        }
        if !["mae", "quantile", "quantiles", "mape"].contains(&loss) && dice.chance(0.25) {
            drawn["leaf_iterations"] = json!(one_of(dice, &[1, 2, 5]));
        }
        if drawn["cat_method"] == "ctr" && dice.chance(0.4) {
            let times = 1 + dice.below(2 * rows as u64);
            t.order = Some((0..rows).map(|_| dice.below(times) as u32).collect());
            drawn["permutations"] = json!(one_of(dice, &[1, 3]));
        }
        RandomFit { table: t, categories, size, params: params(drawn) }
    }

    /// Returns the table as a fit takes it, its features as `clothe` makes them of their names and values.
    pub fn input<'a>(&'a self, clothe: impl Fn(String, &'a [f64]) -> Column<'a>) -> Input<'a> {
        let input = self.table.input();
        let mut features: Vec<Column<'a>> = self.table.columns.iter().enumerate().map(|(i, c)| clothe(format!("x{i}"), c)).collect();
        features.extend(self.categories.iter().map(Column::categorical));
        let numbers = self.size.iter().map(|size| Column::from_f64("size", size)).collect();
        Input { features, loss_columns: LossColumns { numbers, ..input.loss_columns }, ..input }
    }

    /// Returns the parameters with dropouts, of some kind, and with so many rounds that trees are dropped.
    pub fn with_dropouts(&self, seed: u64) -> BoostingParams {
        BoostingParams {
            boosting: Some(Boosting::Dart),
            rounds: Some(7),
            drop_rate: Some([0.1, 0.5, 1.0][seed as usize % 3]),
            skip_drop: Some([0.0, 0.3][seed as usize % 2]),
            max_drop: [None, Some(2)][seed as usize / 3 % 2],
            uniform_drop: Some(seed % 5 < 2),
            one_drop: Some(seed % 4 == 1),
            ..self.params.clone()
        }
    }

    /// Returns the parameters with leaves that are linear functions, and without what does not go with them.
    pub fn with_linear_leaves(&self) -> BoostingParams {
        BoostingParams {
            leaf: Some(LeafKind::Linear),
            linear_l2: self.params.seed.is_multiple_of(3).then_some(0.5),
            boosting: None,
            monotone: Default::default(),
            max_delta_step: None,
            path_smooth: None,
            leaf_iterations: None,
            ..self.params.clone()
        }
    }

    /// Returns the parameters with ordered boosting, and without what does not go with it, where the loss has it; else those that were
    /// drawn.
    pub fn in_order(&self) -> BoostingParams {
        let name = self.params.loss.name();
        if name == "cox" || RANKING.contains(&name) {
            return self.params.clone();
        }
        BoostingParams { boosting: Some(Boosting::Ordered), monotone: Monotone::new(), ..self.params.clone() }
    }

    /// Fits the table by `params` and returns the model's bytes, or what is wrong with the table.
    pub fn fit(&self, input: &Input<'_>, params: &BoostingParams) -> Result<Vec<u8>, String> {
        fit(input, params, &Quiet).map(|model| model.to_bytes()).map_err(|e| e.to_string())
    }
}

fn one_of<'a, T>(dice: &mut Dice, values: &'a [T]) -> &'a T {
    &values[dice.below(values.len() as u64) as usize]
}

/// Draws weights, held-out rows, a baseline and positions.
fn columns(t: &mut Table, loss: &str, dice: &mut Dice) {
    let rows = t.rows();
    let heavy = dice.below(4);
    t.weight = (heavy > 0).then(|| {
        let weigh = |dice: &mut Dice| match heavy {
            1 => 0.1 + dice.unit(),
            2 => dice.below(3) as f64,
            _ => (dice.unit() * 60.0 - 30.0).exp2(),
        };
        (0..rows).map(|_| weigh(dice)).collect()
    });
    if dice.chance(0.35) {
        let salt = dice.below(4) as u32;
        t.held_out = Some(match &t.groups {
            Some(groups) => groups.iter().map(|group| (group + salt).is_multiple_of(4)).collect(),
            None => (0..rows).map(|_| dice.chance(0.25)).collect(),
        });
    }
    let outputs = match loss {
        "gaussian" => 2,
        "multiclass" | "ova" | "quantiles" => 3,
        _ => 1,
    };
    if dice.chance(0.2) {
        t.baseline = (0..outputs).map(|_| (0..rows).map(|_| dice.normal()).collect()).collect();
    }
    if RANKING.contains(&loss) && dice.chance(0.5) {
        let places = 1 + dice.below(20);
        t.positions = Some((0..rows).map(|_| dice.below(places) as u32).collect());
    }
}

/// Draws a column of categories, of which a few are common.
fn category(number: usize, rows: usize, dice: &mut Dice) -> CategoryColumn {
    let most = *one_of(dice, &[2, 3, 9, 40, 300]);
    let labels: Vec<i64> = (0..rows).map(|_| (dice.below(most) * dice.below(most) / most) as i64).collect();
    CategoryColumn::integers(&format!("c{number}"), &[rows], |_, row| (labels[row] != 1).then_some(labels[row])).expect("few rows")
}

/// Draws the parameters that the loss reads.
fn loss_params(drawn: &mut Value, loss: &str, dice: &mut Dice) {
    match loss {
        "quantiles" => (drawn["loss"], drawn["alpha"]) = (json!("quantile"), json!([0.1, 0.5, 0.9])),
        "quantile" | "expectile" => drawn["alpha"] = json!(one_of(dice, &[0.05, 0.5, 0.8])),
        "huber" if dice.chance(0.5) => drawn["huber_delta"] = json!(0.5),
        "tweedie" => drawn["tweedie_power"] = json!(one_of(dice, &[1.1, 1.5, 1.9])),
        "focal" => {
            drawn["focal_gamma"] = json!(one_of(dice, &[0.0, 0.7, 2.0, 5.0]));
            drawn["focal_alpha"] = one_of(dice, &[Value::Null, json!(0.25)]).clone();
        }
        "custom" => {
            let (value, link) = one_of(dice, &FORMULAS);
            drawn["custom_loss"] = json!({ "value": value, "link": link });
        }
        _ if RANKING.contains(&loss) => {
            drawn["rank_truncation"] = one_of(dice, &[Value::Null, json!(1), json!(7)]).clone();
            drawn["rank_normalize"] = json!(dice.chance(0.5));
            drawn["rank_orders"] = json!(1 + dice.below(4));
            drawn["rank_decay"] = json!(one_of(dice, &[0.5, 1.0]));
            drawn["rank_position_l2"] = one_of(dice, &[Value::Null, json!(0.3)]).clone();
        }
        _ => {}
    }
}

/// Draws limits of trees, shares of features and rows, constraints and borders.
fn limits(drawn: &mut Value, t: &Table, dice: &mut Dice) {
    let leafwise = drawn["policy"] == "leafwise";
    let symmetric = drawn["policy"] == "symmetric";
    let bayesian = drawn["row_sample"] == "bayesian";
    drawn["bins"] = json!(one_of(dice, &[2, 15, 255, 256]));
    drawn["border_method"] = json!(one_of(dice, &["quantile", "uniform", "greedy_logsum", "min_max_entropy"]));
    drawn["depth"] = json!(1 + dice.below(6));
    drawn["bundle"] = json!(dice.chance(0.7));
    for (name, chance, value) in [
        ("leaves", if leafwise { 0.7 } else { 0.0 }, json!(2 + dice.below(40))),
        ("l1", 0.2, json!(0.2)),
        ("min_child_weight", 0.4, json!(one_of(dice, &[0.0, 0.5, 20.0]))),
        ("min_data_in_leaf", 0.3, json!(dice.below(30))),
        ("min_gain", 0.2, json!(0.01)),
        ("extra_trees", 0.25, json!(true)),
        ("path_smooth", 0.2, json!(one_of(dice, &[0.0, 0.5, 7.0, 1000.0]))),
        ("max_delta_step", 0.2, json!(one_of(dice, &[0.05, 0.3, 2.0, 1e6]))),
        ("feature_fraction", 0.3, json!(0.7)),
        ("feature_fraction_level", 0.3, json!(0.6)),
        ("feature_fraction_node", if symmetric { 0.0 } else { 0.3 }, json!(0.5)),
        ("row_fraction", if drawn["row_sample"] == "none" || bayesian { 0.0 } else { 0.5 }, json!(one_of(dice, &[0.2, 0.6, 1.0]))),
        ("bagging_temperature", if bayesian { 0.7 } else { 0.0 }, json!(one_of(dice, &[0.0, 0.3, 1.0, 2.0, 10.0]))),
        ("early_stopping", if t.held_out.is_some() { 0.6 } else { 0.0 }, json!(1 + dice.below(3))),
        ("monotone", 0.25, json!({ "x0": one_of(dice, &[-1, 1]) })),
        ("interaction", 0.15, json!([["x0"]])),
    ] {
        if dice.chance(chance) {
            drawn[name] = value;
        }
    }
}

/// Draws several targets, for losses that serve them, and whether these, or several scores of one target, share their trees.
fn several(drawn: &mut Value, t: &mut Table, loss: &str, dice: &mut Dice) {
    let strategy = *one_of(dice, &["one_tree", "one_tree", "one_tree", "tree_each"]);
    if ["multiclass", "ova", "quantiles", "gaussian"].contains(&loss) && dice.chance(0.5) {
        drawn["multi_strategy"] = json!(strategy);
    } else if SEVERAL.contains(&loss) && dice.chance(0.5) {
        let count = *one_of(dice, &[2, 3, 5, 9, 20]) as usize;
        let labels = loss == "rmse" && dice.chance(0.4);
        let (y, signed) = (t.y(), !["poisson", "gamma", "tweedie", "cross_entropy"].contains(&loss));
        let of_target = |k: usize, dice: &mut Dice| -> Vec<f64> {
            let (unit, step) = (one_of(dice, &[1.0, 1.0, 0.01, 3e5]), 1 + dice.below(y.len() as u64) as usize);
            let value = |i: usize| if k < 2 { y[i] } else { 0.5 * (y[i] + y[(i * step + k) % y.len()]) };
            (0..y.len())
                .map(|i| {
                    if labels {
                        (value(i) > 0.3 * k as f64 - 0.5) as u8 as f64
                    } else if signed {
                        unit * value(i)
                    } else {
                        value(i)
                    }
                })
                .collect()
        };
        t.target = Wanted::Several((0..count).map(|k| of_target(k, dice)).collect());
        t.baseline.clear();
        drawn["multi_strategy"] = json!(strategy);
        if labels {
            drawn["loss"] = json!("multilabel");
        } else if loss == "huber" {
            drawn["huber_delta"] = json!(0.7);
        }
    }
    // Some of the fits that can't be are enough.
    if drawn["multi_strategy"] == "one_tree" && dice.chance(0.9) {
        drawn["monotone"] = json!({});
    }
}

/// Draws weights of some of a table's features, of which the first is left one.
fn weights(features: usize, categories: &[CategoryColumn], dice: &mut Dice) -> Value {
    let mut weights = json!({});
    let names = (1..features).map(|f| format!("x{f}")).chain(categories.iter().map(|category| category.name.to_string()));
    for name in names {
        if dice.chance(0.5) {
            weights[name] = json!(one_of(dice, &[0.0, 0.03, 0.4, 0.9, 1.0, 1.7, 20.0]));
        }
    }
    weights
}

/// Draws what becomes of categories.
fn category_params(drawn: &mut Value, dice: &mut Dice) {
    let symmetric = drawn["policy"] == "symmetric";
    let methods: &[&str] = if symmetric { &["ctr", "one_hot"] } else { &["ctr", "one_hot", "partition"] };
    drawn["cat_method"] = json!(one_of(dice, methods));
    drawn["one_hot_max_size"] = json!(one_of(dice, &[2, 5]));
    drawn["permutations"] = json!(1 + dice.below(3));
    drawn["max_combination"] = json!(1 + dice.below(2));
}
