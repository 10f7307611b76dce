//! CUB's radix sort, the distinct ones among sorted keys, and CUB's scans of 32-bit numbers.

use super::error::algorithm;
use super::queue::Queue;
use cudarc::driver::{CudaSlice, DevicePtr, DevicePtrMut, DeviceRepr};
use std::ffi::c_void;
use taiga_core::error::Result;
use taiga_kernels::runtime::{
    taiga_distinct_u32, taiga_distinct_u64, taiga_largest_so_far, taiga_sort_keys_u32, taiga_sort_keys_u64, taiga_sort_u32_u32,
    taiga_sort_u32_u64, taiga_sort_u64_u32, taiga_sum_before,
};

/// What errors call a sort.
const SORT: &str = "CUB's radix sort";

/// A sort of [`taiga_kernels::runtime`].
type Sort<K, V> = unsafe extern "C" fn(*mut c_void, *mut usize, *const K, *mut K, *const V, *mut V, u32, i32, i32, *mut c_void) -> i32;

/// A scan of [`taiga_kernels::runtime`].
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

type SortKeys<K> = unsafe extern "C" fn(*mut c_void, *mut usize, *mut K, *mut K, *mut i32, u32, i32, i32, *mut c_void) -> i32;
type DistinctKeys<K> = unsafe extern "C" fn(*mut c_void, *mut usize, *const K, *mut K, *mut u32, *mut u32, u32, *mut c_void) -> i32;

/// An unsigned integer that is sorted alone.
pub trait LoneKey: DeviceRepr {
    #[doc(hidden)]
    const SORT: SortKeys<Self>;
    #[doc(hidden)]
    const DISTINCT: DistinctKeys<Self>;
}

impl LoneKey for u32 {
    const SORT: SortKeys<u32> = taiga_sort_keys_u32;
    const DISTINCT: DistinctKeys<u32> = taiga_distinct_u32;
}

impl LoneKey for u64 {
    const SORT: SortKeys<u64> = taiga_sort_keys_u64;
    const DISTINCT: DistinctKeys<u64> = taiga_distinct_u64;
}

/// Keys, and a value for each.
pub type Pairs<K, V = u32> = (CudaSlice<K>, CudaSlice<V>);

impl Queue {
    /// Sorts the first `n` of `keys` and `values` by bits `bits` of the keys into `to`, equal keys in their
    /// order. Does not wait.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
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
        let mut room = self.alloc::<u8>(SORT, self.sort_room::<K, V>(n, bits.clone())?)?;
        self.sort_pairs_in(&mut room, (keys, values), to, n, bits)
    }

    /// Returns the bytes of room that [`Queue::sort_pairs_in`] takes.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn sort_room<K: SortKey<V>, V: DeviceRepr>(&self, n: u32, bits: std::ops::Range<u32>) -> Result<usize> {
        let (nothing, mut bytes) = (std::ptr::null_mut::<c_void>(), 0);
        let (keys, values) = (nothing.cast::<K>(), nothing.cast::<V>());
        self.bind(SORT)?;
        // SAFETY: without room the sort only says how much it needs.
        let code = unsafe {
            let stream = self.stream().cu_stream().cast();
            K::SORT(nothing, &mut bytes, keys, keys, values, values, n, bits.start as i32, bits.end as i32, stream)
        };
        self.check_code(SORT, code).map(|()| bytes)
    }

    /// Does what [`Queue::sort_pairs`] does in room that is there, so that nothing is allocated.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`], also where the room is less than [`Queue::sort_room`] says.
    ///
    /// # Panics
    /// When one of the arrays is shorter.
    pub fn sort_pairs_in<K: SortKey<V>, V: DeviceRepr>(
        &self,
        room: &mut CudaSlice<u8>,
        (keys, values): (&CudaSlice<K>, &CudaSlice<V>),
        to: &mut Pairs<K, V>,
        n: u32,
        bits: std::ops::Range<u32>,
    ) -> Result<()> {
        assert!([keys.len(), values.len(), to.0.len(), to.1.len()].iter().all(|len| *len >= n as usize), "room for {n} pairs");
        self.bind(SORT)?;
        let (stream, mut bytes) = (self.stream(), room.len());
        let (keys, values) = (keys.device_ptr(stream).0 as *const K, values.device_ptr(stream).0 as *const V);
        let (sorted_keys, sorted_values) = (to.0.device_ptr_mut(stream).0 as *mut K, to.1.device_ptr_mut(stream).0 as *mut V);
        let (room, first, end) = (room.device_ptr_mut(stream).0 as *mut c_void, bits.start as i32, bits.end as i32);
        self.note(SORT);
        // SAFETY: all four arrays have `n` elements (asserted above), and the sort refuses room that is too small for it.
        let code = unsafe { K::SORT(room, &mut bytes, keys, sorted_keys, values, sorted_values, n, first, end, stream.cu_stream().cast()) };
        self.check_code(SORT, code)
    }

    /// Sorts the first `n` keys by bits `bits`, of which there is one at least; gives the sorted ones, and an array as long.
    /// Does not wait.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    ///
    /// # Panics
    /// When there are fewer keys.
    pub fn sort_keys<K: LoneKey>(
        &self,
        mut keys: CudaSlice<K>,
        n: u32,
        bits: std::ops::Range<u32>,
    ) -> Result<(CudaSlice<K>, CudaSlice<K>)> {
        assert!(keys.len() >= n as usize, "{n} keys");
        let mut other = self.alloc::<K>("sorting", n as usize)?;
        let stream = self.stream();
        let (from, to) = (keys.device_ptr_mut(stream).0 as *mut K, other.device_ptr_mut(stream).0 as *mut K);
        let (first, end, mut in_other) = (bits.start as i32, bits.end as i32, 0);
        // SAFETY: both arrays have `n` keys, and `temporary` what `in_two_calls` says.
        self.in_two_calls(SORT, |temporary, bytes| unsafe {
            K::SORT(temporary, bytes, from, to, &mut in_other, n, first, end, stream.cu_stream().cast())
        })?;
        Ok(if in_other == 1 { (other, keys) } else { (keys, other) })
    }

    /// Writes the key of each run of equal keys among `n` sorted ones to `distinct`, and its first place, to `first`; `count[0]` of
    /// them. Does not wait.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    ///
    /// # Panics
    /// When one of the arrays is shorter.
    pub fn distinct_keys<K: LoneKey>(
        &self,
        sorted: &CudaSlice<K>,
        n: u32,
        distinct: &mut CudaSlice<K>,
        first: &mut CudaSlice<u32>,
        count: &mut CudaSlice<u32>,
    ) -> Result<()> {
        assert!([sorted.len(), distinct.len(), first.len()].iter().all(|len| *len >= n as usize), "room for {n} keys");
        let stream = self.stream();
        let (sorted, distinct) = (sorted.device_ptr(stream).0 as *const K, distinct.device_ptr_mut(stream).0 as *mut K);
        let (first, count) = (first.device_ptr_mut(stream).0 as *mut u32, count.device_ptr_mut(stream).0 as *mut u32);
        // SAFETY: the arrays have room for `n` keys (asserted above), and `temporary` what `in_two_calls` says.
        self.in_two_calls("CUB's selection", |temporary, bytes| unsafe {
            K::DISTINCT(temporary, bytes, sorted, distinct, first, count, n, stream.cu_stream().cast())
        })
    }

    /// Makes the GPU the one that this thread's calls of CUB are of.
    fn bind(&self, name: &'static str) -> Result<()> {
        self.gpu().context().bind_to_thread().map_err(|e| super::error::driver(self.gpu(), name, e))
    }

    /// Returns the error that one of CUB's algorithms answers by a code.
    fn check_code(&self, name: &'static str, code: i32) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(algorithm(self.gpu(), name, code)) }
    }

    /// Calls one of CUB's algorithms twice: first with no memory, when it reads and writes nothing and says how many bytes it
    /// needs; then with as many.
    fn in_two_calls(&self, name: &'static str, mut call: impl FnMut(*mut c_void, &mut usize) -> i32) -> Result<()> {
        self.bind(name)?;
        let mut bytes = 0;
        let mut checked = |temporary: *mut c_void| {
            let code = call(temporary, &mut bytes);
            self.check_code(name, code).map(|()| bytes)
        };
        let needed = checked(std::ptr::null_mut())?;
        let mut temporary = self.alloc::<u8>(name, needed)?;
        self.note(name);
        checked(temporary.device_ptr_mut(self.stream()).0 as *mut c_void).map(drop)
    }

    /// `out[i]` = the sum of the first `i` of `n` numbers. Does not wait.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn sum_before(&self, numbers: &CudaSlice<u32>, out: &mut CudaSlice<u32>, n: u32) -> Result<()> {
        self.scan("CUB's sum", taiga_sum_before, numbers, out, n)
    }

    /// `out[i]` = the largest of the first `i + 1` of `n` numbers. Does not wait.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn largest_so_far(&self, numbers: &CudaSlice<u32>, out: &mut CudaSlice<u32>, n: u32) -> Result<()> {
        self.scan("CUB's running maximum", taiga_largest_so_far, numbers, out, n)
    }

    fn scan(&self, name: &'static str, scan: Scan, numbers: &CudaSlice<u32>, out: &mut CudaSlice<u32>, n: u32) -> Result<()> {
        assert!(numbers.len() >= n as usize && out.len() >= n as usize, "room for {n} numbers");
        let stream = self.stream();
        let (from, to) = (numbers.device_ptr(stream).0 as *const u32, out.device_ptr_mut(stream).0 as *mut u32);
        // SAFETY: both arrays have `n` numbers (asserted above), and `temporary` what `in_two_calls` says.
        self.in_two_calls(name, |temporary, bytes| unsafe { scan(temporary, bytes, from, to, n, stream.cu_stream().cast()) })
    }
}

/// Returns how many bits numbers below `limit` have.
pub(crate) fn bits_below(limit: u64) -> u32 {
    u64::BITS - limit.saturating_sub(1).leading_zeros()
}
