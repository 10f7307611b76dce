//! From labels back to codes: what `encode` and `predict` do with every value.

use crate::column::categories::{Categories, CategoryNames};
use crate::column::distinct::{BATCH, Slots, WARM};
use crate::error::{Error, Result};
use crate::numerics::city;
use crate::numerics::hash::Seeded;
use crate::parallel::interrupt;

/// Values that are hashed between two looks whether the codes are still wanted.
const HASHED_AT_ONCE: usize = 1 << 12;

/// Categories with a table from label to code. Values that are not among them have no code; where codes are hashes, every value
/// has one.
///
/// ```
/// use taiga_core::encoding::{Categories, CategoryNames, Lookup};
/// let categories = Categories { labels: CategoryNames::Text(vec!["a".into(), "".into()]), null: Some(1) };
/// let lookup = Lookup::new(categories).unwrap();
/// assert_eq!((lookup.text("a"), lookup.text(""), lookup.null()), (Some(0), None, Some(1)));
/// assert_eq!(lookup.integer(7), None);
/// ```
#[derive(Debug)]
pub struct Lookup {
    categories: Categories,
    slots: Slots,
    /// Labels may come from bytes that anyone has written.
    hash: Seeded,
}

impl Lookup {
    /// Returns the table of these categories.
    ///
    /// # Errors
    /// [`Error::Data`] when a label stands twice, null's code is not among the codes, or hashes are not those of the texts that are known, or give null no code.
    pub fn new(categories: Categories) -> Result<Self> {
        if let CategoryNames::Hashed(known) = &categories.labels {
            let ascend = known.windows(2).all(|w| w[0].0 < w[1].0) && known.iter().all(|(hash, text)| city::hash_of(text) == *hash);
            if categories.null.is_none() || !ascend {
                return Err(Error::Data("the hashes of its categories are not those of their texts, or null has none".into()));
            }
            return Ok(Lookup { categories, slots: Slots::default(), hash: Seeded::default() });
        }
        let n = categories.len();
        if n >= u32::MAX as usize || categories.null.is_some_and(|null| null as usize >= n) {
            return Err(Error::Data(format!("null is category {:?} of {n}", categories.null)));
        }
        let (mut slots, seeded) = (Slots::default(), Seeded::default());
        for code in (0..n as u32).filter(|c| categories.null != Some(*c)) {
            let found = match &categories.labels {
                CategoryNames::Text(v) => {
                    let hash = |c: u32| seeded.text(&v[c as usize]);
                    slots.find_or_insert(hash(code), |c| v[c as usize] == v[code as usize], hash, || code)
                }
                CategoryNames::Integer(v) => {
                    let hash = |c: u32| seeded.integer(v[c as usize]);
                    slots.find_or_insert(hash(code), |c| v[c as usize] == v[code as usize], hash, || code)
                }
                CategoryNames::Boolean(v) => {
                    let hash = |c: u32| seeded.integer(v[c as usize] as i128);
                    slots.find_or_insert(hash(code), |c| v[c as usize] == v[code as usize], hash, || code)
                }
                CategoryNames::Hashed(_) => code,
            };
            if found != code {
                return Err(Error::Data(format!("the category {:?} stands twice", categories.name(code))));
            }
        }
        Ok(Lookup { categories, slots, hash: seeded })
    }

    /// Returns the categories.
    pub fn categories(&self) -> &Categories {
        &self.categories
    }

    /// Returns the code of a text.
    #[inline]
    pub fn text(&self, value: &str) -> Option<u32> {
        match &self.categories.labels {
            CategoryNames::Text(v) => self.slots.find(self.hash.text(value), |c| v[c as usize] == value),
            CategoryNames::Hashed(_) => Some(city::hash_of(value)),
            _ => None,
        }
    }

    /// Returns the code of an integer.
    #[inline]
    pub fn integer(&self, value: i128) -> Option<u32> {
        match &self.categories.labels {
            CategoryNames::Integer(v) => self.slots.find(self.hash.integer(value), |c| v[c as usize] == value),
            CategoryNames::Hashed(_) => Some(city::hash_of_integer(value)),
            _ => None,
        }
    }

    /// Appends the code of each text, null's for `None`, `unseen` for what is not among them.
    pub fn extend_texts<'a>(&self, values: impl Iterator<Item = Option<&'a str>>, unseen: u32, out: &mut Vec<u32>) {
        let labels = match &self.categories.labels {
            CategoryNames::Text(labels) => labels,
            CategoryNames::Hashed(_) => return self.extend_hashes(values, city::hash_of, unseen, out),
            _ => return out.extend(values.map(|_| unseen)),
        };
        let touch = |c: u32| labels[c as usize].as_bytes().first().copied().unwrap_or_default().into();
        self.extend(values, |value| self.hash.text(value), touch, |value, c| labels[c as usize] == *value, unseen, out);
    }

    /// Appends the code of each integer, likewise.
    pub fn extend_integers(&self, values: impl Iterator<Item = Option<i128>>, unseen: u32, out: &mut Vec<u32>) {
        let labels = match &self.categories.labels {
            CategoryNames::Integer(labels) => labels,
            CategoryNames::Hashed(_) => return self.extend_hashes(values, city::hash_of_integer, unseen, out),
            _ => return out.extend(values.map(|_| unseen)),
        };
        let touch = |c: u32| labels[c as usize] as u64;
        self.extend(values, |value| self.hash.integer(*value), touch, |value, c| labels[c as usize] == *value, unseen, out);
    }

    /// Appends the hash of each value.
    fn extend_hashes<V>(&self, mut values: impl Iterator<Item = Option<V>>, hash: impl Fn(V) -> u32, unseen: u32, out: &mut Vec<u32>) {
        let (null, mut before) = (self.null().unwrap_or(unseen), usize::MAX);
        while before != out.len() {
            interrupt::poll();
            before = out.len();
            out.extend(values.by_ref().take(HASHED_AT_ONCE).map(|value| value.map_or(null, &hash)));
        }
    }

    /// Some rows at a time: all read what their searches will read, so that they wait for memory
    /// together, then each searches.
    fn extend<V: Copy>(
        &self,
        mut values: impl Iterator<Item = Option<V>>,
        hash: impl Fn(&V) -> u64,
        touch: impl Fn(u32) -> u64,
        same: impl Fn(&V, u32) -> bool,
        unseen: u32,
        out: &mut Vec<u32>,
    ) {
        let null = self.null().unwrap_or(unseen);
        let mut batch: Vec<Option<(V, u64)>> = Vec::with_capacity(BATCH);
        loop {
            interrupt::poll();
            batch.clear();
            batch.extend(values.by_ref().take(BATCH).map(|value| value.map(|v| (v, hash(&v)))));
            if batch.is_empty() {
                return;
            }
            if self.categories.len() > WARM {
                let touched = batch.iter().flatten().fold(0, |touched, (_, hash)| touched ^ self.slots.peek(*hash).map_or(0, &touch));
                std::hint::black_box(touched);
            }
            out.extend(batch.iter().map(|entry| match entry {
                Some((value, hash)) => self.slots.find(*hash, |c| same(value, c)).unwrap_or(unseen),
                None => null,
            }));
        }
    }

    /// Returns the code of a Boolean.
    pub fn boolean(&self, value: bool) -> Option<u32> {
        match &self.categories.labels {
            CategoryNames::Boolean(v) => self.slots.find(self.hash.integer(value as i128), |c| v[c as usize] == value),
            // CatBoost reads them as 0 and 1.
            CategoryNames::Hashed(_) => Some(city::hash_of_integer(value.into())),
            _ => None,
        }
    }

    /// Returns the code of null.
    pub fn null(&self) -> Option<u32> {
        self.categories.null
    }
}
