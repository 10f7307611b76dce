//! Combinations of categorical columns, which come into being while trees grow, and are dropped where memory ends.

use super::{CategoricalFeatures, Category, Kept, Origin};
use crate::error::Result;
use crate::learners::boosting::params::CatMethod;
use crate::learners::boosting::steps::TreeSteps;
use crate::memory;
use std::collections::BTreeSet;

/// Combinations may take so much memory; the longest unused are dropped first.
const MOST_COMBINATION_BYTES: usize = 2 << 30;

/// Combinations of fewer bytes are kept without asking what the machine has.
const LITTLE: usize = 32 << 20;

impl CategoricalFeatures<'_> {
    /// Returns the feature that says under another permutation what this one says under that of the tree.
    pub(super) fn counterpart(&mut self, backend: &mut dyn TreeSteps, feature: u32, order: usize) -> Result<u32> {
        let place = |kept: &Kept| kept.features.contains(&feature).then(|| feature - kept.features.start);
        if let Some(place) = self.simple[self.order].as_ref().and_then(place) {
            self.add_simple(backend, order)?;
            return Ok(self.simple[order].as_ref().map_or(feature, |kept| kept.features.start + place));
        }
        let open = self.combined.iter().map(|columns| (columns.clone(), self.order));
        let found = open.filter_map(|key| place(self.combinations.get(&key)?).map(|place| (key.0, place))).next();
        let Some((columns, place)) = found else { return Ok(feature) };
        Ok(self.add_combinations(backend, &(columns, order))?.features.start + place)
    }

    /// Adds the columns' own statistics under a permutation, if they are not there.
    pub(super) fn add_simple(&mut self, backend: &mut dyn TreeSteps, order: usize) -> Result<()> {
        if self.simple[order].is_none() {
            let columns: Vec<u32> = self.categories.iter().filter(|c| c.method == CatMethod::Ctr).map(|c| c.column).collect();
            let projections = columns.iter().map(|c| vec![*c]).collect();
            self.simple[order] = Some(self.add_projections(backend, projections, order, false)?);
        }
        Ok(())
    }

    /// Returns the combinations of a column (or a combination) under a permutation, added if they are not there.
    pub(super) fn add_combinations(&mut self, backend: &mut dyn TreeSteps, key: &(Vec<u32>, usize)) -> Result<&Kept> {
        let mut kept = match self.combinations.remove(key) {
            Some(kept) => kept,
            None => {
                let combinations = self.combinations_of(&key.0);
                self.make_room(backend, self.rows * 2 * combinations.len() * self.ctrs.len());
                self.add_projections(backend, combinations, key.1, true)?
            }
        };
        kept.last_tree = self.tree;
        Ok(self.combinations.entry(key.clone()).or_insert(kept))
    }

    /// Returns the columns and combinations that splits on `used` ask about, as far as they have not been combined with others in
    /// this tree.
    pub(super) fn to_combine(&self, used: &[u32]) -> BTreeSet<Vec<u32>> {
        let most = self.params.max_combination as usize;
        let mut out = BTreeSet::new();
        for feature in used.iter().filter(|_| most > 1 && !self.orders.is_empty()) {
            let columns = match &self.origins[*feature as usize] {
                Origin::Column(_) => continue,
                Origin::OneHot { column, .. } | Origin::Subset { column, .. } => std::slice::from_ref(column),
                Origin::Ctr { columns, .. } => columns,
            };
            if columns.len() < most && !self.combined.contains(columns) {
                out.insert(columns.to_vec());
            }
        }
        out
    }

    /// Returns the combinations of `columns` with every other column.
    fn combinations_of(&self, columns: &[u32]) -> Vec<Vec<u32>> {
        let with = |c: &Category| {
            let mut combination = columns.to_vec();
            combination.push(c.column);
            combination.sort_unstable();
            combination
        };
        let allowed = |combination: &Vec<u32>| {
            let together = self.interaction.is_empty() || self.interaction.iter().any(|g| combination.iter().all(|c| g.contains(c)));
            together && self.key_space(combination).is_some()
        };
        self.categories.iter().filter(|c| !columns.contains(&c.column)).map(with).filter(allowed).collect()
    }

    /// Returns how many tuples of categories there could be, if 64 bits can number them.
    fn key_space(&self, columns: &[u32]) -> Option<u64> {
        columns.iter().try_fold(1u64, |product, c| product.checked_mul(self.category(*c).cardinality as u64))
    }

    /// Drops the combinations that were not open for the longest time, until `more` bytes fit.
    fn make_room(&mut self, backend: &mut dyn TreeSteps, more: usize) {
        let kept: usize = self.combinations.values().map(|k| k.bytes).sum();
        let mut total = more + kept;
        // Of what is kept and what is free together no more than half.
        let free = if total > LITTLE { memory::available() } else { None };
        let most = free.map_or(MOST_COMBINATION_BYTES, |free| MOST_COMBINATION_BYTES.min((free as usize).saturating_add(kept) / 2));
        while total > most {
            let oldest = self.combinations.iter().filter(|(_, k)| k.last_tree < self.tree).min_by_key(|(_, k)| (k.last_tree, k.group));
            let Some(key) = oldest.map(|(key, _)| key.clone()) else { return };
            if let Some(kept) = self.combinations.remove(&key) {
                backend.groups().drop_group(kept.group);
                total -= kept.bytes;
            }
        }
    }
}
