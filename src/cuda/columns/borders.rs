//! Borders of columns: those of [`taiga_core::quantize::borders`], from values that are sorted on the GPU.
//!
//! ```text
//! values ─► keys of the same order ─► CUB's radix sort ─► distinct keys, and the rows before each
//!                                                          └ every 512th number ─► host: the border method, which asks for
//!                                                                                 the pages of numbers and the keys it needs
//! ```
//!
//! A method looks at a few hundred places among the distinct values, so that little of them ever comes to the host. The choice
//! itself is the CPU's code ([`taiga_core::quantize::borders`]).

use crate::columns::kernel_names::{NO_VALIDITY, kernel_of, no_kernel};
use crate::launch;
use crate::runtime::column::{DeviceColumn, Form, bytes_of_mut};
use crate::runtime::device::Image;
use crate::runtime::layouts::kernel_structs;
use crate::runtime::memory::pointer;
use crate::runtime::queue::each_row;
use crate::runtime::queue::{Queue, grid};
use crate::runtime::sort::LoneKey;
use crate::runtime::upload::PIECE;
use cudarc::driver::{CudaSlice, DeviceRepr};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use taiga_core::column::Column;
use taiga_core::error::{Error, Result};
use taiga_core::quantize::borders::{BorderParams, borders_of};
use taiga_core::quantize::sort::{FloatKey, Heavy, SortedValues, heavy_count};

/// `kernels/columns/borders.cu`.
const BORDERS: Image = Image { name: "columns/borders", bytes: taiga_kernels::images::borders };

/// Numbers of a page: as many as [`BORDERS`] copies together.
const PAGE: usize = 512;

/// Bytes that come from memory for one value of a sample.
const LINE: usize = 64;

/// Bytes that sorting needs, beside the column: two arrays of keys, one of row numbers, and what CUB needs.
fn bytes_for(values: usize, key: usize) -> u64 {
    values as u64 * (2 * key as u64 + 5) + (8 << 20)
}

/// The most that [`borders`] needs for a sample of `values` values, the column included.
pub fn most_bytes(values: usize) -> u64 {
    8 * values as u64 + bytes_for(values, 8)
}

/// [`taiga_core::quantize::borders::fit_borders`] on the GPU.
///
/// # Errors
/// [`Error::Device`]; for want of memory with what is needed and what there is, before anything is allocated.
pub fn borders(queue: &Queue, column: &Column<'_>, params: &BorderParams) -> Result<Vec<f64>> {
    let rows = column.len();
    if rows >= u32::MAX as usize {
        return Err(Error::device_memory(queue.gpu().number(), format!("{rows} rows are more than it can number")));
    }
    if rows == 0 {
        return Ok(vec![]);
    }
    let bytes = DeviceColumn::numeric_bytes(column);
    let (count, all) = if params.sample < rows { (params.sample, 0) } else { (rows, bytes as u64) };
    let key = if bytes == 8 * rows { 8 } else { 4 };
    queue.check_memory(&format!("sorting {count} values of the column `{}`", column.name()), all + bytes_for(count, key))?;
    let Some(sample) = params.sampled(rows) else {
        return sorted_borders(queue, DeviceColumn::numeric(queue, column)?, None, params);
    };
    // To look for the column takes a pass over its memory; to gather the sample, a line of memory for each of its rows.
    if sample.len() * LINE >= bytes
        && let Some(there) = DeviceColumn::numeric_there(queue, column)?
    {
        let sample: Vec<u32> = sample.into_iter().map(|row| row as u32).collect();
        return sorted_borders(queue, there, Some(queue.copy_of("the sample", &sample)?), params);
    }
    // The sample alone is less to bring than the column.
    let values = column.gather_f64(&sample);
    let brought = if column.is_f32() {
        let narrow: Vec<f32> = values.into_iter().map(|x| x as f32).collect();
        DeviceColumn::passing(queue, &Column::from_f32(column.name(), &narrow))?
    } else {
        DeviceColumn::passing(queue, &Column::from_f64(column.name(), &values))?
    };
    sorted_borders(queue, brought, None, params)
}

kernel_structs! { KeySummary }

/// The borders of a column that is on the GPU, or of its rows `sample`; it is let go as soon as its keys are made.
fn sorted_borders(queue: &Queue, column: DeviceColumn, sample: Option<CudaSlice<u32>>, params: &BorderParams) -> Result<Vec<f64>> {
    match column.form() {
        Form::F64 | Form::I64 | Form::U64 => borders_by::<u64>(queue, column, sample, params),
        _ => borders_by::<u32>(queue, column, sample, params),
    }
}

fn borders_by<K: DeviceKey>(
    queue: &Queue,
    column: DeviceColumn,
    sample: Option<CudaSlice<u32>>,
    params: &BorderParams,
) -> Result<Vec<f64>> {
    let (gpu, form) = (queue.gpu(), column.form());
    let n = sample.as_ref().map_or(column.rows(), CudaSlice::len);
    let mut keys = queue.alloc::<K>("keys", n)?;
    let mut summary = queue.zeros::<KeySummary>("keys", 1)?;
    let (count, last) = (n as u64, K::last(form));
    let validity = column.validity().map_or(NO_VALIDITY, |v| pointer(queue, v));
    let rows = sample.as_ref().map_or(0, |rows| pointer(queue, rows));
    let kernel = gpu.kernel(BORDERS, kernel_of!("keys", form).ok_or_else(|| no_kernel(gpu, form))?)?;
    // SAFETY: the arguments are those of `keys_*`: a column of the kernel's type, whose keys are `K`, and rows of it.
    unsafe { launch!(queue, kernel, each_row(queue, n); column.values(), &validity, &rows, &count, &last, &mut keys, &mut summary) }?;
    drop((column, sample));
    let KeySummary { missing, differ } = queue.read(&summary)?[0];
    let present = n - missing as usize;
    if present == 0 {
        return Ok(vec![]);
    }
    // Only the bits in which keys differ: missing values', which are the last ones, are among them.
    let (sorted, mut distinct) = match differ {
        0 => (keys, queue.alloc::<K>("keys", n)?),
        _ => queue.sort_keys(keys, n as u32, differ.trailing_zeros()..64 - differ.leading_zeros())?,
    };
    let mut first = queue.alloc::<u32>("rows before values", present)?;
    let mut found = queue.zeros::<u32>("a count", 1)?;
    queue.distinct_keys(&sorted, present as u32, &mut distinct, &mut first, &mut found)?;
    drop(sorted);
    let len = queue.read(&found)?[0] as usize;
    let values = DeviceValues { queue, form, keys: distinct, first, len, rows: present, heads: vec![], pages: RefCell::default() };
    borders_of(&values.with_heads()?, params.borders(), params.method)
}

/// An unsigned integer that orders as the values of some forms do (`key_of` of `kernels/columns/borders.cu`).
trait DeviceKey: FloatKey + LoneKey {
    const GATHER: &'static str;

    /// No value's is larger.
    fn last(form: Form) -> Self;

    fn value_of(key: u64, form: Form) -> f64;
}

impl DeviceKey for u64 {
    const GATHER: &'static str = "gather_u64";

    fn last(_: Form) -> u64 {
        u64::MAX
    }

    fn value_of(key: u64, _: Form) -> f64 {
        key.value()
    }
}

impl DeviceKey for u32 {
    const GATHER: &'static str = "gather_u32";

    fn last(form: Form) -> u32 {
        u32::MAX >> (32 - 8 * form.size())
    }

    fn value_of(key: u64, form: Form) -> f64 {
        match form {
            Form::F32 => (key as u32).value(),
            Form::I8 => (key as i64 + i64::from(i8::MIN)) as f64,
            Form::I16 => (key as i64 + i64::from(i16::MIN)) as f64,
            Form::I32 => (key as i64 + i64::from(i32::MIN)) as f64,
            _ => key as f64,
        }
    }
}

/// The distinct values of a sample on the GPU. Of the rows before each the host has the first number of every page, and the
/// pages that were asked for.
struct DeviceValues<'a, K> {
    queue: &'a Queue,
    form: Form,
    keys: CudaSlice<K>,
    /// `first[i]`: the rows before value `i`.
    first: CudaSlice<u32>,
    len: usize,
    rows: usize,
    heads: Vec<u32>,
    pages: RefCell<Pages>,
}

/// The pages that are there.
#[derive(Default)]
struct Pages {
    /// The batch that each page came with, and where in that it begins.
    places: HashMap<usize, (usize, usize)>,
    batches: Vec<Vec<u32>>,
}

impl<K: DeviceKey> DeviceValues<'_, K> {
    fn with_heads(mut self) -> Result<Self> {
        let (queue, n, pages) = (self.queue, self.len as u64, self.len.div_ceil(PAGE));
        let mut heads = queue.alloc::<u32>("pages", pages)?;
        let kernel = queue.gpu().kernel(BORDERS, "heads_of_pages")?;
        // SAFETY: the arguments are those of `heads_of_pages`, with room for a number a page.
        unsafe { launch!(queue, kernel, each_row(queue, pages); &n, &self.first, &mut heads) }?;
        self.heads = read(queue, &heads, pages)?;
        Ok(self)
    }

    /// The page that holds the number of the value of row `row`, of those there are.
    fn page_of(&self, row: usize) -> usize {
        self.heads.partition_point(|head| *head as usize <= row) - 1
    }

    /// Brings pages.
    fn bring(&self, wanted: impl Iterator<Item = usize>) -> Result<()> {
        let (queue, mut pages) = (self.queue, self.pages.borrow_mut());
        let wanted: BTreeSet<u32> = wanted.filter(|page| !pages.places.contains_key(page)).map(|page| page as u32).collect();
        let wanted: Vec<u32> = wanted.into_iter().collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let n = self.len as u64;
        let list = queue.copy_of("pages", &wanted)?;
        let mut copies = queue.alloc::<u32>("pages", PAGE * wanted.len())?;
        let kernel = queue.gpu().kernel(BORDERS, "copy_pages")?;
        // SAFETY: the arguments are those of `copy_pages`, a block for each page, which has room.
        unsafe { launch!(queue, kernel, grid(wanted.len() as u32, 256, 0); &n, &self.first, &list, &mut copies) }?;
        let copies = read(queue, &copies, PAGE * wanted.len())?;
        let batch = pages.batches.len();
        pages.batches.push(copies);
        pages.places.extend(wanted.into_iter().enumerate().map(|(i, page)| (page as usize, (batch, i * PAGE))));
        Ok(())
    }

    /// What `look` finds on a page.
    fn on_page<T>(&self, page: usize, look: impl Fn(&[u32]) -> T) -> Result<T> {
        if !self.pages.borrow().places.contains_key(&page) {
            self.bring(std::iter::once(page))?;
        }
        let Pages { places, batches } = &*self.pages.borrow();
        let (batch, start) = places[&page];
        Ok(look(&batches[batch][start..start + PAGE.min(self.len - page * PAGE)]))
    }
}

impl<K: DeviceKey> SortedValues for DeviceValues<'_, K> {
    fn distinct(&self) -> usize {
        self.len
    }

    fn values(&self, indices: &[usize]) -> Result<Vec<f64>> {
        assert!(indices.iter().all(|i| *i < self.len), "values that there are");
        let (queue, count) = (self.queue, indices.len());
        let n = count as u64;
        let list: Vec<u32> = indices.iter().map(|i| *i as u32).collect();
        let list = queue.copy_of("places", &list)?;
        let mut keys = queue.alloc::<u64>("keys", count)?;
        let kernel = queue.gpu().kernel(BORDERS, K::GATHER)?;
        // SAFETY: the arguments are those of `gather_*`; the places are below the number of keys (asserted above).
        unsafe { launch!(queue, kernel, each_row(queue, count); &n, &self.keys, &list, &mut keys) }?;
        Ok(read(queue, &keys, count)?.into_iter().map(|key| K::value_of(key, self.form)).collect())
    }

    fn rows_before(&self, i: usize) -> Result<usize> {
        if i == self.len {
            return Ok(self.rows);
        }
        match i % PAGE {
            0 => Ok(self.heads[i / PAGE] as usize),
            inside => self.on_page(i / PAGE, |numbers| numbers[inside] as usize),
        }
    }

    fn value_behind(&self, rows: usize, start: usize, end: usize) -> Result<usize> {
        if rows >= self.rows {
            return Ok(end);
        }
        // The value of row `rows`.
        let page = self.page_of(rows);
        let value = page * PAGE + self.on_page(page, |numbers| numbers.partition_point(|before| *before as usize <= rows))? - 1;
        Ok(value.clamp(start, end))
    }

    fn heavy_values(&self, bins: usize) -> Result<Vec<Heavy>> {
        let (queue, n, total) = (self.queue, self.len as u64, self.rows as u64);
        let kernel = queue.gpu().kernel(BORDERS, "heavy_values")?;
        // Those of an average bin come first; while the average falls with what they leave, lighter ones follow.
        let (mut count, mut rest) = (0, self.rows);
        loop {
            let least = if count == 0 { rest.div_ceil(bins) } else { (rest.div_ceil(bins - count) / 8).max(1) };
            let most = (count + rest / least).min(self.len);
            let mut found = queue.zeros::<u32>("heavy values", 1 + 3 * most)?;
            let (bound, room) = (least as u64, most as u32);
            // SAFETY: the arguments are those of `heavy_values`, with room for `most` values.
            unsafe { launch!(queue, kernel, each_row(queue, self.len); &n, &self.first, &total, &bound, &room, &mut found) }?;
            let found = read(queue, &found, 1 + 3 * most)?;
            let of = |[index, before, rows]: [u32; 3]| Heavy { index: index as usize, before: before as usize, rows: rows as usize };
            let mut heavy: Vec<Heavy> = found[1..].as_chunks().0.iter().take(found[0] as usize).copied().map(of).collect();
            heavy.sort_unstable_by_key(|h| (std::cmp::Reverse(h.rows), h.index));
            (count, rest) = heavy_count(heavy.iter().map(|h| h.rows), bins, self.rows);
            // None of those that were not listed has `least` rows.
            if count < heavy.len() || (least - 1) * (bins - count) < rest {
                heavy.truncate(count);
                heavy.sort_unstable_by_key(|h| h.index);
                return Ok(heavy);
            }
        }
    }

    fn expect(&self, rows: &mut dyn Iterator<Item = usize>) -> Result<()> {
        self.bring(rows.filter(|row| *row < self.rows).map(|row| self.page_of(row)))
    }
}

/// The first `n` values of a slice, when all before has run.
fn read<T: DeviceRepr + Copy + Default>(queue: &Queue, slice: &CudaSlice<T>, n: usize) -> Result<Vec<T>> {
    if n * size_of::<T>() <= PIECE {
        let mut values = queue.read(slice)?;
        values.truncate(n);
        return Ok(values);
    }
    let mut values = vec![T::default(); n];
    queue.download(slice, bytes_of_mut(&mut values))?;
    Ok(values)
}
