//! CUB's segmented scan over rows that are sorted by category.

use super::statistic::{DeviceSmoothing, TargetColumns};
use crate::runtime::Queue;
use crate::runtime::error::{algorithm, driver};
use crate::runtime::memory::pointer;
use cudarc::driver::{CudaSlice, DevicePtrMut};
use std::ffi::c_void;
use taiga_core::error::Result;
use taiga_kernels::columns::taiga_scan_categories;

/// What the scan makes of the sums: the modes of `taiga_scan_categories`.
#[derive(Clone, Copy)]
pub(crate) enum ScanMode {
    Values,
    Totals,
    Before,
}

/// Where the scan writes: device pointers, 0 where the mode writes nothing.
#[derive(Clone, Copy, Default)]
pub(crate) struct ScanOutput {
    pub values: u64,
    pub sums: u64,
    pub rows_before: u64,
    pub target_before: u64,
}

/// Keys of 32 bits, or of 64 with the category in the upper half.
pub(crate) enum CategoryKeys<'a> {
    Narrow(&'a CudaSlice<u32>),
    Wide(&'a CudaSlice<u64>),
}

/// CUB's segmented scan over rows sorted by their keys. Does not wait.
///
/// # Safety
/// The keys and rows are `n`, the rows' numbers inside the columns, and `written` has room for what `mode` writes.
#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn scan(
    queue: &Queue,
    kind: u32,
    keys: CategoryKeys<'_>,
    rows: &CudaSlice<u32>,
    n: usize,
    columns: &TargetColumns,
    smoothing: &DeviceSmoothing,
    mode: ScanMode,
    written: ScanOutput,
) -> Result<()> {
    const NAME: &str = "CUB's segmented scan";
    queue.gpu().context().bind_to_thread().map_err(|e| driver(queue.gpu(), NAME, e))?;
    let (narrow, wide) = match keys {
        CategoryKeys::Narrow(keys) => (pointer(queue, keys), 0),
        CategoryKeys::Wide(keys) => (0, pointer(queue, keys)),
    };
    let rows = pointer(queue, rows);
    let mut bytes = 0;
    let mut call = |temporary: *mut c_void| {
        // SAFETY: the caller's; `temporary` has as many bytes as the first call, which reads and writes nothing,
        // asked for.
        let code = unsafe {
            taiga_scan_categories(
                temporary,
                &mut bytes,
                kind,
                narrow as *const u32,
                wide as *const u64,
                rows as *const u32,
                n as u32,
                std::ptr::from_ref(columns).cast(),
                std::ptr::from_ref(smoothing).cast(),
                mode as u32,
                written.values as *mut f64,
                written.sums as *mut c_void,
                written.rows_before as *mut u32,
                written.target_before as *mut u64,
                queue.stream().cu_stream().cast(),
            )
        };
        if code == 0 { Ok(bytes) } else { Err(algorithm(queue.gpu(), NAME, code)) }
    };
    let needed = call(std::ptr::null_mut())?;
    let mut temporary = queue.alloc::<u8>("a scan", needed)?;
    queue.note(NAME);
    call(temporary.device_ptr_mut(queue.stream()).0 as *mut c_void).map(drop)
}
