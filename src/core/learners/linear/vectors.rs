//! Vectors of coefficients, in parallel: block after block, with sums that are added in the blocks' order.

use crate::numerics::reduce::add_in_order;
use crate::parallel::thread_pool::ThreadPool;
use std::ops::Range;
use std::sync::Mutex;

/// Elements that a thread takes at a time. Sums are made of the sums of such blocks, so results depend on it.
pub const BLOCK: usize = 1 << 14;

/// Calls `work(range, out[range])` for every block of `out`; returns the sum of what it gives, added in order.
pub fn map(pool: &ThreadPool, out: &mut [f64], work: impl Fn(Range<usize>, &mut [f64]) -> f64 + Sync) -> f64 {
    let n = out.len();
    let blocks: Vec<Mutex<&mut [f64]>> = out.chunks_mut(BLOCK).map(Mutex::new).collect();
    let sums = pool.deal(
        blocks.len(),
        || (),
        |_, b| match blocks[b].lock() {
            Ok(mut block) => work(b * BLOCK..n.min((b + 1) * BLOCK), &mut block),
            Err(_) => f64::NAN,
        },
    );
    add_in_order(sums)
}

/// Computes Σ `value(i)` over `0..n`.
pub fn sum(pool: &ThreadPool, n: usize, value: impl Fn(usize) -> f64 + Sync) -> f64 {
    add_in_order(block_sums(pool, n, value))
}

/// Computes Σ `value(i)` over each block of `0..n`, in their order.
pub fn block_sums(pool: &ThreadPool, n: usize, value: impl Fn(usize) -> f64 + Sync) -> Vec<f64> {
    pool.deal(n.div_ceil(BLOCK), || (), |_, b| lanes(b * BLOCK..n.min((b + 1) * BLOCK), &value))
}

/// Computes Σ `value(i)` over a range, as eight sums of every eighth element, so that additions need not wait for each other.
#[inline(always)]
pub fn lanes(range: Range<usize>, value: impl Fn(usize) -> f64) -> f64 {
    let mut sums = [0.0; 8];
    let whole = range.start + range.len() / 8 * 8;
    for i in (range.start..whole).step_by(8) {
        for (lane, sum) in sums.iter_mut().enumerate() {
            *sum += value(i + lane);
        }
    }
    for (lane, i) in (whole..range.end).enumerate() {
        sums[lane] += value(i);
    }
    ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))
}

/// Calls `work(b, out[block b])` for every block of `size` elements of `out`.
pub fn each<T: Send>(pool: &ThreadPool, out: &mut [T], size: usize, work: impl Fn(usize, &mut [T]) + Sync) {
    let blocks: Vec<Mutex<&mut [T]>> = out.chunks_mut(size).map(Mutex::new).collect();
    pool.deal(
        blocks.len(),
        || (),
        |_, b| {
            if let Ok(mut block) = blocks[b].lock() {
                work(b, &mut block);
            }
        },
    );
}
