//! Codes of categories, made on the GPU from the integers or texts of a column.
//!
//! ```text
//! integers close together   code = distance from the least
//! other integers            (distance, row) ─► radix sort ─► numbered by their first rows, as combinations are
//! texts                     (hash, row) ─► likewise; neighbours of one hash are compared, and where two texts differ
//!                           after all, the CPU makes the codes
//! ```
//!
//! Distances number categories otherwise than the CPU does, which is for what asks for no more than which rows belong together.

use super::combine::{first_of_sorted, number_by_first, sort_keys};
use super::stats::min_max;
use crate::columns::kernel_names::{NO_VALIDITY, kernel_of, no_kernel};
use crate::launch;
use crate::runtime::column::{DeviceColumn, Form, bytes_of};
use crate::runtime::device::Image;
use crate::runtime::memory::pointer;
use crate::runtime::queue::{Queue, each_row};
use crate::runtime::sort::{Pairs, bits_below};
use crate::runtime::upload::upload;
use cudarc::driver::CudaSlice;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use taiga_core::column::Column;
use taiga_core::column::categories::{CategoryNames, Codes, Texts, UncodedCategories};
use taiga_core::column::distinct::check_rows;
use taiga_core::encoding::Lookup;
use taiga_core::error::{Error, Result};
use taiga_core::stats::{ColumnValue, MinMax};

/// `kernels/columns/categories.cu`.
const CATEGORIES: Image = Image { name: "columns/categories", bytes: taiga_kernels::images::categories };

/// Codes of categories on the GPU, all below a number.
pub struct DeviceCodes {
    pub(crate) codes: CudaSlice<u32>,
    pub(crate) rows: usize,
    pub(crate) categories: usize,
}

/// The kernel `$prefix_<form>` of a form of integers.
macro_rules! integer_kernel {
    ($prefix:literal, $form:expr) => {
        kernel_of!($prefix, $form, I8: "i8", I16: "i16", I32: "i32", I64: "i64", U8: "u8", U16: "u16", U32: "u32", U64: "u64")
    };
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

    /// Makes the codes of a column of integers. Some numbers below that of the categories may have no row, but there are no more
    /// than `most` categories then.
    ///
    /// # Errors
    /// As [`Codes::of_integers`]; [`Error::Device`].
    pub fn of_integers(queue: &Queue, column: &Column<'_>, most: usize) -> Result<Self> {
        let rows = column.len();
        check_rows(column.name(), rows)?;
        if rows == 0 {
            return Ok(DeviceCodes { codes: queue.alloc("codes", 0)?, rows, categories: 0 });
        }
        let gpu = queue.gpu();
        let on_device = DeviceColumn::exact(queue, column)?;
        let (least, width) = range_of(min_max(queue, &on_device)?);
        // Null's number is that behind the largest.
        let categories = width + 1 + on_device.validity().is_some() as u128;
        if categories <= (most as u128).min(u32::MAX.into()) {
            return DeviceCodes::of_near_integers(queue, &on_device, (least, width), categories as usize);
        }
        let sorted = integer_kernel!("integer_keys", on_device.form()).ok_or_else(|| no_kernel(gpu, on_device.form()))?;
        let (validity, n, least) = (on_device.validity().map_or(NO_VALIDITY, |v| pointer(queue, v)), rows as u64, least as u64);
        if categories > u64::MAX.into() {
            let codes = Codes::of_integers(column)?;
            return DeviceCodes::new(queue, "the categories", &codes.codes, codes.categories());
        }
        let (kernel, null) = (gpu.kernel(CATEGORIES, sorted)?, width as u64 + 1);
        let mut from: Pairs<u64> = (queue.alloc("keys", rows)?, queue.alloc("rows", rows)?);
        // SAFETY: the arguments are those of `integer_keys_*`; the column has `n` values of the kernel's type.
        unsafe {
            launch!(queue, kernel, each_row(queue, rows); on_device.values(), &validity, &n, &least, &null, &mut from.0, &mut from.1)?;
        }
        drop(on_device);
        let sorted = sort_keys(queue, from, rows, bits_below(categories as u64))?;
        number_by_first(queue, &first_of_sorted(queue, &sorted)?)
    }

    /// Makes the codes of integers that are at most `width` above the least: their distances from it, and null's behind the largest.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub(super) fn of_near_integers(
        queue: &Queue,
        column: &DeviceColumn,
        (least, width): (i128, u128),
        categories: usize,
    ) -> Result<DeviceCodes> {
        let (gpu, rows) = (queue.gpu(), column.rows());
        let near = integer_kernel!("distances", column.form()).ok_or_else(|| no_kernel(gpu, column.form()))?;
        let (validity, n) = (column.validity().map_or(NO_VALIDITY, |v| pointer(queue, v)), rows as u64);
        let (least, null) = (least as u64, width as u32 + 1);
        let mut codes = queue.alloc::<u32>("codes", rows)?;
        let kernel = gpu.kernel(CATEGORIES, near)?;
        // SAFETY: the arguments are those of `distances_*`; the column has `n` values of the kernel's type.
        unsafe { launch!(queue, kernel, each_row(queue, rows); column.values(), &validity, &n, &least, &null, &mut codes) }?;
        Ok(DeviceCodes { codes, rows, categories })
    }

    /// Makes the codes of texts.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Memory`].
    pub fn of_texts(queue: &Queue, packed: &PackedTexts<'_>) -> Result<Self> {
        let (gpu, rows) = (queue.gpu(), packed.texts.rows());
        check_rows(packed.texts.name(), rows)?;
        if rows == 0 {
            return Ok(DeviceCodes { codes: queue.alloc("codes", 0)?, rows, categories: 0 });
        }
        let on_host = || {
            let codes = UncodedCategories::Texts(packed.texts).codes()?;
            DeviceCodes::new(queue, "the categories", &codes.codes, codes.categories())
        };
        if packed.is_long() {
            return on_host();
        }
        let (n, texts) = (rows as u64, DeviceTexts::new(queue, packed)?);
        let sorted = texts.sorted(queue)?;
        let mut differ = queue.zeros::<u32>("a flag", 1)?;
        let kernel = gpu.kernel(CATEGORIES, "compare_texts")?;
        let DeviceTexts { starts, ends, texts, .. } = &texts;
        // SAFETY: the arguments are those of `compare_texts`, with the rows of all texts sorted by their hashes.
        unsafe { launch!(queue, kernel, each_row(queue, rows); &n, &sorted.0, &sorted.1, starts, ends, texts, &mut differ) }?;
        if queue.read(&differ)?[0] != 0 {
            return on_host();
        }
        number_by_first(queue, &first_of_sorted(queue, &sorted)?)
    }
}

/// The least of integers, and how far the largest is above it; of no integers zeros.
pub(super) fn range_of(extremes: Option<MinMax>) -> (i128, u128) {
    match extremes.map(|range| (range.min, range.max)) {
        Some((ColumnValue::Integer(least), ColumnValue::Integer(largest))) => (least, (largest - least) as u128),
        _ => (0, 0),
    }
}

/// Texts on the GPU, as [`PackedTexts`] lays them out.
struct DeviceTexts {
    rows: usize,
    starts: CudaSlice<u64>,
    ends: CudaSlice<u32>,
    texts: CudaSlice<u8>,
}

impl DeviceTexts {
    fn new(queue: &Queue, packed: &PackedTexts<'_>) -> Result<Self> {
        let rows = packed.texts.rows();
        let starts = upload(queue, "the texts", &packed.starts)?;
        let mut ends = queue.alloc::<u32>("the texts", rows)?;
        queue.upload(&mut ends, rows * 4, &|from, out| packed.fill_ends(from / 4, out))?;
        let mut texts = queue.alloc::<u8>("the texts", packed.len())?;
        queue.upload(&mut texts, packed.len(), &|from, out| packed.fill_texts(from as u64, out))?;
        Ok(DeviceTexts { rows, starts, ends, texts })
    }

    /// The hashes of the texts in ascending order, with the row of each.
    fn sorted(&self, queue: &Queue) -> Result<Pairs<u64>> {
        let (n, rows) = (self.rows as u64, self.rows);
        let mut from: Pairs<u64> = (queue.alloc("keys", rows)?, queue.alloc("rows", rows)?);
        let kernel = queue.gpu().kernel(CATEGORIES, "text_keys")?;
        // SAFETY: the arguments are those of `text_keys`: a start for each block of rows, an end for each row, and the texts between.
        unsafe { launch!(queue, kernel, each_row(queue, rows); &n, &self.starts, &self.ends, &self.texts, &mut from.0, &mut from.1) }?;
        sort_keys(queue, from, rows, 64)
    }
}

/// The codes of rows among fitted categories; the number of these for what is not among them.
///
/// # Errors
/// [`Error::Data`] where the rows are of another kind; [`Error::Device`], [`Error::Memory`].
pub fn look_up(queue: &Queue, rows: &UncodedCategories<'_>, lookup: &Lookup) -> Result<DeviceCodes> {
    let (gpu, categories, n) = (queue.gpu(), lookup.categories(), rows.rows());
    let (unseen, count) = (categories.len() as u32, n as u64);
    if n >= u32::MAX as usize {
        return Err(Error::Data(format!("{n} rows are more than 32 bits can number")));
    }
    let mut codes = queue.alloc::<u32>("codes", n)?;
    match (rows, &categories.labels) {
        _ if n == 0 => {}
        (UncodedCategories::Integers(column), CategoryNames::Integer(labels)) => {
            let on_device = DeviceColumn::exact(queue, column)?;
            let kernel = integer_kernel!("look_up_integers", on_device.form()).ok_or_else(|| no_kernel(gpu, on_device.form()))?;
            // What the column's type can't hold is none of its values.
            let signed = matches!(on_device.form(), Form::I8 | Form::I16 | Form::I32 | Form::I64);
            let key = |label: i128| if signed { i64::try_from(label).ok().map(|x| x as u64) } else { u64::try_from(label).ok() };
            let own = (0..).zip(labels).filter(|(code, _)| categories.null != Some(*code));
            let mut keys: Vec<(u64, u32)> = own.filter_map(|(code, label)| key(*label).map(|key| (key, code))).collect();
            keys.par_sort_unstable();
            let (keys, labels): (Vec<u64>, Vec<u32>) = keys.into_iter().unzip();
            let (labels_count, null) = (keys.len() as u64, categories.null.unwrap_or(unseen));
            let (keys, labels) = (upload(queue, "the categories", &keys)?, upload(queue, "the categories", &labels)?);
            let validity = on_device.validity().map_or(NO_VALIDITY, |v| pointer(queue, v));
            // SAFETY: the arguments are those of `look_up_integers_*`; the column has `n` values of the kernel's type, and each key a code.
            unsafe {
                launch!(queue, gpu.kernel(CATEGORIES, kernel)?, each_row(queue, n);
                    on_device.values(), &validity, &count, &keys, &labels, &labels_count, &unseen, &null, &mut codes)?;
            }
        }
        (UncodedCategories::Texts(texts), CategoryNames::Text(labels)) => {
            let labels = Labels { labels, null: categories.null };
            let (texts, labels) = (PackedTexts::new(*texts), PackedTexts::new(&labels));
            if texts.is_long() || labels.is_long() {
                return Err(Error::Data(format!("{TEXT_BLOCK} rows have more than 4 GB of text")));
            }
            let (texts, labels) = (DeviceTexts::new(queue, &texts)?, DeviceTexts::new(queue, &labels)?);
            let (sorted, labels_count) = (labels.sorted(queue)?, labels.rows as u64);
            // SAFETY: the arguments are those of `look_up_texts`: texts and labels as in `text_keys`, the labels sorted by their hashes.
            unsafe {
                launch!(queue, gpu.kernel(CATEGORIES, "look_up_texts")?, each_row(queue, n);
                    &count, &texts.starts, &texts.ends, &texts.texts, &labels_count, &sorted.0, &sorted.1,
                    &labels.starts, &labels.ends, &labels.texts, &unseen, &mut codes)?;
            }
        }
        _ => return Err(Error::Data(format!("the fitted categories are {}", categories.kind()))),
    }
    Ok(DeviceCodes { codes, rows: n, categories: categories.len() + 1 })
}

/// Labels of categories, null among them where it is one.
struct Labels<'a> {
    labels: &'a [String],
    null: Option<u32>,
}

impl<'b, 'a: 'b> Texts<'b> for Labels<'a> {
    fn name(&self) -> &str {
        "the categories"
    }

    fn rows(&self) -> usize {
        self.labels.len()
    }

    fn visit(&self, rows: Range<usize>, visit: &mut dyn FnMut(Option<&'b str>)) {
        rows.for_each(|code| visit((self.null != Some(code as u32)).then(|| self.labels[code].as_str())));
    }
}

/// `TEXT_BLOCK` of `kernels/columns/categories.cu`: rows whose texts are counted from one start.
const TEXT_BLOCK: usize = 1 << 14;

/// What stands for null: no byte of a text.
const NULL_TEXT: &[u8] = &[0xFF];

/// Texts of rows, to be laid one behind the other.
///
/// ```text
/// texts    a bc ddd │ e ff          of blocks of rows
/// starts   0        │ 6       │ 9   of blocks
/// ends     1 3  6   │ 1 3           of rows, from their block's start on
/// ```
pub struct PackedTexts<'a> {
    texts: &'a dyn Texts<'a>,
    starts: Vec<u64>,
}

impl<'a> PackedTexts<'a> {
    /// Measures texts.
    pub fn new(texts: &'a dyn Texts<'a>) -> Self {
        let rows = texts.rows();
        let blocks: Vec<u64> = (0..rows.div_ceil(TEXT_BLOCK))
            .into_par_iter()
            .map(|block| {
                let mut bytes = 0;
                visit_texts(texts, block * TEXT_BLOCK..rows.min((block + 1) * TEXT_BLOCK), |text| bytes += text.len() as u64);
                bytes
            })
            .collect();
        let mut starts = vec![0];
        starts.extend(blocks.iter().scan(0, |end, bytes| {
            *end += bytes;
            Some(*end)
        }));
        PackedTexts { texts, starts }
    }

    /// Whether some block has more bytes than 32 bits count.
    fn is_long(&self) -> bool {
        self.starts.windows(2).any(|block| block[1] - block[0] > u32::MAX.into())
    }

    /// Bytes of all texts.
    fn len(&self) -> usize {
        self.starts.last().map_or(0, |end| *end as usize)
    }

    /// Bytes that their codes take on a GPU besides those of an encoding.
    pub(super) fn bytes(&self) -> u64 {
        self.len() as u64 + 4 * self.texts.rows() as u64
    }

    /// Writes the ends of the rows from `row` on, the first of a block.
    fn fill_ends(&self, row: usize, out: &mut [u8]) {
        let rows = row..row + out.len() / 4;
        let (mut row, mut end) = (rows.start, 0u32);
        let mut places = out.chunks_exact_mut(4);
        visit_texts(self.texts, rows, |text| {
            end = if row % TEXT_BLOCK == 0 { 0 } else { end }.wrapping_add(text.len() as u32);
            row += 1;
            if let Some(place) = places.next() {
                place.copy_from_slice(&end.to_ne_bytes());
            }
        });
    }

    /// Writes the bytes from `from` on.
    fn fill_texts(&self, from: u64, out: &mut [u8]) {
        let until = from + out.len() as u64;
        // The last block that begins there or before it; several do where texts are empty.
        let first = self.starts.partition_point(|start| *start <= from).saturating_sub(1);
        for block in first..self.starts.len() - 1 {
            let mut at = self.starts[block];
            if at >= until {
                return;
            }
            let rows = block * TEXT_BLOCK..self.texts.rows().min((block + 1) * TEXT_BLOCK);
            visit_texts(self.texts, rows, |text| {
                let end = at + text.len() as u64;
                let (first, last) = (at.max(from), end.min(until));
                if first < last {
                    let part = &text[(first - at) as usize..(last - at) as usize];
                    out[(first - from) as usize..(last - from) as usize].copy_from_slice(part);
                }
                at = end;
            });
        }
    }
}

fn visit_texts<'a>(texts: &dyn Texts<'a>, rows: Range<usize>, mut visit: impl FnMut(&[u8])) {
    texts.visit(rows, &mut |text| visit(text.map_or(NULL_TEXT, str::as_bytes)));
}
