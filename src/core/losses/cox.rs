//! Cox's proportional hazards.

use super::aft::check_time;
use super::pointwise::SMALLEST_HESSIAN;
use super::{Formula, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::objective::Link;

pub(super) const ENTRY: LossEntry = LossEntry { target: LossTarget::Numbers, formula: "cox", groups: false, make: |_| Box::new(Cox) };

/// The negative logarithm of the partial likelihood (Cox, "Regression models and life-tables", 1972): of those at risk at the time of an
/// event, how likely it was the one that it happened to, `exp(score)` being a row's hazard. Times that several events share count as
/// Efron has them ("The efficiency of Cox's likelihood function for censored data", 1977), weights as in R's `survival`. The derivatives of
/// all rows are found before a tree, by [`RiskSets`](super::risk_sets::RiskSets).
pub(super) struct Cox;

impl Loss for Cox {
    /// Of a row without risk sets: it is never at risk.
    fn derivatives(&self, _output: usize, _rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]) {
        gradient.fill(0.0);
        hessian.fill(SMALLEST_HESSIAN);
    }

    fn formula(&self, _output: usize) -> Formula {
        Formula::new(ENTRY.formula)
    }

    fn reads_times(&self) -> bool {
        true
    }

    fn of_risk_sets(&self) -> bool {
        true
    }

    /// 0: only differences count.
    fn start(&self, _target: &[f64], _weight: Option<&[f32]>) -> Vec<f64> {
        vec![0.0]
    }

    fn link(&self) -> Link {
        Link::Hazard
    }

    fn metric(&self) -> MetricKind {
        MetricKind::CoxNloglik
    }

    fn check_target(&self, target: f64) -> Result<(), &'static str> {
        check_time(target)
    }
}
