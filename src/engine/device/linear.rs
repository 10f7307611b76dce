//! The device that a sparse logistic regression is fitted on.

use super::{Chosen, Place, choose, cost, gpu, open, open_gpus};
use taiga_core::error::Result;
use taiga_core::learners::linear::batches::{ByBatches, Deal};
use taiga_core::learners::linear::lbfgs::Fitted;
use taiga_core::learners::linear::params::{LinearParams, Optimizer};
use taiga_core::learners::linear::problem::Problem;
use taiga_core::learners::linear::steps::{LinearDevices, On, Task};
use taiga_core::parallel::thread_pool::ThreadPool;
use taiga_cpu::linear::batches;
use taiga_cpu::linear::passes::Passes;

impl LinearDevices for Chosen<'_> {
    fn place(&self, problem: &Problem<'_>, params: &LinearParams, pool: &ThreadPool) -> Result<Place> {
        if params.optimizer != Optimizer::Lbfgs {
            open(self.asked)?;
        }
        choose(self.asked, cost::linear(pool.size(), problem, params), None, || Ok(()))
    }

    fn whole<R>(&self, place: &Place, task: &Task<'_, '_>, on: impl On<R>) -> Result<R> {
        task.monitor.device(place.why());
        match place {
            Place::Cpu(_) => on.on(&Passes::new(task)?),
            Place::Gpu(number, _) => {
                let named = open_gpus(self.asked)?;
                gpu::with_passes(if named.is_empty() { std::slice::from_ref(number) } else { &named }, task, on)
            }
        }
    }

    fn by_batches(&self, place: &Place, work: ByBatches<'_, '_, '_, '_>) -> Result<Fitted> {
        let task = work.task;
        let (deal, passes) = (Deal::new(task.problem, work.params), Passes::new(task)?);
        task.monitor.device(place.why());
        match place {
            Place::Cpu(_) => batches::fit(work, &deal, &passes),
            Place::Gpu(number, _) => gpu::by_batches(*number, work, &deal, &passes),
        }
    }
}
