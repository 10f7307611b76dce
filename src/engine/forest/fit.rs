//! Fitting a forest.

use super::{Forest, ForestParams, Input, Monitor};
use crate::error::{Error, Result};

/// Fits a random forest to a table.
///
/// The same rows in the same order give an equal forest, whatever `n_threads` and the columns'
/// chunks.
///
/// # Errors
/// What is wrong with the table or the parameters, naming the column or the parameter;
/// [`Error::Interrupted`] when `monitor` asks to stop.
pub fn fit(input: &Input<'_>, params: &ForestParams, monitor: &dyn Monitor) -> Result<Forest> {
    params.validate()?;
    let _ = (input.as_boosting(), monitor);
    Err(Error::Data("not there yet".into()))
}
