//! A model as JSON, to read and to take elsewhere.
//!
//! ```text
//! { "format": "polars-taiga gbdt", "version": 1,
//!   "loss": "logloss", "target": "y", "rows": 48842,
//!   "labels": [false, true] or null,
//!   "start": [-1.19], "scale": 1.0,
//!   "features": [{"name": "age", "type": "numeric", "borders": [17.5, …]},
//!                {"name": "job", "type": "categorical", "borders": [], "categories": ["cook", null, …]}, …],
//!   "derived": [{"kind": "one_of", "feature": 1, "categories": [0, 3]},
//!               {"kind": "ctr", "table": 0, "statistic": "borders", "class": 0, "prior": 0.5,
//!                "sums": 0, "unit": 1.0, "borders": [0.3, …]}, …],
//!   "tables": [{"features": [1, 2], "keys": [17, …] or [], "n": [4, …], "sums": [[3, …], …]}, …],
//!   "trees": [
//!     {"kind": "symmetric", "round": 0, "output": 0,
//!      "splits": [{"feature": 0, "border": 17.5, "missing": "left", "gain": 12.5}, …one a level],
//!      "leaves": [{"value": 0.02, "weight": 30.0, "count": 31}, …2^splits, from left to right]},
//!     {"kind": "branching", "round": 1, "output": 0,
//!      "nodes": [{"feature": 0, …as above, "left": {"node": 1}, "right": {"leaf": 0}}, …],
//!      "leaves": [… in the order of "leaf"]}, …],
//!   "history": {"metric": "logloss", "values": [0.61, …], "best": 99} or null,
//!   "params": {"trees": 100, …},
//!   "label_type": "UInt8" or {"Enum": ["low", "high"]}, …, where labels have another type than the four that JSON
//!       and this format know (Boolean, Int64, Float64, String),
//!   "computed": ["age", …], the features that were expressions when it was fitted, where there are any }
//! ```
//!
//! A split's "feature" counts the features and behind them the derived ones. A category is its place
//! among "categories". "one_of" is 1 for the categories listed and 0 for others. A "ctr" looks up its
//! table's entry: for one feature the category itself, for several the one with the key
//! `(first * categories of the second + second) * …`; its value is `(sum * unit + prior) / (n + 1)`,
//! for a "counter" `(n + prior) / (largest n + 1)`, and n and sum are 0 for what the table lacks.
//!
//! A row starts at node 0 (leaf 0 where there are no nodes) and goes right where its value is
//! larger than the border, and left else; a missing value goes to the side named. The raw score of
//! output `k` is `start[k] + scale * Σ value` over the leaves of the trees of that output, in
//! their order. JSON has no infinities: they are the strings `"-inf"` (a border below every
//! number), `"inf"` (a border that only separates missing values) and `"nan"` (a metric that was
//! not defined).

use super::envelope::name_of;
use super::{Derived, Feature, History, Labels, Model};
use crate::provenance::Provenance;
use crate::tree::model::{Child, Leaf, Split, Tree};
use serde_json::{Value, json};

/// A number, or the text that stands for what JSON has no number for.
pub(crate) fn number(x: f64) -> Value {
    match x {
        x if x.is_finite() => json!(x),
        x if x.is_nan() => json!("nan"),
        x => json!(if x > 0.0 { "inf" } else { "-inf" }),
    }
}

pub(crate) fn numbers(x: &[f64]) -> Value {
    x.iter().map(|x| number(*x)).collect()
}

/// Class labels, in their own type.
pub(crate) fn labels(labels: &Labels) -> Value {
    match labels {
        Labels::Boolean => json!([false, true]),
        Labels::TrueFirst => json!([true, false]),
        Labels::Integer(v) => json!(v),
        Labels::Float(v) => numbers(v),
        Labels::Text(v) => json!(v),
    }
}

/// Adds what there is to tell of where classes and columns come from; `columns`: the names of those that the model reads.
pub(crate) fn add_provenance<'a>(model: &mut Value, provenance: &Provenance, columns: impl IntoIterator<Item = &'a str>) {
    if let Some(dtype) = &provenance.label_type {
        model["label_type"] = json!(dtype);
    }
    if !provenance.computed.is_empty() {
        model["computed"] = json!(provenance.computed_names(columns));
    }
}

/// A feature with its borders and categories.
pub(crate) fn feature(f: &Feature) -> Value {
    let mut feature = json!({"name": f.name, "type": f.dtype.to_string(), "borders": numbers(&f.borders)});
    if let Some(categories) = &f.categories {
        let label = |code: u32| if categories.null == Some(code) { Value::Null } else { json!(categories.name(code)) };
        feature["categories"] = (0..categories.len() as u32).map(label).collect();
    }
    feature
}

/// The curve of a metric.
pub(crate) fn history(h: &History) -> Value {
    json!({"metric": name_of(&h.metric), "values": numbers(&h.values), "best": h.best})
}

fn leaves(leaves: &[Leaf], weight_unit: f64) -> Value {
    let leaf = |l: &Leaf| json!({"value": number(l.value as f64), "weight": number(l.weight as f64 * weight_unit), "count": l.count});
    leaves.iter().map(leaf).collect()
}

pub(crate) fn child(child: Child) -> Value {
    match child {
        Child::Node(i) => json!({ "node": i }),
        Child::Leaf(i) => json!({ "leaf": i }),
    }
}

fn derived(derived: &Derived) -> Value {
    match derived {
        Derived::OneOf { feature, categories } => json!({"kind": "one_of", "feature": feature, "categories": categories}),
        Derived::Ctr { table, sums, ctr, unit, borders } => json!({
            "kind": "ctr", "table": table, "statistic": name_of(&ctr.kind), "class": ctr.class, "prior": number(ctr.prior),
            "sums": sums, "unit": number(*unit), "borders": numbers(borders),
        }),
    }
}

impl Model {
    /// The whole model as a JSON object; see the module's text for its fields.
    pub fn to_json(&self) -> Value {
        let mut model = json!({
            "format": "polars-taiga gbdt",
            "version": self.version(),
            "loss": name_of(&self.loss),
            "target": self.target,
            "rows": self.rows,
            "labels": self.labels.as_ref().map(labels),
            "start": numbers(&self.start),
            "scale": number(self.scale),
            "features": self.features.iter().map(feature).collect::<Value>(),
            "derived": self.derived.iter().map(derived).collect::<Value>(),
            "tables": self.tables.iter().map(|t| {
                json!({"features": t.features, "keys": t.keys, "n": t.n, "sums": t.sums})
            }).collect::<Value>(),
            "trees": self.trees.iter().enumerate().map(|(t, tree)| self.tree_json(t, tree)).collect::<Value>(),
            "history": self.history.as_ref().map(history),
            "params": self.params.to_json(),
        });
        add_provenance(&mut model, &self.provenance, self.features.iter().map(|f| f.name.as_str()));
        model
    }

    fn split_json(&self, split: &Split) -> Value {
        json!({
            "feature": split.feature,
            "border": number(self.border(split)),
            "missing": if split.missing_left { "left" } else { "right" },
            "gain": number(split.gain as f64 * self.units.gain),
        })
    }

    fn tree_json(&self, index: usize, tree: &Tree) -> Value {
        let outputs = self.outputs().max(1);
        let mut value = match tree {
            Tree::Symmetric { splits, .. } => json!({
                "kind": "symmetric",
                "splits": splits.iter().map(|s| self.split_json(s)).collect::<Value>(),
            }),
            Tree::Branching { nodes, .. } => json!({
                "kind": "branching",
                "nodes": nodes.iter().map(|n| {
                    let mut node = self.split_json(&n.split);
                    node["left"] = child(n.left);
                    node["right"] = child(n.right);
                    node
                }).collect::<Value>(),
            }),
        };
        value["round"] = json!(index / outputs);
        value["output"] = json!(index % outputs);
        value["leaves"] = leaves(tree.leaves(), self.units.weight);
        value
    }
}
