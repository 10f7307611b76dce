//! The buffers that the launches of a level work on.

use super::buffers::Buffer;
use super::layouts::{FeatureSplit, HistogramJob, LaunchRows, LevelScores, NodeRows, NodeSplit, PartitionJob, SplitInput, Total};
use crate::runtime::Queue;
use taiga_core::error::Result;

/// What a launch works on, by level: uploaded, or made by kernels.
pub struct LevelBuffers {
    pub nodes: Buffer<NodeRows>,
    pub jobs: Buffer<PartitionJob>,
    pub summed: Buffer<HistogramJob>,
    pub starts: Buffer<u32>,
    pub plan: Buffer<LaunchRows>,
    /// Blocks that have come to the end of a launch: of all, and of each node or column; zero between launches.
    pub arrived: Buffer<u32>,
    pub split_inputs: Buffer<SplitInput>,
    /// Whether these may be divided at one border alone of each feature.
    pub draws: bool,
    pub allowed: Buffer<u32>,
    /// What is added to the roots of scores, `[row][column]`, and whether there is any.
    pub noise: Buffer<f64>,
    pub is_noisy: bool,
    /// What gains are multiplied by, of each column, and whether there is anything.
    pub weights: Buffer<f64>,
    pub is_weighted: bool,
    pub best: Buffer<FeatureSplit>,
    pub sets: Buffer<u32>,
    pub found: Buffer<NodeSplit>,
    pub total: Buffer<Total>,
    pub level: [Buffer<f64>; 3],
    pub level_flags: [Buffer<u8>; 2],
    pub level_lefts: Buffer<Total>,
    pub level_parents: Buffer<f64>,
    pub split_tests: Buffer<u64>,
    pub children: Buffer<[u32; 2]>,
    pub walk_sets: Buffer<u32>,
    pub codes: Buffer<u64>,
    pub leaf_sums: Buffer<i64>,
}

impl LevelBuffers {
    pub fn new(queue: &Queue) -> Result<LevelBuffers> {
        Ok(LevelBuffers {
            nodes: Buffer::new(queue, "nodes", 1024)?,
            jobs: Buffer::new(queue, "divisions", 256)?,
            summed: Buffer::new(queue, "nodes", 256)?,
            starts: Buffer::new(queue, "nodes", 256)?,
            plan: Buffer::new(queue, "nodes", 1)?,
            arrived: Buffer::zeros(queue, "counts of blocks", 64)?,
            split_inputs: Buffer::new(queue, "nodes", 256)?,
            draws: false,
            allowed: Buffer::new(queue, "features", 256)?,
            noise: Buffer::new(queue, "noise on scores", 1)?,
            is_noisy: false,
            weights: Buffer::new(queue, "weights of features", 1)?,
            is_weighted: false,
            best: Buffer::new(queue, "splits", 256)?,
            sets: Buffer::new(queue, "splits", 8)?,
            found: Buffer::new(queue, "splits", 256)?,
            total: Buffer::new(queue, "sums", 1)?,
            level: [
                Buffer::new(queue, "scores of splits", 1)?,
                Buffer::new(queue, "scores of splits", 1)?,
                Buffer::new(queue, "scores of splits", 1)?,
            ],
            level_flags: [Buffer::new(queue, "scores of splits", 1)?, Buffer::new(queue, "scores of splits", 1)?],
            level_lefts: Buffer::new(queue, "sums of splits", 1)?,
            level_parents: Buffer::new(queue, "scores of splits", 1)?,
            split_tests: Buffer::new(queue, "a tree", 256)?,
            children: Buffer::new(queue, "a tree", 256)?,
            codes: Buffer::new(queue, "a tree", 1)?,
            walk_sets: Buffer::new(queue, "a tree", 8)?,
            leaf_sums: Buffer::new(queue, "sums of leaves", 256)?,
        })
    }

    /// The scores of a level, for `nodes` nodes at a time of `columns` features; `lefts`: and their sums.
    pub fn level(&mut self, queue: &Queue, columns: usize, nodes: usize, lefts: bool) -> Result<LevelScores> {
        let what = "scores of splits";
        let sizes = [columns * 2 * nodes * 256, columns * 2 * 256, columns];
        for (buffer, size) in self.level.iter_mut().zip(sizes) {
            buffer.reserve(queue, what, size)?;
        }
        for (buffer, size) in self.level_flags.iter_mut().zip([columns * nodes, columns]) {
            buffer.reserve(queue, what, size)?;
        }
        if lefts {
            self.level_lefts.reserve(queue, what, columns * nodes * 256)?;
        }
        let ([scores, sums, parent], [missing, any]) = (&self.level, &self.level_flags);
        Ok(LevelScores {
            scores: scores.address,
            lefts: if lefts { self.level_lefts.address } else { 0 },
            missing: missing.address,
            sums: sums.address,
            parent: parent.address,
            any: any.address,
            nodes: nodes as u32,
            unused: 0,
        })
    }
}
