//! The log loss of several classes.

use super::kind::{ERROR, Metric};
use super::rows::{Rows, log_share};
use crate::numerics::math;
use crate::numerics::math::{exp64, ln64};
use crate::numerics::reduce::{BLOCK, sum, sum_blocks};
use crate::objective::Link;
use multiversion::multiversion;

pub(super) const METRIC: Metric = Metric {
    fits: |link| link == Link::Softmax,
    of_classes: true,
    value: |rows| if rows.predicted { of_shares(rows) } else { multiclass(rows) },
    ..ERROR
};

/// Computes the weighted mean of `ln Σ exp(score_k) - score_y`.
fn multiclass(rows: &Rows<'_>) -> f64 {
    let scores = rows.scores;
    let n = rows.target.len();
    let loss = sum_blocks(n, |block| {
        let (mut top, mut total) = ([0.0; BLOCK], [0.0; BLOCK]);
        let (top, total) = (&mut top[..block.len()], &mut total[..block.len()]);
        top.copy_from_slice(&scores[0][block.clone()]);
        total.fill(0.0);
        for s in &scores[1..] {
            math::raise(top, &s[block.clone()]);
        }
        for s in scores {
            add_exp(total, &s[block.clone()], top);
        }
        take_ln(total);
        block.enumerate().fold(0.0, |loss, (j, i)| {
            let own = scores.get(rows.target[i] as usize).map_or(f64::NAN, |s| s[i]);
            loss + rows.weight_of(i) * (total[j] + (top[j] - own))
        })
    });
    loss / rows.total_weight()
}

/// Computes the weighted mean of `-ln p` of the probabilities of the rows' classes, as scikit-learn's `log_loss` has it.
fn of_shares(rows: &Rows<'_>) -> f64 {
    let loss = |row: usize| {
        let own = rows.scores.get(rows.target[row] as usize).map_or(f64::NAN, |shares| shares[row]);
        // A probability of NaN stays that.
        let own = if own > 1.0 - f64::EPSILON { 1.0 - f64::EPSILON } else { own };
        rows.weight_of(row) * if own.is_nan() { own } else { -log_share(own) }
    };
    sum(rows.target.len(), loss) / rows.total_weight()
}

/// Adds `exp(score - top)`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn add_exp(total: &mut [f64], score: &[f64], top: &[f64]) {
    for ((t, s), m) in total.iter_mut().zip(score).zip(top) {
        *t += exp64(*s - *m);
    }
}

/// Each value becomes its logarithm.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn take_ln(values: &mut [f64]) {
    for v in values {
        *v = ln64(*v);
    }
}
