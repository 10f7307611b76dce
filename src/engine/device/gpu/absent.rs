//! A build without GPUs; see `cuda` for what each function does elsewhere.

use crate::device::predict::{ForestCopy, LinearCopy, ModelCopy};
use taiga_core::column_steps::ColumnSteps;
use taiga_core::device::DevicesInfo;
use taiga_core::error::{Error, Result};
use taiga_core::learners::boosting::model::apply::Predictor;
use taiga_core::learners::boosting::steps::{SmallTableSteps, TrainingData, TreeSteps};
use taiga_core::learners::forest;
use taiga_core::learners::forest::codes::Code;
use taiga_core::learners::forest::steps::{ForestWork, GrownTrees};
use taiga_core::learners::linear;
use taiga_core::learners::linear::batches::{ByBatches, Deal};
use taiga_core::learners::linear::lbfgs::Fitted;
use taiga_core::learners::linear::steps::{On, Task};
use taiga_core::parallel::thread_pool::ThreadPool;
use taiga_cpu::linear::passes::Passes;

const MISSING: &str = "this build of polars-taiga has no CUDA backend";

pub fn missing() -> Option<&'static str> {
    Some(MISSING)
}

pub fn takes_everything() -> bool {
    false
}

fn absent<R>(number: Option<u32>) -> Result<R> {
    let device = number.map_or_else(|| "cuda".to_string(), |number| format!("cuda:{number}"));
    Err(Error::parameter("device", format!("{device:?}: {MISSING}; use \"cpu\" or \"auto\"")))
}

pub fn open(number: Option<u32>) -> Result<()> {
    absent(number)
}

pub fn info() -> DevicesInfo {
    DevicesInfo { driver: None, devices: vec![], unavailable: Some(MISSING.into()) }
}

pub fn clear_caches() -> Result<()> {
    Ok(())
}

pub fn limit_caches(_: Option<u64>) -> Result<()> {
    Ok(())
}

pub fn release(_: u32) {}

pub fn check_trees(_: &ThreadPool, _: &TrainingData<'_>, _: usize, _: &(dyn Fn() -> bool + Sync)) -> Result<()> {
    absent(None)
}

pub fn with_trees(
    number: Option<u32>,
    _: &ThreadPool,
    _: TrainingData<'_>,
    _: usize,
    _: &(dyn Fn() -> bool + Sync),
    _: &mut dyn FnMut(&mut dyn TreeSteps) -> Result<()>,
) -> Result<()> {
    absent(number)
}

pub fn with_several_trees(
    numbers: &[Option<u32>],
    _: &ThreadPool,
    _: TrainingData<'_>,
    _: usize,
    _: &(dyn Fn() -> bool + Sync),
    _: &mut dyn FnMut(&mut dyn TreeSteps) -> Result<()>,
) -> Result<()> {
    absent(numbers.first().copied().flatten())
}

pub fn with_small_tables<R>(number: Option<u32>, _: impl FnOnce(&dyn SmallTableSteps) -> Result<R>) -> Result<R> {
    absent(number)
}

pub fn grow_forest<C: Code>(numbers: &[Option<u32>], _: &ForestWork<'_, C>) -> Result<GrownTrees> {
    absent(numbers.first().copied().flatten())
}

pub fn with_passes<R>(numbers: &[Option<u32>], _: &Task<'_, '_>, _: impl On<R>) -> Result<R> {
    absent(numbers.first().copied().flatten())
}

pub fn by_batches(number: Option<u32>, _: ByBatches<'_, '_, '_, '_>, _: &Deal, _: &Passes<'_, '_, '_>) -> Result<Fitted> {
    absent(number)
}

pub fn with_columns<R>(number: Option<u32>, _: impl FnOnce(&dyn ColumnSteps) -> Result<R>) -> Result<R> {
    absent(number)
}

pub fn with_shared_columns<R>(numbers: &[Option<u32>], _: impl FnOnce(&dyn ColumnSteps) -> Result<R>) -> Result<R> {
    absent(numbers.first().copied().flatten())
}

pub fn check_sorting(_: usize) -> Result<()> {
    absent(None)
}

pub fn copy_model(number: Option<u32>, _: &Predictor) -> Result<Box<dyn ModelCopy>> {
    absent(number)
}

pub fn copy_forest(number: Option<u32>, _: &forest::Predictor) -> Result<Box<dyn ForestCopy>> {
    absent(number)
}

pub fn copy_linear(number: Option<u32>, _: &linear::Predictor) -> Result<Box<dyn LinearCopy>> {
    absent(number)
}
