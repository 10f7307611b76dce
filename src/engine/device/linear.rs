//! The device that a sparse logistic regression is fitted on.

use super::{Chosen, Place, fallback};
use taiga_core::error::Result;
use taiga_core::learners::linear::batches::{ByBatches, Deal};
use taiga_core::learners::linear::lbfgs::Fitted;
use taiga_core::learners::linear::problem::Problem;
use taiga_core::learners::linear::steps::{LinearDevices, On, Task};
use taiga_core::learners::linear::{LinearParams, Optimizer};
use taiga_core::parallel::thread_pool::ThreadPool;
use taiga_cpu::linear::batches::Batches;
use taiga_cpu::linear::passes::Passes;

impl LinearDevices for Chosen<'_> {
    fn place(&self, problem: &Problem<'_>, params: &LinearParams, pool: &ThreadPool) -> Result<Place> {
        let entries = problem.csr.as_ref().map_or(0, |c| c.entries()) + problem.rows * (problem.dense.len() + 8);
        // An entry takes the CPU about 4 ns a pass of lbfgs, a score and a gradient, and 15 ns an epoch by batches (measured on
        // Zen 4 at 3.5 GHz, one thread); a GPU takes about 15 µs a batch, whatever its rows.
        let (of_entry, batches) = match params.optimizer {
            Optimizer::Lbfgs => (4e-9, 0.0),
            _ => (15e-9, 1.5e-5 * (problem.rows / params.batch() as usize) as f64),
        };
        let epoch = of_entry * entries as f64 * problem.outputs as f64;
        let batches = if fallback::takes_everything() { 0.0 } else { batches };
        if self.asked == "auto" && epoch / (pool.size() as f64) < 2.0 * batches {
            return Ok(Place::Cpu("cpu: batches are too small for a GPU".into()));
        }
        self.choose(None, epoch * params.epochs() as f64, pool.size())
    }

    fn whole<R>(&self, place: &Place, task: &Task<'_, '_>, on: impl On<R>) -> Result<R> {
        task.monitor.device(place.why());
        #[cfg(test)]
        if fallback::fake::takes(place) {
            return on.on(&fallback::fake::FailingPasses(&Passes::new(task)?));
        }
        #[cfg(feature = "cuda")]
        if let Place::Gpu(number, _) = place {
            return on.on(&taiga_cuda::linear::CudaLinear::new(*number, task)?);
        }
        on.on(&Passes::new(task)?)
    }

    fn by_batches(&self, place: &Place, batches: ByBatches<'_, '_, '_, '_>) -> Result<Fitted> {
        let task = batches.task;
        let (deal, passes) = (Deal::new(task.problem, batches.params), Passes::new(task)?);
        task.monitor.device(place.why());
        #[cfg(test)]
        if fallback::fake::takes(place) {
            return Err(fallback::fake::out_of_memory());
        }
        #[cfg(feature = "cuda")]
        if let Place::Gpu(number, _) = place {
            return batches.on(&deal, &mut taiga_cuda::linear::CudaBatches::new(*number, task, &deal)?, &passes);
        }
        batches.on(&deal, &mut Batches::new(&passes, &deal)?, &passes)
    }
}
