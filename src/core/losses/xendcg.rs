//! Cross entropy of a group's softmax with its grades.

use super::by_group::{Group, GroupFormula, GroupLoss, GroupWork, LANES, add_lanes, check_grade, gain};
use super::pointwise::{SMALLEST_HESSIAN, finite};
use super::{Formula, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::numerics::math;
use crate::numerics::random::Random;
use crate::objective::Link;
use multiversion::multiversion;

pub(super) const ENTRY: LossEntry =
    LossEntry { target: LossTarget::Numbers, formula: super::BY_GROUP, groups: true, make: |_| Box::new(Xendcg) };

/// The cross entropy between the softmax of a group's scores and what the grades say, `2^grade - u` with a `u` from [0, 1) drawn anew for
/// each row and tree: a bound of NDCG (Bruch, "An alternative cross entropy loss for learning-to-rank", 2021). The gradient has the three
/// terms of that paper, as LightGBM's `rank_xendcg`; the hessian of row i is `p (1 - p)`.
struct Xendcg;

/// The smallest sum of the other rows' shares that is divided by.
const SMALLEST_REST: f32 = 1e-10;

/// Numbers of a group by row, up to a whole number of lanes; those behind the last row are 0.
struct Shares<'a> {
    /// The softmax of the scores, and 1 less that.
    share: &'a mut [f32],
    rest: &'a mut [f32],
    /// What the grades say, and what is made of it.
    wanted: &'a mut [f32],
    sums: &'a mut [f32],
}

impl GroupLoss for Xendcg {
    fn derivatives(&self, group: &Group<'_>, work: &mut GroupWork, gradient: &mut [f32], hessian: &mut [f32]) {
        let n = group.scores.len();
        if n < 2 {
            gradient.fill(0.0);
            hessian.fill(SMALLEST_HESSIAN);
            return;
        }
        let padded = n.next_multiple_of(LANES);
        let GroupWork { scores: share, gains: rest, hessian: wanted, gradient: sums, .. } = work;
        for values in [&mut *share, &mut *rest, &mut *wanted, &mut *sums] {
            values.clear();
            values.resize(padded, 0.0);
        }
        share[..n].copy_from_slice(group.scores);
        share[n..].fill(f32::NEG_INFINITY);
        for (wanted, (grade, row)) in wanted.iter_mut().zip(group.target.iter().zip(group.rows)) {
            *wanted = gain(*grade) + 1.0 - unit(group.random, *row);
        }
        three_terms(&mut Shares { share, rest, wanted, sums });
        gradient.copy_from_slice(&sums[..n]);
        for (h, (share, rest)) in hessian.iter_mut().zip(share.iter().zip(rest.iter())) {
            let curvature = *share * *rest;
            *h = if curvature < SMALLEST_HESSIAN { SMALLEST_HESSIAN } else { curvature };
        }
    }

    fn formula(&self) -> GroupFormula {
        GroupFormula::Xendcg
    }
}

/// Returns the number from [0, 1) that a row draws: 24 bits.
#[inline(always)]
pub(super) fn unit(random: Random, row: u32) -> f32 {
    (random.u32(row) >> 8) as f32 * (1.0 / (1u32 << 24) as f32)
}

/// Adds numbers in lanes.
#[inline(always)]
fn sum(values: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    for tile in values.as_chunks::<LANES>().0 {
        for (lane, value) in lanes.iter_mut().zip(tile) {
            *lane += *value;
        }
    }
    add_lanes(&lanes)
}

/// From scores (in `share`) and what the grades say to shares and, in `sums`, the gradient.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn three_terms<'a>(of: &mut Shares<'a>) {
    let Shares { share, rest, wanted, sums } = of;
    let top = share.iter().fold(f32::NEG_INFINITY, |top, s| if *s > top { *s } else { top });
    for s in share.iter_mut() {
        *s = math::exp(*s - top);
    }
    let total = sum(share);
    for (s, r) in share.iter_mut().zip(rest.iter_mut()) {
        let others = (total - *s) / total;
        *r = if others < SMALLEST_REST { SMALLEST_REST } else { others };
        *s /= total;
    }
    let wanted_total = sum(wanted);
    let wanted_total = if wanted_total < SMALLEST_REST { SMALLEST_REST } else { wanted_total };
    for (((w, g), s), r) in wanted.iter_mut().zip(sums.iter_mut()).zip(share.iter()).zip(rest.iter()) {
        let term = *s - *w / wanted_total;
        *g = term;
        *w = term / *r;
    }
    let first = sum(wanted);
    for (((w, g), s), r) in wanted.iter_mut().zip(sums.iter_mut()).zip(share.iter()).zip(rest.iter()) {
        let term = *s * (first - *w);
        *g += term;
        *w = term / *r;
    }
    let second = sum(wanted);
    for ((w, g), s) in wanted.iter().zip(sums.iter_mut()).zip(share.iter()) {
        *g = finite(*g + *s * (second - *w));
    }
}

super::ranking_loss!(Xendcg, check_grade);
