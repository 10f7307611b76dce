//! A forest as a [`FittedModel`].

use super::explain::{Importance, NodeRow};
use super::model::{Forest, OutOfBag};
use crate::dataset::labels::Labels;
use crate::error::Result;
use crate::model::fitted::{FittedModel, ModelColumn, ModelSize, NodeColumns, NodeTable, unknown_importance};
use crate::model::payload::name_of;
use crate::provenance::Provenance;

/// The columns of the table of nodes; categories are numbered through all features.
const COLUMNS: &NodeColumns<NodeRow> = &[
    ("tree", |r| r.tree.into()),
    ("node", |r| r.node.into()),
    ("depth", |r| r.depth.into()),
    ("left", |r| r.left.into()),
    ("right", |r| r.right.into()),
    ("feature", |r| r.feature.into()),
    ("border", |r| r.border.into()),
    ("right_categories", |r| r.categories.as_deref().into()),
    ("missing_left", |r| r.missing_left.into()),
    ("gain", |r| r.gain.into()),
    ("value", |r| (!r.value.is_empty()).then_some(r.value.as_slice()).into()),
    ("leaf", |r| r.leaf.into()),
    ("weight", |r| r.weight.into()),
    ("count", |r| r.count.into()),
];

impl FittedModel for Forest {
    fn learner(&self) -> &'static str {
        "forest"
    }

    fn noun(&self) -> &'static str {
        "a forest"
    }

    fn params(&self) -> serde_json::Value {
        self.params.to_json()
    }

    fn loss(&self) -> String {
        name_of(&self.criterion)
    }

    fn target(&self) -> &str {
        &self.target
    }

    fn labels(&self) -> Option<&Labels> {
        self.labels.as_ref()
    }

    fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    fn columns(&self) -> Vec<ModelColumn<'_>> {
        self.features.iter().map(ModelColumn::from).collect()
    }

    fn outputs(&self) -> usize {
        match Forest::outputs(self) {
            2 => 1,
            outputs => outputs,
        }
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn rounds(&self) -> usize {
        self.trees.len()
    }

    fn trees(&self) -> usize {
        self.trees.len()
    }

    fn size(&self) -> ModelSize {
        ModelSize {
            nodes: self.trees.iter().map(|t| t.nodes.len() + t.counts.len()).sum(),
            numbers: self.trees.iter().map(|t| t.sums.len()).sum(),
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        Forest::to_bytes(self)
    }

    fn json_text(&self) -> Result<String> {
        Forest::json_text(self)
    }

    fn borders(&self) -> Option<Vec<&[f64]>> {
        Some(self.features.iter().map(|f| f.borders.as_slice()).collect())
    }

    fn importance(&self, kind: &str) -> Option<Result<Vec<f64>>> {
        let kind = match kind {
            "gain" | "impurity" => Importance::Impurity,
            "split" => Importance::Split,
            "cover" => Importance::Cover,
            "permutation" => Importance::Permutation,
            other => return Some(Err(unknown_importance(other, "\"impurity\" (or \"gain\"), \"split\", \"cover\" or \"permutation\""))),
        };
        Some(Forest::importance(self, kind))
    }

    fn node_table(&self) -> Option<NodeTable> {
        let mut rows = Forest::node_table(self);
        // The categories of all features, one feature's behind the other's, and where each one's begin.
        let (mut categories, mut first) = (vec![], vec![]);
        for f in &self.features {
            first.push(categories.len() as u32);
            let known = f.categories.iter().flat_map(|k| (0..k.len() as u32).map(|c| (k.null != Some(c)).then(|| k.name(c))));
            categories.extend(known);
        }
        for row in &mut rows {
            if let (Some(feature), Some(codes)) = (row.feature, &mut row.categories) {
                codes.iter_mut().for_each(|code| *code += first[feature as usize]);
            }
        }
        let features = self.features.iter().map(|f| f.name.clone()).collect();
        Some(NodeTable { rows: Box::new((rows, COLUMNS)), features, categories })
    }

    fn out_of_bag(&self) -> Option<Option<&OutOfBag>> {
        Some(self.oob.as_ref())
    }
}
