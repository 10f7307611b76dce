//! The scores of candidate splits, many at a time, by the formula of [`taiga_core::tree::split`].

use super::bins::{BorderSums, LANES, MAX_BINS};
use taiga_core::tree::split::{Inherited, SplitRules, Sums, soft_threshold};

/// The node, feature and rules that candidates are scored under.
pub struct Context<'a> {
    pub rules: &'a SplitRules,
    pub total: Sums,
    pub inherited: &'a Inherited,
    pub direction: i8,
    /// The score of a candidate with a child that is too small, unless [`SplitRules::level_limits`] forbid it.
    pub too_small: f64,
}

/// Returns whether neither l1 nor counts nor monotone constraints play.
#[inline(always)]
pub fn plain(rules: &SplitRules) -> bool {
    is_plain_beside_limits(rules) && !rules.level_limits
}

/// Returns whether none of these plays, unless a level's limits ask whether there are rows.
#[inline(always)]
fn is_plain_beside_limits(rules: &SplitRules) -> bool {
    many_at_a_time(rules) && rules.l1 == 0.0 && rules.min_data_in_leaf == 0
}

/// Returns whether the scores of many candidates are computed at once: under all rules but monotone constraints.
#[inline(always)]
pub fn many_at_a_time(rules: &SplitRules) -> bool {
    !rules.scores_by_values()
}

/// Computes the scores of the candidates that put the bins up to each of the first `n` steps, less `missing`, to
/// the left: the sum of both children's scores. What follows in `out` has no meaning.
#[inline(always)]
pub fn scores(steps: &BorderSums, missing: Sums, c: &Context<'_>, out: &mut [f64; MAX_BINS], n: usize) {
    if is_plain_beside_limits(c.rules) && (!c.rules.level_limits || steps.by_hessians()) {
        let n = n.next_multiple_of(LANES);
        let too_small = TooSmall { divided: if c.rules.level_limits { f64::NEG_INFINITY } else { c.too_small }, undivided: c.too_small };
        plain_scores(&steps.gradient[..n], &steps.hessian[..n], missing, c.total, c.rules, too_small, &mut out[..n]);
    } else if many_at_a_time(c.rules) {
        let out = &mut out[..n.next_multiple_of(LANES)];
        if c.rules.l1 > 0.0 { limited_scores::<true>(steps, missing, c, out) } else { limited_scores::<false>(steps, missing, c, out) }
    } else {
        for (i, o) in out[..n].iter_mut().enumerate() {
            *o = score(steps.at(i) - missing, c);
        }
    }
}

/// Computes one candidate's score under every rule: the definition of what the other functions compute.
pub fn score(left: Sums, c: &Context<'_>) -> f64 {
    let rules = c.rules;
    let right = c.total - left;
    let ((gl, hl), (gr, hr)) = (rules.values(left), rules.values(right));
    if !rules.large_enough(left) || !rules.large_enough(right) {
        // A node whose rows all go to one side is not divided.
        let divided = left.count > 0 && right.count > 0;
        return if rules.level_limits && divided { f64::NEG_INFINITY } else { c.too_small };
    }
    if !rules.scores_by_values() {
        let (tl, tr) = (soft_threshold(gl, rules.l1), soft_threshold(gr, rules.l1));
        let (dl, dr) = (hl + rules.l2, hr + rules.l2);
        return (tl * tl * dr + tr * tr * dl) / (dl * dr);
    }
    let (wl, wr) = (rules.leaf_value(gl, hl, left.count as f64, c.inherited), rules.leaf_value(gr, hr, right.count as f64, c.inherited));
    if (wr - wl) * (c.direction as f64) < 0.0 {
        return f64::NEG_INFINITY;
    }
    rules.leaf_score(gl, hl, wl) + rules.leaf_score(gr, hr, wr)
}

/// The scores of candidates with a child that is too small.
#[derive(Clone, Copy)]
pub struct TooSmall {
    /// Where both children have hessians.
    pub divided: f64,
    /// Where one has none.
    pub undivided: f64,
}

/// Computes [`score`] for many candidates at once, under [`plain`] rules, or where a level's limits are all that plays beside them and
/// hessians tell whether there are rows.
#[inline(always)]
pub fn plain_scores(
    gradient: &[i64],
    hessian: &[i64],
    missing: Sums,
    total: Sums,
    rules: &SplitRules,
    too_small: TooSmall,
    out: &mut [f64],
) {
    let n = out.len();
    let (gradient, hessian) = (&gradient[..n], &hessian[..n]);
    let (sg, sh, l2, least) = (rules.scales.gradient, rules.scales.hessian, rules.l2, rules.min_child_weight);
    for i in 0..n {
        let (gl, hl) = (gradient[i] - missing.gradient, hessian[i] - missing.hessian);
        let (gr, hr) = (total.gradient - gl, total.hessian - hl);
        let some = (hl > 0) & (hr > 0);
        let (gl, hl, gr, hr) = (gl as f64 * sg, hl as f64 * sh, gr as f64 * sg, hr as f64 * sh);
        let (dl, dr) = (hl + l2, hr + l2);
        let v = (gl * gl * dr + gr * gr * dl) / (dl * dr);
        let otherwise = if some { too_small.divided } else { too_small.undivided };
        out[i] = if some & (hl >= least) & (hr >= least) { v } else { otherwise };
    }
}

/// Computes [`score`] for many candidates at once, with or without `L1`, without monotone constraints.
#[inline(always)]
fn limited_scores<const L1: bool>(steps: &BorderSums, missing: Sums, c: &Context<'_>, out: &mut [f64]) {
    let (n, total, rules) = (out.len(), c.total, c.rules);
    let (gradient, hessian, count) = (&steps.gradient[..n], &steps.hessian[..n], &steps.count[..n]);
    let (sg, sh, l1, l2, least) = (rules.scales.gradient, rules.scales.hessian, rules.l1, rules.l2, rules.min_child_weight);
    // Where rows are not counted, whatever stands there is enough.
    let (fewest, forbids) = (if rules.min_data_in_leaf == 0 { i64::MIN } else { rules.min_data_in_leaf }, rules.level_limits);
    for i in 0..n {
        let (gl, hl, nl) = (gradient[i] - missing.gradient, hessian[i] - missing.hessian, count[i] - missing.count);
        let (gr, hr, nr) = (total.gradient - gl, total.hessian - hl, total.count - nl);
        let enough = (hl > 0) & (hr > 0) & (nl >= fewest) & (nr >= fewest);
        let (gl, hl, gr, hr) = (gl as f64 * sg, hl as f64 * sh, gr as f64 * sg, hr as f64 * sh);
        let (tl, tr) = if L1 { (soft_threshold(gl, l1), soft_threshold(gr, l1)) } else { (gl, gr) };
        let (dl, dr) = (hl + l2, hr + l2);
        let v = (tl * tl * dr + tr * tr * dl) / (dl * dr);
        let otherwise = if forbids & (nl > 0) & (nr > 0) { f64::NEG_INFINITY } else { c.too_small };
        out[i] = if enough & (hl >= least) & (hr >= least) { v } else { otherwise };
    }
}

/// Returns the largest magnitude of the scores but those that forbid a split; no number where one is none.
#[inline(always)]
pub fn magnitude(scores: &[f64]) -> f64 {
    const LANES: usize = 8;
    // The bits of numbers that are not negative are ordered as they are, below those of infinity and of what is no number.
    let bits = |score: f64| if score == f64::NEG_INFINITY { 0 } else { score.abs().to_bits() as i64 };
    let mut lanes = [0i64; LANES];
    let chunks = scores.chunks_exact(LANES);
    let rest = chunks.remainder().iter().fold(0, |largest, score| largest.max(bits(*score)));
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] = lanes[i].max(bits(chunk[i]));
        }
    }
    f64::from_bits(lanes.iter().fold(rest, |largest, lane| largest.max(*lane)) as u64)
}

/// Returns the largest score.
#[inline(always)]
pub fn largest(scores: &[f64]) -> f64 {
    const LANES: usize = 16;
    let mut lanes = [f64::NEG_INFINITY; LANES];
    let chunks = scores.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] = if chunk[i] > lanes[i] { chunk[i] } else { lanes[i] };
        }
    }
    lanes.iter().chain(rest).fold(f64::NEG_INFINITY, |a, b| if *b > a { *b } else { a })
}

/// Returns the largest score and the first place that has it.
#[inline(always)]
pub fn first_largest(scores: &[f64]) -> (f64, usize) {
    let largest = largest(scores);
    (largest, scores.iter().position(|s| *s == largest).unwrap_or(0))
}

/// Adds each step's score to the candidates from its bin up to the next step's.
#[inline(always)]
pub fn add_steps<T: Copy + std::ops::AddAssign>(sums: &mut [T], scores: &[T], steps: &BorderSums, first: usize) {
    if scores.len() == sums.len() {
        return add(sums, scores);
    }
    for (i, score) in scores.iter().enumerate() {
        let end = if i + 1 < scores.len() { steps.bin[i + 1] as usize - first } else { sums.len() };
        for s in &mut sums[steps.bin[i] as usize - first..end] {
            *s += *score;
        }
    }
}

/// Computes `a[i] += b[i]`.
#[inline(always)]
fn add<T: Copy + std::ops::AddAssign>(a: &mut [T], b: &[T]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a += *b;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::trees::bins::Counts;
    use taiga_core::numerics::random::{Purpose, Random};
    use taiga_core::tree::SplitParams;
    use taiga_core::tree::split::{Scales, SplitRules};

    /// Parameters under which every candidate with rows on both sides is allowed, without regularization.
    pub fn without_limits() -> SplitParams {
        SplitParams {
            l1: 0.0,
            l2: 0.0,
            min_child_weight: 0.0,
            min_data_in_leaf: 0,
            min_gain: 0.0,
            max_delta_step: f64::INFINITY,
            path_smooth: 0.0,
            categories: Default::default(),
        }
    }

    /// Proves that candidates scored many at a time have the bits of each scored alone, under every rule but monotone constraints: children
    /// without rows, without curvature, just large enough and just not, sums that are zero.
    #[test]
    fn many_scores_are_those_of_each_alone() {
        let random = Random::new(7, Purpose::RowSample, 0);
        let mut drawn = 0;
        let mut below = |n: u64| {
            drawn += 1;
            (random.u64(drawn) % n) as i64
        };
        for case in 0..400 {
            let rules = SplitRules {
                scales: Scales { gradient: 0.25, hessian: 0.125 },
                params: SplitParams {
                    l1: [0.0, 1.5][below(2) as usize],
                    l2: [0.0, 0.5][below(2) as usize],
                    min_child_weight: [0.0, 2.0][below(2) as usize],
                    min_data_in_leaf: [0, 5][below(2) as usize],
                    ..without_limits()
                },
                level_limits: below(2) == 1,
                monotone: vec![],
            };
            let by_hessians = below(3) == 0;
            let mut steps = BorderSums::new(if by_hessians { Counts::Hessians } else { Counts::Rows });
            let mut sum = Sums::default();
            let n = 1 + below(MAX_BINS as u64) as usize;
            for i in 0..n {
                sum = sum + Sums { gradient: below(21) - 10, hessian: below(4) * below(20), count: below(3) };
                (steps.gradient[i], steps.hessian[i], steps.count[i]) = (sum.gradient, sum.hessian, sum.count);
            }
            steps.len = n;
            let mut missing = Sums { gradient: below(9) - 4, hessian: below(3), count: below(2) };
            let mut total = sum + Sums { gradient: below(9) - 4, hessian: below(30), count: below(8) };
            if by_hessians {
                steps.count = steps.hessian;
                (missing.count, total.count) = (missing.hessian, total.hessian);
            }
            let c = Context {
                rules: &rules,
                total,
                inherited: &Inherited::NOTHING,
                direction: 0,
                too_small: [-1.0, f64::NEG_INFINITY][below(2) as usize],
            };
            let mut out = [0.0; MAX_BINS];
            scores(&steps, missing, &c, &mut out, n);
            for (i, many) in out[..n].iter().enumerate() {
                let alone = score(steps.at(i) - missing, &c);
                assert_eq!(many.to_bits(), alone.to_bits(), "case {case}, step {i} of {n}: {many} and {alone}; {rules:?}");
            }
        }
    }
}
