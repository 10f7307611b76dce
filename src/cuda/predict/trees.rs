//! Boosted trees applied on the GPU: what [`taiga_core::learners::boosting::model::apply::Predictor`] computes, with the same bits.
//!
//! ```text
//! columns ─► codes, a byte for each slot (some borders of a feature) and row ─► each thread takes four rows
//!                                                                            through all trees, in their order
//! ```

use super::PREDICT;
use super::answers::{ReadRows, RowBlock, RowTests, rows_by};
use crate::columns::codes::{CodeInput, CodePlace, codes, quantize};
use crate::launch;
use crate::runtime::column::{DeviceColumn, bytes_of_mut};
use crate::runtime::device::Gpu;
use crate::runtime::error::driver;
use crate::runtime::layouts::kernel_structs;
use crate::runtime::queue::each_row;
use crate::runtime::queue::{Queue, grid};
use crate::runtime::upload::upload;
use cudarc::driver::{CudaSlice, DevicePtrMut, sys};
use std::ops::Range;
use taiga_core::column::Column;
use taiga_core::error::Result;
use taiga_core::learners::boosting::model::apply::Predictor;
use taiga_core::learners::boosting::model::entries::{Entries, Key, KeyPart};
use taiga_core::learners::boosting::model::plan::linear::LinearPlan;
use taiga_core::learners::boosting::model::plan::parts::SlotPart;

const THREADS: usize = 256;
/// Rows of a thread, `ROWS` there.
const ROWS: usize = 4;

kernel_structs! { CodeTest, BoostedTree, LinearValue, LinearTerm }

/// Where no leaf of a tree is a linear function, `ALL_CONSTANT` there.
const ALL_CONSTANT: u32 = u32::MAX;

/// A model on a GPU, to be applied many times, from several threads at once.
pub struct DevicePredictor {
    /// What the model's buffers were made on; it outlives them.
    queue: Queue,
    slots: Vec<CodeSlot>,
    entries: Vec<DeviceEntries>,
    trees: CudaSlice<BoostedTree>,
    tree_count: usize,
    tests: CudaSlice<CodeTest>,
    children: CudaSlice<u32>,
    values: CudaSlice<f64>,
    linear: Option<DeviceLinear>,
    start: CudaSlice<f64>,
    outputs: usize,
    scale: f64,
}

/// The leaves of a model that are linear functions.
struct DeviceLinear {
    /// The columns that they read.
    columns: Vec<usize>,
    /// Of each tree the place of its first leaf, or [`ALL_CONSTANT`].
    trees: CudaSlice<u32>,
    leaves: CudaSlice<LinearValue>,
    terms: CudaSlice<LinearTerm>,
}

impl DeviceLinear {
    /// Copies them to the GPU; nothing where there are none.
    fn new(queue: &Queue, plan: &LinearPlan) -> Result<Option<DeviceLinear>> {
        if plan.trees.is_empty() {
            return Ok(None);
        }
        let trees: Vec<u32> = plan.trees.iter().map(|first| first.unwrap_or(ALL_CONSTANT)).collect();
        let leaves: Vec<LinearValue> =
            plan.leaves.iter().map(|leaf| LinearValue { constant: leaf.constant, first: leaf.first, end: leaf.end }).collect();
        let terms: Vec<LinearTerm> =
            plan.terms.iter().map(|term| LinearTerm { coefficient: term.coefficient, slot: term.slot, unused: 0 }).collect();
        Ok(Some(DeviceLinear {
            columns: plan.columns.clone(),
            trees: upload(queue, "a model", &trees)?,
            leaves: upload(queue, "a model", &leaves)?,
            terms: upload(queue, "a model", &terms)?,
        }))
    }

    /// Brings the values of `rows` rows to the GPU, `[column][row]`.
    fn read(&self, queue: &Queue, columns: &[&Column<'_>], rows: usize) -> Result<CudaSlice<f64>> {
        let mut values = vec![0.0; self.columns.len() * rows];
        for (column, values) in self.columns.iter().zip(values.chunks_exact_mut(rows.max(1))) {
            columns[*column].read_f64(0, values);
        }
        upload(queue, "values", &values)
    }
}

enum CodeSlot {
    Column { feature: usize, borders: Vec<f64> },
    Derived { of_entry: CudaSlice<u8> },
}

struct DeviceEntries {
    /// What the keys of rows are made of, in order.
    parts: Vec<DevicePart>,
    len: u32,
    /// None for a single column whose entries are its codes.
    keys: Option<CudaSlice<u64>>,
    /// The slots whose codes are those of the entries.
    slots: Vec<usize>,
}

/// A part of the keys of rows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DevicePart {
    /// The codes of a column, and how many there are.
    Code(usize, u64),
    /// The codes of a column, of which a hash is made.
    HashedCode(usize),
    /// Whether the codes of a slot less this shift are above this one, of which a hash is made.
    HashedTest(u32, u8, u8),
}

/// The codes of the column that was read last: most columns are read several times in a row.
type LastColumn = Option<(usize, CudaSlice<u32>)>;

impl DevicePredictor {
    /// Copies `predictor`'s model to `gpu`.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn new(gpu: &'static Gpu, predictor: &Predictor) -> Result<Self> {
        let queue = Queue::new(gpu)?;
        let (parts, model) = (predictor.parts(), predictor.model());
        let slot = |slot: &SlotPart<'_>| {
            Ok(match slot {
                SlotPart::Column { feature, borders } => CodeSlot::Column { feature: *feature, borders: borders.to_vec() },
                SlotPart::Derived { of_entry, .. } => CodeSlot::Derived { of_entry: queue.copy_of("a model", of_entry)? },
            })
        };
        let mut slots_of = vec![vec![]; parts.entries.len()];
        for (i, slot) in parts.slots.iter().enumerate() {
            if let SlotPart::Derived { entries, .. } = slot {
                slots_of[*entries].push(i);
            }
        }
        let entries = |(e, slots): (&Entries, Vec<usize>)| {
            let of_key = |part: &KeyPart| match part {
                KeyPart::Code(column) => DevicePart::HashedCode(*column),
                KeyPart::Answer(asked) => {
                    let (slot, shift, above) = parts.answers[*asked];
                    DevicePart::HashedTest(slot, shift, above)
                }
            };
            let of_rows = match e.key() {
                Key::Codes { columns, cardinalities } => columns.iter().zip(cardinalities).map(|(c, n)| DevicePart::Code(*c, *n)).collect(),
                Key::Hash(parts) => parts.iter().map(of_key).collect(),
            };
            let keys = e.keys().map(|keys| upload(&queue, "a model", &keys)).transpose()?;
            Ok(DeviceEntries { parts: of_rows, len: e.len(), keys, slots })
        };
        let mut entries = parts.entries.iter().zip(slots_of).map(entries).collect::<Result<Vec<_>>>()?;
        // Tests read the codes of others' slots.
        entries.sort_by(|a, b| (a.tests(), &a.parts).cmp(&(b.tests(), &b.parts)));
        let number = |x: usize| x as u32;
        let trees = parts.trees.iter().map(|t| BoostedTree {
            symmetric: t.symmetric as u32,
            first_test: number(t.first_test),
            tests: number(t.tests),
            first_value: number(t.first_value),
        });
        let tests = parts.tests.iter().map(|(slot, shift, above)| CodeTest { slot: *slot, shift: *shift, above: *above, padding: 0 });
        let predictor = DevicePredictor {
            slots: parts.slots.iter().map(slot).collect::<Result<_>>()?,
            entries,
            trees: upload(&queue, "a model", &trees.collect::<Vec<_>>())?,
            tree_count: parts.trees.len(),
            tests: upload(&queue, "a model", &tests.collect::<Vec<_>>())?,
            children: upload(&queue, "a model", parts.children.as_flattened())?,
            values: upload(&queue, "a model", &parts.values)?,
            linear: DeviceLinear::new(&queue, &parts.linear)?,
            start: queue.copy_of("a model", &model.start)?,
            outputs: model.outputs(),
            scale: model.scale,
            queue,
        };
        predictor.queue.synchronize()?;
        Ok(predictor)
    }

    /// Bytes from the codes of one slot to those of the next.
    fn stride(rows: usize) -> usize {
        rows.next_multiple_of(256)
    }

    fn room(&self, queue: &Queue, rows: usize, raw: usize) -> Result<CudaSlice<u8>> {
        let codes = self.slots.len() * Self::stride(rows);
        let values = self.linear.as_ref().map_or(0, |linear| linear.columns.len());
        queue.check_memory("predicting", (codes + rows * (raw + 8 * (self.outputs + values))) as u64)?;
        let mut out = queue.alloc::<u8>("codes", codes)?;
        // What lies between the last row and the next slot is read along with the last rows.
        let (stride, behind) = (Self::stride(rows), Self::stride(rows) - rows);
        if behind > 0 && !self.slots.is_empty() {
            let first = out.device_ptr_mut(queue.stream()).0 + rows as u64;
            // SAFETY: of each slot the last bytes of its stride.
            let cleared = unsafe { sys::cuMemsetD2D8Async(first, stride, 0, behind, self.slots.len(), queue.stream().cu_stream()) };
            cleared.result().map_err(|e| driver(queue.gpu(), "clearing memory", e))?;
        }
        Ok(out)
    }

    /// The codes of columns that [`Predictor::bind`] gives.
    fn codes(&self, queue: &Queue, columns: &[&Column<'_>], rows: usize) -> Result<CudaSlice<u8>> {
        let mut out = self.room(queue, rows, 24)?;
        let stride = Self::stride(rows);
        let sources = self.slots.iter().enumerate().filter_map(|(i, slot)| match slot {
            CodeSlot::Column { feature, borders } => {
                Some((CodeInput::Values(columns[*feature], borders, 1), CodePlace { first: i * stride, stride: 1 }))
            }
            CodeSlot::Derived { .. } => None,
        });
        quantize(queue, &sources.collect::<Vec<_>>(), &mut out)?;
        let mut last = None;
        for entries in &self.entries {
            let found = entries.of_rows(queue, columns, (rows, stride), &out, &mut last)?;
            let kernel = queue.gpu().kernel(PREDICT, "codes_of_entries")?;
            for i in &entries.slots {
                if let CodeSlot::Derived { of_entry } = &self.slots[*i] {
                    let (n, mut codes) = (rows as u64, out.slice_mut(i * stride..(i + 1) * stride));
                    // SAFETY: the arguments are those of `codes_of_entries`; every entry has a code.
                    unsafe { launch!(queue, kernel, each_row(queue, rows); &n, &found, of_entry, &mut codes) }?;
                }
            }
        }
        Ok(out)
    }

    /// Adds up the trees; does not wait.
    fn sum(&self, queue: &Queue, codes: &CudaSlice<u8>, rows: usize) -> Result<CudaSlice<f64>> {
        let kernel = queue.gpu().kernel(PREDICT, "predict_trees")?;
        let mut out = queue.alloc::<f64>("predictions", rows * self.outputs)?;
        let (n, stride, trees, outputs) = (rows as u64, Self::stride(rows) as u64, self.tree_count as u32, self.outputs as u32);
        let blocks = rows.div_ceil(THREADS * ROWS) as u32;
        // SAFETY: the arguments are those of `predict_trees`; codes of all slots have a stride that covers whole threads.
        unsafe {
            launch!(queue, kernel, grid(blocks, THREADS as u32, 0);
                &n, &stride, codes, &self.trees, &trees, &outputs, &self.tests, &self.children, &self.values, &self.start, &self.scale,
                &mut out)?;
        }
        Ok(out)
    }

    /// Adds up trees some of whose leaves are linear functions, in the end or after each of some `rounds`; does not wait.
    fn sum_linear(
        &self,
        queue: &Queue,
        (linear, columns): (&DeviceLinear, &[&Column<'_>]),
        codes: &CudaSlice<u8>,
        (rows, rounds): (usize, usize),
    ) -> Result<CudaSlice<f64>> {
        let values = linear.read(queue, columns, rows)?;
        let kernel = queue.gpu().kernel(PREDICT, "predict_linear_trees")?;
        let mut out = queue.alloc::<f64>("predictions", rows * rounds.max(1) * self.outputs)?;
        let (n, stride, trees, outputs) = (rows as u64, Self::stride(rows) as u64, self.tree_count as u32, self.outputs as u32);
        let (blocks, rounds) = (rows.div_ceil(THREADS * ROWS) as u32, rounds as u32);
        // SAFETY: the arguments are those of `predict_linear_trees`: codes as for `predict_trees`, a value of each row and column that terms
        // name, and room for each row, output and, where they are told, round.
        unsafe {
            launch!(queue, kernel, grid(blocks, THREADS as u32, 0);
                &n, &stride, codes, &self.trees, &trees, &outputs, &self.tests, &self.children, &self.values, &linear.trees,
                &linear.leaves, &linear.terms, &values, &self.start, &self.scale, &rounds, &mut out)?;
        }
        Ok(out)
    }

    /// [`Predictor::raw`] on the GPU; `columns` as [`Predictor::bind`] gives them.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn raw(&self, queue: &Queue, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        let rows = columns.first().map_or(0, |c| c.len());
        if rows == 0 {
            return Ok(vec![vec![]; self.outputs]);
        }
        let codes = self.codes(queue, columns, rows)?;
        let sums = match &self.linear {
            Some(linear) => self.sum_linear(queue, (linear, columns), &codes, (rows, 0))?,
            None => self.sum(queue, &codes, rows)?,
        };
        let mut out = vec![0.0; rows * self.outputs];
        queue.download(&sums, bytes_of_mut(&mut out))?;
        if self.outputs == 1 {
            return Ok(vec![out]);
        }
        Ok(out.chunks(rows).map(<[f64]>::to_vec).collect())
    }

    /// [`Predictor::raw`] of numeric columns that are on the GPU, in the model's order: `[output][row]`, left there.
    /// Does not wait.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    ///
    /// # Panics
    /// For a model with categorical features, or with leaves that are linear functions.
    pub fn raw_on_device(&self, queue: &Queue, columns: &[DeviceColumn]) -> Result<CudaSlice<f64>> {
        assert!(self.entries.is_empty(), "numeric features");
        assert!(self.linear.is_none(), "leaves that are numbers");
        let rows = columns.first().map_or(0, |c| c.rows());
        let (mut out, stride) = (self.room(queue, rows, 0)?, Self::stride(rows));
        let mut missing = queue.zeros::<u32>("a flag", 1)?;
        for (i, slot) in self.slots.iter().enumerate() {
            if let CodeSlot::Column { feature, borders } = slot {
                let place = CodePlace { first: i * stride, stride: 1 };
                codes(queue, &columns[*feature], borders, 1, &mut out, place, &mut missing.as_view_mut())?;
            }
        }
        self.sum(queue, &out, rows)
    }

    /// Adds up the trees, round after round; does not wait.
    fn sum_staged(&self, queue: &Queue, codes: &CudaSlice<u8>, (rows, rounds): (usize, usize)) -> Result<CudaSlice<f64>> {
        let kernel = queue.gpu().kernel(PREDICT, "predict_staged")?;
        let mut found = queue.alloc::<f64>("predictions", rows * rounds * self.outputs)?;
        let (n, stride, rounds, outputs) = (rows as u64, Self::stride(rows) as u64, rounds as u32, self.outputs as u32);
        let blocks = rows.div_ceil(THREADS * ROWS) as u32;
        // SAFETY: the arguments are those of `predict_staged`: codes as for `predict_trees`, and room for each row, round and output.
        unsafe {
            launch!(queue, kernel, grid(blocks, THREADS as u32, 0);
                &n, &stride, codes, &self.trees, &rounds, &outputs, &self.tests, &self.children, &self.values, &self.start, &self.scale,
                &mut found)?;
        }
        Ok(found)
    }

    /// [`Predictor::staged`] on the GPU.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn staged(&self, queue: &Queue, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        let (rows, rounds) = (columns.first().map_or(0, |c| c.len()), self.tree_count / self.outputs.max(1));
        let each = rows * rounds;
        if each == 0 {
            return Ok(vec![vec![]; self.outputs]);
        }
        queue.check_memory("predictions after every round", (each * self.outputs * 8) as u64)?;
        let codes = self.codes(queue, columns, rows)?;
        let found = match &self.linear {
            Some(linear) => self.sum_linear(queue, (linear, columns), &codes, (rows, rounds))?,
            None => self.sum_staged(queue, &codes, (rows, rounds))?,
        };
        let of_output = |output: usize| {
            let mut out = vec![0.0; each];
            queue.download(&found.slice(output * each..(output + 1) * each), bytes_of_mut(&mut out))?;
            Ok(out)
        };
        (0..self.outputs).map(of_output).collect()
    }

    /// [`Predictor::leaves`] on the GPU.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn leaves(&self, queue: &Queue, columns: &[&Column<'_>]) -> Result<Vec<u32>> {
        let rows = columns.first().map_or(0, |c| c.len());
        if rows == 0 || self.tree_count == 0 {
            return Ok(vec![]);
        }
        queue.check_memory("leaves", (rows * self.tree_count * 4) as u64)?;
        let codes = self.codes(queue, columns, rows)?;
        let kernel = queue.gpu().kernel(PREDICT, "predict_leaves")?;
        let mut found = queue.alloc::<u32>("leaves", rows * self.tree_count)?;
        let (n, stride, trees) = (rows as u64, Self::stride(rows) as u64, self.tree_count as u32);
        let blocks = rows.div_ceil(THREADS * ROWS) as u32;
        // SAFETY: the arguments are those of `predict_leaves`, with a leaf for each row and tree.
        unsafe {
            launch!(queue, kernel, grid(blocks, THREADS as u32, 0);
                &n, &stride, &codes, &self.trees, &trees, &self.tests, &self.children, &mut found)?;
        }
        let mut out = vec![0u32; rows * self.tree_count];
        queue.download(&found, bytes_of_mut(&mut out))?;
        Ok(out)
    }
}

impl RowTests for DevicePredictor {
    fn gpu(&self) -> &'static Gpu {
        self.queue.gpu()
    }

    fn read(&self, queue: &Queue, columns: &[&Column<'_>], rows: usize) -> Result<ReadRows> {
        Ok(ReadRows { codes: self.codes(queue, columns, rows)?, values: queue.alloc("values", 0)?, stride: Self::stride(rows) })
    }

    fn answer(&self, queue: &Queue, read: &ReadRows, block: RowBlock, tests: Range<usize>, out: &mut CudaSlice<u8>) -> Result<()> {
        let kernel = queue.gpu().kernel(PREDICT, "answer_tests")?;
        let (rows, first, stride) = (block.rows as u64, block.first as u64, read.stride as u64);
        let (first_test, count) = (tests.start as u64, tests.len() as u32);
        // SAFETY: the arguments are those of `answer_tests`: codes of all rows and slots, tests that are there, and room for an answer to
        // each of them of each row.
        unsafe {
            launch!(queue, kernel, rows_by(block.rows, tests.len());
                &rows, &first, &stride, &read.codes, &self.tests, &first_test, &count, &rows, out)
        }
    }
}

impl DeviceEntries {
    /// Whether keys of rows are made of tests of codes.
    fn tests(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, DevicePart::HashedTest(..)))
    }

    /// What each row looks up; `codes` of the slots that are tested, `stride` from one to the next.
    fn of_rows(
        &self,
        queue: &Queue,
        columns: &[&Column<'_>],
        (rows, stride): (usize, usize),
        codes: &CudaSlice<u8>,
        last: &mut LastColumn,
    ) -> Result<CudaSlice<u32>> {
        let gpu = queue.gpu();
        let mut out = queue.alloc::<u32>("entries", rows)?;
        let n = rows as u64;
        if let (None, Some(DevicePart::Code(column, _))) = (&self.keys, self.parts.first()) {
            let kernel = gpu.kernel(PREDICT, "entries_of_one")?;
            let codes = codes_of(queue, columns, *column, last)?;
            // SAFETY: the arguments are those of `entries_of_one`, of `n` rows.
            unsafe { launch!(queue, kernel, each_row(queue, rows); &n, codes, &self.len, &mut out) }?;
            return Ok(out);
        }
        let mut keys = queue.alloc::<u64>("keys", rows)?;
        for (i, part) in self.parts.iter().enumerate() {
            let is_first = (i == 0) as u32;
            match part {
                DevicePart::Code(column, cardinality) => {
                    let (kernel, codes) = (gpu.kernel(PREDICT, "extend_keys")?, codes_of(queue, columns, *column, last)?);
                    // SAFETY: the arguments are those of `extend_keys`, of `n` rows.
                    unsafe { launch!(queue, kernel, each_row(queue, rows); &n, codes, cardinality, &is_first, &mut keys) }?;
                }
                DevicePart::HashedCode(column) => {
                    let (kernel, codes) = (gpu.kernel(PREDICT, "extend_hashes")?, codes_of(queue, columns, *column, last)?);
                    // SAFETY: the arguments are those of `extend_hashes`, of `n` rows.
                    unsafe { launch!(queue, kernel, each_row(queue, rows); &n, codes, &is_first, &mut keys) }?;
                }
                DevicePart::HashedTest(slot, shift, above) => {
                    let kernel = gpu.kernel(PREDICT, "extend_hashes_by_test")?;
                    let first = *slot as usize * stride;
                    let (codes, shift, above) = (codes.slice(first..first + rows), *shift as u32, *above as u32);
                    // SAFETY: the arguments are those of `extend_hashes_by_test`; the slot has a code of each of `n` rows.
                    unsafe { launch!(queue, kernel, each_row(queue, rows); &n, &codes, &shift, &above, &is_first, &mut keys) }?;
                }
            }
        }
        let Some(table) = &self.keys else { return Ok(out) };
        let find = gpu.kernel(PREDICT, "entries_of_keys")?;
        // SAFETY: the arguments are those of `entries_of_keys`; there are `len` keys in the table.
        unsafe { launch!(queue, find, each_row(queue, rows); &n, &keys, table, &self.len, &mut out) }?;
        Ok(out)
    }
}

/// The category codes of a column on the GPU.
fn codes_of<'l>(queue: &Queue, columns: &[&Column<'_>], column: usize, last: &'l mut LastColumn) -> Result<&'l CudaSlice<u32>> {
    let codes = match last.take().filter(|(read, _)| *read == column) {
        Some((_, codes)) => codes,
        None => upload(queue, "categories", columns[column].category_codes().unwrap_or_default())?,
    };
    Ok(&last.insert((column, codes)).1)
}
