//! Two models, of which one went on from the other, as one.

use super::{CtrTable, Derived, Model, Units};
use crate::encoding::ctr::CtrKind;
use crate::error::{Error, Result};
use crate::tree::linear::LinearLeaf;
use std::collections::BTreeMap;

/// What a derived feature asks, with what a fit orders derived features by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Question {
    /// The column and the categories.
    OneOf(u32, Vec<u32>),
    /// The columns; the place of the statistic among those of a fit: its kind, its class and its prior.
    Ctr(Vec<u32>, [usize; 3]),
}

/// The features of two models as one list.
struct Joined {
    /// Of each derived feature its question, in order, and where it stands in either model.
    questions: BTreeMap<Question, [Vec<usize>; 2]>,
    tables: Vec<JoinedTable>,
}

impl Model {
    /// Returns this model with the trees of `later` behind its own, where `later` is what a fit that went on from this one has fitted: as
    /// the model of all these rounds in one fit is, down to its bytes. What is said of a fit (parameters, rows, the metric's curve) is
    /// that of `later`. Borders of both are kept, and categories that only `later` knows are numbered behind those of this one.
    ///
    /// # Errors
    /// [`Error::Column`] where both have statistics of the same categories and these differ, because the rows do;
    /// [`Error::Parameter`] where one finds numbers by hashes, which no fit makes.
    pub(in super::super) fn joined(mut self, mut later: Model) -> Result<Model> {
        if self.derived.iter().chain(&later.derived).any(|d| matches!(d, Derived::Hashed { .. })) {
            return Err(Error::parameter("init_model", "its statistics of categories are another library's, with which no fit goes on"));
        }
        self.rescale(&later);
        later.rescale(&self);
        for column in 0..self.features.len() {
            let own = self.features[column].categories.take();
            let categories = match (own, later.features[column].categories.take()) {
                (Some(own), Some(others)) => {
                    let (all, numbers) = own.joined(&others);
                    later.renumber_categories(column as u32, &numbers);
                    Some(all)
                }
                (own, others) => own.or(others),
            };
            for model in [&mut self, &mut later] {
                model.features[column].categories.clone_from(&categories);
            }
        }
        let Joined { questions, tables } = Joined::new([&self, &later])?;
        let columns = self.features.len();
        // Of each feature of both: its number, and the places of its borders.
        let mut numbers: [Vec<(u32, Vec<u32>)>; 2] = [vec![], vec![]];
        for column in 0..columns {
            let (borders, places) = union(&self.features[column].borders, &later.features[column].borders);
            numbers.iter_mut().zip(places).for_each(|(numbers, places)| numbers.push((column as u32, places)));
            self.features[column].borders = borders;
        }
        let mut derived = vec![];
        let mut of_derived: [Vec<(u32, Vec<u32>)>; 2] =
            [vec![Default::default(); self.derived.len()], vec![Default::default(); later.derived.len()]];
        for (question, at) in questions {
            let number = (columns + derived.len()) as u32;
            let (one, places) = question.feature([&self, &later], &at, &tables);
            derived.extend(one);
            for (of, (at, places)) in of_derived.iter_mut().zip(at.iter().zip(places)) {
                at.iter().for_each(|i| of[*i] = (number, places.clone()));
            }
        }
        for (numbers, derived) in numbers.iter_mut().zip(of_derived) {
            numbers.extend(derived);
        }
        for (model, numbers) in [&mut self, &mut later].into_iter().zip(&numbers) {
            for split in model.trees.iter_mut().flat_map(|t| t.splits_mut()) {
                let (number, places) = &numbers[split.feature as usize];
                (split.feature, split.border) = (*number, places[split.border as usize]);
            }
        }
        let mut trees = self.trees;
        let before = trees.len() as u32;
        trees.append(&mut later.trees);
        let mut linear = self.linear;
        linear.extend(later.linear.drain(..).map(|leaf| LinearLeaf { tree: before + leaf.tree, ..leaf }));
        let tables = tables.into_iter().map(|t| t.table).collect();
        let mut model = Model { features: self.features, derived, tables, trees, linear, ..later };
        model.keep_used();
        model.settle_units();
        Ok(model)
    }

    /// Brings leaf values, gains and weights into the larger one of this model's units and another's.
    fn rescale(&mut self, other: &Model) {
        if other.scale > self.scale {
            let by = self.scale / other.scale;
            let values = self.trees.iter_mut().flat_map(|t| t.leaves_mut());
            values.for_each(|leaf| leaf.rescale(by));
            self.linear.iter_mut().for_each(|leaf| leaf.rescale(by));
            self.scale = other.scale;
        }
        let exponent = |own: f64, other: f64| if other > own { libm::ilogb(own) - libm::ilogb(other) } else { 0 };
        let (gain, weight) = (exponent(self.units.gain, other.units.gain), exponent(self.units.weight, other.units.weight));
        let shift = |x: f32, by: i32| libm::ldexp(x as f64, by) as f32;
        for tree in &mut self.trees {
            if gain != 0 {
                tree.splits_mut().for_each(|s| s.gain = shift(s.gain, gain));
            }
            if weight != 0 {
                tree.leaves_mut().iter_mut().for_each(|leaf| leaf.weight = shift(leaf.weight, weight));
            }
        }
        self.units = Units { gain: self.units.gain.max(other.units.gain), weight: self.units.weight.max(other.units.weight) };
    }

    /// Numbers the categories of a column anew in what asks about them one by one.
    fn renumber_categories(&mut self, column: u32, numbers: &[u32]) {
        for derived in &mut self.derived {
            if let Derived::OneOf { feature, categories } = derived
                && *feature == column
            {
                categories.iter_mut().for_each(|c| *c = numbers[*c as usize]);
                categories.sort_unstable();
            }
        }
    }

    /// Returns what a derived feature asks.
    fn question(&self, derived: &Derived) -> Question {
        match derived {
            Derived::OneOf { feature, categories } => Question::OneOf(*feature, categories.clone()),
            // Of models that are joined none is.
            Derived::Hashed { table, .. } => Question::Ctr(self.tables[*table as usize].features.clone(), [usize::MAX; 3]),
            Derived::Ctr { table, ctr, .. } => {
                let kinds = self.params.ctr_kinds(self.labels.is_some());
                let kind = kinds.iter().position(|k| *k == ctr.kind).unwrap_or(kinds.len());
                let prior = self.params.ctr_priors.iter().position(|p| *p == ctr.prior).unwrap_or_default();
                Question::Ctr(self.tables[*table as usize].features.clone(), [kind, ctr.class as usize, prior])
            }
        }
    }
}

impl Question {
    /// Returns the derived feature that asks it, and of both models the places of its borders; `at`: where each has it.
    fn feature(&self, models: [&Model; 2], at: &[Vec<usize>; 2], tables: &[JoinedTable]) -> (Option<Derived>, [Vec<u32>; 2]) {
        let of = |side: usize| at[side].first().map(|i| &models[side].derived[*i]);
        let mut one = of(0).or(of(1)).cloned();
        let mut places = [vec![0, 1], vec![0, 1]];
        if let (Question::Ctr(columns, _), Some(Derived::Ctr { table, sums, ctr, borders, .. })) = (self, &mut one) {
            let index = tables.iter().position(|t| t.table.features == *columns).unwrap_or_default();
            let own = tables[index].sums.iter().position(|of| *of == (ctr.kind, ctr.class));
            (*table, *sums) = (index as u32, own.unwrap_or_default() as u32);
            let both = [0, 1].map(|side| of(side).map_or(&[][..], Derived::borders));
            (*borders, places) = union(both[0], both[1]);
        }
        (one, places)
    }
}

/// A table of either model or both, and which statistics its sums are of.
struct JoinedTable {
    table: CtrTable,
    sums: Vec<(CtrKind, u8)>,
}

impl Joined {
    fn new(models: [&Model; 2]) -> Result<Joined> {
        let (mut questions, mut tables) = (BTreeMap::<Question, [Vec<usize>; 2]>::new(), BTreeMap::<&[u32], JoinedTable>::new());
        for (side, model) in models.into_iter().enumerate() {
            for (i, derived) in model.derived.iter().enumerate() {
                questions.entry(model.question(derived)).or_default()[side].push(i);
                let Derived::Ctr { table, sums, ctr, .. } = derived else { continue };
                let own = &model.tables[*table as usize];
                let without_sums = || JoinedTable { table: CtrTable { sums: vec![], ..own.clone() }, sums: vec![] };
                let all = tables.entry(&own.features).or_insert_with(without_sums);
                if (&all.table.keys, &all.table.n) != (&own.keys, &own.n) {
                    let column = &models[0].features[own.features[0] as usize].name;
                    return Err(Error::column(column, "the statistics of its categories are not those of the given model's rows"));
                }
                if ctr.kind != CtrKind::Counter && !all.sums.contains(&(ctr.kind, ctr.class)) {
                    all.table.sums.push(own.sums[*sums as usize].clone());
                    all.sums.push((ctr.kind, ctr.class));
                }
            }
        }
        Ok(Joined { questions, tables: tables.into_values().collect() })
    }
}

/// Returns two ascending lists as one, and of each border of either (and of the place behind its last) where it stands there.
fn union(own: &[f64], others: &[f64]) -> (Vec<f64>, [Vec<u32>; 2]) {
    let mut all: Vec<f64> = own.iter().chain(others).copied().collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    let places = |of: &[f64]| {
        let place = |x: &f64| all.partition_point(|y| y < x) as u32;
        of.iter().map(place).chain([all.len() as u32]).collect()
    };
    let places = [places(own), places(others)];
    (all, places)
}
