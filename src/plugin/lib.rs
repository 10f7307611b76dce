//! polars-taiga's plugin: Arrow in, engine, Arrow out. One file for each family of expressions;
//! what an expression computes is in the engine.

mod batches;
mod by_group;
mod cache;
mod callback;
mod categories;
mod cells;
mod columns;
mod device;
mod encoding;
mod errors;
mod export;
mod fit;
mod folds;
mod forest;
mod gbdt;
mod held_out;
mod interpreter;
mod labels;
mod linear;
mod lists;
mod literal;
mod loss;
mod metrics;
mod model;
mod monitor;
mod order;
mod predict;
mod quantize;
mod row_key;
mod schema;
mod selections;
mod several;
mod snapshot;
mod statistics;
mod target;
mod threads;
mod times;
mod together;
mod warn;
mod wire;

use pyo3::prelude::*;
use pyo3_polars::PolarsAllocator;

/// Polars' own allocator, so that either side may free what the other has allocated.
#[global_allocator]
static ALLOCATOR: PolarsAllocator = PolarsAllocator::new();

#[pymodule]
fn _taiga(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<model::PyModel>()?;
    module.add_function(wrap_pyfunction!(device::device_info, module)?)?;
    module.add_function(wrap_pyfunction!(errors::error_class, module)?)?;
    module.add_function(wrap_pyfunction!(device::device_cache, module)?)?;
    module.add_function(wrap_pyfunction!(loss::loss_columns, module)?)?;
    module.add_function(wrap_pyfunction!(loss::loss_derivatives, module)?)?;
    module.add_function(wrap_pyfunction!(together::collective_problem, module)?)?;
    module.add_function(wrap_pyfunction!(metrics::metric_problem, module)?)?;
    module.add_function(wrap_pyfunction!(metrics::metric_columns, module)?)?;
    module.add_function(wrap_pyfunction!(model::gbdt_problems, module)?)?;
    module.add_function(wrap_pyfunction!(model::forest_problems, module)?)?;
    module.add_function(wrap_pyfunction!(model::linear_problems, module)?)?;
    module.add_function(wrap_pyfunction!(statistics::check_histogram_params, module)?)?;
    module.add_class::<batches::PyBatchedFit>()?;
    module.add_class::<encoding::python::PyEncoder>()?;
    module.add_function(wrap_pyfunction!(encoding::python::target_problems, module)?)
}
