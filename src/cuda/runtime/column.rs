//! Columns on the GPU.

use super::fingerprint::{Pieces, Shape, piece};
use super::queue::Queue;
use super::upload::{Fill, Upload};
use crate::runtime::memory::pointer;
use cudarc::driver::{CudaSlice, CudaStream};
use std::hint::black_box;
use std::sync::Arc;
use taiga_core::column::{Column, Values};
use taiga_core::error::Result;

/// What values are on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    U128,
}

impl Form {
    /// Bytes of a value.
    pub fn size(self) -> usize {
        match self {
            Form::I8 | Form::U8 => 1,
            Form::I16 | Form::U16 => 2,
            Form::F32 | Form::I32 | Form::U32 => 4,
            Form::F64 | Form::I64 | Form::U64 => 8,
            Form::I128 | Form::U128 => 16,
        }
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Form::F32 | Form::F64)
    }

    /// The form that holds values as they are; 0 and 1 for Booleans, integers for decimals.
    fn exact(values: &Values<'_>) -> Form {
        match values {
            Values::F32(_) => Form::F32,
            Values::F64(_) => Form::F64,
            Values::I8(_) => Form::I8,
            Values::I16(_) => Form::I16,
            Values::I32(_) => Form::I32,
            Values::I64(_) => Form::I64,
            Values::I128(_) | Values::Decimal(..) => Form::I128,
            Values::U8(_) | Values::Bool(_) => Form::U8,
            Values::U16(_) => Form::U16,
            Values::U32(_) => Form::U32,
            Values::U64(_) => Form::U64,
            Values::U128(_) => Form::U128,
        }
    }

    /// The form whose values, as f64, are those that [`Column::read_f64`] gives.
    fn numeric(values: &Values<'_>) -> Form {
        match values {
            Values::I128(_) | Values::U128(_) | Values::Decimal(..) => Form::F64,
            other => Form::exact(other),
        }
    }

    /// The one form that all chunks can have; f64 where they differ, which no Arrow column's do.
    fn of(column: &Column<'_>, form: fn(&Values<'_>) -> Form) -> Form {
        let mut found = None;
        column.segments(0, column.len(), |chunk, _, _, _| {
            let this = form(&chunk.values());
            found = Some(found.map_or(this, |f| if f == this { f } else { Form::F64 }));
        });
        found.unwrap_or(Form::F64)
    }
}

/// A column's memory on the GPU.
pub(crate) struct Stored {
    /// Aligned as the driver aligns, which is to 256 bytes. A null of a float form is NaN, else anything.
    values: CudaSlice<u8>,
    /// A bit for each row, unset for nulls; none for float forms and where there is no null.
    validity: Option<CudaSlice<u32>>,
}

impl Stored {
    /// Where it was allocated, and is freed.
    pub(crate) fn stream(&self) -> &Arc<CudaStream> {
        self.values.stream()
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.values.num_bytes() + self.validity.as_ref().map_or(0, |v| v.num_bytes())) as u64
    }
}

/// A column on the GPU: its chunks one behind the other.
pub struct DeviceColumn {
    shape: Shape,
    stored: Arc<Stored>,
    /// The stream of the queue that works with it.
    stream: Arc<CudaStream>,
    /// Whether it was there already.
    found: bool,
    /// The hashes of what is uploaded, where it may stay.
    hashes: Option<Arc<Pieces>>,
    /// Whether others have it too ([`super::cache`]).
    shared: bool,
}

impl Drop for DeviceColumn {
    fn drop(&mut self) {
        if self.shared {
            // Its memory is freed in the order of another stream: not before what was queued here.
            let context = self.stream.context().clone();
            context.record_err(self.stored.stream().join(&self.stream));
        }
    }
}

impl DeviceColumn {
    /// Copies a column for arithmetic: as f64 its values are those of [`Column::read_f64`].
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn numeric(queue: &Queue, column: &Column<'_>) -> Result<DeviceColumn> {
        DeviceColumn::with_form(queue, column, Form::of(column, Form::numeric))
    }

    /// Copies a column with its values as they are.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn exact(queue: &Queue, column: &Column<'_>) -> Result<DeviceColumn> {
        DeviceColumn::with_form(queue, column, Form::of(column, Form::exact))
    }

    /// Copies a column as f64.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn doubles(queue: &Queue, column: &Column<'_>) -> Result<DeviceColumn> {
        DeviceColumn::with_form(queue, column, Form::F64)
    }

    /// [`DeviceColumn::numeric`] of a column that nothing else will ask for: it neither stays nor is looked for.
    pub(crate) fn passing(queue: &Queue, column: &Column<'_>) -> Result<DeviceColumn> {
        let on_device = DeviceColumn::new_room(queue, column, Shape::of(column, Form::of(column, Form::numeric)))?;
        queue.upload_each(&on_device.uploads(queue, column), &mut |_| Ok(()))?;
        Ok(on_device)
    }

    fn with_form(queue: &Queue, column: &Column<'_>, form: Form) -> Result<DeviceColumn> {
        let _turn = queue.gpu().cache.turn(queue.gpu(), column, Shape::of(column, form));
        let mut rooms = DeviceColumn::rooms(queue, std::iter::once((column, form)))?;
        let mut on_device = rooms.remove(0);
        queue.upload_each(&on_device.uploads(queue, column), &mut |_| Ok(()))?;
        on_device.keep(queue)?;
        Ok(on_device)
    }

    /// [`DeviceColumn::numeric`] where it is there already.
    pub(crate) fn numeric_there(queue: &Queue, column: &Column<'_>) -> Result<Option<DeviceColumn>> {
        let shape = Shape::of(column, Form::of(column, Form::numeric));
        let found = queue.gpu().cache.find(queue, &[(column, shape)])?;
        Ok(found.into_iter().next().flatten().map(|stored| DeviceColumn::there(queue, shape, stored)))
    }

    fn there(queue: &Queue, shape: Shape, stored: Arc<Stored>) -> DeviceColumn {
        DeviceColumn { shape, stored, stream: queue.stream().clone(), found: true, hashes: None, shared: true }
    }

    /// Gives each column as [`DeviceColumn::numeric`] where it is there already; else room for it, to be filled by
    /// [`DeviceColumn::uploads`].
    pub(crate) fn numeric_rooms(queue: &Queue, columns: &[&Column<'_>]) -> Result<Vec<DeviceColumn>> {
        DeviceColumn::rooms(queue, columns.iter().map(|column| (*column, Form::of(column, Form::numeric))))
    }

    /// Bytes that [`DeviceColumn::numeric`] takes, about.
    pub(crate) fn numeric_bytes(column: &Column<'_>) -> usize {
        column.len() * Form::of(column, Form::numeric).size()
    }

    /// Bytes that [`DeviceColumn::exact`] takes, about.
    pub(crate) fn exact_bytes(column: &Column<'_>) -> usize {
        column.len() * Form::of(column, Form::exact).size()
    }

    fn rooms<'a, 'b: 'a>(queue: &Queue, columns: impl Iterator<Item = (&'a Column<'b>, Form)>) -> Result<Vec<DeviceColumn>> {
        let (gpu, shaped) = (queue.gpu(), columns.map(|(column, form)| (column, Shape::of(column, form))).collect::<Vec<_>>());
        let found = gpu.cache.find(queue, &shaped)?;
        let room = |((column, shape), stored): (&(&Column<'_>, Shape), Option<Arc<Stored>>)| match stored {
            Some(stored) => Ok(DeviceColumn::there(queue, *shape, stored)),
            None => {
                let mut room = DeviceColumn::new_room(queue, column, *shape)?;
                room.hashes = gpu.cache.takes(gpu, *shape).then(|| Arc::new(Pieces::new(*shape)));
                Ok(room)
            }
        };
        shaped.iter().zip(found).map(room).collect()
    }

    fn new_room(queue: &Queue, column: &Column<'_>, shape: Shape) -> Result<DeviceColumn> {
        let stream = queue.stream().clone();
        // What it says where there is too little is what a check before would: asking for the memory that is free takes longer
        // than the rest.
        let what = format!("column `{}`", column.name());
        let values = queue.alloc::<u8>(&what, shape.values())?;
        let validity = if shape.bitmap { Some(queue.alloc::<u32>(&what, shape.bits() / 4)?) } else { None };
        Ok(DeviceColumn { shape, stored: Arc::new(Stored { values, validity }), stream, found: false, hashes: None, shared: false })
    }

    /// What fills the room that was made for `column`. What may stay is hashed on the way, from the pinned memory that the
    /// bus reads and nobody else writes: the fingerprint is of the bytes that are on the GPU then, even of a column that
    /// somebody writes to meanwhile.
    pub(crate) fn uploads<'a>(&self, queue: &Queue, column: &'a Column<'_>) -> Vec<Upload<'a>> {
        if self.found {
            return vec![];
        }
        let (shape, form, hashes) = (self.shape, self.shape.form, self.hashes.clone());
        let values: Fill<'a> = Box::new(move |offset, out| {
            let (mut hash, mut at) = (hashes.as_ref().map(|_| piece()), 0);
            each_batch(column, form, offset / form.size(), out.len() / form.size(), &mut |bytes| {
                let copy = &mut out[at..at + bytes.len()];
                copy.copy_from_slice(bytes);
                at += copy.len();
                if let Some(hash) = &mut hash {
                    // Black, so that what is hashed is read from the copy.
                    hash.update(black_box(copy));
                }
            });
            if let (Some(hashes), Some(hash)) = (&hashes, hash) {
                hashes.set_values(offset, hash.digest128());
            }
        });
        let mut uploads = vec![Upload { to: pointer(queue, &self.stored.values), bytes: shape.values(), fill: values }];
        if let Some(words) = &self.stored.validity {
            let hashes = self.hashes.clone();
            let bits: Fill<'a> = Box::new(move |offset, out| {
                fill_validity(column, offset * 8, out);
                if let Some(hashes) = &hashes {
                    let mut hash = piece();
                    hash.update(black_box(out));
                    hashes.set_bits(offset, hash.digest128());
                }
            });
            uploads.push(Upload { to: pointer(queue, words), bytes: shape.bits(), fill: bits });
        }
        uploads
    }

    /// Leaves it to the next expression, where there is room; all uploads are queued by now.
    pub(crate) fn keep(&mut self, queue: &Queue) -> Result<()> {
        if let Some(fingerprint) = self.hashes.take().and_then(|hashes| hashes.fingerprint()) {
            self.shared = queue.gpu().cache.keep(queue, self.shape, fingerprint, &self.stored)?;
        }
        Ok(())
    }

    /// What the values are.
    pub fn form(&self) -> Form {
        self.shape.form
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.shape.rows
    }

    /// The values' bytes.
    pub fn values(&self) -> &CudaSlice<u8> {
        &self.stored.values
    }

    /// The bits of the values that are not null; none where all are.
    pub fn validity(&self) -> Option<&CudaSlice<u32>> {
        self.stored.validity.as_ref()
    }
}

/// Rows that are converted at a time.
const BATCH: usize = 4096;

/// Numbers as the bytes that they are.
pub(crate) fn bytes_of<T: Copy>(values: &[T]) -> &[u8] {
    // SAFETY: only ever called with slices of plain numbers, which have no padding.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The same, to be written.
pub(crate) fn bytes_of_mut<T: Copy>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: as above; and any bytes are such a number.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

/// Calls `visit` with the bytes that the values of `rows` rows from `start` on have on the GPU, some at a time and in order:
/// few enough to be still in the nearest cache when what `visit` does with them next reads them again.
pub(crate) fn each_batch(column: &Column<'_>, form: Form, start: usize, rows: usize, visit: &mut dyn FnMut(&[u8])) {
    let batches = |rows: usize| (0..rows).step_by(BATCH).map(move |from| (from, BATCH.min(rows - from)));
    match form {
        Form::F32 => {
            let mut scratch = Vec::new();
            batches(rows).for_each(|(from, n)| visit(bytes_of(column.read_f32(start + from, n, &mut scratch))));
        }
        Form::F64 => {
            let mut scratch = Vec::new();
            batches(rows).for_each(|(from, n)| visit(bytes_of(column.borrow_f64(start + from, n, &mut scratch))));
        }
        _ => column.segments(start, rows, |chunk, inner, _, n| {
            for (from, n) in batches(n) {
                let of = inner + from..inner + from + n;
                match chunk.values() {
                    Values::I8(v) => visit(bytes_of(&v[of])),
                    Values::I16(v) => visit(bytes_of(&v[of])),
                    Values::I32(v) => visit(bytes_of(&v[of])),
                    Values::I64(v) => visit(bytes_of(&v[of])),
                    Values::I128(v) | Values::Decimal(v, _) => visit(bytes_of(&v[of])),
                    Values::U8(v) => visit(bytes_of(&v[of])),
                    Values::U16(v) => visit(bytes_of(&v[of])),
                    Values::U32(v) => visit(bytes_of(&v[of])),
                    Values::U64(v) => visit(bytes_of(&v[of])),
                    Values::U128(v) => visit(bytes_of(&v[of])),
                    Values::F32(v) => visit(bytes_of(&v[of])),
                    Values::F64(v) => visit(bytes_of(&v[of])),
                    Values::Bool(bits) => visit(&of.map(|i| bits.get(i) as u8).collect::<Vec<u8>>()),
                }
            }
        }),
    }
}

/// Writes the validity of the rows from `start`, a multiple of 8, on to `out`, a bit each.
pub(crate) fn fill_validity(column: &Column<'_>, start: usize, out: &mut [u8]) {
    out.fill(0);
    let rows = (out.len() * 8).min(column.len() - start);
    column.segments(start, rows, |chunk, inner, at, n| {
        let mut done = 0;
        while done < n {
            // Up to the end of a byte of `out`, or 56 bits and more.
            let place = at + done;
            let len = (64 - place % 8).min(n - done);
            let word = chunk.validity().map_or(u64::MAX, |v| v.word(inner + done));
            let word = ((word & (u64::MAX >> (64 - len))) as u128) << (place % 8);
            for (o, byte) in out[place / 8..].iter_mut().zip(word.to_le_bytes()).take((place % 8 + len).div_ceil(8)) {
                *o |= byte;
            }
            done += len;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use taiga_core::column::{Bits, Chunk, FeatureType};

    #[test]
    fn validity_of_chunks_is_one_bitmap() {
        let bytes: Vec<u8> = (0..200u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 7) as u8).collect();
        let values = [0i32; 1000];
        let cuts = [0, 1, 9, 64, 65, 200, 700, 1000];
        let chunks = cuts.windows(2).map(|w| {
            let validity = (w[0] != 64).then(|| Bits::new(&bytes, w[0], w[1] - w[0]));
            Chunk::new(Values::I32(&values[w[0]..w[1]]), validity)
        });
        let column = Column::new("x", FeatureType::Numeric, chunks.collect());
        let mut out = [0xAA; 125];
        fill_validity(&column, 0, &mut out);
        let (first, second) = out.split_at(40);
        let bit = |of: &[u8], i: usize| of[i / 8] >> (i % 8) & 1 == 1;
        for i in 0..1000 {
            assert_eq!(bit(&out, i), (64..65).contains(&i) || bit(&bytes, i), "{i}");
        }
        let mut again = [0x55; 40];
        fill_validity(&column, 0, &mut again);
        assert_eq!(again, first);
        let mut again = [0x55; 85];
        fill_validity(&column, 320, &mut again);
        assert_eq!(again, second);
    }
}
