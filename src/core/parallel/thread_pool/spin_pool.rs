//! Threads that wait awake for a while. A tree of a small table is a hundred steps of a few microseconds, between
//! which waking a thread would cost more than the step. A share whose thread has not begun when the caller is through
//! with its own is the caller's: where the system gives a core to others, nobody waits for a thread to be woken.

// Also compiled by loom/, with a module `sync` whose threads and atomics try every order of events.
use super::sync::thread::JoinHandle;
use super::sync::{Arc, AtomicBool, AtomicUsize, Condvar, LOOKS, Mutex, MutexGuard, YIELDS, spin_loop, thread};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// A step: `share(t)` for member `t`.
type StepFn = dyn Fn(usize) + Sync;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number on lines of its own, so that a thread that waits for it disturbs no other.
#[derive(Default)]
#[repr(align(128))]
struct CacheAligned<T>(T);

/// The state that the members of a pool share.
#[derive(Default)]
struct Board {
    /// The number of the last step that was called.
    step: CacheAligned<AtomicUsize>,
    /// The last step of which each member's share has been begun, by the member or by the caller.
    begun: Vec<CacheAligned<AtomicUsize>>,
    /// How many members' shares of it are not done.
    left: CacheAligned<AtomicUsize>,
    /// How many threads sleep: members until the next step, or the caller until this one is done.
    asleep: AtomicUsize,
    over: AtomicBool,
    bed: Mutex<()>,
    wake: Condvar,
    /// The step itself; none between steps.
    share: Mutex<Option<&'static StepFn>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Board {
    /// Waits until `ready`, awake at first.
    fn wait(&self, ready: impl Fn() -> bool) {
        for look in 0..LOOKS + YIELDS {
            if ready() {
                return;
            }
            if look < LOOKS { spin_loop() } else { thread::yield_now() }
        }
        let mut bed = lock(&self.bed);
        // Whoever makes `ready` true does that before it looks for sleepers, and this is the other way around, both in
        // one order that all threads agree on: it is seen here, or the sleeper there.
        self.asleep.fetch_add(1, Ordering::SeqCst);
        while !ready() {
            bed = self.wake.wait(bed).unwrap_or_else(PoisonError::into_inner);
        }
        self.asleep.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes those who sleep; what they wait for has been stored.
    fn rouse(&self) {
        if self.asleep.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.bed));
            self.wake.notify_all();
        }
    }

    /// Runs the steps of one member until the pool ends.
    fn serve(&self, member: usize) {
        let mut done = 0;
        loop {
            self.wait(|| self.step.0.load(Ordering::SeqCst) != done);
            done = self.step.0.load(Ordering::SeqCst);
            if self.over.load(Ordering::SeqCst) {
                return;
            }
            self.begin(member, done);
            if self.left.0.load(Ordering::SeqCst) == 0 {
                self.rouse();
            }
        }
    }

    /// Does the share of `member` in `step`, unless it has been begun.
    fn begin(&self, member: usize, step: usize) {
        // Each share of each step is begun once, so the number before it stands there, or the share is somebody else's.
        // Whoever changes it may call the step's closure: the step does not end before `left` says so.
        if self.begun[member].0.compare_exchange(step.wrapping_sub(1), step, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return;
        }
        let share = *lock(&self.share);
        if let Some(share) = share
            && let Err(panic) = catch_unwind(AssertUnwindSafe(|| share(member)))
        {
            lock(&self.panic).get_or_insert(panic);
        }
        self.left.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Threads beside the caller's, for its steps alone.
pub struct SpinPool {
    board: Arc<Board>,
    threads: Vec<JoinHandle<()>>,
}

impl SpinPool {
    /// Starts `others` threads beside the caller's.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn new(others: usize) -> std::io::Result<SpinPool> {
        let begun = (0..=others).map(|_| CacheAligned::default()).collect();
        let mut spin_pool = SpinPool { board: Arc::new(Board { begun, ..Board::default() }), threads: vec![] };
        for member in 1..=others {
            let board = spin_pool.board.clone();
            let thread = thread::Builder::new().name(format!("taiga-{member}"));
            spin_pool.threads.push(thread.spawn(move || board.serve(member))?);
        }
        Ok(spin_pool)
    }

    /// Runs `share(t)` for every member `t`, at the same time as far as threads are there; member 0 is the caller's.
    ///
    /// # Panics
    /// When a share does.
    pub fn step<'s>(&mut self, share: &'s (dyn Fn(usize) + Sync + 's)) {
        let board = &*self.board;
        // SAFETY: only the lifetime changes. It is called by those alone who begin a share of this step, and this function
        // neither returns nor unwinds before all of them are done with it.
        let lasting: &'static StepFn = unsafe { std::mem::transmute::<&'s (dyn Fn(usize) + Sync + 's), &'static StepFn>(share) };
        *lock(&board.share) = Some(lasting);
        board.left.0.store(self.threads.len(), Ordering::SeqCst);
        let step = board.step.0.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
        board.rouse();
        let own = catch_unwind(AssertUnwindSafe(|| share(0)));
        (1..=self.threads.len()).for_each(|member| board.begin(member, step));
        board.wait(|| board.left.0.load(Ordering::SeqCst) == 0);
        *lock(&board.share) = None;
        let panic = lock(&board.panic).take();
        if let Some(panic) = own.err().or(panic) {
            resume_unwind(panic);
        }
    }
}

impl Drop for SpinPool {
    fn drop(&mut self) {
        self.board.over.store(true, Ordering::SeqCst);
        self.board.step.0.fetch_add(1, Ordering::SeqCst);
        self.board.rouse();
        for thread in self.threads.drain(..) {
            // Members catch what panics in a step.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every share of every step is done once, whether its thread is awake or asleep.
    #[test]
    fn every_member_does_every_step() {
        let mut spin_pool = SpinPool::new(3).unwrap();
        let done: Vec<AtomicUsize> = (0..4).map(|_| AtomicUsize::new(0)).collect();
        let steps = if cfg!(miri) { 12 } else { 300 };
        for step in 0..steps {
            spin_pool.step(&|t| {
                assert_eq!(done[t].fetch_add(1, Ordering::Relaxed), step);
            });
            if step % 100 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        assert!(done.iter().all(|d| d.load(Ordering::Relaxed) == steps));
    }

    /// A panic comes out where the step was called, and the spin_pool goes on.
    #[test]
    fn a_panic_comes_out() {
        let mut spin_pool = SpinPool::new(2).unwrap();
        for bad in 0..3 {
            let caught = catch_unwind(AssertUnwindSafe(|| spin_pool.step(&|t| assert!(t != bad, "member {bad}"))));
            assert!(caught.is_err());
            spin_pool.step(&|_| ());
        }
    }
}
