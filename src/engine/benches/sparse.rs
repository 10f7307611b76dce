//! Times fits on sparse tables: `cargo bench -p taiga-engine --bench sparse -- [kind] [rows] [features] [trees] [policy] [threads] [bundle] [loss] [device] [percent]`.
//! On a GPU a short fit goes before.
//!
//! Kinds: `onehot` (100 exclusive columns for each of features / 100 categories), `binary`,
//! `counts` and `numbers` (1 % of the values, or as many as told, drawn independently are not zero).

mod shared;

use shared::{Clock, argument};
use taiga_engine::column::Column;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::dataset::{Input, Quiet, Target};
use taiga_engine::learners::boosting::{BoostingParams, fit};
use taiga_engine::numerics::random::{Purpose, Random};

fn main() {
    let kind = argument(0, "onehot");
    let (rows, features): (usize, usize) = (argument(1, "200000").parse().unwrap(), argument(2, "2000").parse().unwrap());
    let trees: u32 = argument(3, "20").parse().unwrap();
    let policy = argument(4, "depthwise");
    let threads: u32 = argument(5, "2").parse().unwrap();
    let bundle: bool = argument(6, "true").parse().unwrap();
    let (loss, device) = (argument(7, "logloss"), argument(8, "cpu"));
    let percent: f64 = argument(9, "1").parse().unwrap();
    let each = if kind == "onehot" { features / 100 } else { (features as f64 * percent / 100.0) as usize };
    let random = Random::new(1, Purpose::RowSample, 0);
    let mut columns = vec![vec![0f32; rows]; features];
    let mut z = vec![0f64; rows];
    let effect = |f: usize| 6.0 * (random.unit(f as u64) - 0.5) * (random.unit((f + features) as u64));
    for (i, z) in z.iter_mut().enumerate() {
        for k in 0..each {
            let bits = random.u64((3 * features + i * each + k) as u64);
            if kind == "onehot" {
                let f = k * 100 + (bits % 100) as usize;
                columns[f][i] = 1.0;
                *z += effect(f);
                continue;
            }
            // Wherever they fall.
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
        loss_columns: Default::default(),
        evaluation: Default::default(),
        order: None,
    };
    let mut params = serde_json::json!({
        "rounds": trees, "policy": policy, "loss": loss, "n_threads": threads, "leaves": if policy == "leafwise" { Some(64) } else { None }, "device": device
    });
    if !bundle {
        params["bundle"] = false.into();
    }
    let params = BoostingParams::from_json(&params).unwrap();
    if device != "cpu" {
        fit(&input, &BoostingParams { rounds: Some(3), ..params.clone() }, &Quiet).unwrap();
    }
    let clock = Clock::new();
    let model = fit(&input, &params, &clock).unwrap();
    let times = clock.stop();
    println!(
        "{kind} {percent} % {rows} x {features} {policy} {loss} {device} {threads} threads, bundle {bundle}: borders {:.3} s, with storage and first tree {:.3} s, then {:.2} ms a tree (median; min {:.2}), total {:.3} s, bytes {:016x}",
        times.prepared,
        times.first,
        times.median() * 1e3,
        times.least() * 1e3,
        times.total,
        model.to_bytes().iter().fold(0u64, |h, b| (h ^ *b as u64).wrapping_mul(0x100_0000_01b3)),
    );
}
