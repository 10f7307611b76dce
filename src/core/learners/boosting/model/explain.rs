//! What a model's trees say of its features.
use super::Model;
use crate::tree::linear::of_tree;
use crate::tree::model::{Child, Leaf, Split, Tree};

/// What importance is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Importance {
    /// The total gain of the feature's splits.
    Gain,
    /// The number of the feature's splits; a level of a symmetric tree counts as one.
    Split,
    /// The sum of hessians of the rows that met the feature's splits, over all splits.
    Cover,
}

/// One node or leaf of a tree, for a table.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRow {
    /// Index into the model's trees.
    pub tree: u32,
    /// The boosting round, from 0.
    pub round: u32,
    /// The output that the tree adds to.
    pub output: u32,
    /// Counted breadth-first inside the tree, the root is 0.
    pub node: u32,
    /// The root's is 0.
    pub depth: u32,
    /// The `node` of the left child; none for a leaf.
    pub left: Option<u32>,
    /// The `node` of the right child; none for a leaf.
    pub right: Option<u32>,
    /// Index into the model's features, and behind them its derived ones; none for a leaf.
    pub feature: Option<u32>,
    /// Larger values go right; +∞ where only missing values do. None for a leaf.
    pub border: Option<f64>,
    /// Where a missing value goes; none for a leaf.
    pub missing_left: Option<bool>,
    /// By how much the split lowered the loss; none for a leaf. The gain of a symmetric tree's
    /// level stands at the level's first node and nowhere else, so that sums come out right.
    pub gain: Option<f64>,
    /// In units of the target (or of the score), the learning rate included.
    /// None for an inner node.
    pub value: Option<f64>,
    /// The leaf's index as `output="leaf"` counts; none for an inner node.
    pub leaf: Option<u32>,
    /// The sum of hessians of the training rows that came here.
    pub weight: f64,
    /// The number of training rows that came here.
    pub count: u64,
    /// What a leaf's value is a linear function of; none for an inner node, and for a leaf that is a number.
    pub linear: Option<Box<LinearRow>>,
}

/// A leaf's linear function of the values of its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearRow {
    /// In units of the target (or of the score), the learning rate included, and so the coefficients.
    pub constant: f64,
    /// Indices into the model's features.
    pub features: Vec<u32>,
    pub coefficients: Vec<f64>,
}

/// A tree of either kind, seen as a branching one, breadth-first.
enum Below<'a> {
    /// The split, whether its gain is told here, and the children as indices into the list.
    Inner {
        split: &'a Split,
        first: bool,
        left: u32,
        right: u32,
    },
    Leaf(u32),
}

/// Nodes and leaves breadth-first with their depth; children stand behind their parents.
fn breadth_first(tree: &Tree) -> Vec<(Below<'_>, u32)> {
    let mut list = Vec::with_capacity(2 * tree.leaves().len());
    match tree {
        Tree::Symmetric { splits, leaves } => {
            for (depth, split) in splits.iter().enumerate() {
                let next = (2u32 << depth) - 1;
                for k in 0..1u32 << depth {
                    list.push((Below::Inner { split, first: k == 0, left: next + 2 * k, right: next + 2 * k + 1 }, depth as u32));
                }
            }
            list.extend((0..leaves.len() as u32).map(|k| (Below::Leaf(k), splits.len() as u32)));
        }
        Tree::Branching { nodes, .. } => {
            // A queue of children whose own place is the order in which they join it.
            let mut queue = vec![(if nodes.is_empty() { Child::Leaf(0) } else { Child::Node(0) }, 0u32)];
            let mut at = 0;
            while at < queue.len() {
                let (child, depth) = queue[at];
                at += 1;
                list.push(match child {
                    Child::Leaf(k) => (Below::Leaf(k), depth),
                    Child::Node(i) => {
                        let (node, left) = (&nodes[i as usize], queue.len() as u32);
                        queue.extend([(node.left, depth + 1), (node.right, depth + 1)]);
                        (Below::Inner { split: &node.split, first: true, left, right: left + 1 }, depth)
                    }
                });
            }
        }
    }
    list
}

/// The weight and count of each entry of `list`: a leaf's own, an inner node's from its children.
fn covers(list: &[(Below<'_>, u32)], leaves: &[Leaf]) -> Vec<(f64, u64)> {
    let mut cover = vec![(0.0, 0); list.len()];
    for (i, (below, _)) in list.iter().enumerate().rev() {
        cover[i] = match below {
            Below::Leaf(k) => (leaves[*k as usize].weight as f64, leaves[*k as usize].count as u64),
            Below::Inner { left, right, .. } => {
                let (l, r) = (cover[*left as usize], cover[*right as usize]);
                (l.0 + r.0, l.1 + r.1)
            }
        };
    }
    cover
}

impl Model {
    /// One number a column, in the model's order; zero for a column that no split asks about. A
    /// split on a combination of columns counts for each of them in equal parts.
    /// Sums, not shares: divide by the total for shares.
    pub fn importance(&self, kind: Importance) -> Vec<f64> {
        let mut out = vec![0.0; self.features.len()];
        let mut add = |split: &Split, what: f64| match self.derived.is_empty() {
            true => out[split.feature as usize] += what,
            false => {
                let columns = self.columns_of(split.feature);
                columns.iter().for_each(|c| out[*c as usize] += what / columns.len() as f64);
            }
        };
        for tree in &self.trees {
            match kind {
                Importance::Gain => tree.splits().for_each(|s| add(s, s.gain as f64 * self.units.gain)),
                Importance::Split => tree.splits().for_each(|s| add(s, 1.0)),
                Importance::Cover => {
                    let list = breadth_first(tree);
                    for ((below, _), cover) in list.iter().zip(covers(&list, tree.leaves())) {
                        if let Below::Inner { split, .. } = below {
                            add(split, cover.0 * self.units.weight);
                        }
                    }
                }
            }
        }
        out
    }

    /// Every node and leaf of every tree, tree after tree and breadth-first inside a tree;
    /// symmetric trees are written out as branching ones.
    pub fn node_table(&self) -> Vec<NodeRow> {
        let outputs = self.outputs().max(1);
        let mut rows = Vec::new();
        for (t, tree) in self.trees.iter().enumerate() {
            let list = breadth_first(tree);
            let (covers, linear) = (covers(&list, tree.leaves()), of_tree(&self.linear, t));
            for (node, ((below, depth), (weight, count))) in list.into_iter().zip(covers).enumerate() {
                let mut row = NodeRow {
                    tree: t as u32,
                    round: (t / outputs) as u32,
                    output: (t % outputs) as u32,
                    node: node as u32,
                    depth,
                    left: None,
                    right: None,
                    feature: None,
                    border: None,
                    missing_left: None,
                    gain: None,
                    value: None,
                    leaf: None,
                    weight: weight * self.units.weight,
                    count,
                    linear: None,
                };
                match below {
                    Below::Leaf(k) => {
                        row.leaf = Some(k);
                        row.value = Some(tree.leaves()[k as usize].value * self.scale);
                        row.linear = linear.binary_search_by_key(&k, |leaf| leaf.leaf).ok().map(|at| {
                            let (features, coefficients) = linear[at].terms.iter().map(|(f, c)| (*f, c * self.scale)).unzip();
                            Box::new(LinearRow { constant: linear[at].constant * self.scale, features, coefficients })
                        });
                    }
                    Below::Inner { split, first, left, right } => {
                        (row.left, row.right) = (Some(left), Some(right));
                        row.feature = Some(split.feature);
                        row.border = Some(self.border(split));
                        row.missing_left = Some(split.missing_left);
                        row.gain = first.then_some(split.gain as f64 * self.units.gain);
                    }
                }
                rows.push(row);
            }
        }
        rows
    }

    /// The border of a split as a number: larger values go right.
    pub(super) fn border(&self, split: &Split) -> f64 {
        self.borders(split.feature).get(split.border as usize).copied().unwrap_or(f64::INFINITY)
    }
}
