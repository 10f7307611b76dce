//! The nodes that a step searches, side by side in slots, which a feature's rows go to in order.

use super::level::LevelWalk;
use super::{SortedOrder, is_last, row};
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
    pub starts: Vec<u16>,
    /// By node, the slot that its next row goes to.
    next: Vec<u16>,
    /// By node, the packed sums of its rows, and of those that are set aside.
    totals: Vec<u64>,
    aside: Vec<u64>,
    /// By slot: its row's packed statistic. In the slot before a node's first row, what the sums begin with, which is less than nothing where rows
    /// are set aside, less what those of the node before end with.
    own: Vec<u64>,
    /// The packed sums up to its row in its node.
    pub sums: Vec<u64>,
    /// The rank of its row's code among those of the feature; not for a level.
    pub ranks: Vec<u16>,
    /// The totals of its node, in units of the sums, the node's own score, and what a candidate has to gain more than.
    pub total_gradient: Vec<i32>,
    pub total_hessian: Vec<i32>,
    pub own_score: Vec<f64>,
    pub least: Vec<f64>,
    /// What the split behind its row scores.
    pub scores: Vec<f64>,
    /// The nodes' rows in a feature's order, each below the rank of its code.
    kept: Vec<u32>,
    /// What the walks of a level need besides.
    pub level: LevelWalk,
    /// How many rows the nodes have.
    searched: usize,
}

/// Fills a vector with `len` times `value`.
pub fn refill<T: Copy>(values: &mut Vec<T>, len: usize, value: T) {
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
        self.totals.clear();
        let mut at = 0;
        for i in 0..nodes.len() {
            let own = rows_of(i);
            let mut total = 0u64;
            for row in own {
                self.node_of[*row as usize] = i as u16;
                total = total.wrapping_add(self.statistics[*row as usize]);
            }
            self.totals.push(total);
            self.nodes.push(at + 1..at + 1 + own.len());
            at += 1 + own.len();
        }
        self.searched = at - nodes.len();
        let scored = at.next_multiple_of(LANES);
        // The slot that stands before the other rows is none of the scored ones.
        self.starts.clear();
        self.starts.extend(self.nodes.iter().map(|slots| slots.start as u16).chain([scored as u16 + 1]));
        refill(&mut self.kept, rows + 1, 0);
        let slots = scored + 1 + rows - self.searched;
        refill(&mut self.own, slots, 0);
        refill(&mut self.sums, scored, 0);
        refill(&mut self.ranks, slots, NO_RANK);
        refill(&mut self.scores, scored, 0.0);
        refill(&mut self.total_gradient, scored, 0);
        refill(&mut self.total_hessian, scored, 0);
        refill(&mut self.own_score, scored, 0.0);
        refill(&mut self.least, scored, f64::INFINITY);
        for (node, slots) in nodes.iter().zip(&self.nodes) {
            let (slots, own) = (slots.start - 1..slots.end, rules.node_score(node.sums, &node.inherited));
            self.total_gradient[slots.clone()].fill(node.sums.gradient as i32);
            self.total_hessian[slots.clone()].fill(node.sums.hessian as i32);
            self.own_score[slots.clone()].fill(own);
            self.least[slots].fill(rules.min_gain);
        }
        refill(&mut self.aside, nodes.len() + 1, 0);
        self.write_beginnings();
    }

    /// Returns how many rows the table has.
    pub fn table_rows(&self) -> usize {
        self.node_of.len()
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
            self.aside[node] = self.aside[node].wrapping_add(self.statistics[row(*entry)]);
            any |= node < self.nodes.len();
        }
        self.write_beginnings();
        any
    }

    /// Takes nothing off any more.
    pub fn clear_aside(&mut self) {
        self.aside.fill(0);
        self.write_beginnings();
    }

    /// Writes into the slot before each node's rows what takes the sums from those of the node before to those that this one begins with.
    fn write_beginnings(&mut self) {
        let mut before = 0u64;
        for ((slots, total), aside) in self.nodes.iter().zip(&self.totals).zip(&self.aside) {
            let beginning = 0u64.wrapping_sub(*aside);
            self.own[slots.start - 1] = beginning.wrapping_sub(before);
            before = beginning.wrapping_add(*total);
        }
    }

    /// Sends the rows of a feature in order to their slots and adds up each node's, with the ranks of their codes, or for a `LEVEL`
    /// with a note of where they went. Returns how many rows it met.
    #[inline(always)]
    pub fn walk<const LEVEL: bool>(&mut self, order: &[u16]) -> usize {
        let all = 2 * self.searched > order.len();
        let met = if all { order.len() } else { self.keep_searched(order) };
        // Other rows are not sent anywhere where they are left out, or where there are none.
        let others = all && self.searched < order.len();
        if self.nodes.len() + others as usize <= FEW_NODES {
            let free = self.starts[..self.starts.len().min(FEW_NODES)].iter().rev().fold(0, |free, start| free << 16 | *start as u64);
            self.send::<LEVEL, _>(order, met, InRegister(free));
        } else {
            let mut next = std::mem::take(&mut self.next);
            next.clone_from(&self.starts);
            self.send::<LEVEL, _>(order, met, InMemory(&mut next));
            self.next = next;
        }
        let mut sum = 0u64;
        for (sums, own) in self.sums.iter_mut().zip(&self.own) {
            sum = sum.wrapping_add(*own);
            *sums = sum;
        }
        met
    }

    /// Keeps the rows that are of a node, where these are less than half of all; returns how many there are.
    #[inline(always)]
    fn keep_searched(&mut self, order: &[u16]) -> usize {
        let (node_of, kept, others) = (&self.node_of[..], &mut self.kept[..], self.nodes.len() as u16);
        assert!(order.len() < kept.len());
        let (mut met, mut rank) = (0, 0);
        for entry in order {
            // SAFETY: an order has every row of the table once, and `kept` has room for one more.
            unsafe {
                *kept.get_unchecked_mut(met) = rank << 16 | row(*entry) as u32;
                met += (*node_of.get_unchecked(row(*entry)) != others) as usize;
            }
            rank += is_last(*entry) as u32;
        }
        // Behind the last row stands no rank of a code.
        kept[met] = u32::MAX;
        met
    }

    /// Sends the rows that are met to their slots.
    #[inline(always)]
    fn send<const LEVEL: bool, F: FreeSlots>(&mut self, order: &[u16], met: usize, mut free: F) {
        let (ranks, places, kept) = (&mut self.ranks[..], &mut self.level.places[..], &self.kept[..met]);
        let (node_of, statistics, own) = (&self.node_of[..], &self.statistics[..], &mut self.own[..]);
        assert!(!LEVEL || met <= places.len());
        let mut send = |i: usize, row: usize, rank: u16| {
            // SAFETY: an order has every row of the table once, of which there are nodes and statistics. So each node gets no more rows than it has slots,
            // and the same holds for the other rows; there are as many ranks as slots, and for a level a place for each row.
            unsafe {
                let slot = free.take(*node_of.get_unchecked(row) as usize);
                *own.get_unchecked_mut(slot) = *statistics.get_unchecked(row);
                if LEVEL {
                    *places.get_unchecked_mut(i) = slot as u16;
                } else {
                    *ranks.get_unchecked_mut(slot) = rank;
                }
            }
        };
        if met < order.len() {
            for (i, kept) in kept.iter().enumerate() {
                send(i, (kept & 0xffff) as usize, (kept >> 16) as u16);
            }
            return;
        }
        let mut rank = 0;
        for (i, entry) in order.iter().enumerate() {
            send(i, row(*entry), rank);
            rank += is_last(*entry);
        }
    }

    /// Returns the row that the last walk through `order` met as the `i`-th of `met`, and whether the code of the next one is larger.
    pub fn met(&self, order: &[u16], i: usize, met: usize) -> (usize, bool) {
        if met == order.len() {
            (row(order[i]), is_last(order[i]) == 1)
        } else {
            ((self.kept[i] & 0xffff) as usize, self.kept[i] >> 16 != self.kept[i + 1] >> 16)
        }
    }
}

/// So many nodes' next slots are counted in a register, the other rows' among them.
const FEW_NODES: usize = 4;

/// The next slot of each node.
trait FreeSlots {
    /// Takes a node's next slot.
    ///
    /// # Safety
    /// The node is one of those whose slots are counted.
    unsafe fn take(&mut self, node: usize) -> usize;
}

/// Those of [`FEW_NODES`], of 16 bits each: the rows of so few nodes often wait for the row before them, which is shorter in a register.
struct InRegister(u64);

impl FreeSlots for InRegister {
    #[inline(always)]
    unsafe fn take(&mut self, node: usize) -> usize {
        let slot = (self.0 >> (16 * node)) as u16;
        self.0 += 1 << (16 * node);
        slot as usize
    }
}

struct InMemory<'a>(&'a mut [u16]);

impl FreeSlots for InMemory<'_> {
    #[inline(always)]
    unsafe fn take(&mut self, node: usize) -> usize {
        // SAFETY: the caller's promise.
        let next = unsafe { self.0.get_unchecked_mut(node) };
        *next += 1;
        *next as usize - 1
    }
}
