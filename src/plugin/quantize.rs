//! `borders` and `quantize`: from values to borders, and to the code of each value among them.

use crate::columns::Numbers;
use crate::errors::{self, guarded};
use crate::threads::for_blocks;
use arrow2::array::PrimitiveArray;
use arrow2::bitmap::MutableBitmap;
use arrow2::types::NativeType;
use polars::prelude::*;
use pyo3_polars::derive::polars_expr;
use serde::Deserialize;
use taiga_engine::quantize::BorderMethod;
use taiga_engine::quantize::borders::{borders as find_borders, sample_rows};
use taiga_engine::quantize::codes::{Quantizer, Scratch};

/// Rows that a thread codes at a time.
const BLOCK: usize = 1 << 16;
/// More borders than this need 16 bits; these many leave 256 codes.
const NARROW: usize = 255;

#[derive(Deserialize)]
struct BordersKwargs {
    bins: usize,
    method: String,
    /// The number of rows that borders are fitted on.
    sample: usize,
    seed: u64,
}

/// The borders of a column, from a sample of its rows.
fn fit_borders(numbers: &Numbers, kwargs: &BordersKwargs) -> PolarsResult<Vec<f64>> {
    let method: BorderMethod = serde_json::from_value(serde_json::Value::String(kwargs.method.clone())).map_err(|_| {
        errors::data(format!("method={:?} is not \"quantile\", \"uniform\", \"greedy_logsum\" or \"min_max_entropy\"", kwargs.method))
    })?;
    let rows = sample_rows(numbers.len(), kwargs.sample, kwargs.seed);
    Ok(find_borders(&numbers.column().gather_f64(rows.into_iter()), kwargs.bins, method))
}

fn borders_field(inputs: &[Field]) -> PolarsResult<Field> {
    Ok(Field::new(inputs[0].name().clone(), DataType::List(Box::new(DataType::Float64))))
}

/// The borders of one column as one list.
#[polars_expr(output_type_func=borders_field)]
fn borders(inputs: &[Series], kwargs: BordersKwargs) -> PolarsResult<Series> {
    guarded("borders", || {
        let numbers = Numbers::feature(&inputs[0])?;
        let borders = fit_borders(&numbers, &kwargs)?;
        let list = Series::new("".into(), borders);
        Ok(Series::new(inputs[0].name().clone(), [list]))
    })
}

#[derive(Deserialize)]
struct QuantizeKwargs {
    #[serde(flatten)]
    fit: BordersKwargs,
}

fn codes_field(inputs: &[Field], kwargs: QuantizeKwargs) -> PolarsResult<Field> {
    let dtype = if kwargs.fit.bins > NARROW { DataType::UInt16 } else { DataType::UInt8 };
    Ok(Field::new(inputs[0].name().clone(), dtype))
}

/// Borders that the user gives: ascending, and no more than the codes have room for.
fn given_borders(series: &Series, most: usize) -> PolarsResult<Vec<f64>> {
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
    if values.len() > most {
        return Err(errors::data(format!("`borders` has {} values, and bins={most} leaves room for no more than {most}", values.len())));
    }
    Ok(values)
}

/// The codes of a column, null where the value is missing.
fn codes<T: PolarsNumericType>(name: &PlSmallStr, numbers: &Numbers, borders: &[f64]) -> Series
where
    T::Native: NativeType + TryFrom<u16> + Default,
{
    let quantizer = Quantizer::new(borders);
    let column = numbers.column();
    let arrays = for_blocks(column.len(), BLOCK, |start, len| {
        // One more than the code, so that 0 is left for missing values.
        let mut wide = vec![0u16; len];
        let missing = quantizer.codes(&column, start, len, 1, &mut wide, 1, &mut Scratch::default());
        let validity = missing.then(|| {
            let mut bits = MutableBitmap::with_capacity(len);
            bits.extend(wide.iter().map(|code| *code > 0));
            bits.into()
        });
        let values: Vec<T::Native> = wide.iter().map(|code| T::Native::try_from(code.saturating_sub(1)).unwrap_or_default()).collect();
        PrimitiveArray::from_vec(values).with_validity(validity)
    });
    ChunkedArray::<T>::from_chunk_iter(name.clone(), arrays).into_series()
}

/// `inputs`: the values, then the borders where they are given.
#[polars_expr(output_type_func_with_kwargs=codes_field)]
fn quantize(inputs: &[Series], kwargs: QuantizeKwargs) -> PolarsResult<Series> {
    guarded("quantize", || {
        let numbers = Numbers::feature(&inputs[0])?;
        let borders = match inputs.get(1) {
            Some(given) => given_borders(given, kwargs.fit.bins)?,
            None => fit_borders(&numbers, &kwargs.fit)?,
        };
        let name = inputs[0].name();
        Ok(if kwargs.fit.bins > NARROW {
            codes::<UInt16Type>(name, &numbers, &borders)
        } else {
            codes::<UInt8Type>(name, &numbers, &borders)
        })
    })
}
