//! Borrowed columns: chunks of values and validity, as Arrow lays them out.
//!
//! A [`Column`] owns nothing: it points at the chunks of an Arrow array, at f32 and f64 values
//! above all, which are never copied whole. Missing values are unified here and nowhere else: a
//! null and a NaN both read as NaN.

mod bits;
pub mod categories;
pub mod decimal;
pub mod distinct;
pub mod select;

pub use bits::Bits;

use self::categories::{Categories, CategoryColumn};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The values of one chunk, in their own type.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    I128(&'a [i128]),
    U128(&'a [u128]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    Bool(Bits<'a>),
    /// Fixed point: the value is `integer / 10^scale`.
    Decimal(&'a [i128], u32),
}

/// Calls `$body` with `$values` bound to the slice of whichever variant, and `$to_f64` to the
/// conversion of one of its values.
macro_rules! with_values {
    ($self:expr, |$values:ident, $to_f64:ident| $body:expr, bool |$bits:ident| $bool_body:expr) => {
        match $self {
            Values::F32($values) => {
                let $to_f64 = |x: f32| x as f64;
                $body
            }
            Values::F64($values) => {
                let $to_f64 = |x: f64| x;
                $body
            }
            Values::I8($values) => {
                let $to_f64 = |x: i8| x as f64;
                $body
            }
            Values::I16($values) => {
                let $to_f64 = |x: i16| x as f64;
                $body
            }
            Values::I32($values) => {
                let $to_f64 = |x: i32| x as f64;
                $body
            }
            Values::I64($values) => {
                let $to_f64 = |x: i64| x as f64;
                $body
            }
            Values::I128($values) => {
                let $to_f64 = |x: i128| x as f64;
                $body
            }
            Values::U128($values) => {
                let $to_f64 = |x: u128| x as f64;
                $body
            }
            Values::U8($values) => {
                let $to_f64 = |x: u8| x as f64;
                $body
            }
            Values::U16($values) => {
                let $to_f64 = |x: u16| x as f64;
                $body
            }
            Values::U32($values) => {
                let $to_f64 = |x: u32| x as f64;
                $body
            }
            Values::U64($values) => {
                let $to_f64 = |x: u64| x as f64;
                $body
            }
            Values::Bool($bits) => $bool_body,
            Values::Decimal($values, scale) => {
                let scale = *scale;
                let $to_f64 = move |x: i128| $crate::column::decimal::nearest(x, scale);
                $body
            }
        }
    };
}

impl<'a> Values<'a> {
    /// Returns `len` of the values from `start` on.
    ///
    /// # Panics
    /// When there are fewer.
    #[must_use]
    pub fn slice(&self, start: usize, len: usize) -> Values<'a> {
        macro_rules! sliced {
            ($($variant:ident),*) => {
                match *self {
                    $(Values::$variant(values) => Values::$variant(&values[start..start + len]),)*
                    Values::Bool(bits) => Values::Bool(bits.slice(start, len)),
                    Values::Decimal(values, scale) => Values::Decimal(&values[start..start + len], scale),
                }
            };
        }
        sliced!(F32, F64, I8, I16, I32, I64, I128, U128, U8, U16, U32, U64)
    }
}

impl Values<'_> {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        with_values!(self, |v, _to_f64| v.len(), bool | b | b.len())
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn read(&self, start: usize, out: &mut [f64]) {
        with_values!(
            self,
            |v, to_f64| for (o, x) in out.iter_mut().zip(&v[start..]) {
                *o = to_f64(*x)
            },
            bool | b
                | for (i, o) in out.iter_mut().enumerate() {
                    *o = b.get(start + i) as u8 as f64
                }
        )
    }
}

/// One chunk: values and, where some are null, their validity.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    values: Values<'a>,
    validity: Option<Bits<'a>>,
}

impl<'a> Chunk<'a> {
    /// Returns a chunk of `values`, of which those whose bit in `validity` is unset are null.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn new(values: Values<'a>, validity: Option<Bits<'a>>) -> Self {
        if let Some(v) = &validity {
            assert_eq!(v.len(), values.len(), "validity and values differ in length");
        }
        Chunk { values, validity }
    }

    /// Returns the values; those that are null hold anything.
    pub fn values(&self) -> Values<'a> {
        self.values
    }

    /// Returns `len` of the rows from `start` on.
    ///
    /// # Panics
    /// When there are fewer.
    #[must_use]
    pub fn slice(&self, start: usize, len: usize) -> Chunk<'a> {
        Chunk { values: self.values.slice(start, len), validity: self.validity.map(|v| v.slice(start, len)) }
    }

    /// Appends the values at `indices` to `out`; nulls as NaN.
    fn gather(&self, indices: impl ExactSizeIterator<Item = usize> + Clone, out: &mut Vec<f64>) {
        let at = out.len();
        with_values!(
            &self.values,
            |v, to_f64| out.extend(indices.clone().map(|i| to_f64(v[i]))),
            bool | b | out.extend(indices.clone().map(|i| b.get(i) as u8 as f64))
        );
        if let Some(validity) = self.validity {
            for (out, i) in out[at..].iter_mut().zip(indices) {
                *out = if validity.get(i) { *out } else { f64::NAN };
            }
        }
    }

    /// Returns which values are not null; none where no value is.
    pub fn validity(&self) -> Option<Bits<'a>> {
        self.validity
    }
}

/// Overwrites with NaN those values of `out` whose bit, counted from `start`, is unset.
macro_rules! blank_nulls {
    ($float:ty, $validity:expr, $start:expr, $out:expr) => {
        for (w, out) in $out.chunks_mut(64).enumerate() {
            let word = $validity.word($start + w * 64);
            if word != u64::MAX {
                for (i, o) in out.iter_mut().enumerate() {
                    *o = if word >> i & 1 == 1 { *o } else { <$float>::NAN };
                }
            }
        }
    };
}

/// What a model remembers of a column's type. Any numeric type serves for any other (equal
/// values give equal results); a temporal type only for itself, unit included, because its
/// numbers are its physical ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FeatureType {
    /// Integers, floats, Decimal, Boolean.
    Numeric,
    /// Days since the epoch.
    Date,
    /// Nanoseconds since midnight.
    Time,
    /// Ticks since the epoch in the unit named: `ms`, `us` or `ns`.
    Datetime(TimeUnit),
    /// Ticks in the unit named.
    Duration(TimeUnit),
    /// Categories of text: String, Categorical and Enum alike.
    Categorical,
}

/// The unit of a temporal type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TimeUnit {
    Milliseconds,
    Microseconds,
    Nanoseconds,
}

impl std::fmt::Display for FeatureType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let unit = |u: &TimeUnit| match u {
            TimeUnit::Milliseconds => "ms",
            TimeUnit::Microseconds => "us",
            TimeUnit::Nanoseconds => "ns",
        };
        match self {
            FeatureType::Numeric => write!(f, "numeric"),
            FeatureType::Date => write!(f, "date"),
            FeatureType::Time => write!(f, "time"),
            FeatureType::Datetime(u) => write!(f, "datetime[{}]", unit(u)),
            FeatureType::Duration(u) => write!(f, "duration[{}]", unit(u)),
            FeatureType::Categorical => write!(f, "categorical"),
        }
    }
}

/// A named column: borrowed chunks in order.
#[derive(Clone, Debug)]
pub struct Column<'a> {
    name: String,
    dtype: FeatureType,
    chunks: Vec<Chunk<'a>>,
    /// The first row of each chunk, and the length behind them.
    starts: Vec<usize>,
    /// What the codes of a categorical column stand for.
    categories: Option<&'a Categories>,
    /// The width of the chunks' values, those of empty chunks too.
    width: Width,
}

/// How wide a float it takes to hold a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// Integers up to 16 bits and Booleans: any float holds them.
    Any,
    /// f32.
    Single,
    /// Everything else is read as f64.
    Double,
}

impl Width {
    fn of(values: &Values<'_>) -> Self {
        match values {
            Values::I8(_) | Values::I16(_) | Values::U8(_) | Values::U16(_) | Values::Bool(_) => Width::Any,
            Values::F32(_) => Width::Single,
            _ => Width::Double,
        }
    }
}

impl<'a> Column<'a> {
    /// Returns a column of `chunks`; empty ones are dropped.
    pub fn new(name: impl Into<String>, dtype: FeatureType, chunks: Vec<Chunk<'a>>) -> Self {
        let width = chunks.iter().map(|c| Width::of(&c.values)).max().unwrap_or(Width::Any);
        let chunks: Vec<_> = chunks.into_iter().filter(|c| !c.values.is_empty()).collect();
        let mut starts = vec![0];
        for c in &chunks {
            starts.push(starts[starts.len() - 1] + c.values.len());
        }
        Column { name: name.into(), dtype, chunks, starts, categories: None, width }
    }

    /// Returns a categorical column: its values are the codes.
    pub fn categorical(column: &'a CategoryColumn) -> Self {
        Column { categories: Some(&column.categories), ..Column::codes(column.name.as_str(), &column.codes) }
    }

    /// Returns a categorical column by codes into categories known elsewhere (a model's); a code beyond them is an unseen
    /// category.
    pub fn codes(name: impl Into<String>, codes: &'a [u32]) -> Self {
        Column::new(name, FeatureType::Categorical, vec![Chunk::new(Values::U32(codes), None)])
    }

    /// Returns the codes of a categorical column, one for each row.
    pub fn category_codes(&self) -> Option<&'a [u32]> {
        match (&self.dtype, self.chunks.first().map(|c| c.values)) {
            (FeatureType::Categorical, Some(Values::U32(codes))) => Some(codes),
            (FeatureType::Categorical, None) => Some(&[]),
            _ => None,
        }
    }

    /// Returns the values of a column of bytes in one chunk, none of them null.
    pub fn bytes(&self) -> Option<&'a [u8]> {
        match self.chunks.as_slice() {
            [] => Some(&[]),
            [Chunk { values: Values::U8(values), validity: None }] => Some(values),
            _ => None,
        }
    }

    /// Returns what the codes of a categorical column stand for.
    pub fn categories(&self) -> Option<&'a Categories> {
        self.categories
    }

    /// Returns a column of one chunk of f32 values.
    pub fn from_f32(name: impl Into<String>, values: &'a [f32]) -> Self {
        Column::new(name, FeatureType::Numeric, vec![Chunk::new(Values::F32(values), None)])
    }

    /// Returns a column of one chunk of f64 values.
    pub fn from_f64(name: impl Into<String>, values: &'a [f64]) -> Self {
        Column::new(name, FeatureType::Numeric, vec![Chunk::new(Values::F64(values), None)])
    }

    /// Returns the column's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the type that a model records for it.
    pub fn dtype(&self) -> &FeatureType {
        &self.dtype
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.starts[self.chunks.len()]
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether every chunk holds f32 values.
    pub fn is_f32(&self) -> bool {
        self.chunks.iter().all(|c| matches!(c.values, Values::F32(_)))
    }

    /// Returns how wide a float it takes to hold the values.
    pub fn width(&self) -> Width {
        self.width
    }

    /// Returns the column in pieces whose chunks have one type; one piece, but for columns that no Arrow array makes.
    pub fn runs(&self) -> Vec<Column<'a>> {
        let alike = |a: &Chunk<'_>, b: &Chunk<'_>| std::mem::discriminant(&a.values) == std::mem::discriminant(&b.values);
        let part = |run: &[Chunk<'a>]| Column::new(self.name.as_str(), self.dtype.clone(), run.to_vec());
        self.chunks.chunk_by(alike).map(part).collect()
    }

    /// Returns the column of `len` rows from `start` on, in as many chunks as they lie in.
    ///
    /// # Panics
    /// When there are fewer.
    ///
    /// ```
    /// use taiga_core::column::Column;
    /// let column = Column::from_f64("x", &[1.0, 2.0, 3.0, 4.0]);
    /// assert_eq!(column.slice(1, 2).to_f64(), [2.0, 3.0]);
    /// ```
    #[must_use]
    pub fn slice(&self, start: usize, len: usize) -> Column<'a> {
        let own = Column::new(self.name.as_str(), self.dtype.clone(), self.chunks_of(start, len));
        Column { categories: self.categories, width: self.width, ..own }
    }

    /// Returns the rows `rows` of a column of numbers, and behind them those of another chunk.
    ///
    /// ```
    /// use taiga_core::column::{Chunk, Column, Values};
    /// let column = Column::from_f64("x", &[1.0, 2.0, 3.0]);
    /// let part = column.with_behind(1..3, Chunk::new(Values::F64(&[9.0]), None));
    /// assert_eq!(part.to_f64(), [2.0, 3.0, 9.0]);
    /// ```
    ///
    /// # Panics
    /// When there are no such rows.
    #[must_use]
    pub fn with_behind(&self, rows: Range<usize>, behind: Chunk<'a>) -> Column<'a> {
        let mut chunks = self.chunks_of(rows.start, rows.len());
        chunks.push(behind);
        Column::new(self.name.as_str(), self.dtype.clone(), chunks)
    }

    /// The chunks of `len` rows from `start` on.
    fn chunks_of(&self, start: usize, len: usize) -> Vec<Chunk<'a>> {
        let mut chunks = vec![];
        self.segments(start, len, |chunk, inner, _, n| chunks.push(chunk.slice(inner, n)));
        chunks
    }

    /// Returns where the values of the first chunk begin; 0 where there are none.
    pub fn address(&self) -> usize {
        let first = self.chunks.first().map(|c| c.values);
        first.map_or(0, |values| with_values!(&values, |v, _to_f64| v.as_ptr() as usize, bool | b | b.bytes().as_ptr() as usize))
    }

    /// Returns the scale of a column of decimals.
    pub fn decimal_scale(&self) -> Option<u32> {
        match self.chunks.first().map(|c| c.values) {
            Some(Values::Decimal(_, scale)) => Some(scale),
            _ => None,
        }
    }

    /// Returns the index of the chunk that holds `row`.
    fn chunk_of(&self, row: usize) -> usize {
        self.starts.partition_point(|&s| s <= row) - 1
    }

    /// Calls `visit(chunk, row inside the chunk, offset from start, rows)` for each chunk's share
    /// of the rows from `start` on.
    pub fn segments(&self, start: usize, len: usize, mut visit: impl FnMut(&Chunk<'a>, usize, usize, usize)) {
        assert!(start + len <= self.len(), "rows {start}..{} of a column of {}", start + len, self.len());
        let mut done = 0;
        if len == 0 {
            return;
        }
        let mut k = self.chunk_of(start);
        while done < len {
            let inner = start + done - self.starts[k];
            let n = (len - done).min(self.chunks[k].values.len() - inner);
            visit(&self.chunks[k], inner, done, n);
            done += n;
            k += 1;
        }
    }

    /// Reads rows `start .. start + out.len()` as f64; nulls as NaN.
    pub fn read_f64(&self, start: usize, out: &mut [f64]) {
        let len = out.len();
        self.segments(start, len, |c, inner, at, n| {
            let out = &mut out[at..at + n];
            c.values.read(inner, out);
            if let Some(v) = c.validity {
                blank_nulls!(f64, v, inner, out);
            }
        });
    }

    /// Returns rows `start .. start + len` of a column for which [`Column::is_f32`] holds, nulls as NaN: borrowed where one chunk
    /// without nulls covers them, else written to `scratch`.
    ///
    /// # Panics
    /// When a chunk is not f32.
    pub fn read_f32<'s>(&'s self, start: usize, len: usize, scratch: &'s mut Vec<f32>) -> &'s [f32] {
        if len > 0 {
            let k = self.chunk_of(start);
            if let (Values::F32(v), None, true) = (self.chunks[k].values, &self.chunks[k].validity, start + len <= self.starts[k + 1]) {
                return &v[start - self.starts[k]..][..len];
            }
        }
        scratch.clear();
        scratch.resize(len, 0.0);
        self.segments(start, len, |c, inner, at, n| {
            let Values::F32(v) = c.values else { panic!("read_f32 of a column that is not f32") };
            let out = &mut scratch[at..at + n];
            out.copy_from_slice(&v[inner..inner + n]);
            if let Some(v) = c.validity {
                blank_nulls!(f32, v, inner, out);
            }
        });
        scratch
    }

    /// Returns rows `start .. start + len` as f64, nulls as NaN: borrowed where one chunk of f64 without nulls covers them, else
    /// written to `scratch`.
    pub fn borrow_f64<'s>(&'s self, start: usize, len: usize, scratch: &'s mut Vec<f64>) -> &'s [f64] {
        if len > 0 {
            let k = self.chunk_of(start);
            if let (Values::F64(v), None, true) = (self.chunks[k].values, &self.chunks[k].validity, start + len <= self.starts[k + 1]) {
                return &v[start - self.starts[k]..][..len];
            }
        }
        scratch.resize(len, 0.0);
        self.read_f64(start, scratch);
        scratch
    }

    /// Returns the values at `rows` as f64; nulls as NaN.
    pub fn gather_f64(&self, rows: &[usize]) -> Vec<f64> {
        let mut out = Vec::with_capacity(rows.len());
        let mut rest = rows;
        while let Some(first) = rest.first() {
            // The rows of one chunk, in a loop of its type: what it waits for is memory, many rows' at a time.
            let k = self.chunk_of(*first);
            let (start, end) = (self.starts[k], self.starts[k + 1]);
            let count = rest.iter().position(|row| !(start..end).contains(row)).unwrap_or(rest.len());
            let (own, others) = rest.split_at(count);
            self.chunks[k].gather(own.iter().map(|row| row - start), &mut out);
            rest = others;
        }
        out
    }

    /// Returns the whole column as f64; nulls as NaN.
    pub fn to_f64(&self) -> Vec<f64> {
        let mut out = vec![0.0; self.len()];
        self.read_f64(0, &mut out);
        out
    }
}

#[cfg(test)]
mod tests;
