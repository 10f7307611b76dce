//! Values of columns as bytes that are the same wherever the values are: whatever the chunks, and for keys whatever the type. Keys are told
//! apart by them, and receipts are digests of them.

use crate::columns::{Numbers, number_type};
use crate::errors;
use arrow2::array::{BinaryViewArray, BooleanArray, ListArray, PrimitiveArray, StaticArray, Utf8ViewArray};
use arrow2::bitmap::Bitmap;
use arrow2::offset::OffsetsBuffer;
use polars::prelude::*;
use std::ops::Range;
use taiga_engine::dataset::row_keys::KeyValue;

/// What the integers of a column are.
#[derive(Clone, Copy)]
pub enum Meaning {
    Integer,
    /// Days.
    Date,
    /// Nanoseconds.
    Time,
    /// So many nanoseconds each.
    Datetime(i128),
    Duration(i128),
}

/// The values of a column of plain type, in one chunk.
pub enum Values {
    Null,
    Integers(PrimitiveArray<i64>, Meaning),
    Unsigned(PrimitiveArray<u64>),
    Wide(PrimitiveArray<i128>),
    Large(PrimitiveArray<u128>),
    Decimals(PrimitiveArray<i128>, u32),
    Numbers(PrimitiveArray<f64>),
    Booleans(BooleanArray),
    Texts(Utf8ViewArray),
    Bytes(BinaryViewArray),
}

/// Whether a column of this type has plain values.
pub fn is_plain(dtype: &DataType) -> bool {
    let plain = matches!(
        dtype,
        DataType::Null | DataType::Boolean | DataType::String | DataType::Categorical(..) | DataType::Enum(..) | DataType::Binary
    );
    plain || number_type(dtype).is_some()
}

/// Nanoseconds in a unit of time.
fn nanoseconds(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Nanoseconds => 1,
        TimeUnit::Microseconds => 1_000,
        TimeUnit::Milliseconds => 1_000_000,
    }
}

impl Values {
    /// The values of a column.
    ///
    /// # Errors
    /// For lists, structs and what else is no plain value, naming the column and its type.
    pub fn new(series: &Series) -> PolarsResult<Values> {
        let series = series.rechunk();
        let physical = series.to_physical_repr();
        macro_rules! of {
            ($series:expr, $chunked:ident, $make:expr) => {
                $series.$chunked()?.downcast_iter().next().cloned().map_or(Values::Null, $make)
            };
        }
        let integers = |meaning: Meaning| -> PolarsResult<Values> {
            Ok(of!(physical.cast(&DataType::Int64)?, i64, |values| Values::Integers(values, meaning)))
        };
        Ok(match series.dtype() {
            DataType::Null => Values::Null,
            DataType::Boolean => of!(series, bool, Values::Booleans),
            DataType::String | DataType::Categorical(..) | DataType::Enum(..) => {
                of!(series.cast(&DataType::String)?, str, Values::Texts)
            }
            DataType::Binary => of!(series, binary, Values::Bytes),
            DataType::Date => integers(Meaning::Date)?,
            DataType::Time => integers(Meaning::Time)?,
            DataType::Datetime(unit, _) => integers(Meaning::Datetime(nanoseconds(*unit)))?,
            DataType::Duration(unit) => integers(Meaning::Duration(nanoseconds(*unit)))?,
            DataType::Decimal(_, scale) => of!(physical, i128, |values| Values::Decimals(values, *scale as u32)),
            DataType::UInt64 => of!(series, u64, Values::Unsigned),
            DataType::Int128 => of!(series, i128, Values::Wide),
            DataType::UInt128 => of!(series, u128, Values::Large),
            dtype if dtype.is_integer() => integers(Meaning::Integer)?,
            dtype if dtype.is_float() => of!(series.cast(&DataType::Float64)?, f64, Values::Numbers),
            dtype => return Err(errors::mistyped(series.name(), format!("its type is {dtype}, which is no plain value"))),
        })
    }

    /// The value in a row.
    pub fn get(&self, row: usize) -> KeyValue<'_> {
        let value = match self {
            Values::Null => None,
            Values::Integers(values, meaning) => StaticArray::get(values, row).map(|x| match (i128::from(x), meaning) {
                (x, Meaning::Integer) => KeyValue::Integer(x),
                (x, Meaning::Date) => KeyValue::Date(x),
                (x, Meaning::Time) => KeyValue::Time(x),
                (x, Meaning::Datetime(unit)) => KeyValue::Datetime(x * unit),
                (x, Meaning::Duration(unit)) => KeyValue::Duration(x * unit),
            }),
            Values::Unsigned(values) => StaticArray::get(values, row).map(|x| KeyValue::Integer(x.into())),
            Values::Wide(values) => StaticArray::get(values, row).map(KeyValue::Integer),
            Values::Large(values) => StaticArray::get(values, row).map(KeyValue::Large),
            Values::Decimals(values, scale) => StaticArray::get(values, row).map(|x| KeyValue::Decimal(x, *scale)),
            Values::Numbers(values) => StaticArray::get(values, row).map(KeyValue::Number),
            Values::Booleans(values) => StaticArray::get(values, row).map(KeyValue::Boolean),
            Values::Texts(values) => StaticArray::get(values, row).map(KeyValue::Text),
            Values::Bytes(values) => StaticArray::get(values, row).map(KeyValue::Bytes),
        };
        value.unwrap_or(KeyValue::Null)
    }
}

/// The values of a column of any type that a fit reads.
pub enum Cells {
    /// As fits read numbers: eight bytes each, null and NaN alike.
    Numbers(Numbers),
    Values(Values),
    Lists {
        offsets: OffsetsBuffer<i64>,
        validity: Option<Bitmap>,
        items: Box<Cells>,
    },
    Fields(Vec<Cells>),
}

/// So many numbers are read at a time.
const BLOCK: usize = 1024;

impl Cells {
    /// The values of a column; `numbers`: a fit reads it as numbers, as it always does floats.
    ///
    /// # Errors
    /// For types that no fit reads.
    pub fn new(series: &Series, numbers: bool) -> PolarsResult<Cells> {
        match series.dtype() {
            DataType::Struct(_) => {
                let series = series.propagate_nulls().unwrap_or_else(|| series.clone());
                let fields = series.struct_()?.fields_as_series();
                fields.iter().map(|field| Cells::new(field, numbers)).collect::<PolarsResult<_>>().map(Cells::Fields)
            }
            dtype @ (DataType::List(_) | DataType::Array(..)) => Cells::lists(&series.cast(&as_lists_of_text(dtype))?),
            dtype if dtype.is_float() || numbers && number_type(dtype).is_some() => Numbers::feature(&series.rechunk()).map(Cells::Numbers),
            _ => Values::new(series).map(Cells::Values),
        }
    }

    fn lists(series: &Series) -> PolarsResult<Cells> {
        let series = series.rechunk();
        let lists: Option<&ListArray<i64>> = series.list()?.downcast_iter().next();
        let Some(lists) = lists else { return Ok(Cells::Values(Values::Null)) };
        let items = Series::try_from((series.name().clone(), lists.values().clone()))?;
        Ok(Cells::Lists {
            offsets: lists.offsets().clone(),
            validity: lists.validity().cloned(),
            items: Box::new(Cells::new(&items, false)?),
        })
    }

    /// Appends the values of rows. What is appended tells them and where each ends, given how many rows they are.
    pub fn write(&self, rows: Range<usize>, out: &mut Vec<u8>) {
        match self {
            Cells::Values(values) => rows.for_each(|row| values.get(row).write(out)),
            Cells::Fields(fields) => fields.iter().for_each(|field| field.write(rows.clone(), out)),
            Cells::Numbers(numbers) => {
                let (column, mut block) = (numbers.column(), [0.0; BLOCK]);
                for start in rows.clone().step_by(BLOCK) {
                    let block = &mut block[..BLOCK.min(rows.end - start)];
                    column.read_f64(start, block);
                    let bits = |x: &f64| if x.is_nan() { f64::NAN } else { *x }.to_bits().to_le_bytes();
                    out.extend(block.iter().flat_map(bits));
                }
            }
            Cells::Lists { offsets, validity, items } => {
                for row in rows {
                    let known = validity.as_ref().is_none_or(|known| known.get_bit(row));
                    let (first, end) = (offsets[row] as usize, offsets[row + 1] as usize);
                    let count = if known { (end - first) as u64 } else { u64::MAX };
                    out.extend_from_slice(&count.to_le_bytes());
                    if known {
                        items.write(first..end, out);
                    }
                }
            }
        }
    }
}

/// A type with lists in the place of arrays, and text in that of categories, whose numbers mean nothing outside their column.
fn as_lists_of_text(dtype: &DataType) -> DataType {
    match dtype {
        DataType::List(inner) | DataType::Array(inner, _) => DataType::List(Box::new(as_lists_of_text(inner))),
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|f| Field::new(f.name().clone(), as_lists_of_text(f.dtype()))).collect())
        }
        DataType::Categorical(..) | DataType::Enum(..) => DataType::String,
        dtype => dtype.clone(),
    }
}
