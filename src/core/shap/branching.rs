//! A branching tree as tables of a few neighbouring leaves each.
//!
//! Leaves below a node of at most three inner nodes are one group. A row's pattern in a group has a bit for each player above it
//! (whether its answers lead there) and one for each inner node of it (whether it goes right): all that the leaves' contributions
//! depend on, so one look-up a player serves all of them.

use super::contributions::{Chances, OutcomeTable, Rules, Terms, pair};
use super::leaves::LeafList;
use super::paths::{ExplainedTree, OnPath};
use super::program::{Bit, PatternStep, ToPattern};
use crate::tree::model::Child;

/// Trees with a path of more players are walked.
pub const MOST_PLAYERS: usize = super::contributions::MOST_PLAYERS;

/// And those with paths of more nodes than these.
pub const MOST_DEPTH: usize = 64;

/// The most inner nodes of a group, and the most bits of a pattern of a group of several leaves.
const MOST_NODES: usize = 3;
const MOST_BITS: usize = 10;

/// A player of a leaf: its place among the group's players, and the bits of a pattern that lead to the leaf.
struct Answered {
    place: usize,
    mask: u16,
    wanted: u16,
}

struct GroupLeaf {
    leaf: u32,
    players: Vec<Answered>,
    chances: Chances,
}

impl GroupLeaf {
    /// The outcome of its players' questions under a pattern.
    #[inline]
    fn outcome(&self, pattern: u16) -> u128 {
        self.players.iter().enumerate().map(|(j, p)| (((pattern & p.mask) == p.wanted) as u128) << j).sum()
    }
}

/// Some neighbouring leaves.
pub struct Group {
    /// Of each player above the group its tests, and whether the way to the group goes right there.
    above: Vec<Vec<(u32, bool)>>,
    /// The tests of its inner nodes.
    inner: Vec<u32>,
    /// Its players, those above first.
    pub players: Vec<u32>,
    leaves: Vec<GroupLeaf>,
}

/// Divides a tree into groups, from left to right; `chances` of a leaf with that path.
pub fn groups(tree: &ExplainedTree, chances: impl Fn(&[OnPath]) -> Chances) -> Vec<Group> {
    let inner = inner_counts(tree);
    let mut leaves: Vec<(u32, Vec<OnPath>, Chances)> = vec![];
    tree.for_paths(|leaf, path| leaves.push((leaf, path.to_vec(), chances(path))));
    let mut groups: Vec<Group> = vec![];
    let mut at = 0;
    while at < leaves.len() {
        // The highest node above this leaf, the first one below it, that makes a group.
        let path = &leaves[at].1;
        let mut steps: Vec<(u32, bool, usize)> =
            path.iter().enumerate().flat_map(|(j, p)| p.steps.iter().map(move |(node, right)| (*node, *right, j))).collect();
        steps.sort_unstable_by_key(|s| s.0);
        let depth = (0..steps.len())
            .find(|depth| {
                let nodes = inner[steps[*depth].0 as usize];
                let players = distinct(&steps[..*depth]);
                let is_first = steps[*depth..].iter().all(|(_, right, _)| !right);
                is_first && nodes <= MOST_NODES && players + nodes <= MOST_BITS
            })
            .unwrap_or(steps.len());
        let count = steps.get(depth).map_or(1, |s| inner[s.0 as usize] + 1);
        groups.push(Group::new(tree, &steps[..depth], &leaves[at..at + count]));
        at += count;
    }
    groups
}

/// The number of inner nodes below and at each node.
fn inner_counts(tree: &ExplainedTree) -> Vec<usize> {
    let mut counts = vec![1; tree.nodes.len()];
    for (i, node) in tree.nodes.iter().enumerate().rev() {
        for child in [node.left, node.right] {
            if let Child::Node(k) = child {
                counts[i] += counts[k as usize];
            }
        }
    }
    counts
}

fn distinct(steps: &[(u32, bool, usize)]) -> usize {
    // Players are numbered by their first step.
    steps.iter().map(|s| s.2 + 1).max().unwrap_or(0)
}

impl Group {
    /// The group below the steps (node, whether to the right, player of the path).
    fn new(tree: &ExplainedTree, above: &[(u32, bool, usize)], leaves: &[(u32, Vec<OnPath>, Chances)]) -> Group {
        let test = |node: u32| tree.nodes[node as usize].test;
        let mut group = Group { above: vec![vec![]; distinct(above)], inner: vec![], players: vec![], leaves: vec![] };
        for (node, right, player) in above {
            group.above[*player].push((test(*node), *right));
        }
        let known = group.above.len();
        group.players = leaves[0].1[..known].iter().map(|p| p.player).collect();
        let is_above = |node: u32| above.iter().any(|s| s.0 == node);
        let mut inner: Vec<u32> = vec![];
        for (leaf, path, chances) in leaves {
            let mut players = vec![];
            for p in path {
                let place = group.players.iter().position(|q| *q == p.player).unwrap_or(group.players.len());
                if place == group.players.len() {
                    group.players.push(p.player);
                }
                let mut answered = Answered { place, mask: 0, wanted: 0 };
                if place < known {
                    (answered.mask, answered.wanted) = (1 << place, 1 << place);
                }
                for (node, right) in p.steps.iter().filter(|s| !is_above(s.0)) {
                    let at = inner.iter().position(|n| n == node).unwrap_or(inner.len());
                    if at == inner.len() {
                        inner.push(*node);
                    }
                    answered.mask |= 1 << (known + at);
                    answered.wanted |= (*right as u16) << (known + at);
                }
                players.push(answered);
            }
            group.leaves.push(GroupLeaf { leaf: *leaf, players, chances: chances.clone() });
        }
        group.inner = inner.into_iter().map(test).collect();
        group
    }

    /// Returns the bits of a pattern.
    pub fn bits(&self) -> usize {
        self.above.len() + self.inner.len()
    }

    /// Returns how many numbers [`Group::table`] has.
    pub fn size(&self, outputs: usize, terms: Terms) -> usize {
        (outputs * terms.count(self.players.len())) << self.bits()
    }

    /// Computes the pattern of each row from its answers, `answers(test)`: whether each goes right there.
    pub fn patterns<'a>(&self, answers: impl Fn(u32) -> &'a [u8], out: &mut [u16]) {
        out.fill(((1u32 << self.above.len()) - 1) as u16);
        for (j, steps) in self.above.iter().enumerate() {
            for (test, right) in steps {
                let right = *right as u8;
                out.iter_mut().zip(answers(*test)).for_each(|(p, a)| *p &= !(((a ^ right) as u16) << j));
            }
        }
        for (i, test) in self.inner.iter().enumerate() {
            let bit = self.above.len() + i;
            out.iter_mut().zip(answers(*test)).for_each(|(p, a)| *p |= (*a as u16) << bit);
        }
    }

    /// Returns the steps to a row's pattern, the pattern at first, and its bits: [`Group::patterns`] one row at a time.
    pub fn pattern_steps(&self) -> ToPattern {
        let known = self.above.len();
        let above = self.above.iter().enumerate().flat_map(|(j, steps)| {
            steps.iter().map(move |(test, right)| PatternStep { test: *test, bit: j as u8, change: Bit::Lead { right: *right } })
        });
        let inner = self.inner.iter().enumerate().map(|(i, test)| PatternStep { test: *test, bit: (known + i) as u8, change: Bit::Set });
        (above.chain(inner).collect(), (1 << known) - 1, self.bits() as u32)
    }

    /// Computes `[output][term][pattern]` for every pattern.
    pub fn table(&self, tree: &ExplainedTree, rules: &Rules, terms: Terms, scratch: &mut GroupScratch, out: &mut Vec<f64>) {
        let (patterns, count) = (1usize << self.bits(), terms.count(self.players.len()));
        out.clear();
        out.resize(tree.outputs * count * patterns, 0.0);
        for leaf in &self.leaves {
            let players = leaf.players.len();
            scratch.all.fill(rules, &leaf.chances, terms);
            if self.inner.is_empty() {
                // Players are numbered alike, and so patterns are outcomes.
                for (value, out) in tree.leaf_values(leaf.leaf).iter().zip(out.chunks_exact_mut(count * patterns)) {
                    out.iter_mut().zip(&scratch.all.values).for_each(|(out, x)| *out += value * x);
                }
                continue;
            }
            scratch.outcomes.clear();
            scratch.outcomes.resize(patterns, 0);
            for (j, p) in leaf.players.iter().enumerate() {
                let leads = |pattern: usize| ((pattern as u16 & p.mask) == p.wanted) as u16;
                scratch.outcomes.iter_mut().enumerate().for_each(|(pattern, out)| *out |= leads(pattern) << j);
            }
            for (output, value) in tree.leaf_values(leaf.leaf).iter().enumerate() {
                for (term, place) in self.places(leaf, terms).enumerate() {
                    let from = &scratch.all.values[term << players..][..1 << players];
                    let out = &mut out[(output * count + place) * patterns..][..patterns];
                    out.iter_mut().zip(&scratch.outcomes).for_each(|(out, outcome)| *out += value * from[*outcome as usize]);
                }
            }
        }
    }

    /// Computes `[output][term][place in the list]` for the patterns of a list, which has room for `size`: the same bits as
    /// [`Group::table`]'s.
    pub fn some(&self, tree: &ExplainedTree, rules: &Rules, terms: Terms, patterns: &[u16], size: usize, out: &mut Vec<f64>) {
        let count = terms.count(self.players.len());
        out.clear();
        out.resize(tree.outputs * count * size, 0.0);
        let mut one = vec![];
        for leaf in &self.leaves {
            for (at, pattern) in patterns.iter().enumerate() {
                leaf.chances.of_outcome(rules, leaf.outcome(*pattern), terms, &mut one);
                for (output, value) in tree.leaf_values(leaf.leaf).iter().enumerate() {
                    for (x, place) in one.iter().zip(self.places(leaf, terms)) {
                        out[(output * count + place) * size + at] += value * x;
                    }
                }
            }
        }
    }

    /// Adds its leaves to a list, as one group.
    pub fn list(&self, list: &mut LeafList) {
        list.begin_group(&self.players);
        let above: Vec<_> = self.above.iter().map(|steps| list.add_steps(steps.iter().copied())).collect();
        let known = above.len();
        for leaf in &self.leaves {
            let mut players = Vec::with_capacity(leaf.players.len());
            for p in &leaf.players {
                let inner = (0..self.inner.len()).filter(|at| p.mask >> (known + at) & 1 == 1);
                let mut inner = inner.map(|at| (self.inner[at], p.wanted >> (known + at) & 1 == 1)).peekable();
                let steps = match above.get(p.place) {
                    Some(above) if inner.peek().is_none() => above.clone(),
                    Some(_) => list.add_steps(self.above[p.place].iter().copied().chain(inner)),
                    None => list.add_steps(inner),
                };
                players.push((p.place, steps));
            }
            list.add_leaf(leaf.leaf, players, &leaf.chances);
        }
    }

    /// The place among the group's terms of each of a leaf's.
    fn places<'a>(&'a self, leaf: &'a GroupLeaf, terms: Terms) -> impl Iterator<Item = usize> + 'a {
        let (players, all) = (&leaf.players, self.players.len());
        let pairs = if terms == Terms::Interactions { players.len() } else { 0 };
        let of_pair = move |i: usize, j: usize| {
            let (a, b) = (players[i].place, players[j].place);
            pair(all, a.min(b), a.max(b))
        };
        players.iter().map(|p| p.place).chain((0..pairs).flat_map(move |i| (i + 1..pairs).map(move |j| of_pair(i, j))))
    }
}

/// What [`Group::table`] works with.
#[derive(Default)]
pub struct GroupScratch {
    all: OutcomeTable,
    outcomes: Vec<u16>,
}
