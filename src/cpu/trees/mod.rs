//! Boosted trees on the CPU: rows are dealt to threads for a whole fit, their statistics are summed exactly in packed
//! histograms over rows of codes, and the histograms are merged and searched by feature.
//!
//! Two parallel steps a level: each thread partitions its own rows and sums its partial histograms (`shard.rs`); then each
//! merges, subtracts and searches its own features (`feature_share.rs`, `evaluate_splits.rs`).

mod between_processes;
mod bins;
mod buffer;
mod category_subsets;
pub mod codes;
mod dropouts;
mod evaluate_shared;
mod evaluate_splits;
mod feature_groups;
mod feature_share;
mod fill;
mod gradient_quantizer;
mod group_derivatives;
mod grow_steps;
pub mod histogram;
mod lanes;
mod leaf_steps;
mod level_partition;
mod needed;
mod ordered;
mod partition;
mod position_factors;
mod presorted;
mod score_bounds;
mod shard;
mod shared_bounds;
mod shared_scores;
mod sparse_bins;
mod sparse_features;
mod split_scores;
mod tree_steps;

use self::feature_groups::Group;
use self::gradient_quantizer::GradientQuantizer;
use self::group_derivatives::GroupedRows;
use self::lanes::SharedTree;
use self::presorted::Presorted;
use shard::levels::expects_whole_levels;
use shard::{Shard, TreeContext};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use taiga_core::collective::RowShard;
use taiga_core::error::{Error, Result};
use taiga_core::learners::boosting::bundling;
use taiga_core::learners::boosting::layout::StoragePlan;
use taiga_core::learners::boosting::ordered::PAIRS;
use taiga_core::learners::boosting::row_sampler::RowSampling;
use taiga_core::learners::boosting::steps::TrainingData;
use taiga_core::numerics::random::Random;
use taiga_core::parallel::thread_pool::ThreadPool;
use taiga_core::quantize::codes::Quantizer;
use taiga_core::quantize::{CodeSet, CodedFeature};
use taiga_core::spill::SpillFolder;
use taiga_core::tree::params::RowCounts;
use taiga_core::tree::steps::NodeId;

/// Grows boosted trees on a pool's threads: the rows with their codes, the histograms, and the tree that grows.
pub struct CpuTrees<'a> {
    pool: &'a ThreadPool,
    features: Vec<CodedFeature>,
    groups: Vec<Group>,
    shards: Vec<RwLock<Shard>>,
    /// Room for the histograms of groups that are to come: what dropped ones had.
    spare_slots: Vec<Vec<i64>>,
    /// Whether every shard has all rows, and sums the histograms of its thread's features alone ([`replicates`]).
    replicated: bool,
    /// How trees are searched, if by sorted rows.
    presorted: Option<Presorted>,
    rows: usize,
    training_rows: usize,
    /// Whether the scores of all rows are measured.
    measures_all: bool,
    /// Where these rows stand among all rows of the table.
    of: RowShard<'a>,
    row_sampling: RowSampling,
    row_counts: RowCounts,
    /// How many histograms a node has: one for each output that shares the tree, or for each body and tail of each.
    outputs: usize,
    weighted: bool,
    seed: u64,
    /// The rows by group, for losses that need them so.
    grouped: Option<GroupedRows>,
    /// The number of the tree that grows.
    tree: u64,
    /// How the derivatives of the tree that grows become integers.
    quantizer: Option<GradientQuantizer>,
    /// Where several outputs share it, what there is of each.
    shared: Option<SharedTree>,
    rounding: Random,
    output: usize,
    leaves: Vec<NodeId>,
    /// The subsets of categories that nodes were divided by, or could have been.
    subsets: Vec<CodeSet>,
    /// Room for the sums that go to other processes and come back.
    exchanged: RwLock<Vec<i64>>,
    /// Where what is kept of each row lies, if not in memory.
    spill: Option<SpillFolder>,
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// Tables of up to so many rows for each column are small beside the histograms of a tree.
const ROWS_A_COLUMN: usize = 256;

/// Stands for the slot of a node without a histogram.
const NO_SLOT: usize = usize::MAX;

impl<'a> CpuTrees<'a> {
    /// Deals the rows to the pool's threads and makes their codes.
    ///
    /// # Errors
    /// [`Error::Memory`], and on an interrupt.
    pub fn new(pool: &'a ThreadPool, mut data: TrainingData<'a>, interrupted: &(dyn Fn() -> bool + Sync)) -> Result<Self> {
        let rows = data.target.len();
        if rows >= u32::MAX as usize {
            return Err(Error::Data(format!("{rows} rows are more than a fit can hold (4,294,967,294)")));
        }
        let n = pool.size();
        let quantizers: Vec<Quantizer> = data.features.iter().map(|f| Quantizer::new(&f.borders)).collect();
        // How features are stored is told by the rows: other shards would store them otherwise.
        let (plan, exceptions) = if data.shard.is_whole() && bundling::worthwhile(&data) {
            bundling::plan(pool, &data, &quantizers, interrupted)?
        } else {
            (StoragePlan::dense(data.features, true), vec![])
        };
        let presorted = presorted::chosen(&data, &plan, n);
        let replicated = n > 1 && data.shard.is_whole() && data.batches.is_none() && (presorted.is_some() || replicates(rows, n, &plan));
        let grouped = GroupedRows::new(&mut data)?;
        let listed = !expects_whole_levels(&data, &plan, presorted.is_some());
        let _reserved = needed::shards(&data, &plan, &exceptions, n, (replicated, presorted, listed), grouped.as_ref())?;
        let group = Group::new(data.features, plan, (0, 0), data.row_counts.any(), n, data.shard.collective).shared_by(lanes_of(&data));
        let spill = data.batches.and_then(|batched| batched.batches.spill());
        let shards = pool.step(|t| -> Result<RwLock<Shard>> {
            let dealt = if replicated { (0, 1) } else { (t, n) };
            let mut shard = Shard::new(rows, data.shard, dealt.0, dealt.1, data.scores.len(), spill)?;
            if listed {
                shard.make_lists(spill)?;
            }
            fill::rows(&mut shard, &data)?;
            Ok(RwLock::new(shard))
        });
        let shards = shards.into_iter().collect::<Result<Vec<_>>>()?;
        // The shards have these rows now, and codes are larger.
        (data.target, data.more_targets, data.weight) = (vec![], vec![], data.weight.map(|_| vec![]));
        (data.scores, data.columns) = (vec![], vec![]);
        let filled = pool.step(|t| {
            let part = if replicated { (t, n) } else { (0, 1) };
            fill::codes(
                &mut write(&shards[t]),
                (rows, presorted.is_some()),
                &group.plan,
                &data,
                &quantizers,
                &exceptions,
                part,
                interrupted,
            )
        });
        filled.into_iter().collect::<Result<Vec<_>>>()?;
        if let Some(batched) = data.batches {
            fill::batched_codes(pool, &shards, &group.plan, &data, batched, &quantizers, interrupted)?;
        }
        if replicated {
            exchange(&shards);
        }
        if let Some(presorted) = presorted {
            pool.step(|t| write(&shards[t]).sort_rows(0, data.features, 0, data.row_counts.any(), presorted));
        }
        let held_out = data.held_out.map_or(0, |h| h.iter().filter(|x| **x).count());
        Ok(CpuTrees {
            pool,
            features: data.features.to_vec(),
            groups: vec![group],
            shards,
            spare_slots: vec![],
            presorted,
            replicated,
            rows,
            training_rows: rows - held_out,
            measures_all: data.measures_all,
            of: data.shard,
            row_sampling: data.row_sampling,
            row_counts: data.row_counts,
            outputs: lanes_of(&data),
            weighted: data.weight.is_some(),
            seed: data.seed,
            grouped,
            tree: 0,
            quantizer: None,
            shared: None,
            rounding: Random::rounding(0),
            output: 0,
            subsets: vec![],
            exchanged: RwLock::default(),
            leaves: vec![],
            spill: spill.cloned(),
        })
    }

    /// Returns whether the shards' rows can be listed.
    fn has_lists(&self) -> bool {
        self.shards.iter().all(|shard| read(shard).has_lists())
    }

    /// Makes room for the lists of all shards' rows, where there is none yet.
    ///
    /// # Errors
    /// [`Error::Memory`]; that of a full disk.
    fn make_lists(&self) -> Result<()> {
        if self.has_lists() {
            return Ok(());
        }
        let _reserved = needed::lists(self.rows, self.spill.is_some())?;
        self.shards.iter().try_for_each(|shard| write(shard).make_lists(self.spill.as_ref()))
    }

    /// Returns the shards that have all rows between them, each row once.
    fn row_shards(&self) -> &[RwLock<Shard>] {
        if self.replicated { &self.shards[..1] } else { &self.shards }
    }

    /// Keeps the results of [`CpuTrees::row_shards`], one for each shard, so that each row counts once.
    fn by_rows<R>(&self, mut results: Vec<R>) -> Vec<R> {
        results.truncate(self.row_shards().len());
        results
    }

    fn tree_context<'b>(&'b self, quantizer: &'b GradientQuantizer) -> TreeContext<'b> {
        TreeContext {
            output: self.output,
            quantizer,
            shared: self.shared.as_ref(),
            rounding: self.rounding,
            features: &self.features,
            groups: &self.groups,
            subsets: &self.subsets,
        }
    }

    fn quantizer(&self) -> Result<&GradientQuantizer> {
        self.quantizer.as_ref().ok_or_else(|| Error::Data("a step of a tree that was not begun".into()))
    }

    /// Returns how this tree is searched, if by sorted rows.
    fn presorted_search(&self) -> Option<Presorted> {
        read(&self.shards[0]).presorted
    }
}

/// Returns how many histograms a node has: of each output that shares a tree one, and under ordered boosting one of each body and each tail
/// that splits are scored by.
fn lanes_of(data: &TrainingData<'_>) -> usize {
    data.shared * (2 * data.pieces.bodies.min(PAIRS)).max(1)
}

/// Returns whether each of several threads gets all rows and some of the features, not all features and some of the rows. Each thread then
/// computes the derivatives of all rows and partitions them all, but histograms stay with the thread that searches them: where
/// histograms are large and rows are few, they cost the most.
fn replicates(rows: usize, threads: usize, plan: &StoragePlan) -> bool {
    let columns = plan.column_codes.len();
    let bytes = rows.saturating_mul(columns).saturating_mul(threads);
    plan.sparse.is_empty() && rows <= ROWS_A_COLUMN * columns && bytes <= fill::MOST_COLUMN_BYTES && columns >= 2 * threads
}

/// Gives all shards the codes by column that each of them has made.
fn exchange(shards: &[RwLock<Shard>]) {
    let mut all = write(&shards[0]).groups[0].columns.take();
    for shard in &shards[1..] {
        let group = &read(shard).groups[0];
        if let (Some(all), Some(made)) = (&mut all, &group.columns) {
            all.features_mut(&group.own).copy_from_slice(made.features(&group.own));
        }
    }
    shards.iter().for_each(|shard| write(shard).groups[0].columns.clone_from(&all));
}
