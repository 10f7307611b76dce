//! Rows and features cut into tiles, so that what is gathered and what is summed both fit a multiprocessor's shared memory.
//!
//! ```text
//!            span 0   span 1 │ span 2   …    an entry: row and feature in their strips, 15 bits each
//! block 0  │ tile 0   tile 2 │ tile 4   …    scores:   a strip of two blocks from span to span, sums of their rows
//! block 1  │ tile 1   tile 3 │ …             gradient: a strip of two spans from block to block, sums of their features
//!          ├─────────────────┼───────
//! block 2  │ …
//! ```
//!
//! Made once on the device: blocks of rows go up as lists, CUB's radix sort brings them to their tiles and the banks of shared memory
//! of their rows and features, and `linear_arrange` orders a tile's entries so that a warp's 32 rows, and its 32 features, are in 32 banks.

use super::csr::{CsrBlock, rows_of};
use super::{LINEAR, address};
use crate::launch;
use crate::runtime::device::Gpu;
use crate::runtime::layouts::kernel_structs;
use crate::runtime::queue::{Queue, grid};
use cudarc::driver::CudaSlice;
use std::ops::Range;
use taiga_core::dataset::Monitor;
use taiga_core::error::{Error, Result};
use taiga_core::learners::linear::csr::Csr;

/// Threads of a block that works on tiles, what stands behind the numbers of a side, and blocks or spans whose sums are kept: twins of
/// `TILE_THREADS`, `NOBODIES` and `BESIDE`.
const THREADS: u32 = 1024;
const NOBODIES: usize = 32;
const BESIDE: usize = 2;

/// Shared memory that tiles need to pay.
const SHARED: u32 = 192 << 10;

/// The most rows or features of a block or span: two of them are numbered by 15 bits.
const MOST: usize = (1 << 14) - NOBODIES;

/// The most strips of rows for each multiprocessor.
const WAVES: usize = 256;

/// Entries of a step (tiles of the same numbers), on average, from which on tiles pay.
const LEAST_ENTRIES: usize = 2048;

/// What a step costs beside its entries, in entries.
const OF_STEP: u64 = 1500;

/// Entries that are sorted at a time, and tiles.
const SORTED: usize = 1 << 26;
const TILES_AT_ONCE: usize = 1 << 14;

/// Bits of the banks of an entry's row and feature.
const BANKS_BITS: u32 = 10;

/// What so many entries in so many tiles take at most when they are arranged: a lane in nine idles, and so do some of the last ones of
/// a tile.
fn arranged(entries: usize, tiles: usize) -> usize {
    entries + entries / 8 + 512 * tiles
}

/// How rows and features are cut: numbers of blocks and spans are even.
#[derive(Clone, Copy, Debug)]
pub struct TileGrid {
    blocks: usize,
    spans: usize,
    /// Rows of a block, and features of a span: multiples of 32.
    height: usize,
    width: usize,
    threads: usize,
}

/// Shared memory of a block of threads, in bytes: sums of two `own`, and the numbers of two steps.
fn shared(own: usize, numbers: usize) -> usize {
    BESIDE * (own + NOBODIES) * 8 + 2 * (numbers + NOBODIES) * 4
}

impl TileGrid {
    /// Cuts so many rows and features with so many entries into tiles; none where they would not pay, or the GPU has not the shared memory.
    pub fn new(gpu: &Gpu, rows: usize, features: usize, entries: usize) -> Option<TileGrid> {
        let (threads, memory) = (gpu.multiprocessors() as usize, gpu.shared_per_block());
        if rows == 0 || memory < SHARED {
            return None;
        }
        // As many strips for each multiprocessor. Numbers are read once for each strip, so the fewer strips of both kinds the better;
        // higher ones leave less room for wide ones.
        let cut = |waves: usize| {
            let height = rows.div_ceil(waves * threads * BESIDE).next_multiple_of(32);
            let fits = |width: &usize| shared(height, *width).max(shared(*width, height)) <= memory as usize;
            let width = (32..=MOST).step_by(32).take_while(fits).last().filter(|_| height <= MOST)?;
            let spans = features.div_ceil(width).max(1).next_multiple_of(BESIDE);
            let width = features.div_ceil(spans).max(1).next_multiple_of(32);
            Some(TileGrid { blocks: rows.div_ceil(height).next_multiple_of(BESIDE), spans, height, width, threads })
        };
        let grid = (1..=WAVES).filter_map(cut).min_by_key(|g| g.blocks * g.features() + g.spans * g.rows())?;
        let steps = grid.blocks * grid.spans / BESIDE;
        (grid.spans * BESIDE <= TILES_AT_ONCE && entries / LEAST_ENTRIES >= steps).then_some(grid)
    }

    fn tiles(&self) -> usize {
        self.blocks * self.spans
    }

    fn strips(&self) -> usize {
        self.blocks / BESIDE
    }

    /// Rows of a strip.
    fn strip(&self) -> usize {
        self.height * BESIDE
    }

    /// Rows, those behind the last one included.
    pub fn rows(&self) -> usize {
        self.blocks * self.height
    }

    /// Features, likewise.
    pub fn features(&self) -> usize {
        self.spans * self.width
    }

    /// Bytes that are needed beside the entries: idle lanes; while tiles are made lists, two sets of buckets and places, and CUB's own.
    pub fn temporary(&self, csr: &Csr<'_>) -> u64 {
        let most = self.groups(csr).into_iter().map(|g| self.entries(csr, &g)).max().unwrap_or(0);
        let idle = arranged(csr.entries(), self.tiles()) - csr.entries();
        (4 * idle + most * 5 * 4 + most / 2 + 32 * self.tiles() + 4 * (TILES_AT_ONCE << BANKS_BITS) + (16 << 20)) as u64
    }

    /// Strips of rows that are sorted together.
    fn groups(&self, csr: &Csr<'_>) -> Vec<Range<usize>> {
        let (mut groups, mut first) = (vec![], 0);
        while first < self.strips() {
            let rows = rows_of(csr, first * self.strip(), SORTED);
            let end = if rows.end == csr.rows() { self.strips() } else { rows.end / self.strip() };
            let end = end.clamp(first + 1, first + (TILES_AT_ONCE / (BESIDE * self.spans)).max(1));
            groups.push(first..end);
            first = end;
        }
        groups
    }

    /// The rows of strips.
    fn rows_of(&self, csr: &Csr<'_>, strips: &Range<usize>) -> Range<usize> {
        strips.start * self.strip()..csr.rows().min(strips.end * self.strip())
    }

    fn entries(&self, csr: &Csr<'_>, strips: &Range<usize>) -> usize {
        let rows = self.rows_of(csr, strips);
        csr.entries_before(rows.end) - csr.entries_before(rows.start)
    }
}

kernel_structs! { TileParams, TileStep }

/// What blocks of threads take, one step after the other, and where each one's begin.
struct StepSchedule {
    steps: CudaSlice<TileStep>,
    ranges: CudaSlice<u32>,
}

impl StepSchedule {
    /// `strips` times `inner` steps, whose fours are those of `tiles(strip, step)`, dealt to so many blocks of threads: whole strips
    /// where these are of one block of threads.
    fn new(
        queue: &Queue,
        (strips, inner): (usize, usize),
        threads: usize,
        whole: bool,
        tiles: impl Fn(usize, usize) -> [Range<u32>; 2],
    ) -> Result<StepSchedule> {
        let weight = |strip: usize, step: usize| tiles(strip, step).iter().map(|c| 4 * c.len() as u64).sum::<u64>() + OF_STEP;
        let borders: Vec<usize> = match whole {
            true => shares(strips, threads, |s| (0..inner).map(|i| weight(s, i)).sum()).into_iter().map(|s| s as usize * inner).collect(),
            false => shares(strips * inner, threads, |i| weight(i / inner, i % inner)).into_iter().map(|i| i as usize).collect(),
        };
        let (mut steps, mut starts) = (vec![], Vec::with_capacity(strips * inner + 1));
        for i in 0..strips * inner {
            starts.push(steps.len() as u32);
            let (strip, numbers) = (i / inner, i % inner);
            let [a, b] = tiles(strip, numbers);
            let size = (a.len() + b.len()) as u32;
            // In parts of what the registers hold.
            for from in (0..size.max(1)).step_by(4 * THREADS as usize) {
                let (len, of_a) = ((size - from).min(4 * THREADS), (a.len() as u32).saturating_sub(from));
                steps.push(TileStep {
                    first: a.start.wrapping_add(from),
                    first_size: of_a,
                    second: b.start.wrapping_add(from).wrapping_sub(a.len() as u32),
                    size: len,
                    numbers: numbers as u32,
                    strip: strip as u32,
                    buffer: (i % 2) as u32,
                    fresh: (from == 0) as u32,
                });
            }
        }
        starts.push(steps.len() as u32);
        let ranges: Vec<u32> = borders.into_iter().map(|b| starts[b]).collect();
        Ok(StepSchedule { steps: queue.copy_of("steps", &steps)?, ranges: queue.copy_of("steps", &ranges)? })
    }
}

/// Entries in tiles.
pub struct Tiles {
    pub grid: TileGrid,
    rows: usize,
    outputs: usize,
    entries: CudaSlice<u32>,
    by_row: StepSchedule,
    by_feature: StepSchedule,
}

impl Tiles {
    /// The entries of `csr`, which have no values.
    ///
    /// # Errors
    /// [`Error::Device`] and [`Error::Interrupted`].
    pub fn new(queue: &Queue, csr: &Csr<'_>, outputs: usize, cut: TileGrid, monitor: &dyn Monitor) -> Result<Tiles> {
        let gpu = queue.gpu();
        let groups = cut.groups(csr);
        let most = groups.iter().map(|g| cut.entries(csr, g)).max().unwrap_or(0);
        let most_rows = groups.iter().map(|g| cut.rows_of(csr, g).len()).max().unwrap_or(0);
        let mut all = queue.alloc::<u32>("entries", arranged(csr.entries(), cut.tiles()))?;
        let mut block = CsrBlock::room(queue, most_rows, most, false)?;
        let room = || queue.alloc::<u32>("cells", most);
        let (buckets, places, mut sorted) = (room()?, room()?, (room()?, room()?));
        let kernel = |name| gpu.kernel(LINEAR, name);
        let (place, bounds, arrange) = (kernel("linear_place")?, kernel("linear_bounds")?, kernel("linear_arrange")?);
        let (spans, width, height) = (cut.spans as u32, cut.width as u32, cut.height as u32);
        let mut quads = vec![0u32];
        for group in groups {
            if monitor.interrupted() {
                return Err(Error::Interrupted);
            }
            let n = cut.entries(csr, &group) as u32;
            block.fill(queue, csr, cut.rows_of(csr, &group))?;
            let lists = block.lists(queue, 1);
            let count = (group.len() * BESIDE * cut.spans) as u32;
            let bits = (u32::BITS - (count - 1).leading_zeros()).max(1);
            let striding = |n: usize| grid(n.div_ceil(256).clamp(1, gpu.multiprocessors() as usize * 8) as u32, 256, 0);
            let of_buckets = count << BANKS_BITS;
            let mut starts = queue.alloc::<u32>("cells", of_buckets as usize + 1)?;
            let mut sizes = queue.alloc::<u32>("cells", count as usize)?;
            let nothing = 0u64;
            // SAFETY: the arguments are those of the kernels; there is room for the entries of a group, a start for each bucket, and
            // one behind them, and a size for each tile. The first time tiles are only measured.
            unsafe {
                launch!(queue, place, lists.eight(); &lists, &spans, &width, &height, &buckets, &places)?;
                queue.sort_pairs(&buckets, &places, &mut sorted, n, 0..bits + BANKS_BITS)?;
                launch!(queue, bounds, striding(n as usize + 1); &n, &sorted.0, &of_buckets, &mut starts)?;
                let config = striding(32 * count as usize);
                launch!(queue, arrange, config; &count, &spans, &width, &height, &starts, &sorted.1, &nothing, &mut sizes, &nothing)?;
            }
            let first = quads.len() - 1;
            for size in queue.read(&sizes)? {
                quads.push(quads[quads.len() - 1] + size);
            }
            assert!(quads[quads.len() - 1] as usize * 4 <= all.len(), "room for {} fours", quads[quads.len() - 1]);
            let of_group = queue.copy_of("cells", &quads[first..])?;
            let config = striding(32 * count as usize);
            // SAFETY: the arguments are those of `linear_arrange`; tiles lie one behind the other, and there is room for them.
            unsafe {
                launch!(queue, arrange, config; &count, &spans, &width, &height, &starts, &sorted.1, &of_group, &mut sizes, &mut all)
            }?;
        }
        let fours = |first: usize, n: usize| quads[first]..quads[first + n];
        // A strip's tiles of a span are neighbours; of a block's tiles two spans' are not.
        let by_row = StepSchedule::new(queue, (cut.strips(), cut.spans), cut.threads, true, |strip, span| {
            [fours((strip * cut.spans + span) * BESIDE, BESIDE), 0..0]
        })?;
        let by_feature = StepSchedule::new(queue, (cut.spans / BESIDE, cut.blocks), cut.threads, false, |strip, block| {
            let tile = (block / BESIDE * cut.spans + strip * BESIDE) * BESIDE + block % BESIDE;
            [fours(tile, 1), fours(tile + BESIDE, 1)]
        })?;
        Ok(Tiles { grid: cut, rows: csr.rows(), outputs, entries: all, by_row, by_feature })
    }

    fn raw(&self, queue: &Queue, way: &StepSchedule, output: usize) -> TileParams {
        let cut = self.grid;
        TileParams {
            entries: address(queue, &self.entries),
            steps: address(queue, &way.steps),
            ranges: address(queue, &way.ranges),
            height: cut.height as u32,
            width: cut.width as u32,
            rows: self.rows as u64,
            outputs: self.outputs as u32,
            output: output as u32,
        }
    }

    /// One of several outputs' numbers, of `n` that there are of each, with zeros behind them up to `room`.
    fn part(&self, queue: &Queue, numbers: u64, n: usize, output: usize, room: usize) -> Result<CudaSlice<i32>> {
        let mut to = queue.zeros("numbers of an output", room)?;
        let (kernel, blocks) =
            (queue.gpu().kernel(LINEAR, "linear_output")?, (n.div_ceil(256) as u32).min(queue.gpu().multiprocessors() * 8));
        let (n, outputs, output) = (n as u64, self.outputs as u32, output as u32);
        // SAFETY: the arguments are those of `linear_output`, and there is room for `n` numbers.
        unsafe { launch!(queue, kernel, grid(blocks.max(1), 256, 0); &n, &outputs, &output, &numbers, &mut to) }?;
        Ok(to)
    }

    /// Scores `out` of what coefficients as integers (`features` of them for each output) give: added to what is there, or to intercepts.
    /// Does not wait.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn scores(&self, queue: &Queue, numbers: u64, features: usize, scale: f64, intercepts: u64, out: u64) -> Result<()> {
        let kernel = queue.gpu().kernel(LINEAR, "linear_tile_scores")?;
        let shared = shared(self.grid.height, self.grid.width) as u32;
        kernel.allow_shared(queue.gpu(), shared)?;
        for output in 0..self.outputs {
            let part = match self.outputs {
                1 => None,
                _ => Some(self.part(queue, numbers, features, output, self.grid.features())?),
            };
            let (raw, numbers) = (self.raw(queue, &self.by_row, output), part.as_ref().map_or(numbers, |p| address(queue, p)));
            let config = grid(self.grid.threads as u32, THREADS, shared);
            // SAFETY: the arguments are those of `linear_tile_scores`; there are coefficients for whole spans.
            unsafe { launch!(queue, kernel, config; &raw, &numbers, &scale, &intercepts, &out) }?;
        }
        Ok(())
    }

    /// Adds rows' integers, of each output, to the sums of features. Does not wait.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn gradient(&self, queue: &Queue, whole: u64, sums: u64) -> Result<()> {
        if self.outputs == 1 {
            return self.gradient_of(queue, whole, 0, sums);
        }
        (0..self.outputs).try_for_each(|output| {
            let part = self.part(queue, whole, self.rows, output, self.grid.rows())?;
            self.gradient_of(queue, address(queue, &part), output, sums)
        })
    }

    /// Adds rows' integers to one output's sums. Does not wait.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn gradient_of(&self, queue: &Queue, whole: u64, output: usize, sums: u64) -> Result<()> {
        let (raw, kernel) = (self.raw(queue, &self.by_feature, output), queue.gpu().kernel(LINEAR, "linear_tile_gradient")?);
        let shared = shared(self.grid.width, self.grid.height) as u32;
        kernel.allow_shared(queue.gpu(), shared)?;
        // SAFETY: the arguments are those of `linear_tile_gradient`; there are integers for whole blocks.
        unsafe { launch!(queue, kernel, grid(self.grid.threads as u32, THREADS, shared); &raw, &whole, &sums) }
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
    use crate::linear::tiles::shares;

    #[test]
    fn shares_are_even_and_in_order() {
        assert_eq!(shares(660, 132, |i| 1000 + i as u64 % 7).windows(2).map(|w| w[1] - w[0]).max(), Some(5));
        assert_eq!(shares(0, 3, |_| 1), [0, 0, 0, 0]);
        assert_eq!(shares(2, 4, |_| 10).last(), Some(&2));
        let skewed = shares(100, 8, |i| if i == 3 { 1000 } else { 1 });
        assert!(skewed.windows(2).all(|w| w[0] <= w[1]) && skewed[8] == 100);
    }
}
