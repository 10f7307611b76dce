//! NVIDIA GPUs, found at run time: the same results as the CPU's, byte for byte.
//!
//! - [`runtime`]: GPUs found, streams and launches, memory, the way over the bus, columns that stay for the next
//!   expression, CUB's sorts and scans.
//! - [`columns`]: statistics, borders and codes of columns, target encoding, combinations of categories.
//! - [`trees`]: boosted trees; [`forest`]: random forests; [`linear`]: sparse logistic regression.
//! - [`predict`]: models applied.
//!
//! A file here and the file of `kernels/` that it launches have one name, and the structs that both read stand
//! in the kernels' headers, which their twins here are written from (`kernels/shared_structs.rs`).
//!
//! Everything of a query is ordered by its queue's stream; nothing is freed before what was queued
//! before it has run. Two queues know nothing of each other unless one waits for the other
//! ([`Queue::wait_for`]).

pub mod columns;
pub mod forest;
pub mod linear;
pub mod predict;
pub mod runtime;
pub mod trees;

pub use columns::CudaColumns;
pub use runtime::{DeviceColumn, Gpu, Image, Kernel, Queue, grid};

/// The driver's interface, for tests that look behind ours.
#[doc(hidden)]
pub use cudarc;
