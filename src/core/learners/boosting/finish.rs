//! From trees that count features as the device does to a model that stands by itself: only the
//! borders, the categories and the statistics that splits use are kept.

use super::categorical_features::{CategoricalFeatures, Origin};
use super::model::{CtrTable, Derived};
use crate::dataset::Input;
use crate::encoding::ctr::{Ctr, CtrKind};
use crate::model::{Feature, unasked};
use crate::tree::{Split, Tree};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// The features, encodings and tables that splits use.
pub struct UsedFeatures {
    pub features: Vec<Feature>,
    pub derived: Vec<Derived>,
    pub tables: Vec<CtrTable>,
}

/// The feature that a split tests, whichever permutation its codes came from.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum UsedFeature<'a> {
    Column(u32),
    OneOf(u32, Vec<u32>),
    Ctr(&'a [u32], usize),
}

/// The borders of a feature that splits use, and its number in the model.
struct UsedBorders {
    /// A feature that asks it.
    feature: usize,
    borders: Vec<bool>,
    /// Of each border, its place among those that are kept; none of a feature that asks about categories.
    places: Vec<u32>,
    number: u32,
}

impl UsedBorders {
    fn new(feature: usize, borders: Vec<bool>) -> UsedBorders {
        UsedBorders { feature, borders, places: vec![], number: 0 }
    }

    fn kept(&mut self, borders: &[f64]) -> Vec<f64> {
        let mut kept = vec![];
        self.places = (0..=borders.len())
            .map(|b| {
                let place = kept.len() as u32;
                if b < borders.len() && self.borders[b] {
                    kept.push(borders[b]);
                }
                place
            })
            .collect();
        kept
    }

    /// Gives a split that asks it the number and the border that these have in the model.
    fn renumber(&self, split: &mut Split) {
        split.feature = self.number;
        split.border = self.places.get(split.border as usize).copied().unwrap_or_default();
    }
}

fn used_feature<'a>(from: &'a CategoricalFeatures<'_>, split: &Split) -> UsedFeature<'a> {
    match &from.origins[split.feature as usize] {
        Origin::Column(column) => UsedFeature::Column(*column),
        Origin::OneHot { column, category } => UsedFeature::OneOf(*column, vec![*category]),
        Origin::Subset { column, categories } => {
            let subset = &from.subsets[split.border as usize];
            let mut inside: Vec<u32> = (1..=categories.len()).filter(|c| subset.contains(*c as u8)).map(|c| categories[c - 1]).collect();
            inside.sort_unstable();
            UsedFeature::OneOf(*column, inside)
        }
        Origin::Ctr { columns, ctr } => UsedFeature::Ctr(columns, *ctr),
    }
}

/// Returns the statistics that the features of a table need sums for.
fn sums_of(from: &CategoricalFeatures<'_>, ctrs: impl Iterator<Item = usize>) -> Vec<Ctr> {
    let mut sums: Vec<Ctr> = vec![];
    for ctr in ctrs.map(|ctr| from.ctr(ctr)) {
        if ctr.kind != CtrKind::Counter && !sums.iter().any(|s| s.same_sums(ctr)) {
            sums.push(*ctr);
        }
    }
    sums
}

/// Renumbers the splits of `trees` for the model.
pub fn finish(trees: &mut [Tree], input: &Input<'_>, from: &CategoricalFeatures<'_>) -> UsedFeatures {
    let is_subset = |split: &Split| matches!(from.origins[split.feature as usize], Origin::Subset { .. });
    let mut used: BTreeMap<UsedFeature<'_>, UsedBorders> = BTreeMap::new();
    // Of each feature but those of subsets, which of its borders are asked about, and a split that asks.
    let (mut asked, mut first): (Vec<Vec<bool>>, Vec<Split>) = (vec![vec![]; from.coded.len()], vec![]);
    for split in trees.iter().flat_map(|t| t.splits()) {
        let feature = split.feature as usize;
        if is_subset(split) {
            used.entry(used_feature(from, split)).or_insert_with(|| UsedBorders::new(feature, vec![]));
            continue;
        }
        if asked[feature].is_empty() {
            asked[feature].resize(from.coded[feature].borders.len() + 1, false);
            first.push(*split);
        }
        asked[feature][split.border as usize] = true;
    }
    for split in &first {
        let feature = split.feature as usize;
        let borders = std::mem::take(&mut asked[feature]);
        // Features of several permutations are one.
        match used.entry(used_feature(from, split)) {
            Entry::Vacant(entry) => drop(entry.insert(UsedBorders::new(feature, borders))),
            Entry::Occupied(mut entry) => entry.get_mut().borders.iter_mut().zip(borders).for_each(|(used, asked)| *used |= asked),
        }
    }
    let mut features = unasked(input);
    let mut projections: Vec<&[u32]> =
        used.keys().filter_map(|q| if let UsedFeature::Ctr(columns, _) = q { Some(*columns) } else { None }).collect();
    projections.dedup();
    let sums: Vec<Vec<Ctr>> = projections
        .iter()
        .map(|p| sums_of(from, used.keys().filter_map(|q| if let UsedFeature::Ctr(c, ctr) = q { (c == p).then_some(*ctr) } else { None })))
        .collect();
    let tables = from.tables(&projections, &sums);
    let mut derived = vec![];
    for (tested, used) in &mut used {
        used.number = match tested {
            UsedFeature::Column(column) => {
                features[*column as usize].borders = used.kept(&from.coded[used.feature].borders);
                *column
            }
            UsedFeature::OneOf(column, categories) => {
                derived.push(Derived::OneOf { feature: *column, categories: categories.clone() });
                (features.len() + derived.len() - 1) as u32
            }
            UsedFeature::Ctr(columns, ctr) => {
                let borders = used.kept(&from.coded[used.feature].borders);
                let table = projections.iter().position(|p| p == columns).unwrap_or_default();
                let ctr = from.ctr(*ctr);
                let sums = sums[table].iter().position(|s| s.same_sums(ctr)).unwrap_or_default() as u32;
                derived.push(Derived::Ctr { table: table as u32, sums, ctr: *ctr, unit: from.unit(ctr), borders });
                (features.len() + derived.len() - 1) as u32
            }
        };
    }
    let asked = derived.iter().flat_map(|d| match d {
        Derived::OneOf { feature, .. } => std::slice::from_ref(feature),
        Derived::Ctr { table, .. } | Derived::Hashed { table, .. } => &tables[*table as usize].features,
    });
    for column in asked.copied().collect::<BTreeSet<u32>>() {
        features[column as usize].categories = input.features[column as usize].categories().cloned();
    }
    let mut by_feature: Vec<Option<&UsedBorders>> = vec![None; from.coded.len()];
    first.iter().for_each(|split| by_feature[split.feature as usize] = used.get(&used_feature(from, split)));
    for split in trees.iter_mut().flat_map(|t| t.splits_mut()) {
        let of_subset = || used.get(&used_feature(from, split));
        if let Some(used) = by_feature[split.feature as usize].or_else(of_subset) {
            used.renumber(split);
        }
    }
    UsedFeatures { features, derived, tables }
}
