//! Losses of times in fits: whatever the threads, strata, draws and held-out rows, better than no order, and errors.

use serde_json::{Value, json};
use taiga_engine::column::Column;
use taiga_engine::dataset::{EventTimes, Input, LossColumns, Quiet};
use taiga_engine::learners::boosting::{BoostingParams, constant, fit};
use taiga_testing::contract::table;
use taiga_testing::{Dice, Table, Wanted, params, params_with};

const DISTRIBUTIONS: [&str; 3] = ["normal", "logistic", "extreme"];

fn with_threads(p: &BoostingParams, n: u32) -> BoostingParams {
    BoostingParams { n_threads: Some(n), ..p.clone() }
}

fn fault(t: &Table, p: Value) -> String {
    t.try_fit(&params(p)).unwrap_err().to_string()
}

fn times(t: &mut Table) -> &mut Vec<f64> {
    let Wanted::Numbers(times) = &mut t.target else { unreachable!() };
    times
}

/// Proves that one thread's bytes are those of any number: one stratum and several, weights, held-out rows and every way to draw rows.
#[test]
fn threads_change_nothing() {
    for (case, sample) in ["none", "goss", "mvs", "bernoulli"].into_iter().cycle().take(8).enumerate() {
        let loss = ["cox", "aft"][case / 4];
        let mut t = table(70_000, 6, loss, case as u64);
        let mut dice = Dice::new(case as u64);
        if case % 2 == 0 {
            t.weight = Some((0..t.rows()).map(|i| 0.5 + (i % 7) as f64).collect());
            t.held_out = Some((0..t.rows()).map(|_| dice.chance(0.2)).collect());
        }
        t.groups = (case % 3 == 1).then(|| (0..t.rows()).map(|i| [(i % 3) as u32, (i / 5) as u32][case / 2 % 2]).collect());
        let mut p = json!({ "loss": loss, "rounds": 4, "policy": "depthwise", "row_sample": sample });
        if loss == "aft" {
            p["aft_distribution"] = json!(DISTRIBUTIONS[case % 3]);
        }
        let p = params(p);
        let one = t.fit(&with_threads(&p, 1));
        for n in [2, 3, 5] {
            assert!(t.fit(&with_threads(&p, n)).to_bytes() == one.to_bytes(), "{loss}, {n} threads");
        }
    }
}

/// Proves that predictions order rows that the features tell apart, hazards from the latest time to the earliest.
#[test]
fn predictions_order_times() {
    for loss in ["cox", "aft"] {
        let mut t = table(4000, 4, loss, 9);
        let z: Vec<f64> = (0..4000).map(|i| t.columns[0][i]).collect();
        *times(&mut t) = z.iter().map(|z| (z / 20.0).exp()).collect();
        let mut dice = Dice::new(3);
        t.upper = Some(t.y().iter().map(|time| if dice.chance(0.3) { f64::INFINITY } else { *time }).collect());
        t.held_out = Some((0..4000).map(|i| i % 4 == 0).collect());
        let p = json!({ "loss": loss, "rounds": 100, "learning_rate": 0.3, "metric": "concordance", "early_stopping": 20 });
        let history = t.fit(&params(p)).history.unwrap();
        assert!(history.values[history.best as usize] > 0.98, "{loss}: {:?}", history.values);
    }
}

/// Proves that a loss goes down on its own metric of held-out rows, and that each of the others has a value.
#[test]
fn held_out_rows_are_measured() {
    for (loss, metrics) in [("cox", ["cox_nloglik", "concordance", "brier"]), ("aft", ["aft_nloglik", "concordance", "rmse"])] {
        let mut t = table(6000, 4, loss, 14);
        let mut dice = Dice::new(5);
        t.held_out = Some((0..6000).map(|_| dice.chance(0.3)).collect());
        for metric in metrics {
            let model = t.fit(&params(json!({ "loss": loss, "rounds": 30, "metric": metric, "early_stopping": 5 })));
            let history = model.history.as_ref().unwrap();
            let (first, best) = (history.values[0], history.values[history.best as usize]);
            let is_better = if metric == "concordance" { best > first } else { best < first };
            assert!(is_better, "{loss} {metric}: {:?}", history.values);
        }
        let own = t.fit(&params(json!({ "loss": loss, "rounds": 3 }))).history.unwrap();
        assert_eq!(own.metric.to_string(), metrics[0]);
    }
}

/// Proves that held-out rows and rows of weight 0 are at nobody's risk: the trees are those of the other rows alone.
#[test]
fn rows_that_do_not_train_are_not_at_risk() {
    for loss in ["cox", "aft"] {
        let mut t = table(2000, 4, loss, 12);
        let mut dice = Dice::new(13);
        t.weight = Some((0..2000).map(|_| if dice.chance(0.3) { 0.0 } else { 1.0 }).collect());
        let weights = t.weight.clone().unwrap();
        let p = params(json!({ "loss": loss, "rounds": 4 }));
        let (with, without) = (t.fit(&p), t.filter(|i| weights[i] > 0.0).fit(&p));
        assert!(with.trees == without.trees && with.start == without.start, "{loss}");
    }
}

/// Proves that under strata alone the ratios inside each count: times of one shifted far away change no byte.
#[test]
fn strata_are_at_risk_by_themselves() {
    let mut t = table(3000, 4, "cox", 21);
    t.groups = Some((0..3000).map(|i| i % 3).collect());
    let p = params(json!({ "loss": "cox", "rounds": 6 }));
    let one = t.fit(&p);
    let mut moved = t.clone();
    let shift = |i: usize| if i % 3 == 1 { 1e6 } else { 0.0 };
    times(&mut moved).iter_mut().enumerate().for_each(|(i, time)| *time += shift(i));
    moved.upper.as_mut().unwrap().iter_mut().enumerate().for_each(|(i, time)| *time += shift(i));
    assert!(moved.fit(&p).trees == one.trees);
    let whole = Table { groups: None, ..t.clone() };
    assert!(whole.fit(&p).trees != one.trees);
    assert!(Table { groups: Some(vec![5; 3000]), ..t }.fit(&p).trees == whole.fit(&p).trees);
}

/// Proves that any function of time that keeps their order gives Cox's bytes, and times in another unit aft's trees.
#[test]
fn units_of_time_leave_no_trace() {
    let t = table(2000, 4, "cox", 22);
    let p = params(json!({ "loss": "cox", "rounds": 6 }));
    let mut other = t.clone();
    times(&mut other).iter_mut().for_each(|time| *time = time.powi(3) / 7.0);
    let upper = t.upper.as_ref().unwrap().iter().zip(other.y()).map(|(u, time)| if u.is_finite() { time } else { f64::INFINITY });
    other.upper = Some(upper.collect());
    assert!(t.fit(&p).trees == other.fit(&p).trees);
    let t = table(2000, 4, "aft", 23);
    for unit in [1.0 / 64.0, 1024.0] {
        let mut other = t.clone();
        times(&mut other).iter_mut().for_each(|time| *time *= unit);
        other.upper.as_mut().unwrap().iter_mut().for_each(|time| *time *= unit);
        let p = params(json!({ "loss": "aft", "rounds": 1 }));
        let (a, b) = (t.fit(&p), other.fit(&p));
        assert!((b.start[0] - a.start[0] - unit.ln()).abs() < 1e-9);
    }
}

/// Proves that a factor on all weights changes nothing but what is in their units.
#[test]
fn a_factor_on_weights_leaves_no_trace() {
    for loss in ["cox", "aft"] {
        let mut t = table(2000, 4, loss, 24);
        t.weight = Some((0..2000).map(|i| 0.25 * (1 + i % 5) as f64).collect());
        let p = json!({ "loss": loss, "rounds": 5, "l2": 0, "min_child_weight": 0 });
        let one = t.fit(&params(p.clone()));
        for factor in [2f64.powi(-70), 2f64.powi(40)] {
            let mut other = t.clone();
            other.weight.as_mut().unwrap().iter_mut().for_each(|w| *w *= factor);
            let scaled = other.fit(&params(p.clone()));
            let values = |m: &taiga_engine::learners::boosting::model::Model| -> Vec<f64> {
                m.trees.iter().flat_map(|t| t.leaves()).map(|leaf| leaf.value).collect()
            };
            assert_eq!(values(&one), values(&scaled), "{loss} {factor}");
        }
    }
}

/// Proves that tables of few rows, of one time and of no use give models or errors, never a panic or a score that is no number.
#[test]
fn degenerate_tables() {
    let inf = f64::INFINITY;
    for (times, upper) in [
        (vec![1.0, 2.0], vec![1.0, 2.0]),
        (vec![3.0; 50], vec![3.0; 50]),
        (vec![0.0; 50], vec![inf; 50]),
        ((1..51).map(f64::from).collect(), (1..51).map(|i| if i == 7 { 7.0 } else { inf }).collect()),
        ((1..51).map(|i| 10f64.powi(i / 2)).collect(), (1..51).map(|i| 10f64.powi(i / 2)).collect()),
        ((1..51).map(|i| 1e-25 * f64::from(i)).collect(), vec![inf; 50]),
    ] {
        let n = times.len();
        let column = (0..n).map(|i| i as f64).collect();
        let t = Table { upper: Some(upper.clone()), ..Table::numbers(vec![column], times) };
        for p in
            [json!({ "loss": "cox" }), json!({ "loss": "aft" }), json!({ "loss": "aft", "aft_distribution": "extreme", "aft_scale": 0.01 })]
        {
            let p = params_with(p, json!({ "rounds": 20, "learning_rate": 1.0, "l2": 1e-3 }));
            match t.try_fit(&p) {
                Ok(model) => assert!(taiga_testing::raw(&model, &t)[0].iter().all(|s| s.is_finite()), "{p:?} {:?}", t.y()),
                Err(error) => assert!(error.rows_fault().is_some() && upper.iter().all(|u| *u == inf), "{error}"),
            }
            assert!(constant(&t.input(), &p).unwrap().start[0].is_finite());
        }
    }
}

/// Proves that errors say what is wrong with times and events.
#[test]
fn errors_name_the_fault() {
    let t = table(200, 2, "aft", 15);
    for loss in ["cox", "aft"] {
        let text = fault(&Table { upper: None, ..t.clone() }, json!({ "loss": loss }));
        assert!(text.contains("`event`") && text.contains("pl.lit(True)"), "{text}");
        for bad in [-1.0, 1e31] {
            let mut wrong = t.clone();
            times(&mut wrong)[17] = bad;
            assert!(fault(&wrong, json!({ "loss": loss })).contains("row 17"), "{loss} {bad}");
        }
        let mut wrong = t.clone();
        wrong.upper.as_mut().unwrap()[18] = 0.5;
        times(&mut wrong)[18] = 2.0;
        let text = fault(&wrong, json!({ "loss": loss }));
        assert!(text.contains("`y`: it is 2 in row 18, above `upper`"), "{text}");
    }
    let text = fault(&t, json!({ "loss": "cox" }));
    assert!(text.contains("`upper`") && text.contains("loss=\"aft\""), "{text}");
    let text = fault(&t, json!({}));
    assert!(text.contains("`event`: neither the loss nor the metric reads"), "{text}");
    let mut wrong = table(200, 2, "aft", 15);
    times(&mut wrong)[3] = 0.0;
    wrong.upper.as_mut().unwrap()[3] = 0.0;
    assert!(fault(&wrong, json!({ "loss": "aft" })).contains("row 3 happened at 0"));
    let t = table(200, 2, "cox", 15);
    let text = fault(&Table { upper: Some(vec![f64::INFINITY; 200]), ..t.clone() }, json!({ "loss": "cox" }));
    assert!(text.contains("no event happened"), "{text}");
    let held_out = Table { held_out: Some((0..200).map(|i| i < 2).collect()), ..t.clone() };
    let mut censored = held_out.clone();
    censored.upper.as_mut().unwrap()[..2].fill(f64::INFINITY);
    for metric in ["concordance", "cox_nloglik", "brier"] {
        let text = fault(&censored, json!({ "loss": "cox", "metric": metric, "rounds": 2 }));
        assert!(text.contains("is not defined here"), "{text}");
    }
    let text = fault(&held_out, json!({ "metric": "concordance", "rounds": 2, "loss": "logloss" }));
    assert!(text.contains("concordance") || text.contains("logloss"), "{text}");
    for (p, part) in [
        (json!({ "loss": "aft", "aft_scale": 0 }), "aft_scale"),
        (json!({ "loss": "aft", "aft_distribution": "weibull" }), "extreme"),
        (json!({ "loss": "cox", "metric": "rmse" }), "can't be measured"),
        (json!({ "loss": "aft", "metric": "cox_nloglik" }), "can't be measured"),
    ] {
        let text = BoostingParams::from_json(&p).unwrap_err().to_string();
        assert!(text.contains(part), "{text}");
    }
}

/// Proves that events and bounds say the same where they do.
#[test]
fn events_are_bounds() {
    let t = table(1000, 3, "cox", 30);
    let died: Vec<f64> = t.upper.as_ref().unwrap().iter().map(|u| u.is_finite() as u8 as f64).collect();
    for loss in ["cox", "aft"] {
        let p = params(json!({ "loss": loss, "rounds": 4 }));
        let times = EventTimes { event: Some(Column::from_f64("died", &died)), ..EventTimes::default() };
        let input = Input { loss_columns: LossColumns { times, ..LossColumns::default() }, ..t.input() };
        assert!(fit(&input, &p, &Quiet).unwrap().to_bytes() == t.fit(&p).to_bytes(), "{loss}");
    }
}
