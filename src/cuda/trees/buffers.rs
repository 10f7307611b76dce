//! Buffers of a fit on the device, and the kernels.

use crate::runtime::{Gpu, Queue};
use crate::{Image, Kernel};
use cudarc::driver::{CudaSlice, DevicePtr, DeviceRepr, ValidAsZeroBits};
use taiga_core::error::Result;

/// `kernels/trees.cu`.
pub(super) const TREES: Image = Image { name: "trees", bytes: taiga_kernels::images::trees };

/// An array on the device, and where it is: kernels get addresses in tables.
pub struct Buffer<T: DeviceRepr> {
    pub slice: CudaSlice<T>,
    pub address: u64,
}

impl<T: DeviceRepr> Buffer<T> {
    /// Room for `n` values, which hold anything.
    pub fn new(queue: &Queue, what: &str, n: usize) -> Result<Buffer<T>> {
        Ok(Buffer::of(queue, queue.alloc(what, n)?))
    }

    /// Room for `n` values, all zero.
    pub fn zeros(queue: &Queue, what: &str, n: usize) -> Result<Buffer<T>>
    where
        T: ValidAsZeroBits,
    {
        let mut buffer = Buffer::new(queue, what, n)?;
        queue.clear(&mut buffer.slice)?;
        Ok(buffer)
    }

    /// A copy of `values`.
    pub fn copy_of(queue: &Queue, what: &str, values: &[T]) -> Result<Buffer<T>> {
        let mut buffer = Buffer::new(queue, what, values.len())?;
        buffer.write(queue, values)?;
        Ok(buffer)
    }

    fn of(queue: &Queue, slice: CudaSlice<T>) -> Buffer<T> {
        let address = slice.device_ptr(queue.stream()).0;
        Buffer { slice, address }
    }

    /// Room for `n` values at least; what it held is lost where it grows.
    pub fn reserve(&mut self, queue: &Queue, what: &str, n: usize) -> Result<()> {
        if self.slice.len() < n {
            *self = Buffer::new(queue, what, n.max(self.slice.len() * 3 / 2))?;
        }
        Ok(())
    }

    /// Writes `values` to its beginning.
    pub fn write(&mut self, queue: &Queue, values: &[T]) -> Result<()> {
        queue.write(values, &mut self.slice)
    }

    /// The first `n` values, when all before has run.
    pub fn read(&self, queue: &Queue, n: usize) -> Result<Vec<T>> {
        queue.read(&self.slice.slice(..n))
    }
}

macro_rules! kernels {
    ($($name:ident),* $(,)?) => {
        /// The kernels, loaded once for a fit.
        pub struct Kernels { $(pub $name: Kernel,)* }

        impl Kernels {
            fn load(gpu: &Gpu) -> Result<Kernels> {
                Ok(Kernels { $($name: gpu.kernel(TREES, concat!("tree_", stringify!($name)))?,)* })
            }
        }
    };
}

kernels!(
    update,
    run_program,
    bounds,
    find_quantizer,
    round,
    root,
    root_guess,
    keys,
    draw,
    gather,
    group_keys,
    group_ranks,
    group_pairs,
    group_factors,
    group_finish,
    group_xendcg,
    group_neighbours,
    group_places,
    position_adjust,
    position_sums,
    position_step,
    risk_add,
    risk_carry,
    risk_complete,
    risk_hazards,
    risk_hazard_carry,
    risk_finish,
    plan_jobs,
    plan_sums,
    sum_both,
    sum_limbs,
    sum_ones,
    sum_far_both,
    sum_far_limbs,
    sum_far_ones,
    sum_sparse_packed,
    sum_sparse_both,
    sum_sparse_limbs,
    sum_sparse_ones,
    count_sparse,
    list_sparse,
    sparse_rows,
    partition,
    partition_any,
    partition_sum,
    partition_records,
    partition_root_records,
    search,
    search_4,
    search_32,
    search_256,
    pick,
    level_scores,
    level_scores_4,
    level_scores_32,
    level_scores_256,
    level_sum,
    level_pick,
    share_quantizers,
    add_squares,
    shared_search,
    shared_level_scores,
    shared_level_sum,
    shared_total,
    shared_pick,
    spread,
    keep,
    add_kept,
    linear_measure,
    linear_sums,
    linear_values,
    update_rows,
    start,
    all_reduce,
    complete_quantizer,
    complete_leaves,
    gather_scores,
    ordered_sums,
    seed,
    grow,
    grow_level,
    search_grow,
    search_grow_4,
    search_grow_32,
    search_grow_256,
    level_grow,
    leaves,
    leaves_heap,
    residuals,
    quantiles,
    weights,
    weighted_residuals,
    weighted_quantiles,
);

/// Threads of the blocks that partition rows, and of those that sum a root.
pub const PARTITION_THREADS: u32 = 768;
pub const ROOT_THREADS: u32 = 640;

/// Threads, at most, of the blocks that queue rows, and the bytes of a warp's queue.
const QUEUE_THREADS: u32 = 640;
const QUEUE_BYTES: u32 = 5312;

/// With fewer warps there are too few to keep a multiprocessor busy.
const LEAST_WARPS: u32 = 2;

/// Bytes that a root's pass has for itself beside its bins.
const ROOT_BYTES: u32 = 8192;

/// Whether a root's pass has room for features of up to `bins` bins.
pub fn root_fits(gpu: &Gpu, bins: usize) -> bool {
    shared_bins(bins) + ROOT_BYTES <= gpu.shared_per_block()
}

/// Bytes of shared memory for the sums of a block of features with `bins` bins.
pub fn shared_bins(bins: usize) -> u32 {
    (bins * 32 * 8) as u32
}

/// The threads of a block that queues rows for features of up to `bins` bins, and its shared memory; none where
/// the GPU has not enough of it: then rows are added to the totals in its main memory.
pub fn queueing(gpu: &Gpu, bins: usize) -> Option<(u32, u32)> {
    let room = gpu.shared_per_block().checked_sub(shared_bins(bins) + 1024)?;
    let warps = (room / QUEUE_BYTES).min(QUEUE_THREADS / 32);
    (warps >= LEAST_WARPS).then_some((32 * warps, shared_bins(bins) + warps * QUEUE_BYTES))
}

/// Threads, at most, of the blocks that move records, and the bytes of a warp's queue there.
const RECORD_THREADS: u32 = 768;
const RECORD_QUEUE_BYTES: u32 = 4032;

/// The same for the blocks that move records.
pub fn queueing_records(gpu: &Gpu, bins: usize) -> Option<(u32, u32)> {
    let room = gpu.shared_per_block().checked_sub(shared_bins(bins) + 1024)?;
    let warps = (room / RECORD_QUEUE_BYTES).min(RECORD_THREADS / 32);
    (warps >= LEAST_WARPS).then_some((32 * warps, shared_bins(bins) + warps * RECORD_QUEUE_BYTES))
}

/// Bytes of shared memory for the sums of leaves.
pub fn leaves_shared(gpu: &Gpu) -> u32 {
    (96 << 10).min(gpu.shared_per_block() - 1024)
}

impl Kernels {
    /// Loads the kernels, and lets those that want much shared memory have it; beside it they have less
    /// than 1 KiB of their own, and a root's 7 KiB.
    pub fn new(gpu: &Gpu) -> Result<Kernels> {
        let kernels = Kernels::load(gpu)?;
        for kernel in [&kernels.sum_both, &kernels.sum_limbs, &kernels.sum_ones, &kernels.partition_sum] {
            kernel.allow_shared(gpu, gpu.shared_per_block() - 1024)?;
        }
        for kernel in [&kernels.sum_sparse_packed, &kernels.sum_sparse_both, &kernels.sum_sparse_limbs, &kernels.sum_sparse_ones] {
            kernel.allow_shared(gpu, gpu.shared_per_block() / 2)?;
        }
        for kernel in [&kernels.root, &kernels.root_guess] {
            kernel.allow_shared(gpu, shared_bins(256).min(gpu.shared_per_block() - ROOT_BYTES))?;
        }
        for kernel in [&kernels.leaves, &kernels.leaves_heap] {
            kernel.allow_shared(gpu, leaves_shared(gpu))?;
        }
        kernels.linear_sums.allow_shared(gpu, super::linear_leaves::shared(gpu))?;
        Ok(kernels)
    }
}
