//! Codes of columns, made on the GPU from raw values: those of [`crate::quantize::codes`].
//!
//! ```text
//! copy queue │ column 0 │ column 1 │ column 2 │          the bus is never idle; codes of a column
//! queue                 │ codes 0  │ codes 1  │ codes 2   are made while the next one comes
//! ```

use super::column::{DeviceColumn, Form, bytes_of};
use super::device::{Gpu, Image, Kernel};
use super::error::driver;
use super::queue::{Queue, grid};
use super::stats::{kernel_of, no_kernel, pointer};
use crate::column::Column;
use crate::error::Result;
use crate::launch;
use crate::quantize::codes::round_down;
use cudarc::driver::{CudaEvent, CudaSlice, CudaViewMut, DeviceRepr};
use std::collections::VecDeque;

/// `kernels/codes.cu`.
const CODES: Image = Image { name: "codes", bytes: taiga_kernels::images::codes };

const THREADS: u32 = 512;

/// Borders in shared memory up to this many bytes; more are searched where they are.
const MOST_SHARED: usize = 48 << 10;

/// An unsigned integer that holds codes on the GPU.
pub trait DeviceCode: DeviceRepr {
    #[doc(hidden)]
    fn kernel(form: Form) -> Option<&'static str>;
}

impl DeviceCode for u8 {
    fn kernel(form: Form) -> Option<&'static str> {
        kernel_of!("codes", form, F32: "f32_u8", F64: "f64_u8", I8: "i8_u8", I16: "i16_u8", I32: "i32_u8", I64: "i64_u8",
            U8: "u8_u8", U16: "u16_u8", U32: "u32_u8", U64: "u64_u8")
    }
}

impl DeviceCode for u16 {
    fn kernel(form: Form) -> Option<&'static str> {
        kernel_of!("codes", form, F32: "f32_u16", F64: "f64_u16", I8: "i8_u16", I16: "i16_u16", I32: "i32_u16", I64: "i64_u16",
            U8: "u8_u16", U16: "u16_u16", U32: "u32_u16", U64: "u64_u16")
    }
}

/// Where the codes of a column go: row `r` has index `first + r * stride`.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub first: usize,
    pub stride: usize,
}

fn blocks(gpu: &Gpu, rows: usize) -> u32 {
    (rows.div_ceil(THREADS as usize) as u32).clamp(1, gpu.multiprocessors() * (2048 / THREADS))
}

/// Writes the codes of a column that is on the GPU: `offset + #(borders < x)`, and 0 for a missing value;
/// sets `missing[0]` to 1 where there is one (it is the caller's to clear). Does not wait.
///
/// # Errors
/// [`crate::Error::Memory`] and [`crate::Error::Device`].
///
/// # Panics
/// When `out` is too short for the rows.
pub fn codes<C: DeviceCode>(
    queue: &Queue,
    column: &DeviceColumn,
    borders: &[f64],
    offset: usize,
    out: &mut CudaSlice<C>,
    place: Place,
    missing: &mut CudaViewMut<'_, u32>,
) -> Result<()> {
    let (gpu, rows) = (queue.gpu(), column.rows());
    if rows == 0 {
        return Ok(());
    }
    assert!(place.first + (rows - 1) * place.stride < out.len(), "room for {rows} codes");
    let kernel = gpu.kernel(CODES, C::kernel(column.form()).ok_or_else(|| no_kernel(gpu, column.form()))?)?;
    // An f32 compares with the border rounded down, which is the same test.
    let table = match column.form() {
        Form::F32 => queue.copy_of("borders", bytes_of(&borders.iter().map(|b| round_down(*b)).collect::<Vec<f32>>()))?,
        _ => queue.copy_of("borders", bytes_of(borders))?,
    };
    let bytes = borders.len() * if column.form() == Form::F32 { 4 } else { 8 };
    let shared = if bytes <= MOST_SHARED { bytes as u32 } else { 0 };
    let (validity, count, n) = (column.validity().map_or(0, |v| pointer(queue, v)), rows as u64, borders.len() as u32);
    let (in_shared, offset, first, stride) = ((shared > 0) as u32, offset as u32, place.first as u64, place.stride as u64);
    // SAFETY: the arguments are those of `codes_*`; the column has `rows` values of the kernel's type, `out` has room
    // (asserted above), shared memory holds the borders where it is said to.
    unsafe {
        launch!(queue, kernel, grid(blocks(gpu, rows), THREADS, shared);
            column.values(), &validity, &count, &table, &n, &in_shared, &offset, out, &first, &stride, missing)
    }
}

/// What the codes of a feature are made from.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// Values, and their borders and the code of the lowest bin: 1 where 0 means missing, else 0.
    Values(&'a Column<'a>, &'a [f64], usize),
    /// The codes themselves.
    Codes(&'a [u8]),
}

/// Codes of many columns from host memory, each in its place of `out`; columns are on their way while those
/// before them are coded. Says of each column whether a value is missing (of codes: false), and so waits.
///
/// # Errors
/// [`crate::Error::Memory`] and [`crate::Error::Device`].
///
/// # Panics
/// When `out` is too short for the rows.
pub fn quantize(queue: &Queue, sources: &[(Source<'_>, Place)], out: &mut CudaSlice<u8>) -> Result<Vec<bool>> {
    let gpu = queue.gpu();
    let copies = Queue::new(gpu)?;
    let place_codes = gpu.kernel(CODES, "place_u8")?;
    let mut missing = queue.zeros::<u32>("flags", sources.len())?;
    // What has been coded is freed two columns later, when the GPU has long done with it.
    let mut coded: VecDeque<(OnDevice, CudaEvent)> = VecDeque::new();
    let free = |coded: &mut VecDeque<(OnDevice, CudaEvent)>, keep: usize| -> Result<()> {
        while coded.len() > keep {
            if let Some((_, done)) = coded.front() {
                copies.stream().wait(done).map_err(|e| driver(gpu, "waiting for codes", e))?;
            }
            coded.pop_front();
        }
        Ok(())
    };
    let result = (|| {
        for (i, (source, place)) in sources.iter().enumerate() {
            free(&mut coded, 2)?;
            let on_device = match source {
                Source::Values(column, ..) => OnDevice::Values(DeviceColumn::numeric(&copies, column)?),
                Source::Codes(codes) => {
                    let mut slice = copies.alloc::<u8>("codes", codes.len())?;
                    copies.upload(&mut slice, codes.len(), &|from, out| out.copy_from_slice(&codes[from..from + out.len()]))?;
                    OnDevice::Codes(slice)
                }
            };
            queue.wait_for(&copies)?;
            match (&on_device, source) {
                (OnDevice::Values(column), Source::Values(_, borders, offset)) => {
                    codes(queue, column, borders, *offset, out, *place, &mut missing.slice_mut(i..i + 1))?;
                }
                (OnDevice::Codes(slice), Source::Codes(codes)) => place_on(queue, &place_codes, slice, codes.len(), out, *place)?,
                _ => {}
            }
            let done = queue.stream().record_event(None).map_err(|e| driver(gpu, "recording an event", e))?;
            coded.push_back((on_device, done));
        }
        queue.read(&missing)
    })();
    // Before the columns go, on success and on failure alike.
    free(&mut coded, 0)?;
    Ok(result?.into_iter().take(sources.len()).map(|m| m != 0).collect())
}

enum OnDevice {
    Values(DeviceColumn),
    Codes(CudaSlice<u8>),
}

fn place_on(queue: &Queue, kernel: &Kernel, codes: &CudaSlice<u8>, rows: usize, out: &mut CudaSlice<u8>, place: Place) -> Result<()> {
    if rows == 0 {
        return Ok(());
    }
    assert!(place.first + (rows - 1) * place.stride < out.len(), "room for {rows} codes");
    let (count, first, stride) = (rows as u64, place.first as u64, place.stride as u64);
    // SAFETY: the arguments are those of `place_u8`; there are `rows` codes, and `out` has room (asserted above).
    unsafe { launch!(queue, kernel, grid(blocks(queue.gpu(), rows), THREADS, 0); codes, &count, out, &first, &stride) }
}
