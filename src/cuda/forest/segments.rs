//! A level's nodes, searched by sorting their rows: `kernels/forest/sorted.cuh` and `segments.cuh`.

use super::layouts::{BINS, BestSplit, FeatureSegment, ForestFit, address};
use super::{FOREST, LevelNodes, TreeBatch};
use crate::launch;
use crate::runtime::queue::grid;
use cudarc::driver::{CudaSlice, LaunchConfig};
use taiga_core::error::Result;
use taiga_core::learners::forest::codes::Code;
use taiga_core::learners::forest::params::Splitter;
use taiga_core::learners::forest::steps::Targets;

/// The most rows of a node that a warp grows, and that a block does.
pub const WARP_ROWS: usize = 128;
pub const BLOCK_ROWS: usize = 2048;

/// Rows that are sorted at a time, unless a node has more; and bytes for each, those of the sort included.
pub const SORTED: usize = 1 << 26;
pub const SORTED_BYTES: usize = 26;

/// Rows of a segment from which on more warps walk them.
const LONG: u64 = 1 << 15;

/// Nodes of many rows, and the features that each is searched by.
struct SegmentSearch<'a> {
    list: u64,
    sizes: &'a [u64],
    features: &'a [u32],
    mixed: u64,
    last: u32,
}

impl<C: Code> TreeBatch<'_, '_, C> {
    /// The kernels for nodes of few rows, for segments, and for the choice among those.
    fn kernels(&self) -> [&'static str; 3] {
        match (self.work.targets, self.work.view.splitter == Splitter::Random) {
            (Targets::Two(_), false) => ["forest_grow_sorted_two", "forest_walk_two", "forest_choose_two"],
            (Targets::Two(_), true) => ["forest_grow_sorted_two_random", "forest_random_two", "forest_choose_two"],
            (Targets::Classes(_), false) => ["forest_grow_sorted_classes", "forest_walk_classes", "forest_choose_classes"],
            (Targets::Classes(_), true) => ["forest_grow_sorted_classes_random", "forest_random_classes", "forest_choose_classes"],
            (Targets::Numbers(_), false) => ["forest_grow_sorted_numbers", "forest_walk_numbers", "forest_choose_numbers"],
            (Targets::Numbers(_), true) => ["forest_grow_sorted_numbers_random", "forest_random_numbers", "forest_choose_numbers"],
        }
    }

    /// Bytes of shared memory for the classes' weights in a block of so many threads.
    fn lanes_shared(&self, threads: u32) -> u32 {
        match self.work.targets {
            Targets::Classes(c) => (2 + threads / 32) * c.classes as u32 * 8,
            _ => 0,
        }
    }

    /// Grows the nodes of a level.
    pub fn level_by_sorting(&self, fit: &ForestFit, level: &LevelNodes) -> Result<()> {
        let (queue, gpu) = (self.queue, self.queue.gpu());
        if level.waiting[2] > 0 {
            self.search_large(fit, level)?;
            self.partition_large(fit, level)?;
        }
        let kernel = gpu.kernel(FOREST, self.kernels()[0])?;
        let random = self.work.view.splitter == Splitter::Random;
        for (k, threads, room) in [(1, 256, BLOCK_ROWS), (0, 32, WARP_ROWS)] {
            if level.waiting[k] == 0 {
                continue;
            }
            let room = if random { 0 } else { room as u32 };
            let categories = if fit.sets == 0 { 0 } else { 18 * BINS as u32 };
            let shared = 8 * room + self.lanes_shared(threads) + categories + 4 * fit.features;
            kernel.allow_shared(gpu, shared)?;
            // SAFETY: the arguments are those of the kernel; the list holds so many nodes, of at most `room` rows.
            unsafe {
                launch!(queue, kernel, grid(level.waiting[k] as u32, threads, shared); fit, &level.lists[k], &level.from, &level.to, &room)?;
            }
        }
        Ok(())
    }

    /// Searches the nodes of many rows, and splits those that gain enough.
    fn search_large(&self, fit: &ForestFit, level: &LevelNodes) -> Result<()> {
        let (queue, gpu) = (self.queue, self.queue.gpu());
        let (list, count) = (level.lists[2], level.waiting[2]);
        let sizes = self.sizes(fit, list, count)?;
        let mut features = queue.alloc::<u32>("features", count * fit.drawn as usize)?;
        let mut mixed = queue.alloc::<u32>("flags", count)?;
        let kernel = gpu.kernel(FOREST, "forest_features")?;
        let shared = 4 * fit.features;
        // SAFETY: the arguments are those of the kernel; the list holds `count` nodes.
        unsafe { launch!(queue, kernel, grid(count as u32, 256, shared); fit, &list, &level.from, &mut features, &mut mixed)? };
        let drawn = queue.read(&features)?;
        let wanted = SegmentSearch { list, sizes: &sizes, features: &drawn, mixed: address(queue, &mixed), last: 0 };
        let again = self.search(fit, level, &wanted)?;
        if again.is_empty() {
            return Ok(());
        }
        // Of these nodes all features drawn were constant.
        let (ids, features): (Vec<u32>, Vec<u32>) = again.as_chunks::<2>().0.iter().map(|[id, feature]| (*id, *feature)).unzip();
        let nodes = queue.copy_of("nodes", &ids)?;
        let mixed = queue.copy_of("flags", &vec![1u32; ids.len()])?;
        let list = address(queue, &nodes);
        let sizes = self.sizes(fit, list, ids.len())?;
        let wanted = SegmentSearch { list, sizes: &sizes, features: &features, mixed: address(queue, &mixed), last: 1 };
        self.search(fit, level, &wanted)?;
        queue.synchronize()
    }

    fn sizes(&self, fit: &ForestFit, list: u64, count: usize) -> Result<Vec<u64>> {
        let queue = self.queue;
        let mut sizes = queue.alloc::<u64>("sizes", count)?;
        let (kernel, n) = (queue.gpu().kernel(FOREST, "forest_sizes")?, count as u32);
        // SAFETY: the arguments are those of the kernel; the list holds `count` nodes.
        unsafe { launch!(queue, kernel, grid(n.div_ceil(256), 256, 0); &list, &n, &fit.nodes, &mut sizes)? };
        queue.read(&sizes)
    }

    /// Searches nodes by some features and splits them; gives those, and a feature each, that are to be searched again.
    fn search(&self, fit: &ForestFit, level: &LevelNodes, wanted: &SegmentSearch<'_>) -> Result<Vec<u32>> {
        let (queue, gpu) = (self.queue, self.queue.gpu());
        let nodes = wanted.sizes.len();
        let (mut segments, mut firsts, mut tables) = (vec![], vec![], 0);
        for (at, features) in wanted.features.chunks_exact(wanted.features.len() / nodes).enumerate() {
            firsts.push(segments.len() as u32);
            for feature in features {
                let categorical = self.work.view.features[*feature as usize].is_categorical();
                let orders = match self.work.targets {
                    Targets::Classes(c) if categorical && c.classes > 2 => c.classes as u32,
                    _ => 1,
                };
                for order in 0..orders {
                    let ranks = if categorical { tables } else { super::layouts::NONE };
                    tables += categorical as u32;
                    segments.push(FeatureSegment { offset: 0, at: at as u32, feature: *feature, order, ranks });
                }
            }
        }
        firsts.push(segments.len() as u32);
        let firsts = queue.copy_of("segments", &firsts)?;
        let mut found = queue.alloc::<BestSplit>("splits", segments.len())?;
        let mut ranks = queue.alloc::<u8>("ranks of categories", tables as usize * BINS)?;
        let on_device = self.search_segments(fit, level, wanted, &mut segments, &mut found, &mut ranks)?;
        let mut again = queue.alloc::<u32>("nodes", 2 * nodes)?;
        let mut count = queue.zeros::<u32>("nodes", 1)?;
        let choose = gpu.kernel(FOREST, self.kernels()[2])?;
        let shape = grid(nodes as u32, 256, 4 * fit.features);
        // SAFETY: the arguments are those of the kernel; the list holds `nodes` nodes, and `firsts` one more.
        unsafe {
            launch!(queue, choose, shape; fit, &wanted.list, &level.from, &firsts, &on_device, &found, &ranks, &wanted.mixed,
                &wanted.last, &mut again, &mut count)?;
        }
        let count = queue.read(&count)?[0] as usize;
        Ok(if count == 0 { vec![] } else { queue.read(&again.slice(0..2 * count))? })
    }

    /// The best split of each segment.
    fn search_segments(
        &self,
        fit: &ForestFit,
        level: &LevelNodes,
        wanted: &SegmentSearch<'_>,
        segments: &mut [FeatureSegment],
        found: &mut CudaSlice<BestSplit>,
        ranks: &mut CudaSlice<u8>,
    ) -> Result<CudaSlice<FeatureSegment>> {
        let (queue, gpu) = (self.queue, self.queue.gpu());
        let random = self.work.view.splitter == Splitter::Random;
        let rows_of = |s: &FeatureSegment| wanted.sizes[s.at as usize];
        // Chunks that are sorted together.
        let (mut chunks, mut start, mut offset) = (vec![], 0, 0u64);
        for (i, segment) in segments.iter_mut().enumerate() {
            let rows = rows_of(segment);
            if i > start && !random && offset + rows > SORTED as u64 {
                chunks.push((start..i, offset));
                (start, offset) = (i, 0);
            }
            segment.offset = offset;
            offset += rows;
        }
        chunks.push((start..segments.len(), offset));
        let on_device = queue.copy_of("segments", segments)?;
        let search = gpu.kernel(FOREST, self.kernels()[1])?;
        let most = if random { 1 } else { chunks.iter().map(|c| c.1).max().unwrap_or(1) as usize };
        let (mut keys, mut values) = (queue.alloc::<u64>("sorting", most)?, queue.alloc::<u32>("sorting", most)?);
        let mut sorted = (queue.alloc::<u64>("sorting", most)?, queue.alloc::<u32>("sorting", most)?);
        let bits = usize::BITS - self.table.most_bins.leading_zeros();
        for (range, rows) in chunks {
            let count = range.len() as u32;
            let longest = segments[range.clone()].iter().map(rows_of).max().unwrap_or(1);
            let threads = if longest > LONG { 512 } else { 256 };
            let shared = self.lanes_shared(threads);
            search.allow_shared(gpu, shared)?;
            let at = on_device.slice(range.clone());
            let mut found = found.slice_mut(range);
            if random {
                // SAFETY: the arguments are those of the kernel; there are `count` segments.
                unsafe { launch!(queue, search, grid(count, threads, shared); fit, &wanted.list, &level.from, &at, &mut found)? };
                continue;
            }
            if self.table.categorical {
                let kernel = gpu.kernel(FOREST, "forest_ranks")?;
                // SAFETY: likewise; there is a table for each segment that names one.
                unsafe { launch!(queue, kernel, grid(count, 256, 0); fit, &wanted.list, &level.from, &at, &mut *ranks)? };
            }
            let kernel = gpu.kernel(FOREST, "forest_keys")?;
            let shares = longest.div_ceil(2048).clamp(1, 1024) as u32;
            let shape = LaunchConfig { grid_dim: (count, shares, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
            // SAFETY: likewise; there is a key for each row of the segments.
            unsafe {
                launch!(queue, kernel, shape; fit, &wanted.list, &level.from, &at, &*ranks, &bits, &mut keys, &mut values)?;
            }
            let last_bit = bits + (u32::BITS - (count - 1).leading_zeros());
            queue.sort_pairs(&keys, &values, &mut sorted, rows as u32, 0..last_bit)?;
            // SAFETY: likewise.
            unsafe {
                launch!(queue, search, grid(count, threads, shared);
                    fit, &wanted.list, &level.from, &at, &bits, &sorted.0, &sorted.1, &mut found)?;
            }
        }
        Ok(on_device)
    }
}
