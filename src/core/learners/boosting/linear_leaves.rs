//! Leaves that are linear functions of the numeric columns on the paths to them (Shi et al., "Gradient Boosting With Piece-Wise Linear
//! Regression Trees", 2018; LightGBM's `linear_tree`).
//!
//! When a tree has grown, the function `f(x) = constant + Σ coefficient · x` of a leaf is the one with the least
//! `Σ (gradient · f + ½ hessian · f²) + ½ l2 Σ coefficient²` over those rows of the leaf that have all of its columns; the others get the
//! leaf's plain value. The sums that this takes are added row by row inside pieces of the table and then piece by piece, and the pieces follow
//! from the table alone, so that threads and chunks do not show.

use super::continued::FitOptions;
use super::params::{BoostingParams, LeafKind};
use super::steps::LeafRows;
use crate::column::select::OwnedColumn;
use crate::column::{Column, FeatureType};
use crate::dataset::OwnRows;
use crate::error::{Error, Result};
use crate::losses::{LeafRule, Loss};
use crate::memory::{self, product};
use crate::parallel::numbered;
use crate::tree::Tree;
use crate::tree::linear::{LinearLeaf, in_f32};
use crate::tree::model::Child;
use std::sync::OnceLock;

/// The most columns that a leaf is a function of: of more on its path those that are asked about first.
pub const MOST_COLUMNS: usize = 16;

/// Rows that columns are read for at a time.
const BLOCK: usize = 1 << 10;

/// The rows of a piece, at the least, and how many pieces there are at the most.
const PIECE: usize = 1 << 14;
const MOST_PIECES: usize = 64;

/// As many sums as all pieces may hold together, where there is more than one piece.
const MOST_SUMS: usize = 1 << 22;

/// The least share of the mean square of a column in a leaf, measured from one of its values, that its variance has if it varies.
const VARIES: f64 = 1e-12;

/// The least share of the variance of a column that is not told by the columns before it, if it is no function of these.
const OWN_VARIANCE: f64 = 1e-9;

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

/// Checks that a fit whose leaves are linear functions has all values of all rows at hand.
///
/// # Errors
/// Naming what keeps it from that.
pub(super) fn check_rows(params: &BoostingParams, options: &FitOptions<'_>, own: &OwnRows<'_>) -> Result<()> {
    let refused =
        |what: &str| Err(Error::parameter("leaf", format!("\"linear\" reads the values of all rows after each tree, and {what}")));
    match params.has_linear_leaves() {
        true if options.batches.is_some() => refused("`batches` keep codes alone: leave one of both out"),
        true if !own.is_whole() => refused("with `collective` they lie in several processes: leave one of both out"),
        _ => Ok(()),
    }
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

/// Makes leaves linear functions of a table's columns.
pub(super) struct LinearLeaves<'a> {
    /// Those of the table, as the model counts them.
    columns: &'a [Column<'a>],
    /// Of each column, once it is asked for: a power of two that makes its largest value about 1.
    scales: Vec<OnceLock<f64>>,
}

/// What the leaves of a tree have become.
pub(super) struct FittedLeaves {
    /// Those that are functions; of tree 0.
    pub linear: Vec<LinearLeaf>,
    /// What each row's score gets; none where no leaf is a function.
    pub values: Vec<f32>,
}

/// The columns of a leaf: their places among those that the tree reads, and where from and by what their values are measured while sums
/// are added: by `(x - origin) · scale`.
#[derive(Clone, Debug, Default)]
struct LeafColumns {
    slots: Vec<usize>,
    origins: Vec<f64>,
    scales: Vec<f64>,
    /// The place of its sums.
    first: usize,
}

impl LeafColumns {
    /// Writes a row's measured values to `out`; returns whether all are finite.
    #[inline]
    fn measure(&self, values: &[&[f64]], row: usize, out: &mut [f64; MOST_COLUMNS]) -> bool {
        let mut is_finite = true;
        for (((slot, origin), scale), out) in self.slots.iter().zip(&self.origins).zip(&self.scales).zip(out) {
            *out = (values[*slot][row] - origin) * scale;
            is_finite &= out.is_finite();
        }
        is_finite
    }

    /// Returns the function of its `columns` that the sums of its rows come to, the learning rate `rate` included, as leaf 0 of tree 0; none
    /// where there is none. Its numbers may not be finite.
    fn function(&self, columns: &[u32], sums: &[f64], l2: f64, rate: f64) -> Option<LinearLeaf> {
        let l2: Vec<f64> = self.scales.iter().map(|scale| if l2 > 0.0 { l2 * scale * scale } else { 0.0 }).collect();
        let (mut constant, means, coefficients) = solve(sums, &l2)?;
        let mut terms = vec![];
        for (i, column) in columns.iter().enumerate() {
            let coefficient = coefficients[i] * self.scales[i];
            constant -= coefficients[i] * means[i];
            constant -= coefficient * self.origins[i];
            if coefficient * rate != 0.0 {
                terms.push((*column, coefficient * rate));
            }
        }
        Some(LinearLeaf { tree: 0, leaf: 0, constant: constant * rate, terms })
    }
}

/// The sums of a leaf's rows: their number, Σ h, Σ g; Σ h x and Σ g x of each column; Σ h x y of each pair of columns, a lower triangle row by row.
fn sums_of(columns: usize) -> usize {
    3 + 2 * columns + columns * (columns + 1) / 2
}

/// Adds a row to a leaf's sums.
#[inline]
fn add(sums: &mut [f64], x: &[f64], gradient: f64, hessian: f64) {
    let (totals, rest) = sums.split_at_mut(3);
    let (of_hessian, rest) = rest.split_at_mut(x.len());
    let (of_gradient, mut of_pairs) = rest.split_at_mut(x.len());
    totals[0] += 1.0;
    totals[1] += hessian;
    totals[2] += gradient;
    for (i, value) in x.iter().enumerate() {
        let weighed = hessian * value;
        of_hessian[i] += weighed;
        of_gradient[i] += gradient * value;
        let (own, others) = of_pairs.split_at_mut(i + 1);
        own.iter_mut().zip(x).for_each(|(sum, other)| *sum += weighed * other);
        of_pairs = others;
    }
}

/// The least of the quadratic form that a leaf's sums are of: the value where all columns have their means, the means, and the coefficients. A
/// column that does not vary, or that is a function of those before it, has none (0). None where rows are fewer than columns and 1.
fn solve(sums: &[f64], l2: &[f64]) -> Option<(f64, Vec<f64>, Vec<f64>)> {
    let n = l2.len();
    let (totals, rest) = sums.split_at(3);
    let (of_hessian, rest) = rest.split_at(n);
    let (of_gradient, of_pairs) = rest.split_at(n);
    let [count, hessian, gradient] = [totals[0], totals[1], totals[2]];
    if count < n as f64 + 1.0 || hessian.is_nan() || hessian <= 0.0 {
        return None;
    }
    let means: Vec<f64> = of_hessian.iter().map(|sum| sum / hessian).collect();
    // The matrix is L D Lᵀ, and `solved` the solution of L first.
    let (mut lower, mut diagonal, mut solved) = (vec![[0.0; MOST_COLUMNS]; n], vec![0.0; n], vec![0.0; n]);
    let mut kept: Vec<usize> = Vec::with_capacity(n);
    for i in 0..n {
        let pairs = &of_pairs[i * (i + 1) / 2..];
        let square = pairs[i];
        let variance = square - of_hessian[i] * means[i];
        let penalized = variance + l2[i];
        if !(variance > VARIES * square && penalized.is_finite()) {
            continue;
        }
        let (mut own, mut right) = (penalized, gradient * means[i] - of_gradient[i]);
        for (at, j) in kept.iter().copied().enumerate() {
            let covariance = pairs[j] - of_hessian[i] * means[j];
            let before = kept[..at].iter().fold(covariance, |left, k| left - lower[i][*k] * diagonal[*k] * lower[j][*k]);
            lower[i][j] = before / diagonal[j];
            own -= lower[i][j] * before;
            right -= lower[i][j] * solved[j];
        }
        if own > OWN_VARIANCE * penalized {
            (diagonal[i], solved[i]) = (own, right);
            kept.push(i);
        }
    }
    let mut coefficients = vec![0.0; n];
    for (at, i) in kept.iter().copied().enumerate().rev() {
        let behind = kept[at + 1..].iter().fold(0.0, |sum, k| sum + lower[*k][i] * coefficients[*k]);
        coefficients[i] = solved[i] / diagonal[i] - behind;
    }
    (!kept.is_empty()).then_some((-gradient / hessian, means, coefficients))
}

/// Returns the columns on the path to each leaf, ascending: those that `column` says of the features that splits ask about.
fn paths(tree: &Tree, column: impl Fn(u32) -> Option<u32>) -> Vec<Vec<u32>> {
    let with = |path: &[u32], feature: u32| {
        let mut path = path.to_vec();
        if let Some(column) = column(feature).filter(|column| !path.contains(column) && path.len() < MOST_COLUMNS) {
            path.push(column);
        }
        path
    };
    let mut of_leaves = match tree {
        Tree::Symmetric { splits, leaves } => {
            let path = splits.iter().fold(vec![], |path, split| with(&path, split.feature));
            vec![path; leaves.len()]
        }
        Tree::Branching { nodes, leaves } => {
            // Children stand behind their parents.
            let (mut of_nodes, mut of_leaves) = (vec![vec![]; nodes.len()], vec![vec![]; leaves.len()]);
            for (i, node) in nodes.iter().enumerate() {
                let path = with(&std::mem::take(&mut of_nodes[i]), node.split.feature);
                for child in [node.left, node.right] {
                    match child {
                        Child::Node(n) => of_nodes[n as usize].clone_from(&path),
                        Child::Leaf(l) => of_leaves[l as usize].clone_from(&path),
                    }
                }
            }
            of_leaves
        }
    };
    of_leaves.iter_mut().for_each(|path| path.sort_unstable());
    of_leaves
}

/// The columns that a tree reads, block by block.
struct Reader<'a> {
    columns: Vec<&'a Column<'a>>,
}

impl Reader<'_> {
    /// Calls `visit(first row, rows, values of each column)` for blocks of some rows, in their order, until that is false.
    fn blocks(&self, rows: std::ops::Range<usize>, mut visit: impl FnMut(usize, usize, &[&[f64]]) -> bool) {
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

impl<'a> LinearLeaves<'a> {
    /// Takes a table's columns, of which those with categories are never read.
    pub fn new(columns: &'a [Column<'a>]) -> LinearLeaves<'a> {
        LinearLeaves { columns, scales: columns.iter().map(|_| OnceLock::new()).collect() }
    }

    /// Returns the power of two that a column's values are multiplied by.
    fn scale(&self, column: u32) -> f64 {
        *self.scales[column as usize].get_or_init(|| {
            let column = &self.columns[column as usize];
            let largest = numbered::map(column.len().div_ceil(PIECE), 1, |piece| {
                let (mut memory, start) = (vec![], piece * PIECE);
                let values = column.borrow_f64(start, PIECE.min(column.len() - start), &mut memory);
                values.iter().map(|x| x.abs()).filter(|x| x.is_finite()).fold(0.0, f64::max)
            });
            match largest.into_iter().fold(0.0, f64::max) {
                0.0 => 1.0,
                largest => libm::ldexp(1.0, (-libm::ilogb(largest)).clamp(-1000, 1000)),
            }
        })
    }

    /// Makes the leaves of a tree functions where they can be, by the derivatives of its rows: `plain` are their values else, the learning rate
    /// `rate` included. `column` says which column a feature of the tree's splits is, if it is one; `l2` is in units of hessians, and values of
    /// `unit`, in which they must be finite.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn fit(
        &self,
        (tree, column): (&Tree, impl Fn(u32) -> Option<u32>),
        rows: &LeafRows,
        plain: &[f32],
        (l2, rate, unit): (f64, f64, f64),
    ) -> Result<FittedLeaves> {
        let is_numeric = |column: &u32| *self.columns[*column as usize].dtype() != FeatureType::Categorical;
        let paths = paths(tree, |feature| column(feature).filter(is_numeric));
        let mut used: Vec<u32> = paths.concat();
        used.sort_unstable();
        used.dedup();
        let reader = Reader { columns: used.iter().map(|column| &self.columns[*column as usize]).collect() };
        let mut first = 0;
        let of_path = |path: &Vec<u32>| {
            let own = LeafColumns {
                slots: path.iter().map(|column| used.partition_point(|other| other < column)).collect(),
                origins: vec![0.0; path.len()],
                scales: path.iter().map(|column| self.scale(*column)).collect(),
                first,
            };
            first += sums_of(path.len());
            own
        };
        let mut leaves: Vec<LeafColumns> = paths.iter().map(of_path).collect();
        originate(&reader, rows, &mut leaves);
        let sums = sum(&reader, rows, &leaves, first)?;
        let of_leaf = |(number, (leaf, path)): (u32, (&LeafColumns, &Vec<u32>))| {
            let own = &sums[leaf.first..leaf.first + sums_of(path.len())];
            leaf.function(path, own, l2, rate).map(|function| LinearLeaf { leaf: number, ..function }).filter(|f| f.validate(unit).is_ok())
        };
        let functions: Vec<Option<LinearLeaf>> = (0..).zip(leaves.iter().zip(&paths)).map(of_leaf).collect();
        let values = if functions.iter().any(Option::is_some) { apply(&reader, &used, rows, &functions, plain) } else { vec![] };
        Ok(FittedLeaves { linear: functions.into_iter().flatten().collect(), values })
    }
}

/// Finds where each leaf's columns are measured from: at its first row that counts and has all of them.
fn originate(reader: &Reader<'_>, rows: &LeafRows, leaves: &mut [LeafColumns]) {
    let mut missing = leaves.iter().filter(|leaf| !leaf.slots.is_empty()).count();
    let mut found: Vec<bool> = leaves.iter().map(|leaf| leaf.slots.is_empty()).collect();
    let mut measured = [0.0; MOST_COLUMNS];
    reader.blocks(0..rows.leaf.len(), |start, n, values| {
        for row in 0..n {
            let leaf = rows.leaf[start + row] as usize;
            if found[leaf] || rows.hessian[start + row] <= 0.0 || !leaves[leaf].measure(values, row, &mut measured) {
                continue;
            }
            let own = &mut leaves[leaf];
            own.origins.iter_mut().zip(&own.slots).for_each(|(origin, slot)| *origin = values[*slot][row]);
            found[leaf] = true;
            missing -= 1;
        }
        missing > 0
    });
}

/// Adds up the sums of all leaves, `length` numbers.
fn sum(reader: &Reader<'_>, rows: &LeafRows, leaves: &[LeafColumns], length: usize) -> Result<Vec<f64>> {
    let count = rows.leaf.len();
    let pieces = (count / PIECE).min(MOST_SUMS / length.max(1)).clamp(1, MOST_PIECES);
    let bytes = product(&[8, pieces as u64, length as u64]);
    memory::check("the sums of leaves that are linear functions", bytes, "lower `leaves` or `depth`, or leave `leaf` out")?;
    let of_piece = |piece: usize| {
        let mut sums = vec![0.0; length];
        let mut measured = [0.0; MOST_COLUMNS];
        reader.blocks(count * piece / pieces..count * (piece + 1) / pieces, |start, n, values| {
            for row in 0..n {
                let (leaf, hessian) = (&leaves[rows.leaf[start + row] as usize], f64::from(rows.hessian[start + row]));
                let columns = leaf.slots.len();
                if columns > 0 && hessian > 0.0 && leaf.measure(values, row, &mut measured) {
                    let own = &mut sums[leaf.first..leaf.first + sums_of(columns)];
                    add(own, &measured[..columns], f64::from(rows.gradient[start + row]), hessian);
                }
            }
            true
        });
        sums
    };
    let mut pieces = numbered::map(pieces, 1, of_piece).into_iter();
    let mut sums = pieces.next().unwrap_or_default();
    pieces.for_each(|piece| sums.iter_mut().zip(piece).for_each(|(sum, more)| *sum += more));
    Ok(sums)
}

/// Returns each row's value: that of its leaf's function where it has one that is finite there, else the plain one.
fn apply(reader: &Reader<'_>, used: &[u32], rows: &LeafRows, functions: &[Option<LinearLeaf>], plain: &[f32]) -> Vec<f32> {
    let count = rows.leaf.len();
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

impl BoostingParams {
    /// Returns whether leaves are linear functions.
    pub fn has_linear_leaves(&self) -> bool {
        self.leaf == Some(LeafKind::Linear)
    }
}
