//! A table without the rows that weigh nothing; see [`crate::dataset::counted`].

use super::Input;
use super::rows::{Items, ListChunk, ListColumn, Offsets, SparseRows, Texts};
use crate::column::select::{OwnedBits, OwnedChunk};
use crate::dataset::OwnRows;
use crate::dataset::counted::Counted;
use crate::error::Result;
use crate::memory;

/// The rows of a table that weigh something, copied.
pub struct CountedLists<'a> {
    table: Counted,
    features: Option<OwnedList<'a>>,
    values: Option<OwnedList<'a>>,
}

impl<'a> CountedLists<'a> {
    /// Returns the rows `rows` (ascending) of a table, of whose lists and dense columns this process has its `own` rows.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub fn new(input: &Input<'a>, own: &OwnRows<'_>, rows: Vec<usize>) -> Result<Self> {
        let sparse = input.sparse.as_ref();
        let lists = sparse.into_iter().flat_map(|s| std::iter::once(&s.features).chain(&s.values));
        let entries: u64 = lists.flat_map(|list| &list.chunks).map(|chunk| chunk.offsets.items() as u64).fold(0, u64::saturating_add);
        // The places of the entries that stay, about, and where each row's begin.
        let stay = entries as f64 * rows.len() as f64 / input.target.rows().max(1) as f64;
        let bytes = (stay as u64).saturating_add(rows.len() as u64).saturating_mul(8);
        memory::check("a copy of the rows whose weight is not 0", bytes, "leave rows of weight 0 out by .filter() before the fit")?;
        let here = own.here(&rows);
        let features = sparse.map(|s| OwnedList::of(&s.features, &here));
        let values = sparse.and_then(|s| s.values.as_ref()).map(|v| OwnedList::of(v, &here));
        Ok(CountedLists { table: Counted::of_own(&input.table(), own, rows)?, features, values })
    }

    /// Returns the table of those rows.
    pub fn input(&self) -> Input<'_> {
        let table = self.table.input();
        let values = || self.values.as_ref().map(OwnedList::column);
        Input {
            sparse: self.features.as_ref().map(|features| SparseRows { features: features.column(), values: values() }),
            dense: table.features,
            target: table.target,
            target_name: table.target_name,
            weight: table.weight,
            held_out: table.held_out,
        }
    }
}

/// Some rows of a column of lists.
struct OwnedList<'a> {
    name: String,
    chunks: Vec<OwnedListChunk<'a>>,
}

struct OwnedListChunk<'a> {
    offsets: Vec<i64>,
    validity: Option<OwnedBits>,
    items: OwnedItems<'a>,
}

enum OwnedItems<'a> {
    Numbers(OwnedChunk),
    Texts(SomeTexts<'a>),
    Hashed(Vec<u32>),
}

/// Strings by their places among others.
struct SomeTexts<'a> {
    texts: &'a dyn Texts,
    places: Vec<usize>,
}

impl Texts for SomeTexts<'_> {
    fn len(&self) -> usize {
        self.places.len()
    }

    fn get(&self, i: usize) -> Option<&str> {
        self.texts.get(self.places[i])
    }
}

impl<'a> OwnedList<'a> {
    fn of(column: &ListColumn<'a>, rows: &[usize]) -> Self {
        let mut chunks = vec![];
        let (mut rest, mut first) = (rows, 0);
        for chunk in &column.chunks {
            let end = first + chunk.offsets.rows();
            let (own, others) = rest.split_at(rest.partition_point(|row| *row < end));
            let own: Vec<usize> = own.iter().map(|row| row - first).collect();
            chunks.push(OwnedListChunk::of(chunk, &own));
            (rest, first) = (others, end);
        }
        OwnedList { name: column.name.clone(), chunks }
    }

    fn column(&self) -> ListColumn<'_> {
        ListColumn { name: self.name.clone(), chunks: self.chunks.iter().map(OwnedListChunk::chunk).collect() }
    }
}

impl<'a> OwnedListChunk<'a> {
    /// Returns the lists at `rows` of a chunk whose offsets have been checked.
    fn of(chunk: &ListChunk<'a>, rows: &[usize]) -> Self {
        let span = |row: usize| match chunk.offsets {
            Offsets::I32(o) => o[row] as usize..o[row + 1] as usize,
            Offsets::I64(o) => o[row] as usize..o[row + 1] as usize,
            Offsets::Fixed { width, .. } => row * width..(row + 1) * width,
        };
        let (mut offsets, mut places) = (Vec::with_capacity(rows.len() + 1), vec![]);
        offsets.push(0);
        for row in rows {
            places.extend(span(*row));
            offsets.push(places.len() as i64);
        }
        let items = match chunk.items {
            Items::Numbers(items) => OwnedItems::Numbers(OwnedChunk::of(&items, &places)),
            Items::Texts(texts) => OwnedItems::Texts(SomeTexts { texts, places }),
            Items::Hashed(hashes) => OwnedItems::Hashed(places.iter().map(|place| hashes[*place]).collect()),
        };
        OwnedListChunk { offsets, validity: chunk.validity.map(|v| OwnedBits::of(&v, rows)), items }
    }

    fn chunk(&self) -> ListChunk<'_> {
        let items = match &self.items {
            OwnedItems::Numbers(chunk) => Items::Numbers(chunk.chunk()),
            OwnedItems::Texts(texts) => Items::Texts(texts),
            OwnedItems::Hashed(hashes) => Items::Hashed(hashes),
        };
        ListChunk { offsets: Offsets::I64(&self.offsets), validity: self.validity.as_ref().map(OwnedBits::bits), items }
    }
}
