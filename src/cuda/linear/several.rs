//! The passes over rows on several GPUs of one host: rows are dealt to them in whole blocks, each GPU passes over its own, and sums are added up
//! between their threads ([`super::passes`]), so that all come to the same numbers.

use super::CudaLinear;
use crate::runtime::driver_threads::DriverThreads;
use crate::runtime::shard_threads::{ShardEnd, deal, each, lock, shard_ends};
use cudarc::driver::CudaSlice;
use std::borrow::Cow;
use std::sync::Mutex;
use taiga_core::collective::Collective;
use taiga_core::collective::nested::{Nested, shards_of_each};
use taiga_core::column::Column;
use taiga_core::error::{Error, Result};
use taiga_core::learners::linear::problem::Problem;
use taiga_core::learners::linear::steps::{On, PassSteps, Residuals, Task};
use taiga_core::learners::linear::vectors::BLOCK;

/// Runs what passes over all rows on GPUs, none being the first that there is.
///
/// # Errors
/// [`Error::Device`] and [`Error::Interrupted`]; those of the collective and of `on`.
pub fn with_passes<R>(numbers: &[Option<u32>], task: &Task<'_, '_>, on: impl On<R>) -> Result<R> {
    let (problem, ranges) = (task.problem, deal(task.problem.rows, numbers.len(), BLOCK));
    let own = problem.own;
    let of_each = if own.is_whole() { vec![ranges.len()] } else { shards_of_each(own.collective, ranges.len())? };
    if of_each.iter().all(|count| *count == 1) {
        return on.on(&CudaLinear::new(numbers[0], task)?);
    }
    let ends = shard_ends(ranges.len());
    let between: Vec<Nested<'_>> = ends.iter().map(|end| Nested::new(end, own.collective, &of_each)).collect();
    let end_of = |k: usize| -> &dyn Collective { if own.is_whole() { &ends[k] } else { &between[k] } };
    let columns: Vec<Vec<Column<'_>>> =
        ranges.iter().map(|rows| problem.dense.iter().map(|column| column.slice(rows.start, rows.len())).collect()).collect();
    let problems: Vec<Problem<'_>> =
        ranges.iter().enumerate().map(|(k, rows)| problem.part(rows.clone(), &columns[k], end_of(k))).collect();
    let part = |problem| Task { problem, feature_scale: task.feature_scale.clone(), ..*task };
    let tasks: Vec<Task<'_, '_>> = problems.iter().map(part).collect();
    let threads = DriverThreads::new(ranges.len(), task.pool.size().div_ceil(ranges.len()))?;
    let shards = each(&threads, &ends, &|| (), &|k| CudaLinear::new(numbers[k], &tasks[k]).map(Mutex::new))?;
    on.on(&SeveralLinear { shards, threads, ends: &ends })
}

/// The rows of a problem on several GPUs.
struct SeveralLinear<'p, 'a> {
    shards: Vec<Mutex<CudaLinear<'p, 'a>>>,
    threads: DriverThreads,
    ends: &'p [ShardEnd],
}

impl<'p, 'a> SeveralLinear<'p, 'a> {
    /// Does the same on each GPU at once, with its numbers of rows.
    fn each<R: Send>(&self, work: impl Fn(usize, &CudaLinear<'p, 'a>) -> Result<R> + Sync) -> Result<Vec<R>> {
        each(&self.threads, self.ends, &|| (), &|k| work(k, &lock(&self.shards[k])))
    }

    /// The same where all come to the same answer.
    fn all<R: Send>(&self, work: impl Fn(usize, &CudaLinear<'p, 'a>) -> Result<R> + Sync) -> Result<R> {
        self.each(work)?.into_iter().next().ok_or_else(|| Error::Data("no GPU has any rows".into()))
    }

    /// The same where the answer is written to `out`.
    fn into(&self, out: &mut [f64], work: impl Fn(usize, &CudaLinear<'p, 'a>, &mut [f64]) -> Result<()> + Sync) -> Result<()> {
        let length = out.len();
        let first = Mutex::new(out);
        self.each(|k, shard| match k {
            0 => work(k, shard, &mut lock(&first)),
            _ => work(k, shard, &mut vec![0.0; length]),
        })
        .map(drop)
    }
}

impl PassSteps for SeveralLinear<'_, '_> {
    type RowNumbers = Vec<Mutex<CudaSlice<f64>>>;

    fn rows(&self, of_row: &[f64]) -> Result<Self::RowNumbers> {
        self.each(|_, shard| shard.rows(of_row).map(Mutex::new))
    }

    fn scores(&self, vector: &[f64], out: &mut Self::RowNumbers) -> Result<()> {
        self.all(|k, shard| shard.scores(vector, &mut lock(&out[k])))
    }

    fn residuals(&self, scores: &Self::RowNumbers, out: &mut Self::RowNumbers) -> Result<Residuals> {
        self.all(|k, shard| shard.residuals(&lock(&scores[k]), &mut lock(&out[k])))
    }

    fn gradient(&self, residuals: &Self::RowNumbers, largest: f64, out: &mut [f64]) -> Result<()> {
        self.into(out, |k, shard, out| shard.gradient(&lock(&residuals[k]), largest, out))
    }

    fn squares(&self, out: &mut [f64]) -> Result<()> {
        self.into(out, |_, shard, out| shard.squares(out))
    }

    fn along(&self, scores: &Self::RowNumbers, direction: &Self::RowNumbers, step: f64) -> Result<(f64, f64)> {
        self.all(|k, shard| shard.along(&lock(&scores[k]), &lock(&direction[k]), step))
    }

    fn advance(&self, out: &mut Self::RowNumbers, from: &Self::RowNumbers, step: f64) -> Result<()> {
        self.all(|k, shard| shard.advance(&mut lock(&out[k]), &lock(&from[k]), step))
    }

    fn write(&self, numbers: Cow<'_, [f64]>) -> Result<Self::RowNumbers> {
        let before = lock(&self.shards[0]).problem().own.first;
        self.each(|_, shard| {
            let problem = shard.problem();
            let first = (problem.own.first - before) * problem.outputs;
            let own = &numbers[first..first + problem.rows * problem.outputs];
            shard.write(own.into()).map(Mutex::new)
        })
    }

    fn read<'r>(&self, rows: &'r Self::RowNumbers) -> Result<Cow<'r, [f64]>> {
        let own = self.each(|k, shard| shard.read(&lock(&rows[k])).map(Cow::into_owned))?;
        Ok(Cow::Owned(own.concat()))
    }
}
