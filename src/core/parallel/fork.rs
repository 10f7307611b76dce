//! Statics that survive a fork.
//!
//! A forked process has a copy of its parent's memory and one thread, the one that called `fork`. Pools then have no threads, and a
//! lock that another thread held is locked for ever. So whatever is shared between threads for the life of the process stands in a
//! [`PerProcess`], of which the forked process gets a new one; its parent's is never touched again.

use std::sync::atomic::{AtomicPtr, Ordering};

/// Counts the forks that lie between this process and the first one that asked: 0 there, one more in each child.
///
/// ```
/// assert_eq!(taiga_core::parallel::fork::generation(), 0);
/// ```
pub fn generation() -> u32 {
    count::generation()
}

#[cfg(unix)]
mod count {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    static GENERATION: AtomicU32 = AtomicU32::new(0);
    static COUNTED: AtomicBool = AtomicBool::new(false);

    /// Runs in the child, before `fork` returns there.
    unsafe extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::SeqCst);
    }

    pub fn generation() -> u32 {
        if !COUNTED.load(Ordering::Acquire) {
            // Two threads that come here at once both have forks counted, and a fork then counts for two: generations
            // differ all the same. A lock would be one more that a fork might find held.
            // SAFETY: the handler only adds to an atomic, which is allowed in a child of a process with several threads.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
            COUNTED.store(true, Ordering::Release);
        }
        GENERATION.load(Ordering::SeqCst)
    }
}

/// Elsewhere processes are not forked.
#[cfg(not(unix))]
mod count {
    pub fn generation() -> u32 {
        0
    }
}

/// A value for each process: made when it is first asked for, and made anew in a forked process.
///
/// ```
/// use std::sync::Mutex;
/// use taiga_core::parallel::fork::PerProcess;
/// static NAMES: PerProcess<Mutex<Vec<String>>> = PerProcess::new();
/// NAMES.get().lock().unwrap().push("a".into());
/// assert_eq!(NAMES.get().lock().unwrap().len(), 1);
/// ```
pub struct PerProcess<T> {
    current: AtomicPtr<Value<T>>,
}

/// A value, and the generation that it is for.
struct Value<T> {
    generation: u32,
    value: T,
}

impl<T: Default + Send + Sync + 'static> PerProcess<T> {
    /// Makes one without a value.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        PerProcess { current: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Returns this process's value, the same one each time.
    pub fn get(&self) -> &'static T {
        let generation = generation();
        loop {
            let current = self.current.load(Ordering::Acquire);
            // SAFETY: null, or made by `Box::into_raw` below; what has once been stored is never freed.
            if let Some(own) = unsafe { current.as_ref() }
                && own.generation == generation
            {
                return &own.value;
            }
            let new = Box::into_raw(Box::new(Value { generation, value: T::default() }));
            match self.current.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: it has just been made, and from now on it is never freed.
                Ok(_) => return unsafe { &(*new).value },
                // Another thread was quicker.
                // SAFETY: nobody but this thread has seen it.
                Err(_) => drop(unsafe { Box::from_raw(new) }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Proves that all threads get the same value, whoever makes it.
    #[test]
    fn all_threads_of_a_process_share_a_value() {
        static VALUE: PerProcess<Mutex<Vec<usize>>> = PerProcess::new();
        let addresses: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| std::ptr::from_ref(VALUE.get()) as usize)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(addresses.iter().all(|a| *a == addresses[0]));
    }
}
