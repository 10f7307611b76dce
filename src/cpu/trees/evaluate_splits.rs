//! The search for the best split of each node, or of a level, among the features of one thread.

use super::bins::{BorderSums, MAX_BINS, NodeBins, NodeHistogram};
use super::category_subsets::best_subset;
use super::feature_share::{FeatureShare, Merge};
use super::score_bounds::{self, Reaching, ScoreBounds};
use super::split_scores::{Context, add_steps, first_largest, largest, many_at_a_time, score, scores};
use multiversion::multiversion;
use taiga_core::quantize::{CodeSet, CodedFeature};
use taiga_core::tree::split::{SplitRules, Sums};
use taiga_core::tree::steps::{Candidate, SearchNode};

/// Every border of a feature is a candidate, not those behind occupied bins alone, where at least one bin in so many is occupied: without
/// bounds of scores, and with bounds, which take less time. For a node's own split, and for a level's, where scores are added up border by border.
const DENSE_NODE: [usize; 2] = [3, 12];
const DENSE_LEVEL: [usize; 2] = [8, 16];

/// No more candidates than these are scored one by one.
const FEW: usize = 16;

/// The best of some candidates, with the sums of its left child in one node.
#[derive(Clone, Copy, Debug)]
pub struct FoundSplit {
    pub candidate: Candidate,
    pub left: Sums,
    /// The categories that go right, where the feature is one of categories.
    pub subset: Option<CodeSet>,
}

/// Returns whether `a` is better than `b` of the same group: the one of the larger rank is, which is the gain where there is neither noise nor weights;
/// at a tie the lower feature, then the lower border, then missing values to the left. Of several groups: see
/// [`TieOrder`](super::feature_groups::TieOrder).
pub fn better(a: &Candidate, b: &Candidate) -> bool {
    a.rank > b.rank || (a.rank == b.rank && (a.feature, a.border, !a.missing_left) < (b.feature, b.border, !b.missing_left))
}

/// Returns the better of two splits of the same group.
pub fn best_of(a: Option<FoundSplit>, b: Option<FoundSplit>) -> Option<FoundSplit> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if better(&b.candidate, &a.candidate) { b } else { a }),
        (a, b) => a.or(b),
    }
}

impl FeatureShare {
    /// Finds the best split of each node among this share's features, after merging what is pending. `places[i]`: where the
    /// bins of `nodes[i]` are.
    pub fn find_splits(
        &mut self,
        merge: &Merge<'_>,
        nodes: &[SearchNode],
        places: &[NodeHistogram<'_>],
        features: &[CodedFeature],
        rules: &SplitRules,
    ) -> Vec<Option<FoundSplit>> {
        let packed = self.begin(merge);
        let mut found = find_splits(self, (merge, &packed), nodes, places, features, rules);
        self.sparse.find_splits(nodes, places, rules, &mut found);
        found
    }

    #[inline(always)]
    fn splits_of_nodes(
        &mut self,
        merge: (&Merge<'_>, &[bool]),
        nodes: &[SearchNode],
        places: &[NodeHistogram<'_>],
        features: &[CodedFeature],
        rules: &SplitRules,
    ) -> Vec<Option<FoundSplit>> {
        let mut found: Vec<Option<FoundSplit>> = vec![None; nodes.len()];
        let mut steps = BorderSums::new(self.counts);
        let mut room = Room::new();
        let bounds = ScoreBounds::where_faster(rules);
        let parents: Vec<f64> = nodes.iter().map(|n| rules.node_score(n.sums, &n.inherited)).collect();
        let dense = if many_at_a_time(rules) { DENSE_NODE[bounds.is_some() as usize] } else { 1 };
        for k in 0..self.features.len() {
            // What has just been merged is still in the nearest cache when it is searched.
            self.merge_pending(k, merge);
            let f = &self.features[k];
            for (i, node) in nodes.iter().enumerate() {
                if !node.allows(*f) {
                    continue;
                }
                let bins = self.at_place(&places[i], k);
                let c = self.context(node, *f, rules, f64::NEG_INFINITY);
                let feature = &features[*f];
                let (first, borders) = (feature.first(), feature.borders.len());
                if feature.categories {
                    if let Some((gain, left, subset)) = best_subset(&bins, borders + 1, node, rules, node.drawn(*f)) {
                        let candidate = Candidate::new(node, (*f as u32, 0, true), gain, parents[i]);
                        found[i] = best_of(found[i], Some(FoundSplit { candidate, left, subset: Some(subset) }));
                    }
                    continue;
                }
                if let Some(border) = node.drawn(*f) {
                    for (left, missing_left) in drawn_sides(&bins, feature, border).into_iter().flatten() {
                        let gain = score(left, &c) - parents[i];
                        if gain > rules.min_gain {
                            let candidate = Candidate::new(node, (*f as u32, border as u32, missing_left), gain, parents[i]);
                            found[i] = best_of(found[i], Some(FoundSplit { candidate, left, subset: None }));
                        }
                    }
                    continue;
                }
                steps.fill(&bins, first, dense);
                let missing = steps.missing;
                for missing_left in [true, false] {
                    // No closure: it would be compiled for the plainest of processors.
                    let (aside, candidates) =
                        if missing_left { (Sums::default(), steps.before(first + borders)) } else { (missing, steps.len) };
                    if !missing_left && missing == Sums::default() {
                        break;
                    }
                    let worth = Worth::new(node, parents[i], rules.min_gain, found[i].map(|best| best.candidate));
                    if let Some((step, gain)) = best_step(&mut steps, aside, &c, candidates, bounds.as_ref(), &worth, &mut room) {
                        let candidate = Candidate::new(node, (*f as u32, steps.bin[step] - first as u32, missing_left), gain, parents[i]);
                        found[i] = best_of(found[i], Some(FoundSplit { candidate, left: steps.at(step) - aside, subset: None }));
                    }
                }
            }
        }
        found
    }

    /// Finds the split among this share's features with the largest gain summed over all nodes, after merging what is pending.
    pub fn find_level_split(
        &mut self,
        merge: &Merge<'_>,
        nodes: &[SearchNode],
        places: &[NodeHistogram<'_>],
        features: &[CodedFeature],
        rules: &SplitRules,
    ) -> Option<Candidate> {
        let parents: Vec<f64> = nodes.iter().map(|n| rules.node_score(n.sums, &n.inherited)).collect();
        let packed = self.begin(merge);
        let best = find_level_split(self, (merge, &packed), nodes, places, features, rules, &parents);
        [best, self.sparse.find_level_split(nodes, places, rules, &parents)]
            .into_iter()
            .flatten()
            .reduce(|a, b| if better(&b, &a) { b } else { a })
    }

    #[inline(always)]
    fn split_of_level(
        &mut self,
        merge: (&Merge<'_>, &[bool]),
        nodes: &[SearchNode],
        places: &[NodeHistogram<'_>],
        features: &[CodedFeature],
        rules: &SplitRules,
        parents: &[f64],
    ) -> Option<Candidate> {
        let mut best = LevelBest::new(nodes, parents.iter().sum(), rules);
        let mut steps = BorderSums::new(self.counts);
        let mut room = Room::new();
        let bounds = ScoreBounds::where_faster(rules).filter(|b| b.tight);
        let level = Level { nodes, places, rules, parents };
        let dense = if many_at_a_time(rules) { DENSE_LEVEL[bounds.is_some() as usize] } else { 1 };
        for k in 0..self.features.len() {
            self.merge_pending(k, merge);
            let f = self.features[k];
            if nodes.first().is_some_and(|node| !node.allows(f)) {
                continue;
            }
            let feature = &features[f];
            let (first, borders) = (feature.first(), feature.borders.len());
            let any_missing = places.iter().any(|p| self.missing(&self.at_place(p, k), feature) != Sums::default());
            if let Some(border) = nodes.first().and_then(|n| n.drawn(f)) {
                for missing_left in [true, false].into_iter().take(1 + any_missing as usize) {
                    if !missing_left || border < borders {
                        let sum = self.level_score(k, &level, feature, border, missing_left);
                        best.offer((f, border, missing_left), sum);
                    }
                }
                continue;
            }
            let candidates = [borders, if any_missing { borders + 1 } else { 0 }];
            let mut decided = None;
            if let Some(b) = &bounds
                && self.is_decided_by_bounds(k, &level, feature, (b, dense), candidates, &mut best, (&mut steps, &mut room))
            {
                if !cfg!(debug_assertions) {
                    continue;
                }
                decided = Some(best.candidate);
            }
            let (out, sums) = (&mut room.scores, &mut room.score_sums);
            sums[0][..candidates[0]].fill(0.0);
            sums[1][..candidates[1]].fill(0.0);
            for (i, node) in nodes.iter().enumerate() {
                let bins = self.at_place(&places[i], k);
                steps.fill(&bins, first, dense);
                steps.unpack();
                // A node that a candidate would leave a child too small in counts as not split.
                let c = self.context(node, f, rules, parents[i]);
                scores(&steps, Sums::default(), &c, out, steps.before(first + borders));
                add_steps(&mut sums[0][..borders], &out[..steps.before(first + borders)], &steps, first);
                if any_missing {
                    scores(&steps, steps.missing, &c, out, steps.len);
                    add_steps(&mut sums[1][..borders + 1], &out[..steps.len], &steps, first);
                }
            }
            for (side, candidates) in candidates.into_iter().enumerate() {
                if candidates > 0 {
                    let (largest, border) = first_largest(&sums[side][..candidates]);
                    best.offer((f, border, side == 0), largest);
                }
            }
            let found = best.candidate;
            debug_assert!(decided.is_none_or(|decided| decided == found), "feature {f}: {decided:?} by bounds, {found:?} by scores");
        }
        best.candidate
    }

    /// Offers the best of a feature's candidates, of which there are so many with missing values on the left and on the right, if it may be better
    /// than `best`; returns whether bounds are enough to tell.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "a part of the loop that is compiled as a whole")]
    fn is_decided_by_bounds(
        &self,
        k: usize,
        level: &Level<'_>,
        feature: &CodedFeature,
        (bounds, dense): (&ScoreBounds, usize),
        candidates: [usize; 2],
        best: &mut LevelBest<'_>,
        (steps, room): (&mut BorderSums, &mut Room),
    ) -> bool {
        let (first, borders) = (feature.first(), feature.borders.len());
        let (out, sums) = (&mut room.bounds, &mut room.bound_sums);
        sums[0][..candidates[0]].fill(0.0);
        sums[1][..candidates[1]].fill(0.0);
        for (i, node) in level.nodes.iter().enumerate() {
            steps.fill(&self.at_place(&level.places[i], k), first, dense);
            let too_small = bounds.of_score(level.parents[i]);
            for (side, aside, n) in [(0, Sums::default(), steps.before(first + borders)), (1, steps.missing, steps.len)] {
                if candidates[side] > 0 {
                    if !bounds.fill(steps, aside, node.sums, too_small, out, n) {
                        return false;
                    }
                    add_steps(&mut sums[side][..candidates[side]], &out[..n], steps, first);
                }
            }
        }
        let mut scored = 0;
        for (side, n) in candidates.into_iter().enumerate() {
            let sums = &room.bound_sums[side][..n];
            let bound = score_bounds::largest(sums);
            if !best.worth().is_met(bounds.largest_score(bound, level.nodes.len())) {
                continue;
            }
            let reaching = Reaching::new(sums, ScoreBounds::reached(bound, level.nodes.len()));
            scored += reaching.len();
            if scored > FEW {
                return false;
            }
            // As above, the first of the largest score is offered: what features are compared by may be the same for others of them.
            let mut largest = (f64::NEG_INFINITY, 0);
            for border in reaching {
                let sum = self.level_score(k, level, feature, border, side == 0);
                if sum > largest.0 {
                    largest = (sum, border);
                }
            }
            best.offer((self.features[k], largest.1, side == 0), largest.0);
        }
        true
    }

    /// Computes the score of one split of all nodes of a level.
    fn level_score(&self, k: usize, level: &Level<'_>, feature: &CodedFeature, border: usize, missing_left: bool) -> f64 {
        let mut sum = 0.0;
        for (i, node) in level.nodes.iter().enumerate() {
            let left = left_of(&self.at_place(&level.places[i], k), feature, border, missing_left);
            sum += score(left, &self.context(node, self.features[k], level.rules, level.parents[i]));
        }
        sum
    }

    fn context<'a>(&self, node: &'a SearchNode, feature: usize, rules: &'a SplitRules, too_small: f64) -> Context<'a> {
        let direction = rules.monotone.get(feature).copied().unwrap_or(0);
        Context { rules, total: node.sums, inherited: &node.inherited, direction, too_small }
    }

    fn missing(&self, bins: &NodeBins<'_>, feature: &CodedFeature) -> Sums {
        if !feature.missing_bin {
            return Sums::default();
        }
        bins.at(0)
    }
}

/// Room for the scores of a feature's candidates and for their bounds: in a node, and summed over a level, with missing values on the left and on
/// the right.
struct Room {
    scores: [f64; MAX_BINS],
    bounds: [f32; MAX_BINS],
    score_sums: [[f64; MAX_BINS]; 2],
    bound_sums: [[f32; MAX_BINS]; 2],
}

impl Room {
    fn new() -> Room {
        Room { scores: [0.0; MAX_BINS], bounds: [0.0; MAX_BINS], score_sums: [[0.0; MAX_BINS]; 2], bound_sums: [[0.0; MAX_BINS]; 2] }
    }
}

/// The nodes of a level, which one split divides: where their bins are, and their scores without it.
struct Level<'a> {
    nodes: &'a [SearchNode],
    places: &'a [NodeHistogram<'a>],
    rules: &'a SplitRules,
    parents: &'a [f64],
}

/// The best split of a level so far.
pub struct LevelBest<'a> {
    /// The first of the nodes: what features are compared by is the same for all of them.
    node: &'a SearchNode,
    /// The sum of the nodes' scores without a split, and what a split has to gain more than.
    parent: f64,
    min_gain: f64,
    pub candidate: Option<Candidate>,
}

impl<'a> LevelBest<'a> {
    /// Returns the best split of a level for which there has been none so far; it has a node. `parent`: the sum of its nodes' scores.
    pub fn new(nodes: &'a [SearchNode], parent: f64, rules: &SplitRules) -> LevelBest<'a> {
        LevelBest { node: &nodes[0], parent, min_gain: rules.min_gain, candidate: None }
    }

    /// Takes a candidate of this score for the best one, if it is better.
    #[inline(always)]
    pub fn offer(&mut self, (feature, border, missing_left): (usize, usize, bool), score: f64) {
        let candidate = Candidate::new(self.node, (feature as u32, border as u32, missing_left), score - self.parent, self.parent);
        if candidate.gain > self.min_gain && self.candidate.is_none_or(|best| better(&candidate, &best)) {
            self.candidate = Some(candidate);
        }
    }

    /// Returns what a score has to be worth to be offered.
    #[inline(always)]
    pub fn worth(&self) -> Worth {
        Worth::new(self.node, self.parent, self.min_gain, self.candidate)
    }
}

/// What the gain of a score over that of what is split has to be.
pub struct Worth {
    parent: f64,
    above: f64,
    least: f64,
}

impl Worth {
    /// Returns what a score has to be worth where that of what is split is `parent` and the best split so far is `found`. `node`: what is split, or the
    /// first of a level's nodes.
    #[inline(always)]
    pub fn new(node: &SearchNode, parent: f64, min_gain: f64, found: Option<Candidate>) -> Worth {
        let least = found.filter(|_| !node.ranks_features()).map_or(f64::NEG_INFINITY, |best| best.gain);
        Worth { parent, above: min_gain, least }
    }

    /// Returns whether the gain of a score is more than the least one, and no less than that of what has been found.
    #[inline(always)]
    pub fn is_met(&self, score: f64) -> bool {
        let gain = score - self.parent;
        gain > self.above && gain >= self.least
    }
}

/// Finds the first of the first `n` steps, less `aside`, that has the largest score, and its gain, if that is worth it.
#[inline(always)]
fn best_step(
    steps: &mut BorderSums,
    aside: Sums,
    c: &Context<'_>,
    n: usize,
    bounds: Option<&ScoreBounds>,
    worth: &Worth,
    room: &mut Room,
) -> Option<(usize, f64)> {
    let mut by_bounds = None;
    let mut decided = false;
    if let Some(b) = bounds
        && b.fill(steps, aside, c.total, f32::NEG_INFINITY, &mut room.bounds, n)
    {
        let bound = score_bounds::largest(&room.bounds[..n]);
        decided = !worth.is_met(b.largest_score(bound, 1));
        if !decided && b.tight {
            by_bounds = best_of_few(steps, aside, c, Reaching::new(&room.bounds[..n], ScoreBounds::reached(bound, 1)));
            decided = by_bounds.is_some();
        }
    }
    let by_bounds = by_bounds.filter(|best| worth.is_met(best.1));
    if decided && !cfg!(debug_assertions) {
        return by_bounds.map(|(step, score)| (step, score - worth.parent));
    }
    steps.unpack();
    scores(steps, aside, c, &mut room.scores, n);
    let scores = &room.scores[..n];
    let largest = largest(scores);
    // Where it is needs no looking for in most features.
    let by_scores = if worth.is_met(largest) { Some((first_largest(scores).1, largest)) } else { None };
    debug_assert!(!decided || by_scores == by_bounds, "{by_bounds:?} by bounds, {by_scores:?} by scores");
    by_scores.map(|(step, score)| (step, score - worth.parent))
}

/// Finds the first of some steps, less `aside`, that has the largest score, and that score, unless too many differ.
#[inline(always)]
fn best_of_few(steps: &BorderSums, aside: Sums, c: &Context<'_>, among: Reaching) -> Option<(usize, f64)> {
    let (mut best, mut last, mut scored) = ((0, f64::NEG_INFINITY), None, 0);
    for step in among {
        let left = steps.at(step) - aside;
        // Behind an empty bin a candidate repeats the one before.
        if last.replace(left) == Some(left) {
            continue;
        }
        scored += 1;
        if scored > FEW {
            return None;
        }
        let score = score(left, c);
        if score > best.1 {
            best = (step, score);
        }
    }
    Some(best)
}

/// Returns the sums left of one of a feature's borders.
fn left_of(bins: &NodeBins<'_>, feature: &CodedFeature, border: usize, missing_left: bool) -> Sums {
    bins.total(if missing_left { 0 } else { feature.first() }..feature.first() + border + 1)
}

/// Returns the sums left of one of a feature's borders with missing values on the left, and on the right where there are some.
fn drawn_sides(bins: &NodeBins<'_>, feature: &CodedFeature, border: usize) -> [Option<(Sums, bool)>; 2] {
    let any_missing = feature.missing_bin && bins.at(0) != Sums::default();
    let side = |missing_left: bool| (left_of(bins, feature, border, missing_left), missing_left);
    [(border < feature.borders.len()).then(|| side(true)), any_missing.then(|| side(false))]
}

// The loops above are compiled for each kind of processor as wholes, so that what they call in
// their innermost turns is inlined; the processor is asked once a call of these.

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn find_splits<'a>(
    share: &mut FeatureShare,
    merge: (&Merge<'a>, &[bool]),
    nodes: &[SearchNode],
    places: &[NodeHistogram<'a>],
    features: &[CodedFeature],
    rules: &SplitRules,
) -> Vec<Option<FoundSplit>> {
    share.splits_of_nodes(merge, nodes, places, features, rules)
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn find_level_split<'a>(
    share: &mut FeatureShare,
    merge: (&Merge<'a>, &[bool]),
    nodes: &[SearchNode],
    places: &[NodeHistogram<'a>],
    features: &[CodedFeature],
    rules: &SplitRules,
    parents: &[f64],
) -> Option<Candidate> {
    share.split_of_level(merge, nodes, places, features, rules, parents)
}
