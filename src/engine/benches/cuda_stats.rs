//! Extremes and histograms of 2^28 f32 on a GPU, beside a copy of the same bytes in the same run.
//!
//! `cargo bench -p taiga-engine --features cuda --bench cuda_stats`; `benchmarks/gpu_histogram.py`
//! measures torch and cupy the same way. GB/s count the bytes read, for the copy those read and written.
//! `-- weights`: histograms with weights and of two columns alone, of 2^27 rows.

mod shared;

use rayon::prelude::*;
use shared::argument;
use std::time::Instant;
use taiga_engine::column::Column;
use taiga_engine::cuda::DeviceColumn;
use taiga_engine::cuda::columns::range::count_by_range;
use taiga_engine::cuda::columns::stats::{DeviceEdges, count_into, histogram, min_max, min_max_of};
use taiga_engine::cuda::columns::stats2d::histogram2d;
use taiga_engine::cuda::cudarc::driver::CudaSlice;
use taiga_engine::cuda::cudarc::driver::sys::CUevent_flags;
use taiga_engine::cuda::runtime::{Gpu, Queue};
use taiga_engine::numerics::random::{Purpose, Random};
use taiga_engine::stats::locate::Locator;
use taiga_engine::stats::{AxisParams, Histogram2dParams, HistogramParams};

const N: usize = 1 << 28;
const REPEATS: usize = 15;

/// The median in milliseconds, by the device's clock.
fn on_device(queue: &Queue, mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..REPEATS + 2)
        .map(|_| {
            let mark = || queue.stream().record_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).expect("an event");
            let start = mark();
            work();
            let end = mark();
            start.elapsed_ms(&end).expect("a time") as f64
        })
        .skip(2)
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The median in milliseconds, by the host's clock: what a caller waits.
fn by_host<R>(mut work: impl FnMut() -> R) -> f64 {
    let mut times: Vec<f64> = (0..REPEATS + 2)
        .map(|_| {
            let start = Instant::now();
            std::hint::black_box(work());
            start.elapsed().as_secs_f64() * 1e3
        })
        .skip(2)
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn line(what: &str, ms: f64, bytes: usize) {
    println!("{what:44} {ms:8.3} ms {:7.0} GB/s", bytes as f64 / ms / 1e6);
}

fn params(bins: i64, range: Option<(f64, f64)>) -> HistogramParams {
    HistogramParams { axis: AxisParams { bins: Some(bins), range, edges: None }, density: false }
}

/// Histograms with weights, and of two columns with and without, from columns that stay on the device.
fn weights(queue: &Queue, r: Random) {
    let n = N / 2;
    let make = |salt: u32| (0..n).into_par_iter().map(|i| r.u32(i as u32 ^ salt) as f32 / u32::MAX as f32).collect::<Vec<f32>>();
    let (x, y) = (make(0), make(0x5555_5555));
    let weights: Vec<f64> = (0..n).into_par_iter().map(|i| r.unit(i as u64)).collect();
    let [x, y] = [("x", &x), ("y", &y)].map(|(name, values)| Column::from_f32(name, values));
    let weights = Column::from_f64("w", &weights);
    for bins in [64, 4096] {
        let ms = by_host(|| histogram(queue, &x, Some(&weights), &params(bins, Some((0.0, 1.0)))).expect("sums"));
        line(&format!("with weights, {bins} bins"), ms, 12 * n);
    }
    for bins in [32, 256] {
        let axis = || AxisParams { bins: Some(bins), range: Some((0.0, 1.0)), edges: None };
        let params = Histogram2dParams { x: axis(), y: axis(), density: false };
        let ms = by_host(|| histogram2d(queue, &x, &y, None, &params).expect("counts"));
        line(&format!("of two columns, {bins} x {bins} bins"), ms, 8 * n);
        let ms = by_host(|| histogram2d(queue, &x, &y, Some(&weights), &params).expect("sums"));
        line(&format!("of two columns with weights, {bins} x {bins} bins"), ms, 16 * n);
    }
}

fn main() {
    let gpu = match Gpu::get(None) {
        Ok(gpu) => gpu,
        Err(e) => return println!("not measured: {e}"),
    };
    let queue = Queue::new(gpu).expect("a queue");
    println!("{}; {N} f32, median of {REPEATS}", gpu.name());
    let r = Random::new(1, Purpose::RowSample, 0);
    let make = |f: &(dyn Fn(usize) -> f32 + Sync)| (0..N).into_par_iter().map(f).collect::<Vec<f32>>();
    if argument(0, "all") == "weights" {
        return weights(&queue, r);
    }
    let uniform = make(&|i| r.u32(i as u32) as f32 / u32::MAX as f32);
    let skewed = make(&|i| if r.u32(i as u32) < 3_900_000_000 { 0.5 } else { uniform[i] });
    let sorted = make(&|i| i as f32 / N as f32);
    let constant = vec![0.37f32; N];

    let column = DeviceColumn::numeric(&queue, &Column::from_f32("x", &uniform)).expect("room");
    let mut copy: CudaSlice<u8> = queue.alloc("a copy", 4 * N).expect("room");
    let ms = on_device(&queue, || queue.stream().memcpy_dtod(column.values(), &mut copy).expect("a copy"));
    line("device copy of the same bytes", ms, 8 * N);
    drop(copy);
    drop(column);
    for (name, values) in [("uniform", &uniform), ("constant", &constant), ("sorted", &sorted), ("skewed", &skewed)] {
        let column = DeviceColumn::numeric(&queue, &Column::from_f32("x", values)).expect("room");
        line(&format!("{name}: min and max, result on the host"), by_host(|| min_max(&queue, &column).expect("extremes")), 4 * N);
        for bins in [16usize, 64, 256, 512, 1024, 2048, 4096] {
            let edges: Vec<f64> = (0..=bins).map(|i| (i as f32 / bins as f32) as f64).collect();
            let edges = DeviceEdges::new(&queue, &Locator::uniform(&edges, true)).expect("room");
            let mut totals = queue.zeros::<u64>("totals", bins).expect("room");
            let ms = on_device(&queue, || count_into(&queue, &column, &edges, &mut totals).expect("counts"));
            line(&format!("{name}: count, {bins} bins"), ms, 4 * N);
        }
        // The column stays on the device after the first call, as it does between the expressions of a query; it is hashed
        // in each.
        let kept = Column::from_f32("x", values);
        for bins in [16, 256, 4096] {
            let ms = by_host(|| histogram(&queue, &kept, None, &params(bins, None)).expect("counts"));
            line(&format!("{name}: range and count in one call, {bins} bins"), ms, 4 * N);
            let ms = on_device(&queue, || drop(count_by_range(&queue, &column, bins as usize).expect("counts")));
            line(&format!("{name}: the same on the device, and back"), ms, 4 * N);
        }
        gpu.cache().clear(gpu).expect("freed");
    }
    gpu.cache().set_limit(gpu, Some(0));
    let column = Column::from_f32("x", &uniform);
    line("from host memory: min and max", by_host(|| min_max_of(&queue, &column).expect("extremes")), 4 * N);
    let ms = by_host(|| histogram(&queue, &column, None, &params(256, Some((0.0, 1.0)))).expect("counts"));
    line("from host memory: histogram, 256 bins", ms, 4 * N);
    let ms = by_host(|| histogram(&queue, &column, None, &params(256, None)).expect("counts"));
    line("from host memory: with its range", ms, 4 * N);
    let ms = by_host(|| taiga_engine::stats::histogram(&column, None, &params(256, None)).expect("counts"));
    line("the CPU's, with its range", ms, 4 * N);
}
