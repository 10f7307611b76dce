//! The verbs over columns that need no learner: statistics and encodings, each a call of its own, on
//! the device that is asked for.

use super::Device;
use crate::column::Column;
use crate::encoding::combine::combine;
use crate::encoding::target::{EncodingInput, Plan, TargetParams, category_values, target_encode};
use crate::error::Result;
use crate::stats::{Histogram, Histogram2d, Histogram2dParams, HistogramParams, MinMax, histogram, histogram2d, min_max};

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
    match Device::parse(device)? {
        Device::Auto | Device::Cpu => body(&CpuColumns),
        #[cfg(feature = "cuda")]
        Device::Cuda(number) => body(&super::cuda::CudaColumns::new(super::cuda::Gpu::get(number)?)?),
        #[cfg(not(feature = "cuda"))]
        Device::Cuda(_) => Err(super::no_cuda(device)),
    }
}
