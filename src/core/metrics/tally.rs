//! What the metrics of called classes share: what the rows of each class weigh, those that are called it, and those that are both.
//!
//! Sums are in fixed point, so that the order of the rows leaves no trace.

use super::accuracy::top_class;
use super::rows::Rows;
use super::spec::{At, Average};
use crate::numerics::reduce::{BLOCK, FixedSum};
use crate::objective::Link;
use rayon::prelude::*;

/// What rows weigh by class.
pub(super) struct Tally {
    /// The rows that are of the class and called it.
    pub hits: Vec<f64>,
    /// The rows of the class.
    pub truths: Vec<f64>,
    /// The rows that are called it.
    pub calls: Vec<f64>,
    pub total: f64,
}

/// The same in fixed point: hits, truths and calls of each class.
type Sums = [Vec<i128>; 3];

/// Of as many rows another thread has something to do.
const ROWS: usize = 8 * BLOCK;

impl Tally {
    /// Calls each row's class: the one with the largest score, of two the second where it is likelier than not; or those that are told.
    pub fn new(rows: &Rows<'_>) -> Tally {
        let middle = if rows.predicted { 0.5 } else { 0.0 };
        let of_two = rows.link == Link::Sigmoid;
        let largest = |values: &mut dyn Iterator<Item = usize>| values.max().unwrap_or(0);
        let classes = match rows.calls {
            _ if of_two => 2,
            Some(calls) => 1 + largest(&mut calls.iter().map(|c| *c as usize)).max(largest(&mut rows.target.iter().map(|y| *y as usize))),
            None => rows.scores.len(),
        };
        let of_row = |row: usize| {
            let truth = if of_two { usize::from(rows.target[row] > 0.5) } else { rows.target[row] as usize };
            let call = match rows.calls {
                Some(calls) => calls[row] as usize,
                None if of_two => usize::from(rows.score()[row] > middle),
                None => top_class(rows.scores, row),
            };
            (truth.min(classes - 1), call.min(classes - 1))
        };
        let fixed = FixedSum::of_weights(rows.weight);
        let none = || -> Sums { [vec![0; classes], vec![0; classes], vec![0; classes]] };
        let add = |mut sums: Sums, row: usize| {
            let ((truth, call), weight) = (of_row(row), fixed.term(rows.weight_of(row)));
            sums[1][truth] += weight;
            sums[2][call] += weight;
            sums[0][truth] += if truth == call { weight } else { 0 };
            sums
        };
        let join = |mut a: Sums, b: Sums| {
            a.iter_mut().zip(b).for_each(|(a, b)| a.iter_mut().zip(b).for_each(|(a, b)| *a += b));
            a
        };
        let all = (0..rows.target.len()).into_par_iter().with_min_len(ROWS.max(64 * classes));
        let [hits, truths, calls] = all.fold(none, add).reduce(none, join);
        let values = |sums: &[i128]| sums.iter().map(|sum| fixed.value(*sum)).collect();
        Tally { total: fixed.value(truths.iter().sum()), hits: values(&hits), truths: values(&truths), calls: values(&calls) }
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.truths.len()
    }
}

/// Computes the mean of the values of several classes: `(value, weight of the class's rows)` of each that has a value; NaN where none
/// has one.
pub(super) fn average(at: Option<At>, classes: impl Iterator<Item = (f64, f64)>) -> f64 {
    let weighted = at == Some(At::Average(Average::Weighted));
    let (mut total, mut weights) = (0.0, 0.0);
    for (value, weight) in classes {
        let weight = if weighted { weight } else { 1.0 };
        total += weight * value;
        weights += weight;
    }
    total / weights
}
