//! Shapley values of boosted trees on the GPU: what [`taiga_core::learners::boosting::model::apply::Predictor::explain`] computes, with
//! the same bits.
//!
//! The tables of all trees ([`taiga_core::shap::tables`]) are made by the threads of this process, once, and stay on the GPU; a thread
//! there takes a row through all of them, in their order.

use super::PREDICT;
use super::trees::DevicePredictor;
use crate::launch;
use crate::runtime::column::bytes_of_mut;
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
use taiga_core::shap::tables::{Bit, Tables};
use taiga_core::shap::{Explanation, Terms};

kernel_structs! { PatternStep, ShapLookUp, ShapPart }

/// Shared memory of a block that lets several of them run beside each other, and the least threads of one that are worth it.
const GOOD_SHARED: usize = 72 << 10;
const THREADS: [usize; 4] = [256, 128, 64, 32];

/// The most numbers that a launch writes.
const MOST_NUMBERS: usize = 1 << 27;
/// Fewer rows come in one copy of all columns, not in one a column.
const COPIED_TOGETHER: usize = 1 << 16;

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
    scale: f64,
    lookups: CudaSlice<ShapLookUp>,
    first_lookup: CudaSlice<u32>,
    steps: CudaSlice<PatternStep>,
    places: CudaSlice<u32>,
    values: CudaSlice<f64>,
    first_part: CudaSlice<u32>,
    parts: CudaSlice<ShapPart>,
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
        let (first_part, parts) = parts_of_columns(explainer.players(), columns);
        let made = DeviceExplainer {
            lookups: upload(&queue, "tables", &lookups)?,
            first_lookup: queue.copy_of("tables", &first_lookup)?,
            steps: upload(&queue, "tables", &steps)?,
            places: upload(&queue, "tables", &places)?,
            values: upload(&queue, "tables", &tables.values)?,
            first_part: queue.copy_of("tables", &first_part)?,
            parts: queue.copy_of("tables", &parts)?,
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

    /// [`Predictor::explain`] on the GPU; `columns` as [`Predictor::bind`] gives them, `shap` as it was given to
    /// [`DeviceExplainer::new`].
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn explain(&self, queue: &Queue, shap: &ShapValues, columns: &[&Column<'_>]) -> Result<Explanation> {
        let rows = columns.first().map_or(0, |c| c.len());
        let mut all = Explanation::with_capacity(self.outputs, self.columns, rows, self.terms);
        if rows == 0 {
            return Ok(all);
        }
        let codes = self.predictor.codes(queue, columns, rows)?;
        let threads = self.threads(queue);
        let numbers = self.outputs * if threads.is_some() { self.columns } else { self.term_count };
        let step = (MOST_NUMBERS / numbers.max(1)).clamp(1, rows);
        queue.check_memory("explaining", (8 * step * numbers) as u64)?;
        let mut out = queue.alloc::<f64>("explanations", step * numbers)?;
        for start in (0..rows).step_by(step) {
            interrupt::poll();
            let n = step.min(rows - start);
            self.launch(queue, &codes, rows, (start, n), threads, &mut out)?;
            if threads.is_some() {
                self.append_values(queue, &out, n, &mut all)?;
            } else {
                let mut sums = vec![0.0; n * numbers];
                queue.download(&out, bytes_of_mut(&mut sums))?;
                let mut credited = shap.explainer().credit(&sums, n, self.terms);
                credited.scale(self.scale);
                all.append(credited);
            }
        }
        Ok(all)
    }

    /// Threads of a block whose sums stand in shared memory, where there is room and columns are credited there: interactions are
    /// credited by the host.
    fn threads(&self, queue: &Queue) -> Option<usize> {
        let bytes = |threads: usize| 8 * threads * self.term_count.max(1);
        let most = queue.gpu().shared_per_block() as usize;
        let good = THREADS.into_iter().find(|t| bytes(*t) <= GOOD_SHARED.min(most));
        good.or_else(|| THREADS.into_iter().find(|t| bytes(*t) <= most)).filter(|_| self.terms == Terms::Values)
    }

    /// Explains rows `start .. start + n`; does not wait.
    fn launch(
        &self,
        queue: &Queue,
        codes: &CudaSlice<u8>,
        all_rows: usize,
        (start, n): (usize, usize),
        threads: Option<usize>,
        out: &mut CudaSlice<f64>,
    ) -> Result<()> {
        let kernel = queue.gpu().kernel(PREDICT, "explain_trees")?;
        let (columns, terms) = (if threads.is_some() { self.columns as u32 } else { 0 }, self.term_count as u32);
        let block = threads.unwrap_or(THREADS[0]);
        let shared = if threads.is_some() { 8 * block * self.term_count.max(1) } else { 0 };
        kernel.allow_shared(queue.gpu(), shared as u32)?;
        let shape = LaunchConfig {
            grid_dim: (n.div_ceil(block) as u32, self.outputs as u32, 1),
            block_dim: (block as u32, 1, 1),
            shared_mem_bytes: shared as u32,
        };
        let (rows, first, stride) = (n as u64, start as u64, DevicePredictor::stride(all_rows) as u64);
        // SAFETY: the arguments are those of `explain_trees`: codes of all rows and slots, look-ups whose steps, places and values are
        // there, and room for each row and output's columns or terms.
        unsafe {
            launch!(queue, kernel, shape;
                &rows, &first, &stride, codes, &self.lookups, &self.first_lookup, &self.steps, &self.places, &self.values, &terms, &columns,
                &self.first_part, &self.parts, &self.scale, out)
        }
    }

    /// Appends `[output][column][row]` of the GPU.
    fn append_values(&self, queue: &Queue, from: &CudaSlice<f64>, n: usize, all: &mut Explanation) -> Result<()> {
        let columns = self.outputs * self.columns;
        let mut together = vec![];
        if n < COPIED_TOGETHER {
            together.resize(n * columns, 0.0);
            queue.download(&from.slice(..n * columns), bytes_of_mut(&mut together))?;
        }
        for (i, out) in all.values.iter_mut().flatten().enumerate() {
            if together.is_empty() {
                let before = out.len();
                out.resize(before + n, 0.0);
                queue.download(&from.slice(i * n..(i + 1) * n), bytes_of_mut(&mut out[before..]))?;
            } else {
                out.extend_from_slice(&together[i * n..(i + 1) * n]);
            }
        }
        Ok(())
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
                    bits: lookup.bits,
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

/// Of each column the players that it is one of, in their order; where those of each begin.
fn parts_of_columns(players: &[Vec<u32>], columns: usize) -> (Vec<u32>, Vec<ShapPart>) {
    let (mut first, mut parts) = (vec![0], vec![]);
    for column in 0..columns as u32 {
        let own = players.iter().enumerate().filter(|(_, of)| of.contains(&column));
        parts.extend(own.map(|(player, of)| ShapPart { player: player as u32, columns: of.len() as u32 }));
        first.push(parts.len() as u32);
    }
    (first, parts)
}
