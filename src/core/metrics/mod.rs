//! What is measured on held-out rows: one file each, and one line each in the list below.
//!
//! Sums run over fixed blocks in their order, and `exp` and `ln` are our own, so a metric has the
//! same bits on every machine.

mod kind;
mod lifetimes;
mod ranking;
mod rows;

#[cfg(test)]
mod ranking_tests;
#[cfg(test)]
mod survival_tests;
#[cfg(test)]
mod tests;

pub use kind::{listed, metric_names};

use crate::dataset::row_groups::RowGroups;
use crate::error::Error;
use crate::objective::{Link, LossParams};
use kind::Metric;
use rows::Rows;

kind::metrics! {
    rmse => Rmse,
    mae => Mae,
    r2 => R2,
    quantile => Quantile,
    huber => Huber,
    expectile => Expectile,
    mape => Mape,
    log_cosh => LogCosh,
    logloss => Logloss,
    cross_entropy => CrossEntropy,
    focal => Focal,
    auc => Auc,
    accuracy => Accuracy,
    multiclass => Multiclass,
    ova => Ova,
    poisson => Poisson,
    gamma => Gamma,
    tweedie => Tweedie,
    gaussian => Gaussian,
    ndcg => Ndcg,
    map => Map,
    mrr => Mrr,
    precision => Precision,
    concordance => Concordance,
    cox_nloglik => CoxNloglik,
    aft_nloglik => AftNloglik,
    brier => Brier,
    custom => Custom,
}

/// Computes the metric of raw scores (`scores[output][row]`) against targets (class index or number), with
/// weights where rows have them. Sums are f64 over fixed blocks.
///
/// The deviances are the means that scikit-learn calls `mean_poisson_deviance`,
/// `mean_gamma_deviance` and `mean_tweedie_deviance`. `r2` of a constant target is 1 where it is
/// predicted exactly, else 0. `auc` counts ties half; a target between 0 and 1 counts as that
/// share of a row of class 1 and the rest of class 0.
///
/// Of several targets, whose values stand one target's behind the other's, it is the mean of the metric of each.
///
/// `ndcg`, `map`, `mrr` and `precision` are means over `groups` of rows.
///
/// `concordance`, `cox_nloglik`, `aft_nloglik` and `brier` read two `columns`, the least and the largest time of each row's event; groups
/// are then strata.
///
/// NaN where nothing can be measured: no rows, no weight, `auc` of a single class, or a metric
/// that does not fit the link ([`MetricKind::fits`]).
///
/// ```
/// use taiga_core::losses::{Link, LossParams};
/// use taiga_core::metrics::{MetricKind, metric};
/// let params = LossParams::default();
/// let scores = [vec![0.1, 0.4, 0.35, 0.8]];
/// let auc = metric(MetricKind::Auc, &params, Link::Sigmoid, &scores, &[0.0, 0.0, 1.0, 1.0], None, None, &[]);
/// assert_eq!(auc, 0.75);
/// ```
pub fn metric(
    kind: MetricKind,
    params: &LossParams,
    link: Link,
    scores: &[Vec<f64>],
    target: &[f64],
    weight: Option<&[f32]>,
    groups: Option<&RowGroups>,
    columns: &[Vec<f64>],
) -> f64 {
    if params.targets > 1 {
        return mean_of_targets(kind, params, link, scores, target, weight);
    }
    if !kind.fits(link) || scores.is_empty() || target.is_empty() {
        return f64::NAN;
    }
    if let Some(weight) = weight
        && weight.contains(&0.0)
    {
        // A row of weight 0 is as if it were not there, even where what it adds has no value.
        let rows: Vec<usize> = (0..weight.len()).filter(|row| weight[*row] != 0.0).collect();
        let of = |values: &[f64]| rows.iter().map(|row| values[*row]).collect::<Vec<f64>>();
        let (scores, target) = (scores.iter().map(|s| of(s)).collect::<Vec<_>>(), of(target));
        let groups = groups.map(|groups| groups.of_rows(&rows));
        let columns: Vec<Vec<f64>> = columns.iter().map(|column| of(column)).collect();
        let weight: Vec<f32> = rows.iter().map(|row| weight[*row]).collect();
        return metric(kind, params, link, &scores, &target, Some(&weight), groups.as_ref(), &columns);
    }
    (kind.entry().value)(&Rows { scores, link, target, weight, params, groups, columns, places: None })
}

/// Computes the mean of a metric of each of several targets, which stand one behind the other, each with a score of its own: what
/// scikit-learn calls the uniform average.
fn mean_of_targets(kind: MetricKind, params: &LossParams, link: Link, scores: &[Vec<f64>], target: &[f64], weight: Option<&[f32]>) -> f64 {
    let (rows, one) = (target.len() / params.targets, LossParams { targets: 0, ..params.clone() });
    let targets = target.chunks_exact(rows.max(1));
    let of_each = scores.chunks(1).zip(targets).map(|(scores, target)| metric(kind, &one, link, scores, target, weight, None, &[]));
    if rows == 0 { f64::NAN } else { of_each.fold(0.0, |sum, value| sum + value) / params.targets as f64 }
}

/// Returns the error of held-out rows that a metric is not defined on.
pub fn undefined(kind: MetricKind) -> Error {
    Error::parameter("metric", format!("\"{}\" is not defined here: {}", kind.name(), kind.entry().undefined)).degenerate()
}
