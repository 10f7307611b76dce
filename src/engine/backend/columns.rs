//! The verbs over columns that need no learner: statistics and encodings, each a call of its own, on
//! the device that is asked for.

use super::Device;
use crate::column::Column;
use crate::error::Result;
use crate::stats::{Histogram, HistogramParams, MinMax, histogram, min_max};

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
}

/// Runs `body` on the device that `device` names (as [`Device::parse`] has it), in the rayon pool that
/// it is called in. [`Device::Auto`] is the CPU: a column that lies in host memory takes longer over the
/// bus than a few cores take to read it.
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
