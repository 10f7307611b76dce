//! Sparse rows as Arrow may hold them, fitted and predicted.

use super::columns::{Numbers, Words};
use super::memory::bounded;
use serde_json::json;
use taiga_engine::column::{Bits, Chunk, Column, Values};
use taiga_engine::dataset::labels::Labels;
use taiga_engine::dataset::{Quiet, Target};
use taiga_engine::learners::linear::{Input, Items, LinearModel, LinearParams, ListChunk, ListColumn, Offsets, Predictor, SparseRows, fit};

/// Lists that own what they hold; offsets, validity and items are of any length and any order.
struct Lists {
    wide: Vec<i64>,
    narrow: Vec<i32>,
    /// The width of lists that are all equally long.
    fixed: Option<(usize, usize)>,
    is_wide: bool,
    validity: Option<(Vec<u8>, usize, usize)>,
    items: Owned,
    items_validity: Option<(Vec<u8>, usize)>,
}

enum Owned {
    U8(Vec<u8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    U32(Vec<u32>),
    I64(Vec<i64>),
    U64(Vec<u64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Texts(Words),
}

impl Owned {
    fn len(&self) -> usize {
        match self {
            Owned::U8(v) => v.len(),
            Owned::I16(v) => v.len(),
            Owned::I32(v) => v.len(),
            Owned::U32(v) => v.len(),
            Owned::I64(v) => v.len(),
            Owned::U64(v) => v.len(),
            Owned::F32(v) => v.len(),
            Owned::F64(v) => v.len(),
            Owned::Texts(v) => v.0.len(),
        }
    }

    fn new(from: &mut Numbers<'_>, n: usize, values: bool) -> Owned {
        let kind = from.below(if values { 4 } else { 9 }) + if values { 9 } else { 0 };
        match kind {
            0 => Owned::U8((0..n).map(|_| from.byte()).collect()),
            1 => Owned::I16((0..n).map(|_| from.u64(1) as i8 as i16).collect()),
            2 => Owned::I32((0..n).map(|_| number(from.u64(4)) as i32).collect()),
            3 => Owned::U32((0..n).map(|_| number(from.u64(4)) as u32).collect()),
            4 => Owned::I64((0..n).map(|_| number(from.u64(8)) as i64).collect()),
            5 => Owned::U64((0..n).map(|_| number(from.u64(8))).collect()),
            6 => Owned::U32((0..n).map(|_| from.byte() as u32).collect()),
            7 | 8 => {
                let word = |_| {
                    let len = from.below(4);
                    (len < 3).then(|| String::from_utf8_lossy(from.bytes(len)).into_owned())
                };
                Owned::Texts(Words((0..n).map(word).collect()))
            }
            9 => Owned::F32((0..n).map(|_| from.f64() as f32).collect()),
            10 => Owned::F64((0..n).map(|_| from.f64()).collect()),
            11 => Owned::U8((0..n).map(|_| from.byte()).collect()),
            _ => Owned::I64((0..n).map(|_| from.u64(8) as i64).collect()),
        }
    }
}

/// A feature's number, none of those for which a fit makes arrays of megabytes, as it does for up to 2^24 features.
fn number(x: u64) -> u64 {
    if (1 << 12..=1 << 24).contains(&x) { x % 4096 } else { x }
}

/// Bits for `n` places, in a bitmap that begins somewhere.
fn bits(from: &mut Numbers<'_>, n: usize) -> Option<(Vec<u8>, usize)> {
    if from.byte() < 200 {
        return None;
    }
    let offset = from.below(9);
    Some(((0..(n + offset).div_ceil(8)).map(|_| !from.byte()).collect(), offset))
}

impl Lists {
    /// `lengths`: of the rows, where these lists are to fit others.
    fn new(from: &mut Numbers<'_>, lengths: &[usize], values: bool) -> Lists {
        let rows = lengths.len();
        let first = from.below(3) as i64;
        let mut wide = vec![first];
        lengths.iter().for_each(|n| wide.push(wide[wide.len() - 1] + *n as i64));
        let n = (wide[rows] as usize) + from.below(3);
        match from.byte() {
            255 => wide[from.0.len() % (rows + 1)] = from.u64(8) as i64,
            254 => wide.clear(),
            _ => {}
        }
        let narrow = wide.iter().map(|o| *o as i32).collect();
        let fixed = (from.byte() > 240).then(|| (from.below(5), rows));
        let is_wide = from.flag();
        let validity = bits(from, rows).map(|(bytes, offset)| (bytes, offset, rows));
        let items = Owned::new(from, n, values);
        let items_validity = bits(from, items.len());
        Lists { wide, narrow, fixed, is_wide, validity, items, items_validity }
    }

    fn column<'a>(&'a self, name: &str) -> ListColumn<'a> {
        let validity = self.items_validity.as_ref().map(|(bytes, offset)| Bits::new(bytes, *offset, self.items.len()));
        let numbers = |values| Items::Numbers(Chunk::new(values, validity));
        let items = match &self.items {
            Owned::Texts(v) => Items::Texts(v),
            Owned::U8(v) => numbers(Values::U8(v)),
            Owned::I16(v) => numbers(Values::I16(v)),
            Owned::I32(v) => numbers(Values::I32(v)),
            Owned::U32(v) => numbers(Values::U32(v)),
            Owned::I64(v) => numbers(Values::I64(v)),
            Owned::U64(v) => numbers(Values::U64(v)),
            Owned::F32(v) => numbers(Values::F32(v)),
            Owned::F64(v) => numbers(Values::F64(v)),
        };
        let offsets = match self.fixed {
            Some((width, rows)) => Offsets::Fixed { width, rows },
            None if self.is_wide => Offsets::I64(&self.wide),
            None => Offsets::I32(&self.narrow),
        };
        let validity = self.validity.as_ref().map(|(bytes, offset, rows)| Bits::new(bytes, *offset, *rows));
        ListColumn { name: name.into(), chunks: vec![ListChunk { offsets, validity, items }] }
    }
}

/// Sparse rows, a target and parameters from any bytes: fitted, which is an error or a model; and the model applied to its rows.
pub fn sparse_rows(input: &[u8]) -> bool {
    let mut from = Numbers(input);
    let rows = from.below(24);
    let lengths: Vec<usize> = (0..rows).map(|_| from.below(5)).collect();
    let features = Lists::new(&mut from, &lengths, false);
    let values = (from.byte() > 100).then(|| Lists::new(&mut from, &lengths, true));
    let classes = 1 + from.below(4);
    let codes: Vec<u32> = (0..rows).map(|_| from.below(classes + (classes == 4) as usize) as u32).collect();
    let labels = Labels::Integer((0..classes as i64).collect());
    let dense: Vec<f64> = (0..rows).map(|_| from.f64()).collect();
    let weight: Vec<f64> = (0..rows).map(|_| from.f64()).collect();
    let held_out: Vec<bool> = (0..rows).map(|_| from.flag()).collect();
    let (has_dense, has_weight, has_held_out) = (from.byte() > 180, from.byte() > 200, from.byte() > 200);
    let optimizer = ["lbfgs", "sgd", "adagrad", "ftrl"][from.below(4)];
    let mut params = json!({ "optimizer": optimizer, "epochs": 1 + from.below(3), "n_threads": 1, "device": "cpu", "seed": from.byte() });
    if matches!(features.items, Owned::Texts(_)) {
        params["hash_bits"] = json!(1 + from.below(12));
    }
    match from.byte() {
        255 => params["features"] = json!(number(from.u64(8))),
        254 => params["l1"] = json!(from.f64()),
        253 => params["l2"] = json!(from.f64()),
        252 if optimizer != "lbfgs" => params["learning_rate"] = json!(from.f64()),
        251 if optimizer != "lbfgs" => params["batch"] = json!(from.byte()),
        250 => params["fit_intercept"] = json!(false),
        249 => params["class_weight"] = json!("balanced"),
        _ => {}
    }
    let Ok(params) = LinearParams::from_json(&params) else { return false };
    let sparse = SparseRows { features: features.column("f"), values: values.as_ref().map(|v| v.column("v")) };
    let table = Input {
        sparse: Some(sparse.clone()),
        dense: if has_dense { vec![Column::from_f64("d", &dense)] } else { vec![] },
        target: Target::Classes { codes: &codes, labels },
        target_name: "y".into(),
        weight: has_weight.then(|| Column::from_f64("w", &weight)),
        held_out: has_held_out.then_some(held_out.as_slice()),
    };
    // Fields of hashes and statistics of twelve bits and four classes, and the batches' rooms.
    let Ok(model) = bounded("fitting", input.len() + 20_000, 400, || fit(&table, &params, &Quiet)) else { return false };
    let bytes = model.to_bytes();
    let back = LinearModel::from_bytes(&bytes).expect("what was written is read");
    assert!(back.to_bytes() == bytes);
    let predictor = Predictor::new(back);
    let bound = predictor.bind(&table.dense).expect("all columns are there");
    let raw = predictor.raw(Some(&sparse), &bound).expect("rows that were fitted");
    assert!(raw.iter().all(|r| r.len() == rows));
    true
}
