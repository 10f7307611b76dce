//! Keeps the rows of a fit on the device: targets, weights, scores, leaves; adds the values of leaves to the scores.

use super::buffers::{Buffer, Kernels};
use super::gathered_rows::GatheredRows;
use super::gradient_quantizer::{BATCH, QUANTIZER_WORDS, quantizer_blocks};
use super::group_derivatives::GroupedRows;
use super::layouts::{LossRows, ShardMagnitudes};
use super::loss_program::DeviceProgram;
use super::risk_sets::DeviceRiskSets;
use super::root_histogram::root_shape;
use super::shared_tree::{Squares, draws_by_squares};
use crate::runtime::Queue;
use crate::{grid, launch};
use taiga_core::collective::RowShard;
use taiga_core::error::{Error, Result};
use taiga_core::learners::boosting::row_sampler::RowSampling;
use taiga_core::learners::boosting::steps::TrainingData;
use taiga_core::losses::Loss;

/// The rows of a fit on the device, one value a row unless it says otherwise.
pub struct RowData<'a> {
    pub rows: usize,
    /// The rows that these are of all, and where they are not all what they know of the tree's quantizer.
    pub of: RowShard<'a>,
    pub magnitudes: Option<Buffer<ShardMagnitudes>>,
    pub outputs: usize,
    /// `[target][row]`: one target, or one for each output.
    pub target: Buffer<f32>,
    targets: usize,
    pub weight: Option<Buffer<f32>>,
    /// What the loss reads beside the target, `[column][row]`.
    pub(super) columns: Option<Buffer<f32>>,
    /// The program of a loss of one's own, once it has run.
    pub(super) program: Option<DeviceProgram>,
    /// The derivatives of accelerated failure time, once they were found.
    pub(super) of_bounds: Option<[Buffer<f32>; 2]>,
    /// `[output][row]`, set after set.
    pub scores: Buffer<f32>,
    /// What rows count in this tree; none where all count 1.
    pub bag: Option<Buffer<f32>>,
    pub(super) held_out: Option<Buffer<u8>>,
    /// The measured rows in order and how many they are, and room for their scores.
    pub(super) measured_rows: Option<(Buffer<u32>, usize, Buffer<f32>)>,
    /// `[output][row]`: the leaf of the output's last tree; the leaves' values.
    pub leaf: Buffer<u16>,
    pub values: Vec<Buffer<f32>>,
    /// What rows get instead, `[output][row]`, where leaves are linear functions, and whether an output's last tree has such.
    row_values: Option<Buffer<f32>>,
    has_row_values: Vec<bool>,
    /// Whether the values of the last round's trees are still to be added to the scores, and whether those of
    /// the round that has not ended yet are queued to be.
    pub waiting: bool,
    pub addition_queued: bool,
    /// By row: the first plane, and that of wide hessians; of each output that shares the tree, one behind the other.
    pub packed_gradients: Buffer<u32>,
    pub hessians: Option<Buffer<u32>>,
    /// How many outputs share a tree, and what rows are drawn by then.
    pub(super) shared: usize,
    pub(super) squares: Option<Squares>,
    pub(super) sums: Buffer<f64>,
    pub(super) largest: Buffer<u32>,
    /// Whether a root's guess was wrong.
    pub wrong: Buffer<u32>,
    /// Blocks that have come to the end of a launch; zero between launches.
    pub arrived: Buffer<u32>,
    /// What the host reads of a tree: its quantizer, and behind it what grew. Two of them, so that one
    /// tree grows while the other is read.
    pub(super) logs: [Buffer<u64>; 2],
    /// The one of the tree that was queued last.
    pub turn: usize,
    /// Whether the log has a tree's quantizer.
    pub has_quantizer: bool,
    pub(super) counts: Option<Buffer<u32>>,
    pub(super) row_sampling: RowSampling,
    pub(super) seed: u64,
    pub(super) blocks: u32,
    /// The rows by group, for losses that need them so.
    pub(super) grouped: Option<GroupedRows>,
    /// The rows by time, for Cox's likelihood.
    pub(super) risk_sets: Option<DeviceRiskSets>,
    /// What is known of rows elsewhere that these depend on.
    pub(super) gathered: Option<GatheredRows>,
}

impl<'a> RowData<'a> {
    /// Bytes on the device.
    pub fn bytes(data: &TrainingData<'_>) -> u64 {
        let (rows, outputs) = (data.target.len() as u64, data.scores.len() as u64);
        let weight = data.weight.is_some() as u64 * 4;
        let drawn = (data.held_out.is_some() || !data.row_sampling.keeps_all()) as u64 * 5;
        let (targets, measured) = (1 + data.more_targets.len() as u64, data.measures_all as u64 * 8);
        let of_groups = GroupedRows::bytes(data) + DeviceRiskSets::bytes(data) + GatheredRows::bytes(data);
        let packed = 4 * data.shared as u64 + if draws_by_squares(data) { 24 } else { 0 };
        let tried = if data.steps_on { 4 * data.shared as u64 } else { 0 };
        rows * (4 * targets + weight + 6 * outputs + drawn + packed + 1 + measured + tried) + of_groups
    }

    /// Brings the rows to the device. `components` of histograms are not known here.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn new(queue: &Queue, data: &TrainingData<'a>) -> Result<RowData<'a>> {
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
        let measured = |row: &u32| data.measures_all || data.held_out.is_some_and(|h| h[*row as usize]);
        let measures = data.measures_all || data.held_out.is_some();
        let measured_rows = match measures.then(|| (0..rows as u32).filter(measured).collect::<Vec<u32>>()) {
            Some(list) => {
                let room = Buffer::new(queue, "measured scores", list.len())?;
                Some((Buffer::copy_of(queue, "measured rows", &list)?, list.len(), room))
            }
            None => None,
        };
        let mut largest = Buffer::new(queue, "maxima", 2)?;
        queue.clear(&mut largest.slice)?;
        let mut arrived = Buffer::new(queue, "counts of blocks", 1)?;
        queue.clear(&mut arrived.slice)?;
        let mut out = RowData {
            rows,
            of: data.shard,
            magnitudes: if data.shard.is_whole() { None } else { Some(Buffer::new(queue, "scales", 1)?) },
            outputs,
            target: floats(
                "targets",
                &[&data.target[..]].into_iter().chain(data.more_targets.iter().map(Vec::as_slice)).collect::<Vec<_>>().concat(),
            )?,
            targets: 1 + data.more_targets.len(),
            weight: data.weight.as_ref().map(|w| floats("weights", w)).transpose()?,
            columns: Some(&data.columns).filter(|c| !c.is_empty()).map(|c| floats("columns", &c.concat())).transpose()?,
            program: None,
            of_bounds: None,
            scores,
            bag: None,
            held_out: held_out.map(|h| Buffer::copy_of(queue, "held-out rows", &h)).transpose()?,
            measured_rows,
            leaf: Buffer::new(queue, "leaves", outputs * rows)?,
            values: (0..outputs).map(|_| Buffer::new(queue, "leaf values", 1)).collect::<Result<_>>()?,
            row_values: data.values.map(|_| Buffer::new(queue, "values of rows", outputs * rows)).transpose()?,
            has_row_values: vec![false; outputs],
            waiting: false,
            addition_queued: false,
            packed_gradients: Buffer::new(queue, "statistics", data.shared * rows)?,
            shared: data.shared,
            squares: if draws_by_squares(data) { Some(Squares::new(queue, rows)?) } else { None },
            hessians: None,
            sums: Buffer::new(queue, "sums", 2 * (batches + quantizer_blocks(queue, rows).max(root_shape(queue, rows).0) as usize))?,
            largest,
            wrong: Buffer::new(queue, "counts of blocks", 1)?,
            arrived,
            logs: [Buffer::new(queue, "scales", QUANTIZER_WORDS)?, Buffer::new(queue, "scales", QUANTIZER_WORDS)?],
            turn: 0,
            has_quantizer: false,
            counts: None,
            row_sampling: data.row_sampling,
            seed: data.seed,
            grouped: GroupedRows::new(queue, data)?,
            risk_sets: DeviceRiskSets::new(queue, data)?,
            gathered: GatheredRows::new(queue, data)?,
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

    /// Returns the place of the first row's target that an output is fitted to.
    pub fn first_target(&self, output: usize) -> usize {
        output % self.targets * self.rows
    }

    /// What kernels are told; `bagged`: with the rows drawn.
    pub fn table(&self, loss: &dyn Loss, output: usize, bagged: bool) -> LossRows {
        // Several sets of scores stand one behind the other.
        let (set, output) = (output / loss.outputs(), output % loss.outputs());
        let found = self.grouped.as_ref().map(|found| &found.derivatives).or(self.risk_sets.as_ref().map(|found| &found.derivatives));
        let found = found.map(|found| found.each_ref().map(|numbers| numbers.address_of(self.of.first)));
        let found = found.or(self.program.as_ref().map(|found| [found.gradient.address, found.hessian.address]));
        let found = found.or(self.of_bounds.as_ref().map(|found| found.each_ref().map(|numbers| numbers.address)));
        let [gradient, hessian] = found.unwrap_or_default();
        LossRows {
            rows: self.rows as u64,
            first: self.of.first as u64,
            target: self.target.address + 4 * self.first_target(output) as u64,
            weight: self.weight.as_ref().map_or(0, |w| w.address),
            bag: self.bag.as_ref().filter(|_| bagged).map_or(0, |b| b.address),
            scores: self.scores.address + 4 * (set * loss.outputs() * self.rows) as u64,
            output: output as u32,
            is_shard: !self.of.is_whole() as u32,
            gradient,
            hessian,
            ..LossRows::default()
        }
        .with_formula(loss.formula(output))
    }

    /// Remembers the values of the leaves of an output's last tree, by the number its rows have.
    pub fn set_values(&mut self, queue: &Queue, output: usize, values: &[f32]) -> Result<()> {
        self.has_row_values[output] = false;
        self.values[output].reserve(queue, "leaf values", values.len())?;
        self.values[output].write(queue, values)
    }

    /// Finds what rows get of an output's last tree by the functions and terms at two addresses, which are there for the numbers of its leaves.
    pub fn set_row_values(&mut self, queue: &Queue, kernels: &Kernels, output: usize, (functions, terms): (u64, u64)) -> Result<()> {
        let Some(room) = &self.row_values else { return Err(Error::Data("no room for values of rows".into())) };
        let (rows, at) = (self.rows as u64, (output * self.rows) as u64);
        let (leaf, values, out) = (self.leaf.address + 2 * at, self.values[output].address, room.address + 4 * at);
        let config = grid(self.blocks, 256, 0);
        // SAFETY: the arguments are those of `tree_linear_values`: a leaf of each row, a function and a value of each leaf, and room for each row.
        unsafe { launch!(queue, &kernels.linear_values, config; &rows, &leaf, &functions, &terms, &values, &out) }?;
        self.has_row_values[output] = true;
        Ok(())
    }

    /// Ends a round: the values of its trees are added to the scores, at the latest when these are
    /// read.
    pub fn update(&mut self, queue: &Queue, kernels: &Kernels) -> Result<()> {
        if std::mem::take(&mut self.addition_queued) {
            return Ok(());
        }
        self.waiting = true;
        let own = self.has_row_values.contains(&true);
        if own || self.measured_rows.is_some() || self.outputs > 1 { self.add_values(queue, kernels) } else { Ok(()) }
    }

    /// Adds the values of the last trees to the scores, where they are not yet.
    pub fn add_values(&mut self, queue: &Queue, kernels: &Kernels) -> Result<()> {
        if !std::mem::take(&mut self.waiting) {
            return Ok(());
        }
        (0..self.outputs).try_for_each(|output| self.add_values_of(queue, kernels, output))
    }

    /// Adds the values of an output's last tree to its scores.
    pub fn add_values_of(&self, queue: &Queue, kernels: &Kernels, output: usize) -> Result<()> {
        let (rows, config, at) = (self.rows as u64, grid(self.blocks, 256, 0), (output * self.rows) as u64);
        let scores = self.scores.address + 4 * at;
        if let Some(own) = self.row_values.as_ref().filter(|_| self.has_row_values[output]) {
            let values = own.address + 4 * at;
            // SAFETY: the arguments are those of `tree_update_rows`: scores and values of an output's rows.
            return unsafe { launch!(queue, &kernels.update_rows, config; &scores, &values, &rows) };
        }
        let (leaf, values) = (self.leaf.address + 2 * at, self.values[output].address);
        // SAFETY: the arguments are those of `tree_update`: scores and leaves of an output's rows.
        unsafe { launch!(queue, &kernels.update, config; &scores, &leaf, &values, &rows) }
    }

    /// The scores of the measured rows, `[output][row]`.
    pub fn measured_scores(&self, queue: &Queue, kernels: &Kernels) -> Result<Vec<Vec<f32>>> {
        let Some((list, n, room)) = self.measured_rows.as_ref().filter(|(_, n, _)| *n > 0) else { return Ok(vec![vec![]; self.outputs]) };
        let n = *n;
        let one = |output: usize| {
            let (scores, count) = (self.scores.address + 4 * (output * self.rows) as u64, n as u64);
            let config = grid(self.blocks, 256, 0);
            // SAFETY: the arguments are those of `tree_gather`: rows of the table, and room for as many values.
            unsafe { launch!(queue, &kernels.gather, config; &scores, &list.address, &count, &room.address) }?;
            room.read(queue, n)
        };
        (0..self.outputs).map(one).collect()
    }

    /// Returns the scores of all rows, `[output][row]`, those of every set.
    pub fn all_scores(&mut self, queue: &Queue, kernels: &Kernels) -> Result<Vec<Vec<f32>>> {
        self.add_values(queue, kernels)?;
        let scores = self.scores.read(queue, self.outputs * self.rows)?;
        Ok((0..self.outputs).map(|output| scores[output * self.rows..(output + 1) * self.rows].to_vec()).collect())
    }
}

/// Copies `values`' bytes from `offset` on.
fn fill(values: &[f32], offset: usize, piece: &mut [u8]) {
    for (out, value) in piece.chunks_exact_mut(4).zip(&values[offset / 4..]) {
        out.copy_from_slice(&value.to_ne_bytes());
    }
}

pub(super) fn upload(queue: &Queue, values: &[f32], out: &mut Buffer<f32>) -> Result<()> {
    queue.upload(&mut out.slice, values.len() * 4, &|offset, piece| fill(values, offset, piece))
}
