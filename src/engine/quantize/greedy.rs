//! The greedy border methods: a priority queue of bins, cut one after the other.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::sort::{Distinct, Key};

/// A bin of the greedy methods: the values `start..end`, and where it would be cut.
struct Bin {
    start: usize,
    cut: usize,
    end: usize,
    /// By how much the cut lowers the penalty; -∞ for one value, which can't be cut.
    gain: f64,
}

impl Bin {
    /// The better of the two cuts beside the value that holds the bin's median row.
    fn new<K: Key>(distinct: &Distinct<K>, penalty: impl Fn(f64) -> f64, start: usize, end: usize) -> Self {
        let before = |i: usize| distinct.rows_before(i);
        let penalty = |a: usize, b: usize| penalty((before(b) - before(a)) as f64);
        let median = before(start) + (before(end) - before(start)) / 2;
        let value = distinct.value_behind(median, start, end);
        let mut bin = Bin { start, cut: end, end, gain: f64::NEG_INFINITY };
        for cut in [value, value + 1] {
            if start < cut && cut < end {
                let gain = penalty(start, end) - penalty(start, cut) - penalty(cut, end);
                if gain > bin.gain {
                    (bin.cut, bin.gain) = (cut, gain);
                }
            }
        }
        bin
    }
}

/// The larger gain comes first, then the lower values.
impl Ord for Bin {
    fn cmp(&self, other: &Self) -> Ordering {
        self.gain.total_cmp(&other.gain).then(other.start.cmp(&self.start))
    }
}
impl PartialOrd for Bin {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Bin {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Bin {}

/// Cuts the bin whose cut at its median row lowers Σ `penalty(rows of the bin)` most, over and
/// over, even where no cut lowers it. `penalty` is -log(rows) for `greedy_logsum` and
/// rows · log(rows) for `min_max_entropy`.
pub(super) fn greedy<K: Key>(distinct: &Distinct<K>, max_borders: usize, penalty: impl Fn(f64) -> f64) -> Vec<usize> {
    let mut bins = BinaryHeap::from([Bin::new(distinct, &penalty, 0, distinct.len())]);
    let mut cuts = vec![];
    while cuts.len() < max_borders {
        match bins.pop() {
            Some(bin) if bin.cut < bin.end => {
                cuts.push(bin.cut);
                bins.push(Bin::new(distinct, &penalty, bin.start, bin.cut));
                bins.push(Bin::new(distinct, &penalty, bin.cut, bin.end));
            }
            _ => break,
        }
    }
    cuts.sort_unstable();
    cuts
}
