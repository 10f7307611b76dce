//! Target encoding on the GPU: what [`taiga_core::encoding::target`] computes, with the same bits.
//!
//! ```text
//! ordered            (category, place in the order) ─► radix sort ─► segmented scan, which writes each row's value
//! kfold, loo, full   category (and fold)            ─► radix sort ─► segmented scan, which writes each cell's sum
//!                                                       ─► values of cells ─► looked up by the rows
//! ```
//!
//! Sums are integers, so the order in which they are added never matters, and several GPUs may have a share of the rows each.

mod cells;
mod measure;
mod ordered;
mod scan;
pub(super) mod share;
mod statistic;

pub use measure::measure;
pub(crate) use scan::{CategoryKeys, ScanMode, ScanOutput, scan};
pub(crate) use statistic::TargetColumns;

use super::categories::{DeviceCodes, PackedTexts, look_up};
use crate::launch;
use crate::runtime::column::DeviceColumn;
use crate::runtime::device::Image;
use crate::runtime::queue::{Queue, each_row};
use crate::runtime::upload::upload;
use cells::{by_fold, plain};
use cudarc::driver::CudaSlice;
use ordered::ordered;
use share::Share;
use statistic::DeviceStatistic;
use std::ops::Range;
use taiga_core::column::categories::UncodedCategories;
use taiga_core::encoding::TargetEncoder;
use taiga_core::encoding::permutation::RandomFolds;
use taiga_core::encoding::target::{EncodingInput, EncodingPlan, EncodingTarget, Prepared, TargetParams, UncodedInput, check_folds};
use taiga_core::error::Result;
use taiga_core::pages;

/// `kernels/columns/target_encode.cu`.
const TARGET_ENCODE: Image = Image { name: "columns/target_encode", bytes: taiga_kernels::images::target_encode };

const THREADS: u32 = 256;

/// `WINDOW_BITS` of `place_values`.
const WINDOW_BITS: u32 = 12;

fn download(queue: &Queue, values: &CudaSlice<f64>, n: usize) -> Result<Vec<f64>> {
    // Not of zeros: one thread would write them.
    let mut out = pages::try_with_capacity("encoded values", n)?;
    queue.append_parts(values, n, [&mut out])?;
    Ok(out)
}

/// [`taiga_core::encoding::target::target_encode`] on the GPU.
///
/// # Errors
/// As there; [`Error::Device`].
pub fn target_encode(queue: &Queue, input: &EncodingInput<'_>, plan: &EncodingPlan, params: &TargetParams) -> Result<Vec<Vec<f64>>> {
    params.validate()?;
    input.check()?;
    check_room(queue, input.codes.len(), 0)?;
    let codes = DeviceCodes::new(queue, "the categories", input.codes, input.categories)?;
    encode_whole(queue, &codes, input.target, input.weight, plan, params)
}

/// [`taiga_core::column_steps::ColumnSteps::target_encode_uncoded`] on the GPU.
///
/// # Errors
/// As there; [`Error::Device`].
pub fn target_encode_uncoded(queue: &Queue, input: &UncodedInput<'_>, plan: &EncodingPlan, params: &TargetParams) -> Result<Vec<Vec<f64>>> {
    params.validate()?;
    input.check()?;
    // To an ordered encoding unused numbers are no more than bits to sort by.
    let most = if let EncodingPlan::Ordered(_) = plan { 1 << 31 } else { most_near(input.categories.rows()) };
    let codes = number(queue, &input.categories, most)?;
    encode_whole(queue, &codes, input.target, input.weight, plan, params)
}

/// The most categories whose numbers may be distances from the least: their sums are a table.
pub(super) fn most_near(rows: usize) -> usize {
    (rows / 4).max(1 << 20)
}

/// Numbers categories, integers that are near each other by distances where there are at most `most`.
///
/// # Errors
/// [`Error::Device`], [`Error::Memory`].
pub(super) fn number(queue: &Queue, categories: &UncodedCategories<'_>, most: usize) -> Result<DeviceCodes> {
    let rows = categories.rows();
    // A sort that numbers them takes what that of the encoding does, which comes behind it.
    match categories {
        UncodedCategories::Integers(column) => {
            check_room(queue, rows, DeviceColumn::exact_bytes(column) as u64)?;
            DeviceCodes::of_integers(queue, column, most)
        }
        UncodedCategories::Texts(texts) => {
            let packed = PackedTexts::new(*texts);
            check_room(queue, rows, packed.bytes())?;
            DeviceCodes::of_texts(queue, &packed)
        }
    }
}

/// Checks that there is room for an encoding of rows, and `more` bytes for what their codes are made from.
pub(super) fn check_room(queue: &Queue, rows: usize, more: u64) -> Result<()> {
    // Codes, keys and rows twice, the order, a target and a weight, a value three times.
    queue.check_memory("target encoding", more + rows as u64 * (4 + 24 + 4 + 16 + 20 + 8))
}

/// Encodes all rows by their codes.
fn encode_whole(
    queue: &Queue,
    codes: &DeviceCodes,
    target: EncodingTarget<'_>,
    weight: Option<&[f64]>,
    plan: &EncodingPlan,
    params: &TargetParams,
) -> Result<Vec<Vec<f64>>> {
    if codes.rows == 0 {
        return Ok(vec![vec![]; target.outputs()]);
    }
    let prepared = Prepared::new(target, weight, params);
    let values = encode(queue, codes, &prepared, &Share::whole(codes.rows), plan, params)?;
    values.iter().map(|values| download(queue, values, codes.rows)).collect()
}

/// Encodes a share of the rows by their codes, the values of each output on the GPU; an ordered encoding is one of all rows.
///
/// # Errors
/// As [`target_encode`].
pub(super) fn encode(
    queue: &Queue,
    codes: &DeviceCodes,
    prepared: &Prepared<'_>,
    share: &Share<'_>,
    plan: &EncodingPlan,
    params: &TargetParams,
) -> Result<Vec<CudaSlice<f64>>> {
    let statistics = prepared.statistics();
    let packed = statistics.len() == 1;
    let statistics = statistics.into_iter().map(|s| DeviceStatistic::new(queue, s, share, packed)).collect::<Result<Vec<_>>>()?;
    let in_folds = |folds: DeviceCodes| statistics.iter().map(|s| by_fold(queue, codes, &folds, s, params)).collect();
    match plan {
        EncodingPlan::Ordered(orders) => ordered(queue, codes, &statistics, orders, params),
        EncodingPlan::Folds(folds, count) => {
            check_folds(folds.len(), share.all())?;
            in_folds(DeviceCodes::new(queue, "the folds", &folds[share.rows()], *count)?)
        }
        EncodingPlan::RandomFolds(folds) => {
            check_folds(folds.rows(), share.all())?;
            in_folds(random_folds(queue, folds, share.rows())?)
        }
        EncodingPlan::Plain => statistics.iter().map(|s| plain(queue, codes, s, params)).collect(),
    }
}

/// The folds of a share of the rows.
fn random_folds(queue: &Queue, folds: &RandomFolds, share: Range<usize>) -> Result<DeviceCodes> {
    let rows = share.len();
    let (begins, before) = (upload(queue, "the folds", &folds.begins)?, upload(queue, "the folds", &folds.before)?);
    let mut codes = queue.alloc::<u32>("the folds", rows)?;
    let kernel = queue.gpu().kernel(TARGET_ENCODE, "random_folds")?;
    let (first, n, key) = (share.start as u64, rows as u64, folds.random().key());
    // SAFETY: the arguments are those of `random_folds`, with an entry more than buckets, none above the number of beginnings.
    unsafe { launch!(queue, kernel, each_row(queue, rows); &first, &n, &key, &begins, &before, &folds.bits, &mut codes) }?;
    Ok(DeviceCodes { codes, rows, categories: folds.count() })
}

/// [`TargetEncoder::encode`] on the GPU.
///
/// # Errors
/// As there; [`Error::Device`].
pub fn encode_fitted(queue: &Queue, encoder: &TargetEncoder, column: usize, rows: &UncodedCategories<'_>) -> Result<Vec<Vec<f64>>> {
    let mut out = vec![];
    each_fitted(queue, encoder, column, rows, |values| {
        out.push(download(queue, values, rows.rows())?);
        Ok(())
    })?;
    Ok(out)
}

/// Calls `take` with the values of one output after the other of [`encode_fitted`], which are on the GPU.
///
/// # Errors
/// As there, and those of `take`.
pub(super) fn each_fitted(
    queue: &Queue,
    encoder: &TargetEncoder,
    column: usize,
    rows: &UncodedCategories<'_>,
    mut take: impl FnMut(&CudaSlice<f64>) -> Result<()>,
) -> Result<()> {
    let n = rows.rows();
    // Codes and values of an output, and the raw values of integers, or the starts of texts; texts are measured when they are packed.
    queue.check_memory("the encoding of rows", n as u64 * (4 + 8 + 8))?;
    let codes = look_up(queue, rows, encoder.columns()[column].lookup())?;
    (0..encoder.outputs()).try_for_each(|output| {
        let values = upload(queue, "the values of categories", &encoder.values_of(column, output))?;
        take(&cells::look_up(queue, &values, &codes, None, n)?)
    })
}

/// [`taiga_core::encoding::target::category_values`] on the GPU.
///
/// # Errors
/// As there; [`Error::Device`].
pub fn category_values(queue: &Queue, input: &EncodingInput<'_>, params: &TargetParams) -> Result<(Vec<f64>, Vec<f64>)> {
    params.validate()?;
    input.check()?;
    let prepared = Prepared::new(input.target, input.weight, params);
    values_of_categories(queue, input, &prepared, &Share::whole(input.codes.len()), params)
}

/// [`category_values`] of all rows, of which this GPU has a share.
///
/// # Errors
/// [`Error::Device`].
pub(super) fn values_of_categories(
    queue: &Queue,
    input: &EncodingInput<'_>,
    prepared: &Prepared<'_>,
    share: &Share<'_>,
    params: &TargetParams,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let (rows, outputs) = (share.rows().len(), input.target.outputs());
    queue.check_memory("fitting an encoder", rows as u64 * (4 + 16 + 16) + input.categories as u64 * 56)?;
    let codes = DeviceCodes::new(queue, "the categories", &input.codes[share.rows()], input.categories)?;
    let mut values = vec![0.0; input.categories * outputs];
    let mut priors = vec![];
    for (k, host) in prepared.statistics().into_iter().enumerate() {
        let statistic = DeviceStatistic::new(queue, host, share, true)?;
        let sums = if rows > 0 { statistic.total(queue)? } else { [0; 3] };
        let (_, smoothing) = statistic.smoothing(sums, params);
        priors.push(smoothing.prior / smoothing.scale);
        if input.categories > 0 {
            let column = download(queue, &statistic.category_values(queue, &codes, &smoothing)?, input.categories)?;
            column.into_iter().enumerate().for_each(|(category, value)| values[category * outputs + k] = value);
        }
    }
    Ok((values, priors))
}
