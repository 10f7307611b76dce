//! The threads of a fit.

mod spin_pool;
mod sync;

use self::spin_pool::SpinPool;
use super::numbered::Slots;
use super::{fork, interrupt, pools};
use crate::error::{Error, Result};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A fixed number of threads; member `t` always does share `t`. They come from [`pools`], and go back there.
pub struct ThreadPool {
    pool: Option<pools::Pool>,
    size: usize,
    /// The threads of [`ThreadPool::step`]; none until its first call.
    spin: Mutex<Option<SpinPool>>,
    /// The process that it was made in ([`fork::generation`]).
    generation: u32,
}

impl ThreadPool {
    /// Makes a pool of `size` threads.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn new(size: usize) -> Result<ThreadPool> {
        ThreadPool::of(size, pools::pool)
    }

    /// Makes a pool of `size` threads for a fit; where this `waits` for others, which may be fits of this process, no other work has a share
    /// in it ([`pools::apart`]).
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn of_fit(size: usize, waits: bool) -> Result<ThreadPool> {
        ThreadPool::of(size, if waits { pools::apart } else { pools::pool })
    }

    fn of(size: usize, pool: impl Fn(usize) -> std::result::Result<pools::Pool, rayon::ThreadPoolBuildError>) -> Result<ThreadPool> {
        let none = |e| Error::parameter("n_threads", format!("{size} threads could not be started: {e}"));
        let pool = (size > 1).then(|| pool(size)).transpose().map_err(none)?;
        Ok(ThreadPool { pool, size: size.max(1), spin: Mutex::new(None), generation: fork::generation() })
    }

    /// Returns the number of threads.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Runs `body` on one of the pool's threads, so that [`ThreadPool::each`] inside it starts at once.
    pub fn enter<R: Send>(&self, body: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            Some(pool) => pool.install(body),
            None => body(),
        }
    }

    /// Computes `make(i)` for `0..n`, each by whichever member is free, and returns the results in order. `memory()` is
    /// what a member uses again from one to the next. Looks before each whether the work is still wanted
    /// ([`interrupt::poll`]).
    pub fn deal<M, R: Send>(&self, n: usize, memory: impl Fn() -> M + Sync, make: impl Fn(&mut M, usize) -> R + Sync) -> Vec<R> {
        let (next, made) = (AtomicUsize::new(0), Slots::new(n));
        self.on_each(&|_| {
            let mut memory = memory();
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= n {
                    return;
                }
                interrupt::poll();
                made.put(i, make(&mut memory, i));
            }
        });
        made.into_vec()
    }

    /// Runs `share(t)` for every member `t` at the same time; the results in their order. Each thread begins with the share
    /// of its own number, so that rows stay in its caches; shares whose threads have not begun by then (the system
    /// gave their cores to others) are taken by those that are through, so that nobody waits for a thread to be woken.
    pub fn each<R: Send>(&self, share: impl Fn(usize) -> R + Sync) -> Vec<R> {
        let done = Slots::new(self.size);
        self.on_each(&|t| done.put(t, share(t)));
        done.into_vec()
    }

    /// [`ThreadPool::each`], once for all callers.
    fn on_each(&self, share: &(dyn Fn(usize) + Sync)) {
        let Some(pool) = &self.pool else { return share(0) };
        let taken: Vec<AtomicBool> = (0..self.size).map(|_| AtomicBool::new(false)).collect();
        let take = || {
            let own = pool.current_thread_index().unwrap_or(0);
            let free = (0..self.size).map(|i| (own + i) % self.size).find(|t| !taken[*t].swap(true, Ordering::Relaxed));
            if let Some(t) = free {
                share(t);
            }
        };
        self.enter(|| {
            rayon::scope(|scope| {
                (1..self.size).for_each(|_| scope.spawn(|_| take()));
                take();
            });
        });
    }

    /// Runs a share of work on each member, as [`ThreadPool::each`], for steps so short and many that threads wait awake for
    /// the next one. A share calls neither the pool nor rayon.
    pub fn step<R: Send>(&self, share: impl Fn(usize) -> R + Sync) -> Vec<R> {
        if self.size == 1 {
            return vec![share(0)];
        }
        let mut own = self.spin.lock().unwrap_or_else(PoisonError::into_inner);
        if own.is_none() {
            *own = pools::take(self.size - 1).or_else(|| SpinPool::new(self.size - 1).ok());
        }
        let Some(spin) = own.as_mut() else { return self.each(share) };
        let results = Slots::new(self.size);
        spin.step(&|t| results.put(t, share(t)));
        // A share that gives nothing panics, and that has come out of the step.
        results.into_vec()
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        let Some(spin) = self.spin.get_mut().unwrap_or_else(PoisonError::into_inner).take() else { return };
        if self.generation == fork::generation() {
            pools::keep(spin, self.size - 1);
        } else {
            // Its threads are those of the process that this one was forked from: nobody would answer.
            std::mem::forget(spin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that every share is done once and that results come in order: from outside the pool, from inside, from
    /// another pool's thread, and with more members than the machine has cores.
    #[test]
    fn every_share_is_done_once() {
        let (few, many) = (ThreadPool::new(2).unwrap(), ThreadPool::new(64).unwrap());
        let counts: Vec<AtomicUsize> = (0..64).map(|_| AtomicUsize::new(0)).collect();
        let run = || {
            many.each(|t| {
                counts[t].fetch_add(1, Ordering::Relaxed);
                t
            })
        };
        let expected: Vec<usize> = (0..64).collect();
        assert_eq!(run(), expected);
        assert_eq!(many.enter(run), expected);
        assert_eq!(few.each(|_| run()), [expected.clone(), expected]);
        assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 4));
        assert_eq!(ThreadPool::new(1).unwrap().each(|t| t), [0]);
    }

    /// Proves that nobody waits for a thread that has not begun: with the other thread of the pool held up, each share
    /// is done by the caller.
    #[test]
    fn shares_of_threads_that_are_held_up_are_taken_over() {
        let threads = ThreadPool::new(3).unwrap();
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let held = Mutex::new(held);
        let pool = threads.pool.as_ref().unwrap();
        let waiting = std::sync::Arc::new(std::sync::Barrier::new(3));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let (waiting, held) = (waiting.clone(), &held);
                scope.spawn(move || {
                    pool.install(|| {
                        waiting.wait();
                        let _ = held.lock().unwrap().recv();
                    })
                });
            }
            waiting.wait();
            assert_eq!(threads.each(|t| (t, std::thread::current().id())).iter().map(|x| x.0).collect::<Vec<_>>(), [0, 1, 2]);
            drop(hold);
        });
    }
}
