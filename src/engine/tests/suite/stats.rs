//! `min_max`, `histogram` and `histogram2d` against twins that anyone can read, in every type, and
//! the same bytes whatever the threads and the chunks.

use proptest::prelude::*;
use taiga_engine::column::{Bits, Chunk, Column, FeatureType, Values};
use taiga_engine::numerics::random::{Purpose, Random};
use taiga_engine::stats::{
    AxisParams, BLOCK, ColumnValue, Heights, Histogram, Histogram2dParams, HistogramParams, PARALLEL_FROM, histogram, histogram2d, min_max,
};

/// A column of one type in chunks, with nulls; owns what a [`Column`] borrows.
struct Owned<T> {
    values: Vec<T>,
    validity: Vec<u8>,
}

impl<T: Copy> Owned<T> {
    /// Every `nulls`-th value is null; none with 0.
    fn new(values: Vec<T>, nulls: usize) -> Self {
        let mut validity = vec![255u8; values.len().div_ceil(8)];
        for i in (0..values.len()).filter(|i| nulls > 0 && i % nulls == nulls / 2) {
            validity[i / 8] &= !(1 << (i % 8));
        }
        Owned { values, validity }
    }

    /// In chunks of `length`.
    fn column<'a>(&'a self, length: usize, of: impl Fn(&'a [T]) -> Values<'a>) -> Column<'a> {
        let chunks = self.values.chunks(length.max(1)).enumerate().map(|(k, chunk)| {
            let bits = Bits::new(&self.validity, k * length, chunk.len());
            Chunk::new(of(chunk), Some(bits))
        });
        let chunks: Vec<_> = chunks.collect();
        let chunks = if chunks.is_empty() { vec![Chunk::new(of(&self.values), None)] } else { chunks };
        Column::new("x", FeatureType::Numeric, chunks)
    }
}

fn params(bins: i64) -> HistogramParams {
    HistogramParams { axis: AxisParams { bins: Some(bins), ..Default::default() }, density: false }
}

fn with_edges(edges: &[f64]) -> HistogramParams {
    HistogramParams { axis: AxisParams { edges: Some(edges.to_vec()), ..Default::default() }, density: false }
}

/// The bin that holds `x`, by looking at one after the other; the last one is closed.
fn naive_bin(edges: &[f64], x: f64) -> Option<usize> {
    let bins = edges.len() - 1;
    if x == edges[bins] {
        return Some(bins - 1);
    }
    (0..bins).find(|&i| edges[i] <= x && x < edges[i + 1])
}

fn naive_counts(edges: &[f64], values: &[f64]) -> Heights {
    let mut counts = vec![0; edges.len() - 1];
    values.iter().filter_map(|&x| naive_bin(edges, x)).for_each(|bin| counts[bin] += 1);
    Heights::Counts(counts)
}

fn naive_extremes(values: &[f64]) -> Option<(f64, f64)> {
    let left: Vec<f64> = values.iter().copied().filter(|x| !x.is_nan()).collect();
    let min = left.iter().copied().reduce(f64::min)?;
    Some((min, left.iter().copied().reduce(f64::max)?))
}

/// Every type's column: the twins read it as f64.
fn check(column: &Column<'_>, bins: i64) {
    let values = column.to_f64();
    let expected = naive_extremes(&values);
    let found = min_max(column).map(|m| (m.min.to_f64(), m.max.to_f64()));
    assert_eq!(found, expected);
    match histogram(column, None, &params(bins)) {
        Ok(h) => {
            let (first, last) = expected.map_or((0.0, 1.0), |(a, b)| if a == b { (a - 1.0, b + 1.0) } else { (a, b) });
            assert_eq!((h.edges[0], h.edges[bins as usize]), (first, last));
            assert!(h.edges.is_sorted());
            assert_eq!(h.heights, naive_counts(&h.edges, &values));
        }
        Err(error) => assert!(error.to_string().contains("column `x`"), "{error}"),
    }
    let edges = [-50.0, -1.5, 0.0, 0.0, 2.0, 3.25, 100.0];
    assert_eq!(histogram(column, None, &with_edges(&edges)).unwrap().heights, naive_counts(&edges, &values));
}

fn cells() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -100.0..100.0f64,
        2 => (-20i32..20).prop_map(|k| k as f64 / 4.0),
        1 => prop::sample::select(vec![0.0, -0.0, 1.0, -1.5, 2.0, 100.0, f64::NAN, 1e-300, 5e-324]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn every_type_is_binned_as_by_its_twin(
        cells in prop::collection::vec(cells(), 0..300), bins in 1i64..70, nulls in 0usize..9, length in 1usize..300,
    ) {
        macro_rules! integers {
            ($($type:ty, $values:ident;)*) => {
                $(let owned = Owned::new(cells.iter().map(|&x| (x * 3.0) as $type).collect::<Vec<$type>>(), nulls);
                check(&owned.column(length, Values::$values), bins);)*
            };
        }
        integers! {
            i8, I8; i16, I16; i32, I32; i64, I64; i128, I128; u8, U8; u16, U16; u32, U32; u64, U64; u128, U128; f32, F32; f64, F64;
        }
        let decimals = Owned::new(cells.iter().map(|&x| (x * 100.0) as i128).collect(), nulls);
        check(&decimals.column(length, |v| Values::Decimal(v, 2)), bins);
        let bytes: Vec<u8> = cells.iter().map(|&x| x as i32 as u8).collect();
        let flags = Bits::new(&bytes, 3.min(bytes.len() * 8), (bytes.len() * 8).saturating_sub(5));
        check(&Column::new("x", FeatureType::Numeric, vec![Chunk::new(Values::Bool(flags), None)]), bins);
    }

    /// Around each edge: the value itself and its neighbours.
    #[test]
    fn values_beside_the_edges_are_in_the_right_bin(
        first in -1e3..1e3f64, exponent in -20i32..20, bins in 1i64..600, single in any::<bool>(),
    ) {
        let range = (first, first + 2f64.powi(exponent) * 1.37);
        let mut params = params(bins);
        params.axis.range = Some(range);
        let empty: [f32; 0] = [];
        let edges = if single { histogram(&Column::from_f32("x", &empty), None, &params) } else { histogram(&Column::from_f64("x", &[]), None, &params) };
        prop_assume!(edges.is_ok());
        let edges = edges.unwrap().edges;
        if single {
            let values: Vec<f32> = edges.iter().map(|&e| e as f32).flat_map(|e| [e, e.next_up(), e.next_down()]).collect();
            let wide: Vec<f64> = values.iter().map(|&x| x.into()).collect();
            let h = histogram(&Column::from_f32("x", &values), None, &params).unwrap();
            prop_assert_eq!(&h.edges, &edges);
            prop_assert_eq!(h.heights, naive_counts(&edges, &wide));
        }
        let values: Vec<f64> = edges.iter().flat_map(|e| [*e, e.next_up(), e.next_down()]).collect();
        if !single {
            let h = histogram(&Column::from_f64("x", &values), None, &params).unwrap();
            prop_assert_eq!(h.heights, naive_counts(&edges, &values));
        }
        prop_assert_eq!(histogram(&Column::from_f64("x", &values), None, &with_edges(&edges)).unwrap().heights, naive_counts(&edges, &values));
    }

    #[test]
    fn cells_of_two_columns_are_those_of_each(rows in prop::collection::vec((cells(), cells(), -3.0..3.0f64), 0..200), nx in 1i64..9, ny in 1i64..9) {
        let x: Vec<f64> = rows.iter().map(|r| r.0).collect();
        let y: Vec<f32> = rows.iter().map(|r| r.1 as f32).collect();
        let w: Vec<f64> = rows.iter().map(|r| r.2).collect();
        let axis = |bins| AxisParams { bins: Some(bins), ..Default::default() };
        let params = Histogram2dParams { x: axis(nx), y: axis(ny), density: false };
        let (cx, cy, cw) = (Column::from_f64("x", &x), Column::from_f32("y", &y), Column::from_f64("w", &w));
        let both: Vec<usize> = (0..x.len()).filter(|&i| !x[i].is_nan() && !y[i].is_nan()).collect();
        let Ok(h) = histogram2d(&cx, &cy, None, &params) else {
            // Values so near to each other that the bins have no width.
            return Ok(());
        };
        let mut counts = vec![0u64; (nx * ny) as usize];
        let mut sums = vec![0f64; (nx * ny) as usize];
        for &i in &both {
            let (a, b) = (naive_bin(&h.x_edges, x[i]).unwrap(), naive_bin(&h.y_edges, y[i] as f64).unwrap());
            counts[a * ny as usize + b] += 1;
            sums[a * ny as usize + b] += w[i];
        }
        prop_assert_eq!(h.heights, Heights::Counts(counts));
        prop_assert_eq!(histogram2d(&cx, &cy, Some(&cw), &params).unwrap().heights, Heights::Values(sums));
    }
}

/// A long column with some of everything.
fn long(rows: usize) -> Vec<f64> {
    let r = Random::new(3, Purpose::Rounding, 0);
    let value = |i: u64| match r.unit(3 * i) {
        u if u < 0.01 => f64::NAN,
        u if u < 0.02 => -0.0,
        u if u < 0.3 => (r.unit(3 * i + 1) * 40.0).floor(),
        _ => r.unit(3 * i + 1) * 30.0 + r.unit(3 * i + 2) * 30.0,
    };
    (0..rows as u64).map(value).collect()
}

fn on_threads<R: Send>(threads: usize, body: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(body)
}

fn bits(h: &Histogram) -> Vec<u64> {
    let heights = match &h.heights {
        Heights::Counts(counts) => counts.clone(),
        Heights::Values(values) => values.iter().map(|v| v.to_bits()).collect(),
    };
    h.edges.iter().map(|e| e.to_bits()).chain(heights).collect()
}

#[test]
fn threads_and_chunks_leave_no_trace() {
    let rows = PARALLEL_FROM + 3 * BLOCK + 1_234;
    let wide = Owned::new(long(rows), 11);
    let narrow = Owned::new(wide.values.iter().map(|&x| x as f32).collect(), 11);
    let weights: Vec<f64> = (0..rows).map(|i| (i as f64 * 0.37).sin()).collect();
    let weights = Column::from_f64("w", &weights);
    let results = |threads: usize, length: usize| {
        on_threads(threads, || {
            let (x, y) = (wide.column(length, Values::F64), narrow.column(length, Values::F32));
            let mut out = vec![];
            for column in [&x, &y] {
                let found = min_max(column).unwrap();
                out.push(vec![found.min.to_f64().to_bits(), found.max.to_f64().to_bits()]);
                for (bins, density) in [(10, false), (300, true), (5_000, false)] {
                    let params = HistogramParams { density, ..params(bins) };
                    out.push(bits(&histogram(column, None, &params).unwrap()));
                    out.push(bits(&histogram(column, Some(&weights), &params).unwrap()));
                }
                out.push(bits(&histogram(column, Some(&weights), &with_edges(&[0.0, 1.0, 7.5, 40.0])).unwrap()));
            }
            for weights in [None, Some(&weights)] {
                let h = histogram2d(&x, &y, weights, &Histogram2dParams::default()).unwrap();
                out.push(bits(&Histogram { edges: h.x_edges, heights: h.heights }));
            }
            out
        })
    };
    let expected = results(1, rows);
    for (threads, length) in [(3, rows), (2, 1_000), (5, 77_777)] {
        assert_eq!(results(threads, length), expected, "{threads} threads, chunks of {length}");
    }
}

#[test]
fn weights_are_added_block_by_block_in_row_order() {
    let rows = PARALLEL_FROM + BLOCK / 2;
    let x = long(rows);
    let w: Vec<f64> = (0..rows).map(|i| (i as f64).sqrt() - 300.0).collect();
    let h = histogram(&Column::from_f64("x", &x), Some(&Column::from_f64("w", &w)), &params(17)).unwrap();
    let mut totals = vec![0.0; 17];
    for start in (0..rows).step_by(BLOCK) {
        let mut sums = vec![0.0; 17];
        for i in start..rows.min(start + BLOCK) {
            if let Some(bin) = naive_bin(&h.edges, x[i]) {
                sums[bin] += w[i];
            }
        }
        totals.iter_mut().zip(sums).for_each(|(t, s)| *t += s);
    }
    assert_eq!(h.heights, Heights::Values(totals));
}

#[test]
fn ranges_follow_their_rules() {
    let edges = |values: &[f64], range: Option<(f64, f64)>| {
        let params = HistogramParams { axis: AxisParams { bins: Some(2), range, edges: None }, density: false };
        histogram(&Column::from_f64("x", values), None, &params).unwrap().edges
    };
    assert_eq!(edges(&[1.0, 5.0], None), [1.0, 3.0, 5.0]);
    assert_eq!(edges(&[1.0, 5.0], Some((0.0, 0.0))), [1.0, 3.0, 5.0]);
    assert_eq!(edges(&[1.0, 5.0], Some((-1.0, 1.0))), [-1.0, 0.0, 1.0]);
    assert_eq!(edges(&[7.0, 7.0], None), [6.0, 7.0, 8.0]);
    assert_eq!(edges(&[1.0, 5.0], Some((3.0, 3.0))), [2.0, 3.0, 4.0]);
    assert_eq!(edges(&[], None), [0.0, 0.5, 1.0]);
    assert_eq!(edges(&[f64::NAN], None), [0.0, 0.5, 1.0]);
    assert_eq!(edges(&[f64::INFINITY, 0.5], Some((0.0, 1.0))), [0.0, 0.5, 1.0]);
}

#[test]
fn infinite_edges_hold_infinite_values() {
    let x = [f64::NEG_INFINITY, -1.0, 0.0, 3.0, f64::INFINITY, f64::NAN];
    let h = histogram(&Column::from_f64("x", &x), None, &with_edges(&[f64::NEG_INFINITY, 0.0, f64::INFINITY])).unwrap();
    assert_eq!(h.heights, Heights::Counts(vec![2, 3]));
    let h = histogram(&Column::from_f64("x", &x), None, &with_edges(&[-5.0, 0.0, 5.0])).unwrap();
    assert_eq!(h.heights, Heights::Counts(vec![1, 2]));
}

#[test]
fn extremes_of_special_values() {
    let of = |values: &[f64]| min_max(&Column::from_f64("x", values)).map(|m| (m.min, m.max));
    let f = ColumnValue::F64;
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[f64::NAN; 100]), None);
    assert_eq!(of(&[f64::INFINITY; 70]), Some((f(f64::INFINITY), f(f64::INFINITY))));
    assert_eq!(of(&[f64::NEG_INFINITY, f64::NAN]), Some((f(f64::NEG_INFINITY), f(f64::NEG_INFINITY))));
    for values in [[0.0, -0.0], [-0.0, 0.0], [-0.0, -0.0]] {
        let found = min_max(&Column::from_f64("x", &values)).unwrap();
        assert_eq!([found.min, found.max].map(|n| n.to_f64().to_bits()), [0, 0]);
    }
    let extremes = [u128::MAX, 0];
    let found = min_max(&Column::new("x", FeatureType::Numeric, vec![Chunk::new(Values::U128(&extremes), None)])).unwrap();
    assert_eq!((found.min, found.max), (ColumnValue::Unsigned(0), ColumnValue::Unsigned(u128::MAX)));
    let extremes = [i64::MAX, i64::MIN];
    let found = min_max(&Column::new("x", FeatureType::Numeric, vec![Chunk::new(Values::I64(&extremes), None)])).unwrap();
    assert_eq!((found.min, found.max), (ColumnValue::Integer(i64::MIN.into()), ColumnValue::Integer(i64::MAX.into())));
}

#[test]
fn bad_input_is_named() {
    let message = |values: &[f64], axis: AxisParams| {
        histogram(&Column::from_f64("x", values), None, &HistogramParams { axis, density: false }).unwrap_err().to_string()
    };
    let axis = AxisParams::default;
    for (values, axis, expected) in [
        (&[f64::INFINITY, 1.0][..], axis(), "column `x`: its values reach from 1.0 to inf"),
        (&[1e300; 3], axis(), "column `x`: its values from 1e300 to 1e300 can't be cut into 10 bins"),
        (&[-1.7e308, 1.7e308], axis(), "can't be cut into 10 bins of a finite width in Float64"),
        (&[1.0], AxisParams { bins: Some(0), ..axis() }, "parameter `bins`: 0 is not between 1 and 1000000"),
        (&[1.0], AxisParams { bins: Some(1_000_000_000), ..axis() }, "parameter `bins`: 1000000000 is not between"),
        (&[1.0], AxisParams { range: Some((2.0, 1.0)), ..axis() }, "parameter `range`: (2.0, 1.0)"),
        (&[1.0], AxisParams { range: Some((0.0, f64::INFINITY)), ..axis() }, "parameter `range`: (0.0, inf) is not finite"),
        (&[1.0], AxisParams { range: Some((f64::NAN, 1.0)), ..axis() }, "parameter `range`: (NaN, 1.0) is not finite"),
        (&[1.0], AxisParams { edges: Some(vec![1.0]), ..axis() }, "parameter `bins`: 1 edges; there must be 2 to 1000001"),
        (&[1.0], AxisParams { edges: Some(vec![1.0, f64::NAN]), ..axis() }, "parameter `bins`: edge 1 is NaN"),
        (
            &[1.0],
            AxisParams { edges: Some(vec![1.0, 3.0, 2.0]), ..axis() },
            "parameter `bins`: edges must ascend, and 3.0 is followed by 2.0",
        ),
        (
            &[1.0],
            AxisParams { edges: Some(vec![1.0, 2.0]), bins: Some(1), ..axis() },
            "parameter `bins`: a list of edges says all of the bins",
        ),
    ] {
        let got = message(values, axis);
        assert!(got.contains(expected), "{got}");
    }
    let huge = AxisParams { bins: Some(3_000), ..axis() };
    let params = Histogram2dParams { x: huge.clone(), y: huge, density: false };
    let (x, y) = ([1.0], [1.0, 2.0]);
    let (x, y) = (Column::from_f64("x", &x), Column::from_f64("y", &y));
    assert!(histogram2d(&x, &x, None, &params).unwrap_err().to_string().contains("3000 by 3000 bins are more than 4000000 cells"));
    let message = histogram2d(&x, &y, None, &Histogram2dParams::default()).unwrap_err().to_string();
    assert!(message.contains("columns `x` and `y` differ in length: 1 and 2"), "{message}");
}
