//! The greedy border methods: a priority queue of bins, cut one after the other.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::sort::SortedValues;
use crate::error::Result;

/// A bin of the greedy methods: the values `start..end`, and where it would be cut.
struct GreedyBin {
    start: usize,
    cut: usize,
    end: usize,
    /// The rows before `start`, `cut` and `end`.
    rows: [usize; 3],
    /// By how much the cut lowers the penalty; -∞ for one value, which can't be cut.
    gain: f64,
}

impl GreedyBin {
    /// Returns the better of the two cuts beside the value that holds the bin's median row. `rows`: those before its two ends.
    fn new(values: &impl SortedValues, penalty: impl Fn(f64) -> f64, start: usize, end: usize, rows: [usize; 2]) -> Result<Self> {
        let penalty = |a: usize, b: usize| penalty((b - a) as f64);
        let [first, last] = rows;
        let value = values.value_behind(first + (last - first) / 2, start, end)?;
        let mut bin = GreedyBin { start, cut: end, end, rows: [first, last, last], gain: f64::NEG_INFINITY };
        for cut in [value, value + 1] {
            if start < cut && cut < end {
                let before = values.rows_before(cut)?;
                let gain = penalty(first, last) - penalty(first, before) - penalty(before, last);
                if gain > bin.gain {
                    (bin.cut, bin.rows[1], bin.gain) = (cut, before, gain);
                }
            }
        }
        Ok(bin)
    }
}

/// The larger gain comes first, then the lower values.
impl Ord for GreedyBin {
    fn cmp(&self, other: &Self) -> Ordering {
        self.gain.total_cmp(&other.gain).then(other.start.cmp(&self.start))
    }
}
impl PartialOrd for GreedyBin {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for GreedyBin {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for GreedyBin {}

/// Cuts the bin whose cut at its median row lowers Σ `penalty(rows of the bin)` most, over and
/// over, even where no cut lowers it. `penalty` is -log(rows) for `greedy_logsum` and
/// rows · log(rows) for `min_max_entropy`.
pub(super) fn greedy(values: &impl SortedValues, max_borders: usize, penalty: impl Fn(f64) -> f64) -> Result<Vec<usize>> {
    let total = values.rows_before(values.distinct())?;
    // Where no value has many rows, bins are halved, and those that are left have been looked at too.
    let parts = 2 * (max_borders + 1).next_power_of_two();
    values.expect(&mut (1..parts).map(|i| (total as u128 * i as u128 / parts as u128) as usize))?;
    let mut bins = BinaryHeap::from([GreedyBin::new(values, &penalty, 0, values.distinct(), [0, total])?]);
    let mut cuts = vec![];
    while cuts.len() < max_borders {
        match bins.pop() {
            Some(GreedyBin { start, cut, end, rows: [first, middle, last], .. }) if cut < end => {
                cuts.push(cut);
                bins.push(GreedyBin::new(values, &penalty, start, cut, [first, middle])?);
                bins.push(GreedyBin::new(values, &penalty, cut, end, [middle, last])?);
            }
            _ => break,
        }
    }
    cuts.sort_unstable();
    Ok(cuts)
}
