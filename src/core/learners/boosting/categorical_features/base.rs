//! The features that are there from the start: numeric columns, one-hot columns, subsets of categories, and counters.

use super::{BaseCodes, CategoricalFeatures, Category, Origin, ctrs};
use crate::dataset::{Input, OwnRows};
use crate::encoding::ctr::CtrKind;
use crate::encoding::permutation::permutation;
use crate::learners::boosting::ordered::Pieces;
use crate::learners::boosting::params::{BoostingParams, CatMethod};
use crate::numerics::random::{Purpose, Random};
use crate::parallel::thread_pool::ThreadPool;
use crate::quantize::CodedFeature;
use crate::tree::params::TreeParams;
use rayon::prelude::*;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// At most so many categories of a column have codes of their own where nodes are divided by subsets.
const MOST_SUBSET_CATEGORIES: usize = 254;

impl<'a> CategoricalFeatures<'a> {
    /// Returns the features of a table: `numeric` are those of its numeric columns that can split; of its categorical ones, those do that
    /// have a weight in `tree_params`. Returns also what the codes of group 0 are made from.
    pub fn new(
        pool: &'a ThreadPool,
        (input, own): (&Input<'a>, OwnRows<'a>),
        params: &'a BoostingParams,
        target: &[f64],
        (numeric, tree_params): (Vec<(u32, CodedFeature)>, &TreeParams),
    ) -> (Self, Vec<BaseCodes>) {
        let rows = target.len();
        let any = input.features.iter().any(|c| c.category_codes().is_some());
        let trains = |r: &u32| !input.held_out.is_some_and(|h| h[*r as usize]);
        let training: Vec<u32> = if any || params.is_ordered() { (0..rows as u32).filter(trains).collect() } else { vec![] };
        let columns: Vec<(u32, &[u32], usize)> =
            (0..).zip(&input.features).filter_map(|(i, column)| Some((i, column.category_codes()?, column.categories()?.len()))).collect();
        let columns: Vec<_> = columns.into_iter().filter(|(column, ..)| tree_params.weight(&[*column]) > 0.0).collect();
        let distinct = pool.deal(
            columns.len(),
            || (),
            |(), i| {
                let (_, codes, cardinality) = columns[i];
                let mut seen = vec![false; cardinality];
                training.iter().for_each(|r| seen[codes[*r as usize] as usize] = true);
                seen.iter().filter(|s| **s).count()
            },
        );
        let mut categories = vec![];
        for ((column, codes, cardinality), distinct) in columns.into_iter().zip(distinct).filter(|(_, distinct)| *distinct >= 2) {
            let method = if distinct <= params.one_hot_max_size as usize { CatMethod::OneHot } else { params.cat_method };
            categories.push(Category { column, codes, cardinality, method });
        }
        let (ctrs, target) = ctrs::statistics(input, params, target, &training, !categories.is_empty());
        let mut features = CategoricalFeatures {
            pool,
            params,
            rows,
            own,
            categories,
            ctrs,
            target,
            orders: vec![],
            sets: 1,
            pieces: Pieces::default(),
            training,
            origins: vec![],
            coded: vec![],
            columns: vec![],
            borders: BTreeMap::new(),
            simple: vec![],
            combinations: BTreeMap::new(),
            cardinalities: BTreeMap::new(),
            tree: 0,
            order: 0,
            open: vec![],
            combined: BTreeSet::new(),
            base: 0,
            tables: BTreeSet::new(),
            interaction: vec![],
            subsets: vec![],
        };
        let mut base = features.base(numeric);
        let any_ctr = features.categories.iter().any(|c| c.method == CatMethod::Ctr);
        if base.is_empty() {
            base.push(features.idle());
        }
        if any_ctr || (params.max_combination > 1 && features.categories.len() > 1 && params.cat_method == CatMethod::Ctr) {
            features.orders = (0..params.permutations as u64).map(|p| features.permuted(input, p)).collect();
        }
        features.sets = features.orders.len().max(1);
        if params.is_ordered() {
            features.sets = params.ordered_sets();
            let order = |set: usize| match features.orders.get(features.order_of(set)) {
                Some(order) => Cow::Borrowed(&order[..]),
                None => Cow::Owned(features.permuted(input, features.order_of(set) as u64)),
            };
            features.pieces = Pieces::new((1..features.sets).map(order), rows);
        }
        features.simple.resize_with(features.orders.len(), || None);
        (features, base)
    }

    /// Returns the training rows in permutation `p`: in the order of the table's column, where there is one, else in a random one.
    fn permuted(&self, input: &Input<'_>, p: u64) -> Vec<u32> {
        if let Some(places) = &input.order {
            let mut order = self.training.clone();
            order.par_sort_unstable_by_key(|row| (places[*row as usize], *row));
            return order;
        }
        let order = permutation(self.training.len(), Random::new(self.params.seed, Purpose::Permutation, p));
        if self.training.len() == self.rows {
            return order;
        }
        order.into_par_iter().map(|i| self.training[i as usize]).collect()
    }

    /// Returns a feature that is the same in all rows, so that group 0 is never empty. It is open only where nothing else is:
    /// trees are then of one leaf.
    fn idle(&mut self) -> BaseCodes {
        self.push(Origin::Column(0), CodedFeature { borders: vec![0.5], missing_bin: false, categories: false }, vec![0]);
        BaseCodes::Codes(vec![0; self.own.count])
    }

    /// Makes group 0 of numeric columns, one-hot columns, subsets of categories and counters; returns what their codes are made from.
    fn base(&mut self, numeric: Vec<(u32, CodedFeature)>) -> Vec<BaseCodes> {
        let mut base = vec![];
        for (column, coded) in numeric {
            self.push(Origin::Column(column), coded, vec![column]);
            base.push(BaseCodes::Column(column));
        }
        let mut one_hot = vec![];
        let mut subsets = vec![];
        for c in self.categories.iter().filter(|c| c.method != CatMethod::Ctr) {
            let mut counts = vec![0u32; c.cardinality];
            self.training.iter().for_each(|r| counts[c.codes[*r as usize] as usize] += 1);
            let mut present: Vec<u32> = (0..c.cardinality as u32).filter(|k| counts[*k as usize] > 0).collect();
            if c.method == CatMethod::Partition {
                // The most frequent ones have codes of their own; at a tie the first to appear.
                present.sort_by_key(|k| std::cmp::Reverse(counts[*k as usize]));
                present.truncate(MOST_SUBSET_CATEGORIES);
                subsets.push((c.column, present, c.codes, c.cardinality));
                continue;
            }
            // Of two categories one question says all.
            let asked = if present.len() == 2 { &present[1..] } else { &present[..] };
            one_hot.extend(asked.iter().map(|k| (c.column, *k, c.codes)));
        }
        for (column, categories, codes, cardinality) in subsets {
            let mut code_of = vec![0u8; cardinality];
            categories.iter().zip(1..).for_each(|(category, code)| code_of[*category as usize] = code);
            let borders = (0..categories.len()).map(|i| i as f64 + 0.5).collect();
            let coded = CodedFeature { borders, missing_bin: false, categories: true };
            self.push(Origin::Subset { column, categories }, coded, vec![column]);
            base.push(BaseCodes::Codes(codes[self.own.range()].iter().map(|c| code_of[*c as usize]).collect()));
        }
        for (column, category, codes) in one_hot {
            let coded = CodedFeature { borders: vec![0.5], missing_bin: false, categories: false };
            self.push(Origin::OneHot { column, category }, coded, vec![column]);
            base.push(BaseCodes::Codes(codes[self.own.range()].iter().map(|c| (*c == category) as u8).collect()));
        }
        let counters: Vec<usize> = (0..self.ctrs.len()).filter(|i| self.ctrs[*i].kind == CtrKind::Counter).collect();
        let columns: Vec<u32> = self.categories.iter().filter(|c| c.method == CatMethod::Ctr).map(|c| c.column).collect();
        let made = self.pool.deal(
            columns.len(),
            || (),
            |(), i| {
                let c = self.category(columns[i]);
                counters.iter().map(|k| self.counter(*k, c.codes, c.cardinality)).collect::<Vec<_>>()
            },
        );
        for (column, made) in columns.into_iter().zip(made) {
            self.cardinalities.insert(vec![column], self.category(column).cardinality);
            for (ctr, (borders, codes)) in counters.iter().zip(made) {
                if !borders.is_empty() {
                    let coded = CodedFeature { borders, missing_bin: false, categories: false };
                    self.push(Origin::Ctr { columns: vec![column], ctr: *ctr }, coded, vec![column]);
                    base.push(BaseCodes::Codes(self.own.of(codes)));
                }
            }
        }
        self.base = self.coded.len();
        self.open = (0..self.base as u32).collect();
        base
    }
}
