//! Growing a tree on the CPU: histograms are merged, searched and partitioned by the pool's threads.

use super::bins::NodeHistogram;
use super::evaluate_shared::SharedSearch;
use super::evaluate_splits::FoundSplit;
use super::feature_groups::{Group, TieOrder, group_of};
use super::feature_share::{self, FeatureShare, Merge, Pending};
use super::presorted::Presorted;
use super::shard::Shard;
use super::{CpuTrees, NO_SLOT, needed, read, write};
use taiga_core::error::Result;
use taiga_core::tree::split::{SplitRules, Sums};
use taiga_core::tree::steps::{Candidate, Division, GrowSteps, NodeId, SearchNode, Speculation};

/// Bytes of partial histograms that a thread keeps before they are merged, unless one is larger.
const PARTIAL_BYTES: usize = 8 << 20;

/// Leaves that are divided together by leafwise growing: of more, too many would be divided for nothing.
const MOST_AT_ONCE: usize = 32;

impl CpuTrees<'_> {
    /// Returns how many divisions are summed before they are merged: as many as the cache keeps until then.
    fn divisions_at_once(&self) -> Result<usize> {
        let bins: usize = self.groups.iter().filter(|g| g.open).map(|g| g.plan.partial_bins()).sum();
        let planes = self.shared.as_ref().map_or(self.quantizer()?.planes.len(), |shared| shared.lanes.width);
        Ok((PARTIAL_BYTES / (8 * bins * planes).max(1)).max(1))
    }

    /// Takes what is to be merged in each group before the next search, and makes room for its histograms.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(super) fn take_pending(&mut self) -> Result<Vec<Vec<Pending>>> {
        let features = self.features.len();
        for group in self.groups.iter_mut().filter(|g| g.open && g.used_slots > g.room) {
            needed::histograms(group, features)?;
            let slots = group.used_slots.max(2 * group.room);
            self.pool.step(|t| write(&group.shares[t]).make_room(slots * group.outputs)).into_iter().collect::<Result<()>>()?;
            group.room = slots;
        }
        Ok(self.groups.iter_mut().map(|g| of_each_output(std::mem::take(&mut g.pending), g.outputs)).collect())
    }

    /// Runs `visit` on all threads, for each open group with the thread's features and what is to be merged first; returns the
    /// results, thread by thread.
    pub(super) fn search<R: Send>(
        &self,
        pending: &[Vec<Pending>],
        visit: impl Fn(&Group, &mut FeatureShare, &Merge<'_>) -> R + Sync,
    ) -> Result<Vec<R>> {
        let quantizer = self.quantizer()?;
        let complete;
        let pending = if self.of.is_whole() {
            pending
        } else {
            self.complete_histograms(pending)?;
            complete = vec![vec![]; pending.len()];
            &complete
        };
        let lanes = self.tree_context(quantizer).lanes();
        let found = self.pool.step(|t| {
            let summed = if self.replicated { &self.shards[t..t + 1] } else { &self.shards };
            let shards: Vec<_> = summed.iter().map(read).collect();
            let shards: Vec<&Shard> = shards.iter().map(|s| &**s).collect();
            let groups = self.groups.iter().zip(pending).filter(|(g, _)| g.open);
            let search = |(group, pending): (&Group, &Vec<_>)| {
                let slots = group.used_slots * group.outputs;
                visit(group, &mut write(&group.shares[t]), &Merge { pending, slots, shards: &shards, quantizer, lanes })
            };
            groups.map(search).collect::<Vec<R>>()
        });
        Ok(found.into_iter().flatten().collect())
    }

    /// Returns whether nodes are searched by sorted rows. Where each feature has but one border, drawn for the node, its own rows are searched, not all
    /// in a walk.
    fn searches_sorted_rows(&self, nodes: &[SearchNode]) -> bool {
        let walks = || nodes.iter().all(|node| node.borders.is_none());
        self.presorted_search().is_some_and(|presorted| presorted == Presorted::Lists || walks())
    }

    /// Returns a function that tells whether the bins of a node can be packed ([`feature_share::packs`]).
    pub(super) fn packed_nodes(&self) -> Result<impl Fn(NodeId) -> bool + use<>> {
        let quantizer = self.quantizer()?;
        let shards: Vec<_> = self.row_shards().iter().map(read).collect();
        let rows = |node: usize| shards.iter().map(|s| s.nodes.get(node).map_or(0, |n| n.len)).sum();
        let most = shards.iter().map(|s| s.nodes.len()).max().unwrap_or(0);
        let whole = self.of.is_whole();
        let packed: Vec<bool> = (0..most).map(|node| whole && feature_share::packs(rows(node), quantizer)).collect();
        Ok(move |node: NodeId| packed.get(node as usize).copied().unwrap_or(false))
    }

    /// Returns the best of the splits that threads have found in groups.
    fn best_split(&self, found: impl Iterator<Item = Option<FoundSplit>>) -> Option<FoundSplit> {
        let ties = TieOrder(&self.groups);
        found.fold(None, |a, b| ties.best_of(a, b))
    }

    /// Returns the slots of nodes in a group: the first of each node's.
    fn first_slots(nodes: &[SearchNode], group: &Group) -> Vec<usize> {
        nodes.iter().map(|node| group.slot(node.id) * group.outputs).collect()
    }

    /// Finds the best split of each node of a tree that several outputs share.
    fn find_shared_splits(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Vec<Option<FoundSplit>>> {
        let pending = self.take_pending()?;
        let Some(tree) = &self.shared else { return Ok(vec![]) };
        let features = &self.features;
        let found = self.search(&pending, |group, share, merge| {
            let slots = Self::first_slots(nodes, group);
            SharedSearch { merge, nodes, slots: &slots, features, rules, tree }.find_splits(share)
        })?;
        self.best_of_all((0..nodes.len()).map(|i| self.best_split(found.iter().map(|f| f[i]))).collect())
    }

    /// Finds the one split of a level of such a tree.
    fn find_shared_level_split(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Option<(Candidate, Vec<Sums>)>> {
        let pending = self.take_pending()?;
        let Some(tree) = &self.shared else { return Ok(None) };
        let features = &self.features;
        let found = self.search(&pending, |group, share, merge| {
            let slots = Self::first_slots(nodes, group);
            SharedSearch { merge, nodes, slots: &slots, features, rules, tree }.find_level_split(share)
        })?;
        let Some(candidate) = TieOrder(&self.groups).best(found.into_iter().flatten()) else {
            return self.best_level_of_all(None, nodes.len());
        };
        let (index, _) = group_of(&self.groups, candidate.feature as usize);
        let group = &self.groups[index];
        let slots = Self::first_slots(nodes, group);
        let merge = Merge { pending: &[], slots: group.used_slots * group.outputs, shards: &[], quantizer: self.quantizer()?, lanes: None };
        let search = SharedSearch { merge: &merge, nodes, slots: &slots, features, rules, tree };
        let shares: Vec<_> = group.shares.iter().map(read).collect();
        let left = |slot: &usize| shares.iter().find_map(|share| search.left_sums(share, *slot, &candidate)).unwrap_or_default();
        self.best_level_of_all(Some((candidate, slots.iter().map(left).collect())), nodes.len())
    }

    /// Returns found splits with the subsets of categories among them noted.
    fn kept(&mut self, found: Vec<Option<FoundSplit>>) -> Vec<Option<(Candidate, Sums)>> {
        let mut keep = |mut f: FoundSplit| {
            if let Some(subset) = f.subset {
                f.candidate.border = self.subsets.len() as u32;
                self.subsets.push(subset);
            }
            (f.candidate, f.left)
        };
        found.into_iter().map(|f| f.map(&mut keep)).collect()
    }

    /// Returns the packed statistics of the rows of those nodes that have no histogram, node after node.
    fn small_statistics(&self, nodes: &[SearchNode]) -> Vec<u32> {
        let shard = read(&self.shards[0]);
        let small = nodes.iter().filter(|n| self.groups[0].slot(n.id) == NO_SLOT);
        small.flat_map(|n| shard.small_node(n.id)).map(|row| shard.statistic(*row)).collect()
    }
}

/// Returns what is to be merged for each of the outputs that share a tree: their histograms stand side by side.
fn of_each_output(pending: Vec<Pending>, outputs: usize) -> Vec<Pending> {
    if outputs == 1 {
        return pending;
    }
    let of_output = |p: &Pending, output: usize| Pending {
        output,
        smaller: p.smaller * outputs + output,
        larger: p.larger.map(|larger| larger * outputs + output),
        ..*p
    };
    pending.iter().flat_map(|p| (0..outputs).map(move |output| of_output(p, output))).collect()
}

/// Returns where the search finds each node's bins of a group: in a slot, or, without a histogram, in the node's rows.
/// `statistics`: those of the rows of all nodes without histograms.
fn places<'s>(nodes: &[SearchNode], group: &Group, index: usize, shard: &'s Shard, mut statistics: &'s [u32]) -> Vec<NodeHistogram<'s>> {
    let place = |n: &SearchNode| match (group.slot(n.id), &shard.groups[index].columns) {
        (NO_SLOT, Some(columns)) => {
            let rows = shard.small_node(n.id);
            let (own, rest) = statistics.split_at(rows.len());
            statistics = rest;
            NodeHistogram::Rows { rows, statistics: own, columns }
        }
        (slot, _) => NodeHistogram::Slot { slot, total: n.sums },
    };
    nodes.iter().map(place).collect()
}

impl GrowSteps for CpuTrees<'_> {
    fn leave_out(&mut self, features: &[u32]) {
        for share in self.groups.iter().filter(|group| group.open).flat_map(|group| &group.shares) {
            write(share).leave_out(features);
        }
    }

    fn find_splits(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Vec<Option<(Candidate, Sums)>>> {
        if self.searches_sorted_rows(nodes) {
            let found = self.pool.step(|t| write(&self.shards[t]).find_splits(nodes, rules, &self.groups, &self.features));
            let ties = TieOrder(&self.groups);
            let best = found.into_iter().reduce(|a, b| a.into_iter().zip(b).map(|(a, b)| ties.best_of(a, b)).collect());
            // No subsets of categories are among them.
            return Ok(best.into_iter().flatten().map(|found| found.map(|f| (f.candidate, f.left))).collect());
        }
        if self.shared.is_some() {
            let found = self.find_shared_splits(nodes, rules)?;
            return Ok(self.kept(found));
        }
        let pending = self.take_pending()?;
        let statistics = self.small_statistics(nodes);
        let shard = read(&self.shards[0]);
        let found = self.search(&pending, |group, share, merge| {
            let places = places(nodes, group, share.group, &shard, &statistics);
            share.find_splits(merge, nodes, &places, &self.features, rules)
        })?;
        let found = self.best_of_all((0..nodes.len()).map(|i| self.best_split(found.iter().map(|f| f[i]))).collect())?;
        drop(shard);
        Ok(self.kept(found))
    }

    fn find_level_split(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Option<(Candidate, Vec<Sums>)>> {
        if self.searches_sorted_rows(nodes) {
            let found = self.pool.step(|t| write(&self.shards[t]).find_level_split(nodes, rules, &self.groups, &self.features));
            let ties = TieOrder(&self.groups);
            return Ok(found.into_iter().flatten().reduce(|a, b| if ties.better(&b.0, &a.0) { b } else { a }));
        }
        if self.shared.is_some() {
            return self.find_shared_level_split(nodes, rules);
        }
        let pending = self.take_pending()?;
        let statistics = self.small_statistics(nodes);
        let shard = read(&self.shards[0]);
        let found = self.search(&pending, |group, share, merge| {
            let places = places(nodes, group, share.group, &shard, &statistics);
            share.find_level_split(merge, nodes, &places, &self.features, rules)
        })?;
        let best = TieOrder(&self.groups).best(found.into_iter().flatten()).map(|candidate| {
            let feature = &self.features[candidate.feature as usize];
            let (index, _) = group_of(&self.groups, candidate.feature as usize);
            let group = &self.groups[index];
            let places = places(nodes, group, index, &shard, &statistics);
            let shares: Vec<_> = group.shares.iter().map(read).collect();
            let left = |place: &NodeHistogram<'_>| shares.iter().find_map(|s| s.left_sums(place, &candidate, feature)).unwrap_or_default();
            (candidate, places.iter().map(left).collect())
        });
        self.best_level_of_all(best, nodes.len())
    }

    fn partition(&mut self, divisions: &[Division]) -> Result<()> {
        let at_once = if self.presorted_search().is_some() { usize::MAX } else { self.divisions_at_once()? };
        for (i, divisions) in divisions.chunks(at_once).enumerate() {
            if i > 0 {
                let pending = self.take_pending()?;
                self.search(&pending, |_, share, merge| share.merge(merge))?;
            }
            let context = self.tree_context(self.quantizer()?);
            if !self.has_lists() && !self.shards.iter().all(|shard| read(shard).partitions_level(divisions, &context)) {
                self.make_lists()?;
            }
            let summed = self.pool.step(|t| write(&self.shards[t]).partition(divisions, &context));
            if self.presorted_search().is_some() {
                continue;
            }
            let packed = self.packed_nodes()?;
            for group in self.groups.iter_mut().filter(|g| g.open) {
                let mut partials = 0;
                for (d, _) in divisions.iter().zip(&summed[0]).filter(|(_, summed)| **summed) {
                    partials += group.assign_slots(d, partials, &packed);
                }
            }
        }
        Ok(())
    }

    fn speculation(&self) -> Speculation {
        Speculation { most: MOST_AT_ONCE, share: 1.0 }
    }

    fn take_back(&mut self, divisions: &[Division]) -> Result<()> {
        self.shards.iter().for_each(|shard| write(shard).take_back(divisions));
        Ok(())
    }
}
