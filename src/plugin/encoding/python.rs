//! What Python asks before there is a query.

use crate::model::{Problems, detached, list, problems, python_categories, python_error, value_error};
use crate::predict::wanted::Wanted;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use taiga_engine::encoding::encoder::{EncodedColumn, TargetEncoder};
use taiga_engine::encoding::target::TargetParams;

/// All that is wrong with the parameters of a target encoding, given as a JSON object.
#[pyfunction]
pub fn target_problems(json: &str) -> PyResult<Problems> {
    problems(json, TargetParams::from_json)
}

/// A parsed encoder and its bytes: what `polars_taiga.Encoder` is built on.
#[pyclass(frozen, name = "Encoder", module = "polars_taiga._taiga")]
pub struct PyEncoder {
    encoder: TargetEncoder,
    bytes: Vec<u8>,
}

#[pymethods]
impl PyEncoder {
    /// The encoder of these bytes.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        detached(py, || Ok(PyEncoder { encoder: TargetEncoder::from_bytes(bytes).map_err(python_error)?, bytes: bytes.to_vec() }))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.bytes)
    }

    /// The target's name.
    fn target(&self) -> &str {
        self.encoder.target()
    }

    /// The labels of a target with several classes.
    fn classes(&self) -> Option<Vec<String>> {
        self.encoder.classes().map(<[String]>::to_vec)
    }

    /// Pairs of a column's name and the kind of its categories: `text`, `integers` or `Booleans`.
    fn features(&self) -> Vec<(String, &'static str)> {
        self.encoder.columns().iter().map(|c| (c.name().to_string(), c.lookup().categories().kind())).collect()
    }

    /// The columns that were computed at the fit.
    fn computed(&self) -> Vec<String> {
        self.encoder.computed().into_iter().map(String::from).collect()
    }

    /// Its columns as `encode` passes them on.
    fn wanted(&self) -> String {
        Wanted::of_categories(self.encoder.columns().iter().map(|c| (c.name(), c.lookup().categories().kind()))).to_json()
    }

    /// The categories of a column in the order of their codes, `None` for null.
    fn categories<'py>(&self, py: Python<'py>, column: usize) -> PyResult<Bound<'py, PyList>> {
        python_categories(py, self.column(column)?.lookup().categories())
    }

    /// For each output the values of a column's categories, and behind them the one of what was never seen.
    fn values<'py>(&self, py: Python<'py>, column: usize) -> PyResult<Vec<Bound<'py, PyList>>> {
        let known = self.column(column)?.lookup().categories().len() as u32;
        let codes: Vec<u32> = (0..=known).collect();
        (0..self.encoder.outputs()).map(|output| list(py, self.encoder.values(column, &codes, output))).collect()
    }
}

impl PyEncoder {
    fn column(&self, column: usize) -> PyResult<&EncodedColumn> {
        self.encoder.columns().get(column).ok_or_else(|| value_error(format!("there is no column {column}")))
    }
}
