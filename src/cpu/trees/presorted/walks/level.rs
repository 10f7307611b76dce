//! The search for the one split of a level among sorted rows.
//!
//! From one row of a feature's order to the next the score of one node alone changes. Added up row by row these changes would not have the bits of
//! the nodes' scores added up node by node; so bounds of the scores are added up, as integers of a small unit, and only what may be the best
//! split by these is scored by the definition.

use super::SortedOrder;
use super::evaluate_splits::{SortedGroup, score};
use super::slots::{NodeSlots, refill};
use crate::trees::evaluate_splits::{LevelBest, Worth};
use crate::trees::histogram::expand;
use crate::trees::score_bounds::{self, ScoreBounds};
use crate::trees::split_scores::{self, Context};
use multiversion::multiversion;
use taiga_core::tree::split::{SplitRules, Sums};
use taiga_core::tree::steps::{Candidate, SearchNode};

/// In units the bound of each of a level's nodes is less than 2 to this, which an f32 holds with its rounding, and all together less than that times
/// [`NODES`], or the more nodes the less each.
const NODE_BITS: u32 = 22;
const NODES: usize = 1 << 7;

/// Added to an f32 of fewer bits than [`NODE_BITS`], it leaves its integer part in the lowest bits.
const ROUND: f32 = 1.5 * (1u32 << 23) as f32;

/// Stands for the score of a node that forbids the split: a sum with any such is less than every other.
const FORBIDDEN: i32 = -(1 << (NODE_BITS + NODES.trailing_zeros() + 1));

/// By how many units a node's score may differ from its bound: by [`ScoreBounds::slack`] of less than 2 to [`NODE_BITS`], and by what rounding to units
/// takes.
const ERROR: i64 = (ScoreBounds::slack(1) * (1u64 << NODE_BITS) as f64) as i64 + 2;

/// What the search of a level needs besides the slots of its nodes.
#[derive(Default)]
pub struct LevelWalk {
    /// How bounds are computed, unless from the scores themselves.
    score_bounds: Option<ScoreBounds>,
    /// By row that was met, its slot.
    pub places: Vec<u16>,
    /// By slot, the place of its node in the search; that behind the last node in the slots of other rows.
    nodes: Vec<u16>,
    /// By slot, its node's own score, and the bound of the split behind its row, in a unit of the rules' or of the feature's.
    own_bounds: Vec<f32>,
    bounds: Vec<f32>,
    /// By slot, by how much its bound differs from that of the slot before it, in a unit of the feature's; nothing in the slots of other rows.
    steps: Vec<i32>,
}

impl LevelWalk {
    /// Makes room for nodes whose slots are laid out.
    pub fn lay_out(slots: &mut NodeSlots, nodes: &[SearchNode], rules: &SplitRules) {
        let (rows, all, scored) = (slots.table_rows(), slots.ranks.len(), slots.scored());
        let level = &mut slots.level;
        level.score_bounds = ScoreBounds::new(rules).filter(|bounds| bounds.tight);
        refill(&mut level.places, rows, 0);
        refill(&mut level.nodes, all, nodes.len() as u16);
        refill(&mut level.bounds, scored, 0.0);
        refill(&mut level.steps, all, 0);
        level.own_bounds.clear();
        if let Some(bounds) = &level.score_bounds {
            level.own_bounds.extend(slots.own_score.iter().map(|score| bounds.of_score(*score)));
        }
        for i in 0..nodes.len() {
            let own = slots.of_node(i);
            slots.level.nodes[own].fill(i as u16);
        }
    }
}

impl SortedOrder {
    /// Returns the sums left of a candidate over some rows, which have these packed statistics.
    pub fn left_sums(&self, group: SortedGroup<'_>, rows: &[u32], statistics: &[u32], candidate: &Candidate) -> Sums {
        let feature = &group.features[candidate.feature as usize];
        let codes = group.columns.feature(candidate.feature as usize - self.first + self.own.start);
        let from = if candidate.missing_left { 0 } else { feature.first() };
        let left = from..feature.first() + candidate.border as usize + 1;
        let of_left = rows.iter().filter(|row| left.contains(&(codes[**row as usize] as usize)));
        self.sums(of_left.fold(0, |sum: u64, row| sum.wrapping_add(expand(statistics[*row as usize]))))
    }
}

/// Offers the best split of all nodes together among a group's features. The nodes' rows are laid out in `slots`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
pub fn find_level_split<'a>(
    group: SortedGroup<'a>,
    slots: &mut NodeSlots,
    nodes: &[SearchNode],
    rules: &SplitRules,
    best: &mut LevelBest<'a>,
) {
    let sorted = group.sorted;
    for f in 0..sorted.own.len() {
        let feature = sorted.first + f;
        // A level's features are the same for all its nodes.
        if !nodes[0].allows(feature) {
            continue;
        }
        for missing_left in [true, false] {
            if !missing_left && (sorted.missing[f] == 0 || !slots.set_aside(sorted, f)) {
                break;
            }
            let met = slots.walk::<true>(sorted.order(f));
            if let Some(sums) = sum_bounds(sorted, f, slots, met, nodes, rules, &best.worth()) {
                let search = LevelSearch { group, f, slots, met, nodes, rules };
                if let Some((score, border)) = search.best(&sums, &best.worth()) {
                    best.offer((feature, border, missing_left), score);
                }
            }
            if !missing_left {
                slots.clear_aside();
            }
        }
    }
}

/// The sums of the nodes' bounds.
struct SumsOfBounds {
    /// Before the first row.
    first: i64,
    /// What a sum may differ by from that of the scores; none where scores are not finite, and no sum tells anything.
    error: Option<i64>,
}

/// Adds up the nodes' bounds behind each of the rows that were `met`; returns none where no sum is worth it.
#[inline(always)]
fn sum_bounds(
    sorted: &SortedOrder,
    f: usize,
    slots: &mut NodeSlots,
    met: usize,
    nodes: &[SearchNode],
    rules: &SplitRules,
    worth: &Worth,
) -> Option<SumsOfBounds> {
    let Some((largest, bound_of_1)) = fill_bounds(sorted, f, slots, nodes, rules) else {
        return Some(SumsOfBounds { first: 0, error: None });
    };
    // All bounds together are less than 2 to the exponent.
    let exponent = ((largest as f64 * nodes.len().max(NODES) as f64).to_bits() >> 52) as i64 - 1022;
    let bits = (NODE_BITS + NODES.trailing_zeros()) as i64;
    let units = (bits - exponent).min(100);
    let first = write_steps(slots, nodes.len(), f32::from_bits(((127 + units) as u32) << 23));
    let LevelWalk { places, steps, .. } = &slots.level;
    // Rows between which no split is count as well: few features get any further.
    let (mut sum, mut largest) = (first, i64::MIN);
    for place in &places[..met] {
        debug_assert!((*place as usize) < steps.len());
        // SAFETY: a place is a slot, each of which has a step.
        sum += unsafe { *steps.get_unchecked(*place as usize) } as i64;
        largest = largest.max(sum);
    }
    let error = ERROR * nodes.len() as i64;
    let may_be = largest.saturating_add(error) as f64 * f64::from_bits(((1023 - units) as u64) << 52) * bound_of_1;
    (largest > FORBIDDEN as i64 / 2 && worth.is_met(may_be)).then_some(SumsOfBounds { first, error: Some(error) })
}

/// Writes the bound of the split behind the row of each slot; returns the largest magnitude of them but for those that forbid the split, and what
/// score a bound of 1 stands for; none where scores are not finite.
#[inline(always)]
fn fill_bounds(sorted: &SortedOrder, f: usize, slots: &mut NodeSlots, nodes: &[SearchNode], rules: &SplitRules) -> Option<(f32, f64)> {
    let n = slots.scored();
    if let Some(score_bounds) = slots.level.score_bounds {
        let totals = (&slots.total_gradient[..n], &slots.total_hessian[..n]);
        let LevelWalk { own_bounds, bounds, .. } = &mut slots.level;
        score_bounds.fill_each(&slots.sums[..n], totals, &own_bounds[..n], bounds);
        return Some((score_bounds::largest(bounds), score_bounds.unit()));
    }
    score::<true>(sorted, f, slots, nodes, rules);
    let magnitude = split_scores::magnitude(&slots.scores);
    if !magnitude.is_finite() {
        return None;
    }
    // The inverse of smaller numbers is not finite.
    let magnitude = magnitude.max(f64::MIN_POSITIVE);
    let scale = 1.0 / magnitude;
    for (bound, score) in slots.level.bounds.iter_mut().zip(&slots.scores) {
        *bound = (score * scale) as f32;
    }
    Some((1.0, magnitude))
}

/// Writes by how much each slot's bound differs from that of the slot before it, in units; returns the sum of the nodes' bounds before their
/// first rows.
#[inline(always)]
fn write_steps(slots: &mut NodeSlots, nodes: usize, units: f32) -> i64 {
    let n = slots.scored();
    let LevelWalk { bounds, steps, .. } = &mut slots.level;
    let (bounds, steps) = (&bounds[..n], &mut steps[..n]);
    let in_units = |bound: f32| {
        let rounded = ((bound * units + ROUND).to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
        if bound == f32::NEG_INFINITY { FORBIDDEN } else { rounded }
    };
    for i in 1..n {
        steps[i] = in_units(bounds[i]) - in_units(bounds[i - 1]);
    }
    slots.starts[..nodes].iter().map(|start| in_units(bounds[*start as usize - 1]) as i64).sum()
}

/// A level's nodes, whose rows have been sent to their slots in the order of a feature.
struct LevelSearch<'a> {
    group: SortedGroup<'a>,
    f: usize,
    slots: &'a NodeSlots,
    met: usize,
    nodes: &'a [SearchNode],
    rules: &'a SplitRules,
}

impl LevelSearch<'_> {
    /// Returns the largest score by the definition, if it is worth it, and the first border that has it. Scored are the splits whose sum of bounds may
    /// be that of the largest score.
    #[inline(never)]
    fn best(&self, sums: &SumsOfBounds, worth: &Worth) -> Option<(f64, usize)> {
        let (slots, level, order) = (self.slots, &self.slots.level, self.group.sorted.order(self.f));
        let places = &level.places[..self.met];
        let is_last = |i: usize| slots.met(order, i, self.met).1;
        let step = |place: &u16| level.steps[*place as usize] as i64;
        let least = sums.error.map_or(i64::MIN, |error| {
            let sums = places.iter().scan(sums.first, |sum, place| {
                *sum += step(place);
                Some(*sum)
            });
            sums.enumerate().filter(|(i, _)| is_last(*i)).map(|(_, sum)| sum).max().unwrap_or(i64::MAX) - 2 * error
        });
        let mut next = slots.starts.clone();
        let (mut sum, mut best) = (sums.first, (f64::NEG_INFINITY, 0));
        for (i, place) in places.iter().enumerate() {
            sum += step(place);
            next[level.nodes[*place as usize] as usize] = place + 1;
            if is_last(i) && sum >= least {
                let score = self.score(&next);
                if score > best.0 {
                    best = (score, i);
                }
            }
        }
        worth.is_met(best.0).then(|| (best.0, self.border(best.1)))
    }

    /// Returns the sum of the nodes' scores where the slots before `next` are on the left.
    fn score(&self, next: &[u16]) -> f64 {
        let SortedGroup { sorted, .. } = self.group;
        let direction = self.rules.monotone.get(sorted.first + self.f).copied().unwrap_or(0);
        let of_node = |(i, node): (usize, &SearchNode)| {
            let (start, next) = (self.slots.starts[i] as usize, next[i] as usize);
            let too_small = self.slots.own_score[start - 1];
            // Before its first row nothing is on the left.
            if next == start {
                return too_small;
            }
            let context = Context { rules: self.rules, total: node.sums, inherited: &node.inherited, direction, too_small };
            split_scores::score(sorted.sums(self.slots.sums[next - 1]), &context)
        };
        self.nodes.iter().enumerate().map(of_node).fold(0.0, |sum, score| sum + score)
    }

    /// Returns the border behind the `i`-th row that was met.
    fn border(&self, i: usize) -> usize {
        let SortedGroup { sorted, columns, features } = self.group;
        let (row, _) = self.slots.met(sorted.order(self.f), i, self.met);
        let first = features[sorted.first + self.f].first();
        (columns.feature(sorted.own.start + self.f)[row] as usize).max(first) - first
    }
}
