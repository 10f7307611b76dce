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
//!                "sums": 0, "unit": 1.0, "borders": [0.3, …]},
//!               {"kind": "hashed", "table": 1, "parts": [{"category_of": 1}, {"feature": 0, "border": 17.5, "missing": "left"}, …],
//!                "values": [0.25, …], "unseen": 0.5, "borders": [0.3, …]}, …],
//!   "tables": [{"features": [1, 2], "keys": [17, …] or [], "n": [4, …], "sums": [[3, …], …]}, …],
//!   "trees": [
//!     {"kind": "symmetric", "round": 0, "output": 0,
//!      "splits": [{"feature": 0, "border": 17.5, "missing": "left", "gain": 12.5}, …one a level],
//!      "leaves": [{"value": 0.02, "weight": 30.0, "count": 31}, …2^splits, from left to right]},
//!     {"kind": "branching", "round": 1, "output": 0,
//!      "nodes": [{"feature": 0, …as above, "left": {"node": 1}, "right": {"leaf": 0}}, …],
//!      "leaves": [… in the order of "leaf"]}, …],
//!       where a leaf may have a "linear": {"constant": 0.1, "features": [0, 3], "coefficients": [0.5, -2.0]},
//!   "history": {"metric": "logloss", "values": [0.61, …], "best": 99} or null,
//!   "params": {"trees": 100, …} as in [`stored`](crate::params::stored),
//!   "label_type": "UInt8" or {"Enum": ["low", "high"]}, …, where labels have another type than the four that JSON
//!       and this format know (Boolean, Int64, Float64, String),
//!   "computed": ["age", …], the features that were expressions when it was fitted, where there are any,
//!   "structs": [{ "name": "person", "columns": [0, …] }, …], where these were fields of a column }
//! ```
//!
//! A split's "feature" counts the features and behind them the derived ones. A category is its place
//! among "categories". "one_of" is 1 for the categories listed and 0 for others. A "ctr" looks up its
//! table's entry: for one feature the category itself, for several the one with the key
//! `(first * categories of the second + second) * …`; its value is `(sum * unit + prior) / (n + 1)`,
//! for a "counter" `(n + prior) / (largest n + 1)`, and n and sum are 0 for what the table lacks.
//!
//! Categories that are "text, integers or Booleans" are known by a hash of their text, the lower half of the first version of CityHash64: a
//! category is its hash, and "categories" are those texts that are known. "hashed" finds a row's hash among the keys of its table: of
//! `h = 0` and each of its parts `p` in order `h = m * (h + m * p)` modulo 2^64 with `m = 0x4906ba494954cb65`, where `p` is the hash of
//! the column's category as a signed number of 32 bits, or 1 where the row goes right at the split that is named, else 0.
//!
//! A row starts at node 0 (leaf 0 where there are no nodes) and goes right where its value is
//! larger than the border, and left else; a missing value goes to the side named. A leaf with a "linear" function has the value
//! `constant + Σ coefficient * value` of the row, added in this order in f64, and its "value" where that is not finite. The raw score of
//! output `k` is `start[k] + scale * Σ value` over the leaves of the trees of that output, in
//! their order. JSON has no infinities: they are the strings `"-inf"` (a border below every
//! number), `"inf"` (a border that only separates missing values) and `"nan"` (a metric that was
//! not defined).

use super::{CtrTable, Derived, HashedPart, Model, Units};
use crate::envelope::Persisted;
use crate::error::Result;
use crate::model::json::{ChildJson, FeatureJson, HistoryJson, LabelsJson, List, Number, Numbers, text_of, write_provenance};
use crate::model::payload::name_of;
use crate::tree::linear::{LinearLeaf, of_tree};
use crate::tree::model::{Child, Leaf, Node, Split, Tree};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// What the text says it is.
pub const FORMAT: &str = "polars-taiga gbdt";

struct UnitsJson<'a>(&'a Units);

impl Serialize for UnitsJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("gain", &Number(self.0.gain))?;
        map.serialize_entry("weight", &Number(self.0.weight))?;
        map.end()
    }
}

/// A leaf, its linear function where it has one, and the unit of weights.
struct LeafJson<'a>(&'a Leaf, Option<&'a LinearLeaf>, f64);

impl Serialize for LeafJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let LeafJson(leaf, linear, weight_unit) = self;
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("value", &Number(leaf.value))?;
        map.serialize_entry("weight", &Number(leaf.weight as f64 * weight_unit))?;
        map.serialize_entry("count", &leaf.count)?;
        if let Some(linear) = linear {
            map.serialize_entry("linear", &LinearJson(linear))?;
        }
        map.end()
    }
}

struct LinearJson<'a>(&'a LinearLeaf);

impl Serialize for LinearJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let LinearLeaf { constant, terms, .. } = self.0;
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("constant", &Number(*constant))?;
        map.serialize_entry("features", &List(|| terms.iter().map(|(feature, _)| feature)))?;
        map.serialize_entry("coefficients", &List(|| terms.iter().map(|(_, coefficient)| Number(*coefficient))))?;
        map.end()
    }
}

struct DerivedJson<'a>(&'a Model, &'a Derived);

impl Serialize for DerivedJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        match self.1 {
            Derived::OneOf { feature, categories } => {
                map.serialize_entry("kind", "one_of")?;
                map.serialize_entry("feature", feature)?;
                map.serialize_entry("categories", categories)?;
            }
            Derived::Ctr { table, sums, ctr, unit, borders } => {
                map.serialize_entry("kind", "ctr")?;
                map.serialize_entry("table", table)?;
                map.serialize_entry("statistic", &name_of(&ctr.kind))?;
                map.serialize_entry("class", &ctr.class)?;
                map.serialize_entry("prior", &Number(ctr.prior))?;
                map.serialize_entry("sums", sums)?;
                map.serialize_entry("unit", &Number(*unit))?;
                map.serialize_entry("borders", &Numbers(borders))?;
            }
            Derived::Hashed { table, parts, values, unseen, borders } => {
                map.serialize_entry("kind", "hashed")?;
                map.serialize_entry("table", table)?;
                map.serialize_entry("parts", &List(|| parts.iter().map(|part| PartJson(self.0, part))))?;
                map.serialize_entry("values", &List(|| values.iter().map(|x| Number(*x as f64))))?;
                map.serialize_entry("unseen", &Number(*unseen as f64))?;
                map.serialize_entry("borders", &Numbers(borders))?;
            }
        }
        map.end()
    }
}

/// A part of what is hashed.
struct PartJson<'a>(&'a Model, &'a HashedPart);

impl Serialize for PartJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        match self.1 {
            HashedPart::Category(column) => map.serialize_entry("category_of", column)?,
            HashedPart::Answer { feature, border, missing_left } => {
                let value = self.0.borders(*feature).get(*border as usize).copied().unwrap_or(f64::INFINITY);
                map.serialize_entry("feature", feature)?;
                map.serialize_entry("border", &Number(value))?;
                map.serialize_entry("missing", side(*missing_left))?;
            }
        }
        map.end()
    }
}

/// The name of the side that missing values go to.
fn side(is_left: bool) -> &'static str {
    if is_left { "left" } else { "right" }
}

struct TableJson<'a>(&'a CtrTable);

impl Serialize for TableJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("features", &self.0.features)?;
        map.serialize_entry("keys", &self.0.keys)?;
        map.serialize_entry("n", &self.0.n)?;
        map.serialize_entry("sums", &self.0.sums)?;
        map.end()
    }
}

/// A split, and where it leads in a branching tree.
struct SplitJson<'a>(&'a Model, &'a Split, Option<[Child; 2]>);

impl Serialize for SplitJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let SplitJson(model, split, children) = self;
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("feature", &split.feature)?;
        map.serialize_entry("border", &Number(model.border(split)))?;
        map.serialize_entry("missing", side(split.missing_left))?;
        map.serialize_entry("gain", &Number(split.gain as f64 * model.units.gain))?;
        if let Some([left, right]) = children {
            map.serialize_entry("left", &ChildJson::from(*left))?;
            map.serialize_entry("right", &ChildJson::from(*right))?;
        }
        map.end()
    }
}

/// The tree of an index.
struct TreeJson<'a>(&'a Model, usize);

impl Serialize for TreeJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let (model, index) = (self.0, self.1);
        let (tree, outputs) = (&model.trees[index], model.outputs().max(1));
        let mut map = s.serialize_map(None)?;
        match tree {
            Tree::Symmetric { splits, .. } => {
                map.serialize_entry("kind", "symmetric")?;
                map.serialize_entry("splits", &List(|| splits.iter().map(|split| SplitJson(model, split, None))))?;
            }
            Tree::Branching { nodes, .. } => {
                let node = |n: &'_ Node| [n.left, n.right];
                map.serialize_entry("kind", "branching")?;
                map.serialize_entry("nodes", &List(|| nodes.iter().map(|n| SplitJson(model, &n.split, Some(node(n))))))?;
            }
        }
        map.serialize_entry("round", &(index / outputs))?;
        map.serialize_entry("output", &(index % outputs))?;
        let linear = of_tree(&model.linear, index);
        let of_leaf = |leaf: usize| linear.binary_search_by_key(&leaf, |one| one.leaf as usize).ok().map(|at| &linear[at]);
        let leaf = |(i, leaf)| LeafJson(leaf, of_leaf(i), model.units.weight);
        map.serialize_entry("leaves", &List(|| tree.leaves().iter().enumerate().map(leaf)))?;
        map.end()
    }
}

struct ModelJson<'a>(&'a Model);

impl Serialize for ModelJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let m = self.0;
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("format", FORMAT)?;
        map.serialize_entry("version", &m.version())?;
        map.serialize_entry("loss", &name_of(&m.loss))?;
        map.serialize_entry("target", &m.target)?;
        map.serialize_entry("rows", &m.rows)?;
        map.serialize_entry("labels", &m.labels.as_ref().map(LabelsJson))?;
        map.serialize_entry("start", &Numbers(&m.start))?;
        map.serialize_entry("scale", &Number(m.scale))?;
        if m.units != Units::ONE {
            map.serialize_entry("units", &UnitsJson(&m.units))?;
        }
        map.serialize_entry("features", &List(|| m.features.iter().map(FeatureJson)))?;
        map.serialize_entry("derived", &List(|| m.derived.iter().map(|derived| DerivedJson(m, derived))))?;
        map.serialize_entry("tables", &List(|| m.tables.iter().map(TableJson)))?;
        map.serialize_entry("trees", &List(|| (0..m.trees.len()).map(|t| TreeJson(m, t))))?;
        map.serialize_entry("history", &m.history.as_ref().map(HistoryJson))?;
        map.serialize_entry("params", &m.params.to_stored())?;
        write_provenance(&mut map, &m.provenance, m.features.iter().map(|f| f.name.as_str()))?;
        map.end()
    }
}

impl Model {
    /// The whole model as a JSON object; see the module's text for its fields.
    ///
    /// A value takes many times the memory of the text: [`Model::json_text`].
    pub fn to_json(&self) -> Value {
        serde_json::to_value(ModelJson(self)).unwrap_or_default()
    }

    /// The text of [`Model::to_json`].
    ///
    /// # Errors
    /// [`Error::Model`](crate::Error::Model); a valid model has a text.
    pub fn json_text(&self) -> Result<String> {
        text_of(&ModelJson(self))
    }
}
