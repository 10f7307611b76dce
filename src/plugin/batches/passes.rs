//! Passes over a frame that Python runs in batches.

use super::{BatchedFit, Begun, locked};
use crate::columns::{self, Numbers};
use crate::errors;
use crate::fit::{COMPUTED, Fields, Parts, is_sparse};
use crate::interpreter::{ENDED, attached};
use crate::lists::Lists;
use crate::monitor::Watch;
use polars::prelude::*;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use std::sync::Mutex;
use taiga_engine::dataset::{Batches, FeatureBatches, Monitor};
use taiga_engine::learners::linear::{RowBatches, VisitRows};
use taiga_engine::parallel::interrupt;
use taiga_engine::parallel::thread_pool::ThreadPool;
use taiga_engine::{Error, column, memory};

/// About so much Polars reads ahead of the batch that is visited, of files whose groups of rows have some 30 MB; its allocator keeps the most of it
/// after the pass.
const READ_AHEAD: u64 = 384 << 20;

/// The passes over a frame that Python makes.
pub(super) struct Passes<'a> {
    pub(super) fit: &'a BatchedFit,
    pub(super) begun: &'a Begun,
    pub(super) parts: &'a Parts,
    /// What is called for each pass, and gives an iterator that takes rows at each step.
    pub(super) feed: &'a Py<PyAny>,
    /// What Python has raised.
    pub(super) raised: Mutex<Option<PyErr>>,
    /// The columns of the batch that is being visited.
    pub(super) batch: Mutex<Vec<Series>>,
}

/// A pass that is under way; it ends where this is dropped.
struct Pass(Py<PyAny>);

impl Drop for Pass {
    fn drop(&mut self) {
        // What goes wrong when a generator is closed is nobody's to know.
        let _ = attached(|py| self.0.call_method0(py, "close").map(drop));
    }
}

impl Passes<'_> {
    /// Keeps what Python has raised, to be raised again.
    fn noted(&self, error: PyErr) -> Error {
        let text = error.to_string();
        *locked(&self.raised) = Some(error);
        Error::Data(text)
    }

    /// The rows of the next batch; none where there are no more.
    fn next(&self, pass: &Pass) -> taiga_engine::Result<Option<Series>> {
        interrupt::poll();
        let step = attached(|py| match pass.0.call_method0(py, "__next__") {
            Ok(_) => Ok(true),
            Err(error) if error.is_instance_of::<PyStopIteration>(py) => Ok(false),
            Err(error) => Err(error),
        });
        match step {
            Some(Ok(true)) => Ok(locked(&self.fit.taken).take()),
            Some(Ok(false)) => Ok(None),
            Some(Err(error)) => Err(self.noted(error)),
            None => Err(Error::Data(ENDED.into())),
        }
    }

    /// Checks that what is kept whole is the same in these rows as in those from `first` on.
    fn check_kept(&self, batch: &Fields, first: usize) -> PolarsResult<()> {
        let features = batch.columns.iter().zip(&self.begun.whole).filter(|(_, whole)| **whole).map(|(s, _)| s);
        let kept = self.parts.features.iter().zip(&self.begun.whole).filter(|(_, whole)| **whole).map(|(s, _)| s);
        let roles = |roles: &'_ [Series]| roles.iter().filter(|s| !is_sparse(s)).cloned().collect::<Vec<Series>>();
        let here: Vec<Series> = roles(&batch.roles).iter().chain(features).cloned().collect();
        let kept: Vec<Series> = roles(self.parts.roles()).iter().chain(kept).map(|s| s.slice(first as i64, batch.rows())).collect();
        let (here, kept) = (columns::unnest(&here)?, columns::unnest(&kept)?);
        for (here, kept) in here.iter().zip(&kept) {
            if here.dtype() != kept.dtype() || !here.equals_missing(kept) {
                let name = here.name().trim_start_matches(COMPUTED);
                return Err(errors::data(format!(
                    "parameter `batches`: the frame gives other values of column `{name}`, or the same in another order, than before: a fit \
                     in batches reads the frame several times, and it has to give the same rows in the same order each time. Sort it, or \
                     write it to a file first"
                )));
            }
        }
        Ok(())
    }

    /// Makes a pass over rows that the engine has read before, which it holds to what they were: calls `visit` with the number of each batch's
    /// first row and its columns.
    pub(super) fn again(
        &self,
        batches: &Batches<'_>,
        visit: &mut dyn FnMut(usize, &[Series]) -> PolarsResult<()>,
    ) -> taiga_engine::Result<()> {
        batches.read(&ThreadPool::new(1)?, &|| false, &mut |first, _| {
            let columns = locked(&self.batch).clone();
            visit(first, &columns).map_err(errors::through)
        })
    }

    /// Makes a pass: calls `visit` with each batch, and those of its features that come in batches.
    fn read(&self, visit: &mut dyn FnMut(&Fields, &[column::Column<'_>]) -> taiga_engine::Result<()>) -> taiga_engine::Result<()> {
        let pass = attached(|py| self.feed.call0(py)).ok_or_else(|| Error::Data(ENDED.into()))?.map_err(|error| self.noted(error))?;
        let (pass, rows) = (Pass(pass), self.parts.target.len());
        let watch = Watch::new(self.begun.learner.function(), "rows read", self.begun.kwargs.progress);
        let mut first = 0;
        // The targets that all rows so far have among the features as well.
        let mut repeated = if rows > 0 { self.parts.targets_named_as_features().map_err(errors::through)? } else { vec![] };
        repeated.retain(|(index, _)| !self.begun.whole[*index]);
        while let Some(batch) = self.next(&pass)? {
            let batch = Fields::new(&batch).map_err(errors::through)?;
            let len = batch.rows();
            // More rows than there were are told by the engine.
            if first + len <= rows {
                self.check_kept(&batch, first).map_err(errors::through)?;
            }
            repeated.retain(|(index, target)| batch.columns[*index].equals_missing(&target.slice(first as i64, len)));
            let numbers = batch.columns.iter().zip(&self.begun.whole).filter(|(_, whole)| !**whole);
            let numbers = numbers.map(|(s, _)| Numbers::feature(s)).collect::<PolarsResult<Vec<_>>>().map_err(errors::through)?;
            visit(&batch, &numbers.iter().map(Numbers::column).collect::<Vec<_>>())?;
            first += len;
            watch.round(first.min(rows) as u32, rows as u32, None);
        }
        match repeated.first() {
            Some((_, target)) => Err(errors::through(Parts::target_is_feature(target))),
            None => Ok(()),
        }
    }
}

impl FeatureBatches for Passes<'_> {
    fn read(&self, visit: &mut dyn FnMut(&[column::Column<'_>]) -> taiga_engine::Result<()>) -> taiga_engine::Result<()> {
        self.read(&mut |batch, numbers| {
            locked(&self.batch).clone_from(&batch.columns);
            visit(numbers)
        })
    }

    fn held_bytes(&self) -> u64 {
        READ_AHEAD.min(memory::product(&[self.begun.row_bytes as u64, self.parts.target.len() as u64]))
    }
}

impl RowBatches for Passes<'_> {
    fn read(&self, visit: &mut VisitRows<'_>) -> taiga_engine::Result<()> {
        self.read(&mut |batch, numbers| {
            let lists = Lists::of(|role| batch.one(role)).map_err(errors::through)?;
            visit(lists.as_ref().map(Lists::rows).as_ref(), numbers)
        })
    }
}
