//! The first trees of a forest, as a forest.

use super::model::Forest;
use crate::error::Result;
use crate::model::fitted::check_rounds;
use std::collections::BTreeMap;

impl Forest {
    /// Makes the forest of the first `rounds` trees: what a fit with that many `trees` and with `oob=False` gives, down to its bytes,
    /// because no tree knows of another. Out-of-bag predictions and permutation importance are of all trees and are left out, as are
    /// borders, categories and sets that only later trees use. Asked for all trees or more, the forest as it is.
    ///
    /// # Errors
    /// For 0 trees.
    pub fn into_head(mut self, rounds: usize) -> Result<Forest> {
        check_rounds(rounds)?;
        if rounds >= self.trees.len() {
            return Ok(self);
        }
        self.params.trees = rounds as u32;
        if self.params.oob() {
            self.params.oob = Some(false);
        }
        self.params.permutation_importance = false;
        (self.oob, self.permutation) = (None, None);
        // A receipt is of all trees.
        self.provenance.receipt = None;
        self.trees.truncate(rounds);
        let mut sets = vec![];
        let mut set_places: BTreeMap<u32, u32> = BTreeMap::new();
        let mut used = vec![None::<Vec<bool>>; self.features.len()];
        for split in self.trees.iter_mut().flat_map(|t| &mut t.nodes).map(|n| &mut n.split) {
            let feature = &self.features[split.feature as usize];
            let asked = used[split.feature as usize].get_or_insert_with(|| vec![false; feature.borders.len()]);
            if feature.categories.is_some() {
                split.border = *set_places.entry(split.border).or_insert_with(|| {
                    sets.push(self.sets[split.border as usize]);
                    sets.len() as u32 - 1
                });
            } else if let Some(asked) = asked.get_mut(split.border as usize) {
                *asked = true;
            }
        }
        self.sets = sets;
        let mut border_places: Vec<Vec<u32>> = vec![];
        for (feature, used) in self.features.iter_mut().zip(used) {
            feature.categories = feature.categories.take().filter(|_| used.is_some());
            let used = used.unwrap_or_else(|| vec![false; feature.borders.len()]);
            let (mut places, mut next) = (vec![], 0);
            for used in &used {
                places.push(next);
                next += *used as u32;
            }
            // Behind the last border is one that only missing values are above.
            places.push(next);
            let mut used = used.into_iter();
            feature.borders.retain(|_| used.next() == Some(true));
            border_places.push(places);
        }
        for split in self.trees.iter_mut().flat_map(|t| &mut t.nodes).map(|n| &mut n.split) {
            if self.features[split.feature as usize].categories.is_none() {
                split.border = border_places[split.feature as usize][split.border as usize];
            }
        }
        Ok(self)
    }
}
