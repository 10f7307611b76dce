//! Target encoding on the GPU: what [`taiga_core::encoding::target`] computes, with the same bits.
//!
//! ```text
//! ordered            (category, place in the order) ─► radix sort ─► segmented scan, which writes each row's value
//! kfold, loo, full   category (and fold)            ─► radix sort ─► segmented scan, which writes each cell's sum
//!                                                       ─► values of cells ─► looked up by the rows
//! ```
//!
//! Sums are integers, so the order in which they are added never matters.

mod cells;
mod measure;
mod ordered;
mod scan;
mod statistic;

pub use measure::measure;
pub(crate) use scan::{CategoryKeys, ScanMode, ScanOutput, scan};
pub(crate) use statistic::TargetColumns;

use crate::runtime::column::{bytes_of, bytes_of_mut};
use crate::runtime::device::Image;
use crate::runtime::queue::Queue;
use cells::{by_fold, plain};
use cudarc::driver::CudaSlice;
use ordered::ordered;
use statistic::DeviceStatistic;
use std::sync::atomic::{AtomicU32, Ordering};
use taiga_core::encoding::target::{EncodingInput, EncodingPlan, Prepared, TargetParams, check_folds, check_input};
use taiga_core::error::{Error, Result};

/// `kernels/columns/target_encode.cu`.
const TARGET_ENCODE: Image = Image { name: "columns/target_encode", bytes: taiga_kernels::images::target_encode };

const THREADS: u32 = 256;

/// `WINDOW_BITS` of `place_values`.
const WINDOW_BITS: u32 = 12;

/// Codes of categories on the GPU, all below a number.
pub struct DeviceCodes {
    pub(crate) codes: CudaSlice<u32>,
    pub(crate) rows: usize,
    pub(crate) categories: usize,
}

impl DeviceCodes {
    /// Copies codes.
    ///
    /// # Errors
    /// [`Error::Data`] where a code is not below `categories`, or there are more rows than 32 bits number.
    pub fn new(queue: &Queue, what: &str, codes: &[u32], categories: usize) -> Result<Self> {
        if codes.len() >= u32::MAX as usize {
            return Err(Error::Data(format!("{} rows are more than 32 bits can number", codes.len())));
        }
        let (most, slice) = (AtomicU32::new(0), queue.alloc::<u32>(what, codes.len()));
        let mut slice = slice?;
        queue.upload(&mut slice, codes.len() * 4, &|from, out| {
            let part = &codes[from / 4..(from + out.len()) / 4];
            out.copy_from_slice(bytes_of(part));
            most.fetch_max(part.iter().copied().max().unwrap_or(0), Ordering::Relaxed);
        })?;
        let most = most.into_inner();
        if !codes.is_empty() && most as usize >= categories {
            return Err(Error::Data(format!("{what}: {most} is not below their number, {categories}")));
        }
        Ok(DeviceCodes { codes: slice, rows: codes.len(), categories })
    }
}

fn download(queue: &Queue, values: &CudaSlice<f64>, n: usize) -> Result<Vec<f64>> {
    let mut out = vec![0.0; n];
    queue.download(values, bytes_of_mut(&mut out))?;
    Ok(out)
}

/// [`taiga_core::encoding::target::target_encode`] on the GPU.
///
/// # Errors
/// As there; [`Error::Device`].
pub fn target_encode(queue: &Queue, input: &EncodingInput<'_>, plan: &EncodingPlan, params: &TargetParams) -> Result<Vec<Vec<f64>>> {
    params.validate()?;
    check_input(input)?;
    let rows = input.codes.len();
    let outputs = input.target.outputs();
    if rows == 0 {
        return Ok(vec![vec![]; outputs]);
    }
    // Codes, keys and rows twice, the order, a target and a weight, a value three times.
    queue.check_memory("target encoding", rows as u64 * (4 + 24 + 4 + 16 + 20 + 8))?;
    let prepared = Prepared::new(input, params);
    let codes = DeviceCodes::new(queue, "the categories", input.codes, input.categories)?;
    let packed = outputs == 1;
    let statistics = prepared.statistics().into_iter();
    let statistics = statistics.map(|s| DeviceStatistic::new(queue, s, rows, packed)).collect::<Result<Vec<_>>>()?;
    let values = match plan {
        EncodingPlan::Ordered(orders) => ordered(queue, &codes, &statistics, orders, params)?,
        EncodingPlan::Folds(folds, count) => {
            check_folds(folds, rows)?;
            let folds = DeviceCodes::new(queue, "the folds", folds, *count)?;
            statistics.iter().map(|s| by_fold(queue, &codes, &folds, s, params)).collect::<Result<Vec<_>>>()?
        }
        EncodingPlan::Plain => statistics.iter().map(|s| plain(queue, &codes, s, params)).collect::<Result<Vec<_>>>()?,
    };
    values.iter().map(|values| download(queue, values, rows)).collect()
}

/// [`taiga_core::encoding::target::category_values`] on the GPU.
///
/// # Errors
/// As there; [`Error::Device`].
pub fn category_values(queue: &Queue, input: &EncodingInput<'_>, params: &TargetParams) -> Result<(Vec<f64>, Vec<f64>)> {
    params.validate()?;
    check_input(input)?;
    let (rows, outputs) = (input.codes.len(), input.target.outputs());
    queue.check_memory("fitting an encoder", rows as u64 * (4 + 16 + 16) + input.categories as u64 * 56)?;
    let prepared = Prepared::new(input, params);
    let codes = DeviceCodes::new(queue, "the categories", input.codes, input.categories)?;
    let mut values = vec![0.0; input.categories * outputs];
    let mut priors = vec![];
    for (k, host) in prepared.statistics().into_iter().enumerate() {
        let statistic = DeviceStatistic::new(queue, host, rows, true)?;
        let sums = if rows > 0 { statistic.total(queue, rows)? } else { [0; 3] };
        let (_, smoothing) = statistic.smoothing(sums, params);
        priors.push(smoothing.prior / smoothing.scale);
        if input.categories > 0 {
            let column = download(queue, &statistic.category_values(queue, &codes, &smoothing)?, input.categories)?;
            column.into_iter().enumerate().for_each(|(category, value)| values[category * outputs + k] = value);
        }
    }
    Ok((values, priors))
}
