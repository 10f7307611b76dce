//! Trees in plain arrays, as Python makes them of fitted objects of scikit-learn.
//!
//! ```text
//! {"taiga_arrays": 1, "library": "scikit-learn 1.9", "objective": "log_loss", "loss": "logloss", "classes": true,
//!  "columns": [{"name": "x", "is_categorical": true, "categories": ["a", …] or null}, …], "start": [0.0], "rows": 100, "is_f32": false, "is_forest": false,
//!  "trees": [{"output": 0, "width": 1, "column": […], "threshold": […], "missing_left": […], "left": […], "right": […],
//!             "sets": [[…] or null, …] or [], "values": […], "weights": […], "counts": […]}, …]}
//! ```
//!
//! A node whose `left` is negative is a leaf; `values` has `width` numbers of each node. Rows go left where their value (rounded to f32 where
//! `is_f32`) is not larger than the threshold, and where their category is one of the set.

use super::foreign::{Foreign, ForeignColumn, ForeignTree, Predicts, RawNode, Shape, Test};
use super::rounding::border_at_most;
use super::{Imported, Told, fault};
use crate::error::Result;
use crate::learners::boosting::params::BoostingParams;
use crate::losses::LossKind;
use crate::model::from_json::{LabelIn, NumberIn};
use crate::model::payload::named;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "taiga_arrays")]
    _version: u32,
    library: String,
    objective: String,
    loss: String,
    classes: bool,
    columns: Vec<ColumnIn>,
    start: Vec<f64>,
    rows: u64,
    is_f32: bool,
    is_forest: bool,
    trees: Vec<TreeIn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ColumnIn {
    name: String,
    is_categorical: bool,
    categories: Option<Vec<LabelIn>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TreeIn {
    output: usize,
    width: usize,
    column: Vec<u32>,
    threshold: Vec<NumberIn>,
    missing_left: Vec<bool>,
    left: Vec<i64>,
    right: Vec<i64>,
    sets: Vec<Option<Vec<u32>>>,
    values: Vec<f64>,
    weights: Vec<f64>,
    counts: Vec<u32>,
}

/// Reads a model.
///
/// # Errors
/// As [`super::import`].
pub fn read_json(text: &str, told: Told) -> Result<Imported> {
    let file: File = serde_json::from_str(text).map_err(|e| fault("arrays", format!("the JSON can't be read: {e}")))?;
    let (loss, is_f32) = (named::<LossKind>("loss", &file.loss)?, file.is_f32);
    let column =
        |c: ColumnIn| ForeignColumn { is_categorical: c.is_categorical, categories: c.categories, ..ForeignColumn::numeric(c.name) };
    let made =
        file.trees.into_iter().enumerate().map(|(t, tree)| tree.tree(is_f32).map_err(|what| fault("arrays", format!("tree {t}: {what}"))));
    let (library, version) = file.library.split_once(' ').unwrap_or((&file.library, ""));
    let foreign = Foreign {
        library: if library == "scikit-learn" { "scikit-learn" } else { "arrays" },
        version: (!version.is_empty()).then(|| version.to_string()),
        objective: file.objective,
        loss,
        params: BoostingParams::default(),
        predicts: if file.classes { Predicts::Classes } else { Predicts::Numbers },
        threshold: None,
        columns: file.columns.into_iter().map(column).collect(),
        hashes: Default::default(),
        start: file.start,
        trees: made.collect::<Result<_>>()?,
        rows: file.rows,
    };
    if file.is_forest { foreign.forest(told) } else { foreign.model(told) }
}

impl TreeIn {
    fn tree(self, is_f32: bool) -> std::result::Result<ForeignTree, String> {
        let n = self.left.len();
        let lengths = [self.column.len(), self.threshold.len(), self.missing_left.len(), self.right.len()];
        if lengths.iter().any(|len| *len != n) || Some(self.values.len()) != n.checked_mul(self.width) {
            return Err(format!("its arrays have {n} and {lengths:?} nodes, and {} values", self.values.len()));
        }
        let mut sets = self.sets;
        let mut nodes = Vec::with_capacity(n);
        for i in 0..n {
            if self.left[i] < 0 {
                nodes.push(RawNode::Leaf(i));
                continue;
            }
            let child = |c: i64| usize::try_from(c).map_err(|_| format!("node {i} leads to node {c}"));
            let (left, right, missing_left) = (child(self.left[i])?, child(self.right[i])?, self.missing_left[i]);
            let column = self.column[i];
            nodes.push(match sets.get_mut(i).and_then(Option::take) {
                // Those of the set go left; what is unknown goes where missing values do, which is left of our tests.
                Some(set) if !missing_left => {
                    RawNode::Split { column, test: Test::OneOf(set.into()), missing_left: true, left: right, right: left, gain: 0.0 }
                }
                Some(_) => return Err(format!("node {i} sends unknown categories to the side of its set")),
                None => {
                    let t = self.threshold[i].0;
                    let test = match is_f32 {
                        true => Test::not(border_at_most(t)),
                        false if t.is_nan() => Test::All,
                        false => Test::Above(t),
                    };
                    RawNode::Split { column, test, missing_left, left, right, gain: 0.0 }
                }
            });
        }
        Ok(ForeignTree {
            shape: Shape::Branching(nodes),
            output: self.output,
            width: self.width,
            values: self.values,
            weights: self.weights,
            counts: self.counts,
            linear: Default::default(),
        })
    }
}
