//! Times a forest: `cargo bench -p taiga-engine --bench forest -- [rows] [features] [trees] [splitter] [threads] [target: two, three
//! or numbers] [depth; 0: none] [other parameters as JSON]`.

mod shared;

use shared::{Clock, argument, signal, uniform_columns};
use std::time::Instant;
use taiga_engine::column::Column;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::learners::forest::{ForestParams, Input, Predictor, Target, fit};
use taiga_engine::numerics::random::{Purpose, Random};

fn main() {
    let (rows, features): (usize, usize) = (argument(0, "500000").parse().unwrap(), argument(1, "28").parse().unwrap());
    let (splitter, target) = (argument(3, "histogram"), argument(5, "two"));
    let random = Random::new(1, Purpose::RowSample, 0);
    let columns = uniform_columns(&random, rows, features);
    let z = |i: usize| signal(&columns, i);
    let codes: Vec<u32> =
        (0..rows).map(|i| (random.unit((i + rows * features) as u64) < 1.0 / (1.0 + (-1.5 * z(i)).exp())) as u32).collect();
    let three: Vec<u32> = (0..rows).map(|i| codes[i] + (z(i) > 0.5) as u32).collect();
    let numbers: Vec<f64> = (0..rows).map(|i| z(i) + codes[i] as f64).collect();
    let input = Input {
        features: columns.iter().enumerate().map(|(f, c)| Column::from_f32(format!("x{f}"), c)).collect(),
        target: match target.as_str() {
            "two" => Target::Classes { codes: &codes, labels: Labels::Boolean },
            "three" => Target::Classes { codes: &three, labels: Labels::Integer(vec![0, 1, 2]) },
            _ => Target::Numbers(Column::from_f64("y", &numbers)),
        },
        target_name: "y".into(),
        weight: None,
    };
    let mut params: serde_json::Value = serde_json::from_str(&argument(7, "{}")).unwrap();
    params["trees"] = serde_json::json!(argument(2, "100").parse::<u32>().unwrap());
    params["n_threads"] = serde_json::json!(argument(4, "2").parse::<u32>().unwrap());
    params["splitter"] = serde_json::json!(splitter);
    let depth: u32 = argument(6, "16").parse().unwrap();
    if depth > 0 {
        params["depth"] = serde_json::json!(depth);
    }
    let params = ForestParams::from_json(&params).unwrap();
    let clock = Clock::new();
    let forest = fit(&input, &params, &clock).unwrap();
    let times = clock.stop();
    let leaves: usize = forest.trees.iter().map(|t| t.leaves()).sum();
    let start = Instant::now();
    let bytes = forest.to_bytes();
    let seal = start.elapsed().as_secs_f64();
    println!(
        "{rows} x {features} {splitter} {target} {} threads: first tree at {:.3} s, total {:.3} s, {leaves} leaves, score out of bag {:.4}; {:.1} MB in {seal:.2} s",
        argument(4, "2"),
        times.first,
        times.total,
        forest.oob.as_ref().map_or(f64::NAN, |o| o.score),
        bytes.len() as f64 / 1e6
    );
    let predictor = Predictor::new(forest);
    let start = Instant::now();
    let predictions = predictor.predict(&predictor.bind(&input.features).unwrap());
    println!("predict on one thread: {:.3} s, mean {:.4}", start.elapsed().as_secs_f64(), predictions[0].iter().sum::<f64>() / rows as f64);
}
