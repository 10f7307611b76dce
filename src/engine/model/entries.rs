//! From categories to the entries of a model's tables, and from entries to codes.

use super::search::MAX_SLOT_BORDERS;
use super::{Derived, Model};
use crate::column::Column;
use crate::encoding::ctr::{CtrKind, Mixer, Prefix, ctr_codes};
use std::collections::HashMap;

/// What a row looks up: the category of a column, or the combination of several columns'.
#[derive(PartialEq)]
pub(crate) struct Entries {
    columns: Vec<usize>,
    /// Categories of each column.
    cardinalities: Vec<u64>,
    /// The entry of each combination that occurs; none for a single column, whose entries are its codes.
    of_key: HashMap<u64, u32, Mixer>,
    /// How many there are; the one behind them is that of everything unseen.
    len: u32,
}

impl Entries {
    /// What derived feature `derived` of a valid model looks up.
    pub fn new(model: &Model, derived: &Derived) -> Entries {
        let (columns, keys) = match derived {
            Derived::OneOf { feature, .. } => (vec![*feature as usize], &[][..]),
            Derived::Ctr { table, .. } => {
                let table = &model.tables[*table as usize];
                (table.features.iter().map(|f| *f as usize).collect(), table.keys.as_slice())
            }
        };
        let cardinality = |c: &usize| model.features[*c].categories.as_ref().map_or(0, |c| c.len() as u64);
        let cardinalities: Vec<u64> = columns.iter().map(cardinality).collect();
        let len = if columns.len() == 1 { cardinalities[0] as u32 } else { keys.len() as u32 };
        let of_key = keys.iter().enumerate().map(|(i, k)| (*k, i as u32)).collect();
        Entries { columns, cardinalities, of_key, len }
    }

    /// The columns, how many categories each has, and how many entries there are; entries of several columns are
    /// numbered as the table's keys ascend.
    #[cfg(feature = "cuda")]
    pub(crate) fn parts(&self) -> (&[usize], &[u64], u32) {
        (&self.columns, &self.cardinalities, self.len)
    }

    /// The keys of combinations, ascending: entry `i` has key `i`.
    #[cfg(feature = "cuda")]
    pub(crate) fn keys(&self) -> Vec<u64> {
        let mut keys = vec![0; self.of_key.len()];
        self.of_key.iter().for_each(|(key, entry)| keys[*entry as usize] = *key);
        keys
    }

    /// Writes the entries of rows `start .. start + out.len()`.
    pub fn read(&self, columns: &[&Column<'_>], start: usize, out: &mut [u32]) {
        let codes = |i: usize| columns[self.columns[i]].category_codes().unwrap_or_default();
        if self.columns.len() == 1 {
            let codes = &codes(0)[start..start + out.len()];
            out.iter_mut().zip(codes).for_each(|(o, c)| *o = (*c).min(self.len));
            return;
        }
        let codes: Vec<&[u32]> = (0..self.columns.len()).map(|i| &codes(i)[start..start + out.len()]).collect();
        for (row, out) in out.iter_mut().enumerate() {
            let mut key = Some(0u64);
            for (codes, cardinality) in codes.iter().zip(&self.cardinalities) {
                let code = codes[row] as u64;
                key = key.filter(|_| code < *cardinality).map(|k| k * cardinality + code);
            }
            *out = key.and_then(|k| self.of_key.get(&k)).copied().unwrap_or(self.len);
        }
    }

    /// The code of each entry, the unseen one last: 1 + the number of `borders` (at most
    /// [`MAX_SLOT_BORDERS`]) that the derived feature's value is above.
    pub fn codes(&self, model: &Model, derived: &Derived, borders: &[f64]) -> Vec<u8> {
        debug_assert!(borders.len() <= MAX_SLOT_BORDERS);
        let mut below = match derived {
            Derived::OneOf { categories, .. } => {
                let mut one_of = vec![0; self.len as usize + 1];
                if !borders.is_empty() {
                    categories.iter().for_each(|c| one_of[*c as usize] = 1);
                }
                one_of
            }
            Derived::Ctr { table, sums, ctr, unit, .. } => {
                let table = &model.tables[*table as usize];
                let sum = |i: usize| if ctr.kind == CtrKind::Counter { 0 } else { table.sums[*sums as usize][i] };
                let mut prefixes: Vec<Prefix> = table.n.iter().enumerate().map(|(i, n)| Prefix { n: *n, s: sum(i) }).collect();
                prefixes.push(Prefix::default());
                ctr_codes(ctr, &prefixes, *unit, table.n.iter().copied().max().unwrap_or(0), borders)
            }
        };
        below.iter_mut().for_each(|code| *code += 1);
        below
    }
}
