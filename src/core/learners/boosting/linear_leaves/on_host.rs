//! The normal equations of linear leaves, and the values of rows, by this process's threads: for devices that tell rows one by one.

use super::equations::{BlockSums, Equations, LeafColumns, LeafMeasures, TreeColumns, Units};
use super::{LinearLeaves, MOST_COLUMNS, PIECE};
use crate::collective::RowShard;
use crate::column::Column;
use crate::error::Result;
use crate::learners::boosting::steps::{LeafRows, LinearSteps, RowSteps};
use crate::losses::Loss;
use crate::memory::{self, product};
use crate::parallel::numbered;
use crate::tree::linear::{LinearLeaf, in_f32};
use std::ops::Range;

/// Rows that columns are read for, and sums are added over, at a time.
const BLOCK: usize = RowShard::BLOCK;

/// As many sums as all pieces may hold together, where there is more than one piece.
const MOST_SUMS: usize = 1 << 22;

/// The steps of linear leaves over rows that a device tells.
pub struct OnHost<'s> {
    leaves: &'s LinearLeaves<'s>,
    device: &'s mut dyn RowSteps,
    /// The values of leaves that are no functions, and of rows that theirs has none for.
    plain: &'s [f32],
    rows: LeafRows,
}

impl<'s> OnHost<'s> {
    /// Takes the leaves' `plain` values.
    pub fn new(leaves: &'s LinearLeaves<'s>, device: &'s mut dyn RowSteps, plain: &'s [f32]) -> OnHost<'s> {
        OnHost { leaves, device, plain, rows: LeafRows::default() }
    }

    fn reader(&self, columns: &TreeColumns) -> Reader<'s> {
        Reader { columns: columns.columns.iter().map(|column| &self.leaves.columns[*column as usize]).collect() }
    }
}

impl LinearSteps for OnHost<'_> {
    fn measure(&mut self, loss: &dyn Loss, output: usize, columns: &TreeColumns) -> Result<LeafMeasures> {
        self.rows = self.device.leaf_rows(loss, output)?;
        let (rows, reader) = (&self.rows, self.reader(columns));
        let largest = |values: &[f32]| values.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
        let (gradient, hessian) = (largest(&rows.gradient), largest(&rows.hessian));
        // Most leaves have rows among the first ones. Where some have none at all, all threads look for them.
        let (first, count) = (PIECE.min(rows.leaf.len()), rows.leaf.len());
        let mut all = LeafMeasures { gradient, hessian, origins: first_rows(&reader, rows, &columns.leaves, 0..first) };
        if all.misses(columns) {
            let of_piece = |piece: usize| {
                let range = (piece + 1) * PIECE..count.min((piece + 2) * PIECE);
                LeafMeasures { gradient, hessian, origins: first_rows(&reader, rows, &columns.leaves, range) }
            };
            numbered::map((count - first).div_ceil(PIECE), 1, of_piece).into_iter().for_each(|piece| all.merge(piece));
        }
        Ok(all)
    }

    fn equations(&mut self, columns: &TreeColumns, units: &Units) -> Result<Equations> {
        sum(&self.reader(columns), &self.rows, columns, units)
    }

    fn set_functions(&mut self, output: usize, columns: &TreeColumns, functions: &[Option<LinearLeaf>]) -> Result<()> {
        self.device.set_row_values(output, &apply(&self.reader(columns), &self.rows, columns, functions, self.plain))
    }
}

/// The columns that a tree reads, block by block.
struct Reader<'a> {
    columns: Vec<&'a Column<'a>>,
}

impl Reader<'_> {
    /// Calls `visit(first row, rows, values of each column)` for blocks of some rows, in their order, until that is false.
    fn blocks(&self, rows: Range<usize>, mut visit: impl FnMut(usize, usize, &[&[f64]]) -> bool) {
        let mut memory = vec![vec![]; self.columns.len()];
        for start in rows.clone().step_by(BLOCK) {
            let n = BLOCK.min(rows.end - start);
            let columns = self.columns.iter().zip(&mut memory);
            let values: Vec<&[f64]> = columns.map(|(column, memory)| column.borrow_f64(start, n, memory)).collect();
            if !visit(start, n, &values) {
                return;
            }
        }
    }
}

/// Returns the values of each leaf's columns in the first of some rows that counts and has all of them; none where it has none, or no columns.
fn first_rows(reader: &Reader<'_>, rows: &LeafRows, leaves: &[LeafColumns], range: Range<usize>) -> Vec<Option<Vec<f64>>> {
    let mut missing = leaves.iter().filter(|leaf| !leaf.slots.is_empty()).count();
    let mut found: Vec<Option<Vec<f64>>> = vec![None; leaves.len()];
    reader.blocks(range, |start, n, values| {
        for (row, (leaf, hessian)) in rows.leaf[start..start + n].iter().zip(&rows.hessian[start..]).enumerate() {
            let leaf = *leaf as usize;
            if *hessian <= 0.0 || leaves[leaf].slots.is_empty() || found[leaf].is_some() {
                continue;
            }
            let own = leaves[leaf].slots.iter().map(|slot| values[*slot][row]);
            if own.clone().all(f64::is_finite) {
                found[leaf] = Some(own.collect());
                missing -= 1;
            }
        }
        missing > 0
    });
    found
}

/// Adds up the sums of all leaves over these rows.
fn sum(reader: &Reader<'_>, rows: &LeafRows, columns: &TreeColumns, units: &Units) -> Result<Equations> {
    let (leaves, length) = (&columns.leaves, columns.sums);
    let blocks = rows.leaf.len().div_ceil(BLOCK);
    let most = (MOST_SUMS / length.max(1)).min(4 * rayon::current_num_threads());
    let pieces = (rows.leaf.len() / PIECE).min(most).max(1);
    let bytes = product(&[24, pieces as u64, length as u64]);
    memory::check("the sums of leaves that are linear functions", bytes, "lower `leaves` or `depth`, or leave `leaf` out")?;
    let of_piece = |piece: usize| {
        let mut sums = BlockSums::new(leaves, units, length);
        let mut measured = [0.0; MOST_COLUMNS];
        let end = (blocks * (piece + 1) / pieces * BLOCK).min(rows.leaf.len());
        reader.blocks(blocks * piece / pieces * BLOCK..end, |start, n, values| {
            for row in 0..n {
                let (number, hessian) = (rows.leaf[start + row] as usize, f64::from(rows.hessian[start + row]));
                let leaf = &leaves[number];
                let columns = leaf.slots.len();
                if columns > 0 && hessian > 0.0 && leaf.measure(values, row, &mut measured) {
                    sums.add(number, &measured[..columns], f64::from(rows.gradient[start + row]), hessian);
                }
            }
            sums.end_block();
            true
        });
        sums.into_equations()
    };
    let mut pieces = numbered::map(pieces, 1, of_piece).into_iter();
    let mut all = pieces.next().unwrap_or_default();
    pieces.for_each(|piece| all.merge(&piece));
    Ok(all)
}

/// Returns each row's value: that of its leaf's function where it has one that is finite there, else the plain one.
fn apply(reader: &Reader<'_>, rows: &LeafRows, columns: &TreeColumns, functions: &[Option<LinearLeaf>], plain: &[f32]) -> Vec<f32> {
    let (count, used) = (rows.leaf.len(), &columns.columns);
    let slots: Vec<usize> =
        (0..used.last().map_or(0, |last| *last as usize + 1)).map(|c| used.partition_point(|u| (*u as usize) < c)).collect();
    let of_piece = |piece: usize| {
        let mut out = Vec::with_capacity(PIECE);
        reader.blocks(piece * PIECE..count.min((piece + 1) * PIECE), |start, n, values| {
            out.extend((0..n).map(|row| {
                let leaf = rows.leaf[start + row] as usize;
                let value = functions[leaf].as_ref().and_then(|function| function.value(|column| values[slots[column as usize]][row]));
                value.map_or(plain[leaf], in_f32)
            }));
            true
        });
        out
    };
    numbered::map(count.div_ceil(PIECE), 1, of_piece).concat()
}
