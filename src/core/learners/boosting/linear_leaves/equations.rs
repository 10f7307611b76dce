//! The normal equations of linear leaves: sums over rows that are the same wherever the rows lie.
//!
//! The rows of a block ([`RowShard::BLOCK`]), which shards have whole, are added in f64 in their order. A block's sums are then rounded to whole
//! numbers, so that blocks may be added in any order, on any thread and in any shard: each sum to a number of coarse units, and what that leaves
//! to a number of fine ones, which are 2^-91 of the largest value that a row may add, or more where rows are beyond four million.

use super::MOST_COLUMNS;
use super::paths::{LeafPaths, PathColumn};
use crate::collective::{Collective, RowShard};
use crate::error::Result;
use crate::numerics::fixed::round64;

/// The columns of a leaf: their places among those that the tree reads ([`TreeColumns::columns`]), and where from and by what their values are measured while sums
/// are added: by `(x - origin) · scale`, which lies between -1 and 1.
#[derive(Clone, Debug, Default)]
pub struct LeafColumns {
    pub slots: Vec<usize>,
    pub origins: Vec<f64>,
    pub scales: Vec<f64>,
    /// The place of its sums.
    pub first: usize,
    /// What is added to the hessian of each row that counts, up to the largest f32.
    pub added: f64,
}

/// The columns of the leaves of a tree.
#[derive(Clone, Debug)]
pub struct TreeColumns {
    /// Those that any leaf reads, by their numbers in the table, ascending.
    pub columns: Vec<u32>,
    pub leaves: Vec<LeafColumns>,
    /// How many sums all leaves have together.
    pub sums: usize,
}

impl TreeColumns {
    /// Takes those of the paths of a tree; `bounds` are the least and the largest value of a column in the table.
    pub fn new(paths: &LeafPaths, bounds: impl Fn(u32) -> [f64; 2]) -> TreeColumns {
        let mut sums = 0;
        let slot = |column: u32| paths.columns.partition_point(|other| *other < column);
        let of_path = |path: &Vec<PathColumn>| {
            let own = LeafColumns::new(path, &bounds, slot, sums);
            sums += own.sums();
            own
        };
        let leaves = paths.of_leaves.iter().map(of_path).collect();
        TreeColumns { columns: paths.columns.clone(), leaves, sums }
    }
}

/// What some rows of a table tell of a tree's leaves before sums are added.
#[derive(Clone, Debug, PartialEq)]
pub struct LeafMeasures {
    /// The largest gradient and the largest hessian, without their signs.
    pub gradient: f32,
    pub hessian: f32,
    /// The values of each leaf's columns in the first row whose hessian is not 0 and that has finite values of all; none of a leaf without columns.
    pub origins: Vec<Option<Vec<f64>>>,
}

impl LeafMeasures {
    /// Returns whether there is a leaf with columns and without such a row.
    pub fn misses(&self, columns: &TreeColumns) -> bool {
        self.origins.iter().zip(&columns.leaves).any(|(origins, leaf)| origins.is_none() && !leaf.slots.is_empty())
    }

    /// Adds those of rows behind these.
    pub fn merge(&mut self, other: LeafMeasures) {
        (self.gradient, self.hessian) = (self.gradient.max(other.gradient), self.hessian.max(other.hessian));
        self.origins.iter_mut().zip(other.origins).for_each(|(own, other)| *own = own.take().or(other));
    }
}

impl LeafColumns {
    /// Takes the columns of a path, whose values lie between `bounds` in the table; `slot` says where each is.
    pub fn new(path: &[PathColumn], bounds: impl Fn(u32) -> [f64; 2], slot: impl Fn(u32) -> usize, first: usize) -> LeafColumns {
        let scale = |own: &PathColumn| {
            let [low, high] = bounds(own.column);
            scale(own.low.max(low), own.high.min(high))
        };
        LeafColumns {
            slots: path.iter().map(|own| slot(own.column)).collect(),
            origins: vec![0.0; path.len()],
            scales: path.iter().map(scale).collect(),
            first,
            added: 0.0,
        }
    }

    /// Returns how many sums it has: see [`sums_of`].
    pub fn sums(&self) -> usize {
        sums_of(self.slots.len())
    }

    /// Writes a row's measured values to `out`; returns whether it has all of them.
    #[inline]
    pub fn measure(&self, values: &[&[f64]], row: usize, out: &mut [f64; MOST_COLUMNS]) -> bool {
        let mut has_all = true;
        for (((slot, origin), scale), out) in self.slots.iter().zip(&self.origins).zip(&self.scales).zip(out) {
            *out = (values[*slot][row] - origin) * scale;
            has_all &= out.abs() <= 1.0;
        }
        has_all
    }
}

/// Returns the power of two by which the distance of any two values between `low` and `high` is below 1. Distances beyond f64 stay infinite, so
/// that rows which have them don't count.
fn scale(low: f64, high: f64) -> f64 {
    let width = (high - low).min(f64::MAX);
    if width > 0.0 { libm::ldexp(1.0, (-1 - libm::ilogb(width)).min(1023)) } else { 1.0 }
}

/// The sums of a leaf's rows: Σ h, Σ g; Σ h x and Σ g x of each column; Σ h x y of each pair of columns, a lower triangle row by row.
pub fn sums_of(columns: usize) -> usize {
    2 + 2 * columns + columns * (columns + 1) / 2
}

/// Adds a row to a leaf's sums.
#[inline]
fn add(sums: &mut [f64], x: &[f64], gradient: f64, hessian: f64) {
    let (totals, rest) = sums.split_at_mut(2);
    let (of_hessian, rest) = rest.split_at_mut(x.len());
    let (of_gradient, mut of_pairs) = rest.split_at_mut(x.len());
    totals[0] += hessian;
    totals[1] += gradient;
    for (i, value) in x.iter().enumerate() {
        let weighed = hessian * value;
        of_hessian[i] += weighed;
        of_gradient[i] += gradient * value;
        let (own, others) = of_pairs.split_at_mut(i + 1);
        own.iter_mut().zip(x).for_each(|(sum, other)| *sum += weighed * other);
        of_pairs = others;
    }
}

/// In what parts the sums of a table are rounded. A sum is a number of coarse units and one of fine units: a sum of values up to 1 over all rows
/// is less than 2^62 coarse units, one over a block of rows less than 2^51, and so are the fine units that each block's leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Parts {
    /// The units are 2^-`coarse` and 2^-`fine`.
    coarse: i32,
    fine: i32,
}

impl Parts {
    /// Returns those of a table of so many rows.
    fn of(rows: usize) -> Parts {
        let bits = |n: usize| n.next_power_of_two().trailing_zeros() as i32;
        let coarse = (62 - bits(rows)).min(40);
        Parts { coarse, fine: coarse + (62 - bits(rows.div_ceil(RowShard::BLOCK))).min(51) }
    }
}

/// Rounds sums of values up to a power of two.
#[derive(Clone, Copy, Debug)]
struct Rounding {
    /// What a sum is multiplied by to be a number of units, and what a unit is.
    coarse: f64,
    unit: f64,
    fine: f64,
}

impl Rounding {
    fn new(parts: Parts, exponent: i32) -> Rounding {
        let power = |bits: i32| libm::ldexp(1.0, bits);
        Rounding { coarse: power(parts.coarse - exponent), unit: power(exponent - parts.coarse), fine: power(parts.fine - exponent) }
    }

    /// Adds a block's sums to numbers of units.
    #[inline]
    fn add(&self, sums: &[f64], numbers: &mut [[i64; 2]]) {
        for (sum, [coarse, fine]) in sums.iter().zip(numbers) {
            let whole = round64(sum * self.coarse);
            *coarse += whole;
            *fine += round64((sum - whole as f64 * self.unit) * self.fine);
        }
    }
}

/// What the sums of a tree's leaves are in units of.
#[derive(Clone, Copy, Debug)]
pub struct Units {
    parts: Parts,
    /// No gradient, and no hessian, of any row is above these powers of two.
    gradient: i32,
    hessian: i32,
    blocks: usize,
}

impl Units {
    /// Returns those of a table of so many rows; `gradient` and `hessian` are the largest of any row, what leaves add to it included.
    pub fn new(rows: usize, gradient: f64, hessian: f64) -> Units {
        let exponent = |largest: f64| libm::frexp(largest).1;
        let blocks = rows.div_ceil(RowShard::BLOCK);
        Units { parts: Parts::of(rows), gradient: exponent(gradient), hessian: exponent(hessian), blocks }
    }

    /// Returns how devices round the sums of blocks, those of gradients and the others: `[factor to coarse units, a coarse unit, factor to fine units]`.
    pub fn roundings(&self) -> [[f64; 3]; 2] {
        [self.gradient, self.hessian].map(|exponent| {
            let Rounding { coarse, unit, fine } = Rounding::new(self.parts, exponent);
            [coarse, unit, fine]
        })
    }

    /// Returns the most that roundings move a sum of products with hessians by.
    pub fn resolution(&self) -> f64 {
        libm::ldexp(self.blocks as f64, self.hessian - self.parts.fine)
    }

    /// Returns the sums of a leaf of so many columns by their numbers of units.
    pub fn sums(&self, columns: usize, numbers: &[[i64; 2]]) -> Vec<f64> {
        let shift = self.parts.fine - self.parts.coarse;
        let sum = |(place, [coarse, fine]): (usize, &[i64; 2])| {
            let is_of_gradients = place == 1 || (2 + columns..2 + 2 * columns).contains(&place);
            let exponent = if is_of_gradients { self.gradient } else { self.hessian };
            let units = (i128::from(*coarse) << shift) + i128::from(*fine);
            libm::ldexp(units as f64, exponent - self.parts.fine)
        };
        numbers.iter().enumerate().map(sum).collect()
    }
}

/// The sums of all leaves of a tree: of each leaf the number of rows that count, and the numbers of units of its sums.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Equations {
    pub counts: Vec<i64>,
    pub numbers: Vec<[i64; 2]>,
}

impl Equations {
    /// Adds those of other blocks of rows.
    pub fn merge(&mut self, other: &Equations) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, more)| *sum += more);
        self.numbers.as_flattened_mut().iter_mut().zip(other.numbers.as_flattened()).for_each(|(sum, more)| *sum += more);
    }

    /// Adds those of other shards.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn complete(&mut self, collective: &dyn Collective) -> Result<()> {
        collective.sum(&mut self.counts)?;
        collective.sum(self.numbers.as_flattened_mut())
    }
}

/// Adds up the sums of leaves, block by block.
pub struct BlockSums<'a> {
    leaves: &'a [LeafColumns],
    gradient: Rounding,
    hessian: Rounding,
    /// Those of the block, and the leaves that have some.
    sums: Vec<f64>,
    counts: Vec<u32>,
    touched: Vec<usize>,
    all: Equations,
}

impl<'a> BlockSums<'a> {
    /// Begins with none, for leaves that have `length` sums together.
    pub fn new(leaves: &'a [LeafColumns], units: &Units, length: usize) -> BlockSums<'a> {
        BlockSums {
            leaves,
            gradient: Rounding::new(units.parts, units.gradient),
            hessian: Rounding::new(units.parts, units.hessian),
            sums: vec![0.0; length],
            counts: vec![0; leaves.len()],
            touched: vec![],
            all: Equations { counts: vec![0; leaves.len()], numbers: vec![[0; 2]; length] },
        }
    }

    /// Adds a row, by its measured values and its own hessian.
    #[inline]
    pub fn add(&mut self, leaf: usize, x: &[f64], gradient: f64, hessian: f64) {
        if self.counts[leaf] == 0 {
            self.touched.push(leaf);
        }
        self.counts[leaf] += 1;
        let LeafColumns { first, added, .. } = self.leaves[leaf];
        add(&mut self.sums[first..first + sums_of(x.len())], x, gradient, hessian + added);
    }

    /// Ends a block of rows.
    pub fn end_block(&mut self) {
        for leaf in self.touched.drain(..) {
            let (own, columns) = (&self.leaves[leaf], self.leaves[leaf].slots.len());
            self.all.counts[leaf] += i64::from(std::mem::take(&mut self.counts[leaf]));
            let (sums, numbers) = (&mut self.sums[own.first..][..own.sums()], &mut self.all.numbers[own.first..][..own.sums()]);
            let ends = [1, 2, 2 + columns, 2 + 2 * columns, own.sums()];
            let mut start = 0;
            for (end, rounding) in ends.into_iter().zip([self.hessian, self.gradient].into_iter().cycle()) {
                rounding.add(&sums[start..end], &mut numbers[start..end]);
                start = end;
            }
            sums.fill(0.0);
        }
    }

    /// Returns the sums of all blocks.
    pub fn into_equations(self) -> Equations {
        self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that sums of any blocks fit in their numbers of units, up to 2^32 rows that are all of the largest value.
    #[test]
    fn sums_fit_in_their_units() {
        for rows in [1usize, 2, 1_000, 1_024, 1_025, 1 << 20, (1 << 22) + 1, 1 << 32] {
            let parts = Parts::of(rows);
            let units = Units::new(rows, 1.0, 0.75);
            assert_eq!((units.gradient, units.hessian), (1, 0));
            let rounding = Rounding::new(parts, 0);
            let mut numbers = [[0i64; 2]; 4];
            let own = RowShard::BLOCK.min(rows) as f64;
            let values = [own, -own, own / 3.0, -own * 0.7654321];
            rounding.add(&values, &mut numbers);
            for ([coarse, fine], value) in numbers.iter().zip(values) {
                assert!(coarse.unsigned_abs() <= 1 << 51 && fine.unsigned_abs() <= 1 << 50, "{rows}: {coarse} {fine}");
                let blocks = rows.div_ceil(RowShard::BLOCK) as i64;
                let all = [coarse.checked_mul(blocks).expect("in 64 bits"), fine.checked_mul(blocks).expect("in 64 bits")];
                let told = units.sums(0, &[all])[0];
                assert!((told - value * blocks as f64).abs() <= 1e-15 * told.abs(), "{rows}: {told} {value}");
            }
        }
    }

    /// Proves that blocks may be added in any order, and that their sums are those of all rows by the definition.
    #[test]
    fn blocks_may_be_added_in_any_order() {
        let rows = 5_000;
        let values: Vec<[f64; 2]> =
            (0..rows).map(|row| [f64::from(row * 7919 % 1_001) / 1_001.0 - 0.5, f64::from(row % 13) / 13.0]).collect();
        let gradient = |row: usize| ((row * 31 % 97) as f32 - 40.0) * 1e3;
        let hessian = |row: usize| 1e-3 + (row % 5) as f32;
        let columns = |first| LeafColumns { slots: vec![0, 1], origins: vec![0.0; 2], scales: vec![1.0; 2], first, added: 0.0 };
        let leaves = [LeafColumns::default(), columns(0), columns(sums_of(2))];
        let units = Units::new(rows as usize, 60e3, 4.001);
        let of_blocks = |blocks: &mut dyn Iterator<Item = usize>| {
            let mut sums = BlockSums::new(&leaves, &units, 2 * sums_of(2));
            for block in blocks {
                let own = block * RowShard::BLOCK..((block + 1) * RowShard::BLOCK).min(rows as usize);
                own.for_each(|row| sums.add(1 + row % 3 % 2, &values[row], f64::from(gradient(row)), f64::from(hessian(row))));
                sums.end_block();
            }
            sums.into_equations()
        };
        let all = of_blocks(&mut (0..5));
        assert_eq!(of_blocks(&mut (0..5).rev()), all);
        let mut parts = of_blocks(&mut [4, 1].into_iter());
        parts.merge(&of_blocks(&mut [0, 2, 3].into_iter()));
        assert_eq!(parts, all);
        for leaf in [1, 2] {
            let mut naive = vec![0.0; sums_of(2)];
            let own = (0..rows as usize).filter(|row| 1 + row % 3 % 2 == leaf);
            own.clone().for_each(|row| add(&mut naive, &values[row], f64::from(gradient(row)), f64::from(hessian(row))));
            assert_eq!(all.counts[leaf], own.count() as i64);
            let told = units.sums(2, &all.numbers[leaves[leaf].first..][..sums_of(2)]);
            assert!(told.iter().zip(&naive).all(|(a, b)| (a - b).abs() <= 1e-12 * b.abs().max(1.0)), "{told:?} {naive:?}");
        }
    }

    /// Proves that what is far below the largest values keeps its digits.
    #[test]
    fn small_sums_keep_their_digits() {
        for rows in [100usize, 1 << 20, 1 << 32] {
            let (units, rounding) = (Units::new(rows, 0.5, 0.5), Rounding::new(Parts::of(rows), 0));
            for (value, digits) in [(0.3, 1e-15), (1e-9, 1e-12), (3e-12, 1e-8)] {
                let mut numbers = [[0i64; 2]];
                (0..1_000).for_each(|_| rounding.add(&[value], &mut numbers));
                let told = units.sums(0, &numbers)[0];
                assert!((told - 1_000.0 * value).abs() <= digits * told, "{rows}: {told} {value}");
            }
        }
    }

    /// Proves that measures lie between -1 and 1 wherever values lie, and that only distances beyond f64 have none.
    #[test]
    fn scales_hold_all_distances() {
        let bounds = [
            (0.0, 1.0),
            (-3.0, 5.0),
            (1e12, 1e12 + 1.0),
            (f64::MIN, f64::MAX),
            (0.0, 5e-324),
            (-f64::MAX / 2.0, f64::MAX / 4.0),
            (2.0, 2.0),
            (f64::INFINITY, f64::NEG_INFINITY),
            (-1e-310, 1e-310),
        ];
        for (low, high) in bounds {
            let scale = scale(low, high);
            assert!(scale > 0.0 && scale.is_finite(), "{low} {high}");
            let most: f64 = (high - low) * scale;
            assert!(most <= 0.0 || most < 1.0 || (high - low).is_infinite(), "{low} {high}: {most}");
        }
    }
}
