//! One categorical column from several on the GPU: what [`taiga_core::encoding::combine`] computes.
//!
//! ```text
//! pairs ─► the first row of each pair, by a table (few possible pairs) or a stable sort (many)
//!       ─► flags of first rows ─► their sums before each row are the numbers of the pairs
//! ```

use super::categories::DeviceCodes;
use crate::launch;
use crate::runtime::device::Image;
use crate::runtime::queue::Queue;
use crate::runtime::queue::each_row;
use crate::runtime::sort::Pairs;
use crate::runtime::sort::bits_below;
use cudarc::driver::CudaSlice;
use taiga_core::error::{Error, Result};

/// `kernels/columns/combine.cu`.
const COMBINE: Image = Image { name: "columns/combine", bytes: taiga_kernels::images::combine };

/// A table may have this many places for each row.
const PLACES: u64 = 4;
/// … and this many whatever the rows.
const SMALL: u64 = 1 << 20;

/// [`taiga_core::encoding::combine::combine`] on the GPU: a dense code for each row, numbered by first appearance, and how
/// many there are.
///
/// # Errors
/// As there; [`Error::Device`].
pub fn combine(queue: &Queue, columns: &[(&[u32], usize)]) -> Result<(Vec<u32>, usize)> {
    let Some((first, others)) = columns.split_first() else { return Err(Error::Data("there are no columns to combine".into())) };
    if let Some((other, _)) = others.iter().find(|(other, _)| other.len() != first.0.len()) {
        return Err(Error::Data(format!("the columns have {} and {} rows", first.0.len(), other.len())));
    }
    let rows = first.0.len();
    if others.is_empty() || rows == 0 {
        let count = if others.is_empty() { first.1 } else { 0 };
        return Ok((first.0.to_vec(), count));
    }
    // Two columns, keys and rows twice, first rows and flags.
    queue.check_memory("combining columns", rows as u64 * (8 + 24 + 12))?;
    let mut codes = DeviceCodes::new(queue, "the categories", first.0, first.1)?;
    for (other, count) in others {
        codes = pair(queue, &codes, &DeviceCodes::new(queue, "the categories", other, *count)?)?;
    }
    let mut out = vec![0u32; rows];
    queue.download(&codes.codes, crate::runtime::column::bytes_of_mut(&mut out))?;
    Ok((out, codes.categories))
}

/// The pairs of two columns, numbered by first appearance.
///
/// # Errors
/// [`Error::Device`].
pub fn pair(queue: &Queue, a: &DeviceCodes, b: &DeviceCodes) -> Result<DeviceCodes> {
    assert_eq!(a.rows, b.rows, "columns of one length");
    if a.rows == 0 {
        return Ok(DeviceCodes { codes: queue.alloc("codes", 0)?, rows: 0, categories: 0 });
    }
    number_by_first(queue, &first_rows(queue, a, b)?)
}

/// Codes by first appearance of what each row has in common with the row that `first` says, the first of its kind.
///
/// # Errors
/// [`Error::Device`].
pub(super) fn number_by_first(queue: &Queue, first: &CudaSlice<u32>) -> Result<DeviceCodes> {
    let (gpu, rows) = (queue.gpu(), first.len());
    let n = rows as u64;
    let mut flags = queue.alloc::<u32>("flags", rows)?;
    let kernel = gpu.kernel(COMBINE, "flag_first")?;
    // SAFETY: the arguments are those of `flag_first`, of `n` rows.
    unsafe { launch!(queue, kernel, each_row(queue, rows); &n, first, &mut flags) }?;
    let mut before = queue.alloc::<u32>("numbers", rows)?;
    queue.sum_before(&flags, &mut before, rows as u32)?;
    let mut codes = queue.alloc::<u32>("codes", rows)?;
    let kernel = gpu.kernel(COMBINE, "number_pairs")?;
    // SAFETY: the arguments are those of `number_pairs`; first rows are rows.
    unsafe { launch!(queue, kernel, each_row(queue, rows); &n, first, &before, &mut codes) }?;
    let last = rows - 1..rows;
    let categories = queue.read(&before.slice(last.clone()))?[0] + queue.read(&flags.slice(last))?[0];
    Ok(DeviceCodes { codes, rows, categories: categories as usize })
}

/// The first row with each row's pair.
fn first_rows(queue: &Queue, a: &DeviceCodes, b: &DeviceCodes) -> Result<CudaSlice<u32>> {
    let (gpu, rows) = (queue.gpu(), a.rows);
    let (n, count) = (rows as u64, b.categories as u64);
    let places = (a.categories as u64).saturating_mul(count);
    if places <= (PLACES * n).max(SMALL) {
        let mut table = queue.alloc::<u32>("the pairs", places as usize)?;
        crate::runtime::memory::fill(queue, &mut table)?;
        let kernel = gpu.kernel(COMBINE, "first_by_table")?;
        // SAFETY: the arguments are those of `first_by_table`, with a place for every possible pair.
        unsafe { launch!(queue, kernel, each_row(queue, rows); &n, &a.codes, &b.codes, &count, &mut table) }?;
        let kernel = gpu.kernel(COMBINE, "look_up_first")?;
        let mut first = queue.alloc::<u32>("first rows", rows)?;
        // SAFETY: the arguments are those of `look_up_first`.
        unsafe { launch!(queue, kernel, each_row(queue, rows); &n, &a.codes, &b.codes, &count, &table, &mut first) }?;
        return Ok(first);
    }
    let kernel = gpu.kernel(COMBINE, "pair_keys")?;
    let mut from: Pairs<u64> = (queue.alloc("keys", rows)?, queue.alloc("rows", rows)?);
    // SAFETY: the arguments are those of `pair_keys`, of `n` rows.
    unsafe { launch!(queue, kernel, each_row(queue, rows); &n, &a.codes, &b.codes, &count, &mut from.0, &mut from.1) }?;
    first_of_sorted(queue, &sort_keys(queue, from, rows, bits_below(places))?)
}

/// Sorts by the lowest bits of the keys, equal ones in their order.
///
/// # Errors
/// [`Error::Device`].
pub(super) fn sort_keys(queue: &Queue, from: Pairs<u64>, rows: usize, bits: u32) -> Result<Pairs<u64>> {
    let mut sorted: Pairs<u64> = (queue.alloc("keys", rows)?, queue.alloc("rows", rows)?);
    queue.sort_pairs(&from.0, &from.1, &mut sorted, rows as u32, 0..bits)?;
    Ok(sorted)
}

/// The first row with each row's key, of keys that are sorted with their rows.
///
/// # Errors
/// [`Error::Device`].
pub(super) fn first_of_sorted(queue: &Queue, sorted: &Pairs<u64>) -> Result<CudaSlice<u32>> {
    let (gpu, rows) = (queue.gpu(), sorted.1.len());
    let n = rows as u64;
    let mut marks = queue.alloc::<u32>("heads", rows)?;
    let kernel = gpu.kernel(COMBINE, "mark_heads")?;
    // SAFETY: the arguments are those of `mark_heads`, of `n` keys.
    unsafe { launch!(queue, kernel, each_row(queue, rows); &n, &sorted.0, &mut marks) }?;
    let mut heads = queue.alloc::<u32>("heads", rows)?;
    queue.largest_so_far(&marks, &mut heads, rows as u32)?;
    let kernel = gpu.kernel(COMBINE, "spread_first")?;
    let mut first = queue.alloc::<u32>("first rows", rows)?;
    // SAFETY: the arguments are those of `spread_first`; heads are places.
    unsafe { launch!(queue, kernel, each_row(queue, rows); &n, &sorted.1, &heads, &mut first) }?;
    Ok(first)
}
