//! Position bias in fits: whatever the threads, the factors of a naive twin, near those that clicks were drawn by, and errors.

use serde_json::{Value, json};
use taiga_engine::dataset::positions::PositionLabels;
use taiga_engine::learners::boosting::BoostingParams;
use taiga_engine::learners::boosting::model::Model;
use taiga_testing::contract::{RANKING, table};
use taiga_testing::{Dice, Table, Wanted, params, raw};

/// Positions that documents of the simulation are shown at.
const PLACES: usize = 8;

/// What a position adds to the log odds of a click.
fn truth(place: usize) -> f64 {
    -0.4 * place as f64
}

/// Lists of documents shown in the order of a bad ranking that knows x1 alone, and clicks by x0 and the position.
fn clicks(lists: usize, seed: u64) -> Table {
    let mut dice = Dice::new(seed);
    let rows = lists * PLACES;
    let (mut x0, mut x1, mut y, mut positions) = (vec![0.0; rows], vec![0.0; rows], vec![0.0; rows], vec![0; rows]);
    for list in 0..lists {
        for k in 0..PLACES {
            (x0[list * PLACES + k], x1[list * PLACES + k]) = (dice.normal(), dice.normal());
        }
        let mut order: Vec<usize> = (list * PLACES..(list + 1) * PLACES).collect();
        order.sort_by(|a, b| x1[*b].total_cmp(&x1[*a]));
        for (place, row) in order.into_iter().enumerate() {
            positions[row] = place as u32;
            y[row] = dice.chance(1.0 / (1.0 + (-(x0[row] + truth(place))).exp())) as u8 as f64;
        }
    }
    let mut t = Table::numbers(vec![x0, x1], y);
    t.groups = Some((0..rows).map(|row| (row / PLACES) as u32).collect());
    t.positions = Some(positions);
    t
}

fn factors(model: &Model) -> Vec<f64> {
    model.params.position_factors.as_ref().expect("factors").factors.clone()
}

fn with(loss: &str, more: Value) -> BoostingParams {
    taiga_testing::params_with(json!({ "loss": loss, "rounds": 30, "learning_rate": 0.2 }), more)
}

/// Proves that threads leave no trace in a model's bytes, and a weight that all rows have none in its factors.
#[test]
fn threads_change_nothing() {
    for (case, loss) in RANKING.into_iter().enumerate() {
        let mut t = table(70_000, 6, loss, case as u64);
        t.positions = Some((0..t.rows()).map(|i| (i * 5 % 13) as u32).collect());
        t.held_out = t.groups.as_ref().map(|g| g.iter().map(|g| g % 6 == 0).collect());
        t.weight = (case % 2 == 0).then(|| (0..t.rows()).map(|i| 0.5 + (i % 7) as f64).collect());
        let sample = ["none", "goss", "mvs", "bernoulli"][case];
        // Nothing in units of weights.
        let base = json!({ "loss": loss, "rounds": 4, "policy": "depthwise", "l2": 0, "min_child_weight": 0 });
        let p = taiga_testing::params_with(base, json!({ "row_sample": sample }));
        let of = |n: u32| t.fit(&BoostingParams { n_threads: Some(n), ..p.clone() });
        let one = of(1);
        assert!([2, 3, 5].into_iter().all(|n| of(n).to_bytes() == one.to_bytes()), "{loss}");
        assert_eq!(factors(&one).len(), 13);
        let without = Table { positions: None, ..t.clone() }.fit(&p);
        assert!(without.trees != one.trees && without.params.position_factors.is_none(), "{loss}");
        if t.weight.is_none() {
            let doubled = Table { weight: Some(vec![2.0; t.rows()]), ..t.clone() }.fit(&p);
            assert!(factors(&doubled) == factors(&one), "{loss}");
        }
    }
}

/// Proves that factors come near what clicks were drawn by, and that the column which the bad ranking knew counts for less.
#[test]
fn factors_come_near_the_truth() {
    let t = clicks(6000, 1);
    for loss in RANKING {
        let p = with(loss, json!({ "rank_normalize": false, "depth": 3, "rounds": 100 }));
        let unbiased = t.fit(&p);
        let found = factors(&unbiased);
        // Of xendcg even a row without a click is wanted: its odds, and its factors, are nearer to each other.
        for place in (0..PLACES).filter(|_| loss != "xendcg") {
            let gap = found[place] - found[0] - truth(place);
            assert!(gap.abs() < 0.35, "{loss}: position {place}: {} for {}", found[place] - found[0], truth(place));
        }
        // Scores are to follow x0 alone: how much they follow x1.
        let follows = |model: &Model| {
            let scores = &raw(model, &t)[0];
            let mean = scores.iter().sum::<f64>() / scores.len() as f64;
            let with = |x: &[f64]| scores.iter().zip(x).map(|(s, x)| (s - mean) * x).sum::<f64>() / scores.len() as f64;
            with(&t.columns[1]).abs() / with(&t.columns[0]).abs()
        };
        let biased = Table { positions: None, ..t.clone() }.fit(&p);
        assert!(
            follows(&unbiased) < 0.15 && follows(&biased) > 2.0 * follows(&unbiased),
            "{loss}: {} {}",
            follows(&unbiased),
            follows(&biased)
        );
    }
}

/// Proves that factors are those of LightGBM's steps, pair by pair in f64: scores of each round are those of the rounds before it.
#[test]
fn factors_are_those_of_the_naive_twin() {
    let mut t = clicks(40, 3);
    let mut dice = Dice::new(5);
    t.weight = Some((0..t.rows()).map(|_| 0.5 + dice.unit()).collect());
    let (groups, positions, y, weight) = (t.groups.clone().unwrap(), t.positions.clone().unwrap(), t.y(), t.weight.clone().unwrap());
    let p = with("pairwise", json!({ "rounds": 12, "rank_normalize": false, "rank_position_l2": 0.05 }));
    let model = t.fit(&p);
    let mut naive = [0.0f64; PLACES];
    for round in 0..12 {
        let scores = match round {
            0 => vec![0.0; t.rows()],
            _ => raw(&model.clone().into_head(round).unwrap(), &t).remove(0),
        };
        let (mut first, mut second, mut size) = ([0.0; PLACES], [0.0; PLACES], [0.0; PLACES]);
        for i in 0..t.rows() {
            let own = positions[i] as usize;
            size[own] += weight[i];
            for j in (0..t.rows()).filter(|j| groups[*j] == groups[i] && y[*j] != y[i]) {
                let apart = scores[i] + naive[own] - scores[j] - naive[positions[j] as usize];
                let right = 1.0 / (1.0 + (-apart).exp());
                first[own] += weight[i] * if y[i] > y[j] { 1.0 - right } else { -right };
                second[own] += weight[i] * right * (1.0 - right);
            }
        }
        for k in 0..PLACES {
            naive[k] += 0.2 * (first[k] - naive[k] * 0.05 * size[k]) / (second[k] + 0.05 * size[k] + 0.001);
        }
    }
    let found = factors(&model);
    assert!(naive.iter().zip(&found).all(|(a, b)| (a - b).abs() < 1e-4), "{naive:?} {found:?}");
}

/// Proves that what a fit with fewer rounds finds is what early stopping keeps, and that positions of held-out rows alone are not told.
#[test]
fn early_stopping_keeps_the_factors_of_its_round() {
    let mut t = clicks(400, 7);
    t.held_out = t.groups.as_ref().map(|g| g.iter().map(|g| g % 4 == 0).collect());
    let held_out = t.held_out.clone().unwrap();
    let positions = t.positions.as_mut().unwrap();
    (0..held_out.len()).filter(|row| held_out[*row] && row % 5 == 0).for_each(|row| positions[row] = 99);
    let p = with("lambdarank", json!({ "rounds": 60, "early_stopping": 3, "metric": "ndcg" }));
    let stopped = t.fit(&p);
    let rounds = stopped.trees.len();
    assert!(rounds < 60);
    let told = &stopped.params.position_factors.as_ref().unwrap().labels;
    assert_eq!(*told, PositionLabels::Numbers((0..PLACES as i64).collect()));
    let shorter = t.fit(&with("lambdarank", json!({ "rounds": rounds, "metric": "ndcg" })));
    assert!(factors(&shorter) == factors(&stopped) && shorter.trees == stopped.trees);
    assert!(stopped.clone().into_head(1).unwrap().params.position_factors.is_none());
}

/// Proves that rows of weight 0 are as if they were not there, that statistics of categories may stand beside, and that a model is read
/// again as it was.
#[test]
fn rows_that_weigh_nothing_move_nothing() {
    let mut t = clicks(300, 9);
    let mut dice = Dice::new(10);
    t.weight = Some((0..t.rows()).map(|_| if dice.chance(0.3) { 0.0 } else { 1.0 }).collect());
    let weights = t.weight.clone().unwrap();
    let p = with("lambdarank", json!({ "rounds": 5 }));
    let (with, without) = (t.fit(&p), t.filter(|i| weights[i] > 0.0).fit(&p));
    assert!(with.trees == without.trees && factors(&with) == factors(&without));
    let again = Model::from_bytes(&with.to_bytes()).unwrap();
    assert!(again.to_bytes() == with.to_bytes() && factors(&again) == factors(&with));
    assert!(Model::from_json(&with.json_text().unwrap()).unwrap().to_bytes() == with.to_bytes());
}

/// Proves that errors say what is wrong with positions.
#[test]
fn errors_name_the_fault() {
    let t = clicks(20, 11);
    let fault = |t: &Table, p: &BoostingParams| t.try_fit(p).unwrap_err().to_string();
    let text = fault(&t, &params(json!({ "loss": "rmse", "rounds": 2 })));
    assert!(text.contains("`position`") && text.contains("rmse") && text.contains("lambdarank"), "{text}");
    let text = fault(&t, &params(json!({ "rounds": 2 })));
    assert!(text.contains("`position`") && text.contains("auto"), "{text}");
    let text = fault(&Table { groups: None, ..t.clone() }, &with("lambdarank", json!({})));
    assert!(text.contains("`group`"), "{text}");
    let text = fault(&Table { positions: Some(vec![0; 7]), ..t.clone() }, &with("lambdarank", json!({})));
    assert!(text.contains("`position` has 7 rows"), "{text}");
    let text = BoostingParams::from_json(&json!({ "rank_position_l2": -1.0 })).unwrap_err().to_string();
    assert!(text.contains("rank_position_l2"), "{text}");
    let recorded = t.fit(&with("lambdarank", json!({ "rounds": 2 }))).params;
    assert!(fault(&t, &recorded).contains("`position_factors`"));
    let huge = Table {
        target: Wanted::Numbers(t.y()),
        baseline: vec![(0..t.rows()).map(|i| if i % 2 == 0 { 3e38 } else { -3e38 }).collect()],
        ..t
    };
    assert!(factors(&huge.fit(&with("pairwise", json!({ "rounds": 3 })))).iter().all(|f| f.is_finite()));
}
