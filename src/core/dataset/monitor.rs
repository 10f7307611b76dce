//! What watches a fit from outside: its progress, its device, and whether it is still wanted.

use crate::error::Result;

/// What a round has come to by one metric of one set of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// The name of the rows, where held-out rows have one; `train` for those that are trained on.
    pub set: Option<String>,
    /// The metric as parameters name it: `ndcg@5`.
    pub metric: String,
    pub value: f64,
}

/// Watches a fit from outside.
pub trait Monitor: Sync {
    /// Called after each round, with the metric of the held-out rows; again from the first one on where the fit begins again
    /// ([`Monitor::device`]).
    fn round(&self, done: u32, total: u32, metric: Option<f64>) {
        let _ = (done, total, metric);
    }

    /// Called after [`Monitor::round`] by fits that may end after any round, with all that was measured; `true` ends the fit with the
    /// rounds there are.
    ///
    /// # Errors
    /// What is to end the fit without a model.
    fn after_round(&self, done: u32, measured: &[Measure]) -> Result<bool> {
        let _ = (done, measured);
        Ok(false)
    }

    /// Returns whether [`Monitor::after_round`] may wait for other work of this process, fits included: then a fit shares no threads with it.
    fn may_wait(&self) -> bool {
        false
    }

    /// Called before the first round: the device that was taken, and why where `"auto"` chose it. Called again where that
    /// was a GPU which then had not the memory, before the fit begins again on the CPU: with that, and what was missing.
    fn device(&self, chosen: &str) {
        let _ = chosen;
    }

    /// Asked several times a round; `true` ends the fit with [`crate::Error::Interrupted`].
    fn interrupted(&self) -> bool {
        false
    }
}

/// Watches nothing.
pub struct Quiet;

impl Monitor for Quiet {}
