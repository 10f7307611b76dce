//! Times a fit by stages: `cargo bench -p taiga-engine --bench train -- [rows] [features] [trees] [policies] [threads] [loss] [repeat]
//! [device] [depths] [leaves] [bins] [categorical columns] [folder] [folds] [min_data_in_leaf]`. Policies and depths are lists (`symmetric,depthwise`; 0: the default);
//! the loss `multiclass` has 10 classes, `weighted-mae` and the like weights, `rmse-2` and the like so many targets in one tree. On a GPU a short fit goes before, so that what is timed is a process that has used it.
//! The folder has a table of `benchmarks/held_out.py`, whose held-out rows' scores are left there. With folds, one fit of all rows and the fits
//! of so many folds are timed in turn: the least of `repeat` of each.

mod shared;

use shared::{Clock, argument, signal, uniform_columns};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Instant;
use taiga_engine::column::Column;
use taiga_engine::column::categories::CategoryColumn;
use taiga_engine::dataset::folds::{Division, Folds};
use taiga_engine::dataset::labels::Labels;
use taiga_engine::dataset::{Input, Quiet, Target};
use taiga_engine::learners::boosting::model::apply::Predictor;
use taiga_engine::learners::boosting::{BoostingParams, fit, fit_folds};
use taiga_engine::numerics::random::{Purpose, Random};

/// Columns of f32 that a file of `benchmarks/held_out.py` holds one after the other.
fn read_columns(path: &Path, features: usize) -> Vec<Vec<f32>> {
    let bytes = std::fs::read(path).unwrap();
    let column = |c: &[u8]| c.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect();
    bytes.chunks_exact(bytes.len() / features).map(column).collect()
}

/// By which two builds' models are compared.
fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn main() {
    let (rows, features): (usize, usize) = (argument(0, "1000000").parse().unwrap(), argument(1, "28").parse().unwrap());
    let trees: u32 = argument(2, "30").parse().unwrap();
    let (policies, depths) = (argument(3, "symmetric"), argument(8, "0"));
    let threads: u32 = argument(4, "2").parse().unwrap();
    let (named, device) = (argument(5, "logloss"), argument(7, "cpu"));
    let (loss, weighted) = named.strip_prefix("weighted-").map_or((named.clone(), false), |loss| (loss.into(), true));
    let (loss, targets): (String, usize) = loss.split_once('-').map_or((loss.clone(), 1), |(loss, n)| (loss.into(), n.parse().unwrap()));
    let (bins, categorical): (u32, usize) = (argument(10, "255").parse().unwrap(), argument(11, "0").parse().unwrap());
    let random = Random::new(1, Purpose::RowSample, 0);
    let folder = Some(argument(12, "")).filter(|f| !f.is_empty());
    let folder = folder.as_deref().map(Path::new);
    let columns = folder.map_or_else(|| uniform_columns(&random, rows, features), |f| read_columns(&f.join("train.f32"), features));
    let z = |i: usize| signal(&columns, i);
    // A column of 8, 16, 32, … categories for each, of which the first ones are the most frequent.
    let categories: Vec<CategoryColumn> = (0..categorical)
        .map(|c| {
            let names: Vec<String> = (0..8usize << c.min(5)).map(|k| format!("c{c}k{k}")).collect();
            let of = |row: usize| (random.unit((row + (features + 1 + c) * rows) as u64).powi(2) * names.len() as f64) as usize;
            CategoryColumn::text(&format!("c{c}"), &[rows], |_, row| Some(&names[of(row)])).unwrap()
        })
        .collect();
    let classes = if loss == "multiclass" { 10 } else { 2 };
    let drawn = |i: usize| random.unit((i + rows * features) as u64);
    let codes: Vec<u32> = match (classes, folder) {
        (_, Some(folder)) => std::fs::read(folder.join("train.u8")).unwrap().into_iter().map(u32::from).collect(),
        (2, _) => (0..rows).map(|i| (drawn(i) < 1.0 / (1.0 + (-1.5 * z(i)).exp())) as u32).collect(),
        _ => (0..rows).map(|i| ((z(i) + drawn(i) + 2.5) * 2.0).clamp(0.0, 9.0) as u32).collect(),
    };
    // Each target is the signal, and a feature of its own times another.
    let own = |k: usize, i: usize| if k == 0 { 0.0 } else { (columns[k % features][i] * columns[(3 * k + 1) % features][i]) as f64 };
    let numbers: Vec<Vec<f64>> = (0..targets).map(|k| (0..rows).map(|i| z(i) + codes[i] as f64 + own(k, i)).collect()).collect();
    let weights: Vec<f32> = (0..rows).map(|i| 0.1 + random.unit((i + (features + 90) * rows) as u64) as f32).collect();
    let features_of = columns.iter().enumerate().map(|(f, c)| Column::from_f32(format!("x{f}"), c));
    let input = Input {
        features: features_of.chain(categories.iter().map(Column::categorical)).collect(),
        target: match loss.as_str() {
            "logloss" => Target::Classes { codes: &codes, labels: Labels::Boolean },
            "multiclass" => Target::Classes { codes: &codes, labels: Labels::Integer((0..classes).collect()) },
            _ if targets > 1 => Target::Several(numbers.iter().enumerate().map(|(k, y)| Column::from_f64(format!("y{k}"), y)).collect()),
            _ => Target::Numbers(Column::from_f64("y", &numbers[0])),
        },
        target_name: "y".into(),
        weight: weighted.then(|| Column::from_f32("w", &weights)),
        baseline: vec![],
        held_out: None,
        loss_columns: Default::default(),
        evaluation: Default::default(),
        order: None,
    };
    for (policy, depth) in policies.split(',').flat_map(|p| depths.split(',').map(move |d| (p, d.parse::<u32>().unwrap()))) {
        let leaves = Some(argument(9, "0").parse::<u32>().unwrap()).filter(|l| *l > 0);
        let leaves = leaves.or((policy == "leafwise").then_some(64));
        let params = |trees: u32| {
            BoostingParams::from_json(&serde_json::json!({
                "rounds": trees, "policy": policy, "loss": loss, "n_threads": threads, "leaves": leaves, "bins": bins,
                "depth": (depth > 0).then_some(depth), "device": device, "multi_strategy": (targets > 1).then_some("one_tree"), "min_data_in_leaf": argument(14, "0").parse::<u32>().unwrap()
            }))
            .unwrap()
        };
        let repeat: u32 = argument(6, "1").parse().unwrap();
        if device != "cpu" {
            fit(&input, &params(3), &Quiet).unwrap();
        }
        let folds: u32 = argument(13, "0").parse().unwrap();
        if folds > 1 {
            let folds = Folds::new(&input, &Division::Parts(folds), 0).unwrap();
            let (mut one, mut all) = (f64::INFINITY, f64::INFINITY);
            for _ in 0..repeat {
                let start = Instant::now();
                fit(&input, &params(trees), &Quiet).unwrap();
                one = one.min(start.elapsed().as_secs_f64());
                let start = Instant::now();
                fit_folds(&input, &params(trees), &folds, &Quiet).unwrap();
                all = all.min(start.elapsed().as_secs_f64());
            }
            println!("{policy}: one fit {one:.3} s, {} folds {all:.3} s, {:.3} fits", folds.count, all / one);
            continue;
        }
        if repeat > 1 {
            let start = Instant::now();
            for _ in 0..repeat {
                fit(&input, &params(trees), &Quiet).unwrap();
            }
            println!("{:.1} us a fit", start.elapsed().as_secs_f64() / repeat as f64 * 1e6);
            continue;
        }
        let clock = Clock::new();
        let model = fit(&input, &params(trees), &clock).unwrap();
        let times = clock.stop();
        let (prepared, device, total) = (times.prepared, &times.device, times.total);
        println!(
            "{rows} x {features}{} {policy} depth {depth} {bins} bins {named} {device} {threads} threads: borders and targets {prepared:.3} s, \
             to the device and first tree {:.3} s, then {:.3} ms a tree (median; min {:.3}), {trees} trees in all {total:.3} s, {} leaves, \
             bytes {:016x}",
            if categorical > 0 { format!(" + {categorical} categorical") } else { String::new() },
            times.first - prepared,
            times.median() * 1e3,
            times.least() * 1e3,
            model.trees.iter().map(|t| t.leaves().len()).sum::<usize>(),
            hash(&model.to_bytes())
        );
        if let Some(folder) = folder {
            let held_out = read_columns(&folder.join("test.f32"), features);
            let table: Vec<Column<'_>> = held_out.iter().enumerate().map(|(f, c)| Column::from_f32(format!("x{f}"), c)).collect();
            let predictor = Predictor::new(model);
            let scores = predictor.raw(&predictor.bind(&table).unwrap());
            let bytes: Vec<u8> = scores[0].iter().flat_map(|s| (*s as f32).to_le_bytes()).collect();
            std::fs::write(folder.join(format!("taiga-{device}-{policy}.scores")), bytes).unwrap();
        }
    }
}
