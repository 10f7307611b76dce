//! How good a model's predictions are: the metrics of [`crate::metrics`] for models of every kind.

use super::fitted::Scoring;
use crate::error::{Error, Result};
use crate::metrics::{MetricKind, metric, metric_names, undefined};
use crate::numerics::math::ln64;
use crate::objective::Link;

/// Computes a metric of a model's predictions, `[output][row]`: its raw scores, or what it predicts where it has no scores
/// ([`Scoring::has_no_scores`]). `kind`: the loss's own metric unless told. `target`: class indices or numbers; `weight`: what
/// rows weigh, whose unit does not matter; `columns`: what the metric reads beside the target ([`metric`]).
///
/// Shares of classes are measured as probabilities: `auc` and `accuracy` by their order, the log losses by their logarithms (a
/// share of 0 counts as 2^-52, as out of bag), and errors (`rmse`, `mae`, …) by themselves.
///
/// # Errors
/// For a metric that can't be measured on such predictions, or that has no value for these rows.
///
/// ```
/// use taiga_core::metrics::MetricKind;
/// use taiga_core::model::{fitted::Scoring, score::score};
/// use taiga_core::objective::{Link, LossParams};
/// let scoring = Scoring { link: Link::Identity, params: LossParams::default(), metric: MetricKind::Rmse, has_no_scores: false };
/// assert_eq!(score(&scoring, None, vec![vec![1.0, 2.0]], &[1.0, 4.0], None, &[])?, f64::sqrt(2.0));
/// assert_eq!(score(&scoring, Some(MetricKind::Mae), vec![vec![1.0, 2.0]], &[1.0, 4.0], Some(&[1.0, 3.0]), &[])?, 1.5);
/// # Ok::<(), taiga_core::Error>(())
/// ```
pub fn score(
    scoring: &Scoring,
    kind: Option<MetricKind>,
    predictions: Vec<Vec<f64>>,
    target: &[f64],
    weight: Option<&[f32]>,
    columns: &[Vec<f64>],
) -> Result<f64> {
    let kind = kind.unwrap_or(scoring.metric);
    if !kind.fits(scoring.link) {
        let fitting = metric_names(|m| m.fits(scoring.link));
        let text = format!("\"{}\" can't be measured on these predictions; {fitting} can", kind.name());
        return Err(Error::parameter("metric", text));
    }
    let (link, scores) = if scoring.has_no_scores { scores_of(kind, scoring.link, predictions) } else { (scoring.link, predictions) };
    let value = metric(kind, &scoring.params, link, &scores, target, weight, None, columns);
    if value.is_nan() { Err(undefined(kind)) } else { Ok(value) }
}

/// Turns shares of classes into scores, and the link to read them by, from which a metric comes out as of the shares themselves.
fn scores_of(kind: MetricKind, link: Link, mut shares: Vec<Vec<f64>>) -> (Link, Vec<Vec<f64>>) {
    let log = |p: f64| ln64(p.max(f64::EPSILON));
    let values = shares.iter_mut().flatten();
    match (kind, link) {
        (MetricKind::Logloss | MetricKind::CrossEntropy, _) => values.for_each(|p| *p = log(*p) - log(1.0 - *p)),
        (MetricKind::Multiclass, _) => values.for_each(|p| *p = log(*p)),
        (MetricKind::Accuracy, Link::Sigmoid) => values.for_each(|p| *p -= 0.5),
        (MetricKind::Auc | MetricKind::Accuracy, _) => {}
        (_, Link::Sigmoid) => return (Link::Identity, shares),
        _ => {}
    }
    (link, shares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::LossParams;

    fn shares(link: Link) -> Scoring {
        Scoring { link, params: LossParams::default(), metric: MetricKind::Accuracy, has_no_scores: true }
    }

    /// Proves that metrics of shares are what their definitions say of probabilities.
    #[test]
    fn shares_are_measured_as_probabilities() {
        let (p, y) = ([0.25, 0.5, 0.75, 1.0, 0.0], [0.0, 1.0, 1.0, 1.0, 1.0]);
        let of = |kind| score(&shares(Link::Sigmoid), Some(kind), vec![p.to_vec()], &y, None, &[]).expect("a value");
        let log_loss = -(0.75f64.ln() + 0.5f64.ln() + 0.75f64.ln() + f64::EPSILON.ln()) / 5.0;
        assert!((of(MetricKind::Logloss) / log_loss - 1.0).abs() < 1e-14);
        assert_eq!(of(MetricKind::Accuracy), 3.0 / 5.0);
        assert_eq!(of(MetricKind::Auc), 3.0 / 4.0);
        let squares: f64 = p.iter().zip(&y).map(|(p, y)| (p - y) * (p - y)).sum();
        assert_eq!(of(MetricKind::Rmse), (squares / 5.0).sqrt());
        let several = vec![vec![0.5, 0.25], vec![0.5, 0.25], vec![0.0, 0.5]];
        let of = |kind| score(&shares(Link::Softmax), Some(kind), several.clone(), &[1.0, 2.0], None, &[]).expect("a value");
        assert_eq!(of(MetricKind::Accuracy), 0.5);
        assert!((of(MetricKind::Multiclass) - 2f64.ln()).abs() < 1e-15);
    }

    /// Proves that what can't be measured is an error that says so.
    #[test]
    fn what_can_not_be_measured_is_told() {
        let error = score(&shares(Link::Softmax), Some(MetricKind::Auc), vec![vec![0.5]; 3], &[0.0], None, &[]).expect_err("no metric");
        assert!(error.to_string().contains("\"auc\" can't be measured"), "{error}");
        let error = score(&shares(Link::Sigmoid), Some(MetricKind::Auc), vec![vec![0.5]], &[0.0], None, &[]).expect_err("no metric");
        assert!(error.to_string().contains("one class"), "{error}");
    }
}
