//! Cross-validation (Stone, "Cross-validatory choice and assessment of statistical predictions", 1974): the rows of each fold are left to a
//! model that is fitted to the others.
//!
//! All folds share one coding of the numeric columns, whose borders come from all rows; of the target and of categories a model knows its own
//! rows alone. But for the borders, each is the model of a fit to those rows by themselves. Fits run side by side, or those of all folds together on a
//! device ([`super::small_tables`]), which shows in none.

use super::coded_table::CodedTable;
use super::continued::FitOptions;
use super::fit::threads;
use super::linear_leaves;
use super::model::Model;
use super::params::BoostingParams;
use crate::column::Column;
use crate::column::select::OwnedColumn;
use crate::dataset::counted::Counted;
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

/// Fits of several tables by the same parameters, by some of the threads.
pub type FitTogether<'f> =
    dyn Fn(&[(&Input<'_>, &FitOptions<'_>)], &BoostingParams, &dyn Monitor) -> Result<Vec<Result<Model>>> + Sync + 'f;

/// How fits of one call are made, and who watches them.
#[derive(Clone, Copy)]
pub struct Fits<'f> {
    pub fit: &'f Fit<'f>,
    /// Makes those of all folds at a time, where a device does.
    pub together: Option<&'f FitTogether<'f>>,
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
    Fits { fit, together, stay_here, monitor }: Fits<'_>,
    finish: impl Fn((usize, usize), FoldModel) -> Result<R> + Sync,
) -> Result<Vec<Vec<R>>> {
    let Some((_, of)) = each.first() else { return Ok(vec![]) };
    let (count, fits) = (folds.count as usize, folds.count as usize * each.len());
    let asked = pools::asked(each.iter().filter_map(|(params, _)| params.n_threads).max());
    let progress = Progress { monitor, told: Mutex::new(vec![(0, 0); fits]) };
    let in_fold = |number: usize| move |error: Error| error.within(&format!("fold {} of {count}", number % count));
    let table_of = |number: usize, threads: usize| {
        let (params, table) = each[number / count];
        let params = BoostingParams { n_threads: Some(threads as u32), ..params.clone() };
        FoldTable::new(table, &params, folds.fold((number % count) as u32)).map_err(in_fold(number))
    };
    let finish = |number: usize, of_fold: FoldTable<'_>, fitted: Result<Model>| {
        finish((number / count, number % count), of_fold.model(fitted.map_err(in_fold(number))?))
    };
    let (failed, mut made) = (AtomicBool::new(false), vec![]);
    // What was begun before the one that failed is finished, and what was not never is.
    let unless_failed = |make: &mut dyn FnMut() -> Result<Vec<R>>| {
        if failed.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let made = make();
        failed.fetch_or(made.is_err(), Ordering::Relaxed);
        made
    };
    if let Some(together) = together {
        let lanes = asked.min(each.len()).max(1);
        let all_folds = |of: usize| {
            let numbers = of * count..(of + 1) * count;
            let tables: Vec<FoldTable<'_>> = numbers.clone().map(|number| table_of(number, asked / lanes)).collect::<Result<_>>()?;
            let models = {
                let inputs: Vec<Input<'_>> = tables.iter().map(|table| table.rows.input()).collect();
                let options: Vec<FitOptions<'_>> = tables.iter().map(FoldTable::options).collect();
                let fits: Vec<_> = inputs.iter().zip(&options).collect();
                together(&fits, &tables[0].params, &OfFit { progress: &progress, number: numbers.start })?
            };
            let fitted = numbers.zip(tables).zip(models);
            fitted
                .map(|((number, table), model)| {
                    OfFit { progress: &progress, number }.round(1, 1, None);
                    finish(number, table, model)
                })
                .collect()
        };
        let made = ThreadPool::new(lanes)?.deal(each.len(), || (), |(), of| unless_failed(&mut || all_folds(of)));
        return made.into_iter().collect();
    }
    let one = |number: usize, threads: usize| {
        let of_fold = table_of(number, threads)?;
        let values: Vec<Column<'_>> = of_fold.values.iter().map(OwnedColumn::column).collect();
        let is_linear = of_fold.params.has_linear_leaves();
        let options = FitOptions { values: is_linear.then_some(&values), ..of_fold.options() };
        let fitted = fit(&of_fold.rows.input(), &of_fold.params, &options, &OfFit { progress: &progress, number });
        finish(number, of_fold, fitted)
    };
    let most = if stay_here { side_by_side(of) } else { 1 };
    for Share { fits, lanes } in shares(fits, asked, most) {
        let next = |number: usize| unless_failed(&mut || Ok(vec![one(number, asked / lanes)?]));
        match lanes {
            1 => made.extend(fits.map(next)),
            _ => made.extend(ThreadPool::new(lanes)?.deal(fits.len(), || (), |(), i| next(fits.start + i))),
        }
    }
    let made: Result<Vec<Vec<R>>> = made.into_iter().collect();
    let mut made = made?.into_iter().flatten();
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

/// What the model of a fold is fitted to.
struct FoldTable<'a> {
    /// The table that its rows are of.
    table: &'a CodedTable<'a>,
    params: BoostingParams,
    rows: Counted,
    /// The values of its columns, where leaves are functions of them.
    values: Vec<OwnedColumn>,
    training: usize,
    tested: Vec<usize>,
}

impl<'a> FoldTable<'a> {
    fn new(table: &'a CodedTable<'a>, params: &BoostingParams, Fold { mut training, tested }: Fold) -> Result<FoldTable<'a>> {
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
        let params = BoostingParams {
            metric: params.metric.clone().filter(|_| measures),
            eval_train: params.eval_train.filter(|_| measures),
            ..params.clone()
        };
        let is_linear = params.has_linear_leaves();
        let values = linear_leaves::values_of(if is_linear { &table.input().features } else { &[] }, &rows.rows)?;
        Ok(FoldTable { table, params, rows, values, training: count, tested })
    }

    /// Returns what its fit is told: what its columns are coded by.
    fn options(&self) -> FitOptions<'_> {
        FitOptions { coded: Some(self.table.coded()), ..FitOptions::default() }
    }

    /// Returns the fold's model.
    fn model(self, model: Model) -> FoldModel {
        // Rows of weight 0 are counted, as in any fit.
        FoldModel { model: Model { rows: self.training as u64, ..model }, training: self.training, tested: self.tested }
    }
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
