//! Times a fit by stages: `cargo bench -p taiga-engine --bench train -- [rows] [features] [trees] [policy] [threads] [loss] [repeat]
//! [device] [depth] [leaves]`.

use std::time::Instant;
use taiga_engine::boosting::{BoostingParams, Input, Monitor, Target, fit};
use taiga_engine::column::Column;
use taiga_engine::model::Labels;
use taiga_engine::numerics::random::{Purpose, Random};

struct Clock(std::sync::Mutex<Vec<f64>>, Instant);

impl Monitor for Clock {
    fn round(&self, _done: u32, _total: u32, _metric: Option<f64>) {
        self.0.lock().unwrap().push(self.1.elapsed().as_secs_f64());
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let arg = |i: usize, default: &str| args.get(i).cloned().unwrap_or_else(|| default.into());
    let (rows, features): (usize, usize) = (arg(0, "1000000").parse().unwrap(), arg(1, "28").parse().unwrap());
    let trees: u32 = arg(2, "30").parse().unwrap();
    let policy = arg(3, "symmetric");
    let threads: u32 = arg(4, "2").parse().unwrap();
    let loss = arg(5, "logloss");
    let random = Random::new(1, Purpose::RowSample, 0);
    let columns: Vec<Vec<f32>> = (0..features)
        .map(|f| (0..rows).map(|i| ((random.u64((i * features + f) as u64) >> 40) as f32 / (1 << 23) as f32) - 1.0).collect())
        .collect();
    let x = |f: usize, i: usize| columns[f % features][i] as f64;
    let z = |i: usize| {
        1.2 * x(0, i)
            + (3.0 * x(5, i)).sin()
            + 1.5 * x(7, i) * x(12, i)
            + if x(14, i) > 0.1 { 0.8 } else { -0.4 } * x(19, i)
            + 0.5 * x(21, i)
            + 0.6 * x(26, i) * x(0, i)
    };
    let codes: Vec<u32> =
        (0..rows).map(|i| (random.unit((i + rows * features) as u64) < 1.0 / (1.0 + (-1.5 * z(i)).exp())) as u32).collect();
    let numbers: Vec<f64> = (0..rows).map(|i| z(i) + codes[i] as f64).collect();
    let input = Input {
        features: columns.iter().enumerate().map(|(f, c)| Column::from_f32(format!("x{f}"), c)).collect(),
        target: if loss == "logloss" {
            Target::Classes { codes: &codes, labels: Labels::Boolean }
        } else {
            Target::Numbers(Column::from_f64("y", &numbers))
        },
        target_name: "y".into(),
        weight: None,
        baseline: vec![],
        held_out: None,
    };
    let (device, depth) = (arg(7, "cpu"), args.get(8).map(|d| d.parse::<u32>().unwrap()));
    let leaves = args.get(9).map(|l| l.parse::<u32>().unwrap()).or((policy == "leafwise").then_some(64));
    let params = BoostingParams::from_json(&serde_json::json!({
        "trees": trees, "policy": policy, "loss": loss, "n_threads": threads, "leaves": leaves, "depth": depth, "device": device
    }))
    .unwrap();
    let repeat: u32 = arg(6, "1").parse().unwrap();
    if repeat > 1 {
        let start = Instant::now();
        for _ in 0..repeat {
            fit(&input, &params, &taiga_engine::boosting::Quiet).unwrap();
        }
        println!("{:.1} us a fit", start.elapsed().as_secs_f64() / repeat as f64 * 1e6);
        return;
    }
    let clock = Clock(Default::default(), Instant::now());
    let model = fit(&input, &params, &clock).unwrap();
    let total = clock.1.elapsed().as_secs_f64();
    let times = clock.0.into_inner().unwrap();
    let mut each: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
    each.sort_by(f64::total_cmp);
    println!(
        "{rows} x {features} {policy} {loss} {device} {threads} threads: prepare + first tree {:.3} s, then {:.2} ms a tree (median; min {:.2}), total {total:.3} s, {} leaves",
        times[0],
        each[each.len() / 2] * 1e3,
        each[0] * 1e3,
        model.trees.iter().map(|t| t.leaves().len()).sum::<usize>()
    );
}
