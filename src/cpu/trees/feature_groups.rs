//! Groups of features: those that a fit starts with, and those that come into being while it runs
//! (statistics of categories and of their combinations). A group has codes, histograms and slots
//! of its own, so that a tree pays only for the groups that are open in it.

use super::evaluate_splits::{self, FoundSplit};
use super::feature_share::{FeatureShare, Pending};
use super::needed::of_histogram;
use super::{NO_SLOT, write};
use std::ops::Range;
use std::sync::{PoisonError, RwLock};
use taiga_core::collective::Collective;
use taiga_core::learners::boosting::layout::StoragePlan;
use taiga_core::quantize::CodedFeature;
use taiga_core::tree::steps::{Candidate, Division, NodeId};

/// A group, and the histograms of the tree that grows.
pub struct Group {
    /// Its first feature.
    pub first: usize,
    /// How its codes are stored.
    pub plan: StoragePlan,
    /// Whether its features may split the tree that grows.
    pub open: bool,
    /// If so, its place among those that may, in the order in which the tree opened them.
    pub place: usize,
    /// One for each thread of this process, of the features that it searches.
    pub shares: Vec<RwLock<FeatureShare>>,
    /// The features with columns of their own: the column, and how many bins it has.
    pub dense: Vec<(usize, usize)>,
    /// Which of these each process searches.
    pub searched_by: Vec<Range<usize>>,
    pub pending: Vec<Pending>,
    /// The slot of each node's histogram.
    slots: Vec<usize>,
    pub used_slots: usize,
    /// How many histograms a slot has: one for each output that shares the trees.
    pub outputs: usize,
    /// How many slots there is room for, of how many bytes each.
    pub room: usize,
    pub histogram_bytes: u64,
}

/// Returns the group of a feature, and its number inside.
pub fn group_of(groups: &[Group], feature: usize) -> (usize, usize) {
    let group = groups.partition_point(|g| g.first <= feature) - 1;
    (group, feature - groups[group].first)
}

/// Returns the open groups in the order in which the tree opened them.
pub fn open_groups(groups: &[Group]) -> impl Iterator<Item = usize> {
    (0..groups.len()).map_while(|place| groups.iter().position(|group| group.open && group.place == place))
}

/// What decides between splits that are equally good: the one of the group that the tree opened first is better, and in a group that of the lower
/// feature. The numbers of features alone would tell what earlier trees have opened, and when, which a fit that goes on does not know.
#[derive(Clone, Copy)]
pub struct TieOrder<'g>(pub &'g [Group]);

impl TieOrder<'_> {
    /// Returns whether `a` is better than `b`.
    pub fn better(self, a: &Candidate, b: &Candidate) -> bool {
        if a.rank != b.rank {
            return a.rank > b.rank;
        }
        let place = |candidate: &Candidate| self.0[group_of(self.0, candidate.feature as usize).0].place;
        let (of_a, of_b) = (place(a), place(b));
        of_a < of_b || (of_a == of_b && evaluate_splits::better(a, b))
    }

    /// Returns the better of two splits.
    pub fn best_of(self, a: Option<FoundSplit>, b: Option<FoundSplit>) -> Option<FoundSplit> {
        match (a, b) {
            (Some(a), Some(b)) => Some(if self.better(&b.candidate, &a.candidate) { b } else { a }),
            (a, b) => a.or(b),
        }
    }

    /// Returns the best of several splits.
    pub fn best(self, found: impl IntoIterator<Item = Candidate>) -> Option<Candidate> {
        found.into_iter().reduce(|a, b| if self.better(&b, &a) { b } else { a })
    }
}

impl Group {
    /// Makes group `index` of features that are numbered from `first` on, shared by so many threads of each process.
    pub fn new(
        features: &[CodedFeature],
        plan: StoragePlan,
        (index, first): (usize, usize),
        counted: bool,
        threads: usize,
        collective: &dyn Collective,
    ) -> Group {
        let (rank, world) = (collective.rank(), collective.world());
        let share = |t| FeatureShare::new(features, &plan, index, first, counted, rank * threads + t, world * threads);
        let shares = (0..threads).map(|t| RwLock::new(share(t))).collect();
        let dense: Vec<(usize, usize)> = plan.dense_features().map(|(f, column)| (column, features[f].bins())).collect();
        let searched_by = (0..world).map(|k| dense.len() * k / world..dense.len() * (k + 1) / world).collect();
        let histogram_bytes = of_histogram(features, &plan, counted).div_ceil(world as u64);
        Group {
            first,
            open: index == 0,
            place: 0,
            shares,
            dense,
            searched_by,
            plan,
            pending: vec![],
            slots: vec![],
            used_slots: 0,
            outputs: 1,
            room: 0,
            histogram_bytes,
        }
    }

    /// Returns the group with a histogram of each node for each of `outputs`.
    pub fn shared_by(self, outputs: usize) -> Group {
        Group { histogram_bytes: self.histogram_bytes.saturating_mul(outputs as u64), outputs, ..self }
    }

    /// Forgets the last tree's histograms.
    pub fn reset(&mut self, open: bool) {
        self.open = open;
        self.slots.clear();
        self.pending.clear();
        self.used_slots = 0;
        self.shares.iter_mut().for_each(|share| share.get_mut().unwrap_or_else(PoisonError::into_inner).begin_tree());
    }

    /// Leaves the room of its histograms to the groups of other trees, each thread's to a thread.
    pub fn give_up_slots(&mut self, spare: &mut Vec<Vec<i64>>) {
        if self.room > 0 {
            spare.extend(self.shares.iter().map(|share| write(share).give_up_slots()));
            self.room = 0;
        }
    }

    /// Takes the room of histograms that other groups have left, the largest, where it has none.
    pub fn take_slots(&mut self, spare: &mut Vec<Vec<i64>>) {
        if self.room == 0 {
            spare.sort_unstable_by_key(Vec::capacity);
            self.shares.iter().for_each(|share| write(share).take_slots(spare.pop().unwrap_or_default()));
        }
    }

    /// Returns the slot of a node's histogram.
    pub fn slot(&self, node: NodeId) -> usize {
        self.slots.get(node as usize).copied().unwrap_or(NO_SLOT)
    }

    fn set_slot(&mut self, node: NodeId, slot: usize) {
        if self.slots.len() <= node as usize {
            self.slots.resize(node as usize + 1, NO_SLOT);
        }
        self.slots[node as usize] = slot;
    }

    /// Assigns a slot to `node`, whose histogram will be partial histogram number `partial`.
    fn sum_alone(&mut self, node: NodeId, partial: usize, packed: bool) {
        self.pending.push(Pending { partial, output: 0, smaller: self.used_slots, larger: None, packed: [packed; 2] });
        self.set_slot(node, self.used_slots);
        self.used_slots += 1;
    }

    /// Assigns slots to `nodes`, whose histograms are the partial ones in order; `packed`: whether a node's bins can be packed.
    pub fn open_in(&mut self, nodes: &[NodeId], packed: impl Fn(NodeId) -> bool) {
        for (partial, node) in nodes.iter().enumerate() {
            self.sum_alone(*node, partial, packed(*node));
        }
    }

    /// Returns whether both children are summed from their rows: the parent has no histogram here, because the group was opened
    /// after it was divided.
    pub fn sums_both(&self, division: &Division) -> bool {
        self.slot(division.parent) == NO_SLOT
    }

    /// Assigns slots to the children of a division, whose partial histograms start at number `partial`; returns how many it
    /// has. `packed`: whether a node's bins can be packed.
    pub fn assign_slots(&mut self, d: &Division, partial: usize, packed: impl Fn(NodeId) -> bool) -> usize {
        let parent = self.slot(d.parent);
        if parent == NO_SLOT {
            self.sum_alone(d.left, partial, packed(d.left));
            self.sum_alone(d.right, partial + 1, packed(d.right));
            return 2;
        }
        let (smaller, larger) = if d.left_is_smaller { (d.left, d.right) } else { (d.right, d.left) };
        self.pending.push(Pending {
            partial,
            output: 0,
            smaller: self.used_slots,
            larger: Some(parent),
            packed: [packed(smaller), packed(larger)],
        });
        self.set_slot(smaller, self.used_slots);
        self.set_slot(larger, parent);
        self.used_slots += 1;
        1
    }
}
