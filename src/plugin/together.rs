//! Fits that several processes make together: what of a table each gets of all rows, before the engine's part begins.

use crate::errors;
use crate::fit::Parts;
use polars::prelude::*;
use pyo3::prelude::*;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use taiga_engine::collective::Collective;
use taiga_engine::collective::tcp::{TcpCollective, TcpOptions};
use taiga_engine::dataset::OwnRows;
use taiga_engine::dataset::own_rows::agree;
use taiga_engine::parallel::fork::PerProcess;

/// Who this process is among those that fit together: what Python's `Collective` says.
#[derive(Deserialize)]
pub struct Together {
    rank: usize,
    world: usize,
    address: String,
    secret: String,
    job: String,
    timeout: f64,
    /// The number of the expression, which is one fit.
    #[serde(default)]
    fit: u64,
}

/// The addresses at which fits of this process are under way.
static IN_USE: PerProcess<Mutex<BTreeSet<(String, usize)>>> = PerProcess::new();

/// The expressions that have been run.
static MADE: PerProcess<Mutex<BTreeSet<u64>>> = PerProcess::new();

/// Checks that an expression is run for the first time: in a `group_by` it would be a fit for each group, and nobody knows which of the
/// other processes' groups belongs to which.
fn check_first_run(fit: u64) -> PolarsResult<()> {
    if MADE.get().lock().unwrap_or_else(PoisonError::into_inner).insert(fit) {
        return Ok(());
    }
    Err(errors::data(
        "parameter `collective`: the expression has been run before: with `collective` it is one fit, not one for each group of a group_by or \
         of `over`; for another fit write it again",
    ))
}

/// An address that no other fit of this process takes meanwhile.
struct Taken((String, usize));

impl Taken {
    /// # Errors
    /// Where another fit has it, as the groups of a `group_by` would.
    fn new(options: &TcpOptions) -> PolarsResult<Taken> {
        let key = (options.address.clone(), options.rank);
        if IN_USE.get().lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone()) {
            return Ok(Taken(key));
        }
        Err(errors::data(format!(
            "parameter `collective`: another fit of this process is under way at {}: fits at one address are made one after the other",
            options.address
        )))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        IN_USE.get().lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

impl Together {
    fn options(&self) -> TcpOptions {
        TcpOptions {
            rank: self.rank,
            world: self.world,
            address: self.address.clone(),
            secret: self.secret.clone(),
            job: self.job.clone(),
            timeout: Duration::try_from_secs_f64(self.timeout).unwrap_or(Duration::ZERO),
        }
    }

    /// Finds the other processes, and calls `body` with the table as this process has it then: the target and all else that is narrow of
    /// all rows, numeric features of its own. The connection ends with it; what goes wrong here the others are told.
    ///
    /// # Errors
    /// Those of the connection, and of `body`.
    pub fn join<T>(
        &self,
        parts: &Parts,
        categorical: &[String],
        body: impl FnOnce(&Parts, OwnRows<'_>) -> PolarsResult<T>,
    ) -> PolarsResult<T> {
        let options = self.options();
        check_first_run(self.fit)?;
        let _taken = Taken::new(&options)?;
        let collective = TcpCollective::join(&options).map_err(errors::compute)?;
        self.body(&collective, parts, categorical, body).inspect_err(|error| collective.end_with(&errors::text(error)))
    }

    fn body<T>(
        &self,
        collective: &TcpCollective,
        parts: &Parts,
        categorical: &[String],
        body: impl FnOnce(&Parts, OwnRows<'_>) -> PolarsResult<T>,
    ) -> PolarsResult<T> {
        parts.check_target_is_no_feature()?;
        agree(collective, "columns", &parts.types()).map_err(errors::compute)?;
        let count = parts.target.len();
        let counts = collective.gather(&[count as f64]).map_err(errors::compute)?;
        let first = counts[..self.rank].iter().sum::<f64>() as usize;
        let all = parts.of_all_rows(categorical, |column| gather(collective, column))?;
        body(&all, OwnRows { collective, first, count })
    }
}

fn of_engine<T>(result: taiga_engine::Result<T>) -> PolarsResult<T> {
    result.map_err(errors::compute)
}

/// Returns a column with the rows of all processes, in their order.
///
/// # Errors
/// Those of the connection, and for types that are not sent.
fn gather(collective: &TcpCollective, series: &Series) -> PolarsResult<Series> {
    let name = series.name().clone();
    match series.dtype() {
        DataType::Struct(_) => {
            let fields = series.struct_()?.fields_as_series();
            let fields = fields.iter().map(|field| gather(collective, field)).collect::<PolarsResult<Vec<_>>>()?;
            let rows = fields.first().map_or(0, |field| field.len());
            Ok(StructChunked::from_series(name, rows, fields.iter())?.into_series())
        }
        DataType::Null => {
            let rows = of_engine(collective.gather(&[series.len() as f64]))?.iter().sum::<f64>() as usize;
            Ok(Series::full_null(name, rows, &DataType::Null))
        }
        DataType::String | DataType::Categorical(..) | DataType::Enum(..) => gather_text(collective, series),
        dtype @ (DataType::Int128 | DataType::UInt128 | DataType::Decimal(..) | DataType::List(_) | DataType::Array(..)) => {
            Err(errors::column(&name, format!("its type is {dtype}, which is not sent between processes yet: cast it to Int64 or Float64")))
        }
        dtype if dtype.is_float() => {
            let values = series.cast(&DataType::Float64)?;
            let values = values.f64()?;
            let all = gather_numbers(collective, values.iter().map(|x| x.map(f64::to_le_bytes)), f64::from_le_bytes)?;
            Float64Chunked::from_iter_options(name, all.into_iter()).into_series().cast(dtype)
        }
        DataType::UInt64 => {
            let all = gather_numbers(collective, series.u64()?.iter().map(|x| x.map(u64::to_le_bytes)), u64::from_le_bytes)?;
            Ok(UInt64Chunked::from_iter_options(name, all.into_iter()).into_series())
        }
        dtype => {
            let physical = series.to_physical_repr().cast(&DataType::Int64)?;
            let all = gather_numbers(collective, physical.i64()?.iter().map(|x| x.map(i64::to_le_bytes)), i64::from_le_bytes)?;
            let all = Int64Chunked::from_iter_options(name, all.into_iter()).into_series();
            // Through the physical type: of a narrow one Polars casts no other to a date.
            all.cast(series.to_physical_repr().dtype())?.cast(dtype)
        }
    }
}

/// Returns the numbers of all processes; none where one is null.
fn gather_numbers<T>(
    collective: &TcpCollective,
    values: impl ExactSizeIterator<Item = Option<[u8; 8]>>,
    from: fn([u8; 8]) -> T,
) -> PolarsResult<Vec<Option<T>>> {
    let rows = values.len();
    let mut bytes = Vec::with_capacity(9 * rows);
    let mut there = vec![0u8; rows];
    for (value, there) in values.zip(&mut there) {
        bytes.extend_from_slice(&value.unwrap_or_default());
        *there = value.is_some() as u8;
    }
    bytes.extend_from_slice(&there);
    let mut all = vec![];
    for bytes in of_engine(collective.gather_bytes(&bytes))? {
        let (values, there) = bytes.split_at(bytes.len() / 9 * 8);
        all.extend(values.as_chunks::<8>().0.iter().zip(there).map(|(value, there)| (*there == 1).then(|| from(*value))));
    }
    Ok(all)
}

/// Returns the texts of all processes, in the type that they had.
fn gather_text(collective: &TcpCollective, series: &Series) -> PolarsResult<Series> {
    let strings = series.cast(&DataType::String)?;
    let strings = strings.str()?;
    let lengths = strings.iter().map(|text| text.map(|text| (text.len() as u64).to_le_bytes()));
    let lengths: Vec<Option<[u8; 8]>> = lengths.collect();
    let lengths = gather_numbers(collective, lengths.into_iter(), u64::from_le_bytes)?;
    let bytes: Vec<u8> = strings.iter().flatten().flat_map(str::bytes).collect();
    let bytes = of_engine(collective.gather_bytes(&bytes))?.concat();
    let broken = || errors::data("parameter `collective`: a process sends text that can't be read");
    let mut rest = &bytes[..];
    let mut texts = Vec::with_capacity(lengths.len());
    for length in lengths {
        let Some(length) = length else {
            texts.push(None);
            continue;
        };
        let (text, behind) = rest.split_at_checked(length as usize).ok_or_else(broken)?;
        texts.push(Some(std::str::from_utf8(text).map_err(|_| broken())?));
        rest = behind;
    }
    StringChunked::from_iter_options(series.name().clone(), texts.into_iter()).into_series().cast(series.dtype())
}

/// What is wrong with who a process says it is; none where nothing is.
#[pyfunction]
pub fn collective_problem(rank: usize, world: usize, address: String, secret: String, timeout: f64) -> Option<String> {
    let own = Together { rank, world, address, secret, job: String::new(), timeout, fit: 0 };
    own.options().validate().err().map(|error| error.to_string())
}
