//! From a table to what a device trains on: checks, targets, weights, borders.

use super::params::BoostingParams;
use super::ties;
use crate::column::Column;
use crate::dataset::row_groups::RowGroups;
use crate::dataset::target::{TargetData, in_parts};
use crate::dataset::{ClassWeight, Evaluation, Input, LossColumns, Target};
use crate::error::{Error, Result};
use crate::losses::risk_sets::{Observed, RiskSets};
use crate::losses::{LeafRule, Location, Loss, Rows};
use crate::metrics::MetricSpec;
use crate::numerics::reduce::{sum, weighted_quantile};
use crate::pages;
use crate::parallel::interrupt::ROWS;
use crate::spill::Array;
use rayon::prelude::*;
use std::borrow::Cow;

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

/// Returns the start value from the training rows (`columns`: what the loss reads beside the target), and targets and scores relative to it: losses that only see differences train
/// on `(target - start) / unit`, so that neither a large offset nor a huge or tiny scale costs precision in f32. `given`: the start values,
/// where they are another model's.
pub fn start(input: &Input<'_>, loss: &dyn Loss, data: &TargetData, columns: &[Vec<f64>], given: Option<&[f64]>) -> Result<Start> {
    let outputs = loss.outputs();
    let (target, weight) = (&data.values[..], data.weights.as_deref());
    super::schema::check_baseline(input.baseline.len(), outputs)?;
    let baseline: Vec<Vec<f64>> = input.baseline.iter().map(|c| c.to_f64()).collect();
    for (values, column) in baseline.iter().zip(&input.baseline) {
        if !values.iter().all(|x| x.is_finite()) {
            return Err(Error::column(column.name(), "the baseline is null, NaN or infinite in some rows").of_values());
        }
    }
    let start = if let Some(given) = given {
        given.to_vec()
    } else if baseline.is_empty() {
        match input.held_out {
            None => loss.start_with(target, weight, columns),
            Some(h) => {
                let keep = |i: &usize| !h[*i];
                let rows: Vec<f64> = (0..target.len()).filter(keep).map(|i| target[i]).collect();
                let weights: Option<Vec<f32>> = weight.map(|w| (0..target.len()).filter(keep).map(|i| w[i]).collect());
                let columns: Vec<Vec<f64>> = columns.iter().map(|c| (0..c.len()).filter(keep).map(|i| c[i]).collect()).collect();
                loss.start_with(&rows, weights.as_deref(), &columns)
            }
        }
    } else {
        vec![0.0; outputs]
    };
    let location = loss.location();
    if location == Location::Fixed {
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
    // The first score moves along with the targets: they are differences from it, and so are the others that do.
    let difference = |i: usize| target[i] - start[0] - baseline.first().map_or(0.0, |b| b[i]);
    let counts = |i: &usize| !input.held_out.is_some_and(|h| h[*i]) && weight.is_none_or(|w| w[*i] > 0.0);
    let largest = (0..target.len()).into_par_iter().with_min_len(ROWS).filter(counts).map(|i| difference(i).abs()).reduce(|| 0.0, f64::max);
    if !largest.is_finite() {
        return Err(Error::column(&input.target_name, "the target's range is larger than a float can hold").of_values());
    }
    let unit = if largest > 0.0 && location == Location::Scaled { libm::ldexp(1.0, libm::ilogb(largest).clamp(-1000, 1000)) } else { 1.0 };
    let mut target = (0..target.len())
        .into_par_iter()
        .with_min_len(ROWS)
        .map(|i| (difference(i) / unit).clamp(-1e30, 1e30) as f32)
        .collect::<Vec<f32>>();
    if loss.leaf_rule(0) != LeafRule::Newton {
        ties::spread(&mut target, |i| counts(&i));
    }
    let score = |k: usize, i: usize| {
        let own = start[k] + baseline.get(k).map_or(0.0, |b| b[i]);
        let first = start[0] + baseline.first().map_or(0.0, |b| b[i]);
        (if location.moves(k) { (own - first) / unit } else { own }) as f32
    };
    // Zeros that nobody has written take no memory.
    let scores = (0..outputs).map(|k| if k == 0 { vec![0.0; target.len()] } else { (0..target.len()).map(|i| score(k, i)).collect() });
    let scores = scores.collect();
    Ok(Start { start, unit, offset: 0.0, factor: 1.0, target, scores })
}

/// Returns a table's target with what its rows weigh in training: their weights, times what the loss makes of their targets
/// ([`Loss::row_factor`]), in units of a power of two near the mean of that, so that a row of the usual size weighs about 1.
///
/// # Errors
/// As [`TargetData::new`].
pub fn weigh(input: &Input<'_>, loss: &dyn Loss, values: Array<f64>, class_weight: &ClassWeight) -> Result<TargetData> {
    let Some(factor) = loss.row_factor() else { return TargetData::new(input, values, class_weight) };
    let own = TargetData::new(input, vec![], class_weight)?.weights;
    let weigh = |i: usize| if input.held_out.is_some_and(|h| h[i]) { 0.0 } else { own.as_ref().map_or(1.0, |w| w[i] as f64) };
    let mean = sum(values.len(), |i| weigh(i) * factor(values[i])) / sum(values.len(), weigh);
    let unit = libm::ldexp(1.0, if mean > 0.0 { libm::ilogb(mean).clamp(-1000, 1000) } else { 0 });
    let column = input.weight.as_ref().map(Column::to_f64);
    let product = |(i, y): (usize, &f64)| match column.as_ref().map_or(1.0, |w| w[i]) {
        0.0 => 0.0,
        weight => (weight * (factor(*y) / unit)).clamp(f64::MIN_POSITIVE, f64::MAX),
    };
    let weights: Vec<f64> = values.iter().enumerate().map(product).collect();
    let weighed = Input {
        features: vec![],
        target: Target::Numbers(Column::from_f64(&input.target_name, &values)),
        target_name: input.target_name.clone(),
        weight: Some(Column::from_f64(input.weight.as_ref().map_or("weight", Column::name), &weights)),
        baseline: vec![],
        held_out: input.held_out,
        loss_columns: LossColumns::default(),
        evaluation: Evaluation::default(),
        order: None,
    };
    let TargetData { weights, weight_unit, .. } = TargetData::new(&weighed, vec![], class_weight)?;
    Ok(TargetData { values, weights, weight_unit })
}

/// Returns what rows weigh where they are measured: what a loss makes of their targets is not in it, since its metric has it.
///
/// # Errors
/// As [`TargetData::new`].
pub fn measured_weights<'a>(
    input: &Input<'_>,
    loss: &dyn Loss,
    data: &'a TargetData,
    class_weight: &ClassWeight,
) -> Result<Option<Cow<'a, [f32]>>> {
    match loss.row_factor() {
        None => Ok(data.weights.as_deref().map(Cow::Borrowed)),
        Some(_) => Ok(TargetData::new(input, vec![], class_weight)?.weights.map(Cow::Owned)),
    }
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

/// Checks that the table has the columns that a loss of one's own reads, in its order.
///
/// # Errors
/// Naming the first that is not there.
pub fn check_loss_columns(input: &Input<'_>, params: &BoostingParams) -> Result<()> {
    let Some(formulas) = params.loss_params().custom else { return Ok(()) };
    let given: Vec<&str> = input.loss_columns.numbers.iter().map(|column| column.name()).collect();
    match formulas.columns().iter().enumerate().find(|(i, name)| given.get(*i) != Some(&name.as_str())) {
        Some((_, name)) => Err(Error::column(name, "the loss of your own reads it, and it is not given")),
        None => Ok(()),
    }
}

/// Returns the least and the largest time of each row's event, where the loss or a metric reads them.
///
/// # Errors
/// As [`EventTimes::bounds`](crate::dataset::EventTimes::bounds).
pub fn bounds(input: &Input<'_>, loss: &dyn Loss, metrics: &[MetricSpec], target: &[f64]) -> Result<Option<[Vec<f64>; 2]>> {
    match loss.reads_times() || metrics.iter().any(MetricSpec::reads_times) {
        true => input.loss_columns.times.bounds(&input.target_name, target),
        false => Ok(None),
    }
}

/// Returns the numbers that a loss reads beside the target, `[column][row]`. `bounds`: those of the times of rows' events.
///
/// # Errors
/// For missing and infinite ones, naming the column; for bounds that the loss does not know.
pub fn loss_columns(input: &Input<'_>, loss: &dyn Loss, bounds: Option<&[Vec<f64>; 2]>) -> Result<Vec<Vec<f64>>> {
    if let (true, Some(bounds)) = (loss.reads_times(), bounds) {
        return check_bounds(input, loss, bounds).map(|()| bounds.to_vec());
    }
    let of_column = |column: &Column<'_>| {
        let values = column.to_f64();
        match in_parts(&values).enumerate().find_map_first(|(row, x)| (!((*x as f32).is_finite())).then_some((row, *x))) {
            Some((row, x)) => {
                let what = if x.is_nan() { "null or NaN".into() } else { format!("{x}") };
                Err(Error::column(column.name(), format!("it is {what} in row {row}, and the loss reads it")).of_values())
            }
            None => Ok(values),
        }
    };
    input.loss_columns.numbers.iter().map(of_column).collect()
}

/// Checks that the loss knows events with such bounds.
fn check_bounds(input: &Input<'_>, loss: &dyn Loss, [lower, upper]: &[Vec<f64>; 2]) -> Result<()> {
    let times = &input.loss_columns.times;
    let fault = |row: usize| {
        let (l, u) = (lower[row], upper[row]);
        let text = match loss.of_risk_sets() {
            true if l < u && u < f64::INFINITY => {
                format!(
                    "the event of row {row} lies between {l} and {u}, and loss=\"cox\" knows those alone that were seen or are still to come: \
                     use loss=\"aft\""
                )
            }
            false if u == 0.0 => format!("the event of row {row} happened at 0, and loss=\"aft\" is of the logarithms of times"),
            _ => return None,
        };
        let column = times.upper.as_ref().map_or(input.target_name.as_str(), Column::name);
        Some(Error::column(column, text).of_values())
    };
    (0..lower.len()).find_map(fault).map_or(Ok(()), Err)
}

/// Returns what a device reads of a loss's columns, `[column][row]`.
pub fn device_columns(loss: &dyn Loss, columns: &[Vec<f64>]) -> Vec<Vec<f32>> {
    if loss.of_risk_sets() {
        return vec![];
    }
    columns.iter().map(|column| in_parts(column).map(|x| loss.column_value(*x) as f32).collect()).collect()
}

/// Returns the rows as Cox's likelihood reads them, where that is the loss. `scores`: before the first tree.
///
/// # Errors
/// Where no event happened to a row that is trained on.
pub fn risk_sets(
    input: &Input<'_>,
    loss: &dyn Loss,
    groups: Option<&RowGroups>,
    (columns, weight, scores): (&[Vec<f64>], Option<&[f32]>, &[f32]),
) -> Result<Option<RiskSets>> {
    let (true, [times, upper]) = (loss.of_risk_sets(), columns) else { return Ok(None) };
    let died: Vec<bool> = times.iter().zip(upper).map(|(time, upper)| time == upper).collect();
    let sets = RiskSets::new(groups, Observed { times, died: &died, weight, held_out: input.held_out, scores });
    if sets.has_no_events() {
        return Err(Error::Data("no event happened to a row that is trained on: nothing tells one from another".into()).degenerate());
    }
    Ok(Some(sets))
}

/// Checks that a loss of one's own has derivatives at the first scores.
///
/// # Errors
/// Naming the first row that has none, its target and its score.
pub fn check_derivatives(
    input: &Input<'_>,
    loss: &dyn Loss,
    (target, scores, columns): (&[f32], &[f32], &[Vec<f32>]),
    (start, unit): (f64, f64),
) -> Result<()> {
    if loss.program().is_none() {
        return Ok(());
    }
    let fault = |block: usize| {
        let rows = block * ROWS..target.len().min((block + 1) * ROWS);
        let (mut gradient, mut hessian) = (vec![0.0; rows.len()], vec![0.0; rows.len()]);
        let columns: Vec<&[f32]> = columns.iter().map(|column| &column[rows.clone()]).collect();
        let part = Rows { scores: &[&scores[rows.clone()]], target: &target[rows.clone()], weight: None, columns: &columns };
        loss.derivatives(0, part, &mut gradient, &mut hessian);
        let at = (0..rows.len()).find(|i| !gradient[*i].is_finite() || !hessian[*i].is_finite())?;
        Some((rows.start + at, if gradient[at].is_finite() { "second" } else { "first" }))
    };
    let Some((row, which)) = (0..target.len().div_ceil(ROWS)).into_par_iter().find_map_first(fault) else { return Ok(()) };
    let (y, f) = (f64::from(target[row]) * unit, f64::from(scores[row]) * unit);
    let (y, f) = if loss.location() == Location::Scaled { (y + start, f + start) } else { (y, f) };
    let read = input.loss_columns.numbers.iter().zip(columns);
    let read: String = read.map(|(column, values)| format!(", where `{}` is {}", column.name(), values[row])).collect();
    let text = format!(
        "the {which} derivative of the loss of your own is infinite or no number in row {row}, at y = {y} and the raw score f = {f}{read}: \
         filter such rows out, or write the loss so that it has one there"
    );
    Err(Error::column(&input.target_name, text).of_values())
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
    if loss.leaf_rule(0) == LeafRule::Newton { unit } else { 1.0 }
}
