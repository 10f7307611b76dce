//! Trees that grew on another set of scores, followed by rows with other codes.

use super::{NodeRows, Shard, TreeContext, code_test};
use crate::trees::feature_groups::group_of;
use crate::trees::gradient_quantizer::BATCH;
use crate::trees::partition;
use crate::trees::partition::{CodeTest, Done, FeatureCodes, Source};
use taiga_core::learners::boosting::layout::Home;
use taiga_core::losses::Loss;
use taiga_core::spill::Array;
use taiga_core::tree::model::{Child, Node};
use taiga_core::tree::{Split, Tree};

impl Shard {
    /// Sends every row through a tree, as the last one of the context's output; returns for each leaf the fixed-point sums of
    /// that output's derivatives over the rows drawn, and how many these are.
    pub fn replay(&mut self, loss: &dyn Loss, tree: &TreeContext<'_>, grown: &Tree) -> Vec<((i64, i64), u64)> {
        let mut leaf = std::mem::take(&mut self.leaf[tree.output]);
        let leaves = grown.leaves().len();
        let (mut sums, mut counts) = (vec![(0i64, 0i64); leaves], vec![0u64; leaves]);
        if let Tree::Branching { nodes, .. } = grown {
            self.route(nodes, NodeRows { list: 0, start: 0, len: self.rows, spare: 0, all: true }, tree, &mut leaf);
        }
        for batch in 0..self.batches() {
            let range = self.derive(loss, tree.output, batch, true);
            if let Tree::Symmetric { splits, .. } = grown {
                self.follow_all(splits, tree, range.start, &mut leaf[range.clone()]);
            }
            let n = range.len();
            tree.quantizer.add_to_leaves(&self.gradient[..n], &self.hessian[..n], &leaf[range.clone()], &mut sums);
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

    /// Gives rows that were not drawn for the tree that has grown their leaves. The lists' ends behind those that were are
    /// free for them.
    pub(super) fn route_others(&mut self, grown: &Tree, tree: &TreeContext<'_>, leaf: &mut [u16]) {
        let Some(bag) = &self.bag else { return };
        match grown {
            Tree::Symmetric { splits, .. } => {
                let mut places = [0; BATCH];
                for start in (0..self.rows).step_by(BATCH) {
                    let range = start..self.rows.min(start + BATCH);
                    if bag[range.clone()].contains(&0.0) {
                        let places = &mut places[..range.len()];
                        self.follow_all(splits, tree, start, places);
                        let others = leaf[range.clone()].iter_mut().zip(&bag[range]).zip(places).filter(|((_, drawn), _)| **drawn == 0.0);
                        others.for_each(|((leaf, _), place)| *leaf = *place);
                    }
                }
            }
            Tree::Branching { nodes, .. } => {
                let (start, mut end) = (self.nodes[0].len, self.nodes[0].len);
                for (row, _) in bag.iter().enumerate().filter(|(_, drawn)| **drawn == 0.0) {
                    self.lists[0][end] = row as u32;
                    end += 1;
                }
                self.route(nodes, NodeRows { list: 0, start, len: end - start, spare: start, all: false }, tree, leaf);
            }
        }
    }

    /// Sends rows through a branching tree, those of a node together, and notes their leaves.
    fn route(&mut self, nodes: &[Node], rows: NodeRows, tree: &TreeContext<'_>, leaf: &mut [u16]) {
        let mut places = vec![NodeRows::default(); nodes.len()];
        let mut arrive = |child: Child, rows: NodeRows, places: &mut [NodeRows], lists: &[Array<u32>; 2]| match child {
            Child::Node(node) => places[node as usize] = rows,
            Child::Leaf(number) if rows.all => leaf.fill(number as u16),
            Child::Leaf(number) => {
                let list = &lists[rows.list as usize][rows.start..rows.start + rows.len];
                list.iter().for_each(|row| leaf[*row as usize] = number as u16);
            }
        };
        arrive(if nodes.is_empty() { Child::Leaf(0) } else { Child::Node(0) }, rows, &mut places, &self.lists);
        for (i, node) in nodes.iter().enumerate() {
            let (left, right) = self.partition_listed(places[i], &node.split, tree);
            arrive(node.left, left, &mut places, &self.lists);
            arrive(node.right, right, &mut places, &self.lists);
        }
    }

    /// Partitions listed rows by a split of any kind; returns where the left and the right ones stand.
    fn partition_listed(&mut self, rows: NodeRows, split: &Split, tree: &TreeContext<'_>) -> (NodeRows, NodeRows) {
        let (group, inside) = group_of(tree.groups, split.feature as usize);
        let (plan, feature) = (&tree.groups[group].plan, &tree.features[split.feature as usize]);
        let NodeRows { list, start, len, spare, all } = rows;
        let (codes, test) = match plan.homes[inside] {
            Home::Column(column) if !feature.categories => {
                (self.groups[group].column(&plan.layout, column), code_test(feature, split.border, split.missing_left))
            }
            _ => {
                self.in_subset.resize(self.rows, 0);
                let listed = &self.lists[list as usize][if all { 0..0 } else { start..start + len }];
                for row in (0..if all { len } else { 0 }).chain(listed.iter().map(|r| *r as usize)) {
                    self.in_subset[row] = self.goes_right(split, row, tree) as u8;
                }
                (FeatureCodes { bytes: &self.in_subset, stride: 1 }, CodeTest::new(0, true))
            }
        };
        let (low, high) = self.lists.split_at_mut(1);
        let (from, to) = if list == 0 { (&mut low[0], &mut high[0]) } else { (&mut high[0], &mut low[0]) };
        let (from, to) = (&mut from[start..start + len], &mut to[spare..spare + len]);
        let mut done = Done::default();
        let source = if all { Source::All } else { Source::List };
        // SAFETY: the lists hold nothing but rows of this shard, whose codes these are.
        unsafe { partition::partition_rows(codes, test, source, from, 0, len, to, &mut done) };
        (
            NodeRows { list: 1 - list, start: spare, len: done.left, spare: start + done.right, all: false },
            NodeRows { list, start, len: done.right, spare: spare + done.left, all: false },
        )
    }

    /// Returns whether a row goes right at a split, by its code.
    fn goes_right(&self, split: &Split, row: usize, tree: &TreeContext<'_>) -> bool {
        let (group, inside) = group_of(tree.groups, split.feature as usize);
        let code = self.groups[group].code(&tree.groups[group].plan, inside, row);
        match &tree.features[split.feature as usize] {
            feature if feature.categories => tree.subsets[split.border as usize].contains(code),
            feature => code_test(feature, split.border, split.missing_left).right(code),
        }
    }

    /// Finds the leaf of each of the rows `start ..` in a symmetric tree.
    fn follow_all(&self, splits: &[Split], tree: &TreeContext<'_>, start: usize, places: &mut [u16]) {
        places.fill(0);
        splits.iter().for_each(|split| self.follow(split, tree, start, places));
    }

    /// Follows one level of a symmetric tree: the side of rows `start ..` becomes the last digit of their
    /// places.
    fn follow(&self, split: &Split, tree: &TreeContext<'_>, start: usize, places: &mut [u16]) {
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
                (start..).zip(places).for_each(|(row, place)| *place = 2 * *place + self.goes_right(split, row, tree) as u16);
            }
        }
    }
}
