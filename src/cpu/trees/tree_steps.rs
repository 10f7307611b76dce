//! The steps of a boosted fit around a tree's growing, on the CPU: its rows are drawn, its gradients quantized, its
//! leaves summed, and its values added to the scores.

use super::feature_groups::Group;
use super::feature_share;
use super::gradient_quantizer::{BATCH, GradientQuantizer, Magnitudes, Plane};
use super::lanes::SharedTree;
use super::position_factors::PositionFactors;
use super::shard::ShardGroup;
use super::{CpuTrees, NO_SLOT, needed, read, write};
use taiga_core::collective::RowShard;
use taiga_core::error::{Error, Result};
use taiga_core::learners::boosting::layout::StoragePlan;
use taiga_core::learners::boosting::row_sampler::{self, Draw, KeyCounts};
use taiga_core::learners::boosting::steps::{
    Begun, DropoutSteps, GroupId, GroupSteps, LeafRows, LeafSteps, LeafSums, OrderedSteps, OutputRules, RowSteps, SpreadSteps, TreeRequest,
    TreeSteps, mean_square,
};
use taiga_core::losses::Loss;
use taiga_core::numerics::random::{Purpose, Random};
use taiga_core::numerics::reduce::weighted_quantile;
use taiga_core::quantize::{CodeSet, CodedFeature};
use taiga_core::tree::Tree;
use taiga_core::tree::params::RowCounts;
use taiga_core::tree::split::Sums;
use taiga_core::tree::steps::NodeId;

impl CpuTrees<'_> {
    /// Draws the rows of a tree; returns whether all that are drawn count 1.
    fn draw(&mut self, loss: &dyn Loss, tree: u64, output: usize, shared: &[OutputRules]) -> Result<bool> {
        let random = Random::new(self.seed, Purpose::RowSample, tree);
        if self.row_sampling.keeps_all() {
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
        let sampling = self.row_sampling;
        let mut counts = match sampling.reads_derivatives() {
            true => KeyCounts::merge(self.by_rows(self.pool.step(|t| {
                let mut shard = write(&self.shards[t]);
                let mut counts = KeyCounts::default();
                shard.draw(loss, output, shared, |_, g, h| {
                    counts.add(row_sampler::key(sampling.sample, sampling.l2, g, h));
                    1.0
                });
                counts
            }))),
            false => KeyCounts::default(),
        };
        if !self.of.is_whole() {
            counts.complete(self.of.collective)?;
        }
        let draw = Draw::new(&sampling, &counts);
        self.pool.step(|t| write(&self.shards[t]).draw(loss, output, shared, |row, g, h| draw.weight(random, row, g, h)));
        Ok(draw.unit())
    }

    /// Returns how the derivatives of an output at the current scores become integers. `unit`: all hessians are 1.
    pub(super) fn gradient_quantizer(&self, loss: &dyn Loss, output: usize, unit: bool) -> Result<GradientQuantizer> {
        Ok(GradientQuantizer::new(&self.magnitudes(loss, (output, 1))?[0], self.of.all, unit, self.row_counts))
    }

    /// Returns the magnitudes of the derivatives, at the current scores, of each of the outputs that grow a tree: so many from a first one on.
    fn magnitudes(&self, loss: &dyn Loss, outputs: (usize, usize)) -> Result<Vec<Magnitudes>> {
        let least = self.row_counts == RowCounts::Presence;
        let shards = self.by_rows(self.pool.step(|t| write(&self.shards[t]).magnitudes(loss, outputs, least)));
        let mut shards: Vec<_> = shards.into_iter().map(Vec::into_iter).collect();
        (0..outputs.1).map(|_| self.completed(Magnitudes::merge(shards.iter_mut().flat_map(Iterator::next).collect()))).collect()
    }

    /// Returns magnitudes with those of the rows of other processes.
    ///
    /// # Errors
    /// Those of the collective; [`Error::Data`] where derivatives are no longer finite.
    pub(super) fn completed(&self, mut magnitudes: Magnitudes) -> Result<Magnitudes> {
        if !self.of.is_whole() {
            magnitudes.complete(self.of.collective)?;
        }
        if !f32::from_bits(magnitudes.gradient_bits).is_finite() || !f32::from_bits(magnitudes.hessian_bits).is_finite() {
            return Err(Error::Data(taiga_core::learners::boosting::steps::NOT_FINITE.into()).of_values());
        }
        Ok(magnitudes)
    }

    /// Sums the root's statistics over its rows: where all features are sparse, no feature's bins have them all.
    fn root_sums(&self) -> Result<Sums> {
        let Some(quantizer) = &self.quantizer else { return Ok(Sums::default()) };
        let add = |a: Sums, b: Sums| Sums { gradient: a.gradient + b.gradient, hessian: a.hessian + b.hessian, count: a.count + b.count };
        let sums = self.by_rows(self.pool.step(|t| read(&self.shards[t]).root_sums(quantizer)));
        let mut sums = sums.into_iter().fold(Sums::default(), add);
        if self.row_counts.any() && !quantizer.planes.contains(&Plane::Count) {
            sums.count = sums.hessian;
        }
        let mut numbers = [sums.gradient, sums.hessian, sums.count];
        self.of.collective.sum(&mut numbers)?;
        Ok(Sums { gradient: numbers[0], hessian: numbers[1], count: numbers[2] })
    }

    /// Returns the weighted quantile of each leaf's residuals, over the rows of all processes.
    fn quantiles_of_all(&self, output: usize, alpha: f64) -> Result<Vec<f64>> {
        let shards: Vec<_> = self.row_shards().iter().map(read).collect();
        let of_leaf = |leaf: &_| {
            let (mut values, mut weights) = (vec![], vec![]);
            shards.iter().for_each(|s| s.residuals(output, *leaf, &mut values, &mut weights));
            (values, weights)
        };
        self.of.quantiles_of_all(self.leaves.iter().map(of_leaf).collect(), alpha)
    }

    /// Returns the scores in row order, `[output][row]`: of all rows, or of those that are held out; `in_first`: on the first shard alone.
    fn scores_of(&self, all: bool, in_first: bool) -> Result<Vec<Vec<f32>>> {
        let shards: Vec<_> = self.row_shards().iter().map(read).collect();
        let outputs = shards[0].scores.len();
        let mut out = vec![Vec::with_capacity(if all { self.rows } else { self.rows - self.training_rows }); outputs];
        for batch in 0..self.rows.div_ceil(BATCH) {
            let (shard, local) = (&shards[batch % shards.len()], batch / shards.len());
            let range = shard.rows_of(local);
            if all {
                out.iter_mut().zip(&shard.scores).for_each(|(o, scores)| o.extend_from_slice(&scores[range.clone()]));
                continue;
            }
            let Some(held_out) = &shard.held_out else { continue };
            for (o, scores) in out.iter_mut().zip(&shard.scores) {
                o.extend(scores[range.clone()].iter().zip(&held_out[range.clone()]).filter(|(_, h)| **h).map(|(s, _)| *s));
            }
        }
        self.of.scores_of_all(out, in_first)
    }
}

/// Adds up each leaf's fixed-point sums over the threads' rows and those of other processes: those of each output, one behind the other.
pub(super) fn leaf_sums(
    quantizers: &[GradientQuantizer],
    shards: &[Vec<((i64, i64), u64)>],
    of: RowShard<'_>,
) -> Result<Vec<Vec<LeafSums>>> {
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
    let leaf = |quantizer: &GradientQuantizer, n: &[i64]| {
        let (gradient, hessian) = quantizer.leaf_numbers((n[0], n[1]));
        LeafSums { gradient, hessian, count: n[2] as u64 }
    };
    let of_outputs = quantizers.iter().zip(numbers.chunks_exact(numbers.len() / quantizers.len()));
    Ok(of_outputs.map(|(quantizer, own)| own.chunks_exact(3).map(|n| leaf(quantizer, n)).collect()).collect())
}

impl GroupSteps for CpuTrees<'_> {
    fn add_group(&mut self, features: &[CodedFeature], codes: &[Vec<u8>]) -> Result<GroupId> {
        let (id, first) = (self.groups.len(), self.features.len());
        self.features.extend_from_slice(features);
        let plan = StoragePlan::dense(features, false);
        let _reserved = needed::group(features, &plan, self.rows)?;
        let group =
            Group::new(features, plan, (id, first), self.row_counts.any(), self.pool.size(), self.of.collective).shared_by(self.outputs);
        let made = self.pool.step(|t| -> Result<()> {
            let mut shard = write(&self.shards[t]);
            let by_feature = shard.groups[0].columns.is_some();
            let part = if self.replicated { (t, self.pool.size()) } else { (0, 1) };
            let mut codes_of = ShardGroup::new(&group.plan.layout, shard.rows, by_feature, part, None)?;
            for batch in 0..shard.batches() {
                let (rows, first) = (shard.rows_of(batch), shard.first_row(batch));
                for (f, codes) in codes.iter().enumerate() {
                    codes_of.set_codes(&group.plan.layout, f, rows.start, &codes[first..first + rows.len()]);
                }
            }
            shard.groups.push(codes_of);
            if let Some(presorted) = self.presorted {
                shard.sort_rows(id, features, first, self.row_counts.any(), presorted);
            }
            Ok(())
        });
        made.into_iter().collect::<Result<()>>()?;
        self.groups.push(group);
        Ok(id)
    }

    fn drop_group(&mut self, group: GroupId) {
        for shard in &self.shards {
            write(shard).drop_group(group);
        }
        self.groups[group].reset(false);
        self.groups[group].give_up_slots(&mut self.spare_slots);
    }

    fn open_group(&mut self, group: GroupId, nodes: &[NodeId]) -> Result<()> {
        let sorted = self.presorted_search().is_some();
        let summed: Vec<NodeId> = nodes.iter().copied().filter(|n| sorted || self.groups[0].slot(*n) != NO_SLOT).collect();
        let place = self.groups.iter().filter(|g| g.open).count();
        self.groups[group].reset(true);
        self.groups[group].place = place;
        self.groups[group].take_slots(&mut self.spare_slots);
        self.make_lists()?;
        let context = self.tree_context(self.quantizer()?);
        self.pool.step(|t| write(&self.shards[t]).open_group(group, &summed, &context));
        if !sorted {
            let packed = self.packed_nodes()?;
            self.groups[group].open_in(&summed, packed);
        }
        Ok(())
    }
}

impl SpreadSteps for CpuTrees<'_> {
    fn squared_gradients(&mut self, loss: &dyn Loss, output: usize) -> Result<f64> {
        let mut squares = Magnitudes::merge(self.by_rows(self.pool.step(|t| write(&self.shards[t]).squares(loss, output))));
        if !self.of.is_whole() {
            squares.complete(self.of.collective)?;
        }
        Ok(mean_square(squares.sums.into_iter()))
    }
}

impl RowSteps for CpuTrees<'_> {
    fn leaf_rows(&mut self, loss: &dyn Loss, output: usize) -> Result<LeafRows> {
        let count = self.row_shards().len();
        let derivatives = self.pool.step(|t| (t < count).then(|| write(&self.shards[t]).derivatives(loss, output)));
        let derivatives: Vec<_> = derivatives.into_iter().flatten().collect();
        let shards: Vec<_> = self.row_shards().iter().map(read).collect();
        let mut rows = LeafRows::default();
        for batch in 0..self.rows.div_ceil(BATCH) {
            let (of, local) = (batch % count, batch / count);
            let range = shards[of].rows_of(local);
            rows.leaf.extend_from_slice(&shards[of].leaves_of(output)[range.clone()]);
            rows.gradient.extend_from_slice(&derivatives[of].0[range.clone()]);
            rows.hessian.extend_from_slice(&derivatives[of].1[range]);
        }
        Ok(rows)
    }

    fn set_row_values(&mut self, output: usize, values: &[f32]) -> Result<()> {
        self.pool.step(|t| write(&self.shards[t]).set_row_values(output, values));
        Ok(())
    }
}

impl TreeSteps for CpuTrees<'_> {
    fn groups(&mut self) -> &mut dyn GroupSteps {
        self
    }

    fn spread(&mut self) -> Option<&mut dyn SpreadSteps> {
        Some(self)
    }

    fn dropouts(&mut self) -> Option<&mut dyn DropoutSteps> {
        Some(self)
    }

    fn leaf_steps(&mut self) -> Option<&mut dyn LeafSteps> {
        Some(self)
    }

    fn ordered(&mut self) -> Option<&mut dyn OrderedSteps> {
        Some(self)
    }

    fn row_values(&mut self) -> Option<&mut dyn RowSteps> {
        Some(self)
    }

    fn begin_tree(&mut self, &TreeRequest { loss, tree, output, shared, bodies, groups, .. }: &TreeRequest<'_>) -> Result<Begun> {
        (self.output, self.tree) = (output, tree);
        self.rounding = Random::rounding(tree);
        self.derive_groups(loss, tree, output)?;
        let unit = self.draw(loss, tree, output, shared.unwrap_or(&[]))? && loss.constant_hessian() && !self.weighted;
        let quantizer = match shared {
            _ if bodies.is_some() => self.begin_bodies(loss, output, bodies.unwrap_or(&[]))?,
            None => self.gradient_quantizer(loss, output, unit)?,
            Some(rules) => {
                let each = self.magnitudes(loss, (output, rules.len()))?;
                let quantizers = GradientQuantizer::alike(&each, self.of.all, unit, self.row_counts.any());
                let first = quantizers[0].clone();
                self.shared = Some(SharedTree::new(output, quantizers, rules, unit));
                first
            }
        };
        let packed = self.of.is_whole() && feature_share::packs(self.rows, &quantizer);
        self.quantizer = Some(quantizer);
        let sorted = read(&self.shards[0]).presorted_search(&self.tree_context(self.quantizer()?));
        for (g, group) in self.groups.iter_mut().enumerate() {
            let place = if g == 0 { Some(0) } else { groups.iter().position(|other| *other == g).map(|place| place + 1) };
            group.reset(place.is_some());
            group.place = place.unwrap_or(0);
            if !group.open {
                group.give_up_slots(&mut self.spare_slots);
            }
        }
        for group in &mut self.groups {
            if group.open {
                group.take_slots(&mut self.spare_slots);
            }
            if group.open && sorted.is_none() {
                group.open_in(&[0], |_| packed);
            }
        }
        let quantizer = self.quantizer()?;
        let context = self.tree_context(quantizer);
        self.pool.step(|t| write(&self.shards[t]).root(loss, &context));
        let scales = quantizer.scales();
        let pending = self.take_pending()?;
        if let Some(shared) = &self.shared {
            let found = self.search(&pending, |_, share, merge| {
                share.merge(merge);
                (0..shared.outputs()).map(|k| share.node_sums(k)).collect::<Option<Vec<Sums>>>()
            })?;
            let sums = self.sums_of_any(found.into_iter().flatten().next(), shared.outputs())?.unwrap_or_default();
            return Ok(Begun::Root { sums: shared.together(sums), scales: shared.scales() });
        }
        if let Some(sums) = read(&self.shards[0]).sorted_sums(self.row_counts.any()) {
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
        let sums = self.sums_of_any(sums.map(|sums| vec![sums]), 1)?.map(|sums| sums[0]);
        let sums = sums.map_or_else(|| self.root_sums(), Ok)?;
        Ok(Begun::Root { sums, scales })
    }

    fn end_tree(&mut self, loss: &dyn Loss, tree: &Tree, leaves: &[NodeId]) -> Result<Vec<Vec<LeafSums>>> {
        self.leaves = leaves.to_vec();
        let quantizer = self.quantizer()?;
        let context = self.tree_context(quantizer);
        let sums = self.by_rows(self.pool.step(|t| write(&self.shards[t]).end_tree(loss, &context, tree, leaves)));
        if let Some(shared) = self.shared.as_ref().filter(|shared| shared.pairs > 0) {
            return Ok(vec![vec![LeafSums::default(); leaves.len()]; shared.told()]);
        }
        let quantizers = self.shared.as_ref().map_or(std::slice::from_ref(quantizer), |shared| &shared.quantizers);
        leaf_sums(quantizers, &sums, self.of)
    }

    fn replay(&mut self, loss: &dyn Loss, tree: &Tree, output: usize) -> Result<Vec<LeafSums>> {
        self.output = output;
        // Leaves take the place of nodes.
        self.leaves = (0..tree.leaves().len() as NodeId).collect();
        self.derive_groups(loss, self.tree, output)?;
        let quantizer = self.gradient_quantizer(loss, output, false)?;
        let context = self.tree_context(&quantizer);
        let sums = self.pool.step(|t| write(&self.shards[t]).replay(loss, &context, tree));
        let mut sums = leaf_sums(std::slice::from_ref(&quantizer), &self.by_rows(sums), self.of)?;
        Ok(sums.pop().unwrap_or_default())
    }

    fn leaf_quantiles(&mut self, output: usize, alpha: f64) -> Result<Vec<f64>> {
        self.make_lists()?;
        let leaves = &self.leaves;
        self.pool.step(|t| write(&self.shards[t]).list_rows(self.output, leaves));
        if !self.of.is_whole() {
            return self.quantiles_of_all(output, alpha);
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
                    shards.iter().for_each(|s| s.residuals(output, leaves[i], &mut values, &mut weights));
                    weighted_quantile(&values, (!weights.is_empty()).then_some(&weights), alpha)
                })
                .collect::<Vec<f64>>()
        });
        Ok((0..leaves.len()).map(|i| shares[i % n][i / n]).collect())
    }

    fn set_leaf_values(&mut self, output: usize, values: &[f32]) -> Result<()> {
        for shard in &self.shards {
            write(shard).set_leaf_values(output, values);
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

    fn position_factors(&self) -> Result<Option<Vec<f64>>> {
        Ok(self.grouped.as_ref().and_then(|grouped| grouped.positions.as_ref()).map(PositionFactors::latest))
    }

    fn measured_scores(&self) -> Result<Vec<Vec<f32>>> {
        self.scores_of(self.measures_all, false)
    }

    fn all_scores(&mut self) -> Result<Vec<Vec<f32>>> {
        self.scores_of(true, true)
    }
}
