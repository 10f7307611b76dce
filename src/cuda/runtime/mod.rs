//! NVIDIA GPUs, found at run time: devices, queues of work, memory, columns on them.

pub mod cache;
pub mod column;
pub mod device;
pub mod driver_threads;
pub mod error;
mod fingerprint;
pub mod layouts;
pub mod memory;
pub mod nccl;
pub mod peers;
pub mod queue;
pub mod shard_threads;
pub mod sort;
pub mod upload;

pub use column::DeviceColumn;
pub use device::{Gpu, Image, Kernel};
pub use queue::{Queue, grid};
