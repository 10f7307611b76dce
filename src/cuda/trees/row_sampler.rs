//! Draws the rows that a tree trains on. Twin of `core/learners/boosting/row_sampler.rs`.

use super::buffers::{Buffer, Kernels};
use super::layouts::{LossRows, RowDraw};
use super::rows::RowData;
use crate::runtime::Queue;
use crate::{grid, launch};
use taiga_core::error::Result;
use taiga_core::learners::boosting::params::RowSample;
use taiga_core::learners::boosting::row_sampler::{Draw, KeyCounts};
use taiga_core::losses::Loss;

/// Buckets of the keys that rows are drawn by.
const BUCKETS: usize = 1 << 15;

impl RowData<'_> {
    /// Whether every tree trains on all rows that train.
    pub fn keeps_all(&self) -> bool {
        self.row_sampling.keeps_all()
    }

    /// Draws the rows of a tree; gives whether all that are drawn count 1.
    pub fn draw(&mut self, queue: &Queue, kernels: &Kernels, loss: &dyn Loss, tree: u64, output: usize) -> Result<bool> {
        if self.keeps_all() {
            return Ok(true);
        }
        self.add_values(queue, kernels)?;
        self.derive_by_row(queue, kernels, loss, output)?;
        let table = self.table(loss, output, false);
        self.draw_by(queue, kernels, &table, tree)
    }

    /// Draws them by the derivatives of `table`, where the way to draw looks at these.
    pub fn draw_by(&mut self, queue: &Queue, kernels: &Kernels, table: &LossRows, tree: u64) -> Result<bool> {
        let held_out = self.held_out.as_ref().map_or(0u64, |h| h.address);
        let sampling = self.row_sampling;
        let kind: u32 = match sampling.sample {
            RowSample::Goss => 1,
            RowSample::Mvs => 2,
            _ => 0,
        };
        let config = grid(self.blocks, 256, 0);
        let counts = if kind == 0 {
            KeyCounts::default()
        } else {
            let counts = match &mut self.counts {
                Some(counts) => counts,
                none => none.insert(Buffer::new(queue, "counts of keys", BUCKETS)?),
            };
            queue.clear(&mut counts.slice)?;
            // SAFETY: the arguments are those of `tree_keys`; `counts` has a number for each bucket.
            unsafe { launch!(queue, &kernels.keys, config; table, &held_out, &kind, &sampling.l2, &counts.address) }?;
            let mut counts = KeyCounts::from_counts(counts.read(queue, BUCKETS)?.into_iter().map(u64::from).collect());
            if !self.of.is_whole() {
                counts.complete(self.of.collective)?;
            }
            counts
        };
        let draw = Draw::new(&sampling, &counts);
        let described = match draw {
            Draw::Bernoulli { probability } => RowDraw { kind: 0, first: probability, ..RowDraw::default() },
            Draw::Goss { bucket, share, rest } => RowDraw {
                kind: 1,
                bucket: bucket as u32,
                first: (share + (1.0 - share) * rest).min(1.0),
                second: rest,
                ..RowDraw::default()
            },
            Draw::Mvs { threshold, l2 } => RowDraw { kind: 2, l2, first: threshold, ..RowDraw::default() },
            Draw::Bayesian { temperature } => RowDraw { kind: 3, first: temperature, ..RowDraw::default() },
        };
        let bag = match &mut self.bag {
            Some(bag) => bag,
            none => none.insert(Buffer::new(queue, "rows drawn", self.rows)?),
        };
        // SAFETY: the arguments are those of `tree_draw`; `bag` has a number for each row.
        unsafe { launch!(queue, &kernels.draw, config; table, &held_out, &described, &self.seed, &tree, &bag.address) }?;
        Ok(draw.unit())
    }
}
