//! What a device does with whole columns: statistics, borders, codes and encodings, without a learner.

use crate::column::Column;
use crate::column::categories::UncodedCategories;
use crate::encoding::TargetEncoder;
use crate::encoding::target::{EncodingInput, EncodingPlan, TargetParams, UncodedInput};
use crate::error::{Error, Result};
use crate::parallel::interrupt;
use crate::quantize::borders::BorderParams;
use crate::stats::bins::{Histogram2dParams, HistogramParams};
use crate::stats::histogram::Histogram;
use crate::stats::histogram2d::Histogram2d;
use crate::stats::min_max::MinMax;
use rayon::prelude::*;
use std::ops::Range;
/// Rows of a block of [`ColumnSteps::codes`].
pub const BLOCK: usize = 1 << 16;

/// The most borders that [`ColumnSteps::codes`] counts: 16 bits are left for the codes and the missing values'.
pub const MOST_BORDERS: usize = 65_534;

/// Called with the number of a block and its codes, from several threads and in no order.
pub type TakeCodes<'a> = &'a (dyn Fn(usize, &[u16]) + Sync);

/// The steps of columns that a device implements, with the same bits on each.
pub trait ColumnSteps {
    /// Does what [`crate::stats::min_max()`] does.
    ///
    /// # Errors
    /// Those of the device.
    fn min_max(&self, column: &Column<'_>) -> Result<Option<MinMax>>;

    /// Does what [`crate::stats::histogram()`] does.
    ///
    /// # Errors
    /// As there, and those of the device.
    fn histogram(&self, column: &Column<'_>, weights: Option<&Column<'_>>, params: &HistogramParams) -> Result<Histogram>;

    /// Does what [`crate::stats::histogram2d()`] does.
    ///
    /// # Errors
    /// As there, and those of the device.
    fn histogram2d(&self, x: &Column<'_>, y: &Column<'_>, weights: Option<&Column<'_>>, params: &Histogram2dParams) -> Result<Histogram2d>;

    /// Does what [`crate::quantize::borders::fit_borders`] does.
    ///
    /// # Errors
    /// Those of the device.
    fn borders(&self, column: &Column<'_>, params: &BorderParams) -> Result<Vec<f64>>;

    /// Computes the codes of a column's values among ascending `borders`, one more than the number of borders below the value and 0 for
    /// a missing value ([`crate::quantize::codes`]), by blocks of [`BLOCK`] rows.
    ///
    /// # Errors
    /// For more than [`MOST_BORDERS`] borders; those of the device.
    fn codes(&self, column: &Column<'_>, borders: &[f64], take: TakeCodes<'_>) -> Result<()>;

    /// Does what [`crate::encoding::target::target_encode`] does.
    ///
    /// # Errors
    /// As there, and those of the device.
    fn target_encode(&self, input: &EncodingInput<'_>, plan: &EncodingPlan, params: &TargetParams) -> Result<Vec<Vec<f64>>>;

    /// Does what [`crate::encoding::target::target_encode`] does with a category for each distinct value, and one for nulls.
    ///
    /// # Errors
    /// As there, those of [`UncodedCategories::codes`], and those of the device.
    fn target_encode_uncoded(&self, input: &UncodedInput<'_>, plan: &EncodingPlan, params: &TargetParams) -> Result<Vec<Vec<f64>>>;

    /// Does what [`crate::encoding::target::category_values`] does, for [`crate::encoding::TargetEncoder::fit_by`].
    ///
    /// # Errors
    /// As there, and those of the device.
    fn category_values(&self, input: &EncodingInput<'_>, params: &TargetParams) -> Result<(Vec<f64>, Vec<f64>)>;

    /// Does what [`TargetEncoder::encode`] does.
    ///
    /// # Errors
    /// As there, and those of the device.
    fn encode(&self, encoder: &TargetEncoder, column: usize, rows: &UncodedCategories<'_>) -> Result<Vec<Vec<f64>>>;

    /// Does what [`crate::encoding::combine::combine`] does.
    ///
    /// # Errors
    /// As there, and those of the device.
    fn combine(&self, columns: &[(&[u32], usize)]) -> Result<(Vec<u32>, usize)>;
}

/// Calls `work(block, its rows)` for each block of `rows` rows, on all threads where there are several.
pub fn blocks_of_codes(rows: usize, work: impl Fn(usize, Range<usize>) + Sync) {
    let one = |block: usize| {
        interrupt::poll();
        work(block, block * BLOCK..rows.min((block + 1) * BLOCK))
    };
    match rows.div_ceil(BLOCK) {
        blocks @ 0..2 => (0..blocks).for_each(one),
        blocks => (0..blocks).into_par_iter().for_each(one),
    }
}

/// Checks that there are no more borders than [`MOST_BORDERS`].
pub fn check_borders(borders: &[f64]) -> Result<()> {
    if borders.len() > MOST_BORDERS {
        return Err(Error::parameter("borders", format!("{} are more than {MOST_BORDERS}", borders.len())));
    }
    Ok(())
}
