//! Fits whose rows lie in several processes: each has the features of its rows, and comes to the bytes of one fit of all rows.

use std::time::Duration;
use taiga_engine::collective::{Collective, local};
use taiga_engine::column::Column;
use taiga_engine::dataset::{Input, OwnRows, Quiet};
use taiga_engine::learners::boosting::{BoostingParams, FitOptions, fit, fit_with};
use taiga_engine::{Error, Result};
use taiga_testing::continued::{EndedTogether, Kept, longer};
use taiga_testing::random_fits::{RandomFit, cases};
use taiga_testing::together::{deal, over_tcp, own_columns};
use taiga_testing::{Dice, Table, params, table};

/// Returns the table as a process has it: all of its target and categories, and the numbers of its own rows.
fn of_shard<'a>(input: &'a Input<'a>, rows: std::ops::Range<usize>) -> Input<'a> {
    input.with_features(own_columns(&input.features, &rows))
}

/// Fits as one of the processes between which `end` is.
fn fit_shard(input: &Input<'_>, params: &BoostingParams, end: &dyn Collective, ends: &[usize]) -> Result<Vec<u8>> {
    fit_shard_with(input, params, &FitOptions::default(), end, ends)
}

/// Fits as [`fit_shard`] does, from what the options give.
fn fit_shard_with(
    input: &Input<'_>,
    params: &BoostingParams,
    options: &FitOptions<'_>,
    end: &dyn Collective,
    ends: &[usize],
) -> Result<Vec<u8>> {
    let first = end.rank().checked_sub(1).map_or(0, |before| ends[before]);
    let rows = first..ends[end.rank()];
    let own = OwnRows { collective: end, first, count: rows.len() };
    // Threads are each process's own: if these shared those of one size, some would wait for others that wait for a thread.
    let params = BoostingParams { n_threads: Some(1 + (end.rank() > 0) as u32), ..params.clone() };
    let options = FitOptions { own: Some(own), ..*options };
    fit_with(&of_shard(input, rows), &params, &options, &Quiet).map(|model| model.to_bytes())
}

/// Fits in as many threads as there are ends, which stand for processes.
fn fit_together<C: Collective + Send>(input: &Input<'_>, params: &BoostingParams, made: Vec<C>, ends: &[usize]) -> Vec<Result<Vec<u8>>> {
    let options = vec![FitOptions::default(); made.len()];
    fit_together_with(input, params, &options, made, ends)
}

/// Fits as [`fit_together`] does, each from what its options give.
fn fit_together_with<C: Collective + Send>(
    input: &Input<'_>,
    params: &BoostingParams,
    options: &[FitOptions<'_>],
    made: Vec<C>,
    ends: &[usize],
) -> Vec<Result<Vec<u8>>> {
    std::thread::scope(|scope| {
        let of_end = |(end, options): (C, _)| scope.spawn(move || fit_shard_with(input, params, options, &end, ends));
        let threads: Vec<_> = made.into_iter().zip(options).map(of_end).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

/// Proves over random fits that 1, 2, 3 and 5 processes, however rows are dealt to them, come to the bytes of one fit, or to its error.
#[test]
fn rows_of_a_fit_may_lie_in_several_processes() {
    let mut same = [0; 6];
    for seed in 0..cases(40) {
        let mut case = RandomFit::new(seed);
        if seed % 4 == 3 {
            case.params = case.in_order();
        }
        let input = case.input(Column::from_f64);
        let whole = case.fit(&input, &BoostingParams { device: "cpu".into(), ..case.params.clone() });
        for world in [1, 2, 3, 5] {
            let ends = deal(input.target.rows(), world, &mut Dice::new(seed * 7 + world as u64));
            for (rank, made) in fit_together(&input, &case.params, local(world), &ends).into_iter().enumerate() {
                match (made, &whole) {
                    (Ok(made), Ok(whole)) => {
                        assert!(made == *whole, "seed {seed}, rank {rank} of {ends:?}: other bytes under {:?}", case.params);
                        same[world] += 1;
                    }
                    (Err(error), Err(whole)) => {
                        let error = error.to_string();
                        assert!(error == *whole || error.contains("collective"), "seed {seed}: {error}, alone {whole}");
                    }
                    (made, _) => panic!("seed {seed}, rank {rank} of {ends:?}: {made:?} under {:?}", case.params),
                }
            }
        }
    }
    println!("equal fits by the number of processes: {same:?}");
    assert!(same[5] > 0);
}

/// Proves the same of leaves that are linear functions, whose sums are over the values of all rows; also where a fit goes on from a model.
#[test]
fn linear_leaves_may_have_rows_in_several_processes() {
    let (mut same, mut functions, mut continued) = (0, 0, 0);
    for seed in 0..cases(60) {
        let case = RandomFit::new(seed);
        let input = case.input(Column::from_f64);
        let params = BoostingParams { rounds: Some(4), device: "cpu".into(), ..case.with_linear_leaves() };
        let Ok(whole) = fit(&input, &params, &Quiet) else { continue };
        functions += usize::from(!whole.linear.is_empty());
        let whole = whole.to_bytes();
        let first = fit(&input, &BoostingParams { rounds: Some(2), ..params.clone() }, &Quiet).expect("a fit of fewer rounds");
        let rest = BoostingParams { rounds: Some(4 - first.rounds() as u32), ..params.clone() };
        let from = FitOptions { init_model: Some(&first), ..FitOptions::default() };
        for world in [2, 3, 5] {
            let ends = deal(input.target.rows(), world, &mut Dice::new(seed * 3 + world as u64));
            for made in fit_together(&input, &params, local(world), &ends) {
                assert!(made.expect("a fit") == whole, "seed {seed}, {ends:?}: other bytes under {params:?}");
                same += 1;
            }
            for made in fit_together_with(&input, &rest, &vec![from; world], local(world), &ends) {
                match made {
                    Ok(made) => {
                        assert!(made == whole, "seed {seed}, {ends:?}: other bytes from a model under {rest:?}");
                        continued += 1;
                    }
                    Err(error) => assert!(error.to_string().contains("cat_method=\"ctr\""), "seed {seed}: {error}"),
                }
            }
        }
    }
    println!("{same} equal models, {continued} of them from a model; {functions} fits with functions");
    assert!(same > 200 && functions > 15 && continued > 100, "{same} {functions} {continued}");
}

/// Proves over random fits that one that is ended after a snapshot, by one, two, three or five processes, goes on by another number of them to
/// the bytes of a fit that was never ended, and then by yet another.
#[test]
fn a_fit_that_is_ended_goes_on_in_another_number_of_processes() {
    let mut tried = EndedTogether::default();
    for seed in 0..cases(30) {
        let case = RandomFit::new(seed);
        let input = case.input(Column::from_f64);
        let params = longer(&case);
        let Ok(whole) = case.fit(&input, &params) else { continue };
        let (every, last) = (1 + (seed % 3) as u32, 1 + (seed / 3 % 3) as u32);
        tried.try_on((input.target.rows(), seed), (every, last), &whole, |ends, kept| {
            let options: Vec<FitOptions<'_>> =
                kept.iter().map(|kept| FitOptions { snapshots: Some(kept), ..FitOptions::default() }).collect();
            fit_together_with(&input, &params, &options, local(kept.len()), ends)
        });
    }
    tried.tell();
}

/// Proves that what was saved of other rows or parameters is an error in all, whoever has the rows that differ, and that processes are told of
/// which one keeps a state and others don't.
#[test]
fn what_was_saved_of_another_fit_is_refused_in_all() {
    let (t, ends) = (table(3_000, 6), [1_000, 1_700, 3_000]);
    let params = params(serde_json::json!({ "rounds": 6 }));
    let fits = |t: &Table, kept: [Option<Kept>; 3]| -> Vec<String> {
        let options = kept.each_ref().map(|kept| FitOptions { snapshots: kept.as_ref().map(|k| k as _), ..FitOptions::default() });
        let made = fit_together_with(&t.input(), &params, &options, local(3), &ends);
        made.into_iter().map(|made| made.err().map(|error| error.to_string()).unwrap_or_default()).collect()
    };
    let saved = {
        let first = Kept::new(2, None, 1);
        let options = FitOptions { snapshots: Some(&first), ..FitOptions::default() };
        assert_eq!(fit_with(&t.input(), &params, &options, &Quiet).err(), Some(Error::Interrupted));
        first.bytes()
    };
    let kept = |saved: &Option<Vec<u8>>| Some(Kept::new(2, saved.clone(), u32::MAX));
    let none = || Some(Kept::new(2, None, u32::MAX));
    assert_eq!(fits(&t, [kept(&saved), none(), none()]), ["", "", ""]);
    // What others have counts for nothing.
    assert_eq!(fits(&t, [none(), kept(&Some(vec![1, 2, 3])), none()]), ["", "", ""]);
    let mut others = t.clone();
    others.columns[0][2_999] += 1e-9;
    let errors = fits(&others, [kept(&saved), none(), none()]);
    assert!(errors[0].contains("it is of a fit of other rows"), "{errors:?}");
    assert!(errors[1].contains("collective") && errors[2].contains("collective"), "{errors:?}");
    let damaged = saved.map(|mut bytes| {
        bytes[60] ^= 4;
        bytes
    });
    assert!(fits(&t, [kept(&damaged), none(), none()])[0].contains("damaged"));
    for error in fits(&t, [none(), None, none()]) {
        assert!(error.contains("the parameters of rank 1 differ from those of rank 0: `snapshot_every` is null"), "{error}");
    }
}

/// Proves over random fits that processes go on from a model to the bytes of one fit of all rounds, or say what one says, and that they notice
/// where the model is not the same in all.
#[test]
fn processes_go_on_from_a_model() {
    let mut same = 0;
    for seed in 0..cases(30) {
        let case = RandomFit::new(seed);
        let input = case.input(Column::from_f64);
        let all = longer(&case);
        let Ok(whole) = case.fit(&input, &all) else { continue };
        let fewer = BoostingParams { rounds: Some(1 + (seed % 5) as u32), ..all.clone() };
        let first = fit(&input, &fewer, &Quiet).expect("a fit of fewer rounds");
        let rest = BoostingParams { rounds: Some(all.rounds() - first.rounds() as u32), ..all };
        let options = FitOptions { init_model: Some(&first), ..FitOptions::default() };
        for world in [2, 3, 5] {
            let ends = deal(input.target.rows(), world, &mut Dice::new(seed * 5 + world as u64));
            for (rank, made) in fit_together_with(&input, &rest, &vec![options; world], local(world), &ends).into_iter().enumerate() {
                match made {
                    Ok(made) => {
                        assert!(made == whole, "seed {seed}, rank {rank} of {ends:?}: other bytes under {rest:?}");
                        same += 1;
                    }
                    Err(error) => {
                        let error = error.to_string();
                        let known = ["cat_method=\"ctr\"", "collective"];
                        assert!(known.iter().any(|text| error.contains(text)), "seed {seed}: {error}");
                    }
                }
            }
        }
    }
    println!("{same} models");
    assert!(same > 50, "{same}");
    let (t, given) = (table(2_000, 3), params(serde_json::json!({ "rounds": 2 })));
    let models = [1, 2].map(|seed| fit(&t.input(), &BoostingParams { seed, ..given.clone() }, &Quiet).expect("a fit"));
    let models = models.each_ref().map(|model| FitOptions { init_model: Some(model), ..FitOptions::default() });
    let more = BoostingParams { seed: 1, ..given };
    assert!(models[0].init_model.map(|m| m.to_bytes()) != models[1].init_model.map(|m| m.to_bytes()));
    for made in fit_together_with(&t.input(), &more, &models, local(2), &[900, 2_000]) {
        let error = made.expect_err("models that differ").to_string();
        assert!(error.contains("the parameters of rank 1 differ from those of rank 0: `init_model`"), "{error}");
    }
}

/// Proves that a leaf's columns are measured alike where one process alone has the first row, the least and the largest value of a column, or the
/// largest derivatives.
#[test]
fn linear_leaves_are_measured_alike_in_all_processes() {
    let mut t = table(4_000, 12);
    t.columns[0].iter_mut().enumerate().for_each(|(row, x)| *x = if row < 3_000 { f64::NAN } else { 1e9 + *x });
    t.columns[1][3_999] = 1e200;
    t.columns[2][0] = -1e12;
    t.weight = Some((0..4_000).map(|row| if row % 1_999 == 5 { 1e6 } else { 1.0 }).collect());
    let input = t.input();
    for policy in ["symmetric", "depthwise", "leafwise"] {
        let params = params(serde_json::json!({ "rounds": 5, "leaf": "linear", "policy": policy, "border_method": "uniform" }));
        let whole = fit(&input, &params, &Quiet).expect("a fit");
        assert!(!whole.linear.is_empty());
        for ends in [vec![3_500, 4_000], vec![1, 1, 1_024, 3_999, 4_000], vec![0, 2_048, 4_000]] {
            for made in fit_together(&input, &params, local(ends.len()), &ends) {
                assert!(made.expect("a fit") == whole.to_bytes(), "{policy}, {ends:?}");
            }
        }
    }
}

/// Proves the same where what some processes have is nowhere in others': held-out rows, missing values, values far from all others.
#[test]
fn what_one_process_alone_has_counts_in_all() {
    let mut t = table(4_000, 11);
    t.held_out = Some((0..4_000).map(|row| row < 500 && row % 3 == 0).collect());
    t.columns[0][3_999] = f64::NAN;
    t.columns[1][3_998] = 1e300;
    let input = t.input();
    for loss in ["mae", "rmse", "quantile"] {
        for bins in [16, 256] {
            let given = serde_json::json!({ "rounds": 5, "loss": loss, "bins": bins, "early_stopping": 2, "border_sample": 300 });
            let params = params(given);
            let whole = fit(&input, &params, &Quiet).expect("a fit").to_bytes();
            for ends in [vec![1_500, 4_000], vec![499, 500, 500, 3_999, 4_000]] {
                for made in fit_together(&input, &params, local(ends.len()), &ends) {
                    assert!(made.expect("a fit") == whole, "{loss} in {bins} bins, {ends:?}");
                }
            }
        }
    }
}

/// Proves the same over the network, with rounds that are not told, and with large and small tables.
#[test]
fn rows_of_a_fit_may_lie_behind_a_network() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").to_string();
    for (rows, given) in [
        (9_000, serde_json::json!({ "rounds": 5 })),
        (700, serde_json::json!({})),
        (12, serde_json::json!({ "rounds": 3 })),
        (5_000, serde_json::json!({ "rounds": 4, "leaf": "linear", "policy": "leafwise" })),
    ] {
        let (t, params) = (table(rows, 5), params(given));
        let input = t.input();
        let whole = fit(&input, &params, &Quiet).expect("a fit").to_bytes();
        for world in [2, 3] {
            let ends = deal(rows, world, &mut Dice::new(rows as u64));
            for made in fit_together(&input, &params, over_tcp(world, &address, Duration::from_secs(20)), &ends) {
                assert!(made.expect("a fit") == whole, "{rows} rows in {ends:?}");
            }
        }
    }
}

/// Proves that processes that don't make the same fit are told which differs and in what, that rows that are nobody's are noticed, and that
/// what goes wrong in one is told to all.
#[test]
fn processes_that_differ_are_told_so() {
    let t: Table = table(3_000, 9);
    let input = t.input();
    let fits = |change: &(dyn Fn(usize, &mut BoostingParams) + Sync), ends: &[usize]| -> Vec<String> {
        std::thread::scope(|scope| {
            let of_rank = |end: taiga_engine::collective::LocalCollective| {
                let input = &input;
                scope.spawn(move || {
                    let mut own = params(serde_json::json!({ "rounds": 3 }));
                    change(end.rank(), &mut own);
                    fit_shard(input, &own, &end, ends).err().map(|error| error.to_string()).unwrap_or_default()
                })
            };
            let threads: Vec<_> = local(3).into_iter().map(of_rank).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        })
    };
    assert_eq!(fits(&|_, _| {}, &[1000, 2000, 3000]), ["", "", ""]);
    for error in fits(&|rank, own| own.depth = Some(4 + (rank == 2) as u32), &[1000, 2000, 3000]) {
        assert!(error.contains("the parameters of rank 2 differ from those of rank 0: `depth` is 5"), "{error}");
    }
    for error in fits(&|_, _| {}, &[1000, 2000, 2999]) {
        assert!(error.contains("the processes have 2999 rows, and the target has 3000"), "{error}");
    }
    let errors = fits(&|rank, own| own.device = if rank == 1 { "cuda:0".into() } else { "cpu".into() }, &[1000, 2000, 3000]);
    assert!(errors[1].contains("device") || errors[1].contains("GPU"), "{errors:?}");
    assert!(errors[0].contains("collective") && errors[2].contains("collective"), "{errors:?}");
}
