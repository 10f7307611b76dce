//! Statistics on the GPU have the CPU's bits: extremes, counts and weights, over random values and
//! the edges, for every type, with nulls, in chunks.

use taiga_engine::column::{Bits, Chunk, Column, FeatureType, Values};
use taiga_engine::cuda::DeviceColumn;
use taiga_engine::cuda::columns::range::count_by_range;
use taiga_engine::cuda::columns::stats;
use taiga_engine::numerics::random::Random;
use taiga_engine::stats::{AxisParams, Heights, Histogram, HistogramParams, histogram, min_max};
use taiga_testing::gpu::patterns;
use taiga_testing::gpu::{Gpu, gpu, say};

fn same(gpu: &Gpu, what: &str, column: &Column<'_>, weights: Option<&Column<'_>>, params: &HistogramParams) {
    let cpu = histogram(column, weights, params);
    let found = stats::histogram(&gpu.queue, column, weights, params);
    match (found, cpu) {
        (Ok(found), Ok(cpu)) => {
            let bits = |h: &Histogram| -> (Vec<u64>, Vec<u64>) {
                let edges = h.edges.iter().map(|e| e.to_bits()).collect();
                let heights = match &h.heights {
                    Heights::Counts(n) => n.clone(),
                    Heights::Values(v) => v.iter().map(|x| if x.is_nan() { u64::MAX } else { x.to_bits() }).collect(),
                };
                (edges, heights)
            };
            let (found_bits, cpu_bits) = (bits(&found), bits(&cpu));
            assert_eq!(found_bits.0, cpu_bits.0, "{what}: edges");
            if let Some(i) = (0..cpu_bits.1.len()).find(|i| found_bits.1[*i] != cpu_bits.1[*i]) {
                panic!("{what}, {params:?}: bin {i} of {}: GPU {:?}, CPU {:?}", cpu_bits.1.len(), found.heights, cpu.heights);
            }
        }
        (Err(found), Err(cpu)) => assert_eq!(found.to_string(), cpu.to_string(), "{what}"),
        (found, cpu) => panic!("{what}, {params:?}: GPU {found:?}, CPU {cpu:?}"),
    }
}

fn bins(bins: i64, range: Option<(f64, f64)>) -> HistogramParams {
    HistogramParams { axis: AxisParams { bins: Some(bins), range, edges: None }, density: false }
}

fn edges(edges: &[f64]) -> HistogramParams {
    HistogramParams { axis: AxisParams { bins: None, range: None, edges: Some(edges.to_vec()) }, density: false }
}

fn random(stream: u64) -> Random {
    patterns::random(7_000 + stream)
}

/// Values of many shapes, by name.
fn shapes(n: usize) -> Vec<(&'static str, Vec<f64>)> {
    let r = random(1);
    let unit = |i: usize| r.unit(i as u64);
    let of = |f: &dyn Fn(usize) -> f64| (0..n).map(f).collect::<Vec<f64>>();
    vec![
        ("uniform", of(&|i| unit(i))),
        ("constant", of(&|_| 0.37)),
        ("sorted", of(&|i| i as f64 / n as f64)),
        ("skewed", of(&|i| if unit(i) < 0.95 { 0.5 } else { unit(i + n) })),
        ("whole", of(&|i| (unit(i) * 256.0).floor())),
        ("huge", of(&|i| (unit(i) - 0.5) * 1e300)),
        ("tiny", of(&|i| unit(i) * 1e-310)),
        ("missing", of(&|i| if i % 3 == 0 { f64::NAN } else { unit(i) - 0.5 })),
        ("infinite", of(&|i| [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -0.0, 0.25][(unit(i) * 5.0) as usize])),
        ("nothing", of(&|_| f64::NAN)),
    ]
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn floats_have_the_same_extremes_and_counts() {
    let gpu = gpu();
    let mut done = 0;
    for n in [0, 1, 2, 3, 5, 1000, 4097, 300_001] {
        for (name, doubles) in shapes(n) {
            let singles: Vec<f32> = doubles.iter().map(|x| *x as f32).collect();
            for column in [Column::from_f64("x", &doubles), Column::from_f32("x", &singles)] {
                let found = stats::min_max_of(&gpu.queue, &column).expect("the GPU finds them");
                assert_eq!(format!("{found:?}"), format!("{:?}", min_max(&column)), "{name} of {n}");
                for count in [1, 2, 3, 10, 16, 64, 100, 256, 1000, 1024, 4096, 10_000, 70_000] {
                    for range in [None, Some((0.0, 0.0)), Some((0.1, 0.9)), Some((-1e-3, 1e3)), Some((0.0, 256.0))] {
                        same(gpu, &format!("{name} of {n}"), &column, None, &bins(count, range));
                        done += 1;
                    }
                }
                for list in [
                    &[0.0, 0.5][..],
                    &[0.37, 0.37, 0.37],
                    &[f64::NEG_INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 0.3, 0.3, 0.37, 0.5, f64::INFINITY, f64::INFINITY],
                    &[-1.0, -0.5, 0.1, 0.100000001, 0.2, 0.7, 1.0],
                ] {
                    same(gpu, &format!("{name} of {n}"), &column, None, &edges(list));
                }
                for count in [700, 9_000, 100_000] {
                    let list: Vec<f64> = (0..=count).map(|i| (i as f64 / count as f64).powi(2)).collect();
                    same(gpu, &format!("{name} of {n}"), &column, None, &edges(&list));
                }
            }
        }
    }
    say(&format!("histograms: {done}, all equal"));
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn bit_patterns_have_the_same_counts() {
    let gpu = gpu();
    let (singles, doubles) = (patterns::f32s(1 << 20, 77), patterns::f64s(1 << 20, 78));
    for column in [Column::from_f32("x", &singles), Column::from_f64("x", &doubles)] {
        for range in [(-1.0, 1.0), (0.5, 1.5), (-3e38, 3e38), (0.0, 1e-38), (-105.0, 105.0), (1.0, 1.0 + 1e-4)] {
            for count in [1, 7, 64, 1000, 4096] {
                same(gpu, "patterns", &column, None, &bins(count, Some(range)));
            }
        }
        let mut list: Vec<f64> = doubles.iter().copied().filter(|x| !x.is_nan()).step_by(301).collect();
        list.sort_by(f64::total_cmp);
        same(gpu, "patterns", &column, None, &edges(&list));
    }
}

/// Values on the edges, and their neighbours.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn values_on_edges_fall_where_the_cpu_has_them() {
    let gpu = gpu();
    for (first, last) in [(0.0, 1.0), (-3.3, 7.7), (0.1, 0.3), (1e10, 1e10 + 1e6), (-1e-3, 1e-3)] {
        for count in [3, 10, 100, 999, 4096, 5000] {
            let list = histogram(&Column::from_f64("x", &[]), None, &bins(count, Some((first, last)))).expect("edges").edges;
            let doubles: Vec<f64> = list.iter().flat_map(|e| [*e, e.next_down(), e.next_up()]).collect();
            same(gpu, "f64 on edges", &Column::from_f64("x", &doubles), None, &bins(count, Some((first, last))));
            let singles: Vec<f32> = list.iter().map(|e| *e as f32).flat_map(|e| [e, e.next_down(), e.next_up()]).collect();
            same(gpu, "f32 on edges", &Column::from_f32("x", &singles), None, &bins(count, Some((first, last))));
        }
    }
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn every_type_with_nulls_and_chunks_has_the_same_statistics() {
    let gpu = gpu();
    for n in [1usize, 63, 64, 65, 1000, 70_001] {
        let r = random(3);
        let bits: Vec<u8> = (0..n.div_ceil(8) + 9).map(|i| r.u32(i as u32) as u8).collect();
        let word = |i: usize| (r.u64(1 + i as u64) as u128) << 64 | r.u64(9 + i as u64 * 7) as u128;
        macro_rules! of {
            ($t:ty) => {
                (0..n).map(|i| (word(i) >> (i % 3) * size_of::<$t>()) as $t).collect::<Vec<$t>>()
            };
        }
        let (i8s, i16s, i32s, i64s, i128s) = (of!(i8), of!(i16), of!(i32), of!(i64), of!(i128));
        let (u8s, u16s, u32s, u64s, u128s) = (of!(u8), of!(u16), of!(u32), of!(u64), of!(u128));
        let (f32s, f64s) = (patterns::f32s(n, 5), patterns::f64s(n, 6));
        let decimals: Vec<i128> = i64s.iter().map(|x| *x as i128).collect();
        let all: Vec<(&str, Values<'_>)> = vec![
            ("i8", Values::I8(&i8s)),
            ("i16", Values::I16(&i16s)),
            ("i32", Values::I32(&i32s)),
            ("i64", Values::I64(&i64s)),
            ("i128", Values::I128(&i128s)),
            ("u8", Values::U8(&u8s)),
            ("u16", Values::U16(&u16s)),
            ("u32", Values::U32(&u32s)),
            ("u64", Values::U64(&u64s)),
            ("u128", Values::U128(&u128s)),
            ("f32", Values::F32(&f32s)),
            ("f64", Values::F64(&f64s)),
            ("decimal", Values::Decimal(&decimals, 3)),
            ("bool", Values::Bool(Bits::new(&bits, 3, n))),
        ];
        let mut columns: Vec<(String, Column<'_>)> = vec![];
        for (name, values) in &all {
            let chunk = |offset: usize| Chunk::new(*values, Some(Bits::new(&bits, offset, n)));
            columns.push((format!("{name}, whole"), Column::new("x", FeatureType::Numeric, vec![Chunk::new(*values, None)])));
            columns.push((format!("{name}, nulls"), Column::new("x", FeatureType::Numeric, vec![chunk(5)])));
            let three = vec![chunk(1), Chunk::new(*values, None), chunk(11)];
            columns.push((format!("{name}, chunks"), Column::new("x", FeatureType::Numeric, three)));
            let none = [0u8; 9000];
            let nothing = Chunk::new(*values, Some(Bits::new(&none, 0, n)));
            if n < 70_000 {
                let column = Column::new("x", FeatureType::Numeric, vec![nothing]);
                let found = stats::min_max_of(&gpu.queue, &column).expect("the GPU finds none");
                assert_eq!(found, None, "{name}");
                same(gpu, name, &column, None, &bins(10, None));
            }
        }
        for (name, column) in &columns {
            let found = stats::min_max_of(&gpu.queue, column).expect("the GPU finds them");
            assert_eq!(format!("{found:?}"), format!("{:?}", min_max(column)), "{name} of {n}");
            for range in [None, Some((0.0, 100.0)), Some((-1e9, 1e9)), Some((0.0, 1e19))] {
                same(gpu, name, column, None, &bins(37, range));
            }
            same(gpu, name, column, None, &edges(&[-1e18, -128.0, 0.0, 1.0, 1.5, 77.0, 1e9, 1e30]));
            let weights: Vec<f64> = (0..column.len()).map(|i| random(8).unit(i as u64)).collect();
            same(gpu, name, column, Some(&Column::from_f64("w", &weights)), &bins(37, Some((-100.0, 1e5))));
        }
    }
}

/// A few rows through every kernel and layout of counters: small enough for compute-sanitizer's racecheck.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn few_rows_reach_every_kernel() {
    let gpu = gpu();
    let n = 9001;
    let doubles: Vec<f64> = (0..n).map(|i| (random(21).unit(i as u64) * 200.0 - 50.0).floor()).collect();
    let bits: Vec<u8> = (0..n / 8 + 2).map(|i| random(22).u32(i as u32) as u8).collect();
    let weights = Column::from_f64("w", &doubles);
    macro_rules! check {
        ($($variant:ident: $type:ty),*) => {$({
            let values: Vec<$type> = doubles.iter().map(|x| *x as $type).collect();
            let chunk = |validity| vec![Chunk::new(Values::$variant(&values), validity)];
            for column in [chunk(None), chunk(Some(Bits::new(&bits, 3, n)))].map(|c| Column::new("x", FeatureType::Numeric, c)) {
                let what = stringify!($variant);
                assert_eq!(stats::min_max_of(&gpu.queue, &column).expect("extremes"), min_max(&column), "{what}");
                // 32 copies of a counter, four, none in shared memory; the range found in the same launch, or given.
                for count in [5, 4096, 70_000] {
                    same(gpu, what, &column, None, &bins(count, None));
                    same(gpu, what, &column, None, &bins(count, Some((-10.0, 60.5))));
                }
                same(gpu, what, &column, Some(&weights), &bins(37, None));
                same(gpu, what, &column, Some(&weights), &bins(7000, Some((0.0, 100.0))));
                let list = [-20.0, 0.0, 0.0, 3.5, 90.0];
                same(gpu, what, &column, None, &edges(&list));
                same(gpu, what, &column, Some(&weights), &edges(&list));
            }
        })*};
    }
    check!(F32: f32, F64: f64, I8: i8, I16: i16, I32: i32, I64: i64, U8: u8, U16: u16, U32: u32, U64: u64, I128: i128, U128: u128);
}

/// One launch finds the range and counts wherever there are bins between two ends, and leaves the rest to the host.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn range_and_counts_come_from_one_launch() {
    let gpu = gpu();
    for (name, doubles) in shapes(300_001) {
        let singles: Vec<f32> = doubles.iter().map(|x| *x as f32).collect();
        for column in [Column::from_f64("x", &doubles), Column::from_f32("x", &singles)] {
            let on_device = DeviceColumn::numeric(&gpu.queue, &column).expect("room");
            for count in [1, 16, 4096] {
                let found = count_by_range(&gpu.queue, &on_device, count).expect("found").expect("a kernel");
                assert_eq!(found.extremes, min_max(&column), "{name}");
                let between = min_max(&column).is_some_and(|m| m.min.to_f64().is_finite() && m.max.to_f64().is_finite());
                // Of f32 with 1e300 all are infinite, with 1e-310 all zero.
                if name != "tiny" && name != "huge" {
                    assert_eq!(found.counts.is_some(), between, "{name}, {count} bins");
                }
            }
        }
    }
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn weights_are_added_in_the_same_order() {
    let gpu = gpu();
    for n in [0, 1, 31, 1000, 65_536, 65_537, 400_003] {
        let r = random(5);
        // Sums of these round at every step.
        let weights: Vec<f64> = (0..n).map(|i| (r.unit(i as u64) - 0.3) * 10f64.powi((i % 17) as i32)).collect();
        let singles: Vec<f32> = weights.iter().map(|w| *w as f32).collect();
        for (name, values) in shapes(n) {
            let column = Column::from_f64("x", &values);
            for density in [false, true] {
                for count in [1, 5, 300, 6000, 7000] {
                    let params = HistogramParams { density, ..bins(count, Some((0.0, 1.0))) };
                    same(gpu, name, &column, Some(&Column::from_f64("w", &weights)), &params);
                    same(gpu, name, &column, Some(&Column::from_f32("w", &singles)), &params);
                }
            }
            same(gpu, name, &column, Some(&Column::from_f64("w", &weights)), &edges(&[0.0, 0.3, 0.3, 0.31, 0.9, 1.0]));
        }
    }
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn many_rows_have_the_same_statistics() {
    let gpu = gpu();
    let n = 30_000_001;
    let r = random(9);
    let values: Vec<f32> = (0..n).map(|i| r.unit(i as u64) as f32).collect();
    let bytes: Vec<u8> = (0..n / 8 + 2).map(|i| r.u32(i as u32) as u8).collect();
    let cut = 12_345_677;
    let chunks =
        vec![Chunk::new(Values::F32(&values[..cut]), None), Chunk::new(Values::F32(&values[cut..]), Some(Bits::new(&bytes, 3, n - cut)))];
    let column = Column::new("x", FeatureType::Numeric, chunks);
    for count in [16, 64, 256, 1024, 4096] {
        same(gpu, "30M", &column, None, &bins(count, None));
    }
    let found = stats::min_max_of(&gpu.queue, &column).expect("the GPU finds them");
    assert_eq!(found, min_max(&column));
}
