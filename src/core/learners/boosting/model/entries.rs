//! From categories to the entries of a model's tables, and from entries to codes.

use super::{Derived, Model};
use crate::column::Column;
use crate::encoding::ctr::{Ctr, CtrKind, Prefix, ctr_codes};
use crate::model::code_search::MAX_SLOT_BORDERS;
use crate::numerics::hash::Seeded;
use std::collections::HashMap;

/// A set of a column's categories has a code for each category of the column where there are at most this many, or at most
/// [`LISTED_SHARE`] times as many as the set has, and besides as long as [`ROOM`] bytes last. Else only the set's own are looked up,
/// by a hash: a model may ask about thousands of small sets of a column of millions, and a byte for each category of each set would
/// be gigabytes.
const FEW_CATEGORIES: usize = 512;
const LISTED_SHARE: usize = 64;
const ROOM: usize = 1 << 20;

/// What a row looks up: the category of a column, or the combination of several columns'.
pub struct Entries {
    columns: Vec<usize>,
    /// Categories of each column.
    cardinalities: Vec<u64>,
    /// The entry of each combination that occurs; none for a single column whose entries are its codes.
    of_key: Option<HashMap<u64, u32, Seeded>>,
    /// How many there are; the one behind them is that of everything unseen.
    len: u32,
}

impl Entries {
    fn new(model: &Model, columns: &[u32], keys: Option<&mut dyn ExactSizeIterator<Item = u64>>) -> Entries {
        let columns: Vec<usize> = columns.iter().map(|f| *f as usize).collect();
        let cardinality = |c: &usize| model.features[*c].categories.as_ref().map_or(0, |c| c.len() as u64);
        let cardinalities: Vec<u64> = columns.iter().map(cardinality).collect();
        let len = keys.as_ref().map_or(cardinalities[0] as usize, |keys| keys.len()) as u32;
        let of_key = keys.map(|keys| {
            let mut of_key = HashMap::with_capacity_and_hasher(len as usize, Seeded::default());
            of_key.extend(keys.zip(0..));
            of_key
        });
        Entries { columns, cardinalities, of_key, len }
    }

    /// One for each category of a column of a valid model.
    fn of_column(model: &Model, column: u32) -> Entries {
        Entries::new(model, &[column], None)
    }

    /// One for each of some categories of a column; the others count as unseen.
    fn of_categories(model: &Model, column: u32, categories: &[u32]) -> Entries {
        Entries::new(model, &[column], Some(&mut categories.iter().map(|c| *c as u64)))
    }

    /// Those of a table of a valid model.
    fn of_table(model: &Model, table: u32) -> Entries {
        let table = &model.tables[table as usize];
        match table.features.as_slice() {
            [column] => Entries::of_column(model, *column),
            columns => Entries::new(model, columns, Some(&mut table.keys.iter().copied())),
        }
    }

    /// The columns, how many categories each has, and how many entries there are; entries that have keys are numbered as these
    /// ascend.
    pub fn parts(&self) -> (&[usize], &[u64], u32) {
        (&self.columns, &self.cardinalities, self.len)
    }

    /// The keys of the entries, ascending: entry `i` has key `i`. None for a single column whose entries are its codes.
    pub fn keys(&self) -> Option<Vec<u64>> {
        let of_key = self.of_key.as_ref()?;
        let mut keys = vec![0; of_key.len()];
        of_key.iter().for_each(|(key, entry)| keys[*entry as usize] = *key);
        Some(keys)
    }

    /// Writes the entries of rows `start .. start + out.len()`.
    pub fn read(&self, columns: &[&Column<'_>], start: usize, out: &mut [u32]) {
        let codes = |i: usize| columns[self.columns[i]].category_codes().unwrap_or_default();
        let Some(of_key) = &self.of_key else {
            let codes = &codes(0)[start..start + out.len()];
            out.iter_mut().zip(codes).for_each(|(o, c)| *o = (*c).min(self.len));
            return;
        };
        let codes: Vec<&[u32]> = (0..self.columns.len()).map(|i| &codes(i)[start..start + out.len()]).collect();
        for (row, out) in out.iter_mut().enumerate() {
            let mut key = Some(0u64);
            for (codes, cardinality) in codes.iter().zip(&self.cardinalities) {
                let code = codes[row] as u64;
                key = key.filter(|_| code < *cardinality).map(|k| k * cardinality + code);
            }
            *out = key.and_then(|k| of_key.get(&k)).copied().unwrap_or(self.len);
        }
    }
}

/// All that the derived features of a model look up, each column and each table once.
#[derive(Default)]
pub struct Sources {
    pub entries: Vec<Entries>,
    of_column: HashMap<u32, usize>,
    of_table: HashMap<u32, usize>,
    /// Bytes of [`ROOM`] that are taken.
    taken: usize,
}

impl Sources {
    /// What `derived` looks up, as an index into [`Sources::entries`], and the code of each of its entries, the unseen one's last:
    /// 1 + the number of `borders` (at most [`MAX_SLOT_BORDERS`]) that the derived feature's value is above.
    pub fn codes(&mut self, model: &Model, derived: &Derived, borders: &[f64]) -> (usize, Vec<u8>) {
        debug_assert!(borders.len() <= MAX_SLOT_BORDERS);
        match derived {
            Derived::OneOf { feature, categories } => self.one_of(model, *feature, categories, !borders.is_empty()),
            Derived::Ctr { table, sums, ctr, unit, .. } => {
                (self.table(model, *table), statistic_codes(model, *table, *sums, ctr, *unit, borders))
            }
        }
    }

    /// Codes of a set of categories: 2 inside where the one border is asked about, else 1.
    fn one_of(&mut self, model: &Model, feature: u32, categories: &[u32], asked: bool) -> (usize, Vec<u8>) {
        let known = model.features[feature as usize].categories.as_ref().map_or(0, |c| c.len());
        let inside = 1 + asked as u8;
        let is_large = known > FEW_CATEGORIES.max(LISTED_SHARE * categories.len());
        if is_large && self.taken + known > ROOM {
            self.entries.push(Entries::of_categories(model, feature, categories));
            let mut codes = vec![inside; categories.len()];
            codes.push(1);
            return (self.entries.len() - 1, codes);
        }
        self.taken += if is_large { known } else { 0 };
        let mut codes = vec![1; known + 1];
        categories.iter().for_each(|c| codes[*c as usize] = inside);
        (self.column(model, feature), codes)
    }

    fn column(&mut self, model: &Model, column: u32) -> usize {
        let entries = &mut self.entries;
        *self.of_column.entry(column).or_insert_with(|| {
            entries.push(Entries::of_column(model, column));
            entries.len() - 1
        })
    }

    fn table(&mut self, model: &Model, table: u32) -> usize {
        if let [column] = model.tables[table as usize].features.as_slice() {
            return self.column(model, *column);
        }
        let entries = &mut self.entries;
        *self.of_table.entry(table).or_insert_with(|| {
            entries.push(Entries::of_table(model, table));
            entries.len() - 1
        })
    }
}

/// The code of each entry of a table, the unseen one's last.
fn statistic_codes(model: &Model, table: u32, sums: u32, ctr: &Ctr, unit: f64, borders: &[f64]) -> Vec<u8> {
    let table = &model.tables[table as usize];
    let sum = |i: usize| if ctr.kind == CtrKind::Counter { 0 } else { table.sums[sums as usize][i] };
    let mut prefixes: Vec<Prefix> = table.n.iter().enumerate().map(|(i, n)| Prefix { n: *n, s: sum(i) }).collect();
    prefixes.push(Prefix::default());
    let mut below = ctr_codes(ctr, &prefixes, unit, table.n.iter().copied().max().unwrap_or(0), borders);
    below.iter_mut().for_each(|code| *code += 1);
    below
}
