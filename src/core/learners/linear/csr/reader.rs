//! Reads rows of list columns as feature numbers and values, checking each.

use super::part::Part;
use super::{FeatureNumbers, Piece, Starts};
use crate::column::{Chunk, Column, FeatureType, Values};
use crate::error::{Error, Result};
use crate::learners::linear::rows::{Items, ListColumn, NULL, Offsets, bucket};
use crate::learners::linear::vectors::each;
use crate::pages::{self, Zero};
use crate::parallel::thread_pool::ThreadPool;
use std::borrow::Cow;
use std::sync::Mutex;

/// Items that a thread reads at a time.
const BLOCK: usize = 1 << 16;

/// The columns that a piece is read from.
pub(super) struct PieceReader<'r, 'a> {
    pub(super) features: &'r ListColumn<'a>,
    pub(super) values: Option<&'r ListColumn<'a>>,
    /// The row that the piece starts with.
    pub(super) first: usize,
    pub(super) pool: &'r ThreadPool,
}

impl<'a> PieceReader<'_, 'a> {
    pub(super) fn piece(&self, keys: &Part<'a>, values: Option<&Part<'a>>, hash_bits: Option<u32>) -> Result<Piece<'a>> {
        if let Some(v) = values {
            self.check_lengths(keys, v)?;
        }
        let hashed = match (keys.chunk.items, hash_bits) {
            (Items::Texts(_) | Items::Hashed(_), None) => {
                return Err(Error::column(&self.features.name, "holds strings where feature numbers are expected"));
            }
            (Items::Numbers(_), Some(_)) => return Err(Error::column(&self.features.name, "holds numbers where strings are expected")),
            (Items::Texts(texts), Some(bits)) => {
                let all = keys.all();
                Some(Cow::Owned(self.fill(all.len(), |i| texts.get(all.start + i).map_or(NULL, |t| bucket(t, bits)))))
            }
            (Items::Hashed(hashes), Some(bits)) => {
                let own = &hashes[keys.all()];
                if own.iter().any(|hash| *hash != NULL && *hash >> bits != 0) {
                    return Err(Error::column(&self.features.name, format!("holds hashes of more than {bits} bits")));
                }
                Some(Cow::Borrowed(own))
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
                (FeatureNumbers::Narrow(hashed), largest)
            }
            (None, Items::Numbers(chunk)) => self.numbers(keys, chunk.values())?,
            (None, Items::Texts(_) | Items::Hashed(_)) => (FeatureNumbers::Narrow(Cow::Borrowed(&[])), 0),
        };
        let values = values.map(|v| self.amounts(v)).transpose()?;
        Ok(Piece { starts, base, keys, values, largest })
    }

    /// Returns the row of the part that has item `at`, and whose list is not empty.
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

    /// Computes `make(i)` for `0..len`.
    fn fill<T: Zero + Send>(&self, len: usize, make: impl Fn(usize) -> T + Sync) -> Vec<T> {
        let mut out = pages::zeroed(len);
        each(self.pool, &mut out, BLOCK, |b, block| block.iter_mut().enumerate().for_each(|(i, o)| *o = make(b * BLOCK + i)));
        out
    }

    /// Returns the numbers of a plain part, borrowed where they are of 32 bits, and the largest.
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

    /// Returns the largest number, and all of them `narrow` in `out` where that is not empty; an error where one is negative.
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

    /// Returns the values of a plain part as f32.
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

    /// Copies the entries one by one, without those that are null.
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

    /// Returns the feature at `at`; none where it is null.
    fn key(&self, part: &Part<'_>, at: usize, hashed: Option<&[u32]>, row: usize) -> Result<Option<u64>> {
        let chunk = match (hashed, part.chunk.items) {
            (Some(hashed), _) => {
                let key = hashed[at - part.all().start];
                return Ok((key != NULL).then_some(key as u64));
            }
            (None, Items::Numbers(chunk)) => chunk,
            (None, Items::Texts(_) | Items::Hashed(_)) => return Ok(None),
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

    /// Returns the value at `at`; none where it is null.
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
