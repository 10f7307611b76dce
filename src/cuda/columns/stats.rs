//! Statistics of columns: what [`taiga_core::stats`] computes, with the same bits.

use super::range::count_by_range;
use crate::columns::kernel_names::{NO_VALIDITY, kernel_of, no_kernel};
use crate::launch;
use crate::runtime::column::{DeviceColumn, Form, bytes_of};
use crate::runtime::device::{Gpu, Image, Kernel};
use crate::runtime::layouts::kernel_structs;
use crate::runtime::memory::{pointer, size};
use crate::runtime::queue::{Queue, grid};
use crate::runtime::shard_threads::gone;
use cudarc::driver::{CudaSlice, LaunchConfig};
use std::sync::mpsc::Receiver;
use taiga_core::column::Column;
use taiga_core::error::Result;
use taiga_core::stats::bins::Bins;
use taiga_core::stats::histogram::Steps;
use taiga_core::stats::locate::Locator;
use taiga_core::stats::min_max::wider;
use taiga_core::stats::{BLOCK, ColumnValue, Histogram, HistogramParams, MinMax};

/// `kernels/columns/stats.cu`.
const STATS: Image = Image { name: "columns/stats", bytes: taiga_kernels::images::stats };

/// Threads of a block of `extremes_*`, and of `count_*`.
const EXTREMES_THREADS: u32 = 512;
pub(crate) const COUNT_THREADS: u32 = 1024;

kernel_structs! { Uniform<f32><f64>, Edges }

/// [`taiga_core::stats::min_max()`] of a column on the GPU; 0 and 1 for Booleans, and for decimals the
/// integers, of scale 0.
///
/// # Errors
/// [`Error::Device`].
pub fn min_max(queue: &Queue, column: &DeviceColumn) -> Result<Option<MinMax>> {
    if column.rows() == 0 {
        return Ok(None);
    }
    let gpu = queue.gpu();
    let name = kernel_of!("extremes", column.form(), F32: "f32", F64: "f64", I8: "i8", I16: "i16", I32: "i32", I64: "i64", I128: "i128",
        U8: "u8", U16: "u16", U32: "u32", U64: "u64", U128: "u128");
    let kernel = gpu.kernel(STATS, name.ok_or_else(|| no_kernel(gpu, column.form()))?)?;
    // A vector of 16 bytes a thread at least.
    let needed = (column.rows() * column.form().size()).div_ceil(16 * EXTREMES_THREADS as usize) as u32;
    let blocks = needed.min(gpu.multiprocessors() * (2048 / EXTREMES_THREADS));
    let mut out = queue.alloc::<u8>("the extremes", blocks as usize * 2 * column.form().size())?;
    let (validity, rows) = (column.validity().map_or(NO_VALIDITY, |v| pointer(queue, v)), column.rows() as u64);
    // SAFETY: the arguments are those of `extremes_*`; the column has `rows` values of the kernel's type,
    // and each block writes two.
    unsafe { launch!(queue, kernel, grid(blocks, EXTREMES_THREADS, 0); column.values(), &validity, &rows, &mut out) }?;
    Ok(extremes_of(column.form(), &queue.read(&out)?))
}

/// The extremes of pairs of them as kernels write them: smallest above largest for none.
pub(crate) fn extremes_of(form: Form, bytes: &[u8]) -> Option<MinMax> {
    macro_rules! fold {
        ($type:ty, $number:expr) => {{
            let values = bytes.chunks_exact(size_of::<$type>()).map(|b| <$type>::from_ne_bytes(b.try_into().unwrap_or_default()));
            let values: Vec<$type> = values.collect();
            let pairs = values.chunks_exact(2).filter(|p| p[0] <= p[1]);
            pairs.map(|p| Some(MinMax { min: $number(p[0]), max: $number(p[1]) })).fold(None, wider)
        }};
    }
    let integer = |x: i128| ColumnValue::Integer(x);
    match form {
        Form::F32 => fold!(f32, |x: f32| ColumnValue::F32(x + 0.0)),
        Form::F64 => fold!(f64, |x: f64| ColumnValue::F64(x + 0.0)),
        Form::I8 => fold!(i8, |x| integer(i128::from(x))),
        Form::I16 => fold!(i16, |x| integer(i128::from(x))),
        Form::I32 => fold!(i32, |x| integer(i128::from(x))),
        Form::I64 => fold!(i64, |x| integer(i128::from(x))),
        Form::I128 => fold!(i128, integer),
        Form::U8 => fold!(u8, |x| integer(i128::from(x))),
        Form::U16 => fold!(u16, |x| integer(i128::from(x))),
        Form::U32 => fold!(u32, |x| integer(i128::from(x))),
        Form::U64 => fold!(u64, |x| integer(i128::from(x))),
        Form::U128 => fold!(u128, ColumnValue::Unsigned),
    }
}

/// How counters lie in shared memory.
pub(crate) struct CounterLayout {
    /// 2^shift copies of each counter; 32: none, the counters are in global memory.
    pub shift: u32,
    pub edges_in_shared: u32,
    pub shared: u32,
    pub blocks_per_multiprocessor: u32,
}

/// What the system keeps of each block's shared memory.
const RESERVED: usize = 1024;

/// As many copies as there is room for with so many blocks a multiprocessor, up to one for each lane. Edges are
/// in shared memory too where they are searched and leave room.
fn layout_for(blocks: u32, most: usize, bins: usize, edge_bytes: usize) -> CounterLayout {
    let room = (most + RESERVED) / blocks as usize - RESERVED;
    let edges = if (bins + 1) * edge_bytes <= room / 2 { (bins + 1) * edge_bytes } else { 0 };
    let (edges_in_shared, blocks_per_multiprocessor) = ((edges > 0) as u32, blocks);
    let copies = (room - edges) / (bins * 4);
    match copies.min(32).checked_ilog2() {
        Some(shift) => CounterLayout { shift, edges_in_shared, shared: (edges + ((bins * 4) << shift)) as u32, blocks_per_multiprocessor },
        None => CounterLayout { shift: 32, edges_in_shared, shared: edges as u32, blocks_per_multiprocessor },
    }
}

/// Two blocks a multiprocessor where it takes them and each has room for four copies, which are enough for
/// constant data to be as fast as random ones; else one.
pub(crate) fn layout(gpu: &Gpu, kernel: &Kernel, bins: usize, edge_bytes: usize) -> Result<CounterLayout> {
    let two = layout_for(2, kernel.shared as usize, bins, edge_bytes);
    if (2..32).contains(&two.shift) && kernel.blocks_per_multiprocessor(gpu, COUNT_THREADS, two.shared)? >= 2 {
        return Ok(two);
    }
    Ok(layout_for(1, kernel.shared as usize, bins, edge_bytes))
}

/// The rows of each bin.
///
/// # Errors
/// [`Error::Device`].
pub fn count(queue: &Queue, column: &DeviceColumn, locator: &Locator) -> Result<Vec<u64>> {
    let mut totals = queue.zeros::<u64>("the counts", locator.bins())?;
    if column.rows() > 0 {
        let edges = DeviceEdges::new(queue, locator)?;
        count_into(queue, column, &edges, &mut totals)?;
    }
    let mut totals = queue.read(&totals)?;
    totals.truncate(locator.bins());
    Ok(totals)
}

/// The edges of a locator on the GPU, with the locator's numbers.
pub struct DeviceEdges {
    bins: usize,
    kind: BinKind,
    /// What `kind` points to.
    _edges: CudaSlice<u8>,
}

enum BinKind {
    Uniform32(Uniform<f32>),
    Uniform64(Uniform<f64>),
    Edges(Edges),
}

impl DeviceEdges {
    /// Copies what a locator knows.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn new(queue: &Queue, locator: &Locator) -> Result<DeviceEdges> {
        fn upload<F: Copy>(queue: &Queue, edges: &[F]) -> Result<(CudaSlice<u8>, u64)> {
            let slice = queue.copy_of("edges", bytes_of(edges))?;
            let pointer = pointer(queue, &slice);
            Ok((slice, pointer))
        }
        let bins = locator.bins() as u32;
        let (edges, kind) = match locator {
            Locator::UniformF32(u) => {
                let (slice, edges) = upload(queue, u.edges())?;
                let (first, last, scale, sure) = u.numbers();
                (slice, BinKind::Uniform32(Uniform { edges, first, last, scale, sure, bins }))
            }
            Locator::UniformF64(u) => {
                let (slice, edges) = upload(queue, u.edges())?;
                let (first, last, scale, sure) = u.numbers();
                (slice, BinKind::Uniform64(Uniform { edges, first, last, scale, sure, bins }))
            }
            Locator::Edges(e) => {
                let (slice, edges) = upload(queue, e.edges())?;
                let all = e.edges();
                (slice, BinKind::Edges(Edges { edges, first: all[0], last: all[all.len() - 1], bins }))
            }
        };
        Ok(DeviceEdges { bins: bins as usize, kind, _edges: edges })
    }

    /// As `Uniform<f64>`, with scale 0 where bins are to be searched; none for bins of f32.
    pub(crate) fn doubles(&self) -> Option<Uniform<f64>> {
        match self.kind {
            BinKind::Uniform32(_) => None,
            BinKind::Uniform64(uniform) => Some(uniform),
            BinKind::Edges(Edges { edges, first, last, bins }) => Some(Uniform { edges, first, last, scale: 0.0, sure: 0.0, bins }),
        }
    }

    fn kernel(&self, counts: bool, form: Form) -> Option<&'static str> {
        match (&self.kind, counts) {
            (BinKind::Uniform32(_), true) => kernel_of!("count_uniform32", form, F32: "f32"),
            (BinKind::Uniform32(_), false) => kernel_of!("weigh_uniform32", form, F32: "f32"),
            (BinKind::Uniform64(_), true) => kernel_of!("count_uniform64", form),
            (BinKind::Uniform64(_), false) => kernel_of!("weigh_uniform64", form),
            (BinKind::Edges(_), true) => kernel_of!("count_edges", form),
            (BinKind::Edges(_), false) => kernel_of!("weigh_edges", form),
        }
    }
}

/// Launches `$kernel` with the bins, of whichever kind, before the other arguments.
macro_rules! launch_with_bins {
    ($queue:expr, $kernel:expr, $config:expr, $edges:expr; $($argument:expr),*) => {
        match &$edges.kind {
            BinKind::Uniform32(bins) => launch!($queue, $kernel, $config; bins, $($argument),*),
            BinKind::Uniform64(bins) => launch!($queue, $kernel, $config; bins, $($argument),*),
            BinKind::Edges(bins) => launch!($queue, $kernel, $config; bins, $($argument),*),
        }
    };
}

/// Adds the rows of each bin to `totals`; does not wait.
///
/// # Errors
/// [`Error::Device`].
pub fn count_into(queue: &Queue, column: &DeviceColumn, edges: &DeviceEdges, totals: &mut CudaSlice<u64>) -> Result<()> {
    let gpu = queue.gpu();
    let kernel = gpu.kernel(STATS, edges.kernel(true, column.form()).ok_or_else(|| no_kernel(gpu, column.form()))?)?;
    let layout = layout(gpu, &kernel, edges.bins, if matches!(edges.kind, BinKind::Edges(_)) { 8 } else { 0 })?;
    let needed = (column.rows() * column.form().size()).div_ceil(16 * COUNT_THREADS as usize) as u32;
    let blocks = needed.min(gpu.multiprocessors() * layout.blocks_per_multiprocessor);
    let (validity, rows) = (column.validity().map_or(NO_VALIDITY, |v| pointer(queue, v)), column.rows() as u64);
    let config = grid(blocks, COUNT_THREADS, layout.shared);
    // SAFETY: the arguments are those of `count_*`; the column has `rows` values of the kernel's type, shared
    // memory holds the edges and counters that the layout says, and there is a total for each bin.
    unsafe {
        launch_with_bins!(queue, kernel, config, edges; column.values(), &validity, &rows, &layout.shift, &layout.edges_in_shared, totals)
    }
}

/// The sums over the rows before a share of them, which another GPU has; or that there are no such rows.
pub(super) struct Earlier(Option<Receiver<Vec<f64>>>);

impl Earlier {
    /// Of all rows, or of the first.
    pub(super) const NONE: Earlier = Earlier(None);

    /// Of the rows whose sums come from `before`.
    pub(super) fn from(before: Receiver<Vec<f64>>) -> Earlier {
        Earlier(Some(before))
    }

    /// Waits for these sums, and writes them where zeros are.
    fn write(&self, queue: &Queue, totals: &mut CudaSlice<f64>) -> Result<()> {
        let Some(before) = &self.0 else { return Ok(()) };
        queue.write(&before.recv().map_err(|_| gone())?, totals)
    }
}

/// The weights (f64) of each bin, added in the order that [`taiga_core::stats::histogram()`] adds in, to those of earlier rows.
///
/// # Errors
/// [`Error::Device`].
fn sum(queue: &Queue, column: &DeviceColumn, weights: &DeviceColumn, locator: &Locator, earlier: Earlier) -> Result<Vec<f64>> {
    assert!(weights.form() == Form::F64 && weights.rows() == column.rows(), "a weight for each row");
    if column.rows() == 0 {
        // A column without chunks is f64s, which bins of f32 have no kernel for.
        return Ok(vec![0.0; locator.bins()]);
    }
    let gpu = queue.gpu();
    let edges = DeviceEdges::new(queue, locator)?;
    let kernel = gpu.kernel(STATS, edges.kernel(false, column.form()).ok_or_else(|| no_kernel(gpu, column.form()))?)?;
    let (validity, rows) = (column.validity().map_or(NO_VALIDITY, |v| pointer(queue, v)), column.rows() as u64);
    sum_blocks(queue, column.rows(), locator.bins(), earlier, |config, from, in_shared, sums| {
        // SAFETY: the arguments are those of `weigh_*`; column and weights have `rows` values, and each block
        // writes sums of its own.
        unsafe {
            launch_with_bins!(queue, kernel, config, edges;
                column.values(), &validity, weights.values(), &rows, &from, &in_shared, sums)
        }
    })
}

/// Sums of `bins` bins over blocks of [`BLOCK`] rows, added in block order to those of earlier rows. `weigh(launch, first block, whether
/// sums fit shared memory, sums)` launches a kernel whose blocks each write the sums of one block of rows.
pub(super) fn sum_blocks(
    queue: &Queue,
    rows: usize,
    bins: usize,
    earlier: Earlier,
    weigh: impl Fn(LaunchConfig, u64, u32, &mut CudaSlice<f64>) -> Result<()>,
) -> Result<Vec<f64>> {
    if rows == 0 {
        return Ok(vec![0.0; bins]);
    }
    let add = queue.gpu().kernel(STATS, "add_blocks")?;
    // Small enough for several blocks a multiprocessor.
    let shared = if bins * 8 <= 48 << 10 { bins as u32 * 8 } else { 0 };
    let blocks = rows.div_ceil(BLOCK);
    // As many blocks of sums as fit a gigabyte.
    let wave = ((1 << 30) / (bins * 8)).clamp(1, blocks);
    queue.check_memory(&format!("the weights of {bins} bins"), (wave * bins * 8) as u64)?;
    let mut sums = queue.alloc::<f64>(&format!("sums of {}", size((wave * bins * 8) as u64)), wave * bins)?;
    let mut totals = queue.zeros::<f64>("the weights of bins", bins)?;
    for first in (0..blocks).step_by(wave) {
        let now = wave.min(blocks - first);
        weigh(grid(now as u32, 32, shared), first as u64, (shared > 0) as u32, &mut sums)?;
        if first == 0 {
            // This share's first sums are under way while others make those of earlier rows.
            earlier.write(queue, &mut totals)?;
        }
        let (count, cells) = (now as u64, bins as u32);
        // SAFETY: the arguments are those of `add_blocks`, with `now` blocks of sums.
        unsafe { launch!(queue, add, grid(cells.div_ceil(256), 256, 0); &sums, &count, &cells, &mut totals) }?;
    }
    let mut totals = queue.read(&totals)?;
    totals.truncate(bins);
    Ok(totals)
}

/// [`taiga_core::stats::min_max()`] on the GPU.
///
/// # Errors
/// [`Error::Device`].
pub fn min_max_of(queue: &Queue, column: &Column<'_>) -> Result<Option<MinMax>> {
    let mut found = None;
    for part in column.runs() {
        let scale = part.decimal_scale();
        let extremes = min_max(queue, &DeviceColumn::exact(queue, &part)?)?.map(|m| {
            let as_decimal = |x: ColumnValue| match (x, scale) {
                (ColumnValue::Integer(x), Some(scale)) => ColumnValue::Decimal(x, scale),
                (other, _) => other,
            };
            MinMax { min: as_decimal(m.min), max: as_decimal(m.max) }
        });
        found = wider(found, extremes);
    }
    Ok(found)
}

/// [`taiga_core::stats::histogram()`] on the GPU.
///
/// # Errors
/// As there; [`Error::Device`].
pub fn histogram(queue: &Queue, column: &Column<'_>, weights: Option<&Column<'_>>, params: &HistogramParams) -> Result<Histogram> {
    let mut steps = HistogramSteps::new(queue, column, weights);
    // Where the range is to be found, rows are counted in the same launch.
    steps.together = (params.axis.needs_extremes() && weights.is_none()).then(|| params.axis.bins());
    taiga_core::stats::histogram::by_steps(column, weights.is_some(), params, &mut steps)
}

/// A column on the GPU that a histogram is made of, or a share of its rows.
pub(super) struct HistogramSteps<'a> {
    queue: &'a Queue,
    column: &'a Column<'a>,
    weights: Option<&'a Column<'a>>,
    on_device: Option<DeviceColumn>,
    /// How many bins are counted together with the search for the extremes.
    together: Option<usize>,
    /// What was counted then.
    counts: Option<Vec<u64>>,
}

impl<'a> HistogramSteps<'a> {
    pub(super) fn new(queue: &'a Queue, column: &'a Column<'a>, weights: Option<&'a Column<'a>>) -> Self {
        HistogramSteps { queue, column, weights, on_device: None, together: None, counts: None }
    }

    /// The weights of each bin, added to those of earlier rows.
    pub(super) fn sum_behind(&mut self, bins: &Bins, earlier: Earlier) -> Result<Vec<f64>> {
        let (queue, weights) = (self.queue, self.weights);
        let Some(weights) = weights else { return Ok(vec![]) };
        let weights = DeviceColumn::doubles(queue, weights)?;
        sum(queue, self.column()?, &weights, &bins.locator(), earlier)
    }

    /// The column, copied once.
    fn column(&mut self) -> Result<&DeviceColumn> {
        match &mut self.on_device {
            Some(column) => Ok(column),
            empty => Ok(empty.insert(DeviceColumn::numeric(self.queue, self.column)?)),
        }
    }
}

impl Steps for HistogramSteps<'_> {
    /// As f64 the extremes of the values are the extremes of the values as f64, since rounding never
    /// changes an order.
    fn extremes(&mut self) -> Result<Option<(f64, f64)>> {
        let (queue, together) = (self.queue, self.together);
        let column = self.column()?;
        let both = |m: MinMax| (m.min.to_f64(), m.max.to_f64());
        if let Some(bins) = together
            && let Some(found) = count_by_range(queue, column, bins)?
        {
            self.counts = found.counts;
            return Ok(found.extremes.map(both));
        }
        Ok(min_max(queue, column)?.map(both))
    }

    fn count(&mut self, bins: &Bins) -> Result<Vec<u64>> {
        if let Some(counts) = self.counts.take() {
            return Ok(counts);
        }
        let queue = self.queue;
        count(queue, self.column()?, &bins.locator())
    }

    fn sum(&mut self, bins: &Bins) -> Result<Vec<f64>> {
        self.sum_behind(bins, Earlier::NONE)
    }
}
