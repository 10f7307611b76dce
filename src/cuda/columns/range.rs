//! The range of a column and the rows of the bins between, in one launch: blocks wait for each other between the two
//! passes, so that nothing goes to the host and back, and the second pass begins where the first one ended, with what
//! is still in the cache.

use super::stats::{COUNT_THREADS, extremes_of, layout};
use crate::columns::kernel_names::{NO_VALIDITY, kernel_of};
use crate::runtime::column::{DeviceColumn, Form};
use crate::runtime::device::Image;
use crate::runtime::memory::pointer;
use crate::runtime::queue::{Queue, grid};
use cudarc::driver::PushKernelArg;
use taiga_core::error::Result;
use taiga_core::stats::MinMax;

/// `kernels/columns/range.cu`.
const RANGE: Image = Image { name: "columns/range", bytes: taiga_kernels::images::range };

/// `TOTALS_AT` of `kernels/columns/range.cu`, and the byte in front of it where the extremes begin.
const TOTALS_AT: usize = 3;
const EXTREMES_AT: usize = 8;

/// A column's extremes, and what was counted between them.
pub struct Ranged {
    pub extremes: Option<MinMax>,
    /// The rows of each bin of equal width between the extremes, whose edges are those of [`taiga_core::stats::bins::Bins`];
    /// none where there are no such bins, or they are not for an estimate.
    pub counts: Option<Vec<u64>>,
}

/// The extremes, and the rows of `bins` bins; none where one launch can't do it: for many bins, whose counters do not fit
/// shared memory, and for values of 128 bits.
///
/// # Errors
/// [`taiga_core::Error::Device`].
pub fn count_by_range(queue: &Queue, column: &DeviceColumn, bins: usize) -> Result<Option<Ranged>> {
    let (gpu, form) = (queue.gpu(), column.form());
    let Some(name) = kernel_of!("range", form).filter(|_| column.rows() > 0) else { return Ok(None) };
    let kernel = gpu.kernel(RANGE, name)?;
    let layout = layout(gpu, &kernel, bins, if form == Form::F32 { 4 } else { 8 })?;
    // Extremes are reduced in the same shared memory.
    let shared = layout.shared.max(2 * COUNT_THREADS * form.size() as u32);
    if layout.shift == 32 || layout.edges_in_shared == 0 || shared > kernel.shared {
        return Ok(None);
    }
    let together = gpu.multiprocessors() * kernel.blocks_per_multiprocessor(gpu, COUNT_THREADS, shared)?;
    let blocks = ((column.rows() * form.size()).div_ceil(16 * COUNT_THREADS as usize) as u32).min(together);
    if blocks == 0 {
        return Ok(None);
    }
    let partial = queue.alloc::<u8>("the extremes", blocks as usize * 2 * form.size())?;
    let mut out = queue.zeros::<u64>("the counts", TOTALS_AT + bins)?;
    let (validity, rows, count) = (column.validity().map_or(NO_VALIDITY, |v| pointer(queue, v)), column.rows() as u64, bins as u32);
    let mut arguments = queue.arguments(&kernel);
    arguments.arg(column.values()).arg(&validity).arg(&rows).arg(&count).arg(&layout.shift).arg(&partial).arg(&mut out);
    // SAFETY: the arguments are those of `range_*`; the column has `rows` values of the kernel's type, each block writes two
    // extremes, and shared memory holds the edges and counters that the layout says.
    unsafe { queue.submit_together(&kernel, arguments, grid(blocks, COUNT_THREADS, shared)) }?;
    let mut found = queue.read(&out)?;
    let head: Vec<u8> = found[..TOTALS_AT].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let extremes = extremes_of(form, &head[EXTREMES_AT..EXTREMES_AT + 2 * form.size()]);
    // The upper half of the first word.
    let counted = head[4] != 0;
    found.truncate(TOTALS_AT + bins);
    found.drain(..TOTALS_AT);
    Ok(Some(Ranged { extremes, counts: counted.then_some(found) }))
}
