//! `fit_forest`: a table in, a random forest's bytes out.

use crate::columns::{Feature, Numbers};
use crate::errors;
use crate::fit::{FitKwargs, Parts, Wanted, fit_expression};
use crate::monitor::Watch;
use crate::row_key::Description;
use crate::schema::{InputSchema, is_known};
use crate::snapshot::SnapshotFile;
use crate::target::{TargetColumn, is_of_classes};
use crate::threads::FitThreads;
use crate::warn;
use polars::prelude::*;
use taiga_engine::dataset::Snapshots;
use taiga_engine::learners::forest;
use taiga_engine::learners::forest::params::Criterion;
use taiga_engine::learners::forest::{FitOptions, Forest, ForestParams, Input};
use taiga_engine::losses::LossKind;

/// The loss that wants a target as the criterion does, and the parameter as users write it.
fn loss_of(criterion: Criterion) -> (LossKind, &'static str) {
    match criterion {
        Criterion::Auto => (LossKind::Auto, "criterion=\"auto\""),
        Criterion::Gini => (LossKind::Multiclass, "criterion=\"gini\""),
        Criterion::Entropy => (LossKind::Multiclass, "criterion=\"entropy\""),
        Criterion::SquaredError => (LossKind::Rmse, "criterion=\"squared_error\""),
        Criterion::Poisson => (LossKind::Poisson, "criterion=\"poisson\""),
    }
}

/// Checks what names and types tell.
fn check(fields: &InputSchema, params: &ForestParams) -> PolarsResult<()> {
    if fields.features.is_empty() {
        return Err(errors::data("there are no features"));
    }
    let types = fields.check(&params.categorical)?;
    params.check_features(&fields.typed(&types)).map_err(errors::compute)?;
    let (name, dtype) = (fields.target.name(), fields.target.dtype());
    if !is_known(dtype) {
        return Ok(());
    }
    let (loss, by) = loss_of(params.criterion);
    params.check_target(is_of_classes(name, dtype, loss, by)?).map_err(errors::compute)
}

/// Fits a forest on one table, or with other processes on one whose rows are in all of them.
fn fit(parts: &Parts, params: ForestParams, kwargs: &FitKwargs, wanted: Wanted) -> PolarsResult<Forest> {
    let (categorical, given) = (params.categorical.clone(), params.clone());
    let description = || Description::new("fit_forest", &given.described().to_json(), None);
    kwargs.with_others(parts, wanted, &categorical, description, |parts, own| {
        fit_with(parts, params, kwargs, wanted, FitOptions { own, ..FitOptions::default() })
    })
}

/// Fits a forest on one table; `options`: which rows of it are this process's own, and what comes in batches.
///
/// # Errors
/// What is wrong with the table, and the engine's.
pub fn fit_with(
    parts: &Parts,
    mut params: ForestParams,
    kwargs: &FitKwargs,
    wanted: Wanted,
    options: FitOptions<'_>,
) -> PolarsResult<Forest> {
    let (loss, by) = loss_of(params.criterion);
    let target = TargetColumn::new(&parts.target, loss, by, params.positive.as_ref())?;
    if params.criterion == Criterion::Auto {
        warn::numbers_for_classes("fit_forest", &parts.target, "criterion=\"gini\"", "criterion=\"squared_error\"")?;
    }
    let features = parts.features(&params.categorical)?;
    let weight = parts.weight()?;
    let threads = FitThreads::take(params.n_threads, parts.target.len() * features.len());
    params.n_threads = Some(threads.count());
    let input = Input {
        features: features.iter().map(Feature::column).collect(),
        target: target.target(),
        target_name: parts.target.name().to_string(),
        weight: weight.as_ref().map(Numbers::column),
    };
    let fitted = match wanted {
        Wanted::Model => {
            let watch = Watch::new("fit_forest", "trees", kwargs.progress);
            let snapshots = SnapshotFile::of(kwargs, options.own)?;
            let snapshots = snapshots.as_ref().map(|file| file as &dyn Snapshots);
            forest::fit_with(&input, &params, &FitOptions { snapshots, ..options }, &watch)
        }
        Wanted::Constant => forest::constant(&input, &params),
    };
    let mut forest = fitted.map_err(errors::compute)?;
    forest.provenance = parts.provenance(target.label_type(), vec![]);
    Ok(forest)
}

fit_expression!(fit_forest, ForestParams);
