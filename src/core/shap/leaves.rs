//! A tree whose paths meet too many players for tables, against a background table: leaf by leaf. And lists of leaves for a device that
//! goes through them so.

use super::contributions::{Chances, Rules, Terms, pair};
use super::paths::{ExplainedTree, OnPath};
use std::ops::Range;

struct PathToLeaf {
    leaf: u32,
    /// Its players: the place among the tree's, and the tests with the answers that lead to the leaf.
    players: Vec<(usize, Vec<(u32, bool)>)>,
    chances: Chances,
}

/// A tree made ready.
pub struct Leaves {
    /// The players that it asks, in the order in which they are first met.
    pub players: Vec<u32>,
    paths: Vec<PathToLeaf>,
}

impl Leaves {
    /// Prepares a tree; `chances` of a leaf with that path.
    pub fn new(tree: &ExplainedTree, chances: impl Fn(&[OnPath]) -> Chances) -> Self {
        let mut leaves = Leaves { players: vec![], paths: vec![] };
        tree.for_paths(|leaf, path| {
            let tests = |p: &OnPath| p.steps.iter().map(|(node, right)| (tree.nodes[*node as usize].test, *right)).collect();
            let players = path.iter().map(|p| (leaves.place(p.player), tests(p))).collect();
            leaves.paths.push(PathToLeaf { leaf, players, chances: chances(path) });
        });
        leaves
    }

    fn place(&mut self, player: u32) -> usize {
        self.players.iter().position(|p| *p == player).unwrap_or_else(|| {
            self.players.push(player);
            self.players.len() - 1
        })
    }

    /// Adds its leaves to a list, as one group.
    pub fn list(&self, list: &mut LeafList) {
        list.begin_group(&self.players);
        for path in &self.paths {
            let players: Vec<_> = path.players.iter().map(|(place, steps)| (*place, list.add_steps(steps.iter().copied()))).collect();
            list.add_leaf(path.leaf, players, &path.chances);
        }
    }

    /// Adds a row's terms to `out[output][term]`, terms as numbered for the tree's own players; `right(test)`: its answers.
    pub fn add(&self, tree: &ExplainedTree, rules: &Rules, terms: Terms, right: impl Fn(u32) -> bool, out: &mut [f64]) {
        let (all, mut one) = (self.players.len(), vec![]);
        let count = terms.count(all);
        for path in &self.paths {
            let leads = |steps: &[(u32, bool)]| steps.iter().all(|(test, to_right)| right(*test) == *to_right);
            let outcome = path.players.iter().enumerate().map(|(j, p)| (leads(&p.1) as u128) << j).sum();
            path.chances.of_outcome(rules, outcome, terms, &mut one);
            let places: Vec<usize> = path.players.iter().map(|p| p.0).collect();
            for (output, value) in tree.leaf_values(path.leaf).iter().enumerate() {
                let out = &mut out[output * count..][..count];
                places.iter().zip(&one).for_each(|(place, x)| out[*place] += value * x);
                let pairs = (0..places.len()).flat_map(|i| (i + 1..places.len()).map(move |j| (i, j)));
                for ((i, j), x) in pairs.zip(&one[places.len()..]) {
                    let (a, b) = (places[i], places[j]);
                    out[pair(all, a.min(b), a.max(b))] += value * x;
                }
            }
        }
    }
}

/// Leaves that are gone through together: what they give to their players is summed before it is added to a row's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGroup {
    pub players: Range<usize>,
    pub leaves: Range<usize>,
}

/// A leaf of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedLeaf {
    /// Its number in the tree.
    pub leaf: u32,
    /// Its players, in the order of its path.
    pub players: Range<usize>,
    /// What the rows of a background answer; none where the players have shares.
    pub outcomes: Range<usize>,
}

/// A player of a leaf of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedPlayer {
    /// Its place among the group's players.
    pub place: u32,
    /// The share of the training rows that take its branches to the leaf.
    pub share: f64,
    /// Its tests, and the answers that lead to the leaf.
    pub steps: Range<u32>,
}

/// Leaves of trees, group after group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeafList {
    pub groups: Vec<ListedGroup>,
    /// The players of the groups.
    pub group_players: Vec<u32>,
    pub leaves: Vec<ListedLeaf>,
    pub players: Vec<ListedPlayer>,
    /// Tests, and whether the way to the leaf goes right there.
    pub steps: Vec<(u32, bool)>,
    /// Distinct outcomes of a background's rows, and the share of the rows that have each.
    pub outcomes: Vec<(u128, f64)>,
}

impl LeafList {
    /// Returns about how many bytes a tree's leaves take here.
    pub fn bytes(tree: &ExplainedTree) -> u64 {
        // A player has at least one step; the device's twin of the list is made beside it.
        80 * tree.extent().steps as u64
    }

    /// Adds what `list` does, and returns the groups that came.
    pub fn add(&mut self, list: impl FnOnce(&mut LeafList)) -> Range<usize> {
        let first = self.groups.len();
        list(self);
        first..self.groups.len()
    }

    /// Begins a group of these players, which the leaves that are added next are of.
    pub fn begin_group(&mut self, players: &[u32]) {
        let first = self.group_players.len();
        self.group_players.extend_from_slice(players);
        self.groups.push(ListedGroup { players: first..self.group_players.len(), leaves: self.leaves.len()..self.leaves.len() });
    }

    /// Adds tests with the answers that lead to a leaf.
    pub fn add_steps(&mut self, steps: impl IntoIterator<Item = (u32, bool)>) -> Range<u32> {
        let first = self.steps.len() as u32;
        self.steps.extend(steps);
        first..self.steps.len() as u32
    }

    /// Adds a leaf, whose players have a place and steps each.
    pub fn add_leaf(&mut self, leaf: u32, players: impl IntoIterator<Item = (usize, Range<u32>)>, chances: &Chances) {
        let (first, first_outcome) = (self.players.len(), self.outcomes.len());
        let share = |j: usize| match chances {
            Chances::Shares(shares) => shares[j],
            Chances::Background(..) => 0.0,
        };
        let listed = players.into_iter().enumerate();
        self.players.extend(listed.map(|(j, (place, steps))| ListedPlayer { place: place as u32, share: share(j), steps }));
        if let Chances::Background(_, outcomes) = chances {
            self.outcomes.extend_from_slice(outcomes);
        }
        self.leaves.push(ListedLeaf { leaf, players: first..self.players.len(), outcomes: first_outcome..self.outcomes.len() });
        if let Some(group) = self.groups.last_mut() {
            group.leaves.end = self.leaves.len();
        }
    }
}
