//! Cross-validation (Stone, "Cross-validatory choice and assessment of statistical predictions", 1974): the rows of each fold are left to a
//! model that is fitted to the others.
//!
//! All folds share one coding of the numeric columns, whose borders come from all rows; of the target and of categories a model knows its own
//! rows alone. But for the borders, each is the model of a fit to those rows by themselves. Fits run side by side, which shows in none.

use super::coded_table::CodedTable;
use super::continued::FitOptions;
use super::fit::threads;
use super::model::Model;
use super::params::BoostingParams;
use crate::dataset::folds::{Fold, Folds};
use crate::dataset::{Input, Monitor};
use crate::error::{Error, Result};
use crate::parallel::pools;
use crate::parallel::thread_pool::ThreadPool;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

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
pub fn fit_folds(input: &Input<'_>, params: &BoostingParams, folds: &Folds, fits: Fits<'_>) -> Result<Vec<FoldModel>> {
    let table = coded(input, params, fits.monitor)?;
    fit_each(&[(params, &table)], folds, fits, |_, fitted| Ok(fitted)).map(|fitted| fitted.into_iter().flatten().collect())
}

/// Codes a table for fits by such parameters.
///
/// # Errors
/// As [`CodedTable::new`]; for parameters that are wrong.
pub fn coded<'a>(input: &'a Input<'a>, params: &BoostingParams, monitor: &dyn Monitor) -> Result<CodedTable<'a>> {
    params.validate()?;
    let pool = ThreadPool::new(threads(params, input.target.rows(), input.features.len()))?;
    CodedTable::new(&pool, input, params, &|| monitor.interrupted())
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
    let one = |number: usize, threads: usize, turns: Option<&Turns>| {
        let ((params, table), fold) = (each[number / count], number % count);
        let params = BoostingParams { n_threads: Some(threads as u32), ..params.clone() };
        let of_fold = OfFit { progress: &progress, number, turns };
        let fitted = fit_fold(table, &params, folds.fold(fold as u32), fit, &of_fold);
        let fitted = fitted.map_err(|error| error.within(&format!("fold {fold} of {count}")))?;
        finish((number / count, fold), fitted)
    };
    let most = if stay_here { side_by_side(of) } else { 1 };
    let (failed, mut made) = (AtomicBool::new(false), vec![]);
    for Share { fits, lanes, turns } in shares(fits, asked, most) {
        let next = |number: usize, turns: Option<&Turns>| {
            // What was begun before the one that failed is finished, and what was not never is.
            if failed.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            let made = one(number, asked / lanes, turns);
            failed.fetch_or(made.is_err(), Ordering::Relaxed);
            made
        };
        match (lanes, turns) {
            (1, None) => made.extend(fits.map(|number| next(number, None))),
            (_, None) => made.extend(ThreadPool::new(lanes)?.deal(fits.len(), || (), |(), i| next(fits.start + i, None))),
            (_, Some(turns)) => made.extend(in_turns(fits, &turns, &next)?),
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
    /// Where there are more fits than lanes, and all are under way at once.
    turns: Option<Turns>,
}

/// Deals fits to threads: a fit by one thread wastes nothing on others, so as many run side by side as there are threads. What is left over at the
/// end is dealt together with the last round of those: all of them are begun, and take turns, so that every thread is at work until they end.
fn shares(fits: usize, threads: usize, most: usize) -> Vec<Share> {
    let lanes = threads.min(fits).min(most).max(1);
    let rest = fits % lanes;
    let last = if rest > 0 { lanes + rest } else { 0 };
    let share = |fits: Range<usize>, lanes: usize, turns: Option<Turns>| (!fits.is_empty()).then_some(Share { fits, lanes, turns });
    // Where no more may be under way, what is left over shares all threads.
    let (even, turns) = if last > most { (fits - rest, None) } else { (fits - last, Some(Turns::new(lanes))) };
    let lanes_of_rest = if turns.is_some() { lanes } else { rest.max(1) };
    share(0..even, lanes, None).into_iter().chain(share(even..fits, lanes_of_rest, turns)).collect()
}

/// A fit may give its turn away after each of so many parts of its rounds: often enough that all end together, seldom enough that its rows come
/// to the caches for many rounds.
const PARTS: u32 = 20;

/// Lets so many of several fits be at work at the same time, those first that have done least.
#[derive(Debug)]
struct Turns {
    lanes: usize,
    state: Mutex<Waiting>,
    changed: Condvar,
}

/// Who is at work, and who waits.
#[derive(Debug, Default)]
struct Waiting {
    at_work: usize,
    /// How much of its rounds each that waits has done, in [`PARTS`], and its number.
    waiting: BTreeSet<(u32, usize)>,
}

impl PartialEq for Turns {
    fn eq(&self, other: &Turns) -> bool {
        self.lanes == other.lanes
    }
}

impl Turns {
    fn new(lanes: usize) -> Turns {
        Turns { lanes, state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a fit that has done so many parts may work.
    fn begin(&self, part: u32, number: usize) {
        let mut state = self.state();
        state.waiting.insert((part, number));
        while state.at_work == self.lanes || state.waiting.first() != Some(&(part, number)) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting.remove(&(part, number));
        state.at_work += 1;
        // There may be room for the next as well.
        self.changed.notify_all();
    }

    /// Makes room for another.
    fn end(&self) {
        self.state().at_work -= 1;
        self.changed.notify_all();
    }

    /// Lets one that has done less than `part` parts go first, where one waits.
    fn pass(&self, part: u32, number: usize) {
        let behind = self.state().waiting.first().is_some_and(|(least, _)| *least < part);
        if behind {
            self.end();
            self.begin(part, number);
        }
    }
}

/// Gives a turn back, whatever becomes of the fit.
struct Turn<'t>(&'t Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Makes fits, each on a thread of its own, which take turns.
///
/// # Errors
/// When the system gives no threads.
fn in_turns<R: Send>(
    fits: Range<usize>,
    turns: &Turns,
    make: &(dyn Fn(usize, Option<&Turns>) -> Result<R> + Sync),
) -> Result<Vec<Result<R>>> {
    // Of one thread each, which no other work has a share in: one that waits must not be waited for by those who work.
    let none = |e| Error::Data(format!("threads for {} fits could not be started: {e}", fits.len()));
    let pools = fits.clone().map(|_| pools::apart(1)).collect::<std::result::Result<Vec<_>, _>>().map_err(none)?;
    let one = |number: usize| {
        turns.begin(0, number);
        let _turn = Turn(turns);
        make(number, Some(turns))
    };
    let one = &one;
    std::thread::scope(|scope| {
        let threads: Vec<_> = fits.zip(&pools).map(|(number, pool)| scope.spawn(move || pool.install(|| one(number)))).collect();
        let ended = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        Ok(ended.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect())
    })
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
    let options = FitOptions { coded: Some(table.coded()), ..FitOptions::default() };
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
    turns: Option<&'a Turns>,
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
        drop(told);
        if let Some(turns) = self.turns {
            turns.pass((u64::from(done) * u64::from(PARTS) / u64::from(total.max(1))) as u32, self.number);
        }
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
    use std::sync::atomic::AtomicUsize;

    /// Proves that each fit is dealt once, and that no thread is without one while others have several.
    #[test]
    fn fits_are_dealt_evenly() {
        let share = |fits, lanes| Share { fits, lanes, turns: None };
        let in_turns = |fits, lanes| Share { fits, lanes, turns: Some(Turns::new(lanes)) };
        assert_eq!(shares(5, 2, 100), [share(0..2, 2), in_turns(2..5, 2)]);
        assert_eq!(shares(5, 2, 2), [share(0..4, 2), share(4..5, 1)]);
        assert_eq!(shares(5, 16, 100), [share(0..5, 5)]);
        assert_eq!(shares(90, 4, 100), [share(0..84, 4), in_turns(84..90, 4)]);
        assert_eq!(shares(5, 4, 0), [share(0..5, 1)]);
        assert_eq!(shares(0, 4, 9), []);
    }

    /// Proves that no more fits work at the same time than may, that each is made once, and that one which fails gives its turn back.
    #[test]
    fn fits_take_turns() {
        let (turns, working, most) = (Turns::new(2), AtomicUsize::new(0), AtomicUsize::new(0));
        let make = |number: usize, of: Option<&Turns>| {
            for part in 1..=PARTS {
                most.fetch_max(working.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                working.fetch_sub(1, Ordering::SeqCst);
                of.unwrap().pass(part, number);
            }
            Ok(number)
        };
        let made = in_turns(0..5, &turns, &make).unwrap();
        assert_eq!(made.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert!(most.load(Ordering::SeqCst) <= 2);
        let fails = |number: usize, _: Option<&Turns>| if number == 1 { Err(Error::Interrupted) } else { Ok(number) };
        assert_eq!(in_turns(0..4, &turns, &fails).unwrap().iter().filter(|made| made.is_err()).count(), 1);
        assert_eq!(turns.state().at_work, 0);
    }
}
