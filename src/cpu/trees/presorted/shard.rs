//! A shard's part in the search by sorted rows: the groups that are open, one after the other.

use super::evaluate_splits::{self, SortedGroup};
use super::{NodeSlots, SortedRows};
use crate::trees::evaluate_splits::{FoundSplit, better};
use crate::trees::feature_groups::Group;
use crate::trees::gradient_quantizer::Plane;
use crate::trees::histogram::{expand, unpack};
use crate::trees::shard::{Shard, ShardGroup, TreeContext};
use taiga_core::quantize::CodedFeature;
use taiga_core::tree::split::{SplitRules, Sums};
use taiga_core::tree::steps::{Candidate, SearchNode};

impl Shard {
    /// Sorts the rows by those features of a group, whose codes are there, that this shard searches; they are numbered from `first` on.
    pub fn sort_rows(&mut self, group: usize, features: &[CodedFeature], first: usize, counted: bool) {
        let rows = self.rows;
        if let Some(ShardGroup { columns: Some(columns), sorted, own, .. }) = self.groups.get_mut(group) {
            *sorted = Some(SortedRows::new(features, own.clone(), first, columns, rows, counted));
        }
    }

    /// Returns whether a tree's nodes are searched by sorted rows. Group 0 decides for all.
    pub fn searches_sorted(&self, tree: &TreeContext<'_>) -> bool {
        self.groups[0].sorted.is_some() && tree.quantizer.planes == [Plane::Both] && tree.shared.is_none()
    }

    /// Returns the sums over the rows of this tree, if it is searched by sorted rows.
    pub fn sorted_sums(&self, counted: bool) -> Option<Sums> {
        self.presorted.then(|| {
            let packed = self.small_node(0).iter().fold(0u64, |sum, row| sum.wrapping_add(expand(self.first_plane[*row as usize])));
            let (gradient, hessian) = unpack(packed);
            Sums { gradient, hessian, count: if counted { hessian } else { 0 } }
        })
    }

    /// Calls `visit` for each open group with the rows of the nodes laid out. `level`: whether the nodes are divided together.
    fn search_sorted(
        &mut self,
        nodes: &[SearchNode],
        (rules, level): (&SplitRules, bool),
        groups: &[Group],
        features: &[CodedFeature],
        mut visit: impl FnMut(SortedGroup<'_>, &mut NodeSlots),
    ) {
        let mut slots = std::mem::take(&mut self.slots);
        // A table of few rows is one batch.
        slots.lay_out(nodes, |i| self.small_node(nodes[i].id), &self.first_plane, rules, level);
        for (group, _) in self.groups.iter().zip(groups).filter(|(_, g)| g.open) {
            if let (Some(sorted), Some(columns)) = (&group.sorted, &group.columns) {
                visit(SortedGroup { sorted, columns, features }, &mut slots);
            }
        }
        self.slots = slots;
    }

    /// Finds the best split of each node among the features of this shard.
    pub fn find_splits(
        &mut self,
        nodes: &[SearchNode],
        rules: &SplitRules,
        groups: &[Group],
        features: &[CodedFeature],
    ) -> Vec<Option<FoundSplit>> {
        let mut found = vec![None; nodes.len()];
        self.search_sorted(nodes, (rules, false), groups, features, |group, slots| {
            evaluate_splits::find_splits(group, slots, nodes, rules, &mut found);
        });
        found
    }

    /// Finds the split with the largest gain summed over the nodes among the features of this shard.
    pub fn find_level_split(
        &mut self,
        nodes: &[SearchNode],
        rules: &SplitRules,
        groups: &[Group],
        features: &[CodedFeature],
    ) -> Option<Candidate> {
        let mut best: Option<Candidate> = None;
        self.search_sorted(nodes, (rules, true), groups, features, |group, slots| {
            let found = evaluate_splits::find_level_split(group, slots, nodes, rules);
            best = best.into_iter().chain(found).reduce(|a, b| if better(&b, &a) { b } else { a });
        });
        best
    }
}
