//! Values of rows from sums of categories, or of categories in folds.

use super::statistic::{DeviceSmoothing, DeviceStatistic, SumForm, named};
use super::{TARGET_ENCODE, THREADS};
use crate::columns::categories::DeviceCodes;
use crate::launch;
use crate::runtime::Queue;
use crate::runtime::column::bytes_of;
use crate::runtime::memory::pointer;
use crate::runtime::queue::each_row;
use cudarc::driver::{CudaSlice, LaunchConfig};
use taiga_core::encoding::target::{EncodingKind, TargetParams, nothing_outside};
use taiga_core::error::{Error, Result};

/// The value of each row from the rows of its category in other folds.
pub fn by_fold(
    queue: &Queue,
    codes: &DeviceCodes,
    folds: &DeviceCodes,
    statistic: &DeviceStatistic<'_>,
    params: &TargetParams,
) -> Result<CudaSlice<f64>> {
    let (n, count, form) = (codes.rows, folds.categories, statistic.form);
    let cells = statistic.cells(queue, codes, Some(folds))?;
    let gpu = queue.gpu();
    // The sums of each fold.
    let kernel = gpu.kernel(TARGET_ENCODE, named!("fold_totals", form))?;
    let blocks = (codes.categories.div_ceil(4 * THREADS as usize) as u32).clamp(1, 64);
    let mut sums = queue.alloc::<u8>("the sums of folds", blocks as usize * count * form.bytes())?;
    let (categories, of) = (codes.categories as u64, count as u32);
    // A grid's second side has at most 65,535 blocks.
    if count > 65_535 {
        return Err(Error::parameter("folds", format!("{count} are more than the 65535 that a GPU takes")));
    }
    let config = LaunchConfig { grid_dim: (blocks, count as u32, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: the arguments are those of `fold_totals_*`, with a sum for each block and fold.
    unsafe { launch!(queue, kernel, config; &cells, &categories, &of, &mut sums) }?;
    let sums = statistic.added(queue, &sums, blocks as usize)?;
    let all = sums.iter().fold([0; 3], |a, b| [a[0] + b[0], a[1] + b[1], a[2] + b[2]]);
    let smoothings = sums.iter().enumerate().map(|(fold, sum)| {
        let (others, smoothing) = statistic.smoothing([all[0] - sum[0], all[1] - sum[1], all[2] - sum[2]], params);
        if others.weight <= 0.0 { Err(nothing_outside(fold)) } else { Ok(DeviceSmoothing::from(&smoothing)) }
    });
    let smoothings = smoothings.collect::<Result<Vec<DeviceSmoothing>>>()?;
    let smoothings = queue.copy_of("priors", bytes_of(&smoothings))?;
    let kernel = gpu.kernel(TARGET_ENCODE, named!("fold_values", form))?;
    let mut values = queue.alloc::<f64>("the values of folds", codes.categories * count)?;
    // SAFETY: the arguments are those of `fold_values_*`, with a sum and a value for each cell.
    unsafe {
        launch!(queue, kernel, each_row(queue, codes.categories);
            &statistic.columns, &cells, &categories, &of, &smoothings, &mut values)?;
    }
    look_up(queue, &values, codes, Some(folds), n)
}

/// The value of each row's category, or of its cell.
pub fn look_up(
    queue: &Queue,
    values: &CudaSlice<f64>,
    codes: &DeviceCodes,
    folds: Option<&DeviceCodes>,
    n: usize,
) -> Result<CudaSlice<f64>> {
    let kernel = queue.gpu().kernel(TARGET_ENCODE, "look_up")?;
    let mut out = queue.alloc::<f64>("values", n)?;
    let (rows, count, folds) = (n as u64, folds.map_or(1, |f| f.categories) as u32, folds.map_or(0, |f| pointer(queue, &f.codes)));
    // SAFETY: the arguments are those of `look_up`; codes and folds are below their numbers, of which there are values.
    unsafe { launch!(queue, kernel, each_row(queue, n); &rows, values, &codes.codes, &folds, &count, &mut out) }?;
    Ok(out)
}

/// `loo` and `full`.
pub fn plain(queue: &Queue, codes: &DeviceCodes, statistic: &DeviceStatistic<'_>, params: &TargetParams) -> Result<CudaSlice<f64>> {
    let n = codes.rows;
    let (_, smoothing) = statistic.smoothing(statistic.total(queue)?, params);
    if params.kind == EncodingKind::Full {
        let values = statistic.category_values(queue, codes, &smoothing)?;
        return look_up(queue, &values, codes, None, n);
    }
    let sums = statistic.cells(queue, codes, None)?;
    let kernel = queue.gpu().kernel(TARGET_ENCODE, named!("loo_values", statistic.form))?;
    let mut out = queue.alloc::<f64>("values", n)?;
    let (rows, flags, smoothing) = (n as u64, statistic.packed_flags(queue), DeviceSmoothing::from(&smoothing));
    // SAFETY: the arguments are those of `loo_values_*`, all of `n` rows, with a sum for each category.
    unsafe {
        launch!(queue, kernel, each_row(queue, n);
            &statistic.columns, &sums, &rows, &codes.codes, &flags, &smoothing, &mut out)?;
    }
    Ok(out)
}
