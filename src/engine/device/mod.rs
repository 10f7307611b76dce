//! Where work is done: the names of devices, and the place where one is chosen.

pub mod columns;
pub mod fallback;
pub mod predict;

use crate::cpu;
#[cfg(feature = "cuda")]
use crate::cuda;
use crate::error::{Error, Result};
use crate::learners::boosting::steps::Backend;
use crate::learners::boosting::steps::Extent;
use crate::learners::boosting::steps::TrainingData;
use crate::parallel::thread_pool::Team;

/// Where the work is asked to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// A GPU where there is one and the work is large enough to gain, else the CPU; which also does what the GPU turns out to have
    /// no memory for ([`fallback`]).
    Auto,
    Cpu,
    /// A GPU, by its number where one is named.
    Cuda(Option<u32>),
}

impl Device {
    /// The device that `"auto"`, `"cpu"`, `"cuda"` or `"cuda:N"` names.
    ///
    /// # Errors
    /// For any other text, and for a device that is not there: an explicit choice never falls back.
    pub fn parse(text: &str) -> Result<Device> {
        let number = text.strip_prefix("cuda:").map(str::parse);
        match (text, number) {
            ("auto", _) => Ok(Device::Auto),
            ("cpu", _) => Ok(Device::Cpu),
            ("cuda", _) => Device::Cuda(None).available(text),
            (_, Some(Ok(number))) => Device::Cuda(Some(number)).available(text),
            _ => Err(Error::parameter("device", format!("{text:?} is not \"auto\", \"cpu\", \"cuda\" or \"cuda:N\""))),
        }
    }

    /// Opens the GPU that is named, so that its absence is told before any work.
    #[cfg(feature = "cuda")]
    fn available(self, _: &str) -> Result<Device> {
        match self {
            Device::Auto | Device::Cpu => {}
            Device::Cuda(number) => drop(cuda::Gpu::get(number)?),
        }
        Ok(self)
    }

    #[cfg(not(feature = "cuda"))]
    fn available(self, text: &str) -> Result<Device> {
        match self {
            Device::Auto | Device::Cpu => Ok(self),
            Device::Cuda(_) => Err(no_cuda(text)),
        }
    }
}

#[cfg(not(feature = "cuda"))]
pub(crate) const NO_CUDA: &str = "this build of polars-taiga has no CUDA backend";

#[cfg(not(feature = "cuda"))]
pub(crate) fn no_cuda(device: &str) -> Error {
    Error::parameter("device", format!("{device:?}: {NO_CUDA}; use \"cpu\" or \"auto\""))
}

/// The GPUs of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicesInfo {
    /// The newest CUDA that the NVIDIA driver supports, such as `13.0`; none where there is no driver.
    pub driver: Option<String>,
    pub devices: Vec<DeviceInfo>,
    /// Why there is no GPU to use, or why one of them can't be.
    pub unavailable: Option<String>,
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// `N` of `"cuda:N"`.
    pub number: u32,
    pub name: String,
    /// Compute capability.
    pub capability: (u32, u32),
    /// Bytes.
    pub total_memory: u64,
    /// Bytes, those that this process keeps for later included.
    pub free_memory: u64,
    pub cache: CacheInfo,
}

/// The columns that stay on a GPU for the next expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheInfo {
    pub columns: usize,
    /// Of device memory.
    pub bytes: u64,
    /// The most bytes; 0 where it is off.
    pub limit: u64,
    /// Columns that were there, and that were not, since the process began.
    pub hits: u64,
    pub misses: u64,
}

/// Frees the columns that stay on GPUs for the next expression.
///
/// # Errors
/// [`Error::Device`].
pub fn clear_device_cache() -> Result<()> {
    #[cfg(feature = "cuda")]
    cuda::runtime::device::each_cache(|gpu, cache| cache.clear(gpu).map(drop))?;
    Ok(())
}

/// Sets how many bytes of columns may stay on each GPU: 0 turns that off, none is a quarter of the device's memory
/// (or what `TAIGA_CUDA_CACHE` says). Frees what is too much.
///
/// # Errors
/// [`Error::Device`].
pub fn limit_device_cache(bytes: Option<u64>) -> Result<()> {
    #[cfg(feature = "cuda")]
    cuda::runtime::device::each_cache(|gpu, cache| {
        cache.set_limit(gpu, bytes);
        Ok(())
    })?;
    #[cfg(not(feature = "cuda"))]
    let _ = bytes;
    Ok(())
}

/// What GPUs there are, and why they can't be used where they can't.
pub fn device_info() -> DevicesInfo {
    #[cfg(feature = "cuda")]
    return cuda::runtime::device::device_info();
    #[cfg(not(feature = "cuda"))]
    DevicesInfo { driver: None, devices: vec![], unavailable: Some(NO_CUDA.into()) }
}

/// Runs `body` on the backend of the device that is asked for (as [`Device::parse`] has it), with the data brought there. The one place
/// where a device is chosen; `chosen` is told which one was taken, and why where it was ours to say.
///
/// # Errors
/// What [`Device::parse`], the backend and `body` report.
pub fn with_backend<R>(
    asked: &str,
    team: &Team,
    data: TrainingData<'_>,
    extent: Extent,
    interrupted: &(dyn Fn() -> bool + Sync),
    chosen: &dyn Fn(&str),
    body: impl FnOnce(&mut dyn Backend) -> Result<R>,
) -> Result<R> {
    let device = match Device::parse(asked)? {
        Device::Auto => {
            let (device, why) = choose(team, &data, extent, interrupted)?;
            chosen(&why);
            device
        }
        named => {
            chosen(asked);
            named
        }
    };
    #[cfg(test)]
    if asked == "auto" && fallback::fake::is_there() {
        return body(&mut fallback::fake::Failing(cpu::trees::CpuBackend::new(team, data, interrupted)?));
    }
    match device {
        Device::Auto | Device::Cpu => body(&mut cpu::trees::CpuBackend::new(team, data, interrupted)?),
        #[cfg(feature = "cuda")]
        Device::Cuda(number) => body(&mut cuda::trees::CudaBackend::new(number, team, data, extent.most_nodes, interrupted)?),
        #[cfg(not(feature = "cuda"))]
        Device::Cuda(_) => Err(Error::parameter("device", NO_CUDA)),
    }
}

/// Seconds that a fit takes on the CPU and on a GPU, about: the CPU reads a value for a tree in 1.1 ns
/// on one thread (measured on Zen 4 at 3.5 GHz); a GPU takes 0.1 s to begin, 1 ns to upload a value,
/// 0.3 ms a tree and 7 ps a value (measured on an H200; 30 ps here, for lesser ones).
#[cfg(feature = "cuda")]
fn seconds(threads: usize, data: &TrainingData<'_>, extent: Extent) -> (f64, f64) {
    let values = data.target.len() as f64 * data.features.len() as f64;
    let trees = extent.trees as f64;
    (values * trees * 1.1e-9 / threads as f64, 0.1 + values * 1e-9 + trees * (3e-4 + values * 3e-11))
}

/// The device that `"auto"` stands for, and why.
#[cfg(feature = "cuda")]
fn choose(team: &Team, data: &TrainingData<'_>, extent: Extent, interrupted: &(dyn Fn() -> bool + Sync)) -> Result<(Device, String)> {
    let (cpu, gpu) = seconds(team.size(), data, extent);
    let times = format!("an estimated {cpu:.2} s there and {gpu:.2} s on a GPU");
    if cpu <= gpu && !fallback::takes_everything() {
        return Ok((Device::Cpu, format!("cpu: {times}")));
    }
    Ok(match cuda::trees::CudaBackend::check(None, team, data, extent.most_nodes, interrupted) {
        Ok(()) => (Device::Cuda(None), format!("cuda: an estimated {gpu:.2} s there and {cpu:.2} s on the CPU")),
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(why) => (Device::Cpu, format!("cpu: {why}")),
    })
}

#[cfg(not(feature = "cuda"))]
fn choose(_: &Team, _: &TrainingData<'_>, _: Extent, _: &(dyn Fn() -> bool + Sync)) -> Result<(Device, String)> {
    Ok((Device::Cpu, format!("cpu: {NO_CUDA}")))
}
