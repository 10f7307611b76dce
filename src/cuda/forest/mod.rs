//! Random forests on the GPU: many trees at a time, level by level. The trees are those of the CPU, byte for byte: all sums
//! are integers, splits are scored by the same formula in f64, and random choices are keyed by the node.
//!
//! ```text
//! codes ─► rows of 32 codes ─► for as many trees as there is room: draw rows ─► levels ─► nodes, downloaded once ─► trees
//!                                                                                  │               rows out of bag ─► sums
//!                                                                                  └ one number of nodes a level
//! ```
//!
//! - [`table`]: what all trees share; [`layouts`]: the structs that kernels share with us.
//! - [`bins`]: nodes searched by counting rows by code; [`segments`]: by sorting them, for what counts don't cover.
//! - [`tree`]: from nodes to a tree, where `leaves` are limited by taking the best ones first.
//! - [`oob`]: predictions of rows out of bag.
//!
//! Of several GPUs each has the whole table and grows a share of the trees: a tree's choices are keyed by its number, so it does not matter where.

mod bins;
pub(crate) mod layouts;
mod oob;
mod segments;
mod table;
mod tree;

use self::layouts::{ForestFit, GrowingNode, NONE, NodeSums, WalkStep, address, address_of};
use super::runtime::column::bytes_of_mut;
use super::runtime::device::{Gpu, Image};
use super::runtime::driver_threads::DriverThreads;
use super::runtime::memory;
use super::runtime::queue::{Queue, grid};
use super::runtime::upload::copiers;
use crate::launch;
use crate::runtime::queue::each_row;
use cudarc::driver::CudaSlice;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use table::TrainingTable;
use taiga_core::error::{Error, Result};
use taiga_core::learners::forest::codes::Code;
use taiga_core::learners::forest::growing::{GrowingTree, root_key};
use taiga_core::learners::forest::params::Splitter;
use taiga_core::learners::forest::steps::{ForestWork, GrownTrees, Targets};
use taiga_core::numerics::random::{Purpose, Random};

/// `kernels/forest.cu`.
const FOREST: Image = Image { name: "forest", bytes: taiga_kernels::images::forest };

/// Rows of a tile of a node with many rows.
const TILE: usize = 8192;

/// The nodes of a level, and the rows' buffers.
struct LevelNodes {
    lists: [u64; 3],
    waiting: [usize; 3],
    from: u64,
    to: u64,
}

/// What memory a forest needs.
struct MemoryNeeds {
    /// Room for so many rows and nodes of a tree.
    entries: usize,
    most_nodes: usize,
    tree: usize,
    /// However many trees grow at a time.
    shared: usize,
}

impl MemoryNeeds {
    fn new<C: Code>(work: &ForestWork<'_, C>, draws: Option<usize>) -> MemoryNeeds {
        let rows = work.view.stride;
        // Rows drawn: about 63 %, and a little more.
        let chance = |d: usize| ((1.0 - (-(d as f64) / rows as f64).exp()) * rows as f64 * 1.02) as usize + 1024;
        let mut entries = draws.map_or(rows, |d| chance(d).min(rows).min(d));
        // A tree that may draw none of the rows that weigh something is grown on all of those.
        let weigh = work.targets.weights().map_or(rows, |w| w.iter().filter(|w| **w > 0).count());
        if weigh < rows && draws.is_some_and(|d| (d as f64) * (weigh as f64) < 64.0 * rows as f64) {
            entries = entries.max(weigh);
        }
        let depth = work.depth();
        let most_nodes = if depth < 31 { (2 << depth as usize).min(2 * entries) } else { 2 * entries };
        let lanes = if let Targets::Classes(c) = work.targets { 8 * c.classes } else { 0 };
        let outputs = work.targets.outputs();
        let sets = if work.view.features.iter().any(|f| f.is_categorical()) { 32 } else { 0 };
        let oob = if work.oob.is_some() { size_of::<WalkStep>() + 8 * outputs } else { 0 };
        let searched = if work.by_bins() {
            2 * bins::SUMS
        } else if work.view.splitter == Splitter::Random {
            0
        } else {
            segments::SORTED.max(entries) * segments::SORTED_BYTES
        };
        let predicted = if work.oob.is_some() { rows * (8 * outputs + 4) } else { 0 };
        MemoryNeeds {
            entries,
            most_nodes,
            tree: 16 * entries + most_nodes * (size_of::<GrowingNode>() + 24 + lanes + sets + oob),
            shared: searched + predicted + 4 * rows,
        }
    }
}

/// Grows the work's trees of a forest on GPUs, each of which grows as many as another; none is the first GPU that there is.
///
/// # Errors
/// [`Error::Device`], with what is needed and what there is where that is too little, before anything is allocated; and
/// [`Error::Interrupted`].
pub fn grow<C: Code>(numbers: &[Option<u32>], work: &ForestWork<'_, C>) -> Result<GrownTrees> {
    let Range { start, end } = work.trees;
    if start == end {
        return Ok(GrownTrees { parts: vec![], sums: None });
    }
    // No more GPUs than trees.
    let (trees, gpus) = (end - start, numbers.len().min(end - start));
    if gpus < 2 {
        return grow_share(numbers.first().copied().flatten(), work, start..end);
    }
    let has_failed = AtomicBool::new(false);
    let interrupted = || has_failed.load(Ordering::Relaxed) || (work.interrupted)();
    let work = ForestWork { interrupted: &interrupted, trees: work.trees.clone(), ..*work };
    let grown: Vec<Mutex<Option<Result<GrownTrees>>>> = (0..gpus).map(|_| Mutex::new(None)).collect();
    DriverThreads::new(gpus, (copiers() / gpus).max(1))?.run(&|k| {
        let share = grow_share(numbers[k], &work, start + k * trees / gpus..start + (k + 1) * trees / gpus);
        has_failed.fetch_or(share.is_err(), Ordering::Relaxed);
        *grown[k].lock().unwrap_or_else(PoisonError::into_inner) = Some(share);
    });
    let mut shares = grown.into_iter().filter_map(|share| share.into_inner().unwrap_or_else(PoisonError::into_inner)).collect::<Vec<_>>();
    // The others were told to end by the one that failed.
    if let Some(failed) = shares.iter().position(|share| share.as_ref().is_err_and(|e| *e != Error::Interrupted)) {
        return shares.swap_remove(failed);
    }
    Ok(joined(shares.into_iter().collect::<Result<_>>()?))
}

/// Puts the shares of a forest one behind the other, and adds up what they say of rows out of bag.
fn joined(shares: Vec<GrownTrees>) -> GrownTrees {
    let mut all = GrownTrees { parts: vec![], sums: None };
    for share in shares {
        all.parts.extend(share.parts);
        match (&mut all.sums, share.sums) {
            (Some(all), Some(own)) => {
                all.sums.iter_mut().zip(&own.sums).for_each(|(all, own)| *all += own);
                all.counts.iter_mut().zip(&own.counts).for_each(|(all, own)| *all += own);
            }
            (none, own) => *none = own,
        }
    }
    all
}

/// Grows the trees of some numbers, on GPU `number`.
fn grow_share<C: Code>(number: Option<u32>, work: &ForestWork<'_, C>, share: Range<usize>) -> Result<GrownTrees> {
    let queue = Queue::new(Gpu::get(number)?)?;
    let (rows, trees) = (work.view.stride, share.len());
    let draws = work.params.bootstrap.draws(rows);
    let needs = MemoryNeeds::new(work, draws);
    // A tree at a time at the least, and a tenth for what is small.
    let least = TrainingTable::bytes(work) + (needs.tree + needs.shared) as u64;
    let what = format!("a forest of {rows} rows and {} features, one tree at a time,", work.view.features.len());
    queue.check_memory(&what, least / 9 * 10)?;
    let table = TrainingTable::new(&queue, work)?;
    let free = memory::of(queue.gpu())?.free as usize;
    let room = (free / 10 * 9).saturating_sub(needs.shared);
    let batch = (room / needs.tree.max(1)).min(u32::MAX as usize / 2 / needs.most_nodes.max(1)).clamp(1, trees);
    if needs.most_nodes * 2 > u32::MAX as usize {
        return Err(Error::device_memory(queue.gpu().number(), format!("a tree of {rows} rows has too many nodes for a GPU")));
    }
    let mut sums = work.oob.is_some().then(|| oob::OutOfBagPredictions::new(&queue, rows, work.targets.outputs())).transpose()?;
    let mut parts = Vec::with_capacity(trees);
    for first in share.clone().step_by(batch) {
        let count = batch.min(share.end - first);
        let MemoryNeeds { entries, most_nodes, .. } = needs;
        let batch = TreeBatch { queue: &queue, work, table: &table, first: first as u32, count, entries, most_nodes };
        parts.extend(batch.grow(draws, sums.as_mut())?);
    }
    Ok(GrownTrees { parts, sums: sums.map(|s| s.read(&queue)).transpose()? })
}

/// Trees that grow at the same time.
struct TreeBatch<'a, 'w, C> {
    queue: &'a Queue,
    work: &'a ForestWork<'w, C>,
    table: &'a TrainingTable,
    first: u32,
    count: usize,
    /// Room for so many rows and nodes of a tree.
    entries: usize,
    most_nodes: usize,
}

/// The rows of some trees.
struct TreeRows {
    entries: CudaSlice<u64>,
    /// Four numbers a tree: how many rows there are, their sum, their weight, how many were drawn.
    tallies: Vec<[u64; 4]>,
    /// The weights of the classes, tree after tree.
    lanes: Vec<u64>,
    /// Trees that drew no row that weighs anything, and are grown on all of them, as on the CPU.
    saw_all: Vec<usize>,
}

impl<C: Code> TreeBatch<'_, '_, C> {
    /// How often each row is drawn for a tree, into `counts`.
    fn draw(&self, tree: usize, draws: usize, counts: &mut CudaSlice<u32>) -> Result<()> {
        let (queue, n, wanted) = (self.queue, self.table.rows as u32, draws as u64);
        queue.clear(counts)?;
        let key = Random::new(self.work.params.seed, Purpose::ForestRows, self.first as u64 + tree as u64).key();
        let kernel = queue.gpu().kernel(FOREST, "forest_draw")?;
        // SAFETY: the arguments are those of `forest_draw`; there is a count for each row.
        unsafe { launch!(queue, kernel, each_row(queue, draws); &key, &wanted, &n, counts) }
    }

    /// The rows of every tree.
    fn rows(&self, fit: &ForestFit, draws: Option<usize>) -> Result<TreeRows> {
        let (queue, classes) = (self.queue, fit.class_count.max(1) as usize);
        let mut entries = queue.alloc::<u64>("rows of trees", self.entries * self.count)?;
        let mut counts = queue.alloc::<u32>("draws", self.table.rows)?;
        let mut tallies = queue.zeros::<u64>("tallies", 4 * self.count)?;
        let mut lanes = queue.zeros::<u64>("tallies", classes * self.count)?;
        for tree in 0..self.count {
            if let Some(draws) = draws {
                self.draw(tree, draws, &mut counts)?;
            }
            let counted = if draws.is_some() { address(queue, &counts) } else { 0 };
            self.list(fit, tree, counted, &mut entries, &mut tallies, &mut lanes)?;
        }
        let mut found: Vec<[u64; 4]> = queue.read(&tallies)?.as_chunks().0.to_vec();
        let saw_all: Vec<usize> = (0..self.count).filter(|t| found[*t][0] == 0).collect();
        if !saw_all.is_empty() {
            for tree in &saw_all {
                self.list(fit, *tree, 0, &mut entries, &mut tallies, &mut lanes)?;
            }
            found = queue.read(&tallies)?.as_chunks().0.to_vec();
        }
        if found.iter().any(|t| t[0] as usize > self.entries) {
            return Err(Error::device(queue.gpu().number(), "a tree has drawn more rows than chance allows"));
        }
        Ok(TreeRows { entries, tallies: found, lanes: queue.read(&lanes)?, saw_all })
    }

    fn list(
        &self,
        fit: &ForestFit,
        tree: usize,
        counts: u64,
        entries: &mut CudaSlice<u64>,
        tallies: &mut CudaSlice<u64>,
        lanes: &mut CudaSlice<u64>,
    ) -> Result<()> {
        let (queue, classes) = (self.queue, fit.class_count.max(1) as usize);
        let (begin, room) = ((tree * self.entries) as u64, self.entries as u64);
        let (mut tally, mut own) = (tallies.slice_mut(4 * tree..4 * tree + 4), lanes.slice_mut(classes * tree..classes * (tree + 1)));
        let kernel = queue.gpu().kernel(FOREST, "forest_entries")?;
        let config = grid(self.table.rows.div_ceil(256) as u32, 256, 0);
        // SAFETY: the arguments are those of `forest_entries`; a tree has so much room.
        unsafe { launch!(queue, kernel, config; fit, &counts, &begin, &room, entries, &mut tally, &mut own) }
    }

    fn grow(&self, draws: Option<usize>, sums: Option<&mut oob::OutOfBagPredictions>) -> Result<Vec<GrowingTree>> {
        let (queue, work) = (self.queue, self.work);
        let plain = self.table.fit(queue, work);
        let TreeRows { entries, tallies, lanes: root_lanes, saw_all } = self.rows(&plain, draws)?;
        let spare = queue.alloc::<u64>("rows of trees", self.entries * self.count)?;
        let buffers = [address(queue, &entries), address(queue, &spare)];
        let capacity = (self.most_nodes * self.count).max(2);
        let mut nodes = queue.alloc::<GrowingNode>("nodes", capacity)?;
        let classes = if let Targets::Classes(c) = work.targets { c.classes } else { 0 };
        let mut lanes = queue.alloc::<u64>("nodes", capacity * classes)?;
        // Nodes that no category splits have none, and are read along.
        let sets = self.table.categorical.then(|| queue.zeros::<u64>("nodes", 4 * capacity)).transpose()?;
        let next_node = queue.copy_of("nodes", &[self.count as u32])?;
        // Of two levels three lists each, one behind the other.
        let mut own = [queue.alloc::<u32>("nodes", 3 * capacity)?, queue.alloc::<u32>("nodes", 3 * capacity)?];
        let mut counts = queue.zeros::<u32>("nodes", 3)?;
        let weights: Vec<u64> = tallies.iter().map(|t| t[2]).collect();
        let weights = queue.copy_of("totals", &weights)?;
        let (warp_rows, block_rows) =
            if work.by_bins() { (bins::WARP_ROWS, bins::BLOCK_ROWS) } else { (segments::WARP_ROWS, segments::BLOCK_ROWS) };

        let (roots, first_lists) = self.roots(&tallies, &root_lanes, (warp_rows, block_rows));
        queue.write(&roots, &mut nodes.slice_mut(0..roots.len()))?;
        if classes > 0 {
            queue.write(&root_lanes, &mut lanes.slice_mut(0..root_lanes.len()))?;
        }
        for (k, list) in first_lists.iter().enumerate() {
            queue.write(list, &mut own[0].slice_mut(k * capacity..k * capacity + list.len().max(1)))?;
        }
        let waiting = first_lists.map(|l| l.len());
        let lists = own.each_ref().map(|l| [0, 1, 2].map(|k| address(queue, l) + (4 * k * capacity) as u64));
        let fit = ForestFit {
            nodes: address(queue, &nodes),
            lanes: address(queue, &lanes),
            sets: address_of(queue, sets.as_ref()),
            next_node: address(queue, &next_node),
            counts: address(queue, &counts),
            tree_weights: address(queue, &weights),
            warp_rows: warp_rows as u32,
            block_rows: block_rows as u32,
            ..plain
        };
        self.grow_levels(fit, waiting, lists, buffers, &mut counts)?;
        let used = queue.read(&next_node)?[0] as usize;
        let mut found = tree::GrownNodes { nodes: vec![GrowingNode::default(); used], lanes: vec![0; used * classes], sets: vec![] };
        queue.download(&nodes, bytes_of_mut(&mut found.nodes))?;
        queue.download(&lanes, bytes_of_mut(&mut found.lanes))?;
        if let Some(sets) = &sets {
            found.sets = vec![[0; 4]; used];
            queue.download(sets, bytes_of_mut(&mut found.sets))?;
        }
        // What the kernels wrote to by its address alone lives until here.
        drop((own, entries, spare));
        let made = work.pool.deal(self.count, || (), |_, tree| found.part(work, tree));
        if let Some(sums) = sums {
            let mut cuts = vec![NONE; used];
            made.iter().flat_map(|(_, cuts)| cuts).for_each(|(node, cut)| cuts[*node] = *cut);
            self.predict_out_of_bag(&fit, draws, &cuts, &saw_all, sums)?;
        }
        drop((nodes, lanes, sets, next_node, counts, weights));
        Ok(made.into_iter().map(|(part, _)| part).collect())
    }

    /// Returns the trees' roots, and the three lists of those that may be split, by the rows of each tree (their number, the sum of the targets,
    /// their weight, the draws).
    fn roots(&self, tallies: &[[u64; 4]], lanes: &[u64], (warp_rows, block_rows): (usize, usize)) -> (Vec<GrowingNode>, [Vec<u32>; 3]) {
        let work = self.work;
        let (mut roots, mut lists) = (vec![], [vec![], vec![], vec![]]);
        for (tree, [rows, sum, weight, count]) in tallies.iter().enumerate() {
            let pure = match work.targets {
                Targets::Two(_) => *sum == 0 || sum == count,
                Targets::Classes(c) => lanes[tree * c.classes..(tree + 1) * c.classes].contains(weight),
                Targets::Numbers(_) => false,
            };
            roots.push(GrowingNode {
                key: root_key(work.params.seed, self.first + tree as u32).key(),
                begin: (tree * self.entries) as u64,
                rows: *rows,
                total: NodeSums { sum: *sum as i64, weight: *weight, count: *count },
                tree: tree as u32,
                feature: NONE,
                children: NONE,
                ..GrowingNode::default()
            });
            if work.depth() > 0 && *rows >= 2 && *count >= 2 * work.limits.min_data && !pure {
                lists[if *rows as usize <= warp_rows { 0 } else { (*rows as usize > block_rows) as usize + 1 }].push(tree as u32);
            }
        }
        (roots, lists)
    }

    /// Grows all trees level by level: `waiting` nodes of each list of `lists[0]` first, and then by turns what the kernels put in the other's.
    fn grow_levels(
        &self,
        mut fit: ForestFit,
        mut waiting: [usize; 3],
        lists: [[u64; 3]; 2],
        buffers: [u64; 2],
        counts: &mut CudaSlice<u32>,
    ) -> Result<()> {
        let mut depth = 0usize;
        while waiting.iter().any(|w| *w > 0) {
            if (self.work.interrupted)() {
                return Err(Error::Interrupted);
            }
            self.queue.clear(counts)?;
            let (now, then) = (depth % 2, (depth + 1) % 2);
            fit.lists = lists[then];
            fit.deeper = (depth + 1 < self.work.depth() as usize) as u32;
            let level = LevelNodes { lists: lists[now], waiting, from: buffers[now], to: buffers[then] };
            if self.work.by_bins() {
                self.level_by_bins(&fit, &level)?
            } else {
                self.level_by_sorting(&fit, &level)?
            }
            let found = self.queue.read(counts)?;
            waiting = [0, 1, 2].map(|k| found[k] as usize);
            depth += 1;
        }
        Ok(())
    }
}
