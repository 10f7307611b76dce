//! Bytes of snapshots, of which everything but the digest of the fit is anyone's: a fit of a small table goes on from them, or says why not.

use super::memory::bounded;
use super::models::{boosted, forest as forest_model, linear as linear_model};
use super::seeds::{ROWS, SEED_ROUNDS, Seed, names};
use super::{sealed, unsealed};
use serde_json::{Value, json};
use taiga_engine::column::Column;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::dataset::{Quiet, Target};
use taiga_engine::learners::boosting::BoostingParams;
use taiga_engine::learners::forest::ForestParams;
use taiga_engine::learners::linear::LinearParams;
use taiga_engine::learners::{boosting, forest, linear};
use taiga_engine::{Error, Result};
use taiga_testing::continued::Kept;

/// The most bytes held for each byte of a snapshot while a fit goes on from it.
const GO_ON: usize = 400;

/// The bytes that the fit itself may hold.
const FIT: usize = 1 << 16;

/// The columns of the table: numbers, codes of two classes, rows that are held out.
struct Table {
    x: Vec<f64>,
    classes: Vec<u32>,
    held_out: Vec<bool>,
}

impl Table {
    fn new() -> Table {
        let x = (0..ROWS).map(|i| if i % 9 == 4 { f64::NAN } else { (i * 7 % 11) as f64 }).collect();
        Table { x, classes: (0..ROWS as u32).map(|i| i % 5 % 2).collect(), held_out: (0..ROWS).map(|i| i % 4 == 3).collect() }
    }

    fn target(&self) -> Target<'_> {
        Target::Classes { codes: &self.classes, labels: Labels::TrueFirst }
    }
}

/// The parameters of the fits of a learner, of which an input's first byte names one.
fn boosted_params() -> [Value; 4] {
    [
        json!({ "policy": "depthwise", "cat_method": "partition" }),
        json!({ "policy": "symmetric", "boosting": "dart", "drop_rate": 0.9, "skip_drop": 0.0, "cat_method": "one_hot" }),
        json!({ "policy": "leafwise", "leaf": "linear", "cat_method": "one_hot" }),
        json!({ "policy": "depthwise", "early_stopping": 2, "eval_train": true, "cat_method": "ctr" }),
    ]
}

fn forest_params() -> [Value; 3] {
    [
        json!({ "splitter": "histogram" }),
        json!({ "splitter": "exact", "oob": false }),
        json!({ "splitter": "random", "permutation_importance": true }),
    ]
}

fn linear_params() -> [Value; 3] {
    [json!({}), json!({ "optimizer": "adagrad", "early_stopping": 2 }), json!({ "early_stopping": 3, "l1": 0.01 })]
}

/// The parameters number `fit` of a learner's, with what all have.
fn told<const N: usize>(all: [Value; N], fit: u8, common: Value) -> Value {
    let [mut told, common] = [all[fit as usize % N].clone(), common];
    for (name, value) in common.as_object().into_iter().flatten() {
        told[name] = value.clone();
    }
    told
}

fn boosted_fit(fit: u8, kept: &Kept) -> Result<Vec<u8>> {
    let (table, categories) = (Table::new(), names());
    let told = told(boosted_params(), fit, json!({ "rounds": 4, "depth": 2, "min_data_in_leaf": 1, "n_threads": 1, "device": "cpu" }));
    let input = taiga_engine::dataset::Input {
        features: vec![Column::from_f64("x", &table.x), Column::categorical(&categories[0])],
        target: table.target(),
        target_name: "y".into(),
        weight: None,
        baseline: vec![],
        held_out: told.get("early_stopping").map(|_| &table.held_out[..]),
        loss_columns: Default::default(),
        evaluation: Default::default(),
        order: None,
    };
    let options = boosting::FitOptions { snapshots: Some(kept), ..Default::default() };
    Ok(boosting::fit_with(&input, &BoostingParams::from_json(&told)?, &options, &Quiet)?.to_bytes())
}

fn forest_fit(fit: u8, kept: &Kept) -> Result<Vec<u8>> {
    let (table, categories) = (Table::new(), names());
    let told = told(forest_params(), fit, json!({ "trees": 4, "depth": 3, "n_threads": 1, "device": "cpu" }));
    let mut features = vec![Column::from_f64("x", &table.x)];
    if told["splitter"] == "histogram" {
        features.push(Column::categorical(&categories[0]));
    }
    let input = forest::Input { features, target: table.target(), target_name: "y".into(), weight: None };
    let options = forest::FitOptions { snapshots: Some(kept), ..Default::default() };
    Ok(forest::fit_with(&input, &ForestParams::from_json(&told)?, &options, &Quiet)?.to_bytes())
}

fn linear_fit(fit: u8, kept: &Kept) -> Result<Vec<u8>> {
    let table = Table::new();
    let told = told(linear_params(), fit, json!({ "epochs": 4, "n_threads": 1, "device": "cpu" }));
    let dense: Vec<f64> = table.x.iter().map(|x| if x.is_nan() { 0.5 } else { x / 8.0 }).collect();
    let input = linear::Input {
        sparse: None,
        dense: vec![Column::from_f64("x", &dense)],
        target: table.target(),
        target_name: "y".into(),
        weight: None,
        held_out: told.get("early_stopping").map(|_| &table.held_out[..]),
    };
    let options = linear::FitOptions { snapshots: Some(kept), ..Default::default() };
    Ok(linear::fit_with(&input, &LinearParams::from_json(&told)?, &options, &Quiet)?.to_bytes())
}

/// How a learner fits, and how many fits there are of it.
type Fits = (&'static [u8; 2], fn(u8, &Kept) -> Result<Vec<u8>>, u8);

const BOOSTED: Fits = (b"GS", boosted_fit, 4);
const FOREST: Fits = (b"FS", forest_fit, 3);
const LINEAR: Fits = (b"LS", linear_fit, 3);

/// Returns the payload of the snapshot that a fit saves first, and how many bytes its digest takes.
fn payload((kind, fits, _): Fits, fit: u8) -> (Vec<u8>, usize) {
    let kept = Kept::new(1, None, 1);
    let ended = fits(fit, &kept);
    assert_eq!(ended, Err(Error::Interrupted), "of {}, fit {fit}", String::from_utf8_lossy(kind));
    let payload = unsealed(&kept.bytes().expect("what was saved"))[1..].to_vec();
    // Two numbers, of which each ends with a byte below 128.
    let ends = payload.iter().enumerate().filter(|(_, byte)| **byte < 128).map(|(i, _)| i + 1);
    let digest = ends.take(2).last().expect("a digest");
    (payload, digest)
}

/// Has a fit go on from a snapshot that consists of its own digest and of `rest`. Whether it did; what it then has made is handed to `check`.
fn goes_on(of: Fits, fit: u8, rest: &[u8], check: fn(&[u8]) -> bool) -> bool {
    let (kind, fits, count) = of;
    let fit = fit % count;
    let (real, digest) = payload(of, fit);
    let bytes = sealed(kind, &[&[1], &real[..digest], rest].concat());
    match bounded("going on", bytes.len() + FIT, GO_ON, || fits(fit, &Kept::new(2, Some(bytes), u32::MAX))) {
        Ok(model) => {
            assert!(check(&unsealed(&model)), "a fit that goes on makes a model that can be read");
            true
        }
        Err(_) => false,
    }
}

/// A number as payloads have it.
fn varint(mut number: usize) -> Vec<u8> {
    let mut bytes = vec![];
    while number >= 128 {
        bytes.push(number as u8 | 128);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Bytes of a snapshot of boosted trees: which fit, its rounds, the length of the model in two bytes, the model as the target of models has it, and
/// what comes behind it.
pub fn boosted_snapshot(input: &[u8]) -> bool {
    let Some(([fit, rounds, low, high], rest)) = input.split_first_chunk::<4>() else { return false };
    let (model, behind) = rest.split_at(usize::from(u16::from_le_bytes([*low, *high])).min(rest.len()));
    let model = sealed(b"GB", model);
    goes_on(BOOSTED, *fit, &[&varint(*rounds as usize), &varint(model.len()), &model[..], behind].concat(), boosted)
}

/// Bytes of a snapshot of a forest: which fit, and what comes behind the digest.
pub fn forest_snapshot(input: &[u8]) -> bool {
    input.split_first().is_some_and(|(fit, rest)| goes_on(FOREST, *fit, rest, forest_model))
}

/// Bytes of a snapshot of a sparse logistic regression: the same.
pub fn linear_snapshot(input: &[u8]) -> bool {
    input.split_first().is_some_and(|(fit, rest)| goes_on(LINEAR, *fit, rest, linear_model))
}

/// Returns real snapshots of every fit, as inputs; and of one of boosted trees one whose model, of as many rounds, is of other columns. `models`: seeds of
/// models.
pub fn seeds(models: &[Seed]) -> Vec<Seed> {
    let mut all = vec![];
    for (name, of) in [("boosted_snapshot", BOOSTED), ("forest_snapshot", FOREST), ("linear_snapshot", LINEAR)] {
        for fit in 0..of.2 {
            let (payload, digest) = payload(of, fit);
            let rest = if name == "boosted_snapshot" { boosted_rest(&payload[digest..], None) } else { payload[digest..].to_vec() };
            all.push((name, fit.to_string(), [&[fit], &rest[..]].concat()));
        }
    }
    let (payload, digest) = payload(BOOSTED, 0);
    let other = models.iter().find(|(target, name, _)| *target == "boosted" && name == "two-depthwise-partition").expect("a seed");
    let rest = boosted_rest(&payload[digest..], Some((SEED_ROUNDS, &other.2)));
    all.push(("boosted_snapshot", "model-of-others".into(), [&[0], &rest[..]].concat()));
    all
}

/// What an input has of what comes behind the digest in a snapshot of boosted trees after few rounds; `other`: with another model, of so many rounds.
fn boosted_rest(rest: &[u8], other: Option<(u8, &[u8])>) -> Vec<u8> {
    let (rounds, rest) = rest.split_first().expect("few rounds");
    let end = rest.iter().position(|byte| *byte < 128).expect("a length") + 1;
    let length = rest[..end].iter().rev().fold(0, |length, byte| length << 7 | (*byte & 127) as usize);
    let (model, behind) = rest[end..].split_at(length);
    let own = unsealed(model);
    let (rounds, model) = other.unwrap_or((*rounds, &own));
    [&[rounds], &(model.len() as u16).to_le_bytes()[..], model, behind].concat()
}
