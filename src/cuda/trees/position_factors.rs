//! Adds the factors of positions to the scores of losses by group, and moves them after a tree's derivatives. Twin of
//! `cpu/trees/position_factors.rs`.

use super::buffers::{Buffer, Kernels};
use super::layouts::PositionRows;
use crate::runtime::Queue;
use crate::{grid, launch};
use taiga_core::error::Result;
use taiga_core::losses::position_bias::{LANES, PositionBias, StepRule};

/// The trees whose factors are kept: where a tree is to be grown again behind which another one was queued, that one has moved them already.
const KEPT: u64 = 4;

/// The factors of positions on the device: see `PositionRows` in `kernels/trees/position_factors.cuh`.
pub struct PositionFactors {
    rows: usize,
    positions: usize,
    blocks: usize,
    rule: StepRule,
    of_row: Buffer<u32>,
    trained: Buffer<u32>,
    ranges: Buffer<u32>,
    starts: Buffer<u32>,
    weights: Buffer<f64>,
    sums: Buffer<f64>,
    /// Those of tree `t` at `t % KEPT`.
    factors: Buffer<f64>,
    adjusted: Buffer<f32>,
    /// The last tree whose derivatives have moved them.
    moved: Option<u64>,
}

/// Where a tree reads factors, and the rows' derivatives.
#[derive(Clone, Copy)]
pub struct PositionScores {
    pub tree: u64,
    /// Addresses of the scores, the gradients and the hessians by row.
    pub scores: u64,
    pub gradient: u64,
    pub hessian: u64,
}

impl PositionFactors {
    /// Bytes on the device for each row.
    pub const BYTES: u64 = 12;

    /// Brings rows by position to the device, with the factors to begin with, which are those of whatever tree comes first.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn new(queue: &Queue, bias: &PositionBias) -> Result<PositionFactors> {
        const WHAT: &str = "rows by position";
        let ranges: Vec<u32> = bias.blocks.iter().flat_map(|block| [block.start, block.end]).collect();
        Ok(PositionFactors {
            rows: bias.of_row.len(),
            positions: bias.positions(),
            blocks: bias.blocks.len(),
            rule: bias.rule,
            of_row: Buffer::copy_of(queue, WHAT, &bias.of_row)?,
            trained: Buffer::copy_of(queue, WHAT, &bias.rows)?,
            ranges: Buffer::copy_of(queue, WHAT, &ranges)?,
            starts: Buffer::copy_of(queue, WHAT, &bias.starts)?,
            weights: Buffer::copy_of(queue, WHAT, &bias.weights)?,
            sums: Buffer::new(queue, WHAT, 2 * bias.blocks.len())?,
            factors: Buffer::copy_of(queue, WHAT, &bias.factors.repeat(KEPT as usize))?,
            adjusted: Buffer::new(queue, WHAT, bias.of_row.len())?,
            moved: None,
        })
    }

    /// Returns where the factors of a tree stand.
    fn of_tree(&self, tree: u64) -> usize {
        (tree % KEPT) as usize * self.positions
    }

    /// What the kernels are told.
    fn table(&self, of: &PositionScores) -> PositionRows {
        PositionRows {
            rows: self.rows as u64,
            positions: self.positions as u32,
            blocks: self.blocks as u32,
            position: self.of_row.address,
            trained: self.trained.address,
            ranges: self.ranges.address,
            starts: self.starts.address,
            weights: self.weights.address,
            factors: self.factors.address + 8 * self.of_tree(of.tree) as u64,
            next: self.factors.address + 8 * self.of_tree(of.tree + 1) as u64,
            sums: self.sums.address,
            scores: of.scores,
            adjusted: self.adjusted.address,
            gradient: of.gradient,
            hessian: of.hessian,
            learning_rate: self.rule.learning_rate,
            l2: self.rule.l2,
        }
    }

    /// Adds the factors of a tree to scores; returns the address of the sums by row.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn add(&self, queue: &Queue, kernels: &Kernels, of: &PositionScores) -> Result<u64> {
        let (table, config) = (self.table(of), grid(blocks(queue, self.rows), 256, 0));
        // SAFETY: the argument is that of `tree_position_adjust`: scores and positions by row, a factor of each position.
        unsafe { launch!(queue, &kernels.position_adjust, config; &table) }?;
        Ok(self.adjusted.address)
    }

    /// Moves the factors by the first derivatives of a tree; those of its other sets of scores move nothing.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn step(&mut self, queue: &Queue, kernels: &Kernels, of: &PositionScores) -> Result<()> {
        if self.moved == Some(of.tree) {
            return Ok(());
        }
        self.moved = Some(of.tree);
        let table = self.table(of);
        let (by_block, by_position) = (blocks(queue, LANES * self.blocks), blocks(queue, self.positions));
        // SAFETY: the arguments are those of the kernels: rows by position, their derivatives, room for sums and for factors.
        unsafe {
            launch!(queue, &kernels.position_sums, grid(by_block, 256, 0); &table)?;
            launch!(queue, &kernels.position_step, grid(by_position, 256, 0); &table)
        }
    }

    /// Returns the factors after the last step.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn latest(&self, queue: &Queue) -> Result<Vec<f64>> {
        let at = self.of_tree(self.moved.map_or(0, |tree| tree + 1));
        queue.read(&self.factors.slice.slice(at..at + self.positions))
    }
}

/// Blocks of 256 threads for so many.
fn blocks(queue: &Queue, threads: usize) -> u32 {
    (threads.div_ceil(256) as u32).min(queue.gpu().multiprocessors() * 8).max(1)
}
