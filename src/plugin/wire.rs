//! Columns as bytes that other processes read: every type as it is, to the bit.
//!
//! ```text
//! rows: u64 │ whether some are null: u8 │ where some are: 1 or 0 a row │ values
//! ```
//!
//! Numbers are little-endian, texts stand behind their lengths (u32 a row). A struct is its fields, one behind the other. The items of lists
//! are a column behind the lists' lengths (u32 a row).

use crate::errors;
use arrow2::array::StaticArray;
use arrow2::bitmap::Bitmap;
use arrow2::types::NativeType;
use polars::chunked_array::builder::get_list_builder;
use polars::prelude::*;

/// Calls a macro with the physical types of numbers: their names in [`DataType`], as Rust's types and as Polars' own.
macro_rules! for_numbers {
    ($call:ident!($($given:tt)*)) => {
        $call!($($given)*; Int8 i8 Int8Type, Int16 i16 Int16Type, Int32 i32 Int32Type, Int64 i64 Int64Type, Int128 i128 Int128Type,
            UInt8 u8 UInt8Type, UInt16 u16 UInt16Type, UInt32 u32 UInt32Type, UInt64 u64 UInt64Type, UInt128 u128 UInt128Type,
            Float32 f32 Float32Type, Float64 f64 Float64Type)
    };
}

fn unsent(name: &str, dtype: &DataType) -> PolarsError {
    errors::column(name, format!("its type is {dtype}, which is not sent between processes yet: cast it to Int64 or Float64"))
}

fn broken() -> PolarsError {
    errors::data("parameter `collective`: a process sends a column that can't be read")
}

/// Whether values of a type are sent as numbers.
fn is_number(dtype: &DataType) -> bool {
    dtype.is_numeric() || dtype.is_temporal()
}

/// The bytes of a column.
///
/// # Errors
/// For types that are not sent.
pub fn to_bytes(series: &Series) -> PolarsResult<Vec<u8>> {
    let mut out = vec![];
    write(series, &mut out)?;
    Ok(out)
}

/// Appends a column.
fn write(series: &Series, out: &mut Vec<u8>) -> PolarsResult<()> {
    match series.dtype() {
        DataType::Struct(_) => {
            let series = series.propagate_nulls().unwrap_or_else(|| series.clone());
            return series.struct_()?.fields_as_series().iter().try_for_each(|field| write(field, out));
        }
        DataType::Float16 => return write(&series.cast(&DataType::Float32)?, out),
        DataType::Array(items, _) => return write(&series.cast(&DataType::List(items.clone()))?, out),
        _ => {}
    }
    out.extend_from_slice(&(series.len() as u64).to_le_bytes());
    out.push(u8::from(series.null_count() > 0));
    if series.null_count() > 0 {
        out.extend(series.is_not_null().iter().map(|known| u8::from(known == Some(true))));
    }
    match series.dtype() {
        DataType::Null => {}
        DataType::Boolean => out.extend(series.bool()?.iter().map(|x| u8::from(x == Some(true)))),
        DataType::String | DataType::Categorical(..) | DataType::Enum(..) => {
            let strings = series.cast(&DataType::String)?;
            write_texts(strings.str()?.iter().map(|text| text.map(str::as_bytes)), out);
        }
        DataType::Binary => write_texts(series.binary()?.iter(), out),
        DataType::List(_) => {
            for lists in series.list()?.downcast_iter() {
                let is_known = |row: usize| lists.validity().is_none_or(|known| known.get_bit(row));
                let length = |row: usize| if is_known(row) { lists.offsets().length_at(row) } else { 0 };
                (0..lists.len()).for_each(|row| out.extend_from_slice(&(length(row) as u32).to_le_bytes()));
            }
            // What stands where a list is null, or before the first one, is nobody's.
            write(&series.explode(polars::chunked_array::ops::ExplodeOptions { empty_as_null: false, keep_nulls: false })?, out)?;
        }
        dtype if is_number(dtype) => {
            let physical = series.to_physical_repr();
            macro_rules! write_any {
                (; $($variant:ident $native:ident $kind:ident),*) => {
                    match physical.dtype() {
                        $(DataType::$variant => write_numbers(physical.$native()?, out),)*
                        _ => return Err(unsent(series.name(), dtype)),
                    }
                };
            }
            for_numbers!(write_any!());
        }
        dtype => return Err(unsent(series.name(), dtype)),
    }
    Ok(())
}

fn write_numbers<T: PolarsNumericType>(values: &ChunkedArray<T>, out: &mut Vec<u8>) {
    out.reserve(values.len() * size_of::<T::Native>());
    for chunk in values.downcast_iter() {
        // What stands where a value is null is nobody's.
        let value = |row: usize| StaticArray::get(chunk, row).unwrap_or_default();
        (0..chunk.len()).for_each(|row| out.extend_from_slice(value(row).to_le_bytes().as_ref()));
    }
}

fn write_texts<'a>(texts: impl Iterator<Item = Option<&'a [u8]>>, out: &mut Vec<u8>) {
    let texts: Vec<Option<&[u8]>> = texts.collect();
    texts.iter().for_each(|text| out.extend_from_slice(&(text.map_or(0, <[u8]>::len) as u32).to_le_bytes()));
    texts.iter().flatten().for_each(|text| out.extend_from_slice(text));
}

/// Reads the bytes of [`to_bytes`], which may come from anyone, of a column of this name and type.
///
/// # Errors
/// Where they are no such column.
pub fn from_bytes(name: &PlSmallStr, dtype: &DataType, mut bytes: &[u8]) -> PolarsResult<Series> {
    let series = read(name, dtype, &mut bytes)?;
    if bytes.is_empty() { Ok(series) } else { Err(broken()) }
}

/// Takes so many bytes off the front.
fn taken<'a>(bytes: &mut &'a [u8], count: usize) -> PolarsResult<&'a [u8]> {
    let (own, rest) = bytes.split_at_checked(count).ok_or_else(broken)?;
    *bytes = rest;
    Ok(own)
}

/// Takes so many values of `size` bytes off the front.
fn values<'a>(bytes: &mut &'a [u8], rows: usize, size: usize) -> PolarsResult<&'a [u8]> {
    taken(bytes, rows.checked_mul(size).ok_or_else(broken)?)
}

fn read(name: &PlSmallStr, dtype: &DataType, bytes: &mut &[u8]) -> PolarsResult<Series> {
    match dtype {
        DataType::Struct(fields) => {
            let fields = fields.iter().map(|field| read(field.name(), field.dtype(), bytes)).collect::<PolarsResult<Vec<_>>>()?;
            let rows = fields.first().map_or(0, |field| field.len());
            return Ok(StructChunked::from_series(name.clone(), rows, fields.iter())?.into_series());
        }
        DataType::Float16 => return read(name, &DataType::Float32, bytes)?.cast(dtype),
        DataType::Array(items, _) => return read(name, &DataType::List(items.clone()), bytes)?.cast(dtype),
        _ => {}
    }
    let rows = taken(bytes, 8)?.first_chunk::<8>().map_or(0, |rows| u64::from_le_bytes(*rows));
    let rows = IdxSize::try_from(rows).map_err(|_| broken())? as usize;
    let has_nulls = taken(bytes, 1)? != [0];
    let known = if has_nulls { Some(Bitmap::from_iter(taken(bytes, rows)?.iter().map(|known| *known == 1))) } else { None };
    let is_known = |row: usize| known.as_ref().is_none_or(|known| known.get_bit(row));
    match dtype {
        DataType::Null => Ok(Series::full_null(name.clone(), rows, dtype)),
        DataType::Boolean => {
            let values = taken(bytes, rows)?.iter().enumerate().map(|(row, x)| is_known(row).then_some(*x == 1));
            Ok(BooleanChunked::from_iter_options(name.clone(), values).into_series())
        }
        DataType::String | DataType::Categorical(..) | DataType::Enum(..) => {
            let texts = read_texts(bytes, rows)?.into_iter().enumerate();
            let text = |(row, text)| if is_known(row) { std::str::from_utf8(text).map(Some).map_err(|_| broken()) } else { Ok(None) };
            let texts = texts.map(text).collect::<PolarsResult<Vec<Option<&str>>>>()?;
            let texts = StringChunked::from_iter_options(name.clone(), texts.into_iter()).into_series();
            // An Enum may have other categories elsewhere.
            texts.strict_cast(dtype).map_err(|_| broken())
        }
        DataType::Binary => {
            let texts = read_texts(bytes, rows)?.into_iter().enumerate().map(|(row, text)| is_known(row).then_some(text));
            Ok(BinaryChunked::from_iter_options(name.clone(), texts).into_series())
        }
        DataType::List(of) => {
            let lengths = values(bytes, rows, 4)?.as_chunks::<4>().0;
            let items = read(&PlSmallStr::EMPTY, of, bytes)?;
            let mut lists = get_list_builder(of, items.len(), rows, name.clone());
            let mut first = 0usize;
            for (row, length) in lengths.iter().enumerate() {
                let end = first.checked_add(u32::from_le_bytes(*length) as usize).filter(|end| *end <= items.len()).ok_or_else(broken)?;
                lists.append_opt_series(is_known(row).then(|| items.slice(first as i64, end - first)).as_ref())?;
                first = end;
            }
            if first != items.len() {
                return Err(broken());
            }
            lists.finish().into_series().cast(dtype)
        }
        dtype if is_number(dtype) => {
            let physical = if let DataType::Decimal(..) = dtype { DataType::Int128 } else { dtype.to_physical() };
            macro_rules! read_any {
                (; $($variant:ident $native:ident $kind:ident),*) => {
                    match &physical {
                        $(DataType::$variant => read_numbers::<$kind>(name, values(bytes, rows, size_of::<$native>())?, known)?.into_series(),)*
                        _ => return Err(unsent(name, dtype)),
                    }
                };
            }
            let numbers: Series = for_numbers!(read_any!());
            match dtype {
                DataType::Decimal(precision, scale) => Ok(numbers.i128()?.clone().into_decimal(*precision, *scale)?.into_series()),
                // A cast would lose the zone.
                DataType::Datetime(unit, zone) => Ok(numbers.i64()?.clone().into_datetime(*unit, zone.clone()).into_series()),
                dtype => numbers.cast(dtype),
            }
        }
        dtype => Err(unsent(name, dtype)),
    }
}

fn read_numbers<T: PolarsNumericType>(name: &PlSmallStr, bytes: &[u8], known: Option<Bitmap>) -> PolarsResult<ChunkedArray<T>> {
    let number = |bytes: &[u8]| <T::Native as NativeType>::Bytes::try_from(bytes).map(T::Native::from_le_bytes).map_err(|_| broken());
    let numbers = bytes.chunks_exact(size_of::<T::Native>()).map(number).collect::<PolarsResult<Vec<_>>>()?;
    Ok(ChunkedArray::from_vec_validity(name.clone(), numbers, known))
}

/// The texts of so many rows.
fn read_texts<'a>(bytes: &mut &'a [u8], rows: usize) -> PolarsResult<Vec<&'a [u8]>> {
    let lengths = values(bytes, rows, 4)?.as_chunks::<4>().0;
    lengths.iter().map(|length| taken(bytes, u32::from_le_bytes(*length) as usize)).collect()
}
