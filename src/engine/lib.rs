//! The engine of polars-taiga as its users see it: fits and verbs on the device that is asked for; no Polars, no Python.
//!
//! The algorithms are those of `taiga-core`, whose modules stand here again; what a device does for them is in `taiga-cpu` and
//! `taiga-cuda`. Which of the two does some work is decided here, in [`device`], and nowhere else.

pub mod device;
pub mod learners;

pub use taiga_core::{
    Error, Result, collective, column, column_steps, dataset, encoding, envelope, error, import, losses, memory, metadata, metrics, model,
    numerics, objective, pages, parallel, params, provenance, quantize, receipt, shap, spill, stats, symbolic, tree,
};
#[doc(hidden)]
pub use taiga_cpu as cpu;
#[cfg(feature = "cuda")]
#[doc(hidden)]
pub use taiga_cuda as cuda;
