//! From borrowed host memory to the GPU.
//!
//! Memory that the driver has not pinned goes over the bus at 9 GB/s, pinned memory at 55 (H200,
//! PCIe 5). Pinning somebody else's buffer costs more than it gains, so several threads copy into a
//! few pinned buffers while others of them are on their way:
//!
//! ```text
//! column's chunks ─► thread 1 ─► slot a │ slot b ─┐
//!                    thread 2 ─► slot c │ slot d ─┼─► bus ─► device
//!                    thread t ─► …               ─┘
//! ```

use super::column::bytes_of;
use super::device::Gpu;
use super::error::driver;
use super::memory::granted;
use super::queue::Queue;
use cudarc::driver::{CudaEvent, CudaSlice, DevicePtr, DevicePtrMut, DeviceRepr, DriverError, result};
use std::cell::Cell;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use taiga_core::error::{Error, Result};

/// Bytes of a slot, and of a piece: as many rows for each type as make a multiple of 64.
pub const PIECE: usize = 4 << 20;

/// Threads that copy: as many as it takes to keep the bus busy (6 reach 49 GB/s, 8 and more 52).
pub(crate) const MOST_THREADS: usize = 16;

/// Slots that wait for the next upload, at most: those of one; 128 MiB.
const MOST_SLOTS: usize = 2 * MOST_THREADS;

/// The share of the host's free memory that waiting slots take at most, looked at anew whenever one is pinned and while they wait.
const SHARE: u64 = 64;

/// How long a slot waits that nobody uses.
const KEPT: Duration = Duration::from_secs(60);

/// So much and less goes without slots.
pub(crate) const SMALL: usize = 256 << 10;

thread_local! {
    /// Threads that copy for this one; none: as many as the rayon pool has that it is in.
    static COPIERS: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Sets how many threads copy for this one, which is in no rayon pool.
pub(crate) fn set_copiers(threads: usize) {
    COPIERS.set(Some(threads.max(1)));
}

/// How many threads may copy, or hash, for this one.
pub(crate) fn copiers() -> usize {
    COPIERS.get().unwrap_or_else(rayon::current_num_threads)
}

/// A pinned buffer.
struct PinnedSlot {
    memory: *mut u8,
    /// When the bus has done with it.
    sent: CudaEvent,
}

// SAFETY: the memory is the slot's own, and the driver's calls are made from any thread.
unsafe impl Send for PinnedSlot {}

impl Drop for PinnedSlot {
    fn drop(&mut self) {
        let context = self.sent.context().clone();
        context.record_err(self.sent.synchronize());
        // SAFETY: allocated by `malloc_host`, and nothing reads it any more.
        context.record_err(unsafe { result::free_host(self.memory.cast()) });
    }
}

/// The slots of a GPU that no upload uses: the only memory of the host that outlives a call on a GPU.
#[derive(Default)]
pub struct PinnedSlots(Mutex<SlotQueue>);

#[derive(Default)]
struct SlotQueue {
    /// The one used last is the last.
    slots: Vec<(PinnedSlot, Instant)>,
    /// How many may wait.
    most: usize,
    watched: bool,
}

/// How many slots may wait, by what the host has free.
fn most_slots() -> usize {
    let share = |free: u64| usize::try_from(free / SHARE / PIECE as u64).unwrap_or(usize::MAX);
    taiga_core::memory::available().map_or(MOST_SLOTS, share).min(MOST_SLOTS)
}

impl PinnedSlots {
    fn locked(&self) -> MutexGuard<'_, SlotQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, gpu: &Gpu) -> std::result::Result<PinnedSlot, DriverError> {
        if let Some((slot, _)) = self.locked().slots.pop() {
            return Ok(slot);
        }
        granted()?;
        let most = most_slots();
        self.locked().most = most;
        let sent = gpu.context.new_event(None)?;
        // SAFETY: a new allocation, freed by the slot. The context is bound by the line before.
        let memory = unsafe { result::malloc_host(PIECE, 0) }?.cast();
        Ok(PinnedSlot { memory, sent })
    }

    /// Keeps a slot of `gpu` for the next upload, where there may be one more.
    fn give_back(gpu: &'static Gpu, slot: PinnedSlot) {
        let mut waiting = gpu.slots.locked();
        if waiting.slots.len() < waiting.most {
            waiting.slots.push((slot, Instant::now()));
            if !waiting.watched {
                // Where there is no thread to be had they stay.
                waiting.watched = std::thread::Builder::new().name("taiga-pinned".into()).spawn(|| gpu.slots.watch()).is_ok();
            }
        } else {
            // The driver may be waited for.
            drop(waiting);
            drop(slot);
        }
    }

    /// Frees all that wait.
    pub(crate) fn clear(&self) {
        let slots = std::mem::take(&mut self.locked().slots);
        drop(slots);
    }

    /// Frees slots when their time is over, or when the host has become short of memory, until there are none.
    fn watch(&self) {
        loop {
            std::thread::sleep(KEPT / 6);
            let most = most_slots();
            let mut waiting = self.locked();
            waiting.most = most;
            let over = waiting.slots.iter().filter(|(_, since)| since.elapsed() >= KEPT).count();
            // The first ones have waited longest.
            let over = over.max(waiting.slots.len().saturating_sub(most));
            let freed: Vec<(PinnedSlot, Instant)> = waiting.slots.drain(..over).collect();
            waiting.watched = !waiting.slots.is_empty();
            let done = !waiting.watched;
            drop(waiting);
            drop(freed);
            if done {
                return;
            }
        }
    }
}

/// Host memory on its way to the GPU.
pub struct Upload<'a> {
    /// Where it goes: a device pointer with room for `bytes`.
    pub(crate) to: u64,
    pub(crate) bytes: usize,
    /// `fill(offset, piece)` writes the bytes from `offset` on to `piece`.
    pub(crate) fill: Fill<'a>,
}

/// See [`Queue::upload`].
pub type Fill<'a> = Box<dyn Fn(usize, &mut [u8]) + Sync + 'a>;

impl Queue {
    /// Writes `bytes` bytes to the beginning of `out`: `fill(offset, piece)` writes those from
    /// `offset` on to `piece`, from several threads at once and in no order. Offsets are multiples of
    /// [`PIECE`]. What `fill` reads may be dropped when this returns; the GPU has it when the queue
    /// comes there.
    ///
    /// # Errors
    /// [`Error::Device`], also for host memory that can't be pinned.
    pub fn upload<T: DeviceRepr>(
        &self,
        out: &mut impl DevicePtrMut<T>,
        bytes: usize,
        fill: &(dyn Fn(usize, &mut [u8]) + Sync),
    ) -> Result<()> {
        assert!(bytes <= out.num_bytes(), "{bytes} bytes for room of {}", out.num_bytes());
        let (to, _order) = out.device_ptr_mut(self.stream());
        let fill = Box::new(|offset: usize, piece: &mut [u8]| fill(offset, piece));
        self.upload_each(&[Upload { to, bytes, fill }], &mut |_| Ok(()))
    }

    /// A small upload, from this thread.
    fn upload_small(&self, upload: &Upload<'_>) -> Result<()> {
        let mut small = vec![0; upload.bytes];
        (upload.fill)(0, &mut small);
        if upload.bytes > 0 {
            let failed = |e| driver(self.gpu(), "copying to the GPU", e);
            self.gpu().context.bind_to_thread().map_err(failed)?;
            // SAFETY: there is room; from pageable memory the driver returns when it has read it.
            unsafe { result::memcpy_htod_async(upload.to, &small, self.stream().cu_stream()) }.map_err(failed)?;
        }
        Ok(())
    }

    /// Carries out several uploads, one after the other without a pause, and calls `sent(i)` when all of upload
    /// `i` is queued: what is queued behind it by then finds it there.
    ///
    /// # Errors
    /// Those of [`Queue::upload`], and of `sent`.
    pub(crate) fn upload_each(&self, uploads: &[Upload<'_>], sent: &mut dyn FnMut(usize) -> Result<()>) -> Result<()> {
        if uploads.iter().map(|u| u.bytes).sum::<usize>() <= SMALL {
            return uploads.iter().enumerate().try_for_each(|(i, upload)| self.upload_small(upload).and_then(|()| sent(i)));
        }
        let failed = |e: DriverError| match e.0 {
            cudarc::driver::sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                Error::device_memory(self.gpu().number(), "the host has none left that can be pinned")
            }
            _ => driver(self.gpu(), "copying to the GPU", e),
        };
        let pieces: Vec<(usize, usize)> =
            uploads.iter().enumerate().flat_map(|(i, u)| (0..u.bytes).step_by(PIECE).map(move |from| (i, from))).collect();
        let left: Vec<AtomicUsize> = uploads.iter().map(|u| AtomicUsize::new(u.bytes.div_ceil(PIECE))).collect();
        let next = AtomicUsize::new(0);
        let (done, queued) = std::sync::mpsc::channel();
        let copy = |done: std::sync::mpsc::Sender<usize>| -> std::result::Result<(), DriverError> {
            self.gpu().context.bind_to_thread()?;
            let mut slots: [Option<PinnedSlot>; 2] = [None, None];
            let mut send = || {
                for turn in 0.. {
                    let Some((i, from)) = pieces.get(next.fetch_add(1, Ordering::Relaxed)).copied() else { break };
                    let slot = &mut slots[turn % 2];
                    if slot.is_none() {
                        *slot = Some(self.gpu().slots.take(self.gpu())?);
                    }
                    let Some(slot) = slot else { break };
                    slot.sent.synchronize()?;
                    let upload = &uploads[i];
                    // SAFETY: the slot's memory is PIECE bytes that nobody else uses: it was taken from the
                    // others, and what it held before has been sent.
                    let memory = unsafe { std::slice::from_raw_parts_mut(slot.memory, PIECE.min(upload.bytes - from)) };
                    (upload.fill)(from, memory);
                    // SAFETY: there is room for all bytes, and the memory stays until `sent`.
                    unsafe { result::memcpy_htod_async(upload.to + from as u64, &*memory, self.stream().cu_stream()) }?;
                    slot.sent.record(self.stream())?;
                    if left[i].fetch_sub(1, Ordering::AcqRel) == 1 {
                        // Nobody listens any more where `sent` has failed.
                        let _ = done.send(i);
                    }
                }
                Ok(())
            };
            let result = send();
            slots.into_iter().flatten().for_each(|slot| PinnedSlots::give_back(self.gpu(), slot));
            result
        };
        // Threads of their own: rayon's could pick up another query's work while this one waits.
        let threads = copiers().min(MOST_THREADS).min(pieces.len());
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|_| {
                    let done = done.clone();
                    scope.spawn(|| copy(done))
                })
                .collect();
            drop(done);
            let mut result = uploads.iter().enumerate().filter(|(_, u)| u.bytes == 0).try_for_each(|(i, _)| sent(i));
            for i in queued {
                result = result.and_then(|()| sent(i));
            }
            for worker in workers {
                let copied = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                result = result.and(copied.map_err(failed));
            }
            result
        })
    }

    /// At most [`PIECE`] bytes of values, by a pinned buffer: the copy is queued at once, where one to other memory
    /// would wait for its turn before it is.
    pub(crate) fn read_piece<T: DeviceRepr>(&self, from: &impl DevicePtr<T>) -> Result<Vec<T>> {
        let bytes = from.num_bytes();
        assert!(bytes <= PIECE, "{bytes} bytes in one piece");
        let failed = |e: DriverError| driver(self.gpu(), "copying from the GPU", e);
        self.gpu().context.bind_to_thread().map_err(failed)?;
        let slot = self.gpu().slots.take(self.gpu()).map_err(failed)?;
        slot.sent.synchronize().map_err(failed)?;
        let (source, _order) = from.device_ptr(self.stream());
        // SAFETY: the slot's memory is PIECE bytes that nobody else uses.
        let memory = unsafe { std::slice::from_raw_parts_mut(slot.memory, bytes) };
        // SAFETY: the source has the bytes, and the slot is given back when they are there.
        unsafe { result::memcpy_dtoh_async(memory, source, self.stream().cu_stream()) }.map_err(failed)?;
        self.synchronize()?;
        let mut out = Vec::<T>::with_capacity(from.len());
        // SAFETY: there is room for as many values, and `DeviceRepr` types are what the device's bytes say.
        unsafe {
            std::ptr::copy_nonoverlapping(memory.as_ptr(), out.as_mut_ptr().cast(), bytes);
            out.set_len(from.len());
        }
        PinnedSlots::give_back(self.gpu(), slot);
        Ok(out)
    }

    /// Writes the first `out.len()` bytes of `from` to `out`, when what was queued before has run, by the
    /// same pinned buffers the other way.
    ///
    /// # Errors
    /// [`Error::Device`], also for host memory that can't be pinned.
    pub fn download<T: DeviceRepr>(&self, from: &impl DevicePtr<T>, out: &mut [u8]) -> Result<()> {
        let length = out.len();
        // SAFETY: the bytes are there, and nothing but values is written to them.
        let out = unsafe { std::slice::from_raw_parts_mut(out.as_mut_ptr().cast(), length) };
        self.download_parts(from, [out])
    }

    /// Appends `n` values to each of several vectors, which follow one another in `from`, by [`Queue::download_parts`].
    ///
    /// # Errors
    /// As there; then some are as they were.
    pub fn append_parts<'a, T: DeviceRepr + 'a>(
        &self,
        from: &impl DevicePtr<T>,
        n: usize,
        outs: impl IntoIterator<Item = &'a mut Vec<T>>,
    ) -> Result<()> {
        let mut outs: Vec<&mut Vec<T>> = outs.into_iter().collect();
        outs.iter_mut().for_each(|out| out.reserve(n));
        self.download_parts(from, outs.iter_mut().map(|out| uninit_bytes(&mut out.spare_capacity_mut()[..n])))?;
        for out in outs {
            // SAFETY: there is room for as many values, which were written, and `DeviceRepr` types are what the device's bytes say.
            unsafe { out.set_len(out.len() + n) };
        }
        Ok(())
    }

    /// Writes what follows one another in `from` to all of several buffers, as [`Queue::download`] writes it to one.
    ///
    /// # Errors
    /// As there.
    fn download_parts<'a, T: DeviceRepr>(
        &self,
        from: &impl DevicePtr<T>,
        outs: impl IntoIterator<Item = &'a mut [MaybeUninit<u8>]>,
    ) -> Result<()> {
        let (pieces, bytes) = pieces_of(outs);
        assert!(bytes <= from.num_bytes(), "{bytes} bytes of {}", from.num_bytes());
        let failed = |e: DriverError| driver(self.gpu(), "copying from the GPU", e);
        self.gpu().context.bind_to_thread().map_err(failed)?;
        let (source, _order) = from.device_ptr(self.stream());
        let count = pieces.len();
        let pieces = Mutex::new(pieces.into_iter().enumerate());
        let copy = || -> std::result::Result<(), DriverError> {
            self.gpu().context.bind_to_thread()?;
            let mut waiting: VecDeque<(PinnedSlot, Piece<'_>)> = VecDeque::new();
            let finish = |(slot, piece): (PinnedSlot, Piece<'_>)| -> std::result::Result<(), DriverError> {
                slot.sent.synchronize()?;
                let mut at = 0;
                for out in piece {
                    // SAFETY: the slot's memory is PIECE bytes that nobody else uses, no less than those of the piece, and the copy into
                    // it is done.
                    unsafe { std::ptr::copy_nonoverlapping(slot.memory.add(at), out.as_mut_ptr().cast(), out.len()) };
                    at += out.len();
                }
                PinnedSlots::give_back(self.gpu(), slot);
                Ok(())
            };
            loop {
                let Some((i, piece)) = pieces.lock().unwrap_or_else(PoisonError::into_inner).next() else { break };
                let slot = self.gpu().slots.take(self.gpu())?;
                slot.sent.synchronize()?;
                // SAFETY: as above; the source has the bytes, and the memory stays until `sent`.
                let memory = unsafe { std::slice::from_raw_parts_mut(slot.memory, length(&piece)) };
                // SAFETY: as above.
                unsafe { result::memcpy_dtoh_async(memory, source + (i * PIECE) as u64, self.stream().cu_stream()) }?;
                slot.sent.record(self.stream())?;
                waiting.push_back((slot, piece));
                if waiting.len() == 2
                    && let Some(first) = waiting.pop_front()
                {
                    finish(first)?;
                }
            }
            waiting.into_iter().try_for_each(finish)
        };
        let threads = copiers().min(MOST_THREADS).min(count);
        let results = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(copy)).collect();
            let own = copy();
            others.into_iter().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).chain([own]).collect::<Vec<_>>()
        });
        results.into_iter().collect::<std::result::Result<(), _>>().map_err(failed)
    }
}

/// Buffers whose bytes come in one copy.
type Piece<'a> = Vec<&'a mut [MaybeUninit<u8>]>;

/// The bytes of a piece.
fn length(piece: &Piece<'_>) -> usize {
    piece.iter().map(|out| out.len()).sum()
}

/// The bytes of values that are not there yet.
fn uninit_bytes<T: DeviceRepr>(values: &mut [MaybeUninit<T>]) -> &mut [MaybeUninit<u8>] {
    let bytes = size_of_val(values);
    // SAFETY: the memory is that of the values, and of a byte nothing is asked.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), bytes) }
}

/// Cuts buffers that follow one another into pieces of [`PIECE`] bytes, the last of what is left; and their bytes together.
fn pieces_of<'a>(outs: impl IntoIterator<Item = &'a mut [MaybeUninit<u8>]>) -> (Vec<Piece<'a>>, usize) {
    let (mut pieces, mut bytes): (Vec<Piece<'_>>, usize) = (vec![], 0);
    for mut out in outs {
        while !out.is_empty() {
            let room = PIECE - bytes % PIECE;
            let (own, rest) = out.split_at_mut(room.min(out.len()));
            if room == PIECE {
                pieces.push(vec![]);
            }
            bytes += own.len();
            pieces.last_mut().expect("a piece was begun").push(own);
            out = rest;
        }
    }
    (pieces, bytes)
}

/// Copies many values to the GPU.
pub(crate) fn upload<T: DeviceRepr + Copy + Sync>(queue: &Queue, what: &str, values: &[T]) -> Result<CudaSlice<T>> {
    let mut slice = queue.alloc::<T>(what, values.len())?;
    let bytes = bytes_of(values);
    queue.upload(&mut slice, bytes.len(), &|from, out| out.copy_from_slice(&bytes[from..from + out.len()]))?;
    Ok(slice)
}
