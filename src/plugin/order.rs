//! `order_by`: the rows in ascending order of a column, by which ordered statistics of categories take the rows before a row.

use crate::columns::Numbers;
use crate::fit::MANY;
use crate::threads::on_all_threads;
use crate::{categories, errors};
use polars::prelude::*;

/// Checks the type of a column to order by.
///
/// # Errors
/// For what has no order, naming the column and its type.
pub fn check(name: &str, dtype: &DataType) -> PolarsResult<()> {
    match dtype {
        DataType::List(_) | DataType::Array(..) => Err(errors::mistyped(name, format!("its type is {dtype}, which has no order"))),
        _ => Ok(()),
    }
}

/// Checks that each value has a place in an order, and each field of a struct.
fn check_values(series: &Series) -> PolarsResult<()> {
    let nulls = series.null_count();
    if nulls > 0 {
        let text = format!("`order_by` is null in {nulls} of {} rows, which then have no place in the order", series.len());
        return Err(errors::values(series.name(), text));
    }
    match series.dtype() {
        DataType::Struct(_) => series.struct_()?.fields_as_series().iter().try_for_each(check_values),
        dtype if dtype.is_float() => Numbers::finite(series, "`order_by`").map(drop),
        _ => Ok(()),
    }
}

/// The rows in ascending order of a column, equal values as they come; `None` where integers or
/// times come that way already.
///
/// # Errors
/// For nulls, numbers that are not finite, and types without an order.
pub fn rows(series: &Series) -> PolarsResult<Option<Vec<u32>>> {
    check(series.name(), series.dtype())?;
    check_values(series)?;
    let own_order = !matches!(series.dtype(), DataType::Categorical(..));
    if own_order && categories::ascends(series)? {
        return Ok(None);
    }
    categories::sorted(series).map(Some)
}

/// Of each row its place in the ascending order of a column, equal values as they come.
///
/// # Errors
/// As [`rows`].
pub fn places(series: &Series) -> PolarsResult<Vec<u32>> {
    let work = || -> PolarsResult<Vec<u32>> {
        let count = series.len();
        errors::check_memory(|| format!("the order of {count} rows"), 24 * count as u64, "fit on fewer rows, or without `order_by`")?;
        let mut places: Vec<u32> = (0..count as u32).collect();
        for (row, place) in rows(series)?.unwrap_or_default().into_iter().zip(0..) {
            places[row as usize] = place;
        }
        Ok(places)
    };
    if series.len() >= MANY { on_all_threads(work) } else { work() }
}
