//! The columns that say when events of rows happened.

use crate::columns::Numbers;
use crate::errors;
use polars::prelude::*;
use taiga_engine::dataset::EventTimes;

/// The roles of these columns.
pub const TIMES: [&str; 3] = ["event", "lower", "upper"];

/// Checks the type of the column in one of [`TIMES`].
///
/// # Errors
/// Naming the column and its type.
pub fn check_type(role: &str, name: &str, dtype: &DataType) -> PolarsResult<()> {
    let is_number = dtype.is_primitive_numeric() || matches!(dtype, DataType::Decimal(..));
    match role {
        "event" if is_number || *dtype == DataType::Boolean => Ok(()),
        "event" => Err(errors::mistyped(name, format!("its type is {dtype}; `event` is a Boolean, true where the event happened"))),
        _ if is_number => Ok(()),
        _ => Err(errors::mistyped(name, format!("its type is {dtype}; `{role}` is a number, in the unit of the target"))),
    }
}

/// What [`EventTimes`] borrows from.
pub struct TimeColumns([Option<Numbers>; 3]);

impl TimeColumns {
    /// Reads the columns that there are. `column(role)`: the one of a role.
    ///
    /// # Errors
    /// For types that can't serve.
    pub fn new(column: impl Fn(&str) -> PolarsResult<Option<Series>>) -> PolarsResult<TimeColumns> {
        let read = |role: &str| -> PolarsResult<Option<Numbers>> {
            let Some(series) = column(role)? else { return Ok(None) };
            check_type(role, series.name(), series.dtype())?;
            Numbers::feature(&series).map(Some)
        };
        Ok(TimeColumns([read(TIMES[0])?, read(TIMES[1])?, read(TIMES[2])?]))
    }

    /// The engine's view.
    pub fn times(&self) -> EventTimes<'_> {
        let [event, lower, upper] = self.0.each_ref().map(|numbers| numbers.as_ref().map(Numbers::column));
        EventTimes { event, lower, upper }
    }
}
