//! What was parsed from bytes, kept for the next morsel of the same query.

use polars::prelude::*;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use taiga_engine::parallel::fork::PerProcess;

/// What is kept at most: values, and bytes of theirs.
const VALUES: usize = 64;
const BYTES: usize = 128 << 20;

struct Entry<T> {
    bytes: Box<[u8]>,
    value: Arc<T>,
}

/// The values last used, the last one first; a forked process has its own.
pub struct Cache<T> {
    entries: PerProcess<Entries<T>>,
}

/// Entries, behind their lock.
struct Entries<T>(Mutex<VecDeque<Arc<Entry<T>>>>);

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Entries(Mutex::default())
    }
}

impl<T: Send + Sync + 'static> Cache<T> {
    pub const fn new() -> Self {
        Cache { entries: PerProcess::new() }
    }

    fn locked(&self) -> MutexGuard<'static, VecDeque<Arc<Entry<T>>>> {
        self.entries.get().0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of these bytes, parsed if they are not among the last used ones. Bytes are
    /// compared whole: most differ soon where they differ, and no hash is faster than a comparison.
    pub fn get(&self, bytes: &[u8], parse: impl FnOnce(&[u8]) -> PolarsResult<T>) -> PolarsResult<Arc<T>> {
        // Outside the lock: every morsel of a query compares, and large models take as long as the rows.
        let known: Vec<Arc<Entry<T>>> = self.locked().iter().cloned().collect();
        if let Some(found) = known.into_iter().find(|e| *e.bytes == *bytes) {
            let mut entries = self.locked();
            if let Some(at) = entries.iter().position(|e| Arc::ptr_eq(e, &found)).filter(|at| *at > 0)
                && let Some(entry) = entries.remove(at)
            {
                entries.push_front(entry);
            }
            return Ok(found.value.clone());
        }
        // Parsed outside the lock, too; two threads that do it at once do it twice.
        let value = Arc::new(parse(bytes)?);
        if bytes.len() <= BYTES {
            let entry = Entry { bytes: bytes.into(), value: value.clone() };
            let mut entries = self.locked();
            if !entries.iter().any(|e| *e.bytes == *bytes) {
                entries.push_front(Arc::new(entry));
            }
            while entries.len() > VALUES || entries.iter().map(|e| e.bytes.len()).sum::<usize>() > BYTES {
                entries.pop_back();
            }
        }
        Ok(value)
    }
}
