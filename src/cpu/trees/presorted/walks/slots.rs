//! The nodes that a step searches, side by side in slots, which a feature's rows go to in order.

use super::{LAST, SortedOrder, is_last, row};
use crate::trees::histogram::expand;
use std::ops::Range;
use taiga_core::tree::split::SplitRules;
use taiga_core::tree::steps::SearchNode;

/// Slots are scored in vectors of this many.
pub const LANES: usize = 8;

/// Stands for the rank of a code in the slot before a node's first row.
pub const NO_RANK: u16 = u16::MAX;

/// The slots of the nodes of one step: for each node one of no row, then one for each of its rows, in the order of a feature's codes;
/// behind those of all nodes, from a multiple of [`LANES`] on, as many for the other rows.
#[derive(Default)]
pub struct NodeSlots {
    /// By row, its packed statistic ([`expand`]).
    statistics: Vec<u64>,
    /// By row, the place of its node in the search; that behind the last node for rows of none.
    node_of: Vec<u16>,
    /// By node, the slots of its rows.
    nodes: Vec<Range<usize>>,
    /// By node, the slot of its first row; then that of the first of the other rows.
    starts: Vec<u16>,
    /// By node, the slot that its next row goes to.
    next: Vec<u16>,
    /// By slot: the packed sums up to its row in its node.
    pub sums: Vec<u64>,
    /// The rank of its row's code among those of the feature.
    pub ranks: Vec<u16>,
    /// The totals of its node, in units of the sums, the node's own score, and what a candidate has to gain more than.
    pub total_gradient: Vec<f64>,
    pub total_hessian: Vec<f64>,
    pub own_score: Vec<f64>,
    pub least: Vec<f64>,
    /// What the split behind its row scores.
    pub scores: Vec<f64>,
    /// The nodes' rows in a feature's order, each below the rank of its code.
    kept: Vec<u32>,
    /// What [`NodeSlots::walk`] notes of the rows of a level.
    pub level: LevelWalk,
    /// How many rows the nodes have.
    searched: usize,
}

/// The rows of a level in a feature's order, by which the nodes' scores are added up.
#[derive(Default)]
pub struct LevelWalk {
    /// By row that was met, its slot, and whether the next row's code is larger ([`LAST`]).
    pub places: Vec<u16>,
    /// By slot, by how much its score differs from that of the slot before it, in a unit; nothing in the slots of other rows.
    pub steps: Vec<i64>,
}

/// Fills a vector with `len` times `value`.
fn refill<T: Copy>(values: &mut Vec<T>, len: usize, value: T) {
    values.clear();
    values.resize(len, value);
}

impl NodeSlots {
    /// Lays out the slots of `nodes`, of which the `i`-th one has the rows `rows_of(i)`. `statistics`: the packed one of each row. There are fewer
    /// slots than [`LAST`].
    pub fn lay_out<'r>(&mut self, nodes: &[SearchNode], rows_of: impl Fn(usize) -> &'r [u32], statistics: &[u32], rules: &SplitRules) {
        let rows = statistics.len();
        self.statistics.clear();
        self.statistics.extend(statistics.iter().map(|s| expand(*s)));
        refill(&mut self.node_of, rows, nodes.len() as u16);
        self.nodes.clear();
        let mut at = 0;
        for i in 0..nodes.len() {
            let own = rows_of(i);
            own.iter().for_each(|row| self.node_of[*row as usize] = i as u16);
            self.nodes.push(at + 1..at + 1 + own.len());
            at += 1 + own.len();
        }
        self.searched = at - nodes.len();
        let scored = at.next_multiple_of(LANES);
        // The slot that stands before the other rows is none of the scored ones.
        self.starts.clear();
        self.starts.extend(self.nodes.iter().map(|slots| slots.start as u16).chain([scored as u16 + 1]));
        refill(&mut self.next, nodes.len() + 1, 0);
        refill(&mut self.kept, rows + 1, 0);
        let slots = scored + 1 + rows - self.searched;
        refill(&mut self.level.places, rows, 0);
        refill(&mut self.level.steps, slots, 0);
        refill(&mut self.sums, slots, 0);
        refill(&mut self.ranks, slots, NO_RANK);
        refill(&mut self.scores, scored, 0.0);
        refill(&mut self.total_gradient, scored, 0.0);
        refill(&mut self.total_hessian, scored, 0.0);
        refill(&mut self.own_score, scored, 0.0);
        refill(&mut self.least, scored, f64::INFINITY);
        for (node, slots) in nodes.iter().zip(&self.nodes) {
            let (slots, own) = (slots.start - 1..slots.end, rules.node_score(node.sums, &node.inherited));
            self.total_gradient[slots.clone()].fill(node.sums.gradient as f64);
            self.total_hessian[slots.clone()].fill(node.sums.hessian as f64);
            self.own_score[slots.clone()].fill(own);
            self.least[slots].fill(rules.min_gain);
        }
    }

    /// Returns how many slots are scored: whole vectors of them.
    pub fn scored(&self) -> usize {
        self.scores.len()
    }

    /// Returns the slots of the rows of the `i`-th node.
    pub fn of_node(&self, i: usize) -> Range<usize> {
        self.nodes[i].clone()
    }

    /// Sets what a candidate of the `i`-th node has to gain more than.
    pub fn require(&mut self, i: usize, gain: f64) {
        self.least[self.nodes[i].clone()].fill(gain);
    }

    /// Takes the sums of a feature's rows without a value off those of each node; returns whether there is anything to take.
    pub fn set_aside(&mut self, sorted: &SortedOrder, f: usize) -> bool {
        let mut any = false;
        for entry in &sorted.order(f)[..sorted.missing[f] as usize] {
            let node = self.node_of[row(*entry)] as usize;
            let before = &mut self.sums[self.starts[node] as usize - 1];
            *before = before.wrapping_sub(self.statistics[row(*entry)]);
            any |= node < self.nodes.len();
        }
        any
    }

    /// Takes nothing off any more.
    pub fn clear_aside(&mut self) {
        self.starts.iter().for_each(|start| self.sums[*start as usize - 1] = 0);
    }

    /// Sends the rows of a feature in order to their slots, with the ranks of their codes. For a `LEVEL` it notes where they went; returns how
    /// many rows it met.
    #[inline(always)]
    pub fn walk<const LEVEL: bool>(&mut self, order: &[u16]) -> usize {
        assert!(order.len() < self.kept.len() && order.len() <= self.level.places.len());
        if 2 * self.searched > order.len() {
            return self.walk_all::<LEVEL>(order);
        }
        // Most rows are of no node: without them first.
        let (mut kept, mut rank, others) = (0, 0, self.nodes.len() as u16);
        for entry in order {
            // SAFETY: an order has every row of the table once, of which `node_of` has all, and `kept` as many.
            unsafe {
                *self.kept.get_unchecked_mut(kept) = rank << 16 | row(*entry) as u32;
                kept += (*self.node_of.get_unchecked(row(*entry)) != others) as usize;
            }
            rank += is_last(*entry) as u32;
        }
        // Behind the last row stands no rank of a code.
        self.kept[kept] = u32::MAX;
        self.next.copy_from_slice(&self.starts);
        for i in 0..kept {
            // SAFETY: as below; there is an entry behind the last row's.
            unsafe {
                let (kept, next) = (*self.kept.get_unchecked(i), *self.kept.get_unchecked(i + 1));
                let slot = self.take_slot((kept & 0xffff) as usize);
                *self.ranks.get_unchecked_mut(slot) = (kept >> 16) as u16;
                if LEVEL {
                    *self.level.places.get_unchecked_mut(i) = slot as u16 | if kept >> 16 != next >> 16 { LAST } else { 0 };
                }
            }
        }
        kept
    }

    #[inline(always)]
    fn walk_all<const LEVEL: bool>(&mut self, order: &[u16]) -> usize {
        self.next.copy_from_slice(&self.starts);
        let mut rank = 0;
        for (i, entry) in order.iter().enumerate() {
            // SAFETY: an order has every row of the table once, so each node gets no more rows than there are slots behind its start, and
            // the same holds for the other rows; `places` has room for as many.
            unsafe {
                let slot = self.take_slot(row(*entry));
                *self.ranks.get_unchecked_mut(slot) = rank;
                if LEVEL {
                    *self.level.places.get_unchecked_mut(i) = slot as u16 | (*entry & LAST);
                }
            }
            rank += is_last(*entry);
        }
        order.len()
    }

    /// Sends a row to the next slot of its node; returns which.
    ///
    /// # Safety
    /// The row is one of the table's, and comes once after `next` was set to `starts`.
    #[inline(always)]
    unsafe fn take_slot(&mut self, row: usize) -> usize {
        // SAFETY: `node_of` and `statistics` have all rows of the table; `next` has all nodes and the other rows; and as each row comes once,
        // the slot is one of its node's, before which there is another one.
        unsafe {
            let next = self.next.get_unchecked_mut(*self.node_of.get_unchecked(row) as usize);
            let slot = *next as usize;
            *next += 1;
            let sum = self.sums.get_unchecked(slot - 1).wrapping_add(*self.statistics.get_unchecked(row));
            *self.sums.get_unchecked_mut(slot) = sum;
            slot
        }
    }
}
