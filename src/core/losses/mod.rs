//! Losses: one file each, and one line each in the list below.

pub mod by_group;
mod kind;
mod location;
mod log_link;
mod pointwise;
pub mod position_bias;
pub mod ranked_pairs;
pub mod risk_sets;
mod several;

#[cfg(test)]
mod group_tests;
#[cfg(test)]
mod survival_tests;
#[cfg(test)]
mod tests;

pub use kind::{LossTarget, resolve_loss};

use crate::error::{Error, Result};
use crate::metrics::MetricKind;
pub use crate::objective::{AftParams, Alpha, FocalParams, Link, LossParams};
use crate::symbolic::Program;
use by_group::GroupLoss;
use kind::{LossEntry, Settings};
use several::Several;

kind::losses! {
    rmse => Rmse,
    logloss => Logloss,
    cross_entropy => CrossEntropy,
    focal => Focal,
    multiclass => Multiclass,
    ova => Ova,
    multilabel => Multilabel,
    mae => Mae,
    quantile => Quantile,
    huber => Huber,
    expectile => Expectile,
    mape => Mape,
    log_cosh => LogCosh,
    poisson => Poisson,
    gamma => Gamma,
    tweedie => Tweedie,
    gaussian => Gaussian,
    lambdarank => Lambdarank,
    pairwise => Pairwise,
    xendcg => Xendcg,
    yetirank => Yetirank,
    cox => Cox,
    aft => Aft,
    custom => Custom,
}

/// The formula of losses by group, whose derivatives a device finds before a tree and then has for each row.
const BY_GROUP: &str = "by_group";

/// What ranking losses have in common as [`Loss`]: a score that means nothing but an order.
macro_rules! ranking_loss {
    ($loss:ident, $check:expr) => {
        impl Loss for $loss {
            /// Of a group of one row: it has none to stand above.
            fn derivatives(&self, _output: usize, _rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]) {
                gradient.fill(0.0);
                hessian.fill(super::pointwise::SMALLEST_HESSIAN);
            }

            fn formula(&self, _output: usize) -> Formula {
                Formula::new(ENTRY.formula)
            }

            fn by_group(&self) -> Option<&dyn GroupLoss> {
                Some(self)
            }

            /// 0: only differences count.
            fn start(&self, _target: &[f64], _weight: Option<&[f32]>) -> Vec<f64> {
                vec![0.0]
            }

            fn link(&self) -> Link {
                Link::Identity
            }

            fn metric(&self) -> MetricKind {
                MetricKind::Ndcg
            }

            fn check_target(&self, target: f64) -> std::result::Result<(), &'static str> {
                #[allow(clippy::redundant_closure_call)]
                ($check)(target)
            }
        }
    };
}
use ranking_loss;

/// How a leaf's value follows from its rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LeafRule {
    /// `-G / (H + l2)`, with `l1` as a soft threshold on `G`.
    Newton,
    /// The weighted quantile of the rows' residuals `target - score` at this level.
    Quantile(f64),
}

/// Which of a loss's scores may have a constant added, together with the targets, so that nothing changes. Then both may be kept as
/// differences from a start value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// None.
    Fixed,
    /// The first.
    OfFirst,
    /// All, and targets and scores may be divided by a power of two besides.
    Scaled,
}

impl Location {
    /// Whether the score `output` moves along with the targets.
    pub fn moves(self, output: usize) -> bool {
        match self {
            Location::Fixed => false,
            Location::OfFirst => output == 0,
            Location::Scaled => true,
        }
    }
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
    /// The number of scores that derivatives read; 0 for those that read one score, that of their output.
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
    /// What the loss reads beside the target, `[column][row]`.
    pub columns: &'a [&'a [f32]],
}

impl<'a> Rows<'a> {
    /// Returns the rows with one of their scores.
    fn of(self, output: usize) -> Rows<'a> {
        Rows { scores: &self.scores[output..=output], ..self }
    }
}

/// A twice differentiable (or at least sub-differentiable) loss of a row's scores.
pub trait Loss: Send + Sync {
    /// The number of scores a row.
    fn outputs(&self) -> usize {
        1
    }

    /// Whether each output has a target of its own; else all outputs read one. The target among the rows of
    /// [`Loss::derivatives`] is that of the output.
    fn has_targets(&self) -> bool {
        false
    }

    /// First and second derivative of the loss with respect to score `output`, times the row's
    /// weight, for every row; both finite, the hessian not negative. Elementwise, from plain f32
    /// operations and [`crate::numerics::math`] only, so that every device computes the same bits.
    fn derivatives(&self, output: usize, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]);

    /// Computes the [derivatives](Loss::derivatives) with respect to all scores, a gradient and a hessian for each, with their bits, where that takes less
    /// than one score after the other; returns whether it has.
    fn derivatives_of_all(&self, rows: Rows<'_>, derivatives: &mut [(Vec<f32>, Vec<f32>)]) -> bool {
        let _ = (rows, derivatives);
        false
    }

    /// What [`Loss::derivatives`] computes of an output.
    fn formula(&self, output: usize) -> Formula;

    /// By what rows of each target weigh more than others besides, for losses that are another loss so weighted. Whoever computes
    /// [`Loss::derivatives`] has it among the weights.
    fn row_factor(&self) -> Option<fn(f64) -> f64> {
        None
    }

    /// Returns the program of gradient and hessian of a loss of one's own, which a device runs before each tree.
    fn program(&self) -> Option<&Program> {
        None
    }

    /// Returns what finds the derivatives of a group's rows, where a row's depend on the others of its group;
    /// [`Loss::derivatives`] is then not asked.
    fn by_group(&self) -> Option<&dyn GroupLoss> {
        None
    }

    /// Whether it reads when rows' events happened: its columns are then the least and the largest time that each may have happened at.
    fn reads_times(&self) -> bool {
        false
    }

    /// Whether the derivatives are those of [`risk_sets::RiskSets`], which a device finds before a tree; [`Loss::derivatives`] is then not
    /// asked.
    fn of_risk_sets(&self) -> bool {
        false
    }

    /// Whether the derivatives are those of bounds in two columns, which a GPU finds before a tree ([`Formula`]: the scale, and the number of
    /// the distribution).
    fn of_bounds(&self) -> bool {
        false
    }

    /// Returns what [`Loss::derivatives`] reads for a column's value.
    fn column_value(&self, value: f64) -> f64 {
        value
    }

    /// Whether the hessian of a row of weight 1 is 1, whatever its scores and the output.
    fn constant_hessian(&self) -> bool {
        false
    }

    /// Which scores may move along with the targets.
    fn location(&self) -> Location {
        Location::Fixed
    }

    /// By which power of `c` derivatives grow where targets are multiplied by `c` and scores raised by `ln c`, for losses that
    /// have such a law.
    fn scale_power(&self) -> Option<f64> {
        None
    }

    /// The score (one an output) that a model without trees would give: the minimiser of the
    /// weighted loss where it has a closed form, in f64 added over fixed blocks.
    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64>;

    /// The same of a loss that reads columns beside the target, whose values these are.
    fn start_with(&self, target: &[f64], weight: Option<&[f32]>, _columns: &[Vec<f64>]) -> Vec<f64> {
        self.start(target, weight)
    }

    /// How scores become predictions.
    fn link(&self) -> Link;

    /// How the value of a leaf of this output's trees follows from its rows; [`LeafRule::Newton`] for all outputs or for none.
    fn leaf_rule(&self, _output: usize) -> LeafRule {
        LeafRule::Newton
    }

    /// What is measured on held-out rows unless another metric is asked for.
    fn metric(&self) -> MetricKind;

    /// Whether the loss is defined for this target; else what it must be.
    fn check_target(&self, _target: f64) -> std::result::Result<(), &'static str> {
        Ok(())
    }
}

/// The loss of that kind with the parameters it reads, of several targets where these say so; `classes` counts for `multiclass` and `ova`
/// only.
/// Targets and scores are in units of `unit` (1 unless [`Loss::location`] is [`Location::Scaled`]), which matters to
/// losses with a parameter in units of the target.
///
/// # Errors
/// When `kind` is `Auto`: the caller resolves it from the target first; and for `Custom` without its formulas.
///
/// ```
/// use taiga_core::losses::{LossKind, LossParams, Rows, loss};
/// let logloss = loss(LossKind::Logloss, &LossParams::default(), 2, 1.0).unwrap();
/// let (mut gradient, mut hessian) = ([0.0; 2], [0.0; 2]);
/// let rows = Rows { scores: &[&[0.0, 0.0]], target: &[0.0, 1.0], weight: None, columns: &[] };
/// logloss.derivatives(0, rows, &mut gradient, &mut hessian);
/// assert_eq!((gradient, hessian), ([0.5, -0.5], [0.25, 0.25]));
/// ```
pub fn loss(kind: LossKind, params: &LossParams, classes: usize, unit: f64) -> Result<Box<dyn Loss>> {
    if params.targets == 0 {
        return one(kind, params, classes, unit);
    }
    loss_of_each(kind, params, &vec![unit; params.targets])
}

/// Returns the loss of several targets, each in a unit of its own.
///
/// # Errors
/// For a loss that only one target can have.
pub fn loss_of_each(kind: LossKind, params: &LossParams, units: &[f64]) -> Result<Box<dyn Loss>> {
    let each = units.iter().map(|unit| one(kind, params, 0, *unit)).collect::<Result<Vec<_>>>()?;
    if let Some(first) = each.first() {
        several::check(kind, first.as_ref())?;
    }
    Ok(Box::new(Several::new(each)))
}

/// Returns the loss of one target.
fn one(kind: LossKind, params: &LossParams, classes: usize, unit: f64) -> Result<Box<dyn Loss>> {
    match kind.entry() {
        Some(_) if kind == LossKind::Custom && params.custom.is_none() => {
            Err(Error::parameter("loss", "\"custom\" stands for a loss of your own: give what tg.loss(lambda y, f: …) makes"))
        }
        Some(entry) => Ok((entry.make)(&Settings { params, classes, unit })),
        None => Err(Error::parameter("loss", "\"auto\" stands for a loss that depends on the target")),
    }
}
