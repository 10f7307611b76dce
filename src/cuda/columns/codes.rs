//! Codes of columns, made on the GPU from raw values: those of [`taiga_core::quantize::codes`].
//!
//! ```text
//! copy queue │ column 0 │ column 1 │ column 2 │          the bus is never idle; codes of a column
//! queue                 │ codes 0  │ codes 1  │ codes 2   are made while the next one comes
//! ```

use crate::columns::kernel_names::{kernel_of, no_kernel};
use crate::launch;
use crate::runtime::column::{DeviceColumn, Form, bytes_of, bytes_of_mut};
use crate::runtime::device::{Gpu, Image, Kernel};
use crate::runtime::memory::pointer;
use crate::runtime::queue::{Queue, grid};
use crate::runtime::upload::{Fill, Upload};
use cudarc::driver::{CudaSlice, CudaViewMut, DeviceRepr};
use taiga_core::column::Column;
use taiga_core::error::Result;
use taiga_core::quantize::codes::round_down;

/// `kernels/columns/codes.cu`.
const CODES: Image = Image { name: "columns/codes", bytes: taiga_kernels::images::codes };

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
pub struct CodePlace {
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
/// [`taiga_core::Error::Device`].
///
/// # Panics
/// When `out` is too short for the rows.
pub fn codes<C: DeviceCode>(
    queue: &Queue,
    column: &DeviceColumn,
    borders: &[f64],
    offset: usize,
    out: &mut CudaSlice<C>,
    place: CodePlace,
    missing: &mut CudaViewMut<'_, u32>,
) -> Result<()> {
    let table = queue.copy_of("borders", &compared(column.form(), borders))?;
    codes_by(queue, column, (pointer(queue, &table), borders.len()), offset, out, place, missing)
}

/// Borders as the kernel of a form compares with them, in bytes: an f32 with the border rounded down, which is the same test.
fn compared(form: Form, borders: &[f64]) -> Vec<u8> {
    match form {
        Form::F32 => bytes_of(&borders.iter().map(|b| round_down(*b)).collect::<Vec<f32>>()).to_vec(),
        _ => bytes_of(borders).to_vec(),
    }
}

/// [`codes`] by borders that are on the GPU already: where, and how many.
fn codes_by<C: DeviceCode>(
    queue: &Queue,
    column: &DeviceColumn,
    (table, borders): (u64, usize),
    offset: usize,
    out: &mut CudaSlice<C>,
    place: CodePlace,
    missing: &mut CudaViewMut<'_, u32>,
) -> Result<()> {
    let (gpu, rows) = (queue.gpu(), column.rows());
    if rows == 0 {
        return Ok(());
    }
    assert!(place.first + (rows - 1) * place.stride < out.len(), "room for {rows} codes");
    let kernel = gpu.kernel(CODES, C::kernel(column.form()).ok_or_else(|| no_kernel(gpu, column.form()))?)?;
    let bytes = borders * if column.form() == Form::F32 { 4 } else { 8 };
    let shared = if bytes <= MOST_SHARED { bytes as u32 } else { 0 };
    let (validity, count, n) = (column.validity().map_or(0, |v| pointer(queue, v)), rows as u64, borders as u32);
    let (in_shared, offset, first, stride) = ((shared > 0) as u32, offset as u32, place.first as u64, place.stride as u64);
    // SAFETY: the arguments are those of `codes_*`; the column has `rows` values of the kernel's type, `out` has room
    // (asserted above), shared memory holds the borders where it is said to.
    unsafe {
        launch!(queue, kernel, grid(blocks(gpu, rows), THREADS, shared);
            column.values(), &validity, &count, &table, &n, &in_shared, &offset, out, &first, &stride, missing)
    }
}

/// The codes of a column from host memory, with offset 1: 0 is a missing value's.
///
/// # Errors
/// [`taiga_core::Error::Device`].
pub fn codes_of(queue: &Queue, column: &Column<'_>, borders: &[f64]) -> Result<Vec<u16>> {
    let rows = column.len();
    let bytes = (DeviceColumn::numeric_bytes(column) + 2 * rows) as u64;
    queue.check_memory(&format!("the codes of the column `{}`", column.name()), bytes)?;
    let on_device = DeviceColumn::numeric(queue, column)?;
    let (mut out, mut missing) = (queue.alloc::<u16>("codes", rows)?, queue.zeros::<u32>("a flag", 1)?);
    codes(queue, &on_device, borders, 1, &mut out, CodePlace { first: 0, stride: 1 }, &mut missing.as_view_mut())?;
    let mut codes = vec![0; rows];
    queue.download(&out, bytes_of_mut(&mut codes))?;
    Ok(codes)
}

/// What the codes of a feature are made from.
#[derive(Clone, Copy)]
pub enum CodeInput<'a> {
    /// Values, and their borders and the code of the lowest bin: 1 where 0 means missing, else 0.
    Values(&'a Column<'a>, &'a [f64], usize),
    /// The codes themselves.
    Codes(&'a [u8]),
}

/// Raw values that are on the GPU at a time, about.
const GROUP: usize = 4 << 30;

/// Codes of many columns from host memory, each in its place of `out`; columns are on their way while those
/// before them are coded. Says of each column whether a value is missing (of codes: false), and so waits.
///
/// # Errors
/// [`taiga_core::Error::Device`].
///
/// # Panics
/// When `out` is too short for the rows.
pub fn quantize(queue: &Queue, sources: &[(CodeInput<'_>, CodePlace)], out: &mut CudaSlice<u8>) -> Result<Vec<bool>> {
    let copies = Queue::new(queue.gpu())?;
    let mut missing = queue.zeros::<u32>("flags", sources.len())?;
    let free = crate::runtime::memory::of(queue.gpu())?.free as usize;
    let mut start = 0;
    while start < sources.len() {
        // As many columns as fit, one at least.
        let (mut end, mut bytes) = (start + 1, sources[start].0.bytes());
        while end < sources.len() && bytes + sources[end].0.bytes() <= GROUP.min(free / 2) {
            bytes += sources[end].0.bytes();
            end += 1;
        }
        quantize_group(queue, &copies, &sources[start..end], out, &mut missing.slice_mut(start..end))?;
        start = end;
    }
    Ok(queue.read(&missing)?.into_iter().take(sources.len()).map(|m| m != 0).collect())
}

fn quantize_group(
    queue: &Queue,
    copies: &Queue,
    sources: &[(CodeInput<'_>, CodePlace)],
    out: &mut CudaSlice<u8>,
    missing: &mut CudaViewMut<'_, u32>,
) -> Result<()> {
    let place_codes = queue.gpu().kernel(CODES, "place_u8")?;
    let mut columns = rooms(copies, sources)?;
    let mut uploads: Vec<Upload<'_>> = vec![];
    // Of each upload its source, and of each source the uploads that are not done.
    let (mut source_of, mut left) = (vec![], vec![0; sources.len()]);
    for (i, ((source, _), column)) in sources.iter().zip(&columns).enumerate() {
        let of_source = column.uploads(copies, source);
        left[i] = of_source.len();
        source_of.extend(of_source.iter().map(|_| i));
        uploads.extend(of_source);
    }
    // The borders of all columns are one table: where rows are few, a copy for each column would take as long as its values.
    let (mut table, mut first_of) = (vec![], vec![0; sources.len()]);
    for (first, (column, (source, _))) in first_of.iter_mut().zip(columns.iter().zip(sources)) {
        if let (DeviceInput::Values(column), CodeInput::Values(_, borders, _)) = (column, source) {
            *first = table.len() as u64;
            table.extend(compared(column.form(), borders));
            table.resize(table.len().next_multiple_of(8), 0);
        }
    }
    let table = queue.copy_of("borders", &table)?;
    let table_at = pointer(queue, &table);
    let mut code = |i: usize| {
        queue.wait_for(copies)?;
        match (&columns[i], &sources[i]) {
            (DeviceInput::Values(column), (CodeInput::Values(_, borders, offset), place)) => {
                let own = (table_at + first_of[i], borders.len());
                codes_by(queue, column, own, *offset, out, *place, &mut missing.slice_mut(i..i + 1))
            }
            (DeviceInput::Codes(slice), (CodeInput::Codes(codes), place)) => place_on(queue, &place_codes, slice, codes.len(), out, *place),
            _ => Ok(()),
        }
    };
    // Those that are on the device already first.
    let there = (0..sources.len()).filter(|i| left[*i] == 0).collect::<Vec<_>>();
    let result = there.into_iter().try_for_each(&mut code).and_then(|()| {
        copies.upload_each(&uploads, &mut |upload| {
            let i = source_of[upload];
            left[i] -= 1;
            if left[i] > 0 { Ok(()) } else { code(i) }
        })
    });
    if result.is_ok() {
        for column in &mut columns {
            if let DeviceInput::Values(column) = column {
                column.keep(copies)?;
            }
        }
    }
    // The columns are freed behind what reads them, on success and on failure alike.
    copies.wait_for(queue)?;
    result
}

enum DeviceInput {
    Values(DeviceColumn),
    Codes(CudaSlice<u8>),
}

impl<'a> CodeInput<'a> {
    fn bytes(&self) -> usize {
        match self {
            CodeInput::Values(column, ..) => DeviceColumn::numeric_bytes(column),
            CodeInput::Codes(codes) => codes.len(),
        }
    }
}

/// What is there already of the sources, and room for the others.
fn rooms(queue: &Queue, sources: &[(CodeInput<'_>, CodePlace)]) -> Result<Vec<DeviceInput>> {
    let columns: Vec<&Column<'_>> = sources
        .iter()
        .filter_map(|(source, _)| match source {
            CodeInput::Values(column, ..) => Some(*column),
            CodeInput::Codes(_) => None,
        })
        .collect();
    let mut values = DeviceColumn::numeric_rooms(queue, &columns)?.into_iter();
    let mut rooms = vec![];
    for (source, _) in sources {
        rooms.extend(match source {
            CodeInput::Values(..) => values.next().map(DeviceInput::Values),
            CodeInput::Codes(codes) => Some(DeviceInput::Codes(queue.alloc::<u8>("codes", codes.len())?)),
        });
    }
    Ok(rooms)
}

impl DeviceInput {
    fn uploads<'a>(&self, queue: &Queue, source: &CodeInput<'a>) -> Vec<Upload<'a>> {
        match (self, source) {
            (DeviceInput::Values(on_device), CodeInput::Values(column, ..)) => on_device.uploads(queue, column),
            (DeviceInput::Codes(slice), CodeInput::Codes(codes)) => {
                let codes = *codes;
                let fill: Fill<'a> = Box::new(move |from, out| out.copy_from_slice(&codes[from..from + out.len()]));
                vec![Upload { to: pointer(queue, slice), bytes: codes.len(), fill }]
            }
            _ => vec![],
        }
    }
}

fn place_on(queue: &Queue, kernel: &Kernel, codes: &CudaSlice<u8>, rows: usize, out: &mut CudaSlice<u8>, place: CodePlace) -> Result<()> {
    if rows == 0 {
        return Ok(());
    }
    assert!(place.first + (rows - 1) * place.stride < out.len(), "room for {rows} codes");
    let (count, first, stride) = (rows as u64, place.first as u64, place.stride as u64);
    // SAFETY: the arguments are those of `place_u8`; there are `rows` codes, and `out` has room (asserted above).
    unsafe { launch!(queue, kernel, grid(blocks(queue.gpu(), rows), THREADS, 0); codes, &count, out, &first, &stride) }
}
