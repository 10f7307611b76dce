//! Sparse rows as the learner reads them: feature numbers of 32 bits and values of f32, borrowed from Arrow wherever they are
//! that already.

mod part;
mod reader;

use self::part::{Part, check_offsets, take};
use self::reader::PieceReader;
use super::rows::{Items, ListChunk, SparseRows};
use crate::collective::fault;
use crate::column::Values;
use crate::dataset::own_rows::BlockMoves;
use crate::error::{Error, Result};
use crate::memory;
use crate::memory::Reservation;
use crate::parallel::thread_pool::ThreadPool;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::ops::Range;

/// Feature numbers.
pub enum FeatureNumbers<'a> {
    Narrow(Cow<'a, [u32]>),
    /// Where one of them takes more than 32 bits.
    Wide(Vec<u64>),
}

/// Where the rows of a piece lie among its entries; offsets count from `base`.
pub enum Starts<'a> {
    I32(&'a [i32]),
    I64(&'a [i64]),
    Fixed { width: usize, rows: usize },
    Owned(Vec<usize>),
}

/// Consecutive rows.
pub struct Piece<'a> {
    starts: Starts<'a>,
    base: usize,
    pub keys: FeatureNumbers<'a>,
    pub values: Option<Cow<'a, [f32]>>,
    /// The largest feature number.
    largest: u64,
}

impl Piece<'_> {
    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        match &self.starts {
            Starts::I32(o) => o.len() - 1,
            Starts::I64(o) => o.len() - 1,
            Starts::Fixed { rows, .. } => *rows,
            Starts::Owned(o) => o.len() - 1,
        }
    }

    /// Returns the entries of row `i`.
    #[inline(always)]
    pub fn span(&self, i: usize) -> Range<usize> {
        match &self.starts {
            Starts::I32(o) => o[i] as usize - self.base..o[i + 1] as usize - self.base,
            Starts::I64(o) => o[i] as usize - self.base..o[i + 1] as usize - self.base,
            Starts::Fixed { width, .. } => i * width..(i + 1) * width,
            Starts::Owned(o) => o[i]..o[i + 1],
        }
    }

    /// Returns the rows from row `first` on, of which there are some.
    fn behind(self, first: usize) -> Self {
        let at = self.span(first).start;
        fn rest<'a, T: Clone>(items: Cow<'a, [T]>, at: usize) -> Cow<'a, [T]> {
            match items {
                Cow::Borrowed(items) => Cow::Borrowed(&items[at..]),
                Cow::Owned(items) => Cow::Owned(items[at..].to_vec()),
            }
        }
        let (starts, base) = match self.starts {
            Starts::I32(o) => (Starts::I32(&o[first..]), self.base + at),
            Starts::I64(o) => (Starts::I64(&o[first..]), self.base + at),
            Starts::Fixed { width, rows } => (Starts::Fixed { width, rows: rows - first }, self.base),
            Starts::Owned(o) => (Starts::Owned(o[first..].iter().map(|start| start - at).collect()), self.base),
        };
        let keys = match self.keys {
            FeatureNumbers::Narrow(keys) => FeatureNumbers::Narrow(rest(keys, at)),
            FeatureNumbers::Wide(keys) => FeatureNumbers::Wide(keys[at..].to_vec()),
        };
        Piece { starts, base, keys, values: self.values.map(|values| rest(values, at)), largest: self.largest }
    }

    /// Returns some of the rows.
    fn part(&self, rows: &Range<usize>) -> Piece<'_> {
        let entries = if rows.is_empty() { 0..0 } else { self.span(rows.start).start..self.span(rows.end - 1).end };
        let offsets = rows.start..rows.end + 1;
        let (starts, base) = match &self.starts {
            Starts::I32(o) => (Starts::I32(&o[offsets]), self.base + entries.start),
            Starts::I64(o) => (Starts::I64(&o[offsets]), self.base + entries.start),
            Starts::Fixed { width, .. } => (Starts::Fixed { width: *width, rows: rows.len() }, self.base),
            Starts::Owned(o) => (Starts::Owned(o[offsets].iter().map(|start| start - entries.start).collect()), self.base),
        };
        let keys = match &self.keys {
            FeatureNumbers::Narrow(keys) => FeatureNumbers::Narrow(Cow::Borrowed(&keys[entries.clone()])),
            FeatureNumbers::Wide(keys) => FeatureNumbers::Wide(keys[entries.clone()].to_vec()),
        };
        let values = self.values.as_ref().map(|values| Cow::Borrowed(&values[entries]));
        Piece { starts, base, keys, values, largest: self.largest }
    }

    /// Returns the rows that another process has sent; none where they are none.
    fn of_sent(SentRows { lengths, keys, values }: SentRows) -> Option<Piece<'static>> {
        let mut starts = vec![0usize];
        for length in lengths {
            starts.push(starts.last()?.checked_add(length as usize)?);
        }
        if starts.last() != Some(&keys.len()) || values.as_ref().is_some_and(|values| values.len() != keys.len()) {
            return None;
        }
        let largest = keys.iter().copied().max().unwrap_or(0);
        let narrow = || keys.iter().map(|key| *key as u32).collect();
        let keys = if largest <= u32::MAX.into() { FeatureNumbers::Narrow(Cow::Owned(narrow())) } else { FeatureNumbers::Wide(keys) };
        Some(Piece { starts: Starts::Owned(starts), base: 0, keys, values: values.map(Cow::Owned), largest })
    }

    /// Returns the number of entries.
    pub fn entries(&self) -> usize {
        match &self.keys {
            FeatureNumbers::Narrow(k) => k.len(),
            FeatureNumbers::Wide(k) => k.len(),
        }
    }
}

/// Rows as one process sends them to another.
#[derive(Default, Serialize, Deserialize)]
struct SentRows {
    lengths: Vec<u32>,
    keys: Vec<u64>,
    values: Option<Vec<f32>>,
}

/// The (feature, value) entries of a row; without values each is 1.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    pub keys: &'a [u32],
    pub values: Option<&'a [f32]>,
}

/// Rows of entries: a matrix in compressed sparse rows, in pieces.
pub struct Csr<'a> {
    pub pieces: Vec<Piece<'a>>,
    /// The first row of each piece, and the number of rows behind them.
    firsts: Vec<usize>,
    /// The same of entries.
    bases: Vec<usize>,
}

/// Reserves what is made of the entries that can't be borrowed as they are: numbers of 32 bits, and values of f32.
fn reserve(sparse: &SparseRows<'_>) -> Result<Reservation> {
    let of = |chunk: &ListChunk<'_>, borrowed: fn(&Values<'_>) -> bool| match &chunk.items {
        Items::Numbers(items) if borrowed(&items.values()) => 0,
        Items::Hashed(_) => 0,
        _ => 4 * chunk.offsets.items().min(chunk.items.len()) as u64,
    };
    let numbers = sparse.features.chunks.iter().map(|c| of(c, |v| matches!(v, Values::U32(_) | Values::I32(_))));
    let values = sparse.values.iter().flat_map(|v| &v.chunks).map(|c| of(c, |v| matches!(v, Values::F32(_))));
    let bytes = numbers.chain(values).fold(0, u64::saturating_add);
    memory::reserve(&format!("the entries of `{}`", sparse.features.name), bytes, "use List(UInt32) with List(Float32), or fewer rows")
}

impl<'a> Csr<'a> {
    /// Reads `sparse`, whose strings are hashed to `hash_bits`.
    ///
    /// # Errors
    /// For everything that [`SparseRows`] calls an error, but for numbers beyond a limit.
    pub fn new(sparse: &SparseRows<'a>, hash_bits: Option<u32>, pool: &ThreadPool) -> Result<Csr<'a>> {
        Csr::of_batch(sparse, 0, hash_bits, pool)
    }

    /// Reads rows of a table as [`Csr::new`] does, of which `first` is the first: errors tell rows by their numbers in the table.
    ///
    /// # Errors
    /// As [`Csr::new`].
    pub fn of_batch(sparse: &SparseRows<'a>, first: usize, hash_bits: Option<u32>, pool: &ThreadPool) -> Result<Csr<'a>> {
        let (features, values) = (&sparse.features, sparse.values.as_ref());
        if let Some(v) = values
            && v.len() != features.len()
        {
            return Err(Error::column(&v.name, format!("has {} rows where `{}` has {}", v.len(), features.name, features.len())));
        }
        let mut csr = Csr { pieces: vec![], firsts: vec![0], bases: vec![0] };
        for column in [Some(features), values].into_iter().flatten() {
            check_offsets(column)?;
        }
        let _reserved = reserve(sparse)?;
        let mut of_values = values.map(|v| v.chunks.iter().map(|c| Part { chunk: *c, rows: 0..c.offsets.rows() }).collect::<Vec<_>>());
        if let Some(parts) = &mut of_values {
            parts.reverse();
        }
        for chunk in &features.chunks {
            let mut rest = 0..chunk.offsets.rows();
            while !rest.is_empty() {
                // As many rows as lie in one chunk of either column.
                let mut part = Part { chunk: *chunk, rows: rest.clone() };
                let beside = of_values.as_mut().and_then(|parts| take(parts, &mut part.rows));
                rest.start = part.rows.end;
                let reader = PieceReader { features, values, first: first + csr.rows(), pool };
                csr.push(reader.piece(&part, beside.as_ref(), hash_bits)?);
            }
        }
        Ok(csr)
    }

    /// Returns the rows that this process has after others have sent it those that continue its blocks, and it has sent its first ones.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn moved(self, moves: &BlockMoves<'_>) -> Result<Csr<'a>> {
        if moves.own.is_whole() {
            return Ok(self);
        }
        let sent = if moves.given == 0 { vec![] } else { self.sent(moves.given)? };
        let mut csr = Csr { pieces: vec![], firsts: vec![0], bases: vec![0] };
        let mut given = moves.given;
        for piece in self.pieces {
            let first = given.min(piece.rows());
            given -= first;
            if first < piece.rows() {
                csr.push(piece.behind(first));
            }
        }
        for bytes in moves.exchange(&sent)?.iter().filter(|bytes| !bytes.is_empty()) {
            let rows = postcard::from_bytes(bytes).ok().and_then(Piece::of_sent);
            csr.push(rows.ok_or_else(|| fault("a process sends rows that can't be read"))?);
        }
        Ok(csr)
    }

    /// Returns some of the rows.
    pub fn part(&self, rows: Range<usize>) -> Csr<'_> {
        let mut csr = Csr { pieces: vec![], firsts: vec![0], bases: vec![0] };
        for (piece, first) in self.pieces.iter().zip(&self.firsts) {
            let inside = |row: usize| row.clamp(*first, first + piece.rows()) - first;
            let own = inside(rows.start)..inside(rows.end);
            if !own.is_empty() {
                csr.push(piece.part(&own));
            }
        }
        csr
    }

    /// Returns the first rows as bytes.
    fn sent(&self, rows: usize) -> Result<Vec<u8>> {
        let mut sent = SentRows { values: self.has_values().then(Vec::new), ..SentRows::default() };
        let mut left = rows;
        for piece in &self.pieces {
            let rows = left.min(piece.rows());
            left -= rows;
            for span in (0..rows).map(|i| piece.span(i)) {
                sent.lengths.push(span.len() as u32);
                match &piece.keys {
                    FeatureNumbers::Narrow(keys) => sent.keys.extend(keys[span.clone()].iter().map(|key| u64::from(*key))),
                    FeatureNumbers::Wide(keys) => sent.keys.extend_from_slice(&keys[span.clone()]),
                }
                if let (Some(out), Some(values)) = (&mut sent.values, &piece.values) {
                    out.extend_from_slice(&values[span]);
                }
            }
        }
        postcard::to_allocvec(&sent).map_err(|error| fault(error.to_string()))
    }

    fn push(&mut self, piece: Piece<'a>) {
        self.firsts.push(self.rows() + piece.rows());
        self.bases.push(self.entries() + piece.entries());
        self.pieces.push(piece);
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.firsts[self.firsts.len() - 1]
    }

    /// Returns the number of entries.
    pub fn entries(&self) -> usize {
        self.bases[self.bases.len() - 1]
    }

    /// Returns the number of entries of the rows before row `i`.
    pub fn entries_before(&self, i: usize) -> usize {
        if i >= self.rows() {
            return self.entries();
        }
        let at = self.piece_of(i);
        self.bases[at] + self.pieces[at].span(i - self.firsts[at]).start
    }

    /// Calls `visit(entries)` for those from entry `from` on, counted over all rows, piece by piece; features have to be narrow.
    pub fn visit(&self, from: usize, len: usize, mut visit: impl FnMut(Row<'_>)) {
        let (mut at, end) = (from, from + len);
        while at < end {
            let piece = self.bases.partition_point(|b| *b <= at) - 1;
            let inside = at - self.bases[piece]..end.min(self.bases[piece + 1]) - self.bases[piece];
            at += inside.len();
            let piece = &self.pieces[piece];
            if let FeatureNumbers::Narrow(keys) = &piece.keys {
                visit(Row { keys: &keys[inside.clone()], values: piece.values.as_deref().map(|v| &v[inside]) });
            }
        }
    }

    #[inline(always)]
    fn piece_of(&self, i: usize) -> usize {
        if self.pieces.len() == 1 { 0 } else { self.firsts.partition_point(|f| *f <= i) - 1 }
    }

    /// Returns row `i`; its features have to be narrow.
    #[inline(always)]
    pub fn row(&self, i: usize) -> Row<'_> {
        let at = self.piece_of(i);
        let (piece, i) = (&self.pieces[at], i - self.firsts[at]);
        let span = piece.span(i);
        match &piece.keys {
            FeatureNumbers::Narrow(keys) => Row { keys: &keys[span.clone()], values: piece.values.as_deref().map(|v| &v[span]) },
            FeatureNumbers::Wide(_) => Row { keys: &[], values: None },
        }
    }

    /// Finds the first row with a feature of which `bad` holds, and that feature.
    pub fn find(&self, bad: impl Fn(u64) -> bool) -> Option<(usize, u64)> {
        self.pieces.iter().zip(&self.firsts).find_map(|(piece, first)| {
            (0..piece.rows()).find_map(|i| {
                let found = match &piece.keys {
                    FeatureNumbers::Narrow(k) => k[piece.span(i)].iter().map(|k| *k as u64).find(|k| bad(*k)),
                    FeatureNumbers::Wide(k) => k[piece.span(i)].iter().copied().find(|k| bad(*k)),
                };
                found.map(|k| (first + i, k))
            })
        })
    }

    /// Finds the first row with a value of which `bad` holds, and that value.
    pub fn find_value(&self, bad: impl Fn(f64) -> bool) -> Option<(usize, f64)> {
        self.pieces.iter().zip(&self.firsts).find_map(|(piece, first)| {
            let values = piece.values.as_ref()?;
            if !values.iter().any(|x| bad(*x as f64)) {
                return None;
            }
            (0..piece.rows()).find_map(|i| {
                let found = values[piece.span(i)].iter().map(|x| *x as f64).find(|x| bad(*x));
                found.map(|x| (first + i, x))
            })
        })
    }
}

impl Csr<'_> {
    /// Returns the largest feature number; none where there are no entries.
    pub fn largest(&self) -> Option<u64> {
        self.pieces.iter().filter(|p| p.entries() > 0).map(|p| p.largest).max()
    }

    /// Returns whether all values are 1, as they are where there are none.
    pub fn has_only_ones(&self) -> bool {
        self.pieces.iter().all(|p| p.values.as_deref().is_none_or(|v| v.iter().all(|x| *x == 1.0)))
    }

    /// Forgets the values.
    pub fn forget_values(&mut self) {
        self.pieces.iter_mut().for_each(|p| p.values = None);
    }

    /// Returns whether entries have values.
    pub fn has_values(&self) -> bool {
        self.pieces.iter().any(|p| p.values.is_some())
    }
}
