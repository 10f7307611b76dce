//! A search among parameters: each trial is what models of all folds come to, on one coding of the columns.
//!
//! By successive halving (Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", 2016) all trials
//! begin with few rounds, and one of so many goes on to so many times as many.

use super::coded_table::CodedTable;
use super::cross_validation::{Fits, FoldModel, coded, fit_each};
use super::params::BoostingParams;
use super::untold_rounds::ROUNDS;
use crate::dataset::folds::Folds;
use crate::dataset::{Batches, Input};
use crate::error::{Error, Result};

/// How trials are given up.
#[derive(Clone, Copy, Debug)]
pub struct Halving {
    /// Of so many trials one goes on, with so many times the rounds; 2 at least.
    pub factor: u32,
}

/// What a trial came to in one rung.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Which of the parameters.
    pub number: usize,
    pub rung: u32,
    /// The rounds that it was given, or in the mean found for itself.
    pub rounds: u32,
    /// The metric, by fold.
    pub values: Vec<f64>,
}

impl Trial {
    /// Returns the mean over the folds.
    pub fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len() as f64
    }

    /// Returns the standard deviation between the folds, of which there are two at least.
    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self.values.iter().map(|value| (value - mean) * (value - mean)).sum();
        libm::sqrt(squares / (self.values.len() as f64 - 1.0))
    }
}

/// Returns as many rungs as leave a trial for the last.
fn rungs_of(trials: usize, factor: u32) -> u32 {
    1 + trials.checked_ilog(factor as usize).unwrap_or(0)
}

/// Returns the rounds of a trial in a rung, of which the last gives it all.
fn rounds_in(params: &BoostingParams, rung: u32, rungs: u32, factor: u32) -> u32 {
    let all = u64::from(params.rounds.unwrap_or(ROUNDS));
    all.div_ceil(u64::from(factor).saturating_pow(rungs - 1 - rung)).max(1) as u32
}

/// Fits the models of all folds by each of the trials' parameters, and returns what they came to: the last rung first, and in each the best
/// first. `batches`: the columns that come in batches. `prepare`: makes what is needed to measure rows of a coded table. `measure`: what a fold's
/// model is worth, and whether larger is better, told which fold, the table, and what is prepared of it.
///
/// # Errors
/// Those of the fits and of `measure`; for parameters that are wrong; [`Error::Memory`]; [`Error::Interrupted`].
pub fn search<T: Sync>(
    (input, batches): (&Input<'_>, Option<Batches<'_>>),
    trials: &[BoostingParams],
    folds: &Folds,
    halving: Option<Halving>,
    fits: Fits<'_>,
    prepare: impl Fn(&CodedTable<'_>) -> Result<T>,
    measure: impl Fn(usize, (&CodedTable<'_>, &T), FoldModel) -> Result<(f64, bool)> + Sync,
) -> Result<Vec<Trial>> {
    let factor = halving.map_or(2, |halving| halving.factor);
    if factor < 2 {
        return Err(Error::parameter("halving", format!("{factor} is less than 2: of so many trials one goes on")));
    }
    let mut tables: Vec<CodedTable<'_>> = vec![];
    for params in trials {
        if !tables.iter().any(|table| table.serves(params)) {
            tables.push(coded(input, params, batches, fits.monitor)?);
        }
    }
    let prepared = tables.iter().map(prepare).collect::<Result<Vec<T>>>()?;
    let place = |params: &BoostingParams| tables.iter().position(|table| table.serves(params));
    let rungs = match halving {
        None => 1,
        Some(_) => rungs_of(trials.len(), factor),
    };
    let (mut open, mut all): (Vec<usize>, Vec<Vec<Trial>>) = ((0..trials.len()).collect(), vec![]);
    for rung in 0..rungs {
        let of_rung = |number: &usize| {
            let params = &trials[*number];
            let rounds = halving.map(|_| rounds_in(params, rung, rungs, factor)).or(params.rounds);
            BoostingParams { rounds, ..params.clone() }
        };
        let params: Vec<BoostingParams> = open.iter().map(of_rung).collect();
        let places: Vec<usize> = params.iter().filter_map(place).collect();
        let each: Vec<(&BoostingParams, &CodedTable<'_>)> = params.iter().zip(places.iter().map(|at| &tables[*at])).collect();
        let found = fit_each(&each, folds, fits, |(number, fold), fitted| {
            let rounds = fitted.model.rounds();
            measure(fold, (each[number].1, &prepared[places[number]]), fitted).map(|(value, larger)| (value, larger, rounds))
        })?;
        let larger = found.first().and_then(|folds| folds.first()).is_some_and(|(_, larger, _)| *larger);
        let mut of_rung: Vec<Trial> = vec![];
        for ((number, params), found) in open.iter().zip(&params).zip(found) {
            let mean = found.iter().map(|(_, _, rounds)| *rounds).sum::<usize>() / found.len().max(1);
            let rounds = params.rounds.unwrap_or(mean as u32);
            of_rung.push(Trial { number: *number, rung, rounds, values: found.into_iter().map(|(value, _, _)| value).collect() });
        }
        let better = |a: &Trial, b: &Trial| if larger { b.mean().total_cmp(&a.mean()) } else { a.mean().total_cmp(&b.mean()) };
        of_rung.sort_by(better);
        open = of_rung.iter().take(open.len().div_ceil(factor as usize)).map(|trial| trial.number).collect();
        open.sort_unstable();
        all.push(of_rung);
    }
    Ok(all.into_iter().rev().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that powers of the factor, whose logarithms are not exact, have their rungs.
    #[test]
    fn rungs_leave_a_trial_for_the_last() {
        let of = |trials, factor| rungs_of(trials, factor);
        assert_eq!([of(0, 3), of(1, 3), of(2, 3), of(3, 3), of(10, 3), of(243, 3), of(1000, 10)], [1, 1, 1, 2, 3, 6, 4]);
    }

    /// Proves that the last rung gives all rounds, and each before it the factor less, one at least.
    #[test]
    fn rungs_multiply_rounds() {
        let params = BoostingParams { rounds: Some(100), ..BoostingParams::default() };
        assert_eq!((0..3).map(|rung| rounds_in(&params, rung, 3, 3)).collect::<Vec<_>>(), [12, 34, 100]);
        assert_eq!(rounds_in(&params, 0, 9, 10), 1);
        assert_eq!(rounds_in(&BoostingParams::default(), 1, 2, 3), ROUNDS);
    }

    /// Proves mean and deviation by hand.
    #[test]
    fn trials_are_summed_up() {
        let trial = Trial { number: 0, rung: 0, rounds: 1, values: vec![1.0, 2.0, 6.0] };
        assert_eq!((trial.mean(), trial.deviation()), (3.0, libm::sqrt(7.0)));
    }
}
