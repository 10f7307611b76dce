//! Sparse rows as Arrow has them: lists of feature numbers, or of strings, and lists of values beside them.
//!
//! Nothing here owns a row: Arrow's offsets are the row pointers of a CSR matrix.

use super::schema::ListColumns;
use crate::column::{Bits, Chunk};
use xxhash_rust::xxh3::xxh3_64;

/// Where the list of each row lies among a chunk's items.
#[derive(Clone, Copy, Debug)]
pub enum Offsets<'a> {
    /// Arrow's List: row `i` has items `offsets[i] .. offsets[i + 1]`.
    I32(&'a [i32]),
    /// Arrow's LargeList, likewise.
    I64(&'a [i64]),
    /// Arrow's FixedSizeList: row `i` has items `i * width .. (i + 1) * width`.
    Fixed { width: usize, rows: usize },
}

impl Offsets<'_> {
    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Offsets::I32(o) => o.len().saturating_sub(1),
            Offsets::I64(o) => o.len().saturating_sub(1),
            Offsets::Fixed { rows, .. } => *rows,
        }
    }

    /// Returns the number of items of all rows: those of a slice, whatever lies around it.
    pub fn items(&self) -> usize {
        match self {
            Offsets::I32(o) => o.first().zip(o.last()).map_or(0, |(first, last)| last.saturating_sub(*first).max(0) as usize),
            Offsets::I64(o) => o.first().zip(o.last()).map_or(0, |(first, last)| last.saturating_sub(*first).max(0) as usize),
            Offsets::Fixed { width, rows } => width.saturating_mul(*rows),
        }
    }
}

/// Strings by their place, in whatever layout they are stored.
pub trait Texts: Sync {
    /// Returns the number of strings.
    fn len(&self) -> usize;

    /// Returns whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns string `i`; `None` for null.
    fn get(&self, i: usize) -> Option<&str>;
}

impl<S: AsRef<str> + Sync> Texts for [Option<S>] {
    fn len(&self) -> usize {
        <[Option<S>]>::len(self)
    }

    fn get(&self, i: usize) -> Option<&str> {
        self[i].as_ref().map(|s| s.as_ref())
    }
}

/// Returns the feature that a string is hashed to: the lowest `bits` bits of XXH3-64 of its UTF-8 bytes.
#[inline]
pub fn bucket(text: &str, bits: u32) -> u32 {
    (xxh3_64(text.as_bytes()) & ((1u64 << bits) - 1)) as u32
}

/// The items of a chunk's lists: numbers or strings.
#[derive(Clone, Copy)]
pub enum Items<'a> {
    /// Integers (feature numbers), or numbers of any type (values).
    Numbers(Chunk<'a>),
    /// Strings, to be hashed.
    Texts(&'a dyn Texts),
    /// Strings that are hashed already: the [`bucket`] of each, [`NULL`] for null.
    Hashed(&'a [u32]),
}

/// What stands for a null among hashes of strings, which have at most 30 bits.
pub const NULL: u32 = u32::MAX;

impl Items<'_> {
    /// Returns the number of items, those that no row has included.
    pub fn len(&self) -> usize {
        match self {
            Items::Numbers(c) => c.values().len(),
            Items::Texts(t) => t.len(),
            Items::Hashed(h) => h.len(),
        }
    }

    /// Returns whether they are strings, hashed or not.
    pub fn are_texts(&self) -> bool {
        matches!(self, Items::Texts(_) | Items::Hashed(_))
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A chunk of a column of lists.
#[derive(Clone, Copy)]
pub struct ListChunk<'a> {
    pub offsets: Offsets<'a>,
    /// Which rows are not null; none where no row is.
    pub validity: Option<Bits<'a>>,
    /// All of the chunk's items: offsets count from the first one.
    pub items: Items<'a>,
}

/// A named column of lists.
#[derive(Clone)]
pub struct ListColumn<'a> {
    pub name: String,
    pub chunks: Vec<ListChunk<'a>>,
}

impl ListColumn<'_> {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(|c| c.offsets.rows()).sum()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Rows of (feature, value) pairs: a list of features a row, and a list of their values, 1 each where there is none.
///
/// What a row means:
/// - a feature number twice: the values are added;
/// - a null list, or an empty one: no feature (the row's score is what intercept and dense columns make of it). Where one of
///   the two lists is null the other has to be null or empty;
/// - a null feature or a null value inside a list: that entry is not there;
/// - a value that is NaN or infinite, lists of different lengths, a negative feature number, or one of `features` and above:
///   an error naming the column and the row, before anything is computed.
///
/// Values are rounded to f32 once. The two columns may have their chunk borders in different places; where feature and
/// value come as a struct in one list, both columns have the same offsets.
#[derive(Clone)]
pub struct SparseRows<'a> {
    /// The features of each row: integers of any width, or strings.
    pub features: ListColumn<'a>,
    /// The value of each feature, in the same order.
    pub values: Option<ListColumn<'a>>,
}

impl SparseRows<'_> {
    /// Returns what names and types tell of them.
    pub fn columns(&self) -> ListColumns<'_> {
        ListColumns {
            features: &self.features.name,
            values: self.values.as_ref().map(|values| values.name.as_str()),
            hold_texts: self.holds_texts(),
        }
    }

    /// Returns whether the features are strings.
    pub fn holds_texts(&self) -> bool {
        self.features.chunks.iter().any(|chunk| chunk.items.are_texts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that a slice has the items of its own rows, and that offsets which are none have none.
    #[test]
    fn items_are_those_of_the_rows() {
        assert_eq!(Offsets::I32(&[3, 5, 9]).items(), 6);
        assert_eq!(Offsets::I64(&[3, 5, 9]).items(), 6);
        assert_eq!(Offsets::Fixed { width: 3, rows: 4 }.items(), 12);
        assert_eq!((Offsets::I32(&[]).items(), Offsets::I64(&[7, 2]).items()), (0, 0));
    }
}
