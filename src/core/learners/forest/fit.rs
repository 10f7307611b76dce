//! Fitting a forest.

use super::codes::{Code, Meaning, Rank, View};
use super::growing::{GrowingTree, borders_used};
use super::impurity::{BinaryImpurity, ClassImpurity, Impurity, Logs, RegressionImpurity};
use super::oob::{Truth, Walker};
use super::params::{Criterion, Splitter};
use super::steps::{ForestDevices, ForestWork, GrowTree, GrowerTask, Limits, Targets};
use super::table::CodeTable;
use super::{Forest, ForestParams, Input, Monitor, Target, Tree, bootstrap, oob, table};
use crate::dataset::counted::{Counted, rows_that_count};
use crate::dataset::labels::Labels;
use crate::dataset::training::Training;
use crate::dataset::weights::row_weights;
use crate::dataset::{checks, target};
use crate::device::Place;
use crate::error::{Error, Result};
use crate::memory;
use crate::memory::{Reservation, product, sum};
use crate::model::{Feature, unasked};
use crate::numerics::fixed::{factor, round64};
use crate::numerics::reduce::weighted_mean;
use crate::parallel::thread_pool::ThreadPool;
use crate::provenance::Provenance;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// The most rows of a table: a tree has fewer than twice as many nodes, which 32 bits count, and ranks leave two bits of
/// them (see [`super::oob`]).
const MOST_ROWS: usize = (1 << 30) - 2;

/// The most classes.
const MOST_CLASSES: usize = u16::MAX as usize;

/// Fits a random forest to a table with the steps of one of `devices`.
///
/// # Errors
/// What is wrong with the table or the parameters, naming the column or the parameter; [`Error::Memory`] where the machine (or the
/// GPU that is named) has not enough of it, before it is taken; [`Error::Interrupted`] when `monitor` asks to stop.
pub fn fit(input: &Input<'_>, params: &ForestParams, devices: &impl ForestDevices, monitor: &dyn Monitor) -> Result<Forest> {
    params.validate()?;
    let table = input.as_boosting();
    let rows = checks::check_table(&table)?;
    if rows > MOST_ROWS {
        return Err(Error::Data(format!("{rows} rows: a forest is fitted on at most {MOST_ROWS}")));
    }
    let asked = params.n_threads.map_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()), |n| n as usize);
    // No more threads than there is work for.
    let work = rows.saturating_mul(params.trees as usize) / 2048;
    let pool = ThreadPool::new(asked.min(work).max(1))?;
    pool.enter(|| fit_on(&pool, input, &table, params, devices, monitor))
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
    input: &Input<'_>,
    table: &crate::dataset::Input<'_>,
    params: &ForestParams,
    devices: &impl ForestDevices,
    monitor: &dyn Monitor,
) -> Result<Forest> {
    let classes = match &input.target {
        Target::Classes { labels, .. } => Some(labels.len()),
        Target::Numbers(_) => None,
    };
    let criterion = resolve_criterion(params.criterion, classes.is_some())?;
    reserve_rows(input)?;
    checks::check_classes(table)?;
    if classes.is_some_and(|c| c > MOST_CLASSES) {
        return Err(Error::column(
            &input.target_name,
            format!("has {} classes: at most {MOST_CLASSES} are told apart", classes.unwrap_or(0)),
        ));
    }
    params.check_target(classes.is_some())?;
    let target = target::target_numbers(table, &|_| Ok(()))?;
    checks::check_positive(&input.target, params.positive.as_ref())?;
    let poisson = criterion == Criterion::Poisson;
    check_counts(&input.target_name, &target, criterion)?;
    let weight = row_weights(table, &params.class_weight)?;
    if let Some(rows) = rows_that_count(weight.as_ref().map(|w| &w.values[..])) {
        drop((target, weight));
        return without_weightless(pool, table, rows, params, devices, monitor);
    }
    let (weight, weight_unit) = weight.map_or((None, 1.0), |w| (Some(w.values), w.unit));
    let interrupted = || monitor.interrupted();
    let mut fit = ForestFit { pool, input, params, criterion, devices, monitor, table, gain_unit: 1.0 };
    let draws = params.bootstrap.draws(target.len()).unwrap_or(target.len());
    let (weights, fixed_unit) = weight.as_deref().map_or((None, 1.0), |w| fixed_weights(w, draws));
    let unit = fixed_unit * weight_unit;
    let logs = || (criterion == Criterion::Entropy).then(|| Logs::new(draws as u64));
    match &input.target {
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
        Target::Numbers(_) => {
            let numbers = numbers(&target, weight.as_deref(), weights, fixed_unit, draws, poisson).ok_or_else(|| {
                Error::column(&input.target_name, "the target's range, times the weights, is larger than a float can hold").of_values()
            })?;
            fit.gain_unit = numbers.gain_unit;
            fit.run(&numbers, Targets::Numbers(&numbers), Truth::Numbers(&target), unit, &interrupted)
        }
    }
}

/// Checks that there is memory for the targets and weights of the rows.
fn reserve_rows(input: &Input<'_>) -> Result<()> {
    let rows = input.features[0].len() as u64;
    // As floats; weights as floats and as integers; numbers as integers and as ranks.
    let weight = if input.weight.is_some() { 16 } else { 0 };
    let numbers = if matches!(input.target, Target::Numbers(_)) { 12 } else { 0 };
    memory::check(&format!("the targets of {rows} rows"), rows * (8 + weight + numbers), "fit on fewer rows")
}

/// The forest of the rows `rows` of a table, which weigh something. Nothing is predicted out of bag for the others.
fn without_weightless(
    pool: &ThreadPool,
    table: &crate::dataset::Input<'_>,
    rows: Vec<usize>,
    params: &ForestParams,
    devices: &impl ForestDevices,
    monitor: &dyn Monitor,
) -> Result<Forest> {
    let counted = Counted::new(table, rows)?;
    let own = counted.input();
    checks::check_rows(counted.rows.len(), None, &own.target_name)?;
    let input = Input::of_boosting(&own);
    let mut forest = fit_on(pool, &input, &own, params, devices, monitor)?;
    let all = table.features[0].len();
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

/// Fits a forest of one tree that is one leaf: for every row it predicts the mean of the training rows, or the shares of
/// their classes.
///
/// It is for tables that [`fit`] refuses as [degenerate](crate::error::RowsFault::Degenerate). Nothing is measured out of bag; where it is asked for, the
/// permutation importance of every feature is 0. The target may have a single label. No device is used.
///
/// # Errors
/// As [`fit`], but for tables of one row or of one class; degenerate is still one of no rows, or of none that weighs
/// anything.
///
/// ```
/// use taiga_core::column::Column;
/// use taiga_core::learners::forest::{ForestParams, Input, Target, constant};
/// use taiga_core::dataset::labels::Labels;
///
/// let input = Input {
///     features: vec![Column::from_f64("x", &[1.0])],
///     target: Target::Classes { codes: &[1], labels: Labels::Boolean },
///     target_name: "y".into(),
///     weight: None,
/// };
/// let forest = constant(&input, &ForestParams::default()).unwrap();
/// assert_eq!(forest.trees[0].sums, [0, 1]);
/// ```
pub fn constant(input: &Input<'_>, params: &ForestParams) -> Result<Forest> {
    params.validate()?;
    let table = input.as_boosting();
    checks::check_columns(&table)?;
    ThreadPool::new(1)?.enter(|| constant_on(input, &table, params))
}

fn constant_on(input: &Input<'_>, table: &crate::dataset::Input<'_>, params: &ForestParams) -> Result<Forest> {
    let training = Training::new(table)?;
    checks::check_positive(&input.target, params.positive.as_ref())?;
    let labels = match &input.target {
        Target::Classes { labels, .. } => Some(labels.clone()),
        Target::Numbers(_) => None,
    };
    let criterion = resolve_criterion(params.criterion, labels.is_some())?;
    let weight = training.weights(&training.input(table), &params.class_weight)?;
    let rows = training.rows.len();
    let (weight, weight_unit) = weight.map_or((None, 1.0), |w| (Some(w.values), w.unit));
    let (weights, unit) = weight.as_deref().map_or((None, 1.0), |w| fixed_weights(w, rows));
    let weight_of = |row: usize| weights.as_ref().map_or(1, |w| w[row]) as u64;
    let (mut sums, mut means) = (vec![0; labels.as_ref().map_or(1, Labels::len)], vec![]);
    match &input.target {
        Target::Classes { codes, .. } => codes.iter().enumerate().for_each(|(row, class)| sums[*class as usize] += weight_of(row)),
        Target::Numbers(_) => {
            let target = target::target_numbers(table, &|_| Ok(()))?;
            check_counts(&input.target_name, &target, criterion)?;
            sums[0] = (0..rows).map(weight_of).sum();
            means.push(weighted_mean(&target, weight.as_deref()));
        }
    }
    let counted = (0..rows).filter(|row| weight_of(*row) > 0).count().min(u32::MAX as usize) as u32;
    Ok(Forest {
        params: recorded(params),
        criterion,
        target: input.target_name.clone(),
        features: unasked(table),
        labels,
        sets: vec![],
        trees: vec![Tree { nodes: vec![], counts: vec![counted], sums, means }],
        rows: rows as u64,
        unit: unit * weight_unit,
        gain_unit: 1.0,
        oob: None,
        permutation: params.permutation_importance.then(|| vec![0.0; input.features.len()]),
        provenance: Provenance::default(),
    })
}

/// The parameters as a forest records them: without what never changes one.
fn recorded(params: &ForestParams) -> ForestParams {
    ForestParams { n_threads: None, device: ForestParams::default().device, ..params.clone() }
}

/// Bits that a number may have so that `draws` of them stay below 2^62.
fn bits(draws: usize, most: i32) -> i32 {
    let rows = usize::BITS - draws.next_power_of_two().leading_zeros() - 1;
    (62 - rows as i32).min(most)
}

/// Weights as integers, none of them 0 that is not 0; and what a unit is worth.
fn fixed_weights(weight: &[f32], draws: usize) -> (Option<Vec<u32>>, f64) {
    let largest = weight.iter().fold(0.0f32, |m, w| m.max(*w));
    let factor = factor(largest.to_bits(), bits(draws, 31));
    let fixed = |w: &f32| if *w > 0.0 { round64(*w as f64 * factor).max(1) as u32 } else { 0 };
    (Some(weight.iter().map(fixed).collect()), 1.0 / factor)
}

/// A weight of fewer units than this is rounded by more than a part in 500: targets are multiplied by what it was rounded to.
const FEW_UNITS: u32 = 1 << 8;

/// The unit that gains are told in: 1 where f32 has room for the square of the largest distance from the centre (`poisson`:
/// for the distance), else an even power of two of about that size.
fn gain_unit(largest: f64, poisson: bool) -> f64 {
    let exponent = if largest > 0.0 { libm::ilogb(largest) } else { 0 };
    let unit = match poisson {
        true if (-100..=120).contains(&exponent) => 0,
        true => exponent.clamp(-1000, 1000),
        false if (-50..=63).contains(&exponent) => 0,
        false => 2 * exponent.clamp(-500, 500),
    };
    libm::ldexp(1.0, unit)
}

/// Targets in fixed point; none where they have no finite range.
fn numbers(
    target: &[f64],
    weight: Option<&[f32]>,
    weights: Option<Vec<u32>>,
    unit: f64,
    draws: usize,
    poisson: bool,
) -> Option<RegressionImpurity> {
    let centre = if poisson { 0.0 } else { weighted_mean(target, weight) };
    let weigh = |i: usize| match (&weights, weight) {
        (Some(units), Some(_)) if units[i] < FEW_UNITS => units[i] as f64 * unit,
        (_, weight) => weight.map_or(1.0, |w| w[i] as f64),
    };
    let value = |i: usize| (target[i] - centre) * weigh(i);
    let largest = (0..target.len()).fold(0.0f64, |m, i| m.max(value(i).abs()));
    if !largest.is_finite() {
        return None;
    }
    let exponent = if largest > 0.0 { libm::ilogb(largest) + 1 } else { 0 };
    let scale = libm::ldexp(1.0, (bits(draws, 50) - exponent).clamp(-1000, 1000));
    let mut levels = vec![0u32; target.len()];
    table::ranks(target, &mut levels);
    let values = (0..target.len()).map(|i| round64(value(i) * scale)).collect();
    let distance = target.iter().fold(0.0f64, |m, y| m.max((y - centre).abs()));
    // A value is worth 1 / scale and a weight `unit`.
    let (unit, gain_unit) = (1.0 / (scale * unit), gain_unit(distance, poisson));
    Some(RegressionImpurity { values, levels, weights, unit, gain_unit, centre, poisson })
}

/// What the steps of a fit share.
struct ForestFit<'a, 'c, D> {
    pool: &'a ThreadPool,
    input: &'a Input<'c>,
    table: &'a crate::dataset::Input<'c>,
    params: &'a ForestParams,
    criterion: Criterion,
    devices: &'a D,
    monitor: &'a dyn Monitor,
    /// What gains are told in units of.
    gain_unit: f64,
}

/// What trees are grown from, and by.
struct Growing<'a, K, C, G> {
    grower: &'a G,
    kind: &'a K,
    view: View<'a, C>,
    interrupted: &'a (dyn Fn() -> bool + Sync),
}

/// A tree, and the rise of its error for each feature that is shuffled, where that is measured.
type Measured = (GrowingTree, Option<Vec<f64>>);

/// What the trees come to.
struct GrownForest {
    parts: Vec<GrowingTree>,
    permutation: Option<Vec<f64>>,
}

impl<D: ForestDevices> ForestFit<'_, '_, D> {
    /// The device, of which the monitor is told.
    fn place(&self, refused: Option<&str>) -> Result<Place> {
        let rows = self.input.features[0].len();
        let drawn = self.params.features_drawn(self.input.features.len(), matches!(self.input.target, Target::Classes { .. }));
        // About 2 ns a row, feature and level (measured on Zen 4 at 3.5 GHz).
        let levels = (rows.ilog2() + 1).min(self.params.depth.unwrap_or(u32::MAX));
        let seconds = 2e-9 * rows as f64 * drawn as f64 * levels as f64 * self.params.trees as f64;
        let place = self.devices.place(refused, seconds, self.pool.size())?;
        self.monitor.device(place.why());
        Ok(place)
    }

    /// Why a GPU can't grow this forest, where it can't.
    fn refused(&self, targets: Targets<'_>) -> Option<&'static str> {
        let many = matches!(targets, Targets::Classes(c) if c.classes > 255);
        let refused =
            [(many, "there are at most 255 classes there"), (self.input.features.len() > 4096, "there are at most 4,096 features there")];
        refused.into_iter().find(|r| r.0).map(|r| r.1)
    }

    /// The forest.
    fn run<K: Impurity>(
        &self,
        kind: &K,
        targets: Targets<'_>,
        truth: Truth<'_>,
        unit: f64,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Forest> {
        let place = self.place(self.refused(targets))?;
        let growing = if matches!(place, Place::Cpu(_)) { self.growing_bytes(kind) } else { 0 };
        let _reserved = self.reserve(self.table_bytes(growing, truth.outputs()))?;
        match self.params.splitter {
            Splitter::Histogram => {
                let table = table::binned(self.pool, self.table, &self.params.border_params(), interrupted)?;
                self.grow(kind, targets, &truth, unit, &table, place, interrupted)
            }
            Splitter::Exact => {
                let table = table::ranked::<u32>(self.pool, self.table, self.params, interrupted)?;
                self.grow(kind, targets, &truth, unit, &table, place, interrupted)
            }
            Splitter::Random => {
                let table = table::ranked::<Rank>(self.pool, self.table, self.params, interrupted)?;
                self.grow(kind, targets, &truth, unit, &table, place, interrupted)
            }
        }
    }

    /// Bytes of the codes, and of the larger of what is needed beside them: what values are ranked by, for each thread; or sums of
    /// predictions out of bag together with `growing`. (The predictions take the sums' place, block after block.) No less than that.
    fn table_bytes(&self, growing: u64, outputs: usize) -> u64 {
        let (rows, features) = (self.input.features[0].len() as u64, self.input.features.len() as u64);
        // By feature and by row; or ranks.
        let (code, ranking) = match self.params.splitter {
            Splitter::Histogram => (2, 0),
            Splitter::Exact | Splitter::Random => (4, 16 * rows * features.min(self.pool.size() as u64)),
        };
        let sums = if self.params.oob() { product(&[rows, 4 + 8 * outputs as u64]) } else { 0 };
        sum(&[product(&[code, rows, features]), ranking.max(sum(&[sums, growing]))])
    }

    /// Bytes of the rows of the trees that grow at the same time: how often each is drawn, and those that are, twice.
    fn growing_bytes<K: Impurity>(&self, kind: &K) -> u64 {
        let rows = self.input.features[0].len();
        let weigh = (0..rows as u32).filter(|row| kind.entry(*row, 1).is_some()).count() as f64;
        // A little less than the share of the rows that is drawn.
        let drawn = self.params.bootstrap.draws(rows).map_or(1.0, |d| 0.95 * (1.0 - (-(d as f64) / rows as f64).exp()));
        let tree = 2 * rows as u64 + (2.0 * weigh * drawn) as u64 * size_of::<K::Entry>() as u64;
        tree * (self.params.trees as u64).min(self.pool.size() as u64)
    }

    /// Reserves `bytes` for a part of the fit.
    ///
    /// # Errors
    /// [`Error::Memory`].
    fn reserve(&self, bytes: u64) -> Result<Reservation> {
        let (rows, features, threads) = (self.input.features[0].len(), self.input.features.len(), self.pool.size());
        let less = match self.params.splitter {
            Splitter::Histogram => "lower `n_threads`, or fit on fewer rows or features",
            Splitter::Exact | Splitter::Random => "use splitter=\"histogram\", lower `n_threads`, or fit on fewer rows or features",
        };
        let s = if threads == 1 { "" } else { "s" };
        memory::reserve(&format!("a forest of {rows} rows and {features} features by {threads} thread{s}"), bytes, less)
    }

    /// The trees, where a GPU is to grow them and has the memory; `sums`: what rows out of bag are predicted, where they are.
    fn on_gpu<C: Code>(
        &self,
        place: Place,
        targets: Targets<'_>,
        view: View<'_, C>,
        sums: Option<&mut oob::PredictionSums>,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Vec<GrowingTree>>> {
        if matches!(place, Place::Cpu(_)) {
            return Ok(None);
        }
        let limits = self.limits(view.features.len(), matches!(self.input.target, Target::Classes { .. }));
        let oob = sums.as_ref().map(|s| s.units());
        let (pool, criterion, params) = (self.pool, self.criterion, self.params);
        let work = ForestWork { pool, view, targets, criterion, limits, params, oob, interrupted };
        let grown = self.devices.grow(&place, &work)?;
        if let (Some(sums), Some(made)) = (sums, grown.as_ref().and_then(|grown| grown.sums.as_ref())) {
            sums.take(made);
        }
        Ok(grown.map(|grown| grown.parts))
    }

    fn view<'t, C: Code>(&self, table: &'t CodeTable<C>) -> View<'t, C> {
        let stride = self.input.features[0].len();
        View { features: &table.features, splitter: self.params.splitter, codes: &table.codes, by_row: &table.by_row, stride, decode: None }
    }

    fn limits(&self, features: usize, classes: bool) -> Limits {
        let params = self.params;
        Limits {
            depth: params.depth.unwrap_or(u32::MAX),
            leaves: params.leaves,
            min_data: params.min_data_in_leaf as u64,
            min_gain: params.min_gain / self.gain_unit,
            drawn: params.features_drawn(features, classes),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn grow<K: Impurity, C: Code>(
        &self,
        kind: &K,
        targets: Targets<'_>,
        truth: &Truth<'_>,
        unit: f64,
        table: &CodeTable<C>,
        place: Place,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Forest> {
        let view = self.view(table);
        let asked_gpu = matches!(place, Place::Gpu(..));
        let mut sums = self.params.oob().then(|| oob::PredictionSums::new(view.stride, truth)).transpose()?;
        let ready = self.on_gpu(place, targets, view, sums.as_mut(), interrupted)?;
        let predicted = ready.is_some();
        if asked_gpu && !predicted {
            drop(self.reserve(self.growing_bytes(kind))?);
        }
        let ready: Vec<Mutex<Option<GrowingTree>>> = ready.into_iter().flatten().map(|part| Mutex::new(Some(part))).collect();
        let open = sums.as_ref().filter(|_| !predicted);
        let GrownForest { parts, permutation } = self.trees(kind, truth, view, &ready, open, interrupted)?;
        let oob = sums.map(|sums| sums.finish(truth));
        let borders = borders_used(&parts, view.features.len());
        let (mut sets, mut known) = (vec![], HashMap::new());
        let asked = asked(&parts, view.features.len());
        let trees = parts.into_iter().map(|part| part.finish(&borders, &mut sets, &mut known)).collect();
        let labels: Option<Labels> = match &self.input.target {
            Target::Classes { labels, .. } => Some(labels.clone()),
            Target::Numbers(_) => None,
        };
        let feature = |(f, borders): (usize, Vec<f64>)| Feature {
            name: self.input.features[f].name().into(),
            dtype: self.input.features[f].dtype().clone(),
            borders,
            categories: match &table.features[f].meaning {
                Meaning::Categories(categories) if asked[f] => Some(categories.clone()),
                _ => None,
            },
        };
        Ok(Forest {
            params: recorded(self.params),
            criterion: self.criterion,
            target: self.input.target_name.clone(),
            features: borders.into_iter().enumerate().map(feature).collect(),
            labels,
            sets,
            trees,
            rows: view.stride as u64,
            unit,
            gain_unit: self.gain_unit,
            oob,
            permutation,
            provenance: Provenance::default(),
        })
    }

    /// Trees by all threads: each takes the next tree, and helps with the nodes of the last ones. Trees that are `ready`
    /// are only measured. `sums`: to which rows out of bag are to be added.
    fn trees<K: Impurity, C: Code>(
        &self,
        kind: &K,
        truth: &Truth<'_>,
        view: View<'_, C>,
        ready: &[Mutex<Option<GrowingTree>>],
        sums: Option<&oob::PredictionSums>,
        asked_to_stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<GrownForest> {
        let params = self.params;
        let stop = AtomicBool::new(false);
        let interrupted = || {
            if !stop.load(Ordering::Relaxed) && asked_to_stop() {
                stop.store(true, Ordering::Relaxed);
            }
            stop.load(Ordering::Relaxed)
        };
        let limits = self.limits(view.features.len(), matches!(truth, Truth::Classes(..)));
        let parallel = self.pool.size() > 1;
        let grower = self.devices.grower(GrowerTask { kind, view, limits, parallel, interrupted: &interrupted });
        let growing = Growing { grower: &grower, kind, view, interrupted: &interrupted };
        let (next, done) = (AtomicU32::new(0), Mutex::new(0));
        let shares = self.pool.each(|_| {
            let (mut mine, mut buffers) = (vec![], (vec![], vec![]));
            loop {
                let tree = next.fetch_add(1, Ordering::Relaxed);
                if tree >= params.trees {
                    return Ok(mine);
                }
                let ready = ready.get(tree as usize).and_then(|part| part.lock().unwrap_or_else(PoisonError::into_inner).take());
                mine.push((tree, self.tree(&growing, truth, sums, tree, ready, &mut buffers)?));
                let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                *done += 1;
                self.monitor.round(*done, params.trees, None);
            }
        });
        let mut grown: Vec<(u32, Measured)> = shares.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        grown.sort_unstable_by_key(|g| g.0);
        let (parts, measured): (Vec<GrowingTree>, Vec<Option<Vec<f64>>>) = grown.into_iter().map(|g| g.1).unzip();
        let permutation = params.permutation_importance.then(|| {
            let known: Vec<&Vec<f64>> = measured.iter().flatten().collect();
            let mean = |f: usize| known.iter().map(|m| m[f]).sum::<f64>() / known.len().max(1) as f64;
            (0..view.features.len()).map(mean).collect()
        });
        Ok(GrownForest { parts, permutation })
    }

    /// One tree, and the rise of its error for each feature that is shuffled.
    fn tree<K: Impurity, C: Code>(
        &self,
        growing: &Growing<'_, K, C, impl GrowTree<K>>,
        truth: &Truth<'_>,
        sums: Option<&oob::PredictionSums>,
        tree: u32,
        ready: Option<GrowingTree>,
        buffers: &mut (Vec<K::Entry>, Vec<K::Entry>),
    ) -> Result<Measured> {
        let (params, n) = (self.params, growing.view.stride);
        let measured = sums.is_some() || params.permutation_importance;
        let part = match ready {
            Some(part) if !measured => return Ok((part, None)),
            ready => ready,
        };
        let mut counts = bootstrap::counts(params.bootstrap, n, params.seed, tree);
        let weighs = |row: usize| counts[row] > 0 && growing.kind.entry(row as u32, 1).is_some();
        if !(0..n).any(weighs) {
            // No row that weighs anything was drawn: all of them count, and none is left out.
            counts.fill(1);
        }
        let part = match part {
            Some(part) => part,
            None => growing.grower.grow(&counts, params.seed, tree, buffers)?,
        };
        if !measured {
            return Ok((part, None));
        }
        let left_out: Vec<u32> = (0..n as u32).filter(|row| counts[*row as usize] == 0).collect();
        let walker = Walker::new(&growing.view, &part);
        if let Some(sums) = sums {
            sums.check_memory(&part)?;
            sums.add(&walker, &part, &left_out, tree);
        }
        let measured = params
            .permutation_importance
            .then(|| oob::permutation(&walker, &part, &left_out, truth, (params.seed, tree), growing.interrupted))
            .flatten();
        if (growing.interrupted)() {
            return Err(Error::Interrupted);
        }
        Ok((part, measured))
    }
}

/// Which features splits ask about.
fn asked(parts: &[GrowingTree], features: usize) -> Vec<bool> {
    let mut asked = vec![false; features];
    parts.iter().flat_map(|p| &p.nodes).for_each(|n| asked[n.feature as usize] = true);
    asked
}
