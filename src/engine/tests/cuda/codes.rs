//! Codes made on the GPU are the CPU's.

use taiga_engine::column::{Column, FeatureType};
use taiga_engine::cuda::DeviceColumn;
use taiga_engine::cuda::columns::codes::{CodeInput, CodePlace, DeviceCode, codes, quantize};
use taiga_engine::cuda::cudarc::driver::CudaSlice;
use taiga_engine::quantize::codes::{Code, Quantizer, QuantizerScratch};
use taiga_testing::gpu::every_type::EveryType;
use taiga_testing::gpu::gpu;
use taiga_testing::gpu::patterns;

fn cpu<C: Code>(column: &Column<'_>, borders: &[f64], offset: usize) -> (Vec<C>, bool) {
    let mut out = vec![C::default(); column.len()];
    let missing = Quantizer::new(borders).codes(column, 0, column.len(), offset, &mut out, 1, &mut QuantizerScratch::default());
    (out, missing)
}

fn check<C: Code + DeviceCode + PartialEq + std::fmt::Debug + taiga_engine::cuda::cudarc::driver::ValidAsZeroBits>(
    what: &str,
    column: &Column<'_>,
    borders: &[f64],
    offset: usize,
) {
    let gpu = gpu();
    let on_device = DeviceColumn::numeric(&gpu.queue, column).expect("room");
    for place in [CodePlace { first: 0, stride: 1 }, CodePlace { first: 5, stride: 32 }] {
        let mut out: CudaSlice<C> = gpu.queue.zeros("codes", place.first + column.len() * place.stride + 1).expect("room");
        let mut missing = gpu.queue.zeros::<u32>("a flag", 1).expect("room");
        codes(&gpu.queue, &on_device, borders, offset, &mut out, place, &mut missing.as_view_mut()).expect("codes");
        let (expected, any) = cpu::<C>(column, borders, offset);
        let found = gpu.download(&out);
        let found: Vec<C> = (0..column.len()).map(|row| found[place.first + row * place.stride]).collect();
        if let Some(row) = (0..column.len()).find(|i| found[*i] != expected[*i]) {
            panic!("{what}: row {row}: GPU {:?}, CPU {:?}", found[row], expected[row]);
        }
        assert_eq!(gpu.download(&missing)[0] != 0, any, "{what}");
    }
}

fn ascending(mut borders: Vec<f64>) -> Vec<f64> {
    borders.retain(|b| !b.is_nan());
    borders.sort_by(f64::total_cmp);
    borders.dedup();
    borders
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn codes_of_bit_patterns_are_the_cpus() {
    gpu();
    let (singles, doubles) = (patterns::f32s(1 << 18, 1), patterns::f64s(1 << 18, 2));
    for n in [0usize, 1, 2, 3, 15, 16, 100, 253, 254] {
        let near = singles.iter().map(|x| *x as f64).flat_map(|x| [x, x.next_up(), x.next_down()]);
        let step = (3 * singles.len() / (n + 1)).max(1);
        let mut borders = ascending(near.step_by(step).take(n).collect());
        borders.truncate(254);
        // Values on the borders and beside them.
        let beside: Vec<f64> = borders.iter().flat_map(|b| [*b, b.next_up(), b.next_down()]).collect();
        let wide: Vec<f64> = doubles.iter().copied().chain(beside.iter().copied()).collect();
        let narrow: Vec<f32> = singles.iter().copied().chain(beside.iter().map(|x| *x as f32)).collect();
        for offset in [0, 1] {
            check::<u8>("f32", &Column::from_f32("x", &narrow), &borders, offset);
            check::<u8>("f64", &Column::from_f64("x", &wide), &borders, offset);
            check::<u16>("f32", &Column::from_f32("x", &narrow), &borders, offset);
            check::<u16>("f64", &Column::from_f64("x", &wide), &borders, offset);
        }
    }
    let many: Vec<f64> = ascending(patterns::f64s(60_000, 9));
    check::<u16>("many borders", &Column::from_f64("x", &doubles), &many, 1);
    check::<u16>("many borders", &Column::from_f32("x", &singles), &many, 1);
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn every_type_with_nulls_is_coded_as_on_the_cpu() {
    gpu();
    let borders = ascending((0..200).map(|i| if i < 100 { i as f64 - 50.5 } else { 1.3f64.powi(i - 70) }).collect());
    for n in [0usize, 1, 65, 40_001] {
        for [plain, nulls] in EveryType::new(n).chunks() {
            let column = |chunks| Column::new("x", FeatureType::Numeric, chunks);
            check::<u8>(&format!("{n}"), &column(vec![nulls, plain, nulls]), &borders, 1);
            check::<u8>(&format!("{n}"), &column(vec![plain]), &borders, 0);
        }
    }
}

/// Rows of 32 bytes, as the boosting backend has them; with columns of several lengths of borders, and codes.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn blocks_of_features_are_the_cpus() {
    let gpu = gpu();
    for n in [1usize, 3, 1000, 3_000_001] {
        let values: Vec<Vec<f32>> =
            (0..7u64).map(|f| (0..n as u64).map(|i| patterns::random(f).unit(i) as f32 - 0.1 * f as f32).collect()).collect();
        let mut with_nan = values[0].clone();
        with_nan[n / 2] = f32::NAN;
        let columns: Vec<Column<'_>> = values.iter().chain([&with_nan]).map(|v| Column::from_f32("x", v)).collect();
        let borders: Vec<Vec<f64>> = (0..8).map(|f| (0..f * 30).map(|i| i as f64 / (f * 30) as f64).collect()).collect();
        let ready: Vec<u8> = (0..n).map(|i| (i * 7 % 251) as u8).collect();
        let mut sources: Vec<(CodeInput<'_>, CodePlace)> = columns
            .iter()
            .zip(&borders)
            .enumerate()
            .map(|(f, (c, b))| (CodeInput::Values(c, b, 1), CodePlace { first: f, stride: 32 }))
            .collect();
        sources.push((CodeInput::Codes(&ready), CodePlace { first: 31, stride: 32 }));
        let mut out = gpu.queue.zeros::<u8>("codes", n * 32).expect("room");
        let missing = quantize(&gpu.queue, &sources, &mut out).expect("codes");
        assert_eq!(missing, [false, false, false, false, false, false, false, true, false]);
        let found = gpu.download(&out);
        for (f, (column, borders)) in columns.iter().zip(&borders).enumerate() {
            let expected = cpu::<u8>(column, borders, 1).0;
            assert!((0..n).all(|row| found[row * 32 + f] == expected[row]), "feature {f} of {n} rows");
        }
        assert!((0..n).all(|row| found[row * 32 + 31] == ready[row] && found[row * 32 + 20] == 0));
    }
}
