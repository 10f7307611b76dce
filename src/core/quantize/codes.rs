//! The code of each value: `offset + #(borders < x)`, and 0 for a missing value.
//!
//! The search (`search.rs`) has no branches that depend on the data, so that its time doesn't
//! either.

use super::search::{BorderTable, SearchFloat};
use crate::column::Column;

/// Finds the code of a value among a feature's borders.
///
/// The borders are kept as f64 and, rounded down, as f32. For an f32 value the two tests agree:
/// let `f` be the largest f32 `<= border`; then `x > border` implies `x > f`, and `x > f` means
/// that `x` is at least the next f32 above `f`, which is `> border`.
///
/// ```
/// use taiga_core::column::Column;
/// use taiga_core::quantize::codes::{Quantizer, QuantizerScratch};
/// let values = [1.0f32, 2.0, f32::NAN, 3.0];
/// let (mut codes, mut scratch) = ([0u8; 4], QuantizerScratch::default());
/// let missing = Quantizer::new(&[1.5, 2.0]).codes(&Column::from_f32("x", &values), 0, 4, 1, &mut codes, 1, &mut scratch);
/// assert_eq!((codes, missing), ([1, 2, 0, 3], true));
/// ```
#[derive(Clone, Debug)]
pub struct Quantizer {
    pub(super) f32: BorderTable<f32>,
    pub(super) f64: BorderTable<f64>,
}

/// An unsigned integer that holds codes.
pub trait Code: Copy + Default + Send + Sync + 'static {
    /// `x`, which fits.
    fn from_usize(x: usize) -> Self;
}
impl Code for u8 {
    fn from_usize(x: usize) -> Self {
        x as u8
    }
}
impl Code for u16 {
    fn from_usize(x: usize) -> Self {
        x as u16
    }
}
impl Code for u32 {
    fn from_usize(x: usize) -> Self {
        x as u32
    }
}

impl Quantizer {
    /// Makes a quantizer of ascending `borders`, none of them NaN.
    pub fn new(borders: &[f64]) -> Self {
        let rounded: Vec<f32> = borders.iter().map(|&b| round_down(b)).collect();
        Quantizer { f32: BorderTable::new(&rounded), f64: BorderTable::new(borders) }
    }

    /// Writes the codes of rows `start .. start + len` of `column` to `out[0]`, `out[stride]`,
    /// `out[2 * stride]`, …: `offset + (number of borders < x)`, and 0 for a missing value.
    /// Returns whether any value was missing. `scratch` is reused between calls.
    ///
    /// With `offset` 1 the code 0 means missing and nothing else; with `offset` 0 a missing value
    /// shares the code of the lowest bin. `offset` + the number of borders has to fit into `C`.
    ///
    /// # Panics
    /// When the column has fewer than `start + len` rows, or `out` is too short for them.
    #[allow(clippy::too_many_arguments)]
    pub fn codes<C: Code>(
        &self,
        column: &Column<'_>,
        start: usize,
        len: usize,
        offset: usize,
        out: &mut [C],
        stride: usize,
        scratch: &mut QuantizerScratch,
    ) -> bool {
        if column.is_f32() {
            f32::search(&self.f32, column.read_f32(start, len, &mut scratch.f32), offset, out, stride)
        } else {
            scratch.f64.resize(len, 0.0);
            column.read_f64(start, &mut scratch.f64);
            f64::search(&self.f64, &scratch.f64, offset, out, stride)
        }
    }
}

/// Buffers that [`Quantizer::codes`] reuses.
#[derive(Default)]
pub struct QuantizerScratch {
    pub f32: Vec<f32>,
    pub f64: Vec<f64>,
}

/// Returns the largest f32 that is at most `x`.
pub fn round_down(x: f64) -> f32 {
    let nearest = x as f32;
    if f64::from(nearest) > x { nearest.next_down() } else { nearest }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::{Bits, Chunk, FeatureType, Values};
    use proptest::prelude::*;

    /// Returns the code of one value, by the definition.
    fn naive(borders: &[f64], x: f64, offset: usize) -> u16 {
        if x.is_nan() { 0 } else { (offset + borders.iter().filter(|&&b| b < x).count()) as u16 }
    }

    fn codes_of(borders: &[f64], column: &Column<'_>, offset: usize) -> (Vec<u16>, bool) {
        let mut out = vec![u16::MAX; column.len()];
        let missing = Quantizer::new(borders).codes(column, 0, column.len(), offset, &mut out, 1, &mut QuantizerScratch::default());
        (out, missing)
    }

    /// Any f32: all bit patterns, and the special ones often.
    fn any_f32() -> impl Strategy<Value = f32> {
        prop_oneof![
            4 => any::<u32>().prop_map(f32::from_bits),
            4 => (-40i32..40).prop_map(|i| i as f32 / 4.0),
            1 => (0u32..20).prop_map(f32::from_bits),
            1 => (0u32..20).prop_map(|i| -f32::from_bits(i)),
            1 => prop::sample::select(vec![f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN, f32::MIN_POSITIVE, 0.0, -0.0]),
        ]
    }

    /// Borders on f32 values, just beside them, between them and out of their range.
    fn any_border() -> impl Strategy<Value = f64> {
        let beside = (any_f32(), 0u8..4).prop_map(|(x, k)| {
            let (x, next) = (f64::from(x), f64::from(x.next_up()));
            match k {
                0 => x,
                1 => x.next_up(),
                2 => x.next_down(),
                _ => x + (next - x) / 2.0,
            }
        });
        prop_oneof![
            8 => beside,
            1 => prop::sample::select(vec![1e300, -1e300, 1e-300, -1e-300, 5e-324, f64::MAX, f64::MIN, f64::NEG_INFINITY]),
        ]
    }

    fn ascending(mut borders: Vec<f64>) -> Vec<f64> {
        borders.retain(|b| !b.is_nan());
        borders.sort_by(f64::total_cmp);
        borders.dedup();
        borders
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn f32_codes_equal_f64_codes_and_the_naive_count(
            borders in prop::collection::vec(any_border(), 0..300),
            mut values in prop::collection::vec(any_f32(), 0..100),
            offset in 0usize..2,
        ) {
            let borders = ascending(borders);
            // Values on the borders and beside them.
            for b in &borders {
                let b = *b as f32;
                values.extend([b, b.next_up(), b.next_down()]);
            }
            let wide: Vec<f64> = values.iter().map(|&x| f64::from(x)).collect();
            let expected: Vec<u16> = wide.iter().map(|&x| naive(&borders, x, offset)).collect();
            let missing = wide.iter().any(|x| x.is_nan());
            prop_assert_eq!(codes_of(&borders, &Column::from_f32("x", &values), offset), (expected.clone(), missing));
            prop_assert_eq!(codes_of(&borders, &Column::from_f64("x", &wide), offset), (expected, missing));
        }

        #[test]
        fn codes_rise_with_values(borders in prop::collection::vec(any_border(), 0..256), values in prop::collection::vec(any_f32(), 0..300)) {
            let mut values: Vec<f32> = values.into_iter().filter(|x| !x.is_nan()).collect();
            values.sort_by(f32::total_cmp);
            let (codes, missing) = codes_of(&ascending(borders), &Column::from_f32("x", &values), 0);
            prop_assert!(!missing && codes.windows(2).all(|w| w[0] <= w[1]));
        }

        #[test]
        fn chunks_offsets_and_strides_change_no_code(
            values in prop::collection::vec(any_f32(), 1..200),
            valid in prop::collection::vec(any::<u8>(), 26),
            cut in 0usize..200,
            start in 0usize..200,
            stride in 1usize..40,
            wide: bool,
        ) {
            let borders: Vec<f64> = (-50..50).map(|i| i as f64 / 5.0).collect();
            let n = values.len();
            let (cut, start) = (cut.min(n), start.min(n));
            let f64s: Vec<f64> = values.iter().map(|&x| f64::from(x)).collect();
            let validity = |at: usize, len: usize| Some(Bits::new(&valid, at, len));
            let chunk = |at: usize, end: usize| {
                let v = if wide { Values::F64(&f64s[at..end]) } else { Values::F32(&values[at..end]) };
                Chunk::new(v, validity(at, end - at))
            };
            let one = Column::new("x", FeatureType::Numeric, vec![chunk(0, n)]);
            let two = Column::new("x", FeatureType::Numeric, vec![chunk(0, cut), chunk(cut, n)]);
            let expected: Vec<u16> = one.to_f64().iter().map(|&x| naive(&borders, x, 1)).collect();
            prop_assert_eq!(&codes_of(&borders, &one, 1).0, &expected);
            // Rows from `start` on, every `stride`-th place; the places between stay as they were.
            let mut out = vec![77u8; (n - start) * stride];
            let missing = Quantizer::new(&borders).codes(&two, start, n - start, 1, &mut out, stride, &mut QuantizerScratch::default());
            prop_assert_eq!(missing, expected[start..].contains(&0));
            for (i, &code) in out.iter().enumerate() {
                prop_assert_eq!(u16::from(code), if i % stride == 0 { expected[start + i / stride] } else { 77 });
            }
        }
    }

    #[test]
    fn more_borders_than_a_byte_holds() {
        for n in [255, 256, 257, 512, 513, 10_000] {
            let borders: Vec<f64> = (0..n).map(f64::from).collect();
            let values: Vec<f64> = (-1..=n).flat_map(|i| [i as f64, i as f64 + 0.5]).chain([f64::INFINITY]).collect();
            let expected: Vec<u16> = values.iter().map(|&x| naive(&borders, x, 0)).collect();
            assert_eq!(codes_of(&borders, &Column::from_f64("x", &values), 0).0, expected);
        }
        // The largest code of a byte: 255 borders without an offset, 254 with one.
        let borders: Vec<f64> = (0..255).map(f64::from).collect();
        let mut out = [0u8];
        Quantizer::new(&borders).codes(&Column::from_f64("x", &[1e300]), 0, 1, 0, &mut out, 1, &mut QuantizerScratch::default());
        assert_eq!(out, [255]);
        Quantizer::new(&borders[..254]).codes(&Column::from_f64("x", &[1e300]), 0, 1, 1, &mut out, 1, &mut QuantizerScratch::default());
        assert_eq!(out, [255]);
    }

    #[test]
    fn integers_decimals_and_booleans_go_through_f64() {
        let column = |v| Column::new("x", FeatureType::Numeric, vec![Chunk::new(v, None)]);
        assert_eq!(codes_of(&[0.5, 1e18], &column(Values::I64(&[-5, 0, 1, i64::MAX])), 1), (vec![1, 1, 2, 3], false));
        assert_eq!(codes_of(&[1.25], &column(Values::Decimal(&[125, 126], 2)), 1), (vec![1, 2], false));
        assert_eq!(codes_of(&[0.5], &column(Values::Bool(Bits::new(&[0b10], 0, 2))), 1), (vec![1, 2], false));
    }

    #[test]
    fn no_borders_and_no_rows() {
        assert_eq!(codes_of(&[], &Column::from_f32("x", &[1.0, f32::NAN, f32::INFINITY]), 1), (vec![1, 0, 1], true));
        assert_eq!(codes_of(&[1.0], &Column::from_f32("x", &[]), 1), (vec![], false));
        assert_eq!(codes_of(&[1.0], &Column::new("x", FeatureType::Numeric, vec![]), 1), (vec![], false));
    }

    #[test]
    fn rounding_down_is_the_largest_f32_at_most_x() {
        for x in [0.1, -0.1, 1e300, -1e300, 1e-300, -1e-300, 1.0, 5e-324, f64::INFINITY, f64::NEG_INFINITY, 3.4028235677973366e38] {
            let f = round_down(x);
            assert!(f64::from(f) <= x, "{x}: {f}");
            assert!(f == f32::INFINITY || f64::from(f.next_up()) > x, "{x}: {f}");
        }
    }
}
