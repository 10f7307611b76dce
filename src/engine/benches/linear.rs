//! The classic trial of sparse logistic regression: 10 to 110 of a million features a row, and the class is whether even or odd
//! feature numbers prevail. `cargo bench -p taiga-engine --bench linear -- [rows] [parameters as JSON] [index bits] [features] [repeats]`.
//!
//! Prints the AUC of 100,000 other rows after each pass, and the time of a fit of so many passes; with `[repeats]` behind, the least of
//! so many fits of all passes alone.

use std::time::Instant;
use taiga_engine::column::{Chunk, Values};
use taiga_engine::dataset::labels::Labels;
use taiga_engine::dataset::{Quiet, Target};
use taiga_engine::learners::linear::{Input, Items, LinearParams, ListChunk, ListColumn, Offsets, Predictor, SparseRows, fit};
use taiga_engine::numerics::random::{Purpose, Random};

struct Table {
    offsets: Vec<i64>,
    narrow: Vec<u32>,
    wide: Vec<i64>,
    codes: Vec<u32>,
}

impl Table {
    fn new(rows: usize, features: u64, stream: u64, bits: u32) -> Table {
        let random = Random::new(7, Purpose::RowSample, stream);
        let (mut offsets, mut narrow, mut codes, mut at) = (vec![0], vec![], vec![], 0);
        for _ in 0..rows {
            let mut draw = || {
                at += 1;
                random.u64(at)
            };
            let n = 10 + draw() % 101;
            let mut even = 0;
            for _ in 0..n {
                let feature = (draw() % features) as u32;
                even += feature.is_multiple_of(2) as u64;
                narrow.push(feature);
            }
            codes.push(if 2 * even == n { (draw() % 2) as u32 } else { (2 * even > n) as u32 });
            offsets.push(narrow.len() as i64);
        }
        let wide = if bits == 64 { narrow.iter().map(|n| *n as i64).collect() } else { vec![] };
        Table { offsets, narrow, wide, codes }
    }

    fn rows(&self) -> SparseRows<'_> {
        let values = if self.wide.is_empty() { Values::U32(&self.narrow) } else { Values::I64(&self.wide) };
        let chunk = ListChunk { offsets: Offsets::I64(&self.offsets), validity: None, items: Items::Numbers(Chunk::new(values, None)) };
        SparseRows { features: ListColumn { name: "x".into(), chunks: vec![chunk] }, values: None }
    }
}

fn auc(scores: &[f64], codes: &[u32]) -> f64 {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    let (mut zeros, mut pairs) = (0u64, 0u64);
    for i in order {
        if codes[i] == 1 { pairs += zeros } else { zeros += 1 }
    }
    pairs as f64 / (zeros as f64 * (scores.len() as u64 - zeros) as f64)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let arg = |i: usize, default: &str| args.get(i).cloned().unwrap_or_else(|| default.into());
    let rows: usize = arg(0, "1000000").parse().unwrap();
    let mut params: serde_json::Value = serde_json::from_str(&arg(1, "{}")).unwrap();
    let (bits, features) = (arg(2, "64").parse().unwrap(), arg(3, "1000000").parse().unwrap());
    params["n_threads"] = params.get("n_threads").cloned().unwrap_or(2.into());
    let (table, test) = (Table::new(rows, features, 0, bits), Table::new(100_000, features, 1, 32));
    println!("{rows} rows, {} entries of {bits} bits, {params}", table.narrow.len());
    let input = Input {
        sparse: Some(table.rows()),
        dense: vec![],
        target: Target::Classes { codes: &table.codes, labels: Labels::Boolean },
        target_name: "y".into(),
        weight: None,
        held_out: None,
    };
    let most = LinearParams::from_json(&params).unwrap().epochs();
    let steps = [1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100];
    let repeats: usize = arg(4, "0").parse().unwrap();
    for passes in steps.into_iter().filter(|p| if repeats > 0 { *p == most } else { *p <= most }) {
        params["epochs"] = passes.into();
        let params = LinearParams::from_json(&params).unwrap();
        let timed = || {
            let start = Instant::now();
            let model = fit(&input, &params, &Quiet).unwrap();
            (start.elapsed().as_secs_f64(), model)
        };
        let least = (1..repeats).map(|_| timed().0).fold(f64::INFINITY, f64::min);
        let (seconds, model) = timed();
        let seconds = seconds.min(least);
        let (objective, done, bytes) = (model.objective, model.passes, model.to_bytes().len());
        let predictor = Predictor::new(model);
        let start = Instant::now();
        let raw = predictor.raw(Some(&test.rows()), &[]).unwrap();
        let predict = start.elapsed().as_secs_f64();
        println!(
            "{done:3} passes: {seconds:.3} s, AUC {:.4}, objective {objective:.6}, {} coefficients, {bytes} bytes, predict 100k {predict:.3} s",
            auc(&raw[0], &test.codes),
            predictor.model().coefficients().count()
        );
        if done < passes {
            break;
        }
    }
}
