//! The steps of a spin_pool by threads of the system, for ThreadSanitizer, which ends the program where two threads use a place at the same
//! time without a reason that one of them comes first (docs/checks.md). With an argument there is such a race, to see that it is found.

#[path = "../../../src/core/parallel/thread_pool/spin_pool.rs"]
mod spin_pool;
#[path = "../../../src/core/parallel/thread_pool/sync.rs"]
mod sync;

use spin_pool::SpinPool;
use std::cell::UnsafeCell;

/// What shares write to without any lock, each in a place of its own.
struct Places(Vec<UnsafeCell<usize>>);

// SAFETY: that no two threads use a place at the same time is what is checked.
unsafe impl Sync for Places {}

impl Places {
    fn add(&self, member: usize) {
        // SAFETY: likewise.
        unsafe { *self.0[member].get() += 1 };
    }

    fn read(&self, member: usize) -> usize {
        // SAFETY: likewise.
        unsafe { *self.0[member].get() }
    }
}

fn main() {
    let racing = std::env::args().len() > 1;
    for others in [1, 3, 7] {
        let mut spin_pool = SpinPool::new(others).expect("threads");
        let places = Places((0..=others).map(|_| UnsafeCell::new(0)).collect());
        for step in 1..=20_000 {
            spin_pool.step(&|member| places.add(member));
            assert!((0..=others).all(|member| places.read(member) == step));
            if step % 1000 == 0 {
                // Long enough for threads to fall asleep.
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
        if racing {
            (0..1000).for_each(|_| spin_pool.step(&|_| (0..2000).for_each(|_| std::hint::black_box(&places).add(0))));
        }
    }
    println!("60,000 steps");
}
