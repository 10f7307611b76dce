//! The learners that fit in batches: their parameters, what they do not do in batches, and their fits.

use super::passes::Passes;
use crate::fit::{FitKwargs, OnError, Wanted};
use crate::folds::{self, FoldsKwargs, InBatches};
use crate::linear::Rows;
use crate::schema::InputSchema;
use crate::{errors, forest, gbdt, linear};
use polars::prelude::*;
use serde::Deserialize;
use taiga_engine::dataset::BatchedTable;
use taiga_engine::device::DeviceSet;
use taiga_engine::learners::boosting::{BoostingParams, FitOptions};
use taiga_engine::learners::forest::params::Splitter;
use taiga_engine::learners::forest::{FitOptions as ForestOptions, ForestParams};
use taiga_engine::learners::linear::LinearParams;
use taiga_engine::spill::SpillFolder;

/// The learners that fit in batches, as functions are called.
#[derive(Clone, Copy, Deserialize)]
pub(super) enum Learner {
    #[serde(rename = "fit_gbdt")]
    Gbdt,
    #[serde(rename = "fit_forest")]
    Forest,
    #[serde(rename = "fit_sparse_lr")]
    SparseLr,
    #[serde(rename = "fit_folds")]
    FitFolds,
    #[serde(rename = "cross_validate")]
    CrossValidate,
    #[serde(rename = "search")]
    Search,
}

impl Learner {
    pub(super) fn function(self) -> &'static str {
        match self {
            Learner::Gbdt => "fit_gbdt",
            Learner::Forest => "fit_forest",
            Learner::SparseLr => "fit_sparse_lr",
            Learner::FitFolds => "fit_folds",
            Learner::CrossValidate => "cross_validate",
            Learner::Search => "search",
        }
    }
}

/// A learner's parameters.
pub(super) enum Params {
    Gbdt(Box<BoostingParams>),
    Forest(ForestParams),
    SparseLr(LinearParams),
    /// Those of each trial of a search, else of all folds' fits.
    Folds(Vec<BoostingParams>, Box<FoldsKwargs>),
}

impl Params {
    /// The parameters of a fit, held against the type of its input.
    pub(super) fn checked(learner: Learner, input: &DataType, kwargs: &FitKwargs, folds: Option<FoldsKwargs>) -> PolarsResult<Params> {
        let folds = || folds.map(Box::new).ok_or_else(|| errors::data("it is not told what to do with folds"));
        match learner {
            Learner::FitFolds | Learner::CrossValidate => Ok(Params::Folds(vec![folds::checked(input, kwargs)?], folds()?)),
            Learner::Search => {
                let folds = folds()?;
                Ok(Params::Folds(folds.trials(input)?, folds))
            }
            Learner::Gbdt => gbdt::checked(input, kwargs).map(|params| Params::Gbdt(Box::new(params))),
            Learner::Forest => forest::checked(input, kwargs).map(Params::Forest),
            Learner::SparseLr => linear::checked(input, kwargs).map(Params::SparseLr),
        }
    }

    pub(super) fn categorical(&self) -> &[String] {
        match self {
            Params::Gbdt(params) => &params.categorical,
            Params::Forest(params) => &params.categorical,
            Params::SparseLr(_) => &[],
            Params::Folds(params, _) => params.first().map_or(&[], |params| &params.categorical),
        }
    }

    pub(super) fn device(&self) -> &str {
        match self {
            Params::Gbdt(params) => &params.device,
            Params::Forest(params) => &params.device,
            Params::SparseLr(params) => &params.device,
            Params::Folds(params, _) => params.first().map_or("cpu", |params| &params.device),
        }
    }

    /// About what a fit keeps of each value that comes in batches, in bytes.
    pub(super) fn value_bytes(&self) -> u64 {
        match self {
            // Linear leaves read values.
            Params::Gbdt(params) if params.has_linear_leaves() => 1 + 8,
            Params::Gbdt(_) => 1,
            // The codes, and those of some folds' rows once more and as their fits keep them.
            Params::Folds(..) => 5,
            Params::Forest(_) => 2,
            Params::SparseLr(_) => 8,
        }
    }

    /// Fits to a table some of whose columns come in the batches of `passes`; the model's bytes.
    pub(super) fn fit(&self, passes: &Passes<'_>, spill: Option<&SpillFolder>) -> PolarsResult<Vec<u8>> {
        let Passes { parts, begun, .. } = passes;
        let (kwargs, wanted) = (&begun.kwargs, Wanted::Model);
        let table = BatchedTable::new(passes, begun.batched(), parts.target.len(), spill);
        let batches = (!table.batches().columns().is_empty()).then(|| table.batches());
        match self {
            Params::Gbdt(params) => {
                let options = FitOptions { batches, ..FitOptions::default() };
                let mut model = gbdt::fit_with(parts, BoostingParams::clone(params), kwargs, wanted, options)?;
                model.provenance.metadata = kwargs.metadata()?;
                Ok(model.to_bytes())
            }
            Params::Forest(params) => {
                let options = ForestOptions { batches, ..ForestOptions::default() };
                let mut forest = forest::fit_with(parts, params.clone(), kwargs, wanted, options)?;
                forest.provenance.metadata = kwargs.metadata()?;
                Ok(forest.to_bytes())
            }
            Params::SparseLr(params) => {
                let mut model = linear::fit_with(parts, params.clone(), kwargs, wanted, Rows::InBatches(passes, spill))?;
                model.provenance.metadata = kwargs.metadata()?;
                Ok(model.to_bytes())
            }
            Params::Folds(..) => Err(errors::data("folds have more than a model")),
        }
    }

    /// What a function of folds gives of a table some of whose columns come in the batches of `passes`.
    pub(super) fn fit_folds(&self, learner: Learner, passes: &Passes<'_>) -> PolarsResult<Series> {
        let Params::Folds(params, kwargs) = self else { return Err(errors::data("there are no folds")) };
        let parts = passes.parts;
        let table = BatchedTable::new(passes, passes.begun.batched(), parts.target.len(), None);
        let batches = (!table.batches().columns().is_empty()).then(|| table.batches());
        let pass = |visit: &mut dyn FnMut(usize, &[Series]) -> PolarsResult<()>| {
            batches.map_or(Ok(()), |batches| passes.again(&batches, visit)).map_err(errors::compute)
        };
        let source = batches.map(|batches| InBatches { batches, pass: &pass });
        match (learner, params.first()) {
            (Learner::FitFolds, Some(params)) => folds::models_of_rows(parts, params, kwargs, source),
            (Learner::CrossValidate, Some(params)) => folds::validated(parts, params, kwargs, source),
            _ => folds::searched(parts, params, kwargs, source),
        }
    }
}

/// What a fit is asked for that is not done in batches: an error's text, naming the parameter.
pub(super) fn problem(kwargs: &FitKwargs, params: &Params, fields: &InputSchema, init_model: bool) -> PolarsResult<Option<String>> {
    let not_yet =
        |name: &str, what: &str| Ok(Some(format!("parameter `{name}`: {what} is not fitted in batches yet: leave out `batches`")));
    if init_model {
        return not_yet("init_model", "what goes on from a model");
    }
    if let Params::Folds(params, _) = params
        && params.iter().any(BoostingParams::has_linear_leaves)
    {
        return not_yet("leaf", "what reads the values of the folds' rows after each tree, as \"linear\" does,");
    }
    if kwargs.snapshot.is_some() {
        return not_yet("snapshot", "what keeps its state");
    }
    if kwargs.collective.is_some() {
        return not_yet("collective", "a table that lies in several processes");
    }
    if kwargs.on_error == OnError::Constant {
        return not_yet("on_error", "\"constant\"");
    }
    if fields.has("row_key") {
        return not_yet("row_key", "a table in the order of its keys");
    }
    if let Params::Forest(ForestParams { splitter: splitter @ (Splitter::Exact | Splitter::Random), .. }) = params {
        let splitter = if *splitter == Splitter::Exact { "exact" } else { "random" };
        return not_yet("splitter", &format!("{splitter:?}, which ranks all values of a feature,"));
    }
    let device = params.device();
    let is_gpu = matches!(DeviceSet::parse(device).map_err(errors::compute)?, DeviceSet::Cuda(_));
    // Rows of sparse logistic regression, and codes of folds, are kept as they are, and then fitted as any.
    if is_gpu && !matches!(params, Params::SparseLr(_) | Params::Folds(..)) {
        return not_yet("device", &format!("{device:?}: a table on a GPU"));
    }
    Ok(None)
}
