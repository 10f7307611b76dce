//! `fit_gbdt`: a table in, a model's bytes out.

use crate::columns::{self, Feature, Numbers};
use crate::errors::{self, guarded};
use crate::monitor::Watch;
use crate::target::TargetData;
use crate::threads::default_threads;
use polars::prelude::*;
use pyo3_polars::derive::polars_expr;
use serde::Deserialize;
use std::collections::HashSet;
use taiga_engine::boosting::{self, BoostingParams, Input};
use taiga_engine::model::Model;

/// Below so many values a second thread costs more than it gives. Threads never change a model.
const SERIAL_BELOW: usize = 1 << 14;

#[derive(Deserialize)]
struct FitKwargs {
    /// [`BoostingParams`] as a JSON object.
    params: String,
    /// A progress bar: always, never, or when it seems useful.
    progress: Option<bool>,
}

/// The fields of the input that are not features start with this.
const ROLE: &str = "__taiga_";

/// The struct that Python makes of everything that a fit reads.
///
/// ```text
/// { a, b, …, __taiga_target: {y}, __taiga_weight: {w}, __taiga_baseline: {b0, …}, __taiga_eval: {e} }
/// ```
///
/// One struct, because Polars then runs the groups of a `group_by` in parallel; structs inside,
/// because target and weight then keep their names and can't meet a feature's. Nothing is copied
/// as long as the columns have their chunk borders in the same places; else Polars rechunks them.
struct Parts {
    target: Series,
    features: Vec<Series>,
    weight: Option<Series>,
    baseline: Vec<Series>,
    held_out: Option<Series>,
}

impl Parts {
    fn new(inputs: &[Series]) -> PolarsResult<Self> {
        let (mut roles, features): (Vec<Series>, Vec<Series>) =
            inputs[0].struct_()?.fields_as_series().into_iter().partition(|s| s.name().starts_with(ROLE));
        let mut part = |name: &str| -> PolarsResult<Vec<Series>> {
            match roles.iter().position(|s| s.name().strip_prefix(ROLE) == Some(name)) {
                Some(at) => Ok(roles.swap_remove(at).struct_()?.fields_as_series()),
                None => Ok(vec![]),
            }
        };
        let one = |name: &str, mut series: Vec<Series>| match series.len() {
            0 => Ok(None),
            1 => Ok(series.pop()),
            n => Err(errors::data(format!("`{name}` is one column, not {n}"))),
        };
        Ok(Parts {
            target: one("target", part("target")?)?.ok_or_else(|| errors::data("there is no target"))?,
            features: columns::unnest(&features)?,
            weight: one("weight", part("weight")?)?,
            baseline: columns::unnest(&part("baseline")?)?,
            held_out: one("eval", part("eval")?)?,
        })
    }

    /// What can be wrong with the columns before their values are looked at.
    fn check(&self) -> PolarsResult<()> {
        let target = self.target.name();
        if self.features.is_empty() {
            return Err(errors::data("there are no features"));
        }
        let mut names = HashSet::new();
        for feature in &self.features {
            if !names.insert(feature.name().as_str()) {
                return Err(errors::column(feature.name(), "this feature is given twice"));
            }
            if feature.name() == target && feature.dtype() == self.target.dtype() && feature.equals_missing(&self.target) {
                return Err(errors::column(
                    target,
                    format!("the target is among the features; leave it out (pl.exclude({:?}))", target.as_str()),
                ));
            }
        }
        if self.target.is_empty() {
            return Err(errors::data("the table has no rows"));
        }
        Ok(())
    }
}

/// The rows that are held out, as the engine wants them.
fn held_out(series: &Series, params: &BoostingParams) -> PolarsResult<Option<Vec<bool>>> {
    let name = series.name();
    if *series.dtype() != DataType::Boolean {
        return Err(errors::column(name, format!("its type is {}; `eval` marks held-out rows by a Boolean", series.dtype())));
    }
    if series.null_count() > 0 {
        return Err(errors::column(name, format!("`eval` is null in {} of {} rows", series.null_count(), series.len())));
    }
    let marks: Vec<bool> = series.bool()?.iter().map(|b| b == Some(true)).collect();
    let n = marks.iter().filter(|b| **b).count();
    if n == marks.len() {
        return Err(errors::column(name, format!("`eval` holds out all {n} rows, and none are left to train on")));
    }
    if n == 0 && params.early_stopping.is_some() {
        return Err(errors::column(name, "`eval` holds out no row, and early_stopping needs some"));
    }
    Ok((n > 0).then_some(marks))
}

/// Fits a model on one table.
fn fit(parts: &Parts, params: &BoostingParams, progress: Option<bool>) -> PolarsResult<Model> {
    parts.check()?;
    let target = TargetData::new(&parts.target, params.loss)?;
    let names: Vec<&str> = parts.features.iter().map(|s| s.name().as_str()).collect();
    if let Some(unknown) = params.categorical.iter().find(|c| !names.contains(&c.as_str())) {
        return Err(errors::data(format!(
            "parameter `categorical`: there is no feature `{unknown}`; the features are {}",
            names.join(", ")
        )));
    }
    let feature = |s: &Series| Feature::new(s, params.categorical.iter().any(|c| c == s.name().as_str()));
    let features = parts.features.iter().map(feature).collect::<PolarsResult<Vec<_>>>()?;
    let weight = parts.weight.as_ref().map(|s| Numbers::finite(s, "a weight")).transpose()?;
    let baseline = parts.baseline.iter().map(|s| Numbers::finite(s, "a baseline")).collect::<PolarsResult<Vec<_>>>()?;
    let held_out = match &parts.held_out {
        Some(series) => held_out(series, params)?,
        None => None,
    };
    let rows = parts.target.len();
    let others = weight.iter().chain(&baseline).map(|c| (c.name(), c.len()));
    for (name, len) in
        features.iter().map(|f| (f.name(), f.len())).chain(others).chain(parts.held_out.iter().map(|s| (s.name().as_str(), s.len())))
    {
        if len != rows {
            return Err(errors::column(name, format!("it has {len} rows and the target `{}` has {rows}", parts.target.name())));
        }
    }

    let mut params = params.clone();
    if params.n_threads.is_none() {
        let threads = if rows * features.len() < SERIAL_BELOW { 1 } else { default_threads().min(1024) };
        params.n_threads = Some(threads as u32);
    }
    let input = Input {
        features: features.iter().map(Feature::column).collect(),
        target: target.target(),
        target_name: parts.target.name().to_string(),
        weight: weight.as_ref().map(Numbers::column),
        baseline: baseline.iter().map(Numbers::column).collect(),
        held_out: held_out.as_deref(),
    };
    boosting::fit(&input, &params, &Watch::new(progress)).map_err(errors::compute)
}

fn model_field(_: &[Field]) -> PolarsResult<Field> {
    Ok(Field::new("model".into(), DataType::Binary))
}

/// The model of the struct that the module's [`Parts`] describes, as one Binary value.
#[polars_expr(output_type_func=model_field)]
fn fit_gbdt(inputs: &[Series], kwargs: FitKwargs) -> PolarsResult<Series> {
    guarded("fit_gbdt", || {
        let params: serde_json::Value = serde_json::from_str(&kwargs.params).map_err(|e| errors::data(format!("params: {e}")))?;
        let params = BoostingParams::from_json(&params).map_err(errors::compute)?;
        let model = fit(&Parts::new(inputs)?, &params, kwargs.progress)?;
        Ok(BinaryChunked::from_slice("model".into(), &[model.to_bytes()]).into_series())
    })
}
