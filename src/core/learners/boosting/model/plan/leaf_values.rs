//! Adds the values of leaves, which one byte numbers, to the sums of rows.

/// The most leaves of a tree whose leaves one byte can number.
pub const MAX_LEAVES: usize = 256;

/// Adds `values[leaf]` to the sum of each row. `leaves`: of each row, and of others behind them. `narrow`: whether all values are numbers of
/// f32, as those of a fit are.
///
/// With AVX-512 the values of up to 128 leaves stand in registers, which 16 rows at a time are looked up in: 0.16 ns a row and tree of 64 leaves (0.21 where
/// they are not narrow) instead of 0.5 one row after the other (Zen 4).
pub fn add(values: &[f64], narrow: bool, leaves: &[u8], sums: &mut [f64]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && values.len() <= 128 {
        // SAFETY: the processor has the feature that the functions are compiled for.
        return unsafe {
            match values.len() {
                0..=16 => x86::add::<1>(values, narrow, leaves, sums),
                17..=32 => x86::add::<2>(values, narrow, leaves, sums),
                33..=64 => x86::add::<4>(values, narrow, leaves, sums),
                _ => x86::add::<8>(values, narrow, leaves, sums),
            }
        };
    }
    let _ = narrow;
    add_each(values, leaves, sums);
}

/// Computes [`add`], one row after the other.
fn add_each(values: &[f64], leaves: &[u8], sums: &mut [f64]) {
    // A byte can't point outside of this copy.
    let mut table = [0.0; MAX_LEAVES];
    table[..values.len()].copy_from_slice(values);
    for (sum, leaf) in sums.iter_mut().zip(leaves) {
        *sum += table[*leaf as usize];
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Rows that are looked up together.
    const ROWS: usize = 16;

    /// Computes [`super::add`] of at most `16 * TABLES` leaves (1, 2, 4 or 8 tables).
    #[target_feature(enable = "avx512f")]
    pub fn add<const TABLES: usize>(values: &[f64], narrow: bool, leaves: &[u8], sums: &mut [f64]) {
        if narrow {
            let tables = tables::<TABLES>(values, |value| (value as f32).to_bits());
            return add_groups(values, leaves, sums, |leaves| {
                let values = look_up(&tables, _mm512_cvtepu8_epi32(leaves));
                let [low, high] = [_mm512_castsi512_si256(values), _mm512_extracti64x4_epi64::<1>(values)];
                [_mm512_cvtps_pd(_mm256_castsi256_ps(low)), _mm512_cvtps_pd(_mm256_castsi256_ps(high))]
            });
        }
        // The lower and the upper halves of the values by themselves. Where these are put together, rows 0 and 1 of each quarter go to the first vector, and
        // 2 and 3 to the second.
        let (low, high) = (tables::<TABLES>(values, |v| v.to_bits() as u32), tables::<TABLES>(values, |v| (v.to_bits() >> 32) as u32));
        let order = _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
        add_groups(values, leaves, sums, |leaves| {
            let leaves = _mm512_cvtepu8_epi32(_mm_shuffle_epi8(leaves, order));
            let (low, high) = (look_up(&low, leaves), look_up(&high, leaves));
            [_mm512_unpacklo_epi32(low, high), _mm512_unpackhi_epi32(low, high)].map(|values| _mm512_castsi512_pd(values))
        });
    }

    /// Adds to the sums what `look_up` finds for 16 leaves at a time.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn add_groups(values: &[f64], leaves: &[u8], sums: &mut [f64], look_up: impl Fn(__m128i) -> [__m512d; 2]) {
        let (groups, rest) = sums.as_chunks_mut::<ROWS>();
        for (sums, leaves) in groups.iter_mut().zip(leaves.as_chunks::<ROWS>().0) {
            // SAFETY: there are 16 bytes.
            let [low, high] = look_up(unsafe { _mm_loadu_si128(leaves.as_ptr().cast()) });
            let at = sums.as_mut_ptr();
            // SAFETY: there are 16 numbers.
            unsafe {
                _mm512_storeu_pd(at, _mm512_add_pd(_mm512_loadu_pd(at), low));
                _mm512_storeu_pd(at.add(8), _mm512_add_pd(_mm512_loadu_pd(at.add(8)), high));
            }
        }
        if !rest.is_empty() {
            super::add_each(values, &leaves[groups.len() * ROWS..], rest);
        }
    }

    /// Returns 32 bits of each value as vectors of 16.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn tables<const TABLES: usize>(values: &[f64], bits: impl Fn(f64) -> u32) -> [__m512i; TABLES] {
        let mut tables = [[0u32; ROWS]; TABLES];
        values.iter().zip(tables.as_flattened_mut()).for_each(|(value, entry)| *entry = bits(*value));
        // SAFETY: a table has 16 numbers.
        tables.map(|table| unsafe { _mm512_loadu_si512(table.as_ptr().cast()) })
    }

    /// Returns the entries of 16 leaves; of a leaf beyond the tables another's.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn look_up<const TABLES: usize>(tables: &[__m512i; TABLES], leaves: __m512i) -> __m512i {
        if TABLES == 1 {
            return _mm512_permutexvar_epi32(leaves, tables[0]);
        }
        let of_32 = |k: usize| _mm512_permutex2var_epi32(tables[2 * k], leaves, tables[2 * k + 1]);
        if TABLES == 2 {
            return of_32(0);
        }
        let upper = _mm512_test_epi32_mask(leaves, _mm512_set1_epi32(32));
        let of_64 = |k: usize| _mm512_mask_blend_epi32(upper, of_32(2 * k), of_32(2 * k + 1));
        if TABLES == 4 {
            return of_64(0);
        }
        _mm512_mask_blend_epi32(_mm512_test_epi32_mask(leaves, _mm512_set1_epi32(64)), of_64(0), of_64(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::random::{Purpose, Random};

    /// Proves that rows get the values of their leaves, to the last bit, whatever the number of leaves and of rows, of f32 and of f64: negative zeros,
    /// infinities, NaN and the least numbers among them.
    #[test]
    fn sums_are_those_of_one_row_after_the_other() {
        let random = Random::new(5, Purpose::RowSample, 0);
        for (leaves, narrow) in
            [1, 2, 15, 16, 17, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256].into_iter().flat_map(|n| [(n, false), (n, true)])
        {
            let mut values: Vec<f64> = (0..leaves as u64).map(|k| random.unit(k) - 0.5).collect();
            let odd = [-0.0, f64::INFINITY, f64::MIN_POSITIVE / 4.0, f64::NAN, f64::MAX];
            odd.into_iter().zip(values.iter_mut().step_by(7)).for_each(|(odd, value)| *value = odd);
            if narrow {
                values.iter_mut().for_each(|value| *value = *value as f32 as f64);
            }
            let are_f32 = values.iter().all(|value| (*value as f32 as f64).to_bits() == value.to_bits());
            assert_eq!(are_f32, narrow || leaves == 1);
            for rows in [0, 1, 15, 16, 17, 100, 512] {
                let of_rows: Vec<u8> = (0..rows + 40).map(|row| (random.u64(row as u64) % leaves as u64) as u8).collect();
                let mut sums: Vec<f64> = (0..rows as u64).map(|row| random.unit(row) * 1e3).collect();
                let wanted: Vec<u64> = sums.iter().zip(&of_rows).map(|(sum, leaf)| (sum + values[*leaf as usize]).to_bits()).collect();
                add(&values, narrow, &of_rows, &mut sums);
                assert_eq!(
                    sums.iter().map(|sum| sum.to_bits()).collect::<Vec<_>>(),
                    wanted,
                    "{rows} rows, {leaves} leaves, narrow {narrow}"
                );
            }
        }
    }
}
