//! What a pass takes on a GPU, by its own clock: for `benches/cuda_linear.rs`.

use super::CudaLinear;
use crate::runtime::Queue;
use cudarc::driver::sys::CUevent_flags;
use std::time::Instant;
use taiga_core::dataset::Quiet;
use taiga_core::error::Result;
use taiga_core::learners::linear::checks::check_table;
use taiga_core::learners::linear::problem::problem;
use taiga_core::learners::linear::steps::{PassSteps, Task};
use taiga_core::learners::linear::{Input, LinearParams};
use taiga_core::parallel::thread_pool::ThreadPool;

/// Medians in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct PassTimes {
    /// What entries are kept as: `"tiles"`, `"lists"` or `"streamed"`.
    pub layout: &'static str,
    pub entries: usize,
    /// Coefficients of each feature: 1 where there are two classes.
    pub outputs: usize,
    /// Reading and checking the table, and bringing it to the device, by the host's clock.
    pub problem: f64,
    pub layout_ms: f64,
    /// By the kernels alone.
    pub scores: f64,
    pub gradient: f64,
    pub residuals: f64,
    pub along: f64,
    /// Scores and gradient with coefficients up and sums down, by the host's clock.
    pub whole_pass: f64,
    /// A copy of one gigabyte on the device, read and written.
    pub copy: f64,
}

/// Times passes over a table.
///
/// # Errors
/// Those of [`taiga_core::learners::linear::fit`].
pub fn pass_times(input: &Input<'_>, params: &LinearParams, repeats: usize) -> Result<PassTimes> {
    check_table(input, Some(input.target.rows()))?;
    let pool = ThreadPool::new(params.n_threads.unwrap_or(1) as usize)?;
    let start = Instant::now();
    let (problem, _) = problem(input, params, &pool)?;
    let passes = Task::new(&problem, &pool, &Quiet)?;
    let read = start.elapsed().as_secs_f64() * 1e3;
    let start = Instant::now();
    let linear = CudaLinear::new(None, &passes)?;
    let layout_ms = start.elapsed().as_secs_f64() * 1e3;
    let queue = &linear.queue;
    let median = |work: &dyn Fn() -> Result<()>| -> Result<f64> {
        let mut times = vec![];
        for _ in 0..repeats + 2 {
            let mark = || queue.stream().record_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).map_err(|e| queue.late(e));
            let before = mark()?;
            work()?;
            let after = mark()?;
            times.push(before.elapsed_ms(&after).map_err(|e| queue.late(e))? as f64);
        }
        Ok(middle(&mut times[2..]))
    };
    let p = &problem;
    let vector: Vec<f64> = (0..p.coefficients()).map(|i| ((i * 7919) % 1009) as f64 / 1009.0 - 0.5).collect();
    let mut scores = linear.rows(&vec![0.0; p.outputs])?;
    let mut residuals = linear.rows(&vec![0.0; p.outputs])?;
    linear.scores(&vector, &mut scores)?;
    let largest = linear.residuals(&scores, &mut residuals)?.largest;
    let mut times = PassTimes {
        layout: linear.layout(),
        entries: p.csr.as_ref().map_or(0, |c| c.entries()),
        outputs: p.outputs,
        problem: read,
        layout_ms,
        scores: f64::NAN,
        gradient: f64::NAN,
        residuals: median(&|| linear.residuals(&scores, &mut linear.rows(&vec![0.0; p.outputs])?).map(drop))?,
        along: median(&|| linear.along(&scores, &residuals, 0.5).map(drop))?,
        whole_pass: f64::NAN,
        copy: copy(queue, repeats)?,
    };
    if passes.precision.whole && times.layout != "streamed" {
        let (sparse, tail) = vector.split_at(p.width * p.outputs);
        let (numbers, scale) = linear.whole(sparse)?;
        let out = std::cell::RefCell::new(linear.rows(&vec![0.0; p.outputs])?);
        times.scores = median(&|| linear.whole_scores(tail, &numbers, scale, &mut out.borrow_mut()))?;
        let whole_scale = taiga_core::learners::linear::whole::power(largest, passes.precision.bits);
        let whole = std::cell::RefCell::new(linear.room()?);
        let sums = std::cell::RefCell::new(queue.zeros::<i64>("sums", p.width * p.outputs)?);
        times.gradient = median(&|| {
            linear.round(&residuals, whole_scale, &mut whole.borrow_mut())?;
            queue.clear(&mut *sums.borrow_mut())?;
            linear.add_whole(&whole.borrow(), &mut sums.borrow_mut())
        })?;
    }
    let mut gradient = vec![0.0; p.coefficients()];
    let mut whole_pass = vec![];
    for _ in 0..repeats.min(5) {
        let start = Instant::now();
        linear.scores(&vector, &mut scores)?;
        linear.gradient(&residuals, largest, &mut gradient)?;
        whole_pass.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.whole_pass = middle(&mut whole_pass);
    Ok(times)
}

fn middle(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A copy of a gigabyte on the device, in bytes read and written a second.
fn copy(queue: &Queue, repeats: usize) -> Result<f64> {
    const N: usize = 1 << 30;
    let (from, mut to) = (queue.zeros::<u8>("a copy", N)?, queue.alloc::<u8>("a copy", N)?);
    let mut times = vec![];
    for _ in 0..repeats + 2 {
        let mark = || queue.stream().record_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).map_err(|e| queue.late(e));
        let before = mark()?;
        queue.stream().memcpy_dtod(&from, &mut to).map_err(|e| queue.late(e))?;
        let after = mark()?;
        times.push(before.elapsed_ms(&after).map_err(|e| queue.late(e))? as f64);
    }
    Ok(2.0 * N as f64 / middle(&mut times[2..]) / 1e6)
}
