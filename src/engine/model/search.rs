//! From values to the codes that a compiled model tests.
//!
//! A code is a byte: 0 for a missing value, else `1 + #(borders < x)`.

use crate::column::Column;
use multiversion::multiversion;

/// Rows are handled in groups of this many: as many bytes as the widest vector register holds.
pub(super) const LANES: usize = 64;

/// The most borders that codes of one byte can tell apart.
pub(super) const MAX_SLOT_BORDERS: usize = 254;

/// Buffers for values on their way to codes.
#[derive(Default)]
pub(super) struct Scratch {
    f32: Vec<f32>,
    f64: Vec<f64>,
}

/// The ascending borders (at most [`MAX_SLOT_BORDERS`]) that one byte of code tells apart.
pub(super) struct Search {
    f64: Vec<f64>,
    /// The borders rounded down. For an f32 `x`, `x > border` just when `x > rounded`: no f32
    /// lies between the two.
    f32: Vec<f32>,
}

/// The largest f32 that is not larger than `x` (which is not NaN).
fn round_down(x: f64) -> f32 {
    let nearest = x as f32;
    if nearest as f64 > x { nearest.next_down() } else { nearest }
}

impl Search {
    pub fn new(borders: &[f64]) -> Self {
        Search { f64: borders.to_vec(), f32: borders.iter().map(|b| round_down(*b)).collect() }
    }

    /// Writes the codes of rows `start .. start + n` to the front of `out`.
    pub fn codes(&self, column: &Column<'_>, start: usize, n: usize, out: &mut [u8], scratch: &mut Scratch) {
        let out = &mut out[..n];
        if column.is_f32() {
            codes_f32(column.read_f32(start, n, &mut scratch.f32), &self.f32, out);
        } else {
            scratch.f64.resize(n, 0.0);
            column.read_f64(start, &mut scratch.f64[..n]);
            codes_f64(&scratch.f64[..n], &self.f64, out);
        }
    }
}

macro_rules! count_linear {
    ($name:ident, $float:ty, $counter:ty, $width:literal) => {
        /// Codes of whole groups by comparing with every border, and of the rest by bisection.
        #[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
        fn $name(values: &[$float], borders: &[$float], out: &mut [u8]) {
            let (groups, rest) = values.as_chunks::<$width>();
            let (out_groups, out_rest) = out.as_chunks_mut::<$width>();
            for (x, out) in groups.iter().zip(out_groups) {
                let mut count = [0 as $counter; $width];
                for &b in borders {
                    for i in 0..$width {
                        count[i] += (x[i] > b) as $counter;
                    }
                }
                for i in 0..$width {
                    out[i] = if x[i].is_nan() { 0 } else { count[i] as u8 + 1 };
                }
            }
            for (x, out) in rest.iter().zip(out_rest) {
                *out = if x.is_nan() { 0 } else { borders.partition_point(|b| x > b) as u8 + 1 };
            }
        }
    };
}

count_linear!(codes_f32, f32, u32, 32);
count_linear!(codes_f64, f64, u64, 32);
