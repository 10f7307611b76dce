//! The log loss of several classes.

use super::cross_entropy::SMALLEST_SHARE;
use super::pointwise::{SMALLEST_HESSIAN, weigh};
use super::{Formula, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::numerics::math;
use crate::numerics::reduce::{sum, total_weight};
use crate::objective::Link;
use multiversion::multiversion;

pub(super) const ENTRY: LossEntry =
    LossEntry { target: LossTarget::Classes, formula: "multiclass", groups: false, make: |s| Box::new(Multiclass::new(s.classes)) };

/// `-ln p` of the row's class, with `p` the softmax of the scores, one a class. Gradient of score
/// k: `p_k - [y = k]`; hessian: `p_k (1 - p_k) K / (K - 1)`, not below 10⁻¹⁶.
///
/// The factor is LightGBM's: with K scores one is redundant, and for two classes each of the two
/// trees then takes half of the step that one tree of the binary log loss would take (Friedman,
/// "Greedy function approximation", 2001, section 4.6).
pub(super) struct Multiclass {
    classes: usize,
    factor: f32,
}

impl Multiclass {
    pub(super) fn new(classes: usize) -> Self {
        let k = classes.max(2);
        Multiclass { classes: k, factor: k as f32 / (k as f32 - 1.0) }
    }
}

/// Rows whose largest score and sum of exponentials stay in the first-level cache.
const TILE: usize = 256;

impl Loss for Multiclass {
    fn outputs(&self) -> usize {
        self.classes
    }

    fn derivatives(&self, output: usize, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]) {
        let n = rows.target.len().min(gradient.len()).min(hessian.len());
        for a in (0..n).step_by(TILE) {
            let tile = a..n.min(a + TILE);
            let (g, h) = (&mut gradient[tile.clone()], &mut hessian[tile.clone()]);
            let (mut top, mut others) = ([f32::NEG_INFINITY; TILE], [0.0; TILE]);
            let (top, others) = (&mut top[..tile.len()], &mut others[..tile.len()]);
            for scores in rows.scores {
                raise(top, &scores[tile.clone()]);
            }
            for (k, scores) in rows.scores.iter().enumerate() {
                if k != output {
                    add_exp(others, &scores[tile.clone()], top);
                }
            }
            let mut own = [0.0; TILE];
            let own = &mut own[..tile.len()];
            add_exp(own, &rows.scores[output][tile.clone()], top);
            finish(output as f32, self.factor, own, others, &rows.target[tile.clone()], g, h);
            if let Some(weight) = rows.weight {
                weigh(&weight[tile], g, h);
            }
        }
    }

    fn derivatives_of_all(&self, rows: Rows<'_>, derivatives: &mut [(Vec<f32>, Vec<f32>)]) -> bool {
        let n = rows.target.len();
        let mut exponentials = vec![[0.0; TILE]; rows.scores.len()];
        for a in (0..n).step_by(TILE) {
            let tile = a..n.min(a + TILE);
            let mut top = [f32::NEG_INFINITY; TILE];
            let top = &mut top[..tile.len()];
            for scores in rows.scores {
                raise(top, &scores[tile.clone()]);
            }
            for (scores, own) in rows.scores.iter().zip(&mut exponentials) {
                own[..tile.len()].fill(0.0);
                add_exp(&mut own[..tile.len()], &scores[tile.clone()], top);
            }
            for (k, (gradient, hessian)) in derivatives.iter_mut().enumerate() {
                let mut others = [0.0; TILE];
                // In the order in which they are added for one score alone.
                exponentials.iter().enumerate().filter(|(of, _)| *of != k).for_each(|(_, of)| add(&mut others, of));
                let (g, h) = (&mut gradient[tile.clone()], &mut hessian[tile.clone()]);
                finish(k as f32, self.factor, &exponentials[k][..tile.len()], &others[..tile.len()], &rows.target[tile.clone()], g, h);
                if let Some(weight) = rows.weight {
                    weigh(&weight[tile.clone()], g, h);
                }
            }
        }
        true
    }

    fn formula(&self, _output: usize) -> Formula {
        Formula { a: self.factor, classes: self.classes as u32, ..Formula::new(ENTRY.formula) }
    }

    /// The logarithms of the classes' shares of the weight, none below 10⁻¹⁵.
    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64> {
        let n = target.len();
        let total = total_weight(n, weight);
        let share = |k: usize| {
            let of_class = sum(n, |i| if target[i] == k as f64 { weight.map_or(1.0, |w| w[i] as f64) } else { 0.0 });
            if total > 0.0 { of_class / total } else { 1.0 / self.classes as f64 }
        };
        (0..self.classes).map(|k| libm::log(share(k).max(SMALLEST_SHARE))).collect()
    }

    fn link(&self) -> Link {
        Link::Softmax
    }

    fn metric(&self) -> MetricKind {
        MetricKind::Multiclass
    }

    fn check_target(&self, target: f64) -> Result<(), &'static str> {
        let class = target >= 0.0 && target < self.classes as f64 && target == libm::floor(target);
        if class { Ok(()) } else { Err("loss=\"multiclass\" needs the index of a class, from 0 to the number of classes less 1") }
    }
}

/// `top[i]` becomes the larger of itself and `scores[i]`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn raise(top: &mut [f32], scores: &[f32]) {
    for (t, s) in top.iter_mut().zip(scores) {
        *t = if *s > *t { *s } else { *t };
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn add_exp(total: &mut [f32], scores: &[f32], top: &[f32]) {
    for ((t, s), m) in total.iter_mut().zip(scores).zip(top) {
        *t += math::exp(*s - *m);
    }
}

/// `total[i] += of[i]`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn add(total: &mut [f32; TILE], of: &[f32; TILE]) {
    for (t, o) in total.iter_mut().zip(of) {
        *t += *o;
    }
}

/// From a row's own exponential and the sum of the other classes' to its derivatives; p and
/// 1 - p come from a division each, so neither loses digits near 0.
#[inline(always)]
fn row(class: f32, factor: f32, own: f32, others: f32, target: f32) -> (f32, f32) {
    let scale = 1.0 / (own + others);
    let (p, rest) = (own * scale, others * scale);
    let hessian = factor * (p * rest);
    (if target == class { -rest } else { p }, if hessian < SMALLEST_HESSIAN { SMALLEST_HESSIAN } else { hessian })
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn finish(class: f32, factor: f32, own: &[f32], others: &[f32], target: &[f32], gradient: &mut [f32], hessian: &mut [f32]) {
    let rows = own.iter().zip(others).zip(target);
    for (((e, o), t), (g, h)) in rows.zip(gradient.iter_mut().zip(hessian)) {
        (*g, *h) = row(class, factor, *e, *o, *t);
    }
}

/// The derivatives of one row by scalar code, for the tests.
#[cfg(test)]
pub(super) fn scalar(classes: usize, output: usize, scores: &[f32], target: f32) -> (f32, f32) {
    let top = scores.iter().fold(f32::NEG_INFINITY, |t, s| if *s > t { *s } else { t });
    let others = scores.iter().enumerate().filter(|(k, _)| *k != output).fold(0.0, |o, (_, s)| o + math::exp(s - top));
    row(output as f32, Multiclass::new(classes).factor, math::exp(scores[output] - top), others, target)
}
