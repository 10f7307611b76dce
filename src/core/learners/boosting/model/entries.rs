//! From categories to the entries of a model's tables, and from entries to codes.

use super::{Derived, HashedPart, Model, extend_hash, part_of_code};
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

/// What a row looks up: the category of a column, the combination of several columns', or the hash of a combination.
pub struct Entries {
    key: Key,
    /// The entry of each key that occurs; none for a single column whose entries are its codes.
    of_key: Option<HashMap<u64, u32, Seeded>>,
    /// How many there are; the one behind them is that of everything unseen.
    len: u32,
}

/// What the key of a row is made of.
pub enum Key {
    /// The codes of columns, of which each has so many: `(first * categories of the second + second) * …`.
    Codes { columns: Vec<usize>, cardinalities: Vec<u64> },
    /// Parts that are hashed, in their order.
    Hash(Vec<KeyPart>),
}

/// A part of a key that is a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyPart {
    /// The code of a column.
    Code(usize),
    /// Whether the row goes right at one of [`Sources::answers`].
    Answer(usize),
}

/// A split whose answer is a part of keys.
#[derive(Clone, Copy)]
pub struct Asked {
    pub feature: u32,
    pub border: u32,
    pub missing_left: bool,
}

/// Arrays that reading keys writes over.
#[derive(Default)]
pub struct KeyScratch {
    keys: Vec<u64>,
    answers: Vec<u8>,
}

/// The entry of each key, numbered as they come.
fn numbered(keys: impl ExactSizeIterator<Item = u64>) -> HashMap<u64, u32, Seeded> {
    let mut of_key = HashMap::with_capacity_and_hasher(keys.len(), Seeded::default());
    of_key.extend(keys.zip(0..));
    of_key
}

impl Entries {
    fn new(model: &Model, columns: &[u32], of_key: Option<HashMap<u64, u32, Seeded>>) -> Entries {
        let columns: Vec<usize> = columns.iter().map(|f| *f as usize).collect();
        let cardinality = |c: &usize| model.features[*c].categories.as_ref().map_or(0, |c| c.len() as u64);
        let cardinalities: Vec<u64> = columns.iter().map(cardinality).collect();
        let len = of_key.as_ref().map_or(cardinalities[0] as usize, HashMap::len) as u32;
        Entries { key: Key::Codes { columns, cardinalities }, of_key, len }
    }

    /// One for each category of a column of a valid model; where these are hashes, for each that a set names.
    fn of_column(model: &Model, column: u32, named: Option<&[u32]>) -> Entries {
        Entries::new(model, &[column], named.map(|named| numbered(named.iter().map(|c| *c as u64))))
    }

    /// One for each of some categories of a column; the others count as unseen.
    fn of_categories(model: &Model, column: u32, categories: &[u32]) -> Entries {
        Entries::of_column(model, column, Some(categories))
    }

    /// Those of a table of a valid model, of several columns.
    fn of_table(model: &Model, table: u32) -> Entries {
        let table = &model.tables[table as usize];
        Entries::new(model, &table.features, Some(numbered(table.keys.iter().copied())))
    }

    /// Those of a table of hashes.
    fn of_hashes(model: &Model, table: u32, parts: Vec<KeyPart>) -> Entries {
        let of_key = numbered(model.tables[table as usize].keys.iter().copied());
        Entries { key: Key::Hash(parts), len: of_key.len() as u32, of_key: Some(of_key) }
    }

    /// What its keys are made of.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// How many entries there are, which are numbered as their keys ascend.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether its keys are made of what splits answer, too.
    pub fn asks(&self) -> bool {
        matches!(&self.key, Key::Hash(parts) if parts.iter().any(|part| matches!(part, KeyPart::Answer(_))))
    }

    /// The keys of the entries, ascending: entry `i` has key `i`. None for a single column whose entries are its codes.
    pub fn keys(&self) -> Option<Vec<u64>> {
        let of_key = self.of_key.as_ref()?;
        let mut keys = vec![0; of_key.len()];
        of_key.iter().for_each(|(key, entry)| keys[*entry as usize] = *key);
        Some(keys)
    }

    /// Writes the entries of rows `start .. start + out.len()`; `answer` writes of each row 1 where it goes right at a split that is
    /// asked, else 0.
    pub fn read(
        &self,
        columns: &[&Column<'_>],
        start: usize,
        answer: impl Fn(usize, &mut [u8]),
        scratch: &mut KeyScratch,
        out: &mut [u32],
    ) {
        let codes = |column: usize| &columns[column].category_codes().unwrap_or_default()[start..start + out.len()];
        match (&self.key, &self.of_key) {
            (Key::Codes { columns, .. }, None) => {
                let codes = codes(columns[0]);
                out.iter_mut().zip(codes).for_each(|(o, c)| *o = (*c).min(self.len));
            }
            (Key::Codes { columns, cardinalities }, Some(of_key)) => {
                let codes: Vec<&[u32]> = columns.iter().map(|c| codes(*c)).collect();
                for (row, out) in out.iter_mut().enumerate() {
                    let mut key = Some(0u64);
                    for (codes, cardinality) in codes.iter().zip(cardinalities) {
                        let code = codes[row] as u64;
                        key = key.filter(|_| code < *cardinality).map(|k| k * cardinality + code);
                    }
                    *out = key.and_then(|k| of_key.get(&k)).copied().unwrap_or(self.len);
                }
            }
            (Key::Hash(parts), of_key) => {
                let KeyScratch { keys, answers } = scratch;
                keys.clear();
                keys.resize(out.len(), 0);
                answers.resize(out.len(), 0);
                for part in parts {
                    match part {
                        KeyPart::Code(column) => {
                            keys.iter_mut().zip(codes(*column)).for_each(|(key, code)| *key = extend_hash(*key, part_of_code(*code)));
                        }
                        KeyPart::Answer(asked) => {
                            answer(*asked, answers);
                            keys.iter_mut().zip(answers.iter()).for_each(|(key, right)| *key = extend_hash(*key, u64::from(*right)));
                        }
                    }
                }
                let find = |key: &u64| of_key.as_ref().and_then(|of_key| of_key.get(key)).copied().unwrap_or(self.len);
                out.iter_mut().zip(keys.iter()).for_each(|(out, key)| *out = find(key));
            }
        }
    }
}

/// All that the derived features of a model look up, each column and each table once.
#[derive(Default)]
pub struct Sources {
    pub entries: Vec<Entries>,
    /// The splits whose answers are parts of keys.
    pub answers: Vec<Asked>,
    of_column: HashMap<u32, usize>,
    of_table: HashMap<u32, usize>,
    of_hashes: HashMap<(u32, Vec<HashedPart>), usize>,
    /// Of columns whose codes are hashes those that sets name, ascending.
    named: HashMap<u32, Vec<u32>>,
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
            Derived::Hashed { table, parts, values, unseen, .. } => {
                // A number of 254 at most.
                let code = |value: &f32| 1 + borders.partition_point(|border| f64::from(*value) > *border) as u8;
                (self.hashes(model, *table, parts), values.iter().chain([unseen]).map(code).collect())
            }
        }
    }

    /// Codes of a set of categories: 2 inside where the one border is asked about, else 1.
    fn one_of(&mut self, model: &Model, feature: u32, categories: &[u32], asked: bool) -> (usize, Vec<u8>) {
        let named = hashes_named(&mut self.named, model, feature);
        let known = named.map_or_else(|| model.features[feature as usize].categories.as_ref().map_or(0, |c| c.len()), <[u32]>::len);
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
        for category in categories {
            let place = named.map_or(*category as usize, |named| named.partition_point(|c| c < category));
            codes[place] = inside;
        }
        (self.column(model, feature), codes)
    }

    fn column(&mut self, model: &Model, column: u32) -> usize {
        let (entries, named) = (&mut self.entries, hashes_named(&mut self.named, model, column));
        *self.of_column.entry(column).or_insert_with(|| {
            entries.push(Entries::of_column(model, column, named));
            entries.len() - 1
        })
    }

    /// What is found by the hash of these parts.
    fn hashes(&mut self, model: &Model, table: u32, parts: &[HashedPart]) -> usize {
        let (entries, answers) = (&mut self.entries, &mut self.answers);
        let part = |part: &HashedPart| match part {
            HashedPart::Category(column) => KeyPart::Code(*column as usize),
            HashedPart::Answer { feature, border, missing_left } => {
                answers.push(Asked { feature: *feature, border: *border, missing_left: *missing_left });
                KeyPart::Answer(answers.len() - 1)
            }
        };
        *self.of_hashes.entry((table, parts.to_vec())).or_insert_with_key(|(table, parts)| {
            entries.push(Entries::of_hashes(model, *table, parts.iter().map(part).collect()));
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

/// Of a column whose codes are hashes, those that the model's sets name, ascending; none of other columns.
fn hashes_named<'n>(named: &'n mut HashMap<u32, Vec<u32>>, model: &Model, column: u32) -> Option<&'n [u32]> {
    model.features[column as usize].categories.as_ref().filter(|known| known.are_hashed())?;
    if named.is_empty() {
        for derived in &model.derived {
            if let Derived::OneOf { feature, categories } = derived {
                named.entry(*feature).or_default().extend(categories);
            }
        }
        for own in named.values_mut() {
            own.sort_unstable();
            own.dedup();
        }
    }
    named.get(&column).map(Vec::as_slice)
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
