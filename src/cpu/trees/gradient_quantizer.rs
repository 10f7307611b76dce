//! Turns derivatives into integer statistics, whose sums are the same in any order.
//!
//! Gradient and hessian are multiplied by powers of two from their exact maxima and rounded
//! stochastically, by a hash of (tree, row), so that the rounding is unbiased and the same
//! everywhere. They are 16 bits each in one packed word, or, where the largest value dwarfs the
//! typical one, 32 bits each as two 16-bit limbs, which the same kernels add.

use multiversion::multiversion;
use taiga_core::collective::{Collective, bytes_of, fault, numbers_of};
use taiga_core::error::Result;
use taiga_core::numerics::fixed::{dither, factor, round_with, round64, single};
use taiga_core::numerics::random::Random;
use taiga_core::tree::params::RowCounts;
use taiga_core::tree::split::Scales;

/// The rows of a batch: blocks of rows are dealt to threads in these, and sums over rows in f64
/// are added inside one and then over them in order.
pub const BATCH: usize = taiga_core::collective::RowShard::BLOCK;

/// Beyond this ratio of the largest to the mean absolute value, 16 bits leave typical rows fewer
/// than 32 steps, and statistics become wide.
const WIDE_RATIO: f64 = 1024.0;

/// Exact maxima and ordered sums of absolute values over rows.
#[derive(Clone, Debug, Default)]
pub struct Magnitudes {
    /// The largest absolute gradient and hessian, as their bits.
    pub gradient_bits: u32,
    pub hessian_bits: u32,
    /// The least hessian of the rows that were drawn, likewise; 0 where it is not known.
    pub least_hessian_bits: u32,
    /// For each batch, Σ |gradient| and Σ hessian.
    pub sums: Vec<(f64, f64)>,
}

/// Returns the magnitudes of one batch.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn batch_magnitudes(gradient: &[f32], hessian: &[f32]) -> (u32, u32, f64, f64) {
    fn one(values: &[f32]) -> (u32, f64) {
        const LANES: usize = 16;
        let mut largest = [0u32; LANES];
        let mut sums = [0f64; LANES];
        let chunks = values.chunks_exact(LANES);
        let rest = chunks.remainder();
        for chunk in chunks {
            for i in 0..LANES {
                let bits = chunk[i].to_bits() & 0x7fff_ffff;
                largest[i] = largest[i].max(bits);
                sums[i] += f32::from_bits(bits) as f64;
            }
        }
        for (i, x) in rest.iter().enumerate() {
            let bits = x.to_bits() & 0x7fff_ffff;
            largest[i] = largest[i].max(bits);
            sums[i] += f32::from_bits(bits) as f64;
        }
        (largest.into_iter().fold(0, u32::max), sums.into_iter().sum())
    }
    let (g, h) = (one(gradient), one(hessian));
    (g.0, h.0, g.1, h.1)
}

/// Returns the bits of the least hessian of the rows that were drawn: those whose `bag` is not 0.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn least_bits(hessian: &[f32], bag: Option<&[f32]>) -> u32 {
    // Hessians are not negative, so their bits are in their order.
    let Some(bag) = bag else { return hessian.iter().fold(u32::MAX, |least, h| least.min(h.to_bits())) };
    hessian.iter().zip(bag).fold(u32::MAX, |least, (h, b)| least.min(if *b != 0.0 { h.to_bits() } else { u32::MAX }))
}

impl Magnitudes {
    /// Returns the magnitudes of no rows. `least`: whether the least hessian is to be known.
    pub fn of_none(least: bool) -> Magnitudes {
        Magnitudes { least_hessian_bits: if least { u32::MAX } else { 0 }, ..Magnitudes::default() }
    }

    /// Takes the least hessian of one more batch in, where it is to be known.
    pub fn add_least(&mut self, hessian: &[f32], bag: Option<&[f32]>) {
        if self.least_hessian_bits > 0 {
            self.least_hessian_bits = self.least_hessian_bits.min(least_bits(hessian, bag));
        }
    }

    /// Adds the magnitudes of one more batch.
    pub fn add_batch(&mut self, gradient: &[f32], hessian: &[f32]) {
        let (g, h, sum_g, sum_h) = batch_magnitudes(gradient, hessian);
        self.gradient_bits = self.gradient_bits.max(g);
        self.hessian_bits = self.hessian_bits.max(h);
        self.sums.push((sum_g, sum_h));
    }

    /// Whether the largest of the values of `rows` rows leaves typical ones too few steps of 16 bits.
    fn are_wide(&self, rows: usize, unit_hessian: bool) -> bool {
        let (mut g, mut h) = (0.0, 0.0);
        for s in &self.sums {
            g += s.0;
            h += s.1;
        }
        let dwarfs = |bits: u32, sum: f64| f32::from_bits(bits) as f64 * rows as f64 > WIDE_RATIO * sum && sum > 0.0;
        dwarfs(self.gradient_bits, g) || (!unit_hessian && dwarfs(self.hessian_bits, h))
    }

    /// Adds the magnitudes of the rows of other processes, which have whole batches.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn complete(&mut self, collective: &dyn Collective) -> Result<()> {
        // All in one message: waiting for another process takes longer than these numbers.
        let mut largest = [self.gradient_bits, self.hessian_bits, !self.least_hessian_bits];
        let sums = self.sums.iter().flat_map(|(gradient, hessian)| [*gradient, *hessian]);
        let own: Vec<f64> = largest.iter().map(|bits| f64::from(*bits)).chain(sums).collect();
        self.sums.clear();
        for bytes in collective.gather_bytes(&bytes_of(&own))? {
            let told = numbers_of(&bytes)?;
            let (bits, sums) = told.split_first_chunk::<3>().ok_or_else(|| fault("another process tells no magnitudes"))?;
            largest.iter_mut().zip(bits).for_each(|(largest, bits)| *largest = (*largest).max(*bits as u32));
            self.sums.extend(sums.as_chunks::<2>().0.iter().map(|[gradient, hessian]| (*gradient, *hessian)));
        }
        (self.gradient_bits, self.hessian_bits, self.least_hessian_bits) = (largest[0], largest[1], !largest[2]);
        Ok(())
    }

    /// Returns the magnitudes of all threads' rows: batch `b` was dealt to thread `b % threads`.
    pub fn merge(shards: Vec<Magnitudes>) -> Magnitudes {
        let batches = shards.iter().map(|s| s.sums.len()).sum();
        let mut merged = Magnitudes { sums: Vec::with_capacity(batches), ..Magnitudes::of_none(true) };
        for s in &shards {
            merged.least_hessian_bits = merged.least_hessian_bits.min(s.least_hessian_bits);
            merged.gradient_bits = merged.gradient_bits.max(s.gradient_bits);
            merged.hessian_bits = merged.hessian_bits.max(s.hessian_bits);
        }
        for b in 0..batches {
            merged.sums.push(shards[b % shards.len()].sums[b / shards.len()]);
        }
        merged
    }
}

/// The content of a plane, which is one packed word a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plane {
    /// Gradient (16 bits, signed) above hessian (16 bits).
    Both,
    /// A 32-bit gradient, as two limbs.
    Gradient,
    /// A 31-bit hessian, as two limbs.
    Hessian,
    /// 1, for the hessian where it is constant.
    UnitHessian,
    /// 1, for the count.
    Count,
}

/// Turns the derivatives of one tree into integers: the planes and the factors.
#[derive(Clone, Debug, PartialEq)]
pub struct GradientQuantizer {
    /// The first plane rides in the code rows.
    pub planes: Vec<Plane>,
    /// What the derivatives are multiplied by before rounding.
    factor: (f64, f64),
    unit_hessian: bool,
    /// What they are multiplied by for the 64-bit sums of leaves.
    leaf_factor: (f64, f64),
}

impl GradientQuantizer {
    /// Chooses planes and factors by the magnitudes of `rows` rows. `unit_hessian`: each row's hessian is 1 (or 0 and not drawn).
    ///
    /// Whether there are rows is told by their hessians, without a plane of counts, where each of these is rounded to 1 at least.
    pub fn new(magnitudes: &Magnitudes, rows: usize, unit_hessian: bool, row_counts: RowCounts) -> GradientQuantizer {
        let wide = magnitudes.are_wide(rows, unit_hessian);
        let mut made = GradientQuantizer::of_width(magnitudes, rows, unit_hessian, row_counts.any(), wide);
        let least = f32::from_bits(magnitudes.least_hessian_bits) as f64;
        if row_counts == RowCounts::Presence && least * made.factor.1 >= 1.0 {
            made.planes.retain(|plane| *plane != Plane::Count);
        }
        made
    }

    /// Chooses planes, which are the same for all of several outputs, and the factors of each.
    pub fn alike(each: &[Magnitudes], rows: usize, unit_hessian: bool, count: bool) -> Vec<GradientQuantizer> {
        let wide = each.iter().any(|magnitudes| magnitudes.are_wide(rows, unit_hessian));
        each.iter().map(|magnitudes| GradientQuantizer::of_width(magnitudes, rows, unit_hessian, count, wide)).collect()
    }

    fn of_width(magnitudes: &Magnitudes, rows: usize, unit_hessian: bool, count: bool, wide: bool) -> GradientQuantizer {
        let mut planes = match (wide, unit_hessian) {
            (false, _) => vec![Plane::Both],
            (true, true) => vec![Plane::Gradient, Plane::UnitHessian],
            (true, false) => vec![Plane::Gradient, Plane::Hessian],
        };
        if count && !unit_hessian {
            planes.push(Plane::Count);
        }
        let bits = if wide { (31, 31) } else { (15, 16) };
        let hessian_factor = if unit_hessian { 1.0 } else { factor(magnitudes.hessian_bits, bits.1) };
        // |Σ| <= rows * 2^bits < 2^62
        let leaf_bits = 62 - (usize::BITS - rows.leading_zeros()) as i32;
        GradientQuantizer {
            planes,
            factor: (single(factor(magnitudes.gradient_bits, bits.0)), single(hessian_factor)),
            unit_hessian,
            leaf_factor: (factor(magnitudes.gradient_bits, leaf_bits), factor(magnitudes.hessian_bits, leaf_bits)),
        }
    }

    /// Returns what a unit of the histogram's sums is worth.
    pub fn scales(&self) -> Scales {
        Scales { gradient: 1.0 / self.factor.0, hessian: 1.0 / self.factor.1 }
    }

    /// Packs one batch; row `first_row` is its first. `out[p]` receives plane `p`; the planes of
    /// ones are not written.
    pub fn pack(&self, gradient: &[f32], hessian: &[f32], random: Random, first_row: usize, out: &mut [&mut [u32]]) {
        let [first, rest @ ..] = out else { return };
        match self.planes[0] {
            Plane::Both if self.unit_hessian => pack_unit(gradient, hessian, self.factor.0 as f32, random, first_row as u32, first),
            Plane::Both => pack_both(gradient, hessian, (self.factor.0 as f32, self.factor.1 as f32), random, first_row as u32, first),
            _ => {
                pack_wide(gradient, self.factor.0, random, first_row as u32, 0, first);
                if self.planes.get(1) == Some(&Plane::Hessian) {
                    pack_wide(hessian, self.factor.1, random, first_row as u32, 16, rest[0]);
                }
            }
        }
    }

    /// Adds a batch's derivatives, as 64-bit fixed point, to the sums of their rows' leaves.
    pub fn add_to_leaves(&self, gradient: &[f32], hessian: &[f32], leaf: &[u16], sums: &mut [(i64, i64)]) {
        let (mut fixed_g, mut fixed_h) = ([0i64; 64], [0i64; 64]);
        for ((g, h), leaf) in gradient.chunks(64).zip(hessian.chunks(64)).zip(leaf.chunks(64)) {
            to_fixed(g, self.leaf_factor.0, &mut fixed_g);
            to_fixed(h, self.leaf_factor.1, &mut fixed_h);
            for ((g, h), l) in fixed_g.iter().zip(&fixed_h).zip(leaf) {
                let s = &mut sums[*l as usize];
                s.0 += g;
                s.1 += h;
            }
        }
    }

    /// Returns a leaf's fixed-point sums as numbers.
    pub fn leaf_numbers(&self, sums: (i64, i64)) -> (f64, f64) {
        (sums.0 as f64 / self.leaf_factor.0, sums.1 as f64 / self.leaf_factor.1)
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn pack_both(gradient: &[f32], hessian: &[f32], factor: (f32, f32), random: Random, first_row: u32, out: &mut [u32]) {
    let n = gradient.len();
    let (hessian, out) = (&hessian[..n], &mut out[..n]);
    for i in 0..n {
        let bits = random.u32(first_row.wrapping_add(i as u32));
        let g = round_with(gradient[i] * factor.0, dither(bits));
        let h = round_with(hessian[i] * factor.1, dither(bits >> 16));
        out[i] = ((g as u32) << 16) | (h as u32 & 0xffff);
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn pack_unit(gradient: &[f32], hessian: &[f32], factor: f32, random: Random, first_row: u32, out: &mut [u32]) {
    let n = gradient.len();
    let (hessian, out) = (&hessian[..n], &mut out[..n]);
    for i in 0..n {
        let bits = random.u32(first_row.wrapping_add(i as u32));
        let g = round_with(gradient[i] * factor, dither(bits));
        out[i] = ((g as u32) << 16) | (hessian[i] != 0.0) as u32;
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn pack_wide(values: &[f32], factor: f64, random: Random, first_row: u32, shift: u32, out: &mut [u32]) {
    let n = values.len();
    let out = &mut out[..n];
    for i in 0..n {
        let bits = random.u32(first_row.wrapping_add(i as u32)) >> shift;
        out[i] = round64(values[i] as f64 * factor + dither(bits) as f64) as u32;
    }
}

/// Converts up to 64 rows' derivatives to 64-bit fixed point.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn to_fixed(values: &[f32], factor: f64, out: &mut [i64; 64]) {
    for (out, value) in out.iter_mut().zip(values) {
        // SAFETY: derivatives are finite (`Magnitudes` have been checked), and the factor, from the largest of them, leaves
        // none beyond 2^62. A conversion that saturates is not done in vectors.
        *out = unsafe { (*value as f64 * factor).to_int_unchecked() };
    }
}

/// Adds one shard's packed bins of a plane to a feature's sums: `gradient`, `hessian` and `count`
/// have one number a bin.
#[inline(always)]
pub fn add_plane(plane: Plane, bins: &[u64], sums: BinsMut<'_>) {
    match plane {
        Plane::Both => add_both(bins, sums.gradient, sums.hessian),
        Plane::Gradient => add_limbs(bins, sums.gradient),
        Plane::Hessian => add_limbs(bins, sums.hessian),
        Plane::UnitHessian => add_limbs(bins, sums.hessian),
        Plane::Count => add_limbs(bins, sums.count),
    }
}

/// A feature's sums by bin, to change them.
pub struct BinsMut<'a> {
    pub gradient: &'a mut [i64],
    pub hessian: &'a mut [i64],
    /// Empty where rows are not counted by a plane of their own.
    pub count: &'a mut [i64],
}

#[inline(always)]
fn add_both(bins: &[u64], gradient: &mut [i64], hessian: &mut [i64]) {
    let n = bins.len();
    let (gradient, hessian) = (&mut gradient[..n], &mut hessian[..n]);
    for i in 0..n {
        gradient[i] += (bins[i] as i64) >> 32;
        hessian[i] += (bins[i] & 0xffff_ffff) as i64;
    }
}

#[inline(always)]
fn add_limbs(bins: &[u64], sums: &mut [i64]) {
    let n = bins.len();
    let sums = &mut sums[..n];
    for i in 0..n {
        sums[i] += (((bins[i] as i64) >> 32) << 16) + (bins[i] & 0xffff_ffff) as i64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taiga_core::numerics::random::Purpose;

    fn magnitudes(g: &[f32], h: &[f32]) -> Magnitudes {
        let mut m = Magnitudes::default();
        for (g, h) in g.chunks(BATCH).zip(h.chunks(BATCH)) {
            m.add_batch(g, h);
        }
        m
    }

    /// Rounding is off by less than one unit, unbiased, and reaches neither bound.
    #[test]
    fn packing_is_close_and_unbiased() {
        let random = Random::new(3, Purpose::Rounding, 5);
        let n = 40_000;
        let g: Vec<f32> = (0..n).map(|i| (i as f32 * 0.7).sin() * if i == 17 { 1.0 } else { 0.9 }).collect();
        let h: Vec<f32> = g.iter().map(|g| g * g * 0.25 + 1e-3).collect();
        let e = GradientQuantizer::new(&magnitudes(&g, &h), n, false, RowCounts::None);
        assert_eq!(e.planes, vec![Plane::Both]);
        let mut out = vec![0u32; n];
        e.pack(&g, &h, random, 0, &mut [&mut out]);
        let s = e.scales();
        let (mut bias_g, mut bias_h) = (0.0, 0.0);
        for i in 0..n {
            let (gi, hi) = ((out[i] as i32 >> 16) as f64, (out[i] & 0xffff) as f64);
            let (dg, dh) = (gi - g[i] as f64 / s.gradient, hi - h[i] as f64 / s.hessian);
            assert!(dg.abs() <= 1.0 && dh.abs() <= 1.0);
            bias_g += dg;
            bias_h += dh;
        }
        assert!(bias_g.abs() < 4.0 * (n as f64 / 6.0).sqrt() && bias_h.abs() < 4.0 * (n as f64 / 6.0).sqrt());
    }

    /// One outlier of 10^8 makes the statistics wide, and typical rows keep their precision.
    #[test]
    fn outliers_make_statistics_wide() {
        let random = Random::new(3, Purpose::Rounding, 5);
        let n = 5_000;
        let mut g: Vec<f32> = (0..n).map(|i| (i as f32 * 0.7).sin()).collect();
        g[123] = 1e6;
        let h = vec![1.0f32; n];
        let e = GradientQuantizer::new(&magnitudes(&g, &h), n, true, RowCounts::Exact);
        assert_eq!(e.planes, vec![Plane::Gradient, Plane::UnitHessian]);
        let mut out = vec![0u32; n];
        e.pack(&g, &h, random, 0, &mut [&mut out]);
        for i in 0..n {
            assert!((out[i] as i32 as f64 - g[i] as f64 / e.scales().gradient).abs() <= 1.0);
        }
        assert!(e.scales().gradient < 1e-3);
        let h: Vec<f32> = g.iter().map(|g| g.abs()).collect();
        let planes = GradientQuantizer::new(&magnitudes(&g, &h), n, false, RowCounts::Exact).planes;
        assert_eq!(planes, vec![Plane::Gradient, Plane::Hessian, Plane::Count]);
    }

    /// Rows are counted by a plane of their own unless it is enough to know whether there are any and every row that was drawn has a
    /// hessian of one unit at least, which rounding keeps.
    #[test]
    fn hessians_tell_whether_there_are_rows() {
        let n = 2 * BATCH + 77;
        let g = vec![1.0f32; n];
        let h: Vec<f32> = (0..n).map(|i| if i == 0 { 1.0 } else { 0.25 + (i % 100) as f32 * 1e-3 }).collect();
        let of = |h: &[f32], bag: Option<&[f32]>| {
            let mut m = Magnitudes::of_none(true);
            for (start, h) in (0..n).step_by(BATCH).zip(h.chunks(BATCH)) {
                m.add_batch(&g[..h.len()], h);
                m.add_least(h, bag.map(|bag| &bag[start..start + h.len()]));
            }
            m
        };
        let planes = |m: &Magnitudes, counts| GradientQuantizer::new(m, n, false, counts).planes;
        let counted = vec![Plane::Both, Plane::Count];
        assert_eq!(planes(&of(&h, None), RowCounts::Presence), vec![Plane::Both]);
        assert_eq!(planes(&of(&h, None), RowCounts::Exact), counted);
        assert_eq!(planes(&magnitudes(&g, &h), RowCounts::Presence), counted, "the least is not known");
        // 1 becomes 32768 units, so this is half of one.
        let mut small = h.clone();
        small[n - 1] = 1.0 / 65_536.0;
        assert_eq!(planes(&of(&small, None), RowCounts::Presence), counted);
        small[n - 1] = 1.0 / 32_768.0;
        assert_eq!(planes(&of(&small, None), RowCounts::Presence), vec![Plane::Both]);
        let mut out = vec![0u32; n];
        GradientQuantizer::new(&of(&small, None), n, false, RowCounts::Presence).pack(
            &g,
            &small,
            Random::new(3, Purpose::Rounding, 5),
            0,
            &mut [&mut out],
        );
        assert!(out.iter().all(|packed| packed & 0xffff > 0));
        // A row that was not drawn has none, and is in no node.
        small[n - 1] = 0.0;
        let mut bag = vec![1.0f32; n];
        assert_eq!(planes(&of(&small, Some(&bag)), RowCounts::Presence), counted);
        bag[n - 1] = 0.0;
        assert_eq!(planes(&of(&small, Some(&bag)), RowCounts::Presence), vec![Plane::Both]);
        let merged = Magnitudes::merge(vec![of(&h, None), of(&small, Some(&bag))]);
        assert_eq!(f32::from_bits(merged.least_hessian_bits), 0.25);
        assert_eq!(Magnitudes::merge(vec![of(&h, None), magnitudes(&g, &h)]).least_hessian_bits, 0);
    }

    /// The leaf sums are those of f64 to far below 16 bits' precision.
    #[test]
    fn leaf_sums_are_those_of_unrounded_derivatives() {
        let n = 3_000;
        let g: Vec<f32> = (0..n).map(|i| (i as f32 * 0.7).sin()).collect();
        let h: Vec<f32> = g.iter().map(|g| g.abs()).collect();
        let leaf: Vec<u16> = (0..n).map(|i| (i % 7) as u16).collect();
        let e = GradientQuantizer::new(&magnitudes(&g, &h), n, false, RowCounts::None);
        let mut sums = vec![(0, 0); 7];
        e.add_to_leaves(&g, &h, &leaf, &mut sums);
        for (l, sum) in sums.iter().enumerate() {
            let exact = |v: &[f32]| (0..n).filter(|i| i % 7 == l).map(|i| v[i] as f64).sum::<f64>();
            let (sg, sh) = e.leaf_numbers(*sum);
            assert!((sg - exact(&g)).abs() < 1e-9 && (sh - exact(&h)).abs() < 1e-9);
        }
    }
}
