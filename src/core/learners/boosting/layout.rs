//! How a group's codes are stored: columns of bytes, and the words of sparse features.
//!
//! A sparse feature's most frequent code, its default, is not stored: its sums are what those of
//! the other codes leave of the node's. Each other code has a *word*, a packed bin, in the order of
//! [`StoragePlan::sparse`]. The rows are in a list (`sparse_features` of a device) or in a column that several
//! features share ([`super::bundling`]):
//!
//! ```text
//! feature 3 (default 1)   1 1 2 1 1 1            bundle   0 0 1 2 0 4
//! feature 5 (default 1)   1 1 1 3 1 5            codes    1: feature 3 = 2
//!                                                         2, 3, 4: feature 5 = 3, 4, 5
//! ```

use crate::quantize::CodedFeature;

/// The codes of a sparse feature that have words: all from `low` on, but the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    pub default: usize,
    /// 1 where code 0 is the default or occurs nowhere.
    pub low: usize,
    pub bins: usize,
}

impl Stored {
    /// Returns the number of words.
    pub fn words(&self) -> usize {
        self.bins - self.low - (self.default >= self.low) as usize
    }

    /// Returns the word of a code that is stored.
    pub fn word(&self, code: usize) -> usize {
        code - self.low - (self.default >= self.low && self.default < code) as usize
    }

    /// Returns the code of a word.
    #[inline(always)]
    pub fn code(&self, word: usize) -> usize {
        let code = word + self.low;
        code + (self.default >= self.low && self.default <= code) as usize
    }
}

/// A feature whose default is not stored.
#[derive(Clone, Debug)]
pub struct SparseFeature {
    /// Counted inside the group.
    pub feature: usize,
    pub stored: Stored,
    /// The first of its words.
    pub word: usize,
    /// The column that it shares, and its first code there; none for an unbundled feature.
    pub column: Option<(usize, usize)>,
}

impl SparseFeature {
    /// Returns the feature's code where the column that it shares has `code`.
    pub fn code_of(&self, code: u8) -> u8 {
        let own = self.column.and_then(|(_, start)| (code as usize).checked_sub(start)).filter(|word| *word < self.stored.words());
        own.map_or(self.stored.default, |word| self.stored.code(word)) as u8
    }

    /// Returns what stands in the column that it shares for one of its codes, which is stored.
    pub fn bundle_code(&self, code: u8) -> u8 {
        (self.column.map_or(0, |(_, start)| start) + self.stored.word(code as usize)) as u8
    }

    /// Its words.
    pub fn words(&self) -> std::ops::Range<usize> {
        self.word..self.word + self.stored.words()
    }
}

/// Where a feature's codes are.
#[derive(Clone, Copy, Debug)]
pub enum Home {
    /// In a column of its own.
    Column(usize),
    /// Index into [`StoragePlan::sparse`].
    Sparse(usize),
}

/// How a group's codes are stored.
pub struct StoragePlan {
    /// Of the columns.
    pub layout: Layout,
    /// The number of codes in each column.
    pub column_codes: Vec<usize>,
    /// Of each feature.
    pub homes: Vec<Home>,
    /// The unbundled features, by their numbers, then the bundled ones, bundle after bundle.
    pub sparse: Vec<SparseFeature>,
    /// How many of `sparse` are unbundled, and their words.
    pub unbundled: usize,
    pub unbundled_words: usize,
    /// Whether a feature has more rows off its default than a packed bin can sum, so that the
    /// words of whole nodes take two numbers each.
    pub wide: bool,
}

impl StoragePlan {
    /// Returns a column for each feature.
    pub fn dense(features: &[CodedFeature], statistics: bool) -> StoragePlan {
        StoragePlan {
            layout: match statistics || features.iter().any(|feature| feature.bins() > NARROW) {
                true => Layout::new(features.len(), statistics),
                false => Layout::narrow(features.len()),
            },
            column_codes: features.iter().map(CodedFeature::bins).collect(),
            homes: (0..features.len()).map(Home::Column).collect(),
            sparse: vec![],
            unbundled: 0,
            unbundled_words: 0,
            wide: false,
        }
    }

    /// Plans the storage of a group with these bundles of features, and these in sparse rows (ascending), by what is stored of each.
    pub fn new(
        features: &[CodedFeature],
        stored: &[Option<Stored>],
        bundles: Vec<Vec<usize>>,
        unbundled: Vec<usize>,
        wide: bool,
    ) -> StoragePlan {
        let mut homes = vec![None; features.len()];
        let (mut sparse, mut word) = (vec![], 0);
        let mut add = |feature: usize, column: Option<(usize, usize)>| {
            let Some(stored) = stored[feature] else { return 0 };
            homes[feature] = Some(Home::Sparse(sparse.len()));
            sparse.push(SparseFeature { feature, stored, word, column });
            word += stored.words();
            stored.words()
        };
        let unbundled_words = unbundled.iter().map(|f| add(*f, None)).sum();
        let dense = features.len() - unbundled.len() - bundles.iter().map(Vec::len).sum::<usize>();
        let mut bundle_codes = vec![];
        for (b, members) in bundles.iter().enumerate() {
            let mut code = 1;
            for f in members {
                code += add(*f, Some((dense + b, code)));
            }
            bundle_codes.push(code);
        }
        let mut column_codes = vec![];
        for (home, feature) in homes.iter_mut().zip(features).filter(|(home, _)| home.is_none()) {
            *home = Some(Home::Column(column_codes.len()));
            column_codes.push(feature.bins());
        }
        column_codes.extend(bundle_codes);
        let homes = homes.into_iter().flatten().collect();
        StoragePlan {
            layout: Layout::new(column_codes.len(), true),
            column_codes,
            homes,
            sparse,
            unbundled: unbundled.len(),
            unbundled_words,
            wide,
        }
    }

    /// Returns the features with columns of their own, ascending, with these.
    pub fn dense_features(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.homes.iter().enumerate().filter_map(|(f, home)| match home {
            Home::Column(column) => Some((f, *column)),
            Home::Sparse(_) => None,
        })
    }

    /// Returns the number of bins in a plane of a partial histogram.
    pub fn partial_bins(&self) -> usize {
        self.layout.blocks.iter().map(|b| b.width * b.bins).sum::<usize>() + self.unbundled_words
    }

    /// Returns the number of words.
    pub fn words(&self) -> usize {
        self.sparse.last().map_or(0, |s| s.words().end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stored_code_has_a_word_of_its_own() {
        for bins in 2..9 {
            for default in 0..bins {
                for low in 0..2 {
                    let stored = Stored { default, low: if default == 0 { 1 } else { low }, bins };
                    let codes: Vec<usize> = (stored.low..bins).filter(|c| *c != default).collect();
                    assert_eq!(stored.words(), codes.len());
                    for (word, code) in codes.into_iter().enumerate() {
                        assert_eq!((stored.word(code), stored.code(word)), (word, code));
                    }
                }
            }
        }
    }
}

/// Bytes of a row's packed statistics in the first block.
pub const STATISTICS: usize = 4;

const FIRST_WIDTH: usize = 32 - STATISTICS;

const WIDTH: usize = 32;

/// Where the codes of each feature of a group lie; the same for every shard. Features are counted
/// inside the group.
#[derive(Clone, Debug)]
pub struct Layout {
    pub blocks: Vec<BlockLayout>,
    /// The codes that the first block has room for.
    first_width: usize,
}

/// A block of neighbouring features.
#[derive(Clone, Debug)]
pub struct BlockLayout {
    /// The first feature and the one behind the last.
    pub features: std::ops::Range<usize>,
    /// Bytes from one row to the next.
    pub stride: usize,
    /// Codes a row that kernels add: the features, rounded up to a multiple of four.
    pub width: usize,
    /// Bins from one feature to the next, more than there are codes: [`STRIDE`], or [`NARROW`] in a group whose features all have so few.
    pub bins: usize,
}

impl Layout {
    /// Lays out `features` features in blocks; `statistics`: rows carry their statistics, as those of group 0 do.
    pub fn new(features: usize, statistics: bool) -> Layout {
        let first_width = if statistics { FIRST_WIDTH } else { WIDTH };
        let first = features.min(first_width);
        let block = |range: std::ops::Range<usize>, room: usize| {
            let width = range.len().next_multiple_of(4).max(4);
            BlockLayout { features: range, stride: (width + room).next_power_of_two(), width, bins: STRIDE }
        };
        let mut blocks = vec![block(0..first, WIDTH - first_width)];
        let mut start = first;
        while start < features {
            let end = features.min(start + WIDTH);
            blocks.push(block(start..end, 0));
            start = end;
        }
        Layout { blocks, first_width }
    }

    /// Lays out features of at most [`NARROW`] codes each, without statistics.
    fn narrow(features: usize) -> Layout {
        let mut layout = Layout::new(features, false);
        layout.blocks.iter_mut().for_each(|block| block.bins = NARROW);
        layout
    }

    /// Returns the block of a feature and the byte inside its row.
    pub fn place(&self, feature: usize) -> (usize, usize) {
        if feature < self.first_width {
            return (0, feature);
        }
        let behind = feature - self.first_width;
        (1 + behind / WIDTH, behind % WIDTH)
    }
}

/// Bins from one feature to the next, where codes are any bytes.
pub const STRIDE: usize = 264;

/// Bins from one feature to the next in groups of features that have no more: statistics of categories, whose histograms of many outputs would
/// lie in pages of which a sixteenth is used.
pub const NARROW: usize = 24;

/// The most rows that a histogram of packed bins can sum exactly.
pub const MAX_ROWS: usize = 65_536;
