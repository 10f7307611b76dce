//! `metric`: columns of a target and of predictions in, a metric of them out.

mod classes;

use crate::categories;
use crate::columns::Numbers;
use crate::errors;
use crate::export::{Answer, Length, export};
use crate::fit::{Fields, OnError};
use crate::model::{guarded, value_error};
use crate::monitor::{self, LONG};
use crate::schema::{InputSchema, check_number_field, is_known};
use crate::threads::on_all_threads;
use classes::{Classes, Predicted};
use polars::prelude::*;
use pyo3::prelude::*;
use rayon::prelude::*;
use serde::Deserialize;
use taiga_engine::dataset::labels::Label;
use taiga_engine::dataset::row_groups::RowGroups;
use taiga_engine::error::RowsFault;
use taiga_engine::learners::boosting::BoostingParams;
use taiga_engine::losses::{Link, LossParams};
use taiga_engine::metrics::{MetricKind, MetricSpec, Rows};
use taiga_engine::model::score::score;
use taiga_engine::symbolic::CustomMetric;

/// What Python says of a metric.
#[derive(Deserialize)]
pub struct MetricKwargs {
    /// The function as the user calls it: `metrics.auc`.
    function: String,
    /// The metric as JSON.
    metric: String,
    /// Of two classes, the label whose probability is predicted, as JSON.
    positive: Option<String>,
    on_error: OnError,
}

/// Reads a metric from JSON.
///
/// # Errors
/// For what is none, in words that begin with the metric.
pub fn metric_from_json(json: &str) -> PolarsResult<MetricSpec> {
    serde_json::from_str(json).map_err(|fault| errors::data(format!("parameter `metric`: {json} is not {fault}")))
}

/// What is wrong with a metric, given as JSON; none for one that there is.
#[pyfunction]
pub fn metric_problem(json: &str) -> PyResult<Option<String>> {
    let metric: serde_json::Value = serde_json::from_str(json).map_err(value_error)?;
    let params = BoostingParams::from_json(&serde_json::json!({ "metric": metric, "loss": "auto" }));
    // Of a mean of a loss of one's own there is nothing to say before there is a model.
    Ok(params.err().map(|error| error.to_string()).filter(|_| metric != "custom"))
}

/// The columns that a metric of one's own reads beside target and prediction, given as JSON.
#[pyfunction]
pub fn metric_columns(json: &str) -> PyResult<Vec<String>> {
    guarded(|| {
        let own: CustomMetric = serde_json::from_str(json).map_err(value_error)?;
        Ok(MetricSpec::own(&own).map_err(value_error)?.columns().to_vec())
    })
}

impl MetricKwargs {
    fn positive(&self) -> PolarsResult<Option<Label>> {
        let positive = self.positive.as_deref().map(serde_json::from_str).transpose();
        positive.map_err(|e| errors::data(format!("parameter `positive`: {e}")))
    }
}

fn metric_field(inputs: &[Field], kwargs: MetricKwargs) -> PolarsResult<Field> {
    errors::guarded(&kwargs.function, || {
        let (spec, positive) = (metric_from_json(&kwargs.metric)?, kwargs.positive()?);
        check(&InputSchema::new(inputs[0].dtype())?, &spec, positive.as_ref())?;
        Ok(Field::new("metric".into(), DataType::Float64))
    })
}

/// Whether a type tells something of a call: a column that is all null, and of no type, may be one of no rows.
fn tells(field: &Field) -> bool {
    is_known(field.dtype()) && *field.dtype() != DataType::Null
}

/// Checks what types tell.
fn check(fields: &InputSchema, spec: &MetricSpec, positive: Option<&Label>) -> PolarsResult<()> {
    let predicted = fields.one("predicted")?.filter(tells);
    let target = Some(&fields.target).filter(|field| tells(field));
    if is_of_classes(spec) {
        classes::check(spec.kind(), target, predicted.as_ref(), positive)?;
    } else {
        target.map_or(Ok(()), |field| check_number_field(field, "a target"))?;
        predicted.map_or(Ok(()), |field| check_one_number(&field))?;
    }
    if let Some(weight) = fields.one("weight")?.filter(tells) {
        check_number_field(&weight, "a weight")?;
    }
    if let Some(group) = fields.one("group")?.filter(tells) {
        categories::check_group_type(group.name(), group.dtype())?;
    }
    fields
        .all("columns")
        .iter()
        .filter(|field| tells(field))
        .try_for_each(|field| check_number_field(field, "a column that a metric reads"))
}

/// What is measured: predictions by output, targets, and how they are read.
struct Measured {
    scores: Vec<Vec<f64>>,
    calls: Option<Vec<u32>>,
    target: Vec<f64>,
    link: Link,
}

impl Measured {
    fn new(spec: &MetricSpec, target: &Series, predicted: &Series, positive: Option<&Label>) -> PolarsResult<Measured> {
        if is_of_classes(spec) {
            let Classes { target, predicted, of_two } = Classes::new(spec.kind(), target, predicted, positive)?;
            let link = if of_two { Link::Sigmoid } else { Link::Softmax };
            return Ok(match predicted {
                Predicted::Shares(scores) => Measured { scores, calls: None, target, link },
                Predicted::Labels(calls) => Measured { scores: vec![], calls: Some(calls), target, link },
            });
        }
        let truths = numbers(target, "a target")?;
        let link = if fits_numbers(spec) { Link::Identity } else { Link::Exp };
        check_one_number(&predicted.field())?;
        let scores = vec![numbers(predicted, "a prediction")?];
        if link == Link::Exp {
            positive_values(predicted, &scores[0], |p| p > 0.0, "a deviance is of predictions above 0")?;
            let (least, what) = match spec.kind() {
                MetricKind::Gamma => (f64::MIN_POSITIVE, "a gamma deviance is of targets above 0"),
                _ => (0.0, "a deviance is of targets from 0 on"),
            };
            positive_values(target, &truths, |y| y >= least, what)?;
        }
        Ok(Measured { scores, calls: None, target: truths, link })
    }
}

/// Whether a metric is one of classes.
fn is_of_classes(spec: &MetricSpec) -> bool {
    let of_two = || spec.fits(Link::Sigmoid, &LossParams::default()) && !fits_numbers(spec);
    spec.formulas().is_none() && (of_two() || spec.kind().fits(Link::Softmax))
}

/// Whether a metric is one of numbers.
fn fits_numbers(spec: &MetricSpec) -> bool {
    spec.fits(Link::Identity, &LossParams::default())
}

fn numbers(series: &Series, role: &str) -> PolarsResult<Vec<f64>> {
    Ok(Numbers::finite(series, role)?.column().to_f64())
}

/// Checks the type of what is predicted, one number a row.
fn check_one_number(field: &Field) -> PolarsResult<()> {
    match field.dtype() {
        DataType::Struct(_) => {
            Err(errors::mistyped(field.name(), "it is a struct, and the metric is of one number a row: take a field of it"))
        }
        _ => check_number_field(field, "a prediction"),
    }
}

/// Checks values, which are those of a column.
fn positive_values(series: &Series, values: &[f64], fits: impl Fn(f64) -> bool, what: &str) -> PolarsResult<()> {
    match values.iter().enumerate().find(|(_, x)| !fits(**x)) {
        None => Ok(()),
        Some((row, x)) => Err(errors::values(series.name(), format!("it is {x} in row {row}, and {what}"))),
    }
}

/// What rows weigh, the largest between 1 and 2.
fn weights(series: &Series) -> PolarsResult<Vec<f64>> {
    let mut weights = numbers(series, "a weight")?;
    positive_values(series, &weights, |w| w >= 0.0, "weights are not negative")?;
    let largest = weights.iter().fold(0.0, |a: f64, b| a.max(*b));
    if largest == 0.0 {
        return Err(errors::of_rows(RowsFault::Degenerate, format!("column `{}`: all rows weigh zero", series.name())));
    }
    // In two steps, of which neither leaves the range of floats.
    let exponent = -largest.log2().floor() as i32;
    let half = 2f64.powi(exponent / 2);
    let rest = 2f64.powi(exponent - exponent / 2);
    weights.par_iter_mut().with_min_len(1 << 16).for_each(|w| *w = *w * half * rest);
    Ok(weights)
}

/// `inputs`: one struct of roles.
fn value_of(inputs: &[Series], kwargs: &MetricKwargs) -> PolarsResult<f64> {
    let spec = metric_from_json(&kwargs.metric)?;
    let positive = kwargs.positive()?;
    let fields = Fields::new(&inputs[0])?;
    let needed = |role: &str, what: &str| fields.one(role)?.ok_or_else(|| errors::data(format!("there is no {what}")));
    let (target, predicted) = (needed("target", "target")?, needed("predicted", "prediction")?);
    let rows = target.len();
    let beside = ["weight", "group", "columns"].into_iter().map(|role| fields.all(role)).collect::<PolarsResult<Vec<_>>>()?;
    for column in [&predicted].into_iter().chain(beside.iter().flatten()) {
        if column.len() != rows {
            let text = format!("it has {} rows and the target `{}` has {rows}", column.len(), target.name());
            return Err(errors::column(column.name(), text));
        }
    }
    if rows == 0 {
        return Err(errors::of_rows(RowsFault::Degenerate, "there are no rows to measure"));
    }
    let weight = fields.one("weight")?.map(|series| weights(&series)).transpose()?;
    let groups = fields.one("group")?.map(|series| Ok::<_, PolarsError>(RowGroups::new(&categories::groups(&series)?))).transpose()?;
    if spec.reads_groups() && groups.is_none() {
        return Err(errors::data("parameter `group`: name the column that says which rows are ranked together"));
    }
    let columns = fields.all("columns")?;
    let columns = columns.iter().map(|s| Ok((s.name().to_string(), numbers(s, "a column that a metric reads")?)));
    let columns = columns.collect::<PolarsResult<Vec<(String, Vec<f64>)>>>()?;
    let Measured { scores, calls, target, link } = Measured::new(&spec, &target, &predicted, positive.as_ref())?;
    // The log loss is one metric to whoever asks, of however many classes.
    let spec = if spec.is_plain(MetricKind::Logloss) && link == Link::Softmax { MetricKind::Multiclass.into() } else { spec };
    let (calls, weight, groups) = (calls.as_deref(), weight.as_deref(), groups.as_ref());
    let params = LossParams::default();
    let rows = Rows { predicted: true, calls, weight, groups, named: &columns, ..Rows::new(&scores, link, &target, &params) };
    score(&spec, &rows).map_err(errors::compute)
}

fn metric(inputs: &[Series], kwargs: MetricKwargs) -> Answer {
    monitor::expression(&kwargs.function, inputs[0].len() >= LONG, || {
        let value = match on_all_threads(|| value_of(inputs, &kwargs)) {
            Err(error) if kwargs.on_error == OnError::Null && errors::rows_fault(&error).is_some() => None,
            value => Some(value?),
        };
        Ok(Float64Chunked::from_slice_options("metric".into(), &[value]).into_series())
    })
}

export!(metric, metric_field, MetricKwargs, Length::One);
