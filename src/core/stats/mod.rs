//! Statistics of columns: the smallest and the largest value, histograms of one and two columns.
//!
//! - [`min_max`](mod@min_max): both in one pass.
//! - [`histogram`](mod@histogram), [`histogram2d`](mod@histogram2d): counts, weights or densities,
//!   equal to `numpy.histogram` and `numpy.histogram2d`.
//! - [`bins`]: what the user says of the bins, and the edges that follow from it.
//!
//! Functions use the rayon pool that they are called in, for columns of [`PARALLEL_FROM`] rows or
//! more, and the caller's thread below that; no result depends on how many threads there are.
//! A missing value, null or NaN, never counts. Between blocks of rows they look whether they are still wanted
//! ([`interrupt`]).
//!
//! ```text
//! column ─► smallest, largest ─► edges ─► the bin of each value ─► counters of each thread ─► Σ
//!           (without a range)   bins.rs   locate.rs               counter.rs
//! ```
//!
//! Another device would take over three steps: `min_max`, and counting with uniform bins and with
//! any edges (a [`locate::Locator`] is all that a count needs to know of the bins).

pub mod bins;
mod counter;
pub mod histogram;
pub mod histogram2d;
pub mod locate;
pub mod min_max;

pub use bins::{AxisParams, Histogram2dParams, HistogramParams};
pub use histogram::{Heights, Histogram, histogram};
pub use histogram2d::{Histogram2d, histogram2d};
pub use min_max::{ColumnValue, MinMax, min_max};

use crate::parallel::interrupt;
use crate::parallel::numbered;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Rows of a block: sums in f64 are added inside one and then over them in order, which is how
/// NumPy adds a histogram's weights.
pub const BLOCK: usize = 65_536;

/// Columns of at least this many rows are read by all threads of the pool.
pub const PARALLEL_FROM: usize = 4 * BLOCK;

/// Values whose bins are looked up at a time; their indices stay in the L1 cache.
const BATCH: usize = 1024;

/// Deals the blocks of `rows` rows to threads, as they come for them. `work` gets an iterator of
/// the blocks that are its own and returns what it made of them; the results are in no order, so
/// they must be such that none matters.
fn each_thread<R: Send>(rows: usize, work: impl Fn(&mut dyn Iterator<Item = Range<usize>>) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let run = |_| {
        let mut own = std::iter::from_fn(|| {
            interrupt::poll();
            let start = next.fetch_add(1, Ordering::Relaxed) * BLOCK;
            (start < rows).then(|| start..rows.min(start + BLOCK))
        });
        work(&mut own)
    };
    if rows < PARALLEL_FROM { vec![run(0)] } else { numbered::map(rayon::current_num_threads(), 1, run) }
}

/// Runs `work` for each block of `rows` rows on all threads; `add` gets the results in block order, on
/// the caller's thread. No more than a few blocks a thread are held at a time.
fn in_block_order<R: Send>(rows: usize, work: impl Fn(Range<usize>) -> R + Sync, mut add: impl FnMut(R)) {
    let block = |b: usize| {
        interrupt::poll();
        b * BLOCK..rows.min((b + 1) * BLOCK)
    };
    let blocks = rows.div_ceil(BLOCK);
    if rows < PARALLEL_FROM {
        (0..blocks).for_each(|b| add(work(block(b))));
        return;
    }
    let wave = 4 * rayon::current_num_threads();
    for first in (0..blocks).step_by(wave) {
        numbered::map(wave.min(blocks - first), 1, |b| work(block(first + b))).into_iter().for_each(&mut add);
    }
}
