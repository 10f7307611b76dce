//! Derivatives of Cox's partial likelihood, in passes over all rows that any number of threads may share.
//!
//! The rows of a stratum stand by time, the latest first, so that those at risk at a time are all rows up to a place. What is summed over
//! them is f64 in blocks of [`BLOCK`] places: inside a block in order, then the blocks of a stratum in order, and what stood before a
//! block is added to its own sums last. So the bits do not depend on who adds; kernels/trees/risk_sets.cuh is the twin.
//!
//! With `v = weight · exp(score)`, of the `d` deaths of weight `w` in the mean at a time number `k` (from 0) finds at risk
//! `left = Σ v (all at risk) - k/d · Σ v (the d)`, and adds `w / left` to the hazard. A row's gradient is `v` times the hazard up to its time,
//! less its weight if it died; one that died does not bear the `k/d` of its own time's terms. The hessian is that of its own
//! score, the second derivative's diagonal.

use super::pointwise::{SMALLEST_HESSIAN, clamp};
use crate::dataset::row_groups::RowGroups;
use crate::error::Result;
use crate::numerics::math;
use crate::pages;
use multiversion::multiversion;
use rayon::prelude::*;
use std::ops::Range;

/// Places that are summed in order.
pub const BLOCK: usize = 256;

/// Blocks that have together so many places are one task.
const TASK: usize = 1 << 14;

/// Scores count as if they were within this of the middle of the first ones.
pub const LARGEST_SCORE: f32 = 80.0;

/// Rows of one time in a stratum: places `start .. end`, those that died first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tie {
    pub start: u32,
    /// Where those that died end.
    pub died: u32,
    pub end: u32,
    /// Where the stratum starts and ends.
    pub stratum: (u32, u32),
    /// The mean weight of those that died.
    pub weight: f64,
}

/// The sums over the deaths of a time and of those before it: `w / left`, that times `k/d`, `w / left²`, that times `(2 - k/d) k/d`.
pub type Hazard = [f64; 4];

/// The rows of a fit as Cox's likelihood reads them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RiskSets {
    /// The row at each place; those that are never at risk, which are held out, stand last.
    pub rows: Vec<u32>,
    /// The rows' weights by place, where they have some.
    pub weight: Option<Vec<f32>>,
    /// Stratum after stratum, the latest time first.
    pub ties: Vec<Tie>,
    /// The tie at each place.
    pub tie: Vec<u32>,
    /// Where each block starts, and where the last one ends.
    pub blocks: Vec<u32>,
    /// The first block of each stratum, and the end of the last one's.
    pub strata: Vec<u32>,
    /// What scores are taken relative to.
    pub middle: f32,
}

/// What the rows of a fit are for Cox's likelihood.
#[derive(Clone, Copy)]
pub struct Observed<'a> {
    /// Not negative.
    pub times: &'a [f64],
    /// Whether the event happened at that time, by row.
    pub died: &'a [bool],
    pub weight: Option<&'a [f32]>,
    /// Rows that are never at risk.
    pub held_out: Option<&'a [bool]>,
    /// The scores before the first tree.
    pub scores: &'a [f32],
}

/// Room for the passes of a tree; all but `hazard`, which is by tie, is by place.
pub struct RiskWork {
    /// exp(score).
    risk: Vec<f32>,
    /// The sum of `v` over the places up to this one.
    at_risk: Vec<f64>,
    hazard: Vec<Hazard>,
    /// What stands before (or behind) each block.
    carry: Vec<f64>,
    hazard_carry: Vec<Hazard>,
}

impl RiskWork {
    /// Makes room for the passes over `sets`.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    pub fn new(sets: &RiskSets) -> Result<RiskWork> {
        const WHAT: &str = "the rows of a fit by time";
        let places = sets.tie.len();
        let (risk, at_risk) = (pages::try_zeroed(WHAT, places)?, pages::try_zeroed(WHAT, places)?);
        let mut hazard = pages::try_with_capacity(WHAT, sets.ties.len())?;
        hazard.resize(sets.ties.len(), Hazard::default());
        Ok(RiskWork { risk, at_risk, hazard, carry: vec![], hazard_carry: vec![] })
    }
}

fn add(a: Hazard, b: Hazard) -> Hazard {
    std::array::from_fn(|i| a[i] + b[i])
}

/// Cuts a slice at places that ascend.
fn cut<T>(mut values: &mut [T], cuts: impl Iterator<Item = usize>) -> Vec<&mut [T]> {
    let (mut parts, mut from) = (vec![], 0);
    for at in cuts {
        let (part, rest) = values.split_at_mut(at - from);
        parts.push(part);
        (values, from) = (rest, at);
    }
    parts
}

impl RiskSets {
    /// Sorts the rows of each of `groups`, which are the strata, by time; without groups all are one.
    pub fn new(groups: Option<&RowGroups>, observed: Observed<'_>) -> RiskSets {
        let n = observed.times.len();
        let one = RowGroups::new(&vec![0; if groups.is_some() { 0 } else { n }]);
        let groups = groups.unwrap_or(&one);
        let is_at_risk = |row: u32| !observed.held_out.is_some_and(|h| h[row as usize]);
        let mut out = RiskSets { rows: Vec::with_capacity(n), blocks: vec![0], strata: vec![0], ..RiskSets::default() };
        for group in 0..groups.len() {
            let key = |row: &u32| {
                let i = *row as usize;
                // Times are not negative, so their bits order as they do.
                (!(observed.times[i] + 0.0).to_bits(), !observed.died[i], *row)
            };
            let mut own: Vec<(u64, bool, u32)> = groups.rows(group).iter().filter(|row| is_at_risk(**row)).map(key).collect();
            own.par_sort_unstable();
            out.add_stratum(&own, observed.weight);
        }
        out.weight = observed.weight.map(|w| out.rows.iter().map(|row| w[*row as usize]).collect());
        out.rows.extend((0..n as u32).filter(|row| !is_at_risk(*row)));
        let first = out.rows.first().map_or(0.0, |row| observed.scores[*row as usize]);
        let at_risk = &out.rows[..out.tie.len()];
        let (low, high) = at_risk.iter().map(|row| observed.scores[*row as usize]).fold((first, first), |(a, b), s| (a.min(s), b.max(s)));
        out.middle = clamp(0.5 * low + 0.5 * high, -f32::MAX, f32::MAX);
        out
    }

    /// Adds a stratum's rows, sorted.
    fn add_stratum(&mut self, rows: &[(u64, bool, u32)], weight: Option<&[f32]>) {
        if rows.is_empty() {
            return;
        }
        let first = self.rows.len();
        let stratum = (first as u32, (first + rows.len()) as u32);
        self.rows.extend(rows.iter().map(|row| row.2));
        for tied in rows.chunk_by(|a, b| a.0 == b.0) {
            let start = self.tie.len();
            let died = tied.iter().filter(|row| !row.1).count();
            let total: f64 = tied[..died].iter().map(|row| weight.map_or(1.0, |w| f64::from(w[row.2 as usize]))).sum();
            let (died, end, weight) = (start + died, start + tied.len(), if died > 0 { total / died as f64 } else { 0.0 });
            self.tie.resize(end, self.ties.len() as u32);
            self.ties.push(Tie { start: start as u32, died: died as u32, end: end as u32, stratum, weight });
        }
        self.blocks.extend((first..self.rows.len()).step_by(BLOCK).skip(1).map(|start| start as u32));
        self.blocks.push(self.rows.len() as u32);
        self.strata.push(self.blocks.len() as u32 - 1);
    }

    /// Whether no row died.
    pub fn has_no_events(&self) -> bool {
        self.ties.iter().all(|tie| tie.died == tie.start)
    }

    fn block(&self, block: usize) -> Range<usize> {
        self.blocks[block] as usize..self.blocks[block + 1] as usize
    }

    /// The first tie that starts at a place or behind it.
    fn tie_from(&self, place: usize) -> usize {
        match self.tie.get(place) {
            None => self.ties.len(),
            Some(tie) => *tie as usize + (self.ties[*tie as usize].start as usize != place) as usize,
        }
    }

    fn weight(&self, place: usize) -> f64 {
        self.weight.as_ref().map_or(1.0, |w| f64::from(w[place]))
    }

    /// Blocks that are one task.
    fn tasks(&self) -> Vec<Range<usize>> {
        let blocks = self.blocks.len() - 1;
        let mut tasks = vec![];
        let mut from = 0;
        while from < blocks {
            let enough = self.blocks[from] as usize + TASK;
            let to = self.blocks.partition_point(|start| (*start as usize) < enough).clamp(from + 1, blocks);
            tasks.push(from..to);
            from = to;
        }
        tasks
    }

    /// Writes the derivatives at scores by place, those of rows that are never at risk included, by place.
    pub fn derivatives(&self, scores: &[f32], work: &mut RiskWork, gradient: &mut [f32], hessian: &mut [f32]) {
        let places = self.tie.len();
        let tasks = self.tasks();
        let ends = || tasks.iter().map(|task| self.blocks[task.end] as usize);
        let RiskWork { risk, at_risk, hazard, carry, hazard_carry } = work;
        let parts = tasks.par_iter().zip(cut(risk, ends())).zip(cut(at_risk, ends()));
        parts.for_each(|((task, risk), at_risk)| self.add_up(task.clone(), scores, risk, at_risk));
        self.carry(carry, at_risk);
        tasks.par_iter().zip(cut(at_risk, ends())).for_each(|(task, at_risk)| {
            for (values, block) in self.by_block(task.clone(), at_risk) {
                values.iter_mut().for_each(|x| *x += carry[block]);
            }
        });
        let tie_ends = || ends().map(|end| self.tie_from(end));
        let at_risk = &*at_risk;
        let totals = tasks.par_iter().zip(cut(hazard, tie_ends())).map(|(task, hazard)| self.add_hazards(task.clone(), at_risk, hazard));
        self.carry_hazards(hazard_carry, totals.flatten_iter().collect());
        tasks.par_iter().zip(cut(hazard, tie_ends())).for_each(|(task, hazard)| {
            let first = self.tie_from(self.blocks[task.start] as usize);
            for block in task.clone() {
                let own = self.tie_from(self.block(block).start)..self.tie_from(self.block(block).end);
                hazard[own.start - first..own.end - first].iter_mut().for_each(|x| *x = add(*x, hazard_carry[block]));
            }
        });
        let parts = tasks.par_iter().zip(cut(gradient, ends())).zip(cut(hessian, ends()));
        parts.for_each(|((task, gradient), hessian)| {
            let first = self.blocks[task.start] as usize;
            for (i, (g, h)) in gradient.iter_mut().zip(hessian).enumerate() {
                (*g, *h) = self.of_place(first + i, risk[first + i], hazard);
            }
        });
        gradient[places..].fill(0.0);
        hessian[places..].fill(SMALLEST_HESSIAN);
    }

    /// Returns the blocks of a task with their part of what the task has.
    fn by_block<'a, T>(&self, task: Range<usize>, values: &'a mut [T]) -> impl Iterator<Item = (&'a mut [T], usize)> {
        let first = self.blocks[task.start] as usize;
        let ends = task.clone().map(|block| self.blocks[block + 1] as usize - first);
        cut(values, ends).into_iter().zip(task)
    }

    /// Adds `v` up inside blocks.
    fn add_up(&self, task: Range<usize>, scores: &[f32], risk: &mut [f32], at_risk: &mut [f64]) {
        let first = self.blocks[task.start] as usize;
        hazards(&scores[first..first + risk.len()], self.middle, risk);
        for block in task {
            let mut total = 0.0;
            for place in self.block(block) {
                total += self.weight(place) * f64::from(risk[place - first]);
                at_risk[place - first] = total;
            }
        }
    }

    /// Finds what stands before each block of its stratum.
    fn carry(&self, carry: &mut Vec<f64>, at_risk: &[f64]) {
        carry.clear();
        for blocks in self.strata.windows(2) {
            let mut total = 0.0;
            for block in blocks[0]..blocks[1] {
                carry.push(total);
                total += at_risk[self.blocks[block as usize + 1] as usize - 1];
            }
        }
    }

    /// Adds the terms of deaths up inside blocks, from the last place to the first, and notes the sums at the start of each tie; returns
    /// those of each block.
    fn add_hazards(&self, task: Range<usize>, at_risk: &[f64], hazard: &mut [Hazard]) -> Vec<Hazard> {
        let first = self.tie_from(self.blocks[task.start] as usize);
        let of_block = |block: usize, hazard: &mut [Hazard]| {
            let mut total = [0.0; 4];
            for place in self.block(block).rev() {
                let index = self.tie[place] as usize;
                let tie = &self.ties[index];
                if place < tie.died as usize {
                    total = add(total, term(tie, place, at_risk));
                }
                if place == tie.start as usize {
                    hazard[index - first] = total;
                }
            }
            total
        };
        task.map(|block| of_block(block, hazard)).collect()
    }

    /// Finds what stands behind each block of its stratum.
    fn carry_hazards(&self, carry: &mut Vec<Hazard>, totals: Vec<Hazard>) {
        *carry = totals;
        for blocks in self.strata.windows(2) {
            let mut total = [0.0; 4];
            for own in carry[blocks[0] as usize..blocks[1] as usize].iter_mut().rev() {
                let with = add(total, *own);
                *own = total;
                total = with;
            }
        }
    }

    /// Returns gradient and hessian of the row at a place, times its weight.
    #[inline(always)]
    fn of_place(&self, place: usize, risk: f32, hazard: &[Hazard]) -> (f32, f32) {
        let index = self.tie[place] as usize;
        let tie = &self.ties[index];
        let weight = self.weight(place);
        let v = weight * f64::from(risk);
        let [mut first, _, mut second, _] = hazard[index];
        let has_died = place < tie.died as usize;
        if has_died && tie.died - tie.start > 1 {
            // What deaths of its own time are spared of it.
            let before = if tie.end < tie.stratum.1 { hazard[index + 1] } else { [0.0; 4] };
            first -= hazard[index][1] - before[1];
            second -= hazard[index][3] - before[3];
        }
        let expected = v * first;
        let gradient = if has_died { expected - weight } else { expected };
        let hessian = expected - v * v * second;
        (clamp(gradient as f32, -f32::MAX, f32::MAX), clamp(hessian as f32, SMALLEST_HESSIAN, f32::MAX))
    }
}

/// What the death at a place adds to the hazard.
#[inline(always)]
fn term(tie: &Tie, place: usize, at_risk: &[f64]) -> Hazard {
    let before = if tie.start > tie.stratum.0 { at_risk[tie.start as usize - 1] } else { 0.0 };
    let all = at_risk[tie.end as usize - 1];
    let dying = at_risk[tie.died as usize - 1] - before;
    let share = (place - tie.start as usize) as f64 / f64::from(tie.died - tie.start);
    let left = all - share * dying;
    let first = tie.weight / left;
    let second = first / left;
    [first, share * first, second, share * (2.0 - share) * second]
}

/// `risk[i]` becomes exp(score).
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn hazards(scores: &[f32], middle: f32, risk: &mut [f32]) {
    for (s, r) in scores.iter().zip(risk) {
        *r = math::exp(clamp(*s - middle, -LARGEST_SCORE, LARGEST_SCORE));
    }
}
