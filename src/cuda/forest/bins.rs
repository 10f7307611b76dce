//! A level's nodes, searched by bins in shared memory: `kernels/forest/bins.cuh`.

use super::layouts::{BINS, ForestFit, address};
use super::{FOREST, LevelNodes, TILE, TreeBatch};
use crate::launch;
use crate::runtime::queue::grid;
use cudarc::driver::LaunchConfig;
use taiga_core::error::Result;
use taiga_core::learners::forest::codes::Code;

/// Features of a pass over a node's rows.
const PASS: usize = 8;

/// The most rows of a node that a warp grows, and that a block does.
pub const WARP_ROWS: usize = 256;
pub const BLOCK_ROWS: usize = 32_768;

/// Bytes of sums of nodes with many rows that are worked on at a time.
pub const SUMS: usize = 1 << 28;

impl<C: Code> TreeBatch<'_, '_, C> {
    /// Grows the nodes of a level. Does not wait.
    pub fn level_by_bins(&self, fit: &ForestFit, level: &LevelNodes) -> Result<()> {
        let (queue, gpu) = (self.queue, self.queue.gpu());
        let numbers = fit.classes == 0;
        let [grow, sum] = if numbers { ["forest_grow_numbers", "forest_sum_numbers"] } else { ["forest_grow_two", "forest_sum_two"] };
        let (grow, sum) = (gpu.kernel(FOREST, grow)?, gpu.kernel(FOREST, sum)?);
        let LevelNodes { lists, waiting, from, to } = level;
        let (none, drawn) = (0u64, fit.drawn as usize);
        let bin = if numbers { 12 } else { 8 };
        let shared = (4 * fit.features as usize + PASS.min(drawn) * BINS * bin) as u32;
        grow.allow_shared(gpu, shared)?;
        if waiting[2] > 0 {
            sum.allow_shared(gpu, shared)?;
            let node = 2 * drawn * BINS;
            let most = (SUMS / 8 / node).clamp(1, waiting[2]);
            let mut sums = queue.alloc::<u64>("sums of nodes", most * node)?;
            let mut mixed = queue.alloc::<u32>("flags", most)?;
            for start in (0..waiting[2]).step_by(most) {
                let count = most.min(waiting[2] - start);
                let list = lists[2] + 4 * start as u64;
                queue.clear(&mut sums.slice_mut(0..count * node))?;
                queue.clear(&mut mixed)?;
                let shape =
                    LaunchConfig { grid_dim: (count as u32, self.shares(count), 1), block_dim: (512, 1, 1), shared_mem_bytes: shared };
                // SAFETY: the arguments are those of the kernels, and the lists hold `count` nodes from `list` on; the rows of
                // nodes lie inside the buffers.
                unsafe {
                    launch!(queue, sum, shape; fit, &list, from, &mut sums, &mut mixed)?;
                    launch!(queue, grow, grid(count as u32, 256, shared); fit, &list, from, to, &sums, &mixed)?;
                }
            }
            self.partition_large(fit, level)?;
        }
        for (k, threads) in [(1, 256), (0, 32)] {
            if waiting[k] > 0 {
                // SAFETY: likewise; there are no sums, so that the kernel makes its own.
                unsafe { launch!(queue, grow, grid(waiting[k] as u32, threads, shared); fit, &lists[k], from, to, &none, &none)? };
            }
        }
        Ok(())
    }

    /// Blocks for each of so many large nodes.
    pub fn shares(&self, nodes: usize) -> u32 {
        (8192 / nodes).clamp(4, self.entries.div_ceil(TILE).max(4)).min(1024) as u32
    }

    /// Partitions the rows of the large nodes that are split, and adds their children. Does not wait.
    pub fn partition_large(&self, fit: &ForestFit, level: &LevelNodes) -> Result<()> {
        let (queue, gpu) = (self.queue, self.queue.gpu());
        let (partition, children) = (gpu.kernel(FOREST, "forest_partition_large")?, gpu.kernel(FOREST, "forest_children_large")?);
        let (list, count) = (level.lists[2], level.waiting[2]);
        let tally = queue.zeros::<u64>("tallies", 2 * count)?;
        let (at, n) = (address(queue, &tally), count as u32);
        let shape = LaunchConfig { grid_dim: (n, self.shares(count), 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the arguments are those of the kernels; the list holds `count` nodes, and there is a tally for each.
        unsafe {
            launch!(queue, partition, shape; fit, &list, &level.from, &level.to, &at)?;
            launch!(queue, children, grid(n.div_ceil(4), 128, 0); fit, &list, &n, &at)
        }
    }
}
