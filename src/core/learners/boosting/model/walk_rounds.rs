//! Scores of rows, round after round, in the numbers that a fit adds them in.

use super::Model;
use super::plan::{BLOCK, Block, LeafIndices, Plan};
use crate::column::Column;
use crate::error::Result;
use crate::memory::{self, product};
use crate::parallel::interrupt;
use crate::tree::linear::in_f32;
use rayon::prelude::*;

/// The rows of a table, ready to be sent through one round of a model after the other.
pub struct RoundWalk<'m> {
    model: &'m Model,
    plan: Plan,
    blocks: Vec<Block>,
}

impl<'m> RoundWalk<'m> {
    /// Codes the rows by the borders and categories that the model asks about: a byte a row for each column and derived feature.
    /// `columns` as [`super::apply::Predictor::bind`] gives them; `model` is valid.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub fn new(model: &'m Model, columns: &[&Column<'_>]) -> Result<RoundWalk<'m>> {
        let (plan, rows) = (Plan::new(model), columns.first().map_or(0, |c| c.len()));
        let bytes = product(&[rows as u64, plan.bytes_of_row()]);
        memory::check(&format!("the codes of {rows} rows by the given model's borders"), bytes, "fit on fewer rows")?;
        let read = |start: usize| {
            interrupt::poll();
            let mut block = Block::default();
            plan.read(columns, start, BLOCK.min(rows - start), &mut block);
            block
        };
        let starts: Vec<usize> = (0..rows).step_by(BLOCK).collect();
        let blocks = starts.into_par_iter().map(read).collect();
        Ok(RoundWalk { model, plan, blocks })
    }

    /// Returns the leaf of each row in a tree.
    pub fn leaves(&self, tree: usize) -> Vec<u16> {
        let of_block = |leaves: &mut LeafIndices, block: &Block| {
            self.plan.leaves(tree, block, leaves);
            (0..block.rows()).map(|row| self.plan.leaf(tree, leaves, row) as u16).collect::<Vec<u16>>()
        };
        self.blocks.par_iter().map_init(LeafIndices::default, of_block).collect::<Vec<_>>().concat()
    }

    /// Returns what the model's leaf values are multiplied by to be in units of an output's `units`.
    fn in_units(&self, output: usize, units: &[f64]) -> f64 {
        self.model.scale / units[output.min(units.len() - 1)]
    }

    /// Returns the values of a tree's leaves, in units of its output's `units`.
    pub fn values(&self, tree: usize, units: &[f64]) -> Vec<f32> {
        let in_units = self.in_units(tree % self.model.outputs(), units);
        self.model.trees[tree].leaves().iter().map(|leaf| (leaf.value * in_units) as f32).collect()
    }

    /// Adds a round's leaf values to the scores of all rows, `[output][row]`, each in units of its output's `units`: in f32, as the
    /// devices do.
    pub fn add_round(&self, round: usize, units: &[f64], scores: &mut [Vec<f32>]) {
        let outputs = self.model.outputs();
        for (output, scores) in scores.iter_mut().enumerate() {
            let tree = round * outputs + output;
            let (values, in_units) = (self.values(tree, units), self.in_units(output, units));
            scores.par_chunks_mut(BLOCK).zip(&self.blocks).for_each_init(LeafIndices::default, |leaves, (scores, block)| {
                self.plan.leaves(tree, block, leaves);
                for (row, score) in scores.iter_mut().enumerate() {
                    let linear = self.plan.linear_value(tree, block, leaves, row).map(|value| in_f32(value * in_units));
                    *score += linear.unwrap_or_else(|| values[self.plan.leaf(tree, leaves, row) as usize]);
                }
            });
        }
    }
}
