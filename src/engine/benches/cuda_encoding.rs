//! Target encoding of 100M rows on a GPU, beside the sort that it needs; and combinations of two columns as long.
//!
//! `cargo bench -p taiga-engine --features cuda --bench cuda_encoding`; `benchmarks/gpu_encoding.py`
//! measures torch and cupy. `-- tables`: the encodings that take a table of sums alone.

mod shared;

use rayon::prelude::*;
use shared::argument;
use std::time::Instant;
use taiga_engine::cuda::columns::combine::combine;
use taiga_engine::cuda::columns::target_encode::{measure, target_encode};
use taiga_engine::cuda::runtime::{Gpu, Queue};
use taiga_engine::encoding::target::{EncodingInput, EncodingKind, EncodingPlan, EncodingTarget, Order, TargetParams};
use taiga_engine::numerics::random::{Purpose, Random};

const N: usize = 100_000_000;
const CATEGORIES: usize = 1_000_000;

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Two columns of codes, combined.
fn combinations(queue: &Queue, r: Random) {
    for categories in [1_000u64, 100_000] {
        let column = |shift: u32| (0..N).into_par_iter().map(|i| ((r.u64(i as u64) >> shift) % categories) as u32).collect::<Vec<u32>>();
        let (a, b) = (column(0), column(24));
        let times = (0..4).map(|_| {
            let start = Instant::now();
            drop(combine(queue, &[(&a, categories as usize), (&b, categories as usize)]).expect("combined"));
            start.elapsed().as_secs_f64() * 1e3
        });
        println!("{categories} x {categories} categories combined, from and to host memory: {:.0} ms", median(times.skip(1).collect()));
    }
}

/// Encodings from and to host memory.
fn encode(queue: &Queue, name: &str, codes: &[u32], flags: &[u8], numbers: &[f64], kinds: &[EncodingKind]) {
    for kind in kinds {
        let params = TargetParams { kind: *kind, ..Default::default() };
        let plan = EncodingPlan::random(N, &params).expect("a plan");
        for (what, target) in [("flags", EncodingTarget::Flags(flags)), ("numbers", EncodingTarget::Numbers(numbers))] {
            let input = EncodingInput { codes, categories: CATEGORIES, target, weight: None };
            let times = (0..4).map(|_| {
                let start = Instant::now();
                drop(target_encode(queue, &input, &plan, &params).expect("encoded"));
                start.elapsed().as_secs_f64() * 1e3
            });
            println!("{name}: {kind:?}, {what}, from and to host memory: {:.0} ms", median(times.skip(1).collect()));
        }
    }
}

fn main() {
    let gpu = match Gpu::get(None) {
        Ok(gpu) => gpu,
        Err(e) => return println!("not measured: {e}"),
    };
    let queue = Queue::new(gpu).expect("a queue");
    let r = Random::new(1, Purpose::RowSample, 0);
    let flags: Vec<u8> = (0..N).into_par_iter().map(|i| (r.u64(i as u64) >> 40) as u8 & 1).collect();
    let numbers: Vec<f64> = (0..N).into_par_iter().map(|i| r.unit(i as u64)).collect();
    let order = Order::Random(Random::new(1, Purpose::Permutation, 0));
    println!("{}; {N} rows, {CATEGORIES} categories", gpu.name());
    let tables = argument(0, "all") == "tables";
    if !tables {
        combinations(&queue, r);
    }
    let shapes: [(&str, &(dyn Fn(usize) -> u32 + Sync)); 3] = [
        ("uniform", &|i| (r.u64(i as u64) % CATEGORIES as u64) as u32),
        ("skewed", &|i| (r.unit(i as u64).powi(6) * CATEGORIES as f64) as u32),
        ("constant", &|_| 77),
    ];
    for (name, shape) in shapes {
        let codes: Vec<u32> = (0..N).into_par_iter().map(shape).collect();
        if tables {
            encode(&queue, name, &codes, &flags, &numbers, &[EncodingKind::Kfold, EncodingKind::Loo, EncodingKind::Full]);
            continue;
        }
        let times: Vec<[f64; 4]> = (0..7).map(|_| measure(&queue, &codes, CATEGORIES, &flags, &order).expect("measured")).skip(2).collect();
        let [keys, sort, scan, all] = [0, 1, 2, 3].map(|i| median(times.iter().map(|t| t[i]).collect()));
        println!(
            "{name}: on the device, ordered: keys {keys:.2} ms, CUB's sorts {sort:.2} ms, behind the first {scan:.2} ms; all {all:.2} ms, {:.2} times the sorts",
            all / sort
        );
        encode(
            &queue,
            name,
            &codes,
            &flags,
            &numbers,
            &[EncodingKind::Ordered, EncodingKind::Kfold, EncodingKind::Loo, EncodingKind::Full],
        );
        if name == "uniform" {
            let input = EncodingInput { codes: &codes, categories: CATEGORIES, target: EncodingTarget::Flags(&flags), weight: None };
            let start = Instant::now();
            let plan = EncodingPlan::Ordered(vec![order.clone()]);
            drop(taiga_engine::encoding::target::target_encode(&input, &plan, &TargetParams::default()).expect("encoded"));
            println!("{name}: Ordered, flags, the CPU's: {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
        }
    }
}
