//! Tables whose numeric features come in batches.

use crate::Dice;
use taiga_engine::Result;
use taiga_engine::column::{Column, FeatureType};
use taiga_engine::dataset::{BatchedTable, Batches, FeatureBatches};
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
