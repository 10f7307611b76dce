//! `score`: a model, a target and columns in, how good the model's predictions are out.

use super::measured::{Call, Measured, bytes_of_scores, metric_of, scores_of_tables};
use super::{LARGE, LONG, check, model_bytes};
use crate::errors;
use crate::export::{Answer, Length, export};
use crate::fit::OnError;
use crate::monitor::{self, expression};
use polars::prelude::*;
use serde::Deserialize;

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
    on_error: OnError,
    rounds: Option<usize>,
    device: String,
    /// As in [`PredictKwargs`](super::output::PredictKwargs).
    wanted: Option<String>,
}

impl ScoreKwargs {
    /// The number of inputs before the columns.
    fn first(&self) -> usize {
        2 + self.weight as usize + self.group as usize + self.of_metric as usize
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
    let Some(measured) = Measured::new(&call)? else { return Ok(None) };
    let (model, rows) = (&measured.ready.model, measured.table.rows);
    errors::check_memory(|| format!("the predictions of {rows} rows"), bytes_of_scores(model, rows), "measure fewer rows at a time")?;
    let inputs = measured.inputs()?;
    let scores = scores_of_tables(model, 1, rows, |_, start, len| Ok(inputs.slice(start, len)))?.swap_remove(0);
    let metric = metric_of(kwargs.metric.as_deref())?;
    measured.score(metric.as_ref(), &scores).map(Some)
}

fn score_field(inputs: &[Field], kwargs: ScoreKwargs) -> PolarsResult<Field> {
    errors::guarded("score", || {
        metric_of(kwargs.metric.as_deref())?;
        check(&inputs[0], &inputs[kwargs.first()..], kwargs.wanted.as_ref())?;
        Ok(Field::new("score".into(), DataType::Float64))
    })
}

/// `inputs`: the model, structs of the target and of what rows weigh where that is told, then the columns.
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
