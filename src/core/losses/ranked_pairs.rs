//! The loop over pairs of a group's rows that `lambdarank` and `pairwise` share, as vector code.

use super::by_group::{Group, GroupWork, LANES, add_lanes};
use super::pointwise::{SMALLEST_HESSIAN, finite};
use crate::numerics::math;
use multiversion::multiversion;

/// Logistic losses of the pairs of rows with different targets of which at least one stands among the first `truncation` by score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankedPairs {
    /// Whether a pair counts what exchanging its rows would change NDCG by, else 1.
    pub of_ndcg: bool,
    /// Of the rows in the order of their scores, those that are held against all below them.
    pub truncation: u32,
    /// Whether groups with much to gain are weighed down, and pairs of `of_ndcg` by the distance of their scores.
    pub normalize: bool,
}

/// A group in the order of its scores, up to a whole number of lanes.
struct Ranked<'a> {
    rows: usize,
    scores: &'a [f32],
    gains: &'a [f32],
    discounts: &'a [f32],
    /// What the group's changes of DCG are divided by to be those of NDCG, as a factor.
    inverse: f32,
    /// Whether pairs are weighed by the distance of their scores.
    by_distance: bool,
}

/// What a row has from the pairs with those below it.
struct Below {
    gradient: f32,
    hessian: f32,
    /// The sum of the pairs' gradients without their signs.
    total: f32,
}

impl RankedPairs {
    /// Writes the derivatives of a group whose rows gain `gains`. The steps are LightGBM's.
    pub(super) fn derivatives(
        &self,
        group: &Group<'_>,
        gain: impl Fn(f32) -> f32,
        work: &mut GroupWork,
        gradient: &mut [f32],
        hessian: &mut [f32],
    ) {
        let n = group.scores.len();
        let first = group.target.first();
        if group.target.iter().all(|target| Some(target) == first) {
            gradient.fill(0.0);
            hessian.fill(SMALLEST_HESSIAN);
            return;
        }
        work.sort(group.scores.iter().copied());
        let padded = n.next_multiple_of(LANES);
        work.discount_places(padded);
        let GroupWork { discounts, keys, scores, gains, gradient: g, hessian: h } = work;
        for (values, of) in [(&mut *scores, group.scores), (&mut *gains, group.target)] {
            values.clear();
            values.extend(keys.iter().map(|key| of[*key as u32 as usize]));
            values.resize(padded, 0.0);
        }
        gains[..n].iter_mut().for_each(|target| *target = gain(*target));
        for sums in [&mut *g, &mut *h] {
            sums.clear();
            sums.resize(padded, 0.0);
        }
        let ranked = Ranked {
            rows: n,
            scores,
            gains,
            discounts,
            inverse: group.number,
            by_distance: self.of_ndcg && self.normalize && scores[0] != scores[n - 1],
        };
        let mut total = 0.0;
        for place in 0..n.min(self.truncation as usize) {
            let below = match self.of_ndcg {
                true => pairs_below::<true>(&ranked, place, g, h),
                false => pairs_below::<false>(&ranked, place, g, h),
            };
            g[place] += below.gradient;
            h[place] += below.hessian;
            total += below.total;
        }
        let factor = if self.normalize { normalized(2.0 * total) } else { 1.0 };
        for (place, key) in keys.iter().enumerate() {
            let row = *key as u32 as usize;
            gradient[row] = finite(g[place] * factor);
            let x = finite(h[place] * factor);
            hessian[row] = if x < SMALLEST_HESSIAN { SMALLEST_HESSIAN } else { x };
        }
    }
}

/// Returns `log2(1 + x) / x`, 1 for 0: what the derivatives of a group are multiplied by whose pairs' gradients add up to `x`.
fn normalized(x: f32) -> f32 {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    if x <= 0.0 {
        return 1.0;
    }
    // Where 1 + x would lose the digits of x, by the first terms of its series.
    if x < 1e-3 { LOG2_E * (1.0 - 0.5 * x + (x * x) * 0.333_333_34) } else { LOG2_E * math::ln(1.0 + x) / x }
}

/// Adds the pairs of the row at `place` with those below it to these rows' sums, and returns its own.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn pairs_below<const OF_NDCG: bool>(ranked: &Ranked<'_>, place: usize, gradient: &mut [f32], hessian: &mut [f32]) -> Below {
    let (score, gain, discount) = (ranked.scores[place], ranked.gains[place], ranked.discounts[place]);
    let (mut own_gradient, mut own_hessian, mut own_total) = ([0.0f32; LANES], [0.0f32; LANES], [0.0f32; LANES]);
    let from = place / LANES;
    let tiles = ranked.scores.as_chunks::<LANES>().0.iter().zip(ranked.gains.as_chunks::<LANES>().0);
    let tiles = tiles.zip(ranked.discounts.as_chunks::<LANES>().0);
    let sums = gradient.as_chunks_mut::<LANES>().0.iter_mut().zip(hessian.as_chunks_mut::<LANES>().0);
    for (tile, (((scores, gains), discounts), (g, h))) in tiles.zip(sums).enumerate().skip(from) {
        let first = (tile * LANES) as i32;
        for lane in 0..LANES {
            let other = first + lane as i32;
            let gap = gain - gains[lane];
            let apart = score - scores[lane];
            let mut change = 1.0;
            if OF_NDCG {
                change = gap.abs() * (discount - discounts[lane]).abs() * ranked.inverse;
                change = if ranked.by_distance { change / (0.01 + apart) } else { change };
            }
            // The chance that the row below is the better one, as the scores have it; it is the wrong one where this row is better.
            let (low, high) = math::sigmoid_pair(apart);
            let counts = (other > place as i32) & (other < ranked.rows as i32) & (gap != 0.0);
            let push = change * if gap > 0.0 { low } else { high };
            let push = if counts { push } else { 0.0 };
            let curvature = if counts { change * (low * high) } else { 0.0 };
            let down = if gap > 0.0 { push } else { -push };
            g[lane] += down;
            h[lane] += curvature;
            own_gradient[lane] -= down;
            own_hessian[lane] += curvature;
            own_total[lane] += push;
        }
    }
    Below { gradient: add_lanes(&own_gradient), hessian: add_lanes(&own_hessian), total: add_lanes(&own_total) }
}
