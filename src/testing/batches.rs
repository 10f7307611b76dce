//! Tables whose numeric features come in batches, or whose lists and dense columns do.

use crate::Dice;
use std::ops::Range;
use taiga_engine::Result;
use taiga_engine::column::{Column, FeatureType};
use taiga_engine::dataset::{BatchedTable, Batches, FeatureBatches};
use taiga_engine::learners::linear::{Input, ListChunk, ListColumn, Offsets, RowBatches, SparseRows, VisitRows};
use taiga_engine::spill::SpillFolder;

/// The numeric features of a table in batches that end at `ends`.
pub struct Parts<'a> {
    pub features: Vec<Column<'a>>,
    pub ends: Vec<usize>,
}

impl FeatureBatches for Parts<'_> {
    fn read(&self, visit: &mut dyn FnMut(&[Column<'_>]) -> Result<()>) -> Result<()> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).try_for_each(|(start, end)| {
            let own: Vec<Column<'_>> = self.features.iter().map(|column| column.slice(start, end - start)).collect();
            visit(&own)
        })
    }
}

/// The lists, in one chunk each, and the dense columns of a table in batches that end at `ends`.
pub struct RowParts<'a> {
    pub sparse: Option<SparseRows<'a>>,
    pub dense: Vec<Column<'a>>,
    pub ends: Vec<usize>,
}

impl<'a> RowParts<'a> {
    /// Takes the lists and dense columns of a table; returns it without rows of them too.
    pub fn of(input: &Input<'a>, ends: Vec<usize>) -> (RowParts<'a>, Input<'a>) {
        let parts = RowParts { sparse: input.sparse.clone(), dense: input.dense.clone(), ends };
        let (sparse, dense) = parts.rows(0..0);
        (parts, Input { sparse, dense, ..input.clone() })
    }

    fn rows(&self, rows: Range<usize>) -> (Option<SparseRows<'a>>, Vec<Column<'a>>) {
        let lists = |column: &ListColumn<'a>| ListColumn {
            name: column.name.clone(),
            chunks: column.chunks.iter().map(|chunk| some_lists(chunk, &rows)).collect(),
        };
        let sparse = self.sparse.as_ref().map(|s| SparseRows { features: lists(&s.features), values: s.values.as_ref().map(lists) });
        (sparse, self.dense.iter().map(|column| column.slice(rows.start, rows.len())).collect())
    }
}

fn some_lists<'a>(chunk: &ListChunk<'a>, rows: &Range<usize>) -> ListChunk<'a> {
    let offsets = match chunk.offsets {
        Offsets::I32(offsets) => Offsets::I32(&offsets[rows.start..=rows.end]),
        Offsets::I64(offsets) => Offsets::I64(&offsets[rows.start..=rows.end]),
        Offsets::Fixed { .. } => panic!("lists of one width have no offsets"),
    };
    ListChunk { offsets, validity: chunk.validity.map(|bits| bits.slice(rows.start, rows.len())), items: chunk.items }
}

impl RowBatches for RowParts<'_> {
    fn read(&self, visit: &mut VisitRows<'_>) -> Result<()> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).try_for_each(|(start, end)| {
            let (sparse, dense) = self.rows(start..*end);
            visit(sparse.as_ref(), &dense)
        })
    }
}

/// Draws where batches of a table end: many small ones, some large ones, some without rows.
pub fn ends(rows: usize, dice: &mut Dice) -> Vec<usize> {
    let count = [1, 2, 5, 40][dice.below(4) as usize];
    let mut ends: Vec<usize> = (1..count).map(|_| dice.below(rows as u64 + 1) as usize).collect();
    ends.push(rows);
    ends.sort_unstable();
    ends
}

/// Calls `fit` with the features of a table of `rows` rows, of which the numeric ones that `comes` says have no rows there, and come in batches.
pub fn in_batches<'a, R>(
    features: &[Column<'a>],
    rows: usize,
    (comes, ends): (&dyn Fn(u32) -> bool, Vec<usize>),
    spill: Option<&SpillFolder>,
    fit: impl FnOnce(Vec<Column<'a>>, Batches<'_>) -> R,
) -> R {
    let is_number = |index: u32| *features[index as usize].dtype() != FeatureType::Categorical;
    let columns: Vec<u32> = (0..features.len() as u32).filter(|index| is_number(*index) && comes(*index)).collect();
    let parts = Parts { features: columns.iter().map(|index| features[*index as usize].clone()).collect(), ends };
    let without = |(index, column): (u32, &Column<'a>)| if columns.contains(&index) { column.slice(0, 0) } else { column.clone() };
    let narrow = (0..).zip(features).map(without).collect();
    let batched = BatchedTable::new(&parts, columns.clone(), rows, spill);
    fit(narrow, batched.batches())
}
