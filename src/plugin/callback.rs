//! Functions of Python that are told of each round of a fit.

use crate::interpreter::{ENDED, attached};
use pyo3::prelude::*;
use taiga_engine::dataset::monitor::Measure;
use taiga_engine::{Error, Result};

/// Calls the function of this number (`polars_taiga._callback`) with the round and what was measured; returns whether it ends the fit.
/// Whoever calls it holds no lock: Polars has given the interpreter up, and another thread may hold it for as long as it likes.
///
/// # Errors
/// What the function raises, as text.
pub fn call(number: u64, done: u32, measured: &[Measure]) -> Result<bool> {
    let measured: Vec<(Option<&str>, &str, f64)> = measured.iter().map(|m| (m.set.as_deref(), m.metric.as_str(), m.value)).collect();
    let answer = attached(|py| -> PyResult<(bool, Option<String>)> {
        py.import("polars_taiga._callback")?.call_method1("call", (number, done, measured))?.extract()
    });
    match answer {
        Some(Ok((ends, None))) => Ok(ends),
        Some(Ok((_, Some(raised)))) => Err(Error::parameter("callback", raised)),
        Some(Err(error)) => Err(Error::parameter("callback", error.to_string())),
        None => Err(Error::parameter("callback", ENDED)),
    }
}
