//! Python's warnings, from inside a query.

use crate::errors;
use crate::interpreter::attached;
use polars::prelude::*;
use pyo3::prelude::*;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use taiga_engine::parallel::fork::PerProcess;

/// The fits and targets that have been warned of: once in a process, however many groups there are.
static WARNED: PerProcess<Mutex<BTreeSet<(&str, String)>>> = PerProcess::new();

/// Warns, once for each name, of a target of integers that are all 0 or 1, both of them, which the fit of `function` takes for
/// numbers because nobody said that they are classes; `classes` says so, `numbers` says that they are none.
///
/// # Errors
/// What Python makes of the warning where its filters turn it into an error.
pub fn numbers_for_classes(function: &'static str, target: &Series, classes: &str, numbers: &str) -> PolarsResult<()> {
    if !target.dtype().is_integer() || target.min::<i64>()? != Some(0) || target.max::<i64>()? != Some(1) {
        return Ok(());
    }
    let key = (function, target.name().to_string());
    // Noted before it is said: groups are fitted side by side.
    if !WARNED.get().lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone()) {
        return Ok(());
    }
    let text = format!(
        "{function}: the target `{}` is an integer that is 0 or 1 alone, and numbers are a regression: if these are classes, say {classes} \
         or make it Boolean (pl.col({:?}).cast(pl.Boolean)); if not, {numbers} says so and ends this warning",
        target.name(),
        target.name().as_str()
    );
    // Where Python is on its way out nobody reads warnings. The main thread has released the GIL: it waits for Polars.
    let warned = attached(|py| py.import("polars_taiga._warn")?.call_method1("warn", (text,)).map(|_| ()));
    if let Some(Err(error)) = warned {
        WARNED.get().lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        return Err(errors::data(error));
    }
    Ok(())
}
