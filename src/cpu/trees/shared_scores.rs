//! The scores of candidate splits of a tree that several outputs share, many at a time: the sums of the outputs' scores.

use super::bins::{BorderSums, LANES, MAX_BINS};
use super::lanes::SharedTree;
use taiga_core::learners::boosting::steps::OutputRules;
use taiga_core::tree::split::{Scales, SplitRules, Sums, soft_threshold};

/// The scores of a feature's candidates in a node, and what decides whether they are allowed.
pub struct Candidates {
    pub scores: [f64; MAX_BINS],
    /// Where all hessians are 1, of the right side what `scores` are of the left until [`Candidates::finish_unit`].
    right: [f64; MAX_BINS],
    /// The sum over the outputs of the hessians on the left.
    left: [f64; MAX_BINS],
    /// The rows on the left.
    count: [i64; MAX_BINS],
}

impl Candidates {
    pub fn new() -> Candidates {
        Candidates { scores: [0.0; MAX_BINS], right: [0.0; MAX_BINS], left: [0.0; MAX_BINS], count: [0; MAX_BINS] }
    }

    pub fn clear(&mut self, n: usize, unit: bool) {
        self.scores[..n].fill(0.0);
        // What is noted of hessians of 1 is written, not added.
        let other = if unit { &mut self.right } else { &mut self.left };
        other[..n].fill(0.0);
    }

    /// Notes the rows on the left, which are counted once for all outputs.
    #[inline(always)]
    pub fn note_counts(&mut self, steps: &BorderSums, missing: Sums, n: usize) {
        for (rows, count) in self.count[..n].iter_mut().zip(&steps.count[..n]) {
            *rows = count - missing.count;
        }
    }

    /// Notes the hessians on the left, of which each of `outputs` has those of `steps`.
    #[inline(always)]
    pub fn note_unit<const NARROW: bool>(&mut self, steps: &BorderSums, missing: Sums, scale: f64, n: usize) {
        for (left, hessian) in self.left[..n].iter_mut().zip(&steps.hessian[..n]) {
            *left = real::<NARROW>(hessian - missing.hessian) * scale;
        }
    }

    /// Turns the sums of the sides' squares into scores, where each output has the hessians that were noted and `total` in all: one division
    /// for all of them.
    #[inline(always)]
    pub fn finish_unit(&mut self, total: f64, l2: f64, outputs: usize, n: usize) {
        for i in 0..n {
            let left = self.left[i];
            let (dl, dr) = (left + l2, total - left + l2);
            let (a, dl) = if dl > 0.0 { (self.scores[i], dl) } else { (0.0, 1.0) };
            let (b, dr) = if dr > 0.0 { (self.right[i], dr) } else { (0.0, 1.0) };
            self.scores[i] = (a * dr + b * dl) / (dl * dr);
            self.left[i] = left * outputs as f64;
        }
    }
}

/// Returns a sum as an f64. `NARROW`: it is less than 2⁵¹ either side of 0. Added to 1.5 · 2⁵² as an integer such a number stands in the last bits of an
/// f64; so it takes no instruction that turns integers of 64 bits into numbers, which vectors have with AVX-512 alone.
#[inline(always)]
fn real<const NARROW: bool>(sum: i64) -> f64 {
    const MIDDLE: f64 = 6_755_399_441_055_744.0;
    match NARROW {
        true => f64::from_bits(MIDDLE.to_bits().wrapping_add(sum as u64)) - MIDDLE,
        false => sum as f64,
    }
}

/// Returns the score of a node of one output: `T(G)² / (H + l2)`, times what the output counts.
pub fn output_score(sums: Sums, scales: Scales, rules: &OutputRules, more_l2: f64) -> f64 {
    let t = soft_threshold(sums.gradient as f64 * scales.gradient, rules.params.l1);
    let divisor = sums.hessian as f64 * scales.hessian + rules.params.l2 + more_l2;
    if divisor > 0.0 { rules.importance * (t * t / divisor) } else { 0.0 }
}

/// Returns the score of a node by a body and its tail: by how much the value that the body's sums give it lowers twice the loss of the
/// tail's rows, times what the output counts.
#[inline(always)]
fn pair_score((body, tail): ((f64, f64), (f64, f64)), l1: f64, l2: f64, importance: f64) -> f64 {
    let gradient = if l1 == 0.0 { body.0 } else { soft_threshold(body.0, l1) };
    let divisor = body.1 + l2;
    let value = if divisor > 0.0 { -gradient / divisor } else { 0.0 };
    -importance * value * (2.0 * tail.0 + value * tail.1)
}

/// Returns the score of a node by the sums of a body and its tail: see [`output_score`].
fn sums_score(sums: &[Sums], scales: [Scales; 2], rules: &OutputRules, more_l2: f64) -> f64 {
    let real = |sums: Sums, scales: Scales| (sums.gradient as f64 * scales.gradient, sums.hessian as f64 * scales.hessian);
    let both = (real(sums[0], scales[0]), real(sums[1], scales[1]));
    pair_score(both, rules.params.l1, rules.params.l2 + more_l2, rules.importance)
}

impl SharedTree {
    /// Returns a node's score, from the sums of each output, or of each body and tail. `more_l2`: what is added to `l2`, by output.
    pub fn score(&self, sums: &[Sums], more_l2: impl Fn(usize) -> f64) -> f64 {
        let scales = |k: usize| self.quantizers[k].scales();
        match self.pairs {
            0 => sums.iter().enumerate().fold(0.0, |total, (k, one)| total + output_score(*one, scales(k), &self.rules[k], more_l2(k))),
            _ => (0..sums.len())
                .step_by(2)
                .fold(0.0, |total, k| total + sums_score(&sums[k..k + 2], [scales(k), scales(k + 1)], &self.rules[k], more_l2(k))),
        }
    }
}

/// Adds what a body and its tail say of the candidates that put the bins up to each of the first `n` steps, less `missing`, to the left.
#[inline(always)]
pub fn add_pair_scores<const NARROW: bool>(
    (body, tail): (&BorderSums, &BorderSums),
    missing: [Sums; 2],
    totals: &[Sums],
    (scales, rules): ([Scales; 2], &OutputRules),
    out: &mut Candidates,
    n: usize,
) {
    let real =
        |sums: Sums, scales: Scales| (real::<NARROW>(sums.gradient) * scales.gradient, real::<NARROW>(sums.hessian) * scales.hessian);
    let (l1, l2, importance) = (rules.params.l1, rules.params.l2, rules.importance);
    let sums = |steps: &BorderSums, i: usize| Sums { gradient: steps.gradient[i], hessian: steps.hessian[i], count: 0 };
    let without = |a: Sums, b: Sums| Sums { gradient: a.gradient - b.gradient, hessian: a.hessian - b.hessian, count: 0 };
    for i in 0..n {
        let (of_body, of_tail) = (without(sums(body, i), missing[0]), without(sums(tail, i), missing[1]));
        let left = (real(of_body, scales[0]), real(of_tail, scales[1]));
        let right = (real(without(totals[0], of_body), scales[0]), real(without(totals[1], of_tail), scales[1]));
        out.left[i] += left.1.1;
        out.scores[i] += pair_score(left, l1, l2, importance) + pair_score(right, l1, l2, importance);
    }
}

/// Adds an output's scores, with or without `L1`, of the candidates that put the bins up to each of the first `n` steps, less `missing`, to the left.
#[inline(always)]
pub fn add_scores<const NARROW: bool, const L1: bool>(
    steps: &BorderSums,
    missing: Sums,
    total: Sums,
    (scales, rules): (Scales, &OutputRules),
    out: &mut Candidates,
    n: usize,
) {
    let n = n.next_multiple_of(LANES);
    let (gradient, hessian) = (&steps.gradient[..n], &steps.hessian[..n]);
    let (scores, left) = (&mut out.scores[..n], &mut out.left[..n]);
    let (sg, sh, l1, l2, importance) = (scales.gradient, scales.hessian, rules.params.l1, rules.params.l2, rules.importance);
    for i in 0..n {
        let (gl, hl) = (gradient[i] - missing.gradient, hessian[i] - missing.hessian);
        let (gr, hr) = (total.gradient - gl, total.hessian - hl);
        let (gl, hl, gr, hr) = (real::<NARROW>(gl) * sg, real::<NARROW>(hl) * sh, real::<NARROW>(gr) * sg, real::<NARROW>(hr) * sh);
        left[i] += hl;
        let (gl, gr) = if L1 { (soft_threshold(gl, l1), soft_threshold(gr, l1)) } else { (gl, gr) };
        let (dl, dr) = (hl + l2, hr + l2);
        // A side without any curvature has no score.
        let (gl, dl) = if dl > 0.0 { (gl, dl) } else { (0.0, 1.0) };
        let (gr, dr) = if dr > 0.0 { (gr, dr) } else { (0.0, 1.0) };
        scores[i] += importance * ((gl * gl * dr + gr * gr * dl) / (dl * dr));
    }
}

/// Adds an output's part of both sides' squares, `T(G)²` times what it counts, with or without `L1`, where all hessians are 1.
#[inline(always)]
pub fn add_squares<const NARROW: bool, const L1: bool>(
    steps: &BorderSums,
    missing: Sums,
    total: Sums,
    (scales, rules): (Scales, &OutputRules),
    out: &mut Candidates,
    n: usize,
) {
    let n = n.next_multiple_of(LANES);
    let (gradient, scores, right) = (&steps.gradient[..n], &mut out.scores[..n], &mut out.right[..n]);
    let (scale, l1, importance) = (scales.gradient, rules.params.l1, rules.importance);
    for i in 0..n {
        let gl = gradient[i] - missing.gradient;
        let (gl, gr) = (real::<NARROW>(gl) * scale, real::<NARROW>(total.gradient - gl) * scale);
        let (gl, gr) = if L1 { (soft_threshold(gl, l1), soft_threshold(gr, l1)) } else { (gl, gr) };
        scores[i] += importance * (gl * gl);
        right[i] += importance * (gr * gr);
    }
}

/// Gives the candidates that leave a child too small the score `too_small`, or none at all where limits forbid them. `right`: the sum of the
/// node's hessians over the outputs.
#[inline(always)]
pub fn limit(out: &mut Candidates, n: usize, total: (f64, i64), outputs: usize, rules: &SplitRules, too_small: f64) {
    let least = rules.min_child_weight * outputs as f64;
    let counted = rules.min_data_in_leaf > 0 || rules.level_limits;
    for i in 0..n {
        let (left, right) = (out.left[i], total.0 - out.left[i]);
        let mut fits = (left > 0.0) & (right > 0.0) & (left >= least) & (right >= least);
        let (some, others) = (out.count[i], total.1 - out.count[i]);
        if counted {
            fits &= (some >= rules.min_data_in_leaf) & (others >= rules.min_data_in_leaf);
        }
        let otherwise = if rules.level_limits & (some > 0) & (others > 0) { f64::NEG_INFINITY } else { too_small };
        out.scores[i] = if fits { out.scores[i] } else { otherwise };
    }
}
