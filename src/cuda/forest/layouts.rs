//! The tables of the kernels of forests: twins of `kernels/forest/layouts.cuh` and of those beside it.

use crate::runtime::layouts::kernel_structs;
use crate::runtime::queue::Queue;
use cudarc::driver::{CudaSlice, DevicePtr};

/// No node, no code, no table.
pub const NONE: u32 = u32::MAX;

/// `CATEGORICAL`, beside a feature's first code.
pub const CATEGORICAL: u8 = 2;

/// Codes of one byte: so many bins.
pub const BINS: usize = 256;

kernel_structs! { NodeSums, GrowingNode, ForestFit, BestSplit, WalkStep, FeatureSegment }

/// Where a slice lies.
pub fn address<T>(queue: &Queue, slice: &CudaSlice<T>) -> u64 {
    slice.device_ptr(queue.stream()).0
}

/// The same, 0 where there is none.
pub fn address_of<T>(queue: &Queue, slice: Option<&CudaSlice<T>>) -> u64 {
    slice.map_or(0, |s| address(queue, s))
}
