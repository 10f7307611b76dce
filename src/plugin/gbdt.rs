//! `fit_gbdt`: a table in, a model's bytes out.

use crate::categories;
use crate::columns::{Feature, Numbers};
use crate::errors;
use crate::fit::{FitKwargs, Parts, Wanted, fit_expression};
use crate::held_out::{self, HeldOut};
use crate::monitor::Watch;
use crate::order;
use crate::row_key::Description;
use crate::schema::{InputSchema, is_known};
use crate::several::{self, SeveralTargets};
use crate::snapshot::SnapshotFile;
use crate::target::{TargetColumn, is_of_classes};
use crate::threads::FitThreads;
use crate::times::{self, TIMES, TimeColumns};
use crate::warn;
use polars::prelude::*;
use std::borrow::Cow;
use taiga_engine::column::FeatureType;
use taiga_engine::dataset::positions::Positions;
use taiga_engine::dataset::{Evaluation, Input, LossColumns, Snapshots};
use taiga_engine::learners::boosting;
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::schema::{GivenColumns, TargetKind};
use taiga_engine::learners::boosting::{BoostingParams, FitOptions, schema};
use taiga_engine::losses::LossKind;
use taiga_engine::provenance::LabelType;

/// The parameter that says what a target must be, as users write it.
fn by(params: &BoostingParams) -> String {
    format!("loss={}", serde_json::to_string(&params.loss).unwrap_or_default())
}

/// Checks what names and types tell.
fn check(fields: &InputSchema, params: &BoostingParams) -> PolarsResult<()> {
    check_given(fields, params, given(fields))
}

/// Checks what names and types tell of a fit that is given such columns.
pub fn check_given(fields: &InputSchema, params: &BoostingParams, given: GivenColumns) -> PolarsResult<()> {
    if fields.features.is_empty() {
        return Err(errors::data("there are no features"));
    }
    let types = fields.check(&params.categorical)?;
    held_out::check(fields, true)?;
    if let Some(by) = fields.one("order_by")?.filter(|by| is_known(by.dtype())) {
        order::check(by.name(), by.dtype())?;
    }
    let (name, dtype) = (fields.target.name(), fields.target.dtype());
    if !is_known(dtype) {
        return Ok(());
    }
    if let Some(loss) = several::loss_of(name, dtype, params.loss)? {
        return check_several(fields, &types, params, loss, &given);
    }
    let target = match is_of_classes(name, dtype, params.loss, &by(params))? {
        false => TargetKind::Numbers,
        true if params.loss.is_for_two_classes() || *dtype == DataType::Boolean => TargetKind::Two,
        true => TargetKind::Classes,
    };
    if let Some(group) = fields.one("group")?
        && is_known(group.dtype())
    {
        categories::check_group_type(group.name(), group.dtype())?;
    }
    if let Some(position) = fields.one("position")?
        && is_known(position.dtype())
    {
        categories::check_position_type(position.name(), position.dtype())?;
    }
    for role in TIMES {
        if let Some(field) = fields.one(role)?.filter(|field| is_known(field.dtype())) {
            times::check_type(role, field.name(), field.dtype())?;
        }
    }
    schema::check(&fields.typed(&types), target, &given, params).map_err(errors::compute)
}

/// Returns which columns there are beside features and target.
pub fn given(fields: &InputSchema) -> GivenColumns {
    GivenColumns {
        baseline: fields.all("baseline").len(),
        held_out: fields.has("eval"),
        groups: fields.has("group"),
        positions: fields.has("position"),
        times: TIMES.iter().any(|role| fields.has(role)),
        order: fields.has("order_by"),
    }
}

/// Checks what names and types tell of a fit of several targets.
fn check_several(
    fields: &InputSchema,
    types: &[FeatureType],
    params: &BoostingParams,
    loss: LossKind,
    given: &GivenColumns,
) -> PolarsResult<()> {
    // How many items lists have is told by rows; a baseline has a column for each.
    let names = several::names_of(fields.target.dtype()).unwrap_or_else(|| (0..given.baseline.max(1)).map(|k| k.to_string()).collect());
    let params = BoostingParams { loss, targets: Some(names), ..params.clone() };
    schema::check(&fields.typed(types), TargetKind::Numbers, given, &params).map_err(errors::compute)
}

/// The table of a fit, read.
pub struct GivenTable<'p> {
    /// The parameters that go with it.
    pub params: BoostingParams,
    target_name: &'p str,
    target: TargetColumn,
    held_out: Option<HeldOut>,
    features: Vec<Feature>,
    weight: Option<Numbers>,
    baseline: Vec<Numbers>,
    of_loss: Vec<Numbers>,
    of_metrics: Vec<Numbers>,
    positions: Option<Positions<'static>>,
    groups: Option<Vec<u32>>,
    times: TimeColumns,
    order: Option<Vec<u32>>,
    /// The fit's own, while it works.
    _threads: FitThreads,
}

/// Returns the parameters with the loss that several targets of such a type have, where it is left open.
///
/// # Errors
/// For types that no target has, and labels under another loss.
pub fn resolved(target: &Series, params: BoostingParams) -> PolarsResult<BoostingParams> {
    let several = several::loss_of(target.name(), target.dtype(), params.loss)?;
    Ok(BoostingParams { loss: several.unwrap_or(params.loss), ..params })
}

impl<'p> GivenTable<'p> {
    /// Reads the table of a fit.
    ///
    /// # Errors
    /// What is wrong with it, naming the column.
    pub fn new(parts: &'p Parts, mut params: BoostingParams, function: &'static str, wanted: Wanted) -> PolarsResult<GivenTable<'p>> {
        let held_out = HeldOut::new(parts, params.needing_held_out().next(), wanted)?;
        let marks = held_out.as_ref().map(|h| h.marks.as_slice());
        let several = several::loss_of(parts.target.name(), parts.target.dtype(), params.loss)?;
        let target = match several {
            Some(loss) => {
                params.loss = loss;
                TargetColumn::Several(SeveralTargets::new(&parts.target, loss, marks, None)?)
            }
            None => TargetColumn::new(&parts.target, params.loss, &by(&params), params.positive.as_ref())?,
        };
        if params.loss == LossKind::Auto && several.is_none() {
            warn::numbers_for_classes(function, &parts.target, "loss=\"logloss\"", "loss=\"rmse\"")?;
        }
        let features = parts.features(&params.categorical)?;
        let weight = parts.weight()?;
        let baseline = parts.all("baseline")?;
        let baseline = baseline.iter().map(|s| parts.check_length(s).and_then(|()| Numbers::finite(s, "a baseline")));
        let baseline = baseline.collect::<PolarsResult<Vec<_>>>()?;
        let group = parts.one("group")?;
        let of_loss = parts.all("loss_columns")?;
        let of_loss = of_loss.iter().map(|s| parts.check_length(s).and_then(|()| Numbers::finite(s, "a column that a loss reads")));
        let of_loss = of_loss.collect::<PolarsResult<Vec<_>>>()?;
        let of_metrics = parts.all("metric_columns")?;
        let of_metrics = of_metrics.iter().map(|s| parts.check_length(s).and_then(|()| Numbers::feature(s)));
        let of_metrics = of_metrics.collect::<PolarsResult<Vec<_>>>()?;
        let position = parts.one("position")?;
        let positions = position.as_ref().map(|s| parts.check_length(s).and_then(|()| categories::positions(s))).transpose()?;
        let groups = group.as_ref().map(|s| parts.check_length(s).and_then(|()| categories::groups(s))).transpose()?;
        let times = TimeColumns::new(|role| parts.one(role)?.map(|s| parts.check_length(&s).map(|()| s)).transpose())?;
        let order = parts.one("order_by")?.map(|s| parts.check_length(&s).and_then(|()| order::places(&s))).transpose()?;
        let threads = FitThreads::take(params.n_threads, parts.target.len() * features.len());
        params.n_threads = Some(threads.count());
        Ok(GivenTable {
            params,
            target_name: parts.target.name().as_str(),
            target,
            held_out,
            features,
            weight,
            baseline,
            of_loss,
            of_metrics,
            positions,
            groups,
            times,
            order,
            _threads: threads,
        })
    }

    /// Returns the table as the engine takes it.
    pub fn input(&self) -> Input<'_> {
        Input {
            features: self.features.iter().map(Feature::column).collect(),
            target: self.target.target(),
            target_name: self.target_name.to_string(),
            weight: self.weight.as_ref().map(Numbers::column),
            baseline: self.baseline.iter().map(Numbers::column).collect(),
            held_out: self.held_out.as_ref().map(|h| h.marks.as_slice()),
            evaluation: Evaluation {
                sets: self.held_out.as_ref().and_then(|h| h.sets.clone()),
                columns: self.of_metrics.iter().map(Numbers::column).collect(),
            },
            loss_columns: LossColumns {
                groups: self.groups.as_deref().map(Cow::Borrowed),
                positions: self.positions.clone(),
                numbers: self.of_loss.iter().map(Numbers::column).collect(),
                times: self.times.times(),
            },
            order: self.order.as_deref().map(Cow::Borrowed),
        }
    }

    /// Returns the type of its labels.
    pub fn label_type(&self) -> Option<LabelType> {
        self.target.label_type()
    }
}

/// Reads the table of a fit, and gives it to `work` with the parameters that go with it and the type of its labels.
pub fn read<R>(
    parts: &Parts,
    params: BoostingParams,
    function: &'static str,
    wanted: Wanted,
    work: impl FnOnce(&Input<'_>, &BoostingParams, Option<LabelType>) -> PolarsResult<R>,
) -> PolarsResult<R> {
    let table = GivenTable::new(parts, params, function, wanted)?;
    work(&table.input(), &table.params, table.label_type())
}

/// Fits a model on one table, or with other processes on one whose rows are in all of them.
fn fit(parts: &Parts, params: BoostingParams, kwargs: &FitKwargs, wanted: Wanted) -> PolarsResult<Model> {
    let (categorical, given) = (params.categorical.clone(), params.clone());
    let description = || Description::new("fit_gbdt", &given.described().to_json(), None);
    kwargs.with_others(parts, wanted, &categorical, description, |parts, own| {
        fit_with(parts, params, kwargs, wanted, FitOptions { own, ..FitOptions::default() })
    })
}

/// Fits a model on one table; `options`: which rows of it are this process's own, and what comes in batches.
///
/// # Errors
/// What is wrong with the table, and the engine's.
pub fn fit_with(parts: &Parts, params: BoostingParams, kwargs: &FitKwargs, wanted: Wanted, options: FitOptions<'_>) -> PolarsResult<Model> {
    read(parts, params, "fit_gbdt", wanted, |input, params, labels| {
        let fitted = match wanted {
            Wanted::Model => {
                let watch = Watch::new("fit_gbdt", "rounds", kwargs.progress).telling(kwargs.verbose, kwargs.callback);
                let init_model = parts.init_model.as_deref().map(Model::from_bytes).transpose();
                let init_model = init_model.map_err(|e| errors::data(format!("parameter `init_model`: {e}")))?;
                let snapshots = SnapshotFile::of(kwargs, options.own)?;
                let snapshots = snapshots.as_ref().map(|file| file as &dyn Snapshots);
                boosting::fit_with(input, params, &FitOptions { init_model: init_model.as_ref(), snapshots, ..options }, &watch)
            }
            Wanted::Constant => boosting::constant(input, params),
        };
        let mut model = fitted.map_err(errors::compute)?;
        model.provenance = parts.provenance(labels, vec![]);
        Ok(model)
    })
}

fit_expression!(fit_gbdt, BoostingParams);
