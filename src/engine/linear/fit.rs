//! A fit from the table to the model.

use super::batches::ByBatches;
use super::counted::CountedLists;
use super::held_out::Watch;
use super::lbfgs::Lbfgs;
use super::passes::Passes;
use super::problem::{Problem, check_table, problem};
use super::{Input, LinearModel, LinearParams, Optimizer};
use crate::backend::Device;
use crate::backend::cpu::team::Team;
use crate::backend::linear::{by_batches, place, with_backend};
use crate::boosting::counted::rows_that_count;
use crate::boosting::{Monitor, prepare};
use crate::error::{Error, Result};
use crate::provenance::Provenance;

/// Fits a sparse logistic regression to a table.
///
/// The same rows in the same order give a model of the same bytes, whatever `n_threads`, the columns' chunks, the integer type
/// of feature numbers and the float type of values, and on whatever device.
///
/// # Errors
/// What is wrong with the table or the parameters, naming the column or the parameter; [`Error::Interrupted`] when `monitor`
/// asks to stop.
///
/// See [`super::Predictor`] for an example.
pub fn fit(input: &Input<'_>, params: &LinearParams, monitor: &dyn Monitor) -> Result<LinearModel> {
    params.validate()?;
    // A device that is not there is told before any work.
    Device::parse(&params.device)?;
    let rows = check_table(input)?;
    let team = Team::new(threads(params, rows))?;
    team.enter(|| fit_on(&team, input, params, monitor))
}

/// As many threads as asked for, but no more than the rows keep busy.
fn threads(params: &LinearParams, rows: usize) -> usize {
    let asked = params.n_threads.map_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()), |n| n as usize);
    asked.min(rows / 1024).max(1)
}

fn fit_on(team: &Team, input: &Input<'_>, params: &LinearParams, monitor: &dyn Monitor) -> Result<LinearModel> {
    let (problem, columns) = problem(input, params, team)?;
    if let Some(rows) = rows_that_count(problem.all_weights.as_deref()) {
        drop(problem);
        let counted = CountedLists::new(input, rows)?;
        let table = counted.input();
        prepare::check_rows(table.target.rows(), table.held_out, &table.target_name)?;
        let model = fit_on(team, &table, params, monitor)?;
        return Ok(LinearModel { rows: training_rows(input) as u64, ..model });
    }
    let mut watch = Watch::new(&problem, input.held_out, problem.all_weights.as_deref(), params, monitor)?;
    if monitor.interrupted() {
        return Err(Error::Interrupted);
    }
    let place = place(&problem, params, team)?;
    let passes = Passes::new(&problem, team, monitor)?;
    let mut fitted = match params.optimizer {
        Optimizer::Lbfgs => {
            let (iterations, tolerance) = (params.epochs(), params.tolerance());
            let search = Lbfgs { problem: &problem, team, iterations, tolerance, watch: &mut watch };
            with_backend(&place, &passes, &params.device, search)?
        }
        Optimizer::Sgd | Optimizer::Adagrad | Optimizer::Ftrl => {
            by_batches(&place, ByBatches { passes: &passes, params, watch: &mut watch })?
        }
    };
    if let (Some(best), Some(history)) = (watch.best.take(), &watch.history) {
        fitted.vector = best;
        fitted.passes = history.best + 1;
    }
    let mut model = LinearModel {
        params: LinearParams { n_threads: None, device: LinearParams::default().device, ..params.clone() },
        target: input.target_name.clone(),
        labels: columns.labels,
        sparse: columns.sparse,
        dense: columns.dense,
        numbers: vec![],
        weights: vec![],
        dense_weights: vec![],
        intercepts: vec![],
        rows: training_rows(input) as u64,
        passes: fitted.passes,
        converged: fitted.converged,
        objective: fitted.objective,
        history: watch.history,
        provenance: Provenance::default(),
    };
    set_coefficients(&mut model, &problem, &fitted.vector)?;
    Ok(model)
}

/// The rows that are not held out.
fn training_rows(input: &Input<'_>) -> usize {
    input.held_out.map_or(input.target.rows(), |h| h.iter().filter(|h| !**h).count())
}

/// Those of a vector; -0 becomes 0.
fn set_coefficients(model: &mut LinearModel, problem: &Problem<'_>, vector: &[f64]) -> Result<()> {
    let outputs = problem.outputs;
    let (sparse, others) = vector.split_at(problem.width * outputs);
    for (place, weights) in sparse.chunks_exact(outputs).enumerate() {
        if weights.iter().any(|w| *w as f32 != 0.0) {
            model.numbers.push(problem.numbers.as_ref().map_or(place as u64, |n| n[place]));
            model.weights.extend(weights.iter().map(|w| *w as f32 + 0.0));
        }
    }
    let (dense, intercepts) = others.split_at(problem.dense.len() * outputs);
    model.dense_weights = dense.iter().map(|w| w + 0.0).collect();
    model.intercepts = intercepts.iter().map(|w| w + 0.0).collect();
    let finite = |values: &[f64]| values.iter().all(|w| w.is_finite());
    if !model.weights.iter().all(|w| w.is_finite()) || !finite(&model.dense_weights) || !finite(&model.intercepts) {
        return Err(Error::Data("a coefficient is no longer finite: scale the values, lower `learning_rate` or raise `l2`".into()));
    }
    Ok(())
}
