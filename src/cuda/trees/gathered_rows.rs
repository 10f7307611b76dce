//! Gathers what a shard has to know of rows of other shards, where the derivatives of its own depend on them: targets and weights once, scores
//! before each tree.
//!
//! Where GPUs read each other's memory, each copies the scores from there, behind a barrier of the GPUs' own; else they go through the host.

use super::CudaTrees;
use super::all_reduce::{MOST_BLOCKS, REDUCE_THREADS};
use super::buffers::Buffer;
use super::layouts::ScoreGather;
use super::rows::upload;
use crate::runtime::Queue;
use crate::{grid, launch};
use std::ops::Range;
use taiga_core::error::Result;
use taiga_core::learners::boosting::steps::TrainingData;
use taiga_core::losses::Loss;

/// A number of each of some consecutive rows of the table.
pub struct RowNumbers {
    buffer: Buffer<f32>,
    /// The first of those rows.
    first: usize,
}

impl RowNumbers {
    /// Makes room for those of `rows`.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn new(queue: &Queue, what: &str, rows: &Range<usize>) -> Result<RowNumbers> {
        Ok(RowNumbers { buffer: Buffer::new(queue, what, rows.len())?, first: rows.start })
    }

    /// Writes numbers of all rows that it has.
    fn write(&mut self, queue: &Queue, values: &[f32]) -> Result<()> {
        upload(queue, values, &mut self.buffer)
    }

    /// Returns where a row's number is, counted from where the table's first one would be: that need not be in memory, and is not read then.
    pub fn address_of(&self, row: usize) -> u64 {
        self.buffer.address.wrapping_add(4 * row as u64).wrapping_sub(4 * self.first as u64)
    }
}

/// Returns the rows of the table that are known where the derivatives of a shard's rows are found: from the first to the last of those that
/// these depend on.
pub fn rows_known(data: &TrainingData<'_>) -> Range<usize> {
    match &data.groups {
        Some(groups) if !data.shard.is_whole() => {
            // The rows of each group ascend, and groups stand in the order of their first rows.
            let first = groups.all_rows().first().map_or(0, |row| *row as usize);
            first..(0..groups.len()).filter_map(|g| groups.rows(g).last()).max().map_or(first, |last| *last as usize + 1)
        }
        _ => 0..data.shard.all,
    }
}

/// What a shard knows of rows that its own depend on.
pub struct GatheredRows {
    rows: Range<usize>,
    scores: RowNumbers,
    /// Their weights, where losses by group multiply by these.
    pub weight: Option<RowNumbers>,
}

impl GatheredRows {
    /// Whether there are rows elsewhere that those here depend on.
    fn are_needed(data: &TrainingData<'_>) -> bool {
        !data.shard.is_whole() && (data.groups.is_some() || data.risk_sets.is_some())
    }

    /// Bytes on the device.
    pub fn bytes(data: &TrainingData<'_>) -> u64 {
        let of_row = 4 + if data.groups.is_some() && data.weight.is_some() { 4 } else { 0 };
        if GatheredRows::are_needed(data) { of_row * rows_known(data).len() as u64 } else { 0 }
    }

    /// Makes room for scores, where rows here depend on others elsewhere, and gathers weights.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`], and those of the collective.
    pub fn new(queue: &Queue, data: &TrainingData<'_>) -> Result<Option<GatheredRows>> {
        if !GatheredRows::are_needed(data) {
            return Ok(None);
        }
        let rows = rows_known(data);
        let weigh = |own: &Vec<f32>| -> Result<RowNumbers> {
            let mut weight = RowNumbers::new(queue, "weights by group", &rows)?;
            weight.write(queue, &data.shard.of_all_rows(own.clone())?[rows.clone()])?;
            Ok(weight)
        };
        // Cox's likelihood has the weights inside.
        let weight = data.weight.as_ref().filter(|_| data.groups.is_some()).map(weigh).transpose()?;
        Ok(Some(GatheredRows { scores: RowNumbers::new(queue, "scores of all rows", &rows)?, weight, rows }))
    }

    /// Returns where the scores are, counted from the table's first row.
    pub fn scores(&self) -> u64 {
        self.scores.address_of(0)
    }
}

impl CudaTrees<'_> {
    /// Finds the derivatives of a tree at the current scores of `output`, where rows depend on each other and they are not there yet.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`], and those of the collective; where another GPU is gone.
    pub(crate) fn derive_dependent(&mut self, loss: &dyn Loss, tree: u64, output: usize) -> Result<()> {
        if !self.data.lacks_derivatives(loss, tree, output) {
            return Ok(());
        }
        self.data.add_values(&self.queue, &self.kernels)?;
        self.gather_scores(output)?;
        self.data.derive_dependent(&self.queue, &self.kernels, loss, tree, output)
    }

    /// Gathers the scores of an output that derivatives here depend on.
    fn gather_scores(&mut self, output: usize) -> Result<()> {
        let Some(gathered) = &mut self.data.gathered else { return Ok(()) };
        let own = output * self.data.rows..(output + 1) * self.data.rows;
        let Some(peers) = &self.peers else {
            let scores = self.queue.read(&self.data.scores.slice.slice(own))?;
            let all = self.of.of_all_rows(scores)?;
            return gathered.scores.write(&self.queue, &all[gathered.rows.clone()]);
        };
        let [scores, first, ..] = peers
            .rendezvous
            .exchange(peers.group.rank as usize, [self.data.scores.address + 4 * own.start as u64, self.of.first as u64, 0, 0])?;
        let (from, to) = (gathered.rows.start as u64, gathered.rows.end as u64);
        let gather = ScoreGather { group: peers.group, scores, first, from, to, out: gathered.scores.address_of(gathered.rows.start) };
        let most = if peers.group.apart != 0 { 2 * self.queue.gpu().multiprocessors() } else { MOST_BLOCKS };
        let config = grid((gathered.rows.len().div_ceil(REDUCE_THREADS as usize) as u32).clamp(1, most), REDUCE_THREADS, 0);
        // SAFETY: the argument is that of `tree_gather_scores`: scores of each GPU's rows, which all can reach, signals, and room for as many
        // as there are rows from the first to the last.
        unsafe { launch!(self.queue, &self.kernels.gather_scores, config; &gather) }?;
        // Nobody allocates while another GPU waits for a launch of this one.
        self.meet()
    }
}
