//! The search for splits among sorted rows.

use super::{NodeSlots, SortedOrder};
use crate::trees::codes::CodeColumns;
use crate::trees::evaluate_splits::{FoundSplit, best_of};
use crate::trees::histogram::unpack;
use crate::trees::split_scores::{self, Context, first_largest, many_at_a_time};
use multiversion::multiversion;
use taiga_core::quantize::CodedFeature;
use taiga_core::tree::split::{SplitRules, Sums, soft_threshold};
use taiga_core::tree::steps::{Candidate, SearchNode};

/// A group's sorted rows, its codes, and the features of all groups.
#[derive(Clone, Copy)]
pub struct SortedGroup<'a> {
    pub sorted: &'a SortedOrder,
    pub columns: &'a CodeColumns,
    pub features: &'a [CodedFeature],
}

impl SortedOrder {
    pub fn sums(&self, packed: u64) -> Sums {
        let (gradient, hessian) = unpack(packed);
        Sums { gradient, hessian, count: if self.counted { hessian } else { 0 } }
    }
}

/// Finds the best split of each node, whose rows are laid out in `slots`, among those of a group's features; none that is worth less than what was
/// found in a group before.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
pub fn find_splits<'a>(group: SortedGroup<'a>, slots: &mut NodeSlots, nodes: &[SearchNode], rules: &SplitRules) -> Vec<Option<FoundSplit>> {
    let mut found = vec![None; nodes.len()];
    let sorted = group.sorted;
    let allowed = allowed_anywhere(nodes, sorted);
    for f in (0..sorted.own.len()).filter(|f| allowed.as_ref().is_none_or(|allowed| allowed[*f])) {
        for missing_left in [true, false] {
            if !missing_left && (sorted.missing[f] == 0 || !slots.set_aside(sorted, f)) {
                break;
            }
            slots.walk::<false>(sorted.order(f));
            score::<false>(sorted, f, slots, nodes, rules);
            // At a tie with missing values on the left a lower border is better.
            if if missing_left { any_gains::<false>(slots) } else { any_gains::<true>(slots) } {
                take(group, f, missing_left, slots, nodes, rules, &mut found);
            }
            if !missing_left {
                slots.clear_aside();
            }
        }
    }
    found
}

/// What a candidate scores that would leave a child too small.
const TOO_SMALL: f64 = f64::NEG_INFINITY;

/// Returns by feature whether any of the nodes may be divided by it; none where all nodes may by all.
fn allowed_anywhere(nodes: &[SearchNode], sorted: &SortedOrder) -> Option<Vec<bool>> {
    let mut allowed = vec![false; sorted.own.len()];
    for node in nodes {
        for feature in node.features.as_ref()? {
            if let Some(allowed) = (*feature as usize).checked_sub(sorted.first).and_then(|f| allowed.get_mut(f)) {
                *allowed = true;
            }
        }
    }
    Some(allowed)
}

/// Computes [`split_scores::score`] of the split behind the row of each slot. In a `LEVEL` a node with a child that is too small counts as not split,
/// or forbids the split ([`SplitRules::level_limits`]); for each node alone there are no such limits.
#[inline(always)]
pub fn score<const LEVEL: bool>(sorted: &SortedOrder, f: usize, slots: &mut NodeSlots, nodes: &[SearchNode], rules: &SplitRules) {
    if !many_at_a_time(rules) {
        score_one_by_one::<LEVEL>(sorted, f, slots, nodes, rules);
    } else if rules.l1 == 0.0 {
        score_slots::<LEVEL, false>(slots, rules);
    } else {
        score_slots::<LEVEL, true>(slots, rules);
    }
}

/// Computes the scores of all slots at once, where no monotone constraints play.
#[inline(always)]
fn score_slots<const LEVEL: bool, const L1: bool>(slots: &mut NodeSlots, rules: &SplitRules) {
    let n = slots.scored();
    let (sg, sh, l1, l2, least) = (rules.scales.gradient, rules.scales.hessian, rules.l1, rules.l2, rules.min_child_weight);
    // Where rows are counted at all, hessians count them, or tell that there are some.
    let fewest = rules.min_data_in_leaf.clamp(1, i32::MAX as i64) as f64;
    let (sums, own, out) = (&slots.sums[..n], &slots.own_score[..n], &mut slots.scores[..n]);
    let (total_gradient, total_hessian) = (&slots.total_gradient[..n], &slots.total_hessian[..n]);
    for i in 0..n {
        // Where more is set aside than there is so far, the hessian is negative.
        let (gl, hl) = ((sums[i] >> 32) as i32, sums[i] as i32);
        let (gr, hr) = (total_gradient[i].wrapping_sub(gl), total_hessian[i].wrapping_sub(hl));
        let (gl, hl, gr, hr) = (gl as f64, hl as f64, gr as f64, hr as f64);
        let (some, enough) = ((hl > 0.0) & (hr > 0.0), (hl >= fewest) & (hr >= fewest));
        let (gl, hl, gr, hr) = (gl * sg, hl * sh, gr * sg, hr * sh);
        let (gl, gr) = if L1 { (soft_threshold(gl, l1), soft_threshold(gr, l1)) } else { (gl, gr) };
        let (dl, dr) = (hl + l2, hr + l2);
        let v = (gl * gl * dr + gr * gr * dl) / (dl * dr);
        let otherwise = if !LEVEL || rules.level_limits & some { TOO_SMALL } else { own[i] };
        out[i] = if enough & (hl >= least) & (hr >= least) { v } else { otherwise };
    }
}

/// Computes the scores one after the other, by the definition.
#[inline(never)]
fn score_one_by_one<const LEVEL: bool>(sorted: &SortedOrder, f: usize, slots: &mut NodeSlots, nodes: &[SearchNode], rules: &SplitRules) {
    let direction = rules.monotone.get(sorted.first + f).copied().unwrap_or(0);
    for (i, node) in nodes.iter().enumerate() {
        let own = slots.of_node(i);
        let too_small = if LEVEL { slots.own_score[own.start - 1] } else { TOO_SMALL };
        let context = Context { rules, total: node.sums, inherited: &node.inherited, direction, too_small };
        // Before its first row nothing is on the left.
        slots.scores[own.start - 1] = too_small;
        for slot in own {
            slots.scores[slot] = split_scores::score(sorted.sums(slots.sums[slot]), &context);
        }
    }
}

/// Returns whether a gain is more than the least one, or under `TIES` no less.
#[inline(always)]
fn is_enough<const TIES: bool>(gain: f64, least: f64) -> bool {
    if TIES { gain >= least } else { gain > least }
}

/// Leaves the scores at the last row of each code alone, and returns whether any of them gains as much as it has to ([`is_enough`]).
#[inline(always)]
fn any_gains<const TIES: bool>(slots: &mut NodeSlots) -> bool {
    let n = slots.scored();
    let (scores, ranks, next) = (&mut slots.scores[..n], &slots.ranks[..n], &slots.ranks[1..n + 1]);
    let (own, least) = (&slots.own_score[..n], &slots.least[..n]);
    let mut any = false;
    for i in 0..n {
        scores[i] = if ranks[i] != next[i] { scores[i] } else { f64::NEG_INFINITY };
        any |= is_enough::<TIES>(scores[i] - own[i], least[i]);
    }
    any
}

/// Takes a feature's best candidate of each node for which it may be the best so far.
#[inline(never)]
fn take(
    group: SortedGroup<'_>,
    f: usize,
    missing_left: bool,
    slots: &mut NodeSlots,
    nodes: &[SearchNode],
    rules: &SplitRules,
    found: &mut [Option<FoundSplit>],
) {
    let sorted = group.sorted;
    let feature = sorted.first + f;
    let mut borders = None;
    for (i, (node, found)) in nodes.iter().zip(found).enumerate() {
        let own = slots.of_node(i);
        let (score, least) = (slots.own_score[own.start], slots.least[own.start]);
        let scores = &slots.scores[own.clone()];
        let enough = |gain: f64| if missing_left { is_enough::<false>(gain, least) } else { is_enough::<true>(gain, least) };
        if !scores.iter().any(|s| enough(s - score)) || !node.allows(feature) {
            continue;
        }
        let (largest, at) = first_largest(scores);
        // What has to be gained is no less than the least gain, but may be that.
        if largest - score <= rules.min_gain {
            continue;
        }
        let borders = borders.get_or_insert_with(|| sorted.borders(f, group.columns, &group.features[feature]));
        let border = borders[slots.ranks[own.start + at] as usize];
        let candidate = Candidate::new(node, (feature as u32, border as u32, missing_left), largest - score, score);
        let left = sorted.sums(slots.sums[own.start + at]);
        *found = best_of(*found, Some(FoundSplit { candidate, left, subset: None }));
        // With noise or weights any feature's best may be the best.
        if !node.ranks_features() {
            slots.require(i, found.map_or(rules.min_gain, |best| best.candidate.gain));
        }
    }
}
