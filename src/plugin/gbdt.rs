//! `fit_gbdt`: a table in, a model's bytes out.

use crate::columns::{Feature, Numbers};
use crate::errors;
use crate::fit::{Parts, Wanted, fit_expression};
use crate::monitor::Watch;
use crate::schema::{InputSchema, is_known};
use crate::target::{TargetColumn, is_of_classes};
use crate::threads::FitThreads;
use crate::warn;
use polars::prelude::*;
use taiga_engine::dataset::Input;
use taiga_engine::learners::boosting;
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::schema::TargetKind;
use taiga_engine::learners::boosting::{BoostingParams, schema};
use taiga_engine::losses::LossKind;
use taiga_engine::provenance::Provenance;

/// The parameter that says what a target must be, as users write it.
fn by(params: &BoostingParams) -> String {
    format!("loss={}", serde_json::to_string(&params.loss).unwrap_or_default())
}

/// Checks what names and types tell.
fn check(fields: &InputSchema, params: &BoostingParams) -> PolarsResult<()> {
    if fields.features.is_empty() {
        return Err(errors::data("there are no features"));
    }
    let types = fields.check(&params.categorical)?;
    let (name, dtype) = (fields.target.name(), fields.target.dtype());
    if !is_known(dtype) {
        return Ok(());
    }
    let target = match is_of_classes(name, dtype, params.loss, &by(params))? {
        false => TargetKind::Numbers,
        true if params.loss == LossKind::Logloss || *dtype == DataType::Boolean => TargetKind::Two,
        true => TargetKind::Classes,
    };
    let (baseline, held_out) = (fields.all("baseline").len(), fields.has("eval"));
    schema::check(&fields.typed(&types), target, baseline, held_out, params).map_err(errors::compute)
}

/// Fits a model on one table.
fn fit(parts: &Parts, mut params: BoostingParams, progress: Option<bool>, wanted: Wanted) -> PolarsResult<Model> {
    let target = TargetColumn::new(&parts.target, params.loss, &by(&params), params.positive.as_ref())?;
    if params.loss == LossKind::Auto {
        warn::numbers_for_classes("fit_gbdt", &parts.target, "loss=\"logloss\"", "loss=\"rmse\"")?;
    }
    let features = parts.features(&params.categorical)?;
    let weight = parts.weight()?;
    let baseline = parts.all("baseline")?;
    let baseline = baseline.iter().map(|s| parts.check_length(s).and_then(|()| Numbers::finite(s, "a baseline")));
    let baseline = baseline.collect::<PolarsResult<Vec<_>>>()?;
    let held_out = parts.held_out(params.needing_held_out().next(), wanted)?;
    let threads = FitThreads::take(params.n_threads, parts.target.len() * features.len());
    params.n_threads = Some(threads.count());
    let input = Input {
        features: features.iter().map(Feature::column).collect(),
        target: target.target(),
        target_name: parts.target.name().to_string(),
        weight: weight.as_ref().map(Numbers::column),
        baseline: baseline.iter().map(Numbers::column).collect(),
        held_out: held_out.as_deref(),
    };
    let fitted = match wanted {
        Wanted::Model => boosting::fit(&input, &params, &Watch::new("fit_gbdt", "rounds", progress)),
        Wanted::Constant => boosting::constant(&input, &params),
    };
    let mut model = fitted.map_err(errors::compute)?;
    model.provenance = Provenance::new(target.label_type(), parts.computed.iter().copied());
    Ok(model)
}

fit_expression!(fit_gbdt, BoostingParams);
