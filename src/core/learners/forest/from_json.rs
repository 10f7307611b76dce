//! A forest from JSON: the inverse of what [`super::explain`] writes.

use super::envelope::ENVELOPE;
use super::model::{Forest, OutOfBag, Tree};
use super::params::{Criterion, ForestParams};
use crate::error::Result;
use crate::model::from_json::{ChildIn, FeatureIn, LabelIn, NumberIn, Side, border_place, labels, numbers, params, provenance, read};
use crate::model::payload::{invalid, named};
use crate::provenance::{LabelType, StructColumn};
use crate::quantize::CodeSet;
use crate::tree::model::{Node, Split};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForestIn {
    #[serde(rename = "format")]
    _format: String,
    #[serde(rename = "version")]
    _version: u32,
    criterion: String,
    target: String,
    rows: u64,
    labels: Option<Vec<LabelIn>>,
    unit: NumberIn,
    gain_unit: Option<NumberIn>,
    features: Vec<FeatureIn>,
    trees: Vec<TreeIn>,
    oob: Option<OutOfBagIn>,
    permutation: Option<Vec<NumberIn>>,
    params: Value,
    label_type: Option<LabelType>,
    #[serde(default)]
    computed: Vec<String>,
    #[serde(default)]
    structs: Vec<StructColumn>,
    metadata: Option<Value>,
    receipt: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutOfBagIn {
    score: NumberIn,
    log_loss: Option<NumberIn>,
    predictions: Vec<Vec<NumberIn>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TreeIn {
    nodes: Vec<NodeIn>,
    leaves: Vec<LeafIn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeIn {
    feature: u32,
    border: Option<NumberIn>,
    missing: Option<Side>,
    right_categories: Option<Vec<u8>>,
    others: Option<Side>,
    spare_codes: Option<Side>,
    gain: NumberIn,
    left: ChildIn,
    right: ChildIn,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeafIn {
    value: Vec<NumberIn>,
    #[serde(rename = "weight")]
    _weight: NumberIn,
    count: u32,
    sums: Vec<u64>,
}

impl Forest {
    /// The forest of a text that [`Forest::json_text`] wrote: an equal one, with the same bytes. Whatever the text, the memory taken
    /// stays in proportion to its length, and the forest is valid ([`Forest::validate`]).
    ///
    /// # Errors
    /// [`Error::Model`](crate::Error::Model) saying what is wrong.
    pub fn from_json(text: &str) -> Result<Forest> {
        let f: ForestIn = read(text, super::explain::FORMAT, ENVELOPE.version)?;
        let features = f.features.into_iter().map(FeatureIn::feature).collect::<Result<Vec<_>>>()?;
        let names = features.iter().map(|f| f.name.as_str());
        let provenance = provenance(f.label_type, &f.computed, f.structs, f.metadata.as_ref(), f.receipt.as_deref(), names)?;
        let mut forest = Forest {
            params: params(&f.params, ForestParams::LOCAL, ForestParams::from_stored)?,
            criterion: named::<Criterion>("criterion", &f.criterion)?,
            target: f.target,
            features,
            labels: f.labels.map(labels).transpose()?,
            sets: vec![],
            trees: vec![],
            rows: f.rows,
            unit: f.unit.0,
            gain_unit: f.gain_unit.map_or(1.0, |u| u.0),
            oob: f.oob.map(|oob| OutOfBag {
                score: oob.score.0,
                log_loss: oob.log_loss.map(|x| x.0),
                predictions: oob.predictions.into_iter().map(numbers).collect(),
            }),
            permutation: f.permutation.map(numbers),
            provenance,
        };
        let mut known = HashMap::new();
        for (i, tree) in f.trees.into_iter().enumerate() {
            let node = |n: &NodeIn| forest.node(n, &mut known);
            let nodes = tree.nodes.iter().map(node).collect::<std::result::Result<Vec<Node>, String>>();
            let nodes = nodes.map_err(|what| invalid(format!("tree {i}: {what}")))?;
            let mean = |leaf: &LeafIn| leaf.value.first().map_or(f64::NAN, |x| x.0);
            let means = if forest.labels.is_some() { vec![] } else { tree.leaves.iter().map(mean).collect() };
            let counts = tree.leaves.iter().map(|leaf| leaf.count).collect();
            let sums = tree.leaves.iter().flat_map(|leaf| &leaf.sums).copied().collect();
            forest.trees.push(Tree { nodes, counts, sums, means });
        }
        forest.validate()?;
        Ok(forest)
    }

    /// A node, whose set of categories goes among the forest's.
    fn node(&mut self, n: &NodeIn, known: &mut HashMap<CodeSet, u32>) -> std::result::Result<Node, String> {
        let Some(feature) = self.features.get(n.feature as usize) else { return Err(format!("there is no feature {}", n.feature)) };
        let (border, missing) = match (n.border, n.missing, &n.right_categories, n.others) {
            (Some(wanted), Some(missing), None, None) if feature.categories.is_none() && n.spare_codes.is_none() => {
                (border_place(n.feature, &feature.borders, wanted.0)?, missing)
            }
            (None, None, Some(right), Some(others)) if feature.categories.is_some() => {
                let categories = feature.categories.as_ref().map_or(0, |c| c.len());
                let mut set = CodeSet::default();
                if others == Side::Right {
                    set.insert(0);
                }
                for code in right {
                    let Some(next) = code.checked_add(1).filter(|next| *next as usize <= categories) else {
                        return Err(format!("feature {} has no category {code}", n.feature));
                    };
                    set.insert(next);
                }
                if n.spare_codes.unwrap_or(others) == Side::Right {
                    (categories + 1..=255).for_each(|code| set.insert(code as u8));
                }
                let sets = &mut self.sets;
                let place = *known.entry(set).or_insert_with(|| {
                    sets.push(set);
                    sets.len() as u32 - 1
                });
                (place, others)
            }
            _ => return Err(format!("a node of feature {} has not the fields of one", n.feature)),
        };
        let split = Split { feature: n.feature, border, missing_left: missing == Side::Left, gain: (n.gain.0 / self.gain_unit) as f32 };
        Ok(Node { split, left: n.left.into(), right: n.right.into() })
    }
}
