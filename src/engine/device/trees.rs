//! The device that boosted trees are fitted on.

#[cfg(not(feature = "cuda"))]
use super::NO_CUDA;
#[cfg(any(feature = "cuda", test))]
use super::fallback;
use super::{Chosen, Device, open};
use taiga_core::dataset::Monitor;
use taiga_core::error::{Error, Result};
use taiga_core::learners::boosting::steps::{Extent, TrainingData, TreeDevices, TreeSteps};
use taiga_core::parallel::thread_pool::ThreadPool;
use taiga_cpu::trees::CpuTrees;
#[cfg(feature = "cuda")]
use taiga_cuda::trees::CudaTrees;

impl TreeDevices for Chosen<'_> {
    fn stays_here(&self) -> bool {
        match Device::parse(self.asked) {
            Ok(Device::Cpu) => true,
            Ok(Device::Auto) => !cfg!(feature = "cuda"),
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
        let device = match open(self.asked)? {
            Device::Auto => {
                let (device, why) = choose(pool, &data, extent, &interrupted)?;
                monitor.device(&why);
                device
            }
            named => {
                monitor.device(self.asked);
                named
            }
        };
        #[cfg(test)]
        if self.asked == "auto" && fallback::fake::is_there() {
            return body(&mut fallback::fake::Failing(CpuTrees::new(pool, data, &interrupted)?));
        }
        match device {
            Device::Auto | Device::Cpu => body(&mut CpuTrees::new(pool, data, &interrupted)?),
            #[cfg(feature = "cuda")]
            Device::Cuda(number) => body(&mut CudaTrees::new(number, pool, data, extent.most_nodes, &interrupted)?),
            #[cfg(not(feature = "cuda"))]
            Device::Cuda(_) => Err(Error::parameter("device", NO_CUDA)),
        }
    }
}

/// Estimates the seconds that a fit takes on the CPU and on a GPU: the CPU reads a value for a tree in 1.1 ns
/// on one thread (measured on Zen 4 at 3.5 GHz); a GPU takes 0.1 s to begin, 1 ns to upload a value,
/// 0.3 ms a tree and 7 ps a value (measured on an H200; 30 ps here, for lesser ones).
#[cfg(feature = "cuda")]
fn seconds(threads: usize, data: &TrainingData<'_>, extent: Extent) -> (f64, f64) {
    let values = data.target.len() as f64 * data.features.len() as f64;
    let trees = extent.trees as f64;
    (values * trees * 1.1e-9 / threads as f64, 0.1 + values * 1e-9 + trees * (3e-4 + values * 3e-11))
}

/// Chooses what `"auto"` stands for, and says why.
#[cfg(feature = "cuda")]
fn choose(pool: &ThreadPool, data: &TrainingData<'_>, extent: Extent, interrupted: &(dyn Fn() -> bool + Sync)) -> Result<(Device, String)> {
    let (cpu, gpu) = seconds(pool.size(), data, extent);
    let times = format!("an estimated {cpu:.2} s there and {gpu:.2} s on a GPU");
    if cpu <= gpu && !fallback::takes_everything() {
        return Ok((Device::Cpu, format!("cpu: {times}")));
    }
    Ok(match CudaTrees::check(None, pool, data, extent.most_nodes, interrupted) {
        Ok(()) => (Device::Cuda(None), format!("cuda: an estimated {gpu:.2} s there and {cpu:.2} s on the CPU")),
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(why) => (Device::Cpu, format!("cpu: {why}")),
    })
}

#[cfg(not(feature = "cuda"))]
fn choose(_: &ThreadPool, _: &TrainingData<'_>, _: Extent, _: &(dyn Fn() -> bool + Sync)) -> Result<(Device, String)> {
    Ok((Device::Cpu, format!("cpu: {NO_CUDA}")))
}
