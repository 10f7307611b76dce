//! What is summed over the rows of a category: targets, weights and squares, as integers, so that
//! neither threads nor the order of rows can change a sum.
//!
//! Whole numbers (Booleans and classes among them) are summed as they are. Other numbers are
//! divided by a power of two that leaves none above 1, and carried as integers of 2^-92: sums of
//! 2^32 rows fit 128 bits, and a value down to 2^-39 of the largest keeps all its bits. So a sum is
//! the true one, to 2^-92 of the largest value for each row, and rounded once, when it is read.

use crate::error::{Error, Result};
use crate::parallel::numbered;
use rayon::prelude::*;
use std::ops::{AddAssign, SubAssign};

/// The bits behind the point.
const POINT: i32 = 92;
/// 2^-92.
const QUANTUM: f64 = f64::from_bits(((1023 - POINT) as u64) << 52);
/// Whole numbers up to here are summed in 64 bits: 2^31 of 2^32 rows.
const WHOLE: f64 = (1u64 << 31) as f64;
/// Rows of a parallel pass.
const BLOCK: usize = 1 << 15;

/// Returns a number of at most 1 in absolute value as an integer of 2^-92, what is below that cut off.
#[inline(always)]
fn fixed(x: f64) -> i128 {
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32;
    let mantissa = (bits & ((1 << 52) - 1)) | 1 << 52;
    // x = mantissa * 2^(exponent - 1023 - 52)
    let shift = exponent - 1023 - 52 + POINT;
    let size = if shift >= 0 { (mantissa as i128) << shift } else { (mantissa >> (-shift).min(63)) as i128 };
    if (bits >> 63) != 0 { -size } else { size }
}

#[inline(always)]
fn float(sum: i128) -> f64 {
    sum as f64 * QUANTUM
}

/// What stands beside numbers of about 1 stays finite up to one over this, and sums and products of it with what else there is.
const ROOM: f64 = f64::from_bits((1023 - 900) << 52);

/// Returns the power of two that `largest` is to be divided by to come to at most 1 (at the very top of f64 to at most 4, for
/// which there is room).
fn unit(largest: f64) -> f64 {
    if largest == 0.0 { 1.0 } else { libm::ldexp(1.0, libm::frexp(largest).1.clamp(-1021, 1022)) }
}

fn largest(values: &[f64]) -> f64 {
    values.par_chunks(BLOCK).map(|part| part.iter().fold(0.0, |most: f64, x| most.max(x.abs()))).reduce(|| 0.0, f64::max)
}

/// Sums read as floats: of weights, of targets times weight, and, where `auto` needs them, of
/// squared distances from the centre times weight. In units of the statistic.
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    pub weight: f64,
    pub target: f64,
    pub squares: f64,
}

/// A statistic of rows that is summed exactly, over categories and all.
pub trait Statistic: Sync {
    type Sum: Copy + Default + Send + Sync + AddAssign + SubAssign;
    /// Returns what `row` adds.
    fn of(&self, row: usize) -> Self::Sum;
    /// Returns the sums as floats.
    fn read(&self, sum: Self::Sum) -> Moments;
    /// Returns what a target of 1 is in units of the statistic, and a weight of 1.
    fn units(&self) -> (f64, f64) {
        (1.0, 1.0)
    }
    /// Returns what a row brings: flags, or numbers in one column or two.
    fn columns(&self) -> (Option<&[u8]>, Vec<&[f64]>);
    /// The type of the same statistic over its columns in another order.
    type Over<'b>: Statistic<Sum = Self::Sum>
    where
        Self: 'b;
    fn over<'b>(&'b self, flags: &'b [u8], numbers: &'b [Vec<f64>]) -> Self::Over<'b>;
    /// Returns the point from which squares are measured, in units of the statistic.
    fn centre(&self) -> f64 {
        0.0
    }
}

macro_rules! sums {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $t:ty),* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, Debug)]
        pub struct $name { $($field: $t),* }
        impl AddAssign for $name {
            #[inline(always)]
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)*
            }
        }
        impl SubAssign for $name {
            #[inline(always)]
            fn sub_assign(&mut self, other: Self) {
                $(self.$field -= other.$field;)*
            }
        }
    };
}
sums!(WholeSum { rows: i64, target: i64 });
sums!(RealSum { target: i128, rows: i64 });
sums!(FullSum { weight: i128, target: i128, squares: i128 });

/// The number of rows, without a target.
pub(super) struct RowCount;

impl Statistic for RowCount {
    type Sum = u32;
    #[inline(always)]
    fn of(&self, _: usize) -> u32 {
        1
    }
    fn read(&self, sum: u32) -> Moments {
        Moments { weight: sum as f64, target: 0.0, squares: 0.0 }
    }
    fn columns(&self) -> (Option<&[u8]>, Vec<&[f64]>) {
        (None, vec![])
    }
    type Over<'b> = RowCount;
    fn over<'b>(&'b self, _: &'b [u8], _: &'b [Vec<f64>]) -> RowCount {
        RowCount
    }
}

/// Booleans, 0 and 1, without weights.
pub struct Flags<'a>(pub &'a [u8]);

impl Statistic for Flags<'_> {
    type Sum = WholeSum;
    #[inline(always)]
    fn of(&self, row: usize) -> WholeSum {
        WholeSum { rows: 1, target: self.0[row] as i64 }
    }
    #[inline(always)]
    fn read(&self, sum: WholeSum) -> Moments {
        Moments { weight: sum.rows as f64, target: sum.target as f64, squares: 0.0 }
    }
    fn columns(&self) -> (Option<&[u8]>, Vec<&[f64]>) {
        (Some(self.0), vec![])
    }
    type Over<'b>
        = Flags<'b>
    where
        Self: 'b;
    fn over<'b>(&'b self, flags: &'b [u8], _: &'b [Vec<f64>]) -> Flags<'b> {
        Flags(flags)
    }
}

/// Whole numbers of up to 2^31 without weights.
pub struct WholeNumbers<'a>(&'a [f64]);

impl Statistic for WholeNumbers<'_> {
    type Sum = WholeSum;
    #[inline(always)]
    fn of(&self, row: usize) -> WholeSum {
        WholeSum { rows: 1, target: self.0[row] as i64 }
    }
    #[inline(always)]
    fn read(&self, sum: WholeSum) -> Moments {
        Moments { weight: sum.rows as f64, target: sum.target as f64, squares: 0.0 }
    }
    fn columns(&self) -> (Option<&[u8]>, Vec<&[f64]>) {
        (None, vec![self.0])
    }
    type Over<'b>
        = WholeNumbers<'b>
    where
        Self: 'b;
    fn over<'b>(&'b self, _: &'b [u8], numbers: &'b [Vec<f64>]) -> WholeNumbers<'b> {
        WholeNumbers(&numbers[0])
    }
}

/// Any finite numbers without weights.
pub struct RealNumbers<'a> {
    values: &'a [f64],
    /// One over the unit: a power of two.
    scale: f64,
}

impl Statistic for RealNumbers<'_> {
    type Sum = RealSum;
    #[inline(always)]
    fn of(&self, row: usize) -> RealSum {
        RealSum { target: fixed(self.values[row] * self.scale), rows: 1 }
    }
    #[inline(always)]
    fn read(&self, sum: RealSum) -> Moments {
        Moments { weight: sum.rows as f64, target: float(sum.target), squares: 0.0 }
    }
    fn columns(&self) -> (Option<&[u8]>, Vec<&[f64]>) {
        (None, vec![self.values])
    }
    type Over<'b>
        = RealNumbers<'b>
    where
        Self: 'b;
    fn over<'b>(&'b self, _: &'b [u8], numbers: &'b [Vec<f64>]) -> RealNumbers<'b> {
        RealNumbers { values: &numbers[0], ..*self }
    }
    fn units(&self) -> (f64, f64) {
        (self.scale, 1.0)
    }
}

/// Any finite numbers with weights, and with squares.
pub struct WeightedNumbers<'a> {
    values: &'a [f64],
    weight: Option<&'a [f64]>,
    scale: f64,
    weight_scale: f64,
    centre: f64,
    /// A power of two by which distances from the centre are at most 1.
    distance_scale: f64,
}

impl Statistic for WeightedNumbers<'_> {
    type Sum = FullSum;
    #[inline(always)]
    fn of(&self, row: usize) -> FullSum {
        let y = self.values[row] * self.scale;
        let w = self.weight.map_or(1.0, |w| w[row] * self.weight_scale);
        let d = (y - self.centre) * self.distance_scale;
        FullSum { weight: fixed(w), target: fixed(w * y), squares: fixed(w * (d * d)) }
    }
    #[inline(always)]
    fn read(&self, sum: FullSum) -> Moments {
        let distance = 1.0 / self.distance_scale;
        Moments { weight: float(sum.weight), target: float(sum.target), squares: float(sum.squares) * distance * distance }
    }
    fn columns(&self) -> (Option<&[u8]>, Vec<&[f64]>) {
        (None, std::iter::once(self.values).chain(self.weight).collect())
    }
    type Over<'b>
        = WeightedNumbers<'b>
    where
        Self: 'b;
    fn over<'b>(&'b self, _: &'b [u8], numbers: &'b [Vec<f64>]) -> WeightedNumbers<'b> {
        WeightedNumbers { values: &numbers[0], weight: numbers.get(1).map(|w| &w[..]), ..*self }
    }
    fn units(&self) -> (f64, f64) {
        (self.scale, self.weight_scale)
    }
    fn centre(&self) -> f64 {
        self.centre
    }
}

/// The statistic that a target needs.
pub enum AnyStatistic<'a> {
    Flags(Flags<'a>),
    WholeNumbers(WholeNumbers<'a>),
    RealNumbers(RealNumbers<'a>),
    WeightedNumbers(WeightedNumbers<'a>),
}

/// Calls `$body` with `$statistic` bound to whichever it is.
macro_rules! with_statistic {
    ($any:expr, |$statistic:ident| $body:expr) => {
        match $any {
            $crate::encoding::statistic::AnyStatistic::Flags($statistic) => $body,
            $crate::encoding::statistic::AnyStatistic::WholeNumbers($statistic) => $body,
            $crate::encoding::statistic::AnyStatistic::RealNumbers($statistic) => $body,
            $crate::encoding::statistic::AnyStatistic::WeightedNumbers($statistic) => $body,
        }
    };
}
pub(super) use with_statistic;

/// Sums the statistic over all rows.
pub(super) fn total<S: Statistic>(statistic: &S, rows: usize) -> S::Sum {
    let add = |mut a: S::Sum, b: S::Sum| {
        a += b;
        a
    };
    let block = |i: usize| (i * BLOCK..rows.min((i + 1) * BLOCK)).fold(S::Sum::default(), |sum, row| add(sum, statistic.of(row)));
    numbered::map(rows.div_ceil(BLOCK), 1, block).into_iter().fold(S::Sum::default(), add)
}

/// Checks what [`AnyStatistic::numbers`] needs: that all numbers are finite, and no weight is below zero.
pub(super) fn check_finite(what: &str, values: &[f64], negative: bool) -> Result<()> {
    let bad = |x: &&f64| !x.is_finite() || (!negative && **x < 0.0);
    match values.par_chunks(BLOCK).find_map_first(|part| part.iter().find(bad)) {
        Some(x) => {
            let sign = if negative { "" } else { " and not negative" };
            Err(Error::Data(format!("a {what} is {x}; it must be finite{sign}")).of_values())
        }
        None => Ok(()),
    }
}

impl<'a> AnyStatistic<'a> {
    /// Makes the statistic of numbers, with weights where they are given, with squares where `squares`. What is added to their
    /// sums is no larger than `beside`: the unit leaves room for it where they are so much smaller that it would overflow.
    pub fn numbers(values: &'a [f64], weight: Option<&'a [f64]>, squares: bool, beside: f64) -> Self {
        let most = match largest(values) {
            most if most > 0.0 => most.max(beside * ROOM),
            most => most,
        };
        if weight.is_none() && !squares {
            let whole = most <= WHOLE && values.par_chunks(BLOCK).all(|part| part.iter().all(|x| *x as i64 as f64 == *x));
            return match whole {
                true => AnyStatistic::WholeNumbers(WholeNumbers(values)),
                false => AnyStatistic::RealNumbers(RealNumbers { values, scale: 1.0 / unit(most) }),
            };
        }
        let weight_scale = 1.0 / weight.map_or(1.0, |w| unit(largest(w)));
        let mut full = WeightedNumbers { values, weight, scale: 1.0 / unit(most), weight_scale, centre: 0.0, distance_scale: 1.0 };
        if squares {
            let sums = full.read(total(&full, values.len()));
            // Where all targets are the same, so is the centre, and no rounding makes a variance.
            let same = values.iter().all(|x| *x == values[0]);
            full.centre = match sums.weight > 0.0 {
                true if same => values[0] * full.scale,
                true => sums.target / sums.weight,
                false => 0.0,
            };
            let (scale, centre) = (full.scale, full.centre);
            let distance = |part: &[f64]| part.iter().fold(0.0, |most: f64, x| most.max((x * scale - centre).abs()));
            full.distance_scale = 1.0 / unit(values.par_chunks(BLOCK).map(distance).reduce(|| 0.0, f64::max));
        }
        AnyStatistic::WeightedNumbers(full)
    }
}

/// A statistic as a device takes it.
pub struct StatisticParts<'a> {
    pub kind: SumKind,
    pub flags: Option<&'a [u8]>,
    pub values: Option<&'a [f64]>,
    pub weight: Option<&'a [f64]>,
    pub scale: f64,
    pub weight_scale: f64,
    pub centre: f64,
    pub distance_scale: f64,
}

/// The kind of integers that a statistic's sums are kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumKind {
    Whole,
    Real,
    Full,
}
impl<'a> AnyStatistic<'a> {
    pub fn parts(&self) -> StatisticParts<'a> {
        let whole = StatisticParts {
            kind: SumKind::Whole,
            flags: None,
            values: None,
            weight: None,
            scale: 1.0,
            weight_scale: 1.0,
            centre: 0.0,
            distance_scale: 1.0,
        };
        match self {
            AnyStatistic::Flags(s) => StatisticParts { flags: Some(s.0), ..whole },
            AnyStatistic::WholeNumbers(s) => StatisticParts { values: Some(s.0), ..whole },
            AnyStatistic::RealNumbers(s) => StatisticParts { kind: SumKind::Real, values: Some(s.values), scale: s.scale, ..whole },
            AnyStatistic::WeightedNumbers(s) => StatisticParts {
                kind: SumKind::Full,
                flags: None,
                values: Some(s.values),
                weight: s.weight,
                scale: s.scale,
                weight_scale: s.weight_scale,
                centre: s.centre,
                distance_scale: s.distance_scale,
            },
        }
    }

    /// Sums that a device made, read: of rows or weights, of targets, of squares.
    pub fn read(&self, [weight, target, squares]: [i128; 3]) -> Moments {
        match self {
            AnyStatistic::Flags(s) => s.read(WholeSum { rows: weight as i64, target: target as i64 }),
            AnyStatistic::WholeNumbers(s) => s.read(WholeSum { rows: weight as i64, target: target as i64 }),
            AnyStatistic::RealNumbers(s) => s.read(RealSum { rows: weight as i64, target }),
            AnyStatistic::WeightedNumbers(s) => s.read(FullSum { weight, target, squares }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fixed_point_is_exact_where_it_can_be() {
        for x in [0.0, 1.0, -1.0, 0.5, 0.1, -0.3, 1.0 / 3.0, 2f64.powi(-39) * 1.1, 2f64.powi(-92)] {
            assert_eq!(float(fixed(x)), x);
        }
        assert_eq!(fixed(2f64.powi(-93)), 0);
        assert_eq!((fixed(f64::MIN_POSITIVE), fixed(-0.0), fixed(5e-324)), (0, 0, 0));
    }

    #[test]
    fn units_are_powers_of_two_that_leave_nothing_above_one() {
        for x in [1.0, 0.75, 1e-300, 1e300, f64::MAX, 5e-324, 1024.0] {
            let u = unit(x);
            assert!(u.is_normal() && u.to_bits() << 12 == 0 && x / u <= 4.0 && (1.0 / u).is_normal(), "{x}");
        }
        assert_eq!(unit(0.0), 1.0);
    }

    proptest! {
        #[test]
        fn sums_are_those_of_exact_arithmetic(values in prop::collection::vec(-1e6f64..1e6, 1..50), scale in -100i32..100) {
            // Multiples of 2^-20: their sums are exact in f64.
            let values: Vec<f64> = values.iter().map(|x| (x * 1048576.0).trunc() / 1048576.0 * 2f64.powi(scale)).collect();
            let AnyStatistic::WeightedNumbers(full) = AnyStatistic::numbers(&values, None, true, 0.0) else { panic!() };
            let sum = full.read(total(&full, values.len()));
            let exact: f64 = values.iter().sum();
            prop_assert_eq!(sum.target / full.scale, exact);
            prop_assert_eq!(sum.weight, values.len() as f64);
            let mean = full.centre / full.scale;
            let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
            let read = sum.squares / full.scale / full.scale;
            prop_assert!((read - squares).abs() <= 1e-12 * squares.max(f64::MIN_POSITIVE), "{read} {squares}");
        }
    }
}
