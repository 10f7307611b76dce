//! The log losses of each class against all others.

use super::cross_entropy::CrossEntropy;
use super::pointwise::Pointwise;
use super::{Formula, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::numerics::reduce::{sum, total_weight};
use crate::objective::Link;

pub(super) const ENTRY: LossEntry = LossEntry {
    target: LossTarget::Classes,
    formula: "ova",
    groups: false,
    make: |s| Box::new(OneVersusAll { classes: s.classes.max(2) }),
};

/// For each class the cross entropy of a target that is 1 for the class's rows and 0 for all others, with a probability
/// `1 / (1 + exp(-score))` of its own (Rifkin and Klautau, "In Defense of One-Vs-All Classification", 2004). The probabilities of the classes
/// don't sum to 1, as in LightGBM (`multiclassova`) and CatBoost (`MultiClassOneVsAll`): each is what its scores have learnt, also where a row
/// is like none of the classes, or like two.
pub(super) struct OneVersusAll {
    classes: usize,
}

/// One of the classes.
pub(super) struct OfClass(pub f32);

impl Pointwise for OfClass {
    #[inline(always)]
    fn at(&self, score: f32, target: f32) -> (f32, f32) {
        CrossEntropy.at(score, if target == self.0 { 1.0 } else { 0.0 })
    }
}

impl Loss for OneVersusAll {
    fn outputs(&self) -> usize {
        self.classes
    }

    fn derivatives(&self, output: usize, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]) {
        OfClass(output as f32).derivatives(rows.of(output), gradient, hessian);
    }

    fn formula(&self, output: usize) -> Formula {
        Formula { a: output as f32, ..Formula::new(ENTRY.formula) }
    }

    /// The log odds of each class.
    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64> {
        let total = total_weight(target.len(), weight);
        let share = |k: usize| {
            let of_class = sum(target.len(), |i| if target[i] == k as f64 { weight.map_or(1.0, |w| w[i] as f64) } else { 0.0 });
            if total > 0.0 { of_class / total } else { 0.5 }
        };
        (0..self.classes).map(|k| CrossEntropy::log_odds(share(k))).collect()
    }

    fn link(&self) -> Link {
        Link::SigmoidEach
    }

    fn metric(&self) -> MetricKind {
        MetricKind::Ova
    }

    fn check_target(&self, target: f64) -> Result<(), &'static str> {
        let class = target >= 0.0 && target < self.classes as f64 && target == libm::floor(target);
        if class { Ok(()) } else { Err("loss=\"ova\" needs the index of a class, from 0 to the number of classes less 1") }
    }
}
