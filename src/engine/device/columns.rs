//! The verbs over columns that need no learner: statistics and encodings, each a call of its own, on
//! the device that is asked for.

use super::Device;
use super::fallback::{or_on_cpu, takes_everything};
use taiga_core::column_steps::ColumnSteps;
use taiga_core::error::Result;
use taiga_cpu::columns::CpuColumns;

/// Runs `body` on the device that `device` names (as [`Device::parse`] has it), in the rayon pool that
/// it is called in. [`Device::Auto`] is the CPU: the bus brings a column at the speed of some ten cores, and
/// a process that has not used the GPU yet pays more to open it than a statistic ever gains.
///
/// # Errors
/// Those of [`Device::parse`], the device and `body`.
pub fn with_columns<R>(device: &str, body: impl FnOnce(&dyn ColumnSteps) -> Result<R>) -> Result<R> {
    run(Device::parse(device)?, device, body)
}

/// [`with_columns`] for a `body` that sorts `values` values, on one thread where it is the CPU's. [`Device::Auto`] is then the
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
    or_on_cpu(device, told, |device| {
        let chosen = match Device::parse(device)? {
            Device::Auto if takes_everything() || gains_by_sorting(values) => sorting_gpu(values, told),
            named => named,
        };
        run(chosen, device, &body)
    })
}

fn run<R>(chosen: Device, _asked: &str, body: impl FnOnce(&dyn ColumnSteps) -> Result<R>) -> Result<R> {
    match chosen {
        Device::Auto | Device::Cpu => body(&CpuColumns),
        #[cfg(feature = "cuda")]
        Device::Cuda(number) => body(&taiga_cuda::CudaColumns::new(taiga_cuda::runtime::Gpu::get(number)?)?),
        #[cfg(not(feature = "cuda"))]
        Device::Cuda(_) => Err(super::no_cuda(_asked)),
    }
}

/// Whether a GPU sorts so many values sooner: a thread of the CPU takes 17 to 62 ns a value (10^8 of them; 100 different f32, and
/// f64), a GPU 0.3 s to be opened and 0.1 to 0.25 ns a value (an H200, from host memory; more here, for lesser ones).
fn gains_by_sorting(values: usize) -> bool {
    values as f64 * 15e-9 > 0.3 + values as f64 * 0.5e-9
}

#[cfg(feature = "cuda")]
fn sorting_gpu(values: usize, told: &dyn Fn(&str)) -> Device {
    let room = |gpu| taiga_cuda::runtime::Queue::new(gpu)?.check_memory("sorting", taiga_cuda::columns::borders::most_bytes(values));
    match taiga_cuda::runtime::Gpu::get(None).and_then(room) {
        Ok(()) => {
            told(&format!("cuda: {values} values are sorted"));
            Device::Cuda(None)
        }
        Err(why) => {
            told(&format!("cpu: {why}"));
            Device::Cpu
        }
    }
}

#[cfg(not(feature = "cuda"))]
fn sorting_gpu(_: usize, told: &dyn Fn(&str)) -> Device {
    told(&format!("cpu: {}", super::NO_CUDA));
    Device::Cpu
}
