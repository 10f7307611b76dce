//! What Python asks before there is a query.

use crate::model::{guarded, python_error, value_error};
use pyo3::prelude::*;
use taiga_engine::encoding::TargetEncoder;
use taiga_engine::encoding::target::TargetParams;

/// Checks the parameters of a target encoding, given as a JSON object.
#[pyfunction]
pub fn check_target_params(json: &str) -> PyResult<()> {
    guarded(|| {
        let value = serde_json::from_str(json).map_err(value_error)?;
        TargetParams::from_json(&value).map(|_| ()).map_err(python_error)
    })
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
