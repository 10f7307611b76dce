//! A shard's part in the search by sorted rows: the groups that are open, one after the other.

use super::walks::{self, LevelWalk, SortedGroup};
use super::{Presorted, SortedLists, SortedOrder, SortedRows};
use crate::trees::evaluate_splits::{FoundSplit, LevelBest};
use crate::trees::feature_groups::{Group, TieOrder, group_of, open_groups};
use crate::trees::gradient_quantizer::Plane;
use crate::trees::histogram::{expand, unpack};
use crate::trees::shard::{NodeRows, Shard, ShardGroup, TreeContext};
use taiga_core::quantize::CodedFeature;
use taiga_core::tree::split::{SplitRules, Sums};
use taiga_core::tree::steps::{Candidate, Division, NodeId, SearchNode};

impl ShardGroup {
    /// Returns the group's lists, where its rows stand in such.
    fn sorted_lists(&mut self) -> Option<&mut SortedLists> {
        match &mut self.sorted {
            Some(SortedRows::Lists(lists)) => Some(lists),
            _ => None,
        }
    }

    /// Returns the group's order of rows and its codes, where it is walked. `features`: those of all groups.
    fn walked<'a>(&'a self, features: &'a [CodedFeature]) -> Option<SortedGroup<'a>> {
        match (&self.sorted, &self.columns) {
            (Some(SortedRows::Walks(sorted)), Some(columns)) => Some(SortedGroup { sorted, columns, features }),
            _ => None,
        }
    }
}

impl Shard {
    /// Sorts the rows of a group whose codes are there by those of its features that this shard searches; they are numbered from `first`
    /// on.
    pub fn sort_rows(&mut self, group: usize, features: &[CodedFeature], first: usize, counted: bool, presorted: Presorted) {
        let rows = self.rows;
        if let Some(ShardGroup { columns: Some(columns), sorted, own, .. }) = self.groups.get_mut(group) {
            *sorted = Some(match presorted {
                Presorted::Lists => SortedRows::Lists(SortedLists::new(features, own.clone(), first, columns, rows, counted)),
                Presorted::Walks => SortedRows::Walks(SortedOrder::new(features, own.clone(), first, columns, rows, counted)),
            });
        }
    }

    /// Returns how a tree's nodes are searched, if by sorted rows. Group 0 decides for all.
    pub fn presorted_search(&self, tree: &TreeContext<'_>) -> Option<Presorted> {
        let one_plane = tree.quantizer.planes == [Plane::Both] && tree.shared.is_none();
        let sorted = self.groups[0].sorted.as_ref().filter(|_| one_plane)?;
        Some(match sorted {
            SortedRows::Lists(_) => Presorted::Lists,
            SortedRows::Walks(_) => Presorted::Walks,
        })
    }

    /// Begins a tree: forgets the nodes of the last one, and writes the root's sorted rows.
    pub(in crate::trees) fn begin_sorted(&mut self, tree: &TreeContext<'_>) {
        self.groups.iter_mut().filter_map(ShardGroup::sorted_lists).for_each(SortedLists::reset);
        if self.presorted == Some(Presorted::Lists) {
            tree.open().for_each(|g| self.sort_node(g, 0));
        }
    }

    /// Writes a node's sorted rows in a group, where they stand in lists.
    pub(in crate::trees) fn sort_node(&mut self, group: usize, node: NodeId) {
        let n = self.nodes[node as usize];
        let drawn = (!n.all).then(|| &self.lists[n.list as usize][n.start..n.start + n.len]);
        if let Some(SortedRows::Lists(sorted)) = &mut self.groups[group].sorted {
            // A table of few rows is one batch.
            sorted.open(n, drawn, &self.first_plane);
            sorted.note(node);
        }
    }

    /// Partitions the sorted rows of a divided node in a group, `left` of which go left; sorts its children's rows anew where
    /// the group was opened after the node.
    pub(in crate::trees) fn sort_children(&mut self, group: usize, d: &Division, parent: NodeRows, left: usize) {
        let Some(SortedRows::Lists(sorted)) = &mut self.groups[group].sorted else { return };
        if !sorted.knows(d.parent) {
            return [d.left, d.right].into_iter().for_each(|node| self.sort_node(group, node));
        }
        let rows = &self.lists[1 - parent.list as usize][parent.start..parent.start + parent.len];
        sorted.partition(parent, rows, left);
        sorted.note(d.left);
        sorted.note(d.right);
    }

    /// Returns the sums over the rows of this tree, if it is searched by sorted rows.
    pub fn sorted_sums(&self, counted: bool) -> Option<Sums> {
        self.presorted?;
        let sum = |packed: u64, row: usize| packed.wrapping_add(expand(self.first_plane[row]));
        let (gradient, hessian) = unpack(self.node_rows(0).fold(0, sum));
        Some(Sums { gradient, hessian, count: if counted { hessian } else { 0 } })
    }

    /// Finds the best split of each node among the features of this shard, and its left child's sums.
    pub fn find_splits(
        &mut self,
        nodes: &[SearchNode],
        rules: &SplitRules,
        groups: &[Group],
        features: &[CodedFeature],
    ) -> Vec<Option<FoundSplit>> {
        let mut slots = std::mem::take(&mut self.slots);
        if self.presorted == Some(Presorted::Walks) {
            // A table of few rows is one batch.
            slots.lay_out(nodes, |i| self.small_node(nodes[i].id), &self.first_plane, rules);
        }
        let (mut found, ties) = (vec![], TieOrder(groups));
        for group in open_groups(groups) {
            let group = &mut self.groups[group];
            let of_group = if let Some(sorted) = group.sorted_lists() {
                sorted.find_splits(nodes, &self.nodes, rules)
            } else if let Some(group) = group.walked(features) {
                walks::find_splits(group, &mut slots, nodes, rules)
            } else {
                continue;
            };
            found = match found.is_empty() {
                true => of_group,
                false => found.into_iter().zip(of_group).map(|(best, other)| ties.best_of(best, other)).collect(),
            };
        }
        self.slots = slots;
        found.resize(nodes.len(), None);
        found
    }

    /// Finds the split with the largest gain summed over the nodes among the features of this shard, and each left child's sums.
    pub fn find_level_split(
        &mut self,
        nodes: &[SearchNode],
        rules: &SplitRules,
        groups: &[Group],
        features: &[CodedFeature],
    ) -> Option<(Candidate, Vec<Sums>)> {
        if self.presorted == Some(Presorted::Walks) {
            return self.walk_level(nodes, rules, groups, features);
        }
        let places = &self.nodes;
        let open = self.groups.iter_mut().zip(groups).filter(|(_, g)| g.open).filter_map(|(s, _)| s.sorted_lists());
        let found = open.filter_map(|sorted| sorted.find_level_split(nodes, places, features, rules));
        let candidate = TieOrder(groups).best(found)?;
        let (group, _) = group_of(groups, candidate.feature as usize);
        let sorted = self.groups[group].sorted_lists()?;
        Some((candidate, nodes.iter().map(|n| sorted.left_sums(places[n.id as usize], &candidate)).collect()))
    }

    /// Finds the same in walks.
    fn walk_level(
        &mut self,
        nodes: &[SearchNode],
        rules: &SplitRules,
        groups: &[Group],
        features: &[CodedFeature],
    ) -> Option<(Candidate, Vec<Sums>)> {
        let mut slots = std::mem::take(&mut self.slots);
        // A table of few rows is one batch.
        slots.lay_out(nodes, |i| self.small_node(nodes[i].id), &self.first_plane, rules);
        LevelWalk::lay_out(&mut slots, nodes, rules);
        let parents: f64 = nodes.iter().map(|n| rules.node_score(n.sums, &n.inherited)).sum();
        let of_group = |group: usize| {
            let mut best = LevelBest::new(nodes, parents, rules);
            walks::find_level_split(self.groups[group].walked(features)?, &mut slots, nodes, rules, &mut best);
            best.candidate
        };
        let found = TieOrder(groups).best(open_groups(groups).filter_map(of_group));
        self.slots = slots;
        let candidate = found?;
        let group = self.groups[group_of(groups, candidate.feature as usize).0].walked(features)?;
        let left = |n: &SearchNode| group.sorted.left_sums(group, self.small_node(n.id), &self.first_plane, &candidate);
        Some((candidate, nodes.iter().map(left).collect()))
    }
}
