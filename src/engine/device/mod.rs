//! Where work is done: the one place where a device is chosen, for every learner and verb.
//!
//! - [`Chosen`]: the devices of a fit, by the name that the user gives; what each learner asks for is in `trees`, `forest` and `linear`.
//! - [`columns`]: statistics and encodings; [`predict`]: models applied, `shared_copies`: by several GPUs.
//! - `cost`: the estimates by which `"auto"` chooses.
//! - [`fallback`]: what a GPU has not the memory for after all goes to the CPU.
//! - `gpu`: all that is asked of GPUs, in a build with them and in one without.

pub mod columns;
mod cost;
pub mod fallback;
mod forest;
pub(crate) mod gpu;
mod linear;
pub mod predict;
mod shared_copies;
pub(crate) mod trees;

use cost::Cost;
use taiga_core::dataset::Monitor;
pub use taiga_core::device::{CacheInfo, DeviceInfo, DeviceSet, DevicesInfo, Gpus, Place};
use taiga_core::error::{Error, Result};

/// Frees the columns that stay on GPUs for the next expression.
///
/// # Errors
/// [`Error::Device`].
pub fn clear_device_cache() -> Result<()> {
    gpu::clear_caches()
}

/// Sets how many bytes of columns may stay on each GPU: 0 turns that off, none is a quarter of the device's memory
/// (or what `TAIGA_CUDA_CACHE` says). Frees what is too much.
///
/// # Errors
/// [`Error::Device`].
pub fn limit_device_cache(bytes: Option<u64>) -> Result<()> {
    gpu::limit_caches(bytes)
}

/// Returns what GPUs there are, and why they can't be used where they can't.
pub fn device_info() -> DevicesInfo {
    gpu::info()
}

/// Parses the name of a device and opens the GPU that it names, so that its absence is told before any work.
///
/// # Errors
/// Those of [`DeviceSet::parse`], for more than one GPU, and for a GPU that is not there: an explicit choice never falls back.
///
/// ```
/// use taiga_engine::device::{DeviceSet, open};
/// assert_eq!(open("auto"), Ok(DeviceSet::Auto));
/// assert!(open("cuda:4000").is_err());
/// ```
pub fn open(text: &str) -> Result<DeviceSet> {
    let devices = DeviceSet::parse(text)?.at_most_one()?;
    if let DeviceSet::Cuda(gpus) = &devices {
        gpu::open(gpus.first())?;
    }
    Ok(devices)
}

/// Parses the name of a set of devices, which may be several GPUs, and opens these: `"cuda:all"` becomes their numbers.
///
/// # Errors
/// Those of [`DeviceSet::parse`], and for a GPU that is not there.
pub fn open_all(text: &str) -> Result<DeviceSet> {
    let devices = DeviceSet::parse(text)?;
    let numbers = match &devices {
        DeviceSet::Auto | DeviceSet::Cpu => return Ok(devices),
        DeviceSet::Cuda(Gpus::First) => return gpu::open(None).map(|()| devices),
        DeviceSet::Cuda(Gpus::Numbers(numbers)) => numbers.clone(),
        DeviceSet::Cuda(Gpus::All) => {
            gpu::open(None)?;
            gpu::info().devices.iter().map(|device| device.number).collect()
        }
    };
    numbers.iter().try_for_each(|number| gpu::open(Some(*number)))?;
    Ok(DeviceSet::Cuda(Gpus::Numbers(numbers)))
}

/// Opens the GPUs that `text` names: each by its number, or none for the first that there is; no GPU for the CPU and for `"auto"`.
///
/// # Errors
/// Those of [`open_all`].
fn open_gpus(text: &str) -> Result<Vec<Option<u32>>> {
    Ok(match open_all(text)? {
        DeviceSet::Auto | DeviceSet::Cpu => vec![],
        DeviceSet::Cuda(Gpus::Numbers(numbers)) => numbers.into_iter().map(Some).collect(),
        DeviceSet::Cuda(_) => vec![None],
    })
}

/// Checks that the GPUs which a device's name names are there. A text that is no device's name is for the parameters' own check to tell.
///
/// # Errors
/// Those of [`open_all`].
pub fn check_present(text: &str) -> Result<()> {
    if DeviceSet::parse(text).is_ok() { open_all(text).map(drop) } else { Ok(()) }
}

/// Checks that a device's name names no GPU, for work that is done on the CPU alone; `why`: what it is that is.
///
/// # Errors
/// Naming `device`.
///
/// ```
/// use taiga_engine::device::check_on_cpu;
/// assert!(check_on_cpu("auto", "`batches`").is_ok());
/// let error = check_on_cpu("cuda:1", "`batches`").unwrap_err().to_string();
/// assert_eq!(error, "parameter `device`: \"cuda:1\" with `batches`; leave it out");
/// ```
pub fn check_on_cpu(text: &str, why: &str) -> Result<()> {
    match DeviceSet::parse(text)? {
        DeviceSet::Cuda(_) => Err(Error::parameter("device", format!("{text:?} with {why}; leave it out"))),
        DeviceSet::Auto | DeviceSet::Cpu => Ok(()),
    }
}

/// Returns the device of a fit whose rows lie in several processes: the GPUs that its name names, else the CPU, since `"auto"` could come to
/// another device in each process.
///
/// # Errors
/// For what is no device's name.
///
/// ```
/// use taiga_engine::device::of_process;
/// assert_eq!((of_process("cuda:1"), of_process("auto")), (Ok("cuda:1"), Ok("cpu")));
/// ```
pub fn of_process(text: &str) -> Result<&str> {
    Ok(if let DeviceSet::Cuda(_) = DeviceSet::parse(text)? { text } else { "cpu" })
}

/// Adds to what is wrong with a learner's parameters, given as a JSON object and parsed, that the GPUs which they name are not there.
///
/// # Errors
/// Those of `parsed`, and of [`open_all`] for a `device` that is one's name.
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

/// Chooses where work is done, by the name that the user gives: under `"auto"` on a GPU where that gains by `cost`, nothing is in the way
/// (`refused`), it is there and has `room`.
///
/// # Errors
/// Those of [`open_all`]; where a GPU is named that is refused, since an explicit choice never falls back; [`Error::Interrupted`] of `room`.
fn choose(asked: &str, cost: Cost, refused: Option<&str>, room: impl FnOnce() -> Result<()>) -> Result<Place> {
    match (open_all(asked)?, refused) {
        (DeviceSet::Cpu, _) => Ok(Place::Cpu(asked.into())),
        (DeviceSet::Cuda(_), Some(why)) => Err(Error::parameter("device", format!("{asked:?}: {why}; use \"cpu\" or \"auto\""))),
        (DeviceSet::Cuda(gpus), None) => Ok(Place::Gpu(gpus.first(), asked.into())),
        (DeviceSet::Auto, _) => {
            if let Some(why) = gpu::missing() {
                return Ok(Place::Cpu(format!("cpu: {why}")));
            }
            if !cost.gains() && !fallback::takes_everything() {
                return Ok(Place::Cpu(format!("cpu: {}", cost.words())));
            }
            if let Some(why) = refused {
                return Ok(Place::Cpu(format!("cpu: {why}")));
            }
            match gpu::open(None).and_then(|()| room()) {
                Ok(()) => Ok(Place::Gpu(None, format!("cuda: {}", cost.words()))),
                Err(Error::Interrupted) => Err(Error::Interrupted),
                Err(why) => Ok(Place::Cpu(format!("cpu: {why}"))),
            }
        }
    }
}

/// The devices of a fit, by the name that the user gives.
pub struct Chosen<'a> {
    asked: &'a str,
    monitor: &'a dyn Monitor,
}

impl<'a> Chosen<'a> {
    /// Makes those that `asked` names; `monitor` is told what `"auto"` comes to in the midst of a fit.
    pub fn new(asked: &'a str, monitor: &'a dyn Monitor) -> Self {
        Chosen { asked, monitor }
    }
}
