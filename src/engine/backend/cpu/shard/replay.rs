//! Trees that grew on another set of scores, followed by rows with other codes.

use super::super::group::group_of;
use super::super::plan::Home;
use super::{Shard, TreeContext, code_test};
use crate::boosting::loss::Loss;
use crate::tree::Tree;

impl Shard {
    /// Sends every row through a tree, as the last one of the context's output; gives for each leaf the
    /// fixed-point sums of that output's derivatives over the rows drawn, and how many these are.
    pub fn replay(&mut self, loss: &dyn Loss, tree: &TreeContext<'_>, grown: &Tree) -> Vec<((i64, i64), u64)> {
        let mut leaf = std::mem::take(&mut self.leaf[tree.output]);
        let leaves = grown.leaves().len();
        let (mut sums, mut counts) = (vec![(0i64, 0i64); leaves], vec![0u64; leaves]);
        for batch in 0..self.batches() {
            let range = self.derive(loss, tree.output, batch, true);
            match grown {
                Tree::Symmetric { splits, .. } => {
                    leaf[range.clone()].fill(0);
                    splits.iter().for_each(|split| self.follow(split, tree, range.start, &mut leaf[range.clone()]));
                }
                Tree::Branching { .. } => range.clone().for_each(|row| leaf[row] = self.walk(grown, row, tree) as u16),
            }
            let n = range.len();
            tree.encoding.add_to_leaves(&self.gradient[..n], &self.hessian[..n], &leaf[range.clone()], &mut sums);
            for row in range {
                counts[leaf[row] as usize] += self.bag.as_ref().is_none_or(|b| b[row] != 0.0) as u64;
            }
        }
        self.leaf[tree.output] = leaf;
        // Leaves take the place of nodes, should their rows be wanted.
        self.nodes.clear();
        self.nodes.resize(leaves, Default::default());
        self.by_node = true;
        sums.into_iter().zip(counts).collect()
    }

    /// One level of a symmetric tree: the side of rows `start ..` becomes the last digit of their
    /// places.
    fn follow(&self, split: &crate::tree::Split, tree: &TreeContext<'_>, start: usize, places: &mut [u16]) {
        let (group, inside) = group_of(tree.groups, split.feature as usize);
        let (plan, codes) = (&tree.groups[group].plan, &self.groups[group]);
        let feature = &tree.features[split.feature as usize];
        let test = code_test(feature, split.border, split.missing_left);
        match plan.homes[inside] {
            Home::Column(column) if !feature.categories => {
                let codes = codes.column(&plan.layout, column);
                let codes = codes.bytes[start * codes.stride..].iter().step_by(codes.stride);
                places.iter_mut().zip(codes).for_each(|(place, code)| *place = 2 * *place + test.right(*code) as u16);
            }
            _ => {
                for (row, place) in (start..).zip(places) {
                    let code = codes.code(plan, inside, row);
                    let right = if feature.categories { tree.subsets[split.border as usize].contains(code) } else { test.right(code) };
                    *place = 2 * *place + right as u16;
                }
            }
        }
    }
}
