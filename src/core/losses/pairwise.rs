//! RankNet: all pairs alike.

use super::by_group::{Group, GroupFormula, GroupLoss, GroupWork};
use super::ranked_pairs::RankedPairs;
use super::{Formula, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::objective::Link;

pub(super) const ENTRY: LossEntry = LossEntry {
    target: LossTarget::Numbers,
    formula: super::BY_GROUP,
    groups: true,
    make: |s| {
        let truncation = s.params.rank_truncation.unwrap_or(MOST_RANKS);
        Box::new(Pairwise(RankedPairs { of_ndcg: false, truncation, normalize: s.params.rank_normalize }))
    },
};

/// Ranks that are held against all below them unless told: up to so many rows a group has all its pairs, and one of 100,000 rows is not
/// five thousand million of them.
const MOST_RANKS: u32 = 1000;

/// `ln(1 + exp(-(better - worse)))` for each pair of a group's rows with different targets (Burges et al., "Learning to rank using gradient
/// descent", 2005). Only the pairs count of which one stands among the first
/// `rank_truncation` by score, 1,000 unless told; under
/// `rank_normalize` a group whose pairs' gradients add up to x is multiplied by `log2(1 + x) / x`, as in XGBoost.
struct Pairwise(RankedPairs);

impl GroupLoss for Pairwise {
    fn derivatives(&self, group: &Group<'_>, work: &mut GroupWork, gradient: &mut [f32], hessian: &mut [f32]) {
        self.0.derivatives(group, |target| target, work, gradient, hessian);
    }

    fn formula(&self) -> GroupFormula {
        GroupFormula::Pairs(self.0)
    }
}

super::ranking_loss!(Pairwise, |_| Ok(()));
