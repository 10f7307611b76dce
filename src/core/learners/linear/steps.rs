//! Linear problems: what a device does for L-BFGS and for batches, and the place where it is chosen.
//!
//! Numbers of a row stay where the device keeps them (`PassSteps::Rows`); coefficients, of which there are fewer, are
//! the host's.

use super::LinearParams;
use super::batches::ByBatches;
use super::feature_scale::FeatureScale;
use super::lbfgs::Fitted;
use super::problem::Problem;
use super::snapshot::BatchState;
use super::whole::Precision;
use crate::dataset::Monitor;
use crate::device::Place;
use crate::error::Result;
use crate::parallel::thread_pool::ThreadPool;
use std::borrow::Cow;

/// The loss and the largest residual that a pass over residuals found.
pub struct Residuals {
    /// Σ weight · loss over the training rows.
    pub loss: f64,
    /// The largest |weight · residual|.
    pub largest: f64,
}

/// The rows of a problem on a device: the same bits on each.
///
/// A vector of coefficients stands as `vector[feature * outputs + output]` (sparse features, dense columns, the intercept),
/// numbers of rows as `row * outputs + output`.
pub trait PassSteps {
    /// A number for each row and output.
    type RowNumbers;

    /// Numbers of rows that are the same in each.
    fn rows(&self, of_row: &[f64]) -> Result<Self::RowNumbers>;

    /// Computes the scores of all rows under a vector of coefficients.
    fn scores(&self, vector: &[f64], out: &mut Self::RowNumbers) -> Result<()>;

    /// Turns scores into weighted residuals `weight · (probability - whether it is the class)`, 0 for held-out rows, and
    /// measures the loss.
    fn residuals(&self, scores: &Self::RowNumbers, out: &mut Self::RowNumbers) -> Result<Residuals>;

    /// Writes Σ residual · value of each feature to `out`.
    fn gradient(&self, residuals: &Self::RowNumbers, largest: f64, out: &mut [f64]) -> Result<()>;

    /// Writes Σ weight · value² of each feature to `out`, the same for all outputs.
    fn squares(&self, out: &mut [f64]) -> Result<()>;

    /// Computes the first and the second derivative of Σ weight · loss at `scores + step · direction`, by `step`.
    fn along(&self, scores: &Self::RowNumbers, direction: &Self::RowNumbers, step: f64) -> Result<(f64, f64)>;

    /// Computes `out = from + step · out`.
    fn advance(&self, out: &mut Self::RowNumbers, from: &Self::RowNumbers, step: f64) -> Result<()>;

    /// Takes numbers that [`PassSteps::read`] has returned, on whatever device.
    fn write(&self, numbers: Cow<'_, [f64]>) -> Result<Self::RowNumbers>;

    /// Returns the numbers, on the host.
    fn read<'r>(&self, rows: &'r Self::RowNumbers) -> Result<Cow<'r, [f64]>>;
}

/// Coefficients that move batch after batch: the same bits on each device.
pub trait BatchSteps {
    /// Moves them by one batch after another: `steps` are their numbers, in the order to take. `past`: the time in rows at which
    /// the first one begins; `rate`: the step size.
    fn epoch(&mut self, steps: &[usize], past: f64, rate: f64) -> Result<()>;

    /// Makes up all penalties at the end of an epoch, so that the next one starts at time 0 with a step size of its own.
    fn settle(&mut self, now: f64) -> Result<()>;

    /// Returns the coefficients at time `now`, the end of an epoch.
    fn vector(&mut self, now: f64) -> Result<Vec<f64>>;

    /// Returns the coefficients with what the rule remembers of them, at the end of an epoch that is settled where it has to be.
    fn state(&mut self) -> Result<BatchState>;

    /// Takes a state that some device has returned.
    fn restore(&mut self, state: &BatchState) -> Result<()>;
}

/// Work on a device of whatever type.
pub trait On<R> {
    fn on<B: PassSteps>(self, backend: &B) -> Result<R>;
}

/// Scores rows on the host, whatever device moves the coefficients.
pub trait ScoreRows {
    /// Writes the scores of the rows that are `wanted` to `out[row * outputs + output]`; others' are whatever.
    ///
    /// # Errors
    /// [`crate::Error::Interrupted`].
    fn scores_where(&self, wanted: &(dyn Fn(usize) -> bool + Sync), vector: &[f64], out: &mut [f64]) -> Result<()>;
}

/// The problem and its units, which every device is given once.
pub struct Task<'p, 'a> {
    pub problem: &'p Problem<'a>,
    pub pool: &'p ThreadPool,
    pub monitor: &'p dyn Monitor,
    /// What features' values, and so their sums, are in units of.
    pub feature_scale: FeatureScale,
    pub precision: Precision,
}

impl<'p, 'a> Task<'p, 'a> {
    /// Finds units and precision of a problem.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn new(problem: &'p Problem<'a>, pool: &'p ThreadPool, monitor: &'p dyn Monitor) -> Result<Self> {
        let feature_scale = FeatureScale::new(problem, pool)?;
        Ok(Task { problem, pool, monitor, feature_scale, precision: Precision::of(problem) })
    }

    /// Returns whether to stop.
    pub fn interrupted(&self) -> bool {
        self.monitor.interrupted()
    }
}

/// The devices that a problem may be fitted on: whoever calls a fit says which one is taken.
pub trait LinearDevices: Sync {
    /// Chooses where a problem is fitted.
    ///
    /// # Errors
    /// Those of the device's name.
    fn place(&self, problem: &Problem<'_>, params: &LinearParams, pool: &ThreadPool) -> Result<Place>;

    /// Runs L-BFGS there.
    ///
    /// # Errors
    /// [`crate::Error::Device`], and those of the search.
    fn whole<R>(&self, place: &Place, task: &Task<'_, '_>, on: impl On<R>) -> Result<R>;

    /// Runs a fit by batches there.
    ///
    /// # Errors
    /// [`crate::Error::Device`] and [`crate::Error::Interrupted`].
    fn by_batches(&self, place: &Place, batches: ByBatches<'_, '_, '_, '_>) -> Result<Fitted>;
}
