//! Features as the learners see them: borders, and where codes come from.

use crate::column::Column;
use serde::{Deserialize, Serialize};

/// A feature and the borders that its codes are made with.
#[derive(Clone, Debug)]
pub struct CodedFeature {
    /// Ascending; 1 to 255 of them.
    pub borders: Vec<f64>,
    /// Whether code 0 is kept for missing values, so that values start at code 1. Always, but for
    /// a feature with 255 borders and no missing value.
    pub missing_bin: bool,
    /// Whether codes are categories, which a node is divided by in subsets: code 0 stands for rare
    /// and unknown ones, and borders only count the others.
    pub categories: bool,
}

/// A set of codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CodeSet([u64; 4]);

impl CodeSet {
    /// Returns the set of the codes whose bits are set, 64 a word.
    pub fn from_words(words: [u64; 4]) -> Self {
        CodeSet(words)
    }

    /// Returns the bits of all codes, 64 a word.
    pub fn words(&self) -> [u64; 4] {
        self.0
    }

    /// Adds a code.
    pub fn insert(&mut self, code: u8) {
        self.0[code as usize / 64] |= 1 << (code % 64);
    }

    /// Returns whether a code is in it.
    #[inline(always)]
    pub fn contains(&self, code: u8) -> bool {
        self.0[code as usize / 64] >> (code % 64) & 1 == 1
    }
}

impl CodedFeature {
    /// Returns the code of the smallest values.
    pub fn first(&self) -> usize {
        self.missing_bin as usize
    }

    /// Returns the number of codes: one more than borders, and the missing values'.
    pub fn bins(&self) -> usize {
        self.borders.len() + 1 + self.first()
    }
}

/// The source of a feature's codes: a column's values, or codes that are there.
#[derive(Clone, Copy)]
pub enum CodeSource<'a> {
    /// Values, coded by the feature's borders.
    Values(&'a Column<'a>),
    /// The codes themselves, one for each row.
    Codes(&'a [u8]),
}
