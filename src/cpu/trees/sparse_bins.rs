//! The histograms of sparse features in all nodes, merged, subtracted and searched: a word is the bin of one value.
//!
//! A word keeps its packed form in every node where no sparse feature has more rows off its default
//! than a packed bin can hold; else it is two numbers. Features with one word, flags above all, are searched many
//! at a time.

use super::bins::{NodeHistogram, SparseBins};
use super::evaluate_splits::{FoundSplit, best_of};
use super::feature_share::{Pending, split_pair};
use super::gradient_quantizer::Plane;
use super::histogram::unpack;
use super::lanes::Lanes;
use super::shard::Shard;
use super::split_scores::{Context, TooSmall, first_largest, plain, plain_scores, score};
use multiversion::multiversion;
use std::ops::Range;
use taiga_core::learners::boosting::layout::{SparseFeature, StoragePlan, Stored};
use taiga_core::quantize::CodedFeature;
use taiga_core::tree::split::{SplitRules, Sums};
use taiga_core::tree::steps::{Candidate, SearchNode};

/// The cost of searching a sparse feature beside its words, in words.
const FEATURE_COST: usize = 16;

/// The sparse features of one thread, with their words in every slot: for each slot, for each
/// plane, the words of all features; where they are wide, their upper halves, then their lower ones.
pub struct SparseBinShare {
    group: usize,
    counted: bool,
    /// The features with more than one candidate, ascending.
    pub several: Vec<SparseFeature>,
    /// The features with one border, one word and nothing missing, ascending.
    single: Vec<Single>,
    /// The words of this share's features, among all of the group.
    range: Range<usize>,
    /// The words of `range` that are in the shards' sparse rows.
    unbundled: Range<usize>,
    /// The words of `range` that are in shared columns.
    bundled: Vec<WordRun>,
    /// The number of words of unbundled features over all shares.
    unbundled_words: usize,
    wide: bool,
    planes: Vec<Plane>,
    slots: Vec<u64>,
}

/// A feature with one word.
struct Single {
    /// Counted over all groups.
    feature: u32,
    /// The word's place in this share.
    word: u32,
    /// Whether the word's rows go left.
    left: bool,
}

/// Words that follow each other in a column.
struct WordRun {
    column: usize,
    codes: Range<usize>,
    /// The first word's place in this share.
    word: usize,
}

impl SparseBinShare {
    /// Takes the share of member `index` of `members`. `first`: the group's first feature.
    pub fn new(
        features: &[CodedFeature],
        plan: &StoragePlan,
        group: usize,
        first: usize,
        counted: bool,
        index: usize,
        members: usize,
    ) -> SparseBinShare {
        let cost = |upto: usize| upto * FEATURE_COST + plan.sparse.get(upto).map_or(plan.words(), |s| s.word);
        let bound = |index: usize| {
            let wanted = cost(plan.sparse.len()) * index / members;
            (0..plan.sparse.len()).collect::<Vec<_>>().partition_point(|k| cost(*k) < wanted)
        };
        let own = &plan.sparse[bound(index)..if index + 1 == members { plan.sparse.len() } else { bound(index + 1) }];
        let range = own.first().map_or(0, |s| s.word)..own.last().map_or(0, |s| s.words().end);
        let mut share = SparseBinShare {
            group,
            counted,
            several: vec![],
            single: vec![],
            unbundled: range.start.min(plan.unbundled_words)..range.end.min(plan.unbundled_words),
            range: range.clone(),
            bundled: vec![],
            unbundled_words: plan.unbundled_words,
            wide: plan.wide,
            planes: vec![],
            slots: vec![],
        };
        for s in own {
            let feature = &features[s.feature];
            let word = s.word - range.start;
            if let Some((column, start)) = s.column {
                let codes = start..start + s.stored.words();
                match share.bundled.last_mut() {
                    Some(last) if last.column == column && last.codes.end == start => last.codes.end = codes.end,
                    _ => share.bundled.push(WordRun { column, codes, word }),
                }
            }
            // Of two values one is the default, and no row is missing.
            let two = feature.borders.len() == 1 && s.stored.words() == 1 && s.stored.default >= feature.first();
            if two {
                let left = s.stored.default > feature.first();
                share.single.push(Single { feature: (first + s.feature) as u32, word: word as u32, left });
            } else {
                share.several.push(SparseFeature { word, ..s.clone() });
            }
        }
        share.single.sort_unstable_by_key(|s| s.feature);
        share.several.sort_unstable_by_key(|s| s.feature);
        share
    }

    fn slot_size(&self) -> usize {
        self.range.len() * self.planes.len() * if self.wide { 2 } else { 1 }
    }

    fn slot(&self, slot: usize) -> &[u64] {
        &self.slots[slot * self.slot_size()..][..self.slot_size()]
    }

    /// Returns the words of `several[k]` at a place.
    pub fn bins(&self, k: usize, slot: usize, total: Sums) -> SparseBins<'_> {
        let feature = &self.several[k];
        SparseBins {
            words: &self.slot(slot)[feature.word..],
            stride: self.range.len(),
            planes: &self.planes,
            counted: self.counted,
            wide: self.wide,
            stored: feature.stored,
            total,
        }
    }

    /// Merges the words of pending divisions, for `slots` slots in all.
    pub fn merge(&mut self, pending: &[Pending], slots: usize, shards: &[&Shard], planes: &[Plane]) {
        if self.range.is_empty() {
            return;
        }
        self.planes = planes.to_vec();
        let lanes = Lanes::of_planes(planes);
        let size = self.slot_size();
        if self.slots.len() < slots * size {
            self.slots.resize(slots * size, 0);
        }
        let mut slots = std::mem::take(&mut self.slots);
        for p in pending {
            let smaller = &mut slots[p.smaller * size..][..size];
            smaller.fill(0);
            for (plane, words) in smaller.chunks_exact_mut(size / planes.len()).enumerate() {
                for group in shards.iter().map(|s| &s.groups[self.group]) {
                    for unbundled in group.partial_words(p.partial, planes.len(), plane, self.unbundled_words) {
                        self.add(words, 0, &unbundled[self.unbundled.clone()]);
                    }
                    for s in &self.bundled {
                        let lane = lanes.map(|lanes| (lanes.of(0, plane, planes[plane]), lanes.width));
                        for segment in group.partial_bins(p.partial, (planes.len(), plane), lane, s.column, s.codes.end) {
                            segment.visit(|bins| self.add(words, s.word, &bins[s.codes.clone()]));
                        }
                    }
                }
            }
            if let Some(larger) = p.larger {
                let (larger, smaller) = split_pair(&mut slots, larger * size, p.smaller * size, size);
                subtract(larger, smaller);
            }
        }
        self.slots = slots;
    }

    /// Adds packed bins to a plane's words from word `start` on.
    fn add(&self, words: &mut [u64], start: usize, bins: &[u64]) {
        let n = bins.len();
        if self.wide {
            let (upper, lower) = words.split_at_mut(self.range.len());
            add_wide(&mut upper[start..start + n], &mut lower[start..start + n], bins);
        } else {
            add(&mut words[start..start + n], bins);
        }
    }

    /// Returns the sums of a feature's word.
    fn word(&self, slot: &[u64], word: usize, total: Sums) -> Sums {
        // Of the codes only their number counts.
        let stored = Stored { default: 0, low: 1, bins: 2 };
        let (planes, counted, wide) = (&self.planes, self.counted, self.wide);
        SparseBins { words: &slot[word..], stride: self.range.len(), planes, counted, wide, stored, total }.word(0)
    }

    /// Returns the sums left of the one border of a feature with one word.
    fn left(&self, single: &Single, slot: &[u64], total: Sums) -> Sums {
        let sums = self.word(slot, single.word as usize, total);
        if single.left { sums } else { total - sums }
    }

    /// Returns the sums left of a candidate in a node, if its feature is one of those with one word.
    pub fn left_sums(&self, place: &NodeHistogram<'_>, candidate: &Candidate) -> Option<Sums> {
        let at = self.single.binary_search_by_key(&candidate.feature, |s| s.feature).ok()?;
        let NodeHistogram::Slot { slot, total } = *place else { return None };
        Some(self.left(&self.single[at], self.slot(slot), total))
    }

    /// Finds the best split of each node among the features with one word, where it is better than what
    /// was found.
    pub fn find_splits(&self, nodes: &[SearchNode], places: &[NodeHistogram<'_>], rules: &SplitRules, found: &mut [Option<FoundSplit>]) {
        let mut scratch = Scores::default();
        for (i, node) in nodes.iter().enumerate() {
            let NodeHistogram::Slot { slot, total } = places[i] else { continue };
            if self.single.is_empty() {
                return;
            }
            let words = self.slot(slot);
            self.scores(words, node, rules, f64::NEG_INFINITY, &mut scratch);
            let parent = rules.node_score(node.sums, &node.inherited);
            let (largest, k) = self.first_allowed(&scratch.scores, node, parent, rules.min_gain);
            let candidate = Candidate::new(node, (self.single[k].feature, 0, true), largest - parent, parent);
            if candidate.gain > rules.min_gain {
                let left = self.left(&self.single[k], words, total);
                found[i] = best_of(found[i], Some(FoundSplit { candidate, left, subset: None }));
            }
        }
    }

    /// Finds the split with the largest gain summed over the nodes among the features with one word.
    pub fn find_level_split(
        &self,
        nodes: &[SearchNode],
        places: &[NodeHistogram<'_>],
        rules: &SplitRules,
        parents: &[f64],
    ) -> Option<Candidate> {
        let node = nodes.first().filter(|_| !self.single.is_empty())?;
        let mut scratch = Scores::default();
        let mut sums = vec![0.0; self.single.len()];
        for (i, node) in nodes.iter().enumerate() {
            let NodeHistogram::Slot { slot, .. } = places[i] else { continue };
            self.scores(self.slot(slot), node, rules, parents[i], &mut scratch);
            sums.iter_mut().zip(&scratch.scores).for_each(|(sum, score)| *sum += score);
        }
        let parent = parents.iter().sum::<f64>();
        let (largest, k) = self.first_allowed(&sums, node, parent, rules.min_gain);
        let gain = largest - parent;
        (gain > rules.min_gain).then(|| Candidate::new(node, (self.single[k].feature, 0, true), gain, parent))
    }

    /// Computes the score of each feature's candidate in a node. Which side a word is on changes none: the
    /// sums of a score are of one term a side.
    fn scores(&self, words: &[u64], node: &SearchNode, rules: &SplitRules, too_small: f64, scratch: &mut Scores) {
        scratch.scores.resize(self.single.len(), 0.0);
        if plain(rules) && self.planes == [Plane::Both] {
            let lower = if self.wide { &words[self.range.len()..] } else { &[] };
            return plain_scores_of(&self.single, words, lower, node.sums, rules, too_small, scratch);
        }
        for (single, out) in self.single.iter().zip(&mut scratch.scores) {
            let direction = rules.monotone.get(single.feature as usize).copied().unwrap_or(0);
            let context = Context { rules, total: node.sums, inherited: &node.inherited, direction, too_small };
            *out = score(self.left(single, words, node.sums), &context);
        }
    }

    /// Returns the largest score of the features that may split a node, or of the largest rank with noise or weights, and the first that has it. `parent`:
    /// the node's own score.
    fn first_allowed(&self, scores: &[f64], node: &SearchNode, parent: f64, min_gain: f64) -> (f64, usize) {
        if node.ranks_features() {
            let may = |feature: u32| node.allows(feature as usize);
            let mut best = (f64::NEG_INFINITY, 0, f64::NEG_INFINITY);
            for (k, (single, score)) in self.single.iter().zip(scores).enumerate().filter(|(_, (single, _))| may(single.feature)) {
                let rank = Candidate::new(node, (single.feature, 0, true), *score - parent, parent).rank;
                best = if *score - parent > min_gain && rank > best.2 { (*score, k, rank) } else { best };
            }
            return (best.0, best.1);
        }
        let Some(allowed) = &node.features else { return first_largest(scores) };
        let mut best = (f64::NEG_INFINITY, 0);
        let mut allowed = allowed.iter().copied().peekable();
        for (k, (single, score)) in self.single.iter().zip(scores).enumerate() {
            while allowed.next_if(|f| *f < single.feature).is_some() {}
            if allowed.peek() == Some(&single.feature) && *score > best.0 {
                best = (*score, k);
            }
        }
        best
    }
}

/// The sums and scores of many features' candidates, computed at once.
#[derive(Default)]
struct Scores {
    gradient: Vec<i64>,
    hessian: Vec<i64>,
    scores: Vec<f64>,
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn plain_scores_of(single: &[Single], words: &[u64], lower: &[u64], total: Sums, rules: &SplitRules, too_small: f64, scratch: &mut Scores) {
    let n = single.len();
    scratch.gradient.resize(n, 0);
    scratch.hessian.resize(n, 0);
    for (single, (gradient, hessian)) in single.iter().zip(scratch.gradient.iter_mut().zip(&mut scratch.hessian)) {
        let word = single.word as usize;
        (*gradient, *hessian) = if lower.is_empty() { unpack(words[word]) } else { (words[word] as i64, lower[word] as i64) };
    }
    let too_small = TooSmall { divided: too_small, undivided: too_small };
    plain_scores(&scratch.gradient, &scratch.hessian, Sums::default(), total, rules, too_small, &mut scratch.scores);
}

/// Computes `a[i] += b[i]`; packed numbers may pass through the sign bit.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn add(a: &mut [u64], b: &[u64]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a = a.wrapping_add(*b);
    }
}

/// Adds the halves of packed bins.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn add_wide(upper: &mut [u64], lower: &mut [u64], bins: &[u64]) {
    for ((upper, lower), bin) in upper.iter_mut().zip(lower).zip(bins) {
        *upper = upper.wrapping_add(((*bin as i64) >> 32) as u64);
        *lower = lower.wrapping_add(*bin & 0xffff_ffff);
    }
}

/// Computes `a[i] -= b[i]`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn subtract(a: &mut [u64], b: &[u64]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a = a.wrapping_sub(*b);
    }
}
