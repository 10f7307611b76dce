//! The smallest and the largest value in one pass, at the speed of memory.

use super::each_thread;
use crate::column::{Bits, Column, Values, decimal};
use multiversion::multiversion;

/// A value in the widest type of its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ColumnValue {
    F32(f32),
    F64(f64),
    /// Integers and temporal types; 0 and 1 for Booleans.
    Integer(i128),
    /// U128.
    Unsigned(u128),
    /// `integer / 10^scale`.
    Decimal(i128, u32),
}

impl ColumnValue {
    /// Returns the nearest f64, as [`Column::read_f64`] gives it.
    pub fn to_f64(self) -> f64 {
        match self {
            ColumnValue::F32(x) => x as f64,
            ColumnValue::F64(x) => x,
            ColumnValue::Integer(x) => x as f64,
            ColumnValue::Unsigned(x) => x as f64,
            ColumnValue::Decimal(x, scale) => decimal::nearest(x, scale),
        }
    }
}

/// The smallest and the largest value of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MinMax {
    pub min: ColumnValue,
    pub max: ColumnValue,
}

/// Returns the smallest and the largest value; nulls and NaN don't count, and ±∞ are values like others. None when nothing is
/// left. A zero is +0.0, whichever zeros there are.
///
/// ```
/// use taiga_core::column::Column;
/// use taiga_core::stats::{ColumnValue, min_max};
/// let found = min_max(&Column::from_f64("x", &[2.0, f64::NAN, -1.0])).unwrap();
/// assert_eq!((found.min, found.max), (ColumnValue::F64(-1.0), ColumnValue::F64(2.0)));
/// ```
pub fn min_max(column: &Column<'_>) -> Option<MinMax> {
    let shares = each_thread(column.len(), |blocks| {
        let mut found: Option<MinMax> = None;
        for rows in blocks {
            column.segments(rows.start, rows.len(), |chunk, inner, _, n| {
                found = wider(found, of_values(chunk.values(), chunk.validity(), inner, n));
            });
        }
        found
    });
    shares.into_iter().fold(None, wider).map(|found| MinMax { min: plain_zero(found.min), max: plain_zero(found.max) })
}

fn plain_zero(x: ColumnValue) -> ColumnValue {
    match x {
        ColumnValue::F32(x) => ColumnValue::F32(x + 0.0),
        ColumnValue::F64(x) => ColumnValue::F64(x + 0.0),
        other => other,
    }
}

fn less(a: ColumnValue, b: ColumnValue) -> bool {
    match (a, b) {
        (ColumnValue::F32(a), ColumnValue::F32(b)) => a < b,
        (ColumnValue::F64(a), ColumnValue::F64(b)) => a < b,
        (ColumnValue::Integer(a), ColumnValue::Integer(b)) | (ColumnValue::Decimal(a, _), ColumnValue::Decimal(b, _)) => a < b,
        (ColumnValue::Unsigned(a), ColumnValue::Unsigned(b)) => a < b,
        // Chunks of several types, which no Arrow column has.
        (a, b) => a.to_f64() < b.to_f64(),
    }
}

/// Returns the extremes of both.
pub fn wider(a: Option<MinMax>, b: Option<MinMax>) -> Option<MinMax> {
    match (a, b) {
        (Some(a), Some(b)) => {
            Some(MinMax { min: if less(b.min, a.min) { b.min } else { a.min }, max: if less(a.max, b.max) { b.max } else { a.max } })
        }
        (a, b) => a.or(b),
    }
}

/// `$name(values)`: the smallest and the largest of them, or `($max, $min)` where there are none;
/// NaN is neither smaller nor larger than anything.
macro_rules! extremes {
    ($($name:ident: $type:ty, $min:expr, $max:expr, $lanes:expr;)*) => {
        $(#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
        fn $name(values: &[$type]) -> ($type, $type) {
            let (mut low, mut high) = ([$max; $lanes], [$min; $lanes]);
            let (lanes, rest) = values.as_chunks::<{ $lanes }>();
            for x in lanes {
                for i in 0..$lanes {
                    low[i] = if x[i] < low[i] { x[i] } else { low[i] };
                    high[i] = if x[i] > high[i] { x[i] } else { high[i] };
                }
            }
            let (mut min, mut max) = ($max, $min);
            for i in 0..$lanes {
                min = if low[i] < min { low[i] } else { min };
                max = if high[i] > max { high[i] } else { max };
            }
            for &x in rest {
                min = if x < min { x } else { min };
                max = if x > max { x } else { max };
            }
            (min, max)
        })*
    };
}
extremes! {
    extremes_f32: f32, f32::NEG_INFINITY, f32::INFINITY, 64;
    extremes_f64: f64, f64::NEG_INFINITY, f64::INFINITY, 64;
    extremes_i8: i8, i8::MIN, i8::MAX, 64;
    extremes_i16: i16, i16::MIN, i16::MAX, 64;
    extremes_i32: i32, i32::MIN, i32::MAX, 64;
    extremes_i64: i64, i64::MIN, i64::MAX, 64;
    extremes_i128: i128, i128::MIN, i128::MAX, 4;
    extremes_u8: u8, u8::MIN, u8::MAX, 64;
    extremes_u16: u16, u16::MIN, u16::MAX, 64;
    extremes_u32: u32, u32::MIN, u32::MAX, 64;
    extremes_u64: u64, u64::MIN, u64::MAX, 64;
    extremes_u128: u128, u128::MIN, u128::MAX, 4;
}

/// Values that are freed from nulls at a time.
const BATCH: usize = 1024;

/// Finds the extremes of `len` values from `start` on.
fn of_values(values: Values<'_>, validity: Option<Bits<'_>>, start: usize, len: usize) -> Option<MinMax> {
    macro_rules! of {
        ($values:expr, $extremes:ident, $number:expr) => {{
            let values = &$values[start..start + len];
            let (min, max) = match validity {
                None => $extremes(values),
                Some(validity) => {
                    let (mut min, mut max) = $extremes(&[]);
                    let mut valid = [Default::default(); BATCH];
                    for (b, batch) in values.chunks(BATCH).enumerate() {
                        let n = without_nulls(batch, validity, start + b * BATCH, &mut valid);
                        let (low, high) = $extremes(&valid[..n]);
                        min = if low < min { low } else { min };
                        max = if high > max { high } else { max };
                    }
                    (min, max)
                }
            };
            (min <= max).then(|| MinMax { min: ($number)(min), max: ($number)(max) })
        }};
    }
    fn integer(x: impl Into<i128>) -> ColumnValue {
        ColumnValue::Integer(x.into())
    }
    match values {
        Values::F32(v) => of!(v, extremes_f32, ColumnValue::F32),
        Values::F64(v) => of!(v, extremes_f64, ColumnValue::F64),
        Values::I8(v) => of!(v, extremes_i8, integer),
        Values::I16(v) => of!(v, extremes_i16, integer),
        Values::I32(v) => of!(v, extremes_i32, integer),
        Values::I64(v) => of!(v, extremes_i64, integer),
        Values::I128(v) => of!(v, extremes_i128, ColumnValue::Integer),
        Values::U8(v) => of!(v, extremes_u8, integer),
        Values::U16(v) => of!(v, extremes_u16, integer),
        Values::U32(v) => of!(v, extremes_u32, integer),
        Values::U64(v) => of!(v, extremes_u64, integer),
        Values::U128(v) => of!(v, extremes_u128, ColumnValue::Unsigned),
        Values::Decimal(v, scale) => of!(v, extremes_i128, |x| ColumnValue::Decimal(x, scale)),
        Values::Bool(bits) => {
            let (mut any_false, mut any_true) = (false, false);
            for at in (start..start + len).step_by(64) {
                let n = 64.min(start + len - at);
                let valid = validity.map_or(u64::MAX, |v| v.word(at)) & (u64::MAX >> (64 - n));
                any_true |= bits.word(at) & valid != 0;
                any_false |= !bits.word(at) & valid != 0;
            }
            let number = |x: bool| ColumnValue::Integer(x.into());
            (any_false || any_true).then(|| MinMax { min: number(!any_false), max: number(any_true) })
        }
    }
}

/// Writes `values`, whose validity begins at bit `start`, to `out`; in place of a null another
/// value of the same 64. Returns how many it wrote: none for 64 nulls.
fn without_nulls<T: Copy>(values: &[T], validity: Bits<'_>, start: usize, out: &mut [T; BATCH]) -> usize {
    let mut written = 0;
    for (w, values) in values.chunks(64).enumerate() {
        let word = validity.word(start + w * 64) & (u64::MAX >> (64 - values.len()));
        if word != 0 {
            let stand_in = values[word.trailing_zeros() as usize];
            for (i, (out, x)) in out[written..][..values.len()].iter_mut().zip(values).enumerate() {
                *out = if word >> i & 1 == 1 { *x } else { stand_in };
            }
            written += values.len();
        }
    }
    written
}
