//! LambdaRank: pairs weighed by NDCG.

use super::by_group::{Group, GroupFormula, GroupLoss, GroupWork, LARGEST_GRADE, check_grade, discount, gain};
use super::ranked_pairs::RankedPairs;
use super::{Formula, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::objective::Link;

pub(super) const ENTRY: LossEntry = LossEntry {
    target: LossTarget::Numbers,
    formula: super::BY_GROUP,
    groups: true,
    make: |s| {
        Box::new(Lambdarank(RankedPairs {
            of_ndcg: true,
            truncation: s.params.rank_truncation.unwrap_or(30),
            normalize: s.params.rank_normalize,
        }))
    },
};

/// For each pair of a group's rows with different grades `ln(1 + exp(-(better - worse)))`, times what exchanging the two would change the
/// group's NDCG by (Burges, "From RankNet to LambdaRank to LambdaMART: an overview", 2010). Only pairs count of which one stands among the
/// first `rank_truncation` by score, and NDCG is that of so many places. Under `rank_normalize` a pair is divided by 0.01 and the distance
/// of its scores, and a group whose pairs' gradients add up to x multiplied by `log2(1 + x) / x`, as in LightGBM.
struct Lambdarank(RankedPairs);

impl GroupLoss for Lambdarank {
    /// The inverse of the DCG that the best order of the rows has at the truncation; 0 where no order gains anything.
    fn number(&self, target: &[f32]) -> f32 {
        let mut counts = [0usize; LARGEST_GRADE as usize + 1];
        target.iter().for_each(|grade| counts[grade.clamp(0.0, LARGEST_GRADE as f32) as usize] += 1);
        let (mut place, mut best) = (0, 0.0);
        for (grade, count) in counts.iter().enumerate().rev() {
            for _ in 0..*count {
                if place < self.0.truncation as usize {
                    best += gain(grade as f32) as f64 * discount(place) as f64;
                }
                place += 1;
            }
        }
        if best > 0.0 { (1.0 / best) as f32 } else { 0.0 }
    }

    fn derivatives(&self, group: &Group<'_>, work: &mut GroupWork, gradient: &mut [f32], hessian: &mut [f32]) {
        self.0.derivatives(group, gain, work, gradient, hessian);
    }

    fn formula(&self) -> GroupFormula {
        GroupFormula::Pairs(self.0)
    }
}

super::ranking_loss!(Lambdarank, check_grade);
