//! Random models that find numbers by hashes of combinations, rows for them, and their predictions written out naively.

use crate::model::{Dice, Kind, branching, goes_right, model, values};
use taiga_engine::column::categories::{Categories, CategoryNames};
use taiga_engine::column::{Column, FeatureType};
use taiga_engine::learners::boosting::model::{CtrTable, Derived, HashedPart, Model};
use taiga_engine::model::Feature;
use taiga_engine::numerics::city::hash_of;
use taiga_engine::tree::model::{Child, Leaf, Split, Tree};

/// The columns of numbers, and those of categories behind them.
const NUMBERS: usize = 2;
const COLUMNS: usize = 5;

/// Values of a row: of a column of categories its code.
pub type Row = Vec<f64>;

/// Codes of a column, those at the ends of what 32 bits hold among them.
fn codes(column: usize) -> [u32; 7] {
    [0, 1, u32::MAX, 1 << 31, (1 << 31) - 1, hash_of("a"), hash_of("b").wrapping_add(column as u32)]
}

/// A row of a table, by its columns.
fn row(dice: &mut Dice, features: &[Feature]) -> Row {
    let value = |(i, feature): (usize, &Feature)| match i < NUMBERS {
        true => values(dice, feature, 1)[0],
        false => codes(i)[dice.below(7)] as f64,
    };
    features.iter().enumerate().map(value).collect()
}

/// The hash of a row's combination, as 128 bits compute it.
fn key(model: &Model, parts: &[HashedPart], row: &[f64]) -> u64 {
    let (multiplier, modulus) = (0x4906_ba49_4954_cb65u128, 1u128 << 64);
    let extended = |hash: u128, part: u128| multiplier * ((hash + multiplier * part % modulus) % modulus) % modulus;
    let part = |part: &HashedPart| match part {
        HashedPart::Category(column) => {
            let signed = i64::from(row[*column as usize] as u32 as i32);
            if signed < 0 { modulus - u128::from(signed.unsigned_abs()) } else { signed as u128 }
        }
        HashedPart::Answer { feature, border, missing_left } => {
            let split = Split { feature: *feature, border: *border, missing_left: *missing_left, gain: 0.0 };
            u128::from(right(model, &split, row))
        }
    };
    parts.iter().fold(0, |hash, p| extended(hash, part(p))) as u64
}

/// Whether a row goes right at a split.
fn right(model: &Model, split: &Split, row: &[f64]) -> bool {
    let Some(derived) = (split.feature as usize).checked_sub(COLUMNS).map(|i| &model.derived[i]) else {
        return goes_right(split, &model.features, row[split.feature as usize]);
    };
    let value = match derived {
        Derived::OneOf { feature, categories } => categories.contains(&(row[*feature as usize] as u32)) as u8 as f64,
        Derived::Hashed { table, parts, values, unseen, .. } => {
            let key = key(model, parts, row);
            let at = model.tables[*table as usize].keys.iter().position(|k| *k == key);
            f64::from(at.map_or(*unseen, |at| values[at]))
        }
        Derived::Ctr { .. } => f64::NAN,
    };
    derived.borders().get(split.border as usize).is_some_and(|border| value > *border)
}

/// Makes a model; what it hashes is that of some rows, so that others have hashes which it knows, and which it does not.
pub fn hashed_model(seed: u64) -> Model {
    let dice = &mut Dice(seed);
    let kind = Kind { seed, features: NUMBERS, trees: 0, outputs: 1 + dice.below(2), depth: 3, symmetric: 50, borders: 40 };
    let mut made = model(kind);
    made.history = None;
    for i in NUMBERS..COLUMNS {
        let mut known: Vec<(u32, String)> = ["a", "b", "é"][..dice.below(4)].iter().map(|t| (hash_of(t), t.to_string())).collect();
        known.sort_unstable();
        let categories = Some(Categories { labels: CategoryNames::Hashed(known), null: Some(77) });
        made.features.push(Feature { name: format!("f{i}"), dtype: FeatureType::Categorical, borders: vec![], categories });
    }
    for feature in NUMBERS..COLUMNS {
        for count in [1, 1, 3] {
            let mut categories: Vec<u32> = (0..count).map(|_| codes(feature)[dice.below(7)]).collect();
            categories.sort_unstable();
            categories.dedup();
            made.derived.push(Derived::OneOf { feature: feature as u32, categories });
        }
    }
    let sets = made.derived.len();
    let single = |made: &Model, at: usize| matches!(&made.derived[at], Derived::OneOf { categories, .. } if categories.len() == 1);
    for table in 0..3u32 {
        let mut parts: Vec<HashedPart> = (0..1 + dice.below(3)).map(|i| HashedPart::Category((NUMBERS + i) as u32)).collect();
        for _ in 0..dice.below(3) {
            let feature = dice.below(NUMBERS) as u32;
            let border = dice.below(made.features[feature as usize].borders.len() + 1) as u32;
            parts.push(HashedPart::Answer { feature, border, missing_left: dice.below(2) == 0 });
        }
        let set = dice.below(sets);
        if single(&made, set) {
            parts.push(HashedPart::Answer { feature: (COLUMNS + set) as u32, border: 0, missing_left: true });
        }
        let column = |part: &HashedPart| match part {
            HashedPart::Category(column) => *column,
            HashedPart::Answer { feature, .. } => match made.derived.get((*feature as usize).wrapping_sub(COLUMNS)) {
                Some(Derived::OneOf { feature, .. }) => *feature,
                _ => *feature,
            },
        };
        let mut features: Vec<u32> = parts.iter().map(column).collect();
        features.sort_unstable();
        features.dedup();
        let mut keys: Vec<u64> = (0..dice.below(80)).map(|_| row(dice, &made.features)).map(|row| key(&made, &parts, &row)).collect();
        keys.sort_unstable();
        keys.dedup();
        let n = keys.len();
        made.tables.push(CtrTable { features, keys, n: vec![], sums: vec![] });
        for _ in 0..2 {
            let value = |dice: &mut Dice| [0.0, 0.25, -1.5, f32::INFINITY, f32::NEG_INFINITY, dice.unit() as f32][dice.below(6)];
            let values = (0..n).map(|_| value(dice)).collect();
            let mut borders: Vec<f64> = (0..dice.below(9)).map(|_| value(dice)).filter(|x| x.is_finite()).map(f64::from).collect();
            borders.sort_by(f64::total_cmp);
            borders.dedup();
            made.derived.push(Derived::Hashed { table, parts: parts.clone(), values, unseen: value(dice), borders });
        }
    }
    let split = |dice: &mut Dice| {
        let feature = [dice.below(NUMBERS), COLUMNS + dice.below(made.derived.len())][dice.below(4).min(1)] as u32;
        let border = dice.below(made.borders(feature).len() + 1) as u32;
        Split { feature, border, missing_left: dice.below(2) == 0, gain: 1.0 }
    };
    let mut trees = vec![];
    for _ in 0..8 * made.outputs() {
        let depth = 1 + dice.below(5);
        let leaf = |dice: &mut Dice| Leaf { value: (dice.unit() as f32) as f64, weight: 1.0, count: 1 };
        trees.push(match dice.below(2) {
            0 => {
                Tree::Symmetric { splits: (0..depth).map(|_| split(dice)).collect(), leaves: (0..1 << depth).map(|_| leaf(dice)).collect() }
            }
            _ => {
                let mut tree = branching(dice, &made.features[..NUMBERS], 2 * depth);
                tree.splits_mut().for_each(|own| *own = split(dice));
                tree
            }
        });
    }
    made.trees = trees;
    made
}

/// Makes rows, most of whose categories the model knows.
pub fn hashed_rows(model: &Model, rows: usize, seed: u64) -> Vec<Row> {
    let dice = &mut Dice(seed);
    let mut made: Vec<Row> = (0..rows).map(|_| row(dice, &model.features)).collect();
    for row in made.iter_mut().step_by(5) {
        row[NUMBERS + dice.below(COLUMNS - NUMBERS)] = (dice.bits() as u32) as f64;
    }
    made
}

/// Rows as columns: numbers, and codes.
pub fn columns_of(rows: &[Row]) -> (Vec<Vec<f64>>, Vec<Vec<u32>>) {
    let column = |i: usize| rows.iter().map(move |row| row[i]);
    let numbers = (0..NUMBERS).map(|i| column(i).collect()).collect();
    (numbers, (NUMBERS..COLUMNS).map(|i| column(i).map(|x| x as u32).collect()).collect())
}

/// Columns as the engine takes them.
pub fn views<'a>((numbers, codes): &'a (Vec<Vec<f64>>, Vec<Vec<u32>>)) -> Vec<Column<'a>> {
    let numbers = numbers.iter().enumerate().map(|(i, x)| Column::from_f64(format!("f{i}"), x));
    numbers.chain(codes.iter().zip(NUMBERS..).map(|(codes, i)| Column::codes(format!("f{i}"), codes))).collect()
}

/// The raw scores of one row.
pub fn naive_hashed_raw(model: &Model, row: &[f64]) -> Vec<f64> {
    let leaf = |tree: &Tree| match tree {
        Tree::Symmetric { splits, .. } => splits.iter().fold(0, |index, s| 2 * index + right(model, s, row) as u32),
        Tree::Branching { nodes, .. } => {
            let mut at = if nodes.is_empty() { Child::Leaf(0) } else { Child::Node(0) };
            loop {
                match at {
                    Child::Leaf(leaf) => return leaf,
                    Child::Node(i) if right(model, &nodes[i as usize].split, row) => at = nodes[i as usize].right,
                    Child::Node(i) => at = nodes[i as usize].left,
                }
            }
        }
    };
    let of = |k: usize| model.trees.iter().skip(k).step_by(model.outputs());
    let sum = |k: usize| of(k).fold(0.0, |sum, tree| sum + tree.leaves()[leaf(tree) as usize].value);
    (0..model.outputs()).map(|k| model.start[k] + model.scale * sum(k)).collect()
}
