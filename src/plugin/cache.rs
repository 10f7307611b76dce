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
struct Entries<T>(Mutex<VecDeque<Entry<T>>>);

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Entries(Mutex::default())
    }
}

impl<T: Send + Sync + 'static> Cache<T> {
    pub const fn new() -> Self {
        Cache { entries: PerProcess::new() }
    }

    fn locked(&self) -> MutexGuard<'static, VecDeque<Entry<T>>> {
        self.entries.get().0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of these bytes, parsed if they are not among the last used ones. Bytes are
    /// compared whole: most differ soon where they differ, and no hash is faster than a comparison.
    pub fn get(&self, bytes: &[u8], parse: impl FnOnce(&[u8]) -> PolarsResult<T>) -> PolarsResult<Arc<T>> {
        let find = |entries: &mut VecDeque<Entry<T>>| {
            let at = entries.iter().position(|e| *e.bytes == *bytes)?;
            let entry = entries.remove(at)?;
            let value = entry.value.clone();
            entries.push_front(entry);
            Some(value)
        };
        if let Some(found) = find(&mut self.locked()) {
            return Ok(found);
        }
        // Parsed outside the lock; two threads that do it at once do it twice.
        let value = Arc::new(parse(bytes)?);
        if bytes.len() <= BYTES {
            let mut entries = self.locked();
            if find(&mut entries).is_none() {
                entries.push_front(Entry { bytes: bytes.into(), value: value.clone() });
            }
            while entries.len() > VALUES || entries.iter().map(|e| e.bytes.len()).sum::<usize>() > BYTES {
                entries.pop_back();
            }
        }
        Ok(value)
    }
}
