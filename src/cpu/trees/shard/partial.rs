//! A shard's partial histograms: packed bins over its rows of a node.

use super::{Shard, ShardGroup, TreeContext};
use crate::trees::bins::MAX_BINS;
use crate::trees::gradient_quantizer::{BinsMut, Plane, add_plane};
use crate::trees::histogram::{self, Bins};
pub use crate::trees::histogram::{MAX_ROWS, RowSelection};
use crate::trees::lanes::{self, Lane, Lanes};
use crate::trees::partition::Source;
use multiversion::multiversion;
use std::ops::Range;
use taiga_core::learners::boosting::layout::StoragePlan;
use taiga_core::pages;

/// Packed histograms of one node over a shard's rows: segments of at most [`MAX_ROWS`] rows, each
/// with all planes, each of these with all features; or, where there are [lanes](TreeContext::lanes), with
/// all features, each of whose bins has all lanes. Where segments are many they are folded, so that a histogram of any number of rows stays in the caches.
#[derive(Default)]
pub struct Partial {
    bins: Vec<u64>,
    /// The sums over segments that were folded, of all features: gradients, hessians and counts. Empty where none was.
    folded: Vec<i64>,
    /// The words of unbundled features: all planes, each with all words; in as many segments where
    /// the plan is wide, else in one, because a word is a sum of at most [`MAX_ROWS`] rows.
    words: Vec<u64>,
    segments: usize,
    /// Rows in the last segment.
    filled: usize,
}

/// The packed bins of a column in a segment of a partial histogram, where they lie.
#[derive(Clone, Copy)]
pub enum SegmentBins<'a> {
    /// One after the other.
    Plane(&'a [u64]),
    /// In a lane of the `width` words of each bin.
    Lane { lane: Lane, width: usize, words: &'a [u64] },
}

impl SegmentBins<'_> {
    /// Gives the bins, one after the other, to `visit`.
    #[inline(always)]
    pub fn visit(self, visit: impl FnOnce(&[u64])) {
        match self {
            SegmentBins::Plane(bins) => visit(bins),
            SegmentBins::Lane { lane, width, words } => {
                let mut gathered = [0; MAX_BINS];
                let bins = lane.gather(words, width, &mut gathered);
                visit(bins);
            }
        }
    }
}

impl Partial {
    /// Returns the packed bins of a column, the first of which is at `place` in a plane of `plane_bins`, in each segment: of plane `plane`, or of a lane
    /// among so many.
    #[inline(always)]
    fn segments(
        &self,
        (plane_bins, place): (usize, usize),
        (planes, plane): (usize, usize),
        lane: Option<(Lane, usize)>,
        bins: usize,
    ) -> impl Iterator<Item = SegmentBins<'_>> {
        (0..self.segments).map(move |segment| match lane {
            Some((lane, width)) => {
                let start = (segment * plane_bins + place) * width;
                SegmentBins::Lane { lane, width, words: &self.bins[start..start + bins * width] }
            }
            None => {
                let start = (segment * planes + plane) * plane_bins + place;
                SegmentBins::Plane(&self.bins[start..start + bins])
            }
        })
    }
}

/// Segments of so many words are folded, 4 MB; not fewer than a few of them. In builds with assertions any two are, so that tests of few rows have some.
const FOLDED_WORDS: usize = if cfg!(debug_assertions) { 1 } else { 1 << 19 };
const FEWEST_FOLDED: usize = if cfg!(debug_assertions) { 2 } else { 4 };

/// Adds all segments of a partial histogram of one output to its folded sums, and leaves it none. `columns`: of each the place in a plane of so many
/// bins, and how many bins it has.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn fold(partial: &mut Partial, plane_bins: usize, columns: &[(usize, usize)], planes: &[Plane], lanes: Option<Lanes>) {
    let mut folded = std::mem::take(&mut partial.folded);
    folded.resize(3 * plane_bins, 0);
    let (gradients, rest) = folded.split_at_mut(plane_bins);
    let (hessians, counts) = rest.split_at_mut(plane_bins);
    for (place, bins) in columns.iter().copied() {
        let own = place..place + bins;
        for (p, plane) in planes.iter().enumerate() {
            let lane = lanes.map(|lanes| (lanes.of(0, p, *plane), lanes.width));
            for segment in partial.segments((plane_bins, place), (planes.len(), p), lane, bins) {
                let (gradient, hessian, count) = (&mut gradients[own.clone()], &mut hessians[own.clone()], &mut counts[own.clone()]);
                segment.visit(|bins| add_plane(*plane, bins, BinsMut { gradient, hessian, count }));
            }
        }
    }
    (partial.folded, partial.segments) = (folded, 0);
}

/// Takes the partial histogram that has room for so many words and for the fewest more; where none has, that with the most room.
fn best_fit(spare: &mut Vec<Partial>, words: usize) -> Option<Partial> {
    let rank = |room: usize| if room >= words { (0, room) } else { (1, usize::MAX - room) };
    let found = (0..spare.len()).min_by_key(|i| rank(spare[*i].bins.capacity()))?;
    Some(spare.swap_remove(found))
}

impl ShardGroup {
    /// Appends a segment of zeros to a partial histogram.
    pub(super) fn begin_segment(&self, partial: &mut Partial, plan: &StoragePlan, tree: &TreeContext<'_>) {
        let (planes, lanes, segment_bins) = (tree.quantizer.planes.len(), tree.lanes(), self.segment_words(tree));
        let many = partial.segments >= FEWEST_FOLDED && partial.segments * segment_bins >= FOLDED_WORDS;
        if many && tree.shared.is_none() && plan.sparse.is_empty() {
            let columns: Vec<(usize, usize)> = self.own.clone().map(|column| (self.place(column), plan.column_codes[column])).collect();
            fold(partial, self.plane_bins(), &columns, &tree.quantizer.planes, lanes);
        }
        let start = partial.segments * segment_bins;
        if start == 0 && partial.bins.capacity() < segment_bins {
            // Nothing of what stood there is needed, nor are all pages of the new ones.
            partial.bins = pages::zeroed(segment_bins);
        }
        pages::grow(&mut partial.bins, start + segment_bins);
        let bins = &mut partial.bins[start..start + segment_bins];
        let width = lanes.map_or(1, |lanes| lanes.width);
        for plane in bins.chunks_exact_mut((self.plane_bins() * width).max(1)) {
            self.clear_bins(plane, &plan.column_codes, width);
        }
        if partial.segments == 0 {
            partial.words.clear();
        }
        if partial.segments == 0 || plan.wide {
            partial.words.resize(partial.words.len() + plan.unbundled_words * planes, 0);
        }
        partial.segments += 1;
        partial.filled = 0;
    }

    /// Returns the bins of the last segment, of so many words each.
    pub(super) fn last_segment<'p>(&self, partial: &'p mut Partial, width: usize) -> &'p mut [u64] {
        let words = self.plane_bins() * width;
        &mut partial.bins[(partial.segments - 1) * words..partial.segments * words]
    }

    /// Returns the words of a segment of a partial histogram.
    fn segment_words(&self, tree: &TreeContext<'_>) -> usize {
        self.plane_bins() * tree.lanes().map_or(tree.quantizer.planes.len(), |lanes| lanes.width)
    }

    /// Bins of all features in one plane.
    fn plane_bins(&self) -> usize {
        self.blocks.iter().map(|b| b.width * b.bins).sum()
    }

    /// Returns the words of unbundled features in plane `plane` of partial `index`, in each segment.
    pub fn partial_words(&self, index: usize, planes: usize, plane: usize, words: usize) -> impl Iterator<Item = &[u64]> {
        let partial = &self.partials[index];
        let used = if partial.segments > 0 { &partial.words[..] } else { &[] };
        used.chunks_exact((planes * words).max(1)).map(move |segment| &segment[plane * words..(plane + 1) * words])
    }

    /// Returns the place of a column's first bin in a plane: all blocks but the first and the last are full.
    #[inline(always)]
    pub(super) fn place(&self, column: usize) -> usize {
        let first = &self.blocks[0];
        match column.checked_sub(first.features.end) {
            None => column * first.bins,
            Some(behind) => (first.width + behind) * first.bins,
        }
    }

    /// Returns the packed bins of a column in each segment of partial `index`: of plane `plane`, or of a lane among so many.
    #[inline(always)]
    pub fn partial_bins(
        &self,
        index: usize,
        (planes, plane): (usize, usize),
        lane: Option<(Lane, usize)>,
        column: usize,
        bins: usize,
    ) -> impl Iterator<Item = SegmentBins<'_>> {
        self.partials[index].segments((self.plane_bins(), self.place(column)), (planes, plane), lane, bins)
    }

    /// Returns the sums of a column over the segments of partial `index` that were folded: gradients, hessians and counts of `bins` bins; none where
    /// none was.
    #[inline(always)]
    pub fn partial_folded(&self, index: usize, column: usize, bins: usize) -> Option<[&[i64]; 3]> {
        let (folded, place) = (&self.partials[index].folded, self.place(column));
        (!folded.is_empty()).then(|| [0, 1, 2].map(|k| &folded[k * self.plane_bins() + place..][..bins]))
    }

    /// Returns how many segments partial `index` has.
    pub fn partial_segments(&self, index: usize) -> usize {
        self.partials[index].segments
    }

    /// The bins of a column in each segment of partial `index`, of two lanes.
    #[inline(always)]
    pub fn partial_pairs(&self, index: usize, column: usize, bins: usize) -> impl Iterator<Item = &[[u64; 2]]> {
        let (partial, at, segment_bins) = (&self.partials[index], 2 * self.place(column), 2 * self.plane_bins());
        (0..partial.segments).map(move |segment| partial.bins[segment * segment_bins + at..][..2 * bins].as_chunks::<2>().0)
    }

    /// Sets the bins that codes can reach to zero, of so many words each. `codes`: of each column.
    fn clear_bins(&self, bins: &mut [u64], codes: &[usize], width: usize) {
        for column in self.own.clone() {
            let first = self.place(column) * width;
            bins[first..first + codes[column] * width].fill(0);
        }
    }
}

impl Shard {
    /// Takes an empty partial histogram for a group: one that the group has spare, or one that is not open has left.
    pub(super) fn new_partial(&mut self, group: usize, tree: &TreeContext<'_>) -> Partial {
        let of_group = &mut self.groups[group];
        let words = of_group.segment_words(tree);
        let mut partial = of_group.spare.pop().or_else(|| best_fit(&mut self.spare, words)).unwrap_or_default();
        partial.segments = 0;
        partial.folded.clear();
        partial
    }

    /// Adds the statistics of rows to a partial histogram of a group: those of rows `start .. start + len` of list `list`, or
    /// of these rows themselves, under [`Source::All`]. `first`: the first plane's statistics, where they are at hand in this
    /// order.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn accumulate(
        &mut self,
        group: usize,
        partial: &mut Partial,
        tree: &TreeContext<'_>,
        source: Source,
        list: usize,
        mut start: usize,
        mut len: usize,
        mut first: Option<&[u32]>,
    ) {
        if let Some(shared) = tree.shared.filter(|_| !tree.has_one_word()) {
            return self.accumulate_lanes(group, partial, (tree, shared.lanes), (source, list, start, len));
        }
        while len > 0 {
            if partial.segments == 0 || partial.filled == MAX_ROWS {
                self.groups[group].begin_segment(partial, &tree.groups[group].plan, tree);
            }
            let n = len.min(MAX_ROWS - partial.filled);
            let counted = tree.lanes().is_some();
            for (p, plane) in tree.quantizer.planes.iter().enumerate() {
                // Bins that count their rows have both planes at once.
                if p == 0 || !counted {
                    self.accumulate_plane((group, p, *plane), partial, tree, (source, list, start, len), n, first);
                }
                self.accumulate_sparse((group, p, *plane), partial, tree, (source, list, start, len), n);
            }
            partial.filled += n;
            first = first.map(|f| &f[n..]);
            start += n;
            len -= n;
        }
    }

    /// Adds the statistics of rows of all outputs that share a tree, of more than a word, to a partial histogram, as [`Shard::accumulate`] does.
    fn accumulate_lanes(
        &mut self,
        group: usize,
        partial: &mut Partial,
        (tree, lanes): (&TreeContext<'_>, Lanes),
        (source, list, mut start, mut len): (Source, usize, usize, usize),
    ) {
        let codes = &self.groups[group];
        while len > 0 {
            if partial.segments == 0 || partial.filled == MAX_ROWS {
                codes.begin_segment(partial, &tree.groups[group].plan, tree);
            }
            let n = len.min(MAX_ROWS - partial.filled);
            let rows = self.selected(source, list, start..start + len, n);
            let mut at = (partial.segments - 1) * codes.plane_bins() * lanes.width;
            for block in &codes.blocks {
                let end = at + block.width * block.bins * lanes.width;
                let own = block.codes_of(&codes.own);
                // SAFETY: lists hold nothing but rows of this shard.
                unsafe { lanes::add_lanes(block, own, rows, (&self.words, lanes), &mut partial.bins[at..end]) };
                at = end;
            }
            partial.filled += n;
            start += n;
            len -= n;
        }
    }

    /// Adds one plane's statistics of the first `n` of the rows to the last segment of a partial histogram; where there are lanes, counts too.
    fn accumulate_plane(
        &mut self,
        (group, p, plane): (usize, usize, Plane),
        partial: &mut Partial,
        tree: &TreeContext<'_>,
        (source, list, start, len): (Source, usize, usize, usize),
        n: usize,
        first: Option<&[u32]>,
    ) {
        // In the very first block the first plane's statistics ride along; elsewhere they are brought into the rows' order
        // first, unless they are at hand.
        let first = first.filter(|_| p == 0);
        let embedded = p == 0 && group == 0 && self.groups[group].blocks.len() == 1 && first.is_none();
        if first.is_none() && !embedded {
            self.order_statistics((p, plane), (source, list, start), n);
        }
        let statistics = match first {
            Some(first) => Some(&first[..n]),
            None => (!embedded).then_some(&self.ordered[..]),
        };
        let rows = self.selected(source, list, start..start + len, n);
        let (of, lanes) = (tree.bin_words(), tree.lanes());
        let (planes, width) = lanes.map_or((tree.quantizer.planes.len(), 1), |lanes| (1, lanes.width));
        let mut at = ((partial.segments - 1) * planes + p) * self.groups[group].plane_bins() * width;
        for block in &self.groups[group].blocks {
            let end = at + block.width * block.bins * width;
            let codes = block.codes_of(&self.groups[group].own);
            let bins = Bins { words: &mut partial.bins[at..end], of };
            // SAFETY: lists hold nothing but rows of this shard.
            unsafe { histogram::add(block, codes, rows, statistics, bins) };
            at = end;
        }
    }

    /// Adds one plane's statistics of the first `n` of the rows to the words of unbundled features in a partial histogram.
    fn accumulate_sparse(
        &self,
        (group, p, plane): (usize, usize, Plane),
        partial: &mut Partial,
        tree: &TreeContext<'_>,
        (source, list, start, len): (Source, usize, usize, usize),
        n: usize,
    ) {
        if let Some(sparse) = &self.groups[group].sparse {
            let words = tree.groups[group].plan.unbundled_words;
            let first = partial.words.len() - (tree.quantizer.planes.len() - p) * words;
            let rows = self.selected(source, list, start..start + len, n);
            sparse.add(rows, self.statistics_by_row(p, plane), &mut partial.words[first..first + words]);
        }
    }

    /// Returns the first `n` of the rows at places `range` of a list, or of these rows themselves.
    fn selected(&self, source: Source, list: usize, range: Range<usize>, n: usize) -> RowSelection<'_> {
        match source {
            Source::All => RowSelection::Range(range.start, n),
            Source::List => RowSelection::List(&self.lists[list][range], n),
        }
    }

    /// Writes one plane's statistics of `n` rows to `self.ordered`, in the rows' order.
    fn order_statistics(&mut self, (p, plane): (usize, Plane), (source, list, start): (Source, usize, usize), n: usize) {
        let mut ordered = std::mem::take(&mut self.ordered);
        ordered.clear();
        let of_row = |row: usize| match p {
            0 => self.statistic(row as u32),
            _ => self.planes[p - 1][row],
        };
        match (plane, source) {
            (Plane::UnitHessian | Plane::Count, _) => ordered.resize(n, 1),
            (_, Source::All) => ordered.extend((start..start + n).map(of_row)),
            (_, Source::List) => ordered.extend(self.lists[list][start..start + n].iter().map(|r| of_row(*r as usize))),
        }
        self.ordered = ordered;
    }
}
