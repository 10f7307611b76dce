//! `borders` and `quantize`: from values to borders, and to the code of each value among them.

use crate::columns::{Numbers, number_type};
use crate::device::Note;
use crate::errors::{self, guarded};
use crate::export::{Answer, Length, export};
use crate::monitor::{LONG, expression};
use crate::schema::is_known;
use crate::statistics::{check_values, numbers};
use crate::threads::on_all_threads;
use arrow2::array::PrimitiveArray;
use arrow2::bitmap::MutableBitmap;
use arrow2::types::NativeType;
use polars::prelude::*;
use serde::Deserialize;
use std::sync::{Mutex, PoisonError};
use taiga_engine::column_steps::BLOCK;
use taiga_engine::device::columns::{with_columns, with_sorting_columns};
use taiga_engine::quantize::BorderMethod;
use taiga_engine::quantize::borders::BorderParams;

/// More bins than this need 16 bits.
const NARROW: usize = 256;

#[derive(Deserialize)]
struct BordersKwargs {
    /// The largest number of bins: k bins have k - 1 borders.
    bins: usize,
    method: String,
    /// The number of rows that borders are fitted on.
    sample: usize,
    seed: u64,
    device: String,
}

/// Runs `body` on all threads where there are rows enough for several.
fn run<R: Send>(rows: usize, body: impl FnOnce() -> R + Send) -> R {
    if rows > BLOCK { on_all_threads(body) } else { body() }
}

/// The borders of a column, from a sample of its rows, for the expression `function`.
fn fit_borders(function: &'static str, numbers: &Numbers, kwargs: &BordersKwargs) -> PolarsResult<Vec<f64>> {
    let method: BorderMethod = serde_json::from_value(serde_json::Value::String(kwargs.method.clone())).map_err(|_| {
        errors::data(format!("method={:?} is not \"quantile\", \"uniform\", \"greedy_logsum\" or \"min_max_entropy\"", kwargs.method))
    })?;
    let params = BorderParams { bins: kwargs.bins, method, sample: kwargs.sample, seed: kwargs.seed };
    let rows = numbers.len();
    let note = Note::new(function);
    let fit = || {
        let told = |chosen: &str| note.say(chosen);
        with_sorting_columns(&kwargs.device, rows.min(params.sample), &told, |backend| backend.borders(&numbers.column(), &params))
    };
    run(rows, fit).map_err(errors::compute)
}

fn borders_field(inputs: &[Field], _: BordersKwargs) -> PolarsResult<Field> {
    guarded("borders", || check_values(&inputs[0]))?;
    Ok(Field::new(inputs[0].name().clone(), DataType::List(Box::new(DataType::Float64))))
}

/// The borders of one column as one list.
fn borders(inputs: &[Series], kwargs: BordersKwargs) -> Answer {
    expression("borders", inputs[0].len() >= LONG, || {
        let numbers = numbers(&inputs[0])?;
        let borders = fit_borders("borders", &numbers, &kwargs)?;
        let list = Series::new("".into(), borders);
        Ok(Series::new(inputs[0].name().clone(), [list]))
    })
}

export!(borders, borders_field, BordersKwargs, Length::One);

#[derive(Deserialize)]
struct QuantizeKwargs {
    #[serde(flatten)]
    fit: BordersKwargs,
}

/// Checks the type of given borders, where it is known.
fn check_borders(field: &Field) -> PolarsResult<()> {
    let items = match field.dtype() {
        DataType::List(inner) | DataType::Array(inner, _) => inner,
        dtype => dtype,
    };
    if number_type(items).is_some() || !is_known(items) {
        return Ok(());
    }
    Err(errors::mistyped(field.name(), format!("its type is {}; `borders` is a list of numbers", field.dtype())))
}

fn codes_field(inputs: &[Field], kwargs: QuantizeKwargs) -> PolarsResult<Field> {
    guarded("quantize", || check_values(&inputs[0]).and_then(|()| inputs[1..].iter().try_for_each(check_borders)))?;
    let dtype = if kwargs.fit.bins > NARROW { DataType::UInt16 } else { DataType::UInt8 };
    Ok(Field::new(inputs[0].name().clone(), dtype))
}

/// Borders that the user gives: ascending, and no more than the codes have room for.
fn given_borders(series: &Series, bins: usize) -> PolarsResult<Vec<f64>> {
    check_borders(&series.field())?;
    let list = series.cast(&DataType::List(Box::new(DataType::Float64)))?;
    let list = list.list()?;
    if list.len() != 1 {
        return Err(errors::data(format!("`borders` is one list for the whole column, not {}", list.len())));
    }
    let Some(borders) = list.get_as_series(0) else { return Err(errors::data("`borders` is null")) };
    let values: Vec<f64> = borders.f64()?.iter().map(|x| x.unwrap_or(f64::NAN)).collect();
    if values.iter().any(|x| x.is_nan()) || values.windows(2).any(|w| w[0] >= w[1]) {
        return Err(errors::data("`borders` must ascend, without nulls, NaN and repetitions"));
    }
    if values.len() >= bins {
        let most = bins.saturating_sub(1);
        return Err(errors::data(format!("`borders` has {} values, and bins={bins} leaves room for no more than {most}", values.len())));
    }
    Ok(values)
}

/// The codes of a column, null where the value is missing.
fn codes<T: PolarsNumericType>(name: &PlSmallStr, numbers: &Numbers, borders: &[f64], device: &str) -> PolarsResult<Series>
where
    T::Native: NativeType + TryFrom<u16> + Default,
{
    let arrays = Mutex::new(vec![]);
    // The engine's codes are one more, so that 0 is left for missing values.
    let take = |block: usize, codes: &[u16]| {
        let validity = codes.contains(&0).then(|| {
            let mut bits = MutableBitmap::with_capacity(codes.len());
            bits.extend(codes.iter().map(|code| *code > 0));
            bits.into()
        });
        let values: Vec<T::Native> = codes.iter().map(|code| T::Native::try_from(code.saturating_sub(1)).unwrap_or_default()).collect();
        let array = PrimitiveArray::from_vec(values).with_validity(validity);
        arrays.lock().unwrap_or_else(PoisonError::into_inner).push((block, array));
    };
    run(numbers.len(), || with_columns(device, |backend| backend.codes(&numbers.column(), borders, &take))).map_err(errors::compute)?;
    let mut arrays = arrays.into_inner().unwrap_or_else(PoisonError::into_inner);
    arrays.sort_unstable_by_key(|(block, _)| *block);
    Ok(ChunkedArray::<T>::from_chunk_iter(name.clone(), arrays.into_iter().map(|(_, array)| array)).into_series())
}

/// `inputs`: the values, then the borders where they are given.
fn quantize(inputs: &[Series], kwargs: QuantizeKwargs) -> Answer {
    let rows = inputs[0].len();
    expression("quantize", rows >= LONG, || {
        let numbers = numbers(&inputs[0])?;
        let borders = match inputs.get(1) {
            Some(given) => given_borders(given, kwargs.fit.bins)?,
            None => fit_borders("quantize", &numbers, &kwargs.fit)?,
        };
        let (name, device) = (inputs[0].name(), &kwargs.fit.device);
        if kwargs.fit.bins > NARROW {
            codes::<UInt16Type>(name, &numbers, &borders, device)
        } else {
            codes::<UInt8Type>(name, &numbers, &borders, device)
        }
    })
}

export!(quantize, codes_field, QuantizeKwargs, Length::Rows);
