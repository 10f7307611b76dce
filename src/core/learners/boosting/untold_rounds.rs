//! Finds how many rounds a fit makes that is not told, and by which steps.
//!
//! How many rounds are best depends on how much of the target is noise, which no rule knows from a table's size. So a part of the
//! training rows is hidden, rounds are made without it until its loss has not fallen for a while, and with all rows then as many as
//! were best, in proportion to the rows. Where rows are few several fifths of them are hidden in turn, and the geometric mean of the numbers taken: which rows
//! are hidden decides much about one of them. The step ([`learning_rate`]) is smaller for small tables, where many small steps are better than few large ones and cost
//! little.
//!
//! Several classes share their trees then, as in CatBoost.
//!
//! Of that nothing stays open in a model: its parameters are the numbers that were found, and a fit that is given them makes the
//! same bytes.

use super::continued::FitOptions;
use super::fit::fit_on;
use super::model::Model;
use super::params::{BoostingParams, MultiStrategy};
use super::steps::TreeDevices;
use crate::dataset::{EvalSets, Evaluation, Input, Monitor, Target};
use crate::error::{Result, RowsFault};
use crate::losses::{Loss, LossKind};
use crate::numerics::random::{Purpose, Random, below};
use crate::parallel::thread_pool::ThreadPool;
use std::borrow::Cow;

/// The step on tables of many rows, and on all where the number of rounds is given.
pub const LEARNING_RATE: f64 = 0.1;
/// The rounds of a fit where nothing can be hidden.
pub const ROUNDS: u32 = 100;

/// The rows from which on the step is [`LEARNING_RATE`].
const MANY_ROWS: f64 = 5_000.0;
/// The most rounds, times the step.
const LONGEST_WAY: f64 = 60.0;
/// The rounds without a better loss of the hidden rows after which a trial ends, times the step.
const PATIENCE: f64 = 3.0;
/// Of so many rows one is hidden, as long as that is not more than [`MOST_HIDDEN`].
const BLOCK: usize = 5;
/// One fifth after another is hidden, until so many rows have been, of which each counts once for each output.
const HIDDEN_IN_ALL: usize = 2_000;
/// About the most rows that are hidden: as many tell one number of rounds from another.
const MOST_HIDDEN: usize = 5_000;
/// The fewest rows of which some are hidden.
const FEWEST: usize = 50;
/// The most features times classes of trees that the classes share unless told otherwise.
const MOST_SHARED: usize = 1 << 14;
/// Where the hidden rows are at most one of so many, the trial's trees are as good as those of all rows.
const HARDLY_ANY: usize = 50;

/// Returns the step of a fit on so many training rows, unless it is given: [`LEARNING_RATE`] from 5,000 rows on, and below by the
/// fourth root of their number, 0.056 for 500.
///
/// ```
/// use taiga_core::learners::boosting::untold_rounds::learning_rate;
/// assert_eq!((learning_rate(5_000), learning_rate(1_000_000)), (0.1, 0.1));
/// assert!((learning_rate(8) - 0.02).abs() < 1e-15);
/// ```
pub fn learning_rate(rows: usize) -> f64 {
    LEARNING_RATE * libm::sqrt(libm::sqrt((rows as f64 / MANY_ROWS).min(1.0)))
}

/// Returns a number of rounds which is so long a way by this step; one at least, and no more than a fit may make.
fn rounds_of(way: f64, learning_rate: f64) -> u32 {
    libm::round(way / learning_rate).clamp(1.0, BoostingParams::MOST_ROUNDS as f64) as u32
}

/// Fits to rows that all count, by parameters that don't say how many rounds. `kind`: the loss; `loss`: the same.
///
/// # Errors
/// As [`super::fit()`].
pub(super) fn fit_untold(
    pool: &ThreadPool,
    input: &Input<'_>,
    params: &BoostingParams,
    options: &FitOptions<'_>,
    (kind, loss): (LossKind, &dyn Loss),
    devices: &dyn TreeDevices,
    monitor: &dyn Monitor,
) -> Result<Model> {
    let rows = input.target.rows() - input.held_out_rows();
    let told = |rounds: u32, step: f64| BoostingParams { rounds: Some(rounds), learning_rate: Some(step), ..params.clone() };
    let found = |rounds: u32, step: f64| BoostingParams { multi_strategy: multi_strategy(input, params, kind, loss), ..told(rounds, step) };
    let step = params.learning_rate.unwrap_or_else(|| learning_rate(rows));
    let most = found(rounds_of(LONGEST_WAY, step), step);
    let goes_on = options.init_model.is_some() || options.snapshots.is_some();
    if params.early_stopping.is_some() && !goes_on {
        return fit_on(pool, input, &most, options, devices, monitor);
    }
    let as_ever = || {
        let step = params.learning_rate.unwrap_or(LEARNING_RATE);
        fit_on(pool, input, &told(ROUNDS, step), options, devices, monitor)
    };
    if goes_on || kind.reads_groups() || kind == LossKind::Custom || loss.reads_times() || rows < FEWEST {
        return as_ever();
    }
    let patience = Some(rounds_of(PATIENCE, step));
    let trial = BoostingParams { early_stopping: patience, metric: None, eval_train: None, ..most };
    let of_trial =
        FitOptions { coded: options.coded, values: options.values, own: options.own, batches: options.batches, ..FitOptions::default() };
    let parts = HIDDEN_IN_ALL.div_ceil(rows / BLOCK * loss.outputs()).min(BLOCK);
    let mut product = 1.0;
    for part in 0..parts {
        let hidden = Hidden::new(input, params.seed, part);
        let trial = match fit_on(pool, &hidden.input(input), &trial, &of_trial, devices, &OfTrial(monitor)) {
            // All rows of a class may be hidden, say.
            Err(error) if error.rows_fault() == Some(RowsFault::Degenerate) => return as_ever(),
            trial => trial?,
        };
        if hidden.count * HARDLY_ANY <= rows && input.held_out.is_none() && !params.measures_training() {
            let params = BoostingParams { rounds: Some(trial.rounds() as u32), early_stopping: None, ..trial.params };
            return Ok(Model { params, history: None, ..trial });
        }
        product *= trial.rounds() as f64 * (rows as f64 / (rows - hidden.count) as f64);
    }
    let of_all = rounds_of(libm::pow(product, 1.0 / parts as f64), 1.0);
    fit_on(pool, input, &found(of_all, step), options, devices, monitor)
}

/// Returns which trees the outputs get: of several classes one for all of them unless told otherwise, which needs more rounds than a tree each, and is
/// better at its best. It is not where values have directions, nor where sums of all outputs are many.
fn multi_strategy(input: &Input<'_>, params: &BoostingParams, kind: LossKind, loss: &dyn Loss) -> Option<MultiStrategy> {
    let sums = input.features.len().saturating_mul(loss.outputs());
    let shares = kind == LossKind::Multiclass && sums <= MOST_SHARED && params.monotone.values().all(|direction| *direction == 0);
    params.multi_strategy.or(shares.then_some(MultiStrategy::OneTree))
}

/// Watches a trial, whose rounds are nobody's to end: for those who watch the fit only its progress.
struct OfTrial<'a>(&'a dyn Monitor);

impl Monitor for OfTrial<'_> {
    fn round(&self, done: u32, total: u32, metric: Option<f64>) {
        self.0.round(done, total, metric);
    }

    fn device(&self, chosen: &str) {
        self.0.device(chosen);
    }

    fn interrupted(&self) -> bool {
        self.0.interrupted()
    }
}

/// The rows of a table that a trial does not train on.
struct Hidden {
    /// Whether a row is one of them, or held out.
    mask: Vec<bool>,
    /// By row 0 for a hidden one and 1 for one that is held out, where there are such.
    sets: Option<Vec<u32>>,
    count: usize,
}

impl Hidden {
    /// Hides one, drawn by `seed`, of each five consecutive training rows of a class (of all rows, where there are no classes); of
    /// more than five in large tables. `part`: the place behind the one that is drawn.
    fn new(input: &Input<'_>, seed: u64, part: usize) -> Hidden {
        let rows = input.target.rows();
        let trains = |row: usize| !input.held_out.is_some_and(|h| h[row]);
        let block = BLOCK.max((rows - input.held_out_rows()) / MOST_HIDDEN);
        let (codes, classes) = match &input.target {
            Target::Classes { codes, labels } => (Some(*codes), labels.len()),
            Target::Numbers(_) | Target::Several(_) => (None, 1),
        };
        let mut mask = input.held_out.map_or_else(|| vec![false; rows], <[bool]>::to_vec);
        let (mut count, mut blocks) = (0, vec![Block::default(); classes]);
        for row in (0..rows).filter(|row| trains(*row)) {
            let class = codes.map_or(0, |codes| codes[row] as usize);
            let own = &mut blocks[class];
            if own.rows == 0 {
                let random = Random::new(seed, Purpose::HiddenRows, class as u64);
                let drawn = below(random.u64(own.number), block.min(u32::MAX as usize) as u32) as usize;
                own.drawn = (drawn + part) % block;
            }
            if own.rows == own.drawn {
                own.row = row;
            }
            own.rows += 1;
            if own.rows == block {
                mask[own.row] = true;
                count += 1;
                *own = Block { number: own.number + 1, ..Block::default() };
            }
        }
        let sets = input.held_out.map(|held_out| held_out.iter().map(|held_out| *held_out as u32).collect());
        Hidden { mask, sets, count }
    }

    /// Returns the table with those rows held out, and measured first.
    fn input<'a>(&'a self, input: &'a Input<'_>) -> Input<'a> {
        let names = || vec!["hidden".to_string(), "held out".to_string()];
        let sets = self.sets.as_ref().map(|sets| EvalSets { names: names(), of_row: Cow::Borrowed(sets) });
        Input { held_out: Some(&self.mask), evaluation: Evaluation { sets, columns: vec![] }, ..input.clone() }
    }
}

/// Consecutive training rows of a class, of which one is hidden once they are complete.
#[derive(Clone, Copy, Default)]
struct Block {
    number: u64,
    rows: usize,
    /// Which of them is hidden, and its number in the table.
    drawn: usize,
    row: usize,
}
