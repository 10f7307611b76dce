//! From a table to what a backend trains on: checks, targets, weights, borders.

use super::loss::{LeafRule, Loss};
use super::params::{BoostingParams, LossKind};
use super::schema::not_numeric;
use super::{Input, Target, ties};
use crate::backend::CodedFeature;
use crate::backend::cpu::team::Team;
use crate::column::{Column, FeatureType};
use crate::error::{Error, Result};
use crate::model::Label;
use crate::numerics::reduce::sum;
use crate::pages;
use crate::quantize::borders::{borders, sample_rows};
use rayon::prelude::*;

/// Checks what can be checked before anything is computed; gives the number of rows.
pub fn check_table(input: &Input<'_>) -> Result<usize> {
    let rows = check_columns(input)?;
    check_rows(rows, input.held_out, &input.target_name)?;
    Ok(rows)
}

/// Checks names and lengths of the columns; gives the number of rows.
pub fn check_columns(input: &Input<'_>) -> Result<usize> {
    if input.features.is_empty() {
        return Err(Error::Data("no features: name at least one feature column".into()));
    }
    let mut names = std::collections::BTreeSet::new();
    for f in &input.features {
        if !names.insert(f.name()) {
            return Err(Error::column(f.name(), "is given twice as a feature"));
        }
    }
    let rows = input.target.rows();
    let columns = input.features.iter().chain(&input.weight).chain(&input.baseline);
    for c in columns {
        if c.len() != rows {
            return Err(Error::column(c.name(), format!("has {} rows where the target `{}` has {rows}", c.len(), input.target_name)));
        }
    }
    Ok(rows)
}

/// Checks that there are rows to train on and, where some are held out, to measure on.
pub fn check_rows(rows: usize, held_out: Option<&[bool]>, target_name: &str) -> Result<()> {
    if let Some(held_out) = held_out
        && held_out.len() != rows
    {
        return Err(Error::Data(format!("`eval` has {} rows where the target `{target_name}` has {rows}", held_out.len())));
    }
    if rows == 0 {
        return Err(Error::Data("the table has no rows: there is nothing to fit".into()).degenerate());
    }
    let training = rows - held_out.map_or(0, |h| h.iter().filter(|x| **x).count());
    if training < 2 {
        let s = if training == 1 { "" } else { "s" };
        return Err(Error::Data(format!("{training} training row{s}: a model needs at least two")).degenerate());
    }
    if held_out.is_some() && training == rows {
        return Err(Error::Data("`eval` marks no row: there is nothing to measure on".into()).degenerate());
    }
    Ok(())
}

/// The loss that the parameter comes to for this target.
pub fn resolve_loss(kind: LossKind, target: &Target<'_>) -> Result<LossKind> {
    match (kind, target) {
        (LossKind::Auto, Target::Numbers(_)) => Ok(LossKind::Rmse),
        (LossKind::Auto, Target::Classes { labels, .. }) => Ok(if labels.len() <= 2 { LossKind::Logloss } else { LossKind::Multiclass }),
        (LossKind::Logloss, Target::Classes { labels, .. }) if labels.len() > 2 => {
            Err(Error::parameter("loss", format!("\"logloss\" needs two classes and the target has {}; use \"multiclass\"", labels.len())))
        }
        (LossKind::Logloss | LossKind::Multiclass, Target::Classes { .. }) => Ok(kind),
        (LossKind::Logloss | LossKind::Multiclass, Target::Numbers(_)) => {
            Err(Error::parameter("loss", format!("\"{}\" needs a target of classes", kind.name())))
        }
        (_, Target::Classes { .. }) => Err(Error::parameter("loss", format!("\"{}\" needs a numeric target", kind.name()))),
        (_, Target::Numbers(_)) => Ok(kind),
    }
}

/// The target as numbers (class indices for classes), checked against the loss's domain.
pub fn target_numbers(input: &Input<'_>, loss: &dyn Loss) -> Result<Vec<f64>> {
    let name = &input.target_name;
    match &input.target {
        Target::Numbers(column) => {
            let values = to_f64(column);
            let missing = in_parts(&values).filter(|x| x.is_nan()).count();
            if missing > 0 {
                return Err(Error::column(
                    name,
                    format!(
                        "the target is null or NaN in {missing} of {} rows: filter them out, as in .filter(pl.col(\"{name}\").is_not_null() & pl.col(\"{name}\").is_not_nan())",
                        values.len()
                    ),
                )
                .of_values());
            }
            if let Some(x) = in_parts(&values).find_first(|x| x.is_infinite()) {
                return Err(Error::column(
                    name,
                    format!("the target is {x} in {} rows: filter them out", values.iter().filter(|x| x.is_infinite()).count()),
                )
                .of_values());
            }
            if let Some((row, (x, expected))) =
                in_parts(&values).enumerate().find_map_first(|(i, x)| loss.check_target(*x).err().map(|e| (i, (*x, e))))
            {
                return Err(Error::column(name, format!("the target is {x} in row {row}: {expected}")).of_values());
            }
            Ok(values)
        }
        Target::Classes { codes, .. } => Ok(in_parts(codes).map(|c| *c as f64).collect()),
    }
}

/// Rows that a thread takes at a time.
const ROWS: usize = 1 << 16;

/// `values` for all threads, but for the calling one alone where there are few: a fit of a hundred rows is done before
/// another thread has been woken.
fn in_parts<T: Sync>(values: &[T]) -> rayon::iter::MinLen<rayon::slice::Iter<'_, T>> {
    values.par_iter().with_min_len(ROWS)
}

/// A column's values, read by all threads.
fn to_f64(column: &Column<'_>) -> Vec<f64> {
    let mut values = vec![0.0; column.len()];
    values.par_chunks_mut(ROWS).enumerate().for_each(|(i, out)| column.read_f64(i * ROWS, out));
    values
}

/// Checks that codes are those of classes, and that training rows are of at least two.
pub fn check_classes(input: &Input<'_>) -> Result<()> {
    let (Target::Classes { codes, labels }, name) = (&input.target, &input.target_name) else { return Ok(()) };
    let classes = labels.len();
    let counts = codes.par_chunks(ROWS).enumerate().map(|(chunk, codes)| {
        let mut counts = vec![0usize; classes];
        for (i, c) in codes.iter().enumerate() {
            let count = counts.get_mut(*c as usize).ok_or_else(|| Error::column(name, format!("class {c} of {classes}")))?;
            *count += !input.held_out.is_some_and(|h| h[chunk * ROWS + i]) as usize;
        }
        Ok(counts)
    });
    let add = |a: Vec<usize>, b: Vec<usize>| a.iter().zip(&b).map(|(a, b)| a + b).collect();
    let counts = counts.try_reduce(|| vec![0; classes], |a, b| Ok(add(a, b)))?;
    if counts.iter().filter(|c| **c > 0).count() < 2 {
        let only = counts.iter().position(|c| *c > 0).and_then(|c| labels.names().get(c).cloned()).unwrap_or_default();
        let (n, training) = (counts.iter().sum::<usize>(), if input.held_out.is_some() { " training" } else { "" });
        return Err(Error::column(name, format!("all {n}{training} rows are of one class, {only:?}: a classifier needs two")).degenerate());
    }
    Ok(())
}

/// Checks that the class whose probability is predicted, the last of two, is the one that `positive` asks for.
pub fn check_positive(target: &Target<'_>, positive: Option<&Label>) -> Result<()> {
    match (positive, target) {
        (None, _) => Ok(()),
        (Some(positive), Target::Classes { labels, .. }) => labels.check_positive(positive),
        (Some(positive), Target::Numbers(_)) => Err(not_numeric(positive)),
    }
}

/// The borders of every numeric column, fitted on a sample of the training rows by all threads;
/// those of columns that can split come with their index.
pub fn code_features(
    input: &Input<'_>,
    params: &BoostingParams,
    team: &Team,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<(u32, CodedFeature)>> {
    let sample = training_sample(input, params);
    let coded = team.deal(input.features.len(), Vec::new, |values, index| {
        let column = &input.features[index];
        let splits = *column.dtype() != FeatureType::Categorical && !interrupted();
        splits.then(|| code_feature(column, &sample, params, values).map(|f| (index as u32, f))).flatten()
    });
    if interrupted() {
        return Err(Error::Interrupted);
    }
    Ok(coded.into_iter().flatten().collect())
}

/// `values`: memory to use.
fn code_feature(column: &Column<'_>, sample: &[usize], params: &BoostingParams, values: &mut Vec<f64>) -> Option<CodedFeature> {
    if sample.len() == column.len() {
        values.resize(sample.len(), 0.0);
        column.read_f64(0, values);
    } else {
        values.clear();
        values.extend(column.gather_f64(sample));
    }
    let missing = values.iter().filter(|x| x.is_nan()).count();
    let most = params.bins as usize;
    let mut found = borders(values, most, params.border_method);
    let mut missing_bin = true;
    if found.len() == 255 {
        // 256 codes of values leave none for missing ones.
        missing_bin = missing > 0 || has_missing(column);
        if missing_bin {
            found = borders(values, 254, params.border_method);
        }
    }
    let splits = !found.is_empty() || (missing > 0 && missing < values.len());
    splits.then_some(CodedFeature { borders: found, missing_bin, categories: false })
}

fn has_missing(column: &Column<'_>) -> bool {
    let mut buffer = [0.0; 1024];
    (0..column.len()).step_by(1024).any(|start| {
        let out = &mut buffer[..1024.min(column.len() - start)];
        column.read_f64(start, out);
        out.iter().any(|x| x.is_nan())
    })
}

/// The rows that borders are fitted on.
fn training_sample(input: &Input<'_>, params: &BoostingParams) -> Vec<usize> {
    let rows = input.features[0].len();
    let size = usize::try_from(params.border_sample).unwrap_or(usize::MAX);
    let Some(held_out) = input.held_out else { return sample_rows(rows, size, params.seed) };
    let training = held_out.iter().filter(|x| !**x).count();
    let mut wanted = sample_rows(training, size, params.seed).into_iter().peekable();
    (0..rows).filter(|r| !held_out[*r]).enumerate().filter_map(|(i, row)| wanted.next_if_eq(&i).map(|_| row)).collect()
}

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

/// The start value from the training rows, and targets and scores relative to it: losses that
/// only see differences train on `(target - start) / unit`, so that neither a large offset nor a
/// huge or tiny scale costs precision in f32.
pub fn start(input: &Input<'_>, loss: &dyn Loss, target: &[f64], weight: Option<&[f32]>, outputs: usize) -> Result<Start> {
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

/// What gradients are in units of, next to the target's: leaves that are refitted from residuals
/// have gradients without a unit.
pub fn gradient_unit(loss: &dyn Loss, unit: f64) -> f64 {
    if loss.leaf_rule() == LeafRule::Newton { unit } else { 1.0 }
}
