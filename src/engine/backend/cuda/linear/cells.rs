//! Rows and features cut into cells, so that what is gathered and what is summed both fit a multiprocessor's shared memory.
//!
//! ```text
//!            tile 0   tile 1   …            an entry: row and feature inside the cell, 16 bits each, as offsets of numbers
//! block 0  │ cell 0 │ cell 1 │              scores:   a block's cells from left to right, sums of rows
//! block 1  │ cell t │ …                     gradient: a tile's cells from top to bottom, sums of features
//! ```
//!
//! Made once on the device: blocks of rows go up as lists, and CUB's radix sort brings them to their cells; a second one orders
//! a cell's entries so that a warp's 32 rows, and its 32 features, are mostly in 32 banks of shared memory.

use super::lists::{Block, rows_of};
use super::{LINEAR, address};
use crate::backend::cuda::device::Gpu;
use crate::backend::cuda::queue::{Queue, grid};
use crate::boosting::Monitor;
use crate::error::{Error, Result};
use crate::launch;
use crate::linear::csr::Csr;
use cudarc::driver::{CudaSlice, DeviceRepr};

/// Numbers that are kept for a cell's side, of which the last four are of nobody, and the threads that work on it: twins of
/// `SIDE` and `CELL_THREADS`.
const SIDE: usize = 16_384;
const THREADS: u32 = 1024;

/// The most rows or features of a cell.
const MOST: usize = SIDE - 4;

/// Shared memory of a block of threads: sums in two words, and the cell's numbers.
const SHARED: u32 = 3 * 4 * SIDE as u32;

/// Entries of a cell, on average, from which on cells pay.
const FEW: usize = 2048;

/// What a cell costs beside its entries, in entries.
const OF_CELL: u64 = 2500;

/// Entries that are sorted at a time, and cells.
const SORTED: usize = 1 << 26;
const CELLS: usize = 1 << (u32::BITS - BANKS_BITS - TURN_BITS);

/// Bits of the banks of an entry's row and feature, and of its turn among those of the same banks.
const BANKS_BITS: u32 = 10;
const TURN_BITS: u32 = 8;

/// How rows and features are cut.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    blocks: usize,
    tiles: usize,
    /// Rows of a block, and features of a tile: multiples of 4.
    height: usize,
    width: usize,
    threads: usize,
}

impl Grid {
    /// Cells for so many rows, features and entries; none where they would not pay, or the GPU has not the shared memory.
    pub fn new(gpu: &Gpu, rows: usize, features: usize, entries: usize) -> Option<Grid> {
        let threads = gpu.multiprocessors() as usize;
        if rows == 0 || gpu.shared_per_block() < SHARED {
            return None;
        }
        // As many blocks for each multiprocessor.
        let waves = rows.div_ceil(MOST * threads);
        let height = rows.div_ceil(waves * threads).next_multiple_of(4);
        let tiles = features.div_ceil(MOST).max(1);
        let grid = Grid { blocks: rows.div_ceil(height), tiles, height, width: features.div_ceil(tiles).next_multiple_of(4), threads };
        (tiles <= CELLS && entries / FEW >= grid.cells()).then_some(grid)
    }

    fn cells(&self) -> usize {
        self.blocks * self.tiles
    }

    /// Rows, those behind the last one included.
    pub fn rows(&self) -> usize {
        self.blocks * self.height
    }

    /// Features, likewise.
    pub fn features(&self) -> usize {
        self.tiles * self.width
    }

    /// Bytes that are needed while cells are made: lists, and three sets of keys and places; and CUB's own.
    pub fn temporary(&self, csr: &Csr<'_>) -> u64 {
        let most = self.groups(csr).into_iter().map(|g| self.entries(csr, &g)).max().unwrap_or(0);
        (most * 7 * 4 + most / 2 + 32 * self.cells() + 4 * (CELLS << BANKS_BITS) + (16 << 20)) as u64
    }

    /// Blocks of rows that are sorted together.
    fn groups(&self, csr: &Csr<'_>) -> Vec<std::ops::Range<usize>> {
        let (mut groups, mut first) = (vec![], 0);
        while first < self.blocks {
            let rows = rows_of(csr, first * self.height, SORTED);
            let end = if rows.end == csr.rows() { self.blocks } else { rows.end / self.height };
            let end = end.clamp(first + 1, first + (CELLS / self.tiles).max(1));
            groups.push(first..end);
            first = end;
        }
        groups
    }

    /// The rows of blocks.
    fn rows_of(&self, csr: &Csr<'_>, blocks: &std::ops::Range<usize>) -> std::ops::Range<usize> {
        blocks.start * self.height..csr.rows().min(blocks.end * self.height)
    }

    fn entries(&self, csr: &Csr<'_>, blocks: &std::ops::Range<usize>) -> usize {
        let rows = self.rows_of(csr, blocks);
        csr.entries_before(rows.end) - csr.entries_before(rows.start)
    }
}

/// Twin of `Cells`: addresses and numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Raw {
    entries: u64,
    quads: u64,
    ranges: u64,
    blocks: u32,
    tiles: u32,
    height: u32,
    width: u32,
}

// SAFETY: plain numbers in C's layout, which is the kernels' own.
unsafe impl DeviceRepr for Raw {}

/// Entries in cells.
pub struct Cells {
    pub grid: Grid,
    entries: CudaSlice<u32>,
    /// Where each begins, in fours.
    quads: CudaSlice<u32>,
    /// The cells of each block of threads, by rows and by features.
    by_row: CudaSlice<u32>,
    by_feature: CudaSlice<u32>,
}

impl Cells {
    /// The entries of `csr`, which have no values.
    ///
    /// # Errors
    /// [`Error::Memory`], [`Error::Device`] and [`Error::Interrupted`].
    pub fn new(queue: &Queue, csr: &Csr<'_>, cut: Grid, monitor: &dyn Monitor) -> Result<Cells> {
        let gpu = queue.gpu();
        let groups = cut.groups(csr);
        let most = groups.iter().map(|g| cut.entries(csr, g)).max().unwrap_or(0);
        let most_rows = groups.iter().map(|g| cut.rows_of(csr, g).len()).max().unwrap_or(0);
        // Cells are filled up to whole fours.
        let mut all = queue.alloc::<u32>("entries", csr.entries() + 4 * cut.cells())?;
        let mut block = Block::room(queue, most_rows, most, false)?;
        let room = || queue.alloc::<u32>("cells", most);
        let (mut keys, places, mut sorted, mut turned) = (room()?, room()?, (room()?, room()?), (room()?, room()?));
        let kernel = |name| gpu.kernel(LINEAR, name);
        let (place, bounds, turns, pack) =
            (kernel("linear_place")?, kernel("linear_bounds")?, kernel("linear_turns")?, kernel("linear_pack")?);
        let (tiles, width, height) = (cut.tiles as u32, cut.width as u32, cut.height as u32);
        let mut quads = vec![0u32];
        for group in groups {
            if monitor.interrupted() {
                return Err(Error::Interrupted);
            }
            let n = cut.entries(csr, &group) as u32;
            block.fill(queue, csr, cut.rows_of(csr, &group))?;
            let lists = block.lists(queue, 1);
            let count = (group.len() * cut.tiles) as u32;
            let bits = (u32::BITS - (count - 1).leading_zeros()).max(1);
            let blocks = (n as usize + 1).div_ceil(256).min(gpu.multiprocessors() as usize * 8) as u32;
            let config = grid(blocks, 256, 0);
            let (whole, shift, buckets) = (0u32, BANKS_BITS, count << BANKS_BITS);
            let mut of_bucket = queue.alloc::<u32>("cells", buckets as usize + 1)?;
            let mut starts = queue.alloc::<u32>("cells", count as usize + 1)?;
            // SAFETY: the arguments are those of the kernels; there is room for the entries of a group, and a start for each cell
            // and bucket, and one behind them.
            unsafe {
                launch!(queue, place, lists.eight(); &lists, &tiles, &width, &height, &keys, &places)?;
                queue.sort_pairs(&keys, &places, &mut sorted, n, 0..bits + BANKS_BITS)?;
                launch!(queue, bounds, config; &n, &sorted.0, &whole, &buckets, &mut of_bucket)?;
                launch!(queue, bounds, config; &n, &sorted.0, &shift, &count, &mut starts)?;
                launch!(queue, turns, config; &n, &sorted.0, &of_bucket, &mut keys)?;
            }
            queue.sort_pairs(&keys, &sorted.1, &mut turned, n, 0..bits + BANKS_BITS + TURN_BITS)?;
            let first = quads.len() - 1;
            for cell in queue.read(&starts)?.windows(2) {
                quads.push(quads[quads.len() - 1] + (cell[1] - cell[0]).div_ceil(4));
            }
            let of_group = queue.copy_of("cells", &quads[first..])?;
            // SAFETY: the arguments are those of `linear_pack`; cells lie one behind the other, and no fuller than they are.
            unsafe { launch!(queue, pack, config; &n, &turned.0, &turned.1, &count, &starts, &of_group, &mut all) }?;
        }
        let weight = |cell: usize| 4 * (quads[cell + 1] - quads[cell]) as u64 + OF_CELL;
        let of_block = |b: usize| (b * cut.tiles..(b + 1) * cut.tiles).map(weight).sum();
        let by_row: Vec<u32> = shares(cut.blocks, cut.threads, of_block).into_iter().map(|b| b * cut.tiles as u32).collect();
        let by_feature = shares(cut.cells(), cut.threads, |c| weight(c % cut.blocks * cut.tiles + c / cut.blocks));
        Ok(Cells {
            grid: cut,
            entries: all,
            quads: queue.copy_of("cells", &quads)?,
            by_row: queue.copy_of("cells", &by_row)?,
            by_feature: queue.copy_of("cells", &by_feature)?,
        })
    }

    fn raw(&self, queue: &Queue, ranges: &CudaSlice<u32>) -> Raw {
        let cut = self.grid;
        Raw {
            entries: address(queue, &self.entries),
            quads: address(queue, &self.quads),
            ranges: address(queue, ranges),
            blocks: cut.blocks as u32,
            tiles: cut.tiles as u32,
            height: cut.height as u32,
            width: cut.width as u32,
        }
    }

    /// Adds to the scores `out` what coefficients as integers give. Does not wait.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn scores(&self, queue: &Queue, numbers: u64, scale: f64, out: u64) -> Result<()> {
        let (raw, kernel) = (self.raw(queue, &self.by_row), queue.gpu().kernel(LINEAR, "linear_cells_scores")?);
        kernel.allow_shared(queue.gpu(), SHARED)?;
        // SAFETY: the arguments are those of `linear_cells_scores`; there are coefficients for whole tiles.
        unsafe { launch!(queue, kernel, grid(self.grid.threads as u32, THREADS, SHARED); &raw, &numbers, &scale, &out) }
    }

    /// Adds rows' integers to the sums of features. Does not wait.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn gradient(&self, queue: &Queue, whole: u64, sums: u64) -> Result<()> {
        let (raw, kernel) = (self.raw(queue, &self.by_feature), queue.gpu().kernel(LINEAR, "linear_cells_gradient")?);
        kernel.allow_shared(queue.gpu(), SHARED)?;
        // SAFETY: the arguments are those of `linear_cells_gradient`; there are integers for whole blocks.
        unsafe { launch!(queue, kernel, grid(self.grid.threads as u32, THREADS, SHARED); &raw, &whole, &sums) }
    }
}

/// `0..n` in so many runs of about the same weight: their borders.
fn shares(n: usize, count: usize, weight: impl Fn(usize) -> u64) -> Vec<u32> {
    let mut before = Vec::with_capacity(n + 1);
    before.push(0u64);
    for i in 0..n {
        before.push(before[i] + weight(i));
    }
    let border = |share: usize| {
        let goal = (before[n] as u128 * share as u128 / count as u128) as u64;
        let after = before.partition_point(|b| *b < goal).min(n);
        // The nearer one of both sides.
        if after > 0 && goal - before[after - 1] < before[after] - goal { after - 1 } else { after }
    };
    (0..=count).map(|share| border(share) as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::shares;

    #[test]
    fn shares_are_even_and_in_order() {
        assert_eq!(shares(660, 132, |i| 1000 + i as u64 % 7).windows(2).map(|w| w[1] - w[0]).max(), Some(5));
        assert_eq!(shares(0, 3, |_| 1), [0, 0, 0, 0]);
        assert_eq!(shares(2, 4, |_| 10).last(), Some(&2));
        let skewed = shares(100, 8, |i| if i == 3 { 1000 } else { 1 });
        assert!(skewed.windows(2).all(|w| w[0] <= w[1]) && skewed[8] == 100);
    }
}
