//! Tries every order of events of the threads that do a fit's short steps (`pool/spin_pool.rs`, compiled here with threads and atomics of a
//! model): `cargo run --release --manifest-path loom/Cargo.toml`.
//!
//! Proves, for the numbers of threads and steps below, that each share of each step is done once, that what a share wrote is seen by the
//! caller when its step has ended, that no wake-up is lost (a deadlock is an error of the model), that a panic of a share comes out where
//! the step was called, and that threads end when their spin_pool is dropped.

#[path = "../../src/core/parallel/thread_pool/spin_pool.rs"]
mod spin_pool;
mod sync;

use spin_pool::SpinPool;
use loom::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What shares write to without any lock, each in a place of its own: two that meet there are an error of the model.
struct Places(Vec<UnsafeCell<usize>>);

// SAFETY: that no two threads use a place at the same time is what the model checks.
unsafe impl Sync for Places {}

impl Places {
    fn new(members: usize) -> Places {
        Places((0..members).map(|_| UnsafeCell::new(0)).collect())
    }

    /// One more in the place of `member`.
    fn add(&self, member: usize) {
        // SAFETY: the model's cell fails where another thread uses it meanwhile.
        self.0[member].with_mut(|count| unsafe { *count += 1 });
    }

    fn read(&self) -> Vec<usize> {
        // SAFETY: likewise.
        self.0.iter().map(|place| place.with(|count| unsafe { *count })).collect()
    }
}

/// `preemptions`: how often a thread is stopped where it need not wait, at most; none: as often as can be.
fn model(name: &str, preemptions: Option<usize>, check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 100_000;
    let begun = std::time::Instant::now();
    let orders = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = orders.clone();
    builder.check(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        check();
    });
    let orders = orders.load(std::sync::atomic::Ordering::Relaxed);
    println!("{name}: {orders} orders, {:.1} s", begun.elapsed().as_secs_f64());
}

/// Every member of a spin_pool of `others` threads and the caller adds to its place in each of `steps` steps.
fn steps(others: usize, steps: usize) {
    let mut spin_pool = SpinPool::new(others).expect("threads");
    let places = Places::new(others + 1);
    for step in 1..=steps {
        spin_pool.step(&|member| places.add(member));
        assert_eq!(places.read(), vec![step; others + 1]);
    }
}

fn main() {
    model("one thread beside the caller, one step", None, || steps(1, 1));
    model("one thread beside the caller, two steps, 5 preemptions", Some(5), || steps(1, 2));
    model("two threads beside the caller, one step, 2 preemptions", Some(2), || steps(2, 1));
    model("one thread beside the caller, three steps, 3 preemptions", Some(3), || steps(1, 3));
    model("a spin_pool without a step", None, || drop(SpinPool::new(1).expect("a thread")));
    model("a share that panics, and a step after it, 2 preemptions", Some(2), || {
        let mut spin_pool = SpinPool::new(1).expect("a thread");
        for bad in 0..2 {
            let panic = catch_unwind(AssertUnwindSafe(|| {
                spin_pool.step(&|member| {
                    if member == bad {
                        std::panic::resume_unwind(Box::new("of a test"))
                    }
                })
            }));
            assert_eq!(panic.expect_err("a panic").downcast_ref::<&str>(), Some(&"of a test"));
        }
        let places = Places::new(2);
        spin_pool.step(&|member| places.add(member));
        assert_eq!(places.read(), [1, 1]);
    });
}
