//! The work of one query on a GPU: launches and copies in one order.

use super::device::{Gpu, Kernel};
use super::error::driver;
use super::upload::PIECE;
use crate::error::Result;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, DriverError, LaunchArgs, LaunchConfig};
use std::sync::{Arc, Mutex, PoisonError};

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
        use cudarc::driver::PushKernelArg;
        let (queue, kernel): (&$crate::backend::cuda::Queue, &$crate::backend::cuda::Kernel) = (&$queue, &$kernel);
        let mut arguments = queue.arguments(kernel);
        $(arguments.arg($argument);)*
        queue.submit(kernel, arguments, $config)
    }};
}

/// A launch's shape: blocks, threads in each, bytes of dynamic shared memory.
pub fn grid(blocks: u32, threads: u32, shared: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: shared }
}

impl Queue {
    /// A queue of its own on `gpu`.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub fn new(gpu: &'static Gpu) -> Result<Queue> {
        gpu.usable()?;
        let stream = gpu.context.new_stream().map_err(|e| driver(gpu, "making a stream", e))?;
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
    /// [`crate::Error::Device`] with the kernel's name.
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
    /// [`crate::Error::Device`] with the kernel's name.
    ///
    /// # Safety
    /// As for [`Queue::submit`].
    pub unsafe fn submit_together(&self, kernel: &Kernel, mut arguments: LaunchArgs<'_>, config: LaunchConfig) -> Result<()> {
        self.note(kernel.name);
        // SAFETY: the caller's.
        unsafe { arguments.launch_cooperative(config) }.map(drop).map_err(|e| driver(self.gpu, &format!("kernel `{}`", kernel.name), e))
    }

    /// Remembers what was launched last, for errors that come later.
    pub fn note(&self, name: &'static str) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }

    /// Waits for everything queued.
    ///
    /// # Errors
    /// [`crate::Error::Device`], naming the kernel launched last.
    pub fn synchronize(&self) -> Result<()> {
        self.stream.synchronize().map_err(|e| self.late(e))
    }

    /// An error that is told after the fact.
    pub(super) fn late(&self, e: DriverError) -> crate::Error {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let doing = if last.is_empty() { "the work".into() } else { format!("kernel `{last}` or one before it") };
        driver(self.gpu, &doing, e)
    }

    /// What is queued here from now on waits for what `other` has been given so far.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
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
    /// [`crate::Error::Device`].
    pub fn write<T: DeviceRepr>(&self, values: &[T], out: &mut impl DevicePtrMut<T>) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        // From pageable memory the driver returns when it has read all of it.
        self.stream.memcpy_htod(values, out).map_err(|e| self.late(e))
    }

    /// The values there, when everything queued before has run.
    ///
    /// # Errors
    /// [`crate::Error::Device`], naming the kernel launched last.
    pub fn read<T: DeviceRepr>(&self, values: &impl DevicePtr<T>) -> Result<Vec<T>> {
        if (1..=PIECE).contains(&values.num_bytes()) {
            return self.read_piece(values);
        }
        let read = self.stream.clone_dtoh(values).map_err(|e| self.late(e))?;
        self.synchronize()?;
        Ok(read)
    }
}
