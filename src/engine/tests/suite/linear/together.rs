//! Fits whose rows lie in several processes: each has the lists and dense columns of its rows, and comes to the bytes of one fit of all.

use serde_json::{Value, json};
use std::ops::Range;
use taiga_engine::Result;
use taiga_engine::collective::local;
use taiga_engine::column::{Chunk, Values};
use taiga_engine::dataset::{OwnRows, Quiet};
use taiga_engine::learners::linear::{Input, Items, LinearParams, ListChunk, ListColumn, Offsets, SparseRows, fit, fit_together};
use taiga_testing::Dice;
use taiga_testing::linear::{Table, params};
use taiga_testing::random_fits::cases;
use taiga_testing::together::{at_all_ends, deal};

/// Draws a table and how it is fitted; equal seeds draw equal ones. Rows are moved in blocks of 16,384, so some tables have several of those.
fn drawn(seed: u64) -> (Table, Value) {
    let dice = &mut Dice::new(seed ^ 0x11ea);
    let rows = [2, 4, 60, 900, 5_000, 20_000, 40_000, 66_000][dice.below(8) as usize] + dice.below(9) as usize;
    let classes = [2, 2, 3][dice.below(3) as usize];
    let width = [3, 40, 3_000][dice.below(3) as usize];
    // Numbers that are numbered anew; features of very different sizes; values that are all 1, or are in a few rows alone.
    let (apart, sizes, values) = (if dice.chance(0.2) { 1 << 33 } else { 1 }, dice.chance(0.3), dice.below(4));
    let (mut lists, mut codes) = (vec![], vec![]);
    for row in 0..rows {
        let mut score = 0.3 * dice.normal();
        let list: Vec<(i64, f64)> = (0..dice.below(6))
            .map(|_| {
                let feature = dice.below(width) as i64;
                let value = match values {
                    0 => 1.0,
                    1 if row + 3 < rows => 1.0,
                    _ => dice.normal() * if sizes { [1.0, 1e-6, 1e4][feature as usize % 3] } else { 1.0 },
                };
                score += (feature % 5 - 2) as f64;
                (feature * apart, value)
            })
            .collect();
        lists.push(list);
        codes.push(if classes == 2 { u32::from(score > 0.0) } else { u32::from(score > -1.0) + u32::from(score > 1.0) });
    }
    (codes[0], codes[1]) = (0, 1);
    let mut table = Table::new(&lists, codes, classes);
    if values == 0 && dice.chance(0.5) {
        table.values = None;
    }
    table.dense = (0..dice.below(3)).map(|_| (0..rows).map(|_| dice.normal()).collect()).collect();
    table.weight = dice.chance(0.5).then(|| (0..rows).map(|row| if row < 2 { 1.0 } else { dice.below(4) as f64 * 0.7 }).collect());
    let mut given = json!({ "epochs": 1 + dice.below(6), "fit_intercept": dice.chance(0.8), "seed": seed });
    if dice.chance(0.3) {
        given["l1"] = json!(1e-4);
    }
    if dice.chance(0.3) {
        given["class_weight"] = json!("balanced");
    }
    if rows > 4 && dice.chance(0.4) {
        table.held_out = Some((0..rows).map(|row| row > 1 && dice.chance(0.3)).collect());
        if dice.chance(0.5) {
            given["early_stopping"] = json!(2);
        }
    }
    (table, given)
}

/// Returns rows of a column of lists, in two chunks.
fn lists<'a>(name: &str, table: &'a Table, rows: &Range<usize>, values: Values<'a>) -> ListColumn<'a> {
    let middle = rows.start + rows.len() / 3;
    let chunk = |rows: Range<usize>| ListChunk {
        offsets: Offsets::I64(&table.offsets[rows.start..=rows.end]),
        validity: None,
        items: Items::Numbers(Chunk::new(values, None)),
    };
    ListColumn { name: name.into(), chunks: vec![chunk(rows.start..middle), chunk(middle..rows.end)] }
}

/// Returns the table as a process has it: all of its target and weights, and the lists and numbers of its own rows.
fn of_own<'a>(table: &'a Table, rows: &Range<usize>) -> Input<'a> {
    let all = table.input();
    Input {
        sparse: Some(SparseRows {
            features: lists("f", table, rows, Values::I64(&table.numbers)),
            values: table.values.as_ref().map(|values| lists("v", table, rows, Values::F64(values))),
        }),
        dense: all.dense.iter().map(|column| column.slice(rows.start, rows.len())).collect(),
        ..all
    }
}

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
            for (rank, made) in made.into_iter().enumerate() {
                match (made, &whole) {
                    (Ok(made), Ok(whole)) => {
                        assert!(made == *whole, "seed {seed}, rank {rank} of {ends:?}: other bytes under {params:?}");
                        same[world] += 1;
                    }
                    (Err(error), Err(whole)) => assert_eq!(error.to_string(), whole.to_string(), "seed {seed}"),
                    (made, _) => panic!("seed {seed}, rank {rank} of {ends:?}: {:?} under {params:?}", made.err()),
                }
            }
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
    assert!(errors[1].contains("parameter `device`: \"cuda\" with `collective`"), "{errors:?}");
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
