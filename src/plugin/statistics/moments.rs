//! Bins of a temporal column: edges of its own type, and the bin of each row, both in whole units of the column's integers.

use crate::errors;
use crate::threads::for_blocks;
use polars::prelude::*;
use serde::Deserialize;
use taiga_engine::stats::{AxisParams, ColumnValue, MinMax};

const BLOCK: usize = 1 << 20;
const DEFAULT_BINS: usize = 10;

/// Dates, times or durations that Python gives for a column whose type it does not know.
#[derive(Clone, Deserialize)]
pub struct Moments {
    /// `range` or `bins`.
    parameter: String,
    /// Of each: `date`, `datetime` (without a zone), `instant` (with one), `time` or `duration`; seconds, since 1970 or midnight where it
    /// is none; and nanoseconds beyond them.
    values: Vec<(String, i64, i64)>,
}

/// Whether histograms of a column of this type have edges of its own type.
pub fn is_temporal(dtype: &DataType) -> bool {
    matches!(dtype, DataType::Date | DataType::Datetime(..) | DataType::Duration(_) | DataType::Time)
}

/// The type of the edges for a column of a type.
pub fn edge_type(dtype: &DataType) -> DataType {
    if is_temporal(dtype) { dtype.clone() } else { DataType::Float64 }
}

/// The nanoseconds of a type's unit, what it takes for an edge, and what users call that.
fn unit(dtype: &DataType) -> (i128, &'static [&'static str], &'static str) {
    let nanoseconds = |unit: &TimeUnit| match unit {
        TimeUnit::Milliseconds => 1_000_000,
        TimeUnit::Microseconds => 1_000,
        TimeUnit::Nanoseconds => 1,
    };
    match dtype {
        DataType::Date => (86_400_000_000_000, &["date"], "dates"),
        DataType::Datetime(unit, None) => (nanoseconds(unit), &["datetime", "date"], "datetimes without a time zone, or dates"),
        DataType::Datetime(unit, Some(_)) => (nanoseconds(unit), &["instant"], "datetimes with a time zone"),
        DataType::Duration(unit) => (nanoseconds(unit), &["duration"], "durations (timedelta)"),
        _ => (1, &["time"], "times"),
    }
}

impl Moments {
    /// Whether these are all edges, not the outer ones.
    pub fn are_all(&self) -> bool {
        self.parameter.starts_with("bins")
    }

    /// The values as a column of this type has them, ascending.
    fn of_type(&self, dtype: &DataType) -> Result<Vec<i64>, String> {
        let (unit, kinds, called) = unit(dtype);
        let mut out = Vec::with_capacity(self.values.len());
        for (kind, seconds, nanoseconds) in &self.values {
            if !kinds.contains(&kind.as_str()) {
                let given = match kind.as_str() {
                    "datetime" => "a datetime without a time zone",
                    "instant" => "a datetime with a time zone",
                    other => other,
                };
                return Err(format!("its type is {dtype}, and edges are {called}, not {given}"));
            }
            let all = *seconds as i128 * 1_000_000_000 + *nanoseconds as i128;
            if all % unit != 0 {
                return Err(format!("edge {} is finer than its type, {dtype}", out.len()));
            }
            out.push(i64::try_from(all / unit).map_err(|_| format!("edge {} is beyond what its type, {dtype}, holds", out.len()))?);
        }
        match out.windows(2).position(|w| w[0] > w[1]) {
            Some(i) => Err(format!("edges must ascend, and edge {} lies before edge {i}", i + 1)),
            None => Ok(out),
        }
    }
}

/// Checks what the user says of a column's bins against its type, and gives the edges that are given, or the outer ones.
///
/// # Errors
/// For numbers where the column is temporal, and the other way round, naming the parameter and the column.
pub fn check(field: &Field, params: &AxisParams, moments: Option<&Moments>) -> PolarsResult<Option<Vec<i64>>> {
    let wrong = |parameter: &str, what: String| Err(errors::mistyped(field.name(), format!("parameter `{parameter}`: {what}")));
    let dtype = field.dtype();
    match moments {
        Some(own) if !is_temporal(dtype) => wrong(&own.parameter, format!("its type is {dtype}, and edges are numbers")),
        Some(own) => own.of_type(dtype).map(Some).or_else(|what| wrong(&own.parameter, what)),
        None if is_temporal(dtype) && (params.range.is_some() || params.edges.is_some()) => {
            let parameter = if params.range.is_some() { "range" } else { "bins" };
            wrong(parameter, format!("its type is {dtype}, and edges are {}, not numbers", unit(dtype).2))
        }
        None => Ok(None),
    }
}

/// The bins of a temporal column: `edges[i] <= x < edges[i + 1]`, the last one closed.
pub struct TemporalBins {
    pub edges: Vec<i64>,
    /// Bins per unit where they are as wide as each other, up to a unit.
    per_unit: Option<f64>,
}

impl TemporalBins {
    /// By `given` (all edges where `all`, else the outer ones), or from the smallest to the largest value: `params.bins` of them, each
    /// edge moved up to the next whole unit, so that a value lies where it would without. No edge lies beyond what the column's type holds.
    pub fn new(dtype: &DataType, params: &AxisParams, given: Option<Vec<i64>>, all: bool, extremes: Option<MinMax>) -> Self {
        let given = match given {
            Some(edges) if all => return TemporalBins { edges, per_unit: None },
            Some(outer) => Some((outer[0], outer[1])),
            None => None,
        };
        let integer = |x: ColumnValue| if let ColumnValue::Integer(x) = x { x as i64 } else { 0 };
        let (mut first, mut last) = given.or(extremes.map(|f| (integer(f.min), integer(f.max)))).unwrap_or((0, 1));
        if first == last {
            let (least, most) = match dtype {
                DataType::Date => (i64::from(i32::MIN), i64::from(i32::MAX)),
                DataType::Time => (0, 86_400_000_000_000 - 1),
                _ => (i64::MIN, i64::MAX),
            };
            (first, last) = (first.saturating_sub(1).max(least), last.saturating_add(1).min(most));
        }
        let bins = params.bins.map_or(DEFAULT_BINS, |bins| bins as usize);
        let span = last as i128 - first as i128;
        let edge = |i: usize| (first as i128 + (i as i128 * span + bins as i128 - 1) / bins as i128) as i64;
        TemporalBins { edges: (0..=bins).map(edge).collect(), per_unit: Some(bins as f64 / span as f64) }
    }

    /// The number of bins.
    pub fn bins(&self) -> usize {
        self.edges.len() - 1
    }

    /// The bin that a value lies in, if any.
    fn bin(&self, x: i64) -> Option<u32> {
        let (edges, last) = (&self.edges, self.bins());
        if x < edges[0] || x > edges[last] {
            return None;
        }
        if x == edges[last] {
            return Some(last as u32 - 1);
        }
        let Some(per_unit) = self.per_unit else { return Some(edges.partition_point(|edge| *edge <= x) as u32 - 1) };
        // A guess, off by rounding alone.
        let mut bin = (((x as i128 - edges[0] as i128) as f64 * per_unit) as usize).min(last - 1);
        while edges[bin] > x {
            bin -= 1;
        }
        while edges[bin + 1] <= x {
            bin += 1;
        }
        Some(bin as u32)
    }

    /// The bin of each row of a column; null for one outside.
    ///
    /// # Errors
    /// Where the process can't have the memory.
    pub fn codes(&self, column: &Series) -> PolarsResult<Series> {
        let (name, rows) = (column.name().clone(), column.len());
        errors::check_memory(|| format!("the bins of {rows} rows"), 5 * rows as u64, "count fewer rows")?;
        let parts = for_blocks(rows, BLOCK, |start, len| -> PolarsResult<UInt32Chunked> {
            let physical = column.slice(start as i64, len).to_physical_repr().cast(&DataType::Int64)?;
            Ok(physical.i64()?.iter().map(|x| self.bin(x?)).collect())
        });
        let mut codes = UInt32Chunked::from_vec(name, vec![]);
        for part in parts {
            codes.append(&part?)?;
        }
        Ok(codes.into_series())
    }

    /// What the engine counts the codes by.
    pub fn axis(&self) -> AxisParams {
        AxisParams { bins: Some(self.bins() as i64), range: Some((0.0, self.bins() as f64)), edges: None }
    }

    /// The width of a bin in the column's units.
    pub fn width(&self, bin: usize) -> f64 {
        (self.edges[bin + 1] as i128 - self.edges[bin] as i128) as f64
    }

    /// The edges at these places, as the column's type.
    ///
    /// # Errors
    /// None for the types of [`is_temporal`].
    pub fn series(&self, name: &str, dtype: &DataType, at: impl Iterator<Item = usize>) -> PolarsResult<Series> {
        let physical = Int64Chunked::from_vec(name.into(), at.map(|i| self.edges[i]).collect());
        match dtype {
            // A cast would lose the zone.
            DataType::Datetime(unit, zone) => Ok(physical.into_datetime(*unit, zone.clone()).into_series()),
            _ => physical.into_series().cast(&dtype.to_physical())?.cast(dtype),
        }
    }
}
