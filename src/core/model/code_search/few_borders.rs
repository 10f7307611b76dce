//! Codes of f32 values among few borders, which stand in registers: bisection of 16 values at a time, with AVX-512.
//!
//! Among f64 values the same, by the f32 above each and borders rounded down, took 3 % off a prediction that reads them (Zen 4, 2026-11-29): their bytes are
//! what it waits for. So there is none.

/// The most borders.
pub const MOST: usize = 63;

/// Writes the codes of values among at most [`MOST`] ascending borders, and returns true; false, and nothing, for more borders or without AVX-512.
pub fn codes(values: &[f32], borders: &[f32], out: &mut [u8]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has the feature that the functions are compiled for.
        unsafe {
            match borders.len() {
                0..=15 => x86::codes::<1>(values, borders, out),
                16..=31 => x86::codes::<2>(values, borders, out),
                32..=MOST => x86::codes::<4>(values, borders, out),
                _ => return false,
            }
        }
        return true;
    }
    let _ = (values, borders, out);
    false
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Numbers of a vector of f32.
    const LANES: usize = 16;

    /// Fewer than `16 * TABLES` borders (1, 2 or 4 tables), with +∞, which is below nothing, behind them.
    struct Tables<const TABLES: usize> {
        tables: [__m512; TABLES],
        /// The border in the middle, which each value is compared with first.
        middle: __m512,
    }

    /// Computes [`super::codes`] of fewer than `16 * TABLES` borders.
    #[target_feature(enable = "avx512f")]
    pub fn codes<const TABLES: usize>(values: &[f32], borders: &[f32], out: &mut [u8]) {
        let tables = Tables::<TABLES>::new(borders);
        let (groups, rest) = values.as_chunks::<LANES>();
        for (values, out) in groups.iter().zip(out.as_chunks_mut::<LANES>().0) {
            *out = tables.codes(load(values));
        }
        let mut last = [0.0; LANES];
        last[..rest.len()].copy_from_slice(rest);
        out[groups.len() * LANES..values.len()].copy_from_slice(&tables.codes(load(&last))[..rest.len()]);
    }

    impl<const TABLES: usize> Tables<TABLES> {
        #[target_feature(enable = "avx512f")]
        #[inline]
        fn new(borders: &[f32]) -> Self {
            let mut padded = [[f32::INFINITY; LANES]; TABLES];
            padded.as_flattened_mut()[..borders.len()].copy_from_slice(borders);
            Tables { tables: padded.map(|table| load(&table)), middle: _mm512_set1_ps(padded.as_flattened()[LANES * TABLES / 2 - 1]) }
        }

        /// Returns the codes of 16 values.
        #[target_feature(enable = "avx512f")]
        #[inline]
        fn codes(&self, x: __m512) -> [u8; LANES] {
            let mut step = (LANES * TABLES / 2) as i32;
            let mut below = _mm512_maskz_set1_epi32(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(x, self.middle), step);
            while step > 1 {
                step /= 2;
                let border = self.at(_mm512_add_epi32(below, _mm512_set1_epi32(step - 1)));
                below = _mm512_mask_add_epi32(below, _mm512_cmp_ps_mask::<_CMP_GT_OQ>(x, border), below, _mm512_set1_epi32(step));
            }
            let is_number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(x, x);
            let codes = _mm512_cvtepi32_epi8(_mm512_maskz_add_epi32(is_number, below, _mm512_set1_epi32(1)));
            let mut bytes = [0; LANES];
            // SAFETY: there are 16 bytes.
            unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), codes) };
            bytes
        }

        /// Returns the borders at 16 places.
        #[target_feature(enable = "avx512f")]
        #[inline]
        fn at(&self, place: __m512i) -> __m512 {
            let tables = &self.tables;
            match TABLES {
                1 => _mm512_permutexvar_ps(place, tables[0]),
                2 => _mm512_permutex2var_ps(tables[0], place, tables[1]),
                _ => {
                    let upper = _mm512_test_epi32_mask(place, _mm512_set1_epi32(2 * LANES as i32));
                    let of = |k: usize| _mm512_permutex2var_ps(tables[k], place, tables[k + 1]);
                    _mm512_mask_blend_ps(upper, of(0), of(2))
                }
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn load(numbers: &[f32; LANES]) -> __m512 {
        // SAFETY: there are 16 numbers.
        unsafe { _mm512_loadu_ps(numbers.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::random::{Purpose, Random};

    /// Proves that values on, just above and just below each border have the codes of counting, whatever the number of borders and of rows: NaN, infinities and
    /// both zeros among them, and borders that are infinite; and that more borders are left to others.
    #[test]
    fn codes_are_those_of_counting() {
        let random = Random::new(6, Purpose::RowSample, 0);
        for n in 0..=MOST + 1 {
            let mut borders: Vec<f32> = (0..n as u64).map(|i| (random.unit(64 * n as u64 + i) as f32 - 0.5) * 9.0).collect();
            borders.sort_by(f32::total_cmp);
            if n % 3 == 2 {
                (borders[0], borders[n - 1]) = (f32::NEG_INFINITY, f32::INFINITY);
            }
            let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, f32::MAX, f32::MIN_POSITIVE];
            let values: Vec<f32> = borders.iter().flat_map(|b| [*b, b.next_up(), b.next_down()]).chain(odd).collect();
            for rows in [0, 1, 7, 15, 16, 17, values.len()] {
                let values = &values[..rows.min(values.len())];
                let naive = |x: &f32| if x.is_nan() { 0 } else { 1 + borders.iter().filter(|b| x > *b).count() as u8 };
                let mut out = vec![99; values.len()];
                if codes(values, &borders, &mut out) {
                    assert!(n <= MOST);
                    assert_eq!(out, values.iter().map(naive).collect::<Vec<_>>(), "{values:?} among {borders:?}");
                }
            }
        }
    }
}
