//! The verbs over columns, on a GPU.

pub mod borders;
pub mod categories;
pub mod codes;
pub mod combine;
mod kernel_names;
pub mod range;
pub mod several_gpus;
pub mod stats;
pub mod stats2d;
pub mod target_encode;

use super::runtime::device::Gpu;
use super::runtime::queue::Queue;
use taiga_core::column::Column;
use taiga_core::column::categories::UncodedCategories;
use taiga_core::column_steps::{ColumnSteps, TakeCodes, blocks_of_codes, check_borders};
use taiga_core::encoding::TargetEncoder;
use taiga_core::encoding::target::{EncodingInput, EncodingPlan, TargetParams, UncodedInput};
use taiga_core::error::Result;
use taiga_core::quantize::borders::BorderParams;
use taiga_core::stats::{Histogram, Histogram2d, Histogram2dParams, HistogramParams, MinMax};

/// A GPU for one call of a verb or several.
pub struct CudaColumns {
    queue: Queue,
}

impl CudaColumns {
    /// On `gpu`.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn new(gpu: &'static Gpu) -> Result<Self> {
        Ok(CudaColumns { queue: Queue::new(gpu)? })
    }
}

impl ColumnSteps for CudaColumns {
    fn min_max(&self, column: &Column<'_>) -> Result<Option<MinMax>> {
        stats::min_max_of(&self.queue, column)
    }

    fn histogram(&self, column: &Column<'_>, weights: Option<&Column<'_>>, params: &HistogramParams) -> Result<Histogram> {
        stats::histogram(&self.queue, column, weights, params)
    }

    fn histogram2d(&self, x: &Column<'_>, y: &Column<'_>, weights: Option<&Column<'_>>, params: &Histogram2dParams) -> Result<Histogram2d> {
        stats2d::histogram2d(&self.queue, x, y, weights, params)
    }

    fn borders(&self, column: &Column<'_>, params: &BorderParams) -> Result<Vec<f64>> {
        borders::borders(&self.queue, column, params)
    }

    fn codes(&self, column: &Column<'_>, borders: &[f64], take: TakeCodes<'_>) -> Result<()> {
        check_borders(borders)?;
        let codes = codes::codes_of(&self.queue, column, borders)?;
        blocks_of_codes(codes.len(), |block, rows| take(block, &codes[rows]));
        Ok(())
    }

    fn target_encode(&self, input: &EncodingInput<'_>, plan: &EncodingPlan, params: &TargetParams) -> Result<Vec<Vec<f64>>> {
        target_encode::target_encode(&self.queue, input, plan, params)
    }

    fn target_encode_uncoded(&self, input: &UncodedInput<'_>, plan: &EncodingPlan, params: &TargetParams) -> Result<Vec<Vec<f64>>> {
        target_encode::target_encode_uncoded(&self.queue, input, plan, params)
    }

    fn category_values(&self, input: &EncodingInput<'_>, params: &TargetParams) -> Result<(Vec<f64>, Vec<f64>)> {
        target_encode::category_values(&self.queue, input, params)
    }

    fn encode(&self, encoder: &TargetEncoder, column: usize, rows: &UncodedCategories<'_>) -> Result<Vec<Vec<f64>>> {
        target_encode::encode_fitted(&self.queue, encoder, column, rows)
    }

    fn combine(&self, columns: &[(&[u32], usize)]) -> Result<(Vec<u32>, usize)> {
        combine::combine(&self.queue, columns)
    }
}
