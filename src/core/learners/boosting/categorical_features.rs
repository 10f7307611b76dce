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
//! 5). With several, the first one grows no tree: leaves of the model have its values. The codes of combinations are kept for
//! the trees to come, as long as memory allows; what is dropped is computed again when it is needed, so that how much is kept
//! never changes a model.

mod base;
mod combinations;
mod ctrs;

use super::ordered::Pieces;
use super::params::{BoostingParams, CatMethod};
use super::steps::{GroupId, TreeSteps};
use crate::dataset::{Input, OwnRows};
use crate::encoding::ctr::{Ctr, CtrTarget};
use crate::error::{Error, Result};
use crate::numerics::random::{Purpose, Random};
use crate::parallel::thread_pool::ThreadPool;
use crate::quantize::{CodeSet, CodeSource, CodedFeature};
use crate::tree::grow::Features;
use crate::tree::steps::SearchNode;
use crate::tree::{Split, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// The columns and categories that a device's feature is made of.
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

/// All features of a fit, numeric and categorical, with the statistics of categories that come into being while it runs.
pub struct CategoricalFeatures<'a> {
    pool: &'a ThreadPool,
    params: &'a BoostingParams,
    rows: usize,
    /// The rows that the device has.
    own: OwnRows<'a>,
    categories: Vec<Category<'a>>,
    /// The statistics of each column and each combination.
    ctrs: Vec<Ctr>,
    target: CtrTarget,
    /// The training rows, in order and in each permutation.
    training: Vec<u32>,
    orders: Vec<Vec<u32>>,
    /// How many sets of scores there are.
    sets: usize,
    /// What becomes of permutations under ordered boosting; of a fit without it nothing.
    pub pieces: Pieces,
    /// Of each feature, by its number at the device.
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

/// The features that are there from the start: their codes are made by the device, or given.
pub enum BaseCodes {
    Column(u32),
    Codes(Vec<u8>),
}

impl BaseCodes {
    /// Returns the column whose values they are of.
    pub fn column(&self) -> Option<u32> {
        match self {
            BaseCodes::Column(index) => Some(*index),
            BaseCodes::Codes(_) => None,
        }
    }

    /// Returns the source of the codes as the device takes it. `coded`: whether numeric columns are codes already.
    pub fn source<'s>(&'s self, input: &'s Input<'_>, coded: bool) -> CodeSource<'s> {
        match self {
            BaseCodes::Column(index) => {
                let column = &input.features[*index as usize];
                column.bytes().filter(|_| coded).map_or(CodeSource::Values(column), CodeSource::Codes)
            }
            BaseCodes::Codes(codes) => CodeSource::Codes(codes),
        }
    }
}

impl<'a> CategoricalFeatures<'a> {
    /// Notes which columns may meet in a combination.
    pub fn constrain(&mut self, interaction: &[Vec<u32>]) {
        self.interaction = interaction.to_vec();
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

    /// Returns how many sets of scores there are: one for each permutation. Under [ordered boosting](super::ordered) the model has one of
    /// its own, of the first permutation, which is then the only one that may serve two.
    pub fn sets(&self) -> usize {
        self.sets
    }

    /// Returns the permutation of a set of scores.
    fn order_of(&self, set: usize) -> usize {
        set.min(self.params.permutations as usize - 1)
    }

    /// Returns whether statistics are made of rows in the order of permutations.
    pub fn orders_rows(&self) -> bool {
        !self.orders.is_empty()
    }

    /// Returns the set of scores that a tree grows under.
    pub fn set_of(&self, tree: u64) -> usize {
        let random = Random::new(self.params.seed, Purpose::TreePermutation, tree);
        match self.sets() as u64 {
            1 => 0,
            sets => 1 + (random.u64(0) % (sets - 1)) as usize,
        }
    }

    /// Returns the tree that has just grown, in the features of another set of scores.
    ///
    /// # Errors
    /// What the device reports.
    pub fn translated(&mut self, backend: &mut dyn TreeSteps, tree: &Tree, set: usize) -> Result<Tree> {
        let (mut translated, order) = (tree.clone(), self.order_of(set));
        let differs = self.orders_rows() && order != self.order;
        for split in translated.splits_mut().filter(|_| differs) {
            split.feature = self.counterpart(backend, split.feature, order)?;
        }
        Ok(translated)
    }

    /// Returns of each feature the column whose numbers it has, where it is no question about categories.
    pub fn columns_of_numbers(&self) -> Vec<Option<u32>> {
        self.origins.iter().map(|origin| if let Origin::Column(column) = origin { Some(*column) } else { None }).collect()
    }

    /// Returns a statistic, by its place in the list.
    pub fn ctr(&self, index: usize) -> &Ctr {
        &self.ctrs[index]
    }

    /// Returns what one unit of a statistic's sums is worth.
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
    /// Returns the groups that are open in `tree` from its start, beside group 0.
    ///
    /// # Errors
    /// What the device reports, and [`Error::Memory`].
    pub fn begin_tree(&mut self, backend: &mut dyn TreeSteps, tree: u64) -> Result<Vec<GroupId>> {
        self.tree = tree;
        self.combined.clear();
        self.open.truncate(self.base);
        let mut groups = vec![];
        if !self.orders.is_empty() {
            self.order = self.order_of(self.set_of(tree));
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
                backend.groups().open_group(group, &ids)?;
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

    fn borders(&self, feature: u32) -> Option<u32> {
        let coded = &self.coded[feature as usize];
        (!coded.categories).then_some(coded.borders.len() as u32)
    }
}
