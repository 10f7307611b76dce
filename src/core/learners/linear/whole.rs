//! Sums of integers: how many bits an entry has, and coefficients as integers.
//!
//! Where all entries are 1 and there are many of them, 30 bits an entry are more than the data can tell (models keep
//! coefficients as f32), and then coefficients and residuals are integers of 32 bits before they are summed. Such sums are exact,
//! so a device may add them in any order, and half as many bytes pass through its caches.

use super::problem::Problem;
use super::vectors::each;
use crate::numerics::fixed::round64;
use crate::pages;
use crate::parallel::thread_pool::ThreadPool;

/// Entries from which on scores are sums of integers.
const MANY: usize = 1 << 20;

/// The bits of such an integer.
const BITS: i32 = 30;

/// How much the largest weight may exceed the mean one: beyond that, the others' residuals would have few bits.
const MOST_WEIGHT: f64 = 64.0;

/// Elements that a thread takes at a time.
const BLOCK: usize = 1 << 14;

/// The precision of sums over entries: of integers or of floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precision {
    /// Coefficients and residuals are integers of 32 bits, and scores sums of them; else scores are f64.
    pub whole: bool,
    /// The bits of a gradient's sum that are left for one entry.
    pub bits: i32,
}

impl Precision {
    /// Returns what suits a problem, by exact statistics of it.
    pub fn of(problem: &Problem<'_>) -> Precision {
        let entries = problem.entries;
        // 2^bits times the entries stays below 2^62; and `round64` takes 51 bits.
        let bits = 50.min(62 - (64 - (entries as u64).leading_zeros() as i32));
        let even = problem.largest_weight() <= MOST_WEIGHT * (problem.total_weight / problem.all_codes.len() as f64);
        let plain = problem.csr.is_some() && !problem.has_values;
        let whole = plain && entries >= MANY && even;
        Precision { whole, bits: if whole { bits.min(BITS) } else { bits } }
    }
}

/// Returns the largest power of two by which a number of at most `largest` stays within `2^bits`; 0 where there is nothing to
/// scale.
pub fn power(largest: f64, bits: i32) -> f64 {
    if largest > 0.0 && largest.is_finite() { libm::ldexp(1.0, (bits - libm::frexp(largest).1).clamp(-1000, 1000)) } else { 0.0 }
}

/// Returns what a sum of integers stands for.
#[inline(always)]
pub fn value_of(sum: i64, scale: f64) -> f64 {
    if sum == 0 { 0.0 } else { sum as f64 / scale }
}

/// Coefficients as integers.
pub struct WholeVector {
    pub numbers: Vec<i32>,
    /// What one of the coefficients was multiplied by.
    pub scale: f64,
}

impl WholeVector {
    /// Rounds coefficients to integers, with zeros behind them up to `room`.
    pub fn new(pool: &ThreadPool, coefficients: &[f64], room: usize) -> WholeVector {
        let largest = pool.deal(
            coefficients.len().div_ceil(BLOCK),
            || (),
            |_, b| {
                let block = &coefficients[b * BLOCK..coefficients.len().min((b + 1) * BLOCK)];
                block.iter().fold(0.0, |m: f64, c| if c.abs() > m { c.abs() } else { m })
            },
        );
        let scale = power(largest.into_iter().fold(0.0, f64::max), BITS);
        let mut numbers: Vec<i32> = pages::zeroed(room.max(coefficients.len()));
        each(pool, &mut numbers[..coefficients.len()], BLOCK, |b, out| {
            for (o, c) in out.iter_mut().zip(&coefficients[b * BLOCK..]) {
                *o = round64(c * scale) as i32;
            }
        });
        WholeVector { numbers, scale }
    }
}
