//! The codes of a group in a shard.

use super::{Partial, Shard};
pub(crate) use crate::trees::codes::{BlockLayout, CodeBlock, CodeColumns, Layout};
use crate::trees::partition::FeatureCodes;
use crate::trees::presorted::SortedRows;
use crate::trees::sparse_features::SparseFeatures;
use std::ops::Range;
use taiga_core::error::Result;
use taiga_core::learners::boosting::layout::{Home, StoragePlan};
use taiga_core::spill::SpillFolder;

/// The codes of a group's features for a shard's rows, and what is summed over them.
pub struct ShardGroup {
    pub blocks: Vec<CodeBlock>,
    /// The codes by feature, where memory allows: partitioning rows by them reads a sixteenth of the
    /// memory.
    pub columns: Option<CodeColumns>,
    /// The features that are not bundled, in sparse rows.
    pub sparse: Option<SparseFeatures>,
    /// The rows of a table of few.
    pub sorted: Option<SortedRows>,
    /// The columns that are summed here: all, or where every shard has all rows those of its thread.
    pub own: Range<usize>,
    pub partials: Vec<Partial>,
    pub(super) spare: Vec<Partial>,
}

impl ShardGroup {
    /// Makes room for the codes of `rows` rows; `columns`: also by column. `part`: which part, of
    /// how many equal parts of the columns is summed here; with several, all columns are there. `spill`: where codes by row are to lie, if not
    /// in memory.
    pub fn new(layout: &Layout, rows: usize, columns: bool, part: (usize, usize), spill: Option<&SpillFolder>) -> Result<ShardGroup> {
        let features = layout.blocks.last().map_or(0, |b| b.features.end);
        let own = features * part.0 / part.1..features * (part.0 + 1) / part.1;
        // The first block has the statistics.
        let wanted = |b: &BlockLayout| b.features.start == 0 || (b.features.start < own.end && own.start < b.features.end);
        Ok(ShardGroup {
            blocks: layout.blocks.iter().map(|b| CodeBlock::new(b, if wanted(b) { rows } else { 0 }, spill)).collect::<Result<_>>()?,
            columns: columns.then(|| CodeColumns::new(features, rows)).transpose()?,
            sparse: None,
            sorted: None,
            own,
            partials: vec![],
            spare: vec![],
        })
    }

    /// Sets the codes of a column for the rows from `start` on.
    ///
    /// # Panics
    /// When a code lies beyond the bins of its block.
    pub fn set_codes(&mut self, layout: &Layout, column: usize, start: usize, codes: &[u8]) {
        let (b, at) = layout.place(column);
        let block = &mut self.blocks[b];
        assert!(block.bins > u8::MAX as usize || codes.iter().max().is_none_or(|code| (*code as usize) < block.bins));
        if let Some(out) = block.bytes.as_mut_slice().get_mut(start * block.stride + at..) {
            out.iter_mut().step_by(block.stride).zip(codes).for_each(|(o, c)| *o = *c);
        }
        if let Some(columns) = &mut self.columns {
            columns.feature_mut(column)[start..start + codes.len()].copy_from_slice(codes);
        }
    }

    /// Returns the codes of a column.
    pub(super) fn column(&self, layout: &Layout, column: usize) -> FeatureCodes<'_> {
        match &self.columns {
            Some(columns) => FeatureCodes { bytes: columns.feature(column), stride: 1 },
            None => {
                let (block, at) = layout.place(column);
                self.blocks[block].feature(at)
            }
        }
    }

    /// Returns the code of a feature (counted inside the group) in a row.
    pub(super) fn code(&self, plan: &StoragePlan, feature: usize, row: usize) -> u8 {
        let of_column = |column: usize| {
            if let Some(columns) = &self.columns {
                return columns.feature(column)[row];
            }
            let (block, at) = plan.layout.place(column);
            self.blocks[block].code(row, at)
        };
        match (plan.homes[feature], &self.sparse) {
            (Home::Column(column), _) => of_column(column),
            (Home::Sparse(k), sparse) => match (plan.sparse[k].column, sparse) {
                (Some((column, _)), _) => plan.sparse[k].code_of(of_column(column)),
                (None, Some(sparse)) => sparse.code(k, row),
                (None, None) => plan.sparse[k].stored.default as u8,
            },
        }
    }

    /// Frees everything.
    fn clear(&mut self) {
        *self = ShardGroup { blocks: vec![], columns: None, sparse: None, sorted: None, own: 0..0, partials: vec![], spare: vec![] };
    }

    /// Makes the partial histograms of the last step free for use.
    pub(super) fn recycle(&mut self) {
        self.spare.append(&mut self.partials);
    }
}

impl Shard {
    /// Frees what a group has. Its partial histograms are left to the other groups: those of combinations of categories come and go with
    /// each tree, and new memory would have to be cleared each time.
    pub fn drop_group(&mut self, group: usize) {
        let dropped = &mut self.groups[group];
        dropped.recycle();
        self.spare.append(&mut dropped.spare);
        dropped.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taiga_core::learners::boosting::layout::{NARROW, STRIDE, StoragePlan};
    use taiga_core::quantize::CodedFeature;

    fn features(borders: usize, count: usize) -> Vec<CodedFeature> {
        vec![CodedFeature { borders: vec![0.0; borders], missing_bin: false, categories: false }; count]
    }

    /// Proves that no code gets into a group whose bins it would lie beyond, which loops without checks rely on.
    #[test]
    fn a_code_beyond_the_bins_is_refused() {
        let plan = StoragePlan::dense(&features(NARROW - 1, 5), false);
        assert!(plan.layout.blocks.iter().all(|block| block.bins == NARROW));
        let set = |code: u8| {
            let mut group = ShardGroup::new(&plan.layout, 3, true, (0, 1), None).unwrap();
            group.set_codes(&plan.layout, 4, 1, &[0, code]);
            group.code(&plan, 4, 2)
        };
        let most = NARROW as u8 - 1;
        assert_eq!(set(most), most);
        assert!(std::panic::catch_unwind(|| set(most + 1)).is_err());
    }

    /// Proves that a column's bins lie where those of its block do, whose rows are added there block after block.
    #[test]
    fn places_are_those_of_blocks() {
        for count in [1, 4, 27, 28, 29, 32, 33, 60, 61, 64, 65, 200] {
            for (borders, statistics) in [(1, true), (1, false), (100, false)] {
                let plan = StoragePlan::dense(&features(borders, count), statistics);
                let group = ShardGroup::new(&plan.layout, 1, true, (0, 1), None).unwrap();
                let mut at = 0;
                for block in &group.blocks {
                    for column in block.features.clone() {
                        assert_eq!(group.place(column), at + (column - block.features.start) * block.bins);
                    }
                    at += block.width * block.bins;
                }
            }
        }
    }

    /// Proves that groups with more codes, and the one whose codes are any bytes, have room for all.
    #[test]
    fn other_groups_have_bins_for_every_byte() {
        for plan in [StoragePlan::dense(&features(NARROW, 5), false), StoragePlan::dense(&features(1, 5), true)] {
            assert!(plan.layout.blocks.iter().all(|block| block.bins == STRIDE));
        }
    }
}
