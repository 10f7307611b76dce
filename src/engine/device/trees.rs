//! The device that boosted trees are fitted on.

use super::{Chosen, DeviceSet, Place, choose, cost, gpu, open_gpus};
use taiga_core::dataset::labels::Labels;
use taiga_core::dataset::{Input, Monitor};
use taiga_core::error::Result;
use taiga_core::learners::boosting::BoostingParams;
use taiga_core::learners::boosting::small_tables::may_suit;
use taiga_core::learners::boosting::steps::{Extent, TrainingData, TreeDevices, TreeSteps};
use taiga_core::parallel::thread_pool::ThreadPool;
use taiga_cpu::trees::CpuTrees;

/// Returns whether fits to such a table by such parameters, each by one thread, are sure not to go to a GPU.
pub fn stay_here(input: &Input<'_>, params: &BoostingParams) -> bool {
    if params.is_ordered() {
        return true;
    }
    match DeviceSet::parse(&params.device) {
        Ok(DeviceSet::Auto) => {
            let outputs = input.target.labels().map_or(input.target.several().len(), Labels::len).max(1);
            let size = (input.target.rows(), input.features.len());
            gpu::missing().is_some() || !cost::trees(1, size, outputs * params.rounds.unwrap_or(MOST_ROUNDS) as usize).gains()
        }
        named => named == Ok(DeviceSet::Cpu),
    }
}

/// So many rounds are hardly ever found where none are told.
const MOST_ROUNDS: u32 = 1_000;

/// The tables that fits of one call are made to: how many, and about how many rows and features each has.
#[derive(Clone, Copy, Debug)]
pub struct ManyTables {
    pub count: usize,
    pub rows: usize,
    pub features: usize,
    /// How many threads fit them.
    pub threads: usize,
}

/// Returns the GPUs that grow the trees of many small tables, by their numbers (none being the first that there is): none where the CPU
/// does, or where no such fit's trees grow together. The monitor is told what `"auto"` comes to.
///
/// # Errors
/// For GPUs that are not there.
pub fn small_table_gpus(params: &BoostingParams, tables: ManyTables, monitor: &dyn Monitor) -> Result<Vec<Option<u32>>> {
    let asked = &params.device;
    if !may_suit(params) {
        return Ok(vec![]);
    }
    if DeviceSet::parse(asked)? != DeviceSet::Auto {
        return open_gpus(asked);
    }
    let rounds = params.rounds.unwrap_or(MOST_ROUNDS) as usize;
    let cost = cost::small_tables(tables.threads, tables.count, (tables.rows, tables.features), rounds);
    let place = choose(asked, cost, None, || Ok(()))?;
    monitor.device(place.why());
    Ok(match place {
        Place::Cpu(_) => vec![],
        Place::Gpu(number, _) => vec![number],
    })
}

impl TreeDevices for Chosen<'_> {
    fn stays_here(&self) -> bool {
        match DeviceSet::parse(self.asked) {
            Ok(DeviceSet::Cpu) => true,
            Ok(DeviceSet::Auto) => gpu::missing().is_some(),
            _ => false,
        }
    }

    fn with_steps(
        &self,
        pool: &ThreadPool,
        data: TrainingData<'_>,
        extent: Extent,
        monitor: &dyn Monitor,
        body: &mut dyn FnMut(&mut dyn TreeSteps) -> Result<()>,
    ) -> Result<()> {
        let interrupted = || monitor.interrupted();
        let gpus = open_gpus(self.asked)?;
        if gpus.len() > 1 || (!gpus.is_empty() && !data.shard.is_whole()) {
            monitor.device(self.asked);
            return gpu::with_several_trees(&gpus, pool, data, extent.most_nodes, &interrupted, body);
        }
        let room = || gpu::check_trees(pool, &data, extent.most_nodes, &interrupted);
        let place = choose(self.asked, cost::trees(pool.size(), (data.target.len(), data.features.len()), extent.trees), None, room)?;
        monitor.device(place.why());
        match place {
            Place::Cpu(_) => body(&mut CpuTrees::new(pool, data, &interrupted)?),
            Place::Gpu(number, _) => gpu::with_trees(number, pool, data, extent.most_nodes, &interrupted, body),
        }
    }
}
