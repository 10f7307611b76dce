//! Several targets of one fit: what each starts from, and what it counts in the splits of a tree that all of them share.

use super::params::BoostingParams;
use super::prepare::{self, Start};
use super::steps::OutputRules;
use crate::dataset::target::TargetData;
use crate::dataset::{Input, LossColumns, Target};
use crate::error::{Error, Result};
use crate::losses::{Loss, LossKind, LossParams, Rows, loss};
use crate::metrics::{MetricKind, MetricSpec};
use crate::numerics::reduce::{add_in_order, blocks, sum, weighted_mean};
use crate::tree::params::SplitParams;
use crate::tree::split::{Scales, Sums};
use std::borrow::Cow;

/// One of several targets.
pub struct OneTarget<'a> {
    /// A table of this target without features.
    pub input: Input<'a>,
    pub data: TargetData,
}

/// Returns each of several targets by itself, with its baseline; none of one target.
pub fn each<'a>(input: &Input<'a>, data: &TargetData) -> Vec<OneTarget<'a>> {
    let Target::Several(columns) = &input.target else { return vec![] };
    let rows = input.target.rows();
    let of_target = |(k, column): (usize, &crate::column::Column<'a>)| OneTarget {
        input: Input {
            features: vec![],
            target: Target::Numbers(column.clone()),
            target_name: column.name().to_string(),
            weight: input.weight.clone(),
            baseline: input.baseline.get(k).cloned().into_iter().collect(),
            held_out: input.held_out,
            evaluation: input.evaluation.clone(),
            order: None,
            loss_columns: LossColumns::default(),
        },
        data: TargetData {
            values: data.values[k * rows..(k + 1) * rows].to_vec().into(),
            weights: data.weights.clone(),
            weight_unit: data.weight_unit,
        },
    };
    columns.iter().enumerate().map(of_target).collect()
}

/// Checks that `huber_delta` is said where several targets read it: what is right for one is not for another.
///
/// # Errors
/// [`Error::Parameter`].
pub fn check_huber_delta(target: &Target<'_>, kind: LossKind, metrics: &[MetricSpec], params: &BoostingParams) -> Result<()> {
    let is_read = kind == LossKind::Huber || metrics.iter().any(|metric| metric.kind() == MetricKind::Huber);
    if params.huber_delta.is_some() || !is_read || !matches!(target, Target::Several(_)) {
        return Ok(());
    }
    Err(Error::parameter("huber_delta", "several targets have no common one: say it, or fit each target by itself"))
}

/// Returns what training starts from: for each of several targets, or for the one that there is. `given`: the start values of all outputs,
/// where they are another model's.
///
/// # Errors
/// As [`prepare::start`].
pub fn starts(
    (input, data, columns): (&Input<'_>, &TargetData, &[Vec<f64>]),
    several: &[OneTarget<'_>],
    (kind, params): (LossKind, &LossParams),
    raw_loss: &dyn Loss,
    given: Option<&[f64]>,
) -> Result<Vec<Start>> {
    let outputs = raw_loss.outputs();
    if several.is_empty() {
        return Ok(vec![prepare::start(input, raw_loss, data, columns, given)?]);
    }
    super::schema::check_baseline(input.baseline.len(), outputs)?;
    let one = loss(kind, &LossParams { targets: 0, ..params.clone() }, 0, 1.0)?;
    let of_target = |(k, target): (usize, &OneTarget<'_>)| {
        let given = given.map(|start| std::slice::from_ref(&start[k]));
        prepare::start(&target.input, one.as_ref(), &target.data, &[], given)
    };
    several.iter().enumerate().map(of_target).collect()
}

/// Returns the number of each row that statistics of categories are made of: the target, and of several the mean of them, each in units
/// of its deviation over the training rows.
pub fn statistics_target<'t>(input: &Input<'_>, data: &'t TargetData) -> Cow<'t, [f64]> {
    let (count, rows) = (input.target.several().len(), input.target.rows());
    if count == 0 {
        return Cow::Borrowed(&data.values);
    }
    let weigh = |i: usize| if input.held_out.is_some_and(|h| h[i]) { 0.0 } else { data.weights.as_ref().map_or(1.0, |w| w[i] as f64) };
    let total = sum(rows, weigh);
    let weights: Vec<f32> = (0..rows).map(|i| weigh(i) as f32).collect();
    let mut mean = vec![0.0; rows];
    for values in data.values.chunks_exact(rows.max(1)) {
        let middle = weighted_mean(values, Some(&weights));
        // In halves, so that no difference of two floats is beyond them.
        let distance = |i: usize| 0.5 * values[i] - 0.5 * middle;
        let largest = (0..rows).map(|i| distance(i).abs()).fold(0.0, f64::max);
        let variance = sum(rows, |i| weigh(i) * (distance(i) / largest) * (distance(i) / largest)) / total;
        if largest > 0.0 && variance > 0.0 {
            let deviation = libm::sqrt(variance);
            mean.iter_mut().enumerate().for_each(|(i, m)| *m += distance(i) / largest / deviation / count as f64);
        }
    }
    Cow::Owned(mean)
}

/// The largest power of two that units of hessians are told apart by.
const MOST_SHIFT: u32 = 30;

/// How the hessians of the outputs that share a tree are added up, each in a unit of its own: their mean in the smallest of these units.
pub struct HessianUnits {
    /// What each output's unit is next to the smallest one: the exponent of a power of two.
    shifts: Vec<u32>,
    scales: Scales,
}

impl HessianUnits {
    /// Makes them from what one unit of each output's hessian sums is worth: powers of two.
    pub fn new(units: &[f64]) -> HessianUnits {
        let exponents = || units.iter().map(|unit| libm::ilogb(*unit));
        let (least, most) = (exponents().min().unwrap_or(0), exponents().max().unwrap_or(0));
        // Of units that are further apart, the smaller ones' hessians don't count next to the others'.
        let smallest = least.max(most - MOST_SHIFT as i32);
        let shifts = exponents().map(|exponent| (exponent - smallest).max(0) as u32).collect();
        HessianUnits { shifts, scales: Scales { gradient: 1.0, hessian: libm::ldexp(1.0, smallest) } }
    }

    /// Returns what the sums of the outputs together are in units of.
    pub fn scales(&self) -> Scales {
        self.scales
    }

    /// Returns by how many bits the hessians of each output are moved up before they are added.
    pub fn shifts(&self) -> &[u32] {
        &self.shifts
    }

    /// Returns the sums of the outputs together: the mean of their hessians, and the rows, which are those of each.
    pub fn together(&self, each: impl IntoIterator<Item = Sums>) -> Sums {
        let (mut hessian, mut count) = (0i128, 0);
        for (sums, shift) in each.into_iter().zip(&self.shifts) {
            hessian += (sums.hessian as i128) << shift;
            count = sums.count;
        }
        let mean = hessian / self.shifts.len().max(1) as i128;
        Sums { gradient: 0, hessian: mean.min(i64::MAX as i128 / 4) as i64, count }
    }
}

/// The rows of a fit at its start, as a device has them.
pub struct FirstRows<'a> {
    /// One target an output, or one for all.
    pub targets: Vec<&'a [f32]>,
    pub scores: &'a [Vec<f32>],
    pub weight: Option<&'a [f32]>,
    pub columns: &'a [Vec<f32>],
    pub held_out: Option<&'a [bool]>,
}

/// Returns what each output counts in the splits of a tree that all share: an output's gains are divided by the mean square of its first
/// gradients over the mean of its first hessians, so that they are those of an output of variance 1, whatever it is in units of. `params`: of
/// each output, in its units, or one for all.
pub fn output_rules(loss: &dyn Loss, rows: &FirstRows<'_>, params: &[SplitParams]) -> Vec<OutputRules> {
    let importance = |output: usize| {
        let target = rows.targets[output.min(rows.targets.len() - 1)];
        let (mut gradient, mut hessian) = ([0.0; crate::numerics::reduce::BLOCK], [0.0; crate::numerics::reduce::BLOCK]);
        let (mut squares, mut hessians) = (vec![], vec![]);
        for block in blocks(target.len()) {
            let (g, h) = (&mut gradient[..block.len()], &mut hessian[..block.len()]);
            let scores: Vec<&[f32]> = rows.scores[..loss.outputs()].iter().map(|s| &s[block.clone()]).collect();
            let columns: Vec<&[f32]> = rows.columns.iter().map(|c| &c[block.clone()]).collect();
            loss.derivatives(output, Rows { scores: &scores, target: &target[block.clone()], weight: None, columns: &columns }, g, h);
            let weigh = |i: usize| match rows.held_out.is_some_and(|marks| marks[block.start + i]) {
                true => 0.0,
                false => rows.weight.map_or(1.0, |w| w[block.start + i] as f64),
            };
            squares.push((0..g.len()).fold(0.0, |total, i| total + weigh(i) * g[i] as f64 * g[i] as f64));
            hessians.push((0..h.len()).fold(0.0, |total, i| total + weigh(i) * h[i] as f64));
        }
        let (squares, hessians) = (add_in_order(squares), add_in_order(hessians));
        if squares > 0.0 { hessians / squares } else { 0.0 }
    };
    (0..loss.outputs()).map(|k| OutputRules { params: params[k.min(params.len() - 1)], importance: importance(k) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that hessians in units of their own are added up in the smallest one, but for units too far apart.
    #[test]
    fn hessians_are_added_in_the_smallest_unit() {
        let sums = |hessian: i64| Sums { gradient: 9, hessian, count: 4 };
        let units = HessianUnits::new(&[0.25, 1.0, 0.5]);
        assert_eq!((units.shifts(), units.scales().hessian), (&[0, 2, 1][..], 0.25));
        assert_eq!(units.together([sums(3), sums(5), sums(7)]), Sums { gradient: 0, hessian: (3 + 20 + 14) / 3, count: 4 });
        let apart = HessianUnits::new(&[1.0, libm::ldexp(1.0, -60)]);
        assert_eq!((apart.shifts(), apart.scales().hessian), (&[30, 0][..], libm::ldexp(1.0, -30)));
        assert_eq!(apart.together([sums(i64::MAX), sums(0)]).hessian, i64::MAX / 4);
    }
}
