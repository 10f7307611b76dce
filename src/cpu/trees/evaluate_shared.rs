//! The search for the best split of each node, or of a level, of a tree that several outputs share: a split's score is the sum of the
//! outputs' scores (Zhang and Jung, "GBDT-MO: Gradient-boosted decision trees for multiple outputs", 2020).

use super::bins::{BorderSums, LANES, MAX_BINS, NodeBins};
use super::category_subsets::best_shared_subset;
use super::evaluate_splits::{FoundSplit, Worth, best_of, better};
use super::feature_share::{FeatureShare, Merge};
use super::lanes::SharedTree;
use super::score_bounds;
use super::shared_bounds::{BoundRoom, SharedBounds};
use super::shared_scores::{Candidates, add_pair_scores, add_scores, add_squares, limit};
use super::split_scores::{first_largest, largest};
use multiversion::multiversion;
use taiga_core::quantize::CodedFeature;
use taiga_core::tree::split::{Scales, SplitRules, Sums};
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

    /// Computes the bounds of candidates, which then stand in the room, and returns whether the node has missing values of the feature; nothing where there
    /// are none.
    #[inline(always)]
    fn fill_bounds(&self, bounds: &SharedBounds, scored: Scored<'_>, (steps, room): (&mut BorderSums, &mut BoundRoom)) -> Option<bool> {
        let Scored { share, place, candidates, slot, totals, missing_left, too_small } = scored;
        let bins = |output: usize| share.slot_bins(slot + output, place);
        let first = self.features[share.features[place]].first();
        bounds.fill(bins, totals, (first, missing_left, candidates), bounds.of_score(too_small), (steps, room))
    }

    /// Returns what candidates score at the most, and whether the node has missing values of the feature; nothing where no bounds tell.
    #[inline(always)]
    fn most_of_node(
        &self,
        bounds: Option<&SharedBounds>,
        scored: Scored<'_>,
        (steps, room): (&mut BorderSums, &mut BoundRoom),
    ) -> Option<(f64, bool)> {
        let bounds = bounds?;
        let any_missing = self.fill_bounds(bounds, scored, (steps, room))?;
        Some((bounds.largest_score(score_bounds::largest(&room.bounds[..scored.candidates]), 1), any_missing))
    }

    /// Returns what candidates score at the most in all nodes of a level together; nothing where no bounds tell. `scored`: what is scored in each node;
    /// `sums`: room for a number a candidate.
    #[inline(always)]
    fn most_of_level<'s>(
        &self,
        bounds: Option<&SharedBounds>,
        scored: impl Fn(usize) -> Scored<'s>,
        sums: &mut [f32],
        (steps, room): (&mut BorderSums, &mut BoundRoom),
    ) -> Option<f64> {
        let bounds = bounds?;
        sums.fill(0.0);
        for node in 0..self.nodes.len() {
            if node + 1 < self.nodes.len() {
                let next = scored(node + 1);
                next.share.slot_bins(next.slot, next.place).prefetch();
            }
            self.fill_bounds(bounds, scored(node), (steps, room))?;
            sums.iter_mut().zip(&room.bounds).for_each(|(sum, bound)| *sum += bound);
        }
        Some(bounds.largest_score(score_bounds::largest(sums), self.nodes.len()))
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
        for (i, _) in search.nodes.iter().enumerate().filter(|(_, node)| node.allows(feature)) {
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
                let scored = Scored { share, place: k, candidates: n, slot, totals, missing_left, too_small };
                let worth = Worth::new(&search.nodes[i], parents[i], search.rules.min_gain, found[i].map(|best| best.candidate));
                let most = search.most_of_node(bounds.as_ref(), scored, (&mut steps, &mut room));
                if let Some((most, any_missing)) = most
                    && !worth.is_met(most)
                    && !cfg!(debug_assertions)
                {
                    if !any_missing {
                        break;
                    }
                    continue;
                }
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
        if search.nodes.first().is_some_and(|node| !node.allows(feature)) {
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
            // A node that a candidate would leave a child too small in counts as not split.
            let scored = |node: usize| Scored {
                share,
                place: k,
                candidates,
                slot: search.slots[node],
                totals: &totals[node],
                missing_left: side == 0,
                too_small: parents[node],
            };
            let worth = Worth::new(&search.nodes[0], parent, search.rules.min_gain, best);
            let most = search.most_of_level(bounds.as_ref(), scored, &mut bound_sums[..candidates], (&mut steps, &mut room));
            if most.is_some_and(|most| !worth.is_met(most)) && !cfg!(debug_assertions) {
                continue;
            }
            for node in 0..search.nodes.len() {
                search.score(scored(node), &mut steps, &mut out);
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
