//! A fit whose rows lie on several GPUs has the bytes of one GPU's and of the CPU's. Where there is one GPU, it has several shards of the
//! rows, each with a stream of its own, that exchange as GPUs do. A forest whose trees grow on several GPUs likewise; and what several GPUs
//! predict is what the CPU does, to the last bit.
//!
//! A program of its own, in which tests with shards of one GPU have the GPUs for themselves: such shards wait for each other on one device,
//! and what else the process does there can keep one of them from beginning.

mod columns;
mod linear_leaves;
mod nccl;

use serde_json::json;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use taiga_core::learners::boosting as core;
use taiga_core::learners::forest as core_forest;
use taiga_engine::column::Column;
use taiga_engine::column::categories::CategoryColumn;
use taiga_engine::column::{Bits, Chunk, FeatureType, Values};
use taiga_engine::dataset::labels::Labels;
use taiga_engine::dataset::monitor::Measure;
use taiga_engine::dataset::{Input, Monitor, Quiet};
use taiga_engine::device::predict::{PlacedForest, PlacedPredictor};
use taiga_engine::device::{DeviceSet, device_info, open, open_all};
use taiga_engine::learners::boosting::model::apply::Predictor;
use taiga_engine::learners::boosting::{BoostingParams, fit};
use taiga_engine::learners::forest;
use taiga_engine::losses::LossKind;
use taiga_engine::shap::Terms;
use taiga_engine::{Error, Result};
use taiga_testing::contract::{RANKING, table};
use taiga_testing::forest::{awkward_table, input, params as forest_params};
use taiga_testing::gpu::shards::{TreeShares, shards};
use taiga_testing::gpu::{gpu, say};
use taiga_testing::random_fits::{self, RandomFit};
use taiga_testing::{Dice, POLICIES, Table, params_with};

/// Held by a test while it runs. Shards of one GPU need it for themselves: even a fit of few rows beside them, which is not shared, may keep
/// one of them from beginning, and the others then wait until a kernel traps.
static GPUS: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    GPUS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Panics unless all shards have the CPU's bytes.
fn compare(input: &Input<'_>, params: &BoostingParams, what: &str) {
    let on_cpu = BoostingParams { device: "cpu".into(), ..params.clone() };
    let whole = fit(input, &on_cpu, &Quiet).unwrap_or_else(|e| panic!("{what}: {e}")).to_bytes();
    for devices in shards() {
        let dealt = core::fit(input, params, &devices, &Quiet).unwrap_or_else(|e| panic!("{what}, {:?}: {e}", devices.gpus));
        assert!(dealt.to_bytes() == whole, "{what}: other bytes on {devices:?}");
    }
}

/// Proves equal bytes for few rows and for many, even and uneven, of fewer batches than there are shards and of more.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn any_number_of_rows() {
    gpu();
    let _alone = alone();
    say(&format!("GPUs: {}", device_info().devices.len()));
    for rows in [2, 1023, 1024, 1025, 2048, 2049, 3333, 40_000] {
        for policy in POLICIES {
            let t = table(rows, 6, "rmse", 1);
            compare(&t.input(), &params_with(json!({}), json!({ "policy": policy, "rounds": 6 })), &format!("{rows} rows, {policy}"));
        }
    }
}

/// Proves equal bytes, and equal errors, of fits drawn at random; `TAIGA_RANDOM_FITS` says how many.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn random_fits() {
    gpu();
    let _alone = alone();
    let (cases, mut fitted, mut dependent) = (random_fits::cases(150), 0, 0);
    let sets = shards();
    for case in 0..cases {
        let mut drawn = RandomFit::new(case);
        if case % 4 == 3 {
            drawn.params = drawn.with_dropouts(case);
        }
        let input = drawn.input(Column::from_f64);
        let whole = drawn.fit(&input, &BoostingParams { device: "cpu".into(), ..drawn.params.clone() });
        let devices = &sets[case as usize % sets.len()];
        let dealt = core::fit(&input, &drawn.params, devices, &Quiet).map(|model| model.to_bytes()).map_err(|e| e.to_string());
        assert!(whole == dealt, "case {case} on {:?}: {:?} {:?}; {:?}", devices.gpus, whole.err(), dealt.err(), drawn.params);
        fitted += u64::from(whole.is_ok());
        dependent += u64::from(whole.is_ok() && (drawn.table.groups.is_some() || drawn.params.loss == LossKind::Cox));
    }
    say(&format!("{fitted} of {cases} random fits gave models on several shards, {dependent} of them of rows that depend on each other"));
}

/// Ways in which the rows of a table may stand in groups: side by side; far apart, so that each group has rows of every shard; in groups of one
/// row; all in one group; side by side, in groups of which some are far longer than others.
const LAYOUTS: [fn(usize, usize) -> u32; 5] =
    [|i, _| (i / 37) as u32, |i, rows| (i % (rows / 50 + 1)) as u32, |i, _| i as u32, |_, _| 4, |i, _| (i as f64).sqrt() as u32 * 7];

/// Proves equal bytes of losses by group, however the groups' rows are dealt: with weights, positions, held-out groups that end a fit, rows that
/// are drawn, and with trees that are queued ahead.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn groups_of_rows() {
    gpu();
    let _alone = alone();
    let mut case = 0;
    for loss in RANKING {
        for (layout, group_of) in LAYOUTS.into_iter().enumerate() {
            case += 1;
            let rows = if layout == 3 { 2_500 } else { [3_333, 9_000, 30_000][case % 3] };
            let mut dice = Dice::new(case as u64);
            let mut t = table(rows, 6, loss, case as u64);
            t.groups = Some((0..rows).map(|i| group_of(i, rows)).collect());
            t.weight = (case % 3 == 0).then(|| (0..rows).map(|_| (dice.unit() * 6.0 - 3.0).exp2()).collect());
            t.positions = (case % 4 == 1).then(|| (0..rows).map(|_| dice.below(12) as u32).collect());
            let sample = ["none", "none", "goss", "none", "mvs", "bernoulli"][case % 6];
            let more = json!({ "loss": loss, "rounds": 6, "policy": POLICIES[case % 3],
                "row_sample": sample });
            compare(&t.input(), &params_with(json!({}), more.clone()), &format!("case {case}: {more}, layout {layout}"));
            if layout != 3 {
                let group = |i: usize| t.groups.as_ref().map_or(0, |groups| groups[i]);
                t.held_out = Some((0..rows).map(|i| group(i) % 4 == 1).collect());
                let more = json!({ "loss": loss, "rounds": 20, "early_stopping": 2, "learning_rate": 0.9, "policy": POLICIES[case % 3],
                    "eval_train": case % 2 == 0 });
                compare(&t.input(), &params_with(json!({}), more.clone()), &format!("case {case}: {more}, layout {layout}"));
            }
        }
    }
    for (rows, groups) in [(260_000, 120), (100_000, 9)] {
        let mut t = table(rows, 12, "lambdarank", 3);
        t.groups = Some((0..rows).map(|i| (i / groups) as u32).collect());
        for policy in POLICIES {
            let p = params_with(json!({ "loss": "lambdarank", "rounds": 12 }), json!({ "policy": policy }));
            compare(&t.input(), &p, &format!("{rows} rows, {policy}"));
        }
    }
}

/// Proves equal bytes of Cox's likelihood with one stratum and many, with ties, weights and held-out rows, and with trees that are queued ahead.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn rows_by_time() {
    gpu();
    let _alone = alone();
    for case in 0..14 {
        let rows = [3_000, 500, 20_001, 40, 120_000][case % 5];
        let mut t = table(rows, 6, "cox", case as u64);
        let mut dice = Dice::new(case as u64);
        t.weight = (case % 3 == 0).then(|| (0..rows).map(|_| (dice.unit() * 20.0 - 10.0).exp2()).collect());
        t.held_out = (case % 4 == 1).then(|| (0..rows).map(|_| dice.chance(0.2)).collect());
        t.groups = (case % 2 == 1).then(|| (0..rows).map(|i| LAYOUTS[case / 2 % 5](i, rows)).collect());
        let sample = ["none", "none", "mvs", "bernoulli"][case % 4];
        let more = json!({ "loss": "cox", "rounds": 9, "policy": POLICIES[case % 3], "min_child_weight": 0, "l2": 0.1, "depth": 5,
            "row_sample": sample });
        compare(&t.input(), &params_with(json!({}), more.clone()), &format!("case {case}: {rows} rows, {more}"));
    }
}

/// Proves equal bytes where statistics of categories are of several permutations, so that there are several sets of scores, with and without
/// positions, whose factors only the first set moves.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn several_sets_of_dependent_scores() {
    gpu();
    let _alone = alone();
    let rows = 9_000;
    let labels: Vec<i64> = (0..rows as i64).map(|i| i * 7919 % 61 % 23).collect();
    let column = CategoryColumn::integers("c", &[rows], |_, row| Some(labels[row])).expect("few rows");
    for (case, loss) in ["lambdarank", "xendcg", "yetirank", "cox", "lambdarank"].into_iter().enumerate() {
        let mut t = table(rows, 3, loss, 78);
        t.positions = (case == 4).then(|| (0..rows).map(|i| (i % 11) as u32).collect());
        let mut input = t.input();
        input.features.push(Column::categorical(&column));
        let p = params_with(json!({ "loss": loss, "rounds": 6 }), json!({ "depth": 4, "permutations": 3 }));
        compare(&input, &p, &format!("{loss} with categories, case {case}"));
    }
}

/// Prints what a tree of a ranking takes with one GPU and with all: groups of 120 rows, side by side and far apart.
#[test]
#[ignore = "prints times; asserts nothing"]
fn timing_of_groups() {
    gpu();
    let _alone = alone();
    let there = device_info().devices.len();
    for (rows, features, loss) in [(1_000_000, 136, "lambdarank"), (4_000_000, 28, "lambdarank"), (4_000_000, 28, "rmse")] {
        let mut t = table(rows, features, loss, 1);
        for far_apart in [false, true] {
            if loss != "rmse" {
                let far = |i: usize| if far_apart { i % (rows / 120) } else { i / 120 };
                t.groups = Some((0..rows).map(|i| far(i) as u32).collect());
            } else if far_apart {
                continue;
            }
            for device in if there > 1 { vec!["cuda:0", "cuda:all"] } else { vec!["cuda:0"] } {
                let seconds = [20, 220].map(|rounds| {
                    let p = params_with(json!({ "loss": loss, "rounds": rounds, "depth": 6 }), json!({ "device": device }));
                    let time = |_| {
                        let start = Instant::now();
                        t.fit(&p);
                        start.elapsed().as_secs_f64()
                    };
                    (0..3).map(time).fold(f64::INFINITY, f64::min)
                });
                let milliseconds = (seconds[1] - seconds[0]) * 5.0;
                say(&format!(
                    "{loss} {rows} x {features}, far apart: {far_apart}, {device} of {there}: {milliseconds:.3} ms a tree, {seconds:?} s"
                ));
            }
        }
    }
}

/// Proves equal bytes of trees that grow whole on the devices and are queued ahead: many rounds, several blocks of features, few bins and
/// many, unit hessians and counts, statistics that become wide, deep trees.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn trees_that_are_queued_ahead() {
    gpu();
    let _alone = alone();
    for (rows, features, more) in [
        (260_000, 28, json!({})),
        (260_000, 28, json!({ "policy": "depthwise" })),
        (50_000, 6, json!({ "loss": "rmse", "policy": "depthwise", "min_data_in_leaf": 20 })),
        (50_000, 6, json!({ "loss": "rmse", "min_data_in_leaf": 20, "depth": 9 })),
        (20_000, 70, json!({ "depth": 4 })),
        (20_000, 70, json!({ "depth": 8, "policy": "depthwise", "min_data_in_leaf": 3 })),
        (20_000, 5, json!({ "bins": 2, "depth": 3 })),
        (9_000, 12, json!({ "depth": 12, "policy": "depthwise", "min_child_weight": 0, "rounds": 5 })),
        (30_000, 5, json!({ "row_sample": "bernoulli", "row_fraction": 0.4, "policy": "depthwise" })),
        (30_000, 5, json!({ "loss": "mae", "policy": "depthwise", "rounds": 5 })),
        (30_000, 5, json!({ "loss": "poisson" })),
    ] {
        let loss = more.get("loss").and_then(|l| l.as_str()).unwrap_or("logloss").to_string();
        let t = table(rows, features, &loss, 3);
        let p = params_with(json!({ "rounds": 12, "loss": loss }), more.clone());
        compare(&t.input(), &p, &format!("{rows} x {features}: {more}"));
    }
    let mut wide = table(30_000, 5, "rmse", 4);
    let mut dice = Dice::new(4);
    wide.weight = Some((0..30_000).map(|_| (dice.unit() * 40.0 - 20.0).exp2()).collect());
    for policy in POLICIES {
        compare(&wide.input(), &params_with(json!({ "rounds": 8 }), json!({ "policy": policy })), &format!("wide, {policy}"));
    }
}

/// Proves equal bytes with noise on scores, which is in units of all shards' derivatives, and with trees that leave the scores for a while.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn noise_and_dropouts() {
    gpu();
    let _alone = alone();
    let mut wide = table(9_000, 6, "rmse", 9);
    let mut dice = Dice::new(9);
    wide.weight = Some((0..9_000).map(|_| (dice.unit() * 40.0 - 20.0).exp2()).collect());
    for more in [
        json!({ "random_strength": 1.0 }),
        json!({ "random_strength": 2.0, "extra_trees": true, "row_sample": "mvs" }),
        json!({ "feature_weights": { "x0": 0.1, "x1": 0, "x2": 1.7 } }),
        json!({ "boosting": "dart", "drop_rate": 0.5, "skip_drop": 0.1 }),
        json!({ "boosting": "dart", "drop_rate": 1.0, "skip_drop": 0.3, "random_strength": 0.5, "row_sample": "goss", "depth": 9 }),
    ] {
        for policy in POLICIES {
            let p = params_with(json!({ "rounds": 6, "policy": policy }), more.clone());
            compare(&wide.input(), &p, &format!("weights far apart, {policy}, {more}"));
            compare(&table(3_333, 6, "rmse", 2).input(), &p, &format!("3,333 rows, {policy}, {more}"));
        }
    }
}

/// Proves equal bytes for classes, and where held-out rows, all of them on one GPU among others, decide when a fit ends.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn classes_and_held_out_rows() {
    gpu();
    let _alone = alone();
    let codes = table(30_000, 6, "rmse", 5).y().iter().map(|y| (*y * 0.7 + 2.0).clamp(0.0, 3.0) as u32).collect();
    let several = Table::classes(table(30_000, 6, "rmse", 5).columns, codes, Labels::Integer((0..4).collect()));
    for policy in POLICIES {
        compare(&several.input(), &params_with(json!({ "rounds": 5 }), json!({ "policy": policy })), &format!("classes, {policy}"));
        for (kind, held_out) in [|i: usize| i.is_multiple_of(5), |i| i < 4_000, |i| i > 29_000].into_iter().enumerate() {
            let mut two = table(30_000, 6, "logloss", 6);
            two.held_out = Some((0..30_000).map(held_out).collect());
            let more = json!({ "policy": policy, "early_stopping": 2, "rounds": 30, "learning_rate": 0.8, "eval_train": kind == 1 });
            compare(&two.input(), &params_with(json!({ "loss": "logloss" }), more), &format!("held out {kind}, {policy}"));
        }
    }
}

/// Proves equal bytes where columns come in chunks that no shard begins at, with nulls, of integers and Booleans.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn columns_in_chunks() {
    gpu();
    let _alone = alone();
    let rows = 5_000;
    let t = table(rows, 2, "rmse", 7);
    let bits: Vec<u8> = (0..rows as u32).map(|i| ((i * 37) >> 3) as u8).collect();
    let whole: Vec<i32> = (0..rows as i32).map(|i| i * 7919 % 1000).collect();
    let chunk = |from: usize, to: usize| Chunk::new(Values::I32(&whole[from..to]), Some(Bits::new(&bits, 3 + from, to - from)));
    let mut input = t.input();
    input.features.push(Column::new("i", FeatureType::Numeric, vec![chunk(0, 1), chunk(1, 2047), chunk(2047, 2050), chunk(2050, rows)]));
    input.features.push(Column::new("b", FeatureType::Numeric, vec![Chunk::new(Values::Bool(Bits::new(&bits, 5, rows)), None)]));
    for policy in POLICIES {
        compare(&input, &params_with(json!({ "rounds": 5 }), json!({ "policy": policy })), policy);
    }
}

/// Asks to stop after so many looks, or after a round.
struct StopsAfter {
    looks: AtomicU32,
    round: u32,
}

impl Monitor for StopsAfter {
    fn interrupted(&self) -> bool {
        self.looks.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| Some(left.saturating_sub(1))) == Ok(0)
    }

    fn after_round(&self, done: u32, _: &[Measure]) -> Result<bool> {
        if done < self.round { Ok(false) } else { Err(Error::Interrupted) }
    }
}

/// Proves that a fit ends when it is asked to, wherever it is, and that the next one has the GPUs.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn a_fit_ends_when_asked_to() {
    gpu();
    let _alone = alone();
    let t = table(40_000, 6, "rmse", 8);
    for policy in POLICIES {
        let p = params_with(json!({ "rounds": 12 }), json!({ "policy": policy }));
        for (looks, round) in [(0, 99), (1, 99), (7, 99), (40, 9), (99, 1), (99, 2), (99, 3), (999, 4), (999, 11)] {
            for devices in shards() {
                let ended = core::fit(&t.input(), &p, &devices, &StopsAfter { looks: AtomicU32::new(looks), round });
                // Whole trees are not looked away from.
                let goes_on = round > 12 && ended.is_ok();
                assert!(goes_on || ended.is_err_and(|e| e == Error::Interrupted), "{policy}: goes on after {looks} looks, round {round}");
            }
        }
    }
    compare(&t.input(), &params_with(json!({}), json!({ "rounds": 3 })), "after fits that were ended");
    let t = table(40_000, 6, "lambdarank", 8);
    for (looks, round) in [(1, 99), (99, 2), (99, 3), (999, 4)] {
        for devices in shards() {
            let p = params_with(json!({ "rounds": 12 }), json!({ "loss": "lambdarank", "policy": POLICIES[round as usize % 3] }));
            let ended = core::fit(&t.input(), &p, &devices, &StopsAfter { looks: AtomicU32::new(looks), round });
            assert!(
                (round > 12 && ended.is_ok()) || ended.is_err_and(|e| e == Error::Interrupted),
                "goes on after {looks} looks, round {round}"
            );
        }
    }
}

/// Proves that names of several GPUs are looked up, that one that is there serves for all, and what is told where one is not.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn names_of_several_gpus() {
    gpu();
    let _alone = alone();
    let there = device_info().devices.len();
    let all = open_all("cuda:all").expect("all that there are");
    assert_eq!(all, DeviceSet::Cuda(taiga_engine::device::Gpus::Numbers((0..there as u32).collect())));
    assert!(open_all("cuda:0,4000").is_err_and(|e| e.to_string().contains("cuda:4000")));
    assert!(open_all("cuda:0,0").is_err_and(|e| e.to_string().contains("cuda:0,0")));
    assert!(open("cuda:0,1").is_err_and(|e| e.to_string().contains("write \"cuda:0\"")));
    let t = table(5_000, 4, "rmse", 9);
    let on = |device: &str| fit(&t.input(), &params_with(json!({ "rounds": 4 }), json!({ "device": device })), &Quiet);
    assert!(on("cuda:all").expect("a fit").to_bytes() == on("cpu").expect("a fit").to_bytes());
    assert!(on("cuda:0,4000").is_err_and(|e| e.to_string().contains("cuda:4000")));
    if there > 1 {
        assert!(on("cuda:1,0").expect("a fit").to_bytes() == on("cpu").expect("a fit").to_bytes());
    }
}

/// Proves equal bytes of forests whose trees are dealt to GPUs, of every kind of target, splitter and bootstrap, of fewer trees than there
/// are GPUs and of more than grow at a time; and that one is ended when it is asked to.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn forests() {
    gpu();
    let _alone = alone();
    let (mut dice, mut case) = (Dice::new(31), 0);
    for classes in [0, 2, 3, 40] {
        for splitter in ["histogram", "exact", "random"] {
            for trees in [1, 2, 7, 40] {
                case += 1;
                let table = awkward_table(&mut dice, 1_500, 5, classes, case % 2 == 0);
                let more = json!({ "trees": trees, "splitter": splitter, "bootstrap": case % 5 != 0, "seed": case });
                let p = forest_params(more.clone());
                let on_cpu = forest::ForestParams { device: "cpu".into(), ..p.clone() };
                let whole = forest::fit(&input(&table), &on_cpu, &Quiet).unwrap_or_else(|e| panic!("{more}: {e}")).to_bytes();
                for set in shards() {
                    let dealt = core_forest::fit(&input(&table), &p, &TreeShares::new(&set.gpus), &Quiet);
                    let dealt = dealt.unwrap_or_else(|e| panic!("{more}, {:?}: {e}", set.gpus));
                    assert!(dealt.to_bytes() == whole, "{more}: other bytes on {:?}", set.gpus);
                }
            }
        }
    }
    let table = awkward_table(&mut dice, 60_000, 8, 2, false);
    let p = forest_params(json!({ "trees": 400 }));
    for looks in [0, 3, 60] {
        let ends = StopsAfter { looks: AtomicU32::new(looks), round: u32::MAX };
        let ended = core_forest::fit(&input(&table), &p, &TreeShares::new(&shards()[0].gpus), &ends);
        assert_eq!(ended.err(), Some(Error::Interrupted), "after {looks} looks");
    }
}

/// Proves that all GPUs together fit a forest and predict with the CPU's bits: scores, leaves, stages and explanations, of many rows and few,
/// from chunks.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn predictions() {
    gpu();
    let _alone = alone();
    let rows = 300_001;
    let t = table(rows, 4, "rmse", 12);
    let mut input = t.input();
    let whole = t.columns[0].clone();
    let pieces = [0..100_000, 100_000..100_001, 100_001..rows].map(|rows| Chunk::new(Values::F64(&whole[rows]), None));
    input.features[0] = Column::new(input.features[0].name(), FeatureType::Numeric, pieces.into());
    let boosted = fit(&input, &params_with(json!({ "device": "cpu" }), json!({ "rounds": 5 })), &Quiet).expect("a model");
    let (own, bits) =
        (Arc::new(Predictor::new(boosted)), |scores: Vec<Vec<f64>>| scores.concat().into_iter().map(f64::to_bits).collect::<Vec<_>>());
    let grow_on = |device: &str| {
        let p = forest_params(json!({ "trees": 9, "depth": 6, "device": device }));
        let input = forest::Input { features: input.features.clone(), target: t.input().target, target_name: "y".into(), weight: None };
        forest::fit(&input, &p, &Quiet).expect("a forest")
    };
    let grown = grow_on("cpu");
    assert!(grow_on("cuda:all").to_bytes() == grown.to_bytes());
    let grown = Arc::new(forest::Predictor::new(grown));
    let (placed, placed_forest) = (PlacedPredictor::new("cuda:all", own.clone()), PlacedForest::new("cuda:all", grown.clone()));
    let (placed, placed_forest) = (placed.expect("a model on GPUs"), placed_forest.expect("a forest on GPUs"));
    let shap = Arc::new(own.shap_values(None).expect("means"));
    let explainer = placed.copy().expect("copies").explainer(&own, shap.clone(), Terms::Interactions).expect("an explainer");
    for (start, count) in [(0, 0), (7, 1), (0, 70_000), (99_990, 140_000), (0, rows)] {
        let columns: Vec<Column<'_>> = input.features.iter().map(|column| column.slice(start, count)).collect();
        let what = format!("{count} rows from {start} on");
        let bound = own.bind(&columns).expect("columns");
        assert!(bits(placed.raw(&bound).expect("scores")) == bits(own.raw(&bound)), "{what}: scores");
        assert!(placed.leaves(&bound).expect("leaves") == own.leaves(&bound), "{what}: leaves");
        assert!(bits(placed.staged(&bound).expect("stages")) == bits(own.staged(&bound)), "{what}: stages");
        let (dealt, alone) = (explainer.explain(&bound).expect("explanations"), own.explain(&shap, &bound, Terms::Interactions));
        assert!(bits(dealt.values.concat()) == bits(alone.values.concat()), "{what}: explanations");
        assert!(bits(dealt.interactions.concat()) == bits(alone.interactions.concat()), "{what}: interactions");
        let bound = grown.bind(&columns).expect("columns");
        assert!(bits(placed_forest.predict(&bound).expect("predictions")) == bits(grown.predict(&bound)), "{what}: a forest's");
        assert!(placed_forest.leaves(&bound).expect("leaves") == grown.leaves(&bound), "{what}: a forest's leaves");
    }
}

/// Proves that fits on several GPUs end, with equal bytes, while other threads fit, predict and come and go on the same GPUs.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn beside_other_work_on_the_same_gpus() {
    gpu();
    let _alone = alone();
    let there = device_info().devices.len();
    let t = table(60_000, 12, "rmse", 11);
    let on = |device: &str, rounds: u32| {
        let p = params_with(json!({ "rounds": rounds }), json!({ "device": device, "policy": POLICIES[rounds as usize % 3] }));
        fit(&t.input(), &p, &Quiet).expect("a fit").to_bytes()
    };
    let wanted: Vec<Vec<u8>> = (10..16).map(|rounds| on("cpu", rounds)).collect();
    let done = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for device in 0..there {
            let (done, on, wanted) = (&done, &on, &wanted);
            scope.spawn(move || {
                let mut rounds = 10;
                while done.load(Ordering::SeqCst) == 0 {
                    assert!(on(&format!("cuda:{device}"), rounds) == wanted[rounds as usize - 10], "one GPU");
                    rounds = 10 + (rounds - 9) % 6;
                }
            });
        }
        for turn in 0..8 {
            for (rounds, wanted) in (10..16).zip(&wanted) {
                assert!(on("cuda:all", rounds) == *wanted, "all GPUs, turn {turn}");
            }
        }
        done.store(1, Ordering::SeqCst);
    });
    say(&format!("48 fits on {there} GPUs beside others on each"));
}
