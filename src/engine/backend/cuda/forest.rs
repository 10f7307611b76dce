//! Random forests on the GPU: many trees at a time, level by level. The trees are those of the CPU, byte for byte: all sums
//! are integers, splits are scored by the same formula in f64, and random choices are keyed by the node.
//!
//! ```text
//! codes ─► rows of 32 codes ─► for as many trees as there is room: draw rows ─► levels ─► nodes, downloaded once
//!                                                                                  └ one number of nodes a level
//! ```

use super::column::bytes_of_mut;
use super::device::{Gpu, Image};
use super::encoding::{each_row, upload};
use super::memory;
use super::queue::{Queue, grid};
use crate::backend::forest::{Targets, Work};
use crate::error::{Error, Result};
use crate::forest::grow::{Split, raw};
use crate::forest::kind::{Kind, NumberSums};
use crate::forest::part::{Part, root_key};
use crate::forest::search::Cut;
use crate::launch;
use crate::numerics::random::{Purpose, Random};
use cudarc::driver::{CudaSlice, DevicePtr, DeviceRepr, LaunchConfig};

/// `kernels/forest.cu`.
const FOREST: Image = Image { name: "forest", bytes: taiga_kernels::images::forest };

const NONE: u32 = u32::MAX;
/// Features of a codes' block, and of a pass over a node's rows.
const LANES: usize = 32;
const PASS: usize = 8;
const BINS: usize = 256;
/// Rows of a tile of a node with many rows.
const TILE: usize = 8192;
/// The most rows of a node that a warp grows, and that a block does.
const FEW: usize = 256;
const MANY: usize = 32_768;
/// Bytes of sums of nodes with many rows that are worked on at a time.
const SUMS: usize = 1 << 28;
/// The most features: their draws are kept in shared memory.
pub const MOST_FEATURES: usize = 4096;

/// Twin of `Sums`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    sum: i64,
    count: u64,
}

/// Twin of `Node`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    key: u64,
    begin: u64,
    rows: u64,
    total: Sums,
    left: Sums,
    score: f64,
    tree: u32,
    feature: u32,
    left_code: u32,
    right_code: u32,
    missing_left: u32,
    children: u32,
}

/// Twin of `Fit`: addresses and numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Fit {
    codes: u64,
    bins: u64,
    first: u64,
    nodes: u64,
    next_node: u64,
    lists: [u64; 3],
    counts: u64,
    rows: u64,
    min_data: u64,
    min_gain: f64,
    tree_counts: u64,
    classes: u64,
    values: u64,
    levels: u64,
    factor: f64,
    unit: f64,
    features: u32,
    drawn: u32,
    few: u32,
    many: u32,
    deeper: u32,
    unused: u32,
}

// SAFETY: plain numbers in C's layout, which is the kernels' own.
unsafe impl DeviceRepr for Node {}
// SAFETY: likewise.
unsafe impl DeviceRepr for Fit {}

fn address<T>(queue: &Queue, slice: &CudaSlice<T>) -> u64 {
    slice.device_ptr(queue.stream()).0
}

/// What all trees share on the device.
struct Table {
    codes: CudaSlice<u8>,
    /// Of each row its class; or its target, and what equal targets share.
    classes: Option<CudaSlice<u32>>,
    numbers: Option<(CudaSlice<i64>, CudaSlice<u32>)>,
    bins: CudaSlice<u16>,
    first: CudaSlice<u8>,
    rows: usize,
}

impl Table {
    fn new(queue: &Queue, work: &Work<'_>) -> Result<Table> {
        let (rows, features) = (work.view.stride, work.view.features.len());
        let padded = features.next_multiple_of(LANES) * rows;
        queue.check_memory("the codes of a forest", (padded + features * rows + 12 * rows) as u64)?;
        let flat = upload(queue, "codes", work.view.codes)?;
        let mut codes = queue.alloc::<u8>("codes", padded)?;
        let (n, f) = (rows as u64, features as u32);
        let kernel = queue.gpu().kernel(FOREST, "forest_interleave")?;
        let blocks = rows.div_ceil(256) as u32;
        // SAFETY: the arguments are those of `forest_interleave`, of so many rows and features.
        unsafe { launch!(queue, kernel, grid(blocks, 256, 0); &n, &f, &flat, &mut codes) }?;
        let bins: Vec<u16> = work.view.features.iter().map(|f| f.bins() as u16).collect();
        let first: Vec<u8> = work.view.features.iter().map(|f| f.first as u8).collect();
        let (bins, first) = (queue.copy_of("bins", &bins)?, queue.copy_of("bins", &first)?);
        let (classes, numbers) = match work.targets {
            Targets::Two(two) => (Some(upload(queue, "classes", two.codes)?), None),
            Targets::Numbers(n) => (None, Some((upload(queue, "targets", &n.values)?, upload(queue, "targets", &n.levels)?))),
        };
        Ok(Table { codes, classes, numbers, bins, first, rows })
    }
}

impl Targets<'_> {
    fn leaf(&self, total: Sums, part: &mut Part) {
        match self {
            Targets::Two(two) => two.leaf(&(total.count << 32 | total.sum as u64), part),
            Targets::Numbers(numbers) => numbers.leaf(&NumberSums::unweighted(total.sum, total.count), part),
        }
    }

    fn gain(&self, score: f64, total: Sums) -> f64 {
        match self {
            Targets::Two(two) => two.gain(score, &(total.count << 32 | total.sum as u64)),
            Targets::Numbers(numbers) => numbers.gain(score, &NumberSums::unweighted(total.sum, total.count)),
        }
    }
}

/// All trees, on GPU `number`.
///
/// # Errors
/// [`Error::Memory`], [`Error::Device`] and [`Error::Interrupted`].
pub fn grow(number: Option<u32>, work: &Work<'_>) -> Result<Vec<Part>> {
    let queue = Queue::new(Gpu::get(number)?)?;
    let table = Table::new(&queue, work)?;
    let (rows, trees) = (table.rows, work.params.trees as usize);
    let draws = work.params.bootstrap.draws(rows);
    // Rows drawn: about 63 %, and a little more.
    let entries =
        draws.map_or(rows, |d| (((1.0 - (-(d as f64) / rows as f64).exp()) * rows as f64 * 1.02) as usize + 1024).min(rows).min(d));
    let most_nodes = match work.limits.depth {
        depth if depth < 31 => (2 << depth as usize).min(2 * entries),
        _ => 2 * entries,
    };
    let tree_bytes = 16 * entries + most_nodes * (size_of::<Node>() + 24);
    let free = memory::of(queue.gpu())?.free as usize;
    let room = (free / 10 * 8).saturating_sub(SUMS * 2 + 4 * rows);
    let batch = (room / tree_bytes.max(1)).min(u32::MAX as usize / 2 / most_nodes.max(1)).min(trees);
    if batch == 0 {
        queue.check_memory("one tree of a forest", (tree_bytes + SUMS * 2 + 4 * rows) as u64 / 8 * 10)?;
        return Err(Error::Data(format!("a tree of {rows} rows has too many nodes for a GPU: use device=\"cpu\"")));
    }
    let mut parts = Vec::with_capacity(trees);
    for first in (0..trees).step_by(batch) {
        let count = batch.min(trees - first);
        parts.extend(Batch { queue: &queue, work, table: &table, first: first as u32, count, entries, most_nodes }.grow(draws)?);
    }
    Ok(parts)
}

/// Trees that grow at the same time.
struct Batch<'a, 'w> {
    queue: &'a Queue,
    work: &'a Work<'w>,
    table: &'a Table,
    first: u32,
    count: usize,
    /// Of a tree: room for so many rows, and nodes.
    entries: usize,
    most_nodes: usize,
}

impl Batch<'_, '_> {
    /// The rows of every tree, and of each tree how many there are, and the sum and count of all.
    fn draw(&self, draws: Option<usize>) -> Result<(CudaSlice<u64>, Vec<[u64; 3]>)> {
        let (queue, rows) = (self.queue, self.table.rows);
        let mut entries = queue.alloc::<u64>("rows of trees", self.entries * self.count)?;
        let mut counts = queue.alloc::<u32>("draws", rows)?;
        let mut tallies = queue.zeros::<u64>("tallies", 3 * self.count)?;
        let (draw, list) = (queue.gpu().kernel(FOREST, "forest_draw")?, queue.gpu().kernel(FOREST, "forest_entries")?);
        let n = rows as u32;
        let counted = if draws.is_some() { address(queue, &counts) } else { 0 };
        let [classes, values, _] = self.targets();
        for tree in 0..self.count {
            if let Some(draws) = draws {
                queue.clear(&mut counts)?;
                let key = Random::new(self.work.params.seed, Purpose::ForestRows, self.first as u64 + tree as u64).key();
                let wanted = draws as u64;
                // SAFETY: the arguments are those of `forest_draw`; there is a count for each row.
                unsafe { launch!(queue, draw, each_row(queue, draws); &key, &wanted, &n, &mut counts) }?;
            }
            let (begin, room) = ((tree * self.entries) as u64, self.entries as u64);
            let mut tally = tallies.slice_mut(3 * tree..3 * tree + 3);
            let config = grid(rows.div_ceil(256) as u32, 256, 0);
            // SAFETY: the arguments are those of `forest_entries`; a tree has so much room.
            unsafe {
                launch!(queue, list, config; &n, &counted, &classes, &values, &begin, &room, &mut entries, &mut tally)?;
            }
        }
        let tallies: Vec<[u64; 3]> = queue.read(&tallies)?.as_chunks().0.to_vec();
        if tallies.iter().any(|t| t[0] as usize > self.entries) {
            return Err(Error::device(queue.gpu().number(), "a tree has drawn more rows than chance allows"));
        }
        Ok((entries, tallies))
    }

    /// Where the classes, the targets and their levels lie; 0 for those there are none of.
    fn targets(&self) -> [u64; 3] {
        let (queue, table) = (self.queue, self.table);
        let numbers = table.numbers.as_ref();
        [
            table.classes.as_ref().map_or(0, |c| address(queue, c)),
            numbers.map_or(0, |n| address(queue, &n.0)),
            numbers.map_or(0, |n| address(queue, &n.1)),
        ]
    }

    fn grow(&self, draws: Option<usize>) -> Result<Vec<Part>> {
        let (queue, work, limits) = (self.queue, self.work, &self.work.limits);
        let (entries, tallies) = self.draw(draws)?;
        let spare = queue.alloc::<u64>("rows of trees", self.entries * self.count)?;
        let mut buffers = [entries, spare];
        let capacity = self.most_nodes * self.count;
        let mut nodes = queue.alloc::<Node>("nodes", capacity)?;
        let next_node = queue.copy_of("nodes", &[self.count as u32])?;
        // Of two levels three lists each, one behind the other.
        let room = capacity.max(1);
        let lists = [queue.alloc::<u32>("nodes", 3 * room)?, queue.alloc::<u32>("nodes", 3 * room)?];
        let mut counts = queue.zeros::<u32>("nodes", 3)?;
        let totals: Vec<u64> = tallies.iter().map(|t| t[2]).collect();
        let totals = queue.copy_of("totals", &totals)?;
        let [classes, values, levels] = self.targets();
        let (factor, unit) = match work.targets {
            Targets::Two(_) => (2.0, 1.0),
            Targets::Numbers(n) => (1.0, n.unit * n.unit),
        };

        let mut waiting = [0usize; 3];
        let mut roots = vec![];
        let mut first_lists = [vec![], vec![], vec![]];
        for (tree, [rows, sum, count]) in tallies.iter().enumerate() {
            let pure = levels == 0 && (*sum == 0 || sum == count);
            roots.push(Node {
                key: root_key(work.params.seed, self.first + tree as u32).key(),
                begin: (tree * self.entries) as u64,
                rows: *rows,
                total: Sums { sum: *sum as i64, count: *count },
                tree: tree as u32,
                feature: NONE,
                children: NONE,
                ..Node::default()
            });
            if limits.depth > 0 && *rows >= 2 && *count >= 2 * limits.min_data && !pure {
                first_lists[if *rows as usize <= FEW { 0 } else { (*rows as usize > MANY) as usize + 1 }].push(tree as u32);
            }
        }
        queue.write(&roots, &mut nodes.slice_mut(0..roots.len()))?;
        let mut own = lists;
        for (k, list) in first_lists.iter().enumerate() {
            waiting[k] = list.len();
            queue.write(list, &mut own[0].slice_mut(k * room..k * room + list.len().max(1)))?;
        }
        let [mut now, mut then] = own;
        let mut level = 0u32;
        while waiting.iter().any(|w| *w > 0) {
            if (work.interrupted)() {
                return Err(Error::Interrupted);
            }
            queue.clear(&mut counts)?;
            let list = |lists: &CudaSlice<u32>, k: usize| address(queue, lists) + (4 * k * room) as u64;
            let fit = Fit {
                codes: address(queue, &self.table.codes),
                bins: address(queue, &self.table.bins),
                first: address(queue, &self.table.first),
                nodes: address(queue, &nodes),
                next_node: address(queue, &next_node),
                lists: [0, 1, 2].map(|k| list(&then, k)),
                counts: address(queue, &counts),
                rows: self.table.rows as u64,
                min_data: limits.min_data,
                min_gain: limits.min_gain,
                tree_counts: address(queue, &totals),
                classes,
                values,
                levels,
                factor,
                unit,
                features: work.view.features.len() as u32,
                drawn: limits.drawn as u32,
                few: FEW as u32,
                many: MANY as u32,
                deeper: (level + 1 < limits.depth) as u32,
                unused: 0,
            };
            self.level(&fit, [0, 1, 2].map(|k| list(&now, k)), waiting, &buffers)?;
            let found = queue.read(&counts)?;
            waiting = [0, 1, 2].map(|k| found[k] as usize);
            std::mem::swap(&mut now, &mut then);
            buffers.swap(0, 1);
            level += 1;
        }
        let used = queue.read(&next_node)?[0] as usize;
        let mut found = vec![Node::default(); used];
        queue.download(&nodes, bytes_of_mut(&mut found))?;
        // What the kernels wrote to by its address alone lives until here.
        drop((now, then, buffers, counts, totals));
        Ok(work.team.deal(self.count, || (), |_, tree| self.part(&found, tree)))
    }

    /// Grows the nodes of a level. Does not wait.
    fn level(&self, fit: &Fit, lists: [u64; 3], waiting: [usize; 3], buffers: &[CudaSlice<u64>; 2]) -> Result<()> {
        let (queue, gpu) = (self.queue, self.queue.gpu());
        let [grow, sum] = match self.work.targets {
            Targets::Two(_) => ["forest_grow_classes", "forest_sum_classes"],
            Targets::Numbers(_) => ["forest_grow_numbers", "forest_sum_numbers"],
        };
        let (grow, sum) = (gpu.kernel(FOREST, grow)?, gpu.kernel(FOREST, sum)?);
        let (from, to, none) = (address(queue, &buffers[0]), address(queue, &buffers[1]), 0u64);
        let (drawn, features) = (fit.drawn as usize, fit.features as usize);
        let bin = if self.table.numbers.is_some() { 12 } else { 8 };
        let shared = (4 * features + PASS.min(drawn) * BINS * bin) as u32;
        grow.allow_shared(gpu, shared)?;
        if waiting[2] > 0 {
            let (divide, children) = (gpu.kernel(FOREST, "forest_divide_large")?, gpu.kernel(FOREST, "forest_children_large")?);
            sum.allow_shared(gpu, shared)?;
            let node = 2 * drawn * BINS;
            let most = (SUMS / 8 / node).clamp(1, waiting[2]);
            let mut sums = queue.alloc::<u64>("sums of nodes", most * node)?;
            let mut tally = queue.alloc::<u64>("tallies", most * 2)?;
            let mut mixed = queue.alloc::<u32>("flags", most)?;
            for start in (0..waiting[2]).step_by(most) {
                let count = most.min(waiting[2] - start);
                let list = lists[2] + 4 * start as u64;
                queue.clear(&mut sums.slice_mut(0..count * node))?;
                queue.clear(&mut tally)?;
                queue.clear(&mut mixed)?;
                let shares = (8192 / count).clamp(4, self.entries.div_ceil(TILE).max(4)).min(1024) as u32;
                let shape = |threads, shared_mem_bytes| LaunchConfig {
                    grid_dim: (count as u32, shares, 1),
                    block_dim: (threads, 1, 1),
                    shared_mem_bytes,
                };
                // SAFETY: the arguments are those of the kernels, and the lists hold `count` nodes from `list` on; the rows of
                // nodes lie inside the buffers.
                unsafe {
                    launch!(queue, sum, shape(512, shared); fit, &list, &from, &mut sums, &mut mixed)?;
                    launch!(queue, grow, grid(count as u32, 256, shared); fit, &list, &from, &to, &sums, &mixed)?;
                    launch!(queue, divide, shape(256, 0); fit, &list, &from, &to, &mut tally)?;
                    let n = count as u32;
                    launch!(queue, children, grid(n.div_ceil(128), 128, 0); fit, &list, &n, &tally)?;
                }
            }
        }
        for (k, threads) in [(1, 256), (0, 32)] {
            if waiting[k] > 0 {
                // SAFETY: likewise; there are no sums, so that the kernel makes its own.
                unsafe { launch!(queue, grow, grid(waiting[k] as u32, threads, shared); fit, &lists[k], &from, &to, &none, &none)? };
            }
        }
        Ok(())
    }

    /// A tree of the nodes found, in preorder.
    fn part(&self, nodes: &[Node], tree: usize) -> Part {
        let (work, mut part) = (self.work, Part::default());
        let whole = nodes[tree].total.count;
        let mut open = vec![(tree, None)];
        while let Some((at, place)) = open.pop() {
            let node = &nodes[at];
            if node.feature == NONE {
                work.targets.leaf(node.total, &mut part);
                part.push_leaf(place);
                continue;
            }
            let right = (node.right_code != NONE).then_some(node.right_code as usize);
            let cut = Cut {
                score: node.score,
                left: node.left_code as usize,
                right,
                missing_left: None,
                left_count: 0,
                set: None,
                threshold: None,
            };
            let gain = (work.targets.gain(node.score, node.total) / whole as f64).max(0.0);
            let split = Split { feature: node.feature as usize, cut, gain, missing_left: node.missing_left == 1 };
            let index = part.push(place, raw(&work.view, &split), None);
            let children = node.children as usize;
            open.extend([(children + 1, Some((index, 1))), (children, Some((index, 0)))]);
        }
        part
    }
}
