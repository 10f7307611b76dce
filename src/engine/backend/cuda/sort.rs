//! CUB's radix sort, and its scans of 32-bit numbers.

use super::error::algorithm;
use super::queue::Queue;
use crate::error::Result;
use cudarc::driver::{CudaSlice, DevicePtr, DevicePtrMut, DeviceRepr};
use std::ffi::c_void;
use taiga_kernels::algorithms::{taiga_largest_so_far, taiga_sort_u32_u32, taiga_sort_u32_u64, taiga_sort_u64_u32, taiga_sum_before};

/// A sort of [`taiga_kernels::algorithms`].
type Sort<K, V> = unsafe extern "C" fn(*mut c_void, *mut usize, *const K, *mut K, *const V, *mut V, u32, i32, i32, *mut c_void) -> i32;

/// A scan of [`taiga_kernels::algorithms`].
type Scan = unsafe extern "C" fn(*mut c_void, *mut usize, *const u32, *mut u32, u32, *mut c_void) -> i32;

/// An unsigned integer to sort `V` by.
pub trait SortKey<V>: DeviceRepr {
    #[doc(hidden)]
    const SORT: Sort<Self, V>;
}

impl SortKey<u32> for u32 {
    const SORT: Sort<u32, u32> = taiga_sort_u32_u32;
}

impl SortKey<u64> for u32 {
    const SORT: Sort<u32, u64> = taiga_sort_u32_u64;
}

impl SortKey<u32> for u64 {
    const SORT: Sort<u64, u32> = taiga_sort_u64_u32;
}

/// Keys, and a value for each.
pub type Pairs<K, V = u32> = (CudaSlice<K>, CudaSlice<V>);

impl Queue {
    /// Sorts the first `n` of `keys` and `values` by bits `bits` of the keys into `to`, equal keys in their
    /// order. Does not wait.
    ///
    /// # Errors
    /// [`crate::Error::Memory`] and [`crate::Error::Device`].
    ///
    /// # Panics
    /// When one of the arrays is shorter.
    pub fn sort_pairs<K: SortKey<V>, V: DeviceRepr>(
        &self,
        keys: &CudaSlice<K>,
        values: &CudaSlice<V>,
        to: &mut Pairs<K, V>,
        n: u32,
        bits: std::ops::Range<u32>,
    ) -> Result<()> {
        assert!([keys.len(), values.len(), to.0.len(), to.1.len()].iter().all(|len| *len >= n as usize), "room for {n} pairs");
        self.gpu().context().bind_to_thread().map_err(|e| super::error::driver(self.gpu(), "CUB's radix sort", e))?;
        let stream = self.stream();
        let (keys, values) = (keys.device_ptr(stream).0 as *const K, values.device_ptr(stream).0 as *const V);
        let (sorted_keys, sorted_values) = (to.0.device_ptr_mut(stream).0 as *mut K, to.1.device_ptr_mut(stream).0 as *mut V);
        let mut bytes = 0;
        let mut sort = |temporary: *mut c_void| {
            let (first, end) = (bits.start as i32, bits.end as i32);
            // SAFETY: all four arrays have `n` elements (asserted above), and `temporary` as many bytes as the
            // first call, which reads and writes nothing, asked for.
            let code = unsafe {
                K::SORT(temporary, &mut bytes, keys, sorted_keys, values, sorted_values, n, first, end, stream.cu_stream().cast())
            };
            if code == 0 { Ok(bytes) } else { Err(algorithm(self.gpu(), "CUB's radix sort", code)) }
        };
        let needed = sort(std::ptr::null_mut())?;
        let mut temporary = self.alloc::<u8>("sorting", needed)?;
        self.note("CUB's radix sort");
        sort(temporary.device_ptr_mut(stream).0 as *mut c_void)?;
        Ok(())
    }

    /// `out[i]` = the sum of the first `i` of `n` numbers. Does not wait.
    ///
    /// # Errors
    /// [`crate::Error::Memory`] and [`crate::Error::Device`].
    pub fn sum_before(&self, numbers: &CudaSlice<u32>, out: &mut CudaSlice<u32>, n: u32) -> Result<()> {
        self.scan("CUB's sum", taiga_sum_before, numbers, out, n)
    }

    /// `out[i]` = the largest of the first `i + 1` of `n` numbers. Does not wait.
    ///
    /// # Errors
    /// [`crate::Error::Memory`] and [`crate::Error::Device`].
    pub fn largest_so_far(&self, numbers: &CudaSlice<u32>, out: &mut CudaSlice<u32>, n: u32) -> Result<()> {
        self.scan("CUB's running maximum", taiga_largest_so_far, numbers, out, n)
    }

    fn scan(&self, name: &'static str, scan: Scan, numbers: &CudaSlice<u32>, out: &mut CudaSlice<u32>, n: u32) -> Result<()> {
        assert!(numbers.len() >= n as usize && out.len() >= n as usize, "room for {n} numbers");
        self.gpu().context().bind_to_thread().map_err(|e| super::error::driver(self.gpu(), name, e))?;
        let stream = self.stream();
        let (from, to) = (numbers.device_ptr(stream).0 as *const u32, out.device_ptr_mut(stream).0 as *mut u32);
        let mut bytes = 0;
        let mut call = |temporary: *mut c_void| {
            // SAFETY: both arrays have `n` numbers (asserted above), and `temporary` as many bytes as the first call, which
            // reads and writes nothing, asked for.
            let code = unsafe { scan(temporary, &mut bytes, from, to, n, stream.cu_stream().cast()) };
            if code == 0 { Ok(bytes) } else { Err(algorithm(self.gpu(), name, code)) }
        };
        let needed = call(std::ptr::null_mut())?;
        let mut temporary = self.alloc::<u8>("a scan", needed)?;
        self.note(name);
        call(temporary.device_ptr_mut(stream).0 as *mut c_void).map(drop)
    }
}
