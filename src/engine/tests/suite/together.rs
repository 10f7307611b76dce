//! Fits whose rows lie in several processes: each has the features of its rows, and comes to the bytes of one fit of all rows.

use taiga_engine::Result;
use taiga_engine::collective::tcp::{TcpCollective, TcpOptions};
use taiga_engine::collective::{Collective, local};
use taiga_engine::column::{Column, FeatureType};
use taiga_engine::dataset::{Input, OwnRows, Quiet};
use taiga_engine::learners::boosting::{BoostingParams, FitOptions, fit, fit_with};
use taiga_testing::random_fits::{RandomFit, cases};
use taiga_testing::{Dice, Table, params, table};

/// Deals rows to so many processes in order: most of all sizes, some without any, one with a single row.
fn deal(rows: usize, world: usize, dice: &mut Dice) -> Vec<usize> {
    let mut ends: Vec<usize> = (1..world).map(|_| dice.below(rows as u64 + 1) as usize).collect();
    if let [first, ..] = &mut ends[..] {
        *first = [0, 1, rows, *first, *first][dice.below(5) as usize];
    }
    if ends.len() > 1 && dice.chance(0.5) {
        ends[1] = (ends[0] + dice.below(2) as usize).min(rows);
    }
    ends.push(rows);
    ends.sort_unstable();
    ends
}

/// Returns the table as a process has it: all of its target and categories, and the numbers of its own rows.
fn of_shard<'a>(input: &'a Input<'a>, rows: std::ops::Range<usize>) -> Input<'a> {
    let part = |column: &Column<'a>| match column.dtype() {
        FeatureType::Categorical => column.clone(),
        _ => column.slice(rows.start, rows.len()),
    };
    input.with_features(input.features.iter().map(part).collect())
}

/// Fits as one of the processes between which `end` is.
fn fit_shard(input: &Input<'_>, params: &BoostingParams, end: &dyn Collective, ends: &[usize]) -> Result<Vec<u8>> {
    let first = end.rank().checked_sub(1).map_or(0, |before| ends[before]);
    let rows = first..ends[end.rank()];
    let own = OwnRows { collective: end, first, count: rows.len() };
    // Threads are each process's own.
    let params = BoostingParams { n_threads: Some(1 + end.rank() as u32 % 2), ..params.clone() };
    let options = FitOptions { own: Some(own), ..FitOptions::default() };
    fit_with(&of_shard(input, rows), &params, &options, &Quiet).map(|model| model.to_bytes())
}

/// Fits in as many threads as there are ends, which stand for processes.
fn fit_together<C: Collective + Send>(input: &Input<'_>, params: &BoostingParams, made: Vec<C>, ends: &[usize]) -> Vec<Result<Vec<u8>>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = made.into_iter().map(|end| scope.spawn(move || fit_shard(input, params, &end, ends))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

/// What several processes don't fit yet.
const NOT_YET: &str = "is not fitted over several processes yet";

/// Proves over random fits that 1, 2, 3 and 5 processes, however rows are dealt to them, come to the bytes of one fit, or to its error.
#[test]
fn rows_of_a_fit_may_lie_in_several_processes() {
    let mut same = [0; 6];
    for seed in 0..cases(40) {
        let case = RandomFit::new(seed);
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
                    (Err(error), _) if error.to_string().contains(NOT_YET) => {}
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

/// Returns the ends of an exchange over the loopback.
fn over_tcp(world: usize, port_of: &str) -> Vec<TcpCollective> {
    let join = |rank: usize| {
        let options = TcpOptions {
            rank,
            world,
            address: port_of.into(),
            secret: "larch".into(),
            job: "suite".into(),
            timeout: std::time::Duration::from_secs(20),
        };
        TcpCollective::join(&options).expect("all come")
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..world).map(|rank| scope.spawn(move || join(rank))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

/// Proves the same over the network, with rounds that are not told, and with large and small tables.
#[test]
fn rows_of_a_fit_may_lie_behind_a_network() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").to_string();
    for (rows, given) in
        [(9_000, serde_json::json!({ "rounds": 5 })), (700, serde_json::json!({})), (12, serde_json::json!({ "rounds": 3 }))]
    {
        let (t, params) = (table(rows, 5), params(given));
        let input = t.input();
        let whole = fit(&input, &params, &Quiet).expect("a fit").to_bytes();
        for world in [2, 3] {
            let ends = deal(rows, world, &mut Dice::new(rows as u64));
            for made in fit_together(&input, &params, over_tcp(world, &address), &ends) {
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
