//! Predictions of 200 symmetric trees of depth 6, and of 200 depthwise ones, for 10M rows of 28 f32 columns on a GPU;
//! and the codes of 11M rows for a fit. A random forest of 100 trees of depth 16.
//!
//! `cargo bench -p taiga-engine --features cuda --bench cuda_predict`; `benchmarks/gpu_predict.py` measures XGBoost
//! and CatBoost.

use rayon::prelude::*;
use std::time::Instant;
use taiga_engine::column::{Column, FeatureType};
use taiga_engine::cuda::DeviceColumn;
use taiga_engine::cuda::columns::codes::{CodeInput, CodePlace, quantize};
use taiga_engine::cuda::cudarc::driver::sys::CUevent_flags;
use taiga_engine::cuda::predict::DevicePredictor;
use taiga_engine::cuda::predict::forest::DeviceForest;
use taiga_engine::cuda::runtime::{Gpu, Queue};
use taiga_engine::dataset::Quiet;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::learners::boosting::model::apply::Predictor;
use taiga_engine::learners::boosting::model::{Model, Units};
use taiga_engine::learners::boosting::params::BoostingParams;
use taiga_engine::learners::forest;
use taiga_engine::learners::forest::ForestParams;
use taiga_engine::losses::LossKind;
use taiga_engine::model::Feature;
use taiga_engine::numerics::random::{Purpose, Random};
use taiga_engine::tree::model::{Child, Leaf, Node, Split, Tree};

const FEATURES: usize = 28;
const TREES: u64 = 200;
const DEPTH: usize = 6;

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn model(symmetric: bool, r: Random) -> Model {
    let borders: Vec<f64> = (1..255).map(|i| i as f64 / 255.0).collect();
    let split = |t: u64, i: u64| Split {
        feature: (r.u64(t * 100 + i) % FEATURES as u64) as u32,
        border: (r.u64(t * 1000 + i + 7) % 254) as u32,
        missing_left: i.is_multiple_of(2),
        gain: 1.0,
    };
    let leaves = |t: u64| (0..64).map(|i| Leaf { value: (r.unit(t * 64 + i) as f32 - 0.5) as f64, weight: 1.0, count: 1 }).collect();
    let node = |t: u64, i: u32| {
        let child = |c: u32| if c < 63 { Child::Node(c) } else { Child::Leaf(c - 63) };
        Node { split: split(t, i as u64), left: child(2 * i + 1), right: child(2 * i + 2) }
    };
    let tree = |t: u64| match symmetric {
        true => Tree::Symmetric { splits: (0..DEPTH as u64).map(|i| split(t, i)).collect(), leaves: leaves(t) },
        false => Tree::Branching { nodes: (0..63).map(|i| node(t, i)).collect(), leaves: leaves(t) },
    };
    let feature = |i| Feature { name: format!("f{i}"), dtype: FeatureType::Numeric, borders: borders.clone(), categories: None };
    Model {
        params: BoostingParams::default(),
        loss: LossKind::Rmse,
        target: "y".into(),
        features: (0..FEATURES).map(feature).collect(),
        derived: vec![],
        tables: vec![],
        labels: None,
        start: vec![0.0],
        scale: 1.0,
        units: Units::default(),
        trees: (0..TREES).map(tree).collect(),
        linear: vec![],
        rows: 1,
        history: None,
        provenance: Default::default(),
    }
}

fn main() {
    let gpu = match Gpu::get(None) {
        Ok(gpu) => gpu,
        Err(e) => return println!("not measured: {e}"),
    };
    let queue = Queue::new(gpu).expect("a queue");
    let r = Random::new(1, Purpose::RowSample, 0);
    let n = 11_000_000usize;
    let make = |f: usize| (0..n).into_par_iter().map(|i| r.u32((i * FEATURES + f) as u32) as f32 / u32::MAX as f32).collect::<Vec<f32>>();
    let data: Vec<Vec<f32>> = (0..FEATURES).map(make).collect();
    println!("{}", gpu.name());

    let borders: Vec<f64> = (1..255).map(|i| i as f64 / 255.0).collect();
    let columns: Vec<Column<'_>> = data.iter().enumerate().map(|(i, v)| Column::from_f32(format!("f{i}"), v)).collect();
    let place = |f| CodePlace { first: f, stride: 32 };
    let sources: Vec<(CodeInput<'_>, CodePlace)> =
        columns.iter().enumerate().map(|(f, c)| (CodeInput::Values(c, &borders, 1), place(f))).collect();
    let mut out = queue.zeros::<u8>("codes", n * 32).expect("room");
    let times = (0..6).map(|_| {
        let start = Instant::now();
        quantize(&queue, &sources, &mut out).expect("codes");
        start.elapsed().as_secs_f64() * 1e3
    });
    let ms = median(times.skip(2).collect());
    println!(
        "codes of {n} x {FEATURES} f32 from host memory, in rows of 32 bytes: {ms:.1} ms, {:.0} GB/s",
        (n * FEATURES * 4) as f64 / ms / 1e6
    );
    drop(out);

    let n = 10_000_000;
    let columns: Vec<Column<'_>> = data.iter().enumerate().map(|(i, v)| Column::from_f32(format!("f{i}"), &v[..n])).collect();
    let resident: Vec<DeviceColumn> = columns.iter().map(|c| DeviceColumn::numeric(&queue, c).expect("room")).collect();
    for (name, symmetric) in [("symmetric", true), ("depthwise", false)] {
        let predictor = Predictor::new(model(symmetric, r));
        let on_device = DevicePredictor::new(gpu, &predictor).expect("a model");
        let columns = predictor.bind(&columns).expect("columns");
        let times = (0..9).map(|_| {
            let mark = || queue.stream().record_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).expect("an event");
            let start = mark();
            drop(on_device.raw_on_device(&queue, &resident).expect("predictions"));
            start.elapsed_ms(&mark()).expect("a time") as f64
        });
        println!("{name}: {n} rows, {TREES} trees, columns on the device: {:.2} ms", median(times.skip(2).collect()));
        let times = (0..6).map(|_| {
            let start = Instant::now();
            drop(on_device.raw(&queue, &columns).expect("predictions"));
            start.elapsed().as_secs_f64() * 1e3
        });
        println!("{name}: from and to host memory: {:.0} ms", median(times.skip(2).collect()));
    }
    drop(resident);
    let target: Vec<u32> = (0..1_000_000).map(|i| (data[0][i] * data[7][i] + 0.3 * data[12][i] > 0.4) as u32).collect();
    let input = forest::Input {
        features: data.iter().enumerate().map(|(i, v)| Column::from_f32(format!("f{i}"), &v[..1_000_000])).collect(),
        target: forest::Target::Classes { codes: &target, labels: Labels::Boolean },
        target_name: "y".into(),
        weight: None,
    };
    let params = ForestParams::from_json(&serde_json::json!({ "trees": 100, "depth": 16, "device": "cuda" })).expect("parameters");
    let predictor = forest::Predictor::new(forest::fit(&input, &params, &Quiet).expect("a forest"));
    let (on_device, columns) = (DeviceForest::new(gpu, &predictor).expect("a forest"), predictor.bind(&columns).expect("columns"));
    let times = (0..4).map(|_| {
        let start = Instant::now();
        drop(on_device.predict(&queue, &columns).expect("predictions"));
        start.elapsed().as_secs_f64() * 1e3
    });
    println!("forest: {n} rows, 100 trees of depth 16, from and to host memory: {:.0} ms", median(times.skip(1).collect()));
}
