//! Bounds of candidates' scores from above, in f32, eight or sixteen at a time: all but a few candidates of a node, or of a level, are passed over by
//! them before anything is divided in f64. What decides are the scores of [`super::split_scores`] alone.
//!
//! A score is a sum of two quotients of numbers that are not negative, so what rounding changes is a share of it, known beforehand, and the scores lie
//! between the bounds and a little less ([`ScoreBounds::slack`]).

use super::bins::{BorderSums, LANES, MAX_BINS};
use taiga_core::tree::split::{SplitRules, Sums};

/// Sums below this, either side of 0, and the differences of two of them, fit an i32.
const MOST: i64 = 1 << 30;

/// What candidates' bounds are computed by, in integer units of a tree's sums.
#[derive(Clone, Copy, Debug)]
pub struct ScoreBounds {
    /// What a bound of 1 is worth: a power of two.
    unit: f64,
    l2: f32,
    /// The least hessian sum of a child.
    least: i32,
    /// The fewest rows of a child.
    fewest: i32,
    level_limits: bool,
    /// Whether bounds are scores but for rounding.
    pub tight: bool,
}

/// The sums of a node, or less its missing values, that candidates divide, as far as bounds need them.
#[derive(Clone, Copy)]
struct Parts {
    gradient: i32,
    hessian: i32,
    count: i32,
}

impl Parts {
    fn new(sums: Sums) -> Option<Parts> {
        let fits = sums.gradient.abs() < MOST && sums.hessian < MOST && sums.count < MOST;
        fits.then_some(Parts { gradient: sums.gradient as i32, hessian: sums.hessian as i32, count: sums.count as i32 })
    }

    /// Returns what these leave of larger sums; what stands behind the last step may be of any size.
    #[inline(always)]
    fn out_of(self, gradient: i64, hessian: i64, count: i64) -> Parts {
        Parts {
            gradient: (gradient as i32).wrapping_sub(self.gradient),
            hessian: (hessian as i32).wrapping_sub(self.hessian),
            count: (count as i32).wrapping_sub(self.count),
        }
    }
}

impl ScoreBounds {
    /// Returns how bounds are computed under these rules, unless the numbers may leave what an f32 can hold.
    pub fn new(rules: &SplitRules) -> Option<ScoreBounds> {
        let (scales, limit) = (rules.scales, |least: f64| least.ceil().clamp(0.0, i32::MAX as f64) as i32);
        let (l2, unit) = (rules.l2 / scales.hessian, scales.gradient * scales.gradient / scales.hessian);
        (l2 < 1e12 && unit.is_normal()).then(|| ScoreBounds {
            unit,
            l2: l2 as f32,
            least: limit(rules.min_child_weight / scales.hessian).max(1),
            fewest: limit(rules.min_data_in_leaf as f64),
            level_limits: rules.level_limits,
            tight: !rules.scores_by_values() && rules.l1 == 0.0,
        })
    }

    /// Returns the share of a bound, of a sum over so many nodes, that it may be larger than the score.
    ///
    /// An f32 is rounded by 2⁻²⁴ of it at the most: thirteen times on the way to a bound, and once a node that is added. Twice that serves both
    /// directions and the f64 score's own rounding.
    pub fn slack(nodes: usize) -> f64 {
        (16 + nodes) as f64 / (1 << 23) as f64
    }

    /// Returns the largest score that candidates whose largest bound, of a sum over so many nodes, is `bound` may have.
    #[inline(always)]
    pub fn largest_score(&self, bound: f32, nodes: usize) -> f64 {
        bound as f64 * (1.0 + ScoreBounds::slack(nodes)) * self.unit
    }

    /// Returns a bound that every candidate of the largest score reaches, where the largest bound is `bound`.
    #[inline(always)]
    pub fn reached(bound: f32, nodes: usize) -> f32 {
        bound * (1.0 - 2.0 * ScoreBounds::slack(nodes)) as f32
    }

    /// Returns a score as a bound.
    pub fn of_score(&self, score: f64) -> f32 {
        (score / self.unit) as f32
    }

    /// Computes the bounds of the candidates that put the bins up to each of the first `n` steps, less `missing`, to the left of a node
    /// whose sums are `total`. One with a child that is too small has the bound `too_small`, unless [`SplitRules::level_limits`] forbid it. Returns
    /// whether all sums are small enough: else what is in `out` has no meaning, nor has what follows `n`.
    #[inline(always)]
    pub fn fill(&self, steps: &BorderSums, missing: Sums, total: Sums, too_small: f32, out: &mut [f32; MAX_BINS], n: usize) -> bool {
        let (Some(missing), Some(total)) = (Parts::new(missing), Parts::new(total)) else { return false };
        // Hessians and counts only grow from step to step, up to the total.
        let mut all = 0;
        for gradient in &steps.gradient[..n] {
            all |= gradient.wrapping_add(MOST) as u64;
        }
        if all >= 2 * MOST as u64 {
            return false;
        }
        let n = n.next_multiple_of(LANES);
        let (gradient, hessian, out) = (&steps.gradient[..n], &steps.hessian[..n], &mut out[..n]);
        let divided = if self.level_limits { f32::NEG_INFINITY } else { too_small };
        let too_small = [too_small, divided];
        if self.fewest == 0 && (!self.level_limits || steps.by_hessians) {
            for i in 0..n {
                let left = missing.out_of(gradient[i], hessian[i], 0);
                out[i] = self.bound(left, total, (left.hessian, total.hessian.wrapping_sub(left.hessian)), too_small);
            }
        } else {
            let count = &steps.count[..n];
            for i in 0..n {
                let left = missing.out_of(gradient[i], hessian[i], count[i]);
                out[i] = self.bound(left, total, (left.count, total.count.wrapping_sub(left.count)), too_small);
            }
        }
        true
    }

    /// Computes a candidate's bound; `rows`: how many each child has, or something that is 0 where it has none.
    #[inline(always)]
    fn bound(&self, left: Parts, total: Parts, rows: (i32, i32), too_small: [f32; 2]) -> f32 {
        let (gl, hl) = (left.gradient, left.hessian);
        let (gr, hr) = (total.gradient.wrapping_sub(gl), total.hessian.wrapping_sub(hl));
        let enough = (hl >= self.least) & (hr >= self.least) & (self.fewest == 0 || (rows.0 >= self.fewest) & (rows.1 >= self.fewest));
        let otherwise = if (rows.0 > 0) & (rows.1 > 0) { too_small[1] } else { too_small[0] };
        let (gl, gr, dl, dr) = (gl as f32, gr as f32, hl as f32 + self.l2, hr as f32 + self.l2);
        let bound = (gl * gl * dr + gr * gr * dl) / (dl * dr);
        if enough { bound } else { otherwise }
    }
}

/// Returns the largest bound.
#[inline(always)]
pub fn largest(bounds: &[f32]) -> f32 {
    const LANES: usize = 32;
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = bounds.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] = if chunk[i] > lanes[i] { chunk[i] } else { lanes[i] };
        }
    }
    lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |a, b| if *b > a { *b } else { a })
}

/// The places of the bounds that reach one, ascending.
#[derive(Clone, Copy)]
pub struct Reaching([u64; MAX_BINS.div_ceil(64)]);

impl Reaching {
    #[inline(always)]
    pub fn new(bounds: &[f32], least: f32) -> Reaching {
        let mut bits = [0; MAX_BINS.div_ceil(64)];
        for (bits, bounds) in bits.iter_mut().zip(bounds.chunks(64)) {
            for (i, bounds) in bounds.chunks(8).enumerate() {
                let mut byte = 0u8;
                for (j, bound) in bounds.iter().enumerate() {
                    byte |= ((*bound >= least) as u8) << j;
                }
                *bits |= (byte as u64) << (8 * i);
            }
        }
        Reaching(bits)
    }

    /// Returns how many there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.0.iter().map(|bits| bits.count_ones() as usize).sum()
    }
}

impl Iterator for Reaching {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        for (word, bits) in self.0.iter_mut().enumerate() {
            if *bits != 0 {
                let place = 64 * word + bits.trailing_zeros() as usize;
                *bits &= *bits - 1;
                return Some(place);
            }
        }
        None
    }
}
