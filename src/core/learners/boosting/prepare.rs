//! From a table to what a device trains on: checks, targets, weights, borders.

use super::ties;
use crate::dataset::Input;
use crate::dataset::target::{TargetData, in_parts};
use crate::error::{Error, Result};
use crate::losses::{LeafRule, Loss};
use crate::numerics::reduce::{sum, weighted_quantile};
use crate::pages;
use crate::parallel::interrupt::ROWS;
use rayon::prelude::*;

/// Targets and scores as training sees them.
pub struct Start {
    /// The score before the first tree.
    pub start: Vec<f64>,
    /// What targets and scores are divided by: a power of two.
    pub unit: f64,
    /// What was taken from all scores besides: the logarithm of what targets of such losses are divided by.
    pub offset: f64,
    /// What derivatives are in units of because of that.
    pub factor: f64,
    pub target: Vec<f32>,
    pub scores: Vec<Vec<f32>>,
}

/// Returns the start value from the training rows, and targets and scores relative to it: losses that only see differences train
/// on `(target - start) / unit`, so that neither a large offset nor a huge or tiny scale costs precision in f32.
pub fn start(input: &Input<'_>, loss: &dyn Loss, data: &TargetData, outputs: usize) -> Result<Start> {
    let (target, weight) = (&data.values[..], data.weights.as_deref());
    super::schema::check_baseline(input.baseline.len(), outputs)?;
    let baseline: Vec<Vec<f64>> = input.baseline.iter().map(|c| c.to_f64()).collect();
    for (values, column) in baseline.iter().zip(&input.baseline) {
        if !values.iter().all(|x| x.is_finite()) {
            return Err(Error::column(column.name(), "the baseline is null, NaN or infinite in some rows").of_values());
        }
    }
    let start = if baseline.is_empty() {
        match input.held_out {
            None => loss.start(target, weight),
            Some(h) => {
                let keep = |i: &usize| !h[*i];
                let rows: Vec<f64> = (0..target.len()).filter(keep).map(|i| target[i]).collect();
                let weights: Option<Vec<f32>> = weight.map(|w| (0..target.len()).filter(keep).map(|i| w[i]).collect());
                loss.start(&rows, weights.as_deref())
            }
        }
    } else {
        vec![0.0; outputs]
    };
    if !loss.location() {
        let (unit, factor) = tiny(input, loss, target, weight).unwrap_or((1.0, 1.0));
        let offset = libm::log(unit);
        let score = |k: usize, i: usize| (start[k] - offset + baseline.get(k).map_or(0.0, |b| b[i])) as f32;
        let of_output = |k: usize| {
            let mut scores = pages::try_zeroed("the scores of a fit", target.len())?;
            scores.par_iter_mut().with_min_len(ROWS).enumerate().for_each(|(i, s)| *s = score(k, i));
            Ok(scores)
        };
        let scores = (0..outputs).map(of_output).collect::<Result<Vec<Vec<f32>>>>()?;
        let target = in_parts(target).map(|x| (*x / unit) as f32).collect();
        return Ok(Start { start, unit: 1.0, offset, factor, target, scores });
    }
    let difference = |i: usize| target[i] - start[0] - baseline.first().map_or(0.0, |b| b[i]);
    let counts = |i: &usize| !input.held_out.is_some_and(|h| h[*i]) && weight.is_none_or(|w| w[*i] > 0.0);
    let largest = (0..target.len()).into_par_iter().with_min_len(ROWS).filter(counts).map(|i| difference(i).abs()).reduce(|| 0.0, f64::max);
    if !largest.is_finite() {
        return Err(Error::column(&input.target_name, "the target's range is larger than a float can hold").of_values());
    }
    let unit = if largest > 0.0 { libm::ldexp(1.0, libm::ilogb(largest).clamp(-1000, 1000)) } else { 1.0 };
    let mut target = (0..target.len())
        .into_par_iter()
        .with_min_len(ROWS)
        .map(|i| (difference(i) / unit).clamp(-1e30, 1e30) as f32)
        .collect::<Vec<f32>>();
    if loss.leaf_rule() != LeafRule::Newton {
        ties::spread(&mut target, |i| counts(&i));
    }
    let scores = vec![vec![0.0; target.len()]];
    Ok(Start { start, unit, offset: 0.0, factor: 1.0, target, scores })
}

/// Returns where Huber's loss turns from squared to absolute unless told: the first residuals of nine of ten training rows, by weight, are
/// nearer to 0 than this (Friedman, "Greedy function approximation: a gradient boosting machine", 2001, section 4.4, of the first
/// residuals alone): those from the median, or from a baseline. Where that is 0, since most are, the same of the others; and 1 where all
/// are.
pub fn huber_delta(input: &Input<'_>, data: &TargetData) -> f64 {
    let baseline = input.baseline.first().map(|c| c.to_f64());
    let rows: Vec<usize> = (0..data.values.len()).filter(|i| !input.held_out.is_some_and(|h| h[*i])).collect();
    let weights = |rows: &[usize]| data.weights.as_ref().map(|w| rows.iter().map(|i| w[*i]).collect::<Vec<f32>>());
    let quantile = |rows: &[usize], of: &dyn Fn(usize) -> f64, level: f64| {
        weighted_quantile(&rows.iter().map(|i| of(*i)).collect::<Vec<f64>>(), weights(rows).as_deref(), level)
    };
    let middle = if baseline.is_some() { 0.0 } else { quantile(&rows, &|i| data.values[i], 0.5) };
    let distance = |i: usize| (data.values[i] - baseline.as_ref().map_or(middle, |b| b[i])).abs().min(f64::MAX);
    let of_most = quantile(&rows, &distance, 0.9);
    if of_most > 0.0 {
        return of_most;
    }
    let others: Vec<usize> = rows.into_iter().filter(|i| distance(*i) > 0.0).collect();
    if others.is_empty() { 1.0 } else { quantile(&others, &distance, 0.9) }
}

/// Derivatives of about this size are far above the smallest hessian that a loss gives.
const SMALL_DERIVATIVES: f64 = 1.0 / (1u64 << 40) as f64;

/// For targets so small that derivatives would come near the smallest hessian (1e-16): a power of two of their mean's size,
/// and what derivatives are in units of where targets are divided by it.
fn tiny(input: &Input<'_>, loss: &dyn Loss, target: &[f64], weight: Option<&[f32]>) -> Option<(f64, f64)> {
    let power = loss.scale_power()?;
    let trains = |i: usize| !input.held_out.is_some_and(|h| h[i]);
    let weigh = |i: usize| if trains(i) { weight.map_or(1.0, |w| w[i] as f64) } else { 0.0 };
    let mean = sum(target.len(), |i| weigh(i) * target[i]) / sum(target.len(), weigh);
    if mean <= 0.0 || libm::pow(mean, power) >= SMALL_DERIVATIVES {
        return None;
    }
    let unit = libm::ldexp(1.0, libm::ilogb(mean));
    Some((unit, libm::pow(unit, power)))
}

/// Returns what gradients are in units of, next to the target's: leaves that are refitted from residuals have gradients without a
/// unit.
pub fn gradient_unit(loss: &dyn Loss, unit: f64) -> f64 {
    if loss.leaf_rule() == LeafRule::Newton { unit } else { 1.0 }
}
