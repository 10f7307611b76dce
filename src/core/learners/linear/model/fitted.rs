//! A linear model as a [`FittedModel`].

use super::{LinearModel, Numbering};
use crate::error::Result;
use crate::metadata::Metadata;
use crate::metrics::MetricKind;
use crate::model::fitted::{Coefficients, Facts, FittedModel, ModelColumn, ModelLists, ModelSize, Scoring};
use crate::objective::{Link, LossParams};

impl FittedModel for LinearModel {
    fn facts(&self) -> Facts<'_> {
        Facts {
            learner: "sparse_lr",
            noun: "a linear model",
            target: &self.target,
            labels: Some(&self.labels),
            provenance: &self.provenance,
            features: None,
            outputs: LinearModel::outputs(self),
            rows: self.rows,
            rounds: self.passes as usize,
            trees: 0,
            history: self.history.as_ref(),
        }
    }

    fn needs_background(&self) -> bool {
        self.means.is_none()
    }

    fn params(&self) -> serde_json::Value {
        self.params.to_json()
    }

    fn loss(&self) -> String {
        if LinearModel::outputs(self) == 1 { "logloss" } else { "multiclass" }.into()
    }

    fn scoring(&self) -> Scoring {
        let (link, metric) = match LinearModel::outputs(self) {
            1 => (Link::Sigmoid, MetricKind::Logloss),
            _ => (Link::Softmax, MetricKind::Multiclass),
        };
        Scoring { link, params: LossParams::default(), metric, has_no_scores: false }
    }

    fn with_metadata(&self, metadata: Option<Metadata>) -> Box<dyn FittedModel> {
        let mut model = self.clone();
        model.provenance.metadata = metadata;
        Box::new(model)
    }

    fn columns(&self) -> Vec<ModelColumn<'_>> {
        self.dense.iter().map(|d| ModelColumn { name: &d.name, dtype: &d.dtype, categories: None }).collect()
    }

    fn lists(&self) -> Option<ModelLists<'_>> {
        self.sparse.as_ref().map(|sparse| ModelLists {
            features: &sparse.column,
            values: sparse.values.as_deref(),
            holds_text: matches!(sparse.numbering, Numbering::Hashed { .. }),
        })
    }

    fn size(&self) -> ModelSize {
        ModelSize { nodes: 0, numbers: self.weights.len() }
    }

    fn to_bytes(&self) -> Vec<u8> {
        LinearModel::to_bytes(self)
    }

    fn json_text(&self) -> Result<String> {
        LinearModel::json_text(self)
    }

    fn coefficients(&self) -> Option<Coefficients<'_>> {
        Some(Coefficients {
            list: Box::new(|| LinearModel::coefficients(self).collect()),
            columns: self.dense.iter().map(|d| d.name.as_str()).collect(),
            hash_bits: self.sparse.as_ref().and_then(|sparse| sparse.numbering.hash_bits()),
            intercepts: &self.intercepts,
            converged: self.converged,
            objective: self.objective,
        })
    }
}
