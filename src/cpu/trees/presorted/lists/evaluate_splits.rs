//! The search for splits among sorted rows.

mod level;

use self::level::LevelSums;
use super::{LANES, MISSING, SortedLists, border, gradient, hessian};
use crate::trees::evaluate_splits::{FoundSplit, best_of};
use crate::trees::shard::NodeRows;
use crate::trees::split_scores::{Context, score};
use multiversion::multiversion;
use taiga_core::tree::split::{SplitRules, Sums, soft_threshold};
use taiga_core::tree::steps::{Candidate, SearchNode};

pub use self::level::find_level_split;

/// Sums and scores of one block's candidates in one node: `[position][lane]`.
#[derive(Default)]
pub struct BlockScores {
    /// Sums up to each position, less what is set aside.
    gradient: Vec<i32>,
    hessian: Vec<i32>,
    /// What the split behind each position is worth.
    scores: Vec<f64>,
    /// Those of a level.
    level: LevelSums,
}

impl BlockScores {
    /// Makes room for nodes of up to `rows` rows.
    pub fn new(rows: usize) -> BlockScores {
        let sums = || vec![0; rows * LANES];
        BlockScores { gradient: sums(), hessian: sums(), scores: vec![0.0; rows * LANES], level: vec![] }
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

/// Scores of the splits behind each of `entries`, which go to the scores from `at` on, with the sums of their left children, less `aside`.
#[inline(always)]
fn scores(entries: &[u64], aside: &Aside, node: &NodeContext<'_>, work: &mut BlockScores, at: usize) {
    let n = entries.len();
    let (gradient, hessian, out) = (&mut work.gradient[..n], &mut work.hessian[..n], &mut work.scores[at..at + n]);
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
            scores(entries, if missing_left { &NOTHING } else { &aside }, &context, work, 0);
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
