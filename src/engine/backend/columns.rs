//! The verbs over columns that need no learner: statistics and encodings, each a call of its own, on
//! the device that is asked for.

use super::Device;
use super::fallback::{or_on_cpu, takes_everything};
use crate::column::Column;
use crate::encoding::combine::combine;
use crate::encoding::target::{EncodingInput, Plan, TargetParams, category_values, target_encode};
use crate::error::{Error, Result};
use crate::memory;
use crate::parallel::interrupt;
use crate::quantize::borders::{BorderParams, fit_borders};
use crate::quantize::codes::{Quantizer, Scratch};
use crate::stats::{Histogram, Histogram2d, Histogram2dParams, HistogramParams, MinMax, histogram, histogram2d, min_max};
use rayon::prelude::*;
use std::ops::Range;

/// Rows of a block of [`ColumnBackend::codes`].
pub const BLOCK: usize = 1 << 16;

/// The most borders that [`ColumnBackend::codes`] counts: 16 bits are left for the codes and the missing values'.
pub const MOST_BORDERS: usize = 65_534;

/// Called with the number of a block and its codes, from several threads and in no order.
pub type TakeCodes<'a> = &'a (dyn Fn(usize, &[u16]) + Sync);

/// What a device does with columns: the same bits on each.
pub trait ColumnBackend {
    /// [`crate::stats::min_max()`].
    ///
    /// # Errors
    /// Those of the device.
    fn min_max(&self, column: &Column<'_>) -> Result<Option<MinMax>>;

    /// [`crate::stats::histogram()`].
    ///
    /// # Errors
    /// As there, and those of the device.
    fn histogram(&self, column: &Column<'_>, weights: Option<&Column<'_>>, params: &HistogramParams) -> Result<Histogram>;

    /// [`crate::stats::histogram2d()`].
    ///
    /// # Errors
    /// As there, and those of the device.
    fn histogram2d(&self, x: &Column<'_>, y: &Column<'_>, weights: Option<&Column<'_>>, params: &Histogram2dParams) -> Result<Histogram2d>;

    /// [`crate::quantize::borders::fit_borders`].
    ///
    /// # Errors
    /// Those of the device.
    fn borders(&self, column: &Column<'_>, params: &BorderParams) -> Result<Vec<f64>>;

    /// The codes of a column's values among ascending `borders`, one more than the number of borders below the value and 0 for
    /// a missing value ([`crate::quantize::codes`]), by blocks of [`BLOCK`] rows.
    ///
    /// # Errors
    /// For more than [`MOST_BORDERS`] borders; those of the device.
    fn codes(&self, column: &Column<'_>, borders: &[f64], take: TakeCodes<'_>) -> Result<()>;

    /// [`crate::encoding::target::target_encode`].
    ///
    /// # Errors
    /// As there, and those of the device.
    fn target_encode(&self, input: &EncodingInput<'_>, plan: &Plan, params: &TargetParams) -> Result<Vec<Vec<f64>>>;

    /// [`crate::encoding::target::category_values`], for [`crate::encoding::TargetEncoder::fit_by`].
    ///
    /// # Errors
    /// As there, and those of the device.
    fn category_values(&self, input: &EncodingInput<'_>, params: &TargetParams) -> Result<(Vec<f64>, Vec<f64>)>;

    /// [`crate::encoding::combine::combine`].
    ///
    /// # Errors
    /// As there, and those of the device.
    fn combine(&self, columns: &[(&[u32], usize)]) -> Result<(Vec<u32>, usize)>;
}

/// Calls `work(block, its rows)` for each block of `rows` rows, on all threads where there are several.
pub(super) fn blocks_of_codes(rows: usize, work: impl Fn(usize, Range<usize>) + Sync) {
    let one = |block: usize| {
        interrupt::poll();
        work(block, block * BLOCK..rows.min((block + 1) * BLOCK))
    };
    match rows.div_ceil(BLOCK) {
        blocks @ 0..2 => (0..blocks).for_each(one),
        blocks => (0..blocks).into_par_iter().for_each(one),
    }
}

/// This process's threads.
struct CpuColumns;

impl ColumnBackend for CpuColumns {
    fn min_max(&self, column: &Column<'_>) -> Result<Option<MinMax>> {
        Ok(min_max(column))
    }

    fn histogram(&self, column: &Column<'_>, weights: Option<&Column<'_>>, params: &HistogramParams) -> Result<Histogram> {
        histogram(column, weights, params)
    }

    fn histogram2d(&self, x: &Column<'_>, y: &Column<'_>, weights: Option<&Column<'_>>, params: &Histogram2dParams) -> Result<Histogram2d> {
        histogram2d(x, y, weights, params)
    }

    fn borders(&self, column: &Column<'_>, params: &BorderParams) -> Result<Vec<f64>> {
        let sampled = column.len().min(params.sample) as u64;
        // The sample, and keys that are sorted from one place to another, of 32 bits where those will do.
        let _reserved = memory::reserve(&format!("borders of a sample of {sampled} rows"), 16 * sampled, "lower `sample`")?;
        Ok(fit_borders(column, params))
    }

    fn codes(&self, column: &Column<'_>, borders: &[f64], take: TakeCodes<'_>) -> Result<()> {
        check_borders(borders)?;
        let rows = column.len() as u64;
        let narrow = if borders.len() < 256 { 1 } else { 2 };
        let _reserved = memory::reserve(&format!("the codes of {rows} rows"), rows * narrow, "quantize fewer rows")?;
        let quantizer = Quantizer::new(borders);
        blocks_of_codes(column.len(), |block, rows| {
            let mut codes = vec![0; rows.len()];
            quantizer.codes(column, rows.start, rows.len(), 1, &mut codes, 1, &mut Scratch::default());
            take(block, &codes);
        });
        Ok(())
    }

    fn target_encode(&self, input: &EncodingInput<'_>, plan: &Plan, params: &TargetParams) -> Result<Vec<Vec<f64>>> {
        target_encode(input, plan, params)
    }

    fn category_values(&self, input: &EncodingInput<'_>, params: &TargetParams) -> Result<(Vec<f64>, Vec<f64>)> {
        category_values(input, params)
    }

    fn combine(&self, columns: &[(&[u32], usize)]) -> Result<(Vec<u32>, usize)> {
        combine(columns)
    }
}

/// Runs `body` on the device that `device` names (as [`Device::parse`] has it), in the rayon pool that
/// it is called in. [`Device::Auto`] is the CPU: the bus brings a column at the speed of some ten cores, and
/// a process that has not used the GPU yet pays more to open it than a statistic ever gains.
///
/// # Errors
/// Those of [`Device::parse`], the device and `body`.
pub fn with_columns<R>(device: &str, body: impl FnOnce(&dyn ColumnBackend) -> Result<R>) -> Result<R> {
    run(Device::parse(device)?, device, body)
}

/// [`with_columns`] for a `body` that sorts `values` values, on one thread where it is the CPU's. [`Device::Auto`] is then the
/// GPU, if there is one with room for them, where it gains (from about 20 million values on); `told` is called with the device and the
/// reason where a GPU came into question.
///
/// # Errors
/// As there.
pub fn with_sorting_columns<R>(
    device: &str,
    values: usize,
    told: &dyn Fn(&str),
    body: impl Fn(&dyn ColumnBackend) -> Result<R>,
) -> Result<R> {
    or_on_cpu(device, told, |device| {
        let chosen = match Device::parse(device)? {
            Device::Auto if takes_everything() || gains_by_sorting(values) => sorting_gpu(values, told),
            named => named,
        };
        run(chosen, device, &body)
    })
}

fn run<R>(chosen: Device, _asked: &str, body: impl FnOnce(&dyn ColumnBackend) -> Result<R>) -> Result<R> {
    match chosen {
        Device::Auto | Device::Cpu => body(&CpuColumns),
        #[cfg(feature = "cuda")]
        Device::Cuda(number) => body(&super::cuda::CudaColumns::new(super::cuda::Gpu::get(number)?)?),
        #[cfg(not(feature = "cuda"))]
        Device::Cuda(_) => Err(super::no_cuda(_asked)),
    }
}

/// Whether a GPU sorts so many values sooner: a thread of the CPU takes 17 to 62 ns a value (10^8 of them; 100 different f32, and
/// f64), a GPU 0.3 s to be opened and 0.1 to 0.25 ns a value (an H200, from host memory; more here, for lesser ones).
fn gains_by_sorting(values: usize) -> bool {
    values as f64 * 15e-9 > 0.3 + values as f64 * 0.5e-9
}

#[cfg(feature = "cuda")]
fn sorting_gpu(values: usize, told: &dyn Fn(&str)) -> Device {
    let room = |gpu| super::cuda::Queue::new(gpu)?.check_memory("sorting", super::cuda::borders::most_bytes(values));
    match super::cuda::Gpu::get(None).and_then(room) {
        Ok(()) => {
            told(&format!("cuda: {values} values are sorted"));
            Device::Cuda(None)
        }
        Err(why) => {
            told(&format!("cpu: {why}"));
            Device::Cpu
        }
    }
}

#[cfg(not(feature = "cuda"))]
fn sorting_gpu(_: usize, told: &dyn Fn(&str)) -> Device {
    told(&format!("cpu: {}", super::NO_CUDA));
    Device::Cpu
}

/// An error for more borders than [`MOST_BORDERS`].
pub(super) fn check_borders(borders: &[f64]) -> Result<()> {
    if borders.len() > MOST_BORDERS {
        return Err(Error::parameter("borders", format!("{} are more than {MOST_BORDERS}", borders.len())));
    }
    Ok(())
}
