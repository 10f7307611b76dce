//! Shapley values of boosted trees on the GPU: what [`taiga_core::learners::boosting::model::apply::Predictor::explain`] computes, with
//! the same bits.
//!
//! The tables of all trees ([`taiga_core::shap::tables`]) are made by the threads of this process, once, and stay on the GPU; a thread
//! there takes a row through all of them, in their order.

use super::PREDICT;
use super::trees::DevicePredictor;
use crate::launch;
use crate::runtime::layouts::kernel_structs;
use crate::runtime::queue::Queue;
use crate::runtime::upload::upload;
use cudarc::driver::{CudaSlice, LaunchConfig};
use std::sync::Arc;
use taiga_core::column::Column;
use taiga_core::error::Result;
use taiga_core::learners::boosting::model::apply::Predictor;
use taiga_core::learners::boosting::model::shap::ShapValues;
use taiga_core::parallel::interrupt;
use taiga_core::parallel::thread_pool::ThreadPool;
use taiga_core::shap::explainer::Credit;
use taiga_core::shap::tables::{Bit, Tables};
use taiga_core::shap::{Explanation, Terms};

kernel_structs! { PatternStep, ShapLookUp, ShapPart }

/// Shared memory of a block that lets several of them run beside each other, and the least threads of one that are worth it.
const GOOD_SHARED: usize = 72 << 10;
const THREADS: [usize; 4] = [256, 128, 64, 32];

/// The most numbers that a launch writes.
const MOST_NUMBERS: usize = 1 << 27;
/// Places that a thread credits; the kernel's CREDITED.
const CREDITED: usize = 16;

/// A model's tables on a GPU, to explain rows, many times and from several threads at once.
pub struct DeviceExplainer {
    /// What the buffers were made on; it outlives them.
    queue: Queue,
    predictor: Arc<DevicePredictor>,
    terms: Terms,
    outputs: usize,
    /// The number of terms of all players.
    term_count: usize,
    columns: usize,
    players: u32,
    scale: f64,
    lookups: CudaSlice<ShapLookUp>,
    first_lookup: CudaSlice<u32>,
    steps: CudaSlice<PatternStep>,
    places: CudaSlice<u32>,
    values: CudaSlice<f64>,
    of_columns: Parts,
    of_pairs: Option<Parts>,
}

impl DeviceExplainer {
    /// Computes the tables of a model with `pool`, and copies them to the GPU where `on_device` is.
    ///
    /// # Errors
    /// As [`taiga_core::shap::Explainer::tables`], and [`taiga_core::Error::Device`].
    pub fn new(on_device: Arc<DevicePredictor>, predictor: &Predictor, shap: &ShapValues, terms: Terms, pool: &ThreadPool) -> Result<Self> {
        let queue = Queue::new(on_device.gpu())?;
        let explainer = shap.explainer();
        let tables = explainer.tables(terms, pool)?;
        queue.check_memory("the tables of the model's trees", 8 * tables.values.len() as u64)?;
        let columns = predictor.model().features.len();
        let Program { lookups, first_lookup, steps, places } = Program::new(&tables, predictor);
        let credits = |credits: &[Vec<Credit>]| Parts::new(&queue, credits);
        let made = DeviceExplainer {
            lookups: upload(&queue, "tables", &lookups)?,
            first_lookup: queue.copy_of("tables", &first_lookup)?,
            steps: upload(&queue, "tables", &steps)?,
            places: upload(&queue, "tables", &places)?,
            values: upload(&queue, "tables", &tables.values)?,
            of_columns: credits(explainer.credits(Terms::Values))?,
            of_pairs: (terms == Terms::Interactions).then(|| credits(explainer.credits(terms))).transpose()?,
            players: explainer.players().len() as u32,
            predictor: on_device,
            terms,
            outputs: tables.outputs,
            term_count: tables.terms,
            columns,
            scale: predictor.model().scale,
            queue,
        };
        made.queue.synchronize()?;
        Ok(made)
    }

    /// [`Predictor::explain`] on the GPU; `columns` as [`Predictor::bind`] gives them.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn explain(&self, queue: &Queue, columns: &[&Column<'_>]) -> Result<Explanation> {
        let rows = columns.first().map_or(0, |c| c.len());
        let mut all = Explanation::with_capacity(self.outputs, self.columns, rows, self.terms);
        if rows == 0 {
            return Ok(all);
        }
        let codes = self.predictor.codes(queue, columns, rows)?;
        let threads = self.threads(queue);
        let sums = if threads.is_some() { 0 } else { self.outputs * self.term_count };
        let values = self.outputs * self.of_columns.count;
        let pairs = self.outputs * self.of_pairs.as_ref().map_or(0, |parts| parts.count);
        let step = (MOST_NUMBERS / (sums + values + pairs).max(1)).clamp(1, rows);
        queue.check_memory("explaining", (8 * step * (sums + values + pairs)) as u64)?;
        let room = |n: usize| queue.alloc::<f64>("explanations", step * n);
        let (mut sums, mut values, mut pairs) = (room(sums)?, room(values)?, room(pairs)?);
        for start in (0..rows).step_by(step) {
            interrupt::poll();
            let n = step.min(rows - start);
            let block = Rows { codes: &codes, all: rows, start, n };
            if let Some(threads) = threads {
                self.explain_values(queue, &block, threads, &mut values)?;
            } else {
                self.explain_terms(queue, &block, &mut sums)?;
                self.credit(queue, &sums, n, &self.of_columns, false, &mut values)?;
                if let Some(of_pairs) = &self.of_pairs {
                    self.credit(queue, &sums, n, of_pairs, true, &mut pairs)?;
                }
            }
            queue.append_parts(&values, n, all.values.iter_mut().flatten())?;
            queue.append_parts(&pairs, n, all.interactions.iter_mut().flatten())?;
        }
        Ok(all)
    }

    /// Threads of a block whose sums stand in shared memory, where there is room; interactions have too many.
    fn threads(&self, queue: &Queue) -> Option<usize> {
        let bytes = |threads: usize| 8 * threads * self.term_count.max(1);
        let most = queue.gpu().shared_per_block() as usize;
        let good = THREADS.into_iter().find(|t| bytes(*t) <= GOOD_SHARED.min(most));
        good.or_else(|| THREADS.into_iter().find(|t| bytes(*t) <= most)).filter(|_| self.terms == Terms::Values)
    }

    /// The grid of threads that take a row of an output each.
    fn grid(&self, rows: usize, threads: usize, shared: usize) -> LaunchConfig {
        LaunchConfig {
            grid_dim: (rows.div_ceil(threads) as u32, self.outputs as u32, 1),
            block_dim: (threads as u32, 1, 1),
            shared_mem_bytes: shared as u32,
        }
    }

    /// Explains rows, `out[output][column][row]`; does not wait.
    fn explain_values(&self, queue: &Queue, block: &Rows<'_>, threads: usize, out: &mut CudaSlice<f64>) -> Result<()> {
        let kernel = queue.gpu().kernel(PREDICT, "explain_values")?;
        let shared = 8 * threads * self.term_count.max(1);
        kernel.allow_shared(queue.gpu(), shared as u32)?;
        let (rows, first, stride) = block.place();
        let (columns, terms, parts) = (self.columns as u32, self.term_count as u32, &self.of_columns);
        // SAFETY: the arguments are those of `explain_values`: codes of all rows and slots, look-ups whose steps, places and values are
        // there, room for the sums of a block's threads, and for each row and output's columns.
        unsafe {
            launch!(queue, kernel, self.grid(block.n, threads, shared);
                &rows, &first, &stride, block.codes, &self.lookups, &self.first_lookup, &self.steps, &self.places, &self.values, &terms,
                &columns, &parts.first, &parts.parts, &self.scale, out)
        }
    }

    /// Sums what rows find, `sums[output][term][row]`; does not wait.
    fn explain_terms(&self, queue: &Queue, block: &Rows<'_>, sums: &mut CudaSlice<f64>) -> Result<()> {
        let kernel = queue.gpu().kernel(PREDICT, "explain_terms")?;
        let (rows, first, stride) = block.place();
        let terms = self.term_count as u32;
        // SAFETY: the arguments are those of `explain_terms`: as above, and room for each row and output's terms.
        unsafe {
            launch!(queue, kernel, self.grid(block.n, THREADS[0], 0);
                &rows, &first, &stride, block.codes, &self.lookups, &self.first_lookup, &self.steps, &self.places, &self.values, &terms, sums)
        }
    }

    /// Credits columns, or columns and pairs, with their parts of `n` rows' sums; does not wait.
    fn credit(&self, queue: &Queue, sums: &CudaSlice<f64>, n: usize, parts: &Parts, alone: bool, out: &mut CudaSlice<f64>) -> Result<()> {
        let kernel = queue.gpu().kernel(PREDICT, "credit_terms")?;
        let mut shape = self.grid(n, THREADS[0], 0);
        shape.grid_dim.2 = parts.count.div_ceil(CREDITED) as u32;
        let (rows, terms, alone, count) = (n as u64, self.term_count as u32, alone as u32, parts.count as u32);
        // SAFETY: the arguments are those of `credit_terms`: sums of each row and output, parts whose terms are some of them, and room
        // for each row and output's places.
        unsafe {
            launch!(queue, kernel, shape;
                &rows, sums, &terms, &self.players, &alone, &count, &parts.first, &parts.parts, &self.scale, out)
        }
    }
}

/// A block of rows, of all whose codes are on the GPU.
struct Rows<'a> {
    codes: &'a CudaSlice<u8>,
    all: usize,
    start: usize,
    n: usize,
}

impl Rows<'_> {
    /// The number of its rows, the first, and the distance of two slots' codes.
    fn place(&self) -> (u64, u64, u64) {
        (self.n as u64, self.start as u64, DevicePredictor::stride(self.all) as u64)
    }
}

/// What some places are credited with.
struct Parts {
    /// How many places.
    count: usize,
    /// Where the parts of each begin.
    first: CudaSlice<u32>,
    parts: CudaSlice<ShapPart>,
}

impl Parts {
    fn new(queue: &Queue, credits: &[Vec<Credit>]) -> Result<Self> {
        let (mut first, mut parts) = (vec![0], vec![]);
        for of in credits {
            parts.extend(of.iter().map(|c| ShapPart { term: c.term as u32, divisor: c.divisor, halves: c.halves }));
            first.push(parts.len() as u32);
        }
        Ok(Parts { count: credits.len(), first: queue.copy_of("tables", &first)?, parts: queue.copy_of("tables", &parts)? })
    }
}

/// Look-ups as the kernel takes them, those of an output after those of another.
struct Program {
    lookups: Vec<ShapLookUp>,
    first_lookup: Vec<u32>,
    steps: Vec<PatternStep>,
    places: Vec<u32>,
}

impl Program {
    fn new(tables: &Tables, predictor: &Predictor) -> Self {
        let parts = predictor.parts();
        let mut program = Program { lookups: vec![], first_lookup: vec![0], steps: vec![], places: vec![] };
        for output in 0..tables.outputs {
            for lookup in tables.lookups.iter().filter(|l| l.output == output) {
                program.lookups.push(ShapLookUp {
                    first_value: lookup.first_value as u64,
                    first_step: program.steps.len() as u32,
                    steps: lookup.steps.len() as u32,
                    first_pattern: lookup.first_pattern,
                    pitch: lookup.pitch() as u32,
                    first_place: program.places.len() as u32,
                    terms: lookup.places.len() as u32,
                });
                program.places.extend(lookup.places.iter().map(|place| *place as u32));
                program.steps.extend(lookup.steps.iter().map(|step| {
                    let (slot, shift, above) = parts.tests[parts.trees[lookup.tree].first_test + step.test as usize];
                    let change = match step.change {
                        Bit::Set => 0,
                        Bit::Lead { right } => 2 + right as u8,
                    };
                    PatternStep { slot, shift, above, bit: step.bit, change }
                }));
            }
            program.first_lookup.push(program.lookups.len() as u32);
        }
        program
    }
}
