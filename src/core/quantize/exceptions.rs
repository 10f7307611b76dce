//! The codes of a column that are not the most frequent one, with their rows.

use super::codes::{Quantizer, QuantizerScratch};
use super::search::SearchFloat;
use crate::column::Column;

/// Rows and codes of the values whose code is not `default`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exceptions {
    pub default: u8,
    /// Ascending.
    pub rows: Vec<u32>,
    pub codes: Vec<u8>,
}

impl Exceptions {
    /// Finds the exceptions of codes that are there already; `None` where there are more than `most`.
    pub fn of_codes(codes: &[u8], default: u8, most: usize) -> Option<Exceptions> {
        let mut found = Exceptions { default, ..Exceptions::default() };
        for (start, piece) in codes.chunks(PIECE).enumerate() {
            filter(piece, start * PIECE, &mut found.rows, &mut found.codes, |code| code != default);
            if found.rows.len() > most {
                return None;
            }
        }
        Some(found)
    }
}

/// Rows read at a time.
const PIECE: usize = 4096;

/// Values compared at once.
const LANES: usize = 32;

impl Quantizer {
    /// Returns the rows and codes of `column` whose code (with `offset`, see [`Quantizer::codes`]) is not `default`; `None` where
    /// there are more than `most` of them. A column that has missing values needs `offset` 1.
    ///
    /// ```
    /// use taiga_core::column::Column;
    /// use taiga_core::quantize::codes::{Quantizer, QuantizerScratch};
    /// let values = [0.0f32, 0.0, 3.0, 0.0, f32::NAN];
    /// let found = Quantizer::new(&[0.5, 2.0]).exceptions(&Column::from_f32("x", &values), 1, 1, 3, &mut QuantizerScratch::default());
    /// let found = found.unwrap();
    /// assert_eq!((found.rows, found.codes), (vec![2, 4], vec![3, 0]));
    /// ```
    pub fn exceptions(
        &self,
        column: &Column<'_>,
        offset: usize,
        default: u8,
        most: usize,
        scratch: &mut QuantizerScratch,
    ) -> Option<Exceptions> {
        let mut found = Exceptions { default, ..Exceptions::default() };
        // The values with the code `default`: above one border, and up to the next.
        let bin = (default as usize).checked_sub(offset);
        let (mut narrow, mut wide) = (vec![], vec![]);
        for start in (0..column.len()).step_by(PIECE) {
            let len = PIECE.min(column.len() - start);
            if column.is_f32() {
                let values = column.read_f32(start, len, &mut scratch.f32);
                others(values, start, bin.map(|bin| self.f32.ends_of(bin)), &mut found.rows, &mut narrow);
            } else {
                scratch.f64.resize(len, 0.0);
                column.read_f64(start, &mut scratch.f64);
                others(&scratch.f64, start, bin.map(|bin| self.f64.ends_of(bin)), &mut found.rows, &mut wide);
            }
            if found.rows.len() > most {
                return None;
            }
        }
        found.codes = vec![0; found.rows.len()];
        if column.is_f32() {
            f32::search(&self.f32, &narrow, offset, &mut found.codes, 1);
        } else {
            f64::search(&self.f64, &wide, offset, &mut found.codes, 1);
        }
        Some(found)
    }
}

/// Appends the values outside a bin, given by its two ends (or those that are not NaN), with their
/// rows.
#[inline(always)]
fn others<T: SearchFloat>(values: &[T], start: usize, ends: Option<(Option<T>, T)>, rows: &mut Vec<u32>, out: &mut Vec<T>) {
    match ends {
        None => filter(values, start, rows, out, |x| x.partial_cmp(&x).is_some()),
        // NaN is no more than any end.
        Some((None, high)) => filter(values, start, rows, out, |x| x.partial_cmp(&high).is_none_or(|o| o.is_gt())),
        Some((Some(low), high)) => filter(values, start, rows, out, |x| x <= low || x.partial_cmp(&high).is_none_or(|o| o.is_gt())),
    }
}

#[inline(always)]
fn filter<T: Copy>(values: &[T], start: usize, rows: &mut Vec<u32>, out: &mut Vec<T>, other: impl Fn(T) -> bool) {
    for (k, chunk) in values.chunks(LANES).enumerate() {
        // Without a branch a value, so that vectors are compared.
        if chunk.iter().fold(false, |any, x| any | other(*x)) {
            for (i, x) in chunk.iter().enumerate() {
                if other(*x) {
                    rows.push((start + k * LANES + i) as u32);
                    out.push(*x);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Proves that default and exceptions together are the codes, for every default, for f32
        /// and f64, with missing values, infinities and values on the borders.
        #[test]
        fn exceptions_and_the_default_are_the_codes(
            raw in prop::collection::vec(-6i32..7, 0..300),
            borders in prop::sample::subsequence((-5..6).collect::<Vec<i32>>(), 0..8),
            offset in 0usize..2,
        ) {
            let value = |i: &i32| match i {
                6 => if offset == 1 { f32::NAN } else { 0.0 },
                5 => f32::INFINITY,
                -6 => f32::NEG_INFINITY,
                i => *i as f32,
            };
            let values: Vec<f32> = raw.iter().map(value).collect();
            let wide: Vec<f64> = values.iter().map(|x| f64::from(*x)).collect();
            let borders: Vec<f64> = borders.into_iter().map(f64::from).collect();
            let quantizer = Quantizer::new(&borders);
            let mut scratch = QuantizerScratch::default();
            let mut codes = vec![0u8; values.len()];
            quantizer.codes(&Column::from_f32("x", &values), 0, values.len(), offset, &mut codes, 1, &mut scratch);
            for default in 0..(offset + borders.len() + 1) as u8 {
                let rows: Vec<u32> = (0..codes.len() as u32).filter(|r| codes[*r as usize] != default).collect();
                let expected = Exceptions { default, codes: rows.iter().map(|r| codes[*r as usize]).collect(), rows };
                for column in [Column::from_f32("x", &values), Column::from_f64("x", &wide)] {
                    let n = expected.rows.len();
                    let found = quantizer.exceptions(&column, offset, default, n, &mut scratch);
                    prop_assert_eq!(found.as_ref(), Some(&expected));
                    let of_codes = Exceptions::of_codes(&codes, default, n);
                    prop_assert_eq!(of_codes.as_ref(), Some(&expected));
                    if n > 0 {
                        prop_assert_eq!(Exceptions::of_codes(&codes, default, n - 1), None);
                        prop_assert_eq!(quantizer.exceptions(&column, offset, default, n - 1, &mut scratch), None);
                    }
                }
            }
        }
    }
}
