//! The target of an encoding, and what stands beside it: weights, an order, folds.

use crate::columns::Numbers;
use crate::{categories, errors};
use polars::prelude::*;
use rayon::prelude::*;
use taiga_engine::column::categories::Codes;
use taiga_engine::encoding::target::EncodingTarget;
use taiga_engine::error::RowsFault;
use taiga_engine::pages;

/// Rows of a parallel pass.
const BLOCK: usize = 1 << 15;

/// What [`EncodingTarget`] borrows from.
pub enum EncoderTarget {
    Flags(Vec<u8>),
    Numbers(Vec<f64>),
    Classes(Vec<u32>, usize),
}

/// The classes of a target before there are rows: those that the user names, or those of an Enum;
/// none for one value a row.
///
/// # Errors
/// For text without either, and for types that are no target.
pub fn classes_of(name: &str, dtype: &DataType, given: Option<&[String]>) -> PolarsResult<Option<Vec<String>>> {
    let labelled = categories::is_category(dtype);
    match (dtype, given) {
        (_, Some(classes)) if labelled => Ok(Some(classes.to_vec())),
        (_, Some(_)) => Err(errors::mistyped(name, format!("its type is {dtype}; classes= is for text, integers and Booleans"))),
        (DataType::Enum(categories, _), None) => Ok(Some(categories.categories().values_iter().map(str::to_owned).collect())),
        (DataType::String | DataType::Categorical(..), None) => Err(errors::mistyped(
            name,
            format!(
                "its type is {dtype}, and a query must know its columns before it sees the rows: name the classes, classes=[\"…\", \"…\"], \
                 cast the target to an Enum, or compare it with the one class that counts (pl.col({name:?}) == \"…\")"
            ),
        )),
        _ if dtype.is_numeric() || *dtype == DataType::Boolean => Ok(None),
        _ => Err(errors::mistyped(
            name,
            format!("its type is {dtype}; a target is a number, a Boolean, or (with classes) a String, Categorical or Enum"),
        )),
    }
}

impl EncoderTarget {
    /// The target of one value a row, or of `classes`.
    ///
    /// # Errors
    /// For nulls, NaN, infinite values, and labels that are not among the classes.
    pub fn new(series: &Series, classes: Option<&[String]>) -> PolarsResult<Self> {
        let name = series.name().as_str();
        let nulls = series.null_count();
        if nulls > 0 && !series.dtype().is_float() {
            return Err(errors::values(
                name,
                format!(
                    "{nulls} of {} null, which a target can't be; leave those rows out first with .filter(pl.col({name:?}).is_not_null())",
                    errors::count(series.len(), "value is", "values are")
                ),
            ));
        }
        let Some(classes) = classes else {
            if *series.dtype() == DataType::Boolean {
                let chunks = &series.bool()?.rechunk();
                let bits = chunks.downcast_as_array().values();
                let flags = pages::filled_by("a target", series.len(), BLOCK, |start, out: &mut [u8]| {
                    let bits = bits.clone().sliced(start, out.len());
                    out.iter_mut().zip(bits.iter()).for_each(|(flag, bit)| *flag = bit.into());
                });
                let flags = flags.map_err(errors::compute)?;
                return Ok(EncoderTarget::Flags(flags));
            }
            return Ok(EncoderTarget::Numbers(numbers(series, "a target")?));
        };
        let column = categories::category_column(series)?;
        let place = |code: u32| {
            let label = column.categories.name(code);
            let unknown = || errors::values(name, format!("{label:?} is not among the classes ({})", classes.join(", ")));
            classes.iter().position(|c| *c == label).map(|p| p as u32).ok_or_else(unknown)
        };
        let places = (0..column.categories.len() as u32).map(place).collect::<PolarsResult<Vec<u32>>>()?;
        Ok(EncoderTarget::Classes(column.codes.iter().map(|code| places[*code as usize]).collect(), classes.len()))
    }

    /// The engine's view.
    pub fn target(&self) -> EncodingTarget<'_> {
        match self {
            EncoderTarget::Flags(v) => EncodingTarget::Flags(v),
            EncoderTarget::Numbers(v) => EncodingTarget::Numbers(v),
            EncoderTarget::Classes(v, classes) => EncodingTarget::Classes(v, *classes),
        }
    }
}

/// Finite numbers, read on all threads.
fn numbers(series: &Series, role: &str) -> PolarsResult<Vec<f64>> {
    let numbers = Numbers::finite(series, role)?;
    let column = numbers.column();
    errors::check_memory(|| format!("{role} of {} rows", column.len()), 8 * column.len() as u64, "encode fewer rows")?;
    pages::filled_by(role, column.len(), BLOCK, |start, out| column.read_f64(start, out)).map_err(errors::compute)
}

/// Weights: finite, not negative, and not all zero.
pub fn weights(series: &Series) -> PolarsResult<Vec<f64>> {
    let values = numbers(series, "a weight")?;
    if let Some(w) = values.par_iter().find_first(|w| **w < 0.0) {
        return Err(errors::values(series.name(), format!("the weight {w} is negative")));
    }
    if !values.is_empty() && values.par_iter().all(|w| *w == 0.0) {
        return Err(errors::of_rows(RowsFault::Degenerate, format!("column `{}`: all weights are zero", series.name())));
    }
    Ok(values)
}

/// Checks the type of a column of folds.
///
/// # Errors
/// For anything but integers, naming the column and its type.
pub fn check_folds(name: &str, dtype: &DataType) -> PolarsResult<()> {
    if dtype.is_integer() {
        return Ok(());
    }
    Err(errors::mistyped(name, format!("its type is {dtype}; folds are numbered by integers")))
}

/// The fold of each row, numbered by first appearance, and how many there are.
pub fn folds(series: &Series) -> PolarsResult<(Vec<u32>, usize)> {
    let name = series.name();
    check_folds(name, series.dtype())?;
    if series.null_count() > 0 {
        return Err(errors::values(name, format!("the fold is null in {} of {} rows", series.null_count(), series.len())));
    }
    let codes: Codes<'_> = categories::codes(series)?;
    let count = codes.categories();
    if count == 1 {
        let text = format!("column `{name}`: it has one fold for all rows; at least two are needed");
        return Err(errors::of_rows(RowsFault::Degenerate, text));
    }
    Ok((codes.codes, count))
}
