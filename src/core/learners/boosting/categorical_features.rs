//! Features that are derived from categorical columns: one-hot questions, statistics of
//! categories, and statistics of combinations, which come into being while a tree grows.
//!
//! ```text
//! from the start   numeric columns, one-hot questions, counters              group 0
//! each permutation the statistics of each column                             a group for each
//! when a tree      the statistics of pairs (triples, …) of a column that     a group for each such
//! has split on     the tree has split on with every other column             column and permutation
//! ```
//!
//! A tree grows under one of the permutations. Each permutation has scores of its own, to which
//! every tree adds what it comes to under that permutation's statistics, so that no row's score
//! ever rests on statistics that knew its target (CatBoost: Prokhorenkova and others, 2018, section
//! 5). With several, the first one grows no tree: leaves of the model have its values. The codes of combinations are kept for the trees to come, as
//! long as memory allows; what is dropped is computed again when it is needed, so that how much is
//! kept never changes a model.

mod ctrs;

use super::params::{BoostingParams, CatMethod};
use super::steps::{GroupId, TreeSteps};
use crate::dataset::Input;
use crate::encoding::ctr::{Ctr, CtrKind, CtrTarget};
use crate::encoding::permutation::permutation;
use crate::error::{Error, Result};
use crate::memory;
use crate::numerics::random::{Purpose, Random};
use crate::parallel::thread_pool::ThreadPool;
use crate::quantize::{CodeSet, CodeSource, CodedFeature};
use crate::tree::grow::Features;
use crate::tree::steps::SearchNode;
use crate::tree::{Split, Tree};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// What a backend's feature is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The values of a column.
    Column(u32),
    /// Whether a column's category is this one.
    OneHot { column: u32, category: u32 },
    /// The categories of a column, which nodes are divided by in subsets: the category of each
    /// code from 1 on.
    Subset { column: u32, categories: Vec<u32> },
    /// A statistic of the categories of a column, or of the combinations of several.
    Ctr { columns: Vec<u32>, ctr: usize },
}

/// A categorical column.
struct Category<'a> {
    column: u32,
    codes: &'a [u32],
    cardinality: usize,
    /// How it is split.
    method: CatMethod,
}

/// The features of a group that was added, and when it was last open.
struct Kept {
    group: GroupId,
    features: std::ops::Range<u32>,
    bytes: usize,
    last_tree: u64,
}

/// Combinations may take so much memory; the longest unused are dropped first.
const MOST_COMBINATION_BYTES: usize = 2 << 30;

/// Combinations of fewer bytes are kept without asking what the machine has.
const LITTLE: usize = 32 << 20;

/// So many categories of a column have codes of their own where nodes are divided by subsets.
const MOST_SUBSET_CATEGORIES: usize = 254;

/// All features of a fit.
pub struct CategoricalFeatures<'a> {
    pool: &'a ThreadPool,
    params: &'a BoostingParams,
    rows: usize,
    categories: Vec<Category<'a>>,
    /// The statistics of each column and each combination.
    ctrs: Vec<Ctr>,
    target: CtrTarget,
    /// The training rows, in order and in each permutation.
    training: Vec<u32>,
    orders: Vec<Vec<u32>>,
    /// Of each feature, by its number at the backend.
    pub origins: Vec<Origin>,
    pub coded: Vec<CodedFeature>,
    /// What each feature is made of.
    columns: Vec<Vec<u32>>,
    /// The borders of each statistic; empty for one that is constant.
    borders: BTreeMap<Vec<u32>, Vec<Vec<f64>>>,
    /// The columns' own statistics under each permutation.
    simple: Vec<Option<Kept>>,
    /// By a column (or a combination) and a permutation: its combinations with every other column.
    combinations: BTreeMap<(Vec<u32>, usize), Kept>,
    /// How many categories, or combinations, occur.
    cardinalities: BTreeMap<Vec<u32>, usize>,
    /// The tree that grows: its number, its permutation, the features that are open, and what has
    /// been combined with every other column.
    tree: u64,
    order: usize,
    open: Vec<u32>,
    combined: BTreeSet<Vec<u32>>,
    /// The features of group 0.
    base: usize,
    /// Columns and combinations whose statistics splits use.
    tables: BTreeSet<Vec<u32>>,
    interaction: Vec<Vec<u32>>,
    /// What nodes were divided by.
    pub subsets: Vec<CodeSet>,
}

/// The features that are there from the start: their codes are made by the backend, or given.
pub enum BaseCodes {
    Column(u32),
    Codes(Vec<u8>),
}

impl BaseCodes {
    /// As the backend takes it.
    pub fn source<'s>(&'s self, input: &'s Input<'_>) -> CodeSource<'s> {
        match self {
            BaseCodes::Column(index) => CodeSource::Values(&input.features[*index as usize]),
            BaseCodes::Codes(codes) => CodeSource::Codes(codes),
        }
    }
}

impl<'a> CategoricalFeatures<'a> {
    /// The features of a table: `numeric` are those of its numeric columns that can split. Gives
    /// also what the codes of group 0 are made from.
    pub fn new(
        pool: &'a ThreadPool,
        input: &Input<'a>,
        params: &'a BoostingParams,
        target: &[f64],
        numeric: Vec<(u32, CodedFeature)>,
    ) -> (Self, Vec<BaseCodes>) {
        let rows = target.len();
        let any = input.features.iter().any(|c| c.category_codes().is_some());
        let trains = |r: &u32| !input.held_out.is_some_and(|h| h[*r as usize]);
        let training: Vec<u32> = if any { (0..rows as u32).filter(trains).collect() } else { vec![] };
        let columns: Vec<(u32, &[u32], usize)> =
            (0..).zip(&input.features).filter_map(|(i, column)| Some((i, column.category_codes()?, column.categories()?.len()))).collect();
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
            categories,
            ctrs,
            target,
            orders: vec![],
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
            features.orders = (0..params.permutations as u64)
                .map(|p| {
                    let order = permutation(features.training.len(), Random::new(params.seed, Purpose::Permutation, p));
                    if features.training.len() == rows {
                        return order;
                    }
                    order.into_par_iter().map(|i| features.training[i as usize]).collect()
                })
                .collect();
        }
        features.simple.resize_with(features.orders.len(), || None);
        (features, base)
    }

    /// A feature that is the same in all rows, so that group 0 is never empty. It is open only where nothing else is: trees
    /// are then of one leaf.
    fn idle(&mut self) -> BaseCodes {
        self.push(Origin::Column(0), CodedFeature { borders: vec![0.5], missing_bin: false, categories: false }, vec![0]);
        BaseCodes::Codes(vec![0; self.rows])
    }

    /// Which columns may meet, for the combinations that are tried.
    pub fn constrain(&mut self, interaction: &[Vec<u32>]) {
        self.interaction = interaction.to_vec();
    }

    /// Group 0: numeric columns, one-hot questions and counters.
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
            base.push(BaseCodes::Codes(codes.iter().map(|c| code_of[*c as usize]).collect()));
        }
        for (column, category, codes) in one_hot {
            let coded = CodedFeature { borders: vec![0.5], missing_bin: false, categories: false };
            self.push(Origin::OneHot { column, category }, coded, vec![column]);
            base.push(BaseCodes::Codes(codes.iter().map(|c| (*c == category) as u8).collect()));
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
                    base.push(BaseCodes::Codes(codes));
                }
            }
        }
        self.base = self.coded.len();
        self.open = (0..self.base as u32).collect();
        base
    }

    fn push(&mut self, origin: Origin, coded: CodedFeature, columns: Vec<u32>) {
        self.origins.push(origin);
        self.coded.push(coded);
        self.columns.push(columns);
    }

    fn category(&self, column: u32) -> &Category<'a> {
        let at = self.categories.partition_point(|c| c.column < column);
        &self.categories[at]
    }

    /// How many sets of scores there are: one for each permutation.
    pub fn sets(&self) -> usize {
        self.orders.len().max(1)
    }

    /// The permutation that a tree grows under.
    pub fn set_of(&self, tree: u64) -> usize {
        let random = Random::new(self.params.seed, Purpose::TreePermutation, tree);
        match self.sets() as u64 {
            1 => 0,
            sets => 1 + (random.u64(0) % (sets - 1)) as usize,
        }
    }

    /// The tree that has just grown, in the features of another permutation.
    ///
    /// # Errors
    /// What the backend reports.
    pub fn translated(&mut self, backend: &mut dyn TreeSteps, tree: &Tree, order: usize) -> Result<Tree> {
        let mut translated = tree.clone();
        for split in translated.splits_mut() {
            split.feature = self.counterpart(backend, split.feature, order)?;
        }
        Ok(translated)
    }

    /// The feature that says under another permutation what this one says under that of the tree.
    fn counterpart(&mut self, backend: &mut dyn TreeSteps, feature: u32, order: usize) -> Result<u32> {
        let place = |kept: &Kept| kept.features.contains(&feature).then(|| feature - kept.features.start);
        if let Some(place) = self.simple[self.order].as_ref().and_then(place) {
            self.add_simple(backend, order)?;
            return Ok(self.simple[order].as_ref().map_or(feature, |kept| kept.features.start + place));
        }
        let open = self.combined.iter().map(|columns| (columns.clone(), self.order));
        let found = open.filter_map(|key| place(self.combinations.get(&key)?).map(|place| (key.0, place))).next();
        let Some((columns, place)) = found else { return Ok(feature) };
        Ok(self.add_combinations(backend, &(columns, order))?.features.start + place)
    }

    /// Adds the columns' own statistics under a permutation, if they are not there.
    fn add_simple(&mut self, backend: &mut dyn TreeSteps, order: usize) -> Result<()> {
        if self.simple[order].is_none() {
            let columns: Vec<u32> = self.categories.iter().filter(|c| c.method == CatMethod::Ctr).map(|c| c.column).collect();
            let projections = columns.iter().map(|c| vec![*c]).collect();
            self.simple[order] = Some(self.add_projections(backend, projections, order, false)?);
        }
        Ok(())
    }

    /// The combinations of a column (or a combination) under a permutation, added if they are not
    /// there.
    fn add_combinations(&mut self, backend: &mut dyn TreeSteps, key: &(Vec<u32>, usize)) -> Result<&Kept> {
        let mut kept = match self.combinations.remove(key) {
            Some(kept) => kept,
            None => {
                let combinations = self.combinations_of(&key.0);
                self.make_room(backend, self.rows * 2 * combinations.len() * self.ctrs.len());
                self.add_projections(backend, combinations, key.1, true)?
            }
        };
        kept.last_tree = self.tree;
        Ok(self.combinations.entry(key.clone()).or_insert(kept))
    }

    /// The columns and combinations that splits on `used` ask about, as far as they have not been
    /// combined with others in this tree.
    fn to_combine(&self, used: &[u32]) -> BTreeSet<Vec<u32>> {
        let most = self.params.max_combination as usize;
        let mut out = BTreeSet::new();
        for feature in used.iter().filter(|_| most > 1 && !self.orders.is_empty()) {
            let columns = match &self.origins[*feature as usize] {
                Origin::Column(_) => continue,
                Origin::OneHot { column, .. } | Origin::Subset { column, .. } => std::slice::from_ref(column),
                Origin::Ctr { columns, .. } => columns,
            };
            if columns.len() < most && !self.combined.contains(columns) {
                out.insert(columns.to_vec());
            }
        }
        out
    }

    /// The combinations of `columns` with every other column.
    fn combinations_of(&self, columns: &[u32]) -> Vec<Vec<u32>> {
        let with = |c: &Category| {
            let mut combination = columns.to_vec();
            combination.push(c.column);
            combination.sort_unstable();
            combination
        };
        let allowed = |combination: &Vec<u32>| {
            let together = self.interaction.is_empty() || self.interaction.iter().any(|g| combination.iter().all(|c| g.contains(c)));
            together && self.key_space(combination).is_some()
        };
        self.categories.iter().filter(|c| !columns.contains(&c.column)).map(with).filter(allowed).collect()
    }

    /// How many tuples of categories there could be, if 64 bits can number them.
    fn key_space(&self, columns: &[u32]) -> Option<u64> {
        columns.iter().try_fold(1u64, |product, c| product.checked_mul(self.category(*c).cardinality as u64))
    }

    /// Drops the combinations that were not open for the longest time, until `more` bytes fit.
    fn make_room(&mut self, backend: &mut dyn TreeSteps, more: usize) {
        let kept: usize = self.combinations.values().map(|k| k.bytes).sum();
        let mut total = more + kept;
        // Of what is kept and what is free together no more than half.
        let free = if total > LITTLE { memory::available() } else { None };
        let most = free.map_or(MOST_COMBINATION_BYTES, |free| MOST_COMBINATION_BYTES.min((free as usize).saturating_add(kept) / 2));
        while total > most {
            let oldest = self.combinations.iter().filter(|(_, k)| k.last_tree < self.tree).min_by_key(|(_, k)| (k.last_tree, k.group));
            let Some(key) = oldest.map(|(key, _)| key.clone()) else { return };
            if let Some(kept) = self.combinations.remove(&key) {
                backend.drop_group(kept.group);
                total -= kept.bytes;
            }
        }
    }

    /// A statistic, by its place in the list.
    pub fn ctr(&self, index: usize) -> &Ctr {
        &self.ctrs[index]
    }

    /// What one unit of a statistic's sums is worth.
    pub fn unit(&self, ctr: &Ctr) -> f64 {
        ctr.unit(self.target.count)
    }

    /// Notes the statistics that a tree's splits use, whose tables the model will carry.
    ///
    /// # Errors
    /// [`Error::Memory`] when they are too large together.
    pub fn note_used<'s>(&mut self, splits: impl Iterator<Item = &'s Split>) -> Result<()> {
        let before = self.tables.len();
        for split in splits {
            if let Origin::Ctr { columns, .. } = &self.origins[split.feature as usize]
                && !self.tables.contains(columns)
            {
                self.tables.insert(columns.clone());
            }
        }
        if self.tables.len() == before {
            return Ok(());
        }
        let entries: u64 = self.tables.iter().map(|columns| self.cardinalities.get(columns).map_or(0, |c| *c as u64)).sum();
        if entries <= self.params.ctr_table_limit {
            return Ok(());
        }
        Err(Error::Memory(format!(
            "the statistics of {} columns and combinations of categories have {entries} entries, more than ctr_table_limit = {}: raise it, or lower `max_combination`",
            self.tables.len(),
            self.params.ctr_table_limit
        )))
    }
}

impl CategoricalFeatures<'_> {
    /// The groups that are open in `tree` from its start, beside group 0.
    ///
    /// # Errors
    /// What the backend reports, and [`Error::Memory`].
    pub fn begin_tree(&mut self, backend: &mut dyn TreeSteps, tree: u64) -> Result<Vec<GroupId>> {
        self.tree = tree;
        self.combined.clear();
        self.open.truncate(self.base);
        let mut groups = vec![];
        if !self.orders.is_empty() {
            self.order = self.set_of(tree);
            self.add_simple(backend, self.order)?;
            if let Some(kept) = self.simple[self.order].as_ref().filter(|kept| !kept.features.is_empty()) {
                self.open.extend(kept.features.clone());
                groups.push(kept.group);
            }
        }
        if self.open.is_empty() {
            // The idle one.
            self.open.push(0);
        }
        Ok(groups)
    }
}

impl<'b> Features<dyn TreeSteps + 'b> for CategoricalFeatures<'_> {
    fn open(&mut self, backend: &mut (dyn TreeSteps + 'b), used: &[u32], nodes: &[SearchNode]) -> Result<()> {
        let order = self.order;
        for columns in self.to_combine(used) {
            let key = (columns, order);
            let kept = self.add_combinations(backend, &key)?;
            let (group, features) = (kept.group, kept.features.clone());
            if !features.is_empty() {
                let ids: Vec<u32> = nodes.iter().map(|n| n.id).collect();
                backend.open_group(group, &ids)?;
                self.open.extend(features);
            }
            self.combined.insert(key.0);
        }
        Ok(())
    }

    fn may_open(&self) -> bool {
        self.params.max_combination > 1 && !self.orders.is_empty()
    }

    fn open_features(&self) -> &[u32] {
        &self.open
    }

    fn columns(&self, feature: u32) -> &[u32] {
        &self.columns[feature as usize]
    }
}
