//! Tables of sparse rows, as the tests of sparse logistic regression need them.

use crate::Dice;
use serde_json::{Value, json};
use std::ops::Range;
use taiga_engine::column::{Chunk, Column, Values};
use taiga_engine::dataset::labels::Labels;
use taiga_engine::dataset::{Quiet, Target};
use taiga_engine::learners::linear::{Input, Items, LinearModel, LinearParams, ListChunk, ListColumn, Offsets, Predictor, SparseRows, fit};
use taiga_engine::{Error, Result};

/// A table that owns its rows: lists `f` of numbers with values `v`, dense columns `d0`, `d1`, … and classes `y`.
#[derive(Clone, Default)]
pub struct Table {
    pub offsets: Vec<i64>,
    pub numbers: Vec<i64>,
    pub values: Option<Vec<f64>>,
    pub dense: Vec<Vec<f64>>,
    pub codes: Vec<u32>,
    pub classes: usize,
    pub weight: Option<Vec<f64>>,
    pub held_out: Option<Vec<bool>>,
}

pub fn labels(classes: usize) -> Labels {
    Labels::Text((0..classes).map(|k| format!("c{k}")).collect())
}

/// A column of one chunk.
pub fn lists<'a>(name: &str, offsets: &'a [i64], values: Values<'a>) -> ListColumn<'a> {
    let chunk = ListChunk { offsets: Offsets::I64(offsets), validity: None, items: Items::Numbers(Chunk::new(values, None)) };
    ListColumn { name: name.into(), chunks: vec![chunk] }
}

impl Table {
    /// Rows of (feature, value), with classes.
    pub fn new(rows: &[Vec<(i64, f64)>], codes: Vec<u32>, classes: usize) -> Table {
        let mut table = Table { offsets: vec![0], codes, classes, values: Some(vec![]), ..Default::default() };
        for row in rows {
            table.numbers.extend(row.iter().map(|e| e.0));
            table.values.as_mut().unwrap().extend(row.iter().map(|e| e.1));
            table.offsets.push(table.numbers.len() as i64);
        }
        table
    }

    pub fn rows(&self) -> usize {
        self.codes.len()
    }

    /// The (feature, value) entries of a row.
    pub fn row(&self, i: usize) -> Vec<(i64, f64)> {
        let span = self.offsets[i] as usize..self.offsets[i + 1] as usize;
        span.map(|at| (self.numbers[at], self.values.as_ref().map_or(1.0, |v| v[at]))).collect()
    }

    pub fn sparse(&self) -> SparseRows<'_> {
        SparseRows {
            features: lists("f", &self.offsets, Values::I64(&self.numbers)),
            values: self.values.as_ref().map(|v| lists("v", &self.offsets, Values::F64(v))),
        }
    }

    pub fn columns(&self) -> Vec<Column<'_>> {
        self.dense.iter().enumerate().map(|(i, c)| Column::from_f64(format!("d{i}"), c)).collect()
    }

    pub fn input(&self) -> Input<'_> {
        Input {
            sparse: Some(self.sparse()),
            dense: self.columns(),
            target: Target::Classes { codes: &self.codes, labels: labels(self.classes) },
            target_name: "y".into(),
            weight: self.weight.as_ref().map(|w| Column::from_f64("w", w)),
            held_out: self.held_out.as_deref(),
        }
    }

    pub fn try_fit(&self, p: serde_json::Value) -> Result<LinearModel> {
        fit(&self.input(), &params(p), &Quiet)
    }

    pub fn fit(&self, p: serde_json::Value) -> LinearModel {
        self.try_fit(p.clone()).unwrap_or_else(|e| panic!("{e}; {p}"))
    }

    /// Raw scores, `[output][row]`.
    pub fn raw(&self, model: &LinearModel) -> Vec<Vec<f64>> {
        let predictor = Predictor::new(model.clone());
        let columns = self.columns();
        predictor.raw(Some(&self.sparse()), &predictor.bind(&columns).unwrap()).unwrap()
    }
}

pub fn params(p: serde_json::Value) -> LinearParams {
    LinearParams::from_json(&p).unwrap_or_else(|e| panic!("{e}; {p}"))
}

/// The error's text holds each of the words.
pub fn assert_error<T>(result: Result<T>, words: &[&str]) {
    let Err(error) = result else { panic!("no error about {words:?}") };
    assert!(!matches!(error, Error::Interrupted));
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{text:?} does not say {word:?}");
    }
}

/// 400 rows of 60 features, from formulas that `benchmarks/sparse_lr_optimum.py` has too.
pub fn formulas(classes: usize) -> Table {
    let (mut rows, mut codes) = (vec![], vec![]);
    for i in 0..400i64 {
        let mut z = ((i * 53) % 19 - 9) as f64 / 9.0;
        let mut row = vec![];
        for j in 0..3 + i % 5 {
            let (f, x) = ((i * i + 7 * j * (j + i)) % 60, ((i * 13 + j * 29) % 11 - 5) as f64 / 4.0);
            row.push((f, x));
            z += x * ((f * 31) % 17 - 8) as f64 / 8.0;
        }
        rows.push(row);
        codes.push(if classes == 2 { (z > 0.0) as u32 } else { (z >= -1.0) as u32 + (z >= 1.0) as u32 });
    }
    Table::new(&rows, codes, classes)
}

/// The objective of coefficients, dense and in f64: `vector[feature * outputs + output]`, intercepts last.
pub fn objective(table: &Table, width: usize, vector: &[f64], l1: f64, l2: f64) -> f64 {
    let outputs = if table.classes == 2 { 1 } else { table.classes };
    let features = width + table.dense.len();
    let (mut loss, mut total) = (0.0, 0.0);
    for i in (0..table.rows()).filter(|i| !table.held_out.as_ref().is_some_and(|h| h[*i])) {
        let w = table.weight.as_ref().map_or(1.0, |w| w[i]);
        let mut scores = vec![0.0; outputs];
        for (k, s) in scores.iter_mut().enumerate() {
            *s = vector[features * outputs + k];
            *s += table.row(i).iter().map(|(f, x)| vector[*f as usize * outputs + k] * x).sum::<f64>();
            *s += table.dense.iter().enumerate().map(|(d, c)| vector[(width + d) * outputs + k] * c[i]).sum::<f64>();
        }
        if outputs == 1 {
            scores.insert(0, 0.0);
        }
        let top = scores.iter().copied().fold(f64::MIN, f64::max);
        loss += w * (scores.iter().map(|s| (s - top).exp()).sum::<f64>().ln() + top - scores[table.codes[i] as usize]);
        total += w;
    }
    let penalised = &vector[..features * outputs];
    loss / total + 0.5 * l2 * penalised.iter().map(|c| c * c).sum::<f64>() + l1 * penalised.iter().map(|c| c.abs()).sum::<f64>()
}

/// A model's coefficients as such a vector.
pub fn vector(model: &LinearModel, width: usize) -> Vec<f64> {
    let outputs = model.outputs();
    let mut out = vec![0.0; width * outputs];
    for (i, n) in model.numbers.iter().enumerate() {
        for k in 0..outputs {
            out[*n as usize * outputs + k] = model.weights[i * outputs + k] as f64;
        }
    }
    out.extend(&model.dense_weights);
    out.extend(&model.intercepts);
    out
}

/// Draws a table and how it is fitted; equal seeds draw equal ones. Rows are moved in blocks of 16,384, so some tables have several of those.
pub fn drawn(seed: u64) -> (Table, Value) {
    let dice = &mut Dice::new(seed ^ 0x11ea);
    let rows = [2, 4, 60, 900, 5_000, 20_000, 40_000, 66_000][dice.below(8) as usize] + dice.below(9) as usize;
    let classes = [2, 2, 3][dice.below(3) as usize];
    let width = [3, 40, 3_000][dice.below(3) as usize];
    // Numbers that are numbered anew; features of very different sizes; values that are all 1, or are in a few rows alone.
    let (apart, sizes, values) = (if dice.chance(0.2) { 1 << 33 } else { 1 }, dice.chance(0.3), dice.below(4));
    let (mut lists, mut codes) = (vec![], vec![]);
    for row in 0..rows {
        let mut score = 0.3 * dice.normal();
        let list: Vec<(i64, f64)> = (0..dice.below(6))
            .map(|_| {
                let feature = dice.below(width) as i64;
                let value = match values {
                    0 => 1.0,
                    1 if row + 3 < rows => 1.0,
                    _ => dice.normal() * if sizes { [1.0, 1e-6, 1e4][feature as usize % 3] } else { 1.0 },
                };
                score += (feature % 5 - 2) as f64;
                (feature * apart, value)
            })
            .collect();
        lists.push(list);
        codes.push(if classes == 2 { u32::from(score > 0.0) } else { u32::from(score > -1.0) + u32::from(score > 1.0) });
    }
    (codes[0], codes[1]) = (0, 1);
    let mut table = Table::new(&lists, codes, classes);
    if values == 0 && dice.chance(0.5) {
        table.values = None;
    }
    table.dense = (0..dice.below(3)).map(|_| (0..rows).map(|_| dice.normal()).collect()).collect();
    table.weight = dice.chance(0.5).then(|| (0..rows).map(|row| if row < 2 { 1.0 } else { dice.below(4) as f64 * 0.7 }).collect());
    let mut given = json!({ "epochs": 1 + dice.below(6), "fit_intercept": dice.chance(0.8), "seed": seed });
    if dice.chance(0.3) {
        given["l1"] = json!(1e-4);
    }
    if dice.chance(0.3) {
        given["class_weight"] = json!("balanced");
    }
    if rows > 4 && dice.chance(0.4) {
        table.held_out = Some((0..rows).map(|row| row > 1 && dice.chance(0.3)).collect());
        if dice.chance(0.5) {
            given["early_stopping"] = json!(2);
        }
    }
    (table, given)
}

/// Returns rows of a column of lists, in two chunks.
fn lists_of<'a>(name: &str, table: &'a Table, rows: &Range<usize>, values: Values<'a>) -> ListColumn<'a> {
    let middle = rows.start + rows.len() / 3;
    let chunk = |rows: Range<usize>| ListChunk {
        offsets: Offsets::I64(&table.offsets[rows.start..=rows.end]),
        validity: None,
        items: Items::Numbers(Chunk::new(values, None)),
    };
    ListColumn { name: name.into(), chunks: vec![chunk(rows.start..middle), chunk(middle..rows.end)] }
}

/// Returns the table as a process has it: all of its target and weights, and the lists and numbers of its own rows.
pub fn of_own<'a>(table: &'a Table, rows: &Range<usize>) -> Input<'a> {
    let all = table.input();
    Input {
        sparse: Some(SparseRows {
            features: lists_of("f", table, rows, Values::I64(&table.numbers)),
            values: table.values.as_ref().map(|values| lists_of("v", table, rows, Values::F64(values))),
        }),
        dense: all.dense.iter().map(|column| column.slice(rows.start, rows.len())).collect(),
        ..all
    }
}
