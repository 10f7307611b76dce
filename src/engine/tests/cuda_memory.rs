//! Memory of a GPU: columns that stay for the next expression, and what happens when there is none left. One test,
//! since both are the whole process's.

use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use taiga_engine::column::{Bits, Chunk, Column, FeatureType, Values};
use taiga_engine::cuda::DeviceColumn;
use taiga_engine::cuda::columns::borders::borders;
use taiga_engine::cuda::columns::stats::{histogram, min_max_of};
use taiga_engine::cuda::cudarc::driver::CudaSlice;
use taiga_engine::cuda::runtime::{Queue, memory};
use taiga_engine::dataset::Quiet;
use taiga_engine::device::{CacheInfo, clear_device_cache, device_info, limit_device_cache};
use taiga_engine::learners::boosting::{BoostingParams, fit};
use taiga_engine::learners::forest;
use taiga_engine::learners::forest::ForestParams;
use taiga_engine::quantize::BorderMethod;
use taiga_engine::quantize::borders::BorderParams;
use taiga_engine::stats::{AxisParams, HistogramParams};
use taiga_testing::contract::table;
use taiga_testing::gpu::patterns;
use taiga_testing::gpu::shards::shards;
use taiga_testing::gpu::{Gpu, gpu, say};
use taiga_testing::{Table, params, params_with};

fn info(gpu: &Gpu) -> CacheInfo {
    gpu.queue.gpu().cache().info(gpu.queue.gpu())
}

fn bytes_of(gpu: &Gpu, column: &Column<'_>) -> Vec<u8> {
    gpu.download(DeviceColumn::exact(&gpu.queue, column).expect("room").values())
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn memory_of_the_gpu() {
    let gpu = gpu();
    a_second_use_uploads_nothing(gpu);
    what_many_want_at_once_is_uploaded_once(gpu);
    other_bytes_are_other_columns(gpu);
    a_column_that_was_written_to_is_another_one(gpu);
    a_column_that_changes_under_the_upload_leaves_what_went_over(gpu);
    the_limit_holds_and_what_was_used_last_stays(gpu);
    fits_are_the_same_from_columns_that_stayed(gpu);
    no_memory_left_is_an_error_and_then_it_works_again(gpu);
    a_shard_without_memory_ends_the_others(gpu);
}

/// A fit on several shards of rows, one of which is refused memory sooner or later: nobody waits for it for ever, the error says what was
/// short, and nothing of the fit stays.
fn a_shard_without_memory_ends_the_others(gpu: &Gpu) {
    let t = table(9_000, 6, "rmse", 11);
    for (devices, policy) in shards().into_iter().zip(["symmetric", "leafwise", "depthwise", "leafwise"].into_iter().cycle()) {
        let p = params(json!({ "rounds": 3, "policy": policy, "device": "cpu" }));
        let expected = fit(&t.input(), &p, &Quiet).expect("a fit").to_bytes();
        let mut requests = 0;
        let done = loop {
            gpu.queue.gpu().release().expect("given back");
            memory::limit_grants(Some(requests));
            let done = taiga_core::learners::boosting::fit(&t.input(), &p, &devices, &Quiet);
            memory::limit_grants(None);
            match done {
                Ok(model) => break model.to_bytes(),
                Err(e) => assert!(e.is_device_memory(), "{devices:?}, {policy}, {requests} requests: {e}"),
            }
            requests += 1;
        };
        assert!(done == expected, "{devices:?}, {policy}: other bytes");
        say(&format!("{devices:?}, {policy}: {requests} requests"));
        assert!(requests > 20);
    }
}

fn a_second_use_uploads_nothing(gpu: &Gpu) {
    clear_device_cache().expect("cleared");
    let before = info(gpu);
    let values: Vec<f32> = (0..100_000).map(|i| i as f32 * 0.5).collect();
    let column = || Column::from_f32("x", &values);
    let first = bytes_of(gpu, &column());
    assert_eq!((info(gpu).columns, info(gpu).bytes, info(gpu).hits), (1, 400_000, before.hits));
    assert_eq!(bytes_of(gpu, &column()), first);
    assert_eq!(info(gpu).hits, before.hits + 1);
    // Another verb, another form.
    min_max_of(&gpu.queue, &column()).expect("extremes");
    assert_eq!(info(gpu).hits, before.hits + 2);
    DeviceColumn::doubles(&gpu.queue, &column()).expect("room");
    assert_eq!((info(gpu).columns, info(gpu).hits), (2, before.hits + 2));
    // The same values at another place.
    let copied = values.clone();
    assert_eq!(bytes_of(gpu, &Column::from_f32("y", &copied)), first);
    assert_eq!((info(gpu).columns, info(gpu).hits), (2, before.hits + 3));
    // In use while it is dropped.
    let in_use = DeviceColumn::exact(&gpu.queue, &column()).expect("room");
    clear_device_cache().expect("cleared");
    assert_eq!(info(gpu).columns, 0);
    assert_eq!(gpu.download(in_use.values()), first);
    let told = device_info().devices[0].cache;
    assert_eq!((told.columns, told.limit), (0, gpu.queue.gpu().total_memory() / 4));
}

/// As the expressions of one query do, which run side by side.
fn what_many_want_at_once_is_uploaded_once(gpu: &Gpu) {
    clear_device_cache().expect("cleared");
    let before = info(gpu);
    let values: Vec<f32> = (0..20_000_000).map(|i| i as f32).collect();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let queue = Queue::new(gpu.queue.gpu()).expect("a queue");
                let found = min_max_of(&queue, &Column::from_f32("x", &values)).expect("extremes").expect("values");
                assert_eq!((found.min.to_f64(), found.max.to_f64()), (0.0, 19_999_999f32 as f64));
            });
        }
    });
    let after = info(gpu);
    assert_eq!((after.misses - before.misses, after.hits - before.hits, after.columns), (1, 7, 1));
}

fn other_bytes_are_other_columns(gpu: &Gpu) {
    clear_device_cache().expect("cleared");
    let values: Vec<i32> = (0..10_000).collect();
    let bits: Vec<u8> = (0..2000u32).map(|i| (i * 37) as u8).collect();
    let column = |chunks: Vec<Chunk<'_>>| bytes_of(gpu, &Column::new("x", FeatureType::Numeric, chunks));
    let of = |range: std::ops::Range<usize>, offset: Option<usize>| {
        let validity = offset.map(|o| Bits::new(&bits, o, range.len()));
        Chunk::new(Values::I32(&values[range]), validity)
    };
    let before = info(gpu).hits;
    column(vec![of(0..10_000, None)]);
    column(vec![of(0..9_999, None)]);
    column(vec![of(1..10_000, None)]);
    column(vec![of(0..10_000, Some(0))]);
    column(vec![of(0..10_000, Some(1))]);
    column(vec![Chunk::new(Values::Bool(Bits::new(&bits, 3, 10_000)), None)]);
    column(vec![Chunk::new(Values::Bool(Bits::new(&bits, 4, 10_000)), None)]);
    assert_eq!((info(gpu).columns, info(gpu).hits), (7, before));
    column(vec![of(0..5_000, None), of(5_000..10_000, None)]);
    column(vec![of(0..10_000, Some(1))]);
    assert_eq!((info(gpu).columns, info(gpu).hits), (7, before + 2));
}

/// As NumPy does with an array that a Series shares: the same addresses, lengths and owners, other values.
fn a_column_that_was_written_to_is_another_one(gpu: &Gpu) {
    clear_device_cache().expect("cleared");
    // Some pieces of an upload, and one that goes without pinned memory.
    for rows in [3_000_000, 10_000] {
        let mut values = vec![0.0f32; rows];
        let mut bits = vec![0xffu8; rows / 8 + 1];
        let extremes = |values: &[f32]| {
            let found = min_max_of(&gpu.queue, &Column::from_f32("x", values)).expect("extremes").expect("values");
            (found.min.to_f64(), found.max.to_f64())
        };
        assert_eq!(extremes(&values), (0.0, 0.0));
        for (row, x) in [(0, 1.0), (rows / 2, 2.0), (rows - 1, 3.0)] {
            values[row] = x;
            assert_eq!(extremes(&values), (0.0, x as f64), "row {row}");
        }
        values.fill(5.0);
        assert_eq!(extremes(&values), (5.0, 5.0));
        values.fill(0.0);
        let hits = info(gpu).hits;
        assert_eq!(extremes(&values), (0.0, 0.0));
        assert_eq!(info(gpu).hits, hits + 1, "what it was at first is still there");
        let whole: Vec<i32> = (0..rows as i32).collect();
        let largest = |bits: &[u8]| {
            let chunk = Chunk::new(Values::I32(&whole), Some(Bits::new(bits, 0, rows)));
            let found = min_max_of(&gpu.queue, &Column::new("x", FeatureType::Numeric, vec![chunk])).expect("extremes");
            found.expect("values").max.to_f64()
        };
        assert_eq!(largest(&bits), rows as f64 - 1.0);
        bits[(rows - 1) / 8] &= !(1 << ((rows - 1) % 8));
        assert_eq!(largest(&bits), rows as f64 - 2.0, "a value that has become null");
    }
    // What a fit and its codes are made from.
    let mut t = table(30_000, 5, "rmse", 4);
    let fitted = |t: &Table, device: &str| {
        let p = BoostingParams { device: device.into(), ..params(json!({ "rounds": 4, "policy": "depthwise" })) };
        fit(&t.input(), &p, &Quiet).expect("a fit").to_bytes()
    };
    let before = fitted(&t, "cuda");
    t.columns[2].iter_mut().for_each(|x| *x = -*x * *x);
    let after = fitted(&t, "cuda");
    assert!(after == fitted(&t, "cpu") && after != before);
}

/// A column that somebody writes to during the upload never leaves an entry that a column of other bytes finds.
fn a_column_that_changes_under_the_upload_leaves_what_went_over(gpu: &Gpu) {
    clear_device_cache().expect("cleared");
    let rows = 20_000_000;
    let values: Vec<AtomicU32> = (0..rows).map(|_| AtomicU32::new(0)).collect();
    // SAFETY: an AtomicU32 lies in memory as a u32 does. That it changes while it is read is what is tried here: each read gives
    // some value.
    let shared = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u32>(), rows) };
    let column = || Column::new("x", FeatureType::Numeric, vec![Chunk::new(Values::U32(shared), None)]);
    for round in 1..=5 {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for i in (0..rows).cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
                    values[i * 7919 % rows].fetch_add(1, Ordering::Relaxed);
                }
            });
            for _ in 0..3 {
                bytes_of(gpu, &column());
            }
            stop.store(true, Ordering::Relaxed);
        });
        // Whatever it was meanwhile: now it is found as it is, by the search and by the upload.
        let now: Vec<u8> = values.iter().flat_map(|v| v.load(Ordering::Relaxed).to_ne_bytes()).collect();
        assert!(bytes_of(gpu, &column()) == now && bytes_of(gpu, &column()) == now, "round {round}");
    }
}

fn the_limit_holds_and_what_was_used_last_stays(gpu: &Gpu) {
    clear_device_cache().expect("cleared");
    limit_device_cache(Some(1_000_000)).expect("a limit");
    let columns: Vec<Vec<f64>> = (0..4).map(|c| vec![c as f64; 50_000]).collect();
    let of = |c: usize| bytes_of(gpu, &Column::from_f64("x", &columns[c]));
    let before = info(gpu).hits;
    of(0);
    of(1);
    assert_eq!((info(gpu).columns, info(gpu).bytes), (2, 800_000));
    // The first one is used again, so the second one goes.
    of(0);
    of(2);
    assert_eq!((info(gpu).columns, info(gpu).hits), (2, before + 1));
    of(0);
    of(2);
    assert_eq!(info(gpu).hits, before + 3);
    // Too large for it.
    let large = vec![1u8; 1_000_001];
    let column = Column::new("x", FeatureType::Numeric, vec![Chunk::new(Values::U8(&large), None)]);
    bytes_of(gpu, &column);
    assert_eq!((info(gpu).columns, info(gpu).bytes), (2, 800_000));
    limit_device_cache(Some(0)).expect("off");
    assert_eq!((info(gpu).columns, info(gpu).bytes, info(gpu).limit), (0, 0, 0));
    of(3);
    assert_eq!(info(gpu).columns, 0);
    limit_device_cache(None).expect("the ordinary limit");
}

fn fits_are_the_same_from_columns_that_stayed(gpu: &Gpu) {
    clear_device_cache().expect("cleared");
    let t = table(20_000, 6, "rmse", 4);
    let p = BoostingParams { device: "cuda".into(), ..params(json!({ "rounds": 4, "policy": "depthwise" })) };
    let kept = |p: &BoostingParams| fit(&t.input(), p, &Quiet).expect("a fit").to_bytes();
    let expected = kept(&BoostingParams { device: "cpu".into(), ..p.clone() });
    let before = info(gpu);
    assert!(kept(&p) == expected);
    assert_eq!(info(gpu).hits, before.hits);
    let stayed = info(gpu).columns as u64;
    assert!(stayed >= 6);
    assert!(kept(&p) == expected, "from columns that stayed");
    assert_eq!(info(gpu).hits, before.hits + stayed);
    // Others with them: new borders, the same columns.
    let few = BoostingParams { device: "cuda".into(), ..params_with(json!({ "rounds": 3 }), json!({ "bins": 17 })) };
    let on_cpu = BoostingParams { device: "cpu".into(), ..few.clone() };
    assert!(kept(&few) == fit(&t.input(), &on_cpu, &Quiet).expect("a fit").to_bytes());
    clear_device_cache().expect("cleared");
}

/// Takes all memory but so many bytes (and up to 32 MiB), in pieces.
fn leave(gpu: &Gpu, bytes: u64) -> Vec<CudaSlice<u8>> {
    let mut ballast = vec![];
    loop {
        let free = memory::of(gpu.queue.gpu()).expect("its memory").free;
        let piece = free.saturating_sub(bytes).min(16 << 30) as usize;
        if piece < 32 << 20 {
            say(&format!("{} left", memory::size(free)));
            return ballast;
        }
        ballast.push(gpu.queue.alloc("ballast", piece).expect("what is free"));
    }
}

fn no_memory_left_is_an_error_and_then_it_works_again(gpu: &Gpu) {
    let values: Vec<f32> = (0..4_000_000).map(|i| (i % 1013) as f32).collect();
    let stays = DeviceColumn::exact(&gpu.queue, &Column::from_f32("x", &values)).expect("room");
    drop(stays);
    assert_eq!(info(gpu).columns, 1);
    let ballast = leave(gpu, 100 << 20);
    let wide: Vec<f64> = (0..40_000_000).map(|i| (i % 1013) as f64).collect();
    let params = HistogramParams { axis: AxisParams { bins: Some(16), range: Some((0.0, 1e3)), edges: None }, density: false };
    let e = histogram(&gpu.queue, &Column::from_f64("wide", &wide), None, &params).expect_err("320 MB");
    assert!(e.is_device_memory(), "{e}");
    assert!(e.to_string().contains("`wide`") && e.to_string().contains("320.0 MB") && e.to_string().contains("free of"), "{e}");
    assert_eq!(info(gpu).columns, 0, "the cache goes first");
    let t = table(2_000_000, 6, "rmse", 4);
    let p = BoostingParams { device: "cuda".into(), ..taiga_testing::params(json!({ "rounds": 3 })) };
    let e = fit(&t.input(), &p, &Quiet).expect_err("no room");
    assert!(e.is_device_memory() && e.to_string().contains("free of"), "{e}");
    let grown = |device: &str| {
        let of = t.input();
        let input = forest::Input { features: of.features, target: of.target, target_name: of.target_name, weight: None };
        let params = ForestParams { device: device.into(), trees: 2, ..ForestParams::default() };
        forest::fit(&input, &params, &Quiet)
    };
    let e = grown("cuda").expect_err("no room");
    assert!(e.is_device_memory(), "{e}");
    for part in ["a forest of 2000000 rows and 6 features", "needs", "free of"] {
        assert!(e.to_string().contains(part), "{part}: {e}");
    }
    let all = BorderParams { bins: 255, method: BorderMethod::Quantile, sample: usize::MAX, seed: 0 };
    let e = borders(&gpu.queue, &Column::from_f64("wide", &wide), &all).expect_err("no room");
    assert!(e.is_device_memory() && e.to_string().contains("`wide`") && e.to_string().contains("free of"), "{e}");
    // What needs little works meanwhile, and all of it afterwards.
    clear_device_cache().expect("cleared");
    let small = Column::from_f64("x", &wide[..100_000]);
    histogram(&gpu.queue, &small, None, &params).expect("room for a little");
    drop(ballast);
    gpu.queue.synchronize().expect("freed");
    let found = histogram(&gpu.queue, &Column::from_f64("wide", &wide), None, &params).expect("room");
    assert_eq!(found, taiga_engine::stats::histogram(&Column::from_f64("wide", &wide), None, &params).expect("counts"));
    let on_cpu = BoostingParams { device: "cpu".into(), ..p.clone() };
    assert!(fit(&t.input(), &p, &Quiet).expect("room").to_bytes() == fit(&t.input(), &on_cpu, &Quiet).expect("a fit").to_bytes());
    assert!(grown("cuda").expect("room").to_bytes() == grown("cpu").expect("a forest").to_bytes());
    assert!(borders(&gpu.queue, &Column::from_f64("wide", &wide), &all).expect("room").len() == 254);
    bundled_features_count_as_one_column(gpu);
}

/// A table of flags that exclude one another, 64 to a variable: bundled it fits where it would not with a column each.
fn bundled_features_count_as_one_column(gpu: &Gpu) {
    let (rows, variables, levels) = (100_000usize, 20, 64);
    let drawn = |v: usize, i: usize| (patterns::random(v as u64).u64(i as u64) % levels as u64) as usize;
    let columns: Vec<Vec<f64>> =
        (0..variables * levels).map(|f| (0..rows).map(|i| (drawn(f / levels, i) == f % levels) as u64 as f64).collect()).collect();
    let y: Vec<f64> = (0..rows).map(|i| (0..variables).map(|v| ((drawn(v, i) * (v + 3)) % 7) as f64).sum()).collect();
    let t = Table::numbers(columns, y);
    let of = |device: &str, bundle: bool| {
        let p = BoostingParams { device: device.into(), bundle, ..taiga_testing::params(json!({ "rounds": 3, "policy": "depthwise" })) };
        fit(&t.input(), &p, &Quiet).map(|model| model.to_bytes())
    };
    let expected = of("cpu", true).expect("a fit");
    clear_device_cache().expect("cleared");
    // Codes of 1,280 columns are 128 MB, of 20 shared ones at most 3; and 64 MiB for what is small.
    let ballast = leave(gpu, 110 << 20);
    let e = of("cuda", false).expect_err("no room for a column each");
    assert!(e.is_device_memory(), "{e}");
    assert!(of("cuda", true).expect("room for bundles") == expected);
    drop(ballast);
    gpu.queue.synchronize().expect("freed");
    assert!(of("cuda", false).expect("room") == expected);
}
