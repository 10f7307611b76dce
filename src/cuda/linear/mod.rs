//! Sparse logistic regression on the GPU: [`passes`] over all rows, for L-BFGS, and [`batches`] of some. Rows are kept as
//! compressed sparse rows ([`csr`]) or cut into [`tiles`]; those of [`several`] GPUs are dealt to them.

mod batches;
pub mod csr;
mod passes;
pub mod probe;
mod several;
mod tiles;

pub use batches::CudaBatches;
pub use passes::CudaLinear;
pub use several::with_passes;

use crate::runtime::device::Image;
use crate::runtime::layouts::kernel_structs;
use crate::runtime::queue::Queue;
use cudarc::driver::{CudaSlice, DevicePtr};
use taiga_core::error::{Error, Result};
use taiga_core::learners::linear::problem::Problem;

/// `kernels/linear.cu`.
const LINEAR: Image = Image { name: "linear", bytes: taiga_kernels::images::linear };

kernel_structs! { DenseRows, FeatureScale }

fn address<T>(queue: &Queue, slice: &CudaSlice<T>) -> u64 {
    slice.device_ptr(queue.stream()).0
}

/// An error where numbers are beyond what launches can have.
fn check_shape(p: &Problem<'_>) -> Result<()> {
    if p.rows > i32::MAX as usize || p.dense.len() >= 1 << 16 || p.outputs >= 1 << 16 {
        return Err(Error::parameter(
            "device",
            "\"cuda\": there are at most 2,147,483,647 rows, 65,535 dense columns and 65,535 classes; use \"cpu\"",
        ));
    }
    Ok(())
}
