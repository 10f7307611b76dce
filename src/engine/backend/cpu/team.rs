//! The threads of a fit.

mod crew;

use crate::error::{Error, Result};
use crew::Crew;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A fixed number of threads; member `t` always does share `t`.
pub struct Team {
    pool: Option<Arc<rayon::ThreadPool>>,
    size: usize,
    /// For [`Team::step`]; none until the first.
    crew: Mutex<Option<Crew>>,
}

/// Pools by their number of threads, kept because fits come in series.
static POOLS: Mutex<Option<HashMap<usize, Arc<rayon::ThreadPool>>>> = Mutex::new(None);

/// Crews that no team has, by the size of team that they are for: no more than one of each size.
static CREWS: Mutex<Option<HashMap<usize, Crew>>> = Mutex::new(None);

impl Team {
    /// A team of `size` threads.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn new(size: usize) -> Result<Team> {
        if size <= 1 {
            return Ok(Team { pool: None, size: 1, crew: Mutex::new(None) });
        }
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        let pools = pools.get_or_insert_with(HashMap::new);
        if let Some(pool) = pools.get(&size) {
            return Ok(Team { pool: Some(pool.clone()), size, crew: Mutex::new(None) });
        }
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(size)
            .thread_name(|i| format!("taiga-{i}"))
            .build()
            .map_err(|e| Error::parameter("n_threads", format!("{size} threads could not be started: {e}")))?;
        let pool = Arc::new(pool);
        pools.insert(size, pool.clone());
        Ok(Team { pool: Some(pool), size, crew: Mutex::new(None) })
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

    /// As [`Team::each`], for steps so short and many that threads wait awake for the next one. A share calls
    /// neither the team nor rayon.
    pub fn step<R: Send>(&self, share: impl Fn(usize) -> R + Sync) -> Vec<R> {
        if self.size == 1 {
            return vec![share(0)];
        }
        let mut own = self.crew.lock().unwrap_or_else(PoisonError::into_inner);
        if own.is_none() {
            let free = CREWS.lock().unwrap_or_else(PoisonError::into_inner).as_mut().and_then(|crews| crews.remove(&self.size));
            *own = free.or_else(|| Crew::new(self.size - 1).ok());
        }
        let Some(crew) = own.as_mut() else { return self.each(share) };
        let results: Vec<Mutex<Option<R>>> = (0..self.size).map(|_| Mutex::new(None)).collect();
        crew.step(&|t| {
            let result = share(t);
            *results[t].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        });
        // A share that gives nothing panics, and that has come out of the step.
        results.into_iter().filter_map(|r| r.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        let Some(crew) = self.crew.get_mut().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let mut crews = CREWS.lock().unwrap_or_else(PoisonError::into_inner);
        crews.get_or_insert_with(HashMap::new).entry(self.size).or_insert(crew);
    }
}
