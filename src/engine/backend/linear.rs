//! Passes over the rows of a linear problem: what a device does for L-BFGS, and the place where it is chosen.
//!
//! Numbers of a row stay where the device keeps them ([`LinearBackend::Rows`]); coefficients, of which there are fewer, are
//! the host's.

use super::forest::{Place, choose};
use crate::backend::cpu::team::Team;
use crate::boosting::Monitor;
use crate::error::{Error, Result};
use crate::linear::passes::Passes;
use crate::linear::problem::Problem;
use crate::linear::{LinearParams, Optimizer};
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

/// Where a problem is fitted.
///
/// # Errors
/// Those of [`choose`].
pub(crate) fn place(problem: &Problem<'_>, params: &LinearParams, team: &Team) -> Result<Place> {
    let entries = problem.csr.as_ref().map_or(0, |c| c.entries()) + problem.rows * (problem.dense.len() + 8);
    let refused = match params.optimizer {
        Optimizer::Lbfgs => None,
        _ => Some("there optimizer=\"lbfgs\" runs only"),
    };
    // About 4 ns an entry and pass, a score and a gradient (measured on Zen 4 at 3.5 GHz).
    let seconds = 4e-9 * entries as f64 * problem.outputs as f64 * params.epochs() as f64;
    choose(&params.device, refused, seconds, team.size())
}

/// What is done on the device that is chosen: `on` gets it as whatever type it is. Where `"auto"` finds that a GPU has not the
/// memory, the CPU does it.
///
/// # Errors
/// [`Error::Memory`], [`Error::Device`], and those of `on`.
pub(crate) fn with_backend<R>(place: &Place, cpu: &Passes<'_, '_>, device: &str, monitor: &dyn Monitor, on: impl On<R>) -> Result<R> {
    monitor.device(place.why());
    #[cfg(feature = "cuda")]
    if let Place::Gpu(number, _) = place {
        match super::cuda::linear::CudaLinear::new(*number, cpu) {
            Err(Error::Memory(why)) if device == "auto" => monitor.device(&format!("cpu: {why}")),
            gpu => return on.on(&gpu?),
        }
    }
    #[cfg(not(feature = "cuda"))]
    let (_, _) = (device, Error::Interrupted);
    on.on(cpu)
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
