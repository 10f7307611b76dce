//! `importance`: a model and columns in, how much each column matters to the model's predictions out.

use super::applied::Inputs;
use super::measured::{Call, Measured, Roles, bytes_of_scores, metric_of, scores, scores_of_tables};
use super::{BLOCK, Background, check};
use crate::errors;
use crate::export::{Answer, Length, export};
use crate::fit::OnError;
use crate::monitor::expression;
use crate::threads::{default_threads, for_blocks, on_all_threads};
use polars::prelude::*;
use rayon::prelude::*;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use taiga_engine::memory::{Reservation, reserve};
use taiga_engine::metrics::MetricSpec;
use taiga_engine::model::importance::{Losses, Sizes, block_rows, loss_changes, mean_sizes, shuffled, worse_by};
use taiga_engine::numerics::reduce::total_weight;
use taiga_engine::shap::{Explanation, Terms};

/// What importance is measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    /// The mean size of a column's Shapley values.
    Shap,
    /// How much worse predictions are where a column is shuffled.
    Permutation,
    /// How much the loss grows where a column's Shapley values are taken from the predictions.
    LossChange,
}

/// What Python says of an importance.
#[derive(Deserialize)]
pub struct ImportanceKwargs {
    kind: Kind,
    /// Whether the second input is the target, and the next one what rows weigh.
    target: bool,
    weight: bool,
    /// Whether the next one is the rows' groups, and the roles of those behind it that say when events happened.
    #[serde(default)]
    group: bool,
    #[serde(default)]
    times: Vec<String>,
    /// What is measured where columns are shuffled; by the model unless told.
    metric: Option<String>,
    /// How often each column is shuffled.
    repeats: usize,
    seed: u64,
    on_error: OnError,
    rounds: Option<usize>,
    /// As in [`PredictKwargs`](super::output::PredictKwargs).
    background: Option<String>,
    device: String,
    wanted: Option<String>,
}

impl ImportanceKwargs {
    /// The number of inputs before the columns.
    fn first(&self) -> usize {
        self.behind_roles() + self.background.is_some() as usize
    }

    fn behind_roles(&self) -> usize {
        1 + self.target as usize + self.weight as usize + self.group as usize + self.times.len()
    }

    /// What stands between the model and the background.
    fn roles<'a, T>(&'a self, inputs: &'a [T]) -> Roles<'a, T> {
        Roles::new(&inputs[1..self.behind_roles()], [self.target, self.weight, self.group, false], &self.times)
    }
}

fn dtype() -> DataType {
    let fields = vec![Field::new("feature".into(), DataType::String), Field::new("importance".into(), DataType::Float64)];
    DataType::List(Box::new(DataType::Struct(fields)))
}

/// Rows with what explains them.
struct Explained<'a> {
    measured: &'a Measured,
    inputs: Inputs,
}

impl Explained<'_> {
    /// `of_block(inputs, explanation, rows)` of each block of rows, on all threads.
    fn blocks<T: Send>(&self, of_block: impl Fn(&Inputs, &Explanation, Range<usize>) -> PolarsResult<T> + Sync) -> PolarsResult<Vec<T>> {
        let model = &self.measured.ready.model;
        let block = block_rows(model.explained_columns().len(), model.fitted().facts().outputs);
        let parts = for_blocks(self.measured.table.rows, block, |start, len| {
            let inputs = self.inputs.slice(start, len);
            let (_, explanation) = model.explain(&inputs, Terms::Values)?;
            of_block(&inputs, &explanation, start..start + len)
        });
        parts.into_iter().collect()
    }

    fn weight(&self, rows: Range<usize>) -> Option<&[f64]> {
        self.measured.weight.as_deref().map(|w| &w[rows])
    }

    fn mean_sizes(&self) -> PolarsResult<Vec<f64>> {
        let blocks = self.blocks(|_, explanation, rows| Ok(Sizes::of_block(explanation, self.weight(rows))))?;
        Ok(mean_sizes(&blocks, total_weight(self.measured.table.rows, self.measured.weight.as_deref())))
    }

    fn loss_changes(&self) -> PolarsResult<Vec<f64>> {
        let model = &self.measured.ready.model;
        let scoring = model.fitted().scoring();
        if scoring.params.targets > 1 {
            return Err(errors::data(
                "kind=\"loss_change\" shares out the loss of one target, and the model has several; kind=\"shap\" and \"permutation\" will do",
            ));
        }
        let metric = MetricSpec::from(scoring.metric);
        if metric.reads_groups() || metric.reads_times() {
            return self.loss_changes_of_rows_together(&metric);
        }
        let blocks = self.blocks(|inputs, explanation, rows| {
            let target = &self.measured.target[rows.clone()];
            Losses::of_block(&scoring, &scores(model, inputs)?, explanation, target, self.weight(rows)).map_err(errors::compute)
        })?;
        Ok(loss_changes(&scoring, &blocks))
    }

    /// The same of a loss that is no mean over rows: of their ranks in groups, or of who was at risk when others had their events.
    fn loss_changes_of_rows_together(&self, metric: &MetricSpec) -> PolarsResult<Vec<f64>> {
        let (model, rows) = (&self.measured.ready.model, self.measured.table.rows);
        let (columns, outputs) = (model.explained_columns().len(), model.fitted().facts().outputs);
        // The Shapley values of all rows, their scores, and those without a column, on each thread.
        let bytes = bytes_of_scores(model, rows).saturating_mul((2 * columns + 1 + default_threads()) as u64);
        let what = format!("the Shapley values of {rows} rows that are measured together");
        let _reserved = reserve(&what, bytes, "measure fewer rows at a time").map_err(errors::compute)?;
        let (mut own, mut values) = (vec![Vec::with_capacity(rows); outputs], vec![vec![Vec::with_capacity(rows); columns]; outputs]);
        for (predicted, explanation) in self.blocks(|inputs, explanation, _| Ok((scores(model, inputs)?, explanation.values.clone())))? {
            own.iter_mut().zip(predicted).for_each(|(all, block)| all.extend(block));
            for (all, block) in values.iter_mut().zip(explanation) {
                all.iter_mut().zip(block).for_each(|(all, block)| all.extend(block));
            }
        }
        let with = self.measured.score(metric, &own)?;
        let without = |column: usize| {
            let less = |(own, values): (&Vec<f64>, &Vec<Vec<f64>>)| own.iter().zip(&values[column]).map(|(p, v)| p - v).collect();
            let less: Vec<Vec<f64>> = own.iter().zip(&values).map(less).collect();
            Ok(worse_by(metric, with, self.measured.score(metric, &less)?))
        };
        on_all_threads(|| (0..columns).into_par_iter().map(without).collect())
    }
}

/// Rows whose columns are shuffled one by one.
struct Shuffled<'a> {
    measured: &'a Measured,
    inputs: Inputs,
    metric: MetricSpec,
    seed: u64,
}

impl Shuffled<'_> {
    /// How much worse the metric is in the mean of so many repeats, for each column.
    fn rises(&self, repeats: usize) -> PolarsResult<Vec<f64>> {
        let (model, rows) = (&self.measured.ready.model, self.measured.table.rows);
        let columns = model.explained_columns().len();
        let asked = self.asked_columns(columns);
        // Shuffles in the order of repeats, so that one order of the rows serves neighbours.
        let tables = repeats * asked.len();
        let (at_once, _reserved) = self.room(tables)?;
        let whole = scores_of_tables(model, 1, rows, |_, start, len| Ok(self.inputs.slice(start, len)))?.swap_remove(0);
        let before = self.value(whole)?;
        let mut sums = vec![0.0; columns];
        let mut orders = BTreeMap::new();
        for first in (0..tables).step_by(at_once) {
            let of = |table: usize| ((first + table) / asked.len(), asked[(first + table) % asked.len()]);
            let count = at_once.min(tables - first);
            let wanted = of(0).0..of(count - 1).0 + 1;
            orders.retain(|repeat, _| wanted.contains(repeat));
            for repeat in wanted {
                orders.entry(repeat).or_insert_with(|| on_all_threads(|| shuffled(rows, self.seed, repeat as u64)));
            }
            let scores = scores_of_tables(model, count, rows, |table, start, len| {
                let (repeat, column) = of(table);
                self.inputs.with_column_of(column, start, &orders[&repeat][start..start + len])
            })?;
            let values = on_all_threads(|| scores.into_par_iter().map(|s| self.value(s)).collect::<PolarsResult<Vec<f64>>>())?;
            values.into_iter().enumerate().for_each(|(table, after)| sums[of(table).1] += worse_by(&self.metric, before, after));
        }
        Ok(sums.into_iter().map(|sum| sum / repeats as f64).collect())
    }

    /// The columns that predictions can depend on: of trees those that splits ask about.
    fn asked_columns(&self, columns: usize) -> Vec<usize> {
        let splits = self.measured.ready.model.fitted().importance("split").and_then(Result::ok);
        (0..columns).filter(|column| splits.as_ref().is_none_or(|splits| splits[*column] > 0.0)).collect()
    }

    /// How many tables are predicted at once, and the memory for them: enough to keep all threads busy, fewer where there is little.
    fn room(&self, tables: usize) -> PolarsResult<(usize, Reservation)> {
        let (model, rows) = (&self.measured.ready.model, self.measured.table.rows);
        let (threads, blocks) = (default_threads(), rows.div_ceil(BLOCK));
        let mut at_once = if model.is_remote() { 1 } else { threads.max(4 * threads / blocks).min(tables).max(1) };
        loop {
            // Two orders of the rows, the predictions of the table as it is, and those of the shuffled ones.
            let bytes = bytes_of_scores(model, rows).saturating_mul(at_once as u64 + 1).saturating_add(8 * rows as u64);
            match reserve(&format!("the predictions of {rows} rows with a shuffled column"), bytes, "measure fewer rows at a time") {
                Err(_) if at_once > 1 => at_once /= 2,
                reserved => return Ok((at_once, reserved.map_err(errors::compute)?)),
            }
        }
    }

    fn value(&self, scores: Vec<Vec<f64>>) -> PolarsResult<f64> {
        self.measured.score(&self.metric, &scores)
    }
}

/// The names of the columns and their importance, in the model's order.
fn values_of(inputs: &[Series], kwargs: &ImportanceKwargs) -> PolarsResult<Option<(Vec<String>, Vec<f64>)>> {
    let (first, columns) = inputs.split_at(kwargs.first());
    let roles = kwargs.roles(inputs);
    let (times, Roles { target, weight, group, of_metric, .. }) = (roles.times()?, roles);
    let background = first.get(kwargs.behind_roles()).zip(kwargs.background.as_ref());
    let background = background.map(|(list, digest)| Background::new(list, digest)).transpose()?;
    let (device, rounds, background) = (kwargs.device.as_str(), kwargs.rounds, background.as_ref());
    let call = Call { model: &first[0], target, weight, group, of_metric, times, columns, device, rounds, background };
    let Some(measured) = Measured::new(&call)? else { return Ok(None) };
    let mut measured = measured.without_idle_rows()?;
    if target.is_none() && kwargs.kind != Kind::Shap {
        return Err(errors::data("this kind needs the target"));
    }
    if kwargs.kind == Kind::Permutation {
        // Values are read in any order.
        measured.table.columns.iter_mut().filter(|c| c.n_chunks() > 1).for_each(|c| *c = c.rechunk());
    }
    let (inputs, measured) = (measured.inputs()?, &measured);
    let values = match kwargs.kind {
        Kind::Shap => Explained { measured, inputs }.mean_sizes()?,
        Kind::LossChange => Explained { measured, inputs }.loss_changes()?,
        Kind::Permutation => {
            let metric = metric_of(kwargs.metric.as_deref())?;
            let metric = metric.unwrap_or_else(|| measured.ready.model.fitted().scoring().metric.into());
            Shuffled { measured, inputs, metric, seed: kwargs.seed }.rises(kwargs.repeats)?
        }
    };
    Ok(Some((measured.ready.model.explained_columns(), values)))
}

/// One list of structs, the most important column first.
fn listed((names, values): (Vec<String>, Vec<f64>)) -> PolarsResult<Series> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    let names = StringChunked::from_iter_values("feature".into(), order.iter().map(|i| names[*i].as_str())).into_series();
    let values: Vec<f64> = order.iter().map(|i| values[*i]).collect();
    let values = Float64Chunked::from_vec("importance".into(), values).into_series();
    let lines = StructChunked::from_series("importance".into(), order.len(), [names, values].iter())?.into_series();
    Ok(lines.implode()?.into_series())
}

fn importance_field(inputs: &[Field], kwargs: ImportanceKwargs) -> PolarsResult<Field> {
    errors::guarded("importance", || {
        metric_of(kwargs.metric.as_deref())?;
        check(&inputs[0], &inputs[kwargs.first()..], kwargs.wanted.as_ref())?;
        kwargs.roles(inputs).check(kwargs.wanted.as_ref())?;
        Ok(Field::new("importance".into(), dtype()))
    })
}

/// `inputs`: the model, structs of the target, of what rows weigh, of their groups and of the times of their events where these are told, the
/// background where there is one, then the columns.
fn importance(inputs: &[Series], kwargs: ImportanceKwargs) -> Answer {
    expression("importance", true, || {
        let values = match values_of(inputs, &kwargs) {
            Err(error) if kwargs.on_error == OnError::Null && errors::rows_fault(&error).is_some() => None,
            values => values?,
        };
        values.map_or_else(|| Ok(Series::full_null("importance".into(), 1, &dtype())), listed)
    })
}

export!(importance, importance_field, ImportanceKwargs, Length::One);
