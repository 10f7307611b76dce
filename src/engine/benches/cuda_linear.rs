//! Passes of sparse logistic regression on a GPU: the classic trial, 10 to 110 of a million features a row, beside a copy of memory in
//! the same run. `cargo bench -p taiga-engine --features cuda --bench cuda_linear -- [rows] [passes] [classes]`; of more than two
//! classes only passes are measured. `TAIGA_CUDA_SHARED=65536` has lists instead of cells.
//!
//! `benchmarks/gpu_sparse_lr.py` measures cupy's and torch's sparse products on the same shape. A pass is scores and gradient; its
//! limit is the time that the bytes of feature numbers (4 an entry) take to be read twice at the copy's speed.

use rayon::prelude::*;
use std::time::Instant;
use taiga_engine::column::{Chunk, Values};
use taiga_engine::cuda::linear::csr::limit_resident_rows;
use taiga_engine::cuda::linear::probe::{PassTimes, pass_times};
use taiga_engine::dataset::labels::Labels;
use taiga_engine::dataset::{Quiet, Target};
use taiga_engine::learners::linear::{Input, Items, LinearParams, ListChunk, ListColumn, Offsets, SparseRows, fit};
use taiga_engine::numerics::random::{Purpose, Random};

const FEATURES: u64 = 1_000_000;

/// Rows made at a time.
const PART: usize = 1 << 16;

struct Table {
    offsets: Vec<i64>,
    numbers: Vec<u32>,
    codes: Vec<u32>,
    classes: u32,
}

impl Table {
    fn new(rows: usize, classes: u32) -> Table {
        let lengths = Random::new(7, Purpose::RowSample, 1);
        let mut offsets = vec![0i64];
        offsets.extend((0..rows as u64).scan(0, |at, i| {
            *at += 10 + (lengths.u64(i) % 101) as i64;
            Some(*at)
        }));
        let mut table = Table { numbers: vec![0; offsets[rows] as usize], codes: vec![0; rows], offsets, classes };
        let mut parts = vec![];
        let mut rest = table.numbers.as_mut_slice();
        for (part, codes) in table.codes.chunks_mut(PART).enumerate() {
            let first = part * PART;
            let (mine, others) = rest.split_at_mut((table.offsets[first + codes.len()] - table.offsets[first]) as usize);
            rest = others;
            parts.push((first, mine, codes));
        }
        let offsets = &table.offsets;
        parts.into_par_iter().for_each(|(first, mut numbers, codes)| {
            let random = Random::new(7, Purpose::RowSample, 2);
            for (i, code) in codes.iter_mut().enumerate() {
                let span = offsets[first + i] as u64..offsets[first + i + 1] as u64;
                let n = span.end - span.start;
                let (row, others) = numbers.split_at_mut(n as usize);
                numbers = others;
                let mut even = 0;
                for (at, number) in span.clone().zip(row) {
                    *number = (random.u64(at) % FEATURES) as u32;
                    even += (*number % 2 == 0) as u64;
                }
                *code = if 2 * even == n { (span.start % 2) as u32 } else { (2 * even > n) as u32 };
                if classes > 2 {
                    *code = (*code + span.end as u32) % classes;
                }
            }
        });
        table
    }

    fn input(&self) -> Input<'_> {
        let chunk = ListChunk {
            offsets: Offsets::I64(&self.offsets),
            validity: None,
            items: Items::Numbers(Chunk::new(Values::U32(&self.numbers), None)),
        };
        Input {
            sparse: Some(SparseRows { features: ListColumn { name: "x".into(), chunks: vec![chunk] }, values: None }),
            dense: vec![],
            target: Target::Classes {
                codes: &self.codes,
                labels: if self.classes > 2 { Labels::Integer((0..self.classes as i64).collect()) } else { Labels::Boolean },
            },
            target_name: "y".into(),
            weight: None,
            held_out: None,
        }
    }
}

fn show(times: &PassTimes) {
    let bytes = 4.0 * times.entries as f64;
    let limit = 2.0 * bytes / times.copy / 1e6;
    println!(
        "{}: {} entries; reading the table {:.0} ms, to the device {:.0} ms; a copy {:.0} GB/s",
        times.layout, times.entries, times.problem, times.layout_ms, times.copy
    );
    println!("  residuals {:.3} ms, derivatives along a line {:.3} ms", times.residuals, times.along);
    if !times.scores.is_nan() {
        // Of one class: several read the numbers as often.
        let pass = (times.scores + times.gradient) / times.outputs as f64;
        println!(
            "  scores {:.3} ms, gradient {:.3} ms of {} outputs; a pass of one {pass:.3} ms; limit {limit:.3} ms: {:.1} % of the memory's speed",
            times.scores,
            times.gradient,
            times.outputs,
            100.0 * limit / pass
        );
    }
    println!("  a pass with coefficients up and sums down {:.2} ms", times.whole_pass);
}

fn main() {
    let args: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let (rows, passes) = (args.first().copied().unwrap_or(10_000_000), args.get(1).copied().unwrap_or(4));
    let start = Instant::now();
    let classes = args.get(2).copied().unwrap_or(2) as u32;
    let table = Table::new(rows, classes);
    println!("{rows} rows, {} entries, made in {:.1} s", table.numbers.len(), start.elapsed().as_secs_f64());
    let input = table.input();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let params = |epochs: usize, device: &str| {
        LinearParams::from_json(&serde_json::json!({ "epochs": epochs, "device": device, "n_threads": threads })).expect("parameters")
    };
    match pass_times(&input, &params(1, "cuda"), 15) {
        Ok(times) => show(&times),
        Err(e) => return println!("not measured: {e}"),
    }
    if passes == 0 || classes > 2 {
        return;
    }
    let mut bytes = vec![];
    for (device, epochs) in [("cuda", passes), ("cuda", 3 * passes), ("cpu", passes)] {
        let start = Instant::now();
        let model = fit(&input, &params(epochs, device), &Quiet).expect("a fit");
        println!("fit, {device}, {epochs} iterations: {:.2} s, objective {:.6}", start.elapsed().as_secs_f64(), model.objective);
        bytes.push(model.to_bytes());
    }
    println!("the same bytes: {}", bytes[0] == bytes[2]);
    for optimizer in ["adagrad", "ftrl"] {
        let found: Vec<Vec<u8>> = [("cuda", 3), ("cuda", 1), ("cpu", 1)]
            .into_iter()
            .map(|(device, epochs)| {
                let params = serde_json::json!({ "epochs": epochs, "device": device, "n_threads": threads, "optimizer": optimizer });
                let start = Instant::now();
                let model = fit(&input, &LinearParams::from_json(&params).expect("parameters"), &Quiet).expect("a fit");
                println!("fit, {device}, {optimizer}, {epochs} epochs: {:.2} s", start.elapsed().as_secs_f64());
                model.to_bytes()
            })
            .collect();
        println!("the same bytes: {}", found[1] == found[2]);
    }
    limit_resident_rows(Some(1 << 30));
    show(&pass_times(&input, &params(1, "cuda"), 3).expect("passes"));
    let start = Instant::now();
    let streamed = fit(&input, &params(passes, "cuda"), &Quiet).expect("a fit").to_bytes();
    println!("fit in blocks, {passes} iterations: {:.2} s; the same bytes: {}", start.elapsed().as_secs_f64(), streamed == bytes[0]);
}
