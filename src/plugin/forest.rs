//! `fit_forest`: a table in, a random forest's bytes out.

use crate::columns::{Feature, Numbers};
use crate::errors;
use crate::fit::{self, FitKwargs, Parts, Wanted, guarded_fit, model_field};
use crate::monitor::Watch;
use crate::target::TargetData;
use crate::threads::FitThreads;
use crate::warn;
use polars::prelude::*;
use pyo3_polars::derive::polars_expr;
use taiga_engine::boosting::params::LossKind;
use taiga_engine::forest::params::Criterion;
use taiga_engine::forest::{self, Forest, ForestParams, Input};
use taiga_engine::provenance::Provenance;

/// Fits a forest on one table.
fn fit(parts: &Parts, mut params: ForestParams, progress: Option<bool>, wanted: Wanted) -> PolarsResult<Forest> {
    if parts.features.is_empty() {
        return Err(errors::data("there are no features"));
    }
    let (loss, criterion) = match params.criterion {
        Criterion::Auto => (LossKind::Auto, "auto"),
        Criterion::Gini => (LossKind::Multiclass, "gini"),
        Criterion::Entropy => (LossKind::Multiclass, "entropy"),
        Criterion::SquaredError => (LossKind::Rmse, "squared_error"),
        Criterion::Poisson => (LossKind::Poisson, "poisson"),
    };
    let target = TargetData::new(&parts.target, loss, &format!("criterion={criterion:?}"), params.positive.as_ref())?;
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
        Wanted::Model => forest::fit(&input, &params, &Watch::new("fit_forest", "trees", progress)),
        Wanted::Constant => forest::constant(&input, &params),
    };
    let mut forest = fitted.map_err(errors::compute)?;
    forest.provenance = Provenance::new(target.label_type(), parts.computed.iter().copied());
    Ok(forest)
}

/// The forest of the struct that [`Parts`] describes, as one Binary value.
#[polars_expr(output_type_func=model_field)]
fn fit_forest(inputs: &[Series], kwargs: FitKwargs) -> PolarsResult<Series> {
    guarded_fit("fit_forest", || {
        let params = ForestParams::from_json(&kwargs.params()?).map_err(errors::compute)?;
        let parts = Parts::new(inputs)?;
        let forest = kwargs.on_error.apply(&parts.target, |wanted| fit(&parts, params.clone(), kwargs.progress, wanted))?;
        Ok(fit::model_series(forest.map(|forest| forest.to_bytes())))
    })
}
