//! What Python asks before there is a query.

use crate::model::{Problems, guarded, problems, python_error};
use pyo3::prelude::*;
use taiga_engine::encoding::TargetEncoder;
use taiga_engine::encoding::target::TargetParams;

/// All that is wrong with the parameters of a target encoding, given as a JSON object.
#[pyfunction]
pub fn target_problems(json: &str) -> PyResult<Problems> {
    problems(json, TargetParams::from_json)
}

/// The columns of an encoder, the classes of its target where it has several, and which columns were computed.
#[pyfunction]
pub fn describe_encoder(bytes: &[u8]) -> PyResult<(Vec<String>, Option<Vec<String>>, Vec<String>)> {
    guarded(|| {
        let encoder = TargetEncoder::from_bytes(bytes).map_err(python_error)?;
        let computed = encoder.computed().into_iter().map(String::from).collect();
        Ok((encoder.columns().iter().map(|c| c.name().to_string()).collect(), encoder.classes().map(<[String]>::to_vec), computed))
    })
}
