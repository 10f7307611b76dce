//! How much each column matters to a model, measured on rows: by Shapley values, by shuffling, by what the loss becomes without it.
//!
//! Rows come in blocks whose borders depend on the model alone ([`block_rows`]). What blocks come to is added in their order, so
//! that the bits depend neither on who explains which block nor on chunks.

use super::fitted::Scoring;
use crate::encoding::permutation::permutation;
use crate::error::Result;
use crate::metrics::{MetricKind, MetricSpec, Rows, metric, undefined};
use crate::model::score::rows_of;
use crate::numerics::random::{Purpose, Random};
use crate::numerics::reduce::{BLOCK, add_in_order, sum, total_weight};
use crate::objective::Link;
use crate::shap::Explanation;

/// Blocks of a model of many columns and classes have fewer rows: so many Shapley values (32 MiB), and so many rows at the least.
const MOST_VALUES: usize = 1 << 22;
const LEAST_ROWS: usize = 64;

/// Returns how many rows are explained at a time of a model of so many columns and outputs.
///
/// ```
/// use taiga_core::model::importance::block_rows;
/// assert_eq!(block_rows(28, 1), 4096);
/// assert_eq!(block_rows(10_000, 1), 419);
/// ```
pub fn block_rows(columns: usize, outputs: usize) -> usize {
    (MOST_VALUES / columns.saturating_mul(outputs).max(1)).clamp(LEAST_ROWS, BLOCK)
}

/// Returns the order in which a column's rows are read where it is shuffled for the `repeat`-th time (Breiman, "Random forests",
/// 2001): row `i` gets the value of row `order[i]`. All columns have the same one, as scikit-learn's, so that what a column comes to
/// does not depend on which others there are.
///
/// # Panics
/// When there are more rows than 32 bits can number.
///
/// ```
/// use taiga_core::model::importance::shuffled;
/// let mut order = shuffled(5, 0, 0);
/// assert_ne!(order, shuffled(5, 0, 1));
/// order.sort();
/// assert_eq!(order, [0, 1, 2, 3, 4]);
/// ```
pub fn shuffled(rows: usize, seed: u64, repeat: u64) -> Vec<u32> {
    permutation(rows, Random::new(seed, Purpose::ImportanceShuffle, repeat))
}

/// Returns by how much the second value of a metric is worse than the first one; negative where it is better.
///
/// ```
/// use taiga_core::metrics::MetricKind;
/// use taiga_core::model::importance::worse_by;
/// assert_eq!(worse_by(&MetricKind::Rmse.into(), 1.0, 1.5), 0.5);
/// assert_eq!(worse_by(&MetricKind::Accuracy.into(), 1.0, 0.75), 0.25);
/// ```
pub fn worse_by(metric: &MetricSpec, before: f64, after: f64) -> f64 {
    if metric.larger_is_better() { before - after } else { after - before }
}

/// The size of each column's Shapley values in a block of rows.
pub struct Sizes {
    /// The sums of `weight · |value|` over rows and classes.
    sums: Vec<f64>,
    /// The same of values in units of `1 / SMALL`, for those whose sums overflow.
    small: Vec<f64>,
}

/// 2^-192: so many numbers of any size times any weight stay finite in this unit.
const SMALL: f64 = f64::from_bits((1023 - 192) << 52);

impl Sizes {
    /// Adds up the sizes of a block's Shapley values.
    pub fn of_block(explanation: &Explanation, weight: Option<&[f64]>) -> Sizes {
        let columns = explanation.values.first().map_or(0, Vec::len);
        let of_column = |column: usize, unit: f64| {
            let of_output = |values: &[f64]| {
                let size = |row: usize| (values[row] * unit).abs() * weight.map_or(1.0, |w| w[row]);
                sum(values.len(), size)
            };
            add_in_order(explanation.values.iter().map(|output| of_output(&output[column])))
        };
        let all = |unit: f64| (0..columns).map(|column| of_column(column, unit)).collect();
        Sizes { sums: all(1.0), small: all(SMALL) }
    }
}

/// Computes the mean over rows of the size of each column's Shapley values, of several classes the sum of their means.
///
/// ```
/// use taiga_core::model::importance::{Sizes, mean_sizes};
/// use taiga_core::shap::Explanation;
/// let explanation = Explanation { values: vec![vec![vec![1.0, -3.0], vec![0.0, 0.0]]], interactions: vec![] };
/// let blocks = [Sizes::of_block(&explanation, Some(&[3.0, 1.0]))];
/// assert_eq!(mean_sizes(&blocks, 4.0), [1.5, 0.0]);
/// ```
pub fn mean_sizes(blocks: &[Sizes], total_weight: f64) -> Vec<f64> {
    let columns = blocks.first().map_or(0, |block| block.sums.len());
    let mean = |column: usize| {
        let plain = add_in_order(blocks.iter().map(|block| block.sums[column])) / total_weight;
        if plain.is_finite() { plain } else { add_in_order(blocks.iter().map(|block| block.small[column])) / total_weight / SMALL }
    };
    (0..columns).map(mean).collect()
}

/// The loss of a block of rows, with all columns and without each.
pub struct Losses {
    weight: f64,
    with: f64,
    without: Vec<f64>,
}

impl Losses {
    /// Measures a block of rows: its predictions, raw scores where the model has some, `[output][row]`, and those less each column's
    /// Shapley values.
    ///
    /// # Errors
    /// Where the loss has no value for these rows.
    pub fn of_block(
        scoring: &Scoring,
        predictions: &[Vec<f64>],
        explanation: &Explanation,
        target: &[f64],
        weight: Option<&[f64]>,
    ) -> Result<Losses> {
        let with = own_loss(scoring, predictions, target, weight)?;
        let columns = explanation.values.first().map_or(0, Vec::len);
        let without = |column: usize| {
            if explanation.values.iter().all(|output| output[column].iter().all(|value| *value == 0.0)) {
                return Ok(with);
            }
            let less = |(own, output): (&Vec<f64>, &Vec<Vec<f64>>)| own.iter().zip(&output[column]).map(|(p, v)| p - v).collect();
            let less: Vec<Vec<f64>> = predictions.iter().zip(&explanation.values).map(less).collect();
            own_loss(scoring, &less, target, weight)
        };
        let without = (0..columns).map(without).collect::<Result<Vec<f64>>>()?;
        Ok(Losses { weight: total_weight(target.len(), weight), with, without })
    }
}

/// The loss of a model: the metric of its loss. A forest, whose scoring names no loss, has the root of the mean squared error of
/// its means, and Brier's score of its shares: the squared errors of all classes' shares (of two classes, of the second one's).
fn own_loss(scoring: &Scoring, predictions: &[Vec<f64>], target: &[f64], weight: Option<&[f64]>) -> Result<f64> {
    let kind = own_metric(scoring);
    let value = match (scoring.has_no_scores, scoring.link) {
        (true, Link::Sigmoid | Link::Softmax) => brier(predictions, target, weight),
        _ => metric(&kind.into(), &Rows { weight, ..rows_of(scoring, predictions, target) }),
    };
    if value.is_nan() { Err(undefined(&kind.into())) } else { Ok(value) }
}

fn own_metric(scoring: &Scoring) -> MetricKind {
    if scoring.has_no_scores && scoring.link == Link::Identity { MetricKind::Rmse } else { scoring.metric }
}

/// The mean of the squared errors of shares of classes (Brier, "Verification of forecasts expressed in terms of probability", 1950).
fn brier(shares: &[Vec<f64>], target: &[f64], weight: Option<&[f64]>) -> f64 {
    // The only share of two classes is the second one's.
    let first = usize::from(shares.len() == 1);
    let of_row = |row: usize| {
        let error = |(k, shares): (usize, &Vec<f64>)| shares[row] - f64::from(target[row] as usize == k + first);
        shares.iter().enumerate().map(error).fold(0.0, |total, e| total + e * e) * weight.map_or(1.0, |w| w[row])
    };
    sum(target.len(), of_row) / total_weight(target.len(), weight)
}

/// Computes by how much the mean loss of all rows grows without each column: positive where the model needs it (CatBoost's
/// `LossFunctionChange`).
///
/// ```
/// use taiga_core::metrics::MetricKind;
/// use taiga_core::model::fitted::Scoring;
/// use taiga_core::model::importance::{Losses, loss_changes};
/// use taiga_core::objective::{Link, LossParams};
/// use taiga_core::shap::Explanation;
/// let scoring = Scoring { link: Link::Identity, params: LossParams::default(), metric: MetricKind::Mae, has_no_scores: false };
/// let explanation = Explanation { values: vec![vec![vec![1.0, -1.0], vec![0.0, 0.0]]], interactions: vec![] };
/// let block = Losses::of_block(&scoring, &[vec![3.0, 1.0]], &explanation, &[3.0, 1.5], None)?;
/// assert_eq!(loss_changes(&scoring, &[block]), [0.5, 0.0]);
/// # Ok::<(), taiga_core::Error>(())
/// ```
pub fn loss_changes(scoring: &Scoring, blocks: &[Losses]) -> Vec<f64> {
    let weight = add_in_order(blocks.iter().map(|block| block.weight));
    let is_root = own_metric(scoring) == MetricKind::Rmse;
    let whole = |of: &dyn Fn(&Losses) -> f64| {
        // Squares of a root mean square in units of the largest one, so that they neither overflow nor vanish.
        let unit = if is_root { blocks.iter().map(of).fold(0.0, f64::max) } else { 1.0 };
        if unit == 0.0 || unit.is_infinite() {
            return unit;
        }
        let term = |block: &Losses| {
            let loss = of(block) / unit;
            block.weight / weight * if is_root { loss * loss } else { loss }
        };
        let mean = add_in_order(blocks.iter().map(term));
        if is_root { libm::sqrt(mean) * unit } else { mean }
    };
    let with = whole(&|block| block.with);
    let columns = blocks.first().map_or(0, |block| block.without.len());
    (0..columns).map(|column| whole(&|block| block.without[column]) - with).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::score::score;
    use crate::objective::LossParams;
    use std::ops::Range;

    fn scoring(metric: MetricKind, link: Link, has_no_scores: bool) -> Scoring {
        Scoring { link, params: LossParams::default(), metric, has_no_scores }
    }

    /// Shapley values of two columns, `[output][column][row]`, of which the second one's are 0.
    fn explanation(values: &[&[f64]]) -> Explanation {
        let of_output = |v: &&[f64]| vec![v.to_vec(), vec![0.0; v.len()]];
        Explanation { values: values.iter().map(of_output).collect(), interactions: vec![] }
    }

    /// Proves that losses of blocks come to that of all rows, weighted, of numbers of any size.
    #[test]
    fn blocks_come_to_the_whole() {
        let numbers = |factor: u64| -> Vec<f64> { (0..100u64).map(|i| (i * factor % 101) as f64 / 8.0 - 5.0).collect() };
        let (p, y, v, w) = (numbers(7), numbers(31), numbers(13), (1..101).map(|i| (i % 3 + 1) as f64).collect::<Vec<f64>>());
        for (metric, unit) in [(MetricKind::Rmse, 1.0), (MetricKind::Rmse, 1e250), (MetricKind::Mae, 1e250), (MetricKind::Mae, 1.0)] {
            let scoring = scoring(metric, Link::Identity, false);
            let times = |x: &[f64]| x.iter().map(|x| x * unit).collect::<Vec<f64>>();
            let (p, y, v) = (times(&p), times(&y), times(&v));
            let block = |rows: Range<usize>| {
                let explanation = explanation(&[&v[rows.clone()]]);
                Losses::of_block(&scoring, &[p[rows.clone()].to_vec()], &explanation, &y[rows.clone()], Some(&w[rows])).unwrap()
            };
            let changes = loss_changes(&scoring, &[block(0..64), block(64..90), block(90..100)]);
            let less: Vec<f64> = p.iter().zip(&v).map(|(p, v)| p - v).collect();
            let whole = |p: Vec<f64>| score(&scoring.metric.into(), &Rows { weight: Some(&w), ..rows_of(&scoring, &[p], &y) }).unwrap();
            let expected = whole(less) - whole(p.clone());
            assert!((changes[0] / expected - 1.0).abs() < 1e-13, "{metric:?} {} {expected}", changes[0]);
            assert_eq!(changes[1], 0.0);
        }
    }

    /// Proves that squared errors of shares are Brier's score: of two classes the second one's, of several the sum.
    #[test]
    fn shares_are_measured_by_brier_s_score() {
        let change = |link, shares: &[Vec<f64>], values: &[&[f64]], y: &[f64]| {
            let scoring = scoring(MetricKind::Accuracy, link, true);
            loss_changes(&scoring, &[Losses::of_block(&scoring, shares, &explanation(values), y, None).unwrap()])[0]
        };
        assert_eq!(change(Link::Sigmoid, &[vec![0.75, 0.5]], &[&[0.25, 0.0]], &[1.0, 0.0]), (0.25 + 0.25 - 0.0625 - 0.25) / 2.0);
        let shares = [vec![0.5], vec![0.25], vec![0.25]];
        let expected = (1.0 + 0.25 + 0.25) - (0.25 + 0.0625 + 0.0625);
        assert_eq!(change(Link::Softmax, &shares, &[&[0.5], &[-0.25], &[-0.25]], &[0.0]), expected);
    }

    /// Proves that means of sizes whose sums overflow are found all the same, and that a loss without a value is told.
    #[test]
    fn far_numbers_have_means() {
        let explanation = explanation(&[&[1.5e308, -1.5e308], &[1e307, 1e307]]);
        let means = mean_sizes(&[Sizes::of_block(&explanation, None)], 2.0);
        assert!((means[0] / 1.6e308 - 1.0).abs() < 1e-14 && means[1] == 0.0, "{means:?}");
        let scoring = scoring(MetricKind::Gamma, Link::Exp, false);
        let error = Losses::of_block(&scoring, &[vec![0.0]], &super::tests::explanation(&[&[1.0]]), &[f64::NAN], None);
        assert!(error.is_err_and(|e| e.to_string().contains("not defined")));
    }
}
