//! Fits that several processes make together: what of a table each gets of all rows, before the engine's part begins.

use crate::errors;
use crate::fit::Parts;
use crate::row_key::{Description, RowKeys};
use crate::threads::on_all_threads;
use crate::wire;
use polars::prelude::*;
use pyo3::prelude::*;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use taiga_engine::collective::tcp::{TcpCollective, TcpOptions};
use taiga_engine::collective::{Collective, bytes_of, numbers_of};
use taiga_engine::dataset::OwnRows;
use taiga_engine::dataset::own_rows::agree;
use taiga_engine::dataset::row_keys::bucket;
use taiga_engine::parallel::fork::PerProcess;
use taiga_engine::parallel::interrupt;
use taiga_engine::receipt::{BUCKETS, Buckets};

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
    /// Whether there are other processes.
    pub fn has_others(&self) -> bool {
        self.world > 1
    }

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
    /// all rows, numeric features of its own. Rows that have keys are dealt anew, in the order of these; `description`: of what is fitted of
    /// them; `metadata`: what the user says of the model. The connection ends with it; what goes wrong here the others are told.
    ///
    /// # Errors
    /// Those of the connection, and of `body`.
    pub fn join<T>(
        &self,
        parts: &Parts,
        categorical: &[String],
        description: &Description,
        metadata: Option<&str>,
        body: impl FnOnce(&Parts, OwnRows<'_>) -> PolarsResult<T>,
    ) -> PolarsResult<T> {
        let options = self.options();
        check_first_run(self.fit)?;
        let _taken = Taken::new(&options)?;
        let collective = TcpCollective::join(&options).map_err(errors::compute)?;
        let done = interrupt::catch(|| {
            agree(&collective, "calls", &description.call(metadata)).map_err(errors::compute)?;
            self.body(&collective, parts, categorical, description, body)
        });
        done.unwrap_or_else(|error| Err(errors::compute(error)))
            .inspect_err(|error| collective.end_with(&errors::through(errors::again(error))))
    }

    fn body<T>(
        &self,
        collective: &TcpCollective,
        parts: &Parts,
        categorical: &[String],
        description: &Description,
        body: impl FnOnce(&Parts, OwnRows<'_>) -> PolarsResult<T>,
    ) -> PolarsResult<T> {
        parts.check_target_is_no_feature()?;
        agree(collective, "columns", &parts.types()).map_err(errors::compute)?;
        let by_key = by_key(collective, parts, description)?;
        let parts = by_key.as_ref().unwrap_or(parts);
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
fn gather(collective: &dyn Collective, series: &Series) -> PolarsResult<Series> {
    joined(series, &of_engine(collective.gather_bytes(&wire::to_bytes(series)?))?)
}

/// One column of what processes have sent of it, in their order.
fn joined(series: &Series, of_each: &[Vec<u8>]) -> PolarsResult<Series> {
    let mut all = Series::new_empty(series.name().clone(), series.dtype());
    for bytes in of_each {
        all.append_owned(wire::from_bytes(series.name(), series.dtype(), bytes)?)?;
    }
    Ok(all.rechunk())
}

/// Deals rows that have keys to the processes anew: each gets those whose keys' hashes lie in its part of the space of hashes, in their
/// order; none where rows have no keys. Exchanges are waited for outside of the pool, whose threads other work of this process needs: that of
/// another rank, say.
///
/// # Errors
/// Those of the connection, for keys that don't tell rows apart, and for types that are not sent.
fn by_key(collective: &dyn Collective, parts: &Parts, description: &Description) -> PolarsResult<Option<Parts>> {
    let world = collective.world();
    let Some(rows) = on_all_threads(|| rows_of_each(parts, world))? else { return Ok(None) };
    let exchange = |pieces: Vec<Vec<u8>>| of_engine(collective.exchange(&pieces.iter().map(Vec::as_slice).collect::<Vec<_>>()));
    let counts = exchange(rows.iter().map(|rows| bytes_of(&[rows.len() as f64])).collect())?;
    let mut ends = vec![];
    for count in counts {
        let before = ends.last().copied().unwrap_or(0);
        ends.push(before + of_engine(numbers_of(&count))?.first().map_or(0, |count| *count as usize));
    }
    let mut columns = vec![];
    for column in parts.columns() {
        let piece = |rows: &Vec<IdxSize>| wire::to_bytes(&column.take_slice(rows)?);
        let pieces = on_all_threads(|| rows.iter().map(piece).collect::<PolarsResult<Vec<_>>>())?;
        let of_each = exchange(pieces)?;
        columns.push(on_all_threads(|| joined(column, &of_each))?);
    }
    let dealt = parts.with_columns(columns)?;
    let ordered = on_all_threads(|| -> PolarsResult<_> {
        let Some(keys) = RowKeys::new(&dealt)? else { return Ok(None) };
        let order = keys.order(&ends)?;
        let parts = dealt.taken(&order.rows)?;
        let digests = description.buckets(&parts, &order)?.to_bytes();
        Ok(Some((parts, digests)))
    })?;
    let Some((mut parts, digests)) = ordered else { return Ok(None) };
    let mut buckets = Buckets::default();
    for bytes in of_engine(collective.gather_bytes(&digests))? {
        let broken = || errors::data("parameter `collective`: a process sends digests that can't be read");
        buckets.append(Buckets::from_bytes(&bytes).ok_or_else(broken)?);
    }
    parts.receipt = Some(description.receipt(&parts, &buckets)?);
    Ok(Some(parts))
}

/// The rows that each of so many processes is to have, by their keys; none where rows have no keys.
fn rows_of_each(parts: &Parts, world: usize) -> PolarsResult<Option<Vec<Vec<IdxSize>>>> {
    let Some(keys) = RowKeys::new(parts)? else { return Ok(None) };
    let mut rows: Vec<Vec<IdxSize>> = vec![vec![]; world];
    for (row, hash) in (0..).zip(&keys.hashes) {
        rows[bucket(*hash) * world / BUCKETS].push(row);
    }
    Ok(Some(rows))
}

/// What is wrong with who a process says it is; none where nothing is.
#[pyfunction]
pub fn collective_problem(rank: usize, world: usize, address: String, secret: String, timeout: f64) -> Option<String> {
    let own = Together { rank, world, address, secret, job: String::new(), timeout, fit: 0 };
    own.options().validate().err().map(|error| error.to_string())
}
