//! The rows that metrics are measured on, and the loop over them that most metrics share.

use crate::dataset::row_groups::RowGroups;
use crate::numerics::math;
use crate::numerics::reduce::{BLOCK, add_in_order, blocks, total_weight};
use crate::objective::{Link, LossParams};
use multiversion::multiversion;
use std::borrow::Cow;

/// Rows to measure.
pub(super) struct Rows<'a> {
    /// The raw scores, `[output][row]`.
    pub scores: &'a [Vec<f64>],
    /// How scores become predictions.
    pub link: Link,
    /// The class's index or the number of each row.
    pub target: &'a [f64],
    /// The weights, where rows have them; all positive.
    pub weight: Option<&'a [f32]>,
    /// What the metrics that have parameters read.
    pub params: &'a LossParams,
    /// The groups of the rows, where they have some.
    pub groups: Option<&'a RowGroups>,
    /// What metrics read beside the target, `[column][row]`: those of times the least and the largest time of each row's event.
    pub columns: &'a [Vec<f64>],
    /// How many of a group's first places count; all unless told.
    pub places: Option<u32>,
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
            Link::Identity | Link::Softmax | Link::Ascending | Link::MeanVariance => {}
            Link::Sigmoid | Link::SigmoidEach => math::sigmoid_in_place(predictions.to_mut()),
            Link::Exp | Link::Hazard | Link::Time => math::exp_in_place(predictions.to_mut()),
        }
        predictions
    }

    /// Computes the weighted mean of a term of these scores (or predictions), one a row, and the targets.
    pub fn mean(&self, score: &[f64], term: impl Term) -> f64 {
        let n = self.target.len();
        let mut out = [0.0; BLOCK];
        let total = add_in_order(blocks(n).map(|block| {
            let out = &mut out[..block.len()];
            fill(&term, &score[block.clone()], &self.target[block.clone()], out);
            match self.weight {
                None => out.iter().fold(0.0, |t, v| t + v),
                Some(w) => out.iter().zip(&w[block]).fold(0.0, |t, (v, w)| t + v * *w as f64),
            }
        }));
        total / total_weight(n, self.weight)
    }
}

/// What a metric averages: a value of one row's score (or prediction) and target. Inlined into
/// each version of the loop over rows; a closure would not be.
pub(super) trait Term {
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
