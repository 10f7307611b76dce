//! The passes over rows that L-BFGS asks for, on the GPU, in the CPU's bits. Twin of `cpu/linear/passes.rs`.
//!
//! ```text
//! once     rows ─► tiles (tiles.rs), or lists as Arrow has them, or in blocks that pass through (csr.rs)
//! scores   coefficients up ─► intercept and dense columns ─► entries of each row
//! along    derivatives at a step: a number a block of rows down
//! gradient residuals as integers ─► sums of each feature, integers ─► down
//! ```
//!
//! What is summed over a row or over a feature is integers, or the eight partial sums of the CPU; what is summed over rows, fixed
//! blocks that the host adds in order.

use super::csr::{self, CsrStorage};
use super::tiles::Tiles;
use super::{DenseRows, FeatureScale, LINEAR, address, check_shape};
use crate::launch;
use crate::runtime::column::{DeviceColumn, bytes_of_mut};
use crate::runtime::device::Gpu;
use crate::runtime::queue::{Queue, grid};
use crate::runtime::upload::upload;
use cudarc::driver::{CudaSlice, LaunchConfig};
use std::borrow::Cow;
use taiga_core::error::{Error, Result};
use taiga_core::learners::linear::problem::Problem;
use taiga_core::learners::linear::steps::{PassSteps, Residuals, Task};
use taiga_core::learners::linear::vectors::each;
use taiga_core::learners::linear::whole::{WholeVector, power, value_of};
use taiga_core::numerics::reduce::{BLOCK, add_in_order};

/// What entries are kept as.
enum EntryStorage<'p, 'a> {
    None,
    Tiles(Tiles),
    Csr(CsrStorage<'p, 'a>),
}

/// The rows of a problem on a GPU.
pub struct CudaLinear<'p, 'a> {
    pub(super) queue: Queue,
    passes: &'p Task<'p, 'a>,
    entries: EntryStorage<'p, 'a>,
    rows: DenseRows,
    feature_scale: FeatureScale,
    // What `rows` and `feature_scale` point to.
    _dense: (Vec<DeviceColumn>, CudaSlice<u64>),
    _codes: CudaSlice<u32>,
    _weight: Option<CudaSlice<f32>>,
    _inverse: Option<CudaSlice<f64>>,
}

impl<'p, 'a> CudaLinear<'p, 'a> {
    /// The problem of `passes` on GPU `number`.
    ///
    /// # Errors
    /// [`Error::Device`] and [`Error::Interrupted`].
    pub fn new(number: Option<u32>, passes: &'p Task<'p, 'a>) -> Result<Self> {
        let queue = Queue::new(Gpu::get(number)?)?;
        let p = passes.problem;
        check_shape(p)?;
        let plan = csr::StoragePlan::new(&queue, passes)?;
        let codes = upload(&queue, "classes", p.codes)?;
        let weight = p.weight.as_ref().map(|w| upload(&queue, "weights", w)).transpose()?;
        let dense = p.dense.iter().map(|c| DeviceColumn::doubles(&queue, c)).collect::<Result<Vec<_>>>()?;
        let addresses: Vec<u64> = dense.iter().map(|c| address(&queue, c.values())).collect();
        let addresses = queue.copy_of("dense columns", &addresses)?;
        let inverse = passes.feature_scale.inverse.as_ref().map(|i| upload(&queue, "units", i)).transpose()?;
        let rows = DenseRows {
            dense: address(&queue, &addresses),
            codes: address(&queue, &codes),
            weight: weight.as_ref().map_or(0, |w| address(&queue, w)),
            rows: p.rows as u64,
            columns: p.dense.len() as u32,
            outputs: p.outputs as u32,
        };
        let feature_scale =
            FeatureScale { inverse: inverse.as_ref().map_or(0, |i| address(&queue, i)), common: passes.feature_scale.common };
        let entries = match &p.csr {
            None => EntryStorage::None,
            Some(csr) => match plan.grid {
                Some(grid) => EntryStorage::Tiles(Tiles::new(&queue, csr, p.outputs, grid, passes.monitor)?),
                None => EntryStorage::Csr(CsrStorage::new(&queue, csr, &plan, passes.monitor)?),
            },
        };
        queue.synchronize()?;
        Ok(CudaLinear {
            queue,
            passes,
            entries,
            rows,
            feature_scale,
            _dense: (dense, addresses),
            _codes: codes,
            _weight: weight,
            _inverse: inverse,
        })
    }

    /// How entries are kept, in a word.
    pub fn layout(&self) -> &'static str {
        match &self.entries {
            EntryStorage::None => "none",
            EntryStorage::Tiles(_) => "tiles",
            EntryStorage::Csr(CsrStorage::Resident { .. }) => "lists",
            EntryStorage::Csr(CsrStorage::Streamed { .. }) => "streamed",
        }
    }

    pub(super) fn problem(&self) -> &'p Problem<'a> {
        self.passes.problem
    }

    fn check(&self) -> Result<()> {
        if self.passes.interrupted() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Blocks of rows that sums are made of.
    fn blocks(&self) -> usize {
        self.problem().rows.div_ceil(BLOCK)
    }

    /// A launch of threads that stride over `n`.
    fn striding(&self, n: usize) -> LaunchConfig {
        let most = self.queue.gpu().multiprocessors() * 8;
        grid((n.div_ceil(256) as u32).clamp(1, most), 256, 0)
    }

    /// Coefficients of sparse features as integers, with room for whole tiles behind them.
    pub(super) fn whole(&self, sparse: &[f64]) -> Result<(CudaSlice<i32>, f64)> {
        let room = if let EntryStorage::Tiles(tiles) = &self.entries { tiles.grid.features() } else { 0 };
        let whole = WholeVector::new(self.passes.pool, sparse, room);
        Ok((upload(&self.queue, "coefficients", &whole.numbers)?, whole.scale))
    }

    /// Intercepts and dense columns.
    fn base(&self, tail: &[f64], out: &mut CudaSlice<f64>) -> Result<()> {
        let tail = self.queue.copy_of("coefficients", tail)?;
        let (kernel, config) = (self.queue.gpu().kernel(LINEAR, "linear_base")?, self.striding(out.len()));
        // SAFETY: the arguments are those of `linear_base`: a coefficient for each column and one behind them, by output.
        unsafe { launch!(self.queue, kernel, config; &self.rows, &tail, out) }
    }

    /// Scores of sparse coefficients as integers, and of `tail`: those of dense columns, and intercepts.
    pub(super) fn whole_scores(&self, tail: &[f64], numbers: &CudaSlice<i32>, scale: f64, out: &mut CudaSlice<f64>) -> Result<()> {
        let (p, from) = (self.problem(), address(&self.queue, numbers));
        let to = address(&self.queue, out);
        match &self.entries {
            // Intercepts and entries at once.
            EntryStorage::Tiles(tiles) if p.dense.is_empty() => {
                let tail = self.queue.copy_of("coefficients", tail)?;
                tiles.scores(&self.queue, from, p.width, scale, address(&self.queue, &tail), to)
            }
            EntryStorage::Tiles(tiles) => {
                self.base(tail, out)?;
                tiles.scores(&self.queue, from, p.width, scale, 0, to)
            }
            EntryStorage::Csr(lists) => {
                self.base(tail, out)?;
                let kernel = self.queue.gpu().kernel(LINEAR, "linear_scores_whole")?;
                // SAFETY: the arguments are those of `linear_scores_whole`, with coefficients of all features and room for
                // all rows.
                lists.each(&self.queue, &|queue, lists| unsafe { launch!(queue, kernel, lists.config(); &lists, &from, &scale, &to) })
            }
            EntryStorage::None => self.base(tail, out),
        }
    }

    /// Adds rows' integers to the sums of their features.
    pub(super) fn add_whole(&self, whole: &CudaSlice<i32>, sums: &mut CudaSlice<i64>) -> Result<()> {
        let (whole, to) = (address(&self.queue, whole), address(&self.queue, sums));
        match &self.entries {
            EntryStorage::None => Ok(()),
            EntryStorage::Tiles(tiles) => tiles.gradient(&self.queue, whole, to),
            EntryStorage::Csr(lists) => {
                let kernel = self.queue.gpu().kernel(LINEAR, "linear_add_whole")?;
                // SAFETY: the arguments are those of `linear_add_whole`, with integers of all rows and sums of all features.
                lists.each(&self.queue, &|queue, lists| unsafe { launch!(queue, kernel, lists.config(); &lists, &whole, &to) })
            }
        }
    }

    /// Room for an integer of each row and output, and of rows behind them that tiles have.
    pub(super) fn room(&self) -> Result<CudaSlice<i32>> {
        let rows = if let EntryStorage::Tiles(tiles) = &self.entries { tiles.grid.rows() } else { 0 };
        self.queue.zeros("residuals", rows.max(self.problem().rows * self.problem().outputs))
    }

    /// Sums of sparse features in the rows of all shards, on the host.
    fn collect(&self, sums: &CudaSlice<i64>, out: &mut [f64], scale: impl Fn(f64) -> f64 + Sync) -> Result<()> {
        let outputs = self.problem().outputs;
        let mut found = vec![0i64; out.len()];
        self.queue.download(sums, bytes_of_mut(&mut found))?;
        self.problem().own.collective.sum(&mut found)?;
        let feature_scale = &self.passes.feature_scale;
        each(self.passes.pool, out, BLOCK, |b, out| {
            for (i, o) in out.iter_mut().enumerate() {
                let at = b * BLOCK + i;
                *o = value_of(found[at], scale(feature_scale.inverse(at / outputs)));
            }
        });
        Ok(())
    }

    /// The numbers of the blocks of all shards' rows, of which so many are this one's.
    fn of_all_blocks(&self, own: &CudaSlice<f64>, count: usize) -> Result<Vec<f64>> {
        let mut own = self.queue.read(own)?;
        own.truncate(count);
        self.problem().of_all_blocks(own)
    }

    /// Sums over the rows of all shards of dense columns and of ones, `[column][output]`; of `residuals`, or of weights by squares.
    fn columns(&self, residuals: Option<&CudaSlice<f64>>) -> Result<Vec<f64>> {
        let outputs = if residuals.is_some() { self.problem().outputs } else { 1 };
        let (blocks, columns) = (self.blocks(), self.problem().dense.len() + 1);
        let mut parts = self.queue.alloc::<f64>("sums of blocks", blocks * columns * outputs)?;
        let kernel = self.queue.gpu().kernel(LINEAR, "linear_columns")?;
        let from = residuals.map_or(0, |r| address(&self.queue, r));
        let config =
            LaunchConfig { grid_dim: (blocks as u32, columns as u32, outputs as u32), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
        if blocks > 0 {
            // SAFETY: the arguments are those of `linear_columns`: a residual for each row and output, room for each block's sums.
            unsafe { launch!(self.queue, kernel, config; &self.rows, &from, &mut parts) }?;
        }
        let parts = self.of_all_blocks(&parts, blocks * columns * outputs)?;
        Ok((0..columns * outputs).map(|i| add_in_order(parts.chunks_exact(columns * outputs).map(|block| block[i]))).collect())
    }
}

impl PassSteps for CudaLinear<'_, '_> {
    type RowNumbers = CudaSlice<f64>;

    fn rows(&self, of_row: &[f64]) -> Result<CudaSlice<f64>> {
        let mut out = self.queue.alloc("scores", self.problem().rows * of_row.len())?;
        let (rows, tail) = (DenseRows { columns: 0, ..self.rows }, self.queue.copy_of("intercepts", of_row)?);
        let (kernel, config) = (self.queue.gpu().kernel(LINEAR, "linear_base")?, self.striding(out.len()));
        // SAFETY: the arguments are those of `linear_base` without dense columns.
        unsafe { launch!(self.queue, kernel, config; &rows, &tail, &mut out) }?;
        Ok(out)
    }

    fn scores(&self, vector: &[f64], out: &mut CudaSlice<f64>) -> Result<()> {
        self.check()?;
        let p = self.problem();
        let (sparse, tail) = vector.split_at(p.width * p.outputs);
        if self.passes.precision.whole {
            let (numbers, scale) = self.whole(sparse)?;
            return self.whole_scores(tail, &numbers, scale, out);
        }
        self.base(tail, out)?;
        let EntryStorage::Csr(lists) = &self.entries else { return Ok(()) };
        let vector = upload(&self.queue, "coefficients", sparse)?;
        let (from, to) = (address(&self.queue, &vector), address(&self.queue, out));
        let kernel = self.queue.gpu().kernel(LINEAR, "linear_scores_wide")?;
        // SAFETY: the arguments are those of `linear_scores_wide`, with coefficients of all features and room for all rows.
        lists.each(&self.queue, &|queue, lists| unsafe { launch!(queue, kernel, lists.config(); &lists, &from, &to) })
    }

    fn residuals(&self, scores: &CudaSlice<f64>, out: &mut CudaSlice<f64>) -> Result<Residuals> {
        self.check()?;
        let blocks = self.blocks();
        // Behind the losses: the bits of the largest residual.
        let found = self.queue.zeros::<f64>("losses", blocks + 1)?;
        let (losses, largest) = (address(&self.queue, &found), address(&self.queue, &found) + 8 * blocks as u64);
        let kernel = self.queue.gpu().kernel(LINEAR, "linear_residuals")?;
        if blocks > 0 {
            // SAFETY: the arguments are those of `linear_residuals`; there is a loss for each block.
            unsafe { launch!(self.queue, kernel, grid(blocks as u32, 256, 0); &self.rows, scores, out, &losses, &largest) }?;
        }
        let found = self.queue.read(&found)?;
        let (losses, largest) =
            (self.problem().of_all_blocks(found[..blocks].to_vec())?, self.problem().of_all_blocks(vec![found[blocks]])?);
        Ok(Residuals { loss: add_in_order(losses), largest: largest.into_iter().fold(0.0, f64::max) })
    }

    fn gradient(&self, residuals: &CudaSlice<f64>, largest: f64, out: &mut [f64]) -> Result<()> {
        self.check()?;
        let p = self.problem();
        let coefficients = p.width * p.outputs;
        let scale = power(largest, self.passes.precision.bits);
        let (sparse, others) = out.split_at_mut(coefficients);
        let mut sums = self.queue.zeros::<i64>("sums of features", coefficients)?;
        if scale > 0.0 && p.csr.is_some() {
            if self.passes.precision.whole {
                let mut whole = self.room()?;
                self.round(residuals, scale, &mut whole)?;
                self.add_whole(&whole, &mut sums)?;
            } else if let EntryStorage::Csr(lists) = &self.entries {
                let (from, to) = (address(&self.queue, residuals), address(&self.queue, &sums));
                let kernel = self.queue.gpu().kernel(LINEAR, "linear_add_wide")?;
                // SAFETY: the arguments are those of `linear_add_wide`, with residuals of all rows and sums of all features.
                lists.each(&self.queue, &|queue, lists| unsafe {
                    launch!(queue, kernel, lists.config(); &lists, &from, &scale, &self.feature_scale, &to)
                })?;
            }
        }
        self.collect(&sums, sparse, |unit| scale * unit)?;
        others.copy_from_slice(&self.columns(Some(residuals))?);
        if !p.fit_intercept {
            others[p.dense.len() * p.outputs..].fill(0.0);
        }
        Ok(())
    }

    fn squares(&self, out: &mut [f64]) -> Result<()> {
        self.check()?;
        let p = self.problem();
        let scale = power(p.largest_weight(), self.passes.precision.bits);
        let (sparse, others) = out.split_at_mut(p.width * p.outputs);
        let sums = self.queue.zeros::<i64>("sums of features", sparse.len())?;
        match &self.entries {
            EntryStorage::None => {}
            EntryStorage::Tiles(tiles) => {
                let mut whole = self.room()?;
                let kernel = self.queue.gpu().kernel(LINEAR, "linear_round_weight")?;
                // SAFETY: the arguments are those of `linear_round_weight`, and there is room for all rows.
                unsafe { launch!(self.queue, kernel, self.striding(p.rows); &self.rows, &scale, &mut whole) }?;
                tiles.gradient_of(&self.queue, address(&self.queue, &whole), 0, address(&self.queue, &sums))?;
            }
            EntryStorage::Csr(lists) => {
                let to = address(&self.queue, &sums);
                let kernel = self.queue.gpu().kernel(LINEAR, "linear_squares")?;
                // SAFETY: the arguments are those of `linear_squares`, with weights of all rows and sums of all features.
                lists.each(&self.queue, &|queue, lists| unsafe {
                    launch!(queue, kernel, lists.eight(); &lists, &self.rows.weight, &scale, &self.feature_scale, &to)
                })?;
            }
        }
        self.collect(&sums, sparse, |unit| scale * unit * unit)?;
        for of_feature in sparse.chunks_exact_mut(p.outputs) {
            let square = of_feature[0];
            of_feature.fill(square);
        }
        let found = self.columns(None)?;
        others.iter_mut().enumerate().for_each(|(i, o)| *o = found[i / p.outputs]);
        Ok(())
    }

    fn along(&self, scores: &CudaSlice<f64>, direction: &CudaSlice<f64>, step: f64) -> Result<(f64, f64)> {
        self.check()?;
        let blocks = self.blocks();
        let mut parts = self.queue.alloc::<f64>("derivatives", 2 * blocks)?;
        let kernel = self.queue.gpu().kernel(LINEAR, "linear_along")?;
        if blocks > 0 {
            // SAFETY: the arguments are those of `linear_along`; there are two sums for each block.
            unsafe { launch!(self.queue, kernel, grid(blocks as u32, 256, 0); &self.rows, scores, direction, &step, &mut parts) }?;
        }
        let parts = self.of_all_blocks(&parts, 2 * blocks)?;
        let sum = |k: usize| add_in_order(parts.chunks_exact(2).map(|block| block[k]));
        Ok((sum(0), sum(1)))
    }

    fn advance(&self, out: &mut CudaSlice<f64>, from: &CudaSlice<f64>, step: f64) -> Result<()> {
        let n = (self.problem().rows * self.problem().outputs) as u64;
        let kernel = self.queue.gpu().kernel(LINEAR, "linear_advance")?;
        // SAFETY: the arguments are those of `linear_advance`, and both have `n` numbers.
        unsafe { launch!(self.queue, kernel, self.striding(n as usize); &n, from, &step, out) }
    }

    fn write(&self, numbers: Cow<'_, [f64]>) -> Result<CudaSlice<f64>> {
        upload(&self.queue, "scores", &numbers)
    }

    fn read<'r>(&self, rows: &'r CudaSlice<f64>) -> Result<Cow<'r, [f64]>> {
        let mut out = vec![0.0; self.problem().rows * self.problem().outputs];
        self.queue.download(rows, bytes_of_mut(&mut out))?;
        Ok(out.into())
    }
}

impl CudaLinear<'_, '_> {
    /// Residuals as integers.
    pub(super) fn round(&self, residuals: &CudaSlice<f64>, scale: f64, whole: &mut CudaSlice<i32>) -> Result<()> {
        let n = (self.problem().rows * self.problem().outputs) as u64;
        let kernel = self.queue.gpu().kernel(LINEAR, "linear_round")?;
        // SAFETY: the arguments are those of `linear_round`, and both have `n` numbers.
        unsafe { launch!(self.queue, kernel, self.striding(n as usize); &n, residuals, &scale, whole) }
    }
}
