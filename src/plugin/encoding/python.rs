//! What Python asks before there is a query.

use crate::model::{Problems, detached, problems, python_error};
use crate::predict::wanted::Wanted;
use pyo3::prelude::*;
use taiga_engine::encoding::TargetEncoder;
use taiga_engine::encoding::target::TargetParams;

/// All that is wrong with the parameters of a target encoding, given as a JSON object.
#[pyfunction]
pub fn target_problems(json: &str) -> PyResult<Problems> {
    problems(json, TargetParams::from_json)
}

/// An encoder's columns, the classes of its target where it has several, which columns were computed, and its columns as `encode`
/// passes them on.
type Description = (Vec<String>, Option<Vec<String>>, Vec<String>, String);

/// What Python must know of an encoder.
#[pyfunction]
pub fn describe_encoder(py: Python<'_>, bytes: &[u8]) -> PyResult<Description> {
    detached(py, || {
        let encoder = TargetEncoder::from_bytes(bytes).map_err(python_error)?;
        let wanted = Wanted::of_categories(encoder.columns().iter().map(|c| (c.name(), c.lookup().categories().kind())));
        let names = encoder.columns().iter().map(|c| c.name().to_string()).collect();
        let computed = encoder.computed().into_iter().map(String::from).collect();
        Ok((names, encoder.classes().map(<[String]>::to_vec), computed, wanted.to_json()))
    })
}
