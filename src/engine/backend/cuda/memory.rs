//! Memory of a GPU: how much there is, and a check before any is taken.

use super::device::Gpu;
use super::error::driver;
use super::queue::Queue;
use crate::error::{Error, Result};
pub use crate::memory::size;
use cudarc::driver::sys::CUmemPool_attribute as PoolAttribute;
use cudarc::driver::{CudaSlice, DevicePtrMut, DeviceRepr, DriverError, ValidAsZeroBits, result};

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

impl Queue {
    /// An error where the GPU has not `bytes` left for `what`; to be called with an estimate of the
    /// whole need before the first of it is allocated.
    ///
    /// # Errors
    /// [`Error::Memory`] with both figures.
    pub fn check_memory(&self, what: &str, bytes: u64) -> Result<()> {
        let mut memory = of(self.gpu())?;
        if bytes > memory.free && self.gpu().cache.clear(self.gpu())? {
            memory = of(self.gpu())?;
        }
        if bytes <= memory.free {
            return Ok(());
        }
        Err(Error::Memory(format!(
            "{what} needs {} on the GPU cuda:{}, which has {} free of {}",
            size(bytes),
            self.gpu().number(),
            size(memory.free),
            size(memory.total)
        )))
    }

    /// Room for `n` values (at least one), which hold anything.
    ///
    /// # Errors
    /// [`Error::Memory`] with what was asked for and what is free.
    pub fn alloc<T: DeviceRepr>(&self, what: &str, n: usize) -> Result<CudaSlice<T>> {
        // SAFETY: `DeviceRepr` types are plain numbers, for which any bits will do; kernels write before
        // they read, which initcheck holds them to.
        let take = || unsafe { self.stream().alloc::<T>(n.max(1)) };
        let short = |e: &DriverError| e.0 == cudarc::driver::sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        let found = match take() {
            Err(e) if short(&e) && self.gpu().cache.clear(self.gpu())? => take(),
            found => found,
        };
        found.map_err(|e| {
            let bytes = (n * size_of::<T>()) as u64;
            match (e.0, of(self.gpu())) {
                (cudarc::driver::sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY, Ok(memory)) => Error::Memory(format!(
                    "{what} needs {} on the GPU cuda:{}, which has {} free of {}",
                    size(bytes),
                    self.gpu().number(),
                    size(memory.free),
                    size(memory.total)
                )),
                _ => driver(self.gpu(), &format!("allocating {} for {what}", size(bytes)), e),
            }
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
