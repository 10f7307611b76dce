//! What a forest's trees say of its features, and the forest as a table and as JSON.
//!
//! ```text
//! { "format": "polars-taiga forest", "version": 1,
//!   "criterion": "gini", "target": "y", "rows": 48842, "labels": [false, true] or null, "unit": 1.0,
//!   "features": [{"name": "age", "type": "numeric", "borders": [17.5, …]},
//!                {"name": "job", "type": "categorical", "borders": [], "categories": ["cook", null, …]}, …],
//!   "trees": [
//!     {"nodes": [{"feature": 0, "border": 17.5, "missing": "left", "gain": 0.01,
//!                 "left": {"node": 1}, "right": {"leaf": 7}},
//!                {"feature": 1, "right_categories": [0, 3], "others": "left", "spare_codes": "right", "gain": …}, …],
//!      "leaves": [{"value": [0.25, 0.75] or [31.5], "weight": 4.0, "count": 4, "sums": [1, 3]}, … from left to right]}, …],
//!   "oob": {"score": 0.86, "log_loss": 0.31, "predictions": [[0.2, "nan", …], …]} or null,
//!   "permutation": [0.01, …] where it was measured,
//!   "params": {"trees": 100, …} as in [`stored`](crate::params::stored),
//!   "label_type", "computed" and "structs" as in [`crate::learners::boosting::model::json`], where there is something to tell }
//! ```
//!
//! A row starts at node 0 (leaf 0 where there are no nodes) and goes right where its value is larger
//! than the border, or its category one of those listed ("others" are all that are not among the
//! feature's categories); a missing value goes to the side named. "spare_codes" tells of the codes that no
//! category has, which no row asks for, where they are on another side than "others". The prediction is the
//! mean of the leaves' values over the trees.

use super::model::{Forest, OutOfBag, Tree};
use crate::envelope::Persisted;
use crate::error::{Error, Result};
use crate::model::json::{ChildJson, FeatureJson, LabelsJson, List, Number, Numbers, text_of, write_provenance};
use crate::model::payload::name_of;
use crate::tree::model::{Child, Node, Split};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// What the text says it is.
pub const FORMAT: &str = "polars-taiga forest";

/// What importance is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Importance {
    /// The feature's share of what a tree's splits lower the impurity by, its mean over the trees
    /// (scikit-learn's `feature_importances_`; Breiman's "mean decrease impurity").
    Impurity,
    /// The number of the feature's splits.
    Split,
    /// The number of rows drawn that met the feature's splits, over all splits.
    Cover,
    /// [`Forest::permutation`].
    Permutation,
}

/// One node or leaf of a tree, for a table.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRow {
    /// Index into the forest's trees.
    pub tree: u32,
    /// In preorder inside the tree, leaves included; the root is 0.
    pub node: u32,
    /// The root's is 0.
    pub depth: u32,
    /// The `node` of the left child; none for a leaf.
    pub left: Option<u32>,
    /// The `node` of the right child; none for a leaf.
    pub right: Option<u32>,
    /// Index into the forest's features; none for a leaf.
    pub feature: Option<u32>,
    /// Larger values go right; +∞ where only missing values do. None for a leaf, and for a split of
    /// categories.
    pub border: Option<f64>,
    /// The categories that go right, as codes into the feature's categories; none for a leaf, and
    /// for a split of numbers.
    pub categories: Option<Vec<u32>>,
    /// Where a missing value goes, of categories all that are not among the feature's; none for a leaf.
    pub missing_left: Option<bool>,
    /// By how much the split lowers the impurity of all rows of the tree; none for a leaf.
    pub gain: Option<f64>,
    /// The leaf's index as `output="leaf"` counts; none for an inner node.
    pub leaf: Option<u32>,
    /// Of a leaf the shares of the classes, or the mean; empty for an inner node.
    pub value: Vec<f64>,
    /// The weight of the rows drawn that came here.
    pub weight: f64,
    /// The number of rows drawn that came here; a row drawn twice counts twice.
    pub count: u64,
}

impl Forest {
    /// One number a feature, in the forest's order; zero for a feature that no split asks about.
    ///
    /// # Errors
    /// For [`Importance::Permutation`] where it was not asked for at the fit.
    pub fn importance(&self, kind: Importance) -> Result<Vec<f64>> {
        let mut out = vec![0.0; self.features.len()];
        match kind {
            Importance::Permutation => {
                let text = "\"permutation\" needs a forest fitted with permutation_importance=True, or rows to measure on";
                let missing = || Error::parameter("kind", text);
                return self.permutation.clone().ok_or_else(missing);
            }
            Importance::Split => self.splits().for_each(|s| out[s.feature as usize] += 1.0),
            Importance::Impurity => {
                for tree in &self.trees {
                    let total: f64 = tree.nodes.iter().map(|n| n.split.gain as f64).sum();
                    if total > 0.0 {
                        tree.nodes.iter().for_each(|n| out[n.split.feature as usize] += n.split.gain as f64 / total);
                    }
                }
                let total: f64 = out.iter().sum();
                out.iter_mut().filter(|_| total > 0.0).for_each(|x| *x /= total);
            }
            Importance::Cover => {
                for tree in &self.trees {
                    let covers = self.covers(tree);
                    tree.nodes.iter().zip(covers).for_each(|(n, cover)| out[n.split.feature as usize] += cover.1 as f64);
                }
            }
        }
        Ok(out)
    }

    fn splits(&self) -> impl Iterator<Item = &Split> {
        self.trees.iter().flat_map(|t| &t.nodes).map(|n| &n.split)
    }

    /// The weight (in units) and the count of the rows that came to each inner node.
    fn covers(&self, tree: &Tree) -> Vec<(u64, u64)> {
        let mut covers = vec![(0, 0); tree.nodes.len()];
        for (i, node) in tree.nodes.iter().enumerate().rev() {
            for side in [node.left, node.right] {
                let (weight, count) = self.cover(tree, side, &covers);
                covers[i] = (covers[i].0 + weight, covers[i].1 + count);
            }
        }
        covers
    }

    fn cover(&self, tree: &Tree, at: Child, covers: &[(u64, u64)]) -> (u64, u64) {
        match at {
            Child::Node(i) => covers[i as usize],
            Child::Leaf(i) => (tree.weight(i as usize, self.outputs()), tree.counts[i as usize] as u64),
        }
    }

    /// Every node and leaf of every tree, tree after tree and in preorder inside a tree.
    pub fn node_table(&self) -> Vec<NodeRow> {
        let mut rows = vec![];
        for (t, tree) in self.trees.iter().enumerate() {
            let (covers, first) = (self.covers(tree), rows.len());
            // Where to tell the parent of a right child its number.
            let mut open = vec![(tree.root(), 0, None::<usize>)];
            while let Some((at, depth, parent)) = open.pop() {
                let node = (rows.len() - first) as u32;
                if let Some(parent) = parent {
                    let row: &mut NodeRow = &mut rows[parent];
                    if row.left.is_none() { row.left = Some(node) } else { row.right = Some(node) }
                }
                let (weight, count) = self.cover(tree, at, &covers);
                let mut row = NodeRow {
                    tree: t as u32,
                    node,
                    depth,
                    left: None,
                    right: None,
                    feature: None,
                    border: None,
                    categories: None,
                    missing_left: None,
                    gain: None,
                    leaf: None,
                    value: vec![],
                    weight: weight as f64 * self.unit,
                    count,
                };
                match at {
                    Child::Leaf(leaf) => {
                        row.leaf = Some(leaf);
                        row.value = self.leaf_value(tree, leaf as usize);
                    }
                    Child::Node(i) => {
                        let node = &tree.nodes[i as usize];
                        open.extend([(node.right, depth + 1, Some(rows.len())), (node.left, depth + 1, Some(rows.len()))]);
                        row.feature = Some(node.split.feature);
                        row.categories = self.right_categories(&node.split);
                        row.border = row.categories.is_none().then(|| self.border(&node.split));
                        row.missing_left = Some(node.split.missing_left);
                        row.gain = Some(node.split.gain as f64 * self.gain_unit);
                    }
                }
                rows.push(row);
            }
        }
        rows
    }

    fn leaf_value(&self, tree: &Tree, leaf: usize) -> Vec<f64> {
        let mut value = vec![0.0; self.outputs()];
        tree.value(leaf, &mut value);
        value
    }

    /// The border of a split of numbers: larger values go right.
    fn border(&self, split: &Split) -> f64 {
        self.features[split.feature as usize].borders.get(split.border as usize).copied().unwrap_or(f64::INFINITY)
    }

    /// The categories that a split of categories sends right.
    fn right_categories(&self, split: &Split) -> Option<Vec<u32>> {
        let categories = self.features[split.feature as usize].categories.as_ref()?;
        let set = self.sets[split.border as usize];
        Some((0..categories.len() as u32).filter(|c| set.contains(*c as u8 + 1)).collect())
    }

    /// The side of the codes that no category has, in a split of categories; none where all codes are taken.
    fn spare_side(&self, split: &Split) -> Option<&'static str> {
        let categories = self.features[split.feature as usize].categories.as_ref()?;
        let spare = u8::try_from(categories.len() + 1).ok()?;
        Some(if self.sets[split.border as usize].contains(spare) { "right" } else { "left" })
    }

    /// The whole forest as a JSON object; see the module's text
    /// for its fields. A value takes many times the memory of the text: [`Forest::json_text`].
    pub fn to_json(&self) -> Value {
        serde_json::to_value(ForestJson(self)).unwrap_or_default()
    }

    /// The text of [`Forest::to_json`].
    ///
    /// # Errors
    /// [`Error::Model`]; a valid forest has a text.
    pub fn json_text(&self) -> Result<String> {
        text_of(&ForestJson(self))
    }
}

struct ForestJson<'a>(&'a Forest);

impl Serialize for ForestJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let f = self.0;
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("format", FORMAT)?;
        map.serialize_entry("version", &f.version())?;
        map.serialize_entry("criterion", &name_of(&f.criterion))?;
        map.serialize_entry("target", &f.target)?;
        map.serialize_entry("rows", &f.rows)?;
        map.serialize_entry("labels", &f.labels.as_ref().map(LabelsJson))?;
        map.serialize_entry("unit", &Number(f.unit))?;
        if f.gain_unit != 1.0 {
            map.serialize_entry("gain_unit", &Number(f.gain_unit))?;
        }
        map.serialize_entry("features", &List(|| f.features.iter().map(FeatureJson)))?;
        map.serialize_entry("trees", &List(|| f.trees.iter().map(|t| TreeJson(f, t))))?;
        map.serialize_entry("oob", &f.oob.as_ref().map(OutOfBagJson))?;
        if let Some(permutation) = &f.permutation {
            map.serialize_entry("permutation", &Numbers(permutation))?;
        }
        map.serialize_entry("params", &f.params.to_stored())?;
        write_provenance(&mut map, &f.provenance, f.features.iter().map(|f| f.name.as_str()))?;
        map.end()
    }
}

struct OutOfBagJson<'a>(&'a OutOfBag);

impl Serialize for OutOfBagJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("score", &Number(self.0.score))?;
        map.serialize_entry("log_loss", &self.0.log_loss.map(Number))?;
        map.serialize_entry("predictions", &List(|| self.0.predictions.iter().map(|p| Numbers(p))))?;
        map.end()
    }
}

struct TreeJson<'a>(&'a Forest, &'a Tree);

impl Serialize for TreeJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let TreeJson(forest, tree) = *self;
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("nodes", &List(|| tree.nodes.iter().map(|n| NodeJson(forest, n))))?;
        map.serialize_entry("leaves", &List(|| (0..tree.leaves()).map(|l| LeafJson(forest, tree, l))))?;
        map.end()
    }
}

struct NodeJson<'a>(&'a Forest, &'a Node);

impl Serialize for NodeJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let NodeJson(forest, Node { split, left, right }) = self;
        let side = if split.missing_left { "left" } else { "right" };
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("feature", &split.feature)?;
        match forest.right_categories(split) {
            Some(right) => {
                map.serialize_entry("right_categories", &right)?;
                map.serialize_entry("others", side)?;
                if let Some(spare) = forest.spare_side(split).filter(|spare| *spare != side) {
                    map.serialize_entry("spare_codes", spare)?;
                }
            }
            None => {
                map.serialize_entry("border", &Number(forest.border(split)))?;
                map.serialize_entry("missing", side)?;
            }
        }
        map.serialize_entry("gain", &Number(split.gain as f64 * forest.gain_unit))?;
        map.serialize_entry("left", &ChildJson::from(*left))?;
        map.serialize_entry("right", &ChildJson::from(*right))?;
        map.end()
    }
}

struct LeafJson<'a>(&'a Forest, &'a Tree, usize);

impl Serialize for LeafJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let LeafJson(forest, tree, leaf) = *self;
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("value", &Numbers(&forest.leaf_value(tree, leaf)))?;
        map.serialize_entry("weight", &Number(tree.weight(leaf, forest.outputs()) as f64 * forest.unit))?;
        map.serialize_entry("count", &tree.counts[leaf])?;
        let outputs = forest.outputs();
        map.serialize_entry("sums", &tree.sums[leaf * outputs..][..outputs])?;
        map.end()
    }
}
