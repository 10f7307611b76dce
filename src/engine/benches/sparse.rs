//! Times fits on sparse tables: `cargo bench -p taiga-engine --bench sparse -- [kind] [rows] [features] [trees] [policy] [threads] [bundle] [loss] [device]`.
//! On a GPU a short fit goes before.
//!
//! Kinds: `onehot` (100 exclusive columns for each of features / 100 categories), `binary`,
//! `counts` and `numbers` (1 % of the values drawn independently are not zero).

use std::time::Instant;
use taiga_engine::boosting::{BoostingParams, Input, Monitor, Quiet, Target, fit};
use taiga_engine::column::Column;
use taiga_engine::model::Labels;
use taiga_engine::numerics::random::{Purpose, Random};

struct Clock(std::sync::Mutex<Vec<f64>>, Instant, std::sync::Mutex<f64>);

impl Monitor for Clock {
    fn round(&self, _done: u32, _total: u32, _metric: Option<f64>) {
        self.0.lock().unwrap().push(self.1.elapsed().as_secs_f64());
    }

    fn device(&self, _chosen: &str) {
        *self.2.lock().unwrap() = self.1.elapsed().as_secs_f64();
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let arg = |i: usize, default: &str| args.get(i).cloned().unwrap_or_else(|| default.into());
    let kind = arg(0, "onehot");
    let (rows, features): (usize, usize) = (arg(1, "200000").parse().unwrap(), arg(2, "2000").parse().unwrap());
    let trees: u32 = arg(3, "20").parse().unwrap();
    let policy = arg(4, "depthwise");
    let threads: u32 = arg(5, "2").parse().unwrap();
    let bundle: bool = arg(6, "true").parse().unwrap();
    let (loss, device) = (arg(7, "logloss"), arg(8, "cpu"));
    let random = Random::new(1, Purpose::RowSample, 0);
    let mut columns = vec![vec![0f32; rows]; features];
    let mut z = vec![0f64; rows];
    let effect = |f: usize| 6.0 * (random.unit(f as u64) - 0.5) * (random.unit((f + features) as u64));
    for (i, z) in z.iter_mut().enumerate() {
        for k in 0..features / 100 {
            let bits = random.u64((3 * features + i * features / 100 + k) as u64);
            if kind == "onehot" {
                let f = k * 100 + (bits % 100) as usize;
                columns[f][i] = 1.0;
                *z += effect(f);
                continue;
            }
            // As many values as the hundredth part of the columns, wherever they fall.
            let f = (bits % features as u64) as usize;
            let u = (bits >> 40) as f32 / (1 << 24) as f32;
            columns[f][i] = match &kind[..] {
                "binary" => 1.0,
                "counts" => 1.0 + (u * 8.0).floor(),
                _ => u,
            };
            *z += effect(f) * (0.5 + columns[f][i].min(2.0) as f64);
        }
    }
    let codes: Vec<u32> = (0..rows).map(|i| (random.unit((i + rows * features) as u64) < 1.0 / (1.0 + (-z[i]).exp())) as u32).collect();
    let input = Input {
        features: columns.iter().enumerate().map(|(f, c)| Column::from_f32(format!("x{f}"), c)).collect(),
        target: if loss == "logloss" {
            Target::Classes { codes: &codes, labels: Labels::Boolean }
        } else {
            Target::Numbers(Column::from_f64("y", &z))
        },
        target_name: "y".into(),
        weight: None,
        baseline: vec![],
        held_out: None,
    };
    let mut params = serde_json::json!({
        "trees": trees, "policy": policy, "loss": loss, "n_threads": threads, "leaves": if policy == "leafwise" { Some(64) } else { None }, "device": device
    });
    if !bundle {
        params["bundle"] = false.into();
    }
    let params = BoostingParams::from_json(&params).unwrap();
    if device != "cpu" {
        fit(&input, &BoostingParams { trees: 3, ..params.clone() }, &Quiet).unwrap();
    }
    let clock = Clock(Default::default(), Instant::now(), Default::default());
    let model = fit(&input, &params, &clock).unwrap();
    let total = clock.1.elapsed().as_secs_f64();
    let times = clock.0.into_inner().unwrap();
    let mut each: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
    each.sort_by(f64::total_cmp);
    println!(
        "{kind} {rows} x {features} {policy} {loss} {device} {threads} threads, bundle {bundle}: borders {:.3} s, with storage and first tree {:.3} s, then {:.2} ms a tree (median; min {:.2}), total {total:.3} s, bytes {:016x}",
        clock.2.into_inner().unwrap(),
        times[0],
        each[each.len() / 2] * 1e3,
        each[0] * 1e3,
        model.to_bytes().iter().fold(0u64, |h, b| (h ^ *b as u64).wrapping_mul(0x100_0000_01b3)),
    );
}
