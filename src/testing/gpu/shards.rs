//! Fits whose rows are dealt to GPUs, one GPU several times where a test wants that.

use taiga_engine::cuda::forest::grow;
use taiga_engine::cuda::linear::with_passes;
use taiga_engine::cuda::runtime::nccl;
pub use taiga_engine::cuda::trees::several_gpus::Exchange;
use taiga_engine::cuda::trees::several_gpus::with_shards;
use taiga_engine::dataset::{Monitor, Quiet};
use taiga_engine::device::{Chosen, Place, device_info};
use taiga_engine::learners::boosting::steps::{Extent, TrainingData, TreeDevices, TreeSteps};
use taiga_engine::learners::forest::codes::Code;
use taiga_engine::learners::forest::impurity::Impurity;
use taiga_engine::learners::forest::steps::{ForestDevices, ForestWork, GrowTree, GrowerTask, GrownTrees};
use taiga_engine::learners::linear::LinearParams;
use taiga_engine::learners::linear::batches::ByBatches;
use taiga_engine::learners::linear::lbfgs::Fitted;
use taiga_engine::learners::linear::problem::Problem;
use taiga_engine::learners::linear::steps::{LinearDevices, On, Task};
use taiga_engine::parallel::thread_pool::ThreadPool;
use taiga_engine::{Error, Result};

/// GPUs that have a shard of the rows each, by number, and how histograms are added.
#[derive(Debug)]
pub struct Shards {
    pub gpus: Vec<Option<u32>>,
    pub exchange: Exchange,
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
        with_shards(&self.gpus, self.exchange, pool, data, extent.most_nodes, &interrupted, body)
    }
}

/// GPUs that grow a share of a forest's trees each, one GPU several times where a test wants that.
pub struct TreeShares {
    pub gpus: Vec<Option<u32>>,
    cpu: Chosen<'static>,
}

impl TreeShares {
    /// Makes shares of the GPUs of these numbers.
    pub fn new(gpus: &[Option<u32>]) -> TreeShares {
        TreeShares { gpus: gpus.to_vec(), cpu: Chosen::new("cpu", &Quiet) }
    }
}

impl ForestDevices for TreeShares {
    fn place(&self, refused: Option<&str>, _: f64, _: usize) -> Result<Place> {
        assert_eq!(refused, None, "a forest that no GPU grows");
        Ok(Place::Gpu(self.gpus[0], "a test".into()))
    }

    fn grow<C: Code>(&self, _: &Place, work: &ForestWork<'_, C>) -> Result<Option<GrownTrees>> {
        grow(&self.gpus, work).map(Some)
    }

    fn grower<'a, K: Impurity, C: Code>(&self, task: GrowerTask<'a, K, C>) -> impl GrowTree<K> + 'a {
        self.cpu.grower(task)
    }
}

/// GPUs that pass over a share of the rows each, one GPU several times where a test wants that.
pub struct PassShares(pub Vec<Option<u32>>);

impl LinearDevices for PassShares {
    fn place(&self, _: &Problem<'_>, _: &LinearParams, _: &ThreadPool) -> Result<Place> {
        Ok(Place::Gpu(self.0[0], "a test".into()))
    }

    fn whole<R>(&self, _: &Place, task: &Task<'_, '_>, on: impl On<R>) -> Result<R> {
        with_passes(&self.0, task, on)
    }

    fn by_batches(&self, _: &Place, _: ByBatches<'_, '_, '_, '_>) -> Result<Fitted> {
        Err(Error::parameter("optimizer", "rows by batches are on one GPU"))
    }
}

/// Two and three shards on one GPU, what GPUs there are (two of them both ways, and all), two shards through the host, and where there are two GPUs
/// and NCCL, two by that.
pub fn shards() -> Vec<Shards> {
    let there = device_info().devices.len() as u32;
    let mut sets = vec![vec![0, 0], vec![0, 0, 0]];
    if there > 1 {
        sets.extend([vec![0, 1], vec![1, 0]]);
    }
    if there > 2 {
        sets.push((0..there).collect());
    }
    let of = |gpus: Vec<u32>, exchange| Shards { gpus: gpus.into_iter().map(Some).collect(), exchange };
    let mut all: Vec<Shards> = sets.into_iter().map(|gpus| of(gpus, Exchange::Any)).collect();
    all.push(of(vec![0, 0], Exchange::Host));
    if there > 1 && nccl::is_there() {
        all.push(of(vec![0, 1], Exchange::Nccl));
    }
    all
}
