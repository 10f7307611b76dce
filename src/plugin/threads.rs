//! How many threads, and the pool that everything but a fit shares.

use rayon::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use taiga_engine::parallel::fork::PerProcess;
use taiga_engine::parallel::{interrupt, pools};

/// As many threads as Polars uses: `POLARS_MAX_THREADS`, else what the machine offers.
pub fn default_threads() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    if THREADS.load(Ordering::Relaxed) == 0 {
        let offered = || std::thread::available_parallelism().map_or(1, |n| n.get());
        let asked = std::env::var("POLARS_MAX_THREADS").ok().and_then(|n| n.trim().parse().ok()).filter(|n| *n > 0);
        THREADS.store(asked.unwrap_or_else(offered), Ordering::Relaxed);
    }
    THREADS.load(Ordering::Relaxed)
}

/// Below so many values a second thread costs a fit more than it gives.
const SERIAL_BELOW: usize = 1 << 14;

/// Fits at work in this process whose threads we chose.
static FITS: PerProcess<AtomicUsize> = PerProcess::new();

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
        let fits = 1 + FITS.get().fetch_add(1, Ordering::Relaxed);
        let count = if FitThreads::serve(values) { share(default_threads(), fits) } else { 1 };
        FitThreads { count: count as u32, ours: true }
    }

    /// Whether a fit of so many values is sooner done by several threads.
    pub fn serve(values: usize) -> bool {
        values >= SERIAL_BELOW
    }

    /// The number of threads.
    pub fn count(&self) -> u32 {
        self.count
    }
}

impl Drop for FitThreads {
    fn drop(&mut self) {
        if self.ours {
            FITS.get().fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The threads of one of so many fits: an equal share, rounded down to 2^k or 3·2^k where it is large, so that fits that come and
/// go ask for few different numbers of threads, and find them.
fn share(threads: usize, fits: usize) -> usize {
    const EXACT: usize = 8;
    let share = (threads / fits).clamp(1, 1024);
    if fits == 1 || share < EXACT {
        return share;
    }
    let power = 1 << share.ilog2();
    if share >= power + power / 2 { power + power / 2 } else { power }
}

/// The pool for work on whole columns (quantisation, encodings, prediction outside a stream), where there are threads for it.
fn pool() -> Option<pools::Pool> {
    let threads = default_threads();
    (threads > 1).then(|| pools::pool(threads).ok()).flatten()
}

/// Runs `body` inside the pool, so that what it deals to threads is dealt to these.
pub fn on_all_threads<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    match pool() {
        Some(pool) => pool.install(body),
        None => {
            pools::keep_to_this_thread();
            body()
        }
    }
}

/// `work(start, len)` for consecutive blocks of `block` of `n` rows, on all threads when there is
/// more than one block; the results in the order of the rows. Looks before each whether the work is still wanted.
pub fn for_blocks<T: Send>(n: usize, block: usize, work: impl Fn(usize, usize) -> T + Sync) -> Vec<T> {
    let one = |start: usize| {
        interrupt::poll();
        work(start, block.min(n - start))
    };
    let starts: Vec<usize> = (0..n).step_by(block.max(1)).collect();
    match (starts.len() > 1).then(pool).flatten() {
        Some(pool) => pool.install(|| starts.into_par_iter().map(one).collect()),
        None => starts.into_iter().map(one).collect(),
    }
}
