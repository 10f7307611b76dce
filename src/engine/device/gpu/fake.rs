//! A GPU for unit tests that runs out of memory after so many steps: the CPU's backends, which fail where a device's may.

#[path = "fake_small_tables.rs"]
mod small_tables;

use crate::device::predict::{ForestCopy, LinearCopy, ModelCopy};
use std::borrow::Cow;
use std::cell::Cell;
use taiga_core::column_steps::ColumnSteps;
use taiga_core::device::DevicesInfo;
use taiga_core::error::{Error, Result};
use taiga_core::learners::boosting::model::apply::Predictor;
use taiga_core::learners::boosting::steps::{
    Begun, DropoutSteps, GivenTree, GroupId, GroupSteps, LeafSteps, LeafSums, SmallTableSteps, SpreadSteps, TrainingData, TreeRequest,
    TreeSteps,
};
use taiga_core::learners::forest;
use taiga_core::learners::forest::codes::Code;
use taiga_core::learners::forest::steps::{ForestWork, GrownTrees};
use taiga_core::learners::linear;
use taiga_core::learners::linear::batches::{ByBatches, Deal};
use taiga_core::learners::linear::lbfgs::Fitted;
use taiga_core::learners::linear::steps::{On, PassSteps, Residuals, Task};
use taiga_core::losses::Loss;
use taiga_core::parallel::thread_pool::ThreadPool;
use taiga_core::quantize::{CodeSet, CodedFeature};
use taiga_core::tree::Tree;
use taiga_core::tree::split::{SplitRules, Sums};
use taiga_core::tree::steps::Speculation;
use taiga_core::tree::steps::{Candidate, Division, GrowSteps, NodeId, SearchNode};
use taiga_cpu::linear::passes::Passes;
use taiga_cpu::trees::CpuTrees;

thread_local! {
    /// Steps until it is out of memory; none where there is no such GPU.
    static STEPS: Cell<Option<u32>> = const { Cell::new(None) };
    /// Whether it has run out.
    static RAN_OUT: Cell<bool> = const { Cell::new(false) };
}

/// What `body` gives where `"auto"` takes this GPU, which has memory for so many steps; and whether it ran out of it. It is there for
/// this thread alone: fits are to have no other.
pub fn with<R>(steps: u32, body: impl FnOnce() -> R) -> (R, bool) {
    STEPS.set(Some(steps));
    RAN_OUT.set(false);
    let done = body();
    STEPS.set(None);
    (done, RAN_OUT.get())
}

fn is_there() -> bool {
    STEPS.get().is_some()
}

fn out_of_memory() -> Error {
    RAN_OUT.set(true);
    Error::device_memory(0, "a test needs 2.0 GB, and it has 1.0 GB free of 8.0 GB")
}

fn step() -> Result<()> {
    match STEPS.get() {
        Some(0) => Err(out_of_memory()),
        steps => {
            STEPS.set(steps.map(|left| left - 1));
            Ok(())
        }
    }
}

/// Why there is none.
const MISSING: &str = "a unit test has no GPU";

pub fn missing() -> Option<&'static str> {
    if is_there() { None } else { Some(MISSING) }
}

pub fn takes_everything() -> bool {
    is_there()
}

fn absent<R>() -> Result<R> {
    Err(Error::parameter("device", MISSING))
}

pub fn open(number: Option<u32>) -> Result<()> {
    if number.is_none() && is_there() { Ok(()) } else { absent() }
}

pub fn info() -> DevicesInfo {
    DevicesInfo { driver: None, devices: vec![], unavailable: missing().map(Into::into) }
}

pub fn clear_caches() -> Result<()> {
    Ok(())
}

pub fn limit_caches(_: Option<u64>) -> Result<()> {
    Ok(())
}

pub fn release(_: u32) {}

pub fn check_trees(_: &ThreadPool, _: &TrainingData<'_>, _: usize, _: &(dyn Fn() -> bool + Sync)) -> Result<()> {
    Ok(())
}

pub fn with_trees(
    _: Option<u32>,
    pool: &ThreadPool,
    data: TrainingData<'_>,
    _: usize,
    interrupted: &(dyn Fn() -> bool + Sync),
    body: &mut dyn FnMut(&mut dyn TreeSteps) -> Result<()>,
) -> Result<()> {
    body(&mut Failing(CpuTrees::new(pool, data, interrupted)?))
}

pub fn with_several_trees(
    _: &[Option<u32>],
    _: &ThreadPool,
    _: TrainingData<'_>,
    _: usize,
    _: &(dyn Fn() -> bool + Sync),
    _: &mut dyn FnMut(&mut dyn TreeSteps) -> Result<()>,
) -> Result<()> {
    absent()
}

/// It takes tables of up to so many rows.
const SMALL_ROWS: usize = 150;

pub fn with_small_tables<R>(_: Option<u32>, body: impl FnOnce(&dyn SmallTableSteps) -> Result<R>) -> Result<R> {
    step()?;
    body(&small_tables::FakeSmallTables(SMALL_ROWS))
}

pub fn grow_forest<C: Code>(_: &[Option<u32>], _: &ForestWork<'_, C>) -> Result<GrownTrees> {
    Err(out_of_memory())
}

pub fn with_passes<R>(_: &[Option<u32>], task: &Task<'_, '_>, on: impl On<R>) -> Result<R> {
    on.on(&FailingPasses(&Passes::new(task)?))
}

pub fn by_batches(_: Option<u32>, _: ByBatches<'_, '_, '_, '_>, _: &Deal, _: &Passes<'_, '_, '_>) -> Result<Fitted> {
    Err(out_of_memory())
}

pub fn with_columns<R>(_: Option<u32>, _: impl FnOnce(&dyn ColumnSteps) -> Result<R>) -> Result<R> {
    absent()
}

pub fn with_shared_columns<R>(_: &[Option<u32>], _: impl FnOnce(&dyn ColumnSteps) -> Result<R>) -> Result<R> {
    absent()
}

pub fn check_sorting(_: usize) -> Result<()> {
    absent()
}

pub fn copy_model(_: Option<u32>, _: &Predictor) -> Result<Box<dyn ModelCopy>> {
    absent()
}

pub fn copy_forest(_: Option<u32>, _: &forest::Predictor) -> Result<Box<dyn ForestCopy>> {
    absent()
}

pub fn copy_linear(_: Option<u32>, _: &linear::Predictor) -> Result<Box<dyn LinearCopy>> {
    absent()
}

/// For boosted trees.
struct Failing<'a>(CpuTrees<'a>);

impl GrowSteps for Failing<'_> {
    fn find_splits(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Vec<Option<(Candidate, Sums)>>> {
        step()?;
        self.0.find_splits(nodes, rules)
    }

    fn find_level_split(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Option<(Candidate, Vec<Sums>)>> {
        step()?;
        self.0.find_level_split(nodes, rules)
    }

    fn partition(&mut self, divisions: &[Division]) -> Result<()> {
        step()?;
        self.0.partition(divisions)
    }

    fn speculation(&self) -> Speculation {
        self.0.speculation()
    }

    fn take_back(&mut self, divisions: &[Division]) -> Result<()> {
        step()?;
        self.0.take_back(divisions)
    }
}

impl GroupSteps for Failing<'_> {
    fn add_group(&mut self, features: &[CodedFeature], codes: &[Vec<u8>]) -> Result<GroupId> {
        step()?;
        self.0.add_group(features, codes)
    }

    fn drop_group(&mut self, group: GroupId) {
        self.0.drop_group(group);
    }

    fn open_group(&mut self, group: GroupId, nodes: &[NodeId]) -> Result<()> {
        step()?;
        self.0.open_group(group, nodes)
    }
}

impl SpreadSteps for Failing<'_> {
    fn squared_gradients(&mut self, loss: &dyn Loss, output: usize) -> Result<f64> {
        step()?;
        self.0.squared_gradients(loss, output)
    }
}

impl LeafSteps for Failing<'_> {
    fn sums_beyond(&mut self, loss: &dyn Loss, tree: &Tree, first: usize, values: &[Vec<f32>]) -> Result<Vec<Vec<LeafSums>>> {
        step()?;
        self.0.sums_beyond(loss, tree, first, values)
    }
}

impl DropoutSteps for Failing<'_> {
    fn keep_trees(&mut self, given: Vec<Vec<GivenTree>>) -> Result<()> {
        step()?;
        self.0.keep_trees(given)
    }

    fn drop_out(&mut self, rounds: &[u32]) -> Result<()> {
        step()?;
        self.0.drop_out(rounds)
    }

    fn put_back(&mut self, rounds: &[u32], factor: f64) -> Result<()> {
        step()?;
        self.0.put_back(rounds, factor)
    }
}

impl TreeSteps for Failing<'_> {
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

    fn begin_tree(&mut self, request: &TreeRequest<'_>) -> Result<Begun> {
        step()?;
        self.0.begin_tree(request)
    }

    fn end_tree(&mut self, loss: &dyn Loss, tree: &Tree, leaves: &[NodeId]) -> Result<Vec<Vec<LeafSums>>> {
        step()?;
        self.0.end_tree(loss, tree, leaves)
    }

    fn replay(&mut self, loss: &dyn Loss, tree: &Tree, output: usize) -> Result<Vec<LeafSums>> {
        step()?;
        self.0.replay(loss, tree, output)
    }

    fn leaf_quantiles(&mut self, output: usize, alpha: f64) -> Result<Vec<f64>> {
        step()?;
        self.0.leaf_quantiles(output, alpha)
    }

    fn set_leaf_values(&mut self, output: usize, values: &[f32]) -> Result<()> {
        step()?;
        self.0.set_leaf_values(output, values)
    }

    fn category_sets(&self) -> &[CodeSet] {
        self.0.category_sets()
    }

    fn update_scores(&mut self) -> Result<()> {
        step()?;
        self.0.update_scores()
    }

    fn position_factors(&self) -> Result<Option<Vec<f64>>> {
        step()?;
        self.0.position_factors()
    }

    fn measured_scores(&self) -> Result<Vec<Vec<f32>>> {
        step()?;
        self.0.measured_scores()
    }

    fn all_scores(&mut self) -> Result<Vec<Vec<f32>>> {
        step()?;
        self.0.all_scores()
    }
}

/// For passes of a linear model.
struct FailingPasses<'s, 't, 'p, 'a>(&'s Passes<'t, 'p, 'a>);

impl PassSteps for FailingPasses<'_, '_, '_, '_> {
    type RowNumbers = Vec<f64>;

    fn rows(&self, of_row: &[f64]) -> Result<Vec<f64>> {
        step()?;
        self.0.rows(of_row)
    }
    fn scores(&self, vector: &[f64], out: &mut Vec<f64>) -> Result<()> {
        step()?;
        self.0.scores(vector, out)
    }
    fn residuals(&self, scores: &Vec<f64>, out: &mut Vec<f64>) -> Result<Residuals> {
        step()?;
        self.0.residuals(scores, out)
    }
    fn gradient(&self, residuals: &Vec<f64>, largest: f64, out: &mut [f64]) -> Result<()> {
        step()?;
        self.0.gradient(residuals, largest, out)
    }
    fn squares(&self, out: &mut [f64]) -> Result<()> {
        step()?;
        self.0.squares(out)
    }
    fn along(&self, scores: &Vec<f64>, direction: &Vec<f64>, by: f64) -> Result<(f64, f64)> {
        step()?;
        self.0.along(scores, direction, by)
    }
    fn advance(&self, out: &mut Vec<f64>, from: &Vec<f64>, by: f64) -> Result<()> {
        step()?;
        self.0.advance(out, from, by)
    }
    fn write(&self, numbers: Cow<'_, [f64]>) -> Result<Vec<f64>> {
        step()?;
        self.0.write(numbers)
    }
    fn read<'r>(&self, rows: &'r Vec<f64>) -> Result<Cow<'r, [f64]>> {
        step()?;
        self.0.read(rows)
    }
}
