//! The rows sorted by each feature, walked once a step, in that order, for all nodes that it searches: a row goes to the next slot of its node,
//! with the sums up to it.
//!
//! ```text
//! rows by their codes     7  0 │ 3 │ 5  1 │ 2  6 │ 4        │: the next row's code is larger
//! their nodes             A  B   B   A  –   B  A   B        –: not searched in this step
//!
//! slots    │ A: gap  7  5  6 │ B: gap  0  3  2  4 │ others: 1 │
//! sums     │      0  7  7+5 …│      0  0  0+3 …   │
//! ```
//!
//! All candidates of a feature stand side by side then, whatever their node, and are scored as vectors. What a slot's node is, and
//! so its totals, is the same for every feature.

mod evaluate_splits;
mod level;
mod slots;

use super::starts;
use crate::trees::codes::CodeColumns;
use std::ops::Range;
use taiga_core::quantize::CodedFeature;

pub use evaluate_splits::{SortedGroup, find_splits};
pub use level::{LevelWalk, find_level_split};
pub use slots::NodeSlots;

#[cfg(test)]
pub use slots::NO_RANK;

/// Tables of up to so many rows are searched like this: beyond, histograms are faster.
pub const MOST_ROWS: usize = 1 << 10;

/// What each value takes.
pub const VALUE_BYTES: u64 = 2;

/// Whether the next row's code is larger: set at the last row.
const LAST: u16 = 1 << 15;

/// Returns the row of an entry.
#[inline(always)]
fn row(entry: u16) -> usize {
    (entry & (LAST - 1)) as usize
}

/// Returns 1 for an entry behind which the next code is larger, else 0.
#[inline(always)]
fn is_last(entry: u16) -> u16 {
    entry / LAST
}

/// The rows of a table, sorted by the codes of some features of a group.
pub struct SortedOrder {
    rows: usize,
    /// The features, counted inside the group.
    own: Range<usize>,
    /// The number of the first of them.
    first: usize,
    /// Whether rows are counted, by hessians that are 1.
    counted: bool,
    /// `[feature][position]`: a row, and whether it is the last of its code; those without a value first, under the code of the
    /// values below the first border.
    order: Vec<u16>,
    /// How many rows have no value, by feature.
    missing: Vec<u16>,
}

impl SortedOrder {
    /// Sorts the rows of a table of at most [`MOST_ROWS`] by the codes of the features `own` of a group, whose first one is number
    /// `first_feature`.
    pub fn new(
        features: &[CodedFeature],
        own: Range<usize>,
        first_feature: usize,
        columns: &CodeColumns,
        rows: usize,
        counted: bool,
    ) -> Self {
        let mut order = vec![0; own.len() * rows];
        let mut missing = vec![0; own.len()];
        for ((feature, order), missing) in own.clone().zip(order.chunks_exact_mut(rows.max(1))).zip(&mut missing) {
            let (codes, first) = (columns.feature(feature), features[feature].first());
            let mut next = starts(codes);
            *missing = if first > 0 { next[1] } else { 0 };
            for (row, code) in codes.iter().enumerate() {
                let position = &mut next[*code as usize];
                order[*position as usize] = row as u16;
                *position += 1;
            }
            let value = |entry: u16| (codes[row(entry)] as usize).max(first);
            for position in 0..rows {
                let last = position + 1 == rows || value(order[position + 1]) > value(order[position]);
                order[position] |= if last { LAST } else { 0 };
            }
        }
        SortedOrder { rows, first: first_feature + own.start, own, counted, order, missing }
    }

    /// Returns the rows in order of the codes of the `f`-th feature.
    #[inline(always)]
    pub(super) fn order(&self, f: usize) -> &[u16] {
        &self.order[f * self.rows..(f + 1) * self.rows]
    }

    /// Returns the border that each code of the `f`-th feature stands below, by the code's rank among those that rows have.
    fn borders(&self, f: usize, columns: &CodeColumns, feature: &CodedFeature) -> Vec<usize> {
        let codes = columns.feature(self.own.start + f);
        let last = self.order(f).iter().filter(|entry| is_last(**entry) == 1);
        last.map(|entry| (codes[row(*entry)] as usize).max(feature.first()) - feature.first()).collect()
    }
}
