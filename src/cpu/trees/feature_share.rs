//! The features of one thread with their histograms in all nodes, which are merged from the shards' partial ones.

use super::bins::{Counts, NodeBins, NodeHistogram, as_packed};
use super::gradient_quantizer::{BinsMut, GradientQuantizer, Plane, add_plane};
use super::histogram::{MAX_ROWS, unpack};
use super::lanes::{Lane, Lanes};
use super::shard::{SegmentBins, Shard};
use super::sparse_bins::SparseBinShare;
use multiversion::multiversion;
use taiga_core::error::Result;
use taiga_core::learners::boosting::layout::StoragePlan;
use taiga_core::pages;
use taiga_core::quantize::CodedFeature;
use taiga_core::tree::split::Sums;
use taiga_core::tree::steps::Candidate;

/// A division whose smaller child's histogram is still in the shards' partial ones.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    pub partial: usize,
    /// Which of the outputs that share the tree it is of.
    pub output: usize,
    pub smaller: usize,
    /// The slot that holds the parent's histogram and becomes the larger child's; none for a root.
    pub larger: Option<usize>,
    /// Whether the smaller and the larger child's bins can be packed ([`packs`]).
    pub packed: [bool; 2],
}

/// Returns whether the bins of a node of `rows` rows can be packed, gradient and hessian in one number each: sums over any of
/// its rows fit the halves.
pub fn packs(rows: usize, quantizer: &GradientQuantizer) -> bool {
    rows <= MAX_ROWS && matches!(quantizer.planes[..], [Plane::Both] | [Plane::Both, Plane::Count])
}

/// The pending histograms and what they are merged from, before slots are searched or while they are.
pub struct Merge<'a> {
    pub pending: &'a [Pending],
    /// How many slots there are after merging.
    pub slots: usize,
    pub shards: &'a [&'a Shard],
    pub quantizer: &'a GradientQuantizer,
    /// The lanes of partial histograms' bins, where they have some.
    pub lanes: Option<Lanes>,
}

/// The features of one thread with their histograms: `[slot][feature]`, the gradients of all bins, then the hessians, then the
/// counts.
pub struct FeatureShare {
    /// The features' numbers: those with columns of their own, ascending, then the sparse ones that are searched by themselves,
    /// ascending.
    pub(super) features: Vec<usize>,
    /// The columns of the former.
    pub(super) columns: Vec<usize>,
    pub(super) sparse: SparseBinShare,
    /// The index of their group, and its first feature.
    pub group: usize,
    first: usize,
    /// The place of each column's first number in a slot.
    starts: Vec<usize>,
    bins: Vec<usize>,
    slot_size: usize,
    counted: bool,
    /// How rows are counted in the tree that grows.
    pub(super) counts: Counts,
    /// The features, by their place among those with columns, whose histograms nobody asks for in the tree that grows.
    left_out: Vec<bool>,
    /// Whether a slot holds packed bins, in the room of the gradients.
    packed: Vec<bool>,
    slots: Vec<i64>,
}

/// Returns the `n` numbers from `a` on, and those from `b` on; the two don't overlap.
pub fn split_pair<T>(numbers: &mut [T], a: usize, b: usize, n: usize) -> (&mut [T], &mut [T]) {
    let (low, high) = numbers.split_at_mut(a.max(b));
    let (low, high) = (&mut low[a.min(b)..][..n], &mut high[..n]);
    if a < b { (low, high) } else { (high, low) }
}

/// Computes `a[i] -= b[i]`; packed numbers may pass through the sign bit.
#[inline(always)]
fn subtract(a: &mut [i64], b: &[i64]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a = a.wrapping_sub(*b);
    }
}

/// Computes `a[i] += b[i]`.
#[inline(always)]
fn add(a: &mut [i64], b: &[i64]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a += *b;
    }
}

/// Which of the segments of a division's partial histograms is merged: the first one sets the smaller child's numbers, the others are added to them; by
/// the last one the larger child's become what the sums leave.
#[derive(Clone, Copy)]
struct Turn {
    first: bool,
    last: bool,
}

impl Turn {
    /// Merges packed bins into the numbers of both children.
    #[inline(always)]
    fn merge(self, smaller: &mut [i64], larger: &mut [i64], bins: impl Iterator<Item = u64>) {
        match (self.first, self.last) {
            (true, true) => smaller.iter_mut().zip(larger).zip(bins).for_each(|((a, b), bin)| {
                *a = bin as i64;
                *b = b.wrapping_sub(*a);
            }),
            (false, true) => smaller.iter_mut().zip(larger).zip(bins).for_each(|((a, b), bin)| {
                *a = a.wrapping_add(bin as i64);
                *b = b.wrapping_sub(*a);
            }),
            (true, false) => smaller.iter_mut().zip(bins).for_each(|(a, bin)| *a = bin as i64),
            (false, false) => smaller.iter_mut().zip(bins).for_each(|(a, bin)| *a = a.wrapping_add(bin as i64)),
        }
    }

    /// Merges bins of any place into the numbers of both children.
    #[inline(always)]
    fn merge_segment(self, smaller: &mut [i64], larger: &mut [i64], bins: SegmentBins<'_>) {
        match bins {
            SegmentBins::Plane(bins) => self.merge(smaller, larger, bins.iter().copied()),
            SegmentBins::Lane { lane, width: 2, words } => self.merge_lane(smaller, larger, lane, words.as_chunks::<2>().0.iter()),
            SegmentBins::Lane { lane, width, words } => self.merge_lane(smaller, larger, lane, words.chunks_exact(width)),
        }
    }

    /// Merges bins in a lane, of which these are the words, into the numbers of both children.
    #[inline(always)]
    fn merge_lane<W: AsRef<[u64]>>(self, smaller: &mut [i64], larger: &mut [i64], lane: Lane, words: impl Iterator<Item = W>) {
        // What kind of lane it is is asked once, not at each bin.
        match lane {
            Lane::Plane(_) => self.merge(smaller, larger, words.map(|words| lane.bin(words.as_ref()))),
            Lane::Half { upper: false, lane, hessians } => {
                let lane = Lane::Half { upper: false, lane, hessians };
                self.merge(smaller, larger, words.map(|words| lane.bin(words.as_ref())));
            }
            Lane::Half { upper: true, lane, hessians } => {
                let lane = Lane::Half { upper: true, lane, hessians };
                self.merge(smaller, larger, words.map(|words| lane.bin(words.as_ref())));
            }
        }
    }

    /// Merges pairs of packed bins and their counts into the numbers and counts of both children, `n` each.
    #[inline(always)]
    fn merge_pairs(self, smaller: &mut [i64], larger: &mut [i64], pairs: &[[u64; 2]]) {
        let n = pairs.len();
        let (numbers, counts) = smaller.split_at_mut(n);
        if !self.last {
            for ((number, count), [bin, rows]) in numbers.iter_mut().zip(counts).zip(pairs) {
                let before = if self.first { (0, 0) } else { (*number, *count) };
                (*number, *count) = (before.0.wrapping_add(*bin as i64), before.1 + *rows as i64);
            }
            return;
        }
        let (others, other_counts) = larger.split_at_mut(n);
        let of_larger = others.iter_mut().zip(other_counts);
        for (((number, count), (other, other_count)), [bin, rows]) in numbers.iter_mut().zip(counts).zip(of_larger).zip(pairs) {
            let before = if self.first { (0, 0) } else { (*number, *count) };
            (*number, *count) = (before.0.wrapping_add(*bin as i64), before.1 + *rows as i64);
            (*other, *other_count) = (other.wrapping_sub(*number), *other_count - *count);
        }
    }
}

/// Subtracts packed bins from unpacked gradients and hessians.
#[inline(always)]
fn subtract_packed(gradient: &mut [i64], hessian: &mut [i64], packed: &[i64]) {
    for ((gradient, hessian), packed) in gradient.iter_mut().zip(hessian).zip(packed) {
        let (g, h) = unpack(*packed as u64);
        *gradient -= g;
        *hessian -= h;
    }
}

/// Packs the sums of a node's bins, in the room of the gradients; counts, where there are any behind the hessians, follow them.
#[inline(always)]
fn pack(gradient: &mut [i64], hessian: &mut [i64], count: &[i64]) {
    for (gradient, hessian) in gradient.iter_mut().zip(&*hessian) {
        *gradient = (*gradient << 32) + hessian;
    }
    hessian[..count.len()].copy_from_slice(count);
}

/// Sums the shards' partial bins of a feature, of which there are `n` in a column of a group, over the rows of a smaller child.
#[inline(always)]
pub fn sum_bins(numbers: &mut [i64], (group, column, n): (usize, usize, usize), pending: &Pending, merge: &Merge<'_>, counted: bool) {
    let planes = &merge.quantizer.planes;
    let lane = |p: usize, plane: Plane| merge.lanes.map(|lanes| (lanes.of(pending.output, p, plane), lanes.width));
    numbers.fill(0);
    let (gradient, rest) = numbers.split_at_mut(n);
    let (hessian, count) = rest.split_at_mut(n);
    for shard in merge.shards {
        for (p, plane) in planes.iter().enumerate() {
            for segment in shard.groups[group].partial_bins(pending.partial, (planes.len(), p), lane(p, *plane), column, n) {
                segment.visit(|bins| add_plane(*plane, bins, BinsMut { gradient, hessian, count }));
            }
        }
        if let Some([g, h, c]) = shard.groups[group].partial_folded(pending.partial, column, n) {
            add(gradient, g);
            add(hessian, h);
            add(count, &c[..count.len()]);
        }
    }
    if counted && !planes.contains(&Plane::Count) {
        count.copy_from_slice(hessian);
    }
}

impl FeatureShare {
    /// Takes the share of member `index` of `members` of the features of group `group`, which are numbered from `first` on;
    /// neighbours stay together.
    pub fn new(
        features: &[CodedFeature],
        plan: &StoragePlan,
        group: usize,
        first: usize,
        counted: bool,
        index: usize,
        members: usize,
    ) -> FeatureShare {
        let dense: Vec<(usize, usize)> = plan.dense_features().collect();
        let own = &dense[dense.len() * index / members..dense.len() * (index + 1) / members];
        let bins: Vec<usize> = own.iter().map(|(f, _)| features[*f].bins()).collect();
        let sparse = SparseBinShare::new(features, plan, group, first, counted, index, members);
        let mine = own.iter().map(|(f, _)| *f).chain(sparse.several.iter().map(|s| s.feature)).map(|f| first + f).collect();
        let columns = own.iter().map(|(_, column)| *column).collect();
        let mut starts = vec![];
        let mut slot_size = 0;
        for b in &bins {
            starts.push(slot_size);
            slot_size += b * if counted { 3 } else { 2 };
        }
        FeatureShare {
            features: mine,
            columns,
            sparse,
            group,
            first,
            starts,
            bins,
            slot_size,
            counted,
            counts: Counts::None,
            left_out: vec![],
            packed: vec![],
            slots: vec![],
        }
    }

    /// Begins a tree: all features' histograms may be asked for.
    pub fn begin_tree(&mut self) {
        self.left_out.clear();
    }

    /// Keeps no histograms of these features, which are in the order of their numbers, until the next tree. The first feature's stay: nodes' sums are
    /// read in them.
    pub fn leave_out(&mut self, features: &[u32]) {
        let of_columns = &self.features[..self.columns.len()];
        self.left_out = of_columns.iter().map(|f| features.binary_search(&(*f as u32)).is_ok()).collect();
        if let Some(first) = self.left_out.first_mut() {
            *first = false;
        }
    }

    /// Gives up the histograms: the room that they took.
    pub fn give_up_slots(&mut self) -> Vec<i64> {
        std::mem::take(&mut self.slots)
    }

    /// Takes room for histograms that another share has given up.
    pub fn take_slots(&mut self, room: Vec<i64>) {
        self.slots = room;
    }

    /// Makes room for the histograms of as many nodes.
    ///
    /// # Errors
    /// [`taiga_core::Error::Memory`].
    pub fn make_room(&mut self, slots: usize) -> Result<()> {
        pages::make_room("the memory of a tree's histograms", &mut self.slots, slots * self.slot_size)
    }

    /// Makes room for `slots` slots.
    fn reserve(&mut self, slots: usize) {
        pages::grow(&mut self.slots, slots * self.slot_size);
        if self.packed.len() < slots {
            self.packed.resize(slots, false);
        }
    }

    /// Returns where the numbers of feature `k` are in a slot: gradients, hessians and counts, or packed bins and counts of their own.
    #[inline(always)]
    fn range(&self, slot: usize, k: usize, packed: bool) -> std::ops::Range<usize> {
        let start = slot * self.slot_size + self.starts[k];
        let parts = match (packed, self.counted) {
            (true, _) => 1 + (self.counts == Counts::Rows) as usize,
            (false, counted) => 2 + counted as usize,
        };
        start..start + self.bins[k] * parts
    }

    /// Returns the bins of the share's feature `k`, one with a column, in a slot.
    #[inline(always)]
    pub(super) fn slot_bins(&self, slot: usize, k: usize) -> NodeBins<'_> {
        let n = self.bins[k];
        let numbers = &self.slots[self.range(slot, k, self.packed[slot])];
        let (gradient, rest) = numbers.split_at(n);
        if self.packed[slot] {
            return NodeBins::Packed { bins: as_packed(gradient), count: rest, counts: self.counts };
        }
        let (hessian, count) = rest.split_at(n);
        NodeBins::Wide { gradient, hessian, count }
    }

    /// Returns the bins of the share's feature `k` in a node.
    #[inline(always)]
    pub(super) fn at_place<'a>(&'a self, place: &NodeHistogram<'a>, k: usize) -> NodeBins<'a> {
        match *place {
            NodeHistogram::Slot { slot, total } => match k.checked_sub(self.columns.len()) {
                Some(k) => NodeBins::Sparse(self.sparse.bins(k, slot, total)),
                None => self.slot_bins(slot, k),
            },
            NodeHistogram::Rows { rows, statistics, columns } => {
                NodeBins::Rows { rows, statistics, codes: columns.feature(self.features[k] - self.first), counts: self.counts }
            }
        }
    }

    /// Sums the shards' partial bins of the share's feature `k` into the smaller child's slot, and subtracts them from the parent's, which so become the
    /// larger child's. `packed`: whether the parent's are packed.
    #[inline(always)]
    fn merge_feature(&mut self, k: usize, pending: &Pending, (merge, packed): (&Merge<'_>, bool)) {
        if pending.packed[0] && packed {
            return self.sum_packed(k, pending, merge, pending.larger);
        }
        if pending.packed[0] {
            self.sum_packed(k, pending, merge, None);
        } else {
            let range = self.range(pending.smaller, k, false);
            sum_bins(&mut self.slots[range], (self.group, self.columns[k], self.bins[k]), pending, merge, self.counted);
        }
        self.subtract_feature(k, pending, packed);
    }

    /// Sums the shards' partial bins of the share's feature `k`, which can be packed, into the smaller child's slot, and subtracts them from the packed
    /// ones of slot `larger`, if there is one.
    #[inline(always)]
    fn sum_packed(&mut self, k: usize, pending: &Pending, merge: &Merge<'_>, larger: Option<usize>) {
        let (n, column) = (self.bins[k], self.columns[k]);
        let of_smaller = self.range(pending.smaller, k, true);
        let (smaller, larger): (&mut [i64], &mut [i64]) = match larger.map(|larger| self.range(larger, k, true)) {
            Some(of_larger) => split_pair(&mut self.slots, of_smaller.start, of_larger.start, of_smaller.len()),
            None => (&mut self.slots[of_smaller], &mut []),
        };
        let groups = || merge.shards.iter().map(|shard| &shard.groups[self.group]);
        let segments: usize = groups().map(|group| group.partial_segments(pending.partial)).sum();
        if segments == 0 {
            return smaller.fill(0);
        }
        let divides = !larger.is_empty();
        // Loops in loops: chains of iterators over shards and segments became calls that were not inlined.
        let turn = |i: usize| Turn { first: i == 0, last: i + 1 == segments && divides };
        if self.counts == Counts::Rows && merge.lanes.is_some_and(|lanes| lanes.width == 2) {
            let mut i = 0;
            for group in groups() {
                for pairs in group.partial_pairs(pending.partial, column, n) {
                    turn(i).merge_pairs(smaller, larger, pairs);
                    i += 1;
                }
            }
            return;
        }
        let planes = &merge.quantizer.planes;
        for (p, smaller) in smaller.chunks_exact_mut(n).enumerate() {
            let larger = larger.get_mut(p * n..(p + 1) * n).unwrap_or_default();
            let lane = merge.lanes.map(|lanes| (lanes.of(pending.output, p, planes[p]), lanes.width));
            let mut i = 0;
            for group in groups() {
                for bins in group.partial_bins(pending.partial, (planes.len(), p), lane, column, n) {
                    turn(i).merge_segment(smaller, larger, bins);
                    i += 1;
                }
            }
        }
    }

    /// Subtracts the smaller child's bins of the share's feature `k` from the parent's, which so become the larger child's.
    /// `packed`: whether the parent's are packed.
    #[inline(always)]
    fn subtract_feature(&mut self, k: usize, pending: &Pending, packed: bool) {
        let n = self.bins[k];
        let Some(larger) = pending.larger else { return };
        let (of_larger, of_smaller) = (self.range(larger, k, packed), self.range(pending.smaller, k, pending.packed[0]));
        let (a, b) = split_pair(&mut self.slots, of_larger.start, of_smaller.start, of_larger.len());
        if packed == pending.packed[0] {
            subtract(a, b);
        } else {
            let (gradient, rest) = a.split_at_mut(n);
            let (hessian, count) = rest.split_at_mut(n);
            subtract_packed(gradient, hessian, &b[..n]);
            match self.counts {
                Counts::Rows => subtract(count, &b[n..2 * n]),
                Counts::Hessians => count.copy_from_slice(hessian),
                Counts::None => {}
            }
        }
        if pending.packed[1] && !packed {
            let (gradient, rest) = a.split_at_mut(n);
            let (hessian, count) = rest.split_at_mut(n);
            pack(gradient, hessian, if self.counts == Counts::Rows { count } else { &[] });
        }
    }

    /// Notes which slots will be packed, and merges the sparse features; returns for each pending division whether the parent's
    /// bins were packed.
    pub(super) fn begin(&mut self, merge: &Merge<'_>) -> Vec<bool> {
        self.reserve(merge.slots);
        let parents = |p: &Pending| p.larger.is_some_and(|larger| std::mem::replace(&mut self.packed[larger], p.packed[1]));
        let parents = merge.pending.iter().map(parents).collect();
        for p in merge.pending {
            self.packed[p.smaller] = p.packed[0];
        }
        self.counts = match self.counted {
            true if merge.quantizer.planes.contains(&Plane::Count) => Counts::Rows,
            true => Counts::Hessians,
            false => Counts::None,
        };
        self.sparse.merge(merge.pending, merge.slots, merge.shards, &merge.quantizer.planes);
        parents
    }

    /// Returns how many numbers a node's histogram has in this share.
    pub fn slot_size(&self) -> usize {
        self.slot_size
    }

    /// Merges the pending histograms, none of which is packed, whose smaller children's sums over all rows are `sums`: a slice for each.
    pub fn take_sums<'s>(&mut self, merge: &Merge<'_>, sums: impl Fn(usize) -> &'s [i64]) {
        self.begin(merge);
        for (i, p) in merge.pending.iter().enumerate() {
            self.slots[p.smaller * self.slot_size..(p.smaller + 1) * self.slot_size].copy_from_slice(sums(i));
            (0..self.columns.len()).for_each(|k| self.subtract_feature(k, p, false));
        }
    }

    /// Merges the pending histograms of all the share's features.
    pub fn merge(&mut self, merge: &Merge<'_>) {
        let packed = self.begin(merge);
        merge_features(self, merge, &packed);
    }

    /// Returns the sums over all rows of the node in a slot; none where this share has no feature with a column of its own.
    pub fn node_sums(&self, slot: usize) -> Option<Sums> {
        (!self.columns.is_empty()).then(|| {
            let b = self.slot_bins(slot, 0);
            b.total(0..self.bins[0])
        })
    }

    /// Returns the sums of a candidate's left child in a node, if its feature is one of this share.
    pub fn left_sums(&self, place: &NodeHistogram<'_>, candidate: &Candidate, feature: &CodedFeature) -> Option<Sums> {
        let (dense, sparse) = self.features.split_at(self.columns.len());
        let wanted = candidate.feature as usize;
        let found = dense.binary_search(&wanted).or_else(|_| sparse.binary_search(&wanted).map(|k| dense.len() + k));
        let Ok(k) = found else { return self.sparse.left_sums(place, candidate) };
        let range = (!candidate.missing_left) as usize * feature.first()..feature.first() + candidate.border as usize + 1;
        Some(self.at_place(place, k).total(range))
    }

    /// Merges the pending histograms of the share's feature `k`, where it has a column and is not left out. The flags: whether each parent was
    /// packed.
    #[inline(always)]
    pub(super) fn merge_pending(&mut self, k: usize, (merge, packed): (&Merge<'_>, &[bool])) {
        if k < self.columns.len() && !self.left_out.get(k).is_some_and(|left_out| *left_out) {
            for (p, packed) in merge.pending.iter().zip(packed) {
                self.merge_feature(k, p, (merge, *packed));
            }
        }
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn merge_features<'a>(share: &mut FeatureShare, merge: &Merge<'a>, packed: &[bool]) {
    for k in 0..share.columns.len() {
        share.merge_pending(k, (merge, packed));
    }
}
