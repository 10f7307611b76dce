//! From values to the codes that a compiled model tests.
//!
//! A code is a byte: 0 for a missing value, else `1 + #(borders < x)`. Three ways lead to it, all
//! exact:
//!
//! - few borders: bisection in registers ([`few_borders`]), or compare with every one, many rows at once;
//! - many borders and many rows: a `Grid` says how many borders are surely below, and the few in
//!   the value's own cell are compared;
//! - else bisection.

mod few_borders;

use crate::column::Column;
use multiversion::multiversion;
use std::sync::OnceLock;

/// The most borders that codes of one byte can tell apart.
pub const MAX_SLOT_BORDERS: usize = 254;

/// The most borders that are all compared (measured: about where a grid becomes cheaper, for f32
/// a little above, for f64 a little below).
const MAX_LINEAR: usize = 40;

/// The fewest rows a call for which a grid is worth its making.
const MIN_GRID_ROWS: usize = 4096;

/// Buffers for values on their way to codes.
#[derive(Default)]
pub struct Scratch {
    f32: Vec<f32>,
    f64: Vec<f64>,
    cells: Vec<u16>,
}

/// The ascending borders (at most [`MAX_SLOT_BORDERS`]) that one byte of code tells apart.
pub struct Search {
    f64: Vec<f64>,
    /// The borders rounded down. For an f32 `x`, `x > border` just when `x > rounded`: no f32
    /// lies between the two.
    f32: Vec<f32>,
    grid: OnceLock<Option<Grid>>,
}

/// The largest f32 that is not larger than `x` (which is not NaN).
fn round_down(x: f64) -> f32 {
    let nearest = x as f32;
    if nearest as f64 > x { nearest.next_down() } else { nearest }
}

impl Search {
    pub fn new(borders: &[f64]) -> Self {
        Search { f64: borders.to_vec(), f32: borders.iter().map(|b| round_down(*b)).collect(), grid: OnceLock::new() }
    }

    pub fn borders(&self) -> &[f64] {
        &self.f64
    }

    /// Writes the codes of rows `start .. start + n` to the front of `out`.
    pub fn codes(&self, column: &Column<'_>, start: usize, n: usize, out: &mut [u8], scratch: &mut Scratch) {
        let (out, Scratch { f32, f64, cells }) = (&mut out[..n], scratch);
        cells.resize(n, 0);
        if column.is_f32() {
            let x = column.read_f32(start, n, f32);
            if few_borders::codes(x, &self.f32, out) {
                return;
            }
            match self.grid(column.len()) {
                Some(grid) => {
                    grid.cells_f32(x, cells);
                    grid.codes(x, cells, &grid.f32, out);
                }
                None if self.f32.len() <= MAX_LINEAR => linear_f32(x, &self.f32, out),
                None => bisect(x, &self.f32, out),
            }
            mark_missing_f32(x, out);
        } else {
            f64.resize(n, 0.0);
            column.read_f64(start, f64);
            match self.grid(column.len()) {
                Some(grid) => {
                    grid.cells_f64(f64, cells);
                    grid.codes(f64, cells, &grid.f64, out);
                }
                None if self.f64.len() <= MAX_LINEAR => linear_f64(f64, &self.f64, out),
                None => bisect(f64, &self.f64, out),
            }
            mark_missing_f64(f64, out);
        }
    }

    /// Returns the grid, where there are borders and rows enough for one.
    fn grid(&self, rows: usize) -> Option<&Grid> {
        let pays = self.f64.len() > MAX_LINEAR && rows >= MIN_GRID_ROWS;
        if pays { self.grid.get_or_init(|| Grid::new(&self.f64, &self.f32)).as_ref() } else { None }
    }
}

macro_rules! for_float {
    ($float:ty, $counter:ty, $linear:ident, $mark_missing:ident) => {
        /// Codes by comparing with every border; those of missing values come out wrong.
        #[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
        fn $linear(values: &[$float], borders: &[$float], out: &mut [u8]) {
            out.fill(1);
            // Eight borders a pass over the rows, which stay in the first cache.
            for some in borders.chunks(8) {
                let mut eight = [<$float>::INFINITY; 8];
                eight[..some.len()].copy_from_slice(some);
                for (x, out) in values.iter().zip(&mut *out) {
                    let mut count = 0 as $counter;
                    for b in eight {
                        count += (*x > b) as $counter;
                    }
                    *out += count as u8;
                }
            }
        }

        #[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
        fn $mark_missing(values: &[$float], out: &mut [u8]) {
            for (x, out) in values.iter().zip(out) {
                *out = if x.is_nan() { 0 } else { *out };
            }
        }
    };
}

for_float!(f32, u32, linear_f32, mark_missing_f32);
for_float!(f64, u64, linear_f64, mark_missing_f64);

/// Codes by bisection; those of missing values come out wrong.
fn bisect<T: PartialOrd + Copy>(values: &[T], borders: &[T], out: &mut [u8]) {
    for (x, out) in values.iter().zip(out) {
        *out = borders.partition_point(|b| x > b) as u8 + 1;
    }
}

/// How a value finds its cell: some function that never falls as the value rises, so that borders
/// of lower cells are below the value and borders of higher cells are above it, however the
/// function rounds.
#[derive(Clone, Copy)]
enum Scale {
    /// `(x - low) * steps`: for values that are spread evenly.
    Linear { low: f32, steps: f32 },
    /// The bits of the f32 in the order of their values, from `low` on: for values over many
    /// orders of magnitude.
    Bits { low: u32, shift: u32 },
}

/// The bits of `x` as an integer of the same order; both zeros are one.
#[inline(always)]
fn ordered_bits(x: f32) -> u32 {
    let bits = (x + 0.0).to_bits();
    bits ^ (((bits as i32) >> 31) as u32 | 0x8000_0000)
}

const MAX_CELLS: usize = 4096;

impl Scale {
    #[inline(always)]
    fn cell(self, x: f32, last: u16) -> u16 {
        match self {
            Scale::Linear { low, steps } => ((x - low) * steps).max(0.0).min(last as f32) as i32 as u16,
            Scale::Bits { low, shift } => (ordered_bits(x).saturating_sub(low) >> shift).min(last as u32) as u16,
        }
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn cells_f32(scale: Scale, last: u16, values: &[f32], out: &mut [u16]) {
    match scale {
        Scale::Linear { .. } => values.iter().zip(out).for_each(|(x, o)| *o = scale.cell(*x, last)),
        Scale::Bits { .. } => values.iter().zip(out).for_each(|(x, o)| *o = scale.cell(*x, last)),
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn cells_f64(scale: Scale, last: u16, values: &[f64], out: &mut [u16]) {
    match scale {
        Scale::Linear { .. } => values.iter().zip(out).for_each(|(x, o)| *o = scale.cell(*x as f32, last)),
        Scale::Bits { .. } => values.iter().zip(out).for_each(|(x, o)| *o = scale.cell(*x as f32, last)),
    }
}

/// Cells over the range of the borders. Of each: 1 + the number of borders in lower cells.
struct Grid {
    scale: Scale,
    last: u16,
    first: Box<[u8; MAX_CELLS]>,
    /// The most borders that share a cell.
    crowd: usize,
    /// The borders, then +∞, which nothing is above.
    f32: Box<[f32; 256 + MAX_CROWD]>,
    f64: Box<[f64; 256 + MAX_CROWD]>,
}

const MAX_CROWD: usize = 4;

impl Grid {
    /// The coarsest grid that keeps borders apart; none if they crowd in all of them.
    fn new(f64s: &[f64], f32s: &[f32]) -> Option<Grid> {
        let finite = || f64s.iter().map(|b| *b as f32).filter(|b| b.is_finite());
        let (low, high) = (finite().next()?, finite().next_back()?);
        let bits = |cells: u32| {
            let range = ordered_bits(high) - ordered_bits(low);
            Scale::Bits { low: ordered_bits(low), shift: (32 - range.leading_zeros()).saturating_sub(cells.ilog2()) }
        };
        let linear = |cells: u32| Scale::Linear { low, steps: (cells - 1) as f32 / (high - low) };
        let usable = |s: &Scale| !matches!(s, Scale::Linear { steps, .. } if !(steps.is_finite() && *steps > 0.0));
        let crowd = |scale: Scale, cells: u32| {
            // Borders ascend, so those of a cell stand together.
            let of = |b: &f64| scale.cell(*b as f32, (cells - 1) as u16);
            f64s.chunk_by(|a, b| of(a) == of(b)).map(<[f64]>::len).max().unwrap_or(0)
        };
        let trials = [1024, MAX_CELLS as u32].into_iter().flat_map(|cells| [(linear(cells), cells), (bits(cells), cells)]);
        let (crowd, scale, cells) =
            trials.filter(|(s, _)| usable(s)).map(|(s, cells)| (crowd(s, cells), s, cells)).min_by_key(|t| t.0.max(2))?;
        if crowd > MAX_CROWD {
            return None;
        }
        let last = (cells - 1) as u16;
        let mut first = Box::new([0; MAX_CELLS]);
        let mut below = 0;
        for (cell, first) in first.iter_mut().enumerate().take(cells as usize) {
            while below < f64s.len() && (scale.cell(f64s[below] as f32, last) as usize) < cell {
                below += 1;
            }
            *first = below as u8 + 1;
        }
        let mut grid = Grid { scale, last, first, crowd, f32: Box::new([f32::INFINITY; _]), f64: Box::new([f64::INFINITY; _]) };
        // One place further, as `first` counts from 1.
        grid.f32[1..=f32s.len()].copy_from_slice(f32s);
        grid.f64[1..=f64s.len()].copy_from_slice(f64s);
        Some(grid)
    }

    fn cells_f32(&self, values: &[f32], cells: &mut [u16]) {
        cells_f32(self.scale, self.last, values, cells);
    }

    fn cells_f64(&self, values: &[f64], cells: &mut [u16]) {
        cells_f64(self.scale, self.last, values, cells);
    }

    /// Codes of values whose cells are known; those of missing values come out wrong.
    fn codes<T: PartialOrd + Copy>(&self, values: &[T], cells: &[u16], borders: &[T; 256 + MAX_CROWD], out: &mut [u8]) {
        match self.crowd {
            0 | 1 => self.codes_of::<T, 1>(values, cells, borders, out),
            2 => self.codes_of::<T, 2>(values, cells, borders, out),
            3 => self.codes_of::<T, 3>(values, cells, borders, out),
            _ => self.codes_of::<T, MAX_CROWD>(values, cells, borders, out),
        }
    }

    fn codes_of<T: PartialOrd + Copy, const CROWD: usize>(
        &self,
        values: &[T],
        cells: &[u16],
        borders: &[T; 256 + MAX_CROWD],
        out: &mut [u8],
    ) {
        for ((x, cell), out) in values.iter().zip(cells).zip(out) {
            let first = self.first[*cell as usize % MAX_CELLS];
            let mut code = first;
            for k in 0..CROWD {
                code += (*x > borders[first as usize + k]) as u8;
            }
            *out = code;
        }
    }
}
