//! CUB's segmented scan over rows that are sorted by category, with the statistics of target encoding: host code over CUB as
//! that of [`crate::runtime`], and called as that is.

use std::ffi::{c_int, c_void};

unsafe extern "C" {
    /// Sums over the rows of a category before each row, or all of them, of rows that are sorted by category:
    /// see `columns/target_encode/scan.cu`. `columns` and `smoothing` are `TargetColumns` and `Smoothing` of
    /// `columns/target_encode/statistic.cuh`, and are read before it returns.
    pub fn taiga_scan_categories(
        temporary: *mut c_void,
        bytes: *mut usize,
        kind: u32,
        narrow: *const u32,
        wide: *const u64,
        rows: *const u32,
        n: u32,
        columns: *const c_void,
        smoothing: *const c_void,
        mode: u32,
        values: *mut f64,
        sums: *mut c_void,
        rows_before: *mut u32,
        target_before: *mut u64,
        stream: *mut c_void,
    ) -> c_int;
}
