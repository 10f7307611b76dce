//! Leaves that are linear functions of their rows' values: what the rows of the device say of them, and what these get. Twin of
//! `core/learners/boosting/linear_leaves/on_host.rs`.

use super::CudaTrees;
use super::buffers::Buffer;
use super::layouts::{LinearCoefficient, LinearColumn, LinearFunction, LinearLeafColumns, LinearRounding, LinearSums};
use crate::runtime::{Gpu, Queue};
use crate::{grid, launch};
use taiga_core::collective::RowShard;
use taiga_core::column::{Column, FeatureType};
use taiga_core::error::{Error, Result};
use taiga_core::learners::boosting::linear_leaves::{Equations, LeafMeasures, TreeColumns, Units};
use taiga_core::learners::boosting::steps::{LinearSteps, TrainingData};
use taiga_core::losses::Loss;
use taiga_core::tree::linear::LinearLeaf;

/// Warps of a block that adds up sums, at the most, and blocks of such a size that a multiprocessor is to have.
const WARPS: usize = 8;

/// The most bytes of main memory that sums of warps take where shared memory has no room for them.
const MOST_BYTES: usize = 256 << 20;

/// The values of a column on the device.
enum DeviceValues {
    Single(Buffer<f32>),
    Double(Buffer<f64>),
}

impl DeviceValues {
    /// Brings a column's values to the device, missing ones as NaN.
    fn new(queue: &Queue, column: &Column<'_>) -> Result<DeviceValues> {
        const WHAT: &str = "the values of columns";
        let rows = column.len();
        if column.is_f32() {
            let mut buffer = Buffer::new(queue, WHAT, rows)?;
            queue.upload(&mut buffer.slice, 4 * rows, &|offset, piece| {
                let mut scratch = vec![];
                let values = column.read_f32(offset / 4, piece.len() / 4, &mut scratch);
                piece.chunks_exact_mut(4).zip(values).for_each(|(out, value)| out.copy_from_slice(&value.to_ne_bytes()));
            })?;
            return Ok(DeviceValues::Single(buffer));
        }
        let mut buffer = Buffer::new(queue, WHAT, rows)?;
        queue.upload(&mut buffer.slice, 8 * rows, &|offset, piece| {
            let mut values = vec![0.0; piece.len() / 8];
            column.read_f64(offset / 8, &mut values);
            piece.chunks_exact_mut(8).zip(values).for_each(|(out, value)| out.copy_from_slice(&value.to_ne_bytes()));
        })?;
        Ok(DeviceValues::Double(buffer))
    }

    /// Returns where they are, and whether they are f32.
    fn place(&self) -> (u64, u32) {
        match self {
            DeviceValues::Single(buffer) => (buffer.address, 1),
            DeviceValues::Double(buffer) => (buffer.address, 0),
        }
    }
}

/// What a fit whose leaves are linear functions has on the device.
pub struct LinearLeaves<'a> {
    columns: &'a [Column<'a>],
    /// Of each column that has numbers.
    values: Vec<Option<DeviceValues>>,
    /// The output that rows were measured for last, and their derivatives.
    output: usize,
    gradient: Buffer<f32>,
    hessian: Buffer<f32>,
    /// The largest derivatives, and the first row of each leaf.
    largest: Buffer<u32>,
    first: Buffer<u32>,
    leaves: Buffer<LinearLeafColumns>,
    of_leaves: Buffer<LinearColumn>,
    /// The sums of warps and their counts, where shared memory has no room for them.
    sums: Buffer<f64>,
    counts: Buffer<u32>,
    numbers: Buffer<i64>,
    functions: Buffer<LinearFunction>,
    terms: Buffer<LinearCoefficient>,
}

/// Whether a column has numbers.
fn is_numeric(column: &Column<'_>) -> bool {
    *column.dtype() != FeatureType::Categorical
}

impl<'a> LinearLeaves<'a> {
    /// Returns the bytes that it takes.
    pub fn bytes(data: &TrainingData<'_>) -> u64 {
        let of_column = |column: &Column<'_>| if column.is_f32() { 4 } else { 8 };
        let Some(columns) = data.values else { return 0 };
        // Derivatives besides, and a value for each score.
        let of_row = 8 + 4 * data.scores.len() as u64 + columns.iter().filter(|column| is_numeric(column)).map(of_column).sum::<u64>();
        data.target.len() as u64 * of_row
    }

    /// Brings the values to the device, where leaves are functions of them.
    pub fn new(queue: &Queue, data: &TrainingData<'a>) -> Result<Option<LinearLeaves<'a>>> {
        let Some(columns) = data.values else { return Ok(None) };
        let values = |column: &Column<'_>| is_numeric(column).then(|| DeviceValues::new(queue, column)).transpose();
        let rows = data.target.len();
        Ok(Some(LinearLeaves {
            columns,
            values: columns.iter().map(values).collect::<Result<_>>()?,
            output: 0,
            gradient: Buffer::new(queue, "derivatives", rows)?,
            hessian: Buffer::new(queue, "derivatives", rows)?,
            largest: Buffer::new(queue, "maxima", 2)?,
            first: Buffer::new(queue, "first rows", 1)?,
            leaves: Buffer::new(queue, "a tree", 1)?,
            of_leaves: Buffer::new(queue, "a tree", 1)?,
            sums: Buffer::new(queue, "sums of leaves", 1)?,
            counts: Buffer::new(queue, "sums of leaves", 1)?,
            numbers: Buffer::new(queue, "sums of leaves", 1)?,
            functions: Buffer::new(queue, "a tree", 1)?,
            terms: Buffer::new(queue, "a tree", 1)?,
        }))
    }

    /// Returns where the values of a column of the table are, and whether they are f32.
    fn place(&self, column: u32) -> Result<(u64, u32)> {
        let there = self.values.get(column as usize).and_then(Option::as_ref);
        there.map(DeviceValues::place).ok_or_else(|| Error::Data("a leaf reads a column that has no numbers".into()))
    }

    /// Writes the columns of a tree's leaves, these by the numbers that their rows have.
    fn write_columns(&mut self, queue: &Queue, columns: &TreeColumns, by_number: &[usize]) -> Result<()> {
        let (mut firsts, mut all) = (Vec::with_capacity(columns.leaves.len()), vec![]);
        for leaf in &columns.leaves {
            firsts.push(all.len() as u32);
            for ((slot, origin), scale) in leaf.slots.iter().zip(&leaf.origins).zip(&leaf.scales) {
                let (values, single) = self.place(columns.columns[*slot])?;
                all.push(LinearColumn { values, origin: *origin, scale: *scale, single, unused: 0 });
            }
        }
        let of_number = |leaf: &usize| {
            let own = &columns.leaves[*leaf];
            LinearLeafColumns {
                first: firsts[*leaf],
                columns: own.slots.len() as u32,
                sums: own.first as u32,
                leaf: *leaf as u32,
                added: own.added,
            }
        };
        let leaves: Vec<LinearLeafColumns> = by_number.iter().map(of_number).collect();
        self.leaves.reserve(queue, "a tree", leaves.len())?;
        self.leaves.write(queue, &leaves)?;
        self.of_leaves.reserve(queue, "a tree", all.len())?;
        self.of_leaves.write(queue, &all)
    }
}

impl LinearSteps for CudaTrees<'_> {
    fn measure(&mut self, loss: &dyn Loss, output: usize, columns: &TreeColumns) -> Result<LeafMeasures> {
        let by_number = self.leaves_by_number();
        let (queue, kernels, data) = (&self.queue, &self.kernels, &self.data);
        let linear = self.linear.as_mut().ok_or_else(none)?;
        linear.write_columns(queue, columns, &by_number)?;
        linear.output = output;
        let leaves = columns.leaves.len();
        linear.first.reserve(queue, "first rows", leaves)?;
        linear.first.write(queue, &vec![u32::MAX; leaves])?;
        queue.clear(&mut linear.largest.slice)?;
        let (table, leaf) = (data.table(loss, output, true), data.leaf.address + 2 * (output * data.rows) as u64);
        // SAFETY: the arguments are those of `tree_linear_measure`: a leaf for each row, by a number that is among those of the leaves, whose
        // columns have a value for each row; room for two derivatives of each row, and for a row of each leaf.
        unsafe {
            launch!(queue, &kernels.linear_measure, grid(data.blocks, 256, 0);
                &table, &leaf, &linear.leaves.address, &linear.of_leaves.address, &linear.gradient.address, &linear.hessian.address,
                &linear.largest.address, &linear.first.address)
        }?;
        let largest = linear.largest.read(queue, 2)?;
        let first = linear.first.read(queue, leaves)?;
        let origins = |(leaf, row): (usize, &u32)| {
            let value = |slot: &usize| {
                let mut value = [0.0];
                linear.columns[columns.columns[*slot] as usize].read_f64(*row as usize, &mut value);
                value[0]
            };
            (*row != u32::MAX).then(|| columns.leaves[leaf].slots.iter().map(value).collect())
        };
        Ok(LeafMeasures {
            gradient: f32::from_bits(largest[0]),
            hessian: f32::from_bits(largest[1]),
            origins: first.iter().enumerate().map(origins).collect(),
        })
    }

    fn equations(&mut self, columns: &TreeColumns, units: &Units) -> Result<Equations> {
        let by_number = self.leaves_by_number();
        let (queue, kernels, data) = (&self.queue, &self.kernels, &self.data);
        let linear = self.linear.as_mut().ok_or_else(none)?;
        linear.write_columns(queue, columns, &by_number)?;
        let (leaves, length) = (columns.leaves.len(), columns.sums);
        let numbers = 2 * length + leaves;
        linear.numbers.reserve(queue, "sums of leaves", numbers)?;
        queue.clear(&mut linear.numbers.slice.slice_mut(..numbers))?;
        let blocks = data.rows.div_ceil(RowShard::BLOCK).max(1);
        let multiprocessors = queue.gpu().multiprocessors() as usize;
        let of_warp = 8 * length + 4 * by_number.len();
        let near = (shared(queue.gpu()) as usize / of_warp.max(1)).min(WARPS);
        let (warps, groups, bytes) = match near {
            0 => {
                let most = (MOST_BYTES / of_warp).clamp(1, WARPS * multiprocessors).min(blocks);
                let all = most.next_multiple_of(WARPS);
                linear.sums.reserve(queue, "sums of leaves", all * length)?;
                linear.counts.reserve(queue, "sums of leaves", all * by_number.len())?;
                queue.clear(&mut linear.sums.slice.slice_mut(..all * length))?;
                queue.clear(&mut linear.counts.slice.slice_mut(..all * by_number.len()))?;
                (WARPS, all / WARPS, 0)
            }
            warps => (warps, blocks.div_ceil(warps).min(multiprocessors * (WARPS / warps).max(1)), warps * of_warp),
        };
        let [of_gradients, of_hessians] = units.roundings().map(|[coarse, unit, fine]| LinearRounding { coarse, unit, fine });
        let table = LinearSums {
            rows: data.rows as u64,
            leaf: data.leaf.address + 2 * (linear.output * data.rows) as u64,
            gradient: linear.gradient.address,
            hessian: linear.hessian.address,
            leaves: linear.leaves.address,
            columns: linear.of_leaves.address,
            sums: if near == 0 { linear.sums.address } else { 0 },
            counts: if near == 0 { linear.counts.address } else { 0 },
            numbers: linear.numbers.address,
            totals: linear.numbers.address + 16 * length as u64,
            of_gradients,
            of_hessians,
            length: length as u32,
            leaf_count: by_number.len() as u32,
        };
        let config = grid(groups as u32, 32 * warps as u32, bytes as u32);
        // SAFETY: the arguments are those of `tree_linear_sums`: rows as they were measured, by leaves that are told; zeros for each warp, in
        // shared memory or not, and two numbers for each sum and one for each leaf.
        unsafe { launch!(queue, &kernels.linear_sums, config; &table) }?;
        let found = linear.numbers.read(queue, numbers)?;
        let (found, counts) = found.split_at(2 * length);
        Ok(Equations { counts: counts.to_vec(), numbers: found.as_chunks::<2>().0.to_vec() })
    }

    fn set_functions(&mut self, output: usize, _: &TreeColumns, functions: &[Option<LinearLeaf>]) -> Result<()> {
        let by_number = self.leaves_by_number();
        let linear = self.linear.as_mut().ok_or_else(none)?;
        let (mut own, mut terms) = (Vec::with_capacity(functions.len()), vec![]);
        for function in functions {
            let first = terms.len() as u32;
            for (column, coefficient) in function.iter().flat_map(|function| &function.terms) {
                let (values, single) = linear.place(*column)?;
                terms.push(LinearCoefficient { values, coefficient: *coefficient, single, unused: 0 });
            }
            let constant = function.as_ref().map_or(0.0, |function| function.constant);
            own.push(LinearFunction { constant, first, end: terms.len() as u32 });
        }
        let by_number: Vec<LinearFunction> = by_number.iter().map(|leaf| own[*leaf]).collect();
        linear.functions.reserve(&self.queue, "a tree", by_number.len())?;
        linear.functions.write(&self.queue, &by_number)?;
        linear.terms.reserve(&self.queue, "a tree", terms.len())?;
        linear.terms.write(&self.queue, &terms)?;
        self.data.set_row_values(&self.queue, &self.kernels, output, (linear.functions.address, linear.terms.address))
    }
}

/// The error of steps that nothing was made ready for.
fn none() -> Error {
    Error::Data("a step of linear leaves in a fit that has none".into())
}

/// Bytes of shared memory for the sums of warps.
pub(super) fn shared(gpu: &Gpu) -> u32 {
    gpu.shared_per_block() - 1024
}
