//! Compressed sparse rows on the GPU: all of them, or blocks of them that pass through while the last one is worked on.
//!
//! ```text
//! host ─► pinned slots ─► queue a: block 0 │ work │ block 2 │ work │ …
//!                         queue b:         │ block 1 │ work │ block 3 │ …
//! ```

use super::address;
use super::tiles::TileGrid;
use crate::runtime::column::bytes_of;
use crate::runtime::layouts::kernel_structs;
use crate::runtime::queue::{Queue, grid};
use crate::runtime::upload::{Fill, Upload};
use cudarc::driver::{CudaSlice, LaunchConfig};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use taiga_core::dataset::Monitor;
use taiga_core::error::{Error, Result};
use taiga_core::learners::linear::csr::{Csr, Row};
use taiga_core::learners::linear::steps::Task;

/// Entries of a block that passes through: 256 MiB with values.
const BLOCK_ENTRIES: usize = 1 << 25;

kernel_structs! { CsrRows }

impl CsrRows {
    /// No entries, of any rows.
    pub fn none(outputs: u32) -> CsrRows {
        CsrRows { starts: 0, keys: 0, values: 0, first: 0, rows: 0, outputs }
    }

    /// Whether there are lists at all.
    pub fn has_entries(&self) -> bool {
        self.keys != 0
    }

    /// The rows `from .. from + rows` of them, to be called `first` and so on.
    pub fn part(&self, from: usize, rows: usize, first: usize) -> CsrRows {
        CsrRows { starts: self.starts + 4 * from as u64, first: first as u64, rows: rows as u32, ..*self }
    }

    /// A launch for its rows: eight threads each, or one for each output.
    pub(super) fn config(&self) -> LaunchConfig {
        self.of_threads(if self.outputs == 1 { 8 } else { self.outputs as u64 })
    }

    /// A launch of eight threads a row.
    pub(super) fn eight(&self) -> LaunchConfig {
        self.of_threads(8)
    }

    pub(super) fn of_threads(&self, of_row: u64) -> LaunchConfig {
        grid((self.rows as u64 * of_row).div_ceil(256).max(1) as u32, 256, 0)
    }
}

/// How the entries of a problem will be kept.
pub struct StoragePlan {
    pub grid: Option<TileGrid>,
    streamed: bool,
    outputs: u32,
}

impl StoragePlan {
    /// What there is memory for.
    ///
    /// # Errors
    /// [`Error::Device`], with both figures where not even blocks fit.
    pub fn new(queue: &Queue, passes: &Task<'_, '_>) -> Result<StoragePlan> {
        let p = passes.problem;
        // Four sets of numbers of rows, and what is the same in all layouts.
        let rows = p.rows * (p.outputs * (4 * 8 + 4) + 8 * p.dense.len() + 12);
        let always = (rows + p.coefficients() * 24 + (1 << 20)) as u64;
        let outputs = p.outputs as u32;
        let Some(csr) = &p.csr else {
            queue.check_memory("a logistic regression", always)?;
            return Ok(StoragePlan { grid: None, streamed: false, outputs });
        };
        let (entries, size) = (csr.entries(), if csr.has_values() { 8 } else { 4 });
        let all = (entries * size + 4 * p.rows) as u64;
        let possible = entries < u32::MAX as usize - 4 && all <= resident_limit();
        let fits = |more: u64| queue.has_room(always + all + more).unwrap_or(false);
        let grid = TileGrid::new(queue.gpu(), p.rows, p.width, entries)
            .filter(|_| passes.precision.whole && possible)
            .filter(|grid| fits(grid.temporary(csr)));
        if grid.is_some() || (possible && fits(0)) {
            return Ok(StoragePlan { grid, streamed: false, outputs });
        }
        queue.check_memory("a logistic regression, though its rows are not kept there,", always + 2 * block_bytes(csr) as u64)?;
        Ok(StoragePlan { grid: None, streamed: true, outputs })
    }
}

/// The most rows from `first` on that have `most` entries together, but at least one.
pub fn rows_of(csr: &Csr<'_>, first: usize, most: usize) -> Range<usize> {
    let limit = csr.entries_before(first) + most;
    let (mut low, mut high) = (first + 1, csr.rows());
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if csr.entries_before(middle) <= limit { low = middle } else { high = middle - 1 }
    }
    first..low
}

/// Entries of a block that passes through, at most but for one that can't be divided.
pub fn streamed_entries() -> usize {
    BLOCK_ENTRIES.min((resident_limit() / 16) as usize).max(1)
}

/// Rows in blocks that pass through.
fn blocks(csr: &Csr<'_>) -> Vec<Range<usize>> {
    let size = streamed_entries();
    let mut blocks = vec![];
    let mut first = 0;
    while first < csr.rows() {
        blocks.push(rows_of(csr, first, size));
        first = blocks[blocks.len() - 1].end;
    }
    blocks
}

/// Entries of rows.
fn entries(csr: &Csr<'_>, rows: &Range<usize>) -> usize {
    csr.entries_before(rows.end) - csr.entries_before(rows.start)
}

/// The most rows and entries of one of the blocks.
fn largest(csr: &Csr<'_>, blocks: &[Range<usize>]) -> (usize, usize) {
    blocks.iter().fold((0, 0), |(r, e), b| (r.max(b.len()), e.max(entries(csr, b))))
}

/// Bytes of one of the blocks that pass through.
fn block_bytes(csr: &Csr<'_>) -> usize {
    let (rows, entries) = largest(csr, &blocks(csr));
    4 * (rows + 1) + entries * if csr.has_values() { 8 } else { 4 }
}

/// Writes feature numbers, or values, to the beginning of `out`; gives the bytes.
fn copy(entries: Row<'_>, values: bool, out: &mut [u8]) -> usize {
    let bytes = match entries.values {
        Some(v) if values => bytes_of(v),
        _ => bytes_of(entries.keys),
    };
    out[..bytes.len()].copy_from_slice(bytes);
    bytes.len()
}

/// Room for rows, and which ones stand there.
pub struct CsrBlock {
    starts: CudaSlice<u32>,
    keys: CudaSlice<u32>,
    values: Option<CudaSlice<f32>>,
    rows: Range<usize>,
}

impl CsrBlock {
    /// Room for so many rows and entries.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn room(queue: &Queue, rows: usize, entries: usize, values: bool) -> Result<CsrBlock> {
        Ok(CsrBlock {
            starts: queue.alloc("offsets", rows + 1)?,
            keys: queue.alloc("feature numbers", entries)?,
            values: values.then(|| queue.alloc("values", entries)).transpose()?,
            rows: 0..0,
        })
    }

    /// Fills it with rows that stand one after the other, when what was queued before has run.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn fill(&mut self, queue: &Queue, csr: &Csr<'_>, rows: Range<usize>) -> Result<()> {
        let (base, n) = (csr.entries_before(rows.start), entries(csr, &rows));
        let start = |i: usize| csr.entries_before(rows.start + i) - base;
        self.upload(queue, rows.clone(), n, &start, &|from, values, out| {
            let mut at = 0;
            csr.visit(base + from, out.len() / 4, |entries| at += copy(entries, values, &mut out[at..]));
        })
    }

    /// Fills it with these rows, in this order; the first is called `first`.
    ///
    /// # Errors
    /// As above.
    pub fn fill_with(&mut self, queue: &Queue, csr: &Csr<'_>, first: usize, rows: &[usize]) -> Result<()> {
        let mut starts = Vec::with_capacity(rows.len() + 1);
        starts.push(0);
        for (i, row) in rows.iter().enumerate() {
            starts.push(starts[i] + csr.row(*row).keys.len());
        }
        let fill = |from: usize, values: bool, out: &mut [u8]| {
            let (mut at, end) = (from, from + out.len() / 4);
            let mut i = starts.partition_point(|s| *s <= from) - 1;
            while at < end {
                let (row, inside) = (csr.row(rows[i]), at - starts[i]..end.min(starts[i + 1]) - starts[i]);
                let part = Row { keys: &row.keys[inside.clone()], values: row.values.map(|v| &v[inside]) };
                at += copy(part, values, &mut out[4 * (at - from)..]) / 4;
                i += 1;
            }
        };
        self.upload(queue, first..first + rows.len(), starts[rows.len()], &|i| starts[i], &fill)
    }

    /// `start(i)`: where row `i` of them begins; `copy(from, values, out)` writes entries from `from` on.
    fn upload(
        &mut self,
        queue: &Queue,
        rows: Range<usize>,
        n: usize,
        start: &(dyn Fn(usize) -> usize + Sync),
        copy: &(dyn Fn(usize, bool, &mut [u8]) + Sync),
    ) -> Result<()> {
        if n > u32::MAX as usize {
            return Err(Error::Data("a row has more than 4,294,967,295 entries".into()));
        }
        // All at once, so that threads copy numbers while one of them counts.
        let offsets: Fill<'_> = Box::new(|from, out| {
            let starts = (from / 4..).map(|i| start(i) as u32);
            out.as_chunks_mut().0.iter_mut().zip(starts).for_each(|(o, start)| *o = start.to_ne_bytes());
        });
        let mut uploads = vec![
            Upload { to: address(queue, &self.starts), bytes: 4 * (rows.len() + 1), fill: offsets },
            Upload { to: address(queue, &self.keys), bytes: 4 * n, fill: Box::new(|from, out| copy(from / 4, false, out)) },
        ];
        if let Some(values) = &self.values {
            let fill: Fill<'_> = Box::new(|from, out| copy(from / 4, true, out));
            uploads.push(Upload { to: address(queue, values), bytes: 4 * n, fill });
        }
        let room = rows.len() < self.starts.len() && n <= self.keys.len();
        assert!(room, "room for {} rows and {n} entries", rows.len());
        queue.upload_each(&uploads, &mut |_| Ok(()))?;
        self.rows = rows;
        Ok(())
    }

    /// How many entries there is room for.
    pub fn entries(&self) -> usize {
        self.keys.len()
    }

    /// What kernels are given.
    pub fn lists(&self, queue: &Queue, outputs: u32) -> CsrRows {
        CsrRows {
            starts: address(queue, &self.starts),
            keys: address(queue, &self.keys),
            values: self.values.as_ref().map_or(0, |v| address(queue, v)),
            first: self.rows.start as u64,
            rows: self.rows.len() as u32,
            outputs,
        }
    }
}

/// Where lists are.
pub enum CsrStorage<'p, 'a> {
    Resident {
        block: CsrBlock,
        outputs: u32,
    },
    Streamed {
        csr: &'p Csr<'a>,
        blocks: Vec<Range<usize>>,
        lanes: Box<RefCell<[(Queue, CsrBlock); 2]>>,
        monitor: &'p dyn Monitor,
        outputs: u32,
    },
}

impl<'p, 'a> CsrStorage<'p, 'a> {
    /// As planned.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn new(queue: &Queue, csr: &'p Csr<'a>, plan: &StoragePlan, monitor: &'p dyn Monitor) -> Result<Self> {
        let outputs = plan.outputs;
        if !plan.streamed {
            let mut block = CsrBlock::room(queue, csr.rows(), csr.entries(), csr.has_values())?;
            block.fill(queue, csr, 0..csr.rows())?;
            return Ok(CsrStorage::Resident { block, outputs });
        }
        let blocks = blocks(csr);
        let (rows, entries) = largest(csr, &blocks);
        let lane = || -> Result<(Queue, CsrBlock)> {
            let queue = Queue::new(queue.gpu())?;
            let block = CsrBlock::room(&queue, rows, entries, csr.has_values())?;
            Ok((queue, block))
        };
        Ok(CsrStorage::Streamed { csr, blocks, lanes: Box::new(RefCell::new([lane()?, lane()?])), monitor, outputs })
    }

    /// `work` on all rows, when what `queue` was given before has run; what it is given next comes after it.
    ///
    /// # Errors
    /// Those of `work`; [`Error::Device`] and [`Error::Interrupted`].
    pub fn each(&self, queue: &Queue, work: &dyn Fn(&Queue, CsrRows) -> Result<()>) -> Result<()> {
        match self {
            CsrStorage::Resident { block, outputs } => work(queue, block.lists(queue, *outputs)),
            CsrStorage::Streamed { csr, blocks, lanes, monitor, outputs } => {
                let lanes = &mut *lanes.borrow_mut();
                lanes.iter().try_for_each(|(lane, _)| lane.wait_for(queue))?;
                let done = blocks.iter().enumerate().try_for_each(|(i, rows)| {
                    if monitor.interrupted() {
                        return Err(Error::Interrupted);
                    }
                    let (lane, block) = &mut lanes[i % 2];
                    block.fill(lane, csr, rows.clone())?;
                    work(lane, block.lists(lane, *outputs))
                });
                // Whatever came of it: what the lanes work on is freed by this queue.
                let joined = lanes.iter().try_for_each(|(lane, _)| queue.wait_for(lane));
                done.and(joined)
            }
        }
    }
}

static RESIDENT: AtomicU64 = AtomicU64::new(u64::MAX);

/// The most bytes of feature numbers and values that stay on a GPU for a whole fit; of more, blocks of rows pass through at every pass. What
/// the device's memory allows unless told otherwise.
pub fn limit_resident_rows(bytes: Option<u64>) {
    RESIDENT.store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
}

pub fn resident_limit() -> u64 {
    RESIDENT.load(Ordering::Relaxed)
}
