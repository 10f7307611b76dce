//! The threads that computations use, one place for all of them.
//!
//! Computations come in series, and starting threads takes longer than many of them; so threads stay for the next one that wants
//! as many ([`KEPT`] after the last one), and those used longest ago go first where more would be idle than twice the machine's cores.
//! What is in use does not count: it is the user's choice, and ends up here.
//!
//! A forked process begins without any ([`super::fork`]).

use super::fork::{PerProcess, generation};
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long idle threads stay.
pub const KEPT: Duration = Duration::from_secs(5);

/// How many times the number of the machine's cores (or the threads of the last computation, if these are more) may be idle: a
/// fit uses a rayon pool and, in turn with it, a spin pool of as many.
const MOST: usize = 2;

/// A pool that is shared by all who want as many threads at the same time.
pub(crate) struct SharedPool {
    pool: Arc<ThreadPool>,
    threads: usize,
    users: usize,
    since: Instant,
}

/// Other threads, which one computation has at a time.
struct Own {
    what: Box<dyn Any + Send>,
    threads: usize,
    since: Instant,
}

#[derive(Default)]
struct Store {
    shared: Vec<SharedPool>,
    own: Vec<Own>,
    /// Whether a thread looks after what is idle.
    watched: bool,
}

static STORE: PerProcess<Mutex<Store>> = PerProcess::new();

fn store() -> MutexGuard<'static, Store> {
    STORE.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of threads that are kept and not in use.
pub fn idle_threads() -> usize {
    store().idle()
}

/// A pool in use; others may use it too, unless it is [`apart`].
pub struct Pool {
    pool: Arc<ThreadPool>,
    threads: usize,
    generation: u32,
    is_shared: bool,
}

impl std::ops::Deref for Pool {
    type Target = ThreadPool;
    fn deref(&self) -> &ThreadPool {
        &self.pool
    }
}

/// Returns a pool of so many threads: one that is kept, or a new one.
///
/// # Errors
/// When the system gives no threads.
///
/// ```
/// use taiga_core::parallel::pools::pool;
/// assert_eq!(pool(2).unwrap().install(rayon::current_num_threads), 2);
/// ```
pub fn pool(threads: usize) -> Result<Pool, ThreadPoolBuildError> {
    let generation = generation();
    let mut store = store();
    let found = store.shared.iter().position(|s| s.threads == threads);
    let at = match found {
        Some(at) => at,
        None => {
            let pool = Arc::new(ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("taiga-{i}")).build()?);
            store.shared.push(SharedPool { pool, threads, users: 0, since: Instant::now() });
            store.shared.len() - 1
        }
    };
    let shared = &mut store.shared[at];
    shared.users += 1;
    Ok(Pool { pool: shared.pool.clone(), threads, generation, is_shared: true })
}

/// Returns a pool of so many threads that nobody else uses, for work that may wait, on one of its threads, for other work of this process:
/// threads of a shared pool that all wait so would leave none for what they wait for.
///
/// # Errors
/// When the system gives no threads.
pub fn apart(threads: usize) -> Result<Pool, ThreadPoolBuildError> {
    let pool = Arc::new(ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("taiga-{i}")).build()?);
    Ok(Pool { pool, threads, generation: generation(), is_shared: false })
}

impl Drop for Pool {
    fn drop(&mut self) {
        // A forked process has nothing to give back: the threads are its parent's.
        if self.generation != generation() || !self.is_shared {
            return;
        }
        let mut store = store();
        if let Some(shared) = store.shared.iter_mut().find(|s| s.threads == self.threads) {
            shared.users -= 1;
            shared.since = Instant::now();
        }
        let dropped = store.tidy(self.threads);
        drop(store);
        drop(dropped);
    }
}

/// Takes what was kept by [`keep`] under this type and number of threads, if there is any.
pub fn take<T: Send + 'static>(threads: usize) -> Option<T> {
    let mut store = store();
    let at = store.own.iter().rposition(|own| own.threads == threads && own.what.is::<T>())?;
    let own = store.own.remove(at);
    drop(store);
    own.what.downcast().ok().map(|what| *what)
}

/// Keeps `what`, which has so many threads and ends them when it is dropped.
pub fn keep<T: Send + 'static>(what: T, threads: usize) {
    let mut store = store();
    store.own.push(Own { what: Box::new(what), threads, since: Instant::now() });
    let dropped = store.tidy(threads);
    drop(store);
    drop(dropped);
}

/// What goes: to be dropped when the lock is free again, since threads may be waited for.
type Dropped = (Vec<SharedPool>, Vec<Own>);

impl Store {
    fn idle(&self) -> usize {
        let shared = self.shared.iter().filter(|s| s.users == 0).map(|s| s.threads);
        shared.chain(self.own.iter().map(|o| o.threads)).sum()
    }

    /// Takes out what is idle and too much, the one used longest ago first, and sees to it that the rest goes in time; `used`:
    /// the threads of the last computation.
    fn tidy(&mut self, used: usize) -> Dropped {
        let most = MOST * used.max(cores());
        let mut dropped: Dropped = Default::default();
        while self.idle() > most {
            let oldest = self.shared.iter().filter(|s| s.users == 0).map(|s| s.since).chain(self.own.iter().map(|o| o.since)).min();
            let Some(oldest) = oldest else { break };
            let (shared, own) = self.take_out(|since| since == oldest);
            dropped.0.extend(shared);
            dropped.1.extend(own);
        }
        if !self.watched && self.idle() > 0 {
            // Where there is no thread to be had they stay until the next computation.
            self.watched = std::thread::Builder::new().name("taiga-idle".into()).spawn(watch).is_ok();
        }
        dropped
    }

    fn take_out(&mut self, which: impl Fn(Instant) -> bool) -> Dropped {
        let shared = self.shared.extract_if(.., |s| s.users == 0 && which(s.since)).collect();
        (shared, self.own.extract_if(.., |o| which(o.since)).collect())
    }
}

/// Ends threads when their time is over, until there are none.
fn watch() {
    loop {
        std::thread::sleep(KEPT / 4);
        let mut store = store();
        let dropped = store.take_out(|since| since.elapsed() >= KEPT);
        store.watched = store.idle() > 0;
        let done = !store.watched;
        drop(store);
        drop(dropped);
        if done {
            return;
        }
    }
}

/// Returns the number of threads that a fit may use: as many as asked for, or what the machine offers.
pub fn asked(n_threads: Option<u32>) -> usize {
    n_threads.map_or_else(cores, |n| n as usize)
}

/// Returns what the machine offers.
fn cores() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static CORES: AtomicUsize = AtomicUsize::new(0);
    if CORES.load(Ordering::Relaxed) == 0 {
        CORES.store(std::thread::available_parallelism().map_or(1, |n| n.get()), Ordering::Relaxed);
    }
    CORES.load(Ordering::Relaxed)
}

/// Makes this thread a pool of one, for good, unless it is in a pool: what is dealt to threads here is then done here, in turn. Without,
/// rayon would start a pool of all cores that stays for the life of the process, and that a forked process would wait for in vain.
/// It is for threads that no other user of rayon has a claim to, a plugin's calls, say; and for those that do what needs it:
/// rayon keeps some kilobytes for each.
pub fn keep_to_this_thread() {
    if rayon::current_thread_index().is_none()
        && let Ok(pool) = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build()
    {
        // rayon keeps what belongs to it as long as the thread lives, and longer.
        std::mem::forget(pool);
    }
}
