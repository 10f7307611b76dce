//! The best split of a node by one feature.
//!
//! Rows are counted by code, in order of rows; then the codes that occur are walked in ascending
//! order with the sums of all rows so far, and every gap between two of them is scored. In a node of
//! few rows a bit for each code tells which ones occur, so that the time is that of the rows and not
//! of the codes.

use taiga_core::learners::forest::codes::{Code, Meaning, View};
use taiga_core::learners::forest::growing::Cut;
use taiga_core::learners::forest::impurity::Impurity;
use taiga_core::learners::forest::params::Splitter;
use taiga_core::numerics::random::Random;
use taiga_core::quantize::CodeSet;

/// The best split by one feature, if there is any.
#[derive(Clone, Copy, Debug, Default)]
pub struct FeatureSplit {
    /// Whether its values in the node differ.
    pub varies: bool,
    pub cut: Option<Cut>,
}

/// Memory that searches use again.
pub struct SearchMemory<K: Impurity> {
    /// Zeros between searches.
    bins: Vec<K::Bin>,
    /// A bit for each code that occurs; and one for each word of them. Zeros between searches.
    marks: Vec<u64>,
    summary: Vec<u64>,
    sides: [K::Side; 2],
    seen: Vec<u16>,
    sort: Vec<u64>,
    ordered: Vec<(f64, u16)>,
}

impl<K: Impurity> Default for SearchMemory<K> {
    fn default() -> Self {
        SearchMemory {
            bins: vec![],
            marks: vec![],
            summary: vec![],
            sides: Default::default(),
            seen: vec![],
            sort: vec![],
            ordered: vec![],
        }
    }
}

/// Beyond so many bytes of bins, rows are sorted by their codes instead.
const MOST_BYTES: usize = 32 << 20;

/// The node whose best split is searched for.
pub struct SplitSearch<'a, K: Impurity> {
    pub kind: &'a K,
    pub rows: &'a [K::Entry],
    pub total: &'a K::Side,
    /// The fewest rows drawn of a child.
    pub min_data: u64,
    /// The node's random numbers.
    pub key: &'a Random,
}

/// Walks the codes of a node that are not missing, from the smallest.
struct Walk<'s, 'a, K: Impurity> {
    search: &'s SplitSearch<'a, K>,
    /// Sums of the codes so far, and of them and the missing values.
    left: K::Side,
    with_missing: K::Side,
    missing: bool,
    last: Option<usize>,
    best: Option<Cut>,
    best_score: f64,
    varies: bool,
}

impl<'s, 'a, K: Impurity> Walk<'s, 'a, K> {
    fn new(search: &'s SplitSearch<'a, K>, sides: &mut [K::Side; 2], missing: Option<&[K::Bin]>) -> Self {
        let [mut left, mut with_missing] = std::mem::take(sides);
        search.kind.clear(&mut left);
        if let Some(bins) = missing {
            search.kind.clear(&mut with_missing);
            search.kind.add_bins(&mut with_missing, bins);
        }
        let missing = missing.is_some();
        Walk { search, left, with_missing, missing, last: None, best: None, best_score: f64::NEG_INFINITY, varies: false }
    }

    #[inline(always)]
    fn consider(&mut self, left: usize, right: Option<usize>, missing_left: Option<bool>) {
        let s = self.search;
        let side = if missing_left == Some(true) { &self.with_missing } else { &self.left };
        if s.min_data > 1 {
            let count = s.kind.count(side);
            if count < s.min_data || s.kind.count(s.total) - count < s.min_data {
                return;
            }
        }
        let score = s.kind.score(side, s.total);
        if score > self.best_score {
            self.best_score = score;
            let left_count = s.kind.count(side);
            self.best = Some(Cut { score, left, right, missing_left, left_count, set: None, threshold: None });
        }
    }

    #[inline(always)]
    fn step(&mut self, code: usize, bins: &[K::Bin]) {
        if let Some(last) = self.last {
            self.varies = true;
            if self.missing {
                self.consider(last, Some(code), Some(true));
                self.consider(last, Some(code), Some(false));
            } else {
                self.consider(last, Some(code), None);
            }
        }
        self.search.kind.add_bins(&mut self.left, bins);
        if self.missing {
            self.search.kind.add_bins(&mut self.with_missing, bins);
        }
        self.last = Some(code);
    }

    fn end(mut self, sides: &mut [K::Side; 2]) -> FeatureSplit {
        if let (Some(last), true) = (self.last, self.missing) {
            self.varies = true;
            self.consider(last, None, Some(false));
        }
        *sides = [self.left, self.with_missing];
        FeatureSplit { varies: self.varies, cut: self.best }
    }
}

/// Calls `visit` with the bits that are set, ascending, and unsets them.
#[inline(always)]
fn drain(words: &mut [u64], mut visit: impl FnMut(usize)) {
    for (w, word) in words.iter_mut().enumerate() {
        let mut rest = std::mem::take(word);
        while rest != 0 {
            visit(w * 64 + rest.trailing_zeros() as usize);
            rest &= rest - 1;
        }
    }
}

impl<K: Impurity> SplitSearch<'_, K> {
    /// Finds the best split by `feature`: at a tie the lower one, and missing values to the left.
    pub fn best<C: Code>(&self, view: &View<'_, C>, feature: usize, memory: &mut SearchMemory<K>) -> FeatureSplit {
        let coded = &view.features[feature];
        let bins = view.bins(feature);
        if bins < 2 {
            return FeatureSplit::default();
        }
        let codes = view.feature(feature);
        if coded.is_categorical() {
            return self.best_subset(codes, bins, memory);
        }
        if view.splitter == Splitter::Random {
            return self.random(view, feature, memory);
        }
        let lanes = self.kind.lanes();
        if bins * lanes * size_of::<K::Bin>() > MOST_BYTES {
            return self.best_sorted(codes, coded.first, memory);
        }
        if self.rows.len() >= bins {
            self.count(codes, bins, memory, |_, _, _| {});
            let (zeros, memory_bins) = (K::Bin::default(), &mut memory.bins[..bins * lanes]);
            let missing = coded.first == 1 && !self.kind.is_empty(&memory_bins[..lanes]);
            let mut walk = Walk::new(self, &mut memory.sides, missing.then_some(&memory_bins[..lanes]));
            for code in coded.first..bins {
                let at = &memory_bins[code * lanes..(code + 1) * lanes];
                if !self.kind.is_empty(at) {
                    walk.step(code, at);
                }
            }
            memory_bins.fill(zeros);
            return walk.end(&mut memory.sides);
        }
        let words = bins.div_ceil(64);
        memory.marks.resize(words.max(memory.marks.len()), 0);
        let few = words <= 8;
        if few {
            self.count(codes, bins, memory, |code, marks, _| marks[code / 64] |= 1 << (code % 64));
        } else {
            memory.summary.resize(words.div_ceil(64).max(memory.summary.len()), 0);
            self.count(codes, bins, memory, |code, marks, summary| {
                marks[code / 64] |= 1 << (code % 64);
                summary[code / 4096] |= 1 << (code / 64 % 64);
            });
        }
        let SearchMemory { bins: memory_bins, marks, summary, sides, .. } = memory;
        let missing = coded.first == 1 && marks[0] & 1 == 1;
        let mut walk = Walk::new(self, sides, missing.then_some(&memory_bins[..lanes]));
        if missing {
            marks[0] &= !1;
            memory_bins[..lanes].fill(K::Bin::default());
        }
        let mut visit = |code: usize| {
            let at = &mut memory_bins[code * lanes..(code + 1) * lanes];
            walk.step(code, at);
            at.fill(K::Bin::default());
        };
        if few {
            drain(&mut marks[..words], &mut visit);
        } else {
            drain(&mut summary[..words.div_ceil(64)], |word| drain(&mut marks[word..word + 1], |bit| visit(word * 64 + bit)));
        }
        walk.end(sides)
    }

    /// Adds all rows to the bins of their codes; `mark(code, marks, summary)` is told of each.
    #[inline(always)]
    fn count<C: Code>(&self, codes: &[C], bins: usize, memory: &mut SearchMemory<K>, mark: impl Fn(usize, &mut [u64], &mut [u64])) {
        let lanes = self.kind.lanes();
        if memory.bins.len() < bins * lanes {
            memory.bins.resize(bins * lanes, K::Bin::default());
        }
        let (out, marks, summary) = (&mut memory.bins[..bins * lanes], memory.marks.as_mut_slice(), memory.summary.as_mut_slice());
        for entry in self.rows {
            let code = codes[K::row(entry) as usize].index();
            K::add(&mut out[code * lanes + K::lane(entry)], entry);
            mark(code, marks, summary);
        }
    }

    /// Finds the best split as [`SplitSearch::best`] does, by sorting the rows: for more bins than memory should hold.
    fn best_sorted<C: Code>(&self, codes: &[C], first: usize, memory: &mut SearchMemory<K>) -> FeatureSplit {
        let lanes = self.kind.lanes();
        let SearchMemory { bins, sort, sides, .. } = memory;
        bins.resize(lanes.max(bins.len()), K::Bin::default());
        let bins = &mut bins[..lanes];
        sort.clear();
        sort.extend(self.rows.iter().enumerate().map(|(i, e)| (codes[K::row(e) as usize].index() as u64) << 32 | i as u64));
        sort.sort_unstable();
        let groups = sort.chunk_by(|a, b| a >> 32 == b >> 32);
        let mut walk: Option<Walk<'_, '_, K>> = None;
        for group in groups {
            let code = (group[0] >> 32) as usize;
            for key in group {
                let entry = &self.rows[*key as u32 as usize];
                K::add(&mut bins[K::lane(entry)], entry);
            }
            match &mut walk {
                None if code < first => walk = Some(Walk::new(self, sides, Some(bins))),
                None => walk.insert(Walk::new(self, sides, None)).step(code, bins),
                Some(walk) => walk.step(code, bins),
            }
            bins.fill(K::Bin::default());
        }
        walk.map_or(FeatureSplit::default(), |walk| walk.end(sides))
    }

    /// Tries one border, drawn between the smallest and the largest value (Geurts et al., 2006), and the
    /// better side for the missing values.
    fn random<C: Code>(&self, view: &View<'_, C>, feature: usize, memory: &mut SearchMemory<K>) -> FeatureSplit {
        let (codes, coded) = (view.feature(feature), &view.features[feature]);
        let Meaning::Values(values) = &coded.meaning else { return FeatureSplit::default() };
        let (mut low, mut high, mut missing) = (usize::MAX, 0, false);
        for entry in self.rows {
            let code = codes[K::row(entry) as usize].index();
            missing |= code == 0;
            low = low.min(if code == 0 { usize::MAX } else { code });
            high = high.max(code);
        }
        if high == 0 || (low == high && !missing) {
            return FeatureSplit::default();
        }
        let value = |code: usize| values[view.global(feature, code) - 1];
        // Of the values themselves, so that it is the same wherever codes were numbered anew.
        let threshold = (low < high).then(|| between(value(low), value(high), self.key.unit((1 << 32) + feature as u64)));
        let last = threshold.map_or(high, |t| {
            let (mut from, mut to) = (low, high);
            while to - from > 1 {
                let middle = from + (to - from) / 2;
                if value(middle) <= t { from = middle } else { to = middle }
            }
            from
        });
        let [mut left, mut with_missing] = std::mem::take(&mut memory.sides);
        self.kind.clear(&mut left);
        self.kind.clear(&mut with_missing);
        for entry in self.rows {
            let code = codes[K::row(entry) as usize].index();
            if code == 0 {
                self.kind.add_entry(&mut with_missing, entry);
            } else if code <= last {
                self.kind.add_entry(&mut left, entry);
            }
        }
        self.kind.add_side(&mut with_missing, &left);
        let mut walk =
            Walk { search: self, left, with_missing, missing, last: None, best: None, best_score: f64::NEG_INFINITY, varies: true };
        if low == high {
            walk.consider(last, None, Some(false));
        } else if missing {
            walk.consider(last, Some(last + 1), Some(true));
            walk.consider(last, Some(last + 1), Some(false));
        } else {
            walk.consider(last, Some(last + 1), None);
        }
        let cut = walk.best.map(|cut| Cut { threshold, ..cut });
        memory.sides = [walk.left, walk.with_missing];
        FeatureSplit { varies: true, cut }
    }

    /// Finds the best division of the categories that occur (Breiman et al., "Classification and regression trees", 1984): sorted
    /// by their mean, only the beginnings of the sequence need be tried, for numbers and for two classes. For more classes there
    /// is no such order; each class's share is tried as one, which finds the best subset that sets one class apart.
    fn best_subset<C: Code>(&self, codes: &[C], bins: usize, memory: &mut SearchMemory<K>) -> FeatureSplit {
        let lanes = self.kind.lanes();
        memory.marks.resize(bins.div_ceil(64).max(memory.marks.len()), 0);
        self.count(codes, bins, memory, |code, marks, _| marks[code / 64] |= 1 << (code % 64));
        let SearchMemory { bins: all, marks, sides, seen, ordered, .. } = memory;
        seen.clear();
        drain(&mut marks[..bins.div_ceil(64)], |code| seen.push(code as u16));
        let at = |code: u16| &all[code as usize * lanes..(code as usize + 1) * lanes];
        let mut best: Option<(Cut, usize, usize)> = None;
        for order in 0..self.kind.orders() {
            sort_codes(self.kind, seen, order, at, ordered);
            let mut walk = Walk::new(self, sides, None);
            ordered.iter().enumerate().for_each(|(place, (_, code))| walk.step(place, at(*code)));
            if let Some(cut) = walk.end(sides).cut
                && best.is_none_or(|(b, _, _)| cut.score > b.score)
            {
                best = Some((cut, order, cut.left + 1));
            }
        }
        let cut = best.map(|(cut, order, inside)| {
            sort_codes(self.kind, seen, order, at, ordered);
            let mut set = CodeSet::default();
            ordered[inside..].iter().for_each(|(_, code)| set.insert(*code as u8));
            // Categories that are not here go where most rows do.
            if cut.left_count * 2 < self.kind.count(self.total) {
                (0..=255).filter(|code| !seen.contains(&(*code as u16))).for_each(|code| set.insert(code));
            }
            Cut { set: Some(set), ..cut }
        });
        for code in seen.iter() {
            all[*code as usize * lanes..(*code as usize + 1) * lanes].fill(K::Bin::default());
        }
        FeatureSplit { varies: seen.len() > 1, cut }
    }
}

/// Sorts codes by one of the impurity's orders; equal ones ascend.
fn sort_codes<'b, K: Impurity>(kind: &K, seen: &[u16], order: usize, at: impl Fn(u16) -> &'b [K::Bin], out: &mut Vec<(f64, u16)>)
where
    K::Bin: 'b,
{
    out.clear();
    out.extend(seen.iter().map(|code| (kind.order_key(at(*code), order), *code)));
    out.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
}

/// Returns a number from `low` up to and without `high`, for `low < high`: uniform where both are finite; an infinity counts as
/// the farthest finite number.
fn between(low: f64, high: f64, unit: f64) -> f64 {
    let (from, to) = (low.max(f64::MIN), high.min(f64::MAX));
    let t = from * (1.0 - unit) + to * unit + 0.0;
    if t >= high || t.is_nan() { low } else { t.max(low) }
}
