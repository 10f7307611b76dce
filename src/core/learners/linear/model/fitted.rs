//! A linear model as a [`FittedModel`].

use super::{LinearModel, Numbering};
use crate::dataset::labels::Labels;
use crate::error::Result;
use crate::model::History;
use crate::model::fitted::{Coefficients, FittedModel, ModelColumn, ModelLists, ModelSize};
use crate::provenance::Provenance;

impl FittedModel for LinearModel {
    fn learner(&self) -> &'static str {
        "sparse_lr"
    }

    fn noun(&self) -> &'static str {
        "a linear model"
    }

    fn params(&self) -> serde_json::Value {
        self.params.to_json()
    }

    fn loss(&self) -> String {
        if LinearModel::outputs(self) == 1 { "logloss" } else { "multiclass" }.into()
    }

    fn target(&self) -> &str {
        &self.target
    }

    fn labels(&self) -> Option<&Labels> {
        Some(&self.labels)
    }

    fn provenance(&self) -> &Provenance {
        &self.provenance
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

    fn outputs(&self) -> usize {
        LinearModel::outputs(self)
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn rounds(&self) -> usize {
        self.passes as usize
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

    fn history(&self) -> Option<&History> {
        self.history.as_ref()
    }

    fn coefficients(&self) -> Option<Coefficients<'_>> {
        Some(Coefficients {
            list: Box::new(|| LinearModel::coefficients(self).collect()),
            columns: self.dense.iter().map(|d| d.name.as_str()).collect(),
            intercepts: &self.intercepts,
            converged: self.converged,
            objective: self.objective,
        })
    }
}
