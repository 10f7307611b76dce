//! Finds the derivatives of losses by group and of Cox's likelihood, for all rows of a tree. Where the rows lie in several processes, each knows
//! the scores of all, and finds the derivatives of all rows that its own depend on.

use super::position_factors::PositionFactors;
use super::{CpuTrees, read, write};
use std::ops::Range;
use std::sync::Arc;
use taiga_core::dataset::row_groups::RowGroups;
use taiga_core::error::Result;
use taiga_core::learners::boosting::steps::TrainingData;
use taiga_core::losses::Loss;
use taiga_core::losses::by_group::{Group, GroupLoss, GroupWork, weigh};
use taiga_core::losses::risk_sets::{RiskSets, RiskWork};
use taiga_core::numerics::random::{Purpose, Random};
use taiga_core::pages;

/// Groups that have together up to so many rows are one task.
const ROWS: usize = 4096;

/// What rows depend on each other by.
enum Order {
    Groups(RowGroups),
    Times(Arc<RiskSets>, RiskWork),
}

impl Order {
    /// Returns all rows in this order.
    fn rows(&self) -> &[u32] {
        match self {
            Order::Groups(groups) => groups.all_rows(),
            Order::Times(sets, _) => &sets.rows,
        }
    }
}

/// The table's rows by group or by time, and room for what a loss makes of them in that order.
pub struct GroupedRows {
    order: Order,
    /// The groups whose derivatives are found: those that have any of this process's rows are among them.
    own: Range<usize>,
    /// By place; empty in the order of times.
    target: Vec<f32>,
    /// [`GroupLoss::number`] of each group; found with the first tree.
    numbers: Vec<f32>,
    scores: Vec<f32>,
    gradient: Vec<f32>,
    hessian: Vec<f32>,
    /// Where each row stands in that order; nothing where that is the table's.
    places: Option<Vec<u32>>,
    /// The factors of positions, where a loss by group knows some.
    pub(super) positions: Option<PositionFactors>,
}

impl GroupedRows {
    /// Returns the rows by group, where the loss reads groups, or by time, where it is Cox's.
    ///
    /// # Errors
    /// [`taiga_core::Error::Memory`], and those of the collective.
    pub fn new(data: &mut TrainingData<'_>) -> Result<Option<GroupedRows>> {
        let order = match (data.groups.take(), data.risk_sets.take()) {
            (Some(groups), _) => Order::Groups(groups),
            (None, Some(sets)) => {
                let work = RiskWork::new(&sets)?;
                Order::Times(sets, work)
            }
            (None, None) => return Ok(None),
        };
        let rows = order.rows();
        let own_rows = data.shard.first..data.shard.first + data.target.len();
        let (own, target) = match &order {
            Order::Groups(groups) => {
                let all = data.shard.of_all_rows(data.target.clone())?;
                // Positions' factors move by all rows.
                let own = if data.positions.is_some() { 0..groups.len() } else { groups_of(groups, own_rows) };
                (own, rows.iter().map(|row| all[*row as usize]).collect())
            }
            Order::Times(..) => (0..0, vec![]),
        };
        let bias = data.positions.take();
        let weight = bias.as_ref().and(data.weight.clone()).map(|weight| data.shard.of_all_rows(weight)).transpose()?;
        let positions = bias.map(|bias| PositionFactors::new(bias, weight));
        let room = || pages::try_zeroed("the rows of a fit by group", rows.len());
        let places = match rows.iter().enumerate().all(|(place, row)| place == *row as usize) {
            true => None,
            false => {
                let mut places = vec![0; rows.len()];
                rows.iter().enumerate().for_each(|(place, row)| places[*row as usize] = place as u32);
                Some(places)
            }
        };
        let (scores, gradient, hessian) = (room()?, room()?, room()?);
        Ok(Some(GroupedRows { own, target, numbers: vec![], scores, gradient, hessian, places, positions, order }))
    }

    /// Bytes of a row of the table: its place, target, score and derivatives; by time also its risk, and what is summed over those at risk.
    pub fn row_bytes(&self) -> u64 {
        match self.order {
            Order::Groups(_) => 20,
            Order::Times(..) => 16 + 12 + 32,
        }
    }

    /// Takes over the scores of the table's rows from `first` on.
    fn set_scores(&mut self, first: usize, scores: &[f32]) {
        match &self.places {
            None => self.scores[first..first + scores.len()].copy_from_slice(scores),
            Some(places) => places[first..].iter().zip(scores).for_each(|(place, score)| self.scores[*place as usize] = *score),
        }
    }

    /// Returns where a row of the table stands in the order.
    fn place(&self, row: usize) -> usize {
        self.places.as_ref().map_or(row, |places| places[row] as usize)
    }

    /// Finds the derivatives at the scores on all threads, those by group of the rows that this process's depend on; `random`: the random
    /// numbers of the tree.
    fn derive(&mut self, loss: &dyn Loss, random: Random) {
        let groups = match &mut self.order {
            Order::Groups(groups) => groups,
            Order::Times(sets, work) => return sets.derivatives(&self.scores, work, &mut self.gradient, &mut self.hessian),
        };
        let Some(loss) = loss.by_group() else { return };
        if self.numbers.is_empty() {
            self.numbers = (0..groups.len()).map(|group| loss.number(&self.target[groups.range(group)])).collect();
        }
        let (mut gradient, mut hessian) = (std::mem::take(&mut self.gradient), std::mem::take(&mut self.hessian));
        let all = GroupRows { groups, target: &self.target, numbers: &self.numbers, scores: &self.scores };
        let Range { start, end } = self.own;
        let places = groups.starts()[start] as usize..groups.starts()[end] as usize;
        all.divide(loss, random, (start, end), &mut gradient[places.clone()], &mut hessian[places]);
        (self.gradient, self.hessian) = (gradient, hessian);
    }
}

/// Returns a range of groups that has all those with any of these rows.
fn groups_of(groups: &RowGroups, rows: Range<usize>) -> Range<usize> {
    let has_any = |group: &usize| {
        let of_group = groups.rows(*group);
        let at = of_group.partition_point(|row| (*row as usize) < rows.start);
        of_group.get(at).is_some_and(|row| (*row as usize) < rows.end)
    };
    let first = (0..groups.len()).find(has_any);
    first.map_or(0..0, |first| first..(first..groups.len()).rfind(has_any).map_or(first, |last| last + 1))
}

/// What the rows of groups are.
struct GroupRows<'a> {
    groups: &'a RowGroups,
    target: &'a [f32],
    numbers: &'a [f32],
    scores: &'a [f32],
}

impl GroupRows<'_> {
    /// Finds the derivatives of the groups `from .. to`, whose rows' room is given.
    fn divide(&self, loss: &dyn GroupLoss, random: Random, (from, to): (usize, usize), gradient: &mut [f32], hessian: &mut [f32]) {
        if to - from > 1 && gradient.len() > ROWS {
            let starts = self.groups.starts();
            let middle = starts[from] + (gradient.len() / 2) as u32;
            let cut = (from + starts[from..to].partition_point(|start| *start < middle)).clamp(from + 1, to - 1);
            let at = (starts[cut] - starts[from]) as usize;
            let ((low_gradient, high_gradient), (low_hessian, high_hessian)) = (gradient.split_at_mut(at), hessian.split_at_mut(at));
            rayon::join(
                || self.divide(loss, random, (from, cut), low_gradient, low_hessian),
                || self.divide(loss, random, (cut, to), high_gradient, high_hessian),
            );
            return;
        }
        let mut work = GroupWork::default();
        let mut at = 0;
        for group in from..to {
            let range = self.groups.range(group);
            let own = at..at + range.len();
            at = own.end;
            let group = Group {
                scores: &self.scores[range.clone()],
                target: &self.target[range],
                rows: self.groups.rows(group),
                number: self.numbers[group],
                random,
            };
            loss.derivatives(&group, &mut work, &mut gradient[own.clone()], &mut hessian[own]);
        }
    }
}

impl CpuTrees<'_> {
    /// Finds the derivatives of tree `tree` at the current scores of `output`, where rows depend on each other, and gives each shard
    /// those of its rows, times their weights.
    ///
    /// # Errors
    /// Those of the collective.
    pub(super) fn derive_groups(&mut self, loss: &dyn Loss, tree: u64, output: usize) -> Result<()> {
        let Some(mut grouped) = self.grouped.take() else { return Ok(()) };
        let random = Random::new(self.seed, Purpose::RankingLoss, tree);
        let mut own = vec![0.0; if self.of.is_whole() { 0 } else { self.rows }];
        for shard in self.row_shards() {
            let shard = read(shard);
            for batch in 0..shard.batches() {
                let first = shard.first_row(batch);
                let scores = &shard.scores[output][shard.rows_of(batch)];
                match self.of.is_whole() {
                    true => grouped.set_scores(first, scores),
                    false => own[first..first + scores.len()].copy_from_slice(scores),
                }
            }
        }
        if !self.of.is_whole() {
            grouped.set_scores(0, &self.of.of_all_rows(own)?);
        }
        let mut positions = grouped.positions.take();
        let moves = positions.as_mut().is_some_and(|factors| factors.begin(tree));
        if let Some(factors) = &positions {
            factors.add(grouped.order.rows(), &mut grouped.scores);
        }
        grouped.derive(loss, random);
        if let Some(factors) = positions.as_mut().filter(|_| moves) {
            factors.step(|row| (grouped.gradient[grouped.place(row)], grouped.hessian[grouped.place(row)]));
        }
        grouped.positions = positions;
        let all = &grouped;
        self.pool.step(|t| {
            let mut shard = write(&self.shards[t]);
            let (mut gradient, mut hessian) = shard.given.take().unwrap_or_default();
            gradient.clear();
            hessian.clear();
            for batch in 0..shard.batches() {
                let first = shard.first_row(batch);
                for row in first..first + shard.rows_of(batch).len() {
                    let place = all.place(self.of.first + row);
                    gradient.push(all.gradient[place]);
                    hessian.push(all.hessian[place]);
                }
            }
            // Cox's likelihood has the weights inside.
            if let (Some(weight), false) = (&shard.weight, loss.of_risk_sets()) {
                weigh(weight, &mut gradient, &mut hessian);
            }
            shard.given = Some((gradient, hessian));
        });
        self.grouped = Some(grouped);
        Ok(())
    }
}
