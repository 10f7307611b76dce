//! Columns that stay on a GPU after a call, so that the next expression of a query does not upload them
//! again.
//!
//! A column is known by where its buffers are. Memory that is freed may come back with other values at the
//! same address, so only columns that say who keeps their buffers ([`Column::kept_by`]) are cached, and the
//! cache keeps the owner as long as the copy.
//!
//! It holds a share of the device's memory at most, the columns used last, and each for a minute after its
//! last use: it is for the expressions of one query, and keeps the host's memory of those columns too. What
//! is short of device memory takes the cache's first.
//!
//! `TAIGA_CUDA_CACHE` in the environment says how many bytes it may hold; 0 turns it off.

use super::column::{Form, Stored};
use super::device::Gpu;
use super::error::driver;
use super::queue::Queue;
use crate::backend::CacheInfo;
use crate::column::{Bits, Column, Owner, Values};
use crate::error::Result;
use cudarc::driver::{CudaEvent, CudaStream};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const LIMIT: &str = "TAIGA_CUDA_CACHE";

/// The share of a device's memory that the cache takes at most, unless it is told.
const SHARE: u64 = 4;

/// How long a column stays that nobody uses.
const KEPT: Duration = Duration::from_secs(60);

/// Where bits are: the first byte, the bit to begin with, how many.
type BitsAt = (usize, usize, usize);

/// Where a chunk's values and validity are, and what they are.
#[derive(PartialEq, Eq, Hash)]
struct Place {
    kind: u8,
    scale: u32,
    values: (usize, usize),
    booleans: Option<BitsAt>,
    validity: Option<BitsAt>,
}

/// What a column on the device is a copy of, and as what.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Key {
    form: Form,
    places: Vec<Place>,
}

impl Key {
    fn of(column: &Column<'_>, form: Form) -> Key {
        let mut places = vec![];
        column.segments(0, column.len(), |chunk, _, _, _| places.push(Place::of(&chunk.values(), chunk.validity())));
        Key { form, places }
    }
}

impl Place {
    fn of(values: &Values<'_>, validity: Option<Bits<'_>>) -> Place {
        fn at<T>(v: &[T]) -> (usize, usize) {
            (v.as_ptr() as usize, v.len())
        }
        let bits = |b: Bits<'_>| (b.bytes().as_ptr() as usize, b.offset(), b.len());
        let (kind, values, scale, booleans) = match values {
            Values::F32(v) => (0, at(v), 0, None),
            Values::F64(v) => (1, at(v), 0, None),
            Values::I8(v) => (2, at(v), 0, None),
            Values::I16(v) => (3, at(v), 0, None),
            Values::I32(v) => (4, at(v), 0, None),
            Values::I64(v) => (5, at(v), 0, None),
            Values::I128(v) => (6, at(v), 0, None),
            Values::U8(v) => (7, at(v), 0, None),
            Values::U16(v) => (8, at(v), 0, None),
            Values::U32(v) => (9, at(v), 0, None),
            Values::U64(v) => (10, at(v), 0, None),
            Values::U128(v) => (11, at(v), 0, None),
            Values::Bool(b) => (12, (0, b.len()), 0, Some(bits(*b))),
            Values::Decimal(v, scale) => (13, at(v), *scale, None),
        };
        Place { kind, scale, values, booleans, validity: validity.map(bits) }
    }
}

/// A column that stays.
struct Entry {
    stored: Arc<Stored>,
    /// When all of it is there.
    ready: CudaEvent,
    bytes: u64,
    /// When it was used last: the time, and the number of that use.
    used: Instant,
    use_number: u64,
    /// Behind the copy, so that it goes last.
    _owner: Owner,
}

#[derive(Default)]
struct Inner {
    entries: HashMap<Key, Entry>,
    /// Bytes of all of them.
    bytes: u64,
    /// Uses so far.
    uses: u64,
    limit: Option<u64>,
    hits: u64,
    misses: u64,
    watched: bool,
    /// What is being copied by those whose turn it is, by their numbers.
    turns: Vec<(u64, Key)>,
    next_turn: u64,
}

/// The columns of a GPU that stay there.
#[derive(Default)]
pub struct Cache(Mutex<Inner>, Condvar);

/// The turn to copy a column, until it is dropped.
pub(super) struct Turn<'a> {
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
    fn locked(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it holds.
    pub fn info(&self, gpu: &Gpu) -> CacheInfo {
        let inner = self.locked();
        CacheInfo { columns: inner.entries.len(), bytes: inner.bytes, limit: inner.limit(gpu), hits: inner.hits, misses: inner.misses }
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

    /// Frees what nobody uses at the moment, and waits until it is free; gives whether there was any.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub fn clear(&self, gpu: &Gpu) -> Result<bool> {
        let dropped = self.locked().shrink(0);
        let streams: Vec<Arc<CudaStream>> = dropped.iter().map(|e| e.stored.stream().clone()).collect();
        drop(dropped);
        for stream in &streams {
            stream.synchronize().map_err(|e| driver(gpu, "freeing columns", e))?;
        }
        Ok(!streams.is_empty())
    }

    /// The copy of a column as `form`, if it is there; `queue` waits until it is whole.
    pub(super) fn find(&self, queue: &Queue, column: &Column<'_>, form: Form) -> Result<Option<Arc<Stored>>> {
        if column.owner().is_none() || column.is_empty() {
            return Ok(None);
        }
        let key = Key::of(column, form);
        let mut inner = self.locked();
        let number = inner.next_use();
        let Some(entry) = inner.entries.get_mut(&key) else {
            inner.misses += (inner.limit(queue.gpu()) > 0) as u64;
            return Ok(None);
        };
        (entry.used, entry.use_number) = (Instant::now(), number);
        let (stored, waited) = (entry.stored.clone(), queue.stream().wait(&entry.ready));
        inner.hits += 1;
        waited.map_err(|e| driver(queue.gpu(), "waiting for another stream", e))?;
        Ok(Some(stored))
    }

    /// Waits while somebody else is copying the same column: expressions of one query run side by side, and the
    /// one that comes second is to find what the first one has brought. Whoever has a turn copies that one
    /// column and waits for no other.
    pub(super) fn turn(&self, gpu: &Gpu, column: &Column<'_>, form: Form) -> Option<Turn<'_>> {
        let mut inner = self.locked();
        if column.owner().is_none() || column.is_empty() || inner.limit(gpu) == 0 {
            return None;
        }
        let key = Key::of(column, form);
        while inner.turns.iter().any(|(_, other)| *other == key) {
            inner = self.1.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        let number = inner.next_turn;
        inner.next_turn += 1;
        inner.turns.push((number, key));
        Some(Turn { cache: self, number })
    }

    /// Keeps a copy that `queue` has been given all of, where the column has an owner and there is room;
    /// gives whether it did.
    pub(super) fn keep(&self, queue: &Queue, column: &Column<'_>, form: Form, stored: &Arc<Stored>) -> Result<bool> {
        let Some(owner) = column.owner() else { return Ok(false) };
        let (gpu, bytes) = (queue.gpu(), stored.bytes());
        let limit = self.locked().limit(gpu);
        if bytes == 0 || bytes > limit {
            return Ok(false);
        }
        let ready = queue.stream().record_event(None).map_err(|e| driver(gpu, "recording an event", e))?;
        let key = Key::of(column, form);
        let dropped = {
            let mut inner = self.locked();
            if inner.entries.contains_key(&key) {
                // Another query was quicker.
                return Ok(false);
            }
            let dropped = inner.shrink(limit - bytes);
            let (used, use_number) = (Instant::now(), inner.next_use());
            inner.entries.insert(key, Entry { stored: stored.clone(), ready, bytes, used, use_number, _owner: owner.clone() });
            inner.bytes += bytes;
            if !std::mem::replace(&mut inner.watched, true) {
                std::thread::spawn(|| gpu.cache.watch());
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

impl Inner {
    fn limit(&self, gpu: &Gpu) -> u64 {
        let asked = || std::env::var(LIMIT).ok().and_then(|bytes| bytes.trim().parse().ok());
        self.limit.or_else(asked).unwrap_or_else(|| gpu.total_memory() / SHARE)
    }

    /// Takes out those used longest ago until no more than `most` bytes are left. They are to be dropped when the
    /// lock is free again: an owner's end may be anything.
    fn shrink(&mut self, most: u64) -> Vec<Entry> {
        let mut dropped = vec![];
        while self.bytes > most {
            let Some(oldest) = self.entries.values().map(|e| e.use_number).min() else { break };
            dropped.extend(self.take_out(|e| e.use_number == oldest));
        }
        dropped
    }

    fn take_out(&mut self, which: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        let out: Vec<Entry> = self.entries.extract_if(|_, e| which(e)).map(|(_, e)| e).collect();
        self.bytes -= out.iter().map(|e| e.bytes).sum::<u64>();
        out
    }

    /// The number of a use, from 1 on.
    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }
}
