//! Threads that drive the GPUs of a fit, one each. Rayon's won't do: one that waits there may pick up another fit, which waits for these GPUs.

use super::upload::set_copiers;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use taiga_core::error::{Error, Result};

/// How long threads wait awake: a driver for the next step of a tree, the caller for the drivers.
const AWAKE: Duration = Duration::from_micros(200);
const PAUSE: Duration = Duration::from_micros(50);

/// What all drivers are to do, by their numbers.
#[derive(Clone, Copy)]
struct Job(*const (dyn Fn(usize) + Sync));

// SAFETY: the function may be called from any thread, and is there while it is: `DriverThreads::run` waits.
unsafe impl Send for Job {}

#[derive(Default)]
struct State {
    job: Option<Job>,
    ends: bool,
    /// What the first driver that panicked said.
    panic: Option<Box<dyn Any + Send>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Jobs that were given, and drivers that have not done the last one.
    jobs: AtomicU64,
    left: AtomicUsize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the job behind the `done`-th; none where there is none any more.
    fn next(&self, done: u64) -> Option<Job> {
        let start = Instant::now();
        while self.jobs.load(Ordering::Acquire) == done && start.elapsed() < AWAKE {
            std::hint::spin_loop();
        }
        let waits = |state: &mut State| self.jobs.load(Ordering::Acquire) == done && !state.ends;
        let state = self.changed.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        state.job.filter(|_| !state.ends)
    }

    fn drive(&self, number: usize) {
        let mut done = 0;
        while let Some(Job(work)) = self.next(done) {
            done += 1;
            // SAFETY: whoever gave the job waits until all drivers are through with it.
            let worked = catch_unwind(AssertUnwindSafe(|| unsafe { (*work)(number) }));
            if let Err(panic) = worked {
                self.lock().panic.get_or_insert(panic);
            }
            self.left.fetch_sub(1, Ordering::Release);
        }
    }
}

/// A thread for each GPU of a fit.
pub struct DriverThreads {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl DriverThreads {
    /// Starts `count` threads, each of which copies to its GPU by `copiers` others.
    ///
    /// # Errors
    /// [`Error::Data`] where the system gives no thread.
    pub fn new(count: usize, copiers: usize) -> Result<DriverThreads> {
        let mut drivers = DriverThreads { shared: Arc::default(), threads: vec![] };
        for number in 0..count {
            let shared = drivers.shared.clone();
            let drive = move || {
                set_copiers(copiers);
                shared.drive(number);
            };
            let thread = std::thread::Builder::new().name(format!("taiga-cuda-{number}")).spawn(drive);
            drivers.threads.push(thread.map_err(|e| Error::Data(format!("no thread for a GPU: {e}")))?);
        }
        Ok(drivers)
    }

    /// Runs `work` on all threads at once, with their numbers, and waits.
    ///
    /// # Panics
    /// Where it does on one of them.
    pub fn run(&self, work: &(dyn Fn(usize) + Sync)) {
        let shared = &self.shared;
        // SAFETY: the same function with a longer life, of which no thread makes use behind the end of this call.
        let job: Job = Job(unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const (dyn Fn(usize) + Sync)>(work) });
        shared.left.store(self.threads.len(), Ordering::Release);
        {
            let mut state = shared.lock();
            state.job = Some(job);
            shared.jobs.fetch_add(1, Ordering::Release);
        }
        shared.changed.notify_all();
        let start = Instant::now();
        while shared.left.load(Ordering::Acquire) > 0 {
            if start.elapsed() < 10 * AWAKE { std::hint::spin_loop() } else { std::thread::sleep(PAUSE) }
        }
        if let Some(panic) = shared.lock().panic.take() {
            resume_unwind(panic);
        }
    }
}

impl Drop for DriverThreads {
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        self.shared.changed.notify_all();
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that every thread does each job once, in order, and that a panic comes out and leaves the threads as they were.
    #[test]
    fn every_thread_does_each_job_once() {
        let drivers = DriverThreads::new(3, 1).expect("threads");
        let counts: [AtomicUsize; 3] = Default::default();
        for _ in 0..500 {
            drivers.run(&|number| {
                counts[number].fetch_add(1, Ordering::Relaxed);
            });
        }
        assert_eq!(counts.each_ref().map(|c| c.load(Ordering::Relaxed)), [500; 3]);
        let panicked = catch_unwind(AssertUnwindSafe(|| drivers.run(&|number| assert!(number != 1, "a test"))));
        assert!(panicked.is_err());
        drivers.run(&|number| {
            counts[number].fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(counts.map(AtomicUsize::into_inner), [501; 3]);
    }
}
