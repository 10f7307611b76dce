//! The verbs over columns that need no learner: statistics and encodings, each a call of its own, on
//! the device that is asked for.

use super::fallback::{or_on_cpu, takes_everything};
use super::{Place, choose, cost, gpu, open_gpus};
use taiga_core::column_steps::ColumnSteps;
use taiga_core::error::Result;
use taiga_cpu::columns::CpuColumns;

/// Runs `body` on the devices that `device` names (as [`super::DeviceSet::parse`] has it), in the rayon pool that
/// it is called in; several GPUs share the rows. [`super::DeviceSet::Auto`] is the CPU: the bus brings a column at the speed of some ten cores, and
/// a process that has not used the GPU yet pays more to open it than a statistic ever gains.
///
/// # Errors
/// Those of [`super::DeviceSet::parse`], the device and `body`, and of several GPUs for what they do not share.
pub fn with_columns<R>(device: &str, body: impl FnOnce(&dyn ColumnSteps) -> Result<R>) -> Result<R> {
    match open_gpus(device)?.as_slice() {
        [] => body(&CpuColumns),
        [one] => gpu::with_columns(*one, body),
        several => gpu::with_shared_columns(several, body),
    }
}

/// [`with_columns`] for a `body` that sorts `values` values, on one thread where it is the CPU's. [`super::DeviceSet::Auto`] is then the
/// GPU, if there is one with room for them, where it gains (from about 20 million values on); `told` is called with the device and the
/// reason where a GPU came into question.
///
/// # Errors
/// As there.
pub fn with_sorting_columns<R>(
    device: &str,
    values: usize,
    told: &dyn Fn(&str),
    body: impl Fn(&dyn ColumnSteps) -> Result<R>,
) -> Result<R> {
    let cost = cost::sorting(values);
    or_on_cpu(device, told, |device| {
        if device != "auto" || !(cost.gains() || takes_everything()) {
            return with_columns(device, &body);
        }
        let place = choose(device, cost, None, || gpu::check_sorting(values))?;
        told(place.why());
        match place {
            Place::Cpu(_) => body(&CpuColumns),
            Place::Gpu(number, _) => gpu::with_columns(number, &body),
        }
    })
}
