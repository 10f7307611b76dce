//! What a model is measured on: one model, its rows, their targets and weights, and its predictions of them.

use super::applied::{Applied, Inputs};
use super::wanted::WantedTarget;
use super::{BLOCK, Background, MODEL, Ready, Table, distinct_models, models_of, ready_against, wanted};
use crate::categories;
use crate::columns::{Numbers, is_listed};
use crate::metrics::metric_from_json;
use crate::schema::{check_number_field, is_known};
use crate::several::SeveralTargets;
use crate::target::class_codes;
use crate::threads::for_blocks;
use crate::times::{self, TimeColumns};
use crate::{errors, labels};
use polars::prelude::*;
use std::sync::Arc;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::dataset::row_groups::RowGroups;
use taiga_engine::dataset::weights::row_weights;
use taiga_engine::dataset::{ClassWeight, Input, Target};
use taiga_engine::error::RowsFault;
use taiga_engine::learners::applied::{Output, Values};
use taiga_engine::metrics::{MetricSpec, Rows};
use taiga_engine::model::score::{rows_of, score};

/// The metric that Python names, as JSON.
///
/// # Errors
/// For one that there is not.
pub fn metric_of(json: Option<&str>) -> PolarsResult<Option<MetricSpec>> {
    json.map(metric_from_json).transpose()
}

/// What stands between the model and the columns in a call: structs of one column each, but for that of what a metric reads.
pub struct Roles<'a, T> {
    pub target: Option<&'a T>,
    pub weight: Option<&'a T>,
    pub group: Option<&'a T>,
    pub of_metric: Option<&'a T>,
    /// When the events of rows happened, with the roles that say what each tells.
    pub times: Vec<(&'a str, &'a T)>,
}

impl<'a, T> Roles<'a, T> {
    /// Those of the inputs behind the model; `there`: whether target, weight, group and what the metric reads are among them.
    pub fn new(inputs: &'a [T], there: [bool; 4], times: &'a [String]) -> Self {
        let mut inputs = inputs.iter();
        let [target, weight, group, of_metric] = there.map(|is_there| is_there.then(|| inputs.next()).flatten());
        Roles { target, weight, group, of_metric, times: times.iter().map(String::as_str).zip(inputs).collect() }
    }
}

impl<'a> Roles<'a, Series> {
    /// Reads the columns of the times of events, with their roles.
    ///
    /// # Errors
    /// For several columns in the place of one.
    pub fn times(&self) -> PolarsResult<Vec<(&'a str, Series)>> {
        self.times.iter().map(|(name, column)| Ok((*name, role(column)?))).collect()
    }
}

impl Roles<'_, Field> {
    /// Checks what types tell of them; `known`: what Python says the model reads. A column that is all null, and of no type, is left to the
    /// call itself, as one of no rows may be.
    ///
    /// # Errors
    /// For types that can't serve, and several columns in the place of one.
    pub fn check(&self, known: Option<&String>) -> PolarsResult<()> {
        let told = |field: &Option<Field>| field.clone().filter(|f| is_known(f.dtype()) && *f.dtype() != DataType::Null);
        let one = |field: Option<&Field>| -> PolarsResult<Option<Field>> { Ok(told(&field.map(role_field).transpose()?.flatten())) };
        if let Some(target) = one(self.target)? {
            let wanted = known.map(|json| wanted(json)).transpose()?;
            match wanted.as_ref().and_then(|wanted| wanted.target()) {
                Some(own) => own.check(target.name(), target.dtype())?,
                None => check_any_target(target.name(), target.dtype())?,
            }
        }
        if let Some(weight) = one(self.weight)? {
            check_number_field(&weight, "a weight")?;
        }
        if let Some(group) = one(self.group)? {
            categories::check_group_type(group.name(), group.dtype())?;
        }
        if let Some(DataType::Struct(fields)) = self.of_metric.map(|field| field.dtype()) {
            let mut numbers = fields.iter().filter_map(|field| told(&Some(field.clone())));
            numbers.try_for_each(|field| check_number_field(&field, "a column that a metric reads"))?;
        }
        for (role, field) in &self.times {
            if let Some(field) = one(Some(*field))? {
                times::check_type(role, field.name(), field.dtype())?;
            }
        }
        Ok(())
    }
}

/// Checks that a column of this type may be the target of some model.
fn check_any_target(name: &str, dtype: &DataType) -> PolarsResult<()> {
    if dtype.is_numeric() || *dtype == DataType::Boolean || is_listed(dtype) || dtype.is_nested() {
        return Ok(());
    }
    Err(errors::mistyped(name, format!("its type is {dtype}; a target is a number, a label, or several of these")))
}

/// The inputs of a call: the model, and structs of the target and of what rows weigh where these are told, then the columns.
pub struct Call<'a> {
    pub model: &'a Series,
    pub target: Option<&'a Series>,
    pub weight: Option<&'a Series>,
    /// The groups of the rows, and what metrics of one's own read.
    pub group: Option<&'a Series>,
    pub of_metric: Option<&'a Series>,
    /// The columns that say when the events of rows happened, by their roles.
    pub times: Vec<(&'a str, Series)>,
    pub columns: &'a [Series],
    /// Where the model is applied, and its rounds that count.
    pub device: &'a str,
    pub rounds: Option<usize>,
    pub background: Option<&'a Background<'a>>,
}

/// A model and the rows that it is measured on, of which there is one at least.
pub struct Measured {
    pub ready: Arc<Ready>,
    pub table: Table,
    /// Class indices or numbers, where a target was told; of several targets one behind the other.
    pub target: Vec<f64>,
    /// What rows weigh, in whatever unit.
    pub weight: Option<Vec<f64>>,
    groups: Option<RowGroups>,
    of_metric: Vec<(String, Vec<f64>)>,
    /// The bounds of the times of rows' events, where these are told.
    bounds: Vec<Vec<f64>>,
}

impl Measured {
    /// Reads the inputs; none where the model is null. One value stands for all rows.
    ///
    /// # Errors
    /// For several models, inputs of different lengths, no rows, and columns that do not fit.
    pub fn new(call: &Call<'_>) -> PolarsResult<Option<Measured>> {
        let models = models_of(call.model, MODEL)?;
        let Some(bytes) = only(&models)? else { return Ok(None) };
        let (target, weight) = (call.target.map(role).transpose()?, call.weight.map(role).transpose()?);
        if let (Some(target), Some(weight)) = (&target, &weight) {
            let (own, wanted) = (weight.len(), target.len());
            let text = || format!("it has {own} rows and the target `{}` has {wanted}", target.name());
            if own != wanted && own != 1 && wanted != 1 {
                return Err(errors::column(weight.name(), text()));
            }
        }
        let group = call.group.map(role).transpose()?;
        let of_metric = call.of_metric.map(|s| Ok::<_, PolarsError>(s.struct_()?.fields_as_series())).transpose()?.unwrap_or_default();
        let times = call.times.iter().map(|(_, column)| column);
        let beside = [&target, &weight, &group].into_iter().flatten().chain(&of_metric).chain(times);
        let table = Table::new(beside.map(|s| s.len()).find(|n| *n != 1).unwrap_or(1), call.columns)?;
        let rows = table.rows;
        if rows == 0 {
            return Err(errors::of_rows(RowsFault::Degenerate, "there are no rows to measure"));
        }
        let spread = |series: Option<Series>| series.map(|series| in_all_rows(&series, rows)).transpose();
        let (target, weight, group) = (spread(target)?, spread(weight)?, spread(group)?);
        let ready = ready_against(bytes, call.device, call.rounds, call.background)?;
        let values = target.as_ref().map(|target| Truth::new(target, &ready)).transpose()?.map_or(vec![], |truth| truth.values());
        let weight = weight.map(|weight| weights(&weight, &values)).transpose()?;
        let groups = group.map(|group| Ok::<_, PolarsError>(RowGroups::new(&categories::groups(&group)?))).transpose()?;
        let of_metric = of_metric.iter().map(|column| {
            let numbers = Numbers::finite(&in_all_rows(column, rows)?, "a column that a metric reads")?;
            Ok((column.name().to_string(), numbers.column().to_f64()))
        });
        let of_metric = of_metric.collect::<PolarsResult<_>>()?;
        let bounds = target.map(|target| bounds(call, &target, &values, rows)).transpose()?.unwrap_or_default();
        Ok(Some(Measured { ready, table, target: values, weight, groups, of_metric, bounds }))
    }

    /// What the model reads.
    pub fn inputs(&self) -> PolarsResult<Inputs> {
        self.table.inputs(&self.ready)
    }

    /// Measures scores of the rows, or predictions of a model that has no scores, `[output][row]`.
    pub fn score(&self, metric: &MetricSpec, scores: &[Vec<f64>]) -> PolarsResult<f64> {
        if metric.reads_times() && self.bounds.is_empty() {
            let instead = match self.ready.model.labels().map(Labels::len) {
                None => "",
                Some(2) => "; probabilities of classes are measured by \"logloss\", \"ece\" or \"rmse\", the root of Brier's score",
                Some(_) => "; probabilities of classes are measured by \"multiclass\" or \"ece\"",
            };
            let text = format!("parameter `event`: metric=\"{metric}\" is of survival and needs it, or `lower` and `upper`{instead}");
            return Err(errors::data(text));
        }
        let scoring = self.ready.model.fitted().scoring();
        let (weight, groups, columns) = (self.weight.as_deref(), self.groups.as_ref(), self.bounds.as_slice());
        let rows = Rows { weight, groups, columns, named: &self.of_metric, ..rows_of(&scoring, scores, &self.target) };
        score(metric, &rows).map_err(errors::compute)
    }

    /// Leaves out rows of weight 0, which are as if they were not there.
    pub fn without_idle_rows(mut self) -> PolarsResult<Self> {
        let Some(weight) = self.weight.take_if(|w| w.contains(&0.0)) else { return Ok(self) };
        let counts: Vec<bool> = weight.iter().map(|w| *w != 0.0).collect();
        let mask = BooleanChunked::from_slice("".into(), &counts);
        for column in &mut self.table.columns {
            *column = column.filter(&mask)?;
        }
        let kept = |row: &usize| counts[*row];
        // Of several targets one behind the other.
        let of_target = |values: &[f64]| (0..values.len()).filter(kept).map(|row| values[row]).collect::<Vec<f64>>();
        self.target = self.target.chunks(counts.len()).flat_map(of_target).collect();
        self.bounds = self.bounds.iter().map(|bounds| of_target(bounds)).collect();
        let rows: Vec<usize> = (0..counts.len()).filter(kept).collect();
        self.groups = self.groups.map(|groups| groups.of_rows(&rows));
        self.weight = Some(weight.into_iter().filter(|w| *w != 0.0).collect());
        self.table.rows = counts.iter().filter(|c| **c).count();
        Ok(self)
    }
}

/// A column of as many rows, of which one value is all of them.
fn in_all_rows(series: &Series, rows: usize) -> PolarsResult<Series> {
    match series.len() {
        n if n == rows => Ok(series.clone()),
        1 => Ok(series.new_from_index(0, rows)),
        n => Err(errors::column(series.name(), format!("it has {n} rows where others have {rows}"))),
    }
}

/// The bounds of the times of the rows' events; none where nothing tells them.
fn bounds(call: &Call<'_>, target: &Series, values: &[f64], rows: usize) -> PolarsResult<Vec<Vec<f64>>> {
    let Some((role, _)) = call.times.first() else { return Ok(vec![]) };
    if values.len() != rows {
        return Err(errors::data(format!("parameter `{role}`: it tells the times of one target, and the model has several")));
    }
    let columns = TimeColumns::new(|name| {
        let column = call.times.iter().find(|(role, _)| *role == name);
        column.map(|(_, column)| in_all_rows(column, rows)).transpose()
    })?;
    Ok(columns.times().bounds(target.name(), values).map_err(errors::compute)?.map_or(vec![], Vec::from))
}

/// What a model's rows are measured against.
enum Truth {
    Numbers(Numbers),
    Classes(Vec<u32>),
    Several(SeveralTargets),
}

impl Truth {
    fn new(target: &Series, ready: &Ready) -> PolarsResult<Self> {
        let model = &ready.model;
        Ok(match (ready.wanted.target(), model.labels()) {
            (Some(own @ WantedTarget::Several { .. }), _) => {
                own.check(target.name(), target.dtype())?;
                let names = model.fields(false).unwrap_or_default();
                Truth::Several(SeveralTargets::new(target, own.loss(), None, Some(&names))?)
            }
            (_, None) => Truth::Numbers(Numbers::finite(target, "a target")?),
            (_, Some(own)) => {
                let dtype = model.label_type().unwrap_or_else(|| own.kept_as());
                Truth::Classes(class_codes(target, &labels::series("".into(), own, &own.kept_as())?, &dtype)?)
            }
        })
    }

    fn values(&self) -> Vec<f64> {
        match self {
            Truth::Numbers(numbers) => numbers.column().to_f64(),
            Truth::Classes(codes) => codes.iter().map(|c| *c as f64).collect(),
            Truth::Several(targets) => targets.values(),
        }
    }
}

/// What rows weigh, in whatever unit; `target` may be none.
fn weights(weight: &Series, target: &[f64]) -> PolarsResult<Vec<f64>> {
    let numbers = Numbers::finite(weight, "a weight")?;
    if numbers.column().to_f64().iter().all(|w| *w == 0.0) {
        return Err(errors::of_rows(RowsFault::Degenerate, format!("column `{}`: all rows weigh zero", weight.name())));
    }
    let any = if target.is_empty() { vec![0.0; weight.len()] } else { vec![] };
    let target = if target.is_empty() { &any } else { target };
    let input = Input {
        features: vec![],
        target: Target::Numbers(taiga_engine::column::Column::from_f64("", target)),
        target_name: "".into(),
        weight: Some(numbers.column()),
        baseline: vec![],
        held_out: None,
        loss_columns: Default::default(),
        evaluation: Default::default(),
        order: None,
    };
    Ok(row_weights(&input, &ClassWeight::None).map_err(errors::compute)?.map_or(vec![], |w| w.values.into_iter().map(f64::from).collect()))
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
        several => Err(not_one(several.len())),
    }
}

/// The field of the one column of such a struct, where its type is known.
fn role_field(field: &Field) -> PolarsResult<Option<Field>> {
    match field.dtype() {
        DataType::Struct(fields) => match fields.as_slice() {
            [one] => Ok(Some(one.clone())),
            several => Err(not_one(several.len())),
        },
        _ => Ok(None),
    }
}

fn not_one(columns: usize) -> PolarsError {
    errors::data(format!("the target, and a weight, are one column each, not {columns}"))
}

/// Bytes of the raw scores of so many rows.
pub fn bytes_of_scores(model: &Applied, rows: usize) -> u64 {
    8 * (model.fitted().facts().outputs as u64).saturating_mul(rows as u64)
}

/// The raw scores of rows, or the predictions of a model that has no scores: `[output][row]`.
pub fn scores(model: &Applied, inputs: &Inputs) -> PolarsResult<Vec<Vec<f64>>> {
    let output = if model.fitted().scoring().has_no_scores { Output::Predictions } else { Output::Raw };
    match model.outputs(inputs, &[output])?.pop() {
        Some(Values::Numbers(values)) => Ok(values),
        _ => Err(errors::data("predictions are numbers")),
    }
}

/// The scores of all rows of several tables of as many rows each, on all threads: `[table][output][row]`. `inputs(table, start,
/// len)`: those of some rows.
pub fn scores_of_tables(
    model: &Applied,
    tables: usize,
    rows: usize,
    inputs: impl Fn(usize, usize, usize) -> PolarsResult<Inputs> + Sync,
) -> PolarsResult<Vec<Vec<Vec<f64>>>> {
    let block = if model.is_remote() { rows.max(1) } else { BLOCK };
    let blocks = rows.div_ceil(block);
    let parts = for_blocks(tables * blocks, 1, |part, _| {
        let (table, start) = (part / blocks, part % blocks * block);
        scores(model, &inputs(table, start, block.min(rows - start))?)
    });
    let mut parts = parts.into_iter();
    let of_table = |_| {
        let mut all = vec![Vec::with_capacity(rows); model.fitted().facts().outputs];
        for part in parts.by_ref().take(blocks) {
            all.iter_mut().zip(part?).for_each(|(all, part)| all.extend(part));
        }
        Ok(all)
    };
    (0..tables).map(of_table).collect()
}
