//! Codes of categories, made on the GPU from the integers of a column.
//!
//! ```text
//! values close together   code = distance from the least
//! others                  (distance, row) ─► radix sort ─► runs of equal distances are numbered ─► back to the rows
//! ```
//!
//! Categories are numbered in ascending order, nulls behind them, where the CPU numbers them by first appearance: for
//! what asks for no more than which rows belong together.

use super::stats::min_max;
use crate::columns::kernel_names::{NO_VALIDITY, kernel_of, no_kernel};
use crate::launch;
use crate::runtime::column::{DeviceColumn, Form, bytes_of};
use crate::runtime::device::Image;
use crate::runtime::memory::pointer;
use crate::runtime::queue::{Queue, each_row};
use crate::runtime::sort::{Pairs, bits_below};
use cudarc::driver::CudaSlice;
use std::sync::atomic::{AtomicU32, Ordering};
use taiga_core::column::Column;
use taiga_core::column::categories::Codes;
use taiga_core::column::distinct::check_rows;
use taiga_core::error::{Error, Result};
use taiga_core::stats::ColumnValue;

/// `kernels/columns/categories.cu`.
const CATEGORIES: Image = Image { name: "columns/categories", bytes: taiga_kernels::images::categories };

/// Codes of categories on the GPU, all below a number.
pub struct DeviceCodes {
    pub(crate) codes: CudaSlice<u32>,
    pub(crate) rows: usize,
    pub(crate) categories: usize,
}

/// The kernel `$kind_<form>` of a form of integers.
macro_rules! integer_kernel {
    ($kind:literal, $form:expr) => {
        kernel_of!($kind, $form, I8: "i8", I16: "i16", I32: "i32", I64: "i64", U8: "u8", U16: "u16", U32: "u32", U64: "u64")
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
        let Some((near, sorted)) = integer_kernel!("distances", on_device.form()).zip(integer_kernel!("integer_keys", on_device.form()))
        else {
            return Err(no_kernel(gpu, on_device.form()));
        };
        let (least, width) = match min_max(queue, &on_device)?.map(|range| (range.min, range.max)) {
            Some((ColumnValue::Integer(least), ColumnValue::Integer(largest))) => (least, (largest - least) as u128),
            _ => (0, 0),
        };
        let (validity, n, least) = (on_device.validity().map_or(NO_VALIDITY, |v| pointer(queue, v)), rows as u64, least as u64);
        // Null's number is that behind the largest.
        let categories = width + 1 + on_device.validity().is_some() as u128;
        if categories <= (most as u128).min(u32::MAX.into()) {
            let mut codes = queue.alloc::<u32>("codes", rows)?;
            let (kernel, null) = (gpu.kernel(CATEGORIES, near)?, width as u32 + 1);
            // SAFETY: the arguments are those of `distances_*`; the column has `n` values of the kernel's type.
            unsafe { launch!(queue, kernel, each_row(queue, rows); on_device.values(), &validity, &n, &least, &null, &mut codes) }?;
            return Ok(DeviceCodes { codes, rows, categories: categories as usize });
        }
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
        let mut sorted: Pairs<u64> = (queue.alloc("keys", rows)?, queue.alloc("rows", rows)?);
        queue.sort_pairs(&from.0, &from.1, &mut sorted, rows as u32, 0..bits_below(categories as u64))?;
        drop(from);
        let mut begins = queue.alloc::<u32>("numbers", rows)?;
        let kernel = gpu.kernel(CATEGORIES, "mark_runs")?;
        // SAFETY: the arguments are those of `mark_runs`, of `n` keys.
        unsafe { launch!(queue, kernel, each_row(queue, rows); &n, &sorted.0, &mut begins) }?;
        let mut before = queue.alloc::<u32>("numbers", rows)?;
        queue.sum_before(&begins, &mut before, rows as u32)?;
        let mut codes = queue.alloc::<u32>("codes", rows)?;
        let kernel = gpu.kernel(CATEGORIES, "number_runs")?;
        // SAFETY: the arguments are those of `number_runs`; each row stands once among the sorted.
        unsafe { launch!(queue, kernel, each_row(queue, rows); &n, &sorted.1, &begins, &before, &mut codes) }?;
        let last = rows - 1..rows;
        let categories = queue.read(&before.slice(last.clone()))?[0] + queue.read(&begins.slice(last))?[0] + 1;
        Ok(DeviceCodes { codes, rows, categories: categories as usize })
    }
}
