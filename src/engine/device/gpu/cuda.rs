//! GPUs by `taiga-cuda`.

use crate::device::predict::{ExplainerCopy, ForestCopy, LinearCopy, ModelCopy};
use std::sync::Arc;
use taiga_core::column::Column;
use taiga_core::column_steps::ColumnSteps;
use taiga_core::device::DevicesInfo;
use taiga_core::error::Result;
use taiga_core::learners::boosting::model::apply::Predictor;
use taiga_core::learners::boosting::model::shap::ShapValues;
use taiga_core::learners::boosting::steps::{SmallTableSteps, TrainingData, TreeSteps};
use taiga_core::learners::forest;
use taiga_core::learners::forest::codes::Code;
use taiga_core::learners::forest::steps::{ForestWork, GrownTrees};
use taiga_core::learners::linear;
use taiga_core::learners::linear::batches::{ByBatches, Deal};
use taiga_core::learners::linear::lbfgs::Fitted;
use taiga_core::learners::linear::predict::ReadRows;
use taiga_core::learners::linear::shap::Parts;
use taiga_core::parallel::pools;
use taiga_core::parallel::thread_pool::ThreadPool;
use taiga_core::shap::{Explanation, Terms};
use taiga_cpu::linear::passes::Passes;
use taiga_cuda::CudaColumns;
use taiga_cuda::columns::borders;
use taiga_cuda::columns::several_gpus::SharedColumns;
use taiga_cuda::linear::CudaBatches;
pub use taiga_cuda::linear::with_passes;
use taiga_cuda::predict::DevicePredictor;
use taiga_cuda::predict::forest::DeviceForest;
use taiga_cuda::predict::linear::DeviceLinear;
use taiga_cuda::predict::shap::{DeviceExplainer, Explained, MOST_TABLED};
use taiga_cuda::runtime::device::{device_info, each_cache};
use taiga_cuda::runtime::{Gpu, Queue};
use taiga_cuda::trees::CudaTrees;
pub use taiga_cuda::trees::several_gpus::with_several as with_several_trees;
use taiga_cuda::trees::small_tables::CudaSmallTables;

/// Returns why no GPU can ever be there, where that is so.
pub fn missing() -> Option<&'static str> {
    None
}

/// Returns whether `"auto"` takes a GPU for everything.
pub fn takes_everything() -> bool {
    false
}

/// Opens a GPU.
///
/// # Errors
/// Where it is not there.
pub fn open(number: Option<u32>) -> Result<()> {
    Gpu::get(number).map(drop)
}

/// Describes the GPUs of this machine.
pub fn info() -> DevicesInfo {
    device_info()
}

/// Frees the columns that stay on GPUs.
///
/// # Errors
/// [`taiga_core::Error::Device`].
pub fn clear_caches() -> Result<()> {
    each_cache(|gpu, cache| cache.clear(gpu).map(drop))
}

/// Sets how many bytes of columns may stay on each GPU; none is what there is by default.
///
/// # Errors
/// [`taiga_core::Error::Device`].
pub fn limit_caches(bytes: Option<u64>) -> Result<()> {
    each_cache(|gpu, cache| {
        cache.set_limit(gpu, bytes);
        Ok(())
    })
}

/// Gives the memory of a GPU that nobody uses back to the driver. That it could not be given back is no error.
pub fn release(number: u32) {
    if let Ok(gpu) = Gpu::get(Some(number)) {
        let _ = gpu.release();
    }
}

/// Checks that a GPU has room for a fit of boosted trees.
///
/// # Errors
/// [`taiga_core::Error::Device`] where it has not, and [`taiga_core::Error::Interrupted`].
pub fn check_trees(pool: &ThreadPool, data: &TrainingData<'_>, most_nodes: usize, interrupted: &(dyn Fn() -> bool + Sync)) -> Result<()> {
    CudaTrees::check(None, pool, data, most_nodes, interrupted)
}

/// Runs `body` with what fits boosted trees on a GPU.
///
/// # Errors
/// [`taiga_core::Error::Device`], [`taiga_core::Error::Interrupted`], and those of `body`.
pub fn with_trees(
    number: Option<u32>,
    pool: &ThreadPool,
    data: TrainingData<'_>,
    most_nodes: usize,
    interrupted: &(dyn Fn() -> bool + Sync),
    body: &mut dyn FnMut(&mut dyn TreeSteps) -> Result<()>,
) -> Result<()> {
    body(&mut CudaTrees::new(number, pool, data, most_nodes, interrupted)?)
}

/// Runs `body` with what grows the trees of many small tables on a GPU.
///
/// # Errors
/// [`taiga_core::Error::Device`], and those of `body`.
pub fn with_small_tables<R>(number: Option<u32>, body: impl FnOnce(&dyn SmallTableSteps) -> Result<R>) -> Result<R> {
    body(&CudaSmallTables::new(number)?)
}

/// Grows all trees of a forest on GPUs.
///
/// # Errors
/// [`taiga_core::Error::Device`] and [`taiga_core::Error::Interrupted`].
pub fn grow_forest<C: Code>(numbers: &[Option<u32>], work: &ForestWork<'_, C>) -> Result<GrownTrees> {
    taiga_cuda::forest::grow(numbers, work)
}

/// Fits by batches on a GPU.
///
/// # Errors
/// [`taiga_core::Error::Device`] and [`taiga_core::Error::Interrupted`].
pub fn by_batches(number: Option<u32>, batches: ByBatches<'_, '_, '_, '_>, deal: &Deal, passes: &Passes<'_, '_, '_>) -> Result<Fitted> {
    let task = batches.task;
    batches.on(deal, &mut CudaBatches::new(number, task, deal)?, passes)
}

/// Runs `body` with what a GPU does with columns.
///
/// # Errors
/// [`taiga_core::Error::Device`], and those of `body`.
pub fn with_columns<R>(number: Option<u32>, body: impl FnOnce(&dyn ColumnSteps) -> Result<R>) -> Result<R> {
    body(&CudaColumns::new(Gpu::get(number)?)?)
}

/// Runs `body` with what several GPUs do with columns, each with a share of the rows.
///
/// # Errors
/// As [`with_columns`].
pub fn with_shared_columns<R>(numbers: &[Option<u32>], body: impl FnOnce(&dyn ColumnSteps) -> Result<R>) -> Result<R> {
    let gpus = numbers.iter().map(|number| Gpu::get(*number)).collect::<Result<Vec<_>>>()?;
    body(&SharedColumns::new(&gpus)?)
}

/// Checks that a GPU has room to sort so many values.
///
/// # Errors
/// [`taiga_core::Error::Device`] where it has not.
pub fn check_sorting(values: usize) -> Result<()> {
    Queue::new(Gpu::get(None)?)?.check_memory("sorting", borders::most_bytes(values))
}

/// Copies boosted trees to a GPU.
///
/// # Errors
/// [`taiga_core::Error::Device`].
pub fn copy_model(number: Option<u32>, model: &Predictor) -> Result<Box<dyn ModelCopy>> {
    let gpu = Gpu::get(number)?;
    Ok(Box::new(Copied { gpu, copy: Arc::new(DevicePredictor::new(gpu, model)?) }))
}

/// Copies a forest to a GPU.
///
/// # Errors
/// [`taiga_core::Error::Device`].
pub fn copy_forest(number: Option<u32>, forest: &forest::Predictor) -> Result<Box<dyn ForestCopy>> {
    let gpu = Gpu::get(number)?;
    Ok(Box::new(Copied { gpu, copy: Arc::new(DeviceForest::new(gpu, forest)?) }))
}

/// Copies a linear model to a GPU.
///
/// # Errors
/// [`taiga_core::Error::Device`].
pub fn copy_linear(number: Option<u32>, model: &linear::Predictor) -> Result<Box<dyn LinearCopy>> {
    let gpu = Gpu::get(number)?;
    Ok(Box::new(Copied { gpu, copy: DeviceLinear::new(gpu, model)? }))
}

/// A model on the GPU that applies it.
struct Copied<M> {
    gpu: &'static Gpu,
    copy: M,
}

impl ModelCopy for Copied<Arc<DevicePredictor>> {
    fn raw(&self, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        self.copy.raw(&Queue::new(self.gpu)?, columns)
    }

    fn leaves(&self, columns: &[&Column<'_>]) -> Result<Vec<u32>> {
        self.copy.leaves(&Queue::new(self.gpu)?, columns)
    }

    fn staged(&self, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        self.copy.staged(&Queue::new(self.gpu)?, columns)
    }

    fn explainer(&self, predictor: &Predictor, shap: Arc<ShapValues>, terms: Terms) -> Result<Box<dyn ExplainerCopy>> {
        CopiedExplainer::bring(self.gpu, &Explained::boosted(self.copy.clone(), predictor, shap.explainer()), terms)
    }
}

/// What explains a model's rows on a GPU.
struct CopiedExplainer {
    gpu: &'static Gpu,
    copy: DeviceExplainer,
}

impl CopiedExplainer {
    fn bring(gpu: &'static Gpu, of: &Explained<'_>, terms: Terms) -> Result<Box<dyn ExplainerCopy>> {
        let pool = ThreadPool::new(pools::asked(None))?;
        Ok(Box::new(CopiedExplainer { gpu, copy: DeviceExplainer::new(of, terms, MOST_TABLED, &pool)? }))
    }
}

impl ExplainerCopy for CopiedExplainer {
    fn explain(&self, columns: &[&Column<'_>]) -> Result<Explanation> {
        self.copy.explain(&Queue::new(self.gpu)?, columns)
    }
}

impl LinearCopy for Copied<DeviceLinear> {
    fn raw(&self, rows: &ReadRows<'_, '_>) -> Result<Vec<Vec<f64>>> {
        self.copy.raw(&Queue::new(self.gpu)?, rows)
    }

    fn explain(&self, rows: &ReadRows<'_, '_>, means: &[Vec<f64>]) -> Result<Parts> {
        self.copy.explain(&Queue::new(self.gpu)?, rows, means)
    }
}

impl ForestCopy for Copied<Arc<DeviceForest>> {
    fn predict(&self, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        self.copy.predict(&Queue::new(self.gpu)?, columns)
    }

    fn leaves(&self, columns: &[&Column<'_>]) -> Result<Vec<u32>> {
        self.copy.leaves(&Queue::new(self.gpu)?, columns)
    }

    fn explainer(
        &self,
        predictor: &forest::Predictor,
        shap: Arc<forest::shap::ShapValues>,
        terms: Terms,
    ) -> Result<Box<dyn ExplainerCopy>> {
        CopiedExplainer::bring(self.gpu, &Explained::forest(self.copy.clone(), predictor, shap.explainer()), terms)
    }
}
