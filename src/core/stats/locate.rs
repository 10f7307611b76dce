//! From values to the bins that hold them: bin `i` holds `edge[i] <= x < edge[i + 1]`, the last
//! one also its upper edge.

use crate::quantize::search::{BorderTable, SearchFloat};
use multiversion::multiversion;
use std::ops::{Add, Mul, Sub};

/// Values that are looked up at once.
const LANES: usize = 64;

/// Where bins begin and end, laid out to be found by value. Compare in f64, or in f32 where both
/// the values and the edges are f32.
pub enum Locator {
    /// Bins of equal width (up to rounding) of a f32 column.
    UniformF32(Uniform<f32>),
    /// Bins of equal width (up to rounding) of a f64 column.
    UniformF64(Uniform<f64>),
    /// Any ascending edges.
    Edges(Edges),
}

impl Locator {
    /// Makes the locator of `edges` that ascend strictly and are about equally far apart; `single` for f32 values
    /// and edges that f32 holds.
    pub fn uniform(edges: &[f64], single: bool) -> Self {
        let found = if single {
            let edges = edges.iter().map(|&e| e as f32).collect();
            Uniform::<f32>::new(edges).map(Locator::UniformF32)
        } else {
            Uniform::<f64>::new(edges.to_vec()).map(Locator::UniformF64)
        };
        found.unwrap_or_else(|| Locator::edges(edges))
    }

    /// Makes the locator of any ascending `edges`, at least two; equal and infinite ones may be among them.
    pub fn edges(edges: &[f64]) -> Self {
        Locator::Edges(Edges::new(edges))
    }

    /// Returns the number of bins.
    pub fn bins(&self) -> usize {
        match self {
            Locator::UniformF32(uniform) => uniform.upper.len(),
            Locator::UniformF64(uniform) => uniform.upper.len(),
            Locator::Edges(edges) => edges.bins as usize,
        }
    }

    /// Returns whether [`Locator::locate_f32`] is the one to call.
    pub fn is_single(&self) -> bool {
        matches!(self, Locator::UniformF32(_))
    }

    /// Writes the bin of each value; the number of bins where none holds it, for NaN too.
    pub fn locate_f64(&self, values: &[f64], out: &mut [u32]) {
        match self {
            Locator::UniformF32(_) => unreachable!("f64 values for a locator of f32"),
            Locator::UniformF64(uniform) => locate_f64(uniform, values, out),
            Locator::Edges(edges) => edges.locate(values, out),
        }
    }

    /// Writes the bins of f32 values, as [`Locator::locate_f64`] does.
    pub fn locate_f32(&self, values: &[f32], out: &mut [u32]) {
        match self {
            Locator::UniformF32(uniform) => locate_f32(uniform, values, out),
            _ => unreachable!("f32 values for a locator of f64"),
        }
    }
}

/// A float type, with what locating values needs of it.
pub trait Float: Copy + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Into<f64> {
    const INFINITY: Self;
    const HALF: Self;
    /// 1.5 · 2^23, or 2^52: the lowest bits of its sum with a whole number are that number.
    const MAGIC: Self;

    fn from_f64(x: f64) -> Self;
    fn next_down(self) -> Self;
    fn next_up(self) -> Self;
    fn abs(self) -> Self;
    fn floor(self) -> Self;
    /// `k` of `MAGIC + k`.
    fn whole(self) -> u32;
    /// `Uniform::sure`, compiled for the processor.
    fn sure(uniform: &Uniform<Self>) -> Option<Self>;
}

macro_rules! float {
    ($float:ty, $bits:expr, $sure:ident) => {
        impl Float for $float {
            const INFINITY: Self = <$float>::INFINITY;
            const HALF: Self = 0.5;
            const MAGIC: Self = 1.5 * (1u64 << $bits) as $float;

            fn from_f64(x: f64) -> Self {
                x as $float
            }

            fn next_down(self) -> Self {
                self.next_down()
            }

            fn next_up(self) -> Self {
                self.next_up()
            }

            #[inline(always)]
            fn abs(self) -> Self {
                self.abs()
            }

            #[inline(always)]
            fn floor(self) -> Self {
                self.floor()
            }

            #[inline(always)]
            fn whole(self) -> u32 {
                (self.to_bits() as u32).wrapping_sub(Self::MAGIC.to_bits() as u32)
            }

            fn sure(uniform: &Uniform<Self>) -> Option<Self> {
                $sure(uniform)
            }
        }

        #[multiversion(targets("x86_64+avx2+bmi1+bmi2"))]
        fn $sure(uniform: &Uniform<$float>) -> Option<$float> {
            uniform.sure()
        }
    };
}
float!(f32, 23, sure_f32);
float!(f64, 52, sure_f64);

/// Bins of equal width. The bin is estimated as a vector, `(x - first) · scale` rounded down. The
/// estimate never falls where x rises, so what it is at an edge and just below it says how far it
/// can be from the truth, and only values whose estimate is that near to a whole number are
/// compared with the edges.
///
/// ```text
///            edge i                edge i + 1
/// ──────┬──────┼──────┬───────────┬─────┼─────┬─────  estimate
///       └ margin ─────┘   sure    └ margin ───┘
/// ```
pub struct Uniform<T> {
    edges: Vec<T>,
    /// The upper edges; infinite for the last bin, which is closed.
    upper: Vec<T>,
    first: T,
    last: T,
    scale: T,
    /// An estimate that is no farther than this from the middle of a bin is right.
    sure: T,
}
impl<T: Float> Uniform<T> {
    pub fn edges(&self) -> &[T] {
        &self.edges
    }

    /// First and last edge, scale, and how far from the middle of a bin an estimate is sure.
    pub fn numbers(&self) -> (T, T, T, T) {
        (self.first, self.last, self.scale, self.sure)
    }
}

impl<T: Float> Uniform<T> {
    /// None where an estimate would be more than one bin away.
    fn new(edges: Vec<T>) -> Option<Self> {
        let bins = edges.len() - 1;
        let (first, last) = (edges[0], edges[bins]);
        let width: f64 = last.into() - first.into();
        let scale = T::from_f64(bins as f64 / width);
        let mut upper = edges[1..].to_vec();
        upper[bins - 1] = T::INFINITY;
        let mut uniform = Uniform { edges, upper, first, last, scale, sure: T::INFINITY };
        // Another scale by a hair is often right everywhere: for whole numbers, say.
        let mut best: Option<(T, T)> = None;
        for scale in [scale, scale.next_up(), scale.next_down()] {
            uniform.scale = scale;
            let Some(sure) = T::sure(&uniform) else { continue };
            if best.is_none_or(|(widest, _)| sure > widest) {
                best = Some((sure, scale));
            }
            if sure == T::INFINITY {
                break;
            }
        }
        (uniform.sure, uniform.scale) = best?;
        Some(uniform)
    }

    /// Returns how far from the middle of a bin an estimate may be and be right for certain; infinite where none is wrong. None
    /// where one may be more than one bin away.
    #[inline(always)]
    fn sure(&self) -> Option<T> {
        let bins = self.upper.len();
        let last: f64 = self.estimate(self.last).0.into();
        if last.is_nan() || last >= (bins + 1) as f64 {
            return None;
        }
        // Whether an edge's estimate is wrong, and how far it is from where it ought to be.
        let check = |i: u32, edge: T| {
            let (at, below) = (self.estimate(edge), self.estimate(edge.next_down()));
            let wrong = (at.1 < i) | (below.1 >= i);
            let (at, below): (f64, f64) = (at.0.into(), below.0.into());
            let place = f64::from(i as i32);
            (wrong as u32, (at - place).abs().max((below - place).abs()))
        };
        // Edges side by side, so that they are checked as vectors.
        const SIDES: usize = 8;
        let (mut margins, mut wrong) = ([0f64; SIDES], [0u32; SIDES]);
        let (whole, rest) = self.edges[1..bins].as_chunks::<SIDES>();
        for (block, edges) in whole.iter().enumerate() {
            for k in 0..SIDES {
                let found = check((1 + block * SIDES + k) as u32, edges[k]);
                wrong[k] |= found.0;
                margins[k] = margins[k].max(found.1);
            }
        }
        for (k, edge) in rest.iter().enumerate() {
            let found = check((1 + whole.len() * SIDES + k) as u32, *edge);
            wrong[k] |= found.0;
            margins[k] = margins[k].max(found.1);
        }
        let margin = margins.into_iter().fold(0.0, f64::max);
        let right = wrong == [0; SIDES];
        if right {
            return Some(T::INFINITY);
        }
        // With a margin of a whole bin the estimate could be two bins away.
        (margin < 0.9).then(|| T::from_f64(0.5 - margin).next_down().next_down())
    }

    /// Returns the estimate, rounded down to a bin, and its distance from that bin's middle.
    #[inline(always)]
    fn estimate(&self, x: T) -> (T, u32, T) {
        let estimate = (x - self.first) * self.scale;
        let floor = estimate.floor();
        (estimate, (floor + T::MAGIC).whole(), (estimate - floor - T::HALF).abs())
    }

    #[inline(always)]
    fn locate(&self, values: &[T; LANES], out: &mut [u32; LANES]) {
        let none = self.upper.len() as u32;
        let mut unsure = 0;
        for i in 0..LANES {
            let x = values[i];
            let inside = (x >= self.first) & (x <= self.last);
            let (_, bin, off) = self.estimate(x);
            // The last edge is in the last bin.
            let bin = bin.min(none - 1);
            unsure |= (inside & (off > self.sure)) as u32;
            out[i] = if inside { bin } else { none };
        }
        if unsure != 0 {
            self.correct(values, out);
        }
    }

    #[inline(always)]
    fn correct(&self, values: &[T; LANES], out: &mut [u32; LANES]) {
        for (&x, out) in values.iter().zip(out) {
            let bin = *out as usize;
            if bin < self.upper.len() {
                *out = *out + (x >= self.upper[bin]) as u32 - (x < self.edges[bin]) as u32;
            }
        }
    }

    #[inline(always)]
    fn locate_all(&self, values: &[T], out: &mut [u32]) {
        let (lanes, rest) = values.as_chunks::<LANES>();
        let (out_lanes, out_rest) = out.as_chunks_mut::<LANES>();
        for (values, out) in lanes.iter().zip(out_lanes) {
            self.locate(values, out);
        }
        if !rest.is_empty() {
            let mut padded = [self.first; LANES];
            let mut found = [0; LANES];
            padded[..rest.len()].copy_from_slice(rest);
            self.locate(&padded, &mut found);
            out_rest.copy_from_slice(&found[..rest.len()]);
        }
    }
}

// 0.28 ns a value; compiled for AVX-512, where f64 gains, it takes 0.40 (Zen 4).
#[multiversion(targets("x86_64+avx2+bmi1+bmi2"))]
fn locate_f32(uniform: &Uniform<f32>, values: &[f32], out: &mut [u32]) {
    uniform.locate_all(values, out);
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn locate_f64(uniform: &Uniform<f64>, values: &[f64], out: &mut [u32]) {
    uniform.locate_all(values, out);
}

/// Any ascending edges.
pub struct Edges {
    edges: Vec<f64>,
    /// What is below a value: the largest number below each edge, so that an edge has been reached
    /// (`edge <= x`) where its entry is `< x`.
    below: BorderTable<f64>,
    first: f64,
    last: f64,
    /// Edges that are -∞, below which there is nothing.
    bottomless: u32,
    bins: u32,
}

impl Edges {
    fn new(edges: &[f64]) -> Self {
        let below: Vec<f64> = edges.iter().map(|e| e.next_down()).collect();
        Edges {
            edges: edges.to_vec(),
            below: BorderTable::new(&below),
            first: edges[0],
            last: edges[edges.len() - 1],
            bottomless: edges.partition_point(|e| *e == f64::NEG_INFINITY) as u32,
            bins: edges.len() as u32 - 1,
        }
    }
    pub fn edges(&self) -> &[f64] {
        &self.edges
    }

    fn locate(&self, values: &[f64], out: &mut [u32]) {
        // One more than the number of edges reached; 0 for NaN.
        f64::search(&self.below, values, 1, out, 1);
        for (&x, out) in values.iter().zip(out) {
            let reached = if x == f64::NEG_INFINITY { self.bottomless } else { out.saturating_sub(1) };
            let inside = (x >= self.first) & (x <= self.last);
            let bin = reached.wrapping_sub(1).min(self.bins - 1);
            *out = if inside { bin } else { self.bins };
        }
    }
}
