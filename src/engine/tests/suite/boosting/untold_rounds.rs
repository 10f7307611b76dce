//! Fits that are not told how many rounds to make, against fits that are told what these found.

use serde_json::json;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::params::MultiStrategy;
use taiga_engine::learners::boosting::untold_rounds::learning_rate;
use taiga_engine::numerics::random::{Purpose, Random, below};
use taiga_testing::{Dice, POLICIES, Table, classes, params, params_with, raw, rmse, table};

/// What a model was told or found: rounds and step.
fn told(model: &Model) -> (u32, f64) {
    (model.params.rounds.expect("a model records its rounds"), model.params.learning_rate.expect("a model records its step"))
}

/// Three classes, a target of numbers or two classes.
fn any_table(dice: &mut Dice, rows: usize) -> Table {
    let seed = dice.below(1 << 40);
    match dice.below(3) {
        0 => table(rows, seed),
        1 => classes(rows, seed),
        _ => {
            let t = table(rows, seed);
            let codes = t.y().iter().map(|y| (*y > 0.0) as u32 + (*y > 1.0) as u32).collect();
            Table::classes(t.columns, codes, Labels::Text(vec!["a".into(), "b".into(), "c".into()]))
        }
    }
}

/// Proves that what is found is recorded, that a fit which is told so makes the same bytes, with any number of threads, and that what
/// is told is kept.
#[test]
fn a_fit_makes_the_bytes_of_one_that_is_told_what_it_found() {
    let mut dice = Dice::new(11);
    for case in 0..24 {
        let rows = 50 + dice.below(600) as usize;
        let t = any_table(&mut dice, rows);
        let mut more = json!({ "policy": POLICIES[case % 3], "seed": case, "depth": 3, "bins": 30 });
        if dice.chance(0.3) {
            more["learning_rate"] = json!(0.2);
        }
        let found = t.fit(&params_with(more.clone(), json!({ "n_threads": 1 })));
        let (found_rounds, step) = told(&found);
        assert_eq!(found.rounds(), found_rounds as usize);
        let expected = more["learning_rate"].as_f64().unwrap_or(learning_rate(rows));
        assert_eq!(step, expected);
        // Several classes share their trees where rounds are found, and where they are told to.
        let classes = found.outputs() > 1;
        assert_eq!(found.params.multi_strategy, classes.then_some(MultiStrategy::OneTree));
        let mut told = json!({ "rounds": found_rounds, "learning_rate": step });
        if classes {
            told["multi_strategy"] = json!("one_tree");
        }
        let again = t.fit(&params_with(more.clone(), told));
        assert!(found.to_bytes() == again.to_bytes(), "{case}");
        assert!(found.to_bytes() == t.fit(&params_with(more, json!({ "n_threads": 3 }))).to_bytes(), "{case}");
        assert!(found.history.is_none());
    }
}

/// Proves that several classes have a tree each where they are told so, under directions of a feature, which a shared tree has none of, and where rounds are told;
/// and that a fit told so makes the bytes of one told what it found.
#[test]
fn classes_have_a_tree_each_where_they_cannot_share_or_are_told() {
    let mut dice = Dice::new(5);
    let t = loop {
        let t = any_table(&mut dice, 400);
        if t.fit(&params(json!({ "rounds": 1 }))).outputs() == 3 {
            break t;
        }
    };
    for more in [json!({ "multi_strategy": "tree_each" }), json!({ "monotone": { "x0": 1 } }), json!({ "rounds": 3 })] {
        let model = t.fit(&params_with(json!({ "depth": 3 }), more.clone()));
        assert!(model.params.multi_strategy.is_none_or(|strategy| strategy == MultiStrategy::TreeEach), "{more}");
        let (rounds, step) = told(&model);
        let again = t.fit(&params_with(json!({ "depth": 3, "rounds": rounds, "learning_rate": step }), more.clone()));
        assert!(model.to_bytes() == again.to_bytes(), "{more}");
    }
    assert!(t.fit(&params(json!({}))).params.multi_strategy == Some(MultiStrategy::OneTree));
}

/// Proves that of few rows the number of rounds is the geometric mean of those that are best without one fifth of the rows after another, in proportion to the
/// rows: until two thousand have been hidden, or less where each has several outputs.
#[test]
fn of_few_rows_several_fifths_are_hidden_in_turn() {
    let cases =
        [(53, 1, 5), (999, 1, 5), (2499, 1, 5), (2500, 1, 4), (3400, 1, 3), (9_999, 1, 2), (10_000, 1, 1), (999, 3, 4), (1703, 3, 2)];
    for (rows, outputs, parts) in cases {
        let (mut t, seed, step) = (table(rows, 6), 9, learning_rate(rows));
        let codes: Vec<u32> = t.y().iter().map(|y| if outputs == 1 { 0 } else { (*y > 0.0) as u32 + (*y > 1.0) as u32 }).collect();
        if outputs > 1 {
            t = Table::classes(t.columns, codes.clone(), Labels::Text(vec!["a".into(), "b".into(), "c".into()]));
        }
        let best_without = |part: usize| {
            let (mut t, mut mask) = (t.clone(), vec![false; rows]);
            for class in 0..outputs {
                let random = Random::new(seed, Purpose::HiddenRows, class as u64);
                let of_class: Vec<usize> = (0..rows).filter(|row| codes[*row] == class).collect();
                for (block, rows) in of_class.chunks_exact(5).enumerate() {
                    mask[rows[(below(random.u64(block as u64), 5) as usize + part) % 5]] = true;
                }
            }
            let hidden = mask.iter().filter(|hidden| **hidden).count();
            t.held_out = Some(mask);
            let told = json!({ "seed": seed, "rounds": (60.0 / step).round() as u32, "learning_rate": step, "early_stopping": (3.0 / step).round() as u32 });
            let strategy = if outputs > 1 { json!({ "multi_strategy": "one_tree" }) } else { json!({}) };
            t.fit(&params_with(told, strategy)).rounds() as f64 * (rows as f64 / (rows - hidden) as f64)
        };
        let mean = (0..parts).map(|part| best_without(part).ln()).sum::<f64>() / parts as f64;
        assert_eq!(told(&t.fit(&params(json!({ "seed": seed })))), (mean.exp().round() as u32, step), "{rows} rows, {outputs} outputs");
    }
}

/// Proves that as many rounds are made as the target is worth: few for noise, many for what has none.
#[test]
fn noise_gets_few_rounds_and_a_function_many() {
    let mut dice = Dice::new(2);
    let x: Vec<f64> = (0..2000).map(|_| dice.unit()).collect();
    let noise = Table::numbers(vec![x.clone()], (0..2000).map(|_| dice.normal()).collect());
    let wave = Table::numbers(vec![x.clone()], x.iter().map(|x| (20.0 * x).sin()).collect());
    let (few, many) = (told(&noise.fit(&params(json!({})))).0, told(&wave.fit(&params(json!({})))).0);
    assert!(few < 40, "{few}");
    assert!(many > 300, "{many}");
    let by_rule = rmse(&raw(&wave.fit(&params(json!({}))), &wave)[0], &wave.y());
    let by_hundred = rmse(&raw(&wave.fit(&params(json!({ "rounds": 100 }))), &wave)[0], &wave.y());
    assert!(by_rule < by_hundred, "{by_rule} {by_hundred}");
}

/// Proves that a fit which is told its rounds has the step that it ever had, whatever its rows.
#[test]
fn told_rounds_have_the_usual_step() {
    for rows in [2, 49, 50, 3000] {
        assert_eq!(told(&table(rows, 3).fit(&params(json!({ "rounds": 7 })))), (7, 0.1));
    }
}

/// Proves that tables of which no rows can be hidden have a hundred rounds: of few rows, and of losses of rows that depend on each
/// other.
#[test]
fn where_nothing_can_be_hidden_there_are_a_hundred_rounds() {
    for rows in [2, 3, 49] {
        assert_eq!(told(&table(rows, 5).fit(&params(json!({})))), (100, 0.1), "{rows}");
        assert_eq!(told(&table(rows, 5).fit(&params(json!({ "learning_rate": 0.3 })))), (100, 0.3), "{rows}");
    }
    let mut ranked = table(300, 5);
    ranked.groups = Some((0..300).map(|i| i / 10).collect());
    assert_eq!(told(&ranked.fit(&params(json!({ "loss": "pairwise" })))), (100, 0.1));
}

/// Proves that rows which some are hidden of may be as alike as may be: a constant target, a class of one row, a feature of one value.
#[test]
fn rows_that_are_alike_are_fitted() {
    let x: Vec<f64> = (0..60).map(f64::from).collect();
    let constant = Table::numbers(vec![x.clone()], vec![4.0; 60]).fit(&params(json!({})));
    assert!(told(&constant).0 >= 1);
    let codes = |rare: usize| (0..60).map(|i| (i < rare) as u32).collect();
    for rare in [1, 4, 5, 59] {
        let t = Table::classes(vec![x.clone()], codes(rare), Labels::Boolean);
        assert!(told(&t.fit(&params(json!({})))).0 >= 1, "{rare}");
    }
    let flat = Table::numbers(vec![vec![1.0; 60]], x).fit(&params(json!({})));
    assert!(told(&flat).0 >= 1);
}

/// Proves that rows which are held out train nothing and do not decide, and that with `early_stopping` they do.
#[test]
fn held_out_rows_decide_where_they_are_told_to() {
    let mut t = table(800, 8);
    t.held_out = Some((0..800).map(|i| i % 4 == 1).collect());
    let measured = t.fit(&params(json!({ "metric": "mae" })));
    let history = measured.history.as_ref().expect("the held-out rows are measured");
    assert_eq!((history.values.len(), history.metric.to_string()), (measured.rounds(), "mae".into()));
    let mut other = t.clone();
    let y = other.y();
    other = Table {
        held_out: t.held_out.clone(),
        ..Table::numbers(t.columns.clone(), y.iter().enumerate().map(|(i, y)| if i % 4 == 1 { -y } else { *y }).collect())
    };
    assert_eq!(told(&other.fit(&params(json!({ "metric": "mae" })))), told(&measured));
    let stopped = t.fit(&params(json!({ "early_stopping": 5 })));
    let (most, step) = told(&stopped);
    assert_eq!((most, step), ((60.0 / step).round() as u32, learning_rate(600)));
    assert!(stopped.rounds() < most as usize);
    let again = t.fit(&params(json!({ "early_stopping": 5, "rounds": most, "learning_rate": step })));
    assert!(stopped.to_bytes() == again.to_bytes());
}

/// Proves that a row of weight 0 is as if it were not there where rounds are found as well.
#[test]
fn rows_of_weight_0_hide_nothing() {
    let mut t = table(400, 9);
    t.weight = Some((0..400).map(|i| (i % 3 != 0) as u32 as f32).map(f64::from).collect());
    let without = t.filter(|i| i % 3 != 0);
    let bytes = |t: &Table| {
        let model = t.fit(&params(json!({ "depth": 3 })));
        Model { rows: 0, ..model }.to_bytes()
    };
    assert!(bytes(&t) == bytes(&without));
}

/// Proves that in a table of very many rows the trial's trees are the model's, and that these are so many.
#[test]
fn of_very_many_rows_the_trial_is_the_model() {
    let mut dice = Dice::new(4);
    let rows = 260_000;
    let x: Vec<f64> = (0..rows).map(|_| dice.unit()).collect();
    let y = x.iter().map(|x| (*x > 0.4) as u32 as f64 + dice.normal()).collect();
    let model = Table::numbers(vec![x], y).fit(&params(json!({ "depth": 1, "bins": 8, "learning_rate": 1.0 })));
    assert_eq!(model.rounds(), told(&model).0 as usize);
    assert!(model.rows < rows && model.rows > rows * 49 / 50, "{}", model.rows);
    assert!(model.history.is_none() && model.params.early_stopping.is_none());
}
