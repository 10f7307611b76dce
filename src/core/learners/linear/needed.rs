//! What a fit of sparse logistic regression takes, asked for before it is taken.

use super::lbfgs::MEMORY;
use super::problem::Problem;
use super::{LinearParams, Optimizer};
use crate::error::Result;
use crate::memory;
use crate::memory::{Reservation, product, sum};
use crate::numerics::reduce::BLOCK;
use crate::parallel::thread_pool::ThreadPool;

/// The memory that a search takes at the least, at its peak.
pub struct Needed {
    /// Coefficients and what is kept of them, which are the host's on every device.
    pub host: u64,
    /// Scores of rows, and sums by feature, which are the device's.
    pub device: u64,
    what: String,
}

impl Needed {
    /// Returns what the search for `problem`'s coefficients takes. `watched`: whether rows are held out.
    pub fn new(problem: &Problem<'_>, params: &LinearParams, pool: &ThreadPool, watched: bool) -> Needed {
        let (rows, outputs) = (problem.rows as u64, problem.outputs as u64);
        let cells = product(&[problem.width as u64, outputs]);
        let all = product(&[(problem.width + problem.dense.len() + 1) as u64, outputs]);
        // The best coefficients so far.
        let best = if params.early_stopping.is_some() { 8 } else { 0 };
        let units = if problem.has_values { 12 * problem.width as u64 } else { 0 };
        let scores = product(&[8, rows, outputs]);
        let (host, device) = match params.optimizer {
            Optimizer::Lbfgs => {
                // The point, its gradient, curvatures; the direction (which becomes the next point) and the next gradient.
                let orthant = if problem.l1 > 0.0 { 16 } else { 0 };
                let pairs = 8 * params.epochs().saturating_sub(1).min(MEMORY as u32) as u64;
                let vectors = product(&[all, 36 + orthant + pairs + best]);
                // Scores of the point and along the direction, residuals; integer sums of each thread that adds.
                let adders = adders(pool, problem).min(problem.rows.div_ceil(BLOCK));
                (vectors, sum(&[product(&[3, scores]), product(&[8, cells, adders as u64])]))
            }
            Optimizer::Sgd | Optimizer::Adagrad | Optimizer::Ftrl => {
                let batch = params.batch() as u64;
                let batches = product(&[16, batch.min(rows), outputs]);
                let watched = if watched { scores } else { 0 };
                // A coefficient with its state; of those of a batch besides their values and sums.
                let fades = problem.l1 > 0.0 || problem.l2 > 0.0;
                let cell = match params.optimizer {
                    Optimizer::Sgd => 8,
                    Optimizer::Ftrl if fades => 8,
                    _ => 16,
                };
                let of_batch = (product(&[problem.entries as u64, batch.min(rows)]) / rows.max(1)).min(problem.width as u64);
                let read = product(&[cell + 16, of_batch, outputs]);
                // Rows in order of their batches; at the end all coefficients.
                (sum(&[product(&[16, rows]), product(&[all, 8 + best]), watched]), sum(&[product(&[cell, cells]), read, batches]))
            }
        };
        let what = format!(
            "a fit of {rows} rows and {} features{}",
            problem.width + problem.dense.len(),
            if outputs > 1 { format!(" to {outputs} classes") } else { String::new() }
        );
        Needed { host: sum(&[host, units]), device, what }
    }

    /// Reserves it; where `on_cpu`, the device's share too.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub fn reserve(&self, on_cpu: bool) -> Result<Reservation> {
        let bytes = sum(&[self.host, if on_cpu { self.device } else { 0 }]);
        memory::reserve(
            &self.what,
            bytes,
            "lower `hash_bits` (or number features from 0 on), use optimizer=\"sgd\", or fit to fewer classes",
        )
    }
}

/// The most memory that sums of gradients may take.
const MOST_SUMS: usize = 2 << 30;

/// Returns how many of a pool's threads have sums of their own: as few as memory makes necessary, and no other sums for that.
pub fn adders(pool: &ThreadPool, problem: &Problem<'_>) -> usize {
    let bytes = 8 * problem.width * problem.outputs + 1;
    let large = pool.size() > 1 && bytes > 1 << 20;
    let free = if large { memory::available() } else { None };
    let most = free.map_or(MOST_SUMS, |free| MOST_SUMS.min(free as usize / 4));
    pool.size().min(most / bytes).max(1)
}
