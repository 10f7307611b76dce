//! Memory of a GPU: how much there is, and a check before any is taken.

use super::device::Gpu;
use super::error::driver;
use super::queue::Queue;
use cudarc::driver::sys::{CUmemPool_attribute as PoolAttribute, CUresult};
use cudarc::driver::{CudaSlice, DevicePtrMut, DeviceRepr, DriverError, ValidAsZeroBits, result};
use std::sync::atomic::{AtomicU64, Ordering};
use taiga_core::error::{Error, Result};
pub use taiga_core::memory::size;

/// Bytes of a GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What can be allocated, freed buffers that the process keeps for later included.
    pub free: u64,
    pub total: u64,
}

/// How much memory `gpu` has.
///
/// # Errors
/// [`Error::Device`].
pub fn of(gpu: &Gpu) -> Result<Memory> {
    let asked = || -> std::result::Result<Memory, DriverError> {
        let (free, total) = gpu.context.mem_get_info()?;
        let mut kept = 0;
        if gpu.context.has_async_alloc() {
            let value = |attribute| -> std::result::Result<u64, DriverError> {
                let mut value = 0u64;
                // SAFETY: the pool is the device's, and both attributes are u64.
                unsafe {
                    let pool = result::device::get_default_mem_pool(gpu.context.cu_device())?;
                    result::mem_pool::get_attribute(pool, attribute, &mut value as *mut u64 as *mut _)?;
                }
                Ok(value)
            };
            kept = value(PoolAttribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?
                .saturating_sub(value(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?);
        }
        Ok(Memory { free: free as u64 + kept, total: total as u64 })
    };
    asked().map_err(|e| driver(gpu, "asking for its memory", e))
}

/// How many more times memory is given; only tests limit that.
static GRANTS: AtomicU64 = AtomicU64::new(u64::MAX);

/// For tests: memory, streams and kernels are given so many times more, and then as if the GPU had no memory left, until this is
/// called again; none is without limit. Gives how many of the last limit are left.
#[doc(hidden)]
pub fn limit_grants(times: Option<u64>) -> u64 {
    GRANTS.swap(times.unwrap_or(u64::MAX), Ordering::SeqCst)
}

/// The driver's error where tests let nothing be given any more.
pub(crate) fn granted() -> std::result::Result<(), DriverError> {
    let one_less = |left: u64| if left == u64::MAX { Some(left) } else { left.checked_sub(1) };
    if GRANTS.load(Ordering::Relaxed) == u64::MAX || GRANTS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
        return Ok(());
    }
    Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY))
}

/// Whether memory was short.
pub(crate) fn is_short(e: DriverError) -> bool {
    e.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY
}

impl Gpu {
    /// Gives the driver back what this process has and does not use: columns that stay for the next expression, and freed buffers.
    /// Other processes can then have it, and what the driver itself needs memory for (a kernel's code, say).
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn release(&self) -> Result<()> {
        self.cache.clear(self)?;
        let trim = || -> std::result::Result<(), DriverError> {
            self.context.bind_to_thread()?;
            if self.context.has_async_alloc() {
                // SAFETY: the pool is the device's, and what is in use stays.
                unsafe { result::mem_pool::trim_to(result::device::get_default_mem_pool(self.context.cu_device())?, 0) }?;
            }
            Ok(())
        };
        trim().map_err(|e| driver(self, "giving memory back", e))
    }
}

impl Queue {
    /// Whether the GPU has `bytes` left, those of columns that stay included: they go where it has not.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn has_room(&self, bytes: u64) -> Result<bool> {
        let has = || of(self.gpu()).map(|memory| bytes <= memory.free);
        Ok(has()? || (self.gpu().cache.clear(self.gpu())? && has()?))
    }

    /// An error where the GPU has not `bytes` left for `what`; to be called with an estimate of the
    /// whole need before the first of it is allocated.
    ///
    /// # Errors
    /// [`Error::Device`]; for want of memory with both figures.
    pub fn check_memory(&self, what: &str, bytes: u64) -> Result<()> {
        if self.has_room(bytes)? {
            return Ok(());
        }
        // So that what the work has is free as soon as it is dropped.
        self.synchronize()?;
        Err(self.short_of(what, bytes, of(self.gpu())?))
    }

    /// The error for want of memory, with both figures.
    fn short_of(&self, what: &str, bytes: u64, memory: Memory) -> Error {
        let message = format!("{what} needs {}, and it has {} free of {}", size(bytes), size(memory.free), size(memory.total));
        Error::device_memory(self.gpu().number(), message)
    }

    /// Room for `n` values (at least one), which hold anything.
    ///
    /// # Errors
    /// [`Error::Device`]; for want of memory with what was asked for and what is free.
    pub fn alloc<T: DeviceRepr>(&self, what: &str, n: usize) -> Result<CudaSlice<T>> {
        // SAFETY: `DeviceRepr` types are plain numbers, for which any bits will do; kernels write before
        // they read, which initcheck holds them to.
        let take = || granted().and_then(|()| unsafe { self.stream().alloc::<T>(n.max(1)) });
        let found = match take() {
            Err(e) if is_short(e) && self.gpu().cache.clear(self.gpu())? => take(),
            found => found,
        };
        found.map_err(|e| {
            let bytes = (n * size_of::<T>()) as u64;
            if !is_short(e) {
                return driver(self.gpu(), &format!("allocating {} for {what}", size(bytes)), e);
            }
            // So that what the work has is free as soon as it is dropped.
            if let Err(e) = self.synchronize() {
                return e;
            }
            of(self.gpu()).map_or_else(|e| e, |memory| self.short_of(what, bytes, memory))
        })
    }

    /// Room for `n` values (at least one), all zero.
    ///
    /// # Errors
    /// Those of [`Queue::alloc`].
    pub fn zeros<T: DeviceRepr + ValidAsZeroBits>(&self, what: &str, n: usize) -> Result<CudaSlice<T>> {
        let mut slice = self.alloc(what, n)?;
        self.clear(&mut slice)?;
        Ok(slice)
    }

    /// Sets values to zero.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn clear<T: DeviceRepr + ValidAsZeroBits>(&self, values: &mut impl DevicePtrMut<T>) -> Result<()> {
        self.stream().memset_zeros(values).map_err(|e| driver(self.gpu(), "clearing memory", e))
    }
}

/// Every byte 0xff.
pub(crate) fn fill(queue: &Queue, values: &mut CudaSlice<u32>) -> Result<()> {
    use cudarc::driver::{DevicePtrMut, result};
    let (bytes, stream) = (values.num_bytes(), queue.stream());
    queue.gpu().context().bind_to_thread().map_err(|e| crate::runtime::error::driver(queue.gpu(), "marking rows", e))?;
    // SAFETY: the slice has as many bytes.
    let filled = unsafe { result::memset_d8_async(values.device_ptr_mut(stream).0, 0xff, bytes, stream.cu_stream()) };
    filled.map_err(|e| crate::runtime::error::driver(queue.gpu(), "marking rows", e))
}

pub(crate) fn pointer<T>(queue: &Queue, slice: &CudaSlice<T>) -> u64 {
    use cudarc::driver::DevicePtr;
    slice.device_ptr(queue.stream()).0
}
