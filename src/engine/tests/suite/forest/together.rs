//! Forests whose rows lie in several processes: each has the numbers of its rows, and comes to the bytes of one fit of all.

use serde_json::{Value, json};
use std::ops::Range;
use std::time::Duration;
use taiga_engine::collective::local;
use taiga_engine::column::categories::{Categories, CategoryColumn, CategoryNames};
use taiga_engine::dataset::OwnRows;
use taiga_engine::learners::forest::{ForestParams, Input, Monitor, Quiet, fit, fit_together};
use taiga_engine::{Error, Result};
use taiga_testing::forest::*;
use taiga_testing::random_fits::cases;
use taiga_testing::together::{at_all_ends, deal, equal_models, over_tcp, own_columns};
use taiga_testing::{Dice, Table};

/// A table, its categories and how it is fitted.
pub struct Drawn {
    table: Table,
    categories: Vec<CategoryColumn>,
    pub params: ForestParams,
}

impl Drawn {
    /// Draws one; equal seeds draw equal ones.
    pub fn new(seed: u64) -> Drawn {
        let dice = &mut Dice::new(seed ^ 0xf0e5);
        let rows = [2, 3, 30, 300, 2_000, 9_000, 20_000][dice.below(7) as usize] + dice.below(9) as usize;
        let features = 1 + dice.below(6) as usize;
        let classes = [0, 0, 2, 2, 4][dice.below(5) as usize];
        let weighted = dice.chance(0.4);
        let mut table = awkward_table(dice, rows, features, classes, weighted);
        let mut pick = |from: &[Value]| from[dice.below(from.len() as u64) as usize].clone();
        let splitter = pick(&[json!("histogram"), json!("histogram"), json!("exact"), json!("random")]);
        let bootstrap = pick(&[json!(true), json!(true), json!(false), json!(0.3)]);
        let mut given = json!({
            "trees": pick(&[json!(1), json!(3), json!(7), json!(12)]), "splitter": splitter, "bootstrap": bootstrap, "seed": seed,
            "depth": pick(&[Value::Null, json!(1), json!(6)]), "leaves": pick(&[Value::Null, Value::Null, json!(2), json!(30)]),
            "max_features": pick(&[Value::Null, json!(1), json!("all")]), "min_data_in_leaf": pick(&[json!(1), json!(5)]),
            "bins": pick(&[json!(255), json!(256), json!(8), json!({ "x0": 3 }), json!({ "x0": 256, "x1": 2 })]), "border_sample": pick(&[json!(200_000), json!(500)]),
        });
        if bootstrap != json!(false) {
            given["permutation_importance"] = pick(&[json!(false), json!(true)]);
            given["oob"] = pick(&[Value::Null, json!(false)]);
        }
        given["criterion"] = match classes {
            0 => pick(&[json!("squared_error"), json!("poisson")]),
            _ => pick(&[json!("gini"), json!("entropy")]),
        };
        if classes > 0 {
            given["class_weight"] = pick(&[json!("none"), json!("none"), json!("balanced")]);
        }
        if dice.chance(0.2) {
            // What the last process alone may have.
            table.columns[0][rows - 1] = 1e300;
        }
        let plain = given["splitter"] == json!("histogram");
        let categories = (0..if plain { dice.below(3) } else { 0 }).map(|i| category(i as usize, rows, dice)).collect();
        given.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
        Drawn { table, categories, params: params(given) }
    }

    /// Returns the table of all rows.
    pub fn input(&self) -> Input<'_> {
        let mut input = input(&self.table);
        input.features.extend(self.categories.iter().map(taiga_engine::column::Column::categorical));
        input
    }

    /// Fits in processes whose rows end so.
    fn together(&self, ends: &[usize]) -> Vec<Result<Vec<u8>>> {
        let input = self.input();
        at_all_ends(local(ends.len()), ends, |own| fit_own(&input, &self.params, own))
    }
}

/// Returns codes of few or many categories, of which the last rows have some of their own.
fn category(i: usize, rows: usize, dice: &mut Dice) -> CategoryColumn {
    let distinct = [2, 9, 300][dice.below(3) as usize];
    let mut labels: Vec<i128> = vec![];
    let codes = (0..rows)
        .map(|row| {
            let label = dice.below(distinct) as i128 + if row * 20 > rows * 19 { 1000 } else { 0 };
            labels.iter().position(|known| *known == label).unwrap_or_else(|| {
                labels.push(label);
                labels.len() - 1
            }) as u32
        })
        .collect();
    CategoryColumn { name: format!("c{i}"), codes, categories: Categories { labels: CategoryNames::Integer(labels), null: None } }
}

/// Returns the table as a process has it: all of its target and categories, and the numbers of its own rows.
pub fn of_own<'a>(input: &Input<'a>, rows: &Range<usize>) -> Input<'a> {
    Input {
        features: own_columns(&input.features, rows),
        target: input.target.clone(),
        target_name: input.target_name.clone(),
        weight: input.weight.clone(),
    }
}

/// Fits as one of several processes.
fn fit_own(input: &Input<'_>, params: &ForestParams, own: OwnRows<'_>) -> Result<Vec<u8>> {
    // Threads are each process's own: if these shared those of one size, some would wait for others that wait for a thread.
    let params = ForestParams { n_threads: Some(1 + (own.collective.rank() > 0) as u32), ..params.clone() };
    fit_together(&of_own(input, &own.range()), &params, own, &Quiet).map(|forest| forest.to_bytes())
}

/// Proves over random fits that 1, 2, 3 and 5 processes, however rows are dealt to them, come to the bytes of one fit, or to its error.
#[test]
fn rows_of_a_forest_may_lie_in_several_processes() {
    let mut same = [0; 6];
    for seed in 0..cases(40) {
        let drawn = Drawn::new(seed);
        let whole = fit(&drawn.input(), &drawn.params, &Quiet).map(|forest| forest.to_bytes());
        for world in [1, 2, 3, 5] {
            let ends = deal(drawn.table.rows(), world, &mut Dice::new(seed * 7 + world as u64));
            same[world] += equal_models(drawn.together(&ends), &whole, &format!("seed {seed}, {ends:?}, {:?}", drawn.params));
        }
    }
    println!("equal forests by the number of processes: {same:?}");
    assert!(same[5] > 0);
}

/// Proves that rows which are counted, not their dealing, decide where a process has few rows, none, or all that weigh something.
#[test]
fn one_process_may_have_all_that_counts() {
    let mut table = awkward_table(&mut Dice::new(3), 700, 4, 2, false);
    table.weight = Some((0..700).map(|row| f64::from(u8::from(row >= 600))).collect());
    for splitter in ["histogram", "exact", "random"] {
        let drawn = Drawn { table: table.clone(), categories: vec![], params: params(json!({ "trees": 5, "splitter": splitter })) };
        let whole = fit(&drawn.input(), &drawn.params, &Quiet).expect("a forest").to_bytes();
        for ends in [vec![300, 700], vec![0, 600, 700], vec![699, 700, 700, 700, 700]] {
            for made in drawn.together(&ends) {
                assert!(made.expect("a forest") == whole, "{splitter}, {ends:?}");
            }
        }
    }
}

/// Proves that processes which don't make the same forest are told which differs and in what, and that a GPU which is not there is an error.
#[test]
fn processes_that_differ_are_told_so() {
    let table = awkward_table(&mut Dice::new(8), 500, 3, 2, false);
    let given = params(json!({ "trees": 4 }));
    let fits = |change: &(dyn Fn(usize, &mut ForestParams) + Sync), ends: &[usize]| -> Vec<String> {
        let made = at_all_ends(local(3), ends, |own| {
            let mut params = given.clone();
            change(own.collective.rank(), &mut params);
            let input = of_own(&input(&table), &own.range());
            fit_together(&input, &params, own, &Quiet)
        });
        made.into_iter().map(|made| made.err().map(|error| error.to_string()).unwrap_or_default()).collect()
    };
    assert_eq!(fits(&|_, _| {}, &[100, 200, 500]), ["", "", ""]);
    for error in fits(&|rank, params| params.trees += u32::from(rank == 2), &[100, 200, 500]) {
        assert!(error.contains("the parameters of rank 2 differ from those of rank 0: `trees` is 5"), "{error}");
    }
    for error in fits(&|_, _| {}, &[100, 200, 499]) {
        assert!(error.contains("the processes have 499 rows, and the target has 500"), "{error}");
    }
    let errors = fits(&|rank, params| params.device = if rank == 1 { "cuda:0".into() } else { "cpu".into() }, &[100, 200, 500]);
    assert!(errors[1].contains("parameter `device`"), "{errors:?}");
    assert!(errors[0].contains("collective") && errors[2].contains("collective"), "{errors:?}");
}

/// Ends a fit after its first tree.
struct Ends;

impl Monitor for Ends {
    fn interrupted(&self) -> bool {
        true
    }
}

/// Proves that one process which is ended ends all others, though trees grow without a word between them.
#[test]
fn a_process_that_ends_ends_the_others() {
    let table = awkward_table(&mut Dice::new(8), 60_000, 6, 0, false);
    let given = params(json!({ "trees": 100_000, "splitter": "exact", "n_threads": 1 }));
    let made = at_all_ends(local(3), &[100, 200, 60_000], |own| {
        let watch: &dyn Monitor = if own.collective.rank() == 1 { &Ends } else { &Quiet };
        fit_together(&of_own(&input(&table), &own.range()), &given, own, watch).map(drop)
    });
    assert_eq!(made[1], Err(Error::Interrupted));
    for rank in [0, 2] {
        assert!(made[rank].as_ref().is_err_and(|error| error.to_string().contains("another shard of this fit has ended")), "{made:?}");
    }
}

/// Takes long after each tree.
struct Slow;

impl Monitor for Slow {
    fn round(&self, _: u32, _: u32, _: Option<f64>) {
        std::thread::sleep(Duration::from_millis(150));
    }
}

/// Proves that over the network one that works longer than others wait for a silent one is waited for.
#[test]
fn a_process_that_works_long_is_not_silent() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").to_string();
    let table = awkward_table(&mut Dice::new(8), 400, 3, 2, false);
    let given = params(json!({ "trees": 40 }));
    let whole = fit(&input(&table), &given, &Quiet).expect("a forest").to_bytes();
    let timeout = Duration::from_secs(1);
    for made in at_all_ends(over_tcp(2, &address, timeout), &[250, 400], |own| {
        let watch: &dyn Monitor = if own.collective.rank() == 1 { &Slow } else { &Quiet };
        fit_together(&of_own(&input(&table), &own.range()), &given, own, watch).map(|forest| forest.to_bytes())
    }) {
        assert!(made.expect("a forest") == whole);
    }
}
