//! Borders fitted on the GPU are the CPU's to the last bit, and so are the codes that columns get by them.

use std::sync::Mutex;
use taiga_engine::column::{Bits, Chunk, Column, FeatureType, Values};
use taiga_engine::column_steps::{BLOCK, MOST_BORDERS};
use taiga_engine::cuda::columns::borders::borders;
use taiga_engine::device::clear_device_cache;
use taiga_engine::device::columns::{with_columns, with_sorting_columns};
use taiga_engine::quantize::BorderMethod;
use taiga_engine::quantize::borders::{BorderParams, fit_borders};
use taiga_testing::gpu::every_type::EveryType;
use taiga_testing::gpu::patterns;
use taiga_testing::gpu::{gpu, say};

const METHODS: [BorderMethod; 4] = [BorderMethod::Quantile, BorderMethod::Uniform, BorderMethod::GreedyLogsum, BorderMethod::MinMaxEntropy];

fn same(what: &str, column: &Column<'_>, borders_at_most: usize, sample: usize) {
    let bins = borders_at_most + 1;
    let gpu = gpu();
    for method in METHODS {
        let params = BorderParams { bins, method, sample, seed: 11 };
        let found = borders(&gpu.queue, column, &params).expect("the GPU finds them");
        let expected = fit_borders(column, &params);
        let bits = |borders: &[f64]| borders.iter().map(|b| b.to_bits()).collect::<Vec<_>>();
        if bits(&found) != bits(&expected) {
            let at = (0..found.len().min(expected.len())).find(|i| found[*i].to_bits() != expected[*i].to_bits());
            panic!(
                "{what}, {method:?}, {bins} bins, a sample of {sample}: {} borders for {}; the first to differ is {at:?}: GPU {:?}, CPU {:?}",
                found.len(),
                expected.len(),
                at.map(|i| found[i]),
                at.map(|i| expected[i])
            );
        }
    }
}

fn unit(i: usize, stream: u64) -> f64 {
    patterns::random(900 + stream).unit(i as u64)
}

/// Values of many shapes, by name.
fn shapes(n: usize) -> Vec<(&'static str, Vec<f64>)> {
    let of = |f: &dyn Fn(usize) -> f64| (0..n).map(f).collect::<Vec<f64>>();
    let special = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 5e-324, -1e300];
    vec![
        ("uniform", of(&|i| unit(i, 0))),
        ("both signs", of(&|i| unit(i, 0) * 2.0 - 1.0)),
        ("squares", of(&|i| (unit(i, 1) * 2.0 - 1.0).powi(5))),
        ("constant", of(&|_| 0.37)),
        ("nothing", of(&|_| f64::NAN)),
        ("one value", of(&|i| if i % 3 == 0 { 2.0 } else { f64::NAN })),
        ("two values", of(&|i| (i % 2) as f64)),
        ("zeros", of(&|i| if i % 2 == 0 { 0.0 } else { -0.0 })),
        ("whole", of(&|i| (unit(i, 2) * 256.0).floor() - 100.0)),
        ("half one value", of(&|i| if unit(i, 3) < 0.5 { 0.5 } else { unit(i, 4) })),
        ("nearly all one value", of(&|i| if unit(i, 3) < 0.999 { -7.0 } else { unit(i, 4) * 1e9 })),
        // Rows fall by half from value to value.
        ("geometric", of(&|i| (-unit(i, 5).log2()).floor() + if unit(i, 6) < 0.1 { unit(i, 7) } else { 0.0 })),
        // Rows like 1 / rank: values about as heavy as an average bin.
        ("by rank", of(&|i| (1.0 / (unit(i, 8) + 1e-6)).floor())),
        ("missing", of(&|i| if i % 3 == 0 { f64::NAN } else { unit(i, 9) - 0.5 })),
        ("infinite", of(&|i| special[(unit(i, 10) * 7.0) as usize])),
        (
            "infinite ends",
            of(&|i| {
                if i % 5 == 0 {
                    f64::INFINITY
                } else if i % 5 == 1 {
                    f64::NEG_INFINITY
                } else {
                    unit(i, 11)
                }
            }),
        ),
        ("sorted", of(&|i| i as f64)),
        ("huge", of(&|i| (unit(i, 12) - 0.5) * 1e308 * 2.0)),
    ]
}

/// Proves all methods on floats of both widths, for few and many bins, whole columns and samples.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn floats_have_the_same_borders() {
    gpu();
    let mut done = 0;
    for n in [0usize, 1, 2, 3, 5, 700, 5_001, 300_001] {
        for (name, doubles) in shapes(n) {
            let singles: Vec<f32> = doubles.iter().map(|x| *x as f32).collect();
            for column in [Column::from_f64(name, &doubles), Column::from_f32(name, &singles)] {
                for bins in [1, 2, 3, 16, 254, 255, 5_000, MOST_BORDERS] {
                    if n > 10_000 && ![2, 254, 5_000].contains(&bins) {
                        continue;
                    }
                    same(&format!("{name} of {n}"), &column, bins, usize::MAX);
                    done += METHODS.len();
                }
                for sample in [2, 1000] {
                    same(&format!("{name} of {n}"), &column, 100, sample);
                }
            }
        }
    }
    say(&format!("borders of floats: {done} sets are the CPU's"));
}

/// Proves that keys order every bit pattern as the CPU does.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn bit_patterns_have_the_same_borders() {
    gpu();
    let (singles, doubles) = (patterns::f32s(1 << 17, 3), patterns::f64s(1 << 17, 4));
    for bins in [254, MOST_BORDERS] {
        same("f32", &Column::from_f32("x", &singles), bins, usize::MAX);
        same("f64", &Column::from_f64("x", &doubles), bins, usize::MAX);
    }
}

/// Proves all types, their largest and smallest values, nulls and chunks.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn every_type_with_nulls_has_the_same_borders() {
    gpu();
    for n in [1usize, 65, 40_001] {
        for (kind, [plain, nulls]) in EveryType::new(n).chunks().into_iter().enumerate() {
            for chunks in [vec![plain], vec![nulls, plain, nulls], vec![nulls]] {
                let column = Column::new("x", FeatureType::Numeric, chunks);
                for bins in [3, 254, 60_000] {
                    same(&format!("{n} of type {kind}"), &column, bins, usize::MAX);
                }
                same(&format!("{n} of type {kind}"), &column, 254, 900);
            }
        }
    }
}

/// Proves the choice among millions of distinct values, of which few come to the host, with ties and without.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn many_values_have_the_same_borders() {
    gpu();
    let n = 6_000_000;
    let singles: Vec<f32> = (0..n).map(|i| unit(i, 20) as f32).collect();
    let doubles: Vec<f64> = (0..n).map(|i| unit(i, 21) - 0.5).collect();
    // A tenth of the rows have one of 300 values.
    let tied: Vec<f64> = (0..n).map(|i| if i % 10 == 0 { (unit(i, 22) * 300.0).floor() / 100.0 } else { unit(i, 23) * 3.0 }).collect();
    let skewed: Vec<f64> = (0..n).map(|i| 1.0 / (unit(i, 24) + 1e-7)).collect();
    for bins in [1, 254, 20_000] {
        same("f32", &Column::from_f32("x", &singles), bins, usize::MAX);
        same("f64", &Column::from_f64("x", &doubles), bins, usize::MAX);
        same("tied", &Column::from_f64("x", &tied), bins, usize::MAX);
        same("skewed", &Column::from_f64("x", &skewed), bins, usize::MAX);
        let whole: Vec<f64> = skewed.iter().map(|x| x.floor()).collect();
        same("whole", &Column::from_f64("x", &whole), bins, usize::MAX);
    }
}

/// Proves that a sample is the same from a column that is on the GPU already.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn samples_of_columns_that_stayed_are_the_same() {
    let gpu = gpu();
    let values: Vec<f32> = (0..100_000).map(|i| unit(i, 30) as f32).collect();
    let column = Column::from_f32("x", &values);
    let before = gpu.queue.gpu().cache().info(gpu.queue.gpu()).hits;
    same("a sample from the host", &column, 100, 20_000);
    same("the whole column, which stays", &column, 100, usize::MAX);
    same("a sample of what is there", &column, 100, 20_000);
    assert!(gpu.queue.gpu().cache().info(gpu.queue.gpu()).hits >= before + 4);
    clear_device_cache().expect("cleared");
}

fn codes(device: &str, column: &Column<'_>, borders: &[f64]) -> Result<Vec<u16>, String> {
    let blocks = Mutex::new(vec![]);
    let take = |block: usize, codes: &[u16]| blocks.lock().expect("no panic").push((block, codes.to_vec()));
    with_columns(device, |backend| backend.codes(column, borders, &take)).map_err(|e| e.to_string())?;
    let mut blocks = blocks.into_inner().expect("no panic");
    blocks.sort();
    assert!(blocks.iter().enumerate().all(|(i, (block, codes))| i == *block && codes.len() <= BLOCK));
    Ok(blocks.into_iter().flat_map(|(_, codes)| codes).collect())
}

/// Proves that both backends give the same borders and codes by their names, and the same error.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn verbs_are_the_same_on_both_devices() {
    gpu();
    for n in [0usize, 1, 1000, BLOCK, 3 * BLOCK + 17] {
        let values: Vec<f64> = (0..n).map(|i| if i % 50 == 3 { f64::NAN } else { unit(i, 31) }).collect();
        let column = Column::from_f64("x", &values);
        for bins in [2, 255, 1001] {
            let params = BorderParams { bins, method: BorderMethod::Quantile, sample: 500, seed: 3 };
            let of = |device| with_sorting_columns(device, n, &|_| (), |backend| backend.borders(&column, &params)).expect("borders");
            let (cpu, gpu, auto) = (of("cpu"), of("cuda"), of("auto"));
            assert!(cpu == gpu && cpu == auto, "{n}");
            // Said to be so many that a GPU gains.
            let gains = with_sorting_columns("auto", 1 << 28, &|_| (), |backend| backend.borders(&column, &params)).expect("borders");
            assert!(cpu == gains, "{n}");
            let expected = codes("cpu", &column, &cpu).expect("codes");
            assert_eq!(expected.len(), n);
            assert!(expected.iter().zip(&values).all(|(c, x)| (*c == 0) == x.is_nan()));
            assert!(codes("cuda", &column, &cpu).expect("codes") == expected, "{n} rows, {bins} bins");
        }
    }
    let many: Vec<f64> = (0..=MOST_BORDERS).map(|i| i as f64).collect();
    let column = Column::from_f64("x", &many);
    let all = codes("cpu", &column, &many[..MOST_BORDERS]).expect("codes");
    assert!(all.iter().enumerate().all(|(i, c)| *c as usize == i + 1));
    assert!(codes("cuda", &column, &many[..MOST_BORDERS]).expect("codes") == all);
    let refused = codes("cpu", &column, &many).expect_err("too many");
    assert_eq!(codes("cuda", &column, &many).expect_err("too many"), refused);
}

/// For the sanitizers: every kernel, on little.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn every_kernel_once() {
    gpu();
    let n = 20_000;
    let values: Vec<f64> = (0..n)
        .map(|i| match (i % 9, i % 3) {
            (0, _) => f64::NAN,
            (_, 0) => 0.5,
            _ => unit(i, 40),
        })
        .collect();
    let whole: Vec<i32> = (0..n as i32).collect();
    let bits: Vec<u8> = (0..n / 8 + 1).map(|i| i as u8).collect();
    let nulls = Column::new("x", FeatureType::Numeric, vec![Chunk::new(Values::I32(&whole), Some(Bits::new(&bits, 3, n)))]);
    let column = Column::from_f64("x", &values);
    for (bins, sample) in [(100, usize::MAX), (100, 5_000), (3_000, usize::MAX)] {
        same("f64", &column, bins, sample);
        same("i32 with nulls", &nulls, bins, sample);
    }
}
