//! Trees as explanations see them: who asks at each node, and what share of the training rows took each branch.

use crate::tree::model::Child;

/// An inner node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExplainedNode {
    /// Who is asked.
    pub player: u32,
    /// Which of the tree's tests it makes: the node's own, or its level's.
    pub test: u32,
    pub left: Child,
    pub right: Child,
}

/// A tree whose leaves' covers and values are known.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedTree {
    /// Children stand behind their parents; the root is node 0. No nodes: one leaf.
    pub nodes: Vec<ExplainedNode>,
    /// The number of tests that a row answers.
    pub tests: usize,
    /// Whether all nodes of a level make the same test, leaves standing in the order of their answers' bits.
    pub is_symmetric: bool,
    /// How many training rows, by number or weight, ended in each leaf.
    pub covers: Vec<f64>,
    /// The first of the model's outputs that it adds to, and to how many.
    pub first_output: usize,
    pub outputs: usize,
    /// What a leaf adds: `[leaf * outputs + output]`.
    pub values: Vec<f64>,
}

/// A player on a leaf's path.
#[derive(Clone, Debug, PartialEq)]
pub struct OnPath {
    pub player: u32,
    /// The share of the training rows that take its branches to the leaf, among those that come to them.
    pub share: f64,
    /// Its nodes on the path, from the root, and whether the path goes right there.
    pub steps: Vec<(u32, bool)>,
}

/// The way from the root to a leaf: its players in the order in which they are first asked.
pub type Path = Vec<OnPath>;

/// A leaf's shares alone, one a player.
pub fn shares(path: &[OnPath]) -> Vec<f64> {
    path.iter().map(|p| p.share).collect()
}

impl ExplainedTree {
    /// Returns the root.
    pub fn root(&self) -> Child {
        if self.nodes.is_empty() { Child::Leaf(0) } else { Child::Node(0) }
    }

    /// Returns the number of leaves.
    pub fn leaves(&self) -> usize {
        self.covers.len()
    }

    /// Returns what a leaf adds to each of the tree's outputs.
    pub fn leaf_values(&self, leaf: u32) -> &[f64] {
        &self.values[leaf as usize * self.outputs..][..self.outputs]
    }

    /// Computes the share of each node's rows that go left and right. Where no row came, each side has half of none.
    pub fn branch_shares(&self) -> Vec<[f64; 2]> {
        let mut covers = vec![0.0; self.nodes.len()];
        let mut shares = vec![[0.5; 2]; self.nodes.len()];
        for (i, node) in self.nodes.iter().enumerate().rev() {
            let [left, right] = [node.left, node.right].map(|child| match child {
                Child::Node(k) => covers[k as usize],
                Child::Leaf(k) => self.covers[k as usize],
            });
            covers[i] = left + right;
            if covers[i] > 0.0 {
                shares[i] = [left / covers[i], right / covers[i]];
            }
        }
        shares
    }

    /// Calls `visit(leaf, path)` for each leaf, from left to right.
    pub fn for_paths(&self, mut visit: impl FnMut(u32, &[OnPath])) {
        let shares = self.branch_shares();
        // A step to undo stands below what comes after it.
        enum Task {
            Enter(Child),
            Step(u32, bool),
            Back(usize, bool, f64),
        }
        let (mut path, mut tasks): (Path, Vec<Task>) = (vec![], vec![Task::Enter(self.root())]);
        while let Some(task) = tasks.pop() {
            match task {
                Task::Enter(Child::Leaf(leaf)) => visit(leaf, &path),
                Task::Enter(Child::Node(node)) => tasks.extend([Task::Step(node, true), Task::Step(node, false)]),
                Task::Step(index, right) => {
                    let node = &self.nodes[index as usize];
                    let at = path.iter().position(|p| p.player == node.player);
                    let place = at.unwrap_or(path.len());
                    if at.is_none() {
                        path.push(OnPath { player: node.player, share: 1.0, steps: vec![] });
                    }
                    tasks.push(Task::Back(place, at.is_none(), path[place].share));
                    path[place].share *= shares[index as usize][right as usize];
                    path[place].steps.push((index, right));
                    tasks.push(Task::Enter(if right { node.right } else { node.left }));
                }
                Task::Back(place, was_new, share) => {
                    path[place].steps.pop();
                    path[place].share = share;
                    if was_new {
                        path.pop();
                    }
                }
            }
        }
    }

    /// Measures the tree's paths.
    pub fn extent(&self) -> Extent {
        let mut extent = Extent { players: 0, depth: 0, steps: 0 };
        let players = self.nodes.iter().map(|n| n.player as usize + 1).max().unwrap_or(0);
        let (mut times, mut distinct, mut depth) = (vec![0u32; players], 0, 0);
        // A node that is left again stands below its children.
        let mut tasks = vec![(self.root(), false)];
        while let Some((child, is_left)) = tasks.pop() {
            let Child::Node(index) = child else {
                extent.players = extent.players.max(distinct);
                extent.depth = extent.depth.max(depth);
                extent.steps += depth;
                continue;
            };
            let node = &self.nodes[index as usize];
            let times = &mut times[node.player as usize];
            if is_left {
                *times -= 1;
                distinct -= (*times == 0) as usize;
                depth -= 1;
            } else {
                distinct += (*times == 0) as usize;
                *times += 1;
                depth += 1;
                tasks.extend([(child, true), (node.right, false), (node.left, false)]);
            }
        }
        extent
    }

    /// Computes the share of the training rows that each leaf has.
    pub fn leaf_shares(&self) -> Vec<f64> {
        let branches = self.branch_shares();
        let (mut nodes, mut leaves) = (vec![1.0; self.nodes.len()], vec![1.0; self.leaves()]);
        for (i, node) in self.nodes.iter().enumerate() {
            for (child, share) in [node.left, node.right].into_iter().zip(branches[i]) {
                match child {
                    Child::Node(k) => nodes[k as usize] = nodes[i] * share,
                    Child::Leaf(k) => leaves[k as usize] = nodes[i] * share,
                }
            }
        }
        leaves
    }
}

/// How far a tree's paths reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The most players on a path.
    pub players: usize,
    /// The most nodes on a path.
    pub depth: usize,
    /// The nodes on all paths together.
    pub steps: usize,
}
