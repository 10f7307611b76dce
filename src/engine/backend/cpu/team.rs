//! The threads of a fit.

use crate::error::{Error, Result};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A fixed number of threads; member `t` always does share `t`.
pub struct Team {
    pool: Option<Arc<rayon::ThreadPool>>,
    size: usize,
}

/// Pools by their number of threads, kept because fits come in series.
static POOLS: Mutex<Option<HashMap<usize, Arc<rayon::ThreadPool>>>> = Mutex::new(None);

impl Team {
    /// A team of `size` threads.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn new(size: usize) -> Result<Team> {
        if size <= 1 {
            return Ok(Team { pool: None, size: 1 });
        }
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        let pools = pools.get_or_insert_with(HashMap::new);
        if let Some(pool) = pools.get(&size) {
            return Ok(Team { pool: Some(pool.clone()), size });
        }
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(size)
            .thread_name(|i| format!("taiga-{i}"))
            .build()
            .map_err(|e| Error::parameter("n_threads", format!("{size} threads could not be started: {e}")))?;
        let pool = Arc::new(pool);
        pools.insert(size, pool.clone());
        Ok(Team { pool: Some(pool), size })
    }

    /// The number of threads.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Runs `body` on one of the team's threads, so that [`Team::each`] inside it starts at once.
    pub fn enter<R: Send>(&self, body: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            Some(pool) => pool.install(body),
            None => body(),
        }
    }

    /// `make(i)` for `0..n`, each by whichever member is free; the results in order. `memory()` is
    /// what a member uses again from one to the next.
    pub fn deal<M, R: Send>(&self, n: usize, memory: impl Fn() -> M + Sync, make: impl Fn(&mut M, usize) -> R + Sync) -> Vec<R> {
        let next = AtomicUsize::new(0);
        let shares = self.each(|_| {
            let (mut mine, mut memory) = (vec![], memory());
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= n {
                    return mine;
                }
                mine.push((i, make(&mut memory, i)));
            }
        });
        let mut made: Vec<(usize, R)> = shares.into_iter().flatten().collect();
        made.sort_unstable_by_key(|m| m.0);
        made.into_iter().map(|m| m.1).collect()
    }

    /// Runs `share(t)` for every member `t` at the same time; the results in their order.
    pub fn each<R: Send>(&self, share: impl Fn(usize) -> R + Sync) -> Vec<R> {
        match &self.pool {
            Some(pool) => pool.broadcast(|context| share(context.index())),
            None => vec![share(0)],
        }
    }
}
