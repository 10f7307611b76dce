//! Times a fit by stages: `cargo bench -p taiga-engine --bench train -- [rows] [features] [trees] [policies] [threads] [loss] [repeat]
//! [device] [depths] [leaves] [bins] [categorical columns] [folder]`. Policies and depths are lists (`symmetric,depthwise`; 0: the default);
//! the loss `multiclass` has 10 classes, `weighted-mae` and the like weights. On a GPU a short fit goes before, so that what is timed is a process that has used it.
//! The folder has a table of `benchmarks/held_out.py`, whose held-out rows' scores are left there.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;
use taiga_engine::boosting::{BoostingParams, Input, Monitor, Quiet, Target, fit};
use taiga_engine::column::Column;
use taiga_engine::encoding::CategoryColumn;
use taiga_engine::model::Labels;
use taiga_engine::model::apply::Predictor;
use taiga_engine::numerics::random::{Purpose, Random};

/// Columns of f32 that a file of `benchmarks/held_out.py` holds one after the other.
fn read_columns(path: &Path, features: usize) -> Vec<Vec<f32>> {
    let bytes = std::fs::read(path).unwrap();
    let column = |c: &[u8]| c.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect();
    bytes.chunks_exact(bytes.len() / features).map(column).collect()
}

/// When a fit reached its stages, in seconds.
struct Clock {
    start: Instant,
    rounds: Mutex<Vec<f64>>,
    /// When the device was chosen: borders, targets and scores are there, nothing is on the device.
    prepared: Mutex<(f64, String)>,
}

impl Clock {
    fn new() -> Clock {
        Clock { start: Instant::now(), rounds: Mutex::default(), prepared: Mutex::default() }
    }
}

impl Monitor for Clock {
    fn round(&self, _done: u32, _total: u32, _metric: Option<f64>) {
        self.rounds.lock().unwrap().push(self.start.elapsed().as_secs_f64());
    }

    fn device(&self, chosen: &str) {
        *self.prepared.lock().unwrap() = (self.start.elapsed().as_secs_f64(), chosen.into());
    }
}

/// By which two builds' models are compared.
fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let arg = |i: usize, default: &str| args.get(i).cloned().unwrap_or_else(|| default.into());
    let (rows, features): (usize, usize) = (arg(0, "1000000").parse().unwrap(), arg(1, "28").parse().unwrap());
    let trees: u32 = arg(2, "30").parse().unwrap();
    let (policies, depths) = (arg(3, "symmetric"), arg(8, "0"));
    let threads: u32 = arg(4, "2").parse().unwrap();
    let (named, device) = (arg(5, "logloss"), arg(7, "cpu"));
    let (loss, weighted) = named.strip_prefix("weighted-").map_or((named.clone(), false), |loss| (loss.into(), true));
    let (bins, categorical): (u32, usize) = (arg(10, "254").parse().unwrap(), arg(11, "0").parse().unwrap());
    let random = Random::new(1, Purpose::RowSample, 0);
    let folder = args.get(12).map(Path::new);
    let drawn_columns = || {
        (0..features)
            .map(|f| (0..rows).map(|i| ((random.u64((i * features + f) as u64) >> 40) as f32 / (1 << 23) as f32) - 1.0).collect())
            .collect()
    };
    let columns: Vec<Vec<f32>> = folder.map_or_else(drawn_columns, |f| read_columns(&f.join("train.f32"), features));
    let x = |f: usize, i: usize| columns[f % features][i] as f64;
    let z = |i: usize| {
        1.2 * x(0, i)
            + (3.0 * x(5, i)).sin()
            + 1.5 * x(7, i) * x(12, i)
            + if x(14, i) > 0.1 { 0.8 } else { -0.4 } * x(19, i)
            + 0.5 * x(21, i)
            + 0.6 * x(26, i) * x(0, i)
    };
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
    let numbers: Vec<f64> = (0..rows).map(|i| z(i) + codes[i] as f64).collect();
    let weights: Vec<f32> = (0..rows).map(|i| 0.1 + random.unit((i + (features + 90) * rows) as u64) as f32).collect();
    let features_of = columns.iter().enumerate().map(|(f, c)| Column::from_f32(format!("x{f}"), c));
    let input = Input {
        features: features_of.chain(categories.iter().map(Column::categorical)).collect(),
        target: match loss.as_str() {
            "logloss" => Target::Classes { codes: &codes, labels: Labels::Boolean },
            "multiclass" => Target::Classes { codes: &codes, labels: Labels::Integer((0..classes).collect()) },
            _ => Target::Numbers(Column::from_f64("y", &numbers)),
        },
        target_name: "y".into(),
        weight: weighted.then(|| Column::from_f32("w", &weights)),
        baseline: vec![],
        held_out: None,
    };
    for (policy, depth) in policies.split(',').flat_map(|p| depths.split(',').map(move |d| (p, d.parse::<u32>().unwrap()))) {
        let leaves = args.get(9).map(|l| l.parse::<u32>().unwrap()).filter(|l| *l > 0);
        let leaves = leaves.or((policy == "leafwise").then_some(64));
        let params = |trees: u32| {
            BoostingParams::from_json(&serde_json::json!({
                "trees": trees, "policy": policy, "loss": loss, "n_threads": threads, "leaves": leaves, "bins": bins,
                "depth": (depth > 0).then_some(depth), "device": device
            }))
            .unwrap()
        };
        let repeat: u32 = arg(6, "1").parse().unwrap();
        if device != "cpu" {
            fit(&input, &params(3), &Quiet).unwrap();
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
        let total = clock.start.elapsed().as_secs_f64();
        let (times, (prepared, device)) = (clock.rounds.into_inner().unwrap(), clock.prepared.into_inner().unwrap());
        let mut each: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
        each.sort_by(f64::total_cmp);
        println!(
            "{rows} x {features}{} {policy} depth {depth} {bins} bins {named} {device} {threads} threads: borders and targets {prepared:.3} s, \
             to the device and first tree {:.3} s, then {:.3} ms a tree (median; min {:.3}), {trees} trees in all {total:.3} s, {} leaves, \
             bytes {:016x}",
            if categorical > 0 { format!(" + {categorical} categorical") } else { String::new() },
            times[0] - prepared,
            each.get(each.len() / 2).unwrap_or(&0.0) * 1e3,
            each.first().unwrap_or(&0.0) * 1e3,
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
