//! `predict`: a model (or one a row) and columns in, predictions out; elementwise, so it streams. Beside it what predictions are
//! measured by: `score`, `importance`.

mod applied;
mod importance;
pub mod measured;
mod output;
pub mod score;
pub mod wanted;

use crate::cache::Cache;
use crate::errors::{self, guarded};
use crate::export::{Answer, Length, export};
use crate::monitor::{self, expression};
use crate::threads::{default_threads, for_blocks};
use crate::{columns, schema};
use applied::{Applied, Inputs};
use output::{Outputs, PredictKwargs};
use polars::prelude::*;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use wanted::Wanted;

/// A streaming query calls with about 100,000 rows at a time on all threads; whoever calls with
/// more than this does not, so the rows are dealt to threads here, in blocks of [`BLOCK`].
const PARALLEL_ABOVE: usize = 1 << 18;
const BLOCK: usize = 1 << 16;

/// Fewer rows are dealt too where they meet so many trees together, which take one thread tens of milliseconds, in blocks of so many rows
/// at the least.
const MANY_WALKS: usize = 1 << 23;
const LEAST_BLOCK: usize = 1 << 10;

/// More models than these are applied in turn where rows are few: those of groups, in parts of a query that streams.
const FEW_MODELS: usize = 64;

/// To explain a row takes as long as to predict hundreds.
const EXPLAINED_BLOCK: usize = 1 << 12;

/// So many rows, or a model of so many bytes, may take longer than some milliseconds.
const LONG: usize = 1 << 10;
const LARGE: usize = 1 << 20;

/// A model on its device, and the columns that it reads.
pub struct Ready {
    model: Applied,
    wanted: Wanted,
}

impl Ready {
    fn new(bytes: &[u8], device: &str, rounds: Option<usize>) -> PolarsResult<Self> {
        let model = Applied::new(bytes, device, rounds)?;
        Ok(Ready { wanted: Wanted::of_model(model.fitted()), model })
    }
}

/// Models parsed, and those on the devices that were named for them or cut to their first rounds.
static PARSED: Cache<Ready> = Cache::new();
static PLACED: Cache<Ready> = Cache::new();
/// And those that explain against a background.
static AGAINST: Cache<Ready> = Cache::new();

/// What plans are held against, parsed.
static WANTED: Cache<Wanted> = Cache::new();

/// The model of these bytes, or its first rounds of so many, on a device.
fn ready(bytes: &[u8], device: &str, rounds: Option<usize>) -> PolarsResult<Arc<Ready>> {
    match (device, rounds) {
        ("auto" | "cpu", None) => PARSED.get(bytes, |bytes| Ready::new(bytes, device, None)),
        _ => {
            let place = format!("{device}\0{}\0", rounds.unwrap_or_default());
            PLACED.get(&[place.as_bytes(), bytes].concat(), |_| Ready::new(bytes, device, rounds))
        }
    }
}

/// The rows to compare with, and what tells them from others.
pub struct Background<'a> {
    digest: &'a str,
    rows: Table,
}

impl<'a> Background<'a> {
    /// Those of a list of structs.
    fn new(list: &Series, digest: &'a str) -> PolarsResult<Self> {
        let lists = list.list()?.slice(0, 1);
        if lists.null_count() > 0 {
            return Err(errors::data("the background is null"));
        }
        // The values of a list taken by itself would lose what their types say beside their numbers: scales, units, categories.
        let rows = lists.into_series().explode(ExplodeOptions { empty_as_null: false, keep_nulls: false })?;
        if rows.is_empty() {
            return Err(errors::data("background: it has no rows"));
        }
        Ok(Background { digest, rows: Table::new(rows.len(), &[rows])? })
    }

    /// The model of these bytes, or its first rounds of so many, which explains against these rows.
    fn ready(&self, bytes: &[u8], device: &str, rounds: Option<usize>) -> PolarsResult<Arc<Ready>> {
        let place = format!("{}\0{device}\0{}\0", self.digest, rounds.unwrap_or_default());
        AGAINST.get(&[place.as_bytes(), bytes].concat(), |_| {
            let ready = Ready::new(bytes, device, rounds)?;
            let inputs = self.rows.inputs(&ready).map_err(|e| e.context("background".into()))?;
            ready.model.set_background(&inputs)?;
            Ok(ready)
        })
    }
}

/// The model of these bytes, or its first rounds of so many, on a device, which explains against a background where there is one.
fn ready_against(bytes: &[u8], device: &str, rounds: Option<usize>, background: Option<&Background<'_>>) -> PolarsResult<Arc<Ready>> {
    match background {
        Some(background) => background.ready(bytes, device, rounds),
        None => ready(bytes, device, rounds),
    }
}

/// The columns of a model or an encoder that Python has read, of this text.
pub fn wanted(json: &str) -> PolarsResult<Arc<Wanted>> {
    WANTED.get(json.as_bytes(), Wanted::from_json)
}

/// The columns of one call, by name; all of the same length.
pub struct Table {
    columns: Vec<Series>,
    by_name: HashMap<PlSmallStr, usize>,
    rows: usize,
}

impl Table {
    /// The table of these columns; `other`: the length of what stands beside them, models or a target.
    fn new(other: usize, features: &[Series]) -> PolarsResult<Self> {
        let mut columns = columns::unnest(features)?;
        let lengths = || std::iter::once(other).chain(columns.iter().map(|s| s.len()));
        let rows = lengths().find(|n| *n != 1).unwrap_or(1);
        if lengths().any(|n| n != 1 && n != rows) {
            return Err(errors::data(format!("the inputs differ in length: {:?}", lengths().collect::<Vec<_>>())));
        }
        let mut by_name = HashMap::new();
        for (i, column) in columns.iter_mut().enumerate() {
            if column.len() != rows {
                *column = column.new_from_index(0, rows);
            }
            if by_name.insert(column.name().clone(), i).is_some() {
                return Err(errors::twice(column.name(), "column"));
            }
        }
        Ok(Table { columns, by_name, rows })
    }

    /// The column of a name, if it is here.
    fn column(&self, name: &str) -> Option<&Series> {
        Some(&self.columns[*self.by_name.get(name)?])
    }

    /// What a model reads of it.
    fn inputs(&self, ready: &Ready) -> PolarsResult<Inputs> {
        let names = || self.columns.iter().map(|s| s.name().as_str());
        ready.wanted.check(|name| self.column(name).map(|s| s.dtype()), names)?;
        ready.model.inputs(|name| self.column(name))
    }
}

/// The distinct models of a column, and the rows of each; rows whose model is null are in none.
pub fn distinct_models(models: &BinaryChunked) -> (Vec<&[u8]>, Vec<Vec<usize>>) {
    let mut distinct: Vec<&[u8]> = vec![];
    let mut rows: Vec<Vec<usize>> = vec![];
    let mut by_content: HashMap<&[u8], usize> = HashMap::new();
    let mut row = 0;
    for chunk in models.downcast_iter() {
        // Rows that a join or a gather made equal share the view; only then is content compared.
        let mut by_view: HashMap<u128, usize> = HashMap::new();
        let mut last: Option<(u128, usize)> = None;
        for (i, view) in chunk.views().iter().enumerate() {
            if let Some(bytes) = chunk.get(i) {
                let view = view.as_u128();
                let k = match last {
                    Some((v, k)) if v == view => k,
                    _ => *by_view.entry(view).or_insert_with(|| {
                        *by_content.entry(bytes).or_insert_with(|| {
                            distinct.push(bytes);
                            rows.push(vec![]);
                            distinct.len() - 1
                        })
                    }),
                };
                last = Some((view, k));
                rows[k].push(row);
            }
            row += 1;
        }
    }
    (distinct, rows)
}

/// One model for all rows.
fn predict_all(ready: &Ready, table: &Table, output: &Outputs) -> PolarsResult<Series> {
    let model = &ready.model;
    output.check(model)?;
    let bytes = output.bytes_a_row(model).saturating_mul(table.rows as u64);
    errors::check_memory(
        || format!("the predictions of {} rows", table.rows),
        bytes,
        "predict fewer rows at a time (a lazy query streams)",
    )?;
    let inputs = table.inputs(ready)?;
    let (above, mut block) = if output.is_explained() { (EXPLAINED_BLOCK, EXPLAINED_BLOCK) } else { (PARALLEL_ABOVE, BLOCK) };
    let many_walks = table.rows.saturating_mul(model.fitted().facts().trees) >= MANY_WALKS;
    if many_walks {
        block = block.min((table.rows / (4 * default_threads())).max(LEAST_BLOCK));
    }
    let dealt = (table.rows > above || many_walks) && !model.is_remote();
    let block = if dealt { block } else { table.rows.max(1) };
    let work = |start: usize, len: usize| output.apply(model, &inputs.slice(start, len), len);
    // At least one block, so that no rows give an empty series of the right type.
    let mut parts = if table.rows == 0 { vec![work(0, 0)] } else { for_blocks(table.rows, block, work) }.into_iter();
    let mut out = parts.next().ok_or_else(|| errors::data("no rows"))??;
    for part in parts {
        out.append(&part?)?;
    }
    Ok(out)
}

/// A model for each row: rows are gathered by model, predicted, and put back in their order.
fn predict_each(
    models: &BinaryChunked,
    table: &Table,
    output: &Outputs,
    ready: impl Fn(&[u8]) -> PolarsResult<Arc<Ready>> + Sync,
) -> PolarsResult<Series> {
    let (distinct, rows) = distinct_models(models);
    let work = |first: usize, count: usize| -> PolarsResult<Vec<Series>> {
        (first..first + count)
            .map(|k| {
                let ready = ready(distinct[k])?;
                output.check(&ready.model)?;
                let inputs = table.inputs(&ready)?.gather(&rows[k])?;
                output.apply(&ready.model, &inputs, rows[k].len())
            })
            .collect()
    };
    // Few models are applied side by side: of folds, say, whose rows come all at once.
    let serial = distinct.len() > FEW_MODELS && table.rows <= PARALLEL_ABOVE;
    let block = if serial { distinct.len() } else { distinct.len().div_ceil(64).max(1) };
    let mut parts = Series::new_empty(output::NAME.into(), &output.dtype());
    for block in for_blocks(distinct.len(), block, work) {
        for part in block? {
            parts.append(&part)?;
        }
    }
    let mut place: Vec<Option<IdxSize>> = vec![None; table.rows];
    for (at, row) in rows.iter().flatten().enumerate() {
        place[*row] = Some(at as IdxSize);
    }
    parts.rechunk().take(&IdxCa::new("".into(), place))
}

/// The models (`a model`, or what else is Binary) as a Binary column; a column of nothing but nulls
/// is one as well.
pub fn models_of<'a>(series: &'a Series, what: &str) -> PolarsResult<Cow<'a, BinaryChunked>> {
    match series.dtype() {
        DataType::Binary => Ok(Cow::Borrowed(series.binary()?)),
        DataType::Null => Ok(Cow::Owned(series.cast(&DataType::Binary)?.binary()?.clone())),
        dtype => Err(no_model(series.name(), dtype, what)),
    }
}

/// Checks the type of a column of models, as [`models_of`] does.
pub fn check_models(field: &Field, what: &str) -> PolarsResult<()> {
    match field.dtype() {
        DataType::Binary | DataType::Null | DataType::Unknown(_) => Ok(()),
        dtype => Err(no_model(field.name(), dtype, what)),
    }
}

fn no_model(name: &str, dtype: &DataType, what: &str) -> PolarsError {
    errors::mistyped(name, format!("its type is {dtype}; {what} gives it"))
}

/// What models are, and who makes them.
const MODEL: &str = "a model is Binary, as fit_gbdt";

/// Checks what names and types tell of a call: of its model, and of the columns for it; `known`: what Python says the model reads.
fn check(model: &Field, columns: &[Field], known: Option<&String>) -> PolarsResult<()> {
    check_models(model, MODEL)?;
    let columns = schema::unnest(columns);
    schema::check_names(&columns, "column")?;
    let Some(json) = known else { return Ok(()) };
    let by_name: HashMap<&str, &DataType> = columns.iter().map(|f| (f.name().as_str(), f.dtype())).collect();
    wanted(json)?.check(|name| by_name.get(name).copied(), || columns.iter().map(|f| f.name().as_str()))
}

/// The bytes of the only model, 0 where there are several.
fn model_bytes(models: &Series) -> usize {
    models.binary().ok().filter(|m| m.len() == 1).and_then(|m| m.get(0)).map_or(0, <[u8]>::len)
}

fn prediction_field(inputs: &[Field], kwargs: PredictKwargs) -> PolarsResult<Field> {
    guarded("predict", || {
        let first = 1 + kwargs.background.is_some() as usize;
        check(&inputs[0], inputs.get(first..).unwrap_or_default(), kwargs.wanted.as_ref())?;
        Ok(Field::new(output::NAME.into(), Outputs::new(&kwargs)?.dtype()))
    })
}

/// `inputs`: the model (one, or one a row), the background where there is one, then the columns.
fn predict(inputs: &[Series], kwargs: PredictKwargs) -> Answer {
    let rows = monitor::rows(inputs);
    expression("predict", rows >= LONG || model_bytes(&inputs[0]) >= LARGE, || {
        let output = Outputs::new(&kwargs)?;
        let models = models_of(&inputs[0], MODEL)?;
        let (background, columns) = match (&kwargs.background, &inputs[1..]) {
            (Some(digest), [list, columns @ ..]) => (Some(Background::new(list, digest)?), columns),
            (_, columns) => (None, columns),
        };
        let ready = |bytes: &[u8]| ready_against(bytes, &kwargs.device, kwargs.rounds, background.as_ref());
        let table = Table::new(inputs[0].len(), columns)?;
        let single = (models.len() == 1).then(|| models.get(0)).flatten();
        match single {
            Some(bytes) => predict_all(&*ready(bytes)?, &table, &output),
            None if models.len() == 1 => Ok(Series::full_null(output::NAME.into(), table.rows, &output.dtype())),
            None => predict_each(&models, &table, &output, ready),
        }
    })
}

export!(predict, prediction_field, PredictKwargs, Length::Rows);
