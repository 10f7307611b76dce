//! `fit_folds`, `cross_validate`, `search`: a table and how it is divided in, models that have not seen their rows, or what these are worth,
//! out.

use crate::columns::unnest;
use crate::export::{Answer, Length, export};
use crate::fit::{FitKwargs, Parts, Wanted};
use crate::gbdt::{check_given, given, read};
use crate::monitor::{self, Watch};
use crate::predict::measured::{Call, metric_of};
use crate::predict::score::values_of;
use crate::row_key::{Keyed, has_key};
use crate::schema::{InputSchema, is_known};
use crate::{categories, errors, fit};
use polars::prelude::*;
use serde::Deserialize;
use std::collections::HashMap;
use taiga_engine::dataset::folds::{Division, Folds, NO_FOLD};
use taiga_engine::dataset::row_groups::RowGroups;
use taiga_engine::dataset::{Batches, Input};
use taiga_engine::device::DeviceSet;
use taiga_engine::error::RowsFault;
use taiga_engine::learners::boosting::coded_table::CodedTable;
use taiga_engine::learners::boosting::cross_validation::{FoldModel, coded};
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::schema::GivenColumns;
use taiga_engine::learners::boosting::search::{Halving, Trial};
use taiga_engine::learners::boosting::{self, BoostingParams};
use taiga_engine::metrics::MetricSpec;
use taiga_engine::model::fitted::FittedModel;
use taiga_engine::parallel::pools;
use taiga_engine::provenance::LabelType;

/// How rows are divided.
#[derive(Deserialize)]
struct DivisionKwargs {
    by: By,
    /// How many parts there are to be, where that is not told by a column.
    parts: u32,
    seed: u64,
}

/// What decides where a row goes.
#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum By {
    /// Nothing: a draw, of whole groups where their rows are ranked.
    Parts,
    /// A column that has the same value in all rows of a fold.
    Column,
    /// A column that tells groups, none of which is divided.
    Group,
    /// A column of times, or the order of the rows.
    Time,
}

/// What Python says of folds.
#[derive(Deserialize)]
pub struct FoldsKwargs {
    fit: FitKwargs,
    division: DivisionKwargs,
    #[serde(default)]
    measured: MeasuredKwargs,
    /// Whether the models of a cross-validation come along.
    #[serde(default)]
    models: bool,
    /// Of a search the parameters of each trial as JSON.
    #[serde(default)]
    trials: Vec<String>,
    /// What was drawn of them, as JSON.
    #[serde(default)]
    told: Vec<String>,
    /// Of how many trials one goes on to so many times the rounds.
    #[serde(default)]
    halving: Option<u32>,
}

/// Calls what it is given with the number of each batch's first row, and the columns of all features, of which those that are kept whole are not
/// looked at.
pub type Pass<'a> = dyn Fn(&mut dyn FnMut(usize, &[Series]) -> PolarsResult<()>) -> PolarsResult<()> + Sync + 'a;

/// The features of a table that come in batches.
#[derive(Clone, Copy)]
pub struct InBatches<'a> {
    pub batches: Batches<'a>,
    /// Makes one more pass.
    pub pass: &'a Pass<'a>,
}

/// What is measured: metrics as JSON, by the model where there is none.
#[derive(Default, Deserialize)]
struct MeasuredKwargs {
    metrics: Vec<String>,
    /// Their names, as fields.
    names: Vec<String>,
}

impl MeasuredKwargs {
    fn metrics(&self) -> PolarsResult<Vec<Option<MetricSpec>>> {
        match self.metrics.as_slice() {
            [] => Ok(vec![None]),
            several => several.iter().map(|json| metric_of(Some(json))).collect(),
        }
    }
}

/// Checks what names and types tell of the folds' fits.
fn check(fields: &InputSchema, params: &BoostingParams) -> PolarsResult<()> {
    // Each fold is held out where something has to be measured.
    check_given(fields, params, GivenColumns { held_out: true, ..given(fields) })?;
    match fields.one("fold")?.filter(|fold| is_known(fold.dtype()) && fold.dtype().is_nested()) {
        Some(fold) => Err(errors::mistyped(fold.name(), format!("its type is {}, which tells no folds", fold.dtype()))),
        None => Ok(()),
    }
}

impl FoldsKwargs {
    /// Checks what types tell of how rows are divided.
    ///
    /// # Errors
    /// For a column whose type can't tell it, naming both.
    pub fn check_division(&self, input: &DataType) -> PolarsResult<()> {
        match InputSchema::new(input)?.one("fold")?.filter(|fold| is_known(fold.dtype()) && self.division.by == By::Group) {
            Some(groups) => categories::check_group_type(groups.name(), groups.dtype()),
            None => Ok(()),
        }
    }
}

/// Whether a loss or a metric ranks the rows of groups.
fn ranks_groups(params: &BoostingParams, measured: &[Option<MetricSpec>]) -> bool {
    let metrics = params.metric.iter().flat_map(|metrics| metrics.all()).chain(measured.iter().flatten());
    params.loss.reads_groups() || metrics.into_iter().any(MetricSpec::reads_groups)
}

/// The parameters of the folds' fits, checked.
pub fn checked(input: &DataType, kwargs: &FitKwargs) -> PolarsResult<BoostingParams> {
    fit::checked(input, kwargs, BoostingParams::from_json, check)
}

/// Of each row, the place of its value among the distinct ones, and how many these are; [`NO_FOLD`] where it is null.
fn places(series: &Series) -> PolarsResult<(Vec<u32>, u32)> {
    let known = series.is_not_null();
    let rows: Vec<usize> = known.iter().enumerate().filter(|(_, known)| *known == Some(true)).map(|(row, _)| row).collect();
    let own = series.filter(&known)?;
    if own.dtype().is_float() {
        let nans = own.is_nan()?.sum().unwrap_or(0);
        if nans > 0 {
            let text = format!("it is NaN in {nans} of {} rows, which is no fold and no time; null is no fold", series.len());
            return Err(errors::values(series.name(), text));
        }
    }
    let own = if matches!(own.dtype(), DataType::Categorical(..)) { own.cast(&DataType::String)? } else { own };
    let order = categories::sorted(&own)?;
    let sorted = own.take(&IdxCa::from_vec("".into(), order.iter().map(|row| *row as IdxSize).collect()))?;
    let (mut of_row, mut place) = (vec![NO_FOLD; series.len()], 0);
    if let Some(last) = sorted.len().checked_sub(1) {
        let ends = sorted.slice(0, last).not_equal_missing(&sorted.slice(1, last))?;
        for (row, ends) in order.iter().zip(std::iter::once(false).chain(ends.iter().map(|ends| ends == Some(true)))) {
            place += u32::from(ends);
            of_row[rows[*row as usize]] = place;
        }
        place += 1;
    }
    Ok((of_row, place))
}

impl DivisionKwargs {
    /// Divides the rows; `ranked`: and no group of them.
    fn folds(&self, parts: &Parts, input: &Input<'_>, ranked: bool) -> PolarsResult<Folds> {
        let groups = input.loss_columns.groups.as_deref().filter(|_| ranked);
        let folds = self.divided(parts, input, groups)?;
        if let Some(groups) = groups {
            RowGroups::new(groups).check_folds(&folds.of_row).map_err(errors::compute)?;
        }
        Ok(folds)
    }

    /// Divides the rows as asked for; a draw takes `groups` whole.
    fn divided(&self, parts: &Parts, input: &Input<'_>, groups: Option<&[u32]>) -> PolarsResult<Folds> {
        let column = parts.one("fold")?;
        if let Some(column) = &column {
            parts.check_length(column)?;
        }
        let needed = || column.as_ref().ok_or_else(|| errors::data("there is no column that tells the folds"));
        let folds = |division: &Division<'_>| Folds::new(input, division, self.seed).map_err(errors::compute);
        match self.by {
            By::Parts => folds(&groups.map_or(Division::Parts(self.parts), |groups| Division::Groups(self.parts, groups))),
            By::Group => folds(&Division::Groups(self.parts, &categories::groups(needed()?)?)),
            By::Column => {
                let column = needed()?;
                let (of_row, count) = places(column)?;
                if count < 2 && !of_row.is_empty() {
                    let is = if count == 0 { "null in all rows: none is in a fold" } else { "the same in all rows that are in a fold" };
                    let text = format!("column `{}`: it is {is}, and what is predicted must be left out of the fit", column.name());
                    return Err(errors::of_rows(RowsFault::Degenerate, text));
                }
                folds(&Division::Given(count, &of_row))
            }
            By::Time => match &column {
                None if has_key(parts) => {
                    let text = "parameter `fold_by`: folds=\"time\" beside `row_key` needs the column of the times: rows with keys have no other order";
                    Err(errors::data(text))
                }
                None => folds(&Division::Times(self.parts, &(0..input.target.rows() as u32).collect::<Vec<_>>())),
                Some(times) if times.null_count() > 0 => {
                    let text = format!("it is null in {} of {} rows, and tells when they were", times.null_count(), times.len());
                    Err(errors::values(times.name(), text))
                }
                Some(times) => folds(&Division::Times(self.parts, &places(times)?.0)),
            },
        }
    }
}

/// The bytes of a fold's model.
fn bytes(parts: &Parts, fit: &FitKwargs, labels: Option<LabelType>, mut model: Model) -> PolarsResult<Vec<u8>> {
    model.provenance = parts.provenance(labels, vec![]);
    model.provenance.metadata = fit.metadata()?;
    Ok(model.to_bytes())
}

/// Runs the body of an expression of folds.
fn called(function: &'static str, inputs: &[Series], body: impl FnOnce(&Parts) -> PolarsResult<Series>) -> Answer {
    monitor::expression(function, true, || {
        pools::keep_to_this_thread();
        body(&Parts::new(inputs)?)
    })
}

fn field_of_folds() -> DataType {
    DataType::Struct(vec![Field::new("fold".into(), DataType::UInt32), Field::new("model".into(), DataType::Binary)])
}

fn folds_field(inputs: &[Field], kwargs: FoldsKwargs) -> PolarsResult<Field> {
    let check = || checked(inputs[0].dtype(), &kwargs.fit).and_then(|_| kwargs.check_division(inputs[0].dtype()));
    errors::guarded("fit_folds", check).map(|_| Field::new("folds".into(), field_of_folds()))
}

/// By row, its fold and the model that has not seen it.
fn fit_folds(inputs: &[Series], kwargs: FoldsKwargs) -> Answer {
    called("fit_folds", inputs, |parts| models_of_rows(parts, &checked(inputs[0].dtype(), &kwargs.fit)?, &kwargs, None))
}

/// Of each row its fold and its model, as `fit_folds` gives them; `source`: what comes in batches.
pub fn models_of_rows(parts: &Parts, params: &BoostingParams, kwargs: &FoldsKwargs, source: Option<InBatches<'_>>) -> PolarsResult<Series> {
    let batches = source.map(|source| source.batches);
    let fitted = kwargs.fit.on_error.apply(&parts.target, |_| {
        let keyed = Keyed::new(parts, None)?;
        let parts = Keyed::parts_of(&keyed, parts);
        read(parts, params.clone(), "fit_folds", Wanted::Model, |input, params, labels| {
            let folds = kwargs.division.folds(parts, input, ranks_groups(params, &[]))?;
            let watch = Watch::new("fit_folds", "rounds", kwargs.fit.progress);
            let table = coded(input, params, batches, &watch).map_err(errors::compute)?;
            let models = boosting::fit_coded_folds(&table, params, &folds, &watch).map_err(errors::compute)?;
            let models = models.into_iter().map(|fold| bytes(parts, &kwargs.fit, labels.clone(), fold.model));
            let of_row = keyed.as_ref().map_or_else(|| folds.of_row.clone(), |keyed| keyed.as_they_came(&folds.of_row));
            Ok((of_row, models.collect::<PolarsResult<Vec<_>>>()?))
        })
    })?;
    let (of_row, models) = fitted.unwrap_or_else(|| (vec![NO_FOLD; parts.target.len()], vec![]));
    let of_row: Vec<Option<IdxSize>> = of_row.into_iter().map(|fold| (fold != NO_FOLD).then_some(fold as IdxSize)).collect();
    let fold = UInt32Chunked::from_iter_options("fold".into(), of_row.iter().copied());
    let models = match models.is_empty() {
        true => BinaryChunked::full_null("model".into(), of_row.len()),
        false => BinaryChunked::from_slice("model".into(), &models).take(&IdxCa::new("".into(), of_row))?,
    };
    Ok(StructChunked::from_series("folds".into(), fold.len(), [fold.into_series(), models.into_series()].iter())?.into_series())
}

export!(fit_folds, folds_field, FoldsKwargs, Length::Rows);

/// The rows of a fold, as its model is measured on them.
struct Tested {
    target: Series,
    weight: Option<Series>,
    group: Option<Series>,
    of_metric: Option<Series>,
    times: Vec<(&'static str, Series)>,
    columns: Vec<Series>,
}

/// One column as the struct that [`Call`] reads.
fn in_struct(name: &str, columns: &[Series]) -> PolarsResult<Series> {
    let rows = columns.first().map_or(0, |column| column.len());
    Ok(StructChunked::from_series(name.into(), rows, columns.iter())?.into_series())
}

impl Tested {
    /// The rows of a table, some of whose features may come in batches, and are known by their codes and bins.
    fn new(parts: &Parts, rows: &[usize], known: Option<(&CodedTable<'_>, &BinValues)>) -> PolarsResult<Tested> {
        let taken = IdxCa::from_vec("".into(), rows.iter().map(|row| *row as IdxSize).collect());
        let of = |series: Series| series.take(&taken);
        let one = |role: &str| -> PolarsResult<Option<Series>> { parts.one(role)?.map(of).transpose() };
        let role = |name: &str| -> PolarsResult<Option<Series>> { one(name)?.map(|column| in_struct(name, &[column])).transpose() };
        let of_metric = parts.all("metric_columns")?.into_iter().map(of).collect::<PolarsResult<Vec<_>>>()?;
        let mut times = vec![];
        for name in crate::times::TIMES {
            times.extend(one(name)?.map(|column| (name, column)));
        }
        let column = |(index, column): (usize, &Series)| match known.and_then(|(table, bins)| bins.of_feature(table, index, rows)) {
            Some(values) => values,
            None => of(column.clone()),
        };
        let columns = parts.features.iter().enumerate().map(column).collect::<PolarsResult<Vec<_>>>()?;
        Ok(Tested {
            target: in_struct("target", &[of(parts.target.clone())?])?,
            weight: role("weight")?,
            group: role("group")?,
            of_metric: if of_metric.is_empty() { None } else { Some(in_struct("metric_columns", &of_metric)?) },
            times,
            columns: unnest(&columns)?,
        })
    }

    /// Measures a model on them.
    fn measure(&self, model: Vec<u8>, device: &str, metrics: &[Option<MetricSpec>]) -> PolarsResult<Vec<f64>> {
        let model = BinaryChunked::from_slice("model".into(), &[model]).into_series();
        let call = Call {
            model: &model,
            target: Some(&self.target),
            weight: self.weight.as_ref(),
            group: self.group.as_ref(),
            of_metric: self.of_metric.as_ref(),
            times: self.times.clone(),
            columns: &self.columns,
            device: DeviceSet::first_name(device),
            rounds: None,
            background: None,
        };
        Ok(values_of(&call, metrics)?.unwrap_or_default())
    }
}

/// Values of features that come in batches: of each bin one, which trees on the table's borders send wherever they send the bin's others. So
/// rows are measured by their codes.
struct BinValues {
    /// Of each feature that comes in batches: of each code the place of its value, and the values.
    features: HashMap<usize, (Vec<IdxSize>, Series)>,
}

impl BinValues {
    /// Finds those of a table in one pass.
    fn new(table: &CodedTable<'_>, parts: &Parts, source: &InBatches<'_>) -> PolarsResult<BinValues> {
        let batched = source.batches.columns().iter().map(|index| *index as usize);
        let mut features: HashMap<usize, (Vec<IdxSize>, Series)> =
            batched.map(|index| (index, (vec![NONE; 256], parts.features[index].clear()))).collect();
        (source.pass)(&mut |first, columns| {
            for (index, (places, values)) in &mut features {
                let (column, codes) = (&columns[*index], table.codes(*index));
                let mut rows: Vec<IdxSize> = vec![];
                for row in 0..column.len() {
                    let place = &mut places[codes.map_or(0, |codes| codes[first + row]) as usize];
                    if *place == NONE {
                        *place = (values.len() + rows.len()) as IdxSize;
                        rows.push(row as IdxSize);
                    }
                }
                if !rows.is_empty() {
                    values.append(&column.take(&IdxCa::from_vec("".into(), rows))?)?;
                }
            }
            Ok(())
        })?;
        Ok(BinValues { features })
    }

    /// A feature's values of some rows of the table; none of one that does not come in batches.
    fn of_feature(&self, table: &CodedTable<'_>, index: usize, rows: &[usize]) -> Option<PolarsResult<Series>> {
        let (places, values) = self.features.get(&index)?;
        let codes = table.codes(index);
        let place = |row: &usize| places[codes.map_or(0, |codes| codes[*row]) as usize];
        Some(values.take(&IdxCa::from_vec("".into(), rows.iter().map(place).collect())))
    }
}

/// No place.
const NONE: IdxSize = IdxSize::MAX;

/// One list of structs.
fn listed(name: &str, columns: Vec<Series>) -> PolarsResult<Series> {
    let rows = columns.first().map_or(0, |column| column.len());
    Ok(StructChunked::from_series(name.into(), rows, columns.iter())?.into_series().implode()?.into_series())
}

fn list_field(name: &str, fields: Vec<Field>) -> Field {
    Field::new(name.into(), DataType::List(Box::new(DataType::Struct(fields))))
}

/// What stands for rows that could not be fitted.
fn null_of(field: &Field) -> Series {
    Series::full_null(field.name().clone(), 1, field.dtype())
}

const CROSS_VALIDATION: &str = "cross_validation";

fn field_of_validation(kwargs: &FoldsKwargs) -> Field {
    let counts = ["fold", "train_rows", "test_rows", "rounds"].map(|name| Field::new(name.into(), DataType::UInt32));
    let metrics = kwargs.measured.names.iter().map(|name| Field::new(name.into(), DataType::Float64));
    let models = kwargs.models.then(|| Field::new("model".into(), DataType::Binary));
    list_field(CROSS_VALIDATION, counts.into_iter().chain(metrics).chain(models).collect())
}

fn cross_validate_field(inputs: &[Field], kwargs: FoldsKwargs) -> PolarsResult<Field> {
    let check = || checked(inputs[0].dtype(), &kwargs.fit).and_then(|_| kwargs.check_division(inputs[0].dtype()));
    errors::guarded("cross_validate", check).map(|_| field_of_validation(&kwargs))
}

/// A row for each fold: its sizes, the rounds of its model, and what that is worth.
fn cross_validate(inputs: &[Series], kwargs: FoldsKwargs) -> Answer {
    called("cross_validate", inputs, |parts| validated(parts, &checked(inputs[0].dtype(), &kwargs.fit)?, &kwargs, None))
}

/// What `cross_validate` gives, or null by `on_error`; `source`: what comes in batches.
pub fn validated(parts: &Parts, params: &BoostingParams, kwargs: &FoldsKwargs, source: Option<InBatches<'_>>) -> PolarsResult<Series> {
    let found = kwargs.fit.on_error.apply(&parts.target, |_| validate(parts, params.clone(), kwargs, source))?;
    Ok(found.unwrap_or_else(|| null_of(&field_of_validation(kwargs))))
}

fn validate(parts: &Parts, params: BoostingParams, kwargs: &FoldsKwargs, source: Option<InBatches<'_>>) -> PolarsResult<Series> {
    let keyed = Keyed::new(parts, None)?;
    let parts = Keyed::parts_of(&keyed, parts);
    let metrics = kwargs.measured.metrics()?;
    read(parts, params, "cross_validate", Wanted::Model, |input, params, labels| {
        let folds = kwargs.division.folds(parts, input, ranks_groups(params, &metrics))?;
        let watch = Watch::new("cross_validate", "rounds", kwargs.fit.progress);
        let table = coded(input, params, source.map(|source| source.batches), &watch).map_err(errors::compute)?;
        let bins = source.map(|source| BinValues::new(&table, parts, &source)).transpose()?;
        let models = boosting::fit_coded_folds(&table, params, &folds, &watch).map_err(errors::compute)?;
        let (mut counts, mut values, mut all) = ([const { vec![] }; 3], vec![vec![]; metrics.len()], vec![]);
        for FoldModel { model, training, tested } in models {
            let rounds = model.rounds();
            counts.iter_mut().zip([training, tested.len(), rounds]).for_each(|(all, own)| all.push(own as u32));
            let model = bytes(parts, &kwargs.fit, labels.clone(), model)?;
            let measured =
                Tested::new(parts, &tested, bins.as_ref().map(|bins| (&table, bins)))?.measure(model.clone(), &params.device, &metrics)?;
            values.iter_mut().zip(measured).for_each(|(all, own)| all.push(own));
            all.extend(kwargs.models.then_some(model));
        }
        let mut columns = vec![UInt32Chunked::from_vec("fold".into(), (0..folds.count).collect()).into_series()];
        for (name, counts) in ["train_rows", "test_rows", "rounds"].into_iter().zip(counts) {
            columns.push(UInt32Chunked::from_vec(name.into(), counts).into_series());
        }
        for (name, values) in kwargs.measured.names.iter().zip(values) {
            columns.push(Float64Chunked::from_vec(name.into(), values).into_series());
        }
        if kwargs.models {
            columns.push(BinaryChunked::from_slice("model".into(), &all).into_series());
        }
        listed(CROSS_VALIDATION, columns)
    })
}

export!(cross_validate, cross_validate_field, FoldsKwargs, Length::One);

const SEARCH: &str = "search";

impl FoldsKwargs {
    /// The parameters of each trial of a search, checked.
    pub fn trials(&self, input: &DataType) -> PolarsResult<Vec<BoostingParams>> {
        let of = |(number, text): (usize, &String)| {
            let params = fit::checked_params(input, &self.fit, text, BoostingParams::from_json, check);
            params.map_err(|e| e.wrap_msg(|text| format!("trial {number}: {text}")))
        };
        self.trials.iter().enumerate().map(of).collect()
    }
}

fn field_of_search() -> Field {
    let of = |name: &str, dtype: DataType| Field::new(name.into(), dtype);
    let fields = vec![
        of("trial", DataType::UInt32),
        of("params", DataType::String),
        of("rung", DataType::UInt32),
        of("rounds", DataType::UInt32),
        of("mean", DataType::Float64),
        of("std", DataType::Float64),
        of("folds", DataType::List(Box::new(DataType::Float64))),
    ];
    list_field(SEARCH, fields)
}

fn search_field(inputs: &[Field], kwargs: FoldsKwargs) -> PolarsResult<Field> {
    errors::guarded(SEARCH, || {
        kwargs.trials(inputs[0].dtype())?;
        kwargs.check_division(inputs[0].dtype())?;
        kwargs.measured.metrics()?;
        Ok(field_of_search())
    })
}

/// A row for each trial in each rung that it reached: the rounds it was given, and what its models of all folds are worth.
fn search(inputs: &[Series], kwargs: FoldsKwargs) -> Answer {
    called(SEARCH, inputs, |parts| searched(parts, &kwargs.trials(inputs[0].dtype())?, &kwargs, None))
}

/// What `search` gives of trials, or null by `on_error`; `source`: what comes in batches.
pub fn searched(parts: &Parts, trials: &[BoostingParams], kwargs: &FoldsKwargs, source: Option<InBatches<'_>>) -> PolarsResult<Series> {
    let found = kwargs.fit.on_error.apply(&parts.target, |_| search_trials(parts, trials, kwargs, source))?;
    Ok(found.unwrap_or_else(|| null_of(&field_of_search())))
}

fn search_trials(parts: &Parts, trials: &[BoostingParams], kwargs: &FoldsKwargs, source: Option<InBatches<'_>>) -> PolarsResult<Series> {
    let keyed = Keyed::new(parts, None)?;
    let parts = Keyed::parts_of(&keyed, parts);
    let metric = kwargs.measured.metrics()?;
    let Some(first) = trials.first() else { return Err(errors::data("parameter `trials`: there are none")) };
    read(parts, first.clone(), SEARCH, Wanted::Model, |input, of_first, labels| {
        let ranked = trials.iter().any(|params| ranks_groups(params, &metric));
        let folds = kwargs.division.folds(parts, input, ranked)?;
        // What comes in batches is measured by the codes of each table, and never stands here as values.
        let rows = match source {
            None => (0..folds.count).map(|fold| Tested::new(parts, &folds.fold(fold).tested, None)).collect::<PolarsResult<Vec<_>>>()?,
            Some(_) => vec![],
        };
        let trials: Vec<BoostingParams> =
            trials.iter().map(|params| BoostingParams { n_threads: of_first.n_threads, ..params.clone() }).collect();
        let watch = Watch::new(SEARCH, "rounds", kwargs.fit.progress);
        let measure = |fold: usize, (table, bins): (&CodedTable<'_>, &Option<BinValues>), fitted: FoldModel| {
            let larger = metric[0].clone().unwrap_or_else(|| fitted.model.scoring().metric.into()).larger_is_better();
            let FoldModel { model, tested, .. } = fitted;
            let value = bytes(parts, &kwargs.fit, labels.clone(), model)
                .and_then(|model| match rows.get(fold) {
                    Some(rows) => rows.measure(model, &of_first.device, &metric),
                    None => Tested::new(parts, &tested, bins.as_ref().map(|bins| (table, bins)))?.measure(model, &of_first.device, &metric),
                })
                .map_err(errors::through)?;
            Ok((value[0], larger))
        };
        let find_bins =
            |table: &CodedTable<'_>| source.map(|source| BinValues::new(table, parts, &source)).transpose().map_err(errors::through);
        let halving = kwargs.halving.map(|factor| Halving { factor });
        let batches = source.map(|source| source.batches);
        let found = boosting::search((input, batches), &trials, &folds, halving, &watch, find_bins, measure).map_err(errors::compute)?;
        let count = |name: &str, of: &dyn Fn(&Trial) -> u32| UInt32Chunked::from_vec(name.into(), found.iter().map(of).collect());
        let value = |name: &str, of: &dyn Fn(&Trial) -> f64| Float64Chunked::from_vec(name.into(), found.iter().map(of).collect());
        let mut folds = ListPrimitiveChunkedBuilder::<Float64Type>::new("folds".into(), found.len(), found.len() * 5, DataType::Float64);
        found.iter().for_each(|trial| folds.append_slice(&trial.values));
        listed(
            SEARCH,
            vec![
                count("trial", &|t| t.number as u32).into_series(),
                StringChunked::from_iter_options("params".into(), found.iter().map(|t| kwargs.told.get(t.number))).into_series(),
                count("rung", &|t| t.rung).into_series(),
                count("rounds", &|t| t.rounds).into_series(),
                value("mean", &Trial::mean).into_series(),
                value("std", &Trial::deviation).into_series(),
                folds.finish().into_series(),
            ],
        )
    })
}

export!(search, search_field, FoldsKwargs, Length::One);
