//! `fit_sparse_lr`: lists of features in, the bytes of a sparse logistic regression out.

use crate::columns::{Feature, Numbers};
use crate::errors;
use crate::fit::{FitKwargs, Parts, Wanted, fit_expression};
use crate::held_out::{self, HeldOut};
use crate::lists::{self, Lists};
use crate::monitor::Watch;
use crate::row_key::Description;
use crate::schema::{InputSchema, is_known};
use crate::snapshot::SnapshotFile;
use crate::target::{TargetColumn, is_of_classes};
use crate::threads::FitThreads;
use crate::together::Together;
use polars::prelude::*;
use taiga_engine::dataset::{OwnRows, Snapshots};
use taiga_engine::learners::linear;
use taiga_engine::learners::linear::schema::ListColumns;
use taiga_engine::learners::linear::{FitOptions, Input, LinearModel, LinearParams, RowBatches};
use taiga_engine::losses::LossKind;
use taiga_engine::spill::SpillFolder;

/// Whose target's classes are looked for.
const BY: &str = "a logistic regression";

/// Checks what names and types tell.
fn check(fields: &InputSchema, params: &LinearParams) -> PolarsResult<()> {
    let types = fields.check(&[])?;
    held_out::check(fields, false)?;
    let (name, dtype) = (fields.target.name(), fields.target.dtype());
    if is_known(dtype) {
        is_of_classes(name, dtype, LossKind::Multiclass, BY)?;
    }
    let (indices, values) = (fields.one("indices")?, fields.one("values")?);
    if indices.iter().chain(&values).any(|f| !is_known(f.dtype())) {
        return Ok(());
    }
    let items = indices.as_ref().map(|indices| lists::check(indices, values.as_ref())).transpose()?;
    let sparse = indices.as_ref().zip(items).map(|(field, items)| ListColumns {
        features: field.name(),
        values: values.as_ref().map(|field| field.name().as_str()),
        hold_texts: items.holds_text(),
    });
    linear::schema::check(&fields.typed(&types), sparse, *dtype == DataType::Boolean, fields.has("eval"), params).map_err(errors::compute)
}

/// Fits a model on one table, or with other processes on one whose rows are in all of them.
fn fit(parts: &Parts, params: LinearParams, kwargs: &FitKwargs, wanted: Wanted) -> PolarsResult<LinearModel> {
    if kwargs.collective.as_ref().is_some_and(Together::has_others) {
        // Before anybody is waited for.
        params.check_together().map_err(errors::compute)?;
    }
    let given = params.clone();
    let description = || Description::new("fit_sparse_lr", &given.described().to_json(), None);
    kwargs.with_others(parts, wanted, &[], description, |parts, own| fit_with(parts, params, kwargs, wanted, Rows::Here(own)))
}

/// Where the lists and dense columns of a table are.
pub enum Rows<'a> {
    /// In the table; these rows of it, where the others are in other processes.
    Here(Option<OwnRows<'a>>),
    /// In batches, kept in files of a folder if there is one.
    InBatches(&'a dyn RowBatches, Option<&'a SpillFolder>),
}

/// Fits a model on one table, whose lists and dense columns are where `rows` says.
///
/// # Errors
/// What is wrong with the table, and the engine's.
pub fn fit_with(parts: &Parts, mut params: LinearParams, kwargs: &FitKwargs, wanted: Wanted, rows: Rows<'_>) -> PolarsResult<LinearModel> {
    let target = TargetColumn::new(&parts.target, LossKind::Multiclass, BY, params.positive.as_ref())?;
    let dense = parts.features(&[])?;
    let list = |role: &str| {
        let series = parts.one(role)?;
        series.iter().try_for_each(|series| parts.check_own_length(series)).map(|()| series)
    };
    let sparse = Lists::of(list)?;
    let weight = parts.weight()?;
    let held_out = HeldOut::new(parts, params.needing_held_out().next(), wanted)?.map(|h| h.marks);
    // A row of lists is about as much work as 64 numbers.
    let threads = FitThreads::take(params.n_threads, parts.target.len() * (dense.len() + 64));
    params.n_threads = Some(threads.count());
    let input = Input {
        sparse: sparse.as_ref().map(Lists::rows),
        dense: dense.iter().map(Feature::column).collect(),
        target: target.target(),
        target_name: parts.target.name().to_string(),
        weight: weight.as_ref().map(Numbers::column),
        held_out: held_out.as_deref(),
    };
    let fitted = match wanted {
        Wanted::Model => {
            let watch = Watch::new("fit_sparse_lr", "passes", kwargs.progress);
            match rows {
                Rows::Here(own) => {
                    let snapshots = SnapshotFile::of(kwargs, own)?;
                    let snapshots = snapshots.as_ref().map(|file| file as &dyn Snapshots);
                    linear::fit_with(&input, &params, &FitOptions { own, snapshots }, &watch)
                }
                Rows::InBatches(source, spill) => linear::fit_in_batches(&input, &params, source, spill, &watch),
            }
        }
        Wanted::Constant => linear::constant(&input, &params),
    };
    let mut model = fitted.map_err(errors::compute)?;
    // In the order of `LinearModel::column_names`; values inside structs come with their features.
    let mut computed = parts.computed_of("indices")?;
    if model.sparse.as_ref().is_some_and(|sparse| sparse.values.is_some()) {
        computed.extend(parts.computed_of("values")?);
    }
    model.provenance = parts.provenance(target.label_type(), computed);
    Ok(model)
}

fit_expression!(fit_sparse_lr, LinearParams);
