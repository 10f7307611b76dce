//! From the engine's errors to Polars', and from panics to errors.

use crate::monitor;
use polars::prelude::*;
use pyo3::prelude::*;
use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use taiga_engine::error::RowsFault;
use taiga_engine::parallel::fork::PerProcess;
use taiga_engine::parallel::interrupt::Interrupted;
use taiga_engine::{Error, memory};

/// The engine's error as the one that ends a query.
pub fn compute(error: Error) -> PolarsError {
    let message = error.to_string();
    match (error.rows_fault(), &error) {
        (Some(fault), _) => of_rows(fault, message),
        (None, Error::Memory(_)) => of_kind(io::ErrorKind::OutOfMemory, message),
        (None, Error::Interrupted) => of_kind(io::ErrorKind::Interrupted, message),
        (None, _) => PolarsError::ComputeError(message.into()),
    }
}

/// An error for want of memory, which Python knows as a `MemoryError`, or of a call that Ctrl-C ended.
fn of_kind(kind: io::ErrorKind, message: String) -> PolarsError {
    PolarsError::IO { error: Arc::new(io::Error::new(kind, message)), msg: None }
}

fn kind_of(error: &PolarsError) -> Option<io::ErrorKind> {
    match error {
        PolarsError::IO { error, .. } => Some(error.kind()),
        _ => None,
    }
}

/// Whether Ctrl-C ended the call that gives this error. No text tells: another process's error, or one of a callback, may have the same.
pub fn is_interrupted(error: &PolarsError) -> bool {
    kind_of(error) == Some(io::ErrorKind::Interrupted)
}

/// Checks that there is memory for `bytes`, `what` for, which is taken at once; `hint`: what would need less.
pub fn check_memory(what: impl FnOnce() -> String, bytes: u64, hint: &str) -> PolarsResult<()> {
    // A text is made for what is large alone.
    if bytes < 1 << 20 { Ok(()) } else { memory::check(&what(), bytes, hint).map_err(compute) }
}

/// An error of the rows, not of the call: what `on_error` is about. The variant keeps the fault until
/// [`guarded`], behind which Polars knows of text alone.
pub fn of_rows(fault: RowsFault, message: impl std::fmt::Display) -> PolarsError {
    match fault {
        RowsFault::Degenerate => PolarsError::NoData(message.to_string().into()),
        RowsFault::Values => PolarsError::OutOfBounds(message.to_string().into()),
    }
}

/// What the rows are at fault for.
pub fn rows_fault(error: &PolarsError) -> Option<RowsFault> {
    match error {
        PolarsError::NoData(_) => Some(RowsFault::Degenerate),
        PolarsError::OutOfBounds(_) => Some(RowsFault::Values),
        _ => None,
    }
}

/// An error of the plugin, on its way through the engine.
pub fn through(error: PolarsError) -> Error {
    if is_interrupted(&error) {
        return Error::Interrupted;
    }
    Error::Data(text(&error)).with_rows_fault(rows_fault(&error))
}

/// An error of a column whose values can't be used, as other rows' may.
pub fn values(name: &str, message: impl std::fmt::Display) -> PolarsError {
    of_rows(RowsFault::Values, format!("column `{name}`: {message}"))
}

/// The same error once more.
pub fn again(error: &PolarsError) -> PolarsError {
    with_text(error, text(error))
}

/// An error of the same kind, of another text.
pub fn with_text(error: &PolarsError, text: String) -> PolarsError {
    match (rows_fault(error), kind_of(error)) {
        (Some(fault), _) => of_rows(fault, text),
        (None, Some(kind)) => of_kind(kind, text),
        (None, None) => data(text),
    }
}

/// The error's text, without the name of its kind.
pub fn text(error: &PolarsError) -> String {
    match error {
        PolarsError::ComputeError(message)
        | PolarsError::NoData(message)
        | PolarsError::OutOfBounds(message)
        | PolarsError::SchemaMismatch(message)
        | PolarsError::ColumnNotFound(message)
        | PolarsError::Duplicate(message) => message.to_string(),
        PolarsError::IO { error, .. } => error.to_string(),
        error => error.to_string(),
    }
}

/// An error that names a column.
pub fn column(name: &str, message: impl std::fmt::Display) -> PolarsError {
    PolarsError::ComputeError(format!("column `{name}`: {message}").into())
}

/// An error about a column's type.
pub fn mistyped(name: &str, message: impl std::fmt::Display) -> PolarsError {
    PolarsError::SchemaMismatch(format!("column `{name}`: {message}").into())
}

/// An error about a column that stands twice where it may stand once.
pub fn twice(name: &str, what: &str) -> PolarsError {
    PolarsError::Duplicate(format!("column `{name}`: this {what} is given twice").into())
}

/// An error about columns that are not there.
pub fn missing(message: impl std::fmt::Display) -> PolarsError {
    PolarsError::ColumnNotFound(message.to_string().into())
}

/// An error about the call as a whole.
pub fn data(message: impl std::fmt::Display) -> PolarsError {
    PolarsError::ComputeError(message.to_string().into())
}

/// Runs the body of the expression `function`: its errors name the function, and a panic becomes
/// an error too (left alone it would reach the user as the bare word "PANIC").
pub fn guarded<T>(function: &str, body: impl FnOnce() -> PolarsResult<T>) -> PolarsResult<T> {
    let error = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => error,
        // Not a panic: the work was asked to end.
        Err(payload) if payload.is::<Interrupted>() => compute(Error::Interrupted),
        Err(payload) => data(bug(payload.as_ref())),
    };
    // The text travels as a C string, which no NUL may cut short.
    let message = format!("{function}: {}", text(&error)).replace('\0', "\\0");
    if is_interrupted(&error) {
        monitor::unwound();
        return Err(with_text(&error, message));
    }
    if let Some(class) = class_of(&error) {
        note(class, &message);
    }
    Err(data(message))
}

/// The exception of Python or of Polars for Python that an error is, where that is another than `ComputeError`.
fn class_of(error: &PolarsError) -> Option<&'static str> {
    match error {
        PolarsError::SchemaMismatch(_) => Some("SchemaError"),
        PolarsError::ColumnNotFound(_) => Some("ColumnNotFoundError"),
        PolarsError::Duplicate(_) => Some("DuplicateError"),
        error if kind_of(error) == Some(io::ErrorKind::OutOfMemory) => Some("MemoryError"),
        _ => None,
    }
}

/// The texts of the last errors that are more than a `ComputeError`, and what they are. Of a plugin's error
/// only the text comes through Polars, which makes a `ComputeError` of it.
static CLASSES: PerProcess<Mutex<VecDeque<(&str, String)>>> = PerProcess::new();

/// So many are remembered: an error is asked about as soon as its query has failed.
const REMEMBERED: usize = 64;

fn note(class: &'static str, message: &str) {
    let mut classes = CLASSES.get().lock().unwrap_or_else(PoisonError::into_inner);
    classes.retain(|(_, known)| known != message);
    classes.truncate(REMEMBERED - 1);
    classes.push_front((class, message.to_string()));
}

/// The name of the exception, in `polars.exceptions` or Python's own `MemoryError`, for an error of ours that came through
/// Polars as a `ComputeError` of this text; none where it is that.
#[pyfunction]
pub fn error_class(text: &str) -> Option<&'static str> {
    let classes = CLASSES.get().lock().unwrap_or_else(PoisonError::into_inner);
    classes.iter().find(|(_, message)| text.contains(message.as_str())).map(|(class, _)| *class)
}

/// [`guarded`] for the body of an expression. A series without chunks, which Polars' own code panics at when it takes it
/// over, gets an empty one.
pub fn expression(function: &str, body: impl FnOnce() -> PolarsResult<Series>) -> PolarsResult<Series> {
    guarded(function, || {
        let series = body()?;
        Ok(if series.n_chunks() == 0 { Series::new_empty(series.name().clone(), series.dtype()) } else { series })
    })
}

/// The text of the error that a panic becomes.
pub fn bug(payload: &(dyn Any + Send)) -> String {
    let said = payload.downcast_ref::<&str>().map(|s| s.to_string()).or_else(|| payload.downcast_ref::<String>().cloned());
    format!("a bug in polars-taiga, please report it: {}", said.unwrap_or_else(|| "panicked without a text".into()))
}

/// A value as errors show it. Polars' own text of datetimes with a zone needs what only the main library has, and that of days beyond its calendar
/// there is none of.
pub fn shown(value: &AnyValue<'_>) -> String {
    /// Days from 1970 to either end of the calendar, about.
    const MOST_DAYS: i64 = 95_000_000;
    let moment = |at: i64, unit: TimeUnit, zoned: bool| {
        let a_second = match unit {
            TimeUnit::Milliseconds => 1_000,
            TimeUnit::Microseconds => 1_000_000,
            TimeUnit::Nanoseconds => 1_000_000_000,
        };
        match (at / (86_400 * a_second)).abs() <= MOST_DAYS {
            true => format!("{}{}", AnyValue::Datetime(at, unit, None), if zoned { " UTC" } else { "" }),
            false => format!("{at} {unit} since 1970"),
        }
    };
    match value {
        AnyValue::Date(days) if i64::from(*days).abs() > MOST_DAYS => format!("day {days} since 1970"),
        AnyValue::Datetime(at, unit, zone) => moment(*at, *unit, zone.is_some()),
        AnyValue::DatetimeOwned(at, unit, zone) => moment(*at, *unit, zone.is_some()),
        AnyValue::Struct(..) => format!("{{{}}}", value._iter_struct_av().map(|field| shown(&field)).collect::<Vec<_>>().join(",")),
        AnyValue::StructOwned(own) => format!("{{{}}}", own.0.iter().map(shown).collect::<Vec<_>>().join(",")),
        value => value.to_string(),
    }
}

/// A count in words: `1 value is`, `2 values are`.
pub fn count(n: usize, singular: &str, plural: &str) -> String {
    if n == 1 { format!("1 {singular}") } else { format!("{n} {plural}") }
}
