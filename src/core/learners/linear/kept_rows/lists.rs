//! Lists as a fit keeps them, in chunks.

use crate::column::{Chunk, Values};
use crate::dataset::kept_columns::Store;
use crate::error::Result;
use crate::learners::linear::csr::{FeatureNumbers, Piece};
use crate::learners::linear::rows::{Items, ListChunk, Offsets};
use crate::memory;
use crate::spill::Array;
use std::ops::Range;

/// Consecutive rows of lists, none of them null, and none of their items.
pub(super) struct KeptLists {
    offsets: Array<i64>,
    numbers: KeptNumbers,
    /// Empty where there are none.
    values: Array<f32>,
}

enum KeptNumbers {
    Narrow(Array<u32>),
    Wide(Array<u64>),
    Hashed(Array<u32>),
}

impl KeptLists {
    /// Returns the features of the rows.
    pub(super) fn features(&self) -> ListChunk<'_> {
        self.of(match &self.numbers {
            KeptNumbers::Narrow(numbers) => Items::Numbers(Chunk::new(Values::U32(numbers), None)),
            KeptNumbers::Wide(numbers) => Items::Numbers(Chunk::new(Values::U64(numbers), None)),
            KeptNumbers::Hashed(hashes) => Items::Hashed(hashes),
        })
    }

    /// Returns their values, of lists that have some.
    pub(super) fn values(&self) -> ListChunk<'_> {
        self.of(Items::Numbers(Chunk::new(Values::F32(&self.values), None)))
    }

    fn of<'a>(&'a self, items: Items<'a>) -> ListChunk<'a> {
        ListChunk { offsets: Offsets::I64(&self.offsets), validity: None, items }
    }
}

/// Keeps the lists of one batch after another.
pub(super) struct ListKeeper<'s> {
    store: &'s Store<'s>,
    /// Whether the numbers are hashes of strings.
    hashed: bool,
    kept: Vec<KeptLists>,
    /// The rows that are kept.
    rows: usize,
    /// Those that are not a chunk yet: where each begins among the numbers and values, and the last one ends.
    offsets: Vec<i64>,
    numbers: Numbers,
    values: Vec<f32>,
}

enum Numbers {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl Numbers {
    fn len(&self) -> usize {
        match self {
            Numbers::Narrow(numbers) => numbers.len(),
            Numbers::Wide(numbers) => numbers.len(),
        }
    }

    /// Appends some of `keys`; where these are wide, all become so.
    fn extend(&mut self, keys: &FeatureNumbers<'_>, entries: Range<usize>) {
        match (&mut *self, keys) {
            (Numbers::Narrow(own), FeatureNumbers::Narrow(keys)) => own.extend_from_slice(&keys[entries]),
            (Numbers::Wide(own), FeatureNumbers::Narrow(keys)) => own.extend(keys[entries].iter().map(|key| u64::from(*key))),
            (Numbers::Wide(own), FeatureNumbers::Wide(keys)) => own.extend_from_slice(&keys[entries]),
            (Numbers::Narrow(own), FeatureNumbers::Wide(keys)) => {
                let mut wide: Vec<u64> = own.iter().map(|number| u64::from(*number)).collect();
                wide.extend_from_slice(&keys[entries]);
                *self = Numbers::Wide(wide);
            }
        }
    }
}

impl<'s> ListKeeper<'s> {
    /// Makes one; `hashed`: whether the numbers are hashes of strings.
    pub(super) fn new(store: &'s Store<'s>, hashed: bool) -> ListKeeper<'s> {
        ListKeeper { store, hashed, kept: vec![], rows: 0, offsets: vec![0], numbers: Numbers::Narrow(vec![]), values: vec![] }
    }

    /// Keeps the rows of a piece.
    ///
    /// # Errors
    /// Where there is no room for them.
    pub(super) fn add(&mut self, piece: &Piece<'_>) -> Result<()> {
        let mut taken = 0;
        for row in 0..piece.rows() {
            let end = piece.span(row).end;
            let entries = self.numbers.len() + end - taken;
            self.offsets.push(entries as i64);
            if entries >= self.store.chunk || self.offsets.len() > self.store.chunk {
                self.take(piece, taken..end);
                taken = end;
                self.seal()?;
            }
        }
        self.take(piece, taken..piece.entries());
        Ok(())
    }

    fn take(&mut self, piece: &Piece<'_>, entries: Range<usize>) {
        self.numbers.extend(&piece.keys, entries.clone());
        if let Some(values) = &piece.values {
            self.values.extend_from_slice(&values[entries]);
        }
    }

    /// Makes a chunk of the rows that are none yet.
    fn seal(&mut self) -> Result<()> {
        let rows = self.offsets.len() - 1;
        if rows == 0 {
            return Ok(());
        }
        let width = if let Numbers::Wide(_) = self.numbers { 8 } else { 4 };
        let bytes = memory::sum(&[8 * self.offsets.len() as u64, width * self.numbers.len() as u64, 4 * self.values.len() as u64]);
        let _reserved = self.store.reserve(bytes, self.rows)?;
        let numbers = match &self.numbers {
            Numbers::Narrow(numbers) if self.hashed => KeptNumbers::Hashed(self.store.keep(numbers)?),
            Numbers::Narrow(numbers) => KeptNumbers::Narrow(self.store.keep(numbers)?),
            Numbers::Wide(numbers) => KeptNumbers::Wide(self.store.keep(numbers)?),
        };
        self.kept.push(KeptLists { offsets: self.store.keep(&self.offsets)?, numbers, values: self.store.keep(&self.values)? });
        self.rows += rows;
        self.offsets.truncate(1);
        self.values.clear();
        match &mut self.numbers {
            Numbers::Narrow(numbers) => numbers.clear(),
            Numbers::Wide(_) => self.numbers = Numbers::Narrow(vec![]),
        }
        Ok(())
    }

    /// Forgets all rows.
    pub(super) fn forget(&mut self) {
        *self = ListKeeper::new(self.store, self.hashed);
    }

    /// Returns all rows.
    ///
    /// # Errors
    /// Where there is no room for the last ones.
    pub(super) fn kept(mut self) -> Result<Vec<KeptLists>> {
        self.seal()?;
        Ok(self.kept)
    }
}
