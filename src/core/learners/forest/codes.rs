//! The features of the training table as codes, and views of them.
//!
//! ```text
//! histogram   code 0: missing (or a rare category), then the bins between borders; one byte
//! exact       code 0: missing, then the ranks of the feature's distinct values; four bytes
//! random      as exact
//! ```
//!
//! Codes lie feature after feature. A node of few rows has them copied together ([`LocalCodes`]), so that
//! the whole tree below it is grown in the first caches; under `exact` ranks are numbered anew there,
//! among the values that occur. Codes of one byte lie row after row too, to be copied from.

use super::params::Splitter;
use crate::column::categories::Categories;
use crate::pages::{self, Zero};

/// A code of a row.
pub trait Code: Zero + Send + Sync + 'static {
    /// What codes become where few rows are copied together.
    type LocalCode: Code;
    fn index(self) -> usize;
    fn from_index(index: usize) -> Self;
}

macro_rules! code {
    ($code:ty, $local:ty) => {
        impl Code for $code {
            type LocalCode = $local;
            #[inline(always)]
            fn index(self) -> usize {
                self as usize
            }
            #[inline(always)]
            fn from_index(index: usize) -> Self {
                index as $code
            }
        }
    };
}
code!(u8, u8);
code!(u16, u16);
code!(u32, u16);

/// A rank that stays as it is where few rows are copied together: `random` looks at each value but
/// twice, which numbering them anew would cost more than it saves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank(u32);

impl Zero for Rank {
    const ZERO: Self = Rank(0);
}

impl Code for Rank {
    type LocalCode = Rank;
    #[inline(always)]
    fn index(self) -> usize {
        self.0 as usize
    }
    #[inline(always)]
    fn from_index(index: usize) -> Self {
        Rank(index as u32)
    }
}

/// What the codes of a feature stand for.
#[derive(Clone, Debug)]
pub enum Meaning {
    /// Bins between ascending borders.
    Bins(Vec<f64>),
    /// Distinct values, ascending.
    Values(Vec<f64>),
    /// Categories that are frequent enough, code `1 + c` for category `c`.
    Categories(Categories),
}

/// A feature.
#[derive(Clone, Debug)]
pub struct Coded {
    pub meaning: Meaning,
    /// The code of the smallest values: 1, but for a feature of 255 borders without missing values.
    pub first: usize,
}

impl Coded {
    /// Returns the number of codes.
    pub fn bins(&self) -> usize {
        self.first
            + match &self.meaning {
                Meaning::Bins(borders) => borders.len() + 1,
                Meaning::Values(values) => values.len(),
                Meaning::Categories(categories) => categories.len(),
            }
    }

    pub fn is_categorical(&self) -> bool {
        matches!(self.meaning, Meaning::Categories(_))
    }
}

/// Codes of some rows.
#[derive(Clone, Copy)]
pub struct View<'a, C> {
    pub features: &'a [Coded],
    pub splitter: Splitter,
    /// Feature after feature.
    pub codes: &'a [C],
    /// Row after row, where they lie so too.
    pub by_row: &'a [C],
    /// Rows a feature.
    pub stride: usize,
    /// Where codes were numbered anew: of each feature where its table begins, and what each code was.
    pub decode: Option<(&'a [usize], &'a [u32])>,
}

impl<'a, C: Code> View<'a, C> {
    /// Returns the codes of a feature.
    #[inline(always)]
    pub fn feature(&self, feature: usize) -> &'a [C] {
        &self.codes[feature * self.stride..][..self.stride]
    }

    /// Returns the number of codes that a feature may have here.
    pub fn bins(&self, feature: usize) -> usize {
        match self.decode {
            Some((starts, _)) => starts[feature + 1] - starts[feature],
            None => self.features[feature].bins(),
        }
    }

    /// Returns a code as the whole table has it.
    #[inline(always)]
    pub fn global(&self, feature: usize, code: usize) -> usize {
        match self.decode {
            Some((starts, codes)) => codes[starts[feature] + code] as usize,
            None => code,
        }
    }
}

/// The most rows whose codes are copied together, and the most whose codes are numbered anew: those fit two bytes, and
/// the bins of as many the second cache.
const MOST_COPIED: usize = 1 << 14;
const MOST_RANKED: usize = 1 << 13;

/// Bytes of codes that are copied together: half of a common second cache.
const LOCAL_BYTES: usize = 1 << 19;

/// Returns the most rows of a node whose codes are copied together.
pub fn local_rows<C: Code>(features: usize) -> usize {
    let fit = LOCAL_BYTES / (features.max(1) * size_of::<C::LocalCode>());
    let most = if size_of::<C>() == size_of::<C::LocalCode>() { MOST_COPIED } else { MOST_RANKED };
    fit.clamp(512, most)
}

/// Codes of few rows, copied together.
pub struct LocalCodes<L> {
    codes: Vec<L>,
    starts: Vec<usize>,
    decode: Vec<u32>,
    /// A bit for each code that occurs, and of each word of 64 how many codes are below it.
    marks: Vec<u64>,
    below: Vec<u32>,
}

impl<L> Default for LocalCodes<L> {
    fn default() -> Self {
        LocalCodes { codes: vec![], starts: vec![], decode: vec![], marks: vec![], below: vec![] }
    }
}

impl<L: Code> LocalCodes<L> {
    /// Copies the codes of `rows` (ascending), which are then rows 0, 1, …
    pub fn gather<'l, C: Code<LocalCode = L>>(
        &'l mut self,
        view: &View<'l, C>,
        rows: impl ExactSizeIterator<Item = u32> + Clone,
    ) -> View<'l, L> {
        let (n, features) = (rows.len(), view.features.len());
        if self.codes.len() < n * features {
            self.codes = pages::filled(L::ZERO, n * features);
        }
        if !view.by_row.is_empty() {
            copy_rows(view.by_row, features, rows, n, &mut self.codes[..n * features]);
            let codes = &self.codes[..n * features];
            return View { features: view.features, splitter: view.splitter, codes, by_row: &[], stride: n, decode: None };
        }
        let renumbered = size_of::<C>() != size_of::<L>();
        self.starts.clear();
        self.decode.clear();
        for feature in 0..features {
            let from = view.feature(feature);
            let out = &mut self.codes[feature * n..(feature + 1) * n];
            if renumbered {
                self.starts.push(self.decode.len());
                renumber(from, rows.clone(), view.features[feature].bins(), out, &mut self.decode, &mut self.marks, &mut self.below);
            } else {
                out.iter_mut().zip(rows.clone()).for_each(|(out, row)| *out = L::from_index(from[row as usize].index()));
            }
        }
        self.starts.push(self.decode.len());
        let decode = renumbered.then_some((self.starts.as_slice(), self.decode.as_slice()));
        let codes = &self.codes[..n * features];
        View { features: view.features, splitter: view.splitter, codes, by_row: &[], stride: n, decode }
    }
}

/// Writes the codes of `rows` (`n` of them) feature after feature. Eight rows at a time, so that the memory's answers overlap.
fn copy_rows<C: Code, L: Code>(by_row: &[C], features: usize, mut rows: impl Iterator<Item = u32>, n: usize, out: &mut [L]) {
    const SIDE: usize = 8;
    for start in (0..n).step_by(SIDE) {
        let count = SIDE.min(n - start);
        let mut from: [&[C]; SIDE] = [&[]; SIDE];
        for (from, row) in from.iter_mut().zip(rows.by_ref().take(count)) {
            *from = &by_row[row as usize * features..][..features];
        }
        if count == SIDE {
            for (f, out) in out.chunks_exact_mut(n).enumerate() {
                let codes = from.map(|row| L::from_index(row[f].index()));
                out[start..start + SIDE].copy_from_slice(&codes);
            }
        } else {
            for (f, out) in out.chunks_exact_mut(n).enumerate() {
                out[start..].iter_mut().zip(&from).for_each(|(out, row)| *out = L::from_index(row[f].index()));
            }
        }
    }
}

/// Numbers the codes of `rows` anew: 0 stays, the others get 1, 2, … in their order.
fn renumber<C: Code, L: Code>(
    from: &[C],
    rows: impl Iterator<Item = u32> + Clone,
    bins: usize,
    out: &mut [L],
    decode: &mut Vec<u32>,
    marks: &mut Vec<u64>,
    below: &mut Vec<u32>,
) {
    marks.resize(bins.div_ceil(64).max(marks.len()), 0);
    below.resize(marks.len(), 0);
    marks[0] = 1;
    for row in rows.clone() {
        let code = from[row as usize].index();
        marks[code / 64] |= 1 << (code % 64);
    }
    let mut count = 0;
    for (w, word) in marks[..bins.div_ceil(64)].iter().enumerate() {
        below[w] = count;
        let mut rest = *word;
        while rest != 0 {
            decode.push((w * 64) as u32 + rest.trailing_zeros());
            rest &= rest - 1;
        }
        count += word.count_ones();
    }
    for (out, row) in out.iter_mut().zip(rows) {
        let code = from[row as usize].index();
        let lower = marks[code / 64] & ((1 << (code % 64)) - 1);
        *out = L::from_index((below[code / 64] + lower.count_ones()) as usize);
    }
    marks[..bins.div_ceil(64)].fill(0);
}
