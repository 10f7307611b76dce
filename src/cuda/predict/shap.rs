//! Shapley values of boosted trees and forests on the GPU: what [`taiga_core::shap::Explainer::explain`] computes, with the same bits.
//!
//! ```text
//! columns ─► codes and values ─► answers to the tests of some trees ─► look-ups in their tables  ┐
//!                                                                      or leaf after leaf        ├─► sums of terms ─► columns' credits
//!                                                                      or walks over all edges   ┘
//! ```
//!
//! What is looked up or gone through ([`taiga_core::shap::program`]) is made by the threads of this process, once, and stays on the GPU.
//! Trees are added in their order, one launch after the other; neighbours that are looked up are one launch. Where all are, and codes
//! tell their tests, a thread there takes a row through all of them and credits columns by itself.

mod leaves;
mod lookups;
mod walks;

use super::PREDICT;
use super::answers::{ReadRows, RowBlock, RowTests};
use crate::launch;
use crate::runtime::layouts::kernel_structs;
use crate::runtime::queue::Queue;
use cudarc::driver::{CudaSlice, LaunchConfig};
use leaves::DeviceLeaves;
use lookups::DeviceTables;
use std::ops::Range;
use std::sync::Arc;
use taiga_core::column::Column;
use taiga_core::error::Result;
use taiga_core::learners::boosting::model::apply::Predictor;
use taiga_core::learners::forest;
use taiga_core::parallel::interrupt;
use taiga_core::parallel::thread_pool::ThreadPool;
use taiga_core::shap::credits::Credit;
use taiga_core::shap::program::Way;
use taiga_core::shap::{Explainer, Explanation, Terms};
use walks::DeviceWalk;

kernel_structs! { ShapPart }

/// The most numbers of the tables of branching trees: 1 GiB. Others are gone through leaf by leaf.
pub const MOST_TABLED: usize = 1 << 27;
/// The most bytes that the work on a block of rows takes.
const MOST_BYTES: usize = 1 << 30;
/// The most rows of a block where some trees are not looked up: enough for all processors, few enough for the caches.
const MOST_ROWS: usize = 1 << 15;
/// Trees that are looked up by answers go together up to so many tests.
const MOST_TESTS: usize = 1 << 12;
/// Places that a thread credits; the kernel's CREDITED.
const CREDITED: usize = 16;
/// Threads of a block.
const THREADS: usize = 256;

/// What explains the rows of a model: its tests, and what its columns' credits are multiplied by.
pub struct Explained<'a> {
    pub model: Arc<dyn RowTests>,
    pub explainer: &'a Explainer,
    /// The columns of the model, and the first test of each tree among those of all.
    pub columns: usize,
    pub first_tests: Vec<usize>,
    pub scale: f64,
    /// Slot, shift, above of each test, where codes tell all of them (`Test` in `plan.rs`).
    pub by_codes: Option<Vec<(u32, u8, u8)>>,
}

impl<'a> Explained<'a> {
    /// Describes boosted trees that are on a GPU as `model`.
    pub fn boosted(model: Arc<dyn RowTests>, predictor: &Predictor, explainer: &'a Explainer) -> Self {
        let (parts, fitted) = (predictor.parts(), predictor.model());
        let first_tests = parts.trees.iter().map(|tree| tree.first_test).collect();
        Explained { model, explainer, columns: fitted.features.len(), first_tests, scale: fitted.scale, by_codes: Some(parts.tests) }
    }

    /// Describes a forest that is on a GPU as `model`.
    pub fn forest(model: Arc<dyn RowTests>, predictor: &forest::Predictor, explainer: &'a Explainer) -> Self {
        let (fitted, starts) = (predictor.forest(), predictor.starts());
        let first_tests = starts.iter().map(|start| start.0).collect();
        Explained { model, explainer, columns: fitted.features.len(), first_tests, scale: 1.0 / fitted.trees.len() as f64, by_codes: None }
    }
}

/// What is done for some neighbouring trees: the tests that rows answer first, and how terms come of it.
struct Stage {
    /// Among those of all trees; none where codes are looked up.
    tests: Range<usize>,
    way: StageWay,
}

enum StageWay {
    /// The tables of this number.
    LookUps(usize),
    /// These groups of the leaves, which add to so many outputs from the first on.
    Leaves {
        groups: Range<usize>,
        first_output: usize,
        outputs: usize,
    },
    Walk(Box<DeviceWalk>),
}

/// What stages work with, one after the other.
struct Work {
    numbers: CudaSlice<f64>,
    marks: CudaSlice<u8>,
}

/// A block of rows, and what trees add to.
struct Block<'a> {
    rows: usize,
    /// The number of all players, and of their terms.
    all: u32,
    all_terms: u32,
    /// Of the rows to the tests of the stage, `[test][row]`.
    answers: &'a mut CudaSlice<u8>,
    work: &'a mut Work,
    /// `[output][term][row]`
    sums: &'a mut CudaSlice<f64>,
}

/// What explains a model's rows on a GPU, many times and from several threads at once.
pub struct DeviceExplainer {
    /// What the buffers were made on; it outlives them.
    queue: Queue,
    model: Arc<dyn RowTests>,
    terms: Terms,
    outputs: usize,
    /// The number of terms of all players.
    term_count: usize,
    columns: usize,
    players: u32,
    scale: f64,
    stages: Vec<Stage>,
    tables: Vec<DeviceTables>,
    /// Whether all there is are look-ups by codes.
    is_direct: bool,
    leaves: DeviceLeaves,
    of_columns: Parts,
    of_pairs: Option<Parts>,
}

impl DeviceExplainer {
    /// Makes what explains a model's rows with `pool`, and copies it to the GPU where the model is. Tables of branching trees have no
    /// more than `most_tabled` numbers ([`MOST_TABLED`]).
    ///
    /// # Errors
    /// As [`Explainer::program`], and [`taiga_core::Error::Device`].
    pub fn new(of: &Explained<'_>, terms: Terms, most_tabled: usize, pool: &ThreadPool) -> Result<Self> {
        let queue = Queue::new(of.model.gpu())?;
        let explainer = of.explainer;
        let program = explainer.program(terms, most_tabled, pool)?;
        queue.check_memory("the tables of the model's trees", 8 * program.values.len() as u64 + DeviceLeaves::bytes(&program.leaves))?;
        let (mut stages, mut tables): (Vec<Stage>, Vec<DeviceTables>) = (vec![], vec![]);
        let tests_of = |tree: usize| of.first_tests[tree]..of.first_tests[tree] + explainer.tree(tree).tests;
        let mut at = 0;
        while let Some(stage) = program.stages.get(at) {
            let (tree, mut tests) = (explainer.tree(stage.tree), tests_of(stage.tree));
            at += 1;
            let way = match &stage.way {
                Way::LookUps(lookups) => {
                    let mut lookups = lookups.clone();
                    // Those of the trees behind it that are looked up too, and whose tests are answered along with its own.
                    while let Some((Way::LookUps(more), next)) = program.stages.get(at).map(|s| (&s.way, s.tree))
                        && (of.by_codes.is_some() || tests_of(next).end - tests.start <= MOST_TESTS)
                    {
                        (lookups.end, tests.end) = (more.end, tests_of(next).end);
                        at += 1;
                    }
                    tables.push(DeviceTables::new(&queue, of, &program, lookups, tests.start)?);
                    if of.by_codes.is_some() {
                        tests = 0..0;
                    }
                    StageWay::LookUps(tables.len() - 1)
                }
                Way::Leaves(groups) => StageWay::Leaves { groups: groups.clone(), first_output: tree.first_output, outputs: tree.outputs },
                Way::Walk => match explainer.walk(stage.tree) {
                    Some(walk) => StageWay::Walk(Box::new(DeviceWalk::new(&queue, walk, tree)?)),
                    None => continue,
                },
            };
            stages.push(Stage { tests, way });
        }
        let credits = |credits: &[Vec<Credit>]| Parts::new(&queue, credits);
        let made = DeviceExplainer {
            is_direct: of.by_codes.is_some() && tables.len() == 1 && stages.len() == 1,
            leaves: DeviceLeaves::new(&queue, &program, explainer, terms)?,
            of_columns: credits(explainer.credits(Terms::Values))?,
            of_pairs: (terms == Terms::Interactions).then(|| credits(explainer.credits(terms))).transpose()?,
            players: explainer.players().len() as u32,
            model: of.model.clone(),
            terms,
            outputs: program.outputs,
            term_count: program.terms,
            columns: of.columns,
            scale: of.scale,
            stages,
            tables,
            queue,
        };
        made.queue.synchronize()?;
        Ok(made)
    }

    /// Explains all rows of columns in the model's order.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn explain(&self, queue: &Queue, columns: &[&Column<'_>]) -> Result<Explanation> {
        let rows = columns.first().map_or(0, |c| c.len());
        let mut all = Explanation::with_capacity(self.outputs, self.columns, rows, self.terms);
        if rows == 0 {
            return Ok(all);
        }
        let read = self.model.read(queue, columns, rows)?;
        let threads = self.tables.first().filter(|_| self.is_direct && self.terms == Terms::Values);
        let threads = threads.and_then(|_| lookups::threads_with_sums(queue, self.term_count));
        let sums = if threads.is_some() { 0 } else { self.outputs * self.term_count };
        let values = self.outputs * self.of_columns.count;
        let pairs = self.outputs * self.of_pairs.as_ref().map_or(0, |parts| parts.count);
        let answered = self.stages.iter().map(|stage| stage.tests.len()).max().unwrap_or(0);
        let work = self.stages.iter().map(|stage| self.work_of(stage)).fold((0, 0), |a, b| (a.0.max(b.0), a.1.max(b.1)));
        let of_row = 8 * (sums + values + pairs + work.0) + answered + work.1;
        let most = if work.0 > 0 { MOST_ROWS } else { usize::MAX };
        let step = (MOST_BYTES / of_row.max(1)).clamp(1, rows.min(most));
        queue.check_memory("explaining", (step * of_row) as u64)?;
        let room = |n: usize| queue.alloc::<f64>("explanations", step * n);
        let (mut sums, mut values, mut pairs) = (room(sums)?, room(values)?, room(pairs)?);
        let mut answers = queue.alloc::<u8>("answers", step * answered)?;
        // The threads of a walk fill whole blocks.
        let padded = step.next_multiple_of(walks::ROWS);
        let mut work =
            Work { numbers: queue.alloc("explanations", padded * work.0)?, marks: queue.alloc("explanations", padded * work.1)? };
        for start in (0..rows).step_by(step) {
            interrupt::poll();
            let block = RowBlock { first: start, rows: step.min(rows - start) };
            if let (Some(threads), [tables]) = (threads, self.tables.as_slice()) {
                self.explain_values(queue, tables, &read, (block, threads), &mut values)?;
            } else {
                queue.clear(&mut sums)?;
                let mut terms = Block {
                    rows: block.rows,
                    all: self.players,
                    all_terms: self.term_count as u32,
                    answers: &mut answers,
                    work: &mut work,
                    sums: &mut sums,
                };
                self.stages.iter().try_for_each(|stage| self.add_stage(queue, stage, &read, block, &mut terms))?;
                self.credit(queue, &sums, block.rows, &self.of_columns, false, &mut values)?;
                if let Some(of_pairs) = &self.of_pairs {
                    self.credit(queue, &sums, block.rows, of_pairs, true, &mut pairs)?;
                }
            }
            queue.append_parts(&values, block.rows, all.values.iter_mut().flatten())?;
            queue.append_parts(&pairs, block.rows, all.interactions.iter_mut().flatten())?;
        }
        Ok(all)
    }

    /// The numbers and marks of a row that a stage works with.
    fn work_of(&self, stage: &Stage) -> (usize, usize) {
        match &stage.way {
            StageWay::LookUps(_) => (0, 0),
            StageWay::Leaves { outputs, .. } => (self.leaves.numbers_a_row(*outputs), 0),
            StageWay::Walk(walk) => walk.work_a_row(self.terms),
        }
    }

    /// Adds what some trees give to the sums of a block of rows.
    fn add_stage(&self, queue: &Queue, stage: &Stage, read: &ReadRows, of: RowBlock, block: &mut Block<'_>) -> Result<()> {
        if !stage.tests.is_empty() {
            self.model.answer(queue, read, of, stage.tests.clone(), block.answers)?;
        }
        match &stage.way {
            StageWay::LookUps(tables) => return self.explain_terms(queue, &self.tables[*tables], stage, (read, of), block),
            StageWay::Leaves { groups, first_output, outputs } => {
                self.leaves.add(queue, groups.clone(), (*first_output, *outputs), block)?
            }
            StageWay::Walk(walk) => walk.add(queue, self.terms, block)?,
        }
        // These take long: who waits may be asked to stop in between.
        queue.synchronize()?;
        interrupt::poll();
        Ok(())
    }

    /// The grid of threads that take a row of an output each.
    fn grid(&self, rows: usize, threads: usize, shared: usize) -> LaunchConfig {
        LaunchConfig {
            grid_dim: (rows.div_ceil(threads) as u32, self.outputs as u32, 1),
            block_dim: (threads as u32, 1, 1),
            shared_mem_bytes: shared as u32,
        }
    }

    /// Explains rows by look-ups alone, `out[output][column][row]`; does not wait.
    fn explain_values(
        &self,
        queue: &Queue,
        tables: &DeviceTables,
        read: &ReadRows,
        (block, threads): (RowBlock, usize),
        out: &mut CudaSlice<f64>,
    ) -> Result<()> {
        let kernel = queue.gpu().kernel(PREDICT, "explain_values")?;
        let shared = lookups::bytes_of_sums(threads, self.term_count);
        kernel.allow_shared(queue.gpu(), shared as u32)?;
        let (rows, first, stride) = (block.rows as u64, block.first as u64, read.stride as u64);
        let (columns, terms, parts) = (self.columns as u32, self.term_count as u32, &self.of_columns);
        // SAFETY: the arguments are those of `explain_values`: codes of all rows and slots, look-ups whose steps, places and values are
        // there, room for the sums of a block's threads, and for each row and output's columns.
        unsafe {
            launch!(queue, kernel, self.grid(block.rows, threads, shared);
                &rows, &first, &stride, &read.codes, &tables.lookups, &tables.first_lookup, &tables.steps, &tables.places, &tables.values,
                &terms, &columns, &parts.first, &parts.parts, &self.scale, out)
        }
    }

    /// Adds what rows find in tables; does not wait.
    fn explain_terms(
        &self,
        queue: &Queue,
        tables: &DeviceTables,
        stage: &Stage,
        (read, of): (&ReadRows, RowBlock),
        block: &mut Block<'_>,
    ) -> Result<()> {
        let kernel = queue.gpu().kernel(PREDICT, "explain_terms")?;
        let by_codes = (&read.codes, of.first, read.stride);
        let (codes, first, stride) = if stage.tests.is_empty() { by_codes } else { (&*block.answers, 0, block.rows) };
        let (n, first, stride, terms) = (block.rows as u64, first as u64, stride as u64, block.all_terms);
        // SAFETY: the arguments are those of `explain_terms`: as above, and room for each row and output's terms.
        unsafe {
            launch!(queue, kernel, self.grid(block.rows, THREADS, 0);
                &n, &first, &stride, codes, &tables.lookups, &tables.first_lookup, &tables.steps, &tables.places, &tables.values, &terms,
                &mut *block.sums)
        }
    }

    /// Credits columns, or columns and pairs, with their parts of `n` rows' sums; does not wait.
    fn credit(&self, queue: &Queue, sums: &CudaSlice<f64>, n: usize, parts: &Parts, alone: bool, out: &mut CudaSlice<f64>) -> Result<()> {
        let kernel = queue.gpu().kernel(PREDICT, "credit_terms")?;
        let mut shape = self.grid(n, THREADS, 0);
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
