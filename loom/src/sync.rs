//! Threads and atomics of the model, as `pool/sync.rs` has those of the standard library.

pub use loom::hint::spin_loop;
use loom::sync::atomic::{self, fence};
pub use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
pub use loom::thread;
use std::sync::atomic::Ordering::{self, SeqCst};

/// A waiting thread sleeps at once: to the model a look is the same as the one that a sleeper takes before it sleeps.
pub const LOOKS: usize = 0;
pub const YIELDS: usize = 0;

/// The model takes operations that are sequentially consistent for acquiring and releasing ones, and only fences for what they are; so
/// each has one before and behind.
macro_rules! atomic {
    ($name:ident, $of:ty) => {
        #[derive(Default)]
        pub struct $name(atomic::$name);

        #[allow(dead_code)]
        impl $name {
            fn ordered<R>(&self, operation: impl FnOnce(&atomic::$name) -> R) -> R {
                fence(SeqCst);
                let result = operation(&self.0);
                fence(SeqCst);
                result
            }

            pub fn load(&self, order: Ordering) -> $of {
                self.ordered(|x| x.load(order))
            }

            pub fn store(&self, value: $of, order: Ordering) {
                self.ordered(|x| x.store(value, order));
            }

            pub fn compare_exchange(&self, from: $of, to: $of, done: Ordering, failed: Ordering) -> Result<$of, $of> {
                self.ordered(|x| x.compare_exchange(from, to, done, failed))
            }
        }
    };
}

atomic!(AtomicBool, bool);
atomic!(AtomicUsize, usize);

impl AtomicUsize {
    pub fn fetch_add(&self, value: usize, order: Ordering) -> usize {
        self.ordered(|x| x.fetch_add(value, order))
    }

    pub fn fetch_sub(&self, value: usize, order: Ordering) -> usize {
        self.ordered(|x| x.fetch_sub(value, order))
    }
}
