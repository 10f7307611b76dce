//! A model for Python: what `polars_taiga.Model` is built on.

use crate::errors::panic_text;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::panic::{AssertUnwindSafe, catch_unwind};
use taiga_engine::Error;
use taiga_engine::boosting::BoostingParams;
use taiga_engine::model::explain::{Importance, NodeRow};
use taiga_engine::model::{Labels, Model};

/// An engine error as Python's: `TypeError` for a parameter that does not exist, as for any
/// Python function, else `ValueError`.
pub fn python_error(error: Error) -> PyErr {
    match error {
        Error::UnknownParameter { .. } => PyTypeError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}

pub fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A panic as a `ValueError`; there should be none.
pub fn guarded<T>(body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|p| Err(value_error(format!("a bug in polars-taiga, please report it: {}", panic_text(p.as_ref())))))
}

/// Checks the parameters of `fit_gbdt`, given as a JSON object.
#[pyfunction]
pub fn check_gbdt_params(json: &str) -> PyResult<()> {
    guarded(|| {
        let value = serde_json::from_str(json).map_err(value_error)?;
        BoostingParams::from_json(&value).map(|_| ()).map_err(python_error)
    })
}

/// A parsed model and its bytes.
#[pyclass(frozen, name = "Model", module = "polars_taiga._taiga")]
pub struct PyModel {
    model: Model,
    bytes: Vec<u8>,
}

#[pymethods]
impl PyModel {
    /// The model of these bytes.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        guarded(|| Ok(PyModel { model: Model::from_bytes(bytes).map_err(python_error)?, bytes: bytes.to_vec() }))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.bytes)
    }

    /// The whole model as JSON text.
    fn to_json(&self) -> PyResult<String> {
        guarded(|| serde_json::to_string(&self.model.to_json()).map_err(value_error))
    }

    /// The parameters as JSON text.
    fn params(&self) -> PyResult<String> {
        guarded(|| serde_json::to_string(&self.model.params.to_json()).map_err(value_error))
    }

    /// Pairs of a feature's name and type.
    fn features(&self) -> Vec<(String, String)> {
        self.model.features.iter().map(|f| (f.name.clone(), f.dtype.to_string())).collect()
    }

    /// The borders of every feature.
    fn borders(&self) -> Vec<Vec<f64>> {
        self.model.features.iter().map(|f| f.borders.clone()).collect()
    }

    /// The labels in the order of the classes; `None` for a regression.
    fn classes<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        self.model
            .labels
            .as_ref()
            .map(|labels| match labels {
                Labels::Boolean => PyList::new(py, [false, true]),
                Labels::Integer(v) => PyList::new(py, v),
                Labels::Float(v) => PyList::new(py, v),
                Labels::Text(v) => PyList::new(py, v),
            })
            .transpose()
    }

    /// The labels as the fields of a struct of probabilities are named.
    fn class_names(&self) -> Option<Vec<String>> {
        self.model.labels.as_ref().map(Labels::names)
    }

    /// `boolean`, `integer`, `float` or `text`.
    fn label_kind(&self) -> Option<&'static str> {
        self.model.labels.as_ref().map(|labels| match labels {
            Labels::Boolean => "boolean",
            Labels::Integer(_) => "integer",
            Labels::Float(_) => "float",
            Labels::Text(_) => "text",
        })
    }

    /// The loss's name, never `auto`.
    fn loss(&self) -> String {
        serde_json::to_value(self.model.loss).ok().and_then(|v| v.as_str().map(String::from)).unwrap_or_default()
    }

    fn target(&self) -> &str {
        &self.model.target
    }

    /// The number of scores a row.
    fn outputs(&self) -> usize {
        self.model.outputs()
    }

    fn rounds(&self) -> usize {
        self.model.rounds()
    }

    fn tree_count(&self) -> usize {
        self.model.trees.len()
    }

    /// The number of training rows.
    fn rows(&self) -> u64 {
        self.model.rows
    }

    /// The scores before the first tree.
    fn start(&self) -> Vec<f64> {
        self.model.start.clone()
    }

    /// One number a feature; `kind` is `gain`, `split` or `cover`.
    fn importance(&self, kind: &str) -> PyResult<Vec<f64>> {
        let kind = match kind {
            "gain" => Importance::Gain,
            "split" => Importance::Split,
            "cover" => Importance::Cover,
            other => return Err(value_error(format!("kind={other:?} is not \"gain\", \"split\" or \"cover\""))),
        };
        guarded(|| Ok(self.model.importance(kind)))
    }

    /// One entry a node in every column.
    fn nodes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rows = guarded(|| Ok(self.model.node_table()))?;
        let name = |i: u32| self.model.feature_name(i);
        let out = PyDict::new(py);
        macro_rules! column {
            ($name:literal, $row:ident => $value:expr) => {
                out.set_item($name, PyList::new(py, rows.iter().map(|$row: &NodeRow| $value))?)?
            };
        }
        column!("tree", r => r.tree);
        column!("round", r => r.round);
        column!("output", r => r.output);
        column!("node", r => r.node);
        column!("depth", r => r.depth);
        column!("left", r => r.left);
        column!("right", r => r.right);
        column!("feature", r => r.feature.map(name));
        column!("border", r => r.border);
        column!("missing_left", r => r.missing_left);
        column!("gain", r => r.gain);
        column!("value", r => r.value);
        column!("leaf", r => r.leaf);
        column!("weight", r => r.weight);
        column!("count", r => r.count);
        Ok(out)
    }

    /// The metric's name, its values by round, and the best round; `None` without held-out rows.
    fn history(&self) -> Option<(&'static str, Vec<f64>, u32)> {
        self.model.history.as_ref().map(|h| (h.metric.name(), h.values.clone(), h.best))
    }
}
