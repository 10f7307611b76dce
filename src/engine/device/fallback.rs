//! What becomes of work under `device="auto"` that a GPU has not the memory for: the CPU does it, from the start.
//!
//! That a GPU takes some work is decided from an estimate of the memory it needs, and other groups, queries and processes take memory
//! at any time. So whatever a GPU is asked for may fail in the middle. A fit, like every verb, is a function of its input alone, and
//! gives the same bytes on every device: it begins again on the CPU, and nothing of what the GPU did is used.
//!
//! [`or_on_cpu`] is the only place where this is decided, by the type of the error ([`Error::leaves_it_to_the_cpu`]). Work that failed for
//! another reason is an error on every `device`.

use std::sync::atomic::{AtomicBool, Ordering};
use taiga_core::dataset::Monitor;
use taiga_core::dataset::monitor::Measure;
use taiga_core::error::{Error, Result};

/// Runs `work(device)`. Where `device` is `"auto"` and a GPU does not do the work for want of memory, gives back all memory that it
/// held, tells `told` that it is the CPU and why, and runs `work("cpu")` from the start.
///
/// # Errors
/// Those of `work`.
///
/// ```
/// use taiga_engine::Error;
/// use taiga_engine::device::fallback::or_on_cpu;
///
/// let work = |device: &str| match device {
///     "cpu" => Ok("done on the CPU"),
///     _ => Err(Error::device_memory(0, "codes need 2.0 GB, and it has 1.0 GB free of 8.0 GB")),
/// };
/// assert_eq!(or_on_cpu("auto", &|why| assert!(why.contains("codes need 2.0 GB")), work), Ok("done on the CPU"));
/// assert!(or_on_cpu("cuda", &|_| (), work).is_err());
/// ```
pub fn or_on_cpu<R>(device: &str, told: &dyn Fn(&str), mut work: impl FnMut(&str) -> Result<R>) -> Result<R> {
    match work(device) {
        Err(why) if device == "auto" && why.leaves_it_to_the_cpu() => {
            if let Error::Device { number, .. } = why {
                super::gpu::release(number);
            }
            told(&format!("cpu: again from the start: {why}"));
            work("cpu")
        }
        done => done,
    }
}

static EVERYTHING: AtomicBool = AtomicBool::new(false);

/// For tests: `"auto"` takes a GPU for everything that it may take one for, however little there is to gain.
#[doc(hidden)]
pub fn take_a_gpu_for_everything(yes: bool) {
    EVERYTHING.store(yes, Ordering::Relaxed);
}

pub(crate) fn takes_everything() -> bool {
    EVERYTHING.load(Ordering::Relaxed) || super::gpu::takes_everything()
}

/// [`or_on_cpu`] of a fit, `fit(device, monitor)`: its rounds are told again, from the first one on.
///
/// # Errors
/// Those of `fit`.
pub(crate) fn fit_or_on_cpu<R>(device: &str, monitor: &dyn Monitor, fit: impl Fn(&str, &dyn Monitor) -> Result<R>) -> Result<R> {
    let again = Told(monitor);
    or_on_cpu(device, &|chosen| monitor.device(chosen), |now| if now == device { fit(now, monitor) } else { fit(now, &again) })
}

/// A monitor that knows the device, and why.
struct Told<'m>(&'m dyn Monitor);

impl Monitor for Told<'_> {
    fn round(&self, done: u32, total: u32, metric: Option<f64>) {
        self.0.round(done, total, metric);
    }

    fn after_round(&self, done: u32, measured: &[Measure]) -> Result<bool> {
        self.0.after_round(done, measured)
    }

    fn may_wait(&self) -> bool {
        self.0.may_wait()
    }

    fn interrupted(&self) -> bool {
        self.0.interrupted()
    }
}
