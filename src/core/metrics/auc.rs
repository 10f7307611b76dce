//! The area under the ROC curve.

use super::kind::Metric;
use super::rows::Rows;
use crate::objective::Link;

pub(super) const METRIC: Metric = Metric {
    fits: |link| link == Link::Sigmoid,
    of_classes: true,
    larger_is_better: true,
    groups: false,
    times: false,
    value: auc,
    undefined: "the measured rows are of one class",
};

/// The area under the ROC curve: the share of pairs of a row of class 1 and one of class 0 in
/// which the first has the larger score, equal scores counting half.
fn auc(rows: &Rows<'_>) -> f64 {
    let whole = rows.target.iter().all(|y| *y == 0.0 || *y == 1.0);
    match rows.weight {
        None if whole => auc_of_counts(rows),
        _ => auc_of_weights(rows),
    }
}

/// Bits that order as the numbers do; -0 and 0 are equal.
fn order(x: f64) -> u64 {
    let bits = (x + 0.0).to_bits();
    bits ^ (((bits as i64 >> 63) as u64) | 1 << 63)
}

/// Rows that count once each: the keys of the two classes sorted apart, then merged. Exact.
fn auc_of_counts(rows: &Rows<'_>) -> f64 {
    let keys = |class: f64| {
        let of_class = rows.score().iter().zip(rows.target).filter(|r| *r.1 == class);
        let mut keys: Vec<u64> = of_class.map(|r| order(*r.0)).collect();
        keys.sort_unstable();
        keys
    };
    let (zeros, ones) = (keys(0.0), keys(1.0));
    let (mut below, mut not_above, mut twice) = (0, 0, 0u128);
    for key in &ones {
        while below < zeros.len() && zeros[below] < *key {
            below += 1;
        }
        while not_above < zeros.len() && zeros[not_above] <= *key {
            not_above += 1;
        }
        twice += (below + not_above) as u128;
    }
    twice as f64 / (2.0 * zeros.len() as f64 * ones.len() as f64)
}

/// Rows with weights, sorted by score and then by weight, so that their order leaves no trace.
fn auc_of_weights(rows: &Rows<'_>) -> f64 {
    let mut sorted: Vec<(u64, u64, u64)> = (0..rows.target.len())
        .map(|i| {
            let (w, y) = (rows.weight.map_or(1.0, |w| w[i] as f64), rows.target[i]);
            // Weights are not negative, so their bits order as they do.
            (order(rows.score()[i]), (w * y + 0.0).to_bits(), (w * (1.0 - y) + 0.0).to_bits())
        })
        .collect();
    sorted.sort_unstable();
    let (mut area, mut ones, mut zeros) = (0.0, 0.0, 0.0);
    for tied in sorted.chunk_by(|a, b| a.0 == b.0) {
        let (one, zero) = tied.iter().fold((0.0, 0.0), |t, r| (t.0 + f64::from_bits(r.1), t.1 + f64::from_bits(r.2)));
        area += one * (zeros + 0.5 * zero);
        ones += one;
        zeros += zero;
    }
    area / (ones * zeros)
}
