//! What rows answer to the tests of a model's trees, on the GPU.

use crate::runtime::device::Gpu;
use crate::runtime::queue::Queue;
use cudarc::driver::{CudaSlice, LaunchConfig};
use std::ops::Range;
use taiga_core::column::Column;
use taiga_core::error::Result;

/// The codes and values that the tests of a model ask about, of all rows of some columns.
pub struct ReadRows {
    pub codes: CudaSlice<u8>,
    pub values: CudaSlice<f64>,
    /// The distance of two slots' codes, and of their values.
    pub stride: usize,
}

/// A block of rows: their answers stand `answers[test * rows + row]`.
#[derive(Clone, Copy)]
pub struct RowBlock {
    pub first: usize,
    pub rows: usize,
}

/// A model whose tests a GPU makes.
pub trait RowTests: Send + Sync {
    /// Returns the GPU that it is on.
    fn gpu(&self) -> &'static Gpu;

    /// Reads what the tests ask about of columns in the model's order; does not wait.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    fn read(&self, queue: &Queue, columns: &[&Column<'_>], rows: usize) -> Result<ReadRows>;

    /// Answers these of the tests of all trees for a block of rows: 1 where a row goes right; does not wait.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    fn answer(&self, queue: &Queue, read: &ReadRows, block: RowBlock, tests: Range<usize>, out: &mut CudaSlice<u8>) -> Result<()>;
}

/// Rows of a block of threads.
const THREADS: u32 = 256;

/// The launch of threads that take a row each, and of a row of the grid for some of `n` things, which the kernels count on from there.
pub(super) fn rows_by(rows: usize, n: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: ((rows as u32).div_ceil(THREADS).max(1), n.clamp(1, 1024) as u32, 1),
        block_dim: (THREADS, 1, 1),
        shared_mem_bytes: 0,
    }
}
