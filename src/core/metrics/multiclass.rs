//! The log loss of several classes.

use super::kind::{ERROR, Metric};
use super::rows::Rows;
use crate::numerics::math;
use crate::numerics::math::{exp64, ln64};
use crate::numerics::reduce::{BLOCK, add_in_order, blocks, total_weight};
use crate::objective::Link;
use multiversion::multiversion;

pub(super) const METRIC: Metric = Metric { fits: |link| link == Link::Softmax, of_classes: true, value: multiclass, ..ERROR };

/// Computes the weighted mean of `ln Σ exp(score_k) - score_y`.
fn multiclass(rows: &Rows<'_>) -> f64 {
    let scores = rows.scores;
    let n = rows.target.len();
    let (mut top, mut total) = ([0.0; BLOCK], [0.0; BLOCK]);
    let loss = add_in_order(blocks(n).map(|block| {
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
            loss + rows.weight.map_or(1.0, |w| w[i] as f64) * (total[j] + (top[j] - own))
        })
    }));
    loss / total_weight(n, rows.weight)
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
