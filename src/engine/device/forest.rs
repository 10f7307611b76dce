//! The device that a forest grows on.

use super::fallback::or_on_cpu;
use super::{Chosen, Place, choose, cost, gpu, open_gpus};
use taiga_core::error::Result;
use taiga_core::learners::forest::codes::Code;
use taiga_core::learners::forest::impurity::Impurity;
use taiga_core::learners::forest::steps::{ForestDevices, ForestWork, GrowTree, GrowerTask, GrownTrees};
use taiga_cpu::forest::grow::Grower;

impl ForestDevices for Chosen<'_> {
    fn place(&self, refused: Option<&str>, values: f64, threads: usize) -> Result<Place> {
        choose(self.asked, cost::forest(threads, values), refused, || Ok(()))
    }

    fn grow<C: Code>(&self, place: &Place, work: &ForestWork<'_, C>) -> Result<Option<GrownTrees>> {
        let Place::Gpu(number, _) = place else { return Ok(None) };
        let named = open_gpus(self.asked)?;
        let gpus = if named.is_empty() { vec![*number] } else { named };
        let on = |device: &str| if device == "cpu" { Ok(None) } else { gpu::grow_forest(&gpus, work).map(Some) };
        or_on_cpu(self.asked, &|chosen| self.monitor.device(chosen), on)
    }

    fn grower<'a, K: Impurity, C: Code>(&self, task: GrowerTask<'a, K, C>) -> impl GrowTree<K> + 'a {
        Grower::new(task)
    }
}
