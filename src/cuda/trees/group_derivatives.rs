//! Finds the derivatives of losses by group, and of Cox's likelihood, for all rows before a tree. Twin of `cpu/trees/group_derivatives.rs`.

use super::buffers::{Buffer, Kernels};
use super::layouts::GroupRows;
use super::position_factors::{PositionFactors, PositionScores};
use super::rows::RowData;
use crate::runtime::Queue;
use crate::runtime::sort::{Pairs, bits_below};
use crate::{grid, launch};
use cudarc::driver::{DevicePtr, LaunchConfig};
use taiga_core::dataset::row_groups::RowGroups;
use taiga_core::error::Result;
use taiga_core::learners::boosting::steps::TrainingData;
use taiga_core::losses::Loss;
use taiga_core::losses::by_group::{GroupFormula, GroupLoss, discount};
use taiga_core::numerics::random::{Purpose, Random};

/// The rows of a fit by group on the device: see `GroupRows` in `kernels/trees/group_derivatives.cuh`.
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
    ranked: [Buffer<f32>; 5],
    factors: Buffer<f32>,
    pub gradient: Buffer<f32>,
    pub hessian: Buffer<f32>,
    positions: Option<PositionFactors>,
    /// The tree and the output whose derivatives these are.
    derived: Option<(u64, usize)>,
}

impl GroupedRows {
    /// Bytes on the device.
    pub fn bytes(data: &TrainingData<'_>) -> u64 {
        // Keys and places twice and room to sort them, five numbers by rank, two derivatives, target, row and group.
        let of_row = 2 * 12 + 12 + 20 + 8 + 12 + 8 + if data.positions.is_some() { PositionFactors::BYTES } else { 0 };
        if data.groups.is_some() { of_row * data.target.len() as u64 } else { 0 }
    }

    /// Brings the rows to the device, where the loss reads groups.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn new(queue: &Queue, data: &TrainingData<'_>) -> Result<Option<GroupedRows>> {
        let Some(groups) = data.groups.clone() else { return Ok(None) };
        const WHAT: &str = "rows by group";
        let rows = groups.all_rows().len();
        let host_target: Vec<f32> = groups.all_rows().iter().map(|row| data.target[*row as usize]).collect();
        let group: Vec<u32> = (0..groups.len()).flat_map(|g| std::iter::repeat_n(g as u32, groups.range(g).len())).collect();
        let room = |n: usize| Buffer::new(queue, WHAT, n);
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
            ranked: [room(rows)?, room(rows)?, room(rows)?, room(rows)?, room(rows)?],
            factors: room(groups.len())?,
            gradient: room(rows)?,
            hessian: room(rows)?,
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
        let bits = 0..32 + bits_below(self.groups.len() as u64).max(1);
        queue.sort_pairs(&self.unsorted.0, &self.unsorted.1, &mut self.sorted, table.rows as u32, bits)
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
            gradient: self.gradient.address,
            hessian: self.hessian.address,
        }
    }
}

impl RowData<'_> {
    /// The same of Cox's likelihood.
    fn derive_risk_sets(&mut self, queue: &Queue, kernels: &Kernels, tree: u64, output: usize) -> Result<()> {
        if self.risk_sets.as_ref().is_none_or(|sets| sets.derived == Some((tree, output))) {
            return Ok(());
        }
        self.add_values(queue, kernels)?;
        let scores = self.scores.address + 4 * (output * self.rows) as u64;
        let Some(sets) = &mut self.risk_sets else { return Ok(()) };
        sets.derive(queue, kernels, scores)?;
        sets.derived = Some((tree, output));
        Ok(())
    }

    /// Finds the derivatives of a tree at the current scores of `output`, where rows depend on each other and they are not there yet.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn derive_groups(&mut self, queue: &Queue, kernels: &Kernels, loss: &dyn Loss, tree: u64, output: usize) -> Result<()> {
        self.derive_risk_sets(queue, kernels, tree, output)?;
        let Some(by_group) = loss.by_group() else { return Ok(()) };
        if self.grouped.as_ref().is_none_or(|grouped| grouped.derived == Some((tree, output))) {
            return Ok(());
        }
        self.add_values(queue, kernels)?;
        let (scores, weight) = (self.scores.address + 4 * (output * self.rows) as u64, self.weight.as_ref().map_or(0, |w| w.address));
        let (config, random) = (grid(self.blocks, 256, 0), Random::new(self.seed, Purpose::RankingLoss, tree));
        let Some(grouped) = &mut self.grouped else { return Ok(()) };
        grouped.prepare(queue, by_group)?;
        let of = PositionScores { tree, scores, gradient: grouped.gradient.address, hessian: grouped.hessian.address };
        let scores = match &grouped.positions {
            Some(factors) => factors.add(queue, kernels, &of)?,
            None => scores,
        };
        let table = grouped.table(queue, scores, weight);
        match by_group.formula() {
            GroupFormula::Pairs(pairs) => {
                grouped.sort(queue, kernels, &table, config, None)?;
                let (of_ndcg, normalize, truncation) = (pairs.of_ndcg as u32, pairs.normalize as u32, pairs.truncation);
                let by_pairs = grid((self.rows.div_ceil(128) as u32).min(queue.gpu().multiprocessors() * 16).max(1), 128, 0);
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
