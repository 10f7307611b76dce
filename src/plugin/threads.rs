//! How many threads, and the pool that everything but a fit shares.

use rayon::prelude::*;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// As many threads as Polars uses: `POLARS_MAX_THREADS`, else what the machine offers.
pub fn default_threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| {
        let offered = || std::thread::available_parallelism().map_or(1, |n| n.get());
        std::env::var("POLARS_MAX_THREADS").ok().and_then(|n| n.trim().parse().ok()).filter(|n| *n > 0).unwrap_or_else(offered)
    })
}

/// Below so many values a second thread costs a fit more than it gives.
const SERIAL_BELOW: usize = 1 << 14;

/// Fits at work in this process whose threads we chose.
static FITS: AtomicUsize = AtomicUsize::new(0);

/// The threads of a fit, held while it works: all of them, or where other fits are at work its share. Polars fits the
/// groups of a `group_by` at the same time, and a tree has so many steps at whose end threads wait for one another
/// that each group is done sooner with threads of its own. Threads never change a model.
pub struct FitThreads {
    count: u32,
    ours: bool,
}

impl FitThreads {
    /// For a fit of so many values; `asked`: the number that the user names, which stands.
    pub fn take(asked: Option<u32>, values: usize) -> FitThreads {
        if let Some(count) = asked {
            return FitThreads { count, ours: false };
        }
        let fits = 1 + FITS.fetch_add(1, Ordering::Relaxed);
        let count = if values < SERIAL_BELOW { 1 } else { (default_threads() / fits).clamp(1, 1024) };
        FitThreads { count: count as u32, ours: true }
    }

    /// The number of threads.
    pub fn count(&self) -> u32 {
        self.count
    }
}

impl Drop for FitThreads {
    fn drop(&mut self) {
        if self.ours {
            FITS.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The pool for work on whole columns (quantisation, encodings, prediction outside a stream).
fn pool() -> Option<&'static rayon::ThreadPool> {
    static POOL: OnceLock<Option<rayon::ThreadPool>> = OnceLock::new();
    POOL.get_or_init(|| {
        let name = |i| format!("taiga-{i}");
        rayon::ThreadPoolBuilder::new().num_threads(default_threads()).thread_name(name).build().ok()
    })
    .as_ref()
}

/// Runs `body` inside the pool, so that what it deals to threads is dealt to these.
pub fn on_all_threads<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    match pool() {
        Some(pool) => pool.install(body),
        None => body(),
    }
}

/// `work(start, len)` for consecutive blocks of `block` of `n` rows, on all threads when there is
/// more than one block; the results in the order of the rows.
pub fn for_blocks<T: Send>(n: usize, block: usize, work: impl Fn(usize, usize) -> T + Sync) -> Vec<T> {
    let one = |start: usize| work(start, block.min(n - start));
    let starts: Vec<usize> = (0..n).step_by(block.max(1)).collect();
    match pool() {
        Some(pool) if starts.len() > 1 => pool.install(|| starts.into_par_iter().map(one).collect()),
        _ => starts.into_iter().map(one).collect(),
    }
}
