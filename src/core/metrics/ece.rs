//! The expected calibration error.

use super::accuracy::top_class;
use super::kind::{ERROR, Metric};
use super::rows::Rows;
use super::spec::Takes;
use crate::numerics::reduce::{BLOCK, FixedSum};
use crate::objective::Link;
use rayon::prelude::*;

pub(super) const METRIC: Metric = Metric {
    fits: |link| matches!(link, Link::Sigmoid | Link::Softmax | Link::SigmoidEach),
    of_classes: true,
    takes: Takes::Bins,
    value: calibration_error,
    ..ERROR
};

/// As many bins as Guo et al. took.
const BINS: f64 = 15.0;

/// The mean distance, over bins of equal width, of the mean probability in a bin and the share of its rows that are of the class (Naeini
/// et al., "Obtaining well calibrated probabilities using Bayesian binning", 2015): of two classes the second one's probability, of
/// several that of the likeliest class (Guo et al., "On calibration of modern neural networks", 2017). A bin holds its upper edge.
fn calibration_error(rows: &Rows<'_>) -> f64 {
    let bins = rows.number().unwrap_or(BINS) as usize;
    let mut shares = rows.scores.to_vec();
    if !rows.predicted {
        rows.link.apply(&mut shares);
    }
    let of_row = |row: usize| match rows.link {
        Link::Sigmoid => (shares[0][row], rows.target[row]),
        _ => {
            let top = top_class(&shares, row);
            (shares[top][row], f64::from(top as f64 == rows.target[row]))
        }
    };
    let fixed = FixedSum::of_weights(rows.weight);
    let none = || vec![0i128; bins];
    let add = |mut sums: Vec<i128>, row: usize| {
        let (share, truth) = of_row(row);
        sums[bin_of(share, bins)] += fixed.term(rows.weight_of(row) * (truth - share));
        sums
    };
    let join = |mut a: Vec<i128>, b: Vec<i128>| {
        a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        a
    };
    let all = (0..rows.target.len()).into_par_iter().with_min_len(BLOCK.max(64 * bins));
    let sums = all.fold(none, add).reduce(none, join);
    sums.iter().map(|sum| fixed.value(sum.abs())).sum::<f64>() / rows.total_weight()
}

/// Returns the bin of a probability: the number of edges between bins, `i · (1 / bins)` as NumPy's `linspace` has them, below it.
fn bin_of(share: f64, bins: usize) -> usize {
    let edge = |i: usize| i as f64 * (1.0 / bins as f64);
    let mut bin = ((share * bins as f64) as usize).min(bins - 1);
    while bin > 0 && edge(bin) >= share {
        bin -= 1;
    }
    while bin + 1 < bins && edge(bin + 1) < share {
        bin += 1;
    }
    bin
}

#[cfg(test)]
mod tests {
    use super::bin_of;

    #[test]
    fn a_bin_holds_its_upper_edge() {
        for bins in [1, 3, 10, 15, 49] {
            for i in 0..=bins {
                let edge = i as f64 * (1.0 / bins as f64);
                let at = |x: f64| (1..bins).filter(|j| *j as f64 * (1.0 / bins as f64) < x).count();
                for x in [edge, edge.next_up(), edge.next_down().max(0.0)] {
                    assert_eq!(bin_of(x, bins), at(x), "{x} of {bins}");
                }
            }
        }
    }
}
