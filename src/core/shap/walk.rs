//! A tree whose paths meet too many players for tables: a row walks through all of it (Yu et al., "Linear TreeShap", 2022), with the
//! polynomials of its paths held by their values at the points of a [quadrature](super::quadrature).
//!
//! At point `t` of the multilinear extension a leaf is reached with the product over its players of `t` (if the row's answers lead
//! there) plus `1 - t` times the share of the training rows. Down the tree a player's factor takes the place of the one it had
//! above; up the tree the leaves' products are summed, and each edge credits its player with what its factor's change adds.

use super::contributions::{Terms, gain, pair};
use super::paths::ExplainedTree;
use super::quadrature::Quadrature;
use crate::tree::model::Child;
use std::collections::HashMap;

/// Points that one instruction or two take at a time.
pub const LANES: usize = 4;

type Lanes = [f64; LANES];

/// An edge from a node to a child.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    pub test: u32,
    pub right: bool,
    /// Index into the walk's players.
    pub player: u32,
    /// The depth of the nearest edge above that asks the same player, counted from 1; 0: there is none.
    pub above: u32,
    pub depth: u32,
    /// The share of the training rows that take it; of those that take all of the player's edges down to it; and without it.
    pub own_share: f64,
    pub share: f64,
    pub share_above: f64,
    /// The step behind the last one below it.
    pub end: usize,
}

/// A step of a walk.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Down(Edge),
    Leaf(u32),
    /// Back over the edge of that step.
    Up(usize),
}

/// A tree made ready to be walked.
pub struct Walk {
    steps: Vec<Step>,
    depth: usize,
    /// The players that it asks, in the order in which they are first met.
    pub players: Vec<u32>,
    places: HashMap<u32, u32>,
    points: Vec<Lanes>,
    weights: Vec<Lanes>,
}

/// A player whose answer is taken as given.
#[derive(Clone, Copy)]
struct Given {
    player: u32,
    in_set: bool,
}

/// What a walk works with: of each depth, of each group of points.
#[derive(Default)]
pub struct WalkScratch {
    products: Vec<Lanes>,
    inverses: Vec<Lanes>,
    leads: Vec<bool>,
    sums: Vec<Lanes>,
    with: Vec<f64>,
    without: Vec<f64>,
}

impl Walk {
    /// Prepares a tree.
    pub fn new(tree: &ExplainedTree) -> Self {
        let mut walk = Walk { steps: vec![], depth: 0, players: vec![], places: HashMap::new(), points: vec![], weights: vec![] };
        let most = tree.extent().players;
        let shares = tree.branch_shares();
        // The way down to where the walk is, as steps; of each player of the tree its own, as depths.
        let (mut open, mut asked): (Vec<usize>, Vec<Vec<u32>>) = (vec![], vec![]);
        enum Task {
            Enter(Child),
            Down(u32, bool),
            Up,
        }
        let mut tasks = vec![Task::Enter(tree.root())];
        while let Some(task) = tasks.pop() {
            match task {
                Task::Enter(Child::Leaf(leaf)) => walk.steps.push(Step::Leaf(leaf)),
                Task::Enter(Child::Node(node)) => tasks.extend([Task::Down(node, true), Task::Down(node, false)]),
                Task::Down(index, right) => {
                    let node = &tree.nodes[index as usize];
                    let player = walk.place(node.player, &mut asked);
                    let above = asked[player as usize].last().copied().unwrap_or(0);
                    let depth = open.len() as u32 + 1;
                    let own_share = shares[index as usize][right as usize];
                    let share_above = if above == 0 { 1.0 } else { walk.edge(open[above as usize - 1]).share };
                    let share = share_above * own_share;
                    asked[player as usize].push(depth);
                    open.push(walk.steps.len());
                    walk.depth = walk.depth.max(depth as usize);
                    let test = node.test;
                    walk.steps.push(Step::Down(Edge { test, right, player, above, depth, own_share, share, share_above, end: 0 }));
                    tasks.extend([Task::Up, Task::Enter(if right { node.right } else { node.left })]);
                }
                Task::Up => {
                    let Some(down) = open.pop() else { break };
                    walk.steps.push(Step::Up(down));
                    let end = walk.steps.len();
                    if let Step::Down(edge) = &mut walk.steps[down] {
                        edge.end = end;
                        asked[edge.player as usize].pop();
                    }
                }
            }
        }
        let rule = Quadrature::new(most.div_ceil(2).max(1));
        // Points of weight 0 fill the last group.
        let fill = |values: &[f64], rest: f64| -> Vec<Lanes> {
            let at = |g: usize, i: usize| values.get(g * LANES + i).copied().unwrap_or(rest);
            (0..values.len().div_ceil(LANES)).map(|g| std::array::from_fn(|i| at(g, i))).collect()
        };
        (walk.points, walk.weights) = (fill(&rule.points, 0.5), fill(&rule.weights, 0.0));
        walk
    }

    /// Returns its steps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the most edges between the root and a leaf.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the points of the quadrature, and their weights; those that fill the last group weigh nothing.
    pub fn points(&self) -> (&[Lanes], &[Lanes]) {
        (&self.points, &self.weights)
    }

    /// Returns the edge that a step goes down.
    ///
    /// # Panics
    /// For another step.
    pub fn edge(&self, step: usize) -> &Edge {
        match &self.steps[step] {
            Step::Down(edge) => edge,
            _ => unreachable!("a step down"),
        }
    }

    /// The place of a player among those of the tree, which have a list each.
    fn place(&mut self, player: u32, lists: &mut Vec<Vec<u32>>) -> u32 {
        let at = *self.places.entry(player).or_insert(self.players.len() as u32);
        if at as usize == self.players.len() {
            self.players.push(player);
            lists.push(vec![]);
        }
        at
    }

    /// Adds a row's terms to `out[output][term]`, terms as numbered for the walk's own players; `right(test)`: its answers.
    pub fn add(&self, tree: &ExplainedTree, terms: Terms, right: impl Fn(u32) -> bool, scratch: &mut WalkScratch, out: &mut [f64]) {
        let (players, outputs) = (self.players.len(), tree.outputs);
        let count = terms.count(players);
        let mut values = std::mem::take(&mut scratch.with);
        values.clear();
        values.resize(players * outputs, 0.0);
        self.walk(tree, None, &right, scratch, &mut values);
        let of_output = |values: &[f64], out: &mut [f64]| {
            for output in 0..outputs {
                let out = &mut out[output * count..][..players];
                out.iter_mut().zip(&values[output * players..]).for_each(|(out, x)| *out += x);
            }
        };
        of_output(&values, out);
        scratch.with = values;
        if terms == Terms::Interactions {
            self.add_pairs(tree, &right, scratch, out);
        }
    }

    /// Half of what a player's presence changes for each player behind it.
    fn add_pairs(&self, tree: &ExplainedTree, right: &impl Fn(u32) -> bool, scratch: &mut WalkScratch, out: &mut [f64]) {
        let (players, outputs) = (self.players.len(), tree.outputs);
        let count = Terms::Interactions.count(players);
        for i in 0..players {
            let (mut with, mut without) = (std::mem::take(&mut scratch.with), std::mem::take(&mut scratch.without));
            for (values, in_set) in [(&mut with, true), (&mut without, false)] {
                values.clear();
                values.resize(players * outputs, 0.0);
                self.walk(tree, Some(Given { player: i as u32, in_set }), right, scratch, values);
            }
            for output in 0..outputs {
                for j in i + 1..players {
                    let at = output * players + j;
                    out[output * count + pair(players, i, j)] += 0.5 * (with[at] - without[at]);
                }
            }
            (scratch.with, scratch.without) = (with, without);
        }
    }

    /// Adds the values of all players (but one whose answer is given) to `out[output][player]`.
    fn walk(&self, tree: &ExplainedTree, given: Option<Given>, right: &impl Fn(u32) -> bool, scratch: &mut WalkScratch, out: &mut [f64]) {
        let (width, outputs, players) = (self.points.len(), tree.outputs, self.players.len());
        scratch.products.resize((self.depth + 1) * width, [0.0; LANES]);
        scratch.inverses.resize((self.depth + 1) * width, [0.0; LANES]);
        scratch.leads.resize(self.depth + 1, true);
        scratch.sums.clear();
        scratch.sums.resize((self.depth + 1) * outputs * width, [0.0; LANES]);
        scratch.products[..width].fill([1.0; LANES]);
        let (mut at, mut depth) = (0, 0);
        while let Some(step) = self.steps.get(at) {
            at += 1;
            match step {
                Step::Down(edge) => {
                    depth = edge.depth as usize;
                    if !self.down(edge, given, right(edge.test) == edge.right, scratch) {
                        // Nothing below counts: whoever the set holds, nobody comes here.
                        (at, depth) = (edge.end, depth - 1);
                    }
                }
                Step::Leaf(leaf) => {
                    let products = &scratch.products[depth * width..][..width];
                    for (output, value) in tree.leaf_values(*leaf).iter().enumerate() {
                        let sums = &mut scratch.sums[(depth * outputs + output) * width..][..width];
                        for (sum, product) in sums.iter_mut().zip(products) {
                            (0..LANES).for_each(|i| sum[i] += value * product[i]);
                        }
                    }
                }
                Step::Up(down) => {
                    let edge = self.edge(*down);
                    for output in 0..outputs {
                        if given.is_none_or(|g| g.player != edge.player) {
                            out[output * players + edge.player as usize] += self.credit(edge, (output, outputs), scratch);
                        }
                        let (above, below) = scratch.sums.split_at_mut(depth * outputs * width);
                        let above = &mut above[((depth - 1) * outputs + output) * width..][..width];
                        for (above, below) in above.iter_mut().zip(&mut below[output * width..][..width]) {
                            (0..LANES).for_each(|i| above[i] += below[i]);
                            *below = [0.0; LANES];
                        }
                    }
                    depth -= 1;
                }
            }
        }
    }

    /// Goes down an edge, which the row's answers take or do not; false where no set of players leads there.
    fn down(&self, edge: &Edge, given: Option<Given>, taken: bool, scratch: &mut WalkScratch) -> bool {
        let (width, depth, above) = (self.points.len(), edge.depth as usize, edge.above as usize);
        let (parents, own) = scratch.products.split_at_mut(depth * width);
        let parent = &parents[(depth - 1) * width..];
        if let Some(given) = given.filter(|g| g.player == edge.player) {
            let chance = if given.in_set { taken as u8 as f64 } else { edge.own_share };
            for (own, parent) in own.iter_mut().zip(parent) {
                (0..LANES).for_each(|i| own[i] = parent[i] * chance);
            }
            return chance > 0.0;
        }
        let leads = taken && (above == 0 || scratch.leads[above]);
        scratch.leads[depth] = leads;
        if !leads && edge.share == 0.0 {
            return false;
        }
        let (inverses_above, inverses) = scratch.inverses.split_at_mut(depth * width);
        for g in 0..width {
            let t = self.points[g];
            let before = if above == 0 { [1.0; LANES] } else { inverses_above[above * width + g] };
            for i in 0..LANES {
                let factor = (if leads { t[i] } else { 0.0 }) + (1.0 - t[i]) * edge.share;
                own[g][i] = parent[g][i] * before[i] * factor;
                inverses[g][i] = 1.0 / factor;
            }
        }
        true
    }

    /// What an edge credits its player with: its factor's gain, instead of the one that the factor above had.
    fn credit(&self, edge: &Edge, (output, outputs): (usize, usize), scratch: &WalkScratch) -> f64 {
        let (width, depth, above) = (self.points.len(), edge.depth as usize, edge.above as usize);
        let own = gain(edge.share, scratch.leads[depth]);
        let before = if above == 0 { 0.0 } else { gain(edge.share_above, scratch.leads[above]) };
        let mut sum = [0.0; LANES];
        for g in 0..width {
            let h = scratch.sums[(depth * outputs + output) * width + g];
            let (inverse, inverse_above) = (scratch.inverses[depth * width + g], scratch.inverses[above * width + g]);
            for i in 0..LANES {
                let credit = if above == 0 { own * inverse[i] } else { own * inverse[i] - before * inverse_above[i] };
                sum[i] += self.weights[g][i] * h[i] * credit;
            }
        }
        (sum[0] + sum[1]) + (sum[2] + sum[3])
    }
}
