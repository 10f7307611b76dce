//! The search for the one split of a level: its score is the sum of the nodes' scores.
//!
//! From one of a feature's rows to the next the score of one node alone changes. Added up row by row these changes would not have the bits of the
//! nodes' scores added up node by node; so they are added up as integers of a small unit, and only what may be the best split by these is added up
//! by the definition.

use super::{BlockScores, NOTHING, NodeContext, context, drawn_sides, missing, scores};
use crate::trees::evaluate_splits::LevelBest;
use crate::trees::presorted::lists::{LANES, SortedLists, border};
use crate::trees::shard::NodeRows;
use crate::trees::split_scores::{magnitude, score};
use multiversion::multiversion;
use taiga_core::quantize::CodedFeature;
use taiga_core::tree::split::SplitRules;
use taiga_core::tree::steps::{Candidate, SearchNode};

/// In units the scores of all nodes together are less than 2 to this.
const SUM_BITS: i32 = 50;

/// Added to an f64 of up to that, it leaves its integer part in the lowest bits.
const ROUND: f64 = 1.5 * (1u64 << 52) as f64;

/// Stands for the score of a node that forbids the split: a sum with any such is less than every other.
const FORBIDDEN: i64 = -(1 << (SUM_BITS + 3));

/// The sums of the nodes' scores, `[border][lane]`, in units.
pub type LevelSums = Vec<[i64; LANES]>;

/// The unit that scores are integers of: a power of two.
#[derive(Clone, Copy)]
struct Unit {
    /// What scores are multiplied by, and units.
    scale: f64,
    inverse: f64,
}

impl Unit {
    /// Returns the unit for scores of up to these magnitudes, of so many nodes; none where one is not finite.
    fn new(magnitudes: [f64; 2], nodes: usize) -> Option<Unit> {
        let magnitude = magnitudes[0].max(magnitudes[1]);
        // The magnitude is less than 2 to the exponent.
        let exponent = (magnitude.to_bits() >> 52) as i32 - 1022;
        let bits = (SUM_BITS - nodes.ilog2() as i32 - 1 - exponent).min(1000);
        let power = |bits: i32| f64::from_bits(((1023 + bits) as u64) << 52);
        magnitudes.iter().all(|m| m.is_finite()).then(|| Unit { scale: power(bits), inverse: power(-bits) })
    }

    #[inline(always)]
    fn of(self, score: f64) -> i64 {
        let rounded = ((score * self.scale + ROUND).to_bits() as i64).wrapping_sub(ROUND.to_bits() as i64);
        if score == f64::NEG_INFINITY { FORBIDDEN } else { rounded }
    }
}

/// A level's nodes, and where their rows are.
struct Level<'a> {
    sorted: &'a SortedLists,
    nodes: &'a [SearchNode],
    places: &'a [NodeRows],
    rules: &'a SplitRules,
    /// The nodes' own scores.
    parents: &'a [f64],
}

/// Finds the split with the largest gain summed over the nodes. `features`: those of the lists.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
pub fn find_level_split(
    sorted: &SortedLists,
    nodes: &[SearchNode],
    places: &[NodeRows],
    features: &[CodedFeature],
    rules: &SplitRules,
    work: &mut BlockScores,
) -> Option<Candidate> {
    let parents: Vec<f64> = nodes.iter().map(|n| rules.node_score(n.sums, &n.inherited)).collect();
    if nodes.first().is_some_and(|node| node.borders.is_some()) {
        return drawn_level_split(sorted, nodes, places, features, rules, &parents);
    }
    let level = Level { sorted, nodes, places, rules, parents: &parents };
    let mut best = LevelBest::new(nodes, parents.iter().sum(), rules);
    for (block, own) in features.chunks(LANES).enumerate() {
        let any_missing = level.any_missing(block);
        for missing_left in [true, false] {
            if missing_left || any_missing.contains(&true) {
                level.search(block, own, (missing_left, &any_missing), work, &mut best);
            }
        }
    }
    best.candidate
}

impl Level<'_> {
    /// Returns a node's entries in a block.
    #[inline(always)]
    fn entries(&self, node: &SearchNode, block: usize) -> &[u64] {
        self.sorted.entries(self.places[node.id as usize], block)
    }

    /// Returns which features of a block have missing values in any of the nodes.
    #[inline(always)]
    fn any_missing(&self, block: usize) -> [bool; LANES] {
        let mut any = [false; LANES];
        for node in self.nodes.iter().filter(|_| self.sorted.missing[block]) {
            let aside = missing(self.entries(node, block));
            (0..LANES).for_each(|lane| any[lane] |= (aside.0[lane], aside.1[lane]) != (0, 0));
        }
        any
    }

    /// Offers the best split on each of a block's features, with missing values on the one side or, where there are any, on the other.
    #[inline(always)]
    fn search(
        &self,
        block: usize,
        features: &[CodedFeature],
        (missing_left, any_missing): (bool, &[bool; LANES]),
        work: &mut BlockScores,
        best: &mut LevelBest<'_>,
    ) {
        let first = self.sorted.first + block * LANES;
        let mut candidates = [0; LANES];
        for (lane, feature) in features.iter().enumerate() {
            // A level's features are the same for all its nodes.
            if self.nodes[0].allows(first + lane) && (missing_left || any_missing[lane]) {
                candidates[lane] = feature.borders.len() + !missing_left as usize;
            }
        }
        let mut all = 0;
        for (node, parent) in self.nodes.iter().zip(self.parents) {
            let entries = self.entries(node, block);
            let aside = if missing_left { NOTHING } else { missing(entries) };
            // A node that a candidate would leave a child too small in counts as not split.
            let context = NodeContext { search: node, rules: self.rules, first, too_small: *parent };
            scores(entries, &aside, &context, work, all);
            all += entries.len();
        }
        let scores = &work.scores[..all];
        let unit = Unit::new([magnitude(scores), magnitude(self.parents)], self.nodes.len());
        // Behind the last border stand the values above it.
        let bins = features.iter().map(|feature| feature.borders.len() + 1).max().unwrap_or(0);
        let sums = &mut work.level;
        sums.clear();
        sums.resize(bins, [0; LANES]);
        let mut largest = [i64::MAX; LANES];
        if let Some(unit) = unit {
            self.sum(block, scores, unit, &candidates, sums, &mut largest);
        }
        for (lane, count) in candidates.into_iter().enumerate() {
            // Each node's score differs by up to half a unit, and what adding them up rounds is less than that. Where scores are not finite, no sum
            // tells anything.
            let error = self.nodes.len() as i64;
            let may_be = unit.map_or(f64::INFINITY, |unit| (largest[lane] + error) as f64 * unit.inverse);
            if largest[lane] < FORBIDDEN / 2 || !best.worth().is_met(may_be) {
                continue;
            }
            let least = largest[lane] - 2 * error;
            let mut found = (f64::NEG_INFINITY, 0);
            for at in (0..count).filter(|at| unit.is_none() || sums[*at][lane] >= least) {
                let score = self.score(block, lane, at, scores);
                if score > found.0 {
                    found = (score, at);
                }
            }
            if best.worth().is_met(found.0) {
                best.offer((first + lane, found.1, missing_left), found.0);
            }
        }
    }

    /// Adds up the nodes' scores at each border of a block's features, in units, to `sums`, which are 0; writes each feature's largest sum among its
    /// first `candidates` borders.
    #[inline(always)]
    fn sum(
        &self,
        block: usize,
        scores: &[f64],
        unit: Unit,
        candidates: &[usize; LANES],
        sums: &mut [[i64; LANES]],
        largest: &mut [i64; LANES],
    ) {
        let (mut at, mut unsplit) = (0, 0);
        for (node, parent) in self.nodes.iter().zip(self.parents) {
            let entries = self.entries(node, block);
            let mut before = [unit.of(*parent); LANES];
            unsplit += before[0];
            for (e, scores) in entries.chunks_exact(LANES).zip(scores[at..at + entries.len()].chunks_exact(LANES)) {
                let mut steps = [0; LANES];
                for lane in 0..LANES {
                    let score = unit.of(scores[lane]);
                    steps[lane] = score - before[lane];
                    before[lane] = score;
                }
                for lane in 0..LANES {
                    sums[border(e[lane])][lane] += steps[lane];
                }
            }
            at += entries.len();
        }
        let mut sum = [unsplit; LANES];
        largest.fill(i64::MIN);
        for (border, sums) in sums.iter_mut().enumerate() {
            for lane in 0..LANES {
                sum[lane] += sums[lane];
                sums[lane] = sum[lane];
                let candidate = if border < candidates[lane] { sum[lane] } else { i64::MIN };
                largest[lane] = largest[lane].max(candidate);
            }
        }
    }

    /// Returns the sum of the nodes' scores at a border. `scores`: those of the block, node by node.
    fn score(&self, block: usize, lane: usize, at: usize, scores: &[f64]) -> f64 {
        let (mut start, mut sum) = (0, 0.0);
        for (node, parent) in self.nodes.iter().zip(self.parents) {
            let entries = self.entries(node, block);
            let before = entries[lane..].iter().step_by(LANES).take_while(|e| border(**e) <= at).count();
            // Before its first row a node is not split; behind an empty bin a split repeats the one before.
            sum += if before == 0 { *parent } else { scores[start + (before - 1) * LANES + lane] };
            start += entries.len();
        }
        sum
    }
}

/// Finds the same split for all nodes of a level, each of which may be divided at the same border of each feature.
fn drawn_level_split(
    sorted: &SortedLists,
    nodes: &[SearchNode],
    places: &[NodeRows],
    features: &[CodedFeature],
    rules: &SplitRules,
    parents: &[f64],
) -> Option<Candidate> {
    let mut best = LevelBest::new(nodes, parents.iter().sum(), rules);
    for (f, feature) in (sorted.first..).zip(features).filter(|(f, _)| nodes[0].allows(*f)) {
        // With missing values on the left; on the right where any node has some.
        let (mut sums, mut any_missing) = ([0.0; 2], false);
        for (node, parent) in nodes.iter().zip(parents) {
            let [left, right] = drawn_sides(sorted, node, places[node.id as usize], f);
            any_missing |= left.1 != right.1;
            let context = context(node, f, rules, *parent);
            sums[0] += score(left.1, &context);
            sums[1] += score(right.1, &context);
        }
        let border = nodes[0].drawn(f).unwrap_or(0);
        for (side, allowed) in [(0, border < feature.borders.len()), (1, any_missing)] {
            if allowed {
                best.offer((f, border, side == 0), sums[side]);
            }
        }
    }
    best.candidate
}
