//! The trees of forests against a reading of their definition that anyone can follow
//! (`taiga_testing::forest`).

use serde_json::json;
use std::collections::BinaryHeap;
use taiga_engine::column::Column;
use taiga_engine::column::categories::{Categories, CategoryColumn, CategoryNames as Labeled};
use taiga_engine::learners::forest::explain::NodeRow;
use taiga_engine::learners::forest::{Input, Quiet, Target, fit};
use taiga_engine::numerics::random::{Purpose, Random};
use taiga_testing::forest::*;
use taiga_testing::{Dice, Table};

/// Proves that every split is the best one among those of the features drawn, of all splitters, criteria and kinds of
/// targets, on random tables with missing values, infinities, ties, constants, weights and limits; and that leaves hold
/// the shares or means of their rows.
#[test]
fn trees_are_as_defined() {
    let mut dice = Dice::new(11);
    for case in 0..240u64 {
        let splitter = ["histogram", "exact", "random"][case as usize % 3];
        let classes = [2, 0, 3, 2, 5][dice.below(5) as usize];
        let criterion = match classes {
            0 => ["squared_error", "poisson"][dice.below(2) as usize],
            _ => ["gini", "entropy"][dice.below(2) as usize],
        };
        let (rows, features) = (2 + dice.below(120) as usize, 1 + dice.below(6) as usize);
        let weights = dice.chance(0.4);
        let table = awkward_table(&mut dice, rows, features, classes, weights);
        let mut value = json!({
            "trees": 3, "splitter": splitter, "criterion": criterion, "seed": case, "n_threads": 1,
            "min_data_in_leaf": ([1, 1, 3][dice.below(3) as usize]), "min_gain": ([0.0, 0.0, 0.01][dice.below(3) as usize]),
        });
        if dice.chance(0.5) {
            value["max_features"] = [json!("log2"), json!("all"), json!(2), json!(0.6)][dice.below(4) as usize].clone();
        }
        if dice.chance(0.3) {
            value["bootstrap"] = [json!(false), json!(0.5)][dice.below(2) as usize].clone();
        }
        if dice.chance(0.3) {
            value["bins"] = json!(2 + dice.below(12));
        }
        if dice.chance(0.3) {
            value["depth"] = json!(1 + dice.below(4));
        }
        let p = params(value);
        let Ok(forest) = try_grow(&table, &p) else {
            // A table without anything to fit on, as a target all zero.
            continue;
        };
        let table = counted(&table);
        let twin = Twin::new(&table, &p, &forest);
        (0..3).for_each(|tree| twin.check(&forest, tree));
    }
}

/// Proves the same of nodes with so many rows that other memory serves them.
#[test]
fn large_nodes_are_as_defined() {
    for (case, splitter) in ["histogram", "exact", "random"].into_iter().enumerate() {
        let mut dice = Dice::new(case as u64);
        let rows = 18_000;
        let columns: Vec<Vec<f64>> = (0..3)
            .map(|f| (0..rows).map(|_| if f == 1 && dice.chance(0.1) { f64::NAN } else { (dice.normal() * 10.0).round() }).collect())
            .collect();
        let codes = (0..rows).map(|i| (columns[0][i] + dice.normal() > 0.0) as u32).collect();
        let table = Table::classes(columns, codes, labels(2));
        let p = params(json!({ "trees": 1, "splitter": splitter, "depth": 3, "bins": 31, "max_features": "all", "bootstrap": false }));
        let forest = grow(&table, &p);
        Twin::new(&table, &p, &forest).check(&forest, 0);
    }
}

/// Proves that rows sorted by their values, as they are where there are too many sums, give the splits that counted ones do.
#[test]
fn many_classes_of_many_values_are_as_defined() {
    let mut dice = Dice::new(5);
    let (rows, classes) = (20_000, 120);
    let columns: Vec<Vec<f64>> =
        (0..2).map(|_| (0..rows).map(|_| if dice.chance(0.05) { f64::NAN } else { dice.unit() }).collect()).collect();
    let codes: Vec<u32> = (0..rows as u32).map(|i| if i < classes { i } else { dice.below(classes as u64) as u32 }).collect();
    let exact = grow(
        &Table::classes(columns.clone(), codes.clone(), labels(classes as usize)),
        &params(json!({ "trees": 1, "splitter": "exact", "depth": 1, "max_features": "all", "bootstrap": false })),
    );
    // As few classes as can be counted: those that are told apart by the first split's score alone.
    let root = &tree_of(&exact, 0)[0];
    let f = root.feature.unwrap() as usize;
    let score = |right: &dyn Fn(f64) -> bool| {
        let (mut l, mut r) = (vec![0.0; classes as usize], vec![0.0; classes as usize]);
        (0..rows).for_each(|i| if right(columns[f][i]) { r[codes[i] as usize] += 1.0 } else { l[codes[i] as usize] += 1.0 });
        let side = |c: &[f64]| c.iter().map(|x| x * x).sum::<f64>() / c.iter().sum::<f64>();
        side(&l) + side(&r)
    };
    let (border, missing_left) = (root.border.unwrap(), root.missing_left.unwrap());
    let chosen = score(&|x| if x.is_nan() { !missing_left } else { x > border });
    for i in 0..400 {
        let other = columns[f][i * 7];
        assert!(other.is_nan() || score(&|x| if x.is_nan() { false } else { x > other }) <= chosen + 1e-9 || other == f64::INFINITY);
    }
}

/// Proves that a tree of limited leaves is what splitting the best node first leaves of the whole tree.
#[test]
fn limited_leaves_are_the_best_of_the_whole_tree() {
    let mut dice = Dice::new(3);
    for case in 0..30u64 {
        let table = awkward_table(&mut dice, 150, 4, [0, 2, 3][case as usize % 3], case % 2 == 0);
        let splitter = ["histogram", "exact", "random"][case as usize / 3 % 3];
        let base = json!({ "trees": 1, "splitter": splitter, "seed": case, "depth": 9 });
        let whole = tree_of(&grow(&table, &params(base.clone())), 0);
        for leaves in [2, 5, 17, 10_000] {
            let mut value = base.clone();
            value["leaves"] = json!(leaves);
            let limited = tree_of(&grow(&table, &params(value)), 0);
            let expected = best_first(&whole, leaves, Random::new(case, Purpose::ForestNode, 0));
            let seen: Vec<_> = limited.iter().map(|n| (n.feature, n.border.map(f64::to_bits), n.depth)).collect();
            assert_eq!(seen, expected, "{leaves} leaves, case {case}");
        }
    }
}

/// Nodes of `whole` in preorder, of which those split first by gain stay split.
fn best_first(whole: &[NodeRow], leaves: usize, root: Random) -> Vec<(Option<u32>, Option<u64>, u32)> {
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    struct Open(u64, std::cmp::Reverse<u32>, std::cmp::Reverse<u64>, usize);
    let mut keys = vec![root; whole.len()];
    let mut heap = BinaryHeap::new();
    let mut split = vec![false; whole.len()];
    let open = |heap: &mut BinaryHeap<Open>, at: usize, key: Random| {
        if let Some(gain) = whole[at].gain {
            heap.push(Open(gain.to_bits(), std::cmp::Reverse(whole[at].depth), std::cmp::Reverse(key.u64(0)), at));
        }
    };
    open(&mut heap, 0, root);
    let mut grown = 1;
    while grown < leaves
        && let Some(Open(.., at)) = heap.pop()
    {
        split[at] = true;
        grown += 1;
        for (side, child) in [whole[at].left.unwrap(), whole[at].right.unwrap()].into_iter().enumerate() {
            keys[child as usize] = keys[at].child(side as u64);
            open(&mut heap, child as usize, keys[child as usize]);
        }
    }
    let mut out = vec![];
    let mut stack = vec![0];
    while let Some(at) = stack.pop() {
        let n = &whole[at];
        out.push(if split[at] { (n.feature, n.border.map(f64::to_bits), n.depth) } else { (None, None, n.depth) });
        if split[at] {
            stack.extend([n.right.unwrap() as usize, n.left.unwrap() as usize]);
        }
    }
    out
}

/// Proves that for two classes and for numbers no subset of categories gains more than the one found.
#[test]
fn subsets_of_categories_are_the_best_of_all() {
    let mut dice = Dice::new(8);
    for case in 0..40u64 {
        let rows = 60;
        let codes: Vec<u32> = (0..rows).map(|i| if i < 6 { i as u32 } else { dice.below(6) as u32 }).collect();
        let names = (0..6).map(|i| format!("c{i}")).collect();
        let column =
            CategoryColumn { name: "x".into(), codes: codes.clone(), categories: Categories { labels: Labeled::Text(names), null: None } };
        let y: Vec<u32> = (0..rows).map(|i| if i < 2 { i as u32 } else { dice.chance(0.2 + 0.1 * codes[i] as f64) as u32 }).collect();
        let numbers: Vec<f64> = y.iter().map(|y| *y as f64 * 3.0 - 1.0).collect();
        let target =
            if case % 2 == 0 { Target::Classes { codes: &y, labels: labels(2) } } else { Target::Numbers(Column::from_f64("y", &numbers)) };
        let input = Input { features: vec![Column::categorical(&column)], target, target_name: "y".into(), weight: None };
        let p = params(json!({ "trees": 1, "depth": 1, "bootstrap": false, "seed": case }));
        let forest = fit(&input, &p, &Quiet).unwrap();
        let root = tree_of(&forest, 0)[0].clone();
        let score = |right: &dyn Fn(u32) -> bool| {
            let side = |wanted: bool| {
                let of: Vec<f64> = (0..rows).filter(|i| right(codes[*i]) == wanted).map(|i| y[i] as f64).collect();
                if of.is_empty() { 0.0 } else { of.iter().sum::<f64>().powi(2) / of.len() as f64 }
            };
            side(true) + side(false)
        };
        let set = root.categories.unwrap();
        let found = score(&|c| set.contains(&c));
        for subset in 0..64u32 {
            assert!(score(&|c| subset >> c & 1 == 1) <= found + 1e-9, "{subset:b} against {set:?}");
        }
    }
}
