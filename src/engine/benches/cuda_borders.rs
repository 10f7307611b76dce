//! Borders of 10^8 values on a GPU, from host memory and where the column is there already, beside one thread of the host; and of
//! the sample of a fit, beside all its threads.
//!
//! `cargo bench -p taiga-engine --features cuda --bench cuda_borders`, with `-- fit` the latter alone; `benchmarks/gpu_borders.py`
//! measures torch's and cupy's sorts.

use rayon::prelude::*;
use std::hint::black_box;
use std::time::Instant;
use taiga_engine::column::Column;
use taiga_engine::cuda::columns::borders::borders;
use taiga_engine::cuda::runtime::{Gpu, Queue};
use taiga_engine::numerics::random::{Purpose, Random};
use taiga_engine::quantize::BorderMethod;
use taiga_engine::quantize::borders::{BorderParams, borders as by_values, fit_borders, sample_rows};

const N: usize = 100_000_000;
const FIT: (usize, usize) = (11_000_000, 28);

/// The median of some runs behind the first, in milliseconds, by the host's clock.
fn median<R>(repeats: usize, mut work: impl FnMut() -> R) -> f64 {
    let mut times: Vec<f64> = (0..=repeats)
        .map(|_| {
            let start = Instant::now();
            black_box(work());
            start.elapsed().as_secs_f64() * 1e3
        })
        .skip((repeats > 1) as usize)
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let gpu = match Gpu::get(None) {
        Ok(gpu) => gpu,
        Err(e) => return println!("not measured: {e}"),
    };
    let queue = Queue::new(gpu).expect("a queue");
    println!("{}", gpu.name());
    if !std::env::args().any(|a| a == "fit") {
        all_rows(&queue);
    }
    fits(&queue);
}

fn all_rows(queue: &Queue) {
    let (gpu, r) = (queue.gpu(), Random::new(1, Purpose::RowSample, 0));
    println!("{N} values");
    let doubles: Vec<f64> = (0..N).into_par_iter().map(|i| r.unit(i as u64)).collect();
    let singles: Vec<f32> = doubles.par_iter().map(|x| *x as f32).collect();
    let whole: Vec<f32> = doubles.par_iter().map(|x| (x * 100.0).floor() as f32).collect();
    for (name, column) in [
        ("f32", Column::from_f32("x", &singles)),
        ("f32, 100 values", Column::from_f32("x", &whole)),
        ("f64", Column::from_f64("x", &doubles)),
    ] {
        for (method, bins) in [
            (BorderMethod::Quantile, 254),
            (BorderMethod::Quantile, 65_534),
            (BorderMethod::Uniform, 254),
            (BorderMethod::GreedyLogsum, 254),
            (BorderMethod::GreedyLogsum, 65_534),
            (BorderMethod::MinMaxEntropy, 254),
        ] {
            let params = BorderParams { bins: bins + 1, method, sample: N, seed: 0 };
            gpu.cache().set_limit(gpu, None);
            let there = median(7, || borders(queue, &column, &params).expect("borders"));
            gpu.cache().set_limit(gpu, Some(0));
            let brought = median(3, || borders(queue, &column, &params).expect("borders"));
            println!("{name}, {method:?}, {bins}: column on the device {there:.2} ms, from host memory {brought:.1} ms");
        }
        let params = BorderParams { bins: 255, method: BorderMethod::Quantile, sample: N, seed: 0 };
        let start = Instant::now();
        let expected = fit_borders(&column, &params);
        println!("{name}, Quantile, 254: one thread of the host {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
        assert!(borders(queue, &column, &params).expect("borders") == expected);
    }
}

fn fits(queue: &Queue) {
    let (gpu, r) = (queue.gpu(), Random::new(1, Purpose::RowSample, 0));
    let (rows, features) = FIT;
    let data: Vec<Vec<f32>> =
        (0..features).map(|f| (0..rows).into_par_iter().map(|i| r.unit((f * rows + i) as u64) as f32).collect()).collect();
    let columns: Vec<Column<'_>> = data.iter().map(|values| Column::from_f32("x", values)).collect();
    let params = BorderParams { bins: 255, method: BorderMethod::Quantile, sample: 200_000, seed: 0 };
    // As a fit does it: the sample is drawn once.
    let draw = median(5, || sample_rows(rows, params.sample, 0));
    let sample = sample_rows(rows, params.sample, 0);
    let of = |c: &Column<'_>| by_values(&c.gather_f64(&sample), 254, BorderMethod::Quantile);
    let host = median(9, || columns.par_iter().map(of).collect::<Vec<_>>());
    let one = median(5, || of(&columns[0]));
    let all = BorderParams { sample: rows, ..params };
    let device = median(5, || borders(queue, &columns[0], &params).expect("borders"));
    let many = median(5, || {
        let of = |c: &Column<'_>| borders(&Queue::new(gpu).expect("a queue"), c, &params).expect("borders");
        columns.par_iter().map(of).collect::<Vec<_>>()
    });
    println!(
        "samples of 200,000 of {rows} x {features} f32: {} threads of the host {host:.2} ms (one column on one {one:.2}); the \
         device, the sample drawn ({draw:.2} ms of it) and gathered for each: one column {device:.2} ms, all of them from all \
         threads {many:.2}",
        rayon::current_num_threads()
    );
    let host = median(2, || columns.par_iter().map(|c| fit_borders(c, &all)).collect::<Vec<_>>());
    let device = median(2, || columns.iter().map(|c| borders(queue, c, &all).expect("borders")).collect::<Vec<_>>());
    println!("all rows of them: the host {host:.0} ms, the device from host memory {device:.0} ms");
}
