//! The GPUs of this machine: found once, kept for the life of the process.

use super::cache::Cache;
use super::error;
use super::error::driver;
use super::memory::{granted, is_short};
use super::upload::PinnedSlots;
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use cudarc::driver::{CudaContext, CudaFunction, CudaModule, DriverError, result};
use cudarc::nvrtc::Ptx;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use taiga_core::device::{DeviceInfo, DevicesInfo};
use taiga_core::error::{DeviceFault, Error, Result};
use taiga_core::parallel::fork::{PerProcess, generation};

/// The driver that the kernels' compiler asks for, as `cuDriverGetVersion` counts: CUDA 13.0.
const OLDEST_DRIVER: i32 = 13_000;

/// The oldest compute capability that the images have code for.
const OLDEST_CAPABILITY: (i32, i32) = (7, 5);

/// The share of device memory that freed buffers may keep for the next query: taking it from the driver again
/// costs milliseconds a gigabyte.
const KEPT_SHARE: u64 = 8;

/// A compiled `.cu` of `kernels/`.
#[derive(Clone, Copy)]
pub struct Image {
    pub name: &'static str,
    pub bytes: fn() -> &'static [u8],
}

/// `kernels/numerics.cu`: the elementwise functions, for the tests.
pub const NUMERICS: Image = Image { name: "numerics", bytes: taiga_kernels::images::numerics };

/// A GPU and what is loaded there.
pub struct Gpu {
    number: u32,
    name: String,
    capability: (i32, i32),
    multiprocessors: u32,
    shared_per_block: u32,
    pub(crate) context: Arc<CudaContext>,
    modules: Mutex<HashMap<&'static str, Arc<CudaModule>>>,
    kernels: Mutex<HashMap<(&'static str, &'static str), Kernel>>,
    total_memory: u64,
    /// Pinned buffers for uploads.
    pub(crate) slots: PinnedSlots,
    /// Columns that stay for the next expression.
    pub(crate) cache: Cache,
    /// Held by the fit that shares this GPU's work with others ([`super::peers::take`]).
    pub(crate) sharing: Mutex<()>,
    /// The error after which the context is of no more use.
    pub(crate) lost: OnceLock<String>,
}

/// A kernel that is loaded on a GPU.
#[derive(Clone)]
pub struct Kernel {
    pub(crate) function: CudaFunction,
    pub name: &'static str,
    /// The most dynamic shared memory of a launch, in bytes.
    pub shared: u32,
    /// Whether it is code that can wait for the launch before it (`follow!`): made for compute capability 9.0 or newer.
    pub(crate) follows: bool,
}

/// What the driver offers, or why there is nothing.
struct Driver {
    version: i32,
    devices: u32,
}

/// The driver, or its version where it has one, and why it can't be used.
type FoundDriver = std::result::Result<Driver, (Option<i32>, String)>;

/// Notes that this process uses CUDA from now on.
///
/// # Errors
/// Where a process that it was forked from did: the driver's state is that process's, and no call finds its threads here.
fn begin() -> std::result::Result<(), String> {
    /// The generation of the first process that did, plus one.
    static BEGUN: AtomicU32 = AtomicU32::new(0);
    let own = generation().wrapping_add(1).max(1);
    match BEGUN.compare_exchange(0, own, Ordering::SeqCst, Ordering::SeqCst) {
        Err(first) if first != own => Err("this process was forked from one that has used CUDA, which does not survive a fork: start \
             processes by the method \"spawn\" (multiprocessing.get_context(\"spawn\"))"
            .into()),
        _ => Ok(()),
    }
}

/// Looks for the driver, once in a process.
fn find_driver() -> &'static FoundDriver {
    static DRIVER: PerProcess<OnceLock<FoundDriver>> = PerProcess::new();
    DRIVER.get().get_or_init(|| {
        // SAFETY: looks for the library by name; loading NVIDIA's driver has no other effect.
        if !unsafe { sys::is_culib_present() } {
            return Err((None, "no NVIDIA driver was found (looked for the library libcuda)".into()));
        }
        let mut version = 0;
        // SAFETY: the library is there, and the call needs no initialisation.
        let asked = unsafe { sys::cuDriverGetVersion(&mut version) }.result();
        if let Err(e) = asked {
            return Err((None, format!("the NVIDIA driver does not say its version: {}", error::text(e))));
        }
        if version < OLDEST_DRIVER {
            let (is, must) = (version_text(version), version_text(OLDEST_DRIVER));
            return Err((
                Some(version),
                format!("the NVIDIA driver is too old: it supports CUDA {is}, and CUDA {must} or newer is needed"),
            ));
        }
        begin().map_err(|why| (Some(version), why))?;
        let devices = result::init().and_then(|()| result::device::get_count());
        match devices {
            Ok(0) | Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => {
                let visible = match std::env::var("CUDA_VISIBLE_DEVICES") {
                    Ok(list) => format!(" (CUDA_VISIBLE_DEVICES is {list:?})"),
                    Err(_) => String::new(),
                };
                Err((Some(version), format!("the NVIDIA driver finds no GPU{visible}")))
            }
            Ok(devices) => Ok(Driver { version, devices: devices as u32 }),
            Err(e) => Err((Some(version), format!("the NVIDIA driver does not start: {}", error::text(e)))),
        }
    })
}

/// For tests: the shared memory of a block is taken to be no more than this, as on lesser GPUs.
const SHARED_LIMIT: &str = "TAIGA_CUDA_SHARED";

fn shared_limit() -> u32 {
    // Kernels have up to 10 KiB of their own.
    std::env::var(SHARED_LIMIT).ok().and_then(|bytes| bytes.parse().ok()).map_or(u32::MAX, |bytes: u32| bytes.max(48 << 10))
}

fn version_text(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What can be said of the GPUs of this machine.
pub fn device_info() -> DevicesInfo {
    match find_driver() {
        Err((version, why)) => DevicesInfo { driver: version.map(version_text), devices: vec![], unavailable: Some(why.clone()) },
        Ok(driver) => {
            let mut info = DevicesInfo { driver: Some(version_text(driver.version)), devices: vec![], unavailable: None };
            for number in 0..driver.devices {
                match Gpu::get(Some(number)).and_then(Gpu::info) {
                    Ok(device) => info.devices.push(device),
                    Err(e) => info.unavailable = Some(e.to_string()),
                }
            }
            info
        }
    }
}

/// Does something with the cache of every GPU that was opened.
///
/// # Errors
/// What it gives.
pub fn each_cache(mut with: impl FnMut(&'static Gpu, &Cache) -> Result<()>) -> Result<()> {
    if let Ok(driver) = find_driver() {
        for number in 0..driver.devices {
            let gpu = Gpu::get(Some(number))?;
            with(gpu, &gpu.cache)?;
        }
    }
    Ok(())
}

impl Gpu {
    /// The GPU of that number (0 where none is said), as the driver counts them. Opened on the
    /// first call, and then kept.
    ///
    /// # Errors
    /// [`Error::Parameter`] for `device`: no driver, one that is too old, no GPU or none of that number,
    /// one that is too old, a process forked from one that has used CUDA; [`Error::Device`] for one that failed before.
    pub fn get(number: Option<u32>) -> Result<&'static Gpu> {
        static GPUS: PerProcess<Mutex<Vec<&'static Gpu>>> = PerProcess::new();
        let asked = number.map_or("\"cuda\"".into(), |n| format!("\"cuda:{n}\""));
        let unavailable = |why: &str| Error::parameter("device", format!("{asked}: {why}; use \"cpu\" or \"auto\" to do without"));
        let driver = find_driver().as_ref().map_err(|(_, why)| unavailable(why))?;
        let number = number.unwrap_or(0);
        if number >= driver.devices {
            let found = if driver.devices == 1 { "1 GPU, cuda:0".into() } else { format!("{} GPUs, from cuda:0 on", driver.devices) };
            return Err(unavailable(&format!("the NVIDIA driver finds {found}")));
        }
        let mut gpus = locked(GPUS.get());
        let gpu = match gpus.iter().find(|g| g.number == number) {
            Some(gpu) => gpu,
            None => {
                let gpu = Gpu::open(number).map_err(|e| unavailable(&format!("the GPU can't be used: {}", error::text(e))))?;
                if gpu.capability < OLDEST_CAPABILITY {
                    let ((major, minor), name) = (gpu.capability, gpu.name);
                    let (least, least_minor) = OLDEST_CAPABILITY;
                    return Err(unavailable(&format!(
                        "{name} has compute capability {major}.{minor}, and {least}.{least_minor} or newer is needed"
                    )));
                }
                // For the life of the process: a context that is closed while the process ends would
                // race with the driver's own end.
                gpus.push(Box::leak(Box::new(gpu)));
                gpus[gpus.len() - 1]
            }
        };
        gpu.usable()?;
        Ok(gpu)
    }

    fn open(number: u32) -> std::result::Result<Gpu, DriverError> {
        let context = CudaContext::new(number as usize)?;
        // SAFETY: cudarc then no longer orders streams by itself; a queue orders its own stream, and
        // `Queue::wait_for` orders two.
        unsafe { context.disable_event_tracking() };
        let attribute = |a| context.attribute(a).map(|x| x as u32);
        if context.has_async_alloc() {
            // SAFETY: the device is the context's, and the pool takes a u64 for its threshold.
            unsafe {
                let pool = result::device::get_default_mem_pool(context.cu_device())?;
                let mut kept = context.total_mem()? as u64 / KEPT_SHARE;
                let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
                result::mem_pool::set_attribute(pool, threshold, &mut kept as *mut u64 as *mut _)?;
            }
        }
        Ok(Gpu {
            total_memory: context.total_mem()? as u64,
            number,
            name: context.name()?,
            capability: context.compute_capability()?,
            multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            shared_per_block: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?.min(shared_limit()),
            context,
            modules: Mutex::default(),
            kernels: Mutex::default(),
            slots: PinnedSlots::default(),
            cache: Cache::default(),
            sharing: Mutex::default(),
            lost: OnceLock::new(),
        })
    }

    /// Its number, as in `"cuda:0"`.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// What NVIDIA calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its compute capability.
    pub fn capability(&self) -> (i32, i32) {
        self.capability
    }

    /// The number of its multiprocessors.
    pub fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    /// The most shared memory of a block, in bytes ([`Kernel::allow_shared`]).
    pub fn shared_per_block(&self) -> u32 {
        self.shared_per_block
    }

    /// Bytes of its memory.
    pub fn total_memory(&self) -> u64 {
        self.total_memory
    }

    /// The columns that stay on it between calls.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The context, for what this module does not wrap.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// An error where an earlier one took the context along.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn usable(&self) -> Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(why) => Err(Error::Device {
                number: self.number,
                fault: DeviceFault::Unavailable,
                message: format!("{why}; after that this process can't use the GPU any more: restart it, or use device=\"cpu\""),
            }),
        }
    }

    fn info(&'static self) -> Result<DeviceInfo> {
        let memory = super::memory::of(self)?;
        Ok(DeviceInfo {
            number: self.number,
            name: self.name.clone(),
            capability: (self.capability.0 as u32, self.capability.1 as u32),
            total_memory: memory.total,
            free_memory: memory.free,
            cache: self.cache.info(self),
        })
    }

    /// The kernel `name` of `image`, loaded once.
    ///
    /// # Errors
    /// [`Error::Device`] where the driver can't load the image, or it has no such kernel.
    pub fn kernel(&self, image: Image, name: &'static str) -> Result<Kernel> {
        self.usable()?;
        if let Some(kernel) = locked(&self.kernels).get(&(image.name, name)) {
            return Ok(kernel.clone());
        }
        // Code lies in device memory, outside of the pool that freed buffers stay in.
        let found = match granted().and_then(|()| self.load(image, name)) {
            Err(e) if is_short(e) => self.release().map(|()| granted().and_then(|()| self.load(image, name)))?,
            found => found,
        };
        let function = found.map_err(|e| driver(self, &format!("loading the kernel `{name}`"), e))?;
        // The limit is the function's, whoever launches it: so it is set once, to the most there is.
        let most = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let set = function.shared_size_bytes().and_then(|fixed| {
            let shared = (self.shared_per_block as i32 - fixed).max(0);
            function.set_attribute(most, shared).map(|()| shared as u32)
        });
        let shared = set.map_err(|e| driver(self, &format!("shared memory of the kernel `{name}`"), e))?;
        let made_for = function.get_attribute(sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION);
        let follows = made_for.map_err(|e| driver(self, &format!("asking about the kernel `{name}`"), e))? >= 90;
        let kernel = Kernel { function, name, shared, follows };
        locked(&self.kernels).insert((image.name, name), kernel.clone());
        Ok(kernel)
    }

    /// The kernel `name` of `image`, which is loaded where it is not there.
    fn load(&self, image: Image, name: &str) -> std::result::Result<CudaFunction, DriverError> {
        let module = {
            let mut modules = locked(&self.modules);
            match modules.get(image.name) {
                Some(module) => module.clone(),
                None => {
                    let module = self.context.load_module(Ptx::from_binary((image.bytes)().to_vec()))?;
                    modules.insert(image.name, module.clone());
                    module
                }
            }
        };
        module.load_function(name)
    }
}

impl Kernel {
    /// An error where launches can't have `bytes` of dynamic shared memory.
    ///
    /// # Errors
    /// [`Error::Device`] where the GPU does not have as much.
    pub fn allow_shared(&self, gpu: &Gpu, bytes: u32) -> Result<()> {
        if bytes <= self.shared {
            return Ok(());
        }
        let message = format!("kernel `{}` needs {bytes} bytes of shared memory, and there are {}", self.name, self.shared);
        Err(Error::device_memory(gpu.number, message))
    }

    /// How many blocks of so many threads, with so much dynamic shared memory, run on one multiprocessor.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn blocks_per_multiprocessor(&self, gpu: &Gpu, threads: u32, shared: u32) -> Result<u32> {
        let found = self.function.occupancy_max_active_blocks_per_multiprocessor(threads, shared as usize, None);
        found.map_err(|e| driver(gpu, &format!("occupancy of `{}`", self.name), e))
    }
}
