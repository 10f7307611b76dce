//! Elementwise maths from plain operations: `exp`, `ln`, `sigmoid` and `tanh` in f32 and f64.
//!
//! A platform's own `exp` differs from machine to machine in the last bit. These are made of
//! IEEE additions, multiplications, divisions, comparisons and integer operations alone, with no
//! fused multiply-add, so that every CPU, every vector width and a GPU compiled with
//! `-fmad=false` compute the same bits. They are free of branches and inlined, so a loop over a
//! slice becomes vector code of whatever width the loop is compiled for.
//!
//! The methods are those of Cephes (f32 `exp`) and FreeBSD's msun (the others): reduce the
//! argument by a multiple of ln 2, whose product with the multiple is exact in two parts, then a
//! polynomial on a small interval. Worst errors found over random bit patterns: `exp` and `ln`
//! below 1 unit in the last place, `sigmoid` and `tanh` below 2.5.

use multiversion::multiversion;

/// `x` when `x` is not below `low`, else `low`; NaN stays. (`f32::max` leaves the sign of zero
/// open, which would let two machines differ.)
macro_rules! at_least {
    ($x:expr, $low:expr) => {
        if $x < $low { $low } else { $x }
    };
}

macro_rules! at_most {
    ($x:expr, $high:expr) => {
        if $x > $high { $high } else { $x }
    };
}

/// Computes e to the power of `x`, in f32: 0 below about -103.97, ∞ above 88.72, subnormal between -87.3
/// and -103.97; NaN gives NaN. Error below 1 ulp.
///
/// ```
/// use taiga_core::numerics::math::exp;
/// assert_eq!([exp(0.0), exp(1.0), exp(-1e30), exp(f32::INFINITY)], [1.0, 2.7182817, 0.0, f32::INFINITY]);
/// ```
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
    const MAGIC: f32 = 12_582_912.0;
    let x = at_most!(at_least!(x, -105.0), 90.0);
    let shifted = x * std::f32::consts::LOG2_E + MAGIC;
    let n = shifted - MAGIC;
    let r = (x - n * 0.693_359_4) - n * -2.121_944_4e-4;
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 0.5;
    let y = (p * (r * r) + r) + 1.0;
    // 2^n in two factors: neither overflows where the product is subnormal or infinite, and the
    // first product is exact, so a subnormal result is rounded once.
    let n = (shifted.to_bits() as i32).wrapping_sub(MAGIC.to_bits() as i32);
    let half = n >> 1;
    y * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// Computes 2^n for n in -126..=127 (whatever bits for others, which only NaN leads to).
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// Returns the natural logarithm in f32: -∞ for ±0, NaN below 0, ∞ for ∞. Error below 1 ulp, subnormals included.
///
/// ```
/// use taiga_core::numerics::math::ln;
/// assert_eq!([ln(1.0), ln(10.0), ln(0.0)], [0.0, 2.3025851, f32::NEG_INFINITY]);
/// assert!(ln(-1.0).is_nan());
/// ```
#[inline(always)]
pub fn ln(x: f32) -> f32 {
    // x = 2^k * m with m in [√½, √2); a subnormal is made normal first.
    const ROOT: u32 = 0x3f35_04f3;
    let small = x < f32::MIN_POSITIVE;
    let bits = (if small { x * 8_388_608.0 } else { x }).to_bits();
    let bits = bits.wrapping_add(0x3f80_0000 - ROOT);
    let k = (bits >> 23) as i32 - if small { 127 + 23 } else { 127 };
    let f = f32::from_bits((bits & 0x007f_ffff).wrapping_add(ROOT)) - 1.0;
    let k = k as f32;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let t = w * (0.400_009_72 + w * 0.242_790_79) + z * (0.666_666_6 + w * 0.284_987_87);
    let square = 0.5 * f * f;
    let y = s * (square + t) + k * 9.058_001e-6 - square + f + k * 0.693_138_1;
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    let y = if x == f32::INFINITY { f32::INFINITY } else { y };
    if x >= 0.0 { y } else { f32::NAN }
}

/// Returns the logistic function `1 / (1 + exp(-x))` in f32, exact to the last bits also where it is nearly 0 (by
/// `exp(x) / (1 + exp(x))`, which does not overflow). Error below 2.5 ulp.
///
/// ```
/// use taiga_core::numerics::math::sigmoid;
/// assert_eq!([sigmoid(0.0), sigmoid(200.0), sigmoid(-200.0)], [0.5, 1.0, 0.0]);
/// ```
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    let e = exp(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

/// Returns the logistic function of `-|x|` and of `|x|`: the smaller and the larger of p and 1 - p, each to its own last bits
/// (error below 3 ulp).
#[inline(always)]
pub fn sigmoid_pair(x: f32) -> (f32, f32) {
    let e = exp(-x.abs());
    let high = 1.0 / (1.0 + e);
    (e * high, high)
}

/// Returns `tanh(x) / x` for `|x|` up to 0.625, by its square: Cephes' polynomial (Moshier, `tanhf`).
#[inline(always)]
pub fn tanh_near(square: f32) -> f32 {
    let p = -5.704_988_7e-3;
    let p = p * square + 2.063_909e-2;
    let p = p * square + -5.373_971_6e-2;
    let p = p * square + 1.333_144_2e-1;
    let p = p * square + -3.333_328e-1;
    p * square + 1.0
}

/// Returns the hyperbolic tangent in f32: ±1 for ±∞, NaN for NaN. Error below 2.5 ulp.
///
/// ```
/// use taiga_core::numerics::math::tanh;
/// assert_eq!([tanh(0.0), tanh(1e-30), tanh(-200.0)], [0.0, 1e-30, -1.0]);
/// assert!((tanh(0.5) - 0.46211717).abs() < 1e-7);
/// ```
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let size = x.abs();
    let near = x * tanh_near(at_most!(x * x, 1.0));
    let e = exp(-2.0 * size);
    let far = (1.0 - e) / (1.0 + e);
    if size < 0.625 {
        near
    } else if x < 0.0 {
        -far
    } else {
        far
    }
}

/// Computes e to the power of `x`, in f64: 0 below -745.13, ∞ above 709.78; NaN gives NaN. Error below
/// 1 ulp.
///
/// ```
/// use taiga_core::numerics::math::exp64;
/// assert_eq!([exp64(0.0), exp64(1e3), exp64(-1e3)], [1.0, f64::INFINITY, 0.0]);
/// assert!((exp64(1.0) - std::f64::consts::E).abs() < 5e-16);
/// ```
#[inline(always)]
pub fn exp64(x: f64) -> f64 {
    const MAGIC: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52
    let x = at_most!(at_least!(x, -750.0), 715.0);
    let shifted = x * std::f64::consts::LOG2_E + MAGIC;
    let n = shifted - MAGIC;
    let high = x - n * LN2_HIGH;
    let low = n * LN2_LOW;
    let r = high - low;
    let z = r * r;
    let p = 4.138_136_797_057_238_5e-8;
    let p = p * z + -1.653_390_220_546_525_2e-6;
    let p = p * z + 6.613_756_321_437_934e-5;
    let p = p * z + -2.777_777_777_701_559_3e-3;
    let p = p * z + 1.666_666_666_666_660_2e-1;
    let c = r - z * p;
    let y = 1.0 + ((r * c / (2.0 - c) - low) + high);
    // 2^n in two factors, as in `exp`; halved in floating point because 64-bit integers have no
    // arithmetic shift before AVX-512.
    let half = n * 0.5 + MAGIC;
    let rest = (n - (half - MAGIC)) + MAGIC;
    y * f64::from_bits(half.to_bits().wrapping_add(1023) << 52) * f64::from_bits(rest.to_bits().wrapping_add(1023) << 52)
}

const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// Returns the natural logarithm in f64: -∞ for ±0, NaN below 0, ∞ for ∞. Error below 1 ulp, subnormals included.
///
/// ```
/// use taiga_core::numerics::math::ln64;
/// assert_eq!([ln64(1.0), ln64(10.0), ln64(0.0)], [0.0, std::f64::consts::LN_10, f64::NEG_INFINITY]);
/// ```
#[inline(always)]
pub fn ln64(x: f64) -> f64 {
    const ROOT: u64 = 0x3fe6_a09e << 32;
    let small = x < f64::MIN_POSITIVE;
    let bits = (if small { x * 18_014_398_509_481_984.0 } else { x }).to_bits(); // 2^54
    let bits = bits.wrapping_add((0x3ff0_0000 << 32) - ROOT);
    // The exponent becomes a float by its bits below those of 2^52.
    let k = f64::from_bits((bits >> 52) | 0x4330_0000_0000_0000) - 4_503_599_627_370_496.0;
    let k = k - if small { 1023.0 + 54.0 } else { 1023.0 };
    let f = f64::from_bits((bits & 0x000f_ffff_ffff_ffff).wrapping_add(ROOT)) - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let even = w * (3.999_999_999_940_942e-1 + w * (2.222_219_843_214_978_4e-1 + w * 1.531_383_769_920_937_3e-1));
    let odd =
        z * (6.666_666_666_666_735e-1 + w * (2.857_142_874_366_239e-1 + w * (1.818_357_216_161_805e-1 + w * 1.479_819_860_511_658_6e-1)));
    let square = 0.5 * f * f;
    let y = s * (square + (even + odd)) + k * LN2_LOW - square + f + k * LN2_HIGH;
    let y = if x == 0.0 { f64::NEG_INFINITY } else { y };
    let y = if x == f64::INFINITY { f64::INFINITY } else { y };
    if x >= 0.0 { y } else { f64::NAN }
}

/// Returns the logistic function `1 / (1 + exp(-x))` in f64; see [`sigmoid`].
///
/// ```
/// assert_eq!(taiga_core::numerics::math::sigmoid64(0.0), 0.5);
/// ```
#[inline(always)]
pub fn sigmoid64(x: f64) -> f64 {
    let e = exp64(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

/// Returns the hyperbolic tangent in f64: below 0.625 by Cephes' quotient of polynomials (Moshier, `tanh`); see [`tanh`]. Error below 2.5 ulp.
///
/// ```
/// use taiga_core::numerics::math::tanh64;
/// assert_eq!([tanh64(0.0), tanh64(1e-300), tanh64(-1e3)], [0.0, 1e-300, -1.0]);
/// assert!((tanh64(0.5) - 0.5f64.tanh()).abs() < 3e-16);
/// ```
#[inline(always)]
pub fn tanh64(x: f64) -> f64 {
    let size = x.abs();
    let square = at_most!(x * x, 1.0);
    let above = (-9.643_991_794_250_523e-1 * square - 9.928_772_310_019_186e1) * square - 1.614_687_684_417_084_5e3;
    let below = ((square + 1.128_116_784_916_329_3e2) * square + 2.235_488_390_601_004_5e3) * square + 4.844_063_053_251_255e3;
    let near = x + x * square * (above / below);
    let e = exp64(-2.0 * size);
    let far = (1.0 - e) / (1.0 + e);
    if size < 0.625 {
        near
    } else if x < 0.0 {
        -far
    } else {
        far
    }
}

/// Computes `ln(1 + exp(x))` in f64 without overflow or loss: the log loss of a raw score.
///
/// ```
/// use taiga_core::numerics::math::softplus64;
/// assert_eq!([softplus64(1000.0), softplus64(-1000.0), softplus64(0.0)], [1000.0, 0.0, std::f64::consts::LN_2]);
/// ```
#[inline(always)]
pub fn softplus64(x: f64) -> f64 {
    let rest = softplus_rest64(x);
    if x > 0.0 { x + rest } else { rest }
}

/// Computes `ln(1 + exp(-|x|))`: what [`softplus64`] has above `max(x, 0)`.
#[inline(always)]
pub fn softplus_rest64(x: f64) -> f64 {
    let e = exp64(-x.abs());
    // ln(1 + e): the logarithm of the rounded sum, and what the rounding left over (Kahan).
    let u = 1.0 + e;
    ln64(u) + (e - (u - 1.0)) / u
}

/// Replaces each value by [`exp64`] of it.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
pub fn exp_in_place(values: &mut [f64]) {
    for v in values {
        *v = exp64(*v);
    }
}

/// Replaces each value by [`sigmoid64`] of it.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
pub fn sigmoid_in_place(values: &mut [f64]) {
    for v in values {
        *v = sigmoid64(*v);
    }
}

/// Replaces raw scores (`scores[class][row]`, all of one length) by probabilities: `exp(score_k)`
/// over the sum of all classes', after the row's largest score is taken off.
///
/// ```
/// let mut scores = vec![vec![0.0, 1000.0], vec![0.0, -1000.0]];
/// taiga_core::numerics::math::softmax_in_place(&mut scores);
/// assert_eq!(scores, [[0.5, 1.0], [0.5, 0.0]]);
/// ```
pub fn softmax_in_place(scores: &mut [Vec<f64>]) {
    const TILE: usize = 512;
    let rows = scores.iter().map(|s| s.len()).min().unwrap_or(0);
    for a in (0..rows).step_by(TILE) {
        let range = a..rows.min(a + TILE);
        let (mut top, mut total) = ([f64::NEG_INFINITY; TILE], [0.0; TILE]);
        let (top, total) = (&mut top[..range.len()], &mut total[..range.len()]);
        scores.iter().for_each(|s| raise(top, &s[range.clone()]));
        scores.iter_mut().for_each(|s| add_exp(&mut s[range.clone()], top, total));
        for s in scores.iter_mut() {
            s[range.clone()].iter_mut().zip(&*total).for_each(|(p, t)| *p /= t);
        }
    }
}

/// `top[i]` becomes the larger of itself and `values[i]`.
#[inline(always)]
pub fn raise(top: &mut [f64], values: &[f64]) {
    for (t, v) in top.iter_mut().zip(values) {
        *t = if *v > *t { *v } else { *t };
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn add_exp(values: &mut [f64], top: &[f64], total: &mut [f64]) {
    for ((v, m), t) in values.iter_mut().zip(top).zip(total) {
        *v = exp64(*v - *m);
        *t += *v;
    }
}

#[cfg(test)]
#[path = "math_tests.rs"]
mod tests;
