//! NVIDIA GPUs, found at run time: the same results as the CPU's, byte for byte.
//!
//! - [`device`]: what GPUs there are, or why there is none; one [`Gpu`] a device and process, with
//!   its context and its loaded kernels.
//! - [`queue`]: a [`Queue`] is what one query works with: a stream, its allocations, its launches.
//! - [`memory`]: how much there is, and the check before anything is allocated.
//! - [`upload`]: from borrowed host memory through pinned buffers, at the speed of the bus.
//! - [`cache`]: columns that stay for the next expression, found by their [`fingerprint`].
//! - [`trees`]: boosted trees; [`forest`]: random forests; [`linear`]: sparse logistic regression.
//! - [`mod@column`]: columns on the GPU; [`stats`], [`range`], [`stats2d`]: their statistics; [`codes`]:
//!   their codes; [`borders`]: their borders; [`encoding`]: target encoding; [`combine`]: combinations; [`ctr`]: statistics of categories inside the trees;
//!   [`predict`]: models applied.
//! - [`sort`]: CUB's radix sort.
//! - [`error`]: the driver's errors in our words.
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
