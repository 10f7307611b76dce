//! The work of one query on a GPU: launches and copies in one order.

use super::device::{Gpu, Kernel};
use super::error::driver;
use super::memory::granted;
use super::upload::PIECE;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, DriverError, LaunchArgs, LaunchConfig, sys};
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};
use taiga_core::error::Result;

/// A stream of a GPU, and what runs there.
pub struct Queue {
    gpu: &'static Gpu,
    stream: Arc<CudaStream>,
    /// The kernel launched last: where one fails, it is told only later.
    last: Mutex<&'static str>,
}

/// Launches `kernel` on `queue` with a [`LaunchConfig`] and arguments in the order of the kernel's
/// own: references to numbers, slices and views. Unsafe, since nothing checks them against the kernel.
///
/// ```text
/// // SAFETY: the arguments are those of `name`, and each array has `rows` values.
/// unsafe { launch!(queue, kernel, grid(blocks, 256, 0); &rows, &input, &mut output) }?;
/// ```
#[macro_export]
macro_rules! launch {
    ($queue:expr, $kernel:expr, $config:expr; $($argument:expr),* $(,)?) => {{
        #[allow(unused_imports)]
        use $crate::cudarc::driver::PushKernelArg;
        let (queue, kernel): (&$crate::runtime::Queue, &$crate::Kernel) = (&$queue, &$kernel);
        let mut arguments = queue.arguments(kernel);
        $(arguments.arg($argument);)*
        queue.submit(kernel, arguments, $config)
    }};
}

/// [`launch!`] of a kernel that begins with `follow_on()` (kernels/trees/layouts.cuh): where the GPU can do that (compute
/// capability 9.0 or newer), its blocks come while the launch before it still runs, and wait there for its end, which hides
/// the time that a launch takes to begin (*programmatic dependent launch*). Arguments are references to numbers and tables.
#[macro_export]
macro_rules! follow {
    ($queue:expr, $kernel:expr, $config:expr; $($argument:expr),* $(,)?) => {{
        let (queue, kernel): (&$crate::runtime::Queue, &$crate::Kernel) = (&$queue, &$kernel);
        let mut arguments = [$($crate::runtime::queue::argument($argument)),*];
        queue.submit_behind(kernel, &mut arguments, $config)
    }};
}

/// Where an argument of [`follow!`] lies.
pub fn argument<T: DeviceRepr>(argument: &T) -> *mut c_void {
    std::ptr::from_ref(argument).cast_mut().cast()
}

/// A launch's shape: blocks, of which there is one at the least, though there be no rows; threads in each, bytes of dynamic shared memory.
pub fn grid(blocks: u32, threads: u32, shared: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (blocks.max(1), 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: shared }
}

/// For measurements: `TAIGA_CUDA_FOLLOW=0` has every launch begin when the one before it has ended.
fn follows_at_all() -> bool {
    static FOLLOWS: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *FOLLOWS.get_or_init(|| std::env::var("TAIGA_CUDA_FOLLOW").ok().as_deref() != Some("0"))
}

impl Queue {
    /// A queue of its own on `gpu`.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn new(gpu: &'static Gpu) -> Result<Queue> {
        gpu.usable()?;
        let stream = granted().and_then(|()| gpu.context.new_stream()).map_err(|e| driver(gpu, "making a stream", e))?;
        Ok(Queue { gpu, stream, last: Mutex::new("") })
    }

    /// The GPU.
    pub fn gpu(&self) -> &'static Gpu {
        self.gpu
    }

    /// The stream, for what this module does not wrap.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// The arguments of a launch, to be filled ([`launch!`]).
    pub fn arguments<'a>(&'a self, kernel: &'a Kernel) -> LaunchArgs<'a> {
        self.stream.launch_builder(&kernel.function)
    }

    /// Launches `kernel`; does not wait ([`launch!`]).
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`] with the kernel's name.
    ///
    /// # Safety
    /// The arguments are those of the kernel, and it stays inside the memory they name.
    pub unsafe fn submit(&self, kernel: &Kernel, mut arguments: LaunchArgs<'_>, config: LaunchConfig) -> Result<()> {
        self.note(kernel.name);
        // SAFETY: the caller's.
        unsafe { arguments.launch(config) }.map(drop).map_err(|e| driver(self.gpu, &format!("kernel `{}`", kernel.name), e))
    }

    /// Launches `kernel` with all its blocks on the GPU at the same time, so that they may wait for each other; an error
    /// where they don't fit. Does not wait.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`] with the kernel's name.
    ///
    /// # Safety
    /// As for [`Queue::submit`].
    pub unsafe fn submit_together(&self, kernel: &Kernel, mut arguments: LaunchArgs<'_>, config: LaunchConfig) -> Result<()> {
        self.note(kernel.name);
        // SAFETY: the caller's.
        unsafe { arguments.launch_cooperative(config) }.map(drop).map_err(|e| driver(self.gpu, &format!("kernel `{}`", kernel.name), e))
    }

    /// Launches `kernel` behind the launch before it ([`follow!`]); does not wait.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`] with the kernel's name.
    ///
    /// # Safety
    /// As for [`Queue::submit`]; and the kernel waits for the launch before it by itself.
    pub unsafe fn submit_behind(&self, kernel: &Kernel, arguments: &mut [*mut c_void], config: LaunchConfig) -> Result<()> {
        self.note(kernel.name);
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let ((x, y, z), (threads_x, threads_y, threads_z)) = (config.grid_dim, config.block_dim);
        let described = sys::CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: threads_x,
            blockDimY: threads_y,
            blockDimZ: threads_z,
            sharedMemBytes: config.shared_mem_bytes,
            hStream: self.stream.cu_stream(),
            attrs: &mut attribute,
            numAttrs: (kernel.follows && follows_at_all()) as u32,
        };
        let failed = |e| driver(self.gpu, &format!("kernel `{}`", kernel.name), e);
        self.gpu.context.bind_to_thread().map_err(failed)?;
        let function = kernel.function.cu_function();
        // SAFETY: the caller's; the driver copies the description and the arguments before it returns.
        unsafe { sys::cuLaunchKernelEx(&described, function, arguments.as_mut_ptr(), std::ptr::null_mut()) }.result().map_err(failed)
    }

    /// Remembers what was launched last, for errors that come later.
    pub fn note(&self, name: &'static str) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }

    /// Waits for everything queued.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`], naming the kernel launched last.
    pub fn synchronize(&self) -> Result<()> {
        self.stream.synchronize().map_err(|e| self.late(e))
    }

    /// An error that is told after the fact.
    pub(crate) fn late(&self, e: DriverError) -> taiga_core::Error {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let doing = if last.is_empty() { "the work".into() } else { format!("kernel `{last}` or one before it") };
        driver(self.gpu, &doing, e)
    }

    /// What is queued here from now on waits for what `other` has been given so far.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn wait_for(&self, other: &Queue) -> Result<()> {
        self.stream.join(&other.stream).map_err(|e| driver(self.gpu, "waiting for another stream", e))
    }

    /// A copy of `values` on the GPU; for a few of them, else see [`super::upload`].
    ///
    /// # Errors
    /// Those of [`Queue::alloc`].
    pub fn copy_of<T: DeviceRepr>(&self, what: &str, values: &[T]) -> Result<CudaSlice<T>> {
        let mut slice = self.alloc(what, values.len())?;
        self.write(values, &mut slice)?;
        Ok(slice)
    }

    /// Writes `values` to the beginning of `out`. The values may be dropped when it returns.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn write<T: DeviceRepr>(&self, values: &[T], out: &mut impl DevicePtrMut<T>) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        // From pageable memory the driver returns when it has read all of it.
        self.stream.memcpy_htod(values, out).map_err(|e| self.late(e))
    }

    /// Copies `values`, which are there, to the beginning of `out`.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn copy<T: DeviceRepr>(&self, values: &impl DevicePtr<T>, out: &mut impl DevicePtrMut<T>) -> Result<()> {
        self.stream.memcpy_dtod(values, out).map_err(|e| self.late(e))
    }

    /// Writes `values` to an address on the GPU.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub(crate) fn write_at<T: DeviceRepr>(&self, values: &[T], address: u64) -> Result<()> {
        self.gpu.context.bind_to_thread().map_err(|e| self.late(e))?;
        // SAFETY: what is at the address is this crate's and has room. From pageable memory the driver returns when it has read all of it.
        unsafe { cudarc::driver::result::memcpy_htod_async(address, values, self.stream.cu_stream()) }.map_err(|e| self.late(e))
    }

    /// The values there, when everything queued before has run.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`], naming the kernel launched last.
    pub fn read<T: DeviceRepr>(&self, values: &impl DevicePtr<T>) -> Result<Vec<T>> {
        if (1..=PIECE).contains(&values.num_bytes()) {
            return self.read_piece(values);
        }
        let read = self.stream.clone_dtoh(values).map_err(|e| self.late(e))?;
        self.synchronize()?;
        Ok(read)
    }
}

/// Threads of a block of [`each_row`].
pub(crate) const EACH_ROW_THREADS: u32 = 256;

/// Returns the launch of kernels that deal `n` rows to the threads of a grid (`kernels/runtime/for_each.cuh`), which the GPU holds at a time.
pub(crate) fn each_row(queue: &Queue, n: usize) -> LaunchConfig {
    let most = queue.gpu().multiprocessors() * (2048 / EACH_ROW_THREADS);
    grid((n.div_ceil(EACH_ROW_THREADS as usize) as u32).clamp(1, most), EACH_ROW_THREADS, 0)
}
