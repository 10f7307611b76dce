//! `encode`: a column and an encoder (or one a row) in, values out; elementwise, so it streams.

use super::values_type;
use crate::cache::Cache;
use crate::categories::{Uncoded, check_kind, check_type, lookup_codes};
use crate::errors::{self, guarded};
use crate::export::{Answer, Length, export};
use crate::literal::unlabelled;
use crate::monitor::{self, LONG, expression};
use crate::predict::{check_models, distinct_models, models_of, wanted};
use crate::schema::{is_known, shown};
use crate::threads::{default_threads, for_blocks, on_all_threads};
use arrow2::array::PrimitiveArray;
use polars::prelude::*;
use serde::Deserialize;
use std::sync::Arc;
use taiga_engine::device::columns::with_columns;
use taiga_engine::encoding::TargetEncoder;

/// As in `predict`: a streaming query calls with fewer rows, and on all threads already.
const PARALLEL_ABOVE: usize = 1 << 18;
const BLOCK: usize = 1 << 16;

static ENCODERS: Cache<TargetEncoder> = Cache::new();

#[derive(Deserialize)]
struct EncodeKwargs {
    /// The classes that name the fields where there is a value for each.
    classes: Option<Vec<String>>,
    /// Where rows are looked up; a stream's are a few at a time.
    device: String,
    /// The columns of the encoder ([`Wanted`](crate::predict::wanted::Wanted) as JSON), where Python knows it.
    wanted: Option<String>,
}

/// What encoders are, and who makes them.
const ENCODER: &str = "an encoder is Binary, as fit_target_encoder";

/// That a column is none of an encoder's.
fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> PolarsError {
    let known: Vec<String> = known.map(|c| format!("`{c}`")).collect();
    let known = known.join(", ");
    errors::missing(format!("column `{name}`: the encoder was not fitted on it but on {known}; an .alias(…) renames a column"))
}

fn encoder(bytes: &[u8]) -> PolarsResult<Arc<TargetEncoder>> {
    ENCODERS.get(bytes, |bytes| TargetEncoder::from_bytes(unlabelled(bytes)).map_err(errors::compute))
}

/// The values of `series` under one encoder.
fn encode_all(encoder: &TargetEncoder, series: &Series, classes: Option<&[String]>, device: &str) -> PolarsResult<Series> {
    let name = series.name();
    if encoder.classes() != classes {
        let (own, planned) = (shown(&values_type(encoder.classes())), shown(&values_type(classes)));
        return Err(errors::data(format!(
            "the encoder of `{}` gives {own}, and the query was planned for {planned}; say so with dtype=, or give the encoder as a value",
            encoder.target()
        )));
    }
    let Some(at) = encoder.columns().iter().position(|c| c.name() == name.as_str()) else {
        return Err(unknown(name, encoder.columns().iter().map(|c| c.name())));
    };
    let lookup = encoder.columns()[at].lookup();
    let rows = series.len();
    if device.starts_with("cuda") {
        check_kind(name, series.dtype(), lookup.categories().kind())?;
        // Other types than these are looked up label by label, not row by row.
        if let Some(uncoded) = Uncoded::new(series)? {
            let values = on_all_threads(|| with_columns(device, |steps| steps.encode(encoder, at, &uncoded.rows())));
            let values = values.map_err(errors::compute)?.into_iter();
            let values = values.map(|values| Float64Chunked::from_vec(PlSmallStr::EMPTY, values).into_series()).collect();
            return super::values_series(name, rows, values, classes);
        }
        with_columns(device, |_| Ok(())).map_err(errors::compute)?;
    }
    // Few chunks, and more blocks than threads.
    let block = if rows > PARALLEL_ABOVE { (rows / (4 * default_threads())).max(BLOCK) } else { rows.max(1) };
    // Codes and values.
    let bytes = 12 * (rows as u64).saturating_mul(encoder.outputs() as u64);
    errors::check_memory(|| format!("the encoding of {rows} rows"), bytes, "encode fewer rows at a time (a lazy query streams)")?;
    let parts = for_blocks(rows, block, |start, len| -> PolarsResult<Vec<Vec<f64>>> {
        let codes = lookup_codes(&series.slice(start as i64, len), lookup, lookup.categories().len() as u32)?;
        Ok((0..encoder.outputs()).map(|k| encoder.values(at, &codes, k)).collect())
    });
    let mut values: Vec<Vec<PrimitiveArray<f64>>> = vec![vec![]; encoder.outputs()];
    for part in parts {
        values.iter_mut().zip(part?).for_each(|(chunks, part)| chunks.push(PrimitiveArray::from_vec(part)));
    }
    if rows == 0 {
        values.iter_mut().for_each(|chunks| chunks.push(PrimitiveArray::from_vec(vec![])));
    }
    let columns = values.into_iter().map(|chunks| Float64Chunked::from_chunk_iter(PlSmallStr::EMPTY, chunks).into_series());
    super::values_series(name, rows, columns.collect(), classes)
}

/// An encoder for each row: rows are gathered by encoder, encoded, and put back in their order.
fn encode_each(encoders: &BinaryChunked, series: &Series, classes: Option<&[String]>, device: &str) -> PolarsResult<Series> {
    let (distinct, rows) = distinct_models(encoders);
    let mut parts = Series::new_empty(series.name().clone(), &values_type(classes));
    let mut place: Vec<Option<IdxSize>> = vec![None; series.len()];
    for (bytes, rows) in distinct.iter().zip(&rows) {
        for (i, row) in rows.iter().enumerate() {
            place[*row] = Some((parts.len() + i) as IdxSize);
        }
        let own = series.take(&IdxCa::from_vec(PlSmallStr::EMPTY, rows.iter().map(|row| *row as IdxSize).collect()))?;
        parts.append(&encode_all(&*encoder(bytes)?, &own, classes, device)?)?;
    }
    parts.rechunk().take(&IdxCa::new(PlSmallStr::EMPTY, place))
}

/// Checks what names and types tell of a call.
fn check(inputs: &[Field], kwargs: &EncodeKwargs) -> PolarsResult<()> {
    check_models(&inputs[1], ENCODER)?;
    let (name, dtype) = (inputs[0].name(), inputs[0].dtype());
    let Some(json) = &kwargs.wanted else {
        return if is_known(dtype) { check_type(name, dtype) } else { Ok(()) };
    };
    let wanted = wanted(json)?;
    match wanted.categories_of(name) {
        None => Err(unknown(name, wanted.names().0.iter().map(String::as_str))),
        Some(kind) if is_known(dtype) => check_kind(name, dtype, kind),
        Some(_) => Ok(()),
    }
}

fn encode_field(inputs: &[Field], kwargs: EncodeKwargs) -> PolarsResult<Field> {
    guarded("encode", || check(inputs, &kwargs))?;
    Ok(Field::new(inputs[0].name().clone(), values_type(kwargs.classes.as_deref())))
}

/// `inputs`: the column, then the encoder (one, or one a row).
fn encode(inputs: &[Series], kwargs: EncodeKwargs) -> Answer {
    let rows = monitor::rows(inputs);
    expression("encode", rows >= LONG, || {
        let encoders = models_of(&inputs[1], ENCODER)?;
        let classes = kwargs.classes.as_deref();
        let mut series = inputs[0].clone();
        if encoders.len() == 1 {
            return match encoders.get(0) {
                Some(bytes) => encode_all(&*encoder(bytes)?, &series, classes, &kwargs.device),
                None => Ok(Series::full_null(series.name().clone(), series.len(), &values_type(classes))),
            };
        }
        if series.len() == 1 {
            series = series.new_from_index(0, encoders.len());
        }
        if series.len() != encoders.len() {
            return Err(errors::column(series.name(), format!("it has {} rows and there are {} encoders", series.len(), encoders.len())));
        }
        encode_each(&encoders, &series, classes, &kwargs.device)
    })
}

export!(encode, encode_field, EncodeKwargs, Length::Rows);
