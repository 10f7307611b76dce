//! CUB's segmented scan over rows that are sorted by category, with the statistics of target encoding: host code over CUB as
//! that of [`crate::runtime`], and called as that is.

use std::ffi::{c_int, c_void};

unsafe extern "C" {
    /// Sums over the rows of a category before each row, or all of them, of rows that are sorted by category:
    /// see `columns/target_encode/scan.cu`. `columns` and `smoothing` are read before it returns.
    pub fn taiga_scan_categories(
        temporary: *mut c_void,
        bytes: *mut usize,
        kind: u32,
        narrow: *const u32,
        wide: *const u64,
        rows: *const u32,
        n: u32,
        columns: *const TargetColumns,
        smoothing: *const Smoothing,
        mode: u32,
        values: *mut f64,
        sums: *mut c_void,
        rows_before: *mut u32,
        target_before: *mut u64,
        stream: *mut c_void,
    ) -> c_int;
}

/// `TargetColumns` of `columns/target_encode/statistic.cuh`: device pointers, 0 for none, and the units.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct TargetColumns {
    pub flags: u64,
    pub numbers: u64,
    pub values: u64,
    pub weight: u64,
    pub scale: f64,
    pub weight_scale: f64,
    pub centre: f64,
    pub distance_scale: f64,
}

/// `Smoothing` of `columns/target_encode/statistic.cuh`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Smoothing {
    pub weight: f64,
    pub prior: f64,
    pub variance: f64,
    pub centre: f64,
    pub scale: f64,
    pub weight_scale: f64,
    /// 1: the weight is by empirical Bayes.
    pub automatic: u64,
}
