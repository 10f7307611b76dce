//! Whole trees that grow on the device without asking the host, under policies by level where every
//! open feature may split every node: a tree's launches are queued at once, and what was decided is
//! read when it has grown.
//!
//! Where the fit has announced how leaves get their values, the device finds these too, and then the next
//! tree is queued before the host has read this one:
//!
//! ```text
//! device │ tree 0 │ tree 1 │ tree 2 │
//! host   │        │ 0's log│ 1's log│         a log is read while the next tree grows
//! ```

use super::CudaTrees;
use super::buffers::{Buffer, root_fits};
use super::evaluate_splits::Searcher;
use super::gradient_quantizer::{QUANTIZER_WORDS, quantizer_of};
use super::histogram::Plane;
use super::layouts::{
    GradientQuantizer, IN_ORDER, LeafValues, NodeSplit, RECORD, RECORD_FEATURES, ResidentLevel, RowRecords, Rules, SplitInput, SplitSearch,
    Total, TreeStart, TreeWalk,
};
use super::resident_tree::ResidentTree;
use super::rows::RowData;
use crate::runtime::Gpu;
use crate::runtime::error::driver;
use crate::{follow, grid, launch};
use cudarc::driver::{CudaEvent, CudaStream, PinnedHostSlice};
use std::sync::Arc;
use taiga_core::error::Result;
use taiga_core::losses::Loss;
use taiga_core::tree::grow::WholeTree;
use taiga_core::tree::params::{Policy, TreeParams};
use taiga_core::tree::split::{Scales, SplitRules};

/// Deeper trees are grown split test by split test: most of their nodes would not be there.
const MOST_DEPTH: u32 = 12;

/// So many nodes, and columns, are searched and grown in one launch.
const FUSED_NODES: u32 = 63;

/// 64-bit words of what was found for a node, and of sums.
const NODE_SPLIT_WORDS: usize = size_of::<NodeSplit>() / 8;
const SUMS_WORDS: usize = size_of::<Total>() / 8;

/// Copies of the logs on the host, one for each turn; they are made on a stream of their own, while the next tree grows.
pub struct TreeLogs {
    stream: Arc<CudaStream>,
    /// When the tree has grown that is queued last.
    grown: CudaEvent,
    copies: [Option<(PinnedHostSlice<u64>, CudaEvent)>; 2],
}

impl TreeLogs {
    pub fn new(gpu: &'static Gpu) -> Result<TreeLogs> {
        let failed = |e| driver(gpu, "making a stream", e);
        let stream = gpu.context().new_stream().map_err(failed)?;
        Ok(TreeLogs { stream, grown: gpu.context().new_event(None).map_err(failed)?, copies: [None, None] })
    }
}

impl Drop for CudaTrees<'_> {
    /// Logs that nobody has read may be on their way still.
    fn drop(&mut self) {
        let _ = self.logs.stream.synchronize();
    }
}

/// A tree to be queued: what it is grown from.
#[derive(Clone, Copy)]
struct ResidentTask<'a> {
    loss: &'a dyn Loss,
    group: usize,
    plan: &'a TreeParams,
    log: &'a LogLayout,
    unit: bool,
    tree: u64,
    output: usize,
}

/// A tree that is queued.
pub struct QueuedTree {
    tree: u64,
    output: usize,
    turn: usize,
    plan: TreeParams,
    unit: bool,
}

/// The log's layout, in words: quantizer, the root's sums, the leaves', their values, what was found.
struct LogLayout {
    sums: usize,
    values: usize,
    found: usize,
    words: usize,
}

impl LogLayout {
    fn new(depth: u32) -> LogLayout {
        let sums = QUANTIZER_WORDS + SUMS_WORDS;
        let values = sums + (3 << depth);
        let found = values + (1usize << depth).div_ceil(2);
        LogLayout { sums, values, found, words: found + NODE_SPLIT_WORDS * ((1 << depth) - 1) }
    }
}

impl CudaTrees<'_> {
    /// Grows the whole tree, where that can be done without asking the host.
    pub(crate) fn grow_whole(&mut self, loss: &dyn Loss, plan: Option<&TreeParams>, unit: bool) -> Result<Option<WholeTree>> {
        let Some(plan) = plan else { return Ok(None) };
        let mut open = (0..self.groups.len()).filter(|g| self.groups[*g].open && self.groups[*g].features > 0);
        let (Some(group), None) = (open.next(), open.next()) else { return Ok(None) };
        let range = self.groups[group].first..self.groups[group].first + self.groups[group].features;
        let fits = plan.policy != Policy::Leafwise && plan.depth <= MOST_DEPTH && plan.monotone.is_empty();
        // Shards that do not read each other's memory ask the host.
        let fits = fits && (self.of.is_whole() || self.peers.is_some());
        if !fits || self.was_wide || self.features[range].iter().any(|f| f.categories) {
            return Ok(None);
        }
        let log = LogLayout::new(plan.depth);
        let same = |q: &QueuedTree| (q.tree, q.output, q.unit) == (self.tree, self.output, unit) && q.plan == *plan;
        let ordered = ResidentTask { loss, group, plan, log: &log, unit, tree: self.tree, output: self.output };
        let queued = match self.queued.take().filter(same) {
            Some(queued) => queued,
            None => {
                self.logs.stream.synchronize().map_err(|e| self.queue.late(e))?;
                self.reserve_resident(group, plan.depth, &log, unit)?;
                if self.peers.is_some() {
                    self.reserve_launches(&ordered)?;
                    self.share_addresses(group, 1 << plan.depth)?;
                }
                self.queue_tree(ordered)?
            }
        };
        self.queued = self.queue_next(ordered)?;
        let words = self.read_log(queued.turn, log.words)?;
        let quantizer = quantizer_of(words);
        RowData::check_finite(&quantizer)?;
        if quantizer.wide != 0 {
            // Grown for nothing; the next trees will most likely be wide too. Its leaves have values of zero.
            (self.was_wide, self.queued, self.data.addition_queued) = (true, None, false);
            return Ok(None);
        }
        let found = words[log.found..].chunks_exact(NODE_SPLIT_WORDS);
        // SAFETY: as many words as a table has, of plain numbers.
        let splits = found.map(|w| unsafe { std::ptr::read_unaligned(w.as_ptr().cast::<NodeSplit>()) }.candidate()).collect();
        let sums = words[log.sums..log.values].iter().map(|w| *w as i64).collect();
        let values = words[log.values..log.found].iter().flat_map(|w| [*w as u32, (*w >> 32) as u32].map(f32::from_bits)).collect();
        let values = self.announced.map(|_| values);
        self.grown = Some(ResidentTree { depth: plan.depth, sums, values });
        self.quantizer = Some(quantizer);
        Ok(Some(WholeTree { splits, scales: quantizer.scales() }))
    }

    /// Queues the tree behind the one that grows, where nothing that is still to be told can change it.
    fn queue_next(&mut self, grows: ResidentTask<'_>) -> Result<Option<QueuedTree>> {
        let (tree, output) = (self.tree + 1, (self.output + 1) % self.data.outputs);
        let sure = self.announced.is_some_and(|a| tree < a.trees) && self.data.keeps_all();
        // Several outputs' values are added when all of them are known: one tree may turn out to be void.
        if !sure || (output == 0 && self.data.outputs > 1) {
            return Ok(None);
        }
        if output == 0 {
            // The round's values will be on the device, and the round ends before that tree begins.
            (self.data.waiting, self.data.addition_queued) = (true, true);
        }
        Ok(Some(self.queue_tree(ResidentTask { tree, output, ..grows })?))
    }

    fn reserve_resident(&mut self, group: usize, depth: u32, log: &LogLayout, unit: bool) -> Result<()> {
        let (nodes, widest) = (1usize << depth, 1usize << (depth - 1));
        let (queue, work) = (&self.queue, &mut self.work);
        self.data.reserve_logs(queue, log.words)?;
        self.groups[group].keep(queue, true)?;
        self.groups[group].reserve(queue, widest, 0)?;
        work.nodes.reserve(queue, "nodes", nodes)?;
        work.split_inputs.reserve(queue, "nodes", nodes)?;
        work.jobs.reserve(queue, "divisions", widest)?;
        work.summed.reserve(queue, "nodes", widest)?;
        work.starts.reserve(queue, "nodes", widest)?;
        work.split_tests.reserve(queue, "a tree", nodes)?;
        if self.groups[group].bundles.is_some() {
            work.walk_sets.reserve(queue, "a tree", 8 * nodes)?;
        }
        work.best.reserve(queue, "splits", widest * self.columns)?;
        self.reserve_records(group, unit)?;
        let (queue, work) = (&self.queue, &mut self.work);
        let g = &self.groups[group];
        let codes: Vec<u64> = (g.first..g.first + g.features).map(|f| g.codes_of(f)).collect();
        if work.codes.slice.len() < codes.len() || self.codes_of != Some(group) {
            work.codes.reserve(queue, "features", codes.len())?;
            work.codes.write(queue, &codes)?;
            self.codes_of = Some(group);
        }
        self.list_features(&[])
    }

    /// Makes room for what else the launches of a tree reserve, which then allocate nothing any more.
    fn reserve_launches(&mut self, task: &ResidentTask<'_>) -> Result<()> {
        let (leaves, columns) = (1usize << task.plan.depth, self.columns);
        self.data.reserve_by_row(&self.queue, task.loss)?;
        let numbers = self.groups[task.group].span(0..leaves / 2).end;
        self.groups[task.group].own.reserve(&self.queue, numbers)?;
        for values in &mut self.data.values {
            values.reserve(&self.queue, "leaf values", leaves)?;
        }
        if task.plan.policy == Policy::Symmetric {
            self.work.level(&self.queue, columns, super::evaluate_splits::level_nodes(columns, leaves / 2), false)?;
            if columns <= FUSED_NODES as usize {
                self.work.level(&self.queue, columns, (leaves / 2).min(FUSED_NODES as usize), true)?;
            }
        }
        (0..2).try_for_each(|turn| self.reserve_copy(turn, task.log.words))
    }

    /// Makes room for rows as records, where they serve and there is room.
    fn reserve_records(&mut self, group: usize, unit: bool) -> Result<()> {
        let narrow = !self.count_rows || unit;
        let plain = self.groups[group].features <= RECORD_FEATURES && self.groups[group].bundles.is_none();
        let serve = self.data.bag.is_none() && narrow && self.sums_on_the_way() && plain;
        let bytes = self.data.rows * RECORD;
        if !serve || self.records.is_some() || !self.queue.has_room(3 * bytes as u64)? {
            return Ok(());
        }
        let room = || Buffer::new(&self.queue, "rows of nodes", bytes);
        self.records = Some([room()?, room()?]);
        Ok(())
    }

    /// Where rows are as records, if they are.
    fn records_table(&self, group: usize) -> Option<RowRecords> {
        let lists = self.records.as_ref().filter(|_| self.data.bag.is_none() && self.groups[group].bundles.is_none())?;
        let codes = self.groups[group].table(0).codes;
        Some(RowRecords { codes, packed_gradients: self.data.packed_gradients.address, lists: [lists[0].address, lists[1].address] })
    }

    /// Queues a tree, and the copy of its log. Where trees have the same launches, from the third one on, as a graph.
    fn queue_tree(&mut self, ordered: ResidentTask<'_>) -> Result<QueuedTree> {
        self.derive_dependent(ordered.loss, ordered.tree, ordered.output)?;
        let same = self.data.outputs == 1 && self.data.bag.is_none() && self.groups[ordered.group].is_one_block();
        if same && self.graph.begins(&self.queue)? {
            let launched = self.launch_tree(ordered);
            // What failed first says why: a recording that has failed can't be ended well.
            let ended = self.graph.record(&self.queue, launched.is_ok());
            launched.and(ended)?;
            // A graph that is made takes memory: that all are there first.
            if self.peers.is_some() {
                self.meet()?;
            }
            self.graph.launch(&self.queue)?;
        } else {
            self.launch_tree(ordered)?;
        }
        self.copy_log(ordered.log.words)?;
        let ResidentTask { tree, output, plan, unit, .. } = ordered;
        Ok(QueuedTree { tree, output, turn: self.data.turn, plan: plan.clone(), unit })
    }

    /// A tree's launches.
    fn launch_tree(&mut self, task: ResidentTask<'_>) -> Result<()> {
        if self.peers.is_some() {
            self.groups[task.group].own.begin();
        }
        let launched = self.launch_steps(task);
        self.groups[task.group].own.end();
        launched
    }

    fn launch_steps(&mut self, task: ResidentTask<'_>) -> Result<()> {
        let ResidentTask { loss, group, plan, log, unit, output, .. } = task;
        self.data.turn = 1 - self.data.turn;
        let base = self.data.log().address;
        let slots = 1 << (plan.depth - 1);
        self.groups[group].clear_first(&self.queue, slots)?;
        // What the statistics will be, unless they are wide.
        let planes = self.planes(&GradientQuantizer { unit: unit as u32, ..GradientQuantizer::default() });
        let search = self.resident_search(group, plan, unit, base);
        let (out, sums) = (base + 8 * log.sums as u64, self.own_leaf_sums(base + 8 * log.sums as u64));
        self.launch_root(&task, search, sums, &planes)?;
        let resident = self.first_level(search, log, plan.depth, base);
        self.launch_levels(group, &resident, plan.policy, &planes)?;
        let mut values = LeafValues::default();
        if let Some(announced) = self.announced {
            self.data.values[output].reserve(&self.queue, "leaf values", 1 << plan.depth)?;
            values = LeafValues {
                rules: search.rules,
                learning_rate: announced.learning_rate,
                values: self.data.values[output].address,
                log: base + 8 * log.values as u64,
                arrived: self.work.arrived.address,
            };
        }
        let walk = TreeWalk {
            split_tests: self.work.split_tests.address,
            sets: self.work.walk_sets.address,
            entries: (1 << plan.depth) - 1,
            depth: plan.depth,
            sparse: self.groups[group].entries(),
            ..TreeWalk::default()
        };
        let cleared = self.groups[group].clear_behind(slots);
        let one = Some(&self.groups[group]).filter(|g| g.is_one_block() && g.bundles.is_none());
        let (leaves, of_shard) = (1 << plan.depth, LeafValues::default());
        let own_values = if self.peers.is_some() { &of_shard } else { &values };
        self.queue_leaves((loss, output, self.data.log().address), walk, leaves, sums, one, cleared, own_values)?;
        self.queue_leaves_of_all(self.data.log().address, out, leaves, log.found - log.sums, &values)
    }

    /// The search of a tree's nodes, whose quantizer the log at `base` begins with.
    fn resident_search(&self, group: usize, plan: &TreeParams, unit: bool, base: u64) -> SplitSearch {
        let counted = match (self.count_rows, unit) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => 2,
        };
        let rules = SplitRules::new(plan, Scales { gradient: 1.0, hessian: 1.0 });
        let g = &self.groups[group];
        SplitSearch {
            histograms: g.search_table(0),
            features: self.feature_table.address,
            first_feature: g.first as u32,
            columns: self.columns as u32,
            counted,
            features_here: g.features as u32,
            split_inputs: self.work.split_inputs.address,
            allowed: self.work.allowed.address,
            quantizer: base,
            best: self.work.best.address,
            sets: self.work.sets.address,
            rules: Rules::new(&rules),
            ..SplitSearch::default()
        }
    }

    /// The launches that round a tree's derivatives, sum its root and begin its search; `sums`: where those of its leaves will be.
    fn launch_root(&mut self, task: &ResidentTask<'_>, search: SplitSearch, sums: u64, planes: &[Plane]) -> Result<()> {
        let &ResidentTask { loss, group, log, unit, tree, output, .. } = task;
        let (drawn, guess) = (self.data.bag.is_some(), self.data.has_quantizer);
        let fused = !drawn && group == 0 && root_fits(self.queue.gpu(), self.groups[group].bins);
        // Where the root's pass sums all there is, nobody asks for the root's rows before its sums are known.
        let whole = fused && planes.len() == 1 && self.groups[group].is_one_block();
        let (alone, together) = (whole && self.peers.is_none(), whole && self.peers.is_some());
        let (nodes, summed) = (self.work.nodes.address, self.work.summed.address);
        if !whole {
            let (len, list) = if drawn { (0, 0) } else { (self.data.rows as u32, IN_ORDER) };
            // SAFETY: the arguments are those of `tree_seed`.
            unsafe { launch!(self.queue, &self.kernels.seed, grid(1, 32, 0); &nodes, &len, &list, &summed) }?;
        }
        let begin = TreeStart {
            search,
            bins: self.groups[group].first_bins as u32,
            total: search.quantizer + 8 * QUANTIZER_WORDS as u64,
            split_inputs: search.split_inputs,
            root: if whole { nodes } else { 0 },
            sums,
            // And of their values, which are read along where nobody gives them any.
            numbers: if self.peers.is_some() { log.values - log.sums } else { log.found - log.sums } as u32,
            ..TreeStart::default()
        };
        let behind = if alone { begin } else { TreeStart::default() };
        if !fused {
            let list = self.lists[0].address;
            self.queue_own_quantizer(loss, output, unit)?;
            self.data.round(&self.queue, &self.kernels, loss, (tree, output), false, list, &self.work.nodes)?;
        } else if guess {
            self.guess_root(loss, (tree, output), unit, &behind)?;
        } else {
            self.queue_own_quantizer(loss, output, unit)?;
            self.sum_root(loss, (tree, output), false, &behind)?;
        }
        if together {
            return self.queue_all_reduce(group, 0..1, &begin);
        }
        if !alone {
            // The root in what is left of its planes and blocks.
            self.queue_sum(group, 1, planes, fused)?;
            self.queue_all_reduce(group, 0..1, &TreeStart::default())?;
            self.queue_start(&begin)?;
        }
        Ok(())
    }

    /// Queues the tree's quantizer.
    fn queue_own_quantizer(&mut self, loss: &dyn Loss, output: usize, unit: bool) -> Result<()> {
        self.data.find_magnitudes(&self.queue, &self.kernels, loss, output, unit)?;
        self.queue_quantizer_of_all(unit, false)
    }

    /// What the levels of a tree grow by, as its first one has it.
    fn first_level(&self, search: SplitSearch, log: &LogLayout, depth: u32, base: u64) -> ResidentLevel {
        ResidentLevel {
            search,
            numbers: self.numbers.address,
            codes: self.work.codes.address,
            nodes: self.work.nodes.address,
            split_inputs: self.work.split_inputs.address,
            found: base + 8 * log.found as u64,
            split_tests: self.work.split_tests.address,
            sets: self.work.walk_sets.address,
            jobs: self.work.jobs.address,
            summed: self.work.summed.address,
            starts: self.work.starts.address,
            plan: self.work.plan.address,
            arrived: self.work.arrived.address,
            level: 0,
            depth,
        }
    }

    /// The launches that search and partition the nodes of all levels.
    fn launch_levels(&mut self, group: usize, first: &ResidentLevel, policy: Policy, planes: &[Plane]) -> Result<()> {
        let on_the_way = self.sums_on_the_way();
        for level in 0..first.depth {
            let n = 1u32 << level;
            let split_inputs = first.split_inputs + ((n - 1) as usize * size_of::<SplitInput>()) as u64;
            let resident = ResidentLevel { search: SplitSearch { split_inputs, ..first.search }, level, ..*first };
            self.queue_search(group, &resident, policy)?;
            if level + 1 < first.depth {
                // Where all is summed on the way, nobody reads the rows of the last nodes.
                let read = level + 2 < first.depth || !on_the_way || planes.len() > 1;
                match self.records_table(group) {
                    Some(records) => self.queue_partition_records(group, records, n, level == 0, read)?,
                    None => self.queue_partition(group, n, on_the_way, read)?,
                }
                self.queue_sum(group, n as usize, planes, on_the_way)?;
                self.queue_all_reduce(group, n as usize..2 * n as usize, &TreeStart::default())?;
            }
        }
        Ok(())
    }

    /// The search of a level and what becomes of it.
    fn queue_search(&mut self, group: usize, resident: &ResidentLevel, policy: Policy) -> Result<()> {
        let n = 1u32 << resident.level;
        let features = resident.search.features_here;
        let searcher = |nodes: u32| Searcher::of(&self.groups[group], nodes, self.queue.gpu());
        if n <= FUSED_NODES && policy == Policy::Depthwise {
            let by = searcher(n);
            // SAFETY: the arguments are those of `tree_search_grow*`: the level's nodes, with slots that are there; heaps
            // with room for the tree; a count for each node.
            return unsafe { follow!(self.queue, self.kernels.search_grow_by(by), by.config(features, n); resident) };
        }
        if n <= FUSED_NODES && features <= FUSED_NODES && policy == Policy::Symmetric {
            let level = self.work.level(&self.queue, self.columns, n as usize, true)?;
            // SAFETY: the arguments are those of `tree_level_grow`: as above, room for all scores, a count for each column.
            let config = Searcher::Block.config(features, n);
            return unsafe { follow!(self.queue, &self.kernels.level_grow, config; resident, &level) };
        }
        if policy == Policy::Depthwise {
            let (search, by) = (resident.search, searcher(n));
            // SAFETY: the arguments are those of `tree_search*`: the level's nodes, with slots that are there.
            unsafe { launch!(self.queue, self.kernels.search_by(by), by.config(features, n); &search) }?;
            // SAFETY: the arguments are those of `tree_grow`: heaps with room for the tree.
            return unsafe { launch!(self.queue, &self.kernels.grow, grid(n.div_ceil(8), 256, 0); resident) };
        }
        let at_once = super::evaluate_splits::level_nodes(self.columns, n as usize);
        let level = self.work.level(&self.queue, self.columns, at_once, false)?;
        for from in (0..n).step_by(at_once) {
            let here = (n - from).min(at_once as u32);
            let search = SplitSearch {
                split_inputs: resident.search.split_inputs + (from as usize * size_of::<SplitInput>()) as u64,
                ..resident.search
            };
            let by = Searcher::of(&self.groups[group], here, self.queue.gpu());
            // SAFETY: the arguments are those of `tree_level_scores*`: as many nodes, and room for their scores.
            unsafe { launch!(self.queue, self.kernels.level_scores_by(by), by.config(features, here); &search, &level) }?;
            let (begins, ends) = ((from == 0) as u32, (from + here == n) as u32);
            let config = grid(self.columns as u32, 256, 0);
            // SAFETY: the arguments are those of `tree_level_sum`: scores of `here` nodes of every column.
            unsafe { launch!(self.queue, &self.kernels.level_sum, config; &search, &level, &resident.numbers, &here, &begins, &ends) }?;
        }
        // SAFETY: the arguments are those of `tree_grow_level`: heaps with room for the tree.
        unsafe { launch!(self.queue, &self.kernels.grow_level, grid(n.div_ceil(8), 256, 0); resident) }
    }

    /// Makes room for the copy of a turn's log.
    fn reserve_copy(&mut self, turn: usize, words: usize) -> Result<()> {
        let gpu = self.queue.gpu();
        let failed = |e| driver(gpu, "reading a tree", e);
        let copy = &mut self.logs.copies[turn];
        if copy.as_ref().is_none_or(|(room, _)| room.len() < words) {
            // SAFETY: numbers of any bits; it is written before it is read.
            let room = unsafe { gpu.context().alloc_pinned_with_flags(words, 0) }.map_err(failed)?;
            *copy = Some((room, gpu.context().new_event(None).map_err(failed)?));
        }
        Ok(())
    }

    /// Queues the copy of the log of the tree that was queued last.
    fn copy_log(&mut self, words: usize) -> Result<()> {
        self.reserve_copy(self.data.turn, words)?;
        let (queue, gpu) = (&self.queue, self.queue.gpu());
        let failed = |e| driver(gpu, "reading a tree", e);
        let (turn, logs) = (self.data.turn, &mut self.logs);
        let Some((room, done)) = &mut logs.copies[turn] else { return Ok(()) };
        logs.grown.record(queue.stream()).map_err(failed)?;
        logs.stream.wait(&logs.grown).map_err(failed)?;
        logs.stream.memcpy_dtoh(&self.data.log().slice.slice(..words), room).map_err(failed)?;
        done.record(&logs.stream).map_err(failed)
    }

    /// The log of a turn, when the device has come there.
    fn read_log(&self, turn: usize, words: usize) -> Result<&[u64]> {
        let Some((room, done)) = &self.logs.copies[turn] else { return Ok(&[]) };
        let late = |e| self.queue.late(e);
        done.synchronize().map_err(late)?;
        Ok(&room.as_slice().map_err(late)?[..words])
    }

    /// By the number that a leaf's rows have: the leaf.
    pub(crate) fn leaves_by_number(&self) -> Vec<usize> {
        let Some(grown) = &self.grown else { return (0..self.leaves.len()).collect() };
        let mut by_number = vec![0; 1 << grown.depth];
        self.leaves.iter().enumerate().for_each(|(leaf, node)| by_number[grown.key(*node)] = leaf);
        by_number
    }
}
