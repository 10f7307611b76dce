//! A shard's partial histograms: packed bins over its rows of a node.

use super::{Shard, ShardGroup, TreeContext};
use crate::trees::gradient_quantizer::Plane;
use crate::trees::histogram;
pub use crate::trees::histogram::{MAX_ROWS, RowSelection, STRIDE};
use crate::trees::partition::Source;
use taiga_core::learners::boosting::layout::StoragePlan;
use taiga_core::pages;

/// Packed histograms of one node over a shard's rows: segments of at most [`MAX_ROWS`] rows, each
/// with all planes, each of these with all features.
#[derive(Default)]
pub struct Partial {
    bins: Vec<u64>,
    /// The words of listed features: all planes, each with all words; in as many segments where
    /// the plan is wide, else in one, because a word is a sum of at most [`MAX_ROWS`] rows.
    words: Vec<u64>,
    segments: usize,
    /// Rows in the last segment.
    filled: usize,
}

impl ShardGroup {
    /// Sets the bins that codes can reach to zero in one segment. `codes`: of each column.
    fn clear_segment(&self, bins: &mut [u64], codes: &[usize]) {
        for plane in bins.chunks_exact_mut(self.plane_bins()) {
            let mut at = 0;
            for block in &self.blocks {
                for column in block.features.start.max(self.own.start)..block.features.end.min(self.own.end) {
                    let start = at + (column - block.features.start) * STRIDE;
                    plane[start..start + codes[column]].fill(0);
                }
                at += block.width * STRIDE;
            }
        }
    }

    /// One more segment of zeros.
    pub(super) fn begin_segment(&self, partial: &mut Partial, plan: &StoragePlan, planes: usize) {
        let segment_bins = self.plane_bins() * planes;
        let start = partial.segments * segment_bins;
        pages::grow(&mut partial.bins, start + segment_bins);
        self.clear_segment(&mut partial.bins[start..start + segment_bins], &plan.column_codes);
        if partial.segments == 0 {
            partial.words.clear();
        }
        if partial.segments == 0 || plan.wide {
            partial.words.resize(partial.words.len() + plan.listed_words * planes, 0);
        }
        partial.segments += 1;
        partial.filled = 0;
    }

    /// The bins of the last segment, where there is but one plane.
    pub(super) fn last_segment<'p>(&self, partial: &'p mut Partial) -> &'p mut [u64] {
        let bins = self.plane_bins();
        &mut partial.bins[(partial.segments - 1) * bins..partial.segments * bins]
    }

    /// Bins of all features in one plane.
    fn plane_bins(&self) -> usize {
        self.blocks.iter().map(|b| b.width * STRIDE).sum()
    }

    /// The words of listed features in plane `plane` of partial `index`, in each segment.
    pub fn partial_words(&self, index: usize, planes: usize, plane: usize, words: usize) -> impl Iterator<Item = &[u64]> {
        let partial = &self.partials[index];
        let used = if partial.segments > 0 { &partial.words[..] } else { &[] };
        used.chunks_exact((planes * words).max(1)).map(move |segment| &segment[plane * words..(plane + 1) * words])
    }

    /// The packed bins of a column in each segment of partial `index`, for plane `plane`.
    #[inline(always)]
    pub fn partial_bins(&self, index: usize, planes: usize, plane: usize, column: usize, bins: usize, mut visit: impl FnMut(&[u64])) {
        let partial = &self.partials[index];
        let plane_bins = self.plane_bins();
        let mut at = 0;
        for block in &self.blocks {
            if block.features.contains(&column) {
                at += (column - block.features.start) * STRIDE;
                break;
            }
            at += block.width * STRIDE;
        }
        for segment in 0..partial.segments {
            let start = (segment * planes + plane) * plane_bins + at;
            visit(&partial.bins[start..start + bins]);
        }
    }
}

impl Shard {
    pub(super) fn new_partial(&mut self, group: usize) -> Partial {
        let mut partial = self.groups[group].spare.pop().unwrap_or_default();
        partial.segments = 0;
        partial
    }

    /// Adds rows to a partial histogram of a group: `start .. start + len` of list `list`, or those rows
    /// themselves. `first`: the first plane's statistics, where they are at hand in this order.
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
        first: Option<&[u32]>,
    ) {
        let planes = &tree.encoding.planes;
        let plan = &tree.groups[group].plan;
        let plane_bins = self.groups[group].plane_bins();
        let segment_bins = plane_bins * planes.len();
        let mut first = first;
        while len > 0 {
            if partial.segments == 0 || partial.filled == MAX_ROWS {
                self.groups[group].begin_segment(partial, plan, planes.len());
            }
            let n = len.min(MAX_ROWS - partial.filled);
            let segment = (partial.segments - 1) * segment_bins;
            let numbers = match source {
                Source::All => &[][..],
                Source::List => &self.lists[list][start..start + len],
            };
            let rows = match source {
                Source::All => RowSelection::Range(start, n),
                Source::List => RowSelection::List(numbers, n),
            };
            for (p, plane) in planes.iter().enumerate() {
                // In the very first block the first plane's statistics ride along; elsewhere they
                // are brought into the list's order first.
                let blocks = &self.groups[group].blocks;
                let embedded = p == 0 && group == 0 && blocks.len() == 1 && first.is_none();
                let statistics: Option<&[u32]> = match (plane, first) {
                    (Plane::UnitHessian | Plane::Count, _) => {
                        self.ordered.clear();
                        self.ordered.resize(n, 1);
                        Some(&self.ordered)
                    }
                    (_, Some(first)) if p == 0 => Some(&first[..n]),
                    _ if embedded => None,
                    _ => {
                        let mut ordered = std::mem::take(&mut self.ordered);
                        let of_row = |row: usize| match p {
                            0 => self.statistic(row as u32),
                            _ => self.planes[p - 1][row],
                        };
                        ordered.clear();
                        match source {
                            Source::All => ordered.extend((start..start + n).map(of_row)),
                            Source::List => ordered.extend(numbers[..n].iter().map(|r| of_row(*r as usize))),
                        }
                        self.ordered = ordered;
                        Some(&self.ordered)
                    }
                };
                let mut at = segment + p * plane_bins;
                for block in &self.groups[group].blocks {
                    let end = at + block.width * STRIDE;
                    let codes = block.codes_of(&self.groups[group].own);
                    // SAFETY: lists hold nothing but rows of this shard.
                    unsafe { histogram::add(block, codes, rows, statistics, &mut partial.bins[at..end]) };
                    at = end;
                }
                if let Some(sparse) = &self.groups[group].sparse {
                    let n = plan.listed_words;
                    let start = partial.words.len() - (planes.len() - p) * n;
                    let words = &mut partial.words[start..start + n];
                    sparse.add(rows, self.statistics_by_row(p, *plane), words);
                }
            }
            partial.filled += n;
            first = first.map(|f| &f[n..]);
            start += n;
            len -= n;
        }
    }
}
