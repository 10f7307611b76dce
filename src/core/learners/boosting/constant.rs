//! What is left to fit where rows are too few, or too alike, for trees: their mean.

use super::fit::tree_params;
use super::model::{Model, Units};
use super::params::BoostingParams;
use super::schema::{check_class_weight, check_times, measured_metrics};
use super::{prepare, several};
use crate::dataset::labels::Labels;
use crate::dataset::training::Training;
use crate::dataset::{Input, checks, target};
use crate::error::Result;
use crate::losses::{self, LossKind, loss, resolve_loss};
use crate::model::unasked;
use crate::parallel::thread_pool::ThreadPool;
use crate::provenance::Provenance;

/// Fits a model without trees: for every row it predicts the start value, which is what the loss makes of the training
/// rows alone (their mean, their quantile, the shares of their classes).
///
/// It is for tables that [`super::fit()`] refuses as [degenerate](crate::error::RowsFault::Degenerate). Rows are not measured,
/// so there is no history; a class that no training row has gets a probability of 10⁻¹⁵. Where the target has a single label,
/// that label's probability is 1 - 10⁻¹⁵, and the model is one of `logloss`, whose one score speaks for its last label. With a
/// `baseline` the start value is 0, as in a fit. No device is used.
///
/// # Errors
/// As [`super::fit()`], but for tables of one training row or of one class; degenerate is still one of no training rows,
/// or of none that weighs anything.
///
/// ```
/// use taiga_core::column::Column;
/// use taiga_core::dataset::{Input, Target};
/// use taiga_core::learners::boosting::{BoostingParams, constant};
///
/// let input = Input {
///     features: vec![Column::from_f64("x", &[1.0])],
///     target: Target::Numbers(Column::from_f64("y", &[3.5])),
///     target_name: "y".into(),
///     weight: None,
///     baseline: vec![],
///     held_out: None,
///     loss_columns: Default::default(),
///     evaluation: Default::default(),
///     order: None,
/// };
/// let model = constant(&input, &BoostingParams::default()).unwrap();
/// assert_eq!((model.start, model.trees.len()), (vec![3.5], 0));
/// ```
pub fn constant(input: &Input<'_>, params: &BoostingParams) -> Result<Model> {
    params.validate()?;
    checks::check_columns(input)?;
    tree_params(input, params, &mut vec![])?;
    ThreadPool::new(1)?.enter(|| constant_on(input, params))
}

fn constant_on(input: &Input<'_>, params: &BoostingParams) -> Result<Model> {
    let training = Training::new(input)?;
    let table = training.input(input);
    checks::check_positive(&input.target, params.positive.as_ref())?;
    let labels = input.target.labels();
    let classes = labels.map_or(0, Labels::len);
    let resolved = resolve_loss(params.loss, &input.target)?;
    let params = &params.of_table(input);
    let kind = if classes == 1 { LossKind::Logloss } else { resolved };
    let loss = loss(kind, &params.loss_params(), classes, 1.0)?;
    prepare::check_loss_columns(input, params)?;
    check_times(loss.as_ref(), &[], input.loss_columns.times.is_given())?;
    if classes != 1 {
        measured_metrics(input.held_out.is_some(), params, loss.as_ref(), labels.map(Labels::len))?;
    }
    let values = match classes {
        1 => vec![1.0; training.rows.len()].into(),
        _ => target::target_numbers(&table, None, &|y| loss.check_target(y))?,
    };
    check_class_weight(params, classes > 0)?;
    let data = match loss.row_factor() {
        None => training.data(&table, values, &params.class_weight)?,
        Some(_) => prepare::weigh(&table, loss.as_ref(), values, &params.class_weight)?,
    };
    let several = several::each(&table, &data);
    several::check_huber_delta(&input.target, kind, &[], params)?;
    let params = &params.with_huber_delta(kind, &[], || prepare::huber_delta(&table, &data));
    let loss = if kind == LossKind::Huber { losses::loss(kind, &params.loss_params(), classes, 1.0)? } else { loss };
    let bounds = prepare::bounds(&table, loss.as_ref(), &[], &data.values)?;
    let columns = prepare::loss_columns(&table, loss.as_ref(), bounds.as_ref())?;
    let starts = several::starts((&table, &data, &columns), &several, (kind, &params.loss_params()), loss.as_ref(), None)?;
    let start = starts.into_iter().flat_map(|s| s.start).collect();
    Ok(Model {
        params: params.kept(),
        loss: kind,
        target: input.target_name.clone(),
        features: unasked(input),
        derived: vec![],
        tables: vec![],
        labels: labels.cloned(),
        start,
        scale: 1.0,
        units: Units::default(),
        trees: vec![],
        linear: vec![],
        rows: training.rows.len() as u64,
        history: None,
        provenance: Provenance::default(),
    })
}
