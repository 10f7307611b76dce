//! A model of boosted trees as a [`FittedModel`].

use super::Model;
use super::explain::{Importance, NodeRow};
use crate::error::Result;
use crate::losses::{LossKind, loss};
use crate::metadata::Metadata;
use crate::metrics::MetricKind;
use crate::model::fitted::{Facts, FittedModel, ModelSize, NodeColumns, NodeTable, Scoring, unknown_importance};
use crate::model::payload::name_of;
use crate::objective::Link;

/// The columns of the table of nodes; the last [`OF_LINEAR`] are there where some leaves are linear functions.
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
    ("constant", |r| r.linear.as_ref().map(|l| l.constant).into()),
    ("linear_features", |r| r.linear.as_ref().map(|l| &l.features[..]).into()),
    ("coefficients", |r| r.linear.as_ref().map(|l| &l.coefficients[..]).into()),
];

const OF_LINEAR: usize = 3;

impl FittedModel for Model {
    fn facts(&self) -> Facts<'_> {
        Facts {
            learner: "gbdt",
            noun: "a model of boosted trees",
            target: &self.target,
            labels: self.labels.as_ref(),
            provenance: &self.provenance,
            features: Some(&self.features),
            outputs: Model::outputs(self),
            rows: self.rows,
            rounds: Model::rounds(self),
            trees: self.trees.len(),
            history: self.history.as_ref(),
        }
    }

    fn fields(&self, raw: bool) -> Option<Vec<String>> {
        let names = |names: [&str; 2]| Some(names.map(String::from).to_vec());
        if let Some(targets) = &self.params.targets {
            return Some(targets.clone());
        }
        match (&self.labels, self.loss) {
            (Some(labels), _) => Some(labels.names()).filter(|_| Model::outputs(self) > 1),
            (None, LossKind::Gaussian) => names(if raw { ["mean", "log_sigma"] } else { ["mean", "variance"] }),
            (None, _) if Model::outputs(self) == 1 => None,
            // Quantiles, by their levels.
            (None, _) => Some(self.params.alpha.names()),
        }
    }

    fn params(&self) -> serde_json::Value {
        self.params.to_json()
    }

    fn loss(&self) -> String {
        name_of(&self.loss)
    }

    fn size(&self) -> ModelSize {
        let leaves: usize = self.trees.iter().map(|t| t.leaves().len()).sum();
        let terms: usize = self.linear.iter().map(|leaf| 1 + leaf.terms.len()).sum();
        ModelSize { nodes: self.trees.iter().map(|t| t.splits().count()).sum::<usize>() + leaves, numbers: leaves + terms }
    }

    fn to_bytes(&self) -> Vec<u8> {
        Model::to_bytes(self)
    }

    fn json_text(&self) -> Result<String> {
        Model::json_text(self)
    }

    fn scoring(&self) -> Scoring {
        let params = self.params.loss_params();
        // A valid model names its loss.
        let (link, metric) =
            loss(self.loss, &params, Model::outputs(self), 1.0).map_or((Link::Identity, MetricKind::Rmse), |l| (l.link(), l.metric()));
        Scoring { link, params, metric, has_no_scores: false }
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
            "gain" => Importance::Gain,
            "split" => Importance::Split,
            "cover" => Importance::Cover,
            other => return Some(Err(unknown_importance(other, "\"gain\", \"split\" or \"cover\""))),
        };
        Some(Ok(Model::importance(self, kind)))
    }

    fn node_table(&self) -> Option<NodeTable> {
        let features = (0..(self.features.len() + self.derived.len()) as u32).map(|f| self.feature_name(f)).collect();
        let columns = if self.linear.is_empty() { &COLUMNS[..COLUMNS.len() - OF_LINEAR] } else { COLUMNS };
        Some(NodeTable { rows: Box::new((Model::node_table(self), columns)), features, categories: vec![] })
    }
}
