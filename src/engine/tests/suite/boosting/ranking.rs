//! Losses by group in fits: whatever the threads and the order of groups, better than no order, and errors.

use serde_json::json;
use taiga_engine::learners::boosting::BoostingParams;
use taiga_engine::learners::boosting::model::Model;
use taiga_testing::contract::{RANKING, table};
use taiga_testing::{Dice, Table, Wanted, params, raw};

fn with_threads(p: &BoostingParams, n: u32) -> BoostingParams {
    BoostingParams { n_threads: Some(n), ..p.clone() }
}

/// The share of pairs of a group's rows with different targets whose scores stand in their order.
fn ordered(model: &Model, t: &Table) -> f64 {
    let (scores, y, groups) = (&raw(model, t)[0], t.y(), t.groups.clone().unwrap());
    let (mut right, mut all) = (0.0, 0.0);
    for i in 0..y.len() {
        for j in 0..i {
            if groups[i] == groups[j] && y[i] != y[j] {
                all += 1.0;
                right += ((scores[i] > scores[j]) == (y[i] > y[j])) as u8 as f64;
            }
        }
    }
    right / all
}

/// Proves that groups of every size, scattered over the table, give the bytes of one thread on any number: 70,000 rows keep several busy.
#[test]
fn threads_change_nothing() {
    for (case, loss) in RANKING.into_iter().enumerate() {
        let mut t = table(70_000, 6, loss, case as u64);
        if case % 2 == 0 {
            t.weight = Some((0..t.rows()).map(|i| 0.5 + (i % 7) as f64).collect());
        }
        let sample = ["none", "goss", "mvs", "bernoulli"][case];
        let p = params(json!({ "loss": loss, "rounds": 4, "policy": "depthwise", "row_sample": sample }));
        let one = t.fit(&with_threads(&p, 1));
        for n in [2, 3, 5] {
            assert!(t.fit(&with_threads(&p, n)).to_bytes() == one.to_bytes(), "{loss}, {n} threads");
        }
    }
}

/// Proves that scores order rows: nearly all pairs of rows that the features tell apart.
#[test]
fn scores_order_the_rows_of_groups() {
    for loss in RANKING {
        let mut t = table(4000, 4, loss, 9);
        let z: Vec<f64> = (0..4000).map(|i| t.columns[0][i] + 0.01 * t.columns[2][i]).collect();
        t.target = Wanted::Numbers(z.iter().map(|z| (z / 16.0 + 2.5).floor().clamp(0.0, 4.0)).collect());
        let model = t.fit(&params(json!({ "loss": loss, "rounds": 60, "min_child_weight": 0 })));
        let share = ordered(&model, &t);
        assert!(share > 0.97, "{loss}: {share}");
    }
}

/// Proves that what a group adds to all scores of its rows, and the numbers that groups have, leave no trace.
#[test]
fn names_of_groups_leave_no_trace() {
    for loss in RANKING {
        let t = table(3000, 4, loss, 11);
        let p = params(json!({ "loss": loss, "rounds": 5 }));
        let other = Table { groups: t.groups.as_ref().map(|g| g.iter().map(|g| g.wrapping_mul(2_654_435_761)).collect()), ..t.clone() };
        assert!(t.fit(&p).to_bytes() == other.fit(&p).to_bytes(), "{loss}");
    }
}

/// Proves that rows of weight 0 are as if they were not there, in groups too.
#[test]
fn rows_that_weigh_nothing_are_not_there() {
    for loss in RANKING {
        let mut t = table(2000, 4, loss, 12);
        let mut dice = Dice::new(13);
        t.weight = Some((0..2000).map(|_| if dice.chance(0.3) { 0.0 } else { 1.0 }).collect());
        let weights = t.weight.clone().unwrap();
        let p = params(json!({ "loss": loss, "rounds": 4 }));
        let (with, without) = (t.fit(&p), t.filter(|i| weights[i] > 0.0).fit(&p));
        assert!(with.trees == without.trees && with.start == without.start, "{loss}");
    }
}

/// Proves that held-out groups are measured by NDCG, and stop a fit.
#[test]
fn held_out_groups_are_measured() {
    for loss in RANKING {
        let mut t = table(6000, 4, loss, 14);
        if let Wanted::Numbers(y) = &mut t.target {
            y.iter_mut().for_each(|y| *y = y.floor().clamp(0.0, 4.0));
        }
        t.held_out = t.groups.as_ref().map(|g| g.iter().map(|g| g % 3 == 0).collect());
        for metric in ["ndcg", "map", "mrr", "precision", "rmse"] {
            let model = t.fit(&params(json!({ "loss": loss, "rounds": 40, "metric": metric, "early_stopping": 5 })));
            let history = model.history.as_ref().unwrap();
            let best = history.values[history.best as usize];
            assert!(metric == "rmse" || (best > history.values[0] - 1e-12 && best <= 1.0), "{loss} {metric}: {:?}", history.values);
        }
    }
}

/// Proves that errors say what is wrong with groups and grades.
#[test]
fn errors_name_the_fault() {
    let t = table(200, 2, "lambdarank", 15);
    let p = |loss: &str| params(json!({ "loss": loss, "rounds": 2 }));
    let fault = |t: &Table, p: &BoostingParams| t.try_fit(p).unwrap_err().to_string();
    let without = Table { groups: None, ..t.clone() };
    for loss in RANKING {
        let text = fault(&without, &p(loss));
        assert!(text.contains("`group`") && text.contains(loss), "{text}");
    }
    let held_out = Some((0..200).map(|i| i % 2 == 0).collect());
    let text = fault(&Table { held_out: held_out.clone(), ..without.clone() }, &params(json!({ "metric": "ndcg" })));
    assert!(text.contains("`group`") && text.contains("ndcg"), "{text}");
    let text = fault(&Table { held_out, ..t.clone() }, &p("pairwise"));
    assert!(text.contains("`eval`") && text.contains("rows of the group"), "{text}");
    for bad in [-1.0, 0.5, 31.0] {
        let mut wrong = t.clone();
        let Wanted::Numbers(y) = &mut wrong.target else { unreachable!() };
        y[17] = bad;
        for loss in ["lambdarank", "xendcg"] {
            let text = fault(&wrong, &p(loss));
            assert!(text.contains("row 17") && text.contains("grades are whole numbers"), "{text}");
        }
        assert!(wrong.try_fit(&p("yetirank")).is_ok());
    }
    let short = Table { groups: Some(vec![1; 7]), ..t.clone() };
    assert!(fault(&short, &p("lambdarank")).contains("`group` has 7 rows"));
}

/// Proves that groups of one row, of equal grades, and one group of all rows are fitted.
#[test]
fn groups_at_the_edges_are_fitted() {
    for loss in RANKING {
        let t = table(3000, 3, loss, 16);
        let p = params(json!({ "loss": loss, "rounds": 3 }));
        let alone = Table { groups: Some((0..3000).collect()), ..t.clone() };
        let model = alone.fit(&p);
        assert!(raw(&model, &alone)[0].iter().all(|s| s.is_finite()), "{loss}");
        let one = Table { groups: Some(vec![0; 3000]), ..t.clone() };
        assert!(ordered(&one.fit(&p), &one) > 0.5, "{loss}");
        let equal = Table { target: Wanted::Numbers(vec![2.0; 3000]), ..t.clone() };
        assert!(raw(&equal.fit(&p), &equal)[0].iter().all(|s| s.is_finite()), "{loss}");
    }
}
