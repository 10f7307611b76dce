//! The values of a tree's leaves from the sums of their derivatives.

use super::steps::LeafSums;
use crate::tree::Tree;
use crate::tree::model::Child;
use crate::tree::split::{Inherited, SplitRules};

/// Returns the value of each leaf of a tree by Newton's step, within the leaf's `bounds`; where values are smoothed, each node's between its own
/// and its parent's, from the root down. The root is not smoothed.
pub(super) fn leaf_values(tree: &Tree, rules: &SplitRules, sums: &[LeafSums], bounds: &[(f64, f64)]) -> Vec<f64> {
    let parents = if rules.path_smooth > 0.0 { parents(tree, rules, sums) } else { vec![None; sums.len()] };
    let value = |((s, bounds), parent): ((&LeafSums, &(f64, f64)), &Option<f64>)| {
        let inherited = Inherited { bounds: *bounds, value: parent.unwrap_or_else(|| rules.own_value(s.gradient, s.hessian)) };
        rules.leaf_value(s.gradient, s.hessian, s.count as f64, &inherited)
    };
    sums.iter().zip(bounds).zip(&parents).map(value).collect()
}

/// Moves the values of a tree's leaves by a further step, from the sums of the derivatives at these values: by what a first step would be, as far as
/// `max_delta_step` and the leaf's `bounds` allow.
pub(super) fn step_on(tree: &Tree, rules: &SplitRules, sums: &[LeafSums], bounds: &[(f64, f64)], values: &mut [f64]) {
    let steps = leaf_values(tree, rules, sums, &vec![Inherited::NOTHING.bounds; sums.len()]);
    for ((value, step), bounds) in values.iter_mut().zip(steps).zip(bounds) {
        let moved = (*value + step).max(-rules.max_delta_step).min(rules.max_delta_step);
        *value = moved.max(bounds.0).min(bounds.1);
    }
}

/// Returns the value of the node above each leaf; none above a leaf that is the root.
fn parents(tree: &Tree, rules: &SplitRules, sums: &[LeafSums]) -> Vec<Option<f64>> {
    let add =
        |a: LeafSums, b: LeafSums| LeafSums { gradient: a.gradient + b.gradient, hessian: a.hessian + b.hessian, count: a.count + b.count };
    let value = |s: &LeafSums, parent: Option<f64>| match parent {
        None => rules.own_value(s.gradient, s.hessian),
        Some(value) => rules.leaf_value(s.gradient, s.hessian, s.count as f64, &Inherited { value, ..Inherited::NOTHING }),
    };
    match tree {
        Tree::Symmetric { splits, .. } => {
            // The sums of each level's nodes, the leaves' first.
            let mut levels = vec![sums.to_vec()];
            for _ in splits {
                let pairs = levels[levels.len() - 1].chunks(2).map(|pair| pair.iter().copied().fold(LeafSums::default(), add)).collect();
                levels.push(pairs);
            }
            let mut above = vec![None];
            for level in levels[1..].iter().rev() {
                above = level.iter().zip(above).flat_map(|(s, parent)| [Some(value(s, parent)); 2]).collect();
            }
            above
        }
        Tree::Branching { nodes, .. } => {
            // Children stand behind their parents.
            let mut of_nodes = vec![LeafSums::default(); nodes.len()];
            for (i, node) in nodes.iter().enumerate().rev() {
                let of_child = |child: Child| match child {
                    Child::Node(n) => of_nodes[n as usize],
                    Child::Leaf(l) => sums[l as usize],
                };
                of_nodes[i] = add(of_child(node.left), of_child(node.right));
            }
            let (mut above_nodes, mut above) = (vec![None; nodes.len()], vec![None; sums.len()]);
            for (i, node) in nodes.iter().enumerate() {
                let own = Some(value(&of_nodes[i], above_nodes[i]));
                for child in [node.left, node.right] {
                    match child {
                        Child::Node(n) => above_nodes[n as usize] = own,
                        Child::Leaf(l) => above[l as usize] = own,
                    }
                }
            }
            above
        }
    }
}
