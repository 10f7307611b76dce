//! A fit from the table to the model.

use super::problem::{check_table, problem};
use super::{Input, LinearModel, LinearParams};
use crate::backend::cpu::team::Team;
use crate::boosting::Monitor;
use crate::error::{Error, Result};

/// Fits a sparse logistic regression to a table.
///
/// The same rows in the same order give a model of the same bytes, whatever `n_threads`, the columns' chunks, the integer type
/// of feature numbers and the float type of values.
///
/// # Errors
/// What is wrong with the table or the parameters, naming the column or the parameter; [`Error::Interrupted`] when `monitor`
/// asks to stop.
pub fn fit(input: &Input<'_>, params: &LinearParams, monitor: &dyn Monitor) -> Result<LinearModel> {
    params.validate()?;
    check_table(input)?;
    let team = Team::new(params.n_threads.unwrap_or(1) as usize)?;
    team.enter(|| {
        let (problem, labels, columns) = problem(input, params, &team)?;
        let _ = (&problem.numbers, labels, columns.sparse, columns.dense, monitor, problem.intercepts(), problem.weight(0));
        Err(Error::Data("not yet".into()))
    })
}
