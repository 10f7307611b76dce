//! All trees of many tables of few rows in one launch, a block a table. Twin of `cpu/trees/presorted`, for many tables at a time.

use super::buffers::{Buffer, TREES};
use super::layouts::{LossRows, Rules, SmallBest, SmallFit, SmallLeaf, SmallNode, SmallTable as DeviceTable};
use crate::runtime::{Gpu, Queue};
use crate::{Kernel, grid, launch};
use std::collections::BTreeMap;
use taiga_core::error::{Error, Result};
use taiga_core::learners::boosting::steps::{GrownTables, LeafSums, SmallTable, SmallTableSteps, SmallTree, SmallTrees};
use taiga_core::tree::params::{Policy, TreeParams};
use taiga_core::tree::split::{Scales, SplitRules};
use taiga_core::tree::steps::{Candidate, NodeId};

/// SMALL_THREADS, and its warps, in small_tables.cuh.
const THREADS: u32 = 128;
const WARPS: usize = THREADS as usize / 32;

/// Numbers of rows and of leaves are 15 bits. Of more rows a block is too few threads.
const MOST_ROWS: usize = 2048;

/// Deeper trees have more nodes than a block has room for.
const MOST_DEPTH: u32 = 8;

/// Bytes of shared memory that the kernel has for itself.
const OWN_BYTES: u32 = 2048;

/// Bytes of a log, at most, unless a single table needs more.
const LOG_BYTES: usize = 256 << 20;

/// SMALL_NOT_FINITE in small_tables.cuh.
const NOT_FINITE: u64 = u64::MAX;

/// Grows the trees of small tables on a GPU.
pub struct CudaSmallTables {
    queue: Queue,
    kernel: Kernel,
}

/// The most rows and columns of some tables, and what follows from them.
struct Extent {
    stride: usize,
    columns: usize,
    nodes: usize,
    leaves: usize,
    splits: usize,
}

impl Extent {
    fn new(rows: usize, columns: usize, params: &TreeParams) -> Extent {
        let leaves = (1usize << params.depth).min(rows);
        let nodes = (1usize << (params.depth - 1)).min(rows);
        let splits = if params.policy == Policy::Symmetric { params.depth as usize } else { leaves.saturating_sub(1) };
        Extent { stride: rows.next_multiple_of(32), columns, nodes, leaves, splits }
    }

    /// Words of the log that a tree takes at most.
    fn log_words(&self) -> usize {
        3 + 2 * self.splits + 3 * self.leaves
    }

    /// Places everything in a block's shared memory; returns how many bytes it takes.
    fn place(&self, fit: &mut SmallFit) -> u32 {
        let Extent { stride, columns, nodes, leaves, splits } = *self;
        let mut next = 0usize;
        let mut take = |bytes: usize| {
            let at = next;
            next = (next + bytes).next_multiple_of(16);
            at as u32
        };
        // The counters that rows are sorted by stand where the lists do later.
        fit.at_lists = take((2 * 2 * columns * stride).next_multiple_of(32).max(4 * 256 * WARPS));
        fit.at_codes = take(columns * stride);
        fit.at_columns = take(4 * columns);
        fit.at_scored = take(if fit.symmetric != 0 { 8 * stride * WARPS } else { 0 });
        fit.at_derivatives = take(8 * stride);
        fit.at_statistics = take(8 * stride);
        fit.at_scores = take(4 * stride);
        fit.at_node_of = take(2 * 2 * stride);
        fit.at_right = take(stride);
        fit.at_nodes = take(2 * size_of::<SmallNode>() * nodes);
        fit.at_best = take(size_of::<SmallBest>() * nodes * WARPS);
        fit.at_leaves = take(size_of::<SmallLeaf>() * leaves);
        fit.at_splits = take(16 * splits.max(1));
        (fit.stride, fit.nodes, fit.leaves) = (stride as u32, nodes as u32, leaves as u32);
        next as u32
    }
}

/// Returns the most rows and columns of the tables that one of so many has a launch with.
fn class_of(rows: usize, columns: usize) -> (usize, usize) {
    (rows.next_power_of_two().max(32), columns.next_power_of_two())
}

impl CudaSmallTables {
    /// Opens the GPU `number` for them.
    ///
    /// # Errors
    /// [`Error::Parameter`] where there is no such GPU; [`Error::Device`].
    pub fn new(number: Option<u32>) -> Result<CudaSmallTables> {
        let gpu = Gpu::get(number)?;
        Ok(CudaSmallTables { queue: Queue::new(gpu)?, kernel: gpu.kernel(TREES, "tree_grow_small")? })
    }

    fn blank(params: &TreeParams) -> SmallFit {
        SmallFit { depth: params.depth, symmetric: (params.policy == Policy::Symmetric) as u32, ..SmallFit::default() }
    }

    /// Grows the trees of `tables`, and appends them to `grown`.
    fn grow_some(&self, tables: &[SmallTable<'_>], trees: &SmallTrees<'_>, grown: &mut GrownTables) -> Result<()> {
        let (queue, params, rounds) = (&self.queue, trees.params, trees.rounds as usize);
        // Tables of about the same size have a launch.
        let mut classes: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for (number, table) in tables.iter().enumerate() {
            classes.entry(class_of(table.target.len(), table.features.len())).or_default().push(number);
        }
        let extent = |members: &[usize]| {
            let most = |of: &dyn Fn(&SmallTable<'_>) -> usize| members.iter().map(|n| of(&tables[*n])).max().unwrap_or(0);
            Extent::new(most(&|t| t.target.len()), most(&|t| t.features.len()), params)
        };
        let extents: Vec<Extent> = classes.values().map(|members| extent(members)).collect();
        let order = extents.iter().zip(classes.values()).map(|(extent, members)| extent.stride * extent.columns * members.len()).sum();
        let words = extents.iter().zip(classes.values()).map(|(extent, members)| extent.log_words() * members.len() * rounds).sum();
        let codes = tables.iter().map(|t| &t.codes[..]).collect::<Vec<_>>().concat();
        let columns: Vec<u32> = tables.iter().flat_map(|t| t.features).map(|f| f.borders.len() as u32 | (f.first() as u32) << 16).collect();
        let numbers = tables.iter().flat_map(|t| [t.target, t.weight.unwrap_or(&[]), t.scores]).collect::<Vec<_>>().concat();
        let bytes = codes.len()
            + 4 * (columns.len() + numbers.len())
            + 2 * order
            + 8 * words
            + (size_of::<DeviceTable>() + 8 * rounds) * tables.len();
        queue.check_memory(&format!("{} tables of few rows", tables.len()), bytes as u64)?;
        let codes = Buffer::copy_of(queue, "codes", &codes)?;
        let columns = Buffer::copy_of(queue, "features", &columns)?;
        let numbers = Buffer::copy_of(queue, "rows", &numbers)?;
        let order = Buffer::<u16>::new(queue, "the order of rows", order)?;
        let log = Buffer::<u64>::new(queue, "trees", words)?;
        let places = Buffer::<u64>::new(queue, "trees", tables.len() * rounds)?;
        let used = Buffer::<u64>::zeros(queue, "trees", 1)?;
        let mut described = self.describe(tables, params, (codes.address, columns.address, numbers.address));
        // Those of a launch stand next to each other.
        let mut at = order.address;
        let mut listed = Vec::with_capacity(tables.len());
        for (extent, members) in extents.iter().zip(classes.values()) {
            for number in members {
                let mut table = std::mem::take(&mut described[*number]);
                table.order = at;
                at += (2 * extent.stride * extent.columns) as u64;
                listed.push(table);
            }
        }
        let listed = Buffer::copy_of(queue, "tables", &listed)?;
        let Some(loss) = tables.first().map(|t| t.loss) else { return Ok(()) };
        let mut first = 0;
        for (extent, members) in extents.iter().zip(classes.values()) {
            let mut fit = SmallFit {
                tables: listed.address + (first * size_of::<DeviceTable>()) as u64,
                log: log.address,
                places: places.address + (8 * first * rounds) as u64,
                used: used.address,
                learning_rate: trees.learning_rate,
                trees: trees.rounds,
                loss: LossRows::default().with_formula(loss.formula(0)).loss,
                unit: loss.constant_hessian() as u32,
                ..Self::blank(params)
            };
            let shared = extent.place(&mut fit);
            self.kernel.allow_shared(queue.gpu(), shared)?;
            // SAFETY: the arguments are the kernel's; every table has as many rows and columns as it says, at most those of the extent, and
            // its room in `order`; the log has room for the most that all trees come to.
            unsafe { launch!(queue, self.kernel, grid(members.len() as u32, THREADS, shared); &fit) }?;
            first += members.len();
        }
        let used = used.read(queue, 1)?[0] as usize;
        if used > words {
            return Err(Error::Data("the trees of small tables are longer than they can be".into()));
        }
        let (log, places) = (log.read(queue, used)?, places.read(queue, tables.len() * rounds)?);
        let mut place_of = vec![0; tables.len()];
        classes.values().flatten().enumerate().for_each(|(place, number)| place_of[*number] = place);
        grown.trees.reserve(places.len());
        for place in place_of {
            places[place * rounds..(place + 1) * rounds].iter().for_each(|at| read_tree(&log, *at, grown));
        }
        Ok(())
    }

    /// Returns the tables as the kernel reads them, but for their order, where their codes, columns and numbers stand one behind the other from
    /// these addresses on.
    fn describe(
        &self,
        tables: &[SmallTable<'_>],
        params: &TreeParams,
        (mut codes, mut columns, mut numbers): (u64, u64, u64),
    ) -> Vec<DeviceTable> {
        let one = |table: &SmallTable<'_>| {
            let (rows, count) = (table.target.len(), table.features.len());
            let formula = table.loss.formula(0);
            let level_limits = TreeParams { split: table.split, ..params.clone() }.level_limits();
            let rules = SplitRules { scales: Scales { gradient: 1.0, hessian: 1.0 }, params: table.split, level_limits, monotone: vec![] };
            let mut described = DeviceTable {
                codes,
                columns,
                target: numbers,
                rules: Rules::new(&rules),
                rows: rows as u32,
                count: count as u32,
                a: formula.a,
                b: formula.b,
                ..DeviceTable::default()
            };
            (codes, columns, numbers) = (codes + (rows * count) as u64, columns + 4 * count as u64, numbers + 4 * rows as u64);
            if table.weight.is_some() {
                described.weight = numbers;
                numbers += 4 * rows as u64;
            }
            described.scores = numbers;
            numbers += 4 * rows as u64;
            described
        };
        tables.iter().map(one).collect()
    }
}

/// Appends the tree that stands at a place in the log.
fn read_tree(log: &[u64], at: u64, grown: &mut GrownTables) {
    let (first_split, first_leaf) = (grown.splits.len(), grown.leaves.len());
    let words = if at == NOT_FINITE { None } else { log.get(at as usize..).filter(|words| words.len() >= 3) };
    let scales = words.map(|words| {
        let (splits, leaves) = (words[0] as u32 as usize, (words[0] >> 32) as usize);
        let body = &words[3..];
        grown.splits.extend(body.chunks_exact(2).take(splits).map(|w| {
            let (key, gain) = (w[0] as u32, f64::from_bits(w[1]));
            let candidate = Candidate { feature: key >> 10, border: key >> 1 & 511, missing_left: key & 1 == 0, gain, rank: gain };
            ((w[0] >> 32) as NodeId, candidate)
        }));
        grown.leaves.extend(body.get(2 * splits..).unwrap_or(&[]).chunks_exact(3).take(leaves).map(|w| {
            let sums = LeafSums { gradient: f64::from_bits(w[1]), hessian: f64::from_bits(w[2]), count: w[0] >> 32 };
            (w[0] as u32, sums)
        }));
        Scales { gradient: f64::from_bits(words[1]), hessian: f64::from_bits(words[2]) }
    });
    grown.trees.push(SmallTree { scales, splits: first_split..grown.splits.len(), leaves: first_leaf..grown.leaves.len() });
}

impl SmallTableSteps for CudaSmallTables {
    fn takes(&self, rows: usize, features: usize, params: &TreeParams) -> bool {
        if !(1..=MOST_ROWS).contains(&rows) || !(1..=MOST_DEPTH).contains(&params.depth) || features == 0 || features >= 1 << 21 {
            return false;
        }
        // Tables of a launch have the room of the largest of them.
        let (rows, features) = class_of(rows, features);
        let most = self.queue.gpu().shared_per_block().saturating_sub(OWN_BYTES);
        rows * features <= most as usize && Extent::new(rows, features, params).place(&mut Self::blank(params)) <= most
    }

    fn grow(&self, tables: &[SmallTable<'_>], trees: &SmallTrees<'_>) -> Result<GrownTables> {
        let mut grown = GrownTables::default();
        let most = |table: &SmallTable<'_>| 8 * trees.rounds as usize * Extent::new(table.target.len(), 1, trees.params).log_words();
        let at_once = (LOG_BYTES / tables.iter().map(most).max().unwrap_or(1).max(1)).max(1);
        for some in tables.chunks(at_once) {
            self.grow_some(some, trees, &mut grown)?;
        }
        Ok(grown)
    }
}
