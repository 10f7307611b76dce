//! Boosted trees on several GPUs of one host: rows are dealt to them in consecutive spans, and all do the same with theirs, each driven by
//! a thread of its own. What they have summed is added up in [`super::all_reduce`], so each comes to the same tree.

use super::CudaTrees;
use super::all_reduce::{AbortSwitch, MOST_DEVICES};
use super::gradient_quantizer::BATCH;
use super::rendezvous::{Rendezvous, gone};
use crate::runtime::Gpu;
use crate::runtime::driver_threads::DriverThreads;
use crate::runtime::peers;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use taiga_core::collective::{Collective, LocalCollective, RowShard, local};
use taiga_core::column::Column;
use taiga_core::error::{Error, Result};
use taiga_core::learners::boosting::steps::{Begun, GroupId, GroupSteps, LeafSums, TrainingData, TreeRequest, TreeSteps};
use taiga_core::losses::Loss;
use taiga_core::parallel::thread_pool::ThreadPool;
use taiga_core::quantize::{CodeSet, CodeSource, CodedFeature};
use taiga_core::tree::Tree;
use taiga_core::tree::split::{SplitRules, Sums};
use taiga_core::tree::steps::{Candidate, Division, GrowSteps, NodeId, SearchNode, Speculation};

/// One GPU's end of the exchange, which it leaves where it fails, so that nobody waits for it.
struct ShardEnd {
    end: RwLock<Option<LocalCollective>>,
    rendezvous: Arc<Rendezvous>,
    rank: usize,
    world: usize,
    /// Whether an exchange failed: then another one's error says why.
    is_bereft: AtomicBool,
}

impl ShardEnd {
    fn new(end: LocalCollective, rendezvous: &Arc<Rendezvous>) -> ShardEnd {
        let (rank, world) = (end.rank(), end.world());
        ShardEnd { rank, world, end: RwLock::new(Some(end)), rendezvous: rendezvous.clone(), is_bereft: AtomicBool::new(false) }
    }

    fn leave(&self) {
        self.rendezvous.leave();
        drop(self.end.write().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn with<R>(&self, exchange: impl FnOnce(&LocalCollective) -> Result<R>) -> Result<R> {
        let end = self.end.read().unwrap_or_else(PoisonError::into_inner);
        let done = end.as_ref().ok_or_else(|| Error::Data("this fit has ended".into())).and_then(exchange);
        if done.is_err() {
            self.is_bereft.store(true, Ordering::Relaxed);
        }
        done
    }
}

impl Collective for ShardEnd {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world(&self) -> usize {
        self.world
    }

    fn max(&self, values: &mut [u32]) -> Result<()> {
        self.with(|end| end.max(values))
    }

    fn sum(&self, values: &mut [i64]) -> Result<()> {
        self.with(|end| end.sum(values))
    }

    fn exchange(&self, pieces: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        self.with(|end| end.exchange(pieces))
    }
}

/// Deals rows to so many GPUs, as evenly as whole batches allow: those that get none are not there.
fn deal(rows: usize, gpus: usize) -> Vec<Range<usize>> {
    let each = rows.div_ceil(gpus).next_multiple_of(BATCH);
    (0..rows.div_ceil(each)).map(|k| k * each..rows.min((k + 1) * each)).collect()
}

/// What the losses that several GPUs know nothing of need.
fn check(data: &TrainingData<'_>, gpus: usize) -> Result<()> {
    let alone = |what: &str| {
        let text = format!("{what} is fitted on one GPU: write \"cuda\" or \"cuda:N\"");
        Err(Error::parameter("device", text))
    };
    if data.groups.is_some() {
        return alone("a loss whose rows depend on each other by group");
    }
    if data.risk_sets.is_some() {
        return alone("the loss \"cox\", whose rows depend on each other by time,");
    }
    if gpus > MOST_DEVICES {
        return Err(Error::parameter("device", format!("{gpus} GPUs are more than {MOST_DEVICES}, which share a fit at most")));
    }
    Ok(())
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

/// Returns the table of some of the rows.
fn rows_of<'a>(data: &TrainingData<'a>, sources: &'a [CodeSource<'a>], rows: &Range<usize>, end: &'a ShardEnd) -> TrainingData<'a> {
    let part = |values: &Vec<f32>| values[rows.clone()].to_vec();
    TrainingData {
        features: data.features,
        sources,
        target: part(&data.target),
        more_targets: data.more_targets.iter().map(part).collect(),
        weight: data.weight.as_ref().map(part),
        columns: data.columns.iter().map(part).collect(),
        groups: None,
        positions: None,
        risk_sets: None,
        scores: data.scores.iter().map(part).collect(),
        held_out: data.held_out.map(|marks| &marks[rows.clone()]),
        measures_all: data.measures_all,
        row_sampling: data.row_sampling,
        count_rows: data.count_rows,
        policy: data.policy,
        // What is stored sparsely, and how, would differ from GPU to GPU, and so would the histograms' layout.
        bundle: false,
        seed: data.seed,
        announced: data.announced,
        shared: data.shared,
        shard: RowShard { collective: end, first: rows.start, all: data.target.len() },
        batches: None,
    }
}

/// Runs `body` with what fits boosted trees on several GPUs.
///
/// # Errors
/// [`Error::Device`]; [`Error::Parameter`] for `device` where one is not there, or the loss is one of a single GPU; [`Error::Interrupted`];
/// those of `body`.
pub fn with_several(
    numbers: &[u32],
    pool: &ThreadPool,
    data: TrainingData<'_>,
    most_nodes: usize,
    interrupted: &(dyn Fn() -> bool + Sync),
    body: &mut dyn FnMut(&mut dyn TreeSteps) -> Result<()>,
) -> Result<()> {
    with_shards(numbers, false, pool, data, most_nodes, interrupted, body)
}

/// For tests: the same, where a number may stand twice, so that a GPU has several shards of the rows; `through_host`: as if GPUs did not
/// read each other's memory.
#[doc(hidden)]
pub fn with_shards(
    numbers: &[u32],
    through_host: bool,
    pool: &ThreadPool,
    data: TrainingData<'_>,
    most_nodes: usize,
    interrupted: &(dyn Fn() -> bool + Sync),
    body: &mut dyn FnMut(&mut dyn TreeSteps) -> Result<()>,
) -> Result<()> {
    check(&data, numbers.len())?;
    let ranges = deal(data.target.len(), numbers.len());
    let gpus = numbers[..ranges.len()].iter().map(|number| Gpu::get(Some(*number))).collect::<Result<Vec<_>>>()?;
    if let [gpu] = gpus[..] {
        return body(&mut CudaTrees::new(Some(gpu.number()), pool, data, most_nodes, interrupted)?);
    }
    let _taken = peers::take(&gpus, interrupted)?;
    let are_connected = !through_host && peers::connect(&gpus)?;
    let apart = (1..gpus.len()).all(|k| gpus[..k].iter().all(|gpu| gpu.number() != gpus[k].number()));
    let rendezvous = Arc::new(Rendezvous::new(gpus.len()));
    let ends: Vec<ShardEnd> = local(gpus.len()).into_iter().map(|end| ShardEnd::new(end, &rendezvous)).collect();
    let columns: Vec<Vec<RowsOf<'_>>> = ranges.iter().map(|rows| data.sources.iter().map(|s| RowsOf::of(s, rows)).collect()).collect();
    let sources: Vec<Vec<CodeSource<'_>>> = columns.iter().map(|own| own.iter().map(RowsOf::source).collect()).collect();
    let shards = (0..gpus.len()).map(|k| Mutex::new(Some(rows_of(&data, &sources[k], &ranges[k], &ends[k])))).collect::<Vec<_>>();
    let measures = data.measures_all || data.held_out.is_some();
    let outputs = data.scores.len();
    drop(data.target);
    let threads = DriverThreads::new(gpus.len(), pool.size().div_ceil(gpus.len()))?;
    let make = |rank: usize| {
        let data = lock(&shards[rank]).take().ok_or_else(|| Error::Data("a shard of rows is made once".into()))?;
        let mut trees = CudaTrees::new(Some(gpus[rank].number()), pool, data, most_nodes, interrupted)?;
        let switch = if are_connected { Some(trees.connect(rank, apart, rendezvous.clone())?) } else { None };
        Ok((trees, switch))
    };
    let (made, switches): (Vec<_>, Vec<_>) = each(&threads, &ends, &[], &make)?.into_iter().unzip();
    let mut steps = SeveralTrees {
        shards: made.into_iter().map(Mutex::new).collect(),
        switches: switches.into_iter().flatten().collect(),
        threads,
        ends: &ends,
        ranges,
        measures,
        outputs,
        subsets: vec![],
    };
    body(&mut steps)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves the exchange and ends the others' waiting, unless it is told that all went well.
struct Leaving<'a> {
    end: &'a ShardEnd,
    switches: &'a [AbortSwitch],
    stays: bool,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if !self.stays {
            self.end.leave();
            // A GPU that can't be told any more waits for nobody.
            self.switches.iter().for_each(|switch| drop(switch.abort()));
        }
    }
}

/// Does the same for each GPU at once, by its number in the fit, each on its own thread.
fn each<R: Send>(
    threads: &DriverThreads,
    ends: &[ShardEnd],
    switches: &[AbortSwitch],
    work: &(impl Fn(usize) -> Result<R> + Sync),
) -> Result<Vec<R>> {
    let answers: Vec<Mutex<Option<Result<R>>>> = ends.iter().map(|_| Mutex::new(None)).collect();
    threads.run(&|rank| {
        let mut leaving = Leaving { end: &ends[rank], switches, stays: false };
        let answer = work(rank);
        leaving.stays = answer.is_ok();
        *lock(&answers[rank]) = Some(answer);
    });
    let answers: Vec<Result<R>> = answers.into_iter().filter_map(|own| own.into_inner().unwrap_or_else(PoisonError::into_inner)).collect();
    let is_told =
        |(answer, end): &(&Result<R>, &ShardEnd)| answer.as_ref().is_err_and(|e| *e != gone()) && !end.is_bereft.load(Ordering::Relaxed);
    let first = answers.iter().zip(ends).position(|pair| is_told(&pair)).or_else(|| answers.iter().position(Result::is_err));
    match first {
        None => answers.into_iter().collect(),
        Some(failed) => Err(answers.into_iter().nth(failed).and_then(Result::err).unwrap_or(Error::Interrupted)),
    }
}

/// Work on several GPUs.
struct SeveralTrees<'a> {
    shards: Vec<Mutex<CudaTrees<'a>>>,
    switches: Vec<AbortSwitch>,
    threads: DriverThreads,
    ends: &'a [ShardEnd],
    ranges: Vec<Range<usize>>,
    measures: bool,
    outputs: usize,
    /// Those of every GPU.
    subsets: Vec<CodeSet>,
}

impl<'a> SeveralTrees<'a> {
    /// Does the same with each GPU's rows at once.
    fn each<R: Send>(&self, work: impl Fn(usize, &mut CudaTrees<'a>) -> Result<R> + Sync) -> Result<Vec<R>> {
        each(&self.threads, self.ends, &self.switches, &|rank| work(rank, &mut lock(&self.shards[rank])))
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

    /// Scores, `[output][row]`, those of one GPU's rows behind those of another's.
    fn joined(&self, scores: Vec<Vec<Vec<f32>>>) -> Vec<Vec<f32>> {
        (0..self.outputs).map(|output| scores.iter().flat_map(|own| own[output].iter().copied()).collect()).collect()
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

impl TreeSteps for SeveralTrees<'_> {
    fn groups(&mut self) -> &mut dyn GroupSteps {
        self
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
        Ok(None)
    }

    fn measured_scores(&self) -> Result<Vec<Vec<f32>>> {
        if !self.measures {
            return Ok(vec![vec![]; self.outputs]);
        }
        Ok(self.joined(self.each(|_, trees| trees.measured_scores())?))
    }

    fn all_scores(&mut self) -> Result<Vec<Vec<f32>>> {
        Ok(self.joined(self.each(|_, trees| trees.all_scores())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that all rows are dealt in order, in whole batches but for the last, and to as few GPUs as have any.
    #[test]
    fn rows_are_dealt_in_whole_batches() {
        for rows in [1, 2, 1023, 1024, 1025, 2048, 5000, 1 << 20, 11_000_001] {
            for gpus in 1..=MOST_DEVICES {
                let dealt = deal(rows, gpus);
                assert!((1..=gpus).contains(&dealt.len()) && dealt[0].start == 0 && dealt[dealt.len() - 1].end == rows);
                assert!(dealt.windows(2).all(|pair| pair[0].end == pair[1].start && pair[0].len().is_multiple_of(BATCH)));
                assert!(dealt.iter().all(|rows| !rows.is_empty()));
            }
        }
        assert_eq!(deal(3000, 2), [0..2048, 2048..3000]);
    }
}
