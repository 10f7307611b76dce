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

use super::device::Gpu;
use super::error::driver;
use super::queue::Queue;
use crate::error::{Error, Result};
use cudarc::driver::{CudaEvent, DevicePtr, DevicePtrMut, DeviceRepr, DriverError, result};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes of a slot, and of a piece: as many rows for each type as make a multiple of 64.
pub const PIECE: usize = 4 << 20;

/// Threads that copy: as many as it takes to keep the bus busy (6 reach 49 GB/s, 8 and more 52).
const MOST_THREADS: usize = 8;

/// Slots that wait for the next upload, at most: those of one; 64 MiB.
const MOST_SLOTS: usize = 2 * MOST_THREADS;

/// Less goes without slots.
const SMALL: usize = 256 << 10;

/// A pinned buffer.
struct Slot {
    memory: *mut u8,
    /// When the bus has done with it.
    sent: CudaEvent,
}

// SAFETY: the memory is the slot's own, and the driver's calls are made from any thread.
unsafe impl Send for Slot {}

impl Drop for Slot {
    fn drop(&mut self) {
        let context = self.sent.context().clone();
        context.record_err(self.sent.synchronize());
        // SAFETY: allocated by `malloc_host`, and nothing reads it any more.
        context.record_err(unsafe { result::free_host(self.memory.cast()) });
    }
}

/// The slots of a GPU that no upload uses.
#[derive(Default)]
pub struct Slots(Mutex<Vec<Slot>>);

impl Slots {
    fn take(&self, gpu: &Gpu) -> std::result::Result<Slot, DriverError> {
        if let Some(slot) = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(slot);
        }
        let sent = gpu.context.new_event(None)?;
        // SAFETY: a new allocation, freed by the slot. The context is bound by the line before.
        let memory = unsafe { result::malloc_host(PIECE, 0) }?.cast();
        Ok(Slot { memory, sent })
    }

    fn give_back(&self, slot: Slot) {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() < MOST_SLOTS {
            slots.push(slot);
        }
    }
}

impl Queue {
    /// Writes `bytes` bytes to the beginning of `out`: `fill(offset, piece)` writes those from
    /// `offset` on to `piece`, from several threads at once and in no order. Offsets are multiples of
    /// [`PIECE`]. What `fill` reads may be dropped when this returns; the GPU has it when the queue
    /// comes there.
    ///
    /// # Errors
    /// [`Error::Device`], and [`Error::Memory`] for host memory that can't be pinned.
    pub fn upload<T: DeviceRepr>(
        &self,
        out: &mut impl DevicePtrMut<T>,
        bytes: usize,
        fill: &(dyn Fn(usize, &mut [u8]) + Sync),
    ) -> Result<()> {
        assert!(bytes <= out.num_bytes(), "{bytes} bytes for room of {}", out.num_bytes());
        let failed = |e: DriverError| match e.0 {
            cudarc::driver::sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => Error::Memory("the host has none left that can be pinned".into()),
            _ => driver(self.gpu(), "copying to the GPU", e),
        };
        self.gpu().context.bind_to_thread().map_err(failed)?;
        let (target, _order) = out.device_ptr_mut(self.stream());
        if bytes <= SMALL {
            let mut small = vec![0; bytes];
            fill(0, &mut small);
            if bytes > 0 {
                // SAFETY: `target` has room; from pageable memory the driver returns when it has read it.
                unsafe { result::memcpy_htod_async(target, &small, self.stream().cu_stream()) }.map_err(failed)?;
            }
            return Ok(());
        }
        let pieces = bytes.div_ceil(PIECE);
        let next = AtomicUsize::new(0);
        let copy = || -> std::result::Result<(), DriverError> {
            self.gpu().context.bind_to_thread()?;
            let mut slots: [Option<Slot>; 2] = [None, None];
            let mut sent = || {
                for turn in 0.. {
                    let piece = next.fetch_add(1, Ordering::Relaxed);
                    if piece >= pieces {
                        break;
                    }
                    let slot = &mut slots[turn % 2];
                    if slot.is_none() {
                        *slot = Some(self.gpu().slots.take(self.gpu())?);
                    }
                    let Some(slot) = slot else { break };
                    slot.sent.synchronize()?;
                    let (from, len) = (piece * PIECE, PIECE.min(bytes - piece * PIECE));
                    // SAFETY: the slot's memory is PIECE bytes that nobody else uses: it was taken from the
                    // others, and what it held before has been sent.
                    let memory = unsafe { std::slice::from_raw_parts_mut(slot.memory, len) };
                    fill(from, memory);
                    // SAFETY: `target` has room for all bytes, and the memory stays until `sent`.
                    unsafe { result::memcpy_htod_async(target + from as u64, &*memory, self.stream().cu_stream()) }?;
                    slot.sent.record(self.stream())?;
                }
                Ok(())
            };
            let done = sent();
            slots.into_iter().flatten().for_each(|slot| self.gpu().slots.give_back(slot));
            done
        };
        // Threads of their own: rayon's could pick up another query's work while this one waits.
        let threads = rayon::current_num_threads().min(MOST_THREADS).min(pieces);
        let results = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(&copy)).collect();
            let own = copy();
            others.into_iter().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).chain([own]).collect::<Vec<_>>()
        });
        results.into_iter().collect::<std::result::Result<(), _>>().map_err(failed)
    }

    /// Writes the first `out.len()` bytes of `from` to `out`, when what was queued before has run, by the
    /// same pinned buffers the other way.
    ///
    /// # Errors
    /// [`Error::Device`], and [`Error::Memory`] for host memory that can't be pinned.
    pub fn download<T: DeviceRepr>(&self, from: &impl DevicePtr<T>, out: &mut [u8]) -> Result<()> {
        assert!(out.len() <= from.num_bytes(), "{} bytes of {}", out.len(), from.num_bytes());
        let failed = |e: DriverError| driver(self.gpu(), "copying from the GPU", e);
        self.gpu().context.bind_to_thread().map_err(failed)?;
        let (source, _order) = from.device_ptr(self.stream());
        let count = out.len().div_ceil(PIECE);
        let pieces = Mutex::new(out.chunks_mut(PIECE).enumerate());
        let copy = || -> std::result::Result<(), DriverError> {
            self.gpu().context.bind_to_thread()?;
            let mut waiting: VecDeque<(Slot, &mut [u8])> = VecDeque::new();
            let finish = |(slot, piece): (Slot, &mut [u8])| -> std::result::Result<(), DriverError> {
                slot.sent.synchronize()?;
                // SAFETY: the slot's memory is PIECE bytes that nobody else uses, and the copy into it is done.
                piece.copy_from_slice(unsafe { std::slice::from_raw_parts(slot.memory, piece.len()) });
                self.gpu().slots.give_back(slot);
                Ok(())
            };
            loop {
                let Some((i, piece)) = pieces.lock().unwrap_or_else(PoisonError::into_inner).next() else { break };
                let slot = self.gpu().slots.take(self.gpu())?;
                slot.sent.synchronize()?;
                // SAFETY: as above; the source has the bytes, and the memory stays until `sent`.
                let memory = unsafe { std::slice::from_raw_parts_mut(slot.memory, piece.len()) };
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
        let threads = rayon::current_num_threads().min(MOST_THREADS).min(count);
        let results = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(&copy)).collect();
            let own = copy();
            others.into_iter().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).chain([own]).collect::<Vec<_>>()
        });
        results.into_iter().collect::<std::result::Result<(), _>>().map_err(failed)
    }
}
