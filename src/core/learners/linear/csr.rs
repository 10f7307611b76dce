//! Sparse rows as the learner reads them: feature numbers of 32 bits and values of f32, borrowed from Arrow wherever they are
//! that already.

use super::rows::{Items, ListChunk, ListColumn, Offsets, SparseRows};
use super::vectors::each;
use crate::column::{Bits, Chunk, Column, FeatureType, Values};
use crate::error::{Error, Result};
use crate::memory::Reservation;
use crate::pages::Zero;
use crate::parallel::thread_pool::ThreadPool;
use crate::{memory, pages};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Mutex;
use xxhash_rust::xxh3::xxh3_64;

/// Items that a thread reads at a time.
const BLOCK: usize = 1 << 16;

/// A null string; no hash of 30 bits is that.
const NULL: u32 = u32::MAX;

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
    /// The number of rows.
    pub fn rows(&self) -> usize {
        match &self.starts {
            Starts::I32(o) => o.len() - 1,
            Starts::I64(o) => o.len() - 1,
            Starts::Fixed { rows, .. } => *rows,
            Starts::Owned(o) => o.len() - 1,
        }
    }

    /// The entries of row `i`.
    #[inline(always)]
    pub fn span(&self, i: usize) -> Range<usize> {
        match &self.starts {
            Starts::I32(o) => o[i] as usize - self.base..o[i + 1] as usize - self.base,
            Starts::I64(o) => o[i] as usize - self.base..o[i + 1] as usize - self.base,
            Starts::Fixed { width, .. } => i * width..(i + 1) * width,
            Starts::Owned(o) => o[i]..o[i + 1],
        }
    }

    /// The number of entries.
    pub fn entries(&self) -> usize {
        match &self.keys {
            FeatureNumbers::Narrow(k) => k.len(),
            FeatureNumbers::Wide(k) => k.len(),
        }
    }
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
                let reader = PieceReader { features, values, first: csr.rows(), pool };
                csr.push(reader.piece(&part, beside.as_ref(), hash_bits)?);
            }
        }
        Ok(csr)
    }

    fn push(&mut self, piece: Piece<'a>) {
        self.firsts.push(self.rows() + piece.rows());
        self.bases.push(self.entries() + piece.entries());
        self.pieces.push(piece);
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.firsts[self.firsts.len() - 1]
    }

    /// The number of entries.
    pub fn entries(&self) -> usize {
        self.bases[self.bases.len() - 1]
    }

    /// The number of entries of the rows before row `i`.
    pub fn entries_before(&self, i: usize) -> usize {
        if i >= self.rows() {
            return self.entries();
        }
        let at = self.piece_of(i);
        self.bases[at] + self.pieces[at].span(i - self.firsts[at]).start
    }

    /// `visit(entries)` for those from entry `from` on, counted over all rows, piece by piece; features have to be narrow.
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

    /// Row `i`; its features have to be narrow.
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

    /// The first row with a feature of which `bad` holds, and that feature.
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

    /// The first row with a value of which `bad` holds, and that value.
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

/// Rows of a chunk.
#[derive(Clone)]
struct Part<'a> {
    chunk: ListChunk<'a>,
    rows: Range<usize>,
}

/// The next rows of the parts (the last one comes first), as many as `rows` has or the part gives; `rows` is cut to as many.
fn take<'a>(parts: &mut Vec<Part<'a>>, rows: &mut Range<usize>) -> Option<Part<'a>> {
    while parts.last().is_some_and(|p| p.rows.is_empty()) {
        parts.pop();
    }
    let part = parts.last_mut()?;
    let n = rows.len().min(part.rows.len());
    rows.end = rows.start + n;
    let taken = Part { chunk: part.chunk, rows: part.rows.start..part.rows.start + n };
    part.rows.start += n;
    Some(taken)
}

impl Part<'_> {
    /// The items of row `i`, those that a null row may have included.
    fn slots(&self, i: usize) -> Range<usize> {
        match self.chunk.offsets {
            Offsets::I32(o) => o[i] as usize..o[i + 1] as usize,
            Offsets::I64(o) => o[i] as usize..o[i + 1] as usize,
            Offsets::Fixed { width, .. } => i * width..(i + 1) * width,
        }
    }

    /// The items of row `i`; a null row has none.
    fn span(&self, i: usize) -> Range<usize> {
        let slots = self.slots(i);
        if self.chunk.validity.is_some_and(|v| !v.get(i)) { slots.start..slots.start } else { slots }
    }

    /// The items of all its rows.
    fn all(&self) -> Range<usize> {
        if self.rows.is_empty() { 0..0 } else { self.slots(self.rows.start).start..self.slots(self.rows.end - 1).end }
    }

    /// Whether no row's span differs from its slots and no item is null.
    fn is_plain(&self) -> bool {
        let unset = |v: &Bits<'_>, i: usize| !v.get(i);
        let rows = self.chunk.validity.is_none_or(|v| self.rows.clone().all(|i| !unset(&v, i) || self.slots(i).is_empty()));
        let items = match self.chunk.items {
            Items::Numbers(c) => c.validity().is_none_or(|v| self.all().all(|i| !unset(&v, i))),
            Items::Texts(_) => true,
        };
        rows && items
    }
}

fn check_offsets(column: &ListColumn<'_>) -> Result<()> {
    for chunk in &column.chunks {
        let len = chunk.items.len();
        let ascend = match chunk.offsets {
            Offsets::I32(o) => {
                o.first().is_none_or(|o| *o >= 0) && o.windows(2).all(|w| w[0] <= w[1]) && o.last().is_none_or(|o| *o as usize <= len)
            }
            Offsets::I64(o) => {
                o.first().is_none_or(|o| *o >= 0) && o.windows(2).all(|w| w[0] <= w[1]) && o.last().is_none_or(|o| *o as usize <= len)
            }
            Offsets::Fixed { width, rows } => width.checked_mul(rows).is_some_and(|n| n <= len),
        };
        if !ascend {
            return Err(Error::column(&column.name, "its offsets are not those of lists"));
        }
        if chunk.validity.is_some_and(|v| v.len() != chunk.offsets.rows()) {
            return Err(Error::column(&column.name, "its validity and its rows differ in number"));
        }
    }
    Ok(())
}

/// What a piece is read with.
struct PieceReader<'r, 'a> {
    features: &'r ListColumn<'a>,
    values: Option<&'r ListColumn<'a>>,
    /// The row that the piece starts with.
    first: usize,
    pool: &'r ThreadPool,
}

impl<'a> PieceReader<'_, 'a> {
    fn piece(&self, keys: &Part<'a>, values: Option<&Part<'a>>, hash_bits: Option<u32>) -> Result<Piece<'a>> {
        if let Some(v) = values {
            self.check_lengths(keys, v)?;
        }
        let hashed = match (keys.chunk.items, hash_bits) {
            (Items::Texts(_), None) => return Err(Error::column(&self.features.name, "holds strings where feature numbers are expected")),
            (Items::Numbers(_), Some(_)) => return Err(Error::column(&self.features.name, "holds numbers where strings are expected")),
            (Items::Texts(texts), Some(bits)) => {
                let mask = (1u64 << bits) - 1;
                let all = keys.all();
                Some(self.fill(all.len(), |i| texts.get(all.start + i).map_or(NULL, |t| (xxh3_64(t.as_bytes()) & mask) as u32)))
            }
            (Items::Numbers(_), None) => None,
        };
        let plain = keys.is_plain()
            && hashed.as_ref().is_none_or(|h| !h.contains(&NULL))
            && values.is_none_or(|v| {
                let (k0, v0) = (keys.all().start, v.all().start);
                let alike = |i: usize| keys.slots(keys.rows.start + i).end - k0 == v.slots(v.rows.start + i).end - v0;
                v.is_plain() && (0..keys.rows.len()).all(alike)
            });
        if !plain {
            return self.owned(keys, values, hashed.as_deref());
        }
        let rows = keys.rows.clone();
        let starts = match keys.chunk.offsets {
            Offsets::I32(o) => Starts::I32(&o[rows.start..=rows.end]),
            Offsets::I64(o) => Starts::I64(&o[rows.start..=rows.end]),
            Offsets::Fixed { width, .. } => Starts::Fixed { width, rows: rows.len() },
        };
        let base = if matches!(starts, Starts::Fixed { .. }) { 0 } else { keys.all().start };
        let (keys, largest) = match (hashed, keys.chunk.items) {
            (Some(hashed), _) => {
                let largest = self.check_numbers(keys, &hashed, &mut [], |x| x)?;
                (FeatureNumbers::Narrow(hashed.into()), largest)
            }
            (None, Items::Numbers(chunk)) => self.numbers(keys, chunk.values())?,
            (None, Items::Texts(_)) => (FeatureNumbers::Narrow(Cow::Borrowed(&[])), 0),
        };
        let values = values.map(|v| self.amounts(v)).transpose()?;
        Ok(Piece { starts, base, keys, values, largest })
    }

    /// The row of the part that has item `at`, and whose list is not empty.
    fn row_of(&self, part: &Part<'_>, at: usize) -> usize {
        let before = part.rows.clone().take_while(|i| part.slots(*i).end <= at).count();
        self.first + before
    }

    fn check_lengths(&self, keys: &Part<'_>, values: &Part<'_>) -> Result<()> {
        for i in 0..keys.rows.len() {
            let (k, v) = (keys.span(keys.rows.start + i).len(), values.span(values.rows.start + i).len());
            if k != v {
                let name = self.values.map_or("", |v| v.name.as_str());
                return Err(Error::column(
                    name,
                    format!("has {v} values in row {} where `{}` has {k} features", self.first + i, self.features.name),
                )
                .of_values());
            }
        }
        Ok(())
    }

    /// `make(i)` for `0..len`.
    fn fill<T: Zero + Send>(&self, len: usize, make: impl Fn(usize) -> T + Sync) -> Vec<T> {
        let mut out = pages::zeroed(len);
        each(self.pool, &mut out, BLOCK, |b, block| block.iter_mut().enumerate().for_each(|(i, o)| *o = make(b * BLOCK + i)));
        out
    }

    /// The numbers of a plain part, borrowed where they are of 32 bits, and the largest.
    fn numbers(&self, part: &Part<'a>, values: Values<'a>) -> Result<(FeatureNumbers<'a>, u64)> {
        macro_rules! convert {
            ($v:ident) => {{
                let items = &$v[part.all()];
                let mut narrow = pages::zeroed(items.len());
                let largest = self.check_numbers(part, items, &mut narrow, |x| x as u32)?;
                let wide = largest > u32::MAX as u64;
                (
                    if wide {
                        FeatureNumbers::Wide(self.fill(items.len(), |i| items[i] as u64))
                    } else {
                        FeatureNumbers::Narrow(narrow.into())
                    },
                    largest,
                )
            }};
        }
        Ok(match values {
            Values::U32(v) => {
                let items = &v[part.all()];
                (FeatureNumbers::Narrow(Cow::Borrowed(items)), self.check_numbers(part, items, &mut [], |x| x)?)
            }
            Values::I32(v) => {
                let items = &v[part.all()];
                let largest = self.check_numbers(part, items, &mut [], |x| x as u32)?;
                // SAFETY: u32 has the size and the alignment of i32, and any bits are a u32.
                let items = unsafe { std::slice::from_raw_parts(items.as_ptr().cast::<u32>(), items.len()) };
                (FeatureNumbers::Narrow(Cow::Borrowed(items)), largest)
            }
            Values::I8(v) => convert!(v),
            Values::I16(v) => convert!(v),
            Values::I64(v) => convert!(v),
            Values::U8(v) => convert!(v),
            Values::U16(v) => convert!(v),
            Values::U64(v) => convert!(v),
            _ => return Err(self.not_integers()),
        })
    }

    fn not_integers(&self) -> Error {
        Error::column(&self.features.name, "feature numbers are integers of at most 64 bits")
    }

    /// The largest number, and all of them `narrow` in `out` where that is not empty; an error where one is negative.
    fn check_numbers<T: Copy + Ord + Sync + Send + std::fmt::Display>(
        &self,
        part: &Part<'_>,
        items: &[T],
        out: &mut [u32],
        narrow: impl Fn(T) -> u32 + Sync,
    ) -> Result<u64>
    where
        u64: TryFrom<T>,
    {
        let blocks: Vec<Mutex<&mut [u32]>> = out.chunks_mut(BLOCK).map(Mutex::new).collect();
        let ends = self.pool.deal(
            items.len().div_ceil(BLOCK),
            || (),
            |_, b| {
                let block = &items[b * BLOCK..items.len().min((b + 1) * BLOCK)];
                if let Some(Ok(mut out)) = blocks.get(b).map(Mutex::lock) {
                    out.iter_mut().zip(block).for_each(|(o, x)| *o = narrow(*x));
                }
                block.iter().fold((block[0], block[0]), |(low, high), x| (low.min(*x), high.max(*x)))
            },
        );
        let (Some(low), Some(high)) = (ends.iter().map(|e| e.0).min(), ends.iter().map(|e| e.1).max()) else { return Ok(0) };
        if u64::try_from(low).is_err()
            && let Some(at) = items.iter().position(|x| u64::try_from(*x).is_err())
        {
            return Err(self.negative(items[at], self.row_of(part, part.all().start + at)));
        }
        Ok(u64::try_from(high).unwrap_or(0))
    }

    fn negative(&self, number: impl std::fmt::Display, row: usize) -> Error {
        Error::column(&self.features.name, format!("the feature number {number} in row {row} is negative")).of_values()
    }

    /// The values of a plain part as f32.
    fn amounts(&self, part: &Part<'a>) -> Result<Cow<'a, [f32]>> {
        let Items::Numbers(chunk) = part.chunk.items else { return Err(self.not_numbers()) };
        let all = part.all();
        let amounts = if let Values::F32(v) = chunk.values() {
            Cow::Borrowed(&v[all.clone()])
        } else {
            let column = self.column(chunk);
            let mut out = pages::filled(0.0f32, all.len());
            let blocks: Vec<Mutex<&mut [f32]>> = out.chunks_mut(BLOCK).map(Mutex::new).collect();
            self.pool.deal(
                blocks.len(),
                || vec![0.0; BLOCK],
                |wide, b| {
                    if let Ok(mut block) = blocks[b].lock() {
                        let wide = &mut wide[..block.len()];
                        column.read_f64(all.start + b * BLOCK, wide);
                        block.iter_mut().zip(wide).for_each(|(o, x)| *o = *x as f32);
                    }
                },
            );
            drop(blocks);
            Cow::Owned(out)
        };
        let bad = self.pool.deal(
            amounts.len().div_ceil(BLOCK),
            || (),
            |_, b| !amounts[b * BLOCK..amounts.len().min((b + 1) * BLOCK)].iter().fold(true, |ok, x| ok & x.is_finite()),
        );
        match bad.contains(&true).then(|| amounts.iter().position(|x| !x.is_finite())).flatten() {
            Some(at) => Err(self.not_finite(chunk, all.start + at, self.row_of(part, all.start + at))),
            None => Ok(amounts),
        }
    }

    fn column<'c>(&self, chunk: Chunk<'c>) -> Column<'c> {
        Column::new(self.values.map_or("", |v| v.name.as_str()), FeatureType::Numeric, vec![chunk])
    }

    fn not_numbers(&self) -> Error {
        Error::column(self.values.map_or("", |v| v.name.as_str()), "values are numbers")
    }

    fn not_finite(&self, chunk: Chunk<'_>, at: usize, row: usize) -> Error {
        let mut value = [0.0];
        self.column(chunk).read_f64(at, &mut value);
        let what = if value[0].is_finite() { "is beyond what an f32 holds" } else { "is not finite" };
        Error::column(self.values.map_or("", |v| v.name.as_str()), format!("the value {} in row {row} {what}", value[0])).of_values()
    }

    /// Entry by entry, those left out that are null.
    fn owned(&self, keys: &Part<'a>, values: Option<&Part<'a>>, hashed: Option<&[u32]>) -> Result<Piece<'a>> {
        let (mut starts, mut wide, mut amounts) = (vec![0], vec![], vec![]);
        for i in 0..keys.rows.len() {
            let row = self.first + i;
            let beside = values.map(|v| (v, v.span(v.rows.start + i).start));
            for (j, at) in keys.span(keys.rows.start + i).enumerate() {
                let Some(key) = self.key(keys, at, hashed, row)? else { continue };
                if let Some((part, start)) = beside {
                    let Some(x) = self.amount(part, start + j, row)? else { continue };
                    amounts.push(x);
                }
                wide.push(key);
            }
            starts.push(wide.len());
        }
        let largest = wide.iter().copied().max().unwrap_or(0);
        let narrow = largest <= u32::MAX as u64;
        let keys = if narrow { FeatureNumbers::Narrow(wide.iter().map(|k| *k as u32).collect()) } else { FeatureNumbers::Wide(wide) };
        Ok(Piece { starts: Starts::Owned(starts), base: 0, keys, values: values.map(|_| amounts.into()), largest })
    }

    /// The feature at `at`; none where it is null.
    fn key(&self, part: &Part<'_>, at: usize, hashed: Option<&[u32]>, row: usize) -> Result<Option<u64>> {
        let chunk = match (hashed, part.chunk.items) {
            (Some(hashed), _) => {
                let key = hashed[at - part.all().start];
                return Ok((key != NULL).then_some(key as u64));
            }
            (None, Items::Numbers(chunk)) => chunk,
            (None, Items::Texts(_)) => return Ok(None),
        };
        if chunk.validity().is_some_and(|v| !v.get(at)) {
            return Ok(None);
        }
        let number = match chunk.values() {
            Values::I8(v) => v[at] as i128,
            Values::I16(v) => v[at] as i128,
            Values::I32(v) => v[at] as i128,
            Values::I64(v) => v[at] as i128,
            Values::U8(v) => v[at] as i128,
            Values::U16(v) => v[at] as i128,
            Values::U32(v) => v[at] as i128,
            Values::U64(v) => v[at] as i128,
            _ => return Err(self.not_integers()),
        };
        u64::try_from(number).map(Some).map_err(|_| self.negative(number, row))
    }

    /// The value at `at`; none where it is null.
    fn amount(&self, part: &Part<'_>, at: usize, row: usize) -> Result<Option<f32>> {
        let Items::Numbers(chunk) = part.chunk.items else { return Err(self.not_numbers()) };
        if chunk.validity().is_some_and(|v| !v.get(at)) {
            return Ok(None);
        }
        let mut value = [0.0];
        self.column(chunk).read_f64(at, &mut value);
        let x = value[0] as f32;
        if x.is_finite() { Ok(Some(x)) } else { Err(self.not_finite(chunk, at, row)) }
    }
}

impl Csr<'_> {
    /// The largest feature number; none where there are no entries.
    pub fn largest(&self) -> Option<u64> {
        self.pieces.iter().filter(|p| p.entries() > 0).map(|p| p.largest).max()
    }
}

impl Csr<'_> {
    /// Forgets values where all are 1, as they are where there are none.
    pub fn forget_ones(&mut self) {
        if self.pieces.iter().all(|p| p.values.as_deref().is_none_or(|v| v.iter().all(|x| *x == 1.0))) {
            self.pieces.iter_mut().for_each(|p| p.values = None);
        }
    }

    /// Whether entries have values.
    pub fn has_values(&self) -> bool {
        self.pieces.iter().any(|p| p.values.is_some())
    }
}
