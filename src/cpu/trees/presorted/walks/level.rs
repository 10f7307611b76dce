//! The search for the one split of a level among sorted rows.
//!
//! From one row of a feature's order to the next the score of one node alone changes. Added up row by row in f64 these changes would not have
//! the bits of the nodes' scores added up node by node; so they are added up as integers of a small unit, whose error is known, and only
//! what may be the best split by these is scored by the definition.

use super::evaluate_splits::{SortedGroup, score};
use super::slots::{LANES, LevelWalk, NodeSlots};
use super::{LAST, SortedOrder};
use crate::trees::evaluate_splits::{LevelBest, Worth};
use crate::trees::histogram::expand;
use multiversion::multiversion;
use taiga_core::tree::split::{SplitRules, Sums};
use taiga_core::tree::steps::{Candidate, SearchNode};

/// The scores of a level's nodes together are less than 2 to this, in units.
const SUM_BITS: i64 = 50;

/// Added to a number of fewer bits than [`SUM_BITS`], it leaves its integer part in the lowest bits.
const ROUND: f64 = 1.5 * (1u64 << 52) as f64;

/// Stands for the score of a node that forbids the split: a sum with any such is less than every other, and a sum of as many as there are rows has room.
const FORBIDDEN: i64 = -(1 << 52);

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

/// Offers the best split of all nodes together among a group's features. The nodes' rows are laid out in `slots`, in which the nodes' own scores
/// add up to `parent`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
pub fn find_level_split<'a>(
    group: SortedGroup<'a>,
    slots: &mut NodeSlots,
    nodes: &[SearchNode],
    rules: &SplitRules,
    best: &mut LevelBest<'a>,
) {
    let sorted = group.sorted;
    // A level's features are the same for all its nodes.
    let allowed = nodes[0].features.as_ref();
    for f in 0..sorted.own.len() {
        let feature = sorted.first + f;
        if allowed.is_some_and(|allowed| allowed.binary_search(&(feature as u32)).is_err()) {
            continue;
        }
        for missing_left in [true, false] {
            if !missing_left && (sorted.missing[f] == 0 || !slots.set_aside(sorted, f)) {
                break;
            }
            let met = slots.walk::<true>(sorted.order(f));
            score::<true>(sorted, f, slots, nodes, rules);
            if let Some((score, rank)) = largest_sum(slots, met, nodes.len(), &best.worth()) {
                let border = sorted.borders(f, group.columns, &group.features[feature])[rank];
                best.offer((feature, border, missing_left), score);
            }
            if !missing_left {
                slots.clear_aside();
            }
        }
    }
}

/// Returns the largest sum of the nodes' scores behind the last row of a code, of those rows that were `met`, if that is worth it, and the rank of the
/// first code that has it.
#[inline(always)]
fn largest_sum(slots: &mut NodeSlots, met: usize, nodes: usize, worth: &Worth) -> Option<(f64, usize)> {
    let magnitude = magnitude(&slots.scores);
    if !magnitude.is_finite() {
        return best_of_reaching(slots, met, 0, i64::MIN, nodes, worth);
    }
    // All scores together are less than 2 to the exponent.
    let exponent = ((magnitude * nodes as f64).to_bits() >> 52) as i64 - 1022;
    let unit = f64::from_bits(((1023 + (SUM_BITS - exponent).min(1000)) as u64) << 52);
    let first = write_steps(slots, nodes, unit);
    let LevelWalk { places, steps } = &slots.level;
    let (mut sum, mut largest) = (first, i64::MIN);
    for place in &places[..met] {
        let slot = (place & !LAST) as usize;
        debug_assert!(slot < steps.len());
        // SAFETY: a place is a slot, each of which has a step, and above it the bit that is taken off.
        sum += unsafe { *steps.get_unchecked(slot) };
        let here = if place & LAST != 0 { sum } else { i64::MIN };
        largest = largest.max(here);
    }
    // A score loses half a unit, and a sum of scores in f64 less than an eighth for each of them.
    let error = nodes as i64;
    if largest < FORBIDDEN / 2 || !worth.is_met((largest + error) as f64 / unit) {
        return None;
    }
    best_of_reaching(slots, met, first, largest - 2 * error, nodes, worth)
}

/// Returns the largest magnitude of whole vectors of scores but those that forbid a split; no number where one is none.
#[inline(always)]
fn magnitude(scores: &[f64]) -> f64 {
    // The bits of numbers that are not negative are ordered as they are, below those of infinity and of what is no number.
    let mut lanes = [0i64; LANES];
    for scores in scores.chunks_exact(LANES) {
        for (lane, score) in lanes.iter_mut().zip(scores) {
            let bits = if *score == f64::NEG_INFINITY { 0 } else { score.abs().to_bits() as i64 };
            *lane = if bits > *lane { bits } else { *lane };
        }
    }
    f64::from_bits(lanes.iter().fold(0, |largest, lane| largest.max(*lane)) as u64)
}

/// Writes by how much each slot's score differs from that of the slot before it, in units; returns the sum of the nodes' scores before their
/// first rows.
#[inline(always)]
fn write_steps(slots: &mut NodeSlots, nodes: usize, unit: f64) -> i64 {
    let n = slots.scored();
    let (scores, steps) = (&slots.scores[..n], &mut slots.level.steps[..n]);
    let in_units = |score: f64| {
        let rounded = ((score * unit + ROUND).to_bits() as i64).wrapping_sub(ROUND.to_bits() as i64);
        if score == f64::NEG_INFINITY { FORBIDDEN } else { rounded }
    };
    for i in 1..n {
        steps[i] = in_units(scores[i]) - in_units(scores[i - 1]);
    }
    (0..nodes).map(|i| in_units(scores[slots.of_node(i).start - 1])).sum()
}

/// Returns the largest score by the definition, if it is worth it, of the splits whose sum reaches `least`, and the rank of the first code that has it.
/// `sum`: before the first row.
#[inline(never)]
fn best_of_reaching(slots: &NodeSlots, met: usize, mut sum: i64, least: i64, nodes: usize, worth: &Worth) -> Option<(f64, usize)> {
    let mut best = (f64::NEG_INFINITY, 0);
    for place in &slots.level.places[..met] {
        let slot = (place & !LAST) as usize;
        sum = sum.wrapping_add(slots.level.steps[slot]);
        if place & LAST == 0 || sum < least {
            continue;
        }
        let rank = slots.ranks[slot];
        let of_node = |i: usize| {
            let own = slots.of_node(i);
            let left = slots.ranks[own.clone()].partition_point(|other| *other <= rank);
            slots.scores[own.start - 1 + left]
        };
        let score = (0..nodes).map(of_node).fold(0.0, |sum, score| sum + score);
        if score > best.0 {
            best = (score, rank as usize);
        }
    }
    worth.is_met(best.0).then_some(best)
}
