//! The tables of the kernels of forests: twins of `kernels/forest/layouts.cuh` and of those beside it.

use crate::runtime::layouts::assert_layouts;
use crate::runtime::queue::Queue;
use cudarc::driver::{CudaSlice, DevicePtr, DeviceRepr};

/// No node, no code, no table.
pub const NONE: u32 = u32::MAX;

/// `CATEGORICAL`, beside a feature's first code.
pub const CATEGORICAL: u8 = 2;

/// Codes of one byte: so many bins.
pub const BINS: usize = 256;

/// Twin of `NodeSums`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeSums {
    pub sum: i64,
    pub weight: u64,
    pub count: u64,
}

/// Twin of `GrowingNode`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct GrowingNode {
    pub key: u64,
    pub begin: u64,
    pub rows: u64,
    pub total: NodeSums,
    pub left: NodeSums,
    pub score: f64,
    pub threshold: f64,
    pub tree: u32,
    pub feature: u32,
    pub left_code: u32,
    pub right_code: u32,
    pub missing_left: u32,
    pub children: u32,
}

/// Twin of `ForestFit`: addresses and numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ForestFit {
    pub codes: u64,
    pub ranks: u64,
    pub bins: u64,
    pub first: u64,
    pub nodes: u64,
    pub lanes: u64,
    pub sets: u64,
    pub next_node: u64,
    pub lists: [u64; 3],
    pub counts: u64,
    pub rows: u64,
    pub min_data: u64,
    pub min_gain: f64,
    pub tree_weights: u64,
    pub classes: u64,
    pub values: u64,
    pub levels: u64,
    pub weights: u64,
    pub logs: u64,
    pub log_count: u64,
    pub distinct: u64,
    pub distinct_starts: u64,
    pub unit: f64,
    pub features: u32,
    pub drawn: u32,
    pub warp_rows: u32,
    pub block_rows: u32,
    pub deeper: u32,
    pub class_count: u32,
    pub criterion: u32,
    pub kind: u32,
}

/// Twin of `FeatureSegment`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct FeatureSegment {
    pub offset: u64,
    pub at: u32,
    pub feature: u32,
    pub order: u32,
    pub ranks: u32,
}

/// Twin of `BestSplit`, which only kernels read.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct BestSplit {
    score: f64,
    threshold: f64,
    left: NodeSums,
    codes: [u32; 4],
    varies: u32,
    unused: u32,
}

/// Twin of `WalkStep`, likewise.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct WalkStep([u32; 4]);

assert_layouts! {
    taiga_kernels::layouts::FOREST;
    NodeSums as "NodeSums" { sum, weight, count }
    GrowingNode as "GrowingNode" { key, begin, rows, total, left, score, threshold, tree, feature, left_code, right_code, missing_left, children }
    ForestFit as "ForestFit" { codes, ranks, bins, first, nodes, lanes, sets, next_node, lists, counts, rows, min_data, min_gain, tree_weights, classes, values, levels, weights, logs, log_count, distinct, distinct_starts, unit, features, drawn, warp_rows, block_rows, deeper, class_count, criterion, kind }
    BestSplit as "BestSplit" {}
    WalkStep as "WalkStep" {}
    FeatureSegment as "FeatureSegment" { offset, at, feature, order, ranks }
}

// SAFETY: plain numbers in C's layout, which is the kernels' own.
unsafe impl DeviceRepr for GrowingNode {}
// SAFETY: likewise.
unsafe impl DeviceRepr for ForestFit {}
// SAFETY: likewise.
unsafe impl DeviceRepr for FeatureSegment {}
// SAFETY: likewise.
unsafe impl DeviceRepr for BestSplit {}
// SAFETY: likewise.
unsafe impl DeviceRepr for WalkStep {}

/// Where a slice lies.
pub fn address<T>(queue: &Queue, slice: &CudaSlice<T>) -> u64 {
    slice.device_ptr(queue.stream()).0
}

/// The same, 0 where there is none.
pub fn address_of<T>(queue: &Queue, slice: Option<&CudaSlice<T>>) -> u64 {
    slice.map_or(0, |s| address(queue, s))
}
