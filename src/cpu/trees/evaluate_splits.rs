//! The histograms of the nodes, merged from the shards' partial ones, and the search for splits.
//! Each thread owns some features, with their bins in all nodes.

use super::bins::{BorderSums, MAX_BINS, NodeBins, NodeHistogram, as_packed};
use super::category_subsets::best_subset;
use super::gradient_quantizer::{BinsMut, GradientQuantizer, Plane, add_plane};
use super::histogram::{MAX_ROWS, unpack};
use super::shard::Shard;
use super::sparse_bins::SparseBinShare;
use super::split_scores::{Context, add_steps, first_largest, largest, plain, scores};
use multiversion::multiversion;
use taiga_core::error::Result;
use taiga_core::learners::boosting::layout::StoragePlan;
use taiga_core::pages;
use taiga_core::quantize::{CodeSet, CodedFeature};
use taiga_core::tree::split::{SplitRules, Sums};
use taiga_core::tree::steps::{Candidate, SearchNode};

/// All bins of a node have steps where at least one in so many is occupied: for a node's own split, and for a
/// level's, where steps are added up bin by bin.
const DENSE_NODE: usize = 3;
const DENSE_LEVEL: usize = 8;

/// A division whose smaller child's histogram is still in the shards' partials.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    pub partial: usize,
    pub smaller: usize,
    /// The slot that holds the parent's histogram and becomes the larger child's; none for a root.
    pub larger: Option<usize>,
    /// Whether the smaller and the larger child's bins can be packed ([`packs`]).
    pub packed: [bool; 2],
}

/// Whether the bins of a node of so many rows can be packed, one number each: whatever is summed of it then fits
/// the halves.
pub fn packs(rows: usize, encoding: &GradientQuantizer) -> bool {
    rows <= MAX_ROWS && encoding.planes == [Plane::Both]
}

/// What is merged before, or while, slots are searched.
pub struct Merge<'a> {
    pub pending: &'a [Pending],
    /// How many slots there are then.
    pub slots: usize,
    pub shards: &'a [&'a Shard],
    pub encoding: &'a GradientQuantizer,
}

/// The features of one thread, with their bins in every slot: for each slot, for each feature, the
/// gradients of all bins, then the hessians, then the counts.
pub struct FeatureShare {
    /// Those with columns of their own, ascending, then the sparse ones that are searched by
    /// themselves, ascending.
    features: Vec<usize>,
    /// The columns of the former.
    columns: Vec<usize>,
    sparse: SparseBinShare,
    /// The index of their group, and its first feature.
    pub group: usize,
    first: usize,
    /// Of each of `columns`, the first of its numbers in a slot.
    starts: Vec<usize>,
    bins: Vec<usize>,
    slot_size: usize,
    counted: bool,
    /// Whether a slot holds packed bins, in the room of the gradients.
    packed: Vec<bool>,
    slots: Vec<i64>,
}

/// The best of some candidates; `left` belongs to a node by itself.
#[derive(Clone, Copy, Debug)]
pub struct FoundSplit {
    pub candidate: Candidate,
    pub left: Sums,
    /// Of a feature of categories, those that go right.
    pub subset: Option<CodeSet>,
}

/// Whether `a` goes before `b`: the larger gain; at a tie the lower feature, then the lower
/// border, then missing values to the left.
pub fn better(a: &Candidate, b: &Candidate) -> bool {
    a.gain > b.gain || (a.gain == b.gain && (a.feature, a.border, !a.missing_left) < (b.feature, b.border, !b.missing_left))
}

/// The better of two.
pub fn best_of(a: Option<FoundSplit>, b: Option<FoundSplit>) -> Option<FoundSplit> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if better(&b.candidate, &a.candidate) { b } else { a }),
        (a, b) => a.or(b),
    }
}

/// The `n` numbers from `a` on and those from `b` on, which don't overlap.
pub fn split_pair<T>(numbers: &mut [T], a: usize, b: usize, n: usize) -> (&mut [T], &[T]) {
    if a < b {
        let (low, high) = numbers.split_at_mut(b);
        (&mut low[a..a + n], &high[..n])
    } else {
        let (low, high) = numbers.split_at_mut(a);
        (&mut high[..n], &low[b..b + n])
    }
}

/// `a[i] -= b[i]`; packed numbers may pass through the sign bit.
#[inline(always)]
fn subtract(a: &mut [i64], b: &[i64]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a = a.wrapping_sub(*b);
    }
}

/// Sets packed numbers to packed bins, or adds them.
#[inline(always)]
fn add_packed(numbers: &mut [i64], bins: &[u64], first: bool) {
    for (a, b) in numbers.iter_mut().zip(bins) {
        *a = if first { *b as i64 } else { a.wrapping_add(*b as i64) };
    }
}

/// Takes packed numbers from sums of their own.
#[inline(always)]
fn subtract_packed(gradient: &mut [i64], hessian: &mut [i64], packed: &[i64]) {
    for ((gradient, hessian), packed) in gradient.iter_mut().zip(hessian).zip(packed) {
        let (g, h) = unpack(*packed as u64);
        *gradient -= g;
        *hessian -= h;
    }
}

/// Packs the sums of a node's bins, in the room of the gradients.
#[inline(always)]
fn pack(gradient: &mut [i64], hessian: &[i64]) {
    for (gradient, hessian) in gradient.iter_mut().zip(hessian) {
        *gradient = (*gradient << 32) + hessian;
    }
}

impl FeatureShare {
    /// Of the features of group `group`, which are numbered from `first` on, those that fall to
    /// member `index` of `members`, neighbours together.
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
        FeatureShare { features: mine, columns, sparse, group, first, starts, bins, slot_size, counted, packed: vec![], slots: vec![] }
    }

    /// Frees the histograms.
    pub fn clear(&mut self) {
        self.slots = vec![];
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

    fn range(&self, slot: usize, k: usize) -> std::ops::Range<usize> {
        let start = slot * self.slot_size + self.starts[k];
        start..start + self.bins[k] * if self.counted { 3 } else { 2 }
    }

    fn bins(&self, slot: usize, k: usize) -> NodeBins<'_> {
        let n = self.bins[k];
        let numbers = &self.slots[self.range(slot, k)];
        if self.packed[slot] {
            return NodeBins::Packed { bins: as_packed(&numbers[..n]), counted: self.counted };
        }
        let (gradient, rest) = numbers.split_at(n);
        let (hessian, count) = rest.split_at(n);
        NodeBins::Wide { gradient, hessian, count }
    }

    /// Own feature `k` at a node's place.
    #[inline(always)]
    fn at_place<'a>(&'a self, place: &NodeHistogram<'a>, k: usize) -> NodeBins<'a> {
        match *place {
            NodeHistogram::Slot { slot, total } => match k.checked_sub(self.columns.len()) {
                Some(k) => NodeBins::Sparse(self.sparse.bins(k, slot, total)),
                None => self.bins(slot, k),
            },
            NodeHistogram::Rows { rows, statistics, columns } => {
                NodeBins::Rows { rows, statistics, codes: columns.feature(self.features[k] - self.first), counted: self.counted }
            }
        }
    }

    /// Sums the threads' partial bins of own feature `k` into the smaller child's slot.
    #[inline(always)]
    fn sum_feature(&mut self, k: usize, pending: &Pending, merge: &Merge<'_>) {
        let (n, column) = (self.bins[k], self.columns[k]);
        let mut range = self.range(pending.smaller, k);
        if pending.packed[0] {
            range.end = range.start + n;
        }
        let planes = &merge.encoding.planes;
        let numbers = &mut self.slots[range.clone()];
        if pending.packed[0] {
            let mut first = true;
            for shard in merge.shards {
                shard.groups[self.group].partial_bins(pending.partial, 1, 0, column, n, |bins| {
                    add_packed(numbers, bins, first);
                    first = false;
                });
            }
            if first {
                numbers.fill(0);
            }
        } else {
            numbers.fill(0);
            let (gradient, rest) = numbers.split_at_mut(n);
            let (hessian, count) = rest.split_at_mut(n);
            for shard in merge.shards {
                for (p, plane) in planes.iter().enumerate() {
                    shard.groups[self.group].partial_bins(pending.partial, planes.len(), p, column, n, |bins| {
                        add_plane(*plane, bins, BinsMut { gradient, hessian, count });
                    });
                }
            }
            if self.counted && !planes.contains(&Plane::Count) {
                count.copy_from_slice(hessian);
            }
        }
    }

    /// Takes the smaller child's bins of own feature `k` from the parent's, which so become the larger child's. `packed`: what
    /// [`FeatureShare::packed`] says of the larger child's slot before.
    #[inline(always)]
    fn subtract_feature(&mut self, k: usize, pending: &Pending, packed: bool) {
        let n = self.bins[k];
        let mut range = self.range(pending.smaller, k);
        if pending.packed[0] {
            range.end = range.start + n;
        }
        let Some(larger) = pending.larger else { return };
        let size = if self.counted { 3 * n } else { 2 * n };
        let (a, b) = split_pair(&mut self.slots, self.slot_size * larger + self.starts[k], range.start, size);
        if packed || !pending.packed[0] {
            subtract(&mut a[..range.len()], &b[..range.len()]);
        } else {
            let (gradient, rest) = a.split_at_mut(n);
            let (hessian, count) = rest.split_at_mut(n);
            subtract_packed(gradient, hessian, &b[..n]);
            count.copy_from_slice(if self.counted { hessian } else { &[] });
        }
        if pending.packed[1] && !packed {
            let (gradient, hessian) = a.split_at_mut(n);
            pack(gradient, hessian);
        }
    }

    /// Notes the form that slots will have; gives, for each that is pending, whether the parent's was packed.
    fn begin(&mut self, merge: &Merge<'_>) -> Vec<bool> {
        self.reserve(merge.slots);
        let parents = |p: &Pending| p.larger.is_some_and(|larger| std::mem::replace(&mut self.packed[larger], p.packed[1]));
        let parents = merge.pending.iter().map(parents).collect();
        for p in merge.pending {
            self.packed[p.smaller] = p.packed[0];
        }
        self.sparse.merge(merge.pending, merge.slots, merge.shards, &merge.encoding.planes);
        parents
    }

    /// Sums the smaller children of what is pending, none of which is packed, from this process's rows; gives their bins.
    pub fn sum_smaller(&mut self, merge: &Merge<'_>) -> Vec<i64> {
        self.begin(merge);
        let mut sums = vec![];
        for p in merge.pending {
            (0..self.columns.len()).for_each(|k| self.sum_feature(k, p, merge));
            sums.extend_from_slice(&self.slots[p.smaller * self.slot_size..(p.smaller + 1) * self.slot_size]);
        }
        sums
    }

    /// Takes the sums of all rows in place of those that [`FeatureShare::sum_smaller`] gave, and merges them.
    pub fn take_sums(&mut self, merge: &Merge<'_>, sums: &[i64]) {
        for (p, sums) in merge.pending.iter().zip(sums.chunks_exact(self.slot_size.max(1))) {
            self.slots[p.smaller * self.slot_size..(p.smaller + 1) * self.slot_size].copy_from_slice(sums);
            (0..self.columns.len()).for_each(|k| self.subtract_feature(k, p, false));
        }
    }

    /// Merges what is pending.
    pub fn merge(&mut self, merge: &Merge<'_>) {
        let packed = self.begin(merge);
        merge_features(self, merge, &packed);
    }

    /// The sums over all rows of the node in a slot; none where this share has no feature with a
    /// column of its own.
    pub fn node_sums(&self, slot: usize) -> Option<Sums> {
        (!self.columns.is_empty()).then(|| {
            let b = self.bins(slot, 0);
            b.total(0..self.bins[0])
        })
    }

    /// The sums left of a candidate in a node, if the feature is one of this share.
    pub fn left_sums(&self, place: &NodeHistogram<'_>, candidate: &Candidate, feature: &CodedFeature) -> Option<Sums> {
        let (dense, sparse) = self.features.split_at(self.columns.len());
        let wanted = candidate.feature as usize;
        let found = dense.binary_search(&wanted).or_else(|_| sparse.binary_search(&wanted).map(|k| dense.len() + k));
        let Ok(k) = found else { return self.sparse.left_sums(place, candidate) };
        let range = (!candidate.missing_left) as usize * feature.first()..feature.first() + candidate.border as usize + 1;
        Some(self.at_place(place, k).total(range))
    }

    /// The best split of each node among this share's features, after merging what is pending. `places[i]` is node
    /// `i`'s.
    pub fn find_splits(
        &mut self,
        merge: &Merge<'_>,
        nodes: &[SearchNode],
        places: &[NodeHistogram<'_>],
        features: &[CodedFeature],
        rules: &SplitRules,
    ) -> Vec<Option<FoundSplit>> {
        let packed = self.begin(merge);
        let mut found = find_splits(self, (merge, &packed), nodes, places, features, rules);
        self.sparse.find_splits(nodes, places, rules, &mut found);
        found
    }

    /// Merges own feature `k` where it has a column.
    #[inline(always)]
    fn merge_pending(&mut self, k: usize, (merge, packed): (&Merge<'_>, &[bool])) {
        if k < self.columns.len() {
            for (p, packed) in merge.pending.iter().zip(packed) {
                self.sum_feature(k, p, merge);
                self.subtract_feature(k, p, *packed);
            }
        }
    }

    #[inline(always)]
    fn splits_of_nodes(
        &mut self,
        merge: (&Merge<'_>, &[bool]),
        nodes: &[SearchNode],
        places: &[NodeHistogram<'_>],
        features: &[CodedFeature],
        rules: &SplitRules,
    ) -> Vec<Option<FoundSplit>> {
        let mut found: Vec<Option<FoundSplit>> = vec![None; nodes.len()];
        let mut steps = BorderSums::new();
        let mut out = [0.0; MAX_BINS];
        let parents: Vec<f64> = nodes.iter().map(|n| rules.node_score(n.sums, n.bounds)).collect();
        let dense = if plain(rules) { DENSE_NODE } else { 1 };
        for k in 0..self.features.len() {
            // What has just been merged is still in the nearest cache when it is searched.
            self.merge_pending(k, merge);
            let f = &self.features[k];
            for (i, node) in nodes.iter().enumerate() {
                if node.features.as_ref().is_some_and(|allowed| allowed.binary_search(&(*f as u32)).is_err()) {
                    continue;
                }
                let bins = self.at_place(&places[i], k);
                let c = self.context(node, *f, rules, f64::NEG_INFINITY);
                let feature = &features[*f];
                let (first, borders) = (feature.first(), feature.borders.len());
                if feature.categories {
                    if let Some((gain, left, subset)) = best_subset(&bins, borders + 1, node, rules) {
                        let candidate = Candidate { feature: *f as u32, border: 0, missing_left: true, gain };
                        found[i] = best_of(found[i], Some(FoundSplit { candidate, left, subset: Some(subset) }));
                    }
                    continue;
                }
                steps.fill(&bins, first, dense);
                let missing = steps.missing;
                for missing_left in [true, false] {
                    // No closure: it would be compiled for the plainest of processors.
                    let (aside, candidates) =
                        if missing_left { (Sums::default(), steps.before(first + borders)) } else { (missing, steps.len) };
                    if !missing_left && missing == Sums::default() {
                        break;
                    }
                    scores(&steps, aside, &c, &mut out, candidates);
                    let gain = largest(&out[..candidates]) - parents[i];
                    // Where it is needs no looking for in most features.
                    if gain > rules.min_gain && found[i].is_none_or(|best| gain >= best.candidate.gain) {
                        let step = first_largest(&out[..candidates]).1;
                        let candidate = Candidate { feature: *f as u32, border: steps.bin[step] - first as u32, missing_left, gain };
                        found[i] = best_of(found[i], Some(FoundSplit { candidate, left: steps.at(step) - aside, subset: None }));
                    }
                }
            }
        }
        found
    }

    /// The split among this share's features with the largest gain summed over all nodes, after merging what is
    /// pending.
    pub fn find_level_split(
        &mut self,
        merge: &Merge<'_>,
        nodes: &[SearchNode],
        places: &[NodeHistogram<'_>],
        features: &[CodedFeature],
        rules: &SplitRules,
    ) -> Option<Candidate> {
        let parents: Vec<f64> = nodes.iter().map(|n| rules.node_score(n.sums, n.bounds)).collect();
        let packed = self.begin(merge);
        let best = find_level_split(self, (merge, &packed), nodes, places, features, rules, &parents);
        [best, self.sparse.find_level_split(nodes, places, rules, &parents)]
            .into_iter()
            .flatten()
            .reduce(|a, b| if better(&b, &a) { b } else { a })
    }

    #[inline(always)]
    fn split_of_level(
        &mut self,
        merge: (&Merge<'_>, &[bool]),
        nodes: &[SearchNode],
        places: &[NodeHistogram<'_>],
        features: &[CodedFeature],
        rules: &SplitRules,
        parents: &[f64],
    ) -> Option<Candidate> {
        let mut best: Option<Candidate> = None;
        let mut steps = BorderSums::new();
        let mut out = [0.0; MAX_BINS];
        let mut sums = [[0.0; MAX_BINS]; 2];
        let parent: f64 = parents.iter().sum();
        let dense = if plain(rules) { DENSE_LEVEL } else { 1 };
        for k in 0..self.features.len() {
            self.merge_pending(k, merge);
            let f = &self.features[k];
            if nodes.first().is_some_and(|n| n.features.as_ref().is_some_and(|allowed| allowed.binary_search(&(*f as u32)).is_err())) {
                continue;
            }
            let feature = &features[*f];
            let (first, borders) = (feature.first(), feature.borders.len());
            let any_missing = places.iter().any(|p| self.missing(&self.at_place(p, k), feature) != Sums::default());
            sums[0][..borders].fill(0.0);
            sums[1][..borders + 1].fill(0.0);
            for (i, node) in nodes.iter().enumerate() {
                let bins = self.at_place(&places[i], k);
                steps.fill(&bins, first, dense);
                // A node that a candidate would leave a child too small in counts as not split.
                let c = self.context(node, *f, rules, parents[i]);
                scores(&steps, Sums::default(), &c, &mut out, steps.before(first + borders));
                add_steps(&mut sums[0][..borders], &out[..steps.before(first + borders)], &steps, first);
                if any_missing {
                    scores(&steps, steps.missing, &c, &mut out, steps.len);
                    add_steps(&mut sums[1][..borders + 1], &out[..steps.len], &steps, first);
                }
            }
            for (side, candidates) in [(0, borders), (1, if any_missing { borders + 1 } else { 0 })] {
                let (largest, border) = first_largest(&sums[side][..candidates]);
                let candidate = Candidate { feature: *f as u32, border: border as u32, missing_left: side == 0, gain: largest - parent };
                if candidates > 0 && candidate.gain > rules.min_gain && best.is_none_or(|b| better(&candidate, &b)) {
                    best = Some(candidate);
                }
            }
        }
        best
    }

    fn context<'a>(&self, node: &SearchNode, feature: usize, rules: &'a SplitRules, too_small: f64) -> Context<'a> {
        let direction = rules.monotone.get(feature).copied().unwrap_or(0);
        Context { rules, total: node.sums, bounds: node.bounds, direction, too_small }
    }

    fn missing(&self, bins: &NodeBins<'_>, feature: &CodedFeature) -> Sums {
        if !feature.missing_bin {
            return Sums::default();
        }
        bins.at(0)
    }
}

// The loops above are compiled for each kind of processor as wholes, so that what they call in
// their innermost turns is inlined; the processor is asked once a call of these.

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn merge_features<'a>(share: &mut FeatureShare, merge: &Merge<'a>, packed: &[bool]) {
    for k in 0..share.columns.len() {
        share.merge_pending(k, (merge, packed));
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn find_splits<'a>(
    share: &mut FeatureShare,
    merge: (&Merge<'a>, &[bool]),
    nodes: &[SearchNode],
    places: &[NodeHistogram<'a>],
    features: &[CodedFeature],
    rules: &SplitRules,
) -> Vec<Option<FoundSplit>> {
    share.splits_of_nodes(merge, nodes, places, features, rules)
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn find_level_split<'a>(
    share: &mut FeatureShare,
    merge: (&Merge<'a>, &[bool]),
    nodes: &[SearchNode],
    places: &[NodeHistogram<'a>],
    features: &[CodedFeature],
    rules: &SplitRules,
    parents: &[f64],
) -> Option<Candidate> {
    share.split_of_level(merge, nodes, places, features, rules, parents)
}
