//! From trees that count features as the backend does to a model that stands by itself: only the
//! borders, the categories and the statistics that splits use are kept.

use super::Input;
use super::derived::{DerivedFeatures, Origin};
use crate::encoding::ctr::{Ctr, CtrKind};
use crate::model::{CtrTable, Derived, Feature};
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// What splits ask about.
pub struct Questions {
    pub features: Vec<Feature>,
    pub derived: Vec<Derived>,
    pub tables: Vec<CtrTable>,
}

/// Borders that splits use.
struct Used {
    borders: Vec<bool>,
    /// Of each border, its place among those that are kept.
    places: Vec<u32>,
}

impl Used {
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
}

/// Renumbers the splits of `trees` for the model.
pub fn finish(trees: &mut [Tree], input: &Input<'_>, from: &DerivedFeatures<'_>) -> Questions {
    // One derived feature has a number for each permutation.
    let mut used: BTreeMap<&Origin, (usize, Used)> = BTreeMap::new();
    for s in trees.iter().flat_map(|t| t.splits()) {
        let id = s.feature as usize;
        let of = || (id, Used { borders: vec![false; from.coded[id].borders.len() + 1], places: vec![] });
        used.entry(&from.origins[id]).or_insert_with(of).1.borders[s.border as usize] = true;
    }
    let feature =
        |c: &crate::column::Column<'_>| Feature { name: c.name().into(), dtype: c.dtype().clone(), borders: vec![], categories: None };
    let mut features: Vec<Feature> = input.features.iter().map(feature).collect();
    let projections: BTreeSet<&[u32]> =
        used.keys().filter_map(|o| if let Origin::Ctr { columns, .. } = o { Some(&columns[..]) } else { None }).collect();
    let mut tables: Vec<CtrTable> = vec![];
    let mut sums_of: Vec<Vec<Ctr>> = vec![];
    for columns in &projections {
        let mut sums: Vec<Ctr> = vec![];
        for ctr in used.keys().filter_map(|o| match o {
            Origin::Ctr { columns: c, ctr } if c == columns => Some(from.ctr(*ctr)),
            _ => None,
        }) {
            if ctr.kind != CtrKind::Counter && !sums.iter().any(|s| s.same_sums(ctr)) {
                sums.push(*ctr);
            }
        }
        tables.push(from.table(columns, &sums));
        sums_of.push(sums);
    }
    let mut derived = vec![];
    let mut numbers = vec![0; from.origins.len()];
    let mut number_of: BTreeMap<&Origin, u32> = BTreeMap::new();
    for (origin, (id, used)) in &mut used {
        let borders = used.kept(&from.coded[*id].borders);
        let number = match origin {
            Origin::Column(column) => {
                features[*column as usize].borders = borders;
                *column
            }
            Origin::OneHot { column, category } => {
                derived.push(Derived::OneOf { feature: *column, categories: vec![*category] });
                (features.len() + derived.len() - 1) as u32
            }
            Origin::Ctr { columns, ctr } => {
                let table = projections.iter().position(|p| p == columns).unwrap_or_default();
                let ctr = from.ctr(*ctr);
                let sums = sums_of[table].iter().position(|s| s.same_sums(ctr)).unwrap_or_default() as u32;
                derived.push(Derived::Ctr { table: table as u32, sums, ctr: *ctr, unit: from.unit(ctr), borders });
                (features.len() + derived.len() - 1) as u32
            }
        };
        number_of.insert(origin, number);
    }
    for (id, origin) in from.origins.iter().enumerate() {
        numbers[id] = number_of.get(origin).copied().unwrap_or_default();
    }
    let asked = derived.iter().flat_map(|d| match d {
        Derived::OneOf { feature, .. } => std::slice::from_ref(feature),
        Derived::Ctr { table, .. } => &tables[*table as usize].features,
    });
    for column in asked.copied().collect::<BTreeSet<u32>>() {
        features[column as usize].categories = input.features[column as usize].categories().cloned();
    }
    for s in trees.iter_mut().flat_map(|t| t.splits_mut()) {
        let id = s.feature as usize;
        s.border = used
            .get(&from.origins[id])
            .map_or(s.border, |u| if matches!(from.origins[id], Origin::OneHot { .. }) { s.border } else { u.1.places[s.border as usize] });
        s.feature = numbers[id];
    }
    Questions { features, derived, tables }
}
