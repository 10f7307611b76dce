//! Trees that a device has grown whole: from a heap of splits to what the grower would have made of them.

use super::{GainUnit, GrownTree, by_levels};
use crate::tree::model::{Leaf, Node, Tree};
use crate::tree::params::{Policy, TreeParams};
use crate::tree::split::{Scales, SplitRules};
use crate::tree::steps::{Candidate, NodeId};

/// A tree under a policy by levels, as a heap: the children of node `i` are `2 i + 1` (left) and `2 i + 2`.
///
/// Which of its nodes are split is what the grower would decide: where a level has one split for all, every node of the level has it.
pub struct WholeTree {
    /// The splits of the first nodes of the heap, at least of all that are split.
    pub splits: Vec<Option<Candidate>>,
    /// What the sums behind the tree are in units of.
    pub scales: Scales,
}

impl WholeTree {
    /// Returns the tree as the grower gives it: leaves in its order, each with its place in the heap as its node.
    pub fn finish(&self, params: &TreeParams) -> GrownTree {
        let mut gains = GainUnit::default();
        let (tree, leaves) = match params.policy {
            Policy::Symmetric => self.symmetric(params, &mut gains),
            _ => self.branching(&mut gains),
        };
        let bounds = vec![(f64::NEG_INFINITY, f64::INFINITY); leaves.len()];
        GrownTree { tree, leaves, bounds, rules: SplitRules::new(params, self.scales), gain_exponent: gains.exponent() }
    }

    fn split(&self, place: NodeId) -> Option<&Candidate> {
        self.splits.get(place as usize)?.as_ref()
    }

    fn symmetric(&self, params: &TreeParams, gains: &mut GainUnit) -> (Tree, Vec<NodeId>) {
        let (mut splits, mut level) = (vec![], vec![0]);
        while let Some(candidate) = self.split(level[0]).filter(|_| splits.len() < params.depth as usize) {
            splits.push(gains.split(candidate));
            level = level.into_iter().flat_map(|place| [2 * place + 1, 2 * place + 2]).collect();
        }
        (Tree::Symmetric { splits, leaves: vec![Leaf::default(); level.len()] }, level)
    }

    fn branching(&self, gains: &mut GainUnit) -> (Tree, Vec<NodeId>) {
        let (numbered, leaves) = by_levels(0, |place| self.split(place).map(|split| (split, [2 * place + 1, 2 * place + 2])));
        let nodes = numbered.into_iter().map(|(split, [left, right])| Node { split: gains.split(split), left, right }).collect();
        (Tree::Branching { nodes, leaves: vec![Leaf::default(); leaves.len()] }, leaves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Result;
    use crate::tree::grow::{Features, Root, grow};
    use crate::tree::params::SplitParams;
    use crate::tree::split::{CategoryRules, Sums};
    use crate::tree::steps::{Division, GrowSteps, SearchNode, Speculation};
    use proptest::prelude::*;

    /// A device that answers from a heap, in whatever order it is asked.
    struct Heap {
        splits: Vec<Option<Candidate>>,
        places: Vec<usize>,
    }

    const ROOT: Sums = Sums { gradient: 1 << 40, hessian: 1 << 40, count: 1 << 40 };

    impl Heap {
        fn find(&self, node: &SearchNode) -> Option<(Candidate, Sums)> {
            let half = Sums { gradient: node.sums.gradient / 2, hessian: node.sums.hessian / 2, count: node.sums.count / 2 };
            Some((self.splits.get(self.places[node.id as usize]).copied().flatten()?, half))
        }
    }

    impl GrowSteps for Heap {
        fn find_splits(&mut self, nodes: &[SearchNode], _: &SplitRules) -> Result<Vec<Option<(Candidate, Sums)>>> {
            Ok(nodes.iter().map(|n| self.find(n)).collect())
        }

        fn find_level_split(&mut self, nodes: &[SearchNode], _: &SplitRules) -> Result<Option<(Candidate, Vec<Sums>)>> {
            let found: Option<Vec<_>> = nodes.iter().map(|n| self.find(n)).collect();
            Ok(found.map(|f| (f[0].0, f.iter().map(|(_, left)| *left).collect())))
        }

        fn partition(&mut self, divisions: &[Division]) -> Result<()> {
            for d in divisions {
                let place = self.places[d.parent as usize];
                self.places.resize(self.places.len().max(d.right as usize + 1), 0);
                (self.places[d.left as usize], self.places[d.right as usize]) = (2 * place + 1, 2 * place + 2);
            }
            Ok(())
        }

        fn speculation(&self) -> Speculation {
            Speculation { most: 1, share: 1.0 }
        }

        fn take_back(&mut self, _: &[Division]) -> Result<()> {
            Ok(())
        }
    }

    struct All;

    impl Features<Heap> for All {
        fn open(&mut self, _: &mut Heap, _: &[u32], _: &[SearchNode]) -> Result<()> {
            Ok(())
        }

        fn may_open(&self) -> bool {
            false
        }

        fn open_features(&self) -> &[u32] {
            &[0, 1, 2]
        }

        fn columns(&self, _: u32) -> &[u32] {
            &[]
        }

        fn borders(&self, _: u32) -> Option<u32> {
            Some(9)
        }
    }

    proptest! {
        /// Proves that a whole tree becomes what the grower makes of the same splits: its shape, its gains, and its leaves.
        #[test]
        fn whole_trees_are_the_growers(
            asked in prop::collection::vec(prop::option::weighted(0.7, (0u32..3, 0u32..9, any::<bool>(), -300i32..300)), 31),
            symmetric in any::<bool>(),
            depth in 1u32..6,
        ) {
            let candidate = |(feature, border, missing_left, gain): (u32, u32, bool, i32)| {
                Candidate { feature, border, missing_left, gain: libm::ldexp(1.5, gain), rank: 0.0 }
            };
            let mut splits: Vec<Option<Candidate>> = asked.into_iter().map(|s| s.map(candidate)).collect();
            splits.truncate((1 << depth) - 1);
            if symmetric {
                // One split for all nodes of a level.
                (0..splits.len()).for_each(|i| splits[i] = splits[(1 << (i + 1).ilog2()) - 1]);
            }
            let params = TreeParams {
                policy: if symmetric { Policy::Symmetric } else { Policy::Depthwise },
                depth,
                leaves: 31,
                split: SplitParams {
                    l1: 0.0,
                    l2: 1.0,
                    min_child_weight: 0.0,
                    min_data_in_leaf: 0,
                    min_gain: 0.0,
                    max_delta_step: f64::INFINITY,
                    path_smooth: 0.0,
                    categories: CategoryRules::default(),
                },
                feature_fraction: 1.0,
                feature_fraction_level: 1.0,
                feature_fraction_node: 1.0,
                extra_trees: false,
                monotone: vec![],
                interaction: vec![],
                weights: vec![],
                seed: 0,
            };
            let scales = Scales { gradient: 1.0, hessian: 1.0 };
            let mut heap = Heap { splits: splits.clone(), places: vec![0] };
            let begun = Root { tree: 0, sums: ROOT, scales, noise: 0.0 };
            let grown = grow(&mut heap, &params, &mut All, begun, &mut f64::INFINITY.clone(), &|| false).unwrap();
            let whole = WholeTree { splits, scales }.finish(&params);
            prop_assert_eq!(&whole.tree, &grown.tree);
            prop_assert_eq!(whole.gain_exponent, grown.gain_exponent);
            let places: Vec<NodeId> = grown.leaves.iter().map(|l| heap.places[*l as usize] as NodeId).collect();
            prop_assert_eq!(whole.leaves, places);
        }
    }
}
