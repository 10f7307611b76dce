//! Histograms of a shard's own rows, which other GPUs read, apart from those of all shards: of trees that grow whole on the device, in turns,
//! so that those of a tree stay while the next one grows.

use super::buffers::Buffer;
use crate::runtime::Queue;
use taiga_core::error::Result;

/// The histograms of two trees.
#[derive(Default)]
pub struct OwnHistograms {
    buffers: [Option<Buffer<i64>>; 2],
    /// How many slots of each are zero when what is queued has run.
    clear: [usize; 2],
    turn: usize,
    /// Whether rows are summed there.
    active: bool,
}

impl OwnHistograms {
    /// Makes room for so many numbers in each turn.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn reserve(&mut self, queue: &Queue, numbers: usize) -> Result<()> {
        for (buffer, clear) in self.buffers.iter_mut().zip(&mut self.clear) {
            if buffer.as_ref().is_none_or(|b| b.slice.len() < numbers) {
                (*buffer, *clear) = (Some(Buffer::new(queue, "histograms", numbers)?), 0);
            }
        }
        Ok(())
    }

    /// Returns where they are, in each turn.
    pub fn addresses(&self) -> [u64; 2] {
        self.buffers.each_ref().map(|b| b.as_ref().map_or(0, |b| b.address))
    }

    /// Returns the turn of the tree that is launched.
    pub fn turn(&self) -> usize {
        self.turn
    }

    /// Begins a tree whose rows are summed here, in the next turn.
    pub fn begin(&mut self) {
        (self.active, self.turn) = (true, 1 - self.turn);
    }

    /// Ends its launches.
    pub fn end(&mut self) {
        self.active = false;
    }

    /// Returns where rows are summed, while that is here.
    pub fn summed(&self) -> Option<u64> {
        self.active.then(|| self.addresses()[self.turn])
    }

    /// Sets the first slots of the tree to zero, which have so many numbers, where the tree before has not done so.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn clear_first(&mut self, queue: &Queue, slots: usize, numbers: usize) -> Result<()> {
        match &mut self.buffers[self.turn] {
            Some(own) if self.clear[self.turn] < slots => queue.clear(&mut own.slice.slice_mut(..numbers)),
            _ => Ok(()),
        }
    }

    /// Returns the address of the slots of the tree before, which nobody reads any more and a kernel now sets to zero.
    pub fn clear_behind(&mut self, slots: usize) -> u64 {
        let before = 1 - self.turn;
        (self.clear[self.turn], self.clear[before]) = (0, slots);
        self.addresses()[before]
    }
}
