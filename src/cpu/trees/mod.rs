//! The CPU backend: rows dealt to threads for a whole fit, exact packed histograms over rows of
//! codes, merged and searched by feature.
//!
//! Two parallel steps a level: each thread parts its own rows and sums its partial histograms
//! (`shard.rs`); then each merges, subtracts and searches its own features (`search.rs`).

mod bins;
mod buffer;
mod category_subsets;
pub mod codes;
mod evaluate_splits;
mod feature_groups;
mod fill;
mod gradient_quantizer;
pub mod histogram;
mod level_partition;
mod needed;
mod partition;
mod presorted;
mod shard;
mod sparse_bins;
mod sparse_features;
mod split_scores;

use self::evaluate_splits::{FeatureShare, FoundSplit, Merge, Pending};
use self::feature_groups::{Group, group_of};
use self::gradient_quantizer::{BATCH, GradientQuantizer, Magnitudes, Plane};
use bins::NodeHistogram;
use shard::{Shard, ShardGroup, TreeContext};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use taiga_core::collective::RowShard;
use taiga_core::error::{Error, Result};
use taiga_core::learners::boosting::layout::StoragePlan;
use taiga_core::learners::boosting::params::RowSample;
use taiga_core::learners::boosting::row_sampler::{Draw, KeyCounts};
use taiga_core::learners::boosting::steps::{Begun, GroupId, LeafSums, TrainingData, TreeRequest, TreeSteps};
use taiga_core::learners::boosting::{bundling, row_sampler};
use taiga_core::losses::Loss;
use taiga_core::numerics::random::{Purpose, Random};
use taiga_core::numerics::reduce::weighted_quantile;
use taiga_core::parallel::thread_pool::ThreadPool;
use taiga_core::quantize::codes::Quantizer;
use taiga_core::quantize::{CodeSet, CodedFeature};
use taiga_core::tree::Tree;
use taiga_core::tree::split::{SplitRules, Sums};
use taiga_core::tree::steps::Speculation;
use taiga_core::tree::steps::{Candidate, Division, GrowSteps, NodeId, SearchNode};

/// Work on a pool's threads.
pub struct CpuTrees<'a> {
    pool: &'a ThreadPool,
    features: Vec<CodedFeature>,
    groups: Vec<Group>,
    shards: Vec<RwLock<Shard>>,
    /// Whether every shard has all rows, and sums the features of its thread alone ([`replicates`]).
    replicated: bool,
    rows: usize,
    training_rows: usize,
    /// Those rows among all of the table.
    of: RowShard<'a>,
    row_sample: RowSample,
    row_fraction: f64,
    l2: f32,
    count_rows: bool,
    weighted: bool,
    seed: u64,
    /// The tree that grows.
    encoding: Option<GradientQuantizer>,
    rounding: Random,
    output: usize,
    leaves: Vec<NodeId>,
    /// What nodes were divided by, or could have been.
    subsets: Vec<CodeSet>,
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// The partial histograms of a thread that are kept before they are merged, unless one is larger.
const PARTIAL_BYTES: usize = 8 << 20;

/// Tables of up to so many rows for each column are small beside the histograms of a tree.
const ROWS_A_COLUMN: usize = 256;

/// Leaves that are divided together under the policy by leaves: more would be divided for nothing too often.
const MOST_AT_ONCE: usize = 32;

/// The slot of a node without a histogram.
const NO_SLOT: usize = usize::MAX;

impl<'a> CpuTrees<'a> {
    /// Deals the rows to the pool's threads and makes their codes.
    ///
    /// # Errors
    /// [`Error::Memory`], and on an interrupt.
    pub fn new(pool: &'a ThreadPool, data: TrainingData<'a>, interrupted: &(dyn Fn() -> bool + Sync)) -> Result<Self> {
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
        let replicated = data.shard.is_whole() && replicates(rows, n, &plan);
        let _reserved = needed::shards(&data, &plan, &exceptions, n, replicated)?;
        let group = Group::new(data.features, plan, 0, 0, data.count_rows, n);
        let shards = pool.step(|t| -> Result<RwLock<Shard>> {
            let (dealt, part) = if replicated { ((0, 1), (t, n)) } else { ((t, n), (0, 1)) };
            let mut shard = Shard::new(rows, data.shard, dealt.0, dealt.1, data.scores.len())?;
            fill::rows(&mut shard, &data)?;
            fill::codes(&mut shard, &group.plan, &data, &quantizers, &exceptions, part, interrupted)?;
            if n == 1 && data.shard.is_whole() {
                shard.sort_rows(0, data.features, 0, data.count_rows);
            }
            Ok(RwLock::new(shard))
        });
        let shards = shards.into_iter().collect::<Result<Vec<_>>>()?;
        if replicated {
            exchange(pool, &shards);
        }
        let held_out = data.held_out.map_or(0, |h| h.iter().filter(|x| **x).count());
        Ok(CpuTrees {
            pool,
            features: data.features.to_vec(),
            groups: vec![group],
            shards,
            replicated,
            rows,
            training_rows: rows - held_out,
            of: data.shard,
            row_sample: data.row_sample,
            row_fraction: data.row_fraction,
            l2: data.l2.min(f32::MAX as f64) as f32,
            count_rows: data.count_rows,
            weighted: data.weight.is_some(),
            seed: data.seed,
            encoding: None,
            rounding: Random::new(data.seed, Purpose::Rounding, 0),
            output: 0,
            subsets: vec![],
            leaves: vec![],
        })
    }

    /// The shards that have all rows between them, each row once.
    fn row_shards(&self) -> &[RwLock<Shard>] {
        if self.replicated { &self.shards[..1] } else { &self.shards }
    }

    /// Of what every shard gives for its rows, what counts each row once.
    fn by_rows<R>(&self, mut results: Vec<R>) -> Vec<R> {
        results.truncate(self.row_shards().len());
        results
    }

    /// Draws the rows of a tree; gives whether all that are drawn count 1.
    fn draw(&mut self, loss: &dyn Loss, tree: u64, output: usize) -> Result<bool> {
        let random = Random::new(self.seed, Purpose::RowSample, tree);
        let keep_all = self.row_sample == RowSample::None || (self.row_sample == RowSample::Bernoulli && self.row_fraction >= 1.0);
        if keep_all {
            if self.training_rows < self.rows {
                self.pool.step(|t| {
                    let mut shard = write(&self.shards[t]);
                    if shard.bag.is_none() {
                        shard.bag = shard.held_out.as_ref().map(|h| h.iter().map(|x| !x as u8 as f32).collect());
                    }
                });
            }
            return Ok(true);
        }
        let mut counts = match self.row_sample {
            RowSample::Goss | RowSample::Mvs => KeyCounts::merge(self.by_rows(self.pool.step(|t| {
                let mut shard = write(&self.shards[t]);
                let mut counts = KeyCounts::default();
                shard.draw(loss, output, |_, g, h| {
                    counts.add(row_sampler::key(self.row_sample, self.l2, g, h));
                    1.0
                });
                counts
            }))),
            _ => KeyCounts::default(),
        };
        if !self.of.is_whole() {
            counts.complete(self.of.collective)?;
        }
        let draw = Draw::new(self.row_sample, self.row_fraction, self.l2, &counts);
        self.pool.step(|t| write(&self.shards[t]).draw(loss, output, |row, g, h| draw.weight(random, row, g, h)));
        Ok(draw.unit())
    }

    /// How the derivatives of an output are encoded at the current scores. `unit`: all hessians are 1.
    fn derivatives_encoding(&self, loss: &dyn Loss, output: usize, unit: bool) -> Result<GradientQuantizer> {
        let mut magnitudes = Magnitudes::merge(self.by_rows(self.pool.step(|t| write(&self.shards[t]).magnitudes(loss, output))));
        if !self.of.is_whole() {
            magnitudes.complete(self.of.collective)?;
        }
        if !f32::from_bits(magnitudes.gradient_bits).is_finite() || !f32::from_bits(magnitudes.hessian_bits).is_finite() {
            return Err(Error::Data(taiga_core::learners::boosting::steps::NOT_FINITE.into()).of_values());
        }
        Ok(GradientQuantizer::new(&magnitudes, self.of.all, unit, self.count_rows))
    }

    fn tree_context<'b>(&'b self, encoding: &'b GradientQuantizer) -> TreeContext<'b> {
        TreeContext {
            output: self.output,
            encoding,
            rounding: self.rounding,
            features: &self.features,
            groups: &self.groups,
            subsets: &self.subsets,
        }
    }

    fn encoding(&self) -> Result<&GradientQuantizer> {
        self.encoding.as_ref().ok_or_else(|| Error::Data("a step of a tree that was not begun".into()))
    }

    /// Whether this tree is searched by sorted rows ([`few`]).
    fn searches_sorted(&self) -> bool {
        read(&self.shards[0]).few
    }

    /// The root's sums from its rows: where all features are sparse, no feature's bins have them all.
    fn root_sums(&self) -> Result<Sums> {
        let Some(encoding) = &self.encoding else { return Ok(Sums::default()) };
        let add = |a: Sums, b: Sums| Sums { gradient: a.gradient + b.gradient, hessian: a.hessian + b.hessian, count: a.count + b.count };
        let sums = self.by_rows(self.pool.step(|t| read(&self.shards[t]).root_sums(encoding)));
        let mut sums = sums.into_iter().fold(Sums::default(), add);
        if self.count_rows && !encoding.planes.contains(&Plane::Count) {
            sums.count = sums.hessian;
        }
        let mut numbers = [sums.gradient, sums.hessian, sums.count];
        self.of.collective.sum(&mut numbers)?;
        Ok(Sums { gradient: numbers[0], hessian: numbers[1], count: numbers[2] })
    }

    /// How many divisions are summed before they are merged: no more than the cache keeps until then.
    fn divisions_at_once(&self) -> Result<usize> {
        let bins: usize = self.groups.iter().filter(|g| g.open).map(|g| g.plan.partial_bins()).sum();
        Ok((PARTIAL_BYTES / (8 * bins * self.encoding()?.planes.len()).max(1)).max(1))
    }

    /// What is to be merged in each group before the next search, for which there is memory.
    ///
    /// # Errors
    /// [`Error::Memory`].
    fn take_pending(&mut self) -> Result<Vec<Vec<Pending>>> {
        let features = self.features.len();
        for group in self.groups.iter_mut().filter(|g| g.open && g.used_slots > g.room) {
            needed::histograms(group, features)?;
            let slots = group.used_slots.max(2 * group.room);
            self.pool.step(|t| write(&group.shares[t]).make_room(slots)).into_iter().collect::<Result<()>>()?;
            group.room = slots;
        }
        Ok(self.groups.iter_mut().map(|g| std::mem::take(&mut g.pending)).collect())
    }

    /// Runs `visit` for each open group's features of each thread, with what is to be merged first.
    fn search<R: Send>(
        &self,
        pending: &[Vec<Pending>],
        visit: impl Fn(&Group, &mut FeatureShare, &Merge<'_>) -> R + Sync,
    ) -> Result<Vec<R>> {
        let encoding = self.encoding()?;
        let complete;
        let pending = if self.of.is_whole() {
            pending
        } else {
            self.complete_histograms(pending)?;
            complete = vec![vec![]; pending.len()];
            &complete
        };
        let found = self.pool.step(|t| {
            let summed = if self.replicated { &self.shards[t..t + 1] } else { &self.shards };
            let shards: Vec<_> = summed.iter().map(read).collect();
            let shards: Vec<&Shard> = shards.iter().map(|s| &**s).collect();
            let groups = self.groups.iter().zip(pending).filter(|(g, _)| g.open);
            let search = |(group, pending): (&Group, &Vec<_>)| {
                visit(group, &mut write(&group.shares[t]), &Merge { pending, slots: group.used_slots, shards: &shards, encoding })
            };
            groups.map(search).collect::<Vec<R>>()
        });
        Ok(found.into_iter().flatten().collect())
    }

    /// The weighted quantile of each leaf's residuals, of the rows in all shards.
    fn quantiles_of_all(&self, alpha: f64) -> Result<Vec<f64>> {
        let shards: Vec<_> = self.row_shards().iter().map(read).collect();
        let quantile = |leaf: &NodeId| {
            let (mut values, mut weights) = (vec![], vec![]);
            shards.iter().for_each(|s| s.residuals(self.output, *leaf, &mut values, &mut weights));
            let weights: Vec<f64> = weights.into_iter().map(f64::from).collect();
            let (values, weights) = (self.of.collective.gather(&values)?, self.of.collective.gather(&weights)?);
            let weights: Vec<f32> = weights.into_iter().map(|w| w as f32).collect();
            Ok(weighted_quantile(&values, (!weights.is_empty()).then_some(&weights), alpha))
        };
        self.leaves.iter().map(quantile).collect()
    }

    /// Merges what is pending, with the sums of the rows in other shards.
    fn complete_histograms(&self, pending: &[Vec<Pending>]) -> Result<()> {
        let encoding = self.encoding()?;
        let shards: Vec<_> = self.shards.iter().map(read).collect();
        let shards: Vec<&Shard> = shards.iter().map(|s| &**s).collect();
        for (group, pending) in self.groups.iter().zip(pending).filter(|(g, _)| g.open) {
            let merge = Merge { pending, slots: group.used_slots, shards: &shards, encoding };
            let own = self.pool.step(|t| write(&group.shares[t]).sum_smaller(&merge));
            let mut sums = own.concat();
            self.of.collective.sum(&mut sums)?;
            let mut rest = &sums[..];
            for (share, own) in group.shares.iter().zip(&own) {
                let (sums, behind) = rest.split_at(own.len());
                write(share).take_sums(&merge, sums);
                rest = behind;
            }
        }
        Ok(())
    }

    /// Whether the bins of each node can be packed.
    fn packed_nodes(&self) -> Result<impl Fn(NodeId) -> bool + use<>> {
        let encoding = self.encoding()?;
        let shards: Vec<_> = self.row_shards().iter().map(read).collect();
        let rows = |node: usize| shards.iter().map(|s| s.nodes.get(node).map_or(0, |n| n.len)).sum();
        let most = shards.iter().map(|s| s.nodes.len()).max().unwrap_or(0);
        let whole = self.of.is_whole();
        let packed: Vec<bool> = (0..most).map(|node| whole && evaluate_splits::packs(rows(node), encoding)).collect();
        Ok(move |node: NodeId| packed.get(node as usize).copied().unwrap_or(false))
    }

    /// The packed statistics of the rows of the nodes without histograms, node after node.
    fn small_statistics(&self, nodes: &[SearchNode]) -> Vec<u32> {
        let shard = read(&self.shards[0]);
        let small = nodes.iter().filter(|n| self.groups[0].slot(n.id) == NO_SLOT);
        small.flat_map(|n| shard.small_node(n.id)).map(|row| shard.statistic(*row)).collect()
    }
}

/// The sums of each leaf from those of the threads' rows and of other shards'.
fn leaf_sums(encoding: &GradientQuantizer, shards: &[Vec<((i64, i64), u64)>], of: RowShard<'_>) -> Result<Vec<LeafSums>> {
    let mut numbers: Vec<i64> = (0..shards[0].len())
        .flat_map(|i| {
            let (mut total, mut count) = ((0, 0), 0);
            for s in shards {
                total.0 += s[i].0.0;
                total.1 += s[i].0.1;
                count += s[i].1;
            }
            [total.0, total.1, count as i64]
        })
        .collect();
    of.collective.sum(&mut numbers)?;
    let leaf = |n: &[i64]| {
        let (gradient, hessian) = encoding.leaf_numbers((n[0], n[1]));
        LeafSums { gradient, hessian, count: n[2] as u64 }
    };
    Ok(numbers.chunks_exact(3).map(leaf).collect())
}

/// Where the search finds each node's bins of group `group`.
fn places<'s>(nodes: &[SearchNode], group: &Group, index: usize, shard: &'s Shard, mut statistics: &'s [u32]) -> Vec<NodeHistogram<'s>> {
    let place = |n: &SearchNode| match (group.slot(n.id), &shard.groups[index].columns) {
        (NO_SLOT, Some(columns)) => {
            let rows = shard.small_node(n.id);
            let (own, rest) = statistics.split_at(rows.len());
            statistics = rest;
            NodeHistogram::Rows { rows, statistics: own, columns }
        }
        (slot, _) => NodeHistogram::Slot { slot, total: n.sums },
    };
    nodes.iter().map(place).collect()
}

/// Whether each thread gets all rows and some of the features, not all features and some of the rows. Rows are then
/// derived and parted by each, but histograms stay with the thread that searches them: where they are large and rows are
/// few, it is they that cost.
fn replicates(rows: usize, threads: usize, plan: &StoragePlan) -> bool {
    let columns = plan.column_codes.len();
    let bytes = rows.saturating_mul(columns).saturating_mul(threads);
    threads > 1 && plan.sparse.is_empty() && rows <= ROWS_A_COLUMN * columns && bytes <= fill::MOST_COLUMN_BYTES && columns >= 2 * threads
}

/// Gives every shard the codes by column that the others have made.
fn exchange(pool: &ThreadPool, shards: &[RwLock<Shard>]) {
    pool.step(|t| {
        for other in shards.iter().enumerate().filter(|(u, _)| *u != t).map(|(_, shard)| shard) {
            let (columns, codes) = {
                let group = &read(other).groups[0];
                (group.own.clone(), group.columns.as_ref().map(|c| c.features(&group.own).to_vec()))
            };
            if let (Some(codes), Some(own)) = (codes, &mut write(&shards[t]).groups[0].columns) {
                own.features_mut(&columns).copy_from_slice(&codes);
            }
        }
    });
}

impl GrowSteps for CpuTrees<'_> {
    fn find_splits(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Vec<Option<(Candidate, Sums)>>> {
        if self.searches_sorted() {
            return Ok(write(&self.shards[0]).find_splits(nodes, rules, &self.groups));
        }
        let pending = self.take_pending()?;
        let statistics = self.small_statistics(nodes);
        let shard = read(&self.shards[0]);
        let found = self.search(&pending, |group, share, merge| {
            let places = places(nodes, group, share.group, &shard, &statistics);
            share.find_splits(merge, nodes, &places, &self.features, rules)
        })?;
        let best = |i: usize| found.iter().map(|f| f[i]).fold(None, evaluate_splits::best_of);
        let found: Vec<Option<FoundSplit>> = (0..nodes.len()).map(best).collect();
        let mut keep = |mut f: FoundSplit| {
            if let Some(subset) = f.subset {
                f.candidate.border = self.subsets.len() as u32;
                self.subsets.push(subset);
            }
            (f.candidate, f.left)
        };
        Ok(found.into_iter().map(|f| f.map(&mut keep)).collect())
    }

    fn find_level_split(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Option<(Candidate, Vec<Sums>)>> {
        if self.searches_sorted() {
            return Ok(write(&self.shards[0]).find_level_split(nodes, rules, &self.groups, &self.features));
        }
        let pending = self.take_pending()?;
        let statistics = self.small_statistics(nodes);
        let shard = read(&self.shards[0]);
        let found = self.search(&pending, |group, share, merge| {
            let places = places(nodes, group, share.group, &shard, &statistics);
            share.find_level_split(merge, nodes, &places, &self.features, rules)
        })?;
        let best = found
            .into_iter()
            .flatten()
            .fold(None, |a: Option<Candidate>, b| Some(a.map_or(b, |a| if evaluate_splits::better(&b, &a) { b } else { a })));
        Ok(best.map(|candidate| {
            let feature = &self.features[candidate.feature as usize];
            let (index, _) = group_of(&self.groups, candidate.feature as usize);
            let group = &self.groups[index];
            let places = places(nodes, group, index, &shard, &statistics);
            let shares: Vec<_> = group.shares.iter().map(read).collect();
            let left = |place: &NodeHistogram<'_>| shares.iter().find_map(|s| s.left_sums(place, &candidate, feature)).unwrap_or_default();
            (candidate, places.iter().map(left).collect())
        }))
    }

    fn partition(&mut self, divisions: &[Division]) -> Result<()> {
        let at_once = self.divisions_at_once()?;
        for (i, divisions) in divisions.chunks(at_once).enumerate() {
            if i > 0 {
                let pending = self.take_pending()?;
                self.search(&pending, |_, share, merge| share.merge(merge))?;
            }
            let context = self.tree_context(self.encoding()?);
            let summed = self.pool.step(|t| write(&self.shards[t]).divide(divisions, &context));
            if self.searches_sorted() {
                continue;
            }
            let packed = self.packed_nodes()?;
            for group in self.groups.iter_mut().filter(|g| g.open) {
                let mut partials = 0;
                for (d, _) in divisions.iter().zip(&summed[0]).filter(|(_, summed)| **summed) {
                    partials += group.divide(d, partials, &packed);
                }
            }
        }
        Ok(())
    }

    fn speculation(&self) -> Speculation {
        Speculation { most: MOST_AT_ONCE, share: 1.0 }
    }

    fn take_back(&mut self, divisions: &[Division]) -> Result<()> {
        self.shards.iter().for_each(|shard| write(shard).take_back(divisions));
        Ok(())
    }
}

impl TreeSteps for CpuTrees<'_> {
    fn add_group(&mut self, features: &[CodedFeature], codes: &[Vec<u8>]) -> Result<GroupId> {
        let (id, first) = (self.groups.len(), self.features.len());
        self.features.extend_from_slice(features);
        let plan = StoragePlan::dense(features, false);
        let _reserved = needed::group(features, &plan, self.rows)?;
        let group = Group::new(features, plan, id, first, self.count_rows, self.pool.size());
        let made = self.pool.step(|t| -> Result<()> {
            let mut shard = write(&self.shards[t]);
            let by_feature = shard.groups[0].columns.is_some();
            let part = if self.replicated { (t, self.pool.size()) } else { (0, 1) };
            let mut codes_of = ShardGroup::new(&group.plan.layout, shard.rows, by_feature, part)?;
            for batch in 0..shard.batches() {
                let (start, first) = (batch * BATCH, shard.first_row(batch));
                let len = BATCH.min(shard.rows - start);
                for (f, codes) in codes.iter().enumerate() {
                    codes_of.set_codes(&group.plan.layout, f, start, &codes[first..first + len]);
                }
            }
            shard.groups.push(codes_of);
            if self.pool.size() == 1 {
                shard.sort_rows(id, features, first, self.count_rows);
            }
            Ok(())
        });
        made.into_iter().collect::<Result<()>>()?;
        self.groups.push(group);
        Ok(id)
    }

    fn drop_group(&mut self, group: GroupId) {
        for shard in &self.shards {
            write(shard).groups[group].clear();
        }
        self.groups[group].shares.iter().for_each(|s| write(s).clear());
        self.groups[group].room = 0;
        self.groups[group].reset(false);
    }

    fn open_group(&mut self, group: GroupId, nodes: &[NodeId]) -> Result<()> {
        let few = self.searches_sorted();
        let summed: Vec<NodeId> = nodes.iter().copied().filter(|n| few || self.groups[0].slot(*n) != NO_SLOT).collect();
        self.groups[group].reset(true);
        let context = self.tree_context(self.encoding()?);
        self.pool.step(|t| write(&self.shards[t]).open_group(group, &summed, &context));
        if !few {
            let packed = self.packed_nodes()?;
            self.groups[group].open_in(&summed, packed);
        }
        Ok(())
    }

    fn begin_tree(&mut self, &TreeRequest { loss, tree, output, groups, .. }: &TreeRequest<'_>) -> Result<Begun> {
        self.output = output;
        self.rounding = Random::new(self.seed, Purpose::Rounding, tree);
        let unit = self.draw(loss, tree, output)? && loss.constant_hessian() && !self.weighted;
        let encoding = self.derivatives_encoding(loss, output, unit)?;
        let packed = self.of.is_whole() && evaluate_splits::packs(self.rows, &encoding);
        self.encoding = Some(encoding);
        for (g, group) in self.groups.iter_mut().enumerate() {
            group.reset(g == 0 || groups.contains(&g));
            if group.open {
                group.open_in(&[0], |_| packed);
            }
        }
        let encoding = self.encoding()?;
        let context = self.tree_context(encoding);
        self.pool.step(|t| write(&self.shards[t]).root(loss, &context));
        let scales = encoding.scales();
        let pending = self.take_pending()?;
        if let Some(sums) = read(&self.shards[0]).sorted_sums() {
            return Ok(Begun::Root { sums, scales });
        }
        let sums = self
            .search(&pending, |_, share, merge| {
                share.merge(merge);
                share.node_sums(0)
            })?
            .into_iter()
            .flatten()
            .next();
        let sums = sums.map_or_else(|| self.root_sums(), Ok)?;
        Ok(Begun::Root { sums, scales })
    }

    fn end_tree(&mut self, loss: &dyn Loss, tree: &Tree, leaves: &[NodeId]) -> Result<Vec<LeafSums>> {
        self.leaves = leaves.to_vec();
        let encoding = self.encoding()?;
        let context = self.tree_context(encoding);
        let sums = self.pool.step(|t| write(&self.shards[t]).end_tree(loss, &context, tree, leaves));
        leaf_sums(encoding, &self.by_rows(sums), self.of)
    }

    fn replay(&mut self, loss: &dyn Loss, tree: &Tree, output: usize) -> Result<Vec<LeafSums>> {
        self.output = output;
        // Leaves take the place of nodes.
        self.leaves = (0..tree.leaves().len() as NodeId).collect();
        let encoding = self.derivatives_encoding(loss, output, false)?;
        let context = self.tree_context(&encoding);
        let sums = self.pool.step(|t| write(&self.shards[t]).replay(loss, &context, tree));
        leaf_sums(&encoding, &self.by_rows(sums), self.of)
    }

    fn leaf_quantiles(&mut self, alpha: f64) -> Result<Vec<f64>> {
        let leaves = &self.leaves;
        self.pool.step(|t| write(&self.shards[t]).list_rows(self.output, leaves));
        if !self.of.is_whole() {
            return self.quantiles_of_all(alpha);
        }
        let shards: Vec<_> = self.row_shards().iter().map(read).collect();
        let n = self.pool.size();
        let shares = self.pool.step(|t| {
            let (mut values, mut weights) = (vec![], vec![]);
            (t..leaves.len())
                .step_by(n)
                .map(|i| {
                    values.clear();
                    weights.clear();
                    shards.iter().for_each(|s| s.residuals(self.output, leaves[i], &mut values, &mut weights));
                    weighted_quantile(&values, (!weights.is_empty()).then_some(&weights), alpha)
                })
                .collect::<Vec<f64>>()
        });
        Ok((0..leaves.len()).map(|i| shares[i % n][i / n]).collect())
    }

    fn set_leaf_values(&mut self, values: &[f32]) -> Result<()> {
        for shard in &self.shards {
            write(shard).set_leaf_values(self.output, values);
        }
        Ok(())
    }

    fn category_sets(&self) -> &[CodeSet] {
        &self.subsets
    }

    fn update_scores(&mut self) -> Result<()> {
        self.pool.step(|t| write(&self.shards[t]).update_scores());
        Ok(())
    }

    fn held_out_scores(&self) -> Result<Vec<Vec<f32>>> {
        let shards: Vec<_> = self.row_shards().iter().map(read).collect();
        let outputs = shards[0].scores.len();
        let mut out = vec![Vec::with_capacity(self.rows - self.training_rows); outputs];
        for batch in 0..self.rows.div_ceil(BATCH) {
            let (shard, local) = (&shards[batch % shards.len()], batch / shards.len());
            let range = local * BATCH..shard.rows.min((local + 1) * BATCH);
            let Some(held_out) = &shard.held_out else { continue };
            for (o, scores) in out.iter_mut().zip(&shard.scores) {
                o.extend(scores[range.clone()].iter().zip(&held_out[range.clone()]).filter(|(_, h)| **h).map(|(s, _)| *s));
            }
        }
        if self.of.is_whole() {
            return Ok(out);
        }
        let of_all = |scores: Vec<f32>| {
            let scores: Vec<f64> = scores.into_iter().map(f64::from).collect();
            Ok(self.of.collective.gather(&scores)?.into_iter().map(|s| s as f32).collect())
        };
        out.into_iter().map(of_all).collect()
    }
}
