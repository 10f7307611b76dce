//! The device that a forest grows on.

use super::fallback::or_on_cpu;
use super::{Chosen, Place};
use taiga_core::error::Result;
use taiga_core::learners::forest::codes::Code;
use taiga_core::learners::forest::impurity::Impurity;
use taiga_core::learners::forest::steps::{ForestDevices, ForestWork, GrowTree, GrowerTask, GrownTrees};
use taiga_cpu::forest::grow::Grower;

impl ForestDevices for Chosen<'_> {
    fn place(&self, refused: Option<&str>, seconds: f64, threads: usize) -> Result<Place> {
        self.choose(refused, seconds, threads)
    }

    fn grow<C: Code>(&self, place: &Place, work: &ForestWork<'_, C>) -> Result<Option<GrownTrees>> {
        let Place::Gpu(number, _) = place else { return Ok(None) };
        let on = |device: &str| if device == "cpu" { Ok(None) } else { on_gpu(*number, work).map(Some) };
        or_on_cpu(self.asked, &|chosen| self.monitor.device(chosen), on)
    }

    fn grower<'a, K: Impurity, C: Code>(&self, task: GrowerTask<'a, K, C>) -> impl GrowTree<K> + 'a {
        Grower::new(task)
    }
}

/// All trees of a forest, grown on a GPU.
fn on_gpu<C: Code>(number: Option<u32>, work: &ForestWork<'_, C>) -> Result<GrownTrees> {
    #[cfg(test)]
    if super::fallback::fake::is_there() {
        return Err(super::fallback::fake::out_of_memory());
    }
    #[cfg(feature = "cuda")]
    return taiga_cuda::forest::grow(number, work);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (number, work);
        Err(taiga_core::Error::parameter("device", super::NO_CUDA))
    }
}
