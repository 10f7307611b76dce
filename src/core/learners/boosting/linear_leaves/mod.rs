//! Leaves that are linear functions of the numeric columns on the paths to them (Shi et al., "Gradient Boosting With Piece-Wise Linear
//! Regression Trees", 2018; LightGBM's `linear_tree`).
//!
//! When a tree has grown, the function `f(x) = constant + Σ coefficient · x` of a leaf is the one with the least
//! `Σ (gradient · f + ½ hessian · f²) + ½ linear_l2 Σ coefficient²` over those rows of the leaf that have all of its columns; the others get the
//! leaf's plain value. Where hessians are not the weights alone, a row's may be next to nothing, and what it asks for beyond all bounds: there
//! `½ l2 f²` of the mean row of the leaf is added, what a number is held back by. The sums that this takes are whole numbers ([`equations`]), so that threads, chunks and shards do not show.

mod equations;
mod on_host;
mod paths;
mod solve;

pub use self::equations::{Equations, LeafColumns, LeafMeasures, TreeColumns, Units};
pub(super) use self::on_host::OnHost;
pub(super) use self::paths::LeafPaths;

use self::paths::{PathColumn, SplitColumns};
use super::params::{BoostingParams, LeafKind};
use super::steps::{LeafSums, LinearSteps};
use crate::collective::RowShard;
use crate::column::select::OwnedColumn;
use crate::column::{Column, FeatureType};
use crate::dataset::kept_columns::{self, CHUNK, ColumnKeeper, KeptBlock, Store};
use crate::dataset::{Batches, Input};
use crate::error::{Error, Result};
use crate::losses::{LeafRule, Loss};
use crate::memory::{self, product};
use crate::parallel::numbered;
use crate::quantize::CodedFeature;
use crate::tree::Tree;
use crate::tree::linear::LinearLeaf;
use std::sync::OnceLock;

/// The most columns that a leaf is a function of: of more on its path those that are asked about first.
pub const MOST_COLUMNS: usize = 16;

/// The rows of a piece of work, at the least.
const PIECE: usize = 1 << 14;

/// Checks that the leaves of a loss may be linear functions, where that is asked for.
///
/// # Errors
/// Where its leaves are quantiles of residuals.
pub(super) fn check(params: &BoostingParams, loss: &dyn Loss) -> Result<()> {
    if !params.has_linear_leaves() || (0..loss.outputs()).all(|output| loss.leaf_rule(output) == LeafRule::Newton) {
        return Ok(());
    }
    let text = "\"linear\" is for losses whose leaves are Newton's steps, and those of this loss are quantiles of residuals: leave it out, or take \
                loss=\"huber\"";
    Err(Error::parameter("leaf", text))
}

/// Returns what keeps the values of columns that come in batches, for fits whose leaves are linear functions of them.
pub(super) fn keeper<'a>(params: &BoostingParams, batches: Batches<'a>) -> Option<ColumnKeeper<'a>> {
    let store = Store { chunk: CHUNK, spill: batches.spill() };
    params.has_linear_leaves().then(|| ColumnKeeper::new(store, batches.columns().len()))
}

/// Returns a table's columns, those that come in batches as they were kept.
pub(super) fn with_kept<'a>(input: &'a Input<'_>, batches: Batches<'_>, kept: &'a [KeptBlock]) -> Vec<Column<'a>> {
    let column = |(number, own): (u32, &'a Column<'_>)| match batches.place(number) {
        Some(place) => kept_columns::column(kept, place, own),
        None => own.clone(),
    };
    (0..).zip(&input.features).map(column).collect()
}

/// Copies some rows (ascending) of a table's columns; of those with categories none, which no leaf reads.
///
/// # Errors
/// [`Error::Memory`].
pub(super) fn values_of(columns: &[Column<'_>], rows: &[usize]) -> Result<Vec<OwnedColumn>> {
    let is_numeric = |column: &Column<'_>| *column.dtype() != FeatureType::Categorical;
    let bytes = product(&[8, rows.len() as u64, columns.iter().filter(|column| is_numeric(column)).count() as u64]);
    memory::check("the values of a fold's rows, which linear leaves read", bytes, "take fewer rows or features, or leave `leaf` out")?;
    Ok(columns.iter().map(|column| OwnedColumn::of(column, if is_numeric(column) { rows } else { &[] })).collect())
}

/// What the functions of a tree's leaves keep to.
pub(super) struct Rules {
    /// What values are held back by, the plain ones and those of functions, in units of hessians.
    pub l2: f64,
    /// What coefficients are, besides.
    pub linear_l2: f64,
    /// The learning rate, which is in the functions.
    pub rate: f64,
    /// What values are in units of; in it they must be finite.
    pub unit: f64,
}

/// Makes leaves linear functions of a table's columns.
pub(super) struct LinearLeaves<'a> {
    /// Those of the table, as the model counts them, for the rows that are here.
    columns: &'a [Column<'a>],
    rows: usize,
    shard: RowShard<'a>,
    /// The least and the largest finite value of each column in all rows, once they are asked for.
    bounds: Vec<OnceLock<[f64; 2]>>,
}

impl<'a> LinearLeaves<'a> {
    /// Takes a table's columns, of which those with categories are never read, for the `rows` rows of the shard that this process has.
    pub fn new(columns: &'a [Column<'a>], rows: usize, shard: RowShard<'a>) -> LinearLeaves<'a> {
        LinearLeaves { columns, rows, shard, bounds: columns.iter().map(|_| OnceLock::new()).collect() }
    }

    /// Returns the paths to the leaves of a tree, by what columns its features are.
    pub fn paths(&self, tree: &Tree, columns: &[Option<u32>], coded: &[CodedFeature]) -> LeafPaths {
        let is_numeric = |column: &u32| *self.columns[*column as usize].dtype() != FeatureType::Categorical;
        let columns: Vec<Option<u32>> = columns.iter().map(|column| column.filter(is_numeric)).collect();
        LeafPaths::new(tree, SplitColumns { columns: &columns, coded })
    }

    /// Finds the least and the largest finite value of those of some columns, in the rows of all shards, for which they are not known.
    fn find_bounds(&self, columns: &[u32]) -> Result<()> {
        let unknown: Vec<u32> = columns.iter().copied().filter(|column| self.bounds[*column as usize].get().is_none()).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let wider = |a: [f64; 2], b: [f64; 2]| [a[0].min(b[0]), a[1].max(b[1])];
        const NONE: [f64; 2] = [f64::INFINITY, f64::NEG_INFINITY];
        let pieces = self.rows.div_ceil(PIECE);
        let of_piece = |i: usize| {
            let (column, start, mut memory) = (&self.columns[unknown[i / pieces] as usize], i % pieces * PIECE, vec![]);
            let values = column.borrow_f64(start, PIECE.min(self.rows - start), &mut memory);
            values.iter().filter(|x| x.is_finite()).fold(NONE, |bounds, x| wider(bounds, [*x; 2]))
        };
        let found = numbered::map(unknown.len() * pieces, 1, of_piece);
        let own: Vec<[f64; 2]> =
            (0..unknown.len()).map(|k| found[k * pieces..(k + 1) * pieces].iter().copied().fold(NONE, wider)).collect();
        let all = if self.shard.is_whole() { own } else { self.shard.collective.gather(own.as_flattened())?.as_chunks().0.to_vec() };
        for (k, column) in unknown.iter().enumerate() {
            let of_shards = all.iter().skip(k).step_by(unknown.len());
            self.bounds[*column as usize].get_or_init(|| of_shards.copied().fold(NONE, wider));
        }
        Ok(())
    }

    /// Makes the leaves of the tree just ended, or replayed, functions where they can be, and gives its rows' scores the values of these for an
    /// output; returns them, of tree 0. All shards come to the same functions.
    ///
    /// # Errors
    /// Those of the device and of the collective; [`Error::Memory`].
    pub fn fit(
        &self,
        steps: &mut dyn LinearSteps,
        (loss, output): (&dyn Loss, usize),
        (paths, counts): (&LeafPaths, &[LeafSums]),
        rules: &Rules,
    ) -> Result<Vec<LinearLeaf>> {
        self.find_bounds(&paths.columns)?;
        let bounds = |column: u32| self.bounds[column as usize].get().copied().unwrap_or_default();
        let mut columns = TreeColumns::new(paths, bounds);
        if !loss.constant_hessian() {
            let own = columns.leaves.iter_mut().zip(counts);
            own.for_each(|(leaf, sums)| leaf.added = (rules.l2 / sums.count.max(1) as f64).min(f64::from(f32::MAX)));
        }
        let own = steps.measure(loss, output, &columns)?;
        let units = self.measured_from(own, &mut columns)?;
        let mut equations = steps.equations(&columns, &units)?;
        equations.complete(self.shard.collective)?;
        let of_leaf = |(leaf, path): (usize, &Vec<PathColumn>)| {
            let own = &columns.leaves[leaf];
            let sums = (equations.counts[leaf], &equations.numbers[own.first..own.first + own.sums()]);
            let function = own
                .function(path, sums, &units, (rules.linear_l2, rules.rate))
                .map(|function| LinearLeaf { leaf: leaf as u32, ..function });
            function.filter(|function| function.validate(rules.unit).is_ok())
        };
        let functions: Vec<Option<LinearLeaf>> = paths.of_leaves.iter().enumerate().map(of_leaf).collect();
        if functions.iter().any(Option::is_some) {
            steps.set_functions(output, &columns, &functions)?;
        }
        Ok(functions.into_iter().flatten().collect())
    }

    /// Takes each leaf's origins from the first shard that has some, and what sums are in units of from the largest derivatives of all.
    fn measured_from(&self, own: LeafMeasures, columns: &mut TreeColumns) -> Result<Units> {
        let mut told = vec![f64::from(own.gradient), f64::from(own.hessian)];
        for (leaf, origins) in columns.leaves.iter().zip(own.origins) {
            told.push(f64::from(u8::from(origins.is_some())));
            told.extend(origins.unwrap_or(vec![0.0; leaf.slots.len()]));
        }
        let length = told.len();
        let all = if self.shard.is_whole() { told } else { self.shard.collective.gather(&told)? };
        let (mut gradient, mut hessian) = (0.0, 0.0);
        let mut missing = vec![true; columns.leaves.len()];
        for of_shard in all.chunks_exact(length) {
            (gradient, hessian) = (f64::max(gradient, of_shard[0]), f64::max(hessian, of_shard[1]));
            let mut rest = &of_shard[2..];
            for (leaf, missing) in columns.leaves.iter_mut().zip(&mut missing) {
                let (own, others) = rest.split_at(1 + leaf.slots.len());
                if *missing && own[0] > 0.0 {
                    leaf.origins.copy_from_slice(&own[1..]);
                    *missing = false;
                }
                rest = others;
            }
        }
        let added = columns.leaves.iter().fold(0.0, |most, leaf| f64::max(most, leaf.added));
        Ok(Units::new(self.shard.all, gradient, hessian + added))
    }
}

impl BoostingParams {
    /// Returns whether leaves are linear functions.
    pub fn has_linear_leaves(&self) -> bool {
        self.leaf == Some(LeafKind::Linear)
    }
}
