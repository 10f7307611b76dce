//! What losses and metrics share: how scores become predictions, and the parameters that some of them read.

use crate::numerics::censored::Distribution;
use crate::numerics::math::{exp_in_place, sigmoid_in_place, softmax_in_place};
use crate::symbolic::{CustomLink, LossFormulas};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How the raw score becomes a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Identity,
    /// `1 / (1 + exp(-score))`
    Sigmoid,
    /// `exp(score)`
    Exp,
    /// `exp(score_k) / Σ exp(score_j)`
    Softmax,
    /// `1 / (1 + exp(-score_k))`
    SigmoidEach,
    /// The scores of a row in ascending order.
    Ascending,
    /// `exp(score)`, a hazard in units of that at score 0: the larger, the sooner the event.
    Hazard,
    /// `exp(score)`, a time.
    Time,
    /// The first score, a mean, and `exp(2 score)` of the second, a variance.
    MeanVariance,
}

impl Link {
    /// Whether a prediction is one number, or a mean before others.
    pub fn is_of_one_number(self) -> bool {
        matches!(self, Link::Identity | Link::Sigmoid | Link::Exp | Link::Time | Link::MeanVariance)
    }

    /// Turns raw scores, `[output][row]`, into predictions in place.
    ///
    /// ```
    /// use taiga_core::objective::Link;
    /// let mut scores = [vec![2.0, 0.0], vec![1.0, 3.0]];
    /// Link::Ascending.apply(&mut scores);
    /// assert_eq!(scores, [[1.0, 0.0], [2.0, 3.0]]);
    /// ```
    pub fn apply(self, scores: &mut [Vec<f64>]) {
        match self {
            Link::Identity => {}
            Link::Exp | Link::Hazard | Link::Time => scores.iter_mut().for_each(|s| exp_in_place(s)),
            Link::Sigmoid | Link::SigmoidEach => scores.iter_mut().for_each(|s| sigmoid_in_place(s)),
            Link::Softmax => softmax_in_place(scores),
            Link::Ascending => ascend(scores),
            Link::MeanVariance => {
                if let Some(deviations) = scores.get_mut(1) {
                    deviations.iter_mut().for_each(|s| *s *= 2.0);
                    exp_in_place(deviations);
                }
            }
        }
    }
}

/// Sorts the scores of each row. Rows whose scores ascend, which are most, are not touched.
fn ascend(scores: &mut [Vec<f64>]) {
    let mut own = vec![0.0; scores.len()];
    for row in 0..scores.first().map_or(0, Vec::len) {
        if scores.windows(2).all(|pair| pair[0][row] <= pair[1][row]) {
            continue;
        }
        own.iter_mut().zip(&*scores).for_each(|(own, s)| *own = s[row]);
        own.sort_by(f64::total_cmp);
        own.iter().zip(&mut *scores).for_each(|(own, s)| s[row] = *own);
    }
}

/// The levels of quantiles or of an expectile: a number, or several that ascend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Alpha {
    One(f64),
    Several(Vec<f64>),
}

impl Alpha {
    /// The most of them.
    pub const MOST: usize = 1000;

    /// Returns all of them.
    pub fn levels(&self) -> &[f64] {
        match self {
            Alpha::One(level) => std::slice::from_ref(level),
            Alpha::Several(levels) => levels,
        }
    }

    /// Returns what the quantile of each is called: its number as Python's `repr` writes it.
    pub fn names(&self) -> Vec<String> {
        self.levels().iter().map(|level| name_of_level(*level)).collect()
    }

    /// Returns the first, for what reads one alone.
    pub fn first(&self) -> f64 {
        self.levels().first().copied().unwrap_or(0.5)
    }
}

/// Writes a number inside (0, 1) as Python's `repr` does: the fewest digits that are read as the same number, below 0.0001 with an exponent of two
/// digits at the least.
fn name_of_level(level: f64) -> String {
    if level >= 1e-4 {
        return level.to_string();
    }
    let text = format!("{level:e}");
    match text.split_once("e-") {
        Some((digits, exponent)) => format!("{digits}e-{exponent:0>2}"),
        None => text,
    }
}

impl From<f64> for Alpha {
    fn from(level: f64) -> Alpha {
        Alpha::One(level)
    }
}

impl From<CustomLink> for Link {
    fn from(link: CustomLink) -> Link {
        match link {
            CustomLink::Identity => Link::Identity,
            CustomLink::Log => Link::Exp,
            CustomLink::Logit => Link::Sigmoid,
        }
    }
}

/// What the losses and metrics that have parameters read.
#[derive(Clone, Debug, PartialEq)]
pub struct LossParams {
    /// The quantiles that `quantile` estimates, or the expectile of `expectile`, inside (0, 1).
    pub alpha: Alpha,
    /// Where `huber` turns from squared to absolute, in units of the target.
    pub huber_delta: f64,
    /// The variance power of `tweedie`, inside (1, 2).
    pub tweedie_power: f64,
    /// The formulas of a loss of one's own.
    pub custom: Option<Arc<LossFormulas>>,
    /// What `focal` reads.
    pub focal: FocalParams,
    /// Of a group's rows in the order of their scores, those that ranking losses hold against all below them; by the loss unless told.
    pub rank_truncation: Option<u32>,
    /// Whether ranking losses weigh groups with much to gain down.
    pub rank_normalize: bool,
    /// The orders of a group that `yetirank` draws for each tree.
    pub rank_orders: u32,
    /// What a pair of neighbours counts less than the one before it under `yetirank`, inside (0, 1].
    pub rank_decay: f64,
    /// How many targets there are, where the target is a struct or a list of some; else 0.
    pub targets: usize,
    /// What `aft` and its metrics read.
    pub aft: AftParams,
}

/// What the focal loss reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FocalParams {
    /// By which power of the other class's probability a row counts, not negative; 0 for the log loss.
    pub gamma: f64,
    /// What class 1 counts, inside (0, 1), and class 0 the rest of 1; both count 1 where there is none.
    pub alpha: Option<f64>,
}

/// What accelerated failure time models read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AftParams {
    /// The distribution of `(ln time - score) / scale`.
    pub distribution: Distribution,
    /// Its scale, in units of the logarithm of time; positive.
    pub scale: f64,
}

impl Default for AftParams {
    fn default() -> Self {
        AftParams { distribution: Distribution::Normal, scale: 1.0 }
    }
}

impl FocalParams {
    /// The exponent of Lin et al. (2017), and no balance.
    pub const DEFAULT: FocalParams = FocalParams { gamma: 2.0, alpha: None };

    /// Returns what a row of this class, 0 or 1, counts.
    pub fn balance(&self, class: f64) -> f64 {
        self.alpha.map_or(1.0, |alpha| if class > 0.5 { alpha } else { 1.0 - alpha })
    }
}

impl Default for LossParams {
    fn default() -> Self {
        LossParams {
            alpha: Alpha::One(0.5),
            huber_delta: 1.0,
            tweedie_power: 1.5,
            custom: None,
            focal: FocalParams::DEFAULT,
            rank_truncation: None,
            rank_normalize: true,
            rank_orders: 10,
            rank_decay: 0.85,
            targets: 0,
            aft: AftParams::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that quantiles are called as Python writes their levels.
    #[test]
    fn quantiles_have_the_names_that_python_writes() {
        let levels = vec![5e-324, 1.5e-300, 1e-10, 1e-5, 2.5e-5, 9.999e-5, 1e-4, 0.1, 0.30000000000000004, 0.99999];
        let names = ["5e-324", "1.5e-300", "1e-10", "1e-05", "2.5e-05", "9.999e-05", "0.0001", "0.1", "0.30000000000000004", "0.99999"];
        assert_eq!(Alpha::Several(levels).names(), names);
        assert_eq!(Alpha::One(0.5).names(), ["0.5"]);
    }
}
