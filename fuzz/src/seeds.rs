//! Small models of every kind, to begin with.

use super::columns::Words;
use super::unsealed;
use serde_json::{Value, json};
use taiga_engine::column::categories::CategoryColumn;
use taiga_engine::column::{Chunk, Column, Values};
use taiga_engine::dataset::labels::Labels;
use taiga_engine::dataset::{Quiet, Target};
use taiga_engine::encoding::TargetEncoder;
use taiga_engine::encoding::target::{EncodingTarget, TargetParams};
use taiga_engine::learners::boosting::BoostingParams;
use taiga_engine::learners::forest::ForestParams;
use taiga_engine::learners::linear::{Items, LinearParams, ListChunk, ListColumn, Offsets, SparseRows};
use taiga_engine::learners::{boosting, forest, linear};

pub const ROWS: usize = 24;

/// The rounds of models of boosted trees.
pub const SEED_ROUNDS: u8 = 2;

/// An input: its target, its name and its bytes.
pub type Seed = (&'static str, String, Vec<u8>);

pub fn names() -> [CategoryColumn; 2] {
    let text = |row: usize| [Some("ab"), Some("c"), None, Some("")][row % 7 % 4];
    let first = CategoryColumn::text("s", &[ROWS], |_, row| text(row)).expect("few rows");
    let second = CategoryColumn::integers("i", &[ROWS], |_, row| Some([5i64, -1, 300][row % 5 % 3])).expect("few rows");
    [first, second]
}

/// Targets: numbers, two classes, three classes.
fn targets(y: &[f64]) -> Vec<(&'static str, Vec<u32>, Option<Labels>)> {
    let classes = |n: usize| y.iter().map(|y| (*y * 2.0) as u32 % n as u32).collect::<Vec<u32>>();
    vec![
        ("numbers", vec![], None),
        ("two", classes(2), Some(Labels::TrueFirst)),
        ("three", classes(3), Some(Labels::Text(vec!["x".into(), "y".into(), "z".into()]))),
    ]
}

/// Seeds of every target but `sparse_rows` and `categories`, whose inputs are any bytes, and `imported`, whose are other libraries' files.
pub fn seeds() -> Vec<Seed> {
    let x: Vec<f64> = (0..ROWS).map(|i| if i % 9 == 4 { f64::NAN } else { (i * 7 % 11) as f64 }).collect();
    let y: Vec<f64> = (0..ROWS).map(|i| (i % 5) as f64 / 2.0).collect();
    let categories = names();
    let columns = || vec![Column::from_f64("x", &x), Column::categorical(&categories[0]), Column::categorical(&categories[1])];
    let mut all: Vec<Seed> = vec![];
    for (target, codes, labels) in targets(&y) {
        let target_of = || match &labels {
            None => Target::Numbers(Column::from_f64("y", &y)),
            Some(labels) => Target::Classes { codes: &codes, labels: labels.clone() },
        };
        let table = taiga_engine::dataset::Input {
            features: columns(),
            target: target_of(),
            target_name: "y".into(),
            weight: None,
            baseline: vec![],
            held_out: None,
            loss_columns: Default::default(),
            evaluation: Default::default(),
            order: None,
        };
        for policy in ["symmetric", "depthwise", "leafwise"] {
            for method in ["ctr", "one_hot", "partition"] {
                if (policy, method) == ("symmetric", "partition") {
                    continue; // Which there is not.
                }
                let params = json!({ "rounds": SEED_ROUNDS, "depth": 2, "policy": policy, "cat_method": method, "min_data_in_leaf": 1 });
                let params = BoostingParams::from_json(&params).expect("good parameters");
                let model = boosting::fit(&table, &params, &Quiet).expect("a small fit");
                all.push(("boosted", format!("{target}-{policy}-{method}"), unsealed(&model.to_bytes())));
            }
        }
        for splitter in ["histogram", "exact", "random"] {
            let features = if splitter == "histogram" { columns() } else { vec![Column::from_f64("x", &x)] };
            let table = forest::Input { features, target: target_of(), target_name: "y".into(), weight: None };
            let params = json!({ "trees": 2, "depth": 3, "splitter": splitter, "oob": target == "two" });
            let params = ForestParams::from_json(&params).expect("good parameters");
            let model = forest::fit(&table, &params, &Quiet).expect("a small fit");
            all.push(("forest", format!("{target}-{splitter}"), unsealed(&model.to_bytes())));
        }
        if let Some(labels) = labels {
            all.extend(linear_seeds(target, &codes, labels, &y));
        }
    }
    all.extend(encoder_seeds(&y));
    all.extend(params_seeds());
    all.extend(super::snapshots::seeds(&all));
    all
}

fn linear_seeds(target: &str, codes: &[u32], labels: Labels, dense: &[f64]) -> Vec<Seed> {
    let offsets: Vec<i64> = (0..=ROWS as i64).map(|i| 2 * i).collect();
    let numbers: Vec<u32> = (0..2 * ROWS as u32).map(|i| i * i % 13 * 100).collect();
    let words = Words(numbers.iter().map(|n| Some(format!("w{n}"))).collect());
    let amounts: Vec<f32> = numbers.iter().map(|n| *n as f32 / 500.0 - 1.0).collect();
    let list = |name: &str, items| ListColumn {
        name: name.into(),
        chunks: vec![ListChunk { offsets: Offsets::I64(&offsets), validity: None, items }],
    };
    let mut all = vec![];
    for (kind, optimizer) in [("numbers", "lbfgs"), ("words", "ftrl"), ("dense", "sgd")] {
        let sparse = match kind {
            "numbers" => Some(SparseRows {
                features: list("f", Items::Numbers(Chunk::new(Values::U32(&numbers), None))),
                values: Some(list("v", Items::Numbers(Chunk::new(Values::F32(&amounts), None)))),
            }),
            "words" => Some(SparseRows { features: list("f", Items::Texts(&words)), values: None }),
            _ => None,
        };
        let table = linear::Input {
            sparse,
            dense: if kind == "words" { vec![] } else { vec![Column::from_f64("d", dense)] },
            target: Target::Classes { codes, labels: labels.clone() },
            target_name: "y".into(),
            weight: None,
            held_out: None,
        };
        let mut params = json!({ "optimizer": optimizer, "epochs": 2 });
        if kind == "words" {
            params["hash_bits"] = json!(9);
        }
        let params = LinearParams::from_json(&params).expect("good parameters");
        let model = linear::fit(&table, &params, &Quiet).expect("a small fit");
        all.push(("linear", format!("{target}-{kind}"), unsealed(&model.to_bytes())));
    }
    all
}

fn encoder_seeds(y: &[f64]) -> Vec<Seed> {
    let classes: Vec<u32> = y.iter().map(|y| (y * 2.0) as u32 % 3).collect();
    let fit = |target, classes, computed| {
        let encoder = TargetEncoder::fit(names().to_vec(), "y", target, classes, None, &TargetParams::default());
        let encoder = encoder.and_then(|e| e.with_computed(computed)).expect("a small fit");
        unsealed(&encoder.to_bytes())
    };
    let texts = Some(vec!["x".to_string(), "y".into(), "z".into()]);
    vec![
        ("encoder", "numbers".into(), fit(EncodingTarget::Numbers(y), None, [false, false])),
        ("encoder", "three".into(), fit(EncodingTarget::Classes(&classes, 3), texts, [true, false])),
    ]
}

fn params_seeds() -> Vec<Seed> {
    let all: [(u8, &str, Value); 5] = [
        (0, "boosted", BoostingParams::default().to_json()),
        (0, "boosted-others", json!({"n_estimators": 3, "objective": "binary", "monotone": {"a": 1}, "interaction": [["a", "b"]]})),
        (1, "forest", ForestParams::default().to_json()),
        (2, "linear", LinearParams::default().to_json()),
        (2, "linear-others", json!({"C": 1.0, "class_weight": {"a": 2.0}, "positive": true, "device": "cuda:1", "tol": "x"})),
    ];
    let input = |learner: u8, value: Value| [&[learner], value.to_string().as_bytes()].concat();
    all.into_iter().map(|(learner, name, value)| ("params", name.to_string(), input(learner, value))).collect()
}
