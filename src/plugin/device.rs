//! `device_info`: what Python is told of the GPUs.

use pyo3::prelude::*;
use taiga_engine::backend::device_info as devices;

/// Number, name, compute capability, bytes of memory, bytes of them that are free.
type Device = (u32, String, (u32, u32), u64, u64);

/// The newest CUDA that the driver supports, the GPUs, and why there is none or one can't be used.
#[pyfunction]
pub fn device_info(py: Python<'_>) -> (Option<String>, Vec<Device>, Option<String>) {
    let info = py.detach(devices);
    let devices = info.devices.into_iter().map(|d| (d.number, d.name, d.capability, d.total_memory, d.free_memory));
    (info.driver, devices.collect(), info.unavailable)
}
