//! Boosted trees on a GPU: the verbs of [`TreeSteps`], with the integers of the CPU's.
//!
//! Codes, scores, statistics and the order of rows stay on the device; a level asks it once for what
//! was found. Kernels are in `kernels/trees/`, the structs they share with us in [`layouts`].
//!
//! - [`rows`]: targets, weights, scores; [`row_sampler`]: the rows drawn; [`gradient_quantizer`]: derivatives as integers;
//!   [`group_derivatives`]: those of losses by group; [`position_factors`]: what positions add to their scores;
//! - [`feature_groups`]: groups of features, their codes and histograms; [`bundling`]: features that share columns of codes;
//!   [`sparse_features`]: features whose codes are lists; [`ctr`] and [`ctr_maker`]: statistics of categories;
//! - [`root_histogram`], [`histogram`]: histograms summed from rows; [`own_histograms`]: those of a shard; [`partition`]: rows sent to children;
//! - [`evaluate_splits`]: the search for splits; [`evaluate_shared`]: that of trees that several outputs share ([`shared_tree`]);
//! - [`leaf_sums`]: the end of a tree; [`leaf_quantiles`]: leaves that are refitted;
//! - [`spread`]: how far derivatives lie apart; [`dropouts`]: trees that leave the scores for a while; [`linear_leaves`]: leaves that are functions
//!   of their rows;
//! - [`several_gpus`]: rows dealt to several GPUs; [`all_reduce`]: what they have summed, added up; [`gathered_rows`]: what one has to
//!   know of others' rows; [`rendezvous`]: where their threads meet;
//! - [`small_tables`]: all trees of many tables of few rows;
//! - [`resident`]: whole trees that grow without asking the host, and [`resident_tree`], what grew; [`graph`]: as one launch.

mod all_reduce;
mod buffers;
mod bundling;
pub mod ctr;
pub mod ctr_maker;
mod dropouts;
mod evaluate_shared;
mod evaluate_splits;
mod feature_groups;
mod gathered_rows;
mod gradient_quantizer;
mod graph;
mod group_derivatives;
mod histogram;
mod layouts;
mod leaf_quantiles;
mod leaf_steps;
mod leaf_sums;
mod level_buffers;
mod linear_leaves;
pub mod loss_program;
mod own_histograms;
mod partition;
mod position_factors;
mod rendezvous;
mod resident;
mod resident_tree;
mod risk_sets;
mod root_histogram;
mod row_sampler;
mod rows;
pub mod several_gpus;
mod shared_tree;
pub mod small_tables;
mod sparse_features;
mod spread;

use self::all_reduce::{Exchange, FarSums, Peers};
use self::buffers::{Buffer, Kernels};
use self::bundling::Bundles;
use self::ctr_maker::CtrMaker;
use self::dropouts::KeptTrees;
use self::feature_groups::{FeatureGroup, FeatureStorage};
use self::layouts::{FeatureInfo, GradientQuantizer};
use self::level_buffers::LevelBuffers;
use self::linear_leaves::LinearLeaves;
use self::resident_tree::ResidentTree;
use self::shared_tree::SharedTree;
use self::sparse_features::SparseCandidates;
use super::runtime::{Gpu, Queue};
use cudarc::driver::CudaSlice;
use rows::RowData;
use taiga_core::collective::RowShard;
use taiga_core::error::{Error, Result};
use taiga_core::learners::boosting::ctrs::{CategoryCodes, CtrData, CtrFeature, CtrSample};
use taiga_core::learners::boosting::steps::{
    Announced, Begun, CtrSteps, DropoutSteps, GroupId, GroupSteps, LeafSteps, LeafSums, LinearSteps, SpreadSteps, TrainingData,
    TreeRequest, TreeSteps,
};
use taiga_core::losses::Loss;
use taiga_core::parallel::thread_pool::ThreadPool;
use taiga_core::quantize::{CodeSet, CodeSource, CodedFeature};
use taiga_core::tree::Tree;
use taiga_core::tree::split::{SplitRules, Sums};
use taiga_core::tree::steps::Speculation;
use taiga_core::tree::steps::{Candidate, Division, GrowSteps, NodeId, SearchNode};

/// Leaves that are partitioned together under the policy by leaves.
const MOST_AT_ONCE: usize = 16;

/// What a division for nothing is weighed by, in nanoseconds: to ask and to be answered; to search a feature in both children; to part and
/// sum a row, by feature (measured on an H200).
const ASKING: f64 = 120_000.0;
const SEARCHING: f64 = 20.0;
const SUMMING: f64 = 0.001;

/// The most rows that a fit on a GPU takes: row numbers and positions are counted in 32 bits, with
/// room for a launch's overhang.
const MOST_ROWS: usize = 1 << 31;

/// Work on a GPU.
pub struct CudaTrees<'a> {
    queue: Queue,
    kernels: Kernels,
    features: Vec<CodedFeature>,
    /// As kernels see them, and whether that is up to date.
    feature_table: Buffer<FeatureInfo>,
    table_stale: bool,
    monotone: Vec<i8>,
    groups: Vec<FeatureGroup>,
    ctrs: CtrMaker,
    data: RowData<'a>,
    /// The rows that these are of all, and where others are on GPUs whose memory this one reads, these.
    of: RowShard<'a>,
    peers: Option<Peers>,
    far_sums: FarSums,
    /// The rows of nodes: `{row, packed gradient}` in one of two lists.
    lists: [Buffer<u64>; 2],
    /// The same as records, codes and all, for trees that grow whole on the device.
    records: Option<[Buffer<u8>; 2]>,
    work: LevelBuffers,
    count_rows: bool,
    weighted: bool,
    components: usize,
    /// The features of the open groups, in order, as kernels count columns.
    numbers: Buffer<u32>,
    columns: usize,
    /// For leaves that are refitted from residuals.
    host: leaf_sums::HostRows,
    /// The tree that grows.
    quantizer: Option<GradientQuantizer>,
    output: usize,
    tree: u64,
    /// Where several outputs share each tree, what there is of each.
    shared: Option<SharedTree>,
    /// Where trees leave the scores for a while, what was kept of all of them.
    kept: Option<KeptTrees>,
    /// Where leaves are linear functions, the values of columns and what is summed of them.
    linear: Option<LinearLeaves<'a>>,
    /// The scores of a tree's outputs, while its leaves' values are tried in their place.
    untried: Buffer<f32>,
    /// What grew whole.
    grown: Option<ResidentTree>,
    /// How leaves get their values, where the fit has said so; and the tree that is queued behind the one that grows.
    announced: Option<Announced>,
    queued: Option<resident::QueuedTree>,
    logs: resident::TreeLogs,
    graph: graph::LaunchGraph,
    was_wide: bool,
    /// The group whose addresses `work.codes` has.
    codes_of: Option<usize>,
    next_slot: usize,
    leaves: Vec<NodeId>,
    subsets: Vec<CodeSet>,
}

impl<'a> CudaTrees<'a> {
    /// Rows, components of a bin, and histograms.
    fn shape(data: &TrainingData<'_>, most_nodes: usize) -> (usize, usize, usize) {
        let rows = data.target.len();
        // `most_nodes` has a node once for each output that shares its tree.
        (rows, if data.row_counts.any() { 3 } else { 2 }, (most_nodes / data.shared).min(rows).max(1) * data.shared)
    }

    /// Whether a fit can be done on the GPU `number`, from an estimate of the memory it needs. Sparse features
    /// are only looked for where it would need too much without.
    ///
    /// # Errors
    /// [`Error::Parameter`] where there is no such GPU; [`Error::Device`] with what is needed and what there
    /// is, and for too many rows; [`Error::Interrupted`].
    pub fn check(
        number: Option<u32>,
        pool: &ThreadPool,
        data: &TrainingData<'_>,
        most_nodes: usize,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<()> {
        let queue = Queue::new(Gpu::get(number)?)?;
        match CudaTrees::check_on(&queue, data, most_nodes, &FeatureStorage::default()) {
            Err(e) if e.is_device_memory() => CudaTrees::check_on(&queue, data, most_nodes, &CudaTrees::plan(pool, data, interrupted)?),
            checked => checked,
        }
    }

    /// How the features that a fit starts with are stored.
    fn plan(
        pool: &ThreadPool,
        data: &TrainingData<'_>,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<FeatureStorage<SparseCandidates>> {
        let bundles = Bundles::plan(pool, data, interrupted)?;
        let candidates = SparseCandidates::probe(pool, data, bundles.as_ref(), interrupted)?;
        Ok(FeatureStorage { bundles, sparse: candidates })
    }

    fn check_on(queue: &Queue, data: &TrainingData<'_>, most_nodes: usize, planned: &FeatureStorage<SparseCandidates>) -> Result<()> {
        let (rows, components, slots) = CudaTrees::shape(data, most_nodes);
        if rows >= MOST_ROWS {
            let message = format!("{rows} rows are more than a fit on a GPU can hold (2,147,483,647)");
            return Err(Error::device_memory(queue.gpu().number(), message));
        }
        // Codes and histograms, lists, the rows' own numbers, and room for what is small.
        // A shard has histograms of its own rows besides, those of two trees.
        let held = if data.shard.is_whole() { slots } else { 3 * slots };
        let group = FeatureGroup::bytes(data.features, planned, rows, components, held);
        let bytes = group + 16 * rows as u64 + RowData::bytes(data) + LinearLeaves::bytes(data) + (64 << 20);
        queue.check_memory(&format!("a fit of {rows} rows, {} features and {slots} nodes", data.features.len()), bytes)
    }

    /// Brings the rows and their codes to the GPU `number`. `most_nodes`: how many nodes' histograms
    /// may be needed at once.
    ///
    /// # Errors
    /// [`Error::Device`]; where they do not fit, before anything is allocated; [`Error::Interrupted`].
    pub fn new(
        number: Option<u32>,
        pool: &ThreadPool,
        data: TrainingData<'a>,
        most_nodes: usize,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Self> {
        CudaTrees::among(Exchange::Any, number, pool, data, most_nodes, interrupted)
    }

    /// The same, where histograms of shards are added in this way.
    fn among(
        exchange: Exchange,
        number: Option<u32>,
        pool: &ThreadPool,
        data: TrainingData<'a>,
        most_nodes: usize,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Self> {
        let gpu = Gpu::get(number)?;
        let queue = Queue::new(gpu)?;
        let planned = CudaTrees::plan(pool, &data, interrupted)?;
        CudaTrees::check_on(&queue, &data, most_nodes, &planned)?;
        let (rows, components, slots) = CudaTrees::shape(&data, most_nodes);
        let (kernels, announced) = (Kernels::new(gpu)?, data.announced);
        let group = FeatureGroup::new(&queue, &kernels, 0, data.features, data.sources, planned, rows, components, slots, interrupted)?;
        let group = group.shared_by(data.shared);
        let shared = if data.shared > 1 { Some(SharedTree::new(&queue, data.shared)?) } else { None };
        let row_data = RowData::new(&queue, &data)?;
        let linear = LinearLeaves::new(&queue, &data)?;
        let lists = [Buffer::new(&queue, "rows of nodes", rows)?, Buffer::new(&queue, "rows of nodes", rows)?];
        let work = LevelBuffers::new(&queue)?;
        Ok(CudaTrees {
            kernels,
            features: data.features.to_vec(),
            feature_table: Buffer::new(&queue, "features", data.features.len())?,
            table_stale: true,
            monotone: vec![],
            groups: vec![group],
            ctrs: CtrMaker::default(),
            lists,
            records: None,
            work,
            count_rows: data.row_counts.any(),
            weighted: data.weight.is_some(),
            components,
            numbers: Buffer::new(&queue, "features", 1)?,
            columns: 0,
            of: data.shard,
            peers: None,
            far_sums: FarSums::new(exchange),
            host: leaf_sums::HostRows::new(data),
            data: row_data,
            quantizer: None,
            output: 0,
            tree: 0,
            shared,
            kept: None,
            linear,
            untried: Buffer::new(&queue, "scores", 1)?,
            grown: None,
            announced,
            queued: None,
            logs: resident::TreeLogs::new(gpu)?,
            graph: graph::LaunchGraph::default(),
            was_wide: false,
            codes_of: None,
            next_slot: 0,
            leaves: vec![],
            subsets: vec![],
            queue,
        })
    }

    fn quantizer(&self) -> Result<&GradientQuantizer> {
        self.quantizer.as_ref().ok_or_else(|| Error::Data("a step of a tree that was not begun".into()))
    }

    /// Returns the groups that are open, in the order in which the tree opened them: at a tie the split of the first one is better. Their
    /// numbers would tell what earlier trees have opened, and when, which a fit that goes on and another process of this fit do not know.
    fn open_groups(&self) -> Vec<usize> {
        let mut open: Vec<usize> = (0..self.groups.len()).filter(|g| self.groups[*g].open).collect();
        open.sort_by_key(|g| self.groups[*g].place);
        open
    }

    /// Writes the numbers of the open features, in the order of their groups.
    fn list_columns(&mut self) -> Result<()> {
        let open = self.open_groups().into_iter().map(|g| &self.groups[g]);
        let numbers: Vec<u32> = open.flat_map(|g| (g.first..g.first + g.features).map(|f| f as u32)).collect();
        self.columns = numbers.len();
        self.numbers.reserve(&self.queue, "features", numbers.len())?;
        self.numbers.write(&self.queue, &numbers)
    }

    /// Brings the table of features up to date.
    fn list_features(&mut self, monotone: &[i8]) -> Result<()> {
        if !self.table_stale && self.monotone == monotone {
            return Ok(());
        }
        let row = |(i, f): (usize, &CodedFeature)| {
            let group = self.group_of(i as u32);
            let mut row = FeatureInfo {
                borders: f.borders.len() as u32,
                first: f.first() as u32,
                categories: f.categories as u32,
                monotone: monotone.get(i).copied().unwrap_or(0) as i32,
                ..FeatureInfo::default()
            };
            group.describe(i, &mut row);
            row
        };
        let table: Vec<FeatureInfo> = self.features.iter().enumerate().map(row).collect();
        self.feature_table.reserve(&self.queue, "features", table.len())?;
        self.feature_table.write(&self.queue, &table)?;
        (self.table_stale, self.monotone) = (false, monotone.to_vec());
        Ok(())
    }

    /// An error where there is no room for more features.
    fn check_group(&self, features: &[CodedFeature]) -> Result<()> {
        let bytes = FeatureGroup::bytes(features, &FeatureStorage::default(), self.data.rows, self.components, self.data.shared);
        self.queue.check_memory(&format!("{} more features of {} rows", features.len(), self.data.rows), bytes)
    }

    fn push_group(&mut self, features: &[CodedFeature], group: FeatureGroup) -> GroupId {
        self.features.extend_from_slice(features);
        self.groups.push(group.shared_by(self.data.shared));
        self.table_stale = true;
        self.groups.len() - 1
    }

    /// The group of a feature.
    fn group_of(&self, feature: u32) -> &FeatureGroup {
        let index = self.groups.partition_point(|g| g.first <= feature as usize) - 1;
        &self.groups[index]
    }
}

impl GrowSteps for CudaTrees<'_> {
    fn find_splits(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Vec<Option<(Candidate, Sums)>>> {
        if self.shared.is_some() { self.search_shared_nodes(nodes, rules) } else { self.search_nodes(nodes, rules) }
    }

    fn find_level_split(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Option<(Candidate, Vec<Sums>)>> {
        if self.shared.is_some() { self.search_shared_level(nodes, rules) } else { self.search_level(nodes, rules) }
    }

    fn partition(&mut self, divisions: &[Division]) -> Result<()> {
        // The rows of other nodes are asked for by nobody: a tree's leaves are found by walking it.
        self.partition_nodes(&divisions.iter().filter(|d| d.histograms).copied().collect::<Vec<_>>())
    }

    fn speculation(&self) -> Speculation {
        // The rows of a sixteenth of a tree.
        let wasted = (self.features.len() * self.data.shared) as f64 * (SEARCHING + SUMMING * self.data.rows as f64 / 16.0);
        Speculation { most: MOST_AT_ONCE, share: if wasted < ASKING / 4.0 { 0.0 } else { 0.9 } }
    }

    /// Nothing is to be done: the rows of a node lie where those of its children do, and leaves are found by walking the tree.
    fn take_back(&mut self, _: &[Division]) -> Result<()> {
        Ok(())
    }
}

impl CtrSteps for CudaTrees<'_> {
    fn sample(&mut self, data: &CtrData<'_>, columns: &[CategoryCodes<'_>], order: usize, counters: bool) -> Result<CtrSample> {
        self.ctrs.sample(&self.queue, data, columns, order, counters)
    }

    fn add(&mut self, data: &CtrData<'_>, features: &[CodedFeature], ctrs: &[CtrFeature<'_>], order: usize) -> Result<GroupId> {
        self.check_group(features)?;
        let (queue, first, rows) = (&self.queue, self.features.len(), self.data.rows);
        let maker = &mut self.ctrs;
        let fill = |codes: &mut CudaSlice<u8>| maker.codes(queue, data, features, ctrs, order, codes, &|i| FeatureGroup::place(i, rows));
        let group = FeatureGroup::filled(queue, first, features, FeatureStorage::default(), rows, self.components, 1, fill)?;
        Ok(self.push_group(features, group))
    }
}

impl GroupSteps for CudaTrees<'_> {
    fn add_group(&mut self, features: &[CodedFeature], codes: &[Vec<u8>]) -> Result<GroupId> {
        self.check_group(features)?;
        let (first, rows) = (self.features.len(), self.data.rows);
        let sources: Vec<CodeSource<'_>> = codes.iter().map(|c| CodeSource::Codes(c)).collect();
        let group = FeatureGroup::new(
            &self.queue,
            &self.kernels,
            first,
            features,
            &sources,
            FeatureStorage::default(),
            rows,
            self.components,
            1,
            &|| false,
        )?;
        Ok(self.push_group(features, group))
    }

    fn drop_group(&mut self, group: GroupId) {
        self.groups[group].clear();
    }

    fn open_group(&mut self, group: GroupId, nodes: &[NodeId]) -> Result<()> {
        let place = self.groups.iter().filter(|g| g.open).count();
        self.groups[group].open = true;
        self.groups[group].place = place;
        self.list_columns()?;
        self.sum_in_group(group, nodes)
    }
}

impl TreeSteps for CudaTrees<'_> {
    fn groups(&mut self) -> &mut dyn GroupSteps {
        self
    }

    fn ctrs(&mut self) -> Option<&mut dyn CtrSteps> {
        // Statistics are of all rows, which a shard does not have.
        if self.of.is_whole() { Some(self) } else { None }
    }

    fn spread(&mut self) -> Option<&mut dyn SpreadSteps> {
        Some(self)
    }

    fn dropouts(&mut self) -> Option<&mut dyn DropoutSteps> {
        Some(self)
    }

    fn leaf_steps(&mut self) -> Option<&mut dyn LeafSteps> {
        Some(self)
    }

    fn linear_leaves(&mut self) -> Option<&mut dyn LinearSteps> {
        if self.linear.is_some() { Some(self) } else { None }
    }

    fn begin_tree(&mut self, &TreeRequest { loss, tree, output, shared, groups, plan, .. }: &TreeRequest<'_>) -> Result<Begun> {
        (self.output, self.tree) = (output, tree);
        for (g, group) in self.groups.iter_mut().enumerate() {
            let place = if g == 0 { Some(0) } else { groups.iter().position(|other| *other == g).map(|place| place + 1) };
            group.reset(place.is_some());
            group.place = place.unwrap_or(0);
        }
        self.list_columns()?;
        if let Some(rules) = shared {
            return self.begin_shared(loss, rules);
        }
        self.derive_dependent(loss, tree, output)?;
        let drawn_unit = self.data.draw(&self.queue, &self.kernels, loss, tree, output)?;
        let unit = drawn_unit && loss.constant_hessian() && !self.weighted;
        self.grown = None;
        if let Some(tree) = self.grow_whole(loss, plan, unit)? {
            return Ok(Begun::Whole(tree));
        }
        // Where a tree was queued behind this one, those of that one's rows are there.
        self.derive_dependent(loss, tree, output)?;
        self.data.find_quantizer(&self.queue, &self.kernels, loss, output, unit)?;
        Ok(Begun::Root { sums: self.begin_root(loss)?, scales: self.quantizer()?.scales() })
    }

    fn end_tree(&mut self, loss: &dyn Loss, tree: &Tree, leaves: &[NodeId]) -> Result<Vec<Vec<LeafSums>>> {
        match &self.grown {
            Some(grown) => {
                self.leaves = leaves.to_vec();
                Ok(vec![grown.leaf_sums(leaves, self.quantizer()?)])
            }
            None => self.sum_leaves(loss, tree, leaves),
        }
    }

    fn replay(&mut self, loss: &dyn Loss, tree: &Tree, output: usize) -> Result<Vec<LeafSums>> {
        self.replay_tree(loss, tree, output)
    }

    fn leaf_quantiles(&mut self, output: usize, alpha: f64) -> Result<Vec<f64>> {
        self.quantiles_of_leaves(output, alpha)
    }

    fn set_leaf_values(&mut self, output: usize, values: &[f32]) -> Result<()> {
        if let Some(kept) = &mut self.kept {
            let values = self.grown.as_ref().map_or_else(|| values.to_vec(), |grown| grown.values(&self.leaves, values));
            kept.note_values(output, values);
            return Ok(());
        }
        match &self.grown {
            Some(grown) if grown.valued(&self.leaves, values)? => Ok(()),
            Some(grown) => self.data.set_values(&self.queue, output, &grown.values(&self.leaves, values)),
            None => self.data.set_values(&self.queue, output, values),
        }
    }

    fn category_sets(&self) -> &[CodeSet] {
        &self.subsets
    }

    fn update_scores(&mut self) -> Result<()> {
        self.data.update(&self.queue, &self.kernels)
    }

    fn position_factors(&self) -> Result<Option<Vec<f64>>> {
        let Some(grouped) = &self.data.grouped else { return Ok(None) };
        grouped.position_factors(&self.queue)
    }

    fn measured_scores(&self) -> Result<Vec<Vec<f32>>> {
        self.of.scores_of_all(self.data.measured_scores(&self.queue, &self.kernels)?, false)
    }

    fn all_scores(&mut self) -> Result<Vec<Vec<f32>>> {
        self.of.scores_of_all(self.data.all_scores(&self.queue, &self.kernels)?, true)
    }
}
