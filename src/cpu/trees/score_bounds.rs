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
    /// Returns how bounds are computed under these rules where they save time.
    pub fn where_faster(rules: &SplitRules) -> Option<ScoreBounds> {
        ScoreBounds::save_time().then(|| ScoreBounds::new(rules)).flatten()
    }

    /// Returns whether bounds save time on this processor: not with AVX-512, which makes numbers of integers in vectors, so that the
    /// scores themselves take no longer.
    pub fn save_time() -> bool {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512dq") {
            return false;
        }
        true
    }

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
    pub const fn slack(nodes: usize) -> f64 {
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

    /// Returns the score that a bound of 1 stands for.
    pub fn unit(&self) -> f64 {
        self.unit
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
        let counts = (self.fewest > 0 || self.level_limits) && !steps.by_hessians();
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

    /// Computes the bounds of candidates that leave packed sums of `left` each in a node of its own, whose sums are `totals`: gradients and hessians, which
    /// count rows or tell that there are some. One with a child that is too small has the bound of `too_small`, unless
    /// [`SplitRules::level_limits`] forbid it.
    #[inline(always)]
    pub fn fill_each(&self, left: &[u64], totals: (&[i32], &[i32]), too_small: &[f32], out: &mut [f32]) {
        let n = out.len();
        let (left, gradient, hessian, too_small) = (&left[..n], &totals.0[..n], &totals.1[..n], &too_small[..n]);
        for i in 0..n {
            let (gl, hl) = ((left[i] >> 32) as i32, left[i] as i32);
            let left = Parts { gradient: gl, hessian: hl, count: hl };
            let total = Parts { gradient: gradient[i], hessian: hessian[i], count: hessian[i] };
            let divided = if self.level_limits { f32::NEG_INFINITY } else { too_small[i] };
            out[i] = self.bound(left, total, [too_small[i], divided]);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trees::bins::{Counts, NodeBins};
    use crate::trees::split_scores::tests::without_limits;
    use crate::trees::split_scores::{Context, score};
    use taiga_core::numerics::random::{Purpose, Random};
    use taiga_core::tree::SplitParams;
    use taiga_core::tree::split::{Inherited, Scales};

    /// Proves that no score is above its bound, that it is not far below where bounds are tight, and that packed sums have the bounds of others: under all
    /// rules, with children without rows, sums next to the largest ones that fit, and `l2` from nothing to more than any hessian.
    #[test]
    fn scores_lie_just_below_their_bounds() {
        let random = Random::new(11, Purpose::RowSample, 0);
        let mut drawn = 0;
        let mut below = |n: u64| {
            drawn += 1;
            (random.u64(drawn) % n) as i64
        };
        let (mut compared, mut close) = (0, 0);
        for case in 0..600 {
            let rules = SplitRules {
                scales: Scales { gradient: [0.25, 2f64.powi(-60)][below(2) as usize], hessian: [0.125, 2f64.powi(40)][below(2) as usize] },
                params: SplitParams {
                    l1: [0.0, 0.0, 1.5][below(3) as usize],
                    l2: [0.0, 1e-30, 0.5, 1e9][below(4) as usize],
                    min_child_weight: [0.0, 2.0][below(2) as usize],
                    min_data_in_leaf: [0, 3][below(2) as usize],
                    max_delta_step: [f64::INFINITY, f64::INFINITY, 0.5][below(3) as usize],
                    ..without_limits()
                },
                level_limits: below(3) == 0,
                monotone: vec![],
            };
            let bounds = ScoreBounds::new(&rules).unwrap();
            let counts = [Counts::Hessians, Counts::Rows][below(2) as usize];
            // Gradients of such a size that the sums of 255 bins stay just below the limit.
            let most = [20, 4_000_000][below(2) as usize];
            let n = 1 + below(255) as usize;
            let (mut gradient, mut hessian, mut count) = (vec![], vec![], vec![]);
            for _ in 0..n {
                let any = below(3) > 0;
                gradient.push(if any { below(2 * most as u64) - most } else { 0 });
                let h = if any { below(most as u64) } else { 0 };
                hessian.push(h);
                count.push(if counts == Counts::Hessians { h } else { any as i64 });
            }
            let packed: Vec<u64> = gradient.iter().zip(&hessian).map(|(g, h)| ((g << 32) + h) as u64).collect();
            let wide = NodeBins::Wide { gradient: &gradient, hessian: &hessian, count: &count };
            let own: &[i64] = if counts == Counts::Rows { &count } else { &[] };
            let packed = NodeBins::Packed { bins: &packed, count: own, counts };
            let total = wide.total(0..n);
            let first = (below(2) as usize).min(n - 1);
            let dense = [1, 1000][below(2) as usize];
            let (mut steps, mut of_packed) = (BorderSums::new(counts), BorderSums::new(counts));
            steps.fill(&wide, first, dense);
            of_packed.fill(&packed, first, dense);
            assert_eq!(steps.len, of_packed.len);
            let too_small = [0.0, f64::NEG_INFINITY][below(2) as usize];
            let c = Context { rules: &rules, total, inherited: &Inherited::NOTHING, direction: 0, too_small };
            for aside in [Sums::default(), steps.missing] {
                let (mut out, mut out_of_packed) = ([0.0; MAX_BINS], [0.0; MAX_BINS]);
                assert!(bounds.fill(&steps, aside, total, bounds.of_score(too_small), &mut out, steps.len));
                assert!(bounds.fill(&of_packed, aside, total, bounds.of_score(too_small), &mut out_of_packed, steps.len));
                assert_eq!(out[..steps.len], out_of_packed[..steps.len], "case {case}");
                if counts == Counts::Hessians {
                    // The same where each candidate stands in a node of its own.
                    let left = |i: usize| ((steps.at(i).gradient - aside.gradient) << 32) + steps.at(i).hessian - aside.hessian;
                    let left: Vec<u64> = (0..steps.len).map(|i| left(i) as u64).collect();
                    let totals = [total.gradient, total.hessian].map(|total| vec![total as i32; left.len()]);
                    let (too_small, mut each) = (vec![bounds.of_score(too_small); left.len()], vec![0.0; left.len()]);
                    bounds.fill_each(&left, (&totals[0], &totals[1]), &too_small, &mut each);
                    assert_eq!(each, out[..steps.len], "case {case}");
                }
                for (i, bound) in out[..steps.len].iter().enumerate() {
                    assert_eq!(steps.at(i), of_packed.at(i));
                    let score = score(steps.at(i) - aside, &c);
                    assert!(score <= bounds.largest_score(*bound, 1), "case {case}, step {i}: {score} above {bound}; {rules:?}");
                    compared += 1;
                    if bounds.tight && score > 0.0 {
                        let least = *bound as f64 * bounds.unit * (1.0 - ScoreBounds::slack(1));
                        assert!(score >= least, "case {case}, step {i}: {score} below {least}; {rules:?}");
                        close += 1;
                    }
                }
                let largest = largest(&out[..steps.len]);
                assert_eq!(largest, out[..steps.len].iter().copied().fold(f32::NEG_INFINITY, f32::max));
                let reaching = Reaching::new(&out[..steps.len], largest);
                let naive: Vec<usize> = (0..steps.len).filter(|i| out[*i] >= largest).collect();
                assert_eq!((reaching.len(), reaching.collect::<Vec<usize>>()), (naive.len(), naive));
            }
        }
        assert!(compared > 50_000 && close > 10_000, "{compared} compared, {close} of them closely");
    }

    /// Proves that sums that do not fit are refused, not cut.
    #[test]
    fn larger_sums_have_no_bounds() {
        let params = without_limits();
        let rules = SplitRules { scales: Scales { gradient: 1.0, hessian: 1.0 }, params, level_limits: false, monotone: vec![] };
        let bounds = ScoreBounds::new(&rules).unwrap();
        for (large, fits) in
            [([MOST - 1, 1 - MOST], true), ([MOST, -MOST], false), ([1 << 40, -(1 << 40)], false), ([i64::MAX / 2, -(i64::MAX / 2)], false)]
        {
            let gradient = [large[0], large[1], 5];
            let wide = NodeBins::Wide { gradient: &gradient, hessian: &[1, 1, 1], count: &[] };
            let mut steps = BorderSums::new(Counts::None);
            steps.fill(&wide, 0, 1);
            let mut out = [0.0; MAX_BINS];
            assert_eq!(bounds.fill(&steps, Sums::default(), wide.total(0..3), 0.0, &mut out, steps.len), fits, "{large:?}");
        }
        let heavy = SplitParams { l2: 1e13, ..params };
        assert!(ScoreBounds::new(&SplitRules { params: heavy, ..rules }).is_none());
    }
}
