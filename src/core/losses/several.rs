//! One loss of each of several targets.

use super::{Formula, LeafRule, Loss, LossKind, LossParams, LossTarget, Rows};
use crate::error::{Error, Result};
use crate::metrics::MetricKind;
use crate::objective::Link;

/// The sum of a loss over several targets, each of which has a score of its own: output `k` reads score `k` and target `k`.
pub(super) struct Several {
    /// One a target, in units of its own.
    each: Vec<Box<dyn Loss>>,
}

impl Several {
    /// Puts the losses of several targets together.
    pub(super) fn new(each: Vec<Box<dyn Loss>>) -> Several {
        Several { each }
    }
}

/// Checks that several targets can have this loss, one each: it is one of a single score that reads the target alone.
///
/// # Errors
/// [`Error::Parameter`] with the losses that will do.
pub(super) fn check(kind: LossKind, loss: &dyn Loss) -> Result<()> {
    if serves(kind, loss) {
        return Ok(());
    }
    if kind == LossKind::Quantile {
        return Err(Error::parameter("alpha", "several targets have one quantile each: name one number, or fit each target by itself"));
    }
    let fits = |kind: &&LossKind| {
        **kind != LossKind::Custom && super::one(**kind, &LossParams::default(), 1, 1.0).is_ok_and(|l| serves(**kind, l.as_ref()))
    };
    let names: Vec<String> = LossKind::ALL.iter().filter(fits).map(|kind| format!("\"{}\"", kind.name())).collect();
    let own = match kind {
        LossKind::Custom => "a loss of your own".into(),
        _ => format!("\"{}\"", kind.name()),
    };
    Err(Error::parameter("loss", format!("{own} is for one target; several can have {}", names.join(", "))))
}

fn serves(kind: LossKind, loss: &dyn Loss) -> bool {
    let fits = matches!(kind.target(), Some(LossTarget::Numbers | LossTarget::Labels));
    fits && loss.outputs() == 1
        && loss.by_group().is_none()
        && loss.program().is_none()
        && loss.row_factor().is_none()
        && !loss.reads_times()
}

impl Loss for Several {
    fn outputs(&self) -> usize {
        self.each.len()
    }

    fn has_targets(&self) -> bool {
        true
    }

    fn derivatives(&self, output: usize, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]) {
        self.each[output].derivatives(0, rows.of(output), gradient, hessian);
    }

    fn formula(&self, output: usize) -> Formula {
        self.each[output].formula(0)
    }

    fn constant_hessian(&self) -> bool {
        self.each.iter().all(|loss| loss.constant_hessian())
    }

    /// One start value a target, whose values stand one target's behind the other's.
    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64> {
        let rows = target.len() / self.each.len().max(1);
        self.each.iter().zip(target.chunks(rows.max(1))).flat_map(|(loss, target)| loss.start(target, weight)).collect()
    }

    fn link(&self) -> Link {
        self.each[0].link()
    }

    fn metric(&self) -> MetricKind {
        self.each[0].metric()
    }

    fn leaf_rule(&self, _output: usize) -> LeafRule {
        self.each[0].leaf_rule(0)
    }

    fn check_target(&self, target: f64) -> std::result::Result<(), &'static str> {
        self.each[0].check_target(target)
    }
}
