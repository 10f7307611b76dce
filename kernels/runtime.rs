//! CUB's device-wide algorithms, compiled into a static library that brings the CUDA runtime along.
//! The runtime works in the context that is current in the calling thread, and finds the driver by
//! itself when it is first called: call nothing here where there is no driver.
//!
//! Every function returns a `cudaError_t` (0: success). With `temporary` null it only writes to
//! `bytes` how much device memory it needs there.

use std::ffi::{CStr, c_char, c_int, c_void};

unsafe extern "C" {
    /// Sorts pairs by bits `first_bit .. end_bit` of their keys, stably, into other arrays. Pointers
    /// are the device's, `stream` a `CUstream`.
    pub fn taiga_sort_u32_u32(
        temporary: *mut c_void,
        bytes: *mut usize,
        keys: *const u32,
        sorted_keys: *mut u32,
        values: *const u32,
        sorted_values: *mut u32,
        n: u32,
        first_bit: c_int,
        end_bit: c_int,
        stream: *mut c_void,
    ) -> c_int;

    /// The same for values of 64 bits.
    pub fn taiga_sort_u32_u64(
        temporary: *mut c_void,
        bytes: *mut usize,
        keys: *const u32,
        sorted_keys: *mut u32,
        values: *const u64,
        sorted_values: *mut u64,
        n: u32,
        first_bit: c_int,
        end_bit: c_int,
        stream: *mut c_void,
    ) -> c_int;

    /// The same for keys of 64 bits.
    pub fn taiga_sort_u64_u32(
        temporary: *mut c_void,
        bytes: *mut usize,
        keys: *const u64,
        sorted_keys: *mut u64,
        values: *const u32,
        sorted_values: *mut u32,
        n: u32,
        first_bit: c_int,
        end_bit: c_int,
        stream: *mut c_void,
    ) -> c_int;

    /// Sorts keys by bits `first_bit .. end_bit` in two arrays by turns; `in_other` becomes 1 where the sorted ones are in
    /// `other`, else 0.
    pub fn taiga_sort_keys_u32(
        temporary: *mut c_void,
        bytes: *mut usize,
        keys: *mut u32,
        other: *mut u32,
        in_other: *mut c_int,
        n: u32,
        first_bit: c_int,
        end_bit: c_int,
        stream: *mut c_void,
    ) -> c_int;

    /// The same for keys of 64 bits.
    pub fn taiga_sort_keys_u64(
        temporary: *mut c_void,
        bytes: *mut usize,
        keys: *mut u64,
        other: *mut u64,
        in_other: *mut c_int,
        n: u32,
        first_bit: c_int,
        end_bit: c_int,
        stream: *mut c_void,
    ) -> c_int;

    /// Writes the key of each run of equal keys among `n` sorted ones and its first place; `count[0]` of them.
    pub fn taiga_distinct_u32(
        temporary: *mut c_void,
        bytes: *mut usize,
        sorted: *const u32,
        distinct: *mut u32,
        first: *mut u32,
        count: *mut u32,
        n: u32,
        stream: *mut c_void,
    ) -> c_int;

    /// The same for keys of 64 bits.
    pub fn taiga_distinct_u64(
        temporary: *mut c_void,
        bytes: *mut usize,
        sorted: *const u64,
        distinct: *mut u64,
        first: *mut u32,
        count: *mut u32,
        n: u32,
        stream: *mut c_void,
    ) -> c_int;

    /// `out[i]` = the sum of `input[..i]`.
    pub fn taiga_sum_before(
        temporary: *mut c_void,
        bytes: *mut usize,
        input: *const u32,
        out: *mut u32,
        n: u32,
        stream: *mut c_void,
    ) -> c_int;

    /// `out[i]` = the largest of `input[..=i]`.
    pub fn taiga_largest_so_far(
        temporary: *mut c_void,
        bytes: *mut usize,
        input: *const u32,
        out: *mut u32,
        n: u32,
        stream: *mut c_void,
    ) -> c_int;

    fn cudaGetErrorString(error: c_int) -> *const c_char;
    fn cudaGetLastError() -> c_int;
}

/// What the CUDA runtime says of one of its errors.
pub fn error_text(error: c_int) -> &'static str {
    // SAFETY: gives a static C string for any number.
    unsafe { CStr::from_ptr(cudaGetErrorString(error)) }.to_str().unwrap_or("an unknown error")
}

/// Makes the CUDA runtime forget the last error of this thread, which it would give to the next call that looks for one.
pub fn forget_error() {
    // SAFETY: reads and clears a number of this thread.
    unsafe { cudaGetLastError() };
}
