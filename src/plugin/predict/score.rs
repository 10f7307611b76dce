//! `score`: a model, a target and columns in, how good the model's predictions are out.

use super::applied::Applied;
use super::{BLOCK, LARGE, LONG, MODEL, Table, check, distinct_models, model_bytes, models_of, ready};
use crate::columns::Numbers;
use crate::export::{Answer, Length, export};
use crate::fit::OnError;
use crate::monitor::{self, expression};
use crate::target::class_codes;
use crate::threads::for_blocks;
use crate::{errors, labels};
use polars::prelude::*;
use serde::Deserialize;
use taiga_engine::dataset::weights::row_weights;
use taiga_engine::dataset::{ClassWeight, Input, Target};
use taiga_engine::error::RowsFault;
use taiga_engine::learners::applied::{Output, Values};
use taiga_engine::metrics::{MetricKind, listed};
use taiga_engine::model::score::score as measure;

/// What Python says of a score.
#[derive(Deserialize)]
pub struct ScoreKwargs {
    /// What is measured; by the model unless told.
    metric: Option<String>,
    /// Whether the third input is what rows weigh.
    weight: bool,
    on_error: OnError,
    rounds: Option<usize>,
    device: String,
    /// As in [`PredictKwargs`](super::output::PredictKwargs).
    wanted: Option<String>,
}

impl ScoreKwargs {
    /// The metric that is named.
    fn metric(&self) -> PolarsResult<Option<MetricKind>> {
        let Some(name) = &self.metric else { return Ok(None) };
        let found = MetricKind::ALL.iter().copied().find(|m| m.name() == name);
        let unknown = || errors::data(format!("metric={name:?} is not {}", listed(MetricKind::ALL.iter().copied(), "or")));
        found.map(Some).ok_or_else(unknown)
    }

    /// The number of inputs before the columns.
    fn first(&self) -> usize {
        2 + self.weight as usize
    }
}

/// What a model's rows are measured against.
enum Truth {
    Numbers(Numbers),
    Classes(Vec<u32>),
}

impl Truth {
    fn new(target: &Series, model: &Applied) -> PolarsResult<Self> {
        Ok(match model.labels() {
            None => Truth::Numbers(Numbers::finite(target, "a target")?),
            Some(own) => {
                let dtype = model.label_type().unwrap_or_else(|| own.kept_as());
                Truth::Classes(class_codes(target, &labels::series("".into(), own, &own.kept_as())?, &dtype)?)
            }
        })
    }

    fn values(&self) -> Vec<f64> {
        match self {
            Truth::Numbers(numbers) => numbers.column().to_f64(),
            Truth::Classes(codes) => codes.iter().map(|c| *c as f64).collect(),
        }
    }
}

/// What rows weigh, in whatever unit.
fn weights(weight: &Series, target: &[f64]) -> PolarsResult<Vec<f32>> {
    let numbers = Numbers::finite(weight, "a weight")?;
    if numbers.column().to_f64().iter().all(|w| *w == 0.0) {
        return Err(errors::of_rows(RowsFault::Degenerate, format!("column `{}`: all rows weigh zero", weight.name())));
    }
    let input = Input {
        features: vec![],
        target: Target::Numbers(taiga_engine::column::Column::from_f64("", target)),
        target_name: "".into(),
        weight: Some(numbers.column()),
        baseline: vec![],
        held_out: None,
    };
    Ok(row_weights(&input, &ClassWeight::None).map_err(errors::compute)?.map(|w| w.values).unwrap_or_default())
}

/// The raw scores of all rows, or the predictions of a model that has no scores: `[output][row]`.
fn predictions(model: &Applied, table: &Table, inputs: &super::Inputs) -> PolarsResult<Vec<Vec<f64>>> {
    let output = if model.fitted().scoring().has_no_scores { Output::Predictions } else { Output::Raw };
    let bytes = 8 * (model.fitted().facts().outputs as u64).saturating_mul(table.rows as u64);
    errors::check_memory(|| format!("the predictions of {} rows", table.rows), bytes, "measure fewer rows at a time")?;
    let block = if model.is_remote() { table.rows.max(1) } else { BLOCK };
    let parts = for_blocks(table.rows, block, |start, len| model.outputs(&inputs.slice(start, len), &[output]));
    let mut all = vec![Vec::with_capacity(table.rows); model.fitted().facts().outputs];
    for part in parts {
        for values in part? {
            let Values::Numbers(values) = values else { return Err(errors::data("predictions are numbers")) };
            all.iter_mut().zip(values).for_each(|(all, part)| all.extend(part));
        }
    }
    Ok(all)
}

/// The one model of a column.
fn only(models: &BinaryChunked) -> PolarsResult<Option<&[u8]>> {
    let (distinct, _) = distinct_models(models);
    match distinct.as_slice() {
        [] => Ok(None),
        [one] if models.null_count() == 0 => Ok(Some(one)),
        several => {
            let nulls = if models.null_count() > 0 { " and nulls" } else { "" };
            Err(errors::data(format!("{}{nulls}: rows are measured by one model", errors::count(several.len(), "model", "models"))))
        }
    }
}

/// The one column of a struct: so a selector stays one input.
fn role(input: &Series) -> PolarsResult<Series> {
    match input.struct_()?.fields_as_series().as_slice() {
        [one] => Ok(one.clone()),
        several => Err(errors::data(format!("the target, and a weight, are one column each, not {}", several.len()))),
    }
}

fn value_of(inputs: &[Series], kwargs: &ScoreKwargs) -> PolarsResult<Option<f64>> {
    let models = models_of(&inputs[0], MODEL)?;
    let Some(bytes) = only(&models)? else { return Ok(None) };
    let first = kwargs.first();
    let roles = inputs[1..first].iter().map(role).collect::<PolarsResult<Vec<Series>>>()?;
    let target = &roles[0];
    let rows = |s: &Series| -> PolarsResult<()> {
        let (own, wanted) = (s.len(), target.len());
        let text = || format!("it has {own} rows and the target `{}` has {wanted}", target.name());
        if own == wanted { Ok(()) } else { Err(errors::column(s.name(), text())) }
    };
    roles[1..].iter().try_for_each(rows)?;
    let table = Table::new(target.len(), &inputs[first..])?;
    if table.rows != target.len() {
        let text = format!("it has {} rows and the columns have {}", target.len(), table.rows);
        return Err(errors::column(target.name(), text));
    }
    if table.rows == 0 {
        return Err(errors::of_rows(RowsFault::Degenerate, "there are no rows to measure"));
    }
    let ready = ready(bytes, &kwargs.device, kwargs.rounds)?;
    let model = &ready.model;
    let values = Truth::new(target, model)?.values();
    let weight = if kwargs.weight { Some(weights(&roles[1], &values)?) } else { None };
    let predictions = predictions(model, &table, &table.inputs(&ready)?)?;
    measure(&model.fitted().scoring(), kwargs.metric()?, predictions, &values, weight.as_deref()).map(Some).map_err(errors::compute)
}

fn score_field(inputs: &[Field], kwargs: ScoreKwargs) -> PolarsResult<Field> {
    errors::guarded("score", || {
        kwargs.metric()?;
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
