//! Monotone constraints for leaves that are refitted after the tree has grown.

use crate::tree::Tree;
use crate::tree::model::Child;

/// Moves leaf values so that every split on a constrained feature keeps the leaves on both its
/// sides to their side of the middle of their means. `monotone` has -1, 0 or 1 for each feature.
pub fn enforce(tree: &Tree, monotone: &[i8], values: &mut [f64]) {
    if monotone.iter().all(|d| *d == 0) {
        return;
    }
    match tree {
        Tree::Symmetric { splits, .. } => {
            for (level, split) in splits.iter().enumerate() {
                let direction = monotone.get(split.feature as usize).copied().unwrap_or(0);
                let (size, half) = (values.len() >> level, values.len() >> (level + 1));
                for node in values.chunks_mut(size) {
                    let (left, right) = node.split_at_mut(half);
                    part(direction, &mut left.iter_mut().collect::<Vec<_>>(), &mut right.iter_mut().collect::<Vec<_>>());
                }
            }
        }
        Tree::Branching { nodes, .. } => {
            // Children stand behind their parents, so a node is met after all above it.
            for node in nodes {
                let direction = monotone.get(node.split.feature as usize).copied().unwrap_or(0);
                if direction == 0 {
                    continue;
                }
                let (left, right) = (below(nodes, node.left), below(nodes, node.right));
                let mut sides: (Vec<&mut f64>, Vec<&mut f64>) = (vec![], vec![]);
                for (i, v) in values.iter_mut().enumerate() {
                    if left.contains(&i) {
                        sides.0.push(v);
                    } else if right.contains(&i) {
                        sides.1.push(v);
                    }
                }
                part(direction, &mut sides.0, &mut sides.1);
            }
        }
    }
}

/// Returns the leaves below a child.
fn below(nodes: &[crate::tree::model::Node], child: Child) -> std::collections::BTreeSet<usize> {
    let mut open = vec![child];
    let mut leaves = std::collections::BTreeSet::new();
    while let Some(child) = open.pop() {
        match child {
            Child::Leaf(leaf) => {
                leaves.insert(leaf as usize);
            }
            Child::Node(n) => open.extend([nodes[n as usize].left, nodes[n as usize].right]),
        }
    }
    leaves
}

fn part<'a>(direction: i8, left: &mut [&'a mut f64], right: &mut [&'a mut f64]) {
    if direction == 0 || left.is_empty() || right.is_empty() {
        return;
    }
    let (low, high): (&mut [&'a mut f64], &mut [&'a mut f64]) = if direction > 0 { (left, right) } else { (right, left) };
    let mean = |side: &[&'a mut f64]| side.iter().map(|v| **v).sum::<f64>() / side.len() as f64;
    let (least, largest) = (high.iter().fold(f64::INFINITY, |m, v| m.min(**v)), low.iter().fold(f64::NEG_INFINITY, |m, v| m.max(**v)));
    if largest <= least {
        return;
    }
    let middle = 0.5 * (mean(low) + mean(high));
    low.iter_mut().for_each(|v| **v = v.min(middle));
    high.iter_mut().for_each(|v| **v = v.max(middle));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{Leaf, Split};

    #[test]
    fn values_of_a_symmetric_tree_rise_with_the_feature() {
        let split = |feature| Split { feature, border: 0, missing_left: true, gain: 1.0 };
        let tree = Tree::Symmetric { splits: vec![split(0), split(1)], leaves: vec![Leaf::default(); 4] };
        let mut values = [3.0, 1.0, 2.0, 4.0];
        enforce(&tree, &[1, 0], &mut values);
        assert!(values[0].max(values[1]) <= values[2].min(values[3]));
        let mut untouched = [3.0, 1.0, 2.0, 4.0];
        enforce(&tree, &[0, 0], &mut untouched);
        assert_eq!(untouched, [3.0, 1.0, 2.0, 4.0]);
        let mut both = [3.0, 1.0, 2.0, 4.0];
        enforce(&tree, &[1, 1], &mut both);
        assert!(both[0] <= both[1] && both[2] <= both[3] && both[0] <= both[2] && both[1] <= both[3]);
    }
}
