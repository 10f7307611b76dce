//! Whole trees that grow on the device without asking the host, under policies by level where every
//! open feature may split every node: a tree's launches are queued at once, and what was decided is
//! read when it has grown. The grower's questions are then answered from that; where an answer would
//! not be what was done, that is an error.

use super::CudaBackend;
use super::divide::Plane;
use super::leaves::leaf_sums;
use super::rows::{ENCODING_WORDS, RowData, encoding_of};
use super::tables::{Ahead, Encoding, Found, IN_ORDER, Item, MISSING_LEFT, NO_SIDE, Rules, Search, Total, Walk};
use crate::backend::cuda::error::driver;
use crate::backend::cuda::grid;
use crate::backend::{Candidate, Division, LeafSums, NodeId, SearchNode};
use crate::boosting::loss::Loss;
use crate::error::{Error, Result};
use crate::launch;
use crate::tree::params::{Policy, TreeParams};
use crate::tree::split::{Scales, SplitRules, Sums};
use cudarc::driver::{LaunchConfig, PinnedHostSlice};

/// Deeper trees are grown question by question: most of their nodes would not be there.
const MOST_DEPTH: u32 = 12;

/// 64-bit words of what was found for a node, and of sums.
const FOUND_WORDS: usize = size_of::<Found>() / 8;
const TOTAL_WORDS: usize = size_of::<Total>() / 8;

/// Host memory that the device writes to.
#[derive(Default)]
pub struct Pinned(Option<PinnedHostSlice<u64>>);

/// A tree that has grown. Nodes are counted as in a heap.
pub struct Grown {
    depth: u32,
    found: Vec<Found>,
    sums: Vec<i64>,
    /// By the grower's number: the place in the heap.
    places: Vec<u32>,
}

/// The log's layout, in words: encoding, the root's sums, the leaves', what was found.
struct Log {
    sums: usize,
    found: usize,
    words: usize,
}

impl Log {
    fn new(depth: u32) -> Log {
        let sums = ENCODING_WORDS + TOTAL_WORDS;
        let found = sums + (3 << depth);
        Log { sums, found, words: found + FOUND_WORDS * ((1 << depth) - 1) }
    }
}

impl CudaBackend {
    /// Grows the whole tree, where that can be done ahead; gives the root's sums.
    pub(super) fn grow_ahead(&mut self, loss: &dyn Loss, plan: Option<&TreeParams>, unit: bool) -> Result<Option<Sums>> {
        let Some(plan) = plan else { return Ok(None) };
        let mut open = (0..self.groups.len()).filter(|g| self.groups[*g].open && self.groups[*g].features > 0);
        let (Some(group), None) = (open.next(), open.next()) else { return Ok(None) };
        let range = self.groups[group].first..self.groups[group].first + self.groups[group].features;
        let fits = plan.policy != Policy::Leafwise && plan.depth <= MOST_DEPTH && plan.monotone.is_empty();
        if !fits || self.was_wide || self.features[range].iter().any(|f| f.categories) {
            return Ok(None);
        }
        let log = Log::new(plan.depth);
        self.reserve_ahead(group, plan.depth, &log)?;
        self.data.encode(&self.queue, &self.kernels, loss, self.output, unit)?;
        self.queue_tree(loss, group, plan, &log, unit)?;
        let words = self.read_log(log.words)?;
        let encoding = encoding_of(words);
        let total = TotalWords(&words[ENCODING_WORDS..]).sums();
        RowData::check_finite(&encoding)?;
        if encoding.wide != 0 {
            // Grown for nothing; the next trees will most likely be wide too.
            self.was_wide = true;
            return Ok(None);
        }
        let found = words[log.found..].chunks_exact(FOUND_WORDS);
        // SAFETY: as many words as a table has, of plain numbers.
        let found = found.map(|w| unsafe { std::ptr::read_unaligned(w.as_ptr().cast::<Found>()) }).collect();
        let sums = words[log.sums..log.found].iter().map(|w| *w as i64).collect();
        self.grown = Some(Grown { depth: plan.depth, found, sums, places: vec![0] });
        self.encoding = Some(encoding);
        Ok(Some(total))
    }

    fn reserve_ahead(&mut self, group: usize, depth: u32, log: &Log) -> Result<()> {
        let (nodes, widest) = (1usize << depth, 1usize << (depth - 1));
        let (queue, work) = (&self.queue, &mut self.work);
        self.data.log.reserve(queue, "a tree", log.words)?;
        self.groups[group].reserve(queue, widest, 0)?;
        work.nodes.reserve(queue, "nodes", nodes)?;
        work.items.reserve(queue, "nodes", nodes)?;
        work.jobs.reserve(queue, "divisions", widest)?;
        work.summed.reserve(queue, "nodes", widest)?;
        work.starts.reserve(queue, "nodes", widest)?;
        work.questions.reserve(queue, "a tree", nodes)?;
        work.best.reserve(queue, "splits", widest * self.columns)?;
        let g = &self.groups[group];
        let codes: Vec<u64> = (g.first..g.first + g.features).map(|f| g.codes_of(f)).collect();
        if work.codes.slice.len() < codes.len() || self.codes_of != Some(group) {
            work.codes.reserve(queue, "features", codes.len())?;
            work.codes.write(queue, &codes)?;
            self.codes_of = Some(group);
        }
        self.list_features(&[])
    }

    /// Queues a tree's launches.
    fn queue_tree(&mut self, loss: &dyn Loss, group: usize, plan: &TreeParams, log: &Log, unit: bool) -> Result<()> {
        let (depth, rows) = (plan.depth, self.data.rows);
        let base = self.data.log.address;
        let listed = self.data.bag.is_some();
        let sums_range = log.sums..log.found;
        self.queue.clear(&mut self.data.log.slice.slice_mut(sums_range))?;
        self.groups[group].zero(&self.queue, 0..1 << (depth - 1))?;
        let (nodes, len, list) = (self.work.nodes.address, if listed { 0 } else { rows as u32 }, if listed { 0 } else { IN_ORDER });
        // SAFETY: the arguments are those of `tree_seed`.
        unsafe { launch!(self.queue, &self.kernels.seed, grid(1, 32, 0); &nodes, &len, &list) }?;
        // What the statistics will be, unless they are wide.
        let planes = self.planes(&Encoding { unit: unit as u32, ..Encoding::default() });
        if listed {
            let list = self.lists[0].address;
            self.data.round(&self.queue, &self.kernels, loss, (self.tree, self.output), false, list, &self.work.nodes)?;
            self.sum_narrow(group, &planes, false)?;
        } else {
            self.sum_root(loss)?;
            self.sum_narrow(group, &planes, true)?;
        }
        let counted = match (self.count_rows, unit) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => 2,
        };
        let rules = SplitRules {
            scales: Scales { gradient: 1.0, hessian: 1.0 },
            l1: plan.l1,
            l2: plan.l2,
            min_child_weight: plan.min_child_weight,
            min_data_in_leaf: plan.min_data_in_leaf as i64,
            min_gain: plan.min_gain,
            monotone: vec![],
            categories: plan.categories,
        };
        let g = &self.groups[group];
        let search = Search {
            histograms: g.table(0),
            features: self.feature_table.address,
            first_feature: g.first as u32,
            columns: self.columns as u32,
            counted,
            items: self.work.items.address,
            allowed: self.work.allowed.address,
            encoding: base,
            best: self.work.best.address,
            sets: self.work.sets.address,
            rules: Rules::new(&rules),
            ..Search::default()
        };
        let (slot, bins, total) = (0u32, self.features[g.first].bins() as u32, base + 8 * ENCODING_WORDS as u64);
        // SAFETY: the arguments are those of `tree_total`: a slot's bins, room for sums and for an item.
        unsafe { launch!(self.queue, &self.kernels.total, grid(1, 32, 0); &search, &slot, &bins, &total, &search.items) }?;
        let on_the_way = self.sums_on_the_way();
        let ahead = Ahead {
            search,
            numbers: self.numbers.address,
            codes: self.work.codes.address,
            nodes: self.work.nodes.address,
            items: self.work.items.address,
            found: base + 8 * log.found as u64,
            questions: self.work.questions.address,
            jobs: self.work.jobs.address,
            summed: self.work.summed.address,
            starts: self.work.starts.address,
            plan: self.work.plan.address,
            arrived: self.data.arrived.address,
            level: 0,
            depth,
        };
        for level in 0..depth {
            let n = 1u32 << level;
            let items = search.items + ((n - 1) as usize * size_of::<Item>()) as u64;
            let ahead = Ahead { search: Search { items, ..search }, level, ..ahead };
            self.queue_search(&ahead, plan.policy)?;
            if level + 1 < depth {
                self.queue_divide(group, n, on_the_way)?;
                self.queue_sum(group, n as usize, &planes, on_the_way)?;
            }
        }
        let walk = Walk { questions: self.work.questions.address, entries: (1 << depth) - 1, depth, ..Walk::default() };
        let one = Some(&self.groups[group]).filter(|g| g.blocks() == 1);
        self.queue_leaves(loss, walk, 1 << depth, base + 8 * log.sums as u64, one)
    }

    /// Sums the root in what is left of its planes and blocks.
    fn sum_narrow(&mut self, group: usize, planes: &[Plane], first_done: bool) -> Result<()> {
        self.work.summed.write(&self.queue, &[super::Summed { node: 0, slot: 0 }])?;
        self.queue_sum(group, 1, planes, first_done)
    }

    /// The search of a level and what becomes of it.
    fn queue_search(&mut self, ahead: &Ahead, policy: Policy) -> Result<()> {
        let n = 1u32 << ahead.level;
        let features = ahead.search.histograms.features;
        let config = |nodes: u32| LaunchConfig { grid_dim: (features, nodes, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
        if policy == Policy::Depthwise {
            let search = ahead.search;
            // SAFETY: the arguments are those of `tree_search`: the level's items, with slots that are there.
            unsafe { launch!(self.queue, &self.kernels.search, config(n); &search) }?;
            // SAFETY: the arguments are those of `tree_grow`: heaps with room for the tree.
            return unsafe { launch!(self.queue, &self.kernels.grow, grid(n.div_ceil(8), 256, 0); ahead) };
        }
        let at_once = super::search::level_nodes(self.columns, n as usize);
        let level = self.work.level(&self.queue, self.columns, at_once)?;
        for from in (0..n).step_by(at_once) {
            let here = (n - from).min(at_once as u32);
            let search = Search { items: ahead.search.items + (from as usize * size_of::<Item>()) as u64, ..ahead.search };
            // SAFETY: the arguments are those of `tree_level_scores`: as many items, and room for their scores.
            unsafe { launch!(self.queue, &self.kernels.level_scores, config(here); &search, &level) }?;
            let (begins, ends) = ((from == 0) as u32, (from + here == n) as u32);
            let config = grid(self.columns as u32, 256, 0);
            // SAFETY: the arguments are those of `tree_level_sum`: scores of `here` nodes of every column.
            unsafe { launch!(self.queue, &self.kernels.level_sum, config; &search, &level, &ahead.numbers, &here, &begins, &ends) }?;
        }
        // SAFETY: the arguments are those of `tree_grow_level`: heaps with room for the tree.
        unsafe { launch!(self.queue, &self.kernels.grow_level, grid(n.div_ceil(8), 256, 0); ahead) }
    }

    /// The log, when the device has come there.
    fn read_log(&mut self, words: usize) -> Result<&[u64]> {
        let (queue, gpu) = (&self.queue, self.queue.gpu());
        let failed = |e| driver(gpu, "reading a tree", e);
        if self.pinned.0.as_ref().is_none_or(|p| p.len() < words) {
            // SAFETY: numbers of any bits; it is written before it is read.
            self.pinned.0 = Some(unsafe { gpu.context().alloc_pinned_with_flags(words, 0) }.map_err(failed)?);
        }
        let Some(pinned) = &mut self.pinned.0 else { return Ok(&[]) };
        queue.stream().memcpy_dtoh(&self.data.log.slice.slice(..words), pinned).map_err(failed)?;
        queue.synchronize()?;
        Ok(&pinned.as_slice().map_err(failed)?[..words])
    }

    /// By the number that a leaf's rows have: the leaf.
    pub(super) fn leaves_by_number(&self) -> Vec<usize> {
        let Some(grown) = &self.grown else { return (0..self.leaves.len()).collect() };
        let mut by_number = vec![0; 1 << grown.depth];
        self.leaves.iter().enumerate().for_each(|(leaf, node)| by_number[grown.key(*node)] = leaf);
        by_number
    }
}

/// Words that are sums.
struct TotalWords<'a>(&'a [u64]);

impl TotalWords<'_> {
    fn sums(&self) -> Sums {
        Sums { gradient: self.0[0] as i64, hessian: self.0[1] as i64, count: self.0[2] as i64 }
    }
}

fn differs() -> Error {
    Error::Data("the tree that grew on the GPU is not the one that was asked for: please report this".into())
}

impl Grown {
    fn place(&self, node: NodeId) -> Result<usize> {
        self.places.get(node as usize).map(|p| *p as usize).ok_or_else(differs)
    }

    fn found(&self, node: NodeId) -> Result<Option<(Candidate, Sums)>> {
        let f = self.found.get(self.place(node)?).ok_or_else(differs)?;
        let candidate = Candidate { feature: f.feature, border: f.border, missing_left: f.side == MISSING_LEFT, gain: f.gain };
        Ok((f.side != NO_SIDE).then(|| (candidate, f.left.into())))
    }

    /// What was found for each node.
    pub fn splits(&self, nodes: &[SearchNode]) -> Result<Vec<Option<(Candidate, Sums)>>> {
        nodes.iter().map(|n| self.found(n.id)).collect()
    }

    /// What was found for a level.
    pub fn level_split(&self, nodes: &[SearchNode]) -> Result<Option<(Candidate, Vec<Sums>)>> {
        let found = self.splits(nodes)?.into_iter().collect::<Option<Vec<_>>>();
        Ok(found.and_then(|f| f.first().map(|(c, _)| (*c, f.iter().map(|(_, left)| *left).collect()))))
    }

    /// Notes the children's numbers.
    pub fn divide(&mut self, divisions: &[Division]) -> Result<()> {
        for d in divisions {
            let parent = self.place(d.parent)? as u32;
            if self.found(d.parent)?.is_none_or(|(candidate, _)| candidate != d.split) {
                return Err(differs());
            }
            let last = d.left.max(d.right) as usize;
            if self.places.len() <= last {
                self.places.resize(last + 1, 0);
            }
            self.places[d.left as usize] = 2 * parent + 1;
            self.places[d.right as usize] = 2 * parent + 2;
        }
        Ok(())
    }

    /// The number that the rows of a leaf have: its place among the leaves of a full tree.
    fn key(&self, node: NodeId) -> usize {
        let at = self.places.get(node as usize).copied().unwrap_or(0) as usize + 1;
        let level = at.ilog2();
        (at - (1 << level)) << (self.depth - level)
    }

    /// The sums of leaves.
    pub fn leaf_sums(&self, leaves: &[NodeId], encoding: &Encoding) -> Vec<LeafSums> {
        let sums = |node: &NodeId| {
            let at = 3 * self.key(*node);
            leaf_sums(encoding, self.sums[at], self.sums[at + 1], self.sums[at + 2])
        };
        leaves.iter().map(sums).collect()
    }

    /// The values of leaves, by the number that their rows have.
    pub fn values(&self, leaves: &[NodeId], values: &[f32]) -> Vec<f32> {
        let mut by_number = vec![0.0; 1 << self.depth];
        leaves.iter().zip(values).for_each(|(node, value)| by_number[self.key(*node)] = *value);
        by_number
    }
}
