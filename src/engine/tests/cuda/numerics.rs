//! CPU and GPU compute the same bits: every function of `numerics.cuh` against its twin in the
//! engine, over millions of bit patterns (docs/numerics.md).
//!
//! These tests are ignored unless asked for (`make test-cuda`), and then fail without a GPU.
//! `cargo test --release -p taiga-engine --features cuda --test cuda_numerics -- --ignored every_argument` tries all 2^32
//! patterns where an argument is a single f32; `make test-cuda` leaves that one out.

use taiga_engine::cuda::cudarc::driver::LaunchConfig;
use taiga_engine::cuda::runtime::device::NUMERICS;
use taiga_engine::cuda::trees::loss_program::program_grid;
use taiga_engine::cuda::{grid, launch};
use taiga_engine::learners::boosting::BoostingParams;
use taiga_engine::losses::{LossKind, Rows, loss};
use taiga_engine::numerics::fixed::{dither, round_with, round32, round64};
use taiga_engine::numerics::math;
use taiga_engine::numerics::random::{Purpose, Random};
use taiga_engine::symbolic::CustomLoss;
use taiga_testing::gpu::{Gpu, gpu, say};
use taiga_testing::gpu::{assert_same, patterns};

const N: usize = 1 << 22;

/// Launches a kernel of `numerics.cu` over `n` rows with the arguments after them, and waits.
macro_rules! over_rows {
    ($gpu:expr, $name:expr, $n:expr $(, $argument:expr)*) => {{
        let kernel = $gpu.queue.gpu().kernel(NUMERICS, $name).expect("the kernel is there");
        let rows = $n as u64;
        // Fewer threads than rows, so that each thread takes several.
        // SAFETY: the arguments are those of the kernel's signature, and every array has `n` rows.
        unsafe { launch!($gpu.queue, kernel, grid(1024, 256, 0); &rows $(, $argument)*) }.expect("it is launched");
        $gpu.queue.synchronize().expect("it runs");
    }};
}

/// The kernel `map_<name>` and its twin over `values`.
macro_rules! check_map {
    ($gpu:expr, $name:literal, $values:expr, $twin:expr) => {{
        let (gpu, values) = ($gpu, $values);
        let expected: Vec<_> = values.iter().map(|x| $twin(*x)).collect();
        let input = gpu.upload(values);
        let mut output = gpu.poisoned(values.len());
        over_rows!(gpu, concat!("map_", $name), values.len(), &input, &mut output);
        assert_same($name, &gpu.download(&output), &expected, |i| format!("{:?} ({:#x})", values[i], values[i].to_bits()));
        say(&format!("{}: {} patterns, all equal", $name, values.len()));
    }};
}

fn check_pairs(gpu: &Gpu, values: &[f32]) {
    let expected: Vec<(f32, f32)> = values.iter().map(|x| math::sigmoid_pair(*x)).collect();
    let input = gpu.upload(values);
    let (mut low, mut high) = (gpu.poisoned::<f32>(values.len()), gpu.poisoned::<f32>(values.len()));
    over_rows!(gpu, "sigmoid_pairs", values.len(), &input, &mut low, &mut high);
    let row = |i: usize| format!("{:?} ({:#x})", values[i], values[i].to_bits());
    assert_same("sigmoid_pair low", &gpu.download(&low), &expected.iter().map(|e| e.0).collect::<Vec<_>>(), row);
    assert_same("sigmoid_pair high", &gpu.download(&high), &expected.iter().map(|e| e.1).collect::<Vec<_>>(), row);
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn f32_maths_has_the_same_bits() {
    let gpu = gpu();
    let values = &patterns::f32s(N, 1)[..];
    check_map!(gpu, "exp32", values, math::exp);
    check_map!(gpu, "ln", values, math::ln);
    check_map!(gpu, "sigmoid", values, math::sigmoid);
    check_map!(gpu, "tanh32", values, math::tanh);
    check_pairs(gpu, values);
    say(&format!("sigmoid_pair: {N} patterns, all equal"));
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn f64_maths_has_the_same_bits() {
    let gpu = gpu();
    let values = &patterns::f64s(N, 2)[..];
    check_map!(gpu, "exp64", values, math::exp64);
    check_map!(gpu, "ln64", values, math::ln64);
    check_map!(gpu, "sigmoid64", values, math::sigmoid64);
    check_map!(gpu, "softplus64", values, math::softplus64);
    check_map!(gpu, "softplus_rest64", values, math::softplus_rest64);
}

/// All there are: nothing is left to chance for functions of one f32.
#[test]
#[ignore = "needs a GPU; all 2^32 patterns: under four minutes on 16 cores"]
fn f32_maths_has_the_same_bits_for_every_argument() {
    let gpu = gpu();
    const CHUNK: u64 = 1 << 26;
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    // A kernel, which of what it writes, and that one's twin.
    type Twin = (&'static str, usize, fn(f32) -> f32);
    let twins: [Twin; 6] = [
        ("map_exp32", 0, math::exp),
        ("map_ln", 0, math::ln),
        ("map_sigmoid", 0, math::sigmoid),
        ("map_tanh32", 0, math::tanh),
        ("sigmoid_pairs", 0, |x| math::sigmoid_pair(x).0),
        ("sigmoid_pairs", 1, |x| math::sigmoid_pair(x).1),
    ];
    for first in (0..1u64 << 32).step_by(CHUNK as usize) {
        let values: Vec<f32> = (first..first + CHUNK).map(|bits| f32::from_bits(bits as u32)).collect();
        let input = gpu.upload(&values);
        let (mut output, mut second) = (gpu.poisoned::<f32>(values.len()), gpu.poisoned::<f32>(values.len()));
        for (kernel, written, twin) in twins {
            if kernel == "sigmoid_pairs" {
                over_rows!(gpu, kernel, values.len(), &input, &mut output, &mut second);
            } else {
                over_rows!(gpu, kernel, values.len(), &input, &mut output);
            }
            let found = gpu.download([&output, &second][written]);
            let share = values.len().div_ceil(threads);
            std::thread::scope(|scope| {
                for (v, f) in values.chunks(share).zip(found.chunks(share)) {
                    scope.spawn(move || {
                        let expected: Vec<f32> = v.iter().map(|x| twin(*x)).collect();
                        assert_same(kernel, f, &expected, |i| format!("{:#x}", v[i].to_bits()));
                    });
                }
            });
        }
    }
    say("exp32, ln, sigmoid, tanh32, sigmoid_pair: all 4294967296 patterns equal");
}

/// Probabilities from raw scores, for predictions on the GPU.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn softmax_has_the_same_bits() {
    let gpu = gpu();
    for classes in [1usize, 2, 3, 10, 37] {
        let n = N / 16;
        let mut scores: Vec<Vec<f64>> = (0..classes).map(|k| patterns::f64s(n, 100 + k as u64)).collect();
        scores.iter_mut().enumerate().for_each(|(k, s)| s.rotate_left(k * 1001));
        // Large scores leave one class; most rows get ordinary ones.
        scores.iter_mut().for_each(|s| s.iter_mut().skip(n / 4).for_each(|x| *x = x.clamp(-30.0, 30.0)));
        let mut on_gpu = gpu.upload(&scores.concat());
        let k = classes as u32;
        over_rows!(gpu, "softmax64", n, &k, &mut on_gpu);
        math::softmax_in_place(&mut scores);
        assert_same("softmax64", &gpu.download(&on_gpu), &scores.concat(), |i| format!("row {} class {}", i % n, i / n));
        say(&format!("softmax64: {n} rows of {classes} classes, all equal"));
    }
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn random_numbers_have_the_same_bits() {
    let gpu = gpu();
    let n = N / 4;
    let edges = [0, 1, u32::MAX as u64, 1 << 32, 1 << 63, u64::MAX];
    let index: Vec<u64> = (0..n as u64).map(|i| if i < 6 { edges[i as usize] } else { patterns::random(3).u64(i) >> (i % 64) }).collect();
    let on_gpu = gpu.upload(&index);
    let keys = [
        (0, Purpose::BorderSample, 0),
        (7, Purpose::Rounding, 5),
        (u64::MAX, Purpose::FeatureNode, u64::MAX),
        (1 << 63, Purpose::RowSample, 1),
    ];
    for (seed, purpose, stream) in keys {
        let random = Random::new(seed, purpose, stream);
        let row = |i: usize| format!("index {} of {seed}, {purpose:?}, {stream}", index[i]);
        let purpose = purpose as u64;
        let mut words = gpu.poisoned::<u32>(n);
        over_rows!(gpu, "random_u32", n, &seed, &purpose, &stream, &on_gpu, &mut words);
        assert_same("u32", &gpu.download(&words), &index.iter().map(|i| random.u32(*i as u32)).collect::<Vec<_>>(), row);
        let mut words = gpu.poisoned::<u64>(n);
        over_rows!(gpu, "random_u64", n, &seed, &purpose, &stream, &on_gpu, &mut words);
        assert_same("u64", &gpu.download(&words), &index.iter().map(|i| random.u64(*i)).collect::<Vec<_>>(), row);
        let mut units = gpu.poisoned::<f64>(n);
        over_rows!(gpu, "random_unit", n, &seed, &purpose, &stream, &on_gpu, &mut units);
        assert_same("unit", &gpu.download(&units), &index.iter().map(|i| random.unit(*i)).collect::<Vec<_>>(), row);
    }
    say(&format!("random u32, u64, unit: {} numbers each, all equal", keys.len() * n));
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn rounding_has_the_same_bits() {
    let gpu = gpu();
    let numbers: Vec<f32> = patterns::f32s(N, 4).into_iter().filter(|x| !x.is_nan()).collect();
    check_map!(gpu, "round32", &numbers[..], |x: f32| round32(x));
    let numbers: Vec<f32> =
        patterns::uniform(N, 5, -4_194_303.0, 4_194_303.0).into_iter().chain((-99..99).map(|i| i as f32 / 2.0)).collect();
    check_map!(gpu, "round32", &numbers[..], |x: f32| x.round_ties_even() as i32);
    let numbers: Vec<f64> = patterns::f64s(N, 6).into_iter().filter(|x| !x.is_nan()).collect();
    check_map!(gpu, "round64", &numbers[..], |x: f64| round64(x));
    let numbers: Vec<f64> = numbers.into_iter().filter(|x| x.abs() < 2_251_799_813_685_248.0).collect();
    check_map!(gpu, "round64", &numbers[..], |x: f64| x.round_ties_even() as i64);
    let bits: Vec<u32> = (0..1 << 17).chain((0..N as u64).map(|i| patterns::random(7).u64(i) as u32)).collect();
    let twins: Vec<f32> = bits.iter().map(|b| dither(*b)).collect();
    let (input, mut output) = (gpu.upload(&bits), gpu.poisoned::<f32>(bits.len()));
    over_rows!(gpu, "map_dither", bits.len(), &input, &mut output);
    assert_same("dither", &gpu.download(&output), &twins, |i| format!("{:#x}", bits[i]));
    say(&format!("dither: {} patterns, all equal", bits.len()));
}

/// `pack_both`, `pack_unit`, `pack_wide` and `to_fixed` of cpu/trees/gradient_quantizer.rs, from the
/// engine's own rounding, for values that the factors bring into range.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn packed_statistics_have_the_same_bits() {
    let gpu = gpu();
    let (seed, purpose, stream) = (3u64, Purpose::Rounding, 5u64);
    let (random, number) = (Random::new(seed, purpose, stream), purpose as u64);
    // The last row numbers wrap around.
    for (first_row, exponent) in [(0u32, 0), (1 << 20, -30), (u32::MAX - 1000, 100)] {
        let unit = 2f64.powi(exponent);
        let scaled = |values: Vec<f32>| -> Vec<f32> { values.into_iter().map(|x| (x as f64 * unit) as f32).collect() };
        let mut gradient = scaled(patterns::uniform(N, 8, -1.0, 1.0));
        let mut hessian = scaled(patterns::uniform(N, 9, 0.0, 1.0));
        for (i, x) in [0.0, -0.0, 1e-45, f32::MIN_POSITIVE, unit as f32, (0.5 * unit) as f32].into_iter().enumerate() {
            for at in (i..N).step_by(61) {
                gradient[at] = if at % 2 == 0 { x } else { -x };
                hessian[(at + 7) % N] = x;
            }
        }
        let bits = |i: usize| random.u32(first_row.wrapping_add(i as u32));
        let row = |i: usize| format!("row {i} + {first_row}: {:?}, {:?}", gradient[i], hessian[i]);
        let (on_gpu, hessian_on_gpu) = (gpu.upload(&gradient), gpu.upload(&hessian));
        let mut out = gpu.poisoned::<u32>(N);

        let (f, e) = ((32_000.0 / unit) as f32, (65_000.0 / unit) as f32);
        let whole = |x: f32, bits: u32| round_with(x, dither(bits)) as u32;
        over_rows!(gpu, "packed_both", N, &seed, &number, &stream, &first_row, &on_gpu, &hessian_on_gpu, &f, &e, &mut out);
        let both = |i: usize| whole(gradient[i] * f, bits(i)) << 16 | whole(hessian[i] * e, bits(i) >> 16) & 0xffff;
        assert_same("pack_both", &gpu.download(&out), &(0..N).map(both).collect::<Vec<_>>(), row);

        over_rows!(gpu, "packed_unit", N, &seed, &number, &stream, &first_row, &on_gpu, &hessian_on_gpu, &f, &mut out);
        let counted = |i: usize| whole(gradient[i] * f, bits(i)) << 16 | (hessian[i] != 0.0) as u32;
        assert_same("pack_unit", &gpu.download(&out), &(0..N).map(counted).collect::<Vec<_>>(), row);

        let f = 2_147_480_000.0 / unit;
        for shift in [0u32, 16] {
            over_rows!(gpu, "packed_wide", N, &seed, &number, &stream, &first_row, &on_gpu, &f, &shift, &mut out);
            let wide = |i: usize| round64(gradient[i] as f64 * f + dither(bits(i) >> shift) as f64) as u32;
            assert_same("pack_wide", &gpu.download(&out), &(0..N).map(wide).collect::<Vec<_>>(), row);
        }

        let values: Vec<f32> =
            patterns::f32s(N / 2, 10).into_iter().filter(|x| !x.is_nan()).chain(gradient[N / 2..].iter().copied()).collect();
        let f = 2f64.powi(41) / unit;
        let (values_on_gpu, mut sums) = (gpu.upload(&values), gpu.poisoned::<i64>(values.len()));
        over_rows!(gpu, "fixed", values.len(), &values_on_gpu, &f, &mut sums);
        let fixed: Vec<i64> = values.iter().map(|x| (*x as f64 * f) as i64).collect();
        assert_same("to_fixed", &gpu.download(&sums), &fixed, |i| format!("{:?}", values[i]));
    }
    say(&format!("pack_both, pack_unit, pack_wide, to_fixed: {} rows each or more, all equal", 3 * N));
}

/// A loss's kernel, its parameters (those the engine's constructors derive), and the engine's own.
fn losses() -> Vec<(LossKind, &'static str, (f32, f32), BoostingParams)> {
    let mut all = Vec::new();
    for (alpha, delta, power) in [(0.3, 1.5, 1.3), (0.9, 1.0, 1.5), (0.05, 1e-3, 1.99)] {
        let (gamma, balance) = (delta + 0.7, (alpha > 0.2).then_some(alpha));
        let params = || BoostingParams {
            alpha: alpha.into(),
            huber_delta: Some(delta),
            tweedie_power: power,
            focal_gamma: Some(gamma),
            focal_alpha: balance,
            ..Default::default()
        };
        all.push((LossKind::Expectile, "loss_expectile", ((2.0 * alpha) as f32, (2.0 * (1.0 - alpha)) as f32), params()));
        all.push((LossKind::Focal, "loss_focal", (gamma as f32, balance.map_or(-1.0, |a| a as f32)), params()));
        all.push((LossKind::Quantile, "loss_quantile", (-alpha as f32, (1.0 - alpha) as f32), params()));
        all.push((LossKind::Huber, "loss_huber", (delta as f32, 0.0), params()));
        all.push((LossKind::Tweedie, "loss_tweedie", ((1.0 - power) as f32, (2.0 - power) as f32), params()));
    }
    // The class of an output other than the first: what the kernel is told.
    all.push((LossKind::Ova, "loss_ova", (0.0, 0.0), BoostingParams::default()));
    all.push((LossKind::LogCosh, "loss_log_cosh", (1.0, 1.0), BoostingParams::default()));
    for (kind, kernel) in [
        (LossKind::Rmse, "loss_rmse"),
        (LossKind::Logloss, "loss_cross_entropy"),
        (LossKind::CrossEntropy, "loss_cross_entropy"),
        (LossKind::Mae, "loss_mae"),
        (LossKind::Mape, "loss_mae"),
        (LossKind::Poisson, "loss_poisson"),
        (LossKind::Gamma, "loss_gamma"),
    ] {
        all.push((kind, kernel, (0.0, 0.0), BoostingParams::default()));
    }
    all
}

/// Ordinary targets of that loss, then edges and random bits, which are more than it admits.
fn targets(kind: LossKind, n: usize, stream: u64) -> Vec<f32> {
    let edges = patterns::f32s(n, stream + 1);
    let ordinary = patterns::uniform(n, stream, 0.0, 1.0).into_iter().map(|u| match kind {
        LossKind::Logloss | LossKind::Focal => (u < 0.4) as u8 as f32,
        LossKind::CrossEntropy => u,
        LossKind::Poisson | LossKind::Multiclass | LossKind::Ova => (u * u * 8.0).floor(),
        LossKind::Gamma => 0.01 + 5.0 * u * u,
        LossKind::Tweedie => {
            if u < 0.5 {
                0.0
            } else {
                10.0 * (u - 0.5)
            }
        }
        _ => 10.0 * u - 3.0,
    });
    // Blocks of four, since the patterns take turns by four.
    ordinary.zip(edges).enumerate().map(|(i, (t, e))| if (i / 4) % 4 == 0 { e } else { t }).collect()
}

fn weights(n: usize, stream: u64) -> Vec<f32> {
    let edges = patterns::f32s(n, stream + 1);
    let ordinary = patterns::uniform(n, stream, 0.0, 3.0);
    ordinary.into_iter().zip(edges).enumerate().map(|(i, (w, e))| if (i / 4) % 8 == 1 { e.abs() } else { w }).collect()
}

/// A null pointer, for a kernel without weights.
const NONE: u64 = 0;

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn derivatives_have_the_same_bits() {
    let gpu = gpu();
    let n = N / 4;
    let mut scores = patterns::f32s(n, 20);
    // Scores equal to the target, and within a few units of it, too.
    scores.rotate_left(n / 3);
    for (kind, kernel, (a, b), params) in losses() {
        let mut target = targets(kind, n, 21);
        (0..n).step_by(11).for_each(|i| target[i] = scores[i]);
        let loss = loss(kind, &params.loss_params(), 2, 1.0).expect("the loss exists");
        let weight = weights(n, 23);
        let (on_gpu, target_on_gpu, weight_on_gpu) = (gpu.upload(&scores), gpu.upload(&target), gpu.upload(&weight));
        for weighted in [false, true] {
            let (mut g, mut h) = (vec![0.0; n], vec![0.0; n]);
            loss.derivatives(
                0,
                Rows { scores: &[&scores], target: &target, weight: weighted.then_some(&weight), columns: &[] },
                &mut g,
                &mut h,
            );
            let (mut gradient, mut hessian) = (gpu.poisoned::<f32>(n), gpu.poisoned::<f32>(n));
            if weighted {
                over_rows!(gpu, kernel, n, &on_gpu, &target_on_gpu, &weight_on_gpu, &a, &b, &mut gradient, &mut hessian);
            } else {
                over_rows!(gpu, kernel, n, &on_gpu, &target_on_gpu, &NONE, &a, &b, &mut gradient, &mut hessian);
            }
            let row = |i: usize| format!("score {:?}, target {:?}, weight {:?} ({weighted})", scores[i], target[i], weight[i]);
            assert_same(&format!("{kind:?} gradient"), &gpu.download(&gradient), &g, row);
            assert_same(&format!("{kind:?} hessian"), &gpu.download(&hessian), &h, row);
        }
        say(&format!("{kind:?} ({a}, {b}): {} derivatives, all equal", 2 * n));
    }
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn gaussian_derivatives_have_the_same_bits() {
    let gpu = gpu();
    let n = N / 8;
    let mut means = patterns::f32s(n, 50);
    means.rotate_left(n / 5);
    let deviations: Vec<f32> = patterns::uniform(n, 51, -9.0, 9.0)
        .into_iter()
        .zip(patterns::f32s(n, 52))
        .enumerate()
        .map(|(i, (s, e))| if i % 8 == 0 { e } else { s })
        .collect();
    let (target, weight) = (targets(LossKind::Gaussian, n, 53), weights(n, 54));
    let loss = loss(LossKind::Gaussian, &BoostingParams::default().loss_params(), 0, 1.0).expect("the loss exists");
    let on_gpu = gpu.upload(&[&means[..], &deviations[..]].concat());
    let (target_on_gpu, weight_on_gpu) = (gpu.upload(&target), gpu.upload(&weight));
    for output in [0usize, 1] {
        for weighted in [false, true] {
            let (mut g, mut h) = (vec![0.0; n], vec![0.0; n]);
            let rows = Rows { scores: &[&means, &deviations], target: &target, weight: weighted.then_some(&weight), columns: &[] };
            loss.derivatives(output, rows, &mut g, &mut h);
            let (mut gradient, mut hessian, o) = (gpu.poisoned::<f32>(n), gpu.poisoned::<f32>(n), output as u32);
            if weighted {
                over_rows!(gpu, "loss_gaussian", n, &on_gpu, &target_on_gpu, &weight_on_gpu, &o, &mut gradient, &mut hessian);
            } else {
                over_rows!(gpu, "loss_gaussian", n, &on_gpu, &target_on_gpu, &NONE, &o, &mut gradient, &mut hessian);
            }
            let row = |i: usize| format!("mean {:?}, deviation {:?}, target {:?}, weighted {weighted}", means[i], deviations[i], target[i]);
            assert_same("gaussian gradient", &gpu.download(&gradient), &g, row);
            assert_same("gaussian hessian", &gpu.download(&hessian), &h, row);
        }
    }
    say(&format!("Gaussian: {} derivatives, all equal", 8 * n));
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn multiclass_derivatives_have_the_same_bits() {
    let gpu = gpu();
    for classes in [2usize, 3, 7, 40] {
        let n = N / 32;
        // Mostly ordinary scores; edges and random bits in every eighth row, of one class or all.
        let scores: Vec<Vec<f32>> = (0..classes as u64)
            .map(|k| {
                let mut edges = patterns::f32s(n, 40 + k);
                edges.rotate_left(997 * k as usize);
                let ordinary = patterns::uniform(n, 90 + k, -12.0, 12.0);
                let odd = |i: usize| (i / 4).is_multiple_of(8) && (i.is_multiple_of(3) || i as u64 % classes as u64 == k);
                ordinary.into_iter().zip(edges).enumerate().map(|(i, (s, e))| if odd(i) { e } else { s }).collect()
            })
            .collect();
        let mut target = targets(LossKind::Multiclass, n, 30);
        target.iter_mut().for_each(|t| *t = if *t < classes as f32 { *t } else { 0.0 });
        let loss = loss(LossKind::Multiclass, &BoostingParams::default().loss_params(), classes, 1.0).expect("the loss exists");
        let factor = classes as f32 / (classes as f32 - 1.0);
        let weight = weights(n, 32);
        let slices: Vec<&[f32]> = scores.iter().map(|s| &s[..]).collect();
        let (on_gpu, target_on_gpu, weight_on_gpu) = (gpu.upload(&scores.concat()), gpu.upload(&target), gpu.upload(&weight));
        for output in [0, classes / 2, classes - 1] {
            for weighted in [false, true] {
                let (mut g, mut h) = (vec![0.0; n], vec![0.0; n]);
                let rows = Rows { scores: &slices, target: &target, weight: weighted.then_some(&weight), columns: &[] };
                loss.derivatives(output, rows, &mut g, &mut h);
                let (mut gradient, mut hessian) = (gpu.poisoned::<f32>(n), gpu.poisoned::<f32>(n));
                let (k, o) = (classes as u32, output as u32);
                if weighted {
                    over_rows!(
                        gpu,
                        "loss_multiclass",
                        n,
                        &on_gpu,
                        &target_on_gpu,
                        &weight_on_gpu,
                        &k,
                        &o,
                        &factor,
                        &mut gradient,
                        &mut hessian
                    );
                } else {
                    over_rows!(gpu, "loss_multiclass", n, &on_gpu, &target_on_gpu, &NONE, &k, &o, &factor, &mut gradient, &mut hessian);
                }
                let row = |i: usize| format!("row {i} of {classes} classes, output {output}, weighted {weighted}");
                assert_same("multiclass gradient", &gpu.download(&gradient), &g, row);
                assert_same("multiclass hessian", &gpu.download(&hessian), &h, row);
            }
        }
        say(&format!("Multiclass of {classes}: {} derivatives, all equal", 6 * n));
    }
}

/// Losses of one's own that use every operation.
const FORMULAS: [&str; 7] = [
    "0.5 * (y - f) ** 2",
    "log1p(exp(f)) - y * f",
    "p = sigmoid(f); -y * (1 - p) ** 2 * log(p) - (1 - y) * p ** 2 * log(1 - p)",
    "sqrt(1 + (y - f) ** 2) - 1 + tanh(f / 4) ** 2",
    "when((y > f) & ~(f == 0) | (y <= 1)).then(2 * (y - f) ** 2).otherwise(min(abs(y - f), max(y, f)) + expm1(f))",
    "(0.1 + y ** 2) ** 0.3 * exp(-f) + softplus(f) + log1p(y ** 2) * f ** 2",
    "`c` * exp(f) - y * f + sign(`d` - f) * (f - `d`) ** 2 / (1 + abs(`c`))",
];

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn losses_of_ones_own_have_the_same_bits() {
    let gpu = gpu();
    let n = N / 8;
    let (scores, target) = (patterns::f32s(n, 60), targets(LossKind::Rmse, n, 61));
    let ordinary = patterns::uniform(n, 62, -4.0, 4.0);
    let scores: Vec<f32> = scores.into_iter().zip(ordinary).enumerate().map(|(i, (e, o))| if i % 8 < 2 { e } else { o }).collect();
    let columns = [patterns::uniform(n, 63, -2.0, 2.0), patterns::f32s(n, 64)];
    // A curvature that needs more registers than the largest blocks have room for.
    let names: Vec<String> = (1..=40).map(|i| format!("a{i}")).collect();
    let named = names.iter().enumerate().map(|(i, name)| format!("{name} = exp(f / {}); ", i + 1)).collect::<String>();
    let long = format!("{named}1 + {} + {}", names.join(" * "), names.join(" + "));
    let squared = CustomLoss { value: "(y - f) ** 2".into(), hessian: Some(long), ..CustomLoss::default() };
    let losses = FORMULAS.map(|value| CustomLoss { value: value.into(), ..CustomLoss::default() });
    for custom in losses.into_iter().chain([squared]) {
        let value = custom.value.clone();
        let params = BoostingParams { custom_loss: Some(custom), ..Default::default() };
        let loss = loss(LossKind::Custom, &params.loss_params(), 0, 1.0).expect("the loss exists");
        let program = loss.program().expect("it has a program");
        let (mut g, mut h) = (vec![0.0; n], vec![0.0; n]);
        let slices = [&columns[0][..], &columns[1]];
        loss.derivatives(0, Rows { scores: &[&scores], target: &target, weight: None, columns: &slices }, &mut g, &mut h);
        let (on_gpu, target_on_gpu, columns_on_gpu) = (gpu.upload(&scores), gpu.upload(&target), gpu.upload(&columns.concat()));
        let constants: Vec<f32> = program.constants.iter().map(|x| *x as f32).chain([0.0]).collect();
        let (instructions, constants) = (gpu.upload(&program.words()), gpu.upload(&constants));
        let (count, outputs) = (program.instructions.len() as u32, program.output_words());
        let (mut gradient, mut hessian) = (gpu.poisoned::<f32>(n), gpu.poisoned::<f32>(n));
        let (rows, registers) = (n as u64, program.registers as u32);
        let kernel = gpu.queue.gpu().kernel(NUMERICS, "loss_program").expect("the kernel is there");
        // Fewer blocks than rows need, so that each takes several times.
        let config = LaunchConfig { grid_dim: (64, 1, 1), ..program_grid(program, n) };
        // SAFETY: the arguments are those of the kernel's signature, every array has `n` rows, and the block has the program's memory.
        unsafe {
            launch!(
                gpu.queue, kernel, config;
                &rows, &on_gpu, &target_on_gpu, &columns_on_gpu, &instructions, &constants, &count, &outputs[0], &outputs[1], &registers,
                &mut gradient, &mut hessian
            )
        }
        .expect("it is launched");
        gpu.queue.synchronize().expect("it runs");
        let row = |i: usize| format!("{value}: score {:?}, target {:?}", scores[i], target[i]);
        assert_same("gradient", &gpu.download(&gradient), &g, row);
        assert_same("hessian", &gpu.download(&hessian), &h, row);
        say(&format!("{value}, {} threads: {} derivatives, all equal", config.block_dim.0, 2 * n));
    }
}
