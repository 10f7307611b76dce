//! `score`: a model, a target and columns in, how good the model's predictions are out.

use super::measured::{Call, Measured, Roles, bytes_of_scores, metric_of, scores_of_tables};
use super::{LARGE, LONG, check, model_bytes};
use crate::errors;
use crate::export::{Answer, Length, export};
use crate::fit::OnError;
use crate::monitor::{self, expression};
use crate::threads::on_all_threads;
use polars::prelude::*;
use serde::Deserialize;
use taiga_engine::metrics::MetricSpec;

/// What Python says of a score.
#[derive(Deserialize)]
pub struct ScoreKwargs {
    /// What is measured; by the model unless told.
    metric: Option<String>,
    /// Whether the third input is what rows weigh.
    weight: bool,
    /// Whether the next one is the rows' groups, and the next a struct of the columns that the metric reads.
    #[serde(default)]
    group: bool,
    #[serde(default)]
    of_metric: bool,
    /// The roles of the inputs behind it that say when events happened.
    #[serde(default)]
    times: Vec<String>,
    on_error: OnError,
    rounds: Option<usize>,
    device: String,
    /// As in [`PredictKwargs`](super::output::PredictKwargs).
    wanted: Option<String>,
}

impl ScoreKwargs {
    /// The number of inputs before the columns.
    fn first(&self) -> usize {
        2 + self.weight as usize + self.group as usize + self.of_metric as usize + self.times.len()
    }

    /// What stands before the columns, but for the model.
    fn roles<'a, T>(&'a self, inputs: &'a [T]) -> Roles<'a, T> {
        Roles::new(&inputs[1..self.first()], [true, self.weight, self.group, self.of_metric], &self.times)
    }
}

fn value_of(inputs: &[Series], kwargs: &ScoreKwargs) -> PolarsResult<Option<f64>> {
    let roles = kwargs.roles(inputs);
    let call = Call {
        model: &inputs[0],
        target: roles.target,
        weight: roles.weight,
        group: roles.group,
        of_metric: roles.of_metric,
        times: roles.times()?,
        columns: &inputs[kwargs.first()..],
        device: &kwargs.device,
        rounds: kwargs.rounds,
        background: None,
    };
    let metric = metric_of(kwargs.metric.as_deref())?;
    let values = values_of(&call, &[metric])?;
    Ok(values.and_then(|values| values.first().copied()))
}

/// Measures a model's predictions of rows, each by that metric or the model's own; none where the model is null.
pub fn values_of(call: &Call<'_>, metrics: &[Option<MetricSpec>]) -> PolarsResult<Option<Vec<f64>>> {
    let Some(measured) = Measured::new(call)? else { return Ok(None) };
    let (model, rows) = (&measured.ready.model, measured.table.rows);
    errors::check_memory(|| format!("the predictions of {rows} rows"), bytes_of_scores(model, rows), "measure fewer rows at a time")?;
    let read = measured.inputs()?;
    let scores = scores_of_tables(model, 1, rows, |_, start, len| Ok(read.slice(start, len)))?.swap_remove(0);
    let value = |metric: &Option<MetricSpec>| {
        let metric = metric.clone().unwrap_or_else(|| model.fitted().scoring().metric.into());
        measured.score(&metric, &scores)
    };
    on_all_threads(|| metrics.iter().map(value).collect::<PolarsResult<Vec<f64>>>()).map(Some)
}

fn score_field(inputs: &[Field], kwargs: ScoreKwargs) -> PolarsResult<Field> {
    errors::guarded("score", || {
        metric_of(kwargs.metric.as_deref())?;
        check(&inputs[0], &inputs[kwargs.first()..], kwargs.wanted.as_ref())?;
        kwargs.roles(inputs).check(kwargs.wanted.as_ref())?;
        Ok(Field::new("score".into(), DataType::Float64))
    })
}

/// `inputs`: the model, structs of the target, of what rows weigh and of the times of their events where these are told, then the columns.
fn score(inputs: &[Series], kwargs: ScoreKwargs) -> Answer {
    let rows = monitor::rows(inputs);
    expression("score", rows >= LONG || model_bytes(&inputs[0]) >= LARGE, || {
        let value = match value_of(inputs, &kwargs) {
            Err(error) if kwargs.on_error == OnError::Null && errors::rows_fault(&error).is_some() => None,
            value => value?,
        };
        Ok(Float64Chunked::from_slice_options("score".into(), &[value]).into_series())
    })
}

export!(score, score_field, ScoreKwargs, Length::One);
