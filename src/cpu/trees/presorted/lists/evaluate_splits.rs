//! The search for splits among sorted rows.

use super::{LANES, MISSING, SortedLists, border, gradient, hessian};
use crate::trees::bins::MAX_BINS;
use crate::trees::evaluate_splits::{FoundSplit, LevelBest, best_of};
use crate::trees::shard::NodeRows;
use crate::trees::split_scores::{Context, first_largest, largest, score};
use multiversion::multiversion;
use taiga_core::quantize::CodedFeature;
use taiga_core::tree::split::{SplitRules, Sums, soft_threshold};
use taiga_core::tree::steps::{Candidate, SearchNode};

/// Sums and scores of one block's candidates in one node: `[position][lane]`.
#[derive(Default)]
pub struct BlockScores {
    /// Sums up to each position, less what is set aside.
    gradient: Vec<i32>,
    hessian: Vec<i32>,
    /// What the split behind each position is worth.
    scores: Vec<f64>,
    level: Option<Box<LevelScores>>,
}

/// Scores by border, for a level of a symmetric tree.
struct LevelScores {
    /// A node's score at each border; longer than there are borders, so that vectors may overrun.
    node: [[f64; MAX_BINS + LANES]; LANES],
    /// Summed over the nodes, with missing values on the left and on the right.
    sums: [[[f64; MAX_BINS]; LANES]; 2],
}

impl BlockScores {
    /// Makes room for nodes of up to `rows` rows.
    pub fn new(rows: usize) -> BlockScores {
        BlockScores { gradient: vec![0; rows * LANES], hessian: vec![0; rows * LANES], scores: vec![0.0; rows * LANES], level: None }
    }
}

/// Gradient and hessian of each lane's missing values.
type Aside = ([i32; LANES], [i32; LANES]);

const NOTHING: Aside = ([0; LANES], [0; LANES]);

/// Sums the missing values of each lane, which stand before all others.
fn missing(entries: &[u64]) -> Aside {
    let mut aside = NOTHING;
    for lane in 0..LANES {
        for e in entries[lane..].iter().step_by(LANES).take_while(|e| **e & MISSING != 0) {
            aside.0[lane] += gradient(*e);
            aside.1[lane] += hessian(*e);
        }
    }
    aside
}

/// The node and the rules that a block's candidates are scored under.
struct NodeContext<'a> {
    search: &'a SearchNode,
    rules: &'a SplitRules,
    /// The first feature of the block.
    first: usize,
    /// The score of a candidate with a child that is too small.
    too_small: f64,
}

/// Scores of the splits behind each of `entries`, with the sums of their left children, less `aside`.
#[inline(always)]
fn scores(entries: &[u64], aside: &Aside, node: &NodeContext<'_>, work: &mut BlockScores) {
    let n = entries.len();
    let (gradient, hessian, out) = (&mut work.gradient[..n], &mut work.hessian[..n], &mut work.scores[..n]);
    accumulate(entries, aside, gradient, hessian);
    let rules = node.rules;
    if rules.scores_by_values() {
        constrained(gradient, hessian, node, out);
    } else if rules.l1 == 0.0 {
        unconstrained::<false>(gradient, hessian, node.search.sums, rules, node.too_small, out);
    } else {
        unconstrained::<true>(gradient, hessian, node.search.sums, rules, node.too_small, out);
    }
}

#[inline(always)]
fn accumulate(entries: &[u64], aside: &Aside, gradients: &mut [i32], hessians: &mut [i32]) {
    let (mut g, mut h) = ([0; LANES], [0; LANES]);
    for lane in 0..LANES {
        (g[lane], h[lane]) = (-aside.0[lane], -aside.1[lane]);
    }
    for ((e, go), ho) in entries.chunks_exact(LANES).zip(gradients.chunks_exact_mut(LANES)).zip(hessians.chunks_exact_mut(LANES)) {
        for lane in 0..LANES {
            g[lane] += gradient(e[lane]);
            h[lane] += hessian(e[lane]);
        }
        go.copy_from_slice(&g);
        ho.copy_from_slice(&h);
    }
}

/// Computes [`score`] for many candidates at once, where no monotone constraints play.
#[inline(always)]
fn unconstrained<const L1: bool>(gradient: &[i32], hessian: &[i32], total: Sums, rules: &SplitRules, too_small: f64, out: &mut [f64]) {
    let n = out.len();
    let (gradient, hessian) = (&gradient[..n], &hessian[..n]);
    let (sg, sh, l1, l2, least) = (rules.scales.gradient, rules.scales.hessian, rules.l1, rules.l2, rules.min_child_weight);
    let (total_gradient, total_hessian) = (total.gradient as i32, total.hessian as i32);
    // Where rows are counted at all, hessians count them, or tell that there are some.
    let fewest = rules.min_data_in_leaf.clamp(1, i32::MAX as i64) as i32;
    let divided = if rules.level_limits { f64::NEG_INFINITY } else { too_small };
    for i in 0..n {
        let (gl, hl) = (gradient[i], hessian[i]);
        let (gr, hr) = (total_gradient - gl, total_hessian - hl);
        let (some, enough) = ((hl > 0) & (hr > 0), (hl >= fewest) & (hr >= fewest));
        let (gl, hl, gr, hr) = (gl as f64 * sg, hl as f64 * sh, gr as f64 * sg, hr as f64 * sh);
        let (gl, gr) = if L1 { (soft_threshold(gl, l1), soft_threshold(gr, l1)) } else { (gl, gr) };
        let (dl, dr) = (hl + l2, hr + l2);
        let v = (gl * gl * dr + gr * gr * dl) / (dl * dr);
        let otherwise = if some { divided } else { too_small };
        out[i] = if enough & (hl >= least) & (hr >= least) { v } else { otherwise };
    }
}

/// Computes the scores of candidates one after the other, by the definition.
fn constrained(gradient: &[i32], hessian: &[i32], node: &NodeContext<'_>, out: &mut [f64]) {
    let NodeContext { search, rules, first, too_small } = *node;
    for (i, o) in out.iter_mut().enumerate() {
        let count = if rules.counts_rows() { hessian[i] as i64 } else { 0 };
        let left = Sums { gradient: gradient[i] as i64, hessian: hessian[i] as i64, count };
        let direction = rules.monotone.get(first + i % LANES).copied().unwrap_or(0);
        *o = score(left, &Context { rules, total: search.sums, inherited: &search.inherited, direction, too_small });
    }
}

/// Finds the best split of each node. `places[n]` are the rows of node number `n`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
pub fn find_splits(
    sorted: &SortedLists,
    nodes: &[SearchNode],
    places: &[NodeRows],
    rules: &SplitRules,
    work: &mut BlockScores,
) -> Vec<Option<FoundSplit>> {
    let mut found = Vec::with_capacity(nodes.len());
    for node in nodes {
        found.push(find_split(sorted, node, places[node.id as usize], rules, work));
    }
    found
}

#[inline(always)]
fn find_split(sorted: &SortedLists, node: &SearchNode, place: NodeRows, rules: &SplitRules, work: &mut BlockScores) -> Option<FoundSplit> {
    let parent = rules.node_score(node.sums, &node.inherited);
    if node.borders.is_some() {
        return drawn_split(sorted, node, place, rules, parent);
    }
    let mut best = None;
    for (block, any_missing) in sorted.missing.iter().enumerate() {
        let entries = sorted.entries(place, block);
        let context = NodeContext { search: node, rules, first: sorted.first + block * LANES, too_small: f64::NEG_INFINITY };
        let aside = if *any_missing { missing(entries) } else { NOTHING };
        for missing_left in [true, false] {
            if !missing_left && aside == NOTHING {
                break;
            }
            scores(entries, if missing_left { &NOTHING } else { &aside }, &context, work);
            let mut gains = largest_at_ends(entries, &mut work.scores[..entries.len()]);
            let largest = gains;
            for (lane, gain) in gains.iter_mut().enumerate() {
                *gain -= parent;
                if !node.allows(context.first + lane) {
                    *gain = f64::NEG_INFINITY;
                }
            }
            let mut lane = 0;
            for other in 1..LANES {
                lane = if gains[other] > gains[lane] { other } else { lane };
            }
            // With noise or weights any lane may have the best.
            let lanes = if node.ranks_features() { 0..LANES } else { lane..lane + 1 };
            for lane in lanes.filter(|lane| gains[*lane] > rules.min_gain) {
                let in_lane = work.scores[lane..entries.len()].iter().step_by(LANES);
                let at = in_lane.take_while(|s| **s != largest[lane]).count() * LANES + lane;
                let (feature, border) = ((context.first + lane) as u32, border(entries[at]) as u32);
                let candidate = Candidate::new(node, (feature, border, missing_left), gains[lane], parent);
                best = best_of(best, Some(FoundSplit { candidate, left: sorted.sums(work.gradient[at], work.hessian[at]), subset: None }));
            }
        }
    }
    best
}

/// Finds the best split of a node that may be divided at one border of each feature.
fn drawn_split(sorted: &SortedLists, node: &SearchNode, place: NodeRows, rules: &SplitRules, parent: f64) -> Option<FoundSplit> {
    let mut best = None;
    for feature in (sorted.first..sorted.first + sorted.features).filter(|feature| node.allows(*feature)) {
        for (candidate, left) in drawn_sides(sorted, node, place, feature) {
            let gain = score(left, &context(node, feature, rules, f64::NEG_INFINITY)) - parent;
            let candidate_of =
                |gain: f64| Candidate::new(node, (candidate.feature, candidate.border, candidate.missing_left), gain, parent);
            if gain > rules.min_gain {
                best = best_of(best, Some(FoundSplit { candidate: candidate_of(gain), left, subset: None }));
            }
        }
    }
    best
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

/// Returns the candidates at the one border of a feature that is drawn for a node, with missing values on the left and on the right, and
/// the sums of their left sides; the same sums where there are no missing values.
fn drawn_sides(sorted: &SortedLists, node: &SearchNode, place: NodeRows, feature: usize) -> [(Candidate, Sums); 2] {
    let border = node.drawn(feature).unwrap_or(0) as u32;
    [true, false].map(|missing_left| {
        let candidate = Candidate { feature: feature as u32, border, missing_left, gain: 0.0, rank: 0.0 };
        (candidate, sorted.left_sums(place, &candidate))
    })
}

/// Returns what the candidates of a feature in a node are scored under.
fn context<'a>(node: &'a SearchNode, feature: usize, rules: &'a SplitRules, too_small: f64) -> Context<'a> {
    let direction = rules.monotone.get(feature).copied().unwrap_or(0);
    Context { rules, total: node.sums, inherited: &node.inherited, direction, too_small }
}

/// Returns each lane's largest score behind the last row of a bin; the other scores become infinitely small.
#[inline(always)]
fn largest_at_ends(entries: &[u64], scores: &mut [f64]) -> [f64; LANES] {
    let before_last = entries.len() - LANES;
    for (score, (e, next)) in scores[..before_last].iter_mut().zip(entries.iter().zip(&entries[LANES..])) {
        *score = if (e ^ next) & (MISSING - 1) != 0 { *score } else { f64::NEG_INFINITY };
    }
    let mut largest = [f64::NEG_INFINITY; LANES];
    for scores in scores.chunks_exact(LANES) {
        for (largest, score) in largest.iter_mut().zip(scores) {
            *largest = if *score > *largest { *score } else { *largest };
        }
    }
    largest
}

/// Finds the split with the largest gain summed over the nodes.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
pub fn find_level_split(
    sorted: &SortedLists,
    nodes: &[SearchNode],
    places: &[NodeRows],
    features: &[CodedFeature],
    rules: &SplitRules,
    work: &mut BlockScores,
) -> Option<Candidate> {
    let mut level = work
        .level
        .take()
        .unwrap_or_else(|| Box::new(LevelScores { node: [[0.0; MAX_BINS + LANES]; LANES], sums: [[[0.0; MAX_BINS]; LANES]; 2] }));
    let parents: Vec<f64> = nodes.iter().map(|n| rules.node_score(n.sums, &n.inherited)).collect();
    if nodes.first().is_some_and(|node| node.borders.is_some()) {
        work.level = Some(level);
        return drawn_level_split(sorted, nodes, places, features, rules, &parents);
    }
    let mut best = LevelBest::new(nodes, parents.iter().sum(), rules);
    for block in 0..sorted.missing.len() {
        let own = &features[block * LANES..features.len().min((block + 1) * LANES)];
        let any_missing = level_scores(sorted, block, own, nodes, places, rules, &parents, work, &mut level);
        for (lane, feature) in own.iter().enumerate() {
            let f = sorted.first + block * LANES + lane;
            // A level's features are the same for all its nodes.
            if nodes.first().is_some_and(|node| !node.allows(f)) {
                continue;
            }
            let borders = feature.borders.len();
            for (side, candidates) in [(0, borders), (1, if any_missing[lane] { borders + 1 } else { 0 })] {
                let sums = &level.sums[side][lane][..candidates];
                // Where it is needs no looking for in most features.
                if best.worth().is_met(largest(sums)) {
                    let (largest, border) = first_largest(sums);
                    best.offer((f, border, side == 0), largest);
                }
            }
        }
    }
    work.level = Some(level);
    best.candidate
}

/// Sums the nodes' scores at each border of a block's features; returns which of these have missing values in any of the nodes.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn level_scores(
    sorted: &SortedLists,
    block: usize,
    features: &[CodedFeature],
    nodes: &[SearchNode],
    places: &[NodeRows],
    rules: &SplitRules,
    parents: &[f64],
    work: &mut BlockScores,
    level: &mut LevelScores,
) -> [bool; LANES] {
    let mut any_missing = [false; LANES];
    if sorted.missing[block] {
        for node in nodes {
            let aside = missing(sorted.entries(places[node.id as usize], block));
            for (lane, any) in any_missing.iter_mut().enumerate() {
                *any |= (aside.0[lane], aside.1[lane]) != (0, 0);
            }
        }
    }
    for side in 0..=any_missing.contains(&true) as usize {
        for (lane, feature) in features.iter().enumerate() {
            level.sums[side][lane][..feature.borders.len() + 1].fill(0.0);
        }
        for (node, parent) in nodes.iter().zip(parents) {
            let entries = sorted.entries(places[node.id as usize], block);
            let aside = if side == 1 { missing(entries) } else { NOTHING };
            // A node that a candidate would leave a child too small in counts as not split.
            let context = NodeContext { search: node, rules, first: sorted.first + block * LANES, too_small: *parent };
            scores(entries, &aside, &context, work);
            let scores = &work.scores[..entries.len()];
            for (lane, feature) in features.iter().enumerate() {
                spread(entries, scores, lane, *parent, &mut level.node[lane], feature.borders.len() + 1);
            }
            for (lane, feature) in features.iter().enumerate() {
                // In whole vectors; what stands behind the borders is never read.
                let n = (feature.borders.len() + 1).next_multiple_of(LANES);
                let (sums, scores) = (&mut level.sums[side][lane][..n], &level.node[lane][..n]);
                for i in 0..n {
                    sums[i] += scores[i];
                }
            }
        }
    }
    any_missing
}

/// Writes a lane's score at every border: behind an empty bin a split repeats the one before, and before
/// the first row there is none.
#[inline(always)]
fn spread(entries: &[u64], scores: &[f64], lane: usize, unsplit: f64, out: &mut [f64; MAX_BINS + LANES], end: usize) {
    let (mut at, mut score, mut position) = (0, unsplit, lane);
    let mut next = border(entries[lane]);
    loop {
        out[at..at + LANES].fill(score);
        at += LANES;
        if at >= next {
            if position >= entries.len() {
                break;
            }
            (at, score) = (next, scores[position]);
            position += LANES;
            next = if position < entries.len() { border(entries[position]) } else { end };
        }
    }
}
