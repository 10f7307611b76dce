//! What a model is measured on: one model, its rows, their targets and weights, and its predictions of them.

use super::applied::{Applied, Inputs};
use super::{BLOCK, Background, MODEL, Ready, Table, distinct_models, models_of, ready_against};
use crate::categories;
use crate::columns::Numbers;
use crate::metrics::metric_from_json;
use crate::several::{self, SeveralTargets};
use crate::target::class_codes;
use crate::threads::for_blocks;
use crate::{errors, labels};
use polars::prelude::*;
use std::sync::Arc;
use taiga_engine::dataset::row_groups::RowGroups;
use taiga_engine::dataset::weights::row_weights;
use taiga_engine::dataset::{ClassWeight, Input, Target};
use taiga_engine::error::RowsFault;
use taiga_engine::learners::applied::{Output, Values};
use taiga_engine::losses::LossKind;
use taiga_engine::metrics::{MetricSpec, Rows};
use taiga_engine::model::score::{rows_of, score};

/// The metric that Python names, as JSON.
///
/// # Errors
/// For one that there is not.
pub fn metric_of(json: Option<&str>) -> PolarsResult<Option<MetricSpec>> {
    json.map(metric_from_json).transpose()
}

/// The inputs of a call: the model, and structs of the target and of what rows weigh where these are told, then the columns.
pub struct Call<'a> {
    pub model: &'a Series,
    pub target: Option<&'a Series>,
    pub weight: Option<&'a Series>,
    /// The groups of the rows, and what metrics of one's own read.
    pub group: Option<&'a Series>,
    pub of_metric: Option<&'a Series>,
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
}

impl Measured {
    /// Reads the inputs; none where the model is null.
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
            if own != wanted {
                return Err(errors::column(weight.name(), text()));
            }
        }
        let first = target.as_ref().or(weight.as_ref());
        let table = Table::new(first.map_or(1, |s| s.len()), call.columns)?;
        if let Some(first) = first.filter(|s| s.len() != table.rows) {
            let text = format!("it has {} rows and the columns have {}", first.len(), table.rows);
            return Err(errors::column(first.name(), text));
        }
        if table.rows == 0 {
            return Err(errors::of_rows(RowsFault::Degenerate, "there are no rows to measure"));
        }
        let ready = ready_against(bytes, call.device, call.rounds, call.background)?;
        let values = target.map(|target| Truth::new(&target, &ready.model)).transpose()?.map_or(vec![], |truth| truth.values());
        let weight = weight.map(|weight| weights(&weight, &values)).transpose()?;
        let beside = Beside::new(call, table.rows)?;
        Ok(Some(Measured { ready, table, target: values, weight, groups: beside.groups, of_metric: beside.of_metric }))
    }

    /// What the model reads.
    pub fn inputs(&self) -> PolarsResult<Inputs> {
        self.table.inputs(&self.ready)
    }

    /// Measures scores of the rows, or predictions of a model that has no scores, `[output][row]`.
    /// `columns`: what the metric reads beside the target.
    pub fn score(&self, metric: &MetricSpec, scores: &[Vec<f64>], columns: &[Vec<f64>]) -> PolarsResult<f64> {
        let scoring = self.ready.model.fitted().scoring();
        let (weight, groups) = (self.weight.as_deref(), self.groups.as_ref());
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
        self.weight = Some(weight.into_iter().filter(|w| *w != 0.0).collect());
        self.table.rows = counts.iter().filter(|c| **c).count();
        Ok(self)
    }
}

/// What metrics read of the rows beside target and weight.
struct Beside {
    groups: Option<RowGroups>,
    of_metric: Vec<(String, Vec<f64>)>,
}

impl Beside {
    fn new(call: &Call<'_>, rows: usize) -> PolarsResult<Beside> {
        let check = |series: &Series| match series.len() == rows {
            true => Ok(()),
            false => Err(errors::column(series.name(), format!("it has {} rows where others have {rows}", series.len()))),
        };
        let of_group = |series: &Series| {
            let own = role(series)?;
            check(&own)?;
            Ok::<_, PolarsError>(RowGroups::new(&categories::groups(&own)?))
        };
        let mut of_metric = vec![];
        for column in call.of_metric.map(|s| Ok::<_, PolarsError>(s.struct_()?.fields_as_series())).transpose()?.into_iter().flatten() {
            check(&column)?;
            of_metric.push((column.name().to_string(), Numbers::finite(&column, "a column that a metric reads")?.column().to_f64()));
        }
        Ok(Beside { groups: call.group.map(of_group).transpose()?, of_metric })
    }
}

/// What a model's rows are measured against.
enum Truth {
    Numbers(Numbers),
    Classes(Vec<u32>),
    Several(SeveralTargets),
}

impl Truth {
    fn new(target: &Series, model: &Applied) -> PolarsResult<Self> {
        let scoring = model.fitted().scoring();
        if let Some(names) = model.fields(false).filter(|_| scoring.params.targets > 0) {
            let loss = if model.fitted().loss() == LossKind::Multilabel.name() { LossKind::Multilabel } else { LossKind::Rmse };
            let Some(loss) = several::loss_of(target.name(), target.dtype(), loss)? else {
                let text = format!(
                    "its type is {}; the model has {}, in a struct or in lists",
                    target.dtype(),
                    errors::count(names.len(), "target", "targets")
                );
                return Err(errors::mistyped(target.name(), text));
            };
            return Ok(Truth::Several(SeveralTargets::new(target, loss, None, Some(&names))?));
        }
        Ok(match model.labels() {
            None => Truth::Numbers(Numbers::finite(target, "a target")?),
            Some(own) => {
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
pub fn role(input: &Series) -> PolarsResult<Series> {
    match input.struct_()?.fields_as_series().as_slice() {
        [one] => Ok(one.clone()),
        several => Err(errors::data(format!("the target, and a weight, are one column each, not {}", several.len()))),
    }
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
