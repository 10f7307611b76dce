//! Histograms of two columns on the GPU have the CPU's bits: edges, counts and weights.

use taiga_engine::column::{Bits, Chunk, Column, FeatureType, Values};
use taiga_engine::device::columns::with_columns;
use taiga_engine::numerics::random::Random;
use taiga_engine::stats::{AxisParams, Heights, Histogram2d, Histogram2dParams, histogram2d};
use taiga_testing::gpu::gpu;
use taiga_testing::gpu::patterns;

fn random(stream: u64) -> Random {
    patterns::random(8_000 + stream)
}

fn bits(h: &Histogram2d) -> [Vec<u64>; 3] {
    let of = |v: &[f64]| v.iter().map(|x| if x.is_nan() { u64::MAX } else { x.to_bits() }).collect();
    let heights = match &h.heights {
        Heights::Counts(n) => n.clone(),
        Heights::Values(v) => of(v),
    };
    [of(&h.x_edges), of(&h.y_edges), heights]
}

fn same(what: &str, x: &Column<'_>, y: &Column<'_>, weights: Option<&Column<'_>>, params: &Histogram2dParams) {
    let cpu = histogram2d(x, y, weights, params);
    let found = with_columns("cuda", |backend| backend.histogram2d(x, y, weights, params));
    match (found, cpu) {
        (Ok(found), Ok(cpu)) => assert!(bits(&found) == bits(&cpu), "{what}, {params:?}"),
        (Err(found), Err(cpu)) => assert_eq!(found.to_string(), cpu.to_string(), "{what}"),
        (found, cpu) => panic!("{what}, {params:?}: GPU {:?}, CPU {:?}", found.err(), cpu.err()),
    }
}

fn axis(bins: i64, range: Option<(f64, f64)>) -> AxisParams {
    AxisParams { bins: Some(bins), range, edges: None }
}

fn edges(edges: &[f64]) -> AxisParams {
    AxisParams { bins: None, range: None, edges: Some(edges.to_vec()) }
}

/// Bins of every kind for both columns; few cells, cells that fit shared memory, and more.
fn axes() -> Vec<(AxisParams, AxisParams)> {
    vec![
        (axis(1, None), axis(1, None)),
        (axis(7, None), axis(5, Some((0.0, 0.5)))),
        (axis(64, None), axis(64, None)),
        (axis(300, Some((-1.0, 2.0))), axis(1000, None)),
        (edges(&[-1.0, 0.0, 0.0, 0.3, 0.37, 1.0]), axis(12, None)),
        (axis(3, None), edges(&[f64::NEG_INFINITY, 0.25, f64::INFINITY])),
    ]
}

fn compare(n: usize) {
    let r = random(1);
    let unit = |i: usize, stream: usize| r.unit((i + stream * n) as u64);
    let x: Vec<f64> = (0..n).map(|i| if i % 7 == 3 { f64::NAN } else { unit(i, 0) }).collect();
    let y: Vec<f64> = (0..n).map(|i| if i % 5 == 1 { f64::NAN } else { (unit(i, 1) * 64.0).floor() / 64.0 - 0.1 }).collect();
    let weights: Vec<f64> = (0..n).map(|i| (unit(i, 2) - 0.3) * 10f64.powi((i % 17) as i32)).collect();
    let singles: Vec<f32> = x.iter().map(|x| *x as f32).collect();
    let whole: Vec<i32> = (0..n).map(|i| (unit(i, 3) * 9.0) as i32 - 4).collect();
    let small: Vec<i16> = whole.iter().map(|x| *x as i16).collect();
    let nulls: Vec<u8> = (0..n / 8 + 2).map(|i| r.u32(i as u32) as u8).collect();
    let numeric = |values| Column::new("i", FeatureType::Numeric, vec![Chunk::new(values, Some(Bits::new(&nulls, 3, n)))]);
    let columns = [
        Column::from_f64("x", &x),
        Column::from_f64("y", &y),
        Column::from_f32("s", &singles),
        numeric(Values::I32(&whole)),
        numeric(Values::I16(&small)),
    ];
    let weights = Column::from_f64("w", &weights);
    for (i, j) in [(0, 1), (2, 2), (2, 1), (0, 3), (4, 2), (3, 4)] {
        for (x, y) in axes() {
            for density in [false, true] {
                let params = Histogram2dParams { x: x.clone(), y: y.clone(), density };
                let what = format!("{n} rows, columns {i} and {j}");
                same(&what, &columns[i], &columns[j], None, &params);
                same(&what, &columns[i], &columns[j], Some(&weights), &params);
            }
        }
    }
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn two_columns_have_the_same_cells() {
    gpu();
    for n in [0, 1, 2, 1000, 65_537, 300_001] {
        compare(n);
    }
}

/// Small enough for compute-sanitizer's racecheck.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn few_rows_reach_every_kernel() {
    gpu();
    compare(3001);
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn what_has_no_bins_is_the_same_error() {
    gpu();
    let params = Histogram2dParams { x: axis(3, None), y: axis(4, None), density: false };
    let (finite, infinite, nothing) = ([1.0, 2.0, 2.0], [1.0, f64::INFINITY, 0.0], [f64::NAN; 3]);
    let column = |values| Column::from_f64("x", values);
    same("infinite", &column(&finite), &column(&infinite), None, &params);
    same("no values", &column(&finite), &column(&nothing), None, &params);
    same("one value", &column(&[1.0; 3]), &column(&finite), None, &params);
    same("lengths", &column(&finite), &column(&finite[..2]), None, &params);
    let many = Histogram2dParams { x: axis(4000, None), y: axis(4000, None), density: false };
    same("too many cells", &column(&finite), &column(&finite), None, &many);
}
