//! Fits whose rows are dealt to GPUs, one GPU several times where a test wants that.

use taiga_engine::Result;
use taiga_engine::cuda::trees::several_gpus::with_shards;
use taiga_engine::dataset::Monitor;
use taiga_engine::device::device_info;
use taiga_engine::learners::boosting::steps::{Extent, TrainingData, TreeDevices, TreeSteps};
use taiga_engine::parallel::thread_pool::ThreadPool;

/// GPUs that have a shard of the rows each, by number; through the host where they are not to read each other's memory.
#[derive(Debug)]
pub struct Shards {
    pub gpus: Vec<u32>,
    pub through_host: bool,
}

impl TreeDevices for Shards {
    fn stays_here(&self) -> bool {
        false
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
        with_shards(&self.gpus, self.through_host, pool, data, extent.most_nodes, &interrupted, body)
    }
}

/// Two and three shards on one GPU, what GPUs there are (two of them both ways, and all), and two shards through the host.
pub fn shards() -> Vec<Shards> {
    let there = device_info().devices.len() as u32;
    let mut sets = vec![vec![0, 0], vec![0, 0, 0]];
    if there > 1 {
        sets.extend([vec![0, 1], vec![1, 0]]);
    }
    if there > 2 {
        sets.push((0..there).collect());
    }
    let of = |gpus: Vec<u32>| Shards { gpus, through_host: false };
    sets.into_iter().map(of).chain([Shards { gpus: vec![0, 0], through_host: true }]).collect()
}
