//! Fitting a forest: checks the table, fixes the units of its numbers, and grows the trees.

mod constant;
mod fixed_point;
mod grow;

pub use constant::constant;

use self::fixed_point::{fixed_weights, numbers};
use self::grow::ForestFit;
use super::impurity::{BinaryImpurity, ClassImpurity, Logs};
use super::oob::Truth;
use super::params::{Criterion, Splitter};
use super::steps::{ForestDevices, Targets};
use super::table::FeatureRows;
use super::{Forest, ForestParams, Input, Monitor, Target};
use crate::column::FeatureType;
use crate::dataset::counted::Counted;
use crate::dataset::labels::Labels;
use crate::dataset::target::{self, TargetData};
use crate::dataset::{self, Batches, OwnRows, Snapshots, checks, own_rows};
use crate::error::{Error, Result};
use crate::memory;
use crate::parallel::pools;
use crate::parallel::thread_pool::ThreadPool;
use serde_json::Map;

/// The most rows of a table: a tree has fewer than twice as many nodes, which 32 bits count, and ranks leave two bits of
/// them (see [`super::oob`]).
const MOST_ROWS: usize = (1 << 30) - 2;

/// The most classes.
const MOST_CLASSES: usize = u16::MAX as usize;

/// What a fit is given beside a table and parameters.
#[derive(Clone, Copy, Default)]
pub struct FitOptions<'a> {
    /// The rows that the numeric features of the table are of, where other processes have the others: each makes the same fit, of the same
    /// target, weights and categories of all rows, and comes to the same forest. None where the features are of all rows.
    pub own: Option<OwnRows<'a>>,
    /// The numeric features that are not in the table, where they have no rows, but come in batches.
    pub batches: Option<Batches<'a>>,
    /// Where the trees of the fit are kept from time to time, and what was kept of them before.
    pub snapshots: Option<&'a dyn Snapshots>,
}

impl<'a> FitOptions<'a> {
    /// Returns where the rows of the features of a table of `rows` are.
    fn feature_rows(&self, rows: usize) -> FeatureRows<'a> {
        FeatureRows { own: self.own.unwrap_or(OwnRows::whole(rows)), batches: self.batches }
    }

    /// Checks that a fit in batches is asked for nothing that it does not do yet.
    fn check_batches(&self, params: &ForestParams) -> Result<()> {
        match self {
            FitOptions { batches: None, .. } => Ok(()),
            FitOptions { snapshots: Some(_), .. } => Err(Batches::not_yet("snapshot", "what keeps its state")),
            FitOptions { own: Some(own), .. } if !own.is_whole() => {
                Err(Batches::not_yet("collective", "a table that lies in several processes"))
            }
            _ if params.splitter != Splitter::Histogram => {
                let text = "splitter=\"exact\" and \"random\" rank all values of a feature: use \"histogram\"";
                Err(Error::parameter("batches", text))
            }
            _ => Ok(()),
        }
    }
}

/// Fits a random forest to a table with the steps of one of `devices`.
///
/// # Errors
/// What is wrong with the table or the parameters, naming the column or the parameter; [`Error::Memory`] where the machine (or the
/// GPU that is named) has not enough of it, before it is taken; [`Error::Interrupted`] when `monitor` asks to stop.
pub fn fit(input: &Input<'_>, params: &ForestParams, devices: &impl ForestDevices, monitor: &dyn Monitor) -> Result<Forest> {
    fit_with(input, params, &FitOptions::default(), devices, monitor)
}

/// Fits as [`fit`] does, from what `options` give: rows in several processes, features in batches, snapshots. The forest has the bytes of one
/// process that has all rows and was never ended.
///
/// # Errors
/// As [`fit`]; those of the collective, naming the first process that makes another fit, and in what; those of the batches, and
/// [`Error::Parameter`] where values are ranked, which takes all of them at once; where it can't go on from a snapshot, saying why.
pub fn fit_with(
    input: &Input<'_>,
    params: &ForestParams,
    options: &FitOptions<'_>,
    devices: &impl ForestDevices,
    monitor: &dyn Monitor,
) -> Result<Forest> {
    params.validate()?;
    options.check_batches(params)?;
    let table = input.table();
    let FeatureRows { own, .. } = options.feature_rows(table.target.rows());
    checks::check_one_target(&table, "fit_forest")?;
    if !own.is_whole() {
        let mut more = Map::new();
        more.insert("snapshot_every".into(), options.snapshots.map(Snapshots::every).into());
        own_rows::begin(&own, params, more, &own_rows::schema(&table), table.target.rows())?;
    }
    let rows = checks::check_table_of(&table, own.count, options.feature_rows(0).batched())?;
    params.check_features(&columns_of(&table))?;
    if rows > MOST_ROWS {
        return Err(Error::Data(format!("{rows} rows: a forest is fitted on at most {MOST_ROWS}")));
    }
    let asked = pools::asked(params.n_threads);
    // No more threads than there is work for.
    let work = rows.saturating_mul(params.trees as usize) / 2048;
    let pool = ThreadPool::of_fit(asked.min(work).max(1), !own.is_whole())?;
    let forest = pool.enter(|| fit_on(&pool, &table, params, options, devices, monitor))?;
    own_rows::end(&own, rows, || forest.to_bytes()).map(|()| forest)
}

/// Names and types of a table's features.
fn columns_of<'t>(table: &'t dataset::Input<'_>) -> Vec<(&'t str, &'t FeatureType)> {
    table.features.iter().map(|f| (f.name(), f.dtype())).collect()
}

/// What the criterion comes to for this target.
fn resolve_criterion(criterion: Criterion, classes: bool) -> Result<Criterion> {
    match (criterion, classes) {
        (Criterion::Auto, true) => Ok(Criterion::Gini),
        (Criterion::Auto, false) => Ok(Criterion::SquaredError),
        (Criterion::Gini | Criterion::Entropy, true) | (Criterion::SquaredError | Criterion::Poisson, false) => Ok(criterion),
        (_, true) => Err(Error::parameter("criterion", "this criterion needs a numeric target: use \"gini\" or \"entropy\"")),
        (_, false) => Err(Error::parameter("criterion", "this criterion needs a target of classes: use \"squared_error\" or \"poisson\"")),
    }
}

fn fit_on(
    pool: &ThreadPool,
    table: &dataset::Input<'_>,
    params: &ForestParams,
    options: &FitOptions<'_>,
    devices: &impl ForestDevices,
    monitor: &dyn Monitor,
) -> Result<Forest> {
    let classes = table.target.labels().map(Labels::len);
    let criterion = resolve_criterion(params.criterion, classes.is_some())?;
    reserve_rows(table)?;
    checks::check_classes(table)?;
    if classes.is_some_and(|c| c > MOST_CLASSES) {
        return Err(Error::column(
            &table.target_name,
            format!("has {} classes: at most {MOST_CLASSES} are told apart", classes.unwrap_or(0)),
        ));
    }
    params.check_target(classes.is_some())?;
    let values = target::target_numbers(table, None, &|_| Ok(()))?;
    checks::check_positive(&table.target, params.positive.as_ref())?;
    let poisson = criterion == Criterion::Poisson;
    check_counts(&table.target_name, &values, criterion)?;
    let data = TargetData::new(table, values, &params.class_weight)?;
    if let Some(rows) = data.rows_that_count() {
        drop(data);
        return without_weightless(pool, table, rows, params, options, devices, monitor);
    }
    let interrupted = || monitor.interrupted();
    let (rows, snapshots) = (options.feature_rows(table.target.rows()), options.snapshots);
    let mut fit = ForestFit { pool, table, params, rows, snapshots, criterion, devices, monitor, gain_unit: 1.0 };
    let draws = params.bootstrap.draws(table.target.rows()).unwrap_or(table.target.rows());
    let (weights, fixed_unit) = data.weights.as_deref().map_or((None, 1.0), |w| fixed_weights(w, draws));
    let unit = fixed_unit * data.weight_unit;
    let logs = || (criterion == Criterion::Entropy).then(|| Logs::new(draws as u64));
    match &table.target {
        Target::Classes { codes, .. } => {
            let classes = classes.unwrap_or(0);
            let truth = Truth::Classes(codes, classes);
            if classes == 2 && weights.is_none() {
                let two = BinaryImpurity { codes, logs: logs() };
                fit.run(&two, Targets::Two(&two), truth, unit, &interrupted)
            } else {
                let several = ClassImpurity { codes, classes, weights, logs: logs() };
                fit.run(&several, Targets::Classes(&several), truth, unit, &interrupted)
            }
        }
        Target::Numbers(_) | Target::Several(_) => {
            let numbers = numbers(&data, weights, fixed_unit, draws, poisson).ok_or_else(|| {
                Error::column(&table.target_name, "the target's range, times the weights, is larger than a float can hold").of_values()
            })?;
            fit.gain_unit = numbers.gain_unit;
            fit.run(&numbers, Targets::Numbers(&numbers), Truth::Numbers(&data.values), unit, &interrupted)
        }
    }
}

/// Checks that there is memory for the targets and weights of the rows.
fn reserve_rows(input: &dataset::Input<'_>) -> Result<()> {
    let rows = input.target.rows() as u64;
    // As floats; weights as floats and as integers; numbers as integers and as ranks.
    let weight = if input.weight.is_some() { 16 } else { 0 };
    let numbers = if matches!(input.target, Target::Numbers(_)) { 12 } else { 0 };
    memory::check(&format!("the targets of {rows} rows"), rows * (8 + weight + numbers), "fit on fewer rows")
}

/// The forest of the rows `rows` of a table, which weigh something. Nothing is predicted out of bag for the others.
fn without_weightless(
    pool: &ThreadPool,
    table: &dataset::Input<'_>,
    rows: Vec<usize>,
    params: &ForestParams,
    options: &FitOptions<'_>,
    devices: &impl ForestDevices,
    monitor: &dyn Monitor,
) -> Result<Forest> {
    let at = options.feature_rows(table.target.rows());
    let counted = Counted::of_own(table, &at.own, rows)?;
    let weighty = counted.input();
    checks::check_rows(counted.rows.len(), None, &weighty.target_name)?;
    let batches = at.batches.as_ref().map(|batches| batches.of_rows(&counted.rows));
    let among = FitOptions { own: Some(at.own.among(&counted.rows)), batches, ..*options };
    let mut forest = fit_on(pool, &weighty, params, &among, devices, monitor)?;
    let all = table.target.rows();
    for predictions in forest.oob.iter_mut().flat_map(|o| &mut o.predictions) {
        let own = std::mem::replace(predictions, vec![f64::NAN; all]);
        counted.rows.iter().zip(own).for_each(|(row, p)| predictions[*row] = p);
    }
    Ok(Forest { rows: all as u64, ..forest })
}

/// Checks that Poisson's targets are not negative.
fn check_counts(name: &str, target: &[f64], criterion: Criterion) -> Result<()> {
    match target.iter().enumerate().find(|(_, y)| criterion == Criterion::Poisson && **y < 0.0) {
        None => Ok(()),
        Some((row, y)) => {
            let message = format!("the target is {y} in row {row}, and criterion=\"poisson\" needs zero or a positive number");
            Err(Error::column(name, message).of_values())
        }
    }
}
