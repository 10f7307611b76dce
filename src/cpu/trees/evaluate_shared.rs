//! The search for the best split of each node, or of a level, of a tree that several outputs share: a split's score is the sum of the
//! outputs' scores (Zhang and Jung, "GBDT-MO: Gradient-boosted decision trees for multiple outputs", 2020).

use super::bins::{BorderSums, LANES, MAX_BINS, NodeBins};
use super::category_subsets::best_shared_subset;
use super::evaluate_splits::{FoundSplit, Worth, best_of, better};
use super::feature_share::{FeatureShare, Merge};
use super::lanes::SharedTree;
use super::score_bounds;
use super::shared_bounds::{BoundRoom, SharedBounds};
use super::split_scores::{first_largest, largest};
use multiversion::multiversion;
use taiga_core::learners::boosting::steps::OutputRules;
use taiga_core::quantize::CodedFeature;
use taiga_core::tree::split::{Scales, SplitRules, Sums, soft_threshold};
use taiga_core::tree::steps::{Candidate, SearchNode};

/// What a search of shared trees reads beside the histograms.
pub struct SharedSearch<'a> {
    pub merge: &'a Merge<'a>,
    pub nodes: &'a [SearchNode],
    /// Where the histograms of each node begin: one an output.
    pub slots: &'a [usize],
    pub features: &'a [CodedFeature],
    pub rules: &'a SplitRules,
    pub tree: &'a SharedTree,
}

/// The scores of a feature's candidates in a node, and what decides whether they are allowed.
struct Candidates {
    scores: [f64; MAX_BINS],
    /// Where all hessians are 1, of the right side what `scores` are of the left until [`Candidates::finish_unit`].
    right: [f64; MAX_BINS],
    /// The sum over the outputs of the hessians on the left.
    left: [f64; MAX_BINS],
    /// The rows on the left.
    count: [i64; MAX_BINS],
}

impl Candidates {
    fn new() -> Candidates {
        Candidates { scores: [0.0; MAX_BINS], right: [0.0; MAX_BINS], left: [0.0; MAX_BINS], count: [0; MAX_BINS] }
    }

    fn clear(&mut self, n: usize, unit: bool) {
        self.scores[..n].fill(0.0);
        // What is noted of hessians of 1 is written, not added.
        let other = if unit { &mut self.right } else { &mut self.left };
        other[..n].fill(0.0);
    }

    /// Notes the rows on the left, which are counted once for all outputs.
    #[inline(always)]
    fn note_counts(&mut self, steps: &BorderSums, missing: Sums, n: usize) {
        for (rows, count) in self.count[..n].iter_mut().zip(&steps.count[..n]) {
            *rows = count - missing.count;
        }
    }

    /// Notes the hessians on the left, of which each of `outputs` has those of `steps`.
    #[inline(always)]
    fn note_unit<const NARROW: bool>(&mut self, steps: &BorderSums, missing: Sums, scale: f64, n: usize) {
        for (left, hessian) in self.left[..n].iter_mut().zip(&steps.hessian[..n]) {
            *left = real::<NARROW>(hessian - missing.hessian) * scale;
        }
    }

    /// Turns the sums of the sides' squares into scores, where each output has the hessians that were noted and `total` in all: one division
    /// for all of them.
    #[inline(always)]
    fn finish_unit(&mut self, total: f64, l2: f64, outputs: usize, n: usize) {
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
fn add_pair_scores<const NARROW: bool>(
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
fn add_scores<const NARROW: bool, const L1: bool>(
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
fn add_squares<const NARROW: bool, const L1: bool>(
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
fn limit(out: &mut Candidates, n: usize, total: (f64, i64), outputs: usize, rules: &SplitRules, too_small: f64) {
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

/// Returns the score of the one border that is drawn, if it is a candidate, and the border.
#[inline(always)]
fn of_drawn(scores: &[f64], border: usize) -> (f64, usize) {
    (scores.get(border).copied().unwrap_or(f64::NEG_INFINITY), border)
}

/// What is scored: candidates of a feature in a node.
#[derive(Clone, Copy)]
struct Scored<'a> {
    share: &'a FeatureShare,
    /// The feature's place in the share.
    place: usize,
    /// How many of its candidates.
    candidates: usize,
    /// Where the node's histograms begin: one an output.
    slot: usize,
    /// The sums of each output over all rows of the node.
    totals: &'a [Sums],
    missing_left: bool,
    /// The score of candidates with a child that is too small.
    too_small: f64,
}

impl SharedSearch<'_> {
    fn scales(&self, output: usize) -> Scales {
        self.tree.quantizers[output].scales()
    }

    /// Returns a node's score, from the sums of each output.
    fn node_score(&self, sums: &[Sums]) -> f64 {
        self.tree.score(sums, |_| 0.0)
    }

    fn allows(&self, node: &SearchNode, feature: usize) -> bool {
        node.features.as_ref().is_none_or(|allowed| allowed.binary_search(&(feature as u32)).is_ok())
    }

    /// Returns the sums of each output over all rows of each node: `[node][output]`.
    fn totals(&self, share: &FeatureShare) -> Vec<Vec<Sums>> {
        let of_node = |slot: &usize| (0..self.tree.outputs()).map(|k| share.node_sums(slot + k).unwrap_or_default()).collect();
        self.slots.iter().map(of_node).collect()
    }

    /// Scores candidates, and returns whether the node has missing values of the feature.
    #[inline(always)]
    fn score(&self, scored: Scored<'_>, steps: &mut BorderSums, out: &mut Candidates) -> bool {
        match (self.tree.pairs > 0, self.tree.is_narrow()) {
            (true, true) => self.score_by_pairs::<true>(scored, steps, out),
            (true, false) => self.score_by_pairs::<false>(scored, steps, out),
            (false, true) => self.score_by_outputs::<true>(scored, steps, out),
            (false, false) => self.score_by_outputs::<false>(scored, steps, out),
        }
    }

    /// Scores candidates as [`SharedSearch::score`] does, by the sums of each output. `NARROW`: see [`real`].
    #[inline(always)]
    fn score_by_outputs<const NARROW: bool>(&self, scored: Scored<'_>, steps: &mut BorderSums, out: &mut Candidates) -> bool {
        let Scored { share, place, candidates: n, slot, totals, missing_left, too_small } = scored;
        let first = self.features[share.features[place]].first();
        let (mut any_missing, mut hessians) = (false, 0.0);
        out.clear(n.next_multiple_of(LANES), self.tree.unit);
        for (output, total) in totals.iter().enumerate() {
            // Where all hessians are 1, those of the first output are those of all.
            steps.fill_every(&share.slot_bins(slot + output, place), first, self.tree.unit && output > 0);
            any_missing |= steps.missing != Sums::default();
            let aside = if missing_left { Sums::default() } else { steps.missing };
            let scales = self.scales(output);
            let rules = (scales, &self.tree.rules[output]);
            hessians += total.hessian as f64 * scales.hessian;
            if output == 0 {
                out.note_counts(steps, aside, n);
                if self.tree.unit {
                    out.note_unit::<NARROW>(steps, aside, scales.hessian, n);
                }
            }
            match (self.tree.unit, rules.1.params.l1 > 0.0) {
                (true, false) => add_squares::<NARROW, false>(steps, aside, *total, rules, out, n),
                (true, true) => add_squares::<NARROW, true>(steps, aside, *total, rules, out, n),
                (false, false) => add_scores::<NARROW, false>(steps, aside, *total, rules, out, n),
                (false, true) => add_scores::<NARROW, true>(steps, aside, *total, rules, out, n),
            }
        }
        if self.tree.unit {
            let total = totals[0].hessian as f64 * self.scales(0).hessian;
            out.finish_unit(total, self.tree.rules[0].params.l2, totals.len(), n);
        }
        limit(out, n, (hessians, totals[0].count), totals.len(), self.rules, too_small);
        any_missing
    }

    /// Scores candidates as [`SharedSearch::score`] does, by bodies and their tails.
    #[inline(always)]
    fn score_by_pairs<const NARROW: bool>(&self, scored: Scored<'_>, steps: &mut BorderSums, out: &mut Candidates) -> bool {
        let Scored { share, place, candidates: n, slot, totals, missing_left, too_small } = scored;
        let first = self.features[share.features[place]].first();
        let (mut any_missing, mut hessians, mut tail) = (false, 0.0, BorderSums::new(share.counts));
        out.clear(n.next_multiple_of(LANES), false);
        for of_body in (0..totals.len()).step_by(2) {
            steps.fill_every(&share.slot_bins(slot + of_body, place), first, false);
            tail.fill_every(&share.slot_bins(slot + of_body + 1, place), first, false);
            let missing = [steps.missing, tail.missing];
            any_missing |= missing.iter().any(|sums| *sums != Sums::default());
            let aside = if missing_left { [Sums::default(); 2] } else { missing };
            let scales = [self.scales(of_body), self.scales(of_body + 1)];
            hessians += totals[of_body + 1].hessian as f64 * scales[1].hessian;
            if of_body == 0 {
                out.note_counts(steps, aside[0], n);
            }
            let (both, rules) = (&totals[of_body..of_body + 2], (scales, &self.tree.rules[of_body]));
            add_pair_scores::<NARROW>((steps, &tail), aside, both, rules, out, n);
        }
        limit(out, n, (hessians, totals[0].count), self.tree.told(), self.rules, too_small);
        any_missing
    }

    /// Returns the sums of the outputs together on the left of a candidate in the node whose histograms begin at `slot`.
    pub fn left_sums(&self, share: &FeatureShare, slot: usize, candidate: &Candidate) -> Option<Sums> {
        let feature = &self.features[candidate.feature as usize];
        let k = share.features.binary_search(&(candidate.feature as usize)).ok()?;
        let range = (!candidate.missing_left) as usize * feature.first()..feature.first() + candidate.border as usize + 1;
        Some(self.tree.together((0..self.tree.outputs()).map(|output| share.slot_bins(slot + output, k).total(range.clone()))))
    }

    /// Finds the best split of each node among the share's features, after merging what is pending.
    pub fn find_splits(&self, share: &mut FeatureShare) -> Vec<Option<FoundSplit>> {
        let packed = share.begin(self.merge);
        let mut found = splits_of_nodes(self, share, &packed);
        for (found, slot) in found.iter_mut().zip(self.slots) {
            if let Some(FoundSplit { candidate, left, subset: None }) = found {
                *left = self.left_sums(share, *slot, candidate).unwrap_or_default();
            }
        }
        found
    }

    /// Finds the split among the share's features with the largest gain summed over all nodes, after merging what is pending.
    pub fn find_level_split(&self, share: &mut FeatureShare) -> Option<Candidate> {
        let packed = share.begin(self.merge);
        split_of_level(self, share, &packed)
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn splits_of_nodes<'a>(search: &SharedSearch<'a>, share: &mut FeatureShare, packed: &[bool]) -> Vec<Option<FoundSplit>> {
    let mut found: Vec<Option<FoundSplit>> = vec![None; search.nodes.len()];
    let (mut steps, mut out) = (BorderSums::new(share.counts), Candidates::new());
    let (mut totals, mut parents) = (vec![], vec![]);
    let (bounds, mut room) = (SharedBounds::where_faster(search.tree, search.rules), BoundRoom::new());
    for k in 0..share.features.len() {
        share.merge_pending(k, (search.merge, packed));
        if k == 0 {
            totals = search.totals(share);
            parents = totals.iter().map(|sums| search.node_score(sums)).collect();
        }
        let feature = share.features[k];
        for (i, _) in search.nodes.iter().enumerate().filter(|(_, node)| search.allows(node, feature)) {
            if search.features[feature].categories {
                let count = search.features[feature].borders.len() + 1;
                let bins: Vec<NodeBins<'_>> = (0..totals[i].len()).map(|output| share.slot_bins(search.slots[i] + output, k)).collect();
                if let Some((gain, left, subset)) =
                    best_shared_subset(&bins, count, &totals[i], search.rules, search.tree, search.nodes[i].drawn(feature))
                {
                    let candidate = Candidate::new(&search.nodes[i], (feature as u32, 0, true), gain, parents[i]);
                    found[i] = best_of(found[i], Some(FoundSplit { candidate, left, subset: Some(subset) }));
                }
                continue;
            }
            for missing_left in [true, false] {
                let n = search.features[feature].borders.len() + !missing_left as usize;
                let (slot, totals, too_small) = (search.slots[i], &totals[i][..], f64::NEG_INFINITY);
                let worth = Worth::new(&search.nodes[i], parents[i], search.rules, found[i].map(|best| best.candidate));
                // No closure around the bounds: it would be compiled for the plainest of processors.
                let (bins, first) = (|output: usize| share.slot_bins(slot + output, k), search.features[feature].first());
                let mut most = None;
                if let Some(bounds) = &bounds
                    && let Some(any_missing) =
                        bounds.fill(bins, totals, (first, missing_left, n), f32::NEG_INFINITY, (&mut steps, &mut room))
                {
                    most = Some((bounds.largest_score(score_bounds::largest(&room.bounds[..n]), 1), any_missing));
                }
                if let Some((most, any_missing)) = most
                    && !worth.is_met(most)
                    && !cfg!(debug_assertions)
                {
                    if !any_missing {
                        break;
                    }
                    continue;
                }
                let scored = Scored { share, place: k, candidates: n, slot, totals, missing_left, too_small };
                let any_missing = search.score(scored, &mut steps, &mut out);
                let drawn = search.nodes[i].drawn(feature);
                let score = drawn.map_or_else(|| largest(&out.scores[..n]), |border| of_drawn(&out.scores[..n], border).0);
                debug_assert!(most.is_none_or(|most| score <= most.0 && any_missing == most.1), "{score} above {most:?}");
                if worth.is_met(score) {
                    let gain = score - parents[i];
                    let border = drawn.unwrap_or_else(|| first_largest(&out.scores[..n]).1) as u32;
                    let candidate = Candidate::new(&search.nodes[i], (feature as u32, border, missing_left), gain, parents[i]);
                    found[i] = best_of(found[i], Some(FoundSplit { candidate, left: Sums::default(), subset: None }));
                }
                // Without missing values the other side has the same candidates.
                if !any_missing {
                    break;
                }
            }
        }
    }
    found
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn split_of_level<'a>(search: &SharedSearch<'a>, share: &mut FeatureShare, packed: &[bool]) -> Option<Candidate> {
    let mut best: Option<Candidate> = None;
    let (mut steps, mut out) = (BorderSums::new(share.counts), Candidates::new());
    let (mut sums, mut bound_sums) = ([[0.0; MAX_BINS]; 2], [0.0; MAX_BINS]);
    let (bounds, mut room) = (SharedBounds::where_faster(search.tree, search.rules), BoundRoom::new());
    let (mut totals, mut parents, mut parent): (Vec<Vec<Sums>>, Vec<f64>, f64) = (vec![], vec![], 0.0);
    for k in 0..share.features.len() {
        share.merge_pending(k, (search.merge, packed));
        if k == 0 {
            totals = search.totals(share);
            parents = totals.iter().map(|sums| search.node_score(sums)).collect();
            parent = parents.iter().sum();
        }
        let feature = share.features[k];
        // A level's features are the same for all its nodes.
        if search.nodes.first().is_some_and(|node| !search.allows(node, feature)) {
            continue;
        }
        let borders = search.features[feature].borders.len();
        let missing = |slot: &usize| (0..search.tree.outputs()).any(|output| share.slot_bins(slot + output, k).at(0) != Sums::default());
        let any_missing = search.features[feature].missing_bin && search.slots.iter().any(missing);
        for (side, candidates) in [(0, borders), (1, if any_missing { borders + 1 } else { 0 })] {
            let sums = &mut sums[side][..candidates];
            sums.fill(0.0);
            if candidates == 0 {
                continue;
            }
            let (bound_sums, mut most) = (&mut bound_sums[..candidates], None);
            if let Some(bounds) = &bounds {
                bound_sums.fill(0.0);
                let mut all = true;
                for ((slot, totals), parent) in search.slots.iter().zip(&totals).zip(&parents) {
                    let bins = |output: usize| share.slot_bins(slot + output, k);
                    let of = (search.features[feature].first(), side == 0, candidates);
                    all &= bounds.fill(bins, totals, of, bounds.of_score(*parent), (&mut steps, &mut room)).is_some();
                    if !all {
                        break;
                    }
                    bound_sums.iter_mut().zip(&room.bounds).for_each(|(sum, bound)| *sum += bound);
                }
                most = all.then(|| bounds.largest_score(score_bounds::largest(bound_sums), search.nodes.len()));
            }
            let worth = Worth::new(&search.nodes[0], parent, search.rules, best);
            if most.is_some_and(|most| !worth.is_met(most)) && !cfg!(debug_assertions) {
                continue;
            }
            for ((slot, totals), parent) in search.slots.iter().zip(&totals).zip(&parents) {
                // A node that a candidate would leave a child too small in counts as not split.
                let (missing_left, too_small) = (side == 0, *parent);
                search.score(Scored { share, place: k, candidates, slot: *slot, totals, missing_left, too_small }, &mut steps, &mut out);
                sums.iter_mut().zip(&out.scores).for_each(|(sum, score)| *sum += score);
            }
            debug_assert!(most.is_none_or(|most| largest(sums) <= most), "{} above {most:?}", largest(sums));
            let (largest, border) = search.nodes[0].drawn(feature).map_or_else(|| first_largest(sums), |border| of_drawn(sums, border));
            let candidate = Candidate::new(&search.nodes[0], (feature as u32, border as u32, side == 0), largest - parent, parent);
            if candidate.gain > search.rules.min_gain && best.is_none_or(|b| better(&candidate, &b)) {
                best = Some(candidate);
            }
        }
    }
    best
}
