//! Where work is done: the one place where a device is chosen, for every learner and verb.
//!
//! - [`Chosen`]: the devices of a fit, by the name that the user gives; what each learner asks for is in `trees`, `forest` and `linear`.
//! - [`columns`]: statistics and encodings; [`predict`]: models applied.
//! - [`fallback`]: what a GPU has not the memory for after all goes to the CPU.

pub mod columns;
pub mod fallback;
mod forest;
mod linear;
pub mod predict;
mod trees;

use taiga_core::dataset::Monitor;
pub use taiga_core::device::{CacheInfo, Device, DeviceInfo, DevicesInfo, Place};
use taiga_core::error::{Error, Result};
#[cfg(feature = "cuda")]
use taiga_cuda::runtime;

#[cfg(not(feature = "cuda"))]
pub(crate) const NO_CUDA: &str = "this build of polars-taiga has no CUDA backend";

#[cfg(not(feature = "cuda"))]
pub(crate) fn no_cuda(device: &str) -> Error {
    Error::parameter("device", format!("{device:?}: {NO_CUDA}; use \"cpu\" or \"auto\""))
}

/// Frees the columns that stay on GPUs for the next expression.
///
/// # Errors
/// [`Error::Device`].
pub fn clear_device_cache() -> Result<()> {
    #[cfg(feature = "cuda")]
    runtime::device::each_cache(|gpu, cache| cache.clear(gpu).map(drop))?;
    Ok(())
}

/// Sets how many bytes of columns may stay on each GPU: 0 turns that off, none is a quarter of the device's memory
/// (or what `TAIGA_CUDA_CACHE` says). Frees what is too much.
///
/// # Errors
/// [`Error::Device`].
pub fn limit_device_cache(bytes: Option<u64>) -> Result<()> {
    #[cfg(feature = "cuda")]
    runtime::device::each_cache(|gpu, cache| {
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
    return runtime::device::device_info();
    #[cfg(not(feature = "cuda"))]
    DevicesInfo { driver: None, devices: vec![], unavailable: Some(NO_CUDA.into()) }
}

/// Parses the name of a device and opens the GPU that it names, so that its absence is told before any work.
///
/// # Errors
/// Those of [`Device::parse`], and for a GPU that is not there: an explicit choice never falls back.
///
/// ```
/// use taiga_engine::device::{Device, open};
/// assert_eq!(open("auto"), Ok(Device::Auto));
/// assert!(open("cuda:4000").is_err());
/// ```
pub fn open(text: &str) -> Result<Device> {
    let device = Device::parse(text)?;
    match device {
        Device::Auto | Device::Cpu => Ok(device),
        #[cfg(feature = "cuda")]
        Device::Cuda(number) => runtime::Gpu::get(number).map(|_| device),
        #[cfg(not(feature = "cuda"))]
        Device::Cuda(_) => Err(no_cuda(text)),
    }
}

/// Checks that the GPU which a device's name names is there. A text that is no device's name is for the parameters' own check to tell.
///
/// # Errors
/// Those of [`open`].
pub fn check_present(text: &str) -> Result<()> {
    if Device::parse(text).is_ok() { open(text).map(drop) } else { Ok(()) }
}

/// Adds to what is wrong with a learner's parameters, given as a JSON object and parsed, that the GPU which they name is not there.
///
/// # Errors
/// Those of `parsed`, and of [`open`] for a `device` that is one's name.
///
/// ```
/// use taiga_engine::device::with_device;
/// use taiga_engine::learners::boosting::BoostingParams;
/// let given = serde_json::json!({ "device": "cuda:4000" });
/// assert!(BoostingParams::from_json(&given).is_ok());
/// assert!(with_device(&given, BoostingParams::from_json(&given)).is_err());
/// ```
pub fn with_device<P>(given: &serde_json::Value, parsed: Result<P>) -> Result<P> {
    let Some(Err(absent)) = given.get("device").and_then(|name| name.as_str()).map(check_present) else { return parsed };
    let mut errors = parsed.as_ref().err().map_or(vec![], |e| e.each().to_vec());
    errors.push(absent);
    Error::all(errors).and(parsed)
}

/// The devices of a fit, by the name that the user gives.
pub struct Chosen<'a> {
    asked: &'a str,
    monitor: &'a dyn Monitor,
}

impl<'a> Chosen<'a> {
    /// Those that `asked` names; `monitor` is told what `"auto"` comes to in the midst of a fit.
    pub fn new(asked: &'a str, monitor: &'a dyn Monitor) -> Self {
        Chosen { asked, monitor }
    }

    /// Where work goes of which a GPU may not be able to do (`refused`, why) that takes one of `threads` threads about `seconds`.
    ///
    /// # Errors
    /// Those of [`open`]; where a GPU is named that can't do it, since an explicit choice never falls back.
    fn choose(&self, refused: Option<&str>, seconds: f64, threads: usize) -> Result<Place> {
        let device = self.asked;
        #[cfg(not(feature = "cuda"))]
        let _ = (seconds, threads);
        #[cfg(test)]
        if device == "auto" && fallback::fake::is_there() {
            return Ok(Place::Gpu(None, fallback::fake::WHY.into()));
        }
        match open(device)? {
            Device::Cpu => Ok(Place::Cpu(device.into())),
            #[cfg(feature = "cuda")]
            Device::Auto => {
                let seconds = seconds / threads as f64;
                if seconds < 2.0 && !fallback::takes_everything() {
                    return Ok(Place::Cpu(format!("cpu: an estimated {seconds:.1} s there")));
                }
                let found = runtime::Gpu::get(None);
                Ok(match (refused, found) {
                    (Some(why), _) => Place::Cpu(format!("cpu: {why}")),
                    (None, Err(why)) => Place::Cpu(format!("cpu: {why}")),
                    (None, Ok(_)) => Place::Gpu(None, format!("cuda: an estimated {seconds:.1} s on the CPU")),
                })
            }
            #[cfg(not(feature = "cuda"))]
            Device::Auto => Ok(Place::Cpu(format!("cpu: {NO_CUDA}"))),
            Device::Cuda(number) => match refused {
                Some(why) => Err(Error::parameter("device", format!("{device:?}: {why}; use \"cpu\" or \"auto\""))),
                None => Ok(Place::Gpu(number, device.into())),
            },
        }
    }
}
