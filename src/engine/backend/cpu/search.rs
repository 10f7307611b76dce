//! The histograms of the nodes, merged from the shards' partial ones, and the search for splits.
//! Each thread owns some features, with their bins in all nodes.

use super::codes::Columns;
use super::histogram::{MAX_ROWS, expand, unpack};
use super::shard::Shard;
use super::statistics::{BinsMut, Encoding, Plane, add_plane};
use crate::backend::{Candidate, CodedFeature, SearchNode};
use crate::tree::split::{SplitRules, Sums};
use multiversion::multiversion;
use std::ops::Deref;

/// A division whose smaller child's histogram is still in the shards' partials.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    pub partial: usize,
    pub smaller: usize,
    /// The slot that holds the parent's histogram and becomes the larger child's; none for a root.
    pub larger: Option<usize>,
}

/// A feature's bins in one node.
#[derive(Clone, Copy)]
enum Bins<'a> {
    /// Sums of their own; no counts where rows are not counted.
    Wide { gradient: &'a [i64], hessian: &'a [i64], count: &'a [i64] },
    /// As the kernels add them ([`super::histogram`]); the count is the hessian where rows are counted.
    Packed { bins: &'a [u64], counted: bool },
    /// No bins: a few rows by themselves, with their packed statistics and the feature's codes.
    Rows { rows: &'a [u32], statistics: &'a [u32], codes: &'a [u8], counted: bool },
}

/// Where a node's histogram stands, or the few rows that make one superfluous.
#[derive(Clone, Copy)]
pub enum Place<'a> {
    Slot(usize),
    Rows { rows: &'a [u32], statistics: &'a [u32], columns: &'a Columns },
}

#[inline(always)]
fn add_sums(a: Sums, b: Sums) -> Sums {
    Sums { gradient: a.gradient + b.gradient, hessian: a.hessian + b.hessian, count: a.count + b.count }
}

/// A packed statistic, or a sum of some, as sums.
#[inline(always)]
fn sums(bin: u64, counted: bool) -> Sums {
    let (gradient, hessian) = unpack(bin);
    Sums { gradient, hessian, count: if counted { hessian } else { 0 } }
}

impl Bins<'_> {
    /// The sums of one bin.
    #[inline(always)]
    fn at(&self, bin: usize) -> Sums {
        match self {
            Bins::Wide { gradient, hessian, count } => {
                Sums { gradient: gradient[bin], hessian: hessian[bin], count: if count.is_empty() { 0 } else { count[bin] } }
            }
            Bins::Packed { bins, counted } => sums(bins[bin], *counted),
            Bins::Rows { rows, statistics, codes, counted } => rows_total(rows, statistics, codes, *counted, bin..bin + 1),
        }
    }

    /// A bit for each of the bins `start .. end` (at most 64): whether it has any rows.
    #[inline(always)]
    fn occupied(&self, start: usize, end: usize) -> u64 {
        match self {
            Bins::Wide { gradient, hessian, count } => {
                let any = nonzero(&gradient[start..end]) | nonzero(&hessian[start..end]);
                if count.is_empty() { any } else { any | nonzero(&count[start..end]) }
            }
            Bins::Packed { bins, .. } => nonzero(&bins[start..end]),
            Bins::Rows { .. } => u64::MAX,
        }
    }

    /// The sums over a range of bins.
    #[inline(always)]
    fn total(&self, range: std::ops::Range<usize>) -> Sums {
        match self {
            Bins::Rows { rows, statistics, codes, counted } => rows_total(rows, statistics, codes, *counted, range),
            _ => range.fold(Sums::default(), |a, i| add_sums(a, self.at(i))),
        }
    }
}

/// The sums over the rows with codes inside a range.
#[inline(always)]
fn rows_total(rows: &[u32], statistics: &[u32], codes: &[u8], counted: bool, range: std::ops::Range<usize>) -> Sums {
    let inside = rows.iter().zip(statistics).filter(|(r, _)| range.contains(&(codes[**r as usize] as usize)));
    sums(inside.fold(0, |a, (_, s)| expand(*s).wrapping_add(a)), counted)
}

/// A bit for each of up to 64 numbers: whether it is not zero.
#[inline(always)]
fn nonzero<T: Copy + Default + PartialEq>(numbers: &[T]) -> u64 {
    let mut bits = 0u64;
    let mut i = 0;
    while i + 8 <= numbers.len() {
        let mut byte = 0u8;
        for j in 0..8 {
            byte |= ((numbers[i + j] != T::default()) as u8) << j;
        }
        bits |= (byte as u64) << i;
        i += 8;
    }
    while i < numbers.len() {
        bits |= ((numbers[i] != T::default()) as u64) << i;
        i += 1;
    }
    bits
}

/// The features of one thread, with their bins in every slot: for each slot, for each feature, the
/// gradients of all bins, then the hessians, then the counts.
pub struct FeatureShare {
    /// Ascending.
    features: Vec<usize>,
    /// Of each of `features`, the first of its numbers in a slot.
    starts: Vec<usize>,
    bins: Vec<usize>,
    slot_size: usize,
    counted: bool,
    /// Whether this tree's slots hold packed bins, one number each.
    packed: bool,
    slots: Vec<i64>,
}

/// The best of some candidates; `left` belongs to a node by itself.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub candidate: Candidate,
    pub left: Sums,
}

/// Whether `a` goes before `b`: the larger gain; at a tie the lower feature, then the lower
/// border, then missing values to the left.
pub fn better(a: &Candidate, b: &Candidate) -> bool {
    a.gain > b.gain || (a.gain == b.gain && (a.feature, a.border, !a.missing_left) < (b.feature, b.border, !b.missing_left))
}

/// The better of two.
pub fn best_of(a: Option<Found>, b: Option<Found>) -> Option<Found> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if better(&b.candidate, &a.candidate) { b } else { a }),
        (a, b) => a.or(b),
    }
}

/// Vectors of this many numbers are computed as wholes.
const LANES: usize = 8;

/// The most bins a feature has, rounded up to whole vectors.
const MAX_BINS: usize = 264;

/// Sums from the first bin up to each bin that has any rows: behind an empty bin a candidate
/// would only repeat the one before, and at a tie the lower border is taken anyway. The bin of
/// the first border always has an entry, which may put nothing but missing values to the left.
struct Steps {
    len: usize,
    bin: [u32; MAX_BINS],
    gradient: [i64; MAX_BINS],
    hessian: [i64; MAX_BINS],
    count: [i64; MAX_BINS],
    /// Packed bins, all zero between uses.
    scratch: [u64; MAX_BINS],
}

impl Steps {
    fn new() -> Steps {
        Steps { len: 0, bin: [0; MAX_BINS], gradient: [0; MAX_BINS], hessian: [0; MAX_BINS], count: [0; MAX_BINS], scratch: [0; MAX_BINS] }
    }

    /// From the bins of a feature whose values start at bin `first`.
    #[inline(always)]
    fn fill(&mut self, bins: &Bins<'_>, first: usize) {
        self.len = 0;
        match bins {
            Bins::Wide { gradient, .. } => self.fill_bins(bins, first, gradient.len()),
            Bins::Packed { bins: packed, .. } => self.fill_bins(bins, first, packed.len()),
            Bins::Rows { rows, statistics, codes, counted } => self.fill_rows(rows, statistics, codes, *counted, first),
        }
    }

    #[inline(always)]
    fn fill_bins(&mut self, bins: &Bins<'_>, first: usize, n: usize) {
        let mut sum = if first > 0 { bins.at(0) } else { Sums::default() };
        for start in (first..n).step_by(64) {
            let end = n.min(start + 64);
            let mut occupied = bins.occupied(start, end) | (start == first) as u64;
            if occupied == u64::MAX >> (64 - (end - start)) {
                for i in start..end {
                    self.push(i, bins.at(i), &mut sum);
                }
            } else {
                while occupied != 0 {
                    let i = start + occupied.trailing_zeros() as usize;
                    self.push(i, bins.at(i), &mut sum);
                    occupied &= occupied - 1;
                }
            }
        }
    }

    #[inline(always)]
    fn fill_rows(&mut self, rows: &[u32], statistics: &[u32], codes: &[u8], counted: bool, first: usize) {
        // Bins that are only visited where they are occupied, and left empty again.
        let mut occupied = [0u64; MAX_BINS.div_ceil(64)];
        let n = rows.len();
        for (row, statistic) in rows.iter().zip(&statistics[..n]) {
            let code = codes[*row as usize] as usize;
            self.scratch[code] = self.scratch[code].wrapping_add(expand(*statistic));
            occupied[code / 64] |= 1 << (code % 64);
        }
        let mut sum = Sums::default();
        if first > 0 && occupied[0] & 1 != 0 {
            sum = sums(std::mem::take(&mut self.scratch[0]), counted);
            occupied[0] &= !1;
        }
        occupied[0] |= 1 << first;
        for (word, mut bits) in occupied.into_iter().enumerate() {
            while bits != 0 {
                let code = word * 64 + bits.trailing_zeros() as usize;
                let bin = std::mem::take(&mut self.scratch[code]);
                self.push(code, sums(bin, counted), &mut sum);
                bits &= bits - 1;
            }
        }
    }

    #[inline(always)]
    fn push(&mut self, bin: usize, more: Sums, sum: &mut Sums) {
        *sum = add_sums(*sum, more);
        self.bin[self.len] = bin as u32;
        self.gradient[self.len] = sum.gradient;
        self.hessian[self.len] = sum.hessian;
        self.count[self.len] = sum.count;
        self.len += 1;
    }

    fn at(&self, step: usize) -> Sums {
        Sums { gradient: self.gradient[step], hessian: self.hessian[step], count: self.count[step] }
    }

    /// The number of steps that lie before bin `end`.
    fn before(&self, end: usize) -> usize {
        self.len - (self.len > 0 && self.bin[self.len - 1] as usize >= end) as usize
    }
}

/// What all candidates of one node and feature share.
struct Context<'a> {
    rules: &'a SplitRules,
    total: Sums,
    bounds: (f64, f64),
    direction: i8,
    /// The score of a candidate with a child that is too small.
    too_small: f64,
}

/// Scores of the candidates that put the bins up to each of the first `n` steps, less `missing`, to
/// the left: the sum of both children's scores. What follows in `out` has no meaning.
#[inline(always)]
fn scores(steps: &Steps, missing: Sums, c: &Context<'_>, out: &mut [f64; MAX_BINS], n: usize) {
    if c.rules.monotone.is_empty() && c.rules.l1 == 0.0 && c.rules.min_data_in_leaf == 0 {
        let n = n.next_multiple_of(LANES);
        plain_scores(&steps.gradient[..n], &steps.hessian[..n], missing, c.total, c.rules, c.too_small, &mut out[..n]);
    } else {
        for (i, o) in out[..n].iter_mut().enumerate() {
            *o = score(steps.at(i) - missing, c);
        }
    }
}

/// One candidate's score, with every rule: the definition.
fn score(left: Sums, c: &Context<'_>) -> f64 {
    let rules = c.rules;
    let right = c.total - left;
    let ((gl, hl), (gr, hr)) = (rules.values(left), rules.values(right));
    let large = |s: Sums, h: f64| {
        s.hessian > 0 && h >= rules.min_child_weight && (rules.min_data_in_leaf == 0 || s.count >= rules.min_data_in_leaf)
    };
    if !large(left, hl) || !large(right, hr) {
        return c.too_small;
    }
    if rules.monotone.is_empty() {
        let (tl, tr) = (crate::tree::split::soft_threshold(gl, rules.l1), crate::tree::split::soft_threshold(gr, rules.l1));
        let (dl, dr) = (hl + rules.l2, hr + rules.l2);
        return (tl * tl * dr + tr * tr * dl) / (dl * dr);
    }
    let (wl, wr) = (rules.leaf_value(gl, hl, c.bounds), rules.leaf_value(gr, hr, c.bounds));
    if (wr - wl) * (c.direction as f64) < 0.0 {
        return f64::NEG_INFINITY;
    }
    rules.leaf_score(gl, hl, wl) + rules.leaf_score(gr, hr, wr)
}

/// [`score`] for many candidates at once, where neither l1 nor counts nor monotone constraints play.
#[inline(always)]
fn plain_scores(gradient: &[i64], hessian: &[i64], missing: Sums, total: Sums, rules: &SplitRules, too_small: f64, out: &mut [f64]) {
    let n = out.len();
    let (gradient, hessian) = (&gradient[..n], &hessian[..n]);
    let (sg, sh, l2, least) = (rules.scales.gradient, rules.scales.hessian, rules.l2, rules.min_child_weight);
    for i in 0..n {
        let (gl, hl) = (gradient[i] - missing.gradient, hessian[i] - missing.hessian);
        let (gr, hr) = (total.gradient - gl, total.hessian - hl);
        let some = (hl > 0) & (hr > 0);
        let (gl, hl, gr, hr) = (gl as f64 * sg, hl as f64 * sh, gr as f64 * sg, hr as f64 * sh);
        let (dl, dr) = (hl + l2, hr + l2);
        let v = (gl * gl * dr + gr * gr * dl) / (dl * dr);
        out[i] = if some & (hl >= least) & (hr >= least) { v } else { too_small };
    }
}

/// The largest score and the first place that has it.
#[inline(always)]
fn first_largest(scores: &[f64]) -> (f64, usize) {
    const LANES: usize = 16;
    let mut lanes = [f64::NEG_INFINITY; LANES];
    let chunks = scores.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] = if chunk[i] > lanes[i] { chunk[i] } else { lanes[i] };
        }
    }
    let largest = lanes.iter().chain(rest).fold(f64::NEG_INFINITY, |a, b| if *b > a { *b } else { a });
    (largest, scores.iter().position(|s| *s == largest).unwrap_or(0))
}

/// `a[i] -= b[i]`; packed numbers may pass through the sign bit.
#[inline(always)]
fn subtract(a: &mut [i64], b: &[i64]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a = a.wrapping_sub(*b);
    }
}

/// Adds packed bins to packed numbers.
#[inline(always)]
fn add_packed(numbers: &mut [i64], bins: &[u64]) {
    for (a, b) in numbers.iter_mut().zip(bins) {
        *a = a.wrapping_add(*b as i64);
    }
}

/// The same numbers as packed bins.
fn as_packed(numbers: &[i64]) -> &[u64] {
    // SAFETY: i64 and u64 have the same size and alignment, and every bit pattern is one of both.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr() as *const u64, numbers.len()) }
}

impl FeatureShare {
    /// The features that fall to member `index` of `members`, neighbours together.
    pub fn new(features: &[CodedFeature], counted: bool, index: usize, members: usize) -> FeatureShare {
        let mine: Vec<usize> = (features.len() * index / members..features.len() * (index + 1) / members).collect();
        let bins: Vec<usize> = mine.iter().map(|f| features[*f].bins()).collect();
        let mut starts = vec![];
        let mut slot_size = 0;
        for b in &bins {
            starts.push(slot_size);
            slot_size += b * if counted { 3 } else { 2 };
        }
        FeatureShare { features: mine, starts, bins, slot_size, counted, packed: false, slots: vec![] }
    }

    /// The number of i64 in a slot over all features.
    pub fn total_slot_size(features: &[CodedFeature], counted: bool) -> usize {
        features.iter().map(|f| f.bins() * if counted { 3 } else { 2 }).sum()
    }

    /// Makes room for `slots` slots.
    fn reserve(&mut self, slots: usize) {
        if self.slots.len() < slots * self.slot_size {
            self.slots.resize(slots * self.slot_size, 0);
        }
    }

    fn range(&self, slot: usize, k: usize) -> std::ops::Range<usize> {
        let start = slot * self.slot_size + self.starts[k];
        start..start + self.bins[k] * if self.counted { 3 } else { 2 }
    }

    fn bins(&self, slot: usize, k: usize) -> Bins<'_> {
        let n = self.bins[k];
        let numbers = &self.slots[self.range(slot, k)];
        if self.packed {
            return Bins::Packed { bins: as_packed(&numbers[..n]), counted: self.counted };
        }
        let (gradient, rest) = numbers.split_at(n);
        let (hessian, count) = rest.split_at(n);
        Bins::Wide { gradient, hessian, count }
    }

    /// Own feature `k` at a node's place.
    #[inline(always)]
    fn at_place<'a>(&'a self, place: &Place<'a>, k: usize) -> Bins<'a> {
        match *place {
            Place::Slot(slot) => self.bins(slot, k),
            Place::Rows { rows, statistics, columns } => {
                Bins::Rows { rows, statistics, codes: columns.feature(self.features[k]), counted: self.counted }
            }
        }
    }

    /// Sums the shards' partial bins of own feature `k` into the smaller child's slot, and takes
    /// them from the parent's, which so becomes the larger child's.
    #[inline(always)]
    fn merge_feature(&mut self, k: usize, pending: &Pending, shards: &[&Shard], encoding: &Encoding) {
        let n = self.bins[k];
        let mut range = self.range(pending.smaller, k);
        if self.packed {
            range.end = range.start + n;
        }
        let numbers = &mut self.slots[range.clone()];
        numbers.fill(0);
        if self.packed {
            for shard in shards {
                shard.partial_bins(pending.partial, 1, 0, self.features[k], n, |bins| add_packed(numbers, bins));
            }
            return self.take_from_larger(pending, k, range);
        }
        let (gradient, rest) = numbers.split_at_mut(n);
        let (hessian, count) = rest.split_at_mut(n);
        for shard in shards {
            for (p, plane) in encoding.planes.iter().enumerate() {
                shard.partial_bins(pending.partial, encoding.planes.len(), p, self.features[k], n, |bins| {
                    add_plane(*plane, bins, BinsMut { gradient, hessian, count });
                });
            }
        }
        if self.counted && !encoding.planes.contains(&Plane::Count) {
            count.copy_from_slice(hessian);
        }
        self.take_from_larger(pending, k, range);
    }

    /// Takes the smaller child's numbers, which stand at `range`, from the parent's.
    #[inline(always)]
    fn take_from_larger(&mut self, pending: &Pending, k: usize, range: std::ops::Range<usize>) {
        let Some(larger) = pending.larger else { return };
        let start = self.range(larger, k).start;
        let (a, b) = if start < range.start {
            let (low, high) = self.slots.split_at_mut(range.start);
            (&mut low[start..start + range.len()], &high[..range.len()])
        } else {
            let (low, high) = self.slots.split_at_mut(start);
            (&mut high[..range.len()], &low[range])
        };
        subtract(a, b);
    }

    /// Merges what is pending, for `slots` slots in all.
    pub fn merge<S: Deref<Target = Shard>>(&mut self, pending: &[Pending], slots: usize, shards: &[S], encoding: &Encoding) {
        self.reserve(slots);
        let rows: usize = shards.iter().map(|s| s.rows).sum();
        self.packed = rows <= MAX_ROWS && encoding.planes == [Plane::Both];
        let shards: Vec<&Shard> = shards.iter().map(|s| &**s).collect();
        merge(self, pending, &shards, encoding);
    }

    /// The sums over all rows of the node in a slot; none where this share has no feature.
    pub fn node_sums(&self, slot: usize) -> Option<Sums> {
        (!self.features.is_empty()).then(|| {
            let b = self.bins(slot, 0);
            b.total(0..self.bins[0])
        })
    }

    /// The sums left of a candidate in a node, if the feature is one of this share.
    pub fn left_sums(&self, place: &Place<'_>, candidate: &Candidate, feature: &CodedFeature) -> Option<Sums> {
        let k = self.features.binary_search(&(candidate.feature as usize)).ok()?;
        let range = (!candidate.missing_left) as usize * feature.first()..feature.first() + candidate.border as usize + 1;
        Some(self.at_place(place, k).total(range))
    }

    /// The best split of each node among this share's features. `places[i]` is node `i`'s.
    pub fn find_splits(
        &self,
        nodes: &[SearchNode],
        places: &[Place<'_>],
        features: &[CodedFeature],
        rules: &SplitRules,
    ) -> Vec<Option<Found>> {
        find_splits(self, nodes, places, features, rules)
    }

    #[inline(always)]
    fn splits_of_nodes(
        &self,
        nodes: &[SearchNode],
        places: &[Place<'_>],
        features: &[CodedFeature],
        rules: &SplitRules,
    ) -> Vec<Option<Found>> {
        let mut found = vec![None; nodes.len()];
        let mut steps = Steps::new();
        let mut out = [0.0; MAX_BINS];
        for (i, node) in nodes.iter().enumerate() {
            let parent = rules.node_score(node.sums, node.bounds);
            for (k, f) in self.features.iter().enumerate() {
                if node.features.as_ref().is_some_and(|allowed| allowed.binary_search(&(*f as u32)).is_err()) {
                    continue;
                }
                let bins = self.at_place(&places[i], k);
                let c = self.context(node, *f, rules, f64::NEG_INFINITY);
                let feature = &features[*f];
                let (first, borders) = (feature.first(), feature.borders.len());
                steps.fill(&bins, first);
                let missing = self.missing(&bins, feature);
                for missing_left in [true, false] {
                    // No closure: it would be compiled for the plainest of processors.
                    let (aside, candidates) =
                        if missing_left { (Sums::default(), steps.before(first + borders)) } else { (missing, steps.len) };
                    if !missing_left && missing == Sums::default() {
                        break;
                    }
                    scores(&steps, aside, &c, &mut out, candidates);
                    let (largest, step) = first_largest(&out[..candidates]);
                    let border = steps.bin[step] - first as u32;
                    let candidate = Candidate { feature: *f as u32, border, missing_left, gain: largest - parent };
                    if candidate.gain > rules.min_gain {
                        found[i] = best_of(found[i], Some(Found { candidate, left: steps.at(step) - aside }));
                    }
                }
            }
        }
        found
    }

    /// The split among this share's features with the largest gain summed over all nodes.
    pub fn find_level_split(
        &self,
        nodes: &[SearchNode],
        places: &[Place<'_>],
        features: &[CodedFeature],
        rules: &SplitRules,
    ) -> Option<Candidate> {
        find_level_split(self, nodes, places, features, rules)
    }

    #[inline(always)]
    fn split_of_level(
        &self,
        nodes: &[SearchNode],
        places: &[Place<'_>],
        features: &[CodedFeature],
        rules: &SplitRules,
    ) -> Option<Candidate> {
        let mut best: Option<Candidate> = None;
        let mut steps = Steps::new();
        let mut out = [0.0; MAX_BINS];
        let mut sums = [[0.0; MAX_BINS]; 2];
        let parents: Vec<f64> = nodes.iter().map(|n| rules.node_score(n.sums, n.bounds)).collect();
        let parent: f64 = parents.iter().sum();
        for (k, f) in self.features.iter().enumerate() {
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
                steps.fill(&bins, first);
                // A node that a candidate would leave a child too small in counts as not split.
                let c = self.context(node, *f, rules, parents[i]);
                scores(&steps, Sums::default(), &c, &mut out, steps.before(first + borders));
                add_steps(&mut sums[0][..borders], &out[..steps.before(first + borders)], &steps, first);
                if any_missing {
                    scores(&steps, self.missing(&bins, feature), &c, &mut out, steps.len);
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

    fn missing(&self, bins: &Bins<'_>, feature: &CodedFeature) -> Sums {
        if !feature.missing_bin {
            return Sums::default();
        }
        bins.at(0)
    }
}

/// Adds each step's score to the candidates from its bin up to the next step's.
#[inline(always)]
fn add_steps(sums: &mut [f64], scores: &[f64], steps: &Steps, first: usize) {
    if scores.len() == sums.len() {
        return add(sums, scores);
    }
    for (i, score) in scores.iter().enumerate() {
        let end = if i + 1 < scores.len() { steps.bin[i + 1] as usize - first } else { sums.len() };
        for s in &mut sums[steps.bin[i] as usize - first..end] {
            *s += score;
        }
    }
}

/// `a[i] += b[i]`
#[inline(always)]
fn add(a: &mut [f64], b: &[f64]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a += b;
    }
}

// The loops above are compiled for each kind of processor as wholes, so that what they call in
// their innermost turns is inlined; the processor is asked once a call of these.

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn merge(share: &mut FeatureShare, pending: &[Pending], shards: &[&Shard], encoding: &Encoding) {
    for k in 0..share.features.len() {
        for p in pending {
            share.merge_feature(k, p, shards, encoding);
        }
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn find_splits<'a>(
    share: &FeatureShare,
    nodes: &[SearchNode],
    places: &[Place<'a>],
    features: &[CodedFeature],
    rules: &SplitRules,
) -> Vec<Option<Found>> {
    share.splits_of_nodes(nodes, places, features, rules)
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn find_level_split<'a>(
    share: &FeatureShare,
    nodes: &[SearchNode],
    places: &[Place<'a>],
    features: &[CodedFeature],
    rules: &SplitRules,
) -> Option<Candidate> {
    share.split_of_level(nodes, places, features, rules)
}
