//! Times explanations on one thread: `cargo bench -p taiga-engine --bench shap -- [rows] [features] [trees] [policies] [depth; 0: the
//! default] [leaves] [rows of interactions]`.

mod shared;

use serde_json::json;
use shared::{argument, signal, uniform_columns};
use std::time::Instant;
use taiga_engine::column::Column;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::dataset::{Input, Quiet, Target};
use taiga_engine::learners::boosting::model::apply::Predictor;
use taiga_engine::learners::boosting::{BoostingParams, fit};
use taiga_engine::numerics::random::{Purpose, Random};
use taiga_engine::shap::Terms;

fn main() {
    let (rows, features): (usize, usize) = (argument(0, "20000").parse().unwrap(), argument(1, "28").parse().unwrap());
    let (depth, leaves): (u32, u32) = (argument(4, "6").parse().unwrap(), argument(5, "64").parse().unwrap());
    let few: usize = argument(6, "2000").parse().unwrap();
    let random = Random::new(1, Purpose::RowSample, 0);
    let columns = uniform_columns(&random, rows, features);
    let drawn = |i: usize| random.unit((i + rows * features) as u64);
    let codes: Vec<u32> = (0..rows).map(|i| (drawn(i) < 1.0 / (1.0 + (-1.5 * signal(&columns, i)).exp())) as u32).collect();
    let input = Input {
        features: columns.iter().enumerate().map(|(f, c)| Column::from_f32(format!("x{f}"), c)).collect(),
        target: Target::Classes { codes: &codes, labels: Labels::Boolean },
        target_name: "y".into(),
        weight: None,
        baseline: vec![],
        held_out: None,
        loss_columns: Default::default(),
        evaluation: Default::default(),
        order: None,
    };
    for policy in argument(3, "symmetric,depthwise,leafwise").split(',') {
        let mut params = json!({ "rounds": argument(2, "100").parse::<u32>().unwrap(), "policy": policy });
        match policy {
            "leafwise" => params["leaves"] = json!(leaves),
            _ => params["depth"] = json!(depth),
        }
        let model = fit(&input, &BoostingParams::from_json(&params).unwrap(), &Quiet).unwrap();
        let predictor = Predictor::new(model);
        let bound = predictor.bind(&input.features).unwrap();
        let first: Vec<Column<'_>> =
            columns.iter().enumerate().map(|(f, c)| Column::from_f32(format!("x{f}"), &c[..few.min(rows)])).collect();
        let first = predictor.bind(&first).unwrap();
        let start = Instant::now();
        let shap = predictor.shap_values(None).unwrap();
        println!("{policy}: prepared in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
        for (terms, columns) in [(Terms::Values, &bound), (Terms::Interactions, &first)] {
            let times: Vec<f64> = (0..4)
                .map(|_| {
                    let start = Instant::now();
                    std::hint::black_box(predictor.explain(&shap, columns, terms));
                    start.elapsed().as_secs_f64() * 1e3
                })
                .collect();
            println!(
                "  {terms:?} of {} rows: {:.1} ms at first, then {:.1}",
                columns[0].len(),
                times[0],
                times[1..].iter().fold(f64::MAX, |a, b| a.min(*b))
            );
        }
    }
}
