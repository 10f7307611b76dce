//! Linear problems: what a device does for L-BFGS and for batches, and the place where it is chosen.
//!
//! Numbers of a row stay where the device keeps them (`LinearBackend::Rows`); coefficients, of which there are fewer, are
//! the host's.

use super::batches::{ByBatches, Deal};
use super::lbfgs::Fitted;
use super::problem::Problem;
use super::{LinearParams, Optimizer};
use crate::cpu::linear::passes::Passes;
use crate::error::Result;
use crate::learners::forest::steps::{Place, choose};
use crate::parallel::thread_pool::Team;
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a pass over residuals found.
pub(crate) struct Residuals {
    /// Σ weight · loss over the training rows.
    pub loss: f64,
    /// The largest |weight · residual|.
    pub largest: f64,
}

/// The rows of a problem on a device: the same bits on each.
///
/// A vector of coefficients stands as `vector[feature * outputs + output]` (sparse features, dense columns, the intercept),
/// numbers of rows as `row * outputs + output`.
pub(crate) trait LinearBackend {
    /// A number for each row and output.
    type Rows;

    /// Numbers of rows that are the same in each.
    fn rows(&self, of_row: &[f64]) -> Result<Self::Rows>;

    /// The scores of all rows under a vector of coefficients.
    fn scores(&self, vector: &[f64], out: &mut Self::Rows) -> Result<()>;

    /// Turns scores into weighted residuals `weight · (probability - whether it is the class)`, 0 for held-out rows, and
    /// measures the loss.
    fn residuals(&self, scores: &Self::Rows, out: &mut Self::Rows) -> Result<Residuals>;

    /// Σ residual · value of each feature, into `out`.
    fn gradient(&self, residuals: &Self::Rows, largest: f64, out: &mut [f64]) -> Result<()>;

    /// Σ weight · value² of each feature, outputs alike, into `out`.
    fn squares(&self, out: &mut [f64]) -> Result<()>;

    /// First and second derivative of Σ weight · loss at `scores + step · direction`, by `step`.
    fn along(&self, scores: &Self::Rows, direction: &Self::Rows, step: f64) -> Result<(f64, f64)>;

    /// `out = from + step · out`.
    fn advance(&self, out: &mut Self::Rows, from: &Self::Rows, step: f64) -> Result<()>;

    /// The numbers, on the host.
    fn read<'r>(&self, rows: &'r Self::Rows) -> Result<Cow<'r, [f64]>>;
}

/// Coefficients that move batch after batch: the same bits on each device.
pub(crate) trait BatchBackend {
    /// Moves them by one batch after another: `steps` are their numbers, in the order to take. `past`: the time in rows at which
    /// the first one begins; `rate`: the step size.
    fn epoch(&mut self, steps: &[usize], past: f64, rate: f64) -> Result<()>;

    /// Makes up all penalties at the end of an epoch, so that the next one starts at time 0 with a step size of its own.
    fn settle(&mut self, now: f64) -> Result<()>;

    /// The coefficients at time `now`, the end of an epoch.
    fn vector(&mut self, now: f64) -> Result<Vec<f64>>;
}

/// Where a problem is fitted.
///
/// # Errors
/// Those of [`choose`].
pub(crate) fn place(device: &str, problem: &Problem<'_>, params: &LinearParams, team: &Team) -> Result<Place> {
    let entries = problem.csr.as_ref().map_or(0, |c| c.entries()) + problem.rows * (problem.dense.len() + 8);
    // An entry takes the CPU about 4 ns a pass of lbfgs, a score and a gradient, and 15 ns an epoch by batches (measured on
    // Zen 4 at 3.5 GHz, one thread); a GPU takes about 15 µs a batch, whatever its rows.
    let (of_entry, batches) = match params.optimizer {
        Optimizer::Lbfgs => (4e-9, 0.0),
        _ => (15e-9, 1.5e-5 * (problem.rows / params.batch() as usize) as f64),
    };
    let epoch = of_entry * entries as f64 * problem.outputs as f64;
    let batches = if crate::device::fallback::takes_everything() { 0.0 } else { batches };
    if device == "auto" && epoch / (team.size() as f64) < 2.0 * batches {
        return Ok(Place::Cpu("cpu: batches are too small for a GPU".into()));
    }
    choose(device, None, epoch * params.epochs() as f64, team.size())
}

/// L-BFGS on the device that is chosen.
///
/// # Errors
/// [`Error::Device`](crate::Error::Device), and those of the search.
pub(crate) fn with_backend<R>(place: &Place, cpu: &Passes<'_, '_>, on: impl On<R>) -> Result<R> {
    cpu.monitor.device(place.why());
    #[cfg(test)]
    if crate::device::fallback::fake::takes(place) {
        return on.on(&crate::device::fallback::fake::FailingPasses(cpu));
    }
    #[cfg(feature = "cuda")]
    if let Place::Gpu(number, _) = place {
        return on.on(&crate::cuda::linear::CudaLinear::new(*number, cpu)?);
    }
    on.on(cpu)
}

/// Batches, likewise.
///
/// # Errors
/// [`Error::Device`](crate::Error::Device) and [`Error::Interrupted`](crate::Error::Interrupted).
pub(crate) fn by_batches(place: &Place, task: ByBatches<'_, '_, '_, '_>) -> Result<Fitted> {
    let passes = task.passes;
    let deal = Deal::new(passes.problem, task.params);
    passes.monitor.device(place.why());
    #[cfg(test)]
    if crate::device::fallback::fake::takes(place) {
        return Err(crate::device::fallback::fake::out_of_memory());
    }
    #[cfg(feature = "cuda")]
    if let Place::Gpu(number, _) = place {
        return task.on(&deal, &mut crate::cuda::linear::CudaBatches::new(*number, passes, &deal)?);
    }
    task.on_cpu(&deal)
}

/// Work on a device of whatever type.
pub(crate) trait On<R> {
    fn on<B: LinearBackend>(self, backend: &B) -> Result<R>;
}

static RESIDENT: AtomicU64 = AtomicU64::new(u64::MAX);

/// The most bytes of feature numbers and values that stay on a GPU for a whole fit; of more, blocks of rows pass through at every pass. What
/// the device's memory allows unless told otherwise.
pub fn limit_resident_rows(bytes: Option<u64>) {
    RESIDENT.store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
}

#[cfg(feature = "cuda")]
pub(crate) fn resident_limit() -> u64 {
    RESIDENT.load(Ordering::Relaxed)
}
