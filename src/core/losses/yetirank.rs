//! YetiRank: neighbours in orders by scores with noise.

use super::by_group::{Group, GroupFormula, GroupLoss, GroupWork};
use super::pointwise::{SMALLEST_HESSIAN, clamp, finite};
use super::xendcg::unit;
use super::{Formula, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::numerics::math;
use crate::objective::Link;

pub(super) const ENTRY: LossEntry = LossEntry {
    target: LossTarget::Numbers,
    formula: super::BY_GROUP,
    groups: true,
    make: |s| Box::new(Yetirank { orders: s.params.rank_orders, decay: s.params.rank_decay as f32 }),
};

/// Logistic losses of pairs of a group's rows that become neighbours: for each tree `rank_orders` orders of the group are drawn, by the
/// scores with logistic noise; the pair at places k and k + 1 counts `rank_decay^k` times the difference of its targets, and all orders
/// together count 1 (Gulin, Kuralenok and Pavlov, "Winning the transfer learning track of Yahoo!'s Learning to Rank Challenge with
/// YetiRank", 2011, as in CatBoost).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yetirank {
    /// How many orders are drawn.
    pub orders: u32,
    /// What a pair counts less than the one before it.
    pub decay: f32,
}

/// Returns the score with the noise that a row draws in an order.
#[inline(always)]
fn noisy(score: f32, draw: f32) -> f32 {
    // The logit of a number inside (0, 1).
    let u = clamp(draw, 1e-6, 0.999_999);
    score + math::ln(u / (1.0 - u))
}

/// Returns the gradient of the row at a place from its pair with a neighbour, and the hessian that both have.
#[inline(always)]
fn pair(weight: f32, (score, target): (f32, f32), (other, other_target): (f32, f32)) -> (f32, f32) {
    let gap = target - other_target;
    let (low, high) = math::sigmoid_pair(score - other);
    let is_better = gap > 0.0;
    // The chance that the order of the two is wrong.
    let wrong = if (score >= other) == is_better { low } else { high };
    let change = weight * gap.abs();
    let push = change * wrong;
    (if is_better { -push } else { push }, change * (low * high))
}

impl Yetirank {
    /// Returns what the pairs of an order count, from the first on.
    pub fn weights(self) -> impl Iterator<Item = f32> {
        std::iter::successors(Some(1.0 / self.orders as f32), move |weight| Some(weight * self.decay))
    }
}

impl GroupLoss for Yetirank {
    fn derivatives(&self, group: &Group<'_>, work: &mut GroupWork, gradient: &mut [f32], hessian: &mut [f32]) {
        gradient.fill(0.0);
        hessian.fill(0.0);
        let n = group.scores.len();
        for order in 0..self.orders {
            let random = group.random.child(order as u64);
            work.sort(group.scores.iter().zip(group.rows).map(|(score, row)| noisy(*score, unit(random, *row))));
            for (place, weight) in (1..n).zip(self.weights()) {
                let (a, b) = (work.keys[place - 1] as u32 as usize, work.keys[place] as u32 as usize);
                let (first, second) = ((group.scores[a], group.target[a]), (group.scores[b], group.target[b]));
                let (push, curvature) = pair(weight, first, second);
                gradient[a] += push;
                gradient[b] -= push;
                hessian[a] += curvature;
                hessian[b] += curvature;
            }
        }
        for (g, h) in gradient.iter_mut().zip(hessian) {
            *g = finite(*g);
            *h = clamp(*h, SMALLEST_HESSIAN, f32::MAX);
        }
    }

    fn formula(&self) -> GroupFormula {
        GroupFormula::Yetirank(*self)
    }
}

super::ranking_loss!(Yetirank, |_| Ok(()));
