//! `device_info`: what Python is told of the GPUs, and of the devices that fits were done on.

use crate::model::{guarded, python_error};
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use taiga_engine::device::{CacheInfo, DeviceInfo, clear_device_cache, device_info as devices, limit_device_cache};
use taiga_engine::parallel::fork::PerProcess;

/// Columns that stay on a GPU: their number and bytes, the most bytes, hits and misses.
type Cache = (usize, u64, u64, u64, u64);

/// Number, name, compute capability, bytes of memory, bytes of them that are free, columns that stay.
type Device = (u32, String, (u32, u32), u64, u64, Cache);

/// The driver's CUDA, the GPUs, what is wrong with them, and the fits last begun.
type Info = (Option<String>, Vec<Device>, Option<String>, Vec<(&'static str, String)>);

/// A fit's number, the expression, and the device with the reason for it.
type Chosen = (u64, &'static str, String);

/// The fits last begun.
static CHOSEN: PerProcess<Mutex<VecDeque<Chosen>>> = PerProcess::new();

/// So many of them are kept.
const KEPT: usize = 16;

/// What `device_info` says of one call of an expression.
pub struct Note {
    number: u64,
    function: &'static str,
}

impl Note {
    /// Of a call of `function`, of which nothing is said yet.
    pub fn new(function: &'static str) -> Self {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        Note { number: CALLS.fetch_add(1, Ordering::Relaxed), function }
    }

    /// Says the device that the call takes, in place of what was said of it before.
    pub fn say(&self, chosen: &str) {
        let mut fits = CHOSEN.get().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fit) = fits.iter_mut().find(|fit| fit.0 == self.number) {
            fit.2 = chosen.to_string();
            return;
        }
        fits.truncate(KEPT - 1);
        fits.push_front((self.number, self.function, chosen.to_string()));
    }
}

/// The newest CUDA that the driver supports, the GPUs, why there is none or one can't be used, and
/// the devices of the fits last begun, the last one first; of one that began again the device that it began on last.
#[pyfunction]
pub fn device_info(py: Python<'_>) -> PyResult<Info> {
    let info = py.detach(|| guarded(|| Ok(devices())))?;
    let cache = |c: CacheInfo| (c.columns, c.bytes, c.limit, c.hits, c.misses);
    let device = |d: DeviceInfo| (d.number, d.name, d.capability, d.total_memory, d.free_memory, cache(d.cache));
    let devices = info.devices.into_iter().map(device);
    let fits = CHOSEN
        .get()
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .iter()
        .map(|(_, function, chosen)| (*function, chosen.clone()))
        .collect();
    Ok((info.driver, devices.collect(), info.unavailable, fits))
}

/// Says how many bytes of columns may stay on each GPU; `clear`: frees those that do, now.
#[pyfunction]
pub fn device_cache(py: Python<'_>, limit: Option<u64>, clear: bool) -> PyResult<()> {
    let set = || if clear { clear_device_cache() } else { limit_device_cache(limit) };
    py.detach(|| guarded(|| set().map_err(python_error)))
}
