//! A fit from the table to the model.

use super::batches::ByBatches;
use super::checks::{check_columns, check_table};
use super::counted::CountedLists;
use super::held_out::PassMonitor;
use super::lbfgs::Lbfgs;
use super::needed::Needed;
use super::problem::{Problem, features, problem_of_blocks};
use super::rows::SparseRows;
use super::shap::training_means;
use super::snapshot::KeptSearch;
use super::steps::{LinearDevices, Task};
use super::{Input, LinearModel, LinearParams, Optimizer, vectors};
use crate::dataset::checks;
use crate::dataset::counted::rows_that_count;
use crate::dataset::own_rows::{self, WholeBlocks};
use crate::dataset::training::Training;
use crate::dataset::{Monitor, OwnRows, Snapshots, Target};
use crate::device::Place;
use crate::error::{Error, Result};
use crate::losses::LossKind;
use crate::losses::loss;
use crate::objective::LossParams;
use crate::parallel::pools;
use crate::parallel::thread_pool::ThreadPool;
use crate::provenance::Provenance;
use serde_json::Map;

/// What a fit is given beside a table and parameters.
#[derive(Clone, Copy, Default)]
pub struct FitOptions<'a> {
    /// The rows that the lists and the dense columns of the table are of, where other processes have the others. Each passes over its rows, and
    /// their sums are added up. None where they are of all rows.
    pub own: Option<OwnRows<'a>>,
    /// Where the state of the fit is kept from time to time, and what was kept of it before.
    pub snapshots: Option<&'a dyn Snapshots>,
}

impl<'a> FitOptions<'a> {
    /// Returns the rows of a table of `rows` that this process has the lists of.
    fn own_rows(&self, rows: usize) -> OwnRows<'a> {
        self.own.unwrap_or(OwnRows::whole(rows))
    }
}

/// Fits a sparse logistic regression to a table with the steps of one of `devices`.
///
/// # Errors
/// What is wrong with the table or the parameters, naming the column or the parameter; [`Error::Interrupted`] when `monitor`
/// asks to stop; what the device reports.
pub fn fit(input: &Input<'_>, params: &LinearParams, devices: &impl LinearDevices, monitor: &dyn Monitor) -> Result<LinearModel> {
    fit_with(input, params, &FitOptions::default(), devices, monitor)
}

/// Fits as [`fit`] does, from what `options` give: rows in several processes, snapshots. The model has the bytes of one process that has all rows
/// and was never ended.
///
/// # Errors
/// As [`fit`]; those of the collective; naming the first process that makes another fit, and in what; for an optimizer that takes rows one
/// batch after the other, where there are several processes; where it can't go on from a snapshot, saying why.
pub fn fit_with(
    input: &Input<'_>,
    params: &LinearParams,
    options: &FitOptions<'_>,
    devices: &impl LinearDevices,
    monitor: &dyn Monitor,
) -> Result<LinearModel> {
    params.validate()?;
    let own = options.own_rows(input.target.rows());
    if !own.is_whole() {
        params.check_together()?;
        let mut columns = own_rows::schema(&input.table());
        columns["lists"] = input.sparse.as_ref().map(lists_of).into();
        let mut more = Map::new();
        more.insert("snapshot_every".into(), options.snapshots.map(Snapshots::every).into());
        own_rows::begin(&own, params, more, &columns, input.target.rows())?;
    }
    check_table(input, Some(own.count))?;
    let pool = ThreadPool::of_fit(threads(params, own.count), !own.is_whole())?;
    let model = pool.enter(|| fit_on(&pool, input, params, options, devices, monitor))?;
    own_rows::end(&own, input.target.rows(), || model.to_bytes()).map(|()| model)
}

/// Returns the names of the columns of lists.
fn lists_of<'a>(sparse: &'a SparseRows<'_>) -> Vec<&'a str> {
    std::iter::once(&sparse.features).chain(&sparse.values).map(|column| column.name.as_str()).collect()
}

/// As many threads as asked for, but no more than the rows keep busy.
pub(super) fn threads(params: &LinearParams, rows: usize) -> usize {
    let asked = pools::asked(params.n_threads);
    asked.min(rows / 1024).max(1)
}

fn fit_on(
    pool: &ThreadPool,
    input: &Input<'_>,
    params: &LinearParams,
    options: &FitOptions<'_>,
    devices: &impl LinearDevices,
    monitor: &dyn Monitor,
) -> Result<LinearModel> {
    let own = options.own_rows(input.target.rows());
    // A sum over rows is made of sums over blocks of them, of which none lies in two processes.
    let table = input.table();
    let blocks = WholeBlocks::new(&table, own, vectors::BLOCK)?;
    let moved = Input { dense: blocks.features(&table), ..input.clone() };
    let (problem, columns) = problem_of_blocks(&moved, &blocks.moves, params, pool)?;
    if let Some(rows) = rows_that_count(problem.all_weights.as_deref()) {
        drop(problem);
        let counting = own.among(&rows);
        let counted = CountedLists::new(input, &own, rows)?;
        let table = counted.input();
        checks::check_rows(table.target.rows(), table.held_out, &table.target_name)?;
        let options = FitOptions { own: Some(counting), ..*options };
        let model = fit_on(pool, &table, params, &options, devices, monitor)?;
        return Ok(LinearModel { rows: training_rows(input) as u64, ..model });
    }
    let mut watch = PassMonitor::new(&problem, input.held_out, problem.all_weights.as_deref(), params, monitor)?;
    if monitor.interrupted() {
        return Err(Error::Interrupted);
    }
    let kept = KeptSearch::new(options.snapshots, (&moved, &problem), params, pool)?;
    let place = devices.place(&problem, params, pool)?;
    let needed = Needed::new(&problem, params, pool, input.held_out.is_some());
    let reserved = needed.reserve(matches!(place, Place::Cpu(_)))?;
    let task = Task::new(&problem, pool, monitor)?;
    let mut fitted = match params.optimizer {
        Optimizer::Lbfgs => {
            let (iterations, tolerance) = (params.epochs(), params.tolerance());
            let search = Lbfgs { problem: &problem, pool, iterations, tolerance, watch: &mut watch, kept: &kept };
            devices.whole(&place, &task, search)?
        }
        Optimizer::Sgd | Optimizer::Adagrad | Optimizer::Ftrl => {
            devices.by_batches(&place, ByBatches { task: &task, params, watch: &mut watch, kept: &kept })?
        }
    };
    drop(reserved);
    if let (Some(best), Some(history)) = (watch.best.take(), &watch.history) {
        fitted.vector = best;
        fitted.passes = history.best + 1;
    }
    let mut model = LinearModel {
        params: params.described(),
        target: input.target_name.clone(),
        labels: columns.labels,
        sparse: columns.sparse,
        dense: columns.dense,
        numbers: vec![],
        weights: vec![],
        dense_weights: vec![],
        intercepts: vec![],
        means: None,
        rows: training_rows(input) as u64,
        passes: fitted.passes,
        converged: fitted.converged,
        objective: fitted.objective,
        history: watch.history,
        provenance: Provenance::default(),
    };
    set_coefficients(&mut model, &problem, &fitted.vector)?;
    let means = training_means(&problem, &fitted.vector, pool)?;
    // A sum that leaves f64 is left out, and explanations ask for a background.
    model.means = Some(means).filter(|means| means.iter().all(|x| x.is_finite()));
    Ok(model)
}

/// The rows that are not held out.
fn training_rows(input: &Input<'_>) -> usize {
    input.held_out.map_or(input.target.rows(), |h| h.iter().filter(|h| !**h).count())
}

/// Fits a model of intercepts alone: for every row it predicts the shares of the training rows' classes.
///
/// It is for tables that [`fit`] refuses as [degenerate](crate::error::RowsFault::Degenerate). Rows are not measured, so there
/// is no history; a class that no training row has gets a probability of 10⁻¹⁵, and a single label one of 1 - 10⁻¹⁵. The
/// intercepts are there under `fit_intercept = false` too. No device is used.
///
/// # Errors
/// As [`fit`], but for tables of one training row or of one class; degenerate is still one of no training rows, or of none
/// that weighs anything.
///
/// ```
/// use taiga_core::dataset::Target;
/// use taiga_core::column::Column;
/// use taiga_core::learners::linear::{Input, LinearParams, constant};
/// use taiga_core::dataset::labels::Labels;
///
/// let input = Input {
///     sparse: None,
///     dense: vec![Column::from_f64("x", &[1.0, 2.0, 3.0])],
///     target: Target::Classes { codes: &[0, 0, 0], labels: Labels::Boolean },
///     target_name: "y".into(),
///     weight: None,
///     held_out: None,
/// };
/// let model = constant(&input, &LinearParams::default()).unwrap();
/// assert!(model.intercepts[0] < -34.0);
/// ```
pub fn constant(input: &Input<'_>, params: &LinearParams) -> Result<LinearModel> {
    params.validate()?;
    check_columns(input, Some(input.target.rows()))?;
    let pool = ThreadPool::new(1)?;
    pool.enter(|| constant_on(&pool, input, params))
}

fn constant_on(pool: &ThreadPool, input: &Input<'_>, params: &LinearParams) -> Result<LinearModel> {
    let table = input.table();
    let training = Training::new(&table)?;
    let own = training.input(&table);
    checks::check_positive(&input.target, params.positive.as_ref())?;
    let Target::Classes { codes, labels } = &own.target else { return Err(Error::Data("a target of classes is needed".into())) };
    // What is wrong with the features is so for a constant too.
    let features = features(input, params, pool)?;
    if input.held_out.is_none() {
        params.check_measured()?;
    }
    let data = training.data(&own, vec![], &params.class_weight)?;
    let kind = if labels.len() > 2 { LossKind::Multiclass } else { LossKind::Logloss };
    let target: Vec<f64> = codes.iter().map(|c| if labels.len() == 1 { 1.0 } else { *c as f64 }).collect();
    let mut intercepts = loss(kind, &LossParams::default(), labels.len(), 1.0)?.start(&target, data.weights.as_deref());
    if intercepts.len() > 1 {
        let mean = intercepts.iter().sum::<f64>() / intercepts.len() as f64;
        intercepts.iter_mut().for_each(|x| *x -= mean);
    }
    Ok(LinearModel {
        params: params.described(),
        target: input.target_name.clone(),
        labels: labels.clone(),
        dense_weights: vec![0.0; features.dense.len() * intercepts.len()],
        means: Some(vec![0.0; (features.sparse.is_some() as usize + features.dense.len()) * intercepts.len()]),
        sparse: features.sparse,
        dense: features.dense,
        numbers: vec![],
        weights: vec![],
        intercepts,
        rows: training.rows.len() as u64,
        passes: 0,
        converged: false,
        objective: f64::NAN,
        history: None,
        provenance: Provenance::default(),
    })
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
        let message = "a coefficient is no longer finite: scale the values, lower `learning_rate` or raise `l2`";
        return Err(Error::Data(message.into()).of_values());
    }
    Ok(())
}
