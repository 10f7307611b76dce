//! How long borders take a feature and codes take a value: `cargo bench -p taiga-engine`.

use std::hint::black_box;
use std::time::Instant;

use taiga_engine::column::Column;
use taiga_engine::numerics::random::{Purpose, Random};
use taiga_engine::quantize::BorderMethod;
use taiga_engine::quantize::borders::{BorderParams, borders, fit_borders, sample_rows};
use taiga_engine::quantize::codes::{Quantizer, QuantizerScratch};

/// The fastest of `times` runs, in seconds.
fn seconds(times: usize, mut work: impl FnMut()) -> f64 {
    (0..times)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

/// Nearly normal numbers.
fn normal(n: usize, stream: u64) -> Vec<f64> {
    let r = Random::new(1, Purpose::Rounding, stream);
    (0..n as u64).map(|i| (0..6).map(|k| r.unit(i * 6 + k)).sum::<f64>() - 3.0).collect()
}

fn main() {
    const METHODS: [BorderMethod; 4] =
        [BorderMethod::Quantile, BorderMethod::Uniform, BorderMethod::GreedyLogsum, BorderMethod::MinMaxEntropy];
    let f64s = normal(200_000, 0);
    let f32s: Vec<f64> = f64s.iter().map(|&x| f64::from(x as f32)).collect();
    let integers: Vec<f64> = f64s.iter().map(|x| (x * 1000.0).round()).collect();
    for (name, sample) in [("f32", &f32s), ("f64", &f64s), ("integers", &integers)] {
        for method in METHODS {
            let s = seconds(15, || _ = black_box(borders(black_box(sample), 254, method)));
            println!("borders of 200,000 {name} values, {method:?}: {:.2} ms", s * 1e3);
        }
    }

    const ROWS: usize = 1_000_000;
    const FEATURES: usize = 28;
    let data: Vec<Vec<f32>> = (0..FEATURES).map(|f| normal(ROWS, f as u64).into_iter().map(|x| x as f32).collect()).collect();
    let columns: Vec<Column<'_>> = data.iter().map(|v| Column::from_f32("x", v)).collect();
    let params = |bins| BorderParams { bins, method: BorderMethod::Quantile, sample: 200_000, seed: 1 };
    let s = seconds(3, || _ = black_box(sample_rows(ROWS, 200_000, 1)));
    println!("sample_rows: {:.2} ms", s * 1e3);
    let s = seconds(3, || _ = black_box(fit_borders(&columns[0], &params(255))));
    println!("fit_borders, 200,000 of 1,000,000 f32: {:.2} ms", s * 1e3);

    let mut out = vec![0u8; ROWS * 32];
    let wide: Vec<Vec<f64>> = data.iter().map(|v| v.iter().map(|&x| f64::from(x)).collect()).collect();
    let wide: Vec<Column<'_>> = wide.iter().map(|v| Column::from_f64("x", v)).collect();
    for (name, columns) in [("f32", &columns), ("f64", &wide)] {
        for bins in [255, 128, 32] {
            let quantizers: Vec<Quantizer> = columns.iter().map(|c| Quantizer::new(&fit_borders(c, &params(bins)))).collect();
            for block in [512, 4096] {
                let mut scratch = QuantizerScratch::default();
                let s = seconds(3, || {
                    for start in (0..ROWS).step_by(block) {
                        let len = block.min(ROWS - start);
                        for (f, (c, q)) in columns.iter().zip(&quantizers).enumerate() {
                            black_box(q.codes(c, start, len, 1, &mut out[start * 32 + f..], 32, &mut scratch));
                        }
                    }
                });
                println!(
                    "codes, 1M x 28 {name}, {bins} bins, blocks of {block}: {:.1} ms, {:.2} ns a value",
                    s * 1e3,
                    s * 1e9 / (ROWS * FEATURES) as f64
                );
            }
        }
    }
}
