//! A GPU's share of the rows of an encoding, and the sums of all shares.

use super::TARGET_ENCODE;
use super::statistic::{SumForm, named};
use crate::launch;
use crate::runtime::Queue;
use crate::runtime::memory::pointer;
use crate::runtime::queue::each_row;
use crate::runtime::shard_threads::ShardEnd;
use crate::runtime::upload::upload;
use cudarc::driver::CudaSlice;
use std::ops::Range;
use taiga_core::collective::Collective;
use taiga_core::error::{Error, Result};

/// Rows of an encoding, all of which are on this GPU, or the others on other GPUs.
pub(crate) struct Share<'a> {
    rows: Range<usize>,
    all: usize,
    /// This GPU's end of what it exchanges with those that have the other rows.
    others: Option<&'a ShardEnd>,
    /// Whether it reads the others' memory.
    reads_others: bool,
}

/// The error where a GPU sums by other categories or folds.
fn other_cells(rank: usize) -> Error {
    Error::Data(format!("GPU {rank} of an encoding has sums of other cells"))
}

impl<'a> Share<'a> {
    /// Has all rows.
    pub(crate) fn whole(rows: usize) -> Self {
        Share { rows: 0..rows, all: rows, others: None, reads_others: false }
    }

    /// Has `rows` of all. `reads_others`: whether GPUs read each other's memory.
    pub(crate) fn of(rows: Range<usize>, all: usize, others: &'a ShardEnd, reads_others: bool) -> Self {
        Share { rows, all, others: Some(others), reads_others }
    }

    pub(crate) fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// The number of rows that all shares have together.
    pub(crate) fn all(&self) -> usize {
        self.all
    }

    /// Adds the others' sums to this share's.
    ///
    /// # Errors
    /// Where another GPU has failed.
    pub(super) fn add(&self, own: [i128; 3]) -> Result<[i128; 3]> {
        let Some(others) = self.others else { return Ok(own) };
        let bytes: Vec<u8> = own.iter().flat_map(|sum| sum.to_ne_bytes()).collect();
        let mut all = [0; 3];
        for of_share in others.gather_bytes(&bytes)? {
            let sums = of_share.as_chunks::<16>().0.iter().map(|b| i128::from_ne_bytes(*b));
            all.iter_mut().zip(sums).for_each(|(all, sum)| *all += sum);
        }
        Ok(all)
    }

    /// Adds the others' sums of `cells` cells to this share's, which are on its GPU: it reads them there, or they go through the host.
    ///
    /// # Errors
    /// [`Error::Device`], and where another GPU has failed.
    pub(super) fn add_cells(&self, queue: &Queue, form: SumForm, cells: usize, sums: &mut CudaSlice<u8>) -> Result<()> {
        let Some(others) = self.others else { return Ok(()) };
        let (kernel, n) = (queue.gpu().kernel(TARGET_ENCODE, named!("add_sums", form))?, cells as u64);
        if self.reads_others {
            let mut all = queue.alloc::<u8>("the sums of categories", sums.len())?;
            queue.copy(&*sums, &mut all)?;
            queue.synchronize()?;
            let of_each = others.gather_bytes(&[n, pointer(queue, sums)].map(u64::to_ne_bytes).concat())?;
            for (rank, bytes) in of_each.iter().enumerate().filter(|(rank, _)| *rank != others.rank()) {
                let [count, more] = *bytes.as_chunks::<8>().0 else { return Err(other_cells(rank)) };
                if u64::from_ne_bytes(count) != n {
                    return Err(other_cells(rank));
                }
                let more = u64::from_ne_bytes(more);
                // SAFETY: the arguments are those of `add_sums_*`: both have a sum for each cell, and the other GPU keeps its own until all have met below.
                unsafe { launch!(queue, kernel, each_row(queue, cells); &n, &more, &mut all) }?;
            }
            queue.synchronize()?;
            others.max(&mut [0])?;
            *sums = all;
            return Ok(());
        }
        let mut own = queue.read(sums)?;
        own.truncate(cells * form.bytes());
        for (rank, bytes) in others.gather_bytes(&own)?.iter().enumerate().filter(|(rank, _)| *rank != others.rank()) {
            if bytes.len() != own.len() {
                return Err(other_cells(rank));
            }
            let more = upload(queue, "the sums of categories", bytes)?;
            // SAFETY: the arguments are those of `add_sums_*`: both have a sum for each cell.
            unsafe { launch!(queue, kernel, each_row(queue, cells); &n, &more, &mut *sums) }?;
        }
        Ok(())
    }
}
