//! Boosted trees on several GPUs of one host, and on those of several processes: rows are dealt to them in consecutive spans, and all do the
//! same with theirs, each driven by a thread of its own. What they have summed is added up in [`super::all_reduce`], so each comes to the
//! same tree; where rows lie in several processes, by these through their collective.

use super::CudaTrees;
pub use super::all_reduce::Exchange;
use super::all_reduce::{AbortSwitch, MOST_DEVICES};
use super::gradient_quantizer::BATCH;
use super::rendezvous::Rendezvous;
use crate::runtime::Gpu;
use crate::runtime::driver_threads::DriverThreads;
use crate::runtime::peers;
use crate::runtime::shard_threads::{ShardEnd, deal, each, lock, shard_ends};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use taiga_core::collective::nested::{Nested, shards_of_each};
use taiga_core::collective::{Collective, RowShard};
use taiga_core::column::{Column, FeatureType};
use taiga_core::dataset::row_groups::RowGroups;
use taiga_core::error::{Error, Result};
use taiga_core::learners::boosting::linear_leaves::{Equations, LeafMeasures, TreeColumns, Units};
use taiga_core::learners::boosting::ordered::Pieces;
use taiga_core::learners::boosting::steps::{
    Begun, DropoutSteps, GivenTree, GroupId, GroupSteps, LeafSteps, LeafSums, LinearSteps, SpreadSteps, TrainingData, TreeRequest,
    TreeSteps,
};
use taiga_core::losses::Loss;
use taiga_core::parallel::thread_pool::ThreadPool;
use taiga_core::quantize::{CodeSet, CodeSource, CodedFeature};
use taiga_core::tree::Tree;
use taiga_core::tree::linear::LinearLeaf;
use taiga_core::tree::split::{SplitRules, Sums};
use taiga_core::tree::steps::{Candidate, Division, GrowSteps, NodeId, SearchNode, Speculation};

/// Checks how many GPUs are to share a fit.
fn check(gpus: usize) -> Result<()> {
    if gpus > MOST_DEVICES {
        return Err(Error::parameter("device", format!("{gpus} GPUs are more than {MOST_DEVICES}, which share a fit at most")));
    }
    Ok(())
}

/// Returns the groups whose derivatives a shard with these rows of the table finds: those that have any of them; where factors of positions
/// move by the derivatives of all rows, all groups.
fn groups_of(data: &TrainingData<'_>, rows: Range<usize>) -> Option<RowGroups> {
    data.groups.as_ref().map(|groups| if data.positions.is_some() { groups.clone() } else { groups.with_any_of(rows) })
}

/// A column's rows.
enum RowsOf<'a> {
    Values(Column<'a>),
    Codes(&'a [u8]),
}

impl<'a> RowsOf<'a> {
    fn of(source: &CodeSource<'a>, rows: &Range<usize>) -> RowsOf<'a> {
        match source {
            CodeSource::Values(column) => RowsOf::Values(column.slice(rows.start, rows.len())),
            CodeSource::Codes(codes) => RowsOf::Codes(&codes[rows.clone()]),
        }
    }

    fn source(&self) -> CodeSource<'_> {
        match self {
            RowsOf::Values(column) => CodeSource::Values(column),
            RowsOf::Codes(codes) => CodeSource::Codes(codes),
        }
    }
}

/// Returns some rows of columns that leaves read; of those with categories, which none does, all.
fn values_of<'a>(columns: &[Column<'a>], rows: &Range<usize>) -> Vec<Column<'a>> {
    let is_numeric = |column: &Column<'_>| *column.dtype() != FeatureType::Categorical;
    columns.iter().map(|column| if is_numeric(column) { column.slice(rows.start, rows.len()) } else { column.clone() }).collect()
}

/// Returns the table of some of the rows.
fn rows_of<'a>(
    data: &TrainingData<'a>,
    (sources, values): (&'a [CodeSource<'a>], Option<&'a [Column<'a>]>),
    rows: &Range<usize>,
    end: &'a dyn Collective,
) -> TrainingData<'a> {
    let part = |values: &Vec<f32>| values[rows.clone()].to_vec();
    TrainingData {
        features: data.features,
        sources,
        target: part(&data.target),
        more_targets: data.more_targets.iter().map(part).collect(),
        weight: data.weight.as_ref().map(part),
        columns: data.columns.iter().map(part).collect(),
        groups: groups_of(data, data.shard.first + rows.start..data.shard.first + rows.end),
        positions: data.positions.clone(),
        risk_sets: data.risk_sets.clone(),
        scores: data.scores.iter().map(part).collect(),
        held_out: data.held_out.map(|marks| &marks[rows.clone()]),
        measures_all: data.measures_all,
        row_sampling: data.row_sampling,
        row_counts: data.row_counts,
        policy: data.policy,
        depth: data.depth,
        // What is stored sparsely, and how, would differ from GPU to GPU, and so would the histograms' layout.
        bundle: false,
        seed: data.seed,
        announced: data.announced,
        shared: data.shared,
        steps_on: data.steps_on,
        values,
        pieces: Pieces::default(),
        shard: RowShard { collective: end, first: data.shard.first + rows.start, all: data.shard.all },
        batches: None,
    }
}

/// Runs `body` with what fits boosted trees on several GPUs, none being the first that there is, or on one where rows lie in several processes.
///
/// # Errors
/// [`Error::Device`]; [`Error::Parameter`] for `device` where one is not there, or there are too many; [`Error::Interrupted`];
/// those of the collective and of `body`.
pub fn with_several(
    numbers: &[Option<u32>],
    pool: &ThreadPool,
    data: TrainingData<'_>,
    most_nodes: usize,
    interrupted: &(dyn Fn() -> bool + Sync),
    body: &mut dyn FnMut(&mut dyn TreeSteps) -> Result<()>,
) -> Result<()> {
    with_shards(numbers, Exchange::Any, pool, data, most_nodes, interrupted, body)
}

/// For tests: the same, where a number may stand twice, so that a GPU has several shards of the rows, and histograms are added in the way that is
/// asked for.
#[doc(hidden)]
pub fn with_shards(
    numbers: &[Option<u32>],
    exchange: Exchange,
    pool: &ThreadPool,
    mut data: TrainingData<'_>,
    most_nodes: usize,
    interrupted: &(dyn Fn() -> bool + Sync),
    body: &mut dyn FnMut(&mut dyn TreeSteps) -> Result<()>,
) -> Result<()> {
    check(numbers.len())?;
    let (of, ranges) = (data.shard, deal(data.target.len(), numbers.len(), BATCH));
    let gpus = numbers[..ranges.len()].iter().map(|number| Gpu::get(*number)).collect::<Result<Vec<_>>>()?;
    let of_each = if of.is_whole() { vec![gpus.len()] } else { shards_of_each(of.collective, gpus.len())? };
    data.bundle &= of.is_whole();
    if of_each.iter().all(|count| *count == 1) {
        if !of.is_whole() {
            data.groups = groups_of(&data, of.first..of.first + data.target.len());
        }
        return body(&mut CudaTrees::among(exchange, Some(gpus[0].number()), pool, data, most_nodes, interrupted)?);
    }
    // GPUs of several processes are not taken: two of these might take theirs in turn, and wait for each other.
    let _taken = if of.is_whole() && exchange != Exchange::Host { Some(peers::take(&gpus, interrupted)?) } else { None };
    let are_connected = of.is_whole() && exchange == Exchange::Any && peers::connect(&gpus)?;
    let apart = (1..gpus.len()).all(|k| gpus[..k].iter().all(|gpu| gpu.number() != gpus[k].number()));
    let rendezvous = Arc::new(Rendezvous::new(gpus.len()));
    let ends = shard_ends(gpus.len());
    let between: Vec<Nested<'_>> = ends.iter().map(|end| Nested::new(end, of.collective, &of_each)).collect();
    let end_of = |k: usize| -> &dyn Collective { if of.is_whole() { &ends[k] } else { &between[k] } };
    let columns: Vec<Vec<RowsOf<'_>>> = ranges.iter().map(|rows| data.sources.iter().map(|s| RowsOf::of(s, rows)).collect()).collect();
    let sources: Vec<Vec<CodeSource<'_>>> = columns.iter().map(|own| own.iter().map(RowsOf::source).collect()).collect();
    let values: Option<Vec<Vec<Column<'_>>>> = data.values.map(|columns| ranges.iter().map(|rows| values_of(columns, rows)).collect());
    let values_of = |k: usize| values.as_ref().map(|values| &values[k][..]);
    let shards: Vec<_> =
        (0..gpus.len()).map(|k| Mutex::new(Some(rows_of(&data, (&sources[k], values_of(k)), &ranges[k], end_of(k))))).collect();
    let measures = data.measures_all || data.held_out.is_some();
    let (outputs, is_linear) = (data.scores.len(), data.values.is_some());
    drop((data.target, data.groups, data.positions, data.risk_sets));
    let threads = DriverThreads::new(gpus.len(), pool.size().div_ceil(gpus.len()))?;
    let make = |rank: usize| {
        let data = lock(&shards[rank]).take().ok_or_else(|| Error::Data("a shard of rows is made once".into()))?;
        let mut trees = CudaTrees::among(exchange, Some(gpus[rank].number()), pool, data, most_nodes, interrupted)?;
        let switch = if are_connected { Some(trees.connect(rank, apart, rendezvous.clone())?) } else { None };
        Ok((trees, switch))
    };
    let (made, switches): (Vec<_>, Vec<_>) = each(&threads, &ends, &|| end_waiting(&rendezvous, &[]), &make)?.into_iter().unzip();
    let mut steps = SeveralTrees {
        shards: made.into_iter().map(Mutex::new).collect(),
        switches: switches.into_iter().flatten().collect(),
        threads,
        ends: &ends,
        rendezvous: &rendezvous,
        ranges,
        of,
        measures,
        is_linear,
        outputs,
        subsets: vec![],
    };
    body(&mut steps)
}

/// Ends the others' waiting, where one fails.
fn end_waiting(rendezvous: &Rendezvous, switches: &[AbortSwitch]) {
    rendezvous.leave();
    // A GPU that can't be told any more waits for nobody.
    switches.iter().for_each(|switch| drop(switch.abort()));
}

/// Work on several GPUs.
struct SeveralTrees<'a> {
    shards: Vec<Mutex<CudaTrees<'a>>>,
    switches: Vec<AbortSwitch>,
    threads: DriverThreads,
    ends: &'a [ShardEnd],
    rendezvous: &'a Rendezvous,
    ranges: Vec<Range<usize>>,
    /// The rows that all of these are.
    of: RowShard<'a>,
    measures: bool,
    /// Whether leaves are linear functions.
    is_linear: bool,
    outputs: usize,
    /// Those of every GPU.
    subsets: Vec<CodeSet>,
}

impl<'a> SeveralTrees<'a> {
    /// Does the same with each GPU's rows at once.
    fn each<R: Send>(&self, work: impl Fn(usize, &mut CudaTrees<'a>) -> Result<R> + Sync) -> Result<Vec<R>> {
        let failed = || end_waiting(self.rendezvous, &self.switches);
        each(&self.threads, self.ends, &failed, &|rank| work(rank, &mut lock(&self.shards[rank])))
    }

    /// The same where all come to the same answer.
    fn all<R: Send>(&self, work: impl Fn(&mut CudaTrees<'a>) -> Result<R> + Sync) -> Result<R> {
        let answers = self.each(|_, trees| work(trees))?;
        answers.into_iter().next().ok_or_else(|| Error::Data("no GPU has any rows".into()))
    }

    fn first(&self) -> MutexGuard<'_, CudaTrees<'a>> {
        lock(&self.shards[0])
    }

    /// Notes the subsets of categories that were found last.
    fn note_subsets(&mut self) {
        let found = self.first().subsets[self.subsets.len()..].to_vec();
        self.subsets.extend(found);
    }

    /// Scores, `[output][row]`, those of one GPU's rows behind those of another's, and of one process's behind those of another's; `in_first`:
    /// in the first process alone.
    fn joined(&self, scores: &[Vec<Vec<f32>>], in_first: bool) -> Result<Vec<Vec<f32>>> {
        let of_output = |output: usize| scores.iter().flat_map(|own| own[output].iter().copied()).collect();
        self.of.scores_of_all((0..self.outputs).map(of_output).collect(), in_first)
    }
}

impl Drop for SeveralTrees<'_> {
    /// Memory that another GPU still reads is not freed.
    fn drop(&mut self) {
        self.shards.iter().for_each(|trees| drop(lock(trees).queue.synchronize()));
    }
}

impl GrowSteps for SeveralTrees<'_> {
    fn find_splits(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Vec<Option<(Candidate, Sums)>>> {
        let found = self.all(|trees| trees.find_splits(nodes, rules))?;
        self.note_subsets();
        Ok(found)
    }

    fn find_level_split(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Option<(Candidate, Vec<Sums>)>> {
        let found = self.all(|trees| trees.find_level_split(nodes, rules))?;
        self.note_subsets();
        Ok(found)
    }

    fn partition(&mut self, divisions: &[Division]) -> Result<()> {
        self.all(|trees| trees.partition(divisions))
    }

    fn speculation(&self) -> Speculation {
        self.first().speculation()
    }

    fn take_back(&mut self, divisions: &[Division]) -> Result<()> {
        self.all(|trees| trees.take_back(divisions))
    }
}

impl GroupSteps for SeveralTrees<'_> {
    fn add_group(&mut self, features: &[CodedFeature], codes: &[Vec<u8>]) -> Result<GroupId> {
        let ids = self.each(|rank, trees| {
            let rows = self.ranges[rank].clone();
            let own: Vec<Vec<u8>> = codes.iter().map(|codes| codes[rows.clone()].to_vec()).collect();
            trees.add_group(features, &own)
        })?;
        Ok(ids[0])
    }

    fn drop_group(&mut self, group: GroupId) {
        self.shards.iter().for_each(|trees| lock(trees).drop_group(group));
    }

    fn open_group(&mut self, group: GroupId, nodes: &[NodeId]) -> Result<()> {
        self.all(|trees| trees.open_group(group, nodes))
    }
}

impl SpreadSteps for SeveralTrees<'_> {
    fn squared_gradients(&mut self, loss: &dyn Loss, output: usize) -> Result<f64> {
        self.all(|trees| trees.squared_gradients(loss, output))
    }
}

impl LeafSteps for SeveralTrees<'_> {
    fn sums_beyond(&mut self, loss: &dyn Loss, tree: &Tree, first: usize, values: &[Vec<f32>]) -> Result<Vec<Vec<LeafSums>>> {
        self.all(|trees| trees.sums_beyond(loss, tree, first, values))
    }
}

impl LinearSteps for SeveralTrees<'_> {
    fn measure(&mut self, loss: &dyn Loss, output: usize, columns: &TreeColumns) -> Result<LeafMeasures> {
        let each = self.each(|_, trees| trees.measure(loss, output, columns))?;
        let all = each.into_iter().reduce(|mut all, of_rows_behind| {
            all.merge(of_rows_behind);
            all
        });
        all.ok_or_else(|| Error::Data("no GPU has any rows".into()))
    }

    fn equations(&mut self, columns: &TreeColumns, units: &Units) -> Result<Equations> {
        let mut all = Equations::default();
        for own in self.each(|_, trees| trees.equations(columns, units))? {
            if all.counts.is_empty() { all = own } else { all.merge(&own) }
        }
        Ok(all)
    }

    fn set_functions(&mut self, output: usize, columns: &TreeColumns, functions: &[Option<LinearLeaf>]) -> Result<()> {
        self.all(|trees| trees.set_functions(output, columns, functions))
    }
}

impl DropoutSteps for SeveralTrees<'_> {
    fn keep_trees(&mut self, given: Vec<Vec<GivenTree>>) -> Result<()> {
        self.each(|rank, trees| trees.keep_trees_of(&given, self.ranges[rank].clone())).map(drop)
    }

    fn drop_out(&mut self, rounds: &[u32]) -> Result<()> {
        self.all(|trees| trees.drop_out(rounds))
    }

    fn put_back(&mut self, rounds: &[u32], factor: f64) -> Result<()> {
        self.all(|trees| trees.put_back(rounds, factor))
    }
}

impl TreeSteps for SeveralTrees<'_> {
    fn groups(&mut self) -> &mut dyn GroupSteps {
        self
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
        if self.is_linear { Some(self) } else { None }
    }

    fn begin_tree(&mut self, request: &TreeRequest<'_>) -> Result<Begun> {
        self.all(|trees| trees.begin_tree(request))
    }

    fn end_tree(&mut self, loss: &dyn Loss, tree: &Tree, leaves: &[NodeId]) -> Result<Vec<Vec<LeafSums>>> {
        self.all(|trees| trees.end_tree(loss, tree, leaves))
    }

    fn replay(&mut self, loss: &dyn Loss, tree: &Tree, output: usize) -> Result<Vec<LeafSums>> {
        self.all(|trees| trees.replay(loss, tree, output))
    }

    fn leaf_quantiles(&mut self, output: usize, alpha: f64) -> Result<Vec<f64>> {
        self.all(|trees| trees.leaf_quantiles(output, alpha))
    }

    fn set_leaf_values(&mut self, output: usize, values: &[f32]) -> Result<()> {
        self.all(|trees| trees.set_leaf_values(output, values))
    }

    fn category_sets(&self) -> &[CodeSet] {
        &self.subsets
    }

    fn update_scores(&mut self) -> Result<()> {
        self.all(|trees| trees.update_scores())
    }

    fn position_factors(&self) -> Result<Option<Vec<f64>>> {
        self.all(|trees| trees.position_factors())
    }

    fn measured_scores(&self) -> Result<Vec<Vec<f32>>> {
        let own = match self.measures {
            true => self.each(|_, trees| trees.data.measured_scores(&trees.queue, &trees.kernels))?,
            false => vec![vec![vec![]; self.outputs]],
        };
        self.joined(&own, false)
    }

    fn all_scores(&mut self) -> Result<Vec<Vec<f32>>> {
        let own = self.each(|_, trees| trees.data.all_scores(&trees.queue, &trees.kernels))?;
        self.joined(&own, true)
    }
}
