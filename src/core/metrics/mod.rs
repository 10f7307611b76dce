//! What is measured on held-out rows: one file each, and one line each in the list below.
//!
//! Sums run over fixed blocks in their order, and `exp` and `ln` are our own, so a metric has the
//! same bits on every machine.

mod kind;
mod lifetimes;
mod one_against_rest;
mod own;
mod ranking;
mod rows;
mod spec;
mod tally;

#[cfg(test)]
mod classes_tests;
#[cfg(test)]
mod ranking_tests;
#[cfg(test)]
mod survival_tests;
#[cfg(test)]
mod tests;

pub use kind::{listed, metric_names};
pub use rows::Rows;
pub use spec::{At, Average, MetricSpec, Metrics, NoMetric};

use crate::error::Error;
use crate::objective::LossParams;
use kind::Metric;

kind::metrics! {
    rmse => Rmse,
    mae => Mae,
    r2 => R2,
    quantile => Quantile,
    huber => Huber,
    expectile => Expectile,
    mape => Mape,
    rmsle => Rmsle,
    log_cosh => LogCosh,
    logloss => Logloss,
    cross_entropy => CrossEntropy,
    focal => Focal,
    auc => Auc,
    average_precision => AveragePrecision,
    accuracy => Accuracy,
    balanced_accuracy => BalancedAccuracy,
    f1 => F1,
    mcc => Mcc,
    ece => Ece,
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

/// Computes a metric of rows: of raw scores or predictions against targets (class index or number), with weights where rows have
/// them. Sums are f64 over fixed blocks.
///
/// The deviances are the means that scikit-learn calls `mean_poisson_deviance`,
/// `mean_gamma_deviance` and `mean_tweedie_deviance`. `r2` of a constant target is 1 where it is
/// predicted exactly, else 0. `auc` counts ties half; a target between 0 and 1 counts as that
/// share of a row of class 1 and the rest of class 0.
///
/// Of several targets, whose values stand one target's behind the other's, it is the mean of the metric of each.
///
/// `ndcg`, `map`, `mrr` and `precision` are means over groups of rows.
///
/// `concordance`, `cox_nloglik`, `aft_nloglik` and `brier` read two columns, the least and the largest time of each row's event; groups
/// are then strata.
///
/// NaN where nothing can be measured: no rows, no weight, `auc` of a single class, or a metric
/// that does not fit the link ([`MetricSpec::fits`]).
///
/// ```
/// use taiga_core::losses::{Link, LossParams};
/// use taiga_core::metrics::{MetricKind, Rows, metric};
/// let (scores, params) = ([vec![0.1, 0.4, 0.35, 0.8]], LossParams::default());
/// let auc = metric(&MetricKind::Auc.into(), &Rows::new(&scores, Link::Sigmoid, &[0.0, 0.0, 1.0, 1.0], &params));
/// assert_eq!(auc, 0.75);
/// ```
pub fn metric(spec: &MetricSpec, rows: &Rows<'_>) -> f64 {
    if rows.params.targets > 1 {
        return mean_of_targets(spec, rows);
    }
    let has_scores = !rows.scores.is_empty() || rows.calls.is_some();
    if !spec.fits(rows.link, rows.params) || !has_scores || rows.target.is_empty() {
        return f64::NAN;
    }
    if let Some(weight) = rows.weight
        && weight.contains(&0.0)
    {
        // A row of weight 0 is as if it were not there, even where what it adds has no value.
        let kept: Vec<usize> = (0..weight.len()).filter(|row| weight[*row] != 0.0).collect();
        let of = |values: &[f64]| kept.iter().map(|row| values[*row]).collect::<Vec<f64>>();
        let (scores, target, weight) = (rows.scores.iter().map(|s| of(s)).collect::<Vec<_>>(), of(rows.target), of(weight));
        let calls = rows.calls.map(|calls| kept.iter().map(|row| calls[*row]).collect::<Vec<u32>>());
        let groups = rows.groups.map(|groups| groups.of_rows(&kept));
        let columns: Vec<Vec<f64>> = rows.columns.iter().map(|column| of(column)).collect();
        let named: Vec<_> = rows.named.iter().map(|(name, values)| (name.clone(), of(values))).collect();
        let (calls, groups) = (calls.as_deref(), groups.as_ref());
        let (weight, columns, named) = (Some(&weight[..]), &columns[..], &named[..]);
        return metric(spec, &Rows { scores: &scores, target: &target, weight, calls, groups, columns, named, ..*rows });
    }
    match spec.formulas() {
        Some(formulas) => own::value(formulas, rows),
        None => (spec.entry().value)(&Rows { at: spec.at(), ..*rows }),
    }
}

/// Computes the mean of a metric of each of several targets, which stand one behind the other, each with a score of its own: what
/// scikit-learn calls the uniform average.
fn mean_of_targets(spec: &MetricSpec, rows: &Rows<'_>) -> f64 {
    let (each, params) = (rows.target.len() / rows.params.targets, LossParams { targets: 0, ..rows.params.clone() });
    let targets = rows.target.chunks_exact(each.max(1));
    let of_each =
        rows.scores.chunks(1).zip(targets).map(|(scores, target)| metric(spec, &Rows { scores, target, params: &params, ..*rows }));
    if each == 0 { f64::NAN } else { of_each.fold(0.0, |sum, value| sum + value) / rows.params.targets as f64 }
}

/// Returns the error of held-out rows that a metric is not defined on.
pub fn undefined(spec: &MetricSpec) -> Error {
    Error::parameter("metric", format!("\"{spec}\" is not defined here: {}", spec.entry().undefined)).degenerate()
}
