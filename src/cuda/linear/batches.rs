//! Batches on the GPU: stochastic gradient descent, Adagrad and FTRL-proximal, in the CPU's bits.
//!
//! ```text
//! rows in the order in which they are dealt: all of them on the device, or blocks of batches that pass through
//! a batch: scores and residuals ─► sums of features, integers ─► a step of each feature that occurs
//! ```

use super::csr::{CsrBlock, CsrRows, resident_limit, streamed_entries};
use super::{DenseRows, FeatureScale, LINEAR, address};
use crate::launch;
use crate::runtime::column::bytes_of_mut;
use crate::runtime::device::{Gpu, Kernel};
use crate::runtime::error::driver;
use crate::runtime::layouts::kernel_structs;
use crate::runtime::queue::{Queue, grid};
use crate::runtime::upload::upload;
use cudarc::driver::{CudaEvent, CudaSlice, LaunchConfig};
use taiga_core::error::{Error, Result};
use taiga_core::learners::linear::Optimizer;
use taiga_core::learners::linear::batches::Deal;
use taiga_core::learners::linear::csr::Csr;
use taiga_core::learners::linear::rule::Rule;
use taiga_core::learners::linear::snapshot::BatchState;
use taiga_core::learners::linear::steps::{BatchSteps, Task};

/// Batches between two questions whether to stop.
const STEPS_A_QUESTION: usize = 64;

impl RuleParams {
    fn new(rule: &Rule) -> RuleParams {
        let optimizer = match rule.optimizer {
            Optimizer::Adagrad => 1,
            Optimizer::Ftrl => 2,
            Optimizer::Sgd | Optimizer::Lbfgs => 0,
        };
        RuleParams { optimizer, rate: rule.rate, l1: rule.l1, l2: rule.l2 }
    }
}

kernel_structs! { RuleParams, BatchFit }

/// Where rows are: all of them, or two places for blocks of batches.
enum BatchRows {
    None,
    Resident(CsrBlock),
    Streamed(Box<[StreamedBlock; 2]>),
}

/// A place for blocks that pass through.
struct StreamedBlock {
    queue: Queue,
    block: CsrBlock,
    /// When its last block has been worked on.
    done: Option<CudaEvent>,
}

/// A fit by batches on a GPU.
pub struct CudaBatches<'p, 'a> {
    queue: Queue,
    passes: &'p Task<'p, 'a>,
    deal: &'p Deal,
    storage: BatchRows,
    fit: BatchFit,
    kernels: [Kernel; 4],
    /// What `fit` points to: coefficients with what is remembered of them, and the rest.
    c: CudaSlice<f32>,
    state: CudaSlice<u64>,
    others: CudaSlice<f64>,
    _kept: Vec<Box<dyn std::any::Any>>,
}

impl<'p, 'a> CudaBatches<'p, 'a> {
    /// The problem of `passes` on GPU `number`.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn new(number: Option<u32>, passes: &'p Task<'p, 'a>, deal: &'p Deal) -> Result<Self> {
        let queue = Queue::new(Gpu::get(number)?)?;
        let p = passes.problem;
        super::check_shape(p)?;
        let coefficients = p.width * p.outputs;
        let entries = |rows: &[usize]| p.csr.as_ref().map_or(0, |csr| rows.iter().map(|i| csr.row(*i).keys.len()).sum::<usize>());
        let size = if p.csr.as_ref().is_some_and(Csr::has_values) { 8 } else { 4 };
        let batches = || deal.rows.chunks(deal.batch);
        let most = batches().map(entries).max().unwrap_or(0);
        // A block that passes through has whole batches.
        let block_entries = streamed_entries().max(most);
        let block_rows = deal.rows.len();
        let always = deal.rows.len() * (8 * p.dense.len() + 8) + p.coefficients() * 32 + 8 * deal.batch * p.outputs + (1 << 20);
        let all: usize = batches().map(entries).sum::<usize>() * size + 4 * deal.rows.len();
        let resident =
            all as u64 <= resident_limit() && all / size < u32::MAX as usize && queue.has_room((always + all) as u64).unwrap_or(false);
        if !resident {
            let blocks = 2 * (block_entries * size + 4 * block_rows);
            queue.check_memory("a logistic regression, though its rows are not kept there,", (always + blocks) as u64)?;
        }
        let codes: Vec<u32> = deal.rows.iter().map(|i| p.codes[*i]).collect();
        let codes = upload(&queue, "classes", &codes)?;
        let weight = p.weight.as_ref().map(|w| deal.rows.iter().map(|i| w[*i]).collect::<Vec<f32>>());
        let weight = weight.map(|w| upload(&queue, "weights", &w)).transpose()?;
        let column = |c: &taiga_core::column::Column<'_>| upload(&queue, c.name(), &c.gather_f64(&deal.rows));
        let dense = p.dense.iter().map(column).collect::<Result<Vec<_>>>()?;
        let addresses: Vec<u64> = dense.iter().map(|c| address(&queue, c)).collect();
        let addresses = queue.copy_of("dense columns", &addresses)?;
        let inverse = passes.feature_scale.inverse.as_ref().map(|i| upload(&queue, "units", i)).transpose()?;
        let storage = match &p.csr {
            None => BatchRows::None,
            Some(csr) if resident => {
                let mut block = CsrBlock::room(&queue, deal.rows.len(), all / size, csr.has_values())?;
                block.fill_with(&queue, csr, 0, &deal.rows)?;
                BatchRows::Resident(block)
            }
            Some(csr) => {
                let lane = || -> Result<StreamedBlock> {
                    let queue = Queue::new(queue.gpu())?;
                    let block = CsrBlock::room(&queue, block_rows, block_entries, csr.has_values())?;
                    Ok(StreamedBlock { queue, block, done: None })
                };
                BatchRows::Streamed(Box::new([lane()?, lane()?]))
            }
        };
        let c = queue.zeros::<f32>("coefficients", coefficients)?;
        let state = queue.zeros::<u64>("coefficients", coefficients)?;
        let sums = queue.zeros::<i64>("sums of features", coefficients)?;
        let others = queue.zeros::<f64>("coefficients", 3 * (p.dense.len() + 1) * p.outputs)?;
        let residuals = queue.alloc::<f64>("residuals", deal.batch.min(deal.rows.len()) * p.outputs)?;
        let rows = DenseRows {
            dense: address(&queue, &addresses),
            codes: address(&queue, &codes),
            weight: weight.as_ref().map_or(0, |w| address(&queue, w)),
            rows: deal.rows.len() as u64,
            columns: p.dense.len() as u32,
            outputs: p.outputs as u32,
        };
        let fit = BatchFit {
            rows,
            feature_scale: FeatureScale {
                inverse: inverse.as_ref().map_or(0, |i| address(&queue, i)),
                common: passes.feature_scale.common,
            },
            rule: RuleParams::new(&deal.rule),
            free: RuleParams::new(&deal.free),
            c: address(&queue, &c),
            state: address(&queue, &state),
            sums: address(&queue, &sums),
            others: address(&queue, &others),
            residuals: address(&queue, &residuals),
            mean_weight: deal.mean_weight,
            scale: deal.scale,
            coefficients: coefficients as u64,
            intercept: p.fit_intercept as u64,
        };
        let kernel = |name| queue.gpu().kernel(LINEAR, name);
        let kernels =
            [kernel("linear_batch_scores")?, kernel("linear_batch_residuals")?, kernel("linear_batch_add")?, kernel("linear_batch_step")?];
        queue.synchronize()?;
        Ok(CudaBatches {
            queue,
            passes,
            deal,
            storage,
            fit,
            kernels,
            c,
            state,
            others,
            _kept: vec![Box::new((sums, residuals)), Box::new((codes, weight, dense, addresses, inverse))],
        })
    }

    /// One batch. Does not wait.
    fn step(queue: &Queue, kernels: &[Kernel; 4], fit: &BatchFit, lists: &CsrRows, now: f64) -> Result<()> {
        let [scores, residuals, add, step] = kernels;
        let others = |config: LaunchConfig| grid(config.grid_dim.0 + 1, 256, 0);
        // SAFETY: the arguments are those of the kernels: `lists` are rows of a batch, for which there is room, and their features
        // are below the width.
        unsafe {
            launch!(queue, scores, lists.config(); fit, lists, &now)?;
            if lists.outputs > 1 {
                launch!(queue, residuals, lists.of_threads(1); fit, lists)?;
            }
            if !lists.has_entries() {
                return launch!(queue, step, grid(1, 256, 0); fit, lists, &now);
            }
            launch!(queue, add, lists.eight(); fit, lists)?;
            launch!(queue, step, others(lists.eight()); fit, lists, &now)
        }
    }

    /// Runs of steps, each of as many as a block that passes through has room for.
    fn runs<'s>(&self, csr: &Csr<'_>, steps: &'s [usize], room: usize) -> Vec<&'s [usize]> {
        let (mut runs, mut first, mut entries) = (vec![], 0, 0);
        for (i, step) in steps.iter().enumerate() {
            let of_step: usize = self.deal.rows[self.deal.span(*step)].iter().map(|i| csr.row(*i).keys.len()).sum();
            if entries + of_step > room && i > first {
                runs.push(&steps[first..i]);
                (first, entries) = (i, 0);
            }
            entries += of_step;
        }
        runs.push(&steps[first..]);
        runs
    }

    fn check(&self) -> Result<()> {
        if self.passes.interrupted() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// A launch over all coefficients.
    fn striding(&self) -> LaunchConfig {
        let n = self.fit.coefficients as usize + 256;
        grid((n.div_ceil(256) as u32).min(self.queue.gpu().multiprocessors() * 8), 256, 0)
    }
}

impl BatchSteps for CudaBatches<'_, '_> {
    fn epoch(&mut self, steps: &[usize], past: f64, rate: f64) -> Result<()> {
        (self.fit.rule.rate, self.fit.free.rate) = (rate, rate);
        let time = |i: usize| past + (i * self.deal.batch) as f64;
        let outputs = self.fit.rows.outputs;
        if let (BatchRows::Streamed(_), Some(csr)) = (&self.storage, &self.passes.problem.csr) {
            let BatchRows::Streamed(mut lanes) = std::mem::replace(&mut self.storage, BatchRows::None) else { return Ok(()) };
            let mut begun = 0;
            let room = lanes[0].block.entries();
            let done = self.runs(csr, steps, room).into_iter().enumerate().try_for_each(|(turn, run)| {
                self.check()?;
                let StreamedBlock { queue: lane, block, done } = &mut lanes[turn % 2];
                let failed = |e| driver(lane.gpu(), "waiting for another stream", e);
                if let Some(done) = done.take() {
                    lane.stream().wait(&done).map_err(failed)?;
                }
                let rows: Vec<usize> = run.iter().flat_map(|step| self.deal.rows[self.deal.span(*step)].iter().copied()).collect();
                block.fill_with(lane, csr, 0, &rows)?;
                self.queue.wait_for(lane)?;
                let lists = block.lists(lane, outputs);
                let mut at = 0;
                for step in run {
                    let span = self.deal.span(*step);
                    let lists = lists.part(at, span.len(), span.start);
                    at += span.len();
                    Self::step(&self.queue, &self.kernels, &self.fit, &lists, time(begun))?;
                    begun += 1;
                }
                *done = Some(self.queue.stream().record_event(None).map_err(failed)?);
                Ok(())
            });
            // Whatever came of it: what is worked on is freed by the lanes.
            let joined = lanes.iter().try_for_each(|lane| lane.queue.wait_for(&self.queue));
            self.storage = BatchRows::Streamed(lanes);
            return done.and(joined);
        }
        let lists = match &self.storage {
            BatchRows::Resident(block) => block.lists(&self.queue, outputs),
            _ => CsrRows::none(outputs),
        };
        for (i, step) in steps.iter().enumerate() {
            if i % STEPS_A_QUESTION == 0 {
                self.check()?;
                // Not so far ahead that nobody could stop it.
                if i % (64 * STEPS_A_QUESTION) == 0 {
                    self.queue.synchronize()?;
                }
            }
            let span = self.deal.span(*step);
            Self::step(&self.queue, &self.kernels, &self.fit, &lists.part(span.start, span.len(), span.start), time(i))?;
        }
        self.queue.synchronize()
    }

    fn settle(&mut self, now: f64) -> Result<()> {
        let kernel = self.queue.gpu().kernel(LINEAR, "linear_batch_settle")?;
        // SAFETY: the arguments are those of `linear_batch_settle`.
        unsafe { launch!(self.queue, kernel, self.striding(); &self.fit, &now) }
    }

    fn vector(&mut self, now: f64) -> Result<Vec<f64>> {
        let mut out = vec![0.0; self.passes.problem.coefficients()];
        let mut found = self.queue.alloc::<f64>("coefficients", out.len())?;
        let kernel = self.queue.gpu().kernel(LINEAR, "linear_batch_vector")?;
        // SAFETY: the arguments are those of `linear_batch_vector`, and there is room for all coefficients.
        unsafe { launch!(self.queue, kernel, self.striding(); &self.fit, &now, &mut found) }?;
        self.queue.download(&found, bytes_of_mut(&mut out))?;
        Ok(out)
    }

    fn state(&mut self) -> Result<BatchState> {
        let cells = self.fit.coefficients as usize;
        let (mut c, mut state): (Vec<f32>, Vec<u64>) = (vec![0.0; cells], vec![0; cells]);
        let mut others = vec![0.0; self.passes.problem.coefficients().saturating_sub(cells) * 3];
        self.queue.download(&self.c, bytes_of_mut(&mut c))?;
        self.queue.download(&self.state, bytes_of_mut(&mut state))?;
        self.queue.download(&self.others, bytes_of_mut(&mut others))?;
        // n, and z above it: of rules other than FTRL's rows that are 0 now, in the bits of 0.0.
        let n = state.iter().map(|bits| f32::from_bits(*bits as u32)).collect();
        let z = state.iter().map(|bits| f32::from_bits((*bits >> 32) as u32)).collect();
        Ok(BatchState::new(c, n, z, others.as_chunks::<3>().0.to_vec()))
    }

    fn restore(&mut self, state: &BatchState) -> Result<()> {
        let cells = (0..self.fit.coefficients as usize).map(|at| state.of(at));
        let (c, bits): (Vec<f32>, Vec<u64>) = cells.map(|[c, n, z]| (c, u64::from(n.to_bits()) | u64::from(z.to_bits()) << 32)).unzip();
        self.c = self.queue.copy_of("coefficients", &c)?;
        self.state = self.queue.copy_of("coefficients", &bits)?;
        self.others = self.queue.copy_of("coefficients", state.others.as_flattened())?;
        self.fit.c = address(&self.queue, &self.c);
        self.fit.state = address(&self.queue, &self.state);
        self.fit.others = address(&self.queue, &self.others);
        self.queue.synchronize()
    }
}
