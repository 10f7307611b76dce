//! Statistics and encodings by several GPUs, or by several shares of one, have the CPU's bits.

use super::alone;
use rayon::prelude::*;
use std::sync::Mutex;
use std::time::Instant;
use taiga_engine::Error;
use taiga_engine::column::categories::UncodedCategories;
use taiga_engine::column::{Bits, Chunk, Column, FeatureType, Values};
use taiga_engine::column_steps::{BLOCK, ColumnSteps};
use taiga_engine::cuda;
use taiga_engine::cuda::columns::several_gpus::SharedColumns;
use taiga_engine::device::columns::with_columns;
use taiga_engine::device::{device_info, limit_device_cache};
use taiga_engine::encoding::TargetEncoder;
use taiga_engine::encoding::target::{
    Auto, EncodingInput, EncodingKind, EncodingPlan, EncodingTarget, Order, PriorWeight, TargetParams, UncodedInput,
};
use taiga_engine::quantize::BorderMethod;
use taiga_engine::quantize::borders::BorderParams;
use taiga_engine::stats::{AxisParams, Histogram2dParams, HistogramParams};
use taiga_testing::gpu::shards::{Exchange, Shards, shards};
use taiga_testing::gpu::{gpu, patterns, say};
use taiga_testing::rows::TextRows;

/// Fewer rows than a share has, and uneven shares of whole blocks.
const ROWS: [usize; 6] = [0, 5, BLOCK, 2 * BLOCK + 1, 4 * BLOCK, 300_001];

/// GPUs that share rows, one GPU several times too, and two shares through the host.
fn sets() -> Vec<(String, SharedColumns)> {
    let open = |set: Shards| {
        let opened: Vec<_> = set.gpus.iter().map(|number| cuda::Gpu::get(*number).expect("a GPU")).collect();
        let columns = SharedColumns::new(&opened).expect("queues");
        (format!("{set:?}"), if set.exchange == Exchange::Host { columns.through_host() } else { columns })
    };
    shards().into_iter().filter(|set| set.exchange != Exchange::Nccl).map(open).collect()
}

fn on_cpu<R>(work: impl FnOnce(&dyn ColumnSteps) -> taiga_engine::Result<R>) -> taiga_engine::Result<R> {
    with_columns("cpu", work)
}

/// What both come to as text, which tells every number from every other one, and zeros of both signs.
fn told<T: std::fmt::Debug>(found: taiga_engine::Result<T>) -> String {
    format!("{:?}", found.map_err(|error| error.to_string()))
}

/// The bits of rows' values, or the error.
fn bits(found: taiga_engine::Result<Vec<Vec<f64>>>) -> Result<Vec<Vec<u64>>, String> {
    let of = |values: Vec<f64>| values.into_iter().map(f64::to_bits).collect();
    found.map(|outputs| outputs.into_iter().map(of).collect()).map_err(|error| error.to_string())
}

fn axis(bins: i64, range: Option<(f64, f64)>, edges: Option<Vec<f64>>) -> AxisParams {
    AxisParams { bins: edges.is_none().then_some(bins), range, edges }
}

/// Proves equal extremes, counts, sums of weights, densities and errors, of floats and integers, with nulls, in chunks.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn statistics() {
    gpu();
    let _alone = alone();
    let (r, sets, mut done) = (patterns::random(91), sets(), 0);
    for rows in ROWS {
        let unit = |i: usize, of: usize| r.unit((i + of * rows) as u64);
        let uneven: Vec<f64> = (0..rows).map(|i| if i % 11 == 3 { f64::NAN } else { (unit(i, 0) - 0.3).powi(3) }).collect();
        let single: Vec<f32> = (0..rows).map(|i| unit(i, 1) as f32).collect();
        let whole: Vec<i64> = (0..rows).map(|i| (i as i64 - 1000) * 7 % 999_983).collect();
        let infinite: Vec<f64> = (0..rows).map(|i| if i + 1 == rows { f64::INFINITY } else { unit(i, 2) }).collect();
        let weights: Vec<f64> = (0..rows).map(|i| (unit(i, 3) * 40.0 - 20.0).exp2()).collect();
        let bits: Vec<u8> = (0..rows / 8 + 1).map(|i| r.u64(i as u64) as u8 | 1).collect();
        let cut = rows / 3;
        let chunk = |of: fn(&[i64]) -> Values<'_>, from: usize, to: usize| {
            Chunk::new(of(&whole[from..to]), Some(Bits::new(&bits, from, to - from)))
        };
        let nulls = vec![chunk(|x| Values::I64(x), 0, cut), chunk(|x| Values::I64(x), cut, rows)];
        let columns = [
            Column::from_f64("x", &uneven),
            Column::new("x", FeatureType::Numeric, vec![Chunk::new(Values::F32(&single), None)]),
            Column::new("x", FeatureType::Numeric, nulls),
            Column::from_f64("x", &infinite),
        ];
        let weights = Column::from_f64("w", &weights);
        for (name, set) in &sets {
            for (at, column) in columns.iter().enumerate() {
                let what = format!("column {at} of {rows} rows on {name}");
                assert_eq!(told(set.min_max(column)), told(on_cpu(|cpu| cpu.min_max(column))), "{what}");
                for (axis, density) in [
                    (axis(10, None, None), false),
                    (axis(1000, Some((-0.4, 0.9)), None), true),
                    (axis(0, None, Some(vec![-1.0, 0.0, 0.1, 0.5, 3e5])), false),
                    (axis(100_000, None, None), false),
                ] {
                    let params = HistogramParams { axis, density };
                    for weights in [None, Some(&weights)] {
                        let found = set.histogram(column, weights, &params);
                        assert_eq!(told(found), told(on_cpu(|cpu| cpu.histogram(column, weights, &params))), "{what}, {params:?}");
                        done += 1;
                    }
                }
                for (x, y) in [(axis(7, None, None), axis(30, None, None)), (axis(300, Some((0.0, 1.0)), None), axis(400, None, None))] {
                    let params = Histogram2dParams { x, y, density: false };
                    for weights in [None, Some(&weights)] {
                        let found = set.histogram2d(column, &columns[0], weights, &params);
                        let wanted = on_cpu(|cpu| cpu.histogram2d(column, &columns[0], weights, &params));
                        assert_eq!(told(found), told(wanted), "{what}, {params:?}");
                        done += 1;
                    }
                }
                let borders = [-0.1, 0.0, 0.2, 0.21, 70_000.0];
                let codes = |steps: &dyn ColumnSteps| {
                    let all = Mutex::new(vec![u16::MAX; rows]);
                    let take = |block: usize, codes: &[u16]| {
                        all.lock().expect("codes")[block * BLOCK..block * BLOCK + codes.len()].copy_from_slice(codes);
                    };
                    steps.codes(column, &borders, &take).map(|()| all.into_inner().expect("codes"))
                };
                assert!(codes(set).expect("codes") == on_cpu(codes).expect("codes"), "{what}: codes");
            }
        }
    }
    say(&format!("statistics by several GPUs: {done}, all equal"));
}

/// Proves equal values of rows in folds, but for themselves, and of all: of numbered categories, of integers near each other and far
/// apart, and of texts; of flags, numbers and classes, with weights and without; equal encoders, and equal values by them.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn encodings() {
    gpu();
    let _alone = alone();
    let (r, sets, mut done) = (patterns::random(92), sets(), 0);
    for rows in ROWS {
        let unit = |i: usize, of: usize| r.unit((i + of * rows) as u64);
        let categories = rows / 20 + 1;
        let codes: Vec<u32> = (0..rows).map(|i| ((unit(i, 0).powi(3) * categories as f64) as u32).min(categories as u32 - 1)).collect();
        let near: Vec<i64> = codes.iter().map(|code| i64::from(*code) - 7).collect();
        let far: Vec<i64> = codes.iter().map(|code| i64::from(*code) << 40).collect();
        let valid: Vec<u8> = (0..rows / 8 + 1).map(|i| if i < rows / 16 { 0xFF } else { r.u64(i as u64) as u8 }).collect();
        let integers =
            |values| Column::new("x", FeatureType::Numeric, vec![Chunk::new(Values::I64(values), Some(Bits::new(&valid, 0, rows)))]);
        let words = TextRows(codes.iter().map(|code| (code % 9 != 4).then(|| format!("word {code}"))).collect());
        let words = &words;
        let uncoded =
            [UncodedCategories::Integers(integers(&near)), UncodedCategories::Integers(integers(&far)), UncodedCategories::Texts(&words)];
        let coded: Vec<_> = uncoded.iter().map(|categories| categories.codes().expect("codes")).collect();
        let flags: Vec<u8> = (0..rows).map(|i| (unit(i, 1) < 0.3) as u8).collect();
        let whole: Vec<f64> = (0..rows).map(|i| (unit(i, 2) * 2e6 - 1e6).round()).collect();
        let real: Vec<f64> = (0..rows).map(|i| (unit(i, 3) - 0.4) * 10f64.powi((i % 23) as i32 - 11)).collect();
        let classes: Vec<u32> = (0..rows).map(|i| r.u32(i as u32) % 4).collect();
        let weight: Vec<f64> = (0..rows).map(|i| if i % 5 == 1 { 0.0 } else { 3.0 * unit(i, 4) }).collect();
        let given: Vec<u32> = (0..rows).map(|i| (i * 9 / rows) as u32).collect();
        let targets = [
            EncodingTarget::Flags(&flags),
            EncodingTarget::Numbers(&whole),
            EncodingTarget::Numbers(&real),
            EncodingTarget::Classes(&classes, 4),
        ];
        for target in targets {
            for (weight, prior_weight) in
                [(None, PriorWeight::Fixed(1.0)), (Some(&weight[..]), PriorWeight::Fixed(1.0)), (None, PriorWeight::Named(Auto::Auto))]
            {
                let of = |kind| TargetParams { kind, prior_weight, seed: rows as u64, ..TargetParams::default() };
                let kfold = of(EncodingKind::Kfold);
                for (plan, params) in [
                    (EncodingPlan::random(rows, &kfold).unwrap_or(EncodingPlan::Plain), kfold.clone()),
                    (EncodingPlan::Folds(given.clone(), 9), kfold.clone()),
                    // A fold that has all rows.
                    (EncodingPlan::Folds(vec![0; rows], 1), kfold),
                    (EncodingPlan::Plain, of(EncodingKind::Loo)),
                    (EncodingPlan::Plain, of(EncodingKind::Full)),
                ] {
                    let input = EncodingInput { codes: &codes, categories, target, weight };
                    let wanted = bits(on_cpu(|cpu| cpu.target_encode(&input, &plan, &params)));
                    for (name, set) in &sets {
                        let what = format!("{rows} rows on {name}, {params:?}, weighted {}", weight.is_some());
                        assert!(bits(set.target_encode(&input, &plan, &params)) == wanted, "{what}");
                        // Null is one of the categories of what has no codes.
                        for (categories, coded) in uncoded.iter().zip(&coded) {
                            let input = EncodingInput { codes: &coded.codes, categories: coded.categories(), target, weight };
                            let wanted = bits(on_cpu(|cpu| cpu.target_encode(&input, &plan, &params)));
                            let input = UncodedInput { categories: categories.clone(), target, weight };
                            assert!(bits(set.target_encode_uncoded(&input, &plan, &params)) == wanted, "{what}, uncoded");
                        }
                        done += 4;
                    }
                }
                let (input, params) = (EncodingInput { codes: &codes, categories, target, weight }, of(EncodingKind::Full));
                let values = |found: taiga_engine::Result<(Vec<f64>, Vec<f64>)>| bits(found.map(|(values, priors)| vec![values, priors]));
                let wanted = values(on_cpu(|cpu| cpu.category_values(&input, &params)));
                for (name, set) in &sets {
                    assert!(values(set.category_values(&input, &params)) == wanted, "{rows} rows on {name}: an encoder");
                }
            }
        }
        for categories in uncoded.iter().filter(|_| rows > 0) {
            let column = categories.codes().expect("codes").into_column("x");
            let encoder = TargetEncoder::fit(vec![column], "y", EncodingTarget::Numbers(&real), None, None, &TargetParams::default());
            let encoder = encoder.expect("an encoder");
            let wanted = bits(on_cpu(|cpu| cpu.encode(&encoder, 0, categories)));
            for (name, set) in &sets {
                assert!(bits(set.encode(&encoder, 0, categories)) == wanted, "{rows} rows on {name}: encoded");
            }
        }
    }
    say(&format!("encodings by several GPUs: {done}, all equal"));
}

/// Proves what several GPUs refuse, that names of them come here, and that they share what a name of one computes.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn names_and_refusals() {
    gpu();
    let _alone = alone();
    let (_, set) = sets().swap_remove(0);
    let x = Column::from_f64("x", &[1.0, 2.0]);
    let p = BorderParams { bins: 255, method: BorderMethod::Quantile, sample: usize::MAX, seed: 0 };
    let refused = |error: Option<Error>| error.is_some_and(|e| e.to_string().contains("`device`") && e.to_string().contains("name one"));
    assert!(refused(set.borders(&x, &p).err()));
    let input = EncodingInput { codes: &[0, 0], categories: 1, target: EncodingTarget::Flags(&[0, 1]), weight: None };
    let ordered = EncodingPlan::Ordered(vec![Order::Rows]);
    assert!(refused(set.target_encode(&input, &ordered, &TargetParams::default()).err()));
    let all = with_columns("cuda:all", |steps| steps.min_max(&x));
    assert_eq!(told(all), told(on_cpu(|cpu| cpu.min_max(&x))));
    assert!(with_columns("cuda:0,4000", |steps| steps.min_max(&x)).is_err_and(|e| e.to_string().contains("cuda:4000")));
    if device_info().devices.len() > 1 {
        assert!(refused(with_columns("cuda:0,1", |steps| steps.borders(&x, &p)).err()));
    }
}

/// Says how long statistics and encodings of 100,000,000 rows take on one GPU and on all, from the host's memory.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn timing_of_columns() {
    gpu();
    let _alone = alone();
    limit_device_cache(Some(0)).expect("no cache");
    let rows = 100_000_000;
    let r = patterns::random(93);
    let values: Vec<f64> = (0..rows).into_par_iter().map(|i| r.unit(i as u64)).collect();
    let weights: Vec<f64> = (0..rows).into_par_iter().map(|i| (i % 13) as f64).collect();
    let categories: Vec<i64> = (0..rows).into_par_iter().map(|i| (r.unit(i as u64) * 1e6) as i64).collect();
    let flags: Vec<u8> = (0..rows).into_par_iter().map(|i| (i % 3 == 0) as u8).collect();
    let (x, w) = (Column::from_f64("x", &values), Column::from_f64("w", &weights));
    let whole = Column::new("c", FeatureType::Numeric, vec![Chunk::new(Values::I64(&categories), None)]);
    let bins = HistogramParams { axis: axis(100, None, None), density: false };
    let kfold = TargetParams { kind: EncodingKind::Kfold, ..TargetParams::default() };
    let folds = EncodingPlan::random(rows, &kfold).expect("a plan");
    let input = UncodedInput { categories: UncodedCategories::Integers(whole), target: EncodingTarget::Flags(&flags), weight: None };
    let encode = |steps: &dyn ColumnSteps| steps.target_encode_uncoded(&input, &folds, &kfold).map(drop);
    type Work<'a> = &'a dyn Fn(&dyn ColumnSteps) -> taiga_engine::Result<()>;
    let works: [(&str, Work<'_>); 4] = [
        ("min_max", &|steps| steps.min_max(&x).map(drop)),
        ("histogram", &|steps| steps.histogram(&x, None, &bins).map(drop)),
        ("histogram of weights", &|steps| steps.histogram(&x, Some(&w), &bins).map(drop)),
        ("target_encode kfold", &encode),
    ];
    for (name, work) in works {
        let best = |device: &str| {
            let once = || {
                let start = Instant::now();
                with_columns(device, work).expect(name);
                start.elapsed().as_secs_f64() * 1e3
            };
            (0..4).map(|_| once()).fold(f64::INFINITY, f64::min)
        };
        let (one, all) = (best("cuda:0"), best("cuda:all"));
        say(&format!("{name}: {one:.1} ms on one GPU, {all:.1} ms on {}, {:.2} times", device_info().devices.len(), one / all));
    }
    limit_device_cache(None).expect("a cache");
}
