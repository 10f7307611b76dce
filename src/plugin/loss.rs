//! Losses of the user's own, as Python makes them.

use crate::model::{guarded, value_error};
use pyo3::prelude::*;
use taiga_engine::symbolic::{CustomLoss, LossFormulas};

/// Value, gradient and hessian, a number each for every row.
type Derivatives = (Vec<f64>, Vec<f64>, Vec<f64>);

/// Reads a loss from a JSON object of its formulas.
fn formulas(json: &str) -> PyResult<LossFormulas> {
    let loss: CustomLoss = serde_json::from_str(json).map_err(value_error)?;
    loss.compile().map_err(value_error)
}

/// The columns that a loss reads beside the target, if it is one that can be fitted.
#[pyfunction]
pub fn loss_columns(json: &str) -> PyResult<Vec<String>> {
    guarded(|| Ok(formulas(json)?.columns().to_vec()))
}

/// Value and derivatives of a loss for rows: targets, raw scores, and further columns.
#[pyfunction]
pub fn loss_derivatives(json: &str, inputs: Vec<Vec<f64>>) -> PyResult<Derivatives> {
    guarded(|| {
        let formulas = formulas(json)?;
        let rows = inputs.first().map_or(0, Vec::len);
        if inputs.len() != 2 + formulas.columns().len() || inputs.iter().any(|input| input.len() != rows) {
            return Err(value_error("targets, raw scores and columns are lists of one length"));
        }
        let [value, gradient, hessian] = formulas.evaluate(&inputs.iter().map(Vec::as_slice).collect::<Vec<_>>());
        Ok((value, gradient, hessian))
    })
}
