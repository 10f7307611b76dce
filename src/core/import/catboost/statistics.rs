//! Statistics of categories: CTRs, as CatBoost calls them (Prokhorenkova et al., CatBoost: unbiased boosting with categorical features,
//! 2018).
//!
//! A model keeps a table of counts for each combination that it has statistics of, keyed by a hash of 64 bits: of the columns' categories,
//! and of the answers to other splits. What it splits by is a ratio of these counts, smoothed by a prior, in f32.

use crate::learners::boosting::model::{extend_hash, part_of_code};
use serde::Deserialize;
use std::collections::HashMap;

/// A statistic: what it is of, and how its table's counts make it.
#[derive(Deserialize)]
pub(super) struct CtrIn {
    pub ctr_type: String,
    /// The name of its table.
    pub identifier: String,
    pub elements: Vec<Element>,
    #[serde(default)]
    pub borders: Vec<f32>,
    pub prior_numerator: f32,
    pub prior_denomerator: f32,
    pub scale: f32,
    pub shift: f32,
    #[serde(default)]
    pub target_border_idx: usize,
}

/// A part of a combination.
#[derive(Deserialize)]
#[serde(tag = "combination_element")]
pub(super) enum Element {
    /// The category of a column.
    #[serde(rename = "cat_feature_value")]
    Category { cat_feature_index: usize },
    /// Whether a number is above a border.
    #[serde(rename = "float_feature")]
    Above { float_feature_index: usize, border: f32 },
    /// Whether a category is this one, by its hash.
    #[serde(rename = "cat_feature_exact_value")]
    Is { cat_feature_index: usize, value: i64 },
}

/// A table as JSON has it: of each combination its hash, which is a text, and its counts.
#[derive(Deserialize)]
struct TableIn {
    hash_map: Vec<HashOrCount>,
    hash_stride: usize,
    #[serde(default)]
    counter_denominator: i64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum HashOrCount {
    Hash(String),
    Count(f64),
}

/// The counts of each combination.
#[derive(Deserialize)]
#[serde(try_from = "TableIn")]
pub(super) struct Table {
    /// The hashes of combinations, ascending.
    pub keys: Vec<u64>,
    /// `[key * width + count]`.
    counts: Vec<f64>,
    width: usize,
    /// What counters are divided by.
    denominator: i64,
}

/// The key of a place that holds none.
const EMPTY: u64 = u64::MAX;

impl Table {
    /// Returns the table of these rows, each a hash and `width` counts.
    pub fn new<'a>(rows: impl Iterator<Item = (u64, &'a [f64])>, width: usize, denominator: i64) -> Table {
        let mut rows: Vec<(u64, &[f64])> = rows.filter(|(key, _)| *key != EMPTY).collect();
        rows.sort_by_key(|(key, _)| *key);
        rows.dedup_by_key(|(key, _)| *key);
        let counts = rows.iter().flat_map(|(_, counts)| counts.iter().copied()).collect();
        Table { keys: rows.iter().map(|(key, _)| *key).collect(), counts, width, denominator }
    }

    /// The counts of a combination.
    fn counts(&self, key: u64) -> Option<&[f64]> {
        let at = self.keys.binary_search(&key).ok()?;
        self.counts.get(at * self.width..(at + 1) * self.width)
    }

    /// The number of hashes and counts.
    pub fn size(&self) -> usize {
        self.keys.len() * (1 + self.width)
    }
}

impl TryFrom<TableIn> for Table {
    type Error = String;

    fn try_from(read: TableIn) -> Result<Table, String> {
        let stride = read.hash_stride;
        if stride < 2 || !read.hash_map.len().is_multiple_of(stride) {
            return Err(format!("a table of statistics has {} numbers in rows of {stride}", read.hash_map.len()));
        }
        let (mut keys, mut counts) = (vec![], vec![]);
        for row in read.hash_map.chunks(stride) {
            let HashOrCount::Hash(hash) = &row[0] else { return Err("a table's key is a number".into()) };
            keys.push(hash.parse().map_err(|_| format!("a table's key is {hash:?}"))?);
            for count in &row[1..] {
                let HashOrCount::Count(count) = count else { return Err("a table's number is text".into()) };
                counts.push(*count);
            }
        }
        Ok(Table::new(keys.into_iter().zip(counts.chunks(stride - 1)), stride - 1, read.counter_denominator))
    }
}

/// The tables of a model by their names.
pub(super) type Tables = HashMap<String, Table>;

/// The hash of a combination of one category.
pub(super) fn of_one(hash: u32) -> u64 {
    extend_hash(0, part_of_code(hash))
}

/// The category whose hash alone this is the hash of, if one is.
pub(super) fn only_category(key: u64) -> Option<u32> {
    // What a hash is multiplied by is odd, so it has an inverse modulo 2^64, which Newton's iteration finds.
    let multiplier = of_one(1);
    let inverse = (0..6).fold(multiplier, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(multiplier.wrapping_mul(inverse))));
    let code = key.wrapping_mul(inverse) as u32;
    (of_one(code) == key).then_some(code)
}

impl CtrIn {
    /// The column of categories, where it is of one alone.
    pub fn only_column(&self) -> Option<usize> {
        match self.elements.as_slice() {
            [Element::Category { cat_feature_index }] => Some(*cat_feature_index),
            _ => None,
        }
    }

    /// Whether it is of a column of categories together with something else.
    pub fn combines(&self, column: usize) -> bool {
        let is_of = |element: &Element| match element {
            Element::Category { cat_feature_index } | Element::Is { cat_feature_index, .. } => *cat_feature_index == column,
            Element::Above { .. } => false,
        };
        self.only_column().is_none() && self.elements.iter().any(is_of)
    }

    /// Its value where a combination has these counts, in f32 as CatBoost has it; none of an unknown one.
    fn of_counts(&self, counts: Option<&[f64]>, table: &Table) -> Result<f32, String> {
        let of = |i: usize| counts.map_or(0.0, |n| n.get(i).copied().unwrap_or(0.0));
        let sum = |from: usize| counts.map_or(0.0, |n| n.get(from..).unwrap_or_default().iter().sum::<f64>());
        let (part, all) = match self.ctr_type.as_str() {
            "Borders" => (sum(self.target_border_idx.saturating_add(1)), sum(0)),
            "Buckets" => (of(self.target_border_idx), sum(0)),
            "BinarizedTargetMeanValue" | "FloatTargetMeanValue" => (of(0), of(1)),
            "Counter" | "FeatureFreq" => (of(0), table.denominator as f64),
            other => return Err(format!("a statistic is of the kind {other:?}")),
        };
        let ratio = (part as f32 + self.prior_numerator) / (all as f32 + self.prior_denomerator);
        let value = (ratio + self.shift) * self.scale;
        // Above no border.
        Ok(if value.is_nan() { f32::NEG_INFINITY } else { value })
    }

    /// Its value of a combination by the hash.
    pub fn value(&self, key: u64, table: &Table) -> Result<f32, String> {
        self.of_counts(table.counts(key), table)
    }

    /// Its value of each of the table's combinations, and of unknown ones.
    pub fn values(&self, table: &Table) -> Result<(Vec<f32>, f32), String> {
        let of_rows = table.counts.chunks(table.width.max(1)).map(|counts| self.of_counts(Some(counts), table));
        Ok((of_rows.collect::<Result<_, _>>()?, self.of_counts(None, table)?))
    }

    /// Its value of unknown combinations.
    pub fn unseen(&self, table: &Table) -> Result<f32, String> {
        self.of_counts(None, table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that a category is found by the hash of it alone, and that other hashes are of none.
    #[test]
    fn hashes_of_one_category_are_undone() {
        for code in [0, 1, 77, 1 << 31, u32::MAX, 0xDEAD_BEEF] {
            assert_eq!(only_category(of_one(code)), Some(code));
            // What is hashed behind a 0 is hashed as if alone.
            assert_eq!(only_category(extend_hash(of_one(code), 1)), (code == 0).then_some(1));
        }
        assert_eq!(only_category(EMPTY), None);
    }
}
