//! Statistics of categories inside the trees, on the GPU: what [`taiga_core::encoding::ctr`] computes, with the same
//! bits.

use crate::columns::categories::DeviceCodes;
use crate::columns::codes::CodePlace;
use crate::columns::target_encode::{CategoryKeys, ScanMode, ScanOutput, TargetColumns, scan};
use crate::launch;
use crate::runtime::device::Image;
use crate::runtime::memory::{fill, pointer};
use crate::runtime::queue::Queue;
use crate::runtime::queue::each_row;
use crate::runtime::sort::Pairs;
use crate::runtime::sort::bits_below;
use cudarc::driver::CudaSlice;
use taiga_core::encoding::ctr::{Ctr, CtrKind, Prefix};
use taiga_core::error::{Error, Result};

/// `kernels/trees/ctr.cu`.
const CTR: Image = Image { name: "trees/ctr", bytes: taiga_kernels::images::ctr };

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

/// Sums before each row: how many rows of its category count, and the sum of what they add (none for counters); `Prefix` in two
/// arrays.
pub struct DevicePrefixes {
    pub n: CudaSlice<u32>,
    pub s: Option<CudaSlice<u64>>,
    pub rows: usize,
}

impl DevicePrefixes {
    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.n.num_bytes() + self.s.as_ref().map_or(0, |s| s.num_bytes())
    }

    fn sums(&self, queue: &Queue) -> u64 {
        self.s.as_ref().map_or(0, |s| pointer(queue, s))
    }

    /// Reads the sums of some rows, when all before has run.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn at(&self, queue: &Queue, rows: &DeviceOrder) -> Result<Vec<Prefix>> {
        let (mut n, mut s) = (queue.alloc::<u32>("rows before", rows.len)?, queue.alloc::<u64>("sums before", rows.len)?);
        let kernel = queue.gpu().kernel(CTR, "gather_sums")?;
        let (count, sums) = (rows.len as u64, self.sums(queue));
        // SAFETY: the arguments are those of `gather_sums`; the rows are below the number of sums.
        unsafe { launch!(queue, kernel, each_row(queue, rows.len); &count, &rows.rows, &self.n, &sums, &mut n, &mut s) }?;
        let (n, s) = (queue.read(&n)?, queue.read(&s)?);
        Ok(n.into_iter().zip(s).take(rows.len).map(|(n, s)| Prefix { n, s }).collect())
    }
}

/// Rows by category, inside a category in an order.
pub struct SortedCategories {
    pairs: Pairs<u32>,
    len: usize,
}

impl SortedCategories {
    /// Sorts. Does not wait.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn new(queue: &Queue, codes: &DeviceCodes, order: &DeviceOrder) -> Result<SortedCategories> {
        let len = order.len;
        let mut pairs: Pairs<u32> = (queue.alloc("keys", len)?, queue.alloc("rows", len)?);
        if len > 0 {
            let kernel = queue.gpu().kernel(CTR, "gather_codes")?;
            let mut keys = queue.alloc::<u32>("keys", len)?;
            let count = len as u64;
            // SAFETY: the arguments are those of `gather_codes`; the order's rows are below the number of codes.
            unsafe { launch!(queue, kernel, each_row(queue, len); &count, &codes.codes, &order.rows, &mut keys) }?;
            queue.sort_pairs(&keys, &order.rows, &mut pairs, len as u32, 0..bits_below(codes.categories as u64))?;
        }
        Ok(SortedCategories { pairs, len })
    }

    /// The sums before each row (of rows that are not in the order, over all of them), and those of the categories: of 16
    /// bytes each. Does not wait.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn sums(&self, queue: &Queue, codes: &DeviceCodes, addends: &CudaSlice<u32>) -> Result<(DevicePrefixes, CudaSlice<u8>)> {
        let (rows, n) = (codes.rows, self.len);
        assert!(addends.len() >= rows, "an addend for each row");
        let (mut rows_before, mut sums_before) = (queue.alloc("rows before", rows)?, queue.alloc::<u64>("sums before", rows)?);
        let totals = queue.zeros::<u8>("the sums of categories", codes.categories * WHOLE_BYTES)?;
        if n < rows {
            // Rows that are not in the order keep this mark, and get the totals.
            fill(queue, &mut rows_before)?;
        }
        if n > 0 {
            let columns = TargetColumns { numbers: pointer(queue, addends), ..Default::default() };
            let (sums, rows_before, target_before) = (pointer(queue, &totals), pointer(queue, &rows_before), pointer(queue, &sums_before));
            let written = ScanOutput { sums, rows_before, target_before, values: 0 };
            let keys = CategoryKeys::Narrow(&self.pairs.0);
            // SAFETY: `n` keys below the number of categories and `n` rows, of which both arrays have one each.
            unsafe { scan(queue, WHOLE, keys, &self.pairs.1, n, &columns, &Default::default(), ScanMode::Before, written)? };
        }
        if n < rows {
            let kernel = queue.gpu().kernel(CTR, "fill_others")?;
            let count = rows as u64;
            // SAFETY: the arguments are those of `fill_others`, all of `rows` rows, with a sum for each category.
            unsafe { launch!(queue, kernel, each_row(queue, rows); &count, &codes.codes, &totals, &mut rows_before, &mut sums_before) }?;
        }
        Ok((DevicePrefixes { n: rows_before, s: Some(sums_before), rows }, totals))
    }
}

/// [`Ctr::prefixes`]: for each row the sums over the rows of its category before it in `order`, for rows that
/// are not in it over all of them. `addends`: what each row adds to the sum (0 for counters). Does not wait.
///
/// # Errors
/// [`Error::Device`].
pub fn prefixes(queue: &Queue, codes: &DeviceCodes, order: &DeviceOrder, addends: &CudaSlice<u32>) -> Result<DevicePrefixes> {
    Ok(SortedCategories::new(queue, codes, order)?.sums(queue, codes, addends)?.0)
}

/// What counters count: of each row the rows of its category, and of the largest category. Waits.
///
/// # Errors
/// [`Error::Device`].
pub fn counts(queue: &Queue, codes: &DeviceCodes, totals: &CudaSlice<u8>) -> Result<(DevicePrefixes, u32)> {
    let gpu = queue.gpu();
    let (mut n, mut most) = (queue.alloc::<u32>("rows", codes.rows)?, queue.zeros::<u32>("the most rows", 1)?);
    let (rows, categories) = (codes.rows as u64, codes.categories as u64);
    let kernel = gpu.kernel(CTR, "rows_of_category")?;
    // SAFETY: the arguments are those of `rows_of_category`, with a sum for each category.
    unsafe { launch!(queue, kernel, each_row(queue, codes.rows); &rows, &codes.codes, totals, &mut n) }?;
    let kernel = gpu.kernel(CTR, "most_rows")?;
    // SAFETY: the arguments are those of `most_rows`, likewise.
    unsafe { launch!(queue, kernel, each_row(queue, codes.categories); &categories, totals, &mut most) }?;
    let most = queue.read(&most)?[0];
    Ok((DevicePrefixes { n, s: None, rows: codes.rows }, most))
}

/// [`taiga_core::encoding::ctr::ctr_codes`]: the borders below each row's statistic. Does not wait.
///
/// # Errors
/// [`Error::Device`].
pub fn codes(queue: &Queue, ctr: &Ctr, sums: &DevicePrefixes, unit: f64, most: u32, borders: &[f64]) -> Result<CudaSlice<u8>> {
    let mut out = queue.alloc::<u8>("codes", sums.rows)?;
    codes_into(queue, ctr, sums, unit, most, borders, &mut out, CodePlace { first: 0, stride: 1 })?;
    Ok(out)
}

/// [`codes`] in their place of `out`. Does not wait.
///
/// # Errors
/// [`Error::Device`].
///
/// # Panics
/// When `out` is too short for the rows.
#[allow(clippy::too_many_arguments)]
pub fn codes_into(
    queue: &Queue,
    ctr: &Ctr,
    sums: &DevicePrefixes,
    unit: f64,
    most: u32,
    borders: &[f64],
    out: &mut CudaSlice<u8>,
    place: CodePlace,
) -> Result<()> {
    if borders.len() > 255 {
        return Err(Error::Data(format!("{} borders are more than a byte counts", borders.len())));
    }
    if sums.rows == 0 {
        return Ok(());
    }
    assert!(place.first + (sums.rows - 1) * place.stride < out.len(), "room for {} codes", sums.rows);
    let kernel = queue.gpu().kernel(CTR, "ctr_codes")?;
    let on_device = queue.copy_of("borders", borders)?;
    let counter = ctr.kind == CtrKind::Counter;
    assert!(counter || sums.s.is_some(), "sums of the target");
    let (rows, count, counter, before) = (sums.rows as u64, borders.len() as u32, counter as u32, sums.sums(queue));
    let (first, stride) = (place.first as u64, place.stride as u64);
    // SAFETY: the arguments are those of `ctr_codes`, all of `rows` rows; `out` has room (asserted above).
    unsafe {
        launch!(queue, kernel, each_row(queue, sums.rows);
            &rows, &sums.n, &before, &unit, &ctr.prior, &counter, &most, &on_device, &count, out, &first, &stride)
    }
}
