//! Columns that stay on a GPU after a call, so that the next expression of a query does not upload them
//! again.
//!
//! A column is known by its bytes: by its [`Shape`] and a [`Fingerprint`] of all of them. Where they are in host memory says
//! nothing, since memory that is freed comes back with other values, and an array that others share (NumPy's, say) is written
//! to in its place. So:
//!
//! - What is looked for is hashed anew each time, a pass over its memory, and used only where the GPU has the same bytes.
//! - What stays was hashed while it was uploaded, in the pinned memory that the bus read: even where a column is written to
//!   between the search and the upload, or under it, its entry is of the bytes that went over.
//! - Nothing of the host's memory is kept.
//!
//! Where no column of the same shape is on the GPU there is nothing to look for, and nothing is hashed: a column's first use
//! costs no pass of its own.
//!
//! It holds a share of the device's memory at most, the columns used last, and each for a minute after its
//! last use: it is for the expressions of one query. What is short of device memory takes the cache's first.
//!
//! `TAIGA_CUDA_CACHE` in the environment says how many bytes it may hold; 0 turns it off, hashes and all.

use super::column::Stored;
use super::device::Gpu;
use super::error::driver;
use super::fingerprint::{Fingerprint, Shape, fingerprints};
use super::queue::Queue;
use cudarc::driver::{CudaEvent, CudaStream};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use taiga_core::column::Column;
use taiga_core::device::CacheInfo;
use taiga_core::error::Result;

const LIMIT: &str = "TAIGA_CUDA_CACHE";

/// The share of a device's memory that the cache takes at most, unless it is told.
const SHARE: u64 = 4;

/// How long a column stays that nobody uses.
const KEPT: Duration = Duration::from_secs(60);

/// A column that stays.
struct CachedColumn {
    stored: Arc<Stored>,
    /// When all of it is there.
    ready: CudaEvent,
    bytes: u64,
    /// When it was used last: the time, and the number of that use.
    used: Instant,
    use_number: u64,
}

/// Who waits for whom: a column's shape, and where its bytes begin. Columns that have this in common are most likely the same;
/// if they are not, one has waited in vain, and no more.
type Waiting = (Shape, usize);

#[derive(Default)]
struct CacheState {
    entries: HashMap<Shape, HashMap<Fingerprint, CachedColumn>>,
    /// Bytes of all of them.
    bytes: u64,
    /// Uses so far.
    uses: u64,
    limit: Option<u64>,
    hits: u64,
    misses: u64,
    watched: bool,
    /// What is being copied by those whose turn it is, by their numbers.
    turns: Vec<(u64, Waiting)>,
    next_turn: u64,
}

/// The columns of a GPU that stay there.
#[derive(Default)]
pub struct Cache(Mutex<CacheState>, Condvar);

/// The turn to copy a column, until it is dropped.
pub(crate) struct Turn<'a> {
    cache: &'a Cache,
    number: u64,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.cache.locked().turns.retain(|(number, _)| *number != self.number);
        self.cache.1.notify_all();
    }
}

impl Cache {
    fn locked(&self) -> MutexGuard<'_, CacheState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it holds.
    pub fn info(&self, gpu: &Gpu) -> CacheInfo {
        let inner = self.locked();
        let columns = inner.entries.values().map(HashMap::len).sum();
        CacheInfo { columns, bytes: inner.bytes, limit: inner.limit(gpu), hits: inner.hits, misses: inner.misses }
    }

    /// Sets the bytes that it may hold: 0 turns it off, none is a share of the device's memory.
    pub fn set_limit(&self, gpu: &Gpu, limit: Option<u64>) {
        let dropped = {
            let mut inner = self.locked();
            inner.limit = limit;
            let limit = inner.limit(gpu);
            inner.shrink(limit)
        };
        drop(dropped);
    }

    /// Frees what nobody uses at the moment, pinned memory of the host too, and waits until it is free; gives whether there was any
    /// column.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn clear(&self, gpu: &Gpu) -> Result<bool> {
        gpu.slots.clear();
        let dropped = self.locked().shrink(0);
        let streams: Vec<Arc<CudaStream>> = dropped.iter().map(|e| e.stored.stream().clone()).collect();
        drop(dropped);
        for stream in &streams {
            stream.synchronize().map_err(|e| driver(gpu, "freeing columns", e))?;
        }
        Ok(!streams.is_empty())
    }

    /// Whether a column of this shape may stay at all.
    pub(crate) fn takes(&self, gpu: &Gpu, shape: Shape) -> bool {
        let bytes = shape.bytes() as u64;
        bytes > 0 && bytes <= self.locked().limit(gpu)
    }

    /// The copies of columns in these shapes, where the bytes that they have now are there; `queue` waits until they are whole.
    pub(crate) fn find(&self, queue: &Queue, columns: &[(&Column<'_>, Shape)]) -> Result<Vec<Option<Arc<Stored>>>> {
        let mut found = vec![None; columns.len()];
        // Those that have a shape of which there is any.
        let mut asked = vec![];
        for (i, (_, shape)) in columns.iter().enumerate().filter(|(_, (_, shape))| self.takes(queue.gpu(), *shape)) {
            let mut inner = self.locked();
            if inner.entries.contains_key(shape) {
                asked.push(i);
            } else {
                inner.misses += 1;
            }
        }
        let fingerprints = fingerprints(&asked.iter().map(|i| columns[*i]).collect::<Vec<_>>());
        let mut inner = self.locked();
        for (i, fingerprint) in asked.into_iter().zip(fingerprints) {
            let (shape, number) = (columns[i].1, inner.next_use());
            let entry = inner.entries.get_mut(&shape).zip(fingerprint).and_then(|(of_shape, of)| of_shape.get_mut(&of));
            let Some(entry) = entry else {
                inner.misses += 1;
                continue;
            };
            (entry.used, entry.use_number) = (Instant::now(), number);
            let (stored, waited) = (entry.stored.clone(), queue.stream().wait(&entry.ready));
            inner.hits += 1;
            waited.map_err(|e| driver(queue.gpu(), "waiting for another stream", e))?;
            found[i] = Some(stored);
        }
        Ok(found)
    }

    /// Waits while somebody else is copying the same column: expressions of one query run side by side, and the
    /// one that comes second is to find what the first one has brought. Whoever has a turn copies that one
    /// column and waits for no other.
    pub(crate) fn turn(&self, gpu: &Gpu, column: &Column<'_>, shape: Shape) -> Option<Turn<'_>> {
        if !self.takes(gpu, shape) {
            return None;
        }
        let waiting = (shape, column.address());
        let mut inner = self.locked();
        while inner.turns.iter().any(|(_, other)| *other == waiting) {
            inner = self.1.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        let number = inner.next_turn;
        inner.next_turn += 1;
        inner.turns.push((number, waiting));
        Some(Turn { cache: self, number })
    }

    /// Keeps a copy that `queue` has been given all of, and that has this fingerprint, where there is room; gives
    /// whether it did.
    pub(crate) fn keep(&self, queue: &Queue, shape: Shape, fingerprint: Fingerprint, stored: &Arc<Stored>) -> Result<bool> {
        let (gpu, bytes) = (queue.gpu(), stored.bytes());
        let limit = self.locked().limit(gpu);
        if bytes == 0 || bytes > limit {
            return Ok(false);
        }
        let ready = queue.stream().record_event(None).map_err(|e| driver(gpu, "recording an event", e))?;
        let dropped = {
            let mut inner = self.locked();
            if inner.entries.get(&shape).is_some_and(|of_shape| of_shape.contains_key(&fingerprint)) {
                // Another query was quicker.
                return Ok(false);
            }
            let dropped = inner.shrink(limit - bytes);
            let (used, use_number) = (Instant::now(), inner.next_use());
            let entry = CachedColumn { stored: stored.clone(), ready, bytes, used, use_number };
            inner.entries.entry(shape).or_default().insert(fingerprint, entry);
            inner.bytes += bytes;
            if !std::mem::replace(&mut inner.watched, true) {
                // Where there is no thread to be had they stay until there is no room.
                inner.watched = std::thread::Builder::new().name("taiga-cache".into()).spawn(|| gpu.cache.watch()).is_ok();
            }
            dropped
        };
        drop(dropped);
        Ok(true)
    }

    /// Drops columns when their time is over, until there are none.
    fn watch(&self) {
        loop {
            std::thread::sleep(KEPT / 6);
            let (over, done) = {
                let mut inner = self.locked();
                let over = inner.take_out(|e| e.used.elapsed() >= KEPT);
                let done = inner.entries.is_empty();
                inner.watched = !done;
                (over, done)
            };
            drop(over);
            if done {
                return;
            }
        }
    }
}

impl CacheState {
    fn limit(&self, gpu: &Gpu) -> u64 {
        let asked = || std::env::var(LIMIT).ok().and_then(|bytes| bytes.trim().parse().ok());
        self.limit.or_else(asked).unwrap_or_else(|| gpu.total_memory() / SHARE)
    }

    /// Takes out those used longest ago until no more than `most` bytes are left. They are to be dropped when the
    /// lock is free again: that is up to the driver.
    fn shrink(&mut self, most: u64) -> Vec<CachedColumn> {
        let mut dropped = vec![];
        while self.bytes > most {
            let Some(oldest) = self.entries.values().flat_map(HashMap::values).map(|e| e.use_number).min() else { break };
            dropped.extend(self.take_out(|e| e.use_number == oldest));
        }
        dropped
    }

    fn take_out(&mut self, which: impl Fn(&CachedColumn) -> bool) -> Vec<CachedColumn> {
        let of_shapes = self.entries.values_mut();
        let out: Vec<CachedColumn> = of_shapes.flat_map(|of_shape| of_shape.extract_if(|_, e| which(e))).map(|(_, e)| e).collect();
        self.entries.retain(|_, of_shape| !of_shape.is_empty());
        self.bytes -= out.iter().map(|e| e.bytes).sum::<u64>();
        out
    }

    /// The number of a use, from 1 on.
    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }
}
