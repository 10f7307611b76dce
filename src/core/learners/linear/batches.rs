//! Batches of rows: stochastic gradient descent, Adagrad and FTRL-proximal.
//!
//! ```text
//! once      runs of consecutive training rows, shuffled by the seed, dealt into batches; inside a batch in file order
//! an epoch  the batches, in an order of the epoch's own
//! a batch   scores     each thread some of the rows: scores and residuals
//!           steps      each thread some of the features: Σ residual · value as integers, one step of the rule
//! ```
//!
//! Sums are integers and a coefficient has one owner, so neither the number of threads nor who is first shows in the result.

use super::held_out::PassMonitor;
use super::lbfgs::Fitted;
use super::params::{LinearParams, Optimizer};
use super::problem::Problem;
use super::rule::Rule;
use super::snapshot::{KeptSearch, State};
use super::steps::{BatchSteps, ScoreRows, Task};
use super::whole::power;
use crate::error::Result;
use crate::numerics::random::{Purpose, Random};
use crate::pages;
use std::ops::Range;

/// The most consecutive rows that stay together.
const MOST_RUN: usize = 16;

/// The order of rows and batches of a fit by batches, the same on any device.
pub struct Deal {
    /// Of penalised coefficients, and of intercepts.
    pub rule: Rule,
    pub free: Rule,
    pub batch: usize,
    /// Training rows, batch after batch.
    pub rows: Vec<usize>,
    /// What weights are divided by.
    pub mean_weight: f64,
    /// What gradients are multiplied by to be integers.
    pub scale: f64,
    /// The most entries of a batch.
    pub most: usize,
}

/// A fit by batches, to be done on some device.
pub struct ByBatches<'s, 'p, 'a, 'w> {
    pub task: &'s Task<'p, 'a>,
    pub params: &'s LinearParams,
    pub watch: &'s mut PassMonitor<'w>,
    pub kept: &'s KeptSearch<'w>,
}

impl<'a> ByBatches<'_, '_, 'a, '_> {
    /// Lowers the objective on a device. `scores`: what scores rows by a vector on the host.
    pub fn on(self, deal: &Deal, backend: &mut impl BatchSteps, scorer: &dyn ScoreRows) -> Result<Fitted> {
        let ByBatches { task, params, watch, kept } = self;
        let p = task.problem;
        let steps = deal.rows.len().div_ceil(deal.batch);
        let watched = if watch.marks().is_some() { p.rows * p.outputs } else { 0 };
        let mut scores: Vec<f64> = pages::try_zeroed("the scores of the rows", watched)?;
        // Penalties that are made up leave the others' time at 0.
        let end_of = |done: u32| if params.optimizer == Optimizer::Ftrl { f64::from(done) * deal.rows.len() as f64 } else { 0.0 };
        let (mut vector, mut done) = (vec![], 0);
        if let Some((passes, State::Batches(state))) = kept.restored(watch)? {
            backend.restore(&state)?;
            (vector, done) = (backend.vector(end_of(passes))?, passes);
        }
        while done < params.epochs() {
            // SGD's steps grow shorter; the others' do so by themselves.
            let sgd = params.optimizer == Optimizer::Sgd;
            let rate = if sgd { params.learning_rate() / libm::sqrt(1.0 + done as f64) } else { params.learning_rate() };
            let past = end_of(done);
            let end = past + deal.rows.len() as f64;
            backend.epoch(&order(steps, params.seed, done as u64 + 1), past, rate)?;
            if params.optimizer != Optimizer::Ftrl {
                backend.settle(end)?;
            }
            done += 1;
            if watch.marks().is_some() || done == params.epochs() {
                vector = backend.vector(end_of(done))?;
            }
            if let Some(held_out) = watch.marks() {
                scorer.scores_where(&|i| held_out[i], &vector, &mut scores)?;
            }
            if watch.pass(done, params.epochs(), &vector, &scores)? {
                break;
            }
            if kept.is_due(done) {
                kept.keep(done, watch, State::Batches(backend.state()?))?;
            }
        }
        Ok(Fitted { vector, passes: done, converged: false, objective: f64::NAN })
    }
}

/// Returns the numbers `0..n` in a random order.
fn order(n: usize, seed: u64, stream: u64) -> Vec<usize> {
    let random = Random::new(seed, Purpose::Permutation, stream);
    let mut keys: Vec<(u64, usize)> = (0..n).map(|i| (random.u64(i as u64), i)).collect();
    keys.sort_unstable();
    keys.into_iter().map(|k| k.1).collect()
}

/// Returns the rows that count, in runs that are shuffled; inside each batch in file order.
fn dealt(p: &Problem<'_>, batch: usize, seed: u64) -> Vec<usize> {
    let training: Vec<usize> = (0..p.rows).filter(|i| p.weight(*i) > 0.0).collect();
    let run = MOST_RUN.min(1 << batch.trailing_zeros());
    let runs: Vec<&[usize]> = training.chunks(run).collect();
    // A run that is not whole comes last, so that all batches but the last one are.
    let whole = training.len() / run;
    let mut rows: Vec<usize> = order(whole, seed, 0).into_iter().chain(whole..runs.len()).flat_map(|r| runs[r].iter().copied()).collect();
    rows.chunks_mut(batch).for_each(<[usize]>::sort_unstable);
    rows
}

impl Deal {
    /// Deals the training rows out.
    pub fn new(p: &Problem<'_>, params: &LinearParams) -> Deal {
        let batch = params.batch() as usize;
        let rows = dealt(p, batch, params.seed);
        let entries = |rows: &[usize]| p.csr.as_ref().map_or(0, |csr| rows.iter().map(|i| csr.row(*i).keys.len()).sum::<usize>());
        let most = rows.chunks(batch).map(entries).max().unwrap_or(0);
        let mean_weight = p.total_weight / rows.len() as f64;
        let largest_weight = rows.iter().fold(0.0, |m, i| if p.weight(*i) > m { p.weight(*i) } else { m });
        let bits = 50.min(62 - (64 - (most as u64).leading_zeros() as i32));
        let rule = Rule { optimizer: params.optimizer, rate: params.learning_rate(), l1: p.l1, l2: p.l2 };
        let scale = power(largest_weight / mean_weight, bits);
        Deal { rule, free: Rule { l1: 0.0, l2: 0.0, ..rule }, batch, rows, mean_weight, scale, most }
    }

    /// Returns the places in `rows` of a batch.
    pub fn span(&self, step: usize) -> Range<usize> {
        step * self.batch..self.rows.len().min((step + 1) * self.batch)
    }
}
