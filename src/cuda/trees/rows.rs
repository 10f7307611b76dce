//! The rows of the table on the device: targets, weights, scores, draws, statistics.

use super::buffers::{Buffer, Kernels};
use super::layouts::{GradientQuantizer, LossRows, NodeRows, RootGuess, RowDraw};
use crate::runtime::Queue;
use crate::{grid, launch};
use taiga_core::error::{Error, Result};
use taiga_core::learners::boosting::params::RowSample;
use taiga_core::learners::boosting::row_sampler::{Draw, KeyCounts};
use taiga_core::learners::boosting::steps::TrainingData;
use taiga_core::losses::Loss;

/// Rows whose absolute derivatives are added in order.
const BATCH: usize = 1024;

/// Buckets of the keys that rows are drawn by.
const BUCKETS: usize = 1 << 15;

/// 64-bit words of an quantizer.
pub const QUANTIZER_WORDS: usize = size_of::<GradientQuantizer>() / 8;

/// The rows.
pub struct RowData {
    pub rows: usize,
    pub outputs: usize,
    pub target: Buffer<f32>,
    pub weight: Option<Buffer<f32>>,
    /// `[output][row]`, set after set.
    pub scores: Buffer<f32>,
    /// What rows count in this tree; none where all count 1.
    pub bag: Option<Buffer<f32>>,
    held_out: Option<Buffer<u8>>,
    /// The held-out rows in order, and room for their scores.
    held_out_rows: Option<(Buffer<u32>, Buffer<f32>)>,
    /// `[output][row]`: the leaf of the output's last tree; the leaves' values.
    pub leaf: Buffer<u16>,
    pub values: Vec<Buffer<f32>>,
    /// Whether the values of the last round's trees are still to be added to the scores, and whether those of
    /// the round that has not ended yet are queued to be.
    pub waiting: bool,
    pub addition_queued: bool,
    /// By row: the first plane, and that of wide hessians.
    pub packed_gradients: Buffer<u32>,
    pub hessians: Option<Buffer<u32>>,
    sums: Buffer<f64>,
    largest: Buffer<u32>,
    /// Whether a root's guess was wrong.
    pub wrong: Buffer<u32>,
    /// Blocks that have come to the end of a launch; zero between launches.
    pub arrived: Buffer<u32>,
    /// What the host reads of a tree: its quantizer, and behind it what grew ahead. Two of them, so that one
    /// tree grows while the other is read.
    logs: [Buffer<u64>; 2],
    /// The one of the tree that was queued last.
    pub turn: usize,
    /// Whether the log has a tree's quantizer.
    pub has_quantizer: bool,
    counts: Option<Buffer<u32>>,
    row_sample: RowSample,
    row_fraction: f64,
    l2: f32,
    seed: u64,
    blocks: u32,
}

impl RowData {
    /// Bytes on the device.
    pub fn bytes(data: &TrainingData<'_>) -> u64 {
        let (rows, outputs) = (data.target.len() as u64, data.scores.len() as u64);
        let weight = data.weight.is_some() as u64 * 4;
        let drawn = (data.held_out.is_some() || data.row_sample != RowSample::None) as u64 * 5;
        rows * (4 + weight + 6 * outputs + drawn + 4 + 1)
    }

    /// Brings the rows to the device. `components` of histograms are not known here.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn new(queue: &Queue, data: &TrainingData<'_>) -> Result<RowData> {
        let rows = data.target.len();
        let outputs = data.scores.len();
        let batches = rows.div_ceil(BATCH);
        let floats = |what: &str, values: &[f32]| -> Result<Buffer<f32>> {
            let mut buffer = Buffer::new(queue, what, values.len())?;
            upload(queue, values, &mut buffer)?;
            Ok(buffer)
        };
        let mut scores: Buffer<f32> = Buffer::new(queue, "scores", outputs * rows)?;
        for (output, own) in data.scores.iter().enumerate() {
            let mut part = scores.slice.slice_mut(output * rows..(output + 1) * rows);
            queue.upload(&mut part, rows * 4, &|offset, piece| fill(own, offset, piece))?;
        }
        let held_out = data.held_out.map(|h| h.iter().map(|x| *x as u8).collect::<Vec<u8>>());
        let held_out_rows = data.held_out.map(|h| (0..rows as u32).filter(|r| h[*r as usize]).collect::<Vec<u32>>());
        let held_out_rows = match held_out_rows {
            Some(list) => Some((Buffer::copy_of(queue, "held-out rows", &list)?, Buffer::new(queue, "held-out scores", list.len())?)),
            None => None,
        };
        let mut largest = Buffer::new(queue, "maxima", 2)?;
        queue.clear(&mut largest.slice)?;
        let mut arrived = Buffer::new(queue, "counts of blocks", 1)?;
        queue.clear(&mut arrived.slice)?;
        let mut out = RowData {
            rows,
            outputs,
            target: floats("targets", &data.target)?,
            weight: data.weight.as_ref().map(|w| floats("weights", w)).transpose()?,
            scores,
            bag: None,
            held_out: held_out.map(|h| Buffer::copy_of(queue, "held-out rows", &h)).transpose()?,
            held_out_rows,
            leaf: Buffer::new(queue, "leaves", outputs * rows)?,
            values: (0..outputs).map(|_| Buffer::new(queue, "leaf values", 1)).collect::<Result<_>>()?,
            waiting: false,
            addition_queued: false,
            packed_gradients: Buffer::new(queue, "statistics", rows)?,
            hessians: None,
            sums: Buffer::new(queue, "sums", 2 * (batches + quantizer_blocks(queue, rows).max(root_shape(queue, rows).0) as usize))?,
            largest,
            wrong: Buffer::new(queue, "counts of blocks", 1)?,
            arrived,
            logs: [Buffer::new(queue, "scales", QUANTIZER_WORDS)?, Buffer::new(queue, "scales", QUANTIZER_WORDS)?],
            turn: 0,
            has_quantizer: false,
            counts: None,
            row_sample: data.row_sample,
            row_fraction: data.row_fraction,
            l2: data.l2.min(f32::MAX as f64) as f32,
            seed: data.seed,
            blocks: (rows.div_ceil(256) as u32).min(queue.gpu().multiprocessors() * 8).max(1),
        };
        if out.keeps_all() && out.held_out.is_some() {
            // The same for all trees: those that train count 1.
            let drawn = data.held_out.map(|h| h.iter().map(|x| !x as u8 as f32).collect::<Vec<f32>>()).unwrap_or_default();
            out.bag = Some(floats("rows drawn", &drawn)?);
        }
        Ok(out)
    }

    /// The log of the tree that was queued last.
    pub fn log(&self) -> &Buffer<u64> {
        &self.logs[self.turn]
    }

    /// Makes room for logs of `words` words. What they held is lost where they grow.
    pub fn reserve_logs(&mut self, queue: &Queue, words: usize) -> Result<()> {
        self.has_quantizer &= self.log().slice.len() >= words;
        self.logs.iter_mut().try_for_each(|log| log.reserve(queue, "a tree", words))
    }

    /// Whether every tree trains on all rows that train.
    pub fn keeps_all(&self) -> bool {
        self.row_sample == RowSample::None || (self.row_sample == RowSample::Bernoulli && self.row_fraction >= 1.0)
    }

    /// What kernels are told; `bagged`: with the rows drawn.
    pub fn table(&self, loss: &dyn Loss, output: usize, bagged: bool) -> LossRows {
        // Several sets of scores stand one behind the other.
        let (set, output) = (output / loss.outputs(), output % loss.outputs());
        LossRows {
            rows: self.rows as u64,
            target: self.target.address,
            weight: self.weight.as_ref().map_or(0, |w| w.address),
            bag: self.bag.as_ref().filter(|_| bagged).map_or(0, |b| b.address),
            scores: self.scores.address + 4 * (set * loss.outputs() * self.rows) as u64,
            output: output as u32,
            ..LossRows::default()
        }
        .with_formula(loss.formula())
    }

    /// Draws the rows of a tree; gives whether all that are drawn count 1.
    pub fn draw(&mut self, queue: &Queue, kernels: &Kernels, loss: &dyn Loss, tree: u64, output: usize) -> Result<bool> {
        if self.keeps_all() {
            return Ok(true);
        }
        self.add_values(queue, kernels)?;
        let (table, held_out) = (self.table(loss, output, false), self.held_out.as_ref().map_or(0u64, |h| h.address));
        let kind: u32 = match self.row_sample {
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
            unsafe { launch!(queue, &kernels.keys, config; &table, &held_out, &kind, &self.l2, &counts.address) }?;
            KeyCounts::from_counts(counts.read(queue, BUCKETS)?.into_iter().map(u64::from).collect())
        };
        let draw = Draw::new(self.row_sample, self.row_fraction, self.l2, &counts);
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
        };
        let bag = match &mut self.bag {
            Some(bag) => bag,
            none => none.insert(Buffer::new(queue, "rows drawn", self.rows)?),
        };
        // SAFETY: the arguments are those of `tree_draw`; `bag` has a number for each row.
        unsafe { launch!(queue, &kernels.draw, config; &table, &held_out, &described, &self.seed, &tree, &bag.address) }?;
        Ok(draw.unit())
    }

    /// Finds the quantizer of a tree: the maxima and sums of the derivatives, with the last tree's
    /// values added to the scores first where they are not yet.
    pub fn find_quantizer(&mut self, queue: &Queue, kernels: &Kernels, loss: &dyn Loss, output: usize, unit: bool) -> Result<()> {
        let fused = self.waiting && self.outputs == 1;
        if !fused {
            self.add_values(queue, kernels)?;
        }
        (self.waiting, self.has_quantizer) = (false, true);
        let table = self.table(loss, output, true);
        let (leaf, values) = if fused { (self.leaf.address, self.values[0].address) } else { (0, 0) };
        let unit = unit as u32;
        let config = grid(quantizer_blocks(queue, self.rows), 256, 0);
        let (sums, largest, arrived, out) = (self.sums.address, self.largest.address, self.arrived.address, self.log().address);
        // SAFETY: the arguments are those of `tree_find_quantizer`: leaves by row, their values, two sums for each
        // batch and block, two maxima and a count of blocks that are zero, room for the quantizer.
        unsafe { launch!(queue, &kernels.find_quantizer, config; &table, &leaf, &values, &sums, &largest, &unit, &arrived, &out) }
    }

    /// What a root's pass is told that goes ahead of the tree's quantizer, by the log of the tree before it;
    /// it adds the last tree's values to the scores, where they are not yet.
    pub fn guess(&mut self, queue: &Queue, kernels: &Kernels, unit: bool) -> Result<RootGuess> {
        let fused = self.waiting && self.outputs == 1;
        if !fused {
            self.add_values(queue, kernels)?;
        }
        self.waiting = false;
        let (leaf, values) = if fused { (self.leaf.address, self.values[0].address) } else { (0, 0) };
        Ok(RootGuess {
            last: self.logs[1 - self.turn].address,
            leaf,
            values,
            sums: self.sums.address,
            largest: self.largest.address,
            arrived: self.arrived.address,
            out: self.log().address,
            wrong: self.wrong.address,
            unit: unit as u32,
            unused: 0,
        })
    }

    /// Rounds the derivatives of all rows; where rows were drawn, they become the root's list.
    #[allow(clippy::too_many_arguments)]
    pub fn round(
        &mut self,
        queue: &Queue,
        kernels: &Kernels,
        loss: &dyn Loss,
        (tree, output): (u64, usize),
        hessians: bool,
        list: u64,
        root: &Buffer<NodeRows>,
    ) -> Result<()> {
        if hessians && self.hessians.is_none() {
            self.hessians = Some(Buffer::new(queue, "wide statistics", self.rows)?);
        }
        let table = self.table(loss, output, true);
        let hessians = self.hessians.as_ref().filter(|_| hessians).map_or(0u64, |h| h.address);
        let config = grid(self.blocks, 256, 0);
        // SAFETY: the arguments are those of `tree_round`: a word for each row, room for all rows in the
        // list, and the root's node.
        unsafe {
            launch!(queue, &kernels.round, config; &table, &self.log().address, &self.seed, &tree, &self.packed_gradients.address, &hessians, &list, &root.address)
        }
    }

    /// Remembers the values of the leaves of an output's last tree, by the number its rows have.
    pub fn set_values(&mut self, queue: &Queue, output: usize, values: &[f32]) -> Result<()> {
        self.values[output].reserve(queue, "leaf values", values.len())?;
        self.values[output].write(queue, values)
    }

    /// Ends a round: the values of its trees are added to the scores, at the latest when these are
    /// read.
    pub fn update(&mut self, queue: &Queue, kernels: &Kernels) -> Result<()> {
        if std::mem::take(&mut self.addition_queued) {
            return Ok(());
        }
        self.waiting = true;
        if self.held_out_rows.is_some() || self.outputs > 1 { self.add_values(queue, kernels) } else { Ok(()) }
    }

    /// Adds the values of the last trees to the scores, where they are not yet.
    pub fn add_values(&mut self, queue: &Queue, kernels: &Kernels) -> Result<()> {
        if !std::mem::take(&mut self.waiting) {
            return Ok(());
        }
        let (rows, config) = (self.rows as u64, grid(self.blocks, 256, 0));
        for (output, values) in self.values.iter().enumerate() {
            let at = (output * self.rows) as u64;
            let (scores, leaf) = (self.scores.address + 4 * at, self.leaf.address + 2 * at);
            // SAFETY: the arguments are those of `tree_update`: scores and leaves of an output's rows.
            unsafe { launch!(queue, &kernels.update, config; &scores, &leaf, &values.address, &rows) }?;
        }
        Ok(())
    }

    /// The scores of the held-out rows, `[output][row]`.
    pub fn held_out_scores(&self, queue: &Queue, kernels: &Kernels) -> Result<Vec<Vec<f32>>> {
        let Some((list, room)) = &self.held_out_rows else { return Ok(vec![vec![]; self.outputs]) };
        let n = list.slice.len();
        let one = |output: usize| {
            let (scores, count) = (self.scores.address + 4 * (output * self.rows) as u64, n as u64);
            let config = grid(self.blocks, 256, 0);
            // SAFETY: the arguments are those of `tree_gather`: rows of the table, and room for as many values.
            unsafe { launch!(queue, &kernels.gather, config; &scores, &list.address, &count, &room.address) }?;
            room.read(queue, n)
        };
        (0..self.outputs).map(one).collect()
    }

    /// The quantizer of the tree, when the device has found it.
    pub fn read_quantizer(&self, queue: &Queue) -> Result<GradientQuantizer> {
        let words = self.log().read(queue, QUANTIZER_WORDS)?;
        Ok(quantizer_of(&words))
    }

    /// An error where derivatives are no longer finite.
    pub fn check_finite(quantizer: &GradientQuantizer) -> Result<()> {
        let finite = |bits: u32| f32::from_bits(bits).is_finite();
        if finite(quantizer.largest_gradient) && finite(quantizer.largest_hessian) {
            return Ok(());
        }
        Err(Error::Data(taiga_core::learners::boosting::steps::NOT_FINITE.into()).of_values())
    }
}

/// Blocks of a root's pass, and the rows of each.
pub fn root_shape(queue: &Queue, rows: usize) -> (u32, u32) {
    let blocks = 2 * queue.gpu().multiprocessors() as usize;
    let piece = rows.div_ceil(blocks).next_multiple_of(32).clamp(1024, 1 << 16);
    (rows.div_ceil(piece) as u32, piece as u32)
}

/// Blocks that find an quantizer.
fn quantizer_blocks(queue: &Queue, rows: usize) -> u32 {
    (rows.div_ceil(BATCH) as u32).min(queue.gpu().multiprocessors() * 5)
}

/// The quantizer at the beginning of a log.
pub fn quantizer_of(words: &[u64]) -> GradientQuantizer {
    assert!(words.len() >= QUANTIZER_WORDS);
    // SAFETY: as many words as an quantizer has, of plain numbers.
    unsafe { std::ptr::read_unaligned(words.as_ptr().cast()) }
}

/// Copies `values`' bytes from `offset` on.
fn fill(values: &[f32], offset: usize, piece: &mut [u8]) {
    for (out, value) in piece.chunks_exact_mut(4).zip(&values[offset / 4..]) {
        out.copy_from_slice(&value.to_ne_bytes());
    }
}

fn upload(queue: &Queue, values: &[f32], out: &mut Buffer<f32>) -> Result<()> {
    queue.upload(&mut out.slice, values.len() * 4, &|offset, piece| fill(values, offset, piece))
}
