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
#[derive(Clone, Copy, Default)]
struct Parts {
    gradient: i32,
    hessian: i32,
    count: i32,
}

impl Parts {
    /// Returns the parts of some sums, with the hessian for the count unless there are `counts`, if they fit.
    fn new(sums: Sums, counts: bool) -> Option<Parts> {
        let fits = sums.gradient.abs() < MOST && sums.hessian < MOST && sums.count < MOST;
        let count = if counts { sums.count } else { sums.hessian };
        fits.then_some(Parts { gradient: sums.gradient as i32, hessian: sums.hessian as i32, count: count as i32 })
    }

    /// Returns what these leave of larger sums. What stands behind the last step may be of any size.
    #[inline(always)]
    fn out_of(self, gradient: i64, hessian: i64, count: i64) -> Parts {
        Parts { gradient: gradient as i32, hessian: hessian as i32, count: count as i32 }.less(self)
    }

    #[inline(always)]
    fn less(self, other: Parts) -> Parts {
        Parts {
            gradient: self.gradient.wrapping_sub(other.gradient),
            hessian: self.hessian.wrapping_sub(other.hessian),
            count: self.count.wrapping_sub(other.count),
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
        let counts = self.fewest > 0 || (self.level_limits && !steps.by_hessians());
        let (Some(missing), Some(total)) = (Parts::new(missing, counts), Parts::new(total, counts)) else { return false };
        let divided = if self.level_limits { f32::NEG_INFINITY } else { too_small };
        let too_small = [too_small, divided];
        let whole = n.next_multiple_of(LANES);
        let (count, out) = (&steps.count[..whole], &mut out[..whole]);
        if let Some(packed) = steps.packed() {
            // Sums of any rows fit the halves of packed ones.
            let packed = &packed[..whole];
            for ((packed, count), out) in packed.chunks_exact(LANES).zip(count.chunks_exact(LANES)).zip(out.chunks_exact_mut(LANES)) {
                let mut left = [Parts::default(); LANES];
                for i in 0..LANES {
                    left[i] = missing.out_of(packed[i] >> 32, packed[i], if counts { count[i] } else { packed[i] });
                }
                for i in 0..LANES {
                    out[i] = self.bound(left[i], total, too_small);
                }
            }
            return true;
        }
        // Hessians and counts only grow from step to step, up to the total.
        let mut all = 0;
        for gradient in &steps.gradient[..n] {
            all |= gradient.wrapping_add(MOST) as u64;
        }
        if all >= 2 * MOST as u64 {
            return false;
        }
        let (gradient, hessian) = (&steps.gradient[..whole], &steps.hessian[..whole]);
        let count = if counts { count } else { hessian };
        for i in 0..whole {
            out[i] = self.bound(missing.out_of(gradient[i], hessian[i], count[i]), total, too_small);
        }
        true
    }

    /// Computes the bound of a candidate with these sums on the left. Where rows need not be counted, their number may be anything that is 0
    /// where there are none.
    #[inline(always)]
    fn bound(&self, left: Parts, total: Parts, too_small: [f32; 2]) -> f32 {
        let right = total.less(left);
        let ((gl, hl), (gr, hr)) = ((left.gradient, left.hessian), (right.gradient, right.hessian));
        let enough = (hl >= self.least) & (hr >= self.least) & (left.count >= self.fewest) & (right.count >= self.fewest);
        let otherwise = if (left.count > 0) & (right.count > 0) { too_small[1] } else { too_small[0] };
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
