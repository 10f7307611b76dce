//! The histograms of the nodes, merged from the shards' partial ones, and the search for splits.
//! Each thread owns some features, with their bins in all nodes.

use super::shard::Shard;
use super::statistics::{BinsMut, Encoding, Plane, add_plane, totals};
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
struct Bins<'a> {
    gradient: &'a [i64],
    hessian: &'a [i64],
    count: &'a [i64],
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

/// The most bins a feature has.
const MAX_BINS: usize = 257;

/// Sums from the first bin up to each one.
struct Prefix {
    gradient: [i64; MAX_BINS],
    hessian: [i64; MAX_BINS],
    count: [i64; MAX_BINS],
}

impl Prefix {
    fn new() -> Prefix {
        Prefix { gradient: [0; MAX_BINS], hessian: [0; MAX_BINS], count: [0; MAX_BINS] }
    }

    fn fill(&mut self, bins: &Bins<'_>) {
        fn scan(values: &[i64], out: &mut [i64; MAX_BINS]) {
            let mut sum = 0;
            for (v, o) in values.iter().zip(out) {
                sum += v;
                *o = sum;
            }
        }
        scan(bins.gradient, &mut self.gradient);
        scan(bins.hessian, &mut self.hessian);
        scan(bins.count, &mut self.count);
    }

    fn at(&self, bin: usize) -> Sums {
        Sums { gradient: self.gradient[bin], hessian: self.hessian[bin], count: self.count[bin] }
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

/// Scores of the candidates that put the bins up to each of `prefix[from..to]`, less `missing`,
/// to the left: the sum of both children's scores.
fn scores(prefix: &Prefix, from: usize, to: usize, missing: Sums, c: &Context<'_>, out: &mut [f64]) {
    let out = &mut out[..to - from];
    let counts = (c.rules.min_data_in_leaf > 0).then_some(&prefix.count[from..to]);
    if c.rules.monotone.is_empty() && c.rules.l1 == 0.0 && counts.is_none() {
        plain_scores(&prefix.gradient[from..to], &prefix.hessian[from..to], missing, c.total, c.rules, c.too_small, out);
    } else {
        for (i, o) in out.iter_mut().enumerate() {
            *o = score(prefix.at(from + i) - missing, c);
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
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
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
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
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

/// `a[i] -= b[i]`
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn subtract(a: &mut [i64], b: &[i64]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a -= b;
    }
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
        FeatureShare { features: mine, starts, bins, slot_size, counted, slots: vec![] }
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
        let (gradient, rest) = self.slots[self.range(slot, k)].split_at(n);
        let (hessian, count) = rest.split_at(n);
        Bins { gradient, hessian, count }
    }

    /// Sums the shards' partial bins of own feature `k` into the smaller child's slot, and takes
    /// them from the parent's, which so becomes the larger child's.
    fn merge_feature<S: Deref<Target = Shard>>(&mut self, k: usize, pending: &Pending, shards: &[S], encoding: &Encoding) {
        let n = self.bins[k];
        let range = self.range(pending.smaller, k);
        let numbers = &mut self.slots[range.clone()];
        numbers.fill(0);
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
        if let Some(larger) = pending.larger {
            let larger = self.range(larger, k);
            let (a, b) = if larger.start < range.start {
                let (low, high) = self.slots.split_at_mut(range.start);
                (&mut low[larger], &high[..range.len()])
            } else {
                let (low, high) = self.slots.split_at_mut(larger.start);
                (&mut high[..range.len()], &low[range])
            };
            subtract(a, b);
        }
    }

    /// Merges what is pending, for `slots` slots in all.
    pub fn merge<S: Deref<Target = Shard>>(&mut self, pending: &[Pending], slots: usize, shards: &[S], encoding: &Encoding) {
        self.reserve(slots);
        for k in 0..self.features.len() {
            for p in pending {
                self.merge_feature(k, p, shards, encoding);
            }
        }
    }

    /// The sums over all rows of the node in a slot; none where this share has no feature.
    pub fn node_sums(&self, slot: usize) -> Option<Sums> {
        (!self.features.is_empty()).then(|| {
            let b = self.bins(slot, 0);
            totals(b.gradient, b.hessian, b.count)
        })
    }

    /// The sums left of a candidate in the node of a slot, if the feature is one of this share.
    pub fn left_sums(&self, slot: usize, candidate: &Candidate, feature: &CodedFeature) -> Option<Sums> {
        let k = self.features.binary_search(&(candidate.feature as usize)).ok()?;
        let b = self.bins(slot, k);
        let range = (!candidate.missing_left) as usize * feature.first()..feature.first() + candidate.border as usize + 1;
        let count = if b.count.is_empty() { &[] } else { &b.count[range.clone()] };
        Some(totals(&b.gradient[range.clone()], &b.hessian[range], count))
    }

    /// The best split of each node among this share's features. `slots[i]` is node `i`'s.
    pub fn find_splits(&self, nodes: &[SearchNode], slots: &[usize], features: &[CodedFeature], rules: &SplitRules) -> Vec<Option<Found>> {
        let mut found = vec![None; nodes.len()];
        let mut prefix = Prefix::new();
        let mut out = [0.0; MAX_BINS];
        for (i, node) in nodes.iter().enumerate() {
            let parent = rules.node_score(node.sums, node.bounds);
            for (k, f) in self.features.iter().enumerate() {
                if node.features.as_ref().is_some_and(|allowed| allowed.binary_search(&(*f as u32)).is_err()) {
                    continue;
                }
                let bins = self.bins(slots[i], k);
                prefix.fill(&bins);
                let c = self.context(node, *f, rules, f64::NEG_INFINITY);
                let feature = &features[*f];
                let (first, borders) = (feature.first(), feature.borders.len());
                let mut consider = |missing: Sums, candidates: usize, missing_left: bool| {
                    scores(&prefix, first, first + candidates, missing, &c, &mut out);
                    let (largest, border) = first_largest(&out[..candidates]);
                    let candidate = Candidate { feature: *f as u32, border: border as u32, missing_left, gain: largest - parent };
                    if candidate.gain > rules.min_gain {
                        found[i] = best_of(found[i], Some(Found { candidate, left: prefix.at(first + border) - missing }));
                    }
                };
                consider(Sums::default(), borders, true);
                let missing = self.missing(&bins, feature);
                if missing != Sums::default() {
                    consider(missing, borders + 1, false);
                }
            }
        }
        found
    }

    /// The split among this share's features with the largest gain summed over all nodes.
    pub fn find_level_split(
        &self,
        nodes: &[SearchNode],
        slots: &[usize],
        features: &[CodedFeature],
        rules: &SplitRules,
    ) -> Option<Candidate> {
        let mut best: Option<Candidate> = None;
        let mut prefix = Prefix::new();
        let mut out = [0.0; MAX_BINS];
        let parents: Vec<f64> = nodes.iter().map(|n| rules.node_score(n.sums, n.bounds)).collect();
        let parent: f64 = parents.iter().sum();
        for (k, f) in self.features.iter().enumerate() {
            if nodes.first().is_some_and(|n| n.features.as_ref().is_some_and(|allowed| allowed.binary_search(&(*f as u32)).is_err())) {
                continue;
            }
            let feature = &features[*f];
            let (first, borders) = (feature.first(), feature.borders.len());
            let any_missing = slots.iter().any(|s| self.missing(&self.bins(*s, k), feature) != Sums::default());
            let mut sums = [[0.0; MAX_BINS]; 2];
            for (i, node) in nodes.iter().enumerate() {
                let bins = self.bins(slots[i], k);
                prefix.fill(&bins);
                // A node that a candidate would leave a child too small in counts as not split.
                let c = self.context(node, *f, rules, parents[i]);
                scores(&prefix, first, first + borders, Sums::default(), &c, &mut out);
                add(&mut sums[0][..borders], &out[..borders]);
                if any_missing {
                    scores(&prefix, first, first + borders + 1, self.missing(&bins, feature), &c, &mut out);
                    add(&mut sums[1][..borders + 1], &out[..borders + 1]);
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
        Sums { gradient: bins.gradient[0], hessian: bins.hessian[0], count: bins.count.first().copied().unwrap_or(0) }
    }
}

/// `a[i] += b[i]`
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn add(a: &mut [f64], b: &[f64]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a += b;
    }
}
