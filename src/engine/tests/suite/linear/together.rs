//! Fits whose rows lie in several processes: each has the lists and dense columns of its rows, and comes to the bytes of one fit of all.

use serde_json::json;
use taiga_engine::Result;
use taiga_engine::collective::local;
use taiga_engine::dataset::{OwnRows, Quiet};
use taiga_engine::learners::linear::{LinearParams, fit, fit_together};
use taiga_testing::Dice;
use taiga_testing::linear::{Table, drawn, of_own, params};
use taiga_testing::random_fits::cases;
use taiga_testing::together::{at_all_ends, deal, equal_models};

/// Fits as one of several processes.
fn fit_own(table: &Table, params: &LinearParams, own: OwnRows<'_>) -> Result<Vec<u8>> {
    // Threads are each process's own: if these shared those of one size, some would wait for others that wait for a thread.
    let params = LinearParams { n_threads: Some(1 + (own.collective.rank() > 0) as u32), ..params.clone() };
    fit_together(&of_own(table, &own.range()), &params, own, &Quiet).map(|model| model.to_bytes())
}

/// Proves over random fits that 1, 2, 3 and 5 processes, however rows are dealt to them, come to the bytes of one fit, or to its error.
#[test]
fn rows_of_a_fit_may_lie_in_several_processes() {
    let mut same = [0; 6];
    for seed in 0..cases(40) {
        let (table, given) = drawn(seed);
        let params = params(given);
        let whole = fit(&table.input(), &params, &Quiet).map(|model| model.to_bytes());
        for world in [1, 2, 3, 5] {
            let ends = deal(table.rows(), world, &mut Dice::new(seed * 7 + world as u64));
            let made = at_all_ends(local(world), &ends, |own| fit_own(&table, &params, own));
            same[world] += equal_models(made, &whole, &format!("seed {seed}, {ends:?}, {params:?}"));
        }
    }
    println!("equal fits by the number of processes: {same:?}");
    assert!(same[5] > 0);
}

/// Proves the same of so many entries that scores are sums of integers, which one process alone may not have.
#[test]
fn scores_of_many_entries_are_sums_of_integers_in_all() {
    let dice = &mut Dice::new(5);
    let rows = 70_000;
    let lists: Vec<Vec<(i64, f64)>> = (0..rows).map(|_| (0..16).map(|_| (dice.below(900) as i64, 1.0)).collect()).collect();
    let codes = lists.iter().map(|list| u32::from(list.iter().map(|e| e.0 % 7 - 3).sum::<i64>() > 0)).collect();
    let table = Table::new(&lists, codes, 2);
    let params = params(json!({ "epochs": 4 }));
    let whole = fit(&table.input(), &params, &Quiet).expect("a fit").to_bytes();
    for ends in [vec![16_384, 70_000], vec![30_000, 30_001, 70_000]] {
        for made in at_all_ends(local(ends.len()), &ends, |own| fit_own(&table, &params, own)) {
            assert!(made.expect("a fit") == whole, "{ends:?}");
        }
    }
}

/// Proves that what can't be, and what differs, is told, naming the parameter or the rank.
#[test]
fn what_is_not_for_several_processes_is_told() {
    let (table, _) = drawn(3);
    let rows = table.rows();
    let fits = |change: &(dyn Fn(usize, &mut LinearParams) + Sync)| -> Vec<String> {
        let made = at_all_ends(local(2), &[rows / 2, rows], |own| {
            let mut params = params(json!({ "epochs": 2 }));
            change(own.collective.rank(), &mut params);
            fit_own(&table, &params, own)
        });
        made.into_iter().map(|made| made.err().map(|error| error.to_string()).unwrap_or_default()).collect()
    };
    assert_eq!(fits(&|_, _| {}), ["", ""]);
    for error in fits(&|_, params| params.optimizer = taiga_engine::learners::linear::Optimizer::Ftrl) {
        assert!(error.contains("parameter `optimizer`: \"ftrl\"") && error.contains("lbfgs"), "{error}");
    }
    for error in fits(&|rank, params| params.l2 = Some(rank as f64)) {
        assert!(error.contains("the parameters of rank 1 differ from those of rank 0: `l2` is 1.0"), "{error}");
    }
    let errors = fits(&|rank, params| params.device = if rank == 1 { "cuda".into() } else { "cpu".into() });
    assert!(errors[1].contains("parameter `device`"), "{errors:?}");
    assert!(errors[0].contains("collective"), "{errors:?}");
}

/// Proves that a value which one process alone has, and which can't be fitted, is its error, with the row's number in the table, and ends all.
#[test]
fn what_one_process_alone_has_ends_all() {
    let (mut table, _) = drawn(3);
    let rows = table.rows();
    table.dense = vec![(0..rows).map(|row| if row + 1 == rows { 1e300 } else { 1.0 }).collect()];
    let made = at_all_ends(local(2), &[rows / 2, rows], |own| fit_own(&table, &params(json!({ "epochs": 2 })), own));
    let texts: Vec<String> = made.into_iter().map(|made| made.unwrap_err().to_string()).collect();
    let all = format!("the value 1e300 in row {}", rows - 1);
    assert!(texts.iter().any(|text| text.contains(&all)), "{texts:?}");
    assert!(texts.iter().all(|text| text.contains(&all) || text.contains("collective")), "{texts:?}");
}
