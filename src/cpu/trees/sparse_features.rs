//! The features of a shard that are stored in sparse rows: values off the defaults alone, by row and by feature.
//!
//! ```text
//! by row        starts | 0 2 2 5 …          words  | 7 19 | | 7 8 40 | …     for histograms
//! by feature    starts | 0 3 9 …            rows   | 0 2 11 | 0 4 …          for partitioning
//!                                           codes  | 2 2  3 | 5 1 …
//! ```

use super::gradient_quantizer::BATCH;
use super::histogram::{RowSelection, expand, prefetch_near};
use super::partition::{CodeTest, FeatureCodes};
use taiga_core::learners::boosting::layout::{StoragePlan, Stored};
use taiga_core::quantize::exceptions::Exceptions;

/// How many rows ahead words are prefetched.
const AHEAD: usize = 16;

/// Words of rows, as small as they fit.
enum RowWords {
    Short(Vec<u16>),
    Long(Vec<u32>),
}

/// The features of a shard that are stored in sparse rows.
pub struct SparseFeatures {
    starts: Vec<u32>,
    words: RowWords,
    /// The number of words there are.
    most: usize,
    column_starts: Vec<usize>,
    rows: Vec<u32>,
    codes: Vec<u8>,
    stored: Vec<Stored>,
    /// A byte a row: whether it goes elsewhere than the default. Zero between uses.
    flags: Vec<u8>,
    flagged: Vec<u32>,
}

/// The places of the table's rows in a shard: batches of [`BATCH`] rows.
pub struct LocalRows(Vec<u32>);

const ELSEWHERE: u32 = u32::MAX;

impl LocalRows {
    /// Describes shard `index` of `shards`, of a table of `rows` rows.
    pub fn new(rows: usize, index: usize, shards: usize) -> LocalRows {
        let first = |b: usize| if b % shards == index { (b / shards * BATCH) as u32 } else { ELSEWHERE };
        LocalRows((0..rows.div_ceil(BATCH)).map(first).collect())
    }

    /// Returns the shard's row of a row of the table.
    #[inline(always)]
    pub fn get(&self, row: u32) -> Option<u32> {
        let first = self.0[row as usize / BATCH];
        (first != ELSEWHERE).then(|| first + row % BATCH as u32)
    }
}

impl SparseFeatures {
    /// Collects the values off the defaults of the features that `plan` stores in sparse rows, for a shard of `rows` rows.
    pub fn new(plan: &StoragePlan, exceptions: &[Option<Exceptions>], local: &LocalRows, rows: usize) -> SparseFeatures {
        let unbundled = &plan.sparse[..plan.unbundled];
        let mut s = SparseFeatures {
            starts: vec![0; rows + 1],
            words: RowWords::Short(vec![]),
            most: plan.unbundled_words,
            column_starts: vec![0],
            rows: vec![],
            codes: vec![],
            stored: unbundled.iter().map(|f| f.stored).collect(),
            flags: vec![0; rows],
            flagged: vec![],
        };
        for e in unbundled.iter().filter_map(|f| exceptions[f.feature].as_ref()) {
            for (row, code) in e.rows.iter().zip(&e.codes) {
                if let Some(row) = local.get(*row) {
                    s.rows.push(row);
                    s.codes.push(*code);
                    s.starts[row as usize + 1] += 1;
                }
            }
            s.column_starts.push(s.rows.len());
        }
        for row in 0..rows {
            s.starts[row + 1] += s.starts[row];
        }
        let mut next = s.starts[..rows].to_vec();
        let mut place = |write: &mut dyn FnMut(usize, usize)| {
            for (k, f) in unbundled.iter().enumerate() {
                for at in s.column_starts[k]..s.column_starts[k + 1] {
                    let next = &mut next[s.rows[at] as usize];
                    write(*next as usize, f.word + f.stored.word(s.codes[at] as usize));
                    *next += 1;
                }
            }
        };
        s.words = if s.most <= 1 << 16 {
            let mut words = vec![0u16; s.rows.len()];
            place(&mut |at, word| words[at] = word as u16);
            RowWords::Short(words)
        } else {
            let mut words = vec![0u32; s.rows.len()];
            place(&mut |at, word| words[at] = word as u32);
            RowWords::Long(words)
        };
        s
    }

    /// Adds the statistics of `rows` to the words of their values. `statistics`: by row of the
    /// shard; none: 1 each.
    ///
    /// # Panics
    /// When a slice is too short, or a row is not one of the shard's.
    pub fn add(&self, rows: RowSelection<'_>, statistics: Option<&[u32]>, bins: &mut [u64]) {
        assert!(bins.len() >= self.most && statistics.is_none_or(|s| s.len() + 1 == self.starts.len()));
        match &self.words {
            RowWords::Short(words) => add(&self.starts, words, rows, statistics, bins),
            RowWords::Long(words) => add(&self.starts, words, rows, statistics, bins),
        }
    }

    fn column(&self, feature: usize) -> (&[u32], &[u8]) {
        let range = self.column_starts[feature]..self.column_starts[feature + 1];
        (&self.rows[range.clone()], &self.codes[range])
    }

    /// Returns the code of a row; `feature` counts the unbundled ones.
    pub fn code(&self, feature: usize, row: usize) -> u8 {
        let (rows, codes) = self.column(feature);
        rows.binary_search(&(row as u32)).map_or(self.stored[feature].default as u8, |at| codes[at])
    }

    /// Flags the rows of a node that `test` sends elsewhere than the default of a feature; returns the test of the flags.
    /// [`SparseFeatures::clear`] takes them away again.
    pub fn flag(&mut self, feature: usize, test: CodeTest, node: Option<&[u32]>) -> CodeTest {
        let range = self.column_starts[feature]..self.column_starts[feature + 1];
        let (rows, codes) = (&self.rows[range.clone()], &self.codes[range]);
        let right = test.right(self.stored[feature].default as u8);
        let mut flag = |row: u32, code: u8| {
            if test.right(code) != right {
                self.flags[row as usize] = 1;
                self.flagged.push(row);
            }
        };
        match node {
            // Few rows look for their values, many are looked for.
            Some(node) if node.len() * 8 < rows.len() => {
                for row in node {
                    if let Ok(at) = rows.binary_search(row) {
                        flag(*row, codes[at]);
                    }
                }
            }
            _ => rows.iter().zip(codes).for_each(|(row, code)| flag(*row, *code)),
        }
        CodeTest::of(|code| (code == 1) != right)
    }

    /// Returns the flags, to part rows by.
    pub fn flags(&self) -> FeatureCodes<'_> {
        FeatureCodes { bytes: &self.flags, stride: 1 }
    }

    /// Sets the flags to zero again.
    pub fn clear(&mut self) {
        for row in self.flagged.drain(..) {
            self.flags[row as usize] = 0;
        }
    }
}

/// See [`SparseFeatures::add`].
fn add<W: Copy + Into<u32>>(starts: &[u32], words: &[W], rows: RowSelection<'_>, statistics: Option<&[u32]>, bins: &mut [u64]) {
    let of_row = |row: usize, bins: &mut [u64]| {
        let addend = expand(statistics.map_or(1, |s| s[row]));
        let own = &words[starts[row] as usize..starts[row + 1] as usize];
        for word in own {
            let word: u32 = (*word).into();
            debug_assert!((word as usize) < bins.len());
            // SAFETY: every word is smaller than `most` (they come from the plan), which the caller
            // has checked `bins` to cover.
            let bin = unsafe { bins.get_unchecked_mut(word as usize) };
            *bin = bin.wrapping_add(addend);
        }
    };
    match rows {
        RowSelection::Range(first, len) => (first..first + len).for_each(|row| of_row(row, bins)),
        RowSelection::List(list, len) => {
            for i in 0..len {
                if let Some(row) = list.get(i + AHEAD) {
                    prefetch_near(words.as_ptr().wrapping_add(starts[*row as usize] as usize) as *const u8);
                }
                of_row(list[i] as usize, bins);
            }
        }
    }
}
