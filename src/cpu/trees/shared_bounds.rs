//! Bounds, as those of [`super::score_bounds`], of the scores of candidates in a tree that several outputs share: most features of a node, or of a level,
//! are passed over by them before anything is computed in f64.

use super::bins::{BorderSums, LANES, MAX_BINS, NodeBins};
use super::lanes::SharedTree;
use super::score_bounds::ScoreBounds;
use taiga_core::tree::split::{SplitRules, Sums};

/// What an output's scores count beside those of the output that counts most, at least: what is far less may be lost in an f32.
const LEAST_WEIGHT: f64 = 1e-20;

/// By how large a share of them sums of hessians in f32 may be wrong, at most, and by how large a share of the node's those in f64.
const F32_ERROR: f32 = 1e-4;
const F64_ERROR: f32 = 1e-9;

/// What an output's bounds are computed by, in integer units of its sums.
#[derive(Clone, Copy)]
struct OutputBounds {
    /// What its squared gradients count, in units of the bounds: 1 at the most.
    weight: f32,
    l2: f32,
    /// What its hessians count where those of all outputs are added.
    hessian: f32,
}

/// What candidates' bounds are computed by.
pub struct SharedBounds {
    /// What a bound of 1 is worth.
    unit: f64,
    outputs: Vec<OutputBounds>,
    /// Whether all outputs have the same hessians, in the same unit, and the same `l2`.
    same_hessians: bool,
    /// The least hessian sum of a child, over all outputs.
    least: f32,
    /// The fewest rows of a child.
    fewest: i32,
    level_limits: bool,
}

/// Room for what is computed of a feature's candidates: the bounds at last, and before them what is summed over the outputs.
pub struct BoundRoom {
    pub bounds: [f32; MAX_BINS],
    /// Squared gradients on the right, while there are those on the left in the bounds' place.
    right: [f32; MAX_BINS],
    /// The hessians on the left and on the right.
    below: [f32; MAX_BINS],
    above: [f32; MAX_BINS],
    /// Of one output, on the left.
    gradient: [i32; MAX_BINS],
    hessian: [i32; MAX_BINS],
    /// The rows on the left; the first output's hessians where these tell whether there are any.
    count: [i32; MAX_BINS],
}

impl BoundRoom {
    pub fn new() -> BoundRoom {
        let (reals, numbers) = ([0.0; MAX_BINS], [0; MAX_BINS]);
        BoundRoom { bounds: reals, right: reals, below: reals, above: reals, gradient: numbers, hessian: numbers, count: numbers }
    }
}

impl SharedBounds {
    /// Returns how bounds are computed where they save time, which is where [`ScoreBounds`] of one output do.
    pub fn where_faster(tree: &SharedTree, rules: &SplitRules) -> Option<SharedBounds> {
        ScoreBounds::save_time().then(|| SharedBounds::new(tree, rules)).flatten()
    }

    /// Returns how bounds of a tree's scores are computed, where the numbers stay in what an f32 can hold: of statistics of 16 bits, without `l1`, and not
    /// of bodies and tails.
    pub fn new(tree: &SharedTree, rules: &SplitRules) -> Option<SharedBounds> {
        if tree.pairs > 0 || !tree.is_narrow() || tree.rules.iter().any(|rules| rules.params.l1 != 0.0) {
            return None;
        }
        let scales = || tree.quantizers.iter().map(|quantizer| quantizer.scales());
        let weights: Vec<f64> = scales().zip(&tree.rules).map(|(s, r)| r.importance * s.gradient * s.gradient / s.hessian).collect();
        let unit = weights.iter().copied().fold(0.0, f64::max);
        let outputs = scales().zip(&tree.rules).zip(&weights).map(|((scales, rules), weight)| OutputBounds {
            weight: (weight / unit) as f32,
            l2: (rules.params.l2 / scales.hessian) as f32,
            hessian: scales.hessian as f32,
        });
        let fits = unit.is_normal()
            && weights.iter().all(|weight| *weight >= LEAST_WEIGHT * unit)
            && scales().zip(&tree.rules).all(|(s, r)| r.params.l2 / s.hessian < 1e12 && (1e-20..1e20).contains(&s.hessian));
        fits.then(|| SharedBounds {
            unit,
            outputs: outputs.collect(),
            same_hessians: tree.unit,
            least: (rules.min_child_weight * tree.outputs() as f64) as f32,
            fewest: rules.min_data_in_leaf.clamp(0, i32::MAX as i64) as i32,
            level_limits: rules.level_limits,
        })
    }

    /// Returns the largest score that candidates whose largest bound, of a sum over so many nodes, is `bound` may have.
    ///
    /// An f32 is rounded by 2⁻²⁴ of it at the most: nineteen times on the way to a bound, and once for each output and each node. Twice that and more is
    /// added.
    #[inline(always)]
    pub fn largest_score(&self, bound: f32, nodes: usize) -> f64 {
        bound as f64 * (1.0 + ScoreBounds::slack(8 + self.outputs.len() + nodes)) * self.unit
    }

    /// Returns a score as a bound.
    pub fn of_score(&self, score: f64) -> f32 {
        (score / self.unit) as f32
    }

    /// Computes the bounds of the first `n` candidates of a feature whose values start at bin `first`, in a node whose outputs' sums are
    /// `totals`, with missing values on the left or on the right. One with a child that is too small has the bound `too_small`, unless
    /// [`SplitRules::level_limits`] forbid it. Returns whether there are missing values; none where the outputs' bins are not packed, and there are no bounds.
    #[inline(always)]
    pub fn fill<'b>(
        &self,
        bins: impl Fn(usize) -> NodeBins<'b>,
        totals: &[Sums],
        (first, missing_left, n): (usize, bool, usize),
        too_small: f32,
        (steps, room): (&mut BorderSums, &mut BoundRoom),
    ) -> Option<bool> {
        let counted = self.fewest > 0 || self.level_limits;
        let (mut any_missing, whole) = (false, n.next_multiple_of(LANES));
        let BoundRoom { bounds, right, below, above, gradient, hessian, count } = &mut *room;
        let (bounds, right, below, above) = (&mut bounds[..whole], &mut right[..whole], &mut below[..whole], &mut above[..whole]);
        let (gradient, hessian, count) = (&mut gradient[..whole], &mut hessian[..whole], &mut count[..whole]);
        bounds.fill(0.0);
        if self.same_hessians {
            right.fill(0.0);
        } else {
            below.fill(0.0);
            above.fill(0.0);
        }
        for (output, (total, of)) in totals.iter().zip(&self.outputs).enumerate() {
            // Outputs' histograms lie far apart.
            if output + 1 < totals.len() {
                bins(output + 1).prefetch();
            }
            let by_hessians = steps.by_hessians();
            let (packed, rows, missing) = steps.fill_packed(&bins(output), first, output == 0 && counted && !by_hessians)?;
            let (packed, rows) = (&packed[..whole], &rows[..whole]);
            any_missing |= missing != Sums::default();
            let aside = if missing_left { Sums::default() } else { missing };
            // Sums of any rows fit the halves of packed ones.
            let (g, h, g_all, h_all) = (aside.gradient as i32, aside.hessian as i32, total.gradient as i32, total.hessian as i32);
            for i in 0..whole {
                gradient[i] = ((packed[i] >> 32) as i32).wrapping_sub(g);
                hessian[i] = (packed[i] as i32).wrapping_sub(h);
            }
            if output == 0 && counted && by_hessians {
                count.copy_from_slice(hessian);
            } else if output == 0 && counted {
                for i in 0..whole {
                    count[i] = (rows[i] - aside.count) as i32;
                }
            }
            if self.same_hessians {
                for i in 0..whole {
                    let (gl, gr) = (gradient[i] as f32, g_all.wrapping_sub(gradient[i]) as f32);
                    bounds[i] += of.weight * (gl * gl);
                    right[i] += of.weight * (gr * gr);
                }
                continue;
            }
            for i in 0..whole {
                let (gl, gr) = (gradient[i] as f32, g_all.wrapping_sub(gradient[i]) as f32);
                let (hl, hr) = (hessian[i] as f32, h_all.wrapping_sub(hessian[i]) as f32);
                below[i] += of.hessian * hl;
                above[i] += of.hessian * hr;
                bounds[i] += of.weight * quotients((gl * gl, gr * gr), (hl + of.l2, hr + of.l2));
            }
        }
        if self.same_hessians {
            let (of, all) = (self.outputs[0], totals[0].hessian as i32);
            let hessians = of.hessian * self.outputs.len() as f32;
            for i in 0..whole {
                let (hl, hr) = (hessian[i] as f32, all.wrapping_sub(hessian[i]) as f32);
                (below[i], above[i]) = (hessians * hl, hessians * hr);
                bounds[i] = quotients((bounds[i], right[i]), (hl + of.l2, hr + of.l2));
            }
        }
        self.limit(room, whole, counted.then_some(totals[0].count as i32), too_small);
        Some(any_missing)
    }

    /// Gives the first `n` candidates of the room, of a node of so many rows where these count, the bound `too_small` if they leave a child too small, or none
    /// where limits forbid it; the larger of both where f32 can't tell.
    #[inline(always)]
    fn limit(&self, room: &mut BoundRoom, n: usize, rows: Option<i32>, too_small: f32) {
        let (bounds, below, above) = (&mut room.bounds[..n], &room.below[..n], &room.above[..n]);
        if let Some(rows) = rows {
            let (count, divided) = (&room.count[..n], if self.level_limits { f32::NEG_INFINITY } else { too_small });
            for i in 0..n {
                let (some, others) = (count[i], rows.wrapping_sub(count[i]));
                let otherwise = if (some > 0) & (others > 0) { divided } else { too_small };
                let bound = self.limited(bounds[i], (below[i], above[i]), otherwise);
                bounds[i] = if (some >= self.fewest) & (others >= self.fewest) { bound } else { otherwise };
            }
            return;
        }
        for i in 0..n {
            bounds[i] = self.limited(bounds[i], (below[i], above[i]), too_small);
        }
    }

    /// Returns the bound of a candidate with these hessians on either side: `otherwise` where one is too small, the larger where it may be.
    #[inline(always)]
    fn limited(&self, bound: f32, (below, above): (f32, f32), otherwise: f32) -> f32 {
        let (all, less) = (below + above, if below < above { below } else { above });
        let may_be_enough = less > self.least * (1.0 - F32_ERROR) - all * F64_ERROR;
        let is_enough = less > self.least * (1.0 + F32_ERROR) + all * F32_ERROR;
        let larger = if bound > otherwise { bound } else { otherwise };
        let unsure = if may_be_enough & (less > 0.0) { larger } else { otherwise };
        if is_enough { bound } else { unsure }
    }
}

/// Returns the sum of two squares over what they are divided by; a side without any curvature has none.
#[inline(always)]
fn quotients((a, b): (f32, f32), (dl, dr): (f32, f32)) -> f32 {
    let (a, dl) = if dl > 0.0 { (a, dl) } else { (0.0, 1.0) };
    let (b, dr) = if dr > 0.0 { (b, dr) } else { (0.0, 1.0) };
    (a * dr + b * dl) / (dl * dr)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trees::bins::Counts;
    use crate::trees::gradient_quantizer::{GradientQuantizer, Magnitudes};
    use crate::trees::score_bounds::largest;
    use crate::trees::split_scores::tests::without_limits;
    use taiga_core::learners::boosting::steps::OutputRules;
    use taiga_core::numerics::random::{Purpose, Random};
    use taiga_core::tree::SplitParams;
    use taiga_core::tree::split::Scales;

    /// The score of a candidate by definition: the sum of both children's, or `too_small`, or none where limits forbid it.
    fn score(tree: &SharedTree, rules: &SplitRules, left: &[Sums], totals: &[Sums], too_small: f64) -> f64 {
        let right: Vec<Sums> = left.iter().zip(totals).map(|(left, total)| *total - *left).collect();
        let hessians = |sums: &[Sums]| sums.iter().zip(&tree.quantizers).map(|(s, q)| s.hessian as f64 * q.scales().hessian).sum::<f64>();
        let least = rules.min_child_weight * totals.len() as f64;
        let enough = |sums: &[Sums]| hessians(sums) > 0.0 && hessians(sums) >= least && sums[0].count >= rules.min_data_in_leaf;
        if enough(left) && enough(&right) {
            return tree.score(left, |_| 0.0) + tree.score(&right, |_| 0.0);
        }
        if rules.level_limits && left[0].count > 0 && right[0].count > 0 { f64::NEG_INFINITY } else { too_small }
    }

    /// Proves that no score is above its bound, nor far below it unless a child is nearly too small: of one to ten outputs, with hessians of their own and
    /// hessians of 1, under all limits, with children without rows, missing values on either side, and `l2` from nothing to more than any hessian.
    #[test]
    fn scores_of_several_outputs_lie_just_below_their_bounds() {
        let random = Random::new(11, Purpose::RowSample, 0);
        let mut drawn = 0;
        let mut below = |n: u64| {
            drawn += 1;
            (random.u64(drawn) % n) as i64
        };
        let (mut compared, mut close) = (0, 0);
        for case in 0..if cfg!(miri) { 10 } else { 400 } {
            let (outputs, unit) = ([1, 2, 3, 10][below(4) as usize], below(2) == 1);
            let params = SplitParams {
                l2: [0.0, 0.5, 30.0, 1e5][below(4) as usize],
                min_child_weight: [0.0, 0.5, 20.0, 500.0][below(4) as usize],
                min_data_in_leaf: [0, 0, 1, 40][below(4) as usize],
                ..without_limits()
            };
            let rules =
                SplitRules { scales: Scales { gradient: 1.0, hessian: 1.0 }, params, level_limits: below(2) == 1, monotone: vec![] };
            let counted = rules.min_data_in_leaf > 0 || rules.level_limits;
            let magnitudes: Vec<Magnitudes> = (0..outputs)
                .map(|_| {
                    let mut magnitudes = Magnitudes::of_none(true);
                    let (g, h) = ([1e-3, 1.0, 77.0][below(3) as usize], [0.25, 1.0, 9.0][below(3) as usize]);
                    magnitudes.add_batch(&[g, -g], &[h, h]);
                    magnitudes
                })
                .collect();
            let quantizers = GradientQuantizer::alike(&magnitudes, 2, unit, counted);
            let own: Vec<OutputRules> = quantizers
                .iter()
                .map(|_| {
                    let l2 = if unit { params.l2 } else { params.l2 * [1.0, 0.1][below(2) as usize] };
                    OutputRules { params: SplitParams { l2, ..params }, importance: [1.0, 0.01, 1e6][below(3) as usize] }
                })
                .collect();
            let tree = SharedTree::new(0, quantizers, &own, unit);
            let bounds = SharedBounds::new(&tree, &rules).unwrap();

            let n = 2 + below(254) as usize;
            let rows: Vec<i64> = (0..n).map(|_| if below(3) > 0 { below(100) } else { 0 }).collect();
            let each: Vec<(Vec<u64>, Vec<Sums>)> = (0..outputs)
                .map(|_| {
                    let of_bin = |rows: &i64| {
                        let gradient = if *rows > 0 { below(60_000 * *rows as u64) - 30_000 * rows } else { 0 };
                        let hessian = if unit { *rows } else { below(65_000 * *rows as u64 + 1) };
                        Sums { gradient, hessian, count: if counted { *rows } else { 0 } }
                    };
                    let sums: Vec<Sums> = rows.iter().map(of_bin).collect();
                    (sums.iter().map(|s| ((s.gradient << 32) + s.hessian) as u64).collect(), sums)
                })
                .collect();
            let counts = match (counted, unit) {
                (false, _) => Counts::None,
                (true, true) => Counts::Hessians,
                (true, false) => Counts::Rows,
            };
            let own_counts: &[i64] = if counts == Counts::Rows { &rows } else { &[] };
            let bins = |output: usize| NodeBins::Packed { bins: &each[output].0, count: own_counts, counts };
            let total_of = |range: std::ops::Range<usize>| -> Vec<Sums> {
                each.iter().map(|(_, sums)| sums[range.clone()].iter().fold(Sums::default(), |a, b| a + *b)).collect()
            };
            let totals = total_of(0..n);
            let first = below(2) as usize;
            let too_small = [f64::NEG_INFINITY, tree.score(&totals, |_| 0.0)][below(2) as usize];
            for missing_left in [true, false] {
                let candidates = n - first;
                let (mut steps, mut room) = (BorderSums::new(counts), BoundRoom::new());
                let of = (first, missing_left, candidates);
                let any_missing = bounds.fill(bins, &totals, of, bounds.of_score(too_small), (&mut steps, &mut room));
                assert_eq!(any_missing, Some(first > 0 && total_of(0..first).iter().any(|sums| *sums != Sums::default())));
                let mut most = f64::NEG_INFINITY;
                for (i, bound) in room.bounds[..candidates].iter().enumerate() {
                    let left = total_of(if missing_left { 0 } else { first }..first + i + 1);
                    let score = score(&tree, &rules, &left, &totals, too_small);
                    most = most.max(score);
                    let bound = *bound;
                    assert!(score <= bounds.largest_score(bound, 1), "case {case}, border {i}: {score} above {bound}; {rules:?}");
                    compared += 1;
                    // By a share of 10⁻³ more there is no doubt whether a child is large enough.
                    let doubtful = (score <= too_small) | (score == f64::NEG_INFINITY);
                    if !doubtful && score > 0.0 {
                        assert!(
                            bounds.largest_score(bound, 1) <= score * (1.0 + 1e-4),
                            "case {case}, border {i}: {score} far below {bound}"
                        );
                        close += 1;
                    }
                }
                assert!(most <= bounds.largest_score(largest(&room.bounds[..candidates]), 1));
            }
        }
        assert!(cfg!(miri) || (compared > 50_000 && close > 10_000), "{compared} compared, {close} of them closely");
    }

    /// Proves that what bounds can't be computed of is said: `l1`, wide statistics, outputs of which one counts next to nothing, and bins that are not packed.
    #[test]
    fn others_have_no_bounds() {
        let params = SplitParams { l2: 1.0, ..without_limits() };
        let rules = SplitRules { scales: Scales { gradient: 1.0, hessian: 1.0 }, params, level_limits: false, monotone: vec![] };
        let tree = |params: SplitParams, importance: f64, largest: f32| {
            let mut magnitudes = Magnitudes::of_none(true);
            let mut gradients = vec![1.0; 5000];
            gradients[7] = largest;
            magnitudes.add_batch(&gradients, &[1.0; 5000]);
            let quantizers = GradientQuantizer::alike(&[magnitudes.clone(), magnitudes], 5000, true, false);
            let rules = [1.0, importance].map(|importance| OutputRules { params, importance });
            SharedTree::new(0, quantizers, &rules, true)
        };
        let bounds = SharedBounds::new(&tree(params, 1.0, 1.0), &rules).unwrap();
        assert!(SharedBounds::new(&tree(SplitParams { l1: 0.1, ..params }, 1.0, 1.0), &rules).is_none());
        assert!(SharedBounds::new(&tree(params, 1e-30, 1.0), &rules).is_none());
        assert!(SharedBounds::new(&tree(params, 1.0, 1e9), &rules).is_none());
        let wide = [0i64; 4];
        let bins = |_| NodeBins::Wide { gradient: &wide, hessian: &wide, count: &[] };
        let (mut steps, mut room) = (BorderSums::new(Counts::None), BoundRoom::new());
        assert!(bounds.fill(bins, &[Sums::default(); 2], (0, true, 4), 0.0, (&mut steps, &mut room)).is_none());
    }
}
