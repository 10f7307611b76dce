//! Statistics of categories inside the trees, on the GPU: what [`crate::encoding::ctr`] computes, with the same
//! bits.

use super::encoding::{DeviceCodes, ENCODING, Keys, Mode, Written, bits_below, each_row, scan};
use super::queue::Queue;
use super::sort::Pairs;
use super::stats::pointer;
use crate::encoding::ctr::{Ctr, CtrKind};
use crate::error::{Error, Result};
use crate::launch;
use cudarc::driver::CudaSlice;
use taiga_kernels::algorithms;

/// The kind of whole numbers of `taiga_scan_categories`, and the bytes of its sums.
const WHOLE: u32 = 1;
const WHOLE_BYTES: usize = 16;

/// An order of rows on the GPU: each row once at most.
pub struct DeviceOrder {
    rows: CudaSlice<u32>,
    len: usize,
}

impl DeviceOrder {
    /// Copies an order of some of `of` rows.
    ///
    /// # Errors
    /// [`Error::Data`] where a row is not below `of`.
    pub fn new(queue: &Queue, order: &[u32], of: usize) -> Result<Self> {
        let order = DeviceCodes::new(queue, "the rows of an order", order, of)?;
        Ok(DeviceOrder { len: order.rows, rows: order.codes })
    }
}

/// Of each row the rows of its category that count, and the sum of what they add; `Prefix` in two arrays.
pub struct DevicePrefixes {
    pub n: CudaSlice<u32>,
    pub s: CudaSlice<u64>,
    rows: usize,
}

/// [`Ctr::prefixes`]: for each row the sums over the rows of its category before it in `order`, for rows that
/// are not in it over all of them. `addends`: what each row adds to the sum (0 for counters). Does not wait.
///
/// # Errors
/// [`Error::Memory`] and [`Error::Device`].
pub fn prefixes(queue: &Queue, codes: &DeviceCodes, order: &DeviceOrder, addends: &CudaSlice<u32>) -> Result<DevicePrefixes> {
    let (rows, n) = (codes.rows, order.len);
    assert!(addends.len() >= rows, "an addend for each row");
    let mut out = DevicePrefixes { n: queue.alloc("rows before", rows)?, s: queue.alloc("sums before", rows)?, rows };
    // Rows that are not in the order keep this mark, and get the totals.
    fill(queue, &mut out.n)?;
    let sums = queue.zeros::<u8>("the sums of categories", codes.categories * WHOLE_BYTES)?;
    if n > 0 {
        let kernel = queue.gpu().kernel(ENCODING, "gather_codes")?;
        let mut keys = queue.alloc::<u32>("keys", n)?;
        let count = n as u64;
        // SAFETY: the arguments are those of `gather_codes`; the order's rows are below the number of codes.
        unsafe { launch!(queue, kernel, each_row(queue, n); &count, &codes.codes, &order.rows, &mut keys) }?;
        let mut to: Pairs<u32> = (queue.alloc("keys", n)?, queue.alloc("rows", n)?);
        queue.sort_pairs(&keys, &order.rows, &mut to, n as u32, 0..bits_below(codes.categories as u64))?;
        let columns = algorithms::Columns { numbers: pointer(queue, addends), ..Default::default() };
        let written =
            Written { sums: pointer(queue, &sums), rows_before: pointer(queue, &out.n), target_before: pointer(queue, &out.s), values: 0 };
        // SAFETY: `n` keys below the number of categories and `n` rows, of which both arrays have one each.
        unsafe { scan(queue, WHOLE, Keys::Narrow(&to.0), &to.1, n, &columns, &Default::default(), Mode::Before, written)? };
    }
    if n < rows {
        let kernel = queue.gpu().kernel(ENCODING, "fill_others")?;
        let count = rows as u64;
        // SAFETY: the arguments are those of `fill_others`, all of `rows` rows, with a sum for each category.
        unsafe { launch!(queue, kernel, each_row(queue, rows); &count, &codes.codes, &sums, &mut out.n, &mut out.s) }?;
    }
    Ok(out)
}

/// Every byte 0xff.
pub(super) fn fill(queue: &Queue, values: &mut CudaSlice<u32>) -> Result<()> {
    use cudarc::driver::{DevicePtrMut, result};
    let (bytes, stream) = (values.num_bytes(), queue.stream());
    queue.gpu().context().bind_to_thread().map_err(|e| super::error::driver(queue.gpu(), "marking rows", e))?;
    // SAFETY: the slice has as many bytes.
    let filled = unsafe { result::memset_d8_async(values.device_ptr_mut(stream).0, 0xff, bytes, stream.cu_stream()) };
    filled.map_err(|e| super::error::driver(queue.gpu(), "marking rows", e))
}

/// [`crate::encoding::ctr::ctr_codes`]: the borders below each row's statistic. Does not wait.
///
/// # Errors
/// [`Error::Memory`] and [`Error::Device`].
pub fn codes(queue: &Queue, ctr: &Ctr, sums: &DevicePrefixes, unit: f64, most: u32, borders: &[f64]) -> Result<CudaSlice<u8>> {
    if borders.len() > 255 {
        return Err(Error::Data(format!("{} borders are more than a byte counts", borders.len())));
    }
    let mut out = queue.alloc::<u8>("codes", sums.rows)?;
    let kernel = queue.gpu().kernel(ENCODING, "ctr_codes")?;
    let on_device = queue.copy_of("borders", borders)?;
    let (rows, count, counter) = (sums.rows as u64, borders.len() as u32, (ctr.kind == CtrKind::Counter) as u32);
    // SAFETY: the arguments are those of `ctr_codes`, all of `rows` rows.
    unsafe {
        launch!(queue, kernel, each_row(queue, sums.rows);
            &rows, &sums.n, &sums.s, &unit, &ctr.prior, &counter, &most, &on_device, &count, &mut out)?;
    }
    Ok(out)
}
