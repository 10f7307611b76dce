//! What metrics of the order of a class's probabilities share: a class against all others, its rows by their scores, and the mean over
//! classes.

use super::rows::Rows;
use super::tally::average;
use crate::numerics::reduce::FixedSum;
use crate::objective::Link;
use rayon::prelude::*;

/// Rows of a class and of all others, with the scores of the class.
pub(super) struct OneAgainstRest<'a> {
    score: &'a [f64],
    target: &'a [f64],
    /// The class's index; without one the target is the share of a row that is of it.
    class: Option<f64>,
    weight: Option<&'a [f64]>,
}

/// Rows of one score: the weights of those of the class, and of the others.
#[derive(Clone, Copy)]
pub(super) struct Tie {
    pub ones: f64,
    pub zeros: f64,
}

/// Rows by their scores, the lowest first.
pub(super) enum Sorted {
    /// Of rows that count once each, the keys of the class and of the others.
    Counted {
        ones: Vec<u64>,
        zeros: Vec<u64>,
    },
    Weighed(Vec<Tie>),
}

impl OneAgainstRest<'_> {
    /// How much of a row is of the class.
    fn share(&self, row: usize) -> f64 {
        self.class.map_or(self.target[row], |class| f64::from(self.target[row] == class))
    }

    /// Sorts the rows by their scores.
    pub fn sorted(&self) -> Sorted {
        let rows = 0..self.target.len();
        if self.weight.is_none() && (self.class.is_some() || self.target.iter().all(|y| *y == 0.0 || *y == 1.0)) {
            let keys = |class: f64| {
                let of_class = rows.clone().filter(|row| self.share(*row) == class);
                let mut keys: Vec<u64> = of_class.map(|row| order(self.score[row])).collect();
                keys.par_sort_unstable();
                keys
            };
            return Sorted::Counted { ones: keys(1.0), zeros: keys(0.0) };
        }
        // By score and then by weight, so that the order of the rows leaves no trace. Weights are not negative, so their bits order as
        // they do.
        let key = |row: usize| {
            let (w, y) = (self.weight.map_or(1.0, |w| w[row]), self.share(row));
            (order(self.score[row]), (w * y + 0.0).to_bits(), (w * (1.0 - y) + 0.0).to_bits())
        };
        let mut sorted: Vec<(u64, u64, u64)> = rows.into_par_iter().map(key).collect();
        sorted.par_sort_unstable();
        let of_tie = |tied: &[(u64, u64, u64)]| {
            let add = |t: Tie, r: &(u64, u64, u64)| Tie { ones: t.ones + f64::from_bits(r.1), zeros: t.zeros + f64::from_bits(r.2) };
            tied.iter().fold(Tie { ones: 0.0, zeros: 0.0 }, add)
        };
        Sorted::Weighed(sorted.chunk_by(|a, b| a.0 == b.0).map(of_tie).collect())
    }
}

/// Bits that order as the numbers do; -0 and 0 are equal.
fn order(x: f64) -> u64 {
    let bits = (x + 0.0).to_bits();
    bits ^ (((bits as i64 >> 63) as u64) | 1 << 63)
}

/// Computes a value of the second of two classes; of several the mean of the values of each against the rest, those without one left
/// out.
pub(super) fn over_classes(rows: &Rows<'_>, value: impl Fn(&OneAgainstRest<'_>) -> f64) -> f64 {
    let Rows { target, weight, .. } = *rows;
    if rows.link == Link::Sigmoid {
        return value(&OneAgainstRest { score: rows.score(), target, class: None, weight });
    }
    // Scores of a class under softmax do not order as its probabilities do.
    let mut shares = rows.scores.to_vec();
    if !rows.predicted {
        rows.link.apply(&mut shares);
    }
    let fixed = FixedSum::of_weights(weight);
    let of_class = |(k, score): (usize, &Vec<f64>)| {
        let value = value(&OneAgainstRest { score, target, class: Some(k as f64), weight });
        let own = (0..target.len()).filter(|row| target[*row] == k as f64);
        (value, fixed.value(own.map(|row| fixed.term(rows.weight_of(row))).sum()))
    };
    average(rows.at, shares.iter().enumerate().map(of_class).filter(|(value, _)| !value.is_nan()))
}
