//! GPUs of one host that read each other's memory.

use super::device::Gpu;
use super::error::driver;
use cudarc::driver::sys::{self, CUmemAccess_flags, CUmemLocationType, CUresult};
use cudarc::driver::{DriverError, result};
use std::sync::{MutexGuard, TryLockError};
use std::time::Duration;
use taiga_core::error::{Error, Result};

/// How often it is looked whether a GPU is free.
const TURN: Duration = Duration::from_millis(2);

/// Takes GPUs for work whose kernels wait for those of other GPUs, when no other such work of this process has any of them: blocks that
/// wait take room, and those of several fits together may take all that the blocks have which they wait for.
///
/// # Errors
/// [`Error::Interrupted`].
pub fn take(gpus: &[&'static Gpu], interrupted: &dyn Fn() -> bool) -> Result<Vec<MutexGuard<'static, ()>>> {
    let mut ordered = gpus.to_vec();
    // In one order, so that no two wait for each other.
    ordered.sort_by_key(|gpu| gpu.number());
    ordered.dedup_by_key(|gpu| gpu.number());
    let taken = |gpu: &&'static Gpu| loop {
        match gpu.sharing.try_lock() {
            Ok(taken) => return Ok(taken),
            Err(TryLockError::Poisoned(taken)) => return Ok(taken.into_inner()),
            Err(TryLockError::WouldBlock) if interrupted() => return Err(Error::Interrupted),
            Err(TryLockError::WouldBlock) => std::thread::sleep(TURN),
        }
    };
    ordered.iter().map(taken).collect()
}

/// Lets every one of `gpus` read and write the memory of every other, for the life of the process. Returns whether all can.
///
/// # Errors
/// [`taiga_core::Error::Device`].
pub fn connect(gpus: &[&'static Gpu]) -> Result<bool> {
    for gpu in gpus {
        for other in gpus.iter().filter(|other| other.number() != gpu.number()) {
            let asked = can_access(gpu, other).and_then(|can| if can { open(gpu, other).map(|()| true) } else { Ok(false) });
            if !asked.map_err(|e| driver(gpu, &format!("asking for the memory of cuda:{}", other.number()), e))? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn can_access(gpu: &Gpu, other: &Gpu) -> std::result::Result<bool, DriverError> {
    let mut can = 0;
    // SAFETY: both are devices that are open.
    unsafe { sys::cuDeviceCanAccessPeer(&mut can, gpu.context().cu_device(), other.context().cu_device()) }.result()?;
    Ok(can != 0)
}

/// Lets `gpu` access the memory of `other`.
fn open(gpu: &Gpu, other: &Gpu) -> std::result::Result<(), DriverError> {
    if other.context().has_async_alloc() {
        // What is allocated there comes from the device's pool.
        let access = sys::CUmemAccessDesc {
            location: sys::CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: gpu.context().cu_device() },
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        other.context().bind_to_thread()?;
        // SAFETY: the pool is the device's, and one description is given.
        return unsafe {
            let pool = result::device::get_default_mem_pool(other.context().cu_device())?;
            sys::cuMemPoolSetAccess(pool, &access, 1).result()
        };
    }
    gpu.context().bind_to_thread()?;
    // SAFETY: a context that is open for the life of the process.
    match unsafe { sys::cuCtxEnablePeerAccess(other.context().cu_ctx(), 0) } {
        CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(()),
        opened => opened.result(),
    }
}
