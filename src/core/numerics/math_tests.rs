//! Our functions against libm in f64 (rounded for f32), over random bit patterns and the edges.

use super::*;
use crate::numerics::random::{Purpose, Random};

/// |a - b| in units of the last place of `b` in f32, of which the spacing at the subnormal end
/// is that of the subnormals.
fn ulp32(a: f32, b: f64) -> f64 {
    let nearest = b as f32;
    if a.is_nan() || nearest.is_nan() || a.is_infinite() || nearest.is_infinite() {
        return if a == nearest || (a.is_nan() && nearest.is_nan()) { 0.0 } else { f64::INFINITY };
    }
    let exponent = if nearest == 0.0 { -149 } else { (libm::ilogb(nearest as f64) - 23).max(-149) };
    (a as f64 - b).abs() / libm::ldexp(1.0, exponent)
}

fn ulp64(a: f64, b: f64) -> f64 {
    if a == b || (a.is_nan() && b.is_nan()) {
        return 0.0;
    }
    if !a.is_finite() || !b.is_finite() {
        return f64::INFINITY;
    }
    let exponent = if b == 0.0 { -1074 } else { (libm::ilogb(b) - 52).max(-1074) };
    libm::ldexp((a - b).abs(), -exponent)
}

/// Random bit patterns, random numbers in the range where things happen, and the edges.
fn inputs32() -> Vec<f32> {
    let r = Random::new(1, Purpose::Rounding, 0);
    let mut v: Vec<f32> = (0..2_000_000).map(|i| f32::from_bits(r.u32(i))).collect();
    v.extend((0..2_000_000).map(|i| (r.unit(i) * 220.0 - 110.0) as f32));
    v.extend([0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN_POSITIVE, f32::MAX, f32::MIN]);
    v.extend([1, 2, 3, 0x7f_ffff].map(f32::from_bits));
    v.extend([88.7, 88.722_83, 88.722_84, 88.8, -87.3, -87.4, -103.2, -103.97, -103.98, -104.0, 1e-8, -1e-8].map(|x: f32| x));
    v
}

fn inputs64() -> Vec<f64> {
    let r = Random::new(2, Purpose::Rounding, 0);
    let mut v: Vec<f64> = (0..1_000_000).map(|i| f64::from_bits(r.u64(i))).collect();
    v.extend((0..1_000_000).map(|i| r.unit(i) * 1500.0 - 750.0));
    v.extend((0..500_000).map(|i| r.unit(i) * 4.0 - 2.0));
    v.extend([0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MIN_POSITIVE, f64::MAX, f64::MIN, 5e-324]);
    v.extend([709.78, 709.79, -708.3, -708.5, -745.1, -745.2, 1e-17, 1e300, -1e300, 1e-300]);
    v
}

fn worst<T: Copy + std::fmt::Debug>(inputs: &[T], error: impl Fn(T) -> f64) -> (f64, T) {
    inputs.iter().map(|x| (error(*x), *x)).fold((-1.0, inputs[0]), |a, b| if b.0 > a.0 { b } else { a })
}

#[test]
fn f32_functions_are_within_a_few_ulp_everywhere() {
    let v = inputs32();
    let e = worst(&v, |x| ulp32(exp(x), libm::exp(x as f64)));
    let l = worst(&v, |x| ulp32(ln(x), libm::log(x as f64)));
    let s = worst(&v, |x| {
        ulp32(sigmoid(x), if x < 0.0 { libm::exp(x as f64) / (1.0 + libm::exp(x as f64)) } else { 1.0 / (1.0 + libm::exp(-x as f64)) })
    });
    let t = worst(&v, |x| ulp32(tanh(x), libm::tanh(x as f64)));
    assert!(e.0 < 1.0 && l.0 < 1.0 && s.0 < 2.5 && t.0 < 2.5, "exp {e:?} ln {l:?} sigmoid {s:?} tanh {t:?}");
}

#[test]
fn f64_functions_are_within_a_few_ulp_everywhere() {
    let v = inputs64();
    // libm itself is off by up to 1 ulp.
    let e = worst(&v, |x| ulp64(exp64(x), libm::exp(x)));
    let l = worst(&v, |x| ulp64(ln64(x), libm::log(x)));
    let s = worst(&v, |x| ulp64(sigmoid64(x), if x < 0.0 { libm::exp(x) / (1.0 + libm::exp(x)) } else { 1.0 / (1.0 + libm::exp(-x)) }));
    let p = worst(&v, |x| ulp64(softplus64(x), if x > 0.0 { x + libm::log1p(libm::exp(-x)) } else { libm::log1p(libm::exp(x)) }));
    let t = worst(&v, |x| ulp64(tanh64(x), libm::tanh(x)));
    assert!(e.0 < 2.0 && l.0 < 2.0 && s.0 < 2.5 && p.0 < 4.0 && t.0 < 2.5, "exp {e:?} ln {l:?} sigmoid {s:?} softplus {p:?} tanh {t:?}");
}

#[test]
fn the_pair_adds_up_to_one() {
    for x in inputs32().into_iter().filter(|x| !x.is_nan()) {
        let (low, high) = sigmoid_pair(x);
        assert!(low <= high && (low + high - 1.0).abs() <= 2.0 * f32::EPSILON, "{x}: {low} {high}");
    }
}

#[test]
fn vector_code_gives_the_bits_of_scalar_code() {
    let v = inputs64();
    let (mut e, mut s) = (v.clone(), v.clone());
    exp_in_place(&mut e);
    sigmoid_in_place(&mut s);
    for (i, x) in v.iter().enumerate() {
        // The bits of a NaN are open in Rust.
        assert!(e[i].to_bits() == exp64(*x).to_bits() || (e[i].is_nan() && x.is_nan()), "exp {x}");
        assert!(s[i].to_bits() == sigmoid64(*x).to_bits() || (s[i].is_nan() && x.is_nan()), "sigmoid {x}");
    }
}

#[test]
fn softmax_is_the_naive_one() {
    let r = Random::new(3, Purpose::Rounding, 0);
    let raw: Vec<Vec<f64>> = (0..5).map(|k| (0..1300).map(|i| r.unit(i * 5 + k) * 40.0 - 20.0).collect()).collect();
    let mut p = raw.clone();
    softmax_in_place(&mut p);
    for i in 0..1300 {
        let total: f64 = raw.iter().map(|s| libm::exp(s[i])).sum();
        for k in 0..5 {
            let naive = libm::exp(raw[k][i]) / total;
            assert!((p[k][i] - naive).abs() <= 1e-14 * naive);
        }
    }
    softmax_in_place(&mut []);
}
