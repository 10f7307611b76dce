//! `score`: a model, a target and columns in, how good the model's predictions are out.

use super::measured::{Call, Measured, bytes_of_scores, metric_of, role, scores_of_tables};
use super::{LARGE, LONG, check, model_bytes};
use crate::errors;
use crate::export::{Answer, Length, export};
use crate::fit::OnError;
use crate::monitor::{self, expression};
use crate::threads::on_all_threads;
use crate::times::TimeColumns;
use polars::prelude::*;
use serde::Deserialize;
use taiga_engine::dataset::labels::Labels;
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
        self.first_time() + self.times.len()
    }

    /// Where the columns of times begin.
    fn first_time(&self) -> usize {
        2 + self.weight as usize + self.group as usize + self.of_metric as usize
    }

    /// Reads when the events of `rows` happened, as the metric reads it.
    fn bounds(&self, inputs: &[Series], target: &[f64]) -> PolarsResult<Vec<Vec<f64>>> {
        let columns = TimeColumns::new(|name| {
            let Some(at) = self.times.iter().position(|time| time == name) else { return Ok(None) };
            let column = role(&inputs[self.first_time() + at])?;
            let (own, rows) = (column.len(), target.len());
            match own == rows {
                true => Ok(Some(column)),
                false => Err(errors::column(column.name(), format!("it has {own} rows and the target has {rows}"))),
            }
        })?;
        let name = role(&inputs[1])?;
        Ok(columns.times().bounds(name.name(), target).map_err(errors::compute)?.map_or(vec![], Vec::from))
    }
}

fn value_of(inputs: &[Series], kwargs: &ScoreKwargs) -> PolarsResult<Option<f64>> {
    let mut roles = inputs[2..kwargs.first()].iter();
    let mut role = |is_there: bool| is_there.then(|| roles.next()).flatten();
    let call = Call {
        model: &inputs[0],
        target: Some(&inputs[1]),
        weight: role(kwargs.weight),
        group: role(kwargs.group),
        of_metric: role(kwargs.of_metric),
        columns: &inputs[kwargs.first()..],
        device: &kwargs.device,
        rounds: kwargs.rounds,
        background: None,
    };
    let metric = metric_of(kwargs.metric.as_deref())?;
    let values = values_of(&call, |target| kwargs.bounds(inputs, target), &[metric])?;
    Ok(values.and_then(|values| values.first().copied()))
}

/// Measures a model's predictions of rows, each by that metric or the model's own; none where the model is null. `bounds`: of the times of
/// the rows' events, told their targets.
pub fn values_of(
    call: &Call<'_>,
    bounds: impl FnOnce(&[f64]) -> PolarsResult<Vec<Vec<f64>>>,
    metrics: &[Option<MetricSpec>],
) -> PolarsResult<Option<Vec<f64>>> {
    let Some(measured) = Measured::new(call)? else { return Ok(None) };
    let (model, rows) = (&measured.ready.model, measured.table.rows);
    errors::check_memory(|| format!("the predictions of {rows} rows"), bytes_of_scores(model, rows), "measure fewer rows at a time")?;
    let read = measured.inputs()?;
    let scores = scores_of_tables(model, 1, rows, |_, start, len| Ok(read.slice(start, len)))?.swap_remove(0);
    let columns = bounds(&measured.target)?;
    let value = |metric: &Option<MetricSpec>| {
        let metric = metric.clone().unwrap_or_else(|| model.fitted().scoring().metric.into());
        if metric.reads_times() && columns.is_empty() {
            let instead = match model.labels().map(Labels::len) {
                None => "",
                Some(2) => "; probabilities of classes are measured by \"logloss\", \"ece\" or \"rmse\", the root of Brier's score",
                Some(_) => "; probabilities of classes are measured by \"multiclass\" or \"ece\"",
            };
            let text = format!("parameter `event`: metric=\"{metric}\" is of survival and needs it, or `lower` and `upper`{instead}");
            return Err(errors::data(text));
        }
        measured.score(&metric, &scores, &columns)
    };
    on_all_threads(|| metrics.iter().map(value).collect::<PolarsResult<Vec<f64>>>()).map(Some)
}

fn score_field(inputs: &[Field], kwargs: ScoreKwargs) -> PolarsResult<Field> {
    errors::guarded("score", || {
        metric_of(kwargs.metric.as_deref())?;
        check(&inputs[0], &inputs[kwargs.first()..], kwargs.wanted.as_ref())?;
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
