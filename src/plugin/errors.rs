//! From the engine's errors to Polars', and from panics to errors.

use polars::prelude::*;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use taiga_engine::Error;

/// The engine's error as the one that ends a query.
pub fn compute(error: Error) -> PolarsError {
    PolarsError::ComputeError(error.to_string().into())
}

/// An error that names a column.
pub fn column(name: &str, message: impl std::fmt::Display) -> PolarsError {
    PolarsError::ComputeError(format!("column `{name}`: {message}").into())
}

/// An error about the call as a whole.
pub fn data(message: impl std::fmt::Display) -> PolarsError {
    PolarsError::ComputeError(message.to_string().into())
}

/// Runs the body of the expression `function`: its errors name the function, and a panic becomes
/// an error too (left alone it would reach the user as the bare word "PANIC").
pub fn guarded<T>(function: &str, body: impl FnOnce() -> PolarsResult<T>) -> PolarsResult<T> {
    let message = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(PolarsError::ComputeError(message))) => message.to_string(),
        Ok(Err(error)) => error.to_string(),
        Err(payload) => format!("a bug in polars-taiga, please report it: {}", panic_text(payload.as_ref())),
    };
    // The text travels as a C string, which no NUL may cut short.
    Err(data(format!("{function}: {}", message.replace('\0', "\\0"))))
}

/// Whether an error of [`guarded`] is that of a fit that Ctrl-C ended.
pub fn is_interrupted(error: &PolarsError) -> bool {
    matches!(error, PolarsError::ComputeError(text) if text.ends_with(&format!(": {}", Error::Interrupted)))
}

/// What a panic said.
pub fn panic_text(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|s| s.to_string())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panicked without a text".into())
}

/// A count in words: `1 value is`, `2 values are`.
pub fn count(n: usize, singular: &str, plural: &str) -> String {
    if n == 1 { format!("1 {singular}") } else { format!("{n} {plural}") }
}
