//! How good predictions are: the metrics of [`crate::metrics`] for models of every kind, and for columns of predictions.

use super::fitted::Scoring;
use crate::error::{Error, Result};
use crate::metrics::{MetricSpec, Rows, metric, metric_names, undefined};

/// Makes the rows of a model's predictions, `[output][row]`: of its raw scores, or what it predicts where it has no scores
/// ([`Scoring::has_no_scores`]). `target`: class indices or numbers.
pub fn rows_of<'a>(scoring: &'a Scoring, predictions: &'a [Vec<f64>], target: &'a [f64]) -> Rows<'a> {
    Rows { predicted: scoring.has_no_scores, ..Rows::new(predictions, scoring.link, target, &scoring.params) }
}

/// Computes a metric of rows. Shares of classes are measured as probabilities: `auc` and `accuracy` by their order, the log losses
/// by their logarithms (a share of 0 counts as 2^-52, as out of bag), and errors (`rmse`, `mae`, …) by themselves.
///
/// # Errors
/// For a metric that can't be measured on such predictions, or that has no value for these rows.
///
/// ```
/// use taiga_core::metrics::{MetricKind, Rows};
/// use taiga_core::model::score::score;
/// use taiga_core::objective::{Link, LossParams};
/// let (params, predictions) = (LossParams::default(), [vec![1.0, 2.0]]);
/// let rows = Rows::new(&predictions, Link::Identity, &[1.0, 4.0], &params);
/// assert_eq!(score(&MetricKind::Rmse.into(), &rows)?, f64::sqrt(2.0));
/// assert_eq!(score(&MetricKind::Mae.into(), &Rows { weight: Some(&[1.0, 3.0]), ..rows })?, 1.5);
/// # Ok::<(), taiga_core::Error>(())
/// ```
pub fn score(spec: &MetricSpec, rows: &Rows<'_>) -> Result<f64> {
    if !spec.fits(rows.link, rows.params) {
        let fitting = metric_names(|m| m.fits(rows.link));
        let text = format!("\"{spec}\" can't be measured on these predictions; {fitting} can");
        return Err(Error::parameter("metric", text));
    }
    let value = metric(spec, rows);
    if value.is_nan() { Err(undefined(spec)) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::MetricKind;
    use crate::objective::{Link, LossParams};

    fn shares(link: Link) -> Scoring {
        Scoring { link, params: LossParams::default(), metric: MetricKind::Accuracy, has_no_scores: true }
    }

    /// Proves that metrics of shares are what their definitions say of probabilities.
    #[test]
    fn shares_are_measured_as_probabilities() {
        let (p, y) = ([0.25, 0.5, 0.75, 1.0, 0.0], [0.0, 1.0, 1.0, 1.0, 1.0]);
        let (sigmoid, one) = (shares(Link::Sigmoid), [p.to_vec()]);
        let of = |kind: MetricKind| score(&kind.into(), &rows_of(&sigmoid, &one, &y)).expect("a value");
        let log_loss = -(0.75f64.ln() + 0.5f64.ln() + 0.75f64.ln() + f64::EPSILON.ln()) / 5.0;
        assert!((of(MetricKind::Logloss) / log_loss - 1.0).abs() < 1e-14);
        assert_eq!(of(MetricKind::Accuracy), 3.0 / 5.0);
        assert_eq!(of(MetricKind::Auc), 3.0 / 4.0);
        let squares: f64 = p.iter().zip(&y).map(|(p, y)| (p - y) * (p - y)).sum();
        assert_eq!(of(MetricKind::Rmse), (squares / 5.0).sqrt());
        let several = vec![vec![0.5, 0.25], vec![0.5, 0.25], vec![0.0, 0.5]];
        let softmax = shares(Link::Softmax);
        let of = |kind: MetricKind| score(&kind.into(), &rows_of(&softmax, &several, &[1.0, 2.0])).expect("a value");
        assert_eq!(of(MetricKind::Accuracy), 0.5);
        assert!((of(MetricKind::Multiclass) - 2f64.ln()).abs() < 1e-15);
    }

    /// Proves that what can't be measured is an error that says so.
    #[test]
    fn what_can_not_be_measured_is_told() {
        let scores = [vec![0.5], vec![0.5], vec![0.5]];
        let error = score(&MetricKind::Logloss.into(), &rows_of(&shares(Link::Softmax), &scores, &[0.0])).expect_err("no metric");
        assert!(error.to_string().contains("\"logloss\" can't be measured"), "{error}");
        let error = score(&MetricKind::Auc.into(), &rows_of(&shares(Link::Sigmoid), &scores[..1], &[0.0])).expect_err("no metric");
        assert!(error.to_string().contains("one class"), "{error}");
    }
}
