//! The metrics by name.

use crate::error::{Error, Result};
use crate::params::NO_HELD_OUT;
use serde::{Deserialize, Serialize};
/// The names of the metrics for which `fits` holds, as a list in words.
pub fn metric_names(fits: impl Fn(MetricKind) -> bool) -> String {
    use MetricKind::*;
    let all = [Rmse, Mae, R2, Quantile, Huber, Logloss, CrossEntropy, Auc, Accuracy, Multiclass, Poisson, Gamma, Tweedie];
    let names: Vec<String> = all.into_iter().filter(|m| fits(*m)).map(|m| format!("\"{}\"", m.name())).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// What is measured on the held-out rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    Rmse,
    Mae,
    R2,
    Quantile,
    Huber,
    Logloss,
    CrossEntropy,
    Auc,
    Accuracy,
    Multiclass,
    Poisson,
    Gamma,
    Tweedie,
}

/// Checks that nothing is asked for that needs held-out rows, where there are none.
///
/// # Errors
/// [`Error::Parameter`] naming what is.
pub fn check_measured(early_stopping: Option<u32>, metric: Option<MetricKind>) -> Result<()> {
    let name = match (early_stopping, metric) {
        (Some(_), _) => "early_stopping",
        (None, Some(_)) => "metric",
        (None, None) => return Ok(()),
    };
    Err(Error::parameter(name, NO_HELD_OUT))
}
