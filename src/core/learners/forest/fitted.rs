//! A forest as a [`FittedModel`].

use super::explain::{Importance, NodeRow};
use super::model::{Forest, OutOfBag};
use crate::error::Result;
use crate::metadata::Metadata;
use crate::metrics::MetricKind;
use crate::model::fitted::{Facts, FittedModel, ModelSize, NodeColumns, NodeTable, Scoring, unknown_importance};
use crate::model::payload::name_of;
use crate::objective::{Link, LossParams};

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
    fn facts(&self) -> Facts<'_> {
        Facts {
            learner: "forest",
            noun: "a forest",
            target: &self.target,
            labels: self.labels.as_ref(),
            provenance: &self.provenance,
            features: Some(&self.features),
            outputs: if Forest::outputs(self) == 2 { 1 } else { Forest::outputs(self) },
            rows: self.rows,
            rounds: self.trees.len(),
            trees: self.trees.len(),
            history: None,
        }
    }

    fn params(&self) -> serde_json::Value {
        self.params.to_json()
    }

    fn loss(&self) -> String {
        name_of(&self.criterion)
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

    /// As scikit-learn's `score`, the accuracy of a classifier and R² of a regression.
    fn scoring(&self) -> Scoring {
        let (link, metric) = match FittedModel::facts(self).outputs {
            _ if self.labels.is_none() => (Link::Identity, MetricKind::R2),
            1 => (Link::Sigmoid, MetricKind::Accuracy),
            _ => (Link::Softmax, MetricKind::Accuracy),
        };
        Scoring { link, params: LossParams::default(), metric, has_no_scores: true }
    }

    fn with_metadata(&self, metadata: Option<Metadata>) -> Box<dyn FittedModel> {
        let mut model = self.clone();
        model.provenance.metadata = metadata;
        Box::new(model)
    }

    fn head(&self, rounds: usize) -> Result<Box<dyn FittedModel>> {
        Ok(Box::new(self.clone().into_head(rounds)?))
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
