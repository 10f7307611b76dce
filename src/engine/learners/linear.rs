//! Sparse logistic regression on the device that the parameters name.

use crate::device::fallback::fit_or_on_cpu;
use crate::device::{Chosen, Device, open};
use taiga_core::dataset::Monitor;
use taiga_core::error::Result;
use taiga_core::learners::linear as core;

pub use taiga_core::learners::linear::*;

/// Fits a sparse logistic regression to a table.
///
/// The same rows in the same order give a model of the same bytes, whatever `n_threads`, the columns' chunks, the integer type
/// of feature numbers and the float type of values, and on whatever device.
///
/// # Errors
/// What is wrong with the table or the parameters, naming the column or the parameter; [`Error::Interrupted`] when `monitor`
/// asks to stop.
///
/// See [`super::Predictor`] for an example.
pub fn fit(input: &core::Input<'_>, params: &core::LinearParams, monitor: &dyn Monitor) -> Result<core::LinearModel> {
    if Device::parse(&params.device).is_ok() {
        // A device that is not there is told before any work.
        open(&params.device)?;
    }
    fit_or_on_cpu(&params.device, monitor, |device, monitor| {
        core::fit(input, params, &Chosen::new(device, &|chosen| monitor.device(chosen)), monitor)
    })
}
