//! A shard's part in the search by sorted rows: the groups that are open, one after the other.

use super::{MOST_ROWS, MOST_VALUES, SortedRows};
use crate::trees::evaluate_splits::{best_of, better};
use crate::trees::feature_groups::{Group, group_of};
use crate::trees::shard::{Shard, ShardGroup};
use taiga_core::quantize::CodedFeature;
use taiga_core::tree::split::{SplitRules, Sums};
use taiga_core::tree::steps::{Candidate, SearchNode};

impl Shard {
    /// Sorts the rows of a group whose codes are there, where the table is small enough; its
    /// features are numbered from `first` on. Group 0 decides for all: a tree is searched either by
    /// sorted rows or by histograms.
    pub fn sort_rows(&mut self, group: usize, features: &[CodedFeature], first: usize, counted: bool) {
        let rows = self.rows;
        // Subsets of categories are searched in histograms.
        let ordinal = !features.is_empty() && features.iter().all(|f| !f.categories);
        let small = self.alone() && rows <= MOST_ROWS && rows * features.len() <= MOST_VALUES && ordinal;
        let sorts = if group == 0 { small } else { self.groups[0].sorted.is_some() };
        if sorts && let Some(ShardGroup { columns: Some(columns), sorted, .. }) = self.groups.get_mut(group) {
            *sorted = Some(SortedRows::new(features, first, columns, rows, counted));
        }
    }

    /// Returns the sums over the rows of this tree, if it is searched by sorted rows.
    pub fn sorted_sums(&self) -> Option<Sums> {
        let sorted = self.groups[0].sorted.as_ref().filter(|_| self.presorted)?;
        Some(sorted.node_sums(self.nodes[0]))
    }

    /// Finds the best split of each node, and its left child's sums.
    pub fn find_splits(&mut self, nodes: &[SearchNode], rules: &SplitRules, groups: &[Group]) -> Vec<Option<(Candidate, Sums)>> {
        let places = &self.nodes;
        let open = self.groups.iter_mut().zip(groups).filter(|(_, g)| g.open).filter_map(|(s, _)| s.sorted.as_mut());
        let found = open.map(|sorted| sorted.find_splits(nodes, places, rules));
        let best = found.reduce(|a, b| a.into_iter().zip(b).map(|(a, b)| best_of(a, b)).collect());
        best.into_iter().flatten().map(|f| f.map(|f| (f.candidate, f.left))).collect()
    }

    /// Finds the split with the largest gain summed over the nodes, and each left child's sums.
    pub fn find_level_split(
        &mut self,
        nodes: &[SearchNode],
        rules: &SplitRules,
        groups: &[Group],
        features: &[CodedFeature],
    ) -> Option<(Candidate, Vec<Sums>)> {
        let places = &self.nodes;
        let open = self.groups.iter_mut().zip(groups).filter(|(_, g)| g.open).filter_map(|(s, _)| s.sorted.as_mut());
        let found = open.filter_map(|sorted| sorted.find_level_split(nodes, places, features, rules));
        let candidate = found.reduce(|a, b| if better(&b, &a) { b } else { a })?;
        let (group, _) = group_of(groups, candidate.feature as usize);
        let sorted = self.groups[group].sorted.as_ref()?;
        Some((candidate, nodes.iter().map(|n| sorted.left_sums(places[n.id as usize], &candidate)).collect()))
    }
}
