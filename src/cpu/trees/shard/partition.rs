//! Partitions the rows of a shard's nodes, and sums the histograms of the smaller children.

use super::{FEW_ROWS, NodeRows, Partial, Shard, ShardGroup, TreeContext, code_test};
use crate::trees::feature_groups::group_of;
use crate::trees::partition::{self, CodeTest, Done, FeatureCodes, Source};
use crate::trees::presorted::Presorted;
use std::ops::Range;
use taiga_core::learners::boosting::layout::Home;
use taiga_core::tree::steps::Division;

impl Shard {
    /// Partitions the rows of the divisions' nodes, and sums the smaller children's histograms in the open groups, in order
    /// for each division that asks for histograms. Returns for each division whether it has any: none has where the rows of
    /// both children are so few that they are searched one by one.
    pub fn partition(&mut self, divisions: &[Division], tree: &TreeContext<'_>) -> Vec<bool> {
        self.groups.iter_mut().for_each(ShardGroup::recycle);
        if self.partitions_level(divisions, tree) {
            return self.partition_level(divisions, tree);
        }
        self.list_rows(tree.output, &[]);
        divisions.iter().map(|d| self.partition_node(d, tree)).collect()
    }

    /// Returns whether nodes of at most [`FEW_ROWS`] rows are searched without histograms: where one shard has all of a node's
    /// rows, whose outputs are not several, and can read their codes by feature.
    fn searches_rows(&self, tree: &TreeContext<'_>) -> bool {
        let codes_at_hand = self.groups[0].columns.is_some() && tree.groups[0].plan.sparse.is_empty();
        self.alone() && codes_at_hand && tree.has_one_word() && tree.shared.is_none()
    }

    /// Partitions the rows of one node, in steps that its histograms are summed in; returns whether it has histograms.
    fn partition_node(&mut self, d: &Division, tree: &TreeContext<'_>) -> bool {
        let parent = self.nodes[d.parent as usize];
        let by_rows = self.searches_rows(tree) && parent.len <= 2 * FEW_ROWS;
        let (column, test) = self.column_test(d, parent, tree);
        // Where the rows' one block is read to partition them, they are added while their lines are still in the first-level
        // cache.
        let one_block = self.groups[0].columns.is_none() && tree.open().count() == 1 && self.groups[0].blocks.len() == 1;
        let step = if d.histograms && one_block { 256 } else { parent.len.max(1) };
        let mut summed = d.histograms && self.presorted.is_none();
        let mut partials: Vec<(usize, Partial)> = vec![];
        if summed {
            let smaller = |g: &usize| !tree.groups[*g].sums_both(d);
            partials.extend(tree.open().filter(smaller).map(|g| (g, self.new_partial(g, tree))));
        }
        let mut done = Done::default();
        for start in (0..parent.len).step_by(step) {
            let before = done;
            self.partition_range((d, parent), (column, test), start..parent.len.min(start + step), tree, &mut done);
            if by_rows && done.left.max(done.right) <= FEW_ROWS {
                // All rows have been partitioned: rows are searched one by one only where codes stand by feature, which are
                // read in one step.
                partials.drain(..).for_each(|(g, p)| self.groups[g].spare.push(p));
                summed = false;
            }
            for (g, partial) in &mut partials {
                let (list, first, n) = if d.left_is_smaller {
                    (1 - parent.list as usize, parent.spare + before.left, done.left - before.left)
                } else {
                    (parent.list as usize, parent.start + before.right, done.right - before.right)
                };
                self.accumulate(*g, partial, tree, Source::List, list, first, n, None);
            }
        }
        let (group, _) = group_of(tree.groups, d.split.feature as usize);
        if let (None, Some(rows)) = (column, &mut self.groups[group].sparse) {
            rows.clear();
        }
        self.place_children(d, parent, done, tree);
        partials.into_iter().for_each(|(g, p)| self.groups[g].partials.push(p));
        if summed {
            for g in tree.open().filter(|g| tree.groups[*g].sums_both(d)) {
                for node in [d.left, d.right] {
                    let partial = self.sum_node(g, node, tree);
                    self.groups[g].partials.push(partial);
                }
            }
        }
        summed
    }

    /// Returns the column whose codes a division tests, and the test of those codes. No column: rows are tested by a byte
    /// each, which is written here, either whether their category is in the subset or whether their sparse row goes right.
    fn column_test(&mut self, d: &Division, parent: NodeRows, tree: &TreeContext<'_>) -> (Option<usize>, CodeTest) {
        let feature = &tree.features[d.split.feature as usize];
        let (group, inside) = group_of(tree.groups, d.split.feature as usize);
        let mut test = match feature.categories {
            true => CodeTest::new(0, true),
            false => code_test(feature, d.split.border, d.split.missing_left),
        };
        if feature.categories {
            self.mark_subset(d, tree);
        }
        let plan = &tree.groups[group].plan;
        let column = match plan.homes[inside] {
            Home::Column(column) => Some(column),
            Home::Sparse(k) => {
                let sparse = &plan.sparse[k];
                let of_feature = test;
                match (sparse.column, &mut self.groups[group].sparse) {
                    (None, Some(rows)) => {
                        let list = &self.lists[parent.list as usize];
                        let node = (!parent.all).then(|| &list[parent.start..parent.start + parent.len]);
                        test = rows.flag(k, of_feature, node);
                    }
                    _ => test = CodeTest::of(|code| of_feature.right(sparse.code_of(code))),
                }
                sparse.column.map(|(column, _)| column)
            }
        };
        (column, test)
    }

    /// Partitions the rows at positions `range` of a node, of whose rows `done` counts those before.
    fn partition_range(
        &mut self,
        (d, parent): (&Division, NodeRows),
        (column, test): (Option<usize>, CodeTest),
        range: Range<usize>,
        tree: &TreeContext<'_>,
        done: &mut Done,
    ) {
        let (group, _) = group_of(tree.groups, d.split.feature as usize);
        let (low, high) = self.lists.split_at_mut(1);
        let (list, left) = if parent.list == 0 { (&mut low[0], &mut high[0]) } else { (&mut high[0], &mut low[0]) };
        let codes = match (column, &self.groups[group].sparse) {
            _ if tree.features[d.split.feature as usize].categories => FeatureCodes { bytes: &self.in_subset, stride: 1 },
            (None, Some(rows)) => rows.flags(),
            (column, _) => self.groups[group].column(&tree.groups[group].plan.layout, column.unwrap_or_default()),
        };
        let list = &mut list[parent.start..parent.start + parent.len];
        let left = &mut left[parent.spare..parent.spare + parent.len];
        let source = if parent.all { Source::All } else { Source::List };
        // SAFETY: lists hold nothing but rows of this shard: they are filled in `root` and by `partition_rows` itself.
        unsafe { partition::partition_rows(codes, test, source, list, range.start, range.end, left, done) };
    }

    /// Notes where the rows of a division's children stand, and sorts them where they stand in sorted lists.
    fn place_children(&mut self, d: &Division, parent: NodeRows, done: Done, tree: &TreeContext<'_>) {
        let NodeRows { list, start, spare, .. } = parent;
        // Each child's rows leave the other room in the list where they are not.
        let mut left = NodeRows { list: 1 - list, start: spare, len: done.left, spare: start + done.right, all: false };
        let mut right = NodeRows { list, start, len: done.right, spare: spare + done.left, all: false };
        let sorted = self.presorted == Some(Presorted::Lists);
        if sorted {
            // Sorted rows stand as these do.
            self.join(&mut left, &mut right);
        }
        let last = d.left.max(d.right) as usize;
        if self.nodes.len() <= last {
            self.nodes.resize(last + 1, NodeRows::default());
        }
        (self.nodes[d.left as usize], self.nodes[d.right as usize]) = (left, right);
        if sorted && d.histograms {
            tree.open().for_each(|g| self.sort_children(g, d, parent, done.left));
        }
    }

    /// Takes divisions back at the end of a tree: puts the rows of their children into the parents again.
    pub fn take_back(&mut self, divisions: &[Division]) {
        for d in divisions {
            if self.by_node {
                self.taken_back.extend([(d.left, d.parent), (d.right, d.parent)]);
                continue;
            }
            let (mut left, mut right) = (self.nodes[d.left as usize], self.nodes[d.right as usize]);
            self.join(&mut left, &mut right);
            self.nodes[d.parent as usize] = NodeRows { len: left.len + right.len, spare: left.spare.min(right.spare), ..left };
        }
    }

    /// Moves the right child's rows behind the left one's, in one list.
    fn join(&mut self, left: &mut NodeRows, right: &mut NodeRows) {
        if right.list != left.list {
            let (low, high) = self.lists.split_at_mut(1);
            let (source, target) = if left.list == 0 { (&high[0], &mut low[0]) } else { (&low[0], &mut high[0]) };
            target[right.spare..right.spare + right.len].copy_from_slice(&source[right.start..right.start + right.len]);
            *right = NodeRows { list: left.list, start: right.spare, spare: right.start, ..*right };
            // The other list has room for both from where the right one's rows were.
            (left.spare, right.spare) = (right.spare, right.spare + left.len);
        }
    }

    /// Writes 1 for the rows of a division's parent whose category goes right, and 0 for the others.
    fn mark_subset(&mut self, d: &Division, tree: &TreeContext<'_>) {
        let mut marks = std::mem::take(&mut self.in_subset);
        marks.resize(self.rows, 0);
        let (group, inside) = group_of(tree.groups, d.split.feature as usize);
        let plan = &tree.groups[group].plan;
        let subset = &tree.subsets[d.split.border as usize];
        for row in self.node_rows(d.parent) {
            marks[row] = subset.contains(self.groups[group].code(plan, inside, row)) as u8;
        }
        self.in_subset = marks;
    }
}
