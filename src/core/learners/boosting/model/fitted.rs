//! A model of boosted trees as a [`FittedModel`].

use super::Model;
use super::explain::{Importance, NodeRow};
use crate::dataset::labels::Labels;
use crate::error::Result;
use crate::model::History;
use crate::model::fitted::{FittedModel, ModelColumn, ModelSize, NodeColumns, NodeTable, unknown_importance};
use crate::model::payload::name_of;
use crate::provenance::Provenance;

/// The columns of the table of nodes.
const COLUMNS: &NodeColumns<NodeRow> = &[
    ("tree", |r| r.tree.into()),
    ("round", |r| r.round.into()),
    ("output", |r| r.output.into()),
    ("node", |r| r.node.into()),
    ("depth", |r| r.depth.into()),
    ("left", |r| r.left.into()),
    ("right", |r| r.right.into()),
    ("feature", |r| r.feature.into()),
    ("border", |r| r.border.into()),
    ("missing_left", |r| r.missing_left.into()),
    ("gain", |r| r.gain.into()),
    ("value", |r| r.value.into()),
    ("leaf", |r| r.leaf.into()),
    ("weight", |r| r.weight.into()),
    ("count", |r| r.count.into()),
];

impl FittedModel for Model {
    fn learner(&self) -> &'static str {
        "gbdt"
    }

    fn noun(&self) -> &'static str {
        "a model of boosted trees"
    }

    fn params(&self) -> serde_json::Value {
        self.params.to_json()
    }

    fn loss(&self) -> String {
        name_of(&self.loss)
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
        Model::outputs(self)
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn rounds(&self) -> usize {
        Model::rounds(self)
    }

    fn trees(&self) -> usize {
        self.trees.len()
    }

    fn size(&self) -> ModelSize {
        let leaves: usize = self.trees.iter().map(|t| t.leaves().len()).sum();
        ModelSize { nodes: self.trees.iter().map(|t| t.splits().count()).sum::<usize>() + leaves, numbers: leaves }
    }

    fn to_bytes(&self) -> Vec<u8> {
        Model::to_bytes(self)
    }

    fn json_text(&self) -> Result<String> {
        Model::json_text(self)
    }

    fn borders(&self) -> Option<Vec<&[f64]>> {
        Some(self.features.iter().map(|f| f.borders.as_slice()).collect())
    }

    fn importance(&self, kind: &str) -> Option<Result<Vec<f64>>> {
        let kind = match kind {
            "gain" => Importance::Gain,
            "split" => Importance::Split,
            "cover" => Importance::Cover,
            other => return Some(Err(unknown_importance(other, "\"gain\", \"split\" or \"cover\""))),
        };
        Some(Ok(Model::importance(self, kind)))
    }

    fn node_table(&self) -> Option<NodeTable> {
        let features = (0..(self.features.len() + self.derived.len()) as u32).map(|f| self.feature_name(f)).collect();
        Some(NodeTable { rows: Box::new((Model::node_table(self), COLUMNS)), features, categories: vec![] })
    }

    fn history(&self) -> Option<&History> {
        self.history.as_ref()
    }
}
