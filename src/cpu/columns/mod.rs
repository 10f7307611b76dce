//! Columns on this process's threads.

use taiga_core::column::Column;
use taiga_core::column::categories::UncodedCategories;
use taiga_core::column_steps::{ColumnSteps, TakeCodes, blocks_of_codes, check_borders};
use taiga_core::encoding::TargetEncoder;
use taiga_core::encoding::combine::combine;
use taiga_core::encoding::target::{EncodingInput, EncodingPlan, TargetParams, UncodedInput, category_values, target_encode};
use taiga_core::error::Result;
use taiga_core::memory;
use taiga_core::quantize::borders::{BorderParams, fit_borders};
use taiga_core::quantize::codes::{Quantizer, QuantizerScratch};
use taiga_core::stats::bins::{Histogram2dParams, HistogramParams};
use taiga_core::stats::histogram::Histogram;
use taiga_core::stats::histogram2d::Histogram2d;
use taiga_core::stats::min_max::MinMax;
use taiga_core::stats::{histogram, histogram2d, min_max};
/// This process's threads.
pub struct CpuColumns;

impl ColumnSteps for CpuColumns {
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
            quantizer.codes(column, rows.start, rows.len(), 1, &mut codes, 1, &mut QuantizerScratch::default());
            take(block, &codes);
        });
        Ok(())
    }

    fn target_encode(&self, input: &EncodingInput<'_>, plan: &EncodingPlan, params: &TargetParams) -> Result<Vec<Vec<f64>>> {
        target_encode(input, plan, params)
    }

    fn target_encode_uncoded(&self, input: &UncodedInput<'_>, plan: &EncodingPlan, params: &TargetParams) -> Result<Vec<Vec<f64>>> {
        let codes = input.categories.codes()?;
        let (target, weight) = (input.target, input.weight);
        target_encode(&EncodingInput { codes: &codes.codes, categories: codes.categories(), target, weight }, plan, params)
    }

    fn category_values(&self, input: &EncodingInput<'_>, params: &TargetParams) -> Result<(Vec<f64>, Vec<f64>)> {
        category_values(input, params)
    }

    fn encode(&self, encoder: &TargetEncoder, column: usize, rows: &UncodedCategories<'_>) -> Result<Vec<Vec<f64>>> {
        encoder.encode(column, rows)
    }

    fn combine(&self, columns: &[(&[u32], usize)]) -> Result<(Vec<u32>, usize)> {
        combine(columns)
    }
}
