//! The first rounds of a model, as a model.

use super::{CtrTable, Derived, HashedPart, Model, Units};
use crate::encoding::ctr::CtrKind;
use crate::error::Result;
use crate::learners::boosting::units::{exponent, unit_exponent};
use crate::model::fitted::check_rounds;
use std::collections::{BTreeMap, BTreeSet};

/// Of what is kept of a list, the place of each old index.
type Places = BTreeMap<u32, u32>;

/// Numbers what is kept anew, in its order.
fn places(kept: &BTreeSet<u32>) -> Places {
    kept.iter().copied().zip(0..).collect()
}

impl Model {
    /// Makes the model of the first `rounds` rounds: what a fit with that many `trees` (and without early stopping) gives, down to
    /// its bytes, because no round knows of those after it. Borders, categories, statistics and tables that only later rounds use
    /// are left out, and the metric's curve ends with the last round. Asked for all rounds or more, the model as it is.
    ///
    /// # Errors
    /// For 0 rounds.
    pub fn into_head(mut self, rounds: usize) -> Result<Model> {
        check_rounds(rounds)?;
        if rounds >= self.rounds() {
            return Ok(self);
        }
        self.params.rounds = Some(rounds as u32);
        // Those of positions are known after the last round alone.
        self.params.position_factors = None;
        // A receipt is of all rounds.
        self.provenance.receipt = None;
        self.trees.truncate(rounds * self.outputs());
        self.linear.retain(|leaf| (leaf.tree as usize) < self.trees.len());
        self.history = self.history.map(|whole| whole.head(rounds, self.params.min_delta()));
        self.keep_used();
        self.settle_units();
        Ok(self)
    }

    /// Leaves out what no split uses.
    pub(super) fn keep_used(&mut self) {
        let columns = self.features.len() as u32;
        let mut borders: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for split in self.trees.iter().flat_map(|t| t.splits()) {
            borders.entry(split.feature).or_default().insert(split.border);
        }
        let asked: Vec<u32> = borders.keys().filter_map(|f| f.checked_sub(columns)).collect();
        for derived in asked {
            if let Derived::Hashed { parts, .. } = &self.derived[derived as usize] {
                for part in parts {
                    if let HashedPart::Answer { feature, border, .. } = part {
                        borders.entry(*feature).or_default().insert(*border);
                    }
                }
            }
        }
        let derived: BTreeSet<u32> = borders.keys().filter(|f| **f >= columns).map(|f| f - columns).collect();
        let (numbers, of_borders) = (places(&derived), self.keep_borders(&borders));
        let mut index = 0;
        self.derived.retain(|_| {
            index += 1;
            numbers.contains_key(&(index - 1))
        });
        self.keep_tables();
        let asked: BTreeSet<u32> = self.derived.iter().flat_map(|d| self.columns_of_derived(d)).collect();
        for (column, feature) in (0..).zip(&mut self.features) {
            feature.categories = feature.categories.take().filter(|_| asked.contains(&column));
        }
        let settle = |feature: &mut u32, border: &mut u32| {
            if let Some(place) = of_borders.get(feature).and_then(|places| places.get(border)) {
                *border = *place;
            }
            if let Some(number) = feature.checked_sub(columns).and_then(|derived| numbers.get(&derived)) {
                *feature = columns + number;
            }
        };
        self.trees.iter_mut().flat_map(|t| t.splits_mut()).for_each(|split| settle(&mut split.feature, &mut split.border));
        for derived in &mut self.derived {
            let Derived::Hashed { parts, .. } = derived else { continue };
            for part in parts {
                if let HashedPart::Answer { feature, border, .. } = part {
                    settle(feature, border);
                }
            }
        }
    }

    /// Leaves out the borders that splits do not use; the place of each used one among those kept. Behind the last border is one
    /// that only missing values are above.
    fn keep_borders(&mut self, used: &BTreeMap<u32, BTreeSet<u32>>) -> BTreeMap<u32, Places> {
        let columns = self.features.len();
        let mut all = BTreeMap::new();
        let own = (0..columns as u32).chain(used.keys().copied().filter(|f| *f as usize >= columns));
        for f in own {
            let nothing = BTreeSet::new();
            let used = used.get(&f).unwrap_or(&nothing);
            let borders = match self.features.get_mut(f as usize) {
                Some(feature) => &mut feature.borders,
                None => match &mut self.derived[f as usize - columns] {
                    Derived::Ctr { borders, .. } | Derived::Hashed { borders, .. } => borders,
                    Derived::OneOf { .. } => continue,
                },
            };
            let mut places = places(used);
            let end = borders.len() as u32;
            let mut index = 0;
            borders.retain(|_| {
                index += 1;
                used.contains(&(index - 1))
            });
            if let Some(place) = places.get_mut(&end) {
                *place = borders.len() as u32;
            }
            all.insert(f, places);
        }
        all
    }

    /// Leaves out the tables that no derived feature looks up, and the sums of those that are kept likewise; sums stand in the order
    /// in which the derived features ask for them.
    fn keep_tables(&mut self) {
        let mut sums: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for derived in &self.derived {
            match derived {
                Derived::OneOf { .. } => {}
                Derived::Hashed { table, .. } => drop(sums.entry(*table).or_default()),
                Derived::Ctr { table, sums: own, ctr, .. } => {
                    let of_table = sums.entry(*table).or_default();
                    if ctr.kind != CtrKind::Counter && !of_table.contains(own) {
                        of_table.push(*own);
                    }
                }
            }
        }
        let tables: Places = sums.keys().copied().zip(0..).collect();
        for derived in &mut self.derived {
            match derived {
                Derived::OneOf { .. } => {}
                Derived::Hashed { table, .. } => *table = tables[table],
                Derived::Ctr { table, sums: own, ctr, .. } => {
                    // Counters read none, and a fit says the first of them.
                    let place = sums[table].iter().position(|s| s == own && ctr.kind != CtrKind::Counter);
                    *own = place.unwrap_or_default() as u32;
                    *table = tables[table];
                }
            }
        }
        let all = std::mem::take(&mut self.tables);
        self.tables = (0..)
            .zip(all)
            .filter_map(|(i, mut table)| {
                let kept = sums.get(&i)?.iter().map(|s| std::mem::take(&mut table.sums[*s as usize])).collect();
                Some(CtrTable { sums: kept, ..table })
            })
            .collect();
    }

    /// Brings gains and weights into the units that the trees that are left ask for.
    pub(super) fn settle_units(&mut self) {
        let larger = |a: f32, b: f32| if b > a { b } else { a };
        let (gain, weight) = (libm::ilogb(self.units.gain), libm::ilogb(self.units.weight));
        let largest = self.trees.iter().flat_map(|t| t.splits()).map(|s| s.gain).fold(0.0, larger);
        let gain_exponent = unit_exponent(exponent(largest, gain));
        let largest = self.trees.iter().flat_map(|t| t.leaves()).map(|leaf| leaf.weight).fold(0.0, larger);
        let weight_exponent = unit_exponent(exponent(largest, weight));
        let shift = |x: f32, by: i32| libm::ldexp(x as f64, by).min(f32::MAX as f64) as f32;
        for tree in &mut self.trees {
            tree.splits_mut().for_each(|s| s.gain = shift(s.gain, gain - gain_exponent));
            tree.leaves_mut().iter_mut().for_each(|leaf| leaf.weight = shift(leaf.weight, weight - weight_exponent));
        }
        self.units = Units { gain: libm::ldexp(1.0, gain_exponent), weight: libm::ldexp(1.0, weight_exponent) };
    }

    /// The columns that a derived feature is made of.
    fn columns_of_derived(&self, derived: &Derived) -> Vec<u32> {
        match derived {
            Derived::OneOf { feature, .. } => vec![*feature],
            Derived::Ctr { table, .. } | Derived::Hashed { table, .. } => self.tables[*table as usize].features.clone(),
        }
    }
}
