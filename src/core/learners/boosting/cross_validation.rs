//! Cross-validation (Stone, "Cross-validatory choice and assessment of statistical predictions", 1974): the rows of each fold are left to a
//! model that is fitted to the others.
//!
//! All folds share one coding of the numeric columns, whose borders come from all rows; of the target and of categories a model knows its own
//! rows alone. But for the borders, each is the model of a fit to those rows by themselves. Fits run side by side, which shows in none.

use super::coded_table::CodedTable;
use super::continued::FitOptions;
use super::fit::threads;
use super::linear_leaves;
use super::model::Model;
use super::params::BoostingParams;
use crate::column::Column;
use crate::column::select::OwnedColumn;
use crate::dataset::folds::{Fold, Folds};
use crate::dataset::{Batches, Input, Monitor};
use crate::error::{Error, Result};
use crate::parallel::pools;
use crate::parallel::thread_pool::ThreadPool;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A fit of a table ([`super::fit_with`] on whichever device).
pub type Fit<'f> = dyn Fn(&Input<'_>, &BoostingParams, &FitOptions<'_>, &dyn Monitor) -> Result<Model> + Sync + 'f;

/// How fits of one call are made, and who watches them.
#[derive(Clone, Copy)]
pub struct Fits<'f> {
    pub fit: &'f Fit<'f>,
    /// Whether all are sure to be made by this process's threads, and so may run side by side.
    pub stay_here: bool,
    pub monitor: &'f dyn Monitor,
}

/// The model of a fold.
pub struct FoldModel {
    pub model: Model,
    /// The rows that it was fitted to.
    pub training: usize,
    /// The rows that are left to it, ascending.
    pub tested: Vec<usize>,
}

/// Fits the models of all folds, on all threads.
///
/// Under `early_stopping` the rows of a fold are held out from its fit, which then ends by them.
///
/// # Errors
/// Those of the fits, saying which fold; [`Error::Memory`]; [`Error::Interrupted`].
pub fn fit_folds(table: &CodedTable<'_>, params: &BoostingParams, folds: &Folds, fits: Fits<'_>) -> Result<Vec<FoldModel>> {
    fit_each(&[(params, table)], folds, fits, |_, fitted| Ok(fitted)).map(|fitted| fitted.into_iter().flatten().collect())
}

/// Codes a table for fits by such parameters; `batches`: the columns that come in batches.
///
/// # Errors
/// As [`CodedTable::new`]; for parameters that are wrong.
pub fn coded<'a>(
    input: &'a Input<'a>,
    params: &BoostingParams,
    batches: Option<Batches<'_>>,
    monitor: &dyn Monitor,
) -> Result<CodedTable<'a>> {
    params.validate()?;
    if batches.is_some() && params.has_linear_leaves() {
        return Err(Batches::not_yet("leaf", "what reads the values of all rows after each tree, as \"linear\" does,"));
    }
    let pool = ThreadPool::new(threads(params, input.target.rows(), input.features.len()))?;
    CodedTable::new(&pool, input, params, batches, &|| monitor.interrupted())
}

/// Fits the models of all folds by each of several parameters, beside the coded table for each, and makes of each what `finish` does,
/// which is told its number: `[params][fold]`.
///
/// # Errors
/// As [`fit_folds`], and those of `finish`.
pub fn fit_each<R: Send>(
    each: &[(&BoostingParams, &CodedTable<'_>)],
    folds: &Folds,
    Fits { fit, stay_here, monitor }: Fits<'_>,
    finish: impl Fn((usize, usize), FoldModel) -> Result<R> + Sync,
) -> Result<Vec<Vec<R>>> {
    let Some((_, of)) = each.first() else { return Ok(vec![]) };
    let (count, fits) = (folds.count as usize, folds.count as usize * each.len());
    let asked = pools::asked(each.iter().filter_map(|(params, _)| params.n_threads).max());
    let progress = Progress { monitor, told: Mutex::new(vec![(0, 0); fits]) };
    let one = |number: usize, threads: usize| {
        let ((params, table), fold) = (each[number / count], number % count);
        let params = BoostingParams { n_threads: Some(threads as u32), ..params.clone() };
        let of_fold = OfFit { progress: &progress, number };
        let fitted = fit_fold(table, &params, folds.fold(fold as u32), fit, &of_fold);
        let fitted = fitted.map_err(|error| error.within(&format!("fold {fold} of {count}")))?;
        finish((number / count, fold), fitted)
    };
    let most = if stay_here { side_by_side(of) } else { 1 };
    let (failed, mut made) = (AtomicBool::new(false), vec![]);
    for Share { fits, lanes } in shares(fits, asked, most) {
        let next = |number: usize| {
            // What was begun before the one that failed is finished, and what was not never is.
            if failed.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            let made = one(number, asked / lanes);
            failed.fetch_or(made.is_err(), Ordering::Relaxed);
            made
        };
        match lanes {
            1 => made.extend(fits.map(next)),
            _ => made.extend(ThreadPool::new(lanes)?.deal(fits.len(), || (), |(), i| next(fits.start + i))),
        }
    }
    let made: Result<Vec<R>> = made.into_iter().collect();
    let mut made = made?.into_iter();
    Ok(each.iter().map(|_| made.by_ref().take(count).collect()).collect())
}

/// As many codes as fits may hold that run side by side.
const MOST_CODES: usize = 1 << 32;

/// Returns how many fits may run side by side.
fn side_by_side(of: &CodedTable<'_>) -> usize {
    MOST_CODES / (of.len() * (of.input().features.len() + 64)).max(1)
}

/// Fits that are dealt to so many lanes.
#[derive(Debug, PartialEq)]
struct Share {
    fits: Range<usize>,
    lanes: usize,
}

/// Deals fits to threads: a fit by one thread wastes nothing on others, so as many run side by side as there are threads; what is left over
/// at the end shares all threads.
fn shares(fits: usize, threads: usize, most: usize) -> Vec<Share> {
    let lanes = threads.min(fits).min(most).max(1);
    let even = fits - fits % lanes;
    let share = |fits: Range<usize>, lanes: usize| (!fits.is_empty()).then_some(Share { fits, lanes });
    share(0..even, lanes).into_iter().chain(share(even..fits, (fits - even).max(1))).collect()
}

/// Fits the model of one fold.
fn fit_fold(
    table: &CodedTable<'_>,
    params: &BoostingParams,
    Fold { mut training, tested }: Fold,
    fit: &Fit<'_>,
    monitor: &dyn Monitor,
) -> Result<FoldModel> {
    let counts = |row: &usize| !table.is_idle(*row);
    let count = training.len();
    training.retain(counts);
    if training.is_empty() {
        return Err(Error::Data("there are no rows to fit to".into()).degenerate());
    }
    let rows = match params.early_stopping {
        None => table.rows(training, None)?,
        Some(_) => {
            let mut held_out = vec![false; table.len()];
            let measured: Vec<usize> = tested.iter().copied().filter(counts).collect();
            measured.iter().for_each(|row| held_out[*row] = true);
            training.extend(measured);
            training.sort_unstable();
            table.rows(training, Some(&held_out))?
        }
    };
    let measures = params.early_stopping.is_some();
    let params = &BoostingParams {
        metric: params.metric.clone().filter(|_| measures),
        eval_train: params.eval_train.filter(|_| measures),
        ..params.clone()
    };
    let is_linear = params.has_linear_leaves();
    let values = linear_leaves::values_of(if is_linear { &table.input().features } else { &[] }, &rows.rows)?;
    let values: Vec<Column<'_>> = values.iter().map(OwnedColumn::column).collect();
    let options = FitOptions { coded: Some(table.coded()), values: is_linear.then_some(&values), ..FitOptions::default() };
    let model = fit(&rows.input(), params, &options, monitor)?;
    // Those of weight 0 are counted, as in any fit.
    Ok(FoldModel { model: Model { rows: count as u64, ..model }, training: count, tested })
}

/// What is told of several fits: as of one.
struct Progress<'a> {
    monitor: &'a dyn Monitor,
    /// Of each fit, its rounds that are done, and all of them.
    told: Mutex<Vec<(u32, u32)>>,
}

/// Watches one of several fits.
struct OfFit<'a> {
    progress: &'a Progress<'a>,
    number: usize,
}

impl Monitor for OfFit<'_> {
    fn round(&self, done: u32, total: u32, _: Option<f64>) {
        let mut told = self.progress.told.lock().unwrap_or_else(PoisonError::into_inner);
        told[self.number] = (done, total);
        let (mut all_done, mut all) = (0u32, 0u32);
        for (done, of) in told.iter() {
            // Those that have not begun are taken to be as long as this one.
            (all_done, all) = (all_done.saturating_add(*done), all.saturating_add(if *of == 0 { total } else { *of }));
        }
        self.progress.monitor.round(all_done, all, None);
    }

    fn device(&self, chosen: &str) {
        self.progress.monitor.device(chosen);
    }

    fn interrupted(&self) -> bool {
        self.progress.monitor.interrupted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that each fit is dealt once, and that no thread is without one while others have several.
    #[test]
    fn fits_are_dealt_evenly() {
        let share = |fits, lanes| Share { fits, lanes };
        assert_eq!(shares(5, 2, 100), [share(0..4, 2), share(4..5, 1)]);
        assert_eq!(shares(5, 16, 100), [share(0..5, 5)]);
        assert_eq!(shares(90, 4, 100), [share(0..88, 4), share(88..90, 2)]);
        assert_eq!(shares(5, 4, 0), [share(0..5, 1)]);
        assert_eq!(shares(0, 4, 9), []);
    }
}
