//! A tree whose paths meet too many players for tables, against a background table: leaf by leaf.

use super::contributions::{Chances, Rules, Terms, pair};
use super::paths::{ExplainedTree, OnPath};

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
