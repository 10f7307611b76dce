//! Histograms of two columns: what [`taiga_core::stats::histogram2d()`] computes, with the same bits.

use super::stats::{COUNT_THREADS, DeviceEdges, Earlier, Uniform, layout, sum_blocks};
use crate::launch;
use crate::runtime::column::{DeviceColumn, Form};
use crate::runtime::device::{Image, Kernel};
use crate::runtime::layouts::kernel_structs;
use crate::runtime::memory::pointer;
use crate::runtime::queue::{Queue, grid};
use cudarc::driver::CudaSlice;
use taiga_core::column::{Column, Width};
use taiga_core::error::{Error, Result};
use taiga_core::stats::histogram2d::{Extremes2d, Steps2d, by_steps};
use taiga_core::stats::locate::Locator;
use taiga_core::stats::{Histogram2d, Histogram2dParams};

/// `kernels/columns/stats2d.cu`.
const STATS2D: Image = Image { name: "columns/stats2d", bytes: taiga_kernels::images::stats2d };

/// Threads of a block of `extremes_2d`.
const EXTREMES_THREADS: u32 = 512;

kernel_structs! { FloatColumn, AxisBins, Cells2d }

/// [`taiga_core::stats::histogram2d()`] on the GPU.
///
/// # Errors
/// As there; [`Error::Device`].
pub fn histogram2d(
    queue: &Queue,
    x: &Column<'_>,
    y: &Column<'_>,
    weights: Option<&Column<'_>>,
    params: &Histogram2dParams,
) -> Result<Histogram2d> {
    by_steps(x, y, weights.is_some(), params, &mut Histogram2dSteps::new(queue, [x, y], weights))
}

/// Two columns on the GPU that a histogram is made of, or a share of their rows.
pub(super) struct Histogram2dSteps<'a> {
    queue: &'a Queue,
    columns: [&'a Column<'a>; 2],
    weights: Option<&'a Column<'a>>,
    on_device: Option<[DeviceColumn; 2]>,
}

/// A column as floats, which a missing value is NaN of.
fn reals(queue: &Queue, column: &Column<'_>) -> Result<DeviceColumn> {
    match column.width() {
        Width::Single => {
            let exact = DeviceColumn::numeric(queue, column)?;
            // Chunks of several types, which no Arrow column has.
            if exact.form() == Form::F32 { Ok(exact) } else { DeviceColumn::doubles(queue, column) }
        }
        _ => DeviceColumn::doubles(queue, column),
    }
}

impl<'a> Histogram2dSteps<'a> {
    pub(super) fn new(queue: &'a Queue, columns: [&'a Column<'a>; 2], weights: Option<&'a Column<'a>>) -> Self {
        Histogram2dSteps { queue, columns, weights, on_device: None }
    }

    /// The columns, copied once.
    fn columns(&mut self) -> Result<[FloatColumn; 2]> {
        let queue = self.queue;
        let on_device = match &mut self.on_device {
            Some(columns) => columns,
            empty => empty.insert([reals(queue, self.columns[0])?, reals(queue, self.columns[1])?]),
        };
        Ok(on_device.each_ref().map(|c| FloatColumn { values: pointer(queue, c.values()), single: (c.form() == Form::F32) as u64 }))
    }

    fn rows(&self) -> usize {
        self.columns[0].len()
    }

    /// The cells, and the edges that they point to.
    fn cells(&mut self, x: &Locator, y: &Locator) -> Result<(Cells2d, [DeviceEdges; 2])> {
        let edges = [DeviceEdges::new(self.queue, x)?, DeviceEdges::new(self.queue, y)?];
        let bins = |edges: &DeviceEdges| {
            let uniform = edges.doubles().ok_or_else(|| Error::Data("bins of f32 for two columns".into()))?;
            Ok::<_, Error>(AxisBins { uniform, any: (uniform.scale == 0.0) as u64 })
        };
        let (x_bins, y_bins) = (bins(&edges[0])?, bins(&edges[1])?);
        let [x, y] = self.columns()?;
        Ok((Cells2d { x, y, x_bins, y_bins }, edges))
    }

    fn kernel(&self, name: &'static str) -> Result<Kernel> {
        self.queue.gpu().kernel(STATS2D, name)
    }

    /// The weights of each cell, added to those of earlier rows.
    pub(super) fn sum_behind(&mut self, x: &Locator, y: &Locator, earlier: Earlier) -> Result<Vec<f64>> {
        let (queue, rows, bins) = (self.queue, self.rows(), x.bins() * y.bins());
        let Some(weights) = self.weights else { return Ok(vec![]) };
        let weights = DeviceColumn::doubles(queue, weights)?;
        assert_eq!(weights.rows(), rows, "a weight for each row");
        let (cells, _edges) = self.cells(x, y)?;
        let kernel = self.kernel("weigh_2d")?;
        let count = rows as u64;
        sum_blocks(queue, rows, bins, earlier, |config, from, in_shared, sums: &mut CudaSlice<f64>| {
            // SAFETY: the arguments are those of `weigh_2d`; columns and weights have `rows` values, and each block writes
            // sums of its own.
            unsafe { launch!(queue, kernel, config; &cells, weights.values(), &count, &from, &in_shared, sums) }
        })
    }
}

impl Steps2d for Histogram2dSteps<'_> {
    fn extremes(&mut self) -> Result<Option<Extremes2d>> {
        let (queue, rows) = (self.queue, self.rows());
        if rows == 0 {
            return Ok(None);
        }
        let [x, y] = self.columns()?;
        let kernel = self.kernel("extremes_2d")?;
        let most = queue.gpu().multiprocessors() * (2048 / EXTREMES_THREADS);
        let blocks = (rows.div_ceil(EXTREMES_THREADS as usize) as u32).min(most);
        let mut out = queue.alloc::<f64>("the extremes", 4 * blocks as usize)?;
        let count = rows as u64;
        // SAFETY: the arguments are those of `extremes_2d`; both columns have `rows` values, and each block writes four.
        unsafe { launch!(queue, kernel, grid(blocks, EXTREMES_THREADS, 0); &x, &y, &count, &mut out) }?;
        let mut found = [(f64::INFINITY, f64::NEG_INFINITY); 2];
        for block in queue.read(&out)?.chunks_exact(4) {
            for ((low, high), pair) in found.iter_mut().zip(block.chunks_exact(2)) {
                (*low, *high) = (low.min(pair[0]), high.max(pair[1]));
            }
        }
        Ok((found[0].0 <= found[0].1).then(|| found.map(|(low, high)| (low + 0.0, high + 0.0))))
    }

    fn count(&mut self, x: &Locator, y: &Locator) -> Result<Vec<u64>> {
        let (queue, rows, bins) = (self.queue, self.rows(), x.bins() * y.bins());
        let mut totals = queue.zeros::<u64>("the counts", bins)?;
        if rows > 0 {
            let (cells, _edges) = self.cells(x, y)?;
            let kernel = self.kernel("count_2d")?;
            let layout = layout(queue.gpu(), &kernel, bins, 0)?;
            let most = queue.gpu().multiprocessors() * layout.blocks_per_multiprocessor;
            let config = grid((rows.div_ceil(COUNT_THREADS as usize) as u32).min(most), COUNT_THREADS, layout.shared);
            let count = rows as u64;
            // SAFETY: the arguments are those of `count_2d`; both columns have `rows` values, shared memory holds the counters
            // that the layout says, and there is a total for each cell.
            unsafe { launch!(queue, kernel, config; &cells, &count, &layout.shift, &mut totals) }?;
        }
        let mut totals = queue.read(&totals)?;
        totals.truncate(bins);
        Ok(totals)
    }

    fn sum(&mut self, x: &Locator, y: &Locator) -> Result<Vec<f64>> {
        self.sum_behind(x, y, Earlier::NONE)
    }
}
