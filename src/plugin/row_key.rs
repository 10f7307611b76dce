//! `row_key`: the rows of a fit in the order of their keys, so that its model is one of the set of its rows; and the receipt of such a fit.

use crate::cells::{Cells, Values, is_plain};
use crate::columns::{self, feature_type, type_text};
use crate::errors;
use crate::export::{Answer, Length, export};
use crate::fit::{MANY, Parts, ROLE};
use crate::monitor;
use crate::schema::{self, InputSchema, is_known};
use crate::threads::on_all_threads;
use polars::prelude::*;
use rayon::prelude::*;
use serde::Deserialize;
use taiga_engine::dataset::row_keys::{KeyOrder, KeyValue, Repeated, hash, order};
use taiga_engine::model::payload::params_text;
use taiga_engine::parallel::interrupt;
use taiga_engine::receipt::{BUCKETS, Buckets, Described, Receipt};

/// The role of the columns that tell rows apart.
const ROW_KEY: &str = "row_key";

/// So many rows are hashed at a time.
const BLOCK: usize = 1 << 13;

/// Checks the types of the columns that tell rows apart, where they are known.
///
/// # Errors
/// Naming a column whose values are no keys.
pub fn check(fields: &InputSchema) -> PolarsResult<()> {
    match fields.all(ROW_KEY).iter().find(|f| is_known(f.dtype()) && !is_plain(f.dtype())) {
        Some(field) => Err(no_key(field.name(), field.dtype())),
        None => Ok(()),
    }
}

fn no_key(name: &str, dtype: &DataType) -> PolarsError {
    let text = format!("its type is {dtype}; a `row_key` is a number, a Boolean, temporal, text or Binary, or several columns of these");
    errors::mistyped(name, text)
}

/// What is fitted beside the rows.
pub struct Description {
    learner: &'static str,
    params: String,
    /// The features that are categories whatever their type.
    categorical: Vec<String>,
    version: String,
}

impl Description {
    /// Of a fit by these parameters, as JSON; `version`: of another version of this package.
    pub fn new(learner: &'static str, params: &serde_json::Value, version: Option<&str>) -> Description {
        let categorical = params.get("categorical").and_then(|names| names.as_array());
        let categorical = categorical.into_iter().flatten().filter_map(|name| name.as_str().map(String::from)).collect();
        let version = version.unwrap_or(env!("CARGO_PKG_VERSION")).into();
        Description { learner, params: params_text(params), categorical, version }
    }

    /// What all processes that fit together say alike before anything of theirs is sent, as JSON.
    pub fn call(&self, metadata: Option<&str>) -> serde_json::Value {
        let mut categorical = self.categorical.clone();
        categorical.sort();
        let metadata = metadata.and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
        serde_json::json!({ "function": self.learner, "version": self.version, "categorical": categorical, "metadata": metadata })
    }

    /// The receipt of a fit of these parts, whose rows lie in these buckets.
    pub fn receipt(&self, parts: &Parts, buckets: &Buckets) -> PolarsResult<Receipt> {
        let feature = |s: &Series| -> PolarsResult<serde_json::Value> {
            let dtype = feature_type(s.name(), s.dtype(), self.is_category(s))?;
            Ok(serde_json::json!(["feature", s.name().as_str(), dtype.to_string()]))
        };
        let mut columns = parts.features.iter().map(feature).collect::<PolarsResult<Vec<_>>>()?;
        for role in parts.roles() {
            let name = role.name().trim_start_matches(ROLE);
            // Keys are the same whatever their type.
            let dtype = |s: &Series| if name == ROW_KEY { String::new() } else { type_text(s.dtype()) };
            let of = |s: &Series| serde_json::json!([name, s.name().as_str(), dtype(s)]);
            columns.extend(parts.all_of(role)?.iter().map(of));
        }
        let fit = Described {
            version: &self.version,
            learner: self.learner,
            params: &self.params,
            init_model: parts.init_model.as_deref(),
            columns: &serde_json::Value::from(columns).to_string(),
        };
        Ok(Receipt::new(&fit, buckets))
    }

    /// The digests of rows in the order of their keys, bucket by bucket.
    pub fn buckets(&self, parts: &Parts, order: &KeyOrder) -> PolarsResult<Buckets> {
        let mut cells = parts.features.iter().map(|s| Cells::new(s, !self.is_category(s))).collect::<PolarsResult<Vec<_>>>()?;
        for role in parts.roles() {
            let is_key = role.name().strip_prefix(ROLE) == Some(ROW_KEY);
            let of = |s: &Series| if is_key { Values::new(s).map(Cells::Values) } else { Cells::new(s, false) };
            cells.extend(columns::unnest(&parts.all_of(role)?)?.iter().map(of).collect::<PolarsResult<Vec<_>>>()?);
        }
        let of = |number: usize| {
            interrupt::poll();
            let (mut own, mut bytes) = (Buckets::default(), vec![]);
            let rows = order.starts[number]..order.starts[number + 1];
            own.push(number, rows.len(), |write| {
                for column in &cells {
                    bytes.clear();
                    column.write(rows.clone(), &mut bytes);
                    write(&bytes);
                }
            });
            own
        };
        let filled: Vec<usize> = (0..BUCKETS).filter(|number| order.starts[*number] < order.starts[number + 1]).collect();
        let mut all = Buckets::default();
        filled.par_iter().with_min_len(8).map(|number| of(*number)).collect::<Vec<_>>().into_iter().for_each(|own| all.append(own));
        Ok(all)
    }

    fn is_category(&self, series: &Series) -> bool {
        columns::is_listed(series.dtype()) || self.categorical.iter().any(|name| name == series.name().as_str())
    }
}

/// The keys of rows.
pub struct RowKeys {
    columns: Vec<(Series, Values)>,
    pub hashes: Vec<u128>,
}

impl RowKeys {
    /// The keys of the rows of a fit; none where no column is named for them.
    ///
    /// # Errors
    /// For values that tell nothing: null and NaN, naming the column and how many.
    pub fn new(parts: &Parts) -> PolarsResult<Option<RowKeys>> {
        let columns = parts.all(ROW_KEY)?;
        columns.iter().try_for_each(|column| parts.check_length(column))?;
        if columns.is_empty() { Ok(None) } else { RowKeys::of(columns, parts.target.len()).map(Some) }
    }

    /// The keys in columns of so many rows.
    fn of(columns: Vec<Series>, count: usize) -> PolarsResult<RowKeys> {
        let bytes = count as u64 * (16 + 16 + 4) + columns.iter().map(|s| s.estimated_size() as u64).sum::<u64>();
        errors::check_memory(|| "the order of the rows' keys".into(), bytes, "fit without `row_key`, on rows that are sorted")?;
        let mut keys = RowKeys { columns: vec![], hashes: vec![0; count] };
        for column in columns {
            if !is_plain(column.dtype()) {
                return Err(no_key(column.name(), column.dtype()));
            }
            let values = Values::new(&column)?;
            let is_nan = |row: &usize| matches!(values.get(*row), KeyValue::Number(x) if x.is_nan());
            let nan = if column.dtype().is_float() { (0..column.len()).filter(is_nan).count() } else { 0 };
            for (n, what) in [(column.null_count(), "null"), (nan, "NaN")] {
                if n > 0 {
                    let text = format!("it is {what} in {n} of {}, and a `row_key` tells rows apart", rows(column.len()));
                    return Err(errors::values(column.name(), text));
                }
            }
            keys.columns.push((column, values));
        }
        let mut hashes = std::mem::take(&mut keys.hashes);
        hashes.par_chunks_mut(BLOCK).enumerate().for_each(|(block, hashes)| {
            interrupt::poll();
            let mut bytes = vec![];
            for (row, own) in (block * BLOCK..).zip(hashes) {
                bytes.clear();
                keys.write(row, &mut bytes);
                *own = hash(&bytes);
            }
        });
        Ok(RowKeys { hashes, ..keys })
    }

    /// Appends the bytes of a row's key.
    fn write(&self, row: usize, out: &mut Vec<u8>) {
        self.columns.iter().for_each(|(_, values)| values.get(row).write(out));
    }

    /// The order of the rows; `ends`: of rows of several processes, where those of each end.
    ///
    /// # Errors
    /// Where a key occurs twice: which, how often, and in which processes.
    pub fn order(&self, ends: &[usize]) -> PolarsResult<KeyOrder> {
        order(&self.hashes, &|row, out| self.write(row, out)).map_err(|repeated| self.repeated(&repeated, ends))
    }

    fn repeated(&self, Repeated { rows: of, others }: &Repeated, ends: &[usize]) -> PolarsError {
        let names: Vec<String> = self.columns.iter().map(|(series, _)| format!("`{}`", series.name())).collect();
        let text = |(series, _): &(Series, Values)| {
            let text = series.get(of[0] as usize).map_or_else(|_| String::new(), |value| errors::shown(&value));
            match text.char_indices().nth(60) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        };
        let values: Vec<String> = self.columns.iter().map(text).collect();
        let (columns, value) = match (&names[..], &values[..]) {
            ([name], [value]) => (format!("column {name}"), value.clone()),
            _ => (format!("columns {}", names.join(", ")), format!("({})", values.join(", "))),
        };
        let mut ranks: Vec<usize> = of.iter().map(|row| ends.partition_point(|end| *end <= *row as usize)).collect();
        ranks.dedup();
        let ranks: Vec<String> = ranks.iter().map(usize::to_string).collect();
        let places = match &ranks[..] {
            _ if ends.is_empty() => String::new(),
            [rank] => format!(" (in the rows of rank {rank})"),
            [first @ .., last] => format!(" (in the rows of ranks {} and {last})", first.join(", ")),
            [] => String::new(),
        };
        let others = match others {
            0 => String::new(),
            n => format!(", and {} more than once too", errors::count(*n, "other key occurs", "other keys occur")),
        };
        let text = format!("{columns}: a `row_key` is another in each row, but {value} is that of {} rows{places}{others}", of.len());
        errors::of_rows(taiga_engine::error::RowsFault::Values, text)
    }
}

fn rows(n: usize) -> String {
    errors::count(n, "row", "rows")
}

/// The parts of a fit with their rows in the order of the keys.
pub struct Keyed {
    pub parts: Parts,
    /// Of each, where it stood.
    pub rows: Vec<IdxSize>,
}

impl Keyed {
    /// Orders the parts of a fit; none where rows have no keys. `description`: of what is fitted, where a receipt is wanted.
    ///
    /// # Errors
    /// For keys that don't tell rows apart.
    pub fn new(parts: &Parts, description: Option<&(dyn Fn() -> Description + Sync)>) -> PolarsResult<Option<Keyed>> {
        let work = || -> PolarsResult<Option<Keyed>> {
            let Some(keys) = RowKeys::new(parts)? else { return Ok(None) };
            let order = keys.order(&[])?;
            drop(keys);
            let mut parts = parts.taken(&order.rows)?;
            if let Some(description) = description.map(|describe| describe()) {
                parts.receipt = Some(description.receipt(&parts, &description.buckets(&parts, &order)?)?);
            }
            Ok(Some(Keyed { parts, rows: order.rows }))
        };
        if parts.target.len() >= MANY && has_key(parts) { on_all_threads(work) } else { work() }
    }

    /// The parts in the order of the keys, where there are keys; `parts` otherwise.
    pub fn parts_of<'a>(keyed: &'a Option<Keyed>, parts: &'a Parts) -> &'a Parts {
        keyed.as_ref().map_or(parts, |keyed| &keyed.parts)
    }

    /// Values of rows in the order of the keys, in the order in which the rows came.
    pub fn as_they_came(&self, values: &[u32]) -> Vec<u32> {
        as_they_came(&self.rows, values)
    }
}

/// Values of `rows`, in the order of these, in that of the rows' numbers.
fn as_they_came(rows: &[IdxSize], values: &[u32]) -> Vec<u32> {
    let mut out = vec![0; values.len()];
    rows.iter().zip(values).for_each(|(row, value)| out[*row as usize] = *value);
    out
}

/// What Python says of an order.
#[derive(Deserialize)]
struct OrderKwargs {
    /// The name of the column.
    name: String,
}

fn order_field(inputs: &[Field], kwargs: OrderKwargs) -> PolarsResult<Field> {
    errors::guarded("row_key_order", || match schema::unnest(inputs).iter().find(|f| is_known(f.dtype()) && !is_plain(f.dtype())) {
        Some(field) => Err(no_key(field.name(), field.dtype())),
        None => Ok(Field::new(kwargs.name.as_str().into(), DataType::UInt32)),
    })
}

/// Of each row its place in the order of the keys.
fn row_key_order(inputs: &[Series], kwargs: OrderKwargs) -> Answer {
    monitor::expression("row_key_order", true, || {
        on_all_threads(|| {
            let order = RowKeys::of(columns::unnest(inputs)?, inputs[0].len())?.order(&[])?;
            let places: Vec<u32> = (0..order.rows.len() as u32).collect();
            let keyed = as_they_came(&order.rows, &places);
            Ok(UInt32Chunked::from_vec(kwargs.name.as_str().into(), keyed).into_series())
        })
    })
}

export!(row_key_order, order_field, OrderKwargs, Length::Rows);

/// Whether rows have keys.
pub fn has_key(parts: &Parts) -> bool {
    parts.all(ROW_KEY).is_ok_and(|columns| !columns.is_empty())
}
