//! Finds the derivatives of losses by group, and of Cox's likelihood, for all rows before a tree. Twin of `cpu/trees/group_derivatives.rs`.

use super::buffers::{Buffer, Kernels};
use super::gathered_rows::{GatheredRows, RowNumbers, rows_known};
use super::layouts::GroupRows;
use super::position_factors::{PositionFactors, PositionScores};
use super::rows::RowData;
use crate::runtime::Queue;
use crate::runtime::sort::{Pairs, bits_below};
use crate::{grid, launch};
use cudarc::driver::{CudaSlice, DevicePtr, LaunchConfig};
use std::ops::Range;
use taiga_core::dataset::row_groups::RowGroups;
use taiga_core::error::Result;
use taiga_core::learners::boosting::steps::TrainingData;
use taiga_core::losses::Loss;
use taiga_core::losses::by_group::{GroupFormula, GroupLoss, discount};
use taiga_core::numerics::random::{Purpose, Random};

/// The table's rows by group on the device, where it has a shard of them those of all groups that have any of its rows: see `GroupRows` in
/// `kernels/trees/group_derivatives.cuh`.
pub struct GroupedRows {
    groups: RowGroups,
    /// The targets by place, until the first tree has asked for what they decide.
    host_target: Vec<f32>,
    row: Buffer<u32>,
    group: Buffer<u32>,
    starts: Buffer<u32>,
    target: Buffer<f32>,
    numbers: Buffer<f32>,
    places: Buffer<f32>,
    /// Keys and places, as they come and sorted.
    unsorted: Pairs<u64>,
    sorted: Pairs<u64>,
    sort_room: CudaSlice<u8>,
    ranked: [Buffer<f32>; 5],
    factors: Buffer<f32>,
    /// Gradients and hessians by row.
    pub derivatives: [RowNumbers; 2],
    positions: Option<PositionFactors>,
    /// The tree and the output whose derivatives these are.
    derived: Option<(u64, usize)>,
}

/// Returns the bits of the keys that places are sorted by: a score's, and behind them a group's.
fn sorted_bits(groups: &RowGroups) -> Range<u32> {
    0..32 + bits_below(groups.len() as u64).max(1)
}

impl GroupedRows {
    /// Bytes on the device.
    pub fn bytes(data: &TrainingData<'_>) -> u64 {
        let Some(groups) = &data.groups else { return 0 };
        // Keys and places twice and room to sort them, five numbers by rank, target, row and group.
        let of_place = 2 * 12 + 12 + 20 + 12;
        // Start, number and factor; and what ranks have.
        let of_group = 12 * groups.len() as u64 + 4 * groups.longest() as u64;
        // Two derivatives.
        let of_row = 8 + if data.positions.is_some() { PositionFactors::BYTES } else { 0 };
        of_place * groups.all_rows().len() as u64 + of_group + of_row * rows_known(data).len() as u64
    }

    /// Brings the rows to the device, where the loss reads groups.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`], and those of the collective.
    pub fn new(queue: &Queue, data: &TrainingData<'_>) -> Result<Option<GroupedRows>> {
        let Some(groups) = data.groups.clone() else { return Ok(None) };
        const WHAT: &str = "rows by group";
        let rows = groups.all_rows().len();
        let of_all = if data.shard.is_whole() { None } else { Some(data.shard.of_all_rows(data.target.clone())?) };
        let target = of_all.as_deref().unwrap_or(&data.target);
        let host_target: Vec<f32> = groups.all_rows().iter().map(|row| target[*row as usize]).collect();
        drop(of_all);
        let group: Vec<u32> = (0..groups.len()).flat_map(|g| std::iter::repeat_n(g as u32, groups.range(g).len())).collect();
        let room = |n: usize| Buffer::new(queue, WHAT, n);
        let known = rows_known(data);
        let by_row = || RowNumbers::new(queue, WHAT, &known);
        let sort_room = queue.sort_room::<u64, u32>(rows as u32, sorted_bits(&groups))?;
        let pairs = || -> Result<Pairs<u64>> { Ok((queue.alloc(WHAT, rows)?, queue.alloc(WHAT, rows)?)) };
        Ok(Some(GroupedRows {
            row: Buffer::copy_of(queue, WHAT, groups.all_rows())?,
            group: Buffer::copy_of(queue, WHAT, &group)?,
            starts: Buffer::copy_of(queue, WHAT, groups.starts())?,
            target: Buffer::copy_of(queue, WHAT, &host_target)?,
            numbers: room(groups.len())?,
            places: room(groups.longest())?,
            unsorted: pairs()?,
            sorted: pairs()?,
            sort_room: queue.alloc(WHAT, sort_room)?,
            ranked: [room(rows)?, room(rows)?, room(rows)?, room(rows)?, room(rows)?],
            factors: room(groups.len())?,
            derivatives: [by_row()?, by_row()?],
            positions: data.positions.as_ref().map(|bias| PositionFactors::new(queue, bias)).transpose()?,
            derived: None,
            host_target,
            groups,
        }))
    }

    /// Returns the factors of positions after the last tree's step, where there are positions.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn position_factors(&self, queue: &Queue) -> Result<Option<Vec<f64>>> {
        self.positions.as_ref().map(|factors| factors.latest(queue)).transpose()
    }

    /// Writes what targets and places decide for all trees.
    fn prepare(&mut self, queue: &Queue, loss: &dyn GroupLoss) -> Result<()> {
        if self.host_target.is_empty() {
            return Ok(());
        }
        let numbers: Vec<f32> = (0..self.groups.len()).map(|g| loss.number(&self.host_target[self.groups.range(g)])).collect();
        self.numbers.write(queue, &numbers)?;
        let places: Vec<f32> = match loss.formula() {
            GroupFormula::Yetirank(yetirank) => yetirank.weights().take(self.groups.longest()).collect(),
            _ => (0..self.groups.longest()).map(discount).collect(),
        };
        self.host_target = vec![];
        self.places.write(queue, &places)
    }

    /// Sorts the rows of each group by score; `noise`: by scores with the noise of these random numbers.
    fn sort(&mut self, queue: &Queue, kernels: &Kernels, table: &GroupRows, config: LaunchConfig, noise: Option<Random>) -> Result<()> {
        let stream = queue.stream();
        let unsorted = GroupRows { keys: self.unsorted.0.device_ptr(stream).0, order: self.unsorted.1.device_ptr(stream).0, ..*table };
        let (noisy, key) = (noise.is_some() as u32, noise.map_or(0, |random| random.key()));
        // SAFETY: the arguments are those of `tree_group_keys`: rows by place, room for a key and a place of each.
        unsafe { launch!(queue, &kernels.group_keys, config; &unsorted, &noisy, &key) }?;
        let (unsorted, bits) = ((&self.unsorted.0, &self.unsorted.1), sorted_bits(&self.groups));
        queue.sort_pairs_in(&mut self.sort_room, unsorted, &mut self.sorted, table.rows as u32, bits)
    }

    /// What the kernels are told.
    fn table(&self, queue: &Queue, scores: u64, weight: u64) -> GroupRows {
        let stream = queue.stream();
        let [score, gain, gradient, hessian, total] = &self.ranked;
        GroupRows {
            rows: self.groups.all_rows().len() as u64,
            groups: self.groups.len() as u32,
            unused: 0,
            row: self.row.address,
            group: self.group.address,
            starts: self.starts.address,
            target: self.target.address,
            numbers: self.numbers.address,
            places: self.places.address,
            scores,
            weight,
            keys: self.sorted.0.device_ptr(stream).0,
            order: self.sorted.1.device_ptr(stream).0,
            ranked_score: score.address,
            ranked_gain: gain.address,
            ranked_gradient: gradient.address,
            ranked_hessian: hessian.address,
            ranked_total: total.address,
            factors: self.factors.address,
            gradient: self.derivatives[0].address_of(0),
            hessian: self.derivatives[1].address_of(0),
        }
    }
}

impl RowData<'_> {
    /// Whether rows depend on each other and the derivatives of this tree and output are not there.
    pub fn lacks_derivatives(&self, loss: &dyn Loss, tree: u64, output: usize) -> bool {
        let derived = match (&self.risk_sets, &self.grouped) {
            (Some(sets), _) => sets.derived,
            (None, Some(grouped)) if loss.by_group().is_some() => grouped.derived,
            _ => return false,
        };
        derived != Some((tree, output))
    }

    /// Forgets the derivatives of rows that depend on each other, where the scores that they are of have moved.
    pub fn forget_derivatives(&mut self) {
        self.grouped.iter_mut().for_each(|grouped| grouped.derived = None);
        self.risk_sets.iter_mut().for_each(|sets| sets.derived = None);
    }

    /// Finds the derivatives of a tree at the current scores of `output`, of which those of rows elsewhere were gathered, where rows
    /// depend on each other.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn derive_dependent(&mut self, queue: &Queue, kernels: &Kernels, loss: &dyn Loss, tree: u64, output: usize) -> Result<()> {
        let own = self.scores.address + 4 * (output * self.rows) as u64;
        let scores = self.gathered.as_ref().map_or(own, GatheredRows::scores);
        if let Some(sets) = &mut self.risk_sets {
            sets.derive(queue, kernels, scores)?;
            sets.derived = Some((tree, output));
        }
        match loss.by_group() {
            Some(by_group) => self.derive_groups(queue, kernels, by_group, scores, (tree, output)),
            None => Ok(()),
        }
    }

    /// Finds those of a loss by group at `scores`.
    fn derive_groups(
        &mut self,
        queue: &Queue,
        kernels: &Kernels,
        by_group: &dyn GroupLoss,
        scores: u64,
        (tree, output): (u64, usize),
    ) -> Result<()> {
        let weight = match &self.gathered {
            Some(gathered) => gathered.weight.as_ref().map_or(0, |w| w.address_of(0)),
            None => self.weight.as_ref().map_or(0, |w| w.address),
        };
        let random = Random::new(self.seed, Purpose::RankingLoss, tree);
        let Some(grouped) = &mut self.grouped else { return Ok(()) };
        grouped.prepare(queue, by_group)?;
        let places = grouped.groups.all_rows().len();
        let of_blocks = |threads: u32, each: u32| {
            let most = queue.gpu().multiprocessors() * each;
            grid((places.div_ceil(threads as usize) as u32).min(most).max(1), threads, 0)
        };
        let (config, by_pairs) = (of_blocks(256, 8), of_blocks(128, 16));
        let [gradient, hessian] = grouped.derivatives.each_ref().map(|numbers| numbers.address_of(0));
        let of = PositionScores { tree, scores, gradient, hessian };
        let scores = match &grouped.positions {
            Some(factors) => factors.add(queue, kernels, &of)?,
            None => scores,
        };
        let table = grouped.table(queue, scores, weight);
        match by_group.formula() {
            GroupFormula::Pairs(pairs) => {
                grouped.sort(queue, kernels, &table, config, None)?;
                let (of_ndcg, normalize, truncation) = (pairs.of_ndcg as u32, pairs.normalize as u32, pairs.truncation);
                // SAFETY: the arguments are those of the kernels: rows by group, sorted, and room by rank, by group and by row.
                unsafe {
                    launch!(queue, &kernels.group_ranks, config; &table, &of_ndcg)?;
                    launch!(queue, &kernels.group_pairs, by_pairs; &table, &of_ndcg, &normalize, &truncation)?;
                    if pairs.normalize {
                        launch!(queue, &kernels.group_factors, config; &table, &truncation)?;
                    }
                    launch!(queue, &kernels.group_finish, config; &table, &normalize)?;
                }
            }
            GroupFormula::Xendcg => {
                let key = random.key();
                let groups = grid((table.groups.div_ceil(16)).min(queue.gpu().multiprocessors() * 8).max(1), 256, 0);
                // SAFETY: the arguments are those of `tree_group_xendcg`: rows by group, and room by place and by row.
                unsafe { launch!(queue, &kernels.group_xendcg, groups; &table, &key) }?;
            }
            GroupFormula::Yetirank(yetirank) => {
                for order in 0..yetirank.orders {
                    grouped.sort(queue, kernels, &table, config, Some(random.child(order as u64)))?;
                    let begins = (order == 0) as u32;
                    // SAFETY: the arguments are those of `tree_group_neighbours`: rows by group, sorted, and room by place.
                    unsafe { launch!(queue, &kernels.group_neighbours, config; &table, &begins) }?;
                }
                // SAFETY: the argument is that of `tree_group_places`: sums by place, and room by row.
                unsafe { launch!(queue, &kernels.group_places, config; &table) }?;
            }
        }
        if let Some(factors) = &mut grouped.positions {
            factors.step(queue, kernels, &of)?;
        }
        grouped.derived = Some((tree, output));
        Ok(())
    }
}
