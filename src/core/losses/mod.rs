//! Losses: one file each, and one line each in the list below.

mod kind;
mod log_link;
mod pointwise;

#[cfg(test)]
mod tests;

pub use kind::{LossTarget, resolve_loss};

use crate::error::{Error, Result};
use crate::metrics::MetricKind;
pub use crate::objective::{Link, LossParams};
use kind::{LossEntry, Settings};

kind::losses! {
    rmse => Rmse,
    logloss => Logloss,
    cross_entropy => CrossEntropy,
    multiclass => Multiclass,
    mae => Mae,
    quantile => Quantile,
    huber => Huber,
    poisson => Poisson,
    gamma => Gamma,
    tweedie => Tweedie,
}

/// How a leaf's value follows from its rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LeafRule {
    /// `-G / (H + l2)`, with `l1` as a soft threshold on `G`.
    Newton,
    /// The weighted quantile of the rows' residuals `target - score` at this level.
    Quantile(f64),
}

/// What [`Loss::derivatives`] computes, for devices with code of their own: a formula and the numbers that it reads, in the units of the
/// scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Formula {
    /// The formula's name: that of its struct in `kernels/numerics/loss.cuh`, in small letters with underscores.
    pub name: &'static str,
    /// The formula's first number, as the loss's file says; 0 where it reads none.
    pub a: f32,
    /// The second one.
    pub b: f32,
    /// The number of classes; 0 for losses of one score.
    pub classes: u32,
}

impl Formula {
    /// Returns a formula that reads no numbers.
    const fn new(name: &'static str) -> Formula {
        Formula { name, a: 0.0, b: 0.0, classes: 0 }
    }
}

/// The rows that derivatives are asked for.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    /// One slice an output, all of the same length: the raw scores.
    pub scores: &'a [&'a [f32]],
    /// The targets: the class's index for classifiers, numbers otherwise.
    pub target: &'a [f32],
    /// The weights, where rows have them.
    pub weight: Option<&'a [f32]>,
}

/// A twice differentiable (or at least sub-differentiable) loss of a row's scores.
pub trait Loss: Send + Sync {
    /// The number of scores a row.
    fn outputs(&self) -> usize {
        1
    }

    /// First and second derivative of the loss with respect to score `output`, times the row's
    /// weight, for every row; both finite, the hessian not negative. Elementwise, from plain f32
    /// operations and [`crate::numerics::math`] only, so that every device computes the same bits.
    fn derivatives(&self, output: usize, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]);

    /// What [`Loss::derivatives`] computes.
    fn formula(&self) -> Formula;

    /// Whether the hessian of a row of weight 1 is 1, whatever its score.
    fn constant_hessian(&self) -> bool {
        false
    }

    /// Whether adding a constant to targets and scores changes nothing, so that the targets may
    /// be kept as differences from the start value, and scaled by a power of two.
    fn location(&self) -> bool {
        false
    }

    /// By which power of `c` derivatives grow where targets are multiplied by `c` and scores raised by `ln c`, for losses that
    /// have such a law.
    fn scale_power(&self) -> Option<f64> {
        None
    }

    /// The score (one an output) that a model without trees would give: the minimiser of the
    /// weighted loss where it has a closed form, in f64 added over fixed blocks.
    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64>;

    /// How scores become predictions.
    fn link(&self) -> Link;

    /// How a leaf's value follows from its rows.
    fn leaf_rule(&self) -> LeafRule {
        LeafRule::Newton
    }

    /// What is measured on held-out rows unless another metric is asked for.
    fn metric(&self) -> MetricKind;

    /// Whether the loss is defined for this target; else what it must be.
    fn check_target(&self, _target: f64) -> std::result::Result<(), &'static str> {
        Ok(())
    }
}

/// The loss of that kind with the parameters it reads; `classes` counts for `multiclass` only.
/// Targets and scores are in units of `unit` (1 unless [`Loss::location`] holds), which matters to
/// losses with a parameter in units of the target.
///
/// # Errors
/// When `kind` is `Auto`: the caller resolves it from the target first.
///
/// ```
/// use taiga_core::losses::{LossKind, LossParams, Rows, loss};
/// let logloss = loss(LossKind::Logloss, &LossParams::default(), 2, 1.0).unwrap();
/// let (mut gradient, mut hessian) = ([0.0; 2], [0.0; 2]);
/// let rows = Rows { scores: &[&[0.0, 0.0]], target: &[0.0, 1.0], weight: None };
/// logloss.derivatives(0, rows, &mut gradient, &mut hessian);
/// assert_eq!((gradient, hessian), ([0.5, -0.5], [0.25, 0.25]));
/// ```
pub fn loss(kind: LossKind, params: &LossParams, classes: usize, unit: f64) -> Result<Box<dyn Loss>> {
    match kind.entry() {
        Some(entry) => Ok((entry.make)(&Settings { params: *params, classes, unit })),
        None => Err(Error::parameter("loss", "\"auto\" stands for a loss that depends on the target")),
    }
}
