//! The codes of a shard's rows, row after row in blocks of features.
//!
//! ```text
//! block 0   | 28 codes ........................ | g h |   32 bytes a row: one cache line serves
//! block 1   | 32 codes .............................. |   two rows, and the row's statistics
//! block 2   | 12 codes .. |                               ride in the first block's line
//! ```
//!
//! The first block is 8, 16 or 32 bytes wide, as few features allow.

use super::buffer::Buffer;
use super::histogram::Ahead;
use super::partition::FeatureCodes;
use std::sync::Arc;
use taiga_core::error::Result;
pub use taiga_core::learners::boosting::layout::{BlockLayout, Layout, STATISTICS};
use taiga_core::pages;
use taiga_core::spill::SpillFolder;

/// One block of a shard's codes.
pub struct CodeBlock {
    pub bytes: Buffer,
    pub stride: usize,
    pub width: usize,
    /// Bins from one feature to the next; all codes are smaller.
    pub bins: usize,
    pub features: std::ops::Range<usize>,
}

impl CodeBlock {
    /// Makes room for `rows` rows, in a file of `spill` where that is given.
    ///
    /// # Errors
    /// [`taiga_core::Error::Memory`]; that of a full disk.
    pub fn new(layout: &BlockLayout, rows: usize, spill: Option<&SpillFolder>) -> Result<CodeBlock> {
        Ok(CodeBlock {
            bytes: Buffer::new(rows * layout.stride, spill)?,
            stride: layout.stride,
            width: layout.width,
            bins: layout.bins,
            features: layout.features.clone(),
        })
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.bytes.as_slice().len() / self.stride
    }

    /// Returns the codes at byte `at` of every row.
    pub fn feature(&self, at: usize) -> FeatureCodes<'_> {
        assert!(at < self.stride);
        FeatureCodes { bytes: self.bytes.as_slice().get(at..).unwrap_or_default(), stride: self.stride }
    }

    /// Returns the bytes of a row that have these features, a multiple of four of them from a multiple of four on.
    pub fn codes_of(&self, features: &std::ops::Range<usize>) -> std::ops::Range<usize> {
        let inside = |feature: usize| feature.clamp(self.features.start, self.features.end) - self.features.start;
        let (start, end) = (inside(features.start), inside(features.end));
        if start < end { start / 4 * 4..end.next_multiple_of(4) } else { 0..0 }
    }

    /// Returns the bytes of these rows, to be asked from memory.
    pub fn ahead(&self, rows: std::ops::Range<usize>) -> Ahead {
        let bytes = self.bytes.as_slice()[rows.start * self.stride..rows.end * self.stride].as_ptr_range();
        Ahead { next: bytes.start, end: bytes.end }
    }

    /// Returns the code of a row at byte `at` of its row.
    #[inline]
    pub fn code(&self, row: usize, at: usize) -> u8 {
        self.bytes.as_slice()[row * self.stride + at]
    }
}

/// A shard's codes once more, feature after feature; shards that have the same rows have them together.
#[derive(Clone)]
pub struct CodeColumns {
    bytes: Arc<Vec<u8>>,
    rows: usize,
}

impl CodeColumns {
    /// Makes room for `features` features of `rows` rows.
    ///
    /// # Errors
    /// [`taiga_core::Error::Memory`].
    pub fn new(features: usize, rows: usize) -> Result<CodeColumns> {
        Ok(CodeColumns { bytes: Arc::new(pages::try_zeroed("the codes of a fit", features * rows)?), rows })
    }

    /// Returns the codes of a feature, row after row.
    #[inline(always)]
    pub fn feature(&self, feature: usize) -> &[u8] {
        &self.bytes[feature * self.rows..(feature + 1) * self.rows]
    }

    /// Returns the codes of several features, one behind the other.
    pub fn features(&self, features: &std::ops::Range<usize>) -> &[u8] {
        &self.bytes[features.start * self.rows..features.end * self.rows]
    }

    /// Returns the codes of several features, one behind the other, to be written.
    pub fn features_mut(&mut self, features: &std::ops::Range<usize>) -> &mut [u8] {
        &mut Arc::make_mut(&mut self.bytes)[features.start * self.rows..features.end * self.rows]
    }

    /// Returns the codes of a feature, to be written.
    pub fn feature_mut(&mut self, feature: usize) -> &mut [u8] {
        &mut Arc::make_mut(&mut self.bytes)[feature * self.rows..(feature + 1) * self.rows]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_has_a_place_of_its_own() {
        for features in [1, 4, 5, 12, 13, 28, 29, 32, 33, 60, 61, 200] {
            for statistics in [true, false] {
                let layout = Layout::new(features, statistics);
                let mut seen = std::collections::HashSet::new();
                for f in 0..features {
                    let (b, at) = layout.place(f);
                    assert!(layout.blocks[b].features.contains(&f));
                    assert_eq!(at, f - layout.blocks[b].features.start);
                    assert!(at < layout.blocks[b].stride - if b == 0 && statistics { STATISTICS } else { 0 });
                    assert!(seen.insert((b, at)));
                }
            }
        }
    }
}
