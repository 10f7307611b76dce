//! The names of devices, where work is to be done, and what is known of GPUs; nothing that runs.

use crate::error::{Error, Result};

/// Where the work is asked to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// A GPU where there is one and the work is large enough to gain, else the CPU; which also does what the GPU turns out to have
    /// no memory for.
    Auto,
    Cpu,
    /// A GPU, by its number where one is named.
    Cuda(Option<u32>),
}

impl Device {
    /// Parses the name of a device: `"auto"`, `"cpu"`, `"cuda"` or `"cuda:N"`. Whether it is there is not looked at.
    ///
    /// # Errors
    /// [`Error::Parameter`] for any other text.
    ///
    /// ```
    /// use taiga_core::device::Device;
    /// assert_eq!(Device::parse("cuda:1"), Ok(Device::Cuda(Some(1))));
    /// assert!(Device::parse("gpu").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Device> {
        let number = text.strip_prefix("cuda:").map(str::parse);
        match (text, number) {
            ("auto", _) => Ok(Device::Auto),
            ("cpu", _) => Ok(Device::Cpu),
            ("cuda", _) => Ok(Device::Cuda(None)),
            (_, Some(Ok(number))) => Ok(Device::Cuda(Some(number))),
            _ => Err(Error::parameter("device", format!("{text:?} is not \"auto\", \"cpu\", \"cuda\" or \"cuda:N\""))),
        }
    }
}

/// Where trees grow, and a word on why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Cpu(String),
    /// A GPU, by its number where one was named.
    Gpu(Option<u32>, String),
}

impl Place {
    /// The word on why.
    pub fn why(&self) -> &str {
        let (Place::Cpu(why) | Place::Gpu(_, why)) = self;
        why
    }
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
