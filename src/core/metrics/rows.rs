//! The rows that metrics are measured on, and the loop over them that most metrics share.

use super::spec::At;
use crate::dataset::row_groups::RowGroups;
use crate::numerics::math;
use crate::numerics::reduce::{BLOCK, sum_blocks, total_weight};
use crate::objective::{Link, LossParams};
use multiversion::multiversion;
use std::borrow::Cow;

/// Rows to measure, and what metrics read of them.
///
/// ```
/// use taiga_core::losses::{Link, LossParams};
/// use taiga_core::metrics::{MetricKind, Rows, metric};
/// let (scores, params) = ([vec![1.0, 2.0]], LossParams::default());
/// let rows = Rows { weight: Some(&[1.0, 3.0]), ..Rows::new(&scores, Link::Identity, &[1.0, 4.0], &params) };
/// assert_eq!(metric(&MetricKind::Mae.into(), &rows), 1.5);
/// ```
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    /// The raw scores, `[output][row]`.
    pub scores: &'a [Vec<f64>],
    /// How scores become predictions.
    pub link: Link,
    /// Whether `scores` are predictions already.
    pub predicted: bool,
    /// The predicted classes, where they are told and not to be found by their scores, of which there are none then.
    pub calls: Option<&'a [u32]>,
    /// The class's index or the number of each row.
    pub target: &'a [f64],
    /// The weights, where rows have them.
    pub weight: Option<&'a [f64]>,
    /// What the metrics that have parameters read.
    pub params: &'a LossParams,
    /// The groups of the rows, where they have some.
    pub groups: Option<&'a RowGroups>,
    /// What metrics read beside the target, `[column][row]`: those of times the least and the largest time of each row's event.
    pub columns: &'a [Vec<f64>],
    /// What metrics of one's own read, by the columns' names.
    pub named: &'a [(String, Vec<f64>)],
    /// What stands behind the metric's `@`; [`metric`](super::metric) sets it.
    pub at: Option<At>,
}

impl<'a> Rows<'a> {
    /// Makes rows of raw scores, `[output][row]`, and targets, without anything beside.
    pub fn new(scores: &'a [Vec<f64>], link: Link, target: &'a [f64], params: &'a LossParams) -> Rows<'a> {
        let (predicted, calls, weight, groups, at) = (false, None, None, None, None);
        Rows { scores, link, predicted, calls, target, weight, params, groups, columns: &[], named: &[], at }
    }
}

impl Rows<'_> {
    /// Returns the raw scores of the first output.
    pub fn score(&self) -> &[f64] {
        &self.scores[0]
    }

    /// Computes the predictions of the first output, for the metrics that are errors of a prediction.
    pub fn predictions(&self) -> Cow<'_, [f64]> {
        let mut predictions = Cow::Borrowed(self.score());
        match self.link {
            _ if self.predicted => {}
            Link::Identity | Link::Softmax | Link::Ascending | Link::MeanVariance => {}
            Link::Sigmoid | Link::SigmoidEach => math::sigmoid_in_place(predictions.to_mut()),
            Link::Exp | Link::Hazard | Link::Time => math::exp_in_place(predictions.to_mut()),
        }
        predictions
    }

    /// Computes the log-odds of the class of an output: its score, or those of its probability, of which 0 counts as 2^-52 and 1 as 1
    /// less that.
    pub fn log_odds(&self, output: usize) -> Cow<'_, [f64]> {
        let own = &self.scores[output];
        if !self.predicted {
            return Cow::Borrowed(own);
        }
        Cow::Owned(own.iter().map(|p| log_share(*p) - log_share(1.0 - *p)).collect())
    }

    /// Returns the number behind the metric's `@`.
    pub fn number(&self) -> Option<f64> {
        match self.at {
            Some(At::Number(x)) => Some(x),
            _ => None,
        }
    }

    /// Returns what a row weighs.
    #[inline(always)]
    pub fn weight_of(&self, row: usize) -> f64 {
        self.weight.map_or(1.0, |w| w[row])
    }

    /// Computes the sum of the weights.
    pub fn total_weight(&self) -> f64 {
        total_weight(self.target.len(), self.weight)
    }

    /// Computes the weighted mean of a term of these scores (or predictions), one a row, and the targets.
    pub fn mean(&self, score: &[f64], term: impl Term) -> f64 {
        let total = sum_blocks(self.target.len(), |block| {
            let mut out = [0.0; BLOCK];
            let out = &mut out[..block.len()];
            fill(&term, &score[block.clone()], &self.target[block.clone()], out);
            match self.weight {
                None => out.iter().fold(0.0, |t, v| t + v),
                Some(w) => out.iter().zip(&w[block]).fold(0.0, |t, (v, w)| t + v * *w),
            }
        });
        total / self.total_weight()
    }
}

/// Computes the logarithm of a probability; of one of 0 that of 2^-52.
#[inline(always)]
pub(super) fn log_share(p: f64) -> f64 {
    math::ln64(if p > f64::EPSILON { p } else { f64::EPSILON })
}

/// What a metric averages: a value of one row's score (or prediction) and target. Inlined into
/// each version of the loop over rows; a closure would not be.
pub trait Term: Sync {
    fn at(&self, score: f64, target: f64) -> f64;
}

/// Defines a [`Term`] with its parameters.
macro_rules! term {
    ($(#[$doc:meta])* $name:ident { $($parameter:ident),* } |$s:ident, $y:ident| $value:expr) => {
        $(#[$doc])*
        struct $name {
            $($parameter: f64,)*
        }

        impl $crate::metrics::rows::Term for $name {
            #[inline(always)]
            fn at(&self, $s: f64, $y: f64) -> f64 {
                let $name { $($parameter,)* } = *self;
                $value
            }
        }
    };
}
pub(super) use term;

/// `out[i]` becomes the term of `score[i]` and `target[i]`, by vector code.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn fill<T: Term>(term: &T, score: &[f64], target: &[f64], out: &mut [f64]) {
    for ((o, s), y) in out.iter_mut().zip(score).zip(target) {
        *o = term.at(*s, *y);
    }
}
