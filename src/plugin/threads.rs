//! How many threads, and the pool that everything but a fit shares.

use rayon::prelude::*;
use std::sync::OnceLock;

/// As many threads as Polars uses: `POLARS_MAX_THREADS`, else what the machine offers.
pub fn default_threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| {
        let offered = || std::thread::available_parallelism().map_or(1, |n| n.get());
        std::env::var("POLARS_MAX_THREADS").ok().and_then(|n| n.trim().parse().ok()).filter(|n| *n > 0).unwrap_or_else(offered)
    })
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
